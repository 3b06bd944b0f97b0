//! The holder's socket: children that write through it, and what may go wrong with either side.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_local::{LocalChildSocket, LocalOptions, LocalStore};
use abide_model::{
    AcknowledgedEvent, Anomaly, AnomalyPolicy, AppendError, Durability, Event, EventRange,
    NewEvent, NewSession, Seq, SessionId, SessionWriter, Store, StoreError,
};
use abide_testkit::{FaultRun, Random, block_on};

/// Nobody waits so long where all is well.
const AMPLE: Duration = Duration::from_secs(60);

/// A session that is held, with its socket.
struct Held {
    root: PathBuf,
    id: SessionId,
    store: LocalStore,
    writer: Arc<dyn SessionWriter>,
    socket: LocalChildSocket,
    /// The events of every batch that the holder was told of.
    seen: Arc<AtomicUsize>,
}

impl Held {
    fn new(dir: &Path) -> Self {
        let root = dir.join(".abide");
        let store = LocalStore::init(&root, LocalOptions::default()).unwrap();
        let id = store.create(NewSession::default()).unwrap().id;
        let writer = store.write(id, Duration::ZERO).unwrap();
        let seen = Arc::new(AtomicUsize::new(0));
        let told = seen.clone();
        let socket = store
            .serve_children(id, &writer, move |events| {
                told.fetch_add(events.len(), Ordering::SeqCst);
            })
            .unwrap();
        Self { root, id, store, writer, socket, seen }
    }

    fn child(&self) -> Arc<dyn SessionWriter> {
        child_store(&self.root, self.id).write(self.id, AMPLE).unwrap()
    }

    fn path(&self) -> PathBuf {
        crate::session_dirs(&self.root).remove(0).join("socket")
    }

    /// A connection that says what it likes.
    fn raw(&self) -> Raw {
        Raw::new(UnixStream::connect(self.path()).unwrap())
    }

    /// One that is let in.
    fn greeted(&self) -> Raw {
        let mut raw = self.raw();
        raw.say(&format!("{{\"abide\":1,\"session\":\"{}\"}}\n", self.id));
        let welcome = raw.hear();
        assert_eq!(welcome, format!("{{\"abide\":1,\"epoch\":{}}}\n", self.writer.epoch()));
        raw
    }
}

fn child_store(root: &Path, id: SessionId) -> LocalStore {
    LocalStore::open(root, LocalOptions { child_of: Some(id), ..LocalOptions::default() }).unwrap()
}

struct Raw(BufReader<UnixStream>);

impl Raw {
    fn new(stream: UnixStream) -> Self {
        // Only so that a failing test ends.
        stream.set_read_timeout(Some(AMPLE)).unwrap();
        Self(BufReader::new(stream))
    }

    fn say(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    fn is_cut_off(&mut self) -> bool {
        let mut rest = Vec::new();
        matches!(self.0.read_to_end(&mut rest), Ok(0) | Err(_)) && rest.is_empty()
    }
}

fn event(child: usize, n: usize) -> NewEvent {
    NewEvent::parse(&format!(r#"{{"kind":"x.n","data":{{"child":{child},"n":{n}}}}}"#)).unwrap()
}

fn append(writer: &dyn SessionWriter, new: NewEvent) -> Result<AcknowledgedEvent, AppendError> {
    Ok(writer.append(vec![new], Durability::Synced, AnomalyPolicy::Keep)?.wait()?[0])
}

fn events(store: &LocalStore, id: SessionId) -> Vec<Event> {
    let reader = store.read(id).unwrap();
    let mut range = EventRange::ALL;
    let mut all = Vec::new();
    loop {
        let page = reader.page(range).unwrap();
        assert_eq!(page.notes, []);
        all.extend(page.events);
        match page.next {
            Some(next) => range.first = next,
            None => break,
        }
    }
    all.retain(|event| event.kind.as_str() == "x.n");
    all
}

fn text(event: &Event) -> &str {
    event.data.as_ref().unwrap().as_str()
}

#[test]
fn many_children_write_at_once_and_each_is_answered_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::new(dir.path());
    let mode = fs::symlink_metadata(held.path()).unwrap();
    assert!(mode.file_type().is_socket());
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    let answered: Vec<HashMap<u64, String>> = std::thread::scope(|scope| {
        let children: Vec<_> = (0..12)
            .map(|child| {
                let held = &held;
                scope.spawn(move || {
                    let writer = held.child();
                    assert_eq!(writer.epoch(), held.writer.epoch());
                    let mut answered = HashMap::new();
                    let mut last = Seq::ZERO;
                    for round in 0..10 {
                        // Several under way, of several events.
                        let tickets: Vec<_> = (0..5)
                            .map(|ticket| {
                                let n = round * 10 + ticket * 2;
                                let batch = vec![event(child, n), event(child, n + 1)];
                                let odd = AnomalyPolicy::Keep;
                                (n, writer.append(batch, Durability::Synced, odd).unwrap())
                            })
                            .collect();
                        for (n, ticket) in tickets {
                            for (more, done) in ticket.wait().unwrap().into_iter().enumerate() {
                                assert!(done.seq > last, "in the order of sending");
                                last = done.seq;
                                let data = format!(r#"{{"child":{child},"n":{}}}"#, n + more);
                                answered.insert(done.seq.0, data);
                            }
                        }
                        if round == 5 {
                            append(&*held.writer, event(99, child)).unwrap();
                        }
                    }
                    assert!(writer.core().unwrap().0.seq >= last);
                    assert!(writer.state().unwrap().core.seq >= last);
                    assert!(writer.lane(None).unwrap().0.seq >= last);
                    writer.close().unwrap();
                    assert!(matches!(
                        append(&*writer, event(0, 0)),
                        Err(AppendError::Stopped { safe, .. }) if safe == last
                    ));
                    answered
                })
            })
            .collect();
        children.into_iter().map(|child| child.join().unwrap()).collect()
    });
    assert_eq!(held.seen.load(Ordering::SeqCst), 12 * 100);
    let all = events(&held.store, held.id);
    assert_eq!(all.len(), 12 * 100 + 12);
    for (seq, data) in answered.iter().flatten() {
        let there = all.iter().find(|event| event.seq.0 == *seq).unwrap();
        assert_eq!(text(there), data);
    }
    assert_eq!(answered.iter().map(HashMap::len).sum::<usize>(), 1200);
    let path = held.path();
    drop(held.socket);
    assert!(!path.exists(), "nothing is left");
}

#[test]
fn a_child_gets_the_same_errors_and_the_same_keys() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::new(dir.path());
    let child = held.child();
    let parse = |text: &str| NewEvent::parse(text).unwrap();
    let reserved = append(&*child, parse(r#"{"kind":"writer.opened","data":{}}"#)).unwrap_err();
    assert!(matches!(reserved, AppendError::Input { index: 0, .. }), "{reserved:?}");
    let rewound = append(&*child, parse(r#"{"kind":"session.rewound","data":{"to":1}}"#));
    let rewound = rewound.unwrap_err();
    assert!(
        matches!(&rewound, AppendError::Input { index: 0, source } if source.code() == "holder_only"),
        "{rewound:?}"
    );
    // The files may be rewound: the holder says behind which event, and nothing is taken back.
    let files = |to: u64| {
        parse(&format!(r#"{{"kind":"session.rewound","data":{{"to":{to},"files":true}}}}"#))
    };
    append(&*child, files(1)).unwrap_err();
    let rewound = append(&*child, files(0)).unwrap().seq;
    let core = child.core().unwrap().0;
    assert_eq!(core.last_rewind, Some(rewound));
    assert!(core.lineage.contains(Seq(rewound.0 - 1)), "it stays live");
    let result = r#"{"kind":"tool.finished","data":{"call":"none","ok":true}}"#;
    let odd = vec![event(0, 0), parse(result)];
    let refused = child.append(odd, Durability::Synced, AnomalyPolicy::Refuse).unwrap().wait();
    let unknown = AppendError::Odd { index: 1, anomaly: Anomaly::UnknownCall };
    assert_eq!(format!("{:?}", refused.unwrap_err()), format!("{unknown:?}"));
    assert_eq!(append(&*child, parse(result)).unwrap().anomaly, Some(Anomaly::UnknownCall));
    let first = append(&*child, event(0, 1).with_key("k")).unwrap();
    let again = append(&*held.child(), event(0, 2).with_key("k")).unwrap();
    assert_eq!((again.seq, again.repeated), (first.seq, true));
    let own = append(&*held.writer, event(0, 3).with_key("k")).unwrap();
    assert_eq!((own.seq, own.repeated), (first.seq, true));
    // Async callers wait without a thread of their own.
    let ticket =
        child.append(vec![event(0, 4)], Durability::Buffered, AnomalyPolicy::Keep).unwrap();
    assert_eq!(ticket.seq(), None, "the holder gives it");
    let buffered = block_on(ticket).unwrap()[0].seq;
    child.close().unwrap();
    child.close().unwrap();
    // What was only buffered is durable when the child has closed.
    let reader = held.store.read(held.id).unwrap();
    assert!(reader.acknowledged().unwrap() >= buffered);
    assert_eq!(events(&held.store, held.id).len(), 2);
}

#[test]
fn a_large_event_comes_through_whole() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::new(dir.path());
    let child = held.child();
    let large = |n: usize| {
        let text = format!("{n} {}", "large ".repeat(700_000));
        NewEvent::parse(&format!(r#"{{"kind":"x.n","data":{{"text":"{text}"}}}}"#)).unwrap()
    };
    let all: Vec<NewEvent> = (0..4).map(large).collect();
    let tickets: Vec<_> = all
        .iter()
        .map(|new| {
            child.append(vec![new.clone()], Durability::Synced, AnomalyPolicy::Keep).unwrap()
        })
        .collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    let there = events(&held.store, held.id);
    let sent: Vec<&str> = all.iter().map(|new| new.data.as_str()).collect();
    assert_eq!(there.iter().map(text).collect::<Vec<_>>(), sent);
}

#[test]
fn a_batch_that_is_too_large_blames_no_event() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::new(dir.path());
    let child = held.child();
    let text = "x".repeat(33 << 20);
    let large =
        NewEvent::parse(&format!(r#"{{"kind":"x.n","data":{{"text":"{text}"}}}}"#)).unwrap();
    let both = vec![large.clone(), large];
    let refused =
        child.append(both, Durability::Synced, AnomalyPolicy::Keep).map(|_| ()).unwrap_err();
    assert!(matches!(refused, AppendError::TooLarge { .. }), "{refused:?}");
    append(&*child, event(0, 1)).unwrap();
    assert_eq!(events(&held.store, held.id).len(), 1);
}

#[test]
fn others_are_refused_as_before_and_the_holder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::new(dir.path());
    let other = LocalStore::open(&held.root, LocalOptions::default()).unwrap();
    let refused = other.write(held.id, Duration::ZERO).map(|_| ()).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Held { holder, .. } if holder.process == std::process::id())
    );
    // A child of another session's holder is somebody else here.
    let elsewhere = held.store.create(NewSession::default()).unwrap().id;
    let stranger = child_store(&held.root, elsewhere);
    assert!(matches!(stranger.write(held.id, Duration::ZERO), Err(StoreError::Held { .. })));
    // And its own session it takes by the lock, since nobody listens there.
    let own = stranger.write(elsewhere, Duration::ZERO).unwrap();
    append(&*own, event(0, 0)).unwrap();
    let socket = stranger.serve_children(elsewhere, &own, |_| ()).unwrap();
    assert_eq!(socket.children(), 0);
}

#[test]
fn a_holder_that_goes_leaves_the_session_to_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let Held { root, id, store, writer, socket, .. } = Held::new(dir.path());
    let child = child_store(&root, id).write(id, AMPLE).unwrap();
    let first = append(&*child, event(0, 1)).unwrap();
    drop(socket);
    match append(&*child, event(0, 2)) {
        Err(AppendError::Stopped { safe, .. }) => assert_eq!(safe, first.seq),
        other => panic!("{other:?}"),
    }
    // The holder still has the session, and serves nobody.
    assert!(matches!(
        child_store(&root, id).write(id, Duration::ZERO),
        Err(StoreError::Held { .. })
    ));
    append(&*writer, event(0, 3)).unwrap();
    drop(writer);
    let again = child_store(&root, id).write(id, AMPLE).unwrap();
    append(&*again, event(0, 4)).unwrap();
    drop((child, again));
    let numbers: Vec<String> = events(&store, id).iter().map(|e| text(e).to_owned()).collect();
    let expected = [1, 3, 4].map(|n| format!(r#"{{"child":0,"n":{n}}}"#));
    assert_eq!(numbers, expected);
}

#[test]
fn a_writer_that_is_let_go_under_its_socket_serves_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let Held { root, id, writer, socket, .. } = Held::new(dir.path());
    let child = child_store(&root, id).write(id, AMPLE).unwrap();
    append(&*child, event(0, 1)).unwrap();
    writer.close().unwrap();
    drop(writer);
    assert!(matches!(append(&*child, event(0, 2)), Err(AppendError::Stopped { .. })));
    let again = child_store(&root, id).write(id, AMPLE).unwrap();
    append(&*again, event(0, 3)).unwrap();
    drop(socket);
}

#[test]
fn whatever_is_said_at_the_door_the_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::new(dir.path());
    // Silent, and half a line that never ends.
    let _silent = held.raw();
    let mut half = held.raw();
    half.say("{\"abide\":1,\"sess");
    let mut half_batch = held.greeted();
    half_batch.say(r#"{"events":[{"kind":"x.n","da"#);
    let other = SessionId::new(abide_model::Timestamp::from_millis(1), [7; 10]);
    for (hello, code) in [
        ("nonsense\n".to_owned(), "not_json"),
        ("\n".to_owned(), "not_json"),
        ("{}\n".to_owned(), "not_json"),
        (format!("{{\"abide\":1,\"session\":\"{other}\"}}\n"), "other_session"),
        (format!("{{\"abide\":2,\"session\":\"{}\"}}\n", held.id), "other_version"),
    ] {
        let mut raw = held.raw();
        raw.say(&hello);
        let refused = raw.hear();
        assert!(refused.contains(&format!("{{\"error\":{{\"code\":\"{code}\"")), "{refused}");
        assert!(raw.is_cut_off(), "{hello}");
    }
    // One that goes without a word.
    drop(held.raw());
    append(&*held.child(), event(0, 1)).unwrap();
    // A half line is not recorded when its sender goes.
    drop((half, half_batch));
    append(&*held.child(), event(0, 2)).unwrap();
    assert_eq!(events(&held.store, held.id).len(), 2);
}

#[test]
fn garbage_costs_its_own_line_and_one_that_is_too_long_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::new(dir.path());
    let mut raw = held.greeted();
    let good = r#"{"events":[{"kind":"x.n","data":{}}]}"#;
    raw.say(&format!("{good}\nnonsense\n{good}\n[1,2\n"));
    let answers = [raw.hear(), raw.hear(), raw.hear(), raw.hear()];
    let code = |answer: &str| -> String {
        let answer: serde_json::Value = serde_json::from_str(answer).unwrap();
        answer["error"]["code"].as_str().unwrap_or("none").to_owned()
    };
    assert_eq!(answers.each_ref().map(|one| code(one)), ["none", "not_json", "none", "not_json"]);
    assert!(answers[0].starts_with(r#"{"acknowledged":[{"seq":"#), "{}", answers[0]);
    let flood = vec![b'x'; 1 << 20];
    let mut sent = 0;
    while sent <= 66 << 20 && raw.0.get_mut().write_all(&flood).is_ok() {
        sent += flood.len();
    }
    assert!(sent < 66 << 20, "it must not take {sent} bytes in");
    let refused = raw.hear();
    assert_eq!(code(&refused), "batch_too_large");
    assert!(raw.is_cut_off());
    append(&*held.child(), event(0, 1)).unwrap();
    assert_eq!(events(&held.store, held.id).len(), 3);
}

#[test]
fn one_that_reads_no_answers_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::new(dir.path());
    let mut flooding = held.greeted();
    flooding.0.get_mut().set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    let line = "{\"events\":[]}\n".repeat(2000);
    // Until neither side takes any more.
    while flooding.0.get_mut().write_all(line.as_bytes()).is_ok() {}
    append(&*held.child(), event(0, 1)).unwrap();
    append(&*held.writer, event(0, 2)).unwrap();
    // It keeps the socket from going no longer than it takes to see that it does not read: not the
    // half minute that it may take while the session is open.
    let closing = std::time::Instant::now();
    drop(held.socket);
    assert!(closing.elapsed() < Duration::from_secs(20));
}

#[test]
fn what_has_arrived_at_a_close_is_recorded_although_nobody_reads_the_answers() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::new(dir.path());
    let mut flooding = held.greeted();
    flooding.0.get_mut().set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    let line = format!("{{\"events\":[{}]}}\n", event(0, 1).to_json());
    let mut sent = 0;
    // Until neither side takes any more.
    while flooding.0.get_mut().write_all(line.as_bytes()).is_ok() {
        sent += 1;
    }
    drop(held.socket);
    let recorded = events(&held.store, held.id).len();
    // The last line may have arrived in part.
    assert_eq!(recorded, sent, "lines that have arrived are not recorded");
}

#[test]
fn what_a_child_sent_before_it_went_is_recorded_and_seen() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::new(dir.path());
    for _ in 0..20 {
        let mut raw = held.greeted();
        let line = format!("{{\"events\":[{}]}}\n", event(0, 1).to_json());
        // It goes with an answer that it has not read.
        raw.say(&line);
        raw.say(&line);
    }
    while held.socket.children() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(held.seen.load(Ordering::SeqCst), 40);
    assert_eq!(events(&held.store, held.id).len(), 40);
}

#[test]
fn so_many_are_let_in_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::new(dir.path());
    let mut all: Vec<Raw> = (0..64).map(|_| held.greeted()).collect();
    let refused = child_store(&held.root, held.id).write(held.id, Duration::ZERO);
    assert!(matches!(refused.map(|_| ()), Err(StoreError::Held { .. })));
    assert_eq!(held.socket.children(), 64);
    all.pop();
    append(&*held.child(), event(0, 1)).unwrap();
}

#[test]
fn what_is_no_socket_is_neither_used_nor_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let Held { root, id, store, writer, socket, .. } = Held::new(dir.path());
    let path = crate::session_dirs(&root).remove(0).join("socket");
    drop(socket);
    let elsewhere = dir.path().join("elsewhere");
    let listener = UnixListener::bind(&elsewhere).unwrap();
    listener.set_nonblocking(true).unwrap();
    symlink(&elsewhere, &path).unwrap();
    let refused = store.serve_children(id, &writer, |_| ()).unwrap_err().to_string();
    assert!(refused.contains("link"), "{refused}");
    let child = child_store(&root, id);
    let refused = child.write(id, Duration::ZERO).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("link"), "{refused}");
    assert!(listener.accept().is_err(), "nobody came");
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    assert!(store.serve_children(id, &writer, |_| ()).is_err());
    assert!(child.write(id, Duration::ZERO).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    // One that a dead holder left is replaced, and one of another holder is left alone.
    drop(UnixListener::bind(&path).unwrap());
    let inode = fs::symlink_metadata(&path).unwrap().ino();
    let socket = store.serve_children(id, &writer, |_| ()).unwrap();
    assert_ne!(fs::symlink_metadata(&path).unwrap().ino(), inode);
    append(&*child.write(id, AMPLE).unwrap(), event(0, 1)).unwrap();
    fs::rename(&path, dir.path().join("aside")).unwrap();
    let _another = UnixListener::bind(&path).unwrap();
    drop((socket, writer));
    assert!(path.exists(), "it is not its own");
}

#[test]
fn nobody_listens_behind_a_socket_that_was_left() {
    let dir = tempfile::tempdir().unwrap();
    let Held { root, id, writer, socket, .. } = Held::new(dir.path());
    let path = crate::session_dirs(&root).remove(0).join("socket");
    drop((socket, writer));
    drop(UnixListener::bind(&path).unwrap());
    let child = child_store(&root, id).write(id, Duration::ZERO).unwrap();
    append(&*child, event(0, 1)).unwrap();
}

#[test]
fn a_path_that_is_longer_than_a_socket_can_have_does() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("d".repeat(100)).join("e".repeat(100));
    fs::create_dir_all(&deep).unwrap();
    let held = Held::new(&deep);
    assert!(held.path().as_os_str().len() > 200);
    append(&*held.child(), event(0, 1)).unwrap();
    assert_eq!(held.seen.load(Ordering::SeqCst), 1);
    let path = held.path();
    drop(held);
    assert!(!path.exists());
}

/// The variable that tells a process to hold a session: the store and the session.
const HOLD: &str = "ABIDE_TEST_HOLD";

#[test]
#[ignore = "the process that holds a session for the tests below"]
fn a_holder_in_a_process_of_its_own() {
    let Ok(told) = std::env::var(HOLD) else { return };
    let (id, root) = told.split_once(' ').unwrap();
    let id: SessionId = id.parse().unwrap();
    let store = LocalStore::open(Path::new(root), LocalOptions::default()).unwrap();
    let writer = store.write(id, AMPLE).unwrap();
    let socket = store.serve_children(id, &writer, |_| ()).unwrap();
    println!("ready");
    // Until it is killed, or whoever started it is gone.
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).unwrap();
    drop((socket, writer));
}

fn hold(root: &Path, id: SessionId) -> Child {
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "relay::a_holder_in_a_process_of_its_own", "--ignored", "--nocapture"])
        .env(HOLD, format!("{id} {}", root.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("ready")), "it ended before it was ready");
    holder
}

#[test]
fn holders_that_are_killed_lose_nothing_that_their_children_were_told_is_safe() {
    let lives = FaultRun::from_env().len(25, 300);
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join(".abide");
    let store = LocalStore::init(&root, LocalOptions::default()).unwrap();
    let id = store.create(NewSession::default()).unwrap().id;
    let stop = AtomicBool::new(false);
    let (answered, cut_off) = (Mutex::new(HashMap::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for child in 0..4 {
            let (root, stop, answered, cut_off) = (&root, &stop, &answered, &cut_off);
            scope.spawn(move || {
                let mut next = 0;
                while !stop.load(Ordering::Relaxed) {
                    let writer = child_store(root, id).write(id, AMPLE).unwrap();
                    for _ in 0..10 {
                        let sent: Vec<_> = (next..next + 3)
                            .map(|n| {
                                let new = event(child, n).with_key(format!("{child} {n}"));
                                (
                                    n,
                                    writer.append(
                                        vec![new],
                                        Durability::Synced,
                                        AnomalyPolicy::Keep,
                                    ),
                                )
                            })
                            .collect();
                        let done = sent.into_iter().try_for_each(|(n, ticket)| {
                            let seq = ticket?.wait()?[0].seq;
                            answered.lock().unwrap().insert((child, n), seq);
                            next = n + 1;
                            Ok::<(), AppendError>(())
                        });
                        match done {
                            Ok(()) => {}
                            Err(AppendError::Stopped { .. }) => {
                                cut_off.fetch_add(1, Ordering::Relaxed);
                                break;
                            }
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                    // So that the next holder gets it, where this was its own lock.
                    drop(writer);
                    std::thread::sleep(Duration::from_millis(30));
                }
            });
        }
        let mut random = Random::new(7);
        for _ in 0..lives {
            let mut holder = hold(&root, id);
            std::thread::sleep(Duration::from_millis(random.below(40)));
            holder.kill().unwrap();
            holder.wait().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let answered = answered.into_inner().unwrap();
    let mut there = HashMap::new();
    for event in events(&store, id) {
        let key = event.key.clone().unwrap();
        assert_eq!(there.insert(key, (event.seq, text(&event).to_owned())), None, "twice");
    }
    for ((child, n), seq) in &answered {
        let data = format!(r#"{{"child":{child},"n":{n}}}"#);
        assert_eq!(there.get(&format!("{child} {n}")), Some(&(*seq, data)));
    }
    let cut_off = cut_off.into_inner();
    println!(
        "kills of holders: {lives}\nchildren cut off: {cut_off}\nanswered: {}\nthere: {}",
        answered.len(),
        there.len()
    );
    assert!(cut_off >= lives / 5 && answered.len() > lives, "{cut_off} {}", answered.len());
}
