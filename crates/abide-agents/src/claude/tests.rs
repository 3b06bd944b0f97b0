//! What Claude Code prints. The samples were printed by version 2.1.

use abide_model::Timestamp;

use crate::tests::{NOW, are_detected, is_not_resumed, kind, read, told, told_however_cut, words};
use crate::{AgentKind, AgentReader, ObservedFact, PriorSession};

const KIND: AgentKind = AgentKind::of(&super::PROFILE);

const WHOLE: &str = include_str!("samples/run.jsonl");
const LIMITED: &str = include_str!("samples/limited.jsonl");

/// What was told, without messages.
fn without_messages(told: &[String]) -> Vec<&str> {
    told.iter().map(String::as_str).filter(|line| !line.starts_with("message ")).collect()
}

#[test]
fn a_run_of_it() {
    let told = told(KIND, WHOLE);
    assert_eq!(
        without_messages(&told),
        [
            "session ed51bbf8-9548-4477-8d92-055b2dfcbd9d",
            "model claude-opus-4-8[1m]",
            "step Step 0.",
            r#"called call_0_0 Bash {"command":"echo one >> out.txt; echo hello","description":"Append"}"#,
            "step bash: echo one >> out.txt; echo hello",
            r#"finished call_0_0 ok "hello""#,
            "step Step 1.",
            r#"called call_1_0 Write {"file_path":"/project/new.txt","content":"hi"}"#,
            "step write: /project/new.txt",
            "finished call_1_0 ok \"File created successfully at: /project/new.txt (file state is current in your context — no need to Read it back)\"",
            "touched /project/new.txt write",
            "step Step 2.",
            r#"called call_2_0 Read {"file_path":"/project/missing.txt"}"#,
            "step read: /project/missing.txt",
            r#"finished call_2_0 not ok "File does not exist. Note: your current working directory is /project.""#,
            "step All done.",
            "usage claude-opus-4-8[1m] 48/28/16/0/0/868",
            "outcome ok All done.",
        ]
    );
    let messages: Vec<_> = told.iter().filter(|line| line.starts_with("message ")).collect();
    assert_eq!(messages.len(), 10);
    assert_eq!(
        messages[2],
        r#"message {"role":"user","content":[{"tool_use_id":"call_0_0","type":"tool_result","content":"hello","is_error":false}]}"#
    );
}

#[test]
fn messages_are_what_the_api_knows() {
    let mut reader = AgentReader::new(KIND);
    let mut read = 0;
    reader.feed(WHOLE.as_bytes(), Timestamp::from_millis(NOW), &mut |seen| {
        if let ObservedFact::Message { data } = seen.what {
            abide_wire::record(abide_wire::MessageForm::Anthropic, data.get()).unwrap();
            read += 1;
        }
    });
    assert_eq!(read, 10);
}

#[test]
fn a_cut_makes_no_difference() {
    // The longest line says nothing that the others do not.
    let short: String = WHOLE.lines().skip(1).map(|line| format!("{line}\n")).collect();
    assert_eq!(told_however_cut(KIND, &short).len(), 27);
}

#[test]
fn a_limit_is_told_once() {
    let told = told_however_cut(KIND, LIMITED);
    assert_eq!(
        without_messages(&told),
        [
            "session aa2d4a8d-8948-4d75-a953-581d480c3672",
            "model claude-opus-4-8[1m]",
            "warning the model's server failed (rate_limit, status 429); attempt 1 of 1",
            "step API Error: Request rejected (429) · refused by the script",
            "limited rate - API Error: Request rejected (429) · refused by the script",
            "outcome not ok API Error: Request rejected (429) · refused by the script",
        ]
    );
}

#[test]
fn the_time_of_a_limit_comes_in_an_event_of_its_own() {
    let output = r#"
{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","resetsAt":1763203600,"rateLimitType":"five_hour"}}
{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1763203600,"rateLimitType":"five_hour"}}
{"type":"assistant","message":{"id":"m","role":"assistant","model":"<synthetic>","content":[{"type":"text","text":"You've hit your limit · resets 3pm (Europe/Berlin)"}]},"error":"rate_limit","parent_tool_use_id":null}
{"type":"result","subtype":"success","is_error":true,"result":"You've hit your limit · resets 3pm (Europe/Berlin)","session_id":"s"}
{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1763210000,"rateLimitType":"seven_day"}}
"#;
    let told = told_however_cut(KIND, output);
    assert_eq!(
        without_messages(&told),
        [
            "warning the limit five_hour is nearly reached",
            "step You've hit your limit · resets 3pm (Europe/Berlin)",
            "limited usage 2025-11-15T10:46:40.000Z You've hit your limit · resets 3pm (Europe/Berlin)",
            "session s",
            "outcome not ok You've hit your limit · resets 3pm (Europe/Berlin)",
            "limited seven_day 2025-11-15T12:33:20.000Z the limit seven_day is reached",
        ]
    );
}

#[test]
fn deltas_are_no_messages_and_agents_below_are_told_apart() {
    let output = r#"
{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}},"session_id":"s"}
{"type":"assistant","parent_tool_use_id":"toolu_1","message":{"id":"m1","role":"assistant","model":"small","content":[{"type":"tool_use","id":"c1","name":"Edit","input":{"file_path":"a"}}],"usage":{"input_tokens":1,"output_tokens":2}}}
{"type":"user","parent_tool_use_id":"toolu_1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"no","is_error":true}]}}
{"type":"user","isReplay":true,"message":{"role":"user","content":"said before"}}
{"type":"assistant","parent_tool_use_id":null,"message":{"id":"m2","role":"assistant","model":"big","content":[{"type":"tool_use","id":"c2","name":"NotebookEdit","input":{"notebook_path":"n"}}],"usage":{"input_tokens":3,"cache_read_input_tokens":10,"cache_creation_input_tokens":100,"output_tokens":4}}}
"#;
    // The process was killed: there is no result, and what was asked may have been done.
    assert_eq!(
        told_however_cut(KIND, output),
        [
            r#"toolu_1: message {"id":"m1","role":"assistant","model":"small","content":[{"type":"tool_use","id":"c1","name":"Edit","input":{"file_path":"a"}}],"usage":{"input_tokens":1,"output_tokens":2}}"#,
            r#"toolu_1: called c1 Edit {"file_path":"a"}"#,
            "toolu_1: step edit: a",
            r#"toolu_1: message {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"no","is_error":true}]}"#,
            r#"toolu_1: finished c1 not ok "no""#,
            r#"message {"id":"m2","role":"assistant","model":"big","content":[{"type":"tool_use","id":"c2","name":"NotebookEdit","input":{"notebook_path":"n"}}],"usage":{"input_tokens":3,"cache_read_input_tokens":10,"cache_creation_input_tokens":100,"output_tokens":4}}"#,
            r#"called c2 NotebookEdit {"notebook_path":"n"}"#,
            "step notebookedit: n",
            "usage big 113/4/10/100/0/0",
            "usage small 1/2/0/0/0/0",
            "touched n write",
        ]
    );
}

#[test]
fn results_count_from_the_start_of_the_process() {
    let result = |input: u64, dollars: f64| {
        format!(
            "{{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"x\",\"modelUsage\":{{\"m\":\
             {{\"inputTokens\":{input},\"costUSD\":{dollars}}}}}}}\n"
        )
    };
    let told = told(KIND, &(result(5, 0.5) + &result(8, 0.75)));
    assert_eq!(
        told,
        ["usage m 5/0/0/0/0/500000", "outcome ok x", "usage m 3/0/0/0/0/250000", "outcome ok x"]
    );
    let older = r#"{"type":"result","subtype":"error_max_turns","is_error":false,"usage":{"input_tokens":2,"output_tokens":1},"total_cost_usd":0.001}"#;
    let errors = r#"{"type":"result","subtype":"error_during_execution","errors":["a","b"]}"#;
    assert_eq!(
        crate::tests::told(KIND, &format!("{older}\n{errors}\n")),
        ["usage - 2/1/0/0/0/1000", "outcome not ok error max turns", "outcome not ok a\nb"]
    );
}

#[test]
fn halves_of_surrogate_pairs_do_not_reach_a_record() {
    let output = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"X","input":{"a":"\ud800"}}]}}"#;
    let told = told(KIND, output);
    assert_eq!(told[1], r#"called c X {"a":"\ufffd"}"#);
    assert!(told[0].contains(r#""a":"\ufffd""#));
}

#[test]
fn it_is_known_by_program_and_flags() {
    are_detected(&[
        ("claude -p --verbose --output-format stream-json", KIND),
        ("claude --output-format=stream-json -p x", KIND),
        ("node /x/@anthropic-ai/claude-code/cli.js --output-format stream-json", KIND),
        ("npx @anthropic-ai/claude-code -p --output-format stream-json x", KIND),
        ("claude.exe -p x --output-format stream-json", KIND),
        ("node /x/other/cli.js --output-format stream-json", kind("text")),
        ("claude -p x", kind("text")),
        ("claude -p x --output-format json", kind("text")),
    ]);
}

#[test]
fn it_goes_on_in_its_own_session() {
    let command = "env A=B claude -p --output-format stream-json --verbose -r OLD -c {task}";
    let again = "env A=B claude --resume ID -p --output-format stream-json --verbose {task}";
    assert_eq!(KIND.resume(&words(command), "ID"), Some(words(again)));
    is_not_resumed(KIND, "claude -p --no-session-persistence x", "ID");
}

#[test]
fn the_prompt_has_its_place() {
    for (command, filled) in [
        ("claude -p --output-format stream-json", "claude PROMPT -p --output-format stream-json"),
        ("claude -p --allowedTools Bash Edit", "claude PROMPT -p --allowedTools Bash Edit"),
        ("npx claude --resume ID -p", "npx claude PROMPT --resume ID -p"),
        ("claude", "claude PROMPT"),
    ] {
        let slot = KIND.prompt_slot(&words(command)).unwrap();
        assert_eq!(slot.own(), None, "{command}");
        assert_eq!(slot.fill("PROMPT".to_owned()), words(filled));
    }
    for command in
        ["claude -p mend-it --verbose", "claude --model m mend-it", "claude -p -- mend-it"]
    {
        let slot = KIND.prompt_slot(&words(command)).unwrap();
        assert_eq!(slot.own(), Some("mend-it"), "{command}");
        assert_eq!(slot.fill("P".to_owned()), words(&command.replace("mend-it", "P")));
    }
    assert_eq!(KIND.prompt_slot(&words("cat -p")), None);
    assert_eq!(KIND.prompt_slot(&words("claude mcp list")), None);
    assert_eq!(KIND.prompt_slot(&words("claude -p update")).unwrap().own(), Some("update"));
    assert_eq!(AgentKind::started_by(&words("claude -p")), Some(KIND));
    assert_eq!(AgentKind::started_by(&words("cat")), None);
}

#[test]
fn a_text_on_stdin_follows_the_prompt() {
    let input = |command: &str| KIND.prompt_input(&words(command));
    let alone = input("claude -p --verbose").unwrap();
    assert!(alone.is_alone());
    assert_eq!(alone.prompt("mend it\n"), "mend it\n");
    let both = input("claude -p mend-it --verbose").unwrap();
    assert!(!both.is_alone());
    assert_eq!(both.prompt("a log\n"), "mend-it\na log\n");
    // Messages as JSON, a command without a prompt, another program.
    for command in ["claude -p --input-format stream-json", "claude mcp list", "cat"] {
        assert_eq!(input(command), None, "{command}");
    }
}

#[test]
fn a_prompt_that_is_printed_again_is_told_once() {
    let user = |content: &str, more: &str| {
        format!(
            "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":{content}}}{more}}}\n"
        )
    };
    let text = r#"[{"type":"text","text":"mend it"}]"#;
    let output = [
        user(text, ",\"parent_tool_use_id\":\"t1\""),
        user("\"mend it\"", ",\"isReplay\":true"),
        user(text, ""),
        user(text, ""),
    ];
    let before = PriorSession { prompt: Some("mend it\n".to_owned()), ..PriorSession::default() };
    let told = read(AgentReader::with(KIND, before), &[output.concat().as_bytes()]);
    let message = format!("message {{\"role\":\"user\",\"content\":{text}}}");
    assert_eq!(told, [format!("t1: {message}"), message]);
}

#[test]
fn a_tool_that_the_server_ran_has_ended() {
    let message = |content: &str| {
        format!(
            "{{\"type\":\"assistant\",\"message\":{{\"role\":\"assistant\",\"content\":[{content}]}}}}\n"
        )
    };
    let output = [
        message(
            r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"x"}}"#,
        ),
        message(r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}"#),
        message(
            r#"{"type":"web_search_tool_result","tool_use_id":"s2","content":{"type":"web_search_tool_result_error","error_code":"unavailable"}}"#,
        ),
    ];
    let mut told = told(KIND, &output.concat());
    told.retain(|line| line.starts_with("called") || line.starts_with("finished"));
    assert_eq!(
        told,
        [
            r#"called s1 web_search {"query":"x"}"#,
            "finished s1 ok []",
            r#"finished s2 not ok {"type":"web_search_tool_result_error","error_code":"unavailable"}"#,
        ]
    );
}
