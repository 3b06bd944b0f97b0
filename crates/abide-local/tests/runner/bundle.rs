//! A bundle gives back what it was made of, and taking one in is all or nothing.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use abide_journal::{BundleError, BundleReader, JournalItem, JournalLine, JournalWalkStart};
use abide_local::{ExportError, ImportError, ImportOutcome, LocalStore};
use abide_model::{
    AnomalyPolicy, Durability, EventRange, NewEvent, NewSession, Seq, SessionId, SessionRef,
    SessionWriter, Store, StoreError,
};
use abide_testkit::{Fault, FaultKind, FaultRun, Lasting, SimDisk};
use proptest::prelude::*;

use crate::power::cut_everywhere;
use crate::run::{Run, Step, exists, go_on, healthy, open_store, options, read, small, store_path};

/// An empty store on a disk of its own.
fn empty() -> (SimDisk, LocalStore) {
    static SEED: AtomicU64 = AtomicU64::new(1000);
    let disk = SimDisk::new(Path::new("/sim"));
    let options = options(&disk, SEED.fetch_add(1, Ordering::Relaxed));
    (disk, small(LocalStore::init(&store_path(), options).unwrap()))
}

fn export(store: &LocalStore, id: SessionId) -> Vec<u8> {
    let mut bundle = Vec::new();
    let header = store.exporter().export(id, &mut bundle).unwrap();
    assert_eq!(header.session, id);
    bundle
}

fn import(store: &LocalStore, bundle: &[u8]) -> Result<ImportOutcome, ImportError> {
    store.importer().import(BundleReader::open(bundle)?, Duration::ZERO).map(|done| done.outcome)
}

/// What an import would do.
fn check(store: &LocalStore, bundle: &[u8]) -> Result<ImportOutcome, ImportError> {
    store.importer().check(BundleReader::open(bundle)?).map(|done| done.outcome)
}

/// The lines of a session's journal, byte for byte.
fn lines(store: &LocalStore, id: SessionId) -> Vec<Vec<u8>> {
    let reader = store.reader(id).unwrap();
    let mut lines = Vec::new();
    let walk = reader.journal().walk(JournalWalkStart::beginning(), None, &mut |found| {
        match found {
            JournalItem::Event { line, .. } => lines.push(line.bytes().to_vec()),
            found => panic!("{found:?}"),
        }
        ControlFlow::Continue(())
    });
    walk.unwrap();
    lines
}

fn events(store: &LocalStore, id: SessionId) -> Vec<String> {
    let reader = store.read(id).unwrap();
    let mut range = EventRange::ALL;
    let mut events = Vec::new();
    loop {
        let page = reader.page(range).unwrap();
        assert_eq!(page.notes, []);
        events.extend(page.events.iter().map(|event| event.to_json()));
        match page.next {
            Some(next) => range.first = next,
            None => return events,
        }
    }
}

fn append(store: &LocalStore, id: SessionId, events: &[String]) {
    let writer = store.writer(id, Duration::ZERO).unwrap();
    for event in events {
        let event = NewEvent::parse(event).unwrap();
        writer
            .append(vec![event], Durability::Synced, AnomalyPolicy::Keep)
            .unwrap()
            .wait()
            .unwrap();
    }
    writer.close().unwrap();
}

fn numbered(from: usize, count: usize) -> Vec<String> {
    let event = |n| format!(r#"{{"kind":"x.sim","data":{{"n":{n},"pad":"{}"}}}}"#, "p".repeat(90));
    (from..from + count).map(event).collect()
}

/// A session with a key, several segments, one of them sealed, and objects.
fn source(count: usize) -> (SimDisk, LocalStore, SessionId) {
    let (disk, store) = empty();
    let id = store.create(NewSession::titled("source").with_key("client/1")).unwrap().id;
    append(&store, id, &numbered(0, count));
    let large = format!(r#"{{"kind":"x.sim","data":{{"text":"{}"}}}}"#, "large ".repeat(200));
    append(&store, id, &[large.clone(), large]);
    store.seal(id, Duration::ZERO).unwrap();
    (disk, store, id)
}

/// The same session here and there, and everything works with it.
fn same(here: &LocalStore, there: &LocalStore, id: SessionId) {
    assert_eq!(lines(here, id), lines(there, id));
    assert_eq!(events(here, id), events(there, id));
    healthy(there, id).unwrap();
}

/// Erases the payload of the event with this seq, in a plain segment.
fn erase(disk: &SimDisk, seq: u64) -> bool {
    let start = format!("{{\"seq\":{seq},");
    for path in disk.files().iter().filter(|path| path.to_string_lossy().ends_with(".jsonl")) {
        let bytes = disk.bytes(path).unwrap();
        let mut out = Vec::new();
        let mut erased = false;
        for raw in bytes.split_inclusive(|byte| *byte == b'\n') {
            if raw.starts_with(start.as_bytes()) {
                out.extend(JournalLine::read(&raw[..raw.len() - 1]).unwrap().erased());
                erased = true;
            } else {
                out.extend_from_slice(raw);
            }
        }
        if erased {
            disk.set_bytes(path, out);
            // The watermark and the snapshots know of places that have moved.
            for derived in disk.files() {
                let name = derived.to_string_lossy();
                if name.ends_with("watermark") || name.contains("/state/") {
                    disk.remove_file(&derived);
                }
            }
            return true;
        }
    }
    false
}

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,60}",
        Just("=== RESULT ===\n{\"end\":{}}\n{\"seq\":1,".to_owned()),
        Just("\u{0}\u{1b}[2J\u{202e}\u{7f}שלום العربية 🦀🏳️‍🌈\r\n\\u0000".to_owned()),
        (30_usize..900).prop_map(|n| "long \"text\" ".repeat(n)),
        "[\\\\\"\u{0}-\u{1f}a-c]{0,500}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: FaultRun::from_env().cases(24, 400),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_bundle_gives_back_the_session_it_was_made_of(
        texts in prop::collection::vec(hostile(), 0..20),
        rewind in any::<bool>(),
        seal in any::<bool>(),
        erased in prop::option::of(2_u64..12),
    ) {
        let (disk, store) = empty();
        let title = texts.first().cloned().unwrap_or_default();
        let id = store.create(NewSession::titled(title).with_key("k")).unwrap().id;
        let all: Vec<String> = texts
            .iter()
            .map(|text| serde_json::json!({
                "kind": "x.text", "data": { "text": text, "list": [text, 1e300] },
            }).to_string())
            .collect();
        append(&store, id, &all);
        if rewind {
            append(&store, id, &[r#"{"kind":"session.rewound","data":{"to":1}}"#.to_owned()]);
            append(&store, id, &numbered(0, 3));
        }
        if let Some(seq) = erased {
            erase(&disk, seq);
        }
        if seal {
            store.seal(id, Duration::ZERO).unwrap();
        }
        let bundle = export(&store, id);
        prop_assert_eq!(&bundle, &export(&store, id), "the same session gives the same bytes");
        let (_, there) = empty();
        prop_assert_eq!(import(&there, &bundle).unwrap(), ImportOutcome::Made);
        same(&store, &there, id);
        prop_assert_eq!(there.find(&SessionRef::Key("k".into())).unwrap(), id);
        prop_assert_eq!(&export(&there, id), &bundle);
        prop_assert_eq!(import(&there, &bundle).unwrap(), ImportOutcome::Same);
        let data = read(&there, id).unwrap().data;
        go_on(&there, id, &data).unwrap();
        healthy(&there, id).unwrap();
        there.seal(id, Duration::ZERO).unwrap();
        healthy(&there, id).unwrap();
        // What was done there comes home.
        let more = export(&there, id);
        let forwarded = import(&store, &more).unwrap();
        prop_assert!(matches!(forwarded, ImportOutcome::Forwarded { .. }), "{:?}", forwarded);
        same(&there, &store, id);
    }
}

#[test]
fn strings_of_ten_megabytes_travel_as_objects() {
    let disk = SimDisk::new(Path::new("/sim"));
    let store = LocalStore::init(&store_path(), options(&disk, 1)).unwrap();
    let id = store.create(NewSession::default()).unwrap().id;
    let large = |text: &str| {
        let text = text.repeat((10 << 20) / text.len());
        serde_json::json!({ "kind": "x.large", "data": { "text": text } }).to_string()
    };
    append(&store, id, &[large("=== RESULT ===\n"), large("🦀\u{0}"), large("=== RESULT ===\n")]);
    let bundle = export(&store, id);
    let (_, there) = empty();
    assert_eq!(import(&there, &bundle).unwrap(), ImportOutcome::Made);
    same(&store, &there, id);
}

#[test]
fn what_is_here_decides_what_an_import_does() {
    let (_, store, id) = source(30);
    let early = export(&store, id);
    append(&store, id, &numbered(30, 40));
    let late = export(&store, id);
    let (_, there) = empty();
    assert_eq!(check(&there, &early).unwrap(), ImportOutcome::Made);
    assert!(!exists(&there, id));
    assert_eq!(import(&there, &early).unwrap(), ImportOutcome::Made);
    let from = Seq(lines(&there, id).len() as u64);
    assert_eq!(check(&there, &late).unwrap(), ImportOutcome::Forwarded { from });
    assert_eq!(lines(&there, id).len() as u64, from.0);
    assert_eq!(import(&there, &late).unwrap(), ImportOutcome::Forwarded { from });
    same(&store, &there, id);
    assert_eq!(import(&there, &late).unwrap(), ImportOutcome::Same);
    let here = Seq(lines(&there, id).len() as u64);
    assert_eq!(import(&there, &early).unwrap(), ImportOutcome::Behind { here });
    assert_eq!(check(&there, &early).unwrap(), ImportOutcome::Behind { here });
    // Both go on from the same event, each its own way.
    append(&store, id, &numbered(70, 2));
    append(&there, id, &numbered(80, 9));
    for (mine, bundle) in [(&there, export(&store, id)), (&store, export(&there, id))] {
        let kept = lines(mine, id);
        let refused = import(mine, &bundle);
        assert!(
            matches!(refused, Err(ImportError::Diverged { seq, .. }) if seq == here.next()),
            "{refused:?}"
        );
        assert!(matches!(check(mine, &bundle), Err(ImportError::Diverged { .. })));
        assert_eq!(lines(mine, id), kept);
    }
}

#[test]
fn a_bundle_for_which_there_is_no_room_is_refused_before_it_is_unpacked() {
    let (_, store, id) = source(30);
    let early = export(&store, id);
    append(&store, id, &numbered(30, 40));
    let late = export(&store, id);
    let (disk, there) = empty();
    let before = disk.files();
    let bytes = BundleReader::open(&*early).unwrap().header().bytes;
    disk.set_free(bytes - 1);
    let refused = import(&there, &early);
    assert!(
        matches!(refused, Err(ImportError::NoRoom { needed, free }) if needed == bytes && free == bytes - 1),
        "{refused:?}"
    );
    assert_eq!(disk.files(), before);
    disk.set_free(bytes);
    assert_eq!(import(&there, &early).unwrap(), ImportOutcome::Made);
    // What is here already needs no more room.
    disk.set_free(0);
    assert_eq!(import(&there, &early).unwrap(), ImportOutcome::Same);
    let more = BundleReader::open(&*late).unwrap().header().bytes - bytes;
    disk.set_free(more - 1);
    let refused = import(&there, &late);
    assert!(
        matches!(refused, Err(ImportError::NoRoom { needed, .. }) if needed == more),
        "{refused:?}"
    );
    same_as_before(&there, id, &early);
    disk.set_free(more);
    assert!(matches!(import(&there, &late), Ok(ImportOutcome::Forwarded { .. })));
    same(&store, &there, id);
}

/// The session is what a bundle made of it.
fn same_as_before(store: &LocalStore, id: SessionId, bundle: &[u8]) {
    assert_eq!(export(store, id), bundle);
    healthy(store, id).unwrap();
}

#[test]
fn a_forward_waits_for_the_writer_and_the_rest_does_not() {
    let (_, store, id) = source(5);
    let early = export(&store, id);
    append(&store, id, &numbered(5, 5));
    let late = export(&store, id);
    let (disk, there) = empty();
    import(&there, &early).unwrap();
    let writer = there.writer(id, Duration::ZERO).unwrap();
    let refused = import(&there, &late);
    assert!(matches!(refused, Err(ImportError::Store(StoreError::Held { .. }))), "{refused:?}");
    assert_eq!(import(&there, &early).unwrap(), ImportOutcome::Same);
    drop(writer);
    assert!(matches!(import(&there, &late), Ok(ImportOutcome::Forwarded { .. })));
    assert!(disk.files().iter().all(|path| !path.starts_with(store_path().join("imports"))));
}

#[test]
fn a_key_leads_to_one_session() {
    let (_, store, id) = source(3);
    let bundle = export(&store, id);
    let (disk, there) = empty();
    let other = there.create(NewSession::default().with_key("client/1")).unwrap().id;
    let before = disk.files();
    for refused in [import(&there, &bundle), check(&there, &bundle)] {
        assert!(
            matches!(&refused, Err(ImportError::KeyTaken { session, .. }) if *session == other),
            "{refused:?}"
        );
    }
    assert!(!exists(&there, id));
    assert_eq!(disk.files(), before);
    // Once it is here, the key is its own.
    let (_, there) = empty();
    import(&there, &bundle).unwrap();
    let made = there.create(NewSession::default().with_key("client/1")).unwrap().id;
    assert_eq!(made, id);
}

#[test]
fn a_session_that_is_not_whole_is_not_put_into_a_bundle() {
    let flip = |disk: &SimDisk, path: &Path, needle: &[u8]| {
        let mut bytes = disk.bytes(path).unwrap();
        let at = bytes.windows(needle.len()).position(|part| part == needle).unwrap();
        bytes[at] ^= 1;
        disk.set_bytes(path, bytes);
    };
    let find = |disk: &SimDisk, end: &str| {
        let files = disk.files();
        files.iter().find(|path| path.to_string_lossy().ends_with(end)).unwrap().clone()
    };
    for (end, needle) in [("00000001.jsonl", &b"\"n\":3"[..]), ("00000001.pack", b"aBLK")] {
        let (disk, store) = empty();
        let id = store.create(NewSession::default()).unwrap().id;
        append(&store, id, &numbered(0, 6));
        let large = format!(r#"{{"kind":"x.sim","data":{{"text":"{}"}}}}"#, "large ".repeat(200));
        append(&store, id, &[large]);
        let whole = export(&store, id);
        flip(&disk, &find(&disk, end), needle);
        let store = open_store(&disk, 3).unwrap();
        let refused = store.exporter().export(id, Vec::new());
        assert!(matches!(refused, Err(ExportError::Damaged { .. })), "{refused:?}");
        if end.ends_with("jsonl") {
            // Nor does a damaged session take anything on.
            let refused = import(&store, &whole);
            assert!(
                matches!(refused, Err(ImportError::Store(StoreError::Damaged { .. }))),
                "{refused:?}"
            );
        }
    }
    // Damage that costs nothing costs the bundle nothing.
    let (disk, store, id) = source(20);
    let whole = export(&store, id);
    let last = disk.files();
    let last = last.iter().rfind(|path| path.to_string_lossy().ends_with(".jsonl")).unwrap();
    flip(&disk, last, b"\"prev\"");
    assert_eq!(export(&open_store(&disk, 3).unwrap(), id), whole);
}

#[test]
fn a_torn_tail_here_is_cut_and_told_before_the_session_grows() {
    let (_, store, id) = source(5);
    let early = export(&store, id);
    append(&store, id, &numbered(5, 5));
    let late = export(&store, id);
    let (disk, there) = empty();
    import(&there, &early).unwrap();
    let files = disk.files();
    let last = files.iter().rfind(|path| path.to_string_lossy().ends_with(".jsonl")).unwrap();
    let mut bytes = disk.bytes(last).unwrap();
    bytes.extend_from_slice(b"{\"seq\":99,\"at\":\"20");
    disk.set_bytes(last, bytes);
    let imported = there.importer().import(BundleReader::open(&*late).unwrap(), Duration::ZERO);
    let imported = imported.unwrap();
    assert_eq!(imported.notes.len(), 1, "{imported:?}");
    same(&store, &there, id);
}

#[test]
fn a_small_bundle_with_any_byte_altered_or_cut_off_changes_nothing() {
    let (_, store) = empty();
    let id = store.create(NewSession::titled("t").with_key("k")).unwrap().id;
    let large = format!(r#"{{"kind":"x.sim","data":{{"text":"{}"}}}}"#, "large ".repeat(80));
    append(&store, id, &[large]);
    let bundle = export(&store, id);
    let (disk, there) = empty();
    let before = |disk: &SimDisk| -> Vec<_> {
        // Not even an object that came before the bad place is left behind.
        disk.files().into_iter().filter(|path| !path.ends_with("lock")).collect()
    };
    let files = before(&disk);
    for len in 0..bundle.len() {
        assert!(import(&there, &bundle[..len]).is_err(), "{len}");
        assert_eq!(before(&disk), files);
    }
    let mut refused = 0;
    for at in 0..bundle.len() {
        for bits in [1, 0x80, 0xff] {
            let mut altered = bundle.clone();
            altered[at] ^= bits;
            match check(&there, &altered) {
                Err(_) => {
                    assert!(import(&there, &altered).is_err());
                    refused += 1;
                }
                Ok(outcome) => {
                    assert_eq!(outcome, ImportOutcome::Made);
                    let (_, alone) = empty();
                    import(&alone, &altered).unwrap();
                    same(&store, &alone, id);
                }
            }
            assert!(!exists(&there, id), "{at}");
        }
    }
    assert_eq!(before(&disk), files);
    assert!(refused > bundle.len() * 2, "{refused}");
    import(&there, &bundle).unwrap();
    same(&store, &there, id);
}

/// What an import starts from and what it takes in.
struct Case {
    name: &'static str,
    /// Imported before, and how many events that has.
    early: Option<(Vec<u8>, usize)>,
    bundle: Vec<u8>,
    id: SessionId,
    lines: Vec<Vec<u8>>,
}

fn cases() -> Vec<Case> {
    let (_, store, id) = source(30);
    let early = (export(&store, id), lines(&store, id).len());
    append(&store, id, &numbered(30, 25));
    let large = format!(r#"{{"kind":"x.sim","data":{{"text":"{}"}}}}"#, "other ".repeat(200));
    append(&store, id, &[large]);
    let (bundle, lines) = (export(&store, id), lines(&store, id));
    let new = Case { name: "new", early: None, bundle, id, lines };
    let forward = Case {
        name: "forward",
        early: Some(early),
        bundle: new.bundle.clone(),
        lines: new.lines.clone(),
        id,
    };
    vec![new, forward]
}

/// A store that has what the case starts from.
fn prepared(case: &Case) -> (SimDisk, LocalStore) {
    let (disk, store) = empty();
    if let Some((early, _)) = &case.early {
        import(&store, early).unwrap();
    }
    (disk, store)
}

/// After a crash: no session or a whole one; of one that was here, no less than there was. Then the
/// import is done again, and all is well.
fn after_crash(disk: &SimDisk, case: &Case, done: bool, seed: u64) -> Result<(), String> {
    let tell =
        |what: &str, error: &dyn std::fmt::Debug| format!("{}: {what}: {error:?}", case.name);
    let store = open_store(disk, seed).map_err(|error| tell("does not open", &error))?;
    let listed = store.list().map_err(|error| tell("no list", &error))?;
    let here = exists(&store, case.id);
    if listed.iter().any(|session| session.id == case.id) != here {
        return Err(tell("found and not listed", &here));
    }
    let must = case.early.as_ref().map_or(0, |(_, events)| *events);
    if !here && (done || must > 0) {
        return Err(tell("the session is gone", &done));
    }
    if here {
        let found = read(&store, case.id).map_err(|error| tell("not readable", &error))?;
        let count = usize::try_from(found.events).unwrap();
        let whole = count == case.lines.len();
        if !found.notes.is_empty() {
            return Err(tell("notes", &found.notes));
        }
        if !whole && (done || case.early.is_none() || count < must) {
            return Err(tell("a part of the session", &count));
        }
        if lines(&store, case.id) != case.lines[..count] {
            return Err(tell("other lines", &count));
        }
        healthy(&store, case.id).map_err(|error| tell("not healthy", &error))?;
    }
    let again = import(&store, &case.bundle).map_err(|error| tell("cannot be repeated", &error))?;
    if done && again != ImportOutcome::Same {
        return Err(tell("was not done", &again));
    }
    if lines(&store, case.id) != case.lines {
        return Err(tell("not whole after the second import", &again));
    }
    healthy(&store, case.id).map_err(|error| tell("not healthy in the end", &error))?;
    let keyed = store.create(NewSession::default().with_key("client/1"));
    if keyed.as_ref().ok().map(|known| known.id) != Some(case.id) {
        return Err(tell("the key leads elsewhere", &keyed));
    }
    let data = read(&store, case.id).map_err(|error| tell("not readable", &error))?.data;
    go_on(&store, case.id, &data).map_err(|error| tell("does not go on", &error))
}

#[test]
fn a_power_cut_leaves_no_session_or_a_whole_one() {
    let mut cuts = 0;
    for case in cases() {
        let (disk, store) = prepared(&case);
        disk.note(0, 0);
        disk.keep_history();
        import(&store, &case.bundle).unwrap();
        disk.note(1, 0);
        let moments = disk.take_history();
        println!("{}: {} operations", case.name, moments.len());
        cuts +=
            cut_everywhere(&moments, FaultRun::from_env().count(6, 200), &|disk, moment, seed| {
                after_crash(disk, &case, moment.note.0 == 1, seed)
            });
    }
    FaultRun::from_env().report("power cuts during an import", cuts, 20_000);
}

#[test]
fn every_operation_of_an_import_may_fail() {
    let kinds = [FaultKind::Io, FaultKind::Full, FaultKind::Short, FaultKind::Interrupted];
    let (mut tried, mut failed) = (0_u64, 0_u64);
    for case in cases() {
        let (disk, store) = prepared(&case);
        disk.set_faults(Vec::new(), 0);
        import(&store, &case.bundle).unwrap();
        let operations = disk.operations();
        println!("{}: {operations} operations", case.name);
        for at in FaultRun::from_env().places(operations, 13, 1) {
            for kind in kinds {
                for (lasting, power) in [
                    (Lasting::Once, false),
                    (Lasting::Once, true),
                    (Lasting::ForGood, false),
                    (Lasting::ForGood, true),
                ] {
                    let (disk, store) = prepared(&case);
                    disk.set_faults(vec![Fault { at, kind, lasting }], at);
                    let mut done = import(&store, &case.bundle).is_ok();
                    failed += u64::from(!done);
                    tried += 1;
                    if !done && lasting == Lasting::Once {
                        // Tried again, it says that all is well, and that must be so.
                        done = import(&store, &case.bundle).is_ok();
                    }
                    drop(store);
                    if power {
                        disk.power_cut(at * 31 + 7)
                    } else {
                        disk.kill()
                    }
                    after_crash(&disk, &case, done, 8).unwrap_or_else(|error| {
                        panic!("{at} {kind:?} {lasting:?} {power}: {error}")
                    });
                }
            }
        }
    }
    assert!(failed * 10 > tried, "faults must show: {failed} of {tried}");
    FaultRun::from_env().report("operations of an import failed", tried, 4_500);
}

/// The session of an import that failed at the very end can be seen and not be durable yet. Who then
/// says that it is here makes it so.
#[test]
fn already_here_is_said_of_what_is_durable() {
    let case = cases().remove(0);
    let (disk, store) = prepared(&case);
    disk.set_faults(Vec::new(), 0);
    import(&store, &case.bundle).unwrap();
    let operations = disk.operations();
    let mut seen = 0;
    for at in 0..operations {
        for seed in 0..FaultRun::from_env().count(6, 40) {
            let (disk, store) = prepared(&case);
            let fault = Fault { at, kind: FaultKind::Io, lasting: Lasting::Once };
            disk.set_faults(vec![fault], at);
            if import(&store, &case.bundle).is_ok() || !exists(&store, case.id) {
                break;
            }
            assert_eq!(import(&store, &case.bundle).unwrap(), ImportOutcome::Same);
            seen += 1;
            drop(store);
            disk.power_cut(seed);
            after_crash(&disk, &case, true, 8).unwrap_or_else(|error| panic!("{at}: {error}"));
        }
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn a_run_with_every_step_travels() {
    let mut run = Run::new(4);
    for step in [Step::Object, Step::Batch(9), Step::Buffered, Step::Rewind, Step::Pipelined(5)] {
        run.step(step).unwrap();
    }
    // Beside a writer that is at work.
    let store = open_store(&run.disk, 5).unwrap();
    let bundle = export(&store, run.id);
    let (_, there) = empty();
    import(&there, &bundle).unwrap();
    same(&store, &there, run.id);
    assert_eq!(read(&there, run.id).unwrap().data, run.sent);
}

#[test]
fn what_is_no_bundle_is_told() {
    let (disk, store) = empty();
    let before = disk.files();
    for bytes in [&b""[..], b"hello\n", b"\x28\xb5\x2f\xfd"] {
        let refused = import(&store, bytes);
        assert!(
            matches!(
                refused,
                Err(ImportError::Bundle(BundleError::Empty | BundleError::NotABundle { .. }))
            ),
            "{refused:?}"
        );
    }
    assert_eq!(disk.files(), before);
}
