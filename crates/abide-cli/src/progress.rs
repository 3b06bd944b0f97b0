//! Progress on a terminal, for what takes longer than a moment.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use abide::workspace::Watch;
use abide::{history::IndexProgressCallback, maintenance::ByteSize};
use indicatif::{ProgressBar, ProgressStyle};

use crate::noun_count::noun_count;

/// Anything faster than this gets no progress line.
const PATIENCE: Duration = Duration::from_millis(400);

/// Shows the progress of indexing.
pub(crate) fn indexing_progress() -> IndexProgressCallback {
    let began: OnceLock<Instant> = OnceLock::new();
    let bar: OnceLock<ProgressBar> = OnceLock::new();
    IndexProgressCallback::to(move |step| {
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

/// A line on the terminal. It disappears when dropped.
#[derive(Debug, Default)]
#[must_use = "the line stays until this is dropped"]
pub(crate) struct ProgressLine(Arc<OnceLock<ProgressBar>>);

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(bar) = self.0.get() {
            bar.finish_and_clear();
        }
    }
}

/// Shows the progress of capturing a workspace, and cancels it when asked.
pub(crate) fn capturing_progress(asked: Arc<AtomicBool>) -> (Watch, ProgressLine) {
    let began = Instant::now();
    let line = ProgressLine::default();
    let bar = line.0.clone();
    let progress = move |step: abide::workspace::SnapshotProgress| {
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
        bar.set_message(format!(
            "{}, {read} of them read ({})",
            noun_count(seen, "file"),
            ByteSize(step.bytes_read)
        ));
        bar.tick();
    };
    (Watch { cancel: Some(asked), progress: Some(Arc::new(progress)) }, line)
}

/// Shows the progress of restoring files.
pub(crate) fn restoring_progress() -> (Arc<dyn Fn(u64, u64) + Send + Sync>, ProgressLine) {
    let began: OnceLock<Instant> = OnceLock::new();
    let line = ProgressLine::default();
    let bar = line.0.clone();
    let progress = move |done, all| {
        if began.get_or_init(Instant::now).elapsed() < PATIENCE {
            return;
        }
        let bar = bar.get_or_init(|| {
            let bar = ProgressBar::new(all);
            let style = "Restoring files {bar:30} {pos} of {len}";
            bar.set_style(
                ProgressStyle::with_template(style)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar
        });
        bar.set_position(done);
    };
    (Arc::new(progress), line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_gone_when_it_is_over() {
        let (watch, line) = capturing_progress(Arc::default());
        let bar = line.0.clone();
        let told = watch.progress.unwrap();
        while bar.get().is_none() {
            told(abide::workspace::SnapshotProgress::default());
        }
        let bar = bar.get().unwrap();
        assert!(!bar.is_finished());
        drop(line);
        assert!(bar.is_finished());
    }
}
