//! What identifies a git repository: its remote and its first commit. Git is asked once. The answer
//! is cached in the user's cache by the path of the repository, and stays valid while the files it
//! was derived from are unchanged. So recording normally starts no git process.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Metadata};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use abide_local::{Environment, TrustPolicy, find_git_root, linked_worktree, read_small_file};
use abide_model::ObjectHash;
use serde::{Deserialize, Serialize};

use super::remote::Remote;
use super::{CHARACTERS, project_id_of};
use crate::consent::{is_private, is_usable};
use crate::git::ask_git;

/// The version of the cache format.
const VERSION: u32 = 2;
/// Maximum size of a cache file, and of the file in which git says where a repository is.
const MOST: u64 = 64 << 10;

/// Suffix of the stamp of a repository that has no commit yet.
const UNBORN: &str = "unborn";

/// Maximum number of root commits that identify a project, and of settings files to check.
const MOST_LISTED: usize = 32;
/// After git failed, it is not asked again for this many seconds unless something changed.
const PAUSE: u64 = 60;

/// What git says about a repository. Before the first commit nothing distinguishes it from another
/// one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GitMarks {
    /// The name for display: `owner/repository`.
    pub(super) name: Option<String>,
    remote: Option<String>,
    first: Option<String>,
    /// The other root commits, if histories were joined: in another clone one of them may be the
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    roots: Vec<String>,
}

impl GitMarks {
    /// The project's ids, most specific first.
    pub(super) fn ids(&self) -> Vec<String> {
        let remote = self.remote.as_deref();
        let by_both = |first: &String| {
            remote.map(|remote| project_id_of(&[("remote", remote), ("first", first.as_str())]))
        };
        let by_first = |first: &String| project_id_of(&[("first", first.as_str())]);
        let mut ids: Vec<String> = self.first.iter().filter_map(by_both).collect();
        ids.extend(self.first.iter().map(by_first));
        ids.extend(remote.map(|remote| project_id_of(&[("remote", remote)])));
        ids.extend(self.roots.iter().filter_map(by_both));
        ids.extend(self.roots.iter().map(by_first));
        ids
    }
}

/// What is known about the repository that contains a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RepositoryFacts {
    /// Git's answer, or its last one if git fails now.
    pub(super) marks: GitMarks,
    /// The repository's ids from before its remote or its history changed.
    pub(super) before: Vec<String>,
    /// Identifies the repository's directory: another one at the same path is a different
    /// repository.
    pub(super) repository: Option<String>,
    /// Why git failed.
    pub(super) failed: Option<String>,
}

/// The cache of git's answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct MarksCache<'a> {
    pub(super) dir: Option<&'a Path>,
    /// Files outside the repository that can affect its remote.
    pub(super) settings: &'a [PathBuf],
}

/// The content of a cache file.
#[derive(Default, Serialize, Deserialize)]
struct CachedMarks {
    version: u32,
    /// The repository, for display.
    path: String,
    /// Identifies its directory.
    repository: Option<String>,
    /// The state of the files it was derived from.
    stamp: String,
    /// Further files it was derived from.
    #[serde(default)]
    settings: Vec<PathBuf>,
    marks: GitMarks,
    /// Earlier ids.
    #[serde(default)]
    before: Vec<String>,
    /// When git failed, in seconds since 1970, and why.
    #[serde(default)]
    failed: Option<(u64, String)>,
}

impl CachedMarks {
    fn said(self) -> RepositoryFacts {
        let Self { marks, before, repository, failed, .. } = self;
        RepositoryFacts { marks, before, repository, failed: failed.map(|(_, reason)| reason) }
    }

    /// Returns true if it is too early to ask git again.
    fn holds(&self) -> bool {
        self.failed
            .as_ref()
            .is_none_or(|(at, _)| (*at..at.saturating_add(PAUSE)).contains(&marks_now()))
    }
}

/// What is known about the repository that contains a directory.
pub(super) fn repository_marks(
    dir: &Path,
    trust: &TrustPolicy,
    cache: &MarksCache<'_>,
) -> RepositoryFacts {
    // Git searches upwards from the real directory.
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let nearest = dir.ancestors().find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok());
    let own = find_git_root(&dir, trust);
    match (nearest, own) {
        (None, _) => RepositoryFacts::default(),
        (Some(nearest), Some(own)) if nearest == own => own_repository(own, cache),
        (Some(nearest), own) => {
            let said = others_repository_marks(nearest, cache);
            // If git does not trust it either, skip it.
            own.filter(|_| said.failed.is_some()).map_or(said, |own| own_repository(own, cache))
        }
    }
}

/// A repository whose `.git` belongs to the user.
fn own_repository(root: PathBuf, cache: &MarksCache<'_>) -> RepositoryFacts {
    let repository = Repository::at(root);
    let stamp = cache.stamp(&repository);
    let known = cache.read(&repository.key);
    let known = match known {
        Some(known)
            if known.stamp == extended_marks_stamp(&stamp, &known.settings) && known.holds() =>
        {
            return known.said();
        }
        known => known.filter(|known| known.repository == repository.id),
    };
    let known = known.unwrap_or_default();
    let mut kept = CachedMarks { repository: repository.id.clone(), ..CachedMarks::default() };
    let mut lasting = true;
    match ask_git_for_marks(&repository.root, &known.marks) {
        Ok((marks, settings)) => {
            // If there are commits but none on this branch yet, the first commit is not visible.
            lasting = marks != GitMarks::default() || stamp.ends_with(UNBORN);
            let ids = marks.ids();
            let before = known.marks.ids().into_iter().chain(known.before);
            kept.before = before.filter(|id| !ids.contains(id)).take(2 * MOST_LISTED).collect();
            (kept.marks, kept.settings) = (marks, settings);
        }
        Err(reason) => {
            kept.failed = Some((marks_now(), reason));
            (kept.marks, kept.settings, kept.before) = (known.marks, known.settings, known.before);
        }
    }
    kept.stamp = extended_marks_stamp(&stamp, &kept.settings);
    if lasting {
        cache.write(&repository.key, &mut kept);
    }
    kept.said()
}

/// A repository whose `.git` belongs to somebody else: git decides each time whether to trust it.
/// Only a refusal is cached.
fn others_repository_marks(root: &Path, cache: &MarksCache<'_>) -> RepositoryFacts {
    let repository = Repository::at(root.to_owned());
    let key = root.join(".git/of another user");
    let stamp = cache.stamp(&repository);
    if let Some(known) = cache.read(&key)
        && known.failed.is_some()
        && known.stamp == stamp
        && known.holds()
    {
        return RepositoryFacts { failed: known.said().failed, ..RepositoryFacts::default() };
    }
    match ask_git_for_marks(root, &GitMarks::default()) {
        Ok((marks, _)) => RepositoryFacts { marks, ..RepositoryFacts::default() },
        Err(reason) => {
            let mut kept = CachedMarks {
                stamp,
                failed: Some((marks_now(), reason)),
                ..CachedMarks::default()
            };
            cache.write(&key, &mut kept);
            kept.said()
        }
    }
}

fn marks_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Asks git. A known first commit that is still part of the history stays the first, so history is
/// not searched again. In a shallow clone that cannot be checked, and the known one stays. Also
/// returns the files that the settings came from.
fn ask_git_for_marks(dir: &Path, known: &GitMarks) -> Result<(GitMarks, Vec<PathBuf>), String> {
    // Fails if git cannot be used at all; the next commands may just find nothing.
    let shallow = ask_git(dir, &["rev-parse", "--is-shallow-repository"])? == "true";
    let born = ask_git(dir, &["rev-parse", "--verify", "--quiet", "HEAD"]).is_ok();
    if !born && known.first.is_none() {
        return Ok((GitMarks::default(), Vec::new()));
    }
    let still = |first: &String| {
        !born || shallow || ask_git(dir, &["merge-base", "--is-ancestor", first, "HEAD"]).is_ok()
    };
    let (first, roots) = if let Some(first) = known.first.clone().filter(still) {
        (Some(first), known.roots.clone())
    } else if shallow {
        (None, Vec::new())
    } else {
        let all = ask_git(dir, &["rev-list", "--max-parents=0", "HEAD"])?;
        let mut all: Vec<String> = all.lines().map(str::to_owned).collect();
        all.sort();
        let mut all = all.into_iter();
        (all.next(), all.take(MOST_LISTED).collect())
    };
    let (remote, settings) = marks_remote(dir)?;
    let name = remote.as_ref().map(Remote::name);
    let remote = remote.map(|remote| remote.to_string());
    Ok((GitMarks { name, remote, first, roots }, settings))
}

/// The remote `origin`, or else the first by name; `None` if it is a directory. Also returns the
/// files that the settings came from.
fn marks_remote(dir: &Path) -> Result<(Option<Remote>, Vec<PathBuf>), String> {
    let configured = ask_git(dir, &["config", "--null", "--show-origin", "--name-only", "--list"])?;
    let parts: Vec<&str> = configured.split('\0').collect();
    let (mut names, mut files) = (Vec::new(), Vec::new());
    for part in parts.chunks_exact(2) {
        let [origin, key] = part else { continue };
        let name = key.strip_prefix("remote.").and_then(|key| key.strip_suffix(".url"));
        names.extend(name.map(str::to_owned));
        if let Some(file) = origin.strip_prefix("file:").map(|file| dir.join(file))
            && !files.contains(&file)
            && files.len() < MOST_LISTED
        {
            files.push(file);
        }
    }
    names.sort_by_key(|name| (name != "origin", name.clone()));
    let Some(name) = names.first() else { return Ok((None, files)) };
    // With the user's `insteadOf` abbreviations expanded.
    let url = ask_git(dir, &["ls-remote", "--get-url", "--", name])?;
    Ok((Remote::parse(&url), files))
}

/// Where a repository's files are, as far as can be told without git.
struct Repository {
    root: PathBuf,
    /// The directory of this worktree's own files.
    own: PathBuf,
    /// The directory shared by all its worktrees, with links resolved.
    common: PathBuf,
    /// The cache key. If a file or link leads to a repository that does not point back, answers
    /// cached for that repository from elsewhere do not count.
    key: PathBuf,
    /// Identifies the directory.
    id: Option<String>,
}

impl Repository {
    fn at(root: PathBuf) -> Self {
        let git = root.join(".git");
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let is_dir = fs::symlink_metadata(&git).is_ok_and(|found| found.is_dir());
        let (own, common, key) = if is_dir {
            let git = real(git);
            (git.clone(), git.clone(), git)
        } else if let Some((own, common)) = linked_worktree(&root) {
            (own, common.clone(), common)
        } else {
            let named = |path: &Path, from: &Path, prefix: &[u8]| {
                let text = read_small_file(path, MOST).ok()?;
                let named = OsStr::from_bytes(text.strip_prefix(prefix)?.trim_ascii());
                Some(real(from.join(named)))
            };
            let own = named(&git, &root, b"gitdir:").unwrap_or_else(|| real(git.clone()));
            let common = named(&own.join("commondir"), &own, b"").unwrap_or_else(|| own.clone());
            (own, common, git)
        };
        let id = fs::metadata(&common).ok().map(|found| directory_mark(&found));
        Self { root, own, common, key, id }
    }
}

/// Identifies a directory: a new one may reuse the inode of one that is gone, but not its creation
/// time.
fn directory_mark(found: &Metadata) -> String {
    let made = found.created().ok();
    let made = made.and_then(|made| made.duration_since(std::time::UNIX_EPOCH).ok());
    format!("{}:{}", found.ino(), made.map_or(0, |made| made.as_nanos()))
}

impl MarksCache<'_> {
    /// Git's last answer about a repository at this path, which may be gone.
    pub(super) fn last_known(&self, common: &Path) -> Option<Vec<String>> {
        let kept = self.read(&super::path_identity::absolute_project_path(common))?;
        Some(kept.marks.ids().into_iter().chain(kept.before).collect())
    }

    fn file(&self, key: &Path) -> Option<PathBuf> {
        let name = ObjectHash::of(key.as_os_str().as_encoded_bytes()).to_string();
        Some(self.dir?.join(name.chars().take(CHARACTERS).collect::<String>()))
    }

    /// The state of the files that the marks are derived from: their owner, the repository's and
    /// the user's settings, whether the clone is shallow, and, before the first commit, where it
    /// would appear.
    fn stamp(&self, repository: &Repository) -> String {
        let Repository { root, own, common, id, .. } = repository;
        let git = root.join(".git");
        let mut stamp = format!("{};", id.as_deref().unwrap_or("-"));
        for path in [root, &git, own, common] {
            let owner = fs::symlink_metadata(path).map(|found| found.uid());
            stamp.push_str(&owner.map_or_else(|_| "-;".to_owned(), |owner| format!("{owner};")));
        }
        // Each worktree has its own, and it names one of this repository.
        if *common != repository.key {
            stamp.push_str(&file_mark(&git));
        }
        for name in ["config", "shallow"] {
            stamp.push_str(&file_mark(&common.join(name)));
        }
        for path in self.settings.iter().map(PathBuf::as_path).chain([Path::new("/etc/gitconfig")])
        {
            stamp.push_str(&file_mark(path));
        }
        let there = |name: &str| common.join(name).exists();
        if !there("packed-refs")
            && !there("reftable")
            && !marks_have_refs(&common.join("refs/heads"))
        {
            // A commit may be checked out without a branch.
            stamp.push_str(&file_mark(&own.join("HEAD")));
            stamp.push_str(UNBORN);
        }
        stamp
    }

    fn read(&self, key: &Path) -> Option<CachedMarks> {
        let dir = self.dir?;
        if !is_private(dir).unwrap_or(false) {
            return None;
        }
        let bytes = read_small_file(&self.file(key)?, MOST).ok()?;
        let kept: CachedMarks = serde_json::from_slice(&bytes).ok()?;
        (kept.version == VERSION).then_some(kept)
    }

    /// Caches git's answer. If that fails, git is asked again.
    fn write(&self, key: &Path, kept: &mut CachedMarks) {
        let Some((dir, path)) = self.dir.zip(self.file(key)) else { return };
        let above = dir.parent().unwrap_or(dir);
        if !is_usable(above) {
            return;
        }
        kept.version = VERSION;
        kept.path = key.to_string_lossy().into_owned();
        let mut random = [0; 8];
        (Environment::default().random)(&mut random);
        let new = dir.join(format!("{:016x}.new", u64::from_le_bytes(random)));
        let write = || -> std::io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(&serde_json::to_vec(kept)?)?;
            fs::rename(&new, &path)
        };
        if write().is_err() {
            let _ = fs::remove_file(&new);
        }
    }
}

/// Extends a stamp by more files.
fn extended_marks_stamp(stamp: &str, files: &[PathBuf]) -> String {
    files.iter().fold(stamp.to_owned(), |stamp, file| stamp + &file_mark(file))
}

/// Identifies a file and its last modification.
fn file_mark(path: &Path) -> String {
    match fs::metadata(path) {
        Ok(found) => {
            let (time, nanos) = (found.mtime(), found.mtime_nsec());
            format!("{}:{}:{}:{time}.{nanos};", found.dev(), found.ino(), found.len())
        }
        Err(_) => "-;".to_owned(),
    }
}

/// Returns true if there is a branch, also in subdirectories.
fn marks_have_refs(heads: &Path) -> bool {
    fs::read_dir(heads).is_ok_and(|mut entries| entries.next().is_some())
}
