//! Which project a directory is of: an identity that survives moving it and cloning it.
//!
//! In a git repository it is made of its remote and its first commit, so that every clone on every
//! machine is the same project, and a linked worktree too. Without a remote it is the first commit
//! alone. A shallow clone does not have the first commit: there it is the remote alone, which a
//! whole clone of the same remote has among [`ProjectIdentity::also`], but not the other way round.
//! Without git, or before the first commit, it is a random id in a file, `project` in the store's
//! directory or else `.abide-project`, which goes where the directory goes.

mod remote;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use abide_local::{Environment, Trust, find_project, has_store, read_small_file};
use abide_model::ObjectHash;

use self::remote::Remote;
use crate::Error;
use crate::git::ask;

/// The first line of what an id is the hash of. Another way to make ids gets another number.
const VERSION: &str = "abide project 1";
/// Characters of an id, of each sort.
const CHARACTERS: usize = 32;
/// The most bytes of a file that holds an id.
const FILE_BYTES: u64 = 256;

/// Which project a directory is of. A session is of the project when it was recorded with `id`, or
/// with one of `also`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectIdentity {
    /// What it is known by, on every machine.
    pub id: String,
    /// For people: `owner/repository`, or the name of the directory.
    pub name: String,
    /// What it was known by before it had a first commit or a remote, and in shallow clones.
    pub also: Vec<String>,
}

impl ProjectIdentity {
    /// The project of a directory; none where it has no identity yet. Nothing is written.
    ///
    /// # Errors
    ///
    /// Git cannot be asked, or the file with the id cannot be read.
    pub fn of(dir: &Path) -> Result<Option<Self>, Error> {
        let project = find_project(dir, &Trust::of_process());
        let stored = stored(&project)?.map(|stored| id_of(&[("stored", &stored)]));
        let failed = |reason| Error::Project { dir: dir.to_owned(), reason };
        let (remote, first) = git_marks(dir).map_err(failed)?;
        let name = remote.as_ref().map_or_else(|| name_of(&project), Remote::name);
        let remote = remote.map(|remote| remote.to_string());
        let first = first.as_deref();
        let by_remote = remote.as_deref().map(|remote| id_of(&[("remote", remote)]));
        let by_first = first.map(|first| id_of(&[("first", first)]));
        let by_both = remote.as_deref().zip(first);
        let by_both = by_both.map(|(remote, first)| id_of(&[("remote", remote), ("first", first)]));
        let mut ids = [by_both, by_first, by_remote, stored].into_iter().flatten();
        Ok(ids.next().map(|id| Self { id, name, also: ids.collect() }))
    }

    /// The project of a directory in which something is recorded: one that has no identity gets one.
    ///
    /// # Errors
    ///
    /// As [`ProjectIdentity::of`], or the file with the id cannot be written.
    pub fn for_recording(dir: &Path) -> Result<Self, Error> {
        if let Some(known) = Self::of(dir)? {
            return Ok(known);
        }
        let project = find_project(dir, &Trust::of_process());
        let stored = store(&project)?;
        let id = id_of(&[("stored", &stored)]);
        Ok(Self { id, name: name_of(&project), also: Vec::new() })
    }
}

fn id_of(marks: &[(&str, &str)]) -> String {
    let mut text = format!("{VERSION}\n");
    for (name, mark) in marks {
        text.push_str(&format!("{name} {mark}\n"));
    }
    ObjectHash::of(text.as_bytes()).to_string().chars().take(CHARACTERS).collect()
}

fn name_of(project: &Path) -> String {
    let name = project.file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| project.display().to_string())
}

/// The remote and the first commit of the repository that a directory is in, as far as it has them.
/// Before there is a commit nothing tells it from another one.
fn git_marks(dir: &Path) -> Result<(Option<Remote>, Option<String>), String> {
    if !dir.ancestors().any(|dir| dir.join(".git").exists()) {
        return Ok((None, None));
    }
    // Fails where git cannot be asked at all; what follows may have nothing to say.
    let shallow = ask(dir, &["rev-parse", "--is-shallow-repository"])? == "true";
    if ask(dir, &["rev-parse", "--verify", "--quiet", "HEAD"]).is_err() {
        return Ok((None, None));
    }
    let first = if shallow {
        None
    } else {
        let all = ask(dir, &["rev-list", "--max-parents=0", "HEAD"])?;
        all.lines().min().map(str::to_owned)
    };
    Ok((remote(dir)?, first))
}

/// The remote `origin`, else the first by name; none where it is a directory.
fn remote(dir: &Path) -> Result<Option<Remote>, String> {
    let configured = ask(dir, &["config", "--null", "--name-only", "--list"])?;
    let named = |key: &str| Some(key.strip_prefix("remote.")?.strip_suffix(".url")?.to_owned());
    let mut names: Vec<String> = configured.split('\0').filter_map(named).collect();
    names.sort_by_key(|name| (name != "origin", name.clone()));
    let Some(name) = names.first() else { return Ok(None) };
    // With the user's abbreviations written out.
    let url = ask(dir, &["ls-remote", "--get-url", "--", name])?;
    Ok(Remote::parse(&url))
}

/// Where an id may be stored: in the store's directory, where that is to be trusted, or beside it, or
/// beside the file that points to a store.
fn files_in(project: &Path) -> (Option<PathBuf>, PathBuf) {
    let store = project.join(".abide");
    // Not through a link: it may lead anywhere.
    let there = fs::symlink_metadata(&store).is_ok_and(|found| found.is_dir());
    let own = there && has_store(project, &Trust::of_process());
    (own.then(|| store.join("project")), project.join(".abide-project"))
}

fn stored(project: &Path) -> Result<Option<String>, Error> {
    let (inside, beside) = files_in(project);
    let mut found = inside.into_iter().chain([beside]).map(|path| stored_at(project, path));
    found.find_map(Result::transpose).transpose()
}

fn stored_at(project: &Path, path: PathBuf) -> Result<Option<String>, Error> {
    let failed = |reason| Error::Project { dir: project.to_owned(), reason };
    let text = match read_small_file(&path, FILE_BYTES) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(format!("cannot read {}: {error}", path.display()))),
    };
    let id = text.trim();
    if id.len() == CHARACTERS && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Some(id.to_ascii_lowercase()));
    }
    Err(failed(format!("{} holds no id", path.display())))
}

/// Stores a new id; where another process was faster, that is the one.
fn store(project: &Path) -> Result<String, Error> {
    let (inside, beside) = files_in(project);
    let path = inside.unwrap_or(beside);
    let mut random = [0; CHARACTERS / 2];
    (Environment::default().random)(&mut random);
    let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let whole = path.with_file_name(format!(".abide-project-{id}"));
    let written = write(&whole, &id).and_then(|()| match fs::hard_link(&whole, &path) {
        // Not every file system has links. A new file too: what stands there is not written through.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => match write(&path, &id) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        },
        _ => Ok(()),
    });
    let _ = fs::remove_file(&whole);
    let failed = |reason| Error::Project { dir: project.to_owned(), reason };
    written.map_err(|error| failed(format!("cannot write {}: {error}", path.display())))?;
    stored(project)?.ok_or_else(|| failed(format!("{} was removed", path.display())))
}

fn write(path: &Path, id: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{id}")?;
    file.sync_all()
}
