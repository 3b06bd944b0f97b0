//! Damage from outside: cut bytes, flipped bits, zeroed, overwritten and misplaced sectors.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_journal::{
    JournalItem, JournalLine, JournalWalkStart, Salt, SegmentDamageReason, SegmentHeader,
};
use abide_local::LocalStore;
use abide_model::{
    AnomalyPolicy, Durability, EventRange, NewEvent, NewSession, ReadFinding, Seq, SessionId,
    SessionWriter, Store, Timestamp,
};
use abide_testkit::{FaultRun, Moment, Random, SimDisk};

use crate::run::{Run, Step, open_store, options, small, store_path};

/// A session, its journal's only segment, and where its lines are.
struct Subject {
    moment: Moment,
    id: SessionId,
    path: PathBuf,
    bytes: Vec<u8>,
    /// Where each event's line is, its line break included.
    lines: Vec<Range<usize>>,
    /// The seq of each of them.
    seqs: Vec<u64>,
    events: Vec<String>,
    /// The header of the segment.
    header: Range<usize>,
}

impl Subject {
    /// The segment of a run that holds the most events.
    fn new(steps: &[Step]) -> Self {
        let mut run = Run::new(11);
        for step in steps {
            run.step(*step).unwrap();
        }
        let id = run.id;
        let disk = run.disk.clone();
        drop(run);
        let segments = disk
            .files()
            .into_iter()
            .filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
        let path = segments.max_by_key(|path| disk.bytes(path).unwrap().len()).unwrap();
        let bytes = disk.bytes(&path).unwrap();
        let moment = disk.take_history().pop().unwrap();
        let mut lines = Vec::new();
        let mut start = 0;
        for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            lines.push(start..at + 1);
            start = at + 1;
        }
        let header = lines.remove(0);
        let seqs = seqs(&bytes, &lines);
        let mut subject = Self { moment, id, path, bytes, lines, seqs, events: Vec::new(), header };
        let (events, notes) = subject.read(&SimDisk::at(&subject.moment));
        assert_eq!(notes, []);
        subject.events = events;
        subject
    }

    fn read(&self, disk: &SimDisk) -> (Vec<String>, Vec<ReadFinding>) {
        let store = open_store(disk, 12).unwrap();
        let reader = store.read(self.id).unwrap();
        let page = reader.page(EventRange::ALL).unwrap();
        (page.events.iter().map(abide_model::Event::to_json).collect(), page.notes)
    }

    fn has_one_segment(&self) -> bool {
        let files = SimDisk::at(&self.moment).files();
        files.iter().filter(|path| path.extension().is_some_and(|end| end == "jsonl")).count() == 1
    }

    /// Reads the damaged journal. Every event whose line was not touched must be there, byte for
    /// byte; what is missing must be reported; nothing else may be there.
    fn check(&self, damaged: Vec<u8>, touched: &Range<usize>, what: &str) {
        let disk = SimDisk::at(&self.moment);
        disk.set_bytes(&self.path, damaged);
        let (found, notes) = self.read(&disk);
        let hit = |event: &str| {
            let seq: u64 = event["{\"seq\":".len()..].split(',').next().unwrap().parse().unwrap();
            self.seqs.iter().position(|other| *other == seq).is_some_and(|line| {
                let line = &self.lines[line];
                // The line break belongs to nobody: it costs no line.
                line.start < touched.end && touched.start < line.end - 1
            })
        };
        let mut left = found.iter().peekable();
        let mut missing = Vec::new();
        for event in &self.events {
            if left.peek() == Some(&event) {
                left.next();
            } else {
                assert!(hit(event), "{what}: an untouched event is gone: {event}\n{notes:?}");
                missing.push(event);
            }
        }
        assert_eq!(left.next(), None, "{what}: an event that was never written");
        // The last one, `writer.closed`, was not synced: nobody can tell that it was there.
        missing.retain(|event| Some(*event) != self.events.last());
        assert!(
            missing.is_empty() || !notes.is_empty(),
            "{what}: {missing:?} is gone without a word: {notes:?}"
        );
    }

    /// Opens the damaged session for writing: it goes on, and what could be read still can be.
    fn goes_on(&self, damaged: Vec<u8>, what: &str) {
        let disk = SimDisk::at(&self.moment);
        disk.set_bytes(&self.path, damaged);
        let (before, _) = self.read(&disk);
        let store = open_store(&disk, 13).unwrap();
        let own = |events: &[String]| -> Vec<String> {
            events.iter().filter(|event| event.contains("x.sim")).cloned().collect()
        };
        let before = own(&before);
        let data: Vec<String> = before
            .iter()
            .map(|event| {
                event.split_once("\"data\":").unwrap().1.strip_suffix('}').unwrap().to_owned()
            })
            .collect();
        crate::run::go_on(&store, self.id, &data).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

/// The seqs of these lines.
fn seqs(bytes: &[u8], lines: &[Range<usize>]) -> Vec<u64> {
    let seq = |line: &Range<usize>| {
        let text = std::str::from_utf8(&bytes[line.clone()]).unwrap();
        text["{\"seq\":".len()..].split(',').next().unwrap().parse().unwrap()
    };
    lines.iter().map(seq).collect()
}

fn subjects() -> Vec<Subject> {
    use Step::{Append, Batch, Object, Reopen};
    vec![
        Subject::new(&[Append, Append, Append]),
        Subject::new(&[Batch(4), Append]),
        Subject::new(&[Batch(3), Reopen, Append, Reopen]),
        Subject::new(&[Append, Object, Batch(9), Batch(9), Append, Batch(4)]),
    ]
}

#[test]
fn a_cut_costs_only_what_was_cut_and_is_reported() {
    let mut done = 0;
    let mut random = Random::new(21 + FaultRun::from_env().seed());
    for subject in subjects() {
        for round in 0..FaultRun::from_env().count(1, 29) {
            for at in 0..subject.bytes.len() {
                let mut bytes = subject.bytes[..at].to_vec();
                let mut touched = at..subject.bytes.len();
                if round > 0 {
                    // Bytes cut out of the middle.
                    let end = (at + 1 + random.index(300)).min(subject.bytes.len());
                    bytes.extend_from_slice(&subject.bytes[end..]);
                    touched = at..end;
                }
                if done % 16 == 0 {
                    subject.goes_on(bytes.clone(), &format!("cut {touched:?}"));
                }
                subject.check(bytes, &touched, &format!("cut {touched:?}"));
                done += 1;
            }
        }
    }
    FaultRun::from_env().report("byte cuts", done, 200_000);
}

#[test]
fn a_flipped_bit_costs_one_line_and_is_reported() {
    let mut done = 0;
    let mut random = Random::new(22 + FaultRun::from_env().seed());
    for subject in subjects() {
        for place in FaultRun::from_env().places(subject.bytes.len() as u64 * 8, 5, 1) {
            let (at, bit) = (usize::try_from(place / 8).unwrap(), place % 8);
            let mut bytes = subject.bytes.clone();
            bytes[at] ^= 1 << bit;
            if done % 64 == 0 {
                subject.goes_on(bytes.clone(), &format!("bit {bit} of byte {at}"));
            }
            subject.check(bytes, &(at..at + 1), &format!("bit {bit} of byte {at}"));
            done += 1;
        }
    }
    // And several at once.
    let subjects = subjects();
    for _ in 0..FaultRun::from_env().count(2_000, 960_000) {
        let subject = &subjects[random.index(subjects.len())];
        let mut bytes = subject.bytes.clone();
        let at = random.index(bytes.len());
        let end = (at + 1 + random.index(8)).min(bytes.len());
        for byte in &mut bytes[at..end] {
            *byte ^= 1 << random.below(8);
        }
        subject.check(bytes, &(at..end), &format!("bits of bytes {at}..{end}"));
        done += 1;
    }
    FaultRun::from_env().report("bit flips", done, 1_000_000);
}

#[test]
fn a_bad_sector_costs_its_lines_and_is_reported() {
    let mut done = 0;
    let mut random = Random::new(23 + FaultRun::from_env().seed());
    let subjects = subjects();
    for _ in 0..FaultRun::from_env().count(3_000, 110_000) {
        let subject = &subjects[random.index(subjects.len())];
        let len = subject.bytes.len();
        let sector = [64, 128, 512][random.index(3)];
        let at = random.index(len.div_ceil(sector)) * sector;
        let touched = at..(at + sector).min(len);
        let mut bytes = subject.bytes.clone();
        let what = match random.below(3) {
            0 => {
                bytes[touched.clone()].fill(0);
                "zeroed"
            }
            1 => {
                random.fill(&mut bytes[touched.clone()]);
                "overwritten"
            }
            _ => {
                let from = random.index(len.div_ceil(sector)) * sector;
                let from = from.min(len - touched.len());
                let copy = subject.bytes[from..from + touched.len()].to_vec();
                bytes[touched.clone()].copy_from_slice(&copy);
                "misplaced"
            }
        };
        if done % 16 == 0 {
            subject.goes_on(bytes.clone(), &format!("{what} {touched:?}"));
        }
        subject.check(bytes, &touched, &format!("{what} {touched:?}"));
        done += 1;
    }
    FaultRun::from_env().report("bad sectors", done, 100_000);
}

#[test]
fn a_header_that_is_damaged_costs_no_event() {
    for subject in subjects() {
        for at in subject.header.clone() {
            let mut bytes = subject.bytes.clone();
            bytes[at] ^= 0x20;
            subject.check(bytes, &(0..0), &format!("header byte {at}"));
        }
    }
}

#[test]
fn damage_to_the_last_record_is_told_from_a_torn_tail() {
    for subject in subjects().into_iter().filter(Subject::has_one_segment) {
        let disk = SimDisk::at(&subject.moment);
        let last = subject.lines.last().unwrap().clone();
        // `writer.closed` was not synced, so the one before it is the last acknowledged one.
        let acknowledged = subject.lines[subject.lines.len() - 2].clone();
        let mut bytes = subject.bytes[..last.start].to_vec();
        bytes[acknowledged.start + 20] ^= 1;
        disk.set_bytes(&subject.path, bytes.clone());
        let (_, notes) = subject.read(&disk);
        assert!(
            matches!(notes.as_slice(), [ReadFinding::Damage { lost: Some(_), .. }]),
            "{notes:?}"
        );
        // Without the watermark, nobody can tell.
        disk.remove_file(&subject.path.parent().unwrap().parent().unwrap().join("watermark"));
        let (_, notes) = subject.read(&disk);
        assert!(matches!(notes.as_slice(), [ReadFinding::TornTail { .. }]), "{notes:?}");
    }
}

/// A line replaced by another with a good sum of its own: only the chain can tell.
#[test]
fn an_altered_line_with_a_good_sum_is_noticed() {
    for subject in subjects().into_iter().filter(Subject::has_one_segment) {
        for place in subject.lines.iter().rev().skip(1) {
            let line = JournalLine::read(&subject.bytes[place.start..place.end - 1]).unwrap();
            let mut event = line.event().unwrap();
            event.at = Timestamp::from_millis(event.at.as_millis() + 1);
            let mut bytes = subject.bytes[..place.start].to_vec();
            JournalLine::write(
                &mut bytes,
                &event,
                &[],
                line.lag,
                Salt::derive(&[1; 32], 1),
                line.prev,
            );
            bytes.extend_from_slice(&subject.bytes[place.end..]);
            let disk = SimDisk::at(&subject.moment);
            disk.set_bytes(&subject.path, bytes);
            let (found, notes) = subject.read(&disk);
            // `writer.closed` was not acknowledged: it goes with what it is chained to.
            assert!(found.len() + 1 >= subject.events.len());
            assert!(matches!(notes.as_slice(), [ReadFinding::Damage { .. }, ..]), "{notes:?}");
            let store = open_store(&disk, 14).unwrap();
            assert!(crate::run::healthy(&store, subject.id).is_err());
        }
    }
}

/// What is derived may be damaged in any way: the state is what the journal says.
#[test]
fn damage_to_derived_files_changes_no_answer() {
    let mut run = Run::new(31);
    for step in [Step::Batch(4), Step::Reopen, Step::Append, Step::Reopen, Step::Append] {
        run.step(step).unwrap();
    }
    let (id, disk) = (run.id, run.disk.clone());
    drop(run);
    let digest = |disk: &SimDisk| {
        let store = open_store(disk, 32).unwrap();
        let reader = store.read(id).unwrap();
        let mut read = reader.state().unwrap();
        assert!(read.is_sound());
        let writer = store.writer(id, std::time::Duration::ZERO).unwrap();
        let mut written = writer.state().unwrap();
        assert!(written.is_sound());
        assert_eq!(written.digest(), read.digest());
        read.digest()
    };
    let moment = disk.take_history().pop().unwrap();
    let expected = digest(&SimDisk::at(&moment));
    let derived: Vec<PathBuf> =
        disk.files().into_iter().filter(|path| path.parent().unwrap().ends_with("state")).collect();
    assert!(derived.len() >= 3, "{derived:?}");
    for path in derived {
        let bytes = disk.bytes(&path).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            // A digit becomes another digit: still good JSON.
            damaged[at] ^= 1;
            let disk = SimDisk::at(&moment);
            disk.set_bytes(&path, damaged);
            assert_eq!(digest(&disk), expected, "byte {at} of {}", path.display());
        }
        let disk = SimDisk::at(&moment);
        disk.set_bytes(&path, bytes[..bytes.len() / 2].to_vec());
        assert_eq!(digest(&disk), expected, "half of {}", path.display());
        let disk = SimDisk::at(&moment);
        disk.remove_file(&path);
        assert_eq!(digest(&disk), expected, "without {}", path.display());
    }
}

/// Another session's lines under this one's header: the first link does not fit.
#[test]
fn lines_of_another_session_are_noticed() {
    let mine = Subject::new(&[Step::Append]);
    let other = {
        let mut run = Run::new(77);
        run.step(Step::Append).unwrap();
        let disk = run.disk.clone();
        drop(run);
        let path = disk.files().into_iter().find(|path| path.ends_with("00000001.jsonl")).unwrap();
        disk.bytes(&path).unwrap()
    };
    let lines = other.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut bytes = mine.bytes[mine.header.clone()].to_vec();
    bytes.extend_from_slice(&other[lines..]);
    let disk = SimDisk::at(&mine.moment);
    disk.set_bytes(&mine.path, bytes);
    let (_, notes) = mine.read(&disk);
    assert!(!notes.is_empty());
    let store = open_store(&disk, 15).unwrap();
    assert!(crate::run::exists(&store, mine.id));
    assert!(crate::run::healthy(&store, mine.id).is_err());
}

#[test]
fn a_header_that_came_to_another_segment_or_goes_back_is_not_believed() {
    let disk = SimDisk::new(Path::new("/sim"));
    let store = small(LocalStore::init(&store_path(), options(&disk, 3)).unwrap());
    let id = store.create(NewSession::default()).unwrap().id;
    let writer = store.writer(id, Duration::ZERO).unwrap();
    for n in 0..30 {
        let event = NewEvent::parse(&format!(r#"{{"kind":"x.sim","data":{{"n":{n}}}}}"#)).unwrap();
        writer
            .append(vec![event], Durability::Synced, AnomalyPolicy::Keep)
            .unwrap()
            .wait()
            .unwrap();
    }
    let journal = store.reader(id).unwrap().journal().clone();
    let [one, two] = [1, 2].map(|n| journal.dir().join(format!("{n:08}.jsonl")));
    let split = |path: &Path| {
        let bytes = disk.bytes(path).unwrap();
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let (header, lines) = bytes.split_at(end);
        (header.to_vec(), lines.to_vec())
    };
    let ((of_one, _), (of_two, lines)) = (split(&one), split(&two));
    let header = SegmentHeader::read(of_two.trim_ascii_end(), &two).unwrap().unwrap();
    let before = header.first.back(1);
    assert_eq!(journal.seek(before).unwrap().segment, 1);
    // One of another segment says nothing about where this one begins.
    disk.set_bytes(&two, [of_one, lines.clone()].concat());
    assert_eq!(journal.seek(before).unwrap().segment, 1);
    // One of its own that goes back is damage: a search would begin behind what it looks for.
    let back = SegmentHeader { first: Seq(1), ..header }.write();
    disk.set_bytes(&two, [back, lines].concat());
    let mut reasons = Vec::new();
    let mut visit = |found: JournalItem<'_>| {
        if let JournalItem::Damage(damage) = found {
            reasons.push(damage.reason);
        }
        ControlFlow::Continue(())
    };
    journal.walk(JournalWalkStart::beginning(), None, &mut visit).unwrap();
    assert_eq!(reasons, [SegmentDamageReason::Header]);
}
