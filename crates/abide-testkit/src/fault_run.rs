//! How large a fault run is, which part of the space it covers, and what it must have done.
//!
//! `ABIDE_FAULTS` is the size: nothing for every build, `third` for `scripts/faults`, `full` for
//! `scripts/soak`. `ABIDE_SEED` chooses the part. Both are read here and nowhere else.

/// The size of a fault run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultSize {
    /// What every build does.
    Small,
    /// About a third of the full size, another third for another seed.
    Third,
    /// Every count that the documentation names.
    Full,
}

/// A fault run: its size and its seed.
#[derive(Debug, Clone, Copy)]
pub struct FaultRun {
    size: FaultSize,
    seed: Option<u64>,
}

impl FaultRun {
    /// The run that the environment asks for.
    ///
    /// # Panics
    ///
    /// If a variable is set to anything else than a size or a number: a run of another size than
    /// the one asked for would prove less than it says.
    #[must_use]
    pub fn from_env() -> Self {
        let size = match std::env::var("ABIDE_FAULTS").as_deref() {
            Err(_) | Ok("") => FaultSize::Small,
            Ok("third") => FaultSize::Third,
            Ok("full") => FaultSize::Full,
            Ok(other) => panic!("ABIDE_FAULTS is `{other}`, not `third` or `full`"),
        };
        let seed = std::env::var("ABIDE_SEED").ok().filter(|seed| !seed.is_empty());
        let seed = seed.map(|seed| match seed.parse() {
            Ok(number) => number,
            Err(_) => panic!("ABIDE_SEED is `{seed}`, not a number"),
        });
        Self { size, seed }
    }

    /// Its size.
    #[must_use]
    pub const fn size(&self) -> FaultSize {
        self.size
    }

    /// Its seed, or 0 where none is given.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or_default()
    }

    /// Its seed, if one is given.
    #[must_use]
    pub const fn given_seed(&self) -> Option<u64> {
        self.seed
    }

    /// How many of a thing to do, of which a small run does `small` and a full run `full`.
    #[must_use]
    pub const fn count(&self, small: u64, full: u64) -> u64 {
        match self.size {
            FaultSize::Small => small,
            FaultSize::Third => {
                let third = full.div_ceil(3);
                if third > small { third } else { small }
            }
            FaultSize::Full => full,
        }
    }

    /// [`count`](Self::count) as an index.
    #[must_use]
    pub const fn len(&self, small: usize, full: usize) -> usize {
        self.count(small as u64, full as u64) as usize
    }

    /// [`count`](Self::count) for the cases of a property.
    #[must_use]
    pub const fn cases(&self, small: u32, full: u32) -> u32 {
        self.count(small as u64, full as u64) as u32
    }

    /// The places to try among the first `end`, where a small run tries one in `small` and a full
    /// run one in `full`. The seed chooses where they begin.
    pub fn places(self, end: u64, small: u64, full: u64) -> impl Iterator<Item = u64> {
        let step = match self.size {
            FaultSize::Small => small,
            FaultSize::Third => (full * 3).min(small),
            FaultSize::Full => full,
        };
        let step = step.max(1);
        (self.seed() % step..end).step_by(step as usize)
    }

    /// Prints what was done how often.
    ///
    /// # Panics
    ///
    /// If a full run did it less often than `full`, or a third of a run much less than a third as often.
    pub fn report(&self, what: &str, done: u64, full: u64) {
        println!("{what}: {done}");
        let must = match self.size {
            FaultSize::Small => 1,
            // The thirds of a count are not all of the same size.
            FaultSize::Third => full * 3 / 10,
            FaultSize::Full => full,
        };
        assert!(done >= must, "{what}: {done} of {must}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_thirds_cover_every_place() {
        let mut all: Vec<u64> = (0..3)
            .flat_map(|seed| {
                FaultRun { size: FaultSize::Third, seed: Some(seed) }.places(100, 17, 1)
            })
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_third_is_never_less_than_a_small_run() {
        let third = FaultRun { size: FaultSize::Third, seed: None };
        assert_eq!(third.count(3, 12), 4);
        assert_eq!(third.count(1_500, 3_000), 1_500);
        assert_eq!(third.places(10, 2, 1).count(), 5);
    }

    #[test]
    #[should_panic(expected = "cuts: 29 of 30")]
    fn a_run_that_does_too_little_fails() {
        FaultRun { size: FaultSize::Third, seed: None }.report("cuts", 29, 100);
    }
}
