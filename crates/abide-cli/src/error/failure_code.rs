//! The codes of errors in the output of `--json`: a closed list, described in `docs/json.md`.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};

use abide::{
    AppendError, StoreError,
    bundle::{ExportError, ImportError},
    context::CompactionError,
    locate::{ServerError, StorePlaceError},
    maintenance::EraseError,
    secrets::RedactionError,
    tasks::TaskError,
};

/// What sort of failure it is, for programs. Codes are only added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FailureCode {
    /// None of the others.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The user cancelled it.
    Cancelled,
    /// A bug in abide.
    Bug,
    /// There is no store, or nothing is recorded yet.
    NoStore,
    /// The session, event, checkpoint, task or file that is named is not there.
    NotFound,
    /// Several fit the name.
    Ambiguous,
    /// Another process has the session or its files.
    Held,
    /// It does not fit what is there.
    Conflict,
    /// The place of the store is not trusted.
    NotTrusted,
    /// The input is not what it should be.
    Invalid,
    /// There is nothing to undo or to compact.
    NothingToDo,
    /// The store cannot do it.
    Unsupported,
    /// The store is of another version.
    Version,
    /// What was recorded is damaged.
    Damaged,
    /// There is no room on the disk.
    NoSpace,
    /// The operating system does not permit it.
    NotPermitted,
    /// Something could not be read or written.
    Io,
    /// The server of a shared store cannot be reached, or refuses.
    Server,
}

impl FailureCode {
    /// Every code.
    #[cfg(test)]
    pub(super) const ALL: [Self; 19] = [
        Self::Failed,
        Self::Usage,
        Self::Cancelled,
        Self::Bug,
        Self::NoStore,
        Self::NotFound,
        Self::Ambiguous,
        Self::Held,
        Self::Conflict,
        Self::NotTrusted,
        Self::Invalid,
        Self::NothingToDo,
        Self::Unsupported,
        Self::Version,
        Self::Damaged,
        Self::NoSpace,
        Self::NotPermitted,
        Self::Io,
        Self::Server,
    ];

    /// Its name in the output.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Cancelled => "cancelled",
            Self::Bug => "bug",
            Self::NoStore => "no_store",
            Self::NotFound => "not_found",
            Self::Ambiguous => "ambiguous",
            Self::Held => "held",
            Self::Conflict => "conflict",
            Self::NotTrusted => "not_trusted",
            Self::Invalid => "invalid",
            Self::NothingToDo => "nothing_to_do",
            Self::Unsupported => "unsupported",
            Self::Version => "version",
            Self::Damaged => "damaged",
            Self::NoSpace => "no_space",
            Self::NotPermitted => "not_permitted",
            Self::Io => "io",
            Self::Server => "server",
        }
    }

    /// The code of an error of the library.
    pub(super) fn of(error: &abide::Error) -> Self {
        match error {
            abide::Error::NoStore { .. } | abide::Error::NothingRecorded { .. } => Self::NoStore,
            abide::Error::HeldConversation { .. }
            | abide::Error::Restoring { .. }
            | abide::Error::BusyFile { .. }
            | abide::Error::Compaction(CompactionError::Relayed) => Self::Held,
            abide::Error::RewoundMeanwhile | abide::Error::OtherWorkspace { .. } => Self::Conflict,
            abide::Error::Place(error) => Self::of_place(error),
            abide::Error::NotAccepted { .. } | abide::Error::LocalObjects { .. } => {
                Self::NotTrusted
            }
            abide::Error::Store(error)
            | abide::Error::Export(ExportError::Store(error))
            | abide::Error::Import(ImportError::Store(error))
            | abide::Error::Erase(EraseError::Store(error)) => Self::of_store(error),
            abide::Error::Append(error) => Self::of_append(error),
            abide::Error::Input(_)
            | abide::Error::Plan(_)
            | abide::Error::Url { .. }
            | abide::Error::ServerUrl(_)
            | abide::Error::Stream(_)
            | abide::Error::Redaction(RedactionError::OwnRules(_) | RedactionError::Settings(_))
            | abide::Error::Import(ImportError::Bundle(_)) => Self::Invalid,
            abide::Error::Task(error) => match error {
                TaskError::Unknown { .. }
                | TaskError::UnknownParent { .. }
                | TaskError::UnknownDependency { .. } => Self::NotFound,
                TaskError::BadId { .. } => Self::Invalid,
                TaskError::Exists { .. }
                | TaskError::IllegalTransition { .. }
                | TaskError::OpenParts { .. }
                | TaskError::Cycle { .. } => Self::Conflict,
            },
            abide::Error::Position(_)
            | abide::Error::NoWorkspace { .. }
            | abide::Error::NoFiles { .. }
            | abide::Error::NoPlanFile
            | abide::Error::NoTasksInFile { .. }
            | abide::Error::Erase(EraseError::NoEvent { .. })
            | abide::Error::Import(ImportError::NoParent { .. })
            | abide::Error::Compaction(
                CompactionError::NotInContext { .. } | CompactionError::NotPinned { .. },
            ) => Self::NotFound,
            abide::Error::HasSecrets { .. }
            | abide::Error::Import(ImportError::Diverged { .. } | ImportError::KeyTaken { .. })
            | abide::Error::Export(ExportError::Changed { .. })
            | abide::Error::Delete(_) => Self::Conflict,
            abide::Error::NothingToUndo
            | abide::Error::NothingToRedo
            | abide::Error::Compaction(
                CompactionError::Nothing(_) | CompactionError::NothingToUndo,
            ) => Self::NothingToDo,
            abide::Error::OnlyFiles { .. }
            | abide::Error::Lacking { .. }
            | abide::Error::Erase(EraseError::Structural { .. }) => Self::Unsupported,
            abide::Error::Snapshot { .. }
            | abide::Error::Content(_)
            | abide::Error::Export(ExportError::Damaged { .. })
            | abide::Error::Erase(EraseError::Damaged { .. }) => Self::Damaged,
            abide::Error::Cancelled | abide::Error::CancelledHalfWay { .. } => Self::Cancelled,
            abide::Error::CurrentDir(error) | abide::Error::CutOff(error) => Self::of_io(error),
            abide::Error::File { source, .. } => Self::of_io(source),
            error => Self::behind(error),
        }
    }

    fn of_place(error: &StorePlaceError) -> Self {
        match error {
            StorePlaceError::Foreign { .. } | StorePlaceError::Writable { .. } => Self::NotTrusted,
            StorePlaceError::NotThere { .. } | StorePlaceError::NoHome => Self::NoStore,
            StorePlaceError::NotAStore { .. } | StorePlaceError::Root => Self::Conflict,
            StorePlaceError::Settings { .. } => Self::Invalid,
            StorePlaceError::Unreadable { source, .. } => Self::behind(source),
        }
    }

    fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::NoSession { .. }
            | StoreError::NoEvent { .. }
            | StoreError::NoParent { .. } => Self::NotFound,
            StoreError::Ambiguous { .. } => Self::Ambiguous,
            StoreError::Held { .. } | StoreError::TakenOver { .. } => Self::Held,
            StoreError::NewerVersion { .. } | StoreError::OlderVersion { .. } => Self::Version,
            StoreError::NotMade { .. } => Self::NoStore,
            StoreError::ObjectsElsewhere { .. } => Self::Conflict,
            StoreError::Damaged { .. } => Self::Damaged,
            StoreError::Storage { source, .. } if source.is::<ServerError>() => Self::Server,
            StoreError::Storage { source, .. } => match Self::behind(&**source) {
                Self::Failed => Self::Io,
                code => code,
            },
            StoreError::Append(error) => Self::of_append(error),
        }
    }

    fn of_append(error: &AppendError) -> Self {
        match error {
            AppendError::Input { .. } | AppendError::TooLarge { .. } => Self::Invalid,
            AppendError::Odd { .. } => Self::Conflict,
            AppendError::Stopped { source, .. } => match Self::behind(&**source) {
                Self::Failed => Self::Io,
                code => code,
            },
        }
    }

    /// The code of the first I/O error among an error and its causes.
    pub(super) fn behind(error: &(dyn StdError + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                return Self::of_io(error);
            }
            cause = error.source();
        }
        Self::Failed
    }

    pub(super) fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::NoSpace,
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Self::NotPermitted,
            ErrorKind::NotFound => Self::NotFound,
            _ => Self::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_page_lists_every_code_and_no_other() {
        let page = include_str!("../../../../docs/json.md");
        let errors = page.split("\n## Errors\n").nth(1).unwrap();
        let errors = errors.split("\n### ").next().unwrap();
        let rows = errors.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let listed: BTreeSet<&str> = rows.collect();
        let codes: BTreeSet<&str> = FailureCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), FailureCode::ALL.len());
        assert_eq!(listed, codes);
    }

    #[test]
    fn the_library_s_errors_have_codes() {
        let code = |error: abide::Error| FailureCode::of(&error).as_str();
        let full = || io::Error::from(ErrorKind::StorageFull);
        assert_eq!(code(abide::Error::NothingToUndo), "nothing_to_do");
        assert_eq!(code(abide::Error::CurrentDir(full())), "no_space");
        let reference = "x".to_owned();
        assert_eq!(code(StoreError::NoSession { reference }.into()), "not_found");
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        assert_eq!(FailureCode::behind(&denied), FailureCode::NotPermitted);
    }
}
