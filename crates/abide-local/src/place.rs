//! Where the store is: found upward from where one stands, as git finds its own.

use std::fs;
use std::path::{Path, PathBuf};

/// The name of a store's directory, or of the file that points to one elsewhere.
const NAME: &str = ".abide";

/// Where a store is, or would be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The store's directory.
    pub store: PathBuf,
    /// The project that it belongs to.
    pub project: PathBuf,
}

/// The store of a directory: `.abide` in it or above it, or that of the main checkout when the
/// directory is in a linked git worktree.
#[must_use]
pub fn find_store(from: &Path) -> Option<Place> {
    let from = &resolved(from);
    let found = from.ancestors().find_map(|dir| store_in(dir).map(|store| (store, dir.to_owned())));
    let found = found.or_else(|| {
        let main = main_checkout(&git_root(from)?)?;
        store_in(&main).map(|store| (store, main))
    });
    found.map(|(store, project)| Place { store, project })
}

/// Where the first recording makes a store: at the root of the git checkout (of the main one for
/// a linked worktree), else right here.
#[must_use]
pub fn store_for_recording(from: &Path) -> Place {
    let from = &resolved(from);
    find_store(from).unwrap_or_else(|| {
        let root = git_root(from);
        let project =
            root.map_or_else(|| from.to_owned(), |root| main_checkout(&root).unwrap_or(root));
        Place { store: project.join(NAME), project }
    })
}

/// Without `..` and links, so that its parents are those of the file system.
fn resolved(from: &Path) -> PathBuf {
    from.canonicalize().or_else(|_| std::path::absolute(from)).unwrap_or_else(|_| from.to_owned())
}

fn store_in(dir: &Path) -> Option<PathBuf> {
    let path = dir.join(NAME);
    let kind = fs::metadata(&path).ok()?;
    if kind.is_dir() {
        return Some(path);
    }
    // One line: where the store is.
    let text = (kind.len() <= 4096).then(|| fs::read_to_string(&path).ok()).flatten()?;
    let target = Path::new(text.lines().next()?.trim());
    (!target.as_os_str().is_empty()).then(|| dir.join(target))
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

    #[test]
    fn a_store_is_found_upward_and_through_a_pointer() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().canonicalize().unwrap();
        let inner = dir.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(find_store(&inner), None);
        assert_eq!(store_for_recording(&inner).store, inner.join(NAME));
        fs::create_dir(dir.join(NAME)).unwrap();
        assert_eq!(find_store(&inner).unwrap().store, dir.join(NAME));
        fs::write(inner.join(NAME), "../elsewhere\n").unwrap();
        assert_eq!(find_store(&inner).unwrap().store, inner.join("../elsewhere"));
        let other = dir.join("other");
        fs::create_dir(&other).unwrap();
        fs::create_dir(other.join(NAME)).unwrap();
        assert_eq!(find_store(&inner.join("../../other")).unwrap().store, other.join(NAME));
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
        assert_eq!(store_for_recording(&linked).store, main.join(NAME));
        fs::create_dir(main.join(NAME)).unwrap();
        assert_eq!(find_store(&linked).unwrap().store, main.join(NAME));
    }
}
