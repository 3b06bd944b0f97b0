//! The table of many sessions and many threads at once, and of a long session.

use crate::bench::Bench;
use crate::page::{ratio_cell, table_head, table_row, value_cell};

const TITLES: [&str; 9] = [
    "on",
    "64 sessions: appends/s",
    "× 64 raw files",
    "× 64 raw files, extended",
    "64 threads, one session: appends/s",
    "× one raw file",
    "× one raw file, extended",
    "append at 1,000,000 events, µs",
    "× at 1,000",
];

/// A row for each file system.
#[derive(Debug)]
pub(crate) struct ManyTable(String);

impl ManyTable {
    pub(crate) fn new(heading: &str) -> Self {
        Self(format!("{heading}\n\n{}", table_head(&TITLES, 1)))
    }

    /// What was measured there.
    pub(crate) fn add(&mut self, title: &str, bench: &Bench) {
        let mut cells = vec![title.to_owned()];
        for name in ["append.sessions64", "append.shared64"] {
            let figure = bench.figure(name);
            cells.push(value_cell(figure.as_ref()));
            cells.push(ratio_cell(figure.as_ref()));
            cells.push(ratio_cell(bench.figure(&format!("{name}.extended")).as_ref()));
        }
        let million = bench.figure("append.million");
        cells.extend([value_cell(million.as_ref()), ratio_cell(million.as_ref())]);
        self.0.push_str(&table_row(&cells));
    }

    pub(crate) fn to_markdown(&self, absent: &[String]) -> String {
        let mut text = self.0.clone();
        for line in absent {
            text.push_str(&format!("\n{line}\n"));
        }
        text
    }
}
