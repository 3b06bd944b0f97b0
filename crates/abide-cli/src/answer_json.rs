//! Abide's own answers as JSON: the number of their schema, and how stdout gets them.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use abide_transcript::escape;

/// The number of the schema of abide's answers: it grows when a field goes or changes its meaning.
pub(crate) const SCHEMA: u32 = 1;

/// An object with the number of its schema as its first field.
pub(crate) fn numbered(json: &str) -> Cow<'_, str> {
    match json.strip_prefix('{') {
        Some("}") => format!("{{\"schema\":{SCHEMA}}}").into(),
        Some(fields) if !fields.starts_with("\"schema\":") => {
            format!("{{\"schema\":{SCHEMA},{fields}").into()
        }
        _ => json.into(),
    }
}

/// JSON as stdout gets it: escaped if that is a terminal.
pub(crate) fn data_line(json: &str) -> Cow<'_, str> {
    match io::stdout().is_terminal() {
        true => escape::json(json).to_string().into(),
        false => json.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_its_number_once_and_a_list_has_none() {
        assert_eq!(numbered(r#"{"a":1}"#), r#"{"schema":1,"a":1}"#);
        assert_eq!(numbered("{}"), r#"{"schema":1}"#);
        assert_eq!(numbered(r#"{"schema":1,"a":1}"#), r#"{"schema":1,"a":1}"#);
        assert_eq!(numbered("[1]"), "[1]");
    }
}
