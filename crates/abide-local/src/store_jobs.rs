//! The jobs on a store: each is a type of its own that borrows the store.

use crate::derived::index::StoreIndex;
use crate::maintain::cleanup::Cleaner;
use crate::maintain::collector::Collector;
use crate::maintain::doctor::Doctor;
use crate::maintain::erase::Eraser;
use crate::maintain::export::Exporter;
use crate::maintain::import::Importer;
use crate::maintain::session_remover::SessionRemover;
use crate::sessions::forker::Forker;
use crate::sessions::liveness_checker::LivenessChecker;
use crate::sessions::local_store::LocalStore;
use crate::sessions::session_finder::SessionFinder;

impl LocalStore {
    /// Examines the store and its sessions, and repairs them.
    #[must_use]
    pub fn doctor(&self) -> Doctor<'_> {
        Doctor::new(self)
    }

    /// Plans and applies cleanups.
    #[must_use]
    pub const fn cleaner(&self) -> Cleaner<'_> {
        Cleaner { store: self }
    }

    /// Removes the objects that nothing names.
    #[must_use]
    pub const fn collector(&self) -> Collector<'_> {
        Collector { store: self }
    }

    /// Erases payloads and files.
    #[must_use]
    pub const fn eraser(&self) -> Eraser<'_> {
        Eraser { store: self }
    }

    /// Exports sessions as bundles.
    #[must_use]
    pub const fn exporter(&self) -> Exporter<'_> {
        Exporter { store: self }
    }

    /// Finds sessions, and the project and the key of each.
    #[must_use]
    pub const fn finder(&self) -> SessionFinder<'_> {
        SessionFinder { store: self }
    }

    /// Forks sessions, and knows their forks.
    #[must_use]
    pub const fn forker(&self) -> Forker<'_> {
        Forker { store: self }
    }

    /// Imports bundles.
    #[must_use]
    pub const fn importer(&self) -> Importer<'_> {
        Importer { store: self }
    }

    /// The history index.
    #[must_use]
    pub const fn index(&self) -> StoreIndex<'_> {
        StoreIndex { store: self }
    }

    /// Checks whether the writers of sessions are alive.
    #[must_use]
    pub const fn liveness_checker(&self) -> LivenessChecker<'_> {
        LivenessChecker { store: self }
    }

    /// Removes sessions.
    #[must_use]
    pub const fn remover(&self) -> SessionRemover<'_> {
        SessionRemover { store: self }
    }
}
