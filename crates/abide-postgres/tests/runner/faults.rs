//! The server is killed, and connections are cut: nothing acknowledged is lost, doubled or out of
//! order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use abide_model::{EventRange, Fact, MessageContent, Seq, SessionId, Store};
use abide_postgres::{PostgresOptions, PostgresStore, ServerUrl};
use abide_testkit::{
    CutProxy, Direction, FaultRun, FaultSize, Fsync, PostgresSettings, PrivatePostgres, Random,
};

use crate::support::{new_session, say, store};

/// Sessions that are written to, and what was acknowledged of each.
struct Writers {
    stop: Arc<AtomicBool>,
    said: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<(SessionId, Vec<String>)>>,
}

impl Writers {
    fn start(store: &Arc<PostgresStore>, count: usize) -> Self {
        let (stop, said) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..count)
            .map(|number| {
                let (store, stop, said) = (store.clone(), stop.clone(), said.clone());
                std::thread::spawn(move || write(&store, number, &stop, &said))
            })
            .collect();
        Self { stop, said, threads }
    }

    /// Waits until so many more were acknowledged, or one of them has failed.
    fn go_on(&self, more: u64) {
        let until = self.said.load(Ordering::Relaxed) + more;
        while self.said.load(Ordering::Relaxed) < until && !self.failed() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn failed(&self) -> bool {
        self.threads.iter().any(|thread| thread.is_finished())
    }

    fn end(self) -> Vec<(SessionId, Vec<String>)> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

fn write(
    store: &PostgresStore,
    number: usize,
    stop: &AtomicBool,
    said: &AtomicU64,
) -> (SessionId, Vec<String>) {
    let (id, writer) = new_session(store);
    let mut acknowledged = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let text = format!("{number}/{}", acknowledged.len());
        // Patience is long: every append comes through in the end.
        say(&*writer, &text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        acknowledged.push(text);
        said.fetch_add(1, Ordering::Relaxed);
    }
    writer.close().unwrap();
    (id, acknowledged)
}

/// Every session holds what was acknowledged, once, in order, in an unbroken chain.
fn check(store: &PostgresStore, sessions: &[(SessionId, Vec<String>)]) -> usize {
    let mut events = 0;
    for (id, acknowledged) in sessions {
        let reader = store.read(*id).unwrap();
        let (mut range, mut seen, mut next) = (EventRange::ALL, Vec::new(), Seq::FIRST);
        loop {
            let page = reader.page(range).unwrap();
            assert_eq!(page.notes, []);
            for event in &page.events {
                assert_eq!(event.seq, next, "no gap and nothing twice");
                next = next.next();
                if let Ok(Fact::Message(message)) = event.fact() {
                    match message.content {
                        MessageContent::Text(text) => seen.push(text),
                        other => panic!("{other:?}"),
                    }
                }
            }
            match page.next {
                Some(first) => range.first = first,
                None => break,
            }
        }
        assert_eq!(&seen, acknowledged);
        store.verify(*id).unwrap();
        events += seen.len();
    }
    events
}

fn patient() -> PostgresOptions {
    PostgresOptions {
        patience: Duration::from_secs(300),
        answer: Duration::from_secs(5),
        ..PostgresOptions::default()
    }
}

fn writers() -> usize {
    if FaultRun::from_env().size() == FaultSize::Small { 8 } else { 32 }
}

#[test]
fn a_server_that_is_killed_loses_nothing() {
    let settings = PostgresSettings { fsync: Fsync::On, ..PostgresSettings::default() };
    let server = match PrivatePostgres::start(settings) {
        Ok(server) => server,
        Err(error) => return println!("skipped: {error}"),
    };
    let url = ServerUrl::parse(&server.create_database()).unwrap();
    let store = store(&url, patient());
    let writers = Writers::start(&store, writers());
    let mut random = Random::new(7 + FaultRun::from_env().seed());
    let kills = FaultRun::from_env().len(3, 20);
    for _ in 0..kills {
        writers.go_on(random.below(600));
        server.kill();
        server.restart();
    }
    writers.go_on(200);
    let sessions = writers.end();
    let events = check(&store, &sessions);
    println!("{kills} kills, {} sessions, {events} acknowledged messages", sessions.len());
}

#[test]
fn a_connection_that_is_cut_loses_nothing() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let direct = server.create_database();
    let plain = ServerUrl::parse(&direct).unwrap();
    let port = direct.rsplit_once(':').and_then(|(_, rest)| rest.split_once('/')).unwrap().0;
    let address = ([127, 0, 0, 1], port.parse().unwrap()).into();
    let proxy = CutProxy::before(address);
    let through = direct.replace(&format!(":{port}/"), &format!(":{}/", proxy.address().port()));
    let url = ServerUrl::parse(&format!("{through}?sslmode=disable")).unwrap();
    drop(store(&plain, PostgresOptions::default()));
    let store = store(&url, patient());
    let writers = Writers::start(&store, writers());
    let mut random = Random::new(11 + FaultRun::from_env().seed());
    let cuts = FaultRun::from_env().len(40, 300);
    for _ in 0..cuts {
        let before = proxy.cuts();
        let direction =
            if random.below(2) == 0 { Direction::ToServer } else { Direction::ToClient };
        proxy.cut_after(random.below(20_000), direction);
        while proxy.cuts() == before && !writers.failed() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    writers.go_on(200);
    let sessions = writers.end();
    let events = check(&store, &sessions);
    println!("{cuts} cuts, {} sessions, {events} acknowledged messages", sessions.len());
}
