//! A run: a scripted agent on a simulated disk, and the oracle over what is left of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use abide_local::{
    Config, Environment, FillingPolicy, IndexProgressCallback, LocalOptions, LocalStore,
    LocalWriter, TranscriptPolicy, Upkeep,
};
use abide_model::{
    AnomalyPolicy, Durability, EventRange, Kind, NewEvent, NewSession, ReadFinding, SessionId,
    SessionRef, SessionWriter, Severity, Store, StoreError, Timestamp, WriterHolder,
};
use abide_testkit::{Random, SimDisk};

/// What the scripted agent does.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// One event, acknowledged.
    Append,
    /// Several events with one ticket.
    Batch(usize),
    /// Several tickets, waited on afterwards.
    Pipelined(usize),
    /// Acknowledged before it is synced.
    Buffered,
    /// An event whose payload goes to an object.
    Object,
    /// Close, and open again.
    Reopen,
    /// Seal what is no longer written.
    Seal,
    /// Seal all of it.
    SealWhole,
    /// From here on, writers seal when they close.
    SealOnClose,
    /// Go back to the middle of the session.
    Rewind,
}

/// The scripts, by name: between them every operation of the store.
pub fn scenarios() -> Vec<(&'static str, Vec<Step>)> {
    use Step::{
        Append, Batch, Buffered, Object, Pipelined, Reopen, Rewind, Seal, SealOnClose, SealWhole,
    };
    vec![
        ("append", vec![Append; 6]),
        ("batch", vec![Batch(4), Append, Batch(7), Batch(1)]),
        ("pipeline", vec![Pipelined(5), Pipelined(3), Append]),
        ("buffered", vec![Buffered, Append, Buffered, Buffered, Append, Buffered]),
        ("rotate", vec![Batch(5), Batch(5), Append, Batch(9), Append]),
        ("rotate buffered", vec![Buffered, Batch(5), Buffered, Buffered, Buffered, Append]),
        ("seal", vec![Batch(9), Batch(9), Batch(9), Reopen, Append, Seal, Append]),
        ("seal whole", vec![Batch(5), Buffered, SealWhole, Append, Buffered, SealWhole, Append]),
        ("seal on close", vec![SealOnClose, Batch(9), Append, Reopen, Batch(3), Reopen, Buffered]),
        ("object", vec![Object, Append, Object, Reopen, Object, Append]),
        ("snapshot", vec![Append, Reopen, Batch(3), Append, Reopen, Reopen, Append]),
        ("rewind", vec![Batch(4), Rewind, Append, Reopen, Append]),
        (
            "everything",
            vec![Object, Batch(6), Reopen, Buffered, Append, Seal, Pipelined(4), Reopen, Object],
        ),
    ]
}

const ROOT: &str = "/sim";

/// The options of a store on the simulated disk: nothing in them depends on the real world.
pub fn options(disk: &SimDisk, seed: u64) -> LocalOptions {
    let clock = Arc::new(AtomicI64::new(1_763_169_600_000));
    let random = std::sync::Mutex::new(Random::new(seed));
    LocalOptions {
        storage: Arc::new(disk.clone()),
        env: Environment {
            now: Arc::new(move || Timestamp::from_millis(clock.fetch_add(1, Ordering::Relaxed))),
            random: Arc::new(move |buffer| random.lock().unwrap().fill(buffer)),
            holder: WriterHolder {
                program: "sim".into(),
                host: "sim".into(),
                ..WriterHolder::default()
            },
            boot: None,
        },
        upkeep: Upkeep::ByHand,
        snapshot_every: 5,
        filling: filling(seed),
        progress: IndexProgressCallback::default(),
        child_of: None,
        projects: Vec::new(),
    }
}

/// Filling that few appends meet: none at first, or from the first commit on, in small steps.
fn filling(seed: u64) -> FillingPolicy {
    FillingPolicy { after: seed % 3, first: 100 << (seed % 5), most: 3000 }
}

/// With segments and objects so small that few events make several.
pub fn small(store: LocalStore) -> LocalStore {
    let mut config = Config::default();
    config.journal.segment_bytes = 1500;
    config.journal.object_bytes = 300;
    config.transcript = TranscriptPolicy::Live;
    store.with_config(config)
}

/// Opens the store on a disk.
pub fn open_store(disk: &SimDisk, seed: u64) -> Result<LocalStore, StoreError> {
    LocalStore::open(&store_path(), options(disk, seed)).map(small)
}

pub fn store_path() -> PathBuf {
    Path::new(ROOT).join(".abide")
}

/// A scripted agent at work.
pub struct Run {
    pub disk: SimDisk,
    store: LocalStore,
    pub id: SessionId,
    writer: Option<LocalWriter>,
    /// The data of each event, in the order in which they were sent.
    pub sent: Vec<String>,
    /// Which of them were acknowledged as durable.
    pub acknowledged: Vec<bool>,
    /// How many of the first were sent before the last one that was acknowledged as durable.
    durable: usize,
}

impl Run {
    /// A run on a fresh disk whose session exists.
    pub fn new(seed: u64) -> Self {
        let disk = SimDisk::new(Path::new(ROOT));
        let store = small(LocalStore::init(&store_path(), options(&disk, seed)).unwrap());
        let id = store.create(NewSession::titled("sim")).unwrap().id;
        Self {
            disk,
            store,
            id,
            writer: None,
            sent: Vec::new(),
            acknowledged: Vec::new(),
            durable: 0,
        }
    }

    fn event(&mut self, size: usize) -> NewEvent {
        let n = self.sent.len();
        let data = format!(r#"{{"n":{n},"text":"{}"}}"#, "x".repeat(size));
        self.sent.push(data.clone());
        self.acknowledged.push(false);
        self.tell();
        NewEvent::parse(&format!(r#"{{"kind":"x.sim","data":{data},"key":"k{n}"}}"#)).unwrap()
    }

    fn tell(&self) {
        self.disk.note(self.durable as u64, self.sent.len() as u64);
    }

    fn durable_now(&mut self, first: usize, count: usize) {
        for done in self.acknowledged.iter_mut().skip(first).take(count) {
            *done = true;
        }
        self.durable = self.durable.max(first + count);
        self.tell();
    }

    fn writer(&mut self) -> Result<&LocalWriter, StoreError> {
        if self.writer.is_none() {
            self.writer = Some(self.store.writer(self.id, Duration::ZERO)?);
        }
        Ok(self.writer.as_ref().unwrap())
    }

    fn append(
        &mut self,
        count: usize,
        size: usize,
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.writer()?;
        let first = self.sent.len();
        let events = (0..count).map(|n| self.event(size + n * 7)).collect();
        self.writer()?.append(events, durability, AnomalyPolicy::Keep)?.wait()?;
        if durability == Durability::Synced {
            self.durable_now(first, count);
        }
        Ok(())
    }

    /// Does a step. After an error the writer is given up, as an agent would.
    pub fn step(&mut self, step: Step) -> Result<(), StoreError> {
        let done = self.try_step(step);
        if done.is_err() {
            self.writer = None;
        }
        done
    }

    fn try_step(&mut self, step: Step) -> Result<(), StoreError> {
        match step {
            Step::Append => self.append(1, 40, Durability::Synced),
            Step::Batch(count) => self.append(count, 20, Durability::Synced),
            Step::Buffered => self.append(2, 30, Durability::Buffered),
            Step::Object => self.append(1, 900, Durability::Synced),
            Step::Pipelined(count) => {
                self.writer()?;
                let first = self.sent.len();
                let mut tickets = Vec::new();
                for _ in 0..count {
                    let event = self.event(25);
                    tickets.push(self.writer()?.append(
                        vec![event],
                        Durability::Synced,
                        AnomalyPolicy::Keep,
                    )?);
                }
                for (n, ticket) in tickets.into_iter().enumerate() {
                    ticket.wait()?;
                    self.durable_now(first + n, 1);
                }
                Ok(())
            }
            Step::Reopen => {
                if let Some(writer) = self.writer.take() {
                    writer.close()?;
                }
                self.writer().map(|_| ())
            }
            Step::Seal => {
                if let Some(writer) = self.writer.take() {
                    writer.close()?;
                }
                self.store.seal(self.id, Duration::ZERO).map(|_| ())
            }
            Step::SealWhole => {
                if let Some(writer) = self.writer.take() {
                    writer.close()?;
                }
                self.store.seal_whole(self.id, Duration::ZERO).map(|_| ())
            }
            Step::SealOnClose => {
                self.writer = None;
                let beside = LocalOptions { upkeep: Upkeep::Beside, ..options(&self.disk, 99) };
                self.store = small(LocalStore::open(&store_path(), beside)?);
                Ok(())
            }
            Step::Rewind => {
                let to = self.writer()?.state()?.core.seq.0 / 2;
                let event = format!(r#"{{"kind":"session.rewound","data":{{"to":{to}}}}}"#);
                let event = NewEvent::parse(&event).unwrap();
                self.writer()?
                    .append(vec![event], Durability::Synced, AnomalyPolicy::Keep)?
                    .wait()?;
                Ok(())
            }
        }
    }
}

/// What a reader finds.
pub struct Read {
    /// The data of the agent's events.
    pub data: Vec<String>,
    pub notes: Vec<ReadFinding>,
    pub events: u64,
}

/// Reads everything.
pub fn read(store: &LocalStore, id: SessionId) -> Result<Read, StoreError> {
    let reader = store.read(id)?;
    let mut read = Read { data: Vec::new(), notes: Vec::new(), events: 0 };
    let mut range = EventRange::ALL.limit(7);
    loop {
        let page = reader.page(range)?;
        read.events += page.events.len() as u64;
        read.notes.extend(page.notes);
        for event in page.events.into_iter().filter(|event| event.kind.as_str() == "x.sim") {
            let erased = || "erased".to_owned();
            read.data.push(event.data.map_or_else(erased, |data| data.as_str().to_owned()));
        }
        match page.next {
            Some(next) => range.first = next,
            None => return Ok(read),
        }
    }
}

fn damage(notes: &[ReadFinding]) -> Vec<&ReadFinding> {
    notes.iter().filter(|note| matches!(note, ReadFinding::Damage { .. })).collect()
}

/// The oracle after a power cut: a byte-equal prefix, last acknowledged ≤ end ≤ last sent; no
/// damage; the session goes on; a second recovery adds nothing but its `writer.opened`.
pub fn after_power_cut(
    disk: &SimDisk,
    id: SessionId,
    durable: u64,
    sent: &[String],
    seed: u64,
) -> Result<(), String> {
    let store =
        open_store(disk, seed).map_err(|error| format!("the store does not open: {error:?}"))?;
    let first = read(&store, id).map_err(|error| format!("not readable: {error:?}"))?;
    let found = first.data.len() as u64;
    if found < durable {
        return Err(format!(
            "lost: {durable} were acknowledged, {found} are there; {:?}",
            first.notes
        ));
    }
    if first.data.as_slice() != sent.get(..first.data.len()).unwrap_or_default() {
        return Err(format!("not a prefix of what was sent: {:?}", first.data));
    }
    if !damage(&first.notes).is_empty() {
        return Err(format!("a power cut is not damage: {:?}", first.notes));
    }
    go_on(&store, id, &first.data)?;
    Ok(())
}

/// Opens the session for writing, writes to it, opens it again; nothing is lost on the way.
pub fn go_on(store: &LocalStore, id: SessionId, before: &[String]) -> Result<(), String> {
    let writer = store
        .writer(id, Duration::ZERO)
        .map_err(|error| format!("does not open for writing: {error:?}"))?;
    let event = || NewEvent::parse(r#"{"kind":"x.after","data":{"recovered":true}}"#).unwrap();
    let state = writer.state().map_err(|error| format!("no state: {error:?}"))?;
    writer
        .append(vec![event()], Durability::Synced, AnomalyPolicy::Keep)
        .and_then(|ticket| ticket.wait())
        .map_err(|error| format!("cannot go on: {error:?}"))?;
    writer.close().map_err(|error| format!("does not close: {error:?}"))?;
    drop(writer);
    let again =
        read(store, id).map_err(|error| format!("not readable after recovery: {error:?}"))?;
    if again.data != before {
        return Err("recovery changed the events".to_owned());
    }
    if state.core.seq.0 == 0 {
        return Err("the state is empty".to_owned());
    }
    drop(
        store
            .writer(id, Duration::ZERO)
            .map_err(|error| format!("does not open again: {error:?}"))?,
    );
    let third = read(store, id).map_err(|error| format!("not readable: {error:?}"))?;
    if third.events != again.events {
        return Err("a second recovery added something".to_owned());
    }
    let reader = store.read(id).map_err(|error| format!("{error:?}"))?;
    let last =
        reader.page(EventRange::ALL.backward().limit(3)).map_err(|error| format!("{error:?}"))?;
    let kinds: Vec<&Kind> = last.events.iter().map(|event| &event.kind).collect();
    if kinds.first().map(|kind| kind.as_str()) != Some("writer.closed") {
        return Err(format!("ends with {kinds:?}"));
    }
    Ok(())
}

/// No findings but warnings.
pub fn healthy(store: &LocalStore, id: SessionId) -> Result<(), String> {
    let checked =
        store.doctor().examine(id).map_err(|error| format!("cannot be checked: {error:?}"))?;
    let bad: Vec<_> =
        checked.findings.iter().filter(|finding| finding.severity >= Severity::Error).collect();
    if bad.is_empty() { Ok(()) } else { Err(format!("{bad:?}")) }
}

/// Looks a session up by its id, as a newcomer would.
pub fn exists(store: &LocalStore, id: SessionId) -> bool {
    store.find(&SessionRef::Id(id)).is_ok()
}
