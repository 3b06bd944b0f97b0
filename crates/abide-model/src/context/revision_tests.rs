//! Contexts of sessions with revisions: as if each message had been written as its newest version.

use std::convert::Infallible;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    Event, EventLimits, Kind, Lineage, MessageRevisions, NewEvent, SessionState, Timestamp,
    fold_lineage,
};

/// What is recorded: a lane, a kind, data, and what a message replaces.
type Step = (Option<&'static str>, Kind, Value, Option<u64>);

fn event(seq: u64, (lane, kind, data, replaces): &Step) -> Event {
    let mut data = data.clone();
    if let Some(old) = replaces {
        data["abide"] = json!({"form": "anthropic", "replaces": old, "source": {"file": "SECRET"}});
    }
    let data = Payload::new(&data.to_string(), &EventLimits::default()).unwrap();
    let lane = lane.map(LaneId::from);
    let new = NewEvent { lane, ..NewEvent::new(kind.clone(), data) };
    new.into_event(Seq(seq), Timestamp::from_millis(0))
}

fn events(steps: &[Step]) -> Vec<Event> {
    (1..).zip(steps).map(|(seq, step)| event(seq, step)).collect()
}

/// The state after these events, and the reading of the main lane's context.
fn read(events: &[Event]) -> (SessionState, ContextReading) {
    read_ranges(events, |builder| builder.ranges().to_vec())
}

/// With every event. The ranges of a reading that has revisions are other ones, and where ranges are joined,
/// the result of a call is found that would not have been read.
fn read_whole(events: &[Event]) -> (SessionState, ContextReading) {
    read_ranges(events, |_| vec![(Seq::FIRST, Seq(events.len() as u64))])
}

fn read_ranges(
    events: &[Event],
    ranges: impl Fn(&ContextBuilder) -> Vec<(Seq, Seq)>,
) -> (SessionState, ContextReading) {
    let end = Seq(events.len() as u64);
    let state = fold_lineage::<Infallible>(end, &|visit| {
        events.iter().for_each(visit);
        Ok(())
    });
    let state = state.unwrap();
    let rewinds: Vec<_> = events.iter().filter_map(crate::rewind_of).collect();
    let lineage = Lineage::at(end, &rewinds);
    let mut builder = ContextBuilder::new(None, &state.core.main, &lineage, end);
    for (first, last) in ranges(&builder) {
        let within = |event: &&Event| event.seq >= first && event.seq <= last;
        events.iter().filter(within).for_each(|event| builder.event(event.clone()));
    }
    (state, builder.finish())
}

fn context(steps: &[Step]) -> Context {
    read(&events(steps)).1.build()
}

/// The entries, each with where it stands.
fn told(context: &Context) -> Vec<(Option<Seq>, String)> {
    let entry = |entry: &ContextEntry| {
        let place = entry.seq().map(|seq| context.place_of(seq));
        let text = match entry {
            ContextEntry::Message { message, .. } => message.as_it_came().into_owned(),
            ContextEntry::Call { call, data, .. } => format!("{call} {}", data.as_str()),
            ContextEntry::Result { call, result: RecordedResult::Message(message), .. } => {
                format!("{call} {}", message.as_it_came())
            }
            ContextEntry::Result { call, result: RecordedResult::Executed(data), .. } => {
                format!("{call} {}", data.as_str())
            }
            ContextEntry::Unknown { call, .. } => format!("{call}?"),
            ContextEntry::Summary { text, .. } => text.clone(),
        };
        (place, text)
    };
    context.entries.iter().map(entry).collect()
}

fn texts(steps: &[Step]) -> Vec<String> {
    let text = |(_, text): (_, String)| {
        let message: Value = serde_json::from_str(&text).unwrap_or(json!({"content": text}));
        message["content"].as_str().unwrap_or_default().to_owned()
    };
    told(&context(steps)).into_iter().map(text).collect()
}

fn said(text: &str) -> Step {
    (None, Kind::MESSAGE_ADDED, json!({"role": "user", "content": text}), None)
}

fn again(text: &str, old: u64) -> Step {
    (None, Kind::MESSAGE_ADDED, json!({"role": "user", "content": text}), Some(old))
}

fn other(kind: Kind, data: Value) -> Step {
    (None, kind, data, None)
}

fn compacted(first: u64, last: u64, keeps: &[u64]) -> Step {
    let data =
        json!({"first": first, "last": last, "summary": "summary", "by": "t", "keeps": keeps});
    other(Kind::CONTEXT_COMPACTED, data)
}

#[test]
fn the_newest_version_stands_where_the_first_one_stood() {
    assert_eq!(texts(&[said("a"), said("b"), again("A", 1)]), ["A", "b"]);
    // A chain, and several that name the same one.
    let chain = [said("a"), again("A", 1), said("b"), again("AA", 2), said("c")];
    assert_eq!(texts(&chain), ["AA", "b", "c"]);
    let star = [said("a"), said("b"), again("A", 1), again("AA", 1)];
    assert_eq!(texts(&star), ["AA", "b"]);
    // Nothing of the mark goes to a model.
    let built = context(&chain);
    assert!(!told(&built).iter().any(|(_, text)| text.contains("SECRET")), "{built:?}");
    assert_eq!(built.versions_of(Seq(4)), [Seq(1), Seq(2), Seq(4)]);
    assert_eq!(built.together(Seq(2)), [Seq(4)]);
}

#[test]
fn a_mark_that_names_no_earlier_message_of_the_lane_means_nothing() {
    let lane = |step: Step| (Some("sub"), step.1, step.2, step.3);
    assert_eq!(texts(&[again("a", 1), again("b", 7), again("c", 0)]), ["a", "b", "c"]);
    assert_eq!(texts(&[lane(said("a")), again("b", 1), said("c")]), ["b", "c"]);
    assert_eq!(texts(&[said("a"), lane(again("b", 1)), said("c")]), ["a", "c"]);
    let call = other(Kind::TOOL_CALLED, json!({"call": "c", "name": "t", "arguments": {}}));
    let built = told(&context(&[call, again("b", 1)]));
    assert_eq!(built.len(), 3, "{built:?}");
    let no_number = |old: Value| {
        let data = json!({"role": "user", "content": "b", "abide": {"replaces": old}});
        texts(&[said("a"), other(Kind::MESSAGE_ADDED, data)])
    };
    for old in [json!("1"), json!(-1), json!(1.5), json!([1]), Value::Null] {
        assert_eq!(no_number(old), ["a", "b"]);
    }
}

#[test]
fn a_rewind_takes_a_revision_back() {
    let rewind = |to: u64| other(Kind::SESSION_REWOUND, json!({"to": to}));
    let taken = [said("a"), said("b"), again("A", 1), rewind(2), said("c")];
    assert_eq!(texts(&taken), ["a", "b", "c"]);
    let (state, _) = read(&events(&taken));
    assert!(!state.is_replaced(&events(&taken)[0]));
    // What was rewound cannot be replaced.
    let dead = [said("a"), said("b"), rewind(1), again("B", 2)];
    assert_eq!(texts(&dead), ["a", "B"]);
    // A rewind to the middle of a chain.
    let chain = [said("a"), again("A", 1), again("AA", 2), rewind(2)];
    assert_eq!(texts(&chain), ["A"]);
}

#[test]
fn a_summary_speaks_for_the_versions_that_come_after_it() {
    let steps = [said("a"), said("b"), said("c"), compacted(1, 2, &[]), again("B", 2), said("d")];
    assert_eq!(texts(&steps), ["summary", "c", "d"]);
    // As does one over a version that is not the last.
    let steps = [said("a"), again("A", 1), said("c"), compacted(1, 2, &[]), again("AA", 2)];
    assert_eq!(texts(&steps), ["summary", "c"]);
    // What a summary leaves out can be replaced.
    let kept = [said("a"), said("b"), said("c"), compacted(1, 2, &[1]), again("A", 1)];
    assert_eq!(texts(&kept), ["summary", "A", "c"]);
}

#[test]
fn instructions_and_pins_stay_as_their_newest_version() {
    let system = |text: &str, old: Option<u64>| {
        (None, Kind::MESSAGE_ADDED, json!({"role": "system", "content": text}), old)
    };
    let steps = [system("s", None), said("a"), system("S", Some(1)), said("b")];
    let covered = [&steps[..], &[compacted(2, 4, &[])]].concat();
    assert_eq!(texts(&covered), ["S", "summary"]);
    // The next message may still be an instruction.
    let two = [system("s", None), system("S", Some(1)), system("t", None), said("a"), said("b")];
    let covered = [&two[..], &[compacted(4, 5, &[])]].concat();
    assert_eq!(texts(&covered), ["S", "t", "summary"]);
    let (state, _) = read(&events(&covered));
    assert_eq!(state.core.main.instructions, [Seq(1), Seq(2), Seq(3)]);

    let pin = other(Kind::CONTEXT_PINNED, json!({"message": 2, "pinned": true}));
    let mut steps = vec![said("a"), said("p"), pin, said("b"), again("P", 2)];
    steps.extend((0..6).map(|n| said(&n.to_string())));
    for _ in 0..2 {
        let (state, reading) = read(&events(&steps));
        let plan = CompactionPlan::of(&reading.build(), &state.core.main, 2).unwrap();
        assert_eq!(plan.keeps, [Seq(2), Seq(5)], "all versions of it");
        steps.push(compacted(
            plan.first.0,
            plan.last.0,
            &plan.keeps.iter().map(|seq| seq.0).collect::<Vec<_>>(),
        ));
        assert!(texts(&steps).contains(&"P".to_owned()), "{:?}", texts(&steps));
        steps.extend((0..6).map(|n| said(&n.to_string())));
    }
}

#[test]
fn all_versions_of_a_message_are_one() {
    let steps = [said("a"), again("A", 1), said("b"), again("AA", 2)];
    let (state, _) = read(&events(&steps));
    assert_eq!(state.core.messages.total, 2);
    assert_eq!(state.core.messages.by_role["user"], 2);
    assert_eq!(state.core.main.messages, 2);
    let all = events(&steps);
    assert_eq!(state.newest_version(&all[0]), Some(Seq(4)));
    assert_eq!(state.newest_version(&all[1]), Some(Seq(4)));
    assert_eq!(state.newest_version(&all[2]), None);
    let shown: Vec<bool> = all.iter().map(|event| state.shows(event)).collect();
    assert_eq!(shown, [false, false, true, true]);
}

/// A message of any kind, or what is recorded about a call.
fn any_step() -> impl Strategy<Value = Step> {
    let id = |call: u8| format!("c{call}");
    let message = prop_oneof![
        2 => (0u8..9).prop_map(|n| json!({"role": "user", "content": n.to_string()})),
        1 => (0u8..9).prop_map(|n| json!({"role": "system", "content": n.to_string()})),
        4 => (any::<bool>(), proptest::collection::btree_set(0u8..5, 0..3)).prop_map(
            move |(part, calls)| {
                let call = |call: u8| json!({"type": "tool_use", "id": id(call), "name": "t", "input": {}});
                let mut blocks = vec![json!({"type": "text", "text": "well"})];
                blocks.extend(calls.into_iter().map(call));
                let mut message = json!({"role": "assistant", "content": blocks});
                if part {
                    message["abide"] = json!({"answer": "a"});
                }
                message
            }
        ),
        4 => (0u8..5).prop_map(move |call| {
            let result = json!({"type": "tool_result", "tool_use_id": id(call), "content": "r"});
            json!({"role": "user", "content": [result]})
        }),
    ];
    let lane = prop_oneof![6 => Just(None), 1 => Just(Some("sub"))];
    prop_oneof![
        8 => (lane, message).prop_map(|(lane, data)| (lane, Kind::MESSAGE_ADDED, data, None)),
        2 => (0u8..5).prop_map(move |call| {
            other(Kind::TOOL_CALLED, json!({"call": id(call), "name": "t", "arguments": {}}))
        }),
        2 => (0u8..5).prop_map(move |call| {
            other(Kind::TOOL_FINISHED, json!({"call": id(call), "ok": true, "result": "out"}))
        }),
    ]
}

/// Steps of which some messages are revisions, and the same steps with each message written at once
/// as its newest version.
fn any_revised() -> impl Strategy<Value = (Vec<Step>, Vec<Step>)> {
    let step = (any_step(), proptest::option::weighted(0.4, any::<prop::sample::Index>()));
    proptest::collection::vec(step, 1..30).prop_map(|drawn| {
        // Of each step: the first version, if it is a later one.
        let (mut steps, mut firsts): (Vec<Step>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
        for (mut step, of) in drawn {
            let mut first = None;
            // A call of another lane is found wherever its message is read.
            let calls = step.0.is_some() && step.2["content"].is_array();
            if let Some(of) = of.filter(|_| step.1 == Kind::MESSAGE_ADDED && !calls) {
                // Instructions are revised by instructions.
                let instructs = |step: &Step| step.2["role"] == "system";
                let same = |at: &usize| {
                    let (one, kind) = (&steps[*at], &steps[*at].1);
                    *kind == Kind::MESSAGE_ADDED
                        && one.0 == step.0
                        && instructs(one) == instructs(&step)
                };
                let named: Vec<usize> = (0..steps.len()).filter(same).collect();
                if !named.is_empty() {
                    let old = named[of.index(named.len())];
                    first = firsts[old].or(Some(old));
                    step.3 = Some(old as u64 + 1);
                    // An answer's parts are consecutive: what is revised is none.
                    if let Some(data) = step.2.as_object_mut() {
                        data.remove("abide");
                    }
                }
            }
            steps.push(step);
            firsts.push(first);
        }
        let mut written = steps.clone();
        for (at, first) in firsts.iter().enumerate() {
            if let Some(first) = first {
                written[*first].2 = steps[at].2.clone();
                written[at] = other(Kind::new("x.none").unwrap(), json!({}));
            }
        }
        (steps, written)
    })
}

proptest! {
    /// The model sees what it would see if each message had been written once, and a summary of the
    /// one covers what a summary of the other does.
    #[test]
    fn a_context_is_as_if_each_message_was_written_once((steps, written) in any_revised()) {
        let (mut steps, mut written) = (events(&steps), events(&written));
        for _ in 0..2 {
            let (state, reading) = read_whole(&steps);
            let (plain_state, plain) = read_whole(&written);
            let pending: Vec<_> = reading.pending();
            let (context, plain_pending) = (reading.build(), plain.pending());
            let plain = plain.build();
            prop_assert_eq!(told(&context), told(&plain));
            let pending: Vec<_> = pending
                .into_iter()
                .map(|call| PendingCall { seq: context.place_of(call.seq), ..call })
                .collect();
            prop_assert_eq!(pending, plain_pending);
            let plan = CompactionPlan::of(&context, &state.core.main, 3);
            let plain_plan = CompactionPlan::of(&plain, &plain_state.core.main, 3);
            prop_assert_eq!(plan.is_ok(), plain_plan.is_ok());
            let (Ok(plan), Ok(plain_plan)) = (plan, plain_plan) else { break };
            prop_assert_eq!((plan.first, plan.last), (plain_plan.first, plain_plan.last));
            let keeps = |plan: &CompactionPlan| -> Vec<u64> {
                plan.keeps.iter().map(|seq| seq.0).collect()
            };
            let next = steps.len() as u64 + 1;
            let add = |plan: &CompactionPlan| {
                event(next, &compacted(plan.first.0, plan.last.0, &keeps(plan)))
            };
            steps.push(add(&plan));
            written.push(add(&plain_plan));
        }
    }

    /// Both ways to find out whether a message was replaced say the same.
    #[test]
    fn the_fold_and_a_pass_agree((steps, _) in any_revised()) {
        let steps = events(&steps);
        let (state, _) = read(&steps);
        let mut revisions = MessageRevisions::default();
        steps.iter().for_each(|event| revisions.note(event));
        let versions = revisions.settled(&state.core.lineage);
        for event in &steps {
            prop_assert_eq!(state.is_replaced(event), versions.is_replaced(event), "{}", event.seq);
        }
    }
}
