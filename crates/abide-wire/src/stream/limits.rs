//! Parses rate limits from the headers of an answer.

use abide_model::{LimitObservation, Timestamp, parse_duration};

/// The rate limits in the headers of an answer: `x-ratelimit-*` as OpenAI and many others send
/// them, `anthropic-ratelimit-*`, and `retry-after`, reported as the limit `retry`. Names are the
/// provider's with `_` for `-`: `requests`, `tokens`, `input_tokens`. Headers that cannot be parsed
/// are ignored.
///
/// `now` is when the headers arrived: some give a duration, not a time.
pub fn limits<'a>(
    headers: impl Iterator<Item = (&'a str, &'a str)>,
    now: Timestamp,
) -> Vec<LimitObservation> {
    let mut found: Vec<LimitObservation> = Vec::new();
    for (header, value) in headers {
        let header = header.trim().to_ascii_lowercase();
        let Some((name, fact)) = parts(&header) else { continue };
        let value = value.trim();
        let told = LimitObservation {
            name: name.replace('-', "_"),
            limit: number(value).filter(|_| fact == "limit"),
            remaining: number(value).filter(|_| fact == "remaining"),
            resets: match fact {
                "reset" => time(value, now),
                "reset-ms" => value.parse().ok().and_then(|ms| later(now, ms)),
                _ => None,
            },
        };
        if told.limit.is_none() && told.remaining.is_none() && told.resets.is_none() {
            continue;
        }
        match found.iter_mut().find(|limit| limit.name == told.name) {
            Some(limit) => {
                limit.limit = told.limit.or(limit.limit);
                limit.remaining = told.remaining.or(limit.remaining);
                limit.resets = told.resets.or(limit.resets);
            }
            None => found.push(told),
        }
    }
    found
}

/// The limit a header is about, and which fact it gives.
fn parts(header: &str) -> Option<(&str, &str)> {
    match header {
        "retry-after" => return Some(("retry", "reset")),
        "retry-after-ms" => return Some(("retry", "reset-ms")),
        _ => {}
    }
    if let Some(rest) = header.strip_prefix("x-ratelimit-") {
        let (fact, name) = rest.split_once('-')?;
        return Some((name, fact));
    }
    header.strip_prefix("anthropic-ratelimit-")?.rsplit_once('-')
}

fn number(value: &str) -> Option<u64> {
    // `100, 100;window=60` is a number followed by a policy.
    value.split([',', ';']).next()?.trim().parse().ok()
}

/// Parses a time: RFC 3339, an HTTP date, seconds or milliseconds since 1970, or a duration from
/// now.
fn time(value: &str, now: Timestamp) -> Option<Timestamp> {
    /// Seconds: longer than any wait, and less than the time since 1970.
    const WAIT: f64 = 1e9;
    if let Ok(number) = value.parse::<f64>() {
        return match number {
            seconds if seconds < WAIT => later(now, seconds * 1e3),
            seconds if seconds < WAIT * 1e3 => later(Timestamp::from_millis(0), seconds * 1e3),
            millis => later(Timestamp::from_millis(0), millis),
        };
    }
    let units = || later(now, parse_duration(value).ok()?.as_secs_f64() * 1e3);
    value.parse().ok().or_else(|| http_date(value)).or_else(units)
}

fn later(from: Timestamp, millis: f64) -> Option<Timestamp> {
    if !(millis.is_finite() && millis >= 0.0) {
        return None;
    }
    // The conversion saturates.
    Some(Timestamp::from_millis(from.as_millis().saturating_add(millis.round() as i64)))
}

/// `Wed, 21 Oct 2015 07:28:00 GMT`.
fn http_date(value: &str) -> Option<Timestamp> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = value.split_once(", ")?.1.split(' ');
    let (day, month, year) = (words.next()?, words.next()?, words.next()?);
    let (clock, zone) = (words.next()?, words.next()?);
    if zone != "GMT" {
        return None;
    }
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    format!("{year}-{month:02}-{day}T{clock}Z").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Option<Timestamp> {
        Some(Timestamp::from_millis(millis))
    }

    const NOW: i64 = 1_763_200_000_000;

    fn read(headers: &[(&str, &str)]) -> Vec<LimitObservation> {
        limits(headers.iter().copied(), Timestamp::from_millis(NOW))
    }

    fn observed(
        name: &str,
        limit: Option<u64>,
        remaining: Option<u64>,
        resets: Option<Timestamp>,
    ) -> LimitObservation {
        LimitObservation { name: name.to_owned(), limit, remaining, resets }
    }

    #[test]
    fn headers_of_openai() {
        let found = read(&[
            ("content-type", "text/event-stream"),
            ("X-RateLimit-Limit-Requests", "60"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ]);
        assert_eq!(
            found,
            [
                observed("requests", Some(60), Some(59), at(NOW + 1000)),
                observed("tokens", Some(150_000), Some(149_984), at(NOW + 360_000)),
            ]
        );
    }

    #[test]
    fn headers_of_anthropic() {
        let found = read(&[
            ("anthropic-ratelimit-input-tokens-limit", "2000000"),
            ("anthropic-ratelimit-input-tokens-remaining", "1999000"),
            ("anthropic-ratelimit-input-tokens-reset", "2025-11-15T09:47:00Z"),
            ("anthropic-ratelimit-unified-5h-reset", "1763200300"),
            ("anthropic-ratelimit-unified-5h-status", "allowed"),
            ("retry-after", "30"),
        ]);
        assert_eq!(
            found,
            [
                observed("input_tokens", Some(2_000_000), Some(1_999_000), at(NOW + 20_000)),
                observed("unified_5h", None, None, at(NOW + 300_000)),
                observed("retry", None, None, at(NOW + 30_000)),
            ]
        );
    }

    #[test]
    fn times_of_every_sort() {
        for (value, wanted) in [
            ("0", Some(NOW)),
            ("7.66", Some(NOW + 7660)),
            ("120ms", Some(NOW + 120)),
            ("1h2m3.5s", Some(NOW + 3_723_500)),
            ("1d", Some(NOW + 86_400_000)),
            ("1763200300000", Some(NOW + 300_000)),
            ("Sat, 15 Nov 2025 09:47:00 GMT", Some(NOW + 20_000)),
            ("", None),
            ("soon", None),
            ("-5", None),
            ("1x", None),
            ("nan", None),
            ("5s5", None),
            ("Sat, 99 Nov 2025 09:47:00 GMT", None),
        ] {
            let found = read(&[("Retry-After", value)]);
            let resets = found.first().and_then(|limit| limit.resets);
            assert_eq!(resets, wanted.and_then(at), "{value}");
        }
        let found = read(&[("retry-after-ms", "250")]);
        assert_eq!(found, [observed("retry", None, None, at(NOW + 250))]);
    }

    #[test]
    fn what_cannot_be_read_is_passed_over() {
        let found = read(&[
            ("x-ratelimit-limit-requests", "many"),
            ("x-ratelimit-limit", "5"),
            ("anthropic-ratelimit-", "5"),
            ("x-ratelimit-remaining-tokens", "-1"),
            ("x-ratelimit-limit-tokens", "100, 100;window=60"),
        ]);
        assert_eq!(found, [observed("tokens", Some(100), None, None)]);
    }
}
