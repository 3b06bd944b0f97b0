//! What tells a git repository from others: its remote and its first commit. Git is asked once; what it
//! said is kept in the person's cache, by the path of the repository, and holds while the files that it
//! came from look the same. So no git is started on the way of a recording.

use std::fs::{self, DirBuilder, Metadata};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use abide_local::{Environment, read_small_file};
use abide_model::ObjectHash;
use serde::{Deserialize, Serialize};

use super::remote::Remote;
use super::{CHARACTERS, id_of};
use crate::consent::{is_private, is_usable};
use crate::git::ask;

/// Another form of what is kept gets another number.
const VERSION: u32 = 1;
/// The most bytes of what is kept, and of a file in which git says where a repository is.
const MOST: u64 = 64 << 10;

/// Ends the stamp of a repository that has no commit yet.
const UNBORN: &str = "unborn";

/// What git says of a repository, as far as it has it. Before there is a commit nothing tells it from
/// another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GitMarks {
    /// For people: `owner/repository`.
    pub(super) name: Option<String>,
    remote: Option<String>,
    first: Option<String>,
}

impl GitMarks {
    /// What the project is known by, the one that says most first.
    pub(super) fn ids(&self) -> Vec<String> {
        let (remote, first) = (self.remote.as_deref(), self.first.as_deref());
        let by_both = remote.zip(first);
        let by_both = by_both.map(|(remote, first)| id_of(&[("remote", remote), ("first", first)]));
        let by_first = first.map(|first| id_of(&[("first", first)]));
        let by_remote = remote.map(|remote| id_of(&[("remote", remote)]));
        [by_both, by_first, by_remote].into_iter().flatten().collect()
    }
}

/// Where it is kept what git said.
#[derive(Debug, Clone, Copy)]
pub(super) struct MarksCache<'a> {
    pub(super) dir: Option<&'a Path>,
    /// Files outside of the repository that say what its remote is.
    pub(super) settings: &'a [PathBuf],
}

/// As it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    /// The repository, for people.
    path: String,
    /// How the files looked that it came from.
    stamp: String,
    marks: GitMarks,
}

/// The marks of the repository that a directory is in.
pub(super) fn of(dir: &Path, cache: &MarksCache<'_>) -> Result<GitMarks, String> {
    let Some(root) = dir.ancestors().find(|dir| dir.join(".git").exists()) else {
        return Ok(GitMarks::default());
    };
    let common = common_dir(root);
    let stamp = common.as_deref().map(|common| cache.stamp(common));
    let known = common.as_deref().and_then(|common| cache.read(common));
    if let (Some(known), Some(stamp)) = (&known, &stamp)
        && known.stamp == *stamp
    {
        return Ok(known.marks.clone());
    }
    let first = known.and_then(|known| known.marks.first);
    let marks = asked(dir, first)?;
    // Where there are commits and none of them is this branch's yet, nothing is seen of the first.
    let lasting = |stamp: &String| marks != GitMarks::default() || stamp.ends_with(UNBORN);
    if let (Some(common), Some(stamp)) = (common, stamp.filter(lasting)) {
        cache.write(&common, stamp, &marks);
    }
    Ok(marks)
}

/// Asks git. A first commit that is known and still there is the first: it is not looked for again
/// through all of history, nor is it another one on a branch that has nothing in common with the rest.
fn asked(dir: &Path, known_first: Option<String>) -> Result<GitMarks, String> {
    // Fails where git cannot be asked at all; what follows may have nothing to say.
    let shallow = ask(dir, &["rev-parse", "--is-shallow-repository"])? == "true";
    if ask(dir, &["rev-parse", "--verify", "--quiet", "HEAD"]).is_err() {
        return Ok(GitMarks::default());
    }
    let still =
        |first: &String| ask(dir, &["cat-file", "-e", &format!("{first}^{{commit}}")]).is_ok();
    let first = if shallow {
        None
    } else if let Some(first) = known_first.filter(still) {
        Some(first)
    } else {
        let all = ask(dir, &["rev-list", "--max-parents=0", "HEAD"])?;
        all.lines().min().map(str::to_owned)
    };
    let remote = remote(dir)?;
    let name = remote.as_ref().map(Remote::name);
    Ok(GitMarks { name, remote: remote.map(|remote| remote.to_string()), first })
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

/// The directory of the repository that all its worktrees share, without links; none where that cannot
/// be told without git.
fn common_dir(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    let found = fs::metadata(&git).ok()?;
    if found.is_dir() {
        return git.canonicalize().ok();
    }
    if !found.is_file() {
        return None;
    }
    let line = |path: &Path| read_small_file(path, MOST).ok();
    let text = line(&git)?;
    let named = std::ffi::OsStr::from_bytes(text.strip_prefix(b"gitdir:")?.trim_ascii());
    let own = root.join(named);
    match line(&own.join("commondir")) {
        Some(common) => {
            own.join(std::ffi::OsStr::from_bytes(common.trim_ascii())).canonicalize().ok()
        }
        None => own.canonicalize().ok(),
    }
}

impl MarksCache<'_> {
    /// What git said last of a repository at this path, which may be gone.
    pub(super) fn last_known(&self, common: &Path) -> Option<GitMarks> {
        self.read(&super::by_path::absolute(common)).map(|kept| kept.marks)
    }

    fn file(&self, common: &Path) -> Option<PathBuf> {
        let name = ObjectHash::of(common.as_os_str().as_encoded_bytes()).to_string();
        Some(self.dir?.join(name.chars().take(CHARACTERS).collect::<String>()))
    }

    /// How the files look that the marks come from: the repository's and the user's settings, whether
    /// history is cut off, and, before there is a commit, where the first would stand.
    fn stamp(&self, common: &Path) -> String {
        let mut stamp = look(common, Look::Place);
        for name in ["config", "shallow"] {
            stamp.push_str(&look(&common.join(name), Look::Content));
        }
        for path in self.settings.iter().map(PathBuf::as_path).chain([Path::new("/etc/gitconfig")])
        {
            stamp.push_str(&look(path, Look::Content));
        }
        let there = |name: &str| common.join(name).exists();
        if !there("packed-refs") && !there("reftable") && !has_refs(&common.join("refs/heads")) {
            stamp.push_str(UNBORN);
        }
        stamp
    }

    fn read(&self, common: &Path) -> Option<Kept> {
        let dir = self.dir?;
        if !is_private(dir).unwrap_or(false) {
            return None;
        }
        let bytes = read_small_file(&self.file(common)?, MOST).ok()?;
        let kept: Kept = serde_json::from_slice(&bytes).ok()?;
        (kept.version == VERSION).then_some(kept)
    }

    /// Keeps what git said. What cannot be kept is asked again.
    fn write(&self, common: &Path, stamp: String, marks: &GitMarks) {
        let Some((dir, path)) = self.dir.zip(self.file(common)) else { return };
        let above = dir.parent().unwrap_or(dir);
        if !is_usable(above) {
            return;
        }
        let path_text = common.to_string_lossy().into_owned();
        let kept = Kept { version: VERSION, path: path_text, stamp, marks: marks.clone() };
        let mut random = [0; 8];
        (Environment::default().random)(&mut random);
        let new = dir.join(format!("{:016x}.new", u64::from_le_bytes(random)));
        let write = || -> std::io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(&serde_json::to_vec(&kept)?)?;
            fs::rename(&new, &path)
        };
        if write().is_err() {
            let _ = fs::remove_file(&new);
        }
    }
}

/// What of a file is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Which one it is.
    Place,
    /// And whether it was written since.
    Content,
}

fn look(path: &Path, what: Look) -> String {
    let place = |found: &Metadata| format!("{}:{}", found.dev(), found.ino());
    match fs::metadata(path) {
        Ok(found) if what == Look::Place => format!("{};", place(&found)),
        Ok(found) => {
            let (time, nanos) = (found.mtime(), found.mtime_nsec());
            format!("{}:{}:{time}.{nanos};", place(&found), found.len())
        }
        Err(_) => "-;".to_owned(),
    }
}

/// Is there a branch? One may stand in directories below.
fn has_refs(heads: &Path) -> bool {
    fs::read_dir(heads).is_ok_and(|mut entries| entries.next().is_some())
}
