//! Property: whatever is said and done, in whatever pieces, is the same after recording and replay.

use agent_client_protocol_schema::v1::{ContentBlock, SessionUpdate};
use proptest::prelude::*;

use crate::recorded_session::{RecordedSession, raw};
use crate::{ReplayCheck, ReplayCheckReport, ReplayedUpdate};

/// An action in a session.
#[derive(Debug, Clone)]
enum SessionAction {
    Prompt(String),
    /// A text in pieces that end after these numbers of UTF-16 units.
    Said {
        thought: bool,
        text: String,
        cuts: Vec<usize>,
        id: Option<u8>,
    },
    Call {
        ended: bool,
        steps: usize,
    },
    Usage(u64),
    Answered,
}

fn happening() -> impl Strategy<Value = SessionAction> {
    let text = "[a-c \\n\"\\\\é😀]{0,12}";
    let said =
        (any::<bool>(), text, prop::collection::vec(0_usize..6, 0..6), any::<Option<bool>>());
    prop_oneof![
        1 => "[a-c😀]{1,6}".prop_map(SessionAction::Prompt),
        4 => said.prop_map(|(thought, text, cuts, id)| SessionAction::Said {
            thought, text, cuts, id: id.map(u8::from)
        }),
        2 => (any::<bool>(), 0_usize..3).prop_map(|(ended, steps)| SessionAction::Call { ended, steps }),
        1 => (0_u64..5).prop_map(SessionAction::Usage),
        1 => Just(SessionAction::Answered),
    ]
}

/// What a client shows: joined texts, calls and their changes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ClientEntry {
    Text { sort: &'static str, text: String, id: Option<String> },
    Call(String),
    Changed(String, Option<String>),
}

#[derive(Debug, Default)]
struct ClientModel(Vec<ClientEntry>);

impl ClientModel {
    fn see(&mut self, update: &str) {
        let read: SessionUpdate = serde_json::from_str(update).unwrap();
        let (sort, chunk) = match read {
            SessionUpdate::UserMessageChunk(chunk) => ("user", chunk),
            SessionUpdate::AgentMessageChunk(chunk) => ("agent", chunk),
            SessionUpdate::AgentThoughtChunk(chunk) => ("thought", chunk),
            SessionUpdate::ToolCall(call) => {
                return self.0.push(ClientEntry::Call(call.tool_call_id.to_string()));
            }
            SessionUpdate::ToolCallUpdate(call) => {
                let status = call.fields.status.map(|status| format!("{status:?}"));
                return self.0.push(ClientEntry::Changed(call.tool_call_id.to_string(), status));
            }
            _ => return,
        };
        let ContentBlock::Text(said) = chunk.content else { panic!("{update}") };
        self.say(sort, &said.text, chunk.message_id.map(|id| id.to_string()));
    }

    fn say(&mut self, sort: &'static str, said: &str, id: Option<String>) {
        if said.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(ClientEntry::Text { sort: before, text, id: other })
                if *before == sort && *other == id =>
            {
                text.push_str(said);
            }
            _ => self.0.push(ClientEntry::Text { sort, text: said.to_owned(), id }),
        }
    }
}

/// The pieces of a text, each the inside of a JSON string: every unit is escaped, so that a
/// character can be cut in two.
fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let escape = |units: &[u16]| units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
    let mut rest = units.as_slice();
    let mut pieces: Vec<String> = Vec::new();
    for cut in cuts {
        let (piece, more) = rest.split_at((*cut).min(rest.len()));
        pieces.push(escape(piece));
        rest = more;
    }
    pieces.push(escape(rest));
    pieces
}

/// Runs the actions; returns what a client saw.
fn tell(happenings: &[SessionAction]) -> (RecordedSession, ClientModel) {
    let mut story = RecordedSession::new();
    let mut client = ClientModel::default();
    for (number, happening) in happenings.iter().enumerate() {
        match happening {
            SessionAction::Prompt(text) => {
                story.prompt(text);
                client.say("user", text, None);
            }
            SessionAction::Said { thought, text, cuts, id } => {
                let sort = if *thought { "agent_thought_chunk" } else { "agent_message_chunk" };
                let message = id.map(|id| format!(r#","messageId":"m{id}""#)).unwrap_or_default();
                for piece in pieces(text, cuts) {
                    story.update(&format!(
                        r#"{{"sessionUpdate":"{sort}","content":{{"type":"text","text":"{piece}"}}{message}}}"#
                    ));
                }
                let sort = if *thought { "thought" } else { "agent" };
                client.say(sort, text, id.map(|id| format!("m{id}")));
            }
            SessionAction::Call { ended, steps } => {
                let mut updates = vec![format!(
                    r#"{{"sessionUpdate":"tool_call","toolCallId":"c{number}","title":"T"}}"#
                )];
                updates.extend((0..*steps).map(|_| {
                    format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c{number}","title":"U"}}"#)
                }));
                if *ended {
                    updates.push(format!(
                        r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c{number}","status":"completed"}}"#
                    ));
                }
                for update in updates {
                    story.update(&update);
                    client.see(&update);
                }
            }
            SessionAction::Usage(used) => {
                story.update(&format!(
                    r#"{{"sessionUpdate":"usage_update","used":{used},"size":9}}"#
                ));
            }
            SessionAction::Answered => {
                story.prompted(r#"{"stopReason":"end_turn"}"#);
            }
        }
    }
    let recorded = story.translator.interrupted("over");
    story.write(recorded);
    (story, client)
}

proptest! {
    #[test]
    fn what_is_recorded_is_replayed(happenings in prop::collection::vec(happening(), 0..30)) {
        let (story, client) = tell(&happenings);
        let (_, updates) = story.replay();
        let mut again = ClientModel::default();
        updates.iter().for_each(|update| again.see(update));
        prop_assert_eq!(&again.0, &client.0);
        prop_assert_eq!(&story.odd, &[]);
    }

    #[test]
    fn what_an_agent_has_of_it_is_the_same(
        happenings in prop::collection::vec(happening(), 0..30),
        part in 0.0..1.0_f64,
    ) {
        let (story, _) = tell(&happenings);
        let (_, updates) = story.replay();
        let compare = |count: usize| {
            let mut check = ReplayCheck::default();
            for update in &updates {
                check.recorded(&ReplayedUpdate { update: update.clone() });
            }
            for update in &updates[..count] {
                check.replayed(&raw(&format!(r#"{{"update":{update}}}"#)));
            }
            check.finish()
        };
        let whole = compare(updates.len());
        prop_assert_eq!(whole, ReplayCheckReport { same: whole.same, ..ReplayCheckReport::default() });
        let count = (part * updates.len() as f64) as usize;
        let some = compare(count);
        prop_assert_eq!((some.lacking, some.foreign), (0, 0));
        prop_assert!(some.same <= whole.same);
        // With the missing end, the replay is complete.
        prop_assert!(some.tail.is_some() || some.same == whole.same);
        if let Some(tail) = some.tail {
            prop_assert!(tail < updates.len());
        }
    }
}
