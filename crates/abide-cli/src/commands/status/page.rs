//! The status as text: a part for each state, coloured on a terminal.

use abide::liveness::{Liveness, SessionLiveness};
use abide_transcript::escape;

use super::row::StatusRow;
use super::survey::StatusSurvey;
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, terminal_width};
use crate::error::CommandError;
use crate::session_status::DisplayedState;
use crate::text_table::{TableColour, cut_to_column, table_width_of};
use crate::typed_time::time_ago;

/// How many calls are named; the others are counted.
const CALLS: usize = 6;
/// The maximum width of a name on a terminal.
const NAME: usize = 48;
/// The width below which a name is not cut if another column can be left out instead.
const SHORT_NAME: usize = 20;
/// The width below which a name is not cut.
const SHORTEST_NAME: usize = 8;
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

    /// A session with all that is known of it.
    fn row(&mut self, row: &StatusRow, columns: &StatusPageColumns) -> Result<(), CommandError> {
        self.first_line(row, columns, &[])?;
        let state = row.now.state;
        if let Some(found) = &row.found {
            if let Some(doing) = page_work(found) {
                self.below(&doing, TableColour::Plain)?;
            }
            if let Some(calls) = page_calls(found) {
                let crashed = found.liveness == Liveness::Crashed;
                let colour = if crashed { TableColour::Yellow } else { TableColour::Plain };
                self.below(&calls, colour)?;
            }
            if found.liveness != Liveness::Idle {
                self.below(&escape::text(&found.explain()), TableColour::Dim)?;
            }
            if let Some(orphans) = page_orphans(found) {
                self.below(&orphans, TableColour::Yellow)?;
            }
        }
        if matches!(state, DisplayedState::Failed | DisplayedState::Stopped)
            && let Some(ending) = &row.ending
        {
            self.below(&escape::text(ending), TableColour::Dim)?;
        }
        let mut commands = vec![("next", &row.next)];
        commands.extend(row.with_agent.as_ref().map(|command| ("continue", command)));
        commands.extend((row.next != row.show).then_some(("look", &row.show)));
        let mut parts = vec![(" ".repeat(BELOW), TableColour::Plain)];
        let mut used = BELOW;
        for (at, (what, command)) in commands.into_iter().enumerate() {
            let gap = if at > 0 { "   " } else { "" };
            let (what, command) = (format!("{gap}{what}: "), escape::text(command).into_owned());
            used += table_width_of(&what) + table_width_of(&command);
            // Half a command is none.
            if at > 0 && used > self.width {
                break;
            }
            parts.push((what, TableColour::Dim));
            parts.push((command, TableColour::Plain));
        }
        self.line(&parts)
    }

    /// A session on one line, with its state and the command that comes next.
    fn short_row(
        &mut self,
        row: &StatusRow,
        columns: &StatusPageColumns,
    ) -> Result<(), CommandError> {
        let state = row.now.state;
        let pad = |text: &str, wide: usize| " ".repeat(wide.saturating_sub(text.len()) + 2);
        let ago = time_ago(row.at, self.now);
        self.first_line(
            row,
            columns,
            &[
                (pad(&ago, columns.ago), TableColour::Plain),
                (state.as_str().to_owned(), state.colour()),
                (pad(state.as_str(), columns.state), TableColour::Plain),
                (escape::text(&row.next).into_owned(), TableColour::Dim),
            ],
        )
    }

    fn first_line(
        &mut self,
        row: &StatusRow,
        columns: &StatusPageColumns,
        more: &[(String, TableColour)],
    ) -> Result<(), CommandError> {
        let name = cut_to_column(&page_name(row), columns.name);
        let pad =
            |text: &str, wide: usize| " ".repeat(wide.saturating_sub(table_width_of(text)) + 2);
        let mut parts = vec![
            ("  ".to_owned(), TableColour::Plain),
            (name.clone(), TableColour::Bold),
            (pad(&name, columns.name), TableColour::Plain),
        ];
        if let Some(short) = columns.short {
            parts.push((row.short.clone(), row.now.state.colour()));
            parts.push((pad(&row.short, short), TableColour::Plain));
        }
        if let Some(wide) = columns.agent {
            let agent = page_agent(row);
            parts.push((agent.clone(), TableColour::Cyan));
            parts.push((pad(&agent, wide), TableColour::Plain));
        }
        parts.push((time_ago(row.at, self.now), TableColour::Dim));
        parts.extend(more.iter().cloned());
        // The last is a command: half of it is none.
        let width: usize = parts.iter().map(|(text, _)| table_width_of(text)).sum();
        if !more.is_empty() && width > self.width {
            parts.pop();
        }
        self.line(&parts)
    }
}

/// The widths of the columns. Where the terminal is narrow, agent and id are left out: the command that
/// comes next has the id.
struct StatusPageColumns {
    name: usize,
    short: Option<usize>,
    agent: Option<usize>,
    ago: usize,
    state: usize,
}

impl StatusPageColumns {
    fn of(rows: &[StatusRow], page: &StatusPage<'_>) -> Self {
        let room = if page.width == ENDLESS { ENDLESS } else { NAME };
        let widest = |text: &dyn Fn(&StatusRow) -> usize| rows.iter().map(text).max().unwrap_or(0);
        let mut columns = Self {
            name: widest(&|row| table_width_of(&page_name(row))).min(room),
            short: Some(widest(&|row| table_width_of(&row.short))),
            agent: Some(widest(&|row| table_width_of(&page_agent(row)))),
            ago: widest(&|row| time_ago(row.at, page.now).len()),
            state: widest(&|row| row.now.state.as_str().len()),
        };
        // Only rows on one line have their state and command in it.
        let is_short = |row: &StatusRow| !PARTS.contains(&row.now.state);
        let next =
            rows.iter().filter(|row| is_short(row)).map(|row| table_width_of(&row.next)).max();
        let end = next.map_or(0, |next| columns.state + next + 4);
        if page.width != ENDLESS {
            columns.fit(page.width, end);
        }
        columns
    }

    /// Leaves out columns and cuts the names, so that the end of a line has its place.
    fn fit(&mut self, width: usize, end: usize) {
        let room = |columns: &Self| {
            let others = [columns.short, columns.agent].into_iter().flatten();
            let others: usize = others.map(|width| width + 2).sum();
            width.saturating_sub(4 + others + columns.ago + end)
        };
        let least = self.name.min(SHORT_NAME);
        if room(self) < least {
            self.agent = None;
        }
        if room(self) < least && end > 0 {
            self.short = None;
        }
        self.name = self.name.min(room(self).max(SHORTEST_NAME));
    }
}

/// The states that have a part of their own, with all that is known of their sessions.
const PARTS: [DisplayedState; 5] = [
    DisplayedState::Running,
    DisplayedState::Unclear,
    DisplayedState::Crashed,
    DisplayedState::Failed,
    DisplayedState::Stopped,
];

/// Every listed session, and how many are not listed.
pub(super) fn show_status_page(
    survey: &StatusSurvey,
    surroundings: &CommandContext,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    let mut page = StatusPage::new(surroundings, out);
    let columns = StatusPageColumns::of(&survey.rows, &page);
    for state in PARTS {
        let mut rows = survey.rows.iter().filter(|row| row.now.state == state).peekable();
        if rows.peek().is_none() {
            continue;
        }
        page.line(&[])?;
        page.line(&[(state.heading().to_owned(), state.colour())])?;
        rows.try_for_each(|row| page.row(row, &columns))?;
    }
    let others = || survey.rows.iter().filter(|row| !PARTS.contains(&row.now.state));
    if others().next().is_some() {
        page.line(&[])?;
        page.line(&[("Last".to_owned(), TableColour::Bold)])?;
        others().try_for_each(|row| page.short_row(row, &columns))?;
    }
    let more = survey.more();
    if more > 0 {
        page.line(&[])?;
        page.line(&[(format!("{more} more; `abide ls` lists them"), TableColour::Dim)])?;
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
    let state = row.now.state;
    let recorded = row.found.as_ref().map_or(row.now.status, |found| found.evidence.status);
    page.line(&[
        (state.heading().to_owned(), state.colour()),
        (format!("  recorded as {}", recorded.as_str()), TableColour::Dim),
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

fn page_agent(row: &StatusRow) -> String {
    escape::text(row.fields.agent.as_deref().unwrap_or_default()).into_owned()
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
