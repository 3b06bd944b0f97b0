//! What opencode prints, and the commands that start it. The samples were printed by version 1.18.

use crate::AgentKind;
use crate::tests::{
    are_detected, kind, told, told_as, told_bytes, told_however_cut, told_ids, told_in_pieces,
    words,
};

const KIND: AgentKind = AgentKind::of(&super::PROFILE);

const WHOLE: &str = include_str!("samples/run.jsonl");
const RESUMED: &str = include_str!("samples/resumed.jsonl");
const LIMITED: &str = include_str!("samples/limited.jsonl");

#[test]
fn a_run_of_it() {
    let (first, second) = (told_in_pieces(KIND, WHOLE), told_in_pieces(KIND, RESUMED));
    assert_eq!(told_ids(&first, "called ").len(), 17);
    assert_eq!(told_ids(&second, "called "), ["call_20", "call_21", "call_22"]);
    let all = [first.clone(), second.clone()].concat();
    let mut calls = told_ids(&all, "called ");
    assert_eq!(told_ids(&all, "finished "), calls);
    calls.sort_unstable();
    let known = (1..=22).filter(|number| !(18..=19).contains(number));
    assert_eq!(calls, known.map(|number| format!("call_{number:02}")).collect::<Vec<_>>());
    let failed: Vec<_> = all.iter().filter(|line| line.contains(" not ok ")).collect();
    assert_eq!(
        failed,
        [
            r#"finished call_05 not ok {"exit_code":3,"output":"not ok: 'Hello, Ada' ends without an exclamation mark\n"}"#,
            r#"finished call_14 not ok "File not found: /tmp/work-sample/project/missing.txt""#,
        ]
    );
    // Four texts in the first turn and one in the second.
    let texts = told_as(&first, r#"message {"role":"assistant","content":""#);
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(texts[0].starts_with("I will look at the project first. 👀"), "{texts:?}");
    assert!(texts[3].starts_with("## Done ✅"), "{texts:?}");
    let texts = told_as(&second, r#"message {"role":"assistant","content":""#);
    assert!(texts.len() == 1 && texts[0].starts_with("### 日本語 and 한국어"), "{texts:?}");
    // Each has one session, and ends well, with its last text.
    for told in [&first, &second] {
        assert_eq!(told_as(told, "session "), ["ses_e1170a9afffeoxkE4261G2SZCd"]);
        assert_eq!(told_as(told, "outcome ok ").len(), 1);
    }
    assert!(told_as(&first, "outcome ok ")[0].starts_with("## Done ✅"));
    assert!(second.last().unwrap().starts_with("outcome ok ### 日本語"));
    // A part is told once, though it is printed again.
    assert_eq!(told_as(&first, "usage ").len(), 15);
    assert_eq!(told_as(&second, "usage "), ["- 1200/64/800/0/0/0"; 4]);
    assert_eq!(told(KIND, &RESUMED.repeat(2)), second);
    let files: Vec<_> = told_as(&all, "touched /tmp/work-sample/project/");
    assert_eq!(
        files,
        [
            "README.md read",
            "greet.py read",
            "greet.py write",
            "logo.png read",
            "test_greet.py write",
            "greet.py write",
            "CHANGES.md write",
        ]
    );
}

#[test]
fn a_picture_that_is_read_is_in_the_result() {
    let whole = told(KIND, WHOLE);
    let [result] = told_as(&whole, "finished call_11 ok ")[..] else { panic!("one result") };
    let result: serde_json::Value = serde_json::from_str(result).unwrap();
    assert_eq!(result[0]["text"], "Image read successfully");
    assert_eq!(result[1]["type"], "image");
    assert_eq!(result[1]["source"]["type"], "base64");
    assert_eq!(result[1]["source"]["media_type"], "image/png");
    assert!(result[1]["source"]["data"].as_str().unwrap().starts_with("iVBORw0KGgo"));
    assert_eq!(result.as_array().unwrap().len(), 2);
}

#[test]
fn of_a_picture_that_is_cut_nothing_is_kept() {
    let line = format!(
        r#"{{"type":"tool_use","part":{{"callID":"c","tool":"read","state":{{"status":"completed","input":{{}},"output":"read","attachments":[{{"url":"data:image/png;base64,{}"}}]}}}}}}"#,
        "A".repeat(9 << 20)
    );
    assert_eq!(
        told_as(&told(KIND, &line), "finished c ok "),
        [
            r#"[{"type":"text","text":"read"},{"type":"text","text":"a file of the type image/png was too long to be recorded"}]"#
        ]
    );
}

#[test]
fn a_limit_ends_the_run() {
    let text = "You exceeded your current quota, please check your plan";
    assert_eq!(
        told_however_cut(KIND, LIMITED),
        [
            "session ses_e11509954ffeUXD7fhVSPUltg0".to_owned(),
            format!("limited quota - {text}"),
            format!("error {text}"),
            format!("outcome not ok {text}"),
        ]
    );
}

/// Lines after its source.
#[test]
fn lines_of_every_sort() {
    let output = r#"
{"type":"step_start","sessionID":"s1","part":{"id":"p1","type":"step-start"}}
{"type":"reasoning","sessionID":"s1","part":{"id":"p2","type":"reasoning","text":"Looking around\nmore","time":{"start":1,"end":2}}}
{"type":"text","sessionID":"s1","part":{"id":"p3","type":"text","text":"Hello"}}
{"type":"text","sessionID":"s1","part":{"id":"p3","type":"text","text":"Hello"}}
{"type":"tool_use","sessionID":"s1","part":{"id":"p4","tool":"bash","callID":"c1","state":{"status":"running","input":{"command":"sleep 9"}}}}
{"type":"tool_use","sessionID":"s1","part":{"id":"p4","tool":"bash","callID":"c1","state":{"status":"completed","input":{"command":"sleep 9"},"output":"killed","metadata":{"exit":null}}}}
{"type":"tool_use","sessionID":"s1","part":{"id":"p5","tool":"bash","callID":"c2","state":{"status":"error","input":{"command":"make"},"error":"Tool execution aborted","metadata":{"output":"half"}}}}
{"type":"tool_use","sessionID":"s1","part":{"id":"p6","tool":"apply_patch","callID":"c3","state":{"status":"completed","input":{"patchText":"*** Begin Patch"},"output":"Success","metadata":{"files":[{"filePath":"a","type":"add"},{"filePath":"b","type":"delete"},{"filePath":"c","type":"move","movePath":"d"}]}}}}
{"type":"tool_use","sessionID":"s1","part":{"id":"p7","tool":"edit","state":{"status":"error","input":{"filePath":"e"},"error":"not found"}}}
{"type":"tool_use","sessionID":"s1","part":{"id":"p8","tool":"webfetch","callID":"c5","state":{"status":"completed","input":{"url":"http://x"},"output":"it","attachments":[{"mime":"application/pdf","url":"http://x/y.pdf"},{}]}}}
{"type":"step_finish","sessionID":"s1","part":{"id":"p9","reason":"stop","tokens":{"input":2,"output":3,"reasoning":4,"cache":{"read":10,"write":5}},"cost":0.0125}}
{"type":"tool_use","sessionID":"s1","part":{"tool":"bash","state":{"status":"completed"}}}
{"type":"text","sessionID":"s1"}
{"type":"of_tomorrow","sessionID":"s1","part":{}}
{"type":"error","sessionID":"s2","error":{"name":"APIError","data":{"message":"Slow down","statusCode":429}}}
{"type":"error","error":{"name":"MessageAbortedError"}}
"#;
    let told = told_however_cut(KIND, output);
    assert_eq!(
        told,
        [
            "session s1",
            r#"message {"role":"assistant","content":[{"type":"thinking","thinking":"Looking around\nmore"}]}"#,
            "step Looking around",
            r#"message {"role":"assistant","content":"Hello"}"#,
            "step Hello",
            r#"called c1 bash {"command":"sleep 9"}"#,
            "step bash: sleep 9",
            r#"finished c1 not ok "killed""#,
            r#"called c2 bash {"command":"make"}"#,
            "step bash: make",
            r#"finished c2 not ok {"error":"Tool execution aborted","output":"half"}"#,
            r#"called c3 apply_patch {"patchText":"*** Begin Patch"}"#,
            "step apply_patch",
            r#"finished c3 ok "Success""#,
            "touched a write",
            "touched b delete",
            "touched c delete",
            "touched d write",
            r#"called p7 edit {"filePath":"e"}"#,
            "step edit: e",
            r#"finished p7 not ok "not found""#,
            r#"called c5 webfetch {"url":"http://x"}"#,
            "step webfetch: http://x",
            r#"finished c5 ok [{"type":"text","text":"it"},{"type":"document","source":{"type":"url","url":"http://x/y.pdf"}}]"#,
            "usage - 17/7/10/5/4/12500",
            "outcome ok Hello",
            "session s2",
            "limited rate - Slow down",
            "error Slow down",
            "outcome not ok Slow down",
            "error MessageAbortedError",
            "outcome not ok MessageAbortedError",
        ]
    );
    let mut reader = crate::AgentReader::new(KIND);
    let now = abide_model::Timestamp::from_millis(crate::tests::NOW);
    reader.feed(output.as_bytes(), now, &mut |_| {});
    assert_eq!(reader.passed_over(), 4);
}

#[test]
fn an_output_of_100_megabytes_is_still_that_result() {
    let start = b"{\"type\":\"tool_use\",\"part\":{\"tool\":\"bash\",\"callID\":\"c\",\"state\":{\"status\":\"completed\",\"input\":{},\"output\":\"";
    let mut pieces = std::iter::once(start.to_vec())
        .chain((0..100).map(|_| vec![b'y'; 1 << 20]))
        .chain([b"\",\"metadata\":{\"exit\":0}}}}\n".to_vec()]);
    let (most, told) = told_bytes(KIND, &mut pieces);
    assert!(most < 70_000);
    assert!(told[2].starts_with("finished c ok {\"exit_code\":0,\"output\":\"yyy"), "{told:?}");
}

#[test]
fn parts_without_end_are_forgotten() {
    let part = |number: usize| {
        format!("{{\"type\":\"text\",\"part\":{{\"id\":\"p{number}\",\"text\":\"x\"}}}}\n")
    };
    let output: String = (0..10_000).chain(9_999..10_001).map(part).collect();
    assert_eq!(told_as(&told(KIND, &output), "message ").len(), 10_001);
}

#[test]
fn it_is_known_by_program_and_flags() {
    are_detected(&[
        ("opencode run --format json fix", KIND),
        ("opencode run fix --format=json", KIND),
        ("opencode -m a/b run --format json fix", KIND),
        ("npx -y opencode-ai@1.18.33 run --format json fix", KIND),
        ("opencode run fix", kind("text")),
        ("opencode run --format default fix", kind("text")),
        ("opencode run fix -- --format json", kind("text")),
        ("opencode session list --format json", kind("text")),
        ("opencode --format json", kind("text")),
        ("opencode", kind("text")),
    ]);
}

#[test]
fn it_goes_on_in_its_own_session() {
    for (command, again) in [
        ("opencode run --format json fix it", "opencode run --session ID --format json fix it"),
        ("opencode run -s old -c --fork fix", "opencode run --session ID fix"),
        (
            "opencode -m a/b run --session=old --continue fix",
            "opencode -m a/b run --session ID fix",
        ),
        ("opencode run fix -- -c", "opencode run --session ID fix -- -c"),
        ("opencode --prompt fix", "opencode --session ID --prompt fix"),
        ("opencode", "opencode --session ID"),
    ] {
        assert_eq!(KIND.resume(&words(command), "ID"), Some(words(again)), "{command}");
    }
    for command in ["opencode serve", "opencode acp", "opencode session list"] {
        assert_eq!(KIND.resume(&words(command), "ID"), None, "{command}");
    }
}

#[test]
fn its_prompt_is_behind_run() {
    let own = |command: &str| {
        let slot = KIND.prompt_slot(&words(command));
        slot.map(|slot| slot.own().map(str::to_owned))
    };
    assert_eq!(own("opencode run -m a/b fix the test"), Some(Some("fix the test".to_owned())));
    assert_eq!(own("opencode run fix --model a/b it -- now"), Some(Some("fix it now".to_owned())));
    assert_eq!(own("opencode run --continue"), Some(None));
    assert_eq!(own("opencode --prompt fix"), Some(Some("fix".to_owned())));
    assert_eq!(own("opencode"), Some(None));
    assert_eq!(own("opencode serve"), None);
    let fill = |command: &str| {
        let slot = KIND.prompt_slot(&words(command)).unwrap();
        slot.fill("go on".to_owned()).join("|")
    };
    assert_eq!(fill("opencode run fix --model a/b it"), "opencode|run|go on|--model|a/b");
    assert_eq!(fill("opencode run -c"), "opencode|run|-c|--|go on");
    assert_eq!(fill("opencode -c"), "opencode|-c|--prompt|go on");
    assert!(AgentKind::detect(&words("opencode run fix")).prints_text());
}

#[test]
fn a_text_on_stdin_is_added_to_its_prompt() {
    let input = |command: &str| KIND.prompt_input(&words(command));
    assert_eq!(input("opencode run fix it").unwrap().prompt("log"), "fix it\nlog");
    assert!(input("opencode run -c").unwrap().is_alone());
    assert_eq!(input("opencode"), None);
}
