//! What passes between a client and an agent, as events, and the events as updates again.
//!
//! A line is a letter that says what it is, and the JSON of it.

use abide_acp::{RecordedEvents, ReplayCheck, Replayer, Translator, subagent_lane};
use abide_model::{Event, EventLimits, Seq, Timestamp};
use serde_json::value::RawValue;

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let mut translator = Translator::new("agent").in_directory(std::path::Path::new("/project"));
    let (mut replay, mut check) = (Replayer::default(), ReplayCheck::default());
    let mut seq = Seq::ZERO;
    let Ok(id) = RawValue::from_string("1".into()) else { return false };
    for line in text.lines().take(256) {
        let Some((sort, json)) = line.split_at_checked(1) else { continue };
        let Ok(json) = serde_json::from_str::<&RawValue>(json) else { continue };
        let recorded = match sort {
            "p" => translator.prompt(json),
            "r" => translator.prompted(Ok(json)),
            "e" => translator.prompted(Err(json)),
            "i" => translator.interrupted("interrupted"),
            "u" => {
                let _ = subagent_lane(json);
                check.replayed(json);
                translator.update(json)
            }
            "l" => translator.update_in(Some("lane"), json),
            "q" => translator.asked(&id, "session/request_permission", Some(json)),
            "f" => translator.asked(&id, "fs/write_text_file", Some(json)),
            "t" => translator.asked(&id, "terminal/output", Some(json)),
            "a" => translator.answered(&id, Ok(json)),
            "c" => translator.configured("session/set_mode", json, json),
            _ => continue,
        };
        take(recorded, &mut seq, &mut replay, &mut check);
    }
    take(translator.interrupted("interrupted"), &mut seq, &mut replay, &mut check);
    replay.finish(&mut |update| sound(&update.update));
    let _ = check.finish();
    seq > Seq::ZERO
}

/// What is recorded is one event after the other, and what it is shown as is JSON.
fn take(recorded: RecordedEvents, seq: &mut Seq, replay: &mut Replayer, check: &mut ReplayCheck) {
    for event in recorded.events {
        event.check(&EventLimits::default()).expect("a store takes it");
        *seq = seq.next();
        let event = Event {
            seq: *seq,
            at: Timestamp::from_millis(0),
            occurred: None,
            kind: event.kind,
            turn: None,
            task: event.task,
            lane: event.lane,
            key: event.key,
            data: Some(event.data),
        };
        // A kind of ours holds what that kind calls for.
        assert!(event.fact().is_ok(), "{}", event.to_json());
        replay.event(&event, &mut |update| {
            sound(&update.update);
            check.recorded(&update);
        });
    }
}

fn sound(update: &str) {
    assert!(serde_json::from_str::<&RawValue>(update).is_ok(), "{update}");
}
