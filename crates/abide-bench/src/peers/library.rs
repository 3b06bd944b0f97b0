//! abide through its library, as a store is by default.

use std::path::Path;
use std::time::Instant;

use abide::{
    Content, Event, EventRange, Fact, Message, NewSession, SessionRef, SessionView, Upkeep,
};

use crate::Outcome;
use crate::calibration::millis;
use crate::fixture::Place;
use crate::peers::work::Peer;

/// What becomes of the segments that are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    /// The writer seals them in its idle time, if it has any.
    AsItIs,
    /// They are sealed after the last append.
    Sealed,
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
        Fact::Message(Message { content: Content::Text(text), .. }) => Ok(Some(text)),
        _ => Ok(None),
    }
}

impl Peer for Library {
    fn version(&self) -> Option<String> {
        Some(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn append(&self, dir: &Path, texts: &[String]) -> Outcome<f64> {
        let place = Place::of(dir, Upkeep::Beside)?;
        let session = place.store.create_or_get(KEY, NewSession::default())?;
        let id = session.id();
        let start = Instant::now();
        for text in texts {
            session.append(Message::assistant(text.as_str()))?.wait()?;
        }
        let elapsed = start.elapsed();
        session.close()?;
        if *self == Self::Sealed {
            place.seal(id)?;
        }
        Ok(millis(elapsed))
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
}
