//! Progress, on a terminal, of what takes longer than a moment.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use abide::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// What is done sooner than this is not worth a line.
const PATIENCE: Duration = Duration::from_millis(400);

/// Shows how far an index is.
pub(crate) fn indexing() -> Progress {
    let began: OnceLock<Instant> = OnceLock::new();
    let bar: OnceLock<ProgressBar> = OnceLock::new();
    Progress::to(move |step| {
        if began.get_or_init(Instant::now).elapsed() < PATIENCE {
            return;
        }
        let bar = bar.get_or_init(|| {
            let bar = ProgressBar::new(0);
            let style = "Reading sessions {bar:30} {pos} of {len}, {msg} events";
            bar.set_style(
                ProgressStyle::with_template(style)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar
        });
        bar.set_length(step.of as u64);
        bar.set_position(step.sessions as u64);
        bar.set_message(step.events.to_string());
        if step.sessions >= step.of {
            bar.finish_and_clear();
        }
    })
}
