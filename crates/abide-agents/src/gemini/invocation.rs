//! The arguments of Gemini CLI.

use crate::invocation::arguments::{has_value, options, without};

pub(super) fn prints_events(arguments: &[String]) -> bool {
    has_value(options(arguments), &["--output-format", "-o"], "stream-json")
}

pub(super) fn resume(arguments: &[String], session: &str) -> Option<Vec<String>> {
    let gone = without(arguments, &["--resume", "-r", "--session-id", "--session-file"], &[]);
    Some([vec!["--resume".to_owned(), session.to_owned()], gone].concat())
}
