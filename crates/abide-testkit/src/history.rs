//! History the plain way: everything is read for every question. Slow, and easy to believe.

use std::collections::BTreeMap;
use std::convert::Infallible;

use abide_model::{
    Event, EventTraits, Fact, FileActivity, FileOp, History, HistoryEntry, HistoryQuery, Overview,
    SearchMatch, SessionId, Timestamp, TurnNumber, Usage, UsageEntry, UsageQuery, UsageReport,
    UsageSession, folded_words, searchable_text,
};

/// The answer of a store that keeps no index.
pub fn plain_history<'a>(
    query: &HistoryQuery,
    sessions: impl Iterator<Item = (SessionId, &'a [Event])>,
) -> History {
    let mut entries: Vec<HistoryEntry> =
        sessions.filter_map(|(id, events)| entry(query, id, events)).collect();
    entries.sort_by(|a, b| {
        let best = b.match_count.cmp(&a.match_count);
        best.then(b.overview.updated.cmp(&a.overview.updated)).then(b.id.cmp(&a.id))
    });
    let limit = query.limit.unwrap_or(usize::MAX);
    let more = entries.len().saturating_sub(limit) as u64;
    entries.truncate(limit);
    History { entries, more: Some(more), notes: Vec::new() }
}

fn entry(query: &HistoryQuery, id: SessionId, events: &[Event]) -> Option<HistoryEntry> {
    let overview =
        Overview::of(|| events.iter().cloned().map(Ok::<_, Infallible>)).unwrap_or_default();
    let mut agents: BTreeMap<TurnNumber, String> = BTreeMap::new();
    let mut all_agents: Vec<String> = Vec::new();
    let mut files: BTreeMap<(String, FileOp), FileActivity> = BTreeMap::new();
    let mut matches: Vec<SearchMatch> = Vec::new();
    let mut step = Overview::default();
    for event in events {
        let turn = step.open.turn_of(event);
        match event.fact() {
            Ok(Fact::SessionCreated(fact)) => all_agents.extend(fact.fields.agent),
            Ok(Fact::SessionUpdated(fact)) => all_agents.extend(fact.agent),
            Ok(Fact::TurnStarted(fact)) => {
                all_agents.push(fact.agent.clone());
                agents.insert(step.open.number_of(fact.turn), fact.agent);
            }
            Ok(Fact::FileTouched(fact)) => {
                for path in std::iter::once(fact.path).chain(fact.to) {
                    let count =
                        files.get(&(path.clone(), fact.op)).map_or(1, |touched| touched.count + 1);
                    let touched = FileActivity {
                        path: path.clone(),
                        op: fact.op,
                        count,
                        seq: event.seq,
                        turn,
                        agent: None,
                        at: event.time(),
                    };
                    files.insert((path, fact.op), touched);
                }
            }
            _ => {}
        }
        let traits = EventTraits::of(event, &step.commands);
        let text = searchable_text(event).unwrap_or_default();
        if query.is_search()
            && query.fits_time(event.time())
            && query.fits_traits(&traits.words())
            && query.search.as_ref().is_none_or(|search| search.matches(&text))
            && (traits.is_failure() || !folded_words(&text, usize::MAX).is_empty())
        {
            matches.push(SearchMatch {
                seq: event.seq,
                kind: event.kind.clone(),
                turn,
                agent: None,
                at: event.time(),
                live: overview.lineage.contains(event.seq),
                excerpt: query.shown().excerpt(&text, 160),
            });
        }
        if step.apply(event) == abide_model::OverviewUpdate::Rewound {
            let so_far = events.iter().take_while(|before| before.seq <= event.seq);
            step = Overview::of(|| so_far.clone().cloned().map(Ok::<_, Infallible>))
                .unwrap_or_default();
        }
    }
    let agent = |wanted: &String| all_agents.iter().any(|agent| agent.eq_ignore_ascii_case(wanted));
    let mut touched: Vec<FileActivity> = match &query.file {
        None => Vec::new(),
        Some(wanted) => {
            let fits = files.values().filter(|file| HistoryQuery::fits_file(wanted, &file.path));
            fits.cloned().collect()
        }
    };
    for file in &mut touched {
        file.agent = file.turn.and_then(|turn| agents.get(&turn).cloned());
    }
    for place in &mut matches {
        place.agent = place.turn.and_then(|turn| agents.get(&turn).cloned());
    }
    touched.sort_by_key(|file| std::cmp::Reverse(file.seq));
    let fits = query.fits(&overview)
        && query.agent.as_ref().is_none_or(agent)
        && (query.file.is_none() || !touched.is_empty())
        && (!query.is_search() || !matches.is_empty());
    let changed: std::collections::BTreeSet<&String> =
        files.keys().filter(|(_, op)| *op != FileOp::Read).map(|(path, _)| path).collect();
    fits.then(|| HistoryEntry {
        id,
        short: id.short(SessionId::SHORT),
        files: changed.len() as u64,
        match_count: matches.len() as u64,
        matches,
        touched,
        overview,
    })
}

/// The usage of one id, by the sessions that have it: when and by which model.
type UsageCopies = BTreeMap<SessionId, Vec<(i64, String, Usage)>>;

/// The tokens that were spent, counted anew from all events. The last of the three says whether a
/// session is asked for.
pub fn plain_usage<'a>(
    query: &UsageQuery,
    sessions: impl Iterator<Item = (SessionId, &'a [Event], bool)>,
) -> UsageReport {
    const SPAN: i64 = 15 * 60 * 1000;
    let quarter = |time: Timestamp| time.as_millis().div_euclid(SPAN);
    let mut asked: BTreeMap<SessionId, UsageSession> = BTreeMap::new();
    let mut plain: Vec<(SessionId, i64, String, Usage)> = Vec::new();
    // By id and session, what counts once.
    let mut once: BTreeMap<String, UsageCopies> = BTreeMap::new();
    for (id, events, is_asked) in sessions {
        let overview =
            Overview::of(|| events.iter().cloned().map(Ok::<_, Infallible>)).unwrap_or_default();
        if is_asked {
            let name = overview.name();
            asked.insert(id, UsageSession { name, fields: overview.fields });
        }
        for event in events {
            let at = quarter(event.time());
            match event.fact() {
                Ok(Fact::TurnFinished(end)) => {
                    plain.extend(end.usage.map(|usage| (id, at, String::new(), usage)));
                }
                Ok(Fact::ApiResult(result)) => {
                    let model = result.model.unwrap_or_default();
                    plain.extend(result.usage.map(|usage| (id, at, model, usage)));
                }
                Ok(Fact::Usage(record)) => {
                    let model = record.model.unwrap_or_default();
                    match record.id {
                        None => plain.push((id, at, model, record.usage)),
                        Some(of) => once.entry(of).or_default().entry(id).or_default().push((
                            at,
                            model,
                            record.usage,
                        )),
                    }
                }
                _ => {}
            }
        }
    }
    for copies in once.into_values() {
        let size = |used: &[(i64, String, Usage)]| -> u64 {
            let each = |usage: &Usage| {
                usage.input_tokens
                    + usage.output_tokens
                    + usage.cache_read_tokens
                    + usage.cache_write_tokens
                    + usage.reasoning_tokens
            };
            used.iter().map(|(_, _, usage)| each(usage)).sum()
        };
        let best = copies.iter().max_by_key(|(id, used)| (size(used), std::cmp::Reverse(**id)));
        if let Some((id, used)) = best {
            plain.extend(used.iter().cloned().map(|(at, model, usage)| (*id, at, model, usage)));
        }
    }
    let mut sums: BTreeMap<(SessionId, i64, String), Usage> = BTreeMap::new();
    for (id, at, model, usage) in plain {
        let fits = query.since.is_none_or(|since| at >= quarter(since))
            && query.until.is_none_or(|until| at <= quarter(until))
            && usage != Usage { cost_micros: usage.cost_micros, ..Usage::default() };
        if let (true, Some(session)) = (fits, asked.get(&id)) {
            let own = || session.fields.model.clone().unwrap_or_default();
            let model = if model.is_empty() { own() } else { model };
            let usage = Usage { cost_micros: 0, ..usage };
            sums.entry((id, at, model)).or_default().add(&usage);
        }
    }
    let entries = sums.into_iter().map(|((session, at, model), usage)| UsageEntry {
        session,
        at: Timestamp::from_millis(at * SPAN),
        model,
        usage,
    });
    let entries: Vec<UsageEntry> = entries.collect();
    asked.retain(|id, _| entries.iter().any(|entry| entry.session == *id));
    UsageReport { sessions: asked, entries, notes: Vec::new() }
}
