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
//! let call = ToolCall { call: "c1".into(), name: "bash".into(), arguments: None, observed: false };
//! session.append(call)?.wait()?;
//! // … the tool runs …
//! session.append(ToolResult { call: "c1".into(), ok: true, result: None })?.wait()?;
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

mod accepted;
pub mod aio;
mod answer;
mod backend;
mod checkpoint;
mod checkpointer;
mod compaction;
mod consent;
mod context;
mod context_cache;
mod copy;
mod elsewhere;
mod error;
mod events;
mod follow;
mod git;
mod last_run;
mod plan;
mod position;
mod processes;
mod project;
mod rewind;
mod session;
mod store;
mod summary;
mod tasks;
mod tokens;

pub use accepted::check_accepted;
pub use answer::{AnswerRecorder, AnswerRequest, RecordedAnswer};
pub use backend::{
    Bundle, BundleStore, Capabilities, ChildBatchObserver, ChildRelay, ChildService, LivenessProbe,
    Maintenance, ProjectRegistry, SessionVerifier, StoreHome,
};
#[cfg(feature = "shared")]
pub use backend::{SharedOptions, SharedStore};
pub use checkpoint::{
    CheckpointEntry, CheckpointRequest, CheckpointSummary, RecordedCheckpoint, Trigger, summarize,
};
pub use checkpointer::{Checkpointer, CheckpointerEvent, CheckpointerOptions};
pub use compaction::{
    CompactRequest, CompactionEntry, CompactionError, CompactionResult, KEEP, Threshold,
};
pub use consent::Consent;
pub use context::SessionContext;
pub use copy::{CopiedSession, Copier};
pub use error::Error;
pub use events::Events;
pub use follow::EventFollower;
pub use git::git_state;
pub use last_run::LastRun;
pub use plan::{PLAN_LABEL, PLAN_TASKS_LABEL, PlanDocument, PlanMatch};
pub use position::{PositionError, ResolvedPosition};
pub use processes::{RUN_VARIABLE, descendants, end_processes, process_tree, processes_marked};
pub use project::{ProjectIdentity, Projects};
pub use rewind::{
    FinishPlan, RewindPlan, RewindReport, RewindRequest, RewindWatch, UnfinishedRewind,
};
pub use session::{Session, SessionView};
pub use store::{DEFAULT_WAIT, Store};
#[cfg(feature = "http")]
pub use summary::{EndpointForm, SummaryEndpoint};
pub use summary::{
    ExtractiveSummarizer, LineCall, LineTask, OpenTask, Summarizer, SummaryCommand, SummaryError,
    SummaryLine, SummaryRequest,
};
pub use tasks::{FlushReport, NextId, PendingTasks, SessionTasks};
pub use tokens::{TokenCount, Tokenizer};

pub use abide_local::{
    ActiveTask, BUNDLE_VERSION, BundleError, BundleFault, BundleHeader, BundleReader,
    CleanupOutcome, CleanupPlan, CleanupRules, ClockJump, CollectError, CollectionSummary,
    CreatedSession, DailyCleanup, DeleteError, DiskUse, Environment, EraseError, EraseLine,
    EraseOutcome, ErasePlan, EventPart, ExportError, FileMatch, FileMatches, ImportError,
    ImportOutcome, ImportedBundle, IndexProgress, IndexProgressCallback, Leftovers, LocalOptions,
    LocalStore, OpenCall, OpenTurn, OrphanProcess, ProjectConfig, ProjectUse, SessionLiveness,
    SessionRemoval, SessionScope, SessionUse, StoreFinder, StoreLocation, StorePlace,
    StorePlaceError, TextMatches, TrustPolicy, Upkeep, UserDirs,
};
pub use abide_local::{
    ConsideredStrategy, Doctor, Examination, FinishedRepair, RecordedLosses, RepairAction,
    RepairAftermath, RepairPlan, RepairRequest, RepairStrategy, UndoPlan,
};
pub use abide_local::{
    check_not_root, find_checkout, find_project, find_store, make_parents, read_small_file,
    store_of_named, store_of_project,
};
pub use abide_model::{
    AcknowledgedEvent, AgentObservation, Anomaly, AnomalyPolicy, ApiCall, ApiResult, AppendError,
    ArbiterDecision, Artifact, CallId, CallState, Checkpoint, CheckpointState, Compaction,
    CompactionPlan, Context, ContextEntry, ContextPin, ContextRestored, DependencyResolution,
    Digest, Durability, Epoch, Event, EventLimits, EventPage, EventRange, Excerpt, Fact,
    FileActivity, FileOp, FileState, FileTouch, FilesRestored, GitState, History, HistoryEntry,
    HistoryQuery, InputError, Kind, KnownBlock, LaneId, LaneState, LimitObservation, Lineage,
    LiveCompaction, Liveness, LivenessEvidence, LivenessReason, LockObservation, LogRecord,
    Manifest, Message, MessageBlock, MessageContent, ModelConfiguration, NewEvent, NewSession,
    NothingToCompact, OUTCOME_UNKNOWN, ObjectHash, Objects, Overview, ParentReason, Payload,
    PendingCall, PermissionAnswered, PermissionAsked, PermissionOption, ProcessObservation,
    ReadDirection, ReadFinding, Recovery, ResourceSample, Rewind, RunEnd, RunStart, RunState,
    Search, SearchError, SearchMatch, Seq, SessionCore, SessionFields, SessionId, SessionParent,
    SessionRef, SessionState, SessionStatus, SessionSummary, SourceDocument, StatusChange,
    StoreError, StoreUrl, StoreUrlError, TaskChange, TaskCreated, TaskError, TaskId,
    TaskListRecord, TaskNode, TaskProgress, TaskState, TaskStatus, TaskStatusChange, TaskTree,
    Thinning, Ticket, Timestamp, TokenBasis, ToolCall, ToolResult, TurnEnd, TurnEntry, TurnNumber,
    TurnRole, TurnStart, TurnState, Usage, UsageRecord, WorkspaceCounts, WriterHolder,
};
pub use abide_model::{ByteSize, KeepReason, RemovalReason, Retention, TimeSpan};
pub use abide_model::{ContextSource, Conversation, Marks, MessageForm};
pub use abide_model::{
    Finding, FindingPlace, FindingType, LiveEvent, Repair, Severity, Validation, ValidationRule,
    standard_rules,
};
#[cfg(feature = "shared")]
pub use abide_objects::{ObjectsError, ObjectsUrl};
pub use abide_plan::{
    DocumentTask, TaskList, TaskListDelta, TaskListError, TaskListFault, TaskListForm,
    delta as plan_delta,
};
#[cfg(feature = "shared")]
pub use abide_postgres::{
    MigratedVersions, SCHEMA_VERSION, ServerError, ServerErrorKind, StoreStatus,
};
pub use abide_wire::stream;
pub use abide_wire::{
    CallResult, Image, MessagePart, ReadMessage, RenderedContext, RequestedCall, WireError,
    export as export_message, read as read_message, read_call, record as record_message, render,
};
pub use abide_workspace as workspace;
pub use abide_workspace::Snapshot;
