//! `abide context` and `abide compact`: what the model would see, and what gives way to a summary.

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

fn message(role: &str, text: &str) -> String {
    json!({"kind": "message.added", "data": {"role": role, "content": text}}).to_string()
}

fn call(id: &str) -> String {
    let block =
        json!({"type": "tool_use", "id": id, "name": "bash", "input": {"command": "ls -l"}});
    json!({"kind": "message.added", "data": {"role": "assistant", "content": [block]}}).to_string()
}

fn result(id: &str, text: &str) -> String {
    let block = json!({"type": "tool_result", "tool_use_id": id, "content": text});
    json!({"kind": "message.added", "data": {"role": "user", "content": [block]}}).to_string()
}

/// A long piece of work with a single request.
fn long(env: &TestEnvironment) {
    let mut lines = vec![message("system", "Be brief."), message("user", "Mend the parser.")];
    for number in 0..60 {
        let id = format!("c{number}");
        lines.push(call(&id));
        lines.push(result(&id, &"-rw-r--r-- 1 user user 1234 src/parser.rs\n".repeat(5)));
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    env.record(&["--key", "long", "--title", "Long"], &lines).success();
}

fn context(env: &TestEnvironment, args: &[&str]) -> Value {
    env.run(&[&["context"], args].concat()).success().json_lines().remove(0)
}

fn messages(env: &TestEnvironment, args: &[&str]) -> Vec<Value> {
    context(env, args)["messages"].as_array().unwrap().clone()
}

/// Each call is followed by its one result, for OpenAI.
fn is_valid(messages: &[Value]) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            let place = open.iter().position(|open| *open == id).expect("its call is before it");
            open.remove(place);
            continue;
        }
        assert!(open.is_empty(), "{open:?}");
        let calls = message["tool_calls"].as_array();
        open.extend(calls.into_iter().flatten().map(|call| call["id"].as_str().unwrap()));
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_context_is_valid_for_each_api_however_it_was_recorded() {
    let env = TestEnvironment::new();
    let lines = [
        message("system", "Be brief."),
        message("user", "Go"),
        call("a"),
        call("b"),
        result("b", "second"),
        result("nobody", "stray"),
        result("a", "first"),
        call("c"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    env.record(&["--key", "k"], &lines).success();
    let openai = messages(&env, &["--format", "openai"]);
    is_valid(&openai);
    let last = openai.last().unwrap();
    assert_eq!(last["tool_call_id"], "c");
    assert!(last["content"].as_str().unwrap().contains("outcome of this call is unknown"));
    let anthropic = context(&env, &["--format", "anthropic"]);
    assert!(anthropic["system"].to_string().contains("Be brief."));
    let roles: Vec<&str> = anthropic["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles[0], "user");
    assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "{roles:?}");
    let responses = context(&env, &["--format", "responses"]);
    let kinds: Vec<&str> = responses["input"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["type"].as_str())
        .collect();
    let calls = kinds.iter().filter(|kind| **kind == "function_call").count();
    let outputs = kinds.iter().filter(|kind| **kind == "function_call_output").count();
    assert_eq!((calls, outputs), (3, 3));
    let text = env.run(&["context", "--format", "text"]).success();
    assert!(text.stdout().contains("── user @4") && text.stdout().contains("→ bash"), "{text:?}");
}

/// A tool is used, as it was executed, and no message says so.
fn used(id: &str, result: &str) -> [String; 2] {
    let called = json!({"call": id, "name": "bash", "arguments": {"command": "cargo test"}});
    let finished = json!({"call": id, "ok": true, "result": result});
    [
        json!({"kind": "tool.called", "data": called}).to_string(),
        json!({"kind": "tool.finished", "data": finished}).to_string(),
    ]
}

#[test]
fn a_call_that_no_message_holds_is_in_the_context_and_in_exports() {
    let env = TestEnvironment::new();
    let mut lines = vec![message("user", "Go")];
    lines.extend(used("c1", "3 passed"));
    lines.push(message("assistant", "It passes."));
    // One that a message holds too is told once; of one that still runs the outcome is unknown.
    lines.extend(used("c2", "4 passed"));
    lines.push(call("c2"));
    let [running, finished] = used("c3", "5 passed");
    lines.push(running.replace("\"name\"", "\"observed\":true,\"name\""));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    env.record(&["--key", "k"], &lines).success();
    let openai = messages(&env, &["--format", "openai"]);
    is_valid(&openai);
    let ids = |messages: &[Value]| -> Vec<String> {
        let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array());
        calls.flatten().map(|call| call["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&openai), ["c1", "c2", "c3"]);
    let function = json!({"name": "bash", "arguments": "{\"command\":\"cargo test\"}"});
    let called = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": function}]});
    let gave = json!({"role": "tool", "tool_call_id": "c1", "content": "3 passed"});
    assert_eq!(openai[1..3], [called.clone(), gave.clone()]);
    assert!(openai[7].to_string().contains("outcome of this call is unknown"), "{openai:?}");
    let anthropic = context(&env, &["--format", "anthropic"]).to_string();
    assert_eq!(anthropic.matches("\"tool_use\"").count(), 3, "{anthropic}");
    assert_eq!(anthropic.matches("\"tool_result\"").count(), 3, "{anthropic}");
    let responses = context(&env, &["--format", "responses"]).to_string();
    assert_eq!(responses.matches("\"function_call\"").count(), 3, "{responses}");
    assert_eq!(responses.matches("\"function_call_output\"").count(), 3, "{responses}");
    let text = env.run(&["context", "--format", "text"]).success();
    assert!(text.stdout().contains("── call @4\n→ bash {\"command"), "{text:?}");
    let stats = context(&env, &["--stats", "--json"]);
    assert_eq!(stats["messages"], 8);
    assert_eq!(stats["pending"], json!([{"call": "c3", "name": "bash", "begun": true}]));
    env.record(&["--key", "k"], &[&finished]).success();
    assert_eq!(context(&env, &["--stats", "--json"])["pending"], json!([]));
    let exported = env.run(&["export", "--format", "openai"]).success().json_lines();
    assert_eq!(ids(&exported), ["c1", "c2", "c3"]);
    assert_eq!(exported[1..3], [called, gave]);
    // What comes out goes in again, and says the same.
    let again = TestEnvironment::new();
    let lines: Vec<String> = exported.iter().map(Value::to_string).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    again.record(&["--key", "k", "--format", "openai"], &lines).success();
    assert_eq!(messages(&again, &[]), messages(&env, &[]));
}

#[test]
fn a_session_of_nothing_but_calls_is_compacted() {
    let env = TestEnvironment::new();
    let result = "-rw-r--r-- 1 user user 1234 src/parser.rs\n".repeat(5);
    let lines: Vec<String> = (0..60).flat_map(|n| used(&format!("c{n}"), &result)).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    env.record(&["--key", "k"], &lines).success();
    let before = messages(&env, &[]);
    assert_eq!(before.len(), 120);
    let pinned = env.run(&["context", "--pin", "@5"]).success();
    assert!(pinned.stderr.contains("Pinned: @5 @6"), "{pinned:?}");
    let made = env.run(&["compact", "--keep", "6", "--json"]).success().json_lines().remove(0);
    assert_eq!(made["covered"], 112);
    let after = messages(&env, &[]);
    is_valid(&after);
    assert!(after[0].to_string().contains("bash"), "{}", after[0]);
    assert_eq!((&after[1..3], &after[3..]), (&before[2..4], &before[114..]));
    env.run(&["undo"]).success();
    assert_eq!(messages(&env, &[]), before);
}

#[test]
fn a_compaction_shrinks_one_prompt_with_many_calls_and_can_be_taken_back() {
    let env = TestEnvironment::new();
    long(&env);
    let before = messages(&env, &[]);
    assert_eq!(before.len(), 122);
    let planned = env.run(&["compact", "--keep", "6", "--dry-run"]).success();
    assert!(
        planned.stdout().starts_with("Would cover 115 of 122 messages, @4 to @"),
        "{planned:?}"
    );
    assert_eq!(messages(&env, &[]), before);
    let made = env.run(&["compact", "--keep", "6", "--json"]).success().json_lines().remove(0);
    assert_eq!(made["covered"], 115);
    assert!(made["after_tokens"].as_u64() < made["before_tokens"].as_u64(), "{made}");
    let after = messages(&env, &[]);
    is_valid(&after);
    assert_eq!(after.len(), 8);
    assert_eq!(after[0]["content"], "Be brief.");
    assert!(after[1].to_string().contains("Mend the parser."), "{}", after[1]);
    assert_eq!(after[2..], before[116..]);
    // What was said stays: in the story, and in the context of that time.
    let at = format!("@{}", made["seq"].as_u64().unwrap() - 1);
    assert_eq!(messages(&env, &["--at", &at]), before);
    assert!(env.run(&["show", "--all"]).success().stdout().contains("Mend the parser."));
    // Again, and the summary goes into the next one.
    env.record(&["--key", "long"], &[&message("assistant", &"Done, I think. ".repeat(40))])
        .success();
    env.run(&["compact", "--keep", "1"]).success();
    assert_eq!(messages(&env, &[]).len(), 3);
    let list = env.run(&["compact", "--list", "--json"]).success().json_lines();
    assert_eq!(list.len(), 2);
    assert_eq!(list[0]["first"], list[1]["first"]);
    env.run(&["undo"]).success();
    assert_eq!(messages(&env, &[]).len(), 9);
    env.run(&["undo"]).success();
    assert_eq!(messages(&env, &[]).len(), 123);
    let nothing = env.run(&["undo"]).failure(1);
    assert!(nothing.stderr.contains("there is nothing to undo"), "{nothing:?}");
    let nothing = env.run(&["undo", "--compaction"]).failure(1);
    assert!(nothing.stderr.contains("there is no compaction to undo"), "{nothing:?}");
    let list = env.run(&["compact", "--list"]).success();
    assert_eq!(list.stdout().matches("undone").count(), 2, "{list:?}");
}

#[test]
fn what_is_pinned_stays() {
    let env = TestEnvironment::new();
    long(&env);
    let pinned = env.run(&["context", "--pin", "@5"]).success();
    assert!(pinned.stderr.contains("Pinned: @5 @6"), "{pinned:?}");
    env.run(&["compact", "--keep", "4"]).success();
    let after = messages(&env, &[]);
    is_valid(&after);
    assert_eq!(after.len(), 8);
    assert_eq!(after[2]["tool_calls"][0]["id"], "c0");
    let undone = env.run(&["context", "--unpin", "@5"]).success();
    assert!(undone.stderr.contains("No longer pinned: @5 @6"), "{undone:?}");
    assert!(env.run(&["context", "--unpin", "@5"]).failure(1).stderr.contains("@5 is not pinned"));
    let wrong = env.run(&["context", "--pin", "@20"]).failure(1);
    assert!(wrong.stderr.contains("@20 is not a message in the context"), "{wrong:?}");
    assert!(env.run(&["context", "--pin", "five"]).failure(1).stderr.contains("is not an event"));
}

#[test]
fn a_summarizer_that_fails_leaves_the_context_as_it_was() {
    let env = TestEnvironment::new();
    long(&env);
    let before = messages(&env, &[]);
    for (command, why) in [
        ("echo oh no >&2; exit 3", "oh no"),
        ("true", "the summary is empty"),
        ("sleep 60", "0.5"),
        ("yes", "1048576 bytes"),
        ("nobody-has-this-command", "not found"),
        ("yes '' | head -c 60000 | tr '\\n' x", "tokens, but what it would replace"),
    ] {
        let time = if command == "sleep 60" { "0.5" } else { "30" };
        let args = ["compact", "--timeout", time, "--most", "100000", "--summarizer-cmd", command];
        let failed = env.run(&args).failure(1);
        assert!(failed.stderr.contains("the context is unchanged"), "{command}: {failed:?}");
        assert!(failed.stderr.contains(why), "{command}: {failed:?}");
    }
    assert_eq!(messages(&env, &[]), before);
    let made = env.run(&["compact", "--summarizer-cmd", "wc -l", "--keep", "4"]).success();
    assert!(made.stdout().contains("by command: wc"), "{made:?}");
    assert_eq!(messages(&env, &[]).len(), 6);
}

#[test]
fn a_threshold_is_looked_at_and_there_may_be_nothing_to_do() {
    let env = TestEnvironment::new();
    long(&env);
    let under = env.run(&["compact", "--over", "1000k"]).success();
    assert!(under.stderr.contains("the context is not over 1000000 tokens"), "{under:?}");
    let under = env.run(&["compact", "--over", "1000k", "--dry-run"]).success();
    assert!(under.stderr.contains("the context is not over"), "{under:?}");
    let model = env.run(&["compact", "--model", "gpt-5"]).failure(1);
    assert!(model.stderr.contains("need an endpoint"), "{model:?}");
    let unknown = env.run(&["compact", "--over", "80%"]).failure(1);
    assert!(unknown.stderr.contains("model.configured"), "{unknown:?}");
    let window = r#"{"kind":"model.configured","data":{"model":"gpt-5-mini","window":4000}}"#;
    env.record(&["--key", "long"], &[window]).success();
    env.run(&["compact", "--over", "80%"]).success();
    assert_eq!(env.run(&["compact", "--over", "wide"]).failure(2).stdout(), "");
    let kept = env.run(&["compact", "--keep", "100"]).failure(1);
    assert!(kept.stderr.contains("there is nothing to compact"), "{kept:?}");
    let none = env.run(&["context", "--lane", "nowhere"]).failure(1);
    assert!(none.stderr.contains("there is no lane \"nowhere\""), "{none:?}");
}

#[test]
fn the_figures_say_how_they_are_known() {
    let env = TestEnvironment::new();
    let lines = [
        r#"{"kind":"model.configured","data":{"model":"gpt-5-mini","window":400000}}"#.to_owned(),
        r#"{"kind":"turn.started","data":{"agent":"coder"}}"#.to_owned(),
        message("user", "hello world"),
        r#"{"kind":"api.called","data":{"call":"r1"}}"#.to_owned(),
        message("assistant", "Hello!"),
        r#"{"kind":"api.finished","data":{"call":"r1","model":"gpt-5-mini","usage":{"input_tokens":1000,"output_tokens":20,"cost_micros":1500}}}"#.to_owned(),
        r#"{"kind":"limit.observed","data":{"name":"requests","limit":50,"remaining":49}}"#.to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    env.record(&["--key", "k"], &lines).success();
    let stats = context(&env, &["--stats", "--json"]);
    assert_eq!(
        stats["tokens"],
        json!({"total": 1020, "how": "reported", "reported": 1020, "counted": 0, "estimated": 0})
    );
    assert_eq!(stats["window"], 400_000);
    for place in ["/usage/session", "/usage/models/gpt-5-mini", "/usage/turns/1", "/usage/lanes/"] {
        assert_eq!(stats.pointer(place).unwrap()["input_tokens"], 1000, "{place}: {stats}");
    }
    assert_eq!(stats["limits"]["requests"]["remaining"], 49);
    env.record(&["--key", "k"], &[&message("user", "hello world")]).success();
    let stats = context(&env, &["--stats", "--json"]);
    assert_eq!(
        (&stats["tokens"]["how"], &stats["tokens"]["counted"]),
        (&json!("counted"), &json!(6))
    );
    let text = env.run(&["context", "--stats"]).success();
    for line in [
        "Tokens    1026 (1020 reported, 6 counted)",
        "Window    400000, 0% of it in use",
        "Used      turn 1: 1000 tokens in, 20 out, $0.0015",
        "Limit     requests: 49 of 50 left",
    ] {
        assert!(text.stdout().contains(line), "{line}: {text:?}");
    }
}
