//! What is read here is what the protocol's schema reads.

use agent_client_protocol_schema::v1 as schema;
use serde_json::{Value, json};

use super::{
    AcpToolStatus, AcpUpdate, EntryStatus, Priority, SessionInfo, UpdateKind, is_block,
    is_tool_kind,
};
use crate::SessionPage;

/// The words that the schema has for a thing, as it names them when it is told another.
fn words<T: serde::de::DeserializeOwned>(wrong: &Value) -> Vec<String> {
    let error = serde_json::from_value::<T>(wrong.clone()).err().expect("no such word").to_string();
    let (_, expected) = error.split_once("expected").expect("expected words");
    let words: Vec<_> = expected.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(words.len() > 2, "{error}");
    words
}

fn blocks() -> Vec<Value> {
    let mut blocks: Vec<Value> = words::<schema::ContentBlock>(&json!({"type": "?"}))
        .into_iter()
        .chain(["?".to_owned()])
        .map(|sort| {
            json!({
                "type": sort, "text": "t", "data": "d", "mimeType": "m", "name": "n", "uri": "u",
                "title": "t", "size": 1, "annotations": {}, "_meta": {},
                "resource": {"uri": "u", "text": "t", "mimeType": "m"},
            })
        })
        .collect();
    let blob = json!({"type": "resource", "resource": {"uri": "u", "blob": "b"}});
    blocks.push(blob);
    blocks
}

/// An update of every kind, with all that any of them requires.
fn updates() -> Vec<Value> {
    let kinds = words::<schema::SessionUpdate>(&json!({"sessionUpdate": "?"}));
    let update = |kind: String| {
        json!({
            "sessionUpdate": kind, "content": {"type": "text", "text": "t"}, "messageId": "m",
            "toolCallId": "c", "title": "t", "kind": "read", "status": "completed", "locations": [],
            "entries": [], "availableCommands": [], "currentModeId": "m", "configOptions": [],
            "used": 1, "size": 2, "cost": null, "severity": "info", "compactionId": "c",
            "sessionId": "s", "cwd": "/", "additionalDirectories": ["/a"], "_meta": {},
        })
    };
    kinds.into_iter().chain(["?".to_owned()]).map(update).collect()
}

/// Every value that comes of one by leaving out a member or by giving it another value; those of
/// the members' own members as well.
fn changed(value: &Value) -> Vec<Value> {
    let others = [
        Value::Null,
        json!(true),
        json!(7),
        json!(-7),
        json!(7.5),
        json!("word"),
        json!([]),
        json!(["word"]),
        json!([7]),
        json!({}),
        json!({"type": "text"}),
        json!({"type": "image", "data": "d", "mimeType": "m"}),
    ];
    let mut all = vec![value.clone()];
    for (key, member) in value.as_object().into_iter().flatten() {
        let mut without = value.clone();
        without.as_object_mut().unwrap().shift_remove(key);
        all.push(without);
        for other in others.iter().cloned().chain(changed(member)) {
            let mut with = value.clone();
            with[key] = other;
            all.push(with);
        }
    }
    all
}

#[test]
fn what_is_an_update_here_is_one_in_the_schema() {
    let mut counts = (0, 0);
    for update in updates().iter().flat_map(changed) {
        let json = update.to_string();
        let theirs = serde_json::from_str::<schema::SessionUpdate>(&json);
        let ours = AcpUpdate::read(&json);
        assert_eq!(ours.is_some(), theirs.is_ok(), "{json}: {theirs:?}");
        let (Some(ours), Ok(theirs)) = (ours, theirs) else {
            counts.1 += 1;
            continue;
        };
        counts.0 += 1;
        use schema::SessionUpdate as Theirs;
        let kind = match theirs {
            Theirs::UserMessageChunk(_)
            | Theirs::AgentMessageChunk(_)
            | Theirs::AgentThoughtChunk(_) => UpdateKind::Chunk,
            Theirs::ToolCall(call) => {
                let status = ours.status().unwrap_or(AcpToolStatus::Pending);
                assert_eq!(format!("{status:?}"), format!("{:?}", call.status));
                assert_eq!(ours.text("toolCallId"), Some(&*call.tool_call_id.0));
                UpdateKind::ToolCall
            }
            Theirs::ToolCallUpdate(call) => {
                assert_eq!(format!("{:?}", ours.status()), format!("{:?}", call.fields.status));
                assert_eq!(ours.text("toolCallId"), Some(&*call.tool_call_id.0));
                UpdateKind::ToolCallUpdate
            }
            Theirs::Plan(_) => UpdateKind::Plan,
            Theirs::AvailableCommandsUpdate(_) => UpdateKind::AvailableCommands,
            Theirs::CurrentModeUpdate(mode) => {
                assert_eq!(ours.text("currentModeId"), Some(&*mode.current_mode_id.0));
                UpdateKind::CurrentMode
            }
            Theirs::ConfigOptionUpdate(_) => UpdateKind::ConfigOptions,
            Theirs::SessionInfoUpdate(info) => {
                assert_eq!(ours.text("title"), info.title.take().as_deref());
                UpdateKind::SessionInfo
            }
            Theirs::UsageUpdate(_) => UpdateKind::Usage,
            Theirs::Notice(_) => UpdateKind::Notice,
            _ => UpdateKind::Other,
        };
        assert_eq!(ours.kind(), kind, "{json}");
    }
    assert!(counts.0 > 1000 && counts.1 > 300, "{counts:?}");
}

#[test]
fn what_is_a_block_here_is_one_in_the_schema() {
    let mut counts = (0, 0);
    for block in blocks().iter().flat_map(changed) {
        let json = block.to_string();
        let theirs = serde_json::from_str::<schema::ContentBlock>(&json);
        assert_eq!(is_block(&json), theirs.is_ok(), "{json}: {theirs:?}");
        *if theirs.is_ok() { &mut counts.0 } else { &mut counts.1 } += 1;
    }
    assert!(counts.0 > 200 && counts.1 > 100, "{counts:?}");
}

#[test]
fn json_that_a_reader_refuses_is_no_update() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let wrong = [
        format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c","rawInput":{deep}}}"#),
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"\ud800"}"#.to_owned(),
        r#"{"sessionUpdate":"usage_update","used":1e999,"size":1}"#.to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
    ];
    for json in wrong {
        assert!(serde_json::from_str::<schema::SessionUpdate>(&json).is_err(), "{json}");
        assert!(AcpUpdate::read(&json).is_none(), "{json}");
    }
}

#[test]
fn the_entries_of_a_plan() {
    let priorities = words::<schema::PlanEntryPriority>(&json!("?"));
    let stages = words::<schema::PlanEntryStatus>(&json!("?"));
    let mut entries = vec![json!("no entry"), json!(null), json!({"content": "half"})];
    for priority in priorities.iter().map(String::as_str).chain(["?"]) {
        for status in stages.iter().map(String::as_str).chain(["?"]) {
            entries.push(json!({"content": "c", "priority": priority, "status": status}));
        }
    }
    let json = json!({"sessionUpdate": "plan", "entries": entries}).to_string();
    let Ok(schema::SessionUpdate::Plan(theirs)) = serde_json::from_str(&json) else { panic!() };
    let ours = AcpUpdate::read(&json).unwrap();
    let ours: Vec<_> = ours
        .entries()
        .map(|entry| (entry.content.to_owned(), entry.priority, entry.status))
        .collect();
    let theirs: Vec<_> = theirs
        .entries
        .into_iter()
        .map(|entry| {
            let priority = match entry.priority {
                schema::PlanEntryPriority::High => Priority::High,
                schema::PlanEntryPriority::Medium => Priority::Medium,
                schema::PlanEntryPriority::Low => Priority::Low,
                other => panic!("{other:?}"),
            };
            let status = match entry.status {
                schema::PlanEntryStatus::Pending => EntryStatus::Pending,
                schema::PlanEntryStatus::InProgress => EntryStatus::InProgress,
                schema::PlanEntryStatus::Completed => EntryStatus::Completed,
                other => panic!("{other:?}"),
            };
            (entry.content, priority, status)
        })
        .collect();
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 9);
}

#[test]
fn the_words_of_tool_calls() {
    for word in words::<schema::ToolCallStatus>(&json!("?")) {
        let theirs: schema::ToolCallStatus = serde_json::from_value(json!(word)).unwrap();
        let ours = AcpToolStatus::read(&word).unwrap();
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    }
    assert_eq!(AcpToolStatus::read("?"), None);
    let kinds = [
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
        "?",
    ];
    for word in kinds {
        let theirs: schema::ToolKind = serde_json::from_value(json!(word)).unwrap();
        assert_eq!(is_tool_kind(word), theirs != schema::ToolKind::Other, "{word}");
    }
}

#[test]
fn a_page_of_sessions_is_an_answer_to_list() {
    let info = SessionInfo {
        session_id: "s".into(),
        cwd: "/work".into(),
        title: Some("t".into()),
        updated_at: Some("2026-01-01T00:00:00Z".into()),
    };
    let bare = SessionInfo { title: None, updated_at: None, ..info.clone() };
    for next in [None, Some("after".to_owned())] {
        let page = SessionPage { sessions: vec![info.clone(), bare.clone()], next };
        let ours = serde_json::to_value(&page).unwrap();
        let theirs: schema::ListSessionsResponse = serde_json::from_value(ours.clone()).unwrap();
        assert_eq!(theirs.sessions.len(), 2);
        assert_eq!(serde_json::to_value(&theirs).unwrap(), ours);
    }
}
