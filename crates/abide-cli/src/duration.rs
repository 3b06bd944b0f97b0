//! Durations as arguments.

use std::time::Duration;

/// A duration: `2s`, `500ms`, `1m`; a bare number is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let scale = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit {unit:?} (units: ms, s, m, h)")),
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| "expected a number and a unit, such as 2s or 500ms".to_owned())?;
    Duration::try_from_secs_f64(number * scale)
        .ok()
        .filter(|wait| *wait <= Duration::from_secs(366 * 86_400))
        .ok_or_else(|| "out of range: from 0 to a year".to_owned())
}

/// The time between two checkpoints.
pub(crate) fn checkpoint_interval(text: &str) -> Result<Duration, String> {
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
    fn times_are_read() {
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        for wrong in ["", "s", "-1s", "1e99s", "2 years", "NaNs", "inf"] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }
}
