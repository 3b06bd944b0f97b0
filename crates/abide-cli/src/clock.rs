//! Times for people, in their own time zone.

use abide::Timestamp;
use jiff::tz::TimeZone;

/// `02:20:00` in the user's time zone; with the date if it is not today.
pub(crate) fn local_clock(at: Timestamp) -> String {
    let zone = TimeZone::system();
    let full = clock_day_and_time(&zone, at);
    let today = jiff::Timestamp::now().to_zoned(zone).date().to_string();
    match full.split_once(' ') {
        Some((day, time)) if day == today => time.to_owned(),
        _ => full,
    }
}

/// `2026-11-15 02:20:00` in this time zone.
pub(crate) fn clock_day_and_time(zone: &TimeZone, at: Timestamp) -> String {
    let at = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
    let at = at.to_zoned(zone.clone());
    format!(
        "{}-{:02}-{:02} {:02}:{:02}:{:02}",
        at.year(),
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    )
}
