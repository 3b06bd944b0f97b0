//! `abide cleanup`: deletes old sessions and checkpoints and reclaims disk space.

use std::collections::HashMap;
use std::time::Duration;

use abide::{
    SessionId,
    maintenance::{
        ByteSize, CleanupOutcome, CleanupPlan, CleanupRules, CollectError, KeepReason, Retention,
        SessionRemoval, TimeSpan,
    },
};
use abide_transcript::escape;
use serde_json::json;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::confirm::{confirm, unconfirmed_json_text};
use crate::daily_cleanup::{clock_jump_text, removed_by_cleanup, removed_by_cleanup_name};
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::scoped_store::ScopedStore;
use crate::typed_time::time_ago;

/// Delete old sessions and checkpoints and reclaim disk space
///
/// Full segments of journals are compressed, and sessions without a write for a day are compressed
/// whole; nothing is lost by that. `[retention]` in the store's `config.toml` sets what is deleted;
/// if one of the limits below is given, only these count. Sessions in use, the newest `min_keep`,
/// failed and interrupted ones (`keep_failed`), and those that another session was forked from are
/// always kept. A shared store has no settings for this: sessions go by the options alone, and without
/// them only objects that nothing refers to. The plan is shown first. Without a terminal, nothing is
/// done without `--yes`. If the clock seems to have jumped forward, `--yes` also needs `--trust-clock`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide cleanup --dry-run
  abide cleanup --older-than 30d
  abide cleanup --keep 100 --yes     delete all but the newest hundred")]
pub(crate) struct CleanupArgs {
    /// Delete sessions that were not used for this long (`30d`, `12h`, `2w`)
    #[arg(long, value_name = "TIME")]
    older_than: Option<TimeSpan>,
    /// Keep the newest N sessions; without another limit, delete the others
    #[arg(long, value_name = "N")]
    keep: Option<u64>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Proceed without asking
    #[arg(short, long)]
    yes: bool,
    /// Trust the clock, though it is far from where the store last saw it
    #[arg(long)]
    trust_clock: bool,
    /// Print one JSON object: the plan with `--dry-run`, what was done with `--yes`
    #[arg(long)]
    json: bool,
}

/// The name of this command in errors about stores that cannot do it.
const WHAT: &str = "`abide cleanup`";

impl CleanupArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        if self.json && !self.yes && !self.dry_run {
            return Err(CommandError::Usage(unconfirmed_json_text()));
        }
        let opened = surroundings.open_store()?;
        let shared = opened.store.as_files().is_none();
        if shared && self.older_than.is_none() && self.keep.is_none() {
            return self.collect(&opened, surroundings);
        }
        opened.check_one_project(surroundings)?;
        if shared && !self.dry_run {
            finish_erasures(&opened, surroundings.wait)?;
        }
        let cleaner = opened.store.cleaner(WHAT)?;
        let rules = self.rules(cleaner.cleanup_rules(), opened.store.projects());
        let settings = rules.retention.clone();
        let plan = cleaner.plan_cleanup(&rules)?;
        let mut out = CommandOutput::stdout();
        // What is removed has no short id any more.
        let shorts = if self.json { opened.shorts() } else { HashMap::new() };
        if self.json && self.dry_run {
            out.json(&cleanup_plan_json(&plan, &shorts))?;
            return out.flush();
        }
        if !self.json {
            show_cleanup_plan(&plan, Some(&settings), &opened, &mut out)?;
            out.flush()?;
        }
        // A shared store does not remember that its clock was trusted, and nothing goes without sessions.
        let matters = !shared || !plan.sessions.is_empty();
        let doubted = plan.jumped.filter(|_| !self.trust_clock && matters);
        if let Some(jump) = doubted {
            if self.yes && !self.dry_run {
                return Err(CommandError::failed(clock_jump_text(jump))
                    .with_hint("nothing was done; if the clock is right, add `--trust-clock`"));
            }
            warning(clock_jump_text(jump));
        }
        if self.dry_run {
            return Ok(());
        }
        // Any cleanup of files, even of nothing, sets the time the store relies on.
        if !plan.is_empty() || doubted.is_some() {
            confirm("Proceed? Removed data cannot be restored.", self.yes, None)?;
        }
        let cleaned = cleaner.apply_cleanup(&plan, &rules, surroundings.wait)?;
        for note in &cleaned.notes {
            warning(note);
        }
        if self.json {
            out.json(&cleaned_json(&cleaned, &shorts))?;
        } else if !plan.is_empty() {
            out.line(removed_by_cleanup(&cleaned))?;
        }
        if !self.json && cleaned.sealed.segments > 0 {
            out.line(format_args!(
                "Compressed {}: {} freed",
                noun_count(cleaned.sealed.segments, "segment"),
                ByteSize(cleaned.sealed.freed())
            ))?;
        }
        out.flush()
    }

    /// Removes the objects of a shared store that nothing names: no limit is given.
    fn collect(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        let (wait, collector) = (surroundings.wait, opened.store.collector(WHAT)?);
        if !self.dry_run {
            finish_erasures(opened, wait)?;
        }
        let mut plan = CleanupPlan::default();
        match collector.preview_collection(&mut plan.notes) {
            Ok(objects) => plan.objects = Some(objects),
            Err(error) => plan.notes.push(format!("no objects will be collected: {error}")),
        }
        let mut out = CommandOutput::stdout();
        if self.json && self.dry_run {
            out.json(&cleanup_plan_json(&plan, &HashMap::new()))?;
            return out.flush();
        }
        if !self.json {
            show_cleanup_plan(&plan, None, opened, &mut out)?;
            out.flush()?;
        }
        if self.dry_run {
            return Ok(());
        }
        let mut cleaned = CleanupOutcome::default();
        if !plan.is_empty() {
            confirm("Proceed? Removed data cannot be restored.", self.yes, None)?;
            match collector.collect_objects(wait, &mut cleaned.notes) {
                Ok(objects) => cleaned.objects = objects,
                Err(CollectError::Store(error)) => return Err(abide::Error::from(error).into()),
                Err(error) => {
                    cleaned.notes.push(format!("no objects were collected: {error}"));
                }
            }
        }
        cleaned.notes.iter().for_each(warning);
        if self.json {
            out.json(&cleaned_json(&cleaned, &HashMap::new()))?;
        } else if !plan.is_empty() {
            out.line(removed_by_cleanup(&cleaned))?;
        }
        out.flush()
    }

    /// The rules of the store, or those of the options, for the project in scope.
    fn rules(&self, configured: CleanupRules, projects: &[String]) -> CleanupRules {
        let only = projects.to_vec();
        if self.older_than.is_none() && self.keep.is_none() {
            return CleanupRules { only, ..configured };
        }
        let retention = Retention {
            max_age: self.older_than,
            max_count: self.keep.filter(|_| self.older_than.is_none()),
            min_keep: self.keep.unwrap_or(configured.retention.min_keep),
            keep_failed: configured.retention.keep_failed,
            ..Retention::default()
        };
        CleanupRules { retention, only, ..CleanupRules::default() }
    }
}

/// Finishes interrupted erasures of a shared store.
fn finish_erasures(opened: &ScopedStore, wait: Duration) -> Result<(), CommandError> {
    let eraser = opened.store.eraser(WHAT)?;
    if !eraser.is_erasing().map_err(abide::Error::from)? {
        return Ok(());
    }
    let tidied = eraser.tidy_erasures(wait).map_err(abide::Error::from)?;
    if tidied.finished {
        status("Finished an interrupted erasure");
    }
    tidied.notes.iter().for_each(warning);
    Ok(())
}

/// Shows a plan. `settings` are the limits, where there can be any.
fn show_cleanup_plan(
    plan: &CleanupPlan,
    settings: Option<&Retention>,
    opened: &ScopedStore,
    out: &mut CommandOutput,
) -> Result<(), CommandError> {
    let now = jiff::Timestamp::now();
    let unnamed = plan.checkpoints.is_empty() && plan.kept.is_empty();
    let names = if unnamed { HashMap::new() } else { opened.names() };
    let name = |id: &SessionId| {
        let short = id.short(SessionId::SHORT);
        names.get(id).map_or_else(|| short.clone(), |name| format!("{name:?} {short}"))
    };
    for session in &plan.sessions {
        let line = format!(
            "remove session {}, last used {}, {}: {}",
            removed_by_cleanup_name(session),
            time_ago(session.last_used, now),
            ByteSize(session.bytes),
            session.reason
        );
        out.line(escape::text(&line))?;
    }
    for (id, numbers) in &plan.checkpoints {
        let line =
            format!("thin session {}: {}", name(id), noun_count(numbers.len(), "checkpoint"));
        out.line(escape::text(&line))?;
    }
    for (id, reason) in &plan.kept {
        let why = match reason {
            KeepReason::InUse => "it is in use or damaged",
            KeepReason::MinKeep => "it is one of the newest (min_keep)",
            KeepReason::Failed => "it failed or was interrupted (keep_failed)",
            KeepReason::Parent => "a session that is kept was forked from it",
        };
        out.line(escape::text(&format!("keep session {}: {why}", name(id))))?;
    }
    if plan.leftovers > 0 {
        let removed = noun_count(plan.leftovers, "removed session");
        out.line(format_args!("delete the remains of {removed}"))?;
    }
    if let Some(objects) = plan.objects.filter(|objects| objects.objects_removed > 0) {
        out.line(format_args!(
            "collect {}, {}",
            noun_count(objects.objects_removed, "object"),
            ByteSize(objects.bytes_freed)
        ))?;
    }
    let unsealed = plan.unsealed;
    if unsealed.segments > 0 {
        out.line(format_args!(
            "compress {} of {}, {}",
            noun_count(unsealed.segments, "segment"),
            noun_count(unsealed.sessions, "session"),
            ByteSize(unsealed.bytes)
        ))?;
    }
    for note in &plan.notes {
        warning(note);
    }
    if plan.is_empty() {
        if unsealed.segments == 0 {
            out.line("nothing to clean up")?;
        } else {
            out.line("nothing to remove")?;
        }
        if settings.is_some_and(|settings| !settings.is_set()) {
            status(
                "No limit is set: give one with `--older-than` or `--keep`, or set it permanently \
                with `[retention]` in config.toml",
            );
        }
    }
    Ok(())
}

fn short_among(shorts: &HashMap<SessionId, String>, id: SessionId) -> String {
    shorts.get(&id).cloned().unwrap_or_else(|| id.short(SessionId::SHORT))
}

fn sessions_json(
    sessions: &[SessionRemoval],
    shorts: &HashMap<SessionId, String>,
) -> Vec<serde_json::Value> {
    let json = |session: &SessionRemoval| {
        json!({
            "session": session.id,
            "short": short_among(shorts, session.id),
            "title": session.title,
            "name": session.name,
            "last_used": session.last_used,
            "bytes": session.bytes,
            "reason": session.reason,
        })
    };
    sessions.iter().map(json).collect()
}

fn cleanup_plan_json(plan: &CleanupPlan, shorts: &HashMap<SessionId, String>) -> String {
    let short = |id: SessionId| short_among(shorts, id);
    let checkpoints = plan.checkpoints.iter();
    let kept = plan.kept.iter();
    json!({
        "sessions": sessions_json(&plan.sessions, shorts),
        "checkpoints": checkpoints
            .map(|(id, numbers)| {
                json!({"session": id, "short": short(*id), "checkpoints": numbers})
            })
            .collect::<Vec<_>>(),
        "kept": kept
            .map(|(id, reason)| json!({"session": id, "short": short(*id), "reason": reason}))
            .collect::<Vec<_>>(),
        "leftovers": plan.leftovers,
        "objects": plan.objects.map(|objects| objects.objects_removed),
        "object_bytes": plan.objects.map(|objects| objects.bytes_freed),
        "unsealed_segments": plan.unsealed.segments,
        "unsealed_bytes": plan.unsealed.bytes,
        "clock_jumped": plan.jumped.is_some(),
        "notes": plan.notes,
    })
    .to_string()
}

fn cleaned_json(cleaned: &CleanupOutcome, shorts: &HashMap<SessionId, String>) -> String {
    json!({
        "sessions": sessions_json(&cleaned.sessions, shorts),
        "checkpoints": cleaned.checkpoints,
        "objects": cleaned.objects.objects_removed,
        "object_bytes": cleaned.objects.bytes_freed,
        "sealed_segments": cleaned.sealed.segments,
        "sealed_bytes_freed": cleaned.sealed.freed(),
        "notes": cleaned.notes,
    })
    .to_string()
}
