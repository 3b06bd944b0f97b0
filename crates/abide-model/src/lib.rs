//! The domain types of abide.
//!
//! This crate owns the vocabulary that every other crate uses: ids, the [`Event`] envelope and the
//! facts inside it, the fold of events into a [`SessionState`], and the traits a store implements.
//! It is pure: it reads no file, no clock and no random source, and depends on no async runtime.
//!
//! ```
//! use abide_model::{Event, Kind, NewEvent, Seq, SessionState, Timestamp};
//!
//! let new = NewEvent::parse(r#"{"kind":"message.added","data":{"role":"user","content":"hello"}}"#)?;
//! assert_eq!(new.kind, Kind::MESSAGE_ADDED);
//!
//! let mut state = SessionState::default();
//! let event = new.into_event(Seq::FIRST, Timestamp::from_millis(0));
//! assert!(state.apply(&event).is_none());
//! assert_eq!(state.core.messages.total, 1);
//! # Ok::<(), abide_model::InputError>(())
//! ```

mod anomaly;
mod byte_size;
mod context;
mod conversation;
pub mod doing;
mod duration;
mod event;
mod event_input;
mod fact;
mod finding;
mod held_mark;
mod history;
mod id;
pub mod json;
mod kind;
mod limit_override;
mod lineage;
mod liveness;
pub mod message;
mod near_names;
mod object;
pub mod path_text;
mod payload;
mod retention;
mod schema;
mod session_ref;
mod session_store;
mod state;
mod store_url;
mod tasks;
mod ticket;
mod time_span;
mod timestamp;
mod validation;

pub use anomaly::Anomaly;
pub use byte_size::ByteSize;
pub use context::{
    AutoCompaction, CompactionPlan, Context, ContextBuilder, ContextEntry, ContextReading,
    NothingToCompact, PendingCall, RecordedResult, Threshold, TokenBasis, VisibleRanges,
    parse_token_count,
};
pub use conversation::{
    CallForm, ContextSource, Conversation, MessageRevisions, MessageVersions, OUTCOME_UNKNOWN,
    OrderAnomaly, OrderAnomalyKind, UnansweredCall,
};
pub use doing::SessionLiveness;
pub use duration::{
    DurationError, LeadingDuration, format_duration, leading_duration, parse_duration,
    parse_duration_or_seconds,
};
pub use event::{Event, NewEvent};
pub use event_input::{EventLimits, InputError, check_batch, made_behind};
pub use fact::{
    AgentObservation, ApiCall, ApiResult, ArbiterDecision, Artifact, ArtifactCounts, Checkpoint,
    Compaction, ContextPin, ContextRestored, DependencyResolution, DependencyType, DependencyTypes,
    Erasure, Fact, FactError, FileChanges, FileOp, FileTouch, FilesRestored, GitState, KnownBlock,
    LimitObservation, LogRecord, Manifest, ManifestTask, Message, MessageBlock, MessageContent,
    ModelConfiguration, ParentReason, PermissionAnswered, PermissionAsked, PermissionOption,
    Recovery, ResourceSample, Rewind, RunEnd, RunStart, SessionCreated, SessionFields,
    SessionParent, SessionStatus, SourceDocument, SourceProgress, SourceRecord, StatusChange,
    TaskChange, TaskCreated, TaskDependency, TaskListRecord, TaskStatus, TaskStatusChange,
    Thinning, ToolCall, ToolResult, TurnEnd, TurnRole, TurnStart, Usage, UsageRecord,
    WorkspaceCounts, WriterOpened, is_check,
};
pub use finding::{Finding, FindingPlace, FindingType, Repair, RepairCommand, Severity};
pub use held_mark::{DifferentMarks, HeldMark, HeldMarks};
pub use history::{
    ActivitySpan, EventTraits, Excerpt, FileActivity, FileDelta, History, HistoryDelta,
    HistoryEntry, HistoryQuery, OpenTurns, Overview, OverviewUpdate, PARTS_END, RunOutline, Search,
    SearchError, SearchMatch, SearchRole, SearchTerm, SessionUsage, TEXT_BYTES, TextDelta,
    TurnDelta, TurnEntry, TurnOpening, UsageEntry, UsageKey, UsageQuery, UsageReport, UsageSession,
    WaitingCommands, Word, counted_usage, folded_parts, folded_words, prompt_line,
    read_session_name, rewind_of, searchable_text, split_machine_text, words,
};
pub use id::{CallId, Epoch, IdError, LaneId, ObjectHash, Seq, SessionId, TaskId, TurnNumber};
pub use kind::Kind;
pub use limit_override::LimitOverride;
pub use lineage::{EventReplay, Lineage, fold_lineage, rewind_target};
pub use liveness::{
    Liveness, LivenessEvidence, LivenessReason, LockObservation, ProcessObservation,
};
pub use message::{Marks, MessageForm, RecordedMessage};
pub use near_names::{name_distance, near_names};
pub use object::{
    CollectableObjects, NewObject, ObjectBatch, ObjectReceiver, Objects, StoredObject,
};
pub use payload::{LeafEncoding, Payload, PayloadLeaf, PayloadLeaves, payload_string_end};
pub use retention::{
    CheckpointFacts, KeepReason, RemovalReason, Retention, RetentionOverrides, RetentionPlan,
    SessionFacts, plan_checkpoints, plan_retention, plan_thinning,
};
pub use schema::{
    FieldDescription, FieldPresence, KIND_DESCRIPTIONS, KindDescription, KindWriter,
    RecordDescription, UnknownNames, ValueType, data_mismatch,
};
pub use session_ref::SessionRef;
pub use session_store::{
    AnomalyPolicy, CreatedSession, DeleteError, Durability, EventFactory, EventPage, EventRange,
    NewSession, ReadDirection, ReadFinding, SessionReader, SessionSummary, SessionWriter, Store,
    StoreError, WriterHolder,
};
pub use state::{
    CallCounts, CallState, CheckpointState, Digest, FOLD_VERSION, FileState, LaneState,
    LiveCompaction, PageRef, RunState, Savepoint, SessionCore, SessionState, StatePageError,
    StatePageId, StatePageSink, StateTable, TaskState, TurnState,
};
pub use store_url::{StoreUrl, StoreUrlError};
pub use tasks::{TaskError, TaskNode, TaskProgress, TaskTree};
pub use ticket::{AcknowledgedEvent, AppendError, Ticket, TicketAcknowledger, block_on};
pub use time_span::TimeSpan;
pub use timestamp::Timestamp;
pub use validation::{LiveEvent, Validation, ValidationRule, standard_rules};
