//! Checkpoints and rewinds through the library, on real files.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abide::{
    CheckpointRequest, Consent, Error, Message, NewSession, RewindRequest, Session, SessionFields,
    SessionId, SessionRef, Store,
    checkpoint::{RewindWatch, UnfinishedRewind},
};

/// Every file of a workspace and what it holds.
fn files(root: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(".abide") {
                continue;
            }
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                let bytes = fs::read(path).unwrap();
                all.insert(name, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    }
    all
}

struct Lab {
    dir: tempfile::TempDir,
    /// The user's state directory.
    state: tempfile::TempDir,
    store: Store,
    session: Session,
}

impl Lab {
    fn new() -> Self {
        let [dir, state] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let consent = Consent::at(Some(state.path().join("abide")));
        let store = Store::open_or_init(dir.path()).unwrap().with_consent(consent);
        let mut new = NewSession::titled("work");
        new.fields.workspace = Some(dir.path().to_string_lossy().into_owned());
        let session = store.create(new).unwrap();
        Self { dir, state, store, session }
    }

    /// A store as this user finds it.
    fn open(&self, project: &Path) -> Store {
        let consent = Consent::at(Some(self.state.path().join("abide")));
        Store::open(project).unwrap().with_consent(consent)
    }

    /// The process dies when the first file is put back: the intent is there, the end is not.
    fn die_rewinding(&self, to: &str) {
        let watch = RewindWatch {
            restore: Some(Arc::new(|_, _| panic!("it dies here"))),
            ..RewindWatch::default()
        };
        let to = self.session.view().resolve(to).unwrap();
        let plan = self.session.plan_rewind(&to, &only_files(), &watch).unwrap();
        let died = catch_unwind(AssertUnwindSafe(|| self.session.rewind(plan, &watch)));
        assert!(died.is_err());
        assert!(self.session.core().unwrap().restoring.is_some());
    }

    /// Lets the session go; gives all but it.
    fn close(self) -> (tempfile::TempDir, tempfile::TempDir, Store, SessionId) {
        let id = self.session.id();
        self.session.close().unwrap();
        (self.dir, self.state, self.store, id)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn say(&self, text: &str) {
        self.session.append(Message::user(text)).unwrap().wait().unwrap();
    }

    fn checkpoint(&self, label: &str) -> u64 {
        let request = CheckpointRequest { label: Some(label.into()), ..Default::default() };
        self.session.checkpoint(&request).unwrap().number
    }

    fn files(&self) -> BTreeMap<String, String> {
        files(self.dir.path())
    }

    fn messages(&self) -> u64 {
        self.session.core().unwrap().messages.total
    }

    fn rewind(&self, to: &str, request: RewindRequest) -> abide::checkpoint::RewindReport {
        let watch = RewindWatch::default();
        let to = self.session.view().resolve(to).unwrap();
        let plan = self.session.plan_rewind(&to, &request, &watch).unwrap();
        self.session.rewind(plan, &watch).unwrap()
    }

    fn undo(&self) {
        let watch = RewindWatch::default();
        let plan = self.session.plan_undo(&watch).unwrap();
        self.session.rewind(plan, &watch).unwrap();
    }
}

fn both() -> RewindRequest {
    RewindRequest { files: true, conversation: true, ..RewindRequest::default() }
}

fn only_files() -> RewindRequest {
    RewindRequest { files: true, ..RewindRequest::default() }
}

#[test]
fn files_and_conversation_go_back_and_forward_again() {
    let lab = Lab::new();
    lab.write("src/main.rs", "one");
    lab.write("kept.txt", "as it is");
    lab.say("first");
    assert_eq!(lab.checkpoint("green"), 1);
    let then = lab.files();
    lab.say("second");
    lab.say("third");
    lab.write("src/main.rs", "two");
    lab.write("new/deep/file", "made since");
    fs::remove_file(lab.dir.path().join("kept.txt")).unwrap();
    let later = lab.files();

    let rewound = lab.rewind("green", both());
    assert_eq!(lab.files(), then);
    assert!(!lab.dir.path().join("new").exists());
    assert_eq!(lab.messages(), 1);
    assert_eq!(rewound.safety, Some(2));
    assert_eq!((rewound.files.changed, rewound.files.failed.len()), (1, 0));
    assert_eq!(lab.session.core().unwrap().restoring, None);

    lab.undo();
    assert_eq!(lab.files(), later);
    assert_eq!(lab.messages(), 3);
    // An undo is a rewind, and can be undone as one.
    lab.undo();
    assert_eq!(lab.files(), then);
    assert_eq!(lab.messages(), 1);
    // Forward again, to the checkpoint that was made before the first rewind.
    lab.rewind("2", both());
    assert_eq!((lab.files(), lab.messages()), (later, 3));
}

#[test]
fn files_alone_or_only_some_of_them_go_back() {
    let lab = Lab::new();
    lab.write("a", "1");
    lab.write("b", "1");
    lab.checkpoint("one");
    lab.say("hello");
    lab.write("a", "2");
    lab.write("b", "2");
    let request = RewindRequest { paths: vec!["a".into()], ..only_files() };
    lab.rewind("one", request);
    assert_eq!(lab.files()["a"], "1");
    assert_eq!(lab.files()["b"], "2");
    assert_eq!(lab.messages(), 1, "the conversation stays");
    lab.undo();
    assert_eq!(lab.files()["a"], "2");
    lab.rewind("one", only_files());
    assert_eq!((lab.files()["a"].as_str(), lab.files()["b"].as_str()), ("1", "1"));
    assert_eq!(lab.messages(), 1);
    assert_eq!(lab.session.view().checkpoints().unwrap().len(), 4, "none was lost");

    let talk = RewindRequest { conversation: true, ..RewindRequest::default() };
    lab.write("a", "3");
    lab.rewind("one", talk);
    assert_eq!((lab.messages(), lab.files()["a"].as_str()), (0, "3"));
    lab.undo();
    assert_eq!((lab.messages(), lab.files()["a"].as_str()), (1, "3"));
}

#[test]
fn what_is_not_stored_stays() {
    let lab = Lab::new();
    lab.write(".gitignore", "*.log\n");
    lab.write("a", "1");
    lab.checkpoint("one");
    lab.write("debug.log", "precious");
    lab.write("sub/trace.log", "too");
    lab.write("sub/made", "x");
    let rewound = lab.rewind("one", only_files());
    assert_eq!(lab.files()["debug.log"], "precious");
    assert_eq!(lab.files()["sub/trace.log"], "too");
    assert!(!lab.files().contains_key("sub/made"));
    assert!(rewound.files.kept.iter().any(|(path, _)| path == b"sub"));
    // The rules change with the files: what was taken then and is ignored now is not overwritten.
    lab.write("b.tmp", "then");
    lab.checkpoint("two");
    lab.write(".gitignore", "*.log\n*.tmp\n");
    lab.write("b.tmp", "edited since, and ignored");
    let rewound = lab.rewind("two", only_files());
    assert_eq!(lab.files()["b.tmp"], "edited since, and ignored");
    assert!(rewound.files.kept.iter().any(|(path, _)| path == b"b.tmp"));
    assert_eq!(lab.files()[".gitignore"], "*.log\n");
    // Nor is it deleted on the way forward, where the rule that spared it is gone.
    lab.undo();
    assert_eq!(lab.files()["b.tmp"], "edited since, and ignored");
}

#[test]
fn a_rewind_that_is_stopped_leaves_everything_as_it_was() {
    let lab = Lab::new();
    for n in 0..50 {
        lab.write(&format!("f{n}"), "1");
    }
    lab.checkpoint("one");
    lab.say("more");
    for n in 0..50 {
        lab.write(&format!("f{n}"), "2");
    }
    let before = lab.files();
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = cancel.clone();
    let mut watch = RewindWatch::default();
    watch.snapshot.cancel = Some(cancel);
    watch.restore = Some(Arc::new(move |done, _| {
        if done >= 10 {
            flag.store(true, Ordering::Relaxed);
        }
    }));
    let to = lab.session.view().resolve("one").unwrap();
    let plan = lab.session.plan_rewind(&to, &both(), &watch).unwrap();
    let stopped = lab.session.rewind(plan, &watch).unwrap_err();
    assert!(matches!(stopped, Error::Cancelled), "{stopped:?}");
    assert_eq!(lab.files(), before);
    assert_eq!(lab.messages(), 1);
    assert_eq!(lab.session.core().unwrap().restoring, None);
}

#[test]
fn a_rewind_that_died_half_way_is_finished_by_the_next() {
    let lab = Lab::new();
    lab.write("a", "1");
    lab.write("b", "1");
    lab.write("c", "1");
    lab.write("d/e/f", "1");
    lab.checkpoint("one");
    for name in ["a", "b", "c", "d/e/f"] {
        lab.write(name, "2");
    }
    lab.die_rewinding("one");
    lab.write("a", "1");
    // Somebody has edited another meanwhile: that is not lost.
    lab.write("b", "by hand");
    // A directory that was not synced went with the power.
    fs::remove_dir_all(lab.dir.path().join("d")).unwrap();
    let (dir, _state, store, id) = lab.close();

    let watch = RewindWatch::default();
    let session = store.open_session(&SessionRef::Id(id)).unwrap();
    assert!(session.core().unwrap().restoring.is_some());
    let UnfinishedRewind::Finished(finished) = session.finish_rewind(&watch).unwrap() else {
        panic!("it is not finished");
    };
    let now = files(dir.path());
    assert_eq!((now["a"].as_str(), now["b"].as_str(), now["c"].as_str()), ("1", "by hand", "1"));
    assert_eq!((now["d/e/f"].as_str(), &*finished.files.failed), ("1", &[][..]));
    assert!(finished.files.kept.iter().chain(&finished.files.failed).any(|(p, _)| p == b"b"));
    assert_eq!(session.core().unwrap().restoring, None);
    assert!(matches!(session.finish_rewind(&watch).unwrap(), UnfinishedRewind::None));
    let plan = session.plan_undo(&watch).unwrap();
    session.rewind(plan, &watch).unwrap();
    let now = files(dir.path());
    assert_eq!((now["a"].as_str(), now["c"].as_str()), ("2", "2"));
}

#[test]
fn a_rewind_that_somebody_else_recorded_is_not_finished() {
    let lab = Lab::new();
    lab.write("a", "1");
    let one = lab.session.checkpoint(&CheckpointRequest::default()).unwrap();
    lab.write("a", "2");
    let two = lab.session.checkpoint(&CheckpointRequest::default()).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let watch = RewindWatch::default();
    for workspace in [elsewhere.path(), lab.dir.path()] {
        let rewind = abide::event::Rewind {
            to: lab.session.core().unwrap().seq,
            files: true,
            snapshot: one.checkpoint.snapshot,
            safety: two.checkpoint.snapshot,
            workspace: Some(workspace.to_string_lossy().into_owned()),
            ..abide::event::Rewind::default()
        };
        // A note in the store is no note: the store may come from anybody.
        let note = lab.dir.path().join(format!(".abide/cache/{}.rewind", lab.session.id()));
        fs::write(note, serde_json::to_string(&rewind).unwrap()).unwrap();
        lab.session.append(rewind).unwrap().wait().unwrap();
        let left = lab.session.finish_rewind(&watch).unwrap();
        assert!(matches!(left, UnfinishedRewind::Left { .. }), "{left:?}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        assert_eq!(lab.files()["a"], "2");
    }
    // By hand it can be taken back, and all is well again.
    lab.undo();
    assert_eq!(lab.session.core().unwrap().restoring, None);
    assert_eq!(lab.files()["a"], "2");
}

#[test]
fn a_note_of_one_rewind_finishes_no_other() {
    let lab = Lab::new();
    for text in ["1", "2", "3"] {
        lab.write("a", text);
        lab.checkpoint(text);
    }
    lab.die_rewinding("2");
    lab.write("a", "3");
    let begun = lab.session.core().unwrap().restoring.unwrap();
    let range = abide::EventRange { first: begun, last: begun, ..abide::EventRange::ALL };
    let event = lab.session.view().page(range).unwrap().events.pop().unwrap();
    let Ok(abide::event::Fact::Rewind(begun)) = event.fact() else { panic!("{event:?}") };
    let one = lab.session.view().checkpoints().unwrap().remove(0);
    let other = abide::event::Rewind { snapshot: one.checkpoint.snapshot, ..begun };
    lab.session.append(other).unwrap().wait().unwrap();
    let left = lab.session.finish_rewind(&RewindWatch::default()).unwrap();
    assert!(matches!(left, UnfinishedRewind::Left { .. }), "{left:?}");
    assert_eq!(lab.files()["a"], "3");
}

#[test]
fn a_rewind_begun_here_is_left_in_a_copy_of_the_store() {
    let lab = Lab::new();
    lab.write("a", "1");
    lab.checkpoint("one");
    lab.write("a", "2");
    lab.die_rewinding("one");
    lab.write("a", "2");
    let elsewhere = tempfile::tempdir().unwrap();
    let clone = elsewhere.path().join("clone");
    let copied = std::process::Command::new("cp").arg("-a").args([lab.dir.path(), &clone]).status();
    assert!(copied.unwrap().success());
    let id = SessionRef::Id(lab.session.id());
    let session = lab.open(&clone).open_session(&id).unwrap();
    let left = session.finish_rewind(&RewindWatch::default()).unwrap();
    assert!(matches!(left, UnfinishedRewind::Left { .. }), "{left:?}");
    assert_eq!((files(&clone)["a"].as_str(), lab.files()["a"].as_str()), ("2", "2"));
    // Without a place for notes nothing is finished unasked either.
    let Lab { dir, store, session, state } = lab;
    session.close().unwrap();
    let session = store.clone().with_consent(Consent::at(None)).open_session(&id).unwrap();
    let left = session.finish_rewind(&RewindWatch::default()).unwrap();
    assert!(matches!(left, UnfinishedRewind::Left { .. }), "{left:?}");
    assert_eq!(files(dir.path())["a"], "2");
    drop(state);
}

#[test]
fn a_rewind_is_finished_where_it_was_begun_whatever_the_journal_says() {
    let lab = Lab::new();
    lab.write("a", "1");
    lab.checkpoint("one");
    lab.write("a", "2");
    lab.die_rewinding("one");
    lab.write("a", "2");
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("a"), "2").unwrap();
    let workspace = Some(elsewhere.path().to_string_lossy().into_owned());
    let moved = SessionFields { workspace, ..SessionFields::default() };
    lab.session.append(moved).unwrap().wait().unwrap();
    let done = lab.session.finish_rewind(&RewindWatch::default()).unwrap();
    assert!(matches!(done, UnfinishedRewind::Finished(_)), "{done:?}");
    assert_eq!(lab.files()["a"], "1");
    assert_eq!(files(elsewhere.path())["a"], "2");
}

#[test]
fn a_rewind_of_unknown_origin_is_finished_when_it_is_asked_for() {
    let lab = Lab::new();
    lab.write("a", "1");
    lab.checkpoint("one");
    lab.write("a", "2");
    assert!(lab.session.plan_finish().unwrap().is_none());
    lab.die_rewinding("one");
    lab.write("a", "2");
    assert!(lab.session.plan_finish().unwrap().unwrap().own);
    fs::remove_dir_all(lab.state.path().join("abide")).unwrap();
    let plan = lab.session.plan_finish().unwrap().unwrap();
    assert_eq!((plan.own, plan.root.as_path(), plan.files.steps.len()), (false, lab.dir.path(), 1));
    assert_eq!(lab.files()["a"], "2", "it is only planned");
    lab.session.finish(plan, &RewindWatch::default()).unwrap();
    assert_eq!(lab.files()["a"], "1");
    assert_eq!(lab.session.core().unwrap().restoring, None);
}

#[test]
fn what_others_record_meanwhile_stays_when_only_files_go_back() {
    let lab = Lab::new();
    lab.write("a", "1");
    lab.checkpoint("one");
    let done = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        let talking = scope.spawn(|| {
            let mut said = 0;
            while !done.load(Ordering::Relaxed) {
                lab.say("meanwhile");
                said += 1;
            }
            said
        });
        for n in 0..10 {
            lab.write("a", &format!("other {n}"));
            lab.rewind("one", only_files());
            lab.write("a", &format!("another {n}"));
            lab.undo();
        }
        done.store(true, Ordering::Relaxed);
        talking.join().unwrap()
    });
    assert_eq!(lab.messages(), said, "none has left the lineage");
    let (_dir, _state, store, id) = lab.close();
    let state = store.view(&SessionRef::Id(id)).unwrap().state().unwrap();
    assert_eq!(state.core.messages.total, said);
}

#[test]
fn an_error_of_a_checkpoint_says_what_was_done_to_which_file() {
    let lab = Lab::new();
    let cache = lab.dir.path().join(".abide/cache");
    fs::write(&cache, "").unwrap();
    let error = lab.session.checkpoint(&CheckpointRequest::default()).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot make {}", cache.display()));
}

#[test]
fn a_workspace_without_a_path_is_refused() {
    let lab = Lab::new();
    lab.write("a", "1");
    lab.checkpoint("one");
    for root in ["", "relative"] {
        let workspace = Some(root.to_owned());
        let moved = SessionFields { workspace, ..SessionFields::default() };
        lab.session.append(moved).unwrap().wait().unwrap();
        let to = lab.session.view().resolve("one").unwrap();
        let refused = lab.session.plan_rewind(&to, &only_files(), &RewindWatch::default());
        assert!(matches!(refused, Err(Error::NoWorkspace { .. })), "{refused:?}");
    }
}

#[test]
fn a_checkpoint_of_another_directory_is_not_put_over_this_one() {
    let lab = Lab::new();
    lab.write("a", "1");
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("b"), "2").unwrap();
    let workspace = Some(other.path().to_owned());
    lab.session.checkpoint(&CheckpointRequest { workspace, ..Default::default() }).unwrap();
    let to = lab.session.view().resolve("1").unwrap();
    let refused = lab.session.plan_rewind(&to, &only_files(), &RewindWatch::default());
    assert!(matches!(refused, Err(Error::OtherWorkspace { number: 1, .. })), "{refused:?}");
}

#[test]
fn what_made_way_for_a_path_comes_back_with_an_undo() {
    let lab = Lab::new();
    lab.write("config/app.toml", "1");
    lab.checkpoint("one");
    fs::remove_dir_all(lab.dir.path().join("config")).unwrap();
    lab.write("config", "a file now");
    let request = RewindRequest { paths: vec!["config/app.toml".into()], ..only_files() };
    lab.rewind("one", request);
    assert_eq!(lab.files()["config/app.toml"], "1");
    lab.undo();
    assert_eq!(lab.files()["config"], "a file now");
}

#[test]
fn a_checkpoint_says_what_was_true() {
    let lab = Lab::new();
    lab.write("a", "1");
    lab.say("hello");
    let request = CheckpointRequest {
        process: Some(std::process::id()),
        pinned: true,
        ..CheckpointRequest::default()
    };
    let digest = lab.session.digest().unwrap();
    let made = lab.session.checkpoint(&request).unwrap();
    let checkpoint = &made.checkpoint;
    assert_eq!(checkpoint.digest.as_deref(), Some(digest.to_string().as_str()));
    assert_eq!(checkpoint.manifest.messages, 1);
    assert!(checkpoint.manifest.storage_bytes > 100);
    assert_eq!(checkpoint.workspace.as_ref().unwrap().files, 1);
    assert!(checkpoint.resources.as_ref().unwrap().rss_bytes > 0);
    lab.write("a", "2");
    lab.write("b", "new");
    let second = lab.session.checkpoint(&CheckpointRequest::default()).unwrap();
    assert_eq!(second.checkpoint.files, ["a", "b"]);
    let third = lab.session.checkpoint(&CheckpointRequest::default()).unwrap();
    assert_eq!(third.checkpoint.files, Vec::<String>::new());
    assert_eq!(third.checkpoint.snapshot, second.checkpoint.snapshot);
    let all = lab.session.view().checkpoints().unwrap();
    let numbers: Vec<u64> = all.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let summary = abide::checkpoint::summarize(&all);
    assert_eq!((summary.total, summary.files.len()), (3, 2));
}

#[test]
fn a_damaged_newest_checkpoint_gives_way_to_the_one_before() {
    let lab = Lab::new();
    lab.write("a", &"first ".repeat(100));
    lab.checkpoint("one");
    let objects = lab.dir.path().join(".abide/objects/00000001.pack");
    let size = fs::metadata(&objects).unwrap().len();
    // Not like anything before, so that it is stored by itself.
    let noise: Vec<u8> = (0..5000_usize).map(|n| (n * n % 251) as u8).collect();
    fs::write(lab.dir.path().join("b"), &noise).unwrap();
    lab.checkpoint("two");
    let mut bytes = fs::read(&objects).unwrap();
    let middle = usize::try_from(size).unwrap() + 200;
    bytes[middle] ^= 1;
    fs::write(&objects, &bytes).unwrap();
    let store = Store::open(lab.dir.path()).unwrap();
    let view = store.view(&SessionRef::Id(lab.session.id())).unwrap();
    let (latest, damaged) = view.latest_checkpoint(&*store.objects().unwrap()).unwrap();
    assert_eq!(latest.unwrap().number, 1);
    assert_eq!(damaged.iter().map(|entry| entry.number).collect::<Vec<_>>(), [2]);
}

/// Every event of a session, and what the standard rules say of them.
fn validated(events: &[abide::Event]) -> Vec<abide_model::Finding> {
    let rewinds: Vec<_> = events.iter().filter_map(abide_model::rewind_of).collect();
    let lineage = abide::event::Lineage::at(events.last().unwrap().seq, &rewinds);
    let mut state = abide::SessionState::default();
    let mut validation = abide_model::Validation::new(abide_model::standard_rules());
    for event in events {
        if lineage.contains(event.seq) {
            validation.apply(&mut state, event);
        } else {
            state.apply_dead(event);
        }
    }
    validation.finish(&state)
}

fn all_events(store: &Store, session: abide::SessionId) -> Vec<abide::Event> {
    let view = store.view(&SessionRef::Id(session)).unwrap();
    view.events(abide::EventRange::ALL).map(|event| event.unwrap()).collect()
}

#[test]
fn what_sessions_do_every_day_breaks_no_rule() {
    let lab = Lab::new();
    lab.write("a", "one");
    lab.say("first");
    lab.checkpoint("one");
    lab.say("second");
    lab.write("a", "two");
    lab.checkpoint("two");
    lab.rewind("1", both());
    lab.checkpoint("after a rewind");
    lab.say("third");
    lab.undo();
    lab.checkpoint("after an undo");
    // Checkpoints while others write.
    std::thread::scope(|scope| {
        scope.spawn(|| (0..200).for_each(|n| lab.say(&n.to_string())));
        scope.spawn(|| {
            (0..5).for_each(|n| {
                lab.checkpoint(&format!("busy {n}"));
            })
        });
    });
    let parent = lab.session.id();
    let Lab { dir, store, session, state: _state } = lab;
    drop(session);
    // A checkpoint is the first thing that a writer records.
    let request = CheckpointRequest { without_files: true, ..Default::default() };
    let session = store.open_session(&SessionRef::Id(parent)).unwrap();
    session.checkpoint(&request).unwrap();
    drop(session);
    let fork = store.fork(&SessionRef::Id(parent), None, NewSession::titled("fork")).unwrap();
    let session = store.open_session(&SessionRef::Id(fork)).unwrap();
    session.checkpoint(&request).unwrap();
    session.append(Message::user("in the fork")).unwrap().wait().unwrap();
    session.checkpoint(&request).unwrap();
    drop(session);
    for id in [parent, fork] {
        let events = all_events(&store, id);
        assert_eq!(validated(&events), [], "{id}");
        // The digests are compared: another past is noticed by the checkpoints behind it.
        let mut altered = events;
        let first = altered.iter_mut().find(|one| one.kind == abide::Kind::MESSAGE_ADDED).unwrap();
        let line = r#"{"kind":"message.added","data":{"role":"system","content":"other"}}"#;
        let other = abide::NewEvent::parse(line).unwrap().into_event(first.seq, first.at);
        *first = other;
        let findings = validated(&altered);
        let told = findings.iter().filter(|one| one.rule == "checkpoint-digest").count();
        // Of those made while others wrote, some are of a state that is not seen here.
        assert!(told >= 3, "{told} of {findings:?}");
    }
    drop(dir);
}
