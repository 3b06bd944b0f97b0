//! Checkpoints of real files in a store on the simulated disk: power cuts at every storage operation
//! of snapshots, of the events that name them, and of a collection.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use abide_local::LocalStore;
use abide_model::{
    Durability, NewEvent, NewSession, ObjectHash, Objects, OddEvents, SessionWriter, Store,
};
use abide_testkit::{FaultRun, SimDisk};
use abide_workspace::{Chunks, EntryKind, Policy, Tree, Watch, Workspace};
use pollster::block_on;

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
                    let chunks = Chunks::read(&read(entry.hash)?).map_err(|e| e.to_string())?;
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
    writer.append(vec![event], Durability::Synced, OddEvents::Keep).unwrap().wait().unwrap();
    taken.snapshot.tree
}

#[test]
fn no_acknowledged_checkpoint_is_lost_in_a_power_cut() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("project");
    let disk = SimDisk::new(Path::new("/sim"));
    let store = LocalStore::init(&store_path(), options(&disk, 5)).unwrap();
    let id = block_on(store.create(NewSession::default())).unwrap();
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
        block_on(writer.close()).unwrap();
        if step % 2 == 1 {
            // A snapshot that no event names, and a collection that takes it.
            let objects = store.objects().unwrap();
            let mut batch = abide_model::ObjectBatch::default();
            let junk = noise(1000 + step, 1_000_000);
            batch.push(ObjectHash::of(&junk), &junk);
            objects.put_batch(&batch).unwrap();
            objects.sync().unwrap();
            drop(objects);
            let collected = store.collect(Duration::ZERO).unwrap();
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
