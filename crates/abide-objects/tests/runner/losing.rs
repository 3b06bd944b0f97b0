//! Servers that fail: what a sync has said is durable is there.

use std::error::Error;
use std::time::Duration;

use abide_model::{ObjectHash, Objects};
use abide_testkit::{CutProxy, Direction, Random};

use crate::server::{S3Server, SECRET, options_at};
use crate::{batch, noise, s3};

/// Tries again at once, and not for long.
const SHORT: Duration = Duration::from_millis(300);

#[test]
fn what_failed_is_told_and_stored_by_a_later_sync() {
    let server = S3Server::start();
    let proxy = CutProxy::before(server.address);
    let mut options = options_at(proxy.address());
    options.patience = SHORT;
    let objects = s3(&options);
    proxy.refuse(true);
    let plain = noise(1, 1000);
    let hash = ObjectHash::of(&plain);
    objects.put_batch(&batch([&plain])).unwrap();
    // Everybody who shares them is told, and again.
    for _ in 0..2 {
        assert!(objects.sync().is_err());
    }
    assert!(objects.put_batch(&batch(["more"])).is_err());
    assert_eq!(objects.read(hash).unwrap().as_ref(), Some(&plain));
    proxy.refuse(false);
    objects.sync().unwrap();
    assert_eq!(s3(&server.options()).read(hash).unwrap().as_ref(), Some(&plain));
    objects.put_batch(&batch(["more"])).unwrap();
    objects.sync().unwrap();
}

#[test]
fn a_server_that_is_gone_is_an_error_of_reading() {
    let mut server = S3Server::start();
    let mut options = server.options();
    options.patience = SHORT;
    server.kill();
    let objects = s3(&options);
    let hash = ObjectHash::of(b"any");
    assert!(objects.read(hash).is_err());
    assert!(objects.has(&[hash]).is_err());
    server.restart();
    assert_eq!(objects.has(&[hash]).unwrap(), [false]);
}

#[test]
fn a_server_killed_during_uploads_loses_nothing_that_was_synced() {
    let mut server = S3Server::start();
    let mut options = server.options();
    options.patience = SHORT;
    let mut synced = Vec::new();
    for round in 0..2 {
        let plain: Vec<Vec<u8>> = (0..32).map(|at| noise(100 * round + at, 20_000)).collect();
        let objects = s3(&options);
        let (early, late) = plain.split_at(16);
        objects.put_batch(&batch(early)).unwrap();
        // Those of the first half that are under way are cut off.
        server.kill();
        let failed = objects.put_batch(&batch(late)).and_then(|_| objects.sync());
        assert!(failed.is_err());
        server.restart();
        if round == 0 {
            // The same process goes on.
            objects.sync().unwrap();
            objects.put_batch(&batch(late)).unwrap();
            objects.sync().unwrap();
        } else {
            // Another one puts what is not there.
            let other = s3(&options);
            let hashes: Vec<ObjectHash> = plain.iter().map(|it| ObjectHash::of(it)).collect();
            let has = other.has(&hashes).unwrap();
            let missing = plain.iter().zip(has).filter(|(_, has)| !has).map(|(plain, _)| plain);
            other.put_batch(&batch(missing)).unwrap();
            other.sync().unwrap();
        }
        synced.extend(plain);
    }
    let reader = s3(&server.options());
    for plain in &synced {
        assert!(reader.read(ObjectHash::of(plain)).unwrap().as_ref() == Some(plain));
    }
}

#[test]
fn connections_cut_at_any_byte_lose_nothing_that_was_synced() {
    let server = S3Server::start();
    let proxy = CutProxy::before(server.address);
    let objects = s3(&options_at(proxy.address()));
    let reader = s3(&server.options());
    let mut random = Random::new(11);
    for round in 0..20 {
        let plain: Vec<Vec<u8>> = (0..8).map(|at| noise(1000 * round + at, 3000)).collect();
        let direction = if random.once_in(2) { Direction::ToServer } else { Direction::ToClient };
        proxy.cut_after(random.below(5000), direction);
        objects.put_batch(&batch(&plain)).unwrap();
        objects.sync().unwrap();
        for plain in &plain {
            assert!(reader.read(ObjectHash::of(plain)).unwrap().as_ref() == Some(plain));
        }
    }
    assert!(proxy.cuts() > 5, "{}", proxy.cuts());
}

#[test]
fn a_stranger_is_refused_and_no_secret_is_told() {
    let server = S3Server::start();
    let mut options = server.options();
    for (name, value) in &mut options.environment {
        if name == "AWS_ACCESS_KEY_ID" {
            "stranger".clone_into(value);
        }
    }
    let objects = s3(&options);
    objects.put_batch(&batch(["x"])).unwrap();
    let error = objects.sync().unwrap_err();
    let mut told = format!("{error} {error:?} {objects:?} {options:?}");
    let mut source = error.source();
    while let Some(error) = source {
        told += &error.to_string();
        source = error.source();
    }
    assert!(!told.contains(SECRET), "{told}");
}
