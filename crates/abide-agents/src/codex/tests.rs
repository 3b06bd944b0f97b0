//! What Codex prints. The samples were printed by version 0.166.

use abide_model::Usage;
use proptest::prelude::*;

use crate::tests::{
    are_detected, is_not_resumed, kind, read, told, told_as, told_bytes, told_however_cut,
    told_ids, told_in_pieces, words,
};
use crate::{AgentKind, AgentReader, PriorSession};

const KIND: AgentKind = AgentKind::of(&super::PROFILE);

const WHOLE: &str = include_str!("samples/run.jsonl");
const RESUMED: &str = include_str!("samples/resumed.jsonl");
const TOOLS: &str = include_str!("samples/tools.jsonl");
const TOOLS_RESUMED: &str = include_str!("samples/tools-resumed.jsonl");
const LIMITED: &str = include_str!("samples/limited.jsonl");

const UNKNOWN_MODEL: &str = "warning Model metadata for `stub-1` not found. Defaulting to fallback \
                             metadata; this can degrade performance and cause issues.";

#[test]
fn a_run_of_it() {
    let whole = told_however_cut(KIND, WHOLE);
    assert_eq!(
        whole,
        [
            "session 01a1e112-e9ac-7ae2-9508-33be9c2c6fea",
            UNKNOWN_MODEL,
            r#"message {"role":"assistant","content":"Step 0."}"#,
            "step Step 0.",
            r#"called item_2 shell {"command":"/bin/bash -lc 'echo one >> out.txt; echo hello; exit 3'"}"#,
            "step shell: 'echo one >> out.txt; echo hello; exit 3'",
            r#"finished item_2 not ok {"exit_code":3,"output":"hello\n"}"#,
            r#"message {"role":"assistant","content":"Step 1."}"#,
            "step Step 1.",
            r#"called item_4 shell {"command":"/bin/bash -lc 'cat out.txt'"}"#,
            "step shell: 'cat out.txt'",
            r#"finished item_4 ok {"exit_code":0,"output":"one\n"}"#,
            r#"message {"role":"assistant","content":"All done."}"#,
            "step All done.",
            "usage - 36/21/12/0/0/0",
            "outcome ok All done.",
        ]
    );
}

#[test]
fn usage_of_a_thread_that_goes_on_is_told_once() {
    let before =
        Usage { input_tokens: 36, output_tokens: 21, cache_read_tokens: 12, ..Usage::default() };
    let before = PriorSession { used: before, ..PriorSession::default() };
    let resumed = AgentReader::with(KIND, before);
    let told = read(resumed, &[RESUMED.as_bytes()]);
    assert_eq!(told[4], "usage - 12/7/4/0/0/0");
    // Two turns of one process.
    let turn = |input: u64| {
        format!("{{\"type\":\"turn.completed\",\"usage\":{{\"input_tokens\":{input}}}}}\n")
    };
    let told = crate::tests::told(KIND, &(turn(5) + &turn(9) + &turn(9) + &turn(2)));
    let usage: Vec<_> = told.iter().filter(|line| line.starts_with("usage")).collect();
    assert_eq!(usage, ["usage - 5/0/0/0/0/0", "usage - 4/0/0/0/0/0", "usage - 2/0/0/0/0/0"]);
}

#[test]
fn its_calls_are_told_apart_from_those_of_other_processes() {
    let before = PriorSession { calls: "7.".to_owned(), ..PriorSession::default() };
    let told = read(AgentReader::with(KIND, before), &[WHOLE.as_bytes()]);
    assert!(told[4].starts_with("called 7.item_2 shell"), "{}", told[4]);
    assert!(told[6].starts_with("finished 7.item_2 not ok"), "{}", told[6]);
}

#[test]
fn a_limit_ends_the_turn_and_is_told_once() {
    let whole = told_however_cut(KIND, LIMITED);
    assert_eq!(
        whole,
        [
            "session 01a1e113-fdf9-7ca3-9ab2-ffb364c826de",
            UNKNOWN_MODEL,
            "limited rate - exceeded retry limit, last status: 429 Too Many Requests",
            "error exceeded retry limit, last status: 429 Too Many Requests",
            "outcome not ok exceeded retry limit, last status: 429 Too Many Requests",
        ]
    );
}

/// Commands, a tool of a server, four patches, and a to-do list in three states.
#[test]
fn every_tool_it_uses_is_a_call_with_a_result() {
    let first = told_in_pieces(KIND, TOOLS);
    let calls = told_ids(&first, "called ");
    assert_eq!(calls.len(), 15);
    assert_eq!(told_ids(&first, "finished "), calls);
    assert_eq!(calls.iter().collect::<std::collections::HashSet<_>>().len(), calls.len());
    let failed: Vec<_> = first.iter().filter(|line| line.contains(" not ok ")).collect();
    assert_eq!(failed.len(), 2);
    assert!(failed[0].starts_with(r#"finished item_7 not ok {"exit_code":3,"#), "{failed:?}");
    assert!(failed[1].starts_with(r#"finished item_15 not ok {"exit_code":2,"#), "{failed:?}");
    let lists: Vec<_> = first.iter().filter(|line| line.contains(" todo_list ")).collect();
    assert_eq!(
        lists,
        [
            r#"called item_2.1 todo_list {"todos":[{"content":"Look at the project","status":"pending"},{"content":"Fix the greeting 🔧","status":"pending"},{"content":"Check it: 検証","status":"pending"}]}"#,
            r#"called item_2.2 todo_list {"todos":[{"content":"Look at the project","status":"completed"},{"content":"Fix the greeting 🔧","status":"pending"},{"content":"Check it: 検証","status":"pending"}]}"#,
            r#"called item_2.3 todo_list {"todos":[{"content":"Look at the project","status":"completed"},{"content":"Fix the greeting 🔧","status":"completed"},{"content":"Check it: 検証","status":"completed"}]}"#,
        ]
    );
    let second = told_in_pieces(KIND, TOOLS_RESUMED);
    assert_eq!(told_ids(&second, "called "), ["item_1", "item_2", "item_3"]);
    assert_eq!(told_ids(&second, "finished "), ["item_1", "item_2", "item_3"]);
    let all = [first, second].concat();
    assert_eq!(all.iter().filter(|line| line.contains(" file_change ")).count(), 4);
    let place = "/tmp/work-sample/project";
    let touched = ["greet.py", "test_greet.py", "greet.py", "CHANGES.md"];
    assert_eq!(told_as(&all, "touched "), touched.map(|file| format!("{place}/{file} write")));
    // Nothing of it is a mere note.
    assert!(!all.iter().any(|line| line.starts_with("info ") || line.starts_with("warning ")));
}

#[test]
fn a_search_is_called_when_it_is_known_what_is_searched_for() {
    let output = r#"
{"type":"item.started","item":{"id":"i1","type":"web_search","query":"","action":{"type":"other"}}}
{"type":"item.completed","item":{"id":"i1","type":"web_search","query":"rust","action":{"type":"search","query":"rust"}}}
{"type":"item.started","item":{"id":"i2","type":"web_search","query":"go"}}
"#;
    assert_eq!(
        told(KIND, output),
        [
            r#"called i1 web_search {"query":"rust","action":{"type":"search","query":"rust"}}"#,
            "step web_search: rust",
            "finished i1 ok -",
            r#"called i2 web_search {"query":"go"}"#,
            "step web_search: go",
        ]
    );
}

/// Items after the typings of its software development kit.
#[test]
fn items_of_every_sort() {
    let output = r#"
{"type":"item.completed","item":{"id":"i1","type":"reasoning","text":"**Looking around**\nmore"}}
{"type":"item.started","item":{"id":"i2","type":"mcp_tool_call","server":"docs","tool":"find","arguments":{"query":"x"},"status":"in_progress"}}
{"type":"item.completed","item":{"id":"i2","type":"mcp_tool_call","server":"docs","tool":"find","arguments":{"query":"x"},"result":{"content":[]},"status":"completed"}}
{"type":"item.completed","item":{"id":"i3","type":"mcp_tool_call","server":"docs","tool":"get","arguments":null,"error":{"message":"gone"},"status":"failed"}}
{"type":"item.completed","item":{"id":"i4","type":"web_search","query":"rust"}}
{"type":"item.started","item":{"id":"i5","type":"file_change","changes":[{"path":"a","kind":"add"}],"status":"in_progress"}}
{"type":"item.completed","item":{"id":"i5","type":"file_change","changes":[{"path":"a","kind":"add"},{"path":"b","kind":"delete"},{"path":"c","kind":"update"}],"status":"completed"}}
{"type":"item.completed","item":{"id":"i6","type":"file_change","changes":[{"path":"d","kind":"update"}],"status":"failed"}}
{"type":"item.started","item":{"id":"i7","type":"todo_list","items":[{"text":"one","completed":false},{"text":"two","completed":false}]}}
{"type":"item.updated","item":{"id":"i7","type":"todo_list","items":[{"text":"one","completed":true},{"text":"two","completed":false}]}}
{"type":"item.completed","item":{"id":"i7","type":"todo_list","items":[{"text":"one","completed":true},{"text":"two","completed":false}]}}
{"type":"item.completed","item":{"id":"i8","type":"of_tomorrow"}}
{"type":"error","message":"Reconnecting... 1/5 (Rate limit reached. Please try again in 2s.)"}
{"type":"turn.failed","error":{"message":"You've hit your usage limit. Try again in 1 hour 5 minutes."}}
"#;
    assert_eq!(
        told_however_cut(KIND, output),
        [
            r#"message {"role":"assistant","content":[{"type":"thinking","thinking":"**Looking around**\nmore"}]}"#,
            "step Looking around",
            r#"called i2 docs.find {"query":"x"}"#,
            "step docs.find: x",
            r#"finished i2 ok {"content":[]}"#,
            "called i3 docs.get -",
            "step docs.get",
            r#"finished i3 not ok {"message":"gone"}"#,
            r#"called i4 web_search {"query":"rust"}"#,
            "step web_search: rust",
            "finished i4 ok -",
            r#"called i5 file_change {"changes":[{"path":"a","kind":"add"}]}"#,
            "step file_change",
            "finished i5 ok -",
            "step edit: a",
            "touched a write",
            "step edit: b",
            "touched b delete",
            "step edit: c",
            "touched c write",
            r#"called i6 file_change {"changes":[{"path":"d","kind":"update"}]}"#,
            "step file_change",
            r#"finished i6 not ok "failed""#,
            r#"called i7.1 todo_list {"todos":[{"content":"one","status":"pending"},{"content":"two","status":"pending"}]}"#,
            "step todo_list",
            "finished i7.1 ok -",
            r#"called i7.2 todo_list {"todos":[{"content":"one","status":"completed"},{"content":"two","status":"pending"}]}"#,
            "step todo_list",
            "finished i7.2 ok -",
            "warning Reconnecting... 1/5 (Rate limit reached. Please try again in 2s.)",
            "limited usage 2025-11-15T10:51:40.000Z You've hit your usage limit. Try again in 1 hour 5 minutes.",
            "outcome not ok You've hit your usage limit. Try again in 1 hour 5 minutes.",
        ]
    );
}

#[test]
fn an_output_of_100_megabytes_is_still_that_result() {
    let start = b"{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"command_execution\",\"command\":\"c\",\"aggregated_output\":\"";
    let mut pieces = std::iter::once(start.to_vec())
        .chain((0..100).map(|_| vec![b'y'; 1 << 20]))
        .chain([b"\",\"exit_code\":0}}\n".to_vec()]);
    let (most, told) = told_bytes(KIND, &mut pieces);
    assert!(most < 70_000);
    assert!(told[2].starts_with("finished i ok {\"exit_code\":0,\"output\":\"yyy"), "{told:?}");
}

#[test]
fn it_is_known_by_program_and_flags() {
    are_detected(&[
        ("codex exec --json -", KIND),
        ("/usr/local/bin/codex -m o3 exec --json {task}", KIND),
        ("codex e --experimental-json x", KIND),
        ("npx -y @openai/codex@0.166.0 exec --json -", KIND),
        ("npx --package @openai/codex codex exec --json -", KIND),
        ("node --no-warnings /x/@openai/codex/bin/codex.js exec --json", KIND),
        ("env -i A=B PATH=/bin:/usr/bin codex exec --json", KIND),
        ("codex exec -", kind("text")),
        ("codex exec - -- --json", kind("text")),
        ("codex --json exec-policy", kind("text")),
        ("codex -m exec --json", kind("text")),
    ]);
}

#[test]
fn it_goes_on_in_its_own_session() {
    for (command, again) in [
        ("codex exec --json -", "codex exec --json resume ID -"),
        ("codex exec --json", "codex exec --json resume ID -"),
        (
            "codex -m o3 exec -c a=b {task} --json -s read-only -C dir",
            "codex -m o3 exec -c a=b --json -s read-only -C dir resume ID {task}",
        ),
        (
            "codex exec -i a.png b.png --json {task}",
            "codex exec -i a.png b.png --json resume ID {task}",
        ),
        ("codex exec --json -- -x", "codex exec --json resume ID -- -x"),
        ("codex exec --json resume OLD {task}", "codex exec --json resume ID {task}"),
        ("codex exec resume --last --json {task}", "codex exec --json resume ID {task}"),
        ("npx -y @openai/codex exec --json -", "npx -y @openai/codex exec --json resume ID -"),
    ] {
        let found = KIND.resume(&words(command), "ID");
        assert_eq!(found, Some(words(again)), "{command}");
    }
    is_not_resumed(KIND, "codex --json", "ID");
    is_not_resumed(KIND, "codex exec review --json", "ID");
    is_not_resumed(KIND, "codex exec --ephemeral --json -", "ID");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_resumed_command_holds_every_word(words in prop::collection::vec("[a-z{}=-]{1,8}", 0..8)) {
        let command: Vec<String> =
            ["codex", "exec", "--json"].into_iter().map(str::to_owned).chain(words.clone()).collect();
        if let Some(again) = KIND.resume(&command, "ID") {
            prop_assert_eq!(&again[..2], &command[..2]);
            let at = again.iter().position(|word| word == "ID").unwrap();
            prop_assert_eq!(&again[at - 1], "resume");
            for word in command.iter().filter(|word| !matches!(word.as_str(), "--" | "resume")) {
                prop_assert!(again.contains(word) || command.iter().any(|one| one == "resume"));
            }
        }
    }
}

#[test]
fn the_prompt_has_its_place() {
    for (command, filled) in [
        ("codex exec --json", "codex exec --json -- PROMPT"),
        ("codex exec -i a.png", "codex exec -i a.png -- PROMPT"),
        ("codex -m m exec resume --last", "codex -m m exec resume --last -- PROMPT"),
        ("codex exec resume ID", "codex exec resume ID -- PROMPT"),
        ("codex --full-auto", "codex --full-auto -- PROMPT"),
    ] {
        let slot = KIND.prompt_slot(&words(command)).unwrap();
        assert_eq!(slot.own(), None, "{command}");
        assert_eq!(slot.fill("PROMPT".to_owned()), words(filled));
    }
    for command in [
        "codex exec mend-it --json",
        "codex exec --json -- mend-it",
        "codex exec --json resume ID mend-it",
        "codex exec resume --last mend-it",
    ] {
        let slot = KIND.prompt_slot(&words(command)).unwrap();
        assert_eq!(slot.own(), Some("mend-it"), "{command}");
        assert_eq!(slot.fill("P".to_owned()), words(&command.replace("mend-it", "P")));
    }
    // Those read stdin, or have no prompt.
    for command in
        ["codex exec --json -", "codex exec resume ID -", "codex login", "codex exec review"]
    {
        assert_eq!(KIND.prompt_slot(&words(command)), None, "{command}");
    }
}

#[test]
fn a_text_on_stdin_is_the_prompt_or_added_to_it() {
    let input = |command: &str| KIND.prompt_input(&words(command));
    for command in ["codex exec --json -", "codex exec --json", "codex exec resume ID -"] {
        let alone = input(command).unwrap();
        assert!(alone.is_alone(), "{command}");
        assert_eq!(alone.prompt("mend it\n"), "mend it\n");
    }
    let both = input("codex exec mend-it").unwrap();
    assert_eq!(both.prompt("a log\n"), "mend-it\n\n<stdin>\na log\n</stdin>");
    for command in ["codex", "codex exec review", "codex login"] {
        assert_eq!(input(command), None, "{command}");
    }
}
