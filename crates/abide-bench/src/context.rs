//! The context: what it costs to read and to compact it, in a short session and in a long one.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use abide::{
    MessageForm, Session, SessionId, SessionRef,
    context::{CompactRequest, SessionContext, Tokenizer},
    event::ModelConfiguration,
    maintenance::Upkeep,
};
use tempfile::TempDir;

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::millis;
use crate::dialogue::{self, Fixed, say, say_compacted};
use crate::figure::{Better, Figure, Target, median};
use crate::fixture::Place;

/// How many messages a long session has behind its compaction, and a short one.
const LONG: usize = 100_000;
const SHORT: usize = 20;
/// How many stand behind the compaction.
const AFTER: usize = 100;
/// Which messages these are, the same whatever came before them.
const LATER: usize = 4 * LONG;
/// How many messages are compacted.
const COMPACTED: usize = 1000;
/// Each round is the median of so many.
const EACH: usize = 40;
/// How many events a reader may have to fold: just fewer than lie between two snapshots.
const SINCE_SNAPSHOT: usize = 3900;

/// A session with a compaction in it, and the store it is in.
struct Subject {
    dir: TempDir,
    place: Place,
    id: SessionId,
}

impl Subject {
    /// Closed, and sealed as a writer would have in time.
    fn build(bench: &Bench, behind: usize, after: usize) -> Outcome<Self> {
        let dir = bench.fresh()?;
        let place = Place::of(dir.path(), Upkeep::Beside)?;
        let session = place.session()?;
        say_compacted(&session, bench.text(), behind)?;
        say(&session, bench.text(), LATER, after)?;
        let id = session.id();
        session.close()?;
        place.seal(id)?;
        Ok(Self { dir, place, id })
    }

    fn open(&self) -> Outcome<Session> {
        self.place.open(self.id)
    }
}

fn rendered(context: &SessionContext) -> usize {
    black_box(context.render(MessageForm::OpenAi)).to_json().len()
}

fn written(session: &Session) -> Outcome<usize> {
    Ok(rendered(&session.context()?))
}

/// As a command line reads it: everything is opened anew.
fn viewed(dir: &Path, id: SessionId) -> Outcome<usize> {
    let store = Place::of(dir, Upkeep::Beside)?.store;
    Ok(rendered(&store.view(&SessionRef::Id(id))?.context(None)?))
}

/// The medians of two that take turns, in milliseconds.
fn in_turns(
    mut one: impl FnMut() -> Outcome<usize>,
    mut other: impl FnMut() -> Outcome<usize>,
) -> Outcome<[f64; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    let mut sizes = [0; 2];
    for turn in 0..EACH {
        for which in [turn % 2, 1 - turn % 2] {
            let start = Instant::now();
            sizes[which] = if which == 0 { one()? } else { other()? };
            times[which].push(millis(start.elapsed()));
        }
    }
    if sizes[0].abs_diff(sizes[1]) > sizes[0] / 20 {
        return Err(format!("these are not alike: {sizes:?} bytes").into());
    }
    Ok(times.map(|times| median(&times)))
}

/// The context of a hundred messages, behind few and behind many.
pub(crate) fn read(bench: &Bench) -> Outcome {
    let many = bench.scale.of(LONG);
    let short = Subject::build(bench, SHORT, AFTER)?;
    let long = Subject::build(bench, many, AFTER)?;
    let figures = |name: &str| {
        let wanted = Target::AtMost(5.0);
        [
            Figure::new(format!("context.{name}.short"), "ms", Better::Lower, wanted),
            Figure::new(format!("context.{name}.long"), "ms", Better::Lower, wanted),
            Figure::new(
                format!("context.{name}.flat"),
                "ms",
                Better::Lower,
                Target::RatioAtMost(1.1),
            ),
        ]
    };
    let (mut by_view, mut by_session) = (figures("view"), figures("session"));
    let views =
        || in_turns(|| viewed(short.dir.path(), short.id), || viewed(long.dir.path(), long.id));
    views()?;
    for _ in 0..bench.rounds {
        push(&mut by_view, views()?);
    }
    let sessions = [short.open()?, long.open()?];
    for _ in 0..bench.rounds {
        push(&mut by_session, in_turns(|| written(&sessions[0]), || written(&sessions[1]))?);
    }
    for mut figures in [by_view, by_session] {
        figures[2].note("raw", format!("the same behind {SHORT} messages"));
        figures[2].note("messages", many);
        figures.iter().try_for_each(|figure| bench.report(figure))?;
    }
    tokens(bench, &sessions[1].context()?)?;
    let [_, session] = sessions;
    beside_writer(bench, &long, &session)
}

fn push([short, long, flat]: &mut [Figure; 3], [shorter, longer]: [f64; 2]) {
    short.push(shorter);
    long.push(longer);
    flat.push_with_raw(longer, shorter);
}

fn tokens(bench: &Bench, context: &SessionContext) -> Outcome {
    for (name, model) in [("estimate", None), ("gpt-5-mini", Some("gpt-5-mini"))] {
        let mut figure =
            Figure::new(format!("context.tokens.{name}"), "ms", Better::Lower, Target::None);
        let start = Instant::now();
        let tokenizer = Tokenizer::for_model(model);
        black_box(tokenizer.text("ready"));
        figure.note("first_ms", millis(start.elapsed()));
        for _ in 0..bench.rounds {
            let times: Vec<f64> = (0..EACH)
                .map(|_| {
                    let start = Instant::now();
                    black_box(context.tokens_by(&tokenizer));
                    millis(start.elapsed())
                })
                .collect();
            figure.push(median(&times));
        }
        figure.note("tokens", context.tokens_by(&tokenizer).total());
        figure.note("messages", context.len());
        bench.report(&figure)?;
    }
    Ok(())
}

/// What a reader finds beside a writer that has not taken a snapshot for a long time.
fn beside_writer(bench: &Bench, long: &Subject, session: &Session) -> Outcome {
    let mut figure =
        Figure::new("context.view.beside_writer", "ms", Better::Lower, Target::AtMost(5.0));
    let since = bench.scale.of(SINCE_SNAPSHOT);
    say(session, bench.text(), 0, since)?;
    dialogue::compact(session)?;
    say(session, bench.text(), 0, AFTER)?;
    for _ in 0..bench.rounds {
        let mut times = Vec::new();
        for _ in 0..EACH {
            let start = Instant::now();
            viewed(long.dir.path(), long.id)?;
            times.push(millis(start.elapsed()));
        }
        figure.push(median(&times));
    }
    figure.note("events_since_snapshot", since + AFTER);
    bench.report(&figure)
}

/// A compaction of a thousand messages, its summary aside.
pub(crate) fn compact(bench: &Bench) -> Outcome {
    let subject = Subject::build(bench, bench.scale.of(LONG), COMPACTED)?;
    let session = subject.open()?;
    for (name, model) in [("estimate", "claude-sonnet-4-5"), ("gpt-5-mini", "gpt-5-mini")] {
        let configured = ModelConfiguration {
            model: model.to_owned(),
            provider: None,
            window: None,
            settings: std::collections::BTreeMap::new(),
        };
        session.append(configured)?.wait()?;
        let mut whole = Figure::new(
            format!("context.compact.{name}.synced"),
            "ms",
            Better::Lower,
            Target::None,
        );
        let mut own = Figure::new(
            format!("context.compact.{name}"),
            "ms",
            Better::Lower,
            Target::AtMost(10.0),
        );
        let mut messages = 0;
        for round in 0..=bench.rounds {
            let mut times = [Vec::new(), Vec::new()];
            for _ in 0..EACH / 2 {
                let (compacted, appended, covered) = one_compaction(&session)?;
                messages = covered;
                times[0].push(millis(compacted));
                times[1].push(millis(appended));
            }
            let [compacted, appended] = times.map(|times| median(&times));
            // The first round readies the tokenizer.
            if round > 0 {
                whole.push_with_raw(compacted, appended);
                own.push(compacted - appended);
            }
        }
        own.note("messages", messages);
        own.note("without", "the time of a durable append of one event");
        whole.note("raw", "a durable append of one event");
        bench.report(&own)?;
        bench.report(&whole)?;
    }
    Ok(())
}

/// How long a compaction takes, and a durable append beside it; how many messages it covered. It is
/// taken back.
fn one_compaction(session: &Session) -> Outcome<(Duration, Duration, u64)> {
    let start = Instant::now();
    let made = session.compact(&CompactRequest::default(), &Fixed)?;
    let compacted = start.elapsed();
    let start = Instant::now();
    session.append(dialogue::note()?)?.wait()?;
    let appended = start.elapsed();
    session.undo_compaction(None)?;
    Ok((compacted, appended, made.covered))
}
