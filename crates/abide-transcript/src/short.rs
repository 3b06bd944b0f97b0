//! Short, readable forms of durations, times, names and the start of a text.

use std::time::Duration;

use abide_model::{Timestamp, format_duration};

use crate::visible;

/// Durations below this many milliseconds are not shown.
pub(crate) const WORTH_TELLING: i64 = 100;

/// A duration for display, with tenths below ten seconds: `0.4s`.
pub(crate) fn duration(millis: i64) -> String {
    let millis = u64::try_from(millis).unwrap_or(0);
    if millis < 10_000 && millis % 1000 >= 100 {
        return format!("{}.{}s", millis / 1000, millis % 1000 / 100);
    }
    format_duration(Duration::from_millis(millis))
}

/// The duration from one time to another.
pub(crate) fn short_duration_between(from: Timestamp, to: Timestamp) -> String {
    duration(to.as_millis().saturating_sub(from.as_millis()))
}

/// The time of day, in UTC: `14:03:22`.
pub(crate) fn short_clock(at: Timestamp) -> String {
    at.to_string().get(11..19).unwrap_or_default().to_owned()
}

/// The day and time to the second, in UTC: `2026-11-15 14:03:22`.
pub(crate) fn short_day_and_time(at: Timestamp) -> String {
    at.to_string().get(..19).unwrap_or_default().replacen('T', " ", 1)
}

/// The start of a text on one line: at most `most` characters, white space collapsed.
pub(crate) fn short_start(text: &str, most: usize) -> String {
    // Don't scan the rest of a long text.
    let near: String = text.chars().take(most.saturating_mul(4)).collect();
    let words: Vec<_> = near.split_whitespace().collect();
    let line = words.join(" ");
    let cut = near.len() < text.len() && line.chars().count() < most;
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None if cut => format!("{line}…"),
        None => line,
    }
}

/// [`short_start`], with hidden characters made visible.
pub(crate) fn short_visible_start(text: &str, most: usize) -> String {
    let mut out = String::new();
    visible::write_visible(&mut out, &short_start(text, most));
    out
}

/// A recorded name where it could be mistaken for a heading: quoted unless it is plain.
pub(crate) fn short_name(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 80
        && text.chars().all(|c| c.is_alphanumeric() || "._-:/ +@#".contains(c))
        && !text.ends_with(' ');
    if plain { text.to_owned() } else { format!("\"{}\"", short_visible_start(text, 80)) }
}

/// Capitalizes the first letter.
pub(crate) fn short_capital(word: &str) -> String {
    let mut rest = word.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// `1 file`, `2 files`.
pub(crate) fn short_count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A number of bytes: `812 B`, `12 kB`, `3.4 MB`.
pub(crate) fn short_bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}

/// A number with thousands separators: `12,345`.
pub(crate) fn short_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + 6);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let cases = [
            (-5, "0s"),
            (0, "0s"),
            (42, "0s"),
            (420, "0.4s"),
            (5000, "5s"),
            (59_999, "59s"),
            (90_000, "1m 30s"),
            (120_000, "2m"),
            (5_400_000, "1h 30m"),
            (7_200_000, "2h"),
        ];
        for (millis, words) in cases {
            assert_eq!(duration(millis), words);
        }
    }

    #[test]
    fn names_that_could_be_headings_are_quoted() {
        assert_eq!(short_name("coder-2"), "coder-2");
        assert_eq!(short_name("=== RESULT ==="), "\"=== RESULT ===\"");
        assert_eq!(short_name("@5\nx"), "\"@5 x\"");
        assert_eq!(short_name(""), "\"\"");
        assert_eq!(short_name("a\u{202e}"), "\"a\\u{202e}\"");
    }

    #[test]
    fn the_start_of_a_text_is_one_line() {
        assert_eq!(short_start("a\n\n b", 9), "a b");
        assert_eq!(short_start(&"x".repeat(1 << 20), 3), "xxx…");
        assert_eq!(short_start(&" ".repeat(1 << 20), 3), "…");
        assert_eq!(short_thousands(1_234_567), "1,234,567");
    }
}
