//! Writers that live for a few events or for many, with the filling of segments and without.

use std::time::Instant;

use abide::LocalOptions;
use abide_journal::FillingPolicy;

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::rate;
use crate::device::Device;
use crate::figure::{Better, Figure, Target, rounded};
use crate::fixture::{Place, append_durably};
use crate::page::{NOTHING, ratio_cell, short, table_head, table_row};

/// How many events a writer appends before it closes the session: a hook has three.
const LIVES: [usize; 4] = [3, 10, 50, 500];
/// The events of one round, by writers one after another.
const EVENTS: usize = 3000;

/// A way to fill, and what it is called.
#[derive(Debug, Clone, Copy)]
struct FillingWay {
    name: &'static str,
    title: &'static str,
    policy: FillingPolicy,
}

/// What everything else is set against comes first.
fn ways() -> [FillingWay; 4] {
    let steps = |after, first, most| FillingPolicy { after, first, most };
    let kib = |number: u64| number << 10;
    [
        FillingWay { name: "none", title: "no filling", policy: steps(u64::MAX, 1, 1) },
        FillingWay {
            name: "at_once",
            title: "256 KiB, from the first event",
            policy: steps(0, kib(256), kib(256)),
        },
        FillingWay {
            name: "in_steps",
            title: "16, 32, 64 … 256 KiB, after 4",
            policy: steps(4, kib(16), kib(256)),
        },
        FillingWay { name: "ours", title: "as it is", policy: FillingPolicy::default() },
    ]
}

/// Measures every way and every length of a writer's life.
pub(crate) fn measure(bench: &Bench) -> Outcome {
    let device = Device::below(bench.dir());
    for life in LIVES {
        let writers = (bench.scale.of(EVENTS) / life).max(1);
        let mut figures = ways().map(|way| {
            let name = format!("append.filling.{}.{life}", way.name);
            Figure::new(bench.name(&name), "appends/s", Better::Higher, Target::None)
        });
        let mut device_writes = [(0, 0); 4];
        for round in 0..bench.rounds {
            let mut rates = [0.0; 4];
            for step in 0..rates.len() {
                let at = (round + step) % rates.len();
                let before = device.as_ref().and_then(Device::written);
                rates[at] = write(bench, ways()[at].policy, writers, life)?;
                let after = device.as_ref().and_then(Device::written);
                if let (Some(before), Some(after)) = (before, after) {
                    let written = after.since(before);
                    device_writes[at].0 += written.bytes;
                    device_writes[at].1 += written.writes;
                }
            }
            for (figure, rate) in figures.iter_mut().zip(rates) {
                figure.push_with_raw(rate, rates[0]);
            }
        }
        let events = (writers * life * bench.rounds) as f64;
        for (figure, (bytes, writes)) in figures.iter_mut().zip(device_writes) {
            figure.note("writers", writers);
            if device.is_some() {
                figure.note("device_kib_per_append", rounded(bytes as f64 / 1024.0 / events));
                figure.note("device_writes_per_append", rounded(writes as f64 / events));
            }
            bench.report(figure)?;
        }
    }
    Ok(())
}

/// Appends per second of writers one after another, each from the making of its session to its close.
fn write(bench: &Bench, filling: FillingPolicy, writers: usize, life: usize) -> Outcome<f64> {
    let dir = bench.fresh()?;
    let place = Place::with(dir.path(), LocalOptions { filling, ..LocalOptions::default() })?;
    let start = Instant::now();
    for writer in 0..writers {
        let session = place.session()?;
        (0..life).for_each(|index| append_durably(&session, bench.text(), writer * life + index));
        session.close()?;
    }
    Ok(rate(writers * life, start.elapsed()))
}

/// A row for each way.
pub(crate) fn table(title: &str, bench: &Bench) -> String {
    let mut titles = vec!["filling".to_owned()];
    titles.extend(LIVES.map(|life| format!("{life} events: × without, KiB, writes")));
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let mut text = format!("On {title}:\n\n{}", table_head(&titles, 1));
    for way in ways() {
        let mut cells = vec![way.title.to_owned()];
        cells.extend(LIVES.map(|life| {
            let figure = bench.figure(&format!("append.filling.{}.{life}", way.name));
            let noted = |name: &str| {
                let value = figure.as_ref().and_then(|figure| figure.noted(name));
                value.map_or_else(|| NOTHING.to_owned(), short)
            };
            let [bytes, writes] = ["device_kib_per_append", "device_writes_per_append"].map(noted);
            format!("{}, {bytes}, {writes}", ratio_cell(figure.as_ref()))
        }));
        text.push_str(&table_row(&cells));
    }
    text
}
