//! Turns of real work: the newest commits of a repository, each made in a directory and taken.

use std::path::Path;
use std::time::Duration;

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::{Better, Figure, Target, median, rounded};
use crate::workspace::keeper::Keeper;
use crate::workspace::shadow::{Shadow, commits, export};
use crate::workspace::site::mega;
use crate::workspace::turn::{hold, in_turns};
use crate::workspace::walk::walk;

const TURNS: usize = 200;
/// Stands for the 35 s within which a touched file is not trusted, since no turn waits that long
/// here: what a turn touched is read once more by the next turn, and then no more.
const SETTLE: Duration = Duration::from_millis(300);

pub(crate) fn measure(bench: &Bench, repository: &Path) -> Outcome {
    let commits = commits(repository, bench.scale.of(TURNS))?;
    let Some((base, turns)) = commits.split_first().filter(|(_, turns)| !turns.is_empty()) else {
        bench.skip("workspace.turns", "the repository has fewer than two commits");
        return Ok(());
    };
    let place = bench.fresh()?;
    let beside = |name: &str| place.path().join(name);
    let (work, index) = (beside("work"), beside("index"));
    std::fs::create_dir(&work)?;
    let keeper = Keeper::new(&beside("store"), &work).settling(SETTLE);
    let shadow = Shadow::init(&beside("git"), &work)?;
    export(repository, base, &work, &index)?;
    keeper.snapshot()?;
    let tree = shadow.snapshot()?;
    let before = [keeper.bytes()?, shadow.packed(&beside("git-before"), &tree)?.bytes()?];
    shadow.keep(&tree)?;
    std::thread::sleep(SETTLE);
    keeper.snapshot()?;

    let mut times: [Vec<f64>; 3] = Default::default();
    let mut last = Some(tree);
    for (turn, commit) in turns.iter().enumerate() {
        std::thread::sleep(SETTLE);
        export(repository, commit, &work, &index)?;
        let each = in_turns(
            turn,
            [
                &mut || keeper.snapshot().map(drop),
                &mut || hold(&mut last, shadow.snapshot()),
                &mut || walk(&work).map(drop),
            ],
        )?;
        for (times, time) in times.iter_mut().zip(each) {
            times.push(time);
        }
        shadow.keep(last.as_deref().ok_or("no snapshot was taken")?)?;
    }
    let last = last.ok_or("no snapshot was taken")?;
    let after = [keeper.bytes()?, shadow.packed(&beside("git-after"), &last)?.bytes()?];

    let figure = |name: &str, unit, most| {
        let target = Target::RatioAtMost(most);
        Figure::new(format!("workspace.turns.{name}"), unit, Better::Lower, target)
    };
    let mut p50 = figure("p50.git", "ms", 0.4);
    p50.push_with_raw(median(&times[0]), median(&times[1]));
    p50.note("raw", "git add -A, git write-tree");
    p50.note("turns", turns.len());
    p50.note("files", walk(&work)?.files);
    p50.note("walk", rounded(median(&times[2])));
    p50.note("p90", rounded(share(&times[0], 0.9)));
    p50.note("git_p90", rounded(share(&times[1], 0.9)));
    bench.report(&p50)?;
    let mut size = figure("size.git", "MB", 1.25);
    size.push_with_raw(mega(after[0]), mega(after[1]));
    size.note("raw", "the shadow repository after git gc");
    size.note("git_before_gc", rounded(mega(shadow.bytes()?)));
    bench.report(&size)?;
    let mut growth = figure("growth.git", "MB", 1.25);
    let [ours, theirs] = [0, 1].map(|which| mega(after[which].saturating_sub(before[which])));
    growth.push_with_raw(ours, theirs);
    growth.note("raw", "the shadow repository after git gc");
    bench.report(&growth)
}

/// The value below which this share of them lies.
fn share(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = (sorted.len().saturating_sub(1) as f64 * share) as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}
