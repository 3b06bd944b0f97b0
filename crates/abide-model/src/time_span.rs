//! A duration in the settings.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{DurationError, parse_duration};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A duration in a setting: `30d`, `12h`, `90m`, or whatever else [`parse_duration`] reads. It is longer
/// than zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeSpan(i64);

impl TimeSpan {
    /// From milliseconds.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// In milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }
}

impl FromStr for TimeSpan {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let duration = parse_duration(text)?;
        let millis = i64::try_from(duration.as_millis()).ok().filter(|millis| *millis > 0);
        millis.map(Self).ok_or_else(|| DurationError { text: text.to_owned() })
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s")];
        match units.iter().find(|(unit, _)| self.0 % unit == 0) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}ms", self.0),
        }
    }
}

impl TryFrom<String> for TimeSpan {
    type Error = DurationError;

    fn try_from(text: String) -> Result<Self, DurationError> {
        text.parse()
    }
}

impl From<TimeSpan> for String {
    fn from(span: TimeSpan) -> Self {
        span.to_string()
    }
}
