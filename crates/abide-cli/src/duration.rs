//! Durations as arguments.

use std::time::Duration;

use abide_transcript::parse_duration_or_seconds;

/// The longest duration of an argument.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Parses the duration in an argument: `90m`, `500ms`, `1h 30m`; a bare number is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration_or_seconds(text).map_err(|error| error.to_string())?;
    if duration > LONGEST {
        return Err("longer than a year".to_owned());
    }
    Ok(duration)
}

/// The time between two checkpoints. A bare number could be seconds or minutes, so it needs a unit.
pub(crate) fn checkpoint_interval(text: &str) -> Result<Duration, String> {
    let bare = text.trim();
    if !bare.is_empty() && bare.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(format!("a time needs a unit, such as `{bare}m` or `{bare}s`"));
    }
    let interval = duration(text)?;
    if interval < Duration::from_secs(1) {
        return Err("at least 1s".to_owned());
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_needs_a_unit() {
        assert_eq!(checkpoint_interval("5m"), Ok(Duration::from_secs(300)));
        let bare = "a time needs a unit, such as `5m` or `5s`";
        assert_eq!(checkpoint_interval("5"), Err(bare.to_owned()));
        assert_eq!(checkpoint_interval("0s"), Err("at least 1s".to_owned()));
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("366d"), Ok(LONGEST));
        for wrong in ["", "s", "-1s", "1e99s", "2 years", "NaNs", "inf", "367d"] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
        let soon = duration("soon").unwrap_err();
        assert_eq!(soon, "invalid duration `soon` (examples: 30d, 12h, 90m)");
    }
}
