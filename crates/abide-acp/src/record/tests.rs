//! Each rule of recording.

use std::path::Path;

use abide::{
    Kind, TaskStatus,
    event::{Fact, ObjectHash},
    secrets::{Redaction, RedactionOptions, Redactor},
};

use crate::recorded_session::{RecordedSession, chunk, raw};
use crate::{RecordDurability, Translator, subagent_lane};

const AGENT: &str = "agent_message_chunk";
const THOUGHT: &str = "agent_thought_chunk";

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn a_turn_is_a_prompt_its_messages_and_its_end() {
    let mut story = RecordedSession::new();
    let (told, weight) = story.prompt("Fix\nit");
    assert_eq!(weight, RecordDurability::Before);
    assert_eq!(
        told,
        lines(&[
            r#"turn.started {"agent":"agent","role":"agent"}"#,
            r#"message.added {"role":"user","content":[{"type":"text","text":"Fix\nit"}]}"#,
        ])
    );
    assert_eq!(story.update(&chunk(THOUGHT, "Let me ")), (vec![], RecordDurability::Behind));
    assert_eq!(story.update(&chunk(THOUGHT, "think")), (vec![], RecordDurability::Behind));
    let (told, weight) = story.update(&chunk(AGENT, "Done"));
    assert_eq!(weight, RecordDurability::Behind);
    assert_eq!(
        told,
        lines(&[
            r#"message.added {"role":"assistant","content":[{"type":"thinking","thinking":"Let me think"}]}"#
        ])
    );
    let (told, weight) = story.prompted(
        r#"{"stopReason":"end_turn","usage":{"totalTokens":17,"inputTokens":10,"outputTokens":7,"thoughtTokens":3,"cachedReadTokens":4}}"#,
    );
    assert_eq!(weight, RecordDurability::Before);
    assert_eq!(
        told[0],
        r#"message.added {"role":"assistant","content":[{"type":"text","text":"Done"}]}"#
    );
    let Fact::TurnFinished(end) = story.events.last().unwrap().fact().unwrap() else { panic!() };
    let usage = end.usage.unwrap();
    assert_eq!((end.status.as_str(), usage.input_tokens, usage.output_tokens), ("end_turn", 10, 7));
    assert_eq!((usage.reasoning_tokens, usage.cache_read_tokens), (3, 4));
    assert_eq!(story.odd, []);
    assert_eq!(story.state.core.turns.finished, 1);
}

#[test]
fn what_was_used_is_read_whatever_the_reason() {
    let outcomes = [
        (r#"{"stopReason":"new","usage":{"inputTokens":1,"outputTokens":2}}"#, "new", Some((1, 2))),
        (r#"{"stopReason":"end_turn","usage":{"inputTokens":1}}"#, "end_turn", None),
        (r#"{"stopReason":"end_turn","usage":7}"#, "end_turn", None),
        (r#"{"stopReason":7}"#, "unknown", None),
    ];
    for (result, status, tokens) in outcomes {
        let mut story = RecordedSession::new();
        story.prompt("a");
        story.prompted(result);
        let Fact::TurnFinished(end) = story.events.last().unwrap().fact().unwrap() else {
            panic!()
        };
        assert_eq!(end.status, status);
        let used = end.usage.map(|usage| (usage.input_tokens, usage.output_tokens));
        assert_eq!(used, tokens, "{result}");
    }
}

#[test]
fn an_error_and_a_break_end_a_turn_too() {
    let mut story = RecordedSession::new();
    story.prompt("a");
    let error = raw(r#"{"code":-32603,"message":"boom"}"#);
    let recorded = story.translator.prompted(Err(&error));
    let (told, _) = story.write(recorded);
    assert_eq!(
        told,
        lines(&[r#"turn.finished {"status":"error","error":{"code":-32603,"message":"boom"}}"#])
    );
    story.prompt("b");
    story.update(&chunk(AGENT, "half"));
    let recorded = story.translator.interrupted("interrupted");
    let (told, weight) = story.write(recorded);
    assert_eq!(weight, RecordDurability::Before);
    assert_eq!(
        told,
        lines(&[
            r#"message.added {"role":"assistant","content":[{"type":"text","text":"half"}],"abide":{"partial":true}}"#,
            r#"turn.finished {"status":"interrupted"}"#,
        ])
    );
    // No turn is open: there is none to be ended.
    assert_eq!(story.prompted(r#"{"stopReason":"end_turn"}"#).0, lines(&[]));
    story.prompt("c");
    assert_eq!(story.prompted(r#"{}"#).0, lines(&[r#"turn.finished {"status":"unknown"}"#]));
    assert_eq!(story.odd, []);
}

#[test]
fn a_prompt_within_a_turn_is_of_that_turn() {
    let mut story = RecordedSession::new();
    assert_eq!(story.prompt("a").0.len(), 2);
    assert_eq!(
        story.prompt("b").0,
        lines(&[r#"message.added {"role":"user","content":[{"type":"text","text":"b"}]}"#])
    );
    let used = |tokens: u64| {
        format!(
            r#"{{"stopReason":"end_turn","usage":{{"totalTokens":9,"inputTokens":{tokens},"outputTokens":1}}}}"#
        )
    };
    story.prompted(&used(10));
    assert_eq!(story.state.core.turns.finished, 0);
    story.prompted(&used(5));
    assert_eq!(story.state.core.turns.finished, 1);
    assert_eq!(story.state.core.usage.input_tokens, 15);
    // All of a turn is broken off at once.
    story.prompt("c");
    story.prompt("d");
    let recorded = story.translator.interrupted("gone");
    assert_eq!(story.write(recorded).0, lines(&[r#"turn.finished {"status":"gone"}"#]));
    let recorded = story.translator.interrupted("gone");
    assert_eq!(story.write(recorded).0, lines(&[]));
    assert_eq!(story.odd, []);
}

#[test]
fn a_message_ends_where_another_id_begins() {
    let mut story = RecordedSession::new();
    let with_id = |id: &str, text: &str| {
        format!(
            r#"{{"sessionUpdate":"agent_message_chunk","messageId":"{id}","content":{{"type":"text","text":"{text}"}}}}"#
        )
    };
    story.update(&with_id("m1", "a"));
    story.update(&with_id("m1", "b"));
    let (told, _) = story.update(&with_id("m2", "c"));
    assert_eq!(
        told,
        lines(&[
            r#"message.added {"role":"assistant","content":[{"type":"text","text":"ab"}],"acp":{"messageId":"m1"}}"#
        ])
    );
}

#[test]
fn what_is_no_plain_text_stays_as_it_came() {
    let mut story = RecordedSession::new();
    let image = r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#;
    let noted = r#"{"type":"text","text":"x","annotations":{"audience":["user"]}}"#;
    story.update(&chunk(AGENT, "see"));
    story.update(&format!(r#"{{"sessionUpdate":"agent_message_chunk","content":{image}}}"#));
    story.update(&format!(r#"{{"sessionUpdate":"agent_message_chunk","content":{noted}}}"#));
    story.update(&chunk(AGENT, "end"));
    let (told, _) =
        story.update(&format!(r#"{{"sessionUpdate":"agent_thought_chunk","content":{image}}}"#));
    assert_eq!(
        told,
        [format!(
            r#"message.added {{"role":"assistant","content":[{{"type":"text","text":"see"}},{image},{noted},{{"type":"text","text":"end"}}]}}"#
        )]
    );
    let recorded = story.translator.interrupted("x");
    let (told, _) = story.write(recorded);
    assert_eq!(
        told[0],
        format!(
            r#"message.added {{"role":"assistant","content":[{image}],"acp":{{"sessionUpdate":"agent_thought_chunk"}},"abide":{{"partial":true}}}}"#
        )
    );
    // What says nothing is no message.
    story.update(&chunk(AGENT, ""));
    let recorded = story.translator.interrupted("x");
    assert_eq!(story.write(recorded).0, lines(&[]));
}

#[test]
fn open_blocks_are_bounded_in_size_and_number() {
    let mut story = RecordedSession::new();
    let part = "x".repeat(100 << 10);
    assert_eq!(story.update(&chunk(AGENT, &part)).0.len(), 0);
    assert_eq!(story.update(&chunk(AGENT, &part)).0.len(), 0);
    assert_eq!(story.update(&chunk(AGENT, &part)).0.len(), 1);
    assert_eq!(story.update(&chunk(AGENT, &"y".repeat(300 << 10))).0.len(), 2);
    let said = |lane: usize| {
        raw(&format!(
            r#"{{"update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{lane}"}}}}}}"#
        ))
    };
    for lane in 0..64 {
        let recorded = story.translator.update_in(Some(&format!("l{lane}")), &said(lane));
        assert_eq!(recorded.events.len(), 0);
    }
    let recorded = story.translator.update_in(Some("another"), &said(64));
    assert_eq!(recorded.events[0].lane.as_ref().unwrap().as_str(), "l0");
    assert_eq!(recorded.events.len(), 1);
}

fn redactor() -> Redactor {
    let options = RedactionOptions {
        variables: Some(Vec::new()),
        directory: None,
        state: None,
        ..RedactionOptions::default()
    };
    Redaction::new(options).redactor(None).unwrap()
}

/// Made here, so that no scanner takes this file for a leak.
fn token() -> String {
    format!("ghp_{}", "R7kQ2mZx9LbT4vWc8NdY1sHf6JgP3aUe5KoX")
}

fn redacted_story(redactor: &Redactor) -> RecordedSession {
    RecordedSession::with(Translator::new("agent").redacted_by(Some(redactor.clone())))
}

/// The data of what was recorded, as it is written.
fn written(redactor: &Redactor, told: &[String]) -> Vec<String> {
    let data = |line: &String| {
        let (_, data) = line.split_once(" {").unwrap();
        redactor.redact_json(&format!("{{{data}")).unwrap().into_text().into_owned()
    };
    told.iter().map(data).collect()
}

/// Nothing of the token is there but its first bytes, which nobody can know to be one.
#[track_caller]
fn assert_no_part(written: &[String]) {
    for part in token().as_bytes().windows(9) {
        let part = std::str::from_utf8(part).unwrap();
        assert!(written.iter().all(|data| !data.contains(part)), "{part} in {written:#?}");
    }
}

#[test]
fn of_the_output_of_a_call_that_grows_no_event_has_a_part_of_a_secret() {
    let redactor = redactor();
    let mut story = redacted_story(&redactor);
    let all = format!("$ env\nTOKEN={}\nLANG=C", token());
    let mut told = story.prompt("x").0;
    told.extend(story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Run gh auth of github.com","rawInput":{"command":"gh auth status -h github.com"}}"#).0);
    assert!(told.last().unwrap().contains(r#""command":"gh auth status -h github.com""#));
    for end in (1..all.len()).step_by(3) {
        let text = serde_json::to_string(&all[..end]).unwrap();
        told.extend(story.update(&format!(
            r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"in_progress","content":[{{"type":"content","content":{{"type":"text","text":{text}}}}}],"rawOutput":{{"stdout":{text}}}}}"#
        )).0);
    }
    told.extend(story.update(&format!(
        r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c1","rawOutput":{{"stdout":{}}}}}"#,
        serde_json::to_string(&all).unwrap()
    )).0);
    let end = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed"}"#;
    let last = story.update(end).0;
    // What was held back and is not said again stands before the end.
    assert_eq!(last.len(), 2, "{last:?}");
    assert!(last[0].starts_with("acp.update") && last[1].starts_with("tool.finished"), "{last:?}");
    assert!(written(&redactor, &last)[0].contains("›\\nLANG=C"), "{last:?}");
    told.extend(last);
    assert_no_part(&written(&redactor, &told));
    assert_eq!(story.odd, []);
    story.replay();
}

#[test]
fn an_update_without_a_secret_is_recorded_as_it_came() {
    let redactor = redactor();
    let mut story = redacted_story(&redactor);
    story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"T"}"#);
    for more in [
        r#""status":"in_progress","title":"Reading é""#,
        r#""content":[{"type":"content","content":{"type":"text","text":"one"}}],"rawOutput":{"n":1.50}"#,
        r#""content":[{"type":"content","content":{"type":"text","text":"another"}}]"#,
    ] {
        let update = format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c1",{more}}}"#);
        assert_eq!(story.update(&update).0, [format!(r#"acp.update {{"acp":{update}}}"#)]);
    }
}

/// Texts as an agent may send them one after the other, from a seed.
struct SomeTexts {
    seed: u64,
    words: usize,
    text: String,
    /// How much of the token has come at the end of the text.
    token: usize,
}

impl SomeTexts {
    fn pick(&mut self, of: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.seed >> 33).unwrap() % of
    }

    fn more(&mut self) -> String {
        let mut more = String::new();
        if self.token > 0 {
            let end = (self.token + 4 + self.pick(30)).min(token().len());
            more.push_str(&token()[self.token..end]);
            self.token = if end < token().len() { end } else { 0 };
            if self.token > 0 {
                return more;
            }
            more.push(' ');
        }
        for _ in 0..=self.pick(4) {
            self.words += 1;
            let between = ["\n", " ", " https://example.com/a ", " token: ", "é "][self.pick(5)];
            more.push_str(&format!("w{}x{between}", self.words));
        }
        match self.pick(4) {
            0 => more.push_str(&format!("{} ", token())),
            1 => {
                self.token = 5 + self.pick(30);
                more.push_str(&token()[..self.token]);
            }
            2 => more.push_str(&format!("https://example.com/b{}", self.words)),
            _ => {}
        }
        more
    }

    /// The next text. One that replaces another does not leave a token without its end.
    fn next(&mut self, kind: usize) -> String {
        let more = self.more();
        match kind {
            0 => self.text.push_str(&more),
            _ => self.text = more,
        }
        self.text.clone()
    }
}

fn strings_of(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => found.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| strings_of(item, found)),
        serde_json::Value::Object(all) => all.values().for_each(|item| strings_of(item, found)),
        _ => {}
    }
}

#[test]
fn of_updates_that_come_in_any_way_nothing_is_lost_and_no_part_of_a_secret_is_recorded() {
    let redactor = redactor();
    for seed in 0..200 {
        let mut story = redacted_story(&redactor);
        let mut told = story.prompt("x").0;
        told.extend(
            story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"T"}"#).0,
        );
        let texts = |seed| SomeTexts { seed, words: 0, text: String::new(), token: 0 };
        let (mut content, mut output) = (texts(seed), texts(seed + 1000));
        output.words = 1000;
        // Each agent sends its texts in one way: longer ones, pieces, or now one and now the other.
        let way = content.pick(3);
        let mut came = Vec::new();
        let steps = 3 + content.pick(12);
        for step in 0..steps {
            let mut members = Vec::new();
            let mut say = |texts: &mut SomeTexts| {
                let kind = match way {
                    2 if texts.token == 0 => texts.pick(2),
                    2 => 0,
                    way => way,
                };
                let mut text = texts.next(kind);
                // In the end, all of a token is there.
                while step + 1 == steps && texts.token > 0 {
                    texts.text = text;
                    text = texts.next(0);
                }
                came.push(text.clone());
                serde_json::to_string(&text).unwrap()
            };
            if step + 1 == steps || content.pick(4) > 0 {
                let text = say(&mut content);
                members.push(format!(
                    r#""content":[{{"type":"content","content":{{"type":"text","text":{text}}}}}]"#
                ));
            }
            if step + 1 == steps || content.pick(3) == 0 {
                members.push(format!(r#""rawOutput":{{"stdout":{}}}"#, say(&mut output)));
            }
            if members.is_empty() {
                continue;
            }
            told.extend(story.update(&format!(
                r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"in_progress",{}}}"#,
                members.join(",")
            )).0);
        }
        if seed % 2 == 0 {
            told.extend(story.update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed"}"#).0);
        }
        told.extend(story.prompted("{}").0);
        let written = written(&redactor, &told);
        assert_no_part(&written);
        let mut found = Vec::new();
        for data in &written {
            strings_of(&serde_json::from_str(data).unwrap(), &mut found);
        }
        for text in &came {
            let marked = redactor.redact_text(text).unwrap().into_text().into_owned();
            let token = token();
            let has_part = token.contains(&*marked)
                || (1..token.len())
                    .any(|at| marked.starts_with(&token[at..]) || marked.ends_with(&token[..at]));
            if !has_part {
                let is_there = found.iter().any(|found| found.contains(&*marked));
                assert!(is_there, "{seed} {way}: {marked:?} is not in {written:#?}");
            }
            for word in text.split_whitespace().filter(|word| word.starts_with('w')) {
                let is_there = found.iter().any(|found| found.contains(word));
                assert!(is_there, "{seed} {way}: {word} of {text:?} is not in {written:#?}");
            }
        }
        assert_eq!(story.odd, []);
    }
}

#[test]
fn what_is_left_out_of_a_member_is_recorded() {
    let redactor = redactor();
    let mut story = redacted_story(&redactor);
    story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"T"}"#);
    let update = |meta: &str| {
        format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c1","_meta":{meta}}}"#)
    };
    let told = story.update(&update(r#"{"note":"see https://example.com/b"}"#)).0;
    assert!(!told[0].contains("example.com/b"), "{told:?}");
    let told = story.update(&update(r#"{"n":1}"#)).0;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains(r#"{"note":"see https://example.com/b"}"#), "{told:?}");
    // More than is remembered is recorded at once.
    let long = format!("{} https://example.com/c", "word ".repeat(1 << 18));
    let told = story.update(&update(&format!(r#"{{"note":"{long}"}}"#))).0;
    assert!(told.len() == 1 && told[0].contains("example.com/c"), "{}", told.len());
    // And of many texts, none is lost.
    let many: Vec<String> =
        (0..300).map(|n| format!(r#""n{n}":"see https://example.com/n{n}""#)).collect();
    let mut told = story.update(&update(&format!("{{{}}}", many.join(",")))).0;
    told.extend(story.prompted("{}").0);
    assert!((0..300).all(|n| told.concat().contains(&format!("example.com/n{n}\""))));
}

#[test]
fn what_a_terminal_held_back_is_recorded_when_the_session_closes() {
    let redactor = redactor();
    let mut story = redacted_story(&redactor);
    story.prompt("x");
    story.asked(2, "terminal/output", r#"{"terminalId":"t1"}"#);
    story.answered(2, r#"{"output":"a\nsee https://example.com/b","truncated":false}"#);
    let told = story.prompted("{}").0;
    assert!(!told[0].contains("example.com/b"), "{told:?}");
    let recorded = story.translator.interrupted("cancelled");
    let told = story.write(recorded).0;
    assert!(told[0].contains(r#""output":"a\nsee https://example.com/b""#), "{told:?}");
    let recorded = story.translator.interrupted("cancelled");
    assert_eq!(story.write(recorded).0.len(), 0);
}

#[test]
fn a_message_of_a_subagent_is_recorded_to_its_end_before_the_next() {
    let redactor = redactor();
    let mut story = redacted_story(&redactor);
    let chunk = |sort: &str, id: &str, text: &str| {
        format!(r#"{{"sessionUpdate":"{sort}","{id},"content":{{"type":"text","text":"{text}"}}}}"#)
    };
    let (message, summary) = ("session_message_chunk", "compaction_summary_chunk");
    story.update(&chunk(message, r#"messageId":"a""#, "see https://example.com/b"));
    let told = story.update(&chunk(message, r#"messageId":"b""#, "so")).0;
    assert!(told.len() == 2 && told[0].contains(r#""messageId":"a""#), "{told:?}");
    story.update(&chunk(summary, r#"compactionId":"k""#, "see https://example.com/b"));
    let going =
        r#"{"sessionUpdate":"compaction_update","compactionId":"k","status":"in_progress"}"#;
    assert_eq!(story.update(going).0.len(), 1);
    let over = r#"{"sessionUpdate":"compaction_update","compactionId":"k","status":"completed"}"#;
    assert_eq!(story.update(over).0.len(), 2);
}

#[test]
fn of_the_pieces_of_a_terminal_no_part_of_a_secret_is_recorded() {
    let redactor = redactor();
    for size in [7, 20, 60] {
        for exits in [true, false] {
            let mut story = redacted_story(&redactor);
            let mut told = story.prompt("x").0;
            told.extend(
                story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"T"}"#).0,
            );
            let all = format!("it is {} so", token());
            for piece in all.as_bytes().chunks(size) {
                let piece = std::str::from_utf8(piece).unwrap();
                told.extend(story.update(&format!(
                    r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c1","_meta":{{"terminal_output":{{"terminal_id":"t","data":"{piece}"}}}}}}"#
                )).0);
            }
            if exits {
                told.extend(story.update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","_meta":{"terminal_exit":{"exit_code":0}}}"#).0);
            } else {
                told.extend(story.prompted(r#"{"stopReason":"cancelled"}"#).0);
            }
            let written = written(&redactor, &told);
            assert_no_part(&written);
            let read = |data: &String| serde_json::from_str::<serde_json::Value>(data).unwrap();
            let shown: String = written
                .iter()
                .filter_map(|data| {
                    let data = read(data);
                    Some(data.pointer("/acp/_meta/terminal_output/data")?.as_str()?.to_owned())
                })
                .collect();
            let (before, after) = shown.split_once("‹redacted:github").unwrap();
            assert!(before.starts_with("it is "), "{shown}");
            assert!(after.ends_with("› so"), "{shown}");
            assert_eq!(story.odd, []);
        }
    }
}

#[test]
fn of_the_chunks_of_a_summary_no_part_of_a_secret_is_recorded() {
    let redactor = redactor();
    let mut story = redacted_story(&redactor);
    let mut told = Vec::new();
    for piece in ["it is ", &token()[..14], &token()[14..], " so"] {
        told.extend(story.update(&format!(
            r#"{{"sessionUpdate":"compaction_summary_chunk","compactionId":"k","content":{{"type":"text","text":"{piece}"}}}}"#
        )).0);
    }
    told.extend(
        story
            .update(
                r#"{"sessionUpdate":"compaction_update","compactionId":"k","status":"completed"}"#,
            )
            .0,
    );
    let written = written(&redactor, &told);
    assert_no_part(&written);
    assert!(written.iter().any(|data| data.contains("‹redacted:github")), "{written:#?}");
    assert!(told.last().unwrap().contains("compaction_update"), "{told:?}");
}

#[test]
fn a_secret_in_several_texts_of_a_message_is_found() {
    let redactor = redactor();
    let token = token();
    let noted = |text: &str| {
        format!(
            r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}","_meta":{{"n":1}}}}}}"#
        )
    };
    let mut story = redacted_story(&redactor);
    story.update(&chunk(AGENT, &token[..12]));
    story.update(&noted(&token[12..24]));
    story.update(&chunk(AGENT, &token[24..]));
    story.update(&noted(" is it"));
    let told = story.prompted("{}").0;
    let written = written(&redactor, &told);
    assert_no_part(&written);
    assert!(written[0].contains("› is it"), "{written:?}");
    // Each stays what it is where no secret goes from one to the other.
    story.update(&chunk(AGENT, &format!("{token} ")));
    story.update(&noted("so"));
    let told = story.prompted("{}").0;
    assert!(told[0].contains(r#"{"type":"text","text":"so","_meta":{"n":1}}"#), "{told:?}");
    story.replay();
}

#[test]
fn a_message_that_waits_as_a_whole_is_not_cut_in_two() {
    let redactor = redactor();
    let mut story = redacted_story(&redactor);
    let token = token();
    let mut told = story.update(&chunk(AGENT, &token[..20])).0;
    let words = " word".repeat((256 << 10) / 5);
    told.extend(story.update(&chunk(AGENT, &format!("{}{words}", &token[20..]))).0);
    told.extend(story.prompted("{}").0);
    let written = written(&redactor, &told);
    assert_no_part(&written);
    assert!(written[0].contains("‹redacted:github"), "{}", &written[0][..200]);
    let read = |data: &String| serde_json::from_str::<serde_json::Value>(data).unwrap();
    let texts: String = written
        .iter()
        .map(|data| read(data)["content"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(texts.matches("word").count(), (256 << 10) / 5);
}

#[test]
fn names_and_titles_are_redacted_before_they_are_cut() {
    let redactor = redactor();
    let mut story = redacted_story(&redactor);
    let long =
        |most: usize| format!("{}{} {}", "a ".repeat(most / 2 - 10), token(), "b".repeat(most));
    let (name, title) = (long(200), long(4096));
    let mut told = story
        .update(&format!(
            r#"{{"sessionUpdate":"tool_call","toolCallId":"c","title":"T","name":"{name}"}}"#
        ))
        .0;
    told.extend(
        story.update(&format!(r#"{{"sessionUpdate":"session_info_update","title":"{title}"}}"#)).0,
    );
    let plan = format!(
        r#"{{"sessionUpdate":"plan","entries":[{{"content":"{name}","priority":"high","status":"pending"}},{{"content":"use {}","priority":"high","status":"pending"}}]}}"#,
        token()
    );
    told.extend(story.update(&plan).0);
    story.prompt("x");
    let recorded = story.translator.interrupted(&title);
    told.extend(story.write(recorded).0);
    assert_no_part(&written(&redactor, &told));
    // Opened again, the tasks are the same: their titles are marks.
    assert_eq!(story.state.tasks.iter().count(), 2);
    story.translator =
        Translator::new("agent").redacted_by(Some(redactor.clone())).resuming(&story.state);
    assert_eq!(story.update(&plan).0.len(), 1);
}

#[test]
fn the_output_of_a_terminal_is_redacted_before_it_is_cut() {
    let redactor = redactor();
    let mut story = redacted_story(&redactor);
    story.prompt("x");
    let look = |story: &mut RecordedSession, output: &str| {
        story.asked(2, "terminal/output", r#"{"terminalId":"t1"}"#);
        let output = serde_json::to_string(output).unwrap();
        story.answered(2, &format!(r#"{{"output":{output},"truncated":false}}"#)).0
    };
    // What is kept begins within the token.
    let long = format!("a {}\n{}", token(), "y ".repeat((1 << 19) - 10));
    let mut told = look(&mut story, &long);
    told.extend(story.prompted("{}").0);
    assert!(told[0].contains(r#""truncated":true"#), "{}", &told[0][..200]);
    // The token is not there to its end when a turn ends.
    story.prompt("y");
    told.extend(look(&mut story, &format!("b\n{}", &token()[..30])));
    told.extend(story.prompted("{}").0);
    told.extend(look(&mut story, &format!("b\n{}\nc", token())));
    told.extend(story.asked(3, "terminal/release", r#"{"terminalId":"t1"}"#).0);
    let written = written(&redactor, &told);
    assert_no_part(&written);
    assert!(written.iter().any(|data| data.contains("›\\nc")), "{:?}", written.last());
}

#[test]
fn a_long_message_is_cut_where_no_secret_is() {
    let redactor = redactor();
    let translator = Translator::new("agent").redacted_by(Some(redactor.clone()));
    let mut story = RecordedSession::with(translator);
    let token = token();
    let (left, right) = token.split_at(20);
    let words = "word \n".repeat((256 << 10) / 7 - 3);
    let mut told = story.update(&chunk(AGENT, &format!("{words}{left}"))).0;
    told.extend(story.update(&chunk(AGENT, &format!("{right} {words}"))).0);
    told.extend(story.prompted(r#"{"stopReason":"end_turn"}"#).0);
    let texts: Vec<String> = told
        .iter()
        .filter_map(|told| told.strip_prefix("message.added "))
        .map(|data| redactor.redact_json(data).unwrap().into_text().into_owned())
        .collect();
    assert!(texts.len() > 1);
    assert!(texts.iter().all(|text| !text.contains(&token[4..12]) && !text.contains(&right[..8])));
    assert!(texts.iter().any(|text| text.contains("‹redacted:github")));
    let read = |data: &String| serde_json::from_str::<serde_json::Value>(data).unwrap();
    let all: String = texts
        .iter()
        .map(|data| read(data)["content"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(all.matches("word").count(), 2 * ((256 << 10) / 7 - 3));
}

#[test]
fn a_call_is_a_message_and_a_fact_and_ends_with_its_result() {
    let mut story = RecordedSession::with(Translator::new("a").in_directory(Path::new("/home/p")));
    story.prompt("x");
    story.update(&chunk(AGENT, "I look."));
    let call = r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Edit main.rs","kind":"edit","status":"pending","rawInput":{"path":"main.rs","n":1.50}}"#;
    let (told, weight) = story.update(call);
    assert_eq!(weight, RecordDurability::Before);
    assert_eq!(
        told,
        [
            r#"message.added {"role":"assistant","content":[{"type":"text","text":"I look."}]}"#
                .to_owned(),
            format!(
                r#"message.added {{"role":"assistant","content":[{{"type":"tool_call","call":"c1","name":"edit","arguments":{{"path":"main.rs","n":1.50}}}}],"acp":{call}}}"#
            ),
            r#"tool.called {"call":"c1","name":"edit","arguments":{"path":"main.rs","n":1.50},"observed":true}"#.to_owned(),
        ]
    );
    let more = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c1","content":[{"type":"diff","path":"/home/p/src/main.rs","oldText":"a","newText":"b"},{"type":"content","content":{"type":"text","text":"changed"}}]}"#;
    assert_eq!(
        story.update(more),
        (vec![format!(r#"acp.update {{"acp":{more}}}"#)], RecordDurability::Behind)
    );
    let running =
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"in_progress"}"#;
    assert_eq!(
        story.update(running),
        (vec![format!(r#"acp.update {{"acp":{running}}}"#)], RecordDurability::Before)
    );
    // The end does not say again what it gave.
    let end = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed"}"#;
    let (told, weight) = story.update(end);
    assert_eq!(weight, RecordDurability::Before);
    assert_eq!(
        told,
        [
            format!(
                r#"tool.finished {{"call":"c1","ok":true,"result":[{{"type":"text","text":"Changed /home/p/src/main.rs"}},{{"type":"text","text":"changed"}}],"acp":{end}}}"#
            ),
            r#"file.touched {"path":"src/main.rs","op":"write"}"#.to_owned(),
        ]
    );
    // What comes after the end is kept, and ends nothing again.
    assert_eq!(story.update(end).0, [format!(r#"acp.update {{"acp":{end}}}"#)]);
    assert!(story.state.calls.is_empty());
    assert_eq!(story.odd, []);
}

#[test]
fn the_name_of_a_tool_is_the_best_that_is_told() {
    let name = |more: &str| {
        let mut story = RecordedSession::new();
        story.update(&format!(
            r#"{{"sessionUpdate":"tool_call","toolCallId":"c","title":"Title"{more}}}"#
        ));
        let Fact::ToolCall(call) = story.events[1].fact().unwrap() else { panic!() };
        (call.name, call.arguments.unwrap().get().to_owned())
    };
    let title = r#"{"title":"Title"}"#.to_owned();
    assert_eq!(name(""), ("Title".to_owned(), title.clone()));
    assert_eq!(name(r#","kind":"other""#), ("Title".to_owned(), title));
    assert_eq!(name(r#","kind":"read","rawInput":[1]"#), ("read".to_owned(), "[1]".to_owned()));
    let meta = r#","kind":"read","_meta":{"x":1,"claudeCode":{"toolName":"Read"}}"#;
    assert_eq!(name(meta).0, "Read");
    assert_eq!(name(&format!(r#"{meta},"name":"own""#)).0, "own");
    let located = name(r#","rawInput":{},"locations":[{"path":"/a"}]"#);
    assert_eq!(located.1, r#"{"title":"Title","locations":[{"path":"/a"}]}"#);
}

#[test]
fn calls_that_come_otherwise_are_recorded_once() {
    let mut story = RecordedSession::new();
    story.prompt("x");
    // Over at once.
    let call = r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Read","status":"completed","rawOutput":{"lines":3}}"#;
    let (told, _) = story.update(call);
    assert_eq!(told.len(), 3);
    assert_eq!(told[2], r#"tool.finished {"call":"c1","ok":true,"result":{"lines":3}}"#);
    // Never begun.
    let (told, _) = story.update(
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c2","title":"Late","status":"failed"}"#,
    );
    assert_eq!(told.len(), 3);
    assert_eq!(told[2], r#"tool.finished {"call":"c2","ok":false}"#);
    // Told twice.
    let begun = r#"{"sessionUpdate":"tool_call","toolCallId":"c3","title":"T"}"#;
    assert_eq!(story.update(begun).0.len(), 2);
    assert_eq!(story.update(begun).0, [format!(r#"acp.update {{"acp":{begun}}}"#)]);
    // Left open by the agent.
    let (told, _) = story.prompted(r#"{"stopReason":"cancelled"}"#);
    assert_eq!(told.len(), 2);
    assert!(told[0].starts_with(r#"tool.finished {"call":"c3","ok":false,"result":"#), "{told:?}");
    // The same id in another turn is another call.
    story.prompt("y");
    assert_eq!(story.update(begun).0.len(), 2);
    assert_eq!(story.odd, []);
}

#[test]
fn subagents_have_lanes() {
    let mut story = RecordedSession::new();
    let inner = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"in"},"_meta":{"claudeCode":{"parentToolUseId":"toolu_1"}}}"#;
    story.update(&chunk(AGENT, "out"));
    assert_eq!(story.update(inner).0, lines(&[]));
    let call = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"T","_meta":{"claudeCode":{"parentToolUseId":"toolu_1"}}}"#;
    let (told, _) = story.update(call);
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|line| line.starts_with("[toolu_1] ")), "{told:?}");
    // Its end is in its lane, whether it says so or not.
    let (told, _) = story
        .update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}"#);
    let end = told.last().unwrap();
    assert!(end.starts_with("[toolu_1] tool.finished"), "{told:?}");

    let params = raw(
        r#"{"sessionId":"s","update":{"sessionUpdate":"subagent_update","sessionId":"child-1","title":"T"}}"#,
    );
    assert_eq!(subagent_lane(&params).as_deref(), Some("child-1"));
    assert_eq!(
        subagent_lane(&raw(&format!(r#"{{"update":{}}}"#, chunk(AGENT, "subagent_update")))),
        None
    );
    let said = raw(&format!(r#"{{"sessionId":"child-1","update":{}}}"#, chunk(AGENT, "hi")));
    let recorded = story.translator.update_in(Some("child-1"), &said);
    assert!(recorded.events.is_empty());
    let recorded = story.translator.interrupted("x");
    let (told, _) = story.write(recorded);
    assert!(told.contains(&r#"[child-1] message.added {"role":"assistant","content":[{"type":"text","text":"hi"}],"abide":{"partial":true}}"#.to_owned()), "{told:?}");
}

#[test]
fn a_plan_is_the_tasks_of_the_session() {
    let plan = |entries: &[(&str, &str, &str)]| {
        let entries: Vec<_> = entries
            .iter()
            .map(|(content, priority, status)| {
                format!(r#"{{"content":"{content}","priority":"{priority}","status":"{status}"}}"#)
            })
            .collect();
        format!(r#"{{"sessionUpdate":"plan","entries":[{}]}}"#, entries.join(","))
    };
    let mut story = RecordedSession::new();
    let (told, weight) = story.update(&plan(&[
        ("a", "high", "in_progress"),
        ("a", "low", "pending"),
        ("b", "medium", "pending"),
    ]));
    assert_eq!(weight, RecordDurability::Behind);
    assert_eq!(
        told[1..],
        lines(&[
            r#"task.created {"task":"plan-1","title":"a","priority":1}"#,
            r#"task.status {"task":"plan-1","status":"implementing"}"#,
            r#"task.created {"task":"plan-2","title":"a","priority":-1}"#,
            r#"task.created {"task":"plan-3","title":"b","priority":0}"#,
        ])
    );
    // Nothing is otherwise.
    let same =
        plan(&[("a", "high", "in_progress"), ("a", "low", "pending"), ("b", "medium", "pending")]);
    assert_eq!(story.update(&same).0.len(), 1);
    let (told, _) = story.update(&plan(&[("a", "high", "completed"), ("b", "high", "pending")]));
    assert_eq!(
        told[1..],
        lines(&[
            r#"task.status {"task":"plan-1","status":"complete"}"#,
            r#"task.changed {"task":"plan-3","priority":1}"#,
            r#"task.status {"task":"plan-2","status":"obsolete"}"#,
        ])
    );
    assert_eq!(story.odd, []);
    // Opened again, it goes on with the tasks that there are.
    story.translator = Translator::new("agent").resuming(&story.state);
    let (told, _) = story.update(&plan(&[
        ("a", "high", "completed"),
        ("a", "low", "in_progress"),
        ("c", "medium", "pending"),
    ]));
    assert_eq!(
        told[1..],
        lines(&[
            r#"task.status {"task":"plan-2","status":"planned"}"#,
            r#"task.status {"task":"plan-2","status":"implementing"}"#,
            r#"task.created {"task":"plan-4","title":"c","priority":0}"#,
            r#"task.status {"task":"plan-3","status":"obsolete"}"#,
        ])
    );
    assert_eq!(story.odd, []);
    assert_eq!(story.state.tasks.get("plan-1").unwrap().status, TaskStatus::Complete);
    // A complete task is opened again by way of an obsolete one.
    let (told, _) = story.update(&plan(&[("a", "high", "pending")]));
    assert_eq!(
        told[1..3],
        lines(&[
            r#"task.status {"task":"plan-1","status":"obsolete"}"#,
            r#"task.status {"task":"plan-1","status":"planned"}"#,
        ])
    );
    assert_eq!(story.odd, []);
    assert_eq!(story.state.tasks.get("plan-1").unwrap().status, TaskStatus::Planned);
}

#[test]
fn a_call_that_a_kill_cut_off_is_settled_before_the_next_prompt() {
    let mut story = RecordedSession::new();
    story.prompt("x");
    story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Edit"}"#);
    story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c2","title":"Edit"}"#);
    story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c4","title":"Edit"}"#);
    story.translator = Translator::new("agent").resuming(&story.state);
    // The agent tells how one of them ended, and goes on with another.
    story.update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"c2","status":"completed"}"#);
    story
        .update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"c4","status":"in_progress"}"#);
    let told = story.prompt("y").0;
    let unknown = format!(
        r#"tool.finished {{"call":"c1","ok":false,"result":"{}"}}"#,
        abide::event::OUTCOME_UNKNOWN
    );
    assert_eq!(told[0], unknown);
    assert!(told[1].starts_with("turn.started"), "{told:?}");
    let open: Vec<_> = story.state.calls.iter().map(|(id, _)| id.to_owned()).collect();
    assert_eq!(open, ["c4"]);
    // One that begins between two turns may still run when the next one begins.
    story.prompted(r#"{"stopReason":"end_turn"}"#);
    story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c3","title":"Edit"}"#);
    assert!(story.prompt("z").0[0].starts_with("turn.started"));
}

#[test]
fn the_result_of_a_call_that_was_cut_off_stands_before_a_message_that_follows_it() {
    let mut story = RecordedSession::new();
    story.prompt("x");
    story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Edit"}"#);
    story.translator = Translator::new("agent").resuming(&story.state);
    // The agent speaks before it is asked: its message ends with the next prompt.
    assert_eq!(story.update(&chunk(AGENT, "Here again")).0, lines(&[]));
    let told = story.prompt("y").0;
    let unknown = format!(
        r#"tool.finished {{"call":"c1","ok":false,"result":"{}"}}"#,
        abide::event::OUTCOME_UNKNOWN
    );
    assert_eq!(
        told,
        lines(&[
            &unknown,
            r#"message.added {"role":"assistant","content":[{"type":"text","text":"Here again"}]}"#,
            r#"turn.started {"agent":"agent","role":"agent"}"#,
            r#"message.added {"role":"user","content":[{"type":"text","text":"y"}]}"#,
        ])
    );
    assert_eq!(story.state.calls.iter().count(), 0);
}

#[test]
fn permissions_are_recorded_before_they_pass() {
    let mut story = RecordedSession::new();
    story.prompt("x");
    story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Edit"}"#);
    story.update(&chunk(AGENT, "May I?"));
    let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"c1","title":"Edit main.rs"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]}"#;
    let (told, weight) = story.asked(7, "session/request_permission", params);
    assert_eq!(weight, RecordDurability::Before);
    assert_eq!(
        told,
        [
            r#"message.added {"role":"assistant","content":[{"type":"text","text":"May I?"}]}"#
                .to_owned(),
            format!(
                r#"permission.asked {{"call":"c1","title":"Edit main.rs","options":[{{"id":"y","name":"Yes","kind":"allow_once"}},{{"id":"n","name":"No","kind":"reject_once"}}],"params":{params}}}"#
            ),
        ]
    );
    let (told, weight) = story.answered(7, r#"{"outcome":{"outcome":"selected","optionId":"y"}}"#);
    assert_eq!(weight, RecordDurability::Before);
    assert_eq!(
        told,
        lines(&[
            r#"permission.answered {"call":"c1","outcome":"selected","option":"y","kind":"allow_once"}"#
        ])
    );
    // It is answered once.
    assert_eq!(story.answered(7, "{}").0, lines(&[]));

    // A call that is told of by this alone.
    let params = r#"{"toolCall":{"toolCallId":"c2","kind":"execute","rawInput":{"command":"ls"}},"options":[]}"#;
    let (told, _) = story.asked(8, "session/request_permission", params);
    assert_eq!(
        told[0],
        r#"message.added {"role":"assistant","content":[{"type":"tool_call","call":"c2","name":"execute","arguments":{"command":"ls"}}],"acp":{"kind":"execute","rawInput":{"command":"ls"},"sessionUpdate":"tool_call","title":"","toolCallId":"c2"}}"#
    );
    assert!(told[1].starts_with("tool.called") && told[2].starts_with("permission.asked"));
    let (told, _) = story.answered(8, r#"{"outcome":{"outcome":"cancelled"}}"#);
    assert_eq!(told, lines(&[r#"permission.answered {"call":"c2","outcome":"cancelled"}"#]));
    story.asked(9, "session/request_permission", "[]");
    let (told, _) = story.refused(9, r#"{"code":1}"#);
    assert_eq!(told, lines(&[r#"permission.answered {"outcome":"error","error":{"code":1}}"#]));
    assert_eq!(story.odd, []);
}

#[test]
fn files_are_touched_when_the_client_says_so() {
    let mut story = RecordedSession::with(Translator::new("a").in_directory(Path::new("/w")));
    assert_eq!(
        story.asked(1, "fs/read_text_file", r#"{"path":"/w/a.txt"}"#),
        (vec![], RecordDurability::Behind)
    );
    let (told, weight) = story.answered(1, r#"{"content":"secret"}"#);
    assert_eq!(told, lines(&[r#"file.touched {"path":"a.txt","op":"read"}"#]));
    assert_eq!(weight, RecordDurability::Behind);

    let params = r#"{"sessionId":"s","path":"/elsewhere/b","content":"text\n"}"#;
    let (told, weight) = story.asked(2, "fs/write_text_file", params);
    assert_eq!(
        told,
        [format!(r#"acp.request {{"method":"fs/write_text_file","id":2,"params":{params}}}"#)]
    );
    assert_eq!(weight, RecordDurability::Before);
    let (told, weight) = story.answered(2, "null");
    let hash = ObjectHash::of(b"text\n");
    assert_eq!(
        told,
        [format!(r#"file.touched {{"path":"/elsewhere/b","op":"write","after":"{hash}"}}"#)]
    );
    assert_eq!(weight, RecordDurability::Before);

    story.asked(3, "fs/write_text_file", params);
    let (told, _) = story.refused(3, r#"{"code":-1,"message":"no"}"#);
    assert_eq!(
        told,
        lines(&[
            r#"acp.response {"method":"fs/write_text_file","id":3,"path":"/elsewhere/b","error":{"code":-1,"message":"no"}}"#
        ])
    );
}

#[test]
fn of_a_terminal_the_last_output_is_recorded() {
    let mut story = RecordedSession::new();
    story.prompt("x");
    let (told, weight) = story.asked(1, "terminal/create", r#"{"command":"ls"}"#);
    assert_eq!((told.len(), weight), (1, RecordDurability::Before));
    let (told, weight) = story.answered(1, r#"{"terminalId":"t1"}"#);
    assert_eq!(weight, RecordDurability::Behind);
    assert_eq!(
        told,
        lines(&[
            r#"acp.response {"method":"terminal/create","id":1,"result":{"terminalId":"t1"}}"#
        ])
    );
    let look = |story: &mut RecordedSession, answer: &str| {
        assert_eq!(
            story.asked(2, "terminal/output", r#"{"terminalId":"t1"}"#),
            (vec![], RecordDurability::Behind)
        );
        story.answered(2, answer).0
    };
    let given = |answer: &str| {
        [format!(
            r#"acp.response {{"method":"terminal/output","terminal":"t1","result":{answer}}}"#
        )]
    };
    assert_eq!(look(&mut story, r#"{"output":"a","truncated":false}"#), lines(&[]));
    assert_eq!(look(&mut story, r#"{"output":"ab","truncated":false}"#), lines(&[]));
    let over = r#"{"output":"abc","truncated":false,"exitStatus":{"exitCode":0}}"#;
    assert_eq!(look(&mut story, over), given(over));
    assert_eq!(look(&mut story, over), lines(&[]));
    let more = r#"{"output":"abcd","truncated":false}"#;
    assert_eq!(look(&mut story, more), lines(&[]));
    let (told, weight) = story.asked(3, "terminal/release", r#"{"terminalId":"t1"}"#);
    assert_eq!((told[..1].to_vec(), weight), (given(more).to_vec(), RecordDurability::Behind));
    assert!(told[1].starts_with("acp.request"));
    assert_eq!(
        story.asked(4, "terminal/kill", r#"{"terminalId":"t1"}"#).1,
        RecordDurability::Before
    );

    // The end of a turn records what is seen; a long output is cut to its end.
    let long = format!("{}é{}", "x".repeat(1 << 20), "y".repeat((1 << 20) - 1));
    look(&mut story, &format!(r#"{{"output":"{long}","truncated":false}}"#));
    let (told, _) = story.prompted(r#"{"stopReason":"end_turn"}"#);
    let kept = format!(r#"{{"output":"{}","truncated":true}}"#, "y".repeat((1 << 20) - 1));
    assert_eq!(told[..1], given(&kept));
    story.asked(5, "terminal/wait_for_exit", r#"{"terminalId":"t1"}"#);
    let (told, _) = story.answered(5, r#"{"exitCode":1}"#);
    assert_eq!(
        told,
        lines(&[
            r#"acp.response {"method":"terminal/wait_for_exit","id":5,"terminal":"t1","result":{"exitCode":1}}"#
        ])
    );
}

#[test]
fn other_requests_are_kept_with_their_answers() {
    let mut story = RecordedSession::new();
    let (told, weight) = story.asked(1, "elicitation/create", r#"{"message":"?"}"#);
    assert_eq!(weight, RecordDurability::Before);
    assert_eq!(
        told,
        lines(&[r#"acp.request {"method":"elicitation/create","id":1,"params":{"message":"?"}}"#])
    );
    let recorded = story.translator.asked(&raw("\"u\""), "_own/method", None);
    assert_eq!(recorded.weight, RecordDurability::Behind);
    assert_eq!(
        story.write(recorded).0,
        lines(&[r#"acp.request {"method":"_own/method","id":"u"}"#])
    );
    let recorded = story.translator.answered(&raw("\"u\""), Ok(&raw("[1]")));
    assert_eq!(
        story.write(recorded).0,
        lines(&[r#"acp.response {"method":"_own/method","id":"u","result":[1]}"#])
    );
}

#[test]
fn titles_usage_and_settings() {
    let mut story = RecordedSession::new();
    story.update(&chunk(AGENT, "one "));
    let info = r#"{"sessionUpdate":"session_info_update","title":"New title"}"#;
    let (told, _) = story.update(info);
    assert_eq!(
        told,
        [
            format!(r#"acp.update {{"acp":{info}}}"#),
            r#"session.updated {"title":"New title"}"#.to_owned()
        ]
    );
    let usage = r#"{"sessionUpdate":"usage_update","used":5,"size":10,"cost":{"amount":0.5,"currency":"USD"}}"#;
    assert_eq!(story.update(usage).0, [format!(r#"acp.update {{"acp":{usage}}}"#)]);
    assert_eq!(story.update(usage).0, lines(&[]));
    story.update(&chunk(AGENT, "two"));
    // None of this is part of what is said.
    let mode = r#"{"sessionUpdate":"current_mode_update","currentModeId":"plan"}"#;
    let (told, _) = story.update(mode);
    assert_eq!(
        told[0],
        r#"message.added {"role":"assistant","content":[{"type":"text","text":"one two"}]}"#
    );
    assert_eq!(story.state.core.usage.input_tokens, 0);

    let recorded = story.translator.configured(
        "session/set_mode",
        &raw(r#"{"sessionId":"s","modeId":"code"}"#),
        &raw("{}"),
    );
    assert_eq!(
        story.write(recorded).0,
        lines(&[r#"acp.configured {"method":"session/set_mode","mode":"code"}"#])
    );
    let recorded = story.translator.configured(
        "session/set_config_option",
        &raw(r#"{"sessionId":"s","configId":"model","value":"big"}"#),
        &raw(r#"{"configOptions":[{"id":"model","name":"Model","type":"select","currentValue":"big","options":[]},{"id":"fast","name":"F","type":"boolean","currentValue":true}]}"#),
    );
    assert_eq!(
        story.write(recorded).0,
        lines(&[
            r#"acp.configured {"method":"session/set_config_option","values":[{"id":"model","currentValue":"big"},{"id":"fast","currentValue":true}]}"#
        ])
    );
    let recorded = story.translator.configured("x", &raw("[]"), &raw("null"));
    assert_eq!(story.write(recorded).0, lines(&[r#"acp.configured {"method":"x","params":[]}"#]));
}

#[test]
fn nothing_odd_fails_and_nothing_is_lost_unsaid() {
    let mut story = RecordedSession::new();
    let unknown = r#"{"sessionUpdate":"_own","x":[1e999]}"#;
    assert_eq!(story.update(unknown).0, [format!(r#"acp.update {{"acp":{unknown}}}"#)]);
    for odd in [
        "5",
        "null",
        "[]",
        "{}",
        r#"{"sessionUpdate":7}"#,
        r#"{"sessionUpdate":"agent_message_chunk"}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":"x"}"#,
        r#"{"sessionUpdate":"tool_call","toolCallId":5}"#,
        r#"{"sessionUpdate":"tool_call","toolCallId":"a"}"#,
        r#"{"sessionUpdate":"plan","entries":5,"entries":6}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","toolCallId":"b"}"#,
    ] {
        assert_eq!(story.update(odd).0, [format!(r#"acp.update {{"acp":{odd}}}"#)], "{odd}");
    }
    let recorded = story.translator.update(&raw("[1]"));
    assert_eq!(story.write(recorded).0, lines(&[r#"acp.update {"params":[1]}"#]));
    // A text that no text can hold is kept as it is written.
    let half =
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}"#;
    let other =
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ude00"}}"#;
    story.update(half);
    story.update(other);
    let (told, _) = story.prompt("x");
    assert_eq!(
        told[0],
        r#"message.added {"role":"assistant","content":[{"type":"text","text":"\ud83d\ude00"}]}"#
    );
    let recorded = story.translator.prompt(&raw("7"));
    let (told, _) = story.write(recorded);
    assert_eq!(told.last().unwrap(), r#"message.added {"role":"user","content":7}"#);

    // Too deep.
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let (told, _) = story.update(&format!(r#"{{"sessionUpdate":"_deep","x":{deep}}}"#));
    assert!(told.len() == 1 && told[0].starts_with("log.recorded"), "{told:?}");
    let nested = format!("{}{}", "[".repeat(99), "]".repeat(99));
    let (told, _) = story.update(&format!(
        r#"{{"sessionUpdate":"tool_call","toolCallId":"d","title":"T","rawInput":{nested}}}"#
    ));
    let kinds: Vec<_> = told.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(kinds, ["log.recorded", "message.added", "tool.called"], "{told:?}");
    let recorded = story.translator.prompt(&raw(&format!(r#"{{"prompt":{deep}}}"#)));
    let kinds: Vec<_> = recorded.events.iter().map(|event| event.kind.clone()).collect();
    assert_eq!(kinds, [Kind::LOG_RECORDED, Kind::MESSAGE_ADDED]);

    // Ids that are too long.
    let long = "i".repeat(600);
    let hash = ObjectHash::of(long.as_bytes());
    let (told, _) = story.update(&format!(
        r#"{{"sessionUpdate":"tool_call","toolCallId":"{long}","title":"T","_meta":{{"x":{{"parentToolUseId":"{long}"}}}}}}"#
    ));
    assert!(told[1].starts_with(&format!(r#"[{hash}] tool.called {{"call":"{hash}""#)), "{told:?}");
    let (told, _) = story.update(&format!(
        r#"{{"sessionUpdate":"tool_call_update","toolCallId":"{long}","status":"completed"}}"#
    ));
    assert!(told[0].starts_with(&format!(r#"[{hash}] tool.finished {{"call":"{hash}""#)));
}

#[test]
#[ignore = "a measurement"]
fn the_cost_of_a_chunk() {
    let mut story = RecordedSession::new();
    let params = raw(&format!(
        r#"{{"sessionId":"0b5a6a5e-0d4e-4f6e-9d0a-4a4f8c6d8e21","update":{}}}"#,
        chunk(AGENT, "a few words of an answer")
    ));
    let (count, start) = (1_000_000_u32, std::time::Instant::now());
    let events: usize = (0..count).map(|_| story.translator.update(&params).events.len()).sum();
    let each = start.elapsed() / count;
    assert_eq!(events, 94);
    println!("{each:?} a chunk");
}

#[test]
fn a_test_is_recorded_once_wherever_it_runs() {
    let mut story = RecordedSession::new();
    story.prompt("x");
    let artifacts = |(told, _): (Vec<String>, RecordDurability)| -> Vec<String> {
        told.into_iter().filter(|line| line.starts_with("artifact.recorded")).collect()
    };
    // The agent shows a terminal of its own, which nobody else records.
    let told = story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"x","kind":"execute","status":"completed","rawInput":{"command":"pytest"},"rawOutput":{"exit_code":1},"content":[{"type":"terminal","terminalId":"own"}]}"#);
    let told = artifacts(told);
    assert_eq!(told.len(), 1);
    assert!(told[0].contains(r#""name":"pytest","kind":"test","ok":false"#), "{told:?}");
    assert!(told[0].contains(r#""exit":1"#), "{told:?}");
    // That a call is completed does not say that its command succeeded.
    let told = story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c2","title":"x","kind":"execute","status":"completed","rawInput":{"command":"npm run build"},"content":[{"type":"content","content":{"type":"text","text":"boom"}}]}"#);
    assert_eq!(artifacts(told), [] as [String; 0]);
    // A terminal of the client; the call does not say that it runs there.
    story.update(r#"{"sessionUpdate":"tool_call","toolCallId":"c3","title":"x","kind":"execute","rawInput":{"command":"make test"}}"#);
    story.asked(1, "terminal/create", r#"{"command":"bash","args":["-lc","make test"]}"#);
    story.answered(1, r#"{"terminalId":"t1"}"#);
    story.asked(2, "terminal/output", r#"{"terminalId":"t1"}"#);
    story.answered(2, r#"{"output":"make: *** [Makefile:1: test] Error 2","truncated":false}"#);
    story.asked(3, "terminal/wait_for_exit", r#"{"terminalId":"t1"}"#);
    story.answered(3, r#"{"exitCode":2}"#);
    let told = artifacts(story.asked(4, "terminal/release", r#"{"terminalId":"t1"}"#));
    assert_eq!(told.len(), 1, "what was last seen of it is its output");
    assert!(told[0].contains(r#""ok":false"#) && told[0].contains("Error 2"), "{told:?}");
    let told = story.update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"c3","status":"failed","content":[{"type":"content","content":{"type":"text","text":"make: *** [Makefile:1: test] Error 2"}}]}"#);
    assert_eq!(artifacts(told), [] as [String; 0]);
}
