//! The same work done by abide and by its peers, in turns, in one run.
//!
//! Every measurement is a process of its own. Appends stand between two runs of the raw measure
//! and are set against both; reading is repeated, everybody in turn, and set against the raw
//! measure's median of the same round.

mod append_table;
mod appends;
mod clock;
mod entrant;
mod library;
mod many_table;
mod pipe;
mod places;
mod raw;
mod sqlite;
mod syncs;
mod table;
mod turn_table;
mod turns;
mod work;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use tempfile::TempDir;

use crate::Outcome;
use crate::bench::{Bench, Scale, bytes_below, room_below};
use crate::calibration::millis;
use crate::figure::{Better, Figure, Target, median};
use crate::image::Images;
use crate::peers::entrant::{ENTRANTS, Inside};
pub(crate) use crate::peers::entrant::{Entrant, Side, Starter};
use crate::peers::table::Table;
pub(crate) use crate::peers::work::{Answer, Operation, ask, write_messages};

/// How many messages.
const COUNTS: [usize; 2] = [1000, 10_000];
/// An append run is done again when the raw measures before and after it differ by more than this,
/// whatever it showed itself; so often at most.
const STEADY: f64 = 1.3;
const ATTEMPTS: usize = 5;
/// How many are the last.
const LAST: usize = 200;
/// Reading is measured so often in a round, and once where a process takes longer than this.
const EACH: usize = 3;
const LONG_MS: f64 = 2000.0;
/// The raw measure between two others has so many appends.
const BETWEEN: usize = 1000;

/// What to compare with, and where to write it down.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where `scripts/bench-peers` made the virtual environments.
    #[arg(long)]
    venv: PathBuf,
    /// Only this part; can be given more than once.
    #[arg(long)]
    only: Vec<Part>,
    /// Appends and many at once also on ext4, xfs and btrfs of their own, in memory. Needs root.
    #[arg(long)]
    images: bool,
    #[command(flatten)]
    pub(crate) setting: crate::Setting,
}

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Appends alone, against raw files that grow and that are extended.
    Appends,
    /// Many sessions and many threads at once, and a session of a million events.
    Many,
    /// Appending and reading a whole session, by everybody.
    Whole,
    /// The turns of an agent.
    Turns,
}

impl Arguments {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// One measurement of one peer, in a process of its own.
#[derive(Debug, Args)]
pub(crate) struct Single {
    peer: Inside,
    #[command(flatten)]
    task: work::Task,
}

pub(crate) fn run_one(single: &Single) -> Outcome {
    single.task.run(single.peer.peer())
}

/// An entrant that can be run.
#[derive(Debug)]
pub(crate) struct Present {
    pub(crate) entrant: &'static Entrant,
    pub(crate) about: Answer,
    pub(crate) syncs: Option<f64>,
}

/// What one entrant has shown at one number of messages.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) append: Figure,
    pub(crate) load: Figure,
    /// Loading, from the start of the process to its end.
    pub(crate) whole: Figure,
    pub(crate) last: Figure,
    /// Bytes of files.
    pub(crate) size: Figure,
    /// Bytes that the file system set aside.
    pub(crate) room: Figure,
    /// How many append runs were done again, and how many stand though the disk was unsteady.
    pub(crate) repeated: usize,
    pub(crate) unsteady: usize,
}

impl Shown {
    fn new(count: usize, name: &str) -> Self {
        let figure = |what: &str, unit, better| {
            Figure::new(format!("peers.{count}.{what}.{name}"), unit, better, Target::None)
        };
        Self {
            append: figure("append", "appends/s", Better::Higher),
            load: figure("load", "ms", Better::Lower),
            whole: figure("load_process", "ms", Better::Lower),
            last: figure("last200", "ms", Better::Lower),
            size: figure("size", "bytes/byte", Better::Lower),
            room: figure("room", "bytes/byte", Better::Lower),
            repeated: 0,
            unsteady: 0,
        }
    }

    fn figures(&self) -> [&Figure; 6] {
        [&self.append, &self.load, &self.whole, &self.last, &self.size, &self.room]
    }
}

pub(crate) fn measure(bench: &Bench, arguments: &Arguments) -> Outcome {
    let starter =
        Starter { environments: arguments.venv.canonicalize()?, abide: bench.abide.clone() };
    // It may start this program anew, so it comes first.
    let images = arguments.images.then(|| {
        let program = std::env::current_exe().unwrap_or_default();
        Images::prepare(&[bench.dir(), &starter.environments, &program, Path::new(".")])
    });
    if arguments.wants(Part::Appends) || arguments.wants(Part::Many) {
        places::measure(bench, &starter, arguments, images)?;
    }
    if arguments.wants(Part::Whole) {
        measure_whole(bench, &starter)?;
    }
    if arguments.wants(Part::Turns) {
        let (shown, absent) = turns::measure(bench, &starter)?;
        bench.page().write("turns", &turn_table::turn_table(bench, &absent, &shown)?)?;
    }
    bench.summarise();
    Ok(())
}

fn measure_whole(bench: &Bench, starter: &Starter) -> Outcome {
    let scaled = |count: usize| match bench.scale {
        Scale::Full => count,
        Scale::Quick => count / 4,
    };
    let dir = bench.fresh()?;
    let race = Race { bench, starter, messages: dir.path().join("messages.jsonl") };
    write_messages(bench.text(), scaled(COUNTS[1]), &race.messages)?;
    let mut table = Table::new(bench)?;
    let present = race.roll_call(&mut table)?;
    for count in COUNTS {
        let taking_part: Vec<&Present> =
            present.iter().filter(|present| present.entrant.most >= count).collect();
        let shown = race.run(&taking_part, scaled(count))?;
        for shown in &shown {
            shown.figures().into_iter().try_for_each(|figure| bench.report(figure))?;
        }
        table.add(scaled(count), taking_part.into_iter().zip(shown).collect());
    }
    bench.page().write("whole", &table.to_markdown())
}

/// One run of everybody.
#[derive(Debug)]
struct Race<'a> {
    bench: &'a Bench,
    starter: &'a Starter,
    messages: PathBuf,
}

impl Race<'_> {
    /// Who is here? Who is not is in the table with the reason.
    fn roll_call(&self, table: &mut Table) -> Outcome<Vec<Present>> {
        let mut present = Vec::new();
        for entrant in &ENTRANTS {
            eprintln!("looking at {}", entrant.name);
            let about = self.ask(entrant, Operation::About, Path::new("."), [0, 0]);
            let found = about.and_then(|about| {
                let syncs = syncs::per_append(self.bench, entrant, self.starter, &self.messages)?;
                Ok(Present { entrant, about, syncs })
            });
            match found {
                Ok(found) => present.push(found),
                Err(reason) => {
                    self.bench.skip(&format!("peers.{}", entrant.name), &reason.to_string());
                    table.absent(entrant, &reason.to_string());
                }
            }
        }
        Ok(present)
    }

    fn ask(
        &self,
        entrant: &Entrant,
        operation: Operation,
        dir: &Path,
        counts: [usize; 2],
    ) -> Outcome<Answer> {
        ask(entrant.process(self.starter)?, operation, dir, &self.messages, &counts)
    }

    fn run(&self, present: &[&Present], count: usize) -> Outcome<Vec<Shown>> {
        let mut shown: Vec<Shown> =
            present.iter().map(|present| Shown::new(count, present.entrant.name)).collect();
        for round in 0..self.bench.rounds {
            eprintln!("{count} messages, round {} of {}", round + 1, self.bench.rounds);
            let dirs = self.append_all(present, count, &mut shown)?;
            self.read_all(present, count, &dirs, &mut shown)?;
        }
        for shown in &mut shown {
            shown.append.note("repeated", shown.repeated);
            shown.append.note("unsteady", shown.unsteady);
        }
        Ok(shown)
    }

    /// Gives the directories with what was appended.
    fn append_all(
        &self,
        present: &[&Present],
        count: usize,
        shown: &mut [Shown],
    ) -> Outcome<Vec<TempDir>> {
        let mut dirs = Vec::new();
        let mut before = self.raw_rate(count)?;
        for (present, shown) in present.iter().zip(shown) {
            let mut attempts = 0;
            let dir = loop {
                let dir = self.bench.fresh()?;
                let counts = [count, LAST];
                let answer = self.ask(present.entrant, Operation::Append, dir.path(), counts)?;
                let after = self.raw_rate(count)?;
                let (raw, unsteady) =
                    (f64::midpoint(before, after), before.max(after) / before.min(after));
                before = after;
                attempts += 1;
                if unsteady <= STEADY || attempts == ATTEMPTS {
                    shown.unsteady += usize::from(unsteady > STEADY);
                    shown.append.push_with_raw(count as f64 * 1e3 / answer.ms, raw);
                    break dir;
                }
            };
            shown.repeated += attempts - 1;
            let text: usize = (0..count).map(|index| self.bench.text().piece(index).len()).sum();
            shown.size.push(bytes_below(dir.path())? as f64 / text as f64);
            shown.room.push(room_below(dir.path())? as f64 / text as f64);
            dirs.push(dir);
        }
        Ok(dirs)
    }

    fn raw_rate(&self, count: usize) -> Outcome<f64> {
        let [raw, ..] = &ENTRANTS;
        let dir = self.bench.fresh()?;
        let count = count.min(BETWEEN);
        let answer = self.ask(raw, Operation::Append, dir.path(), [count, LAST])?;
        Ok(count as f64 * 1e3 / answer.ms)
    }

    fn read_all(
        &self,
        present: &[&Present],
        count: usize,
        dirs: &[TempDir],
        shown: &mut [Shown],
    ) -> Outcome {
        let mut times: Vec<[Vec<f64>; 3]> = vec![Default::default(); present.len()];
        for _ in 0..EACH {
            for ((present, dir), [load, whole, last]) in present.iter().zip(dirs).zip(&mut times) {
                if whole.iter().any(|&ms| ms > LONG_MS) {
                    continue;
                }
                let ask =
                    |operation| self.ask(present.entrant, operation, dir.path(), [count, LAST]);
                let start = Instant::now();
                load.push(ask(Operation::Load)?.ms);
                whole.push(millis(start.elapsed()));
                last.push(ask(Operation::Last)?.ms);
            }
        }
        let medians: Vec<[f64; 3]> =
            times.iter().map(|each| [&each[0], &each[1], &each[2]].map(|ms| median(ms))).collect();
        let raw = *medians.first().ok_or("nobody takes part")?;
        for (shown, own) in shown.iter_mut().zip(medians) {
            let figures = [&mut shown.load, &mut shown.whole, &mut shown.last];
            for ((figure, own), raw) in figures.into_iter().zip(own).zip(raw) {
                figure.push_with_raw(own, raw);
            }
        }
        Ok(())
    }
}
