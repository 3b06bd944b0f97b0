//! The state cache: a session's state as one writer leaves it for the next.
//!
//! Derived, checksummed and never synced. A cached state is a root (the end of the journal, and the
//! core of the state) in one of two slots, and pages (the large parts) in a file that only grows,
//! until most of it is dead and it is rewritten. With a cached state a session is opened without
//! reading the whole journal. One that does not fit the journal is ignored.

use std::path::PathBuf;
use std::sync::Arc;

use abide_journal::{
    Access, Journal, JournalEnd, JournalError, JournalLine, JournalWalkStart, SegmentForm,
    SegmentName, Slots, Storage, StorageFile, Sum, read_full, write_full,
};
use abide_model::{Event, PageRef, Seq, SessionState, StatePageId, StatePageSink};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Length and checksum before each page.
const PAGE_HEAD: usize = 4 + 16;
const MAX_PAGE: usize = 64 << 20;
/// A page file is rewritten when it has this many bytes and four times what is live.
const REWRITE: u64 = 4 << 20;

const SLOTS: &str = "handover";

#[derive(Serialize, Deserialize)]
struct StateCacheRoot<'a> {
    segment: u64,
    /// Where the last line starts and ends.
    line: u64,
    offset: u64,
    seq: Seq,
    sum: &'a str,
    /// The number of the page file.
    pages: u64,
    /// Bytes of live pages.
    live: u64,
    #[serde(borrow)]
    state: &'a RawValue,
}

/// The end of the journal when the state was cached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedJournalEnd {
    pub(crate) end: JournalEnd,
    /// Where the last line starts.
    pub(crate) line: u64,
}

/// A state read from the cache.
#[derive(Debug)]
pub(crate) struct CachedState {
    pub(crate) state: SessionState,
    pub(crate) pages: StatePages,
    pub(crate) stand: CachedJournalEnd,
}

impl CachedState {
    pub(crate) fn start(&self) -> JournalWalkStart {
        let end = self.stand.end;
        JournalWalkStart {
            segment: end.segment,
            offset: end.offset,
            expected: Some(end.seq.next()),
            sum: Some(end.sum),
        }
    }
}

/// The state cache of a session.
#[derive(Debug)]
pub(crate) struct StateCache {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    slots: Slots,
}

impl StateCache {
    pub(crate) fn new(storage: Arc<dyn Storage>, dir: PathBuf) -> Self {
        let slots = Slots::new(&dir, SLOTS);
        Self { storage, dir, slots }
    }

    /// The newest cached state that fits the journal.
    pub(crate) fn restore(&mut self, journal: &Journal) -> Option<CachedState> {
        let roots = self.slots.read(&*self.storage);
        roots.iter().find_map(|root| self.restore_one(journal, root))
    }

    /// The newest cached state that fits the journal and includes nothing after `to`.
    pub(crate) fn restore_before(&mut self, journal: &Journal, to: Seq) -> Option<CachedState> {
        let roots = self.slots.read(&*self.storage);
        let mut fit = roots.iter().filter_map(|root| self.restore_one(journal, root));
        fit.find(|restored| restored.stand.end.seq <= to)
    }

    fn restore_one(&self, journal: &Journal, root: &[u8]) -> Option<CachedState> {
        let root: StateCacheRoot<'_> = serde_json::from_slice(root).ok()?;
        let sum = Sum::from_ascii(root.sum.as_bytes())?;
        let end = JournalEnd { segment: root.segment, offset: root.offset, seq: root.seq, sum };
        let stand = CachedJournalEnd { end, line: root.line };
        // There must be a number for the next page file.
        if root.pages == u64::MAX || !state_cache_fits(journal, stand) {
            return None;
        }
        let state = SessionState::restore(root.state.get().as_bytes()).ok()?;
        let pages = StatePages::new(self.storage.clone(), self.dir.clone(), root.pages, root.live);
        (state.core.seq == root.seq).then_some(CachedState { state, pages, stand })
    }

    /// Writes a state whose pages are staged in [`StatePages`]. It only speeds up the next open: if it
    /// cannot be written, that reads more.
    pub(crate) fn write(
        &mut self,
        taken: &StagedStateCache,
        stand: CachedJournalEnd,
    ) -> Result<(), JournalError> {
        let path = state_page_path(&self.dir, taken.file);
        let io = |action, source| JournalError::Io { action, path: path.clone(), source };
        if !taken.bytes.is_empty() || taken.at == 0 {
            let file =
                self.storage.open(&path, Access::Create).map_err(|error| io("open", error))?;
            write_full(&*file, &taken.bytes, taken.at).map_err(|error| io("write", error))?;
        }
        let state =
            std::str::from_utf8(&taken.root).ok().and_then(|text| serde_json::from_str(text).ok());
        let Some(state) = state else { return Ok(()) };
        let sum = stand.end.sum.to_string();
        let root = StateCacheRoot {
            segment: stand.end.segment,
            line: stand.line,
            offset: stand.end.offset,
            seq: stand.end.seq,
            sum: &sum,
            pages: taken.file,
            live: taken.live,
            state,
        };
        self.slots.write(&*self.storage, &serde_json::to_vec(&root).unwrap_or_default())?;
        if let Some(old) = taken.file.checked_sub(2) {
            let _ = self.storage.remove(&state_page_path(&self.dir, old));
        }
        Ok(())
    }
}

/// Whether the last line that a cached state names is in the journal, complete and the same.
fn state_cache_fits(journal: &Journal, stand: CachedJournalEnd) -> bool {
    let read = || -> Option<bool> {
        let name = SegmentName { number: stand.end.segment, form: SegmentForm::Plain };
        let segment = journal.open_segment(name).ok()?;
        let len = usize::try_from(stand.end.offset.checked_sub(stand.line)?).ok()?;
        if len > abide_journal::MAX_LINE {
            return None;
        }
        let mut bytes = vec![0; len];
        segment.read_at(&mut bytes, stand.line).ok()?;
        let line = JournalLine::read(bytes.strip_suffix(b"\n")?).ok()?;
        Some(line.seq == stand.end.seq && line.sum == stand.end.sum)
    };
    read().unwrap_or(false)
}

fn state_page_path(dir: &std::path::Path, file: u64) -> PathBuf {
    dir.join(format!("pages.{file}"))
}

/// A state to be cached that is not written yet.
#[derive(Debug)]
pub(crate) struct StagedStateCache {
    file: u64,
    at: u64,
    bytes: Vec<u8>,
    root: Vec<u8>,
    live: u64,
}

impl StagedStateCache {
    /// How many bytes of pages are to be written.
    pub(crate) const fn page_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The pages of a state: loaded on demand, staged for writing.
#[derive(Debug)]
pub(crate) struct StatePages {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    file: u64,
    open: Option<Arc<dyn StorageFile>>,
    /// Where the next page goes.
    end: Option<u64>,
    ready: Vec<u8>,
    live: u64,
}

impl StatePages {
    pub(crate) fn new(storage: Arc<dyn Storage>, dir: PathBuf, file: u64, live: u64) -> Self {
        Self { storage, dir, file, open: None, end: None, ready: Vec::new(), live }
    }

    fn read(&mut self, page: PageRef) -> Option<Vec<u8>> {
        let file = match &self.open {
            Some(file) => file.clone(),
            None => {
                let file =
                    self.storage.open(&state_page_path(&self.dir, self.file), Access::Read).ok()?;
                self.open.insert(file).clone()
            }
        };
        let len = usize::try_from(page.1).ok().filter(|len| *len <= MAX_PAGE)?;
        let mut bytes = vec![0; PAGE_HEAD + len];
        if read_full(&*file, &mut bytes, page.0).ok()? < bytes.len() {
            return None;
        }
        let content = bytes.split_off(PAGE_HEAD);
        (state_page_head(&content) == bytes).then_some(content)
    }

    /// Loads the pages that an event needs; `false` if one cannot be read and the state must be
    /// folded again.
    pub(crate) fn bring(&mut self, state: &mut SessionState, event: &Event) -> bool {
        loop {
            let missing = state.missing(event);
            if missing.is_empty() {
                return true;
            }
            if !self.install(state, &missing) {
                return false;
            }
        }
    }

    /// Loads the pages that hold a lane.
    pub(crate) fn bring_lane(&mut self, state: &mut SessionState, lane: &str) -> bool {
        let missing = state.missing_lane(lane);
        self.install(state, &missing)
    }

    /// Loads all pages.
    pub(crate) fn bring_all(&mut self, state: &mut SessionState) -> bool {
        let away = state.away();
        self.install(state, &away)
    }

    /// Discards the cached states, because a page of theirs cannot be read. The next one goes to a
    /// new file.
    pub(crate) fn discard(&mut self) {
        Slots::new(&self.dir, SLOTS).remove(&*self.storage);
        *self = Self::new(self.storage.clone(), self.dir.clone(), self.file + 1, 0);
        let _ = self.storage.remove(&state_page_path(&self.dir, self.file));
    }

    fn install(&mut self, state: &mut SessionState, pages: &[StatePageId]) -> bool {
        pages.iter().all(|page| {
            let bytes = state.page_ref(*page).and_then(|at| self.read(at));
            bytes.is_some_and(|bytes| state.install(*page, &bytes).is_ok())
        })
    }

    /// Stages `state`, to be written once its last event is durable.
    pub(crate) fn take(&mut self, state: &mut SessionState) -> Option<StagedStateCache> {
        if self.end.is_none() {
            let path = state_page_path(&self.dir, self.file);
            let len = self.storage.open(&path, Access::Read).ok().and_then(|file| file.len().ok());
            self.end = Some(len.unwrap_or(0));
        }
        if self.end? > REWRITE && self.end? > self.live.saturating_mul(4) {
            if !self.bring_all(state) {
                return None;
            }
            state.unsave();
            *self = Self::new(self.storage.clone(), self.dir.clone(), self.file + 1, 0);
            self.end = Some(0);
        }
        let at = self.end?;
        let root = match state.save(self) {
            Ok(root) => root,
            Err(never) => match never {},
        };
        let bytes = std::mem::take(&mut self.ready);
        self.end = Some(at + bytes.len() as u64);
        // Replaced pages are no longer live; the exact number does not matter.
        self.live = self.live.max(bytes.len() as u64);
        Some(StagedStateCache { file: self.file, at, bytes, root, live: self.live })
    }
}

impl StatePageSink for StatePages {
    type Error = std::convert::Infallible;

    fn put(&mut self, page: Vec<u8>) -> Result<PageRef, Self::Error> {
        let at = self.end.unwrap_or(0) + self.ready.len() as u64;
        self.ready.extend_from_slice(&state_page_head(&page));
        self.ready.extend_from_slice(&page);
        Ok(PageRef(at, u32::try_from(page.len()).unwrap_or(u32::MAX)))
    }
}

fn state_page_head(content: &[u8]) -> Vec<u8> {
    let mut head = u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    head.extend_from_slice(blake3::hash(content).as_bytes().get(..16).unwrap_or_default());
    head
}
