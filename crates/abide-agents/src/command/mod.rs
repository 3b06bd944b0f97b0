//! Any other command, of which nothing is known: what it prints is what it says.

mod output;
#[cfg(test)]
mod tests;

use crate::limits::LimitTexts;
use crate::output::{OutputReader, PriorSession};
use crate::profile::{AgentProfile, Output};

pub(crate) static PROFILE: AgentProfile = AgentProfile {
    name: "text",
    programs: &[],
    prints_events: |_| false,
    event_arguments: None,
    resume: |_, _| None,
    prompt: |_| None,
    input: |_| None,
    output: Output::Text(text_output),
    reports_exit: false,
    kept: None,
    hooks: None,
    limits: LimitTexts::NONE,
};

/// Reads a text for people.
pub(crate) fn text_output(before: PriorSession) -> Box<dyn OutputReader> {
    Box::new(output::TextOutputReader::following(before.calls))
}
