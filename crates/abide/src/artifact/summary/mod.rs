//! What the output of a test or a build says about it.

mod cargo;
mod go;
mod javascript;
mod python;

use abide_model::ArtifactCounts;

use super::shell::OutputCut;
use super::tool::{BuildTool, OutputFormat};

/// The result that an output shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputSummary {
    /// `None` if the output shows only that it ran.
    pub(super) ok: Option<bool>,
    pub(super) counts: ArtifactCounts,
    /// The counts are added up over the output, so that a part of it has too few.
    adds_up: bool,
}

impl OutputSummary {
    /// Reads the output of a tool. `None` where it does not show how the run ended. `others` are
    /// the formats of other runs in the same output.
    pub(super) fn read(tool: &BuildTool, others: &[OutputFormat], text: &str) -> Option<Self> {
        match tool.format {
            OutputFormat::Cargo => cargo::cargo_summary(tool.kind, text),
            OutputFormat::Go => go::go_summary(text),
            OutputFormat::Python => python::python_summary(text),
            OutputFormat::JavaScript => javascript::javascript_summary(text),
            OutputFormat::Any => {
                let is_free = |format: OutputFormat| !others.contains(&format);
                let cargo = || {
                    let shows = is_free(OutputFormat::Cargo) && cargo::shows_cargo(text);
                    shows.then(|| cargo::cargo_summary(tool.kind, text)).flatten()
                };
                let one = |format, read: fn(&str) -> Option<Self>| {
                    is_free(format).then(|| read(text)).flatten()
                };
                let found = cargo()
                    .or_else(|| one(OutputFormat::Python, python::python_summary))
                    .or_else(|| one(OutputFormat::JavaScript, javascript::javascript_summary))
                    .or_else(|| one(OutputFormat::Go, go::go_test_summary));
                match found {
                    // One part may have passed where another failed.
                    Some(found) if script_failed(text) => Some(Self { ok: Some(false), ..found }),
                    None if script_failed(text) => Some(Self::of(false, ArtifactCounts::default())),
                    found => found,
                }
            }
        }
    }

    fn of(ok: bool, counts: ArtifactCounts) -> Self {
        Self { ok: Some(ok), counts, adds_up: false }
    }

    /// The same, where only so much of the output is there.
    pub(super) fn of_cut(mut self, cut: OutputCut) -> Self {
        if !self.adds_up || cut == OutputCut::Whole {
            return self;
        }
        self.counts.passed = None;
        self.counts.skipped = None;
        self.counts.failed = self.counts.failed.filter(|count| *count > 0);
        if cut == OutputCut::Part {
            self.ok = self.ok.filter(|ok| !ok);
        }
        self
    }
}

/// The lines of an output. What a carriage return overwrites is a line, too.
fn output_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '\r'])
}

/// Do `npm` or `make` say that what they ran has failed?
fn script_failed(text: &str) -> bool {
    output_lines(text).any(|line| {
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
