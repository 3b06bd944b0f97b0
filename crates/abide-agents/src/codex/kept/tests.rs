//! Records of Codex, by the rules and from real files.

use super::*;
use crate::tests::kept_records::{
    counted_calls, kept_file, read_records, told_records, used_in_all,
};
use crate::{RecordText, RewindPlace, SessionDetails};

const THREAD: &str = "01a1f572-b157-74a2-900f-c0881a13ed2e";

fn rollout() -> KeptFile {
    let path = format!("sessions/2026/11/19/rollout-2026-11-19T20-14-56-{THREAD}.jsonl");
    kept_file("codex", &path).unwrap()
}

/// Records of these sorts and payloads, without ordinals.
fn lines(records: &[(&str, &str)]) -> Vec<String> {
    let line = |(sort, payload): &(&str, &str)| {
        format!(
            "{{\"timestamp\":\"2026-11-19T20:14:56.990Z\",\"type\":\"{sort}\",\"payload\":{payload}}}"
        )
    };
    records.iter().map(line).collect()
}

fn told(records: &[(&str, &str)]) -> Vec<String> {
    let lines = lines(records);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    told_records("codex", &rollout(), &lines)
}

/// A message of the role `user`, with the event that says that a person wrote it.
const PROMPT: [(&str, &str); 2] = [
    ("response_item", r#"{"type":"message","role":"user","content":[]}"#),
    ("event_msg", r#"{"type":"user_message","message":"x"}"#),
];
const ANSWER: (&str, &str) =
    ("response_item", r#"{"type":"message","role":"assistant","content":[]}"#);

#[test]
fn files_are_told_by_their_names_wherever_they_are() {
    let file = rollout();
    assert_eq!((file.session.as_deref(), file.content), (Some(THREAD), KeptContent::Lines));
    let name = format!("rollout-2026-11-19T20-14-56-{THREAD}.jsonl");
    assert_eq!(file.name, name);
    let archived = kept_file("codex", &format!("archived_sessions/{name}")).unwrap();
    assert_eq!(archived, file);
    let compressed = kept_file("codex", &format!("sessions/2026/11/19/{name}.zst")).unwrap();
    assert_eq!(compressed, KeptFile { content: KeptContent::CompressedLines, ..file.clone() });
    let reverted = name.replace(".jsonl", "_01a1f573-0000-7000-8000-000000000000.jsonl");
    let other = kept_file("codex", &format!("sessions/2026/11/19/{reverted}")).unwrap();
    assert_eq!((&other.session, &other.name), (&file.session, &reverted));
    for none in [
        "sessions/2026/11/19/rollout-2026-11-19T20-14-56-.jsonl",
        "sessions/2026/11/19/rollout-x.jsonl",
        "sessions/rollout-2025-05-07-17b9b3a0.json",
        "session_index.jsonl",
        "history.jsonl",
        "",
    ] {
        assert_eq!(kept_file("codex", none), None, "{none}");
    }
}

#[test]
fn the_directory_is_the_users_own_or_the_one_that_is_named() {
    let home = Path::new("/h");
    assert_eq!((KEPT.directory)(&|_| None, home), Path::new("/h/.codex"));
    let named = |name: &str| (name == "CODEX_HOME").then(|| OsString::from("/c"));
    assert_eq!((KEPT.directory)(&named, home), Path::new("/c"));
    assert_eq!((KEPT.resume)("ID"), ["resume", "ID"]);
}

#[test]
fn items_are_messages_and_what_a_person_is_shown_is_none() {
    let told = told(&[
        ("response_item", r#"{"type":"reasoning","summary":[],"encrypted_content":"x"}"#),
        ("response_item", r#"{"type":"function_call","name":"n","arguments":"{}","call_id":"c"}"#),
        ("response_item", r#"{"type":"function_call_output","call_id":"c","output":"x"}"#),
        ("response_item", r#"{"type":"web_search_call","action":{}}"#),
        ("response_item", r#"{"type":"ghost_snapshot","ghost_commit":{}}"#),
        ("response_item", r#"{"type":"of_tomorrow"}"#),
        ("response_item", r#"{"type":"message","role":"user"}"#),
        ("event_msg", r#"{"type":"agent_message","message":"x"}"#),
        ("event_msg", r#"{"type":"of_tomorrow"}"#),
        ("world_state", "{}"),
        ("of_tomorrow", "{}"),
        ("event_msg", "7"),
    ]);
    assert_eq!(
        told,
        [
            "response_item/reasoning message assistant",
            "response_item/function_call message assistant",
            "response_item/function_call_output message tool",
            "response_item/web_search_call message assistant",
            "response_item/ghost_snapshot",
            "response_item/of_tomorrow?",
            "response_item/message?",
            "event_msg/agent_message",
            "event_msg/of_tomorrow?",
            "world_state",
            "of_tomorrow?",
            "event_msg?",
        ]
    );
}

#[test]
fn records_are_known_by_their_ordinal_or_their_line() {
    let lines = ["{}", r#"{"ordinal":7,"type":"world_state","payload":{}}"#, "{\"ordinal\":-1}"];
    let read = read_records("codex", &rollout(), &lines);
    let ids: Vec<&str> = read.iter().map(|read| read.id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["line:1", "7", "line:3"]);
}

#[test]
fn counters_are_read_as_differences() {
    let count = |all: [u64; 2], last: Option<[u64; 2]>| {
        let used = |[input, output]: [u64; 2]| {
            format!(
                "{{\"input_tokens\":{input},\"cached_input_tokens\":1,\"output_tokens\":{output}}}"
            )
        };
        let last =
            last.map(|last| format!(",\"last_token_usage\":{}", used(last))).unwrap_or_default();
        format!(
            "{{\"type\":\"token_count\",\"info\":{{\"total_token_usage\":{}{last}}}}}",
            used(all)
        )
    };
    let (first, second) = (count([10, 2], None), count([30, 5], Some([20, 3])));
    let (fell, full) = (count([7, 1], Some([7, 1])), count([9, 1], None));
    let told = told(&[
        ("turn_context", r#"{"turn_id":"t1","model":"gpt"}"#),
        ("event_msg", r#"{"type":"token_count","info":null,"rate_limits":{}}"#),
        ("event_msg", &first),
        ("event_msg", &first),
        ("event_msg", &second),
        ("event_msg", r#"{"type":"task_started","turn_id":"t2"}"#),
        ("event_msg", &second),
        ("event_msg", &fell),
        ("event_msg", &full),
    ]);
    assert_eq!(
        told[1..],
        [
            "event_msg/token_count",
            "event_msg/token_count, used t1/12 gpt 10/2/1/0/0/0",
            "event_msg/token_count",
            "event_msg/token_count, used t1/35 gpt 20/3/0/0/0/0",
            "event_msg/task_started",
            "event_msg/token_count",
            "event_msg/token_count, used t2/8 gpt 7/1/1/0/0/0",
            "event_msg/token_count, used t2/10 gpt 2/0/0/0/0/0",
        ]
    );
    // What was counted before a fork that has no copy of it is not counted again.
    let fork = super::tests::told(&[("event_msg", &second)]);
    assert_eq!(fork, [format!("event_msg/token_count, used {THREAD}/35 - 20/3/1/0/0/0")]);
}

#[test]
fn a_fork_with_copies_has_the_same_ids_of_usage() {
    let count = r#"{"type":"token_count","info":{"total_token_usage":{"input_tokens":10}}}"#;
    let answer = r#"{"response_id":"r1","turn_id":"t1","usage":{"input_tokens":5},"thread_token_usage":{"input_tokens":15}}"#;
    let original = format!("{{\"id\":\"{THREAD}\",\"cwd\":\"/p\"}}");
    let copied = [("event_msg", count), ("token_usage_record", answer)];
    let with = |thread: &str, own: &str| {
        let mut records = vec![("session_meta", own), ("session_meta", original.as_str())];
        records.extend(copied);
        let lines = lines(&records);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let path = format!("sessions/rollout-2026-11-19T20-14-56-{thread}.jsonl");
        told_records("codex", &kept_file("codex", &path).unwrap(), &lines)[2..].to_vec()
    };
    let first = with(THREAD, &original);
    assert_eq!(
        first,
        [
            format!("event_msg/token_count, used {THREAD}/10 - 10/0/0/0/0/0"),
            "token_usage_record, used t1/r1 - 5/0/0/0/0/0".to_owned()
        ]
    );
    let fork = format!("{{\"id\":\"fork\",\"forked_from_id\":\"{THREAD}\",\"cwd\":\"/q\"}}");
    assert_eq!(with("fork", &fork), first);
}

#[test]
fn an_answer_is_counted_once_by_the_exact_report() {
    let exact = r#"{"thread_id":"t","turn_id":"u","response_id":"r1","usage":{"input_tokens":5},"thread_token_usage":{"input_tokens":105}}"#;
    let other = r#"{"type":"token_count","info":{"total_token_usage":{"input_tokens":99}}}"#;
    let next = r#"{"thread_id":"t","turn_id":"u","response_id":"r2","usage":{"input_tokens":6},"thread_token_usage":{"input_tokens":111}}"#;
    let sort = "token_usage_record";
    let told =
        told(&[(sort, exact), ("event_msg", other), (sort, exact), (sort, next), (sort, "{}")]);
    assert_eq!(
        told,
        [
            "token_usage_record, used u/r1 - 5/0/0/0/0/0",
            "event_msg/token_count",
            "token_usage_record",
            "token_usage_record, used u/r2 - 6/0/0/0/0/0",
            "token_usage_record",
        ]
    );
}

#[test]
fn a_patch_touches_its_files_once_it_is_applied() {
    let patch = r"*** Begin Patch\n*** Add File: new.txt\n+*** Update File: no\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-x\n+y\n*** Delete File: old.txt\n*** End Patch\n*** Add File: no\n";
    let call = |id: &str| {
        format!(
            r#"{{"type":"custom_tool_call","name":"apply_patch","call_id":"{id}","input":"{patch}"}}"#
        )
    };
    let output = |id: &str, text: &str| {
        format!(r#"{{"type":"custom_tool_call_output","call_id":"{id}","output":"{text}"}}"#)
    };
    let files = "write new.txt, rename a.txt to b.txt, delete old.txt";
    let expect = |output: &str, applied: bool| {
        let told = told(&[
            ("response_item", &call("c1")),
            ("response_item", output),
            ("response_item", output),
        ]);
        let message = "response_item/custom_tool_call_output message tool";
        let files = if applied { format!("{message}, {files}") } else { message.to_owned() };
        assert_eq!(told[1..], [files, message.to_owned()], "{output}");
    };
    expect(&output("c1", r"Exit code: 0\nOutput:\nSuccess. Updated the following files:\nA"), true);
    expect(&output("c1", r#"{\"output\":\"done\",\"metadata\":{\"exit_code\":0}}"#), true);
    expect(&output("c1", r#"{\"output\":\"no\",\"metadata\":{\"exit_code\":1}}"#), false);
    expect(&output("c1", r"Chunk ID: 1\nProcess exited with code 0\nOutput:\n"), true);
    expect(&output("c1", r"Exit code: 1\nOutput:\nno"), false);
    expect(&output("c1", "apply_patch verification failed: x"), false);
    expect(&output("c2", "Success. Updated the following files:"), false);

    // The same in the commands of a shell.
    let inner = patch.replace('\\', "\\\\");
    for arguments in [
        format!(r#"{{\"command\":[\"apply_patch\",\"{inner}\"]}}"#),
        format!(r#"{{\"cmd\":\"apply_patch <<'EOF'\\n{inner}EOF\\n\"}}"#),
    ] {
        let call = format!(
            r#"{{"type":"function_call","name":"shell","call_id":"c1","arguments":"{arguments}"}}"#
        );
        let done = output("c1", r"Exit code: 0\n").replace("custom_tool", "function");
        let told = told(&[("response_item", &call), ("response_item", &done)]);
        assert_eq!(
            told[1],
            format!("response_item/function_call_output message tool, {files}"),
            "{arguments}"
        );
    }
}

#[test]
fn a_report_of_a_patch_counts_more_than_its_text() {
    let call = r#"{"type":"custom_tool_call","name":"apply_patch","call_id":"c1","input":"*** Begin Patch\n*** Add File: a\n"}"#;
    let output = r#"{"type":"custom_tool_call_output","call_id":"c1","output":"Success. Updated the following files:"}"#;
    let changes = r#""changes":{"/p/a":{"type":"update","move_path":"/p/b"},"/p/c":{"type":"delete"},"/p/d":{"type":"add"}}"#;
    let done = "rename /p/a to /p/b, delete /p/c, write /p/d";
    let item = |status: &str| {
        format!(
            r#"{{"type":"item_completed","item":{{"type":"FileChange","id":"c1","status":"{status}",{changes}}}}}"#
        )
    };
    let end = |success: bool| {
        format!(r#"{{"type":"patch_apply_end","call_id":"c1","success":{success},{changes}}}"#)
    };
    for (report, applied) in
        [(item("completed"), true), (item("failed"), false), (end(true), true), (end(false), false)]
    {
        let told = told(&[
            ("response_item", call),
            ("event_msg", report.as_str()),
            ("response_item", output),
        ]);
        let suffix = if applied { format!(", {done}") } else { String::new() };
        assert!(told[1].ends_with(&suffix) && told[1].contains(',') == applied, "{told:?}");
        assert_eq!(told[2], "response_item/custom_tool_call_output message tool");
    }
}

#[test]
fn turns_that_are_rolled_back_are_left_before_their_prompts() {
    let environment = ("response_item", r#"{"type":"message","role":"user","content":[]}"#);
    let roll = |turns: u64| format!("{{\"type\":\"thread_rolled_back\",\"num_turns\":{turns}}}");
    let backs = |turns: &[u64]| -> Vec<Option<RewindPlace>> {
        let mut records = vec![environment];
        for _ in 0..3 {
            records.extend(PROMPT);
            records.push(ANSWER);
        }
        let rolls: Vec<String> = turns.iter().map(|turns| roll(*turns)).collect();
        records.extend(rolls.iter().map(|roll| ("event_msg", roll.as_str())));
        let lines = lines(&records);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let read = read_records("codex", &rollout(), &lines);
        read.into_iter().skip(10).map(|read| read.back).collect()
    };
    let before = |line: u64| Some(RewindPlace::Before(format!("line:{line}")));
    assert_eq!(backs(&[1]), [before(8)]);
    assert_eq!(backs(&[2]), [before(5)]);
    assert_eq!(backs(&[1, 1]), [before(8), before(5)]);
    assert_eq!(backs(&[u64::MAX, 1]), [before(2), None]);
    assert_eq!(backs(&[0]), [None]);
}

#[test]
fn a_file_behind_another_of_its_thread_goes_back_in_it() {
    let meta = |end: u64, more: &str| {
        format!(
            r#"{{"id":"{THREAD}","history_base":{{"thread_id":"any","end_ordinal_exclusive":{end}}}{more}}}"#
        )
    };
    let reverted = format!("sessions/rollout-2026-11-19T20-14-56-{THREAD}_01a1f573.jsonl");
    let reverted = kept_file("codex", &reverted).unwrap();
    let back = |file: &KeptFile, meta: &str| {
        let lines = lines(&[("session_meta", meta)]);
        let read = read_records("codex", file, &[&lines[0]]).remove(0);
        (read.back, read.details.parent)
    };
    assert_eq!(back(&reverted, &meta(12, "")), (Some(RewindPlace::After("11".to_owned())), None));
    assert_eq!(back(&reverted, &meta(0, "")), (Some(RewindPlace::Beginning), None));
    // A fork has no copy of what it was forked from.
    let fork = meta(12, r#","forked_from_id":"other""#);
    assert_eq!(back(&rollout(), &fork), (None, Some("other".to_owned())));
}

/// Version 0.166.0 was asked four times, went back before the third question, was asked once more, was
/// forked, asked there, compacted its context, and was asked at last.
#[test]
fn a_real_thread_that_went_back_was_forked_and_compacted() {
    let thread = "01a1f58c-05ea-7cf3-9218-b9b4e5b8ca65";
    let fork = "01a1f58c-07ff-79d2-bd60-46786826d150";
    let read = |name: &str, text: &'static str| {
        let lines: Vec<&str> = text.lines().collect();
        let path = format!("sessions/2026/11/19/rollout-2026-11-19T20-42-36-{name}.jsonl");
        read_records("codex", &kept_file("codex", &path).unwrap(), &lines)
    };
    let first = read(thread, include_str!("../samples/kept-thread.jsonl"));
    let reverted = format!("{thread}_01a1f58c-0780-7250-abde-9922bca093ea");
    let second = read(&reverted, include_str!("../samples/kept-reverted.jsonl"));
    let forked = read(fork, include_str!("../samples/kept-fork.jsonl"));
    for record in first.iter().chain(&second).chain(&forked) {
        assert!(record.known, "{}", record.sort);
    }
    // 4 answers, 3 behind them, and that of the fork.
    let used = |read: &[crate::ReadRecord]| used_in_all(read).input_tokens;
    assert_eq!([used(&first), used(&second), used(&forked)], [4800, 3600, 1200]);
    let places = |read: &[crate::ReadRecord]| -> Vec<(usize, RewindPlace)> {
        let read = read.iter().enumerate();
        read.filter_map(|(at, read)| Some((at, read.back.clone()?))).collect()
    };
    assert_eq!((places(&first), places(&forked)), (vec![], vec![]));
    // The last record of the second turn.
    assert_eq!(places(&second), [(0, RewindPlace::After("22".to_owned()))]);
    let last = first.iter().find(|read| read.id.as_deref() == Some("22")).unwrap();
    assert_eq!(last.sort, "event_msg/task_complete");
    let next = first.iter().find(|read| read.id.as_deref() == Some("23")).unwrap();
    assert_eq!(next.sort, "event_msg/task_started");
    let compactions: Vec<&str> =
        second.iter().filter_map(|read| read.compaction.as_deref()).collect();
    assert!(matches!(compactions.as_slice(), [one] if one.ends_with("\nanswer 7")));
    let kept: Vec<&[String]> =
        second.iter().map(|read| read.keeps.as_slice()).filter(|keeps| !keeps.is_empty()).collect();
    assert_eq!(kept, [["27"]]);
    assert_eq!(forked[0].details.parent.as_deref(), Some(thread));
    assert_eq!(second[0].details.parent, None);
}

#[test]
fn a_compaction_has_its_summary_or_the_last_message_that_stays() {
    let history = r#"{"message":"","replacement_history":[{"type":"message","content":[{"type":"input_text","text":"a"}]},{"type":"message","content":[{"type":"output_text","text":"b"},{"type":"output_text","text":"c"}]},{"type":"compaction","encrypted_content":"x"}]}"#;
    let told = told(&[
        ("compacted", r#"{"message":"All of it."}"#),
        ("compacted", history),
        ("compacted", r#"{"message":""}"#),
        ("compacted", "{}"),
    ]);
    assert_eq!(
        told,
        [
            "compacted compaction All of it.",
            "compacted compaction bc",
            "compacted compaction ",
            "compacted?"
        ]
    );
}

#[test]
fn a_session_is_told_by_its_own_header_and_by_its_turns() {
    let text = |text: &str| Some(text.to_owned());
    let own = format!(
        r#"{{"id":"{THREAD}","cwd":"/p","cli_version":"0.166.0","forked_from_id":"origin","git":{{"branch":"main"}}}}"#
    );
    let lines = lines(&[
        ("session_meta", &own),
        ("session_meta", r#"{"id":"origin","cwd":"/q","cli_version":"0.1.0"}"#),
        ("turn_context", r#"{"cwd":"/p","model":"gpt"}"#),
        ("event_msg", r#"{"type":"thread_name_updated","thread_name":"A name"}"#),
    ]);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let read = read_records("codex", &rollout(), &lines);
    let details: Vec<SessionDetails> = read.into_iter().map(|read| read.details).collect();
    let none = SessionDetails::default;
    let expected = [
        SessionDetails {
            id: text(THREAD),
            workspace: text("/p"),
            branch: text("main"),
            version: text("0.166.0"),
            parent: text("origin"),
            ..none()
        },
        none(),
        SessionDetails { workspace: text("/p"), model: text("gpt"), ..none() },
        SessionDetails { title: text("A name"), ..none() },
    ];
    assert_eq!(details, expected);
}

#[test]
fn a_compaction_keeps_the_prompts_of_this_file_that_it_names() {
    let prompt =
        |id: &str| format!(r#"{{"type":"message","id":"{id}","role":"user","content":[]}}"#);
    let (first, second, unsaid) = (prompt("m1"), prompt("m2"), prompt("m3"));
    let compacted = format!(
        r#"{{"message":"x","replacement_history":[{},{unsaid},{second},{first},7,{{}}]}}"#,
        prompt("m0")
    );
    let records = [
        ("response_item", first.as_str()),
        PROMPT[1],
        ("response_item", &second),
        PROMPT[1],
        ("response_item", &unsaid),
        ("compacted", &compacted),
    ];
    assert_eq!(told(&records)[5], "compacted compaction x keeps line:3 line:1");
}

/// As versions of the year 2025 began.
#[test]
fn records_without_a_payload_are_items() {
    let header = format!(r#"{{"id":"{THREAD}","timestamp":"2025-05-07T17:24:21Z","git":{{}}}}"#);
    let lines = [
        &header,
        r#"{"record_type":"state"}"#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#,
        r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"So."}]}"#,
        r#"{"type":"reasoning","summary":[],"encrypted_content":"x"}"#,
        r#"{"type":"function_call","call_id":"c1","name":"shell","arguments":"{\"command\":[\"apply_patch\",\"*** Begin Patch\\n*** Add File: a\\n\"]}"}"#,
        r#"{"type":"function_call_output","call_id":"c1","output":"{\"metadata\":{\"exit_code\":0}}"}"#,
        r#"{"type":"custom_tool_call","call_id":"c2","input":"no json"}"#,
        r#"{"type":"function_call","name":"shell"}"#,
        r#"{"type":"message","role":"user"}"#,
    ];
    let read = read_records("codex", &rollout(), &lines);
    let made: Vec<&str> = read
        .iter()
        .filter_map(|read| match &read.message.as_ref()?.text {
            RecordText::Made(data) => Some(data.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        made,
        [
            lines[2],
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"So."}]}"#,
            r#"{"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"shell","arguments":{"command":["apply_patch","*** Begin Patch\n*** Add File: a\n"]}}]}"#,
            r#"{"role":"tool","content":[{"type":"tool_result","call":"c1","content":"{\"metadata\":{\"exit_code\":0}}"}]}"#,
            r#"{"role":"assistant","content":[{"type":"tool_call","call":"c2","name":"custom_tool_call","arguments":"no json"}]}"#,
        ]
    );
    let told = told_records("codex", &rollout(), &lines);
    assert_eq!(
        told,
        [
            "session_meta",
            "state",
            "message message",
            "reasoning message",
            "reasoning",
            "function_call message",
            "function_call_output message, write a",
            "custom_tool_call message",
            "function_call",
            "message?",
        ]
    );
}

#[test]
fn what_another_agent_says_is_a_message() {
    let said = r#"{"author":"/root","recipient":"/root/w","content":"Look \"there\".","trigger_turn":true}"#;
    let item = r#"{"type":"agent_message","author":"/root","content":[]}"#;
    let records = [
        ("inter_agent_communication", said),
        ("inter_agent_communication", r#"{"content":"","encrypted_content":"x"}"#),
        ("inter_agent_communication_metadata", r#"{"trigger_turn":true}"#),
        ("response_item", item),
    ];
    assert_eq!(
        told(&records),
        [
            "inter_agent_communication message",
            "inter_agent_communication",
            "inter_agent_communication_metadata",
            "response_item/agent_message message user",
        ]
    );
    let lines = lines(&records);
    let read = read_records("codex", &rollout(), &[&lines[0]]);
    let made = RecordText::Made(
        r#"{"role":"user","name":"/root","content":"Look \"there\"."}"#.to_owned(),
    );
    assert_eq!(read[0].message.as_ref().map(|message| &message.text), Some(&made));
}

/// Version 0.166.0 worked through the story of `tests/sample-sessions` and was resumed once. Long texts
/// are cut.
#[test]
fn a_real_rollout_is_read() {
    let lines: Vec<&str> = include_str!("../samples/kept-rollout.jsonl").lines().collect();
    let read = read_records("codex", &rollout(), &lines);
    let (calls, results, failed) = counted_calls(&lines, &read);
    let expected: Vec<String> = (1..=19).map(|number| format!("call_{number:02}")).collect();
    assert_eq!((&calls, &results), (&expected, &expected));
    assert!(failed.is_empty());
    assert!(read.iter().all(|read| read.back.is_none()));

    // 18 answers; the counters of the last record are those of the thread.
    let used = used_in_all(&read);
    let (mut told, mut sum) = (0, 0);
    for line in &lines {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let payload = &value["payload"];
        sum += payload["usage"]["input_tokens"].as_u64().unwrap_or(0);
        told = payload["info"]["total_token_usage"]["input_tokens"].as_u64().unwrap_or(told);
    }
    assert_eq!((used.input_tokens, used.input_tokens), (told, sum));
    assert_eq!(
        [used.input_tokens, used.output_tokens, used.cache_read_tokens, used.reasoning_tokens],
        [1200 * 18, 64 * 18, 800 * 18, 16 * 18]
    );

    let touched: Vec<String> = told_records("codex", &rollout(), &lines)
        .iter()
        .filter_map(|line| Some(line.strip_prefix("event_msg/item_completed, ")?.to_owned()))
        .collect();
    let place = "/tmp/work-sample/project";
    let expected = ["greet.py", "test_greet.py", "greet.py", "CHANGES.md"];
    assert_eq!(touched, expected.map(|name| format!("write {place}/{name}")));

    let details = |pick: fn(&SessionDetails) -> Option<&String>| -> Vec<&str> {
        let mut all: Vec<&str> =
            read.iter().filter_map(|read| pick(&read.details)).map(String::as_str).collect();
        all.dedup();
        all
    };
    assert_eq!(details(|details| details.id.as_ref()), [THREAD]);
    assert_eq!(details(|details| details.workspace.as_ref()), [place]);
    assert_eq!(details(|details| details.branch.as_ref()), ["main"]);
    assert_eq!(details(|details| details.model.as_ref()), ["gpt-5.5"]);
    assert_eq!(details(|details| details.version.as_ref()), ["0.166.0"]);
}

/// Version 0.107.0, which wrote no ordinals, was asked four times, went back by two turns, was asked once
/// more, was forked with a copy of it all, asked there, compacted its context, and was asked at last.
#[test]
fn a_real_thread_of_an_early_version_is_read_with_its_fork() {
    let read = |thread: &str, text: &'static str| -> (Vec<String>, Vec<crate::ReadRecord>) {
        let lines: Vec<&str> = text.lines().collect();
        let path = format!("sessions/2026/11/19/rollout-2026-11-19T20-59-35-{thread}.jsonl");
        let file = kept_file("codex", &path).unwrap();
        (told_records("codex", &file, &lines), read_records("codex", &file, &lines))
    };
    let thread = "01a1f59b-8f0e-7ca2-9017-71135d512447";
    let (told, first) = read(thread, include_str!("../samples/kept-legacy.jsonl"));
    let fork = "01a1f59b-90ba-7491-ae0d-c3951e37677b";
    let (copied, second) = read(fork, include_str!("../samples/kept-legacy-fork.jsonl"));
    for read in first.iter().chain(&second) {
        assert!(read.known, "{}", read.sort);
    }
    let backs = |read: &[crate::ReadRecord]| -> Vec<RewindPlace> {
        read.iter().filter_map(|read| read.back.clone()).collect()
    };
    // Before the third prompt, which is one line further in the fork.
    assert_eq!(backs(&first), [RewindPlace::Before("line:24".to_owned())]);
    assert_eq!(backs(&second), [RewindPlace::Before("line:25".to_owned())]);
    let text = include_str!("../samples/kept-legacy.jsonl").lines().nth(23).unwrap();
    assert!(text.contains(r#""role":"user","content":[{"type":"input_text","text":"third"}]"#));
    let compactions: Vec<&str> =
        first.iter().filter_map(|read| read.compaction.as_deref()).collect();
    assert!(matches!(compactions.as_slice(), [one] if one.ends_with("\nanswer 7")));
    assert_eq!(second[0].details.parent.as_deref(), Some(thread));
    assert_eq!(second[0].details.id.as_deref(), Some(fork));
    assert_eq!(second[1].details, SessionDetails::default());

    // 5 answers, a summary and an answer; in the fork the first 5, counted as the same, and its own.
    let uses = |told: &[String]| -> Vec<String> {
        let uses = told.iter().filter_map(|line| Some(line.split_once(", used ")?.1.to_owned()));
        uses.collect()
    };
    let (of_thread, of_fork) = (uses(&told), uses(&copied));
    assert_eq!((of_thread.len(), of_fork.len()), (7, 6));
    assert_eq!(of_fork[..5], of_thread[..5]);
    assert!(!of_thread.contains(&of_fork[5]));
    assert_eq!(used_in_all(&first).input_tokens, 7 * 1200);
    assert_eq!(used_in_all(&second).input_tokens, 6 * 1200);
}

/// What a person is shown stands in the items as well: no text is lost.
#[test]
fn no_text_of_a_real_rollout_stands_in_an_event_alone() {
    let lines: Vec<&str> = include_str!("../samples/kept-rollout.jsonl").lines().collect();
    let values: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let items: String = values
        .iter()
        .filter(|value| value["type"] == "response_item")
        .map(|value| value["payload"].to_string())
        .collect();
    let mut looked_at = 0;
    for value in &values {
        let item = &value["payload"]["item"];
        let Some(sort) = item["type"].as_str() else { continue };
        let texts: Vec<&serde_json::Value> = match sort {
            "UserMessage" | "AgentMessage" => {
                item["content"].as_array().unwrap().iter().map(|part| &part["text"]).collect()
            }
            "Reasoning" => item["summary_text"].as_array().unwrap().iter().collect(),
            _ => continue,
        };
        for text in texts {
            looked_at += 1;
            let text = text.to_string();
            assert!(items.contains(text.trim_matches('"')), "{sort}: {text}");
        }
    }
    assert_eq!(looked_at, 11);
}
