//! Durable appends: one session, many at once, and many threads on one.

use std::sync::Arc;

use abide::{LocalOptions, Session, maintenance::Upkeep};

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::{Growth, RawFile, Spent, rate, together};
use crate::counting::CountingDisk;
use crate::figure::{Better, Figure, Target, median, rounded};
use crate::fixture::{Place, append_durably};

const THREADS: usize = 64;
/// Ours and the raw measure take turns after so many appends.
const TURN: usize = 50;
const WARM_UP: usize = 10;

/// The same values, set against a raw file that grows and against one that is extended ahead.
fn figures(bench: &Bench, name: &str, target: Target) -> [Figure; 2] {
    let figure =
        |name: &str, target| Figure::new(bench.name(name), "appends/s", Better::Higher, target);
    let mut extended = figure(&format!("{name}.extended"), Target::None);
    extended.note("raw", "the file is extended ahead by 256 KiB at a time");
    [figure(name, target), extended]
}

/// One session, each event acknowledged before the next.
pub(crate) fn one(bench: &Bench) -> Outcome {
    let text = bench.text();
    let turns = bench.scale.of(4000) / TURN;
    let count = turns * TURN;
    let mut figures = figures(bench, "append.one", Target::RatioAtLeast(0.9));
    let (mut cpu, mut raw_cpu) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let dir = bench.fresh()?;
        let session = Place::of(dir.path(), Upkeep::Beside)?.session()?;
        let mut growing = RawFile::create(&dir.path().join("raw"), Growth::Growing)?;
        let mut extended = RawFile::create(&dir.path().join("raw-extended"), Growth::Extended)?;
        for index in 0..WARM_UP {
            append_durably(&session, text, index);
            growing.append();
            extended.append();
        }
        let (mut ours, mut raws) = (Spent::default(), [Spent::default(); 2]);
        for turn in 0..turns {
            let [raw, raw_extended] = &mut raws;
            raw.add(|| (0..TURN).for_each(|_| growing.append()));
            let first = WARM_UP + turn * TURN;
            ours.add(|| {
                (first..first + TURN).for_each(|index| append_durably(&session, text, index));
            });
            raw_extended.add(|| (0..TURN).for_each(|_| extended.append()));
        }
        session.close()?;
        for (figure, raw) in figures.iter_mut().zip(raws) {
            figure.push_with_raw(ours.rate(count), raw.rate(count));
        }
        cpu.push(ours.cpu_micros(count));
        raw_cpu.push(raws[0].cpu_micros(count));
    }
    let [figure, extended] = &mut figures;
    figure.note("appends", count);
    figure.note("cpu_us", rounded(median(&cpu)));
    figure.note("raw_cpu_us", rounded(median(&raw_cpu)));
    figure.note("text", text.describe());
    bench.report(figure)?;
    bench.report(extended)?;
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
    let mut figure = Figure::new(
        bench.name("append.one.syncs"),
        "syncs/append",
        Better::Lower,
        Target::Exactly(1.0),
    );
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
    let mut figures = figures(bench, "append.sessions64", Target::RatioAtLeast(1.0));
    for round in 0..bench.rounds {
        let dir = bench.fresh()?;
        let place = Place::of(dir.path(), Upkeep::Beside)?;
        let mut sessions = (0..THREADS).map(|_| place.session()).collect::<Outcome<Vec<_>>>()?;
        let raw_files = |growth: Growth| {
            (0..THREADS)
                .map(|number| {
                    let mut file =
                        RawFile::create(&dir.path().join(format!("{growth:?}-{number}")), growth)?;
                    file.append();
                    Ok(file)
                })
                .collect::<Outcome<Vec<_>>>()
        };
        let mut growing = raw_files(Growth::Growing)?;
        let mut extended = raw_files(Growth::Extended)?;
        sessions.iter().for_each(|session| append_durably(session, text, 0));
        let append = |_, file: &mut RawFile| (0..each).for_each(|_| file.append());
        let [ours, raws @ ..] = in_turns(
            round,
            [
                &mut || {
                    together(&mut sessions, |number, session| {
                        let first = number * each;
                        (first..first + each)
                            .for_each(|index| append_durably(session, text, index));
                    })
                },
                &mut || together(&mut growing, append),
                &mut || together(&mut extended, append),
            ],
        );
        for (figure, raw) in figures.iter_mut().zip::<[_; 2]>(raws) {
            figure.push_with_raw(rate(THREADS * each, ours), rate(THREADS * each, raw));
        }
    }
    for figure in &mut figures {
        figure.note("appends", THREADS * each);
        bench.report(figure)?;
    }
    Ok(())
}

/// Whoever is first in one round is last in the next.
fn in_turns<T, const N: usize>(round: usize, work: [&mut dyn FnMut() -> T; N]) -> [T; N] {
    let mut done: [Option<T>; N] = std::array::from_fn(|_| None);
    for step in 0..N {
        let which = (round + step) % N;
        done[which] = Some(work[which]());
    }
    done.map(|done| done.expect("everybody had a turn"))
}

/// 64 threads that append to one session, against one raw file in one thread.
pub(crate) fn shared(bench: &Bench) -> Outcome {
    let text = bench.text();
    let each = bench.scale.of(400);
    let raws = bench.scale.of(4000);
    let mut figures = figures(bench, "append.shared64", Target::RatioAtLeast(8.0));
    let all = |session: &Session| {
        together(&mut [(); THREADS], |number, ()| {
            (0..each).for_each(|index| append_durably(session, text, number * each + index));
        })
    };
    for round in 0..bench.rounds {
        let dir = bench.fresh()?;
        let session = Place::of(dir.path(), Upkeep::Beside)?.session()?;
        let mut growing = RawFile::create(&dir.path().join("raw"), Growth::Growing)?;
        let mut extended = RawFile::create(&dir.path().join("raw-extended"), Growth::Extended)?;
        append_durably(&session, text, 0);
        growing.append();
        extended.append();
        let alone = |file: &mut RawFile| {
            together(std::slice::from_mut(file), |_, file| {
                (0..raws).for_each(|_| file.append());
            })
        };
        let [ours, raw_times @ ..] = in_turns(
            round,
            [&mut || all(&session), &mut || alone(&mut growing), &mut || alone(&mut extended)],
        );
        session.close()?;
        for (figure, raw) in figures.iter_mut().zip::<[_; 2]>(raw_times) {
            figure.push_with_raw(rate(THREADS * each, ours), rate(raws, raw));
        }
    }
    let (session, disk, _dir) = counted(bench)?;
    let before = disk.syncs.count();
    all(&session);
    let syncs = disk.syncs.count() - before;
    session.close()?;
    for figure in &mut figures {
        figure.note("appends", THREADS * each);
        figure.note("appends_per_sync", rounded((THREADS * each) as f64 / syncs as f64));
        bench.report(figure)?;
    }
    Ok(())
}
