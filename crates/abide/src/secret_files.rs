//! Finds files of a snapshot that usually hold secrets, so that a person can say once what becomes of
//! them.

use std::path::Path;

use abide_model::Objects;
use abide_workspace::{EntryKind, SecretFiles, Snapshot, is_secret_file_name};

use crate::ignored_state::{unreported_paths, walk_trees};
use crate::{Error, Store};

/// Maximum number of paths that are reported.
const MOST: usize = 20;

impl Store {
    /// The captured files that usually hold secrets, by their names, if the settings do not say what
    /// becomes of them. Only the upper directories are looked at.
    pub(crate) fn secret_files(
        &self,
        root: &Path,
        objects: &dyn Objects,
        snapshot: &Snapshot,
    ) -> Vec<String> {
        // A shared store has no settings of a workspace.
        if self.as_files().is_none() || self.workspace_policy(root).secrets.is_some() {
            return Vec::new();
        }
        let mut found = Vec::new();
        walk_trees(objects, snapshot, &mut |within, tree| {
            let files = tree.entries.iter().filter(|entry| entry.kind == EntryKind::File);
            let named = files.filter_map(|entry| std::str::from_utf8(&entry.name).ok());
            let paths = named.filter(|name| is_secret_file_name(name));
            found.extend(paths.map(|name| within.join(name).to_string_lossy().into_owned()));
            found.len() < MOST
        });
        found.truncate(MOST);
        found
    }

    /// Those of these files that were not named for this workspace before. They count as named from
    /// here on.
    pub fn unnamed_secret_files(&self, root: &Path, files: &[String]) -> Vec<String> {
        match self.workspace_note(root, "secrets") {
            Ok(note) => unreported_paths(&note, files.to_vec()),
            Err(_) => files.to_vec(),
        }
    }

    /// Sets what becomes of files that usually hold secrets in this workspace: `workspace.secrets` in
    /// the store's settings. Applies to stores that are opened after it.
    pub fn set_secret_files(&self, root: &Path, secrets: SecretFiles) -> Result<(), Error> {
        Ok(self.files("workspace.secrets")?.set_secret_files(root, secrets)?)
    }
}
