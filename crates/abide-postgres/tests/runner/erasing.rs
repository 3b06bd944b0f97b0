//! After an erasure the data is nowhere: not in a table, not in the files of the server, not where
//! the objects are. One that is interrupted is known, and finished.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use abide_maintain::EraseError;
use abide_model::{
    AnomalyPolicy, Durability, EventRange, NewEvent, NewSession, ObjectBatch, ObjectHash, Objects,
    Seq, SessionId, SessionWriter, Store,
};
use abide_objects::{ObjectsOptions, ObjectsUrl, RemoteObjects};
use abide_postgres::{PostgresOptions, PostgresStore, ServerUrl};
use abide_testkit::{CutProxy, Direction, FaultRun, PrivatePostgres, Random};
use abide_workspace::{EntryKind, Snapshot, Tree, TreeEntry};

use crate::support::{database, new_session, say, store};

const WAIT: Duration = Duration::from_secs(60);
/// It stands in the files as it is, wherever it is stored.
const SECRET: &str = "hunter2-Zq81-planted";

fn put(objects: &dyn Objects, bytes: &[u8]) -> ObjectHash {
    let hash = ObjectHash::of(bytes);
    let mut batch = ObjectBatch::default();
    batch.push(hash, bytes);
    objects.put_batch(&batch).unwrap();
    hash
}

fn append(writer: &dyn SessionWriter, json: &str) -> Seq {
    let event = vec![NewEvent::parse(json).unwrap()];
    let ticket = writer.append(event, Durability::Synced, AnomalyPolicy::Keep).unwrap();
    ticket.wait().unwrap().last().unwrap().seq
}

/// A checkpoint with these files.
fn checkpoint(store: &PostgresStore, writer: &dyn SessionWriter, files: &[&str]) -> Seq {
    let objects = store.objects().unwrap();
    let entry = |(number, text): (usize, &&str)| TreeEntry {
        name: format!("file{number}").into_bytes(),
        kind: EntryKind::File,
        mode: 0o644,
        size: text.len() as u64,
        hash: put(&*objects, text.as_bytes()),
    };
    let tree = Tree { entries: files.iter().enumerate().map(entry).collect() };
    let snapshot = Snapshot {
        version: 1,
        tree: put(&*objects, &tree.write()),
        files: files.len() as u64,
        directories: 0,
        bytes: 0,
        omitted: Vec::new(),
        omissions: 0,
    };
    let snapshot = put(&*objects, &snapshot.write());
    objects.sync().unwrap();
    let data = format!(r#"{{"trigger":"hand","snapshot":"{snapshot}"}}"#);
    append(writer, &format!(r#"{{"kind":"checkpoint.created","data":{data}}}"#))
}

/// The files below a directory that contain the secret.
fn files_with_secret(directory: &Path) -> Vec<PathBuf> {
    let finder = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
        } else if std::fs::read(&path).is_ok_and(|bytes| finder(&bytes)) {
            found.push(path);
        }
    }
    found
}

/// The files of a database on the server that contain the secret, and the tables that do.
fn places_with_secret(url: &str) -> (Vec<PathBuf>, Vec<String>) {
    let server = PrivatePostgres::shared().unwrap();
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let ask = |sql: &str| server.sql(database, sql).trim().to_owned();
    ask("CHECKPOINT");
    let line = |sql: &str| ask(sql).lines().last().unwrap_or_default().trim().to_owned();
    let dir = line("SHOW data_directory");
    let oid = line("SELECT oid FROM pg_database WHERE datname = current_database()");
    let files = files_with_secret(&Path::new(&dir).join("base").join(oid));
    let tables = ask("SELECT relname FROM pg_class JOIN pg_namespace ON relnamespace = \
        pg_namespace.oid WHERE nspname = 'abide' AND relkind = 'r'");
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    let holds = |table: &&str| {
        let sql = format!(
            "SELECT 'found' FROM abide.{table} AS row WHERE strpos(row::text, '{SECRET}') > 0 \
             OR strpos(row::text, '{hex}') > 0 LIMIT 1"
        );
        ask(&sql).contains("found")
    };
    let tables = tables.lines().map(str::trim).filter(|table| !table.is_empty());
    (files, tables.filter(holds).map(str::to_owned).collect())
}

/// A session with the secret in a message, in one that is an object, and in a file.
fn planted(store: &PostgresStore) -> (SessionId, Vec<Seq>) {
    let (id, writer) = new_session(store);
    say(&*writer, "nothing of note").unwrap();
    let first = Seq(say(&*writer, &format!("it is {SECRET}")).unwrap());
    let large = format!("{SECRET} {}", "large ".repeat(10_000));
    let second = Seq(say(&*writer, &large).unwrap());
    let third = checkpoint(store, &*writer, &["shared by both", SECRET]);
    checkpoint(store, &*writer, &["shared by both", "other"]);
    writer.close().unwrap();
    (id, vec![first, second, third])
}

fn erase(
    store: &PostgresStore,
    id: SessionId,
    seqs: &[Seq],
) -> Result<abide_maintain::EraseOutcome, EraseError> {
    let plan = store.eraser().plan(id, seqs)?;
    store.eraser().apply(&plan, Some("a test"), WAIT)
}

/// The session is whole, and does not have the secret.
fn check_erased(store: &PostgresStore, id: SessionId) {
    let page = store.read(id).unwrap().page(EventRange::ALL).unwrap();
    assert_eq!(page.notes, []);
    assert!(page.events.iter().all(|event| !event.to_json().contains(SECRET)));
    store.verify(id).unwrap();
    let parts = store.eraser().parts_of(id).unwrap();
    assert_eq!(store.eraser().find_payloads(id, SECRET).unwrap().payloads, []);
    let files = store.eraser().find_files(&parts, SECRET).unwrap();
    assert_eq!((files.held.len(), files.unnamed, files.notes), (0, 0, Vec::new()));
    assert!(!store.eraser().is_erasing().unwrap());
}

fn with_objects_in(url: &ServerUrl, options: PostgresOptions, dir: &Path) -> PostgresStore {
    drop(store(url, PostgresOptions::default()));
    let objects = ObjectsUrl::parse(&format!("file://{}", dir.display())).unwrap();
    let objects = RemoteObjects::open(objects, &ObjectsOptions::default()).unwrap();
    PostgresStore::open(url, options).unwrap().with_objects(Arc::new(objects))
}

fn erases_everywhere(url: &str, store: &PostgresStore, dir: Option<&Path>) {
    let (id, seqs) = planted(store);
    let fork = store.fork(id, None, NewSession::default()).unwrap().id;
    // What is derived has it too.
    let query = abide_model::HistoryQuery {
        search: abide_model::Search::parse("planted").ok(),
        ..abide_model::HistoryQuery::default()
    };
    assert!(!store.history(&query).unwrap().entries.is_empty());
    let (files, tables) = places_with_secret(url);
    assert!(!files.is_empty() && tables.contains(&"event".to_owned()), "{files:?} {tables:?}");
    assert!(dir.is_none_or(|dir| !files_with_secret(dir).is_empty()));
    let parts = store.eraser().parts_of(fork).unwrap();
    assert_eq!(parts.iter().map(|part| part.session).collect::<Vec<_>>(), [id, fork]);
    assert_eq!(store.eraser().find_payloads(id, SECRET).unwrap().payloads, seqs[..2]);
    let found = store.eraser().find_files(&parts, SECRET).unwrap();
    assert_eq!(found.held.iter().map(|found| found.seq).collect::<Vec<_>>(), seqs[2..]);
    let plan = store.eraser().plan(id, &seqs).unwrap();
    assert_eq!((plan.lines.len(), &plan.forks[..]), (3, &[fork][..]));
    let erased = erase(store, id, &seqs).unwrap();
    // The large text, the snapshot, its tree, and the file that no other checkpoint has.
    assert_eq!((erased.payloads, erased.objects, erased.shared_files), (3, 4, 1));
    assert_eq!(erased.notes, [""; 0]);
    for session in [id, fork] {
        check_erased(store, session);
    }
    assert_eq!(places_with_secret(url), (Vec::new(), Vec::new()));
    assert_eq!(dir.map(files_with_secret).unwrap_or_default(), [""; 0].map(PathBuf::from));
    let page = store.read(id).unwrap().page(EventRange::ALL).unwrap();
    let noted = page.events.iter().filter(|event| event.kind == abide_model::Kind::PAYLOAD_ERASED);
    assert_eq!(noted.count(), 3);
}

#[test]
fn what_is_erased_is_nowhere_in_the_database() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let url = server.create_database();
    erases_everywhere(
        &url,
        &store(&ServerUrl::parse(&url).unwrap(), PostgresOptions::default()),
        None,
    );
}

#[test]
fn what_is_erased_is_nowhere_in_the_directory_of_objects() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let url = server.create_database();
    let dir = tempfile::tempdir().unwrap();
    let options = PostgresOptions::default();
    let store = with_objects_in(&ServerUrl::parse(&url).unwrap(), options, dir.path());
    erases_everywhere(&url, &store, Some(dir.path()));
}

#[test]
fn what_something_else_names_stays_and_is_named() {
    let Some(url) = database() else { return };
    let store = store(&url, PostgresOptions::default());
    let (id, seqs) = planted(&store);
    let (other, writer) = new_session(&*store);
    let large = format!("{SECRET} {}", "large ".repeat(10_000));
    let naming = Seq(say(&*writer, &large).unwrap());
    writer.close().unwrap();
    let erased = erase(&store, id, &seqs[1..2]).unwrap();
    assert_eq!((erased.payloads, erased.objects), (1, 0));
    assert_eq!(erased.shared, [ObjectHash::of(large.as_bytes())]);
    assert_eq!(erased.named_by, [(other, naming)]);
    let page = store.read(other).unwrap().page(EventRange::ALL).unwrap();
    assert!(page.events.iter().any(|event| event.to_json().contains(SECRET)));
}

#[test]
fn objects_that_nothing_names_are_erased_however_new() {
    let Some(url) = database() else { return };
    let store = store(&url, PostgresOptions::default());
    put(&*store.objects().unwrap(), SECRET.as_bytes());
    assert_eq!(store.eraser().find_files(&[], SECRET).unwrap().unnamed, 1);
    assert_eq!(store.eraser().erase_unnamed(WAIT).unwrap().objects, 1);
    assert_eq!(store.eraser().find_files(&[], SECRET).unwrap().unnamed, 0);
}

#[test]
fn a_writer_may_not_erase_and_nothing_is_changed() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let url = server.create_database();
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let roles = include_str!("../../roles.sql");
    server.sql(&database, roles);
    let user = |role: &str| {
        let name = format!("{role}_{database}");
        server.sql(&database, &format!("CREATE ROLE {name} LOGIN IN ROLE abide_{role}"));
        if role == "admin" {
            server.sql(&database, &format!("ALTER ROLE {name} SET role = 'abide_admin'"));
        }
        let (before, after) = url.split_once("postgres@").unwrap();
        ServerUrl::parse(&format!("{before}{name}@{after}")).unwrap()
    };
    let (admin, writer) = (user("admin"), user("writer"));
    drop(store(&admin, PostgresOptions::default()));
    server.sql(&database, roles);
    let open = |url: &ServerUrl| PostgresStore::open(url, PostgresOptions::default()).unwrap();
    let theirs = open(&writer);
    let (id, seqs) = planted(&theirs);
    let refused = erase(&theirs, id, &seqs).unwrap_err();
    let EraseError::Store(refused) = refused else { panic!("{refused:?}") };
    let said = std::error::Error::source(&refused).unwrap().to_string();
    assert!(said.starts_with("the database user lacks the privilege: UPDATE on event"), "{said}");
    theirs.eraser().erase_unnamed(WAIT).unwrap_err();
    theirs.collector().collect(Duration::ZERO, WAIT, &mut Vec::new()).unwrap_err();
    assert_eq!(theirs.eraser().find_payloads(id, SECRET).unwrap().payloads, seqs[..2]);
    let ours = open(&admin);
    assert!(!ours.eraser().is_erasing().unwrap());
    let erased = erase(&ours, id, &seqs).unwrap();
    assert_eq!((erased.payloads, erased.notes), (3, Vec::new()));
    check_erased(&theirs, id);
    assert_eq!(places_with_secret(&url), (Vec::new(), Vec::new()));
}

#[test]
fn an_erasure_that_is_cut_off_is_known_and_finished() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let direct = server.create_database();
    let dir = tempfile::tempdir().unwrap();
    let near = ServerUrl::parse(&direct).unwrap();
    let near = with_objects_in(&near, PostgresOptions::default(), dir.path());
    let port = direct.rsplit_once(':').and_then(|(_, rest)| rest.split_once('/')).unwrap().0;
    let proxy = CutProxy::before(([127, 0, 0, 1], port.parse().unwrap()).into());
    let through = direct.replace(&format!(":{port}/"), &format!(":{}/", proxy.address().port()));
    let through = ServerUrl::parse(&format!("{through}?sslmode=disable")).unwrap();
    let hasty = || PostgresOptions {
        patience: Duration::ZERO,
        answer: Duration::from_secs(5),
        ..PostgresOptions::default()
    };
    let mut random = Random::new(5 + FaultRun::from_env().seed());
    let (mut untouched, mut known, mut done) = (0, 0, 0);
    for _ in 0..FaultRun::from_env().len(16, 150) {
        let (id, seqs) = planted(&near);
        let far = with_objects_in(&through, hasty(), dir.path());
        let plan = far.eraser().plan(id, &seqs).unwrap();
        let way = if random.below(2) == 0 { Direction::ToServer } else { Direction::ToClient };
        proxy.cut_after(random.below(14_000), way);
        let result = far.eraser().apply(&plan, None, Duration::from_secs(1));
        drop(far);
        let left = near.eraser().find_payloads(id, SECRET).unwrap().payloads.len();
        match near.eraser().is_erasing().unwrap() {
            false if left > 0 => {
                assert!(result.is_err() && left == 2, "all of it or nothing: {left}");
                untouched += 1;
                // The lease of whoever was cut off runs out.
                erase(&near, id, &seqs).unwrap();
            }
            false => done += 1,
            true => {
                assert!(result.is_err() && left == 0);
                known += 1;
                assert!(near.eraser().finish(WAIT).unwrap().0 > 0);
            }
        }
        check_erased(&near, id);
        assert_eq!(files_with_secret(dir.path()), [""; 0].map(PathBuf::from));
    }
    println!("{untouched} had not begun, {known} were finished later, {done} went through");
    assert_eq!(places_with_secret(&direct), (Vec::new(), Vec::new()));
    assert!(known > 0);
}

#[test]
fn what_is_erased_goes_beside_a_transaction_in_another_database() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let url = server.create_database();
    let store = store(&ServerUrl::parse(&url).unwrap(), PostgresOptions::default());
    let (id, seqs) = planted(&store);
    let other = server.create_database();
    let other = other.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let (begun, has_begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            server.sql(&other, "CREATE TABLE row (number integer)");
            begun.send(()).unwrap();
            server.sql(&other, "BEGIN; INSERT INTO row VALUES (1); SELECT pg_sleep(4); COMMIT");
        });
        has_begun.recv().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let erased = erase(&store, id, &seqs).unwrap();
        assert_eq!(erased.notes, [""; 0]);
    });
    check_erased(&store, id);
    assert_eq!(places_with_secret(&url), (Vec::new(), Vec::new()));
}

#[test]
fn twenty_writers_go_on_beside_erasures() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let url = server.create_database();
    let address = ServerUrl::parse(&url).unwrap();
    let eraser = store(&address, PostgresOptions::default());
    let stop = Arc::new(AtomicBool::new(false));
    let shared = Arc::new(format!("common {}", "large ".repeat(10_000)));
    let writers: Vec<_> = (0..20)
        .map(|number| {
            let (stop, shared) = (stop.clone(), shared.clone());
            let store = PostgresStore::open(&address, PostgresOptions::default()).unwrap();
            std::thread::spawn(move || {
                let (id, writer) = new_session(&store);
                let mut said = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    match said % 3 {
                        0 => say(&*writer, &shared),
                        1 => say(&*writer, &format!("{number} {said} {}", "large ".repeat(4_000))),
                        _ => say(&*writer, &format!("{number} {said}")),
                    }
                    .unwrap();
                    said += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
                writer.close().unwrap();
                (id, said)
            })
        })
        .collect();
    for _ in 0..FaultRun::from_env().len(4, 30) {
        let (id, mut seqs) = planted(&eraser);
        // What others name too.
        let writer = eraser.write(id, WAIT).unwrap();
        seqs.push(Seq(say(&*writer, &shared).unwrap()));
        writer.close().unwrap();
        drop(writer);
        let erased = erase(&eraser, id, &seqs).unwrap();
        assert_eq!(erased.payloads, 4);
        check_erased(&eraser, id);
    }
    stop.store(true, Ordering::Relaxed);
    let mut events = 0;
    for writer in writers {
        let (id, said) = writer.join().unwrap();
        assert!(said > 0);
        events += said;
        let reader = eraser.read(id).unwrap();
        let mut range = EventRange::ALL;
        while let Some(next) = {
            let page = reader.page(range).unwrap();
            assert_eq!(page.notes, []);
            page.next
        } {
            range.first = next;
        }
    }
    println!("{events} events were appended beside the erasures");
    assert_eq!(places_with_secret(&url), (Vec::new(), Vec::new()));
}
