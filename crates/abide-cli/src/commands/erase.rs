//! `abide erase`: removes payloads, such as a secret, wherever they are kept.

use std::time::Duration;

use abide::{DEFAULT_WAIT, EraseError, ErasePlan, Erased, LocalStore, Seq, SessionId, SessionRef};
use serde_json::json;

use super::cleanup::unseen;
use super::record::duration;
use crate::confirm::confirm;
use crate::error::CommandError;
use crate::output::{Output, status, warning};
use crate::store::{Opened, Surroundings};

/// Erase the data of events: a secret that was recorded
///
/// The data leaves the journal, the objects, the index, the state and the transcript. The event
/// stays with its number, time and kind, and the chain stays valid. What was exported, copied or
/// backed up is not reached, and neither are the blocks that the disk has freed.
/// A workspace snapshot goes with the checkpoint that names it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide erase @41 --reason \"a token\"
  abide erase abc123 @41 @43 --dry-run
  abide erase --match hunter2 --all")]
pub(crate) struct Erase {
    /// The session, then the events: `abc123 @41 @43` [default: $ABIDE_SESSION, else the latest]
    #[arg(value_name = "[SESSION] @SEQ")]
    what: Vec<String>,
    /// The session, as an option
    #[arg(short, long, value_name = "SESSION", conflicts_with = "all")]
    session: Option<String>,
    /// Every event whose data has this text
    #[arg(long = "match", value_name = "TEXT")]
    text: Option<String>,
    /// In every session
    #[arg(long, requires = "text")]
    all: bool,
    /// Why; it is recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// How long to wait for a writer (`2s`, `500ms`, `0`)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    /// Only show what would be erased
    #[arg(long)]
    dry_run: bool,
    /// Do it without asking
    #[arg(short, long)]
    yes: bool,
    /// Print one JSON object for each session: the plan with `--dry-run`, what was done with `--yes`
    #[arg(long)]
    json: bool,
}

/// Who looks after stores of files.
const WHAT: &str = "`abide erase`";

impl Erase {
    pub(crate) fn run(self, surroundings: &Surroundings) -> Result<(), CommandError> {
        if self.json && !self.yes && !self.dry_run {
            return Err(CommandError::Usage(unseen()));
        }
        let opened = surroundings.open_files(WHAT)?;
        let files = opened.store.files(WHAT)?;
        let wait = self.wait.unwrap_or(DEFAULT_WAIT);
        if !self.dry_run && files.finish_erase(wait).map_err(failed)?.is_some() {
            status("Finished an erasure that was cut short");
        }
        let plans = self.plans(&opened, surroundings)?;
        let mut out = Output::stdout();
        if !self.json || self.dry_run {
            for plan in &plans {
                if self.json {
                    out.json(&serde_json::to_string(plan).unwrap_or_default())?;
                } else {
                    show(plan, &mut out)?;
                }
            }
        }
        if plans.is_empty() {
            return Err(CommandError::failed("there is no event whose data has this text"));
        }
        out.flush()?;
        if self.dry_run {
            return Ok(());
        }
        confirm("Erase these? It cannot be undone.", self.yes, None)?;
        for plan in &plans {
            let erased = files.apply_erase(plan, self.reason.as_deref(), wait).map_err(failed)?;
            if self.json {
                out.json(&erased_json(plan, &erased))?;
            } else {
                out.line(said(plan, &erased))?;
            }
            out.flush()?;
            erased.notes.iter().for_each(warning);
            self.look_again(files, plan)?;
        }
        Ok(())
    }

    fn plans(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<Vec<ErasePlan>, CommandError> {
        let files = opened.store.files(WHAT)?;
        let (named, seqs) = self.named()?;
        let sessions = match (named.or(self.session.as_deref()), self.all) {
            (Some(_), true) => {
                return Err(CommandError::Usage("`--all` and a session exclude each other".into()));
            }
            (Some(named), false) => vec![opened.find(named)?],
            (None, true) => opened.store.sessions()?.iter().map(|session| session.id).collect(),
            (None, false) => match &surroundings.session {
                Some(named) => vec![opened.find(named)?],
                None => {
                    let latest = opened.store.find(&SessionRef::Latest)?;
                    status(format_args!("Session {} (the latest)", latest.short(SessionId::SHORT)));
                    vec![latest]
                }
            },
        };
        let Some(text) = &self.text else {
            if seqs.is_empty() {
                return Err(CommandError::Usage(
                    "name the events (`@41`) or a text (`--match TEXT`)".into(),
                ));
            }
            let plan = |id: SessionId| files.plan_erase(id, &seqs).map_err(failed);
            return sessions.into_iter().map(plan).collect();
        };
        if text.is_empty() || !seqs.is_empty() {
            return Err(CommandError::Usage("`--match` stands for the events, with a text".into()));
        }
        let mut plans = Vec::new();
        for id in sessions {
            let matches = files.find_payloads(id, text)?;
            if !matches.heads.is_empty() {
                warning(format_args!(
                    "session {}: the text stands in the task, lane or key of {}, which cannot be erased",
                    id.short(SessionId::SHORT),
                    listed(&matches.heads)
                ));
            }
            if !matches.payloads.is_empty() {
                plans.push(files.plan_erase(id, &matches.payloads).map_err(failed)?);
            }
        }
        Ok(plans)
    }

    /// The session and the events of the arguments.
    fn named(&self) -> Result<(Option<&str>, Vec<Seq>), CommandError> {
        let mut session = None;
        let mut seqs = Vec::new();
        for (place, word) in self.what.iter().enumerate() {
            match word.strip_prefix('@') {
                Some(seq) => seqs.push(Seq(seq.parse().map_err(|_| {
                    CommandError::Usage(format!("`{word}` is no event; write it as @41"))
                })?)),
                None if place == 0 => session = Some(word.as_str()),
                None => {
                    return Err(CommandError::Usage(format!(
                        "`{word}` is no event; write it as @41"
                    )));
                }
            }
        }
        Ok((session, seqs))
    }

    /// What was to go must be gone.
    fn look_again(&self, files: &LocalStore, plan: &ErasePlan) -> Result<(), CommandError> {
        let Some(text) = &self.text else { return Ok(()) };
        // The reason is recorded, and may have it.
        let left = files.find_payloads(plan.session, text)?.payloads;
        if !left.is_empty() {
            warning(format_args!("the text stands in {} still", listed(&left)));
        }
        Ok(())
    }
}

fn listed(seqs: &[Seq]) -> String {
    let shown: Vec<String> = seqs.iter().take(10).map(|seq| format!("@{seq}")).collect();
    let more = if seqs.len() > 10 { " …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

fn failed(error: EraseError) -> CommandError {
    match error {
        EraseError::Store(error) => error.into(),
        error => {
            let hint = match &error {
                EraseError::NoEvent { .. } => "`abide show --all` tells the events",
                EraseError::Structural { .. } => "nothing was erased",
                EraseError::Damaged { .. } => "nothing was erased; `abide doctor` tells more",
                EraseError::NotBegun(_) => {
                    "let the agents that write come to their end, and run it again"
                }
                EraseError::Objects(_) => {
                    "`abide cleanup` collects them when nothing is in its way"
                }
                EraseError::Store(_) => "",
            };
            CommandError::because(error).with_hint(hint)
        }
    }
}

fn show(plan: &ErasePlan, out: &mut Output) -> Result<(), CommandError> {
    for line in &plan.lines {
        let objects = match line.objects.len() {
            0 => String::new(),
            1 => ", 1 object".to_owned(),
            count => format!(", {count} objects"),
        };
        let erased = if line.erased { ", erased before" } else { "" };
        out.line(format_args!(
            "{} @{} {} {}, {} bytes{objects}{erased}",
            plan.session.short(SessionId::SHORT),
            line.seq,
            line.at,
            line.kind,
            line.bytes
        ))?;
    }
    Ok(())
}

fn said(plan: &ErasePlan, erased: &Erased) -> String {
    let shared = match erased.shared.len() {
        0 => String::new(),
        count => format!("; {count} objects stay, since other events name them"),
    };
    format!(
        "Erased {} payloads and {} objects of session {}{shared}",
        erased.payloads,
        erased.objects,
        plan.session.short(SessionId::SHORT)
    )
}

fn erased_json(plan: &ErasePlan, erased: &Erased) -> String {
    json!({
        "session": plan.session,
        "events": plan.lines.iter().map(|line| line.seq).collect::<Vec<_>>(),
        "payloads": erased.payloads,
        "objects": erased.objects,
        "shared": erased.shared,
    })
    .to_string()
}
