//! What `abide doctor` found and did, as text and as JSON.

use std::path::PathBuf;

use abide::{
    SessionId, StoreError,
    locate::StoreLocation,
    maintenance::{
        Examination, Finding, FindingPlace, FindingType, FinishedRepair, RecordedLosses, Repair,
        RepairPlan, Severity,
    },
};
use abide_transcript::escape;
use serde::Serialize;

use super::agent_report::AgentReport;
use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::error::{CommandError, on_one_line};
use crate::noun_count::noun_count;
use crate::scoped_store::ScopedStore;

/// A session whose repair needs review by a person.
#[derive(Debug, Serialize)]
struct SessionToReview {
    session: SessionId,
    missing: RecordedLosses,
}

/// What a repair did.
#[derive(Debug, Serialize)]
struct AppliedRepair<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<SessionId>,
    repair: &'a str,
    quarantine: &'a str,
    requires_validation: bool,
}

/// Findings and repairs.
#[derive(Debug)]
pub(super) struct DoctorReport {
    pub(super) store: String,
    /// The store as the command line names it; commands name it too.
    named_store: Option<PathBuf>,
    sessions: u64,
    events: u64,
    bytes: u64,
    pub(super) findings: Vec<Finding>,
    awaiting: Vec<SessionToReview>,
    pub(super) plans: Vec<RepairPlan>,
    pub(super) repaired: Vec<(Option<SessionId>, FinishedRepair)>,
    /// The findings before the repair.
    pub(super) before: Vec<Finding>,
    /// The agents, where the whole store was examined.
    pub(super) agents: Option<Vec<AgentReport>>,
}

impl DoctorReport {
    pub(super) fn of(opened: &ScopedStore, surroundings: &CommandContext) -> Self {
        let named_store = match &surroundings.store {
            Some(StoreLocation::Files(path)) => Some(path.clone()),
            Some(StoreLocation::Shared(_)) | None => None,
        };
        Self {
            store: opened.place(),
            named_store,
            sessions: 0,
            events: 0,
            bytes: 0,
            findings: Vec::new(),
            awaiting: Vec::new(),
            plans: Vec::new(),
            repaired: Vec::new(),
            before: Vec::new(),
            agents: None,
        }
    }

    pub(super) fn take(&mut self, examination: &Examination) {
        self.sessions += 1;
        self.events += examination.events;
        self.bytes += examination.bytes;
        let findings = examination.findings.iter().map(|finding| self.runnable(finding));
        let findings: Vec<Finding> = findings.collect();
        self.findings.extend(findings);
        if examination.requires_validation {
            let (session, missing) = (examination.session, examination.missing.clone());
            self.awaiting.push(SessionToReview { session, missing });
        }
    }

    /// Takes the plans of a repair.
    pub(super) fn plan(&mut self, plans: &[RepairPlan]) {
        let mut plans = plans.to_vec();
        for plan in &mut plans {
            plan.left = plan.left.iter().map(|finding| self.runnable(finding)).collect();
        }
        self.plans = plans;
    }

    /// A finding with those commands that can be run as they are shown: none with a store whose path
    /// is not UTF-8, or with characters that are escaped for a terminal.
    fn runnable(&self, finding: &Finding) -> Finding {
        let mut finding = finding.clone();
        if let Some(store) = &self.named_store {
            match store.to_str() {
                Some(store) => finding = finding.with_option("--store", store),
                None => finding.repair.commands.clear(),
            }
        }
        finding.repair.commands.retain(|command| {
            let line = command.to_string();
            escape::text(&line) == line
        });
        finding
    }

    pub(super) fn unreadable(&mut self, session: SessionId, error: &StoreError) {
        self.sessions += 1;
        let newer = matches!(error, StoreError::NewerVersion { .. });
        let repair = if newer {
            Repair::by_hand("use the version of abide that wrote it, or a newer one")
        } else {
            Repair::by_hand("make it readable, or restore it from a backup")
        };
        let finding = Finding::new(
            if newer { "store-version" } else { "session-unreadable" },
            FindingType::Structural,
            Severity::Critical,
            FindingPlace::subject(format!("session {session}")),
            on_one_line(error),
            repair,
        );
        self.findings.push(finding.in_session(session));
    }

    /// The number of findings worse than a warning.
    pub(super) fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.severity > Severity::Warning).count()
    }

    pub(super) fn json(&self) -> String {
        let repaired: Vec<_> = self
            .repaired
            .iter()
            .map(|(session, done)| AppliedRepair {
                session: *session,
                repair: &done.id,
                quarantine: &done.quarantine,
                requires_validation: done.requires_validation(),
            })
            .collect();
        let mut report = serde_json::json!({
            "store": self.store,
            "sessions": self.sessions,
            "events": self.events,
            "bytes": self.bytes,
            "findings": self.findings,
            "awaiting": self.awaiting,
        });
        if let Some(report) = report.as_object_mut() {
            let mut put = |name: &str, value: serde_json::Result<serde_json::Value>| {
                if let Ok(value) = value {
                    report.insert(name.to_owned(), value);
                }
            };
            if let Some(agents) = &self.agents {
                put("agents", serde_json::to_value(agents));
            }
            if !self.plans.is_empty() {
                put("plans", serde_json::to_value(&self.plans));
            }
            if !repaired.is_empty() {
                put("before", serde_json::to_value(&self.before));
                put("repaired", serde_json::to_value(&repaired));
            }
        }
        report.to_string()
    }

    pub(super) fn show(&self, out: &mut CommandOutput) -> Result<(), CommandError> {
        for (session, done) in &self.repaired {
            let what = match session {
                Some(session) => format!("session {}", session.short(SessionId::SHORT)),
                None => "the store".to_owned(),
            };
            let undo = match session {
                Some(session) if done.undoable => {
                    let short = session.short(SessionId::SHORT);
                    format!("; `abide undo --repair -s {short}` undoes it")
                }
                _ => String::new(),
            };
            out.line(format_args!(
                "Repaired {what}; what was replaced is in {}{undo}",
                done.quarantine
            ))?;
        }
        for finding in &self.findings {
            out.line(escape::text(&format!(
                "{}[{}]: {}: {}",
                finding.severity.as_str(),
                finding.rule,
                self.place(finding),
                finding.message
            )))?;
            let by = if finding.repair.automatic { "`--repair`: " } else { "by hand: " };
            out.line(escape::text(&format!("    {by}{}", finding.repair.how)))?;
            for command in &finding.repair.commands {
                out.line(escape::text(&format!("        {command}")))?;
            }
        }
        for awaiting in &self.awaiting {
            for line in awaiting.told() {
                out.line(escape::text(&line))?;
            }
        }
        if self.repaired.is_empty() {
            for plan in &self.plans {
                for line in repair_plan_report(plan) {
                    // Paths are relative to the store, as in the findings.
                    out.line(escape::text(&line.replace(&format!("{}/", self.store), "")))?;
                }
            }
        }
        self.show_sum(out)?;
        show_agent_lines(self.agents.as_deref().unwrap_or_default(), out)
    }

    /// Where a finding is: relative to the store, and in which session if the path does not show
    /// it.
    fn place(&self, finding: &Finding) -> String {
        let mut place = finding.place.clone();
        if let Some(path) = &mut place.path {
            let shown = path.display().to_string();
            let below = shown.strip_prefix(&self.store).map(|below| below.trim_start_matches('/'));
            if let Some(below) = below.filter(|below| !below.is_empty()) {
                *path = below.into();
            }
            return place.to_string();
        }
        match finding.session {
            Some(session)
                if place
                    .subject
                    .as_ref()
                    .is_none_or(|subject| !subject.starts_with("session ")) =>
            {
                format!("session {}, {place}", session.short(SessionId::SHORT))
            }
            _ => place.to_string(),
        }
    }

    fn show_sum(&self, out: &mut CommandOutput) -> Result<(), CommandError> {
        let of = |severity| self.findings.iter().filter(|found| found.severity == severity).count();
        let counts = [
            (of(Severity::Critical), "critical finding"),
            (of(Severity::Error), "error"),
            (of(Severity::Warning), "warning"),
        ];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, noun)| noun_count(*count as u64, noun))
            .collect();
        let findings = if counts.is_empty() { "no findings".to_owned() } else { counts.join(", ") };
        // In tenths of a megabyte, rounded up, so that a small journal does not show as 0.
        let tenths = self.bytes.div_ceil(100_000);
        out.line(format_args!(
            "{}, {}, {}.{} MB checked; {findings}",
            noun_count(self.sessions, "session"),
            noun_count(self.events, "event"),
            tenths / 10,
            tenths % 10
        ))
    }
}

/// The agents, one a line.
pub(super) fn show_agent_lines(
    agents: &[AgentReport],
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    if !agents.is_empty() {
        out.line("Agents:")?;
    }
    for agent in agents {
        out.line(agent.line())?;
    }
    Ok(())
}

impl SessionToReview {
    fn told(&self) -> Vec<String> {
        let short = self.session.short(SessionId::SHORT);
        let mut lines = vec![format!(
            "Session {short} was repaired in part and needs review; `abide doctor {short} \
            --accept` accepts it after your review"
        )];
        let events = self.missing.events.iter().map(|(first, last)| {
            if first == last {
                format!("event {first}")
            } else {
                format!("events {first} to {last}")
            }
        });
        let objects = self.missing.objects.iter().map(|object| format!("object {object}"));
        let calls = self.missing.calls.iter().map(|call| format!("the outcome of call {}", call.0));
        lines.extend(events.chain(objects).chain(calls).map(|gone| format!("    missing: {gone}")));
        lines
    }
}

/// The plan of a repair, for people.
pub(super) fn repair_plan_report(plan: &RepairPlan) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push(match plan.session {
        Some(session) => format!("Repair of session {}:", session.short(SessionId::SHORT)),
        None => "Repair of the store:".to_owned(),
    });
    if let Some(strategy) = plan.strategy {
        for considered in &plan.considered {
            let taken = if considered.strategy == strategy { "chosen" } else { "not chosen" };
            lines.push(format!(
                "  {} ({taken}): {}; {} lost, {} rewritten, {} left out",
                considered.strategy.as_str(),
                considered.why,
                noun_count(considered.lost, "event"),
                considered.reconstructed,
                considered.left_out
            ));
        }
    }
    lines.extend(plan.actions.iter().map(|action| format!("  - {action}")));
    for left in &plan.left {
        lines
            .push(format!("  not repaired: {}: {} ({})", left.rule, left.message, left.repair.how));
    }
    lines
}
