//! abide through its library, as a store is by default.

use std::path::Path;

use abide::{
    Durability, Event, EventRange, Message, MessageForm, NewEvent, NewSession, Session, SessionRef,
    SessionView,
    event::{AnomalyPolicy, Fact},
    maintenance::Upkeep,
    message::MessageContent,
    secrets::Redaction,
};

use crate::Outcome;
use crate::dialogue;
use crate::fixture::Place;
use crate::peers::clock::{Appended, Clock};
use crate::peers::work::{Loaded, Peer, Turns};

/// What becomes of the segments that are full, of what is appended, and of secrets in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    /// The writer seals them in its idle time, if it has any.
    AsItIs,
    /// As it is, but secrets are recorded as they are: no text is scanned.
    SecretsKept,
    /// They are sealed after the last append.
    Sealed,
    /// As it is, but what is appended in a turn is not synced.
    Buffered,
}

const KEY: &str = "session";
/// `session.created`, `writer.opened` and `writer.closed` are events too.
const OTHERS: usize = 3;

fn view(dir: &Path) -> Outcome<SessionView> {
    let store = Place::of(dir, Upkeep::Beside)?.store;
    Ok(store.view(&SessionRef::Key(KEY.to_owned()))?)
}

/// The text of an event, if it is a message.
fn text(event: &Event) -> Outcome<Option<String>> {
    match event.fact()? {
        Fact::Message(Message { content: MessageContent::Text(text), .. }) => Ok(Some(text)),
        _ => Ok(None),
    }
}

impl Peer for Library {
    fn version(&self) -> Option<String> {
        Some(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn append(&self, dir: &Path, texts: &[String]) -> Outcome<Appended> {
        let place = Place::of(dir, Upkeep::Beside)?;
        let store = match self {
            Self::SecretsKept => place.store.clone().with_redaction(Redaction::off()),
            _ => place.store.clone(),
        };
        let session = store.create_or_get(KEY, NewSession::default())?;
        let id = session.id();
        let clock = Clock::start();
        for text in texts {
            session.append(Message::assistant(text.as_str()))?.wait()?;
        }
        let appended = clock.stop();
        session.close()?;
        if *self == Self::Sealed {
            place.seal(id)?;
        }
        Ok(appended)
    }

    fn load(&self, dir: &Path) -> Outcome<Vec<String>> {
        let mut texts = Vec::new();
        for event in view(dir)?.events(EventRange::ALL) {
            texts.extend(text(&event?)?);
        }
        Ok(texts)
    }

    fn last(&self, dir: &Path, count: usize) -> Outcome<Vec<String>> {
        let mut texts = Vec::new();
        for event in view(dir)?.last(count + OTHERS)? {
            texts.extend(text(&event)?);
        }
        Ok(texts.split_off(texts.len().saturating_sub(count)))
    }

    /// A context begins with the summary of what came before it.
    fn build(&self, dir: &Path, texts: &[String], context: usize) -> Outcome {
        let place = Place::of(dir, Upkeep::Beside)?;
        let session = place.store.create_or_get(KEY, NewSession::default())?;
        // What is kept by the compaction, and the summary, are of the context too.
        let after = texts.len().min(context - dialogue::KEEP - 1);
        let (before, after) = texts.split_at(texts.len() - after);
        for batch in before.chunks(BATCH) {
            say(&session, batch)?;
            if texts.len() > context {
                dialogue::compact(&session)?;
            }
        }
        say(&session, after)?;
        let id = session.id();
        session.close()?;
        place.seal(id)?;
        Ok(())
    }

    fn turns(&self, dir: &Path, _: usize) -> Outcome<Box<dyn Turns>> {
        let durability =
            if *self == Self::Buffered { Durability::Buffered } else { Durability::Synced };
        let store = Place::of(dir, Upkeep::Beside)?.store;
        let session = store.open_session(&SessionRef::Key(KEY.to_owned()))?;
        // So many messages of the context are from turns that were taken before.
        if session.context()?.len() > LONGEST {
            dialogue::compact_to(&session, SHORTEST)?;
        }
        Ok(Box::new(Open { session, durability }))
    }
}

/// How many messages are taken in at once where it is not this that is measured.
const BATCH: usize = 1000;
/// A context longer than this is compacted before the next turns, and is then as long as this.
const LONGEST: usize = 105;
const SHORTEST: usize = 90;

fn say(session: &Session, texts: &[String]) -> Outcome {
    let events: Result<Vec<NewEvent>, _> =
        texts.iter().map(|text| Message::assistant(text.as_str()).try_into()).collect();
    session.append_all(events?)?.wait()?;
    Ok(())
}

/// A session that takes turns.
struct Open {
    session: Session,
    durability: Durability,
}

impl Turns for Open {
    fn append(&mut self, text: &str) -> Outcome {
        let event: NewEvent = Message::assistant(text).try_into()?;
        self.session.append_with(vec![event], self.durability, AnomalyPolicy::Keep)?.wait()?;
        Ok(())
    }

    fn context(&mut self) -> Outcome<Loaded> {
        Ok(Loaded::Request(self.session.context()?.render(MessageForm::OpenAi).to_json()))
    }
}
