//! What `abide record` says to a person: at a terminal what it waits for, and what to do with a line
//! that is a message instead of an event.

use std::io::IsTerminal;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::format_arg::FormatArg;
use crate::command_output::status;

/// The longest message that is shown wrapped in an event.
const SHOWN: usize = 400;

/// Says on a terminal what the command waits for.
pub(super) fn tell_waiting(format: FormatArg) {
    if !std::io::stdin().is_terminal() {
        return;
    }
    let (what, example) = match format {
        FormatArg::Events => (
            "events, one line of JSON each",
            r#"{"kind":"message.added","data":{"role":"user","content":"hello"}}"#,
        ),
        FormatArg::Openai | FormatArg::Anthropic | FormatArg::Responses => {
            ("messages, one line of JSON each", r#"{"role":"user","content":"hello"}"#)
        }
        FormatArg::OpenaiStream | FormatArg::ResponsesStream | FormatArg::AnthropicStream => {
            ("a model's answer as it is streamed", "data: {…}")
        }
    };
    status(format_args!("Waiting for {what}, for example:\n  {example}\nCtrl-D ends."));
}

/// The hint for a line that is a bare message.
pub(super) fn bare_message_hint(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct BareMessage<'a> {
        #[serde(borrow)]
        role: Option<&'a RawValue>,
        #[serde(borrow)]
        kind: Option<&'a RawValue>,
    }
    let text = std::str::from_utf8(line).ok()?.trim();
    // serde would read the first element of a list as the role.
    let found: BareMessage<'_> =
        serde_json::from_str(text).ok().filter(|_| text.starts_with('{'))?;
    found.role.filter(|_| found.kind.is_none())?;
    let data = if text.len() <= SHOWN { text } else { "{…}" };
    Some(format!(
        "a message is recorded with `--format openai` or `--format anthropic`; as an event it is \
         {{\"kind\":\"message.added\",\"data\":{data}}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_message_is_shown_as_an_event() {
        let hint = bare_message_hint(br#" {"role":"user","content":"hi"}"#).unwrap();
        assert!(
            hint.ends_with(r#" {"kind":"message.added","data":{"role":"user","content":"hi"}}"#),
            "{hint}"
        );
        let long = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(SHOWN));
        assert!(bare_message_hint(long.as_bytes()).unwrap().ends_with(r#""data":{…}}"#));
        for other in [
            &br#"{"kind":"x.y","role":1}"#[..],
            br#"{"content":"hi"}"#,
            br#"["user"]"#,
            br#"{"role":"user""#,
            b"hello",
            b"\xff",
        ] {
            assert_eq!(bare_message_hint(other), None);
        }
    }
}
