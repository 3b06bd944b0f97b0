//! Turns a conversation into the sections of its summary.

use std::collections::HashMap;

use super::super::summary_line::{SummaryLine, UNKNOWN};
use super::super::{OpenTask, summary_on_one_line};
use super::files::files_of_call;
use super::sentence::deciding_sentences;
use super::summary_sections::{SectionHeading, SummarySections};

/// Maximum length of an item in bytes.
const FIRST_REQUEST: usize = 1200;
const LATER_REQUEST: usize = 400;
const DECISION: usize = 300;
const PATH: usize = 200;
const TITLE: usize = 160;
const ERROR: usize = 240;
const SAID: usize = 800;
const CALLED: usize = 200;
const EARLIER: usize = 1600;

/// How many of the last calls are listed.
const LAST_CALLS: usize = 5;

/// A call and its known outcome.
struct SummarizedCall<'a> {
    name: &'a str,
    arguments: &'a str,
    outcome: &'static str,
}

/// Collects the sections for a conversation.
pub(super) fn gather_summary_sections(
    lines: &[SummaryLine],
    tasks: &[OpenTask],
    touched: &[String],
) -> SummarySections {
    let mut sections = SummarySections::default();
    let mut carried = SummarySections::default();
    let mut calls: Vec<SummarizedCall<'_>> = Vec::new();
    let mut by_id: HashMap<&str, usize> = HashMap::new();
    let mut last_said = None;
    for line in lines {
        let content = line.content.as_deref().unwrap_or("");
        match line.role.as_str() {
            "summary" => carry_earlier_summary(content, &mut sections, &mut carried),
            "user" => {
                let first = sections.of(SectionHeading::Goal).items.is_empty();
                let most = if first { FIRST_REQUEST } else { LATER_REQUEST };
                sections.add(SectionHeading::Goal, content, most);
            }
            "assistant" => {
                if !content.trim().is_empty() {
                    last_said = Some(content);
                }
                for sentence in deciding_sentences(content) {
                    sections.add(SectionHeading::Decisions, sentence, DECISION);
                }
                for call in &line.calls {
                    by_id.insert(&call.id, calls.len());
                    let outcome = "no result";
                    calls.push(SummarizedCall {
                        name: &call.name,
                        arguments: &call.arguments,
                        outcome,
                    });
                }
            }
            "tool" => {
                let id = line.call.as_deref().unwrap_or("");
                let unknown = line.ok.is_none() && content == UNKNOWN;
                let mut name = id;
                if let Some(call) = by_id.get(id).and_then(|at| calls.get_mut(*at)) {
                    name = call.name;
                    call.outcome = match line.ok {
                        Some(false) => "failed",
                        Some(true) => "ok",
                        None if unknown => "nobody knows how it ended",
                        None => "ended",
                    };
                }
                if line.ok == Some(false) || unknown {
                    let first = content.lines().find(|line| !line.trim().is_empty());
                    let error = format!("{name}: {}", first.unwrap_or("failed"));
                    sections.add(SectionHeading::Errors, &error, ERROR);
                }
            }
            _ => {}
        }
    }
    gather_files(&mut sections, &mut carried, &calls, touched);
    for task in tasks {
        let status = serde_json::to_string(&task.status).unwrap_or_default();
        let item = format!("{} ({}): {}", task.id, status.trim_matches('"'), task.title);
        sections.add(SectionHeading::Tasks, &item, TITLE);
    }
    gather_last_state(&mut sections, &mut carried, &calls, last_said);
    sections
}

/// Carries over what an earlier summary says, unless newer information replaces it. `carried` holds
/// what must come after the new items.
fn carry_earlier_summary(
    text: &str,
    sections: &mut SummarySections,
    carried: &mut SummarySections,
) {
    let Some(mut earlier) = SummarySections::read(text) else {
        sections.add(SectionHeading::Earlier, text, EARLIER);
        return;
    };
    for heading in [
        SectionHeading::Goal,
        SectionHeading::Earlier,
        SectionHeading::Decisions,
        SectionHeading::Errors,
    ] {
        let old = std::mem::take(earlier.of(heading));
        let section = sections.of(heading);
        section.left_out = section.left_out.saturating_add(old.left_out);
        for item in old.items {
            // The item has the right length and is escaped already.
            sections.add_line(heading, item);
        }
    }
    for heading in [SectionHeading::Files, SectionHeading::Last] {
        let old = std::mem::take(earlier.of(heading));
        let section = carried.of(heading);
        section.left_out = section.left_out.saturating_add(old.left_out);
        section.items = old.items.into_iter().chain(std::mem::take(&mut section.items)).collect();
    }
}

/// Newest first: the files passed in, those of the calls, those of earlier summaries.
fn gather_files(
    sections: &mut SummarySections,
    carried: &mut SummarySections,
    calls: &[SummarizedCall<'_>],
    touched: &[String],
) {
    for path in touched {
        sections.add(SectionHeading::Files, path, PATH);
    }
    for call in calls.iter().rev() {
        for path in files_of_call(call.name, call.arguments) {
            sections.add(SectionHeading::Files, &path, PATH);
        }
    }
    let old = std::mem::take(carried.of(SectionHeading::Files));
    for path in old.items {
        sections.add(SectionHeading::Files, &path, PATH);
    }
    let section = sections.of(SectionHeading::Files);
    section.left_out = section.left_out.saturating_add(old.left_out);
}

/// The last statement and the last calls, or what an earlier summary says if nothing came after it.
fn gather_last_state(
    sections: &mut SummarySections,
    carried: &mut SummarySections,
    calls: &[SummarizedCall<'_>],
    last_said: Option<&str>,
) {
    if last_said.is_none() && calls.is_empty() {
        *sections.of(SectionHeading::Last) = std::mem::take(carried.of(SectionHeading::Last));
        return;
    }
    for call in calls.iter().skip(calls.len().saturating_sub(LAST_CALLS)) {
        let called =
            summary_on_one_line(&format!("called {} {}", call.name, call.arguments), CALLED);
        let section = sections.of(SectionHeading::Last);
        section.items.push(format!("{called}: {}", call.outcome));
    }
    if let Some(said) = last_said {
        sections.add(SectionHeading::Last, &format!("said: {said}"), SAID);
    }
}
