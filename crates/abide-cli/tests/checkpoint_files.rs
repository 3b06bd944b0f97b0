//! The files of a checkpoint, what is not in it, and which checkpoints stay.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::environment::{ABIDE, Conversation, Done, HELLO, StoreLayout, TestEnvironment, run};
use crate::terminal::typed_on_terminal;

struct FilesLab {
    env: TestEnvironment,
    session: String,
}

impl FilesLab {
    fn new() -> Self {
        Self::with(StoreLayout::Project)
    }

    fn with(layout: StoreLayout) -> Self {
        let env = TestEnvironment::with(layout);
        let session = env.run(&["new", "--title", "work"]).success().stdout().trim().to_owned();
        Self { env, session }
    }

    fn run(&self, args: &[&str]) -> Done {
        let mut command = self.env.command(&[&["checkpoint"], args].concat());
        command.env("ABIDE_SESSION", &self.session);
        run(command, b"")
    }

    fn made(&self, args: &[&str]) -> Value {
        self.run(&[&["create", "--json"], args].concat()).success().json_lines().remove(0)
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.env.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn settings(&self, more: &str) {
        let path = self.env.store().join("config.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{text}\n{more}")).unwrap();
    }

    fn record(&self, lines: &[&str]) {
        self.env.record(&["--session", &self.session], lines).success();
    }
}

#[test]
fn the_files_of_a_checkpoint_are_listed_and_written() {
    let lab = FilesLab::new();
    lab.write("src/main.rs", b"fn main() {}\n");
    lab.write("run.sh", b"echo\n");
    fs::set_permissions(lab.env.project().join("run.sh"), fs::Permissions::from_mode(0o755))
        .unwrap();
    fs::set_permissions(lab.env.project().join("src/main.rs"), fs::Permissions::from_mode(0o644))
        .unwrap();
    std::os::unix::fs::symlink("run.sh", lab.env.project().join("link")).unwrap();
    lab.write("logo.bin", b"\x00\xff\x1b[2J");
    fs::set_permissions(lab.env.project().join("logo.bin"), fs::Permissions::from_mode(0o600))
        .unwrap();
    // In chunks.
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    lab.write("large.bin", &large);
    fs::set_permissions(lab.env.project().join("large.bin"), fs::Permissions::from_mode(0o600))
        .unwrap();
    lab.run(&["create", "-m", "first"]).success();
    lab.write("src/main.rs", b"changed\n");
    lab.run(&["create"]).success();

    let listed = lab.run(&["files", "first"]).success();
    insta::assert_snapshot!(listed.stdout(), @"
    -0600     12000000 large.bin
    l0000            6 link
    -0600            6 logo.bin
    -0755            5 run.sh
    -0644           13 src/main.rs
    ");
    let rows = lab.run(&["files", "1", "--json"]).success().json_lines();
    assert_eq!((&rows[4]["path"], &rows[4]["mode"]), (&json!("src/main.rs"), &json!("0644")));
    assert_eq!((&rows[1]["type"], &rows[4]["size"]), (&json!("link"), &json!(13)));
    assert_eq!(lab.run(&["files", "--json"]).success().json_lines()[4]["size"], 8, "the newest");

    let cat = |number: &str, path: &str| lab.run(&["cat", number, path]).success().out;
    assert_eq!(cat("1", "src/main.rs"), b"fn main() {}\n");
    assert_eq!(cat("2", "./src//main.rs"), b"changed\n");
    let whole = lab.env.project().canonicalize().unwrap().join("run.sh");
    assert_eq!(cat("1", whole.to_str().unwrap()), b"echo\n");
    assert_eq!(cat("1", "logo.bin"), b"\x00\xff\x1b[2J");
    assert_eq!(cat("1", "link"), b"run.sh", "a link is shown, not followed");
    assert!(cat("1", "large.bin") == large, "every byte of it");
}

#[test]
fn what_cannot_be_written_is_said() {
    let lab = FilesLab::new();
    lab.write("src/main.rs", b"fn main() {}\n");
    lab.write("logo.bin", b"\x00\xff");
    lab.write("late.txt", format!("{}\x1b[2J", "text\n".repeat(10_000)).as_bytes());
    lab.write("umlaut.txt", "Größe\n".as_bytes());
    std::os::unix::fs::symlink("src", lab.env.project().join("way")).unwrap();
    std::os::unix::fs::symlink("/etc", lab.env.project().join("out")).unwrap();
    lab.run(&["create"]).success();
    lab.run(&["create", "--no-files"]).success();
    let failed = |args: &[&str]| lab.run(args).failure(1).stderr;
    insta::assert_snapshot!(failed(&["cat", "1", "src/mian.rs"]), @r#"
    Error: there is no "src/mian.rs" in checkpoint 1
    Hint: similar paths: src/main.rs
    "#);
    insta::assert_snapshot!(failed(&["cat", "1", "x"]), @r#"
    Error: there is no "x" in checkpoint 1
    Hint: `abide checkpoint files 1` lists its files
    "#);
    insta::assert_snapshot!(failed(&["cat", "1", "src"]), @r#"
    Error: "src" is a directory
    Hint: `abide checkpoint files 1` lists its files
    "#);
    insta::assert_snapshot!(failed(&["cat", "2", "src/main.rs"]), @"
    Error: checkpoint 2 was made without files
    Hint: `abide checkpoint list` shows how many files each has
    ");
    failed(&["cat", "9", "src/main.rs"]);
    failed(&["files", "2"]);
    for outside in ["../project/logo.bin", "/etc/passwd", "out/passwd", "way/main.rs", "..", ""] {
        assert!(failed(&["cat", "1", outside]).contains("there is no"), "{outside}");
    }
    lab.run(&["cat", "1"]).failure(2);
    let terminal = |file: &str| {
        let mut command = lab.env.isolate(Command::new("script"));
        command.args(["-qec", &format!("{ABIDE} checkpoint cat 1 {file}"), "/dev/null"]);
        command.env("ABIDE_SESSION", &lab.session);
        run(command, b"")
    };
    for binary in ["logo.bin", "late.txt"] {
        let refused = terminal(binary);
        assert!(String::from_utf8_lossy(&refused.out).contains("is binary"), "{refused:?}");
    }
    assert!(terminal("logo.bin --force").out.contains(&0xff));
    assert!(String::from_utf8_lossy(&terminal("umlaut.txt").out).contains("Größe"));
}

#[test]
fn a_checkpoint_names_the_tasks_under_way_and_counts_what_changed() {
    let lab = FilesLab::new();
    lab.record(&[
        r#"{"kind":"task.created","data":{"task":"a","title":"Parse"}}"#,
        r#"{"kind":"task.created","data":{"task":"b","title":"Print","depends":["a"],"dependency_types":{"a":"soft"}}}"#,
        r#"{"kind":"task.status","data":{"task":"a","status":"implementing"}}"#,
    ]);
    lab.env.git(&lab.env.project(), &["init", "-q"]);
    for name in ["one", "two", "three"] {
        lab.write(name, b"1");
    }
    lab.env.git(&lab.env.project(), &["add", "."]);
    lab.env.git(&lab.env.project(), &["commit", "-qm", "first"]);
    let first = lab.made(&[]);
    assert_eq!(
        first["manifest"]["active"],
        json!([{"task": "a", "title": "Parse", "status": "implementing"}])
    );
    assert_eq!(first["manifest"]["depends"], json!([{"task": "b", "on": "a", "type": "soft"}]));
    assert!(first["changes"].is_null(), "there is none before it: {first}");
    let shown = lab.run(&["show", "1"]).success();
    assert!(shown.stdout().contains("Under way    a Parse (implementing)\n"), "{shown:?}");
    assert!(shown.stdout().contains("Waiting      b depends on a (soft)\n"), "{shown:?}");

    lab.write("two", b"2");
    lab.write("four", b"1");
    lab.write("five", b"1");
    fs::remove_file(lab.env.project().join("three")).unwrap();
    let second = lab.made(&["-m", "next"]);
    assert_eq!(second["changes"], json!({"added": 2, "changed": 1, "removed": 1}));
    let head = second["git"]["head"].as_str().unwrap()[..7].to_owned();
    let listed = lab.run(&["list"]).success().stdout().to_owned();
    let last = listed.lines().last().unwrap();
    assert!(last.ends_with(&format!("\tnext\tmain\t{head}\t2\t1\t1\t")), "{last:?}");
    assert_eq!(lab.made(&[])["changes"], json!({"added": 0, "changed": 0, "removed": 0}));
    let summary = lab.run(&["summary", "--json"]).success().json_lines().remove(0);
    let row = &summary["checkpoints"][1];
    assert_eq!((&row["changes"], &row["workspace_files"]), (&second["changes"], &json!(4)));
    assert_eq!((&row["branch"], &row["commit"]), (&json!("main"), &second["git"]["head"]));
    let summary = lab.run(&["summary"]).success();
    let told = format!("4 files changed (+2 ~1 -1), on main {head}");
    assert!(summary.stdout().contains(&told), "{summary:?}");
}

#[test]
fn files_that_usually_hold_secrets_are_asked_about_once() {
    for layout in [StoreLayout::Project, StoreLayout::Person] {
        for (typed, setting) in [("n\n", "omit"), ("y\n", "keep"), ("\n", "keep")] {
            let lab = FilesLab::with(layout);
            lab.write(".env", b"TOKEN=x");
            lab.write("deploy/key.pem", b"pem");
            lab.write("src/id_map.rs", b"fn main() {}");
            // Who cannot be asked is told, once for each file.
            let first = lab.run(&["create"]).success();
            assert!(
                first
                    .stderr
                    .contains("Note: .env, deploy/key.pem usually hold secrets, and are in"),
                "{first:?}"
            );
            let again = lab.run(&["create"]).success();
            assert!(!again.stderr.contains("secrets"), "said once: {again:?}");
            lab.write("credentials.json", b"{}");
            let files = json!([".env", "credentials.json", "deploy/key.pem"]);
            assert_eq!(lab.made(&[])["secret_files"], files);
            // Who is at a terminal is asked until that is answered.
            for said in ["what\n", ""] {
                let Some(asked) = typed_on_terminal(&lab.env, "save", said) else { return };
                let text = String::from_utf8_lossy(&asked.out).into_owned();
                assert!(text.contains("That is not decided"), "{text}");
            }
            let agents = "save --trigger turn";
            let told = typed_on_terminal(&lab.env, agents, typed).unwrap();
            assert!(
                !String::from_utf8_lossy(&told.out).contains("[Y/n]"),
                "an agent does not answer"
            );
            let asked = typed_on_terminal(&lab.env, "save", typed).unwrap();
            let text = String::from_utf8_lossy(&asked.out).into_owned();
            assert!(text.contains("secrets: .env, credentials.json, deploy/key.pem"), "{text}");
            assert!(text.contains("Keep such files in checkpoints"), "{text}");
            assert!(text.contains(&format!("workspace.secrets = \"{setting}\"")), "{text}");
            let config = fs::read_to_string(lab.env.store().join("config.toml")).unwrap();
            assert!(config.contains(&format!("secrets = \"{setting}\"")), "{config}");
            assert_eq!(config.contains("[project."), layout == StoreLayout::Person, "{config}");
            // From now on nobody is asked or told.
            lab.write(".env.local", b"TOKEN=z");
            let last = typed_on_terminal(&lab.env, "save", "").unwrap();
            let text = String::from_utf8_lossy(&last.out).into_owned();
            assert!(!text.contains("secrets"), "{text}");
            let rows = lab.run(&["list", "--json"]).success().json_lines();
            let number = rows.last().unwrap()["number"].to_string();
            let held = lab.run(&["cat", &number, ".env"]).code == 0;
            assert_eq!(held, setting == "keep");
            lab.run(&["cat", &number, "src/id_map.rs"]).success();
        }
    }
}

#[test]
fn a_rewind_that_touches_files_that_usually_hold_secrets_says_so() {
    let lab = FilesLab::with(StoreLayout::Project);
    lab.write(".env", b"TOKEN=x");
    lab.write("a.rs", b"1");
    lab.run(&["create"]).success();
    lab.write("a.rs", b"2");
    let plain = lab.env.run(&["rewind", "latest", "--files", "--dry-run"]).success();
    assert!(!plain.stdout().contains("secrets"), "{plain:?}");
    lab.write(".env", b"TOKEN=y");
    let told = lab.env.run(&["rewind", "latest", "--files", "--dry-run"]).success();
    assert!(told.stdout().contains("  among them what usually holds secrets: .env\n"), "{told:?}");
}

#[test]
fn state_that_git_ignores_is_named_once_and_included_when_asked() {
    for layout in [StoreLayout::Project, StoreLayout::Person] {
        let lab = FilesLab::with(layout);
        lab.write(".gitignore", b"data/\n*.db\nnode_modules/\nempty/\n");
        lab.write("data/users.json", b"{}");
        lab.write("app/app.db", b"db");
        lab.write("node_modules/x/data/y", b"not looked at");
        lab.write("main.rs", b"");
        let first = lab.run(&["create"]).success();
        assert!(
            first.stderr.contains("Note: ignored, so not in the checkpoint: data/, app/app.db; ")
                && first.stderr.contains("--include /data/` "),
            "{first:?}"
        );
        let again = lab.run(&["create"]).success();
        assert!(!again.stderr.contains("ignored"), "said once: {again:?}");
        lab.write("new.db", b"db");
        assert_eq!(lab.made(&[])["ignored_state"], json!(["new.db"]));

        let text = || fs::read_to_string(lab.env.store().join("config.toml")).unwrap();
        let before = text();
        let wrong = lab.run(&["create", "--include", "a[z-a]"]).failure(1);
        assert!(!wrong.stderr.is_empty());
        lab.run(&["create", "--include", " "]).failure(2);
        assert_eq!(text(), before, "nothing was written");

        lab.run(&["create", "--include", "/data/", "--include", "*.db"]).success();
        assert!(text().contains("include = [\"/data/\", \"*.db\"]"), "{}", text());
        assert_eq!(text().contains("[project."), layout == StoreLayout::Person, "{}", text());
        let newest = |path: &str| {
            let rows = lab.run(&["list", "--json"]).success().json_lines();
            let number = rows.last().unwrap()["number"].to_string();
            lab.run(&["cat", &number, path]).success().out
        };
        assert_eq!(
            (newest("data/users.json"), newest("app/app.db")),
            (b"{}".to_vec(), b"db".to_vec())
        );
        // From now on.
        lab.write("data/users.json", b"[]");
        lab.run(&["create"]).success();
        assert_eq!(newest("data/users.json"), b"[]");
        lab.run(&["create", "--include", "/data/"]).success();
        assert!(text().contains("include = [\"/data/\", \"*.db\"]"), "not twice: {}", text());
    }
}

#[test]
fn retention_lets_old_checkpoints_go_when_one_is_made() {
    let lab = FilesLab::new();
    lab.settings("[retention]\nmax_checkpoints = 2\n");
    lab.write("a", b"1");
    lab.run(&["create", "--pin"]).success();
    for text in ["2", "3"] {
        lab.write("a", text.as_bytes());
        let made = lab.run(&["create"]).success();
        assert!(!made.stderr.contains("let go"), "{made:?}");
    }
    lab.write("a", b"4");
    let made = lab.made(&[]);
    assert_eq!(made["dropped"], json!([2]), "what is pinned stays: {made}");
    let numbers = |args: &[&str]| -> Vec<u64> {
        let rows = lab.run(&[&["list", "--json"], args].concat()).success().json_lines();
        rows.iter().map(|row| row["number"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&[]), [1, 3, 4]);
    assert_eq!(numbers(&["--all"]), [1, 2, 3, 4]);
    // A fork can rewind to what its parent has.
    lab.env.run(&["fork", "-s", &lab.session, "--at", "3"]).success();
    lab.write("a", b"5");
    assert!(lab.made(&[])["dropped"].is_null());
    assert_eq!(numbers(&[]), [1, 3, 4, 5]);
}

#[test]
fn what_is_needed_stays_whatever_retention_says() {
    let lab = FilesLab::new();
    lab.settings("[retention]\nmax_checkpoints = 1\n");
    let numbers = || -> Vec<u64> {
        let rows = lab.run(&["list", "--json"]).success().json_lines();
        rows.iter().map(|row| row["number"].as_u64().unwrap()).collect()
    };
    let create = |text: &str| {
        lab.write("a", text.as_bytes());
        lab.made(&[])["dropped"].clone()
    };
    // The files as they were before a task that is in progress.
    create("1");
    lab.record(&[
        r#"{"kind":"task.created","data":{"task":"t"}}"#,
        r#"{"kind":"task.status","data":{"task":"t","status":"implementing"}}"#,
    ]);
    assert_eq!(create("2"), Value::Null);
    assert_eq!(create("3"), json!([2]));
    assert_eq!(numbers(), [1, 3]);
    lab.record(&[r#"{"kind":"task.status","data":{"task":"t","status":"complete"}}"#]);
    assert_eq!(create("4"), json!([1, 3]));
    // The newest with files, though a newer one has none.
    assert_eq!(lab.made(&["--no-files"])["dropped"], Value::Null);
    assert_eq!(numbers(), [4, 5]);
    // The first of a run that is under way, and the one before it: the run may have begun unchanged.
    lab.record(&[r#"{"kind":"run.started","data":{"command":["agent"]}}"#]);
    create("6");
    create("7");
    assert_eq!(create("8"), json!([7]));
    assert_eq!(numbers(), [4, 6, 8]);
    lab.record(&[r#"{"kind":"run.finished","data":{"status":"completed"}}"#]);
    // What a rewind left can be brought back, after its checkpoint and the space of it are gone.
    lab.write("a", b"unsaved");
    lab.env.run(&["rewind", "-s", &lab.session, "--to", "8", "--files", "--yes"]).success();
    assert_eq!(fs::read(lab.env.project().join("a")).unwrap(), b"8");
    lab.write("b", b"1");
    lab.run(&["create"]).success();
    lab.run(&["create"]).success();
    lab.env.run(&["cleanup", "--yes"]).success();
    assert_eq!(numbers().len(), 1);
    lab.env.run(&["undo", "-s", &lab.session, "--yes"]).success();
    assert_eq!(fs::read(lab.env.project().join("a")).unwrap(), b"unsaved");
}

#[test]
fn retention_applies_to_a_session_that_another_process_holds() {
    let lab = FilesLab::new();
    lab.settings("[retention]\nmax_checkpoints = 2\n");
    let args = ["record", "--session", &lab.session];
    let mut holder = Conversation::start(lab.env.command(&args));
    holder.ask(HELLO);
    let mut dropped = Vec::new();
    for text in ["1", "2", "3", "4"] {
        lab.write("a", text.as_bytes());
        dropped.push(lab.made(&[])["dropped"].clone());
    }
    assert_eq!(dropped, [Value::Null, Value::Null, json!([1]), json!([2])]);
    holder.ask(HELLO);
    assert_eq!(holder.end(), 0);
    let rows = lab.run(&["list", "--json"]).success().json_lines();
    assert_eq!(rows.len(), 2, "{rows:?}");
}

#[test]
fn a_fork_drops_its_own_checkpoints_alone() {
    let lab = FilesLab::new();
    lab.settings("[retention]\nmax_checkpoints = 1\n");
    lab.write("a", b"1");
    lab.run(&["create"]).success();
    let fork = lab.env.run(&["fork", "-s", &lab.session, "--at", "1"]).success();
    let fork = FilesLab { session: fork.stdout().trim().to_owned(), env: lab.env };
    for text in ["2", "3"] {
        fork.write("a", text.as_bytes());
        fork.run(&["create"]).success();
    }
    let rows = fork.run(&["list", "--json"]).success().json_lines();
    let numbers: Vec<&Value> = rows.iter().map(|row| &row["number"]).collect();
    assert_eq!(numbers, [&json!(1), &json!(3)], "one is the parent's");
}

#[test]
fn the_cleanup_lets_checkpoints_go_by_the_same_settings() {
    let lab = FilesLab::new();
    let create = |text: &str| {
        lab.write("a", text.as_bytes());
        lab.run(&["create"]).success();
    };
    create("1");
    create("2");
    lab.record(&[
        r#"{"kind":"task.created","data":{"task":"t"}}"#,
        r#"{"kind":"task.status","data":{"task":"t","status":"implementing"}}"#,
    ]);
    create("3");
    create("4");
    lab.settings("[retention]\nmax_checkpoints = 1\n");
    let plan = lab.env.run(&["cleanup", "--dry-run"]).success();
    assert!(plan.stdout().contains("2 checkpoints"), "{plan:?}");
    lab.env.run(&["cleanup", "--yes"]).success();
    let rows = lab.run(&["list", "--json"]).success().json_lines();
    let numbers: Vec<_> = rows.iter().map(|row| row["number"].as_u64().unwrap()).collect();
    // The second has the files as they were before a task that is in progress.
    assert_eq!(numbers, [2, 4]);
    lab.settings("max_checkpoint_age = \"soon\"\n");
    let refused = lab.run(&["list"]).failure(1);
    assert!(refused.stderr.contains("invalid duration `soon`"), "{refused:?}");
}
