//! The sums that chain lines together: 120 bits, written as base64url.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use abide_model::SessionId;

/// The sum of a line: the first 120 bits of a BLAKE3 hash, as 20 characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sum([u8; Sum::WIDTH]);

impl Sum {
    /// Length in characters.
    pub const WIDTH: usize = 20;

    /// The sum that a session's first line is chained to.
    #[must_use]
    pub fn genesis(session: SessionId) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"abide journal 1 ");
        hasher.update(session.as_bytes());
        Self::from_hash(&hasher.finalize())
    }

    pub(crate) fn from_hash(hash: &blake3::Hash) -> Self {
        let mut text = [b'A'; Self::WIDTH];
        let bits = hash.as_bytes().get(..15).unwrap_or_default();
        // Fifteen bytes encode to exactly twenty characters, so this cannot fail.
        let _ = URL_SAFE_NO_PAD.encode_slice(bits, &mut text);
        Self(text)
    }

    /// Parses the written form.
    #[must_use]
    pub fn from_ascii(text: &[u8]) -> Option<Self> {
        let text: [u8; Self::WIDTH] = text.try_into().ok()?;
        text.iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            .then_some(Self(text))
    }

    /// The link that the next line holds.
    #[must_use]
    pub fn link(&self) -> Link {
        let mut link = [b'A'; Link::WIDTH];
        for (to, from) in link.iter_mut().zip(self.0) {
            *to = from;
        }
        Link(link)
    }

    /// The written form.
    #[must_use]
    pub const fn as_ascii(&self) -> &[u8; Self::WIDTH] {
        &self.0
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.0).unwrap_or("?"))
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sum({self})")
    }
}

/// The link to the previous line: the first 72 bits of its sum, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link(pub(crate) [u8; Link::WIDTH]);

impl Link {
    /// Length in characters.
    pub const WIDTH: usize = 12;

    /// A sum that has this link.
    pub(crate) fn padded(self) -> Sum {
        let mut text = [b'A'; Sum::WIDTH];
        for (place, byte) in text.iter_mut().zip(self.0) {
            *place = byte;
        }
        Sum(text)
    }
}

/// The salt of a line: 72 random bits, so that the digest of an erased payload reveals nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub [u8; Salt::WIDTH]);

impl Salt {
    /// Length in characters.
    pub const WIDTH: usize = 12;

    /// Replaces the salt once the payload is erased.
    pub const ERASED: Self = Self([b'-'; Self::WIDTH]);

    /// Derives the salt of an event from a secret that is never stored.
    #[must_use]
    pub fn derive(secret: &[u8; 32], count: u64) -> Self {
        let hash = blake3::keyed_hash(secret, &count.to_le_bytes());
        let mut text = [b'A'; Self::WIDTH];
        let _ =
            URL_SAFE_NO_PAD.encode_slice(hash.as_bytes().get(..9).unwrap_or_default(), &mut text);
        Self(text)
    }
}
