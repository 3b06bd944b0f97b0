//! The index: making it, keeping it current, asking it.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use abide::{
    EventRange, HistoryQuery, LocalOptions, LocalStore, Message, NewSession, SessionId, SessionRef,
    Store, history::Search, maintenance::Upkeep,
};
use abide_index::HistoryIndex;
use abide_journal::{Access, Disk, LockMode, Storage, StorageFile, StorageLock};
use abide_model::HistoryDelta;
use abide_model::Overview;

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::millis;
use crate::figure::{Better, Figure, Target, median, rounded};
use crate::fixture::{Place, fill_from};

/// A million messages in a thousand sessions: the index made, caught up and searched.
pub(crate) fn search(bench: &Bench) -> Outcome {
    let dir = bench.fresh()?;
    let place = Place::of(dir.path(), Upkeep::ByHand)?;
    let sessions = bench.scale.of(1000);
    let each = 1000;
    let text = bench.text();
    let mut ids = Vec::new();
    for number in 0..sessions {
        let session = place.session()?;
        fill_from(&session, text, number * each, each)?;
        ids.push(session.id());
        session.close()?;
    }
    let messages = (sessions * each) as f64;
    let text_bytes: usize = (0..sessions * each).map(|index| text.piece(index).len()).sum();
    let root = dir.path().join(".abide");
    let local = LocalStore::open(&root, LocalOptions::default())?;

    let mut rebuild =
        Figure::new("history.rebuild", "messages/s", Better::Higher, Target::AtLeast(30_000.0));
    for _ in 0..bench.rounds.min(2) {
        let _ = std::fs::remove_file(root.join("index.db"));
        let start = Instant::now();
        local.index().update()?;
        rebuild.push(messages / start.elapsed().as_secs_f64());
    }
    rebuild.note("messages", messages);
    rebuild.note("text", text.describe());
    bench.report(&rebuild)?;

    let mut size = Figure::new("history.size", "bytes/byte", Better::Lower, Target::AtMost(0.6));
    let index_bytes = std::fs::metadata(root.join("index.db"))?.len();
    size.push(index_bytes as f64 / text_bytes as f64);
    size.note("index_bytes", index_bytes);
    size.note("text_bytes", text_bytes);
    bench.report(&size)?;

    ask(bench, &local)?;
    // Sealed as an idle writer would have sealed them.
    for id in &ids {
        place.seal(*id)?;
    }
    catch_up(bench, &place, &root, sessions)
}

/// Searches of all sorts, each with the number of its sort: a word, two words, a prefix, a phrase.
pub(crate) fn queries(bench: &Bench) -> Vec<(usize, String)> {
    let text = bench.text();
    // Words by how often they stand in a sample.
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for index in 0..2000 {
        for word in text.piece(index * 37).split(|c: char| !c.is_ascii_alphanumeric()) {
            if word.len() > 2 {
                *counts.entry(word).or_default() += 1;
            }
        }
    }
    let mut words: Vec<(&str, u32)> = counts.into_iter().collect();
    words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    // From the most frequent to those that stand once, evenly in the logarithm of the rank.
    let count = bench.scale.of(400).max(60);
    let pick = |step: usize| {
        let rank = (words.len() as f64).powf(step as f64 / count as f64) as usize - 1;
        words[rank.min(words.len() - 1)].0
    };
    (0..count)
        .map(|step| match step % 5 {
            0 | 1 => (0, pick(step).to_owned()),
            2 => (1, format!("{} {}", pick(step), pick(count - step))),
            3 => (2, format!("{}*", &pick(step)[..3])),
            _ => {
                let piece = text.piece(step * 101);
                let words: Vec<&str> = piece
                    .split(|c: char| !c.is_ascii_alphanumeric())
                    .filter(|word| word.len() > 2)
                    .skip(20)
                    .take(3)
                    .collect();
                (3, format!("\"{}\"", words.join(" ")))
            }
        })
        .collect()
}

/// Those searches, one after the other.
fn ask(bench: &Bench, local: &LocalStore) -> Outcome {
    let names = ["word", "two words", "prefix", "phrase"];
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
    let mut hits = 0;
    for (sort, query) in queries(bench) {
        let Ok(search) = Search::parse(&query) else { continue };
        let query =
            HistoryQuery { search: Some(search), limit: Some(20), ..HistoryQuery::default() };
        let start = Instant::now();
        let found = local.index().history(&query)?;
        times[sort].push(millis(start.elapsed()));
        hits += usize::from(!found.entries.is_empty());
    }
    let mut all: Vec<f64> = times.concat();
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
    let mut half = Figure::new("history.search.p50", "ms", Better::Lower, Target::AtMost(20.0));
    half.push(at(0.5));
    half.note("queries", all.len());
    half.note("found_something", hits);
    for (name, times) in names.iter().zip(&times) {
        half.note(&format!("median, {name}"), rounded(median(times)));
    }
    bench.report(&half)?;
    let mut most = Figure::new("history.search.p99", "ms", Better::Lower, Target::AtMost(100.0));
    most.push(at(0.99));
    most.note("slowest", rounded(at(1.0)));
    bench.report(&most)
}

/// New messages in some sessions, brought to the index: against the same rows put into the same
/// index from memory.
fn catch_up(bench: &Bench, place: &Place, root: &Path, sessions: usize) -> Outcome {
    let mut figure = Figure::new("history.catch_up", "ms", Better::Lower, Target::RatioAtMost(1.5));
    let text = bench.text();
    let (changed, each) = (sessions.min(50), 200);
    let all = place.store.sessions()?;
    for round in 0..bench.rounds {
        let mut deltas = Vec::new();
        for session in all.iter().take(changed) {
            let open = place.open(session.id)?;
            fill_from(&open, text, round * each, each)?;
            open.close()?;
            deltas.push(delta(place, session.id)?);
        }
        let copy = bench.fresh()?;
        let path = copy.path().join("index.db");
        std::fs::copy(root.join("index.db"), &path)?;
        if root.join("index.db-wal").exists() {
            std::fs::copy(root.join("index.db-wal"), copy.path().join("index.db-wal"))?;
        }
        let mut index = HistoryIndex::open(&path)?;
        let start = Instant::now();
        let mut update = index.update()?;
        for delta in &deltas {
            update.put(delta, "there")?;
        }
        update.commit()?;
        let raw = millis(start.elapsed());
        let local = LocalStore::open(root, LocalOptions::default())?;
        let start = Instant::now();
        local.index().update()?;
        figure.push_with_raw(millis(start.elapsed()), raw);
    }
    figure.note("raw", "the same rows put into a copy of the index from memory");
    figure.note("messages", changed * each);
    bench.report(&figure)
}

/// The last messages of a session as the index takes them.
fn delta(place: &Place, id: SessionId) -> Outcome<HistoryDelta> {
    let view = place.store.view(&SessionRef::Id(id))?;
    let name = format!("copy of {id}");
    let mut delta = HistoryDelta::new(&name, Overview::default());
    let events = view.page(EventRange::ALL.backward().limit(202))?.events;
    for event in events.iter().rev() {
        delta.take_in(event);
    }
    Ok(delta)
}

/// `abide history`, from its start to its end, on stores of many small sessions.
pub(crate) fn start(bench: &Bench) -> Outcome {
    if !bench.abide.is_file() {
        bench.skip("history.start", "no abide binary beside this program");
        return Ok(());
    }
    for (sessions, most) in [(1000, 15.0), (100_000, 30.0)] {
        let sessions = bench.scale.of(sessions);
        let dir = bench.fresh()?;
        let root = dir.path().join(".abide");
        {
            // Only how the sessions came about is hurried; what is measured is not.
            let options = LocalOptions {
                storage: Arc::new(Hasty),
                upkeep: Upkeep::ByHand,
                ..LocalOptions::default()
            };
            let store = Store::over(Arc::new(LocalStore::init(&root, options)?));
            for number in 0..sessions {
                let session = store.create(NewSession::titled(format!("Session {number}")))?;
                let text: String = bench.text().piece(number).chars().take(200).collect();
                session.append(Message::user(text))?.wait()?;
                session.close()?;
            }
        }
        LocalStore::open(&root, LocalOptions::default())?.index().update()?;
        let name = format!("history.start.{sessions}");
        let mut figure = Figure::new(name, "ms", Better::Lower, Target::AtMost(most));
        for _ in 0..bench.rounds {
            let (mut ours, mut raws) = (Vec::new(), Vec::new());
            for _ in 0..20 {
                raws.push(timed(Command::new("true"))?);
                let mut command = Command::new(&bench.abide);
                command.arg("history").current_dir(dir.path());
                ours.push(timed(command)?);
            }
            figure.push_with_raw(median(&ours), median(&raws));
        }
        figure.note("raw", "a process that does nothing");
        let session = Store::open(dir.path())?.open_session(&SessionRef::Latest)?;
        session.append(Message::user("news"))?.wait()?;
        session.close()?;
        let mut command = Command::new(&bench.abide);
        command.arg("history").current_dir(dir.path());
        figure.note("after a session has grown", rounded(timed(command)?));
        Store::open(dir.path())?.create(NewSession::titled("new"))?.close()?;
        let mut command = Command::new(&bench.abide);
        command.arg("history").current_dir(dir.path());
        figure.note("after a session was made", rounded(timed(command)?));
        figure.note("index_bytes", bytes_of(&root.join("index.db"))?);
        bench.report(&figure)?;
    }
    Ok(())
}

fn bytes_of(path: &Path) -> Outcome<u64> {
    Ok(std::fs::metadata(path)?.len())
}

pub(crate) fn timed(mut command: Command) -> Outcome<f64> {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("{command:?} ended with {status}").into());
    }
    Ok(millis(start.elapsed()))
}

/// The disk, without waiting for it.
#[derive(Debug)]
pub(crate) struct Hasty;

#[derive(Debug)]
struct HastyFile(Arc<dyn StorageFile>);

impl Storage for Hasty {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(HastyFile(Disk.open(path, access)?)))
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Disk.list(dir)
    }
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.make_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }
    fn modified(&self, path: &Path) -> io::Result<std::time::SystemTime> {
        Disk.modified(path)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        Disk.free_bytes(dir)
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Option<Box<dyn StorageLock>>> {
        Disk.lock(path, mode)
    }
}

impl StorageFile for HastyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(buf, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn overwrites_in_place(&self) -> bool {
        false
    }
}
