//! Splits a text into pieces that are merged separately.
//!
//! tiktoken uses a regular expression; this is the same expression written out by hand. Pieces are
//! not empty and make up the whole text. Each character is examined a bounded number of times.

use crate::class::{CharClass, ClassTable};

/// The regular expression of an encoding. The first alternative that matches is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SplitPattern {
    /// ```text
    ///   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
    /// | [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
    /// | \p{N}{1,3}
    /// | ?[^\s\p{L}\p{N}]+[\r\n/]*        (a space may stand before it)
    /// | \s*[\r\n]+
    /// | \s+(?!\S)
    /// | \s+
    /// ```
    O200k,
    /// ```text
    ///   '(?i:[sdmt]|ll|ve|re)
    /// | [^\r\n\p{L}\p{N}]?+\p{L}++
    /// | \p{N}{1,3}+
    /// | ?[^\s\p{L}\p{N}]++[\r\n]*+       (a space may stand before it)
    /// | \s++$
    /// | \s*[\r\n]
    /// | \s+(?!\S)
    /// | \s
    /// ```
    Cl100k,
}

/// The pieces of a text, in order.
#[derive(Debug)]
pub(crate) struct SplitPieces<'a> {
    pattern: SplitPattern,
    classes: &'static ClassTable,
    text: &'a str,
    position: usize,
}

impl<'a> SplitPieces<'a> {
    pub(crate) fn new(pattern: SplitPattern, text: &'a str) -> Self {
        Self { pattern, classes: ClassTable::get(), text, position: 0 }
    }

    /// The class of the character at a position, and the position after it.
    #[inline]
    fn at(&self, position: usize) -> Option<(CharClass, usize)> {
        let byte = *self.text.as_bytes().get(position)?;
        if byte.is_ascii() {
            return Some((self.classes.of(byte.into()), position + 1));
        }
        let character = self.text.get(position..)?.chars().next()?;
        Some((self.classes.of(character.into()), position + character.len_utf8()))
    }

    fn byte(&self, position: usize) -> Option<u8> {
        self.text.as_bytes().get(position).copied()
    }

    /// The end of the run of characters that have one of these classes.
    fn run(&self, mut position: usize, of: CharClass) -> usize {
        while let Some((class, next)) = self.at(position)
            && class.is(of)
        {
            position = next;
        }
        position
    }

    /// The end of the run of characters that have none of these classes.
    fn run_without(&self, mut position: usize, of: CharClass) -> usize {
        while let Some((class, next)) = self.at(position)
            && !class.is(of)
        {
            position = next;
        }
        position
    }

    /// The end of the piece that starts at a position.
    fn end(&self, start: usize) -> Option<usize> {
        let (first, next) = self.at(start)?;
        let word = match self.pattern {
            SplitPattern::O200k => self.cased_word(start, first, next),
            SplitPattern::Cl100k => self.plain_word(start, first, next),
        };
        if word.is_some() {
            return word;
        }
        if first.is(CharClass::NUMBER) {
            return Some(self.number(next));
        }
        if let Some(end) = self.symbols(start, first, next) {
            return Some(end);
        }
        Some(self.space(start, next))
    }

    /// The first two alternatives of `o200k`.
    fn cased_word(&self, start: usize, first: CharClass, next: usize) -> Option<usize> {
        let bare = first.is(CharClass::LETTER.or(CharClass::NUMBER).or(CharClass::BREAK));
        // Of the characters allowed before a word, a mark can itself be a word.
        let mark = !bare && first.is(CharClass::HEAD);
        let end = match self.cased_letters(if bare { start } else { next }) {
            WordLetters::WithTail(end) => end,
            WordLetters::HeadsOnly(end) if !mark => end,
            WordLetters::None if !mark => return None,
            WordLetters::HeadsOnly(_) | WordLetters::None => next,
        };
        Some(self.contraction(end).unwrap_or(end))
    }

    /// The letters of a word from a position on, by upper and lower case.
    fn cased_letters(&self, start: usize) -> WordLetters {
        let mut position = start;
        let mut last_tail = None;
        while let Some((class, next)) = self.at(position) {
            if !class.is(CharClass::HEAD) {
                if class.is(CharClass::TAIL) {
                    return WordLetters::WithTail(self.run(next, CharClass::TAIL));
                }
                break;
            }
            if class.is(CharClass::TAIL) {
                last_tail = Some(next);
            }
            position = next;
        }
        match last_tail {
            Some(end) => WordLetters::WithTail(end),
            None if position > start => WordLetters::HeadsOnly(position),
            None => WordLetters::None,
        }
    }

    /// The first two alternatives of `cl100k`.
    fn plain_word(&self, start: usize, first: CharClass, next: usize) -> Option<usize> {
        if let Some(end) = self.contraction(start) {
            return Some(end);
        }
        if first.is(CharClass::LETTER) {
            return Some(self.run(next, CharClass::LETTER));
        }
        if first.is(CharClass::NUMBER.or(CharClass::BREAK)) {
            return None;
        }
        let end = self.run(next, CharClass::LETTER);
        (end > next).then_some(end)
    }

    /// The end of `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at a position.
    fn contraction(&self, position: usize) -> Option<usize> {
        if self.byte(position)? != b'\'' {
            return None;
        }
        let lower = |at: usize| self.byte(at).map(|byte| byte.to_ascii_lowercase());
        match (lower(position + 1)?, lower(position + 2)) {
            (b's' | b't' | b'm' | b'd', _) => Some(position + 2),
            (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(position + 3),
            // U+017F, the long s, is another case of s.
            (0xc5, Some(0xbf)) => Some(position + 3),
            _ => None,
        }
    }

    /// `\p{N}{1,3}`, after its first character.
    fn number(&self, mut position: usize) -> usize {
        for _ in 0..2 {
            match self.at(position) {
                Some((class, next)) if class.is(CharClass::NUMBER) => position = next,
                _ => break,
            }
        }
        position
    }

    /// ` ?[^\s\p{L}\p{N}]+` and the line breaks after it.
    fn symbols(&self, start: usize, first: CharClass, next: usize) -> Option<usize> {
        let not = CharClass::SPACE.or(CharClass::LETTER).or(CharClass::NUMBER);
        let from = if self.byte(start) == Some(b' ') { next } else { start };
        if from == start && first.is(not) {
            return None;
        }
        let mut end = self.run_without(from, not);
        if end == from {
            return None;
        }
        let slash = self.pattern == SplitPattern::O200k;
        while let Some(byte) = self.byte(end)
            && (matches!(byte, b'\r' | b'\n') || (slash && byte == b'/'))
        {
            end += 1;
        }
        Some(end)
    }

    /// The last alternatives: a run of white space, whose last character is left to a word that
    /// follows.
    fn space(&self, start: usize, next: usize) -> usize {
        let mut last_break = None;
        let (mut last, mut position) = (start, start);
        while let Some((class, next)) = self.at(position)
            && class.is(CharClass::SPACE)
        {
            if class.is(CharClass::BREAK) {
                last_break = Some(next);
            }
            (last, position) = (position, next);
        }
        let at_end = position == self.text.len();
        match last_break {
            Some(end) if !at_end || self.pattern == SplitPattern::O200k => end,
            _ if at_end => position,
            _ if last > start => last,
            _ => next,
        }
    }
}

/// The letters of a word in `o200k`.
enum WordLetters {
    /// They end with a letter that is not in upper case; the end of the last such letter.
    WithTail(usize),
    /// Upper-case letters only.
    HeadsOnly(usize),
    None,
}

impl<'a> Iterator for SplitPieces<'a> {
    type Item = &'a str;

    #[inline]
    fn next(&mut self) -> Option<&'a str> {
        let start = self.position;
        self.position = self.end(start)?;
        self.text.get(start..self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pattern: SplitPattern, text: &str) -> Vec<&str> {
        SplitPieces::new(pattern, text).collect()
    }

    #[test]
    fn a_text_is_split_as_by_the_regular_expression() {
        for (text, o200k, cl100k) in [
            ("it's IT'S", "it's| IT'S", "it|'s| IT|'S"),
            ("it'\u{17f} l'l", "it'\u{17f}| l|'l", "it|'\u{17f}| l|'l"),
            ("HTTPServer camelCase", "HTTPServer| camel|Case", "HTTPServer| camelCase"),
            ("a1234b", "a|123|4|b", "a|123|4|b"),
            ("x  \n\n  y", "x|  \n\n| | y", "x|  \n\n| | y"),
            ("x\n  ", "x|\n|  ", "x|\n  "),
            ("(a) //\n/b", "(a|)| //\n/|b", "(a|)| //\n|/b"),
            ("\u{301}AB \u{301}a", "\u{301}|AB| \u{301}a", "\u{301}AB| \u{301}|a"),
            ("A\u{2b0}BC", "A\u{2b0}|BC", "A\u{2b0}BC"),
        ] {
            assert_eq!(split(SplitPattern::O200k, text).join("|"), o200k);
            assert_eq!(split(SplitPattern::Cl100k, text).join("|"), cl100k);
        }
    }

    #[test]
    fn the_pieces_are_the_whole_text() {
        let every: String = (char::MIN..=char::MAX).flat_map(|c| [c, ' ', c, c, '\'']).collect();
        for pattern in [SplitPattern::O200k, SplitPattern::Cl100k] {
            let mut rest = every.as_str();
            for piece in SplitPieces::new(pattern, &every) {
                assert!(!piece.is_empty());
                rest = rest.strip_prefix(piece).unwrap();
            }
            assert_eq!(rest, "");
        }
    }
}
