//! `abide doctor`: is everything as it was recorded? Reads only.

use abide::{Finding, SessionId, Severity};
use serde::Serialize;

use crate::error::{CommandError, on_one_line};
use crate::output::{Output, status};
use crate::store::{Opened, Surroundings};
use abide_transcript::escape;

/// Check sessions: every line, every sum, every link of the chain, every object
///
/// Nothing is written: a store that cannot be written can be checked all the same. The exit code
/// is 1 when something that was recorded cannot be read, and 0 when there are warnings only.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide doctor               every session of this store
  abide doctor abc123 --json")]
pub(crate) struct Doctor {
    /// The sessions: ids, short ids, or the start of either [default: all]
    #[arg(value_name = "SESSION", conflicts_with = "all")]
    sessions: Vec<String>,
    /// Every session, and what else is in the store
    #[arg(long)]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a check of the store gave.
#[derive(Debug, Serialize)]
struct Report {
    store: String,
    sessions: u64,
    events: u64,
    bytes: u64,
    findings: Vec<FoundIn>,
}

/// A finding and its session.
#[derive(Debug, Serialize)]
struct FoundIn {
    severity: &'static str,
    rule: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<SessionId>,
    place: String,
    message: String,
}

impl Doctor {
    pub(crate) fn run(self, surroundings: &Surroundings) -> Result<(), CommandError> {
        let opened = surroundings.open()?;
        let report = if self.sessions.is_empty() {
            check_all(&opened)?
        } else {
            let mut report = Report::of(&opened);
            for named in &self.sessions {
                report.check(&opened, opened.find(named)?);
            }
            report
        };
        let errors = report.errors();
        let mut out = Output::stdout();
        if self.json {
            out.json(&serde_json::to_string(&report).unwrap_or_default())?;
        } else {
            status(format_args!("Store {}", report.store));
            report.show(&mut out)?;
        }
        out.flush()?;
        if errors > 0 {
            return Err(CommandError::Reported);
        }
        Ok(())
    }
}

fn check_all(opened: &Opened) -> Result<Report, CommandError> {
    let mut report = Report::of(opened);
    let sessions = opened.store.sessions()?;
    for session in &sessions {
        report.check(opened, session.id);
    }
    let foreign = opened.local.foreign_files()?;
    // A session whose journal does not even tell its id is in no list.
    for path in opened.local.unreadable_sessions()? {
        report.findings.push(FoundIn {
            severity: "error",
            rule: "session-unreadable",
            session: None,
            place: path.display().to_string(),
            message: "no segment of its journal tells which session it is".to_owned(),
        });
    }
    for path in foreign {
        report.findings.push(FoundIn {
            severity: "warning",
            rule: "foreign-file",
            session: None,
            place: path.display().to_string(),
            message: "not a session; it is left alone".to_owned(),
        });
    }
    for finding in opened.local.check_objects()? {
        report.add(finding, None);
    }
    Ok(report)
}

impl Report {
    fn of(opened: &Opened) -> Self {
        Self { store: opened.place(), sessions: 0, events: 0, bytes: 0, findings: Vec::new() }
    }

    fn check(&mut self, opened: &Opened, session: SessionId) {
        self.sessions += 1;
        match opened.local.check_session(session) {
            Ok(checked) => {
                self.events += checked.events;
                self.bytes += checked.bytes;
                for finding in checked.findings {
                    self.add(finding, Some(session));
                }
            }
            // One session that cannot be checked does not keep the others from it.
            Err(error) => self.findings.push(FoundIn {
                severity: "error",
                rule: "session-unreadable",
                session: Some(session),
                place: format!("session {session}"),
                message: on_one_line(&error),
            }),
        }
    }

    fn add(&mut self, finding: Finding, session: Option<SessionId>) {
        self.findings.push(FoundIn {
            severity: match finding.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            },
            rule: finding.rule,
            session,
            place: finding.place,
            message: finding.message,
        });
    }

    fn errors(&self) -> usize {
        let errors = self.findings.iter();
        errors.filter(|finding| finding.severity == "error").count()
    }

    fn show(&self, out: &mut Output) -> Result<(), CommandError> {
        for finding in &self.findings {
            let line = format!(
                "{}[{}]: {}: {}",
                finding.severity, finding.rule, finding.place, finding.message
            );
            out.line(escape::text(&line))?;
        }
        let errors = self.errors();
        let warnings = self.findings.len() - errors;
        let findings = match (errors, warnings) {
            (0, 0) => "no findings".to_owned(),
            (0, warnings) => counted(warnings as u64, "warning"),
            (errors, 0) => counted(errors as u64, "error"),
            (errors, warnings) => format!(
                "{}, {}",
                counted(errors as u64, "error"),
                counted(warnings as u64, "warning")
            ),
        };
        // Whole tenths of a megabyte, so that a small journal is not nothing.
        let tenths = self.bytes.div_ceil(100_000);
        out.line(format_args!(
            "{}, {}, {}.{} MB checked; {findings}",
            counted(self.sessions, "session"),
            counted(self.events, "event"),
            tenths / 10,
            tenths % 10
        ))
    }
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
