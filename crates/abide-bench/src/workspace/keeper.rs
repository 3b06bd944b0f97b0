//! abide's side: a store and a workspace, opened anew for each operation as a new process would.

use std::path::{Path, PathBuf};
use std::time::Duration;

use abide::{LocalOptions, LocalStore};
use abide_model::ObjectHash;
use abide_workspace::{
    Policy, RestoreWatch, TakenSnapshot, Watch, Workspace, plan, restore, restore_all,
};

use crate::Outcome;
use crate::bench::bytes_below;

/// A store that takes the files of a workspace.
#[derive(Debug, Clone)]
pub(crate) struct Keeper {
    dir: PathBuf,
    work: PathBuf,
    settle: Option<Duration>,
}

impl Keeper {
    /// Nothing is made before the first snapshot.
    pub(crate) fn new(dir: &Path, work: &Path) -> Self {
        Self { dir: dir.to_owned(), work: work.to_owned(), settle: None }
    }

    /// With another time after which a file is trusted by its metadata.
    pub(crate) fn settling(self, settle: Duration) -> Self {
        Self { settle: Some(settle), ..self }
    }

    fn store(&self) -> Outcome<LocalStore> {
        Ok(LocalStore::init(&self.dir, LocalOptions::default())?)
    }

    fn workspace(&self) -> Outcome<Workspace> {
        let workspace =
            Workspace::open(&self.work, &self.dir.join("workspace"), Policy::default())?;
        let workspace = workspace.with_global_excludes(None);
        Ok(match self.settle {
            Some(settle) => workspace.with_settle(settle),
            None => workspace,
        })
    }

    /// Takes the files, durably.
    pub(crate) fn snapshot(&self) -> Outcome<TakenSnapshot> {
        let objects = self.store()?.objects()?;
        Ok(self.workspace()?.snapshot(&objects, &Watch::default())?)
    }

    /// Takes the files as they are, and puts them back as they were.
    pub(crate) fn rewind(&self, to: ObjectHash) -> Outcome {
        let objects = self.store()?.objects()?;
        let present = self.workspace()?.snapshot(&objects, &Watch::default())?.snapshot.tree;
        let plan = plan(&objects, present, to, &[])?;
        whole(&restore(&self.work, &objects, &plan, &RestoreWatch::none())?)
    }

    /// Writes all files into an empty directory.
    pub(crate) fn write_all(&self, tree: ObjectHash, into: &Path) -> Outcome {
        let objects = self.store()?.objects()?;
        whole(&restore_all(into, &objects, tree, &RestoreWatch::none())?)
    }

    /// The bytes of the store, with the cache of the workspace.
    pub(crate) fn bytes(&self) -> Outcome<u64> {
        bytes_below(&self.dir)
    }

    /// The bytes of its objects alone.
    pub(crate) fn object_bytes(&self) -> Outcome<u64> {
        bytes_below(&self.dir.join("objects"))
    }
}

fn whole(restored: &abide_workspace::RestoreReport) -> Outcome {
    match restored.failed.first().or(restored.kept.first()) {
        Some((path, why)) => Err(format!("{}: {why}", String::from_utf8_lossy(path)).into()),
        None => Ok(()),
    }
}
