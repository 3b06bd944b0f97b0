//! Signals that ask a run to stop.

use abide_runner::{Stop, StopUrgency};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::CommandError;

/// Each Ctrl-C or SIGTERM asks more urgently; if the terminal is gone, nobody can ask again.
/// Signals that our parent made us ignore, as `nohup` does, stay ignored.
pub(crate) fn heed_run_signals(stop: &Stop) -> Result<(), CommandError> {
    let ignored = ignored_signals();
    let wanted = [SIGINT, SIGTERM, SIGHUP];
    let heeded = wanted.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(heeded)
        .map_err(|error| CommandError::failed(format!("cannot watch for signals: {error}")))?;
    let stop = stop.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                stop.at_least(StopUrgency::Now);
            } else if stop.urgency() == StopUrgency::Kill {
                // It is stuck, and whoever asks a fourth time wants out.
                std::process::exit(4);
            } else {
                stop.ask();
            }
        }
    });
    Ok(())
}

/// The ignored signals as a bit mask; 0 if the system does not tell.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
