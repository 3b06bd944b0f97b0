//! What is told twice or recorded by halves is recorded once.

use std::fs;

use abide::{Kind, SessionRef};
use serde_json::json;

use crate::hooked_agent::{HookedAgent, ID, lines_of_turn, until};

/// The payloads of a turn without a file.
fn turn(agent: &HookedAgent) -> Vec<String> {
    vec![
        agent.started(),
        agent.prompted("t1", "change a"),
        agent.called("t1", "c1"),
        agent.stopped("t1", "All done."),
    ]
}

fn assert_once(agent: &HookedAgent, when: &str) {
    let whole = ["user: change a", "model: calls c1", "result c1", "model: All done."];
    assert_eq!(agent.context(), whole, "{when}");
    assert_eq!(agent.turns(), ["+", "completed"], "{when}");
    assert_eq!(agent.count(&Kind::TOOL_CALLED), 1, "{when}");
    assert_eq!(agent.count(&Kind::TOOL_FINISHED), 1, "{when}");
}

#[test]
fn two_installs_tell_everything_twice_and_it_is_recorded_once() {
    for drains_between in [false, true] {
        let agent = HookedAgent::new();
        for payload in turn(&agent) {
            agent.lands(&payload);
            if drains_between {
                agent.drains();
            }
            agent.tells(&payload);
        }
        assert_once(&agent, &format!("drained between: {drains_between}"));
    }
}

#[test]
fn a_drain_that_was_cut_off_after_a_report_is_finished() {
    for cut in 0..4 {
        for loses_state in [false, true] {
            let agent = HookedAgent::new();
            for (at, payload) in turn(&agent).into_iter().enumerate() {
                let path = agent.lands(&payload);
                let report = fs::read(&path).unwrap();
                let state = agent.inbox_files("state.json");
                let state = state.first().map(|path| (path.clone(), fs::read(path).unwrap()));
                agent.drains();
                if at == cut {
                    // Recorded, and then killed: the report is there still, and the state is as it was.
                    fs::write(&path, report).unwrap();
                    for path in agent.inbox_files("state.json") {
                        fs::remove_file(path).unwrap();
                    }
                    if let Some((path, text)) = state.filter(|_| !loses_state) {
                        fs::write(path, text).unwrap();
                    }
                    agent.drains();
                }
            }
            assert_once(&agent, &format!("cut after {cut}, state lost: {loses_state}"));
        }
    }
}

#[test]
fn a_prompt_that_was_recorded_long_before_its_report_was_removed_opens_no_second_turn() {
    let agent = HookedAgent::new();
    let path = agent.lands(&agent.prompted("t1", "change a"));
    let report = fs::read(&path).unwrap();
    agent.drains();
    fs::write(&path, report).unwrap();
    fs::remove_file(&agent.inbox_files("state.json")[0]).unwrap();
    // Meanwhile the agent wrote much.
    for n in 0..40 {
        for line in lines_of_turn("change a", &format!("c{n}"), "All done.").iter().skip(1) {
            agent.writes(line);
        }
    }
    agent.drains();
    assert_eq!(agent.turns(), ["+"]);
}

#[test]
fn a_report_without_an_id_of_its_own_is_recorded_once_when_its_drain_was_cut_off() {
    let agent = HookedAgent::of("gemini");
    let prompt = agent.payload("BeforeAgent", json!({"prompt": "change a"}));
    let path = agent.lands(&prompt);
    let report = fs::read(&path).unwrap();
    agent.drains();
    fs::write(&path, report).unwrap();
    fs::remove_file(&agent.inbox_files("state.json")[0]).unwrap();
    agent.drains();
    assert_eq!(agent.context(), ["user: change a"]);
    assert_eq!(agent.turns(), ["+"]);
}

#[test]
fn without_its_state_a_session_is_read_and_nothing_is_imported_twice() {
    let agent = HookedAgent::new();
    agent.tells(&agent.prompted("t1", "change a"));
    for line in lines_of_turn("change a", "c1", "All done.") {
        agent.writes(&line);
        agent.tells(&agent.started());
        fs::remove_file(&agent.inbox_files("state.json")[0]).unwrap();
    }
    agent.tells(&agent.stopped("t1", "All done."));
    let whole = ["user: change a", "model: calls c1", "result c1", "model: All done."];
    assert_eq!(agent.context(), whole);
    assert_eq!(agent.turns(), ["+", "completed"]);
}

#[test]
fn a_session_that_another_writer_holds_is_recorded_when_it_is_free() {
    let agent = HookedAgent::new();
    agent.tells(&agent.started());
    let key = SessionRef::Key(format!("claude/{ID}"));
    let holder = agent.store.open_session(&key).unwrap();
    for payload in &turn(&agent)[1..] {
        agent.lands(payload);
    }
    agent.drains_once(None);
    assert_eq!(agent.waiting().len(), 3, "they wait");
    assert_eq!(agent.turns(), Vec::<String>::new());
    holder.close().unwrap();
    // The next command of a person.
    until("the session is free", || {
        agent.sweeps();
        agent.waiting().is_empty()
    });
    assert_once(&agent, "after the holder");
}

#[test]
fn a_prompt_without_an_id_that_two_hooks_tell_is_recorded_once() {
    let agent = HookedAgent::of("gemini");
    let prompt = agent.payload("BeforeAgent", json!({"prompt": "go on", "transcript_path": null}));
    agent.tells(&prompt);
    agent.tells(&prompt);
    assert_eq!(agent.turns(), ["+"]);
    assert_eq!(agent.context(), ["user: go on"]);
}

#[test]
fn a_session_stays_one_when_its_project_gets_another_id() {
    let agent = HookedAgent::new();
    for (turn, project) in [("t1", None), ("t2", Some("44d58e09a2ad152e3089d46fe3350921"))] {
        agent.lands(&agent.prompted(turn, turn));
        until("the report is recorded", || {
            agent.with_recorder_in(project, |recorder| {
                recorder.drain(&agent.inbox(), None).unwrap();
            });
            agent.inbox().is_empty()
        });
    }
    assert_eq!(agent.store.sessions().unwrap().len(), 1);
    assert_eq!(agent.context(), ["user: t1", "user: t2"]);
}

#[test]
fn a_session_that_was_removed_does_not_come_back() {
    let agent = HookedAgent::new();
    agent.tells(&agent.prompted("t1", "one"));
    agent.store.delete_session(agent.view().id()).unwrap();
    agent.tells(&agent.prompted("t2", "two"));
    agent.sweeps();
    assert_eq!(agent.store.sessions().unwrap().len(), 0);
}
