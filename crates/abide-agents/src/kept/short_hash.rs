//! Short hashes, by which a reader remembers what it has read without its bytes.

/// How many hexadecimal digits one is written with.
pub(crate) const SHORT_HASH_DIGITS: usize = 10;

/// 40 bits of the hash of a text. A reader compares few of them, all of one session.
pub(crate) fn short_hash(text: &str) -> u64 {
    text_hash(text) >> 24
}

/// The FNV-1a hash of a text.
pub(crate) fn text_hash(text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

/// Its text form.
pub(crate) fn short_hash_text(hash: u64) -> String {
    format!("{hash:010x}")
}

/// Reads the text form.
pub(crate) fn parse_short_hash(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok().filter(|_| text.len() == SHORT_HASH_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_survives_its_text_form() {
        for text in ["", "a", "b5f0c1e2-7d", "小林"] {
            let hash = short_hash(text);
            assert_eq!(parse_short_hash(&short_hash_text(hash)), Some(hash));
        }
        assert_ne!(short_hash("a"), short_hash("b"));
        for bad in ["", "12", "x000000000", "00000000000", "-000000001"] {
            assert_eq!(parse_short_hash(bad), None, "{bad}");
        }
    }
}
