//! Where the store is: `init`, `--store`, and stores that are not there or not ours.

use std::fs;

use crate::environment::{HELLO, TestEnvironment, files, run};

#[test]
fn init_makes_a_store_once() {
    let env = TestEnvironment::new();
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
    let env = TestEnvironment::new();
    fs::create_dir_all(env.project().join(".git")).unwrap();
    fs::create_dir_all(env.project().join("a/b")).unwrap();
    env.run(&["init", "a/b"]).success();
    assert!(env.project().join(".abide/config.toml").exists());
}

#[test]
fn a_users_store_is_pointed_to() {
    let env = TestEnvironment::new();
    let made = env.run(&["init", "--user"]).success();
    let stores = env.path("home/.local/share/abide");
    let store = fs::read_dir(&stores).unwrap().next().unwrap().unwrap().path();
    assert!(made.stdout().contains(store.to_str().unwrap()), "{made:?}");
    assert!(store.file_name().unwrap().to_str().unwrap().starts_with("project-"));
    let pointer = fs::read_to_string(env.project().join(".abide")).unwrap();
    assert_eq!(pointer, format!("{}\n", store.display()));
    env.run(&["init", "--user"]).success();
    env.record(&[], &[HELLO]).success();
    assert_eq!(fs::read_dir(store.join("sessions")).unwrap().count(), 2, "it and the shield");
    // A clone of the project elsewhere has one of its own; XDG_DATA_HOME is kept to.
    let mut command = env.command(&["init", "--user", "../home"]);
    command.env("XDG_DATA_HOME", env.path("data"));
    assert_eq!(run(command, b"").success().code, 0);
    assert_eq!(fs::read_dir(env.path("data/abide")).unwrap().count(), 1);
    let both = env.run(&["init", "--user", "--store", "x"]).failure(2);
    assert!(both.stderr.starts_with("Error: --user"), "{both:?}");
}

#[test]
fn init_user_does_not_hide_a_store_of_the_project() {
    let env = TestEnvironment::new();
    env.run(&["init"]).success();
    let refused = env.run(&["init", "--user"]).failure(1);
    assert!(refused.stderr.contains("already\nHint: "), "{refused:?}");
}

#[test]
fn a_store_is_named_by_option_or_variable() {
    let env = TestEnvironment::new();
    let store = env.path("elsewhere");
    let store = store.to_str().unwrap();
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
fn no_store_says_what_to_do() {
    let env = TestEnvironment::new();
    let _filters = env.filters();
    for command in ["tail", "export", "doctor"] {
        let done = env.run(&[command]).failure(1);
        insta::allow_duplicates! {
            insta::assert_snapshot!(done.stderr, @r"
            Error: there is no abide store in [TEMP]/project or above it
            Hint: `abide init` makes a store here, and so does the first `abide record`; `--store DIR` names one elsewhere
            ");
        }
    }
    assert!(!env.project().join(".abide").exists());
}

#[test]
fn no_session_says_what_there_is() {
    let env = TestEnvironment::new();
    env.run(&["init"]).success();
    let _filters = env.filters();
    insta::assert_snapshot!(env.run(&["tail"]).failure(1).stderr, @r"
    Error: there is no session yet in [TEMP]/project/.abide
    Hint: `abide new` makes one, and so does `abide record`
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
