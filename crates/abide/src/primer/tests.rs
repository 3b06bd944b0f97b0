//! Primers of sessions as the proxy and other programs record them.

use abide_model::{EventRange, Kind, Message, NewEvent, NewSession};

use super::*;
use crate::Store;

struct Fixture {
    _dir: tempfile::TempDir,
    session: Session,
}

impl Fixture {
    fn new(lines: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        let store = Store::open_or_init(dir.path()).unwrap();
        let session = store.create(NewSession::titled("a session")).unwrap();
        let fixture = Self { _dir: dir, session };
        fixture.add(lines);
        fixture
    }

    fn add(&self, lines: &[&str]) -> Seq {
        let events = lines.iter().map(|line| NewEvent::parse(line).unwrap()).collect();
        let done = self.session.append_all(events).unwrap().wait().unwrap();
        done.first().map_or(Seq::ZERO, |done| done.seq)
    }

    fn say(&self, text: &str) {
        self.session.append(Message::user(text)).unwrap().wait().unwrap();
    }

    fn compactions(&self) -> usize {
        let events = self.session.view().events(EventRange::ALL);
        events.filter(|event| event.as_ref().unwrap().kind == Kind::CONTEXT_COMPACTED).count()
    }
}

const TALK: [&str; 10] = [
    r#"{"kind":"message.added","data":{"role":"user","content":[{"type":"text","text":"Mend the parser."},{"type":"resource_link","uri":"file:///p/a.rs","name":"a.rs"},{"type":"image","data":"AAAA","mimeType":"image/png"}]}}"#,
    r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"}]}}"#,
    r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"Read a.rs","arguments":{"path":"a.rs"}}]}}"#,
    r#"{"kind":"tool.called","data":{"call":"c1","name":"Read a.rs","arguments":{"path":"a.rs"},"observed":true}}"#,
    r#"{"kind":"tool.finished","data":{"call":"c1","ok":true,"result":[{"type":"content","content":{"type":"text","text":"fn main() {}"}},{"type":"diff","path":"/p/a.rs","oldText":"x","newText":"y"}]}}"#,
    r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"text","text":"I see."}]}}"#,
    r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"tool_call","call":"c2","name":"Run tests","arguments":{}}]}}"#,
    r#"{"kind":"tool.called","data":{"call":"c2","name":"Run tests","arguments":{},"observed":true}}"#,
    r#"{"kind":"task.created","data":{"task":"1","title":"Find the line"}}"#,
    r#"{"kind":"task.created","data":{"task":"2","title":"Mend it"}}"#,
];

#[test]
fn nothing_is_told_of_a_session_without_messages() {
    let fixture = Fixture::new(&[r#"{"kind":"turn.started","data":{"agent":"a"}}"#]);
    assert_eq!(fixture.session.primer().unwrap(), None);
    assert_eq!(fixture.session.primer_since(Seq(1)).unwrap(), None);
}

#[test]
fn a_conversation_is_told_in_order_with_calls_results_and_what_is_open() {
    let fixture = Fixture::new(&TALK);
    fixture.add(&[
        r#"{"kind":"task.status","data":{"task":"1","status":"implementing"}}"#,
        r#"{"kind":"task.status","data":{"task":"1","status":"complete"}}"#,
    ]);
    let told = fixture.session.primer().unwrap().unwrap();
    let expected = format!(
        "{WHOLE}\n\n## User\nMend the parser.\n[file:///p/a.rs]\n[an image]\n\n## Assistant (you)\n\
         [thought] hm\n[call] Read a.rs {{\"path\":\"a.rs\"}}\n  Read a.rs gave: fn main() {{}}\n    \
         [changed /p/a.rs]\nI see.\n[call] Run tests\n  Run tests: outcome unknown, for the session \
         was interrupted; look before you repeat it\n\nCalls whose outcome is unknown (look before you \
         repeat them):\n- Run tests (c2)\n\nTasks that are open:\n- Mend it\n\n{END}\n"
    );
    assert_eq!(told, expected);
    assert_eq!(fixture.compactions(), 0);
}

#[test]
fn what_is_open_is_told_though_nothing_was_said() {
    let fixture = Fixture::new(&[
        r#"{"kind":"task.created","data":{"task":"1","title":"Find the line"}}"#,
        r#"{"kind":"turn.started","data":{"agent":"arbiter","role":"arbiter"}}"#,
        r#"{"kind":"turn.decided","data":{"selected":"coder","reason":"It is\na bug."}}"#,
        r#"{"kind":"tool.called","lane":"b","data":{"call":"c","name":"deploy"}}"#,
    ]);
    let told = fixture.session.primer().unwrap().unwrap();
    let expected = format!(
        "{WHOLE}\n\nCalls whose outcome is unknown (look before you repeat them):\n- deploy (c)\n\n\
         The last decision: coder (It is a bug.)\n\nTasks that are open:\n- Find the line\n\n{END}\n"
    );
    assert_eq!(told, expected);
    assert_eq!(fixture.session.primer_since(Seq(1)).unwrap(), None);
}

#[test]
fn many_tasks_with_long_titles_fit_into_one_argument() {
    let fixture = Fixture::new(&[]);
    for number in 0..60 {
        let title = "ü€😀 ".repeat(80);
        let line =
            format!(r#"{{"kind":"task.created","data":{{"task":"{number}","title":"{title}"}}}}"#);
        fixture.add(&[&line]);
    }
    for _ in 0..3 {
        fixture.say(&"😀 ".repeat(100_000));
    }
    let told = fixture.session.primer().unwrap().unwrap();
    assert!(told.len() < 120_000, "{} bytes", told.len());
    assert!(told.contains("more\n"), "{}", &told[told.len() - 500..]);
}

#[test]
fn a_call_that_no_message_holds_is_told() {
    let fixture = Fixture::new(&[
        r#"{"kind":"message.added","data":{"role":"user","content":"Go."}}"#,
        r#"{"kind":"tool.called","data":{"call":"c","name":"Run tests","arguments":{"all":true},"observed":true}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c","ok":false,"result":"3 failed"}}"#,
    ]);
    let told = fixture.session.primer().unwrap().unwrap();
    let expected = format!(
        "{WHOLE}\n\n## User\nGo.\n\n## Assistant (you)\n[call] Run tests {{\"all\":true}}\n  \
         Run tests failed: 3 failed\n\n{END}\n"
    );
    assert_eq!(told, expected);
}

#[test]
fn what_an_agent_knows_is_left_out() {
    let fixture = Fixture::new(&TALK);
    let first = fixture.add(&[
        r#"{"kind":"message.added","data":{"role":"user","content":"And now?"}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"text","text":"Half a"}],"abide": {"partial": true}}}"#,
    ]);
    let told = fixture.session.primer_since(first).unwrap().unwrap();
    assert!(told.starts_with(PART), "{told}");
    assert!(!told.contains("Mend the parser.") && !told.contains("[call] Run tests"), "{told}");
    assert!(told.contains("\n## User\nAnd now?\n"), "{told}");
    assert!(told.contains("\nHalf a\n[interrupted here]\n"), "{told}");
    assert_eq!(fixture.session.primer_since(Seq(1000)).unwrap(), None);
}

#[test]
fn a_long_conversation_is_compacted_once_and_its_end_stays() {
    let fixture = Fixture::new(&[]);
    for number in 0..400 {
        let text = format!("Step {number}: {}", "look at it again. ".repeat(40));
        fixture.say(&text);
    }
    let first =
        fixture.add(&[r#"{"kind":"message.added","data":{"role":"user","content":"last"}}"#]);
    let told = fixture.session.primer().unwrap().unwrap();
    assert!(primer_tokens(&told) <= MOST_TOKENS + 200, "{} tokens", primer_tokens(&told));
    assert!(told.contains("## Summary of what came before\n"), "{}", &told[..1000]);
    assert!(
        told.contains("Step 399:") && told.contains("\nlast\n") && !told.contains("Step 100: ")
    );
    assert_eq!(fixture.compactions(), 1);
    // What is compacted is told again without another compaction.
    assert_eq!(fixture.session.primer().unwrap().unwrap(), told);
    assert_eq!(fixture.compactions(), 1);
    // Of what came after what is known, the summary of what is known is no part.
    let rest = fixture.session.primer_since(first).unwrap().unwrap();
    assert_eq!(rest, format!("{PART}\n\n## User\nlast\n\n{END}\n"));
    // A summary that covers some of what is not known is told.
    let rest = fixture.session.primer_since(Seq(300)).unwrap().unwrap();
    assert!(rest.contains("## Summary of what came before\n"));
}

#[test]
fn few_messages_that_are_too_long_are_cut() {
    let fixture = Fixture::new(&[]);
    for _ in 0..3 {
        fixture.say(&"word ".repeat(100_000));
    }
    let told = fixture.session.primer().unwrap().unwrap();
    assert!(primer_tokens(&told) <= MOST_TOKENS + 200, "{} tokens", primer_tokens(&told));
    assert!(told.contains("characters left out"), "{}", &told[..500]);
    let result = "x".repeat(100_000);
    let call = Fixture::new(&[
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"tool_call","call":"c","name":"cat","arguments":{}}]}}"#,
        &format!(
            r#"{{"kind":"tool.finished","data":{{"call":"c","ok":false,"result":"{result}"}}}}"#
        ),
    ]);
    let told = call.session.primer().unwrap().unwrap();
    assert!(told.contains("  cat failed: xxx") && told.len() < 2000, "{}", told.len());
}

#[test]
fn a_summary_can_be_taken_back() {
    let fixture = Fixture::new(&[]);
    for _ in 0..200 {
        fixture.say(&"again and again. ".repeat(60));
    }
    fixture.session.primer().unwrap();
    assert_eq!(fixture.compactions(), 1);
    fixture.session.undo_compaction(None).unwrap();
    assert_eq!(fixture.session.context().unwrap().len(), 200);
}
