//! The person's store: one for all projects, no file in any of them, and each command about the project
//! or the directory that it is run in.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use abide_testkit::AcpClient;
use serde_json::{Value, json};

use crate::acp::stub_agent;
use crate::environment::{ABIDE, HELLO, TestEnvironment, run};
use crate::fault::skipped;

fn message(text: &str) -> String {
    format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#)
}

/// A repository with a commit.
fn repository(env: &TestEnvironment, dir: &str) -> PathBuf {
    let dir = env.path(dir);
    fs::create_dir_all(&dir).unwrap();
    env.git(&dir, &["init", "-q"]);
    fs::write(dir.join("file.txt"), "one\n").unwrap();
    env.git(&dir, &["add", "."]);
    env.git(&dir, &["commit", "-q", "-m", &dir.to_string_lossy()]);
    dir
}

/// Records a message in a directory; gives its session.
#[track_caller]
fn recorded(env: &TestEnvironment, dir: &Path, text: &str) -> String {
    let done = env.record_in(dir, &["--new"], &message(text)).success();
    done.json_lines()[0]["session"].as_str().unwrap().to_owned()
}

/// The sessions that `history` lists in a directory, newest first.
#[track_caller]
fn listed(env: &TestEnvironment, dir: &Path, args: &[&str]) -> Vec<String> {
    let done = env.run_in(dir, &[&["history", "--json"], args].concat()).success();
    let rows: Value = serde_json::from_str(done.stdout()).unwrap();
    let ids = rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned());
    ids.collect()
}

/// The session that a command means which is given none.
#[track_caller]
fn meant(env: &TestEnvironment, dir: &Path) -> String {
    let exported = env.run_in(dir, &["export"]).success().json_lines();
    exported[0]["data"]["session"].as_str().unwrap().to_owned()
}

/// Everything in a directory, the repository's own files left aside.
fn listing(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name == ".git") {
            continue;
        }
        if path.is_dir() {
            all.extend(listing(&path));
        }
        all.push(path);
    }
    all.sort();
    all
}

#[test]
fn nothing_of_abides_is_in_a_project() {
    let env = TestEnvironment::bare();
    let plain = env.path("plain");
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("file.txt"), "one\n").unwrap();
    let git = repository(&env, "git");
    for (dir, in_git) in [(&plain, false), (&git, true)] {
        let before = listing(dir);
        recorded(&env, dir, "hello");
        env.run_in(dir, &["checkpoint", "create"]).success();
        fs::write(dir.join("file.txt"), "two\n").unwrap();
        env.run_in(dir, &["rewind", "--to", "1", "--yes"]).success();
        assert_eq!(fs::read_to_string(dir.join("file.txt")).unwrap(), "one\n");
        env.run_in(dir, &["undo", "--yes"]).success();
        env.run_in(dir, &["rewind", "--to", "1", "--files", "--yes"]).success();
        env.run_in(dir, &["run", "--", "true"]).success();
        env.run_in(dir, &["new", "--key", "k"]).success();
        env.run_in(dir, &["fork"]).success();
        env.run_in(dir, &["doctor", "--all"]).success();
        env.run_in(dir, &["demo", "--pace", "20"]).success();
        let mut command = env.command_in(dir, &["acp", "--"]);
        command.arg(stub_agent());
        let mut client = AcpClient::start(command);
        client.initialize();
        let made = client.must("session/new", json!({"cwd": dir, "mcpServers": []}));
        let prompt =
            json!({"sessionId": made["sessionId"], "prompt": [{"type": "text", "text": "say a"}]});
        client.must("session/prompt", prompt);
        assert!(client.close().success());
        assert_eq!(listing(dir), before);
        if in_git {
            let status = env.git(dir, &["status", "--ignored", "--porcelain"]);
            assert_eq!(status.stdout(), "");
            let exclude = fs::read_to_string(dir.join(".git/info/exclude")).unwrap_or_default();
            assert!(!exclude.contains("abide"));
        }
        assert!(listed(&env, dir, &[]).len() >= 4);
    }
    let store = env.store();
    for dir in [store.as_path(), store.parent().unwrap()] {
        let mode = fs::metadata(dir).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", dir.display());
    }
}

#[test]
fn a_project_sees_its_own_sessions_and_all_of_them_when_asked() {
    let env = TestEnvironment::bare();
    let (one, two) = (repository(&env, "one"), repository(&env, "two"));
    let first = recorded(&env, &one, "hello");
    let second = recorded(&env, &two, "hello");
    assert_eq!(listed(&env, &one, &[]), std::slice::from_ref(&first));
    assert_eq!(listed(&env, &two, &["--search", "hello"]), std::slice::from_ref(&second));
    assert_eq!(listed(&env, &one, &["-A"]), [second.clone(), first.clone()]);
    assert_eq!(meant(&env, &one), first);
    assert_eq!(meant(&env, &two), second);
    // By its id, from anywhere.
    env.run_in(&one, &["show", &second]).success();
    // Outside of a project: everything, with the project.
    let outside = env.path("home");
    assert_eq!(listed(&env, &outside, &[]), [second.clone(), first.clone()]);
    let told = env.run_in(&outside, &["history"]).success();
    let projects: Vec<&str> =
        told.stdout().lines().map(|line| line.split('\t').nth(8).unwrap()).collect();
    assert_eq!(projects, ["two", "one"]);
    let told = env.run_in(&one, &["history"]).success();
    assert_eq!(told.stdout().trim_end().split('\t').count(), 8, "{told:?}");
    assert_eq!(meant(&env, &outside), second);
    // A part of a project is of it.
    fs::create_dir(one.join("below")).unwrap();
    assert_eq!(listed(&env, &one.join("below"), &[]), [first]);
    // One in which nothing was recorded has nothing, and it is said where there is something.
    let three = repository(&env, "three");
    let none = env.run_in(&three, &["show"]).failure(1);
    assert!(none.stderr.contains("no session of three yet"), "{none:?}");
    assert!(none.stderr.contains("--all-projects"), "{none:?}");
    env.run_in(&three, &["show", "-A"]).success();
    // So does a repository without a commit, which git knows by nothing.
    let four = env.path("four");
    fs::create_dir(&four).unwrap();
    env.git(&four, &["init", "-q"]);
    assert_eq!(listed(&env, &four, &[]).len(), 0);
    recorded(&env, &four, "hello");
    assert_eq!(listed(&env, &four, &[]).len(), 1);
}

#[test]
fn disk_use_and_cleanup_are_told_by_project() {
    let env = TestEnvironment::bare();
    let (one, two) = (repository(&env, "one"), repository(&env, "two"));
    let kept = recorded(&env, &two, "hello");
    for text in ["a", "b", "c"] {
        recorded(&env, &one, text);
    }
    let disk = env.run_in(&one, &["status", "--disk"]).success();
    assert!(disk.stdout().contains("  one  3 sessions\n"), "{}", disk.stdout());
    assert!(disk.stdout().contains("  two  1 session\n"), "{}", disk.stdout());
    // A cleanup is about this project.
    env.run_in(&one, &["cleanup", "--keep", "1", "--yes"]).success();
    assert_eq!(listed(&env, &one, &[]).len(), 1);
    assert_eq!(listed(&env, &two, &[]), std::slice::from_ref(&kept));
    recorded(&env, &two, "more");
    env.run_in(&one, &["cleanup", "--keep", "1", "--yes"]).success();
    assert_eq!(listed(&env, &two, &[]).len(), 2);
}

#[test]
fn clones_and_worktrees_share_their_history_and_not_their_files() {
    let env = TestEnvironment::bare();
    let main = repository(&env, "main");
    env.git(&main, &["remote", "add", "origin", "https://example.org/owner/repo"]);
    env.git(&env.path(""), &["clone", "-q", "main", "clone"]);
    let clone = env.path("clone");
    env.git(&clone, &["remote", "set-url", "origin", "git@example.org:owner/repo.git"]);
    env.git(&main, &["worktree", "add", "-q", "../linked"]);
    let linked = env.path("linked");
    let mut sessions = Vec::new();
    for dir in [&main, &clone, &linked] {
        sessions.push(recorded(&env, dir, "hello"));
        env.run_in(dir, &["checkpoint", "create"]).success();
    }
    let shared = |dir: &Path| {
        let mut found = listed(&env, dir, &[]);
        found.sort();
        found
    };
    for (dir, own) in [&main, &clone, &linked].into_iter().zip(&sessions) {
        assert_eq!(shared(dir), sessions, "{}", dir.display());
        // What is about files is about those of this directory.
        fs::write(dir.join("file.txt"), "changed\n").unwrap();
        let diff = env.run_in(dir, &["checkpoint", "diff", "1"]).success();
        assert!(diff.stdout().contains("file.txt"), "{diff:?}");
        let undone = env.run_in(dir, &["rewind", "--to", "1", "--yes"]).success();
        assert_eq!(fs::read_to_string(dir.join("file.txt")).unwrap(), "one\n", "{undone:?}");
        let exported = env.run_in(dir, &["export", own]).success().json_lines();
        assert!(exported.iter().any(|event| event["kind"] == "session.rewound"));
        // Also from a directory below.
        fs::create_dir(dir.join("below")).unwrap();
        env.run_in(&dir.join("below"), &["undo", "--yes"]).success();
        assert_eq!(fs::read_to_string(dir.join("file.txt")).unwrap(), "changed\n");
    }
    // In a third clone there is nothing to go back to, though the project has sessions.
    env.git(&env.path(""), &["clone", "-q", "main", "fresh"]);
    let fresh = env.path("fresh");
    env.git(&fresh, &["remote", "set-url", "origin", "https://example.org/owner/repo"]);
    assert_eq!(shared(&fresh), sessions);
    for args in [
        &["rewind", "--to", "1", "--yes"][..],
        &["undo", "--yes"],
        &["checkpoint", "create"],
        &["checkpoint", "diff", "1"],
        &["resume"],
    ] {
        let refused = env.run_in(&fresh, args).failure(1);
        assert!(refused.stderr.contains("no session has its workspace in"), "{args:?} {refused:?}");
        assert!(refused.stderr.contains("the latest is"), "{args:?} {refused:?}");
    }
}

#[test]
fn a_renamed_repository_keeps_its_history_and_a_plain_directory_when_that_is_told() {
    let env = TestEnvironment::bare();
    let git = repository(&env, "git");
    let session = recorded(&env, &git, "hello");
    fs::rename(&git, env.path("renamed")).unwrap();
    assert_eq!(listed(&env, &env.path("renamed"), &[]), [session]);
    let plain = env.path("plain");
    fs::create_dir(&plain).unwrap();
    let session = recorded(&env, &plain, "hello");
    let moved = env.path("moved");
    fs::rename(&plain, &moved).unwrap();
    fs::create_dir(&plain).unwrap();
    let other = recorded(&env, &plain, "another");
    assert_ne!(
        listed(&env, &plain, &[]),
        std::slice::from_ref(&session),
        "by its path it is the same"
    );
    fs::remove_dir(&plain).unwrap();
    let told = env.run_in(&moved, &["project", "move", "../plain", "."]).success();
    assert!(told.stdout().contains("now belong to moved"), "{told:?}");
    assert_eq!(listed(&env, &moved, &[]), [other, session]);
    env.run_in(&moved, &["project", "move", "../plain", "."]).failure(1);
    env.run_in(&moved, &["project", "move", "../never", "."]).failure(1);
    env.run_in(&moved, &["project", "move", ".", "../nowhere"]).failure(1);
}

#[test]
fn a_nested_project_is_one_of_its_own() {
    let env = TestEnvironment::bare();
    let outer = repository(&env, "outer");
    let inner = repository(&env, "outer/inner");
    let (first, second) = (recorded(&env, &outer, "hello"), recorded(&env, &inner, "hello"));
    assert_eq!(listed(&env, &outer, &[]), std::slice::from_ref(&first));
    assert_eq!(listed(&env, &inner, &[]), [second]);
    // A store in the outer one is that of both from then on; what was recorded before can be brought.
    env.run_in(&outer, &["init"]).success();
    let third = recorded(&env, &inner, "hello");
    assert!(outer.join(".abide").is_dir());
    assert_eq!(listed(&env, &outer, &[]), std::slice::from_ref(&third));
    let persons = env.store();
    env.run_in(&outer, &["copy", "--from", persons.to_str().unwrap(), "--all"]).success();
    assert_eq!(listed(&env, &outer, &[]), [third, first]);
}

#[test]
fn keys_count_per_project_and_the_latest_is_not_empty() {
    let env = TestEnvironment::bare();
    let (one, two) = (repository(&env, "one"), env.path("two"));
    fs::create_dir(&two).unwrap();
    let make =
        |dir: &Path| env.run_in(dir, &["new", "--key", "k"]).success().stdout().trim().to_owned();
    let (first, second) = (make(&one), make(&two));
    assert_ne!(first, second);
    assert_eq!(make(&one), first);
    assert_eq!(make(&two), second);
    env.record_in(&one, &["--key", "k"], HELLO).success();
    env.run_in(&one, &["new"]).success();
    assert_eq!(meant(&env, &one), first, "a session in which nothing happened is passed over");
}

#[test]
fn children_of_a_run_record_in_the_same_project() {
    let env = TestEnvironment::bare();
    let dir = repository(&env, "git");
    let child = env.path("child.sh");
    let line = message("from the child");
    fs::write(&child, format!("echo '{line}' | {ABIDE} record --new\n")).unwrap();
    env.run_in(&dir, &["run", "--", "sh", child.to_str().unwrap()]).success();
    env.run_in(&env.path("home"), &["new"]).success();
    let found = listed(&env, &dir, &["--search", "\"from the child\""]);
    assert_eq!(found.len(), 1);
    assert_eq!(listed(&env, &dir, &[]).len(), 2);
    assert!(!dir.join(".abide").exists());
}

#[test]
fn the_store_is_where_store_path_says() {
    let env = TestEnvironment::bare();
    let dir = repository(&env, "git");
    let said = |dir: &Path, args: &[&str]| {
        let done = env.run_in(dir, &[&["store", "path"], args].concat()).success();
        PathBuf::from(done.stdout().trim_end())
    };
    assert_eq!(said(&dir, &[]), env.store());
    assert!(!env.store().exists(), "looking makes nothing");
    let session = recorded(&env, &dir, "hello");
    let at = said(&dir, &[&session]);
    assert!(at.starts_with(env.store()) && at.is_dir(), "{}", at.display());
    env.run_in(&dir, &["init"]).success();
    assert_eq!(said(&dir, &[]), dir.join(".abide"));
    // Settings name another directory: that one is the person's then.
    let settings = env.path("home/.config/abide");
    fs::create_dir_all(&settings).unwrap();
    let chosen = env.path("chosen");
    fs::write(settings.join("config.toml"), format!("store = {chosen:?}\n")).unwrap();
    let other = env.path("other");
    fs::create_dir(&other).unwrap();
    assert_eq!(said(&other, &[]), chosen);
    recorded(&env, &other, "hello");
    assert!(chosen.join("config.toml").is_file());
    assert_eq!(listed(&env, &other, &[]).len(), 1);
    let mut by_variable = env.command_in(&other, &["store", "path"]);
    by_variable.env("XDG_DATA_HOME", env.path("data"));
    fs::remove_file(settings.join("config.toml")).unwrap();
    let done = run(by_variable, b"").success();
    assert_eq!(done.stdout().trim_end(), env.path("data/abide/store").to_str().unwrap());
}

#[test]
fn a_home_that_is_a_link_is_the_same_home() {
    let env = TestEnvironment::bare();
    let dir = repository(&env, "git");
    let session = recorded(&env, &dir, "hello");
    symlink(env.path("home"), env.path("link")).unwrap();
    let by_link = |args: &[&str]| {
        let mut command = env.command_in(&dir, args);
        command.env("HOME", env.path("link"));
        run(command, format!("{HELLO}\n").as_bytes()).success()
    };
    let rows: Value = serde_json::from_str(by_link(&["history", "--json"]).stdout()).unwrap();
    assert_eq!(rows[0]["id"], session.as_str());
    by_link(&["record", "-s", &session]);
    let mut named = env.command_in(&dir, &["history", "--json"]);
    named.env("ABIDE_STORE", env.path("link/.local/share/abide/store"));
    recorded(&env, &env.path("home"), "of another project");
    let rows: Value = serde_json::from_str(run(named, b"").success().stdout()).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1, "it is the person's, by whatever path");
}

#[test]
fn without_a_home_the_passwd_entry_tells_it() {
    let env = TestEnvironment::bare();
    // Only looked at: it is this machine's own.
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let user = rustix::process::geteuid().as_raw().to_string();
    let line = passwd.lines().find(|line| line.split(':').nth(2) == Some(&user));
    let home = line.and_then(|line| line.split(':').nth(5));
    for value in [None, Some(""), Some("relative")] {
        let mut command = env.command(&["store", "path"]);
        match value {
            None => command.env_remove("HOME"),
            Some(value) => command.env("HOME", value),
        };
        let done = run(command, b"");
        match home {
            Some(home) => {
                let expected = format!("{home}/.local/share/abide/store\n");
                assert_eq!(done.success().stdout(), expected, "{value:?}");
            }
            None => assert!(done.failure(1).stderr.contains("--store"), "{value:?}"),
        }
    }
}

#[test]
fn a_home_that_cannot_be_written_is_told_and_another_place_works() {
    let env = TestEnvironment::bare();
    let dir = repository(&env, "git");
    // Nobody makes a directory there, root included.
    let at = |args: &[&str]| {
        let mut command = env.command_in(&dir, args);
        command.env("HOME", "/sys");
        run(command, format!("{HELLO}\n").as_bytes())
    };
    let refused = at(&["record"]).failure(1);
    assert!(refused.stderr.contains("cannot create /sys/.local"), "{refused:?}");
    assert!(refused.stderr.contains("--store DIR"), "{refused:?}");
    let nothing = at(&["history"]).failure(1);
    assert!(nothing.stderr.starts_with("Error: nothing is recorded yet"), "{nothing:?}");
    at(&["init", "--store", "../there"]).success();
    at(&["record", "--store", "../there"]).success();
    at(&["init"]).success();
    at(&["record"]).success();
    at(&["history"]).success();
    assert!(dir.join(".abide/sessions").is_dir());
}

#[test]
fn nothing_recorded_yet_says_what_to_do() {
    let env = TestEnvironment::bare();
    let _filters = env.filters();
    for command in ["tail", "export", "doctor", "history"] {
        let done = env.run(&[command]).failure(1);
        insta::allow_duplicates! {
            insta::assert_snapshot!(done.stderr, @r"
            Error: nothing is recorded yet: there is no store in [TEMP]/home/.local/share/abide/store
            Hint: `abide run AGENT`, `abide record` and `abide save` create it; `abide init` creates one for this project alone, `--store DIR` names another
            ");
        }
    }
    assert_eq!(fs::read_dir(env.path("home")).unwrap().count(), 0);
}

#[test]
fn a_container_without_a_volume_is_warned_about_once() {
    let env = TestEnvironment::bare();
    let record = |container: Option<&str>| {
        let mut command = env.command(&["record"]);
        command.envs(container.map(|name| ("container", name)));
        run(command, format!("{HELLO}\n").as_bytes()).success()
    };
    let same_disk = {
        use std::os::unix::fs::MetadataExt;
        let disk = |path: &Path| fs::metadata(path).unwrap().dev();
        disk(&env.path("home")) == disk(Path::new("/"))
    };
    let proxy = || {
        let mut command = env.command(&["acp", "--", "true"]);
        command.env("container", "podman");
        run(command, b"").stderr
    };
    let before = proxy();
    assert_eq!(before.contains("`abide init`"), same_disk, "{before}");
    assert!(!env.store().exists(), "nothing was recorded yet");
    let first = record(Some("podman"));
    assert_eq!(first.stderr.contains("`abide init`"), same_disk, "{first:?}");
    assert!(!record(Some("podman")).stderr.contains("container"), "once");
    assert!(!proxy().contains("container"), "once");
}

#[test]
fn a_checkpoint_of_a_directory_above_the_store_leaves_it_out() {
    let env = TestEnvironment::bare();
    let above = env.path("home/.local/share");
    fs::create_dir_all(&above).unwrap();
    fs::write(above.join("notes.txt"), "one\n").unwrap();
    recorded(&env, &above, "hello");
    // Whatever the store says of itself to git.
    fs::write(env.store().join(".gitignore"), "").unwrap();
    let made = env.run_in(&above, &["checkpoint", "create", "--json"]).success();
    assert_eq!(made.json_lines()[0]["workspace"]["files"], 1, "{made:?}");
    fs::write(above.join("notes.txt"), "two\n").unwrap();
    let session = recorded(&env, &env.project(), "meanwhile");
    env.run_in(&above, &["rewind", "--to", "1", "--yes"]).success();
    assert_eq!(fs::read_to_string(above.join("notes.txt")).unwrap(), "one\n");
    env.run_in(&above, &["show", &session]).success();
    env.run_in(&above, &["doctor", "--all"]).success();
}

#[test]
fn a_recording_starts_no_git_when_it_is_known_what_project_it_is() {
    if skipped() {
        return;
    }
    let env = TestEnvironment::bare();
    let dir = repository(&env, "git");
    env.git(&dir, &["worktree", "add", "-q", "../linked"]);
    let log = env.path("strace");
    let started = |dir: &Path| {
        let mut command = env.isolate(Command::new("strace"));
        command.args(["-f", "-e", "trace=execve", "-o"]).arg(&log).arg(ABIDE).arg("record");
        command.current_dir(dir);
        run(command, format!("{HELLO}\n").as_bytes()).success();
        let log = fs::read_to_string(&log).unwrap();
        log.lines().filter(|line| line.contains("execve(") && line.contains("git\"")).count()
    };
    assert!(started(&dir) > 0, "git is asked once");
    assert_eq!(started(&dir), 0);
    assert_eq!(started(&env.path("linked")), 0, "of all worktrees");
    env.git(&dir, &["commit", "-q", "--allow-empty", "-m", "more"]);
    assert_eq!(started(&dir), 0, "commits change nothing");
    env.git(&dir, &["remote", "add", "origin", "https://example.org/a/b"]);
    assert!(started(&dir) > 0, "a remote does");
    assert_eq!(started(&dir), 0);
    assert_eq!(listed(&env, &dir, &[]).len(), 6, "all of them are of the project");
    // In one that git does not know at all, it is never asked.
    let plain = env.path("plain");
    fs::create_dir(&plain).unwrap();
    assert_eq!(started(&plain), 0);
}

#[test]
fn a_first_recording_that_a_fault_comes_upon_is_made_good_by_the_next() {
    if skipped() {
        return;
    }
    use crate::fault::{Call, Fault};
    for (name, count) in
        [("mkdir", 8), ("fsync", 6), ("fdatasync", 3), ("openat", 60), ("rename", 2)]
    {
        for at in 1..=count {
            if at > 3 && at % 3 != 0 {
                continue;
            }
            let env = TestEnvironment::bare();
            let call = Call { name: name.to_owned(), at };
            let fault = Fault::Error { call, errno: "EIO", for_good: false };
            let log = env.path("strace");
            let mut command = env.isolate(Command::new("timeout"));
            command.arg("60").args(fault.way(&log)).arg(ABIDE).arg("record");
            let done = run(command, format!("{HELLO}\n").as_bytes());
            assert_ne!(done.code, 124, "{name} {at} hangs");
            let acknowledged =
                done.stdout().lines().filter(|line| line.contains("\"seq\"")).count();
            let again = env.record(&["--new"], &[HELLO]);
            assert_eq!(again.code, 0, "{name} {at}: {done:?} {again:?}");
            let found = listed(&env, &env.project(), &[]).len();
            assert!(
                found > acknowledged,
                "{name} {at}: {acknowledged} acknowledged, {found} there"
            );
            env.run(&["doctor", "--all"]).success();
        }
    }
}

/// What reads means all sessions in a directory in which nothing was recorded; what writes means none.
#[test]
fn no_command_writes_to_other_projects_unless_it_is_told_to() {
    let env = TestEnvironment::bare();
    let project = env.path("one");
    fs::create_dir(&project).unwrap();
    let session = recorded(&env, &project, "a secret word");
    let outside = env.path("outside");
    fs::create_dir(&outside).unwrap();
    let shown = |what: &str| {
        let said = env.run_in(&project, &["export", &session]).success().stdout().to_owned();
        assert!(said.contains("a secret word"), "{what}: {said}");
        said
    };
    let before = shown("before");
    assert!(env.run_in(&outside, &["history"]).success().stdout().contains("one"));
    for args in [
        &["erase", "@2", "--yes"][..],
        &["erase", "--match", "secret", "--all", "--yes"],
        &["cleanup", "--keep", "0", "--yes"],
        &["compact"],
        &["tasks", "add", "more"],
        &["fork"],
    ] {
        let done = env.run_in(&outside, args);
        assert!(done.code != 0, "{args:?}: {done:?}");
        assert!(done.stderr.contains("nothing was recorded in"), "{args:?}: {done:?}");
        assert!(done.stderr.contains("--all-projects"), "{args:?}: {done:?}");
        assert_eq!(shown(&args.join(" ")), before, "{args:?}");
    }
    let all = ["erase", "--match", "secret", "--all", "--yes", "--all-projects"];
    env.run_in(&outside, &all).success();
    let said = env.run_in(&project, &["export", &session]).success().stdout().to_owned();
    assert!(!said.contains("a secret word"), "{said}");
}
