//! What the payloads of hooks report, as the agents send them and as nobody means well with them.

use std::collections::HashSet;

use serde_json::Value;

use crate::{AgentKind, HookReport, HookStep, TurnEnding};

/// The agents with hooks, payloads of each, and the name of the field with the session.
const SAMPLES: &[(&str, &str, &str)] = &[
    ("claude", include_str!("../claude/hooks/samples/session.jsonl"), "session_id"),
    ("codex", include_str!("../codex/hooks/samples/session.jsonl"), "session_id"),
    ("gemini", include_str!("../gemini/hooks/samples/session.jsonl"), "session_id"),
    ("opencode", include_str!("../opencode/hooks/samples/session.jsonl"), "session"),
];

/// What a payload reports to this agent's reader.
pub(crate) fn report(agent: &str, payload: &str) -> Option<HookReport> {
    let kind: AgentKind = agent.parse().unwrap();
    (kind.hooks().unwrap().reader)(payload)
}

/// The recorded payloads of an agent, one line for each: sessions and turns are numbered as they come.
pub(crate) fn told_payloads(agent: &str) -> Vec<String> {
    let (_, sample, _) = SAMPLES.iter().find(|(name, ..)| *name == agent).unwrap();
    let (mut sessions, mut turns) = (Vec::new(), Vec::new());
    let number = |known: &mut Vec<String>, id: &str| {
        let at = known.iter().position(|one| one == id).unwrap_or_else(|| {
            known.push(id.to_owned());
            known.len() - 1
        });
        at + 1
    };
    let mut lines = Vec::new();
    for payload in sample.lines() {
        let report = report(agent, payload).unwrap();
        assert_eq!(report.directory.as_deref(), Some("/home/me/project".as_ref()), "{payload}");
        let mut line = format!("session {}", number(&mut sessions, &report.session));
        if let Some(parent) = &report.parent {
            line.push_str(&format!(" of {}", number(&mut sessions, parent)));
        }
        if let Some(lane) = &report.lane {
            line.push_str(&format!(" lane {lane}"));
        }
        if let Some(turn) = &report.turn {
            line.push_str(&format!(" turn {}", number(&mut turns, turn)));
        }
        lines.push(format!("{line}: {}", step_line(&report.step)));
    }
    lines
}

/// A step in one line.
pub(crate) fn step_line(step: &HookStep) -> String {
    match step {
        HookStep::SessionStarted => "started".to_owned(),
        HookStep::Prompted { text, by_person } => {
            let who = if *by_person { "a person" } else { "a machine" };
            format!("{who} says {:?}", text.chars().take(40).collect::<String>())
        }
        HookStep::CallFinished { call, tool, arguments, result, ok } => {
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            assert!(arguments.is_object() && !result.is_empty(), "{result}");
            format!("{tool} {call} {}", if *ok { "ok" } else { "failed" })
        }
        HookStep::TurnFinished { ending, message } => {
            let ending = match ending {
                TurnEnding::Completed => "completed",
                TurnEnding::Interrupted => "interrupted",
                TurnEnding::Failed => "failed",
            };
            format!("{ending} {:?}", message.as_deref().unwrap_or("-"))
        }
        HookStep::SubagentFinished { file } => format!("subagent done, {}", file.is_some()),
        HookStep::SessionEnded => "ended".to_owned(),
        HookStep::Other => "other".to_owned(),
    }
}

#[test]
fn each_agent_with_hooks_has_payloads_here() {
    let with_hooks = AgentKind::all().filter(|kind| kind.hooks().is_some());
    let names: Vec<&str> = with_hooks.map(AgentKind::as_str).collect();
    assert_eq!(names, SAMPLES.iter().map(|sample| sample.0).collect::<Vec<_>>());
}

#[test]
fn a_payload_that_comes_twice_has_the_same_identity_and_no_other_has_it() {
    for (agent, sample, _) in SAMPLES {
        let told: Vec<_> = sample.lines().map(|payload| report(agent, payload).unwrap()).collect();
        let again = sample.lines().map(|payload| report(agent, payload).unwrap());
        assert!(told.iter().map(HookReport::identity).eq(again.map(|one| one.identity())));
        let all: Vec<String> = told.iter().filter_map(HookReport::identity).collect();
        let apart: HashSet<&String> = all.iter().collect();
        assert_eq!(apart.len(), all.len(), "{agent}: {all:?}");
        assert!(all.iter().all(|identity| identity.len() <= 120), "{agent}: {all:?}");
        // Each step of a turn has one where the agent gives ids.
        let steps = told.iter().filter(|report| {
            matches!(
                report.step,
                HookStep::Prompted { .. }
                    | HookStep::CallFinished { .. }
                    | HookStep::TurnFinished { .. }
            )
        });
        let wanted = if *agent == "gemini" { 0 } else { steps.count() };
        assert_eq!(all.len(), wanted, "{agent}");
    }
}

#[test]
fn what_is_no_payload_reports_nothing() {
    for (agent, _, session) in SAMPLES {
        let long = format!(r#"{{"{session}":"{}"}}"#, "x".repeat(161));
        let numbered = format!(r#"{{"{session}":7}}"#);
        let empty = format!(r#"{{"{session}":""}}"#);
        for payload in ["", "null", "[]", "{}", "{", "hello", &long, &numbered, &empty] {
            assert_eq!(report(agent, payload), None, "{agent}: {payload}");
        }
    }
}

#[test]
fn whatever_stands_beside_the_session_it_is_a_report() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    let odd =
        ["null", "1e999", "-0.0e-99999", "[]", "{}", "true", "\"\"", "\"\\ud800\"", &deep, &long];
    for (agent, sample, session) in SAMPLES {
        for payload in sample.lines() {
            let fields: serde_json::Map<String, Value> = serde_json::from_str(payload).unwrap();
            for name in fields.keys().filter(|name| name != session) {
                for value in odd {
                    let strange = payload.strip_suffix('}').unwrap();
                    let strange = format!("{strange},\"{name}\":{value}}}");
                    let told = report(agent, &strange);
                    assert!(told.is_some(), "{agent}: {}", &strange[..payload.len()]);
                    let identity = told.unwrap().identity();
                    assert!(identity.is_none_or(|identity| identity.len() <= 120));
                }
            }
        }
        let alone = format!(r#"{{"{session}":"s"}}"#);
        assert_eq!(report(agent, &alone).unwrap().step, HookStep::Other);
    }
}

#[test]
fn ids_and_paths_that_are_too_long_are_left_out_and_texts_are_not() {
    let long = "x".repeat(5000);
    for (agent, directory) in [("claude", "cwd"), ("codex", "cwd"), ("gemini", "cwd")] {
        let payload = format!(
            r#"{{"session_id":"s","{directory}":"/{long}","transcript_path":"/{long}","model":"{long}",
               "prompt_id":"{long}","turn_id":"{long}","hook_event_name":"UserPromptSubmit","prompt":"{long}"}}"#
        );
        let payload = match agent {
            "gemini" => payload.replace("UserPromptSubmit", "BeforeAgent"),
            _ => payload,
        };
        let told = report(agent, &payload).unwrap();
        assert_eq!((told.directory, told.file, told.model, told.turn), (None, None, None, None));
        assert_eq!(told.step, HookStep::Prompted { text: long.clone(), by_person: true });
    }
}

/// Ten thousand payloads for each agent, changed by a fixed seed.
#[test]
fn payloads_that_were_changed_are_reports_as_long_as_they_name_a_session() {
    for (agent, sample, session) in SAMPLES {
        let payloads: Vec<&str> = sample.lines().collect();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % below.max(1) as u64).unwrap()
        };
        let (mut reports, mut broken) = (0, 0);
        for round in 0..10_000 {
            let mut bytes = payloads[round % payloads.len()].as_bytes().to_vec();
            for _ in 0..=next(3) {
                change(&mut bytes, &payloads, &mut next);
            }
            let text = String::from_utf8_lossy(&bytes);
            let told = report(agent, &text);
            if let Some(told) = &told {
                assert!(told.identity().is_none_or(|identity| identity.len() <= 120));
            }
            match serde_json::from_str::<Value>(&text) {
                Ok(value) => {
                    let id = value.get(session).and_then(Value::as_str);
                    let names_one = id.is_some_and(|id| !id.is_empty() && id.len() <= 160);
                    assert_eq!(told.is_some(), names_one, "{agent}: {text}");
                    reports += usize::from(names_one);
                }
                Err(_) => broken += 1,
            }
        }
        // Both happen often enough to tell something.
        assert!(reports > 2000 && broken > 2000, "{agent}: {reports} {broken}");
    }
}

/// Changes a payload in one way.
fn change(bytes: &mut Vec<u8>, payloads: &[&str], next: &mut impl FnMut(usize) -> usize) {
    if bytes.len() < 2 {
        return;
    }
    let at = next(bytes.len());
    let put = |bytes: &mut Vec<u8>, at: usize, text: &str| {
        bytes.splice(at..at, text.bytes()).for_each(drop);
    };
    match next(8) {
        0 => bytes[at] ^= 1 << next(8),
        1 => bytes.truncate(at),
        2 => {
            let end = (at + next(40)).min(bytes.len());
            bytes.drain(at..end).for_each(drop);
        }
        3 => {
            let other = payloads[next(payloads.len())].as_bytes();
            let from = next(other.len());
            bytes.splice(at.., other[from..].iter().copied()).for_each(drop);
        }
        4 => {
            // A key of another payload once more, with its value.
            let other = payloads[next(payloads.len())];
            let all: Vec<(String, Value)> =
                serde_json::from_str::<serde_json::Map<_, _>>(other).unwrap().into_iter().collect();
            let (name, value) = &all[next(all.len())];
            put(bytes, 1, &format!("\"{name}\":{value},"));
        }
        5 => {
            // Another type behind a colon.
            let colons: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b':').collect();
            let Some(colon) = colons.get(next(colons.len())).copied() else { return };
            let value =
                ["null,\"x\":", "[1,2],\"x\":", "{\"a\":{}},\"x\":", "true,\"x\":"][next(4)];
            put(bytes, colon + 1, value);
        }
        6 => {
            let digits = "9".repeat(1 + next(400));
            put(bytes, 1, &format!("\"n\":-{digits}.{digits}e{},", next(400)));
        }
        _ => {
            let depth = 1 + next(120);
            let (open, close) = ("[{\"a\":".repeat(depth), "}]".repeat(depth));
            put(bytes, 1, &format!("\"deep\":{open}0{close},"));
        }
    }
}
