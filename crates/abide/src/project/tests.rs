//! Identities of real repositories and directories.

use std::process::Command;

use super::*;

fn git(dir: &Path, args: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@example.org"])
        .args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A directory.
    fn dir(&self, name: &str) -> PathBuf {
        let dir = self.path(name);
        fs::create_dir(&dir).unwrap();
        dir
    }

    /// A repository with two commits.
    fn repository(&self, name: &str) -> PathBuf {
        let dir = self.dir(name);
        git(&dir, &["init", "-q"]);
        for message in ["one", "two"] {
            git(&dir, &["commit", "-q", "--allow-empty", "-m", &format!("{name} {message}")]);
        }
        dir
    }
}

/// Those of somebody whose home is in the lab, without a cache: git is asked each time.
fn projects(lab: &Lab) -> Projects {
    Projects { cache: None, ..cached(lab) }
}

/// With a cache.
fn cached(lab: &Lab) -> Projects {
    let home = lab.path("home");
    let person = Person::by(|name| (name == "HOME").then(|| home.clone().into()), || None);
    Projects::in_store(&person.store().unwrap(), &person)
}

fn of(dir: &Path) -> ProjectIdentity {
    Projects::default().of(dir).unwrap().unwrap()
}

#[test]
fn a_clone_a_move_and_a_worktree_are_the_same_project() {
    let lab = Lab::new();
    let first = lab.repository("first");
    let own = of(&first);
    assert_eq!((own.id.len(), own.name.as_str(), own.also.len()), (32, "first", 0));
    git(lab.0.path(), &["clone", "-q", "first", "clone"]);
    assert_eq!(of(&lab.path("clone")).id, own.id, "a directory as remote says nothing");
    git(&first, &["worktree", "add", "-q", "../linked"]);
    assert_eq!(of(&lab.path("linked")), own);
    git(&first, &["commit", "-q", "--allow-empty", "-m", "three"]);
    fs::create_dir(first.join("below")).unwrap();
    assert_eq!(of(&first.join("below")), own);
    fs::rename(&first, lab.path("moved")).unwrap();
    assert_eq!(of(&lab.path("moved")).id, own.id);
    assert_ne!(of(&lab.repository("other")).id, own.id);
}

#[test]
fn ssh_and_https_are_one_and_a_fork_is_another() {
    let lab = Lab::new();
    let dir = lab.repository("a");
    let before = of(&dir).id;
    git(&dir, &["remote", "add", "zeta", "https://example.org/z/z"]);
    git(&dir, &["remote", "add", "alpha", "https://example.org/owner/repo.git"]);
    let own = of(&dir);
    assert_eq!(own.name, "owner/repo");
    assert!(own.also.contains(&before), "recorded before it had a remote");
    git(&dir, &["remote", "add", "origin", "git@example.org:owner/repo.git"]);
    git(&dir, &["remote", "set-url", "alpha", "https://example.org/a/a"]);
    assert_eq!(of(&dir), own);
    git(&dir, &["remote", "set-url", "origin", "https://user:secret@example.org/fork/repo"]);
    let fork = of(&dir);
    assert_ne!(fork.id, own.id);
    assert!(!fork.also.contains(&own.id) && !own.also.contains(&fork.id));
    assert!(!format!("{fork:?}").contains("secret"));
}

#[test]
fn a_shallow_clone_is_known_by_its_remote_and_a_whole_one_knows_that() {
    let lab = Lab::new();
    let whole = lab.repository("whole");
    let source = format!("file://{}", whole.display());
    git(lab.0.path(), &["clone", "-q", "--depth", "1", &source, "shallow"]);
    let shallow = lab.path("shallow");
    // Neither a remote nor a first commit: nothing tells it from another.
    assert_eq!(Projects::default().of(&shallow).unwrap(), None);
    for dir in [&whole, &shallow] {
        let _ = Command::new("git").args(["remote", "remove", "origin"]).current_dir(dir).output();
        git(dir, &["remote", "add", "origin", "https://example.org/owner/repo"]);
    }
    let (whole, shallow) = (of(&whole), of(&shallow));
    assert_ne!(whole.id, shallow.id);
    assert!(whole.also.contains(&shallow.id), "{whole:?} {shallow:?}");
    assert_eq!((whole.name, shallow.also), (shallow.name, Vec::new()));
}

#[test]
fn without_a_commit_an_id_is_kept_by_the_first_recording_and_outside_of_the_directory() {
    let lab = Lab::new();
    let projects = projects(&lab);
    for (name, git_too) in [("plain", false), ("unborn", true)] {
        let dir = lab.dir(name);
        if git_too {
            git(&dir, &["init", "-q"]);
        }
        let before = fs::read_dir(&dir).unwrap().count();
        assert_eq!(projects.of(&dir).unwrap(), None);
        let made = projects.for_recording(&dir).unwrap();
        assert_eq!(made.name, name);
        assert_eq!(projects.for_recording(&dir).unwrap(), made);
        assert_eq!(projects.of(&dir).unwrap().unwrap(), made);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), before, "nothing is written there");
        if !git_too {
            git(&dir, &["init", "-q"]);
        }
        git(&dir, &["commit", "-q", "--allow-empty", "-m", name]);
        let committed = projects.of(&dir).unwrap().unwrap();
        assert_ne!(committed.id, made.id);
        assert_eq!(committed.also, [made.id], "recorded before its first commit");
    }
}

#[test]
fn a_moved_directory_keeps_its_history_when_that_is_told() {
    let lab = Lab::new();
    let projects = projects(&lab);
    let old = lab.dir("old");
    let made = projects.for_recording(&old).unwrap();
    let new = lab.path("new");
    fs::rename(&old, &new).unwrap();
    assert_eq!(projects.of(&new).unwrap(), None);
    assert_eq!(projects.moved(&old, &new).unwrap().id, made.id);
    assert_eq!(projects.of(&new).unwrap().unwrap().id, made.id);
    // Another directory at the old place is another project.
    fs::create_dir(&old).unwrap();
    assert_eq!(projects.of(&old).unwrap(), None);
    let other = projects.for_recording(&old).unwrap();
    assert_ne!(other.id, made.id);
    // Into one in which something was recorded already: both are its own.
    let both = projects.moved(&old, &new).unwrap();
    assert_eq!((both.id, both.also), (made.id, vec![other.id]));
    let nothing = projects.moved(&lab.path("never"), &new).unwrap_err();
    assert!(nothing.to_string().contains("no session was recorded there"), "{nothing}");
    let again = projects.moved(&old, &new).unwrap_err();
    assert!(again.to_string().contains("the same project already"), "{again}");
}

#[test]
fn a_repository_whose_remote_changed_knows_what_it_was_when_that_is_told() {
    let lab = Lab::new();
    let projects = cached(&lab);
    let old = lab.repository("old");
    git(&old, &["remote", "add", "origin", "https://example.org/a/a"]);
    let before = projects.of(&old).unwrap().unwrap();
    let new = lab.path("new");
    fs::rename(&old, &new).unwrap();
    git(&new, &["remote", "set-url", "origin", "https://example.org/b/b"]);
    let after = projects.of(&new).unwrap().unwrap();
    assert!(!after.ids().contains(&before.id));
    let told = projects.moved(&old, &new).unwrap();
    assert_eq!(told.id, after.id);
    assert!(told.also.contains(&before.id), "{told:?}");
    assert_eq!(projects.of(&new).unwrap().unwrap(), told);
}

#[test]
fn what_git_said_holds_until_what_it_came_from_changes() {
    let lab = Lab::new();
    let projects = cached(&lab);
    let dir = lab.dir("dir");
    git(&dir, &["init", "-q"]);
    let identity = || projects.of(&dir).unwrap();
    assert_eq!(identity(), None);
    assert_eq!(fs::read_dir(lab.path("home/.cache/abide/projects")).unwrap().count(), 1);
    // The first commit, a remote, another one: each is seen, as without a cache.
    let fresh = || self::projects(&lab).of(&dir).unwrap();
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "one"]);
    assert!(identity().is_some());
    assert_eq!(identity(), fresh());
    for url in ["https://example.org/a/a", "https://example.org/b/b"] {
        let _ = Command::new("git").args(["remote", "remove", "origin"]).current_dir(&dir).output();
        git(&dir, &["remote", "add", "origin", url]);
        assert_eq!(identity(), fresh(), "{url}");
    }
    // An abbreviation of the user's.
    let known = identity();
    fs::write(lab.path("home/.gitconfig"), "[user]\n").unwrap();
    assert_eq!(identity(), known);
    // A branch that has nothing in common with the others is of the same project.
    git(&dir, &["checkout", "-q", "--orphan", "pages"]);
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "pages"]);
    git(&dir, &["config", "x.y", "z"]);
    assert_eq!(identity(), known);
    // Another repository in the same place is another one.
    fs::remove_dir_all(dir.join(".git")).unwrap();
    git(&dir, &["init", "-q"]);
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "anew"]);
    assert_ne!(identity(), known);
    assert_eq!(identity(), fresh());
}

#[test]
fn where_git_cannot_be_asked_the_path_tells_or_nothing_does() {
    let lab = Lab::new();
    let dir = lab.dir("dir");
    fs::write(dir.join(".git"), "gitdir: nowhere\n").unwrap();
    let by_path = projects(&lab);
    assert_eq!(by_path.of(&dir).unwrap(), None);
    let made = by_path.for_recording(&dir).unwrap();
    assert_eq!(by_path.of(&dir).unwrap().unwrap(), made);
    let strict = Projects { without_git: WithoutGit::Refuse, ..projects(&lab) };
    assert!(strict.of(&dir).is_err() && strict.for_recording(&dir).is_err());
    // When it answers again, what was recorded meanwhile is found.
    fs::remove_file(dir.join(".git")).unwrap();
    git(&dir, &["init", "-q"]);
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "one"]);
    assert!(strict.of(&dir).unwrap().unwrap().also.contains(&made.id));
}

#[test]
fn of_many_recordings_at_once_all_have_the_same_id() {
    let lab = Lab::new();
    let dir = lab.dir("dir");
    let projects = projects(&lab);
    let made: Vec<_> = std::thread::scope(|scope| {
        let record = || projects.for_recording(&dir).unwrap().id;
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(record)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let known = projects.of(&dir).unwrap().unwrap().id;
    assert!(made.iter().all(|id| *id == known), "{made:?}");
    let kept = lab.path("home/.local/share/abide/store/projects");
    assert_eq!(fs::read_dir(kept).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn what_cannot_be_told_is_an_error_and_not_another_project() {
    let lab = Lab::new();
    let projects = projects(&lab);
    let dir = lab.dir("dir");
    fs::write(dir.join(".abide-project"), "half").unwrap();
    let error = projects.for_recording(&dir).unwrap_err();
    assert!(error.to_string().contains("holds no id"), "{error}");
    let piped = lab.dir("piped");
    let made = Command::new("mkfifo").arg(piped.join(".abide-project")).status().unwrap();
    assert!(made.success());
    assert!(projects.for_recording(&piped).is_err(), "and is not waited for");
    let homeless = Projects::default().for_recording(&lab.dir("plain")).unwrap_err();
    assert!(homeless.to_string().contains("no place to keep its id"), "{homeless}");
}

#[test]
fn an_id_of_an_earlier_version_is_read_where_it_is_to_be_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    let projects = projects(&lab);
    let dir = lab.dir("dir");
    let id = "0123456789abcdef0123456789abcdef";
    fs::write(dir.join(".abide-project"), format!("{id}\n")).unwrap();
    let beside = projects.of(&dir).unwrap().unwrap().id;
    fs::remove_file(dir.join(".abide-project")).unwrap();
    fs::create_dir(dir.join(".abide")).unwrap();
    fs::write(dir.join(".abide/project"), format!("{id}\n")).unwrap();
    assert_eq!(projects.of(&dir).unwrap().unwrap().id, beside);
    fs::set_permissions(dir.join(".abide"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(projects.of(&dir).unwrap(), None);
    assert_ne!(projects.for_recording(&dir).unwrap().id, beside);
}
