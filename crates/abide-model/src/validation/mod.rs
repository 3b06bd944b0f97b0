//! Validation: rules over the live events of a session and the state they fold to.
//!
//! A rule sees every live event once, in order, with the state just before it, and then the state
//! at the end. What it keeps in between is its own. Rules judge what was recorded and change
//! nothing.

use crate::{Event, Fact, FactError, Finding, SessionState};

/// A live event, as a rule sees it.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The event.
    pub event: &'a Event,
    /// What it says.
    pub fact: &'a Result<Fact, FactError>,
    /// The state just before it.
    pub before: &'a SessionState,
}

/// A rule that a session must keep.
pub trait Rule {
    /// Takes in the next live event.
    fn event(&mut self, seen: &Seen<'_>);
    /// Says what is wrong, once all events were seen.
    fn finish(&mut self, state: &SessionState, findings: &mut Vec<Finding>);
}

/// Rules at work on one session.
pub struct Validation {
    rules: Vec<Box<dyn Rule>>,
}

impl Validation {
    /// With these rules.
    #[must_use]
    pub fn new(rules: Vec<Box<dyn Rule>>) -> Self {
        Self { rules }
    }

    /// Takes in the next live event, and the state just before it.
    pub fn event(&mut self, event: &Event, before: &SessionState) {
        let fact = event.fact();
        let seen = Seen { event, fact: &fact, before };
        for rule in &mut self.rules {
            rule.event(&seen);
        }
    }

    /// What is wrong, given the state at the end, in the order of the rules.
    #[must_use]
    pub fn finish(mut self, state: &SessionState) -> Vec<Finding> {
        let mut findings = Vec::new();
        for rule in &mut self.rules {
            rule.finish(state, &mut findings);
        }
        findings
    }
}

/// The rules that every session must keep.
#[must_use]
pub fn standard_rules() -> Vec<Box<dyn Rule>> {
    Vec::new()
}
