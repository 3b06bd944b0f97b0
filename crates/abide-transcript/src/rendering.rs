//! What the renderings have in common.

use crate::item::Item;
use crate::summary::Summary;

/// Makes text of a story, item by item.
pub trait Rendering {
    /// What comes first.
    fn begin(&mut self, summary: &Summary) -> String;
    /// An item; empty where it is left out.
    fn item(&mut self, item: &Item) -> String;
    /// What comes last.
    fn end(&mut self) -> String;
}

/// The start of a text, at most so many bytes, and how many are left out.
pub(crate) fn clip(text: &str, most: usize) -> (&str, usize) {
    if text.len() <= most {
        return (text, 0);
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let (start, rest) = text.split_at(end);
    (start, rest.len())
}
