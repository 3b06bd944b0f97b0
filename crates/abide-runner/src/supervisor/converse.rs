//! Goes on with the conversation of a session that has no task list. What the agent does is
//! recorded; no task is, and whatever becomes of the agent says nothing about the session.

use abide::{Message, NewEvent, Timestamp, TurnStart, checkpoint::Trigger};
use abide_agents::PriorSession;

use super::Supervisor;
use crate::attempt::{DONE, FAILED};
use crate::child::{AgentChild, ChildInput};
use crate::conversation::{ConversationBrief, OwnConversation};
use crate::job::{Job, JobStart};
use crate::job_ending::JobEnding;
use crate::leftover_work::end_calls;
use crate::marked_processes::end_marked;
use crate::run_event::RunEvent;
use crate::run_options::{ResumeMode, RunGoal};
use crate::stop::StopUrgency;
use crate::supervisor::LEFT_BEHIND;
use crate::supervisor::begin::program_name;
use crate::{RunError, prompt};

/// How the agent of a conversation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConversationEnd {
    /// It ended by itself.
    Done,
    /// It failed.
    Failed(String),
    /// It was interrupted.
    Interrupted(String),
}

impl Supervisor<'_> {
    /// Reads what the agent is to be told. Before [`settle`](Self::settle), which ends the calls
    /// whose outcome is unknown.
    pub(crate) fn prepare(&mut self) -> Result<(), RunError> {
        match self.options.goal {
            RunGoal::Conversation => {
                self.read_input()?;
                self.brief = Some(self.conversation_brief()?);
            }
            RunGoal::Tasks if self.options.primed => self.primer = self.session.primer()?,
            RunGoal::Tasks => {
                let decision = self.session.last_decision()?;
                self.primer = decision.map(|decision| format!("The last decision: {decision}\n"));
            }
            RunGoal::Command => self.read_input()?,
        }
        Ok(())
    }

    fn conversation_brief(&self) -> Result<ConversationBrief, RunError> {
        let inside = matches!(self.options.way, ResumeMode::Auto | ResumeMode::Inside)
            && !self.not_inside.contains(&None);
        let own = if inside {
            OwnConversation::find(&self.session, &self.options.command)?
        } else {
            None
        };
        ConversationBrief::of(&self.session, self.options, own.as_ref(), self.input.text())
    }

    /// Starts the agent, if it is to be started.
    pub(super) fn begin_conversation(&mut self) -> Result<(), RunError> {
        let free = self.jobs.is_empty() && self.hold.is_none() && self.conversation.is_none();
        if !free || !self.may_begin() {
            return Ok(());
        }
        let brief = match self.brief.take() {
            Some(brief) => brief,
            None => self.conversation_brief()?,
        };
        let core = self.session.core()?;
        let turn = core.turns.last.next();
        let agent = brief.command.first().map(|program| program_name(program)).unwrap_or_default();
        let placed = |event: NewEvent| NewEvent { turn: Some(turn), ..event };
        let start = TurnStart { turn: Some(turn), agent, ..TurnStart::default() };
        let mut events = vec![placed(start.try_into()?)];
        // Once: an agent that is started again is told the same.
        if let Some(own) = brief.own.as_ref().filter(|_| self.started == 0) {
            events.push(placed(Message::user(own.clone()).try_into()?));
        }
        self.append(events)?;
        let text = brief.text.clone().unwrap_or_default();
        let command = if prompt::is_held(&self.options.command) {
            let name = self.session.view().name()?.unwrap_or_default();
            prompt::fill(&brief.command, &self.session.id().to_string(), &name, &text)
        } else {
            brief.command
        };
        let stdin = match brief.text.clone() {
            Some(text) if !brief.held => ChildInput::Text(text),
            _ => self.free_input(),
        };
        let begin = JobStart {
            number: self.next_job,
            task: None,
            title: String::new(),
            lane: None,
            slot: 1,
            turn,
            way: brief.way,
            attempt: 1,
            result_before: None,
            check: None,
        };
        self.next_job += 1;
        let program = command.first().cloned().unwrap_or_default();
        let plan = self.child_plan(&begin, command, stdin);
        let child = match AgentChild::start(plan, begin.number, &self.sender) {
            Ok(child) => child,
            Err(source) => {
                self.close_turn(&placed, turn, FAILED)?;
                self.flush()?;
                return Err(RunError::Start { program, source });
            }
        };
        self.started += 1;
        self.tell(&RunEvent::AgentStarted { way: brief.way, process: child.id });
        let before = PriorSession {
            calls: format!("{turn}."),
            prompt: brief.prompt,
            ..PriorSession::default()
        };
        let redactor = self.session.redactor();
        self.jobs.push(Job::new(begin, self.options.adapter, before, child, redactor));
        Ok(())
    }

    /// Records how the agent ended, and starts it again where that may help.
    pub(super) fn conclude_conversation(
        &mut self,
        job: &Job,
        ending: JobEnding,
        now: Timestamp,
    ) -> Result<(), RunError> {
        let (turn, reason) = match &ending {
            // Only a task can be set aside.
            JobEnding::Done | JobEnding::SetAside(_) => (DONE, None),
            JobEnding::Failed(reason) => (FAILED, Some(reason.clone())),
            JobEnding::Interrupted(reason) | JobEnding::NotResumed(reason) => {
                ("interrupted", Some(reason.clone()))
            }
            JobEnding::Limited(limited) => ("limited", Some(limited.text.clone())),
        };
        let calls: Vec<_> = job.calls.values().cloned().collect();
        for event in end_calls(&calls, None)? {
            self.tasks.also(event);
        }
        self.close_turn(&|event| job.placed(event, None), job.turn, turn)?;
        self.flush()?;
        let processes = end_marked(&Job::mark(self.session.id(), job.turn), LEFT_BEHIND);
        if processes > 0 {
            self.tell(&RunEvent::LeftBehind { task: None, processes });
        }
        let took = job.started.elapsed();
        self.tell(&RunEvent::AgentEnded { turn, reason, took });
        match ending {
            JobEnding::Done | JobEnding::SetAside(_) => {
                self.checkpoint(Trigger::Turn);
                self.conversation = Some(ConversationEnd::Done);
            }
            JobEnding::Failed(reason) => {
                self.checkpoint(Trigger::Error);
                self.conversation = Some(ConversationEnd::Failed(reason));
            }
            JobEnding::Interrupted(reason) => {
                self.conversation = Some(ConversationEnd::Interrupted(reason));
            }
            // It is started again.
            JobEnding::NotResumed(_) => {
                self.not_inside.insert(None);
            }
            JobEnding::Limited(limited) if self.stopping() == StopUrgency::None => {
                self.wait_for(None, &limited, now);
            }
            JobEnding::Limited(limited) => {
                self.conversation = Some(ConversationEnd::Interrupted(limited.text));
            }
        }
        Ok(())
    }
}
