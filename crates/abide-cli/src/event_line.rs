//! An event as one readable line: when, where in the session, what.

use abide::{
    Event, Seq,
    event::Fact,
    message::{KnownBlock, MessageBlock, MessageContent},
};
use abide_transcript::escape;
use jiff::tz::TimeZone;

use crate::clock::clock_day_and_time;
use crate::command_output::terminal_width;

/// How much of a text is searched for an excerpt.
const LOOK: usize = 2000;

/// Formats events as lines that fit a terminal.
#[derive(Debug)]
pub(crate) struct EventLines {
    zone: TimeZone,
    width: usize,
}

impl EventLines {
    /// Lines of at most `width` characters, in this time zone.
    pub(crate) const fn new(zone: TimeZone, width: usize) -> Self {
        Self { zone, width }
    }

    /// For the terminal at stdout and the user's time zone.
    pub(crate) fn for_terminal() -> Self {
        Self::new(TimeZone::system(), terminal_width().unwrap_or(120))
    }

    /// The line of an event, escaped for a terminal.
    pub(crate) fn line(&self, event: &Event) -> String {
        let time = clock_day_and_time(&self.zone, event.at);
        let head = format!("{time} {:>5}  {:<16} ", event.seq, event.kind);
        cut_event_line(&format!("{head}{}", excerpt(event)), self.width)
    }
}

/// The numbers of the first ten events.
pub(crate) fn listed(seqs: &[Seq]) -> String {
    let shown: Vec<String> = seqs.iter().take(10).map(|seq| format!("@{seq}")).collect();
    let more = if seqs.len() > 10 { " …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// The start of a line, at most `width` characters.
fn cut_event_line(line: &str, width: usize) -> String {
    if line.chars().nth(width).is_none() {
        return line.trim_end().to_owned();
    }
    let start: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{start}…")
}

/// A short excerpt of an event, escaped for a terminal.
pub(crate) fn excerpt(event: &Event) -> String {
    let said = match event.fact() {
        Ok(fact) => event_line_of_fact(&fact),
        Err(_) => None,
    };
    let said = said.unwrap_or_else(|| {
        let data = event.data.as_ref().map_or("(erased)", |data| data.as_str());
        start_of_event_text(data).to_owned()
    });
    // Line breaks are common and irrelevant here.
    let said = start_of_event_text(&said).replace(['\n', '\t'], " ");
    escape::text(&said).into_owned()
}

fn start_of_event_text(text: &str) -> &str {
    match text.char_indices().nth(LOOK) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

fn event_line_of_fact(fact: &Fact) -> Option<String> {
    Some(match fact {
        Fact::Message(message) => {
            format!("{}: {}", message.role, event_line_content(&message.content))
        }
        Fact::ToolCall(call) => {
            let arguments =
                call.arguments.as_ref().map_or("", |json| start_of_event_text(json.get()));
            format!("{} {} {arguments}", call.call, call.name)
        }
        Fact::ToolResult(result) => {
            let ok = if result.ok { "ok" } else { "failed" };
            let given = result.result.as_ref().map_or("", |json| start_of_event_text(json.get()));
            format!("{} {ok} {given}", result.call)
        }
        Fact::SessionCreated(created) => created.fields.title.clone().unwrap_or_default(),
        Fact::SessionStatus(change) => {
            let why = change.summary.as_deref().or(change.reason.as_deref());
            format!("{} {}", change.status.as_str(), why.unwrap_or_default())
        }
        Fact::WriterOpened(writer) => writer.by.clone(),
        Fact::WriterClosed => String::new(),
        Fact::PlanRecorded(plan) => {
            format!("{} {}", plan.form, plan.title.as_deref().unwrap_or_default())
        }
        Fact::TaskCreated(task) => format!("{} {}", task.task, task.title),
        Fact::TaskStatus(change) => {
            let status = serde_json::to_string(&change.status).unwrap_or_default();
            let reason = change.reason.as_deref().unwrap_or_default();
            format!("{} {} {reason}", change.task, status.trim_matches('"'))
        }
        Fact::FileTouched(touch) => {
            format!("{} {}", touch.op.as_str(), touch.path)
        }
        Fact::PermissionAsked(asked) => asked.title.clone(),
        Fact::PermissionAnswered(answered) => answered.word().to_owned(),
        Fact::Artifact(artifact) => {
            let ok = if artifact.ok { "ok" } else { "failed" };
            let counts = artifact.counts.as_ref().map(|counts| format!(", {counts}"));
            format!("{} {} {ok}{}", artifact.kind, artifact.name, counts.unwrap_or_default())
        }
        Fact::Log(log) => format!("{}: {}", log.level, log.text),
        Fact::Erased => "(erased)".to_owned(),
        _ => return None,
    })
}

fn event_line_content(content: &MessageContent) -> String {
    match content {
        MessageContent::Text(text) => start_of_event_text(text).to_owned(),
        MessageContent::Blocks(blocks) => {
            blocks.iter().map(event_line_block).collect::<Vec<_>>().join(" ")
        }
        MessageContent::Other(json) => start_of_event_text(json.get()).to_owned(),
    }
}

fn event_line_block(block: &MessageBlock) -> String {
    match block {
        MessageBlock::Known(KnownBlock::Text { text }) => start_of_event_text(text).to_owned(),
        MessageBlock::Known(KnownBlock::Thinking { thinking, .. }) => {
            format!("(thinking) {}", start_of_event_text(thinking))
        }
        MessageBlock::Known(KnownBlock::ToolCall { name, arguments, .. }) => {
            format!("[{name} {}]", start_of_event_text(arguments.get()))
        }
        MessageBlock::Known(KnownBlock::ToolResult { content, .. }) => {
            format!("[result {}]", start_of_event_text(content.get()))
        }
        MessageBlock::Other(json) => start_of_event_text(json.get()).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use abide::{NewEvent, Seq, Timestamp};

    use super::*;

    fn line(json: &str, width: usize) -> String {
        let event = NewEvent::parse(json).unwrap().into_event(Seq(7), Timestamp::from_millis(0));
        EventLines::new(TimeZone::UTC, width).line(&event)
    }

    #[test]
    fn an_event_is_one_line_that_fits() {
        insta::assert_snapshot!(
            line(r#"{"kind":"message.added","data":{"role":"user","content":"one\ntwo"}}"#, 80),
            @"1970-01-01 00:00:00     7  message.added    user: one two"
        );
        insta::assert_snapshot!(
            line(r#"{"kind":"tool.called","data":{"call":"c1","name":"bash","arguments":{"command":"ls"}}}"#, 60),
            @r#"1970-01-01 00:00:00     7  tool.called      c1 bash {"comma…"#
        );
        insta::assert_snapshot!(
            line(r#"{"kind":"permission.asked","data":{"call":"c1","title":"Edit main.rs"}}"#, 80),
            @"1970-01-01 00:00:00     7  permission.asked Edit main.rs"
        );
        insta::assert_snapshot!(
            line(r#"{"kind":"permission.answered","data":{"outcome":"selected","option":"y","kind":"allow_once"}}"#, 80),
            @"1970-01-01 00:00:00     7  permission.answered allow_once"
        );
        insta::assert_snapshot!(
            line(r#"{"kind":"x.own","data":{"a":1}}"#, 80),
            @r#"1970-01-01 00:00:00     7  x.own            {"a":1}"#
        );
    }

    #[test]
    fn what_was_recorded_cannot_drive_the_terminal() {
        let line = line(
            r#"{"kind":"message.added","data":{"role":"us\u001b[2Jer","content":"\u009b31m\u202e\u0007"}}"#,
            200,
        );
        assert!(line.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{line:?}");
    }
}
