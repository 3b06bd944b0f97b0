//! The summary at the end of a run.

use abide::{maintenance::ByteSize, tasks::TaskId};
use abide_runner::{RunFinish, RunGoal, RunSummary, TaskUse};
use abide_transcript::{escape, format_duration};

use super::amount::money_amount;
use super::wording;
use crate::command_output::status;
use crate::error::CommandError;
use crate::noun_count::noun_count;

/// How many files and tasks are named.
const LISTED: usize = 20;

/// Prints the outcome of a run.
pub(super) fn tell_run_report(summary: &RunSummary, goal: RunGoal) {
    let tasks = &summary.tasks;
    let done = || format!("{} of {} tasks done", tasks.complete, tasks.all - tasks.obsolete);
    let mut words = Vec::new();
    // A command or a conversation is not done: it has come to its end.
    if goal == RunGoal::Tasks {
        words.extend((tasks.all > 0).then(done));
        words.extend((tasks.failed > 0).then(|| format!("{} failed", tasks.failed)));
        words.extend((tasks.blocked > 0).then(|| format!("{} blocked", tasks.blocked)));
    }
    let words = if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) };
    let reason = summary.reason.as_deref().map(|reason| format!(" ({})", escape::text(reason)));
    status(format_args!(
        "{}{}{words} {} {}, {} started",
        run_finish_word(summary.finish),
        reason.unwrap_or_default(),
        if goal == RunGoal::Tasks { "in" } else { "after" },
        format_duration(summary.duration),
        noun_count(summary.started, "agent")
    ));
    let usage = &summary.usage;
    if usage.input_tokens + usage.output_tokens > 0 {
        let cost = match usage.cost_micros {
            0 => String::new(),
            micros => format!(", {}", money_amount(micros)),
        };
        status(format_args!(
            "Tokens: {} in, {} out{cost}",
            usage.input_tokens, usage.output_tokens
        ));
    }
    used(&summary.used);
    if !summary.limits.is_empty() {
        let limits: Vec<_> = summary.limits.iter().map(wording::limit_figures).collect();
        status(format_args!("Limits: {}", limits.join(", ")));
    }
    let total = summary.checkpoints.total;
    let mut kept = vec![noun_count(total, "checkpoint")];
    kept.extend(
        (summary.peak_rss_bytes > 0)
            .then(|| format!("peak memory {}", ByteSize(summary.peak_rss_bytes))),
    );
    status(kept.join(", "));
    if let Some(difference) = &summary.difference {
        let count = difference.created + difference.changed + difference.deleted;
        if count == 0 {
            status("No file changed");
            return;
        }
        status(format_args!(
            "Files changed during this run: {} created, {} changed, {} deleted",
            difference.created, difference.changed, difference.deleted
        ));
        for file in difference.files.iter().take(LISTED) {
            status(format_args!("  {}", escape::text(file)));
        }
        let more = count.saturating_sub(difference.files.len().min(LISTED) as u64);
        if more > 0 {
            status(format_args!("  and {more} more"));
        }
    }
}

/// Prints what was used, by task, if that says more than the totals.
fn used(tasks: &[TaskUse]) {
    if tasks.len() < 2 {
        return;
    }
    for used in tasks.iter().take(LISTED) {
        let usage = &used.usage;
        let mut words = vec![format_duration(used.duration)];
        words.extend((used.attempts > 1).then(|| format!("{} attempts", used.attempts)));
        let tokens = usage.input_tokens + usage.output_tokens;
        words.extend(
            (tokens > 0)
                .then(|| format!("{} tokens in, {} out", usage.input_tokens, usage.output_tokens)),
        );
        words.extend((usage.cost_micros > 0).then(|| money_amount(usage.cost_micros)));
        words.extend(
            (used.peak_rss_bytes > 0)
                .then(|| format!("peak memory {}", ByteSize(used.peak_rss_bytes))),
        );
        let task = used.task.as_ref().map_or("the conversation", TaskId::as_str);
        let (task, agent) = (escape::text(task), escape::text(&used.agent));
        status(format_args!("  {task}  {agent}: {}", words.join(", ")));
    }
    if tasks.len() > LISTED {
        status(format_args!("  and {}", noun_count(tasks.len() - LISTED, "more task")));
    }
}

const fn run_finish_word(finish: RunFinish) -> &'static str {
    match finish {
        RunFinish::Failed | RunFinish::Broken => "Failed",
        RunFinish::Done | RunFinish::Ended | RunFinish::ScopeDone | RunFinish::EnoughTasks => {
            "Ended"
        }
        RunFinish::Stuck | RunFinish::Stopped | RunFinish::TimeUp | RunFinish::LimitReached => {
            "Stopped"
        }
    }
}

/// The exit code for the outcome.
pub(super) const fn exit_by_run_finish(finish: RunFinish) -> Result<(), CommandError> {
    match finish {
        RunFinish::Done | RunFinish::Ended | RunFinish::ScopeDone | RunFinish::EnoughTasks => {
            Ok(())
        }
        RunFinish::Failed | RunFinish::Stuck | RunFinish::Broken => Err(CommandError::Reported),
        RunFinish::Stopped | RunFinish::TimeUp | RunFinish::LimitReached => {
            Err(CommandError::Interrupted)
        }
    }
}
