//! Progress, on a terminal, of what takes longer than a moment.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use abide::Progress;
use abide::workspace::Watch;
use indicatif::{ProgressBar, ProgressStyle};

use crate::size::size;

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

/// Shows how far the capture of a workspace is, and ends it when asked.
pub(crate) fn capturing(asked: Arc<AtomicBool>) -> Watch {
    let began = Instant::now();
    let bar: OnceLock<ProgressBar> = OnceLock::new();
    let progress = move |step: abide::workspace::Progress| {
        if began.elapsed() < PATIENCE {
            return;
        }
        let bar = bar.get_or_init(|| {
            let bar = ProgressBar::new_spinner();
            let style = "{spinner} Capturing the workspace: {msg}";
            bar.set_style(
                ProgressStyle::with_template(style)
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            bar
        });
        let (seen, read) = (step.files_seen, step.files_read);
        bar.set_message(format!("{seen} files, {read} of them read ({})", size(step.bytes_read)));
        bar.tick();
    };
    Watch { cancel: Some(asked), progress: Some(Arc::new(progress)) }
}

/// Shows how many files are put back.
pub(crate) fn restoring() -> Arc<dyn Fn(u64, u64) + Send + Sync> {
    let began: OnceLock<Instant> = OnceLock::new();
    let bar: OnceLock<ProgressBar> = OnceLock::new();
    Arc::new(move |done, all| {
        if began.get_or_init(Instant::now).elapsed() < PATIENCE {
            return;
        }
        let bar = bar.get_or_init(|| {
            let bar = ProgressBar::new(all);
            let style = "Putting files back {bar:30} {pos} of {len}";
            bar.set_style(
                ProgressStyle::with_template(style)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar
        });
        bar.set_position(done);
        if done >= all {
            bar.finish_and_clear();
        }
    })
}
