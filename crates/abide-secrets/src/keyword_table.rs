//! Finds the keywords of all rules in one pass.
//!
//! Two bit tables, by the first four and the first three bytes of a keyword, rule out nearly every position
//! of a text; only where a bit is set is a keyword compared. Making the tables costs a few microseconds,
//! which an automaton for so many words does not, and a pass over a text reads each byte once.

use std::borrow::Cow;

/// What a keyword stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeywordTarget {
    /// A rule, by its number.
    Rule(u16),
    /// A literal secret, by its number; the keyword is all of it.
    Literal(u32),
    /// The beginning of a mark.
    Mark,
    /// The end of the head of a data URL.
    DataUrl,
    /// The beginning of a PEM block.
    Pem,
}

/// A keyword and its target.
#[derive(Debug, Clone)]
pub(crate) struct Keyword {
    /// Its bytes; in lower case unless `exact`.
    pub text: Cow<'static, [u8]>,
    /// Whether case counts.
    pub exact: bool,
    /// What it stands for.
    pub target: KeywordTarget,
}

/// How a keyword compares with the bytes at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeywordMatch {
    /// It stands there.
    Whole,
    /// The bytes end within it.
    Cut,
    /// It does not.
    Not,
}

impl Keyword {
    /// Whether `bytes` begin with the keyword.
    pub(crate) fn compare(&self, bytes: &[u8]) -> KeywordMatch {
        let length = self.text.len().min(bytes.len());
        let there = bytes.get(..length).unwrap_or_default();
        let own = self.text.get(..length).unwrap_or_default();
        let same = if self.exact { there == own } else { there.eq_ignore_ascii_case(own) };
        match (same, length == self.text.len()) {
            (false, _) => KeywordMatch::Not,
            (true, true) => KeywordMatch::Whole,
            (true, false) => KeywordMatch::Cut,
        }
    }
}

const WORDS: usize = 1024;
/// Sets the bit in which upper and lower case differ. Other bytes may fall together, which comparing
/// the keyword sorts out.
const CASE: u32 = 0x2020_2020;

/// The keywords, by their first bytes.
pub(crate) struct KeywordTable {
    /// The first two bytes of all keywords: most places in a text are passed over by them.
    two: Box<[u64; WORDS]>,
    four: Box<[u64; WORDS]>,
    three: Box<[u64; WORDS]>,
    /// Keywords in the order of their prefixes.
    keywords: Vec<Keyword>,
    /// The prefixes with their ranges of `keywords`, in a hash table with open addresses.
    slots: Vec<PrefixSlot>,
}

#[derive(Clone, Copy, Default)]
struct PrefixSlot {
    /// The prefix with the number of its bytes in the upper half; 0 is an empty slot.
    prefix: u64,
    first: u32,
    end: u32,
}

impl KeywordTable {
    /// A table of keywords, each of at least three bytes.
    pub(crate) fn new(mut keywords: Vec<Keyword>) -> Self {
        keywords.retain(|keyword| keyword.text.len() >= 3);
        keywords.sort_unstable_by_key(|keyword| prefix_of(&keyword.text));
        let size = (keywords.len() * 2).next_power_of_two().max(16);
        let mut table = Self {
            two: Box::new([0; WORDS]),
            four: Box::new([0; WORDS]),
            three: Box::new([0; WORDS]),
            keywords: Vec::new(),
            slots: vec![PrefixSlot::default(); size],
        };
        let mut first = 0;
        for group in keywords.chunk_by(|one, next| prefix_of(&one.text) == prefix_of(&next.text)) {
            let Some(keyword) = group.first() else { continue };
            let prefix = prefix_of(&keyword.text);
            let end = first + u32::try_from(group.len()).unwrap_or(0);
            let bits = if prefix >> 32 == 4 { &mut table.four } else { &mut table.three };
            let hash = bit_of(prefix as u32);
            if let Some(word) = bits.get_mut(hash >> 6) {
                *word |= 1 << (hash & 63);
            }
            let pair = pair_of(&keyword.text);
            if let Some(word) = table.two.get_mut(pair >> 6) {
                *word |= 1 << (pair & 63);
            }
            let mut slot = slot_of(prefix, size);
            while table.slots.get(slot).is_some_and(|taken| taken.prefix != 0) {
                slot = (slot + 1) & (size - 1);
            }
            if let Some(empty) = table.slots.get_mut(slot) {
                *empty = PrefixSlot { prefix, first, end };
            }
            first = end;
        }
        table.keywords = keywords;
        table
    }

    /// The first position from `from` on where a keyword may begin.
    pub(crate) fn next_candidate(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let found = bytes.get(from..)?.windows(4).position(|window| self.may_begin(window))?;
        Some(from + found)
    }

    #[inline]
    fn may_begin(&self, window: &[u8]) -> bool {
        let pair = pair_of(window);
        let two_word = self.two.get((pair >> 6) & (WORDS - 1)).copied().unwrap_or(0);
        if (two_word >> (pair & 63)) & 1 == 0 {
            return false;
        }
        let four = u32::from_be_bytes(window.first_chunk().copied().unwrap_or_default()) | CASE;
        let (four_bit, three_bit) = (bit_of(four), bit_of(four >> 8));
        let four_word = self.four.get((four_bit >> 6) & (WORDS - 1)).copied().unwrap_or(0);
        let three_word = self.three.get((three_bit >> 6) & (WORDS - 1)).copied().unwrap_or(0);
        ((four_word >> (four_bit & 63)) | (three_word >> (three_bit & 63))) & 1 != 0
    }

    /// The keywords that may begin with the first four of these bytes.
    pub(crate) fn candidates(&self, bytes: &[u8]) -> impl Iterator<Item = &Keyword> {
        let window: [u8; 4] = bytes.first_chunk().copied().unwrap_or_default();
        let four = u32::from_be_bytes(window) | CASE;
        let by_four = self.group(u64::from(four) | 4 << 32);
        let by_three = self.group(u64::from(four >> 8) | 3 << 32);
        by_four.iter().chain(by_three)
    }

    fn group(&self, prefix: u64) -> &[Keyword] {
        let mut slot = slot_of(prefix, self.slots.len());
        while let Some(found) = self.slots.get(slot).filter(|found| found.prefix != 0) {
            if found.prefix == prefix {
                return self
                    .keywords
                    .get(found.first as usize..found.end as usize)
                    .unwrap_or_default();
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        &[]
    }
}

/// The first bytes of a keyword, as `may_begin` sees them, and how many they are.
fn prefix_of(text: &[u8]) -> u64 {
    match *text {
        [a, b, c, d, ..] => u64::from(u32::from_be_bytes([a, b, c, d]) | CASE) | 4 << 32,
        [a, b, c] => u64::from((u32::from_be_bytes([a, b, c, 0]) | CASE) >> 8) | 3 << 32,
        _ => 0,
    }
}

/// The first two bytes, as `may_begin` sees them.
#[inline]
fn pair_of(bytes: &[u8]) -> usize {
    usize::from(u16::from_be_bytes(bytes.first_chunk().copied().unwrap_or_default()))
        | CASE as usize & 0xffff
}

#[inline]
const fn bit_of(prefix: u32) -> usize {
    (prefix.wrapping_mul(0x9E37_79B1) >> 16) as usize
}

const fn slot_of(prefix: u64, size: usize) -> usize {
    (prefix.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & (size - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_where_it_stands() {
        let words = ["abc", "Abcd", "token_", "xyz-", "SG.", "‹redacted:"];
        let keywords = words
            .iter()
            .enumerate()
            .map(|(number, word)| Keyword {
                text: Cow::Borrowed(word.as_bytes()),
                exact: word.chars().any(char::is_uppercase),
                target: KeywordTarget::Rule(number as u16),
            })
            .collect();
        let table = KeywordTable::new(keywords);
        let text = "..ABC.Abcd.abcd TOKEN_xyz- sg. SG.1 ‹redacted:x";
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(place) = table.next_candidate(text.as_bytes(), from) {
            let rest = &text.as_bytes()[place..];
            for keyword in table.candidates(rest) {
                if keyword.compare(rest) == KeywordMatch::Whole {
                    found.push((place, std::str::from_utf8(&keyword.text).unwrap()));
                }
            }
            from = place + 1;
        }
        found.sort_unstable();
        assert_eq!(
            found,
            [
                (2, "abc"),
                (6, "Abcd"),
                (6, "abc"),
                (11, "abc"),
                (16, "token_"),
                (22, "xyz-"),
                (31, "SG."),
                (36, "‹redacted:")
            ]
        );
    }
}
