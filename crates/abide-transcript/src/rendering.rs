//! The interface of all renderers.

use crate::call_view::{CallDiff, CallSign, CallView, DiffSign};
use crate::session_overview::SessionOverview;
use crate::short;
use crate::timeline_entry::{TimelineCall, TimelineEntry, TimelineImage};

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

/// What stands behind the name and target of a call: its facts, its duration, an unknown outcome.
pub(crate) fn call_facts(view: &CallView) -> Vec<String> {
    let mut facts: Vec<_> = view.facts.iter().map(|fact| short::short_start(fact, 80)).collect();
    facts.extend(view.millis.filter(|millis| *millis >= short::WORTH_TELLING).map(short::duration));
    if view.sign == CallSign::Unknown {
        facts.push("outcome unknown".to_owned());
    }
    facts
}

/// `result of Bash`, for a result that could not be joined with its call.
pub(crate) fn late_result_name(call: &TimelineCall) -> String {
    let name = if call.name.is_empty() { &call.call } else { &call.name };
    format!("result of {}", short::short_start(name, 80))
}

/// `image/png, 12 kB` or the address of an image.
pub(crate) fn image_words(image: &TimelineImage) -> String {
    if image.base64.is_empty() {
        return format!("image {}", short::short_start(&image.address, 200));
    }
    let media_type = short::short_start(&image.media_type, 40);
    let media_type = if media_type.is_empty() { "image".to_owned() } else { media_type };
    format!("{media_type}, {}", short::short_bytes(image.size()))
}

/// A diff as text, each line with its sign.
pub(crate) fn diff_text(diff: &CallDiff) -> String {
    let mut out = String::new();
    for line in &diff.lines {
        match line.sign {
            DiffSign::Gap => out.push_str("@@ "),
            sign => out.push_str(sign.mark()),
        }
        out.push_str(&line.text);
        out.push('\n');
    }
    out
}
