//! Lanes: which subagent an update belongs to.

use std::borrow::Cow;
use std::collections::BTreeMap;

use abide::LaneId;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::name::recorded_name;

/// The lane in the `_meta` of an update: the parent's call that a subagent works for.
pub(super) fn lane_of_meta(meta: Option<&RawValue>) -> Option<LaneId> {
    text_in_meta(meta, "parentToolUseId").map(|parent| LaneId(recorded_name(&parent)))
}

/// The string under this key, in an object directly under `_meta`.
pub(super) fn text_in_meta<'a>(meta: Option<&'a RawValue>, key: &str) -> Option<Cow<'a, str>> {
    let json = meta?.get();
    // Fast path: most updates have no such key, and chunks are frequent.
    if !json.contains(key) {
        return None;
    }
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(json).ok()?;
    members.values().find_map(|member| {
        let inner: BTreeMap<Cow<'_, str>, &'a RawValue> =
            serde_json::from_str(member.get()).ok()?;
        let value = inner.get(key)?;
        serde_json::from_str::<LaneText<'a>>(value.get()).ok().map(|text| text.0)
    })
}

#[derive(Deserialize)]
struct LaneText<'a>(#[serde(borrow)] Cow<'a, str>);

/// The child session that the params of a `session/update` announce, if any.
#[must_use]
pub fn subagent_lane(params: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct LaneParams<'a> {
        #[serde(borrow)]
        update: LaneAnnouncement<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct LaneAnnouncement<'a> {
        #[serde(borrow)]
        session_update: Cow<'a, str>,
        session_id: String,
    }
    // Fast path: nearly all updates are of another kind.
    if !params.get().contains("subagent_update") {
        return None;
    }
    let params: LaneParams<'_> = serde_json::from_str(params.get()).ok()?;
    (params.update.session_update == "subagent_update").then_some(params.update.session_id)
}
