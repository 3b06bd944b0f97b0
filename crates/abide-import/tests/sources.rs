//! Every byte of a file is kept, once, whatever is in it, and however it grows.

use std::fs;

use abide::event::Fact;
use abide::{Event, Kind, SessionRef};
use abide_import::ImportNews;
use proptest::prelude::*;

use crate::agent_home::{AgentHome, ID, answer, prompt, said, write};

/// A conversation of two prompts.
fn conversation() -> String {
    let call = r#"{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}"#;
    [
        format!(r#"{{"type":"custom-title","customTitle":"A talk","sessionId":"{ID}"}}"#),
        prompt("u1", None, "Fix the parser"),
        answer("a1", "u1", "msg_1", &said("I look"), 1),
        answer("a2", "a1", "msg_1", call, 7),
        prompt("u2", Some("a2"), "And now the tests"),
        answer("a3", "u2", "msg_2", &said("Done"), 5),
    ]
    .join("\n")
        + "\n"
}

fn kinds(events: &[Event]) -> Vec<&str> {
    let bookkeeping =
        |event: &&Event| event.kind.is_reserved() || event.kind == Kind::SESSION_STATUS;
    events.iter().filter(|event| !bookkeeping(event)).map(|event| event.kind.as_str()).collect()
}

#[test]
fn a_file_is_given_back_byte_for_byte() {
    let odd = [
        conversation(),
        conversation().replace('\n', "\r\n"),
        format!("\n\n{}\n", prompt("u1", None, "x")),
        format!("{}{}", prompt("u1", None, "x"), prompt("u2", Some("u1"), "y")),
        format!("{{\"type\":\"us{}\nnot json\n[1,2]\n{{}}\n", prompt("u1", None, "x")),
        prompt("u1", None, "no end"),
        format!("  {}  \n", prompt("u1", None, r"\u0061 \ud83d\ude00 \ud800 1e999")),
        prompt("u1", None, "x").replace("\"role\"", "\"r\\u006fle\""),
        r#"{"type":"user","uuid":"d","message":{"role":"user","content":"a"},"message":{"role":"user","content":"b"}}"#.to_owned(),
        r#"{"type":"user","uuid":"d","message":null}{"type":"user","message":{}}{"type":"user","message":{"role":"user","content":"x","abide":1}}"#.to_owned(),
        format!("{{\"type\":\"deep\",\"x\":{}{}}}\n", "[".repeat(110), "]".repeat(110)),
        "x".repeat(3 << 20),
    ];
    for text in odd {
        let home = AgentHome::new();
        home.write(&text);
        // Nobody writes to it any more.
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
        let file = fs::OpenOptions::new().append(true).open(home.file()).unwrap();
        file.set_modified(old).unwrap();
        let done = home.import();
        let Some(session) = done.sessions[0].as_ref().unwrap().session else {
            assert!(!text.contains('{'), "a file without records makes no session");
            continue;
        };
        let given = home.given_back(session, "session.jsonl");
        assert_eq!(String::from_utf8_lossy(&given), text);
    }
}

#[test]
fn bytes_that_are_no_text_are_given_back() {
    let home = AgentHome::new();
    let mut bytes = conversation().into_bytes();
    bytes.extend(b"{\"a\":\"\xff\xfe\"}\n\0\0\0\n");
    home.write(&bytes);
    let session = home.import_one();
    assert_eq!(home.given_back(session, "session.jsonl"), bytes);
}

#[test]
fn a_conversation_becomes_messages_usage_and_a_session_with_its_directory() {
    let home = AgentHome::new();
    home.write(conversation());
    let session = home.import_one();
    let events = home.events(session);
    assert_eq!(
        kinds(&events),
        [
            "source.recorded",
            "message.added",
            "git.observed",
            "message.added",
            "usage.recorded",
            "message.added",
            "usage.recorded",
            "message.added",
            "message.added",
            "usage.recorded",
            "source.read",
        ]
    );
    let state = home.view(session).state().unwrap();
    assert_eq!(state.core.fields.workspace.as_deref(), Some("/p"));
    assert_eq!(state.core.fields.title.as_deref(), Some("A talk"));
    assert_eq!(state.core.fields.model.as_deref(), Some("m-1"));
    assert_eq!(state.core.usage.output_tokens, 12, "the greatest of each message, once");
    assert_eq!(state.core.usage.input_tokens, 66);
    assert_eq!(state.core.messages.total, 5);
    assert_eq!(state.core.status, abide::SessionStatus::Idle);
    let by_key = SessionRef::Key(format!("claude/{ID}"));
    assert_eq!(home.store.find(&by_key).unwrap(), session);
    let occurred = events.iter().find(|event| event.kind == Kind::MESSAGE_ADDED).unwrap().occurred;
    assert_eq!(occurred.unwrap().to_string(), "2026-01-02T03:04:05.000Z");
}

#[test]
fn a_second_import_touches_nothing() {
    let home = AgentHome::new();
    home.write(conversation());
    let session = home.import_one();
    let before = home.events(session);
    assert_eq!(home.news(), [ImportNews::None]);
    assert!(!home.ledger().contains("memory"), "what readers remember is in the session");
    home.import();
    assert_eq!(home.events(session), before);
    // Nor where the ledger is lost, but for the writer's own notes.
    home.lose_the_ledger();
    assert_eq!(home.import_one(), session);
    assert_eq!(kinds(&home.events(session)), kinds(&before));
}

/// What of an event must be the same however a file was read.
fn essence(events: &[Event]) -> Vec<String> {
    let told = events.iter().filter(|event| {
        !event.kind.is_reserved()
            && ![Kind::SESSION_STATUS, Kind::SESSION_UPDATED, Kind::SOURCE_READ]
                .contains(&event.kind)
    });
    told.map(|event| {
        let data = event.data.as_ref().unwrap();
        match event.fact() {
            // They name other events by their numbers.
            Ok(Fact::Rewind(_) | Fact::Compaction(_)) => event.kind.to_string(),
            _ => format!("{} {} {:?}", event.kind, data.as_str(), event.occurred),
        }
    })
    .collect()
}

#[test]
fn a_file_that_grows_gives_the_same_events_wherever_it_was_cut() {
    let whole = AgentHome::new();
    whole.write(conversation());
    let expected = essence(&whole.events(whole.import_one()));
    let text = conversation();
    let cuts = (1..text.len())
        .step_by(97)
        .chain(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1));
    for cut in cuts {
        let home = AgentHome::new();
        home.write(&text[..cut]);
        home.import();
        home.append(&text[cut..]);
        let session = home.import_one();
        assert_eq!(essence(&home.events(session)), expected, "{cut}");
        assert_eq!(home.given_back(session, "session.jsonl"), text.as_bytes(), "{cut}");
    }
}

#[test]
fn a_file_that_was_rewritten_is_recorded_once_more_and_its_conversation_begins_again() {
    let home = AgentHome::new();
    home.write(conversation());
    let session = home.import_one();
    let other = format!("{}\n", prompt("v1", None, "Something else"));
    home.write(&other);
    assert_eq!(home.news(), [ImportNews::Changed]);
    assert_eq!(home.import_one(), session);
    assert_eq!(home.given_back(session, "session.jsonl"), conversation().as_bytes());
    assert_eq!(home.given_back(session, "session.jsonl~2"), other.as_bytes());
    assert_eq!(home.view(session).state().unwrap().core.messages.total, 1);
    home.append(format!("{}\n", prompt("v2", Some("v1"), "More")));
    home.import();
    assert_eq!(home.view(session).state().unwrap().core.messages.total, 2);
    assert!(home.given_back(session, "session.jsonl~2").ends_with(b"\n"));
    home.write("");
    home.import();
    assert_eq!(home.given_back(session, "session.jsonl~3"), b"");
}

#[test]
fn a_file_that_is_rewritten_again_and_again_is_recorded_once_each_time() {
    let home = AgentHome::new();
    let text = |number: usize| format!("{}\n", prompt(&format!("v{number}"), None, "Again"));
    let mut session = None;
    for number in 1..5 {
        home.write(text(number));
        session = Some(home.import_one());
        let more =
            format!("{}\n", prompt(&format!("w{number}"), Some(&format!("v{number}")), "More"));
        home.append(&more);
        home.import();
        let name = if number == 1 {
            "session.jsonl".to_owned()
        } else {
            format!("session.jsonl~{number}")
        };
        let expected = format!("{}{more}", text(number));
        assert_eq!(home.given_back(session.unwrap(), &name), expected.as_bytes());
        assert_eq!(home.view(session.unwrap()).state().unwrap().core.messages.total, 2);
    }
    let events = home.events(session.unwrap());
    assert_eq!(events.iter().filter(|event| event.kind == Kind::MESSAGE_ADDED).count(), 8);
}

#[test]
fn what_was_erased_does_not_come_back_with_a_file_that_is_rewritten() {
    let home = AgentHome::new();
    home.write(conversation());
    let session = home.import_one();
    let events = home.events(session);
    let message = events.iter().find(|event| event.kind == Kind::MESSAGE_ADDED).unwrap().seq;
    let wait = std::time::Duration::from_secs(2);
    home.store.erase_payloads(session, &[message], wait).unwrap();
    home.write(conversation().replace("A talk", "Another talk"));
    let done = home.import();
    let left = done.sessions[0].as_ref().unwrap().left.clone().unwrap();
    assert!(left.contains("was rewritten"), "{left}");
    let text: String = home.events(session).iter().map(Event::to_json).collect();
    assert!(!text.contains("Fix the parser"));
}

#[test]
fn a_secret_in_bytes_that_are_no_text_is_not_recorded() {
    let home = AgentHome::redacting();
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let mut bytes = conversation().into_bytes();
    bytes.extend(format!("{{\"token\":\"{secret}\",\"x\":\"").as_bytes());
    bytes.extend(b"\xff\"}\n");
    home.write(&bytes);
    // And one across the border of two events.
    let large = home.file().with_extension("").join("tool-results/r.txt");
    let mut text = "\u{e9}".repeat((1 << 19) - 10);
    text.push_str(&format!(" {secret} "));
    text.push_str(&"\u{e9}".repeat(1 << 18));
    write(&large, text.as_bytes());
    let session = home.import_one();
    let recorded: String = home.events(session).iter().map(Event::to_json).collect();
    assert!(!recorded.contains(&secret));
    assert_eq!(recorded.matches("‹redacted:").count(), 2);
    let given = home.given_back(session, "tool-results/r.txt");
    assert!(String::from_utf8(given).unwrap().contains(" ‹redacted:"));
}

#[test]
fn a_record_too_large_for_an_event_is_kept_in_parts() {
    let home = AgentHome::new();
    let large = prompt("u7", Some("a3"), &"long text ".repeat(5 << 20));
    let text = format!("{}{large}\n{}\n", conversation(), prompt("u8", Some("a3"), "After it"));
    home.write(&text);
    let session = home.import_one();
    assert!(home.given_back(session, "session.jsonl") == text.as_bytes());
    assert_eq!(home.view(session).state().unwrap().core.messages.total, 6);
}

#[test]
fn a_session_that_was_removed_does_not_come_back() {
    let home = AgentHome::new();
    home.write(conversation());
    let session = home.import_one();
    home.store.delete_session(session).unwrap();
    assert_eq!(home.news(), [ImportNews::None]);
    home.append(format!("{}\n", prompt("u9", Some("a3"), "More")));
    assert_eq!(home.news(), [ImportNews::Removed]);
    let done = home.import();
    assert_eq!(done.sessions[0].as_ref().unwrap().left.as_deref(), Some("it was removed here"));
    assert!(home.store.sessions().unwrap().is_empty());
}

#[test]
fn a_session_that_somebody_holds_is_left_to_them() {
    let home = AgentHome::new();
    home.write(conversation());
    let session = home.import_one();
    home.append(format!("{}\n", prompt("u9", Some("a3"), "More")));
    let held = home.store.open_session(&SessionRef::Id(session)).unwrap();
    let done = home.import();
    assert!(done.sessions[0].as_ref().unwrap().left.as_ref().unwrap().starts_with("it is held by"));
    held.close().unwrap();
    home.import();
    assert_eq!(home.view(session).state().unwrap().core.messages.total, 6);
}

#[test]
fn a_line_that_is_being_written_waits_for_its_end() {
    let home = AgentHome::new();
    let text = conversation();
    let cut = text.len() - 20;
    home.write(&text[..cut]);
    let done = home.import();
    let imported = done.sessions[0].as_ref().unwrap();
    assert!(imported.unfinished > 0);
    let session = imported.session.unwrap();
    assert_eq!(home.view(session).state().unwrap().core.messages.total, 4);
    assert_eq!(home.news(), [ImportNews::Changed], "it is looked at again");
    home.append(&text[cut..]);
    home.import();
    assert_eq!(home.view(session).state().unwrap().core.messages.total, 5);
}

#[test]
fn a_branch_that_was_left_is_rewound() {
    let home = AgentHome::new();
    home.write(conversation());
    let session = home.import_one();
    // Back to before the second prompt.
    home.append(format!("{}\n", prompt("u3", Some("a2"), "Rather the lexer")));
    home.import();
    let events = home.events(session);
    assert!(kinds(&events).contains(&"session.rewound"), "{:?}", kinds(&events));
    let state = home.view(session).state().unwrap();
    assert_eq!(state.core.messages.total, 4, "u1, a1, a2 and u3");
    let whole = AgentHome::new();
    whole.write(fs::read(home.file()).unwrap());
    let again = whole.import_one();
    assert_eq!(essence(&whole.events(again)), essence(&events), "in one go as in two");
}

#[test]
fn subagents_and_other_files_of_a_session_belong_to_it() {
    let home = AgentHome::new();
    home.write(conversation());
    let below = home.file().with_extension("");
    let line = prompt("s1", None, "Look for it")
        .replace("\"isSidechain\":false", "\"isSidechain\":true,\"agentId\":\"abc\"");
    write(&below.join("subagents/agent-abc.jsonl"), format!("{line}\n").as_bytes());
    write(&below.join("tool-results/t1.txt"), &vec![b'x'; 3 << 20]);
    let session = home.import_one();
    let state = home.view(session).state().unwrap();
    assert_eq!(state.lane("abc").unwrap().messages, 1);
    assert_eq!(
        home.given_back(session, "subagents/agent-abc.jsonl"),
        format!("{line}\n").as_bytes()
    );
    assert_eq!(home.given_back(session, "tool-results/t1.txt").len(), 3 << 20);
    let before = home.events(session).len();
    home.lose_the_ledger();
    home.import();
    let same = home.events(session);
    assert_eq!(
        kinds(&same).len(),
        same.len()
            - same
                .iter()
                .filter(|event| event.kind.is_reserved() || event.kind == Kind::SESSION_STATUS)
                .count()
    );
    assert!(same.len() >= before);
    assert_eq!(same.iter().filter(|event| event.kind == Kind::SOURCE_RECORDED).count(), 4);
}

#[test]
fn the_id_of_a_session_carries_its_start() {
    let home = AgentHome::new();
    home.write(conversation());
    let session = home.import_one();
    assert_eq!(session.created().to_string(), "2026-01-02T03:04:05.000Z");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Bytes that were altered anywhere are kept, and no line that can be read is lost.
    #[test]
    fn a_damaged_file_loses_no_line_that_can_be_read(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)
    ) {
        let mut bytes = conversation().into_bytes();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.push(b'\n');
        let home = AgentHome::new();
        home.write(&bytes);
        let done = home.import();
        let imported = done.sessions[0].as_ref().unwrap();
        let objects = bytes.split(|byte| *byte == b'\n').filter(|line| {
            std::str::from_utf8(line).is_ok_and(|line| {
                serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line).is_ok()
            })
        });
        prop_assert!(imported.records >= objects.count() as u64);
        if let Some(session) = imported.session {
            prop_assert_eq!(home.given_back(session, "session.jsonl"), bytes);
        }
    }
}
