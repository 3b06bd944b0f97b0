//! Durable appends alone, on each file system, against a raw file that grows and against one that
//! is extended ahead, with what the device wrote.

use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::{Better, Figure, Target, median};
use crate::page::short;
use crate::peers::entrant::{ENTRANTS, Entrant, Starter};
use crate::peers::work::{Answer, Operation, ask, write_messages};
use crate::peers::{ATTEMPTS, BETWEEN, STEADY};

/// How many messages are appended.
const COUNTS: [usize; 3] = [1000, 10_000, 100_000];
/// The raw measures, and who is set against them.
const RAWS: [&str; 2] = ["raw", "raw-extended"];
const NAMES: [&str; 6] =
    ["abide", "abide-kept", "sqlite", "abide-pipe-rust", "abide-pipe", "sqlite-python"];
/// Where a file that grows takes fewer appends in a second, the longest run is left out: it would take an hour.
const SLOW: f64 = 3000.0;

/// What one has shown at one number of messages.
#[derive(Debug)]
pub(crate) struct AppendRow {
    pub(crate) count: usize,
    pub(crate) title: &'static str,
    /// Set against the raw file that grows.
    pub(crate) growing: Figure,
    /// Set against the raw file that is extended.
    pub(crate) extended: Figure,
    /// What the device wrote for each append, where that can be seen.
    pub(crate) kib: Option<Figure>,
    pub(crate) writes: Option<Figure>,
}

impl AppendRow {
    fn new(bench: &Bench, count: usize, entrant: &Entrant) -> Self {
        let figure = |what: &str, unit, better| {
            let name = format!("peers.{count}.{what}.{}", entrant.name);
            Figure::new(bench.name(&name), unit, better, Target::None)
        };
        let mut extended = figure("durable.extended", "appends/s", Better::Higher);
        extended.note("raw", "the file is extended ahead by 256 KiB at a time");
        Self {
            count,
            title: entrant.title,
            growing: figure("durable", "appends/s", Better::Higher),
            extended,
            kib: Some(figure("device", "KiB/append", Better::Lower)),
            writes: Some(figure("device.writes", "writes/append", Better::Lower)),
        }
    }

    fn push(&mut self, run: &AppendRun, [growing, extended]: [f64; 2]) {
        self.growing.push_with_raw(run.rate, growing);
        self.extended.push_with_raw(run.rate, extended);
        for (figure, value) in [(&mut self.kib, run.kib), (&mut self.writes, run.writes)] {
            match value {
                Some(value) => figure.iter_mut().for_each(|figure| figure.push(value)),
                None => *figure = None,
            }
        }
    }

    fn report(&self, bench: &Bench) -> Outcome {
        bench.report(&self.growing)?;
        bench.report(&self.extended)?;
        self.kib.iter().chain(&self.writes).try_for_each(|figure| bench.report(figure))
    }
}

/// One run of one entrant.
#[derive(Debug, Clone, Copy)]
struct AppendRun {
    rate: f64,
    kib: Option<f64>,
    writes: Option<f64>,
}

impl AppendRun {
    fn of(answer: &Answer, count: usize) -> Self {
        let each = |value: u64| value as f64 / count as f64;
        Self {
            rate: count as f64 * 1e3 / answer.ms,
            kib: answer.device.map(|device| each(device.bytes) / 1024.0),
            writes: answer.device.map(|device| each(device.writes)),
        }
    }

    /// In each value the one in the middle.
    fn middle(runs: &[Self]) -> Self {
        let of = |get: fn(&Self) -> Option<f64>| {
            let values: Vec<f64> = runs.iter().filter_map(get).collect();
            (!values.is_empty()).then(|| median(&values))
        };
        Self {
            rate: of(|run| Some(run.rate)).unwrap_or(f64::NAN),
            kib: of(|run| run.kib),
            writes: of(|run| run.writes),
        }
    }
}

/// What was measured in one place.
#[derive(Debug)]
pub(crate) struct PlaceAppends {
    pub(crate) rows: Vec<AppendRow>,
    /// What was left out because the place is slow, as a sentence.
    pub(crate) left_out: Option<String>,
}

/// Appends in one directory.
#[derive(Debug)]
pub(crate) struct Appends<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) starter: &'a Starter,
}

impl Appends<'_> {
    /// Lets everybody append. Who cannot is not in the rows.
    pub(crate) fn measure(&self) -> Outcome<PlaceAppends> {
        let dir = self.bench.fresh()?;
        let messages = dir.path().join("messages.jsonl");
        let counts = COUNTS.map(|count| self.bench.scale.of(count));
        let most = counts.into_iter().max().unwrap_or(0);
        write_messages(self.bench.text(), most, &messages)?;
        let mut rows: Vec<AppendRow> = Vec::new();
        for count in counts {
            if count == most && is_slow(&rows)? {
                let reason =
                    format!("a raw file takes fewer than {} appends a second here", short(SLOW));
                self.bench.skip(&self.bench.name(&format!("peers.{count}.durable")), &reason);
                let count = short(count as f64);
                let left_out = Some(format!("Not run: {count} messages: {reason}."));
                return Ok(PlaceAppends { rows, left_out });
            }
            let measured = self.measure_count(&messages, count)?;
            measured.iter().try_for_each(|row| row.report(self.bench))?;
            rows.extend(measured);
        }
        Ok(PlaceAppends { rows, left_out: None })
    }

    /// A line for each that cannot be run, with the reason.
    pub(crate) fn lacking(starter: &Starter) -> Outcome<Vec<String>> {
        let mut lines = Vec::new();
        for name in NAMES {
            let entrant = entrant(name)?;
            if let Err(reason) = entrant.process(starter) {
                lines.push(format!("Not run: {}: {reason}.", entrant.title));
            }
        }
        Ok(lines)
    }

    fn measure_count(&self, messages: &Path, count: usize) -> Outcome<Vec<AppendRow>> {
        let [growing, extended] = RAWS.map(entrant);
        let (growing, extended) = (growing?, extended?);
        let mut entrants = Vec::new();
        for name in NAMES {
            let entrant = entrant(name)?;
            // The table names whoever is not here.
            if entrant.process(self.starter).is_ok() {
                entrants.push(entrant);
            }
        }
        let row = |entrant: &&Entrant| AppendRow::new(self.bench, count, entrant);
        let mut raw_rows = [row(&growing), row(&extended)];
        let mut rows: Vec<AppendRow> = entrants.iter().map(row).collect();
        let raws = || -> Outcome<[AppendRun; 2]> {
            let count = count.min(BETWEEN);
            Ok([self.run(growing, messages, count)?, self.run(extended, messages, count)?])
        };
        for round in 0..self.bench.rounds {
            let place = self.bench.name("appends");
            eprintln!("{place}: {count}, round {} of {}", round + 1, self.bench.rounds);
            let mut before = raws()?;
            let mut seen = vec![before];
            for (entrant, row) in entrants.iter().zip(&mut rows) {
                for attempt in 1..=ATTEMPTS {
                    let run = self.run(entrant, messages, count)?;
                    let after = raws()?;
                    let [steady, means] = [unsteadiness, f64::midpoint]
                        .map(|of| [0, 1].map(|raw: usize| of(before[raw].rate, after[raw].rate)));
                    before = after;
                    seen.push(after);
                    if steady.iter().all(|by| *by <= STEADY) || attempt == ATTEMPTS {
                        row.push(&run, means);
                        break;
                    }
                }
            }
            let middles = [0, 1].map(|raw: usize| {
                let runs: Vec<AppendRun> = seen.iter().map(|raws| raws[raw]).collect();
                AppendRun::middle(&runs)
            });
            let rates = middles.map(|run| run.rate);
            for (row, run) in raw_rows.iter_mut().zip(&middles) {
                row.push(run, rates);
            }
        }
        Ok(raw_rows.into_iter().chain(rows).collect())
    }

    fn run(&self, entrant: &Entrant, messages: &Path, count: usize) -> Outcome<AppendRun> {
        let dir = self.bench.fresh()?;
        // What others have left to be written is not to be counted here.
        Command::new("sync").arg("-f").arg(dir.path()).status()?;
        let process = entrant.process(self.starter)?;
        let answer = ask(process, Operation::Append, dir.path(), messages, &[count, 0])?;
        Ok(AppendRun::of(&answer, count))
    }
}

/// Whether the raw file that grows was slow at the last number of messages.
fn is_slow(rows: &[AppendRow]) -> Outcome<bool> {
    let title = entrant(RAWS[0])?.title;
    let raw = rows.iter().rev().find(|row| row.title == title);
    Ok(raw.is_some_and(|row| row.growing.median() < SLOW))
}

/// How many times the larger one is the smaller.
fn unsteadiness(one: f64, other: f64) -> f64 {
    one.max(other) / one.min(other)
}

fn entrant(name: &str) -> Outcome<&'static Entrant> {
    let found = ENTRANTS.iter().find(|entrant| entrant.name == name);
    Ok(found.ok_or_else(|| format!("nobody is called {name}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, count: usize, rate: f64) -> AppendRow {
        let figure = || Figure::new("figure", "appends/s", Better::Higher, Target::None);
        let mut growing = figure();
        growing.push_with_raw(rate, rate);
        let title = entrant(name).unwrap().title;
        AppendRow { count, title, growing, extended: figure(), kib: None, writes: None }
    }

    #[test]
    fn a_place_is_slow_by_its_raw_file_at_the_last_number_of_messages() {
        let rows = |raw: f64| {
            [row("raw", 1000, 9000.0), row("raw", 10_000, raw), row("abide", 10_000, 2000.0)]
        };
        assert!(is_slow(&rows(SLOW - 1.0)).unwrap());
        assert!(!is_slow(&rows(SLOW)).unwrap());
        assert!(!is_slow(&[]).unwrap());
    }

    #[test]
    fn everybody_in_the_table_is_known() {
        for name in RAWS.iter().chain(&NAMES) {
            assert_eq!(entrant(name).unwrap().name, *name);
        }
    }
}
