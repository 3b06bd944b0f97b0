//! Finds out which objects are readable by checking their blocks, without reading the objects.

use std::sync::PoisonError;

use abide_model::ObjectHash;

use crate::pack::PackRow;
use crate::packs::{MAX_CHAIN, ObjectLocation, OpenBlock};
use crate::{JournalError, Packs};

impl Packs {
    /// Which of these objects are present and whole, including every object they are differences
    /// from? Each block is checked once and the result is kept.
    pub fn readable(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, JournalError> {
        let readable = self.readable_as_found(hashes, 0)?;
        // A damaged copy may hide a good one elsewhere.
        if readable.contains(&false) && self.look_closely()? {
            return self.readable_as_found(hashes, 0);
        }
        Ok(readable)
    }

    fn readable_as_found(
        &self,
        hashes: &[ObjectHash],
        depth: u32,
    ) -> Result<Vec<bool>, JournalError> {
        let mut readable = vec![false; hashes.len()];
        let places = self.find_all(hashes)?.into_iter().zip(0..);
        let mut order: Vec<(ObjectLocation, usize)> =
            places.filter_map(|(place, at)| Some((place?, at))).collect();
        order.sort_unstable();
        let (mut based, mut bases) = (Vec::new(), Vec::new());
        let block_of = |(place, _): &(ObjectLocation, usize)| (place.pack, place.offset);
        for group in order.chunk_by(|a, b| block_of(a) == block_of(b)) {
            let Some((first, _)) = group.first() else { continue };
            let Some((_, block)) = self.readable_block(*first)? else { continue };
            for (place, at) in group {
                let row = block.rows.get(place.index as usize);
                let row = row.filter(|row| hashes.get(*at) == Some(&row.hash));
                match (row, row.and_then(PackRow::base), readable.get_mut(*at)) {
                    (Some(_), Some(base), _) => {
                        based.push(*at);
                        bases.push(base);
                    }
                    (Some(_), None, Some(readable)) => *readable = true,
                    _ => {}
                }
            }
        }
        if !bases.is_empty() && depth < MAX_CHAIN {
            let whole = self.readable_as_found(&bases, depth + 1)?;
            for (at, _) in based.iter().zip(whole).filter(|(_, whole)| *whole) {
                if let Some(readable) = readable.get_mut(*at) {
                    *readable = true;
                }
            }
        }
        Ok(readable)
    }

    /// The block at a place, if its checksum matches.
    fn readable_block(&self, place: ObjectLocation) -> Result<Option<OpenBlock>, JournalError> {
        let Some((file, block)) = self.block(place)? else { return Ok(None) };
        let key = (place.pack, place.offset);
        let checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if !checked().contains(&key) {
            let path = self.path(place.pack);
            let whole = block.verify(&*file, place.offset);
            if !whole.map_err(JournalError::io("read", &path))? {
                return Ok(None);
            }
            checked().insert(key);
        }
        Ok(Some((file, block)))
    }
}

#[cfg(test)]
mod tests {
    use abide_model::{NewObject, ObjectBatch};

    use super::*;
    use crate::PackWriter;
    use crate::packs::test_packs as packs;

    fn noise(seed: u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
        bytes
    }

    #[test]
    fn an_object_in_a_damaged_block_or_on_top_of_one_cannot_be_read_and_a_second_copy_can() {
        let dir = tempfile::tempdir().unwrap();
        let writer = PackWriter::open(packs(dir.path())).unwrap();
        let (first, second) = (noise(1, 3000), noise(2, 3000));
        let mut edited = first.clone();
        edited[7] ^= 1;
        let put = |bytes: &[u8]| {
            let mut batch = ObjectBatch::default();
            batch.push(ObjectHash::of(bytes), bytes);
            writer.put_batch(&batch).unwrap();
            ObjectHash::of(bytes)
        };
        let objects = [put(&first), put(&second)];
        let hash = ObjectHash::of(&edited);
        writer.put_like(&[NewObject { hash, bytes: edited, base: Some(objects[0]) }]).unwrap();
        writer.sync().unwrap();
        let asked = [objects[0], objects[1], hash, ObjectHash::of(b"nowhere")];
        let seen = packs(dir.path());
        assert_eq!(seen.readable(&asked).unwrap(), [true, true, true, false]);
        let path = dir.path().join("00000001.pack");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(16).position(|part| part == &first[100..116]).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        // By its check, and not since something else is looked for everywhere.
        let found = packs(dir.path()).readable(&asked[..3]).unwrap();
        assert_eq!(found, [false, true, false]);
        let damaged = packs(dir.path());
        assert_eq!(damaged.readable(&asked).unwrap(), [false, true, false, false]);
        assert_eq!(damaged.read(hash).unwrap(), None);
        // Stored once more, it is there again, and what rests on it too.
        let again = PackWriter::open(packs(dir.path())).unwrap();
        again.put(&first).unwrap();
        again.sync().unwrap();
        drop(again);
        let mended = packs(dir.path());
        assert_eq!(mended.readable(&asked).unwrap(), [true, true, true, false]);
    }
}
