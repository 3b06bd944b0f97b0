//! Shared stores, as far as no server is needed: which one is meant, what is said of it, and that
//! nobody ever sees its password.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use abide_testkit::PasswordThief;

use crate::environment::{ABIDE, Done, HELLO, TestEnvironment, files, run};

/// A store of this user, which nobody serves.
fn url(user: &str) -> String {
    format!("postgres://{user}:secret@127.0.0.1:1/db?password=secret")
}

/// The same as it is shown.
fn shown(user: &str) -> String {
    format!("postgres://{user}@127.0.0.1:1/db")
}

fn configure(env: &TestEnvironment, text: &str) {
    let dir = env.path("home/.config/abide");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), text).unwrap();
}

#[track_caller]
fn assert_keeps(done: &Done) {
    let seen = [done.stdout(), &done.stderr];
    // The hint names a section of the settings.
    let has_it = |text: &str| text.replace("[secrets]", "").contains("secret");
    assert!(!seen.iter().any(|text| has_it(text)), "{done:?}");
}

#[test]
fn the_option_comes_first_then_variable_project_and_configuration() {
    let env = TestEnvironment::without_servers();
    env.run(&["init"]).success();
    let local = env.project().join(".abide");
    let asked = |args: &[&str], variable: Option<&str>| {
        let mut command = env.command(args);
        command.envs(variable.map(|url| ("ABIDE_STORE", url)));
        let done = run(command, b"");
        assert_keeps(&done);
        format!("{}{}", done.stdout(), done.stderr)
    };
    let status = |variable: Option<&str>| asked(&["status"], variable);
    assert!(status(None).contains(&local.display().to_string()));
    configure(&env, &format!("store = \"{}\"\n", url("configuration")));
    assert!(status(None).contains(&local.display().to_string()), "a project's own comes first");
    fs::rename(&local, env.path("elsewhere")).unwrap();
    assert!(status(None).contains(&shown("configuration")), "without a store of its own");
    fs::write(&local, format!("{}\n", url("pointer"))).unwrap();
    assert!(status(None).contains(&shown("pointer")));
    fs::write(&local, "../elsewhere\n").unwrap();
    env.run(&["init", "--store", "../elsewhere"]).success();
    assert!(status(None).contains("elsewhere: 0 sessions"), "a pointer to files is one too");
    let (variable, option) = (url("variable"), url("option"));
    assert!(status(Some(&variable)).contains(&shown("variable")));
    let both = asked(&["status", "--store", &option], Some(&variable));
    assert!(both.contains(&shown("option")), "{both}");
    let files = asked(&["status", "--store", "../elsewhere"], Some(&variable));
    assert!(files.contains("elsewhere: 0 sessions"), "{files}");
}

#[test]
fn no_command_shows_a_password() {
    let env = TestEnvironment::without_servers();
    let session = "01890000-0000-7000-8000-000000000000";
    let commands: [&[&str]; 20] = [
        &["new"],
        &["record"],
        &["history"],
        &["history", "--json"],
        &["show", session],
        &["context", session],
        &["compact", session],
        &["tail", session],
        &["run", "--", "true"],
        &["resume", session],
        &["tasks"],
        &["checkpoint", "list"],
        &["rewind", "--to", "1"],
        &["undo"],
        &["export", session],
        &["fork", "-s", session],
        &["status", "--json"],
        &["doctor"],
        &["cleanup", "--dry-run"],
        &["erase", "@1"],
    ];
    // Well formed, and in every way that a password can break a URL.
    for url in [
        url("user"),
        "postgres://user:sec@secret@127.0.0.1:1/db".to_owned(),
        "postgres://user:1?secret@127.0.0.1:1/db".to_owned(),
        "postgres://user:secret/@127.0.0.1:1/db".to_owned(),
        "postgres:user:secret@127.0.0.1:1/db".to_owned(),
        "mysql://user:secret@127.0.0.1:1/db".to_owned(),
    ] {
        for args in commands {
            let mut command = env.command(args);
            command.env("ABIDE_STORE", &url);
            let done = run(command, HELLO.as_bytes());
            assert_keeps(&done);
            assert_ne!(done.code, 0, "{args:?}: {done:?}");
            assert!(done.stderr.starts_with("Error: "), "{args:?}: {done:?}");
        }
    }
    assert_eq!(files(&env.project()), [], "and no directory is made by the name of a URL");
}

#[test]
fn a_url_that_is_none_says_what_is_wrong() {
    let env = TestEnvironment::without_servers();
    let said = |url: &str| env.run(&["history", "--store", url]).failure(1).stderr;
    insta::assert_snapshot!(said("mysql://user:secret@host/db"), @r"
    Error: mysql://… is not the URL of a store
    Caused by: the URL of a shared store must start with postgres:// or postgresql://
    Hint: such as postgres://USER@HOST/DATABASE; the password can be in PGPASSWORD or ~/.pgpass
    ");
    insta::assert_snapshot!(said("postgres://user:s/cret@host/db"), @r"
    Error: postgres://… is not the URL of a store
    Caused by: @ / ? # and blanks in a user name, a password or a parameter must be written as %40 %2F %3F %23 and %20
    Hint: such as postgres://USER@HOST/DATABASE; the password can be in PGPASSWORD or ~/.pgpass
    ");
    insta::assert_snapshot!(said("postgresql://user@host:x/db"), @r"
    Error: postgresql://… is not the URL of a store
    Caused by: the port is not a number from 1 to 65535
    Hint: such as postgres://USER@HOST/DATABASE; the password can be in PGPASSWORD or ~/.pgpass
    ");
    insta::assert_snapshot!(said("postgres://user@host"), @r"
    Error: postgres://… is not the URL of a store
    Caused by: missing database name: postgres://USER@HOST/DATABASE
    Hint: such as postgres://USER@HOST/DATABASE; the password can be in PGPASSWORD or ~/.pgpass
    ");
    let acp = env.run(&["acp", "--store", "postgres://user@host", "--", "true"]).failure(1);
    assert!(acp.stderr.contains("postgres://… is not the URL of a store"), "{acp:?}");
}

#[test]
fn what_looks_after_files_says_so() {
    let env = TestEnvironment::without_servers();
    let url = url("user");
    let session = "019a0000000070008000000000";
    let done = env.run(&["store", "path", session, "--store", &url]).failure(1);
    let said = format!(
        "Error: `abide store path SESSION` works on local stores only; {} is not one\n\
         Hint: `--store DIR` names a store of files; a shared store is maintained on its server\n",
        shown("user")
    );
    assert_eq!(done.stderr, said);
}

#[test]
fn a_project_points_to_a_shared_store_without_a_password() {
    let env = TestEnvironment::without_servers();
    let made = std::process::Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(env.project())
        .status();
    assert!(made.unwrap().success());
    fs::create_dir_all(env.project().join("a/b")).unwrap();
    let pointer = env.project().join(".abide");
    let refused = env.run(&["init", "--store", &url("user")]).failure(1);
    assert_keeps(&refused);
    assert!(refused.stderr.contains("no password may be written to it\nHint: "), "{refused:?}");
    assert!(!pointer.exists());
    env.run(&["init", "--store", "postgres://user@127.0.0.1:1"]).failure(1);
    let plain = "postgres://user@127.0.0.1:1/db?sslmode=disable";
    let _filters = env.filters();
    for _ in 0..2 {
        let done = env.run(&["init", "a/b", "--store", plain]).success();
        insta::allow_duplicates! {
            insta::assert_snapshot!(done.stdout(), @"The store is postgres://user@127.0.0.1:1/db, as set in [TEMP]/project/.abide");
        }
        assert_eq!(fs::read_to_string(&pointer).unwrap(), format!("{plain}\n"));
    }
    let done = env.run(&["init"]).success();
    insta::assert_snapshot!(done.stdout(), @"The store is postgres://user@127.0.0.1:1/db");
    let done = env.run(&["history"]).failure(1);
    assert!(done.stderr.contains(&shown("user")), "{done:?}");
    // Neither another pointer nor a store of files is replaced.
    env.run(&["init", "--store", "postgres://other@127.0.0.1:1/db"]).failure(1);
    fs::remove_file(&pointer).unwrap();
    env.run(&["init"]).success();
    let there = env.run(&["init", "--store", plain]).failure(1);
    assert!(there.stderr.contains("the project already has a store in"), "{there:?}");
}

#[test]
fn a_configuration_that_is_none_is_told_by_its_line() {
    let env = TestEnvironment::without_servers();
    let _filters = env.filters();
    for text in [
        "\nstore = \"postgres://user:secret@host/db\n",
        "\nstore = [\"postgres://user:secret@host/db\"]\n",
        "\nstor = \"postgres://user:secret@host/db\"\n",
        "\ntrusted = \"/secret\"\n",
    ] {
        configure(&env, text);
        let done = env.run(&["history"]).failure(1);
        assert_keeps(&done);
        insta::allow_duplicates! {
            insta::assert_snapshot!(done.stderr, @r#"
            Error: [TEMP]/home/.config/abide/config.toml is invalid in line 2
            Hint: abide/config.toml may hold store = "postgres://USER@HOST/DATABASE" or store = "/DIR", trusted = ["/DIR"], [secrets], [run] and [agents.NAME]; a project's abide.toml may hold the last two
            "#);
        }
    }
    configure(&env, "store = \"../secret\"\n");
    let done = env.run(&["history"]).failure(1);
    assert_keeps(&done);
    assert!(
        done.stderr.contains("names a store that is neither a URL nor an absolute path"),
        "{done:?}"
    );
    configure(&env, "trusted = [\"secret\"]\n");
    let done = env.run(&["history"]).failure(1);
    assert_keeps(&done);
    assert!(done.stderr.contains("a trusted directory that is not an absolute path"), "{done:?}");
    // It is not asked where a store is named.
    env.run(&["init", "--store", "named"]).success();
    env.run(&["new", "--store", "named"]).success();
    // Where XDG_CONFIG_HOME leads elsewhere, that is read.
    let mut command = env.command(&["new"]);
    command.env("XDG_CONFIG_HOME", env.path("config"));
    run(command, b"").success();
    assert!(env.store().join("config.toml").is_file());
}

/// The same with a variable of the environment.
fn with(env: &TestEnvironment, args: &[&str], variable: (&str, &str)) -> Done {
    let mut command = env.command(args);
    command.env(variable.0, variable.1);
    run(command, HELLO.as_bytes())
}

#[test]
fn no_password_goes_to_a_server_that_only_the_project_names() {
    let env = TestEnvironment::bare();
    let thief = PasswordThief::start();
    let url = format!("postgres://me@127.0.0.1:{}/db?sslmode=disable", thief.port());
    fs::write(env.project().join(".abide"), format!("{url}\n")).unwrap();
    let password = ("PGPASSWORD", "secret");
    let commands: [&[&str]; 7] = [
        &["history"],
        &["record"],
        &["new"],
        &["run", "--", "true"],
        &["init"],
        &["store", "status"],
        &["store", "init"],
    ];
    for args in commands {
        let refused = with(&env, args, password).failure(1);
        let project = env.project().canonicalize().unwrap();
        let said = format!(
            "Error: {}/.abide names the store {url}, which you have not accepted for this directory\n\
             Hint: ",
            project.display()
        );
        assert!(refused.stderr.starts_with(&said), "{args:?}: {refused:?}");
    }
    let named = env.run(&["history", "--store", "."]).failure(1);
    assert!(named.stderr.contains("have not accepted"), "the project is named, not the server");
    assert_eq!(thief.connections(), 0);
    // Accepted for another directory, it is not for this one.
    fs::create_dir(env.path("other")).unwrap();
    env.run(&["init", "--store", &url, "../other"]).success();
    with(&env, &["history"], password).failure(1);
    assert_eq!(thief.connections(), 0);
    // Accepted for this one, it is; and once it is changed, it is not.
    env.run(&["init", "--store", &url]).success();
    with(&env, &["history"], password).failure(1);
    assert_eq!(thief.passwords(), ["secret"]);
    fs::write(env.project().join(".abide"), format!("{url}&application_name=x\n")).unwrap();
    let changed = with(&env, &["history"], password).failure(1);
    assert!(changed.stderr.contains("have not accepted"), "{changed:?}");
    assert_eq!(thief.passwords(), ["secret"]);
}

#[test]
fn no_password_goes_in_clear_over_a_network() {
    let env = TestEnvironment::bare();
    let file = env.path("pgpass");
    fs::write(&file, "*:*:*:*:secret\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let file = file.to_str().unwrap();
    for variable in [("PGPASSWORD", "secret"), ("PGPASSFILE", file)] {
        for mode in ["?sslmode=disable", "?sslmode=prefer", ""] {
            let thief = PasswordThief::start();
            // It is this machine, by an address that is not known to be.
            let url = format!("postgres://me@0.0.0.0:{}/db{mode}", thief.port());
            let refused = with(&env, &["history", "--store", &url], variable).failure(1);
            assert!(refused.stderr.contains("asks for the password in clear"), "{refused:?}");
            assert!(refused.stderr.contains("Hint: `sslmode=require`"), "{refused:?}");
            assert_keeps(&refused);
            assert_eq!(thief.passwords(), [""; 0], "{mode}");
            assert_eq!(thief.connections(), 1, "it is not tried again");
        }
    }
}

/// Runs abide on a terminal where somebody types this; `None` where there is no way to have one.
fn typed(env: &TestEnvironment, args: &str, answer: &str) -> Option<Done> {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `script` to make a terminal with");
        return None;
    }
    let mut command = env.isolate(Command::new("script"));
    command.args(["-qec", &format!("'{ABIDE}' {args}"), "/dev/null"]);
    Some(run(command, answer.as_bytes()))
}

#[test]
fn what_a_project_points_to_is_asked_about_once() {
    let env = TestEnvironment::bare();
    env.run(&["init", "--store", "../one"]).success();
    env.run(&["init", "--store", "../two"]).success();
    let pointer = env.project().join(".abide");
    fs::write(&pointer, "../one\n").unwrap();
    let refused = env.run(&["history"]).failure(1);
    assert!(refused.stderr.contains("one, which you have not accepted"), "{refused:?}");
    assert!(refused.stderr.contains("abide init --store PLACE"), "{refused:?}");
    let Some(no) = typed(&env, "history", "n\n") else { return };
    assert_eq!(no.code, 4, "{no:?}");
    env.run(&["history"]).failure(1);
    let yes = typed(&env, "history", "y\n").unwrap();
    assert_eq!(yes.code, 0, "{yes:?}");
    assert!(yes.stdout().contains("Use it? [y/N]"), "{yes:?}");
    env.run(&["history"]).success();
    // Another one is asked about again.
    fs::write(&pointer, "../two\n").unwrap();
    env.run(&["history"]).failure(1);
    env.run(&["init", "--store", "../two"]).success();
    env.run(&["history"]).success();
    // A link leads out of the project as a line does.
    fs::remove_file(&pointer).unwrap();
    fs::create_dir(env.path("three")).unwrap();
    std::os::unix::fs::symlink("../three", &pointer).unwrap();
    env.run(&["history"]).failure(1);
    // A listed project is believed about its owner, not about where it leads.
    let project = env.project().canonicalize().unwrap();
    fs::remove_file(&pointer).unwrap();
    env.run(&["init", "--store", "../four"]).success();
    fs::write(&pointer, "../four\n").unwrap();
    env.run(&["history"]).failure(1);
    configure(&env, &format!("trusted = [{project:?}]\n"));
    env.run(&["history"]).failure(1);
    let four = env.path("four").canonicalize().unwrap();
    configure(&env, &format!("trusted = [{four:?}]\n"));
    env.run(&["history"]).success();
    // Where nothing can be noted, it is used this time.
    configure(&env, "");
    let mut command = env.command(&["init", "--store", "../four"]);
    command.env("HOME", "/nonexistent");
    let told = run(command, b"").success();
    assert!(told.stderr.contains("your answer cannot be stored"), "{told:?}");
    env.run(&["history"]).failure(1);
}

#[test]
fn a_child_of_a_run_is_told_the_store_that_was_pointed_to() {
    let env = TestEnvironment::bare();
    let pointed = format!("{}\n", env.path("pointed").display());
    fs::write(env.project().join(".abide"), &pointed).unwrap();
    env.run(&["init", "--store", pointed.trim_end()]).success();
    env.run(&["run", "--", "sh", "-c", "printf '%s\\n' \"$ABIDE_STORE\" > told"]).success();
    assert_eq!(fs::read_to_string(env.project().join("told")).unwrap(), pointed);
}
