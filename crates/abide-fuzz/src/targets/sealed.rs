//! A sealed segment, and beside it one that was never sealed.

use std::ops::ControlFlow;

use abide_journal::{
    Journal, JournalError, JournalItem, JournalWalkStart, Segment, SegmentForm, SegmentName,
};

use crate::input::{Wish, disk, root};
use crate::sums::{is_right, mend_table};

/// Plain bytes are looked at up to here.
const LOOK: u64 = 1 << 20;

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let Some((wish, bytes)) = Wish::take(data) else { return false };
    let mut bytes = bytes.to_vec();
    if wish.has(0) {
        mend_table(&mut bytes);
    }
    let packed = bytes.len() as u64;
    let disk = disk([("journal/00000001.jsonl.zst", bytes.as_slice())]);
    let dir = root().join("journal");
    let name = SegmentName { number: 1, form: SegmentForm::Sealed };
    let segment = Segment::open(&*disk, &dir, name).expect("the disk works");
    let len = segment.len().expect("a length");
    // What zstd can make of so many bytes, and the zeros for a frame that is damaged.
    assert!(len <= packed << 15, "{packed} bytes claim to hold {len}");
    read(&segment, len);
    let journal = Journal::new(disk, dir);
    let mut last = None;
    let walked = journal.walk(JournalWalkStart::beginning(), None, &mut |found| {
        if let JournalItem::Event { line, .. } = found {
            assert!(is_right(line.bytes()), "a wrong sum was accepted");
            assert!(last.is_none_or(|last| last < line.seq), "out of order");
            last = Some(line.seq);
        }
        ControlFlow::Continue(())
    });
    match walked {
        Ok(()) | Err(JournalError::NewerVersion { .. }) => {}
        Err(error) => panic!("{error:?}"),
    }
    last.is_some()
}

/// Reading on gives exactly the length, and the same bytes whatever the steps.
fn read(segment: &Segment, len: u64) {
    let mut buffer = vec![0; 4096];
    let mut at = 0;
    while at < len.min(LOOK) {
        let read = segment.read_at(&mut buffer, at).expect("the disk works") as u64;
        assert!(read > 0 && at + read <= len, "{read} bytes at {at} of {len}");
        let mut one = [0];
        assert_eq!(segment.read_at(&mut one, at).expect("the disk works"), 1);
        assert_eq!(one[0], buffer[0]);
        at += read;
    }
    assert_eq!(segment.read_at(&mut buffer, len).expect("the disk works"), 0);
}
