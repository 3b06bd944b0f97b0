//! The usage of a store, counted anew from the events of every session: what its index is compared with.

use std::collections::BTreeMap;

use abide_model::{
    EventRange, HistoryQuery, ParentReason, Seq, SessionUsage, UsageKey, UsageQuery, UsageReport,
    UsageSession, counted_usage,
};

use crate::{Error, Store};

impl Store {
    /// The same as [`Store::usage`], counted from the events. Reads all of them.
    pub fn recount_usage(&self, query: &UsageQuery) -> Result<UsageReport, Error> {
        let all = HistoryQuery { all_projects: true, ..HistoryQuery::default() };
        let wanted = if query.all_projects { &[] } else { self.projects() };
        let mut sessions = BTreeMap::new();
        let mut counted = Vec::new();
        for entry in self.history(&all)?.entries {
            let name = entry.overview.name();
            let fields = entry.overview.fields;
            let parent = fields.parent.as_ref();
            // What a fork shares with its parent is counted there.
            let first = match parent.filter(|parent| parent.reason == ParentReason::Fork) {
                Some(parent) => parent.seq.next(),
                None => Seq::FIRST,
            };
            let reader = self.inner().read(entry.id)?;
            let mut range = EventRange::from(first);
            let mut sums: BTreeMap<UsageKey, abide_model::Usage> = BTreeMap::new();
            loop {
                let page = reader.page(range)?;
                for event in &page.events {
                    let fact = event.fact();
                    let used = fact.as_ref().ok().and_then(|fact| counted_usage(event, fact));
                    if let Some((key, usage)) = used {
                        sums.entry(key).or_default().add(usage);
                    }
                }
                let Some(next) = page.next else { break };
                range.first = next;
            }
            let used = |(key, usage)| SessionUsage { session: entry.id, key, usage };
            counted.extend(sums.into_iter().map(used));
            let project = fields.project_id.as_ref();
            if wanted.is_empty() || project.is_some_and(|project| wanted.contains(project)) {
                sessions.insert(entry.id, UsageSession { name, fields });
            }
        }
        counted.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(UsageReport::of(query, sessions, counted))
    }
}
