//! An output that is text, as it comes, with marks in place of secrets.
//!
//! What a chunk may have cut in two is held back. Whole lines are passed on at once, unless a
//! secret of several lines may have begun in them.

use std::borrow::Cow;

use abide::secrets::{Redactor, StreamRedactor};

/// An output that is text, as it comes.
#[derive(Debug)]
pub(crate) struct RedactedOutput(Option<StreamRedactor>);

impl RedactedOutput {
    /// Without a redactor, everything is passed on as it is.
    pub(crate) fn new(redactor: Option<&Redactor>) -> Self {
        Self(redactor.map(Redactor::stream))
    }

    /// Takes what came, cut anywhere, and gives what may be passed on.
    pub(crate) fn push<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let Some(stream) = &mut self.0 else { return bytes.into() };
        let mut text = stream.push_bytes(bytes);
        text.push_str(&stream.release_lines());
        text.into_bytes().into()
    }

    /// What was held back. Another output may follow.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.0.as_mut().map(|stream| stream.finish().into_bytes()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use abide::Redaction;
    use abide::secrets::RedactionOptions;

    use super::*;

    #[test]
    fn what_a_chunk_cuts_is_held_back_and_whole_lines_are_not() {
        let options = RedactionOptions {
            variables: Some(Vec::new()),
            directory: None,
            state: None,
            ..RedactionOptions::default()
        };
        let redactor = Redaction::new(options).redactor(None).unwrap();
        let token = format!("ghp_{}", "R7kQ2mZx9LbT4vWc8NdY1sHf6JgP3aUe5KoX");
        let mut output = RedactedOutput::new(Some(&redactor));
        assert_eq!(&*output.push(b"one\ntwo\n$ "), b"one\ntwo\n");
        let mut rest = output.push(&token.as_bytes()[..17]).into_owned();
        rest.extend_from_slice(&output.push(format!("{} so\n", &token[17..]).as_bytes()));
        rest.extend(output.finish());
        let rest = String::from_utf8(rest).unwrap();
        assert!(rest.starts_with("$ ‹redacted:github") && rest.ends_with("› so\n"), "{rest}");
        assert_eq!(&*RedactedOutput::new(None).push(b"a"), b"a");
    }
}
