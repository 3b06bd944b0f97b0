//! An import that was cut off anywhere is finished by the next one: everything is there once.

use abide::{Event, Kind, NewEvent, NewSession, SessionFields};

use crate::agent_home::{AgentHome, ID, answer, prompt, said};

/// A conversation with everything that is recorded in several events: a rewind, a compaction, usage.
fn story() -> String {
    let summary = prompt("c1", Some("u3"), "It was about a parser")
        .replace("\"isSidechain\":false", "\"isSidechain\":false,\"isCompactSummary\":true");
    [
        prompt("u1", None, "Fix the parser"),
        answer("a1", "u1", "msg_1", &said("I look"), 1),
        answer("a2", "a1", "msg_1", &said("and see"), 9),
        prompt("u2", Some("a2"), "No"),
        prompt("u3", Some("a2"), "Yes").replace("\"main\"", "\"side\""),
        summary,
        answer("a3", "c1", "msg_2", &said("Done"), 5),
    ]
    .join("\n")
        + "\n"
}

fn made(events: &[Event]) -> Vec<&Event> {
    let own = |event: &&Event| {
        event.kind.is_reserved()
            || event.kind == Kind::SESSION_STATUS
            || event.kind == Kind::SESSION_UPDATED
            || event.kind == Kind::SOURCE_READ
    };
    events.iter().filter(|event| !own(event)).collect()
}

/// The kind and the place of each event that an import makes.
fn places(events: &[Event]) -> Vec<(String, String)> {
    let place = |event: &&Event| {
        let data = event.data.as_ref().unwrap().as_str();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        let marks = &data["abide"];
        let at = [&data["at"], &marks["source"]["at"], &marks["from"]["at"]];
        let at = at.into_iter().find(|at| at.is_u64()).unwrap();
        (event.kind.to_string(), at.to_string())
    };
    made(events).iter().map(place).collect()
}

#[test]
fn an_import_that_was_cut_off_after_any_event_is_finished() {
    let whole = AgentHome::new();
    whole.write(story());
    let all = whole.events(whole.import_one());
    let expected = places(&all);
    assert!(expected.iter().any(|(kind, _)| kind == "session.rewound"), "{expected:?}");
    assert!(expected.iter().any(|(kind, _)| kind == "context.compacted"), "{expected:?}");
    let live = whole.view(all_session(&whole)).state().unwrap().core.messages.total;
    for cut in 0..=made(&all).len() {
        let home = AgentHome::new();
        home.write(story());
        // What a killed import leaves: the session, and the first of its events.
        let fields = SessionFields { agent: Some("claude".to_owned()), ..SessionFields::default() };
        let new = NewSession::from(fields);
        let session = home.store.create_or_get(&format!("claude/{ID}"), new).unwrap();
        for event in made(&all).into_iter().take(cut) {
            let mut copy = NewEvent::new(event.kind.clone(), event.data.clone().unwrap());
            copy.occurred = event.occurred;
            session.append(copy).unwrap().wait().unwrap();
        }
        session.close().unwrap();
        let session = home.import_one();
        let events = home.events(session);
        assert_eq!(places(&events), expected, "after {cut} events");
        assert_eq!(home.given_back(session, "session.jsonl"), story().as_bytes(), "{cut}");
        let state = home.view(session).state().unwrap();
        assert_eq!(state.core.messages.total, live, "after {cut} events");
        assert_eq!(state.core.usage.output_tokens, 14, "after {cut} events");
    }
}

fn all_session(home: &AgentHome) -> abide::SessionId {
    home.store.sessions().unwrap()[0].id
}
