//! The transcript: written, read back, cut, altered.

use abide_model::{Event, NewEvent, Seq, Timestamp};
use proptest::prelude::*;

use super::generate::events;
use crate::{ParseReason, ResumePoint, TranscriptChunks, TranscriptWriter, parse};

fn write(events: &[Event]) -> String {
    let mut writer = TranscriptWriter::new();
    events.iter().for_each(|event| writer.push(event));
    writer.finish()
}

pub(crate) fn session(lines: &[&str]) -> Vec<Event> {
    let numbered = (1_u64..).zip(lines);
    numbered
        .map(|(seq, line)| {
            let at = 1_763_169_600_000 + i64::try_from(seq).unwrap() * 1500;
            NewEvent::parse(line).unwrap().into_event(Seq(seq), Timestamp::from_millis(at))
        })
        .collect()
}

#[test]
fn a_session_reads_like_a_story() {
    let events = session(&[
        r#"{"kind":"session.created","data":{"session":"019a8519-0200-7503-9294-f2065da4d5ae","title":"Fix the parser","agent":"coder"}}"#,
        r#"{"kind":"writer.opened","data":{"epoch":1,"by":"abide"}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":"The parser drops\nthe last line."}}"#,
        r#"{"kind":"turn.started","data":{"agent":"arbiter","role":"arbiter"}}"#,
        r#"{"kind":"turn.decided","data":{"selected":"coder","reason":"It is a bug."}}"#,
        r#"{"kind":"turn.finished","data":{"status":"done"}}"#,
        r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"text","text":"I run the tests."}]}}"#,
        r#"{"kind":"tool.called","data":{"call":"c1","name":"bash","arguments":{"command":"cargo test"}}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c1","ok":false,"result":"1 passed\n1 failed\n"}}"#,
        r#"{"kind":"tool.called","data":{"call":"c2","name":"edit","arguments":{"path":"src/parser.rs"}}}"#,
        r#"{"kind":"file.touched","data":{"path":"src/parser.rs","op":"write"}}"#,
        r#"{"kind":"turn.finished","data":{"status":"done","usage":{"input_tokens":1200,"output_tokens":34}}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c2"}}"#,
        r#"{"kind":"session.status","data":{"status":"completed","summary":"Fixed."}}"#,
        r#"{"kind":"writer.closed","data":{}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":"Once more."}}"#,
    ]);
    let text = write(&events);
    assert_eq!(parse(text.as_bytes()).unwrap(), events);
    insta::assert_snapshot!(text, @r#"
    === TASK edn9te ===
    Format: abide transcript 2
    Id: 019a8519-0200-7503-9294-f2065da4d5ae
    Created: 2025-11-15T01:20:01.500Z
    Title: Fix the parser
    Agent: coder

    === REQUEST ===
    User:
        The parser drops
        the last line.

    @1 2025-11-15T01:20:01.500Z session.created {"session":"019a8519-0200-7503-9294-f2065da4d5ae","title":"Fix the parser","agent":"coder"}
    @2 2025-11-15T01:20:03.000Z writer.opened {"epoch":1,"by":"abide"}
    @3 2025-11-15T01:20:04.500Z message.added {"role":"user","content":<text>}
    @end 3 {"section":"request","created":"2025-11-15T01:20:01.500Z"} pHYQ5k4ZcDtt7r751ojm

    === EXECUTION ===

    --- Turn 1: arbiter ---
    Selected: coder
    Reason: It is a bug.
    Duration: 3s
    [Content]

    @4 2025-11-15T01:20:06.000Z turn.started {"agent":"arbiter","role":"arbiter"}
    @5 2025-11-15T01:20:07.500Z turn.decided {"selected":"coder","reason":"It is a bug."}
    @6 2025-11-15T01:20:09.000Z turn.finished {"status":"done"}
    @end 6 - cgucLRl-RM5eI6hUu3TQ

    --- Turn 2: coder ---
    Status: done
    Duration: 9s
    Tokens: 1,200 in, 34 out
    Tool Calls: 2
    [Content]
    Assistant:
        I run the tests.

    bash result:
        1 passed
        1 failed
        

    [Tool Log]
    01:20:13 bash cargo test -> failed, 18 bytes, 1.5s
    01:20:16 edit src/parser.rs -> no result yet

    @7 2025-11-15T01:20:10.500Z turn.started {"agent":"coder"}
    @8 2025-11-15T01:20:12.000Z message.added {"role":"assistant","content":[{"type":"text","text":<text>}]}
    @9 2025-11-15T01:20:13.500Z tool.called {"call":"c1","name":"bash","arguments":{"command":"cargo test"}}
    @10 2025-11-15T01:20:15.000Z tool.finished {"call":"c1","ok":false,"result":<text>}
    @11 2025-11-15T01:20:16.500Z tool.called {"call":"c2","name":"edit","arguments":{"path":"src/parser.rs"}}
    @12 2025-11-15T01:20:18.000Z file.touched {"path":"src/parser.rs","op":"write"}
    @13 2025-11-15T01:20:19.500Z turn.finished {"status":"done","usage":{"input_tokens":1200,"output_tokens":34}}
    @end 13 {"section":"execution","in_turn":true,"created":"2025-11-15T01:20:01.500Z","places":{"last_turn":2,"open_turns":{},"changes":[[4,"",1],[6,"",null],[7,"",2],[13,"",null]]},"calls":[{"call":"c2","name":"edit","target":"src/parser.rs","at":"2025-11-15T01:20:16.500Z","turn":2,"shown":true}],"files":["src/parser.rs"]} mavfT2nbsGuqE_WL3a0Z

    [Tool Log]
    01:20:16 edit src/parser.rs -> ok, 4.5s

    === RESULT ===
    Status: completed
    Duration: 21s
    Files Modified: src/parser.rs
    Summary:
        Fixed.

    @14 2025-11-15T01:20:21.000Z tool.finished {"call":"c2"}
    @15 2025-11-15T01:20:22.500Z session.status {"status":"completed","summary":<text>}
    @end 15 - S3sgE6eM9k4sTWk6mwZe

    @16 2025-11-15T01:20:24.000Z writer.closed {}
    @end 16 - QB1iHSe__WkUPev21eLA

    === EXECUTION ===
    User:
        Once more.

    @17 2025-11-15T01:20:25.500Z message.added {"role":"user","content":<text>}
    @end 17 - 8CBAahdVYtgSOiNbo8Ad
    "#);
}

/// A transcript that an earlier version wrote: each stamp follows the texts of its event.
const FIRST: &str = "\
=== TASK edn9te ===
Format: abide transcript 1
Id: 019a8519-0200-7503-9294-f2065da4d5ae
Created: 2025-11-15T01:20:01.500Z
Title: Fix the parser
Agent: coder

@1 2025-11-15T01:20:01.500Z session.created {\"session\":\"019a8519-0200-7503-9294-f2065da4d5ae\",\"title\":\"Fix the parser\",\"agent\":\"coder\"}
@2 2025-11-15T01:20:03.000Z writer.opened {\"epoch\":1,\"by\":\"abide\"}

=== REQUEST ===
User:
    The parser drops
    the last line.
@3 2025-11-15T01:20:04.500Z message.added {\"role\":\"user\",\"content\":<text>}

@end 3 {\"section\":\"request\",\"created\":\"2025-11-15T01:20:01.500Z\"} 9Yq-CDAzYzF3iXpvmECx
";

#[test]
fn a_transcript_of_the_first_version_is_read_and_gone_on_with() {
    let events = session(&[
        r#"{"kind":"session.created","data":{"session":"019a8519-0200-7503-9294-f2065da4d5ae","title":"Fix the parser","agent":"coder"}}"#,
        r#"{"kind":"writer.opened","data":{"epoch":1,"by":"abide"}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":"The parser drops\nthe last line."}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":"It does."}}"#,
    ]);
    assert_eq!(parse(FIRST.as_bytes()).unwrap(), events[..3]);
    let point = ResumePoint::find(FIRST.as_bytes(), 0).unwrap();
    assert_eq!(point.offset, FIRST.len() as u64);
    let mut writer = TranscriptWriter::resume(point);
    events.iter().for_each(|event| writer.push(event));
    let text = [FIRST, &writer.finish()].concat();
    assert_eq!(parse(text.as_bytes()).unwrap(), events);
}

#[test]
fn a_call_is_told_with_size_exit_code_and_duration() {
    let text = write(&session(&[
        r#"{"kind":"tool.called","data":{"call":"a","name":"bash"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"a","ok":false,"result":{"exit_code":101,"output":"no"}}}"#,
        r#"{"kind":"tool.called","data":{"call":"b","name":"read"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"b","result":"h\u00e9llo\n"}}"#,
        r#"{"kind":"tool.called","data":{"call":"c","name":"edit"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c"}}"#,
    ]));
    let log = "[Tool Log]\n01:20:01 bash -> failed, 31 bytes, exit code 101, 1.5s\n\
               01:20:04 read -> ok, 7 bytes, 1.5s\n01:20:07 edit -> ok, 1.5s\n";
    assert!(text.contains(log), "{text}");
}

#[test]
fn a_turn_over_several_chunks_counts_all_its_calls() {
    let call = r#"{"kind":"tool.called","data":{"call":"c","name":"bash"}}"#;
    let text = write(&session(&[
        r#"{"kind":"turn.started","data":{"agent":"coder"}}"#,
        call,
        r#"{"kind":"session.status","data":{"status":"idle"}}"#,
        call,
        r#"{"kind":"turn.finished","data":{}}"#,
    ]));
    assert!(text.contains("--- Turn 1: coder ---\nStatus: going on\nTool Calls: 1\n"), "{text}");
    assert!(text.contains("Status: finished\nDuration: 6s\nTool Calls: 2\n"), "{text}");
}

#[test]
fn parallel_turns_keep_the_order_of_the_journal() {
    let events = session(&[
        r#"{"kind":"turn.started","lane":"a","data":{"agent":"one"}}"#,
        r#"{"kind":"turn.started","lane":"b","data":{"agent":"two"}}"#,
        r#"{"kind":"message.added","lane":"a","data":{"role":"assistant","content":"A"}}"#,
        r#"{"kind":"message.added","lane":"b","data":{"role":"assistant","content":"B"}}"#,
        r#"{"kind":"message.added","lane":"a","data":{"role":"assistant","content":"C"}}"#,
        r#"{"kind":"turn.finished","lane":"a","data":{}}"#,
        r#"{"kind":"turn.finished","lane":"b","data":{}}"#,
    ]);
    let text = write(&events);
    assert_eq!(parse(text.as_bytes()).unwrap(), events);
    let headings: Vec<_> = text.lines().filter(|line| line.starts_with("--- ")).collect();
    assert_eq!(
        headings,
        [
            "--- Turn 1: one ---",
            "--- Turn 2: two ---",
            "--- Turn 1: one ---",
            "--- Turn 2: two (continued) ---",
            "--- Turn 1: one (continued) ---",
            "--- Turn 2: two ---",
        ]
    );
    assert!(text.contains("Assistant (lane b):\n    B\n"), "{text}");
}

#[test]
fn a_writer_takes_each_event_once() {
    let events = session(&[r#"{"kind":"x.a","data":{}}"#; 3]);
    let mut writer = TranscriptWriter::new();
    for event in events.iter().chain(&events) {
        writer.push(event);
    }
    assert_eq!(writer.last(), Seq(3));
    assert_eq!(writer.finish(), write(&events));
}

#[test]
fn an_empty_transcript_has_no_events() {
    assert_eq!(TranscriptWriter::new().finish(), "");
    assert_eq!(parse(b"").unwrap(), []);
    assert_eq!(ResumePoint::find(b"", 0), None);
    assert_eq!(parse(b"hello\nworld\n").unwrap_err().reason, ParseReason::NotATranscript);
    let newer = b"=== TASK x ===\nFormat: abide transcript 3\n";
    assert_eq!(parse(newer).unwrap_err().reason, ParseReason::NotATranscript);
}

#[test]
fn large_things_stay_in_bounds() {
    let long = "x".repeat(10 << 20);
    let line = format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{long}"}}}}"#);
    let mut lines = vec![line.as_str()];
    lines.resize(3000, r#"{"kind":"tool.called","data":{"call":"c","name":"n"}}"#);
    let events = session(&lines);
    let mut writer = TranscriptWriter::new();
    let mut text = String::new();
    for event in &events {
        writer.push(event);
        text.extend(writer.take_ready());
    }
    text.push_str(&writer.finish());
    assert_eq!(parse(text.as_bytes()).unwrap(), events);
    assert!(TranscriptChunks::new(text.as_bytes()).all(|chunk| chunk.unwrap().len() <= 1000));
    // The last chunk is enough to go on.
    let tail = &text.as_bytes()[text.len() - 300_000..];
    let start = u64::try_from(text.len() - 300_000).unwrap();
    let point = ResumePoint::find(tail, start).unwrap();
    assert_eq!((point.last, Some(point)), (Seq(3000), ResumePoint::find(text.as_bytes(), 0)));
    assert_eq!(ResumePoint::find(&tail[290_000..], start + 290_000), None);
}

/// A session that has much to keep in mind, and then many writers that record one event each.
fn short_writers(writers: usize) -> Vec<Event> {
    let mut lines = Vec::new();
    for at in 0..40 {
        let path = format!("a/rather/long/path/to/some/file/that/was/written/{at}.rs");
        lines.push(format!(r#"{{"kind":"file.touched","data":{{"path":"{path}","op":"write"}}}}"#));
        lines.push(format!(
            r#"{{"kind":"tool.called","data":{{"call":"call-{at}","name":"edit","arguments":{{"path":"{path}"}}}}}}"#
        ));
        lines.push(format!(
            r#"{{"kind":"turn.started","lane":"l{at}","data":{{"agent":"coder"}}}}"#
        ));
    }
    for at in 0..writers {
        lines.push(format!(r#"{{"kind":"writer.opened","data":{{"epoch":{at}}}}}"#));
        lines.push(format!(
            r#"{{"kind":"tool.called","data":{{"call":"s{at}","name":"bash","arguments":{{"command":"ls"}}}}}}"#
        ));
        lines.push(r#"{"kind":"writer.closed","data":{}}"#.to_owned());
    }
    session(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn many_short_writers_do_not_make_it_grow() {
    let events = short_writers(200);
    let text = write(&events);
    let journal: usize = events.iter().map(|event| event.to_json().len()).sum();
    assert!(text.len() < 2 * journal, "{} bytes of a journal of {journal}", text.len());
    assert_eq!(parse(text.as_bytes()).unwrap(), events);
    // Each of them goes on from the file's end, of which a little is enough.
    let mut file = String::new();
    while file.len() < text.len() {
        let start = file.len().saturating_sub(100_000);
        let point = ResumePoint::find(&file.as_bytes()[start..], start as u64);
        assert_eq!(point.is_some(), !file.is_empty());
        let mut writer = point.map_or_else(TranscriptWriter::new, TranscriptWriter::resume);
        for event in &events[usize::try_from(writer.last().0).unwrap()..] {
            writer.push(event);
            if let Some(ready) = writer.take_ready() {
                file.push_str(&ready);
                break;
            }
        }
    }
    assert_eq!(file, text);
}

#[test]
fn a_chunk_that_is_damaged_is_passed_over_for_the_one_before() {
    let text = write(&short_writers(40));
    let ends = ends(&text);
    let whole = |bytes: &[u8], start: usize| {
        let point = ResumePoint::find(&bytes[start..], start as u64)?;
        usize::try_from(point.offset).ok()
    };
    for damaged in 1..=20 {
        let mut bytes = text.clone().into_bytes();
        let at = ends[ends.len() - 1 - damaged] + 5;
        bytes[at] ^= 1;
        let before = ends[ends.len() - 1 - damaged];
        assert_eq!(whole(&bytes, 0), Some(before));
        assert!(whole(&bytes, before / 2).is_none_or(|found| found == before));
        assert_eq!(whole(&bytes, at), None);
        // Going on there gives what was there.
        let point = ResumePoint::find(&bytes, 0).unwrap();
        let mut writer = TranscriptWriter::resume(point);
        short_writers(40).iter().for_each(|event| writer.push(event));
        assert_eq!(writer.finish(), text[before..]);
    }
}

/// Where the chunks of a transcript end.
fn ends(text: &str) -> Vec<usize> {
    let mut at = 0;
    let mut ends = vec![0];
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.starts_with("@end ") {
            ends.push(at);
        }
    }
    ends
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(events in events(24)) {
        let text = write(&events);
        prop_assert_eq!(parse(text.as_bytes()).unwrap(), events);
        let hidden = |c: char| c.is_control() && c != '\n' && c != '\t' || ('\u{202a}'..='\u{202e}').contains(&c);
        prop_assert!(!text.contains(hidden));
    }

    #[test]
    fn going_on_gives_the_same_bytes(events in events(24), stops in prop::collection::vec(any::<prop::sample::Index>(), 3)) {
        let whole = write(&events);
        // The chunks as they become ready, and a new writer from the file at each stop.
        let mut file = String::new();
        let mut writer = TranscriptWriter::new();
        for (at, event) in events.iter().enumerate() {
            writer.push(event);
            if stops.iter().any(|stop| stop.index(events.len()) == at) {
                file.extend(writer.take_ready());
                let point = ResumePoint::find(file.as_bytes(), 0);
                let last = point.as_ref().map_or(Seq::ZERO, |point| point.last);
                writer = point.map_or_else(TranscriptWriter::new, |point| {
                    file.truncate(usize::try_from(point.offset).unwrap());
                    TranscriptWriter::resume(point)
                });
                for event in events[..=at].iter().filter(|event| event.seq > last) {
                    writer.push(event);
                }
            }
        }
        file.push_str(&writer.finish());
        prop_assert_eq!(file, whole);
    }

    #[test]
    fn a_chunk_forced_to_end_anywhere_loses_nothing(events in events(16), stop in any::<prop::sample::Index>()) {
        let stop = stop.index(events.len() + 1);
        let mut file = write(&events[..stop]);
        let mut writer = ResumePoint::find(file.as_bytes(), 0)
            .map_or_else(TranscriptWriter::new, TranscriptWriter::resume);
        events.iter().for_each(|event| writer.push(event));
        file.push_str(&writer.finish());
        prop_assert_eq!(parse(file.as_bytes()).unwrap(), events);
    }

    #[test]
    fn a_cut_leaves_whole_chunks_or_an_error(events in events(12), cut in any::<prop::sample::Index>()) {
        let text = write(&events);
        let cut = cut.index(text.len() + 1);
        let part = &text.as_bytes()[..cut];
        let whole = ends(&text).into_iter().filter(|end| *end <= cut).max().unwrap();
        let kept: Vec<_> = TranscriptChunks::new(part).map_while(Result::ok).flatten().collect();
        prop_assert_eq!(&kept, &events[..kept.len()]);
        prop_assert_eq!(&kept, &parse(&text.as_bytes()[..whole]).unwrap());
        match parse(part) {
            Ok(read) => prop_assert_eq!(read, kept),
            Err(error) => {
                prop_assert_eq!(error.reason, ParseReason::Unfinished);
                prop_assert!(error.offset as usize == whole);
            }
        }
        let point = ResumePoint::find(part, 0);
        prop_assert_eq!(point.map_or(0, |point| point.offset), whole as u64);
    }

    #[test]
    fn an_altered_byte_is_noticed(events in events(12), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        prop_assume!(!events.is_empty());
        let text = write(&events);
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let read: Vec<_> = TranscriptChunks::new(&bytes).map_while(Result::ok).flatten().collect();
        prop_assert_eq!(&read, &events[..read.len()]);
        prop_assert!(parse(&bytes).is_err());
    }

    #[test]
    fn lost_and_swapped_chunks_are_noticed(events in events(24), which in any::<prop::sample::Index>()) {
        let text = write(&events);
        let ends = ends(&text);
        prop_assume!(ends.len() > 2);
        let which = which.index(ends.len() - 2);
        let (from, to) = (ends[which], ends[which + 1]);
        let lost = [&text[..from], &text[to..]].concat();
        prop_assert!(parse(lost.as_bytes()).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
        let _ = ResumePoint::find(&bytes, 0);
    }
}
