//! Values that the caller knows to be secret, found as they are and in base64.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::keyword_table::{Keyword, KeywordTarget};
use crate::mark::is_rule_id;

/// A shorter value would be found where it is not meant.
const SHORTEST: usize = 6;
/// A longer value would have to be held back by a stream.
const LONGEST: usize = 4096;
/// A shorter piece of base64 would be found by chance.
const SHORTEST_BASE64: usize = 10;

/// Secret values. Each has a label, which stands in its marks as a rule's id does.
#[derive(Default, Clone)]
pub struct Literals {
    labels: Vec<String>,
    keywords: Vec<Keyword>,
}

impl std::fmt::Debug for Literals {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Literals({} values)", self.labels.len())
    }
}

impl Literals {
    /// Adds a value, and says whether it was taken: a value of less than 6 bytes or more than 4,096 is not,
    /// nor is a label with other characters than small letters, digits, `-`, `_` and `.`.
    pub fn add(&mut self, label: &str, value: &str) -> bool {
        let bytes = value.as_bytes();
        if bytes.len() < SHORTEST || bytes.len() > LONGEST || !is_rule_id(label) {
            return false;
        }
        let Ok(number) = u32::try_from(self.labels.len()) else { return false };
        self.labels.push(label.to_owned());
        let mut forms = vec![bytes.to_vec()];
        for shift in 0..3 {
            for piece in base64_pieces(bytes, shift) {
                if piece.len() >= SHORTEST_BASE64 && !forms.contains(&piece) {
                    forms.push(piece);
                }
            }
        }
        let target = KeywordTarget::Literal(number);
        self.keywords.extend(forms.into_iter().map(|form| Keyword {
            text: form.into(),
            exact: true,
            target,
        }));
        true
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    pub(crate) fn into_parts(self) -> (Vec<String>, Vec<Keyword>) {
        (self.labels, self.keywords)
    }
}

/// What base64 of any text shows of a value in it that begins `shift` bytes after a multiple of three:
/// the characters that depend on the value alone, in both alphabets.
fn base64_pieces(value: &[u8], shift: usize) -> [Vec<u8>; 2] {
    let mut shifted = vec![0; shift];
    shifted.extend_from_slice(value);
    let from = (shift * 8).div_ceil(6);
    let to = shifted.len() * 8 / 6;
    [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)]
        .map(|encoded| encoded.as_bytes().get(from..to).unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_stands_in_the_base64_of_every_text_with_the_value() {
        let value = b"correct horse?>battery";
        for shift in 0..7 {
            for tail in 0..4 {
                let mut text = vec![b'~'; shift];
                text.extend_from_slice(value);
                text.extend(vec![b'!'; tail]);
                for (alphabet, encoded) in
                    [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)]
                        .iter()
                        .enumerate()
                {
                    let piece =
                        String::from_utf8(base64_pieces(value, shift % 3)[alphabet].clone())
                            .unwrap();
                    assert!(encoded.contains(&piece), "{shift} {tail}: {piece} in {encoded}");
                    assert!(piece.len() >= value.len());
                }
            }
        }
    }

    #[test]
    fn short_and_huge_values_are_not_taken_and_none_is_shown() {
        let mut literals = Literals::default();
        assert!(!literals.add("env", "short"));
        assert!(!literals.add("env", &"x".repeat(5000)));
        assert!(!literals.add("E N V", "long enough"));
        assert!(literals.add("env", "long enough"));
        assert_eq!(format!("{literals:?}"), "Literals(1 values)");
    }
}
