//! Whoever is compared does the same thing in turns, and another one begins each time.

use std::time::Instant;

use crate::Outcome;
use crate::calibration::millis;

/// Times each of these once, in ms. The disk is idle when a clock starts.
pub(crate) fn in_turns<const N: usize>(
    round: usize,
    mut entrants: [&mut dyn FnMut() -> Outcome; N],
) -> Outcome<[f64; N]> {
    let mut times = [0.0; N];
    for step in 0..N {
        let which = (round + step) % N;
        times[which] = timed(&mut entrants[which])?;
    }
    Ok(times)
}

/// Times something once, in ms, after what was written before has reached the disk.
pub(crate) fn timed(mut work: impl FnMut() -> Outcome) -> Outcome<f64> {
    rustix::fs::sync();
    let start = Instant::now();
    work()?;
    Ok(millis(start.elapsed()))
}

/// Holds what was made, for after the clock has stopped.
pub(crate) fn hold<T>(place: &mut Option<T>, made: Outcome<T>) -> Outcome {
    *place = Some(made?);
    Ok(())
}
