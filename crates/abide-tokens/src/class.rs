//! The character classes that the patterns distinguish.
//!
//! They come from the tables of `regex-syntax`, like those of tiktoken, so both agree on every
//! character of the Unicode version they share.

use std::sync::LazyLock;

use regex_syntax::hir::{Class as HirClass, HirKind};

/// A set of character classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CharClass(u8);

impl CharClass {
    /// `\p{Lu}`, `\p{Lt}`, `\p{Lm}`, `\p{Lo}`, `\p{M}`: allowed at the head of a word.
    pub(crate) const HEAD: Self = Self(1);
    /// `\p{Ll}`, `\p{Lm}`, `\p{Lo}`, `\p{M}`: allowed at the tail of a word.
    pub(crate) const TAIL: Self = Self(1 << 1);
    /// `\p{L}`.
    pub(crate) const LETTER: Self = Self(1 << 2);
    /// `\p{N}`.
    pub(crate) const NUMBER: Self = Self(1 << 3);
    /// `\s`.
    pub(crate) const SPACE: Self = Self(1 << 4);
    /// `[\r\n]`.
    pub(crate) const BREAK: Self = Self(1 << 5);

    /// The union of both sets.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Do the sets have a class in common?
    pub(crate) const fn is(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

static CLASSES: LazyLock<ClassTable> = LazyLock::new(ClassTable::load);

/// The classes of every character.
#[derive(Debug)]
pub(crate) struct ClassTable(Vec<u8>);

impl ClassTable {
    pub(crate) fn get() -> &'static Self {
        &CLASSES
    }

    fn load() -> Self {
        // Zeroed memory is not touched until it is written, and most of it never is.
        let mut table = vec![0; char::MAX as usize + 1];
        let (head, tail, letter) = (CharClass::HEAD, CharClass::TAIL, CharClass::LETTER);
        for (pattern, class) in [
            (r"[\p{Lu}\p{Lt}]", head.or(letter)),
            (r"\p{Ll}", tail.or(letter)),
            (r"[\p{Lm}\p{Lo}]", head.or(tail).or(letter)),
            (r"\p{M}", head.or(tail)),
            (r"\p{N}", CharClass::NUMBER),
            (r"\s", CharClass::SPACE),
            (r"[\r\n]", CharClass::BREAK),
        ] {
            let Ok(parsed) = regex_syntax::parse(pattern) else { continue };
            let HirKind::Class(HirClass::Unicode(ranges)) = parsed.kind() else { continue };
            for range in ranges.ranges() {
                let range = range.start() as usize..=range.end() as usize;
                for entry in table.get_mut(range).into_iter().flatten() {
                    *entry |= class.0;
                }
            }
        }
        Self(table)
    }

    /// The classes of a character, given by its code point.
    pub(crate) fn of(&self, character: u32) -> CharClass {
        CharClass(self.0.get(character as usize).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_was_found() {
        let classes = ClassTable::get();
        let of = |c: char| classes.of(c.into());
        let (head, tail, letter) = (CharClass::HEAD, CharClass::TAIL, CharClass::LETTER);
        assert_eq!(of('A'), head.or(letter));
        assert_eq!(of('ǅ'), head.or(letter));
        assert_eq!(of('z'), tail.or(letter));
        assert_eq!(of('日'), head.or(tail).or(letter));
        assert_eq!(of('ʰ'), head.or(tail).or(letter));
        assert_eq!(of('\u{301}'), head.or(tail));
        assert_eq!(of('7'), CharClass::NUMBER);
        assert_eq!(of('Ⅷ'), CharClass::NUMBER);
        assert_eq!(of('½'), CharClass::NUMBER);
        assert_eq!(of('\u{a0}'), CharClass::SPACE);
        assert_eq!(of('\n'), CharClass::SPACE.or(CharClass::BREAK));
        assert_eq!(of('\r'), CharClass::SPACE.or(CharClass::BREAK));
        assert_eq!(of('\u{85}'), CharClass::SPACE);
        assert_eq!(of('_'), CharClass::default());
        assert_eq!(of('🦀'), CharClass::default());
        assert_eq!(of(char::MAX), CharClass::default());
    }
}
