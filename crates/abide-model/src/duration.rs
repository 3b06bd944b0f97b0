//! Durations as text: the one parser and the one printer.
//!
//! A duration is a number and a unit, or several of them: `90m`, `1.5h`, `500ms`, `1h30m`, `1h 30m`,
//! `3 days, 4 hours and 5 minutes`. The units are `ns`, `us`, `ms`, `s`, `m`, `h`, `d` and `w`, and
//! their names (`sec`, `minutes`, `hrs`, `days`, …). A day has 24 hours.

use std::time::Duration;

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration `{text}` (examples: 30d, 12h, 90m)")]
pub struct DurationError {
    /// The text.
    pub text: String,
}

/// Parses a duration. A number without a unit is refused.
///
/// ```
/// # use std::time::Duration;
/// use abide_model::parse_duration;
///
/// assert_eq!(parse_duration("1h 30m"), parse_duration("90m"));
/// let error = parse_duration("soon").unwrap_err();
/// assert_eq!(error.to_string(), "invalid duration `soon` (examples: 30d, 12h, 90m)");
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let whole = leading_duration(text.trim()).filter(|leading| leading.rest.is_empty());
    whole.map(|whole| whole.duration).ok_or_else(|| DurationError { text: text.to_owned() })
}

/// Parses a duration; a number without a unit is in seconds.
pub fn parse_duration_or_seconds(text: &str) -> Result<Duration, DurationError> {
    let seconds = text.trim().parse().ok().and_then(|bare| Duration::try_from_secs_f64(bare).ok());
    seconds.map_or_else(|| parse_duration(text), Ok)
}

/// A duration that a text begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeadingDuration<'a> {
    /// The duration; the longest there is if it does not fit.
    pub duration: Duration,
    /// The text after it.
    pub rest: &'a str,
}

/// The duration that a text begins with; `None` if it begins with none.
#[must_use]
pub fn leading_duration(text: &str) -> Option<LeadingDuration<'_>> {
    let mut nanos: Option<u128> = None;
    let mut rest = text;
    loop {
        let mut part = rest.trim_start_matches([' ', ',']);
        if nanos.is_some() {
            part = part.strip_prefix("and ").unwrap_or(part).trim_start();
        }
        let Some((more, behind)) = duration_part(part) else { break };
        nanos = Some(nanos.unwrap_or(0).saturating_add(more));
        rest = behind;
    }
    let nanos = nanos?;
    let duration = match u64::try_from(nanos / SECOND) {
        // The conversion fits: it is less than a second.
        Ok(seconds) => Duration::new(seconds, (nanos % SECOND) as u32),
        Err(_) => Duration::MAX,
    };
    Some(LeadingDuration { duration, rest })
}

/// Splits a number and its unit off a text: the nanoseconds, and the rest.
fn duration_part(text: &str) -> Option<(u128, &str)> {
    let width = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, behind) = text.split_at_checked(width)?;
    let behind = behind.trim_start_matches(' ');
    let width = behind.find(|c: char| !(c.is_ascii_alphabetic() || c == 'µ'));
    let (unit, behind) = behind.split_at_checked(width.unwrap_or(behind.len()))?;
    let unit = duration_unit(unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = match (whole, fraction) {
        ("", "") => return None,
        ("", _) => 0,
        (digits, _) => digits.parse().unwrap_or(u128::MAX),
    };
    // Whole numbers are exact, however large.
    let fraction = format!("0.{fraction}").parse::<f64>().ok()? * unit as f64;
    Some((unit.saturating_mul(whole).saturating_add(fraction.round() as u128), behind))
}

/// A second in nanoseconds.
const SECOND: u128 = 1_000_000_000;

/// A unit in nanoseconds.
fn duration_unit(name: &str) -> Option<u128> {
    Some(match name {
        "ns" | "nanosecond" | "nanoseconds" => 1,
        "us" | "µs" | "microsecond" | "microseconds" => 1000,
        "ms" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600 * SECOND,
        "d" | "day" | "days" => 86_400 * SECOND,
        "w" | "week" | "weeks" => 604_800 * SECOND,
        _ => return None,
    })
}

/// Formats a duration for display: `1h 30m`, `1m 30s`, `5s`. Less than a second is left out, and
/// from an hour on less than a minute. [`parse_duration`] reads the result.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (hours, 0, _) => format!("{hours}h"),
        (hours, minutes, _) => format!("{hours}h {minutes}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
        let minute = Duration::from_secs(60);
        for (text, duration) in [
            ("2s", Duration::from_secs(2)),
            ("500ms", Duration::from_millis(500)),
            ("120ms", Duration::from_millis(120)),
            ("0s", Duration::ZERO),
            ("1.5m", minute * 3 / 2),
            ("90min", minute * 90),
            ("1h30m", minute * 90),
            ("1h 30m", minute * 90),
            (" 12 hours ", minute * 720),
            ("1h2m3.5s", minute * 62 + Duration::from_millis(3500)),
            ("3 days, 4 hours and 5 minutes", minute * (76 * 60 + 5)),
            ("30d", minute * 60 * 24 * 30),
            ("2w", minute * 60 * 24 * 14),
            ("7µs", Duration::from_micros(7)),
            ("7ns", Duration::from_nanos(7)),
            ("1234567890123ms", Duration::from_millis(1_234_567_890_123)),
            ("9007199254740993s", Duration::from_secs(9_007_199_254_740_993)),
        ] {
            assert_eq!(parse_duration(text), Ok(duration), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_in_the_same_words() {
        for text in
            ["", "s", "5", "-1s", "1e99s", "2 years", "NaNs", "inf", "1h,", "1h and", "1..2s"]
        {
            let error = parse_duration(text).unwrap_err().to_string();
            assert_eq!(error, format!("invalid duration `{text}` (examples: 30d, 12h, 90m)"));
        }
    }

    #[test]
    fn a_bare_number_is_in_seconds_where_that_is_allowed() {
        assert_eq!(parse_duration_or_seconds("5"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_duration_or_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration_or_seconds("5m"), Ok(Duration::from_secs(300)));
        for text in ["-5", "inf", "NaN", "1e99", "five"] {
            assert!(parse_duration_or_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_follows_a_duration_is_returned() {
        let found = leading_duration("30 seconds. Or later").unwrap();
        assert_eq!(
            found,
            LeadingDuration { duration: Duration::from_secs(30), rest: ". Or later" }
        );
        assert_eq!(leading_duration("1m, then more").unwrap().rest, ", then more");
        assert_eq!(leading_duration("9e9d"), None);
        assert_eq!(leading_duration("99999999999999999999d").unwrap().duration, Duration::MAX);
    }

    #[test]
    fn what_is_printed_is_parsed() {
        for seconds in [0, 5, 59, 60, 90, 3599, 3600, 5400, 90_000] {
            let duration = Duration::from_secs(seconds);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }
}
