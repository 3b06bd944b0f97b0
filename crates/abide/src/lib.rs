//! Durable sessions for AI coding agents.
//!
//! A session is an append-only journal of events: messages, tool calls, tasks, file changes. An
//! event is acknowledged once it is on stable storage, so a session outlives the process that runs
//! it.
//!
//! ```
//! use abide::{Message, NewSession, Store, ToolCall, ToolResult};
//!
//! # let dir = tempfile::tempdir()?;
//! # let project = dir.path();
//! let store = Store::open_or_init(project)?;
//! let session = store.create_or_get("my-agent/ticket-42", NewSession::titled("Fix the parser"))?;
//! session.append(Message::user("The parser drops the last line."))?.wait()?;
//!
//! // Intent before effect: the call is durable before the tool runs.
//! session.append(ToolCall::new("c1", "bash"))?.wait()?;
//! // … the tool runs …
//! session.append(ToolResult::success("c1"))?.wait()?;
//! session.close()?;
//!
//! // Another process, later: what was going on?
//! let session = store.create_or_get("my-agent/ticket-42", NewSession::default())?;
//! let state = session.state()?;
//! assert_eq!(state.core.messages.total, 1);
//! assert!(state.calls.is_empty(), "no call without a result");
//! for event in session.view().last(10)? {
//!     println!("{}", event.to_json());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Appending does not block: it returns a [`Ticket`] to wait on or, in async code, to await. The
//! rest of the async interface is in [`aio`].

mod acceptance;
pub mod aio;
mod answer_recorder;
mod artifact;
mod automatic_checkpoints;
pub mod backend;
pub mod checkpoint;
mod checkpoint_subjects;
mod checkpointer;
mod compaction;
mod compactor;
mod consent;
pub mod context;
mod context_cache;
mod copier;
mod error;
mod events;
mod files_note;
mod follow;
mod git;
mod git_comparison;
mod ignored_state;
mod last_run;
mod lock_file;
mod open_work;
mod plan_document;
mod plan_file;
mod position;
mod primer;
mod processes;
mod projects;
mod redaction;
mod rewind;
mod secret_files;
mod session;
pub mod state;
mod store;
mod summary;
pub mod tasks;
mod tokenizer;
mod undo_history;
mod usage_recount;
mod workspace_lock;

#[cfg(feature = "shared")]
pub use backend::{SharedOptions, SharedStore};
pub use checkpoint::CheckpointRequest;
pub use checkpointer::Checkpointer;
pub use consent::Consent;
pub use error::Error;
pub use events::Events;
pub use follow::EventFollower;
pub use rewind::RewindRequest;
pub use session::{Session, SessionView};
pub use store::Store;

pub use abide_local::{LocalOptions, LocalStore};
pub use abide_model::{
    AcknowledgedEvent, AppendError, CallId, Durability, Event, EventRange, HistoryQuery, Kind,
    LaneId, Message, MessageForm, NewEvent, NewSession, Payload, Seq, SessionFields, SessionId,
    SessionRef, SessionState, SessionStatus, SessionSummary, StoreError, TaskStatus, Ticket,
    Timestamp, ToolCall, ToolResult, TurnEnd, TurnStart,
};
pub use abide_wire::stream;
pub use abide_workspace as workspace;

/// Sessions as files: export, import, copies between stores.
pub mod bundle {
    pub use crate::backend::Bundle;
    pub use crate::copier::{CopiedSession, Copier};
    pub use abide_local::{
        BUNDLE_VERSION, BundleError, BundleFault, BundleHeader, BundleReader, ExportError,
        ImportError, ImportOutcome, ImportedBundle,
    };
}

/// Named agents and the defaults of a run, from configuration files.
pub mod config {
    pub use crate::consent::ProjectRunTerms;
    pub use abide_local::{
        AgentConfig, CheckpointSwitch, PROJECT_CONFIG, RunConfig, RunDefaults, WorkRules,
    };
}

/// The rest of what a journal holds: kinds of events, what they say, and the state they make.
pub mod event {
    /// What each kind of event means: its fields, and who may write it.
    pub mod schema {
        pub use abide_model::{
            FieldDescription, FieldPresence, KIND_DESCRIPTIONS, KindDescription, KindWriter,
            RecordDescription, UnknownNames, ValueType, data_mismatch,
        };
    }

    pub use crate::artifact::{ArtifactCommand, CommandOutcome, OutcomeReport};
    pub use crate::git::git_state;
    pub use crate::position::{PositionError, ResolvedPosition};
    pub use abide_model::{
        AgentObservation, Anomaly, AnomalyPolicy, ApiCall, ApiResult, ArbiterDecision, Artifact,
        ArtifactCounts, CallState, DependencyResolution, Digest, Epoch, EventLimits, EventPage,
        Fact, FileOp, FileState, FileTouch, FilesRestored, GitState, InputError, LaneState,
        LimitObservation, Lineage, LogRecord, ModelConfiguration, OUTCOME_UNKNOWN, ObjectHash,
        ParentReason, PendingCall, PermissionAnswered, PermissionAsked, PermissionOption,
        ReadDirection, ReadFinding, Recovery, ResourceSample, Rewind, RunEnd, RunStart, RunState,
        SessionCore, SessionParent, SourceDocument, StatusChange, Thinning, TurnEntry, TurnNumber,
        TurnRole, TurnState, Usage, UsageRecord, WorkspaceCounts,
    };
}

/// Searching and listing sessions.
pub mod history {
    pub use abide_local::{IndexProgress, IndexProgressCallback};
    pub use abide_model::{
        Excerpt, FileActivity, History, HistoryEntry, Overview, RunOutline, Search, SearchError,
        SearchMatch, SearchRole, SessionUsage, UsageEntry, UsageQuery, UsageReport, UsageSession,
        counted_usage,
    };
}

/// Whether a session is running, idle or crashed.
pub mod liveness {
    pub use crate::last_run::LastRun;
    pub use abide_local::{
        ActiveTask, Environment, OpenCall, OpenTurn, OrphanProcess, SessionLiveness,
    };
    pub use abide_model::{
        Liveness, LivenessEvidence, LivenessReason, LockObservation, ProcessObservation,
        WriterHolder,
    };
}

/// Finding the store of a directory, and deciding whether to trust it.
pub mod locate {
    pub use crate::acceptance::check_accepted;
    pub use crate::projects::{ProjectIdentity, Projects};
    pub use abide_local::{
        SessionScope, StoreFinder, StoreLocation, StorePlace, StorePlaceError, TrustPolicy,
        UserConfig, UserDirs, check_not_root, find_checkout, find_project, find_store,
        make_parents, read_small_file, store_of_named, store_of_project,
    };
    pub use abide_model::{StoreUrl, StoreUrlError, near_names};
    #[cfg(feature = "shared")]
    pub use abide_objects::{ObjectsError, ObjectsUrl};
    #[cfg(feature = "shared")]
    pub use abide_postgres::{ServerError, ServerErrorKind};
}

/// Keeping a store healthy: doctor and repair, cleanup, erasure, disk usage, validation.
pub mod maintenance {
    pub use crate::backend::{
        EraseRemains, ObjectCollector, PayloadEraser, SessionCleaner, StoreDoctor,
    };
    pub use abide_local::{
        CleanupOutcome, CleanupPlan, CleanupRules, ClockJump, CollectError, CollectionSummary,
        ConsideredStrategy, DailyCleanup, DeleteError, DiskUse, Doctor, EraseError, EraseLine,
        EraseOutcome, ErasePlan, EventPart, Examination, FileMatch, FileMatches, FinishedRepair,
        Leftovers, ProjectConfig, ProjectUse, RecordedLosses, RepairAction, RepairAftermath,
        RepairPlan, RepairRequest, RepairStrategy, SealOutcome, SessionRemoval, SessionUse,
        TextMatches, TranscriptPolicy, UndoPlan, UnsealedSegments, Upkeep,
    };
    pub use abide_model::{
        ByteSize, Finding, FindingPlace, FindingType, KeepReason, LiveEvent, RemovalReason, Repair,
        RepairCommand, Retention, Severity, TimeSpan, Validation, ValidationRule, standard_rules,
    };
    #[cfg(feature = "shared")]
    pub use abide_postgres::{MigratedVersions, SCHEMA_VERSION, StoreStatus};
}

/// Reading, converting and recording messages of model APIs.
pub mod message {
    pub use crate::answer_recorder::{
        AnswerRecorder, AnswerRequest, RecordedAnswer, RecordedBlock,
    };
    pub use abide_model::{KnownBlock, Marks, MessageBlock, MessageContent, RecordedMessage};
    pub use abide_wire::{
        CallResult, Image, MessagePart, ReadMessage, RequestedCall, WireError,
        export as export_message, read as read_message, read_call, record as record_message,
    };
}

/// The processes of a run.
pub mod process {
    pub use crate::processes::{
        RUN_VARIABLE, descendant_processes, end_processes, process_tree, processes_marked,
    };
}

/// Secrets: found in what is recorded, and replaced by marks.
pub mod secrets {
    pub use crate::redaction::{
        KnownSecrets, Redaction, RedactionError, RedactionOptions, RedactionSettings,
    };
    pub use abide_local::{SecretRecording, SecretsConfig};
    pub use abide_secrets::{
        Literals, MarkKey, OwnRule, RedactionTally, Redactor, RuleSet, StreamRedactor, has_mark,
        unscanned_mark,
    };
}
