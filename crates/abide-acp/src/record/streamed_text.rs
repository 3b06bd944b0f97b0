//! A text that an agent sends piece by piece.
//!
//! Each update is an event by itself. What may be the beginning of a secret stays out of it, and is looked
//! at together with what follows.

use abide::secrets::Redactor;

use super::redacted_text::{TextProbe, char_before, redacted};

/// The last bytes of what was recorded that are looked at again with what follows.
pub(super) const CONTEXT: usize = 64;
/// The most bytes that wait for more.
pub(super) const HELD: usize = 64 << 10;
/// How every mark begins.
pub(super) const MARK: &str = "‹redacted:";

/// A text as it is recorded.
#[derive(Debug, Default)]
pub(super) struct TextForms {
    /// What was held back and does not go on: to be recorded before it.
    pub(super) left: Vec<String>,
    /// While more may come.
    pub(super) shown: String,
    /// If nothing more comes.
    pub(super) whole: String,
}

/// A text so far.
#[derive(Debug)]
pub(super) struct AppendedText {
    /// The end of what was recorded.
    context: String,
    /// What was not recorded.
    held: String,
    /// The same as it is recorded if nothing more comes.
    left: String,
}

/// What stands before a text in JSON.
pub(super) fn key_context(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}\":\"") }
}

impl AppendedText {
    /// A text of which nothing has come.
    pub(super) fn new(key: &str) -> Self {
        Self { context: key_context(key), held: String::new(), left: String::new() }
    }

    /// Whether something of it was not recorded.
    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// The bytes that were held back.
    pub(super) fn size(&self) -> usize {
        self.held.len() + self.left.len()
    }

    /// Gives what was held back. It is recorded now.
    pub(super) fn release(&mut self) -> Vec<String> {
        let held = std::mem::take(&mut self.held);
        self.remember(&held);
        let left = std::mem::take(&mut self.left);
        if left.is_empty() { Vec::new() } else { vec![left] }
    }

    /// Adds a piece to what came before.
    pub(super) fn take(&mut self, probe: &TextProbe, text: &str) -> TextForms {
        let plain = format!("{}{text}", self.held);
        let joined = format!("{}{plain}", self.context);
        let probed = probe.probe(&joined);
        if probed.is_plain && probed.settled == joined.len() {
            self.held.clear();
            self.left.clear();
            self.remember(&plain);
            return TextForms { left: Vec::new(), shown: plain.clone(), whole: plain };
        }
        let redactor = probe.redactor();
        let (start, length) = probe.settled_start(&joined, probed);
        let recorded = joined.get(self.context.len()..length).unwrap_or_default();
        let shown = after_context(redactor, &self.context, &start, recorded);
        let whole = after_context(redactor, &self.context, &joined, &plain);
        let (done, held) = joined.split_at(length.max(self.context.len()));
        // A secret that begins in what is recorded is a mark here, too.
        self.left = after_context(redactor, done, &joined, held);
        self.remember(recorded);
        held.clone_into(&mut self.held);
        if self.held.len() > HELD {
            // No secret is that long.
            self.release();
            return TextForms { left: Vec::new(), shown: whole.clone(), whole };
        }
        TextForms { left: Vec::new(), shown, whole }
    }

    fn remember(&mut self, recorded: &str) {
        self.context.push_str(recorded);
        let from = char_before(&self.context, self.context.len().saturating_sub(CONTEXT));
        self.context.drain(..from);
    }
}

/// What of a text is not of the context that it begins with, which is `plain` if no secret goes over the
/// border. Of one that does, the whole mark.
fn after_context(redactor: &Redactor, context: &str, text: &str, plain: &str) -> String {
    let text_marks = redacted(Some(redactor), text);
    let context_marks = redacted(Some(redactor), context);
    if let Some(after) = text_marks.strip_prefix(&*context_marks) {
        // The writer of events makes the marks, and counts them.
        return text.strip_prefix(context).unwrap_or(after).to_owned();
    }
    let same = text_marks.bytes().zip(context_marks.bytes()).take_while(|(a, b)| a == b).count();
    let (start, after) = text_marks.split_at(char_before(&text_marks, same));
    // They may differ within a mark.
    let open =
        start.rfind(MARK).filter(|at| start.get(*at..).is_some_and(|mark| !mark.contains('›')));
    match open {
        Some(open) => text_marks.get(open..).unwrap_or_default().to_owned(),
        None if after.starts_with(MARK) => after.to_owned(),
        None => plain.to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use abide::secrets::{Redaction, RedactionOptions};

    use super::*;

    pub(crate) fn redactor() -> Redactor {
        let options = RedactionOptions {
            variables: Some(Vec::new()),
            directory: None,
            state: None,
            ..RedactionOptions::default()
        };
        Redaction::new(options).redactor(None).unwrap()
    }

    pub(crate) fn token() -> String {
        format!("ghp_{}", "R7kQ2mZx9LbT4vWc8NdY1sHf6JgP3aUe5KoX")
    }

    pub(crate) fn marked(redactor: &Redactor, text: &str) -> String {
        redacted(Some(redactor), text).into_owned()
    }

    #[test]
    fn of_pieces_that_are_added_no_part_of_a_secret_is_shown() {
        let redactor = redactor();
        let probe = TextProbe::new(redactor.clone());
        let blank = "nothing to see here\n".repeat(40);
        let all = format!("it is {} so\n{blank}", token());
        for size in [1, 5, 13, 40] {
            let mut text = AppendedText::new("data");
            let mut shown = String::new();
            for piece in all.as_bytes().chunks(size) {
                let piece = std::str::from_utf8(piece).unwrap();
                let forms = text.take(&probe, piece);
                shown.push_str(&marked(&redactor, &forms.shown));
            }
            shown.push_str(&marked(&redactor, &text.release().concat()));
            for part in token().as_bytes().windows(9) {
                let part = std::str::from_utf8(part).unwrap();
                assert!(!shown.contains(part), "{size}: {shown}");
            }
            assert!(shown.contains("‹redacted:github"), "{size}: {shown}");
            assert!(shown.ends_with(&format!("› so\n{blank}")), "{size}: {shown}");
        }
    }
}
