//! The example agent, killed again and again: the conversation is whole and valid, and every tool
//! has its effect once, or is reported as unknown.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide::{LocalOptions, LocalStore, MessageForm, SessionRef, Store, event::OUTCOME_UNKNOWN};
use abide_testkit::stub_model::{Failure, StubAnswer, StubCall, StubModel, StubRequest};
use abide_testkit::{FaultRun, Random};
use serde_json::{Value, json};

/// The example, run by a process of its own.
#[allow(dead_code, unreachable_pub)]
#[path = "../../examples/agent.rs"]
pub(crate) mod example;

/// How many tools the model asks for.
const CALLS: usize = 12;

fn kills() -> usize {
    FaultRun::from_env().len(12, 200)
}

fn seed() -> u64 {
    FaultRun::from_env().seed()
}

/// What a request says that the API would refuse.
fn objection(messages: &[Value]) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            match open.iter().position(|open| open == id) {
                Some(place) => drop(open.remove(place)),
                None => return Some(format!("a result without its call: {id}")),
            }
            continue;
        }
        if !open.is_empty() {
            return Some(format!("no result for {open:?}"));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            open.push(call["id"].as_str().unwrap_or_default().to_owned());
        }
        if message["content"].is_null() && message["tool_calls"].is_null() {
            return Some(format!("a message of nothing: {message}"));
        }
    }
    (!open.is_empty()).then(|| format!("no result for {open:?}"))
}

/// A model that asks for one or two tools at a time, going on from the last that it sees in its
/// context.
#[derive(Default)]
struct Model {
    objections: Mutex<Vec<String>>,
    compacted: AtomicBool,
}

impl Model {
    fn answer(&self, request: &StubRequest) -> StubAnswer {
        self.objections.lock().unwrap().extend(objection(request.messages()));
        let text = request.body.to_string();
        if text.contains("Summary of the conversation") {
            self.compacted.store(true, Ordering::Relaxed);
        }
        let seen =
            request.calls().into_iter().filter_map(|id| id.strip_prefix("call-")?.parse().ok());
        let next = seen.max().map_or(0, |seen: usize| seen + 1);
        let both = if next % 3 == 0 { 2 } else { 1 };
        let calls = (next..(next + both).min(CALLS)).map(|number| {
            let command = format!("sleep 0.01; echo call-{number} >> effects.txt; echo done");
            StubCall::new(format!("call-{number}"), "sh", json!({"command": command}))
        });
        let mut answer = StubAnswer::calls(calls.collect());
        answer.text = match next < CALLS {
            true => format!("I will now do step {next}. {}", "Let me think. ".repeat(10)),
            false => "All of it is done.".to_owned(),
        };
        answer.usage.input = text.len() as u64 / 4;
        answer.piece = 9;
        answer.delay = Duration::from_micros(300);
        answer
    }
}

#[test]
#[ignore = "it is what the other test starts and kills"]
fn the_agent() {
    let dir = std::env::var("ABIDE_AGENT_DIR").unwrap();
    example::work("Do the steps", &dir).unwrap();
}

fn start(dir: &Path, url: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "agent::the_agent", "--ignored", "--nocapture"])
        .env("ABIDE_AGENT_DIR", dir)
        .env("OPENAI_BASE_URL", url)
        .env("MODEL", "a-model")
        .env("COMPACT_OVER", "800")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs one session to its end, killing the agent on the way; says how often.
fn session(random: &mut Random, most: usize) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let model = Arc::new(Model::default());
    let theirs = model.clone();
    let stub = StubModel::answering(move |request| theirs.answer(request)).unwrap();
    let url = stub.base_url();
    let mut kills = 0;
    loop {
        let mut child = start(dir.path(), &url);
        if kills < most {
            std::thread::sleep(Duration::from_micros(random.below(150_000)));
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
                continue;
            }
        }
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        break;
    }
    let objections = model.objections.lock().unwrap();
    assert!(objections.is_empty(), "{objections:?}");
    assert!(model.compacted.load(Ordering::Relaxed), "nothing was compacted");
    check(dir.path());
    kills
}

/// The session is whole, its conversation valid, and each effect there once or unknown.
fn check(dir: &Path) {
    // The child of an agent that was killed may outlive it by a moment.
    std::thread::sleep(Duration::from_millis(50));
    let store = Store::open(dir).unwrap();
    let view = store.view(&SessionRef::Latest).unwrap();
    let context = view.context(None).unwrap();
    assert!(context.pending.is_empty() && context.notes.is_empty());
    let rendered = context.render(MessageForm::OpenAi);
    let messages: Vec<Value> =
        rendered.messages.iter().map(|raw| serde_json::from_str(raw.get()).unwrap()).collect();
    assert_eq!(objection(&messages), None);
    let effects = std::fs::read_to_string(dir.join("effects.txt")).unwrap();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    effects.lines().for_each(|line| *times.entry(line).or_default() += 1);
    let mut outcomes: BTreeMap<String, bool> = BTreeMap::new();
    for event in view.events(abide::EventRange::ALL) {
        let event = event.unwrap();
        if event.kind == abide::Kind::TOOL_FINISHED {
            let data: Value = serde_json::from_str(event.data.unwrap().as_str()).unwrap();
            let known = data["result"] != OUTCOME_UNKNOWN;
            let call = data["call"].as_str().unwrap().to_owned();
            assert_eq!(outcomes.insert(call, known), None, "a call has ended twice");
        }
    }
    assert_eq!(outcomes.len(), CALLS);
    for (call, known) in &outcomes {
        let times = times.get(call.as_str()).copied().unwrap_or(0);
        assert!(times == 1 || (times == 0 && !known), "{call}: {times} times, known: {known}");
    }
    let local = LocalStore::open(&dir.join(".abide"), LocalOptions::default()).unwrap();
    let examined = local.doctor().examine(view.id()).unwrap();
    let bad = |found: &&abide::maintenance::Finding| {
        found.severity > abide::maintenance::Severity::Warning
    };
    let bad: Vec<_> = examined.findings.iter().filter(bad).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn an_agent_that_is_killed_anywhere_goes_on_and_repeats_nothing() {
    let mut random = Random::new(seed());
    let (mut done, mut sessions) = (0, 0);
    while done < kills() {
        done += session(&mut random, kills() - done);
        sessions += 1;
    }
    println!("{done} kills in {sessions} sessions");
}

/// An agent whose answer is cut off, refused or empty fails, and the next one goes on.
#[test]
fn an_answer_that_is_cut_off_is_not_the_last_word() {
    let dir = tempfile::tempdir().unwrap();
    let failures = [
        StubAnswer::text("I will now del").but(Failure::CloseAfter(300)),
        StubAnswer::status(500, "no"),
        StubAnswer::text(""),
    ];
    for failing in failures {
        let stub = StubModel::answering(move |_| failing.clone()).unwrap();
        let out = start(dir.path(), &stub.base_url()).wait_with_output().unwrap();
        assert!(!out.status.success());
        assert_eq!(stub.count(), 1, "it asks once and fails");
    }
    let stub = StubModel::answering(|_| StubAnswer::text("All done.")).unwrap();
    let out = start(dir.path(), &stub.base_url()).wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(stub.count(), 1);
    let view = Store::open(dir.path()).unwrap().view(&SessionRef::Latest).unwrap();
    assert!(view.context(None).unwrap().is_answered());
}
