//! What the order of a conversation needs to know about a message.
//!
//! A message that was cut off holds no calls: they were never made.

use crate::message::{
    CallPiece, JsonText, MessagePiece, PieceContent, RecordedMessage, ResultPiece, UnreadPiece,
};

/// What a model is told about a call whose outcome is unknown. A result with this text belongs to a
/// call of which nothing else is recorded.
pub const OUTCOME_UNKNOWN: &str = "The outcome of this call is unknown: the session was interrupted before a result was \
     recorded. The call may or may not have taken effect. Look before you do it again.";

/// The role of a message, as far as the order of a conversation depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpeakerRole {
    User,
    Instruction,
    Assistant,
    Tool,
    Other,
}

/// A result in a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadResult<'m> {
    /// The call; empty if not given.
    pub(super) id: &'m str,
    /// It says that the outcome is unknown.
    pub(super) unknown: bool,
}

impl<'m> ReadResult<'m> {
    fn of(result: &'m ResultPiece) -> Self {
        let unknown = matches!(
            result.pieces.as_slice(),
            [MessagePiece { sort: PieceContent::Text(text), raw: None, .. }] if says_unknown(text)
        );
        Self { id: &result.id, unknown }
    }
}

fn says_unknown(text: &JsonText) -> bool {
    let long = matches!(text, JsonText::Json(raw) if raw.get().len() > 2 * OUTCOME_UNKNOWN.len());
    !long && text.decoded() == OUTCOME_UNKNOWN
}

/// The parts of a message that a conversation needs.
#[derive(Debug)]
pub(super) struct MessageReading<'m> {
    pub(super) role: SpeakerRole,
    pub(super) calls: Vec<&'m CallPiece>,
    pub(super) results: Vec<ReadResult<'m>>,
    /// Ids of the tools that the API ran itself.
    pub(super) served: Vec<String>,
    /// It holds something besides results.
    pub(super) rest: bool,
}

impl<'m> MessageReading<'m> {
    /// Reads a message; `None` if its content is unknown.
    pub(super) fn of(message: &'m RecordedMessage) -> Option<Self> {
        // Without content a message is unknown, unless it consists of calls.
        if !message.shape.speaks {
            return None;
        }
        let role = match message.role.as_str() {
            "user" => SpeakerRole::User,
            "system" | "developer" => SpeakerRole::Instruction,
            "assistant" | "model" => SpeakerRole::Assistant,
            "tool" | "function" => SpeakerRole::Tool,
            _ => SpeakerRole::Other,
        };
        let (calls, results, served) = (Vec::new(), Vec::new(), Vec::new());
        let rest = message.pieces.is_empty();
        let mut reading = Self { role, calls, results, served, rest };
        for piece in &message.pieces {
            match &piece.sort {
                PieceContent::Result(result) => reading.results.push(ReadResult::of(result)),
                _ if message.marks.partial => reading.rest = true,
                PieceContent::Call(call) => reading.calls.push(call),
                PieceContent::Other(UnreadPiece::Served(id)) => {
                    reading.served.push(id.decoded().into_owned());
                    reading.rest = true;
                }
                _ => reading.rest = true,
            }
        }
        if role == SpeakerRole::Tool && reading.results.is_empty() {
            // A result that cannot be read, and so names no call.
            reading.results.push(ReadResult { id: "", unknown: false });
            reading.rest = false;
        }
        reading.rest |= !reading.calls.is_empty();
        Some(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventLimits, MessageForm, Payload};

    /// What is read of a message: its calls with their names and forms, its results, and whether
    /// there is more.
    #[derive(Debug, PartialEq, Eq)]
    struct Told {
        calls: Vec<(String, String, MessageForm)>,
        results: Vec<(String, bool)>,
        served: Vec<String>,
        rest: bool,
    }

    fn read(text: &str) -> Option<Told> {
        let data = Payload::new(text, &EventLimits::default()).unwrap();
        let message = RecordedMessage::of(&data)?;
        let reading = MessageReading::of(&message)?;
        let call = |call: &&CallPiece| (call.id.clone(), call.name.clone(), call.form);
        let result = |result: &ReadResult<'_>| (result.id.to_owned(), result.unknown);
        Some(Told {
            calls: reading.calls.iter().map(call).collect(),
            results: reading.results.iter().map(result).collect(),
            served: reading.served,
            rest: reading.rest,
        })
    }

    #[test]
    fn calls_and_results_are_read_in_all_four_forms() {
        let calls = [
            (
                r#"{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_call","call":"c","name":"bash","arguments":{}}]}"#,
                MessageForm::Abide,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"bash","input":{}}]}"#,
                MessageForm::Anthropic,
            ),
            (
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{}"}}]}"#,
                MessageForm::OpenAi,
            ),
            (
                r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"bash"}}]}"#,
                MessageForm::OpenAi,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"function_call","id":"fc_1","call_id":"c","name":"bash","arguments":"{}"}],"abide":{"form":"responses"}}"#,
                MessageForm::Responses,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"custom_tool_call","call_id":"c","name":"bash","input":"x"}],"abide":{"form":"responses","answer":"a1"}}"#,
                MessageForm::Responses,
            ),
        ];
        for (text, form) in calls {
            let reading = read(text).unwrap();
            assert_eq!(reading.calls, [("c".into(), "bash".into(), form)], "{text}");
            assert!(reading.rest && reading.results.is_empty());
        }
        let results = [
            r#"{"role":"tool","content":[{"type":"tool_result","call":"c","content":"x"}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}"#,
            r#"{"role":"tool","tool_call_id":"c","content":"x"}"#,
            r#"{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"x"}]}"#,
            r#"{"role":"tool","content":[{"type":"function_call_output","call_id":"c","output":"x"}],"abide":{"form":"responses"}}"#,
            r#"{"role":"tool","content":[{"type":"computer_call_output","call_id":"c","output":{}}],"abide":{"form":"responses"}}"#,
            r#"{"role":"function","name":"c","content":"x"}"#,
        ];
        for text in results {
            let reading = read(text).unwrap();
            assert_eq!(reading.results, [("c".into(), false)], "{text}");
            assert!(!reading.rest && reading.calls.is_empty());
        }
        let mixed = read(
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"},{"type":"text","text":"and"}]}"#,
        );
        assert!(mixed.unwrap().rest);
    }

    #[test]
    fn a_message_that_was_cut_off_holds_no_calls() {
        for (calls, partial) in [(1, "false"), (0, "true"), (1, "\"true\"")] {
            for content in [
                r#""content":[{"type":"tool_use","id":"c","name":"n","input":{}}]"#,
                r#""content":null,"tool_calls":[{"id":"c","function":{"name":"n"}}]"#,
                r#""content":[{"type":"function_call","call_id":"c","name":"n"}]"#,
                r#""function_call":{"name":"n","arguments":"{}"}"#,
            ] {
                let text =
                    format!(r#"{{"role":"assistant",{content},"abide":{{"partial":{partial}}}}}"#);
                let reading = read(&text).unwrap();
                assert_eq!((reading.calls.len(), reading.rest), (calls, true), "{text}");
            }
        }
    }

    #[test]
    fn what_the_api_ran_itself_is_named() {
        for (text, served) in [
            (r#"{"role":"assistant","content":[{"type":"web_search_call","id":"s"}]}"#, true),
            (r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"s"}]}"#, true),
            (r#"{"role":"assistant","content":[{"type":"tool_call","name":"s"}]}"#, false),
            (r#"{"role":"assistant","content":[{"type":"x_call","id":"s","call_id":7}]}"#, false),
        ] {
            let expected = if served { vec!["s".to_owned()] } else { vec![] };
            assert_eq!(read(text).unwrap().served, expected, "{text}");
        }
    }

    #[test]
    fn an_item_that_joins_nothing_is_neither_call_nor_result() {
        for (text, rest) in [
            (r#"{"role":"assistant","content":[{"type":"web_search_call","id":"ws_1"}]}"#, true),
            (r#"{"role":"assistant","content":[{"type":"reasoning","summary":[]}]}"#, true),
            (r#"{"role":"assistant","reasoning_content":"hm"}"#, true),
            (r#"{"role":"assistant","refusal":"no"}"#, true),
        ] {
            let reading = read(text).unwrap();
            assert!(reading.calls.is_empty() && reading.results.is_empty(), "{text}");
            assert_eq!(reading.rest, rest, "{text}");
        }
        let unknown = format!(
            r#"{{"role":"tool","content":[{{"type":"function_call_output","call_id":"c","output":"{OUTCOME_UNKNOWN}"}}]}}"#
        );
        assert!(read(&unknown).unwrap().results[0].1);
    }

    #[test]
    fn what_cannot_be_told_is_unknown_and_what_is_odd_is_no_call() {
        assert_eq!(read(r#"{"content":"x"}"#), None);
        assert_eq!(read(r#"{"role":7,"content":"x"}"#), None);
        assert_eq!(read(r#"{"role":"user"}"#), None);
        for odd in [
            r#"{"role":"user","content":null}"#,
            r#"{"role":"user","content":[{"type":"tool_use","id":7},5,{"type":"tool_result"}]}"#,
            r#"{"role":"user","content":[{"type":"tool_call","name":"n","type":"x"}]}"#,
            r#"{"role":"user","content":"x","tool_calls":"none"}"#,
            r#"{"role":"user","content":[]}"#,
        ] {
            let reading = read(odd).unwrap();
            assert!(reading.calls.is_empty() && reading.results.is_empty(), "{odd}");
            assert!(reading.rest, "{odd}");
        }
        for nameless in [
            r#"{"role":"tool","content":"done"}"#,
            r#"{"role":"tool","content":[{"type":"new_output"}],"abide":{"form":"responses"}}"#,
        ] {
            let nameless = read(nameless).unwrap();
            assert_eq!((nameless.results, nameless.rest), (vec![(String::new(), false)], false));
        }
    }

    #[test]
    fn of_what_stands_twice_the_last_counts() {
        let twice = read(
            r#"{"role":"user","role":"assistant","content":"x","content":[{"type":"text","type":"tool_use","id":"a","id":"c","name":"n"}],"abide":{"partial":true},"abide":{}}"#,
        );
        let calls = vec![("c".to_owned(), "n".to_owned(), MessageForm::Anthropic)];
        let told = Told { calls, results: vec![], served: vec![], rest: true };
        assert_eq!(twice, Some(told));
        let result = r#"{"role":"tool","tool_call_id":"a","tool_call_id":"c","content":"x"}"#;
        assert_eq!(read(result).unwrap().results, [("c".to_owned(), false)]);
    }

    #[test]
    fn a_message_may_speak_by_its_voice_alone() {
        for text in [
            r#"{"role":"assistant","audio":{"id":"a","transcript":"hello"}}"#,
            r#"{"role":"assistant","content":null,"audio":{"id":"a"}}"#,
            r#"{"role":"assistant","reasoning":"hm"}"#,
        ] {
            assert!(read(text).unwrap().rest, "{text}");
        }
    }
}
