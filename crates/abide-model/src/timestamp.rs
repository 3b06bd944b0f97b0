//! A point in time, in milliseconds since 1970, as it is written in the journal.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since 1970-01-01T00:00:00Z, written as `2026-11-15T01:20:00.000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(i64);

const MILLIS_A_DAY: i64 = 86_400_000;
/// Year 0 to the last day but one of year 9999: the range of the text form and its parser.
const LEAST: i64 = -62_167_219_200_000;
const GREATEST: i64 = 253_402_207_200_000;

impl Timestamp {
    /// The length of the text form.
    pub const WIDTH: usize = 24;

    /// From milliseconds since 1970, clamped to the range of the text form.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(LEAST, GREATEST))
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Parses the text form and nothing else. Written by hand because it is on the read path.
    #[must_use]
    pub fn from_ascii(text: &[u8]) -> Option<Self> {
        let text: &[u8; Self::WIDTH] = text.try_into().ok()?;
        let number = |start: usize, width: usize| -> i64 {
            let digits = text.iter().skip(start).take(width);
            digits.fold(0, |sum, digit| sum * 10 + i64::from(digit.wrapping_sub(b'0')))
        };
        let (year, month, day) = (number(0, 4), number(5, 2), number(8, 2));
        // The inverse of the rule below: years begin in March.
        let shifted = if month <= 2 { year - 1 } else { year };
        let era = shifted.div_euclid(400);
        let year_of_era = shifted.rem_euclid(400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        let clock = number(11, 2) * 3_600_000 + number(14, 2) * 60_000 + number(17, 2) * 1000;
        let at = Self::from_millis(days * MILLIS_A_DAY + clock + number(20, 3));
        // Text that is not in this form does not survive the round trip.
        (at.to_ascii() == *text).then_some(at)
    }

    /// The text form. Written by hand because it is on the append path.
    #[must_use]
    pub fn to_ascii(self) -> [u8; Self::WIDTH] {
        let days = self.0.div_euclid(MILLIS_A_DAY);
        let millis = self.0.rem_euclid(MILLIS_A_DAY);
        // Civil date from a day count. The year begins in March, which puts the leap day last, so
        // that the months follow one linear rule over a 400-year era.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);

        // Both are in range: a time has a year of four digits.
        let (year, millis) = (year as u32, millis as u32);
        let [y1, y2] = two_digits(year / 100);
        let [y3, y4] = two_digits(year % 100);
        let [m1, m2] = two_digits(month as u32);
        let [d1, d2] = two_digits(day as u32);
        let [h1, h2] = two_digits(millis / 3_600_000);
        let [n1, n2] = two_digits(millis / 60_000 % 60);
        let [s1, s2] = two_digits(millis / 1000 % 60);
        let [_, f1] = two_digits(millis / 100 % 10);
        let [f2, f3] = two_digits(millis % 100);
        [
            y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2,
            b'.', f1, f2, f3, b'Z',
        ]
    }
}

/// The digits of a number below 100.
const fn two_digits(number: u32) -> [u8; 2] {
    [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_ascii()).unwrap_or("?"))
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    /// Parses any RFC 3339 time with an offset.
    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse::<jiff::Timestamp>().map(|at| Self::from_millis(at.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_written_form_is_what_jiff_writes() {
        for millis in [0, 951_782_400_000, 1_709_164_800_001, 1_763_169_600_123, GREATEST, LEAST] {
            let written = Timestamp::from_millis(millis).to_string();
            let jiff = jiff::Timestamp::from_millisecond(millis).unwrap();
            assert_eq!(written.parse::<jiff::Timestamp>().unwrap(), jiff, "{written}");
        }
    }

    #[test]
    fn only_the_written_form_is_read_back() {
        for wrong in [
            "2026-13-01T00:00:00.000Z",
            "2026-02-30T00:00:00.000Z",
            "2026-01-01t00:00:00.000Z",
            "2026-01-01T24:00:00.000Z",
            "x026-01-01T00:00:00.000Z",
            "",
        ] {
            assert_eq!(Timestamp::from_ascii(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn every_time_comes_back(millis in LEAST..=GREATEST) {
            let at = Timestamp::from_millis(millis);
            prop_assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
            prop_assert_eq!(Timestamp::from_ascii(&at.to_ascii()), Some(at));
        }
    }
}
