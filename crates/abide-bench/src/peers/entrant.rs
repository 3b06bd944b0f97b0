//! Who takes part, and how its process is started.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::Outcome;
use crate::calibration::Growth;
use crate::peers::library::Library;
use crate::peers::pipe::{PROGRAM, RecordPipe};
use crate::peers::raw::Raw;
use crate::peers::sqlite::Sqlite;
use crate::peers::work::Peer;

/// The peers in this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Inside {
    Raw,
    RawExtended,
    Abide,
    AbideKept,
    AbideSealed,
    AbideBuffered,
    AbidePipe,
    Sqlite,
}

impl Inside {
    pub(crate) fn peer(self) -> &'static dyn Peer {
        match self {
            Self::Raw => &Raw(Growth::Growing),
            Self::RawExtended => &Raw(Growth::Extended),
            Self::Abide => &Library::AsItIs,
            Self::AbideKept => &Library::SecretsKept,
            Self::AbideSealed => &Library::Sealed,
            Self::AbideBuffered => &Library::Buffered,
            Self::AbidePipe => &RecordPipe,
            Self::Sqlite => &Sqlite,
        }
    }
}

/// Where a peer's code is.
#[derive(Debug, Clone, Copy)]
enum Code {
    Inside(Inside),
    /// A file beside this crate's sources, and the virtual environment that it needs.
    Python {
        file: &'static str,
        environment: &'static str,
    },
}

/// What an entrant is to the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// What the disk allows.
    Raw,
    Ours,
    Theirs,
}

/// One that takes part.
#[derive(Debug)]
pub(crate) struct Entrant {
    /// In the names of figures.
    pub(crate) name: &'static str,
    /// In the table.
    pub(crate) title: &'static str,
    pub(crate) side: Side,
    code: Code,
    /// The most messages it is given.
    pub(crate) most: usize,
}

impl Entrant {
    pub(crate) const fn inside(
        name: &'static str,
        title: &'static str,
        side: Side,
        inside: Inside,
    ) -> Self {
        Self { name, title, side, code: Code::Inside(inside), most: usize::MAX }
    }

    pub(crate) const fn python(
        name: &'static str,
        title: &'static str,
        side: Side,
        [environment, file]: [&'static str; 2],
    ) -> Self {
        Self { name, title, side, code: Code::Python { file, environment }, most: usize::MAX }
    }

    /// For one whose appends cost more the longer the session is.
    const fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }
}

/// The title of bare SQLite, to which others are compared.
pub(crate) const SQLITE: &str = "SQLite WAL FULL, Rust";

/// Everyone, in the order of the table.
pub(crate) const ENTRANTS: [Entrant; 13] = [
    Entrant::inside("raw", "raw, Rust", Side::Raw, Inside::Raw),
    Entrant::inside("raw-extended", "raw, extended, Rust", Side::Raw, Inside::RawExtended),
    Entrant::inside("abide", "**abide**, library", Side::Ours, Inside::Abide),
    Entrant::inside("abide-kept", "**abide**, secrets kept", Side::Ours, Inside::AbideKept),
    Entrant::inside("abide-sealed", "**abide**, sealed", Side::Ours, Inside::AbideSealed),
    Entrant::inside("sqlite", SQLITE, Side::Theirs, Inside::Sqlite),
    Entrant::inside("abide-pipe-rust", "**abide**, pipe, Rust", Side::Ours, Inside::AbidePipe),
    Entrant::python("raw-python", "raw, Python", Side::Raw, ["plain", "raw.py"]),
    Entrant::python(
        "abide-pipe",
        "**abide**, pipe, Python",
        Side::Ours,
        ["plain", "abide_pipe.py"],
    ),
    Entrant::python(
        "sqlite-python",
        "SQLite WAL FULL, Python",
        Side::Theirs,
        ["plain", "sqlite.py"],
    ),
    Entrant::python(
        "openai-agents",
        "OpenAI Agents SDK, SQLiteSession",
        Side::Theirs,
        ["openai_agents", "openai_session.py"],
    ),
    Entrant::python(
        "openhands",
        "OpenHands SDK, EventLog",
        Side::Theirs,
        ["openhands", "openhands_log.py"],
    ),
    Entrant::python(
        "langgraph",
        "LangGraph, SqliteSaver",
        Side::Theirs,
        ["langgraph", "langgraph_saver.py"],
    )
    .at_most(1000),
];

/// Starts the processes of the peers.
#[derive(Debug)]
pub(crate) struct Starter {
    /// One virtual environment in each directory.
    pub(crate) environments: PathBuf,
    /// The `abide` program.
    pub(crate) abide: PathBuf,
}

impl Entrant {
    pub(crate) const fn is_python(&self) -> bool {
        matches!(self.code, Code::Python { .. })
    }

    /// Its process, up to the arguments of the work.
    pub(crate) fn process(&self, starter: &Starter) -> Outcome<Command> {
        Ok(match self.code {
            Code::Inside(inside) => {
                let name = inside.to_possible_value().ok_or("a peer without a name")?;
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["peer", name.get_name()]).env(PROGRAM, &starter.abide);
                command
            }
            Code::Python { file, environment } => {
                let python = starter.environments.join(environment).join("bin/python");
                if !python.is_file() {
                    return Err(format!("no environment {environment}").into());
                }
                let scripts = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/peers"));
                let mut command = Command::new(python);
                command.arg(scripts.join(file)).env("PYTHONDONTWRITEBYTECODE", "1");
                command.env(PROGRAM, &starter.abide);
                command
            }
        })
    }
}
