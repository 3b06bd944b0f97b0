//! The commands that start agents: which agent it is, and how it goes on in its own session.

use super::kind::AgentKind;

/// Programs that start another one, whose name stands behind theirs.
const STARTERS: &[&str] = &["env", "npx", "bunx", "pnpx", "node", "bun", "nohup", "exec"];

/// Options of those that have a value behind them.
const STARTER_VALUES: &[&str] =
    &["-u", "--unset", "-C", "--chdir", "-p", "--package", "-r", "--require", "--import"];

/// Options of Codex that have a value behind them.
const CODEX_VALUES: &[&str] = &[
    "-c",
    "--config",
    "--enable",
    "--disable",
    "-m",
    "--model",
    "--local-provider",
    "-p",
    "--profile",
    "-s",
    "--sandbox",
    "-a",
    "--ask-for-approval",
    "-C",
    "--cd",
    "--add-dir",
    "--thread-source",
    "--cyber-access-program",
    "--output-schema",
    "--color",
    "-o",
    "--output-last-message",
];

/// Options of Codex that have any number of values behind them.
const CODEX_LISTS: &[&str] = &["-i", "--image"];

/// An agent's program in a command.
struct Program {
    kind: AgentKind,
    /// Where its arguments begin.
    arguments: usize,
}

pub(super) fn detect(command: &[String]) -> AgentKind {
    let Some(program) = program(command) else { return AgentKind::Text };
    let arguments = command.get(program.arguments..).unwrap_or_default();
    let options = arguments.split(|argument| argument == "--").next().unwrap_or_default();
    let prints = match program.kind {
        AgentKind::Codex => {
            exec(arguments).is_some()
                && options.iter().any(|one| one == "--json" || one == "--experimental-json")
        }
        AgentKind::Claude => has_value(options, &["--output-format"], "stream-json"),
        AgentKind::Gemini => has_value(options, &["--output-format", "-o"], "stream-json"),
        AgentKind::Text => false,
    };
    if prints { program.kind } else { AgentKind::Text }
}

pub(super) fn resume(kind: AgentKind, command: &[String], session: &str) -> Option<Vec<String>> {
    // It was printed by the agent, or by whatever could print in its stead.
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
    let sound = !session.is_empty() && session.len() <= 256 && session.chars().all(plain);
    if !sound || session.starts_with('-') {
        return None;
    }
    let program = program(command).filter(|program| program.kind == kind)?;
    let (before, arguments) = command.split_at_checked(program.arguments)?;
    let rest = match kind {
        AgentKind::Codex => codex(arguments, session)?,
        AgentKind::Claude => {
            if options(arguments).iter().any(|one| one == "--no-session-persistence") {
                return None;
            }
            let gone =
                without(arguments, &["--resume", "-r", "--session-id"], &["--continue", "-c"]);
            [vec!["--resume".to_owned(), session.to_owned()], gone].concat()
        }
        AgentKind::Gemini => {
            let gone =
                without(arguments, &["--resume", "-r", "--session-id", "--session-file"], &[]);
            [vec!["--resume".to_owned(), session.to_owned()], gone].concat()
        }
        AgentKind::Text => return None,
    };
    Some([before.to_vec(), rest].concat())
}

/// Finds the agent's program, be it behind others that start it.
fn program(command: &[String]) -> Option<Program> {
    let mut at = 0;
    loop {
        let word = command.get(at)?;
        at += 1;
        if let Some(kind) = by_name(word) {
            return Some(Program { kind, arguments: at });
        }
        if !STARTERS.contains(&stem(word)) {
            return None;
        }
        // Its options, and what `env` sets.
        while let Some(option) = command.get(at) {
            let sets = option.contains('=') && !option.starts_with('-') && !option.contains('/');
            let sets = sets || option.split_once('=').is_some_and(|(name, _)| is_variable(name));
            if option.starts_with('-') {
                at += 1 + usize::from(STARTER_VALUES.contains(&option.as_str()));
            } else if sets {
                at += 1;
            } else {
                break;
            }
        }
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn by_name(word: &str) -> Option<AgentKind> {
    let path = word.replace('\\', "/");
    match stem(&path) {
        "claude" | "claude-code" => Some(AgentKind::Claude),
        "codex" => Some(AgentKind::Codex),
        "gemini" | "gemini-cli" => Some(AgentKind::Gemini),
        "cli" if path.contains("/claude-code/") => Some(AgentKind::Claude),
        _ => None,
    }
}

/// The name of a program without its folder, its version and its ending.
fn stem(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.split('@').find(|part| !part.is_empty()).unwrap_or(name);
    for ending in [".js", ".mjs", ".cjs", ".exe", ".cmd"] {
        if let Some(bare) = name.strip_suffix(ending) {
            return bare;
        }
    }
    name
}

/// Is there an option of one of these names with this value?
fn has_value(options: &[String], names: &[&str], value: &str) -> bool {
    let behind = options.windows(2).any(|pair| match pair {
        [name, next] => names.contains(&name.as_str()) && next == value,
        _ => false,
    });
    let joined = |option: &String| {
        option.split_once('=').is_some_and(|(name, found)| names.contains(&name) && found == value)
    };
    behind || options.iter().any(joined)
}

/// What stands before `--`.
fn options(arguments: &[String]) -> &[String] {
    arguments.split(|argument| argument == "--").next().unwrap_or_default()
}

/// The arguments without some options: those with a value, and those without.
fn without(arguments: &[String], values: &[&str], flags: &[&str]) -> Vec<String> {
    let count = options(arguments).len();
    let (options, rest) = arguments.split_at_checked(count).unwrap_or((arguments, &[]));
    let mut left = Vec::with_capacity(arguments.len());
    let mut words = options.iter().peekable();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or(word);
        if values.contains(&name) {
            if name == word {
                words.next_if(|value| !value.starts_with('-'));
            }
        } else if !flags.contains(&word.as_str()) {
            left.push(word.clone());
        }
    }
    left.extend_from_slice(rest);
    left
}

/// Where `exec` stands in the arguments of Codex.
fn exec(arguments: &[String]) -> Option<usize> {
    let mut words = Words::of(arguments);
    words.find(|word| !word.option).filter(|word| matches!(word.text, "exec" | "e")).map(|w| w.at)
}

/// `codex … exec FLAGS resume SESSION PROMPT`: options may stand before the subcommand, and all of
/// them mean there what they mean without it.
fn codex(arguments: &[String], session: &str) -> Option<Vec<String>> {
    let exec = exec(arguments)?;
    let (before, behind) = arguments.split_at_checked(exec + 1)?;
    let (mut flags, mut said): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut closed = false;
    for word in Words::of(behind) {
        if word.text == "--ephemeral" && word.option {
            return None;
        }
        closed |= word.text == "--" && word.option;
        if word.text == "--" && word.option {
            continue;
        }
        let list = if word.option { &mut flags } else { &mut said };
        list.push(word.text.to_owned());
    }
    match said.first().map(String::as_str) {
        // It goes on already: the session that it named gives way to this one.
        Some("resume") => {
            let last = flags.iter().any(|flag| flag == "--last");
            flags.retain(|flag| flag != "--last" && flag != "--all");
            said.drain(..said.len().min(if last { 1 } else { 2 }));
        }
        Some("fork" | "review" | "help") => return None,
        _ => {}
    }
    if said.is_empty() {
        said.push("-".to_owned());
    }
    let mut all = before.to_vec();
    all.append(&mut flags);
    all.extend(["resume".to_owned(), session.to_owned()]);
    if closed {
        all.push("--".to_owned());
    }
    all.append(&mut said);
    Some(all)
}

/// The arguments of Codex, told apart: options with their values, and the rest.
struct Words<'a> {
    arguments: &'a [String],
    at: usize,
    /// How many words belong to the option before.
    values: usize,
    closed: bool,
}

struct Word<'a> {
    at: usize,
    text: &'a str,
    /// Is it an option, or a value of one?
    option: bool,
}

impl<'a> Words<'a> {
    fn of(arguments: &'a [String]) -> Self {
        Self { arguments, at: 0, values: 0, closed: false }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let at = self.at;
        let text = self.arguments.get(at)?.as_str();
        self.at += 1;
        let dashed = text.starts_with('-') && text != "-";
        let option = if self.closed {
            false
        } else if self.values == 1 {
            self.values = 0;
            true
        } else if dashed {
            self.values = match text {
                text if CODEX_VALUES.contains(&text) => 1,
                text if CODEX_LISTS.contains(&text) => usize::MAX,
                _ => 0,
            };
            self.closed = text == "--";
            true
        } else {
            self.values > 0
        };
        Some(Word { at, text, option })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &str) -> Vec<String> {
        command.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn agents_are_known_by_program_and_flags() {
        for (command, kind) in [
            ("codex exec --json -", AgentKind::Codex),
            ("/usr/local/bin/codex -m o3 exec --json {task}", AgentKind::Codex),
            ("codex e --experimental-json x", AgentKind::Codex),
            ("npx -y @openai/codex@0.166.0 exec --json -", AgentKind::Codex),
            ("npx --package @openai/codex codex exec --json -", AgentKind::Codex),
            ("node --no-warnings /x/@openai/codex/bin/codex.js exec --json", AgentKind::Codex),
            ("env -i A=B PATH=/bin:/usr/bin codex exec --json", AgentKind::Codex),
            ("codex exec -", AgentKind::Text),
            ("codex exec - -- --json", AgentKind::Text),
            ("codex --json exec-policy", AgentKind::Text),
            ("codex -m exec --json", AgentKind::Text),
            ("claude -p --verbose --output-format stream-json", AgentKind::Claude),
            ("claude --output-format=stream-json -p x", AgentKind::Claude),
            (
                "node /x/@anthropic-ai/claude-code/cli.js --output-format stream-json",
                AgentKind::Claude,
            ),
            ("npx @anthropic-ai/claude-code -p --output-format stream-json x", AgentKind::Claude),
            ("claude.exe -p x --output-format stream-json", AgentKind::Claude),
            ("claude -p x", AgentKind::Text),
            ("claude -p x --output-format json", AgentKind::Text),
            ("gemini -o stream-json -p x", AgentKind::Gemini),
            ("npx @google/gemini-cli --output-format stream-json", AgentKind::Gemini),
            ("gemini -p x", AgentKind::Text),
            ("bash -c codex", AgentKind::Text),
            ("mycodex exec --json", AgentKind::Text),
            ("env", AgentKind::Text),
        ] {
            assert_eq!(AgentKind::detect(&words(command)), kind, "{command}");
        }
        assert_eq!(AgentKind::detect(&[]), AgentKind::Text);
    }

    #[test]
    fn each_goes_on_in_its_own_session() {
        for (command, again) in [
            ("codex exec --json -", "codex exec --json resume ID -"),
            ("codex exec --json", "codex exec --json resume ID -"),
            (
                "codex -m o3 exec -c a=b {task} --json -s read-only -C dir",
                "codex -m o3 exec -c a=b --json -s read-only -C dir resume ID {task}",
            ),
            (
                "codex exec -i a.png b.png --json {task}",
                "codex exec -i a.png b.png --json resume ID {task}",
            ),
            ("codex exec --json -- -x", "codex exec --json resume ID -- -x"),
            ("codex exec --json resume OLD {task}", "codex exec --json resume ID {task}"),
            ("codex exec resume --last --json {task}", "codex exec --json resume ID {task}"),
            ("npx -y @openai/codex exec --json -", "npx -y @openai/codex exec --json resume ID -"),
        ] {
            let found = AgentKind::Codex.resume(&words(command), "ID");
            assert_eq!(found, Some(words(again)), "{command}");
        }
        let claude = "env A=B claude -p --output-format stream-json --verbose -r OLD -c {task}";
        let again = "env A=B claude --resume ID -p --output-format stream-json --verbose {task}";
        assert_eq!(AgentKind::Claude.resume(&words(claude), "ID"), Some(words(again)));
        let gemini = "gemini --session-id=OLD -o stream-json -- -r {task}";
        let again = "gemini --resume ID -o stream-json -- -r {task}";
        assert_eq!(AgentKind::Gemini.resume(&words(gemini), "ID"), Some(words(again)));
    }

    #[test]
    fn some_do_not_go_on() {
        let none = |kind: AgentKind, command: &str, session: &str| {
            assert_eq!(kind.resume(&words(command), session), None, "{command} {session}");
        };
        none(AgentKind::Text, "make", "ID");
        none(AgentKind::Codex, "make", "ID");
        none(AgentKind::Codex, "codex --json", "ID");
        none(AgentKind::Codex, "codex exec review --json", "ID");
        none(AgentKind::Codex, "codex exec --ephemeral --json -", "ID");
        none(AgentKind::Claude, "claude -p --no-session-persistence x", "ID");
        none(AgentKind::Claude, "codex exec --json -", "ID");
        // A session's name is what the agent printed, and no option.
        for session in ["", "--dangerously", "a b", "a\nb", "\u{1b}[0m", &"x".repeat(300)] {
            none(AgentKind::Codex, "codex exec --json -", session);
        }
    }
}
