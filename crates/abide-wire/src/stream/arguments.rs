//! Assembles the arguments of a call from pieces.

use serde::de::IgnoredAny;

use super::StreamedCall;
use crate::RequestedCall;

/// The call made of these parts. Empty arguments become `{}`.
pub(super) fn call(id: &str, name: &str, arguments: &str) -> StreamedCall {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    let broken = serde_json::from_str::<IgnoredAny>(arguments).err().map(|e| e.to_string());
    let call =
        RequestedCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
    StreamedCall { call, broken }
}

/// Whether a call may have been cut off: its arguments are missing or invalid. The stop reason says
/// whether it was.
pub(super) fn may_be_cut(streamed: &StreamedCall, arguments: &str) -> bool {
    streamed.broken.is_some() || arguments.trim().is_empty()
}

/// Whether this stop reason means that the model was stopped mid-answer, possibly in the middle of
/// a call.
pub(super) fn cuts(reason: &str) -> bool {
    const CUTTING: [&str; 10] = [
        "length",
        "max_tokens",
        "max_output_tokens",
        "model_length",
        "model_context_window_exceeded",
        "content_filter",
        "refusal",
        "incomplete",
        "cancelled",
        "error",
    ];
    CUTTING.iter().any(|cutting| reason.eq_ignore_ascii_case(cutting))
}

/// Collects arguments and tracks whether they form a whole object.
#[derive(Debug, Default)]
pub(super) struct ArgumentBuffer {
    pub(super) text: String,
    depth: usize,
    within: JsonLexState,
    whole: bool,
}

/// The lexical state at the end of the arguments.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum JsonLexState {
    #[default]
    Structure,
    Text,
    Escape,
}

impl ArgumentBuffer {
    /// Appends a piece. Each byte is scanned once, however many pieces there are.
    pub(super) fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
        for byte in piece.bytes() {
            self.within = match (self.within, byte) {
                (JsonLexState::Structure, b'"') | (JsonLexState::Escape, _) => JsonLexState::Text,
                (JsonLexState::Text, b'"') => JsonLexState::Structure,
                (JsonLexState::Text, b'\\') => JsonLexState::Escape,
                (within, _) => within,
            };
            match (self.within, byte) {
                (JsonLexState::Structure, b'{') => self.depth += 1,
                (JsonLexState::Structure, b'}') => {
                    self.depth = self.depth.saturating_sub(1);
                    self.whole = self.depth == 0;
                }
                _ => {}
            }
        }
    }

    /// Whether they form an object with all braces closed, so that nothing can follow.
    pub(super) fn is_whole(&self) -> bool {
        self.whole && self.depth == 0
    }
}
