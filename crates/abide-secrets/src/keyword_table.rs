//! Finds the keywords of all rules in one pass.
//!
//! The first three bytes of all keywords rule out most positions of a text, and two bit tables, by the first
//! four and the first three bytes, nearly all others; only where a bit is set is a keyword compared. Making the tables
//! costs a few microseconds, which an automaton for so many words does not, and a pass over a text reads each byte once.

use std::borrow::Cow;

use crate::prefix_set::PrefixSet;

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
        // The first bytes are the same as a rule; the last are seldom.
        if there.last().map(|byte| byte | 0x20) != own.last().map(|byte| byte | 0x20) {
            return KeywordMatch::Not;
        }
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
    /// The first three bytes of all keywords: most places in a text are passed over by them.
    begun: PrefixSet,
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
            begun: PrefixSet::new(),
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
            if let Some(three) = keyword.text.first_chunk() {
                table.begun.insert(*three);
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
        let mut at = from;
        while let Some(span) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
            if let Some(place) = self.first_begun(span) {
                return Some(at + place);
            }
            at += PrefixSet::TOGETHER;
        }
        // What is left is shorter than a span; four bytes are needed for a keyword.
        let rest = bytes.get(at..).filter(|rest| rest.len() >= 4)?;
        let mut span = [0; PrefixSet::SPAN];
        span.get_mut(..rest.len())?.copy_from_slice(rest);
        self.first_begun(&span).filter(|place| place + 4 <= rest.len()).map(|place| at + place)
    }

    /// The first of the eight places of a span where a keyword may begin.
    #[inline]
    fn first_begun(&self, span: &[u8; PrefixSet::SPAN]) -> Option<usize> {
        let mut begun = self.begun.begun(span);
        while begun != 0 {
            let place = begun.trailing_zeros() as usize;
            if span.get(place..).is_some_and(|window| self.may_begin(window)) {
                return Some(place);
            }
            begun &= begun - 1;
        }
        None
    }

    #[inline]
    fn may_begin(&self, window: &[u8]) -> bool {
        let four = u32::from_be_bytes(window.first_chunk().copied().unwrap_or_default()) | CASE;
        let (four_bit, three_bit) = (bit_of(four), bit_of(four >> 8));
        let four_word = self.four.get((four_bit >> 6) & (WORDS - 1)).copied().unwrap_or(0);
        let three_word = self.three.get((three_bit >> 6) & (WORDS - 1)).copied().unwrap_or(0);
        ((four_word >> (four_bit & 63)) | (three_word >> (three_bit & 63))) & 1 != 0
    }

    /// The keywords that may begin with the first four of these bytes.
    pub(crate) fn candidates(&self, bytes: &[u8]) -> impl Iterator<Item = &Keyword> + Clone {
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

    #[test]
    fn the_keywords_of_all_rules_are_found_as_by_comparing_each_at_every_place() {
        let keywords = crate::RuleSet::load().unwrap().keywords;
        let table = KeywordTable::new(keywords.clone());
        let keywords: Vec<Keyword> =
            keywords.into_iter().filter(|keyword| keyword.text.len() >= 3).collect();
        let mut state = 1u64;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % limit
        };
        let mut seen = 0;
        for _ in 0..300 {
            let mut text = Vec::new();
            for _ in 0..below(8) {
                let keyword = &keywords[below(keywords.len())].text;
                let mut piece = keyword[..keyword.len() - below(3)].to_vec();
                if below(3) == 0 {
                    piece.make_ascii_uppercase();
                }
                text.extend((0..below(12)).map(|_| b' ' + below(95) as u8));
                text.extend(piece);
            }
            let mut found = Vec::new();
            let mut from = 0;
            while let Some(place) = table.next_candidate(&text, from) {
                for keyword in table.candidates(&text[place..]) {
                    let compared = keyword.compare(&text[place..]);
                    if compared != KeywordMatch::Not {
                        found.push((place, keyword.text.clone(), keyword.exact, compared));
                    }
                }
                from = place + 1;
            }
            let mut expected = Vec::new();
            for place in 0..text.len().saturating_sub(3) {
                for keyword in &keywords {
                    let rest = &text[place..];
                    let length = keyword.text.len().min(rest.len());
                    let (own, there) = (&keyword.text[..length], &rest[..length]);
                    if own == there || !keyword.exact && own.eq_ignore_ascii_case(there) {
                        let compared = if length == keyword.text.len() {
                            KeywordMatch::Whole
                        } else {
                            KeywordMatch::Cut
                        };
                        expected.push((place, keyword.text.clone(), keyword.exact, compared));
                    }
                }
            }
            let order =
                |one: &(usize, Cow<'_, [u8]>, bool, KeywordMatch)| (one.0, one.1.to_vec(), one.2);
            found.sort_by_key(order);
            expected.sort_by_key(order);
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(&text));
            seen += found.len();
        }
        assert!(seen > 500, "{seen}");
    }
}
