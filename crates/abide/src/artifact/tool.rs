//! Which programs test and build, by their names and arguments.

use super::shell::{program_name, without_prefix};

/// What a run makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunKind {
    Test,
    Build,
}

impl RunKind {
    /// The kind of its artifact.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Build => "build",
        }
    }
}

/// Whose output a run prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputFormat {
    Cargo,
    Go,
    Python,
    JavaScript,
    /// A script that runs any of them.
    Any,
}

/// A program that tests or builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BuildTool {
    /// The name of its artifact: `cargo test`.
    pub(super) name: String,
    pub(super) kind: RunKind,
    pub(super) format: OutputFormat,
}

/// Arguments with which nothing is tested or built.
const NOTHING_RUNS: &[&str] =
    &["--help", "-h", "--version", "--list", "--listTests", "--collect-only", "--co", "-list"];

impl BuildTool {
    /// The tool that these words start.
    pub(super) fn of(words: &[String]) -> Option<Self> {
        let words = without_wrappers(words)?;
        let (program, arguments) = words.split_first()?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        if arguments.iter().any(|argument| NOTHING_RUNS.contains(argument)) {
            return None;
        }
        match program_name(program) {
            "cargo" => cargo_tool(&arguments),
            "go" => go_tool(&arguments),
            "pytest" | "py.test" => Some(test_tool("pytest", OutputFormat::Python)),
            "unittest" => Some(test_tool("unittest", OutputFormat::Python)),
            name @ ("jest" | "vitest" | "mocha") => Some(test_tool(name, OutputFormat::JavaScript)),
            "node" if arguments.contains(&"--test") => {
                Some(test_tool("node --test", OutputFormat::JavaScript))
            }
            "tsc" => Some(build_tool("tsc", OutputFormat::JavaScript)),
            name @ ("npm" | "yarn" | "pnpm" | "bun") => script_tool(name, &arguments),
            name @ ("make" | "gmake" | "just") => make_tool(name, &arguments),
            _ => None,
        }
    }

    pub(super) fn is_test(&self) -> bool {
        self.kind == RunKind::Test
    }
}

fn test_tool(name: impl Into<String>, format: OutputFormat) -> BuildTool {
    BuildTool { name: name.into(), kind: RunKind::Test, format }
}

fn build_tool(name: impl Into<String>, format: OutputFormat) -> BuildTool {
    BuildTool { name: name.into(), kind: RunKind::Build, format }
}

/// The words that are no flags. `with_value` are flags whose value is the next word.
fn plain_words<'a>(
    arguments: &'a [&'a str],
    with_value: &'a [&'a str],
) -> impl Iterator<Item = &'a str> {
    let mut is_value = false;
    arguments.iter().copied().filter(move |argument| {
        if std::mem::take(&mut is_value) {
            return false;
        }
        is_value = with_value.contains(argument);
        !argument.starts_with('-')
    })
}

fn cargo_tool(arguments: &[&str]) -> Option<BuildTool> {
    let flags = ["--manifest-path", "--color", "--config", "-C", "-Z"];
    let mut words = plain_words(arguments, &flags).filter(|word| !word.starts_with('+'));
    match words.next()? {
        "test" | "t" if arguments.contains(&"--no-run") => {
            Some(build_tool("cargo test --no-run", OutputFormat::Cargo))
        }
        "test" | "t" => Some(test_tool("cargo test", OutputFormat::Cargo)),
        "nextest" if matches!(words.next(), Some("run" | "r")) => {
            Some(test_tool("cargo nextest", OutputFormat::Cargo))
        }
        "build" | "b" => Some(build_tool("cargo build", OutputFormat::Cargo)),
        "check" | "c" => Some(build_tool("cargo check", OutputFormat::Cargo)),
        "clippy" => Some(build_tool("cargo clippy", OutputFormat::Cargo)),
        _ => None,
    }
}

fn go_tool(arguments: &[&str]) -> Option<BuildTool> {
    match plain_words(arguments, &["-C"]).next()? {
        "test" => Some(test_tool("go test", OutputFormat::Go)),
        name @ ("build" | "vet") => Some(build_tool(format!("go {name}"), OutputFormat::Go)),
        _ => None,
    }
}

/// A script of a package: `npm test`, `yarn build`, `pnpm run test:unit`.
fn script_tool(manager: &str, arguments: &[&str]) -> Option<BuildTool> {
    let flags =
        ["--prefix", "-C", "--dir", "--filter", "-F", "-w", "--workspace", "--cwd", "--loglevel"];
    let mut words = plain_words(arguments, &flags);
    let mut name = words.next()?;
    // `yarn workspace NAME test`
    if name == "workspace" {
        words.next()?;
        name = words.next()?;
    }
    if matches!(name, "run" | "run-script") {
        name = words.next()?;
    }
    let format = OutputFormat::Any;
    match name {
        "test" | "t" | "tst" => Some(test_tool(format!("{manager} test"), format)),
        "build" => Some(build_tool(format!("{manager} build"), format)),
        name if name.starts_with("test:") => Some(test_tool(format!("{manager} {name}"), format)),
        name if name.starts_with("build:") => Some(build_tool(format!("{manager} {name}"), format)),
        _ => None,
    }
}

fn make_tool(program: &str, arguments: &[&str]) -> Option<BuildTool> {
    if arguments.iter().any(|argument| matches!(*argument, "-n" | "--dry-run" | "--just-print")) {
        return None;
    }
    let flags = ["-C", "-f", "--directory", "--file", "--justfile"];
    let mut targets = plain_words(arguments, &flags)
        .filter(|word| !word.contains('=') && word.parse::<u64>().is_err());
    let format = OutputFormat::Any;
    match targets.next() {
        Some(name @ ("test" | "tests" | "check")) => {
            Some(test_tool(format!("{program} {name}"), format))
        }
        Some(name) if name.starts_with("test-") || name.ends_with("-test") => {
            Some(test_tool(format!("{program} {name}"), format))
        }
        Some(name @ ("build" | "all")) => Some(build_tool(format!("{program} {name}"), format)),
        None if program != "just" => Some(build_tool(program, format)),
        _ => None,
    }
}

/// The words without programs that only start another one: `timeout 60`, `npx`, `uv run`.
fn without_wrappers(words: &[String]) -> Option<&[String]> {
    let mut words = without_prefix(words);
    // Each round takes words away.
    loop {
        let (program, rest) = words.split_first()?;
        let first = rest.first().map(String::as_str);
        words = match (program_name(program), first) {
            ("time" | "nohup" | "exec" | "command" | "stdbuf" | "setsid" | "chronic", _) => {
                without_flags(rest, &[])
            }
            ("nice" | "ionice", _) => without_flags(rest, &["-n", "-c"]),
            ("sudo" | "doas", _) => without_prefix(without_flags(rest, &["-u", "-g"])),
            ("env", _) => without_prefix(without_flags(rest, &["-u", "-C", "-S"])),
            ("timeout" | "gtimeout", _) => {
                without_flags(rest, &["-k", "-s"]).get(1..).unwrap_or_default()
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
