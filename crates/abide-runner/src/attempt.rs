//! How the last attempt at a task ended, as the journal knows it.

use abide::{
    EventRange, Kind, Session, TaskStatus,
    event::{Fact, TurnNumber},
    tasks::TaskNode,
};

use crate::RunError;
use crate::account::LOOK;
use crate::task_check::KIND;

/// The status of a turn whose agent said that it is done.
pub(crate) const DONE: &str = "done";
/// The status of a turn whose agent failed.
pub(crate) const FAILED: &str = "failed";

/// How the last attempt at a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LastAttempt {
    /// It was interrupted, or somebody set the task to be done again.
    Interrupted,
    /// It failed.
    Failed {
        reason: Option<String>,
        /// What the check printed, if that is why it failed.
        output: Option<String>,
    },
    /// The agent said that it is done, in this turn, and that was not checked.
    Unchecked(TurnNumber),
}

impl LastAttempt {
    /// The last attempt at a task; `None` if there was none.
    pub(crate) fn of(session: &Session, node: &TaskNode) -> Result<Option<Self>, RunError> {
        if node.attempts == 0 {
            return Ok(None);
        }
        let mut failed: Option<Option<String>> = None;
        for event in session.view().events(EventRange::ALL.backward()).take(LOOK) {
            let event = event?;
            let is_of = |task: Option<&abide::tasks::TaskId>| task == Some(&node.id);
            if event.kind == Kind::TASK_STATUS
                && let Ok(Fact::TaskStatus(fact)) = event.fact()
                && fact.task == node.id
            {
                match (fact.status, &failed) {
                    (TaskStatus::Failed, None) => failed = Some(fact.reason),
                    (_, Some(reason)) => {
                        return Ok(Some(Self::Failed { reason: reason.clone(), output: None }));
                    }
                    (TaskStatus::Complete | TaskStatus::Obsolete | TaskStatus::Blocked, None) => {
                        return Ok(Some(Self::Interrupted));
                    }
                    _ => {}
                }
            } else if event.kind == Kind::ARTIFACT_RECORDED
                && let Some(reason) = &failed
                && let Ok(Fact::Artifact(artifact)) = event.fact()
                && artifact.kind == KIND
                && is_of(artifact.task.as_ref())
            {
                let output = artifact.output.filter(|_| !artifact.ok);
                return Ok(Some(Self::Failed { reason: reason.clone(), output }));
            } else if event.kind == Kind::TURN_FINISHED
                && is_of(event.task.as_ref())
                && failed.is_none()
                && let Ok(Fact::TurnFinished(end)) = event.fact()
                && end.status != FAILED
            {
                let turn = event.turn.or(end.turn).filter(|_| end.status == DONE);
                return Ok(Some(turn.map_or(Self::Interrupted, Self::Unchecked)));
            } else if event.kind == Kind::TURN_STARTED && is_of(event.task.as_ref()) {
                break;
            }
        }
        Ok(Some(match failed {
            Some(reason) => Self::Failed { reason, output: None },
            None => Self::Interrupted,
        }))
    }
}
