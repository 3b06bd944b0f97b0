//! Finds what looks like state of a project and is in no snapshot because it is ignored: databases
//! and directories of data. A rewind would not bring them back, which people should know once.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use abide_model::{ObjectHash, Objects};
use abide_workspace::{EntryKind, Snapshot, Tree};

use crate::Store;

/// Names of directories that look like state.
const DIRECTORIES: [&str; 3] = ["data", "db", "state"];
/// Endings of files that look like state.
const ENDINGS: [&str; 3] = [".db", ".sqlite", ".sqlite3"];
/// How deep below the root to look: the root itself, and two levels of directories.
const LEVELS: usize = 3;
/// Maximum number of directories that are looked at.
const MOST_DIRECTORIES: usize = 500;
/// Maximum number of paths that are reported.
const MOST: usize = 20;
/// Maximum size of a file that is read.
const MOST_BYTES: u64 = 1 << 20;

impl Store {
    /// The paths that were not reported for this workspace before. They are noted as reported; if
    /// that fails, they are reported again.
    pub(crate) fn unreported_state(
        &self,
        root: &Path,
        objects: &dyn Objects,
        snapshot: &Snapshot,
    ) -> Vec<String> {
        let found = ignored_state(root, objects, snapshot, &self.workspace_policy(root).exclude);
        match self.workspace_note(root, "ignored") {
            Ok(note) => unreported_paths(&note, found),
            Err(_) => found,
        }
    }
}

/// Those of these paths that the file `note` does not hold yet. It holds them from here on.
pub(crate) fn unreported_paths(note: &Path, found: Vec<String>) -> Vec<String> {
    if found.is_empty() {
        return found;
    }
    let text = read_plain(note).unwrap_or_default();
    let mut reported: BTreeSet<&str> = text.lines().collect();
    let new: Vec<String> =
        found.iter().filter(|path| !reported.contains(path.as_str())).cloned().collect();
    if !new.is_empty() {
        reported.extend(new.iter().map(String::as_str));
        let lines: Vec<&str> = reported.into_iter().collect();
        // Derived: without it, the same is said again.
        let _ = write_anew(note, &lines.join("\n"));
    }
    new
}

/// Visits the upper directories of a snapshot, level by level, until `visit` says no.
pub(crate) fn walk_trees(
    objects: &dyn Objects,
    snapshot: &Snapshot,
    visit: &mut dyn FnMut(&Path, &Tree) -> bool,
) {
    let mut level = vec![(PathBuf::new(), snapshot.tree)];
    let mut looked_at = 0;
    for _ in 0..LEVELS {
        let mut next = Vec::new();
        for (within, hash) in level {
            looked_at += 1;
            if looked_at > MOST_DIRECTORIES {
                return;
            }
            let Some(tree) = read_tree(objects, hash) else { continue };
            if !visit(&within, &tree) {
                return;
            }
            for entry in tree.entries.iter().filter(|entry| entry.kind == EntryKind::Directory) {
                if let Ok(name) = std::str::from_utf8(&entry.name) {
                    next.push((within.join(name), entry.hash));
                }
            }
        }
        level = next;
    }
}

/// What looks like state below `root` and is not in the snapshot, with a slash after directories.
/// What the settings or `.abideignore` name was left out on purpose.
fn ignored_state(
    root: &Path,
    objects: &dyn Objects,
    snapshot: &Snapshot,
    excluded: &[String],
) -> Vec<String> {
    let own = read_plain(&root.join(".abideignore")).unwrap_or_default();
    let on_purpose: BTreeSet<&str> =
        excluded.iter().map(String::as_str).chain(own.lines()).map(bare).collect();
    let omitted: BTreeSet<&str> = snapshot.omitted.iter().map(|one| one.path.as_str()).collect();
    let mut found = Vec::new();
    walk_trees(objects, snapshot, &mut |within, tree| {
        for path in missing_state(root, within, tree) {
            let name = bare(path.rsplit_once('/').map_or(path.as_str(), |(_, name)| name));
            let is_named = on_purpose.contains(bare(&path)) || on_purpose.contains(name);
            if !is_named && !omitted.contains(bare(&path)) {
                found.push(path);
            }
        }
        found.len() < MOST
    });
    found.truncate(MOST);
    found
}

/// The text of a small ordinary file. A link or a device, which a repository may bring, is not read.
fn read_plain(path: &Path) -> Option<String> {
    fs::symlink_metadata(path).ok().filter(|found| found.is_file() && found.len() <= MOST_BYTES)?;
    let mut text = String::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Writes a file in place of what is there, through no link.
fn write_anew(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(&new)?.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}

fn bare(pattern: &str) -> &str {
    pattern.trim().trim_matches('/')
}

fn read_tree(objects: &dyn Objects, hash: ObjectHash) -> Option<Tree> {
    Tree::read(&objects.read(hash).ok().flatten()?).ok()
}

/// What looks like state in one directory and is not in its tree.
fn missing_state(root: &Path, within: &Path, tree: &Tree) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root.join(within)) else { return Vec::new() };
    let mut missing = Vec::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        // Links are not followed.
        let Ok(kind) = entry.file_type() else { continue };
        if tree.get(name.as_bytes()).is_some() {
            continue;
        }
        let path = within.join(&name).to_string_lossy().into_owned();
        let lower = name.to_ascii_lowercase();
        if kind.is_dir() && DIRECTORIES.contains(&lower.as_str()) {
            let is_empty = fs::read_dir(entry.path()).is_ok_and(|mut all| all.next().is_none());
            missing.extend((!is_empty).then(|| format!("{path}/")));
        } else if kind.is_file() && ENDINGS.iter().any(|ending| lower.ends_with(ending)) {
            missing.push(path);
        }
    }
    missing.sort_unstable();
    missing
}
