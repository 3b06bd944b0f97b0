//! Private keys in PEM and OpenPGP armour, also with escaped line ends and without their end.

/// The longest key that is taken as a whole.
pub(crate) const LONGEST_KEY: usize = 32 * 1024;
/// How every block begins.
pub(crate) const BEGINNING: &str = "-----BEGIN";
const LONGEST_LABEL: usize = 100;

/// What stands at the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PemReading {
    /// A private key of this length.
    Key(usize),
    /// More bytes are needed to tell.
    Unfinished,
    /// Something else.
    Other,
}

/// Reads the private key at the beginning of `bytes`, which are all there is if `ended`.
///
/// A key whose end is missing reaches as far as its lines look like a key's: output is often cut.
pub(crate) fn read_private_key(bytes: &[u8], ended: bool) -> PemReading {
    let Some(after) = bytes.strip_prefix(BEGINNING.as_bytes()) else { return PemReading::Other };
    let label_length = after
        .iter()
        .take(LONGEST_LABEL + 1)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'_'))
        .count();
    let (label, rest) = after.split_at_checked(label_length).unwrap_or((after, &[]));
    if rest.len() < 5 && !ended && label_length <= LONGEST_LABEL {
        return PemReading::Unfinished;
    }
    let label = label.strip_suffix(b" BLOCK").unwrap_or(label);
    if !rest.starts_with(b"-----") || !label.ends_with(b"PRIVATE KEY") {
        return PemReading::Other;
    }
    let head = bytes.len() - rest.len() + 5;
    let body_limit = bytes.len().min(LONGEST_KEY);
    let body = bytes.get(head..body_limit).unwrap_or_default();
    if let Some(end) = memchr::memmem::find(body, b"-----END") {
        let tail = body.get(end + 8..).unwrap_or_default();
        let label = tail
            .iter()
            .take(LONGEST_LABEL + 20)
            .take_while(|byte| **byte != b'-' && **byte != b'\n')
            .count();
        let dashes = tail
            .get(label..)
            .unwrap_or_default()
            .iter()
            .take(5)
            .take_while(|byte| **byte == b'-')
            .count();
        if dashes < 5 && !ended && bytes.len() < LONGEST_KEY && label + dashes == tail.len() {
            return PemReading::Unfinished;
        }
        let length = head + end + 8 + label + dashes;
        return if is_key_body(body.get(..end).unwrap_or_default()) {
            PemReading::Key(length)
        } else {
            PemReading::Other
        };
    }
    if !ended && bytes.len() < LONGEST_KEY {
        return PemReading::Unfinished;
    }
    let length = body.iter().take_while(|byte| is_body_byte(**byte)).count();
    if is_key_body(body.get(..length).unwrap_or_default()) {
        PemReading::Key(head + length)
    } else {
        PemReading::Other
    }
}

/// Bytes of base64, its headers, and escaped or quoted line ends.
const fn is_body_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'+' | b'/'
                | b'='
                | b'\\'
                | b'"'
                | b'\''
                | b','
                | b':'
                | b'-'
                | b'_'
                | b' '
                | b'\t'
                | b'\r'
                | b'\n'
        )
}

/// Whether it has enough of a key: 40 bytes of base64 in a run.
fn is_key_body(body: &[u8]) -> bool {
    let mut run = 0;
    body.iter().any(|byte| {
        run = if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=') {
            run + 1
        } else {
            0
        };
        run >= 40
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(label: &str, line_end: &str) -> String {
        let line = "NotAKeyButOfItsShape".repeat(3) + "+/==" + line_end;
        format!("-----BEGIN {label}-----{line_end}{}-----END {label}-----", line.repeat(5))
    }

    #[test]
    fn keys_are_found_whole_and_certificates_are_not() {
        for label in
            ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
        {
            for line_end in ["\n", "\\n", "\r\n", "\\\\n"] {
                let key = block(label, line_end);
                let text = format!("{key}\nand more");
                assert_eq!(
                    read_private_key(text.as_bytes(), true),
                    PemReading::Key(key.len()),
                    "{key}"
                );
                for cut in 11..key.len() {
                    assert_eq!(
                        read_private_key(&key.as_bytes()[..cut], false),
                        PemReading::Unfinished
                    );
                }
            }
        }
        assert_eq!(
            read_private_key(block("CERTIFICATE", "\n").as_bytes(), true),
            PemReading::Other
        );
        assert_eq!(
            read_private_key(b"-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", true),
            PemReading::Other
        );
    }

    #[test]
    fn a_key_without_its_end_reaches_as_far_as_it_looks_like_one() {
        let key = block("PRIVATE KEY", "\n");
        let cut = &key[..key.len() - 27];
        let text = format!("{cut}[truncated]");
        assert_eq!(read_private_key(text.as_bytes(), true), PemReading::Key(cut.len()));
    }
}
