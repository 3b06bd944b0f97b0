//! Parses the time at which a limit resets from an error message.

use std::time::Duration;

use abide_model::{Timestamp, leading_duration};

use crate::profiles::PROFILES;

/// The longest time that anyone is asked to wait.
const LONGEST: i64 = 40 * 86_400_000;

/// A stated reset time, unambiguous or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResetTime {
    /// The time; `None` if it is ambiguous (unknown time zone) or implausible.
    pub at: Option<Timestamp>,
}

/// Phrases before a duration.
const DURATIONS: &[&str] = &[
    "try again in ",
    "retry in ",
    "retrying in ",
    "try again after ",
    "retry after ",
    "reset after ",
    "reset in ",
    "resets in ",
    "resets after ",
    "retry-after:",
    "retry-after=",
    "retry-after\":",
    "retry_after:",
    "retry_after\":",
    "retrydelay\":",
    "please wait ",
    "wait for ",
    "available in ",
];

/// Phrases before a time of day.
const CLOCKS: &[&str] =
    &["try again at ", "resets at ", "reset at ", "resets on ", "resets ", "retry-after:"];

/// The reset time in a lower-case text; `None` if it states no time.
pub(super) fn limit_reset_time(text: &str, now: Timestamp) -> Option<ResetTime> {
    if let Some(at) = reset_in_seconds_since_1970(text) {
        return Some(bounded_reset_time(at, now));
    }
    for (words, behind) in phrase_occurrences(text, DURATIONS) {
        if let Some(millis) = duration(behind, words.ends_with([':', '='])) {
            let at = Timestamp::from_millis(now.as_millis().saturating_add(millis));
            return Some(bounded_reset_time(at, now));
        }
    }
    phrase_occurrences(text, CLOCKS)
        .into_iter()
        .find_map(|(_, behind)| reset_clock_time(behind, now))
}

/// The text after each of the phrases that occurs.
fn phrase_occurrences<'a, 'w>(text: &'a str, all: &[&'w str]) -> Vec<(&'w str, &'a str)> {
    let found = all.iter().filter_map(|words| {
        let (_, behind) = text.split_once(words)?;
        Some((*words, behind.trim_start_matches([' ', '"'])))
    });
    found.collect()
}

/// Accepts only a time in the future, within [`LONGEST`].
fn bounded_reset_time(at: Timestamp, now: Timestamp) -> ResetTime {
    let wait = at.as_millis().saturating_sub(now.as_millis());
    ResetTime { at: (0..=LONGEST).contains(&wait).then_some(at) }
}

/// The seconds since 1970 that an agent tells behind words of its own.
fn reset_in_seconds_since_1970(text: &str) -> Option<Timestamp> {
    let mut known = PROFILES.iter().flat_map(|profile| profile.limits.before_seconds);
    known.find_map(|words| {
        let (_, behind) = text.split_once(words)?;
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        seconds_since_1970(behind.get(..digits)?)
    })
}

fn seconds_since_1970(digits: &str) -> Option<Timestamp> {
    let number = digits.parse::<i64>().ok()?;
    match digits.len() {
        10 => Some(Timestamp::from_millis(number.saturating_mul(1000))),
        13 => Some(Timestamp::from_millis(number)),
        _ => None,
    }
}

/// Parses a duration in milliseconds; with `bare` also a plain number of seconds.
fn duration(text: &str, bare: bool) -> Option<i64> {
    let duration = match leading_duration(text) {
        Some(leading) => leading.duration,
        None if bare => bare_seconds(text)?,
        None => return None,
    };
    Some(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

/// Parses a number of seconds that nothing follows which would make it a date, a time or a count.
fn bare_seconds(text: &str) -> Option<Duration> {
    let width = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, behind) = text.split_at_checked(width)?;
    let behind = behind.trim_start();
    if behind.starts_with(|c: char| c.is_ascii_alphabetic() || "-:/".contains(c)) {
        return None;
    }
    // Without the full stop of a sentence.
    let seconds = number.trim_end_matches('.').parse().ok()?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Parses `3pm (utc)`, `15:00 utc`, `nov 20, 5pm (utc)`, RFC 3339, or seconds or milliseconds since
/// 1970.
fn reset_clock_time(text: &str, now: Timestamp) -> Option<ResetTime> {
    const DAY: i64 = 86_400_000;
    let first = text.split([' ', ',', '"', ')']).next()?.trim_end_matches('.');
    if let Ok(at) = first.to_uppercase().parse::<Timestamp>() {
        return Some(bounded_reset_time(at, now));
    }
    if let Some(at) = seconds_since_1970(first) {
        return Some(bounded_reset_time(at, now));
    }
    let (date, rest) = match month_and_day(text) {
        Some((month, day, rest)) => (Some((month, day)), rest),
        None => (None, text),
    };
    let (of_day, rest) = reset_time_of_day(rest)?;
    let zone = rest.trim_start_matches([' ', '(']);
    let utc = ["utc", "gmt", "etc/utc"].iter().any(|name| {
        zone.strip_prefix(name).is_some_and(|behind| !behind.starts_with(['+', '-', '/']))
    });
    if !utc {
        return Some(ResetTime { at: None });
    }
    let midnight = now.as_millis() - now.as_millis().rem_euclid(DAY);
    let at = match date {
        None => {
            let today = midnight + of_day;
            if today < now.as_millis() { today + DAY } else { today }
        }
        Some((month, day)) => {
            let year = now.to_string().get(..4)?.parse::<i32>().ok()?;
            let of = |year: i32| {
                let start = format!("{year:04}-{month:02}-{day:02}T00:00:00Z").parse::<Timestamp>();
                start.ok().map(|start| start.as_millis() + of_day)
            };
            let this = of(year)?;
            if this < now.as_millis() { of(year + 1)? } else { this }
        }
    };
    Some(bounded_reset_time(Timestamp::from_millis(at), now))
}

/// Parses `nov 20, ` and returns the rest.
fn month_and_day(text: &str) -> Option<(usize, u8, &str)> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let month = MONTHS.iter().position(|name| text.starts_with(name))? + 1;
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphabetic()).trim_start();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (day, rest) = rest.split_at_checked(digits)?;
    let day = day.parse::<u8>().ok()?;
    let rest =
        ["st", "nd", "rd", "th"].iter().find_map(|end| rest.strip_prefix(end)).unwrap_or(rest);
    let rest = rest.trim_start_matches([' ', ',']);
    Some((month, day, rest.strip_prefix("at ").unwrap_or(rest)))
}

/// Parses `3pm`, `3:05 pm` or `15:00` into milliseconds since midnight, and returns the rest.
fn reset_time_of_day(text: &str) -> Option<(i64, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (hour, rest) = text.split_at_checked(digits(text))?;
    let mut hour = hour.parse::<i64>().ok()?;
    let (minute, rest) = match rest.strip_prefix(':') {
        None => (None, rest),
        Some(rest) => {
            let (minute, rest) = rest.split_at_checked(digits(rest))?;
            (Some(minute.parse::<i64>().ok()?), rest)
        }
    };
    let behind = rest.trim_start();
    let rest = match (behind.strip_prefix("am"), behind.strip_prefix("pm")) {
        (Some(rest), _) if (1..=12).contains(&hour) => {
            hour %= 12;
            rest
        }
        (_, Some(rest)) if (1..=12).contains(&hour) => {
            hour = hour % 12 + 12;
            rest
        }
        // A bare number is not a time of day.
        _ if minute.is_some() => rest,
        _ => return None,
    };
    let minute = minute.unwrap_or(0);
    if !((0..24).contains(&hour) && (0..60).contains(&minute)) {
        return None;
    }
    Some(((hour * 60 + minute) * 60_000, rest))
}
