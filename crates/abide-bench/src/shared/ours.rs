//! What abide does on the shared store.

use std::time::Instant;

use abide::{
    EventRange, Message, NewSession, Session, SessionRef, event::Fact, message::MessageContent,
};

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::{Spent, millis, rate, together};
use crate::figure::Target;
use crate::fixture::{append_durably, fill};
use crate::shared::bare::Bare;
use crate::shared::settled_bytes;
use crate::shared::{APPENDS, EACH, LOADED, LOADS, Round, SESSIONS, Server, Shown, open_shared};

/// Ours and the bare measure take turns after so many appends.
const TURN: usize = 50;
const WARM_UP: usize = 10;

/// abide, and the databases it loads from.
pub(crate) struct Ours<'a> {
    bench: &'a Bench,
    server: &'a Server,
    shown: Shown,
    loaded: [(String, SessionRef, usize); 2],
}

impl<'a> Ours<'a> {
    pub(crate) fn prepare(bench: &'a Bench, server: &'a Server) -> Outcome<Self> {
        let (append, sessions) = (Target::RatioAtLeast(0.9), Target::RatioAtLeast(5.0));
        let mut shown = Shown::new("", append, sessions, Target::None);
        shown.append.note("raw", "a bare single-row INSERT, committed");
        shown.append.note("text", bench.text().describe());
        shown.sessions.note("raw", "a bare single-row INSERT, committed, one after the other");
        let [few, many] = LOADED.map(|count| {
            let count = bench.scale.of(count);
            let url = server.create_database();
            let session = open_shared(&url)?.create(NewSession::default())?;
            fill(&session, bench.text(), count)?;
            let id = session.id();
            session.close()?;
            Outcome::Ok((url, SessionRef::Id(id), count))
        });
        Ok(Self { bench, server, shown, loaded: [few?, many?] })
    }

    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }

    /// A round of everything.
    pub(crate) fn measure(&mut self) -> Outcome<Round> {
        let (append, one_by_one) = self.append()?;
        self.shown.append.push_with_raw(append, one_by_one);
        let (sessions, one_by_one) = self.sessions()?;
        self.shown.sessions.push_with_raw(sessions, one_by_one);
        let [few, many] = &self.loaded;
        let loads = [self.load(few)?, self.load(many)?];
        self.shown.loads.iter_mut().zip(loads).for_each(|(figure, ms)| figure.push(ms));
        let bytes = self.bytes()?;
        self.shown.bytes.push(bytes);
        Ok(Round { append, sessions, loads, bytes })
    }

    /// Appends in a second, in one session, and bare inserts in a second.
    fn append(&self) -> Outcome<(f64, f64)> {
        let text = self.bench.text();
        let turns = (self.bench.scale.of(APPENDS) / TURN).max(1);
        let session = open_shared(&self.server.create_database())?.create(NewSession::default())?;
        let bare = Bare::with_table(&self.server.create_database())?;
        for index in 0..WARM_UP {
            append_durably(&session, text, index);
            bare.insert(text.piece(index));
        }
        let (mut ours, mut raw) = (Spent::default(), Spent::default());
        for turn in 0..turns {
            let first = WARM_UP + turn * TURN;
            raw.add(|| (first..first + TURN).for_each(|index| bare.insert(text.piece(index))));
            ours.add(|| {
                (first..first + TURN).for_each(|index| append_durably(&session, text, index));
            });
        }
        session.close()?;
        Ok((ours.rate(turns * TURN), raw.rate(turns * TURN)))
    }

    /// Appends in a second in many sessions at once, and bare inserts one after the other: half
    /// of them before and half of them after.
    fn sessions(&self) -> Outcome<(f64, f64)> {
        let text = self.bench.text();
        let (each, half) = (self.bench.scale.of(EACH), self.bench.scale.of(APPENDS / 2));
        let store = open_shared(&self.server.create_database())?;
        let bare = Bare::with_table(&self.server.create_database())?;
        let mut sessions = (0..SESSIONS)
            .map(|_| Ok(store.create(NewSession::default())?))
            .collect::<Outcome<Vec<Session>>>()?;
        for (index, session) in sessions.iter().enumerate() {
            append_durably(session, text, index);
            bare.insert(text.piece(index));
        }
        let mut raw = Spent::default();
        let mut insert = || raw.add(|| (0..half).for_each(|index| bare.insert(text.piece(index))));
        insert();
        let taken = together(&mut sessions, |number, session| {
            (0..each).for_each(|index| append_durably(session, text, number * each + index));
        });
        insert();
        sessions.into_iter().try_for_each(Session::close)?;
        Ok((rate(SESSIONS * each, taken), raw.rate(2 * half)))
    }

    /// Milliseconds from connecting to the text of the last message: the best of some.
    fn load(&self, (url, session, count): &(String, SessionRef, usize)) -> Outcome<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..LOADS {
            let mut texts = Vec::new();
            let start = Instant::now();
            for event in open_shared(url)?.view(session)?.events(EventRange::ALL) {
                if let Fact::Message(Message { content: MessageContent::Text(text), .. }) =
                    event?.fact()?
                {
                    texts.push(text);
                }
            }
            best = best.min(millis(start.elapsed()));
            let expected = (0..*count).map(|index| self.bench.text().piece(index));
            if !texts.iter().eq(expected) {
                return Err("what was loaded is not what was appended".into());
            }
        }
        Ok(best)
    }

    /// Bytes that a session's messages add to a database, over those of their text.
    fn bytes(&self) -> Outcome<f64> {
        let (url, count) = (self.server.create_database(), self.bench.scale.of(APPENDS));
        let store = open_shared(&url)?;
        let bare = Bare::connect(&url)?;
        let before = settled_bytes(&bare)?;
        let session = store.create(NewSession::default())?;
        (0..count).for_each(|index| append_durably(&session, self.bench.text(), index));
        session.close()?;
        Ok((settled_bytes(&bare)? - before) / text_bytes(self.bench, count))
    }
}

/// The bytes of so many texts.
pub(crate) fn text_bytes(bench: &Bench, count: usize) -> f64 {
    (0..count).map(|index| bench.text().piece(index).len()).sum::<usize>() as f64
}
