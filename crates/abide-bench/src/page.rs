//! The page whose tables are made: each stands between two marks.

use std::path::PathBuf;

use crate::Outcome;
use crate::bench::Scale;
use crate::figure::{Figure, median};

/// Where tables go.
#[derive(Debug, Clone)]
pub(crate) enum Page {
    File(PathBuf),
    /// To people, on stderr.
    Screen,
}

impl Page {
    /// A table of a quick run is not for the page.
    pub(crate) fn of(scale: Scale, path: Option<&PathBuf>) -> Self {
        match path.filter(|_| scale == Scale::Full) {
            Some(path) => Self::File(path.clone()),
            None => Self::Screen,
        }
    }

    /// Puts a table in the place of the one with this name.
    pub(crate) fn write(&self, name: &str, table: &str) -> Outcome {
        let Self::File(path) = self else {
            eprintln!("\n{}\n", table.trim_end());
            return Ok(());
        };
        let [begin, end] = ["begin", "end"]
            .map(|at| format!("<!-- made by scripts/bench-peers, {name}: {at} -->"));
        let old = std::fs::read_to_string(path)?;
        let missing = || format!("the page has no place for the table {name}");
        let (before, rest) = old.split_once(&begin).ok_or_else(missing)?;
        let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
        let table = table.trim_end();
        Ok(std::fs::write(path, format!("{before}{begin}\n\n{table}\n\n{end}{after}"))?)
    }
}

/// What stands in a cell for what was not measured.
pub(crate) const NOTHING: &str = "–";

/// A row of a table.
pub(crate) fn table_row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// The head of a table: the first columns hold words, the others numbers.
pub(crate) fn table_head(titles: &[&str], words: usize) -> String {
    let lines = (0..titles.len()).map(|column| if column < words { "---" } else { "--:" });
    let lines: Vec<&str> = lines.collect();
    format!("| {} |\n| {} |\n", titles.join(" | "), lines.join(" | "))
}

/// A figure's median.
pub(crate) fn value_cell(figure: Option<&Figure>) -> String {
    figure.map_or_else(|| NOTHING.to_owned(), |figure| short(figure.median()))
}

/// The median of a figure's ratios.
pub(crate) fn ratio_cell(figure: Option<&Figure>) -> String {
    figure.map_or_else(|| NOTHING.to_owned(), |figure| short(median(&figure.ratios())))
}

/// The same, with what is wanted of it.
pub(crate) fn aim_cell(figure: Option<&Figure>) -> String {
    figure.map_or_else(
        || NOTHING.to_owned(),
        |figure| match figure.aim() {
            Some(aim) => format!("{} ({aim})", short(median(&figure.ratios()))),
            None => short(median(&figure.ratios())),
        },
    )
}

/// The median of what a figure is set against.
pub(crate) fn raw_cell(figure: Option<&Figure>) -> String {
    figure.map_or_else(|| NOTHING.to_owned(), |figure| short(figure.raw_median()))
}

/// The median of ratios, and from where to where they go.
pub(crate) fn range_cell(ratios: &[f64]) -> String {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    format!("{} ({}–{})", short(median(ratios)), short(least), short(most))
}

/// Three digits that mean something, whole numbers whole, thousands apart.
pub(crate) fn short(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if value >= 999.5 {
        let whole = value.round() as u64;
        let (millions, thousands, ones) = (whole / 1_000_000, whole / 1000 % 1000, whole % 1000);
        return match millions {
            0 => format!("{thousands},{ones:03}"),
            _ => format!("{millions},{thousands:03},{ones:03}"),
        };
    }
    let digits = if value == 0.0 { 0 } else { 2 - value.abs().log10().floor() as i32 };
    match usize::try_from(digits) {
        Ok(0) | Err(_) => format!("{value:.0}"),
        Ok(_) if value.fract() == 0.0 => format!("{value:.0}"),
        Ok(digits) => format!("{value:.digits$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 1.0, 0.012_34, 0.98, 1.234, 45.67, 580.4, 999.7, 12_345.6, 1e6, f64::NAN];
        let wanted = [
            "0",
            "1",
            "0.0123",
            "0.980",
            "1.23",
            "45.7",
            "580",
            "1,000",
            "12,346",
            "1,000,000",
            "–",
        ];
        assert_eq!(shown.map(short), wanted);
    }

    #[test]
    fn the_table_takes_the_place_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.md");
        let marked = |table: &str| {
            let [begin, end] = ["begin", "end"]
                .map(|at| format!("<!-- made by scripts/bench-peers, turns: {at} -->"));
            format!("above\n{begin}\n{table}\n{end}\nbelow\n")
        };
        std::fs::write(&path, marked("old")).unwrap();
        let page = Page::File(path.clone());
        for _ in 0..2 {
            page.write("turns", "new\n\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), marked("\nnew\n"));
        }
        let error = page.write("other", "new").unwrap_err().to_string();
        assert_eq!(error, "the page has no place for the table other");
    }
}
