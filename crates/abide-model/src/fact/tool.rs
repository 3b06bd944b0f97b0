//! Tool calls as they were executed, and requests to a model's API.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{CallId, Usage};

/// `tool.called`: journalled before the tool runs, unless it was only `observed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCall {
    /// Joins it with its result.
    pub call: CallId,
    /// Which tool.
    pub name: String,
    /// With what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<RawValue>>,
    /// Seen from outside: it may have run before it was journalled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
}

/// `tool.finished`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolResult {
    /// Which call.
    pub call: CallId,
    /// Whether it went well.
    #[serde(default = "yes")]
    pub ok: bool,
    /// What it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
}

const fn yes() -> bool {
    true
}

/// `api.called`: a request to a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ApiCall {
    /// Joins it with its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Which model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<RawValue>>,
}

/// `api.finished`: its answer, or its error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ApiResult {
    /// Which request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Which model answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Box<RawValue>>,
    /// The error, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}
