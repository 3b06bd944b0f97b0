//! Words: how text is split for searching.
//!
//! A word is a run of letters and digits, in lower case and without accents. In scripts without
//! spaces (Han, Kana, Thai …) every character is a word, so that any part of a text is found. A
//! word is cut after [`WORD_CHARS`] characters.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Maximum length of a word in characters.
pub const WORD_CHARS: usize = 64;

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its byte range in the text.
    pub place: Range<usize>,
    /// Its folded form, which is compared.
    pub folded: String,
}

/// The words of a text, in order.
pub fn words(text: &str) -> impl Iterator<Item = Word> + '_ {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = rest.find(|(_, c)| c.is_alphanumeric())?;
        let mut end = start + first.len_utf8();
        let spaced = !is_unspaced(first);
        while let Some((at, c)) = rest.next_if(|(_, c)| {
            is_combining_mark(*c) || (spaced && c.is_alphanumeric() && !is_unspaced(*c))
        }) {
            end = at + c.len_utf8();
        }
        let folded = fold_word(text.get(start..end).unwrap_or_default());
        Some(Word { place: start..end, folded })
    })
}

/// The folded words of a text, separated by one space, at most `limit` bytes of them: what an index
/// stores.
#[must_use]
pub fn folded_words(text: &str, limit: usize) -> String {
    let mut out = FoldedWordText { bytes: Vec::with_capacity(text.len().min(limit) + 1), limit };
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if out.bytes.len() >= out.limit {
            break;
        }
        if byte.is_ascii() && !byte.is_ascii_alphanumeric() {
            at += 1;
            continue;
        }
        // Up to the next ASCII character that is neither a letter nor a digit. Most runs are one
        // ASCII word, for which no table is needed.
        let rest = bytes.get(at..).unwrap_or_default();
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
        let length = rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len());
        let run = rest.get(..length).unwrap_or_default();
        if run.is_ascii() {
            out.push(run.get(..WORD_CHARS).unwrap_or(run));
        } else {
            for word in words(text.get(at..at + length).unwrap_or_default()) {
                out.push(word.folded.as_bytes());
            }
        }
        at += length;
    }
    String::from_utf8(out.bytes).unwrap_or_default()
}

struct FoldedWordText {
    bytes: Vec<u8>,
    limit: usize,
}

impl FoldedWordText {
    /// Adds a word in lower case; nothing more once a word exceeded the limit.
    fn push(&mut self, word: &[u8]) {
        if word.is_empty() {
            return;
        }
        if self.bytes.len().saturating_add(word.len()) >= self.limit {
            self.limit = 0;
            return;
        }
        if !self.bytes.is_empty() {
            self.bytes.push(b' ');
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(word);
        if let Some(word) = self.bytes.get_mut(start..) {
            word.make_ascii_lowercase();
        }
    }
}

fn fold_word(word: &str) -> String {
    if word.is_ascii() {
        return word.get(..WORD_CHARS).unwrap_or(word).to_ascii_lowercase();
    }
    let plain = word.nfkd().filter(|c| !is_combining_mark(*c));
    // Decomposition may produce characters that are not letters: a fraction has a slash.
    plain.flat_map(char::to_lowercase).filter(|c| c.is_alphanumeric()).take(WORD_CHARS).collect()
}

/// Does its script have no spaces between words?
const fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}'       // Thai, Lao
        | '\u{1000}'..='\u{109f}'     // Myanmar
        | '\u{1780}'..='\u{17ff}'     // Khmer
        | '\u{3005}'..='\u{30ff}'     // iteration mark, Kana
        | '\u{31f0}'..='\u{31ff}'     // Kana extensions
        | '\u{3400}'..='\u{4dbf}'     // Han
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'     // half-width Kana
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn folded(text: &str) -> Vec<String> {
        words(text).map(|word| word.folded).collect()
    }

    #[test]
    fn words_are_letters_and_digits_without_case_and_accents() {
        assert_eq!(folded("The parse_line(x2) FAILED!"), ["the", "parse", "line", "x2", "failed"]);
        assert_eq!(
            folded("Crème BRÛLÉE naïve e\u{301}tude"),
            ["creme", "brulee", "naive", "etude"]
        );
        assert_eq!(folded("日本語 test ไทย"), ["日", "本", "語", "test", "ไ", "ท", "ย"]);
        assert_eq!(folded("=== --- \0 \u{202e}…"), Vec::<String>::new());
        assert_eq!(folded(&"x".repeat(1000)), ["x".repeat(WORD_CHARS)]);
    }

    proptest! {
        #[test]
        fn both_ways_to_fold_agree(text in "\\PC{0,60}", ascii in "[ -~]{0,200}") {
            for text in [text, ascii] {
                let listed: Vec<String> =
                    words(&text).map(|word| word.folded).filter(|word| !word.is_empty()).collect();
                prop_assert_eq!(folded_words(&text, usize::MAX), listed.join(" "));
                for word in words(&text) {
                    prop_assert!(text.get(word.place).is_some());
                }
            }
        }
    }
}
