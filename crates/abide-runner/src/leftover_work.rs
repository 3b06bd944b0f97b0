//! Work that an earlier run left unfinished.

use std::collections::{BTreeMap, BTreeSet};

use abide::{
    CallId, EventRange, Kind, LaneId, NewEvent, SessionState, SessionView, TaskStatus, ToolResult,
    TurnEnd,
    event::{OUTCOME_UNKNOWN, TurnNumber},
    tasks::{TaskId, TaskTree},
};

use crate::RunError;
use crate::attempt::DONE;

/// A call whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnresolvedCall {
    /// Its id.
    pub call: CallId,
    /// Its tool.
    pub name: String,
    /// Its lane.
    pub lane: Option<LaneId>,
}

/// An interrupted task: an agent worked on it and is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptedTask {
    /// The task.
    pub task: TaskId,
    /// Its title.
    pub title: String,
    /// Its calls whose outcome is unknown.
    pub unknown: Vec<UnresolvedCall>,
    /// The agent's own id of the session in which it worked on the task.
    pub agent_session: Option<String>,
}

/// All work that an earlier run left unfinished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftoverWork {
    /// Interrupted tasks, in order.
    pub tasks: Vec<InterruptedTask>,
    /// Unfinished turns, with their lanes.
    pub turns: Vec<(Option<LaneId>, TurnNumber)>,
    /// Calls that belong to none of the tasks.
    pub unknown: Vec<UnresolvedCall>,
}

impl LeftoverWork {
    /// What this session's last run left unfinished. Needs the whole state.
    #[must_use]
    pub fn of(state: &SessionState) -> Self {
        let tree = TaskTree::of(&state.tasks);
        let mut left = Self::default();
        for (node, _) in tree.walk(None) {
            // Only leaves are worked on; a task with parts is not.
            if node.status.is_active() && tree.is_leaf(node.id.as_str()) {
                left.tasks.push(InterruptedTask {
                    task: node.id.clone(),
                    title: node.title.clone(),
                    unknown: Vec::new(),
                    agent_session: node.agent_session.clone(),
                });
            }
        }
        for (id, call) in state.calls.iter().filter(|(_, call)| !call.request) {
            let unknown = UnresolvedCall {
                call: CallId(id.to_owned()),
                name: call.name.clone(),
                lane: call.lane.clone(),
            };
            let node = call.task.as_ref().and_then(|task| tree.get(task.as_str()));
            let Some(node) = node.filter(|node| !node.status.is_done()) else {
                left.unknown.push(unknown);
                continue;
            };
            match left.tasks.iter_mut().find(|left| left.task == node.id) {
                Some(task) => task.unknown.push(unknown),
                // The task was put back in order, but the calls it was in when it ended were not.
                None => left.tasks.push(InterruptedTask {
                    task: node.id.clone(),
                    title: node.title.clone(),
                    unknown: vec![unknown],
                    agent_session: node.agent_session.clone(),
                }),
            }
        }
        let lanes = state.lanes.iter().map(|(name, lane)| (Some(LaneId(name.to_owned())), lane));
        let lanes = lanes.chain([(None, &state.core.main)]);
        left.turns = lanes.filter_map(|(name, lane)| Some((name, lane.turn?))).collect();
        left.turns.sort();
        left
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.turns.is_empty() && self.unknown.is_empty()
    }

    /// The tasks of the unfinished turns, by turn. Reads back to where the first of them started.
    pub fn turn_tasks(&self, view: &SessionView) -> Result<BTreeMap<TurnNumber, TaskId>, RunError> {
        let mut open: BTreeSet<TurnNumber> = self.turns.iter().map(|(_, turn)| *turn).collect();
        let mut tasks = BTreeMap::new();
        let mut backward = view.events(EventRange::ALL.backward());
        while !open.is_empty()
            && let Some(event) = backward.next()
        {
            let event = event?;
            if event.kind == Kind::TURN_STARTED
                && let Some(turn) = event.turn
                && open.remove(&turn)
                && let Some(task) = event.task
            {
                tasks.insert(turn, task);
            }
        }
        Ok(tasks)
    }

    /// The events that end the unfinished turns. In those of `unchecked` the agent had said that
    /// its task is done.
    pub(crate) fn end_turns(
        &self,
        unchecked: &BTreeMap<TurnNumber, TaskId>,
    ) -> Result<Vec<NewEvent>, RunError> {
        let ended = self.turns.iter().map(|(lane, turn)| {
            let task = unchecked.get(turn).cloned();
            let status = if task.is_some() { DONE } else { "interrupted" };
            let end =
                TurnEnd { turn: Some(*turn), status: status.to_owned(), ..TurnEnd::default() };
            let event = NewEvent::try_from(end)?;
            Ok(NewEvent { lane: lane.clone(), turn: Some(*turn), task, ..event })
        });
        ended.collect()
    }
}

/// The events that end calls that were only observed, once it was decided what to do with their
/// task.
pub(crate) fn end_calls(
    calls: &[UnresolvedCall],
    task: Option<&TaskId>,
) -> Result<Vec<NewEvent>, RunError> {
    let ended = calls.iter().map(|unknown| {
        let result = serde_json::value::to_raw_value(OUTCOME_UNKNOWN).ok();
        let fact = ToolResult { call: unknown.call.clone(), ok: false, result };
        let event = NewEvent::try_from(fact)?;
        Ok(NewEvent { lane: unknown.lane.clone(), task: task.cloned(), ..event })
    });
    ended.collect()
}

/// The status of an interrupted task that is done again or left.
pub(crate) const fn status_of(decision: crate::RetryDecision) -> TaskStatus {
    match decision {
        crate::RetryDecision::Retry => TaskStatus::Planned,
        crate::RetryDecision::Skip => TaskStatus::Blocked,
    }
}
