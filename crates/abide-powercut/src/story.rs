//! What was asked of abide and what it answered, with the moments, and what must be there then.
//!
//! Moments are places in the disk's log. Texts and files follow from numbers, so that a story
//! holds no bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use abide_testkit::Random;
use serde::{Deserialize, Serialize};

/// A moment that has not come.
pub(crate) const NEVER: usize = usize::MAX;

/// All that was done in one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Story {
    /// The store was there, and configured, from here on.
    pub(crate) begun: usize,
    pub(crate) sessions: Vec<Recorded>,
    /// The session of the files, a place in `sessions`.
    pub(crate) keeper: usize,
    pub(crate) checkpoints: Vec<Checkpoint>,
    pub(crate) settled: Vec<Settled>,
}

/// A session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Recorded {
    pub(crate) id: String,
    /// What its texts are made from.
    pub(crate) writer: u64,
    /// It was there from here on.
    pub(crate) made: usize,
    /// It may be removed from here on.
    pub(crate) leaves: usize,
    /// When each event was sent for the first time.
    pub(crate) sent: Vec<usize>,
    /// When each event was known to be acknowledged.
    pub(crate) acknowledged: Vec<usize>,
}

/// A checkpoint of a generation of the files, by the label `gN`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    pub(crate) generation: u64,
    pub(crate) acknowledged: usize,
}

/// A time in which the files that a rewind wrote are there, durably: from its answer until the next
/// edit. Of those that it found as they should be it promises nothing.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Settled {
    /// The files before the rewind.
    pub(crate) before: u64,
    pub(crate) generation: u64,
    pub(crate) from: usize,
    pub(crate) until: usize,
}

impl Recorded {
    /// How many events must be there after a cut at this moment.
    pub(crate) fn due(&self, at: usize) -> usize {
        // Acknowledged in order, so that the moments only grow.
        self.acknowledged.iter().take_while(|moment| **moment <= at).count()
    }

    /// The line of an event as it is sent.
    pub(crate) fn line(&self, n: usize) -> String {
        let data = self.data(n);
        format!("{{\"kind\":\"x.power\",\"data\":{data},\"key\":\"k{n}\"}}\n")
    }

    /// The data of an event: now and then large enough for a pack.
    pub(crate) fn data(&self, n: usize) -> String {
        let mut random = Random::new(self.writer.wrapping_mul(1_000_003) + n as u64);
        let words = match n % 9 {
            4 => 5_000 + random.below(8_000),
            1 | 7 => random.below(200),
            _ => random.below(10),
        };
        let mut data = format!("{{\"n\":{n},\"text\":\"");
        for _ in 0..words {
            let _ = write!(data, "{:x} ", random.number());
        }
        data.push_str("\"}");
        data
    }
}

/// The files of a generation. From one to the next some change, some come, some go.
pub(crate) fn files(seed: u64, generation: u64) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for file in 0..14 {
        let version = (generation + file) / 3;
        let mut random = Random::new(seed ^ (file << 32 | version).wrapping_mul(0x9e37_79b9));
        if file >= 9 && random.once_in(3) {
            continue;
        }
        let size = match file {
            0 => 150_000 + random.below(100_000),
            // Always the same size: changed in place.
            1 | 2 => 20_000,
            _ => random.below(6_000),
        };
        let mut bytes = vec![0; size as usize];
        random.fill(&mut bytes);
        let name = if file % 2 == 0 {
            format!("f{file}.bin")
        } else {
            format!("d{}/f{file}.bin", file % 3)
        };
        files.insert(name, bytes);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_differ_and_are_the_same_when_made_again() {
        for generation in 0..12 {
            assert_eq!(files(7, generation), files(7, generation));
            assert_ne!(files(7, generation), files(7, generation + 1));
        }
    }

    #[test]
    fn what_is_due_is_what_was_acknowledged_before_the_cut() {
        let session = Recorded {
            id: String::new(),
            writer: 1,
            made: 3,
            leaves: NEVER,
            sent: vec![3, 3, 9],
            acknowledged: vec![5, 5, 12],
        };
        let due: Vec<_> = [4, 5, 11, 12].map(|at| session.due(at)).into();
        assert_eq!(due, [0, 2, 2, 3]);
        assert!(session.line(4).len() > 64 << 10, "for a pack");
        assert_ne!(session.data(2), session.data(3));
    }
}
