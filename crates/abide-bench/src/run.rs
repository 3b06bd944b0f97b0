//! `abide run`: what it adds to the start of an agent, and what it uses while one talks.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::millis;
use crate::figure::{Better, Figure, Target, median};

/// What an agent says in a second.
const PER_SECOND: usize = 1 << 20;
/// It speaks so often in a second.
const TIMES: usize = 20;

/// What is added to the start of an agent, in a project of a few files.
pub(crate) fn start(bench: &Bench) -> Outcome {
    if !bench.abide.is_file() {
        bench.skip("run.start", "no abide binary");
        return Ok(());
    }
    let count = bench.scale.of(40).max(5);
    let mut added = Figure::new("run.start", "ms", Better::Lower, Target::AtMost(50.0));
    for _ in 0..bench.rounds {
        let fresh = bench.fresh()?;
        for n in 0..20 {
            std::fs::write(fresh.path().join(format!("file{n}")), format!("text {n}"))?;
        }
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut plain = Command::new("sh");
            bare.push(millis(until_agent(&mut plain, &[], fresh.path())?));
            let mut abide = Command::new(&bench.abide);
            let before = ["run", "--plain", "--", "sh"];
            ours.push(millis(until_agent(&mut abide, &before, fresh.path())?));
        }
        let (ours, bare) = (median(&ours), median(&bare));
        added.push_with_raw(ours - bare, bare);
    }
    added.note("raw", "the agent without abide");
    added.note("starts", count);
    bench.report(&added)
}

/// From before the command until the agent is at work.
fn until_agent(command: &mut Command, before: &[&str], dir: &Path) -> Outcome<Duration> {
    let began = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let output = command
        .args(before)
        .args(["-c", "date +%s%N"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    let said = String::from_utf8(output.stdout)?;
    let nanos: u64 = said.trim().parse().map_err(|_| format!("the agent said {said:?}"))?;
    Ok(Duration::from_nanos(nanos).saturating_sub(began))
}

/// The processor time while an agent says a megabyte a second, as messages and as text.
pub(crate) fn stream(bench: &Bench) -> Outcome {
    if !bench.abide.is_file() {
        bench.skip("run.stream", "no abide binary");
        return Ok(());
    }
    let seconds = bench.scale.of(20).max(2);
    for form in ["claude", "text"] {
        let name = format!("run.stream.{form}");
        let mut share = Figure::new(name, "% of a core", Better::Lower, Target::AtMost(3.0));
        for _ in 0..bench.rounds.min(3) {
            let fresh = bench.fresh()?;
            let program = std::env::current_exe()?;
            let mut child = Command::new(&bench.abide)
                .args(["run", "--plain", "--adapter", form, "--"])
                .arg(program)
                .args(["talk", form, &seconds.to_string()])
                .current_dir(fresh.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            let mut ticks = 0;
            let began = Instant::now();
            while child.try_wait()?.is_none() {
                ticks = own_ticks(child.id()).unwrap_or(ticks);
                std::thread::sleep(Duration::from_millis(20));
            }
            if !child.wait()?.success() {
                return Err("abide run failed".into());
            }
            let hertz = rustix::param::clock_ticks_per_second() as f64;
            share.push(ticks as f64 / hertz / began.elapsed().as_secs_f64() * 100.0);
        }
        share.note("bytes a second", PER_SECOND);
        share.note("seconds", seconds);
        bench.report(&share)?;
    }
    Ok(())
}

/// The processor time of a process itself.
fn own_ticks(id: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// An agent that says a megabyte a second.
#[derive(Debug, clap::Args)]
pub(crate) struct Talk {
    form: String,
    seconds: usize,
}

pub(crate) fn talk(talk: &Talk) -> Outcome {
    let text = "The parser drops the last line when it has no newline at its end. ";
    let each = PER_SECOND / TIMES;
    let words = text.repeat(each / 4 / text.len());
    let mut out = std::io::stdout().lock();
    let began = Instant::now();
    for n in 0..talk.seconds * TIMES {
        let mut said = 0;
        while said < each {
            let line = match talk.form.as_str() {
                "claude" => serde_json::json!({"type": "assistant", "session_id": "s", "message": {
                    "role": "assistant", "content": [{"type": "text", "text": words}],
                }})
                .to_string(),
                _ => words.clone(),
            };
            writeln!(out, "{line}")?;
            said += line.len() + 1;
        }
        out.flush()?;
        let due = Duration::from_secs_f64((n + 1) as f64 / TIMES as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
    if talk.form == "claude" {
        let end = serde_json::json!({"type": "result", "subtype": "success", "is_error": false, "result": "done", "session_id": "s"});
        writeln!(out, "{end}")?;
    }
    Ok(())
}
