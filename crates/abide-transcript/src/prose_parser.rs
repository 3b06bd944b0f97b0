//! Parses the Markdown of a message into blocks and spans.
//!
//! What a renderer shows is text, and a few kinds of block around it. Raw HTML is text as it was
//! typed, an image is a link to its address, and only `http`, `https` and `mailto` addresses are
//! links. Line breaks stay where they were typed. No word is dropped, save the language of a code
//! block, which is kept apart.
//!
//! The text is untrusted: depth and number of blocks are bounded, and what goes beyond is kept as
//! one block of code.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;

use pulldown_cmark::{
    Alignment, CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd,
};

use crate::prose::{
    CellAlignment, ProseBlock, ProseCell, ProseItem, ProseList, ProseSpan, ProseTable, SpanFace,
    TaskMark, spans_show_address,
};
use crate::rendering::clip_rendering;

/// How much of a text is parsed, in bytes.
const PARSED: usize = 256 << 10;
/// How deeply quotations and lists are nested. Deeper ones become part of the last.
const DEPTH: usize = 12;
/// How many blocks, items, rows and cells there are.
const NODES: usize = 16 << 10;

/// Parses the Markdown of a message.
pub(crate) fn parse_prose(text: &str) -> Vec<ProseBlock> {
    let text: Cow<'_, str> =
        if text.contains('\r') { text.replace("\r\n", "\n").into() } else { text.into() };
    let parsed = text.get(..parsed_length(&text)).unwrap_or(&text);
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut builder = ProseBuilder::new(parsed);
    let mut end = parsed.len();
    for (event, range) in Parser::new_ext(parsed, options).into_offset_iter() {
        if builder.nodes >= NODES && starts_node(&event) {
            end = range.start;
            break;
        }
        builder.add(event, range);
    }
    let mut blocks = builder.finish(end);
    let rest = text.get(end..).unwrap_or_default().trim_end_matches('\n');
    if !rest.is_empty() {
        blocks.push(ProseBlock::Code { language: String::new(), text: rest.to_owned() });
    }
    blocks
}

/// How much of the text is parsed: all of it, or whole lines if there are any.
fn parsed_length(text: &str) -> usize {
    if text.len() <= PARSED {
        return text.len();
    }
    let (start, _) = clip_rendering(text, PARSED);
    start.rfind('\n').map_or(start.len(), |end| end + 1)
}

const fn starts_node(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::Rule
            | Event::Start(
                Tag::Paragraph
                    | Tag::Heading { .. }
                    | Tag::BlockQuote(_)
                    | Tag::CodeBlock(_)
                    | Tag::HtmlBlock
                    | Tag::List(_)
                    | Tag::Item
                    | Tag::Table(_)
                    | Tag::TableHead
                    | Tag::TableRow
                    | Tag::TableCell
            )
    )
}

/// A quotation, list or item that has not ended.
enum OpenContainer {
    Quote(Vec<ProseBlock>),
    List(ProseList),
    Item(ProseItem),
}

/// A link or image that has not ended.
struct OpenLink {
    /// The address as it was typed, with the scheme of a mail address.
    typed: String,
    title: String,
    /// The address that text here links to: its own, or that of the link around it.
    address: Option<Rc<str>>,
    is_active: bool,
    /// The first of its spans.
    start: usize,
}

/// How deeply the text is inside each kind of mark.
#[derive(Default)]
struct OpenFaces {
    strong: usize,
    emphasis: usize,
    struck: usize,
}

struct ProseBuilder<'a> {
    source: &'a str,
    /// How far the source was taken in.
    covered: usize,
    nodes: usize,
    blocks: Vec<ProseBlock>,
    open: Vec<OpenContainer>,
    /// Containers inside the last open one that are too deep.
    ignored: usize,
    /// The text of the current leaf.
    spans: Vec<ProseSpan>,
    /// Text is not added to spans before this one.
    first_open_span: usize,
    faces: OpenFaces,
    links: Vec<OpenLink>,
    /// The language and text of the current code block.
    code: Option<(String, String)>,
    table: Option<ProseTable>,
    row: Vec<ProseCell>,
}

impl<'a> ProseBuilder<'a> {
    fn new(source: &'a str) -> Self {
        Self {
            source,
            covered: 0,
            nodes: 0,
            blocks: Vec::new(),
            open: Vec::new(),
            ignored: 0,
            spans: Vec::new(),
            first_open_span: 0,
            faces: OpenFaces::default(),
            links: Vec::new(),
            code: None,
            table: None,
            row: Vec::new(),
        }
    }

    fn add(&mut self, event: Event<'_>, range: Range<usize>) {
        if starts_node(&event) {
            self.nodes += 1;
        }
        match event {
            Event::Start(tag) => return self.start(tag, &range),
            Event::End(tag) => self.end(tag, &range),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.add_text(&text, self.face()),
            },
            Event::Code(text) => self.add_text(&text, SpanFace { code: true, ..self.face() }),
            Event::SoftBreak | Event::HardBreak => self.add_text("\n", self.face()),
            Event::Rule => {
                self.start_block(range.start);
                self.push(ProseBlock::Rule);
            }
            Event::TaskListMarker(done) => {
                if let (0, Some(OpenContainer::Item(item))) = (self.ignored, self.open.last_mut()) {
                    item.task = Some(if done { TaskMark::Done } else { TaskMark::Open });
                }
            }
            // Notes and mathematics are not enabled: they would be text.
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::FootnoteReference(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text) => self.add_text(&text, self.face()),
        }
        self.covered = self.covered.max(range.end);
    }

    fn start(&mut self, tag: Tag<'_>, range: &Range<usize>) {
        match tag {
            Tag::Emphasis => self.faces.emphasis += 1,
            Tag::Strong => self.faces.strong += 1,
            Tag::Strikethrough => self.faces.struck += 1,
            Tag::Link { link_type, dest_url, title, .. }
            | Tag::Image { link_type, dest_url, title, .. } => {
                self.start_link(link_type, &dest_url, &title);
            }
            Tag::TableHead | Tag::TableRow | Tag::TableCell => self.covered = range.start,
            tag => {
                self.start_block(range.start);
                self.start_leaf(tag);
            }
        }
    }

    fn start_leaf(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.trim().to_owned(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::Table(alignments) => {
                let aligned = |alignment: &Alignment| match alignment {
                    Alignment::None | Alignment::Left => CellAlignment::Left,
                    Alignment::Center => CellAlignment::Centre,
                    Alignment::Right => CellAlignment::Right,
                };
                let alignments = alignments.iter().map(aligned).collect();
                self.table = Some(ProseTable { alignments, header: Vec::new(), rows: Vec::new() });
            }
            Tag::BlockQuote(_) => self.start_container(OpenContainer::Quote(Vec::new())),
            Tag::List(start) => {
                self.start_container(OpenContainer::List(ProseList { start, items: Vec::new() }));
            }
            Tag::Item if self.ignored == 0 => {
                self.open.push(OpenContainer::Item(ProseItem { task: None, blocks: Vec::new() }));
            }
            Tag::Item => self.ignored += 1,
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, range: &Range<usize>) {
        match tag {
            TagEnd::Emphasis => self.faces.emphasis = self.faces.emphasis.saturating_sub(1),
            TagEnd::Strong => self.faces.strong = self.faces.strong.saturating_sub(1),
            TagEnd::Strikethrough => self.faces.struck = self.faces.struck.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::Heading(level) => {
                let spans = self.drain_spans();
                self.push(ProseBlock::Heading { level: level as u8, spans });
            }
            TagEnd::CodeBlock => {
                if let Some((language, mut text)) = self.code.take() {
                    text.truncate(text.strip_suffix('\n').unwrap_or(&text).len());
                    self.push(ProseBlock::Code { language, text });
                }
            }
            TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item => {
                self.start_block(range.end);
                match self.ignored {
                    0 => self.end_container(),
                    _ => self.ignored -= 1,
                }
            }
            TagEnd::TableCell => {
                let cell = self.drain_spans();
                self.row.push(cell);
            }
            TagEnd::TableHead | TagEnd::TableRow => self.end_row(tag, range.end),
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.push(ProseBlock::Table(table));
                }
            }
            _ => self.flush_paragraph(),
        }
    }

    /// Ends a row. Cells behind those of the header are not parsed, and kept as one cell.
    fn end_row(&mut self, tag: TagEnd, end: usize) {
        let rest = self.source.get(self.covered..end).unwrap_or_default();
        let rest = rest.trim_matches(|c: char| c == '|' || c.is_whitespace());
        if rest.contains(char::is_alphanumeric) {
            self.add_text(rest, SpanFace::default());
            let cell = self.drain_spans();
            self.row.push(cell);
        }
        let row = std::mem::take(&mut self.row);
        match &mut self.table {
            Some(table) if tag == TagEnd::TableHead => table.header = row,
            Some(table) => table.rows.push(row),
            None => {}
        }
    }

    fn start_container(&mut self, container: OpenContainer) {
        if self.ignored > 0 || self.open.len() >= DEPTH {
            self.ignored += 1;
        } else {
            self.open.push(container);
        }
    }

    fn end_container(&mut self) {
        match self.open.pop() {
            Some(OpenContainer::Quote(blocks)) => self.push(ProseBlock::Quote(blocks)),
            Some(OpenContainer::List(list)) => self.push(ProseBlock::List(list)),
            Some(OpenContainer::Item(item)) => {
                if let Some(OpenContainer::List(list)) = self.open.last_mut() {
                    list.items.push(item);
                } else {
                    item.blocks.into_iter().for_each(|block| self.push(block));
                }
            }
            None => {}
        }
    }

    fn push(&mut self, block: ProseBlock) {
        match self.open.last_mut() {
            None => self.blocks.push(block),
            Some(OpenContainer::Quote(blocks)) => blocks.push(block),
            Some(OpenContainer::Item(item)) => item.blocks.push(block),
            Some(OpenContainer::List(list)) => {
                list.items.push(ProseItem { task: None, blocks: vec![block] });
            }
        }
    }

    /// Ends the paragraph before a block, and keeps definitions of links between the two as text.
    fn start_block(&mut self, start: usize) {
        self.flush_paragraph();
        let gap = self.source.get(self.covered..start).unwrap_or_default();
        if gap.contains("]:") {
            let text = gap.trim_matches(|c: char| c.is_whitespace() || ">-*+".contains(c));
            self.add_text(text, SpanFace::default());
            self.flush_paragraph();
        }
        self.covered = self.covered.max(start);
    }

    fn flush_paragraph(&mut self) {
        let spans = self.drain_spans();
        if !spans.is_empty() {
            self.push(ProseBlock::Paragraph(spans));
        }
    }

    /// The spans of the current leaf, without line breaks at its ends, and with the addresses in it
    /// as links.
    fn drain_spans(&mut self) -> Vec<ProseSpan> {
        self.first_open_span = 0;
        let mut spans = std::mem::take(&mut self.spans);
        while let Some(last) = spans.last_mut() {
            last.text.truncate(last.text.trim_end_matches('\n').len());
            if !last.text.is_empty() {
                break;
            }
            spans.pop();
        }
        if spans.iter().any(may_have_address) { link_addresses(spans) } else { spans }
    }

    const fn face(&self) -> SpanFace {
        SpanFace {
            strong: self.faces.strong > 0,
            emphasis: self.faces.emphasis > 0,
            struck: self.faces.struck > 0,
            code: false,
        }
    }

    fn add_text(&mut self, text: &str, face: SpanFace) {
        if text.is_empty() {
            return;
        }
        let address = self.links.last().and_then(|link| link.address.as_ref());
        let is_open = self.first_open_span < self.spans.len();
        if let Some(last) = self.spans.last_mut()
            && is_open
            && last.face == face
            && last.address.as_ref() == address
            && !face.code
        {
            last.text.push_str(text);
            return;
        }
        let address = address.cloned();
        self.spans.push(ProseSpan { text: text.to_owned(), face, address });
    }

    fn start_link(&mut self, link_type: LinkType, address: &CowStr<'_>, title: &CowStr<'_>) {
        let scheme = if link_type == LinkType::Email { "mailto:" } else { "" };
        let typed = format!("{scheme}{address}");
        let is_active = is_web_address(&typed);
        let address = if is_active {
            Some(Rc::from(typed.as_str()))
        } else {
            self.links.last().and_then(|link| link.address.clone())
        };
        let start = self.spans.len();
        self.first_open_span = start;
        self.links.push(OpenLink { typed, title: title.to_string(), address, is_active, start });
    }

    fn end_link(&mut self) {
        let Some(link) = self.links.last() else { return };
        let spans = self.spans.get(link.start..).unwrap_or_default();
        let after = if spans.is_empty() {
            link.typed.clone()
        } else if link.is_active || link.typed.is_empty() || spans_show_address(spans, &link.typed)
        {
            String::new()
        } else {
            format!(" ({})", link.typed)
        };
        let title =
            if link.title.is_empty() { String::new() } else { format!(" “{}”", link.title) };
        self.add_text(&after, self.face());
        self.links.pop();
        self.first_open_span = self.spans.len();
        self.add_text(&title, self.face());
    }

    /// Ends what is open.
    fn finish(mut self, end: usize) -> Vec<ProseBlock> {
        if let Some((language, text)) = self.code.take() {
            self.push(ProseBlock::Code { language, text });
        }
        if let Some(mut table) = self.table.take() {
            if !self.row.is_empty() {
                table.rows.push(std::mem::take(&mut self.row));
            }
            self.push(ProseBlock::Table(table));
        }
        self.flush_paragraph();
        while !self.open.is_empty() {
            self.end_container();
        }
        self.start_block(end);
        self.blocks
    }
}

/// Whether an address may be a link.
fn is_web_address(address: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| {
        address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            && address.len() > scheme.len()
    })
}

fn may_have_address(span: &ProseSpan) -> bool {
    span.address.is_none() && !span.face.code && span.text.contains("://")
}

/// Makes links of the web addresses in the text.
fn link_addresses(spans: Vec<ProseSpan>) -> Vec<ProseSpan> {
    let mut out = Vec::with_capacity(spans.len() + 2);
    for span in spans {
        if !may_have_address(&span) {
            out.push(span);
            continue;
        }
        let mut piece = |text: &str, address: Option<Rc<str>>| {
            if !text.is_empty() {
                out.push(ProseSpan { text: text.to_owned(), face: span.face, address });
            }
        };
        let (mut taken, mut at) = (0, 0);
        while let Some(found) = span.text.get(at..).and_then(|rest| rest.find("http")) {
            let start = at + found;
            let (before, rest) = span.text.split_at(start);
            at = start + 4;
            // The end of an address is looked for only where one can start: else every `http` in a
            // word would be read to the end.
            let inside = before.ends_with(char::is_alphanumeric);
            let length = if inside { 0 } else { typed_address_length(rest) };
            if length > 0 {
                piece(before.get(taken..).unwrap_or_default(), None);
                let address = rest.get(..length).unwrap_or_default();
                piece(address, Some(Rc::from(address)));
                at = start + length;
                taken = at;
            }
        }
        piece(span.text.get(taken..).unwrap_or_default(), None);
    }
    out
}

/// The length of the web address that the text starts with, without the punctuation behind it, or 0.
fn typed_address_length(text: &str) -> usize {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    if !host.is_some_and(|host| host.starts_with(char::is_alphanumeric)) {
        return 0;
    }
    let end = text.find(|c: char| c.is_whitespace() || c.is_control() || "<>\"`“”".contains(c));
    let mut address = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    let count = |mark| address.matches(mark).count();
    let mut unopened = count(')').saturating_sub(count('('));
    loop {
        let closed = address.strip_suffix(')').filter(|_| unopened > 0);
        if closed.is_some() {
            unopened -= 1;
        }
        let ended = || address.strip_suffix(|c| ".,;:!?'*_~]}、。，）".contains(c));
        match closed.or_else(ended) {
            Some(shorter) => address = shorter,
            None => return address.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outline_spans(spans: &[ProseSpan]) -> String {
        let span = |span: &ProseSpan| {
            let SpanFace { strong, emphasis, struck, code } = span.face;
            let marks = [(strong, 's'), (emphasis, 'e'), (struck, 'd'), (code, 'c')];
            let marks: String = marks.iter().filter(|(on, _)| *on).map(|(_, mark)| mark).collect();
            let text = if marks.is_empty() {
                span.text.clone()
            } else {
                format!("{{{marks} {}}}", span.text)
            };
            match &span.address {
                Some(address) => format!("<{text}|{address}>"),
                None => text,
            }
        };
        spans.iter().map(span).collect()
    }

    fn outline(blocks: &[ProseBlock]) -> String {
        let block = |block: &ProseBlock| match block {
            ProseBlock::Paragraph(spans) => format!("p({})", outline_spans(spans)),
            ProseBlock::Heading { level, spans } => format!("h{level}({})", outline_spans(spans)),
            ProseBlock::Code { language, text } => format!("code {language}({text})"),
            ProseBlock::List(list) => {
                let item = |item: &ProseItem| {
                    let mark = match item.task {
                        None => "",
                        Some(TaskMark::Open) => "[ ] ",
                        Some(TaskMark::Done) => "[x] ",
                    };
                    format!("{mark}{}", outline(&item.blocks))
                };
                let items: Vec<_> = list.items.iter().map(item).collect();
                format!("list {:?}({})", list.start, items.join(", "))
            }
            ProseBlock::Quote(blocks) => format!("quote({})", outline(blocks)),
            ProseBlock::Table(table) => {
                let row = |row: &Vec<ProseCell>| {
                    row.iter().map(|cell| outline_spans(cell)).collect::<Vec<_>>().join("|")
                };
                let rows: Vec<_> =
                    std::iter::once(&table.header).chain(&table.rows).map(row).collect();
                format!("table {:?}({})", table.alignments, rows.join("/"))
            }
            ProseBlock::Rule => "rule".to_owned(),
        };
        blocks.iter().map(block).collect::<Vec<_>>().join(" ")
    }

    fn parsed(text: &str) -> String {
        outline(&parse_prose(text))
    }

    #[test]
    fn blocks_are_told_apart() {
        assert_eq!(
            parsed("# A\n\nb\nc\n\n---\n> d\n> > e"),
            "h1(A) p(b\nc) rule quote(p(d) quote(p(e)))"
        );
        assert_eq!(parsed("```rust x\nlet a;\n\n```\n\n    b"), "code rust x(let a;\n) code (b)");
        assert_eq!(
            parsed("- a\n  - b\n- [x] c\n- [ ] d\n\n3. e\n\n   f"),
            "list None(p(a) list None(p(b)), [x] p(c), [ ] p(d)) list Some(3)(p(e) p(f))"
        );
        assert_eq!(
            parsed("| a | b |\n|--:|:-:|\n| 1 | `2` |\n| 3 |\n| 4 | 5 | six |"),
            "table [Right, Centre](a|b/1|{c 2}/3|/4|5|six)"
        );
        assert_eq!(parsed(""), "");
        assert_eq!(parsed("a\r\nb\r\n\r\n```\r\nc\r\n```"), "p(a\nb) code (c)");
    }

    #[test]
    fn spans_are_told_apart() {
        assert_eq!(
            parsed("a **b *c* `d`** ~~e~~ f\\*g &amp;"),
            "p(a {s b }{se c}{s  }{sc d} {d e} f*g &)"
        );
        assert_eq!(parsed("<b>x</b> <!-- y -->"), "p(<b>x</b> <!-- y -->)");
        assert_eq!(parsed("<div>\n  **x**\n</div>\n\ny"), "p(<div>\n  **x**\n</div>) p(y)");
    }

    #[test]
    fn only_web_addresses_are_links() {
        assert_eq!(
            parsed("[a **b**](https://c.d \"e\")"),
            "p(<a |https://c.d><{s b}|https://c.d> “e”)"
        );
        assert_eq!(parsed("![a](https://c.d/e.png)"), "p(<a|https://c.d/e.png>)");
        assert_eq!(parsed("![](https://c.d)"), "p(<https://c.d|https://c.d>)");
        assert_eq!(parsed("<a@b.c> <HTTPS://d>"), "p(<a@b.c|mailto:a@b.c> <HTTPS://d|HTTPS://d>)");
        assert_eq!(parsed("[a](src/b.rs:1) [c.rs](c.rs)"), "p(a (src/b.rs:1) c.rs)");
        for address in [
            "javascript:x",
            "data:text/html,x",
            "java&#115;cript:x",
            "vbscript:x",
            "//e.f",
            "file:///x",
        ] {
            assert!(
                !parsed(&format!("[a]({address}) ![b]({address}) <{address}>")).contains('|'),
                "{address}"
            );
        }
        assert_eq!(parsed("[![a](i.png)](https://b.c)"), "p(<a (i.png)|https://b.c>)");
        assert_eq!(
            parsed("See https://a.b/c_d(e)?f=1, (http://g.h). xhttp://i http:// `http://j`"),
            "p(See <https://a.b/c_d(e)?f=1|https://a.b/c_d(e)?f=1>, (<http://g.h|http://g.h>). xhttp://i http:// {c http://j})"
        );
    }

    #[test]
    fn definitions_of_links_are_kept() {
        assert_eq!(
            parsed("[a][b]\n\n[b]: https://c.d\n[b]: https://twice\n\ne"),
            "p(<a|https://c.d>) p([b]: <https://c.d|https://c.d>\n\
             [b]: <https://twice|https://twice>) p(e)"
        );
        assert_eq!(parsed("> [b]: /c\n\n- [d]: /e"), "quote(p([b]: /c)) list None(p([d]: /e))");
    }

    /// Blocks, items, rows, cells, spans, bytes of text, and depth.
    #[derive(Debug, Default, Clone, Copy)]
    struct ProseSize {
        nodes: usize,
        spans: usize,
        bytes: usize,
        depth: usize,
    }

    fn measure(blocks: &[ProseBlock], depth: usize, size: &mut ProseSize) {
        size.depth = size.depth.max(depth);
        for block in blocks {
            size.nodes += 1;
            let mut spans: Vec<&[ProseSpan]> = Vec::new();
            match block {
                ProseBlock::Paragraph(inner) | ProseBlock::Heading { spans: inner, .. } => {
                    spans.push(inner)
                }
                ProseBlock::Code { language, text } => size.bytes += language.len() + text.len(),
                ProseBlock::List(list) => {
                    size.nodes += list.items.len();
                    list.items.iter().for_each(|item| measure(&item.blocks, depth + 1, size));
                }
                ProseBlock::Quote(blocks) => measure(blocks, depth + 1, size),
                ProseBlock::Table(table) => {
                    let rows = std::iter::once(&table.header).chain(&table.rows);
                    size.nodes += rows.clone().map(|row| 1 + row.len()).sum::<usize>();
                    spans.extend(rows.flatten().map(|cell| &**cell));
                }
                ProseBlock::Rule => {}
            }
            for span in spans.into_iter().flatten() {
                size.spans += 1;
                size.bytes += span.text.len();
            }
        }
    }

    #[test]
    fn hostile_text_is_bounded() {
        let many = 100_000;
        let nested = |mark: &str| {
            (0..400)
                .map(|depth| format!("{}{mark} a{depth}\n", "  ".repeat(depth)))
                .collect::<String>()
        };
        let mut texts: Vec<String> = [
            ">",
            "[",
            "*",
            "- ",
            "* a **b ",
            "`",
            "``a`",
            "![",
            "[a](",
            "[a](<",
            "<!--",
            "<a ",
            "~~~\n",
            "1. ",
            "|",
            "a|",
            "- a\n",
            "> a\n\n",
            "# \n",
            "\\",
            "&",
            "_a",
            "~~a ",
            "]",
            "](",
            "a\n\n",
            "[a]: b\n",
            "[a]\n\n",
            "http://",
            "https://a) ",
            "<?",
            "<![CDATA[",
            "***\n",
            "\t",
            "\n>",
        ]
        .iter()
        .map(|part| part.repeat(many))
        .collect();
        texts.extend([nested("-"), nested("1."), nested(">"), "x".repeat(10 << 20)]);
        texts.push(format!(
            "{}\n{}\n{}",
            "|a".repeat(1000),
            "|-".repeat(1000),
            "|b\n".repeat(20_000)
        ));
        texts.push(format!("[a]: /{}\n\n{}", "b".repeat(10_000), "[a] ".repeat(many)));
        for text in texts {
            let mut size = ProseSize::default();
            measure(&parse_prose(&text), 0, &mut size);
            let start = &text[..text.len().min(12)];
            assert!(size.nodes <= 2 * NODES + 100, "{start:?} {size:?}");
            assert!(size.depth <= DEPTH + 1, "{start:?} {size:?}");
            assert!(size.spans <= text.len().min(PARSED) + 1, "{start:?} {size:?}");
            assert!(size.bytes <= 2 * text.len() + (128 << 10), "{start:?} {size:?}");
        }
    }

    /// The text that is shown, with a blank between spans.
    fn shown(blocks: &[ProseBlock], out: &mut String) {
        for block in blocks {
            match block {
                ProseBlock::Paragraph(spans) | ProseBlock::Heading { spans, .. } => {
                    for span in spans {
                        out.push_str(&span.text);
                        if let Some(address) = &span.address {
                            out.push_str(&format!(" {address} "));
                        }
                    }
                    out.push(' ');
                }
                ProseBlock::Code { language, text } => out.push_str(&format!("{language} {text} ")),
                ProseBlock::List(list) => {
                    list.items.iter().for_each(|item| shown(&item.blocks, out));
                }
                ProseBlock::Quote(blocks) => shown(blocks, out),
                ProseBlock::Table(table) => {
                    for cell in table.header.iter().chain(table.rows.iter().flatten()) {
                        shown(&[ProseBlock::Paragraph(cell.clone())], out);
                    }
                }
                ProseBlock::Rule => {}
            }
        }
    }

    proptest! {
        #[test]
        fn no_word_is_lost(text in "([a-z]{3}|[a-z]{3} |\\PC|\n\n|\n> |\n- |\n1\\. |\n    |\n```|\n\\|a\\|b\\|\n\\|-\\|-\\|\n\\||\\]\\(|\\]: |[*_~`\\[\\]()<>!#|\n \"'=:-]){0,40}") {
            let mut seen = String::new();
            shown(&parse_prose(&text), &mut seen);
            for word in text.split(|c: char| !c.is_ascii_lowercase()).filter(|word| word.len() == 3) {
                prop_assert!(seen.contains(word), "{word} of {text:?} in {seen:?}");
            }
        }
    }
}
