//! Opening a long session and reading its end.

use abide::maintenance::Upkeep;

use crate::Outcome;
use crate::bench::Bench;
use crate::child::{What, ask};
use crate::figure::{Better, Figure, Target, median};
use crate::fixture::Place;

const LAST: usize = 200;
/// Each round is the median of so many processes.
const EACH: usize = 5;

pub(crate) fn measure(bench: &Bench) -> Outcome {
    let count = bench.scale.of(100_000);
    let dir = bench.fresh()?;
    let place = Place::of(dir.path(), Upkeep::Beside)?;
    let id = place.filled(bench.text(), count)?;
    place.seal(id)?;
    for (name, what) in [("write", What::OpenWrite), ("view", What::OpenView)] {
        let name = format!("open.last200.{name}");
        let mut time = Figure::new(&name, "ms", Better::Lower, Target::AtMost(5.0));
        let mut memory =
            Figure::new(format!("{name}.rss"), "MiB", Better::Lower, Target::AtMost(64.0));
        for _ in 0..bench.rounds {
            let answers = (0..EACH)
                .map(|_| ask(what, dir.path(), LAST, Some(id)))
                .collect::<Outcome<Vec<_>>>()?;
            if answers.iter().any(|answer| answer.events != LAST) {
                return Err("the last events were not all read".into());
            }
            let of = |number: fn(&crate::child::Answer) -> f64| {
                median(&answers.iter().map(number).collect::<Vec<_>>())
            };
            time.push(of(|answer| answer.ms));
            memory.push(of(|answer| answer.rss_mib));
        }
        time.note("events", count);
        bench.report(&time)?;
        bench.report(&memory)?;
    }
    Ok(())
}
