//! One connection to a conductor, split into the two sides of a switch.
//!
//! In a chain of proxies both sides share a connection. A plain message is for or from the client;
//! a request or notification inside a `proxy/successor` is for or from the agent. Responses are
//! always plain, so the chain remembers which side each request went to and came from. Ids are
//! passed through unchanged: the conductor's are unique, and those of the switch collide with no
//! others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::v1::schema::{PROTOCOL_LEVEL_METHOD_NAMES, PROXY_METHOD_NAMES};
use agent_client_protocol::{
    Error, RawJsonRpcId, RawJsonRpcMessage, RawJsonRpcNotification, RawJsonRpcParams,
    RawJsonRpcRequest, TransportFrame,
};
use futures::channel::mpsc::UnboundedSender;
use serde_json::{Map, Value};

use crate::port::{AgentPort, ClientPort};
use crate::switch::Switch;

/// The side that a message is for or from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionSide {
    /// The client, or the proxy before this one.
    Client,
    /// The agent, or the proxy after this one.
    Agent,
}

/// A connection to a conductor.
pub(crate) struct ChainConnection {
    out: UnboundedSender<TransportFrame>,
    ids: Mutex<OpenRequestIds>,
    /// The agent is gone; nothing is sent to it any more.
    ended: AtomicBool,
    note: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The requests without a response so far.
#[derive(Default)]
struct OpenRequestIds {
    /// Requests sent, with the side they went to.
    sent: HashMap<RawJsonRpcId, ConnectionSide>,
    /// Requests received, with the side they came from.
    came: HashMap<RawJsonRpcId, ConnectionSide>,
    /// Cancellations of received requests that the switch has not yet sent on.
    early: HashMap<RawJsonRpcId, RawJsonRpcNotification>,
}

impl ChainConnection {
    pub(crate) fn new(
        out: UnboundedSender<TransportFrame>,
        note: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Arc<Self> {
        Arc::new(Self { out, ids: Mutex::default(), ended: AtomicBool::new(false), note })
    }

    fn ids(&self) -> MutexGuard<'_, OpenRequestIds> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops sending to the agent, since nothing comes from it any more.
    pub(crate) fn end_agent(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Stops sending altogether.
    pub(crate) fn close(&self) {
        self.out.close_channel();
    }

    /// The line in a frame for the switch, and the side it came from. Frames that are not for the
    /// switch are answered here.
    pub(crate) fn take(&self, frame: TransportFrame) -> Option<(ConnectionSide, String)> {
        let (side, message) = match frame {
            TransportFrame::Single(RawJsonRpcMessage::Request(request)) => self.request(request)?,
            TransportFrame::Single(RawJsonRpcMessage::Notification(notification)) => {
                self.notification(notification)?
            }
            TransportFrame::Single(RawJsonRpcMessage::Response(response)) => {
                let Some(side) = self.ids().sent.remove(response.id()) else {
                    (self.note)("dropped a response to no known request");
                    return None;
                };
                (side, RawJsonRpcMessage::Response(response))
            }
            TransportFrame::Malformed { raw, error } => {
                self.malformed(&raw, error);
                return None;
            }
            // Future SDK versions may add variants.
            _ => return None,
        };
        match serde_json::to_string(&message) {
            Ok(line) => Some((side, line)),
            Err(error) => {
                (self.note)(&format!("dropped a message that cannot be serialized: {error}"));
                None
            }
        }
    }

    fn request(&self, request: RawJsonRpcRequest) -> Option<(ConnectionSide, RawJsonRpcMessage)> {
        let RawJsonRpcRequest { id, method, params } = request;
        if id == RawJsonRpcId::Null {
            self.refuse(id, "the id of a request must not be null");
            return None;
        }
        let (side, method, params) = if *method == *PROXY_METHOD_NAMES.proxy_successor {
            match unwrap_chain_envelope(params) {
                Ok((method, params)) => (ConnectionSide::Agent, method, params),
                Err(why) => {
                    self.refuse(id, why);
                    return None;
                }
            }
        } else if *method == *PROXY_METHOD_NAMES.proxy_initialize {
            (ConnectionSide::Client, "initialize".into(), params)
        } else if &*method == "initialize" {
            self.refuse(id, "initialize a proxy with `proxy/initialize`");
            return None;
        } else {
            (ConnectionSide::Client, method, params)
        };
        self.ids().came.insert(id.clone(), side);
        Some((side, RawJsonRpcRequest { id, method, params }.into()))
    }

    fn notification(
        &self,
        notification: RawJsonRpcNotification,
    ) -> Option<(ConnectionSide, RawJsonRpcMessage)> {
        if is_chain_cancel(&notification.method) {
            // A cancellation is always plain; the request that it names tells the side.
            let id = cancelled_chain_request(notification.params.as_ref())?;
            let side = self.ids().came.get(&id).copied()?;
            return Some((side, notification.into()));
        }
        if *notification.method != *PROXY_METHOD_NAMES.proxy_successor {
            return Some((ConnectionSide::Client, notification.into()));
        }
        match unwrap_chain_envelope(notification.params) {
            // A wrapped cancellation names a request of another connection.
            Ok((method, _)) if is_chain_cancel(&method) => None,
            Ok((method, params)) => {
                Some((ConnectionSide::Agent, RawJsonRpcNotification { method, params }.into()))
            }
            Err(why) => {
                (self.note)(&format!("dropped a notification: {why}"));
                None
            }
        }
    }

    fn malformed(&self, raw: &str, error: Error) {
        let value = serde_json::from_str::<Value>(raw).unwrap_or_default();
        let answers = value.get("result").is_some() || value.get("error").is_some();
        if answers && value.get("method").is_none() {
            // Never answer a response: two peers could go on for ever.
            return (self.note)("dropped a malformed response");
        }
        self.put(RawJsonRpcMessage::response(RawJsonRpcId::Null, Err(error)));
    }

    fn refuse(&self, id: RawJsonRpcId, why: &str) {
        let error = Error::invalid_request().data(why);
        self.put(RawJsonRpcMessage::response(id, Err(error)));
    }

    fn put(&self, message: RawJsonRpcMessage) -> bool {
        self.out.unbounded_send(TransportFrame::Single(message)).is_ok()
    }

    /// Sends a line from the switch to one side.
    fn send_to(&self, side: ConnectionSide, line: &str) -> bool {
        let message = match serde_json::from_str::<RawJsonRpcMessage>(line) {
            Ok(message) => message,
            Err(error) => {
                (self.note)(&format!("dropped a line that is not a message: {error}"));
                return true;
            }
        };
        match message {
            RawJsonRpcMessage::Request(mut request) => {
                if side == ConnectionSide::Agent {
                    (request.method, request.params) =
                        wrap_chain_envelope(&request.method, request.params);
                }
                // Held across both sends, so that no cancellation comes in between.
                let mut ids = self.ids();
                ids.sent.insert(request.id.clone(), side);
                let early = ids.early.remove(&request.id);
                let sent = self.put(request.into());
                if let Some(cancel) = early {
                    self.put(cancel.into());
                }
                sent
            }
            RawJsonRpcMessage::Notification(cancel) if is_chain_cancel(&cancel.method) => {
                let Some(id) = cancelled_chain_request(cancel.params.as_ref()) else { return true };
                let mut ids = self.ids();
                if ids.sent.get(&id) == Some(&side) {
                    return self.put(cancel.into());
                }
                if ids.came.contains_key(&id) {
                    ids.early.insert(id, cancel);
                }
                true
            }
            RawJsonRpcMessage::Notification(mut notification) => {
                if side == ConnectionSide::Agent {
                    (notification.method, notification.params) =
                        wrap_chain_envelope(&notification.method, notification.params);
                }
                self.put(notification.into())
            }
            RawJsonRpcMessage::Response(response) => {
                let mut ids = self.ids();
                ids.came.remove(response.id());
                ids.early.remove(response.id());
                drop(ids);
                self.put(response.into())
            }
        }
    }
}

/// The client's side of a connection.
pub(crate) struct ChainClientPort(pub(crate) Arc<ChainConnection>);

impl ClientPort for ChainClientPort {
    fn send(&self, line: &str) {
        self.0.send_to(ConnectionSide::Client, line);
    }
}

/// The agent's side of a connection. Whoever built the chain runs the agent; it is not started
/// here.
pub(crate) struct ChainAgentPort(pub(crate) Arc<ChainConnection>);

impl AgentPort for ChainAgentPort {
    fn send(&self, line: &str) -> bool {
        !self.0.ended.load(Ordering::SeqCst) && self.0.send_to(ConnectionSide::Agent, line)
    }

    fn ensure(&self, _: &Arc<Switch>) -> Result<bool, String> {
        if self.0.ended.load(Ordering::SeqCst) {
            return Err("the connection to the conductor has ended".to_owned());
        }
        Ok(false)
    }

    fn end(&self, why: &str) {
        (self.0.note)(&format!("not ending the agent, which belongs to the chain: {why}"));
    }
}

/// Unwraps the message in an envelope. The envelope's own `_meta` is for this hop only.
fn unwrap_chain_envelope(
    params: Option<RawJsonRpcParams>,
) -> Result<(Arc<str>, Option<RawJsonRpcParams>), &'static str> {
    let Some(RawJsonRpcParams::Object(mut envelope)) = params else {
        return Err("the params of `proxy/successor` are not an object");
    };
    let Some(Value::String(method)) = envelope.remove("method") else {
        return Err("the `method` in `proxy/successor` is not a string");
    };
    // Forwarded, they would be taken for this proxy's own.
    if method == PROXY_METHOD_NAMES.proxy_successor || method == PROXY_METHOD_NAMES.proxy_initialize
    {
        return Err("the message in `proxy/successor` is meant for a conductor");
    }
    let params = RawJsonRpcParams::from_value(envelope.remove("params").unwrap_or_default())
        .map_err(|_| "the `params` in `proxy/successor` are neither an object nor an array")?;
    Ok((method.into(), params))
}

/// Wraps a message in an envelope.
fn wrap_chain_envelope(
    method: &str,
    params: Option<RawJsonRpcParams>,
) -> (Arc<str>, Option<RawJsonRpcParams>) {
    let mut envelope = Map::new();
    envelope.insert("method".to_owned(), method.into());
    if let Some(params) = params {
        envelope.insert("params".to_owned(), params.into_value());
    }
    (PROXY_METHOD_NAMES.proxy_successor.into(), Some(RawJsonRpcParams::Object(envelope)))
}

fn is_chain_cancel(method: &str) -> bool {
    method == PROTOCOL_LEVEL_METHOD_NAMES.cancel_request
}

/// The id of the cancelled request.
fn cancelled_chain_request(params: Option<&RawJsonRpcParams>) -> Option<RawJsonRpcId> {
    let Some(RawJsonRpcParams::Object(params)) = params else { return None };
    serde_json::from_value(params.get("requestId")?.clone()).ok()
}
