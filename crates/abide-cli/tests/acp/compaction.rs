//! Contexts that `abide acp` compacts by itself after a prompt.

use abide_testkit::AcpClient;
use serde_json::json;

use super::lab::AcpLab;

/// A client that shows notices.
fn initialize_with_notices(client: &mut AcpClient) {
    let params = json!({
        "protocolVersion": 1,
        "clientInfo": {"name": "test-client", "version": "1"},
        "clientCapabilities": {"session": {"notices": {}}},
    });
    client.must("initialize", params);
}

/// The line with this text, waited for if it is still to come.
fn received(client: &mut AcpClient, text: &str) -> String {
    loop {
        if let Some(line) = client.received.iter().find(|line| line.contains(text)) {
            return line.clone();
        }
        client.next().unwrap();
    }
}

#[test]
fn a_context_is_compacted_after_a_prompt_and_the_client_is_told() {
    let lab = AcpLab::new();
    let mut client = lab.proxy_with(&["--checkpoint", "off", "--compact-over", "1500"], &[]);
    initialize_with_notices(&mut client);
    let session = lab.another(&mut client);
    for number in 0..20 {
        let text = format!("say {number} {}", "the parser drops the last line. ".repeat(8));
        client.turn(&session, &text);
    }
    let notice = received(&mut client, r#""sessionUpdate":"notice""#);
    assert!(notice.contains("Compacted ") && notice.contains("abide undo"), "{notice}");
    assert!(client.close().success());
    let mut is_open = false;
    for event in lab.events() {
        match event["kind"].as_str().unwrap() {
            "turn.started" => is_open = true,
            "turn.finished" => is_open = false,
            "context.compacted" => assert!(!is_open, "{event}"),
            _ => {}
        }
    }
    assert!(lab.count("context.compacted") > 0);
    lab.env.run(&["undo"]).success();
    lab.healthy();
}

#[test]
fn a_client_without_notices_is_told_once_why_nothing_is_compacted() {
    let lab = AcpLab::new();
    let mut client = lab.proxy_with(&["--checkpoint", "off", "--compact-over", "80%"], &[]);
    let session = lab.open(&mut client);
    client.turn(&session, "say one");
    let told = "no compaction: the size of the model's context window";
    assert!(received(&mut client, told).contains("agent_message_chunk"));
    client.turn(&session, "say two");
    client.turn(&session, "say three");
    assert_eq!(client.received.iter().filter(|line| line.contains(told)).count(), 1);
    assert!(client.close().success());
    assert_eq!(lab.count("context.compacted"), 0);
}

#[test]
fn a_share_is_of_the_window_that_the_agent_tells() {
    let lab = AcpLab::new();
    let mut client = lab.proxy_with(&["--checkpoint", "off", "--compact-over", "1%"], &[]);
    initialize_with_notices(&mut client);
    let session = lab.another(&mut client);
    // It tells a window of 200,000 tokens.
    client.turn(&session, "usage");
    for number in 0..30 {
        let text = format!("say {number} {}", "the parser drops the last line. ".repeat(8));
        client.turn(&session, &text);
    }
    received(&mut client, r#""sessionUpdate":"notice""#);
    assert!(!client.received.iter().any(|line| line.contains("no compaction")));
    assert!(client.close().success());
    let compacted: Vec<_> =
        lab.events().into_iter().filter(|event| event["kind"] == "context.compacted").collect();
    assert!(!compacted.is_empty());
    for event in compacted {
        assert!(event["data"]["before_tokens"].as_u64().unwrap() > 2_000, "{event}");
    }
}
