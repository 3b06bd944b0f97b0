//! The steps of a prompt: what a stubbed agent does with it.

use std::time::Duration;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Say(String),
    Think(String),
    Chunks { count: usize, size: usize },
    Tool(String),
    ToolOpen(String),
    Ask,
    Read(String),
    Write { path: String, text: String },
    Terminal(Vec<String>),
    Plan(Vec<String>),
    Mode(String),
    Title(String),
    Usage,
    Custom,
    Edit { path: String, text: String },
    Sleep(Duration),
    Hang,
    Wait,
    Die(i32),
    Kill,
    Garbage,
    Flood { megabytes: usize },
    Endless { megabytes: usize },
    Deaf,
    Recall,
    Raw(String),
    Echo(String),
}

/// The steps of a text: one in each line, or between semicolons. A line that starts with `raw ` is
/// one step, whatever it holds. A text that has anything else in it is echoed as a whole.
pub(super) fn steps(text: &str) -> Vec<Step> {
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(raw) = line.strip_prefix("raw ") {
            found.push(Some(Step::Raw(raw.to_owned())));
            continue;
        }
        let parts = line.split(';').map(str::trim).filter(|part| !part.is_empty());
        found.extend(parts.map(step));
    }
    let found: Option<Vec<Step>> = found.into_iter().collect();
    found.filter(|steps| !steps.is_empty()).unwrap_or_else(|| vec![Step::Echo(text.to_owned())])
}

fn step(text: &str) -> Option<Step> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    let none = rest.is_empty();
    let some = || (!none).then(|| rest.to_owned());
    Some(match word {
        "say" => Step::Say(some()?),
        "think" => Step::Think(some()?),
        "chunks" => {
            let (count, size) = rest.split_once(' ')?;
            Step::Chunks { count: count.parse().ok()?, size: size.trim().parse().ok()? }
        }
        "tool" => Step::Tool(some()?),
        "tool-open" => Step::ToolOpen(some()?),
        "ask" if none => Step::Ask,
        "read" => Step::Read(some()?),
        "write" => {
            let (path, text) = rest.split_once(' ')?;
            Step::Write { path: path.to_owned(), text: text.to_owned() }
        }
        "terminal" if !none => Step::Terminal(rest.split(' ').map(str::to_owned).collect()),
        "plan" if !none => {
            Step::Plan(rest.split('|').map(|entry| entry.trim().to_owned()).collect())
        }
        "mode" => Step::Mode(some()?),
        "title" => Step::Title(some()?),
        "usage" if none => Step::Usage,
        "custom" if none => Step::Custom,
        "edit" => {
            let (path, text) = rest.split_once(' ')?;
            Step::Edit { path: path.to_owned(), text: text.to_owned() }
        }
        "sleep" => Step::Sleep(Duration::from_millis(rest.parse().ok()?)),
        "hang" if none => Step::Hang,
        "wait" if none => Step::Wait,
        "die" if none => Step::Die(1),
        "die" => Step::Die(rest.parse().ok()?),
        "kill" if none => Step::Kill,
        "garbage" if none => Step::Garbage,
        "flood" => Step::Flood { megabytes: rest.parse().ok()? },
        "endless" => Step::Endless { megabytes: rest.parse().ok()? },
        "deaf" if none => Step::Deaf,
        "recall" if none => Step::Recall,
        _ => return None,
    })
}
