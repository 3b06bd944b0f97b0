//! Parses `session/update` messages, no further than needed.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The params of a `session/update`.
#[derive(Deserialize)]
pub(crate) struct UpdateParams<'a> {
    #[serde(borrow)]
    pub(crate) update: &'a RawValue,
}

/// Parses an object. Without the check, structs could also be parsed from arrays.
pub(crate) fn parse_update_object<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Option<T> {
    if !json.get().starts_with('{') {
        return None;
    }
    serde_json::from_str(json.get()).ok()
}

/// The members that are read of every update.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateHead<'a> {
    #[serde(borrow)]
    pub(crate) session_update: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) message_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<&'a RawValue>,
}

/// The data of an event that is an update verbatim.
#[derive(Serialize)]
pub(super) struct UpdateData<'a> {
    pub(super) acp: &'a RawValue,
}

/// The data of an event for params without an update.
#[derive(Serialize)]
pub(super) struct UpdateParamsData<'a> {
    pub(super) params: &'a RawValue,
}
