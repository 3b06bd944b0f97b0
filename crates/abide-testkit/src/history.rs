//! History the plain way: everything is read for every question. Slow, and easy to believe.

use std::collections::BTreeMap;
use std::convert::Infallible;

use abide_model::{
    Event, Fact, FileActivity, FileOp, History, HistoryEntry, HistoryQuery, Overview, SearchMatch,
    SessionId, TurnNumber, searchable_text,
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
        if let Some(search) = &query.search
            && let Some(text) = searchable_text(event)
            && search.matches(&text)
        {
            matches.push(SearchMatch {
                seq: event.seq,
                kind: event.kind.clone(),
                turn,
                agent: None,
                at: event.time(),
                live: overview.lineage.contains(event.seq),
                excerpt: search.excerpt(&text, 160),
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
        && (query.search.is_none() || !matches.is_empty());
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
