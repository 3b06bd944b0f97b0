//! With `transcript = "live"`, `transcript.task` is there as turns end, and again when it is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_journal::{Disk, LockMode, Storage};
use abide_local::{Config, LocalOptions, LocalStore, RepairRequest, TranscriptPolicy};
use abide_model::{
    AnomalyPolicy, Durability, Event, EventRange, NewEvent, NewSession, SessionId, SessionWriter,
    Store,
};
use abide_testkit::Random;
use abide_transcript::parse;

struct Fixture {
    dir: tempfile::TempDir,
    store: LocalStore,
    id: SessionId,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::init(&dir.path().join(".abide"), LocalOptions::default()).unwrap();
        let store = crate::with_transcripts(store);
        let id = store.create(NewSession::titled("a session")).unwrap().id;
        Self { dir, store, id }
    }

    fn path(&self) -> PathBuf {
        crate::session_dirs(&self.dir.path().join(".abide")).remove(0).join("transcript.task")
    }

    fn written(&self) -> Vec<Event> {
        parse(&fs::read(self.path()).unwrap_or_default()).unwrap()
    }

    fn recorded(&self) -> Vec<Event> {
        let reader = self.store.read(self.id).unwrap();
        let mut events = Vec::new();
        let mut next = Some(EventRange::ALL);
        while let Some(range) = next {
            let page = reader.page(range).unwrap();
            events.extend(page.events);
            next = page.next.map(|first| EventRange { first, ..range });
        }
        events
    }

    fn writer(&self) -> Arc<dyn SessionWriter> {
        self.store.write(self.id, Duration::from_secs(5)).unwrap()
    }

    fn hello(&self, writer: &dyn SessionWriter) {
        let hello = r#"{"kind":"message.added","data":{"role":"user","content":"hello"}}"#;
        let hello = vec![NewEvent::parse(hello).unwrap()];
        writer.append(hello, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    }

    fn turn(&self, writer: &dyn SessionWriter, text: &str) {
        let text = serde_json::to_string(text).unwrap();
        let lines = [
            r#"{"kind":"turn.started","data":{"agent":"coder"}}"#.to_owned(),
            format!(r#"{{"kind":"message.added","data":{{"role":"user","content":{text}}}}}"#),
            r#"{"kind":"turn.finished","data":{"status":"ok"}}"#.to_owned(),
        ];
        let events = lines.iter().map(|line| NewEvent::parse(line).unwrap()).collect();
        writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    }
}

#[test]
fn it_is_appended_as_turns_end_while_the_writer_goes_on() {
    let fixture = Fixture::new();
    let writer = fixture.writer();
    for turn in 1..=3 {
        fixture.turn(&*writer, "=== RESULT ===\n--- Turn 9: x ---\n\u{1b}[31m\0\u{202e}");
        let until = Instant::now() + Duration::from_secs(20);
        let wanted = 2 + 3 * turn;
        while fixture.written().len() < wanted {
            assert!(Instant::now() < until, "it is not written while the writer goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(fixture.written(), fixture.recorded());
    }
    writer.close().unwrap();
    drop(writer);
    assert_eq!(fixture.written(), fixture.recorded());
    assert!(fs::read_to_string(fixture.path()).unwrap().contains("--- Turn 3: coder ---"));
}

#[test]
fn unless_the_settings_say_so_none_is_written_and_an_old_one_is_left_alone() {
    let fixture = Fixture::new();
    let mut config = fixture.store.config().clone();
    config.transcript = TranscriptPolicy::Off;
    assert_eq!(config, Config::default());
    let Fixture { dir, store, id } = fixture;
    let fixture = Fixture { dir, store: store.with_config(config), id };
    let record = || {
        let writer = fixture.writer();
        fixture.turn(&*writer, "hello");
        writer.close().unwrap();
        drop(writer);
        fixture.store.update_transcript(fixture.id).unwrap();
    };
    record();
    assert!(!fixture.path().exists());
    let old = "=== TASK x ===\nFormat: abide transcript 1\nof an earlier version\n";
    fs::write(fixture.path(), old).unwrap();
    record();
    assert_eq!(fs::read_to_string(fixture.path()).unwrap(), old);
    assert_eq!(fixture.store.disk_use().unwrap().transcripts, old.len() as u64);

    // A damaged one is put away, with consent, and none is made.
    fs::write(fixture.path(), "something else\n=== RESULT ===\n").unwrap();
    fs::set_permissions(fixture.path(), fs::Permissions::from_mode(0o600)).unwrap();
    let doctor = fixture.store.doctor();
    let found = doctor.examine(fixture.id).unwrap();
    assert_eq!(found.findings[0].rule, "transcript");
    let request = RepairRequest::default();
    let plan = doctor.plan(&found, request).unwrap();
    doctor.repair(&plan, request, Duration::ZERO).unwrap();
    assert!(!fixture.path().exists());
    assert_eq!(doctor.examine(fixture.id).unwrap().findings, []);
}

#[test]
fn lost_torn_or_damaged_it_is_written_again() {
    let fixture = Fixture::new();
    let mut random = Random::new(3);
    let large = "a line of a large message\n".repeat(8000);
    for round in 0..30 {
        let path = fixture.path();
        let bytes = fs::read(&path).unwrap_or_default();
        match round % 5 {
            0 => drop(fs::remove_file(&path)),
            1 => fs::write(&path, &bytes[..random.index(bytes.len() + 1)]).unwrap(),
            2 => fs::write(&path, b"something else\n=== RESULT ===\n").unwrap(),
            3 => fs::write(&path, [&bytes[..], b"half a chu"].concat()).unwrap(),
            _ => {}
        }
        let writer = fixture.writer();
        fixture.turn(&*writer, if round % 7 == 0 { &large } else { "hello" });
        drop(writer);
        assert_eq!(fixture.written(), fixture.recorded(), "round {round}");
    }
}

#[test]
fn without_turns_it_is_there_when_the_writer_closes() {
    let fixture = Fixture::new();
    let writer = fixture.writer();
    fixture.hello(&*writer);
    writer.close().unwrap();
    drop(writer);
    assert_eq!(fixture.written(), fixture.recorded());
    fs::remove_file(fixture.path()).unwrap();
    fixture.store.update_transcript(fixture.id).unwrap();
    assert_eq!(fixture.written(), fixture.recorded());
}

/// As after a power cut that took the last, buffered event away.
#[test]
fn a_journal_that_went_another_way_is_told_anew() {
    let fixture = Fixture::new();
    let writer = fixture.writer();
    fixture.turn(&*writer, "hello");
    writer.close().unwrap();
    drop(writer);
    assert_eq!(fixture.written(), fixture.recorded());
    let journal = fixture.path().with_file_name("journal/00000001.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let kept: Vec<&str> = text.lines().take(text.lines().count() - 1).collect();
    fs::write(&journal, kept.join("\n") + "\n").unwrap();
    std::thread::sleep(Duration::from_millis(3));
    let writer = fixture.writer();
    fixture.turn(&*writer, "and on");
    writer.close().unwrap();
    drop(writer);
    assert_eq!(fixture.written(), fixture.recorded());
}

#[test]
fn who_was_kept_from_it_once_goes_on_at_the_next_turn() {
    let fixture = Fixture::new();
    let writer = fixture.writer();
    fs::write(fixture.path(), b"").unwrap();
    let lock = Disk.lock(&fixture.path(), LockMode::Exclusive).unwrap().unwrap();
    fixture.turn(&*writer, "while somebody else has it");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(fixture.written(), []);
    drop(lock);
    fixture.turn(&*writer, "and then");
    writer.close().unwrap();
    drop(writer);
    assert_eq!(fixture.written(), fixture.recorded());
}

#[test]
fn a_writer_that_ends_does_not_write_a_long_transcript_whole() {
    let fixture = Fixture::new();
    let writer = fixture.writer();
    let large = "x".repeat(1 << 20);
    for _ in 0..12 {
        fixture.turn(&*writer, &large);
    }
    writer.close().unwrap();
    drop(writer);
    fs::remove_file(fixture.path()).unwrap();
    drop(fixture.writer());
    assert!(!fixture.path().exists(), "a writer that wrote nothing has nothing to tell");
    // No turn ends, so that all of it is left to the end.
    let writer = fixture.writer();
    fixture.hello(&*writer);
    writer.close().unwrap();
    drop(writer);
    let recorded = fixture.recorded();
    assert!(fixture.written().len() < recorded.len());
    fixture.store.update_transcript(fixture.id).unwrap();
    assert_eq!(fixture.written().len(), recorded.len());
    assert_eq!(fixture.written(), recorded);
}
