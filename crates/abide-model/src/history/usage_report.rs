//! Usage over all sessions: which tokens were spent when, in which session, by which model.
//!
//! Usage that names what it was for, by the provider's id, counts once, in however many sessions it
//! stands: forks, resumed files and copies repeat it.

use std::collections::BTreeMap;

use crate::{Event, Fact, SessionFields, SessionId, Timestamp, Usage};

/// Usage is kept by the quarter of an hour: the day of any time zone begins with one.
pub const USAGE_SPAN_MILLIS: i64 = 15 * 60 * 1000;

/// The most characters of an id and of a model's name.
const NAME: usize = 256;

/// Which usage to report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageQuery {
    /// At or after this time, to a quarter of an hour.
    pub since: Option<Timestamp>,
    /// At or before this time, to a quarter of an hour.
    pub until: Option<Timestamp>,
    /// Of any project; otherwise of the project that the store was opened for, if any.
    pub all_projects: bool,
}

/// The usage of a session's events, as an index keeps it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UsageKey {
    /// What it was for, by the provider's id; empty if that is not known.
    pub id: String,
    /// The quarter of an hour, counted from 1970.
    pub span: i64,
    /// The model; empty if the event does not name it.
    pub model: String,
}

/// The usage of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUsage {
    /// The session.
    pub session: SessionId,
    /// Its usage by id, time and model.
    pub key: UsageKey,
    /// The tokens.
    pub usage: Usage,
}

/// The answer to a usage query.
#[derive(Debug, Clone, Default)]
pub struct UsageReport {
    /// The sessions with usage.
    pub sessions: BTreeMap<SessionId, UsageSession>,
    /// Their usage. What counts once stands in one session.
    pub entries: Vec<UsageEntry>,
    /// Notes about the answer.
    pub notes: Vec<String>,
}

/// A session that is reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageSession {
    /// What it is shown under.
    pub name: Option<String>,
    /// Its fields.
    pub fields: SessionFields,
}

/// Usage of a session within a quarter of an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageEntry {
    /// The session.
    pub session: SessionId,
    /// The beginning of the quarter of an hour.
    pub at: Timestamp,
    /// The model; empty if neither the events nor their session name one.
    pub model: String,
    /// The tokens.
    pub usage: Usage,
}

impl UsageQuery {
    fn fits(&self, span: i64) -> bool {
        let span_of = |time: Timestamp| time.as_millis().div_euclid(USAGE_SPAN_MILLIS);
        self.since.is_none_or(|since| span >= span_of(since))
            && self.until.is_none_or(|until| span <= span_of(until))
    }
}

impl UsageReport {
    /// The report of usage that comes in the order of its ids, each id with all its sessions.
    /// `sessions` has those of the wanted projects.
    #[must_use]
    pub fn of(
        query: &UsageQuery,
        sessions: BTreeMap<SessionId, UsageSession>,
        usage: impl IntoIterator<Item = SessionUsage>,
    ) -> Self {
        let mut sums: BTreeMap<(SessionId, i64, String), Usage> = BTreeMap::new();
        let mut count = |one: SessionUsage| {
            if let Some(session) = sessions.get(&one.session).filter(|_| query.fits(one.key.span)) {
                let usage = Usage { cost_micros: 0, ..one.usage };
                let known = Some(one.key.model).filter(|model| !model.is_empty());
                let model = known.or_else(|| session.fields.model.clone()).unwrap_or_default();
                sums.entry((one.session, one.key.span, model)).or_default().add(&usage);
            }
        };
        let mut same: Vec<SessionUsage> = Vec::new();
        for one in usage {
            if one.key.id.is_empty() {
                count(one);
                continue;
            }
            if same.first().is_some_and(|first| first.key.id != one.key.id) {
                counted_once(&mut same).into_iter().for_each(&mut count);
            }
            same.push(one);
        }
        counted_once(&mut same).into_iter().for_each(&mut count);
        let entry = |((session, span, model), usage)| UsageEntry {
            session,
            at: Timestamp::from_millis(span * USAGE_SPAN_MILLIS),
            model,
            usage,
        };
        let entries: Vec<UsageEntry> = sums.into_iter().map(entry).collect();
        let mut report = Self { sessions, entries, notes: Vec::new() };
        let used: std::collections::BTreeSet<SessionId> =
            report.entries.iter().map(|entry| entry.session).collect();
        report.sessions.retain(|session, _| used.contains(session));
        report
    }
}

/// Drains the usage of one id, and leaves what counts: that of the session with the most tokens, of
/// several with as many the oldest.
fn counted_once(same: &mut Vec<SessionUsage>) -> Vec<SessionUsage> {
    let mut all = std::mem::take(same);
    if all.len() > 1 {
        let mut totals: BTreeMap<SessionId, u64> = BTreeMap::new();
        for one in &all {
            let total = totals.entry(one.session).or_default();
            *total = total.saturating_add(one.usage.counts());
        }
        let most = totals.values().max().copied().unwrap_or(0);
        let best = totals.into_iter().find(|(_, total)| *total == most).map(|(session, _)| session);
        all.retain(|one| Some(one.session) == best);
    }
    all
}

/// The usage that an event reports, and what it counts under; `None` if it reports none.
#[must_use]
pub fn counted_usage<'a>(event: &Event, fact: &'a Fact) -> Option<(UsageKey, &'a Usage)> {
    let (id, model, usage) = match fact {
        Fact::TurnFinished(end) => (None, None, end.usage.as_ref()?),
        Fact::ApiResult(result) => (None, result.model.as_ref(), result.usage.as_ref()?),
        Fact::Usage(record) => (record.id.as_ref(), record.model.as_ref(), &record.usage),
        _ => return None,
    };
    if usage.counts() == 0 {
        return None;
    }
    let name = |name: Option<&String>| -> String {
        name.map(|name| name.chars().take(NAME).collect()).unwrap_or_default()
    };
    let span = event.time().as_millis().div_euclid(USAGE_SPAN_MILLIS);
    let key = UsageKey { id: name(id), span, model: name(model) };
    Some((key, usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u8) -> SessionId {
        format!("019a8620-4bfb-7000-8000-0000000000{number:02}").parse().unwrap()
    }

    fn used(number: u8, id: &str, span: i64, output: u64) -> SessionUsage {
        let key = UsageKey { id: id.to_owned(), span, model: String::new() };
        let usage = Usage { output_tokens: output, ..Usage::default() };
        SessionUsage { session: session(number), key, usage }
    }

    fn told(query: &UsageQuery, usage: Vec<SessionUsage>) -> Vec<(SessionId, i64, u64)> {
        let known = |number| (session(number), UsageSession::default());
        let report = UsageReport::of(query, [known(1), known(2)].into(), usage);
        let entry = |entry: &UsageEntry| {
            (entry.session, entry.at.as_millis() / USAGE_SPAN_MILLIS, entry.usage.output_tokens)
        };
        report.entries.iter().map(entry).collect()
    }

    #[test]
    fn what_stands_in_several_sessions_counts_once() {
        let all = UsageQuery::default();
        let usage = vec![
            used(1, "", 7, 1),
            used(2, "", 7, 1),
            // Increments add up within a session; the fuller copy counts.
            used(1, "a", 7, 10),
            used(1, "a", 8, 10),
            used(2, "a", 9, 15),
            // As many: the older session.
            used(1, "b", 7, 5),
            used(2, "b", 7, 5),
            used(2, "c", 7, 3),
        ];
        let (one, two) = (session(1), session(2));
        assert_eq!(told(&all, usage.clone()), [(one, 7, 16), (one, 8, 10), (two, 7, 4)]);
        let since = Some(Timestamp::from_millis(8 * USAGE_SPAN_MILLIS + 17));
        assert_eq!(told(&UsageQuery { since, ..all }, usage), [(one, 8, 10)]);
    }

    #[test]
    fn another_project_keeps_what_counts_there() {
        let known = [(session(2), UsageSession::default())].into();
        let usage = vec![used(1, "a", 7, 10), used(2, "a", 7, 5), used(2, "b", 7, 1)];
        let report = UsageReport::of(&UsageQuery::default(), known, usage);
        assert_eq!(report.entries.len(), 1);
        assert_eq!(report.entries[0].usage.output_tokens, 1);
    }
}
