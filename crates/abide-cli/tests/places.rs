//! Where the store is: `init`, `--store`, and stores that are not there or not ours.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::environment::{ABIDE, Done, HELLO, TestEnvironment, files, run};

#[test]
fn init_makes_a_store_once() {
    let env = TestEnvironment::bare();
    let _filters = env.filters();
    insta::assert_snapshot!(env.run(&["init"]).success().stdout(), @"Made a store in [TEMP]/project/.abide");
    let before = files(&env.project());
    insta::assert_snapshot!(env.run(&["init"]).success().stdout(), @"The store is in [TEMP]/project/.abide");
    assert_eq!(files(&env.project()), before);
    // From below, the same store.
    fs::create_dir(env.project().join("sub")).unwrap();
    insta::assert_snapshot!(env.run(&["init", "sub"]).success().stdout(), @"The store is in [TEMP]/project/.abide");
    env.run(&["init", "nowhere"]).failure(1);
}

#[test]
fn init_goes_to_the_root_of_a_git_checkout() {
    let env = TestEnvironment::bare();
    fs::create_dir_all(env.project().join(".git")).unwrap();
    fs::create_dir_all(env.project().join("a/b")).unwrap();
    env.run(&["init", "a/b"]).success();
    assert!(env.project().join(".abide/config.toml").exists());
}

#[test]
fn a_store_under_the_home_that_a_project_points_to_is_used() {
    // As `abide init --user` of earlier versions made it.
    let env = TestEnvironment::bare();
    let store = env.path("home/.local/share/abide/project-01234567");
    fs::create_dir_all(store.parent().unwrap()).unwrap();
    fs::write(env.project().join(".abide"), format!("{}\n", store.display())).unwrap();
    let asked = env.record(&[], &[HELLO]).failure(1);
    assert!(asked.stderr.contains("which you have not accepted"), "{asked:?}");
    env.run(&["init", "--store", store.to_str().unwrap()]).success();
    env.record(&[], &[HELLO]).success();
    assert_eq!(fs::read_dir(store.join("sessions")).unwrap().count(), 2, "it and the shield");
    let said = env.run(&["store", "path"]).success();
    assert_eq!(said.stdout().trim_end(), store.to_str().unwrap());
    assert!(!env.store().exists());
    let gone = env.run(&["init", "--user"]).failure(2);
    assert!(gone.stderr.contains("--user"), "{gone:?}");
}

#[test]
fn a_store_is_named_by_option_or_variable() {
    let env = TestEnvironment::bare();
    let store = env.path("elsewhere");
    let store = store.to_str().unwrap();
    env.run(&["init", "--store", store]).success();
    env.record(&["--store", store], &[HELLO]).success();
    assert!(!env.project().join(".abide").exists());
    assert!(env.path("elsewhere/sessions").is_dir());
    env.run(&["export", "--store", store]).success();
    let mut command = env.command(&["export"]);
    command.env("ABIDE_STORE", store);
    run(command, b"").success();
    // A project that has one.
    env.run(&["init"]).success();
    let home = env.path("home");
    let mut command = env.command(&["doctor", "--store", "../project"]);
    command.current_dir(home);
    run(command, b"").success();
    env.run(&["tail", "--store", "../home"]).failure(1);
}

#[test]
fn no_session_says_what_there_is() {
    let env = TestEnvironment::new();
    env.run(&["init"]).success();
    let _filters = env.filters();
    insta::assert_snapshot!(env.run(&["tail"]).failure(1).stderr, @r"
    Error: there is no session yet in [TEMP]/project/.abide
    Hint: `abide run AGENT` and `abide save` create one, and so do `abide new` and `abide record`
    ");
    let made = env.run(&["new", "--json"]).success();
    let short = made.json_lines()[0]["short"].as_str().unwrap().to_owned();
    let unknown = env.run(&["tail", "zzzzzz"]).failure(1);
    let place = env.project().join(".abide");
    let said = format!(
        "Error: there is no session zzzzzz\nHint: the newest sessions in {} are: {short}\n",
        place.display()
    );
    assert_eq!(unknown.stderr, said);
}

#[test]
fn a_store_of_a_newer_version_is_not_touched() {
    let env = TestEnvironment::new();
    env.record(&[], &[HELLO]).success();
    let config = env.project().join(".abide/config.toml");
    fs::write(&config, "version = 99\n[future]\nx = 1\n").unwrap();
    let before = files(&env.project());
    let _filters = env.filters();
    insta::assert_snapshot!(env.record(&[], &[HELLO]).failure(1).stderr, @r"
    Error: [TEMP]/project/.abide/config.toml is of version 99; this program knows 1
    Hint: update abide; nothing was changed
    ");
    for command in ["tail", "export", "doctor", "init", "new"] {
        env.run(&[command]).failure(1);
    }
    assert_eq!(files(&env.project()), before);
}

#[test]
fn a_new_session_is_what_was_asked_for() {
    let env = TestEnvironment::new();
    let id = env
        .run(&[
            "new",
            "--title",
            "T",
            "--agent",
            "A",
            "--model",
            "M",
            "--workspace",
            "sub",
            "--label",
            "a=b",
            "--label",
            "c=",
            "--key",
            "k",
        ])
        .success();
    let id = id.stdout().trim();
    assert_eq!(id.len(), 36);
    assert_eq!(env.run(&["new", "--key", "k"]).success().stdout().trim(), id);
    let json = &env.run(&["new", "--key", "k", "--json"]).success().json_lines()[0];
    assert_eq!(json["session"], id);
    let _filters = env.filters();
    let exported = env.run(&["export", json["short"].as_str().unwrap()]).success();
    insta::assert_snapshot!(exported.stdout(), @r#"{"seq":1,"at":"[TIME]","kind":"session.created","data":{"session":"[SESSION]","title":"T","workspace":"[TEMP]/project/sub","agent":"A","model":"M","labels":{"a":"b","c":""},"key":"k"}}"#);
    env.run(&["new", "--label", "nothing"]).failure(2);
}

#[test]
fn a_store_that_is_named_is_made_by_nothing_but_init() {
    let env = TestEnvironment::new();
    env.record(&[], &[HELLO]).success();
    env.run(&["export", "--format", "bundle", "-o", "s.abide"]).success();
    fs::write(env.project().join("plan.md"), "# Plan\n\n- [ ] one\n").unwrap();
    let typo = env.path("typo");
    let typo = typo.to_str().unwrap();
    let commands: [&[&str]; 12] = [
        &["record"],
        &["new"],
        &["run", "--", "true"],
        &["run", "--plan", "plan.md", "--dry-run", "--", "true"],
        &["import", "s.abide"],
        &["import", "--dry-run", "s.abide"],
        &["tasks", "import", "plan.md"],
        &["copy", "--from", ".", "--all"],
        &["acp", "--", "true"],
        &["history"],
        &["doctor"],
        &["status"],
    ];
    let said = format!(
        "Error: there is no store in {typo}\n\
         Hint: `abide init --store {typo}` makes one; no other command does\n"
    );
    for args in commands {
        let mut command = env.command(args);
        command.env("ABIDE_STORE", typo);
        let by_variable = run(command, HELLO.as_bytes()).failure(1);
        let args = [&["--store", typo], args].concat();
        let by_option = run(env.command(&args), HELLO.as_bytes()).failure(1);
        for done in [by_variable, by_option] {
            assert!(done.stderr.ends_with(&said), "{args:?}: {done:?}");
        }
        assert!(!Path::new(typo).exists(), "{args:?}");
    }
    env.run(&["init", "--store", typo]).success();
    env.record(&["--store", typo], &[HELLO]).success();
    // Whoever says where to copy to says that there is to be a store.
    env.run(&["copy", "--to", "../copied", "--all", "--dry-run"]).success();
    assert!(!env.path("copied").exists());
    env.run(&["copy", "--to", "../copied", "--all"]).success();
    assert!(env.path("copied/sessions").is_dir());
}

/// Runs a command that must not wait for anything.
fn at_once(env: &TestEnvironment, args: &[&str]) -> Done {
    let mut command = env.isolate(Command::new("timeout"));
    command.args(["60", ABIDE]).args(args);
    run(command, HELLO.as_bytes())
}

#[test]
fn a_pipe_in_the_place_of_a_store_is_an_error_and_not_waited_for() {
    let env = TestEnvironment::bare();
    let pipe = |path: &str| {
        let made = Command::new("mkfifo").arg(env.project().join(path)).status().unwrap();
        assert!(made.success());
    };
    pipe(".abide");
    let _filters = env.filters();
    for args in [&["history"][..], &["record"], &["init"], &["run", "--", "true"]] {
        let done = at_once(&env, args).failure(1);
        insta::allow_duplicates! {
            insta::assert_snapshot!(done.stderr, @r"
            Error: [TEMP]/project/.abide is not a store: neither a directory nor a file
            Hint: move it away; `--store DIR` names a store elsewhere, and `abide init` makes one
            ");
        }
    }
    at_once(&env, &["init", "--store", "postgres://me@127.0.0.1:1/db"]).failure(1);
    fs::remove_file(env.project().join(".abide")).unwrap();
    // Nor what git says where a worktree belongs, nor what is in a store.
    pipe(".git");
    at_once(&env, &["record"]).success();
    fs::remove_file(env.project().join(".git")).unwrap();
    env.run(&["init"]).success();
    let config = env.project().join(".abide/config.toml");
    fs::remove_file(config).unwrap();
    pipe(".abide/config.toml");
    for args in [&["history"][..], &["record"], &["doctor"]] {
        assert_ne!(at_once(&env, args).code, 124, "{args:?}");
    }
}

#[test]
fn a_store_of_another_user_is_refused_unless_it_is_named_or_listed() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root gives files to another user");
    }
    let env = TestEnvironment::new();
    env.record(&[], &[HELLO]).success();
    fs::create_dir(env.project().join("below")).unwrap();
    let store = env.project().join(".abide");
    chown(&store, Some(54_321), None).unwrap();
    let _filters = env.filters();
    let below = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = env.command(args);
        command.current_dir(env.project().join("below")).envs(variables.iter().copied());
        run(command, HELLO.as_bytes())
    };
    for args in [&["history"][..], &["record"], &["resume"], &["init"], &["run", "--", "true"]] {
        let done = below(args, &[]).failure(1);
        insta::allow_duplicates! {
            insta::assert_snapshot!(done.stderr, @r#"
            Error: [TEMP]/project/.abide belongs to another user (uid 54321)
            Hint: if you trust it, name it with `--store`, or list "[TEMP]/project/.abide" under `trusted` in abide/config.toml among your settings; `abide init --store .` makes a store of your own here
            "#);
        }
    }
    let named = store.to_str().unwrap();
    below(&["history", "--store", named], &[]).success();
    below(&["history", "--store", ".."], &[]).success();
    below(&["history"], &[("ABIDE_STORE", named)]).success();
    below(&["history"], &[("SUDO_UID", "54321")]).success();
    below(&["history"], &[("SUDO_UID", "54322")]).failure(1);
    let settings = env.path("home/.config/abide");
    fs::create_dir_all(&settings).unwrap();
    let project = env.project();
    for listed in [&project, &store] {
        fs::write(settings.join("config.toml"), format!("trusted = [{listed:?}]\n")).unwrap();
        below(&["history"], &[]).success();
    }
    fs::write(settings.join("config.toml"), "trusted = [\"/\"]\n").unwrap();
    below(&["history"], &[]).failure(1);
    // A way out.
    below(&["init", "--store", "."], &[]).success();
    below(&["history"], &[]).success();
}

#[test]
fn a_store_that_others_may_write_is_refused() {
    let env = TestEnvironment::new();
    env.record(&[], &[HELLO]).success();
    let store = env.project().join(".abide");
    let set = |mode| fs::set_permissions(&store, fs::Permissions::from_mode(mode)).unwrap();
    set(0o1777);
    let refused = env.run(&["history"]).failure(1);
    assert!(refused.stderr.contains("can be written by other users (mode 1777)"), "{refused:?}");
    env.run(&["history", "--store", "."]).success();
    set(0o755);
    env.run(&["history"]).success();
}

/// Takes away what a test should not have made.
struct NotAtTheRoot;

impl Drop for NotAtTheRoot {
    fn drop(&mut self) {
        let _ = fs::remove_file("/.abide");
        let _ = fs::remove_dir_all("/.abide");
    }
}

#[test]
fn no_store_is_made_at_the_root_of_the_file_system() {
    if ["/.abide", "/.git"].iter().any(|path| fs::symlink_metadata(path).is_ok()) {
        return println!("skipped: the root of this machine is a project");
    }
    let env = TestEnvironment::bare();
    let _clean = NotAtTheRoot;
    let url = "postgres://me@127.0.0.1:1/db";
    let commands: [&[&str]; 4] = [
        &["init", "/"],
        &["init", "--store", "/"],
        &["init", "--store", "/.abide"],
        &["init", "--store", url, "/"],
    ];
    for args in commands {
        let mut command = env.command(args);
        command.current_dir("/");
        let refused = run(command, HELLO.as_bytes()).failure(1);
        assert!(
            refused.stderr.starts_with(
                "Error: a store cannot be created at the root of the file system\nHint: go to the directory"
            ),
            "{args:?}: {refused:?}"
        );
        assert!(!Path::new("/.abide").exists(), "{args:?}");
    }
    // What is recorded there goes to the person's store.
    env.record_in(Path::new("/"), &[], HELLO).success();
    assert!(env.store().is_dir() && !Path::new("/.abide").exists());
}
