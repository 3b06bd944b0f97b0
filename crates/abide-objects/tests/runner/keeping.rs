//! What is put is there, for whoever reads it.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::thread;
use std::time::Duration;

use abide_model::{CollectableObjects, NewObject, ObjectHash, Objects, StoredObject};
use abide_objects::RemoteObjects;

use crate::{batch, directory, file_of, noise};

const MINUTE: Duration = Duration::from_secs(60);

/// Runs a test on a directory, and on a server where there can be one.
fn on_both(test: impl Fn(&dyn Fn() -> RemoteObjects, &Path)) {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("objects");
    test(&|| directory(&path), &path);
    #[cfg(feature = "s3")]
    {
        let server = crate::server::S3Server::start();
        test(&|| crate::s3(&server.options()), &server.directory("team/a"));
    }
}

#[test]
fn what_is_put_is_there() {
    on_both(|open, _| {
        let objects = open();
        let plain: Vec<Vec<u8>> = vec![b"".into(), b"one".into(), vec![7; 100_000], noise(1, 5000)];
        let hashes: Vec<ObjectHash> = plain.iter().map(|plain| ObjectHash::of(plain)).collect();
        assert_eq!(objects.has(&hashes).unwrap(), [false; 4]);
        assert_eq!(objects.read(hashes[1]).unwrap(), None);
        let taken = objects.put_batch(&batch(&plain)).unwrap();
        assert!((5000..6000).contains(&taken), "{taken}");
        // At once for the one who put them, for all others after the sync.
        assert_eq!(objects.has(&hashes).unwrap(), [true; 4]);
        assert_eq!(objects.read(hashes[2]).unwrap().unwrap(), plain[2]);
        objects.sync().unwrap();
        let other = open();
        assert_eq!(other.has(&hashes).unwrap(), [true; 4]);
        for (hash, plain) in hashes.iter().zip(&plain) {
            assert_eq!(other.read(*hash).unwrap().as_ref(), Some(plain));
        }
        assert_eq!(other.places(&hashes).unwrap().len(), 4);
        let like = NewObject {
            hash: ObjectHash::of(b"one more"),
            bytes: b"one more".to_vec(),
            base: Some(hashes[1]),
        };
        objects.put_like(std::slice::from_ref(&like)).unwrap();
        objects.sync().unwrap();
        assert_eq!(open().read(like.hash).unwrap().unwrap(), like.bytes);
    });
}

#[test]
fn many_are_read_until_it_is_enough() {
    on_both(|open, _| {
        let plain: Vec<Vec<u8>> = (0..100).map(|number| noise(number, 100)).collect();
        let objects = open();
        objects.put_batch(&batch(&plain)).unwrap();
        objects.sync().unwrap();
        let mut hashes: Vec<ObjectHash> = plain.iter().map(|it| ObjectHash::of(it)).collect();
        hashes.insert(50, ObjectHash::of(b"missing"));
        let mut seen = vec![0; hashes.len()];
        let other = open();
        let mut each = |at: usize, bytes: Option<&[u8]>| {
            assert_eq!(bytes.map(ObjectHash::of), (at != 50).then_some(hashes[at]));
            seen[at] += 1;
            ControlFlow::Continue(())
        };
        other.read_many(&hashes, &mut each).unwrap();
        assert_eq!(seen, vec![1; hashes.len()]);
        let mut count = 0;
        let mut each = |_: usize, _: Option<&[u8]>| {
            count += 1;
            if count == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        other.read_many(&hashes, &mut each).unwrap();
        assert_eq!(count, 7);
    });
}

#[test]
fn a_damaged_object_is_missing_until_it_is_put_again() {
    on_both(|open, path| {
        let objects = open();
        for (number, damage) in [&b"aobj"[..], b"", &[0; 4000]].into_iter().enumerate() {
            let plain = noise(number as u64, 3000);
            let hash = ObjectHash::of(&plain);
            objects.put_batch(&batch([&plain])).unwrap();
            objects.sync().unwrap();
            let file = file_of(path, hash);
            for by_one_who_knows in [true, false] {
                fs::write(&file, damage).unwrap();
                let reader = open();
                if by_one_who_knows {
                    assert_eq!(reader.read(hash).unwrap(), None);
                    assert_eq!(reader.has(&[hash]).unwrap(), [false]);
                }
                reader.put_batch(&batch([&plain])).unwrap();
                reader.sync().unwrap();
                assert_eq!(open().read(hash).unwrap().as_ref(), Some(&plain));
            }
        }
    });
}

#[test]
fn threads_share_the_objects() {
    on_both(|open, _| {
        let objects = open();
        thread::scope(|scope| {
            for thread in 0..8 {
                let objects = &objects;
                scope.spawn(move || {
                    for round in 0..5 {
                        // Half of them are put by all.
                        let own = (0..5).map(|at| noise(1000 * thread + 10 * round + at, 300));
                        let shared = (0..5).map(|at| noise(1_000_000 + 10 * round + at, 300));
                        let plain: Vec<Vec<u8>> = own.chain(shared).collect();
                        objects.put_batch(&batch(&plain)).unwrap();
                        objects.sync().unwrap();
                        for plain in &plain {
                            let read = objects.read(ObjectHash::of(plain)).unwrap();
                            assert_eq!(read.as_ref(), Some(plain));
                        }
                    }
                });
            }
        });
        let all = (0..8).flat_map(|thread| (0..5).map(move |round| 1000 * thread + 10 * round));
        let hashes: Vec<ObjectHash> = all.map(|seed| ObjectHash::of(&noise(seed, 300))).collect();
        assert!(open().has(&hashes).unwrap().iter().all(|there| *there));
    });
}

#[test]
fn calls_work_inside_a_runtime() {
    on_both(|open, _| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let objects = open();
            objects.put_batch(&batch(["inside"])).unwrap();
            objects.sync().unwrap();
            drop(objects);
            let hash = ObjectHash::of(b"inside");
            assert_eq!(open().has(&[hash]).unwrap(), [true]);
            assert_eq!(open().read(hash).unwrap().unwrap(), b"inside");
        });
    });
}

#[test]
fn what_is_stored_is_listed_and_removed() {
    on_both(|open, path| {
        let plain = [b"one".to_vec(), noise(1, 5000), noise(2, 100)];
        let hashes: Vec<ObjectHash> = plain.iter().map(|plain| ObjectHash::of(plain)).collect();
        let objects = open();
        objects.put_batch(&batch(&plain)).unwrap();
        objects.sync().unwrap();
        let listed = |objects: &RemoteObjects| {
            let mut listed: Vec<StoredObject> = Vec::new();
            objects.each_stored(&mut |object| listed.push(object)).unwrap();
            listed.sort_by_key(|object| object.hash.0);
            listed
        };
        let other = open();
        let all = listed(&other);
        let mut expected = hashes.clone();
        expected.sort_by_key(|hash| hash.0);
        assert_eq!(all.iter().map(|object| object.hash).collect::<Vec<_>>(), expected);
        assert!(all.iter().all(|object| object.bytes > 0 && object.age.as_secs() < 600), "{all:?}");
        assert_eq!(objects.has(&hashes).unwrap(), [true; 3]);
        other.remove(&hashes[..2], MINUTE).unwrap();
        let late = other.remove(&hashes, Duration::ZERO).unwrap_err();
        assert!(std::error::Error::source(&late).unwrap().to_string().contains("took too long"));
        // Nothing to do the second time.
        other.remove(&hashes[..2], MINUTE).unwrap();
        let left = listed(&open());
        assert_eq!(left.iter().map(|object| object.hash).collect::<Vec<_>>(), hashes[2..]);
        assert!(!file_of(path, hashes[0]).exists());
        assert_eq!(other.has(&hashes).unwrap(), [false, false, true]);
        // The other process is told to look anew.
        assert_eq!(objects.has(&hashes).unwrap(), [true; 3]);
        objects.forget_known();
        assert_eq!(objects.has(&hashes).unwrap(), [false, false, true]);
        objects.put_batch(&batch(&plain[..1])).unwrap();
        objects.sync().unwrap();
        assert_eq!(open().read(hashes[0]).unwrap().unwrap(), plain[0]);
    });
}

#[test]
fn what_was_left_half_written_goes_when_it_is_old() {
    let room = tempfile::tempdir().unwrap();
    let objects = directory(room.path());
    objects.put_batch(&batch([b"one"])).unwrap();
    objects.sync().unwrap();
    let dir = file_of(room.path(), ObjectHash::of(b"one")).parent().unwrap().to_owned();
    let (old, new, other) = (dir.join(".tmpold"), dir.join(".tmpnew"), dir.join("notes"));
    for path in [&old, &new, &other] {
        fs::write(path, "half").unwrap();
    }
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    for path in [&old, &other] {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    objects.remove_remains().unwrap();
    assert_eq!([&old, &new, &other].map(|path| path.exists()), [false, true, true]);
    assert_eq!(objects.read(ObjectHash::of(b"one")).unwrap().unwrap(), b"one");
}
