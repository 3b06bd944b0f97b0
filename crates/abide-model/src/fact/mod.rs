//! Facts: the typed data of each kind in the vocabulary.
//!
//! Reading is lenient: optional fields may be missing, and unknown fields are ignored here (the
//! payload keeps them). Without a required field an event is malformed.

mod checkpoint;
mod context;
mod dependency;
mod environment;
mod file;
mod message;
mod permission;
mod run;
mod session;
mod source;
mod task;
mod tool;
mod turn;
mod usage;

pub use checkpoint::{
    Checkpoint, FileChanges, FilesRestored, Manifest, ManifestTask, Rewind, TaskDependency,
    Thinning, WorkspaceCounts,
};
pub use context::{Compaction, ContextPin, ContextRestored};
pub use dependency::{DependencyType, DependencyTypes};
pub use environment::{
    DependencyResolution, Erasure, GitState, LogRecord, Recovery, ResourceSample,
};
pub use file::{Artifact, ArtifactCounts, FileOp, FileTouch};
pub use message::{KnownBlock, Message, MessageBlock, MessageContent};
pub use permission::{PermissionAnswered, PermissionAsked, PermissionOption};
pub use run::{AgentObservation, RunEnd, RunStart};
pub use session::{
    ParentReason, SessionCreated, SessionFields, SessionParent, SessionStatus, SourceDocument,
    StatusChange, WriterOpened,
};
pub use source::{SourceProgress, SourceRecord};
pub use task::{TaskChange, TaskCreated, TaskListRecord, TaskStatus, TaskStatusChange, is_check};
pub use tool::{ApiCall, ApiResult, ToolCall, ToolResult};
pub use turn::{ArbiterDecision, TurnEnd, TurnRole, TurnStart};
pub use usage::{LimitObservation, ModelConfiguration, Usage, UsageRecord};

use crate::{InputError, Kind, NewEvent, Payload};

/// Why data does not match its kind.
#[derive(Debug, thiserror::Error)]
#[error("the data of `{kind}` does not match the kind")]
pub struct FactError {
    /// The kind.
    pub kind: String,
    /// The parser's error.
    #[source]
    pub source: serde_json::Error,
}

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident($data:ty) = $kind:ident),+ $(,)?) => {
        /// The data of an event, typed by its kind.
        #[derive(Debug, Clone)]
        pub enum Fact {
            $($(#[$doc])* $name($data),)+
            /// The writer released the session.
            WriterClosed,
            /// The data was erased.
            Erased,
            /// A kind outside this version's vocabulary.
            Foreign,
        }

        impl Fact {
            /// Decodes the data of an event of this kind.
            pub fn decode(kind: &Kind, data: &Payload) -> Result<Self, FactError> {
                let wrong = |source| FactError { kind: kind.to_string(), source };
                $(if *kind == Kind::$kind {
                    return data.decode().map(Self::$name).map_err(wrong);
                })+
                Ok(if *kind == Kind::WRITER_CLOSED { Self::WriterClosed } else { Self::Foreign })
            }
        }

        $(impl TryFrom<&$data> for Payload {
            type Error = InputError;

            fn try_from(fact: &$data) -> Result<Self, InputError> {
                Self::of(fact)
            }
        })+
    };
}

facts! {
    /// A message was added.
    Message(Message) = MESSAGE_ADDED,
    /// A tool is about to run, or was observed to run.
    ToolCall(ToolCall) = TOOL_CALLED,
    /// A tool has finished.
    ToolResult(ToolResult) = TOOL_FINISHED,
    /// The session was created.
    SessionCreated(session::SessionCreated) = SESSION_CREATED,
    /// Fields of the session changed.
    SessionUpdated(SessionFields) = SESSION_UPDATED,
    /// The status of the session changed.
    SessionStatus(StatusChange) = SESSION_STATUS,
    /// The session was rewound.
    Rewind(Rewind) = SESSION_REWOUND,
    /// A writer opened the session.
    WriterOpened(WriterOpened) = WRITER_OPENED,
    /// A run of an agent started.
    RunStarted(RunStart) = RUN_STARTED,
    /// A run is over.
    RunFinished(RunEnd) = RUN_FINISHED,
    /// An agent described itself.
    AgentObserved(AgentObservation) = AGENT_OBSERVED,
    /// A turn started.
    TurnStarted(TurnStart) = TURN_STARTED,
    /// An arbiter decided.
    TurnDecided(ArbiterDecision) = TURN_DECIDED,
    /// A turn is over.
    TurnFinished(TurnEnd) = TURN_FINISHED,
    /// A request was sent to a model.
    ApiCall(ApiCall) = API_CALLED,
    /// The model answered.
    ApiResult(ApiResult) = API_FINISHED,
    /// An agent asked for permission.
    PermissionAsked(PermissionAsked) = PERMISSION_ASKED,
    /// The user answered a permission request.
    PermissionAnswered(PermissionAnswered) = PERMISSION_ANSWERED,
    /// A task list was recorded; its tasks follow.
    PlanRecorded(TaskListRecord) = PLAN_RECORDED,
    /// A task was created.
    TaskCreated(task::TaskCreated) = TASK_CREATED,
    /// Fields of a task changed.
    TaskChanged(TaskChange) = TASK_CHANGED,
    /// The status of a task changed.
    TaskStatus(TaskStatusChange) = TASK_STATUS,
    /// A file was read, written, deleted or renamed.
    FileTouched(FileTouch) = FILE_TOUCHED,
    /// Something was built or tested.
    Artifact(Artifact) = ARTIFACT_RECORDED,
    /// A checkpoint was made.
    Checkpoint(Box<Checkpoint>) = CHECKPOINT_CREATED,
    /// Retention dropped checkpoints.
    Thinning(Thinning) = CHECKPOINT_THINNED,
    /// The files of a rewind were restored.
    FilesRestored(FilesRestored) = FILES_RESTORED,
    /// A summary replaced part of the context.
    Compaction(Compaction) = CONTEXT_COMPACTED,
    /// A compaction was undone.
    ContextRestored(ContextRestored) = CONTEXT_RESTORED,
    /// A message was pinned to the context, or unpinned.
    Pin(ContextPin) = CONTEXT_PINNED,
    /// Usage was recorded.
    Usage(UsageRecord) = USAGE_RECORDED,
    /// A rate limit was observed.
    Limit(LimitObservation) = LIMIT_OBSERVED,
    /// The model or its settings changed.
    Model(ModelConfiguration) = MODEL_CONFIGURED,
    /// The state of the git repository.
    Git(GitState) = GIT_OBSERVED,
    /// Resource usage of the agent's processes.
    Resources(ResourceSample) = RESOURCES_SAMPLED,
    /// The resolved versions of dependencies.
    Dependencies(DependencyResolution) = DEPENDENCIES_RESOLVED,
    /// A log line.
    Log(LogRecord) = LOG_RECORDED,
    /// A recovery.
    Recovery(Recovery) = RECOVERY_PERFORMED,
    /// A payload was erased.
    Erasure(Erasure) = PAYLOAD_ERASED,
    /// A record of an agent's own file.
    SourceRecord(Box<SourceRecord>) = SOURCE_RECORDED,
    /// How far such a file was read.
    SourceProgress(SourceProgress) = SOURCE_READ,
}

/// Turns typed facts into new events of their kind.
macro_rules! new_events {
    ($($name:ident => $kind:ident),+ $(,)?) => {
        $(impl TryFrom<$name> for NewEvent {
            type Error = InputError;

            fn try_from(fact: $name) -> Result<Self, InputError> {
                Ok(Self::new(Kind::$kind, Payload::of(&fact)?))
            }
        })+
    };
}

new_events! {
    ToolCall => TOOL_CALLED,
    ToolResult => TOOL_FINISHED,
    StatusChange => SESSION_STATUS,
    SessionFields => SESSION_UPDATED,
    RunStart => RUN_STARTED,
    RunEnd => RUN_FINISHED,
    AgentObservation => AGENT_OBSERVED,
    TurnStart => TURN_STARTED,
    ArbiterDecision => TURN_DECIDED,
    TurnEnd => TURN_FINISHED,
    ApiCall => API_CALLED,
    ApiResult => API_FINISHED,
    PermissionAsked => PERMISSION_ASKED,
    PermissionAnswered => PERMISSION_ANSWERED,
    TaskListRecord => PLAN_RECORDED,
    TaskCreated => TASK_CREATED,
    TaskChange => TASK_CHANGED,
    TaskStatusChange => TASK_STATUS,
    FileTouch => FILE_TOUCHED,
    Artifact => ARTIFACT_RECORDED,
    Checkpoint => CHECKPOINT_CREATED,
    Thinning => CHECKPOINT_THINNED,
    FilesRestored => FILES_RESTORED,
    Compaction => CONTEXT_COMPACTED,
    ContextRestored => CONTEXT_RESTORED,
    ContextPin => CONTEXT_PINNED,
    UsageRecord => USAGE_RECORDED,
    LimitObservation => LIMIT_OBSERVED,
    ModelConfiguration => MODEL_CONFIGURED,
    GitState => GIT_OBSERVED,
    ResourceSample => RESOURCES_SAMPLED,
    DependencyResolution => DEPENDENCIES_RESOLVED,
    LogRecord => LOG_RECORDED,
    Recovery => RECOVERY_PERFORMED,
    Rewind => SESSION_REWOUND,
    Erasure => PAYLOAD_ERASED,
    SourceRecord => SOURCE_RECORDED,
    SourceProgress => SOURCE_READ,
}
