//! The numbers of checkpoints, told from the events alone.

use abide_model::{Fact, Kind};

/// Numbers checkpoints as the fold does.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointNumbers {
    /// The greatest number so far; `None` if the ancestor that it counts on from is missing.
    last: Option<u64>,
}

impl CheckpointNumbers {
    /// Counts on from this number; `None` if the ancestor that has it is missing.
    #[must_use]
    pub const fn after(last: Option<u64>) -> Self {
        Self { last }
    }

    /// Adds an event. Returns the number of the checkpoint that it made, if that can be told.
    pub fn take(&mut self, kind: &Kind, fact: &Fact) -> Option<u64> {
        match fact {
            Fact::Checkpoint(checkpoint) => self.next(checkpoint.number),
            Fact::Erased if *kind == Kind::CHECKPOINT_CREATED => self.next(None),
            Fact::Thinning(thinning) => {
                let greatest = thinning.checkpoints.iter().copied().max().unwrap_or(0);
                self.last = self.last.map(|last| last.max(greatest));
                None
            }
            _ => None,
        }
    }

    fn next(&mut self, own: Option<u64>) -> Option<u64> {
        let number = own.or_else(|| self.last.map(|last| last.saturating_add(1)))?;
        self.last = self.last.map(|last| last.max(number));
        Some(number)
    }
}
