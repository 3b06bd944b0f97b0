//! Breaks the code on purpose, one way after the other, and sees whether a test notices.
//!
//! Two workers, each on a copy of the tree and with a build of its own, below the target
//! directory. A break that does not compile, whose text is not found, or whose tests do not run is
//! a fault of the list and fails the run as well.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
struct List {
    #[serde(rename = "break")]
    breaks: Vec<Break>,
}

#[derive(Deserialize)]
struct Break {
    name: String,
    file: PathBuf,
    find: String,
    replace: String,
    /// What `cargo test` is given: the package, the target, and which of its tests.
    tests: Vec<String>,
    /// It is noticed by a test that never ends.
    #[serde(default)]
    hangs: bool,
    /// A program without which its test is skipped.
    needs: Option<String>,
}

enum Verdict {
    Caught,
    /// Why there is nothing to say.
    Skipped(String),
    Missed(String),
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let list = fs::read_to_string(root.join("crates/abide-testkit/sabotage.toml"))?;
    let List { breaks } = toml::from_str(&list)?;
    let only = std::env::args().nth(1);
    let mut chosen: Vec<(usize, &Break)> = breaks.iter().enumerate().collect();
    chosen.retain(|(_, one)| only.as_ref().is_none_or(|only| one.name.contains(only.as_str())));
    if let Some((share, of)) = share()? {
        chosen.retain(|(number, _)| number % of == share);
        println!("sabotage: share {share} of {of}, {} of {} breaks", chosen.len(), breaks.len());
    }
    // What is built anew for one break need not be for the next of the same tests and file.
    chosen.sort_by_key(|(_, one)| (one.tests.iter().take(4).collect::<Vec<_>>(), &one.file));
    let queue = Mutex::new(VecDeque::from(chosen));

    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let workers = [0, 1].map(|number| Worker {
        number,
        tree: target.join(format!("sabotage/tree{number}")),
        build: target.join(format!("sabotage/build{number}")),
    });
    for worker in &workers {
        worker.copy_tree(&root)?;
    }
    // The second begins with what the first has built of other people's code.
    let [first, second] = &workers;
    if !second.build.exists() && queue.lock().is_ok_and(|queue| queue.len() > 1) {
        let begun = Instant::now();
        for package in ["abide-local", "abide-cli"] {
            if first.build_tests(&["-p", package, "--test", "runner"])?.is_none() {
                return Err("the tests do not build as they are".into());
            }
        }
        copy(&first.build, &second.build)?;
        println!("sabotage: built what others made in {} s", begun.elapsed().as_secs());
    }
    let counts = std::thread::scope(|scope| -> Result<[u32; 3], Failure> {
        let queue = &queue;
        let working = workers.iter().map(|worker| scope.spawn(|| worker.work(queue)));
        let mut all = [0; 3];
        for worker in working.collect::<Vec<_>>() {
            let counts = worker.join().map_err(|_| "a worker has ended badly")??;
            for (sum, count) in all.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        Ok(all)
    });
    let [caught, skipped, missed] = counts?;
    println!("sabotage: {caught} caught, {skipped} skipped, {missed} not");
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

/// A copy of the tree, and where it is built.
struct Worker {
    number: usize,
    tree: PathBuf,
    build: PathBuf,
}

impl Worker {
    fn copy_tree(&self, root: &Path) -> Result<(), Failure> {
        if self.tree.exists() {
            fs::remove_dir_all(&self.tree)?;
        }
        copy(&root.join("crates"), &self.tree.join("crates"))?;
        for file in ["Cargo.toml", "Cargo.lock"] {
            fs::copy(root.join(file), self.tree.join(file))?;
        }
        Ok(())
    }

    /// How many were caught, skipped, missed. One worker begins at either end of the list.
    fn work(&self, queue: &Mutex<VecDeque<(usize, &Break)>>) -> Result<[u32; 3], Failure> {
        let mut counts = [0; 3];
        let next = || {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            if self.number == 0 { queue.pop_front() } else { queue.pop_back() }
        };
        while let Some((number, one)) = next() {
            let begun = Instant::now();
            let (verdict, built) = self.attempt(one)?;
            let (which, said) = match verdict {
                Verdict::Caught => (0, "caught".to_owned()),
                Verdict::Skipped(why) => (1, format!("skipped: {why}")),
                Verdict::Missed(why) => (2, why),
            };
            if let Some(count) = counts.get_mut(which) {
                *count += 1;
            }
            println!(
                "{:>2}. {}: {said} ({:.1} s, {:.1} s of it to build)",
                number + 1,
                one.name,
                begun.elapsed().as_secs_f64(),
                built.as_secs_f64()
            );
        }
        Ok(counts)
    }

    /// Breaks, builds, runs the tests, and mends; and how long the build took.
    fn attempt(&self, one: &Break) -> Result<(Verdict, Duration), Failure> {
        let nothing = |verdict| Ok((verdict, Duration::ZERO));
        if let Some(needs) = &one.needs
            && Command::new(needs).arg("--version").output().is_err()
        {
            return nothing(Verdict::Skipped(format!("there is no {needs}")));
        }
        let path = self.tree.join(&one.file);
        let whole = fs::read_to_string(&path)?;
        if whole.matches(one.find.as_str()).count() != 1 {
            let why = "NOT APPLIED: its text does not stand exactly once in the file";
            return nothing(Verdict::Missed(why.to_owned()));
        }
        fs::write(&path, whole.replacen(one.find.as_str(), &one.replace, 1))?;
        let begun = Instant::now();
        let (target, filters) = split(&one.tests);
        let built = self.build_tests(&target);
        let took = begun.elapsed();
        let verdict = match built {
            Ok(Some(tests)) => run_tests(&tests, filters, one.hangs),
            Ok(None) => Ok(Verdict::Missed("NOT APPLIED: it does not compile".to_owned())),
            Err(error) => Err(error),
        };
        fs::write(&path, whole)?;
        Ok((verdict?, took))
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO"));
        command
            .args(arguments)
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.build)
            .env("CARGO_INCREMENTAL", "1")
            // Nobody debugs these builds, and linking is most of the work.
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        command
    }

    /// The tests' binary and their package's place, or none when it does not compile.
    fn build_tests(&self, target: &[&str]) -> Result<Option<Tests>, Failure> {
        // Cargo chooses the features of other people's code by the packages it is asked for, and
        // builds it anew for each choice. With this one, which has no such tests, it does not.
        let companion = if target.ends_with(&["runner"]) { &[][..] } else { &["-p", "abide-cli"] };
        let built = self
            .cargo(&["test", "--no-run", "--message-format", "json"])
            .args(target)
            .args(companion)
            .stderr(Stdio::null())
            .output()?;
        if !built.status.success() {
            return Ok(None);
        }
        let messages = String::from_utf8_lossy(&built.stdout);
        let mut found = None;
        for message in messages.lines() {
            let message: Artifact = serde_json::from_str(message)?;
            if let Some(binary) = message.executable
                && message.profile.is_some_and(|profile| profile.test)
                && let Some(package) = message.manifest_path.as_deref().and_then(Path::parent)
            {
                found = Some(Tests { binary, package: package.to_owned() });
            }
        }
        found.map(Some).ok_or_else(|| "cargo names no binary".into())
    }
}

/// A binary of tests, and where its package is.
struct Tests {
    binary: PathBuf,
    package: PathBuf,
}

/// Runs the tests until the first fails.
fn run_tests(tests: &Tests, filters: &[String], hangs: bool) -> Result<Verdict, Failure> {
    let mut child = Command::new(&tests.binary)
        .args(filters)
        .args(["--test-threads", "2"])
        .current_dir(&tests.package)
        .env_remove("ABIDE_FAULTS")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let lines = child.stdout.take().map(BufReader::new).ok_or("no output")?;
    let child = Arc::new(Mutex::new(child));
    let (ended, watched) = std::sync::mpsc::channel::<()>();
    let watching = {
        let child = child.clone();
        std::thread::spawn(move || {
            let late = watched.recv_timeout(PATIENCE).is_err();
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
    Ok(match (failed || !status.success(), late) {
        (true, false) if !ran => Verdict::Missed("NOT APPLIED: its tests do not run".to_owned()),
        (true, true) if !hangs => Verdict::Missed("NOT CAUGHT: its test hangs".to_owned()),
        (true, _) => Verdict::Caught,
        (false, _) if !ran => Verdict::Missed("NOT APPLIED: there is no such test".to_owned()),
        (false, _) => Verdict::Missed("NOT CAUGHT".to_owned()),
    })
}

/// One of cargo's messages.
#[derive(Deserialize)]
struct Artifact {
    profile: Option<Profile>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Profile {
    #[serde(default)]
    test: bool,
}

fn still_runs(child: &Mutex<Child>) -> bool {
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    child.try_wait().is_ok_and(|status| status.is_none())
}

fn kill(child: &Mutex<Child>) {
    let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
}

/// What is for cargo, and what is for the tests' binary.
fn split(tests: &[String]) -> (Vec<&str>, &[String]) {
    let mut at = 0;
    while let Some(word) = tests.get(at).filter(|word| word.starts_with('-')) {
        at += if word == "--lib" { 1 } else { 2 };
    }
    let (target, filters) = tests.split_at(at.min(tests.len()));
    (target.iter().map(String::as_str).collect(), filters)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        // Of what was built for a tree at another place, this is of no use.
        if entry.file_name() == "incremental" {
            continue;
        }
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            // What was built is taken for old when it seems older than what it was built from.
            let time = entry.metadata()?.modified()?;
            fs::File::options().write(true).open(&target)?.set_modified(time)?;
        }
    }
    Ok(())
}
