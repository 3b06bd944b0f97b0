//! What a thread of Codex used, as differences of its counters.
//!
//! A report has what was used since the beginning of the thread and mostly what was used last. The first
//! report of a file may count what a file before it has already: only the last part of it is new. A
//! report that is repeated adds nothing, and after one that counts less than the one before it, its last
//! part is what is new. Newer versions write two sorts of reports for each answer: once the exact sort is
//! there, the other counts no more.

use abide_model::{NewEvent, Usage};
use abide_wire::json::RawJsonFields;
use serde::{Deserialize, Serialize};

use super::super::output::codex_usage;
use crate::kept::record_fields::{id_field, object_field, usage_event};
use crate::output::{spent_includes, spent_since};

/// The counters of a thread.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ThreadUsage {
    /// What was used so far; `None` before the first report.
    told: Option<Usage>,
    /// There are reports that name the answer.
    exact: bool,
}

/// What is known around a report of usage.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsageOrigin<'a> {
    /// The thread, or the one that it was forked from: it may have the same reports.
    pub(super) thread: Option<&'a str>,
    /// The turn.
    pub(super) turn: Option<&'a str>,
    /// The model.
    pub(super) model: Option<&'a str>,
}

impl ThreadUsage {
    /// Reads a `token_usage_record`, which is written for each answer of the model.
    pub(super) fn answer(
        &mut self,
        payload: &RawJsonFields<'_>,
        origin: UsageOrigin<'_>,
    ) -> Option<NewEvent> {
        self.exact = true;
        let last = payload.get("usage").map(codex_usage);
        let all = payload.get("thread_token_usage").map(codex_usage).or_else(|| {
            let mut all = self.told.clone().unwrap_or_default();
            all.add(last.as_ref()?);
            Some(all)
        })?;
        let (thread, turn) = (id_field(payload, "thread_id"), id_field(payload, "turn_id"));
        let place = turn.as_deref().or(origin.turn).or(thread.as_deref()).or(origin.thread);
        let id = id_field(payload, "response_id").unwrap_or_else(|| sum(&all).to_string());
        self.more(all, last, place, &id, origin.model)
    }

    /// Reads the `info` of a `token_count`.
    pub(super) fn count(
        &mut self,
        payload: &RawJsonFields<'_>,
        origin: UsageOrigin<'_>,
    ) -> Option<NewEvent> {
        let info = object_field(payload, "info").filter(|_| !self.exact)?;
        let all = codex_usage(info.get("total_token_usage")?);
        let last = info.get("last_token_usage").map(codex_usage);
        let id = sum(&all).to_string();
        self.more(all, last, origin.turn.or(origin.thread), &id, origin.model)
    }

    /// What is used more than before. Its id is the same in every file that has a copy of the report.
    fn more(
        &mut self,
        all: Usage,
        last: Option<Usage>,
        place: Option<&str>,
        id: &str,
        model: Option<&str>,
    ) -> Option<NewEvent> {
        let since = match &self.told {
            Some(told) if spent_includes(&all, told) => spent_since(&all, told),
            _ => last.unwrap_or_else(|| all.clone()),
        };
        self.told = Some(all);
        usage_event(format!("{}/{id}", place.unwrap_or("-")), model.map(str::to_owned), since)
    }
}

fn sum(usage: &Usage) -> u64 {
    usage.input_tokens.saturating_add(usage.output_tokens)
}
