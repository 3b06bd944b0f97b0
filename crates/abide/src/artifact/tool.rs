//! Which programs test and build, by their names and arguments.

use super::wrapper::program_name;

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
const NOTHING_RUNS: &[&str] = &[
    "--help",
    "-h",
    "--version",
    "-V",
    "--list",
    "-list",
    "--listTests",
    "--collect-only",
    "--co",
    "--fixtures",
    "--markers",
    "--showConfig",
    "--clearCache",
    "--init",
    "--dry-run",
    "--just-print",
];
/// The longest name of an artifact, in characters.
const NAME: usize = 100;

impl BuildTool {
    /// The tool that these words start. Nothing stands before the program.
    pub(super) fn of(words: &[String]) -> Option<Self> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Self::of_words(&words)
    }

    fn of_words(words: &[&str]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        if arguments.iter().any(|argument| NOTHING_RUNS.contains(argument)) {
            return None;
        }
        match program_name(program) {
            "cargo" => cargo_tool(arguments),
            "go" => go_tool(arguments),
            "pytest" | "py.test" => Some(test_tool("pytest", OutputFormat::Python)),
            "unittest" => Some(test_tool("unittest", OutputFormat::Python)),
            "jest" | "vitest" | "tsc" if arguments.contains(&"-v") => None,
            "vitest" if arguments.first() == Some(&"list") => None,
            name @ ("jest" | "vitest" | "mocha") => Some(test_tool(name, OutputFormat::JavaScript)),
            "node" if arguments.contains(&"--test") => {
                Some(test_tool("node --test", OutputFormat::JavaScript))
            }
            "tsc" => Some(build_tool("tsc", OutputFormat::JavaScript)),
            name @ ("npm" | "yarn" | "pnpm" | "bun") => script_tool(name, arguments),
            name @ ("make" | "gmake" | "just") => make_tool(name, arguments),
            _ => None,
        }
    }

    pub(super) fn is_test(&self) -> bool {
        self.kind == RunKind::Test
    }
}

fn test_tool(name: &str, format: OutputFormat) -> BuildTool {
    BuildTool { name: tool_name(name), kind: RunKind::Test, format }
}

fn build_tool(name: &str, format: OutputFormat) -> BuildTool {
    BuildTool { name: tool_name(name), kind: RunKind::Build, format }
}

/// Scripts and targets name themselves.
fn tool_name(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(NAME).collect()
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
    let flags = [
        "--manifest-path",
        "--color",
        "--config",
        "-C",
        "-Z",
        "--profile",
        "-P",
        "--config-file",
        "--tool-config-file",
    ];
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
        "test" if arguments.contains(&"-c") => Some(build_tool("go test -c", OutputFormat::Go)),
        "test" => Some(test_tool("go test", OutputFormat::Go)),
        name @ ("build" | "vet") => Some(build_tool(&format!("go {name}"), OutputFormat::Go)),
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
        "test" | "t" | "tst" => Some(test_tool(&format!("{manager} test"), format)),
        "build" => Some(build_tool(&format!("{manager} build"), format)),
        name if name.starts_with("test:") => Some(test_tool(&format!("{manager} {name}"), format)),
        name if name.starts_with("build:") => {
            Some(build_tool(&format!("{manager} {name}"), format))
        }
        // One of them that starts another one runs no test that can be told.
        "npm" | "npx" | "yarn" | "pnpm" | "pnpx" | "bun" | "bunx" => None,
        // `yarn jest` starts a program of a package.
        name => {
            let at = arguments.iter().position(|argument| *argument == name)?;
            BuildTool::of_words(arguments.get(at..)?)
        }
    }
}

fn make_tool(program: &str, arguments: &[&str]) -> Option<BuildTool> {
    let nothing = ["-n", "-v", "-q", "-p", "--question", "--print-data-base"];
    if arguments.iter().any(|argument| nothing.contains(argument)) {
        return None;
    }
    let flags = ["-C", "-f", "--directory", "--file", "--justfile"];
    let targets: Vec<&str> = plain_words(arguments, &flags)
        .filter(|word| !word.contains('=') && word.parse::<u64>().is_err())
        .collect();
    let is_test = |name: &&&str| {
        matches!(**name, "test" | "tests" | "check")
            || name.starts_with("test-")
            || name.ends_with("-test")
    };
    let format = OutputFormat::Any;
    if let Some(name) = targets.iter().find(is_test) {
        return Some(test_tool(&format!("{program} {name}"), format));
    }
    match targets.iter().find(|name| matches!(**name, "build" | "all")) {
        Some(name) => Some(build_tool(&format!("{program} {name}"), format)),
        None if targets.is_empty() && program != "just" => Some(build_tool(program, format)),
        None => None,
    }
}
