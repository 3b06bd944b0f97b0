//! The fold against hand-made histories, and against itself: paged, rewound, recounted.

use proptest::prelude::*;

use super::*;
use crate::{Anomaly, EventLimits, NewEvent, Payload, TaskStatus, Timestamp};

fn event(seq: u64, kind: &str, data: &str) -> Event {
    let data = Payload::new(data, &EventLimits::default()).unwrap();
    let at = Timestamp::from_millis(i64::try_from(seq).unwrap());
    NewEvent::new(Kind::new(kind).unwrap(), data).into_event(Seq(seq), at)
}

fn fold(facts: &[(&str, &str)]) -> (SessionState, Vec<Option<Anomaly>>) {
    let mut state = SessionState::default();
    let odd = facts
        .iter()
        .zip(1..)
        .map(|((kind, data), seq)| state.apply(&event(seq, kind, data)))
        .collect();
    (state, odd)
}

#[test]
fn calls_are_open_until_their_result_comes() {
    let (state, odd) = fold(&[
        ("tool.called", r#"{"call":"a","name":"bash"}"#),
        ("tool.called", r#"{"call":"b","name":"edit","observed":true}"#),
        ("tool.finished", r#"{"call":"a","ok":false}"#),
        ("tool.finished", r#"{"call":"zzz"}"#),
        ("tool.called", r#"{"call":"b","name":"edit"}"#),
    ]);
    assert_eq!(odd, [None, None, None, Some(Anomaly::UnknownCall), Some(Anomaly::DuplicateCall)]);
    assert_eq!(state.calls.len(), 1);
    assert_eq!(state.calls.get("b").unwrap().seq, Seq(5));
    assert_eq!((state.core.calls.tools, state.core.calls.failed), (3, 1));
    assert_eq!(state.core.health.anomalies, 2);
}

#[test]
fn readiness_follows_dependencies_and_parts() {
    let (mut state, odd) = fold(&[
        ("task.created", r#"{"task":"P1","title":"phase"}"#),
        ("task.created", r#"{"task":"P1.a","parent":"P1"}"#),
        ("task.created", r#"{"task":"P1.b","parent":"P1","depends":["P1.a","later"]}"#),
    ]);
    assert_eq!(odd, [None; 3]);
    assert_eq!(state.core.tasks.ready, 1, "only the leaf that waits for nothing");
    let steps = [
        ("task.status", r#"{"task":"P1.a","status":"implementing"}"#, 0),
        ("task.status", r#"{"task":"P1.a","status":"complete","result":{"n":1}}"#, 0),
        ("task.created", r#"{"task":"later"}"#, 1),
        ("task.status", r#"{"task":"later","status":"obsolete"}"#, 1),
    ];
    for ((kind, data, ready), seq) in steps.into_iter().zip(4..) {
        assert_eq!(state.apply(&event(seq, kind, data)), None);
        assert_eq!(state.core.tasks.ready, ready, "{data}");
    }
    assert!(state.tasks.get("P1.b").unwrap().is_ready());
    assert_eq!(state.tasks.get("P1").unwrap().children, (2, 1));
    assert_eq!(state.tasks.get("P1.a").unwrap().attempts, 1);
    let back = state.apply(&event(8, "task.status", r#"{"task":"P1.a","status":"planned"}"#));
    assert_eq!(back, Some(Anomaly::IllegalTransition));
    assert_eq!(state.tasks.get("P1.a").unwrap().status, TaskStatus::Complete, "it is not applied");
    assert_eq!((state.core.tasks.ready, state.core.tasks.by_status[&TaskStatus::Complete]), (1, 1));
    assert_eq!(state.tasks.get("P1").unwrap().children, (2, 1));
    assert_eq!(state.core.health.anomalies, 1, "it is counted");
}

#[test]
fn every_kind_of_the_vocabulary_folds_and_garbage_is_an_anomaly() {
    for kind in Kind::VOCABULARY {
        let mut state = SessionState::default();
        state.apply(&event(1, kind, "{}"));
        state.apply(&event(2, kind, r#"{"call":1,"task":[],"path":{},"turn":"x","role":7}"#));
        assert_eq!(state.core.seq, Seq(2));
    }
    let (state, odd) = fold(&[("message.added", r#"{"content":"no role"}"#), ("x.mine", "{}")]);
    assert_eq!(odd, [Some(Anomaly::Malformed), None]);
    assert_eq!(state.core.messages.total, 1);
}

#[test]
fn keys_are_remembered_for_ten_thousand_events_and_forgotten_in_time() {
    let mut state = SessionState::default();
    for seq in 1..=25_000 {
        let mut event = event(seq, "x.k", "{}");
        event.key = Some(format!("key {seq}"));
        state.apply(&event);
    }
    assert_eq!(state.key("key 25000"), Some(Seq(25_000)));
    assert_eq!(state.key("key 15001"), Some(Seq(15_001)));
    assert_eq!(state.key("key 1"), None);
}

#[test]
fn what_replaces_a_table_is_rolled_back_too() {
    let keyed = |seq: u64| Event { key: Some(format!("key {seq}")), ..event(seq, "x.k", "{}") };
    let mut state = SessionState::default();
    for seq in 1..=9_990 {
        let _ = state.apply(&keyed(seq));
    }
    let (before, digest) = (state.clone(), state.digest());
    let events: Vec<_> = (9_991..=10_020).map(keyed).collect();
    let savepoint = state.savepoint(&events);
    for event in &events {
        let _ = state.apply(event);
    }
    assert_eq!(state.key("key 10020"), Some(Seq(10_020)));
    state.roll_back(savepoint);
    assert_eq!((state.digest(), state.key("key 9991")), (digest, None));
    assert_eq!(state.key("key 1"), before.key("key 1"));

    let data = r#"{"session":"0199a3c5-0000-7000-8000-00deadbeef12","parent":{"session":"0199a3c5-0000-7000-8000-00deadbeef34","seq":9990}}"#;
    let fork = event(9_991, "session.created", data);
    let savepoint = state.savepoint([&fork]);
    state.apply(&fork);
    assert_ne!(state.digest(), digest, "a fork is another state");
    state.roll_back(savepoint);
    assert_eq!(state.digest(), digest);
}

#[test]
fn a_key_is_that_of_a_live_event() {
    let keyed = |seq: u64, key: &str| Event { key: Some(key.into()), ..event(seq, "x.k", "{}") };
    let mut state = SessionState::default();
    state.apply(&keyed(1, "a"));
    let base = state.clone();
    state.apply(&keyed(2, "b"));
    let undone = state.clone();
    let rewound = event(3, "session.rewound", r#"{"to":1}"#);
    state = SessionState::rewound(base, state);
    state.apply(&rewound);
    assert_eq!((state.key("a"), state.key("b")), (Some(Seq(1)), None));
    state.apply(&keyed(4, "b"));
    assert_eq!(state.key("b"), Some(Seq(4)));
    // A fold that meets the event that was taken back gives the same.
    let mut folded = SessionState::default();
    folded.apply(&keyed(1, "a"));
    folded.apply_dead(&keyed(2, "b"));
    folded.apply(&rewound);
    folded.apply(&keyed(4, "b"));
    assert_eq!(folded.digest(), state.digest());
    // The rewind is undone.
    state = SessionState::rewound(undone, state);
    assert_eq!(state.key("b"), Some(Seq(2)));
    // A fork has the keys of its past.
    let forked = state.forked();
    assert_eq!((forked.key("a"), forked.key("b")), (Some(Seq(1)), Some(Seq(2))));
}

#[test]
fn the_number_of_an_erased_or_thinned_checkpoint_is_not_used_again() {
    let erased = |seq: u64| Event { data: None, ..event(seq, "checkpoint.created", "{}") };
    let next = event(9, "checkpoint.created", "{}");
    let number = |mut state: SessionState| {
        assert_eq!(state.apply(&next), None);
        state.core.checkpoints.newest
    };
    let mut state = SessionState::default();
    state.apply(&event(1, "checkpoint.created", "{}"));
    state.apply(&erased(2));
    assert_eq!(number(state.clone()), Some(3));
    state.apply_dead(&erased(3));
    assert_eq!(number(state), Some(4));
    // What was thinned had a number, whatever else can be read.
    let thinned = event(1, "checkpoint.thinned", r#"{"checkpoints":[7,5]}"#);
    let mut state = SessionState::default();
    state.apply(&thinned);
    assert_eq!(number(state), Some(8));
    let mut state = SessionState::default();
    state.apply_dead(&thinned);
    assert_eq!(number(state), Some(8));
}

#[test]
fn a_rewind_reverts_the_work_and_never_the_counters() {
    let (base, _) = fold(&[
        ("turn.started", r#"{"agent":"a"}"#),
        ("message.added", r#"{"role":"user","content":"x"}"#),
    ]);
    let mut before = base.clone();
    before.apply(&event(3, "message.added", r#"{"role":"user","content":"y"}"#));
    before.apply(&event(4, "turn.started", r#"{"agent":"b"}"#));
    before.apply(&event(5, "usage.recorded", r#"{"input_tokens":7}"#));
    let mut state = SessionState::rewound(base, before);
    state.apply(&event(6, "session.rewound", r#"{"to":2}"#));
    assert_eq!(state.core.messages.total, 1);
    assert_eq!(state.core.turns.last.0, 2);
    assert_eq!(state.core.usage.input_tokens, 7);
    assert_eq!(state.core.lineage.ranges(), [(Seq(1), Seq(2)), (Seq(6), Seq(6))]);
    assert_eq!(state.core.seq, Seq(6));
}

struct Disk(Vec<Vec<u8>>);

impl StatePageSink for Disk {
    type Error = ();
    fn put(&mut self, page: Vec<u8>) -> Result<PageRef, ()> {
        self.0.push(page);
        Ok(PageRef(self.0.len() as u64 - 1, 0))
    }
}

fn bring(state: &mut SessionState, disk: &Disk, event: &Event) {
    loop {
        let missing = state.missing(event);
        if missing.is_empty() {
            break;
        }
        for page in missing {
            let at = state.page_ref(page).unwrap();
            state.install(page, &disk.0[at.0 as usize]).unwrap();
        }
    }
}

fn any_fact() -> impl Strategy<Value = (String, String)> {
    let name = || "[a-e][0-9]";
    prop_oneof![
        (name(), name()).prop_map(|(a, b)| (
            "task.created".into(),
            format!(r#"{{"task":"{a}","depends":["{b}"]}}"#)
        )),
        (name(), name()).prop_map(|(a, b)| (
            "task.created".into(),
            format!(r#"{{"task":"{a}","parent":"{b}"}}"#)
        )),
        (name(), name()).prop_map(|(a, b)| (
            "task.changed".into(),
            format!(r#"{{"task":"{a}","depends":["{b}"]}}"#)
        )),
        (name(), name(), prop_oneof!["soft", "needs-result", "blocks", "new-word"]).prop_map(
            |(a, b, t)| (
                "task.changed".into(),
                format!(r#"{{"task":"{a}","depends":["{b}"],"dependency_types":{{"{b}":"{t}"}}}}"#)
            )
        ),
        (name(), prop_oneof!["planned", "complete", "implementing", "obsolete"]).prop_map(
            |(a, s)| ("task.status".into(), format!(r#"{{"task":"{a}","status":"{s}"}}"#))
        ),
        name().prop_map(|a| ("tool.called".into(), format!(r#"{{"call":"{a}","name":"t"}}"#))),
        name().prop_map(|a| ("tool.finished".into(), format!(r#"{{"call":"{a}"}}"#))),
        name().prop_map(|a| ("file.touched".into(), format!(r#"{{"path":"{a}","op":"write"}}"#))),
        name().prop_map(|a| ("turn.started".into(), format!(r#"{{"agent":"{a}"}}"#))),
        name().prop_map(|_| (
            "turn.finished".into(),
            r#"{"status":"ok","usage":{"input_tokens":3}}"#.into()
        )),
        name().prop_map(|a| ("message.added".into(), format!(r#"{{"role":"{a}","content":"x"}}"#))),
        name().prop_map(|a| ("checkpoint.created".into(), format!(r#"{{"label":"{a}"}}"#))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Snapshot + tail equals full replay, wherever the snapshots are taken, with pages brought
    /// in only as they are needed.
    #[test]
    fn snapshot_and_tail_equal_full_replay(
        facts in proptest::collection::vec(any_fact(), 1..300),
        every in 1usize..60,
    ) {
        let mut whole = SessionState::default();
        let mut paged = SessionState::default();
        let mut disk = Disk(Vec::new());
        for (n, (kind, data)) in facts.iter().enumerate() {
            let mut event = event(n as u64 + 1, kind, data);
            event.key = (n % 3 == 0).then(|| format!("k{}", n % 50));
            if n % every == 0 {
                let root = paged.save(&mut disk).unwrap();
                paged = SessionState::restore(&root).unwrap();
            }
            bring(&mut paged, &disk, &event);
            prop_assert_eq!(whole.apply(&event), paged.apply(&event));
            prop_assert_eq!(whole.digest(), paged.digest());
        }
    }

    /// A state that was rolled back equals the one before, and goes on as that one does; one whose
    /// savepoint was released equals one that had none.
    #[test]
    fn what_is_rolled_back_leaves_no_trace(
        facts in proptest::collection::vec((any_fact(), any::<bool>()), 1..200),
        every in 1usize..20,
    ) {
        let (mut plain, mut saved) = (SessionState::default(), SessionState::default());
        let mut seq = 1;
        for batch in facts.chunks(every) {
            let events: Vec<Event> = (seq..)
                .zip(batch)
                .map(|(seq, ((kind, data), _))| {
                    let mut event = event(seq, kind, data);
                    event.key = (seq % 3 == 0).then(|| format!("k{}", seq % 50));
                    event
                })
                .collect();
            let savepoint = saved.savepoint(&events);
            for event in &events {
 let _ = saved.apply(event);
 }
            if batch.first().is_some_and(|(_, refused)| *refused) {
                saved.roll_back(savepoint);
            } else {
                saved.release(savepoint);
                for event in &events {
 let _ = plain.apply(event);
 }
                seq += events.len() as u64;
            }
            prop_assert_eq!(&saved.core, &plain.core);
            prop_assert_eq!(saved.digest(), plain.digest());
            prop_assert!(saved.is_sound());
        }
    }

    /// A state that went through rewinds as they came equals one fold over the lineage.
    #[test]
    fn rewinds_as_they_come_equal_a_fold_over_the_lineage(
        facts in proptest::collection::vec((any_fact(), 0u64..1000), 1..120),
    ) {
        let mut events: Vec<Event> = Vec::new();
        let mut states = vec![SessionState::default()];
        let mut rewinds = Vec::new();
        for (n, ((kind, data), back)) in facts.iter().enumerate() {
            let seq = n as u64 + 1;
            let mut state = states.last().unwrap().clone();
            if *back < 100 && seq > 2 {
                let to = 1 + back % (seq - 1);
                let event = event(seq, "session.rewound", &format!(r#"{{"to":{to}}}"#));
                state = SessionState::rewound(states[to as usize].clone(), state);
                state.apply(&event);
                rewinds.push((Seq(seq), Seq(to)));
                events.push(event);
            } else {
                let mut event = event(seq, kind, data);
                // Few, so that one that was taken back is used again.
                event.key = (n % 4 == 0).then(|| format!("k{}", n % 12));
                state.apply(&event);
                events.push(event);
            }
            states.push(state);
        }
        let lineage = crate::Lineage::at(Seq(events.len() as u64), &rewinds);
        let mut folded = SessionState::default();
        for event in &events {
            if lineage.contains(event.seq) {
                folded.apply(event);
            } else {
                folded.apply_dead(event);
            }
        }
        prop_assert_eq!(&folded.core, &states.last().unwrap().core);
        prop_assert_eq!(folded.digest(), states.last().unwrap().digest());
        prop_assert_eq!(&folded.core.lineage, &lineage);
    }

    /// What is kept with each change equals what a look over all tasks gives.
    #[test]
    fn derived_counts_equal_a_full_look(facts in proptest::collection::vec(any_fact(), 1..300)) {
        let mut state = SessionState::default();
        for ((kind, data), seq) in facts.iter().zip(1..) {
            state.apply(&event(seq, kind, data));
        }
        let ready = state.tasks.iter().filter(|(_, task)| task.is_ready()).count() as u64;
        prop_assert_eq!(state.core.tasks.ready, ready);
        for (id, task) in state.tasks.iter() {
            let open = |name: &&TaskId| {
                let need = state.tasks.get(name.as_str()).filter(|task| task.known);
                !task.dependency_types.of(name).is_met_by(need.map(|need| need.status))
            };
            prop_assert_eq!(task.waits, task.depends.iter().filter(open).count() as u64, "{}", id);
            let children: Vec<_> = state
                .tasks
                .iter()
                .filter(|(_, child)| child.parent.as_ref().is_some_and(|parent| parent.as_str() == id))
                .collect();
            let done = children.iter().filter(|(_, child)| child.status.is_done()).count();
            prop_assert_eq!(task.children, (children.len() as u64, done as u64));
        }
    }
}
