//! What can go wrong, in one type.

use std::path::PathBuf;

use abide_local::{
    BundleError, DeleteError, EraseError, ExportError, ImportError, PlaceError, Where,
};
use abide_model::{
    AppendError, InputError, ObjectHash, StoreError, StoreUrl, StoreUrlError, TaskError,
};
use abide_plan::PlanError;
use abide_wire::stream::StreamError;
use abide_workspace::{ReadError, RestoreError, WorkspaceError};

use crate::{CompactionError, PositionError};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no store here or above.
    #[error("there is no abide store in {} or above it", from.display())]
    NoStore {
        /// Where the search began.
        from: std::path::PathBuf,
    },
    /// The person's store is made by the first recording, and there was none.
    #[error("nothing is recorded yet: there is no store in {}", root.display())]
    NothingRecorded {
        /// Where it will be.
        root: std::path::PathBuf,
    },
    /// What stands at the place of a store is not used.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A file of a project leads out of it, to a place that its user has not accepted.
    #[error(
        "{}/.abide names the store {}, which you have not accepted for this directory",
        project.display(),
        whole(place)
    )]
    NotAccepted {
        /// The project.
        project: PathBuf,
        /// Where it leads.
        place: Where,
    },
    /// A shared store wants to keep objects in a directory of this machine that nobody here named.
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
    /// The store could not do what was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An append failed.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// An event was not one.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A document is no plan, or a plan cannot be written as one.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Tasks were not changed.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// There is no such place in the session.
    #[error(transparent)]
    Position(#[from] PositionError),
    /// A session was not put into a bundle.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A bundle was not taken in.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The session's files are nowhere.
    #[error("{}", match root {
        Some(root) => format!("the workspace {} is not there", root.display()),
        None => "the session does not say where its workspace is".to_owned(),
    })]
    NoWorkspace {
        /// Where they should be.
        root: Option<std::path::PathBuf>,
    },
    /// The files of the workspace could not be captured.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A snapshot cannot be read.
    #[error("snapshot {hash} cannot be read: {reason}")]
    Snapshot {
        /// Which.
        hash: ObjectHash,
        /// Why.
        reason: String,
    },
    /// Something in a snapshot cannot be read.
    #[error(transparent)]
    Content(#[from] ReadError),
    /// Files could not be put back.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// There are no files to go back to.
    #[error("{}", no_files(*checkpoint, reason.as_deref()))]
    NoFiles {
        /// The checkpoint that was asked for.
        checkpoint: Option<u64>,
        /// Why it has none.
        reason: Option<String>,
    },
    /// The session was never rewound.
    #[error("there is no rewind to undo")]
    NothingToUndo,
    /// The files of a checkpoint are those of another directory.
    #[error("checkpoint {number} holds the files of {then}, and the session's are in {now}")]
    OtherWorkspace {
        /// The checkpoint.
        number: u64,
        /// Whose files it holds.
        then: String,
        /// Where the session's files are.
        now: String,
    },
    /// It was stopped, and everything is as it was.
    #[error("stopped; everything is as it was")]
    Cancelled,
    /// It was stopped, and not everything is as it was.
    #[error(
        "stopped; {left} files are not as they were, {first} among them; checkpoint {safety} holds them all"
    )]
    CancelledHalfWay {
        /// How many.
        left: u64,
        /// One of them, and why.
        first: String,
        /// The checkpoint of what was before.
        safety: u64,
    },
    /// A session was not deleted.
    #[error(transparent)]
    Delete(DeleteError),
    /// Payloads were not erased, or not all of them.
    #[error(transparent)]
    Erase(EraseError),
    /// It makes sense on files only.
    #[error("{what} looks after stores of files; {place} is not one")]
    OnlyFiles {
        /// Who would do it.
        what: &'static str,
        /// Which store it is.
        place: String,
    },
    /// The store has no such thing.
    #[error("{place} lacks {what}")]
    Lacking {
        /// What it would need.
        what: &'static str,
        /// Which store it is.
        place: String,
    },
    /// It cannot be told which project a directory is of.
    #[error("cannot tell which project {} is of: {reason}", dir.display())]
    Project {
        /// Which directory.
        dir: std::path::PathBuf,
        /// Why.
        reason: String,
    },
    /// A URL leads to no server.
    #[cfg(feature = "shared")]
    #[error(transparent)]
    ServerUrl(#[from] abide_postgres::UrlError),
    /// Objects cannot be reached where they are.
    #[cfg(feature = "shared")]
    #[error(transparent)]
    Objects(#[from] abide_objects::ObjectsError),
    /// A URL leads to no store.
    #[error("{url} is not the URL of a store")]
    Url {
        /// As it may be shown.
        url: StoreUrl,
        /// What is wrong with it.
        #[source]
        source: StoreUrlError,
    },
    /// Nothing was compacted.
    #[error(transparent)]
    Compaction(#[from] CompactionError),
    /// A model's answer cannot be read.
    #[error("the model's answer cannot be read")]
    Stream(#[from] StreamError),
    /// A model's answer was cut off.
    #[error("the model's answer was cut off")]
    CutOff(#[source] std::io::Error),
    /// The current directory is not known.
    #[error("cannot tell the current directory")]
    CurrentDir(#[source] std::io::Error),
    /// A file of this machine's could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: std::path::PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}

/// A place with all that decides where it is.
fn whole(place: &Where) -> String {
    match place {
        Where::Files(root) => root.display().to_string(),
        Where::Shared(url) => url.shown_whole(),
    }
}

fn no_files(checkpoint: Option<u64>, reason: Option<&str>) -> String {
    let which = match checkpoint {
        Some(number) => format!("checkpoint {number} holds no files"),
        None => "no checkpoint up to there holds files".to_owned(),
    };
    match reason {
        Some(reason) => format!("{which}: {reason}"),
        None => which,
    }
}

impl Error {
    /// An error of the file system, with what was tried on what.
    pub(crate) fn file(
        action: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    /// Was it stopped by whoever asked for it?
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
