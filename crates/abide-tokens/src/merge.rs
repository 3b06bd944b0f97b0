//! Merges the bytes of a piece into tokens.
//!
//! Of all neighbours that form a token, the pair that forms the lowest rank is merged first, the
//! leftmost among equals, until none is left. The result of a merge has a higher rank than its
//! parts, so no merge has a lower rank than one before it.

use std::collections::BTreeMap;

use crate::vocabulary::{TokenRank, Vocabulary};

/// The maximum size in bytes of a piece that is searched again for its lowest pair after each
/// merge. This takes quadratic time, with a small factor.
const SHORT: usize = 128;

/// Counts the tokens of pieces. Reuses its memory from piece to piece.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    short: ShortMerge,
    long: LongMerge,
    /// How many pairs were looked up, compared or queued, for tests of the cost.
    steps: u64,
}

impl Merger {
    /// The number of tokens in a piece.
    #[inline]
    pub(crate) fn count(&mut self, vocabulary: &Vocabulary, piece: &str) -> usize {
        let bytes = piece.as_bytes();
        if bytes.len() < 2 || vocabulary.contains(bytes) {
            return 1;
        }
        if bytes.len() <= SHORT {
            return self.short.count(vocabulary, bytes, &mut self.steps);
        }
        // Positions have 32 bits. A longer piece would exhaust memory first.
        let parts = bytes.chunks(u32::MAX as usize);
        parts.map(|part| self.long.count(vocabulary, part, &mut self.steps)).sum()
    }
}

/// A short piece: its tokens, each with the token it forms with the next one.
#[derive(Debug, Default)]
struct ShortMerge(Vec<TokenPair>);

#[derive(Debug, Clone, Copy)]
struct TokenPair {
    token: TokenRank,
    with_next: TokenRank,
}

impl ShortMerge {
    fn count(&mut self, vocabulary: &Vocabulary, bytes: &[u8], steps: &mut u64) -> usize {
        let Self(parts) = self;
        parts.clear();
        let mut before = TokenRank::NONE;
        for byte in bytes {
            let token = vocabulary.byte(*byte);
            if let Some(part) = parts.last_mut() {
                part.with_next = vocabulary.merged(before, token);
            }
            parts.push(TokenPair { token, with_next: TokenRank::NONE });
            before = token;
        }
        *steps += parts.len() as u64;
        while let Some((at, part)) = parts.iter().enumerate().min_by_key(|(_, part)| part.with_next)
            && part.with_next != TokenRank::NONE
        {
            *steps += parts.len() as u64;
            let token = part.with_next;
            parts.remove(at + 1);
            let after = parts.get(at + 1).map(|part| part.token);
            if let Some(part) = parts.get_mut(at) {
                let with_next =
                    after.map_or(TokenRank::NONE, |after| vocabulary.merged(token, after));
                *part = TokenPair { token, with_next };
            }
            if let Some(part) = at.checked_sub(1).and_then(|before| parts.get_mut(before)) {
                part.with_next = vocabulary.merged(part.token, token);
            }
        }
        parts.len()
    }
}

/// A long piece: its bytes, where the first and the last byte of each token are marked with it, and
/// the queued pairs, ordered by the token they form.
///
/// A pair is identified by the position of its first token. It is stale if one of the two has since
/// been merged with another. All pairs that form the same token are queued from left to right: a
/// token is formed of two others in one way only, and pairs of these two are queued while the later
/// of the two is formed, or at the start.
#[derive(Debug, Default)]
struct LongMerge {
    marks: Vec<MergeMark>,
    waiting: BTreeMap<TokenRank, Vec<u32>>,
}

/// The position of a byte in a token.
#[derive(Debug, Clone, Copy, Default)]
struct MergeMark(u32);

impl MergeMark {
    const FIRST: u32 = 1 << 31;
    const LAST: u32 = 1 << 30;

    const fn first(token: TokenRank) -> Self {
        Self(token.0 | Self::FIRST)
    }

    const fn last(token: TokenRank) -> Self {
        Self(token.0 | Self::LAST)
    }

    const fn only(token: TokenRank) -> Self {
        Self(token.0 | Self::FIRST | Self::LAST)
    }

    /// The token that starts here.
    fn starting(self) -> Option<TokenRank> {
        (self.0 & Self::FIRST != 0).then_some(self.token())
    }

    /// The token that ends here.
    fn ending(self) -> Option<TokenRank> {
        (self.0 & Self::LAST != 0).then_some(self.token())
    }

    const fn token(self) -> TokenRank {
        TokenRank(self.0 & !(Self::FIRST | Self::LAST))
    }
}

impl LongMerge {
    fn count(&mut self, vocabulary: &Vocabulary, bytes: &[u8], steps: &mut u64) -> usize {
        self.marks.clear();
        self.marks.extend(bytes.iter().map(|byte| MergeMark::only(vocabulary.byte(*byte))));
        for (at, pair) in bytes.windows(2).enumerate() {
            let &[left, right] = pair else { continue };
            let made = vocabulary.merged(vocabulary.byte(left), vocabulary.byte(right));
            self.wait(made, at);
        }
        *steps += bytes.len() as u64;
        let mut tokens = bytes.len();
        while let Some((made, pairs)) = self.waiting.pop_first() {
            *steps += pairs.len() as u64;
            debug_assert!(pairs.is_sorted());
            for at in pairs {
                let at = at as usize;
                if let Some(end) = self.merge(vocabulary, made, at) {
                    tokens -= 1;
                    *steps += 2;
                    self.wait_around(vocabulary, made, at, end);
                }
            }
        }
        tokens
    }

    /// Merges the pair at a position unless it is stale. Returns the end of the new token.
    fn merge(&mut self, vocabulary: &Vocabulary, made: TokenRank, at: usize) -> Option<usize> {
        let left = self.marks.get(at)?.starting()?;
        let middle = at + vocabulary.length(left);
        let right = self.marks.get(middle)?.starting()?;
        let end = middle + vocabulary.length(right);
        // Tokens only grow: the pair is still the queued one if it is no longer than that.
        if end - at != vocabulary.length(made) {
            return None;
        }
        for (at, mark) in [
            (middle - 1, MergeMark::default()),
            (middle, MergeMark::default()),
            (at, MergeMark::first(made)),
            (end - 1, MergeMark::last(made)),
        ] {
            *self.marks.get_mut(at)? = mark;
        }
        Some(end)
    }

    /// Queues the pairs of a token with its neighbours.
    fn wait_around(&mut self, vocabulary: &Vocabulary, token: TokenRank, at: usize, end: usize) {
        let before = at.checked_sub(1).and_then(|last| self.marks.get(last)?.ending());
        if let Some(before) = before {
            self.wait(vocabulary.merged(before, token), at - vocabulary.length(before));
        }
        if let Some(after) = self.marks.get(end).and_then(|mark| mark.starting()) {
            self.wait(vocabulary.merged(token, after), at);
        }
    }

    /// Queues a pair under the token it forms, if any.
    fn wait(&mut self, made: TokenRank, at: usize) {
        if made != TokenRank::NONE {
            self.waiting.entry(made).or_default().push(at as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encoding;

    const ENCODINGS: [Encoding; 2] = [Encoding::O200kBase, Encoding::Cl100kBase];

    fn tokens_and_steps(encoding: Encoding, text: &str) -> (usize, u64) {
        let mut merger = Merger::default();
        let tokens = encoding.count_with(&mut merger, text);
        (tokens, merger.steps)
    }

    /// Merges as the definition says, in quadratic time.
    fn merged_plainly(vocabulary: &Vocabulary, bytes: &[u8]) -> usize {
        let mut tokens: Vec<TokenRank> = bytes.iter().map(|byte| vocabulary.byte(*byte)).collect();
        loop {
            let pairs = tokens.windows(2).map(|pair| vocabulary.merged(pair[0], pair[1]));
            match pairs.enumerate().min_by_key(|(_, made)| *made) {
                Some((at, made)) if made != TokenRank::NONE => {
                    drop(tokens.splice(at..at + 2, [made]))
                }
                _ => return tokens.len(),
            }
        }
    }

    #[test]
    fn short_and_long_pieces_are_merged_alike() {
        let sources =
            ["a", "ab", "the", "日本語", "=-", "\n", "aaab", "ééà", "uncharacteristically"];
        for encoding in ENCODINGS {
            let vocabulary = encoding.vocabulary();
            for (source, times) in
                sources.iter().flat_map(|source| (2..40).map(move |n| (source, n)))
            {
                let text = source.repeat(times);
                let (bytes, steps) = (text.as_bytes(), &mut 0);
                let plainly = merged_plainly(vocabulary, bytes);
                let short = ShortMerge::default().count(vocabulary, bytes, steps);
                let long = LongMerge::default().count(vocabulary, bytes, steps);
                assert_eq!((short, long), (plainly, plainly), "{source} {times} times");
            }
        }
    }

    #[test]
    fn the_work_grows_with_the_length_whatever_the_text() {
        let letter = |n: usize| "a".repeat(n);
        let hostile: [fn(usize) -> String; 12] = [
            |n| "a".repeat(n),
            |n| "A".repeat(n),
            |n| " ".repeat(n),
            |n| "\n".repeat(n),
            |n| "-".repeat(n),
            |n| "ab".repeat(n / 2),
            |n| "日".repeat(n / 3),
            |n| "\u{301}".repeat(n / 2),
            |n| "🦀".repeat(n / 4),
            |n| "xyzzyplugh".repeat(n / 10),
            |n| "Aʰ".repeat(n / 3),
            // As long as a piece may be to be merged the quadratic way.
            |n| format!("{} ", "qzj".repeat(42)).repeat(n / 127),
        ];
        for encoding in ENCODINGS {
            for (number, text) in hostile.iter().enumerate() {
                let (small, large) = (text(1 << 14), text(1 << 18));
                let steps = [&small, &large].map(|text| tokens_and_steps(encoding, text).1);
                assert!(steps[1] <= 17 * steps[0] + 1000, "{encoding:?} {number}: {steps:?}");
                assert!(steps[1] <= 80 * large.len() as u64, "{encoding:?} {number}: {steps:?}");
            }
            let long = letter(3 << 20);
            let (tokens, steps) = tokens_and_steps(encoding, &long);
            assert_eq!(tokens, (3 << 20) / 8, "{encoding:?}");
            assert!(steps <= 6 * long.len() as u64, "{encoding:?}: {steps}");
        }
    }
}
