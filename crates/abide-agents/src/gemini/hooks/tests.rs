//! What the payloads of its hooks report.

use crate::HookStep;
use crate::tests::hook_payloads::{report, told_payloads};

#[test]
fn a_session_with_an_interrupt() {
    assert_eq!(
        told_payloads("gemini"),
        [
            "session 1: started",
            "session 1: a person says \"Write the word three into notes.txt\"",
            // Calls have no ids.
            "session 1: other",
            "session 1: other",
            "session 1: other",
            "session 1: completed \"I look first.  \\n \\n \\nIt is written. \"",
            "session 1: ended",
            "session 1: started",
            "session 1: a person says \"Now have a look at what you did\"",
            "session 1: completed \"It says one, three. \"",
            "session 1: ended",
            "session 1: started",
            "session 1: a person says \"Wait for a while\"",
            "session 1: ended",
        ]
    );
}

#[test]
fn a_turn_that_goes_on_without_a_prompt_does_not_begin() {
    for prompt in [r#","prompt":"""#, r#","prompt":null"#, ""] {
        let payload = format!(r#"{{"session_id":"s","hook_event_name":"BeforeAgent"{prompt}}}"#);
        assert_eq!(report("gemini", &payload).unwrap().step, HookStep::Other);
    }
}
