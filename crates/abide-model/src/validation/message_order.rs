//! `message-order`: a conversation is not in the order that the models' APIs require.

use super::few::{Few, short};
use super::{Rule, Seen};
use crate::{
    Conversation, Disorder, DisorderSort, Finding, FindingType, FoundAt, Repair, SessionState,
    Severity,
};

/// The `message-order` rule.
#[derive(Debug, Default)]
pub(super) struct MessageOrder {
    conversation: Conversation,
}

impl Rule for MessageOrder {
    fn event(&mut self, seen: &Seen<'_>) {
        self.conversation.event(seen.event, seen.fact);
    }

    fn finish(&mut self, _: &SessionState, findings: &mut Vec<Finding>) {
        let mut few = Few::new("message-order", FindingType::BusinessLogic);
        for disorder in self.conversation.disorder() {
            let (severity, message, repair) = words(&disorder);
            let place = FoundAt::event(disorder.seq);
            let place = match &disorder.lane {
                Some(lane) => {
                    FoundAt { subject: Some(format!("lane {}", short(lane.as_str()))), ..place }
                }
                None => place,
            };
            few.add(severity, place, message, repair);
        }
        few.finish(findings);
    }
}

fn words(disorder: &Disorder) -> (Severity, String, Repair) {
    let id = disorder.call.as_ref().map(|call| short(call.as_str())).unwrap_or_default();
    let call = match disorder.name.as_str() {
        "" => format!("call {id}"),
        name => format!("call {id} of {}", short(name)),
    };
    let recorded = || Repair::automatic("a result that says 'outcome unknown' is recorded");
    let hidden = || Repair::by_hand("nothing to do: it is not shown to a model");
    let moved = || Repair::by_hand("nothing to do: a model sees the result right after its call");
    match disorder.sort {
        DisorderSort::NoResult => (Severity::Warning, format!("{call} has no result"), recorded()),
        DisorderSort::PassedOver => (
            Severity::Error,
            format!("{call} has no result, and the model continued without it"),
            recorded(),
        ),
        DisorderSort::NoCall if id.is_empty() => {
            (Severity::Warning, "a result that names no call".to_owned(), hidden())
        }
        DisorderSort::NoCall => (
            Severity::Warning,
            format!("a result for {call}, which no message before it holds"),
            hidden(),
        ),
        DisorderSort::Early => {
            (Severity::Warning, format!("the result for {call} precedes the call"), moved())
        }
        DisorderSort::SecondResult => {
            (Severity::Warning, format!("a second result for {call}"), hidden())
        }
        DisorderSort::SameId => (
            Severity::Warning,
            format!("{call} has the id of an earlier call, which Anthropic's API refuses"),
            Repair::by_hand("have the agent give each call a unique id"),
        ),
        DisorderSort::SameIdOpen => (
            Severity::Error,
            format!("{call} has the id of a call that has no result or is in the same message"),
            Repair::by_hand("have the agent give each call a unique id; compact these messages"),
        ),
        DisorderSort::Between => (
            Severity::Warning,
            format!("another message is between {call} and its result"),
            moved(),
        ),
        DisorderSort::Beginning => (
            Severity::Warning,
            "the conversation does not start with a user or instructions".to_owned(),
            Repair::by_hand("nothing to do: have the agent record its prompt"),
        ),
    }
}
