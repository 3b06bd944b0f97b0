//! Ids, sequence numbers and hashes, each a newtype so that they cannot be confused.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Why a text is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// Not a hyphenated UUID.
    #[error("invalid session id {0:?}")]
    Session(String),
    /// Not 64 hexadecimal digits.
    #[error("invalid object hash {0:?}")]
    Hash(String),
}

/// The id of a session: a UUIDv7 that never changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(uuid::Uuid);

/// Crockford's alphabet in lower case: no `i`, `l`, `o`, `u`, so a short id can be read aloud.
const SHORT_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

impl SessionId {
    /// The minimum length of a short id.
    pub const SHORT: usize = 6;

    /// A UUIDv7 from the current time and ten random bytes.
    #[must_use]
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(at.as_millis()).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// When the session was created, as recorded in the id.
    #[must_use]
    pub fn created(&self) -> Timestamp {
        let millis = self.0.as_u128() >> 80;
        Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
    }

    /// The short id for people: `length` characters of the random part. A longer one starts with a
    /// shorter one.
    #[must_use]
    pub fn short(&self, length: usize) -> String {
        let mut rest = self.0.as_u128();
        let mut short = String::with_capacity(length);
        for _ in 0..length.clamp(1, 12) {
            let digit = usize::try_from(rest & 31).unwrap_or(0);
            short.push(char::from(*SHORT_ALPHABET.get(digit).unwrap_or(&b'0')));
            rest >>= 5;
        }
        short
    }

    /// The id with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(uuid::Uuid::from_bytes(bytes))
    }

    /// The bytes of the id.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

impl FromStr for SessionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if text.len() != 36 {
            return Err(IdError::Session(text.to_owned()));
        }
        uuid::Uuid::try_parse(text).map(Self).map_err(|_| IdError::Session(text.to_owned()))
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The next number.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// The sequence number of an event in its session: 1, 2, 3 …
    Seq
);
number!(
    /// The number of a writer's tenure. Each writer that opens a session gets a greater one.
    Epoch
);
number!(
    /// The number of a turn. Never reused in a session, not even after a rewind.
    TurnNumber
);

impl Seq {
    /// Before the first event.
    pub const ZERO: Self = Self(0);
    /// The first event of a session.
    pub const FIRST: Self = Self(1);

    /// `count` less than this, but not below [`Seq::ZERO`].
    #[must_use]
    pub const fn back(self, count: u64) -> Self {
        Self(self.0.saturating_sub(count))
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

name!(
    /// The id of a task, as given in its task list (`P1.M1.T1.S2`).
    TaskId
);
name!(
    /// The name of a lane. Each subagent or parallel job has its own lane.
    LaneId
);
name!(
    /// The id that links a tool call to its result.
    CallId
);

/// The BLAKE3 hash of an object's bytes, which names it in the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectHash(pub [u8; 32]);

impl ObjectHash {
    /// The hash of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The bytes of the hash.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectHash({self})")
    }
}

impl FromStr for ObjectHash {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        blake3::Hash::from_hex(text)
            .map(|hash| Self(*hash.as_bytes()))
            .map_err(|_| IdError::Hash(text.to_owned()))
    }
}

impl Serialize for ObjectHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_tells_its_time_and_its_short_id() {
        let id = SessionId::new(Timestamp::from_millis(1_763_169_600_123), [7; 10]);
        assert_eq!(id.created().as_millis(), 1_763_169_600_123);
        assert_eq!(id.short(6).len(), 6);
        assert!(id.short(8).starts_with(&id.short(6)));
        assert_eq!(id.to_string().parse::<SessionId>().unwrap(), id);
        assert!("abc".parse::<SessionId>().is_err());
    }
}
