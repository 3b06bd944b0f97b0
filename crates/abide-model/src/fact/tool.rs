//! Facts about executed tool calls and requests to a model's API.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{CallId, Usage};

/// `tool.called`: recorded before the tool runs, unless it was only `observed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCall {
    /// Links it to its result.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<RawValue>>,
    /// Observed from outside: it may have run before it was recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
}

/// `tool.finished`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call.
    pub call: CallId,
    /// Whether it succeeded.
    #[serde(default = "yes")]
    pub ok: bool,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
}

const fn yes() -> bool {
    true
}

/// `api.called`: a request to a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ApiCall {
    /// Links it to its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<RawValue>>,
}

/// `api.finished`: the answer or the error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ApiResult {
    /// The request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Box<RawValue>>,
    /// The error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}
