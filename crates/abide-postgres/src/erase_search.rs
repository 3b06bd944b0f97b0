//! Finds what is to be erased: the events that are named or contain a text, and the checkpoints
//! whose files contain it. Changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use abide_journal::{JournalLine, LinePayload};
use abide_maintain::{
    CheckpointNumbers, EraseError, EraseLine, ErasePlan, EventPart, FileMatch, FileMatches,
    FileSearch, NamedBy, NamedSnapshots, TextMatches, erase_text_occurs, rewinds_to_erase,
};
use abide_model::{EventRange, Kind, Seq, SessionId, StoreError};

use crate::eraser::PostgresEraser;
use crate::erasure::family_of;
use crate::postgres_reader::{PostgresReader, parse_sound_line};
use crate::postgres_store::{PostgresStore, session_id};

/// Called with each line and its place.
type EachLineFn<'a, E> = dyn FnMut(Seq, &[u8]) -> Result<(), E> + 'a;

/// Lines read at a time.
const CHUNK: usize = 1024;

impl PostgresEraser<'_> {
    /// Where the events of a session are: for a fork, the shared ones first and its own last.
    pub fn parts_of(&self, session: SessionId) -> Result<Vec<EventPart>, StoreError> {
        let reader = self.store.reader(session)?;
        let sids: Vec<i64> = reader.known.stretches.iter().map(|part| part.sid).collect();
        let server = self.store.server().clone();
        let ids: BTreeMap<i64, SessionId> = self.store.server().block(async move {
            server
                .ask("find a session in", |client| {
                    let sids = sids.clone();
                    Box::pin(async move {
                        let sql = "SELECT sid, id FROM session WHERE sid = ANY($1)";
                        let rows = client.query(sql, &[&sids]).await?;
                        let each = rows
                            .iter()
                            .map(|row| Ok((row.try_get(0)?, session_id(row.try_get(1)?))));
                        each.collect()
                    })
                })
                .await
        })?;
        let mut parts: Vec<EventPart> = Vec::new();
        for part in &reader.known.stretches {
            let holder =
                if part.sid == reader.known.sid { Some(&session) } else { ids.get(&part.sid) };
            let Some(holder) = holder else { continue };
            parts.push(EventPart { session: *holder, first: part.first, last: part.last });
        }
        if parts.last().is_none_or(|part| part.session != session) {
            let first = reader.known.shared().next();
            parts.push(EventPart { session, first, last: Seq(u64::MAX) });
        }
        Ok(parts)
    }

    /// The session's own events whose payload, objects included, contains a text.
    pub fn find_payloads(&self, session: SessionId, text: &str) -> Result<TextMatches, StoreError> {
        let reader = self.store.reader(session)?;
        let mut range = EventRange { first: own_first(&reader), ..EventRange::ALL }.limit(CHUNK);
        let mut matches = TextMatches::default();
        loop {
            let asked = reader.clone();
            let page = self.store.server().block(async move { asked.read_page(range).await })?;
            for event in page.events {
                let names = [event.task.as_ref().map(|task| task.0.as_str()), event.key.as_deref()];
                let lane = event.lane.as_ref().map(|lane| lane.0.as_str());
                if names.into_iter().chain([lane]).flatten().any(|name| name.contains(text)) {
                    matches.heads.push(event.seq);
                }
                if event.data.as_ref().is_some_and(|data| erase_text_occurs(data.as_str(), text)) {
                    match is_structural(&reader, &event.kind) {
                        true => matches.structural.push(event.seq),
                        false => matches.payloads.push(event.seq),
                    }
                }
            }
            match page.next {
                Some(next) => range.first = next,
                None => return Ok(matches),
            }
        }
    }

    /// The checkpoints and rewinds among these events whose files contain a text, and the objects
    /// that contain it and that nothing in the store names.
    pub fn find_files(&self, parts: &[EventPart], text: &str) -> Result<FileMatches, StoreError> {
        let mut found = FileMatches::default();
        let objects = self.store.objects_of_store();
        let read = |hash| objects.read(hash);
        let mut search = FileSearch::new(text, &read);
        for part in parts {
            let reader = self.store.reader(part.session)?;
            let snapshots = self.named_snapshots(&reader)?;
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
        let stored = self.store.stored_objects()?;
        match self.store.collector().unnamed(HashSet::new(), &mut Vec::new()) {
            Ok(unnamed) => {
                for object in stored.iter().filter(|object| !unnamed.live.contains(&object.hash)) {
                    found.unnamed += u64::from(search.is_in(object.hash)?);
                }
            }
            Err(error) => {
                found
                    .notes
                    .push(format!("objects that nothing refers to were not searched: {error}"));
            }
        }
        if !search.unread.is_empty() {
            found.notes.push(format!(
                "{} objects of files are missing or damaged; whether they contain the text is unknown",
                search.unread.len()
            ));
        }
        Ok(found)
    }

    /// Plans the erasure of the payloads of these events, all of them the session's own.
    pub fn plan(&self, session: SessionId, seqs: &[Seq]) -> Result<ErasePlan, EraseError> {
        let reader = self.store.reader(session)?;
        let wanted: BTreeSet<Seq> = seqs.iter().copied().collect();
        let mut lines = Vec::new();
        let mut rewinds = BTreeSet::new();
        let mut snapshots = NamedSnapshots::new(self.numbers(&reader)?);
        self.each_own_line(&reader, &mut |seq, raw| {
            let line = match parse_sound_line(seq, raw) {
                Ok(line) => line,
                Err(_) if !wanted.contains(&seq) => return Ok(()),
                Err(reason) => {
                    let place = format!("event {seq} of session {session}");
                    return Err(EraseError::Damaged { place, reason });
                }
            };
            let named = snapshots.line(&line);
            let Some(head) = line.head().filter(|_| wanted.contains(&seq)) else { return Ok(()) };
            if head.kind == Kind::SESSION_REWOUND && !named.is_empty() {
                rewinds.insert(seq);
            } else {
                lines.push(EraseLine {
                    seq,
                    at: head.at,
                    kind: head.kind,
                    bytes: raw.len() as u64 + 1,
                    objects: line.objects().into_iter().map(|object| object.hash).collect(),
                    snapshot: named.first().copied(),
                    erased: matches!(line.body(), LinePayload::Erased { .. }),
                });
            }
            Ok(())
        })?;
        let found: BTreeSet<Seq> =
            lines.iter().map(|line| line.seq).chain(rewinds.iter().copied()).collect();
        if let Some(seq) = wanted.difference(&found).next() {
            return Err(EraseError::NoEvent { session, seq: *seq });
        }
        if let Some(line) = lines.iter().find(|line| is_structural(&reader, &line.kind)) {
            return Err(EraseError::Structural { seq: line.seq, kind: line.kind.clone() });
        }
        rewinds.extend(rewinds_to_erase(&lines, &snapshots));
        let family = family_of(self.store, reader.known.sid)?;
        let forks = family.into_iter().map(|(id, _)| id).filter(|id| *id != session).collect();
        Ok(ErasePlan { session, lines, rewinds: rewinds.into_iter().collect(), forks })
    }

    /// The snapshots that a session's own events name.
    pub(crate) fn named_snapshots(
        &self,
        reader: &PostgresReader,
    ) -> Result<NamedSnapshots, StoreError> {
        let mut snapshots = NamedSnapshots::new(self.numbers(reader)?);
        self.each_own_line(reader, &mut |seq, raw| {
            if let Ok(line) = parse_sound_line(seq, raw) {
                snapshots.line(&line);
            }
            Ok::<_, StoreError>(())
        })?;
        Ok(snapshots)
    }

    fn numbers(&self, reader: &PostgresReader) -> Result<CheckpointNumbers, StoreError> {
        let shared = reader.known.shared();
        if shared == Seq::ZERO {
            return Ok(CheckpointNumbers::after(Some(0)));
        }
        let reader = reader.clone();
        let state = self.store.server().block(async move { reader.state_at(shared).await })?;
        Ok(CheckpointNumbers::after(Some(state.core.checkpoints.last)))
    }

    /// Visits the lines of a session's own events, oldest first.
    pub(crate) fn each_own_line<E: From<StoreError>>(
        &self,
        reader: &PostgresReader,
        each: &mut EachLineFn<'_, E>,
    ) -> Result<(), E> {
        let mut range = EventRange { first: own_first(reader), ..EventRange::ALL }.limit(CHUNK);
        loop {
            let asked = reader.clone();
            let (lines, next) =
                self.store.server().block(async move { asked.lines(range).await })?;
            for (seq, raw) in &lines {
                each(*seq, raw)?;
            }
            match next {
                Some(next) => range.first = next,
                None => return Ok(()),
            }
        }
    }
}

fn own_first(reader: &PostgresReader) -> Seq {
    reader.known.shared().next()
}

/// Whether the session would be read differently without the data of an event of this kind.
fn is_structural(reader: &PostgresReader, kind: &Kind) -> bool {
    let fork = reader.known.shared() != Seq::ZERO;
    kind.is_structural() || *kind == Kind::SESSION_CREATED && fork
}

impl PostgresStore {
    /// Erases payloads and files.
    #[must_use]
    pub const fn eraser(&self) -> PostgresEraser<'_> {
        PostgresEraser { store: self }
    }
}

/// Whether a line is one of those that a session was noted as erased by.
pub(crate) fn noted_erasure(line: &JournalLine<'_>) -> Option<(Seq, bool)> {
    line.head().filter(|head| head.kind == Kind::PAYLOAD_ERASED)?;
    match line.event()?.fact() {
        Ok(abide_model::Fact::Erasure(erasure)) => Some((erasure.seq, erasure.files)),
        _ => None,
    }
}
