//! Times and ages as people write and read them.

use std::str::FromStr;

use abide::Timestamp;
use abide_transcript::parse_duration;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};

use crate::noun_count::noun_count;

/// A time given by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypedTime {
    /// A point in time.
    At(Timestamp),
    /// A day in the user's time zone.
    Day(Date),
    /// This many milliseconds ago.
    Ago(i64),
    /// This many days before today.
    DaysBack(i64),
}

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

impl FromStr for TypedTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.to_lowercase().as_str() {
            "now" => return Ok(Self::Ago(0)),
            "today" => return Ok(Self::DaysBack(0)),
            "yesterday" => return Ok(Self::DaysBack(1)),
            _ => {}
        }
        if let Ok(ago) = parse_duration(text.trim_end_matches("ago"))
            && let Ok(ago) = i64::try_from(ago.as_millis())
        {
            return Ok(Self::Ago(ago));
        }
        if let Ok(at) = text.parse::<jiff::Timestamp>() {
            return Ok(Self::At(Timestamp::from_millis(at.as_millisecond())));
        }
        if let Ok(at) = text.parse::<jiff::civil::DateTime>()
            && text.len() > 10
        {
            let at = at.to_zoned(TimeZone::system()).map_err(|error| error.to_string())?;
            return Ok(Self::At(Timestamp::from_millis(at.timestamp().as_millisecond())));
        }
        text.parse().map(Self::Day).map_err(|_| {
            "expected 2026-11-15, 2026-11-15T01:20:00Z, 90m, 3d, 2w, today or yesterday".to_owned()
        })
    }
}

impl TypedTime {
    /// Its first moment.
    pub(crate) fn first(self, now: jiff::Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => Timestamp::from_millis(now.as_millisecond().saturating_sub(ago)),
            Self::Day(day) => time_when_day_starts(day),
            Self::DaysBack(days) => time_when_day_starts(time_days_back(now, days)),
        }
    }

    /// Its last moment.
    pub(crate) fn last(self, now: jiff::Timestamp) -> Timestamp {
        let day = match self {
            Self::At(_) | Self::Ago(_) => return self.first(now),
            Self::Day(day) => day,
            Self::DaysBack(days) => time_days_back(now, days),
        };
        let next = day.tomorrow().map_or(Timestamp::from_millis(i64::MAX), time_when_day_starts);
        Timestamp::from_millis(next.as_millis() - 1)
    }
}

fn time_days_back(now: jiff::Timestamp, days: i64) -> Date {
    let today = now.to_zoned(TimeZone::system()).date();
    today.checked_sub(days.days()).unwrap_or(today)
}

fn time_when_day_starts(day: Date) -> Timestamp {
    let start: Option<Zoned> = day.to_zoned(TimeZone::system()).ok();
    start.map_or_else(
        || Timestamp::from_millis(i64::MIN),
        |start| Timestamp::from_millis(start.timestamp().as_millisecond()),
    )
}

/// How long ago, in words.
pub(crate) fn time_ago(at: Timestamp, now: jiff::Timestamp) -> String {
    let ago = now.as_millisecond().saturating_sub(at.as_millis());
    let count = |unit: i64, name: &str| {
        let count = ago / unit;
        format!("{} ago", noun_count(count, name))
    };
    match ago {
        i64::MIN..-5000 => "in the future".to_owned(),
        -5000..MINUTE => "just now".to_owned(),
        MINUTE..HOUR => count(MINUTE, "minute"),
        HOUR..DAY => count(HOUR, "hour"),
        _ if ago < 14 * DAY => count(DAY, "day"),
        _ => {
            let at = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
            at.to_zoned(TimeZone::system()).date().to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_times_in_many_ways() {
        let now: jiff::Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let first = |text: &str| text.parse::<TypedTime>().unwrap().first(now).to_string();
        assert_eq!(first("2026-11-14T01:20:00Z"), "2026-11-14T01:20:00.000Z");
        assert_eq!(first("2026-11-14T01:20:00+01:00"), "2026-11-14T00:20:00.000Z");
        assert_eq!(first("90m"), "2026-11-15T10:30:00.000Z");
        assert_eq!(first("3d"), "2026-11-12T12:00:00.000Z");
        assert_eq!(first("2 weeks ago"), "2026-11-01T12:00:00.000Z");
        let day: TypedTime = "2026-11-14".parse().unwrap();
        assert_eq!(day.last(now).as_millis() - day.first(now).as_millis(), DAY - 1);
        let yesterday: TypedTime = "yesterday".parse().unwrap();
        assert_eq!(
            yesterday.last(now).as_millis() + 1,
            "today".parse::<TypedTime>().unwrap().first(now).as_millis()
        );
        for bad in ["", "soon", "3x", "2026-13-01", "99999999999999999999d", "d"] {
            assert!(bad.parse::<TypedTime>().is_err(), "{bad}");
        }
    }

    #[test]
    fn people_read_times_as_how_long_ago() {
        let now = jiff::Timestamp::from_millisecond(100 * DAY).unwrap();
        let said = |back: i64| time_ago(Timestamp::from_millis(100 * DAY - back), now);
        assert_eq!(said(0), "just now");
        assert_eq!(said(MINUTE - 1), "just now");
        assert_eq!(said(3 * MINUTE + 10), "3 minutes ago");
        assert_eq!(said(HOUR), "1 hour ago");
        assert_eq!(said(13 * DAY), "13 days ago");
        assert_eq!(said(99 * DAY), "1970-01-02");
        assert_eq!(said(-HOUR), "in the future");
    }
}
