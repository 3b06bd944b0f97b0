//! The table for people, as it stands in `docs/benchmarks.md`.

use std::fmt::Write;

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::{Figure, median};
use crate::machine::measured;
use crate::page::{range_cell, short, table_row};
use crate::peers::entrant::{Entrant, Side};
use crate::peers::{Present, Shown};

/// Times that differ by less are called level.
const NOISE: f64 = 1.05;

/// What is said about a run.
#[derive(Debug)]
pub(crate) struct Table {
    heading: String,
    absent: Vec<String>,
    parts: Vec<String>,
    python: Option<String>,
}

impl Table {
    pub(crate) fn new(bench: &Bench) -> Outcome<Self> {
        let heading = format!("{} Text: {}.", measured(bench)?, bench.text().describe());
        Ok(Self { heading, absent: Vec::new(), parts: Vec::new(), python: None })
    }

    pub(crate) fn absent(&mut self, entrant: &Entrant, reason: &str) {
        self.absent.push(format!("Not run: {}: {reason}.", entrant.title));
    }

    /// A table for one number of messages.
    pub(crate) fn add(&mut self, count: usize, rows: Vec<(&Present, Shown)>) {
        let mut part = format!("### {} messages\n\n{HEAD}", short(count as f64));
        for (present, shown) in &rows {
            self.python = self.python.take().or_else(|| present.about.python.clone());
            part.push_str(&row(present, shown));
        }
        let sum = |of: fn(&Shown) -> usize| rows.iter().map(|(_, shown)| of(shown)).sum::<usize>();
        let (repeated, unsteady) = (sum(|shown| shown.repeated), sum(|shown| shown.unsteady));
        let _ = writeln!(
            part,
            "\nAppend runs done again because the disk was unsteady: {repeated}; counted though it \
             was: {unsteady}.\n"
        );
        for name in ["abide", "abide-pipe"] {
            part.push_str(&behind(name, &rows));
        }
        self.parts.push(part);
    }

    pub(crate) fn to_markdown(&self) -> String {
        let mut text = self.heading.clone();
        if let Some(python) = &self.python {
            text.push_str(&format!(" Python {python}."));
        }
        for part in self.absent.iter().chain(&self.parts) {
            text.push_str("\n\n");
            text.push_str(part.trim_end());
        }
        text
    }
}

const HEAD: &str = "\
| | syncs per append | appends/s | × raw (range) | load, ms | × raw | last 200, ms | × raw | files, × text | on disk, × text | load with start, ms |
| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |
";

fn row(present: &Present, shown: &Shown) -> String {
    let title = present.entrant.title;
    let version = present.about.version.as_deref().map_or(String::new(), |v| format!(" {v}"));
    let syncs = present.syncs.map_or_else(|| "not counted".to_owned(), short);
    let cells = [
        format!("{title}{version}"),
        syncs,
        short(shown.append.median()),
        range_cell(&shown.append.ratios()),
        short(shown.load.median()),
        short(median(&shown.load.ratios())),
        short(shown.last.median()),
        short(median(&shown.last.ratios())),
        short(shown.size.median()),
        short(shown.room.median()),
        short(shown.whole.median()),
    ];
    table_row(&cells)
}

/// In what who is better than `name`, of those in the same language.
fn behind(name: &str, rows: &[(&Present, Shown)]) -> String {
    type Get = fn(&Shown) -> f64;
    // Larger is better in all of them. Bytes have no noise.
    let subjects: [(&str, f64, Get); 4] = [
        ("append", NOISE, |shown| median(&shown.append.ratios())),
        ("load", NOISE, |shown| 1.0 / median(&shown.load.ratios())),
        ("last 200", NOISE, |shown| 1.0 / median(&shown.last.ratios())),
        ("files", 1.0, |shown| 1.0 / Figure::median(&shown.size)),
    ];
    let Some((own, ours)) = rows.iter().find(|(present, _)| present.entrant.name == name) else {
        return String::new();
    };
    let mut text = String::new();
    for (subject, noise, get) in subjects {
        let better: Vec<String> = rows
            .iter()
            .filter(|(peer, _)| peer.entrant.side == Side::Theirs)
            .filter(|(peer, _)| !own.entrant.is_python() || peer.entrant.is_python())
            .map(|(peer, theirs)| (peer, get(theirs) / get(ours)))
            .filter(|(_, factor)| *factor > noise)
            .map(|(peer, factor)| format!("{} ({} ×)", peer.entrant.title, short(factor)))
            .collect();
        if !better.is_empty() {
            let _ = writeln!(text, "- {subject}: {}", better.join(", "));
        }
    }
    let title = own.entrant.title;
    if text.is_empty() {
        return format!("Ahead of {title}: nobody.\n\n");
    }
    format!("Ahead of {title}:\n\n{text}\n")
}
