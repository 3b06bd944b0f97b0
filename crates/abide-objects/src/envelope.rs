//! An object as it is stored: fourteen bytes of header, then its bytes.
//!
//! ```text
//! 0   4  "aobj"
//! 4   1  version: 1
//! 5   1  compression: 0 none, 1 zstd
//! 6   8  plain length, little endian
//! 14  …  the bytes
//! ```
//!
//! A released form never changes; new forms may be added.

use std::io::Read;

use abide_model::ObjectHash;

const MAGIC: [u8; 4] = *b"aobj";
const VERSION: u8 = 1;
const PLAIN: u8 = 0;
const ZSTD: u8 = 1;

/// The least size of a stored object.
pub(crate) const HEADER: usize = 14;

/// zstd's own default.
const LEVEL: i32 = 3;

/// The most memory reserved for a length that is not verified yet.
const TRUSTED: u64 = 16 << 20;

/// Puts an object into its envelope.
pub(crate) fn seal_envelope(plain: &[u8]) -> Vec<u8> {
    let compressed = zstd::bulk::compress(plain, LEVEL).ok();
    let shorter = compressed.as_deref().filter(|bytes| bytes.len() < plain.len());
    let (compression, bytes) = shorter.map_or((PLAIN, plain), |bytes| (ZSTD, bytes));
    let mut sealed = Vec::with_capacity(HEADER + bytes.len());
    sealed.extend_from_slice(&MAGIC);
    sealed.extend_from_slice(&[VERSION, compression]);
    sealed.extend_from_slice(&(plain.len() as u64).to_le_bytes());
    sealed.extend_from_slice(bytes);
    sealed
}

/// Takes an object out of its envelope; `None` if it does not match its name.
pub(crate) fn open_envelope(hash: ObjectHash, sealed: &[u8]) -> Option<Vec<u8>> {
    let (magic, rest) = sealed.split_first_chunk::<4>()?;
    let ([version, compression], rest) = rest.split_first_chunk::<2>()?;
    let (length, bytes) = rest.split_first_chunk::<8>()?;
    let length = u64::from_le_bytes(*length);
    if *magic != MAGIC || *version != VERSION {
        return None;
    }
    let plain = match *compression {
        PLAIN => bytes.to_vec(),
        ZSTD => decompress_envelope(bytes, length)?,
        _ => return None,
    };
    (plain.len() as u64 == length && ObjectHash::of(&plain) == hash).then_some(plain)
}

fn decompress_envelope(bytes: &[u8], length: u64) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(usize::try_from(length.min(TRUSTED)).ok()?);
    let decoder = zstd::stream::read::Decoder::with_buffer(bytes).ok()?;
    // Reading one byte too many detects a wrong length.
    decoder.take(length.saturating_add(1)).read_to_end(&mut plain).ok()?;
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens() {
        for plain in [&b""[..], b"x", &[7; 100_000], b"short and plain"] {
            let sealed = seal_envelope(plain);
            assert_eq!(open_envelope(ObjectHash::of(plain), &sealed).unwrap(), plain);
            assert!(sealed.len() <= HEADER + plain.len());
        }
        assert!(seal_envelope(&[7; 100_000]).len() < 1000);
    }

    #[test]
    fn every_changed_or_missing_byte_is_seen() {
        for plain in [b"bytes that do not shrink".to_vec(), vec![b'a'; 500]] {
            let (hash, sealed) = (ObjectHash::of(&plain), seal_envelope(&plain));
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 0x10;
                // A bit of the compressed form may have no meaning; what opens is still the object.
                assert!(open_envelope(hash, &changed).is_none_or(|opened| opened == plain));
                assert!(open_envelope(hash, &sealed[..at]).is_none());
            }
        }
    }

    #[test]
    fn a_false_length_takes_no_room() {
        let mut sealed = seal_envelope(&[b'a'; 500]);
        sealed[6..14].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(open_envelope(ObjectHash::of(&[b'a'; 500]), &sealed).is_none());
    }

    #[test]
    fn the_form_stays() {
        let sealed = seal_envelope(b"x");
        assert_eq!(sealed, b"aobj\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00x");
    }
}
