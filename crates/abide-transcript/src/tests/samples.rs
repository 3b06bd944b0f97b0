//! Sessions of real agents: every call is shown once with its result, in every rendering.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use abide_model::{Event, NewEvent, Seq, Timestamp};
use serde::Deserialize;

use super::timeline_builder::{items, rendered};
use crate::{
    CallOutcome, EntryBody, EntryPart, HtmlRenderer, MarkdownRenderer, TextRenderer, TextStyle,
};

/// What a sample holds, counted from what its model was scripted to say.
#[derive(Debug, Deserialize)]
struct ExpectedSample {
    calls: usize,
    results: usize,
    prompts: usize,
    images: usize,
    call_ids: Vec<String>,
    /// The calls whose results say that they failed.
    failed_ids: Vec<String>,
    /// The exit codes other than 0 of commands, by call.
    exit_codes: BTreeMap<String, i64>,
}

fn samples() -> BTreeMap<String, ExpectedSample> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/expected.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

pub(crate) fn sample(name: &str) -> Vec<Event> {
    #[derive(Deserialize)]
    struct ExportedEvent {
        seq: u64,
        at: Timestamp,
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("samples/{name}.jsonl"));
    let text = fs::read_to_string(path).unwrap();
    let event = |line: &str| {
        let head: ExportedEvent = serde_json::from_str(line).unwrap();
        let mut fields: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(line).unwrap();
        fields.remove("seq");
        fields.remove("at");
        let line = serde_json::to_string(&fields).unwrap();
        NewEvent::parse(&line).unwrap().into_event(Seq(head.seq), head.at)
    };
    text.lines().map(event).collect()
}

#[test]
fn every_sample_is_there_and_none_besides() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let mut found: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    found.sort();
    assert_eq!(found, samples().into_keys().collect::<Vec<_>>());
    assert!(samples().len() >= 14);
}

#[test]
fn every_call_of_a_real_agent_is_an_entry_with_its_result() {
    for (name, expected) in samples() {
        let mut calls = Vec::new();
        let mut failed = BTreeSet::new();
        let (mut results, mut prompts, mut images) = (0, 0, 0);
        for item in items(&sample(&name)) {
            match item.what {
                EntryBody::Call(call) => {
                    let view = crate::call_view::CallView::of(&call);
                    if view.sign == crate::call_view::CallSign::Bad {
                        failed.insert(call.call.clone());
                    }
                    if let CallOutcome::Ended { output, .. } = &call.outcome {
                        results += 1;
                        images += output.images.len();
                    }
                    calls.push(call.call);
                }
                EntryBody::LateResult(call) => panic!("{name}: {call:?}"),
                EntryBody::Message { role, parts } => {
                    let said = |part: &EntryPart| matches!(part, EntryPart::Text(_));
                    prompts += usize::from(
                        role == "user" && item.lane.is_none() && parts.iter().any(said),
                    );
                    for part in parts {
                        images += usize::from(matches!(part, EntryPart::Image(_)));
                        assert!(!matches!(part, EntryPart::Fields(_)), "{name}: {part:?}");
                    }
                }
                _ => {}
            }
        }
        calls.sort();
        let mut ids = expected.call_ids.clone();
        ids.sort();
        assert_eq!(calls, ids, "{name}");
        assert_eq!(
            (calls.len(), results, images),
            (expected.calls, expected.results, expected.images),
            "{name}: calls, results, images"
        );
        let mut bad: BTreeSet<_> = expected.exit_codes.into_keys().collect();
        bad.extend(expected.failed_ids);
        assert_eq!(failed, bad, "{name}: failed");
        // Agents add messages of their own in the user's name.
        assert!(prompts >= expected.prompts, "{name}: {prompts} prompts of {}", expected.prompts);
    }
}

#[test]
fn every_rendering_shows_every_call_once_and_no_json() {
    let clock = || Box::new(|_| "2026-01-01 00:00:00".to_owned());
    for (name, expected) in samples() {
        let events = sample(&name);
        let terminal = rendered(TextRenderer::new(TextStyle::Coloured, 100, clock()), &events);
        let plain = rendered(TextRenderer::new(TextStyle::Plain, 100, clock()), &events);
        let markdown = rendered(MarkdownRenderer::new(), &events);
        let page = rendered(HtmlRenderer::new(), &events);
        let bare = terminal.replace("\u{1b}[0m", "");
        let sign = |line: &str| {
            let line = line.trim_start_matches(['│', ' ']);
            let colours = ["\u{1b}[32m", "\u{1b}[31m", "\u{1b}[2m"];
            let line = colours.iter().find_map(|colour| line.strip_prefix(colour)).unwrap_or(line);
            line.starts_with("✓ ") || line.starts_with("✗ ") || line.starts_with("? ")
        };
        let counts = [
            bare.lines().filter(|line| sign(line)).count(),
            plain.lines().filter(|line| sign(line)).count(),
            markdown
                .lines()
                .filter(|line| ["✓ **", "✗ **", "◌ **"].iter().any(|sign| line.starts_with(sign)))
                .count(),
            page.matches("class=\"call ").count(),
        ];
        assert_eq!(counts, [expected.calls; 4], "{name}: terminal, plain, Markdown, HTML");
        for (form, text) in
            [("terminal", &terminal), ("plain", &plain), ("Markdown", &markdown), ("HTML", &page)]
        {
            let text = text.replace("&quot;", "\"");
            for raw in [
                "\"type\":",
                "\"tool_use_id\"",
                "\"call_id\"",
                "{\"command\"",
                "{\"file_path\"",
                "other content",
                "another sort",
            ] {
                let at = text.find(raw);
                let around =
                    at.map(|at| text.get(at.saturating_sub(200)..(at + 200).min(text.len())));
                assert!(at.is_none(), "{name}, {form}: {raw} in {around:?}");
            }
        }
    }
}

#[test]
fn a_session_reads_well_at_every_width() {
    let clock = || Box::new(crate::short::short_day_and_time);
    let events = sample("own");
    for width in [60, 100, 200] {
        let text = rendered(TextRenderer::new(TextStyle::Plain, width, clock()), &events);
        // Code is not wrapped, so that it can be copied.
        insta::assert_snapshot!(format!("own-{width}"), text);
    }
    let text = rendered(TextRenderer::new(TextStyle::Coloured, 100, clock()), &events);
    insta::assert_snapshot!("own-colour", text.replace('\u{1b}', "^"));
    insta::assert_snapshot!("own-markdown", rendered(MarkdownRenderer::new(), &events));
}

#[test]
fn a_page_is_not_much_larger_than_what_it_shows() {
    for name in samples().into_keys() {
        let page = rendered(HtmlRenderer::new(), &sample(&name));
        let body = page.split_once("<body>").unwrap().1;
        // Images apart.
        let mut bare = String::new();
        for (at, part) in body.split("src=\"data:").enumerate() {
            bare.push_str(if at == 0 { part } else { part.split_once('"').unwrap().1 });
        }
        let text: String = bare
            .split('<')
            .map(|part| part.split_once('>').map_or(part, |(_, text)| text))
            .collect();
        assert!(
            page.len() - body.len() < 12_000,
            "{name}: {} bytes of head",
            page.len() - body.len()
        );
        assert!(bare.len() <= 3 * text.len(), "{name}: {} bytes for {}", bare.len(), text.len());
    }
}
