//! Cleanup and collection, and power cuts at every storage operation of them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use abide_journal::{Access, LockMode, PackWriter, Packs, Storage};
use abide_local::{Config, DailyCleanup, Environment, LocalOptions, LocalStore};
use abide_model::{
    AnomalyPolicy, Durability, NewEvent, NewSession, ObjectHash, Retention, SessionId,
    SessionWriter, Store, Timestamp,
};
use abide_testkit::{FaultRun, SimDisk};
use abide_workspace::{EntryKind, Snapshot, Tree, TreeEntry};

use crate::power::cut_everywhere;
use crate::run::{exists, healthy, open_store, options, small, store_path};

const START: i64 = 1_763_169_600_000;
const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

fn event(json: &str) -> NewEvent {
    NewEvent::parse(json).unwrap()
}

pub fn append(store: &LocalStore, id: SessionId, events: &[&str]) {
    let writer = store.writer(id, Duration::ZERO).unwrap();
    let events = events.iter().map(|json| event(json)).collect();
    writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    writer.close().unwrap();
}

/// A store whose clock is set by hand.
pub struct Clocked {
    pub disk: SimDisk,
    pub store: LocalStore,
    clock: Arc<AtomicI64>,
}

impl Clocked {
    pub fn new(retention: Retention) -> Self {
        let disk = SimDisk::new(Path::new("/sim"));
        let clock = Arc::new(AtomicI64::new(START));
        let mut options: LocalOptions = options(&disk, 7);
        let now = clock.clone();
        options.env = Environment {
            now: Arc::new(move || Timestamp::from_millis(now.load(Ordering::Relaxed))),
            ..options.env
        };
        let mut config = Config::default();
        config.journal.object_bytes = 2048;
        config.retention = retention;
        let store = LocalStore::init(&store_path(), options).unwrap().with_config(config);
        Self { disk, store, clock }
    }

    pub fn wait(&self, millis: i64) {
        self.clock.fetch_add(millis, Ordering::Relaxed);
    }

    fn session(&self) -> SessionId {
        self.store.create(NewSession::default()).unwrap().id
    }

    fn packs(&self) -> Arc<Packs> {
        Arc::new(Packs::new(Arc::new(self.disk.clone()), store_path().join("objects")))
    }

    /// Puts a snapshot of one file, and gives the snapshot, its tree and the file.
    pub fn snapshot(&self, text: &str) -> [ObjectHash; 3] {
        let writer = PackWriter::open(self.packs()).unwrap();
        let file = writer.put(text.as_bytes()).unwrap();
        let entry = TreeEntry {
            name: b"file".to_vec(),
            kind: EntryKind::File,
            mode: 0o644,
            size: text.len() as u64,
            hash: file,
        };
        let tree = writer.put(&Tree { entries: vec![entry] }.write()).unwrap();
        let snapshot = Snapshot {
            version: 1,
            tree,
            files: 1,
            directories: 0,
            bytes: text.len() as u64,
            omitted: Vec::new(),
            omissions: 0,
        };
        let snapshot = writer.put(&snapshot.write()).unwrap();
        writer.sync().unwrap();
        [snapshot, tree, file]
    }

    pub fn has(&self, objects: &[ObjectHash]) -> bool {
        let packs = self.packs();
        objects.iter().all(|object| packs.read(*object).unwrap().is_some())
    }

    pub fn clean(&self, settings: &Retention) -> abide_local::CleanupOutcome {
        let plan = self.store.cleaner().plan(settings).unwrap();
        self.store.cleaner().apply(&plan, settings).unwrap()
    }
}

pub fn checkpoint(number: u64, snapshot: ObjectHash) -> String {
    format!(
        r#"{{"kind":"checkpoint.created","data":{{"number":{number},"trigger":"hand","snapshot":"{snapshot}"}}}}"#
    )
}

#[test]
fn thinned_checkpoints_lose_their_snapshots_and_no_other_does() {
    let clocked = Clocked::new(Retention::default());
    let id = clocked.session();
    let snapshots: Vec<_> = (1..=6).map(|n| clocked.snapshot(&format!("file {n}"))).collect();
    for (number, snapshot) in (1..).zip(&snapshots) {
        append(&clocked.store, id, &[&checkpoint(number, snapshot[0])]);
        clocked.wait(1000);
    }
    // Two are named by something else: a rewind, and an event of an unknown kind.
    let rewind = format!(
        r#"{{"kind":"session.rewound","data":{{"to":4,"files":true,"snapshot":"{}"}}}}"#,
        snapshots[1][0]
    );
    append(&clocked.store, id, &[&rewind]);
    let foreign = format!(r#"{{"kind":"x.kept","data":{{"see":"at {}."}}}}"#, snapshots[2][0]);
    append(&clocked.store, id, &[&foreign]);
    clocked.wait(40 * DAY);
    let thin = Retention { thin: true, ..Retention::default() };
    let plan = clocked.store.cleaner().plan(&thin).unwrap();
    assert!(plan.jumped.is_some());
    // The first is the newest that was not rewound.
    assert_eq!(plan.checkpoints, [(id, vec![2, 3, 4, 5])]);
    let cleaned = clocked.clean(&thin);
    assert_eq!((cleaned.checkpoints, cleaned.notes.as_slice()), (4, &[][..]));
    for (place, kept) in [(0, true), (1, true), (2, true), (3, false), (4, false), (5, true)] {
        assert_eq!(clocked.has(&snapshots[place]), kept, "checkpoint {}", place + 1);
    }
    assert!(!clocked.has(&snapshots[3][1..2]) && !clocked.has(&snapshots[3][2..]));
    let state = clocked.store.writer(id, Duration::ZERO).unwrap().state().unwrap();
    assert!([1, 6].iter().all(|number| !state.core.checkpoints.is_thinned(*number)));
    assert!(state.core.checkpoints.is_thinned(4));
    // Once is enough, and being looked after is no use of a session.
    let again = clocked.store.cleaner().plan(&Retention {
        max_age: Some("30d".parse().unwrap()),
        min_keep: 0,
        ..thin
    });
    let again = again.unwrap();
    assert!(again.checkpoints.is_empty());
    assert_eq!(again.sessions.len(), 1);
}

#[test]
fn a_tree_that_cannot_be_read_stops_a_collection() {
    let clocked = Clocked::new(Retention::default());
    let id = clocked.session();
    let snapshot = Snapshot {
        version: 1,
        tree: ObjectHash::of(b"nowhere"),
        files: 0,
        directories: 0,
        bytes: 0,
        omitted: Vec::new(),
        omissions: 0,
    };
    let writer = PackWriter::open(clocked.packs()).unwrap();
    let snapshot = writer.put(&snapshot.write()).unwrap();
    writer.sync().unwrap();
    drop(writer);
    append(&clocked.store, id, &[&checkpoint(1, snapshot)]);
    let garbage = clocked.snapshot("garbage");
    clocked.wait(10 * DAY);
    let cleaned = clocked.clean(&Retention::default());
    assert!(cleaned.notes[0].contains("is missing or damaged"), "{:?}", cleaned.notes);
    assert!(clocked.has(&garbage));
}

#[test]
fn a_snapshot_that_is_nowhere_does_not_stop_a_collection() {
    let clocked = Clocked::new(Retention::default());
    let id = clocked.session();
    let kept = clocked.snapshot("kept");
    let nowhere = checkpoint(1, ObjectHash::of(b"nowhere"));
    append(&clocked.store, id, &[&nowhere, &checkpoint(2, kept[0])]);
    let garbage = clocked.snapshot("garbage");
    clocked.wait(10 * DAY);
    let plan = clocked.store.cleaner().plan(&Retention::default()).unwrap();
    assert_eq!(plan.objects.unwrap().objects_removed, 3);
    let cleaned = clocked.store.cleaner().apply(&plan, &Retention::default()).unwrap();
    assert!(cleaned.notes[0].contains("1 snapshots"), "{:?}", cleaned.notes);
    assert_eq!(cleaned.objects.objects_removed, 3);
    assert!(!clocked.has(&garbage[..1]) && clocked.has(&kept));
}

#[test]
fn a_snapshot_that_is_there_and_damaged_stops_a_collection() {
    let clocked = Clocked::new(Retention::default());
    let id = clocked.session();
    let kept = clocked.snapshot("kept");
    append(&clocked.store, id, &[&checkpoint(1, kept[0])]);
    let path = clocked.disk.files().into_iter().find(|path| {
        path.extension().is_some_and(|end| end == "pack") && path.starts_with(store_path())
    });
    let path = path.unwrap();
    let mut bytes = clocked.disk.bytes(&path).unwrap();
    let end = bytes.len() - 40;
    bytes[end] ^= 1;
    clocked.disk.set_bytes(&path, bytes);
    clocked.wait(10 * DAY);
    let store = open_store(&clocked.disk, 9).unwrap();
    // However often one looks.
    for _ in 0..2 {
        let plan = store.cleaner().plan(&Retention::default()).unwrap();
        assert!(plan.notes[0].contains("no objects will be collected"), "{:?}", plan.notes);
    }
}

#[test]
fn what_workspaces_looked_like_is_forgotten_only_when_an_object_goes() {
    let clocked = Clocked::new(Retention::default());
    let id = clocked.session();
    let kept = clocked.snapshot("kept");
    append(&clocked.store, id, &[&checkpoint(1, kept[0])]);
    let cache = clocked.store.cache_dir();
    clocked.disk.make_dir(&cache).unwrap();
    clocked.disk.open(&cache.join("one"), Access::Create).unwrap();
    clocked.wait(10 * DAY);
    clocked.store.collector().collect(Duration::ZERO).unwrap();
    assert_eq!(clocked.disk.list(&cache).unwrap(), ["one"]);
    clocked.snapshot("garbage");
    clocked.wait(10 * DAY);
    assert_eq!(clocked.store.collector().collect(Duration::ZERO).unwrap().objects_removed, 3);
    assert_eq!(clocked.disk.list(&cache).unwrap(), [""; 0]);
}

#[test]
fn nothing_is_collected_while_somebody_puts_objects() {
    let clocked = Clocked::new(Retention::default());
    let garbage = clocked.snapshot("garbage");
    clocked.wait(10 * DAY);
    let writer = PackWriter::open(clocked.packs()).unwrap();
    let cleaned = clocked.clean(&Retention::default());
    assert!(cleaned.notes[0].contains("a writer is storing objects"), "{:?}", cleaned.notes);
    assert!(clocked.has(&garbage));
    drop(writer);
    assert_eq!(clocked.clean(&Retention::default()).notes, [""; 0]);
    assert!(!clocked.has(&garbage));
}

#[test]
fn a_session_in_use_and_the_parents_of_forks_stay() {
    let clocked = Clocked::new(Retention::default());
    let (parent, used, old) = (clocked.session(), clocked.session(), clocked.session());
    let mut fork = NewSession::default();
    fork.fields.parent = Some(
        serde_json::from_str(&format!(r#"{{"session":"{parent}","seq":1,"reason":"fork"}}"#))
            .unwrap(),
    );
    clocked.wait(DAY);
    let fork = clocked.store.create(fork).unwrap().id;
    let writer = clocked.store.writer(used, Duration::ZERO).unwrap();
    let settings = Retention { max_count: Some(0), min_keep: 1, ..Retention::default() };
    let cleaned = clocked.clean(&settings);
    let gone: Vec<_> = cleaned.sessions.iter().map(|session| session.id).collect();
    assert_eq!(gone, [old]);
    drop(writer);
    for id in [parent, used, fork] {
        assert!(exists(&clocked.store, id));
        healthy(&clocked.store, id).unwrap();
    }
    let all = Retention { min_keep: 0, ..settings };
    let gone: Vec<_> = clocked.clean(&all).sessions.iter().map(|session| session.id).collect();
    assert_eq!(gone.len(), 3);
    let place = |id| gone.iter().position(|gone| *gone == id).unwrap();
    assert!(place(fork) < place(parent));
}

#[test]
fn a_session_that_was_used_since_the_plan_stays() {
    let clocked = Clocked::new(Retention::default());
    let (one, two) = (clocked.session(), clocked.session());
    clocked.wait(HOUR);
    append(&clocked.store, two, &[r#"{"kind":"x.a","data":{}}"#]);
    let settings = Retention { max_count: Some(1), min_keep: 0, ..Retention::default() };
    let plan = clocked.store.cleaner().plan(&settings).unwrap();
    assert_eq!(plan.sessions[0].id, one);
    clocked.wait(HOUR);
    append(&clocked.store, one, &[r#"{"kind":"x.a","data":{}}"#]);
    let cleaned = clocked.store.cleaner().apply(&plan, &settings).unwrap();
    assert!(cleaned.sessions.is_empty());
    assert!(exists(&clocked.store, one) && exists(&clocked.store, two));
}

#[test]
fn a_session_that_was_used_again_within_a_moment_stays() {
    // The clock stands still, so that only the journal tells.
    let clocked = Clocked::new(Retention::default());
    let id = clocked.session();
    append(&clocked.store, id, &[r#"{"kind":"x.a","data":{}}"#]);
    let settings = Retention { max_count: Some(0), min_keep: 0, ..Retention::default() };
    let plan = clocked.store.cleaner().plan(&settings).unwrap();
    assert_eq!(plan.sessions.len(), 1);
    append(&clocked.store, id, &[r#"{"kind":"x.a","data":{}}"#]);
    let cleaned = clocked.store.cleaner().apply(&plan, &settings).unwrap();
    assert!(cleaned.sessions.is_empty() && exists(&clocked.store, id));
    assert!(cleaned.notes[0].contains(&format!("session {id} stays")), "{:?}", cleaned.notes);
    let again = clocked.clean(&settings);
    assert_eq!((again.sessions.len(), again.notes.as_slice()), (1, &[][..]));
}

fn fork(store: &LocalStore, parent: SessionId) -> SessionId {
    store.fork(parent, None, NewSession::default()).unwrap().id
}

#[test]
fn the_parent_of_a_fork_that_was_not_shown_stays() {
    let clocked = Clocked::new(Retention::default());
    let parent = clocked.session();
    let settings = Retention { max_count: Some(0), min_keep: 0, ..Retention::default() };
    let plan = clocked.store.cleaner().plan(&settings).unwrap();
    assert_eq!(plan.sessions.len(), 1);
    // Both would go now, and only the parent was shown.
    let fork = fork(&clocked.store, parent);
    assert_eq!(clocked.store.cleaner().plan(&settings).unwrap().sessions.len(), 2);
    let cleaned = clocked.store.cleaner().apply(&plan, &settings).unwrap();
    assert!(cleaned.sessions.is_empty());
    assert!(cleaned.notes[0].contains(&format!("its fork {fork}")), "{:?}", cleaned.notes);
    healthy(&clocked.store, fork).unwrap();
}

#[test]
fn a_damaged_fork_keeps_its_parent_and_no_fork_is_made_in_a_cleanup() {
    let clocked = Clocked::new(Retention::default());
    let parent = clocked.session();
    let fork = fork(&clocked.store, parent);
    clocked.wait(DAY);
    append(&clocked.store, fork, &[r#"{"kind":"x.a","data":{}}"#]);
    // Its first event, which says where it comes from, cannot be read any more.
    let journal = clocked.store.reader(fork).unwrap().journal().dir().to_owned();
    let segment = journal.join("00000001.jsonl");
    let mut bytes = clocked.disk.bytes(&segment).unwrap();
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 30;
    bytes[first] ^= 1;
    clocked.disk.set_bytes(&segment, bytes);
    for path in clocked.disk.files() {
        if path.starts_with(journal.with_file_name("state")) {
            clocked.disk.remove_file(&path);
        }
    }
    let settings = Retention { max_count: Some(0), min_keep: 1, ..Retention::default() };
    let cleaned = clocked.clean(&settings);
    assert!(cleaned.sessions.is_empty(), "{cleaned:?}");
    assert!(exists(&clocked.store, parent));
    // While forks are being made nothing is cleaned up.
    let lock = store_path().join("cleanup.lock");
    let plan = clocked.store.cleaner().plan(&settings).unwrap();
    let held = clocked.disk.lock(&lock, LockMode::Shared).unwrap().unwrap();
    assert!(clocked.store.cleaner().apply(&plan, &settings).is_err());
    clocked.store.fork(parent, None, NewSession::default()).unwrap();
    drop(held);
    // And a fork waits for a cleanup that is running.
    let held = clocked.disk.lock(&lock, LockMode::Exclusive).unwrap().unwrap();
    let (made, told) = (clocked.store.list().unwrap().len(), std::sync::mpsc::channel());
    std::thread::scope(|scope| {
        let forking = scope.spawn(|| {
            told.0.send(()).unwrap();
            clocked.store.fork(parent, None, NewSession::default())
        });
        told.1.recv().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(clocked.store.list().unwrap().len(), made);
        drop(held);
        forking.join().unwrap().unwrap();
    });
    assert_eq!(clocked.store.list().unwrap().len(), made + 1);
}

#[test]
fn nothing_goes_beside_a_session_that_cannot_be_read() {
    let clocked = Clocked::new(Retention::default());
    let (parent, other) = (clocked.session(), clocked.session());
    let fork = fork(&clocked.store, parent);
    let dir = clocked.store.reader(fork).unwrap().journal().dir().to_owned();
    clocked.disk.set_bytes(&dir.join("00000001.jsonl"), b"nothing\n".to_vec());
    let store = open_store(&clocked.disk, 9).unwrap();
    let settings = Retention { max_count: Some(0), min_keep: 0, ..Retention::default() };
    let plan = store.cleaner().plan(&settings).unwrap();
    assert!(plan.sessions.is_empty(), "{plan:?}");
    assert!(plan.notes.iter().any(|note| note.contains("may be a fork")), "{:?}", plan.notes);
    assert!(exists(&store, parent) && exists(&store, other));
}

#[test]
fn thinning_takes_only_what_was_shown_and_the_numbers_of_the_fold() {
    let clocked = Clocked::new(Retention::default());
    let parent = clocked.session();
    let numberless = |snapshot: ObjectHash| {
        format!(
            r#"{{"kind":"checkpoint.created","data":{{"trigger":"hand","snapshot":"{snapshot}"}}}}"#
        )
    };
    let olds: Vec<_> = (1..=2).map(|n| clocked.snapshot(&format!("old {n}"))).collect();
    for old in &olds {
        append(&clocked.store, parent, &[&numberless(old[0])]);
        clocked.wait(1000);
    }
    let fork = fork(&clocked.store, parent);
    let news: Vec<_> = (1..=6).map(|n| clocked.snapshot(&format!("new {n}"))).collect();
    for new in &news {
        append(&clocked.store, fork, &[&numberless(new[0])]);
        clocked.wait(1000);
    }
    clocked.wait(40 * DAY);
    let thin = Retention { thin: true, ..Retention::default() };
    let plan = clocked.store.cleaner().plan(&thin).unwrap();
    assert_eq!(plan.checkpoints, [(fork, vec![3, 4, 5, 6, 7])]);
    // One of them was not shown.
    let mut shown = plan.clone();
    shown.checkpoints = vec![(fork, vec![3, 4, 5, 6, 8]), (parent, vec![1])];
    let cleaned = clocked.store.cleaner().apply(&shown, &thin).unwrap();
    assert_eq!((cleaned.checkpoints, cleaned.notes.as_slice()), (4, &[][..]));
    let state = clocked.store.writer(fork, Duration::ZERO).unwrap().state().unwrap();
    let thinned = (1..=8).filter(|number| state.core.checkpoints.is_thinned(*number));
    assert_eq!(thinned.collect::<Vec<_>>(), [3, 4, 5, 6]);
    assert!(news[..4].iter().all(|new| !clocked.has(&new[..1])));
    assert!(clocked.has(&news[4]) && clocked.has(&news[5]));
    assert!(clocked.has(&olds[0]) && clocked.has(&olds[1]));
}

#[test]
fn the_daily_cleanup_trusts_a_clock_that_goes_on_and_no_other() {
    let settings =
        Retention { max_age: Some("30d".parse().unwrap()), min_keep: 0, ..Retention::default() };
    let clocked = Clocked::new(settings.clone());
    let (old, about) = (clocked.session(), clocked.session());
    // Day by day, as it is with a store in use.
    for _ in 0..32 {
        clocked.wait(DAY);
        let daily = clocked.store.cleaner().clean_up_daily(about).unwrap();
        match daily {
            DailyCleanup::Cleaned(cleaned) => assert_eq!(cleaned.sessions[0].id, old),
            daily => assert!(matches!(daily, DailyCleanup::NotDue)),
        }
    }
    assert!(!exists(&clocked.store, old) && exists(&clocked.store, about));
    // The clock jumps by a year, and what is recorded then does not make it true.
    clocked.wait(365 * DAY);
    let other = clocked.session();
    assert!(matches!(
        clocked.store.cleaner().clean_up_daily(other).unwrap(),
        DailyCleanup::Doubted(_)
    ));
    assert!(matches!(clocked.store.cleaner().clean_up_daily(other).unwrap(), DailyCleanup::NotDue));
    clocked.wait(2 * DAY);
    append(&clocked.store, other, &[r#"{"kind":"x.a","data":{}}"#]);
    assert!(matches!(
        clocked.store.cleaner().clean_up_daily(other).unwrap(),
        DailyCleanup::Doubted(_)
    ));
    assert!(exists(&clocked.store, about));
    // Until somebody looks.
    assert!(clocked.store.cleaner().plan(&settings).unwrap().jumped.is_some());
    clocked.clean(&settings);
    assert!(!exists(&clocked.store, about) && exists(&clocked.store, other));
    clocked.wait(2 * DAY);
    assert!(matches!(clocked.store.cleaner().clean_up_daily(other).unwrap(), DailyCleanup::NotDue));
}

#[test]
fn a_power_cut_leaves_each_session_whole_or_removed() {
    let disk = SimDisk::new(Path::new("/sim"));
    let store = small(LocalStore::init(&store_path(), options(&disk, 3)).unwrap());
    let mut made = Vec::new();
    for key in ["a", "b", "c"] {
        let id = store.create(NewSession::default().with_key(key)).unwrap().id;
        let own = format!(r#"{{"kind":"x.a","data":{{"text":"{}"}}}}"#, key.repeat(900));
        let shared = format!(r#"{{"kind":"x.a","data":{{"text":"{}"}}}}"#, "s".repeat(900));
        append(&store, id, &[&own, &shared]);
        made.push((key, id));
    }
    // A power cut may take a `writer.closed` along, and the session looks interrupted.
    let settings =
        Retention { max_count: Some(1), min_keep: 0, keep_failed: false, ..Retention::default() };
    disk.keep_history();
    let plan = store.cleaner().plan(&settings).unwrap();
    assert_eq!(plan.sessions.len(), 2);
    let cleaned = store.cleaner().apply(&plan, &settings).unwrap();
    assert_eq!((cleaned.sessions.len(), cleaned.notes.len()), (2, 0));
    assert!(cleaned.objects.objects_removed > 0);
    let moments = disk.take_history();
    let cuts = cut_everywhere(&moments, FaultRun::from_env().count(6, 60), &|disk, _, seed| {
        let store = open_store(disk, seed + 50).map_err(|error| format!("{error:?}"))?;
        for (key, id) in &made {
            let here = exists(&store, *id);
            if here {
                healthy(&store, *id).map_err(|error| format!("session {key}: {error}"))?;
            } else if *key == "c" {
                return Err("the session that stays is gone".to_owned());
            }
        }
        // It is finished the next time, and a key leads to its session or to a new one.
        let plan = store.cleaner().plan(&settings).map_err(|error| format!("{error:?}"))?;
        store.cleaner().apply(&plan, &settings).map_err(|error| format!("{error:?}"))?;
        let left = disk.files();
        if left.iter().any(|path| path.starts_with(store_path().join("removed"))) {
            return Err(format!("left over: {left:?}"));
        }
        for (key, id) in &made {
            let found = store
                .create(NewSession::default().with_key(*key))
                .map_err(|error| format!("{error:?}"))?
                .id;
            healthy(&store, found)?;
            if (found == *id) != (*key == "c") {
                return Err(format!("{key} leads to {found}, and was {id}"));
            }
        }
        Ok(())
    });
    FaultRun::from_env().report("power cuts during a cleanup", cuts, 1_000);
}
