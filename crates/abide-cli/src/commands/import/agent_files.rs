//! Imports the sessions that agents keep in files of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use abide::{HistoryQuery, locate::StoreLocation, maintenance::ByteSize, secrets::Redaction};
use abide_import::{
    FileImporter, FilesImported, FoundSession, FoundSources, ImportNews, SourceFinder,
};
use abide_runner::AgentKind;
use abide_transcript::escape;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::confirm::confirm;
use crate::error::CommandError;
use crate::interrupt::interrupt_flag;
use crate::noun_count::noun_count;
use crate::scoped_store::ScopedStore;
use crate::typed_time::TypedTime;

/// How many sessions that failed are named.
const NAMED: usize = 8;

/// Sessions of agents to import.
#[derive(Debug)]
pub(super) struct AgentFilesImport {
    /// Everything if empty.
    pub(super) selections: Vec<ImportSelection>,
    pub(super) since: Option<TypedTime>,
    pub(super) project: bool,
    pub(super) dry_run: bool,
    pub(super) yes: bool,
    pub(super) keep_secrets: bool,
    pub(super) json: bool,
}

/// What is named of agents' sessions.
#[derive(Debug, Clone)]
pub(super) enum ImportSelection {
    /// All sessions of an agent.
    Agent(AgentKind),
    /// What is at or below a path.
    Within(PathBuf),
}

/// What there is of an agent, and what became of it, as JSON.
#[derive(Debug, Default, Serialize)]
struct AgentImportReport {
    agent: &'static str,
    /// Sessions that were found.
    sessions: usize,
    /// Of these, sessions that were not in the store.
    new: usize,
    /// Sessions in which something is new.
    changed: usize,
    /// Sessions in which nothing is new.
    unchanged: usize,
    /// Sessions that were removed here, and are not imported again.
    removed: usize,
    /// Sessions that were left to another process.
    held: usize,
    /// Sessions that could not be imported.
    failed: usize,
    /// The size of what is new or changed, in bytes.
    bytes: u64,
    /// Records that were read.
    records: u64,
    /// Events that were recorded.
    events: u64,
    /// Records of sorts that abide does not know, by sort. They are kept.
    unknown: BTreeMap<String, u64>,
    /// Bytes of lines that the agent has not finished writing.
    unfinished: u64,
    dry_run: bool,
}

/// The whole report.
#[derive(Debug, Serialize)]
struct ImportedFilesReport<'a> {
    agents: &'a [AgentImportReport],
    /// What could not be read.
    unreadable: &'a [String],
    interrupted: bool,
}

impl AgentFilesImport {
    pub(super) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let interrupted = interrupt_flag()?;
        let mut found = self.find(surroundings)?;
        let opened = match self.dry_run {
            true => surroundings.find_import_store()?,
            false => Some(surroundings.open_import_store()?),
        };
        self.restrict(&mut found, opened.as_ref(), surroundings)?;
        let mut importer = opened.as_ref().map(|opened| self.importer(opened, surroundings));
        let mut reports = Vec::new();
        let mut failures = Vec::new();
        let mut was_interrupted = false;
        for agent in AgentKind::all().filter(|agent| agent.kept_sessions().is_some()) {
            let of_agent: Vec<FoundSession> =
                found.sessions.iter().filter(|session| session.agent == agent).cloned().collect();
            if of_agent.is_empty() {
                continue;
            }
            let mut report = AgentImportReport {
                agent: agent.as_str(),
                sessions: of_agent.len(),
                dry_run: self.dry_run,
                ..AgentImportReport::default()
            };
            let mut wanted = Vec::new();
            for session in of_agent {
                let news = match &importer {
                    // What fails here fails again in the import, which goes on with the others.
                    Some(importer) => importer.news(&session).unwrap_or(ImportNews::Changed),
                    None => ImportNews::New,
                };
                match news {
                    ImportNews::None => report.unchanged += 1,
                    ImportNews::Removed => report.removed += 1,
                    ImportNews::New | ImportNews::Changed => {
                        let is_new = news == ImportNews::New;
                        report.new += usize::from(is_new);
                        report.changed += usize::from(!is_new);
                        report.bytes += session.bytes;
                        wanted.push(session);
                    }
                }
            }
            if let Some(importer) = importer.as_mut().filter(|_| !self.dry_run)
                && !wanted.is_empty()
                && !was_interrupted
            {
                let bar = import_bar(agent, wanted.len());
                let tell = |step: abide_import::ImportProgress| {
                    bar.set_position(step.sessions as u64);
                    bar.set_message(ByteSize(step.bytes).to_string());
                };
                let done = importer.import(&wanted, &interrupted, &tell);
                bar.finish_and_clear();
                let done = done.map_err(CommandError::because)?;
                was_interrupted |= done.interrupted;
                report.add(&wanted, done, &mut failures);
            }
            reports.push(report);
        }
        self.tell(&reports, &found, &failures, was_interrupted, opened.as_ref())?;
        if was_interrupted {
            return Err(CommandError::Interrupted);
        }
        match failures.len() + found.unreadable.len() {
            0 => Ok(()),
            _ => Err(CommandError::Reported),
        }
    }

    fn find(&self, surroundings: &CommandContext) -> Result<FoundSources, CommandError> {
        let finder = surroundings.source_finder();
        if self.selections.is_empty() {
            return Ok(finder.find());
        }
        let mut found = FoundSources::default();
        for selection in &self.selections {
            let (agent, within) = match selection.clone() {
                ImportSelection::Agent(agent) => (Some(agent), None),
                ImportSelection::Within(path) => (None, Some(path)),
            };
            let more = SourceFinder { agent, within: within.clone(), ..finder.clone() }.find();
            if let Some(within) = within.filter(|_| more.sessions.is_empty()) {
                return Err(CommandError::failed(format!(
                    "there are no sessions of agents in {}",
                    escape::text(&within.to_string_lossy())
                )));
            }
            found.sessions.extend(more.sessions);
            found.unreadable.extend(more.unreadable);
        }
        Ok(found)
    }

    /// Leaves out what is too old, of another project, or not for a shared store.
    fn restrict(
        &self,
        found: &mut FoundSources,
        opened: Option<&ScopedStore>,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        if let Some(since) = self.since {
            let since = since.first(jiff::Timestamp::now()).as_millis() / 1000;
            found.sessions.retain(|session| session.written >= since);
        }
        let is_shared = opened.is_some_and(|opened| matches!(opened.at, StoreLocation::Shared(_)));
        if self.project || is_shared {
            let here = surroundings.workspaces();
            let root = here.last().cloned().unwrap_or_default();
            found.sessions.retain(|session| {
                session.workspace().is_some_and(|workspace| workspace.starts_with(&root))
            });
        }
        if is_shared && !self.dry_run && !found.sessions.is_empty() {
            let count = noun_count(found.sessions.len(), "session");
            let place = opened.map(ScopedStore::place).unwrap_or_default();
            let question = format!("Import {count} of this project into {place}?");
            confirm(&question, self.yes, None)?;
        }
        Ok(())
    }

    fn importer(&self, opened: &ScopedStore, surroundings: &CommandContext) -> FileImporter {
        let store = opened.store.clone();
        let store = if self.keep_secrets { store.with_redaction(Redaction::off()) } else { store };
        FileImporter::new(&store, Some(surroundings.projects_of_import(opened)))
    }

    fn tell(
        &self,
        reports: &[AgentImportReport],
        found: &FoundSources,
        failures: &[String],
        interrupted: bool,
        opened: Option<&ScopedStore>,
    ) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        let unreadable: Vec<String> = found.unreadable.iter().map(error_text).collect();
        if self.json {
            let report =
                ImportedFilesReport { agents: reports, unreadable: &unreadable, interrupted };
            out.json(&serde_json::to_string(&report).unwrap_or_default())?;
        } else {
            for report in reports {
                out.line(report.sentence())?;
            }
            if reports.is_empty() {
                out.line("No sessions of agents were found")?;
            }
        }
        out.flush()?;
        unreadable.iter().for_each(|text| warning(escape::text(text)));
        failures.iter().take(NAMED).for_each(|text| warning(escape::text(text)));
        if failures.len() > NAMED {
            warning(format_args!("{} more failed", failures.len() - NAMED));
        }
        let imported = reports.iter().any(|report| report.events > 0);
        if let Some(opened) = opened.filter(|_| imported && !self.json) {
            status(format_args!(
                "They are in {}: `abide ls -A` lists them, `abide search -A TEXT` finds what was said",
                opened.place()
            ));
            // So that the first search finds everything at once.
            if opened.store.as_files().is_some() {
                let query = HistoryQuery { limit: Some(1), ..HistoryQuery::default() };
                opened.store.history(&query)?;
            }
        }
        Ok(())
    }
}

impl AgentImportReport {
    fn add(&mut self, wanted: &[FoundSession], done: FilesImported, failures: &mut Vec<String>) {
        for imported in done.sessions.into_iter().flatten() {
            self.records += imported.records;
            self.events += imported.events;
            self.unfinished += imported.unfinished;
            self.held += usize::from(imported.left.is_some());
            failures.extend(imported.unreadable);
            for (sort, count) in imported.unknown {
                *self.unknown.entry(sort).or_default() += count;
            }
        }
        self.failed = done.failed.len();
        for (index, error) in done.failed {
            let id = wanted.get(index).map(|session| session.id.as_str()).unwrap_or_default();
            failures.push(format!("{}/{id} was not imported: {}", self.agent, error_text(&error)));
        }
    }

    fn sentence(&self) -> String {
        let mut parts = Vec::new();
        let counts = [
            (self.new, "new"),
            (self.changed, "changed"),
            (self.unchanged, "unchanged"),
            (self.removed, "removed here and left out"),
            (self.held, "left alone"),
            (self.failed, "failed"),
        ];
        for (count, word) in counts {
            if count > 0 {
                parts.push(format!("{count} {word}"));
            }
        }
        let verb = if self.dry_run { "would read" } else { "read" };
        if self.new + self.changed > 0 {
            let records = if self.dry_run {
                String::new()
            } else {
                format!(", {}", noun_count(self.records, "record"))
            };
            parts.push(format!("{verb} {}{records}", ByteSize(self.bytes)));
        }
        let unknown: u64 = self.unknown.values().sum();
        if unknown > 0 {
            let sorts: Vec<&str> = self.unknown.keys().take(4).map(String::as_str).collect();
            let sorts = escape::text(&sorts.join(", ")).to_string();
            parts.push(format!(
                "{} of an unknown sort ({sorts}), kept",
                noun_count(unknown, "record")
            ));
        }
        format!("{:<10} {}: {}", self.agent, noun_count(self.sessions, "session"), parts.join(", "))
    }
}

/// An error with its causes, in one line.
fn error_text(error: &abide_import::ImportFilesError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// The progress of an agent's sessions, on a terminal.
fn import_bar(agent: AgentKind, sessions: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(sessions as u64), ProgressDrawTarget::stderr());
    let style = "{prefix:<10} {bar:30} {pos} of {len} sessions, {msg}";
    bar.set_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.set_prefix(agent.as_str());
    bar
}
