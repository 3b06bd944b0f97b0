//! What an agent is told that goes on with a session's conversation, and by which command.

use std::collections::HashMap;

use abide::{
    EventRange, Kind, Seq, Session,
    event::{Fact, TurnNumber},
};
use abide_agents::AgentKind;

use crate::run_options::{ResumeMode, RunOptions};
use crate::{RunError, prompt};

/// The most events searched for a session of the agent's own.
const LOOK: usize = 20_000;

/// How an agent goes on with a conversation.
#[derive(Debug)]
pub(crate) struct ConversationBrief {
    /// Its command, before placeholders are filled.
    pub(crate) command: Vec<String>,
    /// How it goes on; `None` if there is nothing to tell.
    pub(crate) way: Option<ResumeMode>,
    /// Its prompt; `None` if there is nothing to tell.
    pub(crate) text: Option<String>,
    /// The prompt is an argument of the command, or a placeholder in one.
    pub(crate) held: bool,
    /// What the user says, as the command or stdin had it.
    pub(crate) own: Option<String>,
    /// All that the agent is told, as it may print it again.
    pub(crate) prompt: Option<String>,
}

/// The agent's own session, as far as it knows this one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OwnConversation {
    pub(crate) id: String,
    /// The first event that the agent does not know; `None` if it knows all of them.
    unknown: Option<Seq>,
}

impl ConversationBrief {
    /// The best way that is allowed. `inside` is the agent's own session, if it may be resumed;
    /// `input` is what was read on stdin for it.
    pub(crate) fn of(
        session: &Session,
        options: &RunOptions,
        inside: Option<&OwnConversation>,
        input: Option<&str>,
    ) -> Result<Self, RunError> {
        let agent = AgentKind::started_by(&options.command);
        let resumed = inside.and_then(|own| agent?.resume(&options.command, &own.id));
        let (told, way) = match (inside, options.way) {
            (Some(own), _) if resumed.is_some() => {
                let since = own.unknown.map(|first| session.primer_since(first)).transpose()?;
                let told = match since.flatten() {
                    Some(told) => told,
                    None => session.open_work()?,
                };
                (Some(told), Some(ResumeMode::Inside))
            }
            (_, ResumeMode::Restart) => (None, None),
            _ => {
                let told = session.primer()?;
                let way = told.is_some().then_some(ResumeMode::Outside);
                (told, way)
            }
        };
        let command = resumed.unwrap_or_else(|| options.command.clone());
        if prompt::is_held(&command) {
            let text = told.map(|told| prompt::conversation(&told, None));
            let prompt = text.clone();
            return Ok(Self { command, way, text, held: true, own: None, prompt });
        }
        let slot = agent.and_then(|agent| agent.prompt_slot(&command));
        let argument = slot.as_ref().and_then(|slot| slot.own()).map(str::to_owned);
        // With a text on stdin the prompt is there, unless the command has one of its own.
        let slot = slot.filter(|_| argument.is_some() || input.is_none());
        let Some(slot) = slot else {
            let own = input.map(str::to_owned);
            let text = told.map(|told| prompt::conversation(&told, own.as_deref()));
            let prompt = text.clone().or_else(|| own.clone());
            return Ok(Self { command, way, text, held: false, own, prompt });
        };
        let text = told.map(|told| prompt::conversation(&told, argument.as_deref()));
        let with_input = |command: &[String], argument: Option<String>| {
            let read = agent.and_then(|agent| agent.prompt_input(command)).zip(input);
            read.map(|(read, input)| read.prompt(input)).or(argument)
        };
        let own = with_input(&command, argument);
        let command = match &text {
            Some(filled) => slot.fill(filled.clone()),
            None => command,
        };
        let prompt = match &text {
            Some(filled) => with_input(&command, Some(filled.clone())),
            None => own.clone(),
        };
        Ok(Self { command, way, text, held: true, own, prompt })
    }
}

impl OwnConversation {
    /// The session in which the agent of this command last worked on the conversation.
    pub(crate) fn find(session: &Session, command: &[String]) -> Result<Option<Self>, RunError> {
        let Some(agent) = AgentKind::started_by(command) else { return Ok(None) };
        let lineage = session.core()?.lineage;
        let mut unknown = None;
        let mut ends: HashMap<TurnNumber, Seq> = HashMap::new();
        for event in session.view().events(EventRange::ALL.backward()).take(LOOK) {
            let event = event?;
            if event.lane.is_some() || !lineage.contains(event.seq) {
                continue;
            }
            if event.kind == Kind::RUN_STARTED {
                unknown = Some(event.seq);
            } else if event.kind == Kind::TURN_FINISHED {
                ends.extend(event.turn.map(|turn| (turn, event.seq)));
            } else if event.kind == Kind::AGENT_OBSERVED
                && let Ok(Fact::AgentObserved(seen)) = event.fact()
                && let Some(id) = seen.session
            {
                if seen.agent.as_deref() == Some(agent.as_str()) {
                    // It does not know what came after its turn.
                    let end = event.turn.and_then(|turn| ends.get(&turn).copied());
                    return Ok(Some(Self { id, unknown: end.or(unknown) }));
                }
                // From here on another agent worked.
                unknown = Some(event.seq);
            }
        }
        Ok(None)
    }
}
