//! The proxy in a chain: between a client and an agent of the SDK, and with every frame in hand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod conductor;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use abide::{
    LocalOptions, LocalStore, SessionRef, Store,
    locate::{StoreFinder, StoreLocation},
};
use abide_acp::{CheckpointSchedule, Proxy, ProxyOptions, StoreOptions};
use abide_testkit::block_on;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Implementation, InitializeRequest, InitializeResponse,
    ListSessionsRequest, LoadSessionRequest, NewSessionRequest, NewSessionResponse,
    PermissionOption, PermissionOptionKind, PromptRequest, PromptResponse,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, StopReason,
    ToolCallUpdate, ToolCallUpdateFields,
};
use agent_client_protocol::{
    Agent, Channel, Client, Conductor, ConnectTo, DynConnectTo, Error, Responder, TransportFrame,
    V1,
};
use conductor::{End, conduct};
use serde_json::{Value, json};

/// A proxy with this store: one that is named must be there.
fn proxy(store: &Path) -> Proxy {
    LocalStore::init(store, LocalOptions::default()).unwrap();
    Proxy::new(ProxyOptions {
        stores: StoreOptions {
            finder: StoreFinder {
                named: Some(StoreLocation::Files(store.to_owned())),
                ..StoreFinder::default()
            },
            ..StoreOptions::default()
        },
        checkpoint: CheckpointSchedule::Off,
        ..ProxyOptions::new(Vec::new())
    })
}

/// The store, for one who will not wait.
fn opened(store: &Path) -> Store {
    Store::local(LocalStore::open(store, LocalOptions::default()).unwrap()).waiting(Duration::ZERO)
}

fn chunk(session: &SessionId, text: &str) -> SessionNotification {
    let chunk = ContentChunk::new(ContentBlock::from(text));
    SessionNotification::new(session.clone(), SessionUpdate::AgentMessageChunk(chunk))
}

/// An agent that can do nothing but talk. It calls its sessions `inner-1`, `inner-2`…
fn talker(heard: Arc<Mutex<Vec<String>>>) -> impl ConnectTo<Client> {
    let sessions = Mutex::new(0);
    Agent
        .v1()
        .on_receive_request(
            async |request: InitializeRequest, responder, _: ConnectionTo<Client>| {
                responder.respond(
                    InitializeResponse::new(request.protocol_version)
                        .agent_info(Implementation::new("talker", "1")),
                )
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _: ConnectionTo<Client>| {
                let number = {
                    let mut sessions = sessions.lock().unwrap();
                    *sessions += 1;
                    *sessions
                };
                responder.respond(NewSessionResponse::new(format!("inner-{number}")))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest,
                        responder: Responder<PromptResponse, V1>,
                        cx: ConnectionTo<Client>| {
                heard.lock().unwrap().push(request.session_id.to_string());
                for text in ["one", "two", "three"] {
                    cx.send_notification(chunk(&request.session_id, text))?;
                }
                let asked = cx.send_request(RequestPermissionRequest::new(
                    request.session_id.clone(),
                    ToolCallUpdate::new("call", ToolCallUpdateFields::new().title("rm".to_owned())),
                    vec![
                        PermissionOption::new("no", "No", PermissionOptionKind::RejectOnce),
                        PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce),
                    ],
                ));
                let later = cx.clone();
                cx.spawn(async move {
                    let answer = asked.block_task().await?;
                    let text = match answer.outcome {
                        RequestPermissionOutcome::Selected(selected) => {
                            format!("then {}", selected.option_id)
                        }
                        other => format!("{other:?}"),
                    };
                    later.send_notification(chunk(&request.session_id, &text))?;
                    responder.respond(PromptResponse::new(StopReason::EndTurn))
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
}

/// What a client is shown, in a line each.
fn shown(notification: &SessionNotification) -> String {
    let session = &notification.session_id;
    match &notification.update {
        SessionUpdate::AgentMessageChunk(ContentChunk {
            content: ContentBlock::Text(text),
            ..
        }) => format!("{session}: {}", text.text),
        other => format!("{session}: {other:?}"),
    }
}

#[test]
fn a_chain_with_abide_in_it_keeps_its_sessions() {
    let directory = tempfile::tempdir().unwrap();
    let (store, work) = (directory.path().join("store"), directory.path().join("work"));
    std::fs::create_dir(&work).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (near, far) = Channel::duplex();
    let sdk = || DynConnectTo::<Conductor>::new(agent_client_protocol::Proxy.v1());
    // One of the SDK's own on each side of it.
    let proxies = vec![sdk(), DynConnectTo::new(proxy(&store)), sdk()];
    conduct(far, proxies, talker(Arc::clone(&heard)));
    let (updates, asked) = (Arc::clone(&seen), Arc::clone(&seen));
    let client = Client
        .v1()
        .on_receive_notification(
            async move |update: SessionNotification, _: ConnectionTo<Agent>| {
                updates.lock().unwrap().push(shown(&update));
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _: ConnectionTo<Agent>| {
                let title = request.tool_call.fields.title.clone().unwrap_or_default();
                let (session, count) = (&request.session_id, request.options.len());
                asked.lock().unwrap().push(format!("{session}: {title}? of {count}"));
                responder.respond(RequestPermissionResponse::new(
                    RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new("yes")),
                ))
            },
            agent_client_protocol::on_receive_request!(),
        );
    let (seen_by, kept, place) = (Arc::clone(&seen), store.clone(), work.clone());
    let told = block_on(client.connect_with(near, async move |cx: ConnectionTo<Agent>| {
        let greeted =
            cx.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
        let can = &greeted.agent_capabilities;
        assert_eq!(greeted.agent_info.as_ref().unwrap().name, "talker");
        assert!(can.load_session, "{can:?}");
        assert!(can.session_capabilities.list.is_some(), "{can:?}");
        assert!(can.session_capabilities.resume.is_some(), "{can:?}");

        let made = cx.send_request(NewSessionRequest::new(&place)).block_task().await?;
        assert_eq!(made.session_id.to_string(), "inner-1");
        assert_eq!(opened(&kept).sessions().unwrap().len(), 1);

        let session = made.session_id;
        let prompt = || PromptRequest::new(session.clone(), vec![ContentBlock::from("go")]);
        let ended = cx.send_request(prompt()).block_task().await?;
        assert_eq!(ended.stop_reason, StopReason::EndTurn);

        let list = cx.send_request(ListSessionsRequest::new()).block_task().await?;
        let ids: Vec<_> = list.sessions.iter().map(|one| one.session_id.to_string()).collect();
        assert_eq!(ids, ["inner-1"]);

        // The agent cannot load: abide has it make a new one and goes on under the old name.
        let before = seen_by.lock().unwrap().len();
        cx.send_request(LoadSessionRequest::new(session.clone(), &place)).block_task().await?;
        let replayed = seen_by.lock().unwrap().split_off(before);
        let ended = cx.send_request(prompt()).block_task().await?;
        assert_eq!(ended.stop_reason, StopReason::EndTurn);
        Ok(replayed)
    }))
    .unwrap();

    let turn = ["one", "two", "three", "rm? of 2", "then yes"].map(|it| format!("inner-1: {it}"));
    assert_eq!(*seen.lock().unwrap(), [turn.clone(), turn].concat());
    assert_eq!(*heard.lock().unwrap(), ["inner-1", "inner-2"]);
    let told: Vec<&str> = told.iter().map(|line| line.split(" {").next().unwrap()).collect();
    let shown = ["UserMessageChunk(ContentChunk", "onetwothree", "ToolCall(ToolCall", "then yes"];
    assert_eq!(told, shown.map(|it| format!("inner-1: {it}")));
    assert_eq!(opened(&store).sessions().unwrap().len(), 1);
}

/// A chain of abide alone, greeted already: the client's end and the agent's.
fn greeted(store: &Path) -> (End, End) {
    let (near_client, client) = Channel::duplex();
    let (near_agent, agent) = Channel::duplex();
    conduct(client, vec![DynConnectTo::new(proxy(store))], agent);
    let (mut client_end, mut agent_end) = (End::of(near_client), End::of(near_agent));
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}, "_x": {"b": 1, "a": 2}});
    client_end.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    let request = agent_end.read();
    assert_eq!((&request["method"], &request["params"]), (&json!("initialize"), &params));
    agent_end.answer(
        &request,
        &json!({"protocolVersion": 1, "agentCapabilities": {"_y": [1.5]}, "_z": null}),
    );
    let answer = client_end.read();
    assert_eq!(answer["id"], 0);
    assert_eq!(answer["result"]["agentCapabilities"]["_y"], json!([1.5]));
    assert_eq!(answer["result"]["agentCapabilities"]["loadSession"], true);
    assert!(answer["result"].as_object().unwrap().contains_key("_z"));
    (client_end, agent_end)
}

#[test]
fn what_nobody_knows_passes_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let (mut client, mut agent) = greeted(&directory.path().join("store"));

    // Numbers that a hasty reader gets wrong by their last bit.
    let hard: Vec<f64> = (0..500).map(|number| f64::from(number).exp() / 3.0).collect();
    let odd = json!({
        "z": hard, "a": [u64::MAX, -0.0, "\u{0}\u{e9}"], "m": {"b": {}, "a": null},
    });
    client.send(&json!({"jsonrpc": "2.0", "id": "q", "method": "_of/client", "params": odd}));
    let request = agent.read();
    assert_eq!(request["method"], "_of/client");
    assert_eq!(request["params"].to_string(), odd.to_string());
    agent.answer(&request, &odd);
    let answer = client.read();
    assert_eq!(answer["id"], "q");
    assert_eq!(answer["result"].to_string(), odd.to_string());

    agent.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "_of/agent", "params": odd}));
    let request = client.read();
    assert_eq!(request["method"], "_of/agent");
    assert_eq!(request["params"].to_string(), odd.to_string());
    let error = json!({"code": -32123, "message": "no", "data": {"_why": [odd]}});
    client.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    assert_eq!(agent.read(), json!({"jsonrpc": "2.0", "id": 7, "error": error}));

    // Notifications of both sides, in order, without params too.
    for number in 0..200 {
        let (there, back) = (json!({"there": number}), json!({"back": number}));
        client.send(&json!({"jsonrpc": "2.0", "method": "_note", "params": there}));
        agent.send(&json!({"jsonrpc": "2.0", "method": "_note", "params": back}));
    }
    client.send(&json!({"jsonrpc": "2.0", "method": "_bare"}));
    for number in 0..200 {
        assert_eq!(agent.read()["params"], json!({"there": number}));
        assert_eq!(client.read()["params"], json!({"back": number}));
    }
    let bare = agent.read();
    assert_eq!((&bare["method"], bare.get("params")), (&json!("_bare"), None));
}

#[test]
fn a_cancelled_request_is_cancelled_at_the_next_hop() {
    let directory = tempfile::tempdir().unwrap();
    let (mut client, mut agent) = greeted(&directory.path().join("store"));
    let cancel = |id: &Value| json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}});

    // At once, so that it may overtake its request.
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "_long", "params": {}}));
    client.send(&cancel(&json!(1)));
    let request = agent.read();
    assert_eq!(request["method"], "_long");
    assert_eq!(agent.read(), cancel(&request["id"]));
    agent.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32800, "message": "cancelled"}}));
    assert_eq!(client.read()["error"]["code"], -32800);

    agent.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "_ask", "params": {}}));
    let request = client.read();
    agent.send(&cancel(&json!(2)));
    assert_eq!(client.read(), cancel(&request["id"]));
    client.answer(&request, &json!({}));
    assert_eq!(agent.read(), json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
}

/// A conductor whose every frame is in hand.
struct Hand {
    end: End,
    running: JoinHandle<Result<(), Error>>,
}

impl Hand {
    fn new(store: &Path) -> Self {
        let (near, far) = Channel::duplex();
        let proxy = proxy(store);
        let running = std::thread::spawn(move || block_on(proxy.connect_to(far)));
        Self { end: End::of(near), running }
    }

    /// Greets it, and opens a session.
    fn begin(&mut self, work: &Path) {
        self.end.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "proxy/initialize", "params": {"protocolVersion": 1}}));
        assert_eq!(
            self.end.read(),
            json!({"jsonrpc": "2.0", "id": 1, "method": "proxy/successor",
                "params": {"method": "initialize", "params": {"protocolVersion": 1}}})
        );
        self.end.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}}));
        assert_eq!(self.end.read()["result"]["agentCapabilities"]["loadSession"], true);
        let params = json!({"cwd": work, "mcpServers": []});
        self.end
            .send(&json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params}));
        assert_eq!(self.end.read()["params"]["method"], "session/new");
        self.end.send(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s"}}));
        assert_eq!(self.end.read()["result"]["sessionId"], "s");
    }
}

#[test]
fn the_end_of_the_connection_ends_all() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store");
    let mut hand = Hand::new(&place);
    hand.begin(directory.path());
    let store = opened(&place);
    let key = SessionRef::Key("acp:s".to_owned());
    assert!(store.open_session(&key).is_err(), "held while the connection is");

    // A prompt that the agent never answers, and a question that needs no agent.
    let params = json!({"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]});
    hand.end
        .send(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": params}));
    assert_eq!(hand.end.read()["params"]["params"], params);
    hand.end.send(&json!({"jsonrpc": "2.0", "id": 4, "method": "session/list", "params": {}}));
    hand.end.out.close_channel();
    let mut answers = [hand.end.read(), hand.end.read()];
    answers.sort_by_key(|answer| answer["id"].as_i64());
    assert_eq!(answers[0]["error"]["code"], -32603, "{answers:?}");
    assert_eq!(hand.end.next(), None);
    hand.running.join().unwrap().unwrap();
    store.open_session(&key).unwrap();
}

#[test]
fn a_future_that_is_dropped_lets_go() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store");
    let (near, far) = Channel::duplex();
    let (stop, stopped) = futures::channel::oneshot::channel::<()>();
    let proxy = proxy(&place);
    let running = std::thread::spawn(move || {
        let work = Box::pin(proxy.connect_to(far));
        block_on(futures::future::select(work, stopped));
        Ok(())
    });
    let mut hand = Hand { end: End::of(near), running };
    hand.begin(directory.path());
    stop.send(()).unwrap();
    // What it held is let go once all is closed.
    assert_eq!(hand.end.next(), None);
    let store = opened(&place);
    store.open_session(&SessionRef::Key("acp:s".to_owned())).unwrap();
}

#[test]
fn what_a_conductor_must_not_send_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut hand = Hand::new(&directory.path().join("store"));
    let envelope = |params: Value| json!({"jsonrpc": "2.0", "id": 9, "method": "proxy/successor", "params": params});
    for wrong in [
        json!({"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {"protocolVersion": 1}}),
        json!({"jsonrpc": "2.0", "id": null, "method": "_x"}),
        envelope(json!([])),
        envelope(json!({})),
        envelope(json!({"method": 5})),
        envelope(json!({"method": "_x", "params": 5})),
        envelope(json!({"method": "proxy/successor", "params": {"method": "_x"}})),
        envelope(json!({"method": "proxy/initialize", "params": {}})),
    ] {
        hand.end.send(&wrong);
        let answer = hand.end.read();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&wrong["id"], &json!(-32600)));
    }
    // What cannot be answered is dropped.
    for wrong in [
        json!({"jsonrpc": "2.0", "id": 77, "result": {}}),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "?"}}),
        json!({"jsonrpc": "2.0", "method": "proxy/successor", "params": {"method": "proxy/successor"}}),
        json!({"jsonrpc": "2.0", "method": "proxy/successor", "params": {"method": "$/cancel_request", "params": {"requestId": 1}}}),
        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}),
    ] {
        hand.end.send(&wrong);
    }
    for (raw, answered) in [("[]", true), (r#"{"id":1,"result":2,"error":3}"#, false), ("{", true)]
    {
        let raw = raw.to_owned();
        let error = Error::parse_error();
        hand.end.out.unbounded_send(TransportFrame::Malformed { raw, error }).unwrap();
        if answered {
            assert_eq!(hand.end.read()["error"]["code"], -32700);
        }
    }
    // And all goes on.
    hand.begin(directory.path());
    hand.end.out.close_channel();
    assert_eq!(hand.end.next(), None);
    hand.running.join().unwrap().unwrap();
}
