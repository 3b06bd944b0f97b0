//! The whole: which file systems can be tried, shards for each, and one line for each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;

use crate::agent::beside;
use crate::arguments::Arguments;
use crate::command::{limited, run};
use crate::filesystem::FileSystem;
use crate::oracle::Fault;
use crate::shard::{self, Order, Outcome};
use crate::work::Size;

/// Cuts on a disk that lies, in each shard: half of it stands still, half is kept by chance.
const LIES: usize = 6;

pub(crate) fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match (&arguments.room, &arguments.trace) {
        (Some(room), _) => in_own_mounts(&arguments, room),
        (None, Some(_)) => replay(&arguments),
        (None, None) => all(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn binary(arguments: &Arguments) -> Result<PathBuf, String> {
    let path = arguments.abide.clone().map_or_else(beside, Ok)?;
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
}

/// A part of a run, in mounts that nobody else sees.
fn in_own_mounts(arguments: &Arguments, room: &Path) -> Result<(), String> {
    guard(600 + 20 * arguments.cuts as u64);
    let binary = binary(arguments)?;
    if let (Some(trace), Some(cut)) = (&arguments.trace, arguments.cut) {
        return shard::again(trace, cut, &binary, room);
    }
    let kind = *arguments.kinds.first().ok_or("a shard has one file system")?;
    let order = Order {
        kind,
        seed: arguments.seed,
        cuts: arguments.cuts,
        lies: LIES,
        size: Size { events: arguments.events, generations: arguments.generations },
        binary,
        room: room.to_owned(),
        traces: arguments.traces.clone(),
    };
    if arguments.probe {
        return shard::probe(&order);
    }
    let outcome = shard::run(&order)?;
    println!("{}", serde_json::to_string(&outcome).map_err(|error| error.to_string())?);
    Ok(())
}

/// A directory that goes when the run ends.
struct Room(PathBuf);

impl Room {
    fn new(name: &str) -> Result<Self, String> {
        // In memory, where that is to be had.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = parent.join(format!("abide-powercut-{}-{name}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// This program once more, in a mount namespace. What it mounts ends with it, and it ends with this
/// process; `unshare` stays until then, so that the server of the disk is gone before the mounts are.
fn shard(room: &Path) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]);
    command.args(["--fork", "--kill-child"]).arg(own).arg("--room").arg(room);
    Ok(command)
}

/// Ends this process when it takes too long: the last guard against a hang.
fn guard(seconds: u64) {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds));
        eprintln!("Error: no end after {seconds} seconds");
        std::process::exit(1);
    });
}

fn replay(arguments: &Arguments) -> Result<(), String> {
    let room = Room::new("again")?;
    let mut command = shard(&room.0)?;
    command.args(std::env::args_os().skip(1));
    let done = run(command, b"")?;
    println!("{}", done.text());
    if done.succeeded() {
        println!("cut {}: nothing lost, nothing damaged", arguments.cut.unwrap_or_default());
        return Ok(());
    }
    Err(done.errors.trim_start_matches("Error: ").trim().to_owned())
}

/// Why nothing can be tried here, where it is so.
fn unable() -> Option<String> {
    let mut id = limited("id");
    id.arg("-u");
    if run(id, b"").is_ok_and(|done| done.text() != "0") {
        return Some("needs root, for loop devices and mounts".to_owned());
    }
    for needed in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(needed).exists() {
            return Some(format!("there is no {needed}"));
        }
    }
    None
}

/// Why this file system cannot be tried here, where it is so.
fn skipped(kind: FileSystem, arguments: &Arguments) -> Result<Option<String>, String> {
    if let Some(why) = unable().or_else(|| kind.missing()) {
        return Ok(Some(why));
    }
    let room = Room::new("probe")?;
    let mut command = shard(&room.0)?;
    command.args(["--probe", "--fs", kind.name(), "--abide"]).arg(binary(arguments)?);
    let done = run(command, b"")?;
    Ok((!done.succeeded()).then(|| format!("it cannot be mounted: {}", done.errors.trim())))
}

fn all(arguments: &Arguments) -> Result<(), String> {
    let kinds = if arguments.kinds.is_empty() { &FileSystem::ALL[..] } else { &arguments.kinds };
    let mut able = Vec::new();
    for kind in kinds {
        match skipped(*kind, arguments)? {
            Some(why) => println!("{}: skipped: {why}", kind.name()),
            None => able.push(*kind),
        }
    }
    if able.is_empty() {
        println!("power cuts: skipped: no file system can be tried here");
        return Ok(());
    }
    let (mut done, mut bad) = (0, 0);
    for (place, kind) in able.iter().enumerate() {
        let cuts = (arguments.cuts - done).div_ceil(able.len() - place);
        let told = one(arguments, *kind, cuts)?;
        done += told.cuts;
        bad += usize::from(!told.good);
    }
    if bad > 0 {
        return Err(format!("power cuts failed on {bad} of {} file systems", able.len()));
    }
    if done < arguments.cuts {
        return Err(format!("{done} cuts were made, {} were asked for", arguments.cuts));
    }
    println!("power cuts: {done} on {} file systems, none lost anything", able.len());
    Ok(())
}

struct Told {
    cuts: usize,
    good: bool,
}

/// All shards of a file system.
fn one(arguments: &Arguments, kind: FileSystem, cuts: usize) -> Result<Told, String> {
    let name = kind.name();
    let shards = arguments.shards.clamp(1, cuts.max(1));
    let outcomes: Vec<Result<Outcome, String>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..shards)
            .map(|number| {
                let cuts = cuts / shards + usize::from(number < cuts % shards);
                let seed = arguments.seed.wrapping_mul(16) + number as u64;
                scope.spawn(move || one_shard(arguments, kind, cuts, seed, number))
            })
            .collect();
        let ended = |_| Err("a thread of the harness ended by itself".to_owned());
        running.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect()
    });
    let mut told = Told { cuts: 0, good: true };
    let (mut lost, mut damaged, mut lossy, mut same) = (0, 0, 0, 0);
    let (mut writes, mut flushes, mut answers) = (0, 0, 0);
    let (mut stands, mut lies) = ((0, 0), (0, 0));
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                let seed = arguments.seed;
                println!("{name}: seed {seed}, shard {number}: {error}");
                println!("  the same seed: ABIDE_SEED={seed} scripts/powercuts --fs {name}");
                told.good = false;
                continue;
            }
        };
        for (cut, fault) in &outcome.faults {
            match fault {
                Fault::Lost(_) => lost += 1,
                _ => damaged += 1,
            }
            let seed = arguments.seed;
            let trace = outcome.trace.as_deref().unwrap_or(Path::new("?")).display();
            println!("{name}: seed {seed}, shard {number}, cut {cut}: {fault:?}");
            println!("  this cut again: scripts/powercuts --trace {trace} --cut {cut}");
            println!("  the same seed:  ABIDE_SEED={seed} scripts/powercuts --fs {name}");
        }
        if arguments.verbose {
            outcome.lies_said.iter().for_each(|said| println!("{name}: lying disk: {said}"));
            println!("{name}: warnings of doctor: {:?}", outcome.warnings);
        }
        told.cuts += outcome.cuts;
        lossy += outcome.lossy;
        same += outcome.same_device;
        writes += outcome.writes;
        flushes += outcome.flushes;
        answers += outcome.acknowledged;
        stands = (stands.0 + outcome.stands.0, stands.1 + outcome.stands.1);
        lies = (lies.0 + outcome.lies.0, lies.1 + outcome.lies.1);
    }
    println!(
        "{name}: {} cuts, {lost} lost, {damaged} damaged ({lossy} cuts took or tore writes, {same} on the \
         same device; {writes} writes, {flushes} flushes, {answers} answers; lying disk noticed \
         {} of {} standing, {} of {} by chance)",
        told.cuts, stands.1, stands.0, lies.1, lies.0
    );
    told.good &= lost + damaged == 0;
    // A run in which little could have been lost shows little.
    if lossy < told.cuts / 5 {
        println!("{name}: only {lossy} of {} cuts took anything", told.cuts);
        told.good = false;
    }
    if stands.1 < stands.0 || stands.0 == 0 || lies.1 == 0 {
        println!("{name}: a disk that lies about its flushes was not noticed");
        told.good = false;
    }
    Ok(told)
}

fn one_shard(
    arguments: &Arguments,
    kind: FileSystem,
    cuts: usize,
    seed: u64,
    number: usize,
) -> Result<Outcome, String> {
    let room = Room::new(&format!("{}-{number}", kind.name()))?;
    let mut command = shard(&room.0)?;
    command.args(["--fs", kind.name(), "--cuts", &cuts.to_string(), "--seed", &seed.to_string()]);
    command.args(["--events", &arguments.events.to_string()]);
    command.args(["--generations", &arguments.generations.to_string()]);
    command.arg("--abide").arg(binary(arguments)?).arg("--traces").arg(&arguments.traces);
    let done = run(command, b"")?;
    if !done.succeeded() {
        return Err(format!("{:?}: {}", done.code, done.errors.trim()));
    }
    serde_json::from_slice(&done.out).map_err(|error| format!("{error}: {}", done.text()))
}
