//! Contexts of generated sessions: nothing is split, nothing that is kept is lost.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::message::parse_count;
use crate::{Event, EventLimits, Kind, NewEvent, SessionState, Timestamp};

/// A session in memory.
#[derive(Default)]
struct Recorded {
    events: Vec<Event>,
    state: SessionState,
}

impl Recorded {
    fn add(&mut self, kind: Kind, data: Value) -> Seq {
        self.add_in(None, kind, data)
    }

    fn add_in(&mut self, lane: Option<LaneId>, kind: Kind, data: Value) -> Seq {
        let data = Payload::new(&data.to_string(), &EventLimits::default()).unwrap();
        let seq = Seq(self.events.len() as u64 + 1);
        let new = NewEvent { lane, ..NewEvent::new(kind, data) };
        let event = new.into_event(seq, Timestamp::from_millis(0));
        assert_eq!(self.state.apply(&event), None, "{}", event.to_json());
        self.events.push(event);
        seq
    }

    fn say(&mut self, role: &str, text: &str) -> Seq {
        self.add(Kind::MESSAGE_ADDED, json!({"role": role, "content": text}))
    }

    fn call(&mut self, ids: &[&str]) -> Seq {
        let calls: Vec<Value> = ids
            .iter()
            .map(|id| json!({"type": "tool_use", "id": id, "name": "bash", "input": {}}))
            .collect();
        self.add(Kind::MESSAGE_ADDED, json!({"role": "assistant", "content": calls}))
    }

    fn result(&mut self, id: &str) -> Seq {
        let content = json!([{"type": "tool_result", "tool_use_id": id, "content": "done"}]);
        self.add(Kind::MESSAGE_ADDED, json!({"role": "user", "content": content}))
    }

    fn builder(&self) -> ContextBuilder {
        let core = &self.state.core;
        let mut builder = ContextBuilder::new(None, &core.main, &core.lineage, core.seq);
        for (first, last) in builder.ranges().to_vec() {
            let within = |event: &&Event| event.seq >= first && event.seq <= last;
            self.events.iter().filter(within).for_each(|event| builder.event(event.clone()));
        }
        builder
    }

    fn context(&self) -> Context {
        self.builder().finish().build()
    }

    fn compact(&mut self, keep: usize) -> Result<CompactionPlan, NothingToCompact> {
        let plan = CompactionPlan::of(&self.context(), &self.state.core.main, keep)?;
        self.add(
            Kind::CONTEXT_COMPACTED,
            json!({"first": plan.first, "last": plan.last, "summary": "s", "by": "test",
                   "keeps": plan.keeps}),
        );
        Ok(plan)
    }
}

#[test]
fn a_visible_message_is_parsed_once() {
    let mut recorded = Recorded::default();
    for number in 0..4 {
        recorded.say("user", &number.to_string());
        recorded.call(&["a", "b"]);
        let results = ["a", "b"]
            .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": number}));
        recorded.add(Kind::MESSAGE_ADDED, json!({"role": "user", "content": results}));
    }
    recorded.compact(6).unwrap();
    let before = parse_count::get();
    let context = recorded.context();
    assert!(CompactionPlan::of(&context, &recorded.state.core.main, 2).is_ok());
    let said =
        context.entries.iter().filter(|entry| !matches!(entry, ContextEntry::Summary { .. }));
    let messages: BTreeSet<Seq> = said.filter_map(ContextEntry::seq).collect();
    // A summary stands for the others.
    assert!((4..12).contains(&messages.len()), "{messages:?}");
    assert_eq!(parse_count::get() - before, messages.len());
}

/// What an entry is, in short.
fn short(entry: &ContextEntry) -> String {
    match entry {
        ContextEntry::Message { seq, .. } => format!("@{seq}"),
        ContextEntry::Call { seq, call, .. } => format!("@{seq}:{}", call.0),
        ContextEntry::Result { seq, call, .. } => format!("@{seq}={}", call.0),
        ContextEntry::Unknown { call, .. } => format!("?{}", call.0),
        ContextEntry::Summary { .. } => "summary".to_owned(),
    }
}

fn shorts(context: &Context) -> Vec<String> {
    context.entries.iter().map(short).collect()
}

#[test]
fn a_summary_stands_in_the_place_of_what_it_covers() {
    let mut recorded = Recorded::default();
    recorded.say("system", "be brief");
    for number in 0..50 {
        recorded.say("user", &number.to_string());
        recorded.say("assistant", "yes");
    }
    recorded.compact(2).unwrap();
    assert_eq!(shorts(&recorded.context()), ["@1", "summary", "@100", "@101"]);
    recorded.say("user", "more");
    recorded.say("assistant", "yes");
    let plan = recorded.compact(2).unwrap();
    assert_eq!((plan.first, plan.last), (Seq(2), Seq(101)));
    assert_eq!(shorts(&recorded.context()), ["@1", "summary", "@103", "@104"]);
    // Only what is visible is read.
    let builder = recorded.builder();
    assert_eq!(builder.ranges(), [(Seq(1), Seq(1)), (Seq(102), Seq(105))]);
}

#[test]
fn compactions_are_taken_back_one_after_the_other() {
    let mut recorded = Recorded::default();
    let mut before = Vec::new();
    for _ in 0..3 {
        for _ in 0..4 {
            recorded.say("user", "x");
        }
        before.push(shorts(&recorded.context()));
        recorded.compact(1).unwrap();
    }
    for expected in before.iter().rev() {
        let at = recorded.state.core.main.compacted().unwrap().at;
        recorded.add(Kind::CONTEXT_RESTORED, json!({"compaction": at}));
        let now = shorts(&recorded.context());
        assert_eq!(now.get(..expected.len()), Some(expected.as_slice()));
    }
    assert_eq!(recorded.context().entries.len(), 12);
}

#[test]
fn a_call_is_never_split_from_its_result_and_one_without_waits() {
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    recorded.call(&["a", "b"]);
    recorded.result("b");
    recorded.say("user", "hurry");
    recorded.result("a");
    recorded.say("assistant", "fine");
    recorded.say("user", "and?");
    // The result of `a` stands behind what the user said meanwhile.
    let shown = shorts(&recorded.context());
    assert_eq!(shown, ["@1", "@2", "@5=a", "@3=b", "@4", "@6", "@7"]);
    let plan = recorded.compact(3).unwrap_err();
    assert_eq!(plan, NothingToCompact::Joined { first: Seq(2), last: Seq(5) });
    assert_eq!(recorded.compact(2).unwrap().last, Seq(5));
    recorded.call(&["c"]);
    assert_eq!(shorts(&recorded.context()), ["summary", "@6", "@7", "@9", "?c"]);
    // Its result may still come.
    assert_eq!(recorded.compact(0).unwrap().last, Seq(7));
    recorded.result("c");
    assert_eq!(shorts(&recorded.context()), ["summary", "@9", "@11=c"]);
}

#[test]
fn a_single_prompt_with_hundreds_of_calls_is_compacted() {
    let mut recorded = Recorded::default();
    recorded.say("user", "do it all");
    for number in 0..300 {
        let id = format!("c{number}");
        recorded.call(&[&id]);
        recorded.result(&id);
    }
    let plan = recorded.compact(10).unwrap();
    assert_eq!(plan.covered.len(), 601 - 10);
    assert_eq!(recorded.context().entries.len(), 11);
}

#[test]
fn what_is_pinned_stays_with_the_outcomes_of_its_calls() {
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    let call = recorded.call(&["a"]);
    recorded.result("a");
    for _ in 0..10 {
        recorded.say("user", "x");
    }
    let together = recorded.context().together(call);
    assert_eq!(together, [Seq(2), Seq(3)]);
    for seq in together {
        recorded.add(Kind::CONTEXT_PINNED, json!({"message": seq, "pinned": true}));
    }
    recorded.compact(2).unwrap();
    assert_eq!(shorts(&recorded.context()), ["summary", "@2", "@3=a", "@12", "@13"]);
    for seq in [2, 3] {
        recorded.add(Kind::CONTEXT_PINNED, json!({"message": seq, "pinned": false}));
    }
    recorded.compact(2).unwrap();
    assert_eq!(shorts(&recorded.context()), ["summary", "@12", "@13"]);
}

#[test]
fn the_parts_of_an_answer_come_together_before_the_outcomes() {
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    for id in ["a", "b"] {
        recorded.add(
            Kind::MESSAGE_ADDED,
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "n", "input": {}}],
                   "abide": {"answer": "one"}}),
        );
    }
    recorded.add(Kind::TOOL_CALLED, json!({"call": "a", "name": "n"}));
    recorded.add(Kind::TOOL_FINISHED, json!({"call": "a", "ok": true, "result": "done"}));
    assert_eq!(shorts(&recorded.context()), ["@1", "@2", "@3", "@5=a", "?b"]);
    let pending = recorded.builder().finish().pending();
    assert_eq!(pending.len(), 1);
    assert_eq!((pending[0].call.0.as_str(), pending[0].begun), ("b", false));
    recorded.add(Kind::TOOL_CALLED, json!({"call": "b", "name": "n"}));
    assert!(recorded.builder().finish().pending()[0].begun);
}

#[test]
fn a_lane_sees_its_own_messages_alone() {
    let mut recorded = Recorded::default();
    recorded.say("user", "main");
    let lane = LaneId("worker".to_owned());
    recorded.add_in(
        Some(lane.clone()),
        Kind::MESSAGE_ADDED,
        json!({"role": "user", "content": "lane"}),
    );
    assert_eq!(shorts(&recorded.context()), ["@1"]);
    let core = &recorded.state.core;
    let state = recorded.state.lane("worker").unwrap();
    let mut builder = ContextBuilder::new(Some(lane), state, &core.lineage, core.seq);
    assert_eq!(builder.ranges(), [(Seq(2), Seq(2))]);
    recorded.events.iter().for_each(|event| builder.event(event.clone()));
    assert_eq!(shorts(&builder.finish().build()), ["@2"]);
}

fn executed(recorded: &mut Recorded, lane: Option<&str>, id: &str, text: &str) {
    let lane = lane.map(|lane| LaneId(lane.to_owned()));
    recorded.add_in(lane.clone(), Kind::TOOL_CALLED, json!({"call": id, "name": "bash"}));
    recorded.add_in(lane, Kind::TOOL_FINISHED, json!({"call": id, "ok": true, "result": text}));
}

#[test]
fn an_id_that_is_used_again_is_another_call() {
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    recorded.call(&["call_0"]);
    executed(&mut recorded, None, "call_0", "one");
    recorded.call(&["call_0"]);
    let pending = recorded.builder().finish().pending();
    assert_eq!((pending.len(), pending[0].begun), (1, false));
    assert_eq!(shorts(&recorded.context()), ["@1", "@2", "@4=call_0", "@5", "?call_0"]);
    recorded.add(Kind::TOOL_CALLED, json!({"call": "call_0", "name": "bash"}));
    assert!(recorded.builder().finish().pending()[0].begun);
}

#[test]
fn a_second_outcome_is_not_that_of_the_next_call() {
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    recorded.call(&["a"]);
    executed(&mut recorded, None, "a", "one");
    let odd = json!({"call": "a", "ok": true, "result": "one again"});
    let data = Payload::new(&odd.to_string(), &EventLimits::default()).unwrap();
    let event = NewEvent::new(Kind::TOOL_FINISHED, data);
    let event = event.into_event(Seq(5), Timestamp::from_millis(0));
    assert!(recorded.state.apply(&event).is_some());
    recorded.events.push(event);
    recorded.call(&["a"]);
    assert_eq!(shorts(&recorded.context()), ["@1", "@2", "@4=a", "@6", "?a"]);
}

#[test]
fn an_outcome_in_another_lane_is_that_lanes() {
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    let call = json!([{"type": "tool_use", "id": "call_0", "name": "bash", "input": {}}]);
    let said = json!({"role": "assistant", "content": call});
    let lane = Some(LaneId("sub".to_owned()));
    recorded.add(Kind::MESSAGE_ADDED, said.clone());
    recorded.add_in(lane, Kind::MESSAGE_ADDED, said);
    executed(&mut recorded, Some("sub"), "call_0", "theirs");
    assert_eq!(shorts(&recorded.context()), ["@1", "@2", "?call_0"]);
    assert_eq!(recorded.builder().finish().pending().len(), 1);
    // Beside the lanes it is told by its call: the main lane's is still open.
    executed(&mut recorded, None, "call_0", "ours");
    assert_eq!(shorts(&recorded.context()), ["@1", "@2", "@7=call_0"]);
}

#[test]
fn two_calls_with_one_id_in_a_message_have_an_outcome_each() {
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    recorded.call(&["a", "a"]);
    let pending = recorded.builder().finish().pending();
    assert_eq!(pending.iter().map(|call| call.nth).collect::<Vec<_>>(), [0, 1]);
    executed(&mut recorded, None, "a", "one");
    assert_eq!(shorts(&recorded.context()), ["@1", "@2", "@4=a", "?a"]);
    executed(&mut recorded, None, "a", "two");
    assert_eq!(shorts(&recorded.context()), ["@1", "@2", "@4=a", "@6=a"]);
}

#[test]
fn what_may_have_been_begun_is_not_called_fresh() {
    // Pinned and compacted.
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    let call = recorded.call(&["a"]);
    recorded.add(Kind::TOOL_CALLED, json!({"call": "a", "name": "bash"}));
    for seq in recorded.context().together(call) {
        recorded.add(Kind::CONTEXT_PINNED, json!({"message": seq}));
    }
    for _ in 0..40 {
        recorded.say("user", "x");
    }
    recorded.compact(2).unwrap();
    let pending = recorded.builder().finish().pending();
    assert_eq!((pending.len(), pending[0].begun), (1, true));
    // Compacted by the agent itself, execution and all.
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    recorded.call(&["a"]);
    executed(&mut recorded, None, "a", "one");
    for _ in 0..40 {
        recorded.say("user", "x");
    }
    recorded.add(Kind::CONTEXT_COMPACTED, json!({"first": 3, "last": 40, "summary": "s"}));
    assert!(recorded.builder().finish().pending()[0].begun);
    // Erased.
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    recorded.call(&["a"]);
    recorded.add(Kind::TOOL_CALLED, json!({"call": "a", "name": "bash"}));
    recorded.events[2].data = None;
    assert!(recorded.builder().finish().pending()[0].begun);
}

#[test]
fn what_the_model_has_passed_over_does_not_wait() {
    let mut recorded = Recorded::default();
    recorded.call(&["deploy"]);
    recorded.say("user", "no, do not");
    assert_eq!(recorded.builder().finish().pending().len(), 1);
    recorded.say("assistant", "Very well.");
    assert!(recorded.builder().finish().pending().is_empty());
}

#[test]
fn many_compactions_apart_from_each_other_bring_nothing_back() {
    let mut recorded = Recorded::default();
    for _ in 0..200 {
        recorded.say("user", "x");
    }
    let mut taken = 0;
    for number in 0..40_u64 {
        let (first, last) = (Seq(number * 4 + 1), Seq(number * 4 + 3));
        let data = json!({"first": first, "last": last, "summary": "s"});
        let data = Payload::new(&data.to_string(), &EventLimits::default()).unwrap();
        let seq = Seq(recorded.events.len() as u64 + 1);
        let event = NewEvent::new(Kind::CONTEXT_COMPACTED, data);
        let event = event.into_event(seq, Timestamp::from_millis(0));
        taken += usize::from(recorded.state.apply(&event).is_none());
        recorded.events.push(event);
    }
    assert_eq!(taken, 32);
    assert_eq!(recorded.context().entries.len(), 200 - 32 * 3 + 32);
    // One over all of them has room, and they go with it.
    recorded.add(Kind::CONTEXT_COMPACTED, json!({"first": 1, "last": 190, "summary": "s"}));
    assert_eq!(recorded.context().entries.len(), 11);
}

#[test]
fn a_call_that_no_message_holds_stands_in_its_place() {
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    executed(&mut recorded, None, "a", "one");
    recorded.say("assistant", "well");
    recorded.add(Kind::TOOL_CALLED, json!({"call": "b", "name": "bash", "observed": true}));
    recorded.add(Kind::TOOL_CALLED, json!({"call": "c", "name": "bash"}));
    let shown = shorts(&recorded.context());
    assert_eq!(shown, ["@1", "@2:a", "@3=a", "@4", "@5:b", "?b", "@6:c", "?c"]);
    let pending = recorded.builder().finish().pending();
    let pending: Vec<_> =
        pending.iter().map(|call| (call.seq.0, &*call.call.0, call.begun)).collect();
    assert_eq!(pending, [(5, "b", true), (6, "c", true)]);
    recorded.add(Kind::TOOL_FINISHED, json!({"call": "b", "ok": true, "result": "two"}));
    recorded.result("c");
    let shown = shorts(&recorded.context());
    assert_eq!(shown[4..], ["@5:b", "@7=b", "@6:c", "@8=c"]);
    // A message that holds one of them is told instead of it.
    recorded.call(&["c"]);
    let shown = shorts(&recorded.context());
    assert_eq!(shown[4..], ["@5:b", "@7=b", "@9", "@8=c"]);
    is_valid(&recorded.context());
    assert!(recorded.builder().finish().pending().is_empty());
}

#[test]
fn a_lane_may_begin_with_a_call_and_be_nothing_but_calls() {
    let mut recorded = Recorded::default();
    executed(&mut recorded, None, "a", "one");
    executed(&mut recorded, Some("sub"), "b", "two");
    recorded.say("user", "go");
    assert_eq!(shorts(&recorded.context()), ["@1:a", "@2=a", "@5"]);
    let core = &recorded.state.core;
    let lane = recorded.state.lane("sub").unwrap();
    let name = Some(LaneId("sub".to_owned()));
    let mut builder = ContextBuilder::new(name, lane, &core.lineage, core.seq);
    assert_eq!(builder.ranges(), [(Seq(3), Seq(5))]);
    recorded.events.iter().skip(2).for_each(|event| builder.event(event.clone()));
    assert_eq!(shorts(&builder.finish().build()), ["@3:b", "@4=b"]);
}

#[test]
fn calls_that_no_message_holds_are_compacted_and_pinned_as_messages_are() {
    let mut recorded = Recorded::default();
    for number in 0..20 {
        executed(&mut recorded, None, &format!("c{number}"), "done");
    }
    assert_eq!(recorded.context().entries.len(), 40);
    let together = recorded.context().together(Seq(3));
    assert_eq!(together, [Seq(3), Seq(4)]);
    for seq in together {
        recorded.add(Kind::CONTEXT_PINNED, json!({"message": seq}));
    }
    let plan = recorded.compact(4).unwrap();
    assert_eq!((plan.first, plan.last, plan.covered.len()), (Seq(1), Seq(36), 34));
    let shown = shorts(&recorded.context());
    assert_eq!(shown, ["summary", "@3:c1", "@4=c1", "@37:c18", "@38=c18", "@39:c19", "@40=c19"]);
    // Side by side: the results of both may still come.
    recorded.add(Kind::TOOL_CALLED, json!({"call": "x", "name": "bash"}));
    executed(&mut recorded, None, "y", "done");
    assert_eq!(recorded.compact(0).unwrap().last, Seq(40));
    recorded.add(Kind::TOOL_FINISHED, json!({"call": "x", "ok": true}));
    let shown = shorts(&recorded.context());
    assert_eq!(shown[3..], ["@44:x", "@48=x", "@45:y", "@46=y"]);
}

#[test]
fn what_a_summary_stands_for_is_not_the_outcome_of_a_later_call() {
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    executed(&mut recorded, None, "a", "one");
    recorded.say("user", "x");
    // What is kept is so near that all of it is read.
    recorded
        .add(Kind::CONTEXT_COMPACTED, json!({"first": 1, "last": 4, "summary": "s", "keeps": [1]}));
    recorded.call(&["a"]);
    assert_eq!(shorts(&recorded.context()), ["summary", "@1", "@6", "?a"]);
}

#[test]
fn a_call_between_the_parts_of_an_answer_stands_behind_them() {
    let mut recorded = Recorded::default();
    recorded.say("user", "go");
    for id in ["a", "b"] {
        let block = json!({"type": "tool_use", "id": id, "name": "n", "input": {}});
        let marks = json!({"answer": "one"});
        let part = json!({"role": "assistant", "content": [block], "abide": marks});
        recorded.add(Kind::MESSAGE_ADDED, part);
        executed(&mut recorded, None, &format!("bare-{id}"), "done");
        recorded.result(id);
    }
    recorded.say("assistant", "well");
    let shown = shorts(&recorded.context());
    let expected = ["@1", "@2", "@6", "@5=a", "@9=b", "@3:bare-a", "@4=bare-a", "@7:bare-b"];
    assert_eq!(shown[..8], expected);
    assert_eq!(shown[8..], ["@8=bare-b", "@10"]);
    is_valid(&recorded.context());
}

#[test]
fn tokens_reported_since_a_compaction_go_with_it() {
    let mut recorded = Recorded::default();
    for _ in 0..9 {
        recorded.say("user", "x");
    }
    recorded.compact(2).unwrap();
    recorded.add(Kind::API_FINISHED, json!({"usage": {"input_tokens": 500, "output_tokens": 10}}));
    assert_eq!(recorded.state.core.main.reported, Some((Seq(11), 510)));
    recorded.add(Kind::CONTEXT_RESTORED, json!({"compaction": 10}));
    assert_eq!(recorded.state.core.main.reported, None);
}

#[derive(Debug, Clone)]
enum Step {
    User,
    Assistant,
    Calls(usize, bool),
    /// A call that no message holds.
    Bare,
    /// A result for the n-th open call, as a message or as executed.
    Result(usize, bool),
    Pin(usize),
    Compact(usize),
    Restore,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::User),
        4 => Just(Step::Assistant),
        6 => (1..4_usize, any::<bool>()).prop_map(|(calls, parts)| Step::Calls(calls, parts)),
        4 => Just(Step::Bare),
        10 => (0..4_usize, any::<bool>()).prop_map(|(nth, executed)| Step::Result(nth, executed)),
        1 => (0..30_usize).prop_map(Step::Pin),
        3 => (0..8_usize).prop_map(Step::Compact),
        1 => Just(Step::Restore),
    ];
    proptest::collection::vec(step, 1..120)
}

/// The ids of the calls of a message.
fn calls_of(data: &Payload) -> Vec<String> {
    let value: Value = serde_json::from_str(data.as_str()).unwrap();
    let blocks = value["content"].as_array().cloned().unwrap_or_default();
    blocks.iter().filter_map(|block| block["id"].as_str().map(str::to_owned)).collect()
}

impl Recorded {
    /// Is this the start of a call that a message of the context holds? A restored one may.
    fn is_told_by_a_message(&self, seq: Seq, context: &Context) -> bool {
        let event = self.events.iter().find(|event| event.seq == seq).unwrap();
        let data: Value = serde_json::from_str(event.data.as_ref().unwrap().as_str()).unwrap();
        let holds = |entry: &ContextEntry| match entry {
            ContextEntry::Message { message, .. } => {
                calls_of(message.data()).iter().any(|id| data["call"] == **id)
            }
            _ => false,
        };
        event.kind == Kind::TOOL_CALLED && context.entries.iter().any(holds)
    }
}

/// Each call has its one outcome, behind the answer that holds it and before anything else.
fn is_valid(context: &Context) {
    let mut open: Vec<String> = Vec::new();
    let mut answer = None;
    for entry in &context.entries {
        match entry {
            ContextEntry::Message { message, .. } => {
                let part_of = entry.answer();
                assert!(open.is_empty() || (part_of.is_some() && part_of == answer));
                answer = part_of;
                open.extend(calls_of(message.data()));
            }
            ContextEntry::Call { call, .. } => {
                assert!(open.is_empty());
                answer = None;
                open.push(call.0.clone());
            }
            ContextEntry::Summary { .. } => assert!(open.is_empty()),
            ContextEntry::Result { call, .. } | ContextEntry::Unknown { call, .. } => {
                let place = open.iter().position(|id| *id == call.0);
                open.remove(place.expect("an outcome has its call before it"));
            }
        }
    }
    assert!(open.is_empty(), "calls without an outcome: {open:?}");
}

fn kept_by(plan: &CompactionPlan, before: &Context) -> Vec<String> {
    let covered: BTreeSet<usize> = plan.covered.iter().copied().collect();
    let kept = before.entries.iter().enumerate().filter(|(place, _)| !covered.contains(place));
    kept.map(|(_, entry)| short(entry)).collect()
}

proptest! {
    #[test]
    fn compactions_split_nothing_and_keep_what_they_should(steps in steps()) {
        let mut recorded = Recorded::default();
        let mut open: Vec<String> = Vec::new();
        let mut number = 0;
        for step in steps {
            match step {
                Step::User => {
                    recorded.say("user", "x");
                }
                Step::Assistant => {
                    recorded.say("assistant", "x");
                }
                Step::Calls(calls, parts) => {
                    let ids: Vec<String> = (0..calls).map(|call| format!("c{number}-{call}")).collect();
                    number += 1;
                    if parts {
                        for id in &ids {
                            recorded.add(Kind::MESSAGE_ADDED, json!({"role": "assistant",
                                "content": [{"type": "tool_use", "id": id, "name": "n", "input": {}}],
                                "abide": {"answer": number.to_string()}}));
                        }
                    } else {
                        recorded.call(&ids.iter().map(String::as_str).collect::<Vec<_>>());
                    }
                    open.extend(ids);
                }
                Step::Bare => {
                    let id = format!("b{number}");
                    number += 1;
                    recorded.add(Kind::TOOL_CALLED, json!({"call": id, "name": "n"}));
                    open.push(id);
                }
                Step::Result(nth, executed) if !open.is_empty() => {
                    let id = open.remove(nth % open.len());
                    if executed {
                        if !id.starts_with('b') {
                            recorded.add(Kind::TOOL_CALLED, json!({"call": id, "name": "n"}));
                        }
                        recorded.add(Kind::TOOL_FINISHED, json!({"call": id, "ok": true}));
                    } else {
                        recorded.result(&id);
                    }
                }
                Step::Pin(nth) => {
                    let context = recorded.context();
                    let seqs: Vec<Seq> = context.entries.iter().filter_map(|entry| match entry {
                        ContextEntry::Message { seq, .. } | ContextEntry::Call { seq, .. } => Some(*seq),
                        _ => None,
                    }).collect();
                    if !seqs.is_empty() {
                        for seq in context.together(seqs[nth % seqs.len()]) {
                            recorded.add(Kind::CONTEXT_PINNED, json!({"message": seq}));
                        }
                    }
                }
                Step::Compact(keep) => {
                    let before = recorded.context();
                    if let Ok(plan) = recorded.compact(keep) {
                        let after = recorded.context();
                        prop_assert!(after.entries.len() < before.entries.len());
                        let rest: Vec<String> = shorts(&after).into_iter().filter(|one| one != "summary").collect();
                        prop_assert_eq!(&rest, &kept_by(&plan, &before));
                        let tail = shorts(&before).split_off(before.entries.len() - keep.min(before.entries.len()));
                        prop_assert!(tail.iter().filter(|one| *one != "summary").all(|one| rest.contains(one)));
                        for pin in &recorded.state.core.main.pins {
                            let (whole, outcome) = (format!("@{pin}"), format!("@{pin}="));
                            let call = format!("@{pin}:");
                            let starts = |one: &String| one.starts_with(&outcome) || one.starts_with(&call);
                            let shown = rest.iter().any(|one| *one == whole || starts(one))
                                || recorded.is_told_by_a_message(*pin, &after);
                            prop_assert!(shown, "@{} is not in {:?}", pin, rest);
                        }
                    }
                }
                Step::Restore => {
                    if let Some(standing) = recorded.state.core.main.compacted() {
                        recorded.add(Kind::CONTEXT_RESTORED, json!({"compaction": standing.at}));
                    }
                }
                Step::Result(..) => {}
            }
            is_valid(&recorded.context());
        }
    }
}

/// How a call is recorded, and when.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// In a message that comes before it is run, behind that, or never; or that holds one more.
    Before,
    Behind,
    Never,
}

#[derive(Debug, Clone)]
enum Act {
    Say(bool),
    Call(Way, bool),
    /// In another lane.
    Elsewhere,
    /// The n-th open call ends: as executed, in a message, or both.
    End(usize, u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let way = prop_oneof![Just(Way::Before), Just(Way::Behind), Just(Way::Never)];
    let act = prop_oneof![
        2 => any::<bool>().prop_map(Act::Say),
        4 => (way, any::<bool>()).prop_map(|(way, observed)| Act::Call(way, observed)),
        1 => Just(Act::Elsewhere),
        4 => (0..4_usize, 0..3_u8).prop_map(|(nth, how)| Act::End(nth, how)),
    ];
    proptest::collection::vec(act, 1..60)
}

/// The ids of the calls in a context, in order, and what stands for each.
fn shown_calls(context: &Context) -> Vec<(String, Seq)> {
    let mut calls = Vec::new();
    for entry in &context.entries {
        match entry {
            ContextEntry::Message { seq, message } => {
                calls.extend(calls_of(message.data()).into_iter().map(|id| (id, *seq)));
            }
            ContextEntry::Call { seq, call, .. } => calls.push((call.0.clone(), *seq)),
            _ => {}
        }
    }
    calls
}

proptest! {
    #[test]
    fn every_call_is_shown_once_in_order_with_its_outcome(acts in acts()) {
        let mut recorded = Recorded::default();
        // Each call with where it must stand; and those that have no outcome yet.
        let mut calls: Vec<(String, Seq)> = Vec::new();
        let mut open: Vec<String> = Vec::new();
        let mut ended = BTreeSet::new();
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Say(user) => {
                    recorded.say(if user { "user" } else { "assistant" }, "x");
                }
                Act::Call(way, observed) => {
                    let id = format!("c{number}");
                    let run = json!({"call": id, "name": "n", "observed": observed});
                    let at = match way {
                        Way::Before => {
                            let at = recorded.call(&[&id]);
                            recorded.add(Kind::TOOL_CALLED, run);
                            at
                        }
                        Way::Behind => {
                            recorded.add(Kind::TOOL_CALLED, run);
                            recorded.call(&[&id])
                        }
                        Way::Never => recorded.add(Kind::TOOL_CALLED, run),
                    };
                    calls.push((id.clone(), at));
                    open.push(id);
                }
                Act::Elsewhere => {
                    let lane = Some("sub".to_owned());
                    executed(&mut recorded, lane.as_deref(), &format!("e{number}"), "done");
                }
                Act::End(nth, how) if !open.is_empty() => {
                    let id = open.remove(nth % open.len());
                    if how != 1 {
                        recorded.add(Kind::TOOL_FINISHED, json!({"call": id, "ok": true}));
                    }
                    if how != 0 {
                        recorded.result(&id);
                    }
                    ended.insert(id);
                }
                Act::End(..) => {}
            }
            let context = recorded.context();
            is_valid(&context);
            prop_assert_eq!(&shown_calls(&context), &calls);
            for entry in &context.entries {
                match entry {
                    ContextEntry::Result { call, .. } => prop_assert!(ended.contains(&call.0)),
                    ContextEntry::Unknown { call, .. } => prop_assert!(!ended.contains(&call.0)),
                    _ => {}
                }
            }
        }
    }
}
