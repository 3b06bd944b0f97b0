//! The agent's requests to the client, until they are answered.

use abide::{
    CallId, LaneId,
    event::ArtifactCommand,
    event::{FileOp, ObjectHash},
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::bounded_map::BoundedMap;
use super::name::recorded_name;
use super::record_batch::{REQUEST, RESPONSE, RecordBatch};
use crate::member_splice::spliced_without_member;

/// The most requests remembered.
const REQUESTS: usize = 4096;

/// A request without an answer so far.
#[derive(Debug)]
pub(super) enum OpenRequest {
    Permission(Box<OpenPermission>),
    File { path: String, op: FileOp, after: Option<ObjectHash> },
    TerminalCreate { build: Option<Box<ArtifactCommand>> },
    TerminalOutput { terminal: String },
    Other { terminal: Option<String> },
}

/// What is needed to record the answer to a permission request.
#[derive(Debug)]
pub(super) struct OpenPermission {
    pub(super) call: Option<CallId>,
    pub(super) lane: Option<LaneId>,
    /// The options offered, each with its kind.
    pub(super) options: Vec<(String, String)>,
}

/// The open requests of a session, by id, each with its method.
#[derive(Debug)]
pub(super) struct OpenRequests {
    waiting: BoundedMap<(String, OpenRequest)>,
}

impl OpenRequests {
    pub(super) fn new() -> Self {
        Self { waiting: BoundedMap::new(REQUESTS) }
    }

    pub(super) fn ask(&mut self, id: &RawValue, method: &str, request: OpenRequest) {
        self.waiting.insert(&recorded_name(id.get()), (recorded_name(method), request));
    }

    pub(super) fn answer(&mut self, id: &RawValue) -> Option<(String, OpenRequest)> {
        self.waiting.remove(&recorded_name(id.get()))
    }
}

/// The data of `acp.request`.
#[derive(Serialize)]
struct AcpRequestData<'a> {
    method: &'a str,
    id: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
}

/// The data of `acp.response`.
#[derive(Serialize)]
struct AcpResponseData<'a> {
    method: &'a str,
    id: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    terminal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
}

/// The terminal or path that a response is about, in case its request was not recorded or is far
/// away.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ResponseSubject<'a> {
    pub(super) terminal: Option<&'a str>,
    pub(super) path: Option<&'a str>,
}

/// Params or a result without private data: a terminal's environment and what a person entered are
/// never recorded.
fn without_private_request_data(method: &str, raw: Option<&RawValue>) -> Option<Box<RawValue>> {
    let private = match method {
        "terminal/create" => "env",
        "elicitation/create" => "content",
        _ => return None,
    };
    let without = spliced_without_member(raw?.get(), private)?;
    RawValue::from_string(without).ok()
}

/// Records a request.
pub(super) fn record_request(
    id: &RawValue,
    method: &str,
    params: Option<&RawValue>,
    batch: &mut RecordBatch,
) {
    let discreet = without_private_request_data(method, params);
    let params = discreet.as_deref().or(params);
    if !batch.add(REQUEST, None, &AcpRequestData { method, id, params }) {
        batch.add(
            REQUEST,
            None,
            &AcpRequestData {
                method: &recorded_name(method),
                id: short_request_id(id),
                params: None,
            },
        );
    }
}

/// Records a response.
pub(super) fn record_request_answer(
    id: &RawValue,
    method: &str,
    about: ResponseSubject<'_>,
    outcome: Result<&RawValue, &RawValue>,
    batch: &mut RecordBatch,
) {
    let ResponseSubject { terminal, path } = about;
    let (result, error) = (outcome.ok(), outcome.err());
    let discreet = without_private_request_data(method, result);
    let result = discreet.as_deref().or(result);
    if !batch.add(RESPONSE, None, &AcpResponseData { method, id, terminal, path, result, error }) {
        let id = short_request_id(id);
        let bare = AcpResponseData { method, id, terminal, path, result: None, error: None };
        batch.add(RESPONSE, None, &bare);
    }
}

/// The id if it is a number or a short string; any other is not repeated.
fn short_request_id(id: &RawValue) -> &RawValue {
    let plain = id.get().len() <= 512 && !id.get().starts_with(['[', '{']);
    if plain { id } else { RawValue::NULL }
}
