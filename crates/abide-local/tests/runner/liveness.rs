//! What is seen of a writer while it comes, goes and stays.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use abide_journal::{Access, Disk, LockMode, Storage, StorageFile, StorageLock};
use abide_local::{Environment, LocalOptions, LocalStore, Upkeep};
use abide_model::{
    AnomalyPolicy, Durability, Liveness, LivenessReason, NewEvent, NewSession, SessionId,
    SessionWriter, Store, Timestamp, WriterHolder,
};

/// What is about to be done, or was done, to a lock's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Its text is about to be read.
    Reading,
    /// Somebody asked for the lock.
    Asked,
}

type Told = dyn Fn(Moment) + Send + Sync;

/// The disk, with somebody who is told what is done to locks.
struct Watched(Box<Told>);

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

fn is_lock(path: &Path) -> bool {
    path.ends_with("lock")
}

impl Storage for Watched {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        if is_lock(path) && access == Access::Read {
            (self.0)(Moment::Reading);
        }
        Disk.open(path, access)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Disk.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.make_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn modified(&self, path: &Path) -> io::Result<SystemTime> {
        Disk.modified(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        Disk.free_bytes(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Option<Box<dyn StorageLock>>> {
        let locked = Disk.lock(path, mode)?;
        if !is_lock(path) {
            return Ok(locked);
        }
        // The one who asks whether it is free does not keep it.
        let free = locked.is_some();
        drop(locked);
        (self.0)(Moment::Asked);
        Ok(if free { Some(Box::new(Passed)) } else { None })
    }
}

/// A lock that was had for a moment.
#[derive(Debug)]
struct Passed;

impl StorageLock for Passed {
    fn still_holds(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// The disk, on which nothing can be written into a lock's file.
#[derive(Debug)]
struct Unwritable;

#[derive(Debug)]
struct UnwritableFile(Arc<dyn StorageFile>);

impl Storage for Unwritable {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let file = Disk.open(path, access)?;
        Ok(if is_lock(path) { Arc::new(UnwritableFile(file)) } else { file })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Disk.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.make_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn modified(&self, path: &Path) -> io::Result<SystemTime> {
        Disk.modified(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        Disk.free_bytes(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Option<Box<dyn StorageLock>>> {
        Disk.lock(path, mode)
    }
}

impl StorageFile for UnwritableFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn overwrites_in_place(&self) -> bool {
        self.0.overwrites_in_place()
    }
}

const START: i64 = 1_763_169_600_000;

/// An environment whose clock is set by hand, of a process with this number.
fn environment(clock: &Arc<AtomicI64>, process: u32, started: Option<u64>) -> Environment {
    let clock = clock.clone();
    let real = Environment::default();
    Environment {
        now: Arc::new(move || Timestamp::from_millis(clock.load(Ordering::Relaxed))),
        holder: WriterHolder { process, started, ..real.holder.clone() },
        ..real
    }
}

fn store_of(root: &Path, storage: Arc<dyn Storage>, env: Environment) -> LocalStore {
    let options = LocalOptions { storage, env, upkeep: Upkeep::ByHand, ..LocalOptions::default() };
    LocalStore::init(root, options).unwrap()
}

fn made(store: &LocalStore) -> SessionId {
    store.create(NewSession::titled("a session")).unwrap().id
}

fn say(writer: &dyn SessionWriter) {
    let event = NewEvent::parse(r#"{"kind":"x.said","data":{}}"#).unwrap();
    writer.append(vec![event], Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
}

/// The number of a process that was, and is no more.
fn dead() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

#[test]
fn the_commits_of_a_writer_are_its_signs_of_life() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicI64::new(START));
    let me = Environment::default().holder;
    let store = store_of(dir.path(), Arc::new(Disk), environment(&clock, me.process, me.started));
    let session = made(&store);
    assert_eq!(store.liveness_checker().check(session).unwrap().liveness, Liveness::Idle);
    let writer = store.writer(session, Duration::ZERO).unwrap();
    let beat = || {
        let seen = store.liveness_checker().check(session).unwrap();
        assert_eq!((seen.liveness, seen.reason), (Liveness::Alive, LivenessReason::Held));
        seen.evidence.holder.unwrap().beat.unwrap().as_millis() - START
    };
    say(&writer);
    assert_eq!(beat(), 0);
    clock.store(START + 70_000, Ordering::Relaxed);
    assert_eq!(beat(), 0, "nothing was committed, and it is alive all the same");
    say(&writer);
    assert_eq!(beat(), 70_000);
    drop(writer);
    let seen = store.liveness_checker().check(session).unwrap();
    assert_eq!((seen.liveness, seen.reason), (Liveness::Idle, LivenessReason::Closed));
}

#[test]
fn a_sign_of_life_that_cannot_be_given_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicI64::new(START));
    let me = Environment::default().holder;
    let env = environment(&clock, me.process, me.started);
    // Somebody is named already, so that there is a heartbeat to renew.
    let session = made(&store_of(dir.path(), Arc::new(Disk), env.clone()));
    let store = store_of(dir.path(), Arc::new(Unwritable), env);
    let writer = store.writer(session, Duration::ZERO).unwrap();
    for step in 1..4 {
        clock.store(START + step * 60_000, Ordering::Relaxed);
        say(&writer);
    }
    let seen = store.liveness_checker().check(session).unwrap();
    assert_eq!(seen.liveness, Liveness::Alive);
    assert_eq!(seen.evidence.holder.unwrap().beat, Some(Timestamp::from_millis(START)));
}

/// The lock is seen free; then a writer comes, and its journal says that it writes; then it closes
/// and is gone before its process is looked for.
#[test]
fn a_writer_that_comes_and_goes_while_it_is_looked_for_has_not_crashed() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicI64::new(START));
    let other =
        Arc::new(store_of(dir.path(), Arc::new(Disk), environment(&clock, dead(), Some(1))));
    let session = made(&other);
    clock.fetch_add(1000, Ordering::Relaxed);
    let writer = Arc::new(Mutex::new(None));
    let (asked, read) = (AtomicU32::new(0), AtomicU32::new(0));
    let (theirs, slot) = (other.clone(), writer.clone());
    let watched = Watched(Box::new(move |moment| match moment {
        Moment::Asked if asked.fetch_add(1, Ordering::Relaxed) == 0 => {
            let writer = theirs.writer(session, Duration::ZERO).unwrap();
            say(&writer);
            *slot.lock().unwrap() = Some(writer);
        }
        Moment::Reading if read.fetch_add(1, Ordering::Relaxed) == 1 => {
            assert!(slot.lock().unwrap().take().is_some());
        }
        Moment::Asked | Moment::Reading => {}
    }));
    let store = store_of(dir.path(), Arc::new(watched), Environment::default());
    let seen = store.liveness_checker().check(session).unwrap();
    assert_eq!((seen.liveness, seen.reason), (Liveness::Idle, LivenessReason::Closed));
    assert!(seen.seq.0 >= 3, "it did write: {}", seen.seq);
    assert!(writer.lock().unwrap().is_none());
}

/// The same, with one that stays: whoever is named, somebody has the lock.
#[test]
fn a_writer_that_comes_while_it_is_looked_for_is_not_called_crashed() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicI64::new(START));
    let gone = store_of(dir.path(), Arc::new(Disk), environment(&clock, dead(), Some(1)));
    let session = made(&gone);
    // One that never closes: its end is as that of a process that was killed.
    let left = gone.writer(session, Duration::ZERO).unwrap();
    say(&left);
    let lock = super::session_dirs(dir.path()).remove(0).join("lock");
    std::mem::forget(left);
    let text = std::fs::read(&lock).unwrap();
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(&lock, text).unwrap();
    let seen = gone.liveness_checker().check(session).unwrap();
    assert_eq!((seen.liveness, seen.reason), (Liveness::Crashed, LivenessReason::ProcessGone));

    let me = Environment::default().holder;
    let mine = store_of(dir.path(), Arc::new(Disk), environment(&clock, me.process, me.started));
    clock.fetch_add(1000, Ordering::Relaxed);
    let writer = Arc::new(Mutex::new(None));
    let (asked, slot) = (AtomicU32::new(0), writer.clone());
    let watched = Watched(Box::new(move |moment| {
        if moment == Moment::Asked && asked.fetch_add(1, Ordering::Relaxed) == 0 {
            *slot.lock().unwrap() = Some(mine.writer(session, Duration::ZERO).unwrap());
        }
    }));
    let store = store_of(dir.path(), Arc::new(watched), Environment::default());
    let seen = store.liveness_checker().check(session).unwrap();
    assert_eq!((seen.liveness, seen.reason), (Liveness::Alive, LivenessReason::Held));
    assert!(writer.lock().unwrap().is_some());
}
