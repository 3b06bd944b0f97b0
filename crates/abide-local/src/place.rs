//! Where the store is: found upward from where one stands, as git finds its own.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use abide_model::StoreUrl;

/// The name of a store's directory, or of the file that points to one elsewhere.
const NAME: &str = ".abide";

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Where {
    /// In this directory.
    Files(PathBuf),
    /// On a server.
    Shared(StoreUrl),
}

impl Where {
    /// As it is named to a child, secrets included.
    #[must_use]
    pub fn reveal(&self) -> OsString {
        match self {
            Self::Files(root) => root.as_os_str().to_owned(),
            Self::Shared(url) => url.reveal().into(),
        }
    }
}

/// As a user names it: by a URL or by a path.
impl From<PathBuf> for Where {
    fn from(named: PathBuf) -> Self {
        let url = named.to_str().and_then(StoreUrl::of);
        url.map_or_else(|| Self::Files(named), Self::Shared)
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(root) => root.display().fmt(f),
            Self::Shared(url) => url.fmt(f),
        }
    }
}

/// Where a store is, or would be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The store.
    pub store: Where,
    /// The project that it belongs to.
    pub project: PathBuf,
}

/// The store of a directory: `.abide` in it or above it, or that of the main checkout when the
/// directory is in a linked git worktree. The user's usual store is for projects that have none.
#[must_use]
pub fn find_store(from: &Path, usual: Option<&StoreUrl>) -> Option<Place> {
    let from = &resolved(from);
    let found =
        from.ancestors().find_map(|dir| Some(Place { store: store_in(dir)?, project: dir.into() }));
    let main = || {
        let main = main_checkout(&git_root(from)?)?;
        Some(Place { store: store_in(&main)?, project: main })
    };
    let usual = || Some(Place { store: Where::Shared(usual?.clone()), project: project_of(from) });
    found.or_else(main).or_else(usual)
}

/// Where the first recording makes a store, unless there is one: at the root of the git checkout
/// (of the main one for a linked worktree), else right here.
#[must_use]
pub fn store_for_recording(from: &Path, usual: Option<&StoreUrl>) -> Place {
    find_store(from, usual).unwrap_or_else(|| {
        let project = project_of(&resolved(from));
        Place { store: Where::Files(project.join(NAME)), project }
    })
}

/// The root of the git checkout, else the directory itself.
fn project_of(from: &Path) -> PathBuf {
    let root = git_root(from);
    root.map_or_else(|| from.to_owned(), |root| main_checkout(&root).unwrap_or(root))
}

/// Without `..` and links, so that its parents are those of the file system.
fn resolved(from: &Path) -> PathBuf {
    from.canonicalize().or_else(|_| std::path::absolute(from)).unwrap_or_else(|_| from.to_owned())
}

fn store_in(dir: &Path) -> Option<Where> {
    let path = dir.join(NAME);
    let kind = fs::metadata(&path).ok()?;
    if kind.is_dir() {
        return Some(Where::Files(path));
    }
    // One line: where the store is.
    let text = (kind.len() <= 4096).then(|| fs::read_to_string(&path).ok()).flatten()?;
    let target = text.lines().next()?.trim();
    if target.is_empty() {
        return None;
    }
    Some(match Where::from(PathBuf::from(target)) {
        Where::Files(path) => Where::Files(dir.join(path)),
        shared @ Where::Shared(_) => shared,
    })
}

fn git_root(from: &Path) -> Option<PathBuf> {
    from.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_owned)
}

/// For a linked worktree, whose `.git` is a file that names its directory in the main checkout's
/// `.git/worktrees`: that main checkout.
fn main_checkout(root: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(root.join(".git")).ok()?;
    let git_dir = root.join(text.strip_prefix("gitdir:")?.trim());
    let common = fs::read_to_string(git_dir.join("commondir")).ok()?;
    let common = git_dir.join(common.trim()).canonicalize().ok()?;
    (common.file_name()? == ".git").then(|| common.parent().map(Path::to_owned)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(dir: &Path, args: &[&str]) {
        let done = std::process::Command::new("git")
            .args([
                "-c",
                "user.name=x",
                "-c",
                "user.email=x@example.org",
                "-c",
                "init.defaultBranch=main",
            ])
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn found(from: &Path) -> Option<Where> {
        find_store(from, None).map(|place| place.store)
    }

    fn recorded(from: &Path) -> Where {
        store_for_recording(from, None).store
    }

    fn files(path: impl Into<PathBuf>) -> Where {
        Where::Files(path.into())
    }

    #[test]
    fn a_store_is_found_upward_and_through_a_pointer() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().canonicalize().unwrap();
        let inner = dir.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(found(&inner), None);
        assert_eq!(recorded(&inner), files(inner.join(NAME)));
        fs::create_dir(dir.join(NAME)).unwrap();
        assert_eq!(found(&inner), Some(files(dir.join(NAME))));
        fs::write(inner.join(NAME), "../elsewhere\n").unwrap();
        assert_eq!(found(&inner), Some(files(inner.join("../elsewhere"))));
        let other = dir.join("other");
        fs::create_dir(&other).unwrap();
        fs::create_dir(other.join(NAME)).unwrap();
        assert_eq!(found(&inner.join("../../other")), Some(files(other.join(NAME))));
    }

    #[test]
    fn a_linked_worktree_uses_the_main_checkouts_store() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().canonicalize().unwrap().join("main");
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&main, &["worktree", "add", "-q", "../linked"]);
        let linked = main.parent().unwrap().join("linked");
        assert_eq!(recorded(&linked), files(main.join(NAME)));
        fs::create_dir(main.join(NAME)).unwrap();
        assert_eq!(found(&linked), Some(files(main.join(NAME))));
    }

    #[test]
    fn a_project_s_own_store_comes_before_the_usual_one() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().canonicalize().unwrap();
        let shared = |text: &str| Where::Shared(StoreUrl::of(text).unwrap());
        let usual = StoreUrl::of("postgres://u:secret@usual/db").unwrap();
        let place = |usual| find_store(&dir, usual);
        assert_eq!(place(Some(&usual)).unwrap().store, Where::Shared(usual.clone()));
        assert_eq!(place(Some(&usual)).unwrap().project, dir);
        fs::create_dir(dir.join(NAME)).unwrap();
        assert_eq!(place(Some(&usual)).unwrap().store, files(dir.join(NAME)));
        assert_eq!(place(None).unwrap().store, files(dir.join(NAME)));
        fs::remove_dir(dir.join(NAME)).unwrap();
        for (line, store) in [
            ("postgres://own/db\n", shared("postgres://own/db")),
            ("../elsewhere\n", files(dir.join("../elsewhere"))),
        ] {
            fs::write(dir.join(NAME), line).unwrap();
            assert_eq!(place(Some(&usual)).unwrap().store, store);
            assert_eq!(place(None).unwrap().store, store);
        }
        assert!(!format!("{:?}", place(Some(&usual))).contains("secret"));
    }
}
