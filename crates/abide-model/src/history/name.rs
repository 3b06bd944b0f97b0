//! The name of a session: what lists show it under, and what people may type for its id. It is the
//! title that it was given, else the first prompt of a person, else the command of its first run.
//! Derived from the events; never recorded.

use unicode_width::UnicodeWidthChar;

use super::Overview;
use super::prompt::person_prompt;
use crate::{
    Event, EventRange, Fact, Kind, ParentReason, Seq, SessionFields, SessionReader, StoreError,
};

/// The most columns of a name that is made from a prompt or a command.
const COLUMNS: usize = 60;
/// How many events of a session are read for its first prompt, and how many at once.
const READ: usize = 1024;
const PAGE: usize = 64;

impl Overview {
    /// What the session is shown under, on one line; `None` if nothing is known.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let texts = [&self.request, &self.command];
        let derived = texts.into_iter().flatten().map(|text| name_line(text));
        given_title(&self.fields).into_iter().chain(derived).find(|name| !name.is_empty())
    }

    /// Applies what an event says about the name.
    pub(super) fn apply_name(&mut self, event: &Event) {
        if event.kind == Kind::MESSAGE_ADDED && event.lane.is_none() {
            let replaced = self.request_at.filter(|(first, newest)| {
                event.replaces().is_some_and(|old| old == *first || old == *newest)
            });
            if self.request.is_none() || replaced.is_some() {
                let prompt = event.data.as_ref().and_then(person_prompt);
                let first = replaced.map_or(event.seq, |(first, _)| first);
                self.request_at = prompt.is_some().then_some((first, event.seq));
                self.request = prompt.map(super::overview::clip_overview_text);
            }
        }
        if event.kind == Kind::RUN_STARTED
            && self.command.is_none()
            && let Ok(Fact::RunStarted(run)) = event.fact()
        {
            self.command = Some(super::overview::clip_overview_text(run.command.join(" ")));
        }
    }
}

/// The name of a session as lists show it, read from its state and its first events. A prompt behind
/// the first thousand events is not found here.
pub fn read_session_name(reader: &dyn SessionReader) -> Result<Option<String>, StoreError> {
    let (core, _) = reader.core()?;
    let mut overview = Overview { fields: core.fields, ..Overview::default() };
    if given_title(&overview.fields).is_some() {
        return Ok(overview.name());
    }
    // A fork is named by its own events.
    let fork = overview.fields.parent.as_ref().filter(|parent| parent.reason == ParentReason::Fork);
    let first = fork.map_or(Seq::FIRST, |parent| parent.seq.next());
    let mut range = EventRange::from(first).limit(PAGE);
    for _ in 0..READ / PAGE {
        let page = reader.page(range)?;
        let live = page.events.iter().filter(|event| core.lineage.contains(event.seq));
        live.for_each(|event| overview.apply_name(event));
        match page.next.filter(|_| overview.request.is_none()) {
            Some(next) => range.first = next,
            None => break,
        }
    }
    Ok(overview.name())
}

/// The first line of what a person asked for in the main conversation, cut like a name; `None` if the
/// event is no such message.
#[must_use]
pub fn prompt_line(event: &Event) -> Option<String> {
    if event.kind != Kind::MESSAGE_ADDED || event.lane.is_some() {
        return None;
    }
    let prompt = event.data.as_ref().and_then(person_prompt)?;
    prompt.lines().map(name_line).find(|line| !line.is_empty())
}

/// The title that a session was given, on one line.
fn given_title(fields: &SessionFields) -> Option<String> {
    let words: Vec<&str> = fields.title.as_deref()?.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// A text on one line, cut to the columns of a name.
fn name_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let wide = |c: char| c.width().unwrap_or(0);
    if line.chars().map(wide).sum::<usize>() <= COLUMNS {
        return line;
    }
    let mut room = COLUMNS - 1;
    let fits = line.chars().take_while(|c| {
        let left = room.checked_sub(wide(*c));
        room = left.unwrap_or(0);
        left.is_some()
    });
    let kept: String = fits.collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewEvent, Timestamp};

    fn named(title: Option<&str>, lines: &[&str]) -> Option<String> {
        let fields = SessionFields { title: title.map(str::to_owned), ..SessionFields::default() };
        let mut overview = Overview { fields, ..Overview::default() };
        for (seq, line) in (1..).zip(lines) {
            let event = NewEvent::parse(line).unwrap();
            overview.apply(&event.into_event(Seq(seq), Timestamp::from_millis(0)));
        }
        overview.name()
    }

    #[test]
    fn a_title_comes_first_then_the_first_prompt_then_the_command() {
        let run = r#"{"kind":"run.started","data":{"command":["agent","-p","a b"]}}"#;
        let lane =
            r#"{"kind":"message.added","lane":"sub","data":{"role":"user","content":"Of a lane"}}"#;
        let machine = r#"{"kind":"message.added","data":{"role":"user","content":"<system-reminder>x</system-reminder>"}}"#;
        let prompt =
            r#"{"kind":"message.added","data":{"role":"user","content":"Fix\n\tit  now"}}"#;
        let later = r#"{"kind":"message.added","data":{"role":"user","content":"And then?"}}"#;
        let all = [run, lane, machine, prompt, later];
        assert_eq!(named(Some(" Given\ntitle "), &all).as_deref(), Some("Given title"));
        assert_eq!(named(Some("  "), &all).as_deref(), Some("Fix it now"));
        assert_eq!(named(None, &all).as_deref(), Some("Fix it now"));
        assert_eq!(named(None, &[run, lane, machine]).as_deref(), Some("agent -p a b"));
        assert_eq!(named(None, &[lane, machine]), None);
    }

    #[test]
    fn a_name_is_cut_at_sixty_columns() {
        let just = "x".repeat(60);
        assert_eq!(name_line(&just), just);
        assert_eq!(name_line(&"x".repeat(61)), format!("{}…", "x".repeat(59)));
        // A wide character takes two columns: 29 of them, and the mark.
        assert_eq!(name_line(&"語".repeat(30)), "語".repeat(30));
        assert_eq!(name_line(&"語".repeat(31)), format!("{}…", "語".repeat(29)));
        assert_eq!(
            name_line(&format!("{} {}", "x".repeat(58), "yy")),
            format!("{}…", "x".repeat(58))
        );
        assert_eq!(name_line("\u{1b}[31mred\u{7}"), "[31mred");
        assert_eq!(name_line(" \n\u{0} "), "");
    }
}
