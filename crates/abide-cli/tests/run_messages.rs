//! What a run records of a conversation: the prompt, what the agent says, what a person types.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::environment::{ABIDE, Done, TestEnvironment, run};
use crate::run_view::Terminal;

const CLAUDE: &str = include_str!("../../abide-agents/src/claude/samples/run.jsonl");
const CODEX: &str = include_str!("../../abide-agents/src/codex/samples/run.jsonl");
const CODEX_TOOLS: &str = include_str!("../../abide-agents/src/codex/samples/tools.jsonl");
const OPENCODE: &str = include_str!("../../abide-agents/src/opencode/samples/run.jsonl");
const GEMINI: &str = include_str!("../../abide-agents/src/gemini/samples/run.jsonl");

/// An agent of this name that keeps what it is given, does this and prints these lines.
fn agent(environment: &TestEnvironment, name: &str, more: &str, printed: &str) {
    let project = environment.project();
    fs::write(project.join("printed"), printed).unwrap();
    let script = format!("#!/bin/sh\n{more}\ncat >> given\ncat printed\n");
    fs::write(project.join(name), script).unwrap();
    fs::set_permissions(project.join(name), fs::Permissions::from_mode(0o755)).unwrap();
}

fn given(environment: &TestEnvironment) -> String {
    fs::read_to_string(environment.project().join("given")).unwrap()
}

fn events(environment: &TestEnvironment) -> Vec<Value> {
    environment.run(&["export"]).success().json_lines()
}

/// What was said: the role, the lane if it is not the main one, and the content, with the parts of
/// a message put together.
fn conversation(environment: &TestEnvironment) -> String {
    let mut said: Vec<(String, Value, Value)> = Vec::new();
    for event in events(environment).iter().filter(|event| event["kind"] == "message.added") {
        let data = &event["data"];
        let lane = event["lane"].as_str().map(|lane| format!("[{lane}] ")).unwrap_or_default();
        let who = format!("{lane}{}", data["role"].as_str().unwrap());
        let answer = &data["abide"]["answer"];
        match said.last_mut().filter(|last| !answer.is_null() && last.2 == *answer) {
            Some(last) => {
                let all = [&last.1, &data["content"]].map(|text| text.as_str().unwrap().to_owned());
                last.1 = Value::String(all.concat());
            }
            None => said.push((who, data["content"].clone(), answer.clone())),
        }
    }
    let lines = said.into_iter().map(|(who, content, _)| match content {
        Value::String(text) => format!("{who}: {:?}", text.trim_end()),
        blocks => format!("{who}: {blocks}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The kinds of the events of each turn, up to the first that the agent caused.
fn beginnings(environment: &TestEnvironment) -> Vec<String> {
    let mut all = Vec::new();
    let mut events = events(environment).into_iter();
    while let Some(event) = events.by_ref().find(|event| event["kind"] == "turn.started") {
        let next = events.next().unwrap();
        let role = next["data"]["role"].as_str().unwrap_or_default();
        assert_eq!((&next["turn"], &next["lane"]), (&event["turn"], &Value::Null), "{next}");
        all.push(format!("turn {}: {} {role}", event["turn"], next["kind"].as_str().unwrap()));
    }
    all
}

fn run_with(environment: &TestEnvironment, command: &[&str], input: &str) -> Done {
    run(environment.command(&[&["run", "--"], command].concat()), input.as_bytes())
}

#[test]
fn the_prompt_of_a_command_is_its_first_message() {
    let said = |command: &[&str], printed: &str| {
        let environment = TestEnvironment::new();
        agent(&environment, command[0].strip_prefix("./").unwrap(), "", printed);
        run_with(&environment, command, "").success();
        let beginnings = beginnings(&environment);
        assert_eq!(beginnings, ["turn 1: message.added user"], "{command:?}");
        conversation(&environment)
    };
    let claude =
        ["./claude", "--output-format", "stream-json", "--verbose", "-p", "Mend the parser."];
    insta::assert_snapshot!(said(&claude, CLAUDE), @r#"
    user: "Mend the parser."
    assistant: [{"text":"Step 0.","type":"text"}]
    assistant: [{"id":"call_0_0","input":{"command":"echo one >> out.txt; echo hello","description":"Append"},"name":"Bash","type":"tool_use"}]
    user: [{"tool_use_id":"call_0_0","type":"tool_result","content":"hello","is_error":false}]
    assistant: [{"text":"Step 1.","type":"text"}]
    assistant: [{"id":"call_1_0","input":{"file_path":"/project/new.txt","content":"hi"},"name":"Write","type":"tool_use"}]
    user: [{"tool_use_id":"call_1_0","type":"tool_result","content":"File created successfully at: /project/new.txt (file state is current in your context — no need to Read it back)"}]
    assistant: [{"text":"Step 2.","type":"text"}]
    assistant: [{"id":"call_2_0","input":{"file_path":"/project/missing.txt"},"name":"Read","type":"tool_use"}]
    user: [{"type":"tool_result","content":"File does not exist. Note: your current working directory is /project.","is_error":true,"tool_use_id":"call_2_0"}]
    assistant: [{"text":"All done.","type":"text"}]
    "#);
    let codex = ["./codex", "exec", "--json", "--full-auto", "Mend the parser."];
    insta::assert_snapshot!(said(&codex, CODEX), @r#"
    user: "Mend the parser."
    assistant: "Step 0."
    assistant: "Step 1."
    assistant: "All done."
    "#);
    // Gemini prints its prompt again.
    let gemini = ["./gemini", "-o", "stream-json", "--prompt=Do the first thing"];
    insta::assert_snapshot!(said(&gemini, GEMINI), @r#"
    user: "Do the first thing"
    assistant: "I will append a line."
    assistant: "Done."
    "#);
    let opencode = ["./opencode", "run", "-m", "a/b", "Mend", "the parser."];
    insta::assert_snapshot!(said(&opencode, "I see.\nIt is done.\n"), @r#"
    user: "Mend the parser."
    assistant: "I see.\nIt is done."
    "#);
    let aider = ["./aider", "--yes", "--message", "Mend the parser.", "a.py"];
    insta::assert_snapshot!(said(&aider, "Applied edit to a.py\n"), @r#"
    user: "Mend the parser."
    assistant: "Applied edit to a.py"
    "#);
}

#[test]
fn what_an_agent_does_is_recorded_as_calls_and_not_as_text() {
    let codex: &[&str] = &["./codex", "exec", "--json", "Mend the parser."];
    let opencode: &[&str] = &["./opencode", "run", "--format", "json", "Mend the parser."];
    for (command, printed, calls, failed) in [
        (codex, CODEX_TOOLS, 15, ["1.item_7", "1.item_15"]),
        (opencode, OPENCODE, 17, ["call_05", "call_14"]),
    ] {
        let environment = TestEnvironment::new();
        agent(&environment, command[0].strip_prefix("./").unwrap(), "", printed);
        run_with(&environment, command, "").success();
        let all = events(&environment);
        let of_kind = |kind: &str| -> Vec<Value> {
            let found = all.iter().filter(|event| event["kind"] == kind);
            found.map(|event| event["data"].clone()).collect()
        };
        let ids = |data: &[Value]| -> Vec<Value> {
            data.iter().map(|data| data["call"].clone()).collect()
        };
        let (called, finished) = (of_kind("tool.called"), of_kind("tool.finished"));
        assert_eq!(called.len(), calls, "{command:?}");
        assert_eq!(ids(&called), ids(&finished), "{command:?}");
        let not_ok: Vec<Value> = finished.into_iter().filter(|data| data["ok"] == false).collect();
        assert_eq!(ids(&not_ok), failed, "{command:?}");
        assert!(of_kind("agent.observed").iter().any(|data| data["session"].is_string()));
        assert_eq!(of_kind("log.recorded"), Vec::<Value>::new(), "{command:?}");
        let said = conversation(&environment);
        assert!(said.contains("## Done ✅") && !said.contains("timestamp"), "{said}");
    }
}

#[test]
fn of_an_unknown_command_no_prompt_is_guessed() {
    let environment = TestEnvironment::new();
    agent(&environment, "other", "", "I do.\n");
    run_with(&environment, &["./other", "-p", "Mend the parser."], "a text").success();
    assert_eq!(conversation(&environment), r#"assistant: "I do.""#);
    assert_eq!(given(&environment), "a text");
}

#[test]
fn a_prompt_on_stdin_is_recorded_and_given_to_every_attempt() {
    let said = |command: &[&str], printed: &str| {
        let environment = TestEnvironment::new();
        agent(&environment, command[0].strip_prefix("./").unwrap(), "", printed);
        run_with(&environment, command, "A log:\nno such file\n").success();
        assert_eq!(given(&environment), "A log:\nno such file\n", "{command:?}");
        conversation(&environment).lines().next().unwrap().to_owned()
    };
    insta::assert_snapshot!(said(&["./claude", "-p"], ""), @r#"user: "A log:\nno such file""#);
    insta::assert_snapshot!(
        said(&["./claude", "-p", "What is wrong?"], ""),
        @r#"user: "What is wrong?\nA log:\nno such file""#
    );
    insta::assert_snapshot!(
        said(&["./codex", "exec", "--json", "-"], CODEX),
        @r#"user: "A log:\nno such file""#
    );
    insta::assert_snapshot!(
        said(&["./codex", "exec", "What is wrong?"], ""),
        @r#"user: "What is wrong?\n\n<stdin>\nA log:\nno such file\n</stdin>""#
    );
    // Gemini prints it again, in one piece.
    let environment = TestEnvironment::new();
    let echo = r#"{"type":"message","role":"user","content":"A log\n\nWhat is wrong?"}"#;
    agent(&environment, "gemini", "", &format!("{echo}\n"));
    let command = ["./gemini", "-o", "stream-json", "-p", "What is wrong?"];
    run_with(&environment, &command, "A log\n").success();
    assert_eq!(conversation(&environment), r#"user: "A log\n\nWhat is wrong?""#);

    // It failed once, and is told the same again.
    let environment = TestEnvironment::new();
    let fails = "[ -e once ] || { touch once; cat >> given; exit 1; }";
    agent(&environment, "codex", fails, CODEX);
    let command =
        environment.command(&["run", "--attempts", "2", "--", "./codex", "exec", "--json"]);
    run(command, b"Mend the parser.\n").success();
    assert_eq!(given(&environment), "Mend the parser.\n".repeat(2));
    let twice = ["turn 1: message.added user", "turn 2: message.added user"];
    assert_eq!(beginnings(&environment), twice);
}

/// Waits for a condition, not for a time.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A run whose stdin stays open.
fn start_with_open_stdin(environment: &TestEnvironment, command: &[&str]) -> Child {
    let mut run = environment.command(&[&["run", "--"], command].concat());
    run.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn an_open_pipe_on_stdin_does_not_hold_up_an_agent_that_has_its_prompt() {
    let environment = TestEnvironment::new();
    agent(&environment, "claude", "", "Done.\n");
    let mut run = start_with_open_stdin(&environment, &["./claude", "-p", "Mend it."]);
    let stdin = run.stdin.take();
    assert!(run.wait().unwrap().success());
    drop(stdin);
    assert_eq!(conversation(&environment), "user: \"Mend it.\"\nassistant: \"Done.\"");
}

#[test]
fn a_run_that_waits_for_its_prompt_can_be_stopped() {
    let environment = TestEnvironment::new();
    agent(&environment, "codex", "touch started", CODEX);
    let mut run = start_with_open_stdin(&environment, &["./codex", "exec", "--json", "-"]);
    let stdin = run.stdin.take();
    until("the run does not begin", || {
        let listed = environment.run(&["history", "--json"]).success();
        listed.stdout().contains("\"running\"")
    });
    // Not SIGINT: whoever starts the tests in the background may have it ignored.
    let pid = Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(4));
    drop(stdin);
    assert!(!environment.project().join("started").exists());
}

#[test]
fn a_prompt_is_durable_before_its_agent_is_started() {
    let environment = TestEnvironment::new();
    let kills = "[ -e once ] || { touch once; kill -9 $PPID; exit 0; }";
    agent(&environment, "claude", kills, CLAUDE);
    let command = ["run", "--", "./claude", "-p", "Mend it.", "--output-format", "stream-json"];
    environment.run(&command).failure(-1);
    assert_eq!(conversation(&environment), r#"user: "Mend it.""#);
    assert_eq!(beginnings(&environment), ["turn 1: message.added user"]);
    // The agent is told again.
    environment.run(&["resume"]).success();
    assert_eq!(conversation(&environment).matches(r#"user: "Mend it.""#).count(), 2);
    environment.run(&["doctor", "--all"]).success();
}

#[test]
fn of_a_text_that_is_cut_off_all_but_its_end_is_recorded() {
    let environment = TestEnvironment::new();
    let script = format!(
        "#!/bin/sh\nrecorded() {{\nn=0\nuntil '{ABIDE}' export | grep -q $1 || [ $n -ge 400 ]\n\
         do n=$((n + 1)); sleep 0.05; done\n}}\n\
         printf 'One.\\n\\nTwo.\\nhalf a line'; recorded Two.\n\
         printf ' and the rest\\nThree.\\n'; recorded Three.\n\
         printf 'lost'\nkill -9 $PPID\n"
    );
    let path = environment.project().join("agent");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    environment.run(&["run", "--", "./agent"]).failure(-1);
    let parts: Vec<Value> = events(&environment)
        .into_iter()
        .filter(|event| event["kind"] == "message.added")
        .map(|event| event["data"].clone())
        .collect();
    insta::assert_snapshot!(parts.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"), @r#"
    {"role":"assistant","content":"One.\n\nTwo.\n","abide":{"answer":"1.text-1"}}
    {"role":"assistant","content":"half a line and the rest\nThree.\n","abide":{"answer":"1.text-1"}}
    "#);
    // To a model it is one message.
    let context = environment.run(&["context", "--format", "anthropic"]).success();
    assert_eq!(context.stdout().matches("\"assistant\"").count(), 1, "{}", context.stdout());
}

#[test]
fn what_is_printed_and_what_is_typed_are_messages_in_turn() {
    let Some(terminal) = Terminal::new(90, 24) else { return };
    let script = "#!/bin/sh\nprintf 'Hello.\\nYour name? '; read name\n\
        echo \"Hello $name.\"; stty -echo; printf 'Your password? '; read password; stty echo\n\
        printf '\\n%s letters. Go on? ' ${#password}; read answer\necho \"You said $answer.\"\n";
    let path = terminal.environment.project().join("agent");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    terminal.type_line(&format!("'{ABIDE}' run -- ./agent; echo ended $?"));
    terminal.until("Your name?");
    terminal.type_line("Bob");
    terminal.until("Your password?");
    terminal.type_line("hunter2");
    terminal.until("7 letters. Go on?");
    terminal.type_line("yes, to the end");
    terminal.until("ended 0");
    insta::assert_snapshot!(conversation(&terminal.environment), @r#"
    assistant: "Hello.\nYour name?"
    user: "Bob"
    assistant: "Hello Bob.\nYour password? \n7 letters. Go on?"
    user: "yes, to the end"
    assistant: "You said yes, to the end."
    "#);
    let exported = terminal.environment.run(&["export"]).success();
    assert!(!exported.stdout().contains("hunter2"), "{}", exported.stdout());
}

#[test]
fn of_an_agent_that_prints_text_it_is_said_how_its_calls_would_be_recorded() {
    let environment = TestEnvironment::new();
    agent(&environment, "claude", "", "hello\n");
    let line = "Only the text of claude is recorded; with `--output-format stream-json --verbose` its \
                tool calls are, too\n";
    let told = environment.run(&["run", "./claude", "-p", "hi"]).success();
    assert!(told.stderr.contains(line), "{told:?}");
    assert!(told.stderr.contains("Files changed during this run: 1 created"), "{told:?}");
    for options in [&["run", "--json"][..], &["run", "--adapter", "text"]] {
        let told = environment.run(&[options, &["./claude", "-p", "hi"]].concat()).success();
        assert!(!told.stderr.contains("Only the text"), "{told:?}");
    }
    agent(&environment, "claude", "", CLAUDE);
    let events = ["./claude", "-p", "hi", "--output-format", "stream-json", "--verbose"];
    let told = environment.run(&[&["run"][..], &events].concat()).success();
    assert!(!told.stderr.contains("Only the text"), "{told:?}");
}
