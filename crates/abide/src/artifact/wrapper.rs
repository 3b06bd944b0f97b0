//! What stands before the program of a command: variables, and programs that only start another one.

/// Words that begin a part of a compound command.
pub(super) const RESERVED: &[&str] = &[
    "!", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "for", "case", "esac",
];
/// The name of a program without the directories before it.
pub(super) fn program_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Words without what a shell reads before the program: `if`, `{`, `A=b`.
fn without_prefix(mut words: &[String]) -> &[String] {
    while let Some((first, rest)) = words.split_first() {
        let is_assignment = first.split_once('=').is_some_and(|(name, _)| {
            let mut letters = name.chars();
            letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        if !is_assignment && !RESERVED.contains(&first.as_str()) && first != "{" {
            break;
        }
        words = rest;
    }
    words
}

/// The words without programs that only start another one: `timeout 60`, `npx`, `uv run`.
pub(super) fn without_wrappers(words: &[String]) -> Option<&[String]> {
    let mut words = without_prefix(words);
    // Each round takes words away.
    loop {
        let (program, rest) = words.split_first()?;
        let first = rest.first().map(String::as_str);
        words = match (program_name(program), first) {
            // It looks for the program and does not start it.
            ("command", Some("-v" | "-V")) => return None,
            ("time" | "nohup" | "exec" | "command" | "stdbuf" | "setsid" | "chronic", _) => {
                without_flags(rest, &[])
            }
            ("nice" | "ionice", _) => without_flags(rest, &["-n", "-c"]),
            ("sudo" | "doas", _) => without_prefix(without_flags(rest, &["-u", "-g"])),
            ("env", _) => without_prefix(without_flags(rest, &["-u", "-C", "-S"])),
            ("timeout" | "gtimeout", _) => {
                without_flags(rest, &["-k", "--kill-after", "-s", "--signal"])
                    .get(1..)
                    .unwrap_or_default()
            }
            ("npx" | "pnpx" | "bunx", _) => without_flags(rest, &["-p", "--package"]),
            ("npm" | "pnpm" | "yarn" | "bun", Some("exec" | "dlx" | "x")) => {
                without_flags(rest.get(1..).unwrap_or_default(), &["-p", "--package", "-w"])
            }
            ("uv" | "poetry" | "pipenv" | "pdm" | "rye" | "coverage", Some("run")) => {
                let rest = rest.get(1..).unwrap_or_default();
                let flags =
                    ["--with", "-p", "--python", "--extra", "--group", "--package", "--project"];
                // `coverage run -m pytest` and `uv run -m pytest` name a module.
                match rest.iter().position(|word| word == "-m") {
                    Some(at) if rest.iter().take(at).all(|word| word.starts_with('-')) => {
                        rest.get(at + 1..).unwrap_or_default()
                    }
                    _ => without_flags(rest, &flags),
                }
            }
            (name, _) if is_python(name) => python_module(rest)?,
            _ => return Some(words),
        };
    }
}

fn is_python(name: &str) -> bool {
    name.strip_prefix("python")
        .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The module that `-m` names, and its arguments.
fn python_module(mut words: &[String]) -> Option<&[String]> {
    loop {
        let (flag, rest) = words.split_first()?;
        words = match flag.as_str() {
            "-m" => return Some(rest),
            "-X" | "-W" => rest.get(1..)?,
            flag if flag.starts_with('-') => rest,
            _ => return None,
        };
    }
}

fn without_flags<'a>(mut words: &'a [String], with_value: &[&str]) -> &'a [String] {
    while let Some((flag, rest)) = words.split_first().filter(|(word, _)| word.starts_with('-')) {
        let skipped = usize::from(with_value.contains(&flag.as_str()));
        words = rest.get(skipped..).unwrap_or_default();
        if flag == "--" {
            break;
        }
    }
    words
}
