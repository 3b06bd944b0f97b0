//! Facts: the typed data of each kind in the vocabulary.
//!
//! Reading is lenient: what a kind does not need may be missing, and what it does not know is
//! passed over here (the payload keeps it). What a kind cannot do without makes it malformed.

mod checkpoint;
mod context;
mod environment;
mod file;
mod message;
mod permission;
mod run;
mod session;
mod task;
mod tool;
mod turn;
mod usage;

pub use checkpoint::{Checkpoint, FilesRestored, Manifest, Rewind, Thinning, WorkspaceCounts};
pub use context::{Compaction, ContextRestored, Pin};
pub use environment::{
    DependencyResolution, Erasure, GitState, LogRecord, Recovery, ResourceSample,
};
pub use file::{Artifact, FileOp, FileTouch};
pub use message::{Block, Content, KnownBlock, Message};
pub use permission::{PermissionAnswered, PermissionAsked, PermissionOption};
pub use run::{AgentObservation, RunEnd, RunStart};
pub use session::{
    Created as SessionCreated, Parent, ParentReason, SessionFields, SessionStatus, Source,
    StatusChange, WriterOpened,
};
pub use task::{Created as TaskCreated, PlanRecord, TaskChange, TaskStatus, TaskStatusChange};
pub use tool::{ApiCall, ApiResult, ToolCall, ToolResult};
pub use turn::{ArbiterDecision, TurnEnd, TurnRole, TurnStart};
pub use usage::{LimitObservation, ModelConfiguration, Usage, UsageRecord};

use crate::{InputError, Kind, NewEvent, Payload};

/// Why data is not what its kind calls for.
#[derive(Debug, thiserror::Error)]
#[error("the data of `{kind}` is not what that kind calls for")]
pub struct FactError {
    /// The kind.
    pub kind: String,
    /// What the parser says.
    #[source]
    pub source: serde_json::Error,
}

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident($data:ty) = $kind:ident),+ $(,)?) => {
        /// The data of an event by its kind.
        #[derive(Debug, Clone)]
        pub enum Fact {
            $($(#[$doc])* $name($data),)+
            /// The writer let the session go.
            WriterClosed,
            /// The data was erased.
            Erased,
            /// A kind outside this version's vocabulary.
            Foreign,
        }

        impl Fact {
            /// Reads the data of an event of this kind.
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
    /// Somebody or something said this.
    Message(Message) = MESSAGE_ADDED,
    /// A tool is about to run, or was seen to run.
    ToolCall(ToolCall) = TOOL_CALLED,
    /// A tool has run.
    ToolResult(ToolResult) = TOOL_FINISHED,
    /// The session exists.
    SessionCreated(session::Created) = SESSION_CREATED,
    /// Something about the session is now otherwise.
    SessionUpdated(SessionFields) = SESSION_UPDATED,
    /// The session's status.
    SessionStatus(StatusChange) = SESSION_STATUS,
    /// The session went back.
    Rewind(Rewind) = SESSION_REWOUND,
    /// A writer took the session.
    WriterOpened(WriterOpened) = WRITER_OPENED,
    /// A run of an agent began.
    RunStarted(RunStart) = RUN_STARTED,
    /// It is over.
    RunFinished(RunEnd) = RUN_FINISHED,
    /// What an agent says of itself.
    AgentObserved(AgentObservation) = AGENT_OBSERVED,
    /// A turn began.
    TurnStarted(TurnStart) = TURN_STARTED,
    /// An arbiter decided.
    TurnDecided(ArbiterDecision) = TURN_DECIDED,
    /// A turn is over.
    TurnFinished(TurnEnd) = TURN_FINISHED,
    /// A request went to a model.
    ApiCall(ApiCall) = API_CALLED,
    /// The model's answer came.
    ApiResult(ApiResult) = API_FINISHED,
    /// An agent asks for leave.
    PermissionAsked(PermissionAsked) = PERMISSION_ASKED,
    /// What the user said to it.
    PermissionAnswered(PermissionAnswered) = PERMISSION_ANSWERED,
    /// A plan was taken in: its tasks follow.
    PlanRecorded(PlanRecord) = PLAN_RECORDED,
    /// A task exists.
    TaskCreated(task::Created) = TASK_CREATED,
    /// Something about a task is now otherwise.
    TaskChanged(TaskChange) = TASK_CHANGED,
    /// A task's status.
    TaskStatus(TaskStatusChange) = TASK_STATUS,
    /// A file was read, written, deleted or renamed.
    FileTouched(FileTouch) = FILE_TOUCHED,
    /// Something was built or tested.
    Artifact(Artifact) = ARTIFACT_RECORDED,
    /// A checkpoint.
    Checkpoint(Box<Checkpoint>) = CHECKPOINT_CREATED,
    /// Checkpoints that retention let go.
    Thinning(Thinning) = CHECKPOINT_THINNED,
    /// The files of a rewind are back.
    FilesRestored(FilesRestored) = FILES_RESTORED,
    /// A prefix of the context gave way to a summary.
    Compaction(Compaction) = CONTEXT_COMPACTED,
    /// A compaction was taken back.
    ContextRestored(ContextRestored) = CONTEXT_RESTORED,
    /// A message stays in the context.
    Pin(Pin) = CONTEXT_PINNED,
    /// What was used.
    Usage(UsageRecord) = USAGE_RECORDED,
    /// A rate limit was seen.
    Limit(LimitObservation) = LIMIT_OBSERVED,
    /// Which model, with which settings.
    Model(ModelConfiguration) = MODEL_CONFIGURED,
    /// The state of the git repository.
    Git(GitState) = GIT_OBSERVED,
    /// What the agent's processes use.
    Resources(ResourceSample) = RESOURCES_SAMPLED,
    /// Which versions the dependencies resolved to.
    Dependencies(DependencyResolution) = DEPENDENCIES_RESOLVED,
    /// A line of a log.
    Log(LogRecord) = LOG_RECORDED,
    /// What a recovery found and did.
    Recovery(Recovery) = RECOVERY_PERFORMED,
    /// A payload was erased.
    Erasure(Erasure) = PAYLOAD_ERASED,
}

/// A typed fact as a new event of its kind.
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
    Message => MESSAGE_ADDED,
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
    PlanRecord => PLAN_RECORDED,
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
    Pin => CONTEXT_PINNED,
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
}
