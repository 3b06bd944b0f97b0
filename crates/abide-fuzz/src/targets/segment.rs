//! A journal of plain segments, walked as a whole; and the same one sealed.
//!
//! Parts of the input: a byte of wishes and the watermark, then one segment after the other.

use std::ops::ControlFlow;
use std::sync::Arc;

use abide_journal::{
    AcknowledgedEnd, Journal, JournalError, JournalItem, JournalLine, JournalWalkStart, SealPlan,
    SegmentForm, SegmentName, Watermark,
};
use abide_model::Seq;
use abide_testkit::SimDisk;

use crate::input::{Wish, disk, parts, put, root};
use crate::sums::{is_right, mend_segment, mend_watermark};

const SEGMENTS: usize = 4;

/// What a walk came upon, without the files' names, which sealing changes.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Event { seq: u64, segment: u64, offset: u64, end: u64, ended: bool, bytes: Vec<u8> },
    Damage { offset: u64, bytes: u64, reason: String, lost: Option<(Seq, Seq)> },
    Splice { after: u64, next: u64, segment: u64, offset: u64, end: u64 },
    Torn { segment: u64, offset: u64, bytes: u64 },
}

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let Some((wish, data)) = Wish::take(data) else { return false };
    let parts = parts(data);
    let mut watermark = parts[0].to_vec();
    let mut segments: Vec<Vec<u8>> =
        parts[1..].iter().take(SEGMENTS).map(|part| part.to_vec()).collect();
    let mut link = None;
    if wish.has(0) {
        segments.iter_mut().for_each(|bytes| mend_segment(bytes, wish.has(1), &mut link));
    }
    if wish.has(2) {
        mend_watermark(&mut watermark);
    }
    let disk = disk([("watermark", watermark.as_slice())]);
    for (number, bytes) in (1..).zip(&segments) {
        put(&disk, &format!("journal/{}", name(number)), bytes);
    }
    let journal = Journal::new(disk.clone(), root().join("journal"));
    let mark = Watermark::read(&*disk, &root().join("watermark")).expect("the disk works");
    let Some(plain) = walk(&journal, mark) else { return false };
    look(&plain, &segments);
    if plain.iter().all(|seen| matches!(seen, Seen::Event { .. })) {
        seek(&journal, &plain);
    }
    let _ = (journal.identify(), journal.origin(), journal.foreign_files());
    seal(&disk, segments.len());
    let is_accepted = plain.iter().any(|seen| matches!(seen, Seen::Event { .. }));
    let mut sealed = walk(&journal, mark).expect("it was walked before");
    if let [whole @ .., Seen::Torn { .. }] = &*plain {
        // What is sealed was durable: there nothing is torn, and reading goes on behind it.
        sealed.truncate(whole.len());
        assert_eq!(sealed, whole, "sealing changed what is read");
    } else {
        assert_eq!(sealed, plain, "sealing changed what is read");
    }
    is_accepted
}

fn name(number: u64) -> String {
    SegmentName { number, form: SegmentForm::Plain }.file_name()
}

/// `None` when a segment is of a newer version: the one error that is due to bytes.
fn walk(journal: &Journal, mark: Option<AcknowledgedEnd>) -> Option<Vec<Seen>> {
    let mut seen = Vec::new();
    let walked = journal.walk(JournalWalkStart::beginning(), mark, &mut |found| {
        seen.push(match found {
            JournalItem::Event { line, segment, offset, end, ended } => {
                let bytes = line.bytes().to_vec();
                Seen::Event { seq: line.seq.0, segment, offset, end, ended, bytes }
            }
            JournalItem::Damage(damage) => Seen::Damage {
                offset: damage.offset,
                bytes: damage.bytes,
                reason: damage.reason.to_string(),
                lost: damage.lost,
            },
            JournalItem::Splice { splice, segment, offset, end, .. } => {
                Seen::Splice { after: splice.after.0, next: splice.next.0, segment, offset, end }
            }
            JournalItem::Torn { segment, offset, bytes, .. } => {
                Seen::Torn { segment, offset, bytes }
            }
        });
        ControlFlow::Continue(())
    });
    match walked {
        Ok(()) => Some(seen),
        Err(JournalError::NewerVersion { .. }) => None,
        // No segment at all: no journal.
        Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// Events count up and stand where they are said to stand, with right sums; nothing comes behind
/// a torn tail.
fn look(seen: &[Seen], segments: &[Vec<u8>]) {
    let total: usize = segments.iter().map(Vec::len).sum();
    assert!(seen.len() <= 2 * total + 2 * SEGMENTS);
    let mut last = (0, (0, 0));
    for (at, one) in seen.iter().enumerate() {
        match one {
            Seen::Event { seq, segment, offset, end, bytes, .. } => {
                assert!(
                    is_right(bytes) && JournalLine::read(bytes).is_ok(),
                    "a wrong sum was accepted"
                );
                let file = &segments[*segment as usize - 1];
                let start = *offset as usize;
                assert_eq!(&file[start..start + bytes.len()], bytes);
                assert!(*end as usize <= file.len());
                assert!(at == 0 || last < (*seq, (*segment, *offset)), "out of order");
                last = (*seq, (*segment, *offset));
            }
            Seen::Splice { after, next, segment, offset, end } => {
                assert!(after < next && offset < end, "a splice that joins nothing");
                assert!(at == 0 || last.0 <= *after, "a splice that goes back");
                last = (next - 1, (*segment, *offset));
            }
            Seen::Damage { lost: Some((first, last)), .. } => assert!(first <= last),
            Seen::Damage { .. } => {}
            Seen::Torn { .. } => assert_eq!(at + 1, seen.len(), "something behind a torn tail"),
        }
    }
}

/// Every event of a journal that is whole is found from the place that a seek gives.
fn seek(journal: &Journal, seen: &[Seen]) {
    for one in seen.iter().take(4) {
        let Seen::Event { seq, segment, offset, .. } = one else { continue };
        let start = journal.seek(Seq(*seq)).expect("the disk works");
        assert!((start.segment, start.offset) <= (*segment, *offset), "{start:?} for {one:?}");
    }
}

fn seal(disk: &Arc<SimDisk>, count: usize) {
    for number in 1..=count as u64 {
        let dir = root().join("journal");
        let plan = SealPlan { dir: &dir, number };
        assert!(plan.apply(&**disk, &|| false).expect("the disk works"));
    }
}
