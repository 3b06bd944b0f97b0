//! The compiler wrapper: cargo starts it in place of the compiler for every crate of the workspace.
//!
//! It takes the compiler and its arguments, and lets it compile the mirror of a package that has
//! breaks. Warnings are not shown there: broken code has some. Panics and debug information name the
//! original files.
//!
//! What was compiled is then linted by clippy and read by rustdoc as it stands, without the breaks,
//! and a warning is an error. Both use what the build has made of the dependencies; `cargo clippy` and
//! `cargo doc` would analyse all of them again. Tests without breaks are compiled by clippy itself,
//! which is the compiler with more lints: they are analysed once.
//!
//! Two things are not made as cargo asks for them, since no test would gain by it:
//!
//! - Tests are not optimised, but for those that compute a great deal ([`OPTIMISED`]). The libraries
//!   that they use are. Unit tests hold all code of their library a second time, which the compiler
//!   would otherwise optimise for a few seconds of tests.
//! - An example is linted, and its program is an empty file: those that must do something are run as
//!   parts of a test.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use abide_sabotage::{DepInfo, Edit, List, Mirror, Workshop};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Tests, as `PACKAGE/TARGET`, that would take longer by more than the compiler takes to optimise them.
const OPTIMISED: [&str; 7] = [
    "abide-agents/abide_agents",
    "abide-fuzz/corpus",
    "abide-journal/schedules",
    "abide-local/runner",
    "abide-tokens/abide_tokens",
    "abide-transcript/abide_transcript",
    // It recurses so deep that the frames of code that is not optimised do not fit the stack.
    "abide-wire/forms",
];

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: sabotage: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args_os().skip(1);
    let compiler = arguments.next().ok_or("usage: abide-sabotage-rustc RUSTC ARGUMENTS…")?;
    let mut arguments = Arguments(arguments.collect());
    let Some(unit) = arguments.unit()? else {
        // Cargo asks for the version, or compiles a package that is not of this workspace.
        return Err(Command::new(compiler).args(arguments.0).exec().into());
    };

    let workshop = Workshop::of_this_program()?;
    let edits = workshop.edits(&unit.package)?;
    let mirror = workshop.mirror(&unit.root, &unit.package);
    if arguments.is_test() {
        let target = arguments.value("--crate-name").unwrap_or_default();
        if !OPTIMISED.contains(&&*format!("{}/{target}", unit.package)) {
            // The last one counts.
            arguments.0.push("-Copt-level=0".into());
        }
    }
    if unit.is_example() && !arguments.is_test() {
        if !arguments.lint_alone().status()?.success() {
            return Ok(ExitCode::FAILURE);
        }
        if let Some(program) = arguments.made() {
            fs::write(program, "")?;
        }
        arguments.add_dependencies(&workshop, &unit, &mirror)?;
        return Ok(ExitCode::SUCCESS);
    }
    let compiled_by_clippy = arguments.is_test() && (edits.is_empty() || !unit.is_of_library());
    if compiled_by_clippy {
        if !arguments.compile_and_lint().status()?.success() {
            return Ok(ExitCode::FAILURE);
        }
        if !arguments.reads_any(&unit, &edits)? {
            arguments.add_dependencies(&workshop, &unit, &mirror)?;
            return Ok(ExitCode::SUCCESS);
        }
        // A test that includes a file of the library.
    }
    let mut command = Command::new(compiler);
    if edits.is_empty() {
        command.args(&arguments.0);
    } else {
        mirror.update(&edits)?;
        let source = mirror.root().join(unit.source.strip_prefix(&unit.root)?);
        for (number, argument) in arguments.0.iter().enumerate() {
            command.arg(if number == unit.at { source.as_os_str() } else { argument });
        }
        let mut remap = mirror.root().into_os_string();
        remap.push("/=");
        command.args(["--cap-lints", "allow", "--remap-path-prefix"]).arg(remap);
    }
    if !command.status()?.success() {
        if !edits.is_empty() {
            let package = unit.package;
            eprintln!("note: {package} was compiled with deliberate breaks in it (sabotage.toml)");
        }
        return Ok(ExitCode::FAILURE);
    }
    arguments.add_dependencies(&workshop, &unit, &mirror)?;
    if compiled_by_clippy {
        return Ok(ExitCode::SUCCESS);
    }
    let scratch = workshop.scratch()?;
    let checked = arguments.check(&scratch);
    fs::remove_dir_all(&scratch)?;
    Ok(if checked? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is compiled.
struct Unit {
    /// The root of the workspace.
    root: PathBuf,
    /// The directory of the package, below `crates`.
    package: String,
    /// The file that the crate begins with.
    source: PathBuf,
    /// Which of the arguments it is.
    at: usize,
}

impl Unit {
    /// Is it the library of its package, or a program?
    fn is_of_library(&self) -> bool {
        self.is_below("src")
    }

    /// Is it an example?
    fn is_example(&self) -> bool {
        self.is_below("examples")
    }

    fn is_below(&self, directory: &str) -> bool {
        self.source.starts_with(self.root.join("crates").join(&self.package).join(directory))
    }
}

struct Arguments(Vec<OsString>);

impl Arguments {
    /// What is compiled, if it is a crate of the workspace.
    fn unit(&self) -> Result<Option<Unit>, Failure> {
        let Some(manifest_dir) = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from) else {
            return Ok(None);
        };
        let Some(root) = List::root(&manifest_dir) else { return Ok(None) };
        let package = manifest_dir.strip_prefix(root.join("crates")).ok().and_then(Path::to_str);
        let is_source = |argument: &OsString| {
            Path::new(argument).extension().is_some_and(|extension| extension == "rs")
                && !argument.as_encoded_bytes().starts_with(b"-")
        };
        let (Some(package), Some(at)) = (package, self.0.iter().position(is_source)) else {
            return Ok(None);
        };
        let source = std::env::current_dir()?.join(self.0.get(at).ok_or("no source")?);
        Ok(Some(Unit { root: root.to_owned(), package: package.to_owned(), source, at }))
    }

    /// The value of an option that is given as `NAME VALUE` or `NAME=VALUE`.
    fn value(&self, name: &str) -> Option<&str> {
        let mut words = self.0.iter().filter_map(|word| word.to_str());
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).or_else(|| {
            let mut words = self.0.iter().filter_map(|word| word.to_str());
            words.find(|word| *word == name)?;
            words.next()
        })
    }

    /// Is a test compiled?
    fn is_test(&self) -> bool {
        self.0.iter().any(|argument| argument == "--test")
    }

    /// Compiles and lints at once. Warnings are errors.
    fn compile_and_lint(&self) -> Command {
        let mut command = clippy();
        command.args(&self.0);
        command
    }

    /// Was one of the files read that have breaks?
    fn reads_any(&self, unit: &Unit, edits: &[Edit]) -> Result<bool, Failure> {
        let Some(path) = self.dep_info().filter(|_| !edits.is_empty()) else {
            return Ok(false);
        };
        let dep_info = DepInfo::new(fs::read_to_string(path)?);
        for file in dep_info.files() {
            let real = unit.root.join(&file).canonicalize()?;
            for edit in edits {
                if unit.root.join(&edit.file).canonicalize()? == real {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Tells cargo what else was read.
    fn add_dependencies(
        &self,
        workshop: &Workshop,
        unit: &Unit,
        mirror: &Mirror,
    ) -> Result<(), Failure> {
        let Some(path) = self.dep_info() else { return Ok(()) };
        let mut dep_info = DepInfo::new(fs::read_to_string(&path)?);
        dep_info.replace(&mirror.root(), &unit.root);
        // Set here, and not where cargo looks.
        dep_info.forget_variables("CLIPPY_");
        dep_info.add(&workshop.edits_file(&unit.package));
        // What was compiled is checked again when the checks change.
        dep_info.add(&workshop.wrapper());
        let lints = unit.root.join("clippy.toml");
        if lints.is_file() {
            dep_info.add(&lints);
        }
        Ok(fs::write(&path, dep_info.content())?)
    }

    /// Lints and documents the same crate. Says whether nothing was found.
    fn check(&self, scratch: &Path) -> Result<bool, Failure> {
        let checks = [Some(self.lint(scratch)), self.document(scratch)];
        for mut check in checks.into_iter().flatten() {
            let program = check.get_program().to_owned();
            let failed = |error| format!("{}: {error}", program.display());
            if !check.status().map_err(failed)?.success() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lints the same crate. Warnings are errors.
    fn lint(&self, scratch: &Path) -> Command {
        let mut command = clippy();
        command.args(self.without_output()).arg("--emit=metadata");
        command.arg("--out-dir").arg(scratch);
        command
    }

    /// Lints instead of compiling, and tells cargo what was read. Warnings are errors.
    fn lint_alone(&self) -> Command {
        let mut command = clippy();
        command.args(self.without_output()).arg("--emit=metadata,dep-info");
        if let Some(directory) = self.value("--out-dir") {
            command.arg("--out-dir").arg(directory);
        }
        command
    }

    /// Documents the same crate, unless it is a test or a build script. Warnings are errors.
    fn document(&self, scratch: &Path) -> Option<Command> {
        if self.is_test() || self.value("--crate-name")? == "build_script_build" {
            return None;
        }
        let mut command = Command::new("rustdoc");
        command.args(self.without_output()).args(["-D", "warnings"]);
        if self.value("--crate-type") == Some("bin") {
            // As cargo does: all of a program is private.
            command.args(["--document-private-items", "-Arustdoc::private-intra-doc-links"]);
        }
        command.arg("--out-dir").arg(scratch);
        Some(command)
    }

    /// The arguments without those that say what to write, and where. Cargo is not told of what a
    /// check writes.
    fn without_output(&self) -> Vec<OsString> {
        let mut kept = Vec::new();
        let mut arguments = self.0.iter();
        while let Some(argument) = arguments.next() {
            let text = argument.to_str().unwrap_or_default();
            if text == "--out-dir" || text == "--emit" {
                arguments.next();
            } else if let Some(what) = text.strip_prefix("--json=") {
                let what: Vec<&str> = what.split(',').filter(|what| *what != "artifacts").collect();
                kept.push(format!("--json={}", what.join(",")).into());
            } else if !text.starts_with("--emit=") && !text.starts_with("--out-dir=") {
                kept.push(argument.clone());
            }
        }
        kept
    }

    /// The file in which the compiler lists what it read, if it was told to.
    fn dep_info(&self) -> Option<PathBuf> {
        self.value("--emit")?.split(',').find(|what| *what == "dep-info")?;
        let mut path = self.made()?.into_os_string();
        path.push(".d");
        Some(path.into())
    }

    /// Where a program is put. What else is made has endings of its own.
    fn made(&self) -> Option<PathBuf> {
        let mut words = self.0.iter().filter_map(|word| word.to_str());
        let extra = words.find_map(|word| word.strip_prefix("extra-filename=")).unwrap_or_default();
        let name = format!("{}{extra}", self.value("--crate-name")?);
        Some(Path::new(self.value("--out-dir")?).join(name))
    }
}

/// Clippy in place of the compiler, with warnings as errors.
fn clippy() -> Command {
    let mut command = Command::new("clippy-driver");
    // As `cargo clippy -- -D warnings` hands it on.
    command.arg("rustc").env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    command
}
