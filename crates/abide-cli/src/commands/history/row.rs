//! A listed session as JSON.

use std::collections::BTreeMap;

use abide::{
    Timestamp,
    event::{SessionParent, Usage},
    history::{FileActivity, HistoryEntry, SearchMatch},
};
use serde::Serialize;

use crate::answer_json::SCHEMA;
use crate::project_name::project_name;
use crate::session_status::CurrentStatus;

/// A session as JSON.
#[derive(Serialize)]
pub(super) struct HistoryRow<'a> {
    schema: u32,
    id: String,
    short: &'a str,
    key: Option<&'a str>,
    title: Option<&'a str>,
    name: Option<String>,
    state: &'static str,
    status: &'static str,
    agent: Option<&'a str>,
    model: Option<&'a str>,
    created: Timestamp,
    updated: Timestamp,
    completed_at: Option<Timestamp>,
    duration_ms: i64,
    turns: u64,
    messages: u64,
    tool_calls: u64,
    files: u64,
    usage: &'a Usage,
    labels: &'a BTreeMap<String, String>,
    workspace: Option<&'a str>,
    project: Option<String>,
    who: Option<&'a str>,
    request: Option<&'a str>,
    summary: Option<&'a str>,
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a SessionParent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    match_count: Option<u64>,
    #[serde(skip_serializing_if = "<[SearchMatch]>::is_empty")]
    matches: &'a [SearchMatch],
    #[serde(skip_serializing_if = "<[FileActivity]>::is_empty")]
    touched: &'a [FileActivity],
}

impl<'a> HistoryRow<'a> {
    pub(super) fn of(entry: &'a HistoryEntry, now: CurrentStatus) -> Self {
        let overview = &entry.overview;
        Self {
            schema: SCHEMA,
            id: entry.id.to_string(),
            short: &entry.short,
            key: overview.fields.key.as_deref(),
            title: overview.fields.title.as_deref(),
            name: overview.name(),
            state: now.state.as_str(),
            status: now.status.as_str(),
            agent: overview.fields.agent.as_deref(),
            model: overview.fields.model.as_deref(),
            created: overview.created,
            updated: overview.updated,
            completed_at: overview.completed_at,
            duration_ms: overview.updated.as_millis() - overview.created.as_millis(),
            turns: overview.turns,
            messages: overview.messages,
            tool_calls: overview.tool_calls,
            files: entry.files,
            usage: &overview.usage,
            labels: &overview.fields.labels,
            workspace: overview.fields.workspace.as_deref(),
            project: project_name(&overview.fields),
            who: overview.who.as_deref(),
            request: overview.request.as_deref(),
            summary: overview.summary.as_deref(),
            reason: overview.reason.as_deref(),
            parent: overview.fields.parent.as_ref(),
            match_count: (entry.match_count > 0).then_some(entry.match_count),
            matches: &entry.matches,
            touched: &entry.touched,
        }
    }
}
