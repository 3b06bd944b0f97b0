//! Validation: rules for the live events of a session and their state.
//!
//! A rule sees every live event once, in order, with the state just before it, and then the final
//! state. It keeps its own data in between. Rules only judge what was recorded; they change
//! nothing. Their cost is linear in the number of events, and each reports about twenty findings at
//! most.
//!
//! A custom rule beside the standard ones:
//!
//! ```
//! use abide_model::{
//!     Fact, Finding, FindingType, FindingPlace, NewEvent, Repair, ValidationRule, LiveEvent, Seq, SessionState,
//!     Severity, Timestamp, Validation, standard_rules,
//! };
//!
//! /// Nobody deletes files here.
//! #[derive(Default)]
//! struct NothingDeleted(Vec<Seq>);
//!
//! impl ValidationRule for NothingDeleted {
//!     fn event(&mut self, seen: &LiveEvent<'_>) {
//!         if let Ok(Fact::FileTouched(touch)) = seen.fact
//!             && touch.op == abide_model::FileOp::Delete
//!         {
//!             self.0.push(seen.event.seq);
//!         }
//!     }
//!
//!     fn finish(&mut self, _: &SessionState, findings: &mut Vec<Finding>) {
//!         findings.extend(self.0.first().map(|seq| {
//!             Finding::new(
//!                 "nothing-deleted",
//!                 FindingType::BusinessLogic,
//!                 Severity::Error,
//!                 FindingPlace::event(*seq),
//!                 format!("{} files were deleted", self.0.len()),
//!                 Repair::by_hand("restore them from a checkpoint"),
//!             )
//!         }));
//!     }
//! }
//!
//! let mut rules = standard_rules();
//! rules.push(Box::new(NothingDeleted::default()));
//! let mut validation = Validation::new(rules);
//! let mut state = SessionState::default();
//! let line = r#"{"kind":"file.touched","data":{"path":"a","op":"delete"}}"#;
//! let event = NewEvent::parse(line)?.into_event(Seq::FIRST, Timestamp::from_millis(0));
//! validation.apply(&mut state, &event);
//! let findings = validation.finish(&state);
//! assert_eq!(findings[0].rule, "nothing-deleted");
//! # Ok::<(), abide_model::InputError>(())
//! ```

mod anomalies;
mod bounded_findings;
mod checkpoint_digest;
mod checkpoint_position;
mod compaction_range;
mod dependency_cycle;
mod malformed_event;
mod message_order;
mod missing_dependency;
mod open_call;
mod orphaned_task;
mod parent_mismatch;
mod task_list;
mod task_status;
#[cfg(test)]
mod tests;
mod unknown_call;

use crate::{Anomaly, Event, Fact, FactError, Finding, SessionState};

/// A live event with its context.
#[derive(Debug)]
pub struct LiveEvent<'a> {
    /// The event.
    pub event: &'a Event,
    /// Its fact.
    pub fact: &'a Result<Fact, FactError>,
    /// The state just before it.
    pub before: &'a SessionState,
}

/// A rule that a session must satisfy.
pub trait ValidationRule {
    /// Called with each live event.
    fn event(&mut self, seen: &LiveEvent<'_>);

    /// Called after an event for which the fold reports an anomaly.
    fn anomaly(&mut self, event: &Event, anomaly: Anomaly) {
        let _ = (event, anomaly);
    }

    /// Reports the findings, after all events.
    fn finish(&mut self, state: &SessionState, findings: &mut Vec<Finding>);
}

/// Validates one session.
pub struct Validation {
    rules: Vec<Box<dyn ValidationRule>>,
}

impl Validation {
    /// With these rules.
    #[must_use]
    pub fn new(rules: Vec<Box<dyn ValidationRule>>) -> Self {
        Self { rules }
    }

    /// Shows the next live event to the rules, then applies it to the state. Events that are not
    /// live go to [`SessionState::apply_dead`].
    pub fn apply(&mut self, state: &mut SessionState, event: &Event) {
        let fact = event.fact();
        let seen = LiveEvent { event, fact: &fact, before: state };
        for rule in &mut self.rules {
            rule.event(&seen);
        }
        if let Some(anomaly) = state.apply(event) {
            for rule in &mut self.rules {
                rule.anomaly(event, anomaly);
            }
        }
    }

    /// The findings, given the final state, in the order of the rules.
    #[must_use]
    pub fn finish(mut self, state: &SessionState) -> Vec<Finding> {
        let mut findings = Vec::new();
        for rule in &mut self.rules {
            rule.finish(state, &mut findings);
        }
        findings
    }
}

/// The rules that every session must satisfy.
#[must_use]
pub fn standard_rules() -> Vec<Box<dyn ValidationRule>> {
    vec![
        Box::new(malformed_event::MalformedEventRule::default()),
        Box::new(anomalies::AnomalyRule::default()),
        Box::new(orphaned_task::OrphanedTaskRule::default()),
        Box::new(missing_dependency::MissingDependencyRule::default()),
        Box::new(parent_mismatch::ParentMismatchRule::default()),
        Box::new(dependency_cycle::DependencyCycleRule::default()),
        Box::new(task_status::TaskStatusRule),
        Box::new(unknown_call::UnknownCallRule::default()),
        Box::new(open_call::OpenCallRule),
        Box::new(message_order::MessageOrderRule::default()),
        Box::new(compaction_range::CompactionRangeRule::default()),
        Box::new(checkpoint_position::CheckpointPositionRule::default()),
        Box::new(checkpoint_digest::CheckpointDigestRule::default()),
    ]
}
