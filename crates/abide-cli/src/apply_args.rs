//! Shows a plan, asks, and applies it: the same for everything that goes back.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use abide::workspace::{ChangeKind, ChangedPath, RestoreReport};
use abide::{
    Seq, Session,
    checkpoint::{CheckpointEntry, RewindPlan, RewindWatch},
};

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::confirm::{
    ConfirmationNeed, ask_line, begin_confirmation, confirmation_refused, is_refusal,
};
use crate::error::CommandError;
use crate::patch_output::write_patch;
use crate::progress;
use crate::rewind_report::{
    LISTED, change_told, checkpoint_in_report, report_files_left, report_path_reasons,
    rewind_report_json, rewind_report_lines, rewind_untouched_error,
};

/// Whether a plan is only shown, asked about, or carried out.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Proceed without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Print the plan and the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Plans the same rewind for some of its paths alone, without the conversation.
pub(crate) type PlanPathsFn<'a> = &'a dyn Fn(Vec<String>) -> Result<RewindPlan, CommandError>;

/// A plan as it is shown and asked about.
pub(crate) struct PlanDialog<'a> {
    /// Where it goes back to.
    pub(crate) heading: String,
    /// The event at that place.
    pub(crate) to: Option<Seq>,
    /// For the pager that shows the diff; without it, none is offered.
    pub(crate) surroundings: Option<&'a CommandContext>,
    /// For choosing among the files; without it, that is not offered.
    pub(crate) choose: Option<PlanPathsFn<'a>>,
    /// The command that takes it back.
    pub(crate) inverse: &'static str,
}

/// An answer to the question of a plan.
enum PlanAnswer {
    Apply,
    Diff,
    Choose,
}

/// Restores the files of a checkpoint, for the place `at`, if the user agrees; the conversation is
/// unchanged.
pub(crate) fn apply_files_back(
    session: &Session,
    files: CheckpointEntry,
    at: Seq,
    yes: bool,
) -> Result<(), CommandError> {
    let heading = checkpoint_in_report(&files);
    let asked = Arc::new(AtomicBool::new(false));
    let plan = {
        let (watch, _line) = capture_watch(&asked);
        session.plan_restore(files, &watch)?
    };
    let act = ApplyArgs { dry_run: false, yes, json: false };
    let dialog = PlanDialog {
        heading,
        to: Some(at),
        surroundings: None,
        choose: None,
        inverse: "abide undo",
    };
    act.carry_out(session, plan, &dialog, &asked)
}

/// Shows the progress of capturing the current files.
pub(crate) fn capture_watch(asked: &Arc<AtomicBool>) -> (RewindWatch, progress::ProgressLine) {
    let (snapshot, line) = progress::capturing_progress(asked.clone());
    (RewindWatch { snapshot, restore: None }, line)
}

impl PlanDialog<'_> {
    /// The question for a plan, with the answers that make sense for it.
    fn question(&self, changes: &[ChangedPath]) -> String {
        let diff = self.surroundings.filter(|_| !changes.is_empty()).map_or("", |_| " [d]iff");
        let choose = self.choose.filter(|_| changes.len() > 1).map_or("", |_| " [c]hoose");
        format!("Go back? [y]es [n]o{diff}{choose}: ")
    }

    fn ask(&self, changes: &[ChangedPath], asked: &AtomicBool) -> Result<PlanAnswer, CommandError> {
        let question = self.question(changes);
        loop {
            match ask_line(&question, Some(asked))?.to_lowercase().as_str() {
                "y" | "yes" => return Ok(PlanAnswer::Apply),
                answer if answer.is_empty() || is_refusal(answer) => confirmation_refused()?,
                "d" | "diff" if question.contains("[d]") => return Ok(PlanAnswer::Diff),
                "c" | "choose" if question.contains("[c]") => return Ok(PlanAnswer::Choose),
                _ => status("Answer with one of these letters; Enter alone means no"),
            }
        }
    }
}

impl ApplyArgs {
    /// Shows the plan and, once the user agrees, goes back.
    pub(crate) fn carry_out(
        &self,
        session: &Session,
        mut plan: RewindPlan,
        dialog: &PlanDialog<'_>,
        asked: &Arc<AtomicBool>,
    ) -> Result<(), CommandError> {
        let mut changes = self.show(&plan, dialog)?;
        // An undo that has nothing to do is recorded all the same: the next one goes further back.
        let idle = plan.files.steps.is_empty() && plan.left.0 == 0 && plan.rewind.undoes.is_none();
        if idle && let Some(error) = rewind_untouched_error(&plan) {
            return Err(error);
        }
        if self.dry_run {
            return Ok(());
        }
        if idle {
            status("There is nothing to do");
            return Ok(());
        }
        while begin_confirmation(self.yes, Some(asked))? == ConfirmationNeed::Asked {
            match dialog.ask(&changes, asked)? {
                PlanAnswer::Apply => break,
                PlanAnswer::Diff => {
                    if let (Some(objects), Some(surroundings)) =
                        (plan.objects(), dialog.surroundings)
                    {
                        write_patch(&changes, objects, surroundings)?;
                    }
                }
                PlanAnswer::Choose => {
                    if let Some(choose) = dialog.choose {
                        let paths = choose_paths(&changes, asked)?;
                        if !paths.is_empty() {
                            plan = choose(paths)?;
                            changes = self.show(&plan, dialog)?;
                            if plan.files.steps.is_empty() {
                                return Err(rewind_untouched_error(&plan).unwrap_or_else(|| {
                                    CommandError::failed("there is nothing to do")
                                }));
                            }
                        }
                    }
                }
            }
        }
        self.apply(session, plan, dialog, asked)
    }

    /// Shows a plan. Returns what it does to the files, for display.
    fn show(
        &self,
        plan: &RewindPlan,
        dialog: &PlanDialog<'_>,
    ) -> Result<Vec<ChangedPath>, CommandError> {
        let mut out = CommandOutput::stdout();
        if self.json {
            out.json(&rewind_report_json(plan))?;
            out.flush()?;
            return Ok(Vec::new());
        }
        let changes = plan.changes()?;
        for line in rewind_report_lines(plan, &changes, &dialog.heading, dialog.to) {
            out.line(line)?;
        }
        out.flush()?;
        Ok(changes)
    }

    fn apply(
        &self,
        session: &Session,
        plan: RewindPlan,
        dialog: &PlanDialog<'_>,
        asked: &Arc<AtomicBool>,
    ) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        let done = {
            let (mut watch, _capture) = capture_watch(asked);
            let (restore, _line) = progress::restoring_progress();
            watch.restore = Some(restore);
            session.rewind(plan, &watch).inspect_err(|error| {
                if error.is_cancelled() {
                    status("Stopped; nothing was changed");
                }
            })?
        };
        let RestoreReport { created, changed, deleted, .. } = done.files;
        if self.json {
            let wire = serde_json::json!({
                "rewind": done.seq, "safety": done.safety,
                "created": created, "changed": changed, "deleted": deleted,
                "kept": report_path_reasons(&done.files.kept), "failed": report_path_reasons(&done.files.failed),
            });
            out.json(&wire.to_string())?;
        } else {
            let files = format!("{created} created, {changed} changed, {deleted} deleted");
            let inverse = dialog.inverse;
            let safety = done.safety.map(|number| {
                format!("; checkpoint {number} holds the state before, `{inverse}` returns to it")
            });
            let safety = safety.unwrap_or_else(|| format!("; `{inverse}` undoes it"));
            out.line(format_args!("Done: {files}{safety}"))?;
        }
        out.flush()?;
        report_files_left(&done.files, dialog.inverse)
    }
}

/// Lets the user choose among the files by number. Empty if none was chosen.
fn choose_paths(changes: &[ChangedPath], asked: &AtomicBool) -> Result<Vec<String>, CommandError> {
    for (number, changed) in (1..).zip(changes).take(LISTED) {
        status(format_args!("{number:>4}  {}", change_told(changed)));
    }
    if changes.len() > LISTED {
        status("      …; name the others as paths: `abide rewind WHERE PATH`");
    }
    loop {
        let answer = ask_line("Which files (such as 1 3-5; Enter: none)? ", Some(asked))?;
        let answer = if is_refusal(&answer) { String::new() } else { answer };
        match chosen_numbers(&answer, changes.len().min(LISTED)) {
            Ok(numbers) => {
                let chosen = numbers.iter().filter_map(|number| changes.get(number - 1));
                let (text, other): (Vec<_>, Vec<_>) = chosen.partition(|changed| is_text(changed));
                for changed in other {
                    let told = change_told(changed);
                    status(format_args!("{told} cannot be chosen alone: its name is not UTF-8"));
                }
                return Ok(text.into_iter().flat_map(paths_of_change).collect());
            }
            Err(wrong) => {
                status(format_args!("`{wrong}` is not one of the numbers"));
            }
        }
    }
}

/// Are the names of a changed file text? A path is passed on as text.
fn is_text(changed: &ChangedPath) -> bool {
    let from = match &changed.change {
        ChangeKind::Renamed { from } => Some(from),
        _ => None,
    };
    std::iter::once(&changed.path).chain(from).all(|path| std::str::from_utf8(path).is_ok())
}

/// A renamed file is there under both names.
fn paths_of_change(changed: &ChangedPath) -> Vec<String> {
    let from = match &changed.change {
        ChangeKind::Renamed { from } => Some(from),
        _ => None,
    };
    let paths = std::iter::once(&changed.path).chain(from);
    paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

/// The numbers in an answer such as `1 3-5`, each from 1 to `most`; the word that is none of them.
fn chosen_numbers(answer: &str, most: usize) -> Result<Vec<usize>, String> {
    let mut numbers = Vec::new();
    let words = answer.split(|c: char| c.is_whitespace() || c == ',');
    for word in words.filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let number = |text: &str| text.parse().ok().filter(|n| (1..=most).contains(n));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => numbers.extend(first..=last),
            _ => return Err(word.to_owned()),
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_chosen() {
        assert_eq!(chosen_numbers("", 9), Ok(vec![]));
        assert_eq!(chosen_numbers("3 1, 5-7 6", 9), Ok(vec![1, 3, 5, 6, 7]));
        for wrong in ["0", "10", "x", "5-4", "-3", "2-"] {
            assert_eq!(chosen_numbers(wrong, 9), Err(wrong.to_owned()));
        }
    }
}
