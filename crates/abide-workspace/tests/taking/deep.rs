//! Trees that are deeper than a process may have files open.

use std::fs;
use std::path::{Path, PathBuf};

use abide_workspace::{RestorePlan, RestoreReport, RestoreWatch, TakenSnapshot, restore};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Lab, settle};

const DEPTH: usize = 1200;
const MOST_OPEN: u64 = 512;

/// A tree with a file at some levels, and another directory beside the way at others.
fn make(lab: &Lab) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut path = PathBuf::new();
    for level in 0..DEPTH {
        path.push("d");
        fs::create_dir(lab.path(&path)).unwrap();
        if level % 7 == 0 {
            files.push(path.join("file"));
        }
        if level % 31 == 0 {
            // Before the way down, and after it.
            files.extend([path.join("a/inner"), path.join("z/inner/most")]);
        }
    }
    for (number, file) in files.iter().enumerate() {
        lab.write(file, number.to_string());
    }
    files
}

/// Everything below a directory, what is in a directory after it.
fn below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push(path);
    }
    found.split_off(1)
}

fn remove(root: &Path) {
    for path in below(root).iter().rev() {
        if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) }.unwrap();
    }
}

fn back(lab: &Lab, present: &TakenSnapshot, target: &TakenSnapshot) -> RestoreReport {
    let workspace = lab.workspace(&lab.cache());
    let plan: RestorePlan =
        workspace.plan(&lab.objects, &present.snapshot, &target.snapshot, &[]).unwrap();
    let done = restore(&lab.root(), &lab.objects, &plan, &RestoreWatch::none()).unwrap();
    assert_eq!((&done.kept, &done.failed), (&Vec::new(), &Vec::new()));
    done
}

#[test]
fn a_tree_deeper_than_files_may_be_open_is_taken_and_put_back() {
    let limit = getrlimit(Resource::Nofile);
    let few = Rlimit { current: Some(MOST_OPEN), ..limit };
    setrlimit(Resource::Nofile, few).unwrap();
    let lab = Lab::new();
    let empty = lab.take();
    let files = make(&lab);
    settle();
    let first = lab.take();
    assert_eq!((first.snapshot.files, first.snapshot.omissions), (files.len() as u64, 0));
    let again = lab.take();
    assert_eq!(again.hash, first.hash);
    // A change at the bottom, seen without a look at what is remembered of the rest.
    settle();
    let deepest = files.iter().max_by_key(|file| file.as_os_str().len()).unwrap();
    fs::write(lab.path(deepest), "changed").unwrap();
    let changed = lab.take();
    assert_eq!(changed.hash, lab.take_anew().hash);
    assert_eq!(back(&lab, &changed, &first).changed, 1);
    let everything = below(&lab.root()).len() as u64;
    assert_eq!(back(&lab, &first, &empty).deleted, everything);
    assert_eq!(below(&lab.root()).len(), 0);
    assert_eq!(back(&lab, &empty, &first).created, everything);
    for (number, file) in files.iter().enumerate() {
        assert_eq!(fs::read_to_string(lab.path(file)).unwrap(), number.to_string());
    }
    remove(&lab.root());
    setrlimit(Resource::Nofile, limit).unwrap();
}
