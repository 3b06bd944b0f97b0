//! The table for people, as it stands in `docs/benchmarks.md`.

use std::fmt::Write;
use std::path::Path;

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::{Figure, median};
use crate::peers::entrant::{Entrant, Side};
use crate::peers::{Present, Shown};

const BEGIN: &str = "<!-- made by scripts/bench-peers: begin -->";
const END: &str = "<!-- made by scripts/bench-peers: end -->";
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
    pub(crate) fn new(file_system: String, cores: usize, bench: &Bench) -> Self {
        let day = jiff::Timestamp::now().strftime("%Y-%m-%d");
        let heading = format!(
            "Measured {day}: {} rounds, {cores} cores, {file_system}. Text: {}.",
            bench.rounds,
            bench.text().describe()
        );
        Self { heading, absent: Vec::new(), parts: Vec::new(), python: None }
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

    /// Replaces what stands between the marks.
    pub(crate) fn write_into(&self, page: &Path) -> Outcome {
        between_marks(page, [BEGIN, END], &self.to_markdown())
    }
}

/// Puts a table in the place of what stands between two marks of a page.
pub(crate) fn between_marks(page: &Path, [begin, end]: [&str; 2], table: &str) -> Outcome {
    let old = std::fs::read_to_string(page)?;
    let (before, rest) = old.split_once(begin).ok_or("the page has no mark to begin at")?;
    let (_, after) = rest.split_once(end).ok_or("the page has no mark to end at")?;
    Ok(std::fs::write(page, format!("{before}{begin}\n\n{table}\n\n{end}{after}"))?)
}

const HEAD: &str = "\
| | syncs per append | appends/s | × raw (range) | load, ms | × raw | last 200, ms | × raw | files, × text | on disk, × text | load with start, ms |
| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |
";

fn row(present: &Present, shown: &Shown) -> String {
    let title = present.entrant.title;
    let version = present.about.version.as_deref().map_or(String::new(), |v| format!(" {v}"));
    let syncs = present.syncs.map_or_else(|| "not counted".to_owned(), short);
    let ratios = shown.append.ratios();
    let (least, most) = ratios
        .iter()
        .fold((f64::INFINITY, 0_f64), |(least, most), &ratio| (least.min(ratio), most.max(ratio)));
    let cells = [
        format!("{title}{version}"),
        syncs,
        short(shown.append.median()),
        format!("{} ({}–{})", short(median(&ratios)), short(least), short(most)),
        short(shown.load.median()),
        short(median(&shown.load.ratios())),
        short(shown.last.median()),
        short(median(&shown.last.ratios())),
        short(shown.size.median()),
        short(shown.room.median()),
        short(shown.whole.median()),
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// Three digits that mean something, whole numbers whole, thousands apart.
pub(crate) fn short(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { 2 - value.abs().log10().floor() as i32 };
    match usize::try_from(digits) {
        _ if value >= 1000.0 => {
            let whole = value.round() as u64;
            format!("{},{:03}", whole / 1000, whole % 1000)
        }
        Ok(0) | Err(_) => format!("{value:.0}"),
        Ok(_) if value.fract() == 0.0 => format!("{value:.0}"),
        Ok(digits) => format!("{value:.digits$}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 1.0, 0.012_34, 0.98, 1.234, 45.67, 580.4, 12_345.6].map(short);
        assert_eq!(shown, ["0", "1", "0.0123", "0.980", "1.23", "45.7", "580", "12,346"]);
    }

    #[test]
    fn the_table_takes_the_place_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("page.md");
        std::fs::write(&page, format!("above\n{BEGIN}\nold\n{END}\nbelow\n")).unwrap();
        let table = Table {
            heading: "new".to_owned(),
            absent: Vec::new(),
            parts: vec!["part\n\n".to_owned()],
            python: None,
        };
        for _ in 0..2 {
            table.write_into(&page).unwrap();
            let text = std::fs::read_to_string(&page).unwrap();
            assert_eq!(text, format!("above\n{BEGIN}\n\nnew\n\npart\n\n{END}\nbelow\n"));
        }
    }
}
