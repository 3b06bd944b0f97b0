//! `abide history`: lists, filters and searches the sessions of a store.

use std::collections::BTreeMap;

use abide::{
    HistoryQuery, SessionId, SessionStatus, Timestamp,
    event::{ParentReason, SessionParent, Usage},
    history::{FileActivity, HistoryEntry, Search, SearchMatch},
};
use abide_transcript::escape;
use serde::Serialize;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::error::CommandError;
use crate::project_name::project_name;
use crate::scoped_store::ScopedStore;
use crate::session_status::{recorded_statuses, status_now};
use crate::text_table::{TableCell, TableColour, TextTable};
use crate::typed_time::{TypedTime, time_ago};

/// List sessions, and find anything ever said in them
///
/// Without a search, the sessions in which something happened last come first; with one, those
/// that fit best, each with the text around what was found and the turn in which it stands.
/// Filters combine: a session is listed when all of them fit.
///
/// Listed are the sessions of this project. With --all-projects, and outside of a project, those of all
/// projects in the store are, each with its project.
///
/// A search is made of words, beginnings of words (`pars*`) and phrases ("in quotes"); all of them
/// must stand in one message, tool call, result or title. A word with punctuation in it, such as
/// parse_line or src/main.rs, is a phrase of its parts. Case and accents do not matter.
///
/// A session is listed under its name: its title, else the first prompt of a person, else the command
/// of its run. `abide rename` gives it another. A name or a key names its session in every command.
///
/// On a terminal this is a table. Elsewhere it is one line a session, with tabs between: short id,
/// time of the last event, status, agent, turns, tokens, files changed, name, and the project where
/// sessions of all projects are listed. A client's key and places that were found follow on lines that
/// begin with a tab.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide history                                  the latest sessions of this project
  abide history -A --search 'connection reset'   where was that, in any project
  abide history --search 'parser \"last line\"'    who said that, and where
  abide history --file src/main.rs               who touched that file
  abide history --status failed --since 7d --json")]
pub(crate) struct HistoryArgs {
    /// At most so many; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// In this state now: pending, running, idle, interrupted, completed or failed; may be given more
    /// than once. A session that a process has open is running; one that was closed without a result
    /// is idle, and one whose process died is interrupted
    #[arg(long, value_name = "STATUS", value_parser = history_status)]
    status: Vec<SessionStatus>,
    /// In which this was said
    #[arg(long, value_name = "TEXT", value_parser = Search::parse)]
    search: Option<Search>,
    /// Which touched this file: its path, the end of its path, or a directory
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// In which this agent worked
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// With this label: NAME or NAME=VALUE
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// In which something happened since: 2026-11-15, 2026-11-15T01:20:00Z, 90m, 3d, 2w, yesterday
    #[arg(long, value_name = "TIME")]
    since: Option<TypedTime>,
    /// Which were made until then; a day counts to its end
    #[arg(long, value_name = "TIME")]
    until: Option<TypedTime>,
    /// A JSON array of objects
    #[arg(long)]
    json: bool,
}

fn history_status(text: &str) -> Result<SessionStatus, String> {
    let names = ["pending", "running", "idle", "interrupted", "completed", "failed"];
    let parsed = serde_json::from_value(serde_json::Value::String(text.to_lowercase()));
    parsed.map_err(|_| format!("expected one of: {}", names.join(", ")))
}

impl HistoryArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let now = jiff::Timestamp::now();
        let limit = (self.limit > 0).then_some(self.limit);
        let query = HistoryQuery {
            // What a session's status is now, the index alone does not know.
            limit: limit.filter(|_| self.status.is_empty()),
            status: recorded_statuses(&self.status),
            search: self.search,
            file: self.file,
            agent: self.agent,
            label: self.label,
            since: self.since.map(|since| since.first(now)),
            until: self.until.map(|until| until.last(now)),
            unchanged_since: None,
            all_projects: surroundings.all_projects,
        };
        let mut found = opened.store.history(&query)?;
        for entry in &mut found.entries {
            entry.overview.status = status_now(entry, &opened.store);
        }
        if !self.status.is_empty() {
            found.entries.retain(|entry| self.status.contains(&entry.overview.status));
            let count = found.entries.len();
            found.entries.truncate(limit.unwrap_or(count));
            found.more = Some((count - found.entries.len()) as u64);
        }
        let query = HistoryQuery { limit, status: self.status, ..query };
        let columns = if opened.spans_projects() {
            HistoryColumns::WithProject
        } else {
            HistoryColumns::OfOneProject
        };
        let mut out = CommandOutput::stdout();
        if self.json {
            let rows: Vec<HistoryRow<'_>> = found.entries.iter().map(HistoryRow::of).collect();
            let json = serde_json::to_string_pretty(&rows).unwrap_or_default();
            json.lines().try_for_each(|line| out.json(line))?;
        } else if out.is_terminal() {
            print_history_table(&found.entries, columns, now, &mut out)?;
        } else {
            print_plain_history(&found.entries, columns, &mut out)?;
        }
        out.flush()?;
        found.notes.iter().for_each(|note| status(format_args!("Note: {note}")));
        if found.entries.is_empty() {
            status(empty_history_text(&query, &opened));
        } else if let Some(more @ 1..) = found.more {
            let plural = if more == 1 { "" } else { "s" };
            status(format_args!("{more} more session{plural}; `--limit 0` shows all"));
        }
        Ok(())
    }
}

fn empty_history_text(query: &HistoryQuery, opened: &ScopedStore) -> String {
    let place = opened.place();
    let of = opened.project.as_ref().map(|project| escape::text(&project.name));
    let (of, more) = match of {
        Some(name) => (format!(" of {name}"), "; `--all-projects` lists those of other projects"),
        None => (String::new(), ""),
    };
    let all = HistoryQuery { limit: query.limit, ..HistoryQuery::default() };
    if *query == (HistoryQuery { all_projects: query.all_projects, ..all }) {
        format!("There is no session{of} yet in {place}{more}")
    } else {
        format!("No session{of} in {place} fits{more}")
    }
}

/// Which columns the table has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HistoryColumns {
    OfOneProject,
    WithProject,
}

/// A session as JSON.
#[derive(Serialize)]
struct HistoryRow<'a> {
    id: String,
    short: &'a str,
    key: Option<&'a str>,
    title: Option<&'a str>,
    name: Option<String>,
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
    fn of(entry: &'a HistoryEntry) -> Self {
        let overview = &entry.overview;
        Self {
            id: entry.id.to_string(),
            short: &entry.short,
            key: overview.fields.key.as_deref(),
            title: overview.fields.title.as_deref(),
            name: overview.name(),
            status: overview.status.as_str(),
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
            project: history_project(entry),
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

/// The name of a session.
fn history_name(entry: &HistoryEntry) -> String {
    escape::text(&entry.overview.name().unwrap_or_default()).into_owned()
}

/// The display name of a session's project: the name of its directory, else of the workspace.
fn history_project(entry: &HistoryEntry) -> Option<String> {
    project_name(&entry.overview.fields)
}

fn history_agent(entry: &HistoryEntry) -> String {
    escape::text(entry.overview.fields.agent.as_deref().unwrap_or_default()).into_owned()
}

fn history_tokens(entry: &HistoryEntry) -> u64 {
    let usage = &entry.overview.usage;
    usage.input_tokens.saturating_add(usage.output_tokens)
}

/// Where a match is, for display.
fn history_match_place(place: &SearchMatch) -> String {
    let turn = match (&place.turn, &place.agent) {
        (Some(turn), Some(agent)) => format!("turn {turn} ({})", escape::text(agent)),
        (Some(turn), None) => format!("turn {turn}"),
        (None, _) if place.kind.as_str().starts_with("session.") => "session".to_owned(),
        (None, _) => format!("event {}", place.seq),
    };
    let rewound = if place.live { "" } else { ", rewound" };
    format!("{turn}{rewound}")
}

fn history_file_activity(file: &FileActivity) -> String {
    let times = if file.count > 1 { format!(" × {}", file.count) } else { String::new() };
    let turn = file.turn.map(|turn| format!(", turn {turn}")).unwrap_or_default();
    let agent = file.agent.as_ref().map(|agent| format!(" ({})", escape::text(agent)));
    format!(
        "{} {}{times}{turn}{}",
        file.op.as_str(),
        escape::text(&file.path),
        agent.unwrap_or_default()
    )
}

fn print_plain_history(
    entries: &[HistoryEntry],
    columns: HistoryColumns,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    for entry in entries {
        let overview = &entry.overview;
        let project = match columns {
            HistoryColumns::OfOneProject => String::new(),
            HistoryColumns::WithProject => {
                format!("\t{}", escape::text(&history_project(entry).unwrap_or_default()))
            }
        };
        out.line(format_args!(
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}{project}",
            entry.short,
            overview.updated,
            overview.status.as_str(),
            history_agent(entry),
            overview.turns,
            history_tokens(entry),
            entry.files,
            history_name(entry)
        ))?;
        if let Some(key) = &overview.fields.key {
            out.line(format_args!("\tkey\t{}", escape::text(key)))?;
        }
        for found in &entry.matches {
            let excerpt = escape::text(&found.excerpt.text);
            out.line(format_args!("\t@{}\t{}\t{excerpt}", found.seq, history_match_place(found)))?;
        }
        for file in &entry.touched {
            out.line(format_args!("\t@{}\t{}", file.seq, history_file_activity(file)))?;
        }
    }
    Ok(())
}

const fn history_status_colour(status: SessionStatus) -> TableColour {
    match status {
        SessionStatus::Running => TableColour::Cyan,
        SessionStatus::Completed => TableColour::Green,
        SessionStatus::Failed => TableColour::Red,
        SessionStatus::Interrupted => TableColour::Yellow,
        SessionStatus::Pending | SessionStatus::Idle => TableColour::Plain,
    }
}

fn print_history_table(
    entries: &[HistoryEntry],
    columns: HistoryColumns,
    now: jiff::Timestamp,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    if entries.is_empty() {
        return Ok(());
    }
    let headings =
        ["NAME", "ID", "PROJECT", "UPDATED", "STATUS", "AGENT", "TURNS", "TOKENS", "FILES"];
    let hidden = (columns == HistoryColumns::OfOneProject).then_some(2);
    let mut table = TextTable::led_by_name(headings).right([6, 7, 8]).without(hidden);
    for entry in entries {
        let overview = &entry.overview;
        let count =
            |count: u64| if count == 0 { "-".to_owned() } else { short_history_number(count) };
        let project = history_project(entry).unwrap_or_default();
        table.row([
            TableCell::new(history_name(entry), TableColour::Bold),
            TableCell::plain(entry.short.clone()),
            TableCell::plain(escape::text(&project).into_owned()),
            TableCell::plain(time_ago(overview.updated, now)),
            TableCell::new(
                overview.status.as_str().to_owned(),
                history_status_colour(overview.status),
            ),
            TableCell::plain(history_agent(entry)),
            TableCell::plain(count(overview.turns)),
            TableCell::plain(count(history_tokens(entry))),
            TableCell::plain(count(entry.files)),
        ]);
        if let Some(parent) =
            overview.fields.parent.as_ref().filter(|parent| is_history_fork(parent))
        {
            let from = parent.session.short(SessionId::SHORT);
            let text = format!("forked from {from} at @{}", parent.seq);
            table.note("", &[(text, TableColour::Dim)]);
        }
        if let Some(key) = &overview.fields.key {
            table.note("", &[(format!("key {}", escape::text(key)), TableColour::Dim)]);
        }
        for found in &entry.matches {
            // `abide show SESSION @36` takes it from there.
            let place = match (found.turn, found.live) {
                (None, true) => format!("@{}: ", found.seq),
                _ => format!("@{}, {}: ", found.seq, history_match_place(found)),
            };
            table.note(&place, &history_excerpt(found));
        }
        let left = entry.match_count.saturating_sub(entry.matches.len() as u64);
        if left > 0 && !entry.matches.is_empty() {
            table.note("", &[(format!("and in {left} more"), TableColour::Dim)]);
        }
        for file in &entry.touched {
            table.note("", &[(history_file_activity(file), TableColour::Plain)]);
        }
    }
    table.lines().into_iter().try_for_each(|line| out.line(line))
}

fn is_history_fork(parent: &SessionParent) -> bool {
    parent.reason == ParentReason::Fork
}

/// An excerpt in parts, with the matches highlighted.
fn history_excerpt(found: &SearchMatch) -> Vec<(String, TableColour)> {
    let mut parts = Vec::new();
    let text = &found.excerpt.text;
    let mut done = 0;
    let part = |range: std::ops::Range<usize>| {
        escape::text(text.get(range).unwrap_or_default()).into_owned()
    };
    for place in &found.excerpt.found {
        parts.push((part(done..place.start), TableColour::Plain));
        parts.push((part(place.clone()), TableColour::Found));
        done = place.end;
    }
    parts.push((part(done..text.len()), TableColour::Plain));
    parts
}

/// A count in about four characters: 950, 1.2k, 12k, 3.4M.
fn short_history_number(count: u64) -> String {
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    for (size, unit) in units {
        if count >= size {
            let (whole, tenth) = (count / size, count % size * 10 / size);
            return if whole >= 10 || tenth == 0 {
                format!("{whole}{unit}")
            } else {
                format!("{whole}.{tenth}{unit}")
            };
        }
    }
    count.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1k"),
            (1234, "1.2k"),
            (56_789, "56k"),
            (3_450_000, "3.4M"),
        ];
        for (count, shown) in cases {
            assert_eq!(short_history_number(count), shown);
        }
    }
}
