//! The signals that ask a run to stop.

use abide_runner::{Stop, Urgency};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::CommandError;

/// Ctrl-C and SIGTERM ask once more each time; where the terminal is gone, nobody can ask again.
/// Signals that whoever started us has us ignore, as `nohup` does, stay ignored.
pub(super) fn heed(stop: &Stop) -> Result<(), CommandError> {
    let ignored = ignored();
    let wanted = [SIGINT, SIGTERM, SIGHUP];
    let heeded = wanted.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(heeded)
        .map_err(|error| CommandError::failed(format!("cannot watch for signals: {error}")))?;
    let stop = stop.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                stop.at_least(Urgency::Now);
            } else if stop.urgency() == Urgency::Kill {
                // Something holds it up, and whoever asks a fourth time wants out.
                std::process::exit(4);
            } else {
                stop.ask();
            }
        }
    });
    Ok(())
}

/// The signals that are ignored, a bit each; none where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
