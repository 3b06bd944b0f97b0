//! The status as text: a section for each kind of session, coloured on a terminal.

use abide::liveness::{Liveness, SessionLiveness};
use abide_transcript::escape;

use super::row::StatusRow;
use super::survey::StatusSurvey;
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, terminal_width};
use crate::error::CommandError;
use crate::text_table::{TableColour, cut_to_column, table_width_of};
use crate::typed_time::time_ago;

/// How many calls are named; the others are counted.
const CALLS: usize = 6;
/// The maximum width of a name on a terminal.
const NAME: usize = 48;
/// How far the lines below a name are indented.
const BELOW: usize = 4;
/// The line width without a terminal: nothing is cut.
const ENDLESS: usize = usize::MAX;

/// Writes lines that fit the terminal, if there is one.
struct StatusPage<'a> {
    out: &'a mut CommandOutput,
    coloured: bool,
    width: usize,
    now: jiff::Timestamp,
}

impl<'a> StatusPage<'a> {
    fn new(surroundings: &CommandContext, out: &'a mut CommandOutput) -> Self {
        let terminal = out.is_terminal();
        Self {
            coloured: surroundings.colours && terminal,
            width: if terminal { terminal_width().unwrap_or(ENDLESS) } else { ENDLESS },
            now: jiff::Timestamp::now(),
            out,
        }
    }

    /// Writes coloured texts, as far as they fit.
    fn line(&mut self, parts: &[(String, TableColour)]) -> Result<(), CommandError> {
        let mut left = self.width;
        let mut line = String::new();
        for (text, colour) in parts {
            let text = cut_to_column(text, left);
            left = left.saturating_sub(table_width_of(&text));
            line.push_str(&colour.paint(&text, self.coloured));
        }
        self.out.line(line.trim_end())
    }

    /// Writes a line below the name of a session.
    fn below(&mut self, text: &str, colour: TableColour) -> Result<(), CommandError> {
        self.line(&[(" ".repeat(BELOW), TableColour::Plain), (text.to_owned(), colour)])
    }

    fn row(&mut self, row: &StatusRow, columns: &StatusPageColumns) -> Result<(), CommandError> {
        let found = &row.found;
        let name = cut_to_column(&page_name(row), columns.name);
        let pad =
            |text: &str, wide: usize| " ".repeat(wide.saturating_sub(table_width_of(text)) + 2);
        let agent = page_agent(found);
        let colour = match found.liveness {
            Liveness::Alive => TableColour::Green,
            Liveness::Stale => TableColour::Yellow,
            Liveness::Crashed => TableColour::Red,
            Liveness::Idle => TableColour::Bold,
        };
        self.line(&[
            ("  ".to_owned(), TableColour::Plain),
            (name.clone(), TableColour::Bold),
            (pad(&name, columns.name), TableColour::Plain),
            (row.short.clone(), colour),
            (pad(&row.short, columns.short), TableColour::Plain),
            (agent.clone(), TableColour::Cyan),
            (pad(&agent, columns.agent), TableColour::Plain),
            (time_ago(found.at, self.now), TableColour::Dim),
        ])?;
        if let Some(doing) = page_work(found) {
            self.below(&doing, TableColour::Plain)?;
        }
        if let Some(calls) = page_calls(found) {
            let colour = if found.liveness == Liveness::Crashed {
                TableColour::Yellow
            } else {
                TableColour::Plain
            };
            self.below(&calls, colour)?;
        }
        if found.liveness != Liveness::Idle {
            let stale = if found.liveness == Liveness::Stale { "stale: " } else { "" };
            let why = escape::text(&found.explain()).into_owned();
            self.below(&format!("{stale}{why}"), TableColour::Dim)?;
        }
        if let Some(orphans) = page_orphans(found) {
            self.below(&orphans, TableColour::Yellow)?;
        }
        let commands = match &row.resume {
            Some(resume) => [("go on", resume), ("look", &row.show)],
            None => [("watch", &row.follow), ("look", &row.show)],
        };
        let mut parts = vec![(" ".repeat(BELOW), TableColour::Plain)];
        for (at, (what, command)) in commands.into_iter().enumerate() {
            let gap = if at > 0 { "   " } else { "" };
            parts.push((format!("{gap}{what}: "), TableColour::Dim));
            parts.push((escape::text(command).into_owned(), TableColour::Plain));
        }
        self.line(&parts)
    }
}

/// The widths of the columns.
struct StatusPageColumns {
    name: usize,
    short: usize,
    agent: usize,
}

impl StatusPageColumns {
    fn of(rows: &[StatusRow], page: &StatusPage<'_>) -> Self {
        let room = if page.width == ENDLESS { ENDLESS } else { NAME };
        let widest = |text: &dyn Fn(&StatusRow) -> usize| rows.iter().map(text).max().unwrap_or(0);
        Self {
            name: widest(&|row| table_width_of(&page_name(row))).min(room),
            short: widest(&|row| table_width_of(&row.short)),
            agent: widest(&|row| table_width_of(&page_agent(&row.found))),
        }
    }
}

/// Every listed session, and how many are not listed.
pub(super) fn show_status_page(
    survey: &StatusSurvey,
    surroundings: &CommandContext,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    let mut page = StatusPage::new(surroundings, out);
    let columns = StatusPageColumns::of(&survey.rows, &page);
    let parts: [(&str, &[Liveness], TableColour); 3] = [
        ("Running", &[Liveness::Alive, Liveness::Stale], TableColour::Green),
        ("Crashed", &[Liveness::Crashed], TableColour::Red),
        ("Idle", &[Liveness::Idle], TableColour::Bold),
    ];
    for (name, states, colour) in parts {
        let rows = || survey.rows.iter().filter(|row| states.contains(&row.found.liveness));
        if rows().next().is_none() {
            continue;
        }
        page.line(&[])?;
        page.line(&[(name.to_owned(), colour)])?;
        rows().try_for_each(|row| page.row(row, &columns))?;
    }
    let mut rest = Vec::new();
    let counted = [
        (survey.more_open, "more not closed"),
        (survey.more_idle, "more idle"),
        (survey.completed, "completed"),
        (survey.failed, "failed"),
    ];
    rest.extend(
        counted
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}")),
    );
    if !rest.is_empty() {
        let more = survey.more_open + survey.more_idle > 0;
        let hint = if more { "; `abide status --all` lists them" } else { "" };
        page.line(&[])?;
        page.line(&[(format!("{}{hint}", rest.join(", ")), TableColour::Dim)])?;
    }
    Ok(())
}

/// One session.
pub(super) fn show_session_page(
    row: &StatusRow,
    surroundings: &CommandContext,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    let mut page = StatusPage::new(surroundings, out);
    let name = match row.found.liveness {
        Liveness::Alive => ("Running", TableColour::Green),
        Liveness::Stale => ("Stale", TableColour::Yellow),
        Liveness::Crashed => ("Crashed", TableColour::Red),
        Liveness::Idle => ("Idle", TableColour::Bold),
    };
    let status = row.found.evidence.status.as_str();
    page.line(&[
        (name.0.to_owned(), name.1),
        (format!("  recorded as {status}"), TableColour::Dim),
    ])?;
    let columns = StatusPageColumns::of(std::slice::from_ref(row), &page);
    page.row(row, &columns)
}

fn page_name(row: &StatusRow) -> String {
    let name = escape::text(row.name.as_deref().unwrap_or("(no name)"));
    match &row.project {
        Some(project) => format!("{name}  ({})", escape::text(project)),
        None => name.into_owned(),
    }
}

fn page_agent(found: &SessionLiveness) -> String {
    escape::text(found.fields.agent.as_deref().unwrap_or_default()).into_owned()
}

/// The open turns and tasks.
fn page_work(found: &SessionLiveness) -> Option<String> {
    let turns = found.turns.iter().map(|open| {
        let by = if open.agent.is_empty() {
            String::new()
        } else {
            format!(" by {}", escape::text(&open.agent))
        };
        let lane = if open.lane.is_empty() {
            String::new()
        } else {
            format!(" in lane {}", escape::text(&open.lane))
        };
        format!("turn {}{by}{lane}", open.turn)
    });
    let tasks = found.tasks.iter().map(|task| {
        let title = if task.title.is_empty() { task.task.as_str() } else { &task.title };
        format!("task: {}", escape::text(title))
    });
    let parts: Vec<String> = turns.chain(tasks).collect();
    (!parts.is_empty()).then(|| format!("in {}", parts.join(", ")))
}

/// The calls without a result. For a crashed session their outcome is unknown, and it says so.
fn page_calls(found: &SessionLiveness) -> Option<String> {
    let count = found.calls.len();
    if count == 0 {
        return None;
    }
    let plural = if count == 1 { "" } else { "s" };
    let what = match found.liveness {
        Liveness::Crashed => "whose outcome is unknown",
        Liveness::Alive | Liveness::Stale | Liveness::Idle => "without a result",
    };
    let named = found.calls.iter().take(CALLS);
    let names: Vec<_> = named.map(|call| escape::text(&call.state.name)).collect();
    let more = count.saturating_sub(CALLS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("{count} call{plural} {what}: {}{more}", names.join(", ")))
}

fn page_orphans(found: &SessionLiveness) -> Option<String> {
    let named = found.orphans.iter().take(CALLS);
    let names: Vec<_> =
        named.map(|one| format!("{} ({})", escape::text(&one.program), one.process)).collect();
    (!names.is_empty()).then(|| format!("still running for it: {}", names.join(", ")))
}
