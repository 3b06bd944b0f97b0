//! `abide copy`: copies sessions from one store to another.

use std::path::{Path, PathBuf};

use abide::{
    SessionId, Store,
    bundle::{CopiedSession, Copier, ImportError, ImportOutcome},
    locate::StoreLocation,
    maintenance::ByteSize,
    secrets::Redaction,
};
use serde_json::json;

use crate::command_context::CommandContext;

use crate::command_output::{CommandOutput, warning};
use crate::command_place::NAME;
use crate::error::{CommandError, on_one_line};
use crate::event_line::listed;
use crate::noun_count::noun_count;
use crate::scoped_store::ScopedStore;

/// Copy sessions from one store to another
///
/// A session keeps its id and is copied with all its events and the files of its checkpoints. Every
/// line and checksum is checked. A session that is shorter in the destination is fast-forwarded; a
/// diverged one is refused and reported, and the others are still copied. The session that a fork
/// continues is copied before it, named or not. An interrupted copy can be run again and copies the
/// rest. Data that is erased here but not in the destination is reported; --erase erases it there
/// too. A session with secrets is refused and reported: `abide erase` removes them at the source, and
/// --keep-secrets copies it as it is.
///
/// --all copies every session of the source store. From a shared store or your own, it copies the
/// sessions of the current project, or all if there is no project (or with --all-projects).
/// Sessions copied into such a store belong to the project that they come from.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide copy --to postgres://me@db.example.org/team --all
  abide copy --from postgres://me@db.example.org/team k3x9ab
  abide copy --from ../old --to . --all --dry-run")]
pub(crate) struct CopyArgs {
    /// The sessions, by id or name or the start of one
    #[arg(value_name = "SESSION", required_unless_present = "all", conflicts_with = "all")]
    sessions: Vec<String>,
    /// Copy every session
    #[arg(long)]
    all: bool,
    /// The store to copy from: a URL, a project, or its store [default: the store here]
    #[arg(long, value_name = "DIR|URL", required_unless_present = "to")]
    from: Option<PathBuf>,
    /// The store to copy to, created if there is none: at a new path, or inside an existing
    /// directory [default: the store here]
    #[arg(long, value_name = "DIR|URL")]
    to: Option<PathBuf>,
    /// Erase in the destination what is erased in the source
    #[arg(long)]
    erase: bool,
    /// Copy sessions with secrets as they are
    #[arg(long)]
    keep_secrets: bool,
    /// Check everything and only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object for each session
    #[arg(long)]
    json: bool,
}

impl CopyArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let side = |named: &Option<PathBuf>| {
            named.as_deref().map_or_else(|| surroundings.clone(), |it| surroundings.with_store(it))
        };
        let (source, target) = (side(&self.from), side(&self.to));
        let from = source.open_store()?;
        // `--to` may create the store.
        let place = match &self.to {
            Some(_) => target.place_to_make(&surroundings.current_dir)?,
            None => target.place_in(&surroundings.current_dir)?,
        };
        let to = if self.dry_run {
            target.find_target_store()?
        } else {
            let home = self.home(&from, surroundings);
            Some(target.open_store_for(place, &home)?)
        };
        if let Some(to) = to.as_ref().filter(|to| to.place() == from.place()) {
            return Err(CommandError::failed(format!(
                "{} is both source and destination",
                to.place()
            ))
            .with_hint(
                "give two different stores with `--from` and `--to`; without one of them, \
            it is the store here",
            ));
        }
        let named = self.named(&from)?;
        let to: Option<Store> = to.map(|to| match self.keep_secrets {
            true => to.store.with_redaction(Redaction::off()),
            false => to.store,
        });
        let source = from.store.clone();
        let copier = match to {
            Some(to) if !self.dry_run => Copier::new(source, to, surroundings.wait),
            to => Copier::rehearsal(source, to),
        };
        let copier = if self.erase { copier.erasing() } else { copier };
        self.copy(&from, copier, &named)
    }

    /// The directory whose project the sessions belong to.
    fn home(&self, from: &ScopedStore, surroundings: &CommandContext) -> PathBuf {
        let here = || surroundings.current_dir.clone();
        let (Some(named), StoreLocation::Files(root)) = (&self.from, &from.at) else {
            return here();
        };
        let named = surroundings.absolute(named);
        if named != *root {
            return named;
        }
        let inside = root.file_name().is_some_and(|name| name == NAME);
        root.parent().filter(|_| inside).map_or_else(here, Path::to_owned)
    }

    fn named(&self, from: &ScopedStore) -> Result<Vec<SessionId>, CommandError> {
        if self.all {
            // Oldest first.
            let sessions = from.store.sessions()?;
            return Ok(sessions.into_iter().rev().map(|session| session.id).collect());
        }
        self.sessions.iter().map(|named| from.find(named)).collect()
    }

    fn copy(
        &self,
        from: &ScopedStore,
        mut copier: Copier,
        named: &[SessionId],
    ) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        let shorts = from.store.sessions()?;
        let short = |id: SessionId| {
            let known = shorts.iter().find(|known| known.id == id);
            known.map_or_else(|| id.short(SessionId::SHORT), |known| known.short.clone())
        };
        let sessions = copier.order(named);
        let (mut failed, mut unerased) = (0, 0);
        for id in &sessions {
            let done = copier.copy(*id);
            if done.is_err() {
                failed += 1;
            }
            match done {
                Ok(copied) => {
                    let line = self.done(*id, &short(*id), &copied);
                    if self.json {
                        out.json(&line)?
                    } else {
                        out.line(line)?
                    }
                    out.flush()?;
                    copied.imported.notes.iter().for_each(warning);
                    let noted =
                        |note: &str| warning(format_args!("session {}: {note}", short(*id)));
                    copied.notes.iter().for_each(|note| noted(note));
                    let writes = matches!(
                        copied.imported.outcome,
                        ImportOutcome::Made | ImportOutcome::Forwarded { .. }
                    );
                    if writes && !copied.imported.kept_erased.is_empty() {
                        let erased = listed(&copied.imported.kept_erased);
                        let stays = if self.dry_run { "would stay" } else { "stays" };
                        noted(&format!(
                            "the data of {erased} was erased in the destination before and {stays} erased"
                        ));
                    }
                    if !copied.unerased.is_empty() {
                        unerased += 1;
                        let still = listed(&copied.unerased);
                        noted(&format!(
                            "the data of {still} is erased here but not in the destination"
                        ));
                    }
                }
                Err(error) if self.json => {
                    let outcome = copy_refusal(&error);
                    let said = on_one_line(&error);
                    let line = json!({
                        "session": id, "short": short(*id), "outcome": outcome, "error": said,
                        "dry_run": self.dry_run,
                    });
                    out.json(&line.to_string())?;
                    out.flush()?;
                }
                Err(error) => {
                    let error = CommandError::from(error);
                    error.on(format!("session {} was not copied", short(*id))).report();
                }
            }
        }
        if failed > 0 {
            let (all, were) =
                (noun_count(sessions.len(), "session"), if failed == 1 { "was" } else { "were" });
            return Err(CommandError::failed(format!("{failed} of {all} {were} not copied")));
        }
        if unerased > 0 && !(self.dry_run && self.erase) {
            let sessions = match unerased {
                1 => "1 session still has".to_owned(),
                count => format!("{count} sessions still have"),
            };
            return Err(CommandError::failed(format!(
                "{sessions} data in the destination that is erased here"
            ))
            .with_hint("`--erase` erases it there; this cannot be undone"));
        }
        if sessions.is_empty() && !self.json {
            out.line(format_args!("There are no sessions to copy in {}", from.place()))?;
            out.flush()?;
        }
        Ok(())
    }

    /// What was done with a session, for people or for programs.
    fn done(&self, id: SessionId, short: &str, copied: &CopiedSession) -> String {
        let bundle = &copied.imported.bundle;
        let (outcome, seq) = match copied.imported.outcome {
            ImportOutcome::Made => ("copied", None),
            ImportOutcome::Forwarded { from } => ("forwarded", Some(from)),
            ImportOutcome::Same => ("same", None),
            ImportOutcome::Behind { here } => ("behind", Some(here)),
        };
        if self.json {
            return json!({
                "session": id, "short": short, "outcome": outcome, "events": bundle.events,
                "last": bundle.last(), "there": seq, "objects": bundle.objects,
                "files": {"objects": copied.objects, "bytes": copied.bytes},
                "erased": copied.erased, "unerased": copied.unerased,
                "kept_erased": copied.imported.kept_erased,
                "dry_run": self.dry_run,
            })
            .to_string();
        }
        let seq = seq.unwrap_or_default();
        let events = noun_count(bundle.events, "event");
        let what = match (copied.imported.outcome, self.dry_run) {
            (ImportOutcome::Made, false) => format!("copied, {events}"),
            (ImportOutcome::Made, true) => format!("would be copied, {events}"),
            (ImportOutcome::Forwarded { .. }, dry_run) => {
                let verb = if dry_run { "would be forwarded" } else { "forwarded" };
                format!("{verb} from event @{seq} to @{}", bundle.last())
            }
            (ImportOutcome::Same, _) => format!("already there, {events}"),
            (ImportOutcome::Behind { .. }, _) => {
                format!("longer there: event @{seq}, but @{} here", bundle.last())
            }
        };
        let files = match (copied.objects, copied.bytes) {
            (0, _) => String::new(),
            (objects, 0) => format!("; {} of files", noun_count(objects, "object")),
            (objects, bytes) => {
                format!("; {} of files, {}", noun_count(objects, "object"), ByteSize(bytes))
            }
        };
        let erased = match copied.erased {
            0 => String::new(),
            count => format!("; {} erased there", noun_count(count, "payload")),
        };
        format!("session {short}  {what}{files}{erased}")
    }
}

fn copy_refusal(error: &abide::Error) -> &'static str {
    match error {
        abide::Error::Import(ImportError::Diverged { .. }) => "diverged",
        abide::Error::HasSecrets { .. } => "has_secrets",
        _ => "failed",
    }
}
