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

fn of(dir: &Path) -> ProjectIdentity {
    ProjectIdentity::of(dir).unwrap().unwrap()
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
    assert_eq!(ProjectIdentity::of(&shallow).unwrap(), None);
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
fn without_a_commit_an_id_is_stored_by_the_first_recording_only() {
    let lab = Lab::new();
    for (name, store, file) in
        [("plain", false, ".abide-project"), ("with-store", true, ".abide/project")]
    {
        let dir = lab.dir(name);
        git(&dir, &["init", "-q"]);
        if store {
            fs::create_dir(dir.join(".abide")).unwrap();
        }
        assert_eq!(ProjectIdentity::of(&dir).unwrap(), None);
        assert!(!dir.join(file).exists());
        let made = ProjectIdentity::for_recording(&dir).unwrap();
        assert_eq!(made.name, name);
        assert!(dir.join(file).is_file());
        assert_eq!(ProjectIdentity::for_recording(&dir).unwrap(), made);
        assert_eq!(of(&dir), made);
        let moved = lab.path(&format!("{name}-moved"));
        fs::rename(&dir, &moved).unwrap();
        assert_eq!(of(&moved).id, made.id);
        git(&moved, &["commit", "-q", "--allow-empty", "-m", "x"]);
        let committed = of(&moved);
        assert_ne!(committed.id, made.id);
        assert_eq!(committed.also, [made.id], "recorded before its first commit");
    }
}

#[test]
fn of_many_recordings_at_once_all_have_the_same_id() {
    let lab = Lab::new();
    let dir = lab.dir("dir");
    let made: Vec<_> = std::thread::scope(|scope| {
        let record = || ProjectIdentity::for_recording(&dir).unwrap().id;
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(record)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(made.iter().all(|id| *id == of(&dir).id), "{made:?}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn what_cannot_be_told_is_an_error_and_not_another_project() {
    let lab = Lab::new();
    let dir = lab.dir("dir");
    fs::write(dir.join(".abide-project"), "half").unwrap();
    let error = ProjectIdentity::for_recording(&dir).unwrap_err();
    assert!(error.to_string().contains("holds no id"), "{error}");
    let piped = lab.dir("piped");
    let made = Command::new("mkfifo").arg(piped.join(".abide-project")).status().unwrap();
    assert!(made.success());
    assert!(ProjectIdentity::for_recording(&piped).is_err(), "and is not waited for");
    let broken = lab.dir("broken");
    fs::write(broken.join(".git"), "gitdir: nowhere\n").unwrap();
    assert!(ProjectIdentity::for_recording(&broken).is_err());
    assert!(!broken.join(".abide-project").exists());
}

#[test]
fn an_id_in_a_store_that_is_not_to_be_trusted_is_not_believed() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    let dir = lab.dir("dir");
    fs::create_dir(dir.join(".abide")).unwrap();
    let believed = ProjectIdentity::for_recording(&dir).unwrap();
    assert!(dir.join(".abide/project").is_file());
    fs::set_permissions(dir.join(".abide"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(ProjectIdentity::of(&dir).unwrap(), None);
    assert_ne!(ProjectIdentity::for_recording(&dir).unwrap().id, believed.id);
    assert!(dir.join(".abide-project").is_file(), "nor is another one written there");
}
