//! Reads the packed rules that are embedded in the library.
//!
//! `data/rules.txt` is made by `examples/pack.rs`: a line for each rule, its fields between tabs. A
//! field that does not read is an error, never a rule less.

use std::borrow::Cow;

use crate::keyword_table::{Keyword, KeywordTarget};
use crate::rule::{Rule, RuleLimits};

const PACKED: &str = include_str!("../data/rules.txt");
/// The head of the list: the form, and where the rules come from.
const HEAD: &str = "abide-secrets rules 1\t";

/// The embedded rules cannot be read: the library was built from a damaged list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the embedded secret rules cannot be read")]
pub struct PackedRulesError {
    /// The number of the line, from 1.
    pub line: usize,
}

/// All embedded rules with their keywords.
pub(crate) fn read_packed_rules() -> Result<(Vec<Rule>, Vec<Keyword>), PackedRulesError> {
    read(PACKED)
}

/// Which version of the upstream rules is packed.
pub(crate) fn packed_version() -> &'static str {
    PACKED.lines().next().and_then(|head| head.strip_prefix(HEAD)).unwrap_or_default()
}

fn read(packed: &'static str) -> Result<(Vec<Rule>, Vec<Keyword>), PackedRulesError> {
    let mut lines = TextParts::new(packed.trim_end_matches('\n'), b'\n').enumerate();
    if !lines.next().is_some_and(|(_, head)| head.starts_with(HEAD)) {
        return Err(PackedRulesError { line: 1 });
    }
    let (mut rules, mut keywords) = (Vec::with_capacity(512), Vec::with_capacity(1024));
    for (number, line) in lines {
        read_rule(line, &mut rules, &mut keywords).ok_or(PackedRulesError { line: number + 1 })?;
    }
    if rules.is_empty() { Err(PackedRulesError { line: 2 }) } else { Ok((rules, keywords)) }
}

/// The parts of a text between separators. Every writer waits for the rules, and `split` takes twice as long.
struct TextParts<'t> {
    rest: Option<&'t str>,
    separator: u8,
}

impl<'t> TextParts<'t> {
    const fn new(text: &'t str, separator: u8) -> Self {
        Self { rest: Some(text), separator }
    }
}

impl<'t> Iterator for TextParts<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let text = self.rest.take()?;
        let Some(at) = memchr::memchr(self.separator, text.as_bytes()) else { return Some(text) };
        self.rest = text.get(at + 1..);
        text.get(..at)
    }
}

fn read_rule(line: &'static str, rules: &mut Vec<Rule>, keywords: &mut Vec<Keyword>) -> Option<()> {
    let mut fields = TextParts::new(line, b'\t');
    let id = fields.next().filter(|id| crate::mark::is_rule_id(id))?;
    let flags = fields.next()?;
    let mut limits = RuleLimits {
        before: fields.next()?.parse().ok()?,
        after: fields.next()?.parse().ok()?,
        shortest: fields.next()?.parse().ok()?,
        entropy: fields.next()?.parse().ok()?,
        ..RuleLimits::default()
    };
    for flag in flags.bytes() {
        match flag {
            b'a' => limits.anchored = true,
            b'b' => limits.at_word = true,
            b'i' => limits.wide = true,
            b'w' => limits.refuses_words = true,
            b'd' => limits.needs_digit = true,
            b'p' => limits.is_password = true,
            b'-' => {}
            _ => return None,
        }
    }
    let number = u16::try_from(rules.len()).ok()?;
    let words = fields.next()?;
    let pattern = fields.next()?;
    if fields.next().is_some() || pattern.is_empty() {
        return None;
    }
    // None of them has this in one of several alternatives.
    limits.needs_at = memchr::memchr_iter(b'@', pattern.as_bytes())
        .any(|at| pattern.get(..at).is_some_and(|before| before.ends_with(')')));
    for word in TextParts::new(words, 0x1f) {
        // `=` stands before a keyword whose case counts, `~` before another.
        let (exact, text) = match word.split_at_checked(1)? {
            ("=", text) => (true, text),
            ("~", text) => (false, text),
            _ => return None,
        };
        if text.len() < 3 {
            return None;
        }
        keywords.push(Keyword {
            text: Cow::Borrowed(text.as_bytes()),
            exact,
            target: KeywordTarget::Rule(number),
        });
    }
    rules.push(Rule::new(Cow::Borrowed(id), Cow::Borrowed(pattern), limits));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_pattern_compiles() {
        let (rules, keywords) = read_packed_rules().unwrap();
        assert!(rules.len() > 300, "{}", rules.len());
        assert!(keywords.len() >= rules.len());
        for rule in &rules {
            rule.check().unwrap_or_else(|error| panic!("{}: {error}", rule.id));
        }
        let with_at: Vec<&str> =
            rules.iter().filter(|rule| rule.limits.needs_at).map(|rule| &*rule.id).collect();
        assert_eq!(
            with_at,
            [
                "sentry-dsn-secret",
                "gitlab-incoming-mail-address-token",
                "sidekiq-sensitive-url",
                "url-password",
                "url-token",
            ],
            "does every match of a new one have an @?"
        );
        assert!(PACKED.len() <= 300 * 1024, "{} bytes", PACKED.len());
        assert!(packed_version().contains("betterleaks"));
    }

    #[test]
    fn a_damaged_list_is_an_error_and_not_a_shorter_list() {
        assert_eq!(read("").unwrap_err(), PackedRulesError { line: 1 });
        for bad in [
            "x\ta\t0",
            "x\t?\t0\t9\t0\t0\t=abc\tabc",
            "x\ta\t0\t9\t0\t0\t=ab\tabc",
            "X y\ta\t0\t9\t0\t0\t=abc\tabc",
        ] {
            let text: &'static str = format!("{HEAD}1\n{bad}\n").leak();
            assert_eq!(read(text).unwrap_err(), PackedRulesError { line: 2 }, "{bad}");
        }
    }
}
