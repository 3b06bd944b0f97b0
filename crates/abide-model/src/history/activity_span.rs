//! The times between which a session was active.

use serde::{Deserialize, Serialize};

use crate::{Kind, Timestamp};

/// The first and the last time of a session's activity: of its events that are not the store's own
/// bookkeeping. It counts in place of the bookkeeping once an event says when it happened: then the
/// session was recorded from something that had happened before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "ListedSpan", into = "ListedSpan")]
pub struct ActivitySpan {
    span: Option<(Timestamp, Timestamp)>,
    dated: bool,
}

/// One with activity as every list reads it: the first and the last time in milliseconds, and whether an event
/// says when it happened.
type ListedSpan = (i64, i64, bool);

impl From<ListedSpan> for ActivitySpan {
    fn from((first, last, dated): ListedSpan) -> Self {
        let span = (Timestamp::from_millis(first), Timestamp::from_millis(last));
        Self { span: Some(span), dated }
    }
}

impl From<ActivitySpan> for ListedSpan {
    fn from(activity: ActivitySpan) -> Self {
        let (first, last) = activity.span.unwrap_or_default();
        (first.as_millis(), last.as_millis(), activity.dated)
    }
}

impl ActivitySpan {
    /// Adds an event that was recorded at this time and says that it happened at that one.
    pub fn add(&mut self, kind: &Kind, at: Timestamp, occurred: Option<Timestamp>) {
        if kind.is_reserved() || [Kind::SOURCE_READ, Kind::CHECKPOINT_THINNED].contains(kind) {
            return;
        }
        let time = occurred.map_or(at, |occurred| occurred.min(at));
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
        self.dated |= occurred.is_some();
    }

    /// The first and the last time, if an event says when it happened.
    #[must_use]
    pub fn dated(&self) -> Option<(Timestamp, Timestamp)> {
        self.span.filter(|_| self.dated)
    }

    /// Without any activity.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.span.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::{Event, NewEvent, Overview, OverviewUpdate, Seq};

    const CREATED: &str =
        r#"{"kind":"session.created","data":{"session":"019a8620-4bfb-7000-8000-000000000001"}}"#;
    const OPENED: &str = r#"{"kind":"writer.opened","data":{"epoch":1}}"#;
    const SAID: &str = r#"{"kind":"message.added","data":{"role":"user","content":"x"}}"#;
    const CLOSED: &str = r#"{"kind":"writer.closed","data":{}}"#;

    /// The lines as events, one recorded each second after the thousandth.
    fn events(lines: &[String]) -> Vec<Event> {
        let event = |(index, line): (usize, &String)| {
            let at = Timestamp::from_millis(1_000_000 + index as i64 * 1000);
            NewEvent::parse(line).unwrap().into_event(Seq(index as u64 + 1), at)
        };
        lines.iter().enumerate().map(event).collect()
    }

    fn times(lines: &[String]) -> (i64, i64) {
        let events = events(lines);
        let overview = Overview::of(|| events.iter().cloned().map(Ok::<_, Infallible>)).unwrap();
        (overview.created.as_millis(), overview.updated.as_millis())
    }

    fn happened(line: &str, second: i64) -> String {
        let time = Timestamp::from_millis(second * 1000);
        line.replacen('{', &format!(r#"{{"occurred":"{time}","#), 1)
    }

    #[test]
    fn a_session_is_as_old_as_what_happened_in_it() {
        let own =
            |lines: &[&str]| -> Vec<String> { lines.iter().map(|l| (*l).to_owned()).collect() };
        // An ordinary session: from its creation to its last event, bookkeeping and all.
        assert_eq!(times(&own(&[CREATED, OPENED, SAID, CLOSED])), (1_000_000, 1_003_000));
        let mut read = own(&[CREATED, OPENED]);
        read.extend([happened(SAID, 30), happened(SAID, 20), happened(SAID, 25)]);
        read.push(r#"{"kind":"source.read","data":{"agent":"a","file":"f","end":1}}"#.to_owned());
        read.push(CLOSED.to_owned());
        assert_eq!(times(&read), (20_000, 30_000));
        // Going on in it is activity again; so is what is taken back.
        read.extend(own(&[OPENED, SAID, CLOSED]));
        assert_eq!(times(&read), (20_000, 1_008_000));
        read.push(r#"{"kind":"session.rewound","data":{"to":4}}"#.to_owned());
        assert_eq!(times(&read), (20_000, 1_010_000));
        // Nothing happens after it was recorded.
        assert_eq!(times(&[CREATED.to_owned(), happened(SAID, 5000)]), (1_001_000, 1_001_000));
    }

    #[test]
    fn step_by_step_it_is_the_same_after_a_rewind() {
        let mut lines = vec![CREATED.to_owned(), happened(SAID, 30), happened(SAID, 20)];
        lines.push(r#"{"kind":"session.rewound","data":{"to":2}}"#.to_owned());
        let events = events(&lines);
        let upto = |last: usize| {
            Overview::of(|| events.iter().take(last).cloned().map(Ok::<_, Infallible>)).unwrap()
        };
        let mut step = Overview::default();
        for event in &events[..3] {
            assert_eq!(step.apply(event), OverviewUpdate::Done);
        }
        assert_eq!(step.apply(&events[3]), OverviewUpdate::Rewound);
        assert_eq!(step.rewound(&upto(2)), upto(4));
    }
}
