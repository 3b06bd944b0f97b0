//! Checkpoints of real files in a store on the simulated disk: power cuts at every storage operation
//! of snapshots, of the events that name them, and of a collection. And in a store on files: damage to
//! what they are kept in.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_local::{LocalOptions, LocalStore, RepairRequest};
use abide_model::{
    AnomalyPolicy, Durability, Finding, NewEvent, NewSession, ObjectHash, Objects, SessionId,
    SessionWriter, Severity, Store,
};
use abide_testkit::{FaultRun, SimDisk};
use abide_workspace::{ChunkList, EntryKind, Policy, TakenSnapshot, Tree, Watch, Workspace};

use crate::power::cut_everywhere;
use crate::run::{open_store, options, store_path};

type Files = BTreeMap<Vec<u8>, Vec<u8>>;

/// Every file of a snapshot, read from the store.
fn read_back(objects: &dyn Objects, tree: ObjectHash) -> Result<Files, String> {
    let read = |hash: ObjectHash| {
        let bytes = objects.read(hash).map_err(|error| format!("{error:?}"))?;
        bytes.ok_or_else(|| format!("object {hash} is gone"))
    };
    let mut files = Files::new();
    let mut left = vec![(Vec::new(), tree)];
    while let Some((path, hash)) = left.pop() {
        let tree = Tree::read(&read(hash)?).map_err(|error| error.to_string())?;
        for entry in tree.entries {
            let path = [&path, &entry.name[..], b"/"].concat();
            match entry.kind {
                EntryKind::Directory => left.push((path, entry.hash)),
                EntryKind::Large => {
                    let chunks = ChunkList::read(&read(entry.hash)?).map_err(|e| e.to_string())?;
                    let mut bytes = Vec::new();
                    for (_, hash) in chunks.chunks {
                        bytes.extend(read(hash)?);
                    }
                    files.insert(path, bytes);
                }
                EntryKind::File | EntryKind::Link => {
                    files.insert(path, read(entry.hash)?);
                }
            }
        }
    }
    Ok(files)
}

fn noise(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    (0..length).map(next).collect()
}

/// Edits the files as an agent would: some change a little, one comes, one goes, one is large.
fn edit(root: &Path, step: u32) {
    fs::create_dir_all(root.join("src/deep")).unwrap();
    for n in 0..6 {
        let mut bytes = noise(n, 3000);
        bytes[usize::try_from(step).unwrap() * 7] ^= 1;
        fs::write(root.join(format!("src/f{n}")), bytes).unwrap();
    }
    fs::write(root.join("src/deep/now"), noise(100 + step, 500)).unwrap();
    fs::write(root.join(format!("only-{step}")), noise(200 + step, 2000)).unwrap();
    let _ = fs::remove_file(root.join(format!("only-{}", step.wrapping_sub(2))));
    if step.is_multiple_of(2) {
        let mut large = noise(300, 1_060_000);
        large[600_000 + usize::try_from(step).unwrap()] ^= 1;
        fs::write(root.join("large"), large).unwrap();
    }
}

fn checkpoint(store: &LocalStore, root: &Path, writer: &dyn SessionWriter) -> ObjectHash {
    let policy = Policy { min_free_bytes: 0, ..Policy::default() };
    let cache = root.with_extension("stat");
    let workspace = Workspace::open(root, &cache, policy).unwrap().with_settle(Duration::ZERO);
    let objects = store.objects().unwrap();
    let taken = workspace.snapshot(&objects, &Watch::default()).unwrap();
    let json = format!(
        r#"{{"kind":"checkpoint.created","data":{{"trigger":"hand","snapshot":"{}"}}}}"#,
        taken.hash
    );
    let event = NewEvent::parse(&json).unwrap();
    writer.append(vec![event], Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    taken.snapshot.tree
}

#[test]
fn no_acknowledged_checkpoint_is_lost_in_a_power_cut() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("project");
    let disk = SimDisk::new(Path::new("/sim"));
    let store = LocalStore::init(&store_path(), options(&disk, 5)).unwrap();
    let id = store.create(NewSession::default()).unwrap().id;
    disk.keep_history();
    let mut made = Vec::new();
    for step in 0..6 {
        edit(&root, step);
        // Each time as a process of its own would.
        let store = open_store(&disk, 10 + u64::from(step)).unwrap();
        let writer = store.writer(id, Duration::ZERO).unwrap();
        let tree = checkpoint(&store, &root, &writer);
        let files = read_back(&store.objects().unwrap(), tree).unwrap();
        made.push((tree, files));
        disk.note(made.len() as u64, 0);
        writer.close().unwrap();
        if step % 2 == 1 {
            // A snapshot that no event names, and a collection that takes it.
            let objects = store.objects().unwrap();
            let mut batch = abide_model::ObjectBatch::default();
            let junk = noise(1000 + step, 1_000_000);
            batch.push(ObjectHash::of(&junk), &junk);
            objects.put_batch(&batch).unwrap();
            objects.sync().unwrap();
            drop(objects);
            let collected = store.collector().collect(Duration::ZERO).unwrap();
            assert!(collected.objects_removed > 0, "{collected:?}");
        }
    }
    let expected: Vec<usize> = made.iter().map(|(_, files)| files.len()).collect();
    assert_eq!(expected, [9, 10, 10, 10, 10, 10]);
    let moments = disk.take_history();
    println!("{} operations", moments.len());
    let cuts =
        cut_everywhere(&moments, FaultRun::from_env().count(2, 25), &|disk, moment, seed| {
            let store = open_store(disk, seed).map_err(|error| format!("{error:?}"))?;
            let objects = store.objects().map_err(|error| format!("{error:?}"))?;
            let count = usize::try_from(moment.note.0).unwrap();
            for (number, (tree, files)) in made.iter().take(count).enumerate() {
                if read_back(&objects, *tree)? != *files {
                    return Err(format!("checkpoint {number} is not what it was"));
                }
            }
            Ok(())
        });
    FaultRun::from_env().report("power cuts in checkpoints", cuts, 5_000);
}

/// A store on files, a workspace with many small files and some that are not, and a session.
struct Workplace {
    dir: tempfile::TempDir,
    store: LocalStore,
    id: SessionId,
}

const NOW: Duration = Duration::ZERO;

impl Workplace {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        fs::create_dir_all(&root).unwrap();
        for n in 0..500 {
            fs::write(root.join(format!("small-{n}")), format!("small {n}")).unwrap();
        }
        fs::write(root.join("middle"), noise(1, 900_000)).unwrap();
        fs::write(root.join("large"), noise(2, 2_500_000)).unwrap();
        let store = LocalStore::init(&dir.path().join(".abide"), LocalOptions::default()).unwrap();
        let id = store.create(NewSession::default()).unwrap().id;
        let place = Self { dir, store, id };
        // What was written must be older than the first snapshot, by the file system's clock.
        let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        let probe = place.dir.path().join("probe");
        fs::write(&probe, "").unwrap();
        while modified(&probe) <= modified(&root.join("large")) {
            fs::write(&probe, "").unwrap();
        }
        place
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// Where the workspace is remembered.
    fn cache(&self) -> PathBuf {
        self.store.make_cache_dir().join("project.stat")
    }

    /// Makes a checkpoint, and gives its snapshot.
    fn checkpoint(&self) -> TakenSnapshot {
        let policy = Policy { min_free_bytes: 0, ..Policy::default() };
        let workspace = Workspace::open(&self.root(), &self.cache(), policy).unwrap();
        let objects = self.store.objects().unwrap();
        let taken = workspace.with_settle(NOW).snapshot(&objects, &Watch::default()).unwrap();
        drop(objects);
        self.name(taken.hash);
        taken
    }

    /// Records a checkpoint with this snapshot.
    fn name(&self, snapshot: ObjectHash) {
        let json = format!(
            r#"{{"kind":"checkpoint.created","data":{{"trigger":"hand","snapshot":"{snapshot}"}}}}"#
        );
        let writer = self.store.writer(self.id, NOW).unwrap();
        let event = NewEvent::parse(&json).unwrap();
        writer
            .append(vec![event], Durability::Synced, AnomalyPolicy::Keep)
            .unwrap()
            .wait()
            .unwrap();
        writer.close().unwrap();
    }

    /// Is all of a snapshot what the workspace holds?
    fn is_whole(&self, taken: &TakenSnapshot) -> bool {
        let files = read_back(&self.store.objects().unwrap(), taken.snapshot.tree);
        files.is_ok_and(|files| {
            files.len() == 502
                && files.iter().all(|(path, bytes)| {
                    let name = OsStr::from_bytes(path.strip_suffix(b"/").unwrap());
                    fs::read(self.root().join(name)).unwrap() == *bytes
                })
        })
    }

    /// As another process sees it.
    fn reopen(&mut self) {
        self.store = LocalStore::open(self.store.root(), LocalOptions::default()).unwrap();
    }

    /// Flips a bit of these bytes where the store keeps them.
    fn damage(&mut self, bytes: &[u8]) {
        let pack = self.store.root().join("objects/00000001.pack");
        let mut packed = fs::read(&pack).unwrap();
        let at = packed.windows(bytes.len()).position(|part| part == bytes).unwrap();
        packed[at] ^= 1;
        fs::write(&pack, packed).unwrap();
        self.reopen();
    }

    fn findings(&self) -> Vec<(String, Severity, String)> {
        let found = self.store.doctor().examine(self.id).unwrap().findings;
        let row = |found: Finding| (found.rule.into_owned(), found.severity, found.message);
        found.into_iter().map(row).collect()
    }

    fn repair_store(&self) {
        let doctor = self.store.doctor();
        let plan = doctor.plan_store(&doctor.examine_store().unwrap()).unwrap();
        doctor.repair(&plan, RepairRequest::default(), NOW).unwrap();
    }

    fn repair_session(&self) {
        let (doctor, request) = (self.store.doctor(), RepairRequest::default());
        let plan = doctor.plan(&doctor.examine(self.id).unwrap(), request).unwrap();
        doctor.repair(&plan, request, NOW).unwrap();
    }
}

/// The findings of a rule, by the checkpoint that they name.
fn of_checkpoints(found: &[(String, Severity, String)], rule: &str) -> Vec<u64> {
    let of_rule = found.iter().filter(|(name, ..)| name == rule);
    let number = |message: &str| {
        let digits = message.split_once("checkpoint ").unwrap().1;
        digits.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    of_rule.map(|(.., message)| number(message)).collect()
}

#[test]
fn after_a_repair_the_next_checkpoint_stores_what_was_lost_and_each_damaged_one_is_named() {
    let mut place = Workplace::new();
    let first = place.checkpoint();
    assert!(place.is_whole(&first));
    assert_eq!(place.findings(), []);
    place.damage(&noise(1, 900_000)[1000..1032]);
    place.damage(&noise(2, 2_500_000)[1_500_000..1_500_032]);
    // Nobody has looked yet.
    assert!(place.checkpoint().unchanged);
    let found = place.findings();
    assert_eq!(of_checkpoints(&found, "missing-object"), [1, 2]);
    assert!(found.iter().all(|(_, severity, _)| *severity == Severity::Error), "{found:?}");
    assert!(place.cache().exists());
    place.repair_store();
    assert!(!place.cache().exists(), "what is remembered vouches for what is lost");
    place.repair_session();
    let found = place.findings();
    assert_eq!(of_checkpoints(&found, "damaged-checkpoint"), [1, 2]);
    assert!(found.iter().all(|(_, severity, _)| *severity == Severity::Warning), "{found:?}");
    // Others may be in the same blocks.
    assert!(place.store.doctor().examine(place.id).unwrap().missing.objects.len() >= 2);
    // One that names what is known to be lost.
    place.name(first.hash);
    let found = place.findings();
    assert_eq!(of_checkpoints(&found, "damaged-checkpoint"), [1, 2]);
    assert_eq!(of_checkpoints(&found, "missing-object"), [3]);
    // What is still in the workspace is stored anew, and so all of them are whole.
    let again = place.checkpoint();
    assert_eq!(again.hash, first.hash);
    assert!(again.stored_objects >= 2 && place.is_whole(&again));
    assert_eq!(place.findings(), []);
    assert_eq!(place.store.doctor().examine(place.id).unwrap().missing.objects, []);
}

#[test]
fn after_a_pack_is_gone_and_named_as_lost_the_next_checkpoint_stores_what_was_in_it() {
    let mut place = Workplace::new();
    let bytes = noise(1, 900_000);
    let other = place.store.objects().unwrap();
    let mut batch = abide_model::ObjectBatch::default();
    batch.push(ObjectHash::of(&bytes), &bytes);
    other.put_batch(&batch).unwrap();
    other.sync().unwrap();
    // The pack of the other is in use, so that all else goes to another one.
    let first = place.checkpoint();
    drop(other);
    for end in ["pack", "idx"] {
        let _ = fs::remove_file(place.store.root().join(format!("objects/00000001.{end}")));
    }
    place.reopen();
    assert_eq!(of_checkpoints(&place.findings(), "missing-object"), [1]);
    place.repair_session();
    assert!(!place.cache().exists());
    assert_eq!(of_checkpoints(&place.findings(), "damaged-checkpoint"), [1]);
    let again = place.checkpoint();
    assert!(again.hash == first.hash && place.is_whole(&again));
    assert_eq!(place.findings(), []);
}
