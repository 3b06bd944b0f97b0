//! The sums that chain lines together: 120 bits, written as base64url.

use std::fmt;

use abide_model::SessionId;

/// The sum of a line: the first 120 bits of a BLAKE3 hash, as 20 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
        Self(base64url(hash.as_bytes()))
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
        Self(base64url(blake3::keyed_hash(secret, &count.to_le_bytes()).as_bytes()))
    }
}

/// The first characters of bytes in base64url, four for three bytes. On the append path.
fn base64url<const WIDTH: usize>(bytes: &[u8; 32]) -> [u8; WIDTH] {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letter = |bits: u32| ALPHABET.get((bits & 63) as usize).copied().unwrap_or_default();
    let mut text = [b'A'; WIDTH];
    let (fours, _) = text.as_chunks_mut::<4>();
    let (threes, _) = bytes.as_chunks::<3>();
    for (four, [a, b, c]) in fours.iter_mut().zip(threes) {
        let bits = u32::from_be_bytes([0, *a, *b, *c]);
        *four = [letter(bits >> 18), letter(bits >> 12), letter(bits >> 6), letter(bits)];
    }
    text
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    #[test]
    fn sums_and_salts_are_base64url() {
        for number in 0..1000_u32 {
            let hash = blake3::hash(&number.to_le_bytes());
            let expected = URL_SAFE_NO_PAD.encode(&hash.as_bytes()[..15]);
            assert_eq!(Sum::from_hash(&hash).to_string(), expected);
            let secret = *hash.as_bytes();
            let derived = blake3::keyed_hash(&secret, &u64::from(number).to_le_bytes());
            let salt = Salt::derive(&secret, number.into());
            assert_eq!(
                salt.0.as_slice(),
                URL_SAFE_NO_PAD.encode(&derived.as_bytes()[..9]).as_bytes()
            );
        }
    }
}
