//! All that is known of an agent stands in its folder: no other source of the product names one.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use abide_agents::AgentKind;

/// Crates that are no part of the product. They may name whom they imitate or measure.
const DEVELOPMENT: &[&str] =
    &["abide-bench", "abide-fuzz", "abide-powercut", "abide-sabotage", "abide-testkit"];

/// Sources whose `///` is what a user reads as help, and so no mere comment.
const HELP: &str = "abide-cli/src/";

/// Lines that may hold an agent's name: the source, the line without blanks around it, and why.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "abide/src/tokenizer.rs",
        r#""gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss", "chatgpt-", "codex", "o1", "o3","#,
        "models whose names begin so",
    ),
    ("abide-agents/src/lib.rs", "mod claude;", "a folder"),
    ("abide-agents/src/lib.rs", "mod codex;", "a folder"),
    ("abide-agents/src/lib.rs", "mod gemini;", "a folder"),
    ("abide-agents/src/lib.rs", "mod opencode;", "a folder"),
    (
        "abide-agents/src/profiles.rs",
        "use crate::{aider, claude, codex, command, gemini, opencode};",
        "the table",
    ),
    ("abide-agents/src/profiles.rs", "&claude::PROFILE,", "the table"),
    ("abide-agents/src/profiles.rs", "&codex::PROFILE,", "the table"),
    ("abide-agents/src/profiles.rs", "&gemini::PROFILE,", "the table"),
    ("abide-agents/src/profiles.rs", "&opencode::PROFILE,", "the table"),
    ("abide-cli/src/commands/acp.rs", "abide acp -- opencode acp", "an example in the help"),
    (
        "abide-cli/src/commands/acp.rs",
        r#"let how = "give the agent's command after `--`, such as `abide acp -- opencode acp`";"#,
        "an example in a message",
    ),
    (
        "abide-cli/src/commands/acp.rs",
        "abide acp --checkpoint off -- gemini --acp",
        "an example in the help",
    ),
    (
        "abide-cli/src/commands/acp.rs",
        "abide acp --store ~/sessions -- codex-acp",
        "an example in the help",
    ),
    (
        "abide-cli/src/commands/import/mod.rs",
        "/// Without WHAT, everything that Claude Code, Codex, Gemini CLI and opencode keep on this machine is",
        "the help tells whose sessions are imported",
    ),
    (
        "abide-cli/src/commands/import/mod.rs",
        "/// imported; the name of an agent (claude, codex, gemini, opencode) imports its sessions, and a directory,",
        "the help tells the names of the agents",
    ),
    (
        "abide-cli/src/commands/import/mod.rs",
        "abide import claude --since 30d",
        "an example in the help",
    ),
    (
        "abide-cli/src/commands/resume.rs",
        "/// has one (`codex exec resume`, `claude --resume`), else with a prompt that describes what was",
        "an example in the help",
    ),
    (
        "abide-cli/src/commands/resume.rs",
        "/// tasks: as its prompt argument if abide knows the agent (Claude Code, Codex, Gemini CLI,",
        "the help tells which agents have a prompt argument",
    ),
    (
        "abide-cli/src/commands/resume.rs",
        "/// opencode, Aider), else on stdin, or in an argument that contains {prompt} (or {task}). A prompt",
        "the help tells which agents have a prompt argument",
    ),
    (
        "abide-cli/src/commands/resume.rs",
        r#"abide resume abc123 -- claude -p \"now the tests\""#,
        "an example in the help",
    ),
    (
        "abide-cli/src/commands/run/mod.rs",
        "/// The agent's output is recorded as it is printed: that of Claude Code (--output-format",
        "the help tells which flags make an agent print events",
    ),
    (
        "abide-cli/src/commands/run/mod.rs",
        "/// stream-json), Codex (exec --json), Gemini CLI (stream-json) and opencode (run --format json) as",
        "the help tells which flags make an agent print events",
    ),
    (
        "abide-cli/src/commands/run/mod.rs",
        r#"abide run codex exec --json \"fix the failing test\""#,
        "an example in the help",
    ),
    (
        "abide-cli/src/commands/run/mod.rs",
        "abide run --plan PLAN.md --continue codex exec --json --full-auto -",
        "an example in the help",
    ),
    (
        "abide-cli/src/commands/run/mod.rs",
        "claude -p {task} --output-format stream-json --verbose",
        "an example in the help",
    ),
    ("abide-cli/src/commands/run/mod.rs", "abide run claude", "an example in the help"),
    (
        "abide-cli/src/main.rs",
        "abide run claude               run an agent and record everything it does",
        "an example in the help",
    ),
    (
        "abide-cli/src/commands/demo/mod.rs",
        r#".line("Next: abide run claude      run your own agent and record everything it does")?;"#,
        "the next command for a newcomer",
    ),
];

#[test]
fn nothing_outside_of_its_folder_names_an_agent() {
    let (mut looked_at, mut found) = (0, Vec::new());
    for source in sources() {
        looked_at += 1;
        let name = source.strip_prefix(crates()).unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&source).unwrap();
        for (number, line) in lines(&name, &text) {
            found.push((name.clone(), number, line));
        }
    }
    assert!(looked_at > 400, "only {looked_at} sources were found");
    let forbidden: Vec<String> = found
        .iter()
        .filter(|(name, _, line)| !ALLOWED.iter().any(|one| (one.0, one.1) == (name, line)))
        .map(|(name, number, line)| format!("{name}:{number}: {line}"))
        .collect();
    assert!(
        forbidden.is_empty(),
        "an agent is named outside of its folder in abide-agents:\n{}",
        forbidden.join("\n")
    );
    for (name, line, why) in ALLOWED {
        let stands = found.iter().any(|one| (one.0.as_str(), one.2.as_str()) == (*name, *line));
        assert!(stands, "this line is allowed and not there any more ({why}): {name}: {line}");
    }
}

#[test]
fn a_name_is_found_where_it_counts() {
    let found = |name: &str, text: &str| -> Vec<usize> {
        lines(name, text).into_iter().map(|(number, _)| number).collect()
    };
    let text = "//! Codex\n/// Codex\nlet x = 1; // Codex\nif name == \"codex\" {\nCODEX_HOME\n\n\
                #[cfg(test)]\nmod tests {\n    \"codex\"\n}\n";
    assert_eq!(found("abide-runner/src/x.rs", text), [4, 5]);
    assert_eq!(found("abide-cli/src/x.rs", text), [2, 4, 5]);
    assert_eq!(found("abide-runner/src/x.rs", "let at = \"http://codex\";"), [1]);
    // What stands behind a module of tests counts again.
    let behind =
        "#[cfg(test)]\nmod tests;\n\nmod codex;\n#[cfg(test)]\nuse codex;\nfn codex() {}\n";
    assert_eq!(found("abide-runner/src/x.rs", behind), [4, 7]);
}

/// The lines that name an agent, with their numbers, without comments and tests.
fn lines(name: &str, text: &str) -> Vec<(usize, String)> {
    let agents: Vec<&str> =
        AgentKind::all().filter(|kind| !kind.prints_text()).map(AgentKind::as_str).collect();
    let help = name.starts_with(HELP);
    let mut found = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            skip_item(&mut lines);
            continue;
        }
        let comment = line.trim_start().starts_with("//");
        let counts = !comment || (help && line.trim_start().starts_with("///"));
        let lower = code(line, comment).to_lowercase();
        if counts && agents.iter().any(|agent| lower.contains(agent)) {
            found.push((number, line.trim().to_owned()));
        }
    }
    found
}

/// A line without the comment at its end.
fn code(line: &str, comment: bool) -> &str {
    if comment { line } else { line.split_once(" // ").map_or(line, |(code, _)| code) }
}

/// Passes over an item that is there for tests: up to its end, be it a line or a block.
fn skip_item<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>) {
    let mut indent = None;
    for (_, line) in lines {
        let margin = line.len() - line.trim_start().len();
        let from = *indent.get_or_insert(margin);
        let ends = line.trim_end().ends_with([';', '}']) && margin <= from;
        if ends {
            return;
        }
    }
}

/// The sources of the product, but for those of tests and those in the folders of agents.
fn sources() -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut crates: Vec<PathBuf> = entries(&crates());
    crates.retain(|path| !DEVELOPMENT.iter().any(|name| path.ends_with(name)));
    for path in crates.into_iter().map(|path| path.join("src")).filter(|path| path.is_dir()) {
        gather(&path, &mut all);
    }
    all
}

fn gather(directory: &Path, all: &mut Vec<PathBuf>) {
    for path in entries(directory) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let room = directory.ends_with("abide-agents/src")
            && AgentKind::all().any(|kind| kind.as_str() == name);
        if name == "tests" || room {
            continue;
        }
        if path.is_dir() {
            gather(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            all.push(path);
        }
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}
