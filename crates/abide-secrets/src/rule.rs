//! One rule: what a secret looks like, and where to look for it.
//!
//! A pattern is compiled when its keyword is first met, so that a process pays only for what it sees.
//! Patterns work on bytes, without Unicode's classes.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use crate::plausibility::{
    entropy, has_digit_or_cases, is_placeholder, is_placeholder_password, is_wordlike,
};

/// Where a match may stand, seen from its keyword, and what else must hold of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RuleLimits {
    /// The match begins with the keyword.
    pub anchored: bool,
    /// No word goes on into the keyword.
    pub at_word: bool,
    /// A long window does not end at white space.
    pub wide: bool,
    /// Words are no secrets.
    pub refuses_words: bool,
    /// A secret has a digit, or is long and of both cases.
    pub needs_digit: bool,
    /// A match has an `@`.
    pub needs_at: bool,
    /// It is a password, of which documents have many that are none.
    pub is_password: bool,
    /// How many bytes before the keyword are looked at.
    pub before: usize,
    /// How many bytes from the keyword's beginning are looked at.
    pub after: usize,
    /// The shortest secret, where it has neither spaces nor quotes; else 0.
    pub shortest: usize,
    /// The least entropy in bits per byte.
    pub entropy: f64,
}

/// A rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its id, which stands in marks.
    pub id: Cow<'static, str>,
    /// The pattern. Its first group that takes part is the secret; without groups all of it is.
    pub pattern: Cow<'static, str>,
    /// Where to look.
    pub limits: RuleLimits,
    /// The group that is the secret, where it is named.
    group: Option<usize>,
    compiled: OnceLock<Option<Regex>>,
}

/// A match of a rule: the range of its secret, and where the match ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SecretMatch {
    /// Where the secret begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Where the match ends, which may be later.
    pub match_end: usize,
}

/// What a pattern that compiles is like.
pub(crate) struct PatternShape {
    /// How many groups it has, all of it included.
    pub groups: usize,
    /// Whether it matches an empty text.
    pub matches_empty: bool,
}

/// A pattern does not compile. Patterns are checked before they get into a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BrokenPattern;

impl Rule {
    /// A rule whose pattern is compiled later.
    pub(crate) fn new(
        id: Cow<'static, str>,
        pattern: Cow<'static, str>,
        limits: RuleLimits,
    ) -> Self {
        Self { id, pattern, limits, group: None, compiled: OnceLock::new() }
    }

    /// Names the group that is the secret.
    pub(crate) fn with_group(self, group: Option<usize>) -> Self {
        Self { group, ..self }
    }

    /// Compiles the pattern now, to see whether it can be.
    pub(crate) fn check(&self) -> Result<PatternShape, Box<regex_automata::meta::BuildError>> {
        let regex = compile(&self.pattern, &self.limits)?;
        Ok(PatternShape { groups: regex.captures_len(), matches_empty: regex.is_match("") })
    }

    /// The first match in a range of `bytes` that is likely to be a secret.
    pub(crate) fn find(
        &self,
        bytes: &[u8],
        start: usize,
        end: usize,
    ) -> Result<Option<SecretMatch>, BrokenPattern> {
        let compiled = self.compiled.get_or_init(|| compile(&self.pattern, &self.limits).ok());
        let regex = compiled.as_ref().ok_or(BrokenPattern)?;
        let anchored = if self.limits.anchored { Anchored::Yes } else { Anchored::No };
        let mut captures = regex.create_captures();
        let mut from = start;
        while from < end {
            regex.search_captures(
                &Input::new(bytes).range(from..end).anchored(anchored),
                &mut captures,
            );
            let Some(whole) = captures.get_match() else { return Ok(None) };
            let secret = match self.group {
                Some(group) => captures.get_group(group),
                None => captures.iter().skip(1).flatten().find(|group| group.start < group.end),
            };
            let secret = secret.unwrap_or_else(|| whole.span());
            if bytes.get(secret.start..secret.end).is_some_and(|secret| self.is_plausible(secret)) {
                return Ok(Some(SecretMatch {
                    start: secret.start,
                    end: secret.end,
                    match_end: whole.end(),
                }));
            }
            if self.limits.anchored {
                return Ok(None);
            }
            from = whole.end().max(from + 1);
        }
        Ok(None)
    }

    fn is_plausible(&self, secret: &[u8]) -> bool {
        let limits = &self.limits;
        if limits.entropy > 0.0 && entropy(secret) <= limits.entropy {
            return false;
        }
        if limits.needs_digit && !has_digit_or_cases(secret)
            || limits.refuses_words && is_wordlike(secret)
        {
            return false;
        }
        if limits.is_password { !is_placeholder_password(secret) } else { !is_placeholder(secret) }
    }
}

/// In a longer window, an automaton is worth its making.
const SHORT_WINDOW: usize = 200;

/// Compiles a pattern. What begins at its keyword is tried there once, by backtracking, for which nothing
/// has to be made first. What is searched for in a window, or in a long one, gets an automaton made as it goes, so that
/// its time is in proportion to the window and not to the pattern.
fn compile(
    pattern: &str,
    limits: &RuleLimits,
) -> Result<Regex, Box<regex_automata::meta::BuildError>> {
    let config = Regex::config()
        .utf8_empty(false)
        .hybrid(!limits.anchored || limits.after > SHORT_WINDOW)
        .hybrid_cache_capacity(256 * 1024)
        .dfa(false)
        .onepass(false)
        .nfa_size_limit(Some(4 << 20));
    Regex::builder()
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .configure(config)
        .build(pattern)
        .map_err(Box::new)
}
