//! Renders prose and code for a terminal, plain or coloured.
//!
//! Recorded text is made visible before it is wrapped: the only control sequences are our own, none
//! reaches over the end of a line, and in plain style there are none. Lines of code are not wrapped,
//! so that they can be copied.

use std::fmt::Write;
use std::ops::Range;

use crate::columns::{column_width, cut_columns, expand_tabs, wrapped_ranges};
use crate::highlight::{CodeKind, highlight_code};
use crate::prose::{
    CellAlignment, ProseBlock, ProseItem, ProseList, ProseSpan, ProseTable, TaskMark, linked_spans,
    spans_show_address,
};
use crate::text_renderer::TextStyle;
use crate::visible;

/// Text is never wrapped to fewer columns.
const NARROWEST: usize = 20;
/// The most columns of a table.
const WIDEST_TABLE: usize = 400;
/// The columns that the name of a column takes in a table that is written row by row.
const NAME: usize = 40;

/// Where prose is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalLayout<'a> {
    /// The columns of the terminal.
    pub(crate) width: usize,
    /// What stands before each line: our own text, without control sequences.
    pub(crate) indent: &'a str,
    pub(crate) style: TextStyle,
}

/// Writes the blocks of a message, with a line break at the end of each line.
pub(crate) fn write_terminal_prose(
    out: &mut String,
    blocks: &[ProseBlock],
    layout: TerminalLayout<'_>,
) {
    TerminalWriter::new(out, layout).write_blocks(blocks, BlockSpacing::Apart);
}

/// Writes lines of highlighted code, at the indent.
pub(crate) fn write_terminal_code(
    out: &mut String,
    language: &str,
    text: &str,
    layout: TerminalLayout<'_>,
) {
    TerminalWriter::new(out, layout).write_code_lines(language, text);
}

/// How a piece of text looks where there are colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TerminalLook {
    strong: bool,
    faint: bool,
    emphasis: bool,
    underlined: bool,
    struck: bool,
    colour: Option<u8>,
}

impl TerminalLook {
    const FAINT: Self = Self { faint: true, ..Self::PLAIN };
    const STRONG: Self = Self { strong: true, ..Self::PLAIN };
    const PLAIN: Self = Self {
        strong: false,
        faint: false,
        emphasis: false,
        underlined: false,
        struck: false,
        colour: None,
    };

    const fn of_code(kind: CodeKind) -> Self {
        let colour = match kind {
            CodeKind::Plain => return Self::PLAIN,
            CodeKind::Comment => return Self::FAINT,
            CodeKind::Removed => 31,
            CodeKind::String | CodeKind::Added => 32,
            CodeKind::Number => 33,
            CodeKind::Name => 34,
            CodeKind::Keyword => 35,
        };
        Self { colour: Some(colour), ..Self::PLAIN }
    }

    fn codes(self) -> String {
        let marks = [
            (self.strong, 1),
            (self.faint, 2),
            (self.emphasis, 3),
            (self.underlined, 4),
            (self.struck, 9),
        ];
        let marks = marks.into_iter().filter(|(on, _)| *on).map(|(_, code)| code);
        let codes: Vec<_> = marks.chain(self.colour).map(|code| code.to_string()).collect();
        codes.join(";")
    }

    /// Writes visible text in this look.
    fn paint(self, out: &mut String, style: TextStyle, text: &str) {
        if style == TextStyle::Plain || self == Self::PLAIN || text.is_empty() {
            out.push_str(text);
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "\u{1b}[{}m{text}\u{1b}[0m", self.codes());
        }
    }
}

/// Visible text, with a look for each part.
#[derive(Debug, Default)]
struct StyledText {
    text: String,
    /// The end of each part, and its look.
    runs: Vec<(usize, TerminalLook)>,
    /// The columns of the last line.
    columns: usize,
}

impl StyledText {
    /// Adds recorded text, line by line.
    fn push(&mut self, text: &str, look: TerminalLook) {
        if text.is_empty() {
            return;
        }
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                self.text.push('\n');
                self.columns = 0;
            }
            let start = self.text.len();
            if line.contains('\t') {
                // The tab stops are those of the whole line.
                let before = " ".repeat(self.columns % 4);
                let mut shown = before.clone();
                visible::write_visible(&mut shown, line);
                self.text.push_str(expand_tabs(&shown).get(before.len()..).unwrap_or_default());
            } else {
                visible::write_visible(&mut self.text, line);
            }
            self.columns += column_width(self.text.get(start..).unwrap_or_default());
        }
        match self.runs.last_mut() {
            Some((end, last)) if *last == look => *end = self.text.len(),
            _ => self.runs.push((self.text.len(), look)),
        }
    }

    /// Adds spans, with their addresses behind them where they show something else.
    fn push_spans(&mut self, spans: &[ProseSpan], style: TextStyle, around: TerminalLook) {
        for group in linked_spans(spans) {
            for span in group {
                let face = span.face;
                let look = TerminalLook {
                    strong: around.strong || face.strong,
                    emphasis: face.emphasis,
                    struck: face.struck,
                    underlined: span.address.is_some(),
                    colour: face.code.then_some(36),
                    ..around
                };
                // What would be lost without colours keeps its marks.
                let mark = match style {
                    TextStyle::Plain if face.code => "`",
                    TextStyle::Plain if face.struck => "~~",
                    _ => "",
                };
                self.push(mark, look);
                self.push(&span.text, look);
                self.push(mark, look);
            }
            let address = group.first().and_then(|span| span.address.as_deref());
            if let Some(address) = address.filter(|address| !spans_show_address(group, address)) {
                self.push(" (", TerminalLook::FAINT);
                self.push(address, TerminalLook::FAINT);
                self.push(")", TerminalLook::FAINT);
            }
        }
    }

    /// Writes a part of each run in its look. The parts follow each other.
    fn paint(&self, out: &mut String, style: TextStyle, range: &Range<usize>, run: &mut usize) {
        let mut at = range.start;
        while let Some((end, look)) = self.runs.get(*run).filter(|_| at < range.end) {
            let stop = (*end).min(range.end);
            look.paint(out, style, self.text.get(at..stop).unwrap_or_default());
            at = stop.max(at);
            if *end > range.end {
                break;
            }
            *run += 1;
        }
    }
}

/// Whether blank lines separate blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockSpacing {
    Apart,
    Close,
}

impl BlockSpacing {
    /// A list is close if its items are paragraphs and further lists.
    fn of_list(list: &ProseList) -> Self {
        let is_list = |block: &ProseBlock| matches!(block, ProseBlock::List(_));
        let is_close = |item: &ProseItem| item.blocks.iter().skip(1).all(is_list);
        if list.items.iter().all(is_close) { Self::Close } else { Self::Apart }
    }
}

struct TerminalWriter<'a> {
    out: &'a mut String,
    style: TextStyle,
    width: usize,
    /// What stands before each line, and the columns it takes.
    prefix: String,
    columns: usize,
    /// What stands before the next line instead, if that has a marker.
    first: Option<String>,
}

impl<'a> TerminalWriter<'a> {
    fn new(out: &'a mut String, layout: TerminalLayout<'_>) -> Self {
        Self {
            out,
            style: layout.style,
            width: layout.width,
            prefix: layout.indent.to_owned(),
            columns: column_width(layout.indent),
            first: None,
        }
    }

    fn room(&self) -> usize {
        self.width.saturating_sub(self.columns).max(NARROWEST)
    }

    /// Writes a line whose content is visible and painted already.
    fn write_line(&mut self, content: &str) {
        let first = self.first.take();
        let line = format!("{}{content}", first.as_deref().unwrap_or(&self.prefix));
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn write_wrapped(&mut self, styled: &StyledText) {
        let mut run = 0;
        for range in wrapped_ranges(&styled.text, self.room()) {
            let mut line = String::new();
            styled.paint(&mut line, self.style, &range, &mut run);
            self.write_line(&line);
        }
    }

    /// Writes something with a marker before its first line and as many columns before the others.
    fn write_under(&mut self, marker: &str, others: &str, write: impl FnOnce(&mut Self)) {
        let (length, columns) = (self.prefix.len(), self.columns);
        let before = self.first.take().unwrap_or_else(|| self.prefix.clone());
        let look = TerminalLook::FAINT;
        let mut first = before;
        look.paint(&mut first, self.style, marker.trim_end());
        first.push_str(marker.get(marker.trim_end().len()..).unwrap_or_default());
        self.first = Some(first);
        look.paint(&mut self.prefix, self.style, others.trim_end());
        self.prefix.push_str(others.get(others.trim_end().len()..).unwrap_or_default());
        self.columns += column_width(marker).max(column_width(others));
        write(self);
        if self.first.is_some() {
            self.write_line("");
        }
        self.prefix.truncate(length);
        self.columns = columns;
    }

    fn write_blocks(&mut self, blocks: &[ProseBlock], spacing: BlockSpacing) {
        for (at, block) in blocks.iter().enumerate() {
            if at > 0 && spacing == BlockSpacing::Apart {
                self.write_line("");
            }
            self.write_block(block);
        }
    }

    fn write_block(&mut self, block: &ProseBlock) {
        match block {
            ProseBlock::Paragraph(spans) => self.write_spans(spans, TerminalLook::PLAIN, ""),
            ProseBlock::Heading { level, spans } => {
                let marks = "#".repeat((*level).into()) + " ";
                let marks = if self.style == TextStyle::Plain { marks } else { String::new() };
                self.write_spans(spans, TerminalLook::STRONG, &marks);
            }
            ProseBlock::Code { language, text } => self.write_under("    ", "    ", |inner| {
                // More than a language is worth showing.
                if language.contains(char::is_whitespace) {
                    inner.write_code_lines("", language);
                }
                inner.write_code_lines(language, text);
            }),
            ProseBlock::List(list) => self.write_list(list),
            ProseBlock::Quote(blocks) => {
                let mark = if self.style == TextStyle::Plain { "> " } else { "│ " };
                self.write_under(mark, mark, |inner| {
                    inner.write_blocks(blocks, BlockSpacing::Apart);
                });
            }
            ProseBlock::Table(table) => self.write_table(table),
            ProseBlock::Rule => {
                let mut rule = String::new();
                TerminalLook::FAINT.paint(&mut rule, self.style, "---");
                self.write_line(&rule);
            }
        }
    }

    fn write_spans(&mut self, spans: &[ProseSpan], around: TerminalLook, marks: &str) {
        let mut styled = StyledText::default();
        styled.push(marks, around);
        styled.push_spans(spans, self.style, around);
        self.write_wrapped(&styled);
    }

    fn write_list(&mut self, list: &ProseList) {
        let spacing = BlockSpacing::of_list(list);
        for (at, item) in list.items.iter().enumerate() {
            if at > 0 && spacing == BlockSpacing::Apart {
                self.write_line("");
            }
            let mut marker = match list.start {
                Some(start) => format!("{}. ", start.saturating_add(at as u64)),
                None => "- ".to_owned(),
            };
            marker.push_str(match item.task {
                None => "",
                Some(TaskMark::Open) => "[ ] ",
                Some(TaskMark::Done) => "[x] ",
            });
            let others = " ".repeat(marker.len());
            self.write_under(&marker, &others, |inner| inner.write_blocks(&item.blocks, spacing));
        }
    }

    fn write_code_lines(&mut self, language: &str, text: &str) {
        let mut tokens = highlight_code(language, text).into_iter().peekable();
        let mut start = 0;
        for line in text.split('\n') {
            let end = start + line.len();
            let mut styled = StyledText::default();
            while let Some(token) = tokens.peek() {
                let part = token.range.start.max(start)..token.range.end.min(end);
                let code = text.get(part).unwrap_or_default();
                styled.push(code, TerminalLook::of_code(token.kind));
                if token.range.end > end {
                    break;
                }
                tokens.next();
            }
            let mut painted = String::new();
            let shown = styled.text.trim_end().len();
            styled.paint(&mut painted, self.style, &(0..shown), &mut 0);
            self.write_line(&painted);
            start = end + 1;
        }
    }

    /// Writes a table in columns if it fits, and row by row otherwise.
    fn write_table(&mut self, table: &ProseTable) {
        let styled = |look: TerminalLook| {
            let style = self.style;
            move |cell: &Vec<ProseSpan>| {
                let mut styled = StyledText::default();
                styled.push_spans(cell, style, look);
                styled
            }
        };
        let header: Vec<_> = table.header.iter().map(styled(TerminalLook::STRONG)).collect();
        let rows: Vec<Vec<_>> = table
            .rows
            .iter()
            .map(|row| row.iter().map(styled(TerminalLook::PLAIN)).collect())
            .collect();
        let all = || std::iter::once(&header).chain(&rows);
        let mut widths = vec![0; all().map(Vec::len).max().unwrap_or_default()];
        for row in all() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.columns.max(*width);
            }
        }
        let total = widths.iter().sum::<usize>() + 3 * widths.len().saturating_sub(1);
        // Every row is as wide as the widest, also where lines are not wrapped.
        if total > self.room().min(WIDEST_TABLE)
            || all().flatten().any(|cell| cell.text.contains('\n'))
        {
            return self.write_row_by_row(&header, &rows);
        }
        self.write_row(&header, &widths, &table.alignments);
        let (dash, cross) =
            if self.style == TextStyle::Plain { ("-", "-|-") } else { ("─", "─┼─") };
        let rule: Vec<_> = widths.iter().map(|width| dash.repeat(*width)).collect();
        let mut painted = String::new();
        TerminalLook::FAINT.paint(&mut painted, self.style, &rule.join(cross));
        self.write_line(&painted);
        for row in &rows {
            self.write_row(row, &widths, &table.alignments);
        }
    }

    fn write_row(&mut self, row: &[StyledText], widths: &[usize], alignments: &[CellAlignment]) {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            if at > 0 {
                let bar = if self.style == TextStyle::Plain { "|" } else { "│" };
                line.push(' ');
                TerminalLook::FAINT.paint(&mut line, self.style, bar);
                line.push(' ');
            }
            let blank = width.saturating_sub(cell.columns);
            let before = match alignments.get(at) {
                Some(CellAlignment::Right) => blank,
                Some(CellAlignment::Centre) => blank / 2,
                _ => 0,
            };
            line.extend(std::iter::repeat_n(' ', before));
            cell.paint(&mut line, self.style, &(0..cell.text.len()), &mut 0);
            line.extend(std::iter::repeat_n(' ', blank - before));
        }
        self.write_line(&line);
    }

    /// Writes each cell as `name: value`, with a blank line between rows.
    fn write_row_by_row(&mut self, header: &[StyledText], rows: &[Vec<StyledText>]) {
        let is_cut = |name: &StyledText| name.columns > NAME || name.text.contains('\n');
        if rows.is_empty() || header.iter().any(is_cut) {
            self.write_cells(header, &[]);
        }
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                self.write_line("");
            }
            self.write_cells(row, header);
        }
    }

    fn write_cells(&mut self, cells: &[StyledText], names: &[StyledText]) {
        for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.text.is_empty()) {
            let mut line = StyledText::default();
            if let Some(name) = names.get(at).filter(|name| !name.text.is_empty()) {
                let name = name.text.lines().next().unwrap_or_default();
                line.text = format!("{}: ", cut_columns(name, NAME));
                line.runs.push((line.text.len(), TerminalLook::STRONG));
            }
            let before = line.text.len();
            line.text.push_str(&cell.text);
            line.runs.extend(cell.runs.iter().map(|(end, look)| (before + end, *look)));
            self.write_under("", "  ", |inner| inner.write_wrapped(&line));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::escape::is_harmful;
    use crate::prose_parser::parse_prose;

    fn rendered(text: &str, width: usize, style: TextStyle) -> String {
        let mut out = String::new();
        write_terminal_prose(
            &mut out,
            &parse_prose(text),
            TerminalLayout { width, indent: "  ", style },
        );
        out
    }

    /// Coloured text without its colours. Every colour ends on its line.
    fn without_colours(text: &str) -> String {
        let mut out = String::new();
        for line in text.split_inclusive('\n') {
            let mut rest = line;
            while let Some((before, behind)) = rest.split_once("\u{1b}[") {
                let (codes, behind) = behind.split_once('m').unwrap();
                assert!(
                    codes.split(';').all(|code| code.parse::<u8>().is_ok_and(|code| code > 0)),
                    "{codes}"
                );
                let (inner, behind) = behind.split_once("\u{1b}[0m").unwrap();
                assert!(!inner.is_empty() && !inner.contains(is_harmful), "{inner:?}");
                out.push_str(before);
                out.push_str(inner);
                rest = behind;
            }
            out.push_str(rest);
        }
        out
    }

    const MESSAGE: &str = "\
## What I did

I changed **two** files and ran `cargo test`; see [the docs](https://docs.rs/a) or <https://b.c>.
A second line.

1. First, a long item that does not fit on the line and goes on with a hanging indent
   - nested
   - [x] done
   - [ ] open
2. ~~Second~~

> A quotation that is long enough to be wrapped at the end of the line, twice even.
>
> - in it

```rust
fn main() {
\tprintln!(\"hi\"); // say
}
```

| Name | Count |
|------|------:|
| 你好 | 1     |
| b    | **20** |

---
";

    const PLAIN: &str = r#"  ## What I did

  I changed two files and ran `cargo test`; see the docs
  (https://docs.rs/a) or https://b.c.
  A second line.

  1. First, a long item that does not fit on the line and
     goes on with a hanging indent
     - nested
     - [x] done
     - [ ] open
  2. ~~Second~~

  > A quotation that is long enough to be wrapped at the end
  > of the line, twice even.
  >
  > - in it

      fn main() {
          println!("hi"); // say
      }

  Name | Count
  -----|------
  你好 |     1
  b    |    20

  ---
"#;

    const COLOURED: &str = r#"  ^[1mWhat I did^[0m

  I changed ^[1mtwo^[0m files and ran ^[36mcargo test^[0m; see ^[4mthe docs^[0m
  ^[2m(https://docs.rs/a)^[0m or ^[4mhttps://b.c^[0m.
  A second line.

  ^[2m1.^[0m First, a long item that does not fit on the line and
     goes on with a hanging indent
     ^[2m-^[0m nested
     ^[2m- [x]^[0m done
     ^[2m- [ ]^[0m open
  ^[2m2.^[0m ^[9mSecond^[0m

  ^[2m│^[0m A quotation that is long enough to be wrapped at the end
  ^[2m│^[0m of the line, twice even.
  ^[2m│^[0m
  ^[2m│^[0m ^[2m-^[0m in it

      ^[35mfn^[0m ^[34mmain^[0m() {
          println!(^[32m"hi"^[0m); ^[2m// say^[0m
      }

  ^[1mName^[0m ^[2m│^[0m ^[1mCount^[0m
  ^[2m─────┼──────^[0m
  你好 ^[2m│^[0m     1
  b    ^[2m│^[0m    ^[1m20^[0m

  ^[2m---^[0m
"#;

    #[test]
    fn a_message_reads_well_in_plain_text() {
        assert_eq!(rendered(MESSAGE, 60, TextStyle::Plain), PLAIN);
    }

    #[test]
    fn a_message_reads_well_in_colours() {
        let shown = rendered(MESSAGE, 60, TextStyle::Coloured).replace('\u{1b}', "^");
        assert_eq!(shown, COLOURED);
    }

    #[test]
    fn a_table_that_does_not_fit_is_written_row_by_row() {
        let text = "|Name|Why|\n|-|-|\n|one|because it was so and not otherwise|\n|two||\n";
        assert_eq!(
            rendered(text, 30, TextStyle::Plain),
            "  Name: one\n  Why: because it was so and\n    not otherwise\n\n  Name: two\n"
        );
        let name = "n".repeat(60);
        let long = rendered(&format!("|{name}|\n|-|\n|{name}|\n"), 30, TextStyle::Plain);
        assert_eq!(long.matches('n').count(), 60 + 39 + 60);
    }

    #[test]
    fn recorded_control_sequences_are_shown() {
        let text = "a\u{1b}[31mb **\u{202e}c** `\u{7}`\n\n```sh\n\u{1b}]0;x\u{7}\r\n```\n\n[\u{9b}](https://a/\u{1b}b)";
        for style in [TextStyle::Plain, TextStyle::Coloured] {
            let shown = without_colours(&rendered(text, 80, style));
            assert!(!shown.contains(|c| c != '\n' && is_harmful(c)), "{shown:?}");
            assert!(
                shown.contains("\\u{1b}[31mb") && shown.contains("\\u{1b}]0;x\\u{7}"),
                "{shown}"
            );
        }
    }

    #[test]
    fn hostile_text_stays_small() {
        for part in ["> ", "- ", "*a ", "|a", "[a](http://b) ", "1. a\n", "`a` ", "\t", "\n\n> a"] {
            let text = part.repeat(20_000);
            let shown = rendered(&text, 80, TextStyle::Coloured);
            assert!(shown.len() <= 30 * text.len(), "{part:?} {}", shown.len());
        }
    }

    proptest! {
        #[test]
        fn only_our_control_sequences_are_written(
            text in "(\\PC|[\u{0}-\u{1f}\u{7f}-\u{9f}\u{202e}]|\n- |\n> |\n```\n|\n\\|a\\|b\\|\n\\|-\\|-\\|\n|[*_`\\[\\]()<>#| ]){0,40}",
            width in 0_usize..100,
        ) {
            let plain = rendered(&text, width, TextStyle::Plain);
            prop_assert!(!plain.contains(|c| c != '\n' && is_harmful(c)), "{plain:?}");
            let coloured = without_colours(&rendered(&text, width, TextStyle::Coloured));
            prop_assert!(!coloured.contains(|c| c != '\n' && is_harmful(c)), "{coloured:?}");
        }

        #[test]
        fn no_word_is_lost(text in "([a-z]{3} |`[a-z]{3}`|~~[a-z]{3}~~|[a-z]{3}|\n\n|\n> |\n- |\n1\\. |\n    |\n```\n|\n\\|a\\|b\\|\n\\|-\\|-\\|\n\\||\\]\\(|[*_\\[\\]()<>!#|\n \"=:-]){0,40}") {
            let text = text.replace("~~~", "~").replace("```", "\n```\n");
            for style in [TextStyle::Plain, TextStyle::Coloured] {
                let shown = without_colours(&rendered(&text, 10_000, style));
                for word in text.split(|c: char| !c.is_ascii_lowercase()).filter(|word| word.len() == 3) {
                    prop_assert!(shown.contains(word), "{word} of {text:?} in {shown:?}");
                }
            }
        }

        #[test]
        fn lines_fit(text in "([a-z]{1,30}|你好|👩\u{200d}👧|[a-z]{3} | |\n\n|\n> |\n- |\n1\\. |[*_]){0,60}", width in 50_usize..100) {
            for line in rendered(&text, width, TextStyle::Plain).lines() {
                prop_assert!(column_width(line) <= width || line.starts_with("      "), "{line:?}");
            }
        }
    }
}
