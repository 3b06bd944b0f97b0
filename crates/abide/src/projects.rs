//! Identifies the project that a directory belongs to, across moves and clones.
//!
//! In a git repository the identity is derived from its remote and its first commit, so every clone
//! on every machine, and every linked worktree, is the same project. Without a remote it is derived
//! from the first commit alone. A shallow clone does not have the first commit, so there it is
//! derived from the remote alone; a full clone of the same remote lists that id in
//! [`ProjectIdentity::also`], but not the other way round. Without git, or before the first commit,
//! the identity is a random id kept by the path of the directory, outside of it ([`Projects`]). The
//! ids that a repository was known by are kept there too, for when its remote or its history
//! changes. Nothing is written into a project.

mod marks;
mod path_identity;
mod remote;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use abide_local::{TrustPolicy, UserDirs, find_project, has_store, read_small_file};
use abide_model::ObjectHash;

use self::marks::{MarksCache, RepositoryFacts};
use self::path_identity::{IdentityDirectory, PathFailure, PathIdentity};
use crate::Error;

/// The first line of the text that an id is a hash of. A new way to make ids gets a new number.
const VERSION: &str = "abide project 1";
/// Number of characters in an id of either kind.
const CHARACTERS: usize = 32;
/// Maximum size of a file that holds an id.
const FILE_BYTES: u64 = 256;
/// The directory for project data, in the user's store and elsewhere.
const DIRECTORY: &str = "projects";

/// The identity of a project. A session belongs to the project if it was recorded with `id` or with
/// one of `also`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectIdentity {
    /// The id, the same on every machine.
    pub id: String,
    /// The name for display: `owner/repository`, or the name of the directory.
    pub name: String,
    /// Earlier ids: from before it had a first commit or a remote, from shallow clones, and from
    /// before it was moved.
    pub also: Vec<String>,
}

impl ProjectIdentity {
    /// All ids its sessions may have been recorded with, newest first.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        std::iter::once(&self.id).chain(&self.also).cloned().collect()
    }
}

/// What to do if git fails: it is not installed, does not trust the repository's owner, or finds
/// the repository broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GitFallback {
    /// Identify the project by its path. What is recorded this way is found again once git works.
    #[default]
    ByPath,
    /// Fail: on other machines a path means nothing.
    Refuse,
}

/// Where project identities are kept.
#[derive(Debug, Clone, Default)]
pub struct Projects {
    /// Directories with ids by path. New ones go to the first.
    kept: Vec<IdentityDirectory>,
    /// The directory of the cache of git's answers.
    cache: Option<PathBuf>,
    /// Files outside a repository that can affect its remote.
    settings: Vec<PathBuf>,
    without_git: GitFallback,
}

impl Projects {
    /// Keeps ids in the user's store, which is in this directory.
    #[must_use]
    pub fn in_store(store: &Path, person: &UserDirs) -> Self {
        let state = person.state.as_ref().map(|state| state.join(DIRECTORY));
        let store = IdentityDirectory { dir: store.join(DIRECTORY), of_store: true };
        let state = state.map(|dir| IdentityDirectory { dir, of_store: false });
        let kept = std::iter::once(store).chain(state).collect();
        Self { kept, ..Self::of_person(person) }
    }

    /// Keeps ids in the user's state directory, because the store is shared. If git fails, nothing
    /// is guessed.
    #[must_use]
    pub fn in_state(person: &UserDirs) -> Self {
        let state = person.state.as_ref().map(|state| state.join(DIRECTORY));
        let store = person.store().map(|store| store.join(DIRECTORY));
        let kept = state.into_iter().chain(store);
        let kept = kept.map(|dir| IdentityDirectory { dir, of_store: false }).collect();
        Self { kept, without_git: GitFallback::Refuse, ..Self::of_person(person) }
    }

    fn of_person(person: &UserDirs) -> Self {
        let home = person.home.as_ref().map(|home| home.join(".gitconfig"));
        let config = person.config.as_ref().and_then(|config| config.parent()?.parent());
        let config = config.map(|config| config.join("git/config"));
        let named = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].into_iter();
        let named = named.filter_map(std::env::var_os).map(PathBuf::from);
        let settings = home.into_iter().chain(config).chain(named).collect();
        let cache = person.cache.as_ref().map(|cache| cache.join(DIRECTORY));
        Self { cache, settings, ..Self::default() }
    }

    /// The project of a directory; `None` if it has no identity yet. In a git repository where
    /// nothing was recorded and which has no identity, returns one that no session has. Writes only
    /// the cache of git's answers and, next to the other ids, ids that a repository no longer has.
    ///
    /// # Errors
    ///
    /// Git failed and is required, or an id cannot be read.
    pub fn of(&self, dir: &Path) -> Result<Option<ProjectIdentity>, Error> {
        let project = find_project(dir, &TrustPolicy::of_process());
        let entry = self.entry(&project)?;
        let KnownProject { identity, said } = self.known(dir, &project, entry.as_ref())?;
        if !said.before.is_empty() && self.kept.first().is_some_and(IdentityDirectory::has_place) {
            self.keep_used(&project, entry.as_ref(), &said);
        }
        let in_repository = said.failed.is_some() || said.repository.is_some();
        Ok(identity.or_else(|| in_repository.then(|| project_by_place(&project))))
    }

    /// The project of a directory for recording: creates an identity if there is none.
    ///
    /// # Errors
    ///
    /// As [`Projects::of`], or the id cannot be written.
    pub fn for_recording(&self, dir: &Path) -> Result<ProjectIdentity, Error> {
        let project = find_project(dir, &TrustPolicy::of_process());
        let entry = self.entry(&project)?;
        let KnownProject { identity, said } = self.known(dir, &project, entry.as_ref())?;
        if let Some(known) = identity {
            self.keep_used(&project, entry.as_ref(), &said);
            return Ok(known);
        }
        let failed = |reason| Error::Project { dir: project.clone(), reason };
        let nowhere = || failed("there is no directory to store its id in: set HOME".to_owned());
        let kept = self.kept.first().ok_or_else(nowhere)?;
        let entry = path_identity::make_path_identity(kept, &project, entry.as_ref());
        let entry = entry
            .map_err(|(path, error)| failed(format!("cannot write {}: {error}", path.display())))?;
        let made = self.known(dir, &project, Some(&entry))?.identity;
        made.ok_or_else(|| failed("its id was removed".to_owned()))
    }

    /// Keeps the ids of a repository, so that it is found after its remote or its history changes
    /// even if nothing else remembers them. A failed write is retried the next time.
    fn keep_used(&self, project: &Path, entry: Option<&PathIdentity>, said: &RepositoryFacts) {
        let ids: Vec<String> = said.marks.ids().into_iter().chain(said.before.clone()).collect();
        let Some(repository) = said.repository.as_deref() else { return };
        let used = entry.map_or(&[][..], |entry| entry.used(Some(repository)));
        if ids.iter().all(|id| used.contains(id)) && used.first() == ids.first() {
            return;
        }
        if let Some(kept) = self.kept.first().filter(|_| !ids.is_empty()) {
            let _ = path_identity::update_path_identity(kept, project, entry, |entry| {
                entry.mark_used(repository, &ids)
            });
        }
    }

    /// Declares that the directory `old` is now `new`, because it was moved or its remote was
    /// changed: what was recorded there belongs to this project. Returns its identity.
    ///
    /// # Errors
    ///
    /// Neither has an identity, they are the same project already, or it cannot be written.
    pub fn moved(&self, old: &Path, new: &Path) -> Result<ProjectIdentity, Error> {
        let trust = TrustPolicy::of_process();
        let failed =
            |reason: &str| Error::Project { dir: old.to_owned(), reason: reason.to_owned() };
        let project = find_project(new, &trust);
        // If it is gone, it is looked up by its former path.
        let there = old.is_dir();
        let from = if there {
            find_project(old, &trust)
        } else {
            path_identity::absolute_project_path(old)
        };
        let before = self.entry(&from)?;
        let mut ids = Vec::new();
        if there {
            let known = self.known(old, &from, before.as_ref())?.identity;
            ids.extend(known.map(|known| known.ids()));
        } else {
            ids.extend(before.as_ref().map(PathIdentity::ids));
            ids.extend(self.marks().last_known(&from.join(".git")));
        }
        let mut ids: Vec<String> = ids.into_iter().flatten().collect();
        if ids.is_empty() {
            return Err(failed("it is unknown: no session was recorded there"));
        }
        let entry = self.entry(&project)?;
        let known = self.known(new, &project, entry.as_ref())?.identity;
        let known = known.map(|known| known.ids()).unwrap_or_default();
        ids.retain(|id| !known.contains(id));
        if ids.is_empty() {
            return Err(failed("it is the same project already"));
        }
        let unwritten = |(path, error): PathFailure| Error::Project {
            dir: old.to_owned(),
            reason: format!("cannot write {}: {error}", path.display()),
        };
        let kept =
            self.kept.first().ok_or_else(|| failed("there is no directory to store that in"))?;
        let told = path_identity::update_path_identity(kept, &project, entry.as_ref(), |entry| {
            if entry.stored.is_none() {
                // The id moves along, so that later recordings have the same one.
                entry.stored = before.as_ref().and_then(|before| before.stored.clone());
            }
            let own = entry.stored.as_deref().map(stored_id);
            let others = ids.iter().filter(|id| Some(*id) != own.as_ref());
            let new: Vec<_> = others.filter(|id| !entry.also.contains(id)).cloned().collect();
            entry.also.extend(new);
        });
        let entry = told.map_err(unwritten)?;
        if !there {
            // Whatever appears there later is a different project.
            let forgotten = self
                .kept
                .iter()
                .try_for_each(|kept| path_identity::remove_path_identity(kept, &from));
            forgotten.map_err(unwritten)?;
        }
        let made = self.known(new, &project, Some(&entry))?.identity;
        made.ok_or_else(|| failed("it has no identity"))
    }

    fn known(
        &self,
        dir: &Path,
        project: &Path,
        entry: Option<&PathIdentity>,
    ) -> Result<KnownProject, Error> {
        let said = marks::repository_marks(dir, &TrustPolicy::of_process(), &self.marks());
        let used = entry.map_or(&[][..], |entry| entry.used(said.repository.as_deref()));
        let mut ids = said.marks.ids();
        if said.failed.is_some() {
            // From git's last answer.
            ids.extend(used.iter().cloned());
        }
        if let (Some(reason), true, GitFallback::Refuse) =
            (&said.failed, ids.is_empty(), self.without_git)
        {
            return Err(Error::Project { dir: dir.to_owned(), reason: reason.clone() });
        }
        // This file comes from whoever wrote the project: an error in it must not hide what is
        // known without it.
        let stored = match stored_project_id(project) {
            Err(_) if !ids.is_empty() => None,
            stored => stored?,
        };
        let stored = stored.or_else(|| entry.and_then(|entry| entry.stored.clone()));
        ids.extend(stored.map(|stored| stored_id(&stored)));
        let mut ids = ids.into_iter();
        let identity = ids.next().map(|id| {
            let name = said.marks.name.clone().unwrap_or_else(|| project_name_of(project));
            let mut known = ProjectIdentity { id, name, also: Vec::new() };
            let told = entry.map_or(&[][..], |entry| &entry.also);
            for id in ids.chain([&said.before[..], used, told].concat()) {
                if id != known.id && !known.also.contains(&id) {
                    known.also.push(id);
                }
            }
            known
        });
        Ok(KnownProject { identity, said })
    }

    /// What is kept for a project by its path.
    fn entry(&self, project: &Path) -> Result<Option<PathIdentity>, Error> {
        let mut found = self
            .kept
            .iter()
            .filter_map(|kept| path_identity::read_path_identity(kept, project).transpose());
        found.next().transpose().map_err(|(path, reason)| Error::Project {
            dir: project.to_owned(),
            reason: format!("cannot read {}: {reason}", path.display()),
        })
    }

    fn marks(&self) -> MarksCache<'_> {
        MarksCache { dir: self.cache.as_deref(), settings: &self.settings }
    }
}

/// What is known about a directory.
struct KnownProject {
    identity: Option<ProjectIdentity>,
    said: RepositoryFacts,
}

/// An identity that nothing was recorded with, derived from the path alone.
fn project_by_place(project: &Path) -> ProjectIdentity {
    let id = project_id_of(&[("place", &project.to_string_lossy())]);
    ProjectIdentity { id, name: project_name_of(project), also: Vec::new() }
}

fn project_id_of(marks: &[(&str, &str)]) -> String {
    let mut text = format!("{VERSION}\n");
    for (name, mark) in marks {
        text.push_str(&format!("{name} {mark}\n"));
    }
    ObjectHash::of(text.as_bytes()).to_string().chars().take(CHARACTERS).collect()
}

fn stored_id(stored: &str) -> String {
    project_id_of(&[("stored", stored)])
}

fn project_name_of(project: &Path) -> String {
    let name = project.file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| project.display().to_string())
}

/// Where earlier versions stored an id: in the store's directory if that can be trusted, next to
/// it, or next to the file that points to a store.
fn project_id_files(project: &Path) -> (Option<PathBuf>, PathBuf) {
    let store = project.join(".abide");
    // Links are not followed: they could lead anywhere.
    let there = fs::symlink_metadata(&store).is_ok_and(|found| found.is_dir());
    let own = there && has_store(project, &TrustPolicy::of_process());
    (own.then(|| store.join("project")), project.join(".abide-project"))
}

fn stored_project_id(project: &Path) -> Result<Option<String>, Error> {
    let (inside, beside) = project_id_files(project);
    let mut found =
        inside.into_iter().chain([beside]).map(|path| stored_project_id_at(project, path));
    found.find_map(Result::transpose).transpose()
}

fn stored_project_id_at(project: &Path, path: PathBuf) -> Result<Option<String>, Error> {
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
    Err(failed(format!("{} does not contain a project id", path.display())))
}
