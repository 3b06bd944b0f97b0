//! The index may be lost, damaged, locked or out of reach: the answers are right all the same, and
//! the journals are never touched.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::session_dirs;
use abide_local::{LocalOptions, LocalStore};
use abide_model::{
    AnomalyPolicy, Durability, Event, EventRange, HistoryQuery, NewEvent, NewSession, Overview,
    Search, SearchRole, SessionId, Store, UsageQuery,
};
use abide_testkit::{Random, plain_history, plain_usage};

struct Fixture {
    dir: tempfile::TempDir,
    random: Random,
}

const WORDS: [&str; 13] = [
    "FooBar",
    "parser",
    "line",
    "the",
    "zebra",
    "résumé",
    "日本語",
    "=== RESULT ===",
    "src/main.rs",
    "x_y",
    "panicked",
    "a\u{202e}b",
    "\u{0}",
];

impl Fixture {
    fn new(seed: u64) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), random: Random::new(seed) }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join(".abide")
    }

    fn open(&self) -> LocalStore {
        LocalStore::init(&self.root(), LocalOptions::default()).unwrap()
    }

    fn text(&mut self) -> String {
        let words: Vec<&str> = (0..1 + self.random.below(6))
            .map(|_| WORDS[self.random.below(WORDS.len() as u64) as usize])
            .collect();
        serde_json::to_string(&words.join(" ")).unwrap()
    }

    fn event(&mut self) -> NewEvent {
        let text = self.text();
        let call = format!("c{}", self.random.below(3));
        let json = match self.random.below(15) {
            0 => r#"{"kind":"turn.started","data":{"agent":"coder"}}"#.to_owned(),
            1 => r#"{"kind":"turn.finished","data":{"status":"ok","usage":{"input_tokens":3}}}"#
                .to_owned(),
            2 => format!(
                r#"{{"kind":"tool.called","data":{{"call":"{call}","name":"x","arguments":{{"command":{text}}}}}}}"#
            ),
            3 => format!(
                r#"{{"kind":"tool.finished","data":{{"call":"{call}","ok":{},"result":{text}}}}}"#,
                self.random.below(2) == 0
            ),
            4 => format!(
                r#"{{"kind":"file.touched","data":{{"path":"src/{}.rs","op":"write"}}}}"#,
                self.random.below(4)
            ),
            5 => format!(
                r#"{{"kind":"session.updated","data":{{"title":{text},"labels":{{"l{}":"v"}}}}}}"#,
                self.random.below(3)
            ),
            6 => r#"{"kind":"session.status","data":{"status":"completed"}}"#.to_owned(),
            7 => {
                r#"{"kind":"turn.started","data":{"agent":"arbiter","role":"arbiter"},"lane":"b"}"#
                    .to_owned()
            }
            8 => format!(r#"{{"kind":"x.y","data":{{"z":[{text}]}},"turn":1}}"#),
            9 => format!(
                r#"{{"kind":"message.added","data":{{"role":"assistant","content":[{{"type":"text","text":{text}}},{{"type":"tool_use","id":"{call}","name":"Bash","input":{{"command":"cargo test"}}}}]}}}}"#
            ),
            10 => format!(
                r#"{{"kind":"message.added","data":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{call}","content":"Exit code {}\nzebra"}}]}}}}"#,
                self.random.below(2)
            ),
            11 | 12 => format!(
                r#"{{"kind":"usage.recorded","occurred":"2026-01-0{}T12:{}0:00Z","data":{{"id":"u{}","input_tokens":{},"output_tokens":2}}}}"#,
                1 + self.random.below(5),
                self.random.below(6),
                self.random.below(6),
                self.random.below(9)
            ),
            _ => format!(r#"{{"kind":"message.added","data":{{"role":"user","content":{text}}}}}"#),
        };
        NewEvent::parse(&json).unwrap()
    }

    /// Sessions come and grow.
    fn work(&mut self, store: &LocalStore, steps: usize) {
        for _ in 0..steps {
            let sessions = store.list().unwrap();
            let id = if sessions.is_empty() || self.random.below(5) == 0 {
                let text = self.text();
                store.create(NewSession::titled(text)).unwrap().id
            } else {
                sessions[self.random.below(sessions.len() as u64) as usize].id
            };
            let writer = store.write(id, Duration::from_secs(5)).unwrap();
            for _ in 0..1 + self.random.below(8) {
                let event = self.event();
                drop(
                    writer.append(vec![event], Durability::Buffered, AnomalyPolicy::Keep).unwrap(),
                );
            }
            if self.random.below(6) == 0 {
                let to = 1 + self.random.below(6);
                let json = format!(r#"{{"kind":"session.rewound","data":{{"to":{to}}}}}"#);
                let rewind = NewEvent::parse(&json).unwrap();
                let _ = writer.append(vec![rewind], Durability::Buffered, AnomalyPolicy::Keep);
            }
        }
    }
}

fn events(store: &LocalStore) -> BTreeMap<SessionId, Vec<Event>> {
    let all = store.list().unwrap();
    all.iter()
        .map(|session| {
            let reader = store.read(session.id).unwrap();
            let page = reader.page(EventRange::ALL.limit(usize::MAX)).unwrap();
            (session.id, page.events)
        })
        .collect()
}

/// The answers to many questions are those of a look at every event.
fn assert_right(store: &LocalStore) {
    let events = events(store);
    let sessions = || events.iter().map(|(id, events)| (*id, events.as_slice()));
    let search = |text: &str| Some(Search::parse(text).unwrap());
    let none = HistoryQuery::default;
    let mut queries = vec![
        none(),
        HistoryQuery { agent: Some("CODER".to_owned()), ..none() },
        HistoryQuery { label: Some("l1".to_owned()), ..none() },
        HistoryQuery { label: Some("l2=v".to_owned()), ..none() },
        HistoryQuery { file: Some("1.rs".to_owned()), ..none() },
        HistoryQuery { file: Some("src".to_owned()), search: search("zebra"), ..none() },
        HistoryQuery { status: vec![abide_model::SessionStatus::Completed], ..none() },
    ];
    for role in [SearchRole::User, SearchRole::Assistant, SearchRole::Tool] {
        queries.push(HistoryQuery { role: Some(role), ..none() });
        queries.push(HistoryQuery { role: Some(role), search: search("zebra"), ..none() });
    }
    for command in ["\"cargo test\"", "zebra", "par*"] {
        let command = search(command);
        queries.push(HistoryQuery { command: command.clone(), ..none() });
        queries.push(HistoryQuery { command, failed: true, ..none() });
    }
    queries.push(HistoryQuery { failed: true, ..none() });
    let since = Some("2026-01-03T00:00:00.000Z".parse().unwrap());
    queries.push(HistoryQuery { search: search("zebra"), since, ..none() });
    queries.push(HistoryQuery { search: search("zebra"), until: since, ..none() });
    for text in [
        "zebra",
        "resume",
        "\"the zebra\"",
        "par* line",
        "本",
        "x_y",
        "result",
        "main.rs",
        "foo",
        "ba*",
        "\"foo bar\"",
        "foobar",
    ] {
        queries.push(HistoryQuery { search: search(text), ..none() });
    }
    for query in queries {
        let expected = plain_history(&query, sessions());
        let answer = store.history(&query).unwrap();
        assert_eq!(answer.notes, Vec::<String>::new());
        let by_id = |history: &abide_model::History| {
            let mut entries = history.entries.clone();
            entries.sort_by_key(|entry| entry.id);
            entries
        };
        let (expected_entries, entries) = (by_id(&expected), by_id(&answer));
        assert_eq!(
            entries.iter().map(|e| e.id).collect::<Vec<_>>(),
            expected_entries.iter().map(|e| e.id).collect::<Vec<_>>(),
            "{query:?}"
        );
        for (entry, expected) in entries.iter().zip(&expected_entries) {
            assert_eq!(entry.overview, expected.overview);
            assert_eq!(entry.files, expected.files);
            assert_eq!(entry.match_count, expected.match_count, "{query:?}");
            let mut touched = expected.touched.clone();
            touched.sort_by_key(|touched| std::cmp::Reverse(touched.seq));
            assert_eq!(entry.touched.len(), touched.len());
            for place in &entry.matches {
                assert!(expected.matches.contains(place), "{place:?} {:?}", expected.matches);
            }
            assert_eq!(entry.matches.is_empty(), expected.matches.is_empty());
        }
        if !query.is_search() {
            let order: Vec<_> = answer.entries.iter().map(|e| e.overview.updated).collect();
            assert!(order.is_sorted_by(|a, b| a >= b));
        }
    }
    for query in [UsageQuery::default(), UsageQuery { since, until: None, ..UsageQuery::default() }]
    {
        let all = events.iter().map(|(id, events)| (*id, events.as_slice(), true));
        let (told, expected) = (store.usage(&query).unwrap(), plain_usage(&query, all));
        assert_eq!(told.entries, expected.entries);
        assert_eq!(told.sessions, expected.sessions);
    }
}

/// The bytes of the journals.
fn journals(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for session in session_dirs(root) {
        for file in fs::read_dir(session.join("journal")).unwrap() {
            let path = file.unwrap().path();
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    files
}

/// What an index made from nothing has.
fn rebuilt(root: &Path) -> Vec<String> {
    fs::remove_file(root.join("index.db")).unwrap();
    LocalStore::open(root, LocalOptions::default()).unwrap().index().dump().unwrap()
}

#[test]
fn the_index_answers_as_a_look_at_every_event_does() {
    for seed in 1..=8 {
        let mut fixture = Fixture::new(seed);
        for _ in 0..4 {
            let store = fixture.open();
            fixture.work(&store, 8);
            assert_right(&store);
        }
        let dump = fixture.open().index().dump().unwrap();
        assert!(dump.len() > 20);
        assert_eq!(dump, rebuilt(&fixture.root()), "seed {seed}");
    }
}

#[test]
fn an_index_that_is_lost_or_damaged_is_made_anew() {
    let mut fixture = Fixture::new(11);
    let store = fixture.open();
    fixture.work(&store, 20);
    assert_right(&store);
    let root = fixture.root();
    let index = root.join("index.db");
    let whole = store.index().dump().unwrap();
    let before = journals(&root);
    let length = fs::metadata(&index).unwrap().len() as usize;
    type Damage = Box<dyn Fn(&mut Random)>;
    let mut damages: Vec<Damage> = Vec::new();
    let at = index.clone();
    damages.push(Box::new(move |_| fs::remove_file(&at).unwrap()));
    let at = index.clone();
    damages.push(Box::new(move |_| fs::write(&at, b"").unwrap()));
    let at = index.clone();
    damages.push(Box::new(move |_| fs::write(&at, b"not a database at all").unwrap()));
    let at = root.join("index.lock");
    damages.push(Box::new(move |_| fs::remove_file(&at).unwrap()));
    let at = root.join("index.lock");
    damages.push(Box::new(move |_| fs::write(&at, b"{}").unwrap()));
    let at = root.join("index.db-wal");
    damages.push(Box::new(move |_| fs::write(&at, vec![0xaa; 40_000]).unwrap()));
    let at = root.join("index.db-shm");
    damages.push(Box::new(move |_| fs::write(&at, vec![0x55; 32_768]).unwrap()));
    // A letter of a text is another one, which SQLite does not notice.
    for part in 0..20 {
        let at = index.clone();
        damages.push(Box::new(move |_| {
            let mut bytes = fs::read(&at).unwrap();
            let is_text = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_lowercase);
            let texts: Vec<usize> = (4096..bytes.len() - 6)
                .filter(|start| is_text(&bytes[*start..*start + 6]))
                .collect();
            let place = texts[texts.len() * part / 20];
            bytes[place] ^= 1;
            let later = fs::metadata(&at).unwrap().modified().unwrap() + Duration::from_millis(10);
            fs::write(&at, bytes).unwrap();
            fs::File::options().write(true).open(&at).unwrap().set_modified(later).unwrap();
        }));
    }
    for _ in 0..60 {
        let at = index.clone();
        damages.push(Box::new(move |random| {
            let mut bytes = fs::read(&at).unwrap();
            match random.below(3) {
                0 => bytes.truncate(random.below(length as u64) as usize),
                1 => {
                    let start = random.below(bytes.len() as u64) as usize;
                    let end = (start + 4096).min(bytes.len());
                    random.fill(&mut bytes[start..end]);
                }
                _ => {
                    let place = random.below(bytes.len() as u64) as usize;
                    bytes[place] ^= 1 << random.below(8);
                }
            }
            // Timestamps tell a tick of the clock apart, not less.
            let later = fs::metadata(&at).unwrap().modified().unwrap() + Duration::from_millis(10);
            fs::write(&at, bytes).unwrap();
            fs::File::options().write(true).open(&at).unwrap().set_modified(later).unwrap();
        }));
    }
    let mut random = Random::new(5);
    for (number, damage) in damages.iter().enumerate() {
        damage(&mut random);
        let store = LocalStore::open(&root, LocalOptions::default()).unwrap();
        assert_eq!(store.index().dump().unwrap(), whole, "damage {number}");
    }
    assert_right(&LocalStore::open(&root, LocalOptions::default()).unwrap());
    assert_eq!(journals(&root), before);
}

#[test]
fn an_index_that_lost_its_log_is_brought_up_to_date() {
    let mut fixture = Fixture::new(21);
    let store = fixture.open();
    fixture.work(&store, 6);
    assert_right(&store);
    for round in 0..6 {
        let store = fixture.open();
        fixture.work(&store, 4);
        assert_right(&store);
        let log = fixture.root().join("index.db-wal");
        assert!(fs::metadata(&log).unwrap().len() > 0, "there is something to lose");
        drop(store);
        match round % 3 {
            0 => fs::remove_file(&log).unwrap(),
            1 => fs::write(&log, b"").unwrap(),
            _ => {
                let bytes = fs::read(&log).unwrap();
                fs::write(&log, &bytes[..bytes.len() / 2]).unwrap();
            }
        }
        assert_right(&fixture.open());
    }
    assert_eq!(fixture.open().index().dump().unwrap(), rebuilt(&fixture.root()));
}

#[test]
fn an_index_of_another_version_is_made_anew() {
    let mut fixture = Fixture::new(12);
    let store = fixture.open();
    fixture.work(&store, 5);
    let whole = store.index().dump().unwrap();
    let index = fixture.root().join("index.db");
    let mut bytes = fs::read(&index).unwrap();
    // The user version of an SQLite file is at byte 60.
    bytes[63] += 1;
    fs::write(&index, bytes).unwrap();
    assert_eq!(fixture.open().index().dump().unwrap(), whole);
}

#[test]
fn a_session_that_is_taken_away_or_put_back_is_so_in_the_index() {
    let mut fixture = Fixture::new(13);
    let store = fixture.open();
    fixture.work(&store, 12);
    assert_right(&store);
    let gone = session_dirs(&fixture.root()).remove(0);
    let aside = fixture.dir.path().join("aside");
    fs::rename(&gone, &aside).unwrap();
    assert_right(&fixture.open());
    fs::rename(&aside, &gone).unwrap();
    assert_right(&fixture.open());
}

/// As after a power cut that took buffered events away, and the marks of what had changed.
#[test]
fn a_journal_that_lost_its_end_is_read_anew_after_a_boot() {
    let mut fixture = Fixture::new(14);
    let store = fixture.open();
    fixture.work(&store, 10);
    assert_right(&store);
    for session in session_dirs(&fixture.root()) {
        let journal = session.join("journal/00000001.jsonl");
        let text = fs::read_to_string(&journal).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let kept = lines.len().saturating_sub(2).max(2);
        fs::write(&journal, lines[..kept].join("\n") + "\n").unwrap();
        fs::remove_file(session.join("watermark")).unwrap();
    }
    let mut options = LocalOptions::default();
    options.env.boot = Some("another boot".to_owned());
    let store = LocalStore::open(&fixture.root(), options).unwrap();
    assert_right(&store);
    assert_eq!(store.index().dump().unwrap(), {
        fs::remove_file(fixture.root().join("index.db")).unwrap();
        store.index().dump().unwrap()
    });
}

#[test]
fn a_store_that_cannot_be_written_is_answered_from_a_temporary_index() {
    let mut fixture = Fixture::new(15);
    let store = fixture.open();
    fixture.work(&store, 10);
    let root = fixture.root();
    let before = journals(&root);
    // A directory where the index should be cannot be written by anybody, root included.
    let index = root.join("index.db");
    fs::create_dir(&index).unwrap();
    fs::create_dir(root.join("index.db.new")).unwrap();
    fs::write(root.join("index.db.new/keep"), b"").unwrap();
    let store = LocalStore::open(&root, LocalOptions::default()).unwrap();
    let history = store.history(&HistoryQuery::default()).unwrap();
    assert_eq!(history.entries.len(), store.list().unwrap().len());
    assert!(history.notes[0].contains("a temporary one was used"), "{:?}", history.notes);
    assert_eq!(journals(&root), before);
}

#[test]
fn eight_at_once_get_the_right_answers_while_sessions_grow() {
    let mut fixture = Fixture::new(16);
    let store = fixture.open();
    fixture.work(&store, 6);
    let root = fixture.root();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        for asker in 0..8 {
            let (root, stop) = (root.clone(), stop.clone());
            scope.spawn(move || {
                let mut asked = 0;
                while asked < 5 || !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let store = LocalStore::open(&root, LocalOptions::default()).unwrap();
                    // A session of its own must be found at once by whoever made it.
                    let word = format!("word{asker}x{asked}");
                    let id = store.create(NewSession::titled(&*word)).unwrap().id;
                    let query = HistoryQuery {
                        search: Some(Search::parse(&word).unwrap()),
                        ..HistoryQuery::default()
                    };
                    let found = store.history(&query).unwrap();
                    assert_eq!(found.notes, Vec::<String>::new());
                    assert_eq!(found.entries.iter().map(|e| e.id).collect::<Vec<_>>(), [id]);
                    asked += 1;
                }
            });
        }
        let store = fixture.open();
        fixture.work(&store, 20);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let store = fixture.open();
    assert_right(&store);
    assert_eq!(store.index().dump().unwrap(), rebuilt(&root));
}

#[test]
fn the_index_is_for_nobody_else_to_read() {
    let mut fixture = Fixture::new(17);
    let store = fixture.open();
    fixture.work(&store, 3);
    store.index().update().unwrap();
    for name in ["index.db", "index.lock", "index.db-wal"] {
        let path = fixture.root().join(name);
        if let Ok(file) = fs::metadata(&path) {
            assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }
}

#[test]
fn the_overview_of_a_session_is_one_fold_however_it_is_cut() {
    let mut fixture = Fixture::new(18);
    let store = fixture.open();
    fixture.work(&store, 30);
    for (id, events) in events(&store) {
        let whole = Overview::of(|| events.iter().cloned().map(Ok::<_, Infallible>)).unwrap();
        let entry = store.history(&HistoryQuery::default()).unwrap();
        let entry = entry.entries.into_iter().find(|entry| entry.id == id).unwrap();
        assert_eq!(entry.overview, whole);
    }
}

#[test]
fn many_rewinds_are_read_as_one() {
    let mut fixture = Fixture::new(22);
    let store = fixture.open();
    let id = store.create(NewSession::titled("back and forth")).unwrap().id;
    let writer = store.write(id, Duration::ZERO).unwrap();
    for round in 0..60 {
        for _ in 0..5 {
            let event = fixture.event();
            drop(writer.append(vec![event], Durability::Buffered, AnomalyPolicy::Keep).unwrap());
        }
        let to = 2 + fixture.random.below(5 * round + 3);
        let json = format!(r#"{{"kind":"session.rewound","data":{{"to":{to}}}}}"#);
        let rewind = NewEvent::parse(&json).unwrap();
        writer
            .append(vec![rewind], Durability::Synced, AnomalyPolicy::Keep)
            .unwrap()
            .wait()
            .unwrap();
        // Some are met one by one, most together.
        if round % 13 == 0 {
            assert_right(&store);
        }
    }
    drop(writer);
    assert_right(&store);
    assert_eq!(store.index().dump().unwrap(), rebuilt(&fixture.root()));
}

#[test]
fn an_imported_session_is_found_wherever_the_follower_came_between() {
    let mut there = Fixture::new(23);
    let store = there.open();
    there.work(&store, 1);
    let id = store.list().unwrap()[0].id;
    let mut bundle = Vec::new();
    store.exporter().export(id, &mut bundle).unwrap();
    let name = session_dirs(&there.root()).remove(0);
    let here = Fixture::new(24);
    let store = here.open();
    // What an import that was killed early leaves, seen by a follower.
    fs::create_dir(here.root().join("sessions").join(name.file_name().unwrap())).unwrap();
    assert_eq!(store.history(&HistoryQuery::default()).unwrap().entries, []);
    let reader = abide_local::BundleReader::open(bundle.as_slice()).unwrap();
    store.importer().import(reader, Duration::ZERO).unwrap();
    assert_eq!(store.history(&HistoryQuery::default()).unwrap().entries.len(), 1);
    assert_right(&store);
    // More of it comes.
    there.work(&there.open(), 3);
    let mut bundle = Vec::new();
    there.open().exporter().export(id, &mut bundle).unwrap();
    let reader = abide_local::BundleReader::open(bundle.as_slice()).unwrap();
    store.importer().import(reader, Duration::ZERO).unwrap();
    assert_right(&store);
}

#[test]
fn a_session_that_cannot_be_read_does_not_hide_the_others() {
    let mut fixture = Fixture::new(25);
    let store = fixture.open();
    fixture.work(&store, 15);
    let all = store.history(&HistoryQuery::default()).unwrap().entries.len();
    assert!(all > 2);
    let one = session_dirs(&fixture.root()).remove(0);
    let journal = one.join("journal");
    let aside = fixture.dir.path().join("aside");
    fs::rename(&journal, &aside).unwrap();
    fs::write(&journal, b"a file").unwrap();
    for _ in 0..2 {
        fs::remove_file(fixture.root().join("index.db")).unwrap();
        let history = fixture.open().history(&HistoryQuery::default()).unwrap();
        assert_eq!(history.entries.len(), all - 1);
        assert!(history.notes[0].contains("cannot be read and is missing here"), "{history:?}");
    }
    fs::remove_file(&journal).unwrap();
    fs::rename(&aside, &journal).unwrap();
    // The directory of sessions has not changed; the mark that was kept leads back to it.
    fs::remove_file(fixture.root().join("index.db")).unwrap();
    assert_right(&fixture.open());
}

#[test]
fn what_stands_among_the_marks_by_mistake_does_no_harm() {
    let mut fixture = Fixture::new(26);
    let store = fixture.open();
    fixture.work(&store, 3);
    assert_right(&store);
    let root = fixture.root();
    for dir in ["changed", "changed.taken"] {
        for round in 0..2 {
            fs::create_dir_all(root.join(dir)).unwrap();
            fs::write(root.join(dir).join(".DS_Store"), b"x").unwrap();
            let odd = root.join(dir).join("2025-11-15T01-20-00-aaaaaa");
            fs::create_dir(&odd).unwrap();
            fs::write(odd.join("x"), b"x").unwrap();
            fixture.work(&store, 2);
            assert_right(&store);
            assert!(!root.join("changed.taken").exists(), "{dir} {round}");
        }
    }
    fs::remove_dir_all(root.join("changed")).ok();
    std::os::unix::fs::symlink("/tmp", root.join("changed")).unwrap();
    let refused = LocalStore::open(&root, LocalOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("links in a store are not followed"), "{refused}");
}

#[test]
fn turns_are_told_with_their_agents_and_calls() {
    let fixture = Fixture::new(27);
    let store = fixture.open();
    let id = store.create(NewSession::titled("turns")).unwrap().id;
    let writer = store.write(id, Duration::ZERO).unwrap();
    let lines = [
        r#"{"kind":"turn.started","data":{"agent":"arbiter","role":"arbiter"}}"#,
        r#"{"kind":"turn.decided","data":{"selected":"coder","reason":"it is code"}}"#,
        r#"{"kind":"turn.finished","data":{}}"#,
        r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
        r#"{"kind":"tool.called","data":{"call":"a","name":"bash"}}"#,
        r#"{"kind":"tool.called","data":{"call":"b","name":"bash"}}"#,
        r#"{"kind":"turn.finished","data":{"status":"ok"}}"#,
    ];
    let events = lines.iter().map(|line| NewEvent::parse(line).unwrap()).collect();
    writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    let turns = store.index().turns(id).unwrap();
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0].decision.as_deref(), Some("coder"));
    assert_eq!(turns[0].reason.as_deref(), Some("it is code"));
    assert_eq!((turns[1].agent.as_str(), turns[1].tool_calls), ("coder", 2));
    assert_eq!(turns[1].status, "ok");
    assert!(turns[1].ended >= Some(turns[1].started));
}
