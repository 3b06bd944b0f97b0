//! Whatever is lost of a conversation, after a repair the APIs would take it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{EventLimits, NewEvent, Payload, Timestamp};

/// A step of a session, as it may or may not have been recorded.
#[derive(Debug, Clone)]
enum Step {
    /// The user speaks.
    User,
    /// The model speaks and calls these tools, in a form.
    Assistant(u8, Vec<u8>),
    /// A result of a call, in the form; perhaps of none that was made.
    Result(u8, u8),
    /// A tool is run, and perhaps ends.
    Run(u8, bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::User),
        4 => (0u8..5, proptest::collection::btree_set(0u8..8, 0..4))
            .prop_map(|(form, calls)| Step::Assistant(form, calls.into_iter().collect())),
        6 => (0u8..4, 0u8..8).prop_map(|(form, call)| Step::Result(form, call)),
        2 => (0u8..8, any::<bool>()).prop_map(|(call, ends)| Step::Run(call, ends)),
    ]
}

fn data(step: &Step) -> Vec<(&'static str, Value)> {
    let name = |call: &u8| format!("c{call}");
    match step {
        Step::User => vec![("message.added", json!({"role": "user", "content": "go on"}))],
        Step::Assistant(0, calls) => {
            let call =
                |id| json!({"type": "tool_call", "call": name(id), "name": "t", "arguments": {}});
            let mut blocks = vec![json!({"type": "text", "text": "well"})];
            blocks.extend(calls.iter().map(call));
            vec![("message.added", json!({"role": "assistant", "content": blocks}))]
        }
        Step::Assistant(1, calls) => {
            let call = |id| json!({"type": "tool_use", "id": name(id), "name": "t", "input": {}});
            let blocks: Vec<_> = calls.iter().map(call).collect();
            vec![("message.added", json!({"role": "assistant", "content": blocks}))]
        }
        Step::Assistant(4, calls) => {
            let message = |id| {
                let item = json!({"type": "function_call", "call_id": name(id), "name": "t", "arguments": "{}"});
                json!({"role": "assistant", "content": [item], "abide": {"form": "responses"}})
            };
            calls.iter().map(|id| ("message.added", message(id))).collect()
        }
        Step::Assistant(form, calls) => {
            let call = |id| json!({"id": name(id), "type": "function", "function": {"name": "t", "arguments": "{}"}});
            let calls: Vec<_> = calls.iter().map(call).collect();
            let mut message = json!({"role": "assistant", "tool_calls": calls});
            if *form == 2 {
                message["content"] = Value::Null;
            }
            vec![("message.added", message)]
        }
        Step::Result(0, call) => {
            let block = json!({"type": "tool_result", "call": name(call), "content": "x"});
            vec![("message.added", json!({"role": "tool", "content": [block]}))]
        }
        Step::Result(1, call) => {
            let block = json!({"type": "tool_result", "tool_use_id": name(call), "content": "x"});
            let text = json!({"type": "text", "text": "and"});
            vec![("message.added", json!({"role": "user", "content": [block, text]}))]
        }
        Step::Result(2, call) => {
            let item =
                json!({"type": "function_call_output", "call_id": name(call), "output": "x"});
            let marks = json!({"form": "responses"});
            vec![("message.added", json!({"role": "tool", "content": [item], "abide": marks}))]
        }
        Step::Result(_, call) => {
            let message = json!({"role": "tool", "tool_call_id": name(call), "content": "x"});
            vec![("message.added", message)]
        }
        Step::Run(call, ends) => {
            let called = ("tool.called", json!({"call": name(call), "name": "t"}));
            let finished = ("tool.finished", json!({"call": name(call), "result": 1}));
            if *ends { vec![called, finished] } else { vec![called] }
        }
    }
}

fn event(seq: u64, kind: &str, data: &Value) -> Event {
    let data = Payload::new(&data.to_string(), &EventLimits::default()).unwrap();
    NewEvent::new(Kind::new(kind).unwrap(), data).into_event(Seq(seq), Timestamp::from_millis(0))
}

fn read(events: &[Event]) -> Conversation {
    let mut conversation = Conversation::default();
    for event in events {
        conversation.event(event, &event.fact());
    }
    conversation
}

/// A message as an API sees it: its role, the ids of its calls, and of its results.
#[derive(Debug, PartialEq)]
struct Wire {
    role: String,
    calls: Vec<String>,
    results: Vec<String>,
}

/// What goes to an API, by its own reading of what was recorded: it shares no code with ours.
fn sent(events: &[Event], shown: &[ContextSource]) -> Vec<Wire> {
    let ids = |list: &Value, of: &[&str]| -> Vec<String> {
        let list = list.as_array().cloned().unwrap_or_default();
        let id = |one: &Value| of.iter().find_map(|name| one[*name].as_str().map(str::to_owned));
        list.iter().filter_map(id).collect()
    };
    shown
        .iter()
        .map(|one| {
            let event = &events[one.seq.0 as usize - 1];
            let data: Value = serde_json::from_str(event.data.as_ref().unwrap().as_str()).unwrap();
            if let Some(call) = &one.result {
                assert!(data.to_string().contains(&format!("\"{call}\"")), "{data} for {call}");
                let results = vec![call.to_string()];
                return Wire { role: "tool".into(), calls: vec![], results };
            }
            if event.kind == Kind::TOOL_CALLED {
                let calls = vec![data["call"].as_str().unwrap().to_owned()];
                return Wire { role: "assistant".into(), calls, results: vec![] };
            }
            let mut calls = ids(&data["tool_calls"], &["id"]);
            let blocks = data["content"].as_array().cloned().unwrap_or_default();
            let of_type = |kind: &str| {
                Value::Array(blocks.iter().filter(|one| one["type"] == kind).cloned().collect())
            };
            calls.extend(ids(&of_type("tool_call"), &["call"]));
            calls.extend(ids(&of_type("tool_use"), &["id"]));
            calls.extend(ids(&of_type("function_call"), &["call_id"]));
            Wire { role: data["role"].as_str().unwrap().into(), calls, results: vec![] }
        })
        .collect()
}

/// OpenAI: behind a message with calls stands at once one tool message for each; none elsewhere.
fn openai(messages: &[Wire]) -> Result<(), String> {
    let mut at = 0;
    while at < messages.len() {
        let message = &messages[at];
        if message.role == "tool" {
            return Err(format!("a result out of place: {message:?}"));
        }
        at += 1;
        let mut wanted = message.calls.clone();
        while !wanted.is_empty() {
            let next = messages.get(at).ok_or("the end, and results are missing")?;
            let [id] = next.results.as_slice() else { return Err(format!("no result: {next:?}")) };
            let place = wanted.iter().position(|one| one == id).ok_or("a result of another")?;
            wanted.remove(place);
            at += 1;
        }
    }
    Ok(())
}

/// Anthropic: results are the user's; messages of one role are one. The first is the user's, and
/// behind calls stands a message with the results of exactly these.
fn anthropic(messages: &[Wire]) -> Result<(), String> {
    let mut merged: Vec<Wire> = Vec::new();
    for message in messages {
        let role = if message.role == "tool" { "user" } else { message.role.as_str() };
        if merged.last().is_none_or(|last| last.role != role) {
            merged.push(Wire { role: role.into(), calls: vec![], results: vec![] });
        }
        let last = merged.last_mut().unwrap();
        last.calls.extend(message.calls.iter().cloned());
        last.results.extend(message.results.iter().cloned());
    }
    if merged.first().is_some_and(|first| first.role != "user") {
        return Err("it does not begin with the user".into());
    }
    let none = Vec::new();
    for (at, message) in merged.iter().enumerate() {
        let before = at.checked_sub(1).map_or(&none, |at| &merged[at].calls);
        let (mut wanted, mut got) = (before.clone(), message.results.clone());
        wanted.sort();
        got.sort();
        if wanted != got {
            return Err(format!("wanted {wanted:?}, got {got:?}"));
        }
    }
    match merged.last() {
        Some(last) if !last.calls.is_empty() => Err("calls at the end".into()),
        _ => Ok(()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_repaired_conversation_is_valid_for_both_apis(
        steps in proptest::collection::vec((any_step(), 0u8..10), 0..40),
    ) {
        let mut events = vec![event(1, "message.added", &json!({"role": "user", "content": "do"}))];
        for (step, fate) in &steps {
            for (kind, data) in data(step) {
                // One in five is lost.
                if *fate > 1 {
                    events.push(event(events.len() as u64 + 1, kind, &data));
                }
            }
        }
        let broken = read(&events);
        let (before, disorder) = (broken.valid_order(), broken.disorder());
        let repairs = broken.repairs();
        for repair in repairs {
            let seq = Seq(events.len() as u64 + 1);
            events.push(repair.into_event(seq, Timestamp::from_millis(0)));
        }
        let conversation = read(&events);
        prop_assert_eq!(conversation.open_calls(), vec![]);
        prop_assert_eq!(conversation.repairs(), vec![]);
        // What is wrong was wrong before, and no call is left that nothing came of.
        for one in conversation.disorder() {
            let sorts = match one.sort {
                OrderAnomalyKind::SameId => vec![OrderAnomalyKind::SameId, OrderAnomalyKind::SameIdOpen],
                sort => vec![sort],
            };
            let was = |sort| disorder.contains(&OrderAnomaly { sort, ..one.clone() });
            prop_assert!(sorts.into_iter().any(was), "{:?} is new, after {:?}", one, disorder);
            prop_assert!(!matches!(one.sort, OrderAnomalyKind::NoResult | OrderAnomalyKind::PassedOver));
        }
        let order = conversation.valid_order();
        // Nothing that could be shown before is lost, and nothing is shown twice.
        for one in &before {
            prop_assert_eq!(order.iter().filter(|other| *other == one).count(), 1);
        }
        let said = |event: &&Event| {
            event.kind == Kind::TOOL_CALLED
                || (event.kind == Kind::MESSAGE_ADDED
                    && !event.data.as_ref().unwrap().as_str().contains("tool_call_id"))
        };
        let messages = order.iter().filter(|one| one.result.is_none()).count();
        prop_assert!(messages <= events.iter().filter(said).count());
        let sent = sent(&events, &order);
        prop_assert_eq!(openai(&sent), Ok(()));
        prop_assert_eq!(anthropic(&sent), Ok(()));
    }
}

#[test]
fn the_little_checkers_refuse_what_the_apis_refuse() {
    let wire = |role: &str, calls: &[&str], results: &[&str]| Wire {
        role: role.into(),
        calls: calls.iter().map(|id| (*id).to_owned()).collect(),
        results: results.iter().map(|id| (*id).to_owned()).collect(),
    };
    let user = || wire("user", &[], &[]);
    let good = [user(), wire("assistant", &["a"], &[]), wire("tool", &[], &["a"]), user()];
    assert_eq!((openai(&good), anthropic(&good)), (Ok(()), Ok(())));
    for bad in [
        vec![user(), wire("assistant", &["a"], &[])],
        vec![user(), wire("assistant", &["a"], &[]), user()],
        vec![user(), wire("tool", &[], &["a"])],
        vec![user(), wire("assistant", &["a"], &[]), wire("tool", &[], &["b"])],
    ] {
        assert!(openai(&bad).is_err() && anthropic(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn open_calls_say_where_they_are_and_repairs_keep_their_form_and_lane() {
    let lines = [
        r#"{"kind":"message.added","lane":"sub","turn":3,"task":"T","data":{"role":"assistant","content":[{"type":"tool_call","call":"a","name":"bash","arguments":{}}]}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"tool_use","id":"b","name":"edit","input":{}}]}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"grep"}}]}}"#,
        r#"{"kind":"tool.called","data":{"call":"a","name":"bash"}}"#,
        r#"{"kind":"api.called","data":{"call":"r"}}"#,
    ];
    let events: Vec<Event> = lines
        .iter()
        .zip(1..)
        .map(|(line, seq)| {
            NewEvent::parse(line).unwrap().into_event(Seq(seq), Timestamp::from_millis(0))
        })
        .collect();
    let conversation = read(&events);
    let open: Vec<_> = conversation
        .open_calls()
        .into_iter()
        .map(|open| (open.seq.0, open.call.0, open.name, open.form))
        .collect();
    let named = |seq, id: &str, name: &str, form| (seq, id.to_owned(), name.to_owned(), form);
    let expected = [
        named(4, "a", "bash", CallForm::Tool),
        named(5, "r", "api", CallForm::Api),
        named(1, "a", "bash", CallForm::Message(MessageForm::Abide)),
        named(2, "b", "edit", CallForm::Message(MessageForm::Anthropic)),
        named(3, "c", "grep", CallForm::Message(MessageForm::OpenAi)),
    ];
    assert_eq!(open, expected);
    let repairs = conversation.repairs();
    let kinds: Vec<_> = repairs.iter().map(|event| event.kind.as_str()).collect();
    let message = "message.added";
    assert_eq!(kinds, ["tool.finished", "api.finished", message, message, message]);
    let data: Vec<Value> =
        repairs.iter().map(|event| serde_json::from_str(event.data.as_str()).unwrap()).collect();
    assert_eq!(data[0]["ok"], false);
    assert_eq!(data[0]["result"]["outcome"], "unknown");
    let place = (repairs[2].lane.as_ref().unwrap().as_str(), repairs[2].turn.unwrap().0);
    assert_eq!((place, repairs[2].task.as_ref().unwrap().as_str()), (("sub", 3), "T"));
    assert_eq!((&data[2]["role"], &data[2]["content"][0]["call"]), (&json!("tool"), &json!("a")));
    assert_eq!(data[2]["content"][0]["ok"], false);
    assert!(data[2]["content"][0]["content"].as_str().unwrap().contains("unknown"));
    assert_eq!(data[3]["role"], "user");
    assert_eq!(data[3]["content"][0]["tool_use_id"], "b");
    assert_eq!((&data[4]["role"], &data[4]["tool_call_id"]), (&json!("tool"), &json!("c")));
    for repair in repairs {
        let event = repair.into_event(Seq(9), Timestamp::from_millis(0));
        assert!(event.fact().is_ok());
    }
}

/// OpenAI's own form leaves `content` out where a message is all calls: that is not the form of the
/// kind, and a call all the same.
#[test]
fn a_call_in_a_message_without_content_is_repaired() {
    let calls = json!([{"id": "c", "type": "function", "function": {"name": "t"}}]);
    let message = json!({"role": "assistant", "tool_calls": calls});
    let events = [event(1, "message.added", &message)];
    assert!(events[0].fact().is_err());
    let repairs = read(&events).repairs();
    assert_eq!(repairs.len(), 1);
    assert!(repairs[0].data.as_str().contains(r#""tool_call_id":"c""#));
}

/// A call of a message that is run is ended twice by a repair; that is no second result. Tools may
/// be run beside the lane of the message.
#[test]
fn what_a_repair_says_of_a_call_that_was_run_is_no_second_result() {
    let call = json!({"type": "tool_call", "call": "c", "name": "t", "arguments": {}});
    let theirs = json!({"type": "tool_use", "id": "c", "name": "t", "input": {}});
    for (lane, block) in [(None, &call), (Some("sub"), &call), (None, &theirs)] {
        let lane = lane.map(|lane| LaneId(lane.to_owned()));
        let in_lane =
            |seq, data: &Value| Event { lane: lane.clone(), ..event(seq, "message.added", data) };
        let mut events = vec![
            in_lane(1, &json!({"role": "user", "content": "do"})),
            in_lane(2, &json!({"role": "assistant", "content": [block]})),
            event(3, "tool.called", &json!({"call": "c", "name": "t"})),
        ];
        for repair in read(&events).repairs() {
            let seq = Seq(events.len() as u64 + 1);
            events.push(repair.into_event(seq, Timestamp::from_millis(0)));
        }
        let kinds: Vec<_> = events[3..].iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["tool.finished", "message.added"]);
        let repaired = read(&events);
        assert_eq!((repaired.disorder(), repaired.repairs()), (vec![], vec![]));
        // A true result that is found later is shown in its place.
        let content = json!([{"type": "tool_result", "call": "c", "content": "x"}]);
        events.push(in_lane(6, &json!({"role": "tool", "content": content})));
        let found = read(&events);
        assert_eq!(found.disorder(), vec![]);
        assert_eq!(found.valid_order().last().map(|shown| shown.seq), Some(Seq(6)));
    }
}

/// Messages in a lane, and the tools run without one.
#[test]
fn the_end_of_a_tool_finds_its_call_in_another_lane() {
    let block = json!({"type": "tool_call", "call": "c", "name": "t", "arguments": {}});
    let call = |seq| Event {
        lane: Some(LaneId("sub".to_owned())),
        ..event(seq, "message.added", &json!({"role": "assistant", "content": [block]}))
    };
    let called = |seq| event(seq, "tool.called", &json!({"call": "c", "name": "t"}));
    let finished = |seq| event(seq, "tool.finished", &json!({"call": "c"}));
    assert_eq!(read(&[call(1), called(2), finished(3)]).open_calls(), vec![]);
    assert_eq!(read(&[call(1), finished(2)]).open_calls(), vec![]);
    assert_eq!(read(&[called(1), finished(2), call(3)]).open_calls(), vec![]);
    // It has ended one call, and is no outcome of the next.
    let open = read(&[call(1), finished(2), call(3)]).open_calls();
    assert_eq!(open.iter().map(|open| open.seq).collect::<Vec<_>>(), [Seq(3)]);
}

#[test]
fn results_stand_behind_their_calls_wherever_they_were_recorded() {
    let call = |id: &str| json!({"type": "tool_call", "call": id, "name": "t", "arguments": {}});
    let result = |id: &str| {
        let block = json!({"type": "tool_result", "call": id, "content": "x"});
        json!({"role": "tool", "content": [block]})
    };
    let user = json!({"role": "user", "content": "x"});
    let said = [
        user.clone(),
        result("early"),
        json!({"role": "assistant", "content": [call("a"), call("early"), call("run")]}),
        user,
        result("a"),
        result("a"),
        result("nobody"),
    ];
    let mut events: Vec<Event> =
        said.iter().zip(1..).map(|(data, seq)| event(seq, "message.added", data)).collect();
    events.push(event(8, "tool.finished", &json!({"call": "run"})));
    let order: Vec<_> = read(&events)
        .valid_order()
        .into_iter()
        .map(|shown| (shown.seq.0, shown.result.map_or(String::new(), |call| call.0)))
        .collect();
    let shown = |seq, result: &str| (seq, result.to_owned());
    let expected = [
        shown(1, ""),
        shown(3, ""),
        shown(5, "a"),
        shown(2, "early"),
        shown(8, "run"),
        shown(4, ""),
    ];
    assert_eq!(order, expected);
    // A compaction that covers the result alone does not take it from its call.
    events.push(event(9, "context.compacted", &json!({"first": 4, "last": 7, "summary": "s"})));
    assert_eq!(read(&events).valid_order().len(), 5);
    events.push(event(10, "context.compacted", &json!({"first": 1, "last": 8, "summary": "s"})));
    assert_eq!(read(&events).valid_order(), []);
}

fn shown(events: &[Event]) -> Vec<(u64, Option<String>)> {
    let order = read(events).valid_order().into_iter();
    order.map(|shown| (shown.seq.0, shown.result.map(|call| call.0))).collect()
}

fn outcome(seq: u64, call: &str) -> (u64, Option<String>) {
    (seq, Some(call.to_owned()))
}

#[test]
fn a_call_that_no_message_holds_is_shown_with_its_result_wherever_that_is() {
    let called = |seq| event(seq, "tool.called", &json!({"call": "c", "name": "t"}));
    let finished = |seq| event(seq, "tool.finished", &json!({"call": "c", "result": 1}));
    let block = json!({"type": "tool_result", "call": "c", "content": "x"});
    let said =
        |seq| event(seq, "message.added", &json!({"role": "tool", "content": [block.clone()]}));
    assert_eq!(shown(&[called(1)]), [(1, None)]);
    assert_eq!(shown(&[called(1), finished(2)]), [(1, None), outcome(2, "c")]);
    assert_eq!(shown(&[called(1), said(2)]), [(1, None), outcome(2, "c")]);
    assert_eq!(shown(&[said(1), called(2)]), [(2, None), outcome(1, "c")]);
    // What the model was told counts.
    let all = [called(1), finished(2), said(3)];
    assert_eq!(shown(&all), [(1, None), outcome(3, "c")]);
    assert!(read(&all).repairs().is_empty());
    assert!(read(&all).disorder().iter().all(|one| one.sort == OrderAnomalyKind::Beginning));
    // Without a call a result is nobody's.
    assert_eq!(shown(&[finished(1), said(2)]), []);
}

/// Whichever of the two comes first, and in whichever form the message is.
#[test]
fn a_call_that_a_message_holds_too_is_that_of_the_message() {
    let called = |seq| event(seq, "tool.called", &json!({"call": "c1", "name": "t"}));
    let finished = |seq| event(seq, "tool.finished", &json!({"call": "c1", "result": 1}));
    for form in 0..5 {
        let (kind, data) = data(&Step::Assistant(form, vec![1])).remove(0);
        let message = |seq| event(seq, kind, &data);
        let [one, two, three] = [1, 2, 3];
        for events in [
            [message(one), called(two), finished(three)],
            [called(one), message(two), finished(three)],
        ] {
            let at = events.iter().find(|event| event.kind == Kind::MESSAGE_ADDED).unwrap().seq.0;
            assert_eq!(shown(&events), [(at, None), outcome(3, "c1")]);
        }
        let before = [called(one), finished(two), message(three)];
        assert_eq!(shown(&before), [(3, None), outcome(2, "c1")]);
        assert_eq!(
            read(&before).disorder(),
            vec![OrderAnomaly {
                sort: OrderAnomalyKind::Beginning,
                lane: None,
                seq: Seq(3),
                call: None,
                name: String::new(),
            }]
        );
    }
}

#[test]
fn what_an_api_has_run_by_itself_is_no_call_of_ours() {
    let called = |seq| event(seq, "tool.called", &json!({"call": "s", "name": "web_search"}));
    for block in [
        json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        json!({"type": "web_search_call", "id": "s", "status": "completed"}),
    ] {
        let data = json!({"role": "assistant", "content": [block]});
        let said = |seq| event(seq, "message.added", &data);
        assert_eq!(shown(&[said(1), called(2)]), [(1, None)]);
        assert_eq!(shown(&[called(1), said(2)]), [(2, None)]);
        // One that was cut off was not run.
        let mut cut = data.clone();
        cut["abide"] = json!({"partial": true});
        assert_eq!(shown(&[event(1, "message.added", &cut), called(2)]), [(1, None), (2, None)]);
    }
}

#[test]
fn an_id_that_is_used_again_is_another_call() {
    let called =
        |seq, n: u64| event(seq, "tool.called", &json!({"call": "c", "name": "t", "arguments": n}));
    let finished = |seq| event(seq, "tool.finished", &json!({"call": "c"}));
    let block = json!({"type": "tool_call", "call": "c", "name": "t", "arguments": {}});
    let said = |seq| {
        event(seq, "message.added", &json!({"role": "assistant", "content": [block.clone()]}))
    };
    // After it has ended; and before, where it says something else. Told twice it is one.
    let again = [called(1, 1), finished(2), called(3, 1), finished(4)];
    assert_eq!(shown(&again), [(1, None), outcome(2, "c"), (3, None), outcome(4, "c")]);
    let other = [called(1, 1), called(2, 2), finished(3)];
    assert_eq!(shown(&other), [(1, None), (2, None), outcome(3, "c")]);
    let twice = [called(1, 1), called(2, 1), finished(3), finished(4)];
    assert_eq!(shown(&twice), [(1, None), outcome(3, "c")]);
    // What ran before the message is another call, once one runs behind it.
    let mut events = vec![called(1, 1), finished(2), said(3)];
    assert_eq!(shown(&events), [(3, None), outcome(2, "c")]);
    events.push(called(4, 1));
    assert_eq!(shown(&events), [(1, None), outcome(2, "c"), (3, None)]);
    events.push(finished(5));
    let both = [(1, None), outcome(2, "c"), (3, None), outcome(5, "c")];
    assert_eq!(shown(&events), both);
    // A call of a message is run again, and is one; something else with its id is not.
    events.extend([called(6, 1), finished(7)]);
    assert_eq!(shown(&events), both);
    events.extend([called(8, 2), finished(9)]);
    assert_eq!(shown(&events)[4..], [(8, None), outcome(9, "c")]);
    assert!(read(&events).repairs().is_empty());
}

#[test]
fn a_call_of_another_lane_is_not_taken_for_one_here() {
    let lane = |name: &str| Some(LaneId(name.to_owned()));
    let called = |seq, name: &str| Event {
        lane: lane(name).filter(|lane| !lane.as_str().is_empty()),
        ..event(seq, "tool.called", &json!({"call": "c", "name": "t"}))
    };
    let block = json!({"type": "tool_call", "call": "c", "name": "t", "arguments": {}});
    let said = |seq, name: &str| Event {
        lane: lane(name),
        ..event(seq, "message.added", &json!({"role": "assistant", "content": [block.clone()]}))
    };
    // Run beside the lanes it is that of the lane with its message.
    assert_eq!(shown(&[said(1, "a"), called(2, "")]), [(1, None)]);
    assert_eq!(shown(&[called(1, ""), said(2, "a")]), [(2, None)]);
    // Run in a lane it is that lane's.
    assert_eq!(shown(&[called(1, "b"), said(2, "a")]), [(2, None), (1, None)]);
    let finished = event(2, "tool.finished", &json!({"call": "c"}));
    let theirs = [said(1, "a"), finished, called(3, "b")];
    assert_eq!(shown(&theirs), [(1, None), outcome(2, "c"), (3, None)]);
}
