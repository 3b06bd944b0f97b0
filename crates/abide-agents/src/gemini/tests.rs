//! What Gemini CLI prints. The sample was printed by version 0.61.

use abide_model::Timestamp;

use crate::tests::{NOW, are_detected, kind, line, read, told_however_cut, words};
use crate::{AgentKind, AgentReader, ObservedFact, PriorSession};

const KIND: AgentKind = AgentKind::of(&super::PROFILE);

const WHOLE: &str = include_str!("samples/run.jsonl");

#[test]
fn a_run_of_it() {
    let whole = told_however_cut(KIND, WHOLE);
    assert_eq!(
        whole,
        [
            "session 08804005-dbb1-47b8-9d8f-cbb1a5f46498",
            "model gemini-2.5-flash",
            r#"message {"role":"user","content":"Do the first thing\n"}"#,
            r#"message {"role":"assistant","content":"I will append a line."}"#,
            "step I will append a line.",
            r#"called run_shell_command__run_shell_command_1794777501097_0 run_shell_command {"command":"echo one >> out.txt; echo hello"}"#,
            "step run_shell_command: echo one >> out.txt; echo hello",
            r#"finished run_shell_command__run_shell_command_1794777501097_0 ok "hello""#,
            r#"called write_file__write_file_1794777501171_0 write_file {"file_path":"new.txt","content":"hi"}"#,
            "step write_file: new.txt",
            "finished write_file__write_file_1794777501171_0 ok -",
            "touched new.txt write",
            r#"called read_file__read_file_1794777501186_0 read_file {"file_path":"missing.txt"}"#,
            "step read_file: missing.txt",
            r#"finished read_file__read_file_1794777501186_0 not ok {"type":"file_not_found","message":"File not found: /project/missing.txt"}"#,
            r#"message {"role":"assistant","content":"Done."}"#,
            "step Done.",
            "usage gemini-2.5-flash 480/38/20/0/5/0",
            "outcome ok Done.",
        ]
    );
}

#[test]
fn what_it_was_told_is_not_heard_again() {
    let users = |prompt: &str| {
        let before = PriorSession { prompt: Some(prompt.to_owned()), ..PriorSession::default() };
        let told = read(AgentReader::with(KIND, before), &[WHOLE.repeat(2).as_bytes()]);
        told.iter().filter(|line| line.contains(r#"{"role":"user""#)).count()
    };
    assert_eq!(users("Do the first thing"), 1, "and only once it is its own");
    assert_eq!(users("Something else"), 2);
}

#[test]
fn errors_and_what_was_not_finished() {
    let output = r#"
{"type":"message","role":"assistant","content":"Half a ","delta":true}
{"type":"message","role":"assistant","content":"sentence","delta":true}
{"type":"error","severity":"warning","message":"Loop detected, stopping execution"}
{"type":"tool_use","tool_name":"replace","tool_id":"t1","parameters":{"file_path":"a"}}
{"type":"message","role":"assistant","content":"whole"}
{"type":"error","severity":"error","message":"You have exhausted your capacity on this model. Your quota will reset after 1h."}
{"type":"result","status":"error","error":{"type":"X","message":"You have exhausted your capacity on this model. Your quota will reset after 1h."},"stats":{"total_tokens":9,"input_tokens":4,"output_tokens":5,"models":{}}}
"#;
    assert_eq!(
        told_however_cut(KIND, output),
        [
            r#"message {"role":"assistant","content":"Half a sentence"}"#,
            "step Half a sentence",
            "warning Loop detected, stopping execution",
            r#"called t1 replace {"file_path":"a"}"#,
            "step replace: a",
            r#"message {"role":"assistant","content":"whole"}"#,
            "limited quota 2025-11-15T10:46:40.000Z You have exhausted your capacity on this model. Your quota will reset after 1h.",
            "error You have exhausted your capacity on this model. Your quota will reset after 1h.",
            "usage - 4/5/0/0/0/0",
            "outcome not ok You have exhausted your capacity on this model. Your quota will reset after 1h.",
            "touched a write",
        ]
    );
}

#[test]
fn what_is_being_said_can_be_had_at_once() {
    let mut reader = AgentReader::new(KIND);
    let mut told = Vec::new();
    let piece = |text: &str| {
        format!(
            "{{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"{text}\",\"delta\":true}}\n"
        )
    };
    let now = Timestamp::from_millis(NOW);
    reader.feed(piece("one").as_bytes(), now, &mut |seen| told.push(line(&seen)));
    reader.flush(&mut |seen| told.push(line(&seen)));
    reader.flush(&mut |seen| told.push(line(&seen)));
    reader.feed(piece("two").as_bytes(), now, &mut |seen| told.push(line(&seen)));
    reader.finish(&mut |seen| told.push(line(&seen)));
    told.retain(|line| line.starts_with("message"));
    assert_eq!(
        told,
        [
            r#"message {"role":"assistant","content":"one"}"#,
            r#"message {"role":"assistant","content":"two"}"#,
        ]
    );
}

#[test]
fn a_message_of_many_pieces_is_cut_with_a_mark() {
    let piece = format!(
        "{{\"type\":\"message\",\"role\":\"assistant\",\"delta\":true,\"content\":\"{}\"}}\n",
        "z".repeat(1 << 20)
    );
    let mut reader = AgentReader::new(KIND);
    for _ in 0..20 {
        reader.feed(piece.as_bytes(), Timestamp::from_millis(NOW), &mut |_| panic!("too early"));
    }
    let mut texts = Vec::new();
    reader.finish(&mut |seen| {
        if let ObservedFact::Message { data } = seen.what {
            texts.push(data.get().to_owned());
        }
    });
    assert_eq!(texts.len(), 1);
    assert!(texts[0].len() < (8 << 20) + 100);
    assert!(texts[0].ends_with(&format!("… [{} bytes left out]\"}}", (12 << 20) + 64)));
}

#[test]
fn it_is_known_by_program_and_flags() {
    are_detected(&[
        ("gemini -o stream-json -p x", KIND),
        ("npx @google/gemini-cli --output-format stream-json", KIND),
        ("gemini -p x", kind("text")),
    ]);
}

#[test]
fn it_goes_on_in_its_own_session() {
    let command = "gemini --session-id=OLD -o stream-json -- -r {task}";
    let again = "gemini --resume ID -o stream-json -- -r {task}";
    assert_eq!(KIND.resume(&words(command), "ID"), Some(words(again)));
}

#[test]
fn the_prompt_has_its_place() {
    for (command, filled) in [
        ("gemini -o stream-json", "gemini PROMPT -o stream-json"),
        ("gemini --allowed-tools a b", "gemini PROMPT --allowed-tools a b"),
        ("gemini --resume ID", "gemini PROMPT --resume ID"),
    ] {
        let slot = KIND.prompt_slot(&words(command)).unwrap();
        assert_eq!(slot.own(), None, "{command}");
        assert_eq!(slot.fill("PROMPT".to_owned()), words(filled));
    }
    for command in ["gemini -p mend-it -y", "gemini -i mend-it", "gemini -m m mend-it"] {
        let slot = KIND.prompt_slot(&words(command)).unwrap();
        assert_eq!(slot.own(), Some("mend-it"), "{command}");
        assert_eq!(slot.fill("P".to_owned()), words(&command.replace("mend-it", "P")));
    }
}

#[test]
fn an_option_holds_the_prompt_in_either_spelling() {
    let slot = KIND.prompt_slot(&words("gemini --prompt=mend-it -y")).unwrap();
    assert_eq!(slot.own(), Some("mend-it"));
    assert_eq!(slot.fill("P".to_owned()), words("gemini --prompt P -y"));
    assert_eq!(KIND.prompt_slot(&words("gemini mcp list")), None);
}

#[test]
fn a_text_on_stdin_comes_before_the_prompt() {
    let input = |command: &str| KIND.prompt_input(&words(command));
    assert_eq!(input("gemini -p mend-it").unwrap().prompt("a log\n"), "a log\n\nmend-it");
    assert!(input("gemini -o stream-json").unwrap().is_alone());
    assert_eq!(input("gemini mcp list"), None);
}
