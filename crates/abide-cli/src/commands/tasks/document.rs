//! `abide tasks document`: stores documents with a task, and prints them.

use std::path::PathBuf;

use abide::{
    SessionRef,
    locate::read_small_file,
    tasks::{TaskChange, TaskDocuments, TaskError, TaskId},
};
use abide_transcript::escape;

use super::writing;
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::error::{CommandError, at};
use crate::session_args::{SessionOption, SessionPurpose};

/// The largest document that is stored.
const MOST_BYTES: u64 = 1 << 20;

/// Store a document with a task, or print the stored ones
///
/// The current text of FILE is recorded with the task; later changes of the file have no effect.
/// `abide run` gives the text to the agent, and `abide tasks export` writes it, except as Markdown.
/// Storing the same FILE again replaces its text. Without FILE, the stored texts are printed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide tasks document P1.M1 docs/parser.md
  abide tasks document P1.M1")]
pub(crate) struct TasksDocumentArgs {
    /// The task
    #[arg(value_name = "ID")]
    task: String,
    /// A UTF-8 text file of at most 1 MiB; the document gets the name of the file
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    session: SessionOption,
    /// Print {"items":…,"writes_saved":…,"tasks":[…]}; without FILE, {"NAME":"TEXT",…}
    #[arg(long)]
    json: bool,
}

impl TasksDocumentArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let Some(file) = &self.file else { return self.print(surroundings) };
        let path = surroundings.absolute(file);
        let name = file.to_str().ok_or_else(|| {
            CommandError::failed(format!("the name {} is not UTF-8", file.display()))
        })?;
        let bytes = read_small_file(&path, MOST_BYTES).map_err(at("read", file.as_path()))?;
        let text = document_text(name, bytes)?;
        let mut tasks = writing::open_session_tasks(&self.session, surroundings)?;
        let task = TaskId(self.task.clone());
        let node = tasks.tree().get(task.as_str()).filter(|node| node.known);
        let Some(node) = node else { return Err(unknown_task(task)) };
        let mut documents = tasks.session().view().documents_of(node)?;
        documents.store(name, text);
        tasks.change(TaskChange {
            task,
            documents: Some(documents.names),
            document_texts: documents.texts,
            ..TaskChange::default()
        })?;
        writing::write_tasks(tasks, self.json)
    }

    /// Prints the texts that are stored.
    fn print(&self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::Read, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let tree = view.tasks()?;
        let node = tree.get(&self.task).filter(|node| node.known);
        let Some(node) = node else { return Err(unknown_task(TaskId(self.task.clone()))) };
        let TaskDocuments { names, texts } = view.documents_of(node)?;
        let mut out = CommandOutput::stdout();
        if self.json {
            // An object by the caller's names: a number of ours would be one of them.
            out.verbatim_json(&serde_json::to_string(&texts).unwrap_or_default())?;
            return out.flush();
        }
        if texts.is_empty() {
            status("No document is stored with this task");
        }
        for name in &names {
            let Some(text) = texts.get(name) else { continue };
            if texts.len() > 1 {
                out.line(format_args!("==> {} <==", escape::text(name)))?;
            }
            if out.is_terminal() {
                out.line(escape::lines(text))?;
            } else {
                out.bytes(text.as_bytes())?;
            }
        }
        out.flush()
    }
}

/// A document as text, if it is one that an agent can be told.
fn document_text(name: &str, bytes: Vec<u8>) -> Result<String, CommandError> {
    let refused = |why: String| {
        CommandError::failed(format!("{name} cannot be stored: {why}"))
            .with_hint("`abide tasks set ID --document PATH` names a file without storing it")
    };
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(refused(format!("it is not text (byte {at} is zero)")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        refused(format!("it is not UTF-8 (at byte {at})"))
    })
}

fn unknown_task(task: TaskId) -> CommandError {
    abide::Error::from(TaskError::Unknown { task }).into()
}
