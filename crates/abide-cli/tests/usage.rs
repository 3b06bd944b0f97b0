//! Help, completions, exit codes.

use std::io::Read;
use std::process::Stdio;

use crate::environment::{HELLO, TestEnvironment, run};

const COMMANDS: [&str; 18] = [
    "init",
    "new",
    "record",
    "ls",
    "search",
    "show",
    "tail",
    "plan",
    "acp",
    "export",
    "import",
    "status",
    "usage",
    "doctor",
    "cleanup",
    "erase",
    "demo",
    "completions",
];

#[test]
fn every_command_explains_itself_with_an_example() {
    let env = TestEnvironment::new();
    let all = env.run(&["--help"]).success();
    for command in COMMANDS {
        assert!(all.stdout().contains(&format!("\n  {command} ")), "{command}");
        let help = env.run(&[command, "--help"]).success();
        assert!(
            help.stdout().contains("Examples:\n  abide ")
                || help.stdout().contains("| abide record"),
            "{command}"
        );
        assert_eq!(help.stderr, "");
    }
    assert!(!all.stdout().contains("demo-agent"));
}

#[test]
fn wrong_usage_is_2() {
    let env = TestEnvironment::new();
    for args in [
        &["no-such-command"][..],
        &["tail", "-n", "x"],
        &["show", "--turn", "x"],
        &["export", "--format", "x"],
        &["record", "--wait", "long"],
        &["acp", "--checkpoint", "x", "--", "true"],
        &["acp", "--timeout", "0", "--", "true"],
    ] {
        let done = env.run(args).failure(2);
        assert_eq!(done.stdout(), "");
        assert!(!done.stderr.is_empty());
    }
}

/// Asks for completions of the last word, as the script does in a shell.
fn completed(env: &TestEnvironment, words: &[&str]) -> Vec<String> {
    let word = words.last().unwrap();
    let mut command = env.command(&[]);
    command
        .env("ABIDE_COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_SPACE", "true");
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string()).arg("--").arg("abide").args(words);
    let done = run(command, b"").success();
    assert_eq!(done.stderr, "");
    let words = done.stdout().lines().map(|line| line.trim().to_owned());
    let option = words.clone().filter(|word| word.starts_with('-'));
    if word.starts_with('-') {
        option.collect()
    } else {
        words.filter(|word| !word.starts_with('-')).collect()
    }
}

#[test]
fn completions_know_commands_sessions_and_options() {
    let env = TestEnvironment::new();
    for shell in ["bash", "zsh", "fish", "elvish"] {
        let script = env.run(&["completions", shell]).success();
        assert!(script.stdout().contains("ABIDE_COMPLETE"), "{shell}");
    }
    assert_eq!(completed(&env, &["show", ""]), Vec::<String>::new(), "nothing is recorded");
    let id = env.run(&["new", "--title", "Fix it", "--json"]).success().json_lines()[0].clone();
    let short = id["short"].as_str().unwrap().to_owned();
    env.record(&["-s", &short], &[HELLO]).success();
    let commands = completed(&env, &[""]);
    for command in COMMANDS {
        assert!(commands.contains(&command.to_owned()), "{command}: {commands:?}");
    }
    assert!(!commands.contains(&"demo-agent".to_owned()));
    assert_eq!(completed(&env, &["show", ""]), [short.as_str()]);
    assert_eq!(completed(&env, &["tail", "-s", &short[..2]]), [short]);
    assert!(completed(&env, &["show", "--no-t"]).contains(&"--no-tools".to_owned()));
}

#[test]
fn help_is_grouped_and_has_topics() {
    let env = TestEnvironment::new();
    let all = env.run(&["--help"]).success();
    let headings: Vec<_> =
        all.stdout().lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    assert_eq!(
        headings,
        [
            "Start:",
            "Look:",
            "Go back:",
            "Plan:",
            "Programs:",
            "Store:",
            "Options of every command:",
            "Examples:",
        ]
    );
    // The options of every command stand behind those of the command itself.
    let show = env.run(&["show", "--help"]).success();
    let own = show.stdout().find("--no-tools").unwrap();
    assert!(own < show.stdout().find("--take-over").unwrap());
    // The short help has them in one line.
    for args in [&["show", "-h"][..], &["secrets", "mask", "-h"]] {
        let short = env.run(args).success();
        assert!(!short.stdout().contains("--take-over <"), "{short:?}");
        assert!(!short.stdout().contains("  --store <"), "{short:?}");
        assert_eq!(short.stdout().matches("`abide help options`").count(), 1, "{short:?}");
    }
    assert!(!show.stdout().contains("abide help options"), "{show:?}");
    let codes = env.run(&["help", "exit-codes"]).success();
    assert!(codes.stdout().contains("\n  0    done\n"), "{codes:?}");
    let topics = env.run(&["help"]).success();
    for topic in ["sessions", "places", "store", "options", "environment", "exit-codes", "held"] {
        assert!(topics.stdout().contains(&format!("\n  {topic:<12} ")), "{topic}");
        let told = env.run(&["help", topic]).success();
        assert!(told.stdout().lines().count() > 5, "{topic}");
        assert!(told.stdout().lines().all(|line| line.chars().count() <= 100), "{topic}");
    }
    assert_eq!(
        env.run(&["help", "show"]).success().stdout().trim(),
        env.run(&["show", "--help"]).success().stdout().trim()
    );
    let unknown = env.run(&["help", "nonsense"]).failure(1);
    assert!(unknown.stderr.contains("there is no command and no topic `nonsense`"));
}

/// Phrases that were found in help texts and read as riddles or as translated.
const BANNED: [&str; 18] = [
    " anew",
    " begun",
    " behind ",
    " goes back",
    " goes on",
    " of one's own",
    " so many",
    " so often",
    " stands",
    " takes it back",
    " went",
    "at most so",
    "go on with",
    "is not there",
    "let go",
    "nobody knows",
    "what people call",
    "where there is none",
];

/// The banned phrases in a text, whose lines may break anywhere.
fn banned_phrases(text: &str) -> Vec<&'static str> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    BANNED.into_iter().filter(|phrase| text.contains(phrase)).collect()
}

#[test]
fn help_is_in_plain_english() {
    assert_eq!(banned_phrases("Go on\n  with it: it\nStands here."), [" stands", "go on with"]);
    let env = TestEnvironment::new();
    let listed = env.run(&["help"]).success();
    let names = listed.stdout().lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    let mut names: Vec<_> = names.filter_map(|line| line.split(' ').next()).collect();
    names.retain(|name| *name != "abide");
    assert!(names.len() > 40, "commands and topics: {names:?}");
    let mut pages: Vec<Vec<&str>> = names.into_iter().map(|name| vec![name]).collect();
    for (command, parts) in [
        ("checkpoint", &["create", "every", "list", "show", "summary", "diff", "files", "cat"][..]),
        ("project", &["move"][..]),
        ("store", &["path", "init", "status", "migrate"][..]),
        ("tasks", &["add", "set", "depend", "show", "document", "import", "export"][..]),
    ] {
        pages.extend(parts.iter().map(|part| vec![command, *part]));
    }
    for page in pages {
        let help = env.run(&[&["help"][..], page.as_slice()].concat()).success();
        assert_eq!(banned_phrases(help.stdout()), Vec::<&str>::new(), "abide help {page:?}");
    }
}

#[test]
fn a_word_that_is_no_command_gets_a_tip_by_its_meaning() {
    let env = TestEnvironment::new();
    for (word, tip) in [
        ("log", "`abide tail -f` follows a session"),
        ("restore", "`abide rewind` returns to a checkpoint"),
        ("claude", "`abide run claude` runs it and records it"),
        ("sh", "`abide run sh` runs it and records it"),
        ("sho", "a similar subcommand exists: 'show'"),
        ("sttaus", "subcommands exist: 'status', "),
        ("delete", "no command deletes one session"),
    ] {
        let done = env.run(&[word]).failure(2);
        assert!(done.stderr.contains(tip), "{word}: {}", done.stderr);
    }
}

#[test]
fn a_wrong_argument_gets_a_tip_with_what_was_typed() {
    let env = TestEnvironment::new();
    std::fs::write(env.project().join("todo.txt"), "one").unwrap();
    for (args, tip) in [
        (&["stash", "pop"][..], "tip: `abide rewind latest` "),
        (&["checkout", "3"], "tip: `abide rewind 3` "),
        (&["restore", "todo.txt"], "tip: `abide rewind latest todo.txt` "),
        (&["commit", "-m", "it works"], "tip: `abide save -m 'it works'` "),
        (&["save", "it works"], "tip: `abide save -m 'it works'` "),
        (&["save", "-m", "2"], "a number, @N, turn:N, latest and decision"),
        (
            &["run", "-p", "hi"],
            "tip: options of the agent stand after its name: `abide run AGENT -p hi`",
        ),
        (&["run", "--continue"], "tip: `abide resume` resumes the latest session"),
        (&["run", "--resume"], "tip: `abide resume` resumes the latest session"),
        (&["export", "k3", "--html"], "tip: `--format html`"),
        (&["record", "a.jsonl"], "tip: `abide record < a.jsonl`"),
        (&["share", "--email", "you"], "tip: `abide share` only writes a file"),
    ] {
        let mut command = env.command(args);
        // No agent is installed.
        command.env("PATH", "");
        let done = run(command, b"").failure(2);
        assert!(done.stderr.contains(tip), "{args:?}: {}", done.stderr);
        assert_eq!(done.stderr.matches("tip:").count(), tip.matches("tip:").count(), "{args:?}");
        assert!(!done.stderr.contains("'-- "), "{args:?}: {}", done.stderr);
    }
    let done = env.run(&["share", "--to", "you", "--json"]).failure(2);
    assert!(!done.stderr.contains("--store"), "{}", done.stderr);
    let kinds = env.run(&["schema", "message"]).failure(1);
    assert!(kinds.stderr.contains("kinds that begin with it: message.added"), "{}", kinds.stderr);
    let saved = env.run(&["save", "--message", "x"]).success();
    assert!(saved.stdout().starts_with("Checkpoint 1 \"x\""), "{saved:?}");
    assert_eq!(env.run(&["list"]).success().stdout(), env.run(&["ls"]).success().stdout());
    for word in ["mask", "test"] {
        let mut command = env.command(&["secrets", word]);
        command.stdin(Stdio::null());
        assert_eq!(run(command, b"ls\n").success().stdout(), "ls\n");
    }
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let env = TestEnvironment::new();
    let page = env.run(&["man", "show"]).success();
    assert!(page.stdout().contains(".TH abide-show 1"), "{}", page.stdout());
    env.run(&["man", "--all", "pages"]).success();
    for command in COMMANDS {
        let page = env.project().join(format!("pages/abide-{command}.1"));
        assert!(page.is_file(), "{command}");
    }
    assert!(env.project().join("pages/abide.1").is_file());
    env.run(&["man", "nonsense"]).failure(1);
}

#[test]
fn abide_by_itself_says_what_runs_and_what_to_type() {
    let env = TestEnvironment::bare();
    let first = env.run(&[]).success();
    assert!(first.stdout().contains("abide run AGENT"), "{}", first.stdout());
    assert!(!env.store().exists(), "looking makes no store");
    for n in 0..9 {
        env.run(&["new", "--title", &format!("Session {n}")]).success();
    }
    env.record(&["--key", "k", "--title", "The last one"], &[HELLO]).success();
    let shown = env.run(&[]).success();
    let lines: Vec<_> = shown.stdout().lines().collect();
    assert!(lines.len() <= 15, "{lines:#?}");
    assert!(lines[1].ends_with("The last one"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("abide show")), "{lines:#?}");
    assert_eq!(shown.stderr, "");
}

#[test]
fn a_broken_pipe_is_3_and_says_nothing() {
    let env = TestEnvironment::new();
    let pad = format!(
        r#"{{"kind":"message.added","data":{{"role":"user","content":"{}"}}}}"#,
        "p".repeat(50_000)
    );
    env.record(&[], &[pad.as_str(); 40]).success();
    for args in [
        &["export"][..],
        &["export", "--format", "json"],
        &["export", "--format", "transcript"],
        &["export", "--format", "html"],
        &["show"],
        &["show", "--json"],
        &["tail", "-n", "100"],
    ] {
        let mut child =
            env.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut few = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut few).unwrap();
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(3));
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!said.contains("rror"), "{said}");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let env = TestEnvironment::new();
    env.record(&[], &[HELLO]).success();
    let Ok(full) = std::fs::File::create("/dev/full") else {
        eprintln!("skipped: there is no /dev/full");
        return;
    };
    let done = env.command(&["export"]).stdout(full).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("Error: cannot write the output\nCaused by: No space left"), "{said}");
}
