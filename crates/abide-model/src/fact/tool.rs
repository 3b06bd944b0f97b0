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

impl ToolCall {
    /// A call without arguments that is about to run.
    pub fn new(call: impl Into<CallId>, name: impl Into<String>) -> Self {
        Self { call: call.into(), name: name.into(), arguments: None, observed: false }
    }

    /// The same call with these arguments.
    #[must_use]
    pub fn with_arguments(mut self, arguments: Box<RawValue>) -> Self {
        self.arguments = Some(arguments);
        self
    }
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

impl ToolResult {
    /// The result of a call that succeeded.
    pub fn success(call: impl Into<CallId>) -> Self {
        Self { call: call.into(), ok: true, result: None }
    }

    /// The result of a call that failed.
    pub fn failure(call: impl Into<CallId>) -> Self {
        Self { call: call.into(), ok: false, result: None }
    }

    /// The same result with this value.
    #[must_use]
    pub fn with_result(mut self, result: Box<RawValue>) -> Self {
        self.result = Some(result);
        self
    }
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
