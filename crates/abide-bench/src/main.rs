//! Measures abide against the disk it runs on, and says which targets are met.
//!
//! Every figure is one line of JSON on stdout; a table for people follows on stderr. What can be
//! set against a raw measure is: the raw measure is taken in the same round, in turns with ours,
//! so that the noise of the machine falls on both.

mod acp;
mod answer;
mod append;
mod bench;
mod calibration;
mod child;
mod context;
mod count;
mod counting;
mod device;
mod dialogue;
mod figure;
mod filling;
mod fixture;
mod history;
mod image;
mod machine;
mod million;
mod open;
mod page;
mod peers;
mod projects;
mod projects_table;
mod record;
mod run;
mod shared;
mod size;
mod stream;
mod tasks;
mod text;
mod verify;
mod workspace;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::bench::{Bench, Scale};
use crate::page::Page;

/// What a measurement gives, or why it could not be made.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Measures abide against the disk it runs on.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Only groups of figures whose name contains one of these: `append`, `open.last200`, …
    filter: Vec<String>,
    #[command(flatten)]
    setting: Setting,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Where and how much is measured.
#[derive(Debug, Args)]
pub(crate) struct Setting {
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
    /// The page whose tables are made anew; not with --quick. They are shown, unless one is given.
    #[arg(long)]
    table: Option<PathBuf>,
}

impl Setting {
    fn bench(&self) -> Outcome<Bench> {
        let program = std::env::current_exe()?;
        let beside = program.parent().ok_or("this program is nowhere")?;
        let scale = if self.quick { Scale::Quick } else { Scale::Full };
        let dir = self.dir.clone().unwrap_or_else(|| beside.to_owned());
        let abide = self.abide.clone().unwrap_or_else(|| beside.join("abide"));
        let page = Page::of(scale, self.table.as_ref());
        Ok(Bench::new(dir, self.rounds.max(1), scale, abide, page))
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The same work done by abide and by its peers; `scripts/bench-peers` runs it.
    Peers(peers::Arguments),
    /// The shared store, beside a bare `INSERT` and its peers on the same PostgreSQL server.
    Shared(shared::Arguments),
    /// Snapshots and restores of a workspace, beside git and what the machine allows.
    Workspace(workspace::Arguments),
    /// Instructions of the hottest paths, against the figures in the repository.
    Count(count::Arguments),
    /// One path, done so and so often, in a process of its own.
    #[command(hide = true)]
    CountOne(count::Task),
    /// One measurement of one peer, in a process of its own.
    #[command(hide = true)]
    Peer(peers::Single),
    /// One measurement, in a process of its own.
    #[command(hide = true)]
    Child(child::Task),
    /// An agent that talks.
    #[command(hide = true)]
    Talk(run::Talk),
    /// An agent that speaks ACP.
    #[command(hide = true)]
    AcpAgent,
}

/// Measures a group of figures.
type Measure = fn(&Bench) -> Outcome;

/// The groups of figures, in the order they are measured.
const GROUPS: [(&str, Measure); 21] = [
    ("append.one", append::one),
    ("append.sessions64", append::sessions),
    ("append.shared64", append::shared),
    ("append.million", million::measure),
    ("append.filling", filling::measure),
    ("open.last200", open::measure),
    ("record.start", record::measure),
    ("read.stream", stream::measure),
    ("answer.stream", answer::measure),
    ("verify", verify::measure),
    ("size", size::measure),
    ("context.read", context::read),
    ("context.compact", context::compact),
    ("history.search", history::search),
    ("history.start", history::start),
    ("projects", projects::measure),
    ("tasks", tasks::measure),
    ("run.start", run::start),
    ("run.stream", run::stream),
    ("acp.pass", acp::pass),
    ("acp.load", acp::load),
];

fn main() -> Outcome {
    let arguments = Arguments::parse();
    match &arguments.command {
        Some(Command::Child(task)) => child::run(task),
        Some(Command::Talk(talk)) => run::talk(talk),
        Some(Command::AcpAgent) => acp::agent(),
        Some(Command::Peer(single)) => peers::run_one(single),
        Some(Command::Peers(peers)) => peers::measure(&peers.setting.bench()?, peers),
        Some(Command::Shared(shared)) => shared::measure(&shared.setting.bench()?, shared),
        Some(Command::Count(arguments)) => count::check(arguments),
        Some(Command::CountOne(task)) => count::run(task),
        Some(Command::Workspace(workspace)) => {
            workspace::measure(&workspace.setting.bench()?, workspace)
        }
        None => measure(&arguments.setting.bench()?, &arguments.filter),
    }
}

fn measure(bench: &Bench, filter: &[String]) -> Outcome {
    for (name, measure) in GROUPS {
        let chosen = filter.is_empty() || filter.iter().any(|part| name.contains(part.as_str()));
        if chosen {
            eprintln!("measuring {name}");
            measure(bench)?;
        }
    }
    bench.summarise();
    Ok(())
}
