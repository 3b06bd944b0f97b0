//! `abide usage`: the tokens that were spent, by day, project, model, agent or session.

use std::collections::{BTreeMap, BTreeSet};

use abide::{
    SessionId,
    event::Usage,
    history::{UsageEntry, UsageQuery, UsageReport, UsageSession},
};
use abide_transcript::escape;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::project_name::project_name;
use crate::text_table::{TableCell, TableColour, TextTable};
use crate::typed_time::TypedTime;

/// Show the tokens that were spent
///
/// By default by day, for this project; outside a project, or with --all-projects, for all projects in
/// the store. What was taken back by a rewind counts too. Usage that is in several sessions,
/// such as a fork of an agent's session and the session itself, counts once.
///
/// On a terminal the output is a table. Elsewhere each line has tab-separated fields: day, project,
/// model, agent or session, then the tokens of input, output, read from the cache, written to it, and
/// of reasoning, and the number of sessions.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide usage                          by day, in this project
  abide usage --by model --since 30d
  abide usage -A --by project --json")]
pub(crate) struct UsageArgs {
    /// What to add up by
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = UsageGroup::Day)]
    by: UsageGroup,
    /// Only since this time: 2026-11-15, 2026-11-15T01:20:00Z, 90m, 3d, 2w, yesterday
    #[arg(long, value_name = "TIME")]
    since: Option<TypedTime>,
    /// Only before this time; a date includes the whole day
    #[arg(long, value_name = "TIME")]
    until: Option<TypedTime>,
    /// Count all events again and compare: exit code 1 if the index says otherwise
    #[arg(long)]
    check: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// What usage is added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum UsageGroup {
    /// Days of your time zone
    Day,
    /// Projects
    Project,
    /// Models
    Model,
    /// Agents
    Agent,
    /// Sessions
    Session,
}

impl UsageGroup {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Project => "project",
            Self::Model => "model",
            Self::Agent => "agent",
            Self::Session => "session",
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Day => "DAY",
            Self::Project => "PROJECT",
            Self::Model => "MODEL",
            Self::Agent => "AGENT",
            Self::Session => "SESSION",
        }
    }

    /// What an entry is added to: its key, and what people see.
    fn of(self, entry: &UsageEntry, session: &UsageSession) -> (String, Option<String>) {
        let fields = &session.fields;
        match self {
            Self::Day => (local_day(entry.at.as_millis()), None),
            Self::Model => (entry.model.clone(), None),
            Self::Agent => (fields.agent.clone().unwrap_or_default(), None),
            Self::Project => {
                let name = project_name(fields);
                let key = fields.project_id.clone().or_else(|| name.clone());
                (key.unwrap_or_default(), name)
            }
            Self::Session => (entry.session.to_string(), session.name.clone()),
        }
    }
}

/// The day of a time in the user's time zone.
fn local_day(millis: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    time.to_zoned(TimeZone::system()).date().to_string()
}

/// Tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
struct TokenCounts {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
}

impl TokenCounts {
    fn of(usage: &Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            reasoning_tokens: usage.reasoning_tokens,
        }
    }

    const fn columns(self) -> [u64; 5] {
        [
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.reasoning_tokens,
        ]
    }
}

/// Usage that is added up.
#[derive(Debug, Serialize)]
struct UsageRow {
    key: String,
    name: Option<String>,
    sessions: usize,
    #[serde(flatten)]
    tokens: TokenCounts,
}

/// The answer as JSON.
#[derive(Serialize)]
struct UsageAnswer<'a> {
    by: &'static str,
    rows: &'a [UsageRow],
    total: TokenCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<&'a [UsageDifference]>,
}

/// Where the index and the events say different things.
#[derive(Debug, Serialize)]
struct UsageDifference {
    session: String,
    at: abide::Timestamp,
    model: String,
    indexed: TokenCounts,
    counted: TokenCounts,
}

impl UsageArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let now = jiff::Timestamp::now();
        let query = UsageQuery {
            since: self.since.map(|since| since.first(now)),
            until: self.until.map(|until| until.last(now)),
            all_projects: surroundings.all_projects,
        };
        let report = opened.store.usage(&query)?;
        let differences = match self.check {
            true => Some(usage_differences(&report, &opened.store.recount_usage(&query)?)),
            false => None,
        };
        let rows = usage_rows(self.by, &report);
        let mut total = Usage::default();
        report.entries.iter().for_each(|entry| total.add(&entry.usage));
        let total = TokenCounts::of(&total);
        let mut out = CommandOutput::stdout();
        if self.json {
            let by = self.by.as_str();
            let differences = differences.as_deref();
            let answer = UsageAnswer { by, rows: &rows, total, differences };
            out.json(&serde_json::to_string(&answer).unwrap_or_default())?;
        } else {
            self.print(&rows, total, &mut out)?;
        }
        out.flush()?;
        report.notes.iter().for_each(|note| status(format_args!("Note: {note}")));
        if rows.is_empty() {
            status(format_args!("No usage is recorded in {}", opened.place()));
        }
        match differences.as_deref() {
            None => Ok(()),
            Some([]) => {
                status("The index says what the events say");
                Ok(())
            }
            Some(differences) => {
                for one in differences {
                    let model = escape::text(&one.model);
                    status(format_args!(
                        "session {} at {} ({model}): the index has {:?}, the events {:?}",
                        one.session,
                        one.at,
                        one.indexed.columns(),
                        one.counted.columns()
                    ));
                }
                let count = noun_count(differences.len() as u64, "difference");
                status(format_args!("{count} between the index and the events"));
                Err(CommandError::Reported)
            }
        }
    }

    fn print(
        &self,
        rows: &[UsageRow],
        total: TokenCounts,
        out: &mut CommandOutput,
    ) -> Result<(), CommandError> {
        if !out.is_terminal() {
            return rows.iter().try_for_each(|row| {
                let [input, output, read, written, reasoning] = row.tokens.columns();
                let key = escape::text(&row.key);
                let name = row.name.as_deref().map(escape::text).unwrap_or_default();
                let end = if name.is_empty() { String::new() } else { format!("\t{name}") };
                out.line(format_args!(
                    "{key}\t{input}\t{output}\t{read}\t{written}\t{reasoning}\t{}{end}",
                    row.sessions
                ))
            });
        }
        if rows.is_empty() {
            return Ok(());
        }
        let heading =
            [self.by.heading(), "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "REASONING"];
        let mut table = TextTable::led_by_name(heading).right(1..6);
        let cell = |count: u64| TableCell::plain(spaced_number(count));
        for row in rows {
            let shown = match (row.name.as_deref(), row.key.as_str()) {
                (Some(name), _) => escape::text(name).into_owned(),
                (None, "") => "unknown".to_owned(),
                (None, key) => escape::text(key).into_owned(),
            };
            let [input, output, read, written, reasoning] = row.tokens.columns().map(cell);
            let name = TableCell::new(shown, TableColour::Bold);
            table.row([name, input, output, read, written, reasoning]);
        }
        let [input, output, read, written, reasoning] = total.columns().map(cell);
        let name = TableCell::new("all".to_owned(), TableColour::Dim);
        table.row([name, input, output, read, written, reasoning]);
        table.lines().into_iter().try_for_each(|line| out.line(line))
    }
}

/// The report added up: days in their order, everything else by its tokens, the most first.
fn usage_rows(by: UsageGroup, report: &UsageReport) -> Vec<UsageRow> {
    type UsageSum = (Option<String>, BTreeSet<SessionId>, Usage);
    let mut sums: BTreeMap<String, UsageSum> = BTreeMap::new();
    for entry in &report.entries {
        let Some(session) = report.sessions.get(&entry.session) else { continue };
        let (key, name) = by.of(entry, session);
        let (known, sessions, usage) = sums.entry(key).or_default();
        *known = known.take().or(name);
        sessions.insert(entry.session);
        usage.add(&entry.usage);
    }
    let mut rows: Vec<(u64, UsageRow)> = sums
        .into_iter()
        .map(|(key, (name, sessions, usage))| {
            let tokens = TokenCounts::of(&usage);
            (usage.counts(), UsageRow { key, name, sessions: sessions.len(), tokens })
        })
        .collect();
    if by != UsageGroup::Day {
        rows.sort_by(|(a, _), (b, _)| b.cmp(a));
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

/// What the index has and the events do not say, and the other way round.
fn usage_differences(indexed: &UsageReport, counted: &UsageReport) -> Vec<UsageDifference> {
    let mut all: BTreeMap<_, (TokenCounts, TokenCounts)> = BTreeMap::new();
    for entry in &indexed.entries {
        let key = (entry.session, entry.at, entry.model.clone());
        all.entry(key).or_default().0 = TokenCounts::of(&entry.usage);
    }
    for entry in &counted.entries {
        let key = (entry.session, entry.at, entry.model.clone());
        all.entry(key).or_default().1 = TokenCounts::of(&entry.usage);
    }
    let differ = all.into_iter().filter(|(_, (indexed, counted))| indexed != counted);
    let difference = |((session, at, model), (indexed, counted)): ((SessionId, _, _), _)| {
        UsageDifference { session: session.to_string(), at, model, indexed, counted }
    };
    differ.map(difference).collect()
}

/// A number with its thousands apart: 1 234 567.
fn spaced_number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        let cases = [(0, "0"), (999, "999"), (1000, "1 000"), (1_234_567, "1 234 567")];
        for (number, shown) in cases {
            assert_eq!(spaced_number(number), shown);
        }
    }

    #[test]
    fn a_difference_is_found_on_either_side() {
        let session: SessionId = "0199a3c5-0000-7000-8000-00deadbeef34".parse().unwrap();
        let report = |models: &[(&str, u64)]| {
            let entry = |(model, input): &(&str, u64)| UsageEntry {
                session,
                at: abide::Timestamp::from_millis(0),
                model: (*model).to_owned(),
                usage: Usage { input_tokens: *input, ..Usage::default() },
            };
            UsageReport { entries: models.iter().map(entry).collect(), ..UsageReport::default() }
        };
        let same = report(&[("a", 1), ("b", 2)]);
        assert!(usage_differences(&same, &same).is_empty());
        let differ = usage_differences(&same, &report(&[("b", 3), ("c", 4)]));
        let told: Vec<(&str, u64, u64)> = differ
            .iter()
            .map(|one| (one.model.as_str(), one.indexed.input_tokens, one.counted.input_tokens))
            .collect();
        assert_eq!(told, [("a", 1, 0), ("b", 2, 3), ("c", 0, 4)]);
    }
}
