//! Runs of small shell scripts in the agent's place.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide::{
    Consent, Event, EventRange, Kind, NewEvent, NewSession, Session, SessionRef, SessionStatus,
    Store, TaskStatus, ToolCall, TurnStart,
    event::Fact,
    tasks::{TaskCreated, TaskStatusChange},
};
use abide_runner::{
    AgentKind, ResumeMode, RetryDecision, RunEvent, RunFinish, RunGoal, RunLimits, RunOptions,
    RunSummary, Stop, StopUrgency, run,
};

struct Lab {
    dir: tempfile::TempDir,
    store: Store,
    id: abide::SessionId,
}

impl Lab {
    /// A session with these tasks: an id, what it is a part of, what it waits for.
    fn new(tasks: &[(&str, Option<&str>, &[&str])]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_init(dir.path()).unwrap();
        let mut new = NewSession::titled("tasks");
        new.fields.workspace = Some(dir.path().to_string_lossy().into_owned());
        let session = store.create(new).unwrap();
        for (id, parent, depends) in tasks {
            let created = TaskCreated {
                task: (*id).into(),
                title: format!("title of {id}"),
                parent: parent.map(Into::into),
                depends: depends.iter().map(|on| (*on).into()).collect(),
                details: Some(format!("details of {id}")),
                ..TaskCreated::default()
            };
            session.append(created).unwrap().wait().unwrap();
        }
        let id = session.id();
        session.close().unwrap();
        Self { dir, store, id }
    }

    fn flat(ids: &[&str]) -> Self {
        let tasks: Vec<(&str, Option<&str>, &[&str])> =
            ids.iter().map(|id| (*id, None, &[][..])).collect();
        Self::new(&tasks)
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn session(&self) -> Arc<Session> {
        Arc::new(self.store.open_session(&SessionRef::Id(self.id)).unwrap())
    }

    /// The shell in the agent's place.
    fn options(&self, script: &str) -> RunOptions {
        let command = ["sh", "-c", script].map(str::to_owned).into();
        let options = RunOptions::new(command, self.path().to_owned());
        RunOptions { goal: RunGoal::Tasks, grace: Duration::from_millis(500), ..options }
    }

    fn run(&self, options: &RunOptions) -> (RunSummary, Vec<RunEvent>) {
        self.run_with(options, &Stop::default(), &mut |_| {})
    }

    fn run_with(
        &self,
        options: &RunOptions,
        stop: &Stop,
        watch: &mut dyn FnMut(&RunEvent),
    ) -> (RunSummary, Vec<RunEvent>) {
        let mut told = Vec::new();
        let summary = run(
            &self.session(),
            options,
            stop,
            &mut |_| Some(RetryDecision::Retry),
            &mut |event| {
                watch(event);
                told.push(event.clone());
            },
        );
        (summary.unwrap(), told)
    }

    fn status(&self, task: &str) -> TaskStatus {
        let view = self.store.view(&SessionRef::Id(self.id)).unwrap();
        view.state().unwrap().tasks.get(task).unwrap().status
    }

    fn events(&self) -> Vec<Event> {
        let view = self.store.view(&SessionRef::Id(self.id)).unwrap();
        view.events(EventRange::ALL).map(Result::unwrap).collect()
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    fn said(&self) -> String {
        let messages = self.events().into_iter().filter(|event| event.kind == Kind::MESSAGE_ADDED);
        messages.map(|event| event.data.unwrap().as_str().to_owned()).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn a_run_is_noted_as_own_before_its_agent_is_started() {
    let state = tempfile::tempdir().unwrap();
    let mut lab = Lab::flat(&["T1"]);
    let notes = state.path().join("abide/runs");
    let options = lab.options(&format!("ls '{}' > noted 2> none; true", notes.display()));
    let last = |lab: &Lab| {
        let view = lab.store.view(&SessionRef::Id(lab.id)).unwrap();
        lab.store.last_run(&view, None).unwrap()
    };
    assert!(last(&lab).is_none());
    // Nowhere to note it: it runs all the same.
    let (summary, _) = lab.run(&options);
    assert_eq!((summary.finish, summary.warnings.len()), (RunFinish::Done, 0), "{summary:?}");
    assert!(!last(&lab).unwrap().own);
    lab.store = lab.store.with_consent(Consent::at(Some(state.path().join("abide"))));
    assert!(!last(&lab).unwrap().own);
    let session = lab.session();
    let again = TaskCreated { task: "T2".into(), title: "more".into(), ..TaskCreated::default() };
    session.append(again).unwrap().wait().unwrap();
    drop(session);
    lab.run(&options);
    assert_eq!(lab.file("noted").lines().count(), 1, "{}", lab.file("noted"));
    let run = last(&lab).unwrap();
    assert!(run.own && run.by.is_some(), "{run:?}");
    // A fork shares the run with its parent, and whose it is.
    lab.id = lab.store.fork(&SessionRef::Id(lab.id), None, NewSession::default()).unwrap();
    assert!(last(&lab).unwrap().own);
}

fn begun(told: &[RunEvent]) -> Vec<String> {
    let begun = told.iter().filter_map(|event| match event {
        RunEvent::TaskStarted { task, .. } => Some(task.to_string()),
        _ => None,
    });
    begun.collect()
}

#[test]
fn tasks_are_done_in_order_and_their_parents_with_them() {
    let lab = Lab::new(&[
        ("P1", None, &[]),
        ("P1.T1", Some("P1"), &["P1.T2"]),
        ("P1.T2", Some("P1"), &[]),
        ("P2", None, &["P1"]),
        ("P2.T1", Some("P2"), &[]),
    ]);
    let options = lab.options("cat > told.$ABIDE_TASK; echo $ABIDE_TASK >> order; echo said");
    let (summary, told) = lab.run(&options);
    assert_eq!(summary.finish, RunFinish::Done);
    assert_eq!(lab.file("order"), "P1.T2\nP1.T1\nP2.T1\n");
    assert_eq!(begun(&told), ["P1.T2", "P1.T1", "P2.T1"]);
    for task in ["P1", "P1.T1", "P1.T2", "P2", "P2.T1"] {
        assert_eq!(lab.status(task), TaskStatus::Complete, "{task}");
    }
    assert_eq!(
        lab.file("told.P1.T1"),
        "Task P1.T1: title of P1.T1\n\nPart of: title of P1\n\ndetails of P1.T1\n"
    );
    assert!(lab.said().contains("said"), "{}", lab.said());
    let difference = summary.difference.clone().unwrap();
    assert_eq!(difference.created, 4, "{difference:?}");
    // At the start, and after each of the three tasks; the last one finds nothing new.
    assert_eq!(summary.checkpoints.total, 4, "{summary:?}");
    let view = lab.store.view(&SessionRef::Id(lab.id)).unwrap();
    assert_eq!(view.state().unwrap().core.status, SessionStatus::Completed);
    // Nothing is left to do.
    let (summary, told) = lab.run(&options);
    assert_eq!((summary.finish, begun(&told).len()), (RunFinish::Done, 0));
}

#[test]
fn a_command_without_a_plan_is_one_task() {
    let lab = Lab::new(&[]);
    let options =
        RunOptions { goal: RunGoal::Command, ..lab.options("echo '{task}' $ABIDE_SESSION") };
    let (summary, _) = lab.run(&options);
    assert_eq!(summary.finish, RunFinish::Done);
    assert_eq!(lab.status("T1"), TaskStatus::Complete);
    assert!(lab.said().contains(&format!("{{task}} {}", lab.id)), "{}", lab.said());
}

#[test]
fn jobs_run_at_the_same_time_in_lanes_of_their_own() {
    let lab = Lab::flat(&["A", "B"]);
    // Each waits for the other.
    let script =
        "touch $ABIDE_TASK; until [ -e A ] && [ -e B ]; do sleep 0.01; done; echo $ABIDE_LANE";
    let options = RunOptions { jobs: 2, ..lab.options(script) };
    let (summary, _) = lab.run(&options);
    assert_eq!(summary.finish, RunFinish::Done);
    let lanes: Vec<String> = lab
        .events()
        .iter()
        .filter(|event| event.kind == Kind::TURN_STARTED)
        .map(|event| event.lane.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(lanes, ["job-1", "job-2"]);
}

#[test]
fn a_task_that_fails_is_tried_again_and_told_why() {
    let lab = Lab::flat(&["A", "B"]);
    let script = "cat >> told; [ $ABIDE_TASK = B ] || [ -e tried ] || { touch tried; echo broken >&2; exit 3; }";
    let options = RunOptions { retries: Some(1), ..lab.options(script) };
    let (summary, told) = lab.run(&options);
    assert_eq!(summary.finish, RunFinish::Done);
    assert_eq!(begun(&told), ["A", "A", "B"]);
    assert!(lab.file("told").contains("The last attempt at this task failed: exit code 3: broken"));
    let view = lab.store.view(&SessionRef::Id(lab.id)).unwrap();
    let state = view.state().unwrap();
    assert_eq!(state.tasks.get("A").unwrap().failures, 1);
}

#[test]
fn a_failure_ends_the_run_unless_it_is_to_go_on() {
    let lab = Lab::new(&[("A", None, &[]), ("B", None, &[]), ("C", None, &["A"])]);
    let script = "[ $ABIDE_TASK != A ] || [ -e well ]";
    let (summary, told) = lab.run(&lab.options(script));
    assert_eq!((summary.finish, begun(&told)), (RunFinish::Failed, vec!["A".to_owned()]));
    let options = RunOptions { continue_on_error: true, ..lab.options(script) };
    let (summary, told) = lab.run(&options);
    assert_eq!((summary.finish, begun(&told)), (RunFinish::Failed, vec!["B".to_owned()]));
    fs::write(lab.path().join("well"), "").unwrap();
    let options = RunOptions { retry_failed: true, ..lab.options(script) };
    let (summary, told) = lab.run(&options);
    assert_eq!(
        (summary.finish, begun(&told)),
        (RunFinish::Done, vec!["A".to_owned(), "C".to_owned()])
    );
}

#[test]
fn limits_of_number_scope_and_time_are_kept() {
    let lab = Lab::new(&[("P1", None, &[]), ("P1.T1", Some("P1"), &[]), ("P2", None, &[])]);
    let options = RunOptions { scope: Some("P2".into()), ..lab.options("true") };
    let (summary, told) = lab.run(&options);
    assert_eq!((summary.finish, begun(&told)), (RunFinish::ScopeDone, vec!["P2".to_owned()]));
    let lab = Lab::flat(&["A", "B", "C"]);
    let options = RunOptions { max_tasks: Some(2), ..lab.options("true") };
    let (summary, told) = lab.run(&options);
    assert_eq!((summary.finish, begun(&told).len()), (RunFinish::EnoughTasks, 2));
    let limits = RunLimits { duration: Some(Duration::from_millis(50)), ..RunLimits::default() };
    let options = RunOptions { limits, ..lab.options("sleep 60") };
    let (summary, _) = lab.run(&options);
    assert_eq!(summary.finish, RunFinish::TimeUp);
    assert_eq!(lab.status("C"), TaskStatus::Planned);
    let options = RunOptions { scope: Some("Z".into()), ..lab.options("true") };
    let error = run(
        &lab.session(),
        &options,
        &Stop::default(),
        &mut |_| Some(RetryDecision::Retry),
        &mut |_| {},
    );
    assert!(error.unwrap_err().to_string().contains("no task Z"));
}

#[test]
fn asked_once_the_step_ends_by_itself_asked_again_it_is_stopped() {
    let lab = Lab::flat(&["A", "B"]);
    let stop = Stop::default();
    let asking = stop.clone();
    let (summary, told) = lab.run_with(&lab.options("sleep 0.2"), &stop, &mut |event| {
        if matches!(event, RunEvent::TaskStarted { .. }) {
            asking.ask();
        }
    });
    assert_eq!((summary.finish, begun(&told)), (RunFinish::Stopped, vec!["A".to_owned()]));
    assert_eq!((lab.status("A"), lab.status("B")), (TaskStatus::Complete, TaskStatus::Planned));
    // One that heeds no signal is killed.
    let stop = Stop::default();
    let asking = stop.clone();
    let (summary, told) = lab.run_with(
        &lab.options("trap '' TERM INT; echo up; while :; do sleep 0.05; done"),
        &stop,
        &mut |event| {
            if matches!(event, RunEvent::Output { .. }) {
                asking.at_least(StopUrgency::Now);
            }
        },
    );
    assert_eq!((summary.finish, begun(&told)), (RunFinish::Stopped, vec!["B".to_owned()]));
    assert_eq!(lab.status("B"), TaskStatus::Planned);
    let view = lab.store.view(&SessionRef::Id(lab.id)).unwrap();
    assert_eq!(view.state().unwrap().core.status, SessionStatus::Interrupted);
}

#[test]
fn an_agent_that_is_killed_is_started_again_and_has_not_failed() {
    let lab = Lab::flat(&["A"]);
    let script = "cat > told; echo thinking about it; [ -e tried ] || { touch tried; sleep 0.3; kill -9 $$; }";
    let (summary, told) = lab.run(&lab.options(script));
    assert_eq!(summary.finish, RunFinish::Done);
    let ways: Vec<Option<ResumeMode>> = told
        .iter()
        .filter_map(|event| match event {
            RunEvent::TaskStarted { way, .. } => Some(*way),
            _ => None,
        })
        .collect();
    assert_eq!(ways, [None, Some(ResumeMode::Outside)]);
    assert!(lab.file("told").contains("thinking about it"), "{}", lab.file("told"));
    let view = lab.store.view(&SessionRef::Id(lab.id)).unwrap();
    assert_eq!(view.state().unwrap().tasks.get("A").unwrap().failures, 0);
}

#[test]
fn what_an_agent_leaves_behind_is_ended() {
    let lab = Lab::flat(&["A"]);
    // It has left the group, and holds the output open.
    let began = Instant::now();
    let (summary, told) = lab.run(&lab.options("setsid sleep 300 & echo $! > pid; echo done"));
    assert_eq!(summary.finish, RunFinish::Done);
    assert!(began.elapsed() < Duration::from_secs(200), "it was waited for");
    let left = told.iter().find_map(|event| match event {
        RunEvent::LeftBehind { processes, .. } => Some(*processes),
        _ => None,
    });
    assert_eq!(left, Some(1));
    let pid = lab.file("pid");
    assert!(
        !Path::new(&format!("/proc/{}/cmdline", pid.trim())).exists()
            || fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap().is_empty()
    );
}

#[test]
fn a_rate_limit_is_waited_for() {
    let lab = Lab::flat(&["A"]);
    let script = "[ -e tried ] || { touch tried; echo 'Error: rate limit exceeded, try again in 1s' >&2; exit 1; }";
    let (summary, told) = lab.run(&lab.options(script));
    assert_eq!(summary.finish, RunFinish::Done, "{told:?}");
    assert!(told.iter().any(|event| matches!(event, RunEvent::Waiting { .. })));
    let view = lab.store.view(&SessionRef::Id(lab.id)).unwrap();
    assert_eq!(view.state().unwrap().tasks.get("A").unwrap().failures, 0);
}

#[test]
fn a_flood_is_recorded_in_part_and_said() {
    let lab = Lab::flat(&["A"]);
    let script = "yes 0123456789012345678901234567890123456789 | head -c 5000000; yes error | head -c 1000000 >&2; echo last";
    let (summary, _) = lab.run(&lab.options(script));
    assert_eq!(summary.finish, RunFinish::Done);
    let bytes: usize =
        lab.events().iter().map(|event| event.data.as_ref().unwrap().as_str().len()).sum();
    assert!(bytes < 4_000_000, "{bytes}");
    assert!(lab.said().contains("last"), "the end is kept");
}

#[test]
fn a_program_that_is_not_there_ends_the_run_and_leaves_the_task() {
    let lab = Lab::flat(&["A"]);
    let mut options = lab.options("");
    options.command = vec!["no-such-program".to_owned()];
    let error = run(
        &lab.session(),
        &options,
        &Stop::default(),
        &mut |_| Some(RetryDecision::Retry),
        &mut |_| {},
    );
    assert!(error.unwrap_err().to_string().contains("no-such-program"));
    assert_eq!(lab.status("A"), TaskStatus::Planned);
    let view = lab.store.view(&SessionRef::Id(lab.id)).unwrap();
    assert_eq!(view.state().unwrap().core.status, SessionStatus::Interrupted);
}

/// As a run leaves it that was killed in the middle.
fn leave_half_way(lab: &Lab, own: Option<&str>) {
    let session = lab.session();
    let implementing = TaskStatusChange {
        task: "A".into(),
        status: TaskStatus::Implementing,
        ..TaskStatusChange::default()
    };
    let started = TurnStart { agent: "codex".to_owned(), ..TurnStart::default() };
    let call = ToolCall { call: "c1".into(), name: "bash".into(), arguments: None, observed: true };
    let mut events: Vec<NewEvent> = vec![
        implementing.try_into().unwrap(),
        NewEvent::try_from(started).unwrap().for_task("A"),
        NewEvent::try_from(call).unwrap().for_task("A"),
    ];
    if let Some(own) = own {
        let seen =
            abide::event::AgentObservation { session: Some(own.to_owned()), ..Default::default() };
        events.push(NewEvent::try_from(seen).unwrap().for_task("A"));
    }
    session.append_all(events).unwrap().wait().unwrap();
}

#[test]
fn what_a_killed_run_left_is_settled_and_the_decision_kept() {
    let lab = Lab::flat(&["A", "B"]);
    leave_half_way(&lab, None);
    let mut asked = Vec::new();
    let summary = run(
        &lab.session(),
        &lab.options("true"),
        &Stop::default(),
        &mut |left| {
            asked.push((left.task.to_string(), left.unknown.len()));
            Some(RetryDecision::Skip)
        },
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(asked, [("A".to_owned(), 1)]);
    assert_eq!((lab.status("A"), lab.status("B")), (TaskStatus::Blocked, TaskStatus::Complete));
    assert_eq!(summary.finish, RunFinish::Stuck);
    let view = lab.store.view(&SessionRef::Id(lab.id)).unwrap();
    let state = view.state().unwrap();
    assert!(state.calls.is_empty(), "its outcome is unknown, and that is recorded");
    assert_eq!(state.core.main.turn, None, "its turn is over");
}

#[test]
fn an_agent_goes_on_inside_its_own_session_or_else_from_the_start() {
    let lab = Lab::flat(&["A"]);
    leave_half_way(&lab, Some("th-1"));
    // It knows the session, unless `lost` says otherwise.
    let agent = lab.path().join("codex");
    fs::write(
        &agent,
        "#!/bin/sh\necho \"$*\" >> arguments\ncat >> told\ncase $* in *resume*) [ ! -e lost ] || { echo 'no such session' >&2; exit 1; } ;; esac\n\
         echo '{\"type\":\"thread.started\",\"thread_id\":\"th-2\"}'\n\
         echo '{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"agent_message\",\"text\":\"finished\"}}'\n\
         echo '{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":10,\"cached_input_tokens\":4,\"output_tokens\":2}}'\n",
    )
    .unwrap();
    fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut options = lab.options("");
    options.command = [agent.to_str().unwrap(), "exec", "--json", "-"].map(str::to_owned).into();
    options.adapter = AgentKind::detect(&options.command);
    assert_eq!(options.adapter.as_str(), "codex");
    let (summary, told) = lab.run(&options);
    assert_eq!(summary.finish, RunFinish::Done, "{told:?}");
    assert!(lab.file("arguments").contains("resume"), "{}", lab.file("arguments"));
    assert!(lab.file("arguments").contains("th-1"));
    assert!(lab.file("told").contains("You were interrupted"));
    assert_eq!(summary.usage.output_tokens, 2);

    let lab2 = Lab::flat(&["A"]);
    leave_half_way(&lab2, Some("th-1"));
    fs::copy(&agent, lab2.path().join("codex")).unwrap();
    fs::write(lab2.path().join("lost"), "").unwrap();
    options.directory = lab2.path().to_owned();
    let (summary, told) = lab2.run(&options);
    assert_eq!(summary.finish, RunFinish::Done, "{told:?}");
    assert_eq!(begun(&told), ["A", "A"]);
    let arguments = lab2.file("arguments");
    let lines: Vec<&str> = arguments.lines().collect();
    assert!(lines[0].contains("resume") && !lines[1].contains("resume"), "{arguments}");
    let fact = lab2.events().into_iter().rfind(|event| event.kind == Kind::AGENT_OBSERVED).unwrap();
    assert!(
        matches!(fact.fact(), Ok(Fact::AgentObserved(seen)) if seen.session.as_deref() == Some("th-2"))
    );
}

/// Prints what Codex prints, and what `more` adds.
fn codex(lab: &Lab, more: &str) -> RunOptions {
    let agent = lab.path().join("codex");
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\necho '{{\"type\":\"thread.started\",\"thread_id\":\"th\"}}'\n{more}\n"
    );
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut options = lab.options("");
    options.command = [agent.to_str().unwrap(), "exec", "--json", "-"].map(str::to_owned).into();
    options.adapter = AgentKind::detect(&options.command);
    options
}

const CALL: &str = r#"echo '{"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"make","aggregated_output":"","exit_code":null,"status":"in_progress"}}'"#;
const RESULT: &str = r#"echo '{"type":"item.completed","item":{"id":"item_0","type":"command_execution","command":"make","aggregated_output":"ok","exit_code":0,"status":"completed"}}'"#;

#[test]
fn an_agent_that_is_killed_in_a_call_is_decided_about() {
    let script =
        format!("{CALL}\n[ -e tried ] || {{ touch tried; sleep 0.3; kill -9 $$; }}\n{RESULT}");
    for (decision, status) in [
        (Some(RetryDecision::Retry), TaskStatus::Complete),
        (Some(RetryDecision::Skip), TaskStatus::Blocked),
        (None, TaskStatus::Planned),
    ] {
        let lab = Lab::flat(&["A"]);
        let options = codex(&lab, &script);
        let mut asked = 0;
        let done = run(
            &lab.session(),
            &options,
            &Stop::default(),
            &mut |left| {
                assert_eq!(left.unknown.len(), 1, "{left:?}");
                asked += 1;
                decision
            },
            &mut |_| {},
        );
        assert_eq!(done.is_ok(), decision.is_some(), "{done:?}");
        assert_eq!(asked, 1);
        assert_eq!(lab.status("A"), status);
        let view = lab.store.view(&SessionRef::Id(lab.id)).unwrap();
        assert_eq!(view.state().unwrap().calls.is_empty(), decision.is_some());
        if decision.is_none() {
            // Whoever goes on is asked once more.
            let mut asked = 0;
            let done = run(
                &lab.session(),
                &options,
                &Stop::default(),
                &mut |left| {
                    asked += left.unknown.len();
                    Some(RetryDecision::Skip)
                },
                &mut |_| {},
            );
            assert_eq!((asked, done.unwrap().finish), (1, RunFinish::Stuck));
        }
    }
}

#[test]
fn calls_of_two_agents_are_told_apart() {
    let lab = Lab::flat(&["A", "B"]);
    // Long enough for both calls to be recorded before either has its result.
    let wait = "touch $ABIDE_TASK; until [ -e A ] && [ -e B ]; do sleep 0.01; done; sleep 0.4";
    let options = RunOptions { jobs: 2, ..codex(&lab, &format!("{CALL}\n{wait}\n{RESULT}")) };
    let (summary, _) = lab.run(&options);
    assert_eq!(summary.finish, RunFinish::Done);
    let view = lab.store.view(&SessionRef::Id(lab.id)).unwrap();
    let core = view.state().unwrap().core;
    assert_eq!((core.calls.tools, core.calls.finished), (2, 2));
    assert_eq!(core.health.anomalies, 0, "{:?}", core.health.last_anomaly);
}

#[test]
fn a_task_that_failed_has_its_attempts_left_after_a_stop() {
    let lab = Lab::flat(&["A"]);
    let options = RunOptions { retries: Some(1), ..lab.options("sleep 0.2; [ -e well ]") };
    let stop = Stop::default();
    let asking = stop.clone();
    let (summary, _) = lab.run_with(&options, &stop, &mut |event| {
        if matches!(event, RunEvent::TaskStarted { .. }) {
            asking.ask();
        }
    });
    assert_eq!(summary.finish, RunFinish::Stopped);
    assert_eq!(lab.status("A"), TaskStatus::Planned);
    fs::write(lab.path().join("well"), "").unwrap();
    let (summary, _) = lab.run(&options);
    assert_eq!(summary.finish, RunFinish::Done);
}

#[test]
fn a_number_of_tasks_is_that_of_tasks_not_of_attempts() {
    let lab = Lab::flat(&["A", "B"]);
    let script = "[ -e tried ] || { touch tried; exit 1; }";
    let options = RunOptions { max_tasks: Some(1), retries: Some(1), ..lab.options(script) };
    let (summary, told) = lab.run(&options);
    assert_eq!((summary.finish, begun(&told)), (RunFinish::EnoughTasks, vec!["A".to_owned(); 2]));
    assert_eq!((lab.status("A"), lab.status("B")), (TaskStatus::Complete, TaskStatus::Planned));
    let lab = Lab::flat(&["A", "B"]);
    let options =
        RunOptions { max_tasks: Some(1), continue_on_error: true, ..lab.options("exit 1") };
    assert_eq!(lab.run(&options).0.finish, RunFinish::Failed);
}

#[test]
fn a_limit_of_long_ago_is_no_excuse() {
    let lab = Lab::flat(&["A"]);
    let limit =
        r#"echo '{"type":"error","message":"Rate limit reached. Please try again in 1s."}'"#;
    // It met one, went on, and failed at something else.
    let options = codex(&lab, &format!("{limit}\n{CALL}\n{RESULT}\nexit 1"));
    let (summary, told) = lab.run(&options);
    assert_eq!((summary.finish, begun(&told).len()), (RunFinish::Failed, 1), "{told:?}");
}
