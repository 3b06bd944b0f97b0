//! Words: how text is split for searching.
//!
//! A word is a run of letters and digits, in lower case and without accents. In scripts without
//! spaces (Han, Kana, Thai …) every character is a word, so that any part of a text is found. A
//! word is cut after [`WORD_CHARS`] characters.
//!
//! A word of code may have parts: `parse` and `Rows` of `parseRows`. They are found beside the word,
//! but are no neighbours of the words around it.

use std::collections::HashSet;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Maximum length of a word in characters.
pub const WORD_CHARS: usize = 64;

/// The most parts of a word; one with more is no name but a key or an image.
const PARTS: usize = 6;
/// The most bytes of the parts of a text's words.
pub const PARTS_BYTES: usize = 1 << 18;
/// What stands between the parts of two words, so that no phrase reaches from one to the other. No
/// text has it as a word.
pub const PARTS_END: &str = "\u{e004}";

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

/// The places of the parts of a word in camel case, from its beginning; empty if it has none.
#[must_use]
pub fn word_parts(word: &str) -> Vec<Range<usize>> {
    let bytes = word.as_bytes();
    let is_lower = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_lowercase);
    let is_upper = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_uppercase);
    if bytes.len() > WORD_CHARS || !word.is_ascii() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..bytes.len() {
        // `parse|Rows`, `utf8|Reader`, `HTTP|Server`; but not `URLs`.
        let begins = is_upper(at)
            && (is_lower(at - 1) || (is_lower(at + 1) && (!is_upper(at - 1) || is_lower(at + 2))));
        if begins {
            parts.push(start..at);
            start = at;
        }
    }
    if parts.is_empty() || parts.len() >= PARTS {
        return Vec::new();
    }
    parts.push(start..bytes.len());
    parts
}

/// The folded parts of the words of a text: each word that has some once, with [`PARTS_END`] behind
/// it. What an index stores beside the words.
#[must_use]
pub fn folded_parts(text: &str) -> String {
    let mut known: HashSet<&str> = HashSet::new();
    let mut out = String::new();
    for run in text.split(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()) {
        if out.len() >= PARTS_BYTES {
            break;
        }
        if run.is_ascii() {
            push_parts(run, &mut known, &mut out);
        } else {
            words(run)
                .filter_map(|word| run.get(word.place))
                .for_each(|word| push_parts(word, &mut known, &mut out));
        }
    }
    out.make_ascii_lowercase();
    out.truncate(out.trim_end().len());
    out
}

fn push_parts<'a>(word: &'a str, known: &mut HashSet<&'a str>, out: &mut String) {
    let parts = word_parts(word);
    if parts.is_empty() || !known.insert(word) {
        return;
    }
    for part in parts.into_iter().filter_map(|part| word.get(part)) {
        out.push_str(part);
        out.push(' ');
    }
    out.push_str(PARTS_END);
    out.push(' ');
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

    #[test]
    fn a_word_in_camel_case_has_parts() {
        let parts = |word: &str| -> Vec<String> {
            word_parts(word).into_iter().map(|part| word[part].to_owned()).collect()
        };
        assert_eq!(parts("parseRows"), ["parse", "Rows"]);
        assert_eq!(parts("FooBar"), ["Foo", "Bar"]);
        assert_eq!(parts("HTTPServerV2"), ["HTTP", "Server", "V2"]);
        assert_eq!(parts("utf8Reader"), ["utf8", "Reader"]);
        for one in ["Parser", "URLs", "IDs", "HTTP", "x2", "9F3A77B1", "été", "", "A"] {
            assert_eq!(parts(one), Vec::<String>::new(), "{one}");
        }
        assert_eq!(parts("eyJhbGciOiJIUzI1NiIs"), Vec::<String>::new(), "a key is no name");
        assert_eq!(
            folded_parts("The parseRows of a FooBar, parseRows, 日HTTPServer本FooBaz"),
            "parse rows \u{e004} foo bar \u{e004} http server \u{e004} foo baz \u{e004}"
        );
        assert_eq!(folded_parts("nothing of the sort"), "");
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
