//! The library's error type.

use std::path::PathBuf;

use abide_local::{
    BundleError, DeleteError, EraseError, ExportError, ImportError, StoreLocation, StorePlaceError,
};
use abide_model::{
    AppendError, InputError, ObjectHash, SessionId, StoreError, StoreUrl, StoreUrlError, TaskError,
};
use abide_plan::TaskListError;
use abide_wire::stream::StreamError;
use abide_workspace::{ReadError, RestoreError, WorkspaceError};

use crate::redaction::BundleSecrets;
use crate::{context::CompactionError, event::PositionError, secrets::RedactionError};

/// The library's error type.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No store in this directory or above it.
    #[error("no abide store in {} or in a parent directory", from.display())]
    NoStore {
        /// The directory where the search started.
        from: std::path::PathBuf,
    },
    /// Nothing has been recorded yet; the user's store is created by the first recording.
    #[error("nothing is recorded yet: there is no store in {}", root.display())]
    NothingRecorded {
        /// The path of the future store.
        root: std::path::PathBuf,
    },
    /// The conversation of a session that another process holds cannot be rewound.
    #[error(
        "the conversation of session {} cannot be rewound: the process that holds the session has it in memory",
        session.short(SessionId::SHORT)
    )]
    HeldConversation {
        /// The session.
        session: SessionId,
    },
    /// Another process has rewound the session since the rewind was planned.
    #[error("the session was rewound by another process meanwhile; nothing was changed")]
    RewoundMeanwhile,
    /// Another process is restoring files in this directory.
    #[error("another process is restoring the files in {}", root.display())]
    Restoring {
        /// The directory.
        root: PathBuf,
    },
    /// The store at this place is refused.
    #[error(transparent)]
    Place(#[from] StorePlaceError),
    /// A file of the project points to a store outside it that the user has not accepted.
    #[error(
        "{}/.abide names the store {}, which you have not accepted for this directory",
        project.display(),
        full_store_location(place)
    )]
    NotAccepted {
        /// The project.
        project: PathBuf,
        /// The store it names.
        place: StoreLocation,
    },
    /// A shared store keeps its objects in a local directory that the user has not accepted.
    #[error(
        "{place} keeps its objects in {}, a directory of this machine, which you have not accepted",
        directory.display()
    )]
    LocalObjects {
        /// The store.
        place: String,
        /// The directory.
        directory: PathBuf,
    },
    /// A store operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An append failed.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// A bundle or a session of another store has secrets.
    #[error("it has secrets, and its events cannot be changed: {found}")]
    HasSecrets {
        /// The rules that found them, each with how often.
        found: String,
    },
    /// What would be recorded cannot be scanned for secrets.
    #[error(transparent)]
    Redaction(#[from] RedactionError),
    /// An event is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A document is not a valid plan, or a plan cannot be written.
    #[error(transparent)]
    Plan(#[from] TaskListError),
    /// The tasks could not be changed.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The session has no such position.
    #[error(transparent)]
    Position(#[from] PositionError),
    /// A session could not be exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A bundle could not be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The workspace of the session is missing.
    #[error("{}", match root {
        Some(root) => format!("the workspace {} does not exist", root.display()),
        None => "the session does not say where its workspace is".to_owned(),
    })]
    NoWorkspace {
        /// Its recorded path.
        root: Option<std::path::PathBuf>,
    },
    /// The workspace could not be captured.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A snapshot cannot be read.
    #[error("snapshot {hash} cannot be read: {reason}")]
    Snapshot {
        /// The snapshot.
        hash: ObjectHash,
        /// The reason.
        reason: String,
    },
    /// Part of a snapshot cannot be read.
    #[error(transparent)]
    Content(#[from] ReadError),
    /// Files could not be restored.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// There are no files to restore.
    #[error("{}", no_files_error(*checkpoint, reason.as_deref()))]
    NoFiles {
        /// The requested checkpoint.
        checkpoint: Option<u64>,
        /// Why it has no files.
        reason: Option<String>,
    },
    /// Nothing that was done is left to undo.
    #[error("there is nothing to undo")]
    NothingToUndo,
    /// Nothing that was undone is left to do again.
    #[error("there is nothing to redo")]
    NothingToRedo,
    /// The checkpoint was taken in another directory.
    #[error("checkpoint {number} holds the files of {then}, but the session's files are in {now}")]
    OtherWorkspace {
        /// The checkpoint.
        number: u64,
        /// The directory it was taken in.
        then: String,
        /// The directory of the session's files.
        now: String,
    },
    /// Cancelled; everything was put back.
    #[error("cancelled; everything was put back")]
    Cancelled,
    /// Cancelled; some files could not be put back.
    #[error(
        "cancelled; {left} files could not be put back, {first} among them; checkpoint {safety} holds them all"
    )]
    CancelledHalfWay {
        /// The number of files.
        left: u64,
        /// One of them, and why.
        first: String,
        /// The checkpoint that holds the previous state.
        safety: u64,
    },
    /// A session could not be deleted.
    #[error(transparent)]
    Delete(DeleteError),
    /// Payloads could not be erased, or not all of them.
    #[error(transparent)]
    Erase(EraseError),
    /// The operation works on local stores only.
    #[error("{what} works on local stores only; {place} is not one")]
    OnlyFiles {
        /// The operation.
        what: &'static str,
        /// The store.
        place: String,
    },
    /// The store does not support the operation.
    #[error("{place} does not support {what}")]
    Lacking {
        /// The missing feature.
        what: &'static str,
        /// The store.
        place: String,
    },
    /// The project of a directory cannot be determined.
    #[error("cannot determine the project of {}: {reason}", dir.display())]
    Project {
        /// The directory.
        dir: std::path::PathBuf,
        /// The reason.
        reason: String,
    },
    /// Invalid server URL.
    #[cfg(feature = "shared")]
    #[error(transparent)]
    ServerUrl(#[from] abide_postgres::UrlError),
    /// The object storage is unreachable or misconfigured.
    #[cfg(feature = "shared")]
    #[error(transparent)]
    Objects(#[from] abide_objects::ObjectsError),
    /// Invalid store URL.
    #[error("{url} is not the URL of a store")]
    Url {
        /// The URL without secrets.
        url: StoreUrl,
        /// What is wrong with it.
        #[source]
        source: StoreUrlError,
    },
    /// The context was not compacted.
    #[error(transparent)]
    Compaction(#[from] CompactionError),
    /// A model's answer cannot be read.
    #[error("the model's answer cannot be read")]
    Stream(#[from] StreamError),
    /// The model's answer was cut off.
    #[error("the model's answer was cut off")]
    CutOff(#[source] std::io::Error),
    /// The current directory is unknown.
    #[error("cannot determine the current directory")]
    CurrentDir(#[source] std::io::Error),
    /// The session was not started with a plan.
    #[error("the session has no plan document")]
    NoPlanFile,
    /// The file of a plan has no task.
    #[error("{} has no task whose status could be written", path.display())]
    NoTasksInFile {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else changes a file all the time.
    #[error("{} is changed again and again", path.display())]
    BusyFile {
        /// The file.
        path: PathBuf,
    },
    /// A local file could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The operation.
        action: &'static str,
        /// The path it failed on.
        path: std::path::PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// The full location of a store.
fn full_store_location(place: &StoreLocation) -> String {
    match place {
        StoreLocation::Files(root) => root.display().to_string(),
        StoreLocation::Shared(url) => url.shown_whole(),
    }
}

fn no_files_error(checkpoint: Option<u64>, reason: Option<&str>) -> String {
    let which = match checkpoint {
        Some(number) => format!("checkpoint {number} holds no files"),
        None => "no checkpoint up to this position holds files".to_owned(),
    };
    match reason {
        Some(reason) => format!("{which}: {reason}"),
        None => which,
    }
}

impl Error {
    /// Wraps a file system error with the operation and the path.
    pub(crate) fn file(
        action: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    /// The error of reading a bundle, with the secrets for which it was refused.
    pub(crate) fn screened(self, secrets: &BundleSecrets) -> Self {
        match self {
            Self::Import(ImportError::Bundle(BundleError::Screened)) => {
                Self::HasSecrets { found: secrets.in_words() }
            }
            error => error,
        }
    }

    /// Returns true if the caller cancelled the operation.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Cancelled
                | Self::CancelledHalfWay { .. }
                | Self::Workspace(WorkspaceError::Cancelled)
                | Self::Restore(RestoreError::Cancelled)
        )
    }
}

impl From<DeleteError> for Error {
    fn from(error: DeleteError) -> Self {
        match error {
            DeleteError::Store(error) => Self::Store(error),
            error @ DeleteError::Forked { .. } => Self::Delete(error),
        }
    }
}

impl From<EraseError> for Error {
    fn from(error: EraseError) -> Self {
        match error {
            EraseError::Store(error) => Self::Store(error),
            error => Self::Erase(error),
        }
    }
}

impl From<BundleError> for Error {
    fn from(error: BundleError) -> Self {
        Self::Import(error.into())
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
