//! A team's store: a thousand sessions of a thousand events, looked through and opened.

use std::time::Instant;

use abide::{HistoryQuery, MessageForm, NewSession, SessionRef, history::Search};

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::millis;
use crate::dialogue::{say, say_compacted};
use crate::figure::{Better, Figure, Target, median};
use crate::history::queries;
use crate::shared::{Server, open_shared};

/// How many sessions.
const SESSIONS: usize = 1000;
/// How many messages each has before its last compaction, and behind it.
const BEFORE: usize = 900;
const BEHIND: usize = 90;
/// How many entries a history shows.
const SHOWN: usize = 20;
/// How often each thing is asked.
const TIMES: usize = 50;

pub(crate) fn measure(bench: &Bench, server: &Server) -> Outcome {
    let store = open_shared(&server.create_database())?;
    let count = bench.scale.of(SESSIONS);
    eprintln!("making {count} sessions");
    let mut ids = Vec::new();
    for number in 0..count {
        let session = store.create(NewSession::titled(format!("Session {number}")))?;
        say_compacted(&session, bench.text(), BEFORE)?;
        say(&session, bench.text(), number * BEHIND, BEHIND)?;
        ids.push(session.id());
        session.close()?;
    }
    let report = |name: &str, most: f64, times: &[f64]| {
        let name = format!("shared.team.{name}");
        let mut figure = Figure::new(name, "ms", Better::Lower, Target::AtMost(most));
        figure.push(median(times));
        figure.note("sessions", count);
        figure.note("times", times.len());
        bench.report(&figure)
    };
    let timed = |query: &HistoryQuery| {
        let start = Instant::now();
        store.history(query)?;
        Outcome::Ok(millis(start.elapsed()))
    };

    let latest = HistoryQuery { limit: Some(SHOWN), ..HistoryQuery::default() };
    let times = (0..TIMES).map(|_| timed(&latest)).collect::<Outcome<Vec<_>>>()?;
    report("history", 50.0, &times)?;

    let mut times = Vec::new();
    for (_, query) in queries(bench) {
        if let Ok(search) = Search::parse(&query) {
            times.push(timed(&HistoryQuery { search: Some(search), ..latest.clone() })?);
        }
    }
    report("search", 50.0, &times)?;

    let (mut opens, mut contexts) = (Vec::new(), Vec::new());
    // Other sessions each time, from all over the store.
    for number in 0..TIMES {
        let id = ids[number * 7919 % ids.len()];
        let start = Instant::now();
        let session = store.open_session(&SessionRef::Id(id))?;
        opens.push(millis(start.elapsed()));
        session.close()?;
        let start = Instant::now();
        let context = store.view(&SessionRef::Id(id))?.context(None)?;
        let request = context.render(MessageForm::OpenAi).to_json();
        contexts.push(millis(start.elapsed()));
        assert!(request.len() > BEHIND * 512, "a context of {} bytes", request.len());
    }
    report("open", 20.0, &opens)?;
    report("context", 20.0, &contexts)
}
