//! Short lines that tell people what an agent is doing.

use abide_wire::json::RawJsonFields;
use serde_json::value::RawValue;

use super::plain::EscapeStripper;

/// The most characters of a line.
const MOST: usize = 120;

/// The longest word that is not cut in two.
const WORD: usize = 4 << 10;

/// Argument names that say what a call is about, the most telling first.
const TELLING: &[&str] = &[
    "command",
    "cmd",
    "file_path",
    "filePath",
    "absolute_path",
    "path",
    "notebook_path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "title",
    "name",
];

/// The first line of a text that shows something, without more white space than it needs; `None`
/// where none does.
pub(crate) fn first_line(text: &str) -> Option<String> {
    let head = head_of_words(text, 16 * MOST);
    let plain = EscapeStripper::of(head);
    let line = plain.lines().map(str::trim).find(|line| !line.is_empty())?;
    let mut words = String::new();
    for word in line.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    Some(words)
}

/// The first line of a text that shows something, cut; `None` where none does. It is for people at the
/// terminal: what is recorded is not cut here.
pub(crate) fn short_step(text: &str) -> Option<String> {
    let mut words = first_line(text)?;
    match words.char_indices().nth(MOST) {
        None => Some(words),
        Some(_) => {
            let end = words.char_indices().nth(MOST - 1).map_or(0, |(at, _)| at);
            words.truncate(end);
            words.push('…');
            Some(words)
        }
    }
}

/// A call of a tool in one line: `bash: cargo test`.
pub(crate) fn call_step(name: &str, arguments: Option<&RawValue>) -> String {
    let name = short_step(name).unwrap_or_default().to_lowercase();
    let about = arguments.and_then(|arguments| {
        let fields = RawJsonFields::of(arguments.get())?;
        TELLING.iter().find_map(|field| short_step(&fields.decoded(field)?))
    });
    match about {
        None => name,
        Some(about) => short_step(&format!("{name}: {about}")).unwrap_or_default(),
    }
}

/// The first bytes of a text, whole characters only.
pub(crate) fn head_of_step(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// The first bytes of a text, whole words only: no word is cut in two that may be a secret. A word
/// of more than [`WORD`] bytes is cut all the same.
pub(crate) fn head_of_words(text: &str, most: usize) -> &str {
    let head = head_of_step(text, most);
    if head.len() == text.len() {
        return head;
    }
    head.get(..start_of_last_word(head.as_bytes())).unwrap_or(head)
}

/// Where the last word of a text begins; its end if that word is longer than [`WORD`].
pub(crate) fn start_of_last_word(text: &[u8]) -> usize {
    let from = text.len().saturating_sub(WORD);
    let near = text.get(from..).unwrap_or_default();
    near.iter().rposition(|byte| !is_word_byte(*byte)).map_or(text.len(), |at| from + at + 1)
}

/// Bytes of the punctuation that stand around words.
const fn is_border(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b',' | b';' | b'<' | b'>')
        || matches!(byte, b'(' | b')' | b'[' | b']' | b'{' | b'}')
}

/// Whether a token or an address may have this byte.
const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || byte >= 0x80
        || (byte.is_ascii_punctuation() && !is_border(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_cut_in_two() {
        for (text, most, head) in [
            ("one two", 7, "one two"),
            ("one two", 6, "one "),
            ("at https://u:secret@host/", 16, "at "),
            ("\"k\":\"secret\"", 9, "\"k\":\""),
            ("onetwo", 3, "one"),
            ("", 0, ""),
        ] {
            assert_eq!(head_of_words(text, most), head);
        }
        let long = format!("a {}", "x".repeat(2 * WORD));
        assert_eq!(head_of_words(&long, WORD + 10).len(), WORD + 10);
    }
}
