//! Trees put back, hostile ones, links swapped in, and restores that were cut off.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::atomic::AtomicI64;

use abide_model::{NewObject, ObjectBatch, ObjectReceiver, StoreError};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::plan;
use crate::sample::{SampleHeap, SampleNode, directory, file, link, set_mode};

/// A place for files; in memory where there is one, so that syncing does not wait for others.
fn room() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn made(node: &SampleNode) -> TempDir {
    let room = room();
    node.make(room.path());
    room
}

fn planned(heap: &SampleHeap, from: &SampleNode, to: &SampleNode) -> RestorePlan {
    plan(heap, from.store(heap), to.store(heap), &[]).unwrap()
}

fn restored(room: &TempDir, heap: &SampleHeap, plan: &RestorePlan) -> RestoreReport {
    restore(room.path(), heap, plan, &RestoreWatch::none()).unwrap()
}

/// Stops, as a kill does, before the operation of this number.
fn killed(
    room: &Path,
    heap: &SampleHeap,
    plan: &RestorePlan,
    at: i64,
) -> Result<RestoreReport, RestoreError> {
    let watch = RestoreWatch::none();
    let mut run = RestoreRun::new(room, heap, &watch)?;
    run.fuse = Some(AtomicI64::new(at));
    run.sweep(plan);
    run.all(room, plan, RestoreSync::of(plan))
}

/// Does `work` without the rights that let root pass over modes.
#[cfg(target_os = "linux")]
fn as_owner<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let mut rights = capabilities(None).unwrap();
            let over = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            rights.effective.remove(over | CapabilitySet::FOWNER);
            set_capabilities(None, rights).unwrap();
            work()
        });
        work.join().unwrap()
    })
}

#[cfg(not(target_os = "linux"))]
fn as_owner<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    work()
}

fn paths(list: &[(Vec<u8>, String)]) -> Vec<&str> {
    list.iter().map(|(path, _)| std::str::from_utf8(path).unwrap()).collect()
}

fn some_trees() -> (SampleNode, SampleNode) {
    let old = directory([
        ("same", file("same")),
        ("edited", file("one")),
        ("gone", file("gone")),
        ("mode", file("m")),
        ("large", file("a file of more than one chunk, and then some")),
        ("kind", file("was a file")),
        ("swap", directory([("in", file("x")), ("deep", directory([("er", file("y"))]))])),
        ("to-link", directory([("in", file("z"))])),
        ("link", link("edited")),
        ("old", directory([("a", file("a")), ("empty", directory([]))])),
    ]);
    let new = directory([
        ("same", file("same")),
        ("edited", file("two")),
        ("mode", file("m").with_mode(0o755)),
        ("large", file("a file of more than one chunk, and not the same")),
        ("kind", directory([("now", file("in a directory")), ("l", link("/etc/passwd"))])),
        ("swap", file("was a directory")),
        ("to-link", link("kind")),
        ("link", link("elsewhere")),
        ("new", directory([("a", file("a")), ("empty", directory([]).with_mode(0o700))])),
    ]);
    (old, new)
}

#[test]
fn a_tree_becomes_another_and_back() {
    let (old, new) = some_trees();
    let heap = SampleHeap::default();
    let room = tempfile::tempdir().unwrap();
    old.make(room.path());
    let done = restored(&room, &heap, &planned(&heap, &old, &new));
    assert_eq!(SampleNode::look(room.path()), new.clone().with_mode(0o755));
    assert_eq!((done.created, done.changed, done.deleted), (5, 7, 8));
    assert_eq!((done.kept, done.failed), (vec![], vec![]));
    restored(&room, &heap, &planned(&heap, &new, &old));
    assert_eq!(SampleNode::look(room.path()), old);
}

#[test]
fn a_restore_killed_anywhere_is_finished_or_undone() {
    let (old, new) = some_trees();
    let heap = SampleHeap::default();
    let forth = planned(&heap, &old, &new);
    let back = planned(&heap, &new, &old);
    let mut kills = 0;
    for at in 0.. {
        let room = made(&old);
        if killed(room.path(), &heap, &forth, at).is_ok() {
            break;
        }
        kills += 1;
        let again = if at % 2 == 0 { &forth } else { &back };
        let done = restored(&room, &heap, again);
        assert_eq!((done.kept, done.failed), (vec![], vec![]), "killed at {at}");
        let expected = if at % 2 == 0 { &new } else { &old };
        assert_eq!(SampleNode::look(room.path()), *expected, "killed at {at}");
    }
    assert!(kills > 40, "{kills}");
}

#[test]
fn an_empty_directory_is_filled_and_no_other() {
    let heap = SampleHeap::default();
    let mut nodes = std::collections::BTreeMap::new();
    for n in 0..300 {
        let inner = directory([("f", file(&format!("{n}"))), ("l", link("f"))]);
        nodes.insert(format!("d{n}").into_bytes(), inner.with_mode(0o750));
        nodes.insert(format!("e{n}").into_bytes(), file(&format!("content {}", n % 7)));
    }
    nodes.insert(b"large".to_vec(), file(&"large ".repeat(50)));
    nodes.insert(b"bad \xff name".to_vec(), file("").with_mode(0o600));
    let tree = SampleNode::Directory(nodes, 0o755);
    let hash = tree.store(&heap);
    let room = room();
    let calls = AtomicU64::new(0);
    let progress = |done: u64, total: u64| {
        assert!(done <= total);
        calls.fetch_add(1, Ordering::Relaxed);
    };
    let watch = RestoreWatch { progress: &progress, ..RestoreWatch::none() };
    let done = restore_all(room.path(), &heap, hash, &watch).unwrap();
    set_mode(room.path(), 0o755);
    assert_eq!(SampleNode::look(room.path()), tree);
    assert_eq!((done.created, done.kept.len(), done.failed.len()), (1202, 0, 0));
    assert!(calls.into_inner() > 10);
    let again = restore_all(room.path(), &heap, hash, &RestoreWatch::none());
    assert!(matches!(again, Err(RestoreError::NotEmpty(_))));
}

#[test]
fn nothing_is_restored_into_a_path_that_is_not_absolute() {
    let heap = SampleHeap::default();
    for root in ["", ".", "target"] {
        let refused =
            restore(Path::new(root), &heap, &RestorePlan::default(), &RestoreWatch::none());
        let error = refused.unwrap_err().to_string();
        assert_eq!(error, format!("cannot restore into {root}"));
    }
}

#[test]
fn what_was_edited_meanwhile_stays_and_is_told() {
    let (old, new) = some_trees();
    let heap = SampleHeap::default();
    let room = made(&old);
    let at = |name: &str| room.path().join(name);
    fs::write(at("edited"), "mine").unwrap();
    fs::write(at("gone"), "mine").unwrap();
    fs::write(at("kind"), "mine, longer than before").unwrap();
    fs::write(at("large"), "mine").unwrap();
    fs::remove_file(at("link")).unwrap();
    symlink("mine", at("link")).unwrap();
    set_mode(&at("mode"), 0o640);
    fs::write(at("swap/mine"), "mine").unwrap();
    fs::write(at("old/mine"), "mine").unwrap();
    let done = restored(&room, &heap, &planned(&heap, &old, &new));
    let kept = ["edited", "gone", "kind", "large", "link", "mode", "old", "swap"];
    assert_eq!(paths(&done.kept), kept);
    assert_eq!(paths(&done.failed), ["kind/l", "kind/now"]);
    for name in ["edited", "gone", "large", "swap/mine", "old/mine"] {
        assert_eq!(fs::read(at(name)).unwrap(), b"mine", "{name}");
    }
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("mine"));
    assert_eq!(fs::metadata(at("mode")).unwrap().mode() & 0o777, 0o640);
    assert_eq!(fs::read(at("new/a")).unwrap(), b"a");
}

#[test]
fn what_is_not_stored_is_not_written_over() {
    let heap = SampleHeap::default();
    let old = directory([("d", directory([]))]);
    let inner = [("ignored", file("then")), ("same", file("same")), ("l", link("x"))];
    let new = directory([
        ("d", directory(inner)),
        ("dir", file("then")),
        ("part", file("a whole file")),
        ("there", directory([("f", file("f"))])),
    ]);
    let room = made(&old);
    let at = |name: &str| room.path().join(name);
    fs::write(at("d/ignored"), "now").unwrap();
    fs::write(at("d/same"), "same").unwrap();
    fs::write(at("d/l"), "a file").unwrap();
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("part"), "a whole").unwrap();
    fs::create_dir(at("there")).unwrap();
    fs::write(at("there/mine"), "mine").unwrap();
    let done = restored(&room, &heap, &planned(&heap, &old, &new));
    assert_eq!(paths(&done.kept), ["d/ignored", "d/l", "dir"]);
    assert!(done.kept.iter().all(|(_, why)| why == EXISTS));
    assert_eq!(fs::read(at("d/ignored")).unwrap(), b"now");
    assert_eq!(fs::read(at("d/l")).unwrap(), b"a file");
    assert_eq!(fs::read(at("part")).unwrap(), b"a whole file");
    assert_eq!(fs::read(at("there/f")).unwrap(), b"f");
    assert_eq!(fs::read(at("there/mine")).unwrap(), b"mine");
}

#[test]
fn a_directory_that_is_there_keeps_its_mode_and_one_that_is_made_gets_its_own() {
    let heap = SampleHeap::default();
    let old = directory([("changed", directory([])), ("was-file", file("f"))]);
    let files = || directory([("f", file("f"))]);
    let new = directory([
        ("changed", directory([]).with_mode(0o711)),
        ("there", files().with_mode(0o777)),
        ("closed", files().with_mode(0o555)),
        ("made", files().with_mode(0o777)),
        ("sticky", files().with_mode(0o1757)),
        ("was-file", files().with_mode(0o500)),
    ]);
    let room = made(&old);
    let at = |name: &str| room.path().join(name);
    for (name, mode) in [("there", 0o700), ("closed", 0o751)] {
        fs::create_dir(at(name)).unwrap();
        set_mode(&at(name), mode);
    }
    let done = restored(&room, &heap, &planned(&heap, &old, &new));
    assert_eq!((done.kept, done.failed), (vec![], vec![]));
    let expected = directory([
        ("changed", directory([]).with_mode(0o711)),
        ("there", files().with_mode(0o700)),
        ("closed", files().with_mode(0o751)),
        ("made", files().with_mode(0o777)),
        ("sticky", files().with_mode(0o1757)),
        ("was-file", files().with_mode(0o500)),
    ]);
    assert_eq!(SampleNode::look(room.path()), expected);
}

#[test]
fn a_hostile_snapshot_puts_nothing_where_it_must_not() {
    let heap = SampleHeap::default();
    for name in ["..", "/etc", "a/../../b"] {
        let target = directory([(name, file("x"))]).store(&heap);
        let present = directory([]).store(&heap);
        let planned = plan(&heap, present, target, &[]);
        assert!(matches!(planned, Err(ReadError::Form { .. })), "{name}");
    }
    let repository = || directory([("config", file("x")), ("hooks", directory([]))]);
    let hostile = directory([
        (".git", repository()),
        (".GIT", repository()),
        (".git ", repository()),
        ("git~1", repository()),
        (".g\u{200c}it", file("gitdir: elsewhere")),
        (".abide", repository()),
        ("sub", directory([(".Git.", repository()), ("f", file("f"))])),
        ("root", file("#!/bin/sh").with_mode(0o6755)),
        ("sticky", directory([]).with_mode(0o1777)),
        ("passwd", link("/etc/passwd")),
    ]);
    let room = room();
    let plan = planned(&heap, &directory([]), &hostile);
    // As on a file system that takes other names for those of a repository.
    let watch = RestoreWatch::none();
    let mut run = RestoreRun::new(room.path(), &heap, &watch).unwrap();
    run.root.native = false;
    let allowed = run.without_aliases(&plan).into_owned();
    let done = run.all(room.path(), &allowed, RestoreSync::of(&allowed)).unwrap();
    set_mode(room.path(), 0o755);
    let harmless = directory([
        ("sub", directory([("f", file("f"))])),
        ("root", file("#!/bin/sh").with_mode(0o755)),
        ("sticky", directory([]).with_mode(0o1777)),
        ("passwd", link("/etc/passwd")),
    ]);
    assert_eq!(SampleNode::look(room.path()), harmless);
    assert_eq!((plan.kept.len(), allowed.kept.len()), (4, 7));
    assert_eq!(done.kept.len(), 8);
    assert!(done.kept.contains(&(b"root".to_vec(), SPECIAL_BITS.to_owned())));
}

#[test]
fn nothing_is_written_through_a_link() {
    let heap = SampleHeap::default();
    let outside = made(&directory([("f", file("one")), ("g", file("g"))]));
    let room = room();
    symlink(outside.path(), room.path().join("d")).unwrap();
    symlink(outside.path().join("f"), room.path().join("l")).unwrap();
    let old = directory([("d", directory([("f", file("one")), ("g", file("g"))]))]);
    let new = directory([
        ("d", directory([("f", file("two")), ("h", file("h"))])),
        ("l", file("through")),
    ]);
    let before = SampleNode::look(outside.path());
    let done = restored(&room, &heap, &planned(&heap, &old, &new));
    assert_eq!(SampleNode::look(outside.path()), before);
    assert_eq!(paths(&done.failed), ["d/f", "d/h"]);
    assert_eq!(paths(&done.kept), ["l"]);
}

#[test]
fn a_link_swapped_in_for_a_directory_leads_nowhere() {
    let heap = SampleHeap::default();
    let inside = |text: &str| {
        let files = directory([("a", file(text)), ("b", directory([("c", file(text))]))]);
        directory([("d", files)])
    };
    let (old, new) = (inside("one"), inside("two"));
    let outside = made(&directory([("a", file("one")), ("b", directory([("c", file("one"))]))]));
    let before = SampleNode::look(outside.path());
    let stamps = |at: &str| fs::metadata(outside.path().join(at)).unwrap().ctime_nsec();
    let stamp = (stamps("."), stamps("b"));
    let room = made(&old);
    let (forth, back) = (planned(&heap, &old, &new), planned(&heap, &new, &old));
    let end = AtomicBool::new(false);
    let swaps = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (d, away) = (room.path().join("d"), room.path().join("away"));
            while !end.load(Ordering::Relaxed) {
                fs::rename(&d, &away).unwrap();
                symlink(outside.path(), &d).unwrap();
                std::thread::yield_now();
                fs::remove_file(&d).unwrap();
                fs::rename(&away, &d).unwrap();
                std::thread::yield_now();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut done = 0;
        for round in 0..20_000 {
            done += restored(&room, &heap, &forth).changed;
            done += restored(&room, &heap, &back).changed;
            if round > 400 && done > 100 {
                break;
            }
        }
        end.store(true, Ordering::Relaxed);
        assert!(done > 0);
    });
    assert!(swaps.into_inner() > 0);
    assert_eq!(SampleNode::look(outside.path()), before);
    assert_eq!((stamps("."), stamps("b")), stamp);
}

#[test]
fn closed_directories_are_worked_in_and_closed_again() {
    let heap = SampleHeap::default();
    let tree = |text: &str, mode| {
        let inner = directory([(text, file(text)), ("f", file(text))]).with_mode(mode);
        directory([("d", directory([("e", inner)]).with_mode(0o555))])
    };
    let (old, new) = (tree("one", 0o555), tree("two", 0o500));
    let (forth, back) = (planned(&heap, &old, &new), planned(&heap, &new, &old));
    let room = made(&old);
    let done = as_owner(|| restored(&room, &heap, &forth));
    assert_eq!((done.kept, done.failed), (vec![], vec![]));
    assert_eq!(SampleNode::look(room.path()), new);
    for at in 0.. {
        if as_owner(|| killed(room.path(), &heap, &back, at)).is_ok() {
            assert!(at > 7);
            break;
        }
        as_owner(|| restored(&room, &heap, &forth));
        assert_eq!(SampleNode::look(room.path()), new, "killed at {at}");
    }
    assert_eq!(SampleNode::look(room.path()), old);
    set_mode(&room.path().join("d/e"), 0o755);
    set_mode(&room.path().join("d"), 0o755);
}

#[test]
fn only_the_paths_asked_for_are_put_back() {
    let heap = SampleHeap::default();
    let old = directory([("a", file("a")), ("b", file("b"))]);
    let deep = directory([("x", file("x")), ("y", file("y"))]);
    let new = directory([
        ("a", file("aa")),
        ("b", directory([("deep", deep.with_mode(0o700)), ("z", file("z"))])),
        ("c", file("c")),
    ]);
    let asked = [b"b/deep/x".to_vec(), b"c/".to_vec(), b"none".to_vec()];
    let plan = plan(&heap, old.store(&heap), new.store(&heap), &asked).unwrap();
    let steps: Vec<_> = plan.steps.iter().map(|s| (s.path.as_slice(), s.action)).collect();
    let create = RestoreAction::Create;
    let expected: [(&[u8], _); 4] =
        [(b"b", RestoreAction::Change), (b"b/deep", create), (b"b/deep/x", create), (b"c", create)];
    assert_eq!(steps, expected);
    assert_eq!(plan.kept.iter().map(|k| k.path.as_slice()).collect::<Vec<_>>(), [b"none"]);
    let room = made(&old);
    restored(&room, &heap, &plan);
    let deep = directory([("x", file("x"))]).with_mode(0o700);
    let b = directory([("deep", deep)]);
    assert_eq!(
        SampleNode::look(room.path()),
        directory([("a", file("a")), ("b", b), ("c", file("c"))])
    );
}

#[test]
fn a_path_that_is_not_asked_for_is_not_changed_on_the_way() {
    let heap = SampleHeap::default();
    let old = directory([("d", directory([("f", file("f")), ("g", file("g"))]))]);
    let new = directory([("d", file("a file then"))]);
    let plan = plan(&heap, old.store(&heap), new.store(&heap), &[b"d/f".to_vec()]).unwrap();
    let room = made(&old);
    restored(&room, &heap, &plan);
    assert_eq!(SampleNode::look(room.path()), directory([("d", directory([("g", file("g"))]))]));
}

#[test]
fn a_missing_object_fails_its_file_and_no_other() {
    let heap = SampleHeap::default();
    let new = directory([("a", file("a")), ("b", file("b")), ("c", file("c"))]);
    let old = directory([("b", file("old"))]);
    let plan = planned(&heap, &old, &new);
    heap.lose(ObjectHash::of(b"b"));
    let room = made(&old);
    let done = restored(&room, &heap, &plan);
    assert_eq!(paths(&done.failed), ["b"]);
    assert_eq!(
        SampleNode::look(room.path()),
        directory([("a", file("a")), ("b", file("old")), ("c", file("c"))])
    );
}

#[test]
fn a_large_file_that_lacks_a_chunk_leaves_the_old_one() {
    let heap = SampleHeap::default();
    let old = directory([("f", file("old"))]);
    let new = directory([("f", file("0123456789abcdefghij0123456789")), ("n", file("n"))]);
    let plan = planned(&heap, &old, &new);
    heap.lose(ObjectHash::of(b"abcdefghij"));
    let room = made(&old);
    assert_eq!(paths(&restored(&room, &heap, &plan).failed), ["f"]);
    let left = directory([("f", file("old")), ("n", file("n"))]);
    assert_eq!(SampleNode::look(room.path()), left);
}

#[test]
fn a_restore_cancelled_at_once_does_nothing() {
    let (old, new) = some_trees();
    let heap = SampleHeap::default();
    let room = made(&old);
    let cancel = AtomicBool::new(true);
    let watch = RestoreWatch { cancel: &cancel, progress: &|_, _| {} };
    let forth = planned(&heap, &old, &new);
    let stopped = restore(room.path(), &heap, &forth, &watch);
    assert!(matches!(stopped, Err(RestoreError::Cancelled)));
    assert_eq!(SampleNode::look(room.path()), old);
}

#[test]
fn a_restore_cancelled_half_way_goes_back() {
    let heap = SampleHeap::default();
    let many = |text: &str| {
        let name = |n: u32| format!("{}{n}", if n.is_multiple_of(3) { text } else { "" });
        let nodes = (0..300).map(|n| (name(n).into_bytes(), file(&format!("{text}{n}"))));
        SampleNode::Directory(nodes.collect(), 0o755)
    };
    let (old, new) = (many("old"), many("new"));
    let room = made(&old);
    let cancel = AtomicBool::new(false);
    let progress = |done: u64, _| cancel.store(done > 150, Ordering::Relaxed);
    let watch = RestoreWatch { cancel: &cancel, progress: &progress };
    let stopped = restore(room.path(), &heap, &planned(&heap, &old, &new), &watch);
    assert!(matches!(stopped, Err(RestoreError::Cancelled)));
    let half = SampleNode::look(room.path());
    assert!(half != old && half != new);
    let done = restored(&room, &heap, &planned(&heap, &new, &old));
    assert_eq!((done.kept, done.failed), (vec![], vec![]));
    assert_eq!(SampleNode::look(room.path()), old);
}

#[test]
fn only_temporary_files_of_ours_are_swept() {
    let heap = SampleHeap::default();
    let (old, new) = (directory([("f", file("1"))]), directory([("f", file("2"))]));
    let room = made(&old);
    let ours = TemporaryNames::default();
    for name in [".abide-tmp-mine", ".abide-tmp-0123456789abcdef", "f.tmp"] {
        fs::write(room.path().join(name), "").unwrap();
    }
    let name = format!(".abide-tmp-{:016x}-a", 77);
    assert!(TemporaryNames::is(name.as_bytes()) && TemporaryNames::is(&ours.name()));
    fs::write(room.path().join(&name), "").unwrap();
    restored(&room, &heap, &planned(&heap, &old, &new));
    let mut names: Vec<_> =
        fs::read_dir(room.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".abide-tmp-0123456789abcdef", ".abide-tmp-mine", "f", "f.tmp"]);
}

#[test]
fn a_hard_link_elsewhere_keeps_its_content() {
    let heap = SampleHeap::default();
    let (old, new) = (directory([("f", file("one"))]), directory([("f", file("two"))]));
    let room = made(&old);
    let other = self::room();
    if fs::hard_link(room.path().join("f"), other.path().join("f")).is_ok() {
        restored(&room, &heap, &planned(&heap, &old, &new));
        assert_eq!(fs::read(other.path().join("f")).unwrap(), b"one");
    }
}

#[test]
fn a_path_longer_than_a_system_call_takes_is_restored() {
    let heap = SampleHeap::default();
    let name = "x".repeat(250);
    let mut tree = directory([("f", file("deep"))]);
    for _ in 0..20 {
        tree = directory([(name.as_str(), tree)]);
    }
    let room = room();
    let tree = tree.store(&heap);
    let done = restore_all(room.path(), &heap, tree, &RestoreWatch::none()).unwrap();
    assert_eq!((done.created, done.failed), (21, vec![]));
    let empty = directory([]).store(&heap);
    let back = plan(&heap, tree, empty, &[]).unwrap();
    assert_eq!(restored(&room, &heap, &back).deleted, 21);
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 0);
}

/// Objects in memory that write to a file when a certain one of them is read.
#[derive(Debug)]
struct Meddling<'a> {
    heap: &'a SampleHeap,
    on: ObjectHash,
    file: PathBuf,
}

impl Objects for Meddling<'_> {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        self.heap.has(hashes)
    }
    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        self.heap.put_batch(batch)
    }
    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError> {
        self.heap.put_like(objects)
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.heap.sync()
    }
    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError> {
        if hash == self.on {
            fs::write(&self.file, "mine").unwrap();
        }
        self.heap.read(hash)
    }
    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), StoreError> {
        self.heap.read_many(hashes, each)
    }
    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError> {
        self.heap.places(hashes)
    }
}

#[test]
fn what_is_edited_while_the_new_file_is_written_is_not_lost() {
    let heap = SampleHeap::default();
    let new = directory([("f", file("0123456789abcdefghij01234"))]);
    for old in [directory([("f", file(&"x".repeat(50)))]), directory([])] {
        let plan = planned(&heap, &old, &new);
        let room = made(&old);
        let on = ObjectHash::of(b"abcdefghij");
        let meddling = Meddling { heap: &heap, on, file: room.path().join("f") };
        let done = restore(room.path(), &meddling, &plan, &RestoreWatch::none()).unwrap();
        assert_eq!(paths(&done.kept), ["f"]);
        assert_eq!(SampleNode::look(room.path()), directory([("f", file("mine"))]));
    }
}

fn node() -> impl Strategy<Value = SampleNode> {
    let mode = || prop_oneof![Just(0o644_u16), Just(0o600), Just(0o755), Just(0o444)];
    let leaf = prop_oneof![
        3 => ("[ab]{0,6}", mode()).prop_map(|(text, mode)| file(&text).with_mode(mode)),
        1 => ("[ab]{25,40}", mode()).prop_map(|(text, mode)| file(&text).with_mode(mode)),
        1 => "[ab]{1,3}".prop_map(|target| link(&target)),
    ];
    leaf.prop_recursive(3, 24, 5, directory_of)
}

fn directory_of(node: BoxedStrategy<SampleNode>) -> BoxedStrategy<SampleNode> {
    let mode = prop_oneof![Just(0o755_u16), Just(0o700), Just(0o555), Just(0o300)];
    let names =
        prop_oneof![Just("a"), Just("b"), Just("c"), Just("a.b"), Just("a b"), Just("\u{e9}")];
    let names = names.prop_map(|name| name.as_bytes().to_vec());
    let nodes = prop::collection::btree_map(names, node, 0..6);
    (nodes, mode).prop_map(|(nodes, mode)| SampleNode::Directory(nodes, mode)).boxed()
}

fn root() -> impl Strategy<Value = SampleNode> {
    directory_of(node().boxed()).prop_map(|node| node.with_mode(0o755))
}

/// So that the temporary directory can be removed by anyone.
fn open_all(path: &Path) {
    if fs::symlink_metadata(path).unwrap().is_dir() {
        set_mode(path, 0o700);
        for entry in fs::read_dir(path).unwrap() {
            open_all(&entry.unwrap().path());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_becomes_any_other(a in root(), b in root(), at in 0..60_i64, undo: bool) {
        let heap = SampleHeap::default();
        let (forth, back) = (planned(&heap, &a, &b), planned(&heap, &b, &a));
        let room = made(&a);
        for (plan, result) in [(&forth, &b), (&back, &a)] {
            let done = as_owner(|| restored(&room, &heap, plan));
            prop_assert_eq!(&done.kept, &[]);
            prop_assert_eq!(&done.failed, &[]);
            prop_assert_eq!(&SampleNode::look(room.path()), result);
        }
        let _ = as_owner(|| killed(room.path(), &heap, &forth, at));
        let (plan, result) = if undo { (&back, &a) } else { (&forth, &b) };
        let done = as_owner(|| restored(&room, &heap, plan));
        prop_assert_eq!(&done.kept, &[]);
        prop_assert_eq!(&done.failed, &[]);
        prop_assert_eq!(&SampleNode::look(room.path()), result);
        let full = self::room();
        let tree = a.store(&heap);
        as_owner(|| restore_all(full.path(), &heap, tree, &RestoreWatch::none())).unwrap();
        set_mode(full.path(), 0o755);
        prop_assert_eq!(&SampleNode::look(full.path()), &a);
        open_all(room.path());
        open_all(full.path());
    }
}

#[test]
fn names_are_bytes() {
    let heap = SampleHeap::default();
    let name = b"\xff\x01\n".to_vec();
    let new = SampleNode::Directory([(name.clone(), file("x"))].into(), 0o755);
    let room = made(&directory([]));
    restored(&room, &heap, &planned(&heap, &directory([]), &new));
    assert!(room.path().join(std::ffi::OsStr::from_bytes(&name)).is_file());
}

#[test]
fn a_plan_that_was_cut_off_makes_the_directories_that_are_gone() {
    let heap = SampleHeap::default();
    let deep = |text| directory([("e", directory([("f", file(text))]).with_mode(0o750))]);
    let old = directory([("d", deep("1")), ("g", directory([("h", file("1"))]))]);
    let new = directory([("d", deep("2")), ("g", directory([("h", file("2"))]))]);
    let room = made(&old);
    let planned = planned(&heap, &old, &new);
    let mut unchanged = planned.clone();
    ways::make_ways(room.path(), &heap, new.store(&heap), &mut unchanged).unwrap();
    assert_eq!(unchanged, planned, "all of them are there");

    fs::remove_dir_all(room.path().join("d")).unwrap();
    assert_eq!(restored(&room, &heap, &planned).failed.len(), 1);
    let mut plan = planned;
    ways::make_ways(room.path(), &heap, new.store(&heap), &mut plan).unwrap();
    let done = restored(&room, &heap, &plan);
    assert_eq!((done.failed, done.kept, done.created), (vec![], vec![], 2));
    assert_eq!(SampleNode::look(room.path()), new);
}

#[test]
#[allow(clippy::print_stdout)]
fn what_root_puts_back_belongs_to_the_owner_of_its_directory() {
    use std::os::unix::fs::{chown, lchown};
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root gives files away");
    }
    let heap = SampleHeap::default();
    let old = directory([("edited", file("one")), ("other", directory([("f", file("f"))]))]);
    let new = directory([
        ("edited", file("two").with_mode(0o600)),
        ("made", directory([("d", directory([("f", file("f"))])), ("l", link("/etc/passwd"))])),
        ("link", link("edited")),
        ("other", directory([("f", file("g")), ("h", file("h"))])),
    ]);
    let room = made(&old);
    for path in ["", "edited", "other/f"] {
        chown(room.path().join(path), Some(1234), Some(4321)).unwrap();
    }
    chown(room.path().join("other"), Some(77), Some(77)).unwrap();
    let done = restored(&room, &heap, &planned(&heap, &old, &new));
    assert_eq!((done.kept, done.failed), (vec![], vec![]));
    let owner = |path: &str| {
        let found = room.path().join(path).symlink_metadata().unwrap();
        (found.uid(), found.gid())
    };
    for path in ["edited", "made", "made/d", "made/d/f", "made/l", "link"] {
        assert_eq!(owner(path), (1234, 4321), "{path}");
    }
    assert_eq!((owner("other/f"), owner("other/h")), ((77, 77), (77, 77)));
    assert_eq!(fs::metadata("/etc/passwd").unwrap().uid(), 0);
    // Where the directory is root's, what it makes is too.
    lchown(room.path(), Some(0), Some(0)).unwrap();
    restored(&room, &heap, &planned(&heap, &new, &old));
    assert_eq!(owner("edited"), (0, 0));
}
