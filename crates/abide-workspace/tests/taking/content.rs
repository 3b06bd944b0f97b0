//! What is taken: bytes as they are, modes, links, names, and what cannot be taken.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use abide_model::{NewObject, ObjectBatch, ObjectHash, ObjectReceiver, Objects, StoreError};
use abide_workspace::{MemoryObjects, OmissionReason, Watch, WorkspaceError};

use crate::{Lab, name, on_disk, settle};

#[test]
fn everything_is_kept_as_it_is() {
    let lab = Lab::new();
    lab.write(".gitattributes", "* text=auto eol=lf\n");
    lab.write("crlf.txt", "one\r\ntwo\r\n");
    lab.write("secret", "x");
    fs::set_permissions(lab.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    lab.write("tool", "#!/bin/sh\n");
    fs::set_permissions(lab.path("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    lab.write(name(b"not utf-8 \xff\xfe"), "y");
    lab.write("empty", "");
    fs::create_dir_all(lab.path("no files/in here")).unwrap();
    symlink("nowhere", lab.path("dangling")).unwrap();
    symlink("no files", lab.path("to a directory")).unwrap();
    symlink("/", lab.path("outside")).unwrap();
    let taken = lab.take();
    let content = lab.content(&taken);
    assert_eq!(content, on_disk(&lab.root()));
    assert_eq!(content[&b"crlf.txt"[..]].2, b"one\r\ntwo\r\n");
    assert_eq!(content[&b"secret"[..]].1, 0o600);
    assert_eq!(content[&b"not utf-8 \xff\xfe"[..]].2, b"y");
    let snapshot = taken.snapshot;
    assert_eq!((snapshot.files, snapshot.directories, snapshot.omissions), (9, 2, 0));
    assert_eq!(snapshot.bytes, 19 + 10 + 1 + 10 + 1);
}

#[test]
fn what_cannot_be_taken_is_said() {
    let lab = Lab::new();
    let _socket = UnixListener::bind(lab.path("socket")).unwrap();
    lab.write("a/file", "x");
    lab.write(name(b"\xff"), "x");
    lab.write("closed/file", "x");
    fs::set_permissions(lab.path("a/file"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(lab.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let may_read_all = fs::read(lab.path("a/file")).is_ok();
    for round in 0..3 {
        let taken = lab.take();
        let omitted = lab.omitted(&taken);
        if may_read_all {
            assert_eq!(omitted, [("socket".to_owned(), OmissionReason::Special)]);
        } else {
            let unreadable = |path: &str| (path.to_owned(), OmissionReason::Unreadable);
            let socket = ("socket".to_owned(), OmissionReason::Special);
            assert_eq!(omitted, [unreadable("a/file"), unreadable("closed"), socket]);
        }
        assert_eq!(taken.unchanged, round > 0);
        settle();
    }
    fs::set_permissions(lab.path("closed"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(lab.path("a/file"), fs::Permissions::from_mode(0o644)).unwrap();
    let taken = lab.take();
    assert_eq!(taken.snapshot.omissions, 1);
    assert_eq!(taken.snapshot.files, 3);
}

#[test]
fn a_file_that_grows_while_it_is_read_is_whole_or_named() {
    let lab = Lab::new();
    for number in 0..20 {
        lab.write(format!("other-{number}"), vec![7; 300_000]);
    }
    lab.write("log", "");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (path, stop) = (lab.path("log"), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            let mut lines = 0u64;
            while !stop.load(Ordering::Relaxed) && lines < 200_000 {
                file.write_all(format!("{lines:015}\n").as_bytes()).unwrap();
                lines += 1;
            }
        })
    };
    for _ in 0..20 {
        let taken = lab.take();
        let content = lab.content(&taken);
        match content.get(&b"log"[..]) {
            Some((_, _, bytes)) => {
                assert_eq!(bytes.len() % 16, 0, "half a line was stored");
                for (number, line) in bytes.chunks(16).enumerate() {
                    assert_eq!(line, format!("{number:015}\n").as_bytes());
                }
            }
            None => {
                let changing = ("log".to_owned(), OmissionReason::Changing);
                assert_eq!(lab.omitted(&taken), [changing]);
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(lab.content(&lab.take()), on_disk(&lab.root()));
}

#[test]
fn the_files_of_one_large_directory_are_shared_out() {
    let lab = Lab::new();
    for number in 0..1500 {
        lab.write(format!("flat/{number}"), format!("{number}"));
    }
    for number in 0..6 {
        lab.write(format!("bulky/{number}"), noise(3_000_000 + number));
    }
    let first = lab.take();
    assert_eq!(lab.content(&first), on_disk(&lab.root()));
    assert_eq!((first.snapshot.files, first.snapshot.directories), (1506, 2));
    settle();
    for number in (0..1500).step_by(2) {
        lab.write(format!("flat/{number}"), "changed");
    }
    fs::remove_file(lab.path("flat/1")).unwrap();
    let second = lab.take();
    assert_eq!(lab.content(&second), on_disk(&lab.root()));
    assert_eq!(second.snapshot.files, 1505);
}

/// Bytes without a pattern that a chunker could find.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"noise");
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

#[test]
fn an_edit_in_a_large_file_stores_the_edit() {
    let lab = Lab::new();
    let mut bytes = noise(64 << 20);
    lab.write("large", &bytes);
    let first = lab.take();
    assert!(first.stored_bytes >= 64 << 20);
    // Bytes come in, so that all after them moves.
    bytes.splice((32 << 20)..(32 << 20), *b"an edit in the middle");
    lab.write("large", &bytes);
    let second = lab.take();
    assert!(second.stored_bytes < 2 << 20, "{} bytes were stored", second.stored_bytes);
    assert!(lab.content(&second)[&b"large"[..]].2 == bytes);
    assert_eq!(second.snapshot.bytes, bytes.len() as u64);
}

#[test]
fn the_same_content_is_stored_once() {
    let lab = Lab::new();
    for number in 0..50 {
        lab.write(format!("{number}/copy"), "the same");
    }
    // The file, one tree for all, the root's, and the snapshot.
    assert_eq!(lab.take().stored_objects, 4);
    assert_eq!(lab.objects.len(), 4);
}

#[test]
fn a_cancelled_snapshot_changes_nothing() {
    let lab = Lab::new();
    lab.write("a", "x");
    let cancel = Some(Arc::new(AtomicBool::new(true)));
    let workspace = lab.workspace(&lab.cache());
    let result = workspace.snapshot(&lab.objects, &Watch { cancel, progress: None });
    assert!(matches!(result, Err(WorkspaceError::Cancelled)));
    assert!(!lab.cache().exists());
}

/// A store in which somebody cancels as soon as something is put.
#[derive(Debug)]
struct Cancelling {
    objects: MemoryObjects,
    cancel: Arc<AtomicBool>,
}

impl Objects for Cancelling {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        self.objects.has(hashes)
    }

    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        self.cancel.store(true, Ordering::Relaxed);
        self.objects.put_batch(batch)
    }

    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError> {
        self.objects.put_like(objects)
    }

    fn sync(&self) -> Result<(), StoreError> {
        panic!("a cancelled snapshot is not made durable")
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
        self.objects.places(hashes)
    }
}

#[test]
fn a_snapshot_is_cancelled_within_a_large_file() {
    let lab = Lab::new();
    lab.write("large", noise(32 << 20));
    let cancel = Arc::new(AtomicBool::new(false));
    let objects = Cancelling { objects: MemoryObjects::new(), cancel: Arc::clone(&cancel) };
    let watch = Watch { cancel: Some(cancel), progress: None };
    let result = lab.workspace(&lab.cache()).snapshot(&objects, &watch);
    assert!(matches!(result, Err(WorkspaceError::Cancelled)));
    assert!(objects.objects.bytes() < 16 << 20);
    assert!(!lab.cache().exists());
}

#[test]
fn progress_is_told() {
    let lab = Lab::new();
    for number in 0..40 {
        lab.write(format!("{number}/file"), noise(400_000));
    }
    let seen = Arc::new(AtomicU64::new(0));
    let progress: Arc<dyn Fn(abide_workspace::SnapshotProgress) + Send + Sync> = {
        let seen = Arc::clone(&seen);
        Arc::new(move |progress| {
            assert_eq!(progress.bytes_read, progress.files_read * 400_000);
            seen.fetch_max(progress.files_seen, Ordering::Relaxed);
        })
    };
    let watch = Watch { cancel: None, progress: Some(progress) };
    lab.workspace(&lab.cache()).snapshot(&lab.objects, &watch).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 40);
}
