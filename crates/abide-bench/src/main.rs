//! Measures abide against the disk it runs on, and says which targets are met.
//!
//! Every figure is one line of JSON on stdout; a table for people follows on stderr. What can be
//! set against a raw measure is: the raw measure is taken in the same round, in turns with ours,
//! so that the noise of the machine falls on both.

mod append;
mod bench;
mod calibration;
mod child;
mod counting;
mod figure;
mod fixture;
mod history;
mod million;
mod open;
mod record;
mod size;
mod stream;
mod text;
mod verify;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::bench::{Bench, Scale};

/// What a measurement gives, or why it could not be made.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Measures abide against the disk it runs on.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Only groups of figures whose name contains one of these: `append`, `open.last200`, …
    filter: Vec<String>,
    /// Where the stores are made; removed afterwards. Beside this program, unless said otherwise.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How often each figure is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Everything twenty times smaller: to see that it runs, not how fast.
    #[arg(long)]
    quick: bool,
    /// The `abide` program; the one beside this program, unless said otherwise.
    #[arg(long)]
    abide: Option<PathBuf>,
    #[command(subcommand)]
    child: Option<Child>,
}

#[derive(Debug, Subcommand)]
enum Child {
    /// One measurement, in a process of its own.
    #[command(hide = true)]
    Child(child::Task),
}

/// Measures a group of figures.
type Measure = fn(&Bench) -> Outcome;

/// The groups of figures, in the order they are measured.
const GROUPS: [(&str, Measure); 11] = [
    ("append.one", append::one),
    ("append.sessions64", append::sessions),
    ("append.shared64", append::shared),
    ("append.million", million::measure),
    ("open.last200", open::measure),
    ("record.start", record::measure),
    ("read.stream", stream::measure),
    ("verify", verify::measure),
    ("size", size::measure),
    ("history.search", history::search),
    ("history.start", history::start),
];

fn main() -> Outcome {
    let arguments = Arguments::parse();
    if let Some(Child::Child(task)) = &arguments.child {
        return child::run(task);
    }
    let program = std::env::current_exe()?;
    let beside = program.parent().ok_or("this program is nowhere")?;
    let scale = if arguments.quick { Scale::Quick } else { Scale::Full };
    let dir = arguments.dir.unwrap_or_else(|| beside.to_owned());
    let abide = arguments.abide.unwrap_or_else(|| beside.join("abide"));
    let bench = Bench::new(dir, arguments.rounds.max(1), scale, abide);
    for (name, measure) in GROUPS {
        let chosen = arguments.filter.is_empty()
            || arguments.filter.iter().any(|part| name.contains(part.as_str()));
        if chosen {
            eprintln!("measuring {name}");
            measure(&bench)?;
        }
    }
    bench.summarise();
    Ok(())
}
