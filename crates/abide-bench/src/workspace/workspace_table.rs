//! The tables of snapshots and restores.

use crate::Outcome;
use crate::bench::Bench;
use crate::machine::measured;
use crate::page::{aim_cell, raw_cell, short, table_head, table_row, value_cell};

/// The rows, and the figure of each.
const ROWS: [(&str, &str); 9] = [
    ("nothing changed / bare walk", "unchanged.walk"),
    ("nothing changed / shadow git", "unchanged.git"),
    ("ten changed, durable / bare walk", "ten.walk"),
    ("ten changed, durable / shadow git", "ten.git"),
    ("first, synced / shadow git", "first.git"),
    ("first, synced / BLAKE3 and zstd 1 of the same bytes", "first.bare"),
    ("ten restored with the snapshot before / `git reset --hard`", "restore.ten.git"),
    ("full restore / `git checkout`, two workers", "restore.full.git"),
    ("size / shadow git after gc", "size.git"),
];

/// A column for each tree; below it, what is measured on no tree or on one.
pub(crate) fn workspace_table(bench: &Bench, trees: &[&str]) -> Outcome<String> {
    let mut text = format!("{}\n\n", measured(bench)?);
    let figure = |tree: &str, name: &str| bench.figure(&format!("workspace.{tree}.{name}"));
    let titles: Vec<String> = trees
        .iter()
        .map(|tree| {
            let files = figure(tree, "first.git").and_then(|figure| figure.noted("files"));
            files.map_or_else(|| (*tree).to_owned(), |files| format!("{} files", short(files)))
        })
        .collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    text.push_str(&table_head(&[&[""], titles.as_slice()].concat(), 1));
    for (title, name) in ROWS {
        let cells = trees.iter().map(|tree| aim_cell(figure(tree, name).as_ref()));
        let cells: Vec<String> = std::iter::once(title.to_owned()).chain(cells).collect();
        text.push_str(&table_row(&cells));
    }
    let others =
        ["turns", "checkpoints"].map(|group| bench.figures(&format!("workspace.{group}.")));
    let others = others.concat();
    if !others.is_empty() {
        text.push('\n');
        text.push_str(&table_head(&["figure", "unit", "abide", "beside", "ratio"], 2));
    }
    for figure in &others {
        let name = figure.name().trim_start_matches("workspace.");
        text.push_str(&table_row(&[
            format!("`{name}`"),
            figure.unit().to_owned(),
            value_cell(Some(figure)),
            raw_cell(Some(figure)),
            aim_cell(Some(figure)),
        ]));
    }
    Ok(text)
}
