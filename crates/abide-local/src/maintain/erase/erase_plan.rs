//! Plans an erasure: the events that are named or contain a text, and the checkpoints whose files
//! contain it. Changes nothing.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use abide_journal::{JournalItem, JournalWalkStart, LinePayload};
use abide_maintain::{
    EraseError, EraseLine, ErasePlan, EventPart, FileMatch, FileMatches, FileSearch, NamedBy,
    TextMatches, erase_text_occurs, rewinds_to_erase,
};
use abide_model::{Kind, Seq, SessionId, StoreError};

use crate::error::store_error;
use crate::maintain::collector::AssumedRemovals;
use crate::maintain::doctor::Quarantine;
use crate::maintain::erase::Eraser;
use crate::store_layout::layout_path_text;

impl Eraser<'_> {
    /// Where the events of a session are: for a fork, the shared ones first and its own last.
    pub fn parts_of(&self, session: SessionId) -> Result<Vec<EventPart>, StoreError> {
        let reader = self.store.reader(session)?;
        let past = reader.past().map_err(store_error)?;
        let mut parts: Vec<EventPart> = past
            .stretches()
            .iter()
            .map(|shared| EventPart {
                session: shared.reader.session(),
                first: shared.first,
                last: shared.last,
            })
            .collect();
        parts.push(EventPart { session, first: past.own_first(), last: Seq(u64::MAX) });
        Ok(parts)
    }

    /// The session's own events whose payload, objects included, contains a text.
    pub fn find_payloads(&self, session: SessionId, text: &str) -> Result<TextMatches, StoreError> {
        let reader = self.store.reader(session)?;
        let mark = reader.mark().map_err(store_error)?;
        let mut matches = TextMatches::default();
        let mut found_in = Vec::new();
        let walked = reader.journal().walk(JournalWalkStart::beginning(), mark, &mut |found| {
            if let JournalItem::Event { line, .. } = found
                && let (Some(event), _) = reader.event(&line)
            {
                let names = [event.task.as_ref().map(|task| task.0.as_str()), event.key.as_deref()];
                let lane = event.lane.as_ref().map(|lane| lane.0.as_str());
                if names.into_iter().chain([lane]).flatten().any(|name| name.contains(text)) {
                    matches.heads.push(event.seq);
                }
                if event.data.is_some_and(|data| erase_text_occurs(data.as_str(), text)) {
                    found_in.push((event.seq, event.kind));
                }
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_error)?;
        for (seq, kind) in found_in {
            match self.is_structural(session, &kind)? {
                true => matches.structural.push(seq),
                false => matches.payloads.push(seq),
            }
        }
        Ok(matches)
    }

    /// The checkpoints and rewinds among these events whose files contain a text, and the objects
    /// that contain it and that nothing in the store names.
    pub fn find_files(&self, parts: &[EventPart], text: &str) -> Result<FileMatches, StoreError> {
        let mut found = FileMatches::default();
        let read = |hash| self.store.packs().read(hash).map_err(store_error);
        let mut search = FileSearch::new(text, &read);
        for part in parts {
            let snapshots =
                self.store.reader(part.session)?.named_snapshots().map_err(store_error)?;
            for named in snapshots.staying().filter(|named| part.contains(named.seq)) {
                let mut paths = Vec::new();
                for snapshot in &named.snapshots {
                    paths.extend(search.paths(*snapshot)?);
                }
                if !paths.is_empty() {
                    paths.sort_unstable();
                    paths.dedup();
                    let checkpoint = match named.by {
                        NamedBy::Checkpoint(number) => number,
                        NamedBy::Rewind => None,
                    };
                    let (session, seq) = (part.session, named.seq);
                    found.held.push(FileMatch { session, seq, checkpoint, paths });
                }
            }
        }
        match self.store.collector().live_objects(&AssumedRemovals::default(), &mut Vec::new()) {
            Ok(live) => {
                let all = self.store.packs().objects().map_err(store_error)?;
                for object in all.difference(&live) {
                    found.unnamed += u64::from(search.is_in(*object)?);
                }
            }
            Err(error) => {
                found
                    .notes
                    .push(format!("objects that nothing refers to were not searched: {error}"));
            }
        }
        let sessions: Vec<SessionId> = parts.iter().map(|part| part.session).collect();
        let kept = Quarantine::new(self.store).count_kept(&sessions)?;
        if kept > 0 {
            found.notes.push(format!(
                "copies of {kept} repairs in {} were not searched; delete those that are not needed",
                layout_path_text(&self.store.layout().quarantine())
            ));
        }
        if !search.unread.is_empty() {
            found.notes.push(format!(
                "{} objects of files are missing or damaged; whether they contain the text is unknown",
                search.unread.len()
            ));
        }
        Ok(found)
    }

    /// Plans the erasure of the payloads of these events, all of them the session's own. Changes
    /// nothing.
    pub fn plan(&self, session: SessionId, seqs: &[Seq]) -> Result<ErasePlan, EraseError> {
        let reader = self.store.reader(session)?;
        let mark = reader.mark().map_err(store_error)?;
        let wanted: BTreeSet<Seq> = seqs.iter().copied().collect();
        let mut lines = Vec::new();
        let mut rewinds = BTreeSet::new();
        let mut snapshots = reader.no_snapshots().map_err(store_error)?;
        let walked = reader.journal().walk(JournalWalkStart::beginning(), mark, &mut |found| {
            let JournalItem::Event { line, offset, end, .. } = found else {
                return ControlFlow::Continue(());
            };
            let named = snapshots.line(&line);
            let Some(head) = line.head().filter(|_| wanted.contains(&line.seq)) else {
                return ControlFlow::Continue(());
            };
            if head.kind == Kind::SESSION_REWOUND && !named.is_empty() {
                rewinds.insert(line.seq);
            } else {
                lines.push(EraseLine {
                    seq: line.seq,
                    at: head.at,
                    kind: head.kind,
                    bytes: end - offset,
                    objects: line.objects().into_iter().map(|object| object.hash).collect(),
                    snapshot: named.first().copied(),
                    erased: matches!(line.body(), LinePayload::Erased { .. }),
                });
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_error)?;
        let found: BTreeSet<Seq> =
            lines.iter().map(|line| line.seq).chain(rewinds.iter().copied()).collect();
        if let Some(seq) = wanted.difference(&found).next() {
            return Err(EraseError::NoEvent { session, seq: *seq });
        }
        let forks = self.store.forker().descendants_of(session)?;
        for line in &lines {
            if self.is_structural(session, &line.kind)? {
                let kind = line.kind.clone();
                return Err(EraseError::Structural { seq: line.seq, kind });
            }
        }
        rewinds.extend(rewinds_to_erase(&lines, &snapshots));
        Ok(ErasePlan { session, lines, rewinds: rewinds.into_iter().collect(), forks })
    }

    /// Whether the session would be read differently without the data of an event of this kind.
    fn is_structural(&self, session: SessionId, kind: &Kind) -> Result<bool, StoreError> {
        let made = *kind == Kind::SESSION_CREATED;
        Ok(kind.is_structural() || made && self.store.forker().parent_of(session)?.is_some())
    }
}
