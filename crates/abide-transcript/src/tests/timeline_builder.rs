//! The timeline and its renderings: each thing told once, and nothing recorded acts.

use abide_model::{Event, SessionState};
use proptest::prelude::*;

use super::generate::events;
use super::transcript::session;
use crate::{
    CallOutcome, EntryBody, EntryPart, HtmlRenderer, MarkdownRenderer, SessionOverview,
    TextRenderer, TextStyle, TimelineBuilder, TimelineEntry, TimelineRenderer,
};

fn items(events: &[Event]) -> Vec<TimelineEntry> {
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
    assert_eq!((call.target.as_str(), &call.arguments), ("ls", &None));
    let ended = CallOutcome::Ended { ok: false, text: "no".to_owned(), millis: Some(3000) };
    assert_eq!(call.outcome, ended);
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

#[test]
fn what_nothing_ran_is_told_as_it_was_asked_and_answered() {
    let told = items(&session(&[
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"tool_call","call":"c1","name":"bash","arguments":{"command":"ls"}}]}}"#,
        r#"{"kind":"message.added","data":{"role":"tool","content":[{"type":"tool_result","call":"c1","content":"yes"}]}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c9","result":"late"}}"#,
    ]));
    let parts = |at: usize| match &told[at].what {
        EntryBody::Message { parts, .. } => parts.clone(),
        other => panic!("{other:?}"),
    };
    assert!(matches!(&parts(0)[..], [EntryPart::Asked(call)] if call.target == "ls"));
    assert!(matches!(&parts(1)[..], [EntryPart::Result { call, .. }] if call == "c1"));
    assert!(matches!(&told[2].what, EntryBody::LateResult { call, .. } if call == "c9"));
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
    assert!(matches!(&told[3].what, EntryBody::LateResult { call, .. } if call == "c"));
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
    const NAMES: &str = "!doctype html head meta title style body header p h1 h2 span dl dt dd div nav table tr th td a section ul li main article details summary b code pre strong time footer";
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
    ];
    bare.split_whitespace()
        .skip(1)
        .all(|attribute| ours.contains(&attribute) || attribute == "html")
        && tag.split("href=\"").nth(1).is_none_or(|link| link.starts_with("#turn-"))
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
    let mut without = coloured;
    for code in ["0", "1", "2", "31", "32", "1;32", "1;34", "1;36"] {
        without = without.replace(&format!("\u{1b}[{code}m"), "");
    }
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
        let mut seqs: Vec<_> = told.iter().map(|item| item.seq).collect();
        prop_assert!(seqs.is_sorted());
        seqs.dedup();
        prop_assert_eq!(seqs.len(), told.len());
    }
}
