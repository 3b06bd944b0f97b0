//! What updates come to for somebody who reads them: texts put together, calls with their ends.

use abide_testkit::AcpClient;
use serde_json::Value;

/// One thing that was told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Told {
    User(String),
    Agent(String),
    Thought(String),
    Call(String),
    /// The call ended, with what came of it.
    Ended(String, String),
    Other(String),
}

/// Tells updates.
pub(super) fn story(updates: &[Value]) -> Vec<Told> {
    let mut told: Vec<Told> = Vec::new();
    for update in updates {
        let text = || update["content"]["text"].as_str().unwrap_or_default();
        let call = || update["toolCallId"].as_str().unwrap_or_default().to_owned();
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "user_message_chunk" => told.push(Told::User(text().to_owned())),
            "agent_message_chunk" => match told.last_mut() {
                Some(Told::Agent(before)) => before.push_str(text()),
                _ => told.push(Told::Agent(text().to_owned())),
            },
            "agent_thought_chunk" => match told.last_mut() {
                Some(Told::Thought(before)) => before.push_str(text()),
                _ => told.push(Told::Thought(text().to_owned())),
            },
            "tool_call" => {
                told.push(Told::Call(call()));
                told.extend(ended(update));
            }
            "tool_call_update" => told.extend(ended(update)),
            other => told.push(Told::Other(other.to_owned())),
        }
    }
    told
}

fn ended(update: &Value) -> Option<Told> {
    let call = update["toolCallId"].as_str().unwrap_or_default().to_owned();
    let ended = update["status"] == "completed";
    ended.then(|| Told::Ended(call, update["content"].to_string()))
}

/// The conversation alone: who said what, which calls were made and what came of them.
pub(super) fn conversation(updates: &[Value]) -> Vec<Told> {
    let mut told = story(updates);
    told.retain(|told| !matches!(told, Told::Other(_)));
    // What stood between two parts of a text may be gone.
    told.dedup_by(|later, earlier| match (earlier, later) {
        (Told::Agent(text), Told::Agent(more)) | (Told::Thought(text), Told::Thought(more)) => {
            text.push_str(more);
            true
        }
        _ => false,
    });
    told
}

/// Does a turn; what was told in it, the prompt included.
#[track_caller]
pub(super) fn turn(client: &mut AcpClient, session: &str, text: &str) -> Vec<Told> {
    let from = client.received.len();
    let answer = client.turn(session, text);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{text}: {answer}");
    let mut told = vec![Told::User(text.to_owned())];
    told.extend(conversation(&client.updates(session, from)));
    told
}

/// Does a turn; what the agent said in it.
#[track_caller]
pub(super) fn said(client: &mut AcpClient, session: &str, text: &str) -> String {
    let told = turn(client, session, text);
    let texts = told.into_iter().filter_map(|told| match told {
        Told::Agent(text) => Some(text),
        _ => None,
    });
    texts.collect()
}
