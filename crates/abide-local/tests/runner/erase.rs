//! Erasing payloads, and power cuts at every storage operation of it.

use std::path::Path;
use std::time::Duration;

use abide_journal::Storage;
use abide_local::{EraseError, LocalStore};
use abide_model::{
    Durability, NewEvent, NewSession, ObjectHash, OddEvents, ReadNote, Seq, SessionId,
    SessionWriter, Store,
};
use abide_testkit::{FaultRun, SimDisk};
use pollster::block_on;

use crate::power::cut_everywhere;
use crate::run::{go_on, healthy, open_store, options, read, small, store_path};

const SECRET: &str = "hunter2-5d41402abc4b2a76";
const WAIT: Duration = Duration::ZERO;

fn large() -> String {
    format!("{SECRET}{}", "x".repeat(900))
}

/// A session whose secret stands in a sealed segment, in the last one, and in an object.
fn recorded(disk: &SimDisk) -> (LocalStore, SessionId) {
    let store = small(LocalStore::init(&store_path(), options(disk, 3)).unwrap());
    let id = block_on(store.create(NewSession::titled("sim"))).unwrap();
    let writer = store.writer(id, WAIT).unwrap();
    let texts = [SECRET.to_owned(), large()];
    for n in 0..24 {
        let text = if n % 8 == 3 { texts[n / 8 % 2].clone() } else { format!("{n} ").repeat(60) };
        let json = format!(r#"{{"kind":"x.sim","data":{{"text":"{text}"}}}}"#);
        let event = NewEvent::parse(&json).unwrap();
        writer.append(vec![event], Durability::Synced, OddEvents::Keep).unwrap().wait().unwrap();
    }
    let json = format!(r#"{{"kind":"x.sim","data":{{"text":"{SECRET}"}}}}"#);
    let last = vec![NewEvent::parse(&json).unwrap()];
    writer.append(last, Durability::Synced, OddEvents::Keep).unwrap().wait().unwrap();
    block_on(writer.close()).unwrap();
    store.seal(id, WAIT).unwrap();
    store.update_transcript(id).unwrap();
    (store, id)
}

/// The files that have the secret, or the object it was in.
fn holding(disk: &SimDisk) -> Vec<String> {
    let object = ObjectHash::of(large().as_bytes()).0;
    let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    let files = disk.files().into_iter().filter(|path| {
        let Some(mut bytes) = disk.bytes(path) else { return false };
        if path.extension().is_some_and(|end| end == "zst" || end == "tmp")
            && let Ok(plain) = zstd::stream::decode_all(bytes.as_slice())
        {
            bytes = plain;
        }
        let pack = path.extension().is_some_and(|end| end == "pack");
        has(&bytes, SECRET.as_bytes()) || (pack && has(&bytes, &object))
    });
    files.map(|path| path.display().to_string()).collect()
}

#[test]
fn a_secret_in_sealed_segments_objects_and_the_last_line_is_gone() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let before = holding(&disk);
    for end in [".jsonl.zst", ".jsonl", ".pack", "transcript.task"] {
        assert!(before.iter().any(|path| path.ends_with(end)), "{end}: {before:?}");
    }
    let data = read(&store, id).unwrap().data;
    let matches = store.find_payloads(id, SECRET).unwrap();
    assert_eq!(matches.payloads.len(), 4);
    let plan = store.plan_erase(id, &matches.payloads).unwrap();
    assert_eq!(holding(&disk), before);
    let erased = store.apply_erase(&plan, Some("a password"), WAIT).unwrap();
    assert_eq!((erased.payloads, erased.objects), (4, 1));
    assert_eq!(holding(&disk), [""; 0]);
    healthy(&store, id).unwrap();
    assert_eq!(store.doctor().examine(id).unwrap().findings, []);
    // Everything else is as it was, and the session goes on.
    let after = read(&store, id).unwrap().data;
    assert_eq!(after.len(), data.len());
    for (one, other) in data.iter().zip(&after) {
        assert_eq!(other, if one.contains(SECRET) { "erased" } else { one });
    }
    go_on(&store, id, &after).unwrap();
    let state = store.writer(id, WAIT).unwrap().state().unwrap();
    assert_eq!(state.core.health.erased, 4);
    // Again: there is nothing more to do, and it is not said twice.
    let events = read(&store, id).unwrap().events;
    let plan = store.plan_erase(id, &matches.payloads).unwrap();
    assert!(plan.lines.iter().all(|line| line.erased));
    assert_eq!(store.apply_erase(&plan, None, WAIT).unwrap().payloads, 0);
    assert_eq!(read(&store, id).unwrap().events, events);
}

#[test]
fn a_session_in_use_and_a_damaged_one_are_refused() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let plan = store.plan_erase(id, &[Seq(6)]).unwrap();
    let before = read(&store, id).unwrap().data;
    let writer = store.writer(id, WAIT).unwrap();
    assert!(store.apply_erase(&plan, None, WAIT).is_err());
    drop(writer);
    assert!(matches!(store.plan_erase(id, &[Seq(2)]), Err(EraseError::Structural { .. })));
    assert!(matches!(store.plan_erase(id, &[Seq(999)]), Err(EraseError::NoEvent { .. })));
    let journal =
        disk.files().into_iter().find(|path| path.extension().is_some_and(|e| e == "jsonl"));
    let journal = journal.unwrap();
    let mut bytes = disk.bytes(&journal).unwrap();
    let at = bytes.len() - 300;
    bytes[at] ^= 1;
    disk.set_bytes(&journal, bytes.clone());
    let refused = store.apply_erase(&plan, None, WAIT);
    assert!(matches!(refused, Err(EraseError::Damaged { .. })), "{refused:?}");
    assert_eq!(disk.bytes(&journal).unwrap(), bytes);
    bytes[at] ^= 1;
    disk.set_bytes(&journal, bytes);
    assert_eq!(read(&store, id).unwrap().data, before);
}

#[test]
fn an_erasure_that_cannot_be_finished_stops_no_other() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let erasing = store_path().join("erasing");
    let segment = |id: SessionId| {
        let dir = store.reader(id).unwrap().journal().dir().to_owned();
        let files = disk.files().into_iter().filter(|path| path.starts_with(&dir));
        files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).max().unwrap()
    };
    let other = block_on(store.create(NewSession::default())).unwrap();
    let writer = store.writer(other, WAIT).unwrap();
    let said = format!(r#"{{"kind":"x.sim","data":{{"text":"{SECRET}"}}}}"#);
    let said = vec![NewEvent::parse(&said).unwrap()];
    writer.append(said, Durability::Synced, OddEvents::Keep).unwrap().wait().unwrap();
    block_on(writer.close()).unwrap();
    let plan = store.plan_erase(id, &[Seq(6)]).unwrap();
    // Damage is found before anything is written down.
    let (path, bytes) = (segment(id), disk.bytes(&segment(id)).unwrap());
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    disk.set_bytes(&path, damaged.clone());
    let refused = store.apply_erase(&plan, None, WAIT);
    assert!(matches!(refused, Err(EraseError::Damaged { .. })), "{refused:?}");
    assert!(!disk.files().contains(&erasing));
    // One that was cut short, and whose journal was damaged since.
    let entry = format!(r#"{{"session":"{id}","events":[6],"objects":[],"reason":null}}"#);
    disk.set_bytes(&path, bytes.clone());
    disk.open(&erasing, abide_journal::Access::Create).unwrap();
    disk.set_bytes(&erasing, entry.clone().into_bytes());
    disk.set_bytes(&path, damaged);
    assert_eq!(store.finish_erase(WAIT).unwrap(), None);
    let plan = store.plan_erase(other, &[Seq(3)]).unwrap();
    let erased = store.apply_erase(&plan, None, WAIT).unwrap();
    assert_eq!(erased.payloads, 1);
    assert!(erased.notes[0].contains(&id.to_string()), "{:?}", erased.notes);
    let left = String::from_utf8(disk.bytes(&erasing).unwrap()).unwrap();
    assert_eq!(left.trim_end(), entry);
    // Mended, it is finished.
    disk.set_bytes(&path, bytes);
    let finished = store.finish_erase(WAIT).unwrap().unwrap();
    assert_eq!((finished.payloads, finished.notes.as_slice()), (1, &[][..]));
    assert!(!disk.files().contains(&erasing));
}

#[test]
fn a_power_cut_leaves_a_readable_journal_and_the_next_erasure_finishes() {
    let disk = SimDisk::new(Path::new("/sim"));
    let (store, id) = recorded(&disk);
    let data = read(&store, id).unwrap().data;
    let seqs = store.find_payloads(id, SECRET).unwrap().payloads;
    let plan = store.plan_erase(id, &seqs).unwrap();
    disk.keep_history();
    store.apply_erase(&plan, None, WAIT).unwrap();
    let moments = disk.take_history();
    let cuts = cut_everywhere(&moments, FaultRun::from_env().count(6, 60), &|disk, _, seed| {
        let store = open_store(disk, seed + 50).map_err(|error| format!("{error:?}"))?;
        let found = read(&store, id).map_err(|error| format!("not readable: {error:?}"))?;
        // The last writer's `writer.closed` may be torn; it was never synced.
        let damaged = found.notes.iter().any(|note| matches!(note, ReadNote::Damage { .. }));
        if found.data.len() != data.len() || damaged {
            return Err(format!("{} of {}: {:?}", found.data.len(), data.len(), found.notes));
        }
        for (was, is) in data.iter().zip(&found.data) {
            if is != was && !(is == "erased" && was.contains(SECRET)) {
                return Err(format!("{was} became {is}"));
            }
        }
        healthy(&store, id)?;
        // As the command does: what was begun is finished, and what is left is erased.
        store.finish_erase(WAIT).map_err(|error| format!("{error:?}"))?;
        let left = store.find_payloads(id, SECRET).map_err(|error| format!("{error:?}"))?;
        if !left.payloads.is_empty() {
            let plan = store.plan_erase(id, &left.payloads).map_err(|e| format!("{e:?}"))?;
            store.apply_erase(&plan, None, WAIT).map_err(|error| format!("{error:?}"))?;
        }
        let holding = holding(disk);
        if !holding.is_empty() {
            return Err(format!("still in {holding:?}"));
        }
        healthy(&store, id)?;
        let after = read(&store, id).map_err(|error| format!("{error:?}"))?.data;
        go_on(&store, id, &after)
    });
    FaultRun::from_env().report("power cuts during an erasure", cuts, 1_000);
}
