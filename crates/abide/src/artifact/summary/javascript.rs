//! The output of jest, vitest, mocha, bun, node's own runner, and of the TypeScript compiler.

use abide_model::ArtifactCounts;

use super::{OutputSummary, add_count, leading_number, output_lines};

/// What the output shows. Several runs, as those of workspaces, are summed up.
pub(super) fn javascript_summary(text: &str) -> Option<OutputSummary> {
    let mut counts = ArtifactCounts::default();
    let mut suites_failed = 0_u64;
    let mut other_errors = 0_u64;
    for line in output_lines(text) {
        let line = line.trim();
        if let Some(parts) = line.strip_prefix("Tests:") {
            count_jest(parts.split(", "), &mut counts);
        } else if let Some(parts) = line.strip_prefix("Test Suites:") {
            suites_failed = suites_failed.saturating_add(failed_suites(parts.split(", ")));
        } else if let Some(parts) = line.strip_prefix("Test Files ") {
            suites_failed = suites_failed.saturating_add(failed_suites(parts.split('|')));
        } else if let Some(parts) = line.strip_prefix("Tests ") {
            count_jest(parts.split('|'), &mut counts);
        } else if let Some(part) = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ ")) {
            count_node(part, &mut counts);
        } else if let Some((count, "error" | "errors")) =
            line.strip_prefix("Errors ").and_then(leading_number)
        {
            // Of vitest: errors outside of tests.
            other_errors = other_errors.saturating_add(count);
        } else if line.contains("error TS") {
            other_errors = other_errors.saturating_add(1);
        } else {
            count_mocha(line, &mut counts);
        }
    }
    // A suite that does not load has no test that fails.
    if suites_failed > 0 && counts.failed.unwrap_or(0) == 0 {
        counts.errors = Some(suites_failed);
    }
    if other_errors > 0 {
        add_count(&mut counts.errors, other_errors);
    }
    if counts.is_empty() {
        return None;
    }
    if counts.passed.is_some() {
        add_count(&mut counts.failed, 0);
    }
    let ok = counts.failed.unwrap_or(0) == 0 && counts.errors.unwrap_or(0) == 0;
    Some(OutputSummary::of(ok, counts))
}

/// `1 failed`, `2 skipped`, `5 passed`, `8 total`, of jest and vitest.
fn count_jest<'a>(parts: impl Iterator<Item = &'a str>, counts: &mut ArtifactCounts) {
    for (count, what) in parts.filter_map(leading_number) {
        match what.split(' ').next() {
            Some("passed") => add_count(&mut counts.passed, count),
            Some("failed") => add_count(&mut counts.failed, count),
            Some("skipped" | "pending" | "todo") => add_count(&mut counts.skipped, count),
            _ => {}
        }
    }
}

fn failed_suites<'a>(parts: impl Iterator<Item = &'a str>) -> u64 {
    let failed = parts.filter_map(leading_number).filter(|(_, what)| what.starts_with("failed"));
    failed.fold(0, |sum: u64, (count, _)| sum.saturating_add(count))
}

/// `pass 3`, after `# ` or `ℹ `.
fn count_node(part: &str, counts: &mut ArtifactCounts) {
    let Some((what, count)) = part.split_once(' ') else { return };
    let Ok(count) = count.trim().parse() else { return };
    match what {
        "pass" => add_count(&mut counts.passed, count),
        "fail" | "cancelled" => add_count(&mut counts.failed, count),
        "skipped" | "todo" => add_count(&mut counts.skipped, count),
        _ => {}
    }
}

/// `12 passing (30ms)` of mocha, `5 pass` of bun.
fn count_mocha(line: &str, counts: &mut ArtifactCounts) {
    let Some((count, what)) = leading_number(line) else { return };
    let what = what.split_once(" (").filter(|(_, took)| took.ends_with("s)")).map_or(what, |w| w.0);
    match what {
        "passing" | "pass" => add_count(&mut counts.passed, count),
        "failing" | "fail" => add_count(&mut counts.failed, count),
        "pending" | "skip" => add_count(&mut counts.skipped, count),
        _ => {}
    }
}
