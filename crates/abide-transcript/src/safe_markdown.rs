//! Makes the Markdown of a message inert.

use std::collections::HashMap;

use crate::visible;

/// Returns a message as Markdown with nothing active in it.
///
/// A viewer must never see the end of a code block where this function does not. So fences are
/// rewritten without indentation, where no list or quotation can end them. Every other fence is
/// escaped, and so is every backtick that does not begin or end a code span on its own line.
pub(crate) fn safe_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut fence: Option<MarkdownFence> = None;
    let tables = text.split('\n').any(may_rule_a_markdown_table);
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        let mut shown = String::new();
        visible::write_visible(&mut shown, line.strip_suffix('\r').unwrap_or(line));
        if let Some(open) = &fence {
            let content = open.content(&shown);
            if open.is_closed_by(content) {
                open.write(&mut out);
                fence = None;
            } else {
                out.push_str(content);
            }
        } else if let Some((open, info)) = MarkdownFence::opened_by(&shown) {
            open.write(&mut out);
            out.push_str(info);
            fence = Some(open);
        } else {
            write_safe_markdown_line(&mut out, &shown, tables);
        }
    }
    if let Some(open) = fence {
        out.push('\n');
        open.write(&mut out);
    }
    out
}

/// An open code fence.
struct MarkdownFence {
    tick: char,
    length: usize,
    /// The width of the white space before it, in bytes.
    indent: usize,
}

impl MarkdownFence {
    /// The fence that a line opens, and the info string after it.
    fn opened_by(line: &str) -> Option<(Self, &str)> {
        let start = line.trim_start_matches([' ', '\t']);
        let tick = start.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = start.trim_start_matches(tick);
        let (length, indent) = (start.len() - info.len(), line.len() - start.len());
        let opens = length >= 3 && !(tick == '`' && info.contains('`'));
        opens.then_some((Self { tick, length, indent }, info))
    }

    /// A content line without the fence's indentation.
    fn content<'a>(&self, line: &'a str) -> &'a str {
        let blank = line.bytes().take(self.indent).take_while(|b| matches!(b, b' ' | b'\t'));
        line.get(blank.count()..).unwrap_or_default()
    }

    /// Whether this line closes it. Whatever closes it for any viewer must close it here.
    fn is_closed_by(&self, content: &str) -> bool {
        let ticks = content.trim();
        !content.starts_with("    ")
            && ticks.len() >= self.length
            && ticks.chars().all(|c| c == self.tick)
    }

    fn write(&self, out: &mut String) {
        out.extend(std::iter::repeat_n(self.tick, self.length));
    }
}

/// Characters that lists and quotations can begin with, and a few more.
const BEFORE_A_BLOCK: &str = " \t>*+-:.)0123456789";

/// Whether the line may be a table's delimiter row.
fn may_rule_a_markdown_table(line: &str) -> bool {
    let line = line.trim_end();
    line.contains('-')
        && line.contains(['|', ':'])
        && line.chars().all(|c| c == '|' || BEFORE_A_BLOCK.contains(c))
}

/// Whether the line may begin a link or footnote definition. Code spans do not count inside its
/// name, and the name may end on a later line.
fn may_define_markdown_link(rest: &str) -> bool {
    let Some(name) = rest.strip_prefix('[') else { return false };
    let behind = name.find([']', '`', '\\']).and_then(|end| name.get(end..)).unwrap_or_default();
    !behind.starts_with(']') || behind.starts_with("]:")
}

/// Writes a line of Markdown without HTML, images, headings, fences and unsafe links.
///
/// In a table every `|` ends a cell, even inside code, so code spans with a `|` are escaped.
fn write_safe_markdown_line(out: &mut String, line: &str, tables: bool) {
    let rest = line.trim_start_matches(|c| BEFORE_A_BLOCK.contains(c));
    let (before, rest) = line.split_at(line.len() - rest.len());
    // The underline of a heading, whatever block it is in.
    let ruled = before.trim_end();
    match ruled.trim_end_matches('-') {
        plain if rest.is_empty() && plain.len() < ruled.len() => {
            out.push_str(plain);
            out.push('\\');
            out.push_str(before.get(plain.len()..).unwrap_or_default());
        }
        _ => out.push_str(before),
    }
    if rest.starts_with(['#', '=', '~']) || may_define_markdown_link(rest) {
        out.push('\\');
    }
    let mut last_run = HashMap::new();
    for (at, length) in backtick_runs(rest) {
        last_run.insert(length, at);
    }
    let mut at = 0;
    while let Some(c) = rest.get(at..).and_then(|rest| rest.chars().next()) {
        let next = at + c.len_utf8();
        let behind = rest.get(next..).unwrap_or_default();
        at = match c {
            // The next character is already escaped. Escape a whole run of backticks, or it would
            // get shorter.
            '\\' if behind.starts_with('`') => {
                let length = behind.len() - behind.trim_start_matches('`').len();
                out.push_str(&"\\`".repeat(length));
                next + length
            }
            '\\' if behind.starts_with(|c: char| c.is_ascii_punctuation()) => {
                out.push_str(rest.get(at..=next).unwrap_or_default());
                next + 1
            }
            '`' => {
                let length = 1 + behind.len() - behind.trim_start_matches('`').len();
                let start = at + length;
                let closing = last_run.get(&length).filter(|last| **last > at).and_then(|_| {
                    let behind = rest.get(start..)?;
                    backtick_runs(behind)
                        .find(|(_, ticks)| *ticks == length)
                        .map(|(at, _)| at + start)
                });
                let code = closing.and_then(|closing| rest.get(at..closing + length));
                match code.filter(|code| !(tables && code.contains('|'))) {
                    Some(code) => {
                        out.push_str(code);
                        at + code.len()
                    }
                    None => {
                        out.push_str(&"\\`".repeat(length));
                        start
                    }
                }
            }
            '!' if behind.starts_with('[') => {
                out.push_str("!\\[");
                next + 1
            }
            '<' => {
                out.push_str("\\<");
                next
            }
            // The end of a definition's name, or of the text of an unsafe link.
            ']' if behind.starts_with(':')
                || (behind.starts_with('(') && !is_plain_markdown_address(behind)) =>
            {
                out.push_str("\\]");
                next
            }
            c => {
                out.push(c);
                next
            }
        };
    }
}

/// The runs of backticks in a line: start and length of each.
fn backtick_runs(line: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + line.get(at..)?.find('`')?;
        let run = line.get(start..)?;
        let length = run.len() - run.trim_start_matches('`').len();
        at = start + length;
        Some((start, length))
    })
}

/// Whether `(…)` is a plain address: relative, `http` or `https`.
fn is_plain_markdown_address(link: &str) -> bool {
    let Some((address, _)) = link.trim_start_matches('(').split_once(')') else {
        return false;
    };
    let web = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let rest = web.unwrap_or(address);
    let allowed = |c: char| {
        c.is_ascii_alphanumeric() || "-._~/#?=%+,@".contains(c) || (web.is_some() && c == ':')
    };
    !rest.is_empty() && rest.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_stays_and_what_acts_does_not() {
        assert_eq!(
            safe_markdown("A *b* `c<d>` [d](https://e.f/g?h=1) - [ ] g_h \\* <i>"),
            "A *b* `c<d>` [d](https://e.f/g?h=1) - [ ] g_h \\* \\<i>"
        );
        assert_eq!(
            safe_markdown("# A\n## B\nC\n===\nD\n---\n- e"),
            "\\# A\n\\## B\nC\n\\===\nD\n\\---\n- e"
        );
        assert_eq!(safe_markdown("![x](https://e.f/p.png)"), "!\\[x](https://e.f/p.png)");
        assert_eq!(safe_markdown("[x](javascript:alert(1))"), "[x\\](javascript:alert(1))");
        assert_eq!(safe_markdown("[x](java&#115;cript:alert)"), "[x\\](java&#115;cript:alert)");
        assert_eq!(safe_markdown("[x][y]\n[y]: javascript:z"), "[x][y]\n\\[y\\]: javascript:z");
        assert_eq!(safe_markdown("\\<b> \\\\<b> C:\\d"), "\\<b> \\\\\\<b> C:\\d");
        assert_eq!(safe_markdown("a | b\n--|--\n1 | `c`"), "a | b\n--|--\n1 | `c`");
        assert_eq!(safe_markdown("`a | b`"), "`a | b`");
    }

    #[test]
    fn code_is_left_alone_and_always_ends() {
        assert_eq!(safe_markdown("```html\n<b>\n```\n<b>"), "```html\n<b>\n```\n\\<b>");
        assert_eq!(safe_markdown("~~~\n<b>\n```"), "~~~\n<b>\n```\n~~~");
        assert_eq!(safe_markdown("``` a`b\n<b>"), "\\`\\`\\` a\\`b\n\\<b>");
        assert_eq!(safe_markdown("````\n```\n<b>\n````"), "````\n```\n<b>\n````");
        assert_eq!(safe_markdown("```\r\n<b>\r\n```\r\n"), "```\n<b>\n```\n");
        // In a list it would end with the list.
        assert_eq!(
            safe_markdown("- a\n  ```sh\n    b <c>\n  ```\n  <d>"),
            "- a\n```sh\n  b <c>\n```\n  \\<d>"
        );
        assert_eq!(safe_markdown("> ```\n> <b>"), "> \\`\\`\\`\n> \\<b>");
        assert_eq!(safe_markdown("``a`b`` c` <b>"), "``a`b`` c\\` \\<b>");
    }
}
