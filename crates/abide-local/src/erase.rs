//! Erasing payloads: a secret leaves the journal, the objects, the index, the state and the
//! transcript. The chain stays valid: the line keeps its head and its sums.
//!
//! What is to be erased is written down first (`erasing`), so that an erasure that was cut short is
//! finished by the next one; one that cannot be finished stays written down and stops no other. What
//! is damaged is found before anything is written. Everything derived is dropped before the journal is touched. Then each
//! segment is written anew beside the old one and put in its place, whole or not at all.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use abide_journal::{
    Access, Body, Found, Journal, Line, Lock, LockMode, Segment, SegmentForm, SegmentName, Start,
    Storage, read_full, write_full,
};
use abide_model::{Erasure, Kind, ObjectHash, Seq, SessionId, StoreError, Timestamp};
use serde::{Deserialize, Serialize};

use crate::collection::{CollectError, Without};
use crate::error::{storage_error, store_error};
use crate::layout::{SessionLayout, shown};
use crate::past::Gone;
use crate::stage::clear;
use crate::store::LocalStore;

/// Why nothing was erased, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// There is no such event.
    #[error("session {session} has no event {seq}")]
    NoEvent {
        /// The session.
        session: SessionId,
        /// The event.
        seq: Seq,
    },
    /// The session would not be what it was without this event.
    #[error(
        "event {seq} is a {kind}, which says how the session is to be read and cannot be erased"
    )]
    Structural {
        /// The event.
        seq: Seq,
        /// Its kind.
        kind: Kind,
    },
    /// A journal that is damaged is not written anew.
    #[error("{place} is damaged ({reason}); a damaged journal is not rewritten")]
    Damaged {
        /// Where.
        place: String,
        /// In what way.
        reason: String,
    },
    /// The payloads are gone and their objects are not.
    #[error("the payloads are erased from the journal, but their objects are still there")]
    Objects(#[source] CollectError),
    /// Nothing was done.
    #[error("nothing was erased")]
    NotBegun(#[source] CollectError),
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An event whose payload is to be erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EraseLine {
    /// Which.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// Its kind.
    pub kind: Kind,
    /// The bytes of its line.
    pub bytes: u64,
    /// The objects that it names.
    pub objects: Vec<ObjectHash>,
    /// Its payload is gone already.
    pub erased: bool,
}

/// The payloads of a session that are to be erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErasePlan {
    /// The session.
    pub session: SessionId,
    /// The events.
    pub lines: Vec<EraseLine>,
    /// Sessions that share these events, and whose state and transcript are made anew too.
    pub forks: Vec<SessionId>,
}

/// What was erased.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Erased {
    /// Payloads.
    pub payloads: u64,
    /// Objects that are gone.
    pub objects: u64,
    /// Objects that stay, since something else names them.
    pub shared: Vec<ObjectHash>,
    /// What to know: earlier erasures that cannot be finished, and names of nothing.
    pub notes: Vec<String>,
}

/// Where a text stands in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matches {
    /// Events whose payload has it.
    pub payloads: Vec<Seq>,
    /// Events that have it in their task, lane or key, which cannot be erased.
    pub heads: Vec<Seq>,
}

/// What is being erased, as it stands in `erasing`: one line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Unfinished {
    session: SessionId,
    events: Vec<Seq>,
    objects: Vec<ObjectHash>,
    reason: Option<String>,
}

impl Unfinished {
    fn note(&self, error: &EraseError) -> String {
        let mut note = format!("an erasure in session {} is not finished: {error}", self.session);
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            note.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        note
    }
}

/// What became of erasures that were cut short.
#[derive(Debug, Default)]
struct Finished {
    /// How many are finished.
    count: u64,
    /// All of them together, with notes on the others.
    erased: Erased,
}

/// The lines of a segment that are to be erased: where each starts and ends, and what takes its
/// place.
type Replacements = BTreeMap<u64, Vec<(u64, u64, Vec<u8>)>>;

impl LocalStore {
    /// The events of a session in whose payload, its objects included, a text stands.
    pub fn find_payloads(&self, session: SessionId, text: &str) -> Result<Matches, StoreError> {
        let reader = self.reader(session)?;
        let mark = reader.mark().map_err(store_error)?;
        let mut matches = Matches::default();
        let walked = reader.journal().walk(Start::beginning(), mark, &mut |found| {
            if let Found::Event { line, .. } = found
                && let (Some(event), _) = reader.event(&line)
            {
                let names = [event.task.as_ref().map(|task| task.0.as_str()), event.key.as_deref()];
                let lane = event.lane.as_ref().map(|lane| lane.0.as_str());
                if names.into_iter().chain([lane]).flatten().any(|name| name.contains(text)) {
                    matches.heads.push(event.seq);
                }
                if event.data.is_some_and(|data| has_text(data.as_str(), text)) {
                    matches.payloads.push(event.seq);
                }
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_error)?;
        Ok(matches)
    }

    /// Plans the erasure of these events' payloads. Nothing is changed.
    pub fn plan_erase(&self, session: SessionId, seqs: &[Seq]) -> Result<ErasePlan, EraseError> {
        let journal = self.reader(session)?;
        let mark = journal.mark().map_err(store_error)?;
        let wanted: BTreeSet<Seq> = seqs.iter().copied().collect();
        let mut lines = Vec::new();
        let walked = journal.journal().walk(Start::beginning(), mark, &mut |found| {
            if let Found::Event { line, offset, end, .. } = found
                && wanted.contains(&line.seq)
                && let Some(head) = line.head()
            {
                lines.push(EraseLine {
                    seq: line.seq,
                    at: head.at,
                    kind: head.kind,
                    bytes: end - offset,
                    objects: line.objects().into_iter().map(|object| object.hash).collect(),
                    erased: matches!(line.body(), Body::Erased { .. }),
                });
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_error)?;
        let found: BTreeSet<Seq> = lines.iter().map(|line| line.seq).collect();
        if let Some(seq) = wanted.difference(&found).next() {
            return Err(EraseError::NoEvent { session, seq: *seq });
        }
        let forks = self.heirs_of(session)?;
        for line in &lines {
            let parent = line.kind == Kind::SESSION_CREATED && self.has_parent(session)?;
            if parent || STRUCTURAL.contains(&line.kind) {
                let kind = line.kind.clone();
                return Err(EraseError::Structural { seq: line.seq, kind });
            }
        }
        Ok(ErasePlan { session, lines, forks })
    }

    /// Erases. Waits so long for writers to let go. An erasure that was cut short is finished first.
    pub fn apply_erase(
        &self,
        plan: &ErasePlan,
        reason: Option<&str>,
        wait: Duration,
    ) -> Result<Erased, EraseError> {
        let _lock = self.hold_cleanup()?;
        let earlier = self.finish(wait)?;
        let unfinished = Unfinished {
            session: plan.session,
            events: plan.lines.iter().map(|line| line.seq).collect(),
            objects: plan.lines.iter().flat_map(|line| line.objects.iter().copied()).collect(),
            reason: reason.map(str::to_owned),
        };
        let mut erased = self.erase(plan, &unfinished, wait)?;
        erased.notes.extend(earlier.erased.notes);
        Ok(erased)
    }

    /// Finishes erasures that were cut short; none where none could be finished. Those that cannot
    /// be stay written down.
    pub fn finish_erase(&self, wait: Duration) -> Result<Option<Erased>, EraseError> {
        if self.read_unfinished()?.is_empty() {
            return Ok(None);
        }
        let _lock = self.hold_cleanup()?;
        let finished = self.finish(wait)?;
        Ok((finished.count > 0).then_some(finished.erased))
    }

    fn finish(&self, wait: Duration) -> Result<Finished, StoreError> {
        let mut finished = Finished::default();
        for unfinished in self.read_unfinished()? {
            let erased = match self.plan_erase(unfinished.session, &unfinished.events) {
                Ok(plan) => self.erase(&plan, &unfinished, wait),
                // Removed meanwhile, and its objects go with the next collection.
                Err(EraseError::Store(StoreError::NoSession { .. })) => {
                    self.forget_unfinished(&unfinished)?;
                    Ok(Erased::default())
                }
                Err(error) => Err(error),
            };
            let done = &mut finished.erased;
            match erased {
                Ok(erased) => {
                    finished.count += 1;
                    done.payloads += erased.payloads;
                    done.objects += erased.objects;
                    done.shared.extend(erased.shared);
                    done.notes.extend(erased.notes);
                }
                Err(error) => done.notes.push(unfinished.note(&error)),
            }
        }
        Ok(finished)
    }

    fn erase(
        &self,
        plan: &ErasePlan,
        unfinished: &Unfinished,
        wait: Duration,
    ) -> Result<Erased, EraseError> {
        let objects: HashSet<ObjectHash> = unfinished.objects.iter().copied().collect();
        let collection = (!objects.is_empty())
            .then(|| self.wait_for_objects(wait).map_err(EraseError::NotBegun))
            .transpose()?;
        let layout = self.layout_of(plan.session)?;
        let lock = self.lock_session(plan.session, &layout, wait)?;
        let mut locks = Vec::new();
        let mut derived = vec![(plan.session, layout.clone())];
        // One may have been made since the plan; from here on none is.
        for fork in self.heirs_of(plan.session)? {
            let layout = self.layout_of(fork)?;
            locks.push(self.lock_session(fork, &layout, wait)?);
            derived.push((fork, layout));
        }
        let replacements = self.find_lines(plan, &layout)?;
        self.add_unfinished(unfinished)?;
        let index = self.drop_index()?;
        for (_, layout) in &derived {
            self.drop_derived(layout, wait)?;
        }
        for (session, _) in &derived {
            self.clear_quarantine(*session)?;
        }
        let erased = self.rewrite(&replacements, &layout)?;
        drop((index, locks));
        self.note_erased(plan, unfinished.reason.as_deref(), &layout, lock)?;
        let mut done = Erased { payloads: erased, ..Erased::default() };
        if let Some(_lock) = collection {
            self.erase_objects(&objects, &mut done).map_err(EraseError::Objects)?;
        }
        self.forget_unfinished(unfinished)?;
        for (session, _) in &derived {
            // Both are a help: whoever needs them makes them.
            let _ = self.update_transcript(*session);
        }
        let _ = self.seal(plan.session, Duration::ZERO);
        Ok(done)
    }

    /// Is an erasure under way, or was one cut short?
    pub(crate) fn is_erasing(&self) -> bool {
        self.storage().open(&self.layout().erasing(), Access::Read).is_ok()
    }

    fn read_unfinished(&self) -> Result<Vec<Unfinished>, StoreError> {
        let path = self.layout().erasing();
        let file = match self.storage().open(&path, Access::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file.map_err(storage_error("open", &path))?,
        };
        let len = file.len().map_err(storage_error("read", &path))?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let read = read_full(&*file, &mut bytes, 0).map_err(storage_error("read", &path))?;
        bytes.truncate(read);
        let entries = serde_json::Deserializer::from_slice(&bytes).into_iter();
        entries
            .collect::<Result<_, _>>()
            .map_err(|error| StoreError::Damaged { place: shown(&path), reason: error.to_string() })
    }

    fn add_unfinished(&self, unfinished: &Unfinished) -> Result<(), StoreError> {
        let mut all = self.read_unfinished()?;
        if !all.contains(unfinished) {
            all.push(unfinished.clone());
        }
        self.write_unfinished(&all)
    }

    fn forget_unfinished(&self, unfinished: &Unfinished) -> Result<(), StoreError> {
        let mut left = self.read_unfinished()?;
        left.retain(|one| one != unfinished);
        if !left.is_empty() {
            return self.write_unfinished(&left);
        }
        let path = self.layout().erasing();
        self.storage().remove(&path).map_err(storage_error("remove", &path))
    }

    fn write_unfinished(&self, all: &[Unfinished]) -> Result<(), StoreError> {
        let storage = &**self.storage();
        let path = self.layout().erasing();
        let temporary = path.with_extension("tmp");
        let file = storage
            .open(&temporary, Access::Create)
            .map_err(storage_error("create", &temporary))?;
        let mut bytes = Vec::new();
        for one in all {
            bytes.extend(serde_json::to_vec(one).unwrap_or_default());
            bytes.push(b'\n');
        }
        let written = file.truncate(0).and_then(|()| write_full(&*file, &bytes, 0));
        written.and_then(|()| file.sync()).map_err(storage_error("write", &temporary))?;
        storage.rename(&temporary, &path).map_err(storage_error("write", &path))?;
        storage.sync_dir(self.root()).map_err(storage_error("sync", self.root()))
    }

    pub(crate) fn wait_for_objects(&self, wait: Duration) -> Result<Box<dyn Lock>, CollectError> {
        let until = Instant::now() + wait;
        loop {
            match self.lock_objects() {
                Err(CollectError::Busy) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                locked => return locked,
            }
        }
    }

    /// Removes the objects that only the erased payloads named. The journals are read again: what
    /// another event names stays.
    fn erase_objects(
        &self,
        objects: &HashSet<ObjectHash>,
        done: &mut Erased,
    ) -> Result<(), CollectError> {
        let named = self.live_objects(&Without::default(), &mut done.notes)?;
        let packs = self.packs();
        self.forget_workspaces()?;
        packs.purge(&named).map_err(store_error)?;
        let all: Vec<ObjectHash> = objects.iter().copied().collect();
        let places = packs.places(&all).map_err(store_error)?;
        for (hash, place) in all.iter().zip(places) {
            match place {
                None => done.objects += 1,
                Some(_) => done.shared.push(*hash),
            }
        }
        done.shared.sort_unstable_by_key(|hash| hash.0);
        Ok(())
    }

    /// Drops a session's state snapshots and transcript, under its lock.
    fn drop_derived(&self, layout: &SessionLayout, wait: Duration) -> Result<(), StoreError> {
        let storage = &**self.storage();
        clear(storage, &layout.state())?;
        let path = layout.transcript();
        let file = match storage.open(&path, Access::Write) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(storage_error("open", &path))?,
        };
        let until = Instant::now() + wait;
        let _lock = loop {
            let lock = storage.lock(&path, LockMode::Exclusive);
            match lock.map_err(storage_error("lock", &path))? {
                Some(lock) => break lock,
                None if Instant::now() >= until => {
                    let busy = std::io::Error::from(std::io::ErrorKind::WouldBlock);
                    return Err(storage_error("lock", &path)(busy));
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        file.truncate(0).and_then(|()| file.sync()).map_err(storage_error("cut", &path))
    }

    /// What is to take the place of the lines. An error where the journal is damaged.
    fn find_lines(
        &self,
        plan: &ErasePlan,
        layout: &SessionLayout,
    ) -> Result<Replacements, EraseError> {
        let journal = Journal::new(self.storage().clone(), layout.journal());
        let wanted: BTreeSet<Seq> = plan.lines.iter().map(|line| line.seq).collect();
        let mut replacements = Replacements::new();
        let mark = self.reader(plan.session)?.mark().map_err(store_error)?;
        let mut damage = None;
        let walked = journal.walk(Start::beginning(), mark, &mut |found| {
            match found {
                Found::Event { line, segment, offset, end, ended } => {
                    if wanted.contains(&line.seq) && !matches!(line.body(), Body::Erased { .. }) {
                        let new = erased_line(&line, ended);
                        replacements.entry(segment).or_default().push((offset, end, new));
                    }
                }
                Found::Damage(found) => damage = Some(found),
                Found::Torn { .. } | Found::Seam { .. } => {}
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_error)?;
        if let Some(damage) = damage {
            let place = format!("{} at byte {}", shown(&damage.path), damage.offset);
            return Err(EraseError::Damaged { place, reason: damage.reason.to_string() });
        }
        for name in journal.segments().map_err(store_error)? {
            if let Some(lines) = replacements.get(&name.number) {
                splice(&journal.open_segment(name).map_err(store_error)?, lines)?;
            }
        }
        Ok(replacements)
    }

    /// Writes the segments that hold the lines anew. Says how many lines were erased.
    fn rewrite(
        &self,
        replacements: &Replacements,
        layout: &SessionLayout,
    ) -> Result<u64, EraseError> {
        let storage = &**self.storage();
        let dir = layout.journal();
        let journal = Journal::new(self.storage().clone(), dir.clone());
        remove_remains(storage, &dir)?;
        let mut erased = 0;
        for name in journal.segments().map_err(store_error)? {
            let Some(lines) = replacements.get(&name.number) else { continue };
            let segment = journal.open_segment(name).map_err(store_error)?;
            let bytes = splice(&segment, lines)?;
            put_in_place(storage, &dir, name, &bytes)?;
            erased += lines.len() as u64;
        }
        Ok(erased)
    }

    /// Writes into the journal what was erased; what it says already is not said again.
    fn note_erased(
        &self,
        plan: &ErasePlan,
        reason: Option<&str>,
        layout: &SessionLayout,
        lock: Box<dyn Lock>,
    ) -> Result<(), StoreError> {
        let mut noted: BTreeSet<Seq> = BTreeSet::new();
        let reader = self.reader(plan.session)?;
        let mark = reader.mark().map_err(store_error)?;
        let walked = reader.journal().walk(Start::beginning(), mark, &mut |found| {
            if let Found::Event { line, .. } = found
                && line.head().is_some_and(|head| head.kind == Kind::PAYLOAD_ERASED)
                && let Some(Ok(abide_model::Fact::Erasure(erasure))) =
                    line.event().map(|event| event.fact())
            {
                noted.insert(erasure.seq);
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_error)?;
        let erasures: Vec<Erasure> = plan
            .lines
            .iter()
            .filter(|line| !noted.contains(&line.seq))
            .map(|line| Erasure { seq: line.seq, reason: reason.map(str::to_owned) })
            .collect();
        if erasures.is_empty() {
            return Ok(());
        }
        let writer = self.writer_with(plan.session, layout, lock)?;
        writer.note_erased(&erasures)
    }

    fn has_parent(&self, session: SessionId) -> Result<bool, StoreError> {
        Ok(self.parent_of(session)?.is_some())
    }

    fn parent_of(&self, session: SessionId) -> Result<Option<SessionId>, StoreError> {
        let reader = self.reader(session)?;
        let link = reader.past().map_err(store_error)?.link();
        if link.is_some() {
            return Ok(link.map(|parent| parent.session));
        }
        let state = reader.look(Gone::PassOver).map_err(store_error)?.state;
        Ok(state.core.fields.parent.map(|parent| parent.session))
    }

    /// The sessions that were forked from this one, and from those.
    fn heirs_of(&self, session: SessionId) -> Result<Vec<SessionId>, StoreError> {
        let mut parents = Vec::new();
        for name in self.names()? {
            if let Ok(abide_journal::Identity::Known(id)) =
                self.identify(&self.layout().session(&name))
                && let Some(parent) = self.parent_of(id)?
            {
                parents.push((id, parent));
            }
        }
        let mut forks = vec![session];
        let mut next = 0;
        while let Some(parent) = forks.get(next).copied() {
            let found = parents.iter().filter(|(id, of)| *of == parent && !forks.contains(id));
            let found: Vec<SessionId> = found.map(|(id, _)| *id).collect();
            forks.extend(found);
            next += 1;
        }
        Ok(forks.split_off(1))
    }
}

/// Events that say how the others are to be read.
const STRUCTURAL: [Kind; 7] = [
    Kind::WRITER_OPENED,
    Kind::WRITER_CLOSED,
    Kind::RECOVERY_PERFORMED,
    Kind::PAYLOAD_ERASED,
    Kind::SESSION_REWOUND,
    Kind::FILES_RESTORED,
    Kind::CHECKPOINT_THINNED,
];

/// Does a text stand in JSON, in whichever way its strings are written?
fn has_text(json: &str, text: &str) -> bool {
    fn in_value(value: &serde_json::Value, text: &str) -> bool {
        match value {
            serde_json::Value::String(string) => string.contains(text),
            serde_json::Value::Array(values) => values.iter().any(|value| in_value(value, text)),
            serde_json::Value::Object(fields) => {
                fields.iter().any(|(name, value)| name.contains(text) || in_value(value, text))
            }
            _ => false,
        }
    }
    json.contains(text)
        || json.contains('\\')
            && serde_json::from_str(json).is_ok_and(|value| in_value(&value, text))
}

fn erased_line(line: &Line<'_>, ended: bool) -> Vec<u8> {
    let mut bytes = line.erased();
    if !ended {
        bytes.pop();
    }
    bytes
}

/// The bytes of a segment with some of its lines replaced.
fn splice(segment: &Segment, lines: &[(u64, u64, Vec<u8>)]) -> Result<Vec<u8>, EraseError> {
    let len = usize::try_from(segment.len().map_err(store_error)?).unwrap_or(usize::MAX);
    let mut old = vec![0; len];
    let mut read = 0;
    while let Some(rest) = old.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match segment.read_at(rest, read as u64).map_err(store_error)? {
            0 => break,
            more => read += more,
        }
    }
    old.truncate(read);
    if let Some(reason) = segment.seal_damage() {
        return Err(EraseError::Damaged { place: shown(segment.path()), reason });
    }
    let mut new = Vec::with_capacity(old.len());
    let mut at = 0;
    let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    for (start, end, line) in lines {
        new.extend_from_slice(old.get(at..place(*start)).unwrap_or_default());
        new.extend_from_slice(line);
        at = place(*end);
    }
    new.extend_from_slice(old.get(at..).unwrap_or_default());
    Ok(new)
}

/// Puts a segment's new bytes in its place, whole or not at all. It is plain from then on.
fn put_in_place(
    storage: &dyn Storage,
    dir: &Path,
    name: SegmentName,
    bytes: &[u8],
) -> Result<(), StoreError> {
    let plain = SegmentName { form: SegmentForm::Plain, ..name };
    let to = dir.join(plain.file_name());
    let temporary = dir.join(format!("{}.tmp", plain.file_name()));
    let file =
        storage.open(&temporary, Access::CreateNew).map_err(storage_error("create", &temporary))?;
    let written = write_full(&*file, bytes, 0).and_then(|()| file.sync());
    written.map_err(storage_error("write", &temporary))?;
    storage.rename(&temporary, &to).map_err(storage_error("rename", &temporary))?;
    storage.sync_dir(dir).map_err(storage_error("sync", dir))?;
    remove_remains(storage, dir)
}

/// Removes what may still hold a payload that the journal does not: sealed segments whose plain form
/// is there and counts, and files that a sealing or an erasure was cut short with.
fn remove_remains(storage: &dyn Storage, dir: &Path) -> Result<(), StoreError> {
    let names = storage.list(dir).map_err(storage_error("list", dir))?;
    let mut removed = false;
    for name in &names {
        let twin = SegmentName::parse(name).is_some_and(|sealed| {
            let plain = SegmentName { form: SegmentForm::Plain, ..sealed };
            sealed.form == SegmentForm::Sealed && names.contains(&plain.file_name())
        });
        let cut_short = name.ends_with(".jsonl.tmp") || name.ends_with(".jsonl.zst.tmp");
        if twin || cut_short {
            let path = dir.join(name);
            storage.remove(&path).map_err(storage_error("remove", &path))?;
            removed = true;
        }
    }
    if removed {
        storage.sync_dir(dir).map_err(storage_error("sync", dir))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_however_it_is_written() {
        assert!(has_text(r#"{"a":"the secret"}"#, "secret"));
        assert!(has_text(r#"{"a":["\u0073ecret"]}"#, "secret"));
        assert!(has_text(r#"{"a":{"x\"y":1}}"#, "x\"y"));
        assert!(!has_text(r#"{"a":"\n secre t"}"#, "secret"));
    }
}
