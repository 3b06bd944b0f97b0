//! When a context counts as too full.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// When a context counts as too full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// More tokens than this.
    Tokens(u64),
    /// More than this share of the model's window, from 0 to 1.
    Share(f64),
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a number of tokens (100000, 100k, 2M) or a share of the window (80%)"
            )
        };
        if let Some(share) = text.strip_suffix('%') {
            let share: f64 = share.trim().parse().map_err(|_| wrong())?;
            return (share > 0.0 && share <= 100.0)
                .then_some(Self::Share(share / 100.0))
                .ok_or_else(wrong);
        }
        parse_token_count(text).map(Self::Tokens).ok_or_else(wrong)
    }
}

/// A number of tokens: `200000`, `200_000`, `200k`, `2M`. `None` if it is none.
#[must_use]
pub fn parse_token_count(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text.get(digits.len()..)? {
        "" => 1,
        "k" | "K" => 1000,
        "M" => 1_000_000,
        _ => return None,
    };
    let number: u64 = digits.replace(['_', ','], "").parse().ok()?;
    number.checked_mul(unit)
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(tokens) => write!(f, "{tokens} tokens"),
            Self::Share(share) => write!(f, "{:.0}% of the window", share * 100.0),
        }
    }
}

impl Threshold {
    /// The threshold in tokens; `None` for a share of an unknown window.
    #[must_use]
    pub fn tokens(&self, window: Option<u64>) -> Option<u64> {
        match self {
            Self::Tokens(tokens) => Some(*tokens),
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
            #[allow(clippy::cast_sign_loss)]
            Self::Share(share) => window.map(|window| (window as f64 * share) as u64),
        }
    }
}

/// `compact_over`: whether contexts are compacted by themselves, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AutoCompaction {
    /// Never.
    Off,
    /// When a turn has ended and the context exceeds this.
    Over(Threshold),
}

impl AutoCompaction {
    /// The threshold; `None` if contexts are never compacted by themselves.
    #[must_use]
    pub const fn threshold(self) -> Option<Threshold> {
        match self {
            Self::Off => None,
            Self::Over(threshold) => Some(threshold),
        }
    }
}

impl FromStr for AutoCompaction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            text => match text.parse() {
                // Nothing would ever be under it.
                Ok(Threshold::Tokens(0)) => {
                    Err("0 tokens are no threshold; \"off\" compacts nothing".to_owned())
                }
                Ok(threshold) => Ok(Self::Over(threshold)),
                Err(wrong) => Err(format!("{wrong} or \"off\"")),
            },
        }
    }
}

/// As it is written: `80%`, `100000`, `off`.
impl fmt::Display for AutoCompaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Over(Threshold::Tokens(tokens)) => write!(f, "{tokens}"),
            // 0.57 * 100 is not 57.
            Self::Over(Threshold::Share(share)) => {
                write!(f, "{}%", (share * 100.0 * 1e6).round() / 1e6)
            }
        }
    }
}

impl Serialize for AutoCompaction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AutoCompaction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a number of tokens, a share of the window (\"80%\"), or \"off\""
        )]
        enum WrittenThreshold {
            Tokens(u64),
            Text(String),
        }
        let text = match WrittenThreshold::deserialize(deserializer)? {
            WrittenThreshold::Tokens(tokens) => tokens.to_string(),
            WrittenThreshold::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read() {
        assert_eq!("80%".parse(), Ok(Threshold::Share(0.8)));
        assert_eq!("100k".parse(), Ok(Threshold::Tokens(100_000)));
        assert_eq!("150_000".parse(), Ok(Threshold::Tokens(150_000)));
        assert_eq!("2M".parse(), Ok(Threshold::Tokens(2_000_000)));
        assert_eq!(parse_token_count("1,000k"), Some(1_000_000));
        for wrong in [
            "",
            "%",
            "0%",
            "101%",
            "NaN%",
            "many",
            "-1",
            "k",
            "1.5M",
            "3G",
            "99999999999999999999k",
        ] {
            assert!(wrong.parse::<Threshold>().is_err(), "{wrong:?}");
            assert!(wrong.parse::<AutoCompaction>().is_err(), "{wrong:?}");
        }
        assert_eq!(Threshold::Share(0.5).tokens(Some(1000)), Some(500));
        assert_eq!(Threshold::Share(0.5).tokens(None), None);
    }

    #[test]
    fn a_setting_is_written_as_it_is_read() {
        for text in ["80%", "57%", "12.5%", "120000", "off"] {
            let read: AutoCompaction = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
            let json = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<AutoCompaction>(&json).unwrap(), read, "{json}");
        }
        let tokens = serde_json::from_str("120000").unwrap();
        assert_eq!(AutoCompaction::Over(Threshold::Tokens(120_000)), tokens);
        assert!("0".parse::<AutoCompaction>().unwrap_err().contains("off"));
        for wrong in ["true", "-1", "\"soon\"", "0.8", "[]"] {
            assert!(serde_json::from_str::<AutoCompaction>(wrong).is_err(), "{wrong}");
        }
    }
}
