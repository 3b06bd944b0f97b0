//! Private keys in PEM and OpenPGP armour, also with escaped line ends and without their end.

use crate::byte_class::ByteClass;

/// The longest key that is taken as a whole.
const LONGEST_KEY: usize = 32 * 1024;
/// How every block begins.
pub(crate) const BEGINNING: &str = "-----BEGIN";
const LONGEST_LABEL: usize = 100;
/// A search for one string costs as much for so many bytes as what else is done costs for one.
const SEARCHED_AS_ONE: usize = 16;
/// A key has a run of base64 as long as this.
const LEAST_RUN: usize = 40;

/// What stands at the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PemReading {
    /// A private key.
    Key {
        /// Its length.
        length: usize,
        /// What it took to find its end, in bytes.
        work: usize,
    },
    /// More bytes are needed to tell.
    Unfinished,
    /// Something else, which was told by so many bytes.
    Other {
        /// How many.
        looked_at: usize,
    },
}

impl PemReading {
    /// How many bytes were read for it.
    pub(crate) const fn work(self) -> u64 {
        match self {
            Self::Key { work, .. } | Self::Other { looked_at: work } => work as u64,
            Self::Unfinished => 0,
        }
    }
}

/// What the head of a block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PemHead {
    /// A private key follows after so many bytes.
    PrivateKey(usize),
    /// More bytes are needed to tell.
    Unfinished,
    /// Something else, such as a certificate; so many bytes were read.
    Other(usize),
}

/// Reads the head of the block at the beginning of `bytes`: what follows its label is not looked at.
fn read_head(bytes: &[u8], ended: bool) -> PemHead {
    let Some(after) = bytes.strip_prefix(BEGINNING.as_bytes()) else { return PemHead::Other(0) };
    let label_length = after
        .iter()
        .take(LONGEST_LABEL + 1)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'_'))
        .count();
    let (label, rest) = after.split_at_checked(label_length).unwrap_or((after, &[]));
    if rest.len() < 5 && !ended && label_length <= LONGEST_LABEL {
        return PemHead::Unfinished;
    }
    let label = label.strip_suffix(b" BLOCK").unwrap_or(label);
    if rest.starts_with(b"-----") && label.ends_with(b"PRIVATE KEY") {
        PemHead::PrivateKey(BEGINNING.len() + label_length + 5)
    } else {
        PemHead::Other(BEGINNING.len() + label_length)
    }
}

/// Reads the private key at the beginning of `bytes`, which are all there is if `ended`.
///
/// A key whose end is missing reaches as far as its lines look like a key's: output is often cut.
pub(crate) fn read_private_key(bytes: &[u8], ended: bool) -> PemReading {
    let head = match read_head(bytes, ended) {
        PemHead::PrivateKey(head) => head,
        PemHead::Unfinished => return PemReading::Unfinished,
        PemHead::Other(looked_at) => return PemReading::Other { looked_at },
    };
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
            PemReading::Key { length, work: length }
        } else {
            PemReading::Other { looked_at: length }
        };
    }
    if !ended && bytes.len() < LONGEST_KEY {
        return PemReading::Unfinished;
    }
    // Runs are found faster than the end of the body, and only keys have them.
    let run_end = BASE64.run_end(body, LEAST_RUN);
    let length = run_end.map_or(0, |_| body.iter().take_while(|byte| BODY.has(**byte)).count());
    if run_end.is_some_and(|end| end <= length) {
        // All of it was searched for the end, which costs little for each byte.
        PemReading::Key {
            length: head + length,
            work: head + length + body_limit / SEARCHED_AS_ONE,
        }
    } else {
        PemReading::Other { looked_at: body_limit }
    }
}

/// Whether a private key may have begun at the beginning of `bytes`, and goes on behind them. What follows its
/// header looks like a key then: prose that only names the header is none.
pub(crate) fn is_begun_key(bytes: &[u8]) -> bool {
    if read_private_key(bytes, false) != PemReading::Unfinished {
        return false;
    }
    let label = bytes.get(BEGINNING.len()..).unwrap_or_default();
    let Some(dashes) = memchr::memchr(b'-', label) else { return !label.contains(&b'\n') };
    // From the last word of the header on, so that another one after it counts as the second.
    let rest = label.get(dashes.saturating_sub("KEY".len())..).unwrap_or_default();
    if rest.len() < "KEY-----".len() {
        return !rest.contains(&b'\n');
    }
    let mut lines = rest.split(|byte| *byte == b'\n');
    let cut_line = lines.next_back().unwrap_or_default();
    is_key_text(cut_line) && lines.all(|line| is_key_text(line) && has_one_word(line))
}

/// Whether a line, or a part of one, may stand in a private key.
fn is_key_text(line: &[u8]) -> bool {
    is_key_field(line) || after_signs(line).iter().all(|byte| BODY.has(*byte))
}

/// A line without the prompt, or the sign of a quote, that may stand before it.
fn after_signs(line: &[u8]) -> &[u8] {
    let signs = line.iter().take_while(|byte| !byte.is_ascii_alphanumeric()).count();
    line.get(signs..).unwrap_or_default()
}

/// Whether nothing but quotes and the like stands beside the first word of a line, unless it is a field.
fn has_one_word(line: &[u8]) -> bool {
    let words = line.split(u8::is_ascii_whitespace);
    let words = words.filter(|word| word.iter().any(u8::is_ascii_alphanumeric));
    is_key_field(line) || words.count() <= 1
}

/// Whether a line is `Name: value`, as above the key in old forms.
fn is_key_field(line: &[u8]) -> bool {
    let line = after_signs(line);
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_name_byte = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    line.get(name.len()..).is_some_and(|rest| rest.starts_with(b": "))
        && name.iter().all(is_name_byte)
        && name.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// Bytes of base64.
static BASE64: ByteClass = ByteClass::of(&[
    (b'a', b'z'),
    (b'A', b'Z'),
    (b'0', b'9'),
    (b'+', b'+'),
    (b'/', b'/'),
    (b'=', b'='),
]);

/// Bytes of base64, its headers, and escaped or quoted line ends.
static BODY: ByteClass = ByteClass::of(&[
    (b'a', b'z'),
    (b'A', b'Z'),
    (b'0', b'9'),
    (b'+', b'-'),
    (b'/', b'/'),
    (b':', b':'),
    (b'=', b'='),
    (b'\\', b'\\'),
    (b'"', b'"'),
    (b'\'', b'\''),
    (b'_', b'_'),
    (b' ', b' '),
    (b'\t', b'\n'),
    (b'\r', b'\r'),
]);

/// Whether it has enough of a key: so many bytes of base64 in a run.
fn is_key_body(body: &[u8]) -> bool {
    BASE64.run_end(body, LEAST_RUN).is_some()
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
                    PemReading::Key { length: key.len(), work: key.len() },
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
            PemReading::Other { looked_at: "-----BEGIN CERTIFICATE".len() }
        );
        let shown = b"-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----";
        assert_eq!(
            read_private_key(&[shown.as_slice(), b" and more"].concat(), true),
            PemReading::Other { looked_at: shown.len() }
        );
    }

    #[test]
    fn a_key_has_begun_while_what_follows_looks_like_one() {
        let begun = |text: &str| is_begun_key(text.as_bytes());
        for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
            for line_end in ["\n", "\\n", "\r\n", "\\\\n", "\n    ", "\n> ", "\\n\" +\n  \""] {
                let key = block(label, line_end);
                for cut in 11..key.len() {
                    assert!(begun(&key[..cut]), "{}", &key[..cut]);
                }
                assert!(!begun(&key));
            }
        }
        let header = "-----BEGIN RSA PRIVATE KEY-----";
        let body = "NotAKeyButOfItsShape".repeat(3);
        for fields in [
            "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F\n",
            "Version: GnuPG v2.0.22 (GNU/Linux)\r\nComment: of mine, <me@example.com>\r\n",
        ] {
            let key = format!("{header}\n{fields}\n{body}\n");
            for cut in 11..key.len() {
                assert!(begun(&key[..cut]), "{}", &key[..cut]);
            }
        }
        assert!(begun(&format!("{header}\n> Proc-Type: 4,ENCRYPTED\n> ")));
        assert!(begun(&format!("{header}\\nProc-Type: 4,ENCRYPTED\\n\\n{body}")));
        for prose in
            [" ?", "` is", ".\n", " stands\n", ": it is\n", "\nwhy is that\n", "\nme@here:~$ "]
        {
            assert!(!begun(&format!("{header}{prose}")), "{prose}");
        }
        for cut in ["-----BEGIN\n", "-----BEGIN RSA PRIVATE KEY\n", "-----BEGIN PRIVATE KEY--\n"] {
            assert!(!begun(cut), "{cut}");
        }
        assert!(!begun("-----BEGIN CERTIFICATE-----\n"));
    }

    #[test]
    fn a_key_without_its_end_reaches_as_far_as_it_looks_like_one() {
        let key = block("PRIVATE KEY", "\n");
        let cut = &key[..key.len() - 27];
        let text = format!("{cut}[truncated]");
        let work = cut.len() + text.len() / SEARCHED_AS_ONE;
        assert_eq!(
            read_private_key(text.as_bytes(), true),
            PemReading::Key { length: cut.len(), work }
        );
    }
}
