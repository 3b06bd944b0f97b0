//! Reading a whole session as a stream, against Python reading the same events as JSON.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use abide::{EventRange, SessionId, SessionRef, maintenance::Upkeep};

use crate::Outcome;
use crate::bench::Bench;
use crate::child::{What, ask};
use crate::figure::{Better, Figure, Target};
use crate::fixture::Place;

const NAME: &str = "read.stream";

/// Reading the file counts on both sides; starting a process on neither.
const SCRIPT: &str = "
import json, sys, time
start = time.perf_counter()
with open(sys.argv[1], encoding='utf-8') as lines:
    for line in lines:
        json.loads(line)
print((time.perf_counter() - start) * 1000)
";

pub(crate) fn measure(bench: &Bench) -> Outcome {
    let count = bench.scale.of(50_000);
    let dir = bench.fresh()?;
    let place = Place::of(dir.path(), Upkeep::ByHand)?;
    let id = place.filled(bench.text(), count)?;
    let exported = dir.path().join("exported.jsonl");
    export(&place, id, &exported)?;
    if python(&exported).is_none() {
        bench.skip(&format!("{NAME}.ratio"), "no python3");
    }
    measure_form(bench, dir.path(), id, &exported, "plain")?;
    place.seal(id)?;
    measure_form(bench, dir.path(), id, &exported, "sealed")
}

fn export(place: &Place, id: SessionId, path: &Path) -> Outcome {
    let mut out = BufWriter::new(File::create_new(path)?);
    let view = place.store.view(&SessionRef::Id(id))?;
    for event in view.events(EventRange::ALL) {
        writeln!(out, "{}", event?.to_json())?;
    }
    Ok(out.flush()?)
}

fn measure_form(bench: &Bench, dir: &Path, id: SessionId, exported: &Path, form: &str) -> Outcome {
    let figure = |name: &str| {
        Figure::new(format!("{NAME}.{form}{name}"), "ms", Better::Lower, Target::RatioAtMost(1.0))
    };
    let (mut events, mut facts) = (figure(""), figure(".facts"));
    let mut memory =
        Figure::new(format!("{NAME}.{form}.rss"), "MiB", Better::Lower, Target::AtMost(64.0));
    let mut count = 0;
    for _ in 0..bench.rounds {
        let answer = ask(What::Stream, dir, 0, Some(id))?;
        let raw = python(exported);
        let decoded = ask(What::Facts, dir, 0, Some(id))?;
        for (figure, ms) in [(&mut events, answer.ms), (&mut facts, decoded.ms)] {
            match raw {
                Some(raw) => figure.push_with_raw(ms, raw),
                None => figure.push(ms),
            }
        }
        memory.push(answer.rss_mib.max(decoded.rss_mib));
        count = answer.events;
    }
    for figure in [&mut events, &mut facts] {
        figure.note("raw", "Python's json.loads of the same events as lines");
        figure.note("events", count);
    }
    bench.report(&events)?;
    bench.report(&facts)?;
    bench.report(&memory)
}

/// How many milliseconds Python takes; `None` where there is no Python.
fn python(lines: &Path) -> Option<f64> {
    let output = Command::new("python3").args(["-c", SCRIPT]).arg(lines).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
