//! What the output of a test or a build says about it.

mod cargo;
mod go;
mod javascript;
mod python;

use abide_model::ArtifactCounts;

use super::tool::{BuildTool, OutputFormat};

/// The result that an output shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputSummary {
    pub(super) ok: bool,
    pub(super) counts: ArtifactCounts,
}

impl OutputSummary {
    /// Reads the output of a tool. `None` where it does not show how the run ended.
    pub(super) fn read(tool: &BuildTool, text: &str) -> Option<Self> {
        match tool.format {
            OutputFormat::Cargo => cargo::cargo_summary(text),
            OutputFormat::Go => go::go_summary(text),
            OutputFormat::Python => python::python_summary(text),
            OutputFormat::JavaScript => javascript::javascript_summary(text),
            OutputFormat::Any => {
                let cargo = cargo::shows_cargo(text).then(|| cargo::cargo_summary(text)).flatten();
                let others =
                    [python::python_summary, javascript::javascript_summary, go::go_test_summary];
                let found = cargo.or_else(|| others.iter().find_map(|read| read(text)));
                match found {
                    // One part may have passed where another failed.
                    Some(found) => Some(Self { ok: found.ok && !script_failed(text), ..found }),
                    None => script_failed(text)
                        .then(|| Self { ok: false, counts: ArtifactCounts::default() }),
                }
            }
        }
    }
}

/// Do `npm` or `make` say that what they ran has failed?
fn script_failed(text: &str) -> bool {
    text.lines().any(|line| {
        line.starts_with("npm ERR!")
            || line.starts_with("npm error ")
            || line.starts_with(" ELIFECYCLE ")
            || (line.contains(": *** [") && line.contains("] Error "))
            || (line.starts_with("error: script \"") && line.contains("\" exited with code"))
    })
}

/// The number at the start of a text, and what follows.
fn leading_number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest.trim_start()))
}

/// Adds to a count that may not be known yet.
fn add_count(count: &mut Option<u64>, more: u64) {
    *count = Some(count.unwrap_or(0).saturating_add(more));
}
