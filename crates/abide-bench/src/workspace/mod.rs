//! Snapshots and restores of a workspace, beside shadow git and beside the least that the machine
//! allows, in turns, in one run.
//!
//! abide works in this process, with everything opened anew for each operation; git is measured
//! from the start of its processes to their end.

mod bare;
mod checkpoints;
mod keeper;
mod shadow;
mod site;
mod tree;
mod turn;
mod turns;
mod walk;
mod workspace_table;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::Figure;
use crate::workspace::site::{LARGE, Site};
use crate::workspace::tree::{Origin, Tree, origins};
use crate::workspace::workspace_table::workspace_table;

/// What is measured, and on which trees.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only these: `first`, `size`, `unchanged`, `ten`, `full`, `turns`, `checkpoints`.
    filter: Vec<String>,
    /// A directory with a tree of files in each directory of it; `scripts/bench-trees` makes one.
    /// Without it, sources of this program's dependencies are the tree.
    #[arg(long)]
    trees: Option<PathBuf>,
    /// Only the trees of these names.
    #[arg(long)]
    tree: Vec<String>,
    /// The git repository whose newest commits are the turns: this project's, unless said otherwise.
    #[arg(long)]
    history: Option<PathBuf>,
    /// Runs `git gc` for trees of more than 40,000 files, too: it takes minutes.
    #[arg(long)]
    gc_large: bool,
    #[command(flatten)]
    pub(crate) setting: crate::Setting,
}

impl Arguments {
    fn wants(&self, name: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|part| name.contains(part.as_str()))
    }

    /// The repository that has the turns.
    fn history(&self) -> &Path {
        let own = || Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        self.history.as_deref().unwrap_or_else(own)
    }
}

pub(crate) fn measure(bench: &Bench, arguments: &Arguments) -> Outcome {
    let origins = origins(bench, arguments.trees.as_deref(), &arguments.tree)?;
    if ["first", "size", "unchanged", "ten", "full"].iter().any(|name| arguments.wants(name)) {
        trees(bench, arguments, &origins)?;
    }
    if arguments.wants("turns") {
        eprintln!("measuring turns");
        turns::measure(bench, arguments.history())?;
    }
    if let Some(smallest) = origins.first().filter(|_| arguments.wants("checkpoints")) {
        eprintln!("measuring checkpoints");
        checkpoints::measure(bench, smallest)?;
    }
    let names: Vec<&str> = origins.iter().map(|origin| origin.name.as_str()).collect();
    bench.page().write("workspace", &workspace_table(bench, &names)?)?;
    bench.summarise();
    Ok(())
}

fn trees(bench: &Bench, arguments: &Arguments, origins: &[Origin]) -> Outcome {
    let mut sites = Vec::new();
    for origin in origins {
        let tree = Tree::copy(bench, origin)?;
        let rounds = if arguments.wants("first") { bench.rounds } else { 1 };
        let (mut site, figures) = Site::first(bench, tree, rounds)?;
        if arguments.wants("first") {
            report(bench, &figures)?;
        }
        let packs = ["size", "full"].iter().any(|name| arguments.wants(name));
        if packs && site.is_large() && !arguments.gc_large {
            let reason = format!("more than {LARGE} files: --gc-large");
            bench.skip(&format!("workspace.{}.size.git", site.name()), &reason);
            bench.skip(&format!("workspace.{}.restore.full.git", site.name()), &reason);
        } else if packs {
            site.pack()?;
            if arguments.wants("size") {
                bench.report(&site.size()?)?;
            }
            if arguments.wants("full") {
                bench.report(&site.full(bench)?)?;
            }
        }
        if arguments.wants("unchanged") {
            eprintln!("{}: nothing changed", site.name());
            report(bench, &site.unchanged(bench)?)?;
        }
        sites.push(site);
    }
    if arguments.wants("ten") {
        ten(bench, &mut sites)?;
    }
    Ok(())
}

/// A round on each tree, then the next: while one tree's files grow old, others are measured.
fn ten(bench: &Bench, sites: &mut [Site]) -> Outcome {
    let mut figures: Vec<_> = sites.iter().map(Site::ten).collect();
    for round in 0..bench.rounds {
        for (site, ten) in sites.iter_mut().zip(&mut figures) {
            eprintln!("{}: ten files, round {} of {}", site.name(), round + 1, bench.rounds);
            site.ten_round(bench, round, ten)?;
        }
    }
    figures.into_iter().try_for_each(|ten| report(bench, &ten.figures()))
}

fn report(bench: &Bench, figures: &[Figure]) -> Outcome {
    figures.iter().try_for_each(|figure| bench.report(figure))
}
