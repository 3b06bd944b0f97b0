//! Texts without their secrets, for whoever records only a part of a text: redacted first, cut afterwards.

use std::borrow::Cow;

use abide::secrets::{Redactor, unscanned_mark};
use serde_json::value::RawValue;

use super::name::start_of_name;

/// Bytes without a keyword before a text that is probed: more than a secret may begin before its keyword.
pub(super) const PADDING: usize = 4 << 10;
/// The last bytes of a text of which nothing is known: a keyword may begin in them.
const TAIL: usize = 3;
/// Bytes before the end of a long text that are scanned, too: more than the longest secret has.
const BEFORE_END: usize = 64 << 10;

/// A text with marks in the place of secrets; as it is without a redactor.
pub(super) fn redacted<'t>(redactor: Option<&Redactor>, text: &'t str) -> Cow<'t, str> {
    let Some(redactor) = redactor else { return Cow::Borrowed(text) };
    match redactor.redact_text(text) {
        Ok(redacted) => redacted.into_text(),
        Err(overrun) => Cow::Owned(unscanned_mark(overrun.bytes)),
    }
}

/// JSON with marks in the place of secrets.
pub(super) fn redacted_json(redactor: Option<&Redactor>, json: &RawValue) -> Box<RawValue> {
    let Some(redactor) = redactor else { return json.to_owned() };
    let redacted = redactor.redact_json(json.get()).ok().map(|text| text.into_text().into_owned());
    redacted
        .and_then(|text| RawValue::from_string(text).ok())
        .unwrap_or_else(|| RawValue::NULL.to_owned())
}

/// The inside of a JSON string with marks in the place of secrets.
pub(super) fn redacted_string(redactor: &Redactor, raw: &str) -> Option<String> {
    let redacted = redactor.redact_json(&format!("\"{raw}\"")).ok()?.into_text().into_owned();
    Some(redacted.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

/// The start of a text, at most `most` characters. No secret is cut: it is a mark before that.
pub(super) fn start_of_text(redactor: Option<&Redactor>, text: &str, most: usize) -> String {
    if start_of_name(text, most).len() == text.len() {
        return text.to_owned();
    }
    start_of_name(&redacted(redactor, text), most).to_owned()
}

/// The end of a text from a place on. A secret that begins before it is a mark.
pub(super) fn end_of_text(redactor: Option<&Redactor>, text: &str, from: usize) -> String {
    let kept = text.get(from..).unwrap_or_default();
    let Some(redactor) = redactor else { return kept.to_owned() };
    let start = char_before(text, from.saturating_sub(BEFORE_END));
    let mut stream = redactor.stream();
    stream.push(text.get(start..from).unwrap_or_default());
    let mut end = stream.push(kept);
    end.push_str(&stream.finish());
    end
}

/// A redactor that tells how much of a text waits for more.
#[derive(Debug, Clone)]
pub(super) struct TextProbe {
    redactor: Redactor,
    /// As long as what is held back of any text: a secret may stand before its keyword.
    padding: String,
}

/// What a scan tells of a text that may go on.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbedText {
    /// How many bytes of it wait for nothing: there no secret has begun that is not there to its end.
    pub(super) settled: usize,
    /// Whether it has no secret if nothing more comes.
    pub(super) is_plain: bool,
}

impl TextProbe {
    pub(super) fn new(redactor: Redactor) -> Self {
        let mut stream = redactor.stream();
        stream.push(&"\n".repeat(PADDING));
        let padding = "\n".repeat(stream.held_back());
        Self { redactor, padding }
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub(super) fn probe(&self, text: &str) -> ProbedText {
        let mut stream = self.redactor.stream();
        stream.push(&format!("{}{text}", self.padding));
        let held = stream.held_back();
        if held == 0 {
            // It was given up.
            return ProbedText { settled: 0, is_plain: false };
        }
        stream.finish();
        let is_plain = stream.tally().is_empty();
        let waits = held.saturating_sub(self.padding.len());
        let settled = if waits <= TAIL {
            text.len()
        } else {
            char_before(text, text.len().saturating_sub(waits + TAIL))
        };
        ProbedText { settled, is_plain }
    }

    /// The start of a text that may be recorded while more of it may come, and how many bytes of it that is:
    /// what stands after it may be the beginning of a secret.
    pub(super) fn settled_start<'t>(
        &self,
        text: &'t str,
        probed: ProbedText,
    ) -> (Cow<'t, str>, usize) {
        let Ok(whole) = self.redactor.redact_text(text) else {
            return (Cow::Owned(unscanned_mark(text.len() as u64)), text.len());
        };
        let start = text.get(..probed.settled).unwrap_or_default();
        let alone = self.redactor.redact_text(start);
        if alone.is_ok_and(|alone| whole.text().starts_with(alone.text())) {
            return (Cow::Borrowed(start), probed.settled);
        }
        // What follows tells of a secret before the border, or the border is within one.
        let mut stream = self.redactor.stream();
        let released = stream.push(text);
        (Cow::Owned(released), text.len().saturating_sub(stream.held_back()))
    }
}

/// The last border of characters that is not after this place.
pub(super) fn char_before(text: &str, place: usize) -> usize {
    let mut place = place.min(text.len());
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    place
}
