//! Prompts and how the agent answers them.

use std::borrow::Cow;

use abide::secrets::Redactor;
use abide::{
    TurnStart,
    event::{Usage, UsageRecord},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::record_batch::RecordBatch;
use super::redacted_text::start_of_text;
use super::update::parse_update_object;

#[derive(Deserialize)]
struct PromptParams<'a> {
    #[serde(borrow)]
    prompt: &'a RawValue,
}

/// A prompt as a message.
#[derive(Serialize)]
struct PromptMessage<'a> {
    role: &'a str,
    content: &'a RawValue,
}

/// The data of `turn.finished`.
#[derive(Serialize)]
struct TurnFinishedData<'a> {
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
}

/// Records the start of a turn.
pub(super) fn begin_turn(agent: &str, redactor: Option<&Redactor>, batch: &mut RecordBatch) {
    let turn = TurnStart { agent: start_of_text(redactor, agent, 256), ..TurnStart::default() };
    batch.fact(&abide::Kind::TURN_STARTED, None, turn);
}

/// Records a prompt.
pub(super) fn record_prompt(params: &RawValue, batch: &mut RecordBatch) {
    let content =
        parse_update_object::<PromptParams<'_>>(params).map_or(params, |params| params.prompt);
    let kind = abide::Kind::MESSAGE_ADDED;
    if !batch.add(kind.as_str(), None, &PromptMessage { role: "user", content }) {
        batch.fact(&kind, None, abide::Message::user(""));
    }
}

/// Records the end of a turn: the agent's result or its error.
pub(super) fn end_prompt_turn(
    outcome: Result<&RawValue, &RawValue>,
    redactor: Option<&Redactor>,
    batch: &mut RecordBatch,
) {
    match outcome {
        Ok(result) => {
            let (status, usage) = read_prompt_result(result);
            let status = start_of_text(redactor, &status, 256);
            finish_prompt_turn(&TurnFinishedData { status: &status, usage, error: None }, batch);
        }
        Err(error) => {
            let ended = TurnFinishedData { status: "error", usage: None, error: Some(error) };
            finish_prompt_turn(&ended, batch);
        }
    }
}

/// Records the usage of a prompt in a turn that continues with another.
pub(super) fn record_prompt_usage(outcome: Result<&RawValue, &RawValue>, batch: &mut RecordBatch) {
    if let Some(usage) = outcome.ok().and_then(|result| read_prompt_result(result).1) {
        let record = UsageRecord { id: None, model: None, usage };
        batch.fact(&abide::Kind::USAGE_RECORDED, None, record);
    }
}

/// Records that a turn ended without an answer.
pub(super) fn break_off_prompt(why: &str, redactor: Option<&Redactor>, batch: &mut RecordBatch) {
    let why = start_of_text(redactor, why, 4096);
    finish_prompt_turn(&TurnFinishedData { status: &why, usage: None, error: None }, batch);
}

fn finish_prompt_turn(end: &TurnFinishedData<'_>, batch: &mut RecordBatch) {
    let kind = abide::Kind::TURN_FINISHED;
    if !batch.add(kind.as_str(), None, end) {
        let bare = TurnFinishedData { status: end.status, usage: end.usage.clone(), error: None };
        batch.add(kind.as_str(), None, &bare);
    }
}

/// The agent's stop reason and usage.
fn read_prompt_result(result: &RawValue) -> (String, Option<Usage>) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PromptResult<'a> {
        #[serde(borrow)]
        stop_reason: Cow<'a, str>,
        #[serde(borrow)]
        usage: Option<&'a RawValue>,
    }
    let Ok(read) = serde_json::from_str::<PromptResult<'_>>(result.get()) else {
        return ("unknown".to_owned(), None);
    };
    let used = read.usage.and_then(|json| serde_json::from_str(json.get()).ok());
    (read.stop_reason.into_owned(), used.as_ref().and_then(prompt_usage))
}

/// The usage of a prompt; `None` if required counts are missing.
fn prompt_usage(usage: &Value) -> Option<Usage> {
    let tokens = |member| usage.get(member).and_then(Value::as_u64);
    Some(Usage {
        input_tokens: tokens("inputTokens")?,
        output_tokens: tokens("outputTokens")?,
        cache_read_tokens: tokens("cachedReadTokens").unwrap_or(0),
        cache_write_tokens: tokens("cachedWriteTokens").unwrap_or(0),
        reasoning_tokens: tokens("thoughtTokens").unwrap_or(0),
        cost_micros: 0,
    })
}
