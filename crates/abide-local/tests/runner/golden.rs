//! The format is frozen: the same events give the same bytes, and the bytes of every released
//! version are read. `ABIDE_GOLDEN=write` writes the files of a new version.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_journal::{BundleReader, BundleRecord, SegmentHeader, Slots};
use abide_local::{FillingPolicy, ImportOutcome, LocalOptions, LocalStore};
use abide_model::{
    AnomalyPolicy, Durability, EventRange, FOLD_VERSION, NewEvent, NewSession, SessionId,
    SessionReader, SessionRef, SessionWriter, Store, TaskStatus,
};
use abide_testkit::SimDisk;

use crate::run::{options, store_path};

const EVENTS: &[&str] = &[
    r#"{"kind":"turn.started","data":{"turn":1,"agent":"coder"}}"#,
    r#"{"kind":"message.added","data":{"role":"user","content":"Größe: 1e400, \ud83d\ude00"},"turn":1,"occurred":"2025-11-15T01:20:00+01:00"}"#,
    r#"{"kind":"tool.called","data":{"call":"c1","name":"bash","arguments":{"command":"ls"}},"turn":1,"task":"P1.T1","lane":"sub","key":"k/1"}"#,
    r#"{"kind":"tool.finished","data":{"call":"c1","ok":true,"result":123456789012345678901234567890},"lane":"sub"}"#,
    r#"{"kind":"x.large","data":{"text":"LARGE","list":["a",{"text":"LARGE"}]}}"#,
    r#"{"kind":"x.own","data":{ "spaced" : null , "twice":1,"twice":2}}"#,
];

/// The versions that are read; the last is written.
const VERSIONS: [&str; 2] = ["v1", "v2"];

fn dir(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version)
}

/// The directory of the version that is written.
fn newest() -> PathBuf {
    dir(VERSIONS[1])
}

fn writes_golden() -> bool {
    std::env::var("ABIDE_GOLDEN").is_ok_and(|what| what == "write")
}

/// A session made of [`EVENTS`] in a world where nothing varies.
fn write() -> (SimDisk, PathBuf) {
    let disk = SimDisk::new(Path::new("/sim"));
    let store = LocalStore::init(&store_path(), options(&disk, 42)).unwrap();
    let mut config = store.config().clone();
    config.journal.segment_bytes = 1400;
    config.journal.object_bytes = 300;
    let store = store.with_config(config);
    let id = store.create(NewSession::titled("golden").with_key("golden")).unwrap().id;
    for part in EVENTS.chunks(3) {
        let writer = store.writer(id, Duration::ZERO).unwrap();
        for json in part {
            let event = NewEvent::parse(&json.replace("LARGE", &"large text ".repeat(60))).unwrap();
            let ticket =
                writer.append(vec![event], Durability::Synced, AnomalyPolicy::Keep).unwrap();
            ticket.wait().unwrap();
        }
        writer.close().unwrap();
    }
    store.seal(id, Duration::ZERO).unwrap();
    (disk, store_path())
}

fn export(store: &LocalStore) -> String {
    let id = store.find(&SessionRef::Latest).unwrap();
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    assert_eq!(page.notes, []);
    page.events.iter().map(|event| event.to_json() + "\n").collect()
}

/// Compression may change with the library; everything else may not.
fn frozen(path: &Path) -> bool {
    let name = path.to_string_lossy();
    !(name.ends_with(".zst")
        || name.ends_with(".pack")
        || name.contains("/state/")
        || name.contains("/changed/")
        || name.contains("/.git/")
        || name.ends_with("lock"))
}

#[test]
fn the_same_events_give_the_same_bytes() {
    let (disk, root) = write();
    let golden = newest().join("store");
    if writes_golden() {
        for path in disk.files() {
            let to = golden.join(path.strip_prefix(&root).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(to, disk.bytes(&path).unwrap()).unwrap();
        }
        let store = LocalStore::open(&golden, LocalOptions::default()).unwrap();
        fs::write(newest().join("export.jsonl"), export(&store)).unwrap();
    }
    let mut compared = 0;
    for path in disk.files().iter().filter(|path| frozen(path)) {
        let expected = fs::read(golden.join(path.strip_prefix(&root).unwrap())).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&disk.bytes(path).unwrap()),
            String::from_utf8_lossy(&expected),
            "{}",
            path.display()
        );
        compared += 1;
    }
    assert!(compared >= 4);
}

#[test]
fn the_bytes_of_every_version_are_read() {
    for version in VERSIONS {
        let store = LocalStore::open(&dir(version).join("store"), LocalOptions::default()).unwrap();
        let expected = fs::read_to_string(dir(version).join("export.jsonl")).unwrap();
        assert_eq!(export(&store), expected);
        for json in EVENTS {
            let data = json.split_once("\"data\":").unwrap().1;
            if !data.contains("LARGE") {
                let end = data.find('}').unwrap();
                assert!(expected.contains(&data[..end]), "{data}");
            }
        }
        let id = store.find(&SessionRef::Latest).unwrap();
        let checked = store.doctor().examine(id).unwrap();
        // The files have the permissions that a checkout gave them.
        let wrong = checked.findings.iter().filter(|finding| finding.rule != "permissions");
        assert_eq!(wrong.count(), 0, "{:?}", checked.findings);
    }
}

/// A session whose writer was killed: its segment has filling behind the last line.
fn killed() -> (SimDisk, PathBuf) {
    let disk = SimDisk::new(Path::new("/sim"));
    let filling = FillingPolicy { after: 1, first: 1024, most: 1024 };
    let options = LocalOptions { filling, ..options(&disk, 42) };
    let store = LocalStore::init(&store_path(), options).unwrap();
    let id = store.create(NewSession::titled("golden").with_key("golden")).unwrap().id;
    let writer = store.writer(id, Duration::ZERO).unwrap();
    for json in &EVENTS[..2] {
        let event = NewEvent::parse(json).unwrap();
        writer
            .append(vec![event], Durability::Synced, AnomalyPolicy::Keep)
            .unwrap()
            .wait()
            .unwrap();
    }
    std::mem::forget(writer);
    disk.kill();
    let mut segments = disk.files().into_iter();
    let segment = segments.find(|path| path.ends_with("journal/00000001.jsonl")).unwrap();
    (disk, segment)
}

#[test]
fn filling_is_frozen_too() {
    let (disk, segment) = killed();
    let golden = newest().join("filled.jsonl");
    if writes_golden() {
        fs::write(&golden, disk.bytes(&segment).unwrap()).unwrap();
    }
    let golden = fs::read(golden).unwrap();
    assert!(golden.ends_with(b"\n\n\n"), "it has filling");
    assert_eq!(disk.bytes(&segment).unwrap(), golden);
    let store = LocalStore::open(&store_path(), options(&disk, 43)).unwrap();
    assert_eq!(export(&store).lines().count(), 4);
    let id = store.find(&SessionRef::Latest).unwrap();
    let findings = store.doctor().examine(id).unwrap().findings;
    assert!(findings.iter().all(|finding| finding.rule == "stale-lock"), "{findings:?}");
    // The next writer cuts it off and goes on behind the last line.
    let kept = golden.trim_ascii_end().len() + 1;
    let writer = store.writer(id, Duration::ZERO).unwrap();
    assert_eq!(disk.bytes(&segment).unwrap(), golden[..kept]);
    writer.close().unwrap();
    assert!(disk.bytes(&segment).unwrap().starts_with(&golden[..kept]));
}

/// The segments on a disk.
fn segments(disk: &SimDisk) -> Vec<PathBuf> {
    let files = disk.files().into_iter();
    files.filter(|path| path.to_string_lossy().contains("/journal/")).collect()
}

/// A store with the golden session in segments as version 1 wrote them. Its writers fill when they may.
fn version_1() -> (SimDisk, LocalStore, SessionId) {
    let disk = SimDisk::new(Path::new("/sim"));
    let filling = FillingPolicy { after: 0, first: 512, most: 512 };
    let options = LocalOptions { filling, ..options(&disk, 44) };
    let store = LocalStore::init(&store_path(), options).unwrap();
    let bundle = fs::read(dir("v1").join("session.abide")).unwrap();
    store.importer().import(BundleReader::open(&*bundle).unwrap(), Duration::ZERO).unwrap();
    let id = store.find(&SessionRef::Latest).unwrap();
    for path in segments(&disk) {
        let text = String::from_utf8(disk.bytes(&path).unwrap()).unwrap();
        let (header, lines) = text.split_once('\n').unwrap();
        let header = SegmentHeader::read(header.as_bytes(), &path).unwrap().unwrap();
        let old = SegmentHeader { version: 1, ..header }.write();
        disk.set_bytes(&path, [&old, lines.as_bytes()].concat());
    }
    let mut config = store.config().clone();
    config.journal.segment_bytes = 1400;
    (disk, store.with_config(config), id)
}

fn assert_all_of_version_1(disk: &SimDisk) {
    for path in segments(disk) {
        let bytes = disk.bytes(&path).unwrap();
        let header = bytes.split(|byte| *byte == b'\n').next().unwrap();
        assert_eq!(SegmentHeader::read(header, &path).unwrap().unwrap().version, 1);
        assert!(!bytes.ends_with(b"\n\n"), "filled: {}", path.display());
    }
}

/// A journal keeps its version, so that the program that started it can go on with it.
#[test]
fn a_journal_of_version_1_stays_one() {
    let (disk, store, id) = version_1();
    let before = segments(&disk).len();
    let writer = store.writer(id, Duration::ZERO).unwrap();
    for count in 0..12 {
        let event = NewEvent::parse(&format!(r#"{{"kind":"x.own","data":{{"count":{count}}}}}"#));
        let ticket =
            writer.append(vec![event.unwrap()], Durability::Synced, AnomalyPolicy::Keep).unwrap();
        ticket.wait().unwrap();
        assert_all_of_version_1(&disk);
    }
    writer.close().unwrap();
    assert!(segments(&disk).len() > before + 1, "it has rotated");
    assert_all_of_version_1(&disk);
    assert_eq!(store.doctor().examine(id).unwrap().findings, []);

    // An import that adds events to one leaves it what it is, too.
    let mut longer = Vec::new();
    store.exporter().export(id, &mut longer).unwrap();
    let (disk, store, _) = version_1();
    let bundle = BundleReader::open(&*longer).unwrap();
    let imported = store.importer().import(bundle, Duration::ZERO).unwrap();
    assert!(matches!(imported.outcome, ImportOutcome::Forwarded { .. }), "{imported:?}");
    assert!(segments(&disk).len() > before, "it has new segments");
    assert_all_of_version_1(&disk);
}

/// What is in a bundle, record by record: compression may change with the library.
fn records(bundle: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let header = bundle.split(|byte| *byte == b'\n').next().unwrap().to_vec();
    let mut reader = BundleReader::open(bundle).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        records.push(match record {
            BundleRecord::Object { hash, bytes } => [&hash.0[..], bytes].concat(),
            BundleRecord::Line(line) => line.bytes().to_vec(),
        });
    }
    (header, records)
}

#[test]
fn the_same_session_gives_the_same_bundle() {
    let (disk, root) = write();
    let store = LocalStore::open(&root, options(&disk, 43)).unwrap();
    let id = store.find(&SessionRef::Latest).unwrap();
    let mut bundle = Vec::new();
    store.exporter().export(id, &mut bundle).unwrap();
    if writes_golden() {
        fs::write(newest().join("session.abide"), &bundle).unwrap();
    }
    // The version of the journal is none of a bundle's business.
    for version in VERSIONS {
        let golden = fs::read(dir(version).join("session.abide")).unwrap();
        assert!(records(&bundle) == records(&golden), "{version}");
    }
}

#[test]
fn the_bundle_of_every_version_is_read() {
    for version in VERSIONS {
        let bundle = fs::read(dir(version).join("session.abide")).unwrap();
        let disk = SimDisk::new(Path::new("/sim"));
        let store = LocalStore::init(&store_path(), options(&disk, 44)).unwrap();
        let bundle = BundleReader::open(&*bundle).unwrap();
        let imported = store.importer().import(bundle, Duration::ZERO).unwrap();
        assert_eq!(imported.outcome, ImportOutcome::Made);
        assert_eq!(export(&store), fs::read_to_string(dir(version).join("export.jsonl")).unwrap());
    }
}

/// Programs of two versions may use a store by turns: neither takes the other's state for its own.
#[test]
fn a_state_that_another_version_cached_is_rebuilt() {
    let disk = SimDisk::new(Path::new("/sim"));
    let store = LocalStore::init(&store_path(), options(&disk, 42)).unwrap();
    let id = store.create(NewSession::titled("two versions")).unwrap().id;
    let append = |json: &str| {
        let writer = store.writer(id, Duration::ZERO).unwrap();
        let event = NewEvent::parse(json).unwrap();
        writer
            .append(vec![event], Durability::Synced, AnomalyPolicy::Keep)
            .unwrap()
            .wait()
            .unwrap();
        writer.close().unwrap();
    };
    append(r#"{"kind":"task.created","data":{"task":"a","title":"a"}}"#);
    append(r#"{"kind":"task.status","data":{"task":"a","status":"complete"}}"#);
    append(r#"{"kind":"task.status","data":{"task":"a","status":"planned"}}"#);
    let counts = || store.reader(id).unwrap().state().unwrap().core.tasks.by_status;
    let digest = || store.reader(id).unwrap().state().unwrap().digest();
    let (folded, expected) = (digest(), [(TaskStatus::Complete, 1)].into());
    assert_eq!(counts(), expected);

    // The version before applied the last status.
    let slot = disk.files().into_iter().find(|path| path.ends_with("state/handover.0")).unwrap();
    let leave = |fold: u32| {
        let mut slots = Slots::new(slot.parent().unwrap(), "handover");
        let root = slots.read(&disk).remove(0);
        let mut root: serde_json::Value = serde_json::from_slice(&root).unwrap();
        root["state"]["fold"] = fold.into();
        root["state"]["core"]["tasks"]["by_status"] = serde_json::json!({"planned": 1});
        for _ in 0..2 {
            slots.write(&disk, root.to_string().as_bytes()).unwrap();
        }
    };
    leave(FOLD_VERSION);
    assert_ne!(counts(), expected, "a state of this version is used");
    for other in [FOLD_VERSION - 1, FOLD_VERSION + 1] {
        leave(other);
        assert_eq!((counts(), digest()), (expected.clone(), folded));
        let writer = store.writer(id, Duration::ZERO).unwrap();
        assert_eq!(writer.core().unwrap().0.tasks.by_status, expected);
        writer.close().unwrap();
    }
    // The next writer leaves its own.
    append(r#"{"kind":"x.own","data":{}}"#);
    let left = disk.bytes(&slot).unwrap();
    let other = slot.with_extension("1");
    let left = [left, disk.bytes(&other).unwrap()].concat();
    let left = String::from_utf8_lossy(&left).into_owned();
    assert!(left.contains(&format!("\"fold\":{FOLD_VERSION}")), "{left}");
    assert_eq!(counts(), expected);
}
