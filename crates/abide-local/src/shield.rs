//! Protects the store from `git clean -fdx`, which removes whatever is ignored.
//!
//! `git clean` skips a directory that contains a repository of its own. So the directories that
//! cannot be rebuilt contain an empty one, without a commit and never used. The files beside them
//! (the settings, the id, the index, `.gitignore`) are not protected; they are derived, or copied
//! into the empty repository, and are restored when the store is next opened.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use abide_journal::{Access, Storage, read_full, write_full};

use crate::store_layout::StoreLayout;

/// The name of a repository in a directory.
pub(crate) const NAME: &str = ".git";
const HEAD: &[u8] = b"ref: refs/heads/abide\n";
/// Hides the store from git.
const GITIGNORE: &[u8] = b"*\n";
/// The largest file that is copied.
const MAX: usize = 1 << 20;

/// Creates the empty repositories. Best effort: if it fails, the store still works.
pub(crate) fn raise_shield(storage: &dyn Storage, layout: &StoreLayout) {
    for repository in layout.shields() {
        if shield_has_file(storage, &repository.join("HEAD")) {
            continue;
        }
        let made = repository
            .parent()
            .map_or(Ok(()), |dir| storage.make_dir(dir))
            .and_then(|()| storage.make_dir(&repository))
            .and_then(|()| storage.make_dir(&repository.join("objects")))
            .and_then(|()| storage.make_dir(&repository.join("refs")));
        if made.is_ok() {
            put_shield_file(storage, &repository.join("HEAD"), HEAD);
        }
    }
    let copy = shield_copy(layout);
    if let Some(settings) = read_shield_file(storage, &layout.config())
        && read_shield_file(storage, &copy).as_ref() != Some(&settings)
    {
        put_shield_file(storage, &copy, &settings);
    }
}

/// Keeps a copy of the store's id.
pub(crate) fn keep_id_in_shield(storage: &dyn Storage, layout: &StoreLayout) {
    if let Some(id) = read_shield_file(storage, &layout.id()) {
        put_shield_file(storage, &shield_id_copy(layout), &id);
    }
}

/// Restores what `git clean` removed: the settings, `.gitignore` and the store's id. `false` if the
/// settings exist, or no store does.
pub(crate) fn mend_shield(storage: &dyn Storage, layout: &StoreLayout) -> bool {
    let gone = matches!(
        storage.open(&layout.config(), Access::Read),
        Err(error) if error.kind() == ErrorKind::NotFound
    );
    let shielded = shield_has_file(storage, &layout.sessions().join(NAME).join("HEAD"));
    if !gone || !shielded {
        return false;
    }
    if !shield_has_file(storage, &layout.gitignore()) {
        put_shield_file(storage, &layout.gitignore(), GITIGNORE);
    }
    if !shield_has_file(storage, &layout.id())
        && let Some(id) = read_shield_file(storage, &shield_id_copy(layout))
    {
        put_shield_file(storage, &layout.id(), &id);
    }
    match read_shield_file(storage, &shield_copy(layout)) {
        Some(settings) => put_shield_file(storage, &layout.config(), &settings),
        None => crate::config::Config::write_default(storage, &layout.config()).is_ok(),
    }
}

/// The path of the copy of the settings.
fn shield_copy(layout: &StoreLayout) -> PathBuf {
    layout.sessions().join(NAME).join("config.toml")
}

/// The path of the copy of the store's id.
fn shield_id_copy(layout: &StoreLayout) -> PathBuf {
    layout.sessions().join(NAME).join("id")
}

/// The copy of the settings, if there is a valid one.
pub(crate) fn shield_settings_copy(storage: &dyn Storage, layout: &StoreLayout) -> Option<PathBuf> {
    let path = shield_copy(layout);
    crate::config::Config::read(storage, &path).is_ok().then_some(path)
}

fn shield_has_file(storage: &dyn Storage, path: &Path) -> bool {
    storage.open(path, Access::Read).is_ok()
}

fn read_shield_file(storage: &dyn Storage, path: &Path) -> Option<Vec<u8>> {
    let file = storage.open(path, Access::Read).ok()?;
    let mut bytes = vec![0; usize::try_from(file.len().ok()?).ok()?.min(MAX)];
    let read = read_full(&*file, &mut bytes, 0).ok()?;
    bytes.truncate(read);
    (!bytes.is_empty()).then_some(bytes)
}

/// Writes a file atomically.
fn put_shield_file(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> bool {
    let temporary = path.with_extension("tmp");
    let written = storage.open(&temporary, Access::Create).and_then(|file| {
        write_full(&*file, bytes, 0)?;
        file.truncate(bytes.len() as u64)?;
        file.sync()
    });
    written.and_then(|()| storage.rename(&temporary, path)).is_ok()
}
