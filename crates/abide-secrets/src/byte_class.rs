//! Sets of bytes, as tables: a byte is looked up without a branch.

/// A set of bytes.
#[derive(Debug)]
pub(crate) struct ByteClass([bool; 256]);

impl ByteClass {
    /// The bytes of these ranges, whose ends are of them.
    #[expect(clippy::indexing_slicing, reason = "the places are within the table")]
    pub(crate) const fn of(ranges: &[(u8, u8)]) -> Self {
        let mut table = [false; 256];
        let mut number = 0;
        while number < ranges.len() {
            let (first, last) = ranges[number];
            let mut byte = first as usize;
            while byte <= last as usize {
                table[byte] = true;
                byte += 1;
            }
            number += 1;
        }
        Self(table)
    }

    /// All other bytes.
    #[expect(clippy::indexing_slicing, reason = "the places are within the table")]
    pub(crate) const fn others(&self) -> Self {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = !self.0[byte];
            byte += 1;
        }
        Self(table)
    }

    /// Whether a byte is of the set.
    #[inline]
    pub(crate) fn has(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte)).copied().unwrap_or(false)
    }

    /// Where the first run of so many bytes of the set has that many.
    ///
    /// Looks at the last byte of a run first: what is not of the set there rules out all runs over it.
    pub(crate) fn run_end(&self, bytes: &[u8], length: usize) -> Option<usize> {
        let (mut from, mut end) = (0, length);
        loop {
            // What stands before it in the run was looked at.
            let unseen = bytes.get(from..end)?;
            match unseen.iter().rposition(|byte| !self.has(*byte)) {
                None => return Some(end),
                Some(place) => (from, end) = (end, from + place + 1 + length),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LETTERS: ByteClass = ByteClass::of(&[(b'a', b'z'), (b'_', b'_')]);

    #[test]
    fn a_set_has_its_bytes_and_no_others() {
        let others = LETTERS.others();
        for byte in 0..=u8::MAX {
            assert_eq!(LETTERS.has(byte), byte.is_ascii_lowercase() || byte == b'_');
            assert_ne!(LETTERS.has(byte), others.has(byte));
        }
    }

    #[test]
    fn the_first_run_is_found_as_by_looking_at_every_byte() {
        let mut state = 1u64;
        let mut found = 0;
        for round in 0..20_000u64 {
            let text: Vec<u8> = (0..round % 50)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if (state >> 60).is_multiple_of(8) { b' ' } else { b'a' }
                })
                .collect();
            for length in [1, 2, 7, 20] {
                let expected = text
                    .windows(length)
                    .position(|run| run.iter().all(|byte| LETTERS.has(*byte)))
                    .map(|start| start + length);
                assert_eq!(LETTERS.run_end(&text, length), expected, "{length} in {text:?}");
                found += usize::from(expected.is_some());
            }
        }
        assert!(found > 1000);
    }
}
