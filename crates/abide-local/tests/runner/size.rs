//! How large a run is, and what it must have done.

/// Is this the full run?
pub fn full() -> bool {
    std::env::var("ABIDE_FAULTS").is_ok_and(|size| size == "full")
}

/// `small` for every build, `large` for the full run.
pub fn of(small: u64, large: u64) -> u64 {
    if full() { large } else { small }
}

/// [`of`] for the cases of a property.
pub fn cases(small: u32, large: u32) -> u32 {
    if full() { large } else { small }
}

/// Where the seeds start: `ABIDE_SEED` gives a long run new ones each time.
pub fn seed() -> u64 {
    std::env::var("ABIDE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

/// Says what was done, and fails when the full run did less than it must.
pub fn report(what: &str, done: u64, must: u64) {
    println!("{what}: {done}");
    assert!(!full() || done >= must, "{what}: {done} of {must}");
}
