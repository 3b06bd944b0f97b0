//! What may come in: the limits, and why an input is refused.

use std::sync::Arc;

use crate::{AppendError, Kind, MakeEvent, NewEvent, Seq};

/// Limits on one event. Every decoder is bounded by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one event's JSON.
    pub event_bytes: usize,
    /// The deepest nesting of its data.
    pub depth: usize,
    /// The most bytes of a key, task, lane or call name.
    pub name_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { event_bytes: 64 << 20, depth: 100, name_bytes: 512 }
    }
}

/// Why an input event is refused. Nothing was written for it.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Not UTF-8.
    #[error("the line is not UTF-8 (first bad byte at {at})")]
    NotUtf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Not JSON, or a field is missing, doubled, unknown or of the wrong type.
    #[error("not an event: {reason}")]
    NotJson {
        /// What the parser says.
        reason: String,
    },
    /// `data` is not an object.
    #[error("`data` must be a JSON object")]
    NotAnObject,
    /// More bytes than allowed.
    #[error("larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// Nested too deep.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// Not a dotted lower-case name.
    #[error("not an event kind: {kind:?} (lower-case words joined by dots, at most 64 characters)")]
    BadKind {
        /// What was given.
        kind: String,
    },
    /// A name that is empty or too long.
    #[error("`{field}` must have 1 to {limit} bytes")]
    BadName {
        /// Which field.
        field: &'static str,
        /// The limit.
        limit: usize,
    },
    /// `occurred` is not a time.
    #[error("`occurred` is not an RFC 3339 time")]
    BadTime(#[source] jiff::Error),
    /// A kind that must be recorded by itself, not in a batch.
    #[error("`{kind}` must be recorded by itself, not in a batch")]
    NotAlone {
        /// Which kind.
        kind: String,
    },
    /// A batch with more events than allowed.
    #[error("a batch has at most {limit} events here")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// A kind that only the process that holds the session may record, and none of its children.
    #[error("`{kind}` can be recorded only by the process that holds the session")]
    HolderOnly {
        /// Which kind.
        kind: String,
    },
    /// A kind that only the store itself writes.
    #[error("`{kind}` is written by the store alone")]
    Reserved {
        /// Which kind.
        kind: String,
    },
}

impl InputError {
    /// A short, stable name for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotUtf8 { .. } => "not_utf8",
            Self::NotJson { .. } => "not_json",
            Self::NotAnObject => "not_an_object",
            Self::TooLarge { .. } => "too_large",
            Self::TooDeep { .. } => "too_deep",
            Self::BadKind { .. } => "bad_kind",
            Self::BadName { .. } => "bad_name",
            Self::BadTime(_) => "bad_time",
            Self::NotAlone { .. } => "not_alone",
            Self::TooMany { .. } => "too_many",
            Self::HolderOnly { .. } => "holder_only",
            Self::Reserved { .. } => "reserved",
        }
    }

    pub(crate) fn json(error: serde_json::Error) -> Self {
        Self::NotJson { reason: error.to_string() }
    }
}

/// The event that `make` makes for the place behind `last`, where a caller may have it recorded.
pub fn made_behind(
    make: &MakeEvent<'_>,
    last: Seq,
    limits: &Limits,
) -> Result<NewEvent, AppendError> {
    let refused = |source| AppendError::Input { index: 0, source: Arc::new(source) };
    let event = make(last).map_err(refused)?;
    check_batch(std::slice::from_ref(&event), limits)?;
    Ok(event)
}

/// Is this what a caller may have recorded together?
pub fn check_batch(events: &[NewEvent], limits: &Limits) -> Result<(), AppendError> {
    let alone = events.len() == 1;
    for (index, event) in events.iter().enumerate() {
        let kind = || event.kind.to_string();
        let checked = if event.kind.is_reserved() {
            Err(InputError::Reserved { kind: kind() })
        } else if event.kind == Kind::SESSION_REWOUND && !alone {
            Err(InputError::NotAlone { kind: kind() })
        } else {
            event.check(limits)
        };
        checked.map_err(|source| AppendError::Input { index, source: Arc::new(source) })?;
    }
    Ok(())
}
