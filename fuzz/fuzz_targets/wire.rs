//! Lines as messages of every form: what is recorded comes back, and whatever it is can be read and
//! rendered.

#![no_main]

use abide_model::{CallId, Context, Entry, Limits, Payload, Seq};
use abide_wire::{MessageForm, Part, export, export_finished, read, record, render};
use libfuzzer_sys::fuzz_target;

const FORMS: [MessageForm; 4] =
    [MessageForm::Abide, MessageForm::Anthropic, MessageForm::OpenAi, MessageForm::Responses];

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut entries = Vec::new();
    for line in text.lines() {
        for form in FORMS {
            if let Ok(recorded) = record(form, line)
                && let Ok(data) = Payload::new(&recorded, &Limits::default())
            {
                let out = export(form, &data);
                assert_eq!(out.len(), 1);
                // Between tokens a carriage return becomes a space.
                assert_eq!(out[0].get(), line.trim().replace('\r', " "));
                look(&data, &mut entries);
            }
        }
        // What nobody took in by a form, with marks of any sort.
        if let Ok(data) = Payload::new(line, &Limits::default()) {
            look(&data, &mut entries);
        }
    }
    let context = Context { lane: None, entries };
    for form in FORMS {
        let rendered = render(form, &context);
        let json = rendered.to_json();
        assert!(serde_json::from_str::<&serde_json::value::RawValue>(&json).is_ok());
        assert!(!json.contains("\"abide\":{\"form\"") || text.contains("abide"));
    }
});

/// Reads and converts data, and makes entries of it: the message, a result of its first call, and
/// one that is not known of its second.
fn look(data: &Payload, entries: &mut Vec<Entry>) {
    for form in FORMS {
        export(form, data);
        export_finished(form, data);
    }
    let Some(said) = read(data) else { return };
    entries.push(Entry::Message { seq: Seq(1), data: data.clone() });
    let mut calls = said.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(CallId(call.id.clone())),
        _ => None,
    });
    if let Some(call) = calls.next() {
        let executed = call.as_str().len() % 2 == 0;
        entries.push(Entry::Result { seq: Seq(2), call, data: data.clone(), executed });
    }
    entries.extend(calls.next().map(|call| Entry::Unknown { call, begun: None }));
}
