//! Task lists in Markdown: headings are phases, checkboxes are tasks, indentation is depth.
//!
//! Read line by line. Fenced code is text, whatever it looks like. A line of text that would be
//! taken for something else is written with a leading backslash, which is removed when it is read.

mod field;
mod line;
mod markdown_reader;
mod markdown_writer;
mod name;
mod status;

pub(crate) use markdown_reader::read_markdown;
pub(crate) use markdown_writer::write_markdown;
pub(crate) use status::markdown_status_edits;
