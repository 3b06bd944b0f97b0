//! Segments are sealed on close, by whoever opens the session later, and by a cleanup; and nothing
//! is lost by it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use abide_local::{Config, Environment, LocalOptions, LocalStore, SealOutcome, Upkeep};
use abide_model::{
    AnomalyPolicy, Durability, EventRange, NewEvent, NewSession, SessionId, SessionWriter, Store,
    Timestamp,
};
use abide_testkit::Random;

use crate::run::healthy;

const NOW: Duration = Duration::ZERO;
const DAY: i64 = 86_400_000;

struct Fixture {
    dir: tempfile::TempDir,
    store: LocalStore,
    id: SessionId,
    ahead: Arc<AtomicI64>,
}

/// A store whose clock can be put ahead of the disk's.
fn open(dir: &tempfile::TempDir, upkeep: Upkeep, ahead: &Arc<AtomicI64>) -> LocalStore {
    let ahead = ahead.clone();
    let now = move || {
        let real = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let real = i64::try_from(real.as_millis()).unwrap();
        Timestamp::from_millis(real + ahead.load(Ordering::Relaxed))
    };
    let env = Environment { now: Arc::new(now), ..Environment::default() };
    let options = LocalOptions { upkeep, env, ..LocalOptions::default() };
    let mut config = Config::default();
    config.journal.segment_bytes = 32 << 10;
    LocalStore::init(&dir.path().join(".abide"), options).unwrap().with_config(config)
}

impl Fixture {
    fn new(upkeep: Upkeep) -> Self {
        let (dir, ahead) = (tempfile::tempdir().unwrap(), Arc::default());
        let store = open(&dir, upkeep, &ahead);
        let id = store.create(NewSession::titled("a session")).unwrap().id;
        Self { dir, store, id, ahead }
    }

    fn again(&self, upkeep: Upkeep) -> LocalStore {
        open(&self.dir, upkeep, &self.ahead)
    }

    fn journal(&self) -> PathBuf {
        self.store.session_dir(self.id).unwrap().join("journal")
    }

    /// The names of the segments' files.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.journal()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn texts(&self) -> Vec<String> {
        let page = self.store.read(self.id).unwrap().page(EventRange::ALL).unwrap();
        assert_eq!(page.notes, []);
        let said = page.events.into_iter().filter(|event| event.kind.as_str() == "x.said");
        said.map(|event| event.data.unwrap().as_str().to_owned()).collect()
    }
}

fn said(text: &str) -> NewEvent {
    NewEvent::parse(&format!(r#"{{"kind":"x.said","data":{{"text":"{text}"}}}}"#)).unwrap()
}

fn say(writer: &dyn SessionWriter, count: usize, bytes: usize) {
    let mut random = Random::new(count as u64);
    for _ in 0..count {
        let text: String = (0..bytes).map(|_| char::from(b'a' + random.index(26) as u8)).collect();
        let ticket = writer.append(vec![said(&text)], Durability::Synced, AnomalyPolicy::Keep);
        ticket.unwrap().wait().unwrap();
    }
}

#[test]
fn a_writer_that_closes_seals_what_it_leaves() {
    let fixture = Fixture::new(Upkeep::Beside);
    let writer = fixture.store.writer(fixture.id, NOW).unwrap();
    // Never idle, as a pipe.
    say(&writer, 100, 1000);
    writer.close().unwrap();
    drop(writer);
    let sealed = fixture.files();
    assert!(sealed.len() > 3, "{sealed:?}");
    assert!(sealed.iter().all(|name| name.ends_with(".jsonl.zst")), "{sealed:?}");
    let before = fixture.texts();
    assert_eq!(before.len(), 100);
    healthy(&fixture.store, fixture.id).unwrap();

    // What comes next goes to a new segment, and a small one stays plain.
    for round in 1..=2 {
        let writer = fixture.store.writer(fixture.id, NOW).unwrap();
        assert_eq!(writer.state().unwrap().core.seq.0 as usize, 100 + 1 + 2 * round + (round - 1));
        say(&writer, 1, 10);
        drop(writer);
        let plain: Vec<String> =
            fixture.files().into_iter().filter(|name| name.ends_with(".jsonl")).collect();
        assert_eq!(plain, [format!("{:08}.jsonl", sealed.len() + 1)]);
    }
    assert_eq!(fixture.texts()[..100], before);
    assert_eq!(fixture.texts().len(), 102);
    healthy(&fixture.store, fixture.id).unwrap();
}

#[test]
fn what_a_killed_writer_left_plain_is_sealed_by_the_next() {
    let fixture = Fixture::new(Upkeep::ByHand);
    let writer = fixture.store.writer(fixture.id, NOW).unwrap();
    say(&writer, 100, 1000);
    writer.close().unwrap();
    drop(writer);
    assert!(fixture.files().iter().all(|name| name.ends_with(".jsonl")));
    let before = fixture.texts();
    let store = fixture.again(Upkeep::Beside);
    let writer = store.writer(fixture.id, NOW).unwrap();
    say(&writer, 1, 10);
    drop(writer);
    let plain = fixture.files().into_iter().filter(|name| name.ends_with(".jsonl")).count();
    assert!(plain <= 1, "{:?}", fixture.files());
    assert_eq!(fixture.texts()[..100], before);
    healthy(&store, fixture.id).unwrap();
}

#[test]
fn a_cleanup_seals_full_segments_and_what_was_not_written_for_a_day() {
    let fixture = Fixture::new(Upkeep::ByHand);
    let store = &fixture.store;
    let held = store.create(NewSession::titled("in use")).unwrap().id;
    for id in [fixture.id, held] {
        let writer = store.writer(id, NOW).unwrap();
        say(&writer, 50, 1000);
    }
    let segments = fixture.files().len();
    let before = fixture.texts();
    let writer = store.writer(held, NOW).unwrap();
    let clean = || {
        let rules = store.cleaner().rules();
        let plan = store.cleaner().plan(&rules).unwrap();
        assert!(plan.is_empty());
        let cleaned = store.cleaner().apply(&plan, &rules).unwrap();
        assert_eq!(cleaned.notes, [""; 0]);
        assert_eq!(cleaned.sealed.segments, plan.unsealed.segments);
        assert_eq!(cleaned.sealed.plain_bytes, plan.unsealed.bytes);
        cleaned.sealed
    };
    let plain = |name: &String| name.ends_with(".jsonl");
    assert_eq!(clean().segments as usize, segments - 1);
    assert_eq!(fixture.files().iter().filter(|name| plain(name)).count(), 1);
    assert_eq!(clean(), SealOutcome::default());
    fixture.ahead.store(DAY + 1000, Ordering::Relaxed);
    assert_eq!(clean().segments, 1);
    assert!(!fixture.files().iter().any(plain), "{:?}", fixture.files());
    assert_eq!(fixture.texts(), before);
    // The one in use was left to its writer.
    let dir = store.session_dir(held).unwrap().join("journal");
    assert!(
        fs::read_dir(dir).unwrap().all(|file| file.unwrap().path().extension().unwrap() == "jsonl")
    );
    drop(writer);
    assert!(clean().segments > 1);
    healthy(store, held).unwrap();
    healthy(store, fixture.id).unwrap();
}

#[test]
fn once_a_day_whoever_writes_seals_what_others_left() {
    let fixture = Fixture::new(Upkeep::ByHand);
    let store = &fixture.store;
    let writer = store.writer(fixture.id, NOW).unwrap();
    say(&writer, 20, 1000);
    drop(writer);
    let about = store.create(NewSession::titled("about")).unwrap().id;
    let plain = || fixture.files().iter().filter(|name| name.ends_with(".jsonl")).count();
    fixture.ahead.store(DAY / 2, Ordering::Relaxed);
    store.cleaner().clean_up_daily(about).unwrap();
    assert_eq!(plain(), 1, "written half a day ago");
    fixture.ahead.store(DAY + 1000, Ordering::Relaxed);
    store.cleaner().clean_up_daily(about).unwrap();
    assert_eq!(plain(), 1, "done half a day ago");
    fixture.ahead.store(2 * DAY, Ordering::Relaxed);
    store.cleaner().clean_up_daily(fixture.id).unwrap();
    assert_eq!(plain(), 1, "about to be written");
    fixture.ahead.store(3 * DAY, Ordering::Relaxed);
    store.cleaner().clean_up_daily(about).unwrap();
    assert_eq!(plain(), 0);
    assert_eq!(fixture.texts().len(), 20);
}

/// What befalls the file of a sealed segment, at so many eighths of it.
#[derive(Clone, Copy, Debug)]
enum SealHarm {
    Flipped(usize),
    Cut(usize),
}

/// Damage to a sealed end, and neither a watermark nor a state that would tell what was there.
#[test]
fn a_damaged_end_of_a_sealed_session_is_damage_and_the_session_goes_on() {
    for harm in (0..=8).map(SealHarm::Cut).chain([SealHarm::Flipped(4), SealHarm::Flipped(8)]) {
        let fixture = Fixture::new(Upkeep::ByHand);
        let store = &fixture.store;
        let (path, mut bytes) = sealed_end(&fixture);
        let last = bytes.len() - 1;
        match harm {
            SealHarm::Flipped(eighths) => bytes[last * eighths / 8] ^= 0x55,
            SealHarm::Cut(eighths) => bytes.truncate(last * eighths / 8),
        }
        fs::write(&path, bytes).unwrap();
        let dir = store.session_dir(fixture.id).unwrap();
        fs::remove_file(dir.join("watermark")).unwrap();
        fs::remove_dir_all(dir.join("state")).unwrap();
        let page = store.read(fixture.id).unwrap().page(EventRange::ALL).unwrap();
        let told = |note| matches!(note, abide_model::ReadFinding::Damage { .. });
        assert!(page.notes.into_iter().any(told), "{harm:?}: {} events", page.events.len());
        let writer = store.writer(fixture.id, NOW).unwrap();
        say(&writer, 1, 10);
        drop(writer);
        assert_eq!(fixture.files(), ["00000001.jsonl.zst", "00000002.jsonl"], "{harm:?}");
    }
}

/// A session of one sealed segment: its path and its bytes.
fn sealed_end(fixture: &Fixture) -> (PathBuf, Vec<u8>) {
    let writer = fixture.store.writer(fixture.id, NOW).unwrap();
    say(&writer, 20, 1000);
    drop(writer);
    fixture.store.seal_whole(fixture.id, NOW).unwrap();
    let path = fixture.journal().join("00000001.jsonl.zst");
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

/// Words with Zipf frequencies, none of the messages like another.
fn prose(random: &mut Random, words: &[String]) -> String {
    let mut text = String::new();
    while text.len() < 1024 {
        let uniform = random.index(1 << 20) as f64 / f64::from(1 << 20);
        let rank = (words.len() as f64).powf(uniform) as usize - 1;
        text.push_str(&words[rank]);
        text.push_str(if random.index(9) == 0 { ".\\n" } else { " " });
    }
    text
}

/// The room that a closed session of ordinary text takes: everything in its directory.
#[test]
fn a_closed_session_takes_less_than_half_its_text() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::init(&dir.path().join(".abide"), LocalOptions::default()).unwrap();
    let id = store.create(NewSession::titled("room")).unwrap().id;
    let mut random = Random::new(11);
    let words: Vec<String> = (0..4_000_u32)
        .map(|rank| {
            let letters = 2 + rank.max(1).ilog2() / 3 + random.index(3) as u32;
            let letter = |_| char::from(b"etaoinshrdlucmfwypvbgk"[random.index(22)]);
            (0..letters).map(letter).collect()
        })
        .collect();
    let writer = store.writer(id, NOW).unwrap();
    let mut text = 0;
    for _ in 0..100 {
        let message = |_| {
            let prose = prose(&mut random, &words);
            text += prose.len();
            let json = format!(
                r#"{{"kind":"message.added","data":{{"role":"assistant","content":"{prose}"}}}}"#
            );
            NewEvent::parse(&json).unwrap()
        };
        let events = (0..100).map(message).collect();
        writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    }
    writer.close().unwrap();
    drop(writer);
    // A close takes a second at most; on a busy machine that may not be enough.
    store.seal_whole(id, NOW).unwrap();
    let session = store.session_dir(id).unwrap();
    let mut room = 0;
    let mut dirs = vec![session];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let bytes = fs::metadata(&path).unwrap().len();
                println!("{bytes:>9} {}", path.file_name().unwrap().display());
                room += bytes;
            }
        }
    }
    println!("{room} bytes for {text} bytes of text: {:.3}", room as f64 / text as f64);
    assert!(room * 100 <= text as u64 * 45, "{room} bytes for {text} bytes of text");
}
