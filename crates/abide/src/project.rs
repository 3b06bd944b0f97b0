//! Which project a directory is of: an identity that survives moving it and cloning it.
//!
//! In a git repository it is made of its remote and its first commit, so that every clone on every
//! machine is the same project, and a linked worktree too. Without a remote it is the first commit
//! alone. A shallow clone does not have the first commit: there it is the remote alone, which a
//! whole clone of the same remote has among [`ProjectIdentity::also`], but not the other way round.
//! Without git, or before the first commit, it is a random id that is kept by the path of the
//! directory, outside of it ([`Projects`]). There it is also kept what a repository was known by, for
//! when its remote or its history changes. Nothing is written into a project.

mod by_path;
mod marks;
mod remote;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use abide_local::{Person, Trust, find_project, has_store, read_small_file};
use abide_model::ObjectHash;

use self::by_path::{ByPath, Failure, Shelf};
use self::marks::{MarksCache, Said};
use crate::Error;

/// The first line of what an id is the hash of. Another way to make ids gets another number.
const VERSION: &str = "abide project 1";
/// Characters of an id, of each sort.
const CHARACTERS: usize = 32;
/// The most bytes of a file that holds an id.
const FILE_BYTES: u64 = 256;
/// The directory of what is kept of projects, in the person's store and elsewhere.
const DIRECTORY: &str = "projects";

/// Which project a directory is of. A session is of the project when it was recorded with `id`, or
/// with one of `also`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectIdentity {
    /// What it is known by, on every machine.
    pub id: String,
    /// For people: `owner/repository`, or the name of the directory.
    pub name: String,
    /// What it was known by before it had a first commit or a remote, in shallow clones, and before it
    /// was moved.
    pub also: Vec<String>,
}

impl ProjectIdentity {
    /// All that its sessions may have been recorded with, the newest first.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        std::iter::once(&self.id).chain(&self.also).cloned().collect()
    }
}

/// What is done where git cannot be asked: it is not installed, does not trust the repository's owner,
/// or finds the repository broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WithoutGit {
    /// The project is known by its path. What was recorded so is found when git answers again.
    #[default]
    ByPath,
    /// It is an error: on other machines a path says nothing.
    Refuse,
}

/// Where it is kept which project a directory is of.
#[derive(Debug, Clone, Default)]
pub struct Projects {
    /// Directories with ids by path. New ones go to the first.
    kept: Vec<Shelf>,
    /// The directory of what git said.
    cache: Option<PathBuf>,
    /// Files outside of a repository that say what its remote is.
    settings: Vec<PathBuf>,
    without_git: WithoutGit,
}

impl Projects {
    /// Ids are kept in the person's store, which is in this directory.
    #[must_use]
    pub fn in_store(store: &Path, person: &Person) -> Self {
        let state = person.state.as_ref().map(|state| state.join(DIRECTORY));
        let store = Shelf { dir: store.join(DIRECTORY), of_store: true };
        let state = state.map(|dir| Shelf { dir, of_store: false });
        let kept = std::iter::once(store).chain(state).collect();
        Self { kept, ..Self::of_person(person) }
    }

    /// Ids are kept in the person's state directory: the store is shared. Where git cannot be asked,
    /// nothing is guessed.
    #[must_use]
    pub fn in_state(person: &Person) -> Self {
        let state = person.state.as_ref().map(|state| state.join(DIRECTORY));
        let store = person.store().map(|store| store.join(DIRECTORY));
        let kept = state.into_iter().chain(store);
        let kept = kept.map(|dir| Shelf { dir, of_store: false }).collect();
        Self { kept, without_git: WithoutGit::Refuse, ..Self::of_person(person) }
    }

    fn of_person(person: &Person) -> Self {
        let home = person.home.as_ref().map(|home| home.join(".gitconfig"));
        let config = person.config.as_ref().and_then(|config| config.parent()?.parent());
        let config = config.map(|config| config.join("git/config"));
        let named = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].into_iter();
        let named = named.filter_map(std::env::var_os).map(PathBuf::from);
        let settings = home.into_iter().chain(config).chain(named).collect();
        let cache = person.cache.as_ref().map(|cache| cache.join(DIRECTORY));
        Self { cache, settings, ..Self::default() }
    }

    /// The project of a directory; none where it has no identity yet. Where git cannot be asked and
    /// nothing was recorded, it is one that nothing was recorded with. Written are only what git said, into
    /// the person's cache, and ids that a repository has lost, beside the others.
    ///
    /// # Errors
    ///
    /// Git cannot be asked, or an id cannot be read.
    pub fn of(&self, dir: &Path) -> Result<Option<ProjectIdentity>, Error> {
        let project = find_project(dir, &Trust::of_process());
        let entry = self.entry(&project)?;
        let Known { identity, said } = self.known(dir, &project, entry.as_ref())?;
        if !said.before.is_empty() && self.kept.first().is_some_and(Shelf::has_place) {
            self.keep_used(&project, entry.as_ref(), &said);
        }
        Ok(identity.or_else(|| said.failed.is_some().then(|| by_place(&project))))
    }

    /// The project of a directory in which something is recorded: one that has no identity gets one.
    ///
    /// # Errors
    ///
    /// As [`Projects::of`], or the id cannot be written.
    pub fn for_recording(&self, dir: &Path) -> Result<ProjectIdentity, Error> {
        let project = find_project(dir, &Trust::of_process());
        let entry = self.entry(&project)?;
        let Known { identity, said } = self.known(dir, &project, entry.as_ref())?;
        if let Some(known) = identity {
            self.keep_used(&project, entry.as_ref(), &said);
            return Ok(known);
        }
        let failed = |reason| Error::Project { dir: project.clone(), reason };
        let nowhere = || failed("there is no place to keep its id: set HOME".to_owned());
        let kept = self.kept.first().ok_or_else(nowhere)?;
        let entry = by_path::make(kept, &project, entry.as_ref());
        let entry = entry
            .map_err(|(path, error)| failed(format!("cannot write {}: {error}", path.display())))?;
        let made = self.known(dir, &project, Some(&entry))?.identity;
        made.ok_or_else(|| failed("its id was removed".to_owned()))
    }

    /// Keeps what a repository is known by, so that it is found when its remote or its history has changed
    /// and nothing else remembers. Where that cannot be written, the next one tries again.
    fn keep_used(&self, project: &Path, entry: Option<&ByPath>, said: &Said) {
        let ids: Vec<String> = said.marks.ids().into_iter().chain(said.before.clone()).collect();
        let Some(repository) = said.repository.as_deref() else { return };
        let used = entry.map_or(&[][..], |entry| entry.used(Some(repository)));
        if ids.iter().all(|id| used.contains(id)) && used.first() == ids.first() {
            return;
        }
        if let Some(kept) = self.kept.first().filter(|_| !ids.is_empty()) {
            let _ =
                by_path::update(kept, project, entry, |entry| entry.mark_used(repository, &ids));
        }
    }

    /// Tells that what was the directory `old` is `new` now, whether it was moved or its remote was
    /// changed: what was recorded there is of this project. Gives its identity.
    ///
    /// # Errors
    ///
    /// Neither has an identity, they are the same project already, or it cannot be written.
    pub fn moved(&self, old: &Path, new: &Path) -> Result<ProjectIdentity, Error> {
        let trust = Trust::of_process();
        let failed =
            |reason: &str| Error::Project { dir: old.to_owned(), reason: reason.to_owned() };
        let project = find_project(new, &trust);
        // One that is gone is looked for by its path as it was.
        let there = old.is_dir();
        let from = if there { find_project(old, &trust) } else { by_path::absolute(old) };
        let before = self.entry(&from)?;
        let mut ids = Vec::new();
        if there {
            let known = self.known(old, &from, before.as_ref())?.identity;
            ids.extend(known.map(|known| known.ids()));
        } else {
            ids.extend(before.as_ref().map(ByPath::ids));
            ids.extend(self.marks().last_known(&from.join(".git")));
        }
        let mut ids: Vec<String> = ids.into_iter().flatten().collect();
        if ids.is_empty() {
            return Err(failed("nothing is known of it: no session was recorded there"));
        }
        let entry = self.entry(&project)?;
        let known = self.known(new, &project, entry.as_ref())?.identity;
        let known = known.map(|known| known.ids()).unwrap_or_default();
        ids.retain(|id| !known.contains(id));
        if ids.is_empty() {
            return Err(failed("it is the same project already"));
        }
        let unwritten = |(path, error): Failure| Error::Project {
            dir: old.to_owned(),
            reason: format!("cannot write {}: {error}", path.display()),
        };
        let kept = self.kept.first().ok_or_else(|| failed("there is no place to keep that"))?;
        let told = by_path::update(kept, &project, entry.as_ref(), |entry| {
            if entry.stored.is_none() {
                // The id goes along, so that what is recorded from here on has the same.
                entry.stored = before.as_ref().and_then(|before| before.stored.clone());
            }
            let own = entry.stored.as_deref().map(stored_id);
            let others = ids.iter().filter(|id| Some(*id) != own.as_ref());
            let new: Vec<_> = others.filter(|id| !entry.also.contains(id)).cloned().collect();
            entry.also.extend(new);
        });
        let entry = told.map_err(unwritten)?;
        if !there {
            // Whatever comes to stand there is another project.
            let forgotten = self.kept.iter().try_for_each(|kept| by_path::remove(kept, &from));
            forgotten.map_err(unwritten)?;
        }
        let made = self.known(new, &project, Some(&entry))?.identity;
        made.ok_or_else(|| failed("it has no identity"))
    }

    fn known(&self, dir: &Path, project: &Path, entry: Option<&ByPath>) -> Result<Known, Error> {
        let said = marks::of(dir, &Trust::of_process(), &self.marks());
        let used = entry.map_or(&[][..], |entry| entry.used(said.repository.as_deref()));
        let mut ids = said.marks.ids();
        if said.failed.is_some() {
            // What git said when it was asked last.
            ids.extend(used.iter().cloned());
        }
        if let (Some(reason), true, WithoutGit::Refuse) =
            (&said.failed, ids.is_empty(), self.without_git)
        {
            return Err(Error::Project { dir: dir.to_owned(), reason: reason.clone() });
        }
        // Whoever wrote the project wrote that, too: it cannot stop what is known without it.
        let stored = match stored(project) {
            Err(_) if !ids.is_empty() => None,
            stored => stored?,
        };
        let stored = stored.or_else(|| entry.and_then(|entry| entry.stored.clone()));
        ids.extend(stored.map(|stored| stored_id(&stored)));
        let mut ids = ids.into_iter();
        let identity = ids.next().map(|id| {
            let name = said.marks.name.clone().unwrap_or_else(|| name_of(project));
            let mut known = ProjectIdentity { id, name, also: Vec::new() };
            let told = entry.map_or(&[][..], |entry| &entry.also);
            for id in ids.chain([&said.before[..], used, told].concat()) {
                if id != known.id && !known.also.contains(&id) {
                    known.also.push(id);
                }
            }
            known
        });
        Ok(Known { identity, said })
    }

    /// What is kept of a project by its path.
    fn entry(&self, project: &Path) -> Result<Option<ByPath>, Error> {
        let mut found =
            self.kept.iter().filter_map(|kept| by_path::read(kept, project).transpose());
        found.next().transpose().map_err(|(path, reason)| Error::Project {
            dir: project.to_owned(),
            reason: format!("cannot read {}: {reason}", path.display()),
        })
    }

    fn marks(&self) -> MarksCache<'_> {
        MarksCache { dir: self.cache.as_deref(), settings: &self.settings }
    }
}

/// What is known of a directory.
struct Known {
    identity: Option<ProjectIdentity>,
    said: Said,
}

/// A project that nothing was recorded with: where it is is all that is known of it.
fn by_place(project: &Path) -> ProjectIdentity {
    let id = id_of(&[("place", &project.to_string_lossy())]);
    ProjectIdentity { id, name: name_of(project), also: Vec::new() }
}

fn id_of(marks: &[(&str, &str)]) -> String {
    let mut text = format!("{VERSION}\n");
    for (name, mark) in marks {
        text.push_str(&format!("{name} {mark}\n"));
    }
    ObjectHash::of(text.as_bytes()).to_string().chars().take(CHARACTERS).collect()
}

fn stored_id(stored: &str) -> String {
    id_of(&[("stored", stored)])
}

fn name_of(project: &Path) -> String {
    let name = project.file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| project.display().to_string())
}

/// Where earlier versions stored an id: in the store's directory, where that is to be trusted, or beside
/// it, or beside the file that points to a store.
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
