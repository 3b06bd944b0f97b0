//! Each rule of replaying and comparing.

use abide::{
    NewEvent, Seq, Timestamp,
    secrets::{Redaction, RedactionOptions, Redactor},
};

use crate::recorded_session::{RecordedSession, chunk, raw, replay, same};
use crate::{ReplayCheck, ReplayCheckReport, ReplayedUpdate};

const AGENT: &str = "agent_message_chunk";
const THOUGHT: &str = "agent_thought_chunk";
const USER: &str = "user_message_chunk";

fn events(lines: &[&str]) -> Vec<abide::Event> {
    let event = |(line, seq): (&&str, u64)| {
        NewEvent::parse(line).unwrap().into_event(Seq(seq), Timestamp::from_millis(0))
    };
    lines.iter().zip(1..).map(event).collect()
}

fn assert_same(got: &[String], want: &[String]) {
    assert_eq!(got.len(), want.len(), "{got:#?}");
    for (got, want) in got.iter().zip(want) {
        assert!(same(got, want), "{got}\nis not\n{want}");
    }
}

#[test]
fn what_was_sent_comes_back() {
    let mut story = RecordedSession::new();
    let image = r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#;
    let prompt = format!(
        r#"{{"prompt":[{{"type":"text","text":"Look"}},{image},{{"type":"resource_link","name":"a","uri":"file:///a"}}]}}"#
    );
    let recorded = story.translator.prompt(&raw(&prompt));
    story.write(recorded);
    let sent = [
        chunk(THOUGHT, "Hm"),
        r#"{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"I see"}}"#.to_owned(),
        format!(r#"{{"sessionUpdate":"agent_thought_chunk","content":{image}}}"#),
        r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"T","status":"pending","rawInput":{"n":1.50},"_meta":{"x":1}}"#.to_owned(),
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"in_progress"}"#.to_owned(),
        r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"pending"}]}"#.to_owned(),
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","content":[{"type":"diff","path":"/a","newText":"x"}]}"#.to_owned(),
        r#"{"sessionUpdate":"tool_call","toolCallId":"c2","title":"T","status":"completed"}"#.to_owned(),
        r#"{"sessionUpdate":"current_mode_update","currentModeId":"plan"}"#.to_owned(),
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c3","status":"failed"}"#.to_owned(),
        chunk(AGENT, "Done"),
    ];
    let silent = [
        r#"{"sessionUpdate":"notice","severity":"info","title":"n"}"#,
        r#"{"sessionUpdate":"_unknown"}"#,
    ];
    let commands = |name: &str| {
        format!(
            r#"{{"sessionUpdate":"available_commands_update","availableCommands":[{{"name":"{name}","description":"d"}}]}}"#
        )
    };
    story.update(&commands("old"));
    for update in &sent {
        story.update(update);
        silent.iter().for_each(|update| {
            story.update(update);
        });
    }
    story.update(&commands("new"));
    story.prompted(r#"{"stopReason":"end_turn"}"#);
    let (replay, got) = story.replay();
    let mut want = vec![chunk(USER, "Look")];
    want.push(format!(r#"{{"sessionUpdate":"user_message_chunk","content":{image}}}"#));
    want.push(r#"{"sessionUpdate":"user_message_chunk","content":{"type":"resource_link","name":"a","uri":"file:///a"}}"#.to_owned());
    want.extend(sent);
    want.push(commands("new"));
    assert_same(&got, &want);
    assert_eq!(replay.mode(), Some("plan"));
}

#[test]
fn a_call_that_leave_is_asked_for_is_replayed() {
    let mut story = RecordedSession::new();
    story.asked(
        1,
        "session/request_permission",
        r#"{"toolCall":{"toolCallId":"c","title":"Run ls","status":"pending"},"options":[]}"#,
    );
    story.update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}"#);
    let (_, got) = story.replay();
    assert_same(
        &got,
        &[
            r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"Run ls","status":"pending"}"#
                .to_owned(),
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}"#
                .to_owned(),
        ],
    );
}

#[test]
fn an_open_call_stays_as_it_was() {
    let mut story = RecordedSession::new();
    story.prompt("x");
    let call = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"T"}"#.to_owned();
    story.update(&call);
    let recorded = story.translator.interrupted("agent died");
    story.write(recorded);
    assert!(story.state.calls.is_empty());
    let (_, got) = story.replay();
    assert_same(&got, &[chunk(USER, "x"), call]);
}

#[test]
fn settings_are_what_was_last_in_force() {
    let mut story = RecordedSession::new();
    story.update(r#"{"sessionUpdate":"current_mode_update","currentModeId":"a"}"#);
    story.update(r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"model","name":"M","type":"select","currentValue":"small","options":[]},{"id":"fast","name":"F","type":"boolean","currentValue":false}]}"#);
    let recorded =
        story.translator.configured("session/set_mode", &raw(r#"{"modeId":"b"}"#), &raw("{}"));
    story.write(recorded);
    let recorded = story.translator.configured(
        "session/set_config_option",
        &raw(r#"{"configId":"model","value":"big"}"#),
        &raw("{}"),
    );
    story.write(recorded);
    let (replay, got) = story.replay();
    assert_eq!(replay.mode(), Some("b"));
    let options: Vec<_> = replay.options().collect();
    assert_eq!(options, [("fast", "false"), ("model", r#""big""#)]);
    assert_eq!(got.len(), 2);
}

#[test]
fn sessions_of_other_forms_are_shown() {
    let recorded = events(&[
        r#"{"kind":"message.added","data":{"role":"system","content":"You are"}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":"Hi"}}"#,
        // Chat Completions.
        r#"{"kind":"message.added","data":{"role":"assistant","reasoning_content":"mm","content":"Sure","tool_calls":[{"id":"o1","type":"function","function":{"name":"ls","arguments":"{\"a\":1}"}}]}}"#,
        r#"{"kind":"message.added","data":{"role":"tool","tool_call_id":"o1","content":"x"}}"#,
        // Messages, with the execution recorded too.
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"a1","name":"sh","input":{"b":2}},{"type":"tool_use","id":"a2","name":"sh","input":{}}]}}"#,
        r#"{"kind":"tool.called","data":{"call":"a1","name":"sh","arguments":{"b":2}}}"#,
        r#"{"kind":"tool.finished","data":{"call":"a1","ok":false,"result":"no"}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":[{"type":"tool_result","tool_use_id":"a1","content":"no","is_error":true},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}}"#,
        // Responses.
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"function_call","call_id":"r1","name":"f","arguments":"broken"}],"abide":{"form":"responses"}}}"#,
        // A result of nothing that is known, and executions beside the messages.
        r#"{"kind":"tool.finished","data":{"call":"z","result":{"k":[1]}}}"#,
        r#"{"kind":"tool.called","lane":"sub","data":{"call":"y","name":"grep"}}"#,
        r#"{"kind":"message.added","lane":"sub","data":{"role":"assistant","content":"not shown"}}"#,
    ]);
    let (_, got) = replay(&recorded);
    let want = [
        chunk(USER, "Hi"),
        chunk(THOUGHT, "mm"),
        chunk(AGENT, "Sure"),
        r#"{"sessionUpdate":"tool_call","toolCallId":"o1","title":"ls","name":"ls","status":"pending","rawInput":{"a":1}}"#.to_owned(),
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"o1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"x"}}]}"#.to_owned(),
        chunk(THOUGHT, "t"),
        r#"{"sessionUpdate":"tool_call","toolCallId":"a1","title":"sh","name":"sh","status":"pending","rawInput":{"b":2}}"#.to_owned(),
        r#"{"sessionUpdate":"tool_call","toolCallId":"a2","title":"sh","name":"sh","status":"pending","rawInput":{}}"#.to_owned(),
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a1","status":"failed","content":[{"type":"content","content":{"type":"text","text":"no"}}]}"#.to_owned(),
        r#"{"sessionUpdate":"user_message_chunk","content":{"type":"image","mimeType":"image/png","data":"AA=="}}"#.to_owned(),
        r#"{"sessionUpdate":"tool_call","toolCallId":"r1","title":"f","name":"f","status":"pending","rawInput":"broken"}"#.to_owned(),
        r#"{"sessionUpdate":"tool_call","toolCallId":"z","title":"tool","status":"completed","content":[{"type":"content","content":{"type":"text","text":"{\"k\":[1]}"}}]}"#.to_owned(),
        r#"{"sessionUpdate":"tool_call","toolCallId":"y","title":"grep","name":"grep","status":"pending","rawInput":{}}"#.to_owned(),
    ];
    assert_same(&got, &want);
}

#[test]
fn nothing_recorded_makes_it_fail() {
    let deep = format!("{}{}", "[".repeat(90), "]".repeat(90));
    let odd = [
        r#"{"acp":5}"#.to_owned(),
        r#"{"acp":{"sessionUpdate":"tool_call","toolCallId":7}}"#.to_owned(),
        r#"{"role":5,"content":{}}"#.to_owned(),
        r#"{"role":"user","content":[5,"x",{"type":"text","text":"\ud800"},{"type":"tool_result","content":[]}]}"#.to_owned(),
        format!(r#"{{"role":"assistant","content":[{{"type":"tool_call","call":"c","name":"n","arguments":{deep}}}]}}"#),
        format!(r#"{{"call":"c","result":{deep},"acp":{{"toolCallId":{deep}}}}}"#),
        r#"{"mode":5,"values":[{"id":1}]}"#.to_owned(),
        "{}".to_owned(),
    ];
    for kind in
        ["message.added", "tool.called", "tool.finished", "acp.update", "acp.configured", "x.y"]
    {
        for data in &odd {
            replay(&events(&[&format!(r#"{{"kind":"{kind}","data":{data}}}"#)]));
        }
    }
    let (_, got) = replay(&events(&[&format!(r#"{{"kind":"message.added","data":{}}}"#, odd[3])]));
    // Half of a character, as every message of it is read.
    assert_same(&got, &[chunk(USER, "\u{fffd}\u{fffd}\u{fffd}")]);
}

fn check(recorded: &[String], replayed: &[String]) -> ReplayCheckReport {
    let mut check = ReplayCheck::default();
    for update in replayed {
        check.replayed(&raw(&format!(r#"{{"sessionId":"s","update":{update}}}"#)));
    }
    for update in recorded {
        check.recorded(&ReplayedUpdate { update: update.clone() });
    }
    check.finish()
}

#[test]
fn what_is_recorded_as_a_mark_is_the_same_as_its_secret() {
    let options = RedactionOptions {
        variables: Some(Vec::new()),
        directory: None,
        state: None,
        ..RedactionOptions::default()
    };
    let redactor = Redaction::new(options).redactor(None).unwrap();
    let token = format!("ghp_{}", "R7kQ2mZx9LbT4vWc8NdY1sHf6JgP3aUe5KoX");
    let said = |text: &str| [chunk(USER, &format!("it is {text} so")), chunk(THOUGHT, text)];
    let recorded = said(redactor.redact_text(&token).unwrap().text());
    let compare = |redactor: Option<&Redactor>, parts: &[String]| {
        let mut check = ReplayCheck::redacted_by(redactor.cloned());
        for update in parts {
            check.replayed(&raw(&format!(r#"{{"sessionId":"s","update":{update}}}"#)));
        }
        for update in &recorded {
            check.recorded(&ReplayedUpdate { update: update.clone() });
        }
        check.finish()
    };
    let whole = ReplayCheckReport { same: 1, ..ReplayCheckReport::default() };
    assert_eq!(compare(Some(&redactor), &said(&token)), whole);
    let (left, right) = token.split_at(9);
    let parts = [chunk(USER, &format!("it is {left}")), chunk(USER, &format!("{right} so"))];
    assert_eq!(compare(Some(&redactor), &parts).same, 1);
    assert_eq!(compare(None, &said(&token)).same, 0);
    // A secret at the end of a message is one, whatever the next message begins with.
    let apart = |text: &str| {
        let id = |id: &str, text: &str| {
            chunk(USER, text).replacen('{', &format!(r#"{{"messageId":"{id}","#), 1)
        };
        let plan = r#"{"sessionUpdate":"plan","entries":[]}"#.to_owned();
        [id("a", text), id("b", "so"), call("c"), chunk(USER, text), plan, chunk(USER, "so")]
    };
    let mut check = ReplayCheck::redacted_by(Some(redactor.clone()));
    for update in apart(&token) {
        check.replayed(&raw(&format!(r#"{{"sessionId":"s","update":{update}}}"#)));
    }
    for update in apart(redactor.redact_text(&token).unwrap().text()) {
        check.recorded(&ReplayedUpdate { update });
    }
    assert_eq!(check.finish(), ReplayCheckReport { same: 3, ..ReplayCheckReport::default() });
}

fn call(id: &str) -> String {
    format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"{id}","title":"T"}}"#)
}

fn ended(id: &str) -> String {
    format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"{id}","status":"completed"}}"#)
}

#[test]
fn an_agent_that_has_it_all_lacks_nothing() {
    let recorded =
        [chunk(USER, "Hi "), chunk(THOUGHT, "t"), chunk(AGENT, "one two"), call("c"), ended("c")];
    let replayed = [chunk(USER, "Hi"), chunk(AGENT, " one"), ended("x"), chunk(AGENT, "\ntwo ")];
    assert_eq!(
        check(&recorded, &recorded),
        ReplayCheckReport { same: 3, lacking: 0, foreign: 0, tail: None }
    );
    // Another call in between cuts the message in two.
    assert_eq!(
        check(&recorded, &replayed),
        ReplayCheckReport { same: 1, lacking: 0, foreign: 3, tail: Some(1) }
    );
    assert_eq!(check(&[], &[]), ReplayCheckReport::default());
    assert_eq!(
        check(&[], &replayed),
        ReplayCheckReport { foreign: 4, ..ReplayCheckReport::default() }
    );
    assert_eq!(
        check(&recorded, &[]),
        ReplayCheckReport { tail: Some(0), ..ReplayCheckReport::default() }
    );
}

#[test]
fn the_end_that_an_agent_lacks_is_found() {
    let recorded = [
        chunk(USER, "Hi"),
        chunk(AGENT, "ok"),
        call("c"),
        ended("c"),
        chunk(THOUGHT, "t"),
        chunk(AGENT, "A long answer"),
        chunk(USER, "ok"),
        chunk(AGENT, "ok"),
    ];
    let cut = |count: usize| check(&recorded, &recorded[..count]);
    assert_eq!(cut(2), ReplayCheckReport { same: 2, lacking: 0, foreign: 0, tail: Some(2) });
    // With the thought that stands before it.
    assert_eq!(cut(4), ReplayCheckReport { same: 3, lacking: 0, foreign: 0, tail: Some(4) });
    assert_eq!(cut(5), ReplayCheckReport { same: 3, lacking: 0, foreign: 0, tail: Some(5) });
    assert_eq!(cut(6), ReplayCheckReport { same: 4, lacking: 0, foreign: 0, tail: Some(6) });
    // The call, and not what came of it; with all of a call told at once nothing is lacking.
    assert_eq!(cut(3), ReplayCheckReport { same: 3, lacking: 0, foreign: 0, tail: Some(3) });
    assert_eq!(check(&recorded[..4], &recorded[..3]).tail, Some(3));
    let at_once = [recorded[..2].to_vec(), vec![ended("c")]].concat();
    assert_eq!(check(&recorded[..4], &at_once).tail, None);
    // Only the beginning of a message.
    let mut half = recorded[..5].to_vec();
    half.push(chunk(AGENT, "A long"));
    assert_eq!(
        check(&recorded, &half),
        ReplayCheckReport { same: 3, lacking: 0, foreign: 0, tail: Some(5) }
    );
    half[5] = chunk(AGENT, "B long");
    assert_eq!(
        check(&recorded, &half),
        ReplayCheckReport { same: 3, lacking: 0, foreign: 1, tail: Some(5) }
    );
}

#[test]
fn what_an_agent_lost_or_made_up_in_the_middle_is_counted() {
    let recorded = [chunk(USER, "a"), chunk(AGENT, "b"), call("c"), chunk(AGENT, "d"), call("e")];
    let replayed = [chunk(USER, "a"), chunk(AGENT, "x"), call("y"), chunk(AGENT, "d"), call("e")];
    assert_eq!(
        check(&recorded, &replayed),
        ReplayCheckReport { same: 3, lacking: 2, foreign: 2, tail: None }
    );
    // So long that no table is made for it.
    let many: Vec<_> = (0..3000).map(|number| call(&number.to_string())).collect();
    let mut other = many[1..2990].to_vec();
    other.insert(1000, call("own"));
    assert_eq!(
        check(&many, &other),
        ReplayCheckReport { same: 2989, lacking: 1, foreign: 1, tail: Some(2990) }
    );
}
