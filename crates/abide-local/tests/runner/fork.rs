//! Forks on files: what they cost, what a power cut leaves of one, and what damage does to them.

use std::path::Path;
use std::time::Duration;

use abide_local::{LocalOptions, LocalStore, RepairRequest};
use abide_model::{
    AnomalyPolicy, Durability, EventRange, FOLD_VERSION, Fact, NewEvent, NewSession, ReadFinding,
    Seq, SessionId, SessionReader, SessionState, SessionWriter, Severity, Store,
};
use abide_testkit::{FaultRun, SimDisk};

use crate::power::cut_everywhere;
use crate::run::{exists, open_store, options, store_path};

const NOW: Duration = Duration::ZERO;

fn message(text: &str) -> NewEvent {
    let json = format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#);
    NewEvent::parse(&json).unwrap()
}

fn say(store: &LocalStore, id: SessionId, texts: &[&str]) {
    let writer = store.writer(id, NOW).unwrap();
    let events = texts.iter().map(|text| message(text)).collect();
    writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    writer.close().unwrap();
}

fn fork(store: &LocalStore, parent: SessionId, at: u64) -> SessionId {
    store.fork(parent, Some(Seq(at)), NewSession::titled("fork")).unwrap().id
}

fn state(store: &LocalStore, id: SessionId) -> SessionState {
    store.reader(id).unwrap().state().unwrap()
}

fn texts(store: &LocalStore, id: SessionId) -> (Vec<String>, Vec<ReadFinding>) {
    let page = store.reader(id).unwrap().page(EventRange::ALL).unwrap();
    let said = page.events.iter().filter_map(|event| match event.fact() {
        Ok(Fact::Message(message)) => Some(format!("{:?}", message.content)),
        _ => None,
    });
    (said.collect(), page.notes)
}

/// A store on files with a session of two messages and a fork behind the first.
struct Forked {
    _dir: tempfile::TempDir,
    store: LocalStore,
    parent: SessionId,
    fork: SessionId,
}

fn forked() -> Forked {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::init(&dir.path().join(".abide"), LocalOptions::default()).unwrap();
    let store = crate::with_transcripts(store);
    let parent = store.create(NewSession::titled("parent")).unwrap().id;
    say(&store, parent, &["one", "two"]);
    let fork = fork(&store, parent, 3);
    say(&store, fork, &["three"]);
    Forked { _dir: dir, store, parent, fork }
}

impl Forked {
    fn dir_of(&self, id: SessionId) -> std::path::PathBuf {
        self.store.reader(id).unwrap().journal().dir().parent().unwrap().to_owned()
    }

    /// The store as another process sees it.
    fn again(&self) -> LocalStore {
        let store = LocalStore::open(self.store.root(), LocalOptions::default()).unwrap();
        crate::with_transcripts(store)
    }
}

#[test]
fn a_power_cut_leaves_no_fork_or_a_whole_one() {
    let disk = SimDisk::new(Path::new("/sim"));
    let store = LocalStore::init(&store_path(), options(&disk, 1)).unwrap();
    let parent = store.create(NewSession::titled("parent")).unwrap().id;
    say(&store, parent, &["one", "two"]);
    // Its last event is not acknowledged: forking there makes it durable first.
    let last = store.reader(parent).unwrap().page(EventRange::ALL).unwrap();
    let last = last.events.last().unwrap().seq.0;
    disk.keep_history();
    let made = fork(&store, parent, last);
    disk.note(1, 0);
    let moments = disk.take_history();
    let whole = state(&store, made).digest();
    let cuts =
        cut_everywhere(&moments, FaultRun::from_env().count(40, 500), &|disk, moment, seed| {
            let store = open_store(disk, seed).unwrap();
            let here = exists(&store, made);
            if moment.note.0 == 1 && !here {
                return Err("the fork was made and is gone".to_owned());
            }
            let (said, notes) = texts(&store, parent);
            let damage = notes.iter().any(|note| matches!(note, ReadFinding::Damage { .. }));
            if said.len() != 2 || damage {
                return Err(format!("the parent lost something: {said:?} {notes:?}"));
            }
            if here {
                let (said, notes) = texts(&store, made);
                if said.len() != 2 || !notes.is_empty() {
                    return Err(format!("its past is not whole: {said:?} {notes:?}"));
                }
                if state(&store, made).digest() != whole {
                    return Err("another state".to_owned());
                }
                let checked = store.doctor().examine(made).unwrap();
                if checked.findings.iter().any(|finding| finding.severity == Severity::Error) {
                    return Err(format!("{:?}", checked.findings));
                }
                say(&store, made, &["goes on"]);
            }
            Ok(())
        });
    FaultRun::from_env().report("power cuts while a fork is made", cuts, 10_000);
}

#[test]
fn a_fork_of_a_long_session_is_small_and_does_not_read_it_all() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::init(&dir.path().join(".abide"), LocalOptions::default()).unwrap();
    let parent = store.create(NewSession::titled("parent")).unwrap().id;
    let writer = store.writer(parent, NOW).unwrap();
    for batch in 0..100 {
        let events = (0..1000).map(|n| message(&format!("{batch} {n}"))).collect();
        writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    }
    writer.close().unwrap();
    let bytes = || -> u64 { sizes(&dir.path().join(".abide")).iter().sum() };
    let before = bytes();
    let made = store.fork(parent, None, NewSession::default()).unwrap().id;
    assert!(bytes() - before < 64 << 10, "{} bytes", bytes() - before);
    assert_eq!(state(&store, made).core.messages.total, 100_000);
    // The beginning of the parent is not needed for it: it may be unreadable.
    let journal = store.reader(parent).unwrap().journal().dir().to_owned();
    let first = std::fs::read_dir(&journal).unwrap().map(|entry| entry.unwrap().path()).min();
    let first = first.unwrap();
    let mut content = std::fs::read(&first).unwrap();
    let middle = content.len() / 4;
    content[middle..middle + 64].fill(b'x');
    std::fs::write(&first, content).unwrap();
    let again = store.fork(parent, None, NewSession::default()).unwrap().id;
    assert_eq!(
        state(&store, again).core.messages.total,
        100_000,
        "from a snapshot of the parent's"
    );
}

fn sizes(dir: &Path) -> Vec<u64> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(sizes(&entry.path()));
        } else {
            found.push(entry.metadata().unwrap().len());
        }
    }
    found
}

#[test]
fn the_state_is_the_same_from_a_snapshot_and_from_the_beginning() {
    let all = forked();
    let before = state(&all.store, all.fork).digest();
    let page = texts(&all.store, all.fork);
    for session in [all.parent, all.fork] {
        std::fs::remove_dir_all(all.dir_of(session).join("state")).unwrap();
    }
    let again = all.again();
    assert_eq!(state(&again, all.fork).digest(), before);
    assert_eq!(texts(&again, all.fork), page);
    say(&again, all.fork, &["four"]);
    assert_eq!(state(&again, all.fork).core.messages.total, 3);
}

/// The pages of the state come from a file of the parent's; the fork's own snapshot must not need it.
#[test]
fn a_snapshot_of_a_fork_holds_all_of_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::init(&dir.path().join(".abide"), LocalOptions::default()).unwrap();
    let parent = store.create(NewSession::titled("parent")).unwrap().id;
    let writer = store.writer(parent, NOW).unwrap();
    let task = |n: u64| {
        let json = format!(r#"{{"kind":"task.created","data":{{"task":"T{n}","title":"t"}}}}"#);
        NewEvent::parse(&json).unwrap()
    };
    let tasks = (0..60).map(task).collect();
    writer.append(tasks, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    writer.close().unwrap();
    let last = store.reader(parent).unwrap().page(EventRange::ALL.backward()).unwrap();
    let made = fork(&store, parent, last.events[0].seq.0);
    // Without its parent it has nothing but its snapshot.
    let gone = store.reader(parent).unwrap().journal().dir().parent().unwrap().to_owned();
    std::fs::rename(gone, dir.path().join("away")).unwrap();
    let again = LocalStore::open(store.root(), LocalOptions::default()).unwrap();
    let state = state(&again, made);
    assert_eq!((state.tasks.iter().count(), state.core.tasks.total), (60, 60));
    say(&again, made, &["goes on"]);
}

#[test]
fn the_header_or_the_first_event_may_be_damaged() {
    for what in ["header", "event"] {
        let all = forked();
        std::fs::remove_dir_all(all.dir_of(all.fork).join("state")).unwrap();
        let path = all.dir_of(all.fork).join("journal/00000001.jsonl");
        let mut bytes = std::fs::read(&path).unwrap();
        let line = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let at = if what == "header" { 10 } else { line + 100 };
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let again = all.again();
        let (said, notes) = texts(&again, all.fork);
        assert_eq!(said.len(), 2, "{what}: the past and its own");
        assert_eq!(notes.len(), 1, "{what}: the damage and nothing more: {notes:?}");
        assert_eq!(again.forker().of(all.parent).unwrap(), [all.fork], "{what}");
        say(&again, all.fork, &["four"]);
        assert_eq!(state(&again, all.fork).core.messages.total, 3, "{what}");
    }
}

#[test]
fn the_journal_goes_on_with_the_numbers_and_the_chain_of_the_parent() {
    let all = forked();
    let lines = |id: SessionId| -> Vec<serde_json::Value> {
        let journal = std::fs::read_to_string(all.dir_of(id).join("journal/00000001.jsonl"));
        journal.unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (parent, fork) = (lines(all.parent), lines(all.fork));
    let shared = parent[3]["sum"].as_str().unwrap();
    let own = shared.rsplit('.').next().unwrap();
    assert_eq!((&parent[3]["seq"], &fork[0]["first"]), (&3.into(), &4.into()));
    assert_eq!(fork[0]["prev"], own);
    let created = &fork[1];
    assert_eq!((&created["seq"], &created["kind"]), (&4.into(), &"session.created".into()));
    assert_eq!(created["sum"].as_str().unwrap().split('.').nth(1), own.get(..12));
    let link = serde_json::json!({"session": all.parent, "seq": 3, "reason": "fork"});
    assert_eq!(created["data"]["parent"], link);
}

#[test]
fn there_is_an_end_to_forks_of_forks() {
    let disk = SimDisk::new(Path::new("/sim"));
    let store = LocalStore::init(&store_path(), options(&disk, 3)).unwrap();
    let mut last = store.create(NewSession::titled("first")).unwrap().id;
    let mut made = 0;
    // At a place that all of them share, so that none but the first holds any of it.
    let refused = loop {
        match store.fork(last, Some(Seq(1)), NewSession::default()) {
            Ok(fork) => last = fork.id,
            Err(error) => break error.to_string(),
        }
        made += 1;
    };
    assert_eq!(made, 256);
    assert!(refused.contains("the most allowed"), "{refused}");
    assert_eq!(state(&store, last).core.seq, Seq(2), "the last one is as good as the first");
}

#[test]
fn the_forks_of_a_session_are_known() {
    let all = forked();
    let deeper = fork(&all.store, all.fork, 5);
    assert_eq!(all.store.forker().of(all.parent).unwrap(), [all.fork]);
    assert_eq!(all.store.forker().of(all.fork).unwrap(), [deeper]);
    assert!(all.store.forker().of(deeper).unwrap().is_empty());
    let links = all.store.forker().all().unwrap();
    assert_eq!(
        links.iter().map(|(id, link)| (*id, link.seq.0)).collect::<Vec<_>>(),
        [(all.fork, 3), (deeper, 5)]
    );
}

#[test]
fn a_parent_that_is_another_is_noticed() {
    let all = forked();
    assert!(all.store.doctor().examine(all.fork).unwrap().findings.is_empty());
    // An altered event of the parent's, with the sums of the lines behind it made to fit.
    let path = all.dir_of(all.parent).join("journal/00000001.jsonl");
    let other = tempfile::tempdir().unwrap();
    let store = LocalStore::init(&other.path().join(".abide"), LocalOptions::default()).unwrap();
    let stranger = store.create(NewSession::titled("stranger")).unwrap().id;
    say(&store, stranger, &["one", "two"]);
    let strange = store.reader(stranger).unwrap().journal().dir().join("00000001.jsonl");
    let theirs = std::fs::read_to_string(strange).unwrap();
    let ours = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = theirs.lines().collect();
    lines[0] = ours.lines().next().unwrap();
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let findings = all.again().doctor().examine(all.fork).unwrap().findings;
    assert_eq!(findings.iter().map(|finding| &*finding.rule).collect::<Vec<_>>(), ["fork-chain"]);
}

#[test]
fn only_the_own_events_are_in_the_index_and_turns_are_numbered_on() {
    let all = forked();
    let turn = |id: SessionId| {
        let writer = all.store.writer(id, NOW).unwrap();
        let start = NewEvent::parse(r#"{"kind":"turn.started","data":{"agent":"a"}}"#).unwrap();
        let end = NewEvent::parse(r#"{"kind":"turn.finished","data":{"status":"ok"}}"#).unwrap();
        writer
            .append(vec![start, end], Durability::Synced, AnomalyPolicy::Keep)
            .unwrap()
            .wait()
            .unwrap();
        writer.close().unwrap();
    };
    turn(all.parent);
    let acknowledged = all.store.reader(all.parent).unwrap().acknowledged().unwrap();
    let later = fork(&all.store, all.parent, acknowledged.0);
    turn(later);
    assert!(state(&all.store, later).turns.get("2").is_some());
    let history = all.store.history(&abide_model::HistoryQuery::default()).unwrap();
    let entry = history.entries.iter().find(|entry| entry.id == later).unwrap();
    assert_eq!((entry.overview.turns, entry.overview.open.last_turn.0), (1, 2));
    assert_eq!((entry.overview.messages, entry.overview.id), (0, Some(later)));
    turn(later);
    let transcript = std::fs::read_to_string(all.dir_of(later).join("transcript.task")).unwrap();
    let turns: Vec<_> = transcript.lines().filter(|line| line.starts_with("--- Turn")).collect();
    assert_eq!(turns, ["--- Turn 2: a ---", "--- Turn 3: a ---"]);
}

fn rules(store: &LocalStore, id: SessionId) -> Vec<String> {
    let found = store.doctor().examine(id).unwrap().findings;
    found.into_iter().map(|finding| finding.rule.into_owned()).collect()
}

fn repair(store: &LocalStore, id: SessionId) {
    let (doctor, request) = (store.doctor(), RepairRequest::default());
    let plan = doctor.plan(&doctor.examine(id).unwrap(), request).unwrap();
    doctor.repair(&plan, request, NOW).unwrap();
}

fn undo(store: &LocalStore, id: SessionId) {
    let plan = store.doctor().plan_undo(id).unwrap().unwrap();
    store.doctor().undo(&plan, NOW).unwrap();
}

impl Forked {
    /// The parent loses its first message, which its transcript has or has not.
    fn damage(&self, transcript: bool) {
        self.store.update_transcript(self.parent).unwrap();
        let dir = self.dir_of(self.parent);
        if !transcript {
            std::fs::remove_file(dir.join("transcript.task")).unwrap();
        }
        let path = dir.join("journal/00000001.jsonl");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(5).position(|part| part == b"\"one\"").unwrap();
        bytes[at + 1] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn a_fork_is_sound_again_when_its_parent_is_repaired_and_after_each_undo_and_repair() {
    for transcript in [true, false] {
        let all = forked();
        all.damage(transcript);
        let store = all.again();
        for round in 0..3 {
            let what = format!("transcript {transcript}, round {round}");
            assert_eq!(rules(&store, all.fork), ["fork-chain"], "{what}");
            let found = store.doctor().examine(all.fork).unwrap().findings.remove(0);
            assert!(found.repair.how.contains(&all.parent.to_string()), "{what}: {found:?}");
            repair(&store, all.parent);
            assert_eq!(rules(&store, all.fork), [""; 0], "{what}");
            say(&store, all.fork, &["on"]);
            assert_eq!(rules(&store, all.fork), [""; 0], "{what}");
            undo(&store, all.parent);
        }
    }
}

#[test]
fn a_fork_of_what_was_written_again_outlives_the_undo() {
    let all = forked();
    all.damage(true);
    let store = all.again();
    repair(&store, all.parent);
    let made = fork(&store, all.parent, 3);
    say(&store, made, &["on"]);
    assert_eq!(rules(&store, made), [""; 0]);
    undo(&store, all.parent);
    assert_eq!(rules(&store, made), ["fork-chain"], "as long as the parent lacks it");
    repair(&store, all.parent);
    assert_eq!(rules(&store, made), [""; 0]);
}

#[test]
fn a_checkpoint_of_a_fork_may_be_older_than_what_was_written_again_before_it() {
    let all = forked();
    all.damage(true);
    std::fs::remove_dir_all(all.dir_of(all.parent).join("state")).unwrap();
    let store = all.again();
    let made = fork(&store, all.parent, 4);
    let before = state(&store, made);
    let json = format!(
        r#"{{"kind":"checkpoint.created","data":{{"digest":"{}","after":{},"fold":{FOLD_VERSION}}}}}"#,
        before.digest(),
        before.core.seq
    );
    let writer = store.writer(made, NOW).unwrap();
    let event = NewEvent::parse(&json).unwrap();
    writer.append(vec![event], Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    writer.close().unwrap();
    assert_eq!(before.core.messages.total, 1);
    repair(&store, all.parent);
    assert_eq!(state(&store, made).core.messages.total, 2);
    assert_eq!(rules(&store, made), [""; 0]);
}
