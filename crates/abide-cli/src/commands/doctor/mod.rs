//! `abide doctor`: checks sessions and the store, plans repairs and applies them.

mod agent_report;
mod doctor_report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use abide::{
    SessionId, SessionRef, StoreError,
    maintenance::{
        Examination, Finding, FinishedRepair, RepairAction, RepairAftermath, RepairPlan,
        RepairRequest, RepairStrategy, StoreDoctor,
    },
};

use self::agent_report::{AgentReport, agent_reports};
use self::doctor_report::{DoctorReport, show_agent_lines};
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::confirm::confirm;
use crate::error::{CommandError, on_one_line};
use crate::interrupted_rewind::finish_rewind;
use crate::plugin_changes::plugin_host;
use crate::scoped_store::{NameMatch, ScopedStore};

/// Check the store for damage, and repair it
///
/// Every line, checksum, link of the chain and object is read, and the rules of tasks, calls and
/// conversations are checked. Without `--repair` nothing is written, so that a read-only store can
/// be examined too. A repair shows its plan first. Replaced files are moved to `.abide/quarantine`,
/// the repair is recorded as an event in the journal, and `abide undo --repair` undoes it. In a shared
/// store, rows that cannot be read are moved to the table `quarantine`; only an admin may do that, and
/// it is not undone.
///
/// If tasks contradict each other (a missing parent, a missing dependency, tasks that wait for each
/// other), the finding shows the commands that repair them.
///
/// The agents on this machine are listed, with what `abide enable` put into them: whether it is there,
/// whether the agent runs it, when it was last heard of, and the command that mends it.
///
/// The exit code is 1 while errors or critical findings remain, and 0 with warnings only.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Strategies for a journal that has lost events (the default loses least and says why it was chosen):
  reconstruct   rewrite them from the transcript and the index
  partial       keep everything readable on both sides of the damage, report the rest as lost, and
                mark the session for review until `--accept`
  checkpoint    rewind to the latest checkpoint before the damage, or to --from WHERE

Examples:
  abide doctor                         every session of this store
  abide doctor abc123 --json
  abide doctor --repair --dry-run      show the plan
  abide doctor abc123 --repair --strategy checkpoint --from 3
  abide doctor abc123 --accept         accept the result of a partial repair")]
pub(crate) struct DoctorArgs {
    /// The sessions, by id or name or the start of one; --repair and --accept need whole names
    /// [default: all]
    #[arg(value_name = "SESSION", conflicts_with = "all")]
    sessions: Vec<String>,
    /// Check every session and everything else in the store
    #[arg(long)]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Repair what can be repaired; the plan is shown first
    #[arg(long)]
    repair: bool,
    /// How to repair a journal that has lost events
    #[arg(long, value_name = "STRATEGY", requires = "repair")]
    strategy: Option<RepairStrategy>,
    /// Rewind to this place: a checkpoint's number, label or id, turn:3, @41
    #[arg(long, value_name = "WHERE", requires = "repair")]
    from: Option<String>,
    /// Only show the plan
    #[arg(long, requires = "repair")]
    dry_run: bool,
    /// Repair without asking
    #[arg(short, long, requires = "repair")]
    yes: bool,
    /// Accept these sessions as a partial repair left them: they need no more review
    #[arg(long, conflicts_with_all = ["repair", "all"], requires = "sessions")]
    accept: bool,
}

/// What was examined, and the report on it.
struct DoctorRound {
    report: DoctorReport,
    examined: Vec<Examination>,
    store: Vec<Finding>,
}

/// The name of this command in errors about stores that cannot do it.
const WHAT: &str = "`abide doctor`";

impl DoctorArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let is_look = self.sessions.is_empty() && !self.repair;
        if is_look
            && surroundings.place_if_any()?.is_none()
            && let Some(agents) = doctor_agents(surroundings, None)
            && agents.iter().any(AgentReport::has_plugin)
        {
            // They are there before anything is recorded.
            return self.show_agents(&agents);
        }
        let opened = surroundings.open_store_to_repair()?;
        if self.accept {
            return self.accept(&opened, surroundings.wait);
        }
        if self.from.is_some()
            && (self.sessions.len() != 1
                || !matches!(self.strategy, None | Some(RepairStrategy::Checkpoint)))
        {
            return Err(CommandError::Usage(
                "--from needs exactly one session, and works only with the strategy checkpoint"
                    .to_owned(),
            ));
        }
        let mut sessions = Vec::new();
        for named in &self.sessions {
            sessions.push(opened.find_by(named, self.name_match())?);
        }
        let mut round = self.examine(&opened, surroundings, &sessions)?;
        if !self.repair {
            if sessions.is_empty() {
                round.report.agents = doctor_agents(surroundings, opened.store.root());
            }
            return self.end(round.report);
        }
        self.mend(&opened, surroundings, &sessions, round)
    }

    /// Examines these sessions, or the whole store if there are none.
    fn examine(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
        sessions: &[SessionId],
    ) -> Result<DoctorRound, CommandError> {
        let mut report = DoctorReport::of(opened, surroundings);
        let all = sessions.is_empty();
        if all {
            report.findings.extend(opened.store.redaction().finding(&opened.place()));
        }
        let doctor = opened.store.doctor(WHAT)?;
        let store = if all { doctor.examine_store()? } else { Vec::new() };
        let sessions = if all { doctor.sessions()? } else { sessions.to_vec() };
        let examined = doctor_examine_each(doctor, &sessions, &mut report);
        for examination in &examined {
            report.take(examination);
        }
        report.findings.extend(store.iter().cloned());
        Ok(DoctorRound { report, examined, store })
    }

    /// A repair changes the session: its name must be typed as a whole.
    const fn name_match(&self) -> NameMatch {
        if self.repair { NameMatch::Whole } else { NameMatch::Beginning }
    }

    fn request(&self, opened: &ScopedStore) -> Result<RepairRequest, CommandError> {
        let mut request =
            RepairRequest { strategy: self.strategy, named: !self.sessions.is_empty(), from: None };
        if let (Some(place), Some(named)) = (&self.from, self.sessions.first()) {
            let view =
                opened.store.view(&SessionRef::Id(opened.find_by(named, NameMatch::Whole)?))?;
            request.from = Some(view.resolve(place)?.seq);
        }
        Ok(request)
    }

    /// Plans, asks, repairs, and examines again.
    fn mend(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
        sessions: &[SessionId],
        mut round: DoctorRound,
    ) -> Result<(), CommandError> {
        let doctor = opened.store.doctor(WHAT)?;
        let request = self.request(opened)?;
        let mut plans = vec![doctor.plan_store(&round.store)?];
        let mut failed = Vec::new();
        for examination in &round.examined {
            match doctor.plan(examination, request) {
                Ok(plan) => plans.push(plan),
                // A session that was asked for is not skipped.
                Err(error) if !sessions.is_empty() => return Err(error.into()),
                Err(error) => failed.push((Some(examination.session), error)),
            }
        }
        plans.retain(|plan| !plan.actions.is_empty());
        round.report.plan(&plans);
        if self.dry_run || plans.is_empty() {
            if plans.is_empty() && !self.json {
                let by_command = |found: &Finding| !found.repair.commands.is_empty();
                status(if round.report.findings.iter().any(by_command) {
                    "Nothing can be repaired automatically; run the commands that are shown"
                } else {
                    "There is nothing to repair"
                });
            }
            return self.end(round.report);
        }
        if !self.json {
            status(format_args!("Store {}", round.report.store));
            let mut out = CommandOutput::stdout();
            round.report.show(&mut out)?;
            out.flush()?;
        }
        confirm("Repair?", self.yes, None)?;
        let mut repaired = Vec::new();
        for plan in &plans {
            // A session that cannot be repaired must not block the others.
            let done = match doctor.repair(plan, request, surroundings.wait) {
                Ok(done) => done,
                Err(error) => {
                    failed.push((plan.session, error));
                    continue;
                }
            };
            if let Some(session) = plan.session
                && plan.actions.contains(&RepairAction::FinishRewind)
            {
                let session = opened.store.open_session(&SessionRef::Id(session))?;
                finish_rewind(&session)?;
                session.close()?;
            }
            repaired.push((plan.session, done));
        }
        let mended_store = repaired.iter().any(|(session, _)| session.is_none());
        let mut after =
            if mended_store || doctor_finishes_rewind(&plans) || has_forks(opened, &repaired) {
                // Restored settings and restored sessions take effect only now, and a session is part
                // of what its forks hold.
                self.examine(&surroundings.open_store_to_repair()?, surroundings, sessions)?.report
            } else {
                round.after(opened, surroundings, &repaired)
            };
        after.before = round.report.findings;
        after.plan(&plans);
        after.repaired = repaired;
        for (session, error) in &failed {
            let what = session.map_or_else(
                || "the store".to_owned(),
                |session| format!("session {}", session.short(SessionId::SHORT)),
            );
            warning(format_args!("{what} was not repaired: {}", on_one_line(error)));
        }
        self.end(after)?;
        if failed.is_empty() { Ok(()) } else { Err(CommandError::Reported) }
    }

    /// Prints the report; remaining errors fail the command.
    fn end(&self, report: DoctorReport) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        if self.json {
            out.json(&report.json())?;
        } else {
            if report.repaired.is_empty() {
                status(format_args!("Store {}", report.store));
            }
            report.show(&mut out)?;
        }
        out.flush()?;
        if report.errors() > 0 { Err(CommandError::Reported) } else { Ok(()) }
    }

    /// The agents alone, where there is no store yet.
    fn show_agents(&self, agents: &[AgentReport]) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        if self.json {
            let report = serde_json::json!({
                "sessions": 0, "events": 0, "bytes": 0, "findings": [], "awaiting": [], "agents": agents,
            });
            out.json(&report.to_string())?;
        } else {
            status("Nothing is recorded yet");
            show_agent_lines(agents, &mut out)?;
        }
        out.flush()
    }

    fn accept(&self, opened: &ScopedStore, wait: Duration) -> Result<(), CommandError> {
        let doctor = opened.store.doctor(WHAT)?;
        for named in &self.sessions {
            let session = opened.find_by(named, NameMatch::Whole)?;
            let short = session.short(SessionId::SHORT);
            if doctor.examine(session)?.requires_validation {
                doctor.accept(session, wait)?;
                status(format_args!("Session {short} is accepted"));
            } else {
                status(format_args!("Session {short} needs no review"));
            }
        }
        Ok(())
    }
}

/// The agents, as far as they are known in this store and in the person's own.
fn doctor_agents(surroundings: &CommandContext, store: Option<&Path>) -> Option<Vec<AgentReport>> {
    let mut host = plugin_host(surroundings).ok()?;
    if let Some(checkout) = surroundings.workspaces().last() {
        host = host.with_checkout(checkout);
    }
    let stores = [store.map(Path::to_owned), surroundings.person.store()];
    let stores: Vec<PathBuf> = stores.into_iter().flatten().collect();
    Some(agent_reports(&host, &stores))
}

/// Does a repaired session have forks, as far as can be told?
fn has_forks(opened: &ScopedStore, repaired: &[(Option<SessionId>, FinishedRepair)]) -> bool {
    let forks = opened.store.as_files().and_then(|files| files.forker().all().ok());
    let Some(forks) = forks else { return true };
    let is_parent = |id: SessionId| forks.iter().any(|(_, parent)| parent.session == id);
    repaired.iter().filter_map(|(session, _)| *session).any(is_parent)
}

fn doctor_finishes_rewind(plans: &[RepairPlan]) -> bool {
    plans.iter().any(|plan| plan.actions.contains(&RepairAction::FinishRewind))
}

impl DoctorRound {
    /// The report with repaired sessions as their repair left them.
    fn after(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
        repaired: &[(Option<SessionId>, FinishedRepair)],
    ) -> DoctorReport {
        let mut report = DoctorReport::of(opened, surroundings);
        for examination in &self.examined {
            let after = repaired.iter().find_map(|(_, done)| match &done.after {
                RepairAftermath::Session(after) if after.session == examination.session => {
                    Some(&**after)
                }
                _ => None,
            });
            report.take(after.unwrap_or(examination));
        }
        // Findings of the store, and of sessions that could not be examined.
        let others = self.report.findings.iter().filter(|finding| {
            self.examined.iter().all(|examined| Some(examined.session) != finding.session)
                || self.store.contains(finding)
        });
        report.findings.extend(others.cloned());
        report
    }
}

/// Examines sessions, two at a time if there are many.
fn doctor_examine_each(
    doctor: &dyn StoreDoctor,
    sessions: &[SessionId],
    report: &mut DoctorReport,
) -> Vec<Examination> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = sessions.len().div_ceil(threads.max(1)).max(16);
    let examined: Vec<_> = std::thread::scope(|scope| {
        let shares: Vec<_> = sessions
            .chunks(share)
            .map(|share| {
                scope.spawn(move || {
                    share.iter().map(|id| (*id, doctor.examine(*id))).collect::<Vec<_>>()
                })
            })
            .collect();
        let joined = shares.into_iter().map(|share| match share.join() {
            Ok(examined) => examined,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    });
    let mut good = Vec::new();
    for (session, result) in examined {
        match result {
            Ok(examination) => good.push(examination),
            // It was removed meanwhile.
            Err(StoreError::NoSession { .. }) => {}
            // A session that cannot be examined must not block the others.
            Err(error) => report.unreadable(session, &error),
        }
    }
    good
}
