//! Histories: lists, filters and searches.

use std::time::Duration;

use abide_model::{
    FileOp, HistoryQuery, Kind, NewSession, Search, SearchRole, Seq, SessionFields, SessionId,
    SessionStatus, Timestamp, Usage, UsageEntry, UsageQuery, read_session_name,
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
            r#"{"kind":"x.code","data":{"text":"parse_rows FooBar FooBaz FooBar"}}"#,
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
    assert_eq!(one("bar"), [second], "a part of FooBar");
    assert_eq!(one("foobar"), [second]);
    assert_eq!(one("foo_ba*"), [second]);
    assert_eq!(one("\"rows foobar\""), [second]);
    assert_eq!(one("\"rows foo\""), [], "a part is no neighbour of other words");
    assert_eq!(one("\"bar foo\""), [], "nor of the parts of the next word");
    assert_eq!(one("rows"), [second]);
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

pub(super) fn a_search_asks_who_said_it_and_what_failed(subject: &dyn Subject) {
    let store = subject.open();
    let id = told(
        &*store,
        SessionFields::default(),
        &[
            r#"{"kind":"message.added","data":{"role":"user","content":"run cargo test for the zebra"}}"#,
            r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"text","text":"the zebra, then"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cargo test --all zebra"}}]}}"#,
            r#"{"kind":"message.added","data":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"Exit code 101\nthe zebra panicked"}]}}"#,
            r#"{"kind":"tool.called","data":{"call":"c","name":"bash","arguments":{"command":"ls zebra"}}}"#,
            r#"{"kind":"tool.finished","data":{"call":"c","ok":true,"result":"zebra.txt"}}"#,
            r#"{"kind":"tool.finished","data":{"call":"d","ok":false}}"#,
        ],
    );
    // A session that is read on from in the middle.
    let writer = store.write(id, NOW).unwrap();
    let call = r#"{"kind":"tool.called","data":{"call":"e","name":"bash","arguments":{"command":"cargo build"}}}"#;
    let called = append(&*writer, vec![event(call)])[0];
    assert_eq!(found(&*store, "build"), [id]);
    let done = r#"{"kind":"tool.finished","data":{"call":"e","ok":false,"result":"no zebra"}}"#;
    let failed = append(&*writer, vec![event(done)])[0];
    writer.close().unwrap();
    let search = |text: &str| Some(Search::parse(text).unwrap());
    let all = HistoryQuery::default;
    let seqs = |query: HistoryQuery| -> Vec<u64> {
        let history = asked(&*store, &query);
        let mut seqs: Vec<u64> =
            history.entries.iter().flat_map(|e| &e.matches).map(|found| found.seq.0).collect();
        let counted: u64 = history.entries.iter().map(|entry| entry.match_count).sum();
        assert_eq!(counted, seqs.len() as u64);
        seqs.sort_unstable();
        seqs
    };
    // The first event of the session is its creation, the second that its writer opened it.
    let by = |role| HistoryQuery { role: Some(role), search: search("zebra"), ..all() };
    assert_eq!(seqs(by(SearchRole::User)), [3]);
    assert_eq!(seqs(by(SearchRole::Assistant)), [4, 6]);
    assert_eq!(seqs(by(SearchRole::Tool)), [5, 7, failed]);
    assert_eq!(seqs(HistoryQuery { failed: true, ..all() }), [5, 8, failed]);
    assert_eq!(seqs(HistoryQuery { failed: true, search: search("pan*"), ..all() }), [5]);
    assert_eq!(seqs(HistoryQuery { command: search("cargo"), ..all() }), [4, called]);
    let phrase = HistoryQuery { command: search("\"cargo test\""), ..all() };
    assert_eq!(seqs(phrase.clone()), [4]);
    assert_eq!(seqs(HistoryQuery { failed: true, ..phrase }), [5]);
    let build = HistoryQuery { command: search("buil*"), failed: true, ..all() };
    assert_eq!(seqs(build), [failed], "its call was read before");
    let nobody = HistoryQuery { command: search("zebra"), role: Some(SearchRole::User), ..all() };
    assert_eq!(seqs(nobody), Vec::<u64>::new());
}

pub(super) fn what_happened_before_is_listed_by_its_time(subject: &dyn Subject) {
    let store = subject.open();
    let said = |text: &str, day: u8| {
        format!(
            r#"{{"kind":"message.added","occurred":"2025-01-{day:02}T12:00:00Z","data":{{"role":"user","content":"{text}"}}}}"#
        )
    };
    let told_of = |lines: &[String]| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        told(&*store, SessionFields::default(), &lines)
    };
    let old = told_of(&[said("zebra", 2), said("lion", 4)]);
    let older = told_of(&[said("zebra", 1), said("zebra", 3)]);
    let all = HistoryQuery::default;
    let time =
        |day: u8| -> Timestamp { format!("2025-01-{day:02}T12:00:00.000Z").parse().unwrap() };
    let history = asked(&*store, &all());
    let listed: Vec<_> = history
        .entries
        .iter()
        .map(|entry| (entry.id, entry.overview.created, entry.overview.updated))
        .collect();
    assert_eq!(listed, [(old, time(2), time(4)), (older, time(1), time(3))]);
    let ids = |query: HistoryQuery| -> Vec<SessionId> {
        asked(&*store, &query).entries.iter().map(|entry| entry.id).collect()
    };
    assert_eq!(ids(HistoryQuery { since: Some(time(4)), ..all() }), [old]);
    assert_eq!(ids(HistoryQuery { until: Some(time(1)), ..all() }), [older]);
    // A search goes by the time of what it finds.
    let search = Some(Search::parse("zebra").unwrap());
    let since = HistoryQuery { search: search.clone(), since: Some(time(3)), ..all() };
    assert_eq!(ids(since.clone()), [older]);
    assert_eq!(asked(&*store, &since).entries[0].match_count, 1);
    assert_eq!(asked(&*store, &since).entries[0].matches[0].at, time(3));
    let until = HistoryQuery { search, until: Some(time(1)), ..all() };
    assert_eq!(asked(&*store, &until).entries[0].match_count, 1);
    // As many hits: the newest session first.
    assert_eq!(ids(HistoryQuery { search: Search::parse("lion").ok(), ..all() }), [old]);
    let newest = told_of(&[said("lion", 9)]);
    let oldest = told_of(&[said("lion", 1)]);
    let lions = HistoryQuery { search: Search::parse("lio*").ok(), ..all() };
    assert_eq!(ids(lions), [newest, old, oldest]);
}

pub(super) fn usage_counts_once(subject: &dyn Subject) {
    let store = subject.open();
    let used = |id: &str, output: u64| {
        format!(
            r#"{{"kind":"usage.recorded","occurred":"2025-01-02T12:05:00Z","data":{{"id":"{id}","model":"m","input_tokens":1,"output_tokens":{output}}}}}"#
        )
    };
    let told_of = |fields: SessionFields, lines: &[String]| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        told(&*store, fields, &lines)
    };
    let turn = r#"{"kind":"turn.finished","occurred":"2025-01-03T12:05:00Z","data":{"status":"ok","usage":{"cache_read_tokens":9,"reasoning_tokens":4}}}"#;
    let api = r#"{"kind":"api.finished","data":{"model":"n","usage":{"cache_write_tokens":2}}}"#;
    let model = SessionFields { model: Some("own".to_owned()), ..SessionFields::default() };
    let first = told_of(model, &[used("a", 5), used("b", 7), turn.to_owned(), api.to_owned()]);
    // A copy that has more of one and less of the other.
    let lines = [used("a", 3), used("a", 4), used("b", 6), used("c", 1)];
    let second = told_of(SessionFields::default(), &lines);
    let sums = |query: &UsageQuery| -> Vec<(SessionId, String, [u64; 5])> {
        let report = store.usage(query).unwrap();
        assert!(report.entries.iter().all(|entry| report.sessions.contains_key(&entry.session)));
        let sum = |entry: &UsageEntry| {
            let Usage { input_tokens, output_tokens, .. } = entry.usage;
            let usage = &entry.usage;
            let rest = [usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens];
            let counts = [input_tokens, output_tokens, rest[0], rest[1], rest[2]];
            (entry.session, entry.model.clone(), counts)
        };
        report.entries.iter().map(sum).collect()
    };
    let m = "m".to_owned();
    let january = UsageQuery {
        until: Some("2025-01-02T23:00:00.000Z".parse().unwrap()),
        ..UsageQuery::default()
    };
    let expected = [(first, m.clone(), [1, 7, 0, 0, 0]), (second, m.clone(), [3, 8, 0, 0, 0])];
    assert_eq!(sums(&january), expected);
    let all = sums(&UsageQuery::default());
    assert_eq!(all.len(), 4);
    assert!(all.contains(&(first, "own".to_owned(), [0, 0, 9, 0, 4])), "{all:?}");
    assert!(all.contains(&(first, "n".to_owned(), [0, 0, 0, 2, 0])), "{all:?}");
    // What goes back was spent all the same, and what is read on is added.
    let writer = store.write(second, NOW).unwrap();
    append(&*writer, vec![event(&used("d", 5))]);
    append(&*writer, vec![event(r#"{"kind":"session.rewound","data":{"to":3}}"#)]);
    append(&*writer, vec![event(&used("d", 6))]);
    writer.close().unwrap();
    let expected = [(first, m.clone(), [1, 7, 0, 0, 0]), (second, m, [5, 19, 0, 0, 0])];
    assert_eq!(sums(&january), expected);
}
