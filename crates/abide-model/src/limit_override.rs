//! A limit that a setting takes away or sets.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{ByteSize, DurationError, TimeSpan};

/// A limit that overrides another one: `off`, or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitOverride<T> {
    /// No limit.
    Off,
    /// This limit.
    At(T),
}

impl<T> LimitOverride<T> {
    /// `this` where it is given, else `other`.
    pub(crate) fn over(this: Option<Self>, other: Option<T>) -> Option<T> {
        match this {
            None => other,
            Some(Self::Off) => None,
            Some(Self::At(limit)) => Some(limit),
        }
    }
}

/// The text for [`LimitOverride::Off`].
const OFF: &str = "off";

impl<'de, T: LimitValue> Deserialize<'de> for LimitOverride<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct LimitVisitor<T>(PhantomData<T>);
        impl<T: LimitValue> Visitor<'_> for LimitVisitor<T> {
            type Value = LimitOverride<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} or \"{OFF}\"", T::EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<LimitOverride<T>, E> {
                match text {
                    OFF => Ok(LimitOverride::Off),
                    text => T::of_text(text).map(LimitOverride::At).map_err(E::custom),
                }
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<LimitOverride<T>, E> {
                let wrong = || E::invalid_type(Unexpected::Unsigned(number), &self);
                T::of_number(number).map(LimitOverride::At).ok_or_else(wrong)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<LimitOverride<T>, E> {
                let wrong = || E::invalid_type(Unexpected::Signed(number), &self);
                let limit = u64::try_from(number).ok().and_then(T::of_number);
                limit.map(LimitOverride::At).ok_or_else(wrong)
            }
        }
        from.deserialize_any(LimitVisitor(PhantomData))
    }
}

/// A value that can be a limit.
trait LimitValue: Sized {
    const EXPECTED: &str;
    fn of_text(text: &str) -> Result<Self, String>;
    fn of_number(number: u64) -> Option<Self>;
}

impl LimitValue for TimeSpan {
    const EXPECTED: &str = "a duration";

    fn of_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: DurationError| error.to_string())
    }

    fn of_number(_: u64) -> Option<Self> {
        None
    }
}

impl LimitValue for ByteSize {
    const EXPECTED: &str = "a size";

    fn of_text(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn of_number(_: u64) -> Option<Self> {
        None
    }
}

impl LimitValue for u64 {
    const EXPECTED: &str = "a number";

    fn of_text(text: &str) -> Result<Self, String> {
        Err(format!("invalid number `{text}`"))
    }

    fn of_number(number: u64) -> Option<Self> {
        Some(number)
    }
}
