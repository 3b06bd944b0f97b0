//! Limits on input, and why an event is refused.

use std::sync::Arc;

use crate::json::parser_reason;
use crate::{AppendError, EventFactory, Kind, NewEvent, Seq};

/// Limits on one event. Every decoder is bounded by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventLimits {
    /// Maximum size of an event's JSON in bytes.
    pub event_bytes: usize,
    /// Maximum nesting depth of its data.
    pub depth: usize,
    /// Maximum size of a key, task, lane or call name in bytes.
    pub name_bytes: usize,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self { event_bytes: 64 << 20, depth: 100, name_bytes: 512 }
    }
}

/// Why an event is refused. Nothing was written for it.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Not UTF-8.
    #[error("the line is not UTF-8 (first bad byte at {at})")]
    NotUtf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Not JSON.
    #[error("invalid JSON: {reason}")]
    NotJson {
        /// The parser's message.
        reason: String,
    },
    /// JSON, but no object, or a field is missing, duplicated, unknown or of the wrong type.
    #[error("invalid event: {reason}")]
    NotAnEvent {
        /// Which field, and why.
        reason: String,
    },
    /// `data` is not an object.
    #[error("`data` must be a JSON object")]
    NotAnObject,
    /// Too large.
    #[error("larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Nested too deeply.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit in levels.
        limit: usize,
    },
    /// Not lower-case words joined by dots.
    #[error("invalid event kind {kind:?} (lower-case words joined by dots, at most 64 characters)")]
    BadKind {
        /// The kind as given.
        kind: String,
    },
    /// A name is empty or too long.
    #[error("`{field}` must have 1 to {limit} bytes")]
    BadName {
        /// The field.
        field: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// `occurred` is not a time.
    #[error("`occurred` is not an RFC 3339 time")]
    BadTime(#[source] jiff::Error),
    /// A kind that must be recorded alone, not in a batch.
    #[error("`{kind}` must be recorded by itself, not in a batch")]
    NotAlone {
        /// Which kind.
        kind: String,
    },
    /// Too many events in one batch.
    #[error("a batch can hold at most {limit} events here")]
    TooMany {
        /// The limit in events.
        limit: usize,
    },
    /// A kind that only the process holding the session may record, not its children.
    #[error("`{kind}` can be recorded only by the process that holds the session")]
    HolderOnly {
        /// Which kind.
        kind: String,
    },
    /// A kind that only the store itself writes.
    #[error("`{kind}` is reserved: only the store writes it")]
    Reserved {
        /// Which kind.
        kind: String,
    },
}

impl InputError {
    /// A short, stable code for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotUtf8 { .. } => "not_utf8",
            Self::NotJson { .. } => "not_json",
            Self::NotAnEvent { .. } => "not_an_event",
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
        Self::NotJson { reason: parser_reason(&error) }
    }
}

/// The event that `make` makes to follow `last`, checked against what a caller may record.
pub fn made_behind(
    make: &EventFactory<'_>,
    last: Seq,
    limits: &EventLimits,
) -> Result<NewEvent, AppendError> {
    let refused = |source| AppendError::Input { index: 0, source: Arc::new(source) };
    let event = make(last).map_err(refused)?;
    check_batch(std::slice::from_ref(&event), limits)?;
    Ok(event)
}

/// Checks a batch: the limits of each event, and whether a caller may record it.
pub fn check_batch(events: &[NewEvent], limits: &EventLimits) -> Result<(), AppendError> {
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
