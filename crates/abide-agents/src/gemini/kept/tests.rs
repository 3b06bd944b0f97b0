//! Chats of Gemini CLI. The samples were written by version 0.61: a session that was begun and resumed, and
//! the file that is left where it was resumed.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::*;
use crate::tests::record_lines::{
    read_mutated, read_records, records_file, told_records, told_usage,
};

const FIRST: &str = include_str!("../samples/chat.jsonl");
const RESUMED: &str = include_str!("../samples/chat-resumed.jsonl");
const ABANDONED: &str = include_str!("../samples/chat-abandoned.jsonl");

fn told(records: &[&str]) -> Vec<String> {
    told_records(&KEPT, &records_file(None), records)
}

fn told_of(lines: &[String], beginning: &str) -> Vec<String> {
    lines.iter().filter_map(|line| line.strip_prefix(beginning)).map(str::to_owned).collect()
}

#[test]
fn a_session_in_two_processes() {
    let text = [FIRST, RESUMED].concat();
    let records: Vec<&str> = text.lines().collect();
    let lines = told(&records);
    assert_eq!(told_of(&lines, "unknown"), Vec::<String>::new());
    assert_eq!(told_of(&lines, "back"), Vec::<String>::new(), "to resume takes nothing back");
    assert_eq!(told_of(&lines, "compaction"), Vec::<String>::new());
    let details = told_of(&lines, "session id=");
    assert_eq!(details, ["bc347a9c-a7bd-43f1-b3f0-d6c310e9a462"; 2]);

    // The story has two prompts, 19 calls with their results, and one that fails.
    let users = told_of(&lines, r#"message {"role":"user","content":"#);
    assert_eq!(users.len(), 2);
    assert!(users[0].starts_with(r#""Please make every greeting"#));
    assert!(users[1].starts_with(r#""Greet in Japanese"#));
    let added = told_of(&lines, "message.added ");
    assert_eq!(added.len(), 1);
    assert!(added[0].starts_with(r#"{"role":"user","content":"<session_context>"#));
    let finished = told_of(&lines, "tool.finished ");
    assert_eq!(finished.len(), 19);
    assert_eq!(told_of(&lines, "tool.called ").len(), 19);
    let failed: Vec<_> = finished.iter().filter(|data| data.contains(r#""ok":false"#)).collect();
    assert_eq!(
        failed,
        [
            r#"{"call":"read_file__call_13","ok":false,"result":"File not found: /tmp/work-sample/project/missing.txt"}"#
        ]
    );
    assert!(finished[9].starts_with(
        r#"{"call":"run_shell_command__call_10","ok":true,"result":"<untrusted_context>\nOutput: greeting 1 of 400"#
    ));
    assert!(finished[10].starts_with(
        r#"{"call":"read_file__call_11","ok":true,"result":[{"type":"text","text":"Binary content provided (1 item(s))."},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBOR"#
    ));
    let calls: usize =
        lines.iter().map(|line| line.matches(r#"{"type":"tool_call""#).count()).sum();
    assert_eq!(calls, 19);
    assert!(lines.iter().any(|line| {
        line.starts_with("message for d0879dbb-b4c7-4cc2-8164-3a8706a0beab ")
            && line.contains(r#"[{"type":"thinking","thinking":"**Thinking about it**\n\nEvery greeting must"#)
            && line.contains(r#"{"type":"text","text":"I will look at the project first. 👀"},{"type":"tool_call","call":"write_todos__call_01","name":"write_todos","arguments":{"todos":[{"#)
    }));
    assert_eq!(
        told_of(&lines, "file.touched "),
        [
            r#"{"path":"/tmp/work-sample/project/README.md","op":"read"}"#,
            r#"{"path":"/tmp/work-sample/project/greet.py","op":"read"}"#,
            r#"{"path":"/tmp/work-sample/project/greet.py","op":"write"}"#,
            r#"{"path":"/tmp/work-sample/project/logo.png","op":"read"}"#,
            r#"{"path":"/tmp/work-sample/project/test_greet.py","op":"write"}"#,
            r#"{"path":"/tmp/work-sample/project/greet.py","op":"write"}"#,
            r#"{"path":"/tmp/work-sample/project/CHANGES.md","op":"write"}"#,
        ]
    );
}

/// The greatest of each field for each id, counted without the reader.
#[test]
fn tokens_are_those_of_an_independent_count() {
    let text = [FIRST, RESUMED].concat();
    let mut counted: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let inner = record["$set"]["messages"].as_array().cloned().unwrap_or_default();
        for message in inner.iter().chain([&record]).filter(|message| message["tokens"].is_object())
        {
            let number = |name: &str| message["tokens"][name].as_u64().unwrap();
            let id = message["id"].as_str().unwrap();
            let id = format!("bc347a9c-a7bd-43f1-b3f0-d6c310e9a462:{id}");
            let most = counted.entry(id).or_default();
            most.0 = most.0.max(number("input") + number("tool"));
            most.1 = most.1.max(number("output") + number("thoughts"));
            most.2 = most.2.max(number("cached"));
        }
    }
    let mut reader = gemini_reader(&records_file(None), None);
    let reads = read_records(&mut *reader, &text.lines().collect::<Vec<_>>());
    let told: BTreeMap<_, _> = told_usage(&reads)
        .into_iter()
        .map(|(id, usage)| (id, (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)))
        .collect();
    assert_eq!(told, counted);
    assert_eq!(told.len(), 18);
    assert_eq!(told.values().map(|used| used.0).sum::<u64>(), 18 * 1200);
}

#[test]
fn the_file_that_is_left_where_a_session_is_resumed() {
    let lines = told(&ABANDONED.lines().collect::<Vec<_>>());
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], "session id=bc347a9c-a7bd-43f1-b3f0-d6c310e9a462");
    assert!(lines[1].starts_with(r#"message.added {"role":"user","content":"<session_context>"#));
}

#[test]
fn mutated_records_are_read() {
    let text = [FIRST, RESUMED].concat();
    read_mutated(&KEPT, &records_file(None), &text.lines().collect::<Vec<_>>(), 12);
    read_mutated(&KEPT, &records_file(Some("a")), &ABANDONED.lines().collect::<Vec<_>>(), 1000);
}

const HEADER: &str =
    r#"{"sessionId":"s1","projectHash":"p","startTime":"2026-11-19T20:15:27.058Z","kind":"main"}"#;

#[test]
fn a_message_that_is_written_again_replaces_itself() {
    let lines = told(&[
        HEADER,
        r#"{"id":"u1","timestamp":"2026-11-19T20:15:29.502Z","type":"user","content":"go"}"#,
        r#"{"id":"g1","type":"gemini","content":""}"#,
        r#"{"id":"g1","type":"gemini","content":"","toolCalls":[{"id":"c1","name":"replace","args":{"file_path":"a"},"status":"executing"}]}"#,
        r#"{"id":"g1","type":"gemini","content":"","tokens":{"input":10,"output":3,"cached":4,"thoughts":2,"tool":1,"total":16},"model":"m","toolCalls":[{"id":"c1","name":"replace","args":{"file_path":"a"},"status":"success","result":"done"}]}"#,
        r#"{"id":"g1","type":"gemini","content":"","tokens":{"input":10,"output":5,"cached":4,"thoughts":2,"tool":1,"total":18},"model":"m","toolCalls":[{"id":"c1","name":"replace","args":{"file_path":"a"},"status":"success","result":"done"},{"id":"c2","name":"replace","args":{"file_path":"b"},"status":"cancelled"}]}"#,
    ]);
    assert_eq!(
        lines,
        [
            "session id=s1",
            r#"message {"role":"user","content":"go"}"#,
            r#"message {"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"replace","arguments":{"file_path":"a"}}]}"#,
            r#"tool.called {"call":"c1","name":"replace","observed":true}"#,
            r#"tool.finished {"call":"c1","ok":true,"result":"done"}"#,
            r#"file.touched {"path":"a","op":"write"}"#,
            r#"usage.recorded {"id":"s1:g1","model":"m","input_tokens":11,"output_tokens":5,"cache_read_tokens":4,"cache_write_tokens":0,"reasoning_tokens":2,"cost_micros":0}"#,
            "session model=m",
            r#"message for g1 {"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"replace","arguments":{"file_path":"a"}},{"type":"tool_call","call":"c2","name":"replace","arguments":{"file_path":"b"}}]}"#,
            r#"tool.called {"call":"c2","name":"replace","observed":true}"#,
            r#"tool.finished {"call":"c2","ok":false}"#,
            r#"usage.recorded {"id":"s1:g1","model":"m","input_tokens":0,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0,"reasoning_tokens":0,"cost_micros":0}"#,
            "session model=m",
        ]
    );
}

#[test]
fn a_result_is_told_once_wherever_it_comes_first() {
    let call = r#"{"id":"g1","type":"gemini","content":[{"functionCall":{"id":"c1","name":"x","args":{"a":1}}}]}"#;
    let result = r#"{"id":"r1","type":"user","content":[{"functionResponse":{"id":"c1","name":"x","response":{"output":"yes","more":1}}},{"inlineData":{"mimeType":"application/pdf","data":"QQ=="}}]}"#;
    let again = r#"{"id":"g1","type":"gemini","content":[{"functionCall":{"id":"c1","name":"x","args":{"a":1}}}],"toolCalls":[{"id":"c1","name":"x","args":{"a":1},"status":"error","resultDisplay":"no"}]}"#;
    let message = r#"message {"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"x","arguments":{"a":1}}]}"#;
    let told_first = r#"tool.finished {"call":"c1","ok":true,"result":[{"type":"text","text":"{\"output\":\"yes\",\"more\":1}"},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"QQ=="}}]}"#;
    let called = r#"tool.called {"call":"c1","name":"x","observed":true}"#;
    assert_eq!(told(&[call, result, again]), [message, called, told_first]);
    let told_last = r#"tool.finished {"call":"c1","ok":false,"result":"no"}"#;
    assert_eq!(told(&[call, again, result]), [message, called, told_last]);
}

#[test]
fn the_parts_of_a_message() {
    assert_eq!(
        told(&[
            r#"{"id":"u1","type":"user","content":["one",{"text":"two"},{"text":" "},{"inlineData":{"mimeType":"image/png","data":"QQ=="}},{"fileData":{"mimeType":"image/png","fileUri":"https://x/y"}},{"executableCode":{"code":"1"}},7]}"#,
            r#"{"id":"g1","type":"gemini","content":[{"text":"hm","thought":true},{"text":"a\ud800b"}],"thoughts":[{"subject":"S","description":""},{}]}"#,
            r#"{"id":"g2","type":"gemini","content":[{"text":"hm","thought":true},{"text":"yes"}]}"#,
            r#"{"id":"i1","type":"info","content":"Update available"}"#,
            r#"{"id":"i2","type":"warning","content":[{"text":"slow"}]}"#,
            r#"{"id":"i3","type":"error","content":"quota"}"#,
            r#"{"id":"i4","type":"info","content":[{"inlineData":{}}]}"#,
            r#"{"id":"n1","type":"of_tomorrow","content":"x"}"#,
            r#"{"$set":{"summary":"Greetings","lastUpdated":"2026-11-19T20:15:29.502Z"}}"#,
            r#"{"what":"is this"}"#,
            "7",
        ]),
        [
            r#"message {"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}},{"type":"image","source":{"type":"url","url":"https://x/y"}},{"executableCode":{"code":"1"}},7]}"#,
            "message {\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"S\"},{\"type\":\"text\",\"text\":\"a\u{fffd}\u{fffd}\u{fffd}b\"}]}",
            r#"message {"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"yes"}]}"#,
            r#"log.recorded {"level":"info","text":"Update available"}"#,
            r#"log.recorded {"level":"warn","text":"slow"}"#,
            r#"log.recorded {"level":"error","text":"quota"}"#,
            "unknown of_tomorrow",
            "session title=Greetings",
            "unknown ",
            "unknown ",
        ]
    );
}

fn user(id: &str) -> String {
    format!(r#"{{"id":"{id}","type":"user","content":"{id}"}}"#)
}

#[test]
fn a_rewind_goes_before_its_message_or_to_the_beginning() {
    let rewind = |id: &str| format!(r#"{{"$rewindTo":"{id}"}}"#);
    let records = [user("a"), user("b"), user("c"), rewind("b"), user("b"), rewind("x"), user("a")];
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    let message = |id: &str| format!(r#"message {{"role":"user","content":"{id}"}}"#);
    assert_eq!(
        told(&records),
        [
            message("a"),
            message("b"),
            message("c"),
            "back before b".to_owned(),
            message("b"),
            "back to the beginning".to_owned(),
            message("a"),
        ]
    );
}

#[test]
fn a_rewind_to_what_was_forgotten_is_no_rewind_of_all() {
    let records: Vec<String> = (0..400).map(|id| user(&format!("u{id}"))).collect();
    let mut records: Vec<&str> = records.iter().map(String::as_str).collect();
    records.push(r#"{"$rewindTo":"u3"}"#);
    assert_eq!(told(&records).last().unwrap(), "back before u3");
}

#[test]
fn a_history_that_is_written_anew() {
    let set = |ids: &[&str]| {
        let all: Vec<String> = ids.iter().map(|id| user(id)).collect();
        format!(r#"{{"$set":{{"messages":[{}]}}}}"#, all.join(","))
    };
    let history = |before: &[&str], after: &[&str]| {
        let mut records: Vec<String> = before.iter().map(|id| user(id)).collect();
        records.push(set(after));
        records.push(set(after));
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        let lines = told(&records);
        lines.into_iter().filter(|line| !line.starts_with("message ")).collect::<Vec<_>>()
    };
    let added = |id: &str| format!(r#"message.added {{"role":"user","content":"{id}"}}"#);
    assert_eq!(history(&[], &["a", "b"]), [added("a"), added("b")], "nothing was there");
    assert_eq!(history(&["a", "b"], &["a", "b"]), Vec::<String>::new(), "the same");
    assert_eq!(history(&["a"], &["a", "b"]), [added("b")]);
    assert_eq!(history(&["a", "b", "c"], &["a"]), ["back after a"]);
    assert_eq!(history(&["a", "b"], &["a", "c"]), ["back after a".to_owned(), added("c")]);
    assert_eq!(history(&["a", "b"], &[]), ["back to the beginning"]);
    let both = ["back to the beginning".to_owned(), added("b")];
    assert_eq!(history(&["a", "b"], &["b"]), both);
}

#[test]
fn a_chat_that_is_begun_again_is_not_taken_back() {
    let header = r#"{"sessionId":"s","projectHash":"p","startTime":"2026-11-20T00:30:05.460Z"}"#;
    let set = |ids: &[&str]| {
        let all: Vec<String> = ids.iter().map(|id| user(id)).collect();
        format!(r#"{{"$set":{{"messages":[{}]}}}}"#, all.join(","))
    };
    let of = |records: &[String]| {
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        let mut lines = told(&records);
        lines.retain(|line| line.starts_with("back ") || line.starts_with("message.added"));
        lines
    };
    let before = [header.to_owned(), user("a"), user("b"), header.to_owned(), set(&["a"])];
    let [a, b] =
        ["a", "b"].map(|id| format!(r#"message.added {{"role":"user","content":"{id}"}}"#));
    let resumed = [&before[..], &[set(&["a", "b"]), user("c")]].concat();
    let told_once = of(&resumed);
    assert_eq!(
        told_once.iter().filter(|line| line.starts_with("back ")).count(),
        0,
        "{told_once:?}"
    );
    assert_eq!(
        told_once.iter().filter(|line| **line == a || **line == b).count(),
        0,
        "{told_once:?}"
    );
    let taken_back = [&before[..], &[set(&["a", "b"]), user("c"), set(&["a", "b"])]].concat();
    assert_eq!(of(&taken_back), ["back after b"], "a list that comes later");
}

#[test]
fn what_goes_back_and_comes_again_has_its_result_again_but_not_its_tokens() {
    let call = r#"{"id":"g1","type":"gemini","content":"","tokens":{"input":1},"toolCalls":[{"id":"c1","name":"x","status":"success"}]}"#;
    let set = format!(r#"{{"$set":{{"messages":[{},{call}]}}}}"#, user("b"));
    let lines = told(&[&user("a"), call, &set]);
    assert_eq!(lines.iter().filter(|line| line.starts_with("usage.recorded")).count(), 1);
    assert_eq!(
        lines[5..],
        [
            "back to the beginning",
            r#"message.added {"role":"user","content":"b"}"#,
            r#"message.added {"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"x","arguments":{}}]}"#,
            r#"tool.called {"call":"c1","name":"x","observed":true}"#,
            r#"tool.finished {"call":"c1","ok":true}"#,
        ]
    );
}

/// The agent records what it keeps behind the summary as new messages, and then makes them the history.
#[test]
fn a_summary_is_a_compaction() {
    let summary = r#"{"id":"s","type":"user","content":[{"text":"<state_snapshot>all of it</state_snapshot>"}]}"#;
    let set = format!(r#"{{"$set":{{"messages":[{summary},{}]}}}}"#, user("k"));
    let records = [&user("a"), &user("b"), summary, &user("k"), &set, &set];
    let records: Vec<&str> = records.iter().map(|record| record.as_ref()).collect();
    assert_eq!(
        told(&records)[4..],
        [
            "compaction <state_snapshot>all of it</state_snapshot>",
            r#"message.added {"role":"user","content":"k"}"#,
        ]
    );
}

#[test]
fn a_chat_of_a_subagent_is_a_lane_of_its_parent() {
    let file = classify_gemini_file(Path::new("tmp/project/chats/parent/a1.jsonl")).unwrap();
    assert_eq!(file.session.as_deref(), Some("parent"));
    assert_eq!(file.lane, Some(LaneId::from("a1")));
    assert_eq!(file.name, "chats/parent/a1.jsonl");
    let set = r#"{"$set":{"summary":"Count"}}"#;
    assert_eq!(told_records(&KEPT, &file, &[HEADER, set]), Vec::<String>::new());
}

#[test]
fn files_are_known_by_their_paths() {
    let file = |path: &str| classify_gemini_file(Path::new(path));
    let main = file("tmp/project/chats/session-2026-11-19T20-15-bc347a9c.jsonl").unwrap();
    assert_eq!((main.session, main.lane, main.content), (None, None, KeptContent::Lines));
    assert_eq!(main.name, "chats/session-2026-11-19T20-15-bc347a9c.jsonl");
    let output = file("tmp/project/tool-outputs/session-s1/shell_1.txt").unwrap();
    assert_eq!((output.session.as_deref(), output.content), (Some("s1"), KeptContent::Whole));
    for other in [
        "tmp/project/chats/session-2026-11-19T20-15-bc347a9c.json",
        "tmp/project/chats/session-x.jsonl.unreadable-17",
        "tmp/project/chats/session-x.jsonl.tmp-4711",
        "tmp/project/chats/notes.jsonl",
        "tmp/project/chats/parent/.jsonl",
        "tmp/project/chats/parent/deep/a.jsonl",
        "tmp/project/logs/session-s1.jsonl",
        "tmp/project/logs.json",
        "tmp/project/.project_root",
        "projects.json",
    ] {
        assert_eq!(file(other), None, "{other}");
    }
}

#[test]
fn a_project_is_known_by_the_name_of_its_directory() {
    let text = r#"{"projects":{"/work/a":"a","/work/b":"a-1","/work/c":7}}"#;
    let path = Path::new("tmp/a-1/chats/session-x.jsonl");
    assert_eq!(gemini_workspace(path, text).as_deref(), Some("/work/b"));
    assert_eq!(gemini_workspace(Path::new("tmp/b/chats/x"), text), None);
    assert_eq!(gemini_workspace(path, "[]"), None);
    assert_eq!(gemini_workspace(Path::new("tmp"), text), None);
}

#[test]
fn the_directory_and_the_way_back() {
    let home = Path::new("/home/ada");
    assert_eq!((KEPT.directory)(&|_| None, home), Path::new("/home/ada/.gemini"));
    let moved = |name: &str| (name == "GEMINI_CLI_HOME").then(|| OsString::from("/srv/g"));
    assert_eq!((KEPT.directory)(&moved, home), Path::new("/srv/g/.gemini"));
    assert_eq!((KEPT.directory)(&|_| Some(OsString::new()), home), Path::new("/home/ada/.gemini"));
    assert_eq!((KEPT.resume)("s1"), ["--resume", "s1"]);
}

#[test]
fn a_memory_that_is_not_understood_is_none() {
    let fresh = ChatReader::new(false, None).memory();
    for memory in ["", "[]", "7", "{\"links\":\"小林\",\"calls\":7,\"recent\":{},\"session\":[]}"]
    {
        assert_eq!(ChatReader::new(false, Some(memory)).memory(), fresh, "{memory}");
    }
}
