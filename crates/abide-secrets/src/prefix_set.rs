//! The first three bytes of keywords.
//!
//! A table of bytes rules out nearly every place of a text. Eight places are looked at together, without
//! a branch for each, because where a keyword may begin cannot be foreseen.

/// A power of two. With some 400 prefixes, a place in forty falls together with one by chance.
const PLACES: usize = 1 << 14;
/// Multiplied by it, the lower three bytes of four spread over the upper bits; the fourth drops out.
const SPREAD: u32 = 0x9E37_79B1 << 8;
/// Sets the bit in which upper and lower case differ. Other bytes may fall together.
const CASE: u64 = 0x2020_2020_2020_2020;

/// A set of three bytes each, whatever their case. It may seem to have others.
pub(crate) struct PrefixSet {
    /// 1 where a prefix falls.
    places: Box<[u8; PLACES]>,
}

impl PrefixSet {
    /// How many places of a text are looked at together, and how many bytes that needs.
    pub(crate) const TOGETHER: usize = 8;
    pub(crate) const SPAN: usize = 12;

    pub(crate) fn new() -> Self {
        Self { places: Box::new([0; PLACES]) }
    }

    /// Adds the first three bytes of a keyword.
    pub(crate) fn insert(&mut self, keyword: [u8; 3]) {
        let [a, b, c] = keyword;
        if let Some(place) =
            self.places.get_mut(place_of(u32::from_le_bytes([a, b, c, 0]) | CASE as u32))
        {
            *place = 1;
        }
    }

    /// A bit for each of the first eight places, the lowest for the first, set where a prefix may begin.
    #[inline]
    pub(crate) fn begun(&self, bytes: &[u8; Self::SPAN]) -> u32 {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
        let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]) | CASE;
        let second = u64::from_le_bytes([e, f, g, h, i, j, k, l]) | CASE;
        let mut begun = 0;
        for place in 0..4 {
            let here = self.at((first >> (8 * place)) as u32);
            let there = self.at((second >> (8 * place)) as u32);
            begun |= here << place | there << (place + 4);
        }
        begun
    }

    #[inline]
    fn at(&self, bytes: u32) -> u32 {
        self.places.get(place_of(bytes)).copied().unwrap_or(0).into()
    }
}

/// The place of the lower three bytes, which are without case.
#[inline]
const fn place_of(bytes: u32) -> usize {
    (bytes.wrapping_mul(SPREAD) >> 18) as usize & (PLACES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_seen_at_each_place_in_any_case() {
        let mut set = PrefixSet::new();
        set.insert(*b"Ab-");
        for place in 0..PrefixSet::TOGETHER {
            for prefix in [b"ab-", b"AB-"] {
                let mut bytes = [b'.'; PrefixSet::SPAN];
                bytes[place..place + 3].copy_from_slice(prefix);
                assert_eq!(set.begun(&bytes), 1 << place);
            }
        }
        assert_eq!(set.begun(b"ab.b-ab_a-ab"), 0);
    }
}
