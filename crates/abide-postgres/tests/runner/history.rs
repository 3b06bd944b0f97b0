//! History on PostgreSQL: the same answers as when everything is read for every question.

use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_model::{
    AnomalyPolicy, Durability, Event, EventRange, History, HistoryQuery, NewEvent, NewSession,
    Search, SessionFields, SessionId, SessionStatus, SessionWriter, Store,
};
use abide_postgres::{PostgresOptions, PostgresStore, ServerUrl};
use abide_testkit::{CutProxy, Direction, PostgresServer, PrivatePostgres, Random, plain_history};

use crate::support::{message, new_session, say, store};

/// A database: where it is, its name, and its server.
struct Place {
    url: String,
    name: String,
    server: &'static PostgresServer,
}

fn place() -> Option<Place> {
    let Some(server) = PrivatePostgres::shared() else {
        println!("skipped: there is no PostgreSQL");
        return None;
    };
    let url = server.create_database();
    let name = url.rsplit_once('/').unwrap().1.split('?').next().unwrap().to_owned();
    Some(Place { url, name, server })
}

impl Place {
    fn open(&self) -> Arc<PostgresStore> {
        store(&ServerUrl::parse(&self.url).unwrap(), PostgresOptions::default())
    }

    fn sql(&self, sql: &str) -> String {
        self.server.sql(&self.name, &format!("set search_path = abide; {sql}"))
    }

    /// Takes all out of the index.
    fn forget(&self) {
        self.sql(
            "truncate overview, said, turn, touched, spent, path; update lease set at_rest = false",
        );
    }

    fn dump(&self) -> String {
        self.sql(
            "select sid, indexed, status, files, agents, labels, overview from overview order by 1;
             select sid, seq, turn, md5(words::text), md5(text), at from said order by sid, seq;
             select * from spent order by sid, id, span, model; select * from turn order by sid, turn;
             select sid, path, op, count, seq, turn, at from touched join path using (pid)
                 order by sid, path, op",
        )
    }
}

fn put(writer: &dyn SessionWriter, events: Vec<NewEvent>) {
    writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
}

fn events_of(store: &dyn Store, id: SessionId) -> Vec<Event> {
    let reader = store.read(id).unwrap();
    let mut range = EventRange::ALL;
    let mut events = Vec::new();
    loop {
        let page = reader.page(range).unwrap();
        events.extend(page.events);
        match page.next {
            Some(next) => range.first = next,
            None => return events,
        }
    }
}

fn plain(store: &dyn Store, query: &HistoryQuery) -> History {
    let sessions: Vec<(SessionId, Vec<Event>)> = store
        .list()
        .unwrap()
        .into_iter()
        .map(|session| (session.id, events_of(store, session.id)))
        .collect();
    plain_history(query, sessions.iter().map(|(id, events)| (*id, events.as_slice())))
}

/// The store's answer is the plain one, but for the places: a few of them, the newest first.
fn check(store: &dyn Store, query: &HistoryQuery) {
    let mut expected = plain(store, query);
    let mut found = store.history(query).unwrap();
    assert_eq!(found.notes, Vec::<String>::new());
    assert_eq!(found.more, expected.more, "{query:?}");
    for (found, expected) in found.entries.iter_mut().zip(&mut expected.entries) {
        expected.matches.reverse();
        let few = expected.matches.len().min(3);
        assert!(few == 0 || !found.matches.is_empty());
        assert!(found.matches.len() <= few);
        expected.matches.truncate(found.matches.len());
    }
    assert_eq!(found.entries, expected.entries, "{query:?}");
}

fn one_of<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    of[random.index(of.len())]
}

const WORDS: [&str; 10] =
    ["parser", "pars", "line", "Résumé", "日本語", "src/main.rs", "last", "x2", "LINE", "it's"];

fn event(random: &mut Random, events: u64) -> NewEvent {
    let lane = one_of(random, &["", "", r#","lane":"a""#]);
    let text =
        (0..1 + random.below(5)).map(|_| one_of(random, &WORDS)).collect::<Vec<_>>().join(" ");
    let path = one_of(random, &["src/main.rs", "./src/lib.rs", "main.rs", "a/src/main.rs", "src"]);
    let op = one_of(random, &["read", "write", "delete"]);
    let agent = one_of(random, &["Coder", "planner"]);
    let status = one_of(random, &["active", "completed", "failed"]);
    let (kind, data) = match random.below(11) {
        0 => ("turn.started", format!(r#"{{"agent":"{agent}"}}"#)),
        1 => ("turn.finished", r#"{"status":"ok","usage":{"input_tokens":3}}"#.to_owned()),
        2 => ("file.touched", format!(r#"{{"path":"{path}","op":"{op}"}}"#)),
        3 => ("file.touched", format!(r#"{{"path":"{path}","op":"rename","to":"to/{path}"}}"#)),
        4 => ("session.status", format!(r#"{{"status":"{status}","summary":"{text}"}}"#)),
        5 if random.once_in(2) && events > 3 => {
            ("session.rewound", format!(r#"{{"to":{}}}"#, 2 + random.below(events - 2)))
        }
        6 => ("session.updated", format!(r#"{{"labels":{{"team":"{agent}"}},"title":"{text}"}}"#)),
        7 => {
            ("tool.called", format!(r#"{{"call":"c{events}","name":"bash","arguments":"{text}"}}"#))
        }
        _ => ("message.added", format!(r#"{{"role":"user","content":"{text}"}}"#)),
    };
    NewEvent::parse(&format!(r#"{{"kind":"{kind}","data":{data}{lane}}}"#)).unwrap()
}

fn query(random: &mut Random, seen: &History) -> HistoryQuery {
    let mut query = HistoryQuery::default();
    if random.once_in(2) {
        let text = one_of(
            random,
            &[
                "parser",
                "pars*",
                "\"last line\"",
                "line last",
                "本",
                "main.rs",
                "resume x2",
                "\"x2 pars\"*",
            ],
        );
        query.search = Some(Search::parse(text).unwrap());
    }
    let time = seen.entries.get(random.index(seen.entries.len().max(1)));
    let time = time.map(|entry| entry.overview.updated);
    match random.below(10) {
        0 => query.status = vec![SessionStatus::Completed, SessionStatus::Failed],
        1 => query.agent = Some(one_of(random, &["coder", "PLANNER", "nobody"]).to_owned()),
        2 => query.label = Some(one_of(random, &["team", "team=Coder", "team=", "x"]).to_owned()),
        3 => query.since = time,
        4 => query.until = time,
        5 => query.unchanged_since = time,
        6 | 7 => {
            let files =
                ["src/main.rs", "main.rs", "src/", "/home/a/src/main.rs", "lib.rs", "ain.rs"];
            query.file = Some(one_of(random, &files).to_owned());
        }
        _ => {}
    }
    if random.once_in(3) {
        query.limit = Some(random.index(4));
    }
    query
}

#[test]
fn answers_are_those_of_reading_everything() {
    let Some(place) = place() else { return };
    for seed in 1..=3 {
        let mut random = Random::new(seed);
        let (store, other) = (place.open(), place.open());
        let open: Vec<_> = (0..4).map(|_| new_session(&*store)).collect();
        let mut counts = [2_u64; 4];
        for round in 0..40 {
            let at = random.index(open.len());
            for _ in 0..1 + random.below(6) {
                counts[at] += 1;
                put(&*open[at].1, vec![event(&mut random, counts[at])]);
            }
            if round % 2 == 0 {
                let seen = other.history(&HistoryQuery::default()).unwrap();
                check(&*other, &query(&mut random, &seen));
            }
        }
        for (_, writer) in &open {
            writer.close().unwrap();
        }
        let followed = place.dump();
        assert_eq!(place.sql("select count(*) from lease where not at_rest"), "0");
        for _ in 0..10 {
            check(&*other, &query(&mut random, &History::default()));
        }
        // Read in one go it is the same.
        place.forget();
        check(&*store, &HistoryQuery::default());
        assert_eq!(place.dump(), followed);
        assert_eq!(place.sql("select count(*) from lease where not at_rest"), "0");
    }
}

/// So much that it is put in several pieces.
fn large_session(store: &dyn Store, messages: usize) -> SessionId {
    let (id, writer) = new_session(store);
    let text = "many words stand here, and all of them are taken in ".repeat(4000);
    for number in 0..messages {
        put(&*writer, vec![message(&format!("number{number} {text}"))]);
    }
    writer.close().unwrap();
    id
}

/// In how many transactions what was said was put.
fn pieces(place: &Place) -> usize {
    place.sql("select count(distinct xmin::text) from said").parse().unwrap()
}

fn found(store: &dyn Store, text: &str) -> Vec<(SessionId, u64)> {
    let search = Some(Search::parse(text).unwrap());
    let query = HistoryQuery { search, ..HistoryQuery::default() };
    let history = store.history(&query).unwrap();
    history.entries.iter().map(|entry| (entry.id, entry.match_count)).collect()
}

#[test]
fn many_bring_it_up_to_date_at_once() {
    let Some(place) = place() else { return };
    let store = place.open();
    let id = large_session(&*store, 45);
    // Whoever asks waits until all of it is there; a close does not.
    assert_eq!(found(&*store, "number44"), [(id, 1)]);
    let expected = place.dump();
    place.forget();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = place.open();
                assert_eq!(found(&*store, "\"taken in many\""), [(id, 45)]);
                assert_eq!(found(&*store, "number7"), [(id, 1)]);
            });
        }
    });
    assert_eq!(place.dump(), expected);
    assert!(pieces(&place) > 1, "there is something between them");
}

#[test]
fn a_connection_that_is_cut_leaves_nothing_half() {
    let Some(place) = place() else { return };
    let direct = place.open();
    let id = large_session(&*direct, 45);
    // Whoever asks waits until all of it is there; a close does not.
    assert_eq!(found(&*direct, "number44"), [(id, 1)]);
    let expected = place.dump();
    let port = place.url.rsplit_once(':').and_then(|(_, rest)| rest.split_once('/')).unwrap().0;
    let proxy = CutProxy::before(([127, 0, 0, 1], port.parse().unwrap()).into());
    let through = place.url.replace(&format!(":{port}/"), &format!(":{}/", proxy.address().port()));
    let url = ServerUrl::parse(&format!("{through}?sslmode=disable")).unwrap();
    let store = store(&url, PostgresOptions::default());
    let mut random = Random::new(5);
    for _ in 0..8 {
        place.forget();
        let direction = if random.once_in(2) { Direction::ToServer } else { Direction::ToClient };
        proxy.cut_after(random.below(8 << 20), direction);
        assert_eq!(found(&*store, "number44"), [(id, 1)]);
        assert_eq!(place.dump(), expected);
    }
    assert!(proxy.cuts() > 0);
    assert!(pieces(&place) > 1, "there is something between them");
}

#[test]
fn a_fork_has_its_own_events_and_goes_on_with_the_turns() {
    let Some(place) = place() else { return };
    let store = place.open();
    let (id, writer) = new_session(&*store);
    let turn = r#"{"kind":"turn.started","data":{"agent":"coder"}}"#;
    put(&*writer, vec![NewEvent::parse(turn).unwrap(), message("shared")]);
    writer.close().unwrap();
    let fork = store.fork(id, None, NewSession::titled("fork")).unwrap().id;
    let writer = store.write(fork, Duration::ZERO).unwrap();
    put(&*writer, vec![NewEvent::parse(turn).unwrap(), message("alone")]);
    assert_eq!(found(&*store, "shared"), [(id, 1)]);
    let search = Some(Search::parse("alone").unwrap());
    let history = store.history(&HistoryQuery { search, ..HistoryQuery::default() });
    let entry = history.unwrap().entries.remove(0);
    assert_eq!((entry.id, entry.matches[0].turn.map(|turn| turn.0)), (fork, Some(2)));
    assert_eq!(entry.matches[0].agent.as_deref(), Some("coder"));
}

#[test]
fn a_project_sees_its_own() {
    let Some(place) = place() else { return };
    let url = ServerUrl::parse(&place.url).unwrap();
    let of = |project: &str| {
        store(
            &url,
            PostgresOptions { projects: vec![project.to_owned()], ..PostgresOptions::default() },
        )
    };
    let (red, blue) = (of("red"), of("blue"));
    let ids = [&red, &blue].map(|store| {
        let (id, writer) = new_session(&**store);
        say(&*writer, "zebra").unwrap();
        id
    });
    assert_eq!(found(&*red, "zebra"), [(ids[0], 1)]);
    assert_eq!(found(&*blue, "zebra"), [(ids[1], 1)]);
    assert_eq!(found(&*place.open(), "zebra").len(), 2);
}

#[test]
fn one_who_may_only_read_is_told_what_is_missing() {
    let Some(place) = place() else { return };
    let (id, writer) = new_session(&*place.open());
    say(&*writer, "zebra").unwrap();
    writer.close().unwrap();
    let role = format!("reader_{}", place.name);
    place.sql(&format!(
        "create role {role} login; grant usage on schema abide to {role};
         grant select on all tables in schema abide to {role}"
    ));
    let (before, host) = place.url.split_once('@').unwrap();
    let scheme = before.split_once("://").unwrap().0;
    let url = ServerUrl::parse(&format!("{scheme}://{role}@{host}")).unwrap();
    let reader = PostgresStore::open(&url, PostgresOptions::default()).unwrap();
    let all = HistoryQuery::default();
    assert_eq!(reader.history(&all).unwrap().notes, Vec::<String>::new());
    assert_eq!(found(&reader, "zebra"), [(id, 1)]);
    place.forget();
    let history = reader.history(&all).unwrap();
    assert_eq!(history.entries, []);
    assert!(history.notes[0].starts_with("1 session has more events"), "{:?}", history.notes);
    assert_eq!(found(&*place.open(), "zebra"), [(id, 1)]);
    assert_eq!(found(&reader, "zebra"), [(id, 1)]);
}

/// Fills a database and tells how long questions take: `ABIDE_SESSIONS`, `ABIDE_EVENTS`.
#[test]
#[ignore = "a measurement"]
fn how_long_questions_take() {
    let Some(place) = place() else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let sessions: u64 = number("ABIDE_SESSIONS").unwrap_or(200);
    let events: u64 = number("ABIDE_EVENTS").unwrap_or(200);
    let store = place.open();
    let mut random = Random::new(1);
    let vocabulary: Vec<String> =
        (0..5000).map(|_| format!("w{:x}", random.below(1 << 40))).collect();
    let start = Instant::now();
    for session in 0..sessions {
        let fields =
            SessionFields { title: Some(format!("session {session}")), ..SessionFields::default() };
        let id = store.create(NewSession::from(fields)).unwrap().id;
        let writer = store.write(id, Duration::ZERO).unwrap();
        let some = (0..events).map(|event| {
            // Few words are frequent, most are rare.
            let words = (0..60).map(|_| {
                let bound = 1 + random.below(vocabulary.len() as u64);
                vocabulary[random.below(bound) as usize].as_str()
            });
            let words = words.collect::<Vec<_>>().join(" ");
            message(&format!("common the {words} e{event}s{session}"))
        });
        put(&*writer, some.collect());
        writer.close().unwrap();
    }
    println!("filled in {:?}", start.elapsed());
    place.sql("vacuum analyze");
    let search = |text: &str| HistoryQuery {
        search: Some(Search::parse(text).unwrap()),
        limit: Some(20),
        ..HistoryQuery::default()
    };
    let frequent = vocabulary[3].clone();
    for (name, query) in [
        ("list", HistoryQuery { limit: Some(20), ..HistoryQuery::default() }),
        ("rare", search(&format!("e7s{}", sessions / 2))),
        ("frequent", search(&frequent)),
        ("two words", search(&format!("{frequent} {}", vocabulary[9]))),
        ("in all", search("common")),
        ("phrase in all", search("\"common the\"")),
        ("beginning", search("e7*")),
    ] {
        let mut times: Vec<Duration> = (0..21)
            .map(|_| {
                let start = Instant::now();
                store.history(&query).unwrap();
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!("{name}: p50 {:?}, most {:?}", times[10], times[20]);
    }
    println!("{}", place.sql(
        "select relname, pg_size_pretty(pg_total_relation_size(oid)) from pg_class
         where relnamespace = 'abide'::regnamespace and relkind = 'r' order by pg_total_relation_size(oid) desc limit 4;
         explain analyze select sid, seq from said where words @@ '''common'''::tsquery order by sid desc, seq desc limit 5000"));
}
