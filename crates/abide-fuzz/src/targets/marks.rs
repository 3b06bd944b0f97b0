//! The small files: the header of a segment, a watermark, a pair of slots.
//!
//! Parts of the input: a byte of wishes and a header, a watermark, one slot, and the other.

use abide_journal::{SegmentHeader, Slots, Watermark};

use crate::input::{Wish, disk, parts, put, root};
use crate::sums::{mend_header, mend_slot, mend_watermark, slot_hash};

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let Some((wish, data)) = Wish::take(data) else { return false };
    let mut parts: Vec<Vec<u8>> = parts(data).iter().take(4).map(|part| part.to_vec()).collect();
    if wish.has(0) {
        mend_header(&mut parts[0]);
        parts.iter_mut().skip(1).take(1).for_each(|bytes| mend_watermark(bytes));
        parts.iter_mut().skip(2).for_each(|bytes| mend_slot(bytes));
    }
    let header = header(&parts[0]);
    let watermark = parts.get(1).is_some_and(|bytes| watermark(bytes));
    slots(parts.get(2..).unwrap_or_default()) && header && watermark
}

fn header(bytes: &[u8]) -> bool {
    let Ok(Some(header)) = SegmentHeader::read(bytes, &root()) else { return false };
    let mut mended = bytes.to_vec();
    mend_header(&mut mended);
    assert_eq!(mended, bytes, "a wrong sum was accepted");
    let written = header.write();
    let line = written.strip_suffix(b"\n").expect("a line feed");
    assert_eq!(SegmentHeader::read(line, &root()).expect("this version"), Some(header));
    true
}

fn watermark(bytes: &[u8]) -> bool {
    let disk = disk([("watermark", bytes)]);
    let path = root().join("watermark");
    let Some(mark) = Watermark::read(&*disk, &path).expect("the disk works") else {
        return false;
    };
    let mut mended = bytes.to_vec();
    mend_watermark(&mut mended);
    let whole =
        |slot: usize| bytes.get(slot..slot + 64).is_some_and(|s| s == &mended[slot..slot + 64]);
    assert!(whole(0) || whole(64), "a wrong sum was accepted");
    // A new mark is read instead.
    let next = abide_journal::AcknowledgedEnd { seq: mark.seq.next(), ..mark };
    Watermark::open(&*disk, &path).expect("the disk works").write(next);
    assert_eq!(Watermark::read(&*disk, &path).expect("the disk works"), Some(next));
    true
}

fn slots(parts: &[Vec<u8>]) -> bool {
    let disk = disk([("x", &b""[..])]);
    for (name, bytes) in ["pair.0", "pair.1"].iter().zip(parts) {
        put(&disk, name, bytes);
    }
    let mut slots = Slots::new(&root(), "pair");
    let contents = slots.read(&*disk);
    for content in &contents {
        let right = parts.iter().any(|bytes| {
            let number = bytes.get(17..33).and_then(|hex| std::str::from_utf8(hex).ok());
            let number = number.and_then(|hex| u64::from_str_radix(hex, 16).ok());
            number.is_some_and(|number| {
                bytes.len() >= 67
                    && bytes[67..].starts_with(content)
                    && bytes[34..66] == *slot_hash(number, content).as_bytes()
            })
        });
        assert!(right, "a wrong sum was accepted");
    }
    slots.write(&*disk, b"new").expect("the disk works");
    assert_eq!(
        Slots::new(&root(), "pair").read(&*disk).first().map(Vec::as_slice),
        Some(&b"new"[..])
    );
    !contents.is_empty()
}
