//! The timeline and its renderings: each thing told once, and nothing recorded acts.

use abide_model::{Event, SessionState};
use proptest::prelude::*;

use super::generate::events;
use super::transcript::session;
use crate::{
    CallOutcome, CallOutput, EntryBody, EntryPart, HtmlRenderer, MarkdownRenderer, SessionOverview,
    TextRenderer, TextStyle, TimelineBuilder, TimelineCall, TimelineEntry, TimelineRenderer,
};

pub(crate) fn items(events: &[Event]) -> Vec<TimelineEntry> {
    let mut story = TimelineBuilder::new();
    let mut items = Vec::new();
    for event in events {
        story.push(event);
        items.extend(std::iter::from_fn(|| story.next_item()));
    }
    story.finish();
    items.extend(std::iter::from_fn(|| story.next_item()));
    items
}

pub(crate) fn rendered(mut rendering: impl TimelineRenderer, events: &[Event]) -> String {
    let mut state = SessionState::default();
    for event in events {
        state.apply(event);
    }
    let mut out = rendering.begin(&SessionOverview::of(&state));
    for item in items(events) {
        out.push_str(&rendering.item(&item));
    }
    out.push_str(&rendering.end());
    out
}

#[test]
fn a_call_is_told_once_with_its_outcome() {
    let told = items(&session(&[
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"bash","arguments":{"command":"ls"}}]}}"#,
        r#"{"kind":"tool.called","data":{"call":"c1","name":"bash","arguments":{"command":"ls"}}}"#,
        r#"{"kind":"x.between","data":{}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c1","ok":false,"result":"no"}}"#,
        r#"{"kind":"message.added","data":{"role":"tool","content":[{"type":"tool_result","call":"c1","content":"no"}]}}"#,
    ]));
    assert_eq!(told.len(), 2, "{told:#?}");
    let EntryBody::Call(call) = &told[0].what else { panic!("{told:?}") };
    assert_eq!(call.arguments, r#"{"command":"ls"}"#);
    let output = CallOutput { text: "no".to_owned(), ..CallOutput::default() };
    // From the event that says that it was called to the one that says that it finished.
    assert_eq!(call.outcome, CallOutcome::Ended { ok: false, output, millis: Some(3000) });
    let events: Vec<_> = told[0].events.iter().map(|seq| seq.0).collect();
    assert_eq!((told[0].seq.0, events), (1, vec![2, 4]));
    assert!(matches!(&told[1].what, EntryBody::Note { label, .. } if label == "x.between"));
}

#[test]
fn what_becomes_of_checkpoints_and_files_is_told_in_words() {
    let told = items(&session(&[
        r#"{"kind":"session.rewound","data":{"to":1,"files":true}}"#,
        r#"{"kind":"files.restored","data":{"rewind":2,"created":1,"changed":3,"failed":[["a/b","no space"]]}}"#,
        r#"{"kind":"checkpoint.thinned","data":{"checkpoints":[1,2,5]}}"#,
    ]));
    let note = |item: &TimelineEntry| match &item.what {
        EntryBody::Note { label, text, .. } => format!("{label}: {text}"),
        what => panic!("{what:?}"),
    };
    assert_eq!(
        told.iter().map(note).collect::<Vec<_>>(),
        [
            "Rewound: to event 1, files too",
            "Files restored: by the rewind at event 2: 1 created, 3 changed, 0 deleted\nnot a/b: no space",
            "Checkpoints thinned: 1, 2, 5",
        ]
    );
}

/// The same two calls and their results, in each form in which messages are recorded.
const FORMS: [(&str, &[&str]); 5] = [
    (
        "abide",
        &[
            r#"{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_call","call":"c1","name":"bash","arguments":{"command":"ls"}},{"type":"tool_call","call":"c2","name":"read","arguments":{"path":"a.rs"}}]}"#,
            r#"{"role":"tool","content":[{"type":"tool_result","call":"c1","content":"yes"},{"type":"tool_result","call":"c2","ok":false,"content":"no"}]}"#,
        ],
    ),
    (
        "anthropic",
        &[
            r#"{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"bash","input":{"command":"ls"}},{"type":"tool_use","id":"c2","name":"read","input":{"path":"a.rs"}}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"yes"}]},{"type":"tool_result","tool_use_id":"c2","is_error":true,"content":"no"}]}"#,
        ],
    ),
    (
        "anthropic, block by block",
        &[
            r#"{"role":"assistant","content":[{"type":"text","text":"I look."}]}"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"bash","input":{"command":"ls"}}]}"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"c2","name":"read","input":{"path":"a.rs"}}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c2","is_error":true,"content":"no"}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"yes"}]}"#,
        ],
    ),
    (
        "openai",
        &[
            r#"{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}},{"id":"c2","type":"function","function":{"name":"read","arguments":"{\"path\":\"a.rs\"}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"c1","content":"yes"}"#,
            r#"{"role":"tool","tool_call_id":"c2","content":"no"}"#,
        ],
    ),
    (
        "responses",
        &[
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]}"#,
            r#"{"role":"assistant","content":[{"type":"function_call","call_id":"c1","name":"bash","arguments":"{\"command\":\"ls\"}"}],"abide":{"form":"responses"}}"#,
            r#"{"role":"assistant","content":[{"type":"function_call","call_id":"c2","name":"read","arguments":"{\"path\":\"a.rs\"}"}],"abide":{"form":"responses"}}"#,
            r#"{"role":"user","content":[{"type":"function_call_output","call_id":"c1","output":"yes"}],"abide":{"form":"responses"}}"#,
            r#"{"role":"user","content":[{"type":"function_call_output","call_id":"c2","output":"no"}],"abide":{"form":"responses"}}"#,
        ],
    ),
];

#[test]
fn a_conversation_is_the_same_in_every_form() {
    for (form, messages) in FORMS {
        for beside in [false, true] {
            let mut lines = Vec::new();
            for message in messages {
                lines.push(format!(r#"{{"kind":"message.added","data":{message}}}"#));
                // What ran may be recorded beside the messages.
                for (id, name) in [("c1", "bash"), ("c2", "read")] {
                    let asked = message.contains(id) && message.contains("assistant");
                    if beside && asked {
                        lines.push(format!(r#"{{"kind":"tool.called","data":{{"call":"{id}","name":"{name}","observed":true}}}}"#));
                        let (ok, text) = if id == "c1" { (true, "yes") } else { (false, "no") };
                        lines.push(format!(r#"{{"kind":"tool.finished","data":{{"call":"{id}","ok":{ok},"result":"{text}"}}}}"#));
                    }
                }
            }
            lines.push(
                r#"{"kind":"message.added","data":{"role":"user","content":"And now?"}}"#
                    .to_owned(),
            );
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            let told: Vec<_> = items(&session(&lines))
                .into_iter()
                .map(|item| match item.what {
                    EntryBody::Message { role, parts } => match &parts[..] {
                        [EntryPart::Text(text)] => format!("{role}: {text}"),
                        other => panic!("{form}: {other:?}"),
                    },
                    EntryBody::Call(call) => {
                        let CallOutcome::Ended { output, .. } = &call.outcome else {
                            panic!("{form}: {call:?}")
                        };
                        format!("{} {} {}", call.call, call.name, output.text)
                    }
                    other => panic!("{form}: {other:?}"),
                })
                .collect();
            let expected = ["assistant: I look.", "c1 bash yes", "c2 read no", "user: And now?"];
            assert_eq!(told, expected, "{form}, beside: {beside}");
        }
    }
}

#[test]
fn what_nothing_answered_is_told_so_and_what_nothing_asked_too() {
    let told = items(&session(
        &[
            r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"bash","input":{"command":"ls"}}]}}"#,
            r#"{"kind":"message.added","data":{"role":"user","content":"Stop."}}"#,
            r#"{"kind":"message.added","data":{"role":"tool","tool_call_id":"c1","content":"late"}}"#,
            r#"{"kind":"tool.finished","data":{"call":"c9","result":"whose?"}}"#,
            r#"{"kind":"tool.called","data":{"call":"c3","name":"bash"}}"#,
            r#"{"kind":"tool.finished","data":{"call":"c3","ok":false,"result":"OUTCOME"}}"#
                .replace("OUTCOME", abide_model::OUTCOME_UNKNOWN)
                .as_str(),
        ],
    ));
    assert!(matches!(&told[0].what, EntryBody::Call(call) if call.outcome == CallOutcome::Unknown));
    assert!(matches!(&told[1].what, EntryBody::Message { .. }));
    // A result that comes later names its call.
    assert!(
        matches!(&told[2].what, EntryBody::LateResult(call) if call.name == "bash" && call.title == "ls")
    );
    assert!(
        matches!(&told[3].what, EntryBody::LateResult(call) if call.call == "c9" && call.name.is_empty())
    );
    assert!(matches!(&told[4].what, EntryBody::Call(call) if call.outcome == CallOutcome::Unknown));
    assert_eq!(told.len(), 5);
}

#[test]
fn an_id_that_is_used_again_is_another_call() {
    let call = r#"{"kind":"message.added","data":{"role":"assistant","content":null,"function_call":{"name":"add","arguments":"{}"}}}"#;
    let result = |text: &str| {
        format!(
            r#"{{"kind":"message.added","data":{{"role":"function","name":"add","content":"{text}"}}}}"#
        )
    };
    let told = items(&session(&[call, &result("1"), call, &result("2")]));
    let outputs: Vec<_> = told
        .iter()
        .map(|item| match &item.what {
            EntryBody::Call(TimelineCall {
                outcome: CallOutcome::Ended { output, .. }, ..
            }) => output.text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(outputs, ["1", "2"]);
    // In another lane, in a later turn, or taken back, it is another one too.
    let asked = |lane: &str, command: &str| {
        format!(
            r#"{{"kind":"message.added"{lane},"data":{{"role":"assistant","content":[{{"type":"tool_use","id":"c1","name":"bash","input":{{"command":"{command}"}}}}]}}}}"#
        )
    };
    let answered = |lane: &str, text: &str| {
        format!(
            r#"{{"kind":"message.added"{lane},"data":{{"role":"tool","tool_call_id":"c1","content":"{text}"}}}}"#
        )
    };
    let (a, b) = (r#","lane":"a""#, r#","lane":"b""#);
    let told = items(&session(&[
        &asked(a, "in a"),
        &asked(b, "in b"),
        &answered(a, "of a"),
        &answered(b, "of b"),
        r#"{"kind":"turn.started","data":{}}"#,
        &asked("", "first"),
        &answered("", "of first"),
        r#"{"kind":"turn.finished","data":{}}"#,
        r#"{"kind":"turn.started","data":{}}"#,
        r#"{"kind":"tool.called","data":{"call":"c1","name":"bash","arguments":{"command":"second"}}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c1","result":"of second"}}"#,
    ]));
    let calls: Vec<_> = told
        .iter()
        .filter_map(|item| match &item.what {
            EntryBody::Call(call) => match &call.outcome {
                CallOutcome::Ended { output, .. } => {
                    Some((call.arguments.as_str(), output.text.as_str()))
                }
                CallOutcome::Unknown => panic!("{call:?}"),
            },
            EntryBody::LateResult(call) => panic!("{call:?}"),
            _ => None,
        })
        .collect();
    let expected = [
        (r#"{"command":"in a"}"#, "of a"),
        (r#"{"command":"in b"}"#, "of b"),
        (r#"{"command":"first"}"#, "of first"),
        (r#"{"command":"second"}"#, "of second"),
    ];
    assert_eq!(calls, expected);
}

#[test]
fn a_text_that_is_recorded_in_parts_is_one_message() {
    let part = |text: &str, answer: &str| {
        format!(
            r#"{{"kind":"message.added","data":{{"role":"assistant","content":"{text}","abide":{{"answer":"{answer}"}}}}}}"#
        )
    };
    let told = items(&session(&[&part("one ", "1"), &part("two", "1"), &part("three", "2")]));
    let texts: Vec<_> = told
        .iter()
        .map(|item| match &item.what {
            EntryBody::Message { parts, .. } => match &parts[..] {
                [EntryPart::Text(text)] => text.as_str(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["one two", "three"]);
}

#[test]
fn an_image_cannot_act() {
    let image = |media_type: &str, data: &str| {
        format!(
            r#"{{"kind":"message.added","data":{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","media_type":"{media_type}","data":"{data}"}}}}]}}}}"#
        )
    };
    let shown = |media_type: &str, data: &str| {
        let page = rendered(HtmlRenderer::new(), &session(&[&image(media_type, data)]));
        check_page(&page);
        page.contains("<img ")
    };
    assert!(shown("image/png", "aGVsbG8="));
    for (media_type, data) in [
        ("image/svg+xml", "PHN2Zz4="),
        ("text/html", "aGVsbG8="),
        ("image/png\\\" onload=\\\"x", "aGVsbG8="),
        ("image/png", "aGV\\\"sbG8="),
        ("image/png", ""),
    ] {
        assert!(!shown(media_type, data), "{media_type} {data}");
    }
}

#[test]
fn a_block_of_every_kind_is_told_in_words() {
    let told = items(&session(&[
        r#"{"kind":"message.added","data":{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGVsbG8="}},{"type":"document","title":"The plan","source":{"type":"text"}},{"type":"input_audio","input_audio":{"data":"x"}},{"type":"new_thing","a":{"b":1}}]}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"rust"}},{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","title":"Rust","url":"https://e.f","encrypted_content":"x"}]},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"Found."}]}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"web_search_call","id":"w1","status":"completed","action":{"type":"search","query":"abide"}}],"abide":{"form":"responses"}}}"#,
    ]));
    let EntryBody::Message { parts, .. } = &told[0].what else { panic!("{told:?}") };
    let [
        EntryPart::Image(image),
        EntryPart::Attachment(document),
        EntryPart::Attachment(audio),
        EntryPart::Fields(fields),
    ] = &parts[..]
    else {
        panic!("{parts:?}")
    };
    assert_eq!(
        (image.size(), document.as_str(), audio.as_str()),
        (5, "document The plan", "audio")
    );
    assert_eq!(
        (fields[0].value.as_str(), fields[1].name.as_str(), fields[1].value.as_str()),
        ("new thing", "a", "b: 1")
    );
    let EntryBody::Call(call) = &told[1].what else { panic!("{told:?}") };
    assert!(
        matches!(&call.outcome, CallOutcome::Ended { ok: true, output, .. } if output.text == "Rust https://e.f")
    );
    assert!(matches!(&told[2].what, EntryBody::Message { .. }));
    assert!(
        matches!(&told[3].what, EntryBody::Call(call) if call.name == "web_search" && matches!(call.outcome, CallOutcome::Ended { ok: true, .. }))
    );
    assert_eq!(told.len(), 4);
}

#[test]
fn a_lane_has_the_name_of_the_call_that_it_belongs_to() {
    let told = items(&session(&[
        r#"{"kind":"tool.called","data":{"call":"t1","name":"Task","arguments":{"description":"Find it","prompt":"Find the test"}}}"#,
        r#"{"kind":"message.added","lane":"t1","data":{"role":"user","content":"Find the test"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"t1","result":"Found."}}"#,
        r#"{"kind":"message.added","lane":"other","data":{"role":"assistant","content":"Hm."}}"#,
    ]));
    let titles: Vec<_> = told.iter().map(|item| item.lane_title.as_deref()).collect();
    assert_eq!(titles, [None, Some("Find the test"), Some("other")]);
}

#[test]
fn a_call_without_a_result_holds_the_story_up_only_so_long() {
    let mut lines = vec![r#"{"kind":"tool.called","data":{"call":"c","name":"n"}}"#];
    lines.resize(10_000, r#"{"kind":"x.a","data":{}}"#);
    let events = session(&lines);
    let mut story = TimelineBuilder::new();
    let mut most = 0;
    let mut told = 0;
    for (at, event) in events.iter().enumerate() {
        story.push(event);
        told += std::iter::from_fn(|| story.next_item()).count();
        most = most.max(at + 1 - told);
    }
    assert!(most < 300, "{most} items waited");
    // At the end of its turn a call is told as it is.
    let told = items(&session(&[
        r#"{"kind":"turn.started","data":{}}"#,
        r#"{"kind":"tool.called","data":{"call":"c","name":"n"}}"#,
        r#"{"kind":"turn.finished","data":{}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c"}}"#,
    ]));
    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(matches!(&told[1].what, EntryBody::Call(call) if call.outcome == CallOutcome::Unknown));
    assert!(matches!(&told[3].what, EntryBody::LateResult(call) if call.call == "c"));
}

const HOSTILE: [&str; 9] = [
    r#"{"kind":"session.created","data":{"session":"019a8519-0200-7503-9294-f2065da4d5ae","title":"</title><script>alert(1)</script>","agent":"\" onload=\"alert(1)"}}"#,
    r#"{"kind":"turn.started","data":{"agent":"</style><img src=x onerror=alert(2)>"}}"#,
    r#"{"kind":"message.added","lane":"<b>","data":{"role":"<script>","content":"</p><script>x</script>\n```html\n</code></pre><script>\n```\n[a](javascript:alert(1)) <a href=\"javascript:x\">y</a>\n`<i>` **<u>**"}}"#,
    r#"{"kind":"tool.called","data":{"call":"c<","name":"<svg onload=x>","arguments":{"command":"</summary><iframe src=//x>","other":"<object>"}}}"#,
    r#"{"kind":"tool.finished","data":{"call":"c<","result":"</pre></details><script>\u001b]0;x\u0007\u202e"}}"#,
    r#"{"kind":"task.created","data":{"task":"<li>","title":"</ul><form action=//x>"}}"#,
    r#"{"kind":"file.touched","data":{"path":"<a>'\"","op":"write"}}"#,
    r#"{"kind":"x.y","data":{"a":"<style>@import '//x'</style>"}}"#,
    r#"{"kind":"session.status","data":{"status":"completed","summary":"<meta http-equiv=refresh content=0>"}}"#,
];

/// Every tag of a page.
fn tags(page: &str) -> Vec<&str> {
    page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()).collect()
}

/// Is this one of the tags that a page is made of, with attributes of ours alone?
fn is_ours(tag: &str) -> bool {
    const NAMES: &str = "!doctype html head meta title style body header p h1 h2 h3 h4 h5 h6 span dl dt dd div nav table thead tbody tr th td a section ul ol li main article details summary b i code pre strong em del ins small blockquote hr br img input label footer";
    let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
    if !NAMES.split(' ').any(|known| known == name) {
        return false;
    }
    // Outside of quotes only names of attributes.
    let bare: String = tag.split('"').step_by(2).collect();
    let ours = [
        "class=",
        "id=",
        "href=",
        "datetime=",
        "title=",
        "style=",
        "open",
        "lang=",
        "charset=",
        "http-equiv=",
        "content=",
        "name=",
        "for=",
        "type=",
        "alt=",
        "src=",
        "rel=",
        "start=",
    ];
    bare.split_whitespace().skip(1).all(|attribute| {
        let class = attribute.strip_prefix("class=").is_some_and(|class| class.len() == 1);
        class || ours.contains(&attribute) || attribute == "html"
    }) && tag.split("href=\"").nth(1).is_none_or(|link| {
        ["#e", "https://", "http://", "mailto:"].iter().any(|start| link.starts_with(start))
    }) && tag.split("src=\"").nth(1).is_none_or(|source| source.starts_with("data:image/"))
}

fn check_page(page: &str) {
    let css = include_str!("../html.css");
    let page = page.replacen(css, "", 1);
    assert!(
        page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"")
    );
    for tag in tags(&page) {
        assert!(is_ours(tag), "{tag:?}");
    }
    let hidden = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
    assert!(!page.contains(hidden));
}

#[test]
fn nothing_recorded_acts_on_a_page() {
    let page = rendered(HtmlRenderer::new(), &session(&HOSTILE));
    check_page(&page);
    for shown in
        ["&lt;script&gt;alert(1)", "onerror=alert(2)&gt;", "javascript:alert(1)", "\\u{202e}"]
    {
        assert!(page.contains(shown), "{shown} is not shown");
    }
    assert!(!page.contains("href=\"javascript"));
}

#[test]
fn nothing_recorded_acts_in_markdown() {
    let text = rendered(MarkdownRenderer::new(), &session(&HOSTILE));
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            None if ticks >= 3 => fence = line.get(..ticks),
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None => {
                // Outside of code every `<` is escaped. Code in a line has its own ticks.
                let bare: String = line.split('`').step_by(2).collect();
                assert!(!bare.replace("\\<", "").contains('<'), "{line}");
            }
        }
    }
    assert_eq!(fence, None);
    assert!(!text.replace("\\](", "").contains("](javascript"), "{text}");
}

#[test]
fn the_only_control_sequences_are_our_own() {
    let clock = || Box::new(|_| "2026-01-01 00:00:00".to_owned());
    let events = session(&HOSTILE);
    let plain = rendered(TextRenderer::new(TextStyle::Plain, 80, clock()), &events);
    assert!(!plain.contains(|c: char| c.is_control() && c != '\n'), "{plain:?}");
    let coloured = rendered(TextRenderer::new(TextStyle::Coloured, 80, clock()), &events);
    let mut without = String::new();
    for (at, part) in coloured.split("\u{1b}[").enumerate() {
        match part.split_once('m') {
            Some((codes, text)) if at > 0 => {
                assert!(codes.chars().all(|c| c.is_ascii_digit() || c == ';'), "{codes:?}");
                without.push_str(text);
            }
            _ => without.push_str(part),
        }
    }
    assert!(!without.contains('\u{1b}'));
    let lines =
        |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(&without), lines(&plain));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_story_is_told_without_harm(events in events(24)) {
        check_page(&rendered(HtmlRenderer::new(), &events));
        rendered(MarkdownRenderer::new(), &events);
        let plain = rendered(TextRenderer::plain(), &events);
        prop_assert!(!plain.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        let told = items(&events);
        prop_assert!(told.is_sorted_by_key(|item| item.seq));
    }
}

/// An answer of which an agent's own file holds each block alone, with the results anywhere after.
#[test]
fn a_call_in_a_part_of_an_answer_is_told_once_with_its_result() {
    let part = |block: &str| {
        format!(
            r#"{{"kind":"message.added","data":{{"id":"msg_1","role":"assistant","content":[{block}],"abide":{{"form":"anthropic","answer":"msg_1","source":{{"file":"f"}}}}}}}}"#
        )
    };
    let call = |id: &str| {
        part(&format!(r#"{{"type":"tool_use","id":"{id}","name":"bash","input":{{}}}}"#))
    };
    let result = |id: &str| {
        format!(
            r#"{{"kind":"message.added","data":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"of {id}"}}]}}}}"#
        )
    };
    let text = part(r#"{"type":"text","text":"I look."}"#);
    for order in [
        [call("c1"), call("c2"), result("c1"), result("c2")],
        [call("c1"), call("c2"), result("c2"), result("c1")],
        [call("c1"), result("c1"), call("c2"), result("c2")],
    ] {
        let lines: Vec<&str> = [&text].into_iter().chain(&order).map(String::as_str).collect();
        let told = items(&session(&lines));
        let calls: Vec<_> = told
            .iter()
            .filter_map(|item| match &item.what {
                EntryBody::Call(call) => Some((call.call.as_str(), &call.outcome)),
                _ => None,
            })
            .collect();
        assert_eq!(told.len(), 3, "{told:#?}");
        assert_eq!(calls.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["c1", "c2"]);
        for (id, outcome) in calls {
            let CallOutcome::Ended { ok: true, output, .. } = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(output.text, format!("of {id}"));
        }
    }
}

#[test]
fn what_was_read_of_a_source_is_told_to_who_asks_for_everything() {
    let told = items(&session(&[
        r#"{"kind":"source.recorded","data":{"file":"a.jsonl","at":0,"bytes":9,"sort":"progress","record":{"x":"SECRET"}}}"#,
        r#"{"kind":"source.read","data":{"agent":"an","file":"a.jsonl","end":1200}}"#,
    ]));
    assert!(told.iter().all(TimelineEntry::is_minor), "{told:?}");
    let notes: Vec<_> = told
        .iter()
        .map(|item| match &item.what {
            EntryBody::Note { label, text, .. } => format!("{label}: {text}"),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(notes, ["Source: progress, a.jsonl", "Source read: a.jsonl to 1,200"]);
}
