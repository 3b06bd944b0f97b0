//! A table on a terminal: columns fit their contents. The last one is cut to fit, or the first one if
//! it holds names.

use unicode_width::UnicodeWidthChar;

/// The style of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableColour {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
    /// Text that was searched for.
    Found,
}

impl TableColour {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Cyan => "36",
            Self::Found => "1;33",
        }
    }

    /// The text in this colour, if colours are shown.
    pub(crate) fn paint(self, text: &str, coloured: bool) -> String {
        let code = self.code();
        if !coloured || code.is_empty() || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// A text in a column.
#[derive(Debug, Clone)]
pub(crate) struct TableCell {
    text: String,
    colour: TableColour,
}

impl TableCell {
    pub(crate) const fn new(text: String, colour: TableColour) -> Self {
        Self { text, colour }
    }

    pub(crate) const fn plain(text: String) -> Self {
        Self::new(text, TableColour::Plain)
    }
}

enum TableLine<const N: usize> {
    Row([TableCell; N]),
    Note(Vec<(String, TableColour)>),
}

/// Rows, with notes below them.
pub(crate) struct TextTable<const N: usize> {
    heading: [&'static str; N],
    right: Vec<usize>,
    hidden: Vec<usize>,
    lines: Vec<TableLine<N>>,
    width: usize,
    coloured: bool,
    cut: CutColumn,
    /// How many columns are kept by cutting the names further, where these are cut.
    kept: usize,
}

/// Which column is cut to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutColumn {
    Last,
    /// The first, which holds names. If the others still do not fit, the last ones are left out.
    Name,
}

/// The maximum width of every column but the one that is cut.
const WIDEST: usize = 24;
/// The maximum width of a column of names.
const NAME: usize = 60;
/// The width below which a column of names is not cut.
const SHORT_NAME: usize = 30;
/// The same if a column that is kept would be left out.
const SHORTEST_NAME: usize = 12;
/// How much of a text stays visible behind a match.
const BEHIND_MATCH: usize = 8;

impl<const N: usize> TextTable<N> {
    /// A table for the terminal at stdout.
    pub(crate) fn new(heading: [&'static str; N]) -> Self {
        let width = rustix::termios::tcgetwinsize(std::io::stdout())
            .ok()
            .map(|size| usize::from(size.ws_col))
            .filter(|width| *width >= 40);
        let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self::of_width(heading, width.unwrap_or(120), coloured)
    }

    /// The same, with names in the first column.
    pub(crate) fn led_by_name(heading: [&'static str; N]) -> Self {
        Self { cut: CutColumn::Name, ..Self::new(heading) }
    }

    /// A table of this width, with names in the first column, without colours.
    #[cfg(test)]
    pub(crate) fn led_by_name_of_width(heading: [&'static str; N], width: usize) -> Self {
        Self { cut: CutColumn::Name, ..Self::of_width(heading, width, false) }
    }

    fn of_width(heading: [&'static str; N], width: usize, coloured: bool) -> Self {
        let (right, hidden, lines) = (Vec::new(), Vec::new(), Vec::new());
        let cut = CutColumn::Last;
        Self { heading, right, hidden, lines, width, coloured, cut, kept: 0 }
    }

    /// Keeps the first columns, so many of them, even if names are then cut further.
    pub(crate) fn keeping(mut self, columns: usize) -> Self {
        self.kept = columns;
        self
    }

    /// Right-aligns these columns (numbers).
    pub(crate) fn right(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.right.extend(columns);
        self
    }

    /// Hides these columns.
    pub(crate) fn without(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.hidden.extend(columns);
        self
    }

    pub(crate) fn row(&mut self, cells: [TableCell; N]) {
        self.lines.push(TableLine::Row(cells));
    }

    /// Adds a line below the last row.
    pub(crate) fn note(&mut self, label: &str, parts: &[(String, TableColour)]) {
        let mut note = vec![(format!("    {label}"), TableColour::Dim)];
        note.extend(parts.iter().cloned());
        self.lines.push(TableLine::Note(note));
    }

    /// The lines, cut to the width of the terminal.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut widths: [usize; N] = self.heading.map(table_width_of);
        for line in &self.lines {
            if let TableLine::Row(cells) = line {
                for (column, (widest, cell)) in widths.iter_mut().zip(cells).enumerate() {
                    let names = column == 0 && self.cut == CutColumn::Name;
                    let most = if names { NAME } else { WIDEST };
                    *widest = (*widest).max(table_width_of(&cell.text)).min(most);
                }
            }
        }
        if self.cut == CutColumn::Name {
            self.fit_name(&mut widths);
        }
        let heading = self.heading.map(|text| TableCell::new(text.to_owned(), TableColour::Dim));
        let mut lines = vec![self.shown_row(&heading, &widths)];
        for line in &self.lines {
            lines.push(match line {
                TableLine::Row(cells) => self.shown_row(cells, &widths),
                TableLine::Note(parts) => self.shown_parts(&self.around_match(parts)),
            });
        }
        lines
    }

    /// Cuts the names so that the other columns fit, but not below a width at which they are read.
    /// Where the last columns are left out, the names have their place.
    fn fit_name(&self, widths: &mut [usize; N]) {
        let shown = widths.iter().enumerate().skip(1).filter(|(at, _)| !self.hidden.contains(at));
        let others: Vec<(usize, usize)> = shown.map(|(at, width)| (at, width + 2)).collect();
        let Some(name) = widths.first_mut() else { return };
        let mut kept = 0;
        for (column, width) in others {
            let least = if column < self.kept { SHORTEST_NAME } else { SHORT_NAME };
            if kept + width > self.width.saturating_sub((*name).min(least)) {
                break;
            }
            kept += width;
        }
        let least = (*name).min(SHORTEST_NAME);
        *name = (*name).min(self.width.saturating_sub(kept).max(least));
    }

    fn shown_row(&self, cells: &[TableCell; N], widths: &[usize; N]) -> String {
        let mut parts = Vec::with_capacity(2 * N);
        let mut used = 0;
        for (column, (cell, wanted)) in cells.iter().zip(widths).enumerate() {
            if self.hidden.contains(&column) {
                continue;
            }
            if self.cut == CutColumn::Name && column > 0 && used + wanted > self.width {
                break;
            }
            used += wanted + 2;
            if column + 1 == N && self.cut == CutColumn::Last {
                parts.push((cell.text.clone(), cell.colour));
                break;
            }
            let text = cut_to_column(&cell.text, *wanted);
            let room = " ".repeat(wanted.saturating_sub(table_width_of(&text)));
            if self.right.contains(&column) {
                parts.push((room, TableColour::Plain));
                parts.push((text, cell.colour));
                parts.push(("  ".to_owned(), TableColour::Plain));
            } else {
                parts.push((text, cell.colour));
                parts.push((format!("{room}  "), TableColour::Plain));
            }
        }
        // The gap behind the last column is not cut: there is nothing in it.
        while parts.last().is_some_and(|(text, _)| text.trim().is_empty()) {
            parts.pop();
        }
        self.shown_parts(&parts)
    }

    /// The parts of a note, without the beginning of its text if the first match would not be visible.
    fn around_match(&self, parts: &[(String, TableColour)]) -> Vec<(String, TableColour)> {
        let mut parts = parts.to_vec();
        let found = parts.iter().position(|(_, colour)| *colour == TableColour::Found);
        // The label stays.
        let Some(at) = found.filter(|at| *at >= 2) else { return parts };
        let width = |parts: Option<&[(String, TableColour)]>| -> usize {
            parts.unwrap_or_default().iter().map(|(text, _)| table_width_of(text)).sum()
        };
        let (to_end, behind) = (width(parts.get(..=at)), width(parts.get(at + 1..)));
        let over = (to_end + behind.min(BEHIND_MATCH)).saturating_sub(self.width);
        if over == 0 {
            return parts;
        }
        if let Some((text, _)) = parts.get_mut(at - 1) {
            *text = without_beginning(text, over + 1);
        }
        parts
    }

    fn shown_parts(&self, parts: &[(String, TableColour)]) -> String {
        let mut left = self.width;
        let mut line = String::new();
        for (text, colour) in parts {
            let text = cut_to_column(text, left);
            left -= table_width_of(&text);
            if text.is_empty() {
                continue;
            }
            line.push_str(&colour.paint(&text, self.coloured));
        }
        line.trim_end().to_owned()
    }
}

/// The width of a text in columns.
pub(crate) fn table_width_of(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// A text without so many columns of its beginning, and `…` in their place.
fn without_beginning(text: &str, columns: usize) -> String {
    let mut dropped = 0;
    let mut rest = text.chars();
    while dropped < columns
        && let Some(c) = rest.next()
    {
        dropped += c.width().unwrap_or(0);
    }
    format!("…{}", rest.as_str())
}

/// As much of a text as fits, with `…` for the rest.
pub(crate) fn cut_to_column(text: &str, most: usize) -> String {
    if table_width_of(text) <= most {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(1);
    let mut kept = String::new();
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if wide > room {
            break;
        }
        room -= wide;
        kept.push(c);
    }
    if most > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_what_is_in_them_and_the_last_is_cut() {
        let mut table = TextTable::of_width(["ID", "N", "TITLE"], 30, false).right([1]);
        let plain = |text: &str| TableCell::plain(text.to_owned());
        table.row([plain("日本"), plain("7"), plain("a title that is far too long")]);
        table.note(
            "turn 1: ",
            &[("some text that is too long as well".to_owned(), TableColour::Found)],
        );
        table.row([plain("b"), plain("123"), plain("short")]);
        assert_eq!(
            table.lines(),
            [
                "ID      N  TITLE",
                "日本    7  a title that is fa…",
                "    turn 1: some text that is…",
                "b     123  short",
            ]
        );
        table.coloured = true;
        assert!(table.lines()[2].contains("\x1b[1;33msome text that is…\x1b[0m"));
    }

    #[test]
    fn a_match_stays_visible_where_its_line_is_cut() {
        let line = |width: usize, before: &str, behind: &str| {
            let mut table = TextTable::of_width(["NAME"], width, false);
            let parts = [
                (before.to_owned(), TableColour::Plain),
                ("match".to_owned(), TableColour::Found),
                (behind.to_owned(), TableColour::Plain),
            ];
            table.note("@1: ", &parts);
            table.lines()[1].clone()
        };
        let before = "a text that is long before it ";
        assert_eq!(line(60, before, " end"), "    @1: a text that is long before it match end");
        assert_eq!(line(36, before, " and more of it"), "    @1: …ong before it match and mo…");
        assert_eq!(line(40, before, ""), "    @1: …xt that is long before it match");
    }

    #[test]
    fn names_are_cut_and_then_the_last_columns_are_left_out() {
        let lines = |width: usize| {
            let mut table = TextTable::of_width(["NAME", "ID", "AGENT", "N"], width, false);
            table.cut = CutColumn::Name;
            let mut table = table.right([3]);
            let plain = |text: &str| TableCell::plain(text.to_owned());
            let name = "日本語のとても長い名前です、これは長すぎる";
            table.row([plain(name), plain("k3x9ab"), plain("coder"), plain("7")]);
            table.row([plain("short"), plain("abcdef"), plain(""), plain("12")]);
            table.lines()
        };
        assert_eq!(
            lines(100),
            [
                "NAME                                        ID      AGENT   N",
                "日本語のとても長い名前です、これは長すぎる  k3x9ab  coder   7",
                "short                                       abcdef         12",
            ]
        );
        assert_eq!(
            lines(40),
            [
                "NAME                              ID",
                "日本語のとても長い名前です、こ…   k3x9ab",
                "short                             abcdef",
            ]
        );
    }
}
