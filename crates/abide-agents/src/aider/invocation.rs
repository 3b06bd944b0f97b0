//! The arguments of Aider.

use crate::invocation::PromptSlot;
use crate::invocation::arguments::arguments_before_dashes;

/// The options that hold the prompt. All other arguments are files.
const MESSAGES: &[&str] = &["--message", "--msg", "-m"];

/// The options that name a file with the prompt.
const FILES: &[&str] = &["--message-file", "-f"];

/// The value of `--message`. A prompt in a file has no place in the arguments.
pub(super) fn prompt(arguments: &[String]) -> Option<PromptSlot> {
    let is_file =
        |word: &String| FILES.contains(&word.as_str()) || word.starts_with("--message-file=");
    if arguments_before_dashes(arguments).iter().any(is_file) {
        return None;
    }
    PromptSlot::named(arguments, MESSAGES).or_else(|| {
        let before = vec!["--message".to_owned()];
        Some(PromptSlot::between(before, arguments.to_vec()))
    })
}
