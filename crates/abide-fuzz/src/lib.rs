//! Every decoder of abide, as a function that takes any bytes and panics where the decoder breaks a
//! promise.
//!
//! The test `corpus` runs them in-process over the corpus (`fuzz/corpus`) and over mutations of it;
//! libFuzzer, with the address sanitizer, runs the same functions in `fuzz/`.
//!
//! No mutation finds a right hash by itself. So most targets look at their input twice: as it is,
//! where whatever is accepted must have right sums by the arithmetic of [`sums`], which follows
//! `docs/format.md` and not the code; and with its sums put right, so that the decoder behind them
//! is reached.

pub mod golden;
pub mod input;
pub mod mutation;
pub mod sums;
mod targets;

/// A decoder under test.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name: of its file in `src/targets`, its test, and its directory in the corpus.
    pub name: &'static str,
    /// How many bytes at the start of an input say how the rest is looked at.
    pub controls: usize,
    /// How many mutations a small run tries: about a second in the dev build.
    pub mutations: u64,
    /// Runs one input; says whether the decoder took anything of it. Panics when it breaks a
    /// promise.
    pub run: fn(&[u8]) -> bool,
}

impl Target {
    /// The target with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }
}

/// Calls a macro with every target: its name, its `controls` and its `mutations`.
#[macro_export]
macro_rules! each_target {
    ($then:ident) => {
        $then! {
            acp: 0, 1_600;
            agent: 5, 2_000;
            bundle: 1, 5_000;
            config: 0, 2_500;
            line: 0, 24_000;
            marks: 1, 3_500;
            pack: 1, 2_000;
            plan: 0, 1_000;
            record: 0, 24_000;
            sealed: 1, 5_000;
            segment: 1, 1_400;
            snapshot: 1, 900;
            state: 0, 2_500;
            stream: 5, 8_000;
            transcript: 0, 3_000;
            tree: 0, 60_000;
            wire: 0, 2_000;
        }
    };
}

macro_rules! table {
    ($($name:ident: $controls:literal, $mutations:literal;)*) => {
        /// All targets.
        pub const TARGETS: &[Target] = &[$(Target {
            name: stringify!($name),
            controls: $controls,
            mutations: $mutations,
            run: targets::$name::run,
        }),*];
    };
}
each_target!(table);
