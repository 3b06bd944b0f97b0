//! Anomalies of events. An event with an anomaly is kept and marked, never dropped.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an event does not fit the events before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anomaly {
    /// The data does not match its kind.
    Malformed,
    /// A second `session.created`.
    SessionCreatedTwice,
    /// A result for a call that is not open: it was never made, or it already has a result.
    UnknownCall,
    /// A call with the id of a call that is still open.
    DuplicateCall,
    /// A turn that was never started or is already over.
    UnknownTurn,
    /// A turn number that was used before.
    DuplicateTurn,
    /// A task that was never created.
    UnknownTask,
    /// A task id that was used before.
    DuplicateTask,
    /// A task that depends on itself.
    SelfDependency,
    /// A task status that cannot follow the one before (`complete` → `planned`). It is not applied.
    IllegalTransition,
    /// A checkpoint number that was used before.
    DuplicateCheckpoint,
    /// A rewind, compaction or erasure that names an event that is not in the session.
    UnknownPosition,
    /// A writer's epoch that is not greater than the previous one.
    StaleEpoch,
}

impl Anomaly {
    /// Its name in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::SessionCreatedTwice => "session_created_twice",
            Self::UnknownCall => "unknown_call",
            Self::DuplicateCall => "duplicate_call",
            Self::UnknownTurn => "unknown_turn",
            Self::DuplicateTurn => "duplicate_turn",
            Self::UnknownTask => "unknown_task",
            Self::DuplicateTask => "duplicate_task",
            Self::SelfDependency => "self_dependency",
            Self::IllegalTransition => "illegal_transition",
            Self::DuplicateCheckpoint => "duplicate_checkpoint",
            Self::UnknownPosition => "unknown_position",
            Self::StaleEpoch => "stale_epoch",
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
