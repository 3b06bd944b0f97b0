//! A conversation whose next answer is a function of the messages so far.

use serde::Deserialize;
use serde_json::Value;

use super::answer::{StubAnswer, StubCall};
use super::request::StubRequest;

/// A conversation: steps in which tools are asked for, and a last word.
///
/// Which step is next is told by the results in the messages alone, so that an agent that was
/// killed and asks again gets the answer that it would have got. The calls of step `n` have the
/// ids `call_n_0`, `call_n_1` and so on. The step after the highest of which a result is there is
/// next, so that results of the first steps may be gone, as after a compaction. Like a provider it
/// refuses messages in which a call has no result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// The tools that are asked for, step by step; those of a step at once.
    pub steps: Vec<Vec<Step>>,
    /// What is said when the last result is in.
    pub last: String,
}

/// A use of a tool in a conversation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Which tool.
    pub name: String,
    /// With what.
    #[serde(default)]
    pub arguments: Value,
}

impl Conversation {
    /// One tool a step: its name and arguments.
    #[must_use]
    pub fn of<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>, last: &str) -> Self {
        let step =
            |(name, arguments): (&str, Value)| vec![Step { name: name.to_owned(), arguments }];
        Self { steps: calls.into_iter().map(step).collect(), last: last.to_owned() }
    }

    /// The tools of one step, at once.
    #[must_use]
    pub fn then_at_once<'a>(mut self, calls: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let step = |(name, arguments): (&str, Value)| Step { name: name.to_owned(), arguments };
        self.steps.push(calls.into_iter().map(step).collect());
        self
    }

    /// What comes next.
    #[must_use]
    pub fn answer(&self, request: &StubRequest) -> StubAnswer {
        let results = request.results();
        if let Some(open) = request.calls().iter().find(|call| !results.contains(*call)) {
            return StubAnswer::status(400, format!("No tool output found for call {open}"));
        }
        let step_of = |id: &String| id.strip_prefix("call_")?.split('_').next()?.parse().ok();
        let next = results.iter().filter_map(step_of).max().map_or(0, |step: usize| step + 1);
        let Some(step) = self.steps.get(next) else {
            return StubAnswer::text(self.last.clone());
        };
        let calls = step.iter().enumerate().map(|(at, call)| {
            StubCall::new(format!("call_{next}_{at}"), call.name.clone(), call.arguments.clone())
        });
        StubAnswer { text: format!("Step {next}."), ..StubAnswer::calls(calls.collect()) }
    }
}
