//! The commit queue under every schedule that shuttle comes up with.
//!
//! `src/commit_queue.rs` is compiled here a second time, the very same file, with shuttle's locks,
//! atomics and threads (`sync.rs`) in the place of those of the standard library. A scenario is
//! run over and over, each time with another interleaving: half of the times a random one, half
//! of the times one of few changes of priority (PCT), which finds what needs a rare order.
//!
//! A wait that never ends is a deadlock, which shuttle reports. On a failure it prints the
//! schedule: `ABIDE_SCHEDULE=… cargo test -p abide-journal --test schedules NAME` runs it again.
//! `ABIDE_SEED=N` gives other schedules, `ABIDE_FAULTS=full` 100,000 of them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs)]

mod journal;
#[path = "../../src/commit_queue.rs"]
#[allow(dead_code)]
mod queue;
mod scenarios;
mod sync;

// The queue names it from the root of its crate.
pub(crate) use abide_journal::JournalError;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use abide_testkit::FaultRun;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

/// Schedules of one scenario: so many in all, in the full size and in the small one.
const FULL: usize = 20_000;
const SMALL: usize = 600;
/// Changes of priority in a schedule of PCT.
const CHANGES: usize = 4;
/// A schedule with more steps than this goes round in circles.
const STEPS: usize = 100_000;

/// Runs a scenario under many schedules, and counts them.
fn try_schedules(name: &str, scenario: fn()) {
    if let Ok(schedule) = std::env::var("ABIDE_SCHEDULE") {
        shuttle::replay(scenario, &schedule);
        return;
    }
    let faults = FaultRun::from_env();
    let wanted = faults.len(SMALL, FULL);
    let seed = faults.seed();
    let half = wanted.div_ceil(2);
    let tried = run(RandomScheduler::new_from_seed(seed, half), scenario)
        + run(PctScheduler::new_from_seed(seed, CHANGES, half), scenario);
    assert!(tried >= wanted, "{tried} schedules of {wanted}");
    println!("{name}: {tried} schedules");
}

fn run(scheduler: impl Scheduler + 'static, scenario: fn()) -> usize {
    let tried = Arc::new(AtomicUsize::new(0));
    let count = tried.clone();
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(STEPS);
    // Of orderings, of which the documentation of `sync` tells.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || {
        scenario();
        count.fetch_add(1, Ordering::Relaxed);
    });
    tried.load(Ordering::Relaxed)
}

#[test]
fn appenders_wait_and_every_event_is_in_one_batch() {
    try_schedules("appenders", scenarios::appenders);
}

#[test]
fn a_commit_that_fails_answers_everybody_and_is_the_last() {
    try_schedules("a failing commit", scenarios::a_failing_commit);
}

#[test]
fn tasks_are_polled_to_their_end() {
    try_schedules("pollers", scenarios::pollers);
}

#[test]
fn closing_races_with_appending() {
    try_schedules("closing", scenarios::closing);
}

#[test]
fn quiet_is_quiet_and_a_flush_is_durable() {
    try_schedules("quiet", scenarios::quiet);
}
