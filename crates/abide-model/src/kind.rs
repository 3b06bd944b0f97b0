//! The kind of an event: a dotted name. Kinds outside the vocabulary are kept unchanged.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of an event: `message.added`, `tool.called`, `x.anything`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kind(Cow<'static, str>);

macro_rules! vocabulary {
    ($($constant:ident = $text:literal),+ $(,)?) => {
        #[allow(missing_docs)]
        impl Kind {
            $(pub const $constant: Self = Self(Cow::Borrowed($text));)+

            /// Every kind this version knows.
            pub const VOCABULARY: &'static [&'static str] = &[$($text),+];

            fn known(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$constant),)+
                    _ => None,
                }
            }
        }
    };
}

vocabulary! {
    SESSION_CREATED = "session.created",
    SESSION_UPDATED = "session.updated",
    SESSION_STATUS = "session.status",
    SESSION_REWOUND = "session.rewound",
    WRITER_OPENED = "writer.opened",
    WRITER_CLOSED = "writer.closed",
    RUN_STARTED = "run.started",
    RUN_FINISHED = "run.finished",
    AGENT_OBSERVED = "agent.observed",
    TURN_STARTED = "turn.started",
    TURN_DECIDED = "turn.decided",
    TURN_FINISHED = "turn.finished",
    MESSAGE_ADDED = "message.added",
    API_CALLED = "api.called",
    API_FINISHED = "api.finished",
    TOOL_CALLED = "tool.called",
    TOOL_FINISHED = "tool.finished",
    PERMISSION_ASKED = "permission.asked",
    PERMISSION_ANSWERED = "permission.answered",
    PLAN_RECORDED = "plan.recorded",
    TASK_CREATED = "task.created",
    TASK_CHANGED = "task.changed",
    TASK_STATUS = "task.status",
    FILE_TOUCHED = "file.touched",
    ARTIFACT_RECORDED = "artifact.recorded",
    CHECKPOINT_CREATED = "checkpoint.created",
    CHECKPOINT_THINNED = "checkpoint.thinned",
    FILES_RESTORED = "files.restored",
    CONTEXT_COMPACTED = "context.compacted",
    CONTEXT_RESTORED = "context.restored",
    CONTEXT_PINNED = "context.pinned",
    USAGE_RECORDED = "usage.recorded",
    LIMIT_OBSERVED = "limit.observed",
    MODEL_CONFIGURED = "model.configured",
    GIT_OBSERVED = "git.observed",
    RESOURCES_SAMPLED = "resources.sampled",
    DEPENDENCIES_RESOLVED = "dependencies.resolved",
    LOG_RECORDED = "log.recorded",
    RECOVERY_PERFORMED = "recovery.performed",
    PAYLOAD_ERASED = "payload.erased",
    SOURCE_RECORDED = "source.recorded",
    SOURCE_READ = "source.read",
}

impl Kind {
    /// The maximum length of a kind.
    pub const MAX: usize = 64;

    /// Parses a kind: lower-case words of letters, digits, `_` and `-`, joined by dots.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        if let Some(known) = Self::known(text) {
            return Some(known);
        }
        let word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
        };
        (text.len() <= Self::MAX && text.split('.').all(word))
            .then(|| Self(Cow::Owned(text.to_owned())))
    }

    /// Is it written by the store only, never by a caller?
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        matches!(
            self.as_str(),
            "session.created"
                | "writer.opened"
                | "writer.closed"
                | "recovery.performed"
                | "payload.erased"
        )
    }

    /// Does it determine how other events are read? If so, its data cannot be erased.
    #[must_use]
    pub fn is_structural(&self) -> bool {
        [
            Self::WRITER_OPENED,
            Self::WRITER_CLOSED,
            Self::RECOVERY_PERFORMED,
            Self::PAYLOAD_ERASED,
            Self::SESSION_REWOUND,
            Self::FILES_RESTORED,
            Self::CHECKPOINT_THINNED,
        ]
        .contains(self)
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_dotted_lower_case_words() {
        for text in Kind::VOCABULARY {
            assert_eq!(Kind::new(text).unwrap().as_str(), *text);
        }
        assert!(Kind::new("x.my-own_kind2").is_some());
        for bad in ["", ".", "a.", "A.b", "a b", "a\"b", "é", &"a".repeat(65)] {
            assert!(Kind::new(bad).is_none(), "{bad:?}");
        }
    }
}
