//! The output of cargo: tests, nextest, builds and clippy.

use std::collections::BTreeMap;

use abide_model::ArtifactCounts;

use super::super::tool::RunKind;
use super::{OutputSummary, add_count, leading_number, output_lines};

/// Does a text show that cargo ran?
pub(super) fn shows_cargo(text: &str) -> bool {
    ["test result: ", "error: could not compile `", "Finished `"]
        .iter()
        .any(|told| text.contains(told))
}

/// What the output of cargo shows. Several test binaries are summed up. Cargo indents its own status
/// words; everything else that is indented was printed by a test.
pub(super) fn cargo_summary(kind: RunKind, text: &str) -> Option<OutputSummary> {
    let mut tests = TestCounts::default();
    let mut compiler = CompilerCounts::default();
    let (mut finished, mut binary_failed, mut run_failed) = (false, false, false);
    for line in output_lines(text) {
        let status = line.trim_start();
        if let Some(result) = line.strip_prefix("test result: ") {
            tests.binaries.get_or_insert_default();
            binary_failed |= !result.starts_with("ok");
            for part in result.split(';') {
                // `ok. 3 passed`
                tests.add_binary(part.rsplit(". ").next().unwrap_or(part));
            }
        } else if status.starts_with("Summary [")
            && let Some((_, parts)) = status.split_once(": ")
        {
            tests.add_nextest(parts);
        } else if status.starts_with("Finished ") {
            // Before tests run, it says that they were built.
            finished |= kind == RunKind::Build;
        } else if is_end_of_tests(line) {
            run_failed = true;
        } else {
            compiler.line(line);
        }
    }
    // What a test of nextest printed may be the output of another test.
    let adds_up = tests.nextest.is_none();
    let tested = tests.nextest.or(tests.binaries);
    // What looks like an error beside tests may be what a test printed.
    let ended = tested.is_some() || finished || run_failed;
    let is_tested = tested.is_some();
    let mut counts = tested.unwrap_or_default();
    let failed = run_failed
        || (adds_up && binary_failed)
        || counts.failed.is_some_and(|count| count > 0)
        || compiler.stopped
        || (!ended && compiler.errors > 0);
    if !ended && !failed {
        return None;
    }
    if compiler.stopped || (!is_tested && (finished || compiler.errors > 0)) {
        counts.errors = Some(if failed { compiler.errors() } else { 0 });
        counts.warnings = Some(compiler.warnings());
    }
    Some(OutputSummary { ok: Some(!failed), counts, adds_up })
}

/// What tests counted.
#[derive(Default)]
struct TestCounts {
    /// The sum of all test binaries.
    binaries: Option<ArtifactCounts>,
    /// What nextest sums up itself.
    nextest: Option<ArtifactCounts>,
}

impl TestCounts {
    fn add_binary(&mut self, part: &str) {
        count_tested(part, self.binaries.get_or_insert_default());
    }

    /// `10 tests run: 9 passed (1 slow), 1 failed, 2 skipped`, after the colon.
    fn add_nextest(&mut self, parts: &str) {
        let counts = self.nextest.get_or_insert_default();
        parts.split(", ").for_each(|part| count_tested(part, counts));
        add_count(&mut counts.failed, 0);
    }
}

/// What the compiler printed. The output may be cut: then its own sums tell more than what is left.
#[derive(Default)]
struct CompilerCounts<'a> {
    stopped: bool,
    errors: u64,
    /// The errors that it tells of each package. A library and its tests have the same.
    errors_told: BTreeMap<&'a str, u64>,
    warnings: u64,
    warnings_told: u64,
}

impl<'a> CompilerCounts<'a> {
    fn line(&mut self, line: &'a str) {
        if let Some(told) = line.strip_prefix("error: could not compile ") {
            self.stopped = true;
            // `x` (lib) due to 2 previous errors; 1 warning emitted
            if let Some((package, told)) = told.split_once(" due to ") {
                let package = package.split(" (").next().unwrap_or(package);
                let count = leading_number(told).map_or(1, |(count, _)| count);
                let known = self.errors_told.entry(package).or_default();
                *known = count.max(*known);
            }
        } else if line.starts_with("error[") || line.starts_with("error: ") {
            self.errors += u64::from(!line.starts_with("error: aborting due to"));
        } else if let Some(told) = line.strip_prefix("warning: ") {
            match told.split_once(" generated ").and_then(|(_, told)| leading_number(told)) {
                // `3 warnings (1 duplicate)`
                Some((count, rest)) => {
                    let again = rest.split_once('(').and_then(|(_, told)| leading_number(told));
                    let again = again.filter(|(_, what)| what.starts_with("duplicate"));
                    let new = count.saturating_sub(again.map_or(0, |(again, _)| again));
                    self.warnings_told = self.warnings_told.saturating_add(new);
                }
                None => {
                    let is_sum = told.ends_with(" emitted") || told.starts_with("build failed");
                    self.warnings += u64::from(!is_sum);
                }
            }
        }
    }

    fn errors(&self) -> u64 {
        let told = self.errors_told.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
        self.errors.max(told)
    }

    fn warnings(&self) -> u64 {
        self.warnings.max(self.warnings_told)
    }
}

fn count_tested(part: &str, counts: &mut ArtifactCounts) {
    let Some((count, what)) = leading_number(part) else { return };
    match what.split(' ').next() {
        Some("passed") => add_count(&mut counts.passed, count),
        // `1 timed out`, `1 exec failed` of nextest
        Some("failed" | "timed" | "exec") => add_count(&mut counts.failed, count),
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
