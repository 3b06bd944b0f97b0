//! `abide ls` and `abide search`: list, filter and search the sessions of a store.

mod row;
mod table;

use abide::{
    HistoryQuery,
    history::{Search, SearchRole},
    locate::StoreLocation,
};
use abide_transcript::escape;

use self::row::HistoryRow;
use self::table::{HistoryColumns, print_history_table, print_plain_history};
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::scoped_store::ScopedStore;
use crate::session_status::{CurrentStatus, StatusWord, recorded_statuses};
use crate::typed_time::TypedTime;

/// List sessions
///
/// The most recently active sessions come first. A session is listed if it matches all filters.
/// `abide search TEXT` searches the text of sessions.
///
/// By default, only sessions of this project are listed. Outside a project, or with --all-projects,
/// sessions of all projects in the store are listed. Then, and in a shared store, each row also
/// shows the last writer, the project and the directory.
///
/// A session's name is its title, else your first prompt, else the command of its run. `abide rename`
/// changes it. Every command accepts a name or a key in place of an id; commands that write need the
/// whole of it, others also its start.
///
/// On a terminal the output is a table. Elsewhere each session is a line of tab-separated fields:
/// short id, time of the last event, status, agent, turns, tokens, files changed, name and, where
/// the table has them, project, who and directory. The session's key and the matches of a search
/// follow on lines that begin with a tab.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide ls                             the latest sessions of this project
  abide ls -A                          the latest sessions of all projects
  abide ls --file src/main.rs          the sessions that touched that file
  abide ls --status failed --since 7d --json")]
pub(crate) struct HistoryArgs {
    /// Only sessions that contain this text
    #[arg(long, value_name = "TEXT", value_parser = Search::parse)]
    search: Option<Search>,
    #[command(flatten)]
    filter: SessionFilter,
}

/// Search messages, tool calls, results and titles
///
/// The best matches come first, each with the text around it and its turn. `abide show SESSION @36`
/// shows a match with the entries around it.
///
/// A query consists of words, prefixes (`pars*`) and phrases ('"in quotes"'); all of them must
/// occur in one message, tool call, result or title. A word with punctuation, such as parse_line or
/// src/main.rs, is a phrase of its parts; `line` finds parseLine, too. Case and accents are ignored.
///
/// --role, --command and --error ask for a message, call or result as well, and need no words. With
/// words or --error, --command finds the results of such commands, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide search connection reset             in this project
  abide search -A 'pars* \"last line\"'       in all projects
  abide search --command 'cargo test' --error --since 2w
  abide search panic --file src/main.rs --since 7d")]
pub(crate) struct SearchArgs {
    /// Words, prefixes (`pars*`) and phrases ('"last line"')
    #[arg(required_unless_present_any = ["role", "command", "error"], value_name = "TEXT")]
    text: Vec<String>,
    /// Only what was said by this one
    #[arg(long, value_name = "ROLE", value_parser = ["user", "assistant", "tool"])]
    role: Option<String>,
    /// Only shell calls with this text in their command
    #[arg(long, value_name = "TEXT", value_parser = Search::parse, allow_hyphen_values = true)]
    command: Option<Search>,
    /// Only results that failed
    #[arg(long)]
    error: bool,
    #[command(flatten)]
    filter: SessionFilter,
}

/// Which sessions are listed, and how.
#[derive(Debug, clap::Args)]
struct SessionFilter {
    /// Show at most this many; 0 shows all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Only sessions in this state: running, unclear, crashed, failed, stopped, idle, new or ended;
    /// can be given several times. The statuses of --json (pending, interrupted, completed) are
    /// accepted too
    #[arg(long, value_name = "STATE", value_parser = StatusWord::parse)]
    status: Vec<StatusWord>,
    /// Only sessions that touched this file: its path, the end of its path, or a directory
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Only sessions in which this agent worked
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only sessions with this label: NAME or NAME=VALUE
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// Only sessions active since this time: 2026-11-15, 2026-11-15T01:20:00Z, 90m, 3d, 2w,
    /// yesterday
    #[arg(long, value_name = "TIME")]
    since: Option<TypedTime>,
    /// Only sessions created before this time; a date includes the whole day
    #[arg(long, value_name = "TIME")]
    until: Option<TypedTime>,
    /// Print a JSON array of objects
    #[arg(long)]
    json: bool,
}

impl HistoryArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let asked = HistoryQuery { search: self.search, ..HistoryQuery::default() };
        self.filter.list(asked, surroundings)
    }
}

impl SearchArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let search = (!self.text.is_empty()).then(|| Search::parse(&self.text.join(" ")));
        let search = search.transpose().map_err(|error| CommandError::Usage(error.to_string()))?;
        let asked = HistoryQuery {
            search,
            role: self.role.as_deref().and_then(SearchRole::named),
            command: self.command,
            failed: self.error,
            ..HistoryQuery::default()
        };
        self.filter.list(asked, surroundings)
    }
}

impl SessionFilter {
    /// Lists what is asked for, as far as it passes the filter.
    fn list(self, asked: HistoryQuery, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let now = jiff::Timestamp::now();
        let limit = (self.limit > 0).then_some(self.limit);
        let is_plain = !asked.is_search()
            && self.status.is_empty()
            && (&self.file, &self.agent, &self.label) == (&None, &None, &None)
            && self.since.is_none()
            && self.until.is_none();
        let query = HistoryQuery {
            // What a session's status is now, the index alone does not know.
            limit: limit.filter(|_| self.status.is_empty()),
            status: recorded_statuses(&self.status),
            file: self.file,
            agent: self.agent,
            label: self.label,
            since: self.since.map(|since| since.first(now)),
            until: self.until.map(|until| until.last(now)),
            all_projects: surroundings.all_projects,
            ..asked
        };
        let mut found = opened.store.history(&query)?;
        let mut statuses = CurrentStatus::of_entries(&found.entries, &opened.store);
        if !self.status.is_empty() {
            let fits = |now: &CurrentStatus| self.status.iter().any(|word| word.fits(*now));
            let mut all = statuses.iter();
            found.entries.retain(|_| all.next().is_some_and(fits));
            statuses.retain(fits);
            let count = found.entries.len();
            found.entries.truncate(limit.unwrap_or(count));
            found.more = Some((count - found.entries.len()) as u64);
        }
        let is_shared = matches!(opened.at, StoreLocation::Shared(_));
        let columns = if opened.spans_projects() || surroundings.all_projects || is_shared {
            HistoryColumns::WithPlace
        } else {
            HistoryColumns::OfOneProject
        };
        let mut out = CommandOutput::stdout();
        if self.json {
            let rows = found.entries.iter().zip(&statuses);
            let rows: Vec<HistoryRow<'_>> =
                rows.map(|(entry, now)| HistoryRow::of(entry, *now)).collect();
            let json = serde_json::to_string_pretty(&rows).unwrap_or_default();
            json.lines().try_for_each(|line| out.json(line))?;
        } else if out.is_terminal() {
            print_history_table(&found.entries, &statuses, columns, now, &mut out)?;
        } else {
            print_plain_history(&found.entries, &statuses, columns, &mut out)?;
        }
        out.flush()?;
        found.notes.iter().for_each(|note| status(format_args!("Note: {note}")));
        if found.entries.is_empty() {
            status(empty_history_text(is_plain, &opened));
        } else if let Some(more @ 1..) = found.more {
            let more = noun_count(more, "more session");
            status(format_args!("{more}; `--limit 0` shows all"));
        }
        Ok(())
    }
}

/// Why nothing is listed. `is_plain`: nothing was asked for but the list.
fn empty_history_text(is_plain: bool, opened: &ScopedStore) -> String {
    let place = opened.place();
    let of = opened.project.as_ref().map(|project| escape::text(&project.name));
    let (of, more) = match of {
        Some(name) => (format!(" of {name}"), "; `--all-projects` lists those of other projects"),
        None => (String::new(), ""),
    };
    if is_plain {
        format!("There is no session{of} yet in {place}{more}")
    } else {
        format!("No session{of} in {place} matches{more}")
    }
}
