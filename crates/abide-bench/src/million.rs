//! What an append costs in a session of a million events, against one of a thousand.

use abide::maintenance::Upkeep;

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::Spent;
use crate::figure::{Better, Figure, Target, median, rounded};
use crate::fixture::{Place, append_durably};

const TURN: usize = 50;
const SHORT: usize = 1000;

/// The long session is the same in every round, the short one a new one; they take turns.
pub(crate) fn measure(bench: &Bench) -> Outcome {
    let text = bench.text();
    let long = bench.long()?;
    let turns = bench.scale.of(2000) / TURN;
    let count = turns * TURN;
    let mut figure =
        Figure::new("append.million", "us/append", Better::Lower, Target::RatioAtMost(1.1));
    let (mut cpu, mut short_cpu) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        let dir = bench.fresh()?;
        let place = Place::of(dir.path(), Upkeep::Beside)?;
        let short_id = place.filled(text, SHORT)?;
        let sessions =
            [place.open(short_id)?, Place::of(long.dir.path(), Upkeep::Beside)?.open(long.id)?];
        for session in &sessions {
            append_durably(session, text, 0);
        }
        let mut spent = [Spent::default(); 2];
        for turn in 0..turns {
            let first = (round * turns + turn) * TURN;
            for which in [turn % 2, 1 - turn % 2] {
                spent[which].add(|| {
                    (first..first + TURN)
                        .for_each(|index| append_durably(&sessions[which], text, index));
                });
            }
        }
        for session in sessions {
            session.close()?;
        }
        let [short, long] = spent;
        figure.push_with_raw(1e6 / long.rate(count), 1e6 / short.rate(count));
        cpu.push(long.cpu_micros(count));
        short_cpu.push(short.cpu_micros(count));
    }
    figure.note("raw", format!("the same at {SHORT} events"));
    figure.note("events", long.events);
    figure.note("appends", count);
    figure.note("cpu_us", rounded(median(&cpu)));
    figure.note("short_cpu_us", rounded(median(&short_cpu)));
    bench.report(&figure)
}
