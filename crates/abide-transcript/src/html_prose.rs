//! Renders prose and code as HTML.
//!
//! All recorded text and every address goes through [`html_escaped`]; the markup is ours alone. The
//! headings of a message are `h3` to `h6`, below those of the page. Code has one-letter classes:
//! `k` keyword, `s` string, `c` comment, `n` number, `f` defined name, and in diffs `i` for what is
//! inserted and `d` for what is deleted.

use std::fmt::Write;

use crate::highlight::{CodeKind, highlight_code};
use crate::html::html_escaped;
use crate::prose::{
    CellAlignment, ProseBlock, ProseCell, ProseItem, ProseList, ProseSpan, ProseTable, TaskMark,
    linked_spans,
};

/// How many bytes of markup a short piece of code may have beyond three times its text.
const FREE: usize = 256;

/// Writes the blocks of a message.
pub(crate) fn write_html_prose(out: &mut String, blocks: &[ProseBlock]) {
    for block in blocks {
        write_html_block(out, block);
        out.push('\n');
    }
}

/// Writes highlighted code, to stand in a `pre` element.
///
/// Where the marks would make it much larger than its text, there are fewer of them.
pub(crate) fn write_html_code(out: &mut String, language: &str, text: &str) {
    let tokens = highlight_code(language, text);
    let start = out.len();
    let choices: [fn(CodeKind) -> bool; 3] = [|_| true, is_worth_most, |_| false];
    for is_marked in choices {
        out.truncate(start);
        for token in &tokens {
            let code = html_escaped(text.get(token.range.clone()).unwrap_or_default());
            match html_code_class(token.kind).filter(|_| is_marked(token.kind)) {
                // A class of one letter needs no quotes. Writing to a string does not fail.
                Some(class) => {
                    let _ = write!(out, "<span class={class}>{code}</span>");
                }
                None => out.push_str(&code),
            }
        }
        if out.len() - start <= 3 * text.len() + FREE {
            return;
        }
    }
}

const fn html_code_class(kind: CodeKind) -> Option<char> {
    Some(match kind {
        CodeKind::Plain => return None,
        CodeKind::Keyword => 'k',
        CodeKind::String => 's',
        CodeKind::Comment => 'c',
        CodeKind::Number => 'n',
        CodeKind::Name => 'f',
        CodeKind::Added => 'i',
        CodeKind::Removed => 'd',
    })
}

/// Keys, definitions, comments and lines of diffs, which are seen first.
const fn is_worth_most(kind: CodeKind) -> bool {
    matches!(kind, CodeKind::Name | CodeKind::Comment | CodeKind::Added | CodeKind::Removed)
}

fn write_html_block(out: &mut String, block: &ProseBlock) {
    match block {
        ProseBlock::Paragraph(spans) => {
            out.push_str("<p>");
            write_html_spans(out, spans);
            out.push_str("</p>");
        }
        ProseBlock::Heading { level, spans } => {
            let level = level.saturating_add(2).clamp(3, 6);
            let _ = write!(out, "<h{level}>");
            write_html_spans(out, spans);
            let _ = write!(out, "</h{level}>");
        }
        ProseBlock::Code { language, text } => {
            out.push_str("<pre><code>");
            // More than a language is worth showing.
            if language.contains(char::is_whitespace) {
                let _ = writeln!(out, "<span class=c>{}</span>", html_escaped(language));
            }
            // A line break right behind the tag would be dropped.
            if text.starts_with('\n') {
                out.push('\n');
            }
            write_html_code(out, language, text);
            out.push_str("</code></pre>");
        }
        ProseBlock::List(list) => write_html_list(out, list),
        ProseBlock::Quote(blocks) => {
            out.push_str("<blockquote>\n");
            write_html_prose(out, blocks);
            out.push_str("</blockquote>");
        }
        ProseBlock::Table(table) => write_html_table(out, table),
        ProseBlock::Rule => out.push_str("<hr>"),
    }
}

fn write_html_list(out: &mut String, list: &ProseList) {
    match list.start {
        None => out.push_str("<ul>\n"),
        Some(1) => out.push_str("<ol>\n"),
        Some(start) => {
            let _ = writeln!(out, "<ol start=\"{start}\">");
        }
    }
    for item in &list.items {
        write_html_item(out, item);
    }
    out.push_str(if list.start.is_some() { "</ol>" } else { "</ul>" });
}

/// Writes an item. Its first paragraph needs no element of its own.
fn write_html_item(out: &mut String, item: &ProseItem) {
    out.push_str(match item.task {
        None => "<li>",
        Some(TaskMark::Open) => "<li class=\"task\">☐ ",
        Some(TaskMark::Done) => "<li class=\"task\">☑ ",
    });
    let rest = match item.blocks.split_first() {
        Some((ProseBlock::Paragraph(spans), rest)) => {
            write_html_spans(out, spans);
            rest
        }
        _ => &item.blocks,
    };
    if !rest.is_empty() {
        out.push('\n');
        write_html_prose(out, rest);
    }
    out.push_str("</li>\n");
}

fn write_html_table(out: &mut String, table: &ProseTable) {
    out.push_str("<table>\n");
    write_html_row(out, "th", &table.header, &table.alignments);
    for row in &table.rows {
        write_html_row(out, "td", row, &table.alignments);
    }
    out.push_str("</table>");
}

fn write_html_row(out: &mut String, element: &str, row: &[ProseCell], columns: &[CellAlignment]) {
    out.push_str("<tr>");
    for (at, cell) in row.iter().enumerate() {
        let style = match columns.get(at) {
            Some(CellAlignment::Right) => " style=\"text-align:right\"",
            Some(CellAlignment::Centre) => " style=\"text-align:center\"",
            _ => "",
        };
        let _ = write!(out, "<{element}{style}>");
        write_html_spans(out, cell);
        let _ = write!(out, "</{element}>");
    }
    out.push_str("</tr>\n");
}

fn write_html_spans(out: &mut String, spans: &[ProseSpan]) {
    for group in linked_spans(spans) {
        let address = group.first().and_then(|span| span.address.as_deref());
        if let Some(address) = address {
            let address = html_escaped(address);
            let _ = write!(out, "<a href=\"{address}\" rel=\"nofollow noreferrer noopener\">");
        }
        for span in group {
            let face = span.face;
            let marks = [
                (face.strong, "strong"),
                (face.emphasis, "em"),
                (face.struck, "del"),
                (face.code, "code"),
            ];
            let marks = marks.iter().filter(|(on, _)| *on).map(|(_, element)| element);
            for element in marks.clone() {
                let _ = write!(out, "<{element}>");
            }
            out.push_str(&html_escaped(&span.text).replace('\n', "<br>\n"));
            for element in marks.rev() {
                let _ = write!(out, "</{element}>");
            }
        }
        if address.is_some() {
            out.push_str("</a>");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::escape::is_harmful;
    use crate::prose_parser::parse_prose;

    fn rendered(text: &str) -> String {
        let mut out = String::new();
        write_html_prose(&mut out, &parse_prose(text));
        out
    }

    const ELEMENTS: [&str; 22] = [
        "p",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "blockquote",
        "table",
        "tr",
        "th",
        "td",
        "pre",
        "code",
        "span",
        "strong",
        "em",
        "del",
        "a",
        "br",
        "hr",
    ];

    fn is_ours(attribute: &str) -> bool {
        matches!(
            attribute,
            "class=\"task\""
                | "style=\"text-align:right\""
                | "style=\"text-align:center\""
                | "rel=\"nofollow"
                | "noreferrer"
                | "noopener\""
        ) || attribute
            .strip_prefix("class=")
            .is_some_and(|class| "kscnfid".contains(class) && class.len() == 1)
            || attribute
                .strip_prefix("start=\"")
                .and_then(|start| start.strip_suffix('"'))
                .is_some_and(|start| start.parse::<u64>().is_ok())
    }

    /// The text of a page, if nothing is in it but our elements and attributes, well nested.
    fn checked_text(html: &str) -> Result<String, String> {
        let (mut text, mut rest, mut open) = (String::new(), html, Vec::new());
        while let Some((before, behind)) = rest.split_once('<') {
            text.push_str(before);
            let (tag, behind) = behind.split_once('>').ok_or("a tag does not end")?;
            rest = behind;
            if let Some(name) = tag.strip_prefix('/') {
                if open.pop() != Some(name) {
                    return Err(format!("</{name}> ends another element"));
                }
                text.push(' ');
                continue;
            }
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            if !ELEMENTS.contains(&name) {
                return Err(format!("<{tag}>"));
            }
            let attributes = match attributes.strip_prefix("href=\"").filter(|_| name == "a") {
                Some(link) => {
                    let (address, attributes) =
                        link.split_once('"').ok_or("an address does not end")?;
                    let lower = address.to_lowercase();
                    if !["http://", "https://", "mailto:"]
                        .iter()
                        .any(|scheme| lower.starts_with(scheme))
                    {
                        return Err(format!("link to {address}"));
                    }
                    text.push_str(address);
                    text.push(' ');
                    attributes
                }
                None => attributes,
            };
            if let Some(other) =
                attributes.split_ascii_whitespace().find(|attribute| !is_ours(attribute))
            {
                return Err(format!("attribute {other}"));
            }
            if !matches!(name, "br" | "hr") {
                open.push(name);
            }
        }
        text.push_str(rest);
        let escapes = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        let is_escaped = |behind: &str| escapes.iter().any(|escape| behind.starts_with(escape));
        if text.split('&').skip(1).any(|behind| !is_escaped(behind))
            || text.contains(['>', '"', '\''])
        {
            return Err("text is not escaped".to_owned());
        }
        if !open.is_empty() || text.contains(|c| !matches!(c, '\n' | '\t') && is_harmful(c)) {
            return Err("an element does not end, or a character is hidden".to_owned());
        }
        Ok(text)
    }

    #[test]
    fn a_message_has_its_elements() {
        assert_eq!(
            rendered("# A & b\n\nc\n*d **e*** ~~f~~ `<g>`"),
            "<h3>A &amp; b</h3>\n<p>c<br>\n<em>d </em><strong><em>e</em></strong> <del>f</del> <code>&lt;g&gt;</code></p>\n"
        );
        assert_eq!(
            rendered("- a\n  - b\n- [x] c"),
            "<ul>\n<li>a\n<ul>\n<li>b</li>\n</ul>\n</li>\n<li class=\"task\">☑ c</li>\n</ul>\n"
        );
        assert_eq!(rendered("3. a\n\n   b"), "<ol start=\"3\">\n<li>a\n<p>b</p>\n</li>\n</ol>\n");
        assert_eq!(rendered("> a\n\n---"), "<blockquote>\n<p>a</p>\n</blockquote>\n<hr>\n");
        assert_eq!(
            rendered("|a|b|\n|-|-:|\n|1|2|"),
            "<table>\n<tr><th>a</th><th style=\"text-align:right\">b</th></tr>\n<tr><td>1</td><td style=\"text-align:right\">2</td></tr>\n</table>\n"
        );
        assert_eq!(
            rendered("[a **b**](https://c.d/?e=\"f\"&g)"),
            "<p><a href=\"https://c.d/?e=&quot;f&quot;&amp;g\" rel=\"nofollow noreferrer noopener\">a <strong>b</strong></a></p>\n"
        );
        assert_eq!(
            rendered("```rust\npub fn a() { \"<b>\" } // 'c'\n```"),
            "<pre><code><span class=k>pub fn</span> <span class=f>a</span>() { <span class=s>&quot;&lt;b&gt;&quot;</span> } <span class=c>// &#39;c&#39;</span></code></pre>\n"
        );
        assert_eq!(
            rendered("```diff\n-a\n+b\n```"),
            "<pre><code><span class=d>-a</span>\n<span class=i>+b</span></code></pre>\n"
        );
    }

    #[test]
    fn recorded_markup_is_text() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=y> b",
            "[a](javascript:b)",
            "![a](x:y)",
            "<https://a\" onclick=\"b>",
            "[a](https://b\"onclick=\"c)",
            "```\"><script>\n</code></pre><b>\n```",
            "<!-- -->",
            "&lt;b&gt;",
            "|<b>|\n|-|\n|<i>|",
            "# <h1>",
            "- <li>",
            "https://a.b/\"c<d>'",
            "\u{1b}[0m\u{202e}",
        ] {
            checked_text(&rendered(text)).unwrap_or_else(|wrong| panic!("{wrong} of {text}"));
        }
    }

    #[test]
    fn code_takes_at_most_three_times_its_text() {
        let json = "{\n  \"name\": \"value\",\n  \"n\": 1\n}\n".repeat(100);
        let files = [
            ("rust", include_str!("prose_parser.rs")),
            ("rs", include_str!("html.rs")),
            ("css", include_str!("html.css")),
            ("toml", include_str!("../Cargo.toml")),
            ("json", &json),
        ];
        for (language, code) in files {
            let mut html = String::new();
            write_html_code(&mut html, language, code);
            assert!(html.len() <= 3 * code.len() + FREE, "{language}: {}", html.len());
            // The marks of dense code are too many.
            assert_eq!(html.contains("<span"), language != "json", "{language}");
        }
    }

    proptest! {
        #[test]
        fn only_our_markup_is_written_and_no_word_is_lost(
            text in "([a-z]{3}|[a-z]{3} |\\PC|[\u{0}-\u{1f}\u{202e}]|\n- |\n> |\n```rust\n|\n\\|a\\|b\\|\n\\|-\\|-:\\|\n|\\]\\(https://|\\]\\(javascript:|<script>|\"|&lt;|[*_~\\[\\]()<>#|'&= ]){0,40}",
        ) {
            let text = text.replace("~~~", "~");
            let shown = checked_text(&rendered(&text));
            prop_assert!(shown.is_ok(), "{shown:?} of {text:?}");
            let shown = shown.unwrap();
            for word in text.replace("```rust", "").split(|c: char| !c.is_ascii_lowercase()).filter(|word| word.len() == 3) {
                prop_assert!(shown.contains(word), "{word} of {text:?} in {shown:?}");
            }
        }
    }
}
