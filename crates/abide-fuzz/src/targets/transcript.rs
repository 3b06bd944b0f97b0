//! A transcript, read back.

use abide_model::{Event, NewEvent, Timestamp};
use abide_transcript::{ResumePoint, TranscriptWriter, parse};

use crate::sums::mend_transcript;

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let is_accepted = look(data);
    let mut mended = data.to_vec();
    mend_transcript(&mut mended);
    look(&mended) || is_accepted
}

fn look(bytes: &[u8]) -> bool {
    let point = ResumePoint::find(bytes, 0);
    assert!(point.as_ref().is_none_or(|point| point.offset <= bytes.len() as u64));
    let Ok(events) = parse(bytes) else { return false };
    if !bytes.is_empty() {
        // Nothing is read whose sum is wrong.
        let mut mended = bytes.to_vec();
        mend_transcript(&mut mended);
        assert_eq!(mended, bytes, "a wrong sum was accepted");
    }
    assert!(events.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    // What was read is written, and reads the same.
    let mut writer = TranscriptWriter::new();
    events.iter().for_each(|event| writer.push(event));
    let text = writer.finish();
    assert_eq!(parse(text.as_bytes()).as_ref(), Ok(&events));
    go_on(text, events);
    true
}

/// A writer goes on at the end of what another wrote.
fn go_on(mut text: String, mut events: Vec<Event>) {
    let Some(last) = events.last() else { return };
    let point = ResumePoint::find(text.as_bytes(), 0).expect("it was just written");
    assert_eq!((point.offset, point.last), (text.len() as u64, last.seq));
    let next = last.seq.next();
    if next == last.seq {
        return;
    }
    let new =
        NewEvent::parse(r#"{"kind":"message.added","data":{"role":"user","content":"more"}}"#);
    let event = new.expect("an event").into_event(next, Timestamp::from_millis(0));
    let mut writer = TranscriptWriter::resume(point);
    writer.push(&event);
    text.push_str(&writer.finish());
    events.push(event);
    assert_eq!(parse(text.as_bytes()), Ok(events));
}
