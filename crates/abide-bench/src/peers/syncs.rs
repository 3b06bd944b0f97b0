//! Whether a peer syncs before it acknowledges: its system calls are counted.

use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::bench::Bench;
use crate::peers::entrant::{Entrant, Starter};
use crate::peers::work::{Operation, ask};

/// Two runs, so that what opening and closing sync falls out.
const FEW: usize = 10;
const MANY: usize = 60;
const CALLS: &str = "trace=fsync,fdatasync,msync,sync_file_range,sync,syncfs";

/// Syncs for each append; `None` where there is no strace.
pub(crate) fn per_append(
    bench: &Bench,
    entrant: &Entrant,
    starter: &Starter,
    messages: &Path,
) -> Outcome<Option<f64>> {
    if Command::new("strace").arg("--version").output().is_err() {
        return Ok(None);
    }
    let few = count(bench, entrant, starter, messages, FEW)?;
    let many = count(bench, entrant, starter, messages, MANY)?;
    Ok(Some(many.saturating_sub(few) as f64 / (MANY - FEW) as f64))
}

fn count(
    bench: &Bench,
    entrant: &Entrant,
    starter: &Starter,
    messages: &Path,
    appends: usize,
) -> Outcome<usize> {
    let dir = bench.fresh()?;
    let work = dir.path().join("work");
    std::fs::create_dir(&work)?;
    let trace = dir.path().join("trace");
    let process = entrant.process(starter)?;
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "--seccomp-bpf", "-e", CALLS, "-o"]).arg(&trace);
    traced.arg(process.get_program()).args(process.get_args());
    traced.envs(process.get_envs().filter_map(|(name, value)| Some((name, value?))));
    ask(traced, Operation::Append, &work, messages, &[appends, 0])?;
    let trace = std::fs::read_to_string(trace)?;
    // A call that another interrupts is written in two lines.
    Ok(trace.lines().filter(|line| line.contains('(') && !line.contains("resumed>")).count())
}
