//! What an agent does in each turn: one message is appended, then the context is loaded.
//!
//! Every peer's session is built in one go, to the length that is asked for. Then everybody takes
//! turns in processes of their own, round by round; the clock runs over the turns alone.

use std::path::Path;

use tempfile::TempDir;

use crate::Outcome;
use crate::bench::{Bench, Scale};
use crate::figure::{Better, Figure, Target, median, rounded};
use crate::peers::entrant::{Entrant, Inside, Side, Starter};
use crate::peers::work::{Operation, ask, write_messages};

/// How many messages a session has.
pub(crate) const COUNTS: [usize; 3] = [100, 10_000, 100_000];
/// How many a context has.
pub(crate) const CONTEXT: usize = 100;
/// How many turns a process takes.
const TURNS: usize = 20;
/// More than any session has.
const EVERYTHING: usize = 1 << 40;
/// At 100,000 messages the time may be this many times that at 100.
const FLAT: f64 = 1.5;

/// One that takes part.
#[derive(Debug)]
pub(crate) struct Contestant {
    pub(crate) entrant: Entrant,
    /// What it does, for the table.
    pub(crate) does: &'static str,
    /// How many messages it loads; all, where it cannot do otherwise or is asked to.
    limit: Option<usize>,
    /// How many turns a process takes at each of [`COUNTS`].
    turns: [usize; 3],
}

impl Contestant {
    const fn new(entrant: Entrant, does: &'static str, limit: Option<usize>) -> Self {
        Self { entrant, does, limit, turns: [TURNS; 3] }
    }

    /// For one whose turns are long.
    const fn taking(self, turns: [usize; 3]) -> Self {
        Self { turns, ..self }
    }
}

const OPENAI: [&str; 2] = ["openai_agents", "openai_session.py"];

/// Everyone, in the order of the table.
const CONTESTANTS: [Contestant; 8] = [
    Contestant::new(
        Entrant::inside("raw", "raw, Rust", Side::Raw, Inside::Raw),
        "a line, `fdatasync`; reads the end of the file and decodes the last 100 lines",
        Some(CONTEXT),
    ),
    Contestant::new(
        Entrant::inside("abide", "**abide**", Side::Ours, Inside::Abide),
        "`append` and `wait`, synced; `context`, rendered for OpenAI",
        Some(CONTEXT),
    ),
    Contestant::new(
        Entrant::inside("abide-buffered", "**abide**, buffered", Side::Ours, Inside::AbideBuffered),
        "the same, without a sync",
        Some(CONTEXT),
    ),
    Contestant::new(
        Entrant::inside("sqlite", "SQLite WAL FULL, Rust", Side::Theirs, Inside::Sqlite),
        "`INSERT`; `SELECT` of the last 100",
        Some(CONTEXT),
    ),
    Contestant::new(
        Entrant::python("openai-agents", "OpenAI Agents SDK, last 100", Side::Theirs, OPENAI),
        "`add_items` of one; `get_items(limit=100)`",
        Some(CONTEXT),
    ),
    Contestant::new(
        Entrant::python("openai-agents-all", "OpenAI Agents SDK, all", Side::Theirs, OPENAI),
        "`add_items` of one; `get_items()`",
        None,
    )
    .taking([TURNS, TURNS, 3]),
    Contestant::new(
        Entrant::python(
            "openhands",
            "OpenHands SDK, EventLog",
            Side::Theirs,
            ["openhands", "openhands_log.py"],
        ),
        "`append` of an event; the last 100 events",
        Some(CONTEXT),
    ),
    Contestant::new(
        Entrant::python(
            "langgraph",
            "LangGraph, SqliteSaver",
            Side::Theirs,
            ["langgraph", "langgraph_saver.py"],
        ),
        "`put` of a checkpoint with one message more; `get_tuple`",
        None,
    )
    .taking([TURNS, 5, 1]),
];

/// What one has shown, at each number of messages.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) contestant: &'static Contestant,
    pub(crate) version: Option<String>,
    /// A turn.
    pub(crate) turns: [Figure; 3],
    /// The context alone.
    pub(crate) contexts: [Vec<f64>; 3],
}

impl Shown {
    fn new(contestant: &'static Contestant, version: Option<String>) -> Self {
        let name = contestant.entrant.name;
        let turns = COUNTS.map(|count| {
            Figure::new(format!("peers.turn.{count}.{name}"), "ms", Better::Lower, Target::None)
        });
        Self { contestant, version, turns, contexts: Default::default() }
    }

    /// The time at the largest number of messages over that at the smallest, by the medians.
    pub(crate) fn growth(&self) -> f64 {
        let [few, _, many] = &self.turns;
        many.median() / few.median()
    }
}

/// Lets everybody take turns; says who could not, and why.
pub(crate) fn measure(bench: &Bench, starter: &Starter) -> Outcome<(Vec<Shown>, Vec<String>)> {
    let (mut shown, mut absent) = (Vec::new(), Vec::new());
    for contestant in &CONTESTANTS {
        let about = contestant.entrant.process(starter).and_then(|process| {
            ask(process, Operation::About, Path::new("."), Path::new("."), &[0, 0])
        });
        match about {
            Ok(about) => shown.push(Shown::new(contestant, about.version)),
            Err(reason) => {
                bench.skip(&format!("peers.turn.{}", contestant.entrant.name), &reason.to_string());
                absent.push(format!("Not run: {}: {reason}.", contestant.entrant.title));
            }
        }
    }
    for (size, count) in COUNTS.into_iter().enumerate() {
        let count = if bench.scale == Scale::Full { count } else { (count / 20).max(CONTEXT) };
        run(bench, starter, (size, count), &mut shown)?;
    }
    for shown in &shown {
        for (figure, contexts) in shown.turns.iter().zip(&shown.contexts) {
            let mut figure = figure.clone();
            figure.note("context_ms", rounded(median(contexts)));
            bench.report(&figure)?;
        }
        if shown.contestant.entrant.side == Side::Ours {
            let name = format!("peers.turn.flat.{}", shown.contestant.entrant.name);
            let mut flat = Figure::new(name, "ms/ms", Better::Lower, Target::AtMost(FLAT));
            flat.push(shown.growth());
            bench.report(&flat)?;
        }
    }
    Ok((shown, absent))
}

fn run(
    bench: &Bench,
    starter: &Starter,
    (size, count): (usize, usize),
    shown: &mut [Shown],
) -> Outcome {
    let dir = bench.fresh()?;
    let messages = dir.path().join("messages.jsonl");
    write_messages(bench.text(), count + TURNS * (bench.rounds + 1), &messages)?;
    eprintln!("turns at {count} messages: building");
    let mut dirs: Vec<TempDir> = Vec::new();
    for shown in shown.iter() {
        let dir = bench.fresh()?;
        let process = shown.contestant.entrant.process(starter)?;
        ask(process, Operation::Build, dir.path(), &messages, &[count, CONTEXT])?;
        dirs.push(dir);
    }
    for round in 0..=bench.rounds {
        eprintln!("turns at {count} messages, round {round} of {}", bench.rounds);
        let mut raw = f64::NAN;
        for (shown, dir) in shown.iter_mut().zip(&dirs) {
            let turns = shown.contestant.turns[size];
            let now = count + round * turns;
            let limit = shown.contestant.limit.unwrap_or(EVERYTHING);
            let process = shown.contestant.entrant.process(starter)?;
            let numbers = [now, limit, turns];
            let answer = ask(process, Operation::Turns, dir.path(), &messages, &numbers)?;
            if shown.contestant.entrant.side == Side::Raw {
                raw = answer.ms;
            }
            // The first round is there to warm up.
            if round > 0 {
                shown.turns[size].push_with_raw(answer.ms, raw);
                shown.contexts[size].extend(answer.context_ms);
            }
        }
    }
    Ok(())
}
