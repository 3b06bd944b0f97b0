//! The sessions of a stubbed agent, and the file that keeps them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A conversation as the agent knows it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StubSession {
    pub(super) cwd: String,
    pub(super) title: Option<String>,
    /// What the user said and what was sent to them, as updates, chunks put together.
    pub(super) updates: Vec<Value>,
}

/// Sessions by their ids.
pub(super) type Sessions = BTreeMap<String, StubSession>;

impl StubSession {
    /// Keeps an update; a chunk that goes on with the text before it is put to that.
    pub(super) fn keep(&mut self, update: &Value) {
        let sort = |update: &Value| update["sessionUpdate"].clone();
        let of_text = |update: &Value| update["content"]["type"] == "text";
        if let Some(last) = self.updates.last_mut()
            && sort(last) == sort(update)
            && matches!(sort(last).as_str(), Some("agent_message_chunk" | "agent_thought_chunk"))
            && of_text(last)
            && of_text(update)
        {
            if let Value::String(before) = &mut last["content"]["text"] {
                before.push_str(update["content"]["text"].as_str().unwrap_or_default());
            }
            return;
        }
        self.updates.push(update.clone());
    }

    /// Every text of the conversation, a line each, with who said it.
    pub(super) fn told(&self) -> String {
        let mut told = String::new();
        for update in &self.updates {
            let who = update["sessionUpdate"].as_str().unwrap_or_default();
            if let Some(text) = update["content"]["text"].as_str() {
                told.push_str(&format!("{who}: {text}\n"));
            }
        }
        told
    }
}

/// What the state file holds, without the last messages of each session; nothing where there is
/// no file.
pub(super) fn read(path: &Path, forget: usize) -> Result<Sessions, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Sessions::new()),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let mut sessions: Sessions =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    for session in sessions.values_mut() {
        let keep = session.updates.len().saturating_sub(forget);
        session.updates.truncate(keep);
    }
    Ok(sessions)
}

/// Writes the state file anew, whole or not at all.
pub(super) fn write(path: &Path, sessions: &Sessions) -> Result<(), String> {
    let text = serde_json::to_string(sessions).map_err(|error| error.to_string())?;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    std::fs::write(&new, text)
        .and_then(|()| std::fs::rename(&new, path))
        .map_err(|error| format!("{}: {error}", path.display()))
}
