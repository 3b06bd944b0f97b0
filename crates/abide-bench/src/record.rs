//! The command line: from the start of `abide record` to its acknowledgement.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use abide::{SessionId, maintenance::Upkeep};

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::{Growth, RawFile, millis};
use crate::figure::{Better, Figure, Target, median};
use crate::fixture::Place;

const NAME: &str = "record.start";
const SHORT: usize = 10;

pub(crate) fn measure(bench: &Bench) -> Outcome {
    if !bench.abide.is_file() {
        let reason = format!(
            "no abide binary: {} is not there",
            bench.abide.file_name().unwrap_or_default().display()
        );
        bench.skip(NAME, &reason);
        return Ok(());
    }
    let long = bench.long()?;
    let count = bench.scale.of(100).max(5);
    let target = Target::AtMost(10.0);
    let mut short_time = Figure::new(format!("{NAME}.short"), "ms", Better::Lower, target);
    let mut long_time = Figure::new(format!("{NAME}.long"), "ms", Better::Lower, target);
    let mut growth =
        Figure::new(format!("{NAME}.growth"), "ms", Better::Lower, Target::RatioAtMost(1.1));
    let dir = long.dir.path();
    let place = Place::of(dir, Upkeep::Beside)?;
    for _ in 0..bench.rounds {
        let short_id = place.filled(bench.text(), SHORT)?;
        let fresh = bench.fresh()?;
        let mut file = RawFile::create(&fresh.path().join("raw"), Growth::Growing)?;
        let (mut shorts, mut longs, mut raws) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            raws.push(millis(raw(&mut file)?));
            shorts.push(millis(record(&bench.abide, dir, short_id)?));
            longs.push(millis(record(&bench.abide, dir, long.id)?));
        }
        let [short, long, raw] = [shorts, longs, raws].map(|times| median(&times));
        short_time.push_with_raw(short, raw);
        long_time.push_with_raw(long, raw);
        growth.push_with_raw(long, short);
    }
    for figure in [&mut short_time, &mut long_time] {
        figure.note("raw", "a process that does nothing, and one raw append");
        figure.note("records", count);
    }
    short_time.note("events", SHORT);
    long_time.note("events", long.events);
    growth.note("raw", format!("the same at {SHORT} events"));
    bench.report(&short_time)?;
    bench.report(&long_time)?;
    bench.report(&growth)
}

/// From before the process is there until its one line of output is read.
fn record(program: &Path, dir: &Path, id: SessionId) -> Outcome<Duration> {
    let mut command = Command::new(program);
    command.args(["record", "-s", &id.to_string()]).current_dir(dir);
    acknowledged(command)
}

/// The same of a command that records a message.
pub(crate) fn acknowledged(mut command: Command) -> Outcome<Duration> {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("the child has no input")?;
    input.write_all(b"{\"kind\":\"message.added\",\"data\":{\"role\":\"user\",\"content\":\"Does it still build?\"}}\n")?;
    drop(input);
    let mut output = BufReader::new(child.stdout.take().ok_or("the child has no output")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    let elapsed = start.elapsed();
    let status = child.wait()?;
    if !status.success() || line.is_empty() {
        return Err(format!("abide record ended with {status} and said {line:?}").into());
    }
    Ok(elapsed)
}

fn raw(file: &mut RawFile) -> Outcome<Duration> {
    let start = Instant::now();
    Command::new("true").status()?;
    file.append();
    Ok(start.elapsed())
}
