//! Finds a project's own store, searching upward from a directory as git does.
//!
//! A store that is found was not named by the user. It must therefore belong to the user
//! ([`TrustPolicy`]), and if a file of the project leads out of the project, [`StorePlace::elsewhere`] says
//! so, so that the user can be asked.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use abide_model::StoreUrl;

use crate::small_file::{open_regular, read_at_most, read_small_file};
use crate::trust_policy::TrustPolicy;

/// The name of a store's directory, or of the file that points to one elsewhere.
pub(crate) const NAME: &str = ".abide";
/// The most bytes of a file that points to a store, and of a git file that names a worktree's
/// repository.
const POINTER_BYTES: u64 = 4096;

/// The location of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StoreLocation {
    /// A directory.
    Files(PathBuf),
    /// A server.
    Shared(StoreUrl),
}

impl StoreLocation {
    /// As a child process is given it, including secrets.
    #[must_use]
    pub fn reveal(&self) -> OsString {
        match self {
            Self::Files(root) => root.as_os_str().to_owned(),
            Self::Shared(url) => url.reveal().into(),
        }
    }
}

/// As a user writes it: a URL or a path.
impl From<PathBuf> for StoreLocation {
    fn from(named: PathBuf) -> Self {
        let url = named.to_str().and_then(StoreUrl::of);
        url.map_or_else(|| Self::Files(named), Self::Shared)
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(root) => root.display().fmt(f),
            Self::Shared(url) => url.fmt(f),
        }
    }
}

/// Which sessions a command means that names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionScope {
    /// All: the store belongs to one project, or the user named it.
    Store,
    /// The project's: the store holds many projects, as the user's own and shared ones do.
    Project,
}

/// Where a store is, or would be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePlace {
    /// The store.
    pub store: StoreLocation,
    /// The project of the directory that was asked for.
    pub project: PathBuf,
    /// Which of its sessions are meant.
    pub scope: SessionScope,
    /// The target, if a file or symlink of the project leads out of it, to a server or a directory.
    /// Its author need not be the user, so the user is asked before it is used.
    pub elsewhere: Option<StoreLocation>,
}

/// Why a store, or what is found in its place, is not used.
#[derive(Debug, thiserror::Error)]
pub enum StorePlaceError {
    /// Another user owns it.
    #[error("{} belongs to another user (uid {owner})", path.display())]
    Foreign {
        /// The path.
        path: PathBuf,
        /// The owner's user id.
        owner: u32,
    },
    /// Another user can write to it.
    #[error("{} can be written by other users (mode {mode:04o})", path.display())]
    Writable {
        /// The path.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Neither a store nor a pointer to one.
    #[error("{} is not a store: {reason}", path.display())]
    NotAStore {
        /// The path.
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// A store at the root of the file system would apply to every directory of the machine.
    #[error("a store cannot be created at the root of the file system")]
    Root,
    /// The store that was named does not exist.
    #[error("there is no store in {}", path.display())]
    NotThere {
        /// The path that was named.
        path: PathBuf,
    },
    /// Nothing determines where the user's own store is.
    #[error("no home directory for your store: neither HOME nor the user database names one")]
    NoHome,
    /// The user's configuration is invalid.
    #[error("{} {what}", path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Finds a project's own store: `.abide` in the directory or above it, or that of the main checkout
/// if the directory is in a linked git worktree.
///
/// # Errors
///
/// `.abide` is not a store or is not trusted.
pub fn find_store(from: &Path, trust: &TrustPolicy) -> Result<Option<StorePlace>, StorePlaceError> {
    let from = &resolved_place(from);
    for dir in from.ancestors() {
        if let Some(place) = store_place_in(dir, Some(trust))? {
            return Ok(Some(place));
        }
    }
    let main = git_root(from, trust).and_then(|root| main_checkout(&root, trust));
    Ok(main.map(|main| store_place_in(&main, Some(trust))).transpose()?.flatten())
}

/// Where a project's own store is, or would be created: at the root of the git checkout (of the
/// main one, for a linked worktree), else in this directory.
///
/// # Errors
///
/// As [`find_store`]; also if it would be created at the root of the file system.
pub fn store_of_project(from: &Path, trust: &TrustPolicy) -> Result<StorePlace, StorePlaceError> {
    if let Some(place) = find_store(from, trust)? {
        return Ok(place);
    }
    let project = checkout_of(&resolved_place(from), trust);
    check_not_root(&project)?;
    let store = StoreLocation::Files(project.join(NAME));
    Ok(StorePlace { store, project, scope: SessionScope::Store, elsewhere: None })
}

/// Refuses the root of the file system as a project to create a store in.
///
/// # Errors
///
/// [`StorePlaceError::Root`].
pub fn check_not_root(project: &Path) -> Result<(), StorePlaceError> {
    if project.parent().is_none() { Err(StorePlaceError::Root) } else { Ok(()) }
}

/// The store of a directory that the user names: whoever owns it, and not one above it.
///
/// # Errors
///
/// `.abide` is not a store.
pub fn store_of_named(dir: &Path) -> Result<Option<StorePlace>, StorePlaceError> {
    store_place_in(&resolved_place(dir), None)
}

/// The project of a directory: that of `.abide` in it or above it, else the root of the git
/// checkout (of the main one, for a linked worktree), else the directory itself. An untrusted
/// `.abide` is ignored.
#[must_use]
pub fn find_project(from: &Path, trust: &TrustPolicy) -> PathBuf {
    let from = &resolved_place(from);
    let own = from.ancestors().find(|dir| has_store(dir, trust));
    own.map_or_else(|| checkout_of(from, trust), Path::to_owned)
}

/// Whether this directory itself has a trusted store, or names one.
#[must_use]
pub fn has_store(dir: &Path, trust: &TrustPolicy) -> bool {
    matches!(store_place_in(dir, Some(trust)), Ok(Some(_)))
}

/// The worktree or clone that a directory is in; the directory itself if it is in none.
#[must_use]
pub fn find_checkout(from: &Path, trust: &TrustPolicy) -> PathBuf {
    let from = &resolved_place(from);
    let root = |dir: &&Path| {
        has_store(dir, trust)
            || is_own_place(&dir.join(".git"), trust)
            || trusted_git_place(dir, trust)
    };
    from.ancestors().find(root).unwrap_or(from).to_owned()
}

/// The root of the git checkout (of the main one, for a linked worktree), else the directory
/// itself.
fn checkout_of(from: &Path, trust: &TrustPolicy) -> PathBuf {
    let root = git_root(from, trust);
    root.map_or_else(|| from.to_owned(), |root| main_checkout(&root, trust).unwrap_or(root))
}

/// Resolves `..` and symlinks, so that its parents are those of the file system.
fn resolved_place(from: &Path) -> PathBuf {
    from.canonicalize().or_else(|_| std::path::absolute(from)).unwrap_or_else(|_| from.to_owned())
}

/// What `.abide` in a directory leads to; `None` if it does not exist or may not be read. Without a
/// `trust`, the user named the directory.
fn store_place_in(
    dir: &Path,
    trust: Option<&TrustPolicy>,
) -> Result<Option<StorePlace>, StorePlaceError> {
    let path = dir.join(NAME);
    let Ok(entry) = fs::symlink_metadata(&path) else { return Ok(None) };
    let trust = trust.filter(|trust| !trust.lists(dir) && !trust.lists(&path));
    let check = |path: &Path, found: &fs::Metadata| match trust {
        Some(trust) if !trust.lists(path) => trust.check(path, found),
        _ => Ok(()),
    };
    let not_a_store = |reason| StorePlaceError::NotAStore { path: path.clone(), reason };
    let unreadable = |source| StorePlaceError::Unreadable { path: path.clone(), source };
    let place = |store: StoreLocation, leads_to: StoreLocation| {
        let within = matches!(&leads_to, StoreLocation::Files(root) if root.starts_with(dir) && !place_climbs(root));
        let elsewhere = (!within).then_some(leads_to);
        let scope = match store {
            StoreLocation::Files(_) => SessionScope::Store,
            StoreLocation::Shared(_) => SessionScope::Project,
        };
        Some(StorePlace { store, project: dir.to_owned(), scope, elsewhere })
    };
    if entry.is_symlink() {
        if let Some(trust) = trust {
            trust.check_owner(&path, &entry)?;
        }
        let found = fs::metadata(&path).map_err(|_| not_a_store("a dangling symlink"))?;
        if !found.is_dir() {
            return Err(not_a_store("a symlink to something other than a directory"));
        }
        let leads_to = path.canonicalize().map_err(unreadable)?;
        check(&leads_to, &found)?;
        return Ok(place(StoreLocation::Files(path.clone()), StoreLocation::Files(leads_to)));
    }
    if entry.is_dir() {
        check(&path, &entry)?;
        return Ok(place(StoreLocation::Files(path.clone()), StoreLocation::Files(path.clone())));
    }
    if !entry.is_file() {
        return Err(not_a_store("neither a directory nor a file"));
    }
    let (file, found) = open_regular(&path).map_err(unreadable)?;
    check(&path, &found)?;
    let bytes = read_at_most(&file, POINTER_BYTES).map_err(unreadable)?;
    // One line: the location of the store.
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    if line.is_empty() {
        return Err(not_a_store("an empty file; its first line should name the store"));
    }
    match StoreLocation::from(PathBuf::from(OsStr::from_bytes(line))) {
        shared @ StoreLocation::Shared(_) => Ok(place(shared.clone(), shared)),
        StoreLocation::Files(named) => {
            let root = dir.join(named);
            let leads_to = real_place(&root);
            if let Ok(found) = fs::metadata(&root) {
                check(&leads_to, &found)?;
            }
            Ok(place(StoreLocation::Files(root), StoreLocation::Files(leads_to)))
        }
    }
}

/// Resolves symlinks and `..` as far as the path exists.
pub(crate) fn real_place(path: &Path) -> PathBuf {
    let there = |known: &Path| {
        let rest = path.strip_prefix(known).ok().filter(|rest| !place_climbs(rest))?;
        let known = known.canonicalize().ok()?;
        Some(known.components().chain(rest.components()).collect())
    };
    path.ancestors().find_map(there).unwrap_or_else(|| path.to_owned())
}

/// Whether it contains a `..`.
fn place_climbs(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// The root of the git checkout that a directory is in. A `.git` of another user is ignored: it
/// could be placed above any world-writable directory.
#[must_use]
pub fn find_git_root(from: &Path, trust: &TrustPolicy) -> Option<PathBuf> {
    git_root(&resolved_place(from), trust)
}

fn git_root(from: &Path, trust: &TrustPolicy) -> Option<PathBuf> {
    let is_root =
        |dir: &&Path| is_own_place(&dir.join(".git"), trust) || trusted_git_place(dir, trust);
    from.ancestors().find(is_root).map(Path::to_owned)
}

/// Refuses anything but a directory that only trusted users own and can write; also a symlink to
/// one.
///
/// # Errors
///
/// It is not trusted, or may not be read.
pub fn check_directory(dir: &Path, trust: &TrustPolicy) -> Result<(), StorePlaceError> {
    let unreadable = |source| StorePlaceError::Unreadable { path: dir.to_owned(), source };
    let found = fs::symlink_metadata(dir).map_err(unreadable)?;
    if !found.is_dir() {
        return Err(unreadable(io::ErrorKind::NotADirectory.into()));
    }
    trust.check(dir, &found)
}

fn trusted_git_place(dir: &Path, trust: &TrustPolicy) -> bool {
    trust.lists(dir) && dir.join(".git").exists()
}

fn is_own_place(path: &Path, trust: &TrustPolicy) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| trust.check_owner(path, &found).is_ok())
}

/// The main checkout of a linked worktree, whose `.git` is a file that names its directory in the
/// main checkout's `.git/worktrees`. The two must name each other; otherwise any `.git` could lead
/// to any checkout.
fn main_checkout(root: &Path, trust: &TrustPolicy) -> Option<PathBuf> {
    let (_, common) = linked_worktree(root)?;
    let main = common.parent().filter(|_| common.file_name().is_some_and(|name| name == ".git"))?;
    (is_own_place(main, trust) || trust.lists(main)).then(|| main.to_owned())
}

/// For a linked worktree: its directory in the repository, and that of the repository. `None` if
/// the two do not name each other.
#[must_use]
pub fn linked_worktree(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let read = |path: &Path| read_small_file(path, POINTER_BYTES).ok();
    let git = root.join(".git");
    let text = read(&git)?;
    let git_dir = root.join(OsStr::from_bytes(text.strip_prefix(b"gitdir:")?.trim_ascii()));
    let back = read(&git_dir.join("gitdir"))?;
    let back = git_dir.join(OsStr::from_bytes(back.trim_ascii())).canonicalize().ok()?;
    let common = read(&git_dir.join("commondir"))?;
    let common = git_dir.join(OsStr::from_bytes(common.trim_ascii())).canonicalize().ok()?;
    let named = back == git.canonicalize().ok()?;
    named.then_some((git_dir, common))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

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

    fn place(from: &Path) -> Option<StorePlace> {
        find_store(from, &TrustPolicy::default()).unwrap()
    }

    fn found(from: &Path) -> Option<StoreLocation> {
        place(from).map(|place| place.store)
    }

    fn recorded(from: &Path) -> StoreLocation {
        store_of_project(from, &TrustPolicy::default()).unwrap().store
    }

    fn why_not(from: &Path) -> String {
        find_store(from, &TrustPolicy::default()).unwrap_err().to_string()
    }

    /// A directory without links in its path.
    fn temporary() -> (tempfile::TempDir, PathBuf) {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().canonicalize().unwrap();
        (temporary, dir)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    /// May files be given to another user? Where not, that is said.
    fn may_give_away() -> bool {
        let root = rustix::process::geteuid().is_root();
        if !root {
            println!("skipped: only root gives files to another user");
        }
        root
    }

    const SOMEBODY: Option<u32> = Some(54_321);

    fn files(path: impl Into<PathBuf>) -> StoreLocation {
        StoreLocation::Files(path.into())
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
    fn a_git_file_leads_only_to_a_checkout_that_names_it_back() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().canonicalize().unwrap();
        let (mine, planted) = (dir.join("mine"), dir.join("planted"));
        fs::create_dir(&mine).unwrap();
        git(&mine, &["init", "-q"]);
        fs::create_dir_all(planted.join("w")).unwrap();
        fs::write(planted.join(".git"), "gitdir: w\n").unwrap();
        fs::write(planted.join("w/commondir"), mine.join(".git").to_str().unwrap()).unwrap();
        assert_eq!(recorded(&planted), files(planted.join(NAME)));
        fs::write(planted.join("w/gitdir"), mine.join(".git").to_str().unwrap()).unwrap();
        assert_eq!(recorded(&planted), files(planted.join(NAME)));
        fs::write(planted.join("w/gitdir"), planted.join(".git").to_str().unwrap()).unwrap();
        assert_eq!(recorded(&planted), files(mine.join(NAME)));
    }

    #[test]
    fn a_checkout_of_another_user_is_none() {
        if !may_give_away() {
            return;
        }
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().canonicalize().unwrap();
        let inner = dir.join("job");
        fs::create_dir(&inner).unwrap();
        fs::create_dir(dir.join(".git")).unwrap();
        assert_eq!(recorded(&inner), files(dir.join(NAME)));
        chown(dir.join(".git"), SOMEBODY, SOMEBODY).unwrap();
        assert_eq!(recorded(&inner), files(inner.join(NAME)));
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
    fn what_another_user_owns_is_refused_unless_it_is_listed_or_named() {
        if !may_give_away() {
            return;
        }
        let (_temporary, dir) = temporary();
        let (project, outside) = (dir.join("project"), dir.join("outside"));
        fs::create_dir(&project).unwrap();
        fs::create_dir(&outside).unwrap();
        let own = project.join(NAME);
        let refused = |owned: &Path| {
            assert_eq!(
                why_not(&project.join("below")),
                format!("{} belongs to another user (uid 54321)", owned.display())
            );
            for listed in [project.as_path(), owned] {
                let trust = TrustPolicy::default().with_listed(vec![listed.to_owned()]);
                assert!(find_store(&project, &trust).unwrap().is_some(), "{listed:?}");
            }
            assert!(store_of_named(&project).unwrap().is_some());
            let caller = |user| TrustPolicy::of_user(user, SOMEBODY);
            assert!(find_store(&project, &caller(0)).is_ok(), "under sudo, the caller's");
            assert!(find_store(&project, &caller(1)).is_err(), "no root, no sudo");
            assert_eq!(
                find_project(&project.join("below"), &TrustPolicy::default()),
                resolved_place(&project.join("below"))
            );
        };
        fs::create_dir(project.join("below")).unwrap();

        fs::create_dir(&own).unwrap();
        assert!(found(&project).is_some());
        chown(&own, SOMEBODY, None).unwrap();
        refused(&own);
        fs::remove_dir(&own).unwrap();

        fs::write(&own, "../outside\n").unwrap();
        assert!(found(&project).is_some());
        chown(&own, SOMEBODY, None).unwrap();
        refused(&own);
        chown(&own, Some(0), None).unwrap();
        chown(&outside, SOMEBODY, None).unwrap();
        refused(&outside);
        fs::remove_file(&own).unwrap();

        symlink("../outside", &own).unwrap();
        refused(&outside);
        chown(&outside, Some(0), None).unwrap();
        assert!(found(&project).is_some());
        lchown(&own, SOMEBODY, None).unwrap();
        assert!(why_not(&project).contains("belongs to another user"), "the link");
    }

    #[test]
    fn a_store_is_believed_by_its_owner_and_by_who_called_sudo() {
        let (_temporary, dir) = temporary();
        let own = dir.join(NAME);
        fs::create_dir(&own).unwrap();
        let mut owner = rustix::process::geteuid().as_raw();
        if owner == 0 {
            // Everybody believes root.
            assert!(find_store(&dir, &TrustPolicy::of_user(12_345, None)).is_ok());
            chown(&own, SOMEBODY, None).unwrap();
            owner = 54_321;
        }
        for (user, caller, believed) in [
            (owner, None, true),
            (owner + 1, None, false),
            (owner + 1, Some(owner), false),
            (0, None, false),
            (0, Some(owner), true),
            (0, Some(owner + 1), false),
        ] {
            let found = find_store(&dir, &TrustPolicy::of_user(user, caller));
            assert_eq!(found.is_ok(), believed, "{user} {caller:?}");
        }
    }

    #[test]
    fn what_others_may_write_is_refused() {
        let (_temporary, dir) = temporary();
        let (own, below) = (dir.join(NAME), dir.join("below"));
        fs::create_dir(&below).unwrap();
        let outside = dir.join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(&own, "outside\n").unwrap();
        for mode in [0o777, 0o702, 0o1777] {
            set_mode(&outside, mode);
            let said =
                format!("{} can be written by other users (mode {mode:04o})", outside.display());
            assert_eq!(why_not(&dir), said);
        }
        set_mode(&outside, 0o755);
        set_mode(&own, 0o606);
        assert!(why_not(&dir).contains("can be written by other users (mode 0606)"));
        set_mode(&own, 0o644);
        assert!(found(&dir).is_some());
        fs::remove_file(&own).unwrap();
        fs::create_dir(&own).unwrap();
        set_mode(&own, 0o1777);
        assert!(why_not(&dir).contains("can be written by other users (mode 1777)"));
        assert_eq!(find_project(&below, &TrustPolicy::default()), below, "it makes no project");
        // What is around it may be anybody's, as a directory of temporary files is.
        set_mode(&own, 0o700);
        set_mode(&dir, 0o1777);
        assert!(found(&dir).is_some());
        assert_eq!(find_project(&below, &TrustPolicy::default()), dir);
        if may_give_away() {
            set_mode(&own, 0o770);
            assert!(found(&dir).is_some(), "a group of one's own");
            chown(&own, None, SOMEBODY).unwrap();
            assert!(why_not(&dir).contains("can be written by other users (mode 0770)"));
            set_mode(&own, 0o750);
            assert!(found(&dir).is_some());
        }
    }

    #[test]
    fn no_store_is_made_at_the_root_of_the_file_system() {
        if Path::new("/.abide").exists() || Path::new("/.git").exists() {
            return println!("skipped: the root of this machine is a project");
        }
        let made = store_of_project(Path::new("/"), &TrustPolicy::default());
        assert!(matches!(made, Err(StorePlaceError::Root)), "{made:?}");
        let made = store_of_project(Path::new("/.."), &TrustPolicy::default());
        assert!(matches!(made, Err(StorePlaceError::Root)), "{made:?}");
    }

    #[test]
    fn nothing_but_directories_and_short_files_is_opened() {
        let (_temporary, dir) = temporary();
        let own = dir.join(NAME);
        let pipe = |path: &Path| {
            let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        };
        pipe(&own);
        assert!(why_not(&dir).ends_with("is not a store: neither a directory nor a file"));
        fs::rename(&own, dir.join("pipe")).unwrap();
        symlink("pipe", &own).unwrap();
        assert!(why_not(&dir).ends_with("a symlink to something other than a directory"));
        fs::remove_file(&own).unwrap();
        symlink("nothing", &own).unwrap();
        assert!(why_not(&dir).ends_with("a dangling symlink"));
        fs::remove_file(&own).unwrap();
        fs::write(&own, " \nelsewhere\n").unwrap();
        assert!(why_not(&dir).contains("is not a store: an empty file"));
        fs::write(&own, "x".repeat(4097)).unwrap();
        assert_eq!(why_not(&dir), format!("cannot read {}", own.display()));
        fs::remove_file(&own).unwrap();
        // What git says is read with the same care.
        pipe(&dir.join(".git"));
        assert_eq!(recorded(&dir), files(&own));
        fs::remove_file(dir.join(".git")).unwrap();
        fs::write(dir.join(".git"), "gitdir: there\n").unwrap();
        fs::create_dir(dir.join("there")).unwrap();
        pipe(&dir.join("there/commondir"));
        assert_eq!(recorded(&dir), files(&own));
    }

    #[test]
    fn what_leads_out_of_the_project_is_told() {
        let (_temporary, dir) = temporary();
        let (project, outside) = (dir.join("project"), dir.join("outside"));
        fs::create_dir_all(project.join("inside/store")).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink(&outside, project.join("out")).unwrap();
        let own = project.join(NAME);
        let elsewhere = || place(&project).unwrap().elsewhere;
        for (line, expected) in [
            ("inside/store", None),
            ("inside/not/yet", None),
            ("../outside", Some(files(&outside))),
            ("inside/../../outside", Some(files(&outside))),
            ("out/store", Some(files(outside.join("store")))),
            ("missing/../../outside", Some(files(project.join("missing/../../outside")))),
            ("/nowhere/store", Some(files("/nowhere/store"))),
            ("postgres://h/d", Some(StoreLocation::from(PathBuf::from("postgres://h/d")))),
        ] {
            fs::write(&own, format!("{line}\n")).unwrap();
            assert_eq!(elsewhere(), expected, "{line}");
            assert_eq!(store_of_named(&project).unwrap().unwrap().elsewhere, expected, "{line}");
        }
        fs::remove_file(&own).unwrap();
        symlink("../outside", &own).unwrap();
        assert_eq!(elsewhere(), Some(files(&outside)));
        fs::remove_file(&own).unwrap();
        symlink("inside/store", &own).unwrap();
        assert_eq!(elsewhere(), None);
        fs::remove_file(&own).unwrap();
        fs::create_dir(&own).unwrap();
        assert_eq!(elsewhere(), None);
    }
}
