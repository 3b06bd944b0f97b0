//! What is on the disk after the power went: all that was flushed, and of the rest any part.

use abide_testkit::Random;

use crate::image::Image;
use crate::log::Record;

/// What a disk writes as a whole or not at all.
const SECTOR: usize = 512;

/// Does the disk keep what it promises?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Honesty {
    /// A flush is kept.
    Honest,
    /// Flushes are ignored from this moment on: what came after is kept by chance.
    Lies { from: usize },
    /// From this moment on nothing reaches the disk, whatever was said. What is left is a
    /// consistent past, the hardest to notice.
    Stands { from: usize },
}

/// What a cut did to the writes that were not flushed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    /// So many were in the cache.
    pub(crate) pending: usize,
    /// So many of them left nothing.
    pub(crate) dropped: usize,
    /// So many left some of their sectors.
    pub(crate) torn: usize,
}

/// A log, and the image of all that was flushed up to some place in it.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    records: &'a [Record],
    stable: Image,
    /// The records before this are in `stable`.
    applied: usize,
}

impl<'a> Replay<'a> {
    pub(crate) const fn new(base: Image, records: &'a [Record]) -> Self {
        Self { records, stable: base, applied: 0 }
    }

    /// Where the writes begin that may be lost when the power goes at this moment.
    fn stable_until(&self, at: usize, honesty: Honesty) -> usize {
        match honesty {
            Honesty::Honest => {
                let before = &self.records[..at];
                before
                    .iter()
                    .rposition(|record| *record == Record::Flush)
                    .map_or(0, |last| last + 1)
            }
            Honesty::Lies { from } | Honesty::Stands { from } => from.min(at),
        }
    }

    /// The disk after a cut before the `at`th record. Moments must come in order.
    pub(crate) fn cut(
        &mut self,
        at: usize,
        honesty: Honesty,
        random: &mut Random,
    ) -> (Image, Loss) {
        let stable = self.stable_until(at, honesty);
        assert!(stable >= self.applied, "moments come in order");
        for record in &self.records[self.applied..stable] {
            if let Record::Write { offset, bytes } = record {
                self.stable.write(*offset, bytes);
            }
        }
        self.applied = stable;
        let mut left = self.stable.clone();
        let mut writes: Vec<(u64, &[u8])> = Vec::new();
        for record in &self.records[stable..at] {
            if let Record::Write { offset, bytes } = record {
                writes.push((*offset, bytes));
            }
        }
        let mut loss = Loss { pending: writes.len(), ..Loss::default() };
        if matches!(honesty, Honesty::Stands { .. }) {
            loss.dropped = writes.len();
            return (left, loss);
        }
        // How a cache behaves is not known: from one that kept nearly all to one that kept little.
        let [lost, torn] = match random.below(5) {
            0 => [0, 40],
            1 => [20, 20],
            2 => [50, 25],
            3 => [90, 50],
            _ => [100, 0],
        };
        // In any order: of two writes to one place either may be the last.
        if random.once_in(2) {
            for last in (1..writes.len()).rev() {
                writes.swap(last, random.index(last + 1));
            }
        }
        for (offset, bytes) in writes {
            if random.below(100) < lost {
                loss.dropped += 1;
            } else if random.below(100) < torn {
                let mut kept = 0;
                let sectors = bytes.chunks(SECTOR);
                let count = sectors.len();
                for (number, sector) in sectors.enumerate() {
                    if random.once_in(2) {
                        left.write(offset + (number * SECTOR) as u64, sector);
                        kept += 1;
                    }
                }
                match kept {
                    0 => loss.dropped += 1,
                    kept if kept < count => loss.torn += 1,
                    _ => {}
                }
            } else {
                left.write(offset, bytes);
            }
        }
        (left, loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(sector: u64, sectors: usize, byte: u8) -> Record {
        Record::Write { offset: sector * SECTOR as u64, bytes: vec![byte; sectors * SECTOR] }
    }

    fn byte(image: &Image, sector: u64) -> u8 {
        let mut bytes = [0; SECTOR];
        image.read(sector * SECTOR as u64, &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a sector is never torn");
        bytes[0]
    }

    fn base() -> Image {
        Image::new(64 * SECTOR as u64)
    }

    #[test]
    fn what_was_flushed_is_there_and_of_the_rest_any_sector_is_old_or_new() {
        let records =
            [write(0, 8, 1), write(8, 8, 2), Record::Flush, write(0, 8, 3), write(16, 8, 4)];
        let (mut dropped, mut torn, mut whole) = (0, 0, 0);
        for seed in 0..400 {
            let mut random = Random::new(seed);
            let mut replay = Replay::new(base(), &records);
            let (left, loss) = replay.cut(5, Honesty::Honest, &mut random);
            assert_eq!(loss.pending, 2);
            for sector in 8..16 {
                assert_eq!(byte(&left, sector), 2, "flushed");
            }
            assert!((0..8).all(|sector| [1, 3].contains(&byte(&left, sector))));
            assert!((16..24).all(|sector| [0, 4].contains(&byte(&left, sector))));
            let new = (0..8).filter(|sector| byte(&left, *sector) == 3).count();
            match new {
                0 => dropped += 1,
                8 => whole += 1,
                _ => torn += 1,
            }
        }
        assert!(dropped > 40 && torn > 20 && whole > 40, "{dropped} {torn} {whole}");
    }

    #[test]
    fn a_later_write_may_be_lost_and_an_earlier_one_kept_and_the_order_is_any() {
        let records = [write(0, 1, 1), write(1, 1, 2), write(0, 1, 3)];
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..400 {
            let mut replay = Replay::new(base(), &records);
            let (left, _) = replay.cut(3, Honesty::Honest, &mut Random::new(seed));
            seen.insert((byte(&left, 0), byte(&left, 1)));
        }
        let all = [0, 1, 3].into_iter().flat_map(|first| [(first, 0), (first, 2)]);
        assert_eq!(seen, all.collect());
    }

    #[test]
    fn what_is_written_after_the_cut_is_never_there() {
        let records = [write(0, 1, 1), Record::Flush, write(1, 1, 2), Record::Flush];
        for seed in 0..50 {
            let mut replay = Replay::new(base(), &records);
            let (left, loss) = replay.cut(2, Honesty::Honest, &mut Random::new(seed));
            assert_eq!((byte(&left, 0), byte(&left, 1), loss.pending), (1, 0, 0));
        }
    }

    #[test]
    fn one_seed_gives_one_disk_and_going_on_gives_what_starting_anew_gives() {
        let records: Vec<_> = (0..40)
            .map(|n| if n % 7 == 6 { Record::Flush } else { write(n % 13, 3, n as u8 + 1) })
            .collect();
        let mut going_on = Replay::new(base(), &records);
        for at in 0..=records.len() {
            let mut anew = Replay::new(base(), &records);
            let one = going_on.cut(at, Honesty::Honest, &mut Random::new(at as u64));
            let other = anew.cut(at, Honesty::Honest, &mut Random::new(at as u64));
            assert_eq!(one, other);
        }
    }

    #[test]
    fn a_disk_that_lies_loses_what_was_flushed() {
        let records = [write(0, 1, 1), Record::Flush, write(1, 1, 2), Record::Flush];
        let cut = |honesty, seed| {
            let (left, _) = Replay::new(base(), &records).cut(4, honesty, &mut Random::new(seed));
            (byte(&left, 0), byte(&left, 1))
        };
        assert!((0..50).all(|seed| cut(Honesty::Honest, seed) == (1, 2)));
        assert!((0..50).all(|seed| cut(Honesty::Stands { from: 2 }, seed) == (1, 0)));
        assert!((0..50).any(|seed| cut(Honesty::Lies { from: 0 }, seed) == (0, 2)));
        assert!((0..50).all(|seed| cut(Honesty::Lies { from: 2 }, seed).0 == 1));
    }
}
