//! Objects that nothing names are removed, and none that anything names, whoever writes meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use abide_maintain::CollectError;
use abide_model::{
    AnomalyPolicy, CollectableObjects, Durability, EventRange, NewEvent, NewObject, ObjectBatch,
    ObjectHash, ObjectReceiver, Objects, SessionId, Store, StoreError, StoredObject,
};
use abide_objects::{ObjectsOptions, ObjectsUrl, RemoteObjects};
use abide_postgres::{PostgresOptions, PostgresStore, ServerUrl};
use abide_testkit::{CutProxy, FaultRun, PrivatePostgres, Random};

use crate::support::{database, new_session, say, store};

const NOW: Duration = Duration::ZERO;
const WAIT: Duration = Duration::from_secs(60);

/// A text that becomes an object.
fn large(word: &str) -> String {
    format!("{word} {}", "large ".repeat(10_000))
}

fn put(objects: &dyn Objects, text: &str) -> ObjectHash {
    let hash = ObjectHash::of(text.as_bytes());
    let mut batch = ObjectBatch::default();
    batch.push(hash, text.as_bytes());
    objects.put_batch(&batch).unwrap();
    objects.sync().unwrap();
    hash
}

/// An event that names an object by its hash.
fn naming(hash: ObjectHash) -> Vec<NewEvent> {
    let json = format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{hash}"}}}}"#);
    vec![NewEvent::parse(&json).unwrap()]
}

fn in_directory(url: &ServerUrl, dir: &std::path::Path) -> PostgresStore {
    drop(store(url, PostgresOptions::default()));
    let objects = ObjectsUrl::parse(&format!("file://{}", dir.display())).unwrap();
    let objects = RemoteObjects::open(objects, &ObjectsOptions::default()).unwrap();
    PostgresStore::open(url, PostgresOptions::default()).unwrap().with_objects(Arc::new(objects))
}

/// Every event of a session can be read, with its objects.
fn check_whole(store: &PostgresStore, id: SessionId) -> usize {
    let reader = store.read(id).unwrap();
    let (mut range, mut events) = (EventRange::ALL, 0);
    loop {
        let page = reader.page(range).unwrap();
        assert_eq!(page.notes, [], "session {id}");
        events += page.events.len();
        match page.next {
            Some(next) => range.first = next,
            None => return events,
        }
    }
}

fn removes_what_nothing_names(store: &PostgresStore) {
    let (id, writer) = new_session(store);
    let kept = large("kept");
    say(&*writer, &kept).unwrap();
    let objects = store.objects().unwrap();
    let (named, unnamed) = (put(&*objects, "named"), put(&*objects, "unnamed"));
    let append = writer.append(naming(named), Durability::Synced, AnomalyPolicy::Keep);
    append.unwrap().wait().unwrap();
    drop(objects);
    writer.close().unwrap();
    let collector = store.collector();
    let hour = Duration::from_secs(3600);
    let notes = &mut Vec::new();
    assert_eq!(collector.preview(hour, notes).unwrap().objects_removed, 0);
    assert_eq!(collector.collect(hour, WAIT, notes).unwrap().objects_removed, 0);
    assert_eq!(collector.preview(NOW, notes).unwrap().objects_removed, 1);
    assert_eq!(collector.collect(NOW, WAIT, notes).unwrap().objects_removed, 1);
    assert_eq!(collector.preview(NOW, notes).unwrap().objects_removed, 0);
    let objects = store.objects().unwrap();
    let all = [ObjectHash::of(kept.as_bytes()), named, unnamed];
    assert_eq!(objects.has(&all).unwrap(), [true, true, false]);
    assert_eq!(*notes, [""; 0]);
    check_whole(store, id);
}

#[test]
fn what_nothing_names_goes_and_the_rest_stays() {
    let Some(url) = database() else { return };
    removes_what_nothing_names(&store(&url, PostgresOptions::default()));
}

#[test]
fn what_nothing_names_goes_from_a_directory() {
    let Some(url) = database() else { return };
    let dir = tempfile::tempdir().unwrap();
    removes_what_nothing_names(&in_directory(&url, dir.path()));
}

#[test]
fn nothing_is_removed_while_somebody_stores() {
    let Some(url) = database() else { return };
    let (a, b) = (store(&url, PostgresOptions::default()), store(&url, PostgresOptions::default()));
    let old = put(&*a.objects().unwrap(), "old");
    let (_, writer) = new_session(&*a);
    let storing = a.objects().unwrap();
    // It is there, so it is not put again.
    assert_eq!(storing.has(&[old]).unwrap(), [true]);
    let busy = b.collector().collect(NOW, NOW, &mut Vec::new());
    assert!(matches!(busy, Err(CollectError::Busy)), "{busy:?}");
    let collecting = std::thread::spawn(move || b.collector().collect(NOW, WAIT, &mut Vec::new()));
    std::thread::sleep(Duration::from_millis(300));
    let append = writer.append(naming(old), Durability::Synced, AnomalyPolicy::Keep);
    append.unwrap().wait().unwrap();
    drop(storing);
    assert_eq!(collecting.join().unwrap().unwrap().objects_removed, 0);
    assert_eq!(a.objects().unwrap().has(&[old]).unwrap(), [true]);
    writer.close().unwrap();
}

#[test]
fn where_two_stores_keep_objects_none_are_removed() {
    let (Some(one), Some(other)) = (database(), database()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (in_directory(&one, dir.path()), in_directory(&other, dir.path()));
    put(&*a.objects().unwrap(), "of the one");
    assert_eq!(a.collector().collect(NOW, WAIT, &mut Vec::new()).unwrap().objects_removed, 1);
    let theirs = put(&*b.objects().unwrap(), "of the other");
    for store in [&a, &b] {
        let refused = store.collector().collect(NOW, WAIT, &mut Vec::new()).unwrap_err();
        let CollectError::Store(refused) = refused else { panic!("{refused:?}") };
        let why = std::error::Error::source(&refused).unwrap().to_string();
        assert!(
            why.starts_with("another store keeps its objects in the same place, as stores/"),
            "{why}"
        );
        store.eraser().erase_unnamed(WAIT).unwrap_err();
    }
    assert_eq!(b.objects().unwrap().has(&[theirs]).unwrap(), [true]);
}

/// A proxy in front of the server of this database, and the URL through it.
fn through_proxy(direct: &str) -> (CutProxy, ServerUrl) {
    let port = direct.rsplit_once(':').and_then(|(_, rest)| rest.split_once('/')).unwrap().0;
    let proxy = CutProxy::before(([127, 0, 0, 1], port.parse().unwrap()).into());
    let through = direct.replace(&format!(":{port}/"), &format!(":{}/", proxy.address().port()));
    let url = ServerUrl::parse(&format!("{through}?sslmode=disable")).unwrap();
    (proxy, url)
}

#[test]
fn who_lost_the_lock_before_a_collection_is_refused() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let direct = server.create_database();
    let near = store(&ServerUrl::parse(&direct).unwrap(), PostgresOptions::default());
    let (proxy, url) = through_proxy(&direct);
    let far = store(&url, PostgresOptions::default());
    let (id, writer) = new_session(&*far);
    say(&*writer, "before").unwrap();
    let storing = far.objects().unwrap();
    let first = put(&*storing, "first");
    proxy.cut_all();
    // No collection has run: it goes on.
    let second = put(&*storing, "second");
    for hash in [first, second] {
        let append = writer.append(naming(hash), Durability::Synced, AnomalyPolicy::Keep);
        append.unwrap().wait().unwrap();
    }
    let third = put(&*storing, "third");
    proxy.cut_all();
    std::thread::sleep(Duration::from_millis(200));
    let removed = near.collector().collect(NOW, WAIT, &mut Vec::new()).unwrap();
    assert_eq!(removed.objects_removed, 1, "the server has let go of the lock");
    let refused = writer
        .append(naming(third), Durability::Synced, AnomalyPolicy::Keep)
        .and_then(|ticket| ticket.wait().map(drop));
    let refused = format!("{:?}", refused.unwrap_err());
    assert!(refused.contains("objects were removed before the event that names them"), "{refused}");
    storing.has(&[third]).unwrap_err();
    drop((storing, writer));
    // It begins anew.
    let writer = far.write(id, WAIT).unwrap();
    let storing = far.objects().unwrap();
    assert_eq!(storing.has(&[third]).unwrap(), [false]);
    put(&*storing, "third");
    let append = writer.append(naming(third), Durability::Synced, AnomalyPolicy::Keep);
    append.unwrap().wait().unwrap();
    drop(storing);
    near.collector().collect(NOW, WAIT, &mut Vec::new()).unwrap();
    assert_eq!(near.objects().unwrap().has(&[first, second, third]).unwrap(), [true; 3]);
    writer.close().unwrap();
}

#[test]
fn what_another_process_has_stored_is_appended_only_under_its_mark() {
    let Some(url) = database() else { return };
    let open = || store(&url, PostgresOptions::default());
    let (holder, child, near) = (open(), open(), open());
    let (id, writer) = new_session(&*holder);
    let append = |hash| {
        let append = writer.append(naming(hash), Durability::Synced, AnomalyPolicy::Keep);
        append.and_then(|ticket| ticket.wait().map(drop))
    };
    let check = child.stored_check();
    assert!(check.cover().unwrap().is_none());
    let storing = child.objects().unwrap();
    let first = put(&*storing, "first");
    let cover = check.cover().unwrap().unwrap();
    drop(storing);
    let busy = near.collector().collect(NOW, NOW, &mut Vec::new());
    assert!(matches!(busy, Err(CollectError::Busy)), "it is kept until the answer: {busy:?}");
    let held = writer.hold_mark(&cover.mark()).unwrap();
    append(first).unwrap();
    drop((held, cover));
    let storing = child.objects().unwrap();
    let second = put(&*storing, "second");
    let mark = check.cover().unwrap().unwrap().mark();
    drop((storing, check, child));
    let removed = near.collector().collect(NOW, WAIT, &mut Vec::new()).unwrap();
    assert_eq!(removed.objects_removed, 1);
    let held = writer.hold_mark(&mark).unwrap();
    let refused = format!("{:?}", append(second).unwrap_err());
    assert!(refused.contains("objects were removed before the event that names them"), "{refused}");
    drop((held, writer));
    // Who has looked since knows it before anything is sent.
    let writer = holder.write(id, WAIT).unwrap();
    let storing = holder.objects().unwrap();
    assert_eq!(storing.has(&[first, second]).unwrap(), [true, false]);
    writer.hold_mark(&mark).unwrap_err();
    writer.close().unwrap();
}

#[test]
fn a_collection_gets_its_turn_among_threads_of_one_store() {
    let Some(url) = database() else { return };
    let one = store(&url, PostgresOptions::default());
    let near = store(&url, PostgresOptions::default());
    put(&*near.objects().unwrap(), "old");
    let stop = Arc::new(AtomicBool::new(false));
    let storing: Vec<_> = (0..6)
        .map(|number| {
            let (one, stop) = (one.clone(), stop.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let objects = one.objects().unwrap();
                    put(&*objects, &format!("of {number}"));
                    // Always some thread has a window open.
                    std::thread::sleep(Duration::from_millis(20 + 10 * number));
                }
            })
        })
        .collect();
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(1200));
        near.collector().collect(NOW, Duration::from_secs(20), &mut Vec::new()).unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    storing.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Objects in a directory; what is done when some are removed.
struct Watched<F>(RemoteObjects, F);

impl<F> std::fmt::Debug for Watched<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<F: Send + Sync> Objects for Watched<F> {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        self.0.has(hashes)
    }
    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        self.0.put_batch(batch)
    }
    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError> {
        self.0.put_like(objects)
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.0.sync()
    }
    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.read(hash)
    }
    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), StoreError> {
        self.0.read_many(hashes, each)
    }
    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError> {
        self.0.places(hashes)
    }
}

impl<F: Fn() -> Result<(), StoreError> + Send + Sync> CollectableObjects for Watched<F> {
    fn each_stored(&self, each: &mut dyn FnMut(StoredObject)) -> Result<(), StoreError> {
        self.0.each_stored(each)
    }
    fn remove(&self, hashes: &[ObjectHash], within: Duration) -> Result<(), StoreError> {
        (self.1)()?;
        self.0.remove(hashes, within)
    }
    fn remove_remains(&self) -> Result<(), StoreError> {
        self.0.remove_remains()
    }
    fn claim(&self, store: &str) -> Result<(), StoreError> {
        self.0.claim(store)
    }
    fn claimed_by(&self) -> Result<Vec<String>, StoreError> {
        self.0.claimed_by()
    }
    fn forget_known(&self) {
        self.0.forget_known();
    }
}

#[test]
fn what_may_still_be_removed_outside_the_database_is_not_stored_again() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let direct = server.create_database();
    let database = direct.rsplit('/').next().unwrap().split('?').next().unwrap();
    let sql = |sql: &str| server.try_sql(database, &format!("SET search_path = abide; {sql}"));
    let url = ServerUrl::parse(&direct).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let near = in_directory(&url, dir.path());
    let old = put(&*near.objects().unwrap(), "old");
    let objects = ObjectsUrl::parse(&format!("file://{}", dir.path().display())).unwrap();
    let objects = RemoteObjects::open(objects, &ObjectsOptions::default()).unwrap();
    // The request is on its way, and its answer never comes.
    let lost = Watched(objects, || {
        Err(StoreError::Storage {
            action: "remove",
            place: "there".to_owned(),
            source: Arc::new(std::io::Error::other("no answer")),
        })
    });
    let far =
        PostgresStore::open(&url, PostgresOptions::default()).unwrap().with_objects(Arc::new(lost));
    far.collector().collect(NOW, WAIT, &mut Vec::new()).unwrap_err();
    drop(far);
    let mut batch = ObjectBatch::default();
    batch.push(old, b"old");
    let refused = || {
        let objects = near.objects().unwrap();
        assert_eq!(objects.has(&[old]).unwrap(), [false]);
        let refused = format!("{:?}", objects.put_batch(&batch).unwrap_err());
        assert!(refused.contains("is being removed; try again"), "{refused}");
        put(&*objects, "another");
    };
    refused();
    // Who removes it once more does not know what becomes of the first request.
    assert_eq!(near.collector().collect(NOW, WAIT, &mut Vec::new()).unwrap().objects_removed, 2);
    refused();
    sql("UPDATE condemned SET since = now() - interval '1 hour'").unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    put(&*near.objects().unwrap(), "old");
    assert_eq!(near.collector().collect(NOW, WAIT, &mut Vec::new()).unwrap().objects_removed, 2);
    let left = sql("DO $$ BEGIN ASSERT (SELECT count(*) = 0 FROM condemned); END $$");
    left.unwrap();
}

#[test]
fn a_large_string_that_is_being_removed_is_recorded_in_its_line() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let direct = server.create_database();
    let database = direct.rsplit('/').next().unwrap().split('?').next().unwrap();
    let url = ServerUrl::parse(&direct).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let near = in_directory(&url, dir.path());
    let large = "large ".repeat(10_000);
    let hash = ObjectHash::of(large.as_bytes());
    let condemn = format!(
        "SET search_path = abide; INSERT INTO condemned (hash, mark)
            SELECT decode('{hash}', 'hex'), mark FROM collection"
    );
    server.try_sql(database, &condemn).unwrap();
    let (id, writer) = new_session(&near);
    say(&*writer, &large).unwrap();
    writer.close().unwrap();
    assert_eq!(near.objects().unwrap().read(hash).unwrap(), None);
    let events = near.read(id).unwrap().page(EventRange::ALL).unwrap().events;
    assert!(events.iter().any(|event| event.to_json().contains(&large)));
    near.verify(id).unwrap();
}

#[test]
fn known_objects_are_forgotten_when_some_are_removed() {
    let Some(url) = database() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (in_directory(&url, dir.path()), in_directory(&url, dir.path()));
    let old = put(&*a.objects().unwrap(), "old");
    assert_eq!(a.objects().unwrap().has(&[old]).unwrap(), [true]);
    assert_eq!(b.collector().collect(NOW, WAIT, &mut Vec::new()).unwrap().objects_removed, 1);
    assert_eq!(a.objects().unwrap().has(&[old]).unwrap(), [false]);
}

#[test]
fn an_older_program_that_still_runs_is_refused() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let url = server.create_database();
    let store = store(&ServerUrl::parse(&url).unwrap(), PostgresOptions::default());
    let (_, writer) = new_session(&*store);
    say(&*writer, "by this program").unwrap();
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let append = "SET search_path = abide; INSERT INTO event (sid, seq, sum, line)
        SELECT sid, seq + 100, sum, line FROM event";
    let refused = server.try_sql(database, append).unwrap_err();
    assert!(refused.contains("older than the tables of the store"), "{refused}");
    writer.close().unwrap();
}

fn go_on_beside_collections(stores: Vec<PostgresStore>, collector: &PostgresStore) {
    let stop = Arc::new(AtomicBool::new(false));
    let shared: Arc<Vec<String>> =
        Arc::new((0..4).map(|n| large(&format!("shared {n}"))).collect());
    let writers: Vec<_> = stores
        .into_iter()
        .enumerate()
        .map(|(number, store)| {
            let (stop, shared) = (stop.clone(), shared.clone());
            std::thread::spawn(move || {
                let mut random = Random::new(number as u64);
                let (mut ids, mut said) = (Vec::new(), 0_u64);
                while !stop.load(Ordering::Relaxed) {
                    let (id, writer) = new_session(&store);
                    for _ in 0..6 {
                        let text = match random.below(3) {
                            0 => large(&format!("{number} {said}")),
                            1 => shared[random.below(4) as usize].clone(),
                            _ => format!("{number} {said}"),
                        };
                        say(&*writer, &text).unwrap();
                        said += 1;
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    writer.close().unwrap();
                    // What only it named is named by nothing.
                    match random.below(2) {
                        0 => store.delete_session(id).unwrap(),
                        _ => ids.push(id),
                    }
                }
                (ids, said)
            })
        })
        .collect();
    let rounds = FaultRun::from_env().len(8, 60);
    let (mut removed, mut done, began) = (0, 0, Instant::now());
    // A busy machine has nothing to remove at first: no session was deleted yet.
    while done < rounds || (removed == 0 && began.elapsed() < Duration::from_secs(120)) {
        let collected = collector.collector().collect(NOW, WAIT, &mut Vec::new()).unwrap();
        (removed, done) = (removed + collected.objects_removed, done + 1);
        std::thread::sleep(Duration::from_millis(100));
    }
    stop.store(true, Ordering::Relaxed);
    let mut events = 0;
    for writer in writers {
        let (ids, said) = writer.join().unwrap();
        events += said;
        for id in ids {
            check_whole(collector, id);
        }
    }
    println!("{done} collections removed {removed} objects beside {events} events");
    assert!(removed > 0 && events > 0);
}

#[test]
fn twenty_writers_go_on_beside_collections() {
    let Some(url) = database() else { return };
    let collector = store(&url, PostgresOptions::default());
    let open = |_| PostgresStore::open(&url, PostgresOptions::default()).unwrap();
    go_on_beside_collections((0..20).map(open).collect(), &collector);
}

#[test]
fn twenty_writers_go_on_beside_collections_of_a_directory() {
    let Some(url) = database() else { return };
    let dir = tempfile::tempdir().unwrap();
    let open = || in_directory(&url, dir.path());
    go_on_beside_collections((0..20).map(|_| open()).collect(), &open());
}
