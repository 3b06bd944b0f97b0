//! `abide rewind`: goes back to an earlier point.

mod place_choice;

use std::path::Path;

use abide::workspace::RestoreReport;
use abide::{
    RewindRequest, Session, SessionId, SessionRef,
    checkpoint::{CheckpointEntry, RewindWatch},
};
use clap_complete::ArgValueCandidates;

use self::place_choice::{choose_place, missing_place};
use crate::apply_args::{ApplyArgs, PlanDialog, capture_watch};
use crate::checkpoint_lookup::is_safety_checkpoint;
use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::completion_candidates::place_candidates;
use crate::confirm::{confirm, on_terminal};
use crate::error::CommandError;
use crate::interrupt::interrupt_flag;
use crate::interrupted_rewind::{finish_rewind, tell_interrupted_rewind};
use crate::progress;
use crate::rewind_report::{
    named_checkpoint, report_files_left, report_files_told, report_finish_json, report_path_reasons,
};
use crate::scoped_store::ScopedStore;
use crate::session_args::{SessionOption, SessionPurpose};
use crate::shell_word::shell_quoted;

/// Rewind the files, the conversation, or both to a checkpoint or a turn
///
/// Without WHERE, you choose one of the last checkpoints. With paths, only these files are
/// restored, and the conversation is unchanged.
///
/// The plan is shown first, and a checkpoint of the present state is made, so that `abide undo` can
/// undo the rewind. Files that abide has not stored (ignored files, files over the size limit) are
/// unchanged. Later events stay readable (`abide show --all`), and you can go forward to them again.
/// A place without its own checkpoint gets the files of the last one before it; the plan says which.
///
/// Without -s, a number is one of the latest session here. A label is looked up in all sessions here.
///
/// While another process runs the session, only its files can be rewound; without a terminal, this
/// needs --files or paths. The conversation can be rewound when that process has ended.
///
/// An interrupted rewind is finished by the next command. One that was started on another machine needs
/// --finish, which shows what is left and asks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
WHERE is a checkpoint (its number, label or id), the end of a turn (turn:3), an event (@41), or
`latest`: the newest checkpoint that can be read, but for those that rewinds made.

Examples:
  abide rewind                             choose among the last checkpoints
  abide rewind 3 --dry-run
  abide rewind \"tests pass\" src/parser.rs  only this file
  abide rewind turn:4 --files              all files, not the conversation
  abide rewind --finish")]
pub(crate) struct RewindArgs {
    /// The place to rewind to [default: ask, on a terminal]
    #[arg(value_name = "WHERE", add = ArgValueCandidates::new(place_candidates))]
    place: Option<String>,
    /// Rewind only these files and directories, not the conversation (`.` in the root: all files)
    #[arg(value_name = "PATH", conflicts_with_all = ["conversation", "both"])]
    paths: Vec<String>,
    /// Where to
    #[arg(long, value_name = "WHERE", hide = true)]
    to: Option<String>,
    #[command(flatten)]
    session: SessionOption,
    /// Finish an interrupted rewind
    #[arg(long, conflicts_with_all = ["place", "to", "files", "conversation", "both"])]
    finish: bool,
    /// Rewind only the files: all, or these
    #[arg(long, value_name = "PATH", num_args = 0.., conflicts_with_all = ["conversation", "both"])]
    files: Option<Vec<String>>,
    /// Rewind only the conversation, the tasks and the rest of the session's state
    #[arg(long, conflicts_with = "both")]
    conversation: bool,
    /// Rewind the files and the conversation [default]
    #[arg(long)]
    both: bool,
    #[command(flatten)]
    act: ApplyArgs,
}

impl RewindArgs {
    pub(crate) fn run(mut self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let typed = self.to.as_deref().or(self.place.as_deref());
        let purpose = SessionPurpose::RewindHere;
        let mut id = match self.finish {
            true => self.session.find(purpose, &opened, surroundings)?,
            false => self.session.find_with_place(purpose, typed, &opened, surroundings)?,
        };
        if self.finish {
            let session = opened.store.open_session(&SessionRef::Id(id))?;
            self.act.finish(&session)?;
            return Ok(session.close()?);
        }
        if let Some(to) = self.to.take() {
            // The place is known, so what stands in its place is a path.
            self.paths.extend(self.place.replace(to));
        }
        let asked = interrupt_flag()?;
        let place = self.place.take();
        if place.is_none() && !on_terminal() {
            return Err(missing_place(&opened, id)?);
        }
        if !self.conversation {
            opened.warn_of_others_here(id, surroundings);
        }
        let (mut session, mut only_files) = self.open(&opened, id)?;
        let place = match place {
            Some(place) => place,
            None => {
                let is_free = !self.session.is_chosen(surroundings);
                let others = is_free.then_some(surroundings);
                let chosen = choose_place(&opened, &session, others, &asked)?;
                if chosen.session != id {
                    session.close()?;
                    id = chosen.session;
                    status(format_args!("Session {}", id.short(SessionId::SHORT)));
                    opened.warn_of_others_here(id, surroundings);
                    (session, only_files) = self.open(&opened, id)?;
                }
                chosen.place
            }
        };
        self.paths.extend(self.files.take().into_iter().flatten());
        let place = if place == "latest" { latest_rewind_target(&session)? } else { place };
        let base = session.store().workspace_root(id, &session.core()?.fields).ok();
        let to = session.view().resolve(&place).map_err(|error| {
            let error = CommandError::from(error);
            if self.paths.is_empty() && is_file_here(&place, base.as_deref(), surroundings) {
                return error.with_hint(format!(
                    "the place comes first: `abide rewind latest {}`",
                    shell_quoted(&place)
                ));
            }
            if let Ok(Some(other)) = opened.with_id_or_key(&place) {
                let other = opened.short(other);
                return error.with_hint(format!(
                    "a session is named by -s: `abide rewind -s {other} WHERE`"
                ));
            }
            error
        })?;
        let mut paths = Vec::new();
        for path in &self.paths {
            if path.is_empty() {
                let empty = "a path must not be empty; `.` means all files".to_owned();
                return Err(CommandError::Usage(empty));
            }
            paths.push(surroundings.within(path, base.as_deref())?);
        }
        if paths.iter().any(String::is_empty) {
            // The root means everything in it.
            paths.clear();
        }
        let request = RewindRequest { files: !self.conversation, conversation: !only_files, paths };
        let plan_for = |request: &RewindRequest| {
            let (watch, _line) = capture_watch(&asked);
            session.plan_rewind(&to, request, &watch)
        };
        let plan = plan_for(&request)?;
        let heading = match &plan.checkpoint {
            Some(entry) if entry.seq == to.seq => {
                let subjects = session.view().checkpoint_subjects(std::slice::from_ref(entry))?;
                named_checkpoint(entry, subjects.get(&entry.seq).map(String::as_str))
            }
            _ => format!("event @{}", to.seq),
        };
        let choose = |paths: Vec<String>| {
            let some = RewindRequest { files: true, conversation: false, paths };
            Ok(plan_for(&some)?)
        };
        let dialog = PlanDialog {
            heading,
            to: Some(to.seq),
            surroundings: Some(surroundings),
            choose: Some(&choose),
            inverse: "abide undo",
        };
        self.act.carry_out(&session, plan, &dialog, &asked)?;
        Ok(session.close()?)
    }
}

impl RewindArgs {
    /// Opens the session, and finishes a rewind that was cut off. Also says whether only files are
    /// meant: those of a session that another process runs, or those that were named.
    fn open(&self, opened: &ScopedStore, id: SessionId) -> Result<(Session, bool), CommandError> {
        let session = opened.store.open_session(&SessionRef::Id(id))?;
        let mut only_files = self.files.is_some() || !self.paths.is_empty();
        if session.is_relayed() && !only_files && !self.conversation && !self.both && self.asks() {
            status("Another process runs this session: until it ends, only files can be rewound");
            only_files = true;
        }
        if self.act.dry_run {
            tell_interrupted_rewind(&session)?;
        } else {
            finish_rewind(&session)?;
        }
        Ok((session, only_files))
    }

    /// Will a person see the plan and be asked?
    fn asks(&self) -> bool {
        on_terminal() && !self.act.yes && !self.act.json
    }
}

/// Is it a file, typed where a place belongs?
fn is_file_here(place: &str, base: Option<&Path>, surroundings: &CommandContext) -> bool {
    surroundings.absolute(Path::new(place)).exists() && surroundings.within(place, base).is_ok()
}

/// The newest intact checkpoint, but for those that rewinds made of what they took back; damaged ones are
/// reported.
fn latest_rewind_target(session: &Session) -> Result<String, CommandError> {
    let objects = session.store().objects()?;
    let is_chosen = |entry: &CheckpointEntry| !is_safety_checkpoint(entry);
    let (found, damaged) = session.view().latest_checkpoint_of(&*objects, is_chosen)?;
    for entry in &damaged {
        warning(format_args!("checkpoint {} is damaged; the one before it is used", entry.number));
    }
    let found = match found {
        Some(found) => Some(found),
        None => session.view().latest_checkpoint(&*objects)?.0,
    };
    let found = found.ok_or_else(|| {
        CommandError::failed("there is no intact checkpoint")
            .with_hint("`abide saves` lists the checkpoints")
    })?;
    Ok(found.number.to_string())
}

impl ApplyArgs {
    /// Finishes an interrupted rewind.
    fn finish(&self, session: &Session) -> Result<(), CommandError> {
        let Some(plan) = session.plan_finish()? else {
            status("There is no rewind to finish");
            return Ok(());
        };
        let mut out = CommandOutput::stdout();
        let root = plan.root.to_string_lossy().into_owned();
        if self.json {
            out.json(&report_finish_json(&plan))?;
        } else {
            out.line(format_args!("Finish the rewind at event @{}", plan.seq))?;
            if !plan.own {
                out.line("As far as abide knows, you did not start it on this machine")?;
            }
            for line in report_files_told(&root, &plan.files) {
                out.line(line)?;
            }
        }
        out.flush()?;
        if self.dry_run {
            return Ok(());
        }
        confirm("Finish it?", self.yes, None)?;
        let done = {
            let (restore, _line) = progress::restoring_progress();
            let watch = RewindWatch { restore: Some(restore), ..RewindWatch::default() };
            session.finish(plan, &watch)?
        };
        let Some(done) = done else {
            status("Another process has finished it");
            return Ok(());
        };
        let RestoreReport { created, changed, deleted, .. } = done.files;
        if self.json {
            let wire = serde_json::json!({
                "rewind": done.seq, "created": created, "changed": changed, "deleted": deleted,
                "kept": report_path_reasons(&done.files.kept), "failed": report_path_reasons(&done.files.failed),
            });
            out.json(&wire.to_string())?;
        } else {
            out.line(format_args!(
                "Done: {created} created, {changed} changed, {deleted} deleted; `abide undo` \
                undoes the rewind"
            ))?;
        }
        out.flush()?;
        report_files_left(&done.files, "abide undo")
    }
}
