//! The events of a run in words.

use std::time::Duration;

use abide::{TaskStatus, Timestamp, context::undo_of_compaction, maintenance::ByteSize};
use abide_runner::{LimitLevel, LimitUse, LimitedResource, RetryDecision, RunEvent, StopUrgency};
use abide_transcript::{escape, format_duration};

use super::amount::money_amount;

use crate::noun_count::noun_count;

/// The line of an event that all views share; `None` if there is nothing to say.
pub(super) fn run_event_wording(event: &RunEvent) -> Option<String> {
    Some(match event {
        RunEvent::Started { session, interval } => {
            let short = session.short(abide::SessionId::SHORT);
            match interval {
                Some(interval) => format!(
                    "Session {short}; a checkpoint at every task's end, and every {}",
                    format_duration(*interval)
                ),
                None => format!("Session {short}; no checkpoints"),
            }
        }
        RunEvent::LeftBehind { task: None, processes } => {
            format!("ended {} left over from an earlier run", noun_count(*processes, "process"))
        }
        RunEvent::LeftBehind { task: Some(task), processes } => {
            let processes = noun_count(*processes, "process");
            format!("{task}: ended {processes} that the agent left behind")
        }
        RunEvent::Interrupted { left, decision } => {
            let title = escape::text(&left.title).into_owned();
            let mut line = format!("{} was interrupted ({title})", left.task);
            if !left.unknown.is_empty() {
                let names: Vec<_> =
                    left.unknown.iter().map(|call| escape::text(&call.name).into_owned()).collect();
                line.push_str(&format!(
                    "; the outcome of these calls is unknown: {}",
                    names.join(", ")
                ));
            }
            line.push_str(match decision {
                RetryDecision::Retry => "; it is run again",
                RetryDecision::Skip => "; it is skipped",
            });
            line
        }
        RunEvent::CheckStarted { task, command, .. } => {
            format!("{task}: checking with {}", escape::text(command))
        }
        RunEvent::CheckEnded { task, ok, exit, took, .. } => {
            let how = match (ok, exit) {
                (true, _) => "passed".to_owned(),
                (false, Some(exit)) => format!("ended with exit code {exit}"),
                (false, None) => "was ended by a signal".to_owned(),
            };
            format!("{task}: the check {how} after {}", format_duration(*took))
        }
        RunEvent::Waiting { task, until, why } => {
            let task = task.as_ref().map(|task| format!("{task}: ")).unwrap_or_default();
            format!(
                "{task}{}; waiting until {}",
                escape::text(why),
                crate::clock::local_clock(*until)
            )
        }
        RunEvent::AgentStarted { way: Some(way), .. } => {
            format!("The agent continues {}", way.told())
        }
        RunEvent::AgentStarted { way: None, .. } => {
            "The agent starts: there is nothing to tell it".to_owned()
        }
        RunEvent::AgentEnded { turn, reason, took } => {
            let reason = reason.as_deref().map(|reason| format!(": {}", escape::text(reason)));
            let took = format_duration(*took);
            format!("The agent ended after {took}, {turn}{}", reason.unwrap_or_default())
        }
        RunEvent::Checkpoint(made) => {
            format!("Checkpoint {} ({})", made.number, escape::text(&made.checkpoint.trigger))
        }
        RunEvent::Compacted { lane, result } => {
            let undo = undo_of_compaction(lane.as_ref());
            let lane = lane.as_ref().map(|lane| format!("{}: ", escape::text(lane.as_str())));
            let lane = lane.unwrap_or_default();
            format!("{lane}{result}; `{}` undoes it", escape::text(&undo))
        }
        RunEvent::Stopping(StopUrgency::AfterStep) => {
            "Stopping after the work in progress; another Ctrl-C or SIGTERM stops it now".to_owned()
        }
        RunEvent::Stopping(StopUrgency::Now) => {
            "Stopping now; another Ctrl-C or SIGTERM kills the agent".to_owned()
        }
        RunEvent::Stopping(StopUrgency::Kill) => "Killing the agent".to_owned(),
        _ => return None,
    })
}

/// How near a run is to a limit.
pub(super) fn limit_wording(limit: &LimitUse) -> String {
    let how = match limit.level {
        LimitLevel::Below => "is below",
        LimitLevel::Near => "is near",
        LimitLevel::Reached => "has reached",
    };
    let which = match limit.resource {
        LimitedResource::Duration => "time",
        LimitedResource::Cost => "cost",
        LimitedResource::Tokens => "token",
        LimitedResource::Memory => "memory",
    };
    format!("the run {how} the {which} limit: {}", limit_figures(limit))
}

/// What is used of a limit: `850 of 1000 tokens`.
pub(super) fn limit_figures(limit: &LimitUse) -> String {
    let (used, most) = (limit.used, limit.limit);
    let time = |millis| format_duration(Duration::from_millis(millis));
    match limit.resource {
        LimitedResource::Duration => format!("{} of {}", time(used), time(most)),
        LimitedResource::Cost => format!("{} of {}", money_amount(used), money_amount(most)),
        LimitedResource::Tokens => format!("{used} of {most} tokens"),
        LimitedResource::Memory => format!("{} of {} of memory", ByteSize(used), ByteSize(most)),
    }
}

/// A task's status in one word.
pub(super) const fn task_status_wording(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Planned => "interrupted",
        status => status.as_str(),
    }
}

/// The time remaining, for display.
pub(super) fn time_left_wording(until: Timestamp, now: Timestamp) -> String {
    let millis = until.as_millis().saturating_sub(now.as_millis()).max(0);
    format_duration(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_with_figures() {
        let told = |resource, level, used, most| {
            limit_wording(&LimitUse { resource, used, limit: most, level })
        };
        let near = LimitLevel::Near;
        assert_eq!(
            told(LimitedResource::Duration, near, 4_800_000, 5_400_000),
            "the run is near the time limit: 1h 20m of 1h 30m"
        );
        assert_eq!(
            told(LimitedResource::Cost, LimitLevel::Reached, 2_510_000, 2_500_000),
            "the run has reached the cost limit: $2.51 of $2.50"
        );
        assert_eq!(
            told(LimitedResource::Cost, near, 4_100, 5_000),
            "the run is near the cost limit: $0.0041 of $0.0050"
        );
        assert_eq!(
            told(LimitedResource::Memory, near, 1_700_000_000, 2_000_000_000),
            "the run is near the memory limit: 1.7 GB of 2.0 GB of memory"
        );
    }
}
