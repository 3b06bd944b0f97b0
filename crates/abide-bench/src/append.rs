//! Durable appends: one session, many at once, and many threads on one.

use std::sync::Arc;

use abide::{LocalOptions, Session, maintenance::Upkeep};

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::{RawFile, Spent, rate, together};
use crate::counting::CountingDisk;
use crate::figure::{Better, Figure, Target, median, rounded};
use crate::fixture::{Place, append_durably};

const THREADS: usize = 64;
/// Ours and the raw measure take turns after so many appends.
const TURN: usize = 50;
const WARM_UP: usize = 10;

/// One session, each event acknowledged before the next.
pub(crate) fn one(bench: &Bench) -> Outcome {
    let text = bench.text();
    let turns = bench.scale.of(4000) / TURN;
    let count = turns * TURN;
    let mut figure =
        Figure::new("append.one", "appends/s", Better::Higher, Target::RatioAtLeast(0.9));
    let (mut cpu, mut raw_cpu) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let dir = bench.fresh()?;
        let session = Place::of(dir.path(), Upkeep::Beside)?.session()?;
        let mut file = RawFile::create(&dir.path().join("raw"))?;
        for index in 0..WARM_UP {
            append_durably(&session, text, index);
            file.append();
        }
        let (mut ours, mut raw) = (Spent::default(), Spent::default());
        for turn in 0..turns {
            raw.add(|| (0..TURN).for_each(|_| file.append()));
            let first = WARM_UP + turn * TURN;
            ours.add(|| {
                (first..first + TURN).for_each(|index| append_durably(&session, text, index));
            });
        }
        session.close()?;
        figure.push_with_raw(ours.rate(count), raw.rate(count));
        cpu.push(ours.cpu_micros(count));
        raw_cpu.push(raw.cpu_micros(count));
    }
    figure.note("appends", count);
    figure.note("cpu_us", rounded(median(&cpu)));
    figure.note("raw_cpu_us", rounded(median(&raw_cpu)));
    figure.note("text", text.describe());
    bench.report(&figure)?;
    syncs(bench)
}

/// Syncs for each acknowledgement, away from the clock.
fn syncs(bench: &Bench) -> Outcome {
    let (session, disk, _dir) = counted(bench)?;
    let count = bench.scale.of(1000);
    let before = disk.syncs.count();
    for index in 0..count {
        append_durably(&session, bench.text(), index);
    }
    let syncs = disk.syncs.count() - before;
    session.close()?;
    let mut figure =
        Figure::new("append.one.syncs", "syncs/append", Better::Lower, Target::Exactly(1.0));
    figure.push(syncs as f64 / count as f64);
    figure.note("appends", count);
    figure.note("syncs", syncs);
    bench.report(&figure)
}

/// A session on a disk that counts, after its first append.
fn counted(bench: &Bench) -> Outcome<(Session, Arc<CountingDisk>, tempfile::TempDir)> {
    let dir = bench.fresh()?;
    let disk = Arc::new(CountingDisk::default());
    let options = LocalOptions { storage: disk.clone(), ..LocalOptions::default() };
    let session = Place::with(dir.path(), options)?.session()?;
    append_durably(&session, bench.text(), 0);
    Ok((session, disk, dir))
}

/// 64 sessions at once, a thread each, against 64 raw files.
pub(crate) fn sessions(bench: &Bench) -> Outcome {
    let text = bench.text();
    let each = bench.scale.of(200);
    let mut figure =
        Figure::new("append.sessions64", "appends/s", Better::Higher, Target::RatioAtLeast(1.0));
    for round in 0..bench.rounds {
        let dir = bench.fresh()?;
        let place = Place::of(dir.path(), Upkeep::Beside)?;
        let mut sessions = (0..THREADS).map(|_| place.session()).collect::<Outcome<Vec<_>>>()?;
        let mut files = (0..THREADS)
            .map(|number| RawFile::create(&dir.path().join(format!("raw-{number}"))))
            .collect::<Outcome<Vec<_>>>()?;
        for (session, file) in sessions.iter().zip(&mut files) {
            append_durably(session, text, 0);
            file.append();
        }
        let mut ours = || {
            together(&mut sessions, |number, session| {
                (0..each).for_each(|index| append_durably(session, text, number * each + index));
            })
        };
        let mut raw = || together(&mut files, |_, file| (0..each).for_each(|_| file.append()));
        let (ours, raw) = in_turns(round, &mut ours, &mut raw);
        figure.push_with_raw(rate(THREADS * each, ours), rate(THREADS * each, raw));
    }
    figure.note("appends", THREADS * each);
    bench.report(&figure)
}

/// Whoever is first in one round is second in the next.
fn in_turns<T>(round: usize, ours: &mut dyn FnMut() -> T, raw: &mut dyn FnMut() -> T) -> (T, T) {
    if round.is_multiple_of(2) {
        let raw = raw();
        (ours(), raw)
    } else {
        (ours(), raw())
    }
}

/// 64 threads that append to one session, against one raw file in one thread.
pub(crate) fn shared(bench: &Bench) -> Outcome {
    let text = bench.text();
    let each = bench.scale.of(400);
    let raws = bench.scale.of(4000);
    let mut figure =
        Figure::new("append.shared64", "appends/s", Better::Higher, Target::RatioAtLeast(8.0));
    let all = |session: &Session| {
        together(&mut [(); THREADS], |number, ()| {
            (0..each).for_each(|index| append_durably(session, text, number * each + index));
        })
    };
    for round in 0..bench.rounds {
        let dir = bench.fresh()?;
        let session = Place::of(dir.path(), Upkeep::Beside)?.session()?;
        let mut file = RawFile::create(&dir.path().join("raw"))?;
        append_durably(&session, text, 0);
        file.append();
        let (ours, raw) = in_turns(round, &mut || all(&session), &mut || {
            together(std::slice::from_mut(&mut file), |_, file| {
                (0..raws).for_each(|_| file.append());
            })
        });
        session.close()?;
        figure.push_with_raw(rate(THREADS * each, ours), rate(raws, raw));
    }
    let (session, disk, _dir) = counted(bench)?;
    let before = disk.syncs.count();
    all(&session);
    let syncs = disk.syncs.count() - before;
    session.close()?;
    figure.note("appends", THREADS * each);
    figure.note("appends_per_sync", rounded((THREADS * each) as f64 / syncs as f64));
    bench.report(&figure)
}
