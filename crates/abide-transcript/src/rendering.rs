//! The interface of all renderers.

use crate::session_overview::SessionOverview;
use crate::timeline_entry::TimelineEntry;

/// Renders a timeline, entry by entry.
pub trait TimelineRenderer {
    /// Renders the beginning.
    fn begin(&mut self, summary: &SessionOverview) -> String;
    /// Renders an entry; empty if it is left out.
    fn item(&mut self, item: &TimelineEntry) -> String;
    /// Renders the end.
    fn end(&mut self) -> String;
}

/// The start of a text, at most `most` bytes, and the number of bytes left out.
pub(crate) fn clip_rendering(text: &str, most: usize) -> (&str, usize) {
    if text.len() <= most {
        return (text, 0);
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let (start, rest) = text.split_at(end);
    (start, rest.len())
}
