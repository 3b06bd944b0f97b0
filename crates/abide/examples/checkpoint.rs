//! Takes a snapshot of the files before a risky step, and rewinds to it. A rewind checkpoints the
//! present first, so it can be undone; the files and the conversation go back together or each by
//! itself.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;

use abide::checkpoint::{RewindWatch, Trigger};
use abide::{CheckpointRequest, Message, NewSession, RewindRequest, SessionFields, Store};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let project = tempfile::tempdir()?;
    let (code, notes) = (project.path().join("code.rs"), project.path().join("notes.md"));
    fs::write(&code, "fn main() {}\n")?;

    let store = Store::open_or_init(project.path())?;
    let mut new = NewSession::titled("Refactor");
    new.fields.workspace = Some(SessionFields::workspace_text(project.path()));
    let session = store.create(new)?;
    session.append(Message::user("Refactor everything."))?.wait()?;

    let request = CheckpointRequest {
        label: Some("before".to_owned()),
        trigger: Trigger::Risk,
        ..CheckpointRequest::default()
    };
    let made = session.checkpoint(&request)?;
    let files = made.checkpoint.workspace.map_or(0, |counts| counts.files);
    println!("checkpoint {} holds {files} file", made.number);

    // The step goes wrong.
    fs::write(&code, "fn mian( {}\n")?;
    fs::write(&notes, "I may have broken it.\n")?;
    session.append(Message::assistant("I refactored everything."))?.wait()?;

    let before = session.view().resolve("before")?;
    let request = RewindRequest { files: true, conversation: true, ..RewindRequest::default() };
    let watch = RewindWatch::default();
    let plan = session.plan_rewind(&before, &request, &watch)?;
    let done = session.rewind(plan, &watch)?;
    println!("rewound: {} changed, {} deleted", done.files.changed, done.files.deleted);
    assert_eq!(fs::read_to_string(&code)?, "fn main() {}\n");
    assert!(!notes.exists());
    assert_eq!(session.context()?.len(), 1, "the model does not see what it said since");

    let undo = session.plan_undo(&watch)?;
    session.rewind(undo, &watch)?;
    assert!(notes.exists());
    assert_eq!(session.context()?.len(), 2);
    println!("undone: the files and the conversation are as they were");
    Ok(session.close()?)
}
