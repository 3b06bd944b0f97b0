//! Concludes a task: records its outcome and decides what to do next.

use std::sync::atomic::Ordering;
use std::time::Duration;

use abide::{TaskStatus, Timestamp, checkpoint::Trigger, tasks::TaskId};
use abide_agents::ReachedLimit;

use super::{AGAIN, LEFT_BEHIND, Supervisor, program_name};
use crate::RunError;
use crate::account::last_reason;
use crate::attempt::{DONE, FAILED};
use crate::job::Job;
use crate::job_ending::{AgentWord, JobEnding, result};
use crate::leftover_work::{InterruptedTask, end_calls};
use crate::marked_processes::end_marked;
use crate::run_event::RunEvent;
use crate::run_options::{RetryDecision, RunGoal};
use crate::run_summary::TaskUse;
use crate::stop::StopUrgency;

/// How often in a row the death of its agent may interrupt a task before that counts as a failure:
/// something kills it each time.
const KILLS: u32 = 20;
/// How often in a row a task may hit a limit before that counts as a failure.
const WAITS: u32 = 24;
/// The first wait for a limit without an end time; each further wait is twice as long.
const WAIT: Duration = Duration::from_secs(30);
/// The longest such wait.
const LONGEST: Duration = Duration::from_secs(15 * 60);

impl Supervisor<'_> {
    pub(super) fn conclude_job(&mut self, mut job: Job) -> Result<(), RunError> {
        let events = job.finish(self.session.store().now(), self.tell);
        self.count(&mut job);
        // Before its check is started.
        self.heed_limits();
        self.append(events)?;
        let now = self.session.store().now();
        let Some(task) = job.task.clone() else {
            let ending = JobEnding::of(&job, self.options.adapter, now);
            let ending = self.concluded_ending(None, ending);
            return self.conclude_conversation(&job, ending, now);
        };
        if let Some(own) = job.agent_session.take() {
            self.agent_sessions.insert(task.clone(), own);
        }
        // The agent, or what it started, may have changed the task meanwhile.
        if self.stale.swap(false, Ordering::Relaxed) {
            self.tasks.refresh()?;
        }
        let word = self.concluding_word(&task)?;
        if job.checking.is_some() {
            return self.end_check(&mut job, &task, word, now);
        }
        let exited = JobEnding::of(&job, self.options.adapter, now);
        let ending = word.as_ref().map_or(exited.clone(), AgentWord::ending);
        if let (Some(word), JobEnding::Failed(how) | JobEnding::Interrupted(how)) = (&word, &exited)
            && ending != exited
        {
            let set = word.status.as_str();
            self.warn(format!("task {task} stays as it is: its agent set it to {set}; {how}"));
        }
        let ending = self.concluded_ending(Some(&task), ending);
        if ending == JobEnding::Done && job.check.is_some() {
            return self.begin_check(job, &task, now);
        }
        self.conclude(&job, &task, ending, word, now)
    }

    /// Adds what a job has used to the account of its task, or of the conversation.
    pub(super) fn count(&mut self, job: &mut Job) {
        self.peak_rss = self.peak_rss.max(job.peak_rss);
        let usage = std::mem::take(&mut job.usage);
        self.ended_usage.add(&usage);
        let duration = job.since_counted();
        let at = self.used.iter().rposition(|used| used.task == job.task);
        let at = at.unwrap_or_else(|| {
            let agent = self.options.command.first().map(|program| program_name(program));
            let agent = agent.unwrap_or_default();
            self.used.push(TaskUse { task: job.task.clone(), agent, ..TaskUse::default() });
            self.used.len() - 1
        });
        if let Some(used) = self.used.get_mut(at) {
            used.usage.add(&usage);
            used.duration += duration;
            used.attempts += u64::from(job.checking.is_none());
            used.peak_rss_bytes = used.peak_rss_bytes.max(job.peak_rss);
        }
    }

    /// What the agent has set its task to; `None` if it left that to the run.
    fn concluding_word(&self, task: &TaskId) -> Result<Option<AgentWord>, RunError> {
        let status = self.tasks.tree().get(task.as_str()).map(|node| node.status);
        let Some(status) = status.filter(|status| !status.is_active()) else { return Ok(None) };
        let reason = last_reason(&self.session, task, status)?;
        Ok(Some(AgentWord { status, reason }))
    }

    /// Turns an ending that came too often in a row into a failure. `None` is the conversation.
    pub(super) fn concluded_ending(
        &mut self,
        task: Option<&TaskId>,
        ending: JobEnding,
    ) -> JobEnding {
        let (counts, most) = match &ending {
            // A lone command that keeps no session of its own would begin anew: whoever killed it did
            // not mean that.
            JobEnding::Interrupted(reason) if self.is_lone(task) => {
                return match self.stopping() < StopUrgency::Now {
                    true => JobEnding::Failed(reason.clone()),
                    false => ending,
                };
            }
            JobEnding::Interrupted(_) if self.stopping() < StopUrgency::Now => {
                (&mut self.kills, KILLS)
            }
            JobEnding::Limited(_) => (&mut self.waits, WAITS),
            _ => return ending,
        };
        let count = counts.entry(task.cloned()).or_default();
        *count += 1;
        match ending {
            JobEnding::Interrupted(reason) if *count > most => {
                JobEnding::Failed(format!("{reason}, {count} times in a row"))
            }
            JobEnding::Limited(limited) if *count > most => {
                JobEnding::Failed(format!("{}, {count} times in a row", limited.text))
            }
            ending => ending,
        }
    }

    /// Is it the one command of a run, without a session of its own to go on with?
    fn is_lone(&self, task: Option<&TaskId>) -> bool {
        let Some(task) = task.filter(|_| self.options.goal == RunGoal::Command) else {
            return false;
        };
        let tree = self.tasks.tree();
        let known = tree.get(task.as_str()).is_some_and(|node| node.agent_session.is_some());
        !known && !self.agent_sessions.contains_key(task)
    }

    /// What to do with a task whose agent ended in the middle of calls. Decided now, unless the run
    /// is ending: then the next run decides.
    fn concluding_decision(
        &mut self,
        job: &Job,
        task: &TaskId,
    ) -> Result<Option<RetryDecision>, RunError> {
        if job.calls.is_empty() || self.stopping() >= StopUrgency::Now {
            return Ok(None);
        }
        let left = InterruptedTask {
            task: task.clone(),
            title: job.title.clone(),
            unknown: job.calls.values().cloned().collect(),
            agent_session: self.agent_sessions.get(task).cloned(),
        };
        let decision = (self.decide)(&left);
        let decision = decision.ok_or_else(|| RunError::Undecided(task.clone()))?;
        self.tell(&RunEvent::Interrupted { left: Box::new(left), decision });
        Ok(Some(decision))
    }

    /// Records how a task ended, and what to do next.
    pub(super) fn conclude(
        &mut self,
        job: &Job,
        task: &TaskId,
        ending: JobEnding,
        word: Option<AgentWord>,
        now: Timestamp,
    ) -> Result<(), RunError> {
        let over =
            matches!(ending, JobEnding::Done | JobEnding::Failed(_) | JobEnding::SetAside(_));
        let decision = if over { Ok(None) } else { self.concluding_decision(job, task) };
        let skipped = matches!(decision, Ok(Some(RetryDecision::Skip)));
        let (status, turn, reason) = match &ending {
            JobEnding::Done => (TaskStatus::Complete, DONE, None),
            JobEnding::Failed(reason) => (TaskStatus::Failed, FAILED, Some(reason.clone())),
            JobEnding::Interrupted(reason) | JobEnding::NotResumed(reason) => {
                (TaskStatus::Planned, "interrupted", Some(reason.clone()))
            }
            JobEnding::Limited(limited) => {
                (TaskStatus::Planned, "limited", Some(limited.text.clone()))
            }
            JobEnding::SetAside(reason) => (TaskStatus::Blocked, "blocked", reason.clone()),
        };
        // A turn with a check is over when the agent has said that it is done.
        if job.checking.is_some() && !job.turn_ended {
            self.close_turn(&|event| job.placed(event, None), job.turn, DONE)?;
        }
        let status = if skipped { TaskStatus::Blocked } else { status };
        let set = match word.filter(|word| word.ending() == ending && !skipped) {
            // It is as the agent set it.
            Some(_) => Ok(()),
            None => {
                let own = self.tasks.tree().get(task.as_str()).and_then(|node| node.result);
                let kept = own != job.result_before;
                let done = status == TaskStatus::Complete && !kept;
                self.set(task, status, reason.clone(), done.then(|| result(job)).flatten())
            }
        };
        let node = self.tasks.tree().get(task.as_str());
        let status = node.map_or(status, |node| node.status);
        let failures = node.map_or(0, |node| node.failures);
        let failures = failures.saturating_sub(self.before.get(task).copied().unwrap_or(0));
        let retries = self.retries_with_check(job.check.as_deref());
        let again = matches!(ending, JobEnding::Failed(_)) && failures <= retries;
        if set.is_ok() && again {
            // In the same write, so that a run that dies here has not used up the attempt.
            self.set(task, TaskStatus::Planned, Some(AGAIN.to_owned()), None)?;
        }
        if over || matches!(decision, Ok(Some(_))) {
            let calls: Vec<_> = job.calls.values().cloned().collect();
            for event in end_calls(&calls, Some(task))? {
                self.tasks.also(event);
            }
        }
        if job.checking.is_none() {
            self.close_turn(&|event| job.placed(event, None), job.turn, turn)?;
        }
        self.flush()?;
        let processes = end_marked(&Job::mark(self.session.id(), job.turn), LEFT_BEHIND);
        if processes > 0 {
            self.tell(&RunEvent::LeftBehind { task: Some(task.clone()), processes });
        }
        if !matches!(ending, JobEnding::Interrupted(_)) {
            self.kills.remove(&job.task);
        }
        if !matches!(ending, JobEnding::Limited(_)) {
            self.waits.remove(&job.task);
        }
        let told = match &set {
            Ok(()) => status,
            // Another process, perhaps the agent itself, has set its status.
            Err(error) => {
                self.warn(format!("task {task} stays as it is: {error}"));
                self.tasks.tree().get(task.as_str()).map_or(status, |node| node.status)
            }
        };
        self.tell(&RunEvent::TaskEnded {
            task: task.clone(),
            title: job.title.clone(),
            status: told,
            reason,
            took: job.started.elapsed(),
        });
        match ending {
            JobEnding::Done | JobEnding::SetAside(_) => self.checkpoint(Trigger::Turn),
            JobEnding::Failed(_) => {
                self.checkpoint(Trigger::Error);
                self.failed |=
                    told == TaskStatus::Failed && !again && !self.options.continue_on_error;
            }
            JobEnding::NotResumed(_) => {
                self.not_inside.insert(job.task.clone());
            }
            JobEnding::Interrupted(_) => {}
            JobEnding::Limited(limited) => self.wait_for(Some(task), &limited, now),
        }
        decision.map(|_| ())
    }

    /// Starts no agent before a limit is over.
    pub(super) fn wait_for(
        &mut self,
        task: Option<&TaskId>,
        limited: &ReachedLimit,
        now: Timestamp,
    ) {
        let times = self.waits.get(&task.cloned()).copied().unwrap_or(1).saturating_sub(1).min(10);
        let unknown = WAIT.saturating_mul(1 << times).min(LONGEST);
        let length = match limited.resets {
            Some(resets) => {
                let millis = resets.as_millis().saturating_sub(now.as_millis()).max(1000);
                Duration::from_millis(u64::try_from(millis).unwrap_or(1000))
            }
            None => unknown,
        };
        let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        let until = Timestamp::from_millis(now.as_millis().saturating_add(millis));
        self.tell(&RunEvent::Waiting { task: task.cloned(), until, why: limited.text.clone() });
        self.hold = self.hold.max(Some(until));
    }
}
