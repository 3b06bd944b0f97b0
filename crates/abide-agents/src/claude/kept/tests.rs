//! Records of Claude Code, by the rules and from real files.

use std::collections::HashMap;

use super::*;
use crate::tests::kept_records::{
    counted_calls, kept_file, read_records, told_records, used_in_all,
};
use crate::{ReadRecord, RewindPlace, SessionDetails};

const ID: &str = "39059223-c894-4535-8431-f728d06a9698";

fn session() -> KeptFile {
    kept_file("claude", &format!("projects/-p/{ID}.jsonl")).unwrap()
}

fn told(lines: &[String]) -> Vec<String> {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    told_records("claude", &session(), &lines)
}

fn details(lines: &[&str]) -> Vec<SessionDetails> {
    read_records("claude", &session(), lines).into_iter().map(|read| read.details).collect()
}

/// The fields of the envelope.
fn envelope(sort: &str, id: &str, parent: &str) -> String {
    let parent = if parent == "-" { "null".to_owned() } else { format!("\"{parent}\"") };
    format!("\"type\":\"{sort}\",\"uuid\":\"{id}\",\"parentUuid\":{parent}")
}

fn prompt(id: &str, parent: &str) -> String {
    let envelope = envelope("user", id, parent);
    format!("{{{envelope},\"message\":{{\"role\":\"user\",\"content\":\"{id}\"}}}}")
}

fn answer(id: &str, parent: &str) -> String {
    let envelope = envelope("assistant", id, parent);
    format!(
        "{{{envelope},\"message\":{{\"id\":\"m-{id}\",\"role\":\"assistant\",\"content\":[]}}}}"
    )
}

fn result(id: &str, parent: &str, call: &str, failed: bool) -> String {
    let envelope = envelope("user", id, parent);
    format!(
        "{{{envelope},\"toolUseResult\":\"x\",\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"{call}\",\"is_error\":{failed}}}]}}}}"
    )
}

/// Where the conversation goes back at each of these records.
fn backs(lines: &[String]) -> Vec<String> {
    let told = told(lines);
    let backs = told.iter().filter_map(|line| line.split_once(" back "));
    backs.map(|(_, back)| back.replace(" message", "")).collect()
}

#[test]
fn files_are_told_by_their_paths() {
    let main = session();
    assert_eq!((main.session.as_deref(), main.lane.as_ref()), (Some(ID), None));
    assert_eq!((main.name.as_str(), main.content), ("session.jsonl", KeptContent::Lines));
    let expected: [(&str, Option<&str>, &str, KeptContent); 6] = [
        ("subagents/agent-a7.jsonl", Some("a7"), "subagents/agent-a7.jsonl", KeptContent::Lines),
        (
            "subagents/workflows/w/agent-b.jsonl",
            Some("b"),
            "subagents/workflows/w/agent-b.jsonl",
            KeptContent::Lines,
        ),
        (
            "subagents/workflows/w/journal.jsonl",
            None,
            "subagents/workflows/w/journal.jsonl",
            KeptContent::Lines,
        ),
        ("subagents/agent-a7.meta.json", None, "subagents/agent-a7.meta.json", KeptContent::Whole),
        ("tool-results/b1.txt", None, "tool-results/b1.txt", KeptContent::Whole),
        ("notes", None, "notes", KeptContent::Whole),
    ];
    for (below, lane, name, content) in expected {
        let file = kept_file("claude", &format!("projects/-p/{ID}/{below}")).unwrap();
        let lane = lane.map(|lane| LaneId(lane.to_owned()));
        let expected =
            KeptFile { session: Some(ID.to_owned()), lane, name: name.to_owned(), content };
        assert_eq!(file, expected);
    }
    let old = kept_file("claude", "projects/-p/agent-a7.jsonl").unwrap();
    assert_eq!((old.session, old.lane), (None, Some(LaneId("a7".to_owned()))));
    for other in [
        "projects/-p/memory/MEMORY.md",
        "projects/-p/notes.jsonl",
        &format!("projects/-p/{ID}.json"),
        &format!("projects/{ID}.jsonl"),
        "history.jsonl",
        &format!("todos/-p/{ID}.jsonl"),
        "",
    ] {
        assert_eq!(kept_file("claude", other), None, "{other}");
    }
}

#[test]
fn the_directory_is_the_users_own_or_the_one_that_is_named() {
    let home = Path::new("/h");
    assert_eq!((KEPT.directory)(&|_| None, home), Path::new("/h/.claude"));
    let named = |name: &str| (name == "CLAUDE_CONFIG_DIR").then(|| OsString::from("/c"));
    assert_eq!((KEPT.directory)(&named, home), Path::new("/c"));
    assert_eq!((KEPT.directory)(&|_| Some(OsString::new()), home), Path::new("/h/.claude"));
    assert_eq!((KEPT.resume)("ID"), ["--resume", "ID"]);
}

#[test]
fn records_of_one_answer_count_what_they_used_more() {
    let line = |id: &str, message: &str, model: &str, used: &str| {
        let envelope = envelope("assistant", id, "-");
        format!(
            "{{{envelope},\"message\":{{\"id\":\"{message}\",\"role\":\"assistant\",\"model\":\"{model}\",\"content\":[],\"usage\":{{{used}}}}}}}"
        )
    };
    let first = "\"input_tokens\":4,\"cache_read_input_tokens\":10,\"cache_creation_input_tokens\":6,\"output_tokens\":1";
    let last = "\"input_tokens\":3,\"cache_read_input_tokens\":10,\"cache_creation_input_tokens\":6,\"output_tokens\":90,\"output_tokens_details\":{\"thinking_tokens\":7}";
    let told = told(&[
        line("a", "m1", "opus", first),
        line("b", "m1", "opus", first),
        line("c", "m2", "opus", first),
        line("d", "m1", "opus", last),
        line("e", "m3", "<synthetic>", last),
        line("f", "m4", "opus", ""),
        line("g", "m1", "opus", first),
        line("h", "m1", "opus", last),
    ]);
    let expected = [
        "assistant message of m1, used m1 opus 20/1/10/6/0/0",
        "assistant message of m1",
        "assistant message of m2, used m2 opus 20/1/10/6/0/0",
        "assistant message of m1, used m1 opus 0/89/0/0/7/0",
        "assistant message of m3",
        "assistant message of m4",
        "assistant message of m1",
        "assistant message of m1",
    ];
    assert_eq!(told, expected);
}

#[test]
fn files_are_touched_when_their_calls_succeed() {
    let call = |id: &str, name: &str, input: &str| {
        let envelope = envelope("assistant", id, "-");
        format!(
            "{{{envelope},\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"{name}\",\"input\":{{{input}}}}}]}}}}"
        )
    };
    let told = told(&[
        call("c1", "Read", "\"file_path\":\"/p/a\""),
        call("c2", "Edit", "\"file_path\":\"/p/b\""),
        call("c3", "NotebookEdit", "\"notebook_path\":\"/p/c\""),
        call("c4", "Write", "\"file_path\":\"/p/d\""),
        call("c5", "Bash", "\"command\":\"rm x\""),
        result("r2", "c1", "c2", false),
        result("r1", "c2", "c1", false),
        result("r3", "c3", "c3", false),
        result("r4", "c4", "c4", true),
        result("r5", "c4", "c4", false),
    ]);
    assert_eq!(
        told[5..],
        [
            "user message, write /p/b",
            "user message, read /p/a",
            "user message, write /p/c",
            "user message",
            "user message"
        ]
    );
}

#[test]
fn a_prompt_behind_another_branch_goes_back_to_where_it_hangs() {
    let start = [prompt("p1", "-"), answer("a1", "p1"), prompt("p2", "a1"), answer("a2", "p2")];
    let with = |more: &[String]| backs(&[&start, more].concat());
    assert_eq!(with(&[prompt("p3", "a2")]), Vec::<String>::new());
    assert_eq!(with(&[prompt("p3", "a1")]), ["After(\"a1\")"]);
    assert_eq!(with(&[prompt("p3", "-")]), ["Beginning"]);
    // Twice to the same place, and on from there.
    let twice = [prompt("p3", "a1"), prompt("p4", "a1"), answer("a4", "p4"), prompt("p5", "a4")];
    assert_eq!(with(&twice), ["After(\"a1\")", "After(\"a1\")"]);
    // Back to the branch that was left.
    let back = [prompt("p3", "a1"), prompt("p4", "a2")];
    assert_eq!(with(&back), ["After(\"a1\")", "After(\"a2\")"]);
    // A note is the first record of the new branch.
    let note = format!("{{{},\"attachment\":{{}}}}", envelope("attachment", "n", "a1"));
    let behind = [note.clone(), prompt("p3", "n"), prompt("p4", "n")];
    assert_eq!(with(&behind), ["After(\"a1\")", "After(\"a1\")"]);
    // A late note, a copy of a line and a parent that is missing leave no branch.
    let nothing = [note, prompt("p1", "-"), prompt("p3", "missing"), prompt("p4", "p3")];
    assert_eq!(with(&nothing), Vec::<String>::new());
    // A first prompt whose parent stands in another file.
    assert_eq!(backs(&[prompt("p1", "missing"), prompt("p2", "p1")]), Vec::<String>::new());
    // A line without a place in the tree says nothing of it.
    let loose = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}".to_owned();
    let rootless = loose.replace("\"type\"", "\"uuid\":\"u\",\"type\"");
    assert_eq!(with(&[loose, rootless]), Vec::<String>::new());
}

#[test]
fn results_sidechains_and_meta_lines_leave_no_branch() {
    let side = |id: &str, parent: &str| {
        prompt(id, parent).replacen("\"type\"", "\"isSidechain\":true,\"type\"", 1)
    };
    let meta = prompt("x", "a1").replacen("\"type\"", "\"isMeta\":true,\"type\"", 1);
    let all = [
        prompt("p1", "-"),
        answer("a1", "p1"),
        answer("a2", "a1"),
        result("r1", "a1", "c1", false),
        result("r2", "a2", "c2", false),
        prompt("p2", "r1"),
        side("s1", "-"),
        side("s2", "s1"),
        side("t1", "-"),
        result("r3", "a1", "c3", false),
        meta,
        prompt("p3", "p2"),
        side("s3", "s2"),
    ];
    let told = told(&all);
    assert!(told.iter().all(|line| !line.contains(" back ")), "{told:?}");
    let lanes: Vec<_> = told.iter().filter(|line| line.contains(" in ")).collect();
    assert_eq!(
        lanes,
        ["user in s1 message", "user in s1 message", "user in t1 message", "user in s1 message"]
    );
    let named = side("s9", "-").replacen("\"type\"", "\"agentId\":\"a7\",\"type\"", 1);
    assert_eq!(super::tests::told(&[named]), ["user in a7 message"]);
}

#[test]
fn a_compaction_goes_on_with_the_conversation() {
    let boundary = format!(
        "{{{},\"subtype\":\"compact_boundary\",\"logicalParentUuid\":\"a1\",\"compactMetadata\":{{\"preservedMessages\":{{\"uuids\":[\"p1\",\"a1\",7]}}}}}}",
        envelope("system", "b", "-")
    );
    let summary = prompt("s", "b").replacen("\"type\"", "\"isCompactSummary\":true,\"type\"", 1);
    let told = told(&[
        prompt("p1", "-"),
        answer("a1", "p1"),
        boundary,
        summary,
        prompt("p2", "s"),
        answer("a2", "p2"),
        prompt("p3", "a1"),
    ]);
    assert_eq!(
        told[2..],
        [
            "system/compact_boundary",
            "user compaction s keeps p1 a1",
            "user message",
            "assistant message of m-a2",
            "user back After(\"a1\") message"
        ]
    );
}

#[test]
fn a_compaction_of_a_part_leaves_no_branch() {
    let boundary = format!(
        "{{{},\"subtype\":\"compact_boundary\",\"logicalParentUuid\":\"a1\"}}",
        envelope("system", "b", "-")
    );
    let summary = prompt("s", "b").replacen("\"type\"", "\"isCompactSummary\":true,\"type\"", 1);
    let start = [prompt("p1", "-"), answer("a1", "p1"), prompt("p2", "a1"), answer("a2", "p2")];
    let all = [&start[..], &[boundary, summary, prompt("p3", "s")]].concat();
    assert_eq!(backs(&all), Vec::<String>::new());
}

#[test]
fn a_place_that_is_forgotten_is_gone_back_to() {
    let mut lines = vec![prompt("p0", "-")];
    for turn in 1..60 {
        lines.push(prompt(&format!("p{turn}"), &format!("a{}", turn - 1)).replace("a0", "p0"));
        lines.push(answer(&format!("a{turn}"), &format!("p{turn}")));
    }
    assert_eq!(backs(&lines), Vec::<String>::new());
    lines.push(prompt("new", "a3"));
    assert_eq!(backs(&lines), ["After(\"a3\")"]);
    // Reports of progress do not displace the conversation.
    let report = |at: usize| format!("{{{}}}", envelope("progress", &format!("g{at}"), "new"));
    lines.extend((0..100).map(report));
    lines.push(prompt("next", "new"));
    assert_eq!(backs(&lines), ["After(\"a3\")"]);
}

#[test]
fn sorts_are_known_by_type_and_subtype() {
    let lines = [
        r#"{"type":"system","subtype":"turn_duration"}"#,
        r#"{"type":"system","subtype":"of_tomorrow"}"#,
        r#"{"type":"system"}"#,
        r#"{"type":"file-history-snapshot","messageId":"m","snapshot":{}}"#,
        r#"{"type":"progress","data":{"type":"bash_progress"}}"#,
        r#"{"type":"assistant","message":{"role":"assistant"}}"#,
        r#"{"type":"user","message":"x"}"#,
        r#"{"type":"user","message":{"role":"user","content":"a"},"message":{"role":"user","content":"b"}}"#,
    ];
    let told = told(&lines.map(str::to_owned));
    assert_eq!(
        told,
        [
            "system/turn_duration",
            "system/of_tomorrow?",
            "system?",
            "file-history-snapshot",
            "progress",
            "assistant?",
            "user?",
            "user?"
        ]
    );
}

#[test]
fn a_title_of_a_person_counts_more_than_one_of_the_agent() {
    let first = prompt("p1", "-");
    let titles: Vec<Option<String>> = details(&[
        r#"{"type":"summary","summary":"Of another session","leafUuid":"zz"}"#,
        &first,
        r#"{"type":"summary","summary":"Of this one","leafUuid":"p1"}"#,
        r#"{"type":"ai-title","aiTitle":"Better"}"#,
        r#"{"type":"summary","summary":"Of this one","leafUuid":"p1"}"#,
        r#"{"type":"ai-title","aiTitle":"Best"}"#,
        r#"{"type":"custom-title","customTitle":"Mine"}"#,
        r#"{"type":"ai-title","aiTitle":"Other"}"#,
        r#"{"type":"custom-title","customTitle":" "}"#,
    ])
    .into_iter()
    .map(|details| details.title)
    .collect();
    let expected = [
        None,
        None,
        Some("Of this one"),
        Some("Better"),
        None,
        Some("Best"),
        Some("Mine"),
        None,
        None,
    ];
    assert_eq!(titles.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
}

#[test]
fn the_workspace_is_the_first_directory_and_the_parent_the_session_that_was_copied() {
    let line = |session: &str, cwd: &str, more: &str| {
        format!("{{\"type\":\"mode\",\"sessionId\":\"{session}\",\"cwd\":\"{cwd}\"{more}}}")
    };
    let lines = [
        line("old", "/p", ",\"gitBranch\":\"main\",\"version\":\"2.1.0\""),
        line(ID, "/p/src", ",\"gitBranch\":\"fix\""),
        line("older", "/p", ""),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let told = details(&lines);
    let text = |text: &str| Some(text.to_owned());
    let first = SessionDetails {
        workspace: text("/p"),
        branch: text("main"),
        version: text("2.1.0"),
        parent: text("old"),
        ..SessionDetails::default()
    };
    let second = SessionDetails { branch: text("fix"), ..SessionDetails::default() };
    assert_eq!(told, [first, second, SessionDetails::default()]);
    let fork = line(ID, "/p", ",\"forkedFrom\":{\"sessionId\":\"origin\",\"messageUuid\":\"m\"}");
    assert_eq!(details(&[&fork])[0].parent.as_deref(), Some("origin"));
    // The file of a subagent beside the session tells it, and nothing else of it.
    let old = kept_file("claude", "projects/-p/agent-a7.jsonl").unwrap();
    let read = read_records("claude", &old, &lines);
    let ids: Vec<Option<String>> = read.iter().map(|read| read.details.id.clone()).collect();
    assert_eq!(ids, [text("old"), None, None]);
    assert_eq!(read[0].details, SessionDetails { id: text("old"), ..SessionDetails::default() });
}

/// The usage by the rule of the format, counted anew: of each message the most of each field.
fn recount(lines: &[&str]) -> [u64; 3] {
    let mut all: HashMap<String, [u64; 4]> = HashMap::new();
    for line in lines {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let used = &value["message"]["usage"];
        let (Some(id), true) = (value["message"]["id"].as_str(), used.is_object()) else {
            continue;
        };
        let most = all.entry(id.to_owned()).or_default();
        let names = [
            "input_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "output_tokens",
        ];
        for (most, name) in most.iter_mut().zip(names) {
            *most = (*most).max(used[name].as_u64().unwrap());
        }
    }
    let sum = |at: usize| all.values().map(|used| used[at]).sum::<u64>();
    [sum(0) + sum(1) + sum(2), sum(1), sum(3)]
}

/// Version 2.1.325 worked through the story of `tests/sample-sessions` and was resumed once. Long texts
/// are cut.
#[test]
fn a_real_session_is_read_with_that_of_its_subagent() {
    let session_lines: Vec<&str> = include_str!("../samples/kept-session.jsonl").lines().collect();
    let lane_lines: Vec<&str> = include_str!("../samples/kept-subagent.jsonl").lines().collect();
    let lane_path = format!("projects/-p/{ID}/subagents/agent-adf229b67e2500297.jsonl");
    let read = read_records("claude", &session(), &session_lines);
    let lane = read_records("claude", &kept_file("claude", &lane_path).unwrap(), &lane_lines);

    let (mut calls, mut results, mut failed) = counted_calls(&session_lines, &read);
    assert_eq!((calls.len(), results.len()), (20, 20));
    let of_lane = counted_calls(&lane_lines, &lane);
    calls.extend(of_lane.0);
    results.extend(of_lane.1);
    failed.extend(of_lane.2);
    calls.sort();
    results.sort();
    let expected: Vec<String> = (1..=22).map(|number| format!("toolu_{number:02}")).collect();
    assert_eq!((&calls, &results), (&expected, &expected));
    assert_eq!(failed, ["toolu_05", "toolu_14"]);

    // 19 answers of the session and 3 of the subagent, each of 1200 tokens in and 64 out.
    for (lines, read, answers) in [(&session_lines, &read, 19), (&lane_lines, &lane, 3)] {
        let used = used_in_all(read);
        let counts = [used.input_tokens, used.cache_read_tokens, used.output_tokens];
        assert_eq!(counts, recount(lines));
        assert_eq!(counts, [1200 * answers, 800 * answers, 64 * answers]);
    }

    assert!(read.iter().chain(&lane).all(|read| read.back.is_none()));

    let touched: Vec<String> = told_records("claude", &session(), &session_lines)
        .iter()
        .filter_map(|line| Some(line.strip_prefix("user message, ")?.to_owned()))
        .collect();
    let place = "/tmp/work-sample/project";
    let expected = ["read README.md", "read greet.py", "write greet.py", "read logo.png"]
        .into_iter()
        .chain(["write test_greet.py", "write greet.py", "write CHANGES.md"])
        .map(|touched| touched.replace(' ', &format!(" {place}/")));
    assert_eq!(touched, expected.collect::<Vec<_>>());

    let told = |pick: fn(&SessionDetails) -> Option<&String>| -> Vec<&str> {
        let mut all: Vec<&str> =
            read.iter().filter_map(|read| pick(&read.details)).map(String::as_str).collect();
        all.dedup();
        all
    };
    assert_eq!(told(|details| details.workspace.as_ref()), [place]);
    assert_eq!(told(|details| details.branch.as_ref()), ["main"]);
    assert_eq!(told(|details| details.model.as_ref()), ["sample-model"]);
    assert_eq!(told(|details| details.version.as_ref()), ["2.1.325"]);
    assert_eq!(told(|details| details.parent.as_ref()), [""; 0]);
    assert!(lane.iter().all(|read| read.details == SessionDetails::default()));
}

/// Version 2.1.325 was asked three times, went back before the third question, was asked once more,
/// compacted its context, was asked again, and forked.
#[test]
fn a_real_session_that_went_back_was_compacted_and_forked() {
    let lines: Vec<&str> = include_str!("../samples/kept-rewound.jsonl").lines().collect();
    let read = read_records("claude", &session(), &lines);
    assert!(read.iter().all(|read| read.known));
    let places: Vec<_> = lines
        .iter()
        .zip(&read)
        .filter_map(|(line, read)| Some((line.contains("third anew"), read.back.clone()?)))
        .collect();
    let answer = "f44ca38c-386c-4858-8ea0-f3f77d752226".to_owned();
    assert_eq!(places, [(true, RewindPlace::After(answer.clone()))]);
    let answers: Vec<_> = read.iter().filter(|read| read.sort == "assistant").collect();
    assert_eq!(answers.len(), 5);
    assert_eq!(answers[1].id.as_ref(), Some(&answer));
    let compactions: Vec<_> = read.iter().filter(|read| read.compaction.is_some()).collect();
    let [compaction] = compactions.as_slice() else { panic!("{compactions:?}") };
    assert!(compaction.compaction.as_ref().unwrap().contains("answer 5"));
    assert_eq!(compaction.keeps, [answers[3].id.clone().unwrap()]);
    let used = used_in_all(&read);
    assert_eq!([used.input_tokens, used.cache_read_tokens, used.output_tokens], recount(&lines));
    assert_eq!(used.input_tokens, 5 * 1200);

    // The fork begins with a copy of what is behind the compaction; what was used before is not told.
    let lines: Vec<&str> = include_str!("../samples/kept-fork.jsonl").lines().collect();
    let path = "projects/-p/28ee913c-3e49-418d-94cf-652ac28dc184.jsonl";
    let fork = read_records("claude", &kept_file("claude", path).unwrap(), &lines);
    assert!(fork.iter().all(|read| read.known && read.back.is_none()));
    let copied = fork.iter().filter(|read| read.id.as_ref() == answers[3].id.as_ref());
    assert_eq!(copied.map(|read| read.events.len()).collect::<Vec<_>>(), [0]);
    let told = told_records("claude", &kept_file("claude", path).unwrap(), &lines);
    let used: Vec<&str> =
        told.iter().filter_map(|line| line.split_once(", used ")).map(|(_, used)| used).collect();
    assert_eq!(
        used,
        ["msg_07 sample-model 1200/64/800/0/0/0", "msg_08 sample-model 1200/64/800/0/0/0"]
    );
}

/// Version 1.0.60 had two subagents at work side by side, and was resumed: it copied the session.
#[test]
fn a_real_session_with_sidechains_is_read_with_its_copy() {
    let read = |session: &str, text: &'static str| -> (Vec<&str>, Vec<String>, Vec<ReadRecord>) {
        let lines: Vec<&str> = text.lines().collect();
        let file = kept_file("claude", &format!("projects/-p/{session}.jsonl")).unwrap();
        let told = told_records("claude", &file, &lines);
        let read = read_records("claude", &file, &lines);
        assert!(read.iter().all(|read| read.known && read.back.is_none()), "{told:?}");
        (lines, told, read)
    };
    let (lines, told, first) = read(
        "7251dcf2-ca0d-4ef1-a7ac-f0a80ab4d09e",
        include_str!("../samples/kept-sidechains.jsonl"),
    );
    let mut lanes: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, read) in first.iter().enumerate() {
        if let Some(lane) = &read.lane {
            lanes.entry(lane.as_str()).or_default().push(at);
        }
    }
    for chain in [[4, 5, 6, 7], [9, 10, 11, 12]] {
        let root = first[chain[0]].id.as_deref().unwrap();
        assert_eq!(lanes.get(root).map(Vec::as_slice), Some(chain.as_slice()));
    }
    assert_eq!(lanes.len(), 2);
    let touched: Vec<&str> =
        told.iter().filter_map(|line| Some(line.split_once(" message, ")?.1)).collect();
    let touched: Vec<&str> =
        touched.into_iter().filter(|touched| !touched.starts_with("used")).collect();
    let place = "/tmp/work-sample/project";
    let expected = ["read names.txt", "write count.txt", "read names.txt", "write names.txt"]
        .map(|touched| touched.replace(' ', &format!(" {place}/")));
    assert_eq!(touched, expected);
    let used = used_in_all(&first);
    assert_eq!([used.input_tokens, used.cache_read_tokens, used.output_tokens], recount(&lines));
    assert_eq!(used.input_tokens, 10 * 1200);

    let (_, copied, second) =
        read("92126d8f-99a5-4e0a-8b3d-56288290b56f", include_str!("../samples/kept-copied.jsonl"));
    // The summaries in it are of another session.
    assert_eq!(second.iter().filter(|read| read.sort == "summary").count(), 3);
    assert!(second.iter().all(|read| read.details.title.is_none()));
    // What was copied is counted under the same ids.
    let uses = |told: &[String]| -> Vec<String> {
        let uses = told.iter().filter_map(|line| Some(line.split_once(", used ")?.1.to_owned()));
        uses.collect()
    };
    let (first, second) = (uses(&told), uses(&copied));
    let (new, old): (Vec<_>, Vec<_>) = second.iter().partition(|used| !first.contains(used));
    assert_eq!((new.len(), old.len()), (1, 6));
    assert!(new[0].starts_with("msg_12 "));
}
