//! What is remembered: when it is trusted, when not, and what damage to it does.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use abide_model::{NewObject, ObjectBatch, ObjectHash, ObjectReceiver, Objects, StoreError};
use abide_workspace::{ChunkList, MemoryObjects, SnapshotProgress, Tree, Watch};

use crate::{Lab, on_disk, settle};

fn small() -> Lab {
    let lab = Lab::new();
    lab.write("a", "one");
    lab.write("b/c", "two");
    lab.write("b/d/e", "three");
    lab.write(".gitignore", "*.log\n");
    lab.write("b/x.log", "ignored");
    settle();
    lab
}

fn modified(lab: &Lab, path: &str) -> SystemTime {
    fs::metadata(lab.path(path)).unwrap().modified().unwrap()
}

fn set_modified(lab: &Lab, path: &str, time: SystemTime) {
    fs::File::options().write(true).open(lab.path(path)).unwrap().set_modified(time).unwrap();
}

#[test]
fn an_unchanged_workspace_stores_nothing_and_writes_nothing() {
    let lab = small();
    let first = lab.take();
    let written = fs::metadata(lab.cache()).unwrap().modified().unwrap();
    settle();
    let second = lab.take();
    assert!(!first.unchanged && second.unchanged);
    assert_eq!((second.stored_objects, second.stored_bytes), (0, 0));
    assert_eq!((second.hash, second.snapshot), (first.hash, first.snapshot));
    assert_eq!(fs::metadata(lab.cache()).unwrap().modified().unwrap(), written);
}

#[test]
fn a_rewrite_of_the_same_size_with_its_time_put_back_is_seen() {
    let lab = small();
    let first = lab.take();
    let time = modified(&lab, "b/c");
    settle();
    fs::write(lab.path("b/c"), "TWO").unwrap();
    set_modified(&lab, "b/c", time);
    assert_eq!(modified(&lab, "b/c"), time);
    let second = lab.take();
    assert_ne!(second.hash, first.hash);
    assert_eq!(lab.content(&second)[&b"b/c"[..]].2, b"TWO");
}

#[test]
fn an_edit_in_the_tick_of_the_snapshot_is_seen() {
    let lab = Lab::new();
    for round in 0..200u32 {
        let text = format!("{round:04}");
        lab.write("file", &text);
        let taken = lab.take();
        assert_eq!(lab.content(&taken)[&b"file"[..]].2, text.as_bytes());
    }
}

#[test]
fn what_is_young_is_read_again_until_it_has_settled() {
    let mut lab = small();
    let reads = |lab: &Lab| {
        let count = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&count);
        let progress: Arc<dyn Fn(SnapshotProgress) + Send + Sync> = Arc::new(move |progress| {
            seen.fetch_max(progress.files_read, Ordering::Relaxed);
        });
        let watch = Watch { cancel: None, progress: Some(progress) };
        lab.workspace(&lab.cache()).snapshot(&lab.objects, &watch).unwrap();
        count.load(Ordering::Relaxed)
    };
    lab.settle = Duration::from_secs(35);
    assert_eq!(reads(&lab), 4);
    assert_eq!(reads(&lab), 4, "young files are read again");
    lab.settle = Duration::ZERO;
    assert_eq!(reads(&lab), 4, "they were young when they were remembered");
    assert_eq!(reads(&lab), 0, "they have settled");
    lab.settle = Duration::from_secs(35);
    assert_eq!(reads(&lab), 0, "what has settled stays so");
}

#[test]
fn only_what_changed_is_stored() {
    let lab = small();
    lab.take();
    settle();
    fs::write(lab.path("b/d/e"), "changed").unwrap();
    let taken = lab.take();
    // The file, three trees, and the snapshot.
    assert_eq!(taken.stored_objects, 5);
    fs::create_dir(lab.path("b/new")).unwrap();
    fs::remove_dir_all(lab.path("b/d")).unwrap();
    lab.take();
    settle();
    lab.write("b/new/f/g", "more");
    fs::rename(lab.path("b/c"), lab.path("b/new/c")).unwrap();
    let taken = lab.take();
    assert_eq!(taken.hash, lab.take_anew().hash);
    let mut expected = on_disk(&lab.root());
    expected.remove(&b"b/x.log"[..]);
    assert_eq!(lab.content(&taken), expected);
}

#[test]
fn a_store_that_lost_the_last_snapshot_gets_everything_again() {
    let lab = small();
    let first = lab.take();
    for lost in [first.hash, first.snapshot.tree] {
        assert!(lab.objects.remove(lost));
        settle();
        let again = lab.take();
        assert_eq!(again.hash, first.hash);
        assert!(lab.objects.read(lost).unwrap().is_some());
    }
}

#[test]
fn a_store_that_lost_one_of_few_objects_gets_it_again() {
    let lab = small();
    let first = lab.take();
    let texts = ["one", "two", "three", "*.log\n"];
    let mut objects: Vec<_> = texts.iter().map(|text| ObjectHash::of(text.as_bytes())).collect();
    for (tree, name) in [(first.snapshot.tree, &b"b"[..]), (first.snapshot.tree, b"b/d")] {
        let find = |tree, name: &[u8]| {
            let tree = Tree::read(&lab.objects.read(tree).unwrap().unwrap()).unwrap();
            tree.get(name).unwrap().hash
        };
        objects.push(name.split(|byte| *byte == b'/').fold(tree, find));
    }
    for lost in objects {
        assert!(lab.objects.remove(lost));
        settle();
        assert_eq!(lab.take().hash, first.hash);
        assert!(lab.objects.read(lost).unwrap().is_some());
    }
}

#[test]
fn a_store_that_lost_a_part_of_many_objects_gets_it_again() {
    let lab = Lab::new();
    let text = |n: u32| format!("content {n}");
    for n in 0..1000 {
        lab.write(format!("d{}/f{n}", n % 10), text(n));
    }
    settle();
    let first = lab.take();
    let lost: Vec<_> = (0..1000).step_by(2).map(|n| ObjectHash::of(text(n).as_bytes())).collect();
    for lost in &lost {
        assert!(lab.objects.remove(*lost));
    }
    settle();
    assert_eq!(lab.take().hash, first.hash);
    assert_eq!(lab.objects.has(&lost).unwrap(), vec![true; 500]);
}

#[test]
fn a_store_that_lost_a_chunk_of_a_large_file_gets_it_again() {
    let lab = Lab::new();
    let mut bytes = vec![0; 3_000_000];
    blake3::Hasher::new().update(b"large").finalize_xof().fill(&mut bytes);
    lab.write("large", bytes);
    settle();
    let first = lab.take();
    let root = Tree::read(&lab.objects.read(first.snapshot.tree).unwrap().unwrap()).unwrap();
    let list = lab.objects.read(root.get(b"large").unwrap().hash).unwrap().unwrap();
    let chunks = ChunkList::read(&list).unwrap().chunks;
    assert!((2..=16).contains(&chunks.len()), "{}", chunks.len());
    for (_, lost) in chunks {
        settle();
        assert!(lab.take().unchanged);
        assert!(lab.objects.remove(lost));
        assert_eq!(lab.take().hash, first.hash);
        assert!(lab.objects.read(lost).unwrap().is_some());
    }
}

/// Objects whose first question is answered after what is remembered was removed, as when a
/// collection or a repair was waited for.
#[derive(Debug)]
struct Forgetting<'a> {
    objects: &'a MemoryObjects,
    cache: std::path::PathBuf,
}

impl Objects for Forgetting<'_> {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        let _ = fs::remove_file(&self.cache);
        self.objects.has(hashes)
    }
    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        self.objects.put_batch(batch)
    }
    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError> {
        self.objects.put_like(objects)
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.objects.sync()
    }
    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError> {
        self.objects.read(hash)
    }
    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), StoreError> {
        self.objects.read_many(hashes, each)
    }
    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError> {
        // As where the question does not happen to be for what is lost.
        Ok(vec![Some(0); hashes.len()])
    }
}

#[test]
fn what_is_forgotten_while_a_repair_is_waited_for_is_read_again() {
    let lab = small();
    let first = lab.take();
    settle();
    let lost = ObjectHash::of(b"two");
    assert!(lab.objects.remove(lost));
    let objects = Forgetting { objects: &lab.objects, cache: lab.cache() };
    let taken = lab.workspace(&lab.cache()).snapshot(&objects, &Watch::default()).unwrap();
    assert_eq!(taken.hash, first.hash);
    assert!(lab.objects.read(lost).unwrap().is_some());
}

#[test]
fn different_objects_are_asked_for_each_time() {
    let lab = Lab::new();
    for n in 0..1000 {
        lab.write(format!("d{}/f{n}", n % 10), format!("content {n}"));
    }
    settle();
    lab.take();
    settle();
    let asked = || {
        let asking = Asking { objects: &lab.objects, asked: Mutex::default() };
        let taken = lab.workspace(&lab.cache()).snapshot(&asking, &Watch::default()).unwrap();
        assert!(taken.unchanged);
        asking.asked.into_inner().unwrap()
    };
    let (one, other) = (asked(), asked());
    assert_eq!((one.len(), other.len()), (1, 1), "one question each");
    assert!(one[0].len() > 40 && one[0].len() <= 66, "{}", one[0].len());
    assert_ne!(one, other);
}

/// Objects in memory that remember what they were asked for.
#[derive(Debug)]
struct Asking<'a> {
    objects: &'a MemoryObjects,
    asked: Mutex<Vec<Vec<ObjectHash>>>,
}

impl Objects for Asking<'_> {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        self.objects.has(hashes)
    }
    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        self.objects.put_batch(batch)
    }
    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError> {
        self.objects.put_like(objects)
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.objects.sync()
    }
    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError> {
        self.objects.read(hash)
    }
    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), StoreError> {
        self.objects.read_many(hashes, each)
    }
    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError> {
        self.asked.lock().unwrap().push(hashes.to_vec());
        self.objects.places(hashes)
    }
}

#[test]
fn damage_to_the_cache_never_reaches_a_snapshot() {
    let lab = small();
    lab.take();
    settle();
    fs::write(lab.path("b/c"), "changed").unwrap();
    settle();
    let expected = lab.take();
    let whole = fs::read(lab.cache()).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(lab.cache(), &damaged).unwrap();
        let taken = lab.take();
        assert_eq!(taken.hash, expected.hash, "byte {at}");
        assert_eq!(taken.snapshot, expected.snapshot, "byte {at}");
    }
    for length in (0..whole.len()).step_by(7) {
        fs::write(lab.cache(), &whole[..length]).unwrap();
        assert_eq!(lab.take().hash, expected.hash, "cut at {length}");
    }
}

#[test]
fn a_changed_ignore_file_is_obeyed_in_directories_that_did_not_change() {
    let lab = small();
    assert!(!lab.paths(&lab.take()).contains(&"b/x.log".to_owned()));
    settle();
    lab.write(".gitignore", "c\n");
    let taken = lab.take();
    assert_eq!(lab.paths(&taken), [".gitignore", "a", "b", "b/d", "b/d/e", "b/x.log"]);
    settle();
    fs::remove_file(lab.path(".gitignore")).unwrap();
    let taken = lab.take();
    assert_eq!(lab.content(&taken), on_disk(&lab.root()));
    assert_eq!(taken.hash, lab.take_anew().hash);
}
