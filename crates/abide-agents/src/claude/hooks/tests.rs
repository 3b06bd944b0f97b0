//! What the payloads of its hooks report.

use std::path::{Path, PathBuf};

use crate::tests::hook_payloads::{report, told_payloads};
use crate::{HookStep, KeptForm, TurnEnding};

#[test]
fn a_session_with_a_subagent_in_the_background_and_an_interrupt() {
    assert_eq!(
        told_payloads("claude"),
        [
            "session 1: started",
            "session 1 turn 1: a person says \"Write the word three into notes.txt\"",
            "session 1 turn 1: Bash toolu_01 ok",
            "session 1 turn 1: Read toolu_02 ok",
            "session 1 turn 1: Edit toolu_03 ok",
            "session 1 turn 1: Bash toolu_04 failed",
            "session 1 turn 1: completed \"It is written.\"",
            "session 1 turn 1: ended",
            "session 1: started",
            "session 1 turn 2: a person says \"Now have a look at what you did\"",
            "session 1 lane a6955297f44712a0d turn 2: other",
            "session 1 turn 2: Agent toolu_05 ok",
            "session 1 turn 2: completed \"A helper counts.\"",
            "session 1 lane a6955297f44712a0d turn 2: Bash toolu_06 ok",
            "session 1 lane a6955297f44712a0d turn 2: subagent done, true",
            "session 1 turn 3: a machine says \"<task-notification>\\n<task-id>a6955297f44\"",
            "session 1 turn 3: completed \"The helper says two lines.\"",
            "session 1 turn 3: ended",
            "session 1: started",
            // An interrupt is not reported.
            "session 1 turn 4: a person says \"Wait for a while\"",
            "session 1 turn 4: ended",
        ]
    );
}

#[test]
fn sessions_and_lanes_are_those_of_the_files() {
    let KeptForm::Files { classify, .. } = super::super::kept::KEPT.form else { panic!() };
    let kept = |path: &Path| classify(path.strip_prefix("/home/me/.claude").unwrap()).unwrap();
    let mut lanes = 0;
    for payload in include_str!("samples/session.jsonl").lines() {
        let told = report("claude", payload).unwrap();
        let session = kept(&told.file.unwrap());
        assert_eq!((session.session.as_ref(), session.lane), (Some(&told.session), None));
        if let HookStep::SubagentFinished { file } = told.step {
            let subagent = kept(&file.unwrap());
            assert_eq!((subagent.session, subagent.lane), (Some(told.session), told.lane));
            lanes += 1;
        }
    }
    assert_eq!(lanes, 1);
}

/// The step of a payload with these fields.
fn step(fields: &str) -> HookStep {
    let payload = format!(r#"{{"session_id":"s","prompt_id":"p",{fields}}}"#);
    report("claude", &payload).unwrap().step
}

#[test]
fn a_turn_ends_when_the_agent_stops_whatever_else_goes_on() {
    for beside in [r#""stop_hook_active":true"#, r#""background_tasks":[{"status":"running"}]"#] {
        let stopped = format!(r#""hook_event_name":"Stop","last_assistant_message":"a",{beside}"#);
        let (ending, message) = (TurnEnding::Completed, Some("a".to_owned()));
        assert_eq!(step(&stopped), HookStep::TurnFinished { ending, message });
    }
    let (ending, message) = (TurnEnding::Failed, None);
    let failed = r#""hook_event_name":"StopFailure","error":"rate_limit""#;
    assert_eq!(step(failed), HookStep::TurnFinished { ending, message });
}

#[test]
fn a_subagent_opens_and_ends_no_turn() {
    for event in ["SessionStart", "UserPromptSubmit", "Stop", "StopFailure", "SessionEnd"] {
        for agent in ["\"a1\"", "7", "\"\""] {
            let fields = format!(r#""hook_event_name":"{event}","prompt":"a","agent_id":{agent}"#);
            assert_eq!(step(&fields), HookStep::Other, "{fields}");
        }
    }
    let done = r#""hook_event_name":"SubagentStop","agent_id":"a1","agent_transcript_path":"/f""#;
    let of_type = format!(r#"{done},"agent_type":"Explore""#);
    assert_eq!(step(&of_type), HookStep::SubagentFinished { file: Some(PathBuf::from("/f")) });
    // What sums up a conversation.
    assert_eq!(step(&format!(r#"{done},"agent_type":"""#)), HookStep::Other);
}

#[test]
fn prompts_that_a_machine_wrote_are_told() {
    for (text, by_person) in [
        ("<task-notification>\n", false),
        ("<channel source=\"ci\">\n", false),
        ("<channel><title>News</title>", true),
        ("<teammate-message teammate_id=1>", false),
        ("<cross-session-message from=a>", false),
        ("<local-command-stdout>", false),
        ("<div> is not closed", true),
        ("/compact", true),
        ("what is a <task-notification>?", true),
    ] {
        let text = text.to_owned();
        let encoded = serde_json::to_string(&text).unwrap();
        let fields = format!(r#""hook_event_name":"UserPromptSubmit","prompt":{encoded}"#);
        assert_eq!(step(&fields), HookStep::Prompted { text, by_person });
    }
}

#[test]
fn a_call_without_an_id_is_not_told() {
    let call = r#""hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"a":"\ud800"}"#;
    assert_eq!(step(call), HookStep::Other);
    let told = step(&format!(r#"{call},"tool_use_id":"t","tool_response":{{"stdout":"x"}}"#));
    let HookStep::CallFinished { arguments, result, .. } = told else { panic!("{told:?}") };
    // What no parser would read is mended.
    assert_eq!((&*arguments, &*result), (r#"{"a":"\ufffd"}"#, r#"{"stdout":"x"}"#));
}

#[test]
fn another_agent_that_runs_these_hooks_reports_nothing() {
    for field in [r#""conversation_id":"c""#, r#""cursor_version":"2.0""#] {
        let payload = format!(r#"{{"session_id":"s","hook_event_name":"Stop",{field}}}"#);
        assert_eq!(report("claude", &payload), None);
    }
}
