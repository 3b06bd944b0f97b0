//! The tables of the shared store.

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::{Figure, median};
use crate::machine::measured;
use crate::page::{NOTHING, short, table_head, table_row, value_cell};
use crate::shared::{LOADED, SESSIONS, Shown};

/// What everybody has shown on the server.
pub(crate) struct SharedTable<'a> {
    /// Of the server.
    pub(crate) version: String,
    pub(crate) ours: &'a Shown,
    /// Each with its name.
    pub(crate) theirs: Vec<(String, &'a Shown)>,
    /// A line for each that was not run.
    pub(crate) absent: Vec<String>,
}

impl SharedTable<'_> {
    pub(crate) fn to_markdown(&self, bench: &Bench) -> Outcome<String> {
        let mut text = format!("{} PostgreSQL {}, `fsync` on.\n\n", measured(bench)?, self.version);
        for line in &self.absent {
            text.push_str(&format!("{line}\n\n"));
        }
        let sessions = format!("{SESSIONS} sessions, appends/s");
        let [few, many] = LOADED.map(|count| format!("load {}, ms", short(count as f64)));
        let titles = ["1 session, appends/s", &sessions, &few, &many, "bytes on disk, × text"];
        let titles: Vec<&str> = titles.into_iter().flat_map(|title| [title, "× abide"]).collect();
        text.push_str(&table_head(&[&[""], titles.as_slice()].concat(), 1));
        text.push_str(&self.bare());
        text.push_str(&row("**abide**", self.ours, |_| "1".to_owned()));
        for (title, shown) in &self.theirs {
            // They are set against abide, in the same round.
            text.push_str(&row(title, shown, |figure| short(median(&figure.ratios()))));
        }
        text.push_str(&team(bench));
        Ok(text)
    }

    /// What ours is set against.
    fn bare(&self) -> String {
        let mut cells = vec!["bare".to_owned()];
        for figure in [&self.ours.append, &self.ours.sessions] {
            cells.extend([short(figure.raw_median()), short(1.0 / median(&figure.ratios()))]);
        }
        cells.resize(11, NOTHING.to_owned());
        table_row(&cells)
    }
}

fn row(title: &str, shown: &Shown, against: impl Fn(&Figure) -> String) -> String {
    let Shown { append, sessions, loads: [few, many], bytes } = shown;
    let figures = [append, sessions, few, many, bytes];
    let cells = figures.into_iter().flat_map(|figure| [short(figure.median()), against(figure)]);
    let cells: Vec<String> = std::iter::once(title.to_owned()).chain(cells).collect();
    table_row(&cells)
}

/// The table of a team's store.
fn team(bench: &Bench) -> String {
    let names = ["history", "search", "open", "context"];
    let figures = names.map(|name| bench.figure(&format!("shared.team.{name}")));
    let Some(sessions) = figures[0].as_ref().and_then(|figure| figure.noted("sessions")) else {
        return String::new();
    };
    let titles = names.map(|name| format!("{name}, ms"));
    let count = format!("{} sessions", short(sessions));
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let mut cells = vec!["abide".to_owned()];
    cells.extend(figures.iter().map(|figure| value_cell(figure.as_ref())));
    let head = table_head(&[&[count.as_str()], titles.as_slice()].concat(), 1);
    format!("\n{head}{}", table_row(&cells))
}
