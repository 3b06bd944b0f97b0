//! The request to stop a run, made from any thread at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// How urgently a run should stop. Each further request raises it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum StopUrgency {
    /// Not at all.
    #[default]
    None,
    /// Start no more tasks; let those under way finish.
    AfterStep,
    /// Ask the agents to exit, and kill them if they do not.
    Now,
    /// Kill the agents.
    Kill,
}

impl StopUrgency {
    const fn of(level: u8) -> Self {
        match level {
            0 => Self::None,
            1 => Self::AfterStep,
            2 => Self::Now,
            _ => Self::Kill,
        }
    }
}

/// Asks a run to stop. Cheap to clone; safe to use from a signal handling thread.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicU8>);

impl Stop {
    /// Asks once more; returns the new urgency.
    pub fn ask(&self) -> StopUrgency {
        let more = |level: u8| Some(level.saturating_add(1).min(3));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        StopUrgency::of(before.unwrap_or(3).saturating_add(1))
    }

    /// Raises the urgency to at least this.
    pub fn at_least(&self, urgency: StopUrgency) {
        self.0.fetch_max(urgency as u8, Ordering::Relaxed);
    }

    /// The current urgency.
    #[must_use]
    pub fn urgency(&self) -> StopUrgency {
        StopUrgency::of(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_it_is_more_urgent() {
        let stop = Stop::default();
        assert_eq!(stop.urgency(), StopUrgency::None);
        let asked: Vec<StopUrgency> = (0..4).map(|_| stop.ask()).collect();
        assert_eq!(
            asked,
            [StopUrgency::AfterStep, StopUrgency::Now, StopUrgency::Kill, StopUrgency::Kill]
        );
        stop.at_least(StopUrgency::Now);
        assert_eq!(stop.urgency(), StopUrgency::Kill, "never less");
    }
}
