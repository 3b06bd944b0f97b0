//! Scenarios that once went wrong, found by reading.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide_journal::{SegmentHeader, Sum};
use abide_local::{LocalOptions, LocalStore};
use abide_model::{
    AnomalyPolicy, Durability, EventRange, NewEvent, NewSession, Retention, Seq, SessionWriter,
    Store, StoreError,
};
use abide_testkit::block_on;

use crate::run::{Run, Step, go_on, healthy, open_store, read};

fn event(json: &str) -> NewEvent {
    NewEvent::parse(json).unwrap()
}

fn store(dir: &Path) -> LocalStore {
    LocalStore::init(&dir.join(".abide"), LocalOptions::default()).unwrap()
}

#[test]
fn a_session_that_cannot_be_read_is_never_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let id = store(dir.path()).create(NewSession::default().with_key("k")).unwrap().id;
    let session = crate::session_dirs(&dir.path().join(".abide")).remove(0);
    let segment = session.join("journal/00000001.jsonl");
    // Something that cannot be read as a file, whoever asks.
    let bytes = fs::read(&segment).unwrap();
    fs::remove_file(&segment).unwrap();
    fs::create_dir(&segment).unwrap();
    let again = store(dir.path()).create(NewSession::default().with_key("k"));
    assert!(again.is_err() || again.as_ref().is_ok_and(|known| known.id == id), "{again:?}");
    assert!(segment.is_dir(), "nothing was removed");
    // A journal of a newer version is not an older one's to remove either.
    fs::remove_dir(&segment).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let body = header.replace("\"version\":2", "\"version\":9");
    let body = body.split(",\"sum\":").next().unwrap();
    let hash = blake3::hash(body.as_bytes());
    let sum = Sum::from_ascii(&base64_of(&hash.as_bytes()[..15])).unwrap();
    let newer = format!("{body},\"sum\":\"{sum}\"}}\n{rest}");
    fs::write(&segment, &newer).unwrap();
    let refused = store(dir.path()).create(NewSession::default().with_key("k"));
    assert!(matches!(refused, Err(StoreError::NewerVersion { found: 9, .. })), "{refused:?}");
    assert_eq!(fs::read_to_string(&segment).unwrap(), newer);
    assert!(SegmentHeader::is_header(newer.as_bytes()));
}

fn base64_of(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let group = |three: &[u8]| {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        [18, 12, 6, 0].map(|shift| DIGITS[(bits >> shift & 63) as usize])
    };
    bytes.chunks(3).flat_map(group).collect()
}

#[test]
fn a_link_in_the_shield_leads_no_write_out_of_the_store() {
    for dir in ["sessions", "objects", "keys"] {
        for link in [".git", ".git/HEAD", ".git/objects", ".git/refs", ".git/config.toml"] {
            for made in [true, false] {
                let place = tempfile::tempdir().unwrap();
                let root = place.path().join(".abide");
                let elsewhere = place.path().join("elsewhere");
                fs::create_dir(&elsewhere).unwrap();
                if made {
                    drop(store(place.path()));
                    fs::remove_dir_all(root.join(dir).join(".git")).unwrap();
                }
                let at = root.join(dir).join(link);
                fs::create_dir_all(at.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(&elsewhere, &at).unwrap();
                let opened = [
                    LocalStore::init(&root, LocalOptions::default()),
                    LocalStore::open(&root, LocalOptions::default()),
                ];
                for opened in opened {
                    let error = opened.map(|_| ()).unwrap_err();
                    let told = matches!(&error, StoreError::Damaged { reason, .. }
                        if reason.contains("symlinks in a store are not followed"));
                    assert!(told, "{dir}/{link}: {error:?}");
                }
                assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{dir}/{link}");
                assert_eq!(root.join("config.toml").exists(), made);
            }
        }
    }
}

#[test]
fn a_link_in_a_session_leads_nothing_out_of_the_store() {
    let settings = Retention { max_count: Some(0), min_keep: 0, ..Retention::default() };
    for link in ["", "journal", "state"] {
        let dir = tempfile::tempdir().unwrap();
        let made = store(dir.path());
        let id = made.create(NewSession::default()).unwrap().id;
        let writer = made.writer(id, Duration::ZERO).unwrap();
        let said = vec![event(r#"{"kind":"x.a","data":{"text":"x"}}"#)];
        writer.append(said, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
        writer.close().unwrap();
        let plan = made.eraser().plan(id, &[Seq(3)]).unwrap();
        let session = crate::session_dirs(&dir.path().join(".abide")).remove(0);
        let (at, outside) = (session.join(link), dir.path().join("outside"));
        fs::rename(&at, &outside).unwrap();
        std::os::unix::fs::symlink(&outside, at.to_str().unwrap().trim_end_matches('/')).unwrap();
        let files = |dir: &Path| {
            let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
            let mut files: Vec<_> = names.map(|path| (fs::read(&path).ok(), path)).collect();
            files.sort();
            files
        };
        let before = files(&outside);
        // Another process: it has not found the session before.
        let other = store(dir.path());
        for error in [
            other.writer(id, Duration::ZERO).map(|_| ()).unwrap_err().to_string(),
            other.reader(id).map(|_| ()).unwrap_err().to_string(),
            other.eraser().apply(&plan, None, Duration::ZERO).unwrap_err().to_string(),
        ] {
            assert!(error.contains("symlinks in a store are not followed"), "{link}: {error}");
        }
        if link == "state" {
            // One that has found it before, and would clear what the link leads to.
            assert!(made.eraser().apply(&plan, None, Duration::ZERO).is_err());
        }
        if let Ok(plan) = other.cleaner().plan(&settings) {
            assert!(plan.sessions.is_empty());
        }
        if !link.is_empty() {
            assert_eq!(files(&outside), before, "{link}");
        }
    }
}

#[test]
fn a_batch_on_a_restored_state_folds_as_a_replay_does() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.create(NewSession::default()).unwrap().id;
    let turns = |count: usize| -> Vec<NewEvent> {
        (0..count).map(|_| event(r#"{"kind":"turn.started","data":{"agent":"a"}}"#)).collect()
    };
    let append = |events: Vec<NewEvent>| {
        let writer = store.writer(id, Duration::ZERO).unwrap();
        writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
        writer.state().unwrap()
    };
    append(turns(4000));
    let live = append(turns(20));
    assert_eq!(live.turns.len(), 4020);
    healthy(&store, id).unwrap();
}

#[test]
fn a_rewind_to_an_event_that_was_just_taken_in_is_folded_right() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.create(NewSession::default()).unwrap().id;
    let writer = store.writer(id, Duration::ZERO).unwrap();
    let message = || event(r#"{"kind":"message.added","data":{"role":"user","content":"x"}}"#);
    let rewind = |to: u64| event(&format!(r#"{{"kind":"session.rewound","data":{{"to":{to}}}}}"#));
    let together = vec![message(), rewind(3)];
    assert!(writer.append(together, Durability::Synced, AnomalyPolicy::Keep).is_err());
    // Not waited for before the rewind comes.
    let first = writer.append(vec![message()], Durability::Buffered, AnomalyPolicy::Keep).unwrap();
    let seq = first.seq().unwrap();
    let second =
        writer.append(vec![rewind(seq.0)], Durability::Synced, AnomalyPolicy::Keep).unwrap();
    first.wait().unwrap();
    second.wait().unwrap();
    let live = writer.state().unwrap();
    assert_eq!(live.core.messages.total, 1);
    drop(writer);
    let reader = store.read(id).unwrap();
    let events = reader.page(EventRange::ALL).unwrap().events;
    assert!(events.iter().any(|event| event.kind.as_str() == "session.rewound"));
    let again = reader.state().unwrap();
    assert_eq!(again.core.messages, live.core.messages);
    assert!(again.core.lineage.contains(Seq(seq.0)));
}

#[test]
fn a_line_break_lost_with_the_torn_tail_does_not_fence_the_next_writer() {
    let mut run = Run::new(41);
    run.step(Step::Batch(3)).unwrap();
    let (id, disk) = (run.id, run.disk.clone());
    std::mem::forget(run);
    disk.kill();
    let path = disk.files().into_iter().find(|path| path.ends_with("00000001.jsonl")).unwrap();
    let mut bytes = disk.bytes(&path).unwrap();
    assert_eq!(bytes.pop(), Some(b'\n'));
    bytes.extend_from_slice(b"\0\0\0\0rest\"}\n");
    disk.set_bytes(&path, bytes);
    let store = open_store(&disk, 42).unwrap();
    let found = read(&store, id).unwrap().data;
    assert_eq!(found.len(), 3);
    go_on(&store, id, &found).unwrap();
    healthy(&store, id).unwrap();
}

#[test]
fn an_awaited_ticket_of_a_closed_writer_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = store.create(NewSession::default()).unwrap().id;
    let writer = Arc::new(store.writer(id, Duration::ZERO).unwrap());
    let keyed = || event(r#"{"kind":"x.k","data":{}}"#).with_key("k");
    block_on(
        writer
            .append(
                vec![event(r#"{"kind":"x.a","data":{}}"#)],
                Durability::Synced,
                AnomalyPolicy::Keep,
            )
            .unwrap(),
    )
    .unwrap();
    let first = writer.append(vec![keyed()], Durability::Buffered, AnomalyPolicy::Keep).unwrap();
    let second = writer.append(vec![keyed()], Durability::Synced, AnomalyPolicy::Keep).unwrap();
    writer.close().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send((block_on(first).is_ok(), block_on(second).is_ok()));
    });
    let answered = receiver.recv_timeout(Duration::from_secs(10));
    assert!(answered.is_ok(), "a ticket that is never answered");
}
