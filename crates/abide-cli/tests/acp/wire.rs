//! What passes is what was sent.

use abide_testkit::AcpClient;
use serde_json::{Value, json};

use super::lab::AcpLab;

/// Everything that an agent does in a conversation that goes well.
const SCRIPTS: [&str; 4] = [
    "think first; say hello; tool build; tool-open left; plan one|>two|=three; mode code; title A title",
    "ask; read a.txt; write b.txt some text; terminal echo out; usage; custom",
    "Nothing but a text: it comes back in chunks, é and 日本 and all.",
    "chunks 40 1000",
];

/// Lines that are right, and unlike what a serializer writes.
fn odd_lines(session: &str) -> Vec<String> {
    vec![
        r#"{ "jsonrpc" : "2.0",  "method":"_x/odd" , "params" : { "a":1 , "a" : 2 } }  "#.into(),
        "\t{\"method\":\"_x/tab\",\"jsonrpc\":\"2.0\",\"params\":{}}\r".into(),
        r#"{"jsonrpc":"2.0","method":"_x/n","params":{"n":123456789012345678901234567890,"m":1.50e+400,"z":-0}}"#.into(),
        r#"{"jsonrpc":"2.0","method":"_x/u","params":{"s":"\u00e9\u65e5\ud83d\ude00\/\u0000","k\u0065y":1}}"#.into(),
        r#"{"jsonrpc":"2.0","method":"_x/none"}"#.into(),
        r#"{"jsonrpc":"2.0","extra":{"deep":[[[[]]]]},"method":"_x/more","params":[1,2,3]}"#.into(),
        format!(
            r#"{{"params":{{"update":{{"content":{{"text":"od\u0064","type":"text","_meta":{{"b":1,"a":2}}}},"sessionUpdate":"agent_message_chunk"}},  "sessionId":"{session}"}},"method":"session/update","jsonrpc":"2.0"}}"#
        ),
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"never_heard_of","z":1.0,"z":1.00}}}}}}"#
        ),
    ]
}

#[test]
fn an_agent_hears_what_the_client_sends_byte_for_byte() {
    let lab = AcpLab::new();
    let log = lab.beside("log");
    let mut client = lab.proxy(&["--log", &log]);
    let session = lab.open(&mut client);
    for line in &odd_lines(&session)[..6] {
        client.send(line);
    }
    // Ids of every sort, a method that nobody knows, a prompt with what no type has a place for.
    // Each is answered before the next is sent: only then is there an order.
    let requests = [
        (
            r#""a \u0022string\u0022""#,
            r#"{"jsonrpc":"2.0","id":ID,"method":"_x/one","params":{"k":1,"k":2}}"#,
        ),
        ("900719925474099312345", r#"{"id":ID,"jsonrpc":"2.0","method":"_x/two"}"#),
        (r#""three""#, r#"{"jsonrpc":"2.0","id":ID,"method":"nobody/knows","params":null}"#),
        (
            r#""four""#,
            r#"{"jsonrpc":"2.0", "id":ID,"method":"session/prompt","params":{"sessionId":"SESSION","prompt":[{"type":"text","text":"say h\u00e9","text":"say twice"}],"_meta":{"n":1.50e+30},"unknown":[]}}"#,
        ),
    ];
    for (id, request) in requests {
        client.send(&request.replace("ID", id).replace("SESSION", &session));
        while !client.next().unwrap().contains(&format!("\"id\":{id},")) {}
    }
    // The agent is asked nothing that the client did not ask, and in its words.
    let heard = std::fs::read_to_string(&log).unwrap();
    let heard: Vec<&str> = heard.split_terminator('\n').collect();
    assert_eq!(heard, client.sent);
}

#[test]
fn a_client_hears_what_the_agent_sends_byte_for_byte() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    client.answering(|_| None);
    let session = lab.open(&mut client);
    let mut lines = odd_lines(&session);
    lines.push(
        r#"{"jsonrpc" : "2.0","id":"\u0061sk","method":"_x/what","params":{"big":1e999}}"#.into(),
    );
    lines.push(r#"{"jsonrpc":"2.0","id":12345678901234567890123,"method":"nobody/knows"}"#.into());
    let script: String = lines.iter().map(|line| format!("raw {line}\n")).collect();
    // The end of a line is no part of the script; the line with it is tested the other way.
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end_matches('\r')).collect();
    let from = client.received.len();
    let answer = client.turn(&session, &script);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(client.received[from..client.received.len() - 1], lines);
}

/// A whole conversation; what was received, and what the agent heard.
fn converse(lab: &AcpLab, mut client: AcpClient, log: &str) -> (Vec<String>, String) {
    let session = lab.open(&mut client);
    client.must("session/set_mode", json!({"sessionId": session, "modeId": "code"}));
    for script in SCRIPTS {
        client.turn(&session, script);
    }
    client.call("nobody/knows", json!({"a": 1}));
    client.call("_x/any", json!({"a": 1}));
    let id = client.prompt(&session, "wait");
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.answer(id)["result"]["stopReason"], "cancelled");
    let received = client.received.clone();
    assert!(client.close().success());
    (received, std::fs::read_to_string(log).unwrap())
}

#[test]
fn directly_and_through_the_proxy_the_lines_are_the_same() {
    let lab = AcpLab::new();
    let everything = ["--load", "--resume", "--list", "--close", "--delete", "--fork"];
    for able in [&[][..], &everything] {
        let one = lab.beside("direct");
        let two = lab.beside("proxied");
        let store = lab.beside(&format!("store-{}", able.len()));
        let _ = (std::fs::remove_file(&one), std::fs::remove_file(&two));
        let agent = |log| [&["--count-ids", "--log", log][..], able].concat();
        let (direct, heard) = converse(&lab, lab.direct(&agent(&one)), &one);
        lab.env.run(&["init", "--store", &store]).success();
        let proxied = lab.proxy_with(&["--store", &store], &agent(&two));
        let (proxied, heard_through) = converse(&lab, proxied, &two);
        assert_eq!(heard_through, heard);
        assert_eq!(proxied[1..], direct[1..]);

        // Of the introduction nothing differs but what abide adds.
        let [was, is] =
            [&direct[0], &proxied[0]].map(|line| serde_json::from_str::<Value>(line).unwrap());
        if able.is_empty() {
            let mut wanted = was.clone();
            let capabilities = &mut wanted["result"]["agentCapabilities"];
            capabilities["loadSession"] = json!(true);
            for name in ["list", "resume", "close", "delete", "fork"] {
                capabilities["sessionCapabilities"][name] = json!({});
            }
            assert_eq!(is, wanted);
        } else {
            assert_eq!(proxied[0], direct[0]);
        }
    }
}

#[test]
fn what_was_said_is_recorded() {
    let lab = AcpLab::new();
    let mut client = lab.proxy(&[]);
    let session = lab.open(&mut client);
    for script in SCRIPTS {
        client.turn(&session, script);
    }
    assert!(client.close().success());

    let show = lab.env.run(&["show"]).success();
    for text in ["think first; say hello", "hello", "build", "it comes back in chunks, é and 日本"]
    {
        assert!(show.stdout().contains(text), "{text}: {show:?}");
    }
    let count = |kind: &str| lab.count(kind);
    assert_eq!(count("turn.started"), SCRIPTS.len());
    assert_eq!(count("turn.finished"), SCRIPTS.len());
    assert_eq!((count("permission.asked"), count("permission.answered")), (1, 1));
    let events = lab.events();
    let calls = |kind: &str| -> Vec<String> {
        let found = events.iter().filter(|event| event["kind"] == kind);
        found.map(|event| event["data"]["call"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(calls("tool.called"), ["build-1", "left-2", "ask-3", "echo-4"]);
    // Those that had not ended when the turn did have an outcome that nobody knows.
    assert_eq!(calls("tool.finished"), ["build-1", "left-2", "echo-4", "ask-3"]);
    let touched: Vec<&Value> =
        events.iter().filter(|event| event["kind"] == "file.touched").collect();
    // One by the diff of a call, two through the client.
    let paths: Vec<&Value> = touched.iter().map(|event| &event["data"]["path"]).collect();
    assert_eq!(paths, ["build.txt", "a.txt", "b.txt"]);
    // Chunks are one message when their block ends.
    let texts: Vec<&str> = events
        .iter()
        .filter(|event| event["kind"] == "message.added" && event["data"]["role"] == "assistant")
        .filter_map(|event| event["data"]["content"][0]["text"].as_str())
        .collect();
    assert_eq!(texts.last().map(|text| text.len()), Some(40 * 1000));

    let tasks = lab.env.run(&["tasks", "--json"]).success().json_lines();
    let titles: Vec<(&str, &str)> = tasks
        .iter()
        .map(|task| (task["title"].as_str().unwrap(), task["status"].as_str().unwrap()))
        .collect();
    assert_eq!(titles.iter().map(|(title, _)| *title).collect::<Vec<_>>(), ["one", "two", "three"]);
    assert_eq!((titles[0].1, titles[2].1), ("planned", "complete"), "{titles:?}");
    assert!(lab.env.run(&["history"]).success().stdout().contains("A title"));
    let found = lab.env.run(&["history", "--search", "chunks"]).success();
    assert!(!found.stdout().is_empty());
    lab.healthy();
}
