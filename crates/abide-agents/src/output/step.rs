//! Short lines that tell people what an agent is doing.

use abide_wire::json::RawJsonFields;
use serde_json::value::RawValue;

use super::plain::EscapeStripper;

/// The most characters of a line.
const MOST: usize = 120;

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

/// The first line of a text that shows something, cut; `None` where none does.
pub(crate) fn short_step(text: &str) -> Option<String> {
    let head = head_of_step(text, 16 * MOST);
    let plain = EscapeStripper::of(head);
    let line = plain.lines().map(str::trim).find(|line| !line.is_empty())?;
    let mut words = String::new();
    for word in line.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
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
