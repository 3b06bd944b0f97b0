//! Renders exported events: `abide export | cargo run -p abide-transcript --example render -- html`.
//!
//! The form is `html`, `markdown`, `text` or `colour`; the last two take a width as a second argument.

use std::error::Error;
use std::io::{BufRead, Write};

use abide_model::{Event, NewEvent, Seq, SessionState, Timestamp};
use abide_transcript::{
    HtmlRenderer, MarkdownRenderer, SessionOverview, TextRenderer, TextStyle, TimelineBuilder,
    TimelineRenderer,
};
use serde_json::{Map, Value};

/// An event as `abide export --format jsonl` writes it.
fn exported_event(line: &str) -> Result<Event, Box<dyn Error>> {
    let mut fields: Map<String, Value> = serde_json::from_str(line)?;
    let seq = fields.remove("seq").and_then(|seq| seq.as_u64()).ok_or("no seq")?;
    let at: Timestamp = serde_json::from_value(fields.remove("at").ok_or("no time")?)?;
    let event = NewEvent::parse(&serde_json::to_string(&fields)?)?;
    Ok(event.into_event(Seq(seq), at))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let form = arguments.next().unwrap_or_default();
    let width = arguments.next().map_or(Ok(100), |width| width.parse())?;
    let clock = || Box::new(|at: Timestamp| at.to_string().replace('T', " "));
    let mut renderer: Box<dyn TimelineRenderer> = match form.as_str() {
        "html" => Box::new(HtmlRenderer::new()),
        "markdown" => Box::new(MarkdownRenderer::new()),
        "text" => Box::new(TextRenderer::new(TextStyle::Plain, width, clock())),
        "colour" => Box::new(TextRenderer::new(TextStyle::Coloured, width, clock())),
        _ => return Err("the form is html, markdown, text or colour".into()),
    };
    let mut events = Vec::new();
    let mut state = SessionState::default();
    for line in std::io::stdin().lock().lines() {
        let event = exported_event(&line?)?;
        state.apply(&event);
        events.push(event);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(renderer.begin(&SessionOverview::of(&state)).as_bytes())?;
    let mut timeline = TimelineBuilder::new();
    for event in &events {
        timeline.push(event);
        while let Some(entry) = timeline.next_item() {
            out.write_all(renderer.item(&entry).as_bytes())?;
        }
    }
    timeline.finish();
    while let Some(entry) = timeline.next_item() {
        out.write_all(renderer.item(&entry).as_bytes())?;
    }
    out.write_all(renderer.end().as_bytes())?;
    Ok(())
}
