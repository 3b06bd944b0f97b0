//! Switches on one deliberate break after the other, and sees whether a test notices.
//!
//! Usage: `sabotage [NAME] [-- CARGO ARGUMENTS]`: only the breaks whose name contains NAME; the
//! arguments with which the tests were built, so that they are not built anew.
//! `sabotage --prepare` only writes what the compiler wrapper needs, `sabotage --build` with the same
//! arguments only builds.
//!
//! A break is caught when a test of those named for it fails and the broken code has run. A break
//! that cannot be switched, whose tests do not run, or whose code they never reach is a fault of the
//! list and fails the run as well. That the tests pass without a break is for the ordinary test run
//! to show.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use abide_sabotage::{Break, List, SWITCH, Target, WITNESS, Workshop};
use serde::Deserialize;

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// How many breaks are tried at a time.
const WORKERS: usize = 2;

/// How `scripts/test` builds the tests.
const TEST_BUILD: [&str; 3] = ["--workspace", "--all-features", "--locked"];

enum Verdict {
    Caught,
    /// Why there is nothing to say.
    Skipped(String),
    Missed(&'static str),
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Failure> {
    let directory = std::env::current_dir()?;
    let root = List::root(&directory).ok_or("this is not in the workspace of abide")?;
    let list = List::read(root)?;
    let workshop = Workshop::of_this_program()?;
    workshop.write_edits(root, &list)?;
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--prepare"] {
        return Ok(true);
    }
    let only_build = arguments.first().is_some_and(|first| first == "--build");
    if only_build {
        arguments.remove(0);
    }
    let (only, build) = match arguments.iter().position(|argument| argument == "--") {
        Some(at) => (arguments.get(..at), arguments.get(at + 1..)),
        None => (Some(arguments.as_slice()), None),
    };
    if let Some(on) = std::env::var_os(SWITCH)
        && !list.breaks.iter().any(|one| on == one.name.as_str())
    {
        return Err(format!("{SWITCH} names no break: {}", on.display()).into());
    }
    let mut chosen: Vec<(usize, &Break)> = list.breaks.iter().enumerate().collect();
    match only.unwrap_or_default() {
        [] => {}
        [only] => chosen.retain(|(_, one)| one.name.contains(only.as_str())),
        _ => return Err("usage: sabotage [NAME] [-- CARGO ARGUMENTS]".into()),
    }
    if chosen.is_empty() {
        return Err("there is no such break".into());
    }
    if let Some((share, of)) = share()? {
        chosen.retain(|(number, _)| number % of == share);
        let (some, all) = (chosen.len(), list.breaks.len());
        println!("sabotage: share {share} of {of}, {some} of {all} breaks");
    }

    let begun = Instant::now();
    let build = build.map(|words| words.iter().map(String::as_str).collect::<Vec<_>>());
    let tests = Tests::build(root, &workshop, &build.unwrap_or(TEST_BUILD.to_vec()))?;
    if only_build {
        println!("sabotage: the tests were built in {} s", begun.elapsed().as_secs());
        return Ok(true);
    }

    let begun = Instant::now();
    let [caught, skipped, missed] = try_all(chosen, &tests)?;
    let took = begun.elapsed().as_secs();
    println!("sabotage: {caught} caught, {skipped} skipped, {missed} not, in {took} s");
    Ok(missed == 0 && caught > 0)
}

/// `ABIDE_SHARE=K/N`: only every N-th break, from the K-th on.
fn share() -> Result<Option<(usize, usize)>, Failure> {
    let Ok(text) = std::env::var("ABIDE_SHARE") else { return Ok(None) };
    let parsed = text.split_once('/').and_then(|(share, of)| {
        let (share, of): (usize, usize) = (share.parse().ok()?, of.parse().ok()?);
        (share < of).then_some((share, of))
    });
    Ok(Some(parsed.ok_or("ABIDE_SHARE must be like 0/4")?))
}

/// How many were caught, skipped, missed.
fn try_all(chosen: Vec<(usize, &Break)>, tests: &Tests) -> Result<[u32; 3], Failure> {
    let queue = Mutex::new(VecDeque::from(chosen));
    let counts = Mutex::new([0; 3]);
    let work = || -> Result<(), Failure> {
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some((number, one)) = next() {
            let begun = Instant::now();
            let (which, said) = match tests.attempt(number, one)? {
                Verdict::Caught => (0, "caught".to_owned()),
                Verdict::Skipped(why) => (1, format!("skipped: {why}")),
                Verdict::Missed(why) => (2, why.to_owned()),
            };
            counts.lock().unwrap_or_else(PoisonError::into_inner)[which] += 1;
            let took = begun.elapsed().as_secs_f64();
            println!("{:>3}. {}: {said} ({took:.1} s)", number + 1, one.name);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err("a worker has ended badly".into()))
        })
    })?;
    Ok(counts.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The test binaries of the workspace, built with all breaks in them.
struct Tests {
    binaries: BTreeMap<Target, Binary>,
    scratch: Scratch,
}

struct Binary {
    path: PathBuf,
    /// The directory that its tests expect to run in.
    package: PathBuf,
}

impl Tests {
    fn build(root: &Path, workshop: &Workshop, arguments: &[&str]) -> Result<Self, Failure> {
        let built = Command::new("cargo")
            .args(["test", "--no-run", "--message-format", "json-render-diagnostics"])
            .args(arguments)
            .current_dir(root)
            .env("PATH", workshop.path_variable()?)
            .env("RUSTC_WORKSPACE_WRAPPER", Workshop::WRAPPER)
            .stderr(Stdio::inherit())
            .output()?;
        if !built.status.success() {
            return Err("the tests do not build with the breaks in them".into());
        }
        let mut binaries = BTreeMap::new();
        for message in String::from_utf8_lossy(&built.stdout).lines() {
            let message: Message = serde_json::from_str(message)?;
            if let (Some(path), Some(target), Some(profile)) =
                (message.executable, message.target, message.profile)
                && profile.test
                && let Some(package) = message.manifest_path.as_deref().and_then(Path::parent)
                && let Some(name) = package.file_name().and_then(|name| name.to_str())
            {
                let test = match target.kind.first().map(String::as_str) {
                    Some("lib") => None,
                    Some("test") => Some(target.name),
                    _ => continue,
                };
                let binary = Binary { path, package: package.to_owned() };
                binaries.insert(Target { package: name.to_owned(), test }, binary);
            }
        }
        Ok(Self { binaries, scratch: Scratch::new()? })
    }

    /// Runs the tests of a break until the first fails.
    fn attempt(&self, number: usize, one: &Break) -> Result<Verdict, Failure> {
        if let Some(needs) = &one.needs {
            let missing = match needs.strip_prefix('$') {
                Some(name) => {
                    std::env::var_os(name).is_none().then(|| format!("{name} is not set"))
                }
                None => {
                    let found = Command::new(needs).arg("--version").output();
                    found.is_err().then(|| format!("there is no {needs}"))
                }
            };
            if let Some(missing) = missing {
                return Ok(Verdict::Skipped(missing));
            }
        }
        let (target, filters) = one.target()?;
        let Some(binary) = self.binaries.get(&target) else {
            return Ok(Verdict::Missed("NOT APPLIED: there are no such tests"));
        };
        let scratch = self.scratch.directory(number)?;
        let witness = scratch.join("witness");
        let mut command = Command::new(&binary.path);
        command
            .args(filters)
            .args(["--test-threads", "2"])
            .current_dir(&binary.package)
            .env(SWITCH, &one.name)
            .env(WITNESS, &witness)
            .env("TMPDIR", &scratch)
            // What fails on purpose is not to be tried first from now on.
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
            // A break is caught or not, whatever the seed of the run.
            .env_remove("ABIDE_SEED")
            .env_remove("ABIDE_FAULTS");
        let patience = one.hangs.map_or(PATIENCE, Duration::from_secs);
        let outcome = watch(command, patience)?;
        let reached = witness.exists();
        // What a test that was killed has left behind may still be at work.
        let _ = fs::remove_dir_all(&scratch);
        Ok(outcome.verdict(reached, one.hangs.is_some()))
    }
}

/// What the tests of a break did.
struct Outcome {
    ran: bool,
    failed: bool,
    late: bool,
}

impl Outcome {
    fn verdict(&self, reached: bool, hangs: bool) -> Verdict {
        let Self { ran, failed, late } = *self;
        match (failed, late) {
            (true, _) if !ran => Verdict::Missed("NOT APPLIED: its tests do not run"),
            (false, _) if !ran => Verdict::Missed("NOT APPLIED: there is no such test"),
            (true, _) if !reached => {
                Verdict::Missed("NOT CAUGHT: a test failed, but the broken code has not run")
            }
            (true, true) if !hangs => Verdict::Missed("NOT CAUGHT: its test hangs"),
            (true, _) => Verdict::Caught,
            (false, _) if !reached => Verdict::Missed("NOT CAUGHT: the broken code has not run"),
            (false, _) => Verdict::Missed("NOT CAUGHT"),
        }
    }
}

/// Runs tests until the first fails.
fn watch(mut command: Command, patience: Duration) -> Result<Outcome, Failure> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let lines = child.stdout.take().map(BufReader::new).ok_or("no output")?;
    let child = Arc::new(Mutex::new(child));
    let (ended, watched) = std::sync::mpsc::channel::<()>();
    let watching = {
        let child = child.clone();
        std::thread::spawn(move || {
            let late = watched.recv_timeout(patience).is_err();
            // Either it is late, or it has failed already, or it is at its end.
            let late = late && still_runs(&child);
            if late {
                kill(&child);
            }
            late
        })
    };
    let (mut failed, mut ran) = (false, false);
    for line in lines.lines().map_while(Result::ok) {
        // Said before the first: a test that takes the runner with it has run.
        ran |= line.starts_with("running ") && line != "running 0 tests";
        if line.starts_with("test ") && line.ends_with("FAILED") {
            failed = true;
            kill(&child);
            break;
        }
    }
    let status = child.lock().unwrap_or_else(PoisonError::into_inner).wait()?;
    let _ = ended.send(());
    let late = watching.join().map_err(|_| "the watch has ended badly")?;
    Ok(Outcome { ran, failed: failed || !status.success(), late })
}

fn still_runs(child: &Mutex<Child>) -> bool {
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    child.try_wait().is_ok_and(|status| status.is_none())
}

fn kill(child: &Mutex<Child>) {
    let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
}

/// Temporary directories, which are removed at the end. Their paths are short: sockets are made there.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("sabotage-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }

    fn directory(&self, number: usize) -> std::io::Result<PathBuf> {
        let dir = self.0.join(number.to_string());
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One of cargo's messages.
#[derive(Deserialize)]
struct Message {
    profile: Option<Profile>,
    target: Option<BuiltTarget>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Profile {
    #[serde(default)]
    test: bool,
}

#[derive(Deserialize)]
struct BuiltTarget {
    kind: Vec<String>,
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports of a test runner, as a shell writes them, and whether the broken code ran.
    fn verdict(script: &str, reached: bool, hangs: bool) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let patience = Duration::from_millis(if script.contains("sleep") { 500 } else { 60_000 });
        match watch(command, patience).unwrap().verdict(reached, hangs) {
            Verdict::Caught => "caught".to_owned(),
            Verdict::Skipped(why) => why,
            Verdict::Missed(why) => why.to_owned(),
        }
    }

    #[test]
    fn a_break_is_caught_by_a_test_that_fails_in_broken_code() {
        let fails = "echo running 1 test; echo 'test a ... FAILED'; exit 101";
        assert_eq!(verdict(fails, true, false), "caught");
        // The first that fails is enough.
        let goes_on = "echo running 2 tests; echo 'test a ... FAILED'; exec sleep 600";
        assert_eq!(verdict(goes_on, true, false), "caught");
        assert_eq!(verdict("echo running 1 test; kill -9 $$", true, false), "caught");
        let why = "NOT CAUGHT: a test failed, but the broken code has not run";
        assert_eq!(verdict(fails, false, false), why);
    }

    #[test]
    fn a_break_that_no_test_notices_is_told() {
        let passes = "echo running 1 test; echo 'test a ... ok'";
        assert_eq!(verdict(passes, true, false), "NOT CAUGHT");
        assert_eq!(verdict(passes, false, false), "NOT CAUGHT: the broken code has not run");
        assert_eq!(verdict(passes, true, true), "NOT CAUGHT");
        let none = "NOT APPLIED: there is no such test";
        assert_eq!(verdict("echo running 0 tests", false, false), none);
        assert_eq!(verdict("exit 127", false, false), "NOT APPLIED: its tests do not run");
    }

    #[test]
    fn a_test_that_hangs_is_caught_only_where_that_is_expected() {
        let hangs = "echo running 1 test; exec sleep 600";
        assert_eq!(verdict(hangs, true, true), "caught");
        assert_eq!(verdict(hangs, true, false), "NOT CAUGHT: its test hangs");
        let why = "NOT CAUGHT: a test failed, but the broken code has not run";
        assert_eq!(verdict(hangs, false, true), why);
    }
}
