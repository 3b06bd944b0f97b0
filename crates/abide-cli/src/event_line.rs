//! An event as one readable line: when, which, what.

use abide::{Event, Seq};
use abide_transcript::{EventSentences, escape};
use jiff::tz::TimeZone;

use crate::clock::clock_day_and_time;
use crate::command_output::terminal_width;

/// Formats events as lines that fit a terminal.
#[derive(Debug)]
pub(crate) struct EventLines {
    zone: TimeZone,
    width: usize,
    sentences: EventSentences,
}

impl EventLines {
    /// Lines of at most `width` characters, in this time zone.
    pub(crate) fn new(zone: TimeZone, width: usize) -> Self {
        Self { zone, width, sentences: EventSentences::default() }
    }

    /// For the terminal at stdout and the user's time zone.
    pub(crate) fn for_terminal() -> Self {
        Self::new(TimeZone::system(), terminal_width().unwrap_or(120))
    }

    /// The line of the next event, escaped for a terminal.
    pub(crate) fn line(&mut self, event: &Event) -> String {
        let time = clock_day_and_time(&self.zone, event.at);
        let number = format!("@{}", event.seq);
        let sentence = self.sentences.of(event);
        cut_event_line(&format!("{time} {number:>6}  {}", escape::text(&sentence)), self.width)
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
            @"1970-01-01 00:00:00     @7  User: one two"
        );
        insta::assert_snapshot!(
            line(r#"{"kind":"tool.called","data":{"call":"c1","name":"bash","arguments":{"command":"cargo test --workspace --all"}}}"#, 60),
            @"1970-01-01 00:00:00     @7  bash runs: cargo test --workspa…"
        );
        insta::assert_snapshot!(
            line(r#"{"kind":"permission.asked","data":{"call":"c1","title":"Edit main.rs"}}"#, 80),
            @"1970-01-01 00:00:00     @7  Permission asked: Edit main.rs"
        );
        insta::assert_snapshot!(
            line(r#"{"kind":"permission.answered","data":{"outcome":"selected","option":"y","kind":"allow_once"}}"#, 80),
            @"1970-01-01 00:00:00     @7  Permission: allow_once"
        );
        insta::assert_snapshot!(
            line(r#"{"kind":"x.own","data":{"a":1}}"#, 80),
            @"1970-01-01 00:00:00     @7  x.own: a: 1"
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
