//! Amounts of a run: limits as arguments, money as text.

use std::time::Duration;

use crate::duration::duration;

/// A time of more than nothing: `90m`, `8h`.
pub(super) fn parse_limited_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < Duration::from_millis(1) { Err("at least 1ms".to_owned()) } else { Ok(time) }
}

/// Dollars in millionths: `5`, `2.50`, `$0.25`.
pub(super) fn parse_cost(text: &str) -> Result<u64, String> {
    let wrong = || format!("invalid amount `{text}` (examples: 5, 2.50)");
    let digits = text.strip_prefix('$').unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    if whole.is_empty() && part.is_empty()
        || !is_number(whole)
        || !is_number(part)
        || part.len() > 6
    {
        return Err(wrong());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
    let part: u64 = format!("{part:0<6}").parse().map_err(|_| wrong())?;
    let micros = whole.checked_mul(1_000_000).and_then(|whole| whole.checked_add(part));
    micros.filter(|micros| *micros > 0).ok_or_else(wrong)
}

/// A number of tokens, at least one: `200000`, `200k`, `2M`.
pub(super) fn parse_token_limit(text: &str) -> Result<u64, String> {
    let wrong = || format!("invalid number `{text}` (examples: 200000, 200k, 2M)");
    abide::context::parse_token_count(text).filter(|count| *count > 0).ok_or_else(wrong)
}

/// Millionths of a dollar, for display: `$2.51`, `$0.0042`.
pub(super) fn money_amount(micros: u64) -> String {
    let (dollars, part) = (micros / 1_000_000, micros % 1_000_000);
    if micros < 10_000 {
        format!("${dollars}.{:04}", part / 100)
    } else {
        format!("${dollars}.{:02}", part / 10_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read() {
        assert_eq!(parse_cost("5"), Ok(5_000_000));
        assert_eq!(parse_cost("2.5"), Ok(2_500_000));
        assert_eq!(parse_cost("$.000001"), Ok(1));
        assert_eq!(parse_limited_time("8h"), Ok(Duration::from_secs(8 * 3600)));
        assert!(
            parse_limited_time("0").is_err()
                && parse_limited_time("0s").is_err()
                && parse_limited_time("soon").is_err()
        );
        assert_eq!(parse_token_limit("200k"), Ok(200_000));
        assert_eq!(parse_token_limit("2M"), Ok(2_000_000));
        for wrong in ["", ".", "-1", "0", "0.0", "1.2345678", "1e3", "99999999999999999999", "1.x"]
        {
            assert!(parse_cost(wrong).is_err(), "{wrong:?}");
        }
        for wrong in
            ["", "k", "0", "-1", "1.5M", "3G", "99999999999999999999", "18446744073709551615k"]
        {
            assert!(parse_token_limit(wrong).is_err(), "{wrong:?}");
        }
    }
}
