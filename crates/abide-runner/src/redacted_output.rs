//! An output that is text, as it comes, with marks in place of secrets.
//!
//! What a chunk may have cut in two is held back. Whole lines are passed on at once, unless a
//! secret may have begun in them whose end is to come: then they wait for it, and whoever holds the output
//! settles it when they have waited long enough.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use abide::secrets::{Redactor, StreamRedactor};

/// What comes within this time counts as one arrival.
const PACE: Duration = Duration::from_millis(100);

/// An output that is text, as it comes.
#[derive(Debug)]
pub(crate) struct RedactedOutput {
    stream: Option<StreamRedactor>,
    /// When what is held back came, and how many bytes, since it was last settled.
    arrived: VecDeque<(Instant, usize)>,
    /// The bytes of the current line so far.
    line: usize,
}

impl RedactedOutput {
    /// Without a redactor, everything is passed on as it is.
    pub(crate) fn new(redactor: Option<&Redactor>) -> Self {
        let stream = redactor.map(Redactor::stream);
        Self { stream, arrived: VecDeque::new(), line: 0 }
    }

    /// Takes what came, cut anywhere, and gives what may be passed on.
    pub(crate) fn push<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let Some(stream) = &mut self.stream else { return bytes.into() };
        let mut text = stream.push_bytes(bytes);
        text.push_str(&stream.release_lines());
        let held = stream.held_back();
        self.line = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => bytes.len() - at - 1,
            None => self.line + bytes.len(),
        };
        self.note_arrival(bytes.len(), held);
        text.into_bytes().into()
    }

    /// Notes that bytes came, and forgets when those came that are not held back any more.
    fn note_arrival(&mut self, bytes: usize, held: usize) {
        match self.arrived.back_mut() {
            Some((at, length)) if at.elapsed() < PACE => *length += bytes,
            _ => self.arrived.push_back((Instant::now(), bytes)),
        }
        let mut left = held;
        let is_held = |(_, length): &&(Instant, usize)| {
            let is_held = left > 0;
            left = left.saturating_sub(*length);
            is_held
        };
        let kept = self.arrived.iter().rev().take_while(is_held).count();
        self.arrived.drain(..self.arrived.len() - kept);
    }

    /// Since when something is held back that was not settled yet.
    pub(crate) fn held_since(&self) -> Option<Instant> {
        self.arrived.front().map(|(at, _)| *at)
    }

    /// The whole lines that are held back, unless a private key has begun in them. What remains is not
    /// waited for any more, until more comes.
    pub(crate) fn settle(&mut self) -> Vec<u8> {
        self.arrived.clear();
        self.stream.as_mut().map(|stream| stream.settle().into_bytes()).unwrap_or_default()
    }

    /// What is held back, with a line that is not complete; of a private key that has begun in an
    /// earlier line, nothing.
    pub(crate) fn end_line(&mut self) -> Vec<u8> {
        let mut text = self.settle();
        if self.stream.as_ref().is_some_and(|stream| stream.held_back() <= self.line) {
            text.extend(self.finish());
        }
        text
    }

    /// What was held back. Another output may follow.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.arrived.clear();
        self.line = 0;
        self.stream.as_mut().map(|stream| stream.finish().into_bytes()).unwrap_or_default()
    }
}

/// The beginning of a text that is cut off at its end, up to where no secret is cut in two, and how
/// many of its bytes are left out for that.
pub(crate) fn uncut_head(redactor: Option<&Redactor>, text: &str) -> (String, usize) {
    let Some(redactor) = redactor else { return (text.to_owned(), 0) };
    let mut stream = redactor.stream();
    let head = stream.push(text);
    (head, stream.held_back())
}

#[cfg(test)]
pub(crate) mod tests {
    use abide::secrets::Redaction;
    use abide::secrets::{RedactionOptions, RedactionSettings};

    use super::*;

    /// A redactor that knows nothing of this machine.
    pub(crate) fn redactor() -> Redactor {
        let options = RedactionOptions {
            settings: RedactionSettings::Known(Box::default()),
            variables: Some(Vec::new()),
            directory: None,
            state: None,
        };
        Redaction::new(options).redactor(None).unwrap()
    }

    /// Made here, so that no scanner takes this file for a leak.
    pub(crate) fn token() -> String {
        format!("ghp_{}", "R7kQ2mZx9LbT4vWc8NdY1sHf6JgP3aUe5KoX")
    }

    /// The lines of a private key, without line ends.
    pub(crate) fn key_lines() -> Vec<String> {
        let border = |word: &str| format!("-----{word} PRIVATE KEY-----");
        let body = "NotAKeyButOfItsShape".repeat(3);
        vec![border("BEGIN"), body.clone(), body.clone(), body, border("END")]
    }

    #[test]
    fn what_a_chunk_cuts_is_held_back_and_whole_lines_are_not() {
        let token = token();
        let mut output = RedactedOutput::new(Some(&redactor()));
        assert_eq!(&*output.push(b"one\ntwo\n$ "), b"one\ntwo\n");
        let mut rest = output.push(&token.as_bytes()[..17]).into_owned();
        rest.extend_from_slice(&output.push(format!("{} so\n", &token[17..]).as_bytes()));
        rest.extend(output.finish());
        let rest = String::from_utf8(rest).unwrap();
        assert!(rest.starts_with("$ ‹redacted:github") && rest.ends_with("› so\n"), "{rest}");
        assert_eq!(&*RedactedOutput::new(None).push(b"a"), b"a");
    }

    #[test]
    fn what_is_held_is_waited_for_once() {
        let mut output = RedactedOutput::new(Some(&redactor()));
        assert_eq!(output.held_since(), None);
        output.push(b"one\n");
        assert_eq!(output.held_since(), None);
        let before = Instant::now();
        output.push(b"see https://example.com/\n$ ");
        assert!(output.held_since().is_some_and(|since| since >= before));
        output.settle();
        assert_eq!(output.held_since(), None);
        output.push(b"x");
        assert!(output.held_since().is_some());
        output.finish();
        assert_eq!(output.held_since(), None);
    }

    #[test]
    fn a_line_may_be_ended_and_a_private_key_may_not() {
        let mut output = RedactedOutput::new(Some(&redactor()));
        let mut out = output.push(b"see https://example.com/\nName? ").into_owned();
        out.extend(output.end_line());
        assert_eq!(String::from_utf8(out).unwrap(), "see https://example.com/\nName? ");
        let lines = key_lines();
        let text = format!("\n{}\n$ ", lines[..2].join("\n"));
        let mut out = output.push(text.as_bytes()).into_owned();
        out.extend(output.end_line());
        assert_eq!(out, b"\n");
        assert_eq!(RedactedOutput::new(None).end_line(), b"");
    }

    #[test]
    fn a_text_that_is_cut_off_has_no_half_secret() {
        let redactor = redactor();
        let text = format!("{} {}", "word ".repeat(200), &token()[..30]);
        let (head, left_out) = uncut_head(Some(&redactor), &text);
        assert!(head.starts_with("word ") && !head.contains("ghp_"), "{head}");
        assert_eq!(head.len() + left_out, text.len());
        assert_eq!(uncut_head(None, "ghp_"), ("ghp_".to_owned(), 0));
    }
}
