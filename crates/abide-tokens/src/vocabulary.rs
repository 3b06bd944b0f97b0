//! The tokens of an encoding: which pairs form which token, and which byte strings are tokens.
//!
//! A token is identified by its rank. The first 256 are the single bytes. Every other token is
//! formed of two of lower rank, in one way only: if merging starts from single bytes and takes the
//! lowest rank first, no other pair of neighbours ever forms it. `data/README.md` describes how the
//! packed form is made and that this was checked.

/// A token, by its index in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokenRank(pub(crate) u32);

impl TokenRank {
    /// Higher than every token: not a token.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// The number of bits of a rank.
const BITS: u32 = 18;
const MASK: u32 = (1 << BITS) - 1;

/// The length of the longest token in bytes.
const LONGEST: usize = 128;

/// The tokens of an encoding.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    /// The tokens of single bytes.
    bytes: [TokenRank; 256],
    /// Slots of `left`, `right` and the token they form, 18 bits each.
    pairs: VocabularyTable<u64>,
    /// Slots of 14 bits of a hash of the bytes, and the rank.
    whole: VocabularyTable<u32>,
    /// The bytes of all tokens by rank, and where those of each end.
    text: Vec<u8>,
    ends: Vec<u32>,
}

/// A power of two of slots with linear probing. Zero is an empty slot, because a rank below 256
/// never occurs in one.
#[derive(Debug)]
struct VocabularyTable<T> {
    slots: Vec<T>,
    shift: u32,
}

impl<T: Copy + Default + PartialEq> VocabularyTable<T> {
    /// Less than half full with this number of entries.
    fn for_entries(entries: usize) -> Self {
        let slots = (2 * entries).next_power_of_two().max(2);
        Self { slots: vec![T::default(); slots], shift: u64::BITS - slots.trailing_zeros() }
    }

    /// The slots from that of a hash up to the first empty one.
    #[inline]
    fn probe(&self, hash: u64) -> impl Iterator<Item = T> + '_ {
        let mut at = (hash >> self.shift) as usize;
        std::iter::from_fn(move || {
            let slot = *self.slots.get(at & (self.slots.len() - 1))?;
            at += 1;
            (slot != T::default()).then_some(slot)
        })
    }

    fn insert(&mut self, hash: u64, slot: T) {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        while let Some(place) = self.slots.get_mut(at & mask) {
            if *place == T::default() {
                *place = slot;
                return;
            }
            at += 1;
        }
    }
}

/// An odd number with well-spread bits: 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
const fn pair_key(left: TokenRank, right: TokenRank) -> u64 {
    ((left.0 as u64) << BITS) | right.0 as u64
}

#[inline]
const fn pair_hash(key: u64) -> u64 {
    let hash = key.wrapping_mul(SPREAD);
    (hash ^ (hash >> 32)).wrapping_mul(SPREAD)
}

#[inline]
fn bytes_hash(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(SPREAD);
    let mut hash = bytes.len() as u64;
    let mut rest = bytes;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        hash = mix(hash, u64::from_le_bytes(*word));
        rest = after;
    }
    let mut word = 0;
    if let Some((part, after)) = rest.split_first_chunk::<4>() {
        word = u64::from(u32::from_le_bytes(*part));
        rest = after;
    }
    for byte in rest {
        word = (word << 8) | u64::from(*byte);
    }
    hash = mix(hash, word);
    (hash ^ (hash >> 32)).wrapping_mul(SPREAD)
}

impl Vocabulary {
    /// Unpacks a list of merges.
    pub(crate) fn unpack(packed: &[u8]) -> Self {
        let (singles, merges) = packed.split_at_checked(256).unwrap_or((packed, &[]));
        let merges = VocabularyMerges(merges);
        let mut new = Self {
            bytes: [TokenRank::NONE; 256],
            pairs: VocabularyTable::for_entries(merges.len()),
            whole: VocabularyTable::for_entries(merges.len()),
            text: singles.to_vec(),
            ends: (1..).take(singles.len()).collect(),
        };
        for (rank, byte) in (0..).map(TokenRank).zip(singles) {
            if let Some(place) = new.bytes.get_mut(usize::from(*byte)) {
                *place = rank;
            }
        }
        // One table after the other, so that the processor can wait for many slots at a time.
        new.spell(merges.clone());
        new.index_pairs(merges);
        new.index_whole();
        new
    }

    fn spell(&mut self, merges: VocabularyMerges<'_>) {
        self.ends.reserve(merges.len());
        for (left, right) in merges {
            for part in [left, right] {
                let part = self.span(part);
                self.text.extend_from_within(part);
            }
            self.ends.push(self.text.len() as u32);
        }
    }

    fn index_pairs(&mut self, merges: VocabularyMerges<'_>) {
        for (rank, (left, right)) in (256..).zip(merges) {
            let key = pair_key(left, right);
            self.pairs.insert(pair_hash(key), (key << BITS) | rank);
        }
    }

    fn index_whole(&mut self) {
        for rank in 256..self.ends.len() as u32 {
            let hash = bytes_hash(self.text.get(self.span(TokenRank(rank))).unwrap_or_default());
            self.whole.insert(hash, (hash as u32) << BITS | rank);
        }
    }

    /// The range of a token's bytes.
    fn span(&self, rank: TokenRank) -> std::ops::Range<usize> {
        let rank = rank.0 as usize;
        let end = |rank: usize| self.ends.get(rank).map_or(0, |end| *end as usize);
        rank.checked_sub(1).map_or(0, end)..end(rank)
    }

    /// The length of a token in bytes.
    pub(crate) fn length(&self, rank: TokenRank) -> usize {
        self.span(rank).len()
    }

    /// The token of one byte.
    #[inline]
    pub(crate) fn byte(&self, byte: u8) -> TokenRank {
        self.bytes.get(usize::from(byte)).copied().unwrap_or(TokenRank::NONE)
    }

    /// The token that two others form.
    #[inline]
    pub(crate) fn merged(&self, left: TokenRank, right: TokenRank) -> TokenRank {
        let key = pair_key(left, right);
        self.pairs
            .probe(pair_hash(key))
            .find(|slot| slot >> BITS == key)
            .map_or(TokenRank::NONE, |slot| TokenRank(slot as u32 & MASK))
    }

    /// Are these bytes, two or more, a token?
    #[inline]
    pub(crate) fn contains(&self, bytes: &[u8]) -> bool {
        if bytes.len() > LONGEST {
            return false;
        }
        let hash = bytes_hash(bytes);
        self.whole.probe(hash).any(|slot| {
            slot & !MASK == (hash as u32) << BITS
                && self.text.get(self.span(TokenRank(slot & MASK))) == Some(bytes)
        })
    }
}

/// The two parts of each token after the single bytes, packed as LEB128 numbers.
#[derive(Debug, Clone)]
struct VocabularyMerges<'a>(&'a [u8]);

impl VocabularyMerges<'_> {
    fn len(&self) -> usize {
        // The last byte of a number is below 128, and a token has two numbers.
        self.0.iter().filter(|byte| byte.is_ascii()).count() / 2
    }

    #[inline]
    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for shift in [0, 7, 14] {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u32::from(byte & 0x7f) << shift;
            if byte.is_ascii() {
                return Some(number);
            }
        }
        None
    }
}

impl Iterator for VocabularyMerges<'_> {
    type Item = (TokenRank, TokenRank);

    #[inline]
    fn next(&mut self) -> Option<(TokenRank, TokenRank)> {
        Some((TokenRank(self.number()?), TokenRank(self.number()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a`, `b`, `ab`, `aba`, and 254 other bytes.
    fn small() -> Vec<u8> {
        let mut packed = b"ab".to_vec();
        packed.extend((0..=255).filter(|byte| !b"ab".contains(byte)));
        packed.extend([0, 1]);
        packed.extend([0x80, 0x02, 0]);
        packed
    }

    #[test]
    fn a_packed_list_is_unpacked() {
        let vocabulary = Vocabulary::unpack(&small());
        let (a, b) = (vocabulary.byte(b'a'), vocabulary.byte(b'b'));
        assert_eq!((a, b), (TokenRank(0), TokenRank(1)));
        assert_eq!(vocabulary.byte(0), TokenRank(2));
        let ab = vocabulary.merged(a, b);
        assert_eq!((ab, vocabulary.length(ab)), (TokenRank(256), 2));
        let aba = vocabulary.merged(ab, a);
        assert_eq!((aba, vocabulary.length(aba)), (TokenRank(257), 3));
        assert_eq!(vocabulary.merged(b, a), TokenRank::NONE);
        assert!(vocabulary.contains(b"ab") && vocabulary.contains(b"aba"));
        assert!(!vocabulary.contains(b"ba") && !vocabulary.contains(b"abb"));
    }

    #[test]
    fn a_list_that_is_cut_short_is_no_trouble() {
        let packed = small();
        for length in 0..packed.len() {
            let vocabulary = Vocabulary::unpack(&packed[..length]);
            assert!(!vocabulary.contains(b"aba"), "{length}");
        }
    }
}
