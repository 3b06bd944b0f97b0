//! Many snapshots with ten edits each: the last cost what the first did.

use std::time::Duration;

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::{Better, Figure, Target, median, rounded};
use crate::workspace::keeper::Keeper;
use crate::workspace::site::{TEN, mega, sync_ms};
use crate::workspace::tree::{Origin, Tree};
use crate::workspace::turn::timed;
use crate::workspace::walk::walk;

const SNAPSHOTS: usize = 1000;
/// Stands for the 35 s within which a touched file is not trusted.
const SETTLE: Duration = Duration::from_millis(100);

/// What was seen at one snapshot.
#[derive(Debug, Default)]
struct Seen {
    times: Vec<f64>,
    walks: Vec<f64>,
    syncs: Vec<f64>,
}

pub(crate) fn measure(bench: &Bench, origin: &Origin) -> Outcome {
    let mut tree = Tree::copy(bench, origin)?;
    let work = tree.work();
    let keeper = Keeper::new(&tree.beside("store"), &work).settling(SETTLE);
    keeper.snapshot()?;
    std::thread::sleep(SETTLE);
    keeper.snapshot()?;
    let count = bench.scale.of(SNAPSHOTS);
    let part = count / 10;
    let mut seen = Seen::default();
    let mut sizes = vec![keeper.bytes()?];
    for number in 1..=count {
        std::thread::sleep(SETTLE);
        let picked = tree.pick(TEN)?;
        tree.edit(&picked)?;
        seen.syncs.push(sync_ms(&tree, number)?);
        seen.walks.push(timed(|| walk(&work).map(drop))?);
        seen.times.push(timed(|| keeper.snapshot().map(drop))?);
        if number % part == 0 {
            eprintln!("{}: {number} of {count} snapshots", tree.name);
            sizes.push(keeper.bytes()?);
        }
    }
    let target = Target::RatioAtMost(1.25);
    let mut time = Figure::new("workspace.checkpoints.time", "ms", Better::Lower, target);
    let ends = |values: &[f64]| [&values[count - part..], &values[..part]].map(median);
    let [last, first] = ends(&seen.times);
    time.push_with_raw(last, first);
    time.note("raw", format!("the first {part} of {count}"));
    time.note("tree", tree.name.as_str());
    for (name, values) in [("walk", &seen.walks), ("sync", &seen.syncs)] {
        let [last, first] = ends(values);
        time.note(&format!("{name}_last"), rounded(last));
        time.note(&format!("{name}_first"), rounded(first));
    }
    bench.report(&time)?;
    let mut size = Figure::new("workspace.checkpoints.size", "MB", Better::Lower, target);
    let growth: Vec<f64> = sizes.windows(2).map(|it| mega(it[1]) - mega(it[0])).collect();
    if let [first, .., last] = growth.as_slice() {
        size.push_with_raw(*last, *first);
    }
    size.note("raw", format!("the first {part} of {count}"));
    size.note("growth", growth.iter().copied().map(rounded).collect::<Vec<f64>>());
    size.note("before", rounded(mega(sizes[0])));
    bench.report(&size)
}
