//! `message-order`: a conversation is not in the order that the APIs of the models ask for.

use super::few::{Few, short};
use super::{Rule, Seen};
use crate::{
    Conversation, Disorder, DisorderSort, Finding, FindingType, FoundAt, Repair, SessionState,
    Severity,
};

/// The rule.
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
    let hidden = || Repair::by_hand("nothing: it is not shown to a model");
    let moved = || Repair::by_hand("nothing: a model is shown the result directly behind its call");
    match disorder.sort {
        DisorderSort::NoResult => (Severity::Warning, format!("{call} has no result"), recorded()),
        DisorderSort::PassedOver => (
            Severity::Error,
            format!("{call} has no result, and the model went on without it"),
            recorded(),
        ),
        DisorderSort::NoCall if id.is_empty() => {
            (Severity::Warning, "a result that does not say for which call".to_owned(), hidden())
        }
        DisorderSort::NoCall => (
            Severity::Warning,
            format!("a result for {call}, which is in no message before it"),
            hidden(),
        ),
        DisorderSort::Early => {
            (Severity::Warning, format!("the result for {call} stands before the call"), moved())
        }
        DisorderSort::SecondResult => {
            (Severity::Warning, format!("a second result for {call}"), hidden())
        }
        DisorderSort::SameId => (
            Severity::Warning,
            format!("{call} has the id of a call before it, which Anthropic's API refuses"),
            Repair::by_hand("have the agent give each call an id of its own"),
        ),
        DisorderSort::SameIdOpen => (
            Severity::Error,
            format!("{call} has the id of a call that has no result or stands beside it"),
            Repair::by_hand(
                "have the agent give each call an id of its own; compact these messages",
            ),
        ),
        DisorderSort::Between => (
            Severity::Warning,
            format!("something else was said between {call} and its result"),
            moved(),
        ),
        DisorderSort::Beginning => (
            Severity::Warning,
            "the conversation begins with neither a user nor instructions".to_owned(),
            Repair::by_hand("nothing: have the agent record what it was asked"),
        ),
    }
}
