//! The checkpoints that a session needs, whatever retention says.

use std::collections::BTreeSet;

use super::SessionState;
use crate::Seq;

impl SessionState {
    /// The numbers of the checkpoints that must stay: the newest, the newest with files, the first of
    /// the run under way, and for each task in progress the last before its last change. An undo needs
    /// none: a rewind names its snapshots itself.
    #[must_use]
    pub fn needed_checkpoints(&self) -> BTreeSet<u64> {
        let mut all: Vec<(Seq, u64, bool)> = self
            .checkpoints
            .iter()
            .filter_map(|(number, checkpoint)| {
                let number = number.parse().ok()?;
                let is_there = !self.core.checkpoints.is_thinned(number);
                is_there.then_some((checkpoint.seq, number, checkpoint.snapshot.is_some()))
            })
            .collect();
        all.sort_unstable();
        let newest = all.last().map(|(_, number, _)| *number);
        let with_files: Vec<(Seq, u64)> = all
            .iter()
            .filter(|(.., has_files)| *has_files)
            .map(|(seq, number, _)| (*seq, *number))
            .collect();
        let last_until = |seq: Seq| with_files.iter().rfind(|(at, _)| *at <= seq);
        let mut needed: BTreeSet<u64> = newest.into_iter().collect();
        needed.extend(with_files.last().map(|(_, number)| *number));
        if let Some(run) = self.core.run.filter(|run| run.finished.is_none()) {
            let first = with_files.iter().find(|(at, _)| *at > run.started);
            needed.extend(first.map(|(_, number)| *number));
            // Where nothing had changed, the one before it is what the run started from.
            needed.extend(last_until(run.started).map(|(_, number)| *number));
        }
        for (_, task) in self.tasks.iter().filter(|(_, task)| task.status.is_active()) {
            needed.extend(last_until(task.changed).map(|(_, number)| *number));
        }
        needed
    }
}
