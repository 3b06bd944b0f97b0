//! Repairs on the simulated disk: cut off anywhere, failed anywhere, and what is left of the session.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use abide_journal::{Access, Disk, LockMode, Storage, StorageFile, StorageLock};
use abide_local::{LocalOptions, LocalStore, RepairRequest, RepairStrategy};
use abide_model::{
    AnomalyPolicy, Durability, EventRange, NewEvent, NewSession, SessionWriter, Severity, Store,
};
use abide_testkit::{Fault, FaultKind, FaultRun, Lasting, SimDisk};

use crate::power::cut_everywhere;
use crate::run::{Run, Step, open_store, options, store_path};

/// A session whose journal is damaged, and the events of it that are not.
struct Case {
    name: &'static str,
    disk: SimDisk,
    id: abide_model::SessionId,
    /// Data of the events that can be read.
    whole: Vec<String>,
    /// Data of those that the transcript has too.
    known: Vec<String>,
    request: RepairRequest,
}

fn data(store: &LocalStore, id: abide_model::SessionId) -> Result<Vec<String>, String> {
    let reader = store.read(id).map_err(|error| format!("{error:?}"))?;
    let page = reader.page(EventRange::ALL.limit(10_000));
    let page = page.map_err(|error| format!("{error:?}"))?;
    let sent = page.events.into_iter().filter(|event| event.kind.as_str() == "x.sim");
    Ok(sent.map(|event| event.data.unwrap().as_str().to_owned()).collect())
}

fn segments(disk: &SimDisk) -> Vec<PathBuf> {
    let mut paths = disk.files();
    paths.retain(|path| path.to_string_lossy().contains("/journal/"));
    paths.sort();
    paths
}

/// Its name, whether there is a transcript, how it is repaired, and what is done to the disk.
type Damage = (&'static str, bool, Option<RepairStrategy>, fn(&SimDisk));

fn cases() -> Vec<Case> {
    let steps = [Step::Batch(6), Step::Object, Step::Batch(6), Step::Append, Step::Batch(5)];
    let damages: [Damage; 5] = [
        ("a line, with the transcript", true, None, |disk| alter(disk, 1)),
        ("a line, without", false, None, |disk| alter(disk, 1)),
        ("a segment, with the transcript", true, None, |disk| {
            disk.remove_file(&segments(disk)[1]);
        }),
        ("the last lines, without", false, None, |disk| {
            let path = segments(disk).pop().unwrap();
            let mut bytes = disk.bytes(&path).unwrap();
            bytes.truncate(bytes.len() / 2);
            disk.set_bytes(&path, bytes);
        }),
        ("a header, kept in part", false, Some(RepairStrategy::Partial), |disk| {
            let path = segments(disk)[1].clone();
            let mut bytes = disk.bytes(&path).unwrap();
            bytes[12] ^= 1;
            disk.set_bytes(&path, bytes);
        }),
    ];
    let make = |(name, transcript, strategy, damage): Damage| {
        let mut run = Run::new(7);
        for step in steps {
            run.step(step).unwrap();
        }
        run.step(Step::Reopen).unwrap();
        let (disk, id) = (run.disk.clone(), run.id);
        drop(run);
        let store = open_store(&disk, 3).unwrap();
        if transcript {
            store.update_transcript(id).unwrap();
            // Written long ago: what is derived is not synced, and reaches the disk in time.
            let written = disk.files().into_iter().find(|path| path.ends_with("transcript.task"));
            let written = written.unwrap();
            disk.set_bytes(&written, disk.bytes(&written).unwrap());
            disk.sync_dir(written.parent().unwrap()).unwrap();
        }
        let all = data(&store, id).unwrap();
        drop(store);
        damage(&disk);
        let store = open_store(&disk, 4).unwrap();
        let whole = data(&store, id).unwrap();
        let known = if transcript { all } else { whole.clone() };
        let request = RepairRequest { strategy, ..RepairRequest::default() };
        Case { name, disk, id, whole, known, request }
    };
    damages.into_iter().map(make).collect()
}

fn alter(disk: &SimDisk, segment: usize) {
    let path = segments(disk)[segment].clone();
    let mut bytes = disk.bytes(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.set_bytes(&path, bytes);
}

fn repair(store: &LocalStore, case: &Case) -> Result<(), String> {
    let doctor = store.doctor();
    let told = |error: &dyn std::fmt::Debug| format!("{error:?}");
    let found = doctor.examine(case.id).map_err(|error| told(&error))?;
    let plan = doctor.plan(&found, case.request).map_err(|error| told(&error))?;
    if plan.actions.is_empty() {
        return Ok(());
    }
    doctor.repair(&plan, case.request, Duration::ZERO).map_err(|error| told(&error))?;
    Ok(())
}

/// After a crash: everything that could be read is there. Then it is repaired, with nothing left.
fn after_crash(disk: &SimDisk, case: &Case, done: bool, seed: u64) -> Result<(), String> {
    let tell =
        |what: &str, error: &dyn std::fmt::Debug| format!("{}: {what}: {error:?}", case.name);
    let store = LocalStore::open(&store_path(), options(disk, seed))
        .map(crate::run::small)
        .map_err(|error| tell("does not open", &error))?;
    let now = data(&store, case.id)?;
    let least = if done { &case.known } else { &case.whole };
    if let Some(gone) = least.iter().find(|data| !now.contains(data)) {
        return Err(tell("lost", gone));
    }
    repair(&store, case).map_err(|error| tell("cannot be repaired", &error))?;
    let now = data(&store, case.id)?;
    let missing: Vec<_> = case.known.iter().filter(|data| !now.contains(data)).collect();
    if !missing.is_empty() || now.len() != case.known.len() {
        return Err(tell("not whole after all", &(now.len(), case.known.len(), missing.len())));
    }
    let found = store.doctor().examine(case.id).map_err(|error| tell("no look", &error))?;
    let errors: Vec<_> =
        found.findings.iter().filter(|found| found.severity >= Severity::Error).collect();
    if errors.is_empty() { Ok(()) } else { Err(tell("still damaged", &errors)) }
}

fn copy_of(disk: &SimDisk) -> SimDisk {
    disk.keep_history();
    disk.note(0, 0);
    let _ = disk.files();
    let store = open_store(disk, 1).unwrap();
    drop(store);
    let moments = disk.take_history();
    SimDisk::at(moments.last().unwrap())
}

#[test]
fn a_power_cut_during_a_repair_loses_nothing() {
    let mut cuts = 0;
    for case in cases() {
        let store = open_store(&case.disk, 5).unwrap();
        case.disk.note(0, 0);
        case.disk.keep_history();
        repair(&store, &case).unwrap();
        case.disk.note(1, 0);
        drop(store);
        let moments = case.disk.take_history();
        println!("{}: {} operations", case.name, moments.len());
        cuts +=
            cut_everywhere(&moments, FaultRun::from_env().count(3, 80), &|disk, moment, seed| {
                after_crash(disk, &case, moment.note.0 == 1, seed)
            });
    }
    FaultRun::from_env().report("power cuts during a repair", cuts, 20_000);
}

#[test]
fn every_operation_of_a_repair_may_fail() {
    let kinds = [FaultKind::Io, FaultKind::Full, FaultKind::Short];
    let (mut tried, mut failed) = (0_u64, 0_u64);
    for case in cases() {
        let disk = copy_of(&case.disk);
        let store = open_store(&disk, 5).unwrap();
        disk.set_faults(Vec::new(), 0);
        repair(&store, &case).unwrap();
        drop(store);
        let operations = disk.operations();
        for at in FaultRun::from_env().places(operations, 23, 1) {
            for kind in kinds {
                for lasting in [Lasting::Once, Lasting::ForGood] {
                    let disk = copy_of(&case.disk);
                    let store = open_store(&disk, 5).unwrap();
                    disk.set_faults(vec![Fault { at, kind, lasting }], at);
                    failed += u64::from(repair(&store, &case).is_err());
                    tried += 1;
                    drop(store);
                    if tried.is_multiple_of(2) {
                        disk.power_cut(at * 31 + 7);
                    } else {
                        disk.kill();
                    }
                    after_crash(&disk, &case, false, 8)
                        .unwrap_or_else(|error| panic!("{at} {kind:?} {lasting:?}: {error}"));
                }
            }
        }
    }
    assert!(failed * 10 > tried, "faults must show: {failed} of {tried}");
    FaultRun::from_env().report("operations of a repair failed", tried, 2_000);
}

/// A disk that forgets what is copied into the quarantine, and says that all is well.
#[derive(Debug)]
struct Forgetful(Disk);

#[derive(Debug)]
struct ForgetfulFile(Arc<dyn StorageFile>);

impl Storage for Forgetful {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.0.open(path, access)?;
        let copy = path.to_string_lossy().contains("/quarantine/") && path.extension().is_none();
        let forgets = copy && access == Access::Create;
        Ok(if forgets { Arc::new(ForgetfulFile(file)) } else { file })
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.make_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
    fn modified(&self, path: &Path) -> io::Result<SystemTime> {
        self.0.modified(path)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.0.free_bytes(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Option<Box<dyn StorageLock>>> {
        self.0.lock(path, mode)
    }
}

impl StorageFile for ForgetfulFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(&vec![0; buf.len()], offset)
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

#[test]
fn nothing_is_replaced_of_which_the_copy_is_not_whole() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join(".abide");
    let store = LocalStore::init(&root, LocalOptions::default()).unwrap();
    let id = store.create(NewSession::titled("s")).unwrap().id;
    let writer = store.writer(id, Duration::ZERO).unwrap();
    for n in 0..3 {
        let event = NewEvent::parse(&format!(r#"{{"kind":"x.sim","data":{{"n":{n}}}}}"#)).unwrap();
        writer
            .append(vec![event], Durability::Synced, AnomalyPolicy::Keep)
            .unwrap()
            .wait()
            .unwrap();
    }
    writer.close().unwrap();
    let journal = store.reader(id).unwrap().journal().dir().to_owned();
    drop((writer, store));
    let segment = journal.join("00000001.jsonl");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let options = LocalOptions { storage: Arc::new(Forgetful(Disk)), ..LocalOptions::default() };
    let store = LocalStore::open(&root, options).unwrap();
    let doctor = store.doctor();
    let request = RepairRequest::default();
    let plan = doctor.plan(&doctor.examine(id).unwrap(), request).unwrap();
    let refused = doctor.repair(&plan, request, Duration::ZERO).unwrap_err();
    assert!(refused.to_string().contains("the copy differs from"), "{refused}");
    assert_eq!(std::fs::read(&segment).unwrap(), bytes);
}
