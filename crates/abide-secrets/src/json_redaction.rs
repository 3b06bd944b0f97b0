//! Redacts a JSON document: its strings and its keys, decoded, each by itself.
//!
//! A key gives context to its string: `{"acme_api_key": "…"}` is scanned as `acme_api_key":"…"`. A string that is
//! itself JSON with escapes, as the arguments of a call are, is gone through in the same way. Every byte that
//! is no secret stays as it was.

use std::borrow::Cow;

use crate::json_string::DecodedString;
use crate::mark::unscanned_mark;
use crate::opaque::{OpaqueField, opaque_field, says_media};
use crate::redactor::{RedactedText, Redactor, allowed_work};
use crate::scanner::SecretFinding;
use crate::tally::RedactionTally;

/// How deep JSON in strings of JSON is gone into.
const NESTING: usize = 4;
/// How deep arrays and objects may be nested.
const DEPTH: usize = 1024;

/// A text is no JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no JSON document: byte {offset} does not belong there")]
pub struct NotJson {
    /// Where it stops being one.
    pub offset: usize,
}

impl Redactor {
    /// Where the content of a JSON string, without its quotes, may be cut if more of it comes: what
    /// stands before is judged already, whatever follows.
    #[must_use]
    pub fn json_string_border(&self, raw: &str) -> usize {
        let Some(decoded) = DecodedString::new(raw) else { return 0 };
        let mut stream = self.stream();
        stream.push(&decoded.text);
        decoded.raw_place(decoded.text.len().saturating_sub(stream.held_back()))
    }

    /// Redacts the strings and keys of a JSON document. What stays is the same byte for byte.
    ///
    /// Signatures, encrypted reasoning and the data of images stay whole. A string that takes too
    /// much work to scan is replaced by a mark that says so, and counted under `unscanned`.
    ///
    /// # Errors
    ///
    /// If the text is not JSON. Nothing is known of its secrets then.
    pub fn redact_json<'t>(&self, document: &'t str) -> Result<RedactedText<'t>, NotJson> {
        let mut pass = JsonPass {
            redactor: self,
            work_left: allowed_work(document.len()),
            findings: Vec::new(),
            buffer: String::new(),
        };
        let mut edits = Vec::new();
        pass.redact_document(document, 0, &mut edits)?;
        let mut tally = RedactionTally::default();
        if edits.is_empty() {
            return Ok(RedactedText::new(Cow::Borrowed(document), tally, document.len()));
        }
        edits.sort_by_key(|edit| edit.start);
        let mut out = String::with_capacity(document.len());
        let mut done = 0;
        for edit in &edits {
            out.push_str(document.get(done..edit.start).unwrap_or_default());
            out.push_str(&edit.mark);
            tally.merge(&edit.tally);
            done = edit.end;
        }
        out.push_str(document.get(done..).unwrap_or_default());
        Ok(RedactedText::new(Cow::Owned(out), tally, document.len()))
    }
}

/// A mark in the place of a range.
struct MarkEdit {
    start: usize,
    end: usize,
    mark: String,
    tally: RedactionTally,
}

/// An object or an array that is open.
struct OpenJsonContainer<'d> {
    is_object: bool,
    key: Option<ContextKey<'d>>,
    says_media: bool,
    /// Strings that are opaque if a field beside them says so: their key and range.
    undecided: Vec<(ContextKey<'d>, usize, usize)>,
}

/// The key of the value that comes next.
#[derive(Clone)]
struct ContextKey<'d> {
    text: Cow<'d, str>,
    /// Whether it has a keyword, so that it may make a secret of its value.
    met_keyword: bool,
}

struct JsonPass<'r> {
    redactor: &'r Redactor,
    work_left: u64,
    findings: Vec<SecretFinding>,
    buffer: String,
}

impl JsonPass<'_> {
    fn redact_document<'d>(
        &mut self,
        document: &'d str,
        nesting: usize,
        edits: &mut Vec<MarkEdit>,
    ) -> Result<(), NotJson> {
        let bytes = document.as_bytes();
        let mut open: Vec<OpenJsonContainer<'d>> = Vec::new();
        let mut at = 0;
        while let Some(byte) = bytes.get(at).copied() {
            match byte {
                b'"' => {
                    let start = at + 1;
                    let end = string_end(bytes, start).ok_or(NotJson { offset: at })?;
                    at = end + 1;
                    let is_key = open
                        .last()
                        .is_some_and(|container| container.is_object && container.key.is_none());
                    let raw = document.get(start..end).ok_or(NotJson { offset: start })?;
                    if is_key {
                        let decoded = DecodedString::new(raw).ok_or(NotJson { offset: start })?;
                        let met_keyword =
                            self.redact_string(&decoded, None, start, end, nesting, edits);
                        let key = ContextKey { text: decoded.text, met_keyword };
                        if let Some(container) = open.last_mut() {
                            container.key = Some(key);
                        }
                        at += bytes
                            .get(at..)
                            .unwrap_or_default()
                            .iter()
                            .take_while(|byte| byte.is_ascii_whitespace())
                            .count();
                        if bytes.get(at) != Some(&b':') {
                            return Err(NotJson { offset: at });
                        }
                        at += 1;
                    } else {
                        let key = open.last_mut().and_then(|container| container.key.take());
                        self.redact_value(document, key, start, end, nesting, &mut open, edits)?;
                    }
                }
                b'{' | b'[' => {
                    if open.len() >= DEPTH {
                        return Err(NotJson { offset: at });
                    }
                    if let Some(container) = open.last_mut() {
                        container.key = None;
                    }
                    open.push(OpenJsonContainer {
                        is_object: byte == b'{',
                        key: None,
                        says_media: false,
                        undecided: Vec::new(),
                    });
                    at += 1;
                }
                b'}' | b']' => {
                    let closed = open
                        .pop()
                        .filter(|container| container.is_object == (byte == b'}'))
                        .ok_or(NotJson { offset: at })?;
                    if !closed.says_media {
                        for (key, start, end) in closed.undecided {
                            self.redact_raw(document, Some(&key), start, end, nesting, edits)?;
                        }
                    }
                    at += 1;
                }
                b',' => {
                    if let Some(container) = open.last_mut() {
                        container.key = None;
                    }
                    at += 1;
                }
                b' ' | b'\t' | b'\n' | b'\r' => at += 1,
                _ => {
                    at += bare_word(bytes.get(at..).unwrap_or_default())
                        .ok_or(NotJson { offset: at })?
                }
            }
        }
        if open.is_empty() { Ok(()) } else { Err(NotJson { offset: bytes.len() }) }
    }

    #[expect(clippy::too_many_arguments, reason = "the place of a value is all of them")]
    fn redact_value<'d>(
        &mut self,
        document: &'d str,
        key: Option<ContextKey<'d>>,
        start: usize,
        end: usize,
        nesting: usize,
        open: &mut [OpenJsonContainer<'d>],
        edits: &mut Vec<MarkEdit>,
    ) -> Result<(), NotJson> {
        let raw = document.get(start..end).unwrap_or_default();
        if let Some((key, container)) = key.as_ref().zip(open.last_mut()) {
            match opaque_field(&key.text, raw) {
                OpaqueField::Always => return Ok(()),
                OpaqueField::BesideMedia => {
                    container.undecided.push((key.clone(), start, end));
                    return Ok(());
                }
                OpaqueField::Never => container.says_media |= says_media(&key.text, raw),
            }
        }
        self.redact_raw(document, key.as_ref(), start, end, nesting, edits)
    }

    fn redact_raw(
        &mut self,
        document: &str,
        key: Option<&ContextKey<'_>>,
        start: usize,
        end: usize,
        nesting: usize,
        edits: &mut Vec<MarkEdit>,
    ) -> Result<(), NotJson> {
        let raw = document.get(start..end).unwrap_or_default();
        let decoded = DecodedString::new(raw).ok_or(NotJson { offset: start })?;
        self.redact_string(&decoded, key, start, end, nesting, edits);
        Ok(())
    }

    /// Redacts one string, and says whether it has a keyword.
    fn redact_string(
        &mut self,
        decoded: &DecodedString<'_>,
        key: Option<&ContextKey<'_>>,
        start: usize,
        end: usize,
        nesting: usize,
        edits: &mut Vec<MarkEdit>,
    ) -> bool {
        let text = decoded.text.as_ref();
        if nesting < NESTING
            && matches!(text.as_bytes().first(), Some(b'{' | b'['))
            && memchr::memchr(b'\\', text.as_bytes()).is_some()
        {
            let mut inner = Vec::new();
            if self.redact_document(text, nesting + 1, &mut inner).is_ok() {
                edits.extend(inner.into_iter().map(|edit| MarkEdit {
                    start: start + decoded.raw_place(edit.start),
                    end: start + decoded.raw_place(edit.end),
                    ..edit
                }));
                return false;
            }
        }
        self.findings.clear();
        let context = key.filter(|key| key.met_keyword);
        let shift = context.map_or(0, |key| key.text.len() + 3);
        let scanned = match context {
            Some(key) => {
                self.buffer.clear();
                for part in [&key.text, "\":\"", text, "\""] {
                    self.buffer.push_str(part);
                }
                self.redactor.scan_within(
                    self.buffer.as_bytes(),
                    self.work_left,
                    &mut self.findings,
                )
            }
            None => self.redactor.scan_within(text.as_bytes(), self.work_left, &mut self.findings),
        };
        let Ok(cost) = scanned else {
            self.work_left = 0;
            let mut tally = RedactionTally::default();
            tally.add("unscanned", text.len());
            edits.push(MarkEdit { start, end, mark: unscanned_mark(text.len() as u64), tally });
            return true;
        };
        self.work_left = self.work_left.saturating_sub(cost.work);
        for finding in &self.findings {
            // What of it stands in the key was found there.
            let from = finding.start.max(shift) - shift;
            let to = (finding.end.max(shift) - shift).min(text.len());
            if from >= to {
                continue;
            }
            let mut edit = MarkEdit {
                start: start + decoded.raw_place(from),
                end: start + decoded.raw_place(to),
                mark: String::new(),
                tally: RedactionTally::default(),
            };
            let secret = text.get(from..to).unwrap_or_default();
            let whole = SecretFinding { start: 0, end: secret.len(), ..*finding };
            self.redactor.write_redacted(secret, &[whole], &mut edit.tally, &mut edit.mark);
            edits.push(edit);
        }
        cost.met_keyword
    }
}

/// Where the closing quote of a string stands whose content begins at `from`.
fn string_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(found) == Some(&b'"') {
            return Some(found);
        }
        at = found + 2;
    }
}

/// The length of the number, `true`, `false` or `null` that begins here.
fn bare_word(bytes: &[u8]) -> Option<usize> {
    let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    let length = bytes.iter().take_while(is_word).count();
    let word = bytes.get(..length)?;
    let is_digit =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
    let is_number = word.iter().all(is_digit) && word.iter().any(u8::is_ascii_digit);
    (is_number || matches!(word, b"true" | b"false" | b"null")).then_some(length)
}

#[cfg(test)]
mod bare_word_tests {
    use super::bare_word;

    #[test]
    fn only_what_json_has_outside_of_strings_is_passed_over() {
        for (text, length) in [("true]", 4), ("null", 4), ("-1.5e+3,", 7), ("0}", 1), ("12 ", 2)] {
            assert_eq!(bare_word(text.as_bytes()), Some(length), "{text}");
        }
        for text in ["glpat-abc", "truetrue", "e", "", "-", "nul", "0x1f", "_"] {
            assert_eq!(bare_word(text.as_bytes()), None, "{text}");
        }
    }
}
