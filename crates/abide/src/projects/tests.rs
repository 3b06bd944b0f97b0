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
    let person = UserDirs::by(|name| (name == "HOME").then(|| home.clone().into()), || None);
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
    assert_eq!(Projects::default().of(&shallow).unwrap(), Some(project_by_place(&shallow)));
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
        // A repository is a project of its own, in which nothing was recorded yet.
        let unrecorded = projects.of(&dir).unwrap();
        assert_eq!(unrecorded.is_some(), git_too);
        let made = projects.for_recording(&dir).unwrap();
        assert!(unrecorded.is_none_or(|unrecorded| !made.ids().contains(&unrecorded.id)));
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
    assert_eq!(identity(), Some(project_by_place(&dir)));
    assert_eq!(fs::read_dir(lab.path("home/.cache/abide/projects")).unwrap().count(), 1);
    // The first commit, a remote, another one: each is seen, as without a cache.
    let fresh = || self::projects(&lab).of(&dir).unwrap();
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "one"]);
    assert!(identity().is_some());
    assert_eq!(identity(), fresh());
    let id = |known: Option<ProjectIdentity>| known.map(|known| (known.id, known.name));
    for url in ["https://example.org/a/a", "https://example.org/b/b"] {
        let _ = Command::new("git").args(["remote", "remove", "origin"]).current_dir(&dir).output();
        git(&dir, &["remote", "add", "origin", url]);
        assert_eq!(id(identity()), id(fresh()), "{url}");
    }
    // An abbreviation of the user's.
    let known = identity();
    fs::write(lab.path("home/.gitconfig"), "[user]\n").unwrap();
    assert_eq!(identity(), known);
    // On a branch that has nothing in common with the others, what it was known by still counts.
    git(&dir, &["checkout", "-q", "--orphan", "pages"]);
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "pages"]);
    git(&dir, &["config", "x.y", "z"]);
    assert!(identity().unwrap().also.contains(&known.unwrap().id));
    // Another repository in the same place is another one.
    fs::remove_dir_all(dir.join(".git")).unwrap();
    git(&dir, &["init", "-q"]);
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "anew"]);
    assert_eq!(identity().unwrap().also, Vec::<String>::new());
    assert_eq!(identity(), fresh());
}

#[test]
fn where_git_cannot_be_asked_the_path_tells_or_nothing_does() {
    let lab = Lab::new();
    let dir = lab.dir("dir");
    fs::write(dir.join(".git"), "gitdir: nowhere\n").unwrap();
    let by_path = projects(&lab);
    // Not none: that would be all projects.
    let nothing = by_path.of(&dir).unwrap().unwrap();
    assert_eq!((nothing.name.as_str(), nothing.also.len()), ("dir", 0));
    let made = by_path.for_recording(&dir).unwrap();
    assert!(!made.ids().contains(&nothing.id));
    assert_eq!(by_path.of(&dir).unwrap().unwrap(), made);
    let strict = Projects { without_git: GitFallback::Refuse, ..projects(&lab) };
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
    assert!(error.to_string().contains("does not contain a project id"), "{error}");
    let piped = lab.dir("piped");
    let made = Command::new("mkfifo").arg(piped.join(".abide-project")).status().unwrap();
    assert!(made.success());
    assert!(projects.for_recording(&piped).is_err(), "and is not waited for");
    let homeless = Projects::default().for_recording(&lab.dir("plain")).unwrap_err();
    assert!(homeless.to_string().contains("no directory to store its id"), "{homeless}");
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

/// May files be given to another user? Where not, that is said.
#[allow(clippy::print_stdout)]
fn may_give_away() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root gives files to another user");
    }
    root
}

#[test]
fn what_git_said_of_a_repository_is_not_told_where_somebody_else_leads_to_it() {
    if !may_give_away() {
        return;
    }
    let lab = Lab::new();
    let projects = cached(&lab);
    let victim = lab.repository("victim");
    let known = projects.of(&victim).unwrap().unwrap();
    let (open, link) = (lab.dir("open"), lab.dir("link"));
    let to = victim.join(".git");
    fs::write(open.join(".git"), format!("gitdir: {}\n", to.display())).unwrap();
    std::os::unix::fs::symlink(&to, link.join(".git")).unwrap();
    for dir in [open, link] {
        std::os::unix::fs::lchown(dir.join(".git"), Some(54_321), Some(54_321)).unwrap();
        std::os::unix::fs::chown(&dir, Some(54_321), Some(54_321)).unwrap();
        let below = dir.join("x");
        fs::create_dir(&below).unwrap();
        // The first asks git, the second need not.
        for _ in 0..2 {
            let told = projects.of(&below).unwrap().unwrap();
            assert!(!told.ids().contains(&known.id), "{told:?}");
        }
    }
    assert_eq!(projects.of(&victim).unwrap().unwrap(), known);
    // Nor where git would refuse what it said before.
    std::os::unix::fs::chown(&to, Some(54_321), Some(54_321)).unwrap();
    assert_eq!(projects.marks().last_known(&to).unwrap(), known.ids());
    assert!(!projects.of(&victim).unwrap().unwrap().ids().contains(&known.id));
}

#[test]
fn a_directory_behind_a_link_is_of_the_repository_it_is_in() {
    let lab = Lab::new();
    let dir = lab.repository("dir");
    fs::create_dir(dir.join("below")).unwrap();
    let other = lab.repository("other");
    std::os::unix::fs::symlink(dir.join("below"), other.join("link")).unwrap();
    for projects in [projects(&lab), cached(&lab)] {
        for _ in 0..2 {
            let known = projects.of(&other.join("link")).unwrap();
            assert_eq!(known, projects.of(&dir).unwrap());
        }
    }
}

#[test]
fn a_remote_that_changes_in_place_loses_nothing_even_without_a_cache() {
    let lab = Lab::new();
    let projects = cached(&lab);
    let dir = lab.repository("dir");
    git(&dir, &["remote", "add", "origin", "https://example.org/a/a"]);
    let seen = projects.of(&dir).unwrap().unwrap();
    git(&dir, &["remote", "set-url", "origin", "https://example.org/b/b"]);
    let recorded = projects.for_recording(&dir).unwrap();
    assert!(recorded.also.contains(&seen.id));
    fs::remove_dir_all(lab.path("home/.cache")).unwrap();
    git(&dir, &["remote", "set-url", "origin", "https://example.org/c/c"]);
    let after = projects.of(&dir).unwrap().unwrap();
    assert_eq!(after.name, "c/c");
    assert!(after.also.contains(&recorded.id) && after.also.contains(&seen.id), "{after:?}");
    // Another repository in the same place has no part in that.
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    git(&dir, &["init", "-q"]);
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "anew"]);
    assert_eq!(projects.of(&dir).unwrap().unwrap().also, Vec::<String>::new());
}

#[test]
fn the_branch_that_was_seen_first_does_not_stick_and_is_not_forgotten() {
    let lab = Lab::new();
    let projects = cached(&lab);
    let dir = lab.repository("dir");
    let main = of(&dir);
    git(&dir, &["checkout", "-q", "--orphan", "pages"]);
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "pages"]);
    let pages = projects.for_recording(&dir).unwrap();
    assert_ne!(pages.id, main.id);
    git(&dir, &["checkout", "-q", "main"]);
    git(&dir, &["config", "x.y", "z"]);
    let back = projects.of(&dir).unwrap().unwrap();
    assert_eq!((&back.id, &back.also), (&main.id, &vec![pages.id.clone()]));
    // Joined, one of the two is the first. Both count in every clone.
    git(&dir, &["merge", "-q", "--allow-unrelated-histories", "-m", "both", "pages"]);
    let joined = of(&dir).ids();
    assert!(joined.contains(&main.id) && joined.contains(&pages.id), "{joined:?}");
}

#[test]
fn a_whole_clone_whose_history_is_cut_off_keeps_its_first_commit() {
    let lab = Lab::new();
    let projects = cached(&lab);
    let whole = lab.repository("whole");
    let source = format!("file://{}", whole.display());
    git(lab.0.path(), &["clone", "-q", &source, "clone"]);
    let clone = lab.path("clone");
    let known = projects.of(&clone).unwrap().unwrap();
    git(&clone, &["fetch", "-q", "--depth", "1"]);
    assert!(clone.join(".git/shallow").exists());
    assert_eq!(projects.of(&clone).unwrap().unwrap(), known);
}

#[test]
fn where_git_fails_what_it_said_before_counts_and_it_is_not_asked_each_time() {
    let lab = Lab::new();
    let projects = cached(&lab);
    let dir = lab.repository("dir");
    let known = projects.for_recording(&dir).unwrap();
    fs::write(dir.join(".git/config"), "[broken").unwrap();
    assert_eq!(projects.of(&dir).unwrap().unwrap(), known);
    assert_eq!(projects.for_recording(&dir).unwrap(), known);
    // What was used is kept outside of the cache.
    fs::remove_dir_all(lab.path("home/.cache")).unwrap();
    assert_eq!(projects.of(&dir).unwrap().unwrap(), known);
    let never = lab.repository("never");
    let head = fs::read(never.join(".git/HEAD")).unwrap();
    fs::write(never.join(".git/HEAD"), "broken").unwrap();
    let nothing = projects.of(&never).unwrap().unwrap();
    fs::write(never.join(".git/HEAD"), head).unwrap();
    assert_eq!(projects.of(&never).unwrap().unwrap(), nothing, "it is not asked again at once");
    let cache = lab.path("home/.cache/abide/projects");
    for entry in fs::read_dir(cache).unwrap() {
        let path = entry.unwrap().path();
        let mut kept: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        kept["failed"][0] = 0.into();
        fs::write(path, kept.to_string()).unwrap();
    }
    assert_eq!(projects.of(&never).unwrap().unwrap(), of(&never), "but later");
}

#[test]
fn what_root_keeps_in_a_store_is_its_owners() {
    use std::os::unix::fs::MetadataExt;
    if !may_give_away() {
        return;
    }
    let lab = Lab::new();
    let projects = projects(&lab);
    let store = lab.path("home/.local/share/abide/store");
    fs::create_dir_all(&store).unwrap();
    std::os::unix::fs::chown(&store, Some(1234), Some(4321)).unwrap();
    let (plain, repository) = (lab.dir("plain"), lab.repository("repository"));
    for dir in [&plain, &repository] {
        let made = projects.for_recording(dir).unwrap();
        assert_eq!(projects.for_recording(dir).unwrap(), made);
    }
    let mut kept: Vec<PathBuf> = vec![store.join("projects")];
    let entries = fs::read_dir(store.join("projects")).unwrap();
    kept.extend(entries.map(|entry| entry.unwrap().path()));
    assert_eq!(kept.len(), 3);
    for path in kept {
        let found = fs::symlink_metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid()), (1234, 4321), "{}", path.display());
    }
}

#[test]
fn an_id_that_others_may_have_written_is_not_believed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let lab = Lab::new();
    let projects = projects(&lab);
    let dir = lab.dir("dir");
    projects.for_recording(&dir).unwrap();
    let kept = lab.path("home/.local/share/abide/store/projects");
    let set = |mode| fs::set_permissions(&kept, fs::Permissions::from_mode(mode)).unwrap();
    set(0o777);
    assert_eq!(projects.of(&dir).unwrap(), None);
    let refused = projects.for_recording(&dir).unwrap_err();
    assert!(refused.to_string().contains("can be written by other users"), "{refused}");
    set(0o700);
    assert!(projects.of(&dir).unwrap().is_some());
    // Nor through a link.
    let entry = fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    fs::rename(&entry, lab.path("entry")).unwrap();
    symlink(lab.path("entry"), &entry).unwrap();
    assert!(projects.of(&dir).is_err());
    fs::remove_file(&entry).unwrap();
    fs::rename(lab.path("entry"), &entry).unwrap();
    fs::rename(&kept, lab.path("kept")).unwrap();
    symlink(lab.path("kept"), &kept).unwrap();
    assert_eq!(projects.of(&dir).unwrap(), None);
}

#[test]
fn a_file_of_a_clone_does_not_stop_what_git_knows() {
    let lab = Lab::new();
    let dir = lab.repository("dir");
    let known = of(&dir);
    fs::write(dir.join(".abide-project"), "half").unwrap();
    assert_eq!(of(&dir), known);
}

#[test]
fn a_commit_without_a_branch_and_settings_of_other_files_are_seen() {
    let lab = Lab::new();
    let projects = cached(&lab);
    let source = lab.repository("source");
    let dir = lab.dir("dir");
    git(&dir, &["init", "-q"]);
    assert_eq!(projects.of(&dir).unwrap(), Some(project_by_place(&dir)));
    git(&dir, &["fetch", "-q", &source.display().to_string(), "main"]);
    git(&dir, &["checkout", "-q", "--detach", "FETCH_HEAD"]);
    assert_eq!(projects.of(&dir).unwrap().unwrap().id, of(&source).id);
    let more = lab.path("more");
    let name = |url: &str| {
        fs::write(&more, format!("[remote \"origin\"]\n\turl = {url}\n")).unwrap();
        projects.of(&dir).unwrap().unwrap().name
    };
    git(&dir, &["config", "include.path", &more.display().to_string()]);
    assert_eq!(name("https://example.org/a/a"), "a/a");
    assert_eq!(name("https://example.org/bb/bb"), "bb/bb");
}

#[test]
fn of_many_changes_at_once_none_is_lost() {
    let lab = Lab::new();
    let kept = path_identity::IdentityDirectory { dir: lab.path("kept"), of_store: false };
    let dir = lab.dir("dir");
    let change = |name: &str| {
        let name = name.to_owned();
        path_identity::update_path_identity(&kept, &dir, None, |entry| {
            entry.also.push(name.clone())
        })
        .unwrap();
    };
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let change = &change;
            scope.spawn(move || change(name));
        }
    });
    let mut also = path_identity::read_path_identity(&kept, &dir).unwrap().unwrap().also;
    also.sort();
    assert_eq!(also.concat(), "abcdefgh");
}
