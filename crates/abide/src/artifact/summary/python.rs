//! The output of pytest and unittest.

use abide_model::ArtifactCounts;

use super::{OutputSummary, add_count, leading_number, output_lines};

/// What the output of pytest or unittest shows. The last summary counts.
pub(super) fn python_summary(text: &str) -> Option<OutputSummary> {
    let mut found = None;
    let mut ran = None;
    for line in output_lines(text) {
        if let Some(summary) = pytest_summary(line) {
            found = Some(summary);
        } else if let Some((count, rest)) = line.strip_prefix("Ran ").and_then(leading_number)
            && rest.starts_with("test")
        {
            ran = Some(count);
        } else if let Some(total) = ran
            && let Some(summary) = unittest_summary(line, total)
        {
            ran = None;
            found = Some(summary);
        }
    }
    found
}

/// `== 1 failed, 3 passed, 1 skipped in 0.12s ==`, with or without the frame.
fn pytest_summary(line: &str) -> Option<OutputSummary> {
    let (parts, took) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    let seconds = took.split(' ').next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    let mut counts = ArtifactCounts {
        passed: Some(0),
        failed: Some(0),
        skipped: Some(0),
        ..ArtifactCounts::default()
    };
    let mut any = false;
    for part in parts.split(", ") {
        let (count, what) = leading_number(part)?;
        let mut known = true;
        match what {
            "passed" | "xpassed" => add_count(&mut counts.passed, count),
            "failed" => add_count(&mut counts.failed, count),
            "skipped" | "xfailed" => add_count(&mut counts.skipped, count),
            "error" | "errors" => add_count(&mut counts.errors, count),
            "warning" | "warnings" => add_count(&mut counts.warnings, count),
            // `7 deselected`, `2 subtests passed`
            _ => known = false,
        }
        any |= known;
    }
    let ok = counts.failed == Some(0) && counts.errors.is_none();
    any.then_some(OutputSummary::of(ok, counts))
}

/// `OK (skipped=1)` or `FAILED (failures=1, errors=2)`, after `Ran 5 tests in 0.001s`.
fn unittest_summary(line: &str, total: u64) -> Option<OutputSummary> {
    let (word, parts) = line.trim().split_once(" (").unwrap_or((line.trim(), ""));
    let ok = match word {
        "OK" => true,
        "FAILED" => false,
        _ => return None,
    };
    let mut counts = ArtifactCounts { failed: Some(0), ..ArtifactCounts::default() };
    for part in parts.trim_end_matches(')').split(", ") {
        let Some((what, count)) = part.split_once('=') else { continue };
        let Ok(count) = count.parse() else { continue };
        match what {
            "failures" | "unexpected successes" => add_count(&mut counts.failed, count),
            "errors" => add_count(&mut counts.errors, count),
            "skipped" | "expected failures" => add_count(&mut counts.skipped, count),
            _ => {}
        }
    }
    let others = [counts.failed, counts.errors, counts.skipped];
    let others = others.into_iter().flatten().fold(0_u64, u64::saturating_add);
    counts.passed = Some(total.saturating_sub(others));
    Some(OutputSummary::of(ok, counts))
}
