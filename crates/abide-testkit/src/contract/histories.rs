//! Histories: lists, filters and searches.

use std::time::Duration;

use abide_model::{
    FileOp, HistoryQuery, Kind, NewSession, Search, Seq, SessionFields, SessionId, SessionStatus,
    read_session_name,
};

use super::{NOW, Subject, append, asked, event, found, message, new_session, told};

pub(super) fn history_lists_and_filters(subject: &dyn Subject) {
    let store = subject.open();
    assert_eq!(asked(&*store, &HistoryQuery::default()).entries, []);
    let coder = |title: &str| SessionFields {
        title: Some(title.to_owned()),
        agent: Some("coder".to_owned()),
        labels: [("team".to_owned(), "red".to_owned())].into(),
        ..SessionFields::default()
    };
    let first = told(
        &*store,
        coder("first"),
        &[
            r#"{"kind":"turn.started","data":{"agent":"planner"}}"#,
            r#"{"kind":"message.added","data":{"role":"user","content":"make it fast"}}"#,
            r#"{"kind":"tool.called","data":{"call":"c1","name":"edit"}}"#,
            r#"{"kind":"file.touched","data":{"path":"src/main.rs","op":"write"}}"#,
            r#"{"kind":"file.touched","data":{"path":"src/main.rs","op":"write"}}"#,
            r#"{"kind":"file.touched","data":{"path":"README.md","op":"read"}}"#,
            r#"{"kind":"turn.finished","data":{"status":"ok","usage":{"input_tokens":10,"output_tokens":2}}}"#,
            r#"{"kind":"session.status","data":{"status":"completed","summary":"it is fast"}}"#,
        ],
    );
    // The clock of some stores tells milliseconds.
    std::thread::sleep(Duration::from_millis(3));
    let second = told(&*store, SessionFields::default(), &[r#"{"kind":"x.y","data":{}}"#]);
    std::thread::sleep(Duration::from_millis(3));
    let third = told(
        &*store,
        coder("third"),
        &[
            r#"{"kind":"file.touched","data":{"path":"src/main.rs","op":"rename","to":"src/lib.rs"}}"#,
        ],
    );
    let again = subject.open();
    let ids = |query: HistoryQuery| -> Vec<SessionId> {
        asked(&*again, &query).entries.iter().map(|entry| entry.id).collect()
    };
    let all = HistoryQuery::default;
    assert_eq!(ids(all()), [third, second, first]);
    let limited = asked(&*again, &HistoryQuery { limit: Some(1), ..all() });
    assert_eq!((limited.entries.len(), limited.more), (1, Some(2)));
    assert_eq!(ids(HistoryQuery { status: vec![SessionStatus::Completed], ..all() }), [first]);
    assert_eq!(ids(HistoryQuery { agent: Some("Planner".to_owned()), ..all() }), [first]);
    assert_eq!(ids(HistoryQuery { agent: Some("coder".to_owned()), ..all() }), [third, first]);
    assert_eq!(ids(HistoryQuery { label: Some("team".to_owned()), ..all() }), [third, first]);
    assert_eq!(ids(HistoryQuery { label: Some("team=red".to_owned()), ..all() }), [third, first]);
    assert_eq!(ids(HistoryQuery { label: Some("team=blue".to_owned()), ..all() }), []);
    let by_file = asked(&*again, &HistoryQuery { file: Some("main.rs".to_owned()), ..all() });
    assert_eq!(by_file.entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [third, first]);
    let touched = &by_file.entries[1].touched;
    assert_eq!(touched.len(), 1);
    assert_eq!((touched[0].path.as_str(), touched[0].op), ("src/main.rs", FileOp::Write));
    assert_eq!((touched[0].count, touched[0].agent.as_deref()), (2, Some("planner")));
    assert_eq!(ids(HistoryQuery { file: Some("src/lib.rs".to_owned()), ..all() }), [third]);
    assert_eq!(
        ids(HistoryQuery {
            file: Some("src".to_owned()),
            agent: Some("coder".to_owned()),
            status: vec![SessionStatus::Completed, SessionStatus::Failed],
            ..all()
        }),
        [first]
    );
    let listed = asked(&*again, &all());
    let entry = &listed.entries[2];
    let overview = &entry.overview;
    assert_eq!(overview.fields.title.as_deref(), Some("first"));
    assert_eq!(overview.request.as_deref(), Some("make it fast"));
    assert_eq!(overview.summary.as_deref(), Some("it is fast"));
    assert_eq!((overview.turns, overview.messages, overview.tool_calls), (1, 1, 1));
    assert_eq!((overview.usage.input_tokens, entry.files), (10, 1));
    let (since, until) = (listed.entries[1].overview.created, listed.entries[1].overview.updated);
    assert_eq!(ids(HistoryQuery { since: Some(since), ..all() }), [third, second]);
    assert_eq!(ids(HistoryQuery { until: Some(until), ..all() }), [second, first]);
    assert_eq!(ids(HistoryQuery { since: Some(since), until: Some(until), ..all() }), [second]);
    assert_eq!(ids(HistoryQuery { unchanged_since: Some(until), ..all() }), [second, first]);
    let before = overview.updated;
    assert_eq!(ids(HistoryQuery { unchanged_since: Some(before), ..all() }), [first]);
    // A live writer is found; one that closed its session is not.
    let held = || ids(HistoryQuery { maybe_held: true, ..all() });
    assert_eq!(held(), []);
    let writer = again.write(second, NOW).unwrap();
    append(&*writer, vec![message("still here")]);
    assert_eq!(held(), [second]);
    writer.close().unwrap();
    assert_eq!(held(), []);
}

pub(super) fn what_was_said_is_found(subject: &dyn Subject) {
    let store = subject.open();
    let titled = |title: &str| NewSession::titled(title).fields;
    let first = told(
        &*store,
        titled("The parser"),
        &[
            r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
            r#"{"kind":"message.added","data":{"role":"user","content":"It drops the last line of résumé.txt"}}"#,
            r#"{"kind":"tool.called","data":{"call":"c","name":"bash","arguments":{"command":"cargo test --all"}}}"#,
            r#"{"kind":"tool.finished","data":{"call":"c","result":{"stdout":"zebra panicked at parse_line"}}}"#,
            r#"{"kind":"task.created","data":{"task":"P1","title":"Mend the tokenizer"}}"#,
            r#"{"kind":"turn.finished","data":{}}"#,
        ],
    );
    let second = told(
        &*store,
        titled("Another"),
        &[
            r#"{"kind":"x.note","data":{"deep":{"text":"the zebra is here, 日本語"}}}"#,
            r#"{"kind":"message.added","data":{"role":"user","content":"line last"}}"#,
        ],
    );
    let store = subject.open();
    // Made in the same millisecond, either may have the greater id.
    let both = [first.min(second), first.max(second)];
    let one = |text: &str| -> Vec<SessionId> {
        let mut found = found(&*store, text);
        found.sort_unstable();
        found
    };
    assert_eq!(one("zebra"), both);
    assert_eq!(one("ZEB*"), both);
    assert_eq!(one("\"last line\""), [first]);
    assert_eq!(one("\"line last\""), [second]);
    assert_eq!(one("last line"), both);
    assert_eq!(one("resume.txt"), [first]);
    assert_eq!(one("--all"), [first]);
    assert_eq!(one("parse_line zebra"), [first]);
    assert_eq!(one("tokeniz*"), [first]);
    assert_eq!(one("本語"), [second]);
    assert_eq!(one("parser"), [first], "the title");
    assert_eq!(one("tokenizer zebra"), [], "one event must have them all");
    assert_eq!(one("nothing"), []);
    let query =
        HistoryQuery { search: Some(Search::parse("drops").unwrap()), ..HistoryQuery::default() };
    let history = asked(&*store, &query);
    let entry = &history.entries[0];
    assert_eq!((entry.match_count, entry.matches.len()), (1, 1));
    let place = &entry.matches[0];
    assert_eq!((place.seq, place.kind.clone()), (Seq(4), Kind::MESSAGE_ADDED));
    assert_eq!(place.turn.map(|turn| turn.0), Some(1));
    assert_eq!((place.agent.as_deref(), place.live), (Some("coder"), true));
    assert_eq!(place.excerpt.text, "It drops the last line of résumé.txt");
    assert_eq!(place.excerpt.found.first(), Some(&(3..8)));
    assert_eq!(place.excerpt.found.len(), 1);
    let none = HistoryQuery { status: vec![SessionStatus::Failed], ..query };
    assert_eq!(asked(&*store, &none).entries, []);
}

pub(super) fn history_follows_the_events(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    append(&*writer, vec![message("alpha")]);
    assert_eq!(found(&*store, "alpha"), [id]);
    // The writer still has it.
    append(&*writer, vec![message("beta")]);
    let other = subject.open();
    assert_eq!(found(&*other, "beta"), [id]);
    append(&*writer, vec![message("gamma")]);
    append(&*writer, vec![event(r#"{"kind":"session.rewound","data":{"to":3}}"#)]);
    writer.close().unwrap();
    drop(writer);
    let query =
        HistoryQuery { search: Some(Search::parse("gamma").unwrap()), ..HistoryQuery::default() };
    let history = asked(&*other, &query);
    assert!(!history.entries[0].matches[0].live, "a rewind took it out, and it is still found");
    assert_eq!(history.entries[0].overview.messages, 1);
    let writer = other.write(id, NOW).unwrap();
    append(&*writer, vec![message("delta")]);
    assert_eq!(found(&*store, "delta"), [id]);
    assert_eq!(asked(&*store, &HistoryQuery::default()).entries[0].overview.messages, 2);
}

pub(super) fn lists_and_readers_name_a_session_alike(subject: &dyn Subject) {
    let store = subject.open();
    let id = store.create(NewSession::default()).unwrap().id;
    let writer = store.write(id, NOW).unwrap();
    let named = |name: Option<&str>| {
        let listed = asked(&*store, &HistoryQuery::default()).entries[0].overview.name();
        assert_eq!(listed.as_deref(), name, "as listed");
        let read = read_session_name(&*store.read(id).unwrap()).unwrap();
        assert_eq!(read.as_deref(), name, "as read");
    };
    let machine = append(&*writer, vec![message("<system-reminder>x</system-reminder>")]);
    named(None);
    append(&*writer, vec![message("alpha"), message("beta")]);
    named(Some("alpha"));
    let back = format!(r#"{{"kind":"session.rewound","data":{{"to":{}}}}}"#, machine[0]);
    append(&*writer, vec![event(&back)]);
    named(None);
    append(&*writer, vec![event(r#"{"kind":"run.started","data":{"command":["agent","-x"]}}"#)]);
    named(Some("agent -x"));
    append(&*writer, vec![message("gamma")]);
    named(Some("gamma"));
    append(&*writer, vec![event(r#"{"kind":"session.updated","data":{"title":"Given"}}"#)]);
    named(Some("Given"));
    writer.close().unwrap();
    named(Some("Given"));
}
