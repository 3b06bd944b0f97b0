//! What goes over the wire, and what need not.

use std::fs;

use abide_model::{ObjectHash, Objects};
use abide_objects::CacheOptions;
use abide_testkit::{CutProxy, Direction};

use crate::server::{S3Server, options_at};
use crate::{batch, file_of, noise, s3};

#[test]
fn a_large_object_goes_in_parts_and_once() {
    let server = S3Server::start();
    let proxy = CutProxy::before(server.address);
    let plain = noise(5, 20 << 20);
    let hash = ObjectHash::of(&plain);
    let objects = s3(&options_at(proxy.address()));
    objects.put_batch(&batch([&plain])).unwrap();
    objects.sync().unwrap();
    let sent = proxy.passed(Direction::ToServer);
    assert!(sent > 20 << 20);
    let other = s3(&options_at(proxy.address()));
    other.put_batch(&batch([&plain])).unwrap();
    other.sync().unwrap();
    assert!(proxy.passed(Direction::ToServer) - sent < 10_000);
    assert!(other.read(hash).unwrap().unwrap() == plain);
}

#[test]
fn what_is_cached_is_not_fetched() {
    let server = S3Server::start();
    let proxy = CutProxy::before(server.address);
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("cache");
    let mut options = options_at(proxy.address());
    options.cache = Some(CacheOptions { directory: path.clone(), bytes: 1 << 20 });
    let plain = noise(3, 50_000);
    let hash = ObjectHash::of(&plain);
    let writer = s3(&server.options());
    writer.put_batch(&batch([&plain])).unwrap();
    writer.sync().unwrap();
    let fetched = || {
        let before = proxy.passed(Direction::ToClient);
        assert_eq!(s3(&options).read(hash).unwrap().as_ref(), Some(&plain));
        proxy.passed(Direction::ToClient) - before
    };
    assert!(fetched() > 50_000);
    assert_eq!(fetched(), 0);
    // A damaged file is one that is not there, and so is the whole directory.
    fs::write(file_of(&path, hash), noise(4, 50_000)).unwrap();
    assert!(fetched() > 50_000);
    assert_eq!(fetched(), 0);
    fs::remove_dir_all(&path).unwrap();
    assert!(fetched() > 50_000);
}
