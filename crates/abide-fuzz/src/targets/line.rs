//! A line of the journal.

use abide_journal::{JournalLine, LinePayload, Salt};

use crate::sums::{TRAILER, is_right, mend_line};

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let is_accepted = look(data);
    let mut mended = data.to_vec();
    mend_line(&mut mended, None).is_some() && look(&mended) || is_accepted
}

fn look(bytes: &[u8]) -> bool {
    let Ok(line) = JournalLine::read(bytes) else { return false };
    assert!(is_right(bytes), "a wrong sum was accepted");
    assert_eq!(line.bytes(), bytes);
    let is_erased = matches!(line.body(), LinePayload::Erased { .. });
    erase(&line, bytes);
    if let Some(event) = line.event()
        && !is_erased
    {
        // What was read is written, and reads the same.
        let salt = bytes.len() - TRAILER + 8;
        let salt = Salt(bytes[salt..salt + Salt::WIDTH].try_into().expect("a salt"));
        let mut out = Vec::new();
        let objects = line.objects();
        let sum = JournalLine::write(&mut out, &event, &objects, line.lag, salt, line.prev);
        assert_eq!(out.pop(), Some(b'\n'));
        let again = JournalLine::read(&out).expect("it was just written");
        assert_eq!((again.sum, again.prev, again.lag), (sum, line.prev, line.lag));
        assert_eq!((again.event(), again.objects()), (Some(event), objects));
    }
    // One bit is another line, or none.
    let at = usize::from(bytes[bytes.len() - 5]) * 31 % bytes.len();
    let salt = bytes.len() - TRAILER + 8..bytes.len() - TRAILER + 20;
    if !(is_erased && salt.contains(&at)) {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1 << (bytes[bytes.len() - 4] % 8);
        assert!(JournalLine::read(&flipped).is_err(), "a flipped bit at {at} was not noticed");
    }
    true
}

/// Erasing keeps the sum, and is done once.
fn erase(line: &JournalLine<'_>, bytes: &[u8]) {
    let erased = line.erased();
    assert!(erased.len() <= bytes.len() + 64);
    let again =
        JournalLine::read(erased.strip_suffix(b"\n").expect("a line feed")).expect("a line");
    assert_eq!((again.sum, again.prev, again.seq), (line.sum, line.prev, line.seq));
    assert_eq!(again.erased(), erased);
    assert_eq!(again.event().is_some(), line.head().is_some());
}
