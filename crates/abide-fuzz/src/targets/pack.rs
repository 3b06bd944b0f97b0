//! A pack of objects and its index.
//!
//! Parts of the input: a byte of wishes and a pack, its index, and perhaps a second pack.

use std::ops::ControlFlow;
use std::sync::Arc;

use abide_journal::{PackWriter, Packs};
use abide_model::ObjectHash;

use crate::input::{Wish, disk, parts, put, root};
use crate::sums::{blocks, mend_index, mend_pack};

const HASHES: usize = 24;

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let Some((wish, data)) = Wish::take(data) else { return false };
    let mut files: Vec<Vec<u8>> = parts(data).iter().take(3).map(|part| part.to_vec()).collect();
    let [pack, rest @ ..] = files.as_mut_slice() else { return false };
    if wish.has(0) {
        mend_pack(pack);
    }
    if let ([index, ..], true) = (&mut *rest, wish.has(1)) {
        mend_index(index);
    }
    if let ([_, second], true) = (&mut *rest, wish.has(0)) {
        mend_pack(second);
    }
    let names = ["objects/00000001.pack", "objects/00000001.idx", "objects/00000002.pack"];
    let disk = disk([("objects/lock", &b""[..])]);
    for (name, bytes) in names.iter().zip(&files) {
        put(&disk, name, bytes);
    }
    let open = || Packs::new(disk.clone(), root().join("objects"));
    let hashes = named(&files);
    let packs = open();
    let mut is_accepted = false;
    for hash in &hashes {
        let bytes = packs.read(*hash).expect("the disk works");
        is_accepted |= bytes.is_some();
        assert!(bytes.is_none_or(|bytes| ObjectHash::of(&bytes) == *hash), "not its own bytes");
    }
    let packs = open();
    packs
        .read_many(&hashes, &mut |wanted, bytes| {
            assert!(bytes.is_none_or(|bytes| ObjectHash::of(bytes) == hashes[wanted]));
            ControlFlow::Continue(())
        })
        .expect("the disk works");
    let _ = packs.places(&hashes).expect("the disk works");
    packs.verify().expect("the disk works");
    // Whatever lies there, what is put anew is read. Not beside blocks that somebody gave right sums:
    // they may claim to hold an object and hold something else, and are believed.
    if wish.has(0) {
        return is_accepted;
    }
    let writer = PackWriter::open(Arc::new(open())).expect("the disk works");
    for bytes in [data, b"an object"] {
        let hash = writer.put(bytes).expect("the disk works");
        assert_eq!(hash, ObjectHash::of(bytes));
    }
    writer.sync().expect("the disk works");
    drop(writer);
    let again = open();
    for bytes in [data, b"an object"] {
        assert_eq!(
            again.read(ObjectHash::of(bytes)).expect("the disk works").as_deref(),
            Some(bytes)
        );
    }
    is_accepted
}

/// The names in the rows of the blocks and of the index.
fn named(files: &[Vec<u8>]) -> Vec<ObjectHash> {
    let mut hashes = Vec::new();
    for pack in files.iter().step_by(2) {
        for block in blocks(pack) {
            for row in 0..block.rows.min(8) {
                let at = block.at + 44 + row * block.row_size;
                hashes.push(ObjectHash(pack[at..at + 32].try_into().expect("a hash")));
            }
        }
    }
    for row in
        files.get(1).iter().flat_map(|index| index.get(48..)).flat_map(|rows| rows.chunks_exact(44))
    {
        hashes.push(ObjectHash(row[..32].try_into().expect("a hash")));
    }
    hashes.truncate(HASHES);
    hashes
}
