//! By what a report is recognised that comes once more, since an agent sent it again or has abide's
//! hooks twice.

use super::{HookReport, HookStep, TurnEnding};
use crate::kept::short_hash::text_hash;

/// The most bytes of an id that is taken as it is.
const PART: usize = 36;

impl HookReport {
    /// What tells this report from all others of the agent, the same when it comes again; `None` where
    /// the agent gives no ids that do so. At most 120 bytes.
    ///
    /// A turn may have several prompts, as a person adds to it, and several ends, as a hook of somebody
    /// else lets it go on: their texts count.
    #[must_use]
    pub fn identity(&self) -> Option<String> {
        let turn = || self.turn.as_deref().map(part);
        let (sort, of, text) = match &self.step {
            HookStep::Prompted { text, .. } => ("prompt", turn()?, hash(text)),
            HookStep::CallFinished { call, .. } => ("call", part(call), String::new()),
            HookStep::TurnFinished { ending, message } => {
                let sort = match ending {
                    TurnEnding::Completed => "end",
                    TurnEnding::Interrupted => "stop",
                    TurnEnding::Failed => "fail",
                };
                (sort, turn()?, message.as_deref().map(hash).unwrap_or_default())
            }
            HookStep::SessionStarted
            | HookStep::SubagentFinished { .. }
            | HookStep::SessionEnded
            | HookStep::Other => return None,
        };
        Some(format!("{sort}/{}/{of}/{text}", part(&self.session)))
    }
}

/// An id, or its hash if it is long or has bytes that ids do not have.
fn part(id: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if id.len() <= PART && id.bytes().all(is_plain) { id.to_owned() } else { hash(id) }
}

fn hash(text: &str) -> String {
    format!("#{:016x}", text_hash(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(session: &str, turn: Option<&str>, step: HookStep) -> HookReport {
        HookReport {
            session: session.to_owned(),
            parent: None,
            file: None,
            directory: None,
            model: None,
            lane: None,
            turn: turn.map(str::to_owned),
            step,
        }
    }

    fn prompt(text: &str) -> HookStep {
        HookStep::Prompted { text: text.to_owned(), by_person: true }
    }

    fn end(ending: TurnEnding, message: Option<&str>) -> HookStep {
        HookStep::TurnFinished { ending, message: message.map(str::to_owned) }
    }

    fn call(id: &str) -> HookStep {
        HookStep::CallFinished {
            call: id.to_owned(),
            tool: "t".to_owned(),
            arguments: "{}".to_owned(),
            result: String::new(),
            ok: true,
        }
    }

    #[test]
    fn an_identity_is_short_and_tells_apart_what_differs() {
        let long = "x/é".repeat(50);
        let mut all = Vec::new();
        for session in ["s", "277a5b1e-0000-4000-8000-000000000000", &long] {
            for turn in ["t", "baed5b1e-0000-4000-8000-000000000000", &long] {
                for step in [
                    prompt("a"),
                    prompt("b"),
                    prompt(&long),
                    end(TurnEnding::Completed, Some("a")),
                    end(TurnEnding::Completed, Some("b")),
                    end(TurnEnding::Completed, None),
                    end(TurnEnding::Failed, None),
                    end(TurnEnding::Interrupted, None),
                ] {
                    all.push(report(session, Some(turn), step).identity().unwrap());
                }
                all.push(report(session, Some("t"), call(turn)).identity().unwrap());
            }
        }
        assert!(all.iter().all(|identity| identity.len() <= 120), "{all:?}");
        let apart: std::collections::HashSet<&String> = all.iter().collect();
        assert_eq!(apart.len(), all.len());
    }

    #[test]
    fn a_call_is_the_same_in_whatever_turn_it_is_reported() {
        let first = report("s", Some("t"), call("c")).identity();
        assert_eq!(first.as_deref(), Some("call/s/c/"));
        assert_eq!(report("s", None, call("c")).identity(), first);
    }

    #[test]
    fn what_has_no_id_has_no_identity() {
        let subagent = HookStep::SubagentFinished { file: None };
        for step in [subagent, HookStep::SessionStarted, HookStep::SessionEnded, HookStep::Other] {
            assert_eq!(report("s", Some("t"), step).identity(), None);
        }
        assert_eq!(report("s", None, prompt("a")).identity(), None);
        assert_eq!(report("s", None, end(TurnEnding::Completed, Some("a"))).identity(), None);
    }
}
