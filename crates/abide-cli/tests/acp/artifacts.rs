//! Tests and builds that an agent runs by its own tools, and in terminals of the client.

use serde_json::{Value, json};

use super::lab::{AcpLab, consenting};
use super::story::turn;

#[test]
fn the_tests_of_an_agent_are_recorded_wherever_they_run() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    client.answering(|request: &Value| match request["method"].as_str() {
        Some("terminal/wait_for_exit") => Some(Ok(json!({"exitCode": 1, "signal": null}))),
        Some("terminal/output") => {
            let output = "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.com/x\t0.003s\n";
            Some(Ok(json!({"output": output, "truncated": false})))
        }
        _ => consenting(request),
    });
    let session = lab.open(&mut client);
    let update = |update: Value| {
        let params = json!({"sessionId": "$ID", "update": update});
        format!("raw {}", json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    };
    let text = "2 passed in 0.02s";
    let steps = [
        update(json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "`pytest -q`",
            "kind": "execute", "status": "pending", "rawInput": {}})),
        update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1",
            "status": "in_progress", "rawInput": {"command": "pytest -q"}})),
        update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1",
            "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": text}}]})),
        "terminal go test ./...".to_owned(),
        "terminal echo out".to_owned(),
    ];
    turn(&mut client, &session, &steps.join("\n"));
    let events = lab.events();
    let artifacts = events.iter().filter(|event| event["kind"] == "artifact.recorded");
    let artifacts: Vec<&Value> = artifacts.map(|event| &event["data"]).collect();
    assert_eq!(artifacts.len(), 2, "{artifacts:?}");
    assert_eq!((&artifacts[0]["name"], &artifacts[0]["ok"]), (&json!("pytest"), &json!(true)));
    assert_eq!(artifacts[0]["counts"], json!({"passed": 2, "failed": 0, "skipped": 0}));
    assert_eq!((&artifacts[1]["name"], &artifacts[1]["ok"]), (&json!("go test"), &json!(false)));
    assert_eq!(
        (&artifacts[1]["exit"], &artifacts[1]["counts"]),
        (&json!(1), &json!({"failed": 1}))
    );
    assert_eq!(artifacts[1]["command"], "go test ./...");
    lab.healthy();
}
