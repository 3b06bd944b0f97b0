//! Rows of opencode. The samples are those of version 1.18.33, as the query gives them: a session that was
//! begun and resumed, its subagent's, and this one's as they were while it worked. `database.sql` makes the
//! database that they are from.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::*;
use crate::tests::record_lines::{
    read_mutated, read_records, record_lines, records_file, told_records, told_usage,
};
use crate::{ReadRecord, RecordText};

const ROWS: &str = include_str!("../samples/rows.jsonl");
const SUBAGENT: &str = include_str!("../samples/rows-subagent.jsonl");
const LIVE: &str = include_str!("../samples/rows-live.jsonl");

fn told(records: &[&str]) -> Vec<String> {
    told_records(&KEPT, &records_file(None), records)
}

fn told_of<'a>(lines: &'a [String], beginning: &str) -> Vec<&'a str> {
    lines.iter().filter_map(|line| line.strip_prefix(beginning)).collect()
}

#[test]
fn a_session_in_two_processes() {
    let lines = told(&ROWS.lines().collect::<Vec<_>>());
    assert_eq!(told_of(&lines, "unknown"), Vec::<&str>::new());
    assert_eq!(told_of(&lines, "back"), Vec::<&str>::new());
    assert_eq!(
        lines[0],
        "session id=ses_e0a8a7076fferTFOcBDt9QiR2r workspace=/tmp/work-sample/project model=sample-model title=A greeting in five languages version=1.18.33"
    );
    // The story has two prompts, 20 calls with their results, and two that fail.
    let users = told_of(&lines, r#"message {"role":"user","content":"#);
    assert_eq!(users.len(), 2);
    assert!(users[0].starts_with(r#""\"Please make every greeting"#));
    assert!(users[1].starts_with(r#""\"Greet in Japanese"#));
    let finished = told_of(&lines, "tool.finished ");
    assert_eq!(finished.len(), 20);
    assert_eq!(told_of(&lines, "tool.called ").len(), 20);
    let failed: Vec<_> = finished.iter().filter(|data| data.contains(r#""ok":false"#)).collect();
    assert_eq!(failed.len(), 2);
    assert!(failed[0].starts_with(r#"{"call":"call_05","ok":false,"result":{"exit_code":3,"#));
    assert!(failed[1].starts_with(r#"{"call":"call_14","ok":false,"result":"File not found: "#));
    let image = r#"{"type":"image","source":{"type":"base64","media_type":"image/png","#;
    assert_eq!(finished.iter().filter(|data| data.contains(image)).count(), 1);
    let calls = lines.iter().filter(|line| line.contains(r#"[{"type":"tool_call""#)).count();
    assert_eq!(calls, 20);
    let answer = "message of msg_1f575facb001DV70f1D6xQtbxl ";
    let first: Vec<_> = told_of(&lines, answer);
    assert_eq!(first.len(), 3, "a thought, a text, and a call");
    assert!(first[0].starts_with(r#"{"role":"assistant","content":[{"type":"thinking""#));
    assert_eq!(
        first[1],
        r#"{"role":"assistant","content":"I will look at the project first. 👀"}"#
    );
    assert!(first[2].contains(r#""call":"call_01","name":"todowrite","arguments":{"todos":["#));
    let touched: BTreeSet<_> = told_of(&lines, "file.touched ").into_iter().collect();
    let of = |name: &str, op: &str| {
        format!(r#"{{"path":"/tmp/work-sample/project/{name}","op":"{op}"}}"#)
    };
    for (name, op) in [
        ("README.md", "read"),
        ("greet.py", "read"),
        ("greet.py", "write"),
        ("logo.png", "read"),
        ("test_greet.py", "write"),
        ("CHANGES.md", "write"),
    ] {
        assert!(touched.contains(of(name, op).as_str()), "{name} {op} {touched:?}");
    }
    let written = of("CHANGES.md", "write");
    assert_eq!(told_of(&lines, "file.touched ").iter().filter(|data| **data == written).count(), 1);
}

#[test]
fn a_subagents_session_names_its_parent() {
    let lines = told(&SUBAGENT.lines().collect::<Vec<_>>());
    assert!(lines[0].starts_with("session id=ses_e0a88bd82ffe5Z71R6pt2Dk1Lx "));
    assert!(lines[0].ends_with(" parent=ses_e0a8a7076fferTFOcBDt9QiR2r"));
    assert_eq!(told_of(&lines, "tool.finished ").len(), 2);
}

/// The tokens of the rows of messages, which the reader does not look at.
#[test]
fn tokens_are_those_of_an_independent_count() {
    for (rows, answers) in [(ROWS, 19), (SUBAGENT, 3), (LIVE, 3)] {
        let mut counted = BTreeMap::new();
        for row in rows.lines() {
            let row: Value = serde_json::from_str(row).unwrap();
            let tokens = &row["data"]["tokens"];
            if row["table"] == "message" && tokens["total"].is_u64() {
                let number = |name: &str| tokens.pointer(name).unwrap().as_u64().unwrap();
                let used = (
                    number("/input") + number("/cache/read") + number("/cache/write"),
                    number("/output") + number("/reasoning"),
                    number("/cache/read"),
                );
                counted.insert(row["id"].as_str().unwrap().to_owned(), used);
            }
        }
        let mut reader = opencode_reader(&records_file(None), None);
        let reads = read_records(&mut *reader, &rows.lines().collect::<Vec<_>>());
        let told: BTreeMap<_, _> = told_usage(&reads)
            .into_iter()
            .map(|(id, used)| (id, (used.input_tokens, used.output_tokens, used.cache_read_tokens)))
            .collect();
        assert_eq!(told, counted);
        assert_eq!(told.len(), answers);
        assert!(told.values().all(|used| *used == (1200, 64, 800)));
    }
}

/// The messages by the parts they are from, the newest of each, and the results.
fn conversation(rows: &str) -> (BTreeMap<String, String>, Vec<String>) {
    let mut reader = opencode_reader(&records_file(None), None);
    let (mut messages, mut rest) = (BTreeMap::new(), Vec::new());
    for read in read_records(&mut *reader, &rows.lines().collect::<Vec<_>>()) {
        let lines = record_lines(&read);
        let ReadRecord { id, message, .. } = read;
        if let Some(message) = message {
            let RecordText::Made(data) = message.text else { panic!() };
            let id = id.unwrap();
            assert_eq!(
                message.replaces.as_ref().is_some_and(|old| *old == id),
                messages.contains_key(&id)
            );
            messages.insert(id, data);
        }
        let events = ["tool.finished", "file.touched", "usage.recorded"];
        rest.extend(
            lines.into_iter().filter(|line| events.iter().any(|kind| line.starts_with(kind))),
        );
    }
    rest.sort();
    (messages, rest)
}

#[test]
fn rows_that_are_updated_give_the_same_in_the_end() {
    assert_eq!(conversation(LIVE), conversation(SUBAGENT));
    let lines = told(&LIVE.lines().collect::<Vec<_>>());
    assert_eq!(told_of(&lines, "unknown"), Vec::<&str>::new());
    assert_eq!(told_of(&lines, "back"), Vec::<&str>::new());
    assert!(lines.iter().any(|line| line.starts_with("message of ") && line.contains(" for prt_")));
}

#[test]
fn mutated_rows_are_read() {
    read_mutated(&KEPT, &records_file(None), &ROWS.lines().collect::<Vec<_>>(), 10);
    read_mutated(&KEPT, &records_file(None), &LIVE.lines().collect::<Vec<_>>(), 40);
}

fn part(id: &str, data: &str) -> String {
    format!(
        r#"{{"table":"part","id":"{id}","message_id":"m1","time_created":5,"role":"assistant","model":"m","summary":0,"data":{data}}}"#
    )
}

fn told_parts(parts: &[(&str, &str)]) -> Vec<String> {
    let parts: Vec<String> = parts.iter().map(|(id, data)| part(id, data)).collect();
    told(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_call_that_ends_later() {
    let called = r#"{"type":"tool","tool":"edit","callID":"c1","state":{"status":"running","input":{"filePath":"a"}}}"#;
    let ended = r#"{"type":"tool","tool":"edit","callID":"c1","state":{"status":"completed","input":{"filePath":"a"},"output":"done","time":{"start":6,"end":7}}}"#;
    let struck = r#"{"type":"tool","tool":"edit","callID":"c1","state":{"status":"completed","input":{"filePath":"a"},"output":"done","time":{"start":6,"end":7,"compacted":9}}}"#;
    let pending =
        r#"{"type":"tool","tool":"edit","callID":"c1","state":{"status":"pending","input":{}}}"#;
    let message = r#"{"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"edit","arguments":{"filePath":"a"}}]}"#;
    assert_eq!(
        told_parts(&[("p1", pending), ("p1", called), ("p1", ended), ("p1", struck)]),
        [
            r#"message of m1 {"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"edit","arguments":{}}]}"#.to_owned(),
            format!("message of m1 for p1 {message}"),
            r#"tool.called {"call":"c1","name":"edit","observed":true}"#.to_owned(),
            r#"tool.finished {"call":"c1","ok":true,"result":"done"}"#.to_owned(),
            r#"file.touched {"path":"a","op":"write"}"#.to_owned(),
        ]
    );
    let mut reader = opencode_reader(&records_file(None), None);
    let reads = read_records(&mut *reader, &[&part("p1", called), &part("p1", ended)]);
    assert_eq!(reads[0].occurred.unwrap().as_millis(), 5);
    assert_eq!(reads[1].events[1].occurred.unwrap().as_millis(), 7);
    assert_eq!((reads[0].id.as_deref(), reads[1].id.as_deref()), (Some("p1"), None));
}

#[test]
fn a_part_that_was_forgotten_has_told_its_results() {
    let ended = r#"{"type":"tool","tool":"x","callID":"c1","state":{"status":"completed","input":{},"output":"o"}}"#;
    let mut parts: Vec<String> = (100..300).map(|id| part(&format!("p{id}"), ended)).collect();
    parts.push(part("p100", ended));
    let lines = told(&parts.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(told_of(&lines, "tool.finished").len(), 200);
    assert!(lines.last().unwrap().starts_with("message of m1 for p100 "));
}

#[test]
fn parts_of_every_sort() {
    assert_eq!(
        told_parts(&[
            ("p1", r#"{"type":"step-start","snapshot":"a"}"#),
            ("p2", r#"{"type":"reasoning","text":""}"#),
            ("p2", r#"{"type":"reasoning","text":"hm"}"#),
            ("p3", r#"{"type":"text","text":" "}"#),
            ("p4", r#"{"type":"text","text":"shown","ignored":true}"#),
            ("p5", r#"{"type":"file","mime":"image/png","url":"data:image/png;base64,QQ=="}"#),
            (
                "p6",
                r#"{"type":"retry","attempt":1,"error":{"name":"APIError","data":{"message":"slow"}}}"#
            ),
            (
                "p6",
                r#"{"type":"retry","attempt":2,"error":{"name":"APIError","data":{"message":"slow"}}}"#
            ),
            ("p7", r#"{"type":"patch","hash":"h","files":["a","b",7]}"#),
            (
                "p8",
                r#"{"type":"step-finish","tokens":{"input":1,"output":2,"reasoning":3,"cache":{"read":4,"write":5}},"cost":0.5}"#
            ),
            (
                "p8",
                r#"{"type":"step-finish","tokens":{"input":1,"output":2,"reasoning":3,"cache":{"read":4,"write":5}},"cost":0.5,"x":1}"#
            ),
            ("p9", r#"{"type":"step-finish","tokens":{}}"#),
            ("q1", r#"{"type":"agent","name":"x"}"#),
            ("q2", r#"{"type":"subtask","prompt":"x"}"#),
            ("q3", r#"{"type":"compaction","auto":true}"#),
            ("q4", r#"{"type":"snapshot","snapshot":"a"}"#),
            ("q5", r#"{"type":"of_tomorrow"}"#),
            ("q6", r#""no object""#),
        ]),
        [
            r#"message of m1 {"role":"assistant","content":[{"type":"thinking","thinking":"hm"}]}"#,
            r#"message of m1 {"role":"assistant","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}}]}"#,
            r#"log.recorded {"level":"warn","text":"slow"}"#,
            r#"file.touched {"path":"a","op":"write"}"#,
            r#"file.touched {"path":"b","op":"write"}"#,
            r#"usage.recorded {"id":"m1","model":"m","input_tokens":10,"output_tokens":5,"cache_read_tokens":4,"cache_write_tokens":5,"reasoning_tokens":3,"cost_micros":500000}"#,
            "unknown part/of_tomorrow",
            "unknown part/",
        ]
    );
    assert_eq!(
        told(&["7", "{}", r#"{"table":"new","id":"x"}"#, r#"{"table":"todo","id":"s/0"}"#]),
        ["unknown ", "unknown ", "unknown new"]
    );
}

#[test]
fn a_file_that_a_call_wrote_is_not_told_again_by_the_patch() {
    let write = r#"{"type":"tool","tool":"write","callID":"c1","state":{"status":"completed","input":{"filePath":"a"},"output":""}}"#;
    let lines = told_parts(&[("p1", write), ("p2", r#"{"type":"patch","files":["a","made"]}"#)]);
    assert_eq!(
        told_of(&lines, "file.touched "),
        [r#"{"path":"a","op":"write"}"#, r#"{"path":"made","op":"write"}"#]
    );
}

#[test]
fn a_summary_is_a_compaction() {
    let summary = |text: &str| {
        part("p1", &format!(r#"{{"type":"text","text":"{text}"}}"#))
            .replace(r#""summary":0"#, r#""summary":1"#)
    };
    let parts = [summary(""), summary("## Goal"), summary("## Goal again")];
    let lines = told(&parts.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(lines, ["compaction ## Goal"]);
}

fn message(id: &str, after: &str, data: &str) -> String {
    let after = if after.is_empty() { "null".to_owned() } else { format!("\"{after}\"") };
    format!(r#"{{"table":"message","id":"{id}","time_created":1,"after":{after},"data":{data}}}"#)
}

#[test]
fn messages_that_were_deleted_are_gone_before_the_next() {
    let user = r#"{"role":"user"}"#;
    let back = |rows: &[(&str, &str)]| {
        let rows: Vec<String> = rows.iter().map(|(id, after)| message(id, after, user)).collect();
        let lines = told(&rows.iter().map(String::as_str).collect::<Vec<_>>());
        lines.join(", ")
    };
    let (one, two, three) = (("m1", ""), ("m2", "m1"), ("m3", "m2"));
    assert_eq!(back(&[one, two, three]), "");
    assert_eq!(back(&[one, two, three, two, one]), "", "rows that were updated");
    assert_eq!(back(&[one, two, three, ("m4", "m1")]), "back before m2");
    assert_eq!(back(&[one, two, ("m4", "")]), "back before m1");
    assert_eq!(back(&[one, ("m4", "m1"), ("m2", "m1"), ("m4", "m2")]), "", "one in between");
    assert_eq!(back(&[one, two, ("m4", "never-seen")]), "");
    let rows: Vec<String> =
        (100..200).map(|id| message(&format!("m{id}"), &format!("m{}", id - 1), user)).collect();
    let lines = told(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(lines, Vec::<String>::new());
}

#[test]
fn a_message_has_an_id_where_it_is_first() {
    let row = message("m1", "", r#"{"role":"assistant","modelID":"m"}"#);
    let mut reader = opencode_reader(&records_file(None), None);
    let reads = read_records(&mut *reader, &[&row, &row]);
    assert_eq!((reads[0].id.as_deref(), reads[1].id.as_deref()), (Some("m1"), None));
    assert_eq!(reads[0].details.model.as_deref(), Some("m"));
}

#[test]
fn an_error_is_told_once() {
    let failed = message(
        "m1",
        "",
        r#"{"role":"assistant","error":{"name":"APIError","data":{"message":"Slow down"}}}"#,
    );
    let named = message(
        "m2",
        "m1",
        r#"{"role":"assistant","error":{"name":"MessageAbortedError","data":{}}}"#,
    );
    assert_eq!(
        told(&[&failed, &failed, &named]),
        [
            r#"log.recorded {"level":"error","text":"Slow down"}"#,
            r#"log.recorded {"level":"error","text":"MessageAbortedError"}"#,
        ]
    );
    assert_eq!(told(&[&message("m1", "", r#""broken""#)]), ["unknown message/"]);
}

#[test]
fn a_title_that_nobody_gave_is_none() {
    let row = |title: &str| format!(r#"{{"table":"session","id":"s","title":"{title}"}}"#);
    assert_eq!(
        told(&[&row("New session - 2026-11-19T20:18:04.813Z"), &row("Greetings")]),
        ["session id=s", "session id=s title=Greetings"]
    );
}

#[test]
fn the_directory_and_the_way_back() {
    let home = Path::new("/home/ada");
    let usual = Path::new("/home/ada/.local/share/opencode");
    assert_eq!((KEPT.directory)(&|_| None, home), usual);
    assert_eq!((KEPT.directory)(&|_| Some(OsString::new()), home), usual);
    let moved = |name: &str| (name == "XDG_DATA_HOME").then(|| OsString::from("/srv"));
    assert_eq!((KEPT.directory)(&moved, home), Path::new("/srv/opencode"));
    assert_eq!((KEPT.resume)("s1"), ["--session", "s1"]);
}

#[test]
fn a_memory_that_is_not_understood_is_none() {
    let fresh = RowReader::new(None).memory();
    for memory in ["", "[]", "7", r#"{"parts":[7],"messages":{},"errors":["x"],"writer":"-"}"#] {
        assert_eq!(RowReader::new(Some(memory)).memory(), fresh, "{memory}");
    }
}
