//! The output of cargo: tests, nextest, builds and clippy.

use abide_model::ArtifactCounts;

use super::{OutputSummary, add_count, leading_number};

/// Does a text show that cargo ran?
pub(super) fn shows_cargo(text: &str) -> bool {
    ["test result: ", "error: could not compile `", "Finished `"]
        .iter()
        .any(|told| text.contains(told))
}

/// What the output of cargo shows. Several test binaries are summed up.
pub(super) fn cargo_summary(text: &str) -> Option<OutputSummary> {
    let mut counts = ArtifactCounts::default();
    let (mut tested, mut finished, mut failed) = (false, false, false);
    let mut compiler = CompilerCounts::default();
    for line in text.lines() {
        let line = line.trim();
        if let Some(result) = line.strip_prefix("test result: ") {
            tested = true;
            failed |= !result.starts_with("ok");
            for part in result.split(';') {
                // `ok. 3 passed`
                count_tested(part.rsplit(". ").next().unwrap_or(part), &mut counts);
            }
        } else if line.starts_with("Summary [")
            && let Some((_, parts)) = line.split_once(": ")
        {
            tested = true;
            parts.split(", ").for_each(|part| count_tested(part, &mut counts));
            add_count(&mut counts.failed, 0);
        } else if line.starts_with("Finished ") {
            finished = true;
        } else if is_end_of_tests(line) {
            tested = true;
            failed = true;
        } else {
            compiler.line(line);
        }
    }
    // What looks like an error beside tests may be what a test printed.
    let ended = tested || finished || failed;
    failed |= compiler.stopped || counts.failed.is_some_and(|count| count > 0);
    failed |= !ended && compiler.errors > 0;
    if !ended && !failed {
        return None;
    }
    if !tested || compiler.stopped {
        counts.errors = Some(if failed { compiler.errors.max(compiler.errors_told) } else { 0 });
        counts.warnings = Some(compiler.warnings.max(compiler.warnings_told));
    }
    Some(OutputSummary { ok: !failed, counts })
}

/// What the compiler printed. The output may be cut: then its own sums tell more than what is left.
#[derive(Default)]
struct CompilerCounts {
    stopped: bool,
    errors: u64,
    errors_told: u64,
    warnings: u64,
    warnings_told: u64,
}

impl CompilerCounts {
    fn line(&mut self, line: &str) {
        if let Some(told) = line.strip_prefix("error: could not compile ") {
            self.stopped = true;
            // `x` (lib) due to 2 previous errors; 1 warning emitted
            if let Some((_, told)) = told.split_once(" due to ") {
                self.errors_told += leading_number(told).map_or(1, |(count, _)| count);
            }
        } else if line.starts_with("error[") || line.starts_with("error: ") {
            self.errors += u64::from(!line.starts_with("error: aborting due to"));
        } else if let Some(told) = line.strip_prefix("warning: ") {
            match told.split_once(" generated ").and_then(|(_, told)| leading_number(told)) {
                Some((count, _)) => self.warnings_told += count,
                None => self.warnings += u64::from(!told.ends_with("warning emitted")),
            }
        }
    }
}

fn count_tested(part: &str, counts: &mut ArtifactCounts) {
    let Some((count, what)) = leading_number(part) else { return };
    match what.split(' ').next() {
        Some("passed") => add_count(&mut counts.passed, count),
        // `1 timed out` of nextest
        Some("failed" | "timed") => add_count(&mut counts.failed, count),
        Some("ignored" | "skipped") => add_count(&mut counts.skipped, count),
        _ => {}
    }
}

/// Lines by which cargo says that tests failed; they are no errors of the compiler.
fn is_end_of_tests(line: &str) -> bool {
    let Some(told) = line.strip_prefix("error: ") else { return false };
    told.starts_with("test failed")
        || told.starts_with("doctest failed")
        || told.starts_with("test run failed")
        || told.contains(" target failed:")
        || told.contains(" targets failed:")
        || told.starts_with("process didn't exit successfully")
}
