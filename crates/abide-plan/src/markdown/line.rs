//! Classifies lines of Markdown.

use abide_model::TaskStatus;

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MarkdownLine<'a> {
    Heading { level: usize, text: &'a str },
    Checkbox { indent: usize, content: usize, status: TaskStatus, text: &'a str },
    Fence { mark: char, length: usize, bare: bool },
    Text,
}

/// The indentation of a line in columns; a tab goes to the next multiple of four.
pub(super) fn line_indent(line: &str) -> usize {
    let mut column = 0;
    for letter in line.chars() {
        match letter {
            ' ' => column += 1,
            '\t' => column += 4 - column % 4,
            _ => break,
        }
    }
    column
}

/// Parses a line.
pub(super) fn parse_markdown_line(line: &str) -> MarkdownLine<'_> {
    let column = line_indent(line);
    let text = line.trim_matches([' ', '\t']);
    if let Some((mark, length)) = fence_line(text) {
        let bare = text.chars().all(|letter| letter == mark);
        return MarkdownLine::Fence { mark, length, bare };
    }
    heading_line(column, text).or_else(|| checkbox_line(column, text)).unwrap_or(MarkdownLine::Text)
}

fn fence_line(text: &str) -> Option<(char, usize)> {
    let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = text.chars().take_while(|letter| *letter == mark).count();
    let rest = text.get(length..)?;
    (length >= 3 && !(mark == '`' && rest.contains('`'))).then_some((mark, length))
}

fn heading_line(column: usize, text: &str) -> Option<MarkdownLine<'_>> {
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    if column > 3 || !(1..=6).contains(&level) || !rest.starts_with([' ', '\t']) {
        return None;
    }
    let mut text = rest.trim_matches([' ', '\t']);
    let closed = text.trim_end_matches('#');
    if closed.is_empty() || closed.ends_with([' ', '\t']) {
        text = closed.trim_end_matches([' ', '\t']);
    }
    (!text.trim().is_empty()).then_some(MarkdownLine::Heading { level, text })
}

fn checkbox_line(column: usize, text: &str) -> Option<MarkdownLine<'_>> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let marker = match digits {
        0 => text.strip_prefix(['-', '*', '+'])?,
        1..=9 => text.get(digits..)?.strip_prefix(['.', ')'])?,
        _ => return None,
    };
    let rest = marker.strip_prefix([' ', '\t'])?.trim_start_matches([' ', '\t']);
    let content = column + (text.len() - rest.len());
    let (mark, rest) = rest.strip_prefix('[')?.split_once(']')?;
    let status = match mark {
        " " | "" => TaskStatus::Planned,
        "x" | "X" => TaskStatus::Complete,
        "-" => TaskStatus::Obsolete,
        _ => return None,
    };
    let text = rest.strip_prefix([' ', '\t'])?.trim_matches([' ', '\t']);
    (!text.trim().is_empty()).then_some(MarkdownLine::Checkbox {
        indent: column,
        content,
        status,
        text,
    })
}

/// Tracks whether lines are inside fenced code.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct LineFence(Option<(char, usize)>);

impl LineFence {
    /// Is this line part of code? Call with each line in turn.
    pub(super) fn hold(&mut self, line: &str) -> bool {
        match (self.0, parse_markdown_line(line)) {
            (None, MarkdownLine::Fence { mark, length, .. }) => {
                self.0 = Some((mark, length));
                true
            }
            (None, _) => false,
            (Some(open), MarkdownLine::Fence { mark, length, bare: true })
                if mark == open.0 && length >= open.1 =>
            {
                self.0 = None;
                true
            }
            (Some(_), _) => true,
        }
    }

    /// Is a code block open after the last line?
    pub(super) const fn is_open(self) -> bool {
        self.0.is_some()
    }
}

/// Would it be read as more than text, apart from leading backslashes?
fn is_special_line(line: &str) -> bool {
    parse_markdown_line(line.trim_start_matches([' ', '\t']).trim_start_matches('\\'))
        != MarkdownLine::Text
}

/// Escapes a line of text so that it is read as text.
pub(super) fn escape_line(line: &str) -> String {
    if !is_special_line(line) {
        return line.to_owned();
    }
    let text = line.trim_start_matches([' ', '\t']);
    let space = line.get(..line.len() - text.len()).unwrap_or_default();
    format!("{space}\\{text}")
}

/// Reverts `escape`.
pub(super) fn unescape_line(line: &str) -> String {
    let text = line.trim_start_matches([' ', '\t']);
    match text.strip_prefix('\\') {
        Some(rest) if is_special_line(line) => {
            let space = line.get(..line.len() - text.len()).unwrap_or_default();
            format!("{space}{rest}")
        }
        _ => line.to_owned(),
    }
}
