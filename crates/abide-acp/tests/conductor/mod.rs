//! As little of a conductor as a chain needs: it gives every hop ids of its own, names
//! `initialize` for proxies, and wraps and unwraps what goes along the chain.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use abide_testkit::block_on;
use agent_client_protocol::{
    Channel, Client, Conductor, ConnectTo, DynConnectTo, RawJsonRpcMessage, TransportFrame,
};
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender};
use serde_json::{Value, json};

/// An end of a connection in the hands of a test.
pub struct End {
    pub out: UnboundedSender<TransportFrame>,
    pub read: UnboundedReceiver<TransportFrame>,
}

impl End {
    pub fn of(channel: Channel) -> Self {
        let (read, out) = channel.into_parts();
        Self { out, read }
    }

    pub fn send(&self, message: &Value) {
        put(&self.out, message);
    }

    /// The next message; none at the end.
    pub fn next(&mut self) -> Option<Value> {
        match block_on(self.read.next())? {
            TransportFrame::Single(message) => Some(serde_json::to_value(message).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    pub fn read(&mut self) -> Value {
        self.next().unwrap()
    }

    pub fn answer(&self, request: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }
}

fn put(out: &UnboundedSender<TransportFrame>, message: &Value) {
    let message: RawJsonRpcMessage = serde_json::from_value(message.clone()).unwrap();
    // Whoever has gone hears nothing.
    let _ = out.unbounded_send(TransportFrame::Single(message));
}

/// The ends of a chain, the client's first and the agent's last, and the requests under way.
struct Router {
    ends: Vec<UnboundedSender<TransportFrame>>,
    /// By the end that has the request and its id there: the end that sent it, and its id.
    under_way: Mutex<HashMap<(usize, i64), (usize, Value)>>,
}

/// Runs a chain on threads that end when its ends do.
pub fn conduct(
    client: Channel,
    proxies: Vec<DynConnectTo<Conductor>>,
    agent: impl ConnectTo<Client>,
) {
    let mut ends = vec![End::of(client)];
    for proxy in proxies {
        let (near, far) = Channel::duplex();
        std::thread::spawn(move || block_on(proxy.connect_to(far)));
        ends.push(End::of(near));
    }
    let (near, far) = Channel::duplex();
    std::thread::spawn(move || block_on(agent.connect_to(far)));
    ends.push(End::of(near));
    let router = Arc::new(Router {
        ends: ends.iter().map(|end| end.out.clone()).collect(),
        under_way: Mutex::default(),
    });
    for (place, mut end) in ends.into_iter().enumerate() {
        let router = Arc::clone(&router);
        std::thread::spawn(move || {
            while let Some(message) = end.next() {
                router.route(place, message);
            }
            for out in &router.ends {
                out.close_channel();
            }
        });
    }
}

impl Router {
    fn is_proxy(&self, place: usize) -> bool {
        place > 0 && place + 1 < self.ends.len()
    }

    /// Takes a message from one end to the one that it is for.
    fn route(&self, from: usize, mut message: Value) {
        let mut under_way = self.under_way.lock().unwrap();
        if message.get("method").is_none() {
            let id = message["id"].as_i64().unwrap();
            let (to, id) = under_way.remove(&(from, id)).unwrap();
            message["id"] = id;
            return put(&self.ends[to], &message);
        }
        if message["method"] == "$/cancel_request" {
            let named = (from, message["params"]["requestId"].clone());
            if let Some(((to, id), _)) = under_way.iter().find(|(_, sender)| **sender == named) {
                message["params"]["requestId"] = json!(id);
                put(&self.ends[*to], &message);
            }
            return;
        }
        let wrapped = message["method"] == "proxy/successor";
        assert!(!wrapped || self.is_proxy(from), "{message}");
        if wrapped {
            let envelope = message["params"].take();
            message["method"] = envelope["method"].clone();
            match envelope.get("params") {
                Some(params) => message["params"] = params.clone(),
                None => drop(message.as_object_mut().unwrap().remove("params")),
            }
        }
        let to = if from == 0 || wrapped { from + 1 } else { from - 1 };
        if to > from && self.is_proxy(to) && message["method"] == "initialize" {
            message["method"] = json!("proxy/initialize");
        }
        if to < from && self.is_proxy(to) {
            let mut envelope = json!({"method": message["method"]});
            if let Some(params) = message.get("params") {
                envelope["params"] = params.clone();
            }
            message["method"] = json!("proxy/successor");
            message["params"] = envelope;
        }
        if let Some(id) = message.get("id").cloned() {
            let own = i64::try_from(under_way.len()).unwrap() + 1;
            let own = (own..).find(|id| !under_way.contains_key(&(to, *id))).unwrap();
            under_way.insert((to, own), (from, id));
            message["id"] = json!(own);
        }
        put(&self.ends[to], &message);
    }
}
