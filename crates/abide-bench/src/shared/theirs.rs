//! What the peers do on the same server, each measurement in a process of its own.

use std::path::Path;

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::Target;
use crate::peers::{Answer, Entrant, Operation, Side, Starter, ask};
use crate::shared::bare::Bare;
use crate::shared::ours::text_bytes;
use crate::shared::{APPENDS, EACH, LOADED, LOADS, Round, SESSIONS, Server, Shown, settled_bytes};

/// Everyone, in the order of the figures.
const ENTRANTS: [Entrant; 3] = [
    Entrant::python(
        "langgraph",
        "LangGraph, PostgresSaver",
        Side::Theirs,
        ["langgraph_postgres", "langgraph_postgres.py"],
    ),
    Entrant::python(
        "langgraph-delta",
        "LangGraph, PostgresSaver, DeltaChannel",
        Side::Theirs,
        ["langgraph_postgres", "langgraph_delta.py"],
    ),
    Entrant::python("dbos", "DBOS, stream", Side::Theirs, ["dbos", "dbos_stream.py"]),
];

/// A peer, and the databases it loads from.
pub(crate) struct Theirs<'a> {
    bench: &'a Bench,
    server: &'a Server,
    starter: &'a Starter,
    messages: &'a Path,
    entrant: &'static Entrant,
    shown: Shown,
    version: Option<String>,
    loaded: Vec<(String, usize)>,
}

impl<'a> Theirs<'a> {
    /// Those that can be run, and a line for each that cannot, with the reason.
    pub(crate) fn prepare(
        bench: &'a Bench,
        server: &'a Server,
        starter: &'a Starter,
        messages: &'a Path,
    ) -> Outcome<(Vec<Self>, Vec<String>)> {
        let (mut present, mut absent) = (Vec::new(), Vec::new());
        for entrant in &ENTRANTS {
            eprintln!("looking at {}", entrant.name);
            // Their rate over ours, and their time and room over ours.
            let (slower, more) = (Target::RatioAtMost(1.0), Target::RatioAtLeast(1.0));
            let shown = Shown::new(&format!(".{}", entrant.name), slower, slower, more);
            let loaded = Vec::new();
            let mut peer =
                Self { bench, server, starter, messages, entrant, shown, version: None, loaded };
            match peer.look() {
                Ok(()) => present.push(peer),
                Err(reason) => {
                    bench.skip(&format!("shared.{}", entrant.name), &reason.to_string());
                    absent.push(format!("Not run: {}: {reason}.", entrant.title));
                }
            }
        }
        Ok((present, absent))
    }

    /// Asks who it is, and has it make the sessions that are loaded.
    fn look(&mut self) -> Outcome {
        let about = self.ask(Operation::About, ".", [0, 0])?;
        let figures = [&mut self.shown.append, &mut self.shown.sessions, &mut self.shown.bytes];
        for figure in figures.into_iter().chain(&mut self.shown.loads) {
            figure.note("raw", "abide, in the same round");
            figure.note("version", about.version.clone());
        }
        self.version = about.version;
        for count in LOADED {
            let (url, count) = (self.database()?, self.bench.scale.of(count));
            self.ask(Operation::Build, &url, [count, 0])?;
            self.loaded.push((url, count));
        }
        Ok(())
    }

    /// Its name and version.
    pub(crate) fn title(&self) -> String {
        let version = self.version.as_deref().unwrap_or_default();
        format!("{} {version}", self.entrant.title).trim_end().to_owned()
    }

    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }

    fn ask(&self, operation: Operation, url: &str, numbers: [usize; 2]) -> Outcome<Answer> {
        let process = self.entrant.process(self.starter)?;
        ask(process, operation, Path::new(url), self.messages, &numbers)
    }

    /// A database with its tables.
    fn database(&self) -> Outcome<String> {
        let url = self.server.create_database();
        self.ask(Operation::Setup, &url, [0, 0])?;
        Ok(url)
    }

    /// A round of everything, set against ours.
    pub(crate) fn measure(&mut self, ours: &Round) -> Outcome {
        let count = self.bench.scale.of(APPENDS);
        let answer = self.ask(Operation::Append, &self.database()?, [count, 0])?;
        self.shown.append.push_with_raw(count as f64 * 1e3 / answer.ms, ours.append);

        let all = SESSIONS * self.bench.scale.of(EACH);
        let answer = self.ask(Operation::Sessions, &self.database()?, [all, SESSIONS])?;
        self.shown.sessions.push_with_raw(all as f64 * 1e3 / answer.ms, ours.sessions);

        for (number, (url, count)) in self.loaded.iter().enumerate() {
            let mut best = f64::INFINITY;
            for _ in 0..LOADS {
                best = best.min(self.ask(Operation::Load, url, [*count, 0])?.ms);
            }
            self.shown.loads[number].push_with_raw(best, ours.loads[number]);
        }

        let url = self.database()?;
        let bare = Bare::connect(&url)?;
        let before = settled_bytes(&bare)?;
        self.ask(Operation::Grow, &url, [count, 0])?;
        let added = (settled_bytes(&bare)? - before) / text_bytes(self.bench, count);
        self.shown.bytes.push_with_raw(added, ours.bytes);
        Ok(())
    }
}
