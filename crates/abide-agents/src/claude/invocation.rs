//! The arguments of Claude Code.

use crate::invocation::arguments::{has_value, options, without};

pub(super) fn prints_events(arguments: &[String]) -> bool {
    has_value(options(arguments), &["--output-format"], "stream-json")
}

pub(super) fn resume(arguments: &[String], session: &str) -> Option<Vec<String>> {
    if options(arguments).iter().any(|one| one == "--no-session-persistence") {
        return None;
    }
    let gone = without(arguments, &["--resume", "-r", "--session-id"], &["--continue", "-c"]);
    Some([vec!["--resume".to_owned(), session.to_owned()], gone].concat())
}
