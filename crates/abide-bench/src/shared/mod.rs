//! The shared store: set against a bare `INSERT`, and beside its peers on the same server.
//!
//! Everybody has databases of their own, made anew for each measurement but that of loading. Who
//! is compared takes turns in each round, so that the noise of the machine falls on all.

mod bare;
mod ours;
mod shared_table;
mod team;
mod theirs;

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use abide::Store;
use abide_postgres::{PostgresOptions, PostgresStore, ServerUrl};
use abide_testkit::{Fsync, PostgresServer, PostgresSettings, PrivatePostgres};
use clap::Args;

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::{Better, Figure, Target};
use crate::fixture::WAIT;
use crate::peers::{Starter, write_messages};
use crate::shared::bare::Bare;
use crate::shared::ours::Ours;
use crate::shared::shared_table::SharedTable;
use crate::shared::theirs::Theirs;

/// How many sessions at once.
const SESSIONS: usize = 64;
/// How many messages are loaded.
const LOADED: [usize; 2] = [1000, 50_000];
/// How many messages one session is appended to, and how many each of many.
const APPENDS: usize = 1000;
const EACH: usize = 100;
/// Loading is measured so often in a round, of which the best counts, for everybody.
const LOADS: usize = 3;

/// Which server, and who takes part.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A server to measure on, by a URL of its superuser; one of its own, with `fsync`, where
    /// none is given.
    #[arg(long)]
    server: Option<String>,
    /// Where `scripts/bench-peers` made the virtual environments; without it, no peer takes part.
    #[arg(long)]
    venv: Option<PathBuf>,
    /// Without the thousand sessions.
    #[arg(long)]
    no_team: bool,
    #[command(flatten)]
    pub(crate) setting: crate::Setting,
}

/// The server that everybody is on.
enum Server {
    Own(Box<PrivatePostgres>),
    Named(PostgresServer),
}

impl Server {
    fn of(arguments: &Arguments) -> Outcome<Self> {
        if let Some(url) = &arguments.server {
            return Ok(Self::Named(PostgresServer::at(url)?));
        }
        let settings = PostgresSettings { fsync: Fsync::On, ..PostgresSettings::default() };
        Ok(Self::Own(Box::new(PrivatePostgres::start(settings)?)))
    }
}

impl Deref for Server {
    type Target = PostgresServer;

    fn deref(&self) -> &PostgresServer {
        match self {
            Self::Own(server) => server,
            Self::Named(server) => server,
        }
    }
}

/// The store in a database, as the library sees it.
fn open_shared(url: &str) -> Outcome<Store> {
    let (store, _) = PostgresStore::init(&ServerUrl::parse(url)?, PostgresOptions::default())?;
    Ok(Store::over(Arc::new(store)).waiting(WAIT))
}

/// What one has shown.
struct Shown {
    append: Figure,
    sessions: Figure,
    loads: [Figure; 2],
    bytes: Figure,
}

impl Shown {
    /// `append`, `sessions` and `less` are what is wanted of each; of loading and bytes the same.
    fn new(name: &str, append: Target, sessions: Target, less: Target) -> Self {
        let name = |what: &str| format!("shared.{what}{name}");
        let rate = |what: String, target| Figure::new(what, "appends/s", Better::Higher, target);
        Self {
            append: rate(name("append.one"), append),
            sessions: rate(name("append.sessions64"), sessions),
            loads: LOADED.map(|count| {
                Figure::new(name(&format!("load.{count}")), "ms", Better::Lower, less)
            }),
            bytes: Figure::new(name("bytes"), "bytes/byte", Better::Lower, less),
        }
    }

    fn report(&self, bench: &Bench) -> Outcome {
        let Self { append, sessions, loads: [few, many], bytes } = self;
        [append, sessions, few, many, bytes].into_iter().try_for_each(|each| bench.report(each))
    }
}

pub(crate) fn measure(bench: &Bench, arguments: &Arguments) -> Outcome {
    let server = Server::of(arguments)?;
    let dir = bench.fresh()?;
    let messages = dir.path().join("messages.jsonl");
    write_messages(bench.text(), bench.scale.of(LOADED[1]), &messages)?;
    let starter = match &arguments.venv {
        Some(venv) => {
            Some(Starter { environments: venv.canonicalize()?, abide: bench.abide.clone() })
        }
        None => None,
    };
    let mut ours = Ours::prepare(bench, &server)?;
    let (mut theirs, absent) = match &starter {
        Some(starter) => Theirs::prepare(bench, &server, starter, &messages)?,
        None => (Vec::new(), vec!["Not run: the peers: without --venv.".to_owned()]),
    };
    for round in 0..bench.rounds {
        eprintln!("the shared store, round {} of {}", round + 1, bench.rounds);
        let round = ours.measure()?;
        theirs.iter_mut().try_for_each(|theirs| theirs.measure(&round))?;
    }
    ours.shown().report(bench)?;
    theirs.iter().try_for_each(|theirs| theirs.shown().report(bench))?;
    if !arguments.no_team {
        team::measure(bench, &server)?;
    }
    let version = Bare::connect(&server.create_database())?.server_version()?;
    let rows = theirs.iter().map(|theirs| (theirs.title(), theirs.shown())).collect();
    let table = SharedTable { version, ours: ours.shown(), theirs: rows, absent };
    bench.page().write("shared", &table.to_markdown(bench)?)?;
    bench.summarise();
    Ok(())
}

/// What we have shown in a round: what the others are set against.
struct Round {
    append: f64,
    sessions: f64,
    loads: [f64; 2],
    bytes: f64,
}

/// The bytes of a database, once nothing in it waits to be cleared away or written.
fn settled_bytes(bare: &Bare) -> Outcome<f64> {
    bare.run("VACUUM")?;
    bare.run("CHECKPOINT")?;
    bare.database_bytes()
}
