//! What its plugin tells.

use crate::tests::hook_payloads::{report, told_payloads};
use crate::{HookStep, TurnEnding};

#[test]
fn a_session_with_a_subagent_and_an_interrupt() {
    assert_eq!(
        told_payloads("opencode"),
        [
            "session 1: started",
            // `opencode run` itself puts its arguments into quotation marks.
            "session 1 turn 1: a person says \"\\\"Write the word three into notes.txt\\\"\"",
            "session 1 turn 1: bash call_01 ok",
            "session 1 turn 1: read call_02 ok",
            "session 1 turn 1: edit call_03 ok",
            "session 1 turn 1: bash call_04 ok",
            "session 1 turn 1: completed \"It is written.\"",
            "session 1 turn 1: ended",
            "session 1 turn 2: a person says \"\\\"Now have a look at what you did\\\"\"",
            "session 2 of 1: started",
            "session 2 of 1 turn 3: a machine says \"Count the lines of notes.txt\"",
            "session 2 of 1 turn 3: bash call_06 ok",
            "session 2 of 1 turn 3: completed \"Two lines.\"",
            "session 1 turn 2: task call_05 ok",
            "session 1 turn 2: completed \"The helper says two lines.\"",
            "session 2 of 1 turn 3: ended",
            "session 1 turn 2: ended",
            "session 1 turn 4: a person says \"Wait for a while\\nand be quiet\"",
            "session 1 turn 4: interrupted \"-\"",
            "session 1 turn 4: bash call_07 ok",
        ]
    );
}

#[test]
fn an_error_ends_a_turn_and_an_empty_prompt_begins_none() {
    let step =
        |fields: &str| report("opencode", &format!(r#"{{"session":"s",{fields}}}"#)).unwrap().step;
    for (flag, ending) in [
        ("true", TurnEnding::Interrupted),
        ("false", TurnEnding::Failed),
        ("\"true\"", TurnEnding::Failed),
    ] {
        let fields = format!(r#""event":"error","message":"a","interrupted":{flag}"#);
        let message = Some("a".to_owned());
        assert_eq!(step(&fields), HookStep::TurnFinished { ending, message });
    }
    for other in
        [r#""event":"prompt","prompt":"""#, r#""event":"of tomorrow""#, r#""event":"call""#]
    {
        assert_eq!(step(other), HookStep::Other);
    }
}
