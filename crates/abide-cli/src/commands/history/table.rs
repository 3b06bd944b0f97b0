//! Listed sessions as a table on a terminal, and as plain lines elsewhere.

use abide::{
    SessionId,
    event::{ParentReason, SessionParent},
    history::{FileActivity, HistoryEntry, Overview, SearchMatch},
};
use abide_transcript::escape;

use crate::command_output::CommandOutput;
use crate::error::CommandError;
use crate::project_name::project_name;
use crate::session_status::CurrentStatus;
use crate::text_table::{TableCell, TableColour, TextTable};
use crate::typed_time::time_ago;

/// The most characters of a path in a column.
const PATH: usize = 24;

/// The name of a session.
fn history_name(entry: &HistoryEntry) -> String {
    escape::text(&entry.overview.name().unwrap_or_default()).into_owned()
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

/// Which columns the table has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HistoryColumns {
    /// Those of one person's sessions in one project.
    OfOneProject,
    /// Also who, in which project, and where.
    WithPlace,
}

/// Who wrote to a session, its project, and its directory.
fn history_place(entry: &HistoryEntry) -> [String; 3] {
    let Overview { who, fields, .. } = &entry.overview;
    let project = project_name(fields);
    [who.as_ref(), project.as_ref(), fields.workspace.as_ref()]
        .map(|text| escape::text(text.map(String::as_str).unwrap_or_default()).into_owned())
}

pub(super) fn print_plain_history(
    entries: &[HistoryEntry],
    statuses: &[CurrentStatus],
    columns: HistoryColumns,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    for (entry, now) in entries.iter().zip(statuses) {
        let overview = &entry.overview;
        let place = match columns {
            HistoryColumns::OfOneProject => String::new(),
            HistoryColumns::WithPlace => {
                let [who, project, workspace] = history_place(entry);
                format!("\t{project}\t{who}\t{workspace}")
            }
        };
        out.line(format_args!(
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}{place}",
            entry.short,
            overview.updated,
            now.status.as_str(),
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

pub(super) fn print_history_table(
    entries: &[HistoryEntry],
    statuses: &[CurrentStatus],
    columns: HistoryColumns,
    now: jiff::Timestamp,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    if entries.is_empty() {
        return Ok(());
    }
    let table = history_table(TextTable::led_by_name(HEADINGS), entries, statuses, columns, now);
    table.lines().into_iter().try_for_each(|line| out.line(line))
}

/// The columns, in the order in which they are left out from behind where the terminal is narrow.
const HEADINGS: [&str; 11] = [
    "NAME", "ID", "UPDATED", "STATE", "WHO", "PROJECT", "WHERE", "AGENT", "TURNS", "TOKENS",
    "FILES",
];

/// Name, id, age and state stay where the names can be cut for them.
const KEPT: usize = 4;

fn history_table(
    table: TextTable<11>,
    entries: &[HistoryEntry],
    statuses: &[CurrentStatus],
    columns: HistoryColumns,
    now: jiff::Timestamp,
) -> TextTable<11> {
    let hidden = if columns == HistoryColumns::OfOneProject { 4..7 } else { 0..0 };
    let mut table = table.right([8, 9, 10]).without(hidden).keeping(KEPT);
    for (entry, current) in entries.iter().zip(statuses) {
        let overview = &entry.overview;
        let count =
            |count: u64| if count == 0 { "-".to_owned() } else { short_history_number(count) };
        let [who, project, workspace] = history_place(entry);
        table.row([
            TableCell::new(history_name(entry), TableColour::Bold),
            TableCell::plain(entry.short.clone()),
            TableCell::plain(time_ago(overview.updated, now)),
            TableCell::new(current.state.as_str().to_owned(), current.state.colour()),
            TableCell::plain(who),
            TableCell::plain(project),
            TableCell::plain(path_end(&workspace)),
            TableCell::plain(history_agent(entry)),
            TableCell::plain(count(overview.turns)),
            TableCell::plain(count(history_tokens(entry))),
            TableCell::plain(count(entry.files)),
        ]);
        note_history_entry(&mut table, entry);
    }
    table
}

/// What stands below a session: its fork, its key, and what was found.
fn note_history_entry(table: &mut TextTable<11>, entry: &HistoryEntry) {
    let fields = &entry.overview.fields;
    if let Some(parent) = fields.parent.as_ref().filter(|parent| is_history_fork(parent)) {
        let from = parent.session.short(SessionId::SHORT);
        let text = format!("forked from {from} at @{}", parent.seq);
        table.note("", &[(text, TableColour::Dim)]);
    }
    // The key of a plan says nothing to people.
    if let Some(key) = fields.key.as_ref().filter(|key| !key.starts_with("plan:")) {
        table.note("", &[(format!("key {}", escape::text(key)), TableColour::Dim)]);
    }
    for (at, found) in entry.matches.iter().enumerate() {
        // A result is in the event of its call and in a message.
        let told = entry.matches.iter().take(at);
        let is_neighbour = |told: &SearchMatch| told.seq.0.abs_diff(found.seq.0) == 1;
        if told.clone().any(|told| is_neighbour(told) && told.excerpt.text == found.excerpt.text) {
            continue;
        }
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

/// The end of a path, which says more than its beginning.
fn path_end(path: &str) -> String {
    let over = path.chars().count().saturating_sub(PATH);
    if over == 0 {
        return path.to_owned();
    }
    let end: String = path.chars().skip(over + 1).collect();
    format!("…{end}")
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
    use abide::{SessionFields, SessionStatus};

    use super::*;
    use crate::session_status::RecordedOutcome;

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

    fn entry(short: &str, title: &str) -> HistoryEntry {
        let fields = SessionFields {
            title: Some(title.to_owned()),
            agent: Some("coder".to_owned()),
            workspace: Some("/home/ana/src/work/compiler/lexer".to_owned()),
            project: Some("/home/ana/src/work/compiler".to_owned()),
            ..SessionFields::default()
        };
        let overview = Overview {
            fields,
            status: SessionStatus::Idle,
            turns: 12,
            who: Some("ana@laptop".to_owned()),
            ..Overview::default()
        };
        HistoryEntry {
            id: "0199a3c5-0000-7000-8000-00deadbeef34".parse().unwrap(),
            short: short.to_owned(),
            overview,
            files: 3,
            matches: Vec::new(),
            match_count: 0,
            touched: Vec::new(),
        }
    }

    fn lines(width: usize, columns: HistoryColumns) -> String {
        let entries = [
            entry("k3x9ab", "Port the lexer to the new grammar and keep its tests green"),
            entry("a1b2c3", "Short"),
        ];
        let status = |entry: &HistoryEntry| {
            CurrentStatus::closed(RecordedOutcome::of_overview(&entry.overview))
        };
        let statuses: Vec<CurrentStatus> = entries.iter().map(status).collect();
        let now = jiff::Timestamp::from_millisecond(17 * 60_000).unwrap();
        let table = TextTable::led_by_name_of_width(HEADINGS, width);
        history_table(table, &entries, &statuses, columns, now).lines().join("\n")
    }

    /// Name, id, age and state stay, however narrow the terminal is.
    #[test]
    fn columns_are_left_out_from_behind() {
        insta::assert_snapshot!(lines(60, HistoryColumns::WithPlace), @r"
        NAME                           ID      UPDATED         STATE
        Port the lexer to the new gr…  k3x9ab  17 minutes ago  idle
        Short                          a1b2c3  17 minutes ago  idle
        ");
        insta::assert_snapshot!(lines(80, HistoryColumns::WithPlace), @r"
        NAME                                   ID      UPDATED         STATE  WHO
        Port the lexer to the new grammar an…  k3x9ab  17 minutes ago  idle   ana@laptop
        Short                                  a1b2c3  17 minutes ago  idle   ana@laptop
        ");
        insta::assert_snapshot!(lines(120, HistoryColumns::WithPlace), @r"
        NAME                                ID      UPDATED         STATE  WHO         PROJECT   WHERE                     AGENT
        Port the lexer to the new grammar…  k3x9ab  17 minutes ago  idle   ana@laptop  compiler  …src/work/compiler/lexer  coder
        Short                               a1b2c3  17 minutes ago  idle   ana@laptop  compiler  …src/work/compiler/lexer  coder
        ");
        insta::assert_snapshot!(lines(80, HistoryColumns::OfOneProject), @r"
        NAME                                 ID      UPDATED         STATE  AGENT  TURNS
        Port the lexer to the new grammar …  k3x9ab  17 minutes ago  idle   coder     12
        Short                                a1b2c3  17 minutes ago  idle   coder     12
        ");
        for width in [40, 50, 60, 80, 120] {
            for columns in [HistoryColumns::WithPlace, HistoryColumns::OfOneProject] {
                let text = lines(width, columns);
                assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            }
        }
    }

    #[test]
    fn a_long_path_keeps_its_end() {
        assert_eq!(path_end("/home/ana/project"), "/home/ana/project");
        assert_eq!(path_end("/home/ana/src/work/compiler/lexer"), "…src/work/compiler/lexer");
    }
}
