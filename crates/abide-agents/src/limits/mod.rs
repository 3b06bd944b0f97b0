//! Recognizes rate limits and quotas in the messages of agents and APIs.
//!
//! Agents also write code about rate limits and talk about them. So a line counts only if it states
//! a limit the way an error does: missing one costs a failed attempt, but a false match stops the
//! work.

mod reset_time;

use abide_model::Timestamp;

use self::reset_time::limit_reset_time;
use crate::output::step::{first_line, head_of_words};
use crate::output::{EscapeStripper, ReachedLimit};
use crate::profiles::PROFILES;

/// The most bytes that are searched.
const MOST: usize = 8 << 10;
/// The most bytes kept of the message.
const KEPT: usize = 500;

/// How an agent tells that a limit was met, besides the ways that are listed here. They are looked
/// for in every output: one agent may start another.
#[derive(Debug)]
pub(crate) struct LimitTexts {
    /// Ways to say it, and what the limit is called.
    pub statements: &'static [(&'static str, &'static str)],
    /// How its errors begin, in lower case.
    pub beginnings: &'static [&'static str],
    /// What stands right before the seconds since 1970 at which a limit ends.
    pub before_seconds: &'static [&'static str],
}

impl LimitTexts {
    /// Those of an agent that has no words of its own.
    pub(crate) const NONE: Self = Self { statements: &[], beginnings: &[], before_seconds: &[] };
}

/// Ways to say that a limit was met, and what it is called. Those of agents go before.
const STATEMENTS: &[(&str, &str)] = &[
    ("exceeded your current quota", "quota"),
    ("quota exceeded", "quota"),
    ("rate limit reached", "rate"),
    ("rate limit exceeded", "rate"),
    ("rate limit has been exceeded", "rate"),
    ("exceeded your rate limit", "rate"),
    ("exceed your organization's rate limit", "rate"),
    ("exceed the rate limit", "rate"),
    ("exceeded the rate limit", "rate"),
    ("hit a rate limit", "rate"),
    ("hit the rate limit", "rate"),
    ("rate limited", "rate"),
    ("rate-limited", "rate"),
    ("rate_limit_error", "rate"),
    ("rate_limit_exceeded", "rate"),
    ("429 too many requests", "rate"),
    ("too many requests", "rate"),
    ("rejected (429)", "rate"),
    ("status 429", "rate"),
    ("status: 429", "rate"),
    ("status code 429", "rate"),
    ("error code: 429", "rate"),
    ("\"code\":429", "rate"),
    ("\"code\": 429", "rate"),
    ("rate limit", "rate"),
    ("usage limit", "usage"),
    ("quota", "quota"),
];

/// Those of them that count only with a time.
const WEAK: &[&str] = &["rate limit", "usage limit", "quota", "rate limited", "rate-limited"];

/// Words that mean the limit is not reached, or only discussed.
const NOT_MET: &[&str] = &[
    "approaching",
    "close to",
    "% of your",
    "remaining",
    " if ",
    " when ",
    "whenever",
    "handle",
    "handling",
    "implement",
    "should",
    "would",
    "could",
    "avoid",
    "prevent",
    "in case",
    "unless",
    " test",
    "for example",
    "respect",
    "support",
    "feature",
    " docs",
    "let's",
    "i'll",
    "i will",
    " we ",
    "retries on",
    "such as",
    "e.g.",
    "how to",
    "configur",
    "middleware",
    "default",
];

/// Signs of source code.
const CODE: &[&str] = &[
    "//", "/*", "`", "=>", "==", "!=", "();", "assert", "fn ", "def ", "function", "const ",
    "let ", "return ", "import ", "#[", "&&", "||", "::", "};", "print(", "console.", "raise ",
    "throw ", "expect(", "<?", "</",
];

/// How errors begin, after which a limit may be told without a time; those of agents besides.
const ERRORS: &[&str] = &[
    "error",
    "fatal",
    "failed",
    "failure",
    "api error",
    "warning",
    "http/",
    "you've",
    "you have",
    "your ",
    "{\"error\"",
    "{\"type\":\"error\"",
    "request failed",
    "rate limit",
    "429",
    "too many requests",
    "usage limit",
    "quota exceeded",
    "we've hit",
];

/// The limit that an error states, or that its status tells: a rate limit without a reset time.
#[must_use]
pub(crate) fn limit_of_error(text: &str, is_rate: bool, now: Timestamp) -> Option<ReachedLimit> {
    let told = || ReachedLimit {
        name: "rate".to_owned(),
        resets: None,
        text: first_line(text).map_or_else(String::new, |line| kept_of_line(&line)),
    };
    limit_in(text, now).or_else(|| is_rate.then(told))
}

/// The limit that this text states as an error would; `None` if it only mentions one.
#[must_use]
pub fn limit_in(text: &str, now: Timestamp) -> Option<ReachedLimit> {
    let text = head_of_words(text, MOST);
    if !might_state_limit(text) {
        return None;
    }
    let plain = EscapeStripper::of(text);
    let (line, name) = plain.lines().find_map(|line| Some((line, stated_limit(line, now)?)))?;
    let lower = plain.to_lowercase();
    let at = limit_reset_time(&line.to_lowercase(), now).or_else(|| limit_reset_time(&lower, now));
    let text = kept_of_line(line);
    Some(ReachedLimit { name: name.to_owned(), resets: at.and_then(|time| time.at), text })
}

/// What is kept of a line that states a limit.
fn kept_of_line(line: &str) -> String {
    head_of_words(line.trim(), KEPT).trim_end().to_owned()
}

/// A one-pass filter that most lines fail: whether the text has any word that a stated limit needs.
fn might_state_limit(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().zip(bytes.iter().skip(1)).enumerate().any(|(at, (first, second))| {
        let hint: &[u8] = match (first.to_ascii_lowercase(), second.to_ascii_lowercase()) {
            (b'l', b'i') => b"limit",
            (b'q', b'u') => b"quota",
            (b'4', b'2') => b"429",
            (b'r', b'e') => b"retry-after",
            (b'e', b'x') => b"exhausted",
            (b't', b'o') => b"too many requests",
            _ => return false,
        };
        bytes.get(at..at + hint.len()).is_some_and(|found| found.eq_ignore_ascii_case(hint))
    })
}

/// The name of the limit that a line states.
fn stated_limit(line: &str, now: Timestamp) -> Option<&'static str> {
    let lower = line.trim().to_lowercase().replace('’', "'");
    let bare = lower.trim_start_matches(['<', ' ']);
    if let Some(after) = bare.strip_prefix("retry-after:") {
        return limit_reset_time(&format!("retry-after:{after}"), now).and(Some("retry"));
    }
    let message = unframed_log_line(&lower);
    // URLs may contain any words.
    let words = message.split_whitespace().filter(|word| !word.contains("://"));
    let words = words.fold(" ".to_owned(), |all, word| all + word + " ");
    // An error response of a server is never mere talk, whatever its words.
    let answered = message.contains("\"error\":") && message.contains('{');
    let spoken = !answered && NOT_MET.iter().any(|word| words.contains(word));
    if spoken || is_code_line(&lower) {
        return None;
    }
    let known = PROFILES.iter().flat_map(|profile| profile.limits.statements);
    let (statement, name) = *known.chain(STATEMENTS).find(|(words, _)| message.contains(words))?;
    if is_limit_quoted(message, statement)
        && !message.contains("error")
        && !message.contains("message")
    {
        return None;
    }
    let timed = limit_reset_time(message, now).is_some();
    let mut errors = PROFILES.iter().flat_map(|profile| profile.limits.beginnings).chain(ERRORS);
    let stated = !WEAK.contains(&statement) && errors.any(|start| message.starts_with(start));
    (timed || stated).then_some(name)
}

/// Strips what precedes a message in a log line: symbols, brackets, a time.
fn unframed_log_line(line: &str) -> &str {
    let mut rest = line;
    loop {
        let before = rest;
        rest = rest.trim_start_matches(|c: char| {
            c.is_whitespace() || (!c.is_ascii() && !c.is_alphanumeric()) || c == '!' || c == ':'
        });
        if let Some((_, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            rest = behind;
        }
        // `2026-11-15T20:00:00Z`
        if let Some((word, behind)) = rest.split_once(' ') {
            let digits = word.bytes().filter(u8::is_ascii_digit).count();
            let clock = word.contains(':') && word.bytes().all(|b| b"0123456789-:.tz".contains(&b));
            if digits >= 6 && clock {
                rest = behind;
            }
        }
        if rest.len() == before.len() {
            return rest;
        }
    }
}

fn is_code_line(line: &str) -> bool {
    let first = line.chars().next();
    if first.is_some_and(|c| matches!(c, '+' | '-' | '>' | '#' | '*' | '|' | '/' | '@')) {
        return true;
    }
    if line.ends_with(';') || (line.ends_with('{') && line.len() > 1) {
        return true;
    }
    // `src/x.rs:12:`, as search tools print it.
    let place = line.split_once(':').and_then(|(path, rest)| {
        let number = rest.split(':').next()?;
        Some(path.contains('.') && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    });
    if place == Some(true) {
        return true;
    }
    let without_addresses = line.replace("://", ":");
    CODE.iter().any(|mark| without_addresses.contains(mark))
}

/// Whether the statement is in quotes or parentheses of its own.
fn is_limit_quoted(message: &str, words: &str) -> bool {
    let before = message.find(words).and_then(|at| message.get(..at));
    before.is_some_and(|before| before.ends_with(['"', '\'', '“', '(']))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// 2025-11-15T09:46:40Z
    const NOW: i64 = 1_763_200_000_000;

    fn found(text: &str) -> Option<ReachedLimit> {
        limit_in(text, Timestamp::from_millis(NOW))
    }

    /// So many seconds from now.
    pub(crate) fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp::from_millis(NOW + seconds * 1000))
    }

    pub(crate) fn clock(text: &str) -> Option<Timestamp> {
        Some(text.parse::<Timestamp>().unwrap())
    }

    /// Checks that a text tells this limit.
    pub(crate) fn is_told(text: &str, name: &str, resets: Option<Timestamp>) {
        let limited = found(text).unwrap_or_else(|| panic!("overlooked: {text}"));
        assert_eq!((limited.name.as_str(), limited.resets), (name, resets), "{text}");
        assert!(!limited.text.is_empty() && !limited.text.contains('\u{1b}'));
    }

    #[test]
    fn limits_as_they_are_told() {
        for (text, name, resets) in [
            (
                "Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 1.5s. Visit https://example.com/limits to learn more.",
                "rate",
                Some(Timestamp::from_millis(NOW + 1500)),
            ),
            ("[ERROR] rate limit: try again in 6h", "rate", at(6 * 3600)),
            (
                "2025-11-15T09:46:40Z ERROR rate limit exceeded, retry after 20 seconds",
                "rate",
                at(20),
            ),
            ("429 Too Many Requests", "rate", None),
            (
                "HTTP/1.1 429 Too Many Requests\r\ncontent-type: text/plain\r\nretry-after: 7",
                "rate",
                at(7),
            ),
            (
                "API Error: 429 {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"This request would exceed your organization's rate limit\"}}",
                "rate",
                None,
            ),
            (
                "Error code: 429 - {'error': {'message': 'Rate limit reached for x. Please try again in 20s.'}}",
                "rate",
                at(20),
            ),
            ("API Error: Request rejected (429) · refused", "rate", None),
            ("retry-after: 12", "retry", at(12)),
            ("< Retry-After: 2025-11-15T10:00:00Z", "retry", clock("2025-11-15T10:00:00Z")),
            ("\u{1b}[31m⚠ Rate limit exceeded.\u{1b}[0m Retry in 5 min", "rate", at(300)),
        ] {
            is_told(text, name, resets);
        }
    }

    #[test]
    fn talk_about_limits_is_none() {
        for text in [
            "",
            "all is well",
            "I will add a rate limit of 20 requests per second.",
            "Approaching usage limit · resets at 7pm (UTC)",
            "You've used 90% of your weekly limit · resets 3pm (UTC)",
            "+        return Err(\"rate limit exceeded, try again in 20s\")",
            "    throw new Error('Rate limit exceeded. Try again in 20s');",
            "// 429 Too Many Requests: retry after 5s",
            "# Rate limit exceeded",
            "- Rate limit exceeded: try again in 5s",
            "src/limit.rs:12: rate limit exceeded, try again in 20s",
            "test limit::rate_limit_exceeded ... ok",
            "The server returns 429 Too Many Requests when the quota is used up.",
            "Handle rate limit errors: try again in 20s",
            "assert_eq!(status, \"429 Too Many Requests\")",
            "if rate limited, retry after 30 seconds",
            "`retry-after: 12` is sent by the server",
            "The rate limit is 100 requests per minute",
            "fn limit_reached() {",
            "let quota = 429;",
            "quota: 5 GB",
            "Implemented the rate limit middleware; it resets after 60s",
            "retry-after: soon",
            "line 429 too long",
            "The message says \"rate limit reached\" to the user",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
