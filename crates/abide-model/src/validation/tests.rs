//! For each rule a session that breaks it, and sessions that do not.

use super::*;
use crate::{
    EventLimits, FOLD_VERSION, FindingType, Lineage, NewEvent, PageRef, Payload, Seq, Severity,
    StatePageSink, Timestamp, rewind_of,
};

/// Events from lines; an empty line is one that was erased.
fn events(lines: &[&str]) -> Vec<Event> {
    let event = |(line, seq): (&&str, u64)| {
        let at = Timestamp::from_millis(i64::try_from(seq).unwrap());
        NewEvent::parse(line).unwrap().into_event(Seq(seq), at)
    };
    lines.iter().zip(1..).map(event).collect()
}

fn validate(events: &[Event]) -> (SessionState, Vec<Finding>) {
    let rewinds: Vec<_> = events.iter().filter_map(rewind_of).collect();
    let end = events.last().map_or(Seq::ZERO, |event| event.seq);
    let lineage = Lineage::at(end, &rewinds);
    let mut state = SessionState::default();
    let mut validation = Validation::new(standard_rules());
    for event in events {
        if lineage.contains(event.seq) {
            validation.apply(&mut state, event);
        } else {
            state.apply_dead(event);
        }
    }
    let findings = validation.finish(&state);
    (state, findings)
}

fn check(lines: &[&str]) -> Vec<Finding> {
    validate(&events(lines)).1
}

/// Rule, severity and event of each finding.
fn told(findings: &[Finding]) -> Vec<(&str, Severity, u64)> {
    let seq = |finding: &Finding| finding.place.seq.map_or(0, |seq| seq.0);
    findings.iter().map(|one| (one.rule.as_ref(), one.severity, seq(one))).collect()
}

const ERROR: Severity = Severity::Error;
const WARNING: Severity = Severity::Warning;

fn task(id: &str, rest: &str) -> String {
    format!(r#"{{"kind":"task.created","data":{{"task":"{id}"{rest}}}}}"#)
}

fn status(id: &str, status: &str) -> String {
    format!(r#"{{"kind":"task.status","data":{{"task":"{id}","status":"{status}"}}}}"#)
}

fn of(lines: &[String]) -> Vec<Finding> {
    check(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_healthy_session_has_no_findings() {
    let lines = [
        r#"{"kind":"writer.opened","data":{"epoch":1}}"#,
        r#"{"kind":"turn.started","data":{"agent":"a"}}"#,
        r#"{"kind":"message.added","data":{"role":"system","content":"be good"}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":"do it"}}"#,
        r#"{"kind":"task.created","data":{"task":"P1"}}"#,
        r#"{"kind":"task.created","data":{"task":"P1.a","parent":"P1"}}"#,
        r#"{"kind":"task.created","data":{"task":"P1.b","parent":"P1","depends":["P1.a"]}}"#,
        r#"{"kind":"task.status","data":{"task":"P1.a","status":"implementing"}}"#,
        r#"{"kind":"api.called","data":{"call":"r1"}}"#,
        r#"{"kind":"api.finished","data":{"call":"r1"}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"bash","arguments":{}},{"type":"tool_call","call":"c2","name":"edit","arguments":{}}]}}"#,
        r#"{"kind":"tool.called","data":{"call":"c1","name":"bash"}}"#,
        r#"{"kind":"message.added","lane":"sub","data":{"role":"user","content":"part"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c1"}}"#,
        r#"{"kind":"message.added","lane":"sub","data":{"role":"assistant","content":"done"}}"#,
        r#"{"kind":"message.added","data":{"role":"tool","content":[{"type":"tool_result","call":"c2","content":""}]}}"#,
        r#"{"kind":"message.added","data":{"role":"tool","content":[{"type":"tool_result","call":"c1","content":""}]}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":"done"}}"#,
        r#"{"kind":"task.status","data":{"task":"P1.a","status":"complete"}}"#,
        r#"{"kind":"checkpoint.created","data":{"number":1}}"#,
        r#"{"kind":"context.compacted","data":{"first":3,"last":17,"summary":"s"}}"#,
        r#"{"kind":"context.restored","data":{"compaction":21}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":"no"}}"#,
        r#"{"kind":"session.rewound","data":{"to":20,"files":true}}"#,
        r#"{"kind":"files.restored","data":{"rewind":24}}"#,
        r#"{"kind":"checkpoint.thinned","data":{"checkpoints":[1]}}"#,
        r#"{"kind":"session.rewound","data":{"to":23,"undoes":24}}"#,
        r#"{"kind":"turn.finished","data":{"turn":1}}"#,
        r#"{"kind":"writer.closed","data":{}}"#,
    ];
    for end in 0..=lines.len() {
        let findings = check(&lines[..end]);
        let bad: Vec<_> = findings.iter().filter(|one| one.severity > WARNING).collect();
        assert!(bad.is_empty(), "after {end}: {bad:?}");
    }
    assert_eq!(told(&check(&lines)), []);
}

#[test]
fn a_task_without_its_parent_is_orphaned() {
    let lines = [task("a", r#","parent":"gone""#), task("b", r#","parent":"a""#)];
    let findings = of(&lines);
    assert_eq!(told(&findings), [("orphaned-task", ERROR, 1)]);
    assert_eq!(findings[0].r#type, FindingType::Referential);
    assert!(findings[0].message.contains("gone"));
    // A parent that was erased may be the one.
    let mut events = events(&["{\"kind\":\"task.created\",\"data\":{}}", &lines[0]]);
    events[0].data = None;
    assert_eq!(told(&validate(&events).1), [("orphaned-task", WARNING, 2)]);
    assert_eq!(told(&of(&[lines[0].clone(), task("gone", "")])), []);
}

#[test]
fn a_dependency_that_was_never_created_is_missing() {
    let lines = [task("a", r#","depends":["gone"]"#), task("b", r#","depends":["a"]"#)];
    assert_eq!(told(&of(&lines)), [("missing-dependency", ERROR, 1)]);
    assert_eq!(told(&of(&[lines[0].clone(), task("gone", "")])), []);
}

#[test]
fn a_task_is_not_its_own_ancestor() {
    let findings = of(&[
        task("a", r#","parent":"c""#),
        task("b", r#","parent":"a""#),
        task("c", r#","parent":"b""#),
        task("leaf", r#","parent":"c""#),
        task("self", r#","parent":"self""#),
    ]);
    assert_eq!(told(&findings), [("parent-mismatch", ERROR, 5), ("parent-mismatch", ERROR, 1)]);
    assert!(findings[1].message.contains("a, c, b"), "{}", findings[1].message);
    let chain: Vec<String> =
        (0..30_000).map(|n| task(&n.to_string(), &format!(r#","parent":"{}""#, n + 1))).collect();
    assert_eq!(told(&of(&chain)), [("orphaned-task", ERROR, 30_000)]);
}

#[test]
fn an_id_tells_its_parent() {
    let lines = [
        task("P1", ""),
        task("P2", ""),
        task("P1.M1", r#","parent":"P1""#),
        task("P1.M1.T1", r#","parent":"P1""#),
        task("P1.M2", r#","parent":"P2""#),
        task("P3.M1", r#","parent":"P2""#),
        task("P1.loose", ""),
    ];
    let told_of = of(&lines);
    assert_eq!(told(&told_of), [("parent-mismatch", WARNING, 4), ("parent-mismatch", WARNING, 5)]);
}

struct Pages(Vec<Vec<u8>>);

impl StatePageSink for Pages {
    type Error = ();
    fn put(&mut self, page: Vec<u8>) -> Result<PageRef, ()> {
        self.0.push(page);
        Ok(PageRef(self.0.len() as u64 - 1, 0))
    }
}

#[test]
fn counters_that_do_not_agree_with_the_tasks_are_told() {
    let lines = [task("a", ""), task("b", r#","parent":"a""#)];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (mut state, findings) = validate(&events(&lines));
    assert_eq!(told(&findings), []);
    let mut pages = Pages(Vec::new());
    let root = state.save(&mut pages).unwrap();
    let mut altered = SessionState::restore(&root).unwrap();
    for page in altered.away() {
        let at = altered.page_ref(page).unwrap();
        let text = String::from_utf8(pages.0[at.0 as usize].clone()).unwrap();
        let text = text.replace(r#""children":[1,0]"#, r#""children":[3,1]"#);
        altered.install(page, text.as_bytes()).unwrap();
    }
    let findings = Validation::new(standard_rules()).finish(&altered);
    assert_eq!(told(&findings), [("parent-mismatch", ERROR, 0)]);
    assert!(findings[0].message.contains("counts 3 parts"));
}

#[test]
fn cycles_of_dependencies_are_told_once_each() {
    let lines = [
        task("a", r#","depends":["b"]"#),
        task("b", r#","depends":["c","x"]"#),
        task("c", r#","depends":["a"]"#),
        task("x", ""),
        task("d", r#","depends":["a","e"]"#),
        task("e", r#","depends":["d"]"#),
        task("self", r#","depends":["self","x"]"#),
    ];
    let findings = of(&lines);
    let cycle = |seq| ("dependency-cycle", ERROR, seq);
    assert_eq!(told(&findings), [cycle(7), cycle(1), cycle(5)]);
    assert!(findings[1].message.contains("a → b → c → a"), "{}", findings[1].message);
    assert!(findings[2].message.contains("d → e → d"), "{}", findings[2].message);
    let mended = [
        r#"{"kind":"task.changed","data":{"task":"c","depends":[]}}"#.to_owned(),
        r#"{"kind":"task.changed","data":{"task":"self","depends":["x"]}}"#.to_owned(),
        status("e", "obsolete"),
    ];
    assert_eq!(told(&of(&[&lines[..], &mended].concat())), []);
}

#[test]
fn long_chains_and_long_cycles_cost_no_stack() {
    let depends = |n: usize, on: usize| task(&n.to_string(), &format!(r#","depends":["{on}"]"#));
    let mut lines: Vec<String> = (0..30_000).map(|n| depends(n, n + 1)).collect();
    lines.push(task("30000", ""));
    assert_eq!(told(&of(&lines)), []);
    lines[29_999] = depends(29_999, 0);
    let findings = of(&lines);
    assert_eq!(told(&findings), [("dependency-cycle", ERROR, 1)]);
    assert!(findings[0].message.contains("29980 more") && findings[0].message.len() < 500);
}

#[test]
fn a_status_that_is_further_than_it_can_be_is_told() {
    let lines = [
        task("p", ""),
        task("p.a", r#","parent":"p""#),
        task("p.b", r#","parent":"p","depends":["p.a"]"#),
    ];
    let with = |more: &[String]| told(&of(&[&lines[..], more].concat())).len();
    assert_eq!(with(&[status("p", "implementing")]), 0);
    assert_eq!(with(&[status("p.b", "researching")]), 0);
    let early = of(&[&lines[..], &[status("p.b", "implementing")]].concat());
    assert_eq!(told(&early), [("task-status", WARNING, 4)]);
    let early = of(&[&lines[..], &[status("p", "complete")]].concat());
    assert_eq!(told(&early), [("task-status", WARNING, 4)]);
    assert!(early[0].message.contains("p.a, p.b"));
    let done = [status("p.a", "complete"), status("p.b", "complete"), status("p", "complete")];
    assert_eq!(with(&done), 0);
    let done = [status("p.a", "obsolete"), status("p.b", "obsolete"), status("p", "complete")];
    assert_eq!(with(&done), 0);
}

#[test]
fn calls_and_results_belong_together() {
    let findings = check(&[
        r#"{"kind":"tool.called","data":{"call":"a","name":"bash"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"zzz"}}"#,
        r#"{"kind":"api.finished","data":{"call":"yyy"}}"#,
        r#"{"kind":"api.called","data":{"call":"r"}}"#,
        r#"{"kind":"api.finished","data":{}}"#,
    ]);
    let expected = [
        ("unknown-call", WARNING, 2),
        ("unknown-call", WARNING, 3),
        ("open-call", WARNING, 1),
        ("open-call", WARNING, 4),
    ];
    assert_eq!(told(&findings), expected);
    assert!(findings[2].message.contains("call a of bash") && findings[2].repair.automatic);
    let mut erased = events(&[
        r#"{"kind":"tool.called","data":{"call":"a","name":"bash"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"a"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"a"}}"#,
    ]);
    erased[0].data = None;
    assert_eq!(told(&validate(&erased).1), [("unknown-call", WARNING, 3)]);
}

#[test]
fn malformed_events_and_anomalies_are_counted_by_sort() {
    let mut lines = vec![r#"{"kind":"tool.called","data":{}}"#; 7];
    lines.extend([
        r#"{"kind":"x.mine","data":{}}"#,
        r#"{"kind":"turn.finished","data":{}}"#,
        r#"{"kind":"turn.finished","data":{}}"#,
        r#"{"kind":"writer.opened","data":{"epoch":0}}"#,
        r#"{"kind":"checkpoint.created","data":{"number":3}}"#,
        r#"{"kind":"checkpoint.created","data":{"number":2}}"#,
        r#"{"kind":"payload.erased","data":{"seq":99}}"#,
    ]);
    let findings = check(&lines);
    let odd = |seq| ("anomaly", WARNING, seq);
    let expected = [("malformed-event", WARNING, 1), odd(9), odd(13), odd(14), odd(11)];
    assert_eq!(told(&findings), expected);
    assert!(findings[0].message.starts_with("7 events"), "{}", findings[0].message);
    assert!(findings[0].message.ends_with("@5 (tool.called), …"));
    assert!(findings[1].message.contains(": 2 (unknown_turn)"));
}

fn said(role: &str, blocks: &str) -> String {
    format!(r#"{{"kind":"message.added","data":{{"role":"{role}","content":[{blocks}]}}}}"#)
}

fn call(id: &str) -> String {
    format!(r#"{{"type":"tool_call","call":"{id}","name":"bash","arguments":{{}}}}"#)
}

fn result(id: &str) -> String {
    format!(r#"{{"type":"tool_result","call":"{id}","content":"x"}}"#)
}

fn user() -> String {
    said("user", r#"{"type":"text","text":"hello"}"#)
}

fn order(lines: &[String]) -> Vec<(Severity, u64)> {
    let findings = of(lines);
    assert!(findings.iter().all(|one| one.rule == "message-order"), "{findings:?}");
    told(&findings).into_iter().map(|(_, severity, seq)| (severity, seq)).collect()
}

#[test]
fn a_call_without_a_result_is_worse_when_the_model_went_on() {
    let called = || [user(), said("assistant", &call("c"))];
    assert_eq!(order(&called()), [(WARNING, 2)]);
    // A user may speak while a tool runs, or beside the result of another call.
    let spoken = [&called()[..], &[user()]].concat();
    assert_eq!(order(&spoken), [(WARNING, 2)]);
    let went_on = [&spoken[..], &[said("assistant", "")]].concat();
    assert_eq!(order(&went_on), [(ERROR, 2)]);
    // A second call that still runs, and another lane, are no reason to worry.
    let parallel = said("assistant", &format!("{},{}", call("c"), call("d")));
    let lines = [user(), parallel, said("tool", &result("d"))];
    assert_eq!(order(&lines), [(WARNING, 2)]);
    let text = r#"{"type":"text","text":"and"}"#;
    let mixed = said("user", &format!("{},{text}", result("d")));
    assert_eq!(order(&[&lines[..2], &[mixed]].concat()), [(WARNING, 2)]);
    let elsewhere = user().replace(r#""data""#, r#""lane":"sub","data""#);
    assert_eq!(order(&[&called()[..], &[elsewhere]].concat()), [(WARNING, 2)]);
    let running = r#"{"kind":"tool.called","data":{"call":"c","name":"bash"}}"#.to_owned();
    let spoken = of(&[&called()[..], &[running.clone(), user()]].concat());
    assert_eq!(told(&spoken), [("open-call", WARNING, 3), ("message-order", WARNING, 2)]);
    // What a tool gave may be recorded as it was executed alone.
    let finished = r#"{"kind":"tool.finished","data":{"call":"c"}}"#.to_owned();
    let executed = [running, finished];
    assert_eq!(order(&[&called()[..], &executed[..], &[user()]].concat()), []);
    assert_eq!(order(&[&[user()][..], &executed[..], &called()[1..], &[user()]].concat()), []);
}

#[test]
fn foreign_forms_are_judged_like_our_own() {
    let anthropic = said("assistant", r#"{"type":"tool_use","id":"c","name":"bash","input":{}}"#);
    let answer = said("user", r#"{"type":"tool_result","tool_use_id":"c","content":"x"}"#);
    assert_eq!(order(&[user(), anthropic.clone(), answer.clone(), user()]), []);
    let went_on = || [user(), said("assistant", "")];
    assert_eq!(order(&[&[user(), anthropic][..], &went_on()].concat()), [(ERROR, 2)]);
    assert_eq!(order(&[user(), answer]), [(WARNING, 2)]);
    let openai = r#"{"kind":"message.added","data":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{}"}}]}}"#;
    let answer =
        r#"{"kind":"message.added","data":{"role":"tool","tool_call_id":"c","content":"x"}}"#;
    let lines = [user(), openai.to_owned(), answer.to_owned(), user()];
    assert_eq!(order(&lines), []);
    let lines = [user(), openai.to_owned()];
    assert_eq!(order(&[&lines[..], &went_on()].concat()), [(ERROR, 2)]);
}

#[test]
fn results_without_calls_and_calls_with_one_id_are_told() {
    let exchange = || [said("assistant", &call("c")), said("tool", &result("c"))];
    let start = [user()];
    assert_eq!(order(&[user(), said("tool", &result("c"))]), [(WARNING, 2)]);
    let twice = [&start[..], &exchange(), &[said("tool", &result("c"))]].concat();
    assert_eq!(order(&twice), [(WARNING, 4)]);
    let again = [&start[..], &exchange(), &exchange()].concat();
    assert_eq!(order(&again), [(WARNING, 4)]);
    let both = said("assistant", &format!("{},{}", call("c"), call("c")));
    let both = [user(), both, said("tool", &result("c")), said("tool", &result("c"))];
    assert_eq!(order(&both), [(ERROR, 2)]);
    // One that had no result is an error until it has one, or may have one.
    let reused = [user(), exchange()[0].clone(), user(), exchange()[0].clone()];
    let answered = [&reused[..], &[exchange()[1].clone()]].concat();
    assert_eq!(order(&answered), [(ERROR, 2), (ERROR, 4)]);
    let both = [&answered[..], &[exchange()[1].clone()]].concat();
    assert_eq!(order(&both), [(WARNING, 2), (WARNING, 4)]);
    let lines: Vec<&str> = answered.iter().map(String::as_str).collect();
    let mut erased = events(&lines);
    erased[2].data = None;
    let expected = [("message-order", WARNING, 2), ("message-order", WARNING, 4)];
    assert_eq!(told(&validate(&erased).1), expected);
    let between = [user(), exchange()[0].clone(), user(), exchange()[1].clone()];
    assert_eq!(order(&between), [(WARNING, 2)]);
    let early = [user(), exchange()[1].clone(), exchange()[0].clone()];
    assert_eq!(order(&early), [(WARNING, 2)]);
    assert_eq!(order(&[said("assistant", "")]), [(WARNING, 1)]);
    let apart = [user(), said("assistant", &call("a")), said("assistant", &call("b"))];
    let results = [said("tool", &result("a")), said("tool", &result("b"))];
    assert_eq!(order(&[&apart[..], &results].concat()), []);
}

#[test]
fn what_is_not_known_of_a_message_is_held_against_nobody() {
    let lines = [user(), said("assistant", &call("c")), said("tool", &result("c")), user()];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for gone in 0..lines.len() {
        let mut events = events(&lines);
        events[gone].data = None;
        let findings = validate(&events).1;
        let expected: &[_] = if gone == 2 { &[("message-order", WARNING, 2)] } else { &[] };
        assert_eq!(told(&findings), expected, "without {gone}");
        events[gone].data =
            Some(Payload::new(r#"{"nothing":1}"#, &EventLimits::default()).unwrap());
        let findings = validate(&events).1;
        assert_eq!(told(&findings)[0], ("malformed-event", WARNING, gone as u64 + 1));
        assert_eq!(&told(&findings)[1..], expected);
    }
}

fn compacted(first: u64, last: u64) -> String {
    format!(
        r#"{{"kind":"context.compacted","data":{{"first":{first},"last":{last},"summary":"s"}}}}"#
    )
}

#[test]
fn what_a_compaction_covers_is_not_judged() {
    let lines = [user(), said("assistant", &call("c")), user(), said("assistant", "")];
    assert_eq!(order(&lines), [(ERROR, 2)]);
    let covered = [&lines[..], &[compacted(1, 3)]].concat();
    assert_eq!(order(&covered), []);
    let restored = r#"{"kind":"context.restored","data":{"compaction":5}}"#.to_owned();
    assert_eq!(order(&[&covered[..], &[restored]].concat()), [(ERROR, 2)]);
}

#[test]
fn a_compaction_covers_what_was_and_keeps_calls_with_their_results() {
    let lines = [user(), said("assistant", &call("c")), said("tool", &result("c")), user()];
    let with = |more: String| {
        let findings = of(&[&lines[..], &[more]].concat());
        let told: Vec<_> = told(&findings);
        told.into_iter().map(|(rule, severity, _)| (rule.to_owned(), severity)).collect::<Vec<_>>()
    };
    let bad = [("compaction-range".to_owned(), ERROR)];
    for (first, last) in [(3, 2), (0, 2), (1, 5), (1, 9), (7, 9), (1, 2), (3, 4)] {
        assert_eq!(with(compacted(first, last)), bad, "{first} to {last}");
    }
    for (first, last) in [(1, 4), (1, 1), (1, 3), (2, 3), (4, 4)] {
        assert_eq!(with(compacted(first, last)), [], "{first} to {last}");
    }
    // A second one that covers the rest makes the first one good.
    let both = [&lines[..], &[compacted(1, 2), compacted(3, 4)]].concat();
    assert_eq!(told(&of(&both)), []);
    // A result that comes after the compaction of its call was not split by it.
    let late = [user(), lines[1].clone(), compacted(1, 2), lines[2].clone(), user()];
    assert_eq!(told(&of(&late)), []);
    assert_eq!(with(r#"{"kind":"context.restored","data":{"compaction":2}}"#.into()), bad);
}

/// Each is held against the cover of all, which is made once.
#[test]
fn many_compactions_are_judged_each_by_its_own_range() {
    let mut lines = Vec::new();
    for n in 0..5_000 {
        let (first, id) = (lines.len() as u64 + 1, format!("c{n}"));
        lines.extend([user(), said("assistant", &call(&id)), said("tool", &result(&id)), user()]);
        // Every thousandth takes the call and leaves its result.
        let last = if n % 1_000 == 999 { first + 1 } else { first + 3 };
        lines.push(compacted(first, last));
    }
    let lanes = |lane: &str| {
        let place = format!(r#","lane":"{lane}","data":{{"role"#);
        lines.iter().map(|line| line.replace(r#","data":{"role"#, &place)).collect::<Vec<_>>()
    };
    let found = of(&lines);
    let splits = |at: u64| ("compaction-range", ERROR, at * 5_000);
    assert_eq!(told(&found), [1, 2, 3, 4, 5].map(splits));
    // Those of one lane take nothing from another.
    assert_eq!(told(&of(&lanes("sub"))), []);
    let restored = |at: u64| {
        format!(r#"{{"kind":"context.restored","data":{{"compaction":{}}}}}"#, at * 5_000)
    };
    lines.extend([restored(2), restored(5)]);
    assert_eq!(told(&of(&lines)), [1, 3, 4].map(splits));
}

#[test]
fn positions_that_do_not_exist_are_told() {
    let start = r#"{"kind":"checkpoint.created","data":{"number":2}}"#;
    let position = |line| told(&check(&[start, line])).first().map(|one| (one.0.to_owned(), one.1));
    let bad = Some(("checkpoint-position".to_owned(), ERROR));
    for line in [
        r#"{"kind":"checkpoint.thinned","data":{"checkpoints":[1,3]}}"#,
        r#"{"kind":"checkpoint.thinned","data":{"checkpoints":[0]}}"#,
        r#"{"kind":"session.rewound","data":{"to":0}}"#,
        r#"{"kind":"session.rewound","data":{"to":2}}"#,
        r#"{"kind":"session.rewound","data":{"to":1,"undoes":1}}"#,
        r#"{"kind":"session.rewound","data":{"to":1,"undoes":7}}"#,
        r#"{"kind":"files.restored","data":{"rewind":1}}"#,
        r#"{"kind":"files.restored","data":{"rewind":2}}"#,
    ] {
        assert_eq!(position(line), bad, "{line}");
    }
    for line in [
        r#"{"kind":"checkpoint.thinned","data":{"checkpoints":[1,2]}}"#,
        r#"{"kind":"session.rewound","data":{"to":1}}"#,
    ] {
        assert_eq!(position(line), None, "{line}");
    }
}

/// Puts checkpoints into a history as a session does: with the digest of the state of that moment.
fn with_checkpoints(lines: &[&str], late: u64) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for line in lines {
        let seq = events.len() as u64 + 1;
        let state_at = |end: u64| {
            let rewinds: Vec<_> = events.iter().filter_map(rewind_of).collect();
            let past = events.get(..end as usize).unwrap();
            let before = |(at, _): &&(Seq, Seq)| at.0 <= end;
            let rewinds: Vec<_> = rewinds.iter().filter(before).copied().collect();
            let lineage = Lineage::at(Seq(end), &rewinds);
            let mut state = SessionState::default();
            for event in past {
                if lineage.contains(event.seq) {
                    state.apply(event);
                } else {
                    state.apply_dead(event);
                }
            }
            state
        };
        let line = if *line == "checkpoint" {
            let after = seq - 1 - late.min(seq - 1);
            let state = state_at(after);
            format!(
                r#"{{"kind":"checkpoint.created","data":{{"digest":"{}","fold":{FOLD_VERSION},"after":{after}}}}}"#,
                state.digest()
            )
        } else {
            (*line).to_owned()
        };
        let at = Timestamp::from_millis(seq as i64);
        events.push(NewEvent::parse(&line).unwrap().into_event(Seq(seq), at));
    }
    events
}

const HISTORY: [&str; 15] = [
    r#"{"kind":"task.created","data":{"task":"a"},"key":"k1"}"#,
    "checkpoint",
    r#"{"kind":"message.added","data":{"role":"user","content":"x"}}"#,
    r#"{"kind":"usage.recorded","data":{"input_tokens":7},"key":"k2"}"#,
    "checkpoint",
    r#"{"kind":"session.rewound","data":{"to":2}}"#,
    "checkpoint",
    r#"{"kind":"turn.started","data":{"agent":"a"}}"#,
    r#"{"kind":"session.rewound","data":{"to":5,"undoes":6}}"#,
    "checkpoint",
    r#"{"kind":"session.created","data":{"session":"01890a5d-ac96-774b-bcce-b302099a8057","parent":{"session":"01890a5d-ac96-774b-bcce-b302099a8058","seq":10,"reason":"fork"}}}"#,
    r#"{"kind":"writer.opened","data":{"epoch":1}}"#,
    "checkpoint",
    r#"{"kind":"session.rewound","data":{"to":10}}"#,
    "checkpoint",
];

#[test]
fn a_checkpoint_made_of_the_state_before_it_is_never_doubted() {
    // Rewinds, a rewind taken back, a fork, and a fork that goes back to before it was one.
    for late in 0..3 {
        let events = with_checkpoints(&HISTORY, late);
        for end in 1..=events.len() {
            assert_eq!(told(&validate(&events[..end]).1), [], "late by {late}, after {end}");
        }
    }
}

#[test]
fn a_past_that_gives_another_state_is_told_by_the_checkpoint() {
    let alter = |events: &mut Vec<Event>, at: usize, line: &str| {
        let (seq, time) = (events[at].seq, events[at].at);
        events[at] = NewEvent::parse(line).unwrap().into_event(seq, time);
    };
    let checkpoint_of = |findings: &[Finding]| {
        let digest = findings.iter().filter(|one| one.rule == "checkpoint-digest");
        digest.map(|one| one.place.seq.unwrap().0).collect::<Vec<_>>()
    };
    let mut events = with_checkpoints(&HISTORY[..5], 0);
    alter(&mut events, 2, r#"{"kind":"message.added","data":{"role":"tool","content":"x"}}"#);
    let findings = validate(&events).1;
    assert_eq!(checkpoint_of(&findings), [5]);
    let finding = findings.iter().find(|one| one.rule == "checkpoint-digest").unwrap();
    assert_eq!((finding.r#type, finding.severity), (FindingType::Checksum, ERROR));
    // So it is when the writer's own first event came between.
    let lines = [HISTORY[0], HISTORY[11], "checkpoint"];
    let mut events = with_checkpoints(&lines, 1);
    assert_eq!(told(&validate(&events).1), []);
    alter(&mut events, 0, r#"{"kind":"task.created","data":{"task":"b"},"key":"k1"}"#);
    assert_eq!(checkpoint_of(&validate(&events).1), [3]);
    // And when it recorded lock files before itself.
    let lock = r#"{"kind":"dependencies.resolved","data":{"manager":"cargo"}}"#;
    let lines = [HISTORY[0], lock, lock, "checkpoint"];
    let mut events = with_checkpoints(&lines, 2);
    assert_eq!(told(&validate(&events).1), []);
    alter(&mut events, 0, r#"{"kind":"task.created","data":{"task":"b"},"key":"k1"}"#);
    assert_eq!(checkpoint_of(&validate(&events).1), [4]);
    // Erased payloads, lost events and other versions of the fold explain another state.
    let erased = [&HISTORY[..5], &[r#"{"kind":"payload.erased","data":{"seq":1}}"#]].concat();
    let mut events = with_checkpoints(&erased, 0);
    events[0].data = None;
    assert!(checkpoint_of(&validate(&events).1).is_empty());
    // So does a payload of an event that a rewind took back: its usage still counted.
    let erased = [&HISTORY[..7], &[r#"{"kind":"payload.erased","data":{"seq":4}}"#]].concat();
    let mut events = with_checkpoints(&erased, 0);
    events[3].data = None;
    assert!(checkpoint_of(&validate(&events).1).is_empty());
    assert_eq!(checkpoint_of(&validate(&events[..7]).1), [7]);
    let mut events = with_checkpoints(&HISTORY[..5], 0);
    events.remove(2);
    assert!(checkpoint_of(&validate(&events).1).is_empty());
    let mut events = with_checkpoints(&HISTORY[..5], 0);
    let other = events[4].data.as_ref().unwrap().as_str();
    let other = other.replace(&format!("\"fold\":{FOLD_VERSION}"), "\"fold\":1");
    events[4].data = Some(Payload::new(&other, &EventLimits::default()).unwrap());
    alter(&mut events, 2, r#"{"kind":"message.added","data":{"role":"tool","content":"x"}}"#);
    assert!(checkpoint_of(&validate(&events).1).is_empty());
}

#[test]
fn no_rule_says_more_than_some_twenty_things_and_the_rest_keeps_its_weight() {
    let mut lines: Vec<String> =
        (0..20).map(|n| said("assistant", &call(&format!("a{n}")))).collect();
    lines.insert(0, user());
    lines.extend((0..30).map(|_| said("tool", "")));
    lines.extend([said("assistant", &call("x")), user(), said("assistant", "")]);
    let findings = of(&lines);
    assert_eq!(findings.len(), 21);
    assert!(findings[20].message.contains("more like these"));
    assert_eq!(findings[20].severity, ERROR);
    let tasks: Vec<String> =
        (0..1000).map(|n| task(&n.to_string(), r#","parent":"gone""#)).collect();
    let findings = of(&tasks);
    assert_eq!(findings.len(), 21);
    assert!(findings[20].message.contains("980"));
}
