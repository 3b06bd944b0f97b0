//! Records of the sessions that agents keep: read in one go and with stops, whole and mutated.

use abide_model::{Event, Fact, RecordedMessage, Seq};
use proptest::prelude::*;

use super::*;
use crate::KeptContent;

/// The most bytes of what a reader remembers.
const MEMORY: usize = 24 << 10;

/// The file of this path below the agent's directory.
pub(crate) fn kept_file(agent: &str, path: &str) -> Option<KeptFile> {
    let KeptForm::Files { classify, .. } = kind(agent).kept_sessions()?.form else { return None };
    classify(std::path::Path::new(path))
}

fn reader(agent: &str, file: &KeptFile, memory: Option<&str>) -> Box<dyn RecordReader> {
    (kind(agent).kept_sessions().unwrap().reader)(file, memory)
}

/// The records of a file, whichever of them is the last one before a stop.
pub(crate) fn read_records(agent: &str, file: &KeptFile, lines: &[&str]) -> Vec<ReadRecord> {
    let mut whole = reader(agent, file, None);
    let mut memory: Option<String> = None;
    let mut all = Vec::new();
    for line in lines {
        let mut again = reader(agent, file, memory.as_deref());
        let read = whole.read(line);
        assert_eq!(format!("{:?}", again.read(line)), format!("{read:?}"), "after a stop: {line}");
        let remembered = whole.memory();
        assert_eq!(again.memory(), remembered, "after a stop: {line}");
        assert!(remembered.len() <= MEMORY, "{} bytes", remembered.len());
        assert!(serde_json::from_str::<serde_json::Map<_, _>>(&remembered).is_ok());
        memory = Some(remembered);
        all.push(read);
    }
    all
}

/// One line for what was read of each record.
pub(crate) fn told_records(agent: &str, file: &KeptFile, lines: &[&str]) -> Vec<String> {
    read_records(agent, file, lines).iter().map(told_record).collect()
}

pub(crate) fn told_record(read: &ReadRecord) -> String {
    let mut told = read.sort.clone();
    if !read.known {
        told.push('?');
    }
    if let Some(lane) = &read.lane {
        told.push_str(&format!(" in {}", lane.as_str()));
    }
    if let Some(back) = &read.back {
        told.push_str(&format!(" back {back:?}"));
    }
    if let Some(message) = &read.message {
        told.push_str(" message");
        if let RecordText::Item { role, .. } = message.text {
            told.push_str(&format!(" {role}"));
        }
        if let Some(answer) = &message.answer {
            told.push_str(&format!(" of {answer}"));
        }
    }
    if let Some(text) = &read.compaction {
        told.push_str(&format!(" compaction {text}"));
    }
    if !read.keeps.is_empty() {
        told.push_str(&format!(" keeps {}", read.keeps.join(" ")));
    }
    for event in &read.events {
        told.push_str(
            &match event.clone().into_event(Seq(1), Timestamp::default()).fact().unwrap() {
                Fact::FileTouched(touch) => {
                    let to = touch.to.map(|to| format!(" to {to}")).unwrap_or_default();
                    format!(", {} {}{to}", touch.op.as_str(), touch.path)
                }
                Fact::Usage(used) => format!(
                    ", used {} {} {}",
                    used.id.unwrap_or_default(),
                    used.model.as_deref().unwrap_or("-"),
                    numbers(&used.usage)
                ),
                other => format!(", {other:?}"),
            },
        );
    }
    told
}

/// The messages of records as they will be recorded, each with its marks.
pub(crate) fn recorded_messages(lines: &[&str], read: &[ReadRecord]) -> Vec<RecordedMessage> {
    let mut all = Vec::new();
    for (line, read) in lines.iter().zip(read) {
        let Some(message) = &read.message else { continue };
        let fields = abide_model::json::RawJsonFields::of(line).unwrap();
        let (body, form) = match &message.text {
            RecordText::Verbatim { field, form } => {
                assert_eq!(fields.all(field).count(), 1);
                (fields.get(field).unwrap().get().to_owned(), *form)
            }
            RecordText::Item { field, role } => {
                let item = fields.get(field).unwrap().get();
                let message = format!("{{\"role\":\"{role}\",\"content\":[{item}]}}");
                (message, abide_model::MessageForm::Responses)
            }
            RecordText::Made(data) => (data.clone(), abide_model::MessageForm::Responses),
        };
        let body = body.trim_end().strip_suffix('}').unwrap().to_owned();
        let data = format!("{body},\"abide\":{{\"form\":\"{}\"}}}}", form.name());
        let data = abide_model::Payload::new(&data, &Default::default()).unwrap();
        all.push(RecordedMessage::of(&data).unwrap());
    }
    all
}

/// The calls, the results and those of them that failed.
pub(crate) fn counted_calls(
    lines: &[&str],
    read: &[ReadRecord],
) -> (Vec<String>, Vec<String>, Vec<String>) {
    let (mut calls, mut results, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for message in recorded_messages(lines, read) {
        for piece in &message.pieces {
            if let Some(call) = piece.call() {
                calls.push(call.id.clone());
            }
            if let Some(result) = piece.result() {
                results.push(result.id.clone());
                if result.ok == Some(false) {
                    failed.push(result.id.clone());
                }
            }
        }
    }
    (calls, results, failed)
}

/// The usage of all records, in all.
pub(crate) fn used_in_all(read: &[ReadRecord]) -> Usage {
    let mut all = Usage::default();
    for event in read.iter().flat_map(|read| &read.events) {
        let event: Event = event.clone().into_event(Seq(1), Timestamp::default());
        if let Fact::Usage(used) = event.fact().unwrap() {
            all.add(&used.usage);
        }
    }
    all
}

/// Files of each agent that keeps files, with their lines.
fn samples() -> Vec<(&'static str, KeptFile, Vec<&'static str>)> {
    let all = [
        (
            "claude",
            "projects/-p/39059223-c894-4535-8431-f728d06a9698.jsonl",
            include_str!("../claude/samples/kept-session.jsonl"),
        ),
        (
            "claude",
            "projects/-p/39059223-c894-4535-8431-f728d06a9698/subagents/agent-a1.jsonl",
            include_str!("../claude/samples/kept-subagent.jsonl"),
        ),
        (
            "codex",
            "sessions/2026/11/19/rollout-2026-11-19T20-14-56-01a1f572-b157-74a2-900f-c0881a13ed2e.jsonl",
            include_str!("../codex/samples/kept-rollout.jsonl"),
        ),
    ];
    let file = |agent, path| kept_file(agent, path).unwrap();
    all.map(|(agent, path, text)| (agent, file(agent, path), text.lines().collect())).into()
}

#[test]
fn a_stop_makes_no_difference_to_real_records_and_all_of_them_are_known() {
    for (agent, file, lines) in samples() {
        assert_eq!(file.content, KeptContent::Lines);
        let read = read_records(agent, &file, &lines);
        for (read, line) in read.iter().zip(&lines) {
            assert!(read.known, "{line}");
            assert_eq!(read.back, None, "{line}");
        }
        assert_eq!(recorded_messages(&lines, &read).len(), count_messages(&read));
    }
}

fn count_messages(read: &[ReadRecord]) -> usize {
    read.iter().filter(|read| read.message.is_some()).count()
}

#[test]
fn what_is_no_record_is_not_known_and_nothing_else() {
    for (agent, file, _) in samples() {
        let deep = format!("{{\"type\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let long = format!("{{\"type\":\"{0}\",\"uuid\":\"{0}\"}}", "x".repeat(100_000));
        for record in [
            "",
            "{",
            "7",
            "null",
            "[]",
            "\"user\"",
            "{}",
            "{\"type\":7}",
            "{\"type\":\"of.tomorrow\"}",
        ]
        .into_iter()
        .chain([deep.as_str(), long.as_str(), "{\"type\":null,\"payload\":[]}"])
        {
            let told = told_records(agent, &file, &[record, record]);
            let is_unknown = |told: &String| told == "?" || told == "of.tomorrow?";
            assert!(told.iter().all(is_unknown), "{agent}: {record:.80}: {told:?}");
        }
    }
}

/// A JSON value.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let word = prop::sample::select(vec!["", "user", "a", "-", "2026-11-19T20:14:38.884Z", "1"]);
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        word.prop_map(Into::into),
        "\\PC{0,12}".prop_map(Into::into),
    ];
    let name = prop::sample::select(vec![
        "type",
        "uuid",
        "parentUuid",
        "message",
        "content",
        "role",
        "payload",
        "usage",
        "item",
        "id",
        "call_id",
        "output",
        "input",
        "info",
        "num_turns",
        "ordinal",
        "isSidechain",
        "model",
    ]);
    leaf.prop_recursive(4, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                serde_json::Value::Object(fields.collect())
            }),
        ]
    })
}

/// Puts a value in the place of the one that is the `at`th in this one.
fn replace(value: &mut serde_json::Value, at: &mut usize, by: &serde_json::Value) {
    if *at == 0 {
        *value = by.clone();
        *at = usize::MAX;
        return;
    }
    *at -= 1;
    match value {
        serde_json::Value::Array(all) => all.iter_mut().for_each(|one| replace(one, at, by)),
        serde_json::Value::Object(all) => all.values_mut().for_each(|one| replace(one, at, by)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_records_are_read_the_same_after_a_stop(
        records in prop::collection::vec(any_json(), 1..8),
        garbage in "\\PC{0,40}",
    ) {
        let records: Vec<String> = records.iter().map(ToString::to_string).collect();
        let lines: Vec<&str> = records.iter().map(String::as_str).chain([garbage.as_str()]).collect();
        for (agent, file, _) in samples() {
            read_records(agent, &file, &lines);
            reader(agent, &file, Some(&garbage)).read(&records[0]);
            for record in &records {
                reader(agent, &file, Some(record)).read(&records[0]);
            }
        }
    }

    #[test]
    fn mutated_records_are_read_the_same_after_a_stop(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..60, any_json()), 1..12),
        order in any::<u64>(),
    ) {
        for (agent, file, lines) in samples() {
            let mut mutated: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            for (place, at, by) in &changes {
                let place = place.index(mutated.len());
                let mut value: serde_json::Value = serde_json::from_str(&mutated[place]).unwrap();
                replace(&mut value, &mut at.clone(), by);
                mutated[place] = value.to_string();
            }
            let half = mutated.len() / 2;
            mutated.rotate_left((order % half as u64) as usize);
            let lines: Vec<&str> = mutated.iter().map(String::as_str).collect();
            let read = read_records(agent, &file, &lines);
            recorded_messages(&lines, &read);
        }
    }
}
