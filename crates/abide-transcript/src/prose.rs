//! The Markdown of a message as blocks and spans, for every renderer to walk.
//!
//! [`parse_prose`](crate::prose_parser::parse_prose) makes them.

use std::rc::Rc;

/// A block of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ProseBlock {
    Paragraph(Vec<ProseSpan>),
    Heading {
        /// From 1 to 6.
        level: u8,
        spans: Vec<ProseSpan>,
    },
    Code {
        /// What stands behind the fence, often empty.
        language: String,
        /// Lines, without a line break at the end.
        text: String,
    },
    List(ProseList),
    Quote(Vec<ProseBlock>),
    Table(ProseTable),
    Rule,
}

/// A list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProseList {
    /// The number of the first item, or nothing for bullets.
    pub(crate) start: Option<u64>,
    pub(crate) items: Vec<ProseItem>,
}

/// An item of a list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProseItem {
    pub(crate) task: Option<TaskMark>,
    pub(crate) blocks: Vec<ProseBlock>,
}

/// The mark of an item that is a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskMark {
    Open,
    Done,
}

/// A table. Rows may have more or fewer cells than the header.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProseTable {
    pub(crate) alignments: Vec<CellAlignment>,
    pub(crate) header: Vec<ProseCell>,
    pub(crate) rows: Vec<Vec<ProseCell>>,
}

/// A cell of a table: one line of text.
pub(crate) type ProseCell = Vec<ProseSpan>;

/// Where the text of a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellAlignment {
    Left,
    Centre,
    Right,
}

/// A piece of text of one face. Neighbours with the same address are one link.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProseSpan {
    /// Text with line breaks.
    pub(crate) text: String,
    pub(crate) face: SpanFace,
    /// What the text links to: an `http`, `https` or `mailto` address.
    pub(crate) address: Option<Rc<str>>,
}

/// How a piece of text is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SpanFace {
    pub(crate) strong: bool,
    pub(crate) emphasis: bool,
    pub(crate) struck: bool,
    pub(crate) code: bool,
}

/// The neighbouring spans of one link, or one span that is no link.
pub(crate) fn linked_spans(spans: &[ProseSpan]) -> impl Iterator<Item = &[ProseSpan]> {
    spans.chunk_by(|one, next| one.address.is_some() && one.address == next.address)
}

/// Whether the text of these spans is this address, also without its scheme.
pub(crate) fn spans_show_address(spans: &[ProseSpan], address: &str) -> bool {
    let bare = ["https://", "http://", "mailto:"]
        .iter()
        .find_map(|scheme| address.strip_prefix(scheme))
        .unwrap_or(address);
    let is_text = |address: &str| {
        let mut rest = address;
        let start = spans
            .iter()
            .all(|span| rest.strip_prefix(&*span.text).map(|behind| rest = behind).is_some());
        start && (rest.is_empty() || rest == "/")
    };
    is_text(address) || is_text(bare)
}
