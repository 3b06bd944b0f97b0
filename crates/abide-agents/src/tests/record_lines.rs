//! What a reader of an agent's own files makes of records, as lines.

use abide_model::{Fact, LaneId, Usage};

use crate::{
    KeptContent, KeptFile, KeptSessions, ReadRecord, RecordReader, RecordText, RewindPlace,
    SessionDetails,
};

/// A file of records.
pub(crate) fn records_file(lane: Option<&str>) -> KeptFile {
    KeptFile {
        session: lane.map(|_| "parent".to_owned()),
        lane: lane.map(LaneId::from),
        name: "records".to_owned(),
        content: KeptContent::Lines,
    }
}

/// What is read of these records, one after the other.
pub(crate) fn read_records(reader: &mut dyn RecordReader, records: &[&str]) -> Vec<ReadRecord> {
    records.iter().map(|record| reader.read(record)).collect()
}

/// The same as lines, and the same again where the reader is made anew at each record.
pub(crate) fn told_records(kept: &KeptSessions, file: &KeptFile, records: &[&str]) -> Vec<String> {
    let mut reader = (kept.reader)(file, None);
    let whole: Vec<_> = read_records(&mut *reader, records).iter().flat_map(record_lines).collect();
    let mut memory: Option<String> = None;
    let mut cut = Vec::new();
    for record in records {
        let mut reader = (kept.reader)(file, memory.as_deref());
        cut.extend(record_lines(&reader.read(record)));
        let next = reader.memory();
        assert!(next.starts_with('{') && next.len() < 8 << 10, "{} bytes", next.len());
        memory = Some(next);
    }
    assert_eq!(cut, whole);
    assert_eq!(memory.unwrap_or(reader.memory()), reader.memory());
    whole
}

/// A record as lines: what is not known, where the conversation goes back, the message, the events.
pub(crate) fn record_lines(read: &ReadRecord) -> Vec<String> {
    let mut lines = Vec::new();
    if !read.known {
        lines.push(format!("unknown {}", read.sort));
    }
    match &read.back {
        Some(RewindPlace::After(id)) => lines.push(format!("back after {id}")),
        Some(RewindPlace::Before(id)) => lines.push(format!("back before {id}")),
        Some(RewindPlace::Beginning) => lines.push("back to the beginning".to_owned()),
        None => {}
    }
    assert!(read.compaction.is_none() || read.message.is_none());
    lines.extend(read.compaction.iter().map(|text| format!("compaction {text}")));
    if let Some(message) = &read.message {
        let RecordText::Made(data) = &message.text else { panic!("{message:?}") };
        let answer = message.answer.iter().map(|answer| format!(" of {answer}"));
        let replaces = message.replaces.iter().map(|id| format!(" for {id}"));
        let marks: String = answer.chain(replaces).collect();
        lines.push(format!("message{marks} {data}"));
    }
    for event in &read.events {
        lines.push(format!("{} {}", event.kind, event.data.as_str()));
    }
    if read.details != SessionDetails::default() {
        let all = [
            ("id", &read.details.id),
            ("workspace", &read.details.workspace),
            ("branch", &read.details.branch),
            ("model", &read.details.model),
            ("title", &read.details.title),
            ("version", &read.details.version),
            ("parent", &read.details.parent),
        ];
        let all =
            all.iter().filter_map(|(name, value)| Some(format!(" {name}={}", value.as_ref()?)));
        lines.push(format!("session{}", all.collect::<String>()));
    }
    lines
}

/// The usage that these records tell, by the id that it is for.
pub(crate) fn told_usage(reads: &[ReadRecord]) -> std::collections::BTreeMap<String, Usage> {
    let mut all = std::collections::BTreeMap::<String, Usage>::new();
    for event in reads.iter().flat_map(|read| &read.events) {
        if let Fact::Usage(record) = Fact::decode(&event.kind, &event.data).unwrap() {
            all.entry(record.id.unwrap()).or_default().add(&record.usage);
        }
    }
    all
}

/// Changes records in many ways, by a fixed seed, and reads them; all that a reader must do is live.
/// What is left as it was is known still.
pub(crate) fn read_mutated(kept: &KeptSessions, file: &KeptFile, records: &[&str], rounds: u64) {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below.max(1) as u64).unwrap()
    };
    for _ in 0..rounds {
        let mut reader = (kept.reader)(file, None);
        for record in records {
            if next(3) > 0 {
                let read = reader.read(record);
                assert!(read.known, "{record}");
                continue;
            }
            let mut bytes = record.as_bytes().to_vec();
            for _ in 0..=next(4) {
                let at = next(bytes.len());
                match next(5) {
                    0 => bytes.truncate(at),
                    1 => bytes.splice(at..at, *b"{\"type\":null,").for_each(drop),
                    2 => bytes[at] = b"\"{}[]:,0nu\\"[next(11)],
                    3 => {
                        let end = (at + next(40)).min(bytes.len());
                        bytes.drain(at..end).for_each(drop);
                    }
                    _ => {
                        let other = records[next(records.len())].as_bytes();
                        let from = next(other.len());
                        bytes.splice(at.., other[from..].iter().copied()).for_each(drop);
                    }
                }
                if bytes.is_empty() {
                    break;
                }
            }
            reader.read(&String::from_utf8_lossy(&bytes));
            let memory = reader.memory();
            reader = (kept.reader)(file, Some(&memory));
            assert_eq!(reader.memory(), memory);
        }
    }
}
