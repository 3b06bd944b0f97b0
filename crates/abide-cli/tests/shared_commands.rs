//! `abide store` on a server of its own: made, looked at, brought up to date, and what is said where
//! that cannot be.

use abide_testkit::{PostgresServer, PrivatePostgres};

use crate::environment::{Done, HELLO, TestEnvironment, run};

/// A database of its own for a test, by its URL; none where there is no PostgreSQL, which is said.
pub(crate) fn database() -> Option<(&'static PostgresServer, String)> {
    let server = PrivatePostgres::shared()?;
    Some((server, server.create_database()))
}

/// The name of the database that a URL leads to.
fn name(url: &str) -> &str {
    url.rsplit('/').next().unwrap().split('?').next().unwrap()
}

fn store(env: &TestEnvironment, url: &str, args: &[&str]) -> Done {
    let mut command = env.command(&[&["store"], args].concat());
    command.env("ABIDE_STORE", url);
    run(command, b"")
}

#[test]
fn a_shared_store_is_made_once_and_says_how_it_is() {
    let Some((server, url)) = database() else { return };
    let env = TestEnvironment::bare();
    let none = store(&env, &url, &["status"]).success();
    assert!(none.stdout().contains("version   no store yet: `abide store init` makes one"));
    let missing = store(&env, &url, &["migrate"]).failure(1);
    assert_eq!(
        missing.stderr,
        format!("Error: there is no store in {url} yet\nHint: `abide store init` makes one\n")
    );
    let mut record = env.command(&["record"]);
    record.env("ABIDE_STORE", &url);
    assert_eq!(run(record, HELLO.as_bytes()).failure(1).stderr, missing.stderr);

    let made = store(&env, &url, &["init"]).success();
    let version = abide_version(&store(&env, &url, &["status", "--json"]).success());
    assert_eq!(
        made.stdout(),
        format!("Made a store in {url}: version {version}, objects in the database\n")
    );
    let again = store(&env, &url, &["init"]).success();
    assert_eq!(
        again.stdout(),
        format!("The store is {url}: version {version}, objects in the database\n")
    );
    let nothing = store(&env, &url, &["migrate"]).success();
    assert_eq!(nothing.stdout(), format!("Nothing to do: {url} is of version {version}\n"));

    let mut record = env.command(&["record"]);
    record.env("ABIDE_STORE", &url);
    run(record, HELLO.as_bytes()).success();
    let found = &store(&env, &url, &["status", "--json"]).success().json_lines()[0];
    assert_eq!((found["sessions"].as_u64(), found["held"].as_u64()), (Some(1), Some(0)));
    assert_eq!((found["fits"].as_str(), found["objects"].is_null()), (Some("current"), true));
    assert!(found["bytes"].as_u64().unwrap() > 0);
    let shown = store(&env, &url, &["status"]).success();
    assert!(shown.stdout().starts_with(&format!("store     {url}\nserver    PostgreSQL ")));
    assert!(shown.stdout().contains("sessions  1, 0 held\n"), "{shown:?}");
    // Objects stay where they are.
    let placed = "INSERT INTO abide.setting (name, value) VALUES ('objects', 's3://bucket/prefix')";
    server.sql(name(&url), placed);
    let elsewhere = store(&env, &url, &["init", "--objects", "file:///elsewhere"]).failure(1);
    let said =
        format!("Error: the objects of {url} are already in s3://bucket/prefix\nHint: nothing");
    assert!(elsewhere.stderr.starts_with(&said), "{elsewhere:?}");
    let found = store(&env, &url, &["status"]).success();
    assert!(found.stdout().ends_with("objects   in s3://bucket/prefix\n"), "{found:?}");
    #[cfg(not(feature = "s3"))]
    {
        let mut history = env.command(&["history"]);
        history.env("ABIDE_STORE", &url);
        assert_eq!(run(history, b"").failure(1).stderr, WITHOUT_S3);
    }
}

#[cfg(not(feature = "s3"))]
const WITHOUT_S3: &str = "\
Error: cannot reach s3://bucket/prefix: this build of abide has no S3 support
Hint: build abide with it: `cargo install --path crates/abide-cli --features s3`
";

#[cfg(not(feature = "s3"))]
#[test]
fn a_build_without_s3_says_so_before_it_makes_anything() {
    let env = TestEnvironment::bare();
    // Nobody listens there: no server was asked.
    let nowhere = "postgres://me@127.0.0.1:1/team";
    let refused = store(&env, nowhere, &["init", "--objects", "s3://bucket/prefix"]).failure(1);
    assert_eq!(refused.stderr, WITHOUT_S3);
}

fn abide_version(done: &Done) -> u64 {
    done.json_lines()[0]["version"].as_u64().unwrap()
}

#[test]
fn tables_of_another_version_are_told_apart_and_not_touched() {
    let Some((server, url)) = database() else { return };
    let database = name(&url);
    let env = TestEnvironment::bare();
    store(&env, &url, &["init"]).success();
    let known = abide_version(&store(&env, &url, &["status", "--json"]).success());
    let history = || {
        let mut command = env.command(&["history"]);
        command.env("ABIDE_STORE", &url);
        run(command, b"")
    };
    server.sql(database, "INSERT INTO abide.migration (version, name) VALUES (99, 'tomorrow')");
    let newer = history().failure(1);
    assert_eq!(
        newer.stderr,
        format!(
            "Error: {url} is of version 99; this program knows {known}\n\
             Hint: update abide; nothing was changed\n"
        )
    );
    store(&env, &url, &["migrate"]).failure(1);
    let found = &store(&env, &url, &["status", "--json"]).success().json_lines()[0];
    assert_eq!((found["version"].as_u64(), found["fits"].as_str()), (Some(99), Some("newer")));

    server.sql(database, "DELETE FROM abide.migration");
    let older = history().failure(1);
    assert_eq!(
        older.stderr,
        format!(
            "Error: {url} is of version 0; this program works with {known}\n\
             Hint: `abide store migrate` updates it; older versions of abide cannot use it afterwards\n"
        )
    );
    let found = store(&env, &url, &["status"]).success();
    assert!(found.stdout().contains("`abide store migrate` updates it"), "{found:?}");
}

#[test]
fn a_server_that_cannot_be_used_is_named_with_the_cause_and_what_to_do() {
    let Some((server, url)) = database() else { return };
    let database = name(&url);
    let env = TestEnvironment::bare();
    let told = |url: &str, cause: &str, hint: &str| {
        let done = store(&env, url, &["status"]).failure(1);
        let lines: Vec<_> = done.stderr.lines().collect();
        assert_eq!(lines.len(), 3, "{done:?}");
        assert!(lines[0].starts_with("Error: cannot ") && lines[0].contains("postgres://"));
        assert!(lines[1].starts_with("Caused by: ") && lines[1].contains(cause), "{done:?}");
        assert!(lines[2].starts_with("Hint: ") && lines[2].contains(hint), "{done:?}");
        assert!(!done.stderr.contains("secret"), "{done:?}");
    };
    for (host, cause) in [("127.0.0.1:1", "Connection refused"), ("nowhere.invalid", "")] {
        let url = format!("postgres://me:secret@{host}/db?connect_timeout=0.05");
        told(&url, cause, "check that the server runs");
    }
    told(&server.url("nothing"), "database \"nothing\" does not exist", "`createdb`");

    let role = format!("role_{database}");
    server.sql(database, &format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'"));
    let theirs = url.replace("postgres@", &format!("{role}:secret@"));
    let refused = store(&env, &theirs, &["init"]).failure(1);
    assert!(refused.stderr.contains("permission denied"), "{refused:?}");
    assert!(refused.stderr.contains("\nHint: ask the owner of the database"), "{refused:?}");
    server.sql(database, &format!("ALTER ROLE {role} NOLOGIN"));
    told(&theirs, "is not permitted to log in", "user and password can be in the URL");
}

#[test]
fn a_store_of_files_is_looked_at_the_same_way() {
    let env = TestEnvironment::bare();
    let _filters = env.filters();
    for args in [&["store", "init"][..], &["store", "init", "--objects", "s3://bucket"]] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(env.run(args).failure(1).stderr, @r"
            Error: no URL given for the shared store
            Hint: `abide --store postgres://USER@HOST/DATABASE store init` names one; `abide init` makes a store of files
            ");
        }
    }
    assert!(!env.project().join(".abide").exists());
    env.run(&["new"]).success();
    env.run(&["store", "init"]).failure(1);
    env.run(&["--store", ".", "store", "init"]).failure(1);
    let found = &env.run(&["store", "status", "--json"]).success().json_lines()[0];
    assert_eq!((found["kind"].as_str(), found["sessions"].as_u64()), (Some("files"), Some(1)));
    let shown = env.run(&["store", "status"]).success();
    assert!(shown.stdout().contains("\nversion   1\nsessions  1\nspace     "), "{shown:?}");
    insta::assert_snapshot!(env.run(&["store", "migrate"]).success().stdout(), @"Nothing to do: [TEMP]/home/.local/share/abide/store is a store of files");
    env.run(&["--store", "nowhere", "store", "status"]).failure(1);
}

#[test]
fn objects_are_where_the_store_says() {
    let Some((server, url)) = database() else { return };
    let env = TestEnvironment::bare();
    let place = env.path("objects");
    std::fs::create_dir(&place).unwrap();
    let place = format!("file://{}", place.display());
    let made = store(&env, &url, &["init", "--objects", &place]).success();
    assert!(made.stdout().contains(&place), "{made:?}");
    let long = "a long text ".repeat(10_000);
    let event =
        format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{long}"}}}}"#);
    let with = |args: &[&str]| {
        let mut command = env.command(args);
        command.env("ABIDE_STORE", &url);
        command
    };
    run(with(&["record"]), format!("{event}\n").as_bytes()).success();
    assert_eq!(server.sql(name(&url), "SELECT count(*) FROM abide.object").trim(), "0");
    let shown = run(with(&["export"]), b"").success();
    assert!(shown.stdout().contains(&long));
    // What is damaged there is told, and what is cached here is not counted on.
    for entry in walk(&env.path("objects")) {
        std::fs::write(entry, "nothing").unwrap();
    }
    let _ = std::fs::remove_dir_all(env.path("home/.cache"));
    let shown = run(with(&["export"]), b"");
    assert!(
        !shown.stdout().contains(&long) && shown.stderr.contains("missing or damaged"),
        "{shown:?}"
    );
}

#[test]
fn a_directory_of_this_machine_that_a_store_names_for_its_objects_must_be_accepted() {
    let Some((_, url)) = database() else { return };
    let [setting_up, env] = [TestEnvironment::bare(), TestEnvironment::new()];
    let dir = env.path("objects");
    let place = format!("file://{}", dir.display());
    store(&setting_up, &url, &["init", "--objects", &place]).success();
    let history = |env: &TestEnvironment| {
        let mut command = env.command(&["history"]);
        command.env("ABIDE_STORE", &url);
        run(command, b"")
    };
    history(&setting_up).success();
    let refused = history(&env).failure(1);
    let said = format!(
        "Error: {url} keeps its objects in {}, a directory of this machine, which you have not accepted\n\
         Hint: ",
        dir.display()
    );
    assert!(refused.stderr.starts_with(&said), "{refused:?}");
    let settings = env.path("home/.config/abide");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("config.toml"), format!("trusted = [{dir:?}]\n")).unwrap();
    history(&env).success();
    std::fs::remove_file(settings.join("config.toml")).unwrap();
    history(&env).failure(1);
    store(&env, &url, &["init", "--objects", &place]).success();
    history(&env).success();
}

/// Every file below a directory.
fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
