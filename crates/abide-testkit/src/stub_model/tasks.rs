//! Tasks, each with a conversation of its own.

use std::path::PathBuf;

use serde::Deserialize;

use super::answer::{StubAnswer, StubCall};
use super::conversation::Step;
use super::request::StubRequest;

/// A model that knows some tasks, and does the one that the user last spoke of.
///
/// How far it is with it is told by the results in the messages alone: an agent that was killed and
/// goes on in its session gets the answer that it would have got, and one that forgot all begins
/// anew. The calls of step `n` of the task `t` have the ids `call_t_n_0`, `call_t_n_1` and so on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tasks {
    /// The tasks.
    pub tasks: Vec<StubTask>,
}

/// What a model does for a task.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StubTask {
    /// The words by which it is known in what the user says.
    pub when: String,
    /// The tools that are asked for, step by step; those of a step at once.
    pub steps: Vec<Vec<Step>>,
    /// What is said when the last result is in.
    pub last: String,
    /// A step whose answer does not come at once.
    #[serde(default)]
    pub wait: Option<Wait>,
}

/// An answer that does not come at once.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Of which step, from 0; the last word is the one after the last.
    pub step: usize,
    /// It comes when there is such a file.
    pub until: PathBuf,
}

impl Tasks {
    /// What comes next.
    #[must_use]
    pub fn answer(&self, request: &StubRequest) -> StubAnswer {
        let results = request.results();
        if let Some(open) = request.calls().iter().find(|call| !results.contains(*call)) {
            return StubAnswer::status(400, format!("No tool output found for call {open}"));
        }
        let Some((number, task)) = self.spoken_of(request) else {
            return StubAnswer::text("There is no task in this.");
        };
        let of_this = format!("call_{number}_");
        // Some clients put the tool's name before the id.
        let step_of = |id: &String| {
            let (_, behind) = id.split_once(&of_this)?;
            behind.split('_').next()?.parse().ok()
        };
        let next = results.iter().filter_map(step_of).max().map_or(0, |step: usize| step + 1);
        let wait = task.wait.as_ref().filter(|wait| wait.step == next);
        let until = wait.map(|wait| wait.until.clone());
        let Some(step) = task.steps.get(next) else {
            return StubAnswer { until, ..StubAnswer::text(task.last.clone()) };
        };
        let calls = step.iter().enumerate().map(|(at, call)| {
            let id = format!("{of_this}{next}_{at}");
            StubCall::new(id, call.name.clone(), call.arguments.clone())
        });
        StubAnswer { text: format!("Step {next}."), until, ..StubAnswer::calls(calls.collect()) }
    }

    /// The task of which the user spoke last; in one breath, the one named first.
    fn spoken_of(&self, request: &StubRequest) -> Option<(usize, &StubTask)> {
        request.said().iter().rev().find_map(|said| {
            let named =
                self.tasks.iter().enumerate().filter_map(|(number, task)| {
                    said.find(&task.when).map(|at| (at, (number, task)))
                });
            named.min_by_key(|(at, _)| *at).map(|(_, found)| found)
        })
    }
}
