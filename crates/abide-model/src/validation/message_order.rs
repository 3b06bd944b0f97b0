//! `message-order`: a conversation is not in the order that the models' APIs require.

use super::bounded_findings::{BoundedFindings, short};
use super::{LiveEvent, ValidationRule};
use crate::{
    Conversation, Finding, FindingPlace, FindingType, OrderAnomaly, OrderAnomalyKind, Repair,
    SessionState, Severity,
};

/// The `message-order` rule.
#[derive(Debug, Default)]
pub(super) struct MessageOrderRule {
    conversation: Conversation,
}

impl ValidationRule for MessageOrderRule {
    fn event(&mut self, seen: &LiveEvent<'_>) {
        self.conversation.event(seen.event, seen.fact);
    }

    fn finish(&mut self, _: &SessionState, findings: &mut Vec<Finding>) {
        let mut few = BoundedFindings::new("message-order", FindingType::BusinessLogic);
        for disorder in self.conversation.disorder() {
            let (severity, message, repair) = message_order_words(&disorder);
            let place = FindingPlace::event(disorder.seq);
            let place = match &disorder.lane {
                Some(lane) => FindingPlace {
                    subject: Some(format!("lane {}", short(lane.as_str()))),
                    ..place
                },
                None => place,
            };
            few.add(severity, place, message, repair);
        }
        few.finish(findings);
    }
}

fn message_order_words(disorder: &OrderAnomaly) -> (Severity, String, Repair) {
    let id = disorder.call.as_ref().map(|call| short(call.as_str())).unwrap_or_default();
    let call = match disorder.name.as_str() {
        "" => format!("call {id}"),
        name => format!("call {id} of {}", short(name)),
    };
    let recorded = || Repair::automatic("a result that says 'outcome unknown' is recorded");
    let hidden = || Repair::by_hand("nothing to do: it is not shown to a model");
    let moved = || Repair::by_hand("nothing to do: a model sees the result right after its call");
    match disorder.sort {
        OrderAnomalyKind::NoResult => {
            (Severity::Warning, format!("{call} has no result"), recorded())
        }
        OrderAnomalyKind::PassedOver => (
            Severity::Error,
            format!("{call} has no result, and the model continued without it"),
            recorded(),
        ),
        OrderAnomalyKind::NoCall if id.is_empty() => {
            (Severity::Warning, "a result that names no call".to_owned(), hidden())
        }
        OrderAnomalyKind::NoCall => (
            Severity::Warning,
            format!("a result for {call}, which no message before it holds"),
            hidden(),
        ),
        OrderAnomalyKind::Early => {
            (Severity::Warning, format!("the result for {call} precedes the call"), moved())
        }
        OrderAnomalyKind::SecondResult => {
            (Severity::Warning, format!("a second result for {call}"), hidden())
        }
        OrderAnomalyKind::SameId => (
            Severity::Warning,
            format!("{call} has the id of an earlier call, which Anthropic's API refuses"),
            Repair::by_hand("have the agent give each call a unique id"),
        ),
        OrderAnomalyKind::SameIdOpen => (
            Severity::Error,
            format!("{call} has the id of a call that has no result or is in the same message"),
            Repair::by_hand("have the agent give each call a unique id; compact these messages"),
        ),
        OrderAnomalyKind::Between => (
            Severity::Warning,
            format!("another message is between {call} and its result"),
            moved(),
        ),
        OrderAnomalyKind::Beginning => (
            Severity::Warning,
            "the conversation does not start with a user or instructions".to_owned(),
            Repair::by_hand("nothing to do: have the agent record its prompt"),
        ),
    }
}
