//! Objects in a directory and, with the feature `s3`, on a server, which is killed and cut off.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod keeping;
#[cfg(feature = "s3")]
mod losing;
#[cfg(feature = "s3")]
mod sending;
#[cfg(feature = "s3")]
mod server;
#[cfg(feature = "s3")]
mod tls;
#[cfg(not(feature = "s3"))]
mod without_s3;

use std::path::{Path, PathBuf};

use abide_model::{ObjectBatch, ObjectHash};
use abide_objects::{ObjectsOptions, ObjectsUrl, RemoteObjects};
use abide_testkit::Random;

#[cfg(feature = "s3")]
fn s3(options: &ObjectsOptions) -> RemoteObjects {
    RemoteObjects::open("s3://bucket/team/a".parse().unwrap(), options).unwrap()
}

fn directory(path: &Path) -> RemoteObjects {
    let url = ObjectsUrl::Directory(path.to_owned());
    RemoteObjects::open(url, &ObjectsOptions::default()).unwrap()
}

fn batch<T: AsRef<[u8]>>(objects: impl IntoIterator<Item = T>) -> ObjectBatch {
    let mut batch = ObjectBatch::default();
    for object in objects {
        batch.push(ObjectHash::of(object.as_ref()), object.as_ref());
    }
    batch
}

/// Bytes that do not shrink.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Where an object lies below the directory of all.
fn file_of(directory: &Path, hash: ObjectHash) -> PathBuf {
    let name = hash.to_string();
    directory.join(&name[..2]).join(&name[2..])
}
