//! Any other command, of which nothing is known: what it prints is what it says.

mod output;
#[cfg(test)]
mod tests;

use crate::limits::LimitTexts;
use crate::profile::{AgentProfile, Output};

pub(crate) static PROFILE: AgentProfile = AgentProfile {
    name: "text",
    programs: &[],
    prints_events: |_| false,
    resume: |_, _| None,
    prompt: |_| None,
    output: Output::Text(|| Box::<output::TextOutputReader>::default()),
    reports_exit: false,
    limits: LimitTexts::NONE,
};
