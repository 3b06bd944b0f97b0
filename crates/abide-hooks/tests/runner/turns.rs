//! When turns begin and end.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::hooked_agent::{HookedAgent, ID, lasting_process};

#[test]
fn a_turn_ends_as_the_agent_says() {
    for (agent, event, status) in [
        ("claude", "Stop", "completed"),
        ("claude", "StopFailure", "failed"),
        ("codex", "Interrupt", "interrupted"),
        ("codex", "Stop", "completed"),
    ] {
        let agent = HookedAgent::of(agent);
        let ids = json!({"prompt_id": "t1", "turn_id": "t1", "prompt": "go"});
        let plain = |event: &str| {
            let mut payload: Value =
                serde_json::from_str(&agent.payload(event, ids.clone())).unwrap();
            payload.as_object_mut().unwrap().remove("transcript_path");
            payload.to_string()
        };
        agent.tells(&plain("UserPromptSubmit"));
        assert_eq!(agent.turns(), ["+"]);
        agent.tells(&plain(event));
        assert_eq!(agent.turns(), ["+", status], "{event}");
    }
}

#[test]
fn a_turn_that_nobody_ended_ends_with_the_next_prompt_or_the_session() {
    let agent = HookedAgent::new();
    agent.tells(&agent.prompted("t1", "one"));
    agent.tells(&agent.prompted("t2", "two"));
    assert_eq!(agent.turns(), ["+", "interrupted", "+"]);
    agent.tells(&agent.ended());
    assert_eq!(agent.turns(), ["+", "interrupted", "+", "interrupted"]);
}

#[test]
fn a_machines_prompt_is_no_persons() {
    let agent = HookedAgent::new();
    agent.tells(&agent.prompted("t1", "one"));
    agent.tells(&agent.stopped("t1", "A helper counts."));
    agent.tells(&agent.prompted("t2", "<task-notification>\n<task-id>a1</task-id>"));
    agent.tells(&agent.stopped("t2", "It says two."));
    let wanted = ["user: one", "model: A helper counts.", "model: It says two."];
    assert_eq!(agent.context(), wanted);
    assert_eq!(agent.turns(), ["+", "completed", "+", "completed"]);
}

#[test]
fn subagents_open_and_end_no_turns() {
    let agent = HookedAgent::new();
    agent.tells(&agent.prompted("t1", "one"));
    let of_subagent = |event: &str| {
        let fields = json!({
            "prompt_id": "t9", "agent_id": "a1", "agent_type": "general-purpose", "prompt": "sub",
            "tool_name": "Bash", "tool_input": {}, "tool_response": "x", "tool_use_id": "c9",
            "last_assistant_message": "sub done",
        });
        agent.payload(event, fields)
    };
    for event in ["SubagentStart", "UserPromptSubmit", "PostToolUse", "Stop", "SubagentStop"] {
        agent.tells(&of_subagent(event));
        assert_eq!(agent.turns(), ["+"], "{event}");
        assert_eq!(agent.context(), ["user: one"], "{event}");
    }
    agent.tells(&of_subagent("SessionEnd"));
    agent.tells(&agent.stopped("t1", "Done."));
    assert_eq!(agent.turns(), ["+", "completed"]);
}

#[test]
fn a_turn_whose_agent_was_killed_ends_with_the_next_sweep() {
    let agent = HookedAgent::new();
    let mut process = lasting_process(Stdio::null());
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id()));
    let Ok(stat) = stat else {
        println!("skipped: nothing is told of processes here");
        process.kill().unwrap();
        process.wait().unwrap();
        return;
    };
    let started = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(19).unwrap();
    let path = agent.lands(&agent.prompted("t1", "one"));
    asked_by(&path, process.id(), started.parse().unwrap());
    agent.drains();
    agent.sweeps();
    assert_eq!(agent.turns(), ["+"], "it works");
    process.kill().unwrap();
    process.wait().unwrap();
    agent.sweeps();
    assert_eq!(agent.turns(), ["+", "interrupted"]);
    agent.sweeps();
    assert_eq!(agent.turns(), ["+", "interrupted"], "once");
}

/// Makes a report that of a hook of this process.
fn asked_by(report: &Path, process: u32, started: u64) {
    let text = fs::read_to_string(report).unwrap();
    let (head, payload) = text.split_once('\n').unwrap();
    let mut head: Value = serde_json::from_str(head).unwrap();
    head["asking"]["process"] = json!(process);
    head["asking"]["started"] = json!(started);
    fs::write(report, format!("{head}\n{payload}")).unwrap();
}

#[test]
fn a_turn_whose_end_waits_is_not_ended_by_a_sweep() {
    let agent = HookedAgent::new();
    let path = agent.lands(&agent.prompted("t1", "one"));
    // No process has started then: the agent is gone.
    asked_by(&path, std::process::id(), 1);
    agent.drains();
    // Its files are being captured.
    let landed = agent.inbox().land(ID, &agent.stopped("t1", "Done.")).unwrap();
    agent.sweeps();
    assert_eq!(agent.turns(), ["+"]);
    drop(landed);
    agent.drains();
    assert_eq!(agent.turns(), ["+", "completed"]);
}

#[test]
fn what_a_person_adds_to_a_turn_belongs_to_it() {
    let agent = HookedAgent::of("codex");
    let tells = |event: &str, turn: &str, prompt: &str| {
        let fields = json!({"turn_id": turn, "prompt": prompt, "transcript_path": null});
        agent.tells(&agent.payload(event, fields));
    };
    tells("UserPromptSubmit", "t1", "one");
    tells("UserPromptSubmit", "t1", "and another");
    assert_eq!(agent.turns(), ["+"]);
    assert_eq!(agent.context(), ["user: one", "user: and another"]);
    tells("Stop", "t0", "");
    assert_eq!(agent.turns(), ["+"], "the end of an earlier turn, told late");
    tells("Stop", "t1", "");
    assert_eq!(agent.turns(), ["+", "completed"]);
}
