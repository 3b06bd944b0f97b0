//! The table of appends on each file system.

use crate::figure::median;
use crate::page::{NOTHING, range_cell, short, table_head, table_row, value_cell};
use crate::peers::appends::PlaceAppends;
use crate::peers::entrant::SQLITE;

const TITLES: [&str; 8] = [
    "messages",
    "",
    "appends/s",
    "× raw (range)",
    "× raw extended (range)",
    "× SQLite in Rust",
    "device KiB per append",
    "device writes per append",
];

/// The table of one file system.
pub(crate) fn append_table(title: &str, PlaceAppends { rows, left_out }: &PlaceAppends) -> String {
    let mut text = format!("### On {title}\n\n{}", table_head(&TITLES, 2));
    for row in rows {
        let sqlite = rows.iter().find(|other| other.count == row.count && other.title == SQLITE);
        // In the same round.
        let against = sqlite.map(|sqlite| short(median(&row.growing.over(&sqlite.growing))));
        text.push_str(&table_row(&[
            short(row.count as f64),
            row.title.to_owned(),
            short(row.growing.median()),
            range_cell(&row.growing.ratios()),
            range_cell(&row.extended.ratios()),
            against.unwrap_or_else(|| NOTHING.to_owned()),
            value_cell(row.kib.as_ref()),
            value_cell(row.writes.as_ref()),
        ]));
    }
    if let Some(sentence) = left_out {
        text.push_str(&format!("\n{sentence}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_was_left_out() {
        let left_out = Some("Not run: 100,000 messages: it takes long.".to_owned());
        let table = append_table("btrfs", &PlaceAppends { rows: Vec::new(), left_out });
        assert!(table.ends_with("|\n\nNot run: 100,000 messages: it takes long.\n"), "{table}");
    }
}
