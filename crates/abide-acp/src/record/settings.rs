//! Modes and options of a session.

use abide::{Kind, event::ModelConfiguration};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::record_batch::{CONFIGURED, RecordBatch};

/// The values in a list of config options: each id with the JSON of its value.
pub(crate) fn setting_values(options: &RawValue) -> Vec<(String, Box<RawValue>)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Setting<'a> {
        id: String,
        #[serde(borrow)]
        current_value: &'a RawValue,
    }
    let options: Vec<&RawValue> = serde_json::from_str(options.get()).unwrap_or_default();
    let read = |raw: &RawValue| {
        let setting: Setting<'_> = serde_json::from_str(raw.get()).ok()?;
        Some((setting.id, setting.current_value.to_owned()))
    };
    options.into_iter().filter_map(read).collect()
}

/// The data of `acp.configured`.
#[derive(Serialize)]
struct AcpConfiguredData<'a> {
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'a str>,
    /// The options that now have these values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<SettingValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct SettingValue {
    id: String,
    #[serde(rename = "currentValue")]
    value: Box<RawValue>,
}

/// Records a setting that the client made and the agent accepted.
pub(super) fn record_setting(
    method: &str,
    params: &RawValue,
    result: &RawValue,
    batch: &mut RecordBatch,
) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct SettingsParams<'a> {
        mode_id: Option<String>,
        config_id: Option<String>,
        model_id: Option<String>,
        #[serde(borrow)]
        value: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct SettingsResponse<'a> {
        #[serde(borrow)]
        config_options: Option<&'a RawValue>,
    }
    let mut configured = AcpConfiguredData { method, mode: None, values: Vec::new(), params: None };
    let Ok(read) = serde_json::from_str::<SettingsParams<'_>>(params.get()) else {
        configured.params = Some(params);
        batch.add(CONFIGURED, None, &configured);
        return;
    };
    configured.mode = read.mode_id.as_deref();
    let answer: Option<SettingsResponse<'_>> = serde_json::from_str(result.get()).ok();
    let told =
        answer.and_then(|answer| answer.config_options).map(setting_values).unwrap_or_default();
    if let (Some(id), Some(value)) = (read.config_id, read.value)
        && !told.iter().any(|(told, _)| *told == id)
    {
        configured.values.push(SettingValue { id, value: value.to_owned() });
    }
    configured.values.extend(told.into_iter().map(|(id, value)| SettingValue { id, value }));
    if configured.mode.is_none() && configured.values.is_empty() {
        configured.params = Some(params);
    }
    batch.add(CONFIGURED, None, &configured);
    if let Some(model) = read.model_id {
        let model = ModelConfiguration { model, ..ModelConfiguration::default() };
        batch.fact(&Kind::MODEL_CONFIGURED, None, model);
    }
}
