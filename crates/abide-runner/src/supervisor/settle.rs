//! Cleans up after an earlier run before any task is started.

use std::time::Duration;

use abide::{SessionRef, StoreError, TaskStatus, event::TurnNumber};

use super::{AGAIN, Supervisor};
use crate::RunError;
use crate::leftover_work::{LeftoverWork, end_calls, status_of};
use crate::marked_processes::end_marked;
use crate::run_event::RunEvent;
use crate::run_options::RunGoal;

impl Supervisor<'_> {
    /// Ends the processes of earlier runs of this session and of its parent: they work in the same
    /// directory.
    fn settle_earlier_processes(&mut self) -> Result<(), RunError> {
        let core = self.session.core()?;
        // An agent is started after its turn is recorded, so without a turn there was none.
        // Scanning all processes takes longer than the rest of the start.
        let ran = core.turns.last != TurnNumber::default() || core.health.recoveries > 0;
        let mut sessions = Vec::from_iter(ran.then(|| self.session.id()));
        if let Some(parent) = core.fields.parent {
            let store = self.session.store().clone().waiting(Duration::ZERO);
            match store.open_session(&SessionRef::Id(parent.session)) {
                Ok(held) => {
                    held.close()?;
                    sessions.push(parent.session);
                }
                Err(abide::Error::Store(StoreError::NoSession { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let ended = sessions.iter().map(|id| end_marked(&format!("{id}/"), self.options.grace));
        let processes: usize = ended.sum();
        if processes > 0 {
            self.tell(&RunEvent::LeftBehind { task: None, processes });
        }
        Ok(())
    }

    /// Ends the processes, turns and tasks that an earlier run left. If `decide` returns `None` for a
    /// task, everything stays as it was.
    pub(crate) fn settle(&mut self) -> Result<(), RunError> {
        self.settle_earlier_processes()?;
        let leftover = LeftoverWork::of(&self.session.state()?);
        let mut decided = Vec::with_capacity(leftover.tasks.len());
        for left in &leftover.tasks {
            let decision = (self.decide)(left);
            decided.push(decision.ok_or_else(|| RunError::Undecided(left.task.clone()))?);
        }
        let unchecked = self.reopen_unchecked(&leftover)?;
        let turns = leftover.end_turns(&unchecked)?;
        for event in turns.into_iter().chain(end_calls(&leftover.unknown, None)?) {
            self.tasks.also(event);
        }
        for (left, decision) in leftover.tasks.into_iter().zip(decided) {
            for event in end_calls(&left.unknown, Some(&left.task))? {
                self.tasks.also(event);
            }
            self.set(&left.task, status_of(decision), Some("interrupted".to_owned()), None)?;
            self.tell(&RunEvent::Interrupted { left: Box::new(left), decision });
        }
        // A conversation begins no task.
        if self.options.goal != RunGoal::Conversation {
            self.settle_failed_tasks()?;
        }
        // Completes a change that was cut off between a task and its parents.
        self.tasks.settle()?;
        self.tasks.flush()?;
        Ok(())
    }

    /// Plans failed tasks again: all of them if asked to, else those with retries left that an
    /// earlier run did not get to.
    fn settle_failed_tasks(&mut self) -> Result<(), RunError> {
        let tree = self.tasks.tree();
        let failed = tree.walk(self.options.scope.as_ref()).filter(|(node, _)| {
            node.status == TaskStatus::Failed && tree.is_leaf(node.id.as_str())
        });
        let failed: Vec<_> = failed.map(|(node, _)| (node.id.clone(), node.failures)).collect();
        for (task, failures) in failed {
            let check = self.check_of(&task)?;
            if !self.options.retry_failed && failures > self.retries_with_check(check.command()) {
                continue;
            }
            if self.options.retry_failed {
                self.before.insert(task.clone(), failures);
            }
            self.set(&task, TaskStatus::Planned, Some(AGAIN.to_owned()), None)?;
        }
        Ok(())
    }
}
