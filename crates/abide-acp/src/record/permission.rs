//! Permission requests and the user's answers.

use abide::{CallId, Kind, LaneId, event::PermissionOption};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::record_batch::RecordBatch;
use super::request::OpenPermission;
use super::tracked_calls::{AcpToolCall, TrackedCalls};
use super::update::parse_update_object;

/// The most options of a request remembered.
const OPTIONS: usize = 64;

/// The params of `session/request_permission`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionParams<'a> {
    #[serde(borrow)]
    tool_call: Option<&'a RawValue>,
    #[serde(borrow)]
    options: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OptionParams {
    option_id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: String,
}

/// The data of `permission.asked`: the fact, and the original request.
#[derive(Serialize)]
struct PermissionRequestData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<&'a CallId>,
    title: &'a str,
    options: &'a [PermissionOption],
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
}

/// The data of `permission.answered`.
#[derive(Serialize)]
struct PermissionAnswerData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<&'a CallId>,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    option: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
}

/// The lane of the call that needs permission.
pub(super) fn permission_lane(params: Option<&RawValue>, calls: &TrackedCalls) -> Option<LaneId> {
    let params: PermissionParams<'_> = parse_update_object(params?)?;
    let call: AcpToolCall<'_> = parse_update_object(params.tool_call?)?;
    calls.lane(&call.id()).flatten().cloned()
}

/// Records a permission request, after its call if that is not recorded yet.
pub(super) fn record_permission_request(
    params: Option<&RawValue>,
    calls: &mut TrackedCalls,
    batch: &mut RecordBatch,
) -> OpenPermission {
    batch.before();
    let read = params.and_then(parse_update_object::<PermissionParams<'_>>);
    let (tool_call, options) =
        read.map_or((None, None), |params| (params.tool_call, params.options));
    let call = tool_call
        .and_then(|raw| parse_update_object::<AcpToolCall<'_>>(raw).map(|call| (call, raw)));
    if let Some((call, raw)) = &call {
        calls.asked(call, raw, batch);
    }
    let title = call.as_ref().and_then(|(call, _)| call.title()).unwrap_or_default();
    let id = call.map(|(call, _)| call.id());
    let lane = id.as_ref().and_then(|id| calls.lane(id).flatten()).cloned();
    let options: Vec<&RawValue> =
        options.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let options: Vec<_> = options
        .into_iter()
        .filter_map(|raw| serde_json::from_str::<OptionParams>(raw.get()).ok())
        .map(|read| PermissionOption { id: read.option_id, name: read.name, kind: read.kind })
        .take(OPTIONS)
        .collect();
    let kind = Kind::PERMISSION_ASKED;
    let data = |params| PermissionRequestData {
        call: id.as_ref(),
        title: &title,
        options: &options,
        params,
    };
    if !batch.add(kind.as_str(), lane.as_ref(), &data(params)) {
        batch.add(kind.as_str(), lane.as_ref(), &data(None));
    }
    let short = |option: &PermissionOption| option.id.len() + option.kind.len() <= 1024;
    let options = options.into_iter().filter(short).map(|option| (option.id, option.kind));
    OpenPermission { call: id, lane, options: options.collect() }
}

/// Records the user's answer.
pub(super) fn record_permission_answer(
    permission: &OpenPermission,
    outcome: Result<&RawValue, &RawValue>,
    batch: &mut RecordBatch,
) {
    #[derive(Deserialize)]
    struct PermissionResponse {
        outcome: PermissionOutcome,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PermissionOutcome {
        outcome: String,
        option_id: Option<String>,
    }
    batch.before();
    let read = outcome.map(|result| serde_json::from_str::<PermissionResponse>(result.get()));
    let (word, option, error) = match &read {
        Ok(Ok(PermissionResponse { outcome })) => {
            (outcome.outcome.as_str(), outcome.option_id.as_deref(), None)
        }
        Ok(Err(_)) => ("unknown", None, None),
        Err(error) => ("error", None, Some(*error)),
    };
    let sort = permission.options.iter().find(|(id, _)| Some(id.as_str()) == option);
    let kind = sort.map(|(_, kind)| kind.as_str()).filter(|kind| !kind.is_empty());
    let call = permission.call.as_ref();
    let lane = permission.lane.as_ref();
    let data = PermissionAnswerData { call, outcome: word, option, kind, error };
    let event = Kind::PERMISSION_ANSWERED;
    if !batch.add(event.as_str(), lane, &data) {
        let bare =
            PermissionAnswerData { call, outcome: "error", option: None, kind: None, error: None };
        batch.add(event.as_str(), lane, &bare);
    }
}
