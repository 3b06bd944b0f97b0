//! An event as `abide record` takes it, through everything that is made of it.

use abide_journal::{JournalLine, LineObjectRef, Salt, Sum};
use abide_model::{
    Event, EventLimits, NewEvent, Payload, PayloadLeaf, Seq, SessionId, SessionState, Timestamp,
};
use abide_transcript::{TranscriptWriter, parse};

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let Ok(new) = NewEvent::parse_bytes(data, &EventLimits::default()) else { return false };
    new.check(&EventLimits::default()).expect("it was taken");
    let small = EventLimits { event_bytes: data.len() - 1, ..EventLimits::default() };
    assert!(NewEvent::parse_bytes(data, &small).is_err(), "a limit was not held to");
    let event = new.into_event(Seq(1), Timestamp::from_millis(1_763_169_600_000));
    leaves(event.data.as_ref().expect("data"));
    line(&event);
    transcript(&event);
    let mut state = SessionState::default();
    state.apply(&event);
    assert_eq!(state.core.seq, Seq(1));
    assert!(state.is_sound());
    json(&event, data);
    true
}

/// Strings are taken out and put back, byte for byte.
fn leaves(data: &Payload) {
    for threshold in [0, 8, 64] {
        let (rest, leaves) = data.clone().take_leaves(threshold);
        let strings: Vec<(usize, String)> = leaves
            .iter()
            .map(|leaf| {
                (leaf.offset, PayloadLeaf::to_json(leaf.encoding, &leaf.bytes).expect("a string"))
            })
            .collect();
        let whole = rest.put_leaves(&strings).expect("every place is there");
        assert_eq!(&whole, data);
    }
}

/// Written to a journal and read.
fn line(event: &Event) {
    let prev = Sum::genesis(SessionId::new(Timestamp::from_millis(0), [7; 10])).link();
    let (rest, leaves) = event.data.clone().expect("data").take_leaves(16);
    let objects: Vec<_> = leaves.iter().map(LineObjectRef::to).collect();
    let event = Event { data: Some(rest), ..event.clone() };
    let mut out = Vec::new();
    JournalLine::write(&mut out, &event, &objects, 1, Salt::derive(&[7; 32], 1), prev);
    let bytes = out.strip_suffix(b"\n").expect("a line feed");
    assert!(!bytes.contains(&b'\n'), "an event is one line");
    let line = JournalLine::read(bytes).expect("it was just written");
    assert_eq!((line.event(), line.objects()), (Some(event), objects));
}

/// Written for people and read back.
fn transcript(event: &Event) {
    let mut writer = TranscriptWriter::new();
    writer.push(event);
    let text = writer.finish();
    let shown = |c: char| c == '\n' || c == '\t' || !c.is_control();
    assert!(text.chars().all(shown), "a control character in a transcript");
    assert_eq!(parse(text.as_bytes()).as_deref(), Ok(std::slice::from_ref(event)));
}

/// What is exported has the caller's data in it as it stood.
fn json(event: &Event, input: &[u8]) {
    let json = event.to_json();
    assert!(!json.contains('\n'));
    serde_json::from_str::<&serde_json::value::RawValue>(&json).expect("JSON");
    let data = event.data.as_ref().expect("data").as_str();
    assert!(json.contains(data));
    let input = String::from_utf8_lossy(input).replace(['\n', '\r'], " ");
    assert!(input.contains(data), "the data was changed");
}
