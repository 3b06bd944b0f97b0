//! The output of `go test`, `go build` and `go vet`.

use abide_model::ArtifactCounts;

use super::{OutputSummary, add_count, output_lines};

/// What the output of go shows. Only `-v` names tests that pass, so that their number is not
/// always known. A build that succeeds prints nothing.
pub(super) fn go_summary(text: &str) -> Option<OutputSummary> {
    if let Some(tested) = go_test_summary(text) {
        return Some(tested);
    }
    let errors = output_lines(text).filter(|line| is_go_error(line)).count() as u64;
    let counts = ArtifactCounts { errors: Some(errors), ..ArtifactCounts::default() };
    (errors > 0).then(|| OutputSummary::of(false, counts))
}

/// What the output of `go test` shows.
pub(super) fn go_test_summary(text: &str) -> Option<OutputSummary> {
    let mut counts = ArtifactCounts::default();
    let (mut ended, mut failed) = (false, false);
    for line in output_lines(text) {
        // Parts of a test are indented, and count with it.
        if let Some(test) = line.strip_prefix("--- ") {
            match test.split(':').next() {
                Some("PASS") => add_count(&mut counts.passed, 1),
                Some("FAIL") => add_count(&mut counts.failed, 1),
                Some("SKIP") => add_count(&mut counts.skipped, 1),
                _ => {}
            }
        } else if line.starts_with("ok  \t") || line == "PASS" {
            ended = true;
        } else if line == "FAIL" || line.starts_with("FAIL\t") {
            ended = true;
            failed = true;
            if line.ends_with("[build failed]") || line.ends_with("[setup failed]") {
                add_count(&mut counts.errors, 1);
            }
        }
    }
    if counts.passed.is_some() {
        add_count(&mut counts.failed, 0);
    }
    failed |= counts.failed.is_some_and(|count| count > 0);
    (ended || failed).then_some(OutputSummary { ok: Some(!failed), counts, adds_up: true })
}

/// `./main.go:3:5: undefined: x`, or with `vet: ` before it.
fn is_go_error(line: &str) -> bool {
    let Some((file, place)) = line.split_once(".go:") else { return false };
    let is_number = |text: Option<&str>| {
        text.is_some_and(|text| !text.is_empty() && text.parse::<u64>().is_ok())
    };
    let mut place = place.split(':');
    !file.starts_with([' ', '\t']) && is_number(place.next()) && place.next().is_some()
}
