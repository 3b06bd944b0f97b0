//! Commands that are run from inside an agent, whose session somebody else holds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

use abide::{Session, SessionRef, Store, backend::ChildService};

use crate::environment::{Conversation, HELLO, TestEnvironment, run};

/// A session that this process holds and serves, as a supervisor does.
struct Supervised {
    environment: TestEnvironment,
    session: Session,
    socket: ChildService,
    /// The kinds of what was recorded for children.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Supervised {
    fn new() -> Self {
        let environment = TestEnvironment::new();
        environment.run(&["init"]).success();
        let id = environment.run(&["new"]).success().stdout().trim().to_owned();
        let store = Store::open(environment.project()).unwrap();
        let session = store.open_session(&SessionRef::parse(&id)).unwrap();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let told = seen.clone();
        let socket = session
            .serve_children(move |events| {
                told.lock().unwrap().extend(events.iter().map(|event| event.kind.to_string()));
            })
            .unwrap();
        Self { environment, session, socket, seen }
    }

    /// A command as the agent runs it.
    fn inside(&self, args: &[&str]) -> Command {
        let mut command = self.environment.command(args);
        command.env("ABIDE_SESSION", self.session.id().to_string());
        command.env("ABIDE_TASK", "P1.T2").env("ABIDE_LANE", "job-3");
        command
    }
}

const BARE: &str = r#"{"kind":"x.bare","data":{}}"#;
const OWN: &str = r#"{"kind":"x.own","data":{},"task":"T9","lane":"main"}"#;

#[test]
fn an_agent_records_into_the_session_that_its_supervisor_holds() {
    let supervised = Supervised::new();
    let input = format!("{BARE}\n{OWN}\nnonsense\n{HELLO}\n");
    let done = run(supervised.inside(&["record"]), input.as_bytes()).failure(1);
    let answers = done.json_lines();
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[2]["error"]["code"], "not_json");
    assert_eq!(*supervised.seen.lock().unwrap(), ["x.bare", "x.own", "message.added"]);
    run(supervised.inside(&["checkpoint", "create", "-m", "from inside"]), b"").success();
    assert_eq!(supervised.seen.lock().unwrap().last().unwrap(), "checkpoint.created");
    // The holder goes on meanwhile, with one history.
    supervised.session.append(abide::Message::user("from the holder")).unwrap().wait().unwrap();
    assert_eq!(supervised.session.state().unwrap().core.messages.total, 2);
    assert_eq!(supervised.session.state().unwrap().core.checkpoints.total, 1);
    let id = supervised.session.id().to_string();
    let events = supervised.environment.run(&["export", &id]).success().json_lines();
    for (answer, kind, task, lane) in [(0, "x.bare", "P1.T2", "job-3"), (1, "x.own", "T9", "main")]
    {
        let event = events.iter().find(|event| event["seq"] == answers[answer]["seq"]).unwrap();
        assert_eq!(event["kind"], kind);
        assert_eq!((&event["task"], &event["lane"]), (&task.into(), &lane.into()));
    }
    let opened = events.iter().filter(|event| event["kind"] == "writer.opened").count();
    assert_eq!(opened, 1, "nobody else has opened it");
    // Another session is none of the task's.
    let new = run(supervised.inside(&["record", "--new"]), format!("{BARE}\n").as_bytes());
    let new = new.success().json_lines()[0]["session"].as_str().unwrap().to_owned();
    assert_ne!(new, id);
    let bare = supervised.environment.run(&["export", &new]).success().json_lines();
    let bare = bare.iter().find(|event| event["kind"] == "x.bare").unwrap();
    assert_eq!((bare.get("task"), bare.get("lane")), (None, None));
    // So does whoever was not started for it; a run, which needs the session for itself, is refused
    // and told who holds it.
    let args = ["record", "-s", &id, "--wait", "0"];
    run(supervised.environment.command(&args), format!("{HELLO}\n").as_bytes()).success();
    let refused = run(supervised.environment.command(&["resume", &id, "--", "true"]), b"");
    let refused = refused.failure(1);
    assert!(refused.stderr.contains(&format!("process {}", std::process::id())), "{refused:?}");
}

/// The kinds of a session's events, but for those of writers.
fn kinds(environment: &TestEnvironment, id: &str) -> Vec<String> {
    let events = environment.run(&["export", id]).success().json_lines();
    let kinds = events.iter().map(|event| event["kind"].as_str().unwrap().to_owned());
    kinds.filter(|kind| !kind.starts_with("writer.")).collect()
}

#[test]
fn every_command_works_on_a_session_that_a_long_recording_holds() {
    let environment = TestEnvironment::bare();
    let file = environment.project().join("notes");
    fs::write(&file, "one").unwrap();
    let mut recording = Conversation::start(environment.command(&["record", "--key", "long"]));
    let id = recording.ask(HELLO)["session"].as_str().unwrap().to_owned();
    let history = environment.run(&["history"]).success();
    let short = history.stdout().split('\t').next().unwrap();
    // From any terminal, by a short id or by none.
    environment.run(&["checkpoint", "create", "-m", "first"]).success();
    fs::write(&file, "two").unwrap();
    environment.record(&["-s", short], &[HELLO]).success();
    environment.record(&["--key", "long"], &[HELLO]).success();
    environment.run(&["tasks", "add", "Look into it", "-s", short]).success();
    environment.run(&["checkpoint", "create", "-s", short]).success();
    environment.run(&["status"]).success();
    // The files go back; the conversation stays, since the recorder's agent has it in memory.
    let refused = environment.run(&["rewind", "--to", "first", "--yes"]).failure(1);
    assert!(refused.stderr.contains("has it in memory"), "{refused:?}");
    assert!(refused.stderr.contains("`--files`"), "{refused:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");
    environment.run(&["rewind", "--to", "first", "--files", "--dry-run"]).success();
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");
    environment.run(&["rewind", "--to", "first", "--files", "--yes"]).success();
    assert_eq!(fs::read_to_string(&file).unwrap(), "one");
    environment.run(&["undo", "--yes"]).success();
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");
    // One history, in which the recording goes on.
    let last = recording.ask(HELLO)["seq"].as_u64().unwrap();
    assert_eq!(recording.end(), 0);
    let events = environment.run(&["export", &id]).success().json_lines();
    let opened = events.iter().filter(|event| event["kind"] == "writer.opened").count();
    assert_eq!(opened, 1, "nobody else has opened it");
    assert!(events.iter().any(|event| event["seq"] == last && event["kind"] == "message.added"));
    let kinds = kinds(&environment, &id);
    let count = |kind: &str| kinds.iter().filter(|one| *one == kind).count();
    assert_eq!(count("message.added"), 4);
    assert_eq!(count("task.created"), 1);
    assert_eq!((count("session.rewound"), count("files.restored")), (2, 2));
    environment.run(&["doctor", "--all"]).success();
}

#[test]
fn checkpoints_that_are_made_at_once_have_numbers_of_their_own() {
    let environment = TestEnvironment::bare();
    fs::write(environment.project().join("notes"), "one").unwrap();
    let mut recording = Conversation::start(environment.command(&["record"]));
    recording.ask(HELLO);
    let all = std::thread::scope(|scope| {
        let make = || environment.run(&["checkpoint", "create", "--json"]).success();
        let made: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        let made =
            made.into_iter().map(|one| one.join().unwrap().json_lines()[0]["number"].clone());
        made.map(|number| number.as_u64().unwrap()).collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!(all, (1..=8).collect());
    assert_eq!(recording.end(), 0);
    environment.run(&["doctor", "--all"]).success();
}

#[test]
fn a_recording_that_is_killed_leaves_its_session_to_the_next_command() {
    let environment = TestEnvironment::bare();
    let mut recording = Conversation::start(environment.command(&["record", "--key", "long"]));
    let id = recording.ask(HELLO)["session"].as_str().unwrap().to_owned();
    environment.record(&["-s", &id], &[HELLO]).success();
    assert!(environment.session_dir().join("socket").exists());
    recording.child.kill().unwrap();
    recording.child.wait().unwrap();
    environment.record(&["-s", &id], &[HELLO]).success();
    let messages = kinds(&environment, &id).iter().filter(|kind| *kind == "message.added").count();
    assert_eq!(messages, 3);
}

#[test]
fn a_recording_makes_checkpoints_at_intervals_where_that_is_asked_for() {
    let environment = TestEnvironment::bare();
    fs::write(environment.project().join("notes"), "one").unwrap();
    let args = ["--checkpoint-every", "1h"];
    let mut recording =
        Conversation::start(environment.command(&[&["record"], &args[..]].concat()));
    let id = recording.ask(HELLO)["session"].as_str().unwrap().to_owned();
    fs::write(environment.project().join("notes"), "two").unwrap();
    assert_eq!(recording.end(), 0);
    let made =
        || kinds(&environment, &id).iter().filter(|kind| *kind == "checkpoint.created").count();
    assert_eq!(made(), 2, "one at the start, one at the end");
    environment.record(&[&args[..], &["-s", &id]].concat(), &[HELLO]).success();
    assert_eq!(made(), 2, "no file has changed");
    let wrong = environment.record(&["--checkpoint-every", "1ms"], &[HELLO]).failure(2);
    assert!(wrong.stderr.contains("at least 1s"), "{wrong:?}");
}

#[test]
fn an_agent_goes_on_when_its_supervisor_is_gone() {
    let supervised = Supervised::new();
    run(supervised.inside(&["record"]), format!("{BARE}\n").as_bytes()).success();
    let late = supervised.inside(&["record"]);
    let Supervised { environment, session, socket, .. } = supervised;
    let id = session.id().to_string();
    drop(socket);
    session.close().unwrap();
    run(late, format!("{BARE}\n").as_bytes()).success();
    let events = environment.run(&["export", &id]).success().json_lines();
    assert_eq!(events.iter().filter(|event| event["kind"] == "x.bare").count(), 2);
    assert_eq!(events.iter().filter(|event| event["kind"] == "writer.opened").count(), 2);
}

#[test]
fn a_socket_in_a_session_is_no_damage_to_anybody() {
    let supervised = Supervised::new();
    run(supervised.inside(&["record"]), format!("{HELLO}\n").as_bytes()).success();
    let environment = &supervised.environment;
    let id = supervised.session.id().to_string();
    let path = environment.session_dir().join("socket");
    let look = || {
        let checked = environment.run(&["doctor", "--all"]).success();
        assert!(!checked.stdout().contains("socket"), "{checked:?}");
        environment.run(&["export", &id]).success();
        environment.run(&["export", "--format", "bundle", "-o", "../b.abide", &id, "--force"]);
        environment.run(&["history"]).success();
        environment.run(&["status"]).success();
    };
    assert!(path.exists());
    look();
    environment.run(&["fork", "-s", &id]).success();
    assert!(path.exists());
    let Supervised { ref environment, session, socket, .. } = supervised;
    drop(socket);
    session.close().unwrap();
    // As a holder that was killed leaves it.
    drop(UnixListener::bind(&path).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let look = |args: &[&str]| environment.run(args).success();
    let checked = look(&["doctor", "--all"]);
    assert!(!checked.stdout().contains("socket"), "{checked:?}");
    look(&["export", "--format", "bundle", "-o", "../c.abide", &id]);
    look(&["record", "-s", &id]);
    let fork = look(&["fork", "-s", &id]).stdout().trim().to_owned();
    assert_ne!(fork, id);
    look(&["cleanup", "--keep", "0", "--yes"]);
    assert!(!path.exists(), "it goes with its session");
}
