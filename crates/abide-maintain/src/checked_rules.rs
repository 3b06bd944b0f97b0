//! The rules of sessions, checked over the events of one.

use abide_model::{
    Conversation, Event, Finding, FindingPlace, FindingType, Lineage, MessageRevisions,
    MessageVersions, Repair, SessionState, Validation, ValidationRule,
};

use crate::examination::{ExaminationFacts, doctor_warning};

/// The rules of a session, as far as its events were seen.
#[allow(missing_debug_implementations)]
pub struct CheckedRules {
    lineage: Lineage,
    versions: MessageVersions,
    state: SessionState,
    validation: Validation,
    conversation: Conversation,
}

impl CheckedRules {
    /// Before the first event. Events outside of the lineage were rewound. A message that was
    /// replaced is no part of the conversation, and not judged.
    #[must_use]
    pub fn new(
        rules: Vec<Box<dyn ValidationRule>>,
        lineage: Lineage,
        revisions: MessageRevisions,
    ) -> Self {
        Self {
            versions: revisions.settled(&lineage),
            lineage,
            state: SessionState::default(),
            validation: Validation::new(rules),
            conversation: Conversation::default(),
        }
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &Event) {
        if !self.lineage.contains(event.seq) {
            return self.state.apply_dead(event);
        }
        if self.versions.is_replaced(event) {
            let _ = self.state.apply(event);
            return;
        }
        self.conversation.event(event, &event.fact());
        self.validation.apply(&mut self.state, event);
    }

    /// What contradicts the rules. Notes the state, and what ends the open calls.
    pub fn finish(self, facts: &mut ExaminationFacts) -> Vec<Finding> {
        let mut findings = self.validation.finish(&self.state);
        if let Some(restoring) = self.state.core.restoring {
            findings.push(doctor_warning(
                "unfinished-rewind",
                FindingType::Structural,
                FindingPlace::event(restoring),
                "an interrupted rewind; its files may be partly restored",
                Repair::automatic(
                    "it is finished if it was started on this machine; otherwise run `abide rewind --finish` or `abide undo`",
                ),
            ));
        }
        facts.closing = self.conversation.repairs();
        facts.unknown = self.conversation.open_calls().into_iter().map(|open| open.call).collect();
        facts.state = Some(self.state);
        findings
    }
}
