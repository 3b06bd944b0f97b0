//! JSON-RPC messages, read in place: their parts are slices of the line.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The id of a request, normalised so that two spellings of one id are equal: a string by its text,
/// anything else as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RpcRequestId(String);

impl RpcRequestId {
    pub(crate) fn of(raw: &RawValue) -> Self {
        // Decoded and encoded again, so that escapes make no difference.
        let text = serde_json::from_str::<Cow<'_, str>>(raw.get());
        let text = text.ok().and_then(|text| serde_json::to_string(&text).ok());
        Self(text.unwrap_or_else(|| raw.get().to_owned()))
    }

    /// An id from a string.
    pub(crate) fn text(text: &str) -> Self {
        Self(serde_json::Value::from(text).to_string())
    }

    /// The id as JSON.
    pub(crate) fn json(&self) -> &str {
        &self.0
    }
}

/// The result or the error of a response.
pub(crate) type RpcOutcome<T> = Result<T, T>;

/// A JSON-RPC message.
#[derive(Debug, Clone)]
pub(crate) enum RpcMessage<'a> {
    /// Needs a response.
    Request { id: &'a RawValue, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// Needs none.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// The response to a request.
    Response { id: &'a RawValue, outcome: RpcOutcome<&'a RawValue> },
    /// An error without an id: the other side could not read a message.
    Stray,
}

/// Why a line is not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MalformedMessage {
    /// Not JSON.
    Parse(String),
    /// JSON, but not a JSON-RPC message.
    Invalid(&'static str),
}

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse(why) => write!(f, "not JSON: {why}"),
            Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl<'a> RpcMessage<'a> {
    /// Parses a line.
    pub(crate) fn read(line: &'a str) -> Result<Self, MalformedMessage> {
        let fields = match serde_json::from_str::<RpcMembers<'a>>(line) {
            Ok(fields) => fields,
            Err(error) if error.is_data() => {
                return Err(MalformedMessage::Invalid(
                    "not a JSON-RPC message: it is not an object",
                ));
            }
            Err(error) => return Err(MalformedMessage::Parse(error.to_string())),
        };
        let id = fields.id.filter(|id| id.get() != "null");
        match (fields.method, id, fields.result, fields.error) {
            (Some(method), id, ..) => {
                let method = serde_json::from_str::<RpcText<'a>>(method.get())
                    .map_err(|_| MalformedMessage::Invalid("the method is not a string"))?
                    .0;
                Ok(match id {
                    Some(id) => Self::Request { id, method, params: fields.params },
                    None => Self::Notification { method, params: fields.params },
                })
            }
            (None, Some(id), _, Some(error)) => Ok(Self::Response { id, outcome: Err(error) }),
            (None, Some(id), Some(result), None) => Ok(Self::Response { id, outcome: Ok(result) }),
            (None, None, _, Some(_)) => Ok(Self::Stray),
            _ => Err(MalformedMessage::Invalid("neither a method nor a result")),
        }
    }
}

/// The members of a message. Of a duplicate the last one counts, as in most parsers.
#[derive(Default)]
struct RpcMembers<'a> {
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// A string, borrowed where it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct RpcText<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for RpcMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = RpcMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RpcMembers<'de>, A::Error> {
                let mut fields = RpcMembers::default();
                while let Some(RpcText(key)) = map.next_key::<RpcText<'de>>()? {
                    let value: &'de RawValue = map.next_value()?;
                    match &*key {
                        "id" => fields.id = Some(value),
                        "method" => fields.method = Some(value),
                        "params" => fields.params = Some(value),
                        "result" => fields.result = Some(value),
                        // `"error": null` beside a result means no error.
                        "error" if value.get() != "null" => fields.error = Some(value),
                        _ => {}
                    }
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

/// Formats a request.
pub(crate) fn request_message(id: &RpcRequestId, method: &str, params: &str) -> String {
    let method = serde_json::Value::from(method);
    format!(r#"{{"jsonrpc":"2.0","id":{},"method":{method},"params":{params}}}"#, id.json())
}

/// Formats a notification.
pub(crate) fn notification_message(method: &str, params: &str) -> String {
    let method = serde_json::Value::from(method);
    format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#)
}

/// Formats a successful response.
pub(crate) fn result_message(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Formats an error response.
pub(crate) fn failure_message(id: &str, error: &RpcError) -> String {
    let message = serde_json::Value::from(&*error.message);
    let code = error.code;
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#)
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    /// The error code.
    pub(crate) code: i32,
    /// A message for people.
    pub(crate) message: String,
}

impl RpcError {
    /// An internal error.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self { code: -32603, message: message.into() }
    }

    /// Invalid params.
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self { code: -32602, message: message.into() }
    }

    /// The resource does not exist.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self { code: -32002, message: message.into() }
    }

    /// Another process holds the resource.
    pub(crate) fn held(message: impl Into<String>) -> Self {
        Self { code: -32001, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sort(line: &str) -> String {
        match RpcMessage::read(line) {
            Ok(RpcMessage::Request { id, method, params }) => {
                format!("request {id} {method} {}", params.map_or("-", RawValue::get))
            }
            Ok(RpcMessage::Notification { method, params }) => {
                format!("notification {method} {}", params.map_or("-", RawValue::get))
            }
            Ok(RpcMessage::Response { id, outcome: Ok(result) }) => format!("result {id} {result}"),
            Ok(RpcMessage::Response { id, outcome: Err(error) }) => format!("error {id} {error}"),
            Ok(RpcMessage::Stray) => "stray".to_owned(),
            Err(malformed) => format!("{malformed}"),
        }
    }

    #[test]
    fn a_line_is_read_as_what_it_is() {
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"b":1}}"#, r#"request 1 a {"b":1}"#),
            (r#"{"id":"x","method":"a"}"#, r#"request "x" a -"#),
            (r#"{"method":"a\/b","params":[1]}"#, "notification a/b [1]"),
            (r#"{"id":null,"method":"a"}"#, "notification a -"),
            (r#"{"id":2,"result":null}"#, "result 2 null"),
            (r#"{"id":2,"result":{},"error":null}"#, "result 2 {}"),
            (r#"{"id":2,"error":{"code":1}}"#, r#"error 2 {"code":1}"#),
            (r#"{"id":1,"id":2,"method":"a","method":"b"}"#, "request 2 b -"),
            (r#"{"id":2}"#, "neither a method nor a result"),
            (r#"{"id":2,"method":5}"#, "the method is not a string"),
            (r#"{"id":null,"error":{}}"#, "stray"),
            ("[]", "not a JSON-RPC message: it is not an object"),
            ("7", "not a JSON-RPC message: it is not an object"),
        ] {
            assert_eq!(sort(line), expected, "{line}");
        }
        for line in ["", "x", "{", r#"{"id":1"#, "{}{}"] {
            assert!(matches!(RpcMessage::read(line), Err(MalformedMessage::Parse(_))), "{line:?}");
        }
    }

    #[test]
    fn two_spellings_are_one_id() {
        let id = |text: &str| RpcRequestId::of(serde_json::from_str(text).unwrap());
        assert_eq!(id(r#""a""#), id("\"\\u0061\""));
        assert_eq!(id(r#""a""#), RpcRequestId::text("a"));
        assert_ne!(id("1"), id(r#""1""#));
    }
}
