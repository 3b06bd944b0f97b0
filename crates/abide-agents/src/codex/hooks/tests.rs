//! What the payloads of its hooks report.

use std::path::Path;

use super::super::kept::thread_of_rollout;
use crate::tests::hook_payloads::{report, told_payloads};
use crate::{HookStep, TurnEnding};

#[test]
fn a_session_with_a_subagent_and_an_interrupt() {
    assert_eq!(
        told_payloads("codex"),
        [
            "session 1: started",
            "session 1 turn 1: a person says \"Write the word three into notes.txt\"",
            "session 1 turn 1: Bash call_01 ok",
            "session 1 turn 1: apply_patch call_02 ok",
            "session 1 turn 1: Bash call_03 ok",
            "session 1 turn 1: completed \"It is written.\"",
            "session 1: ended",
            "session 1: started",
            "session 1 turn 2: a person says \"Now have a look at what you did\"",
            "session 1 turn 2: spawn_agent call_04 ok",
            "session 2 of 1 turn 3: other",
            "session 2 of 1 turn 3: other",
            "session 2 of 1 turn 3: Bash call_06 ok",
            "session 2 of 1 turn 3: subagent done, true",
            "session 1 turn 2: Bash call_05 ok",
            "session 1 turn 2: completed \"It says one, three.\"",
            "session 1: ended",
            "session 1: started",
            "session 1 turn 4: a person says \"Wait for a while\"",
            "session 1 turn 4: interrupted \"-\"",
            "session 1: ended",
        ]
    );
}

#[test]
fn sessions_are_those_of_the_rollouts() {
    for payload in include_str!("samples/session.jsonl").lines() {
        let told = report("codex", payload).unwrap();
        assert_eq!(thread_of_rollout(told.file.as_deref().unwrap()), Some(told.session.clone()));
        if let HookStep::SubagentFinished { file } = &told.step {
            assert_eq!(file, &told.file);
        }
    }
}

#[test]
fn a_thread_is_told_by_its_rollout_where_it_shares_a_session() {
    let thread = "01a1f633-6066-7691-8cab-f3a5e6f652f4";
    let file = format!("/h/sessions/rollout-2026-11-19T23-45-24-{thread}.jsonl");
    let payload = |file: &str| {
        format!(r#"{{"session_id":"s","transcript_path":"{file}","hook_event_name":"Stop"}}"#)
    };
    let told = report("codex", &payload(&file)).unwrap();
    assert_eq!((&*told.session, told.parent.as_deref()), (thread, None));
    for other in ["/h/x.jsonl", "/", "", &format!("{file}x")] {
        let told = report("codex", &payload(other)).unwrap();
        assert_eq!(told.session, "s", "{other}");
    }
    assert_eq!(thread_of_rollout(Path::new(&file.replace(thread, &"x".repeat(161)))), None);
}

#[test]
fn a_subagent_opens_and_ends_no_turn() {
    let events = ["SessionStart", "UserPromptSubmit", "Stop", "StopFailure", "Interrupt"];
    for event in events.into_iter().chain(["SessionEnd"]) {
        for agent in ["\"a1\"", "7"] {
            let payload = format!(
                r#"{{"session_id":"s","hook_event_name":"{event}","prompt":"a","agent_id":{agent}}}"#
            );
            assert_eq!(report("codex", &payload).unwrap().step, HookStep::Other, "{payload}");
        }
    }
}

#[test]
fn prompts_of_machines_and_failures_are_told() {
    let step = |event: &str, prompt: &str| {
        let payload =
            format!(r#"{{"session_id":"s","hook_event_name":"{event}","prompt":"{prompt}"}}"#);
        report("codex", &payload).unwrap().step
    };
    for (text, by_person) in [
        ("<subagent_notification>", false),
        ("Generate a concise, single-line task title for", false),
        ("Generate a parser", true),
    ] {
        let text = text.to_owned();
        assert_eq!(step("UserPromptSubmit", &text), HookStep::Prompted { text, by_person });
    }
    let (ending, message) = (TurnEnding::Failed, None);
    assert_eq!(step("StopFailure", ""), HookStep::TurnFinished { ending, message });
    assert_eq!(step("PostModelRequest", ""), HookStep::Other);
}
