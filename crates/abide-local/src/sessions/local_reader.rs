//! Reads a session, with or without a concurrent writer. Never writes.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use abide_journal::{
    Access, AcknowledgedEnd, Journal, JournalError, JournalItem, JournalLine, JournalWalkStart,
    Packs, SegmentForm, SegmentName, Storage, Watermark, filling_start,
};
use abide_model::{
    Digest, Event, EventPage, EventRange, LaneId, LaneState, ReadDirection, ReadFinding, Seq,
    SessionCore, SessionId, SessionReader, SessionState, StoreError,
};

use crate::derived::state_cache::StateCache;
use crate::error::store_error;
use crate::sessions::recovery;
use crate::sessions::session_ancestry::{MissingParentPolicy, SessionAncestry};
use crate::sessions::session_directory::SessionDirectory;
use crate::store_layout::{SessionLayout, layout_path_text};

/// The most bytes of data in one page.
const PAGE_BYTES: usize = 8 << 20;

/// The reader of a session of a [`LocalStore`](crate::LocalStore).
#[derive(Debug)]
pub struct LocalReader {
    storage: Arc<dyn Storage>,
    session: SessionId,
    journal: Journal,
    watermark: PathBuf,
    state_dir: PathBuf,
    packs: Arc<Packs>,
    directory: SessionDirectory,
    /// Where the next page starts, for a reader that goes forward: avoids a seek.
    next: Mutex<Option<(Seq, JournalWalkStart)>>,
    /// The last event that was sought: a context starts at the same event for many turns.
    sought: Mutex<Option<(Seq, JournalWalkStart)>>,
    /// Where the events before the session's own are, once that is known.
    past: OnceLock<SessionAncestry>,
}

impl LocalReader {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        session: SessionId,
        layout: &SessionLayout,
        packs: Arc<Packs>,
        directory: SessionDirectory,
    ) -> Self {
        Self {
            journal: Journal::new(storage.clone(), layout.journal()),
            storage,
            session,
            watermark: layout.watermark(),
            state_dir: layout.state(),
            packs,
            directory,
            next: Mutex::new(None),
            sought: Mutex::new(None),
            past: OnceLock::new(),
        }
    }

    /// The reader of another session of the same store.
    pub(crate) fn sibling(&self, session: SessionId, layout: &SessionLayout) -> Self {
        let (storage, packs) = (self.storage.clone(), self.packs.clone());
        Self::new(storage, session, layout, packs, self.directory.clone())
    }

    pub(crate) const fn directory(&self) -> &SessionDirectory {
        &self.directory
    }

    pub(crate) const fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(crate) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Where the events before the session's own are.
    pub(crate) fn past(&self) -> Result<&SessionAncestry, JournalError> {
        if let Some(past) = self.past.get() {
            return Ok(past);
        }
        let past = SessionAncestry::of(self)?;
        Ok(self.past.get_or_init(|| past))
    }

    pub(crate) const fn session(&self) -> SessionId {
        self.session
    }

    /// The session's journal.
    #[must_use]
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn mark(&self) -> Result<Option<AcknowledgedEnd>, JournalError> {
        Watermark::read(&*self.storage, &self.watermark)
    }

    /// The total size of the session's files, without the filling.
    fn bytes_now(&self) -> Result<u64, JournalError> {
        let mut sum = 0;
        for dir in [self.journal.dir(), &self.state_dir] {
            let names = match self.storage.list(dir) {
                Ok(names) => names,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(JournalError::io("list", dir)(error)),
            };
            for name in names {
                // A file that was sealed or rotated away meanwhile counts as empty.
                let file = self.storage.open(&dir.join(&name), Access::Read);
                let plain = SegmentName::parse(&name)
                    .is_some_and(|segment| segment.form == SegmentForm::Plain);
                let length = file.and_then(|file| match plain {
                    true => filling_start(&*file),
                    false => file.len(),
                });
                sum += length.unwrap_or(0);
            }
        }
        Ok(sum)
    }

    /// The last event that can be read.
    pub(crate) fn last(&self) -> Result<Seq, JournalError> {
        let mut last = Seq::ZERO;
        let start = self.journal.seek(Seq(u64::MAX))?;
        self.journal.walk(start, self.mark()?, &mut |found| {
            if let JournalItem::Event { line, .. } = found {
                last = line.seq;
            }
            ControlFlow::Continue(())
        })?;
        Ok(last)
    }

    /// A page of the session's events: those it shares with its ancestors, then its own.
    fn forward(&self, first: Seq, last: Seq, limit: usize) -> Result<EventPage, JournalError> {
        let past = self.past()?;
        let own = past.own_first();
        if first >= own {
            return self.own_forward(first, last, limit);
        }
        let mut page =
            EventPage { notes: past.note(first).into_iter().collect(), ..EventPage::default() };
        let within =
            past.stretches().iter().filter(|part| part.last >= first && part.first <= last);
        for part in within {
            let left = limit - page.events.len();
            let (from, to) = (first.max(part.first), last.min(part.last));
            let read = part.reader.own_forward(from, to, left)?;
            page.events.extend(read.events);
            page.notes.extend(read.notes);
            let full = page.events.len() >= limit && to < last;
            page.next = read.next.or(full.then(|| to.next()));
            if page.next.is_some() {
                return Ok(page);
            }
        }
        if last >= own {
            let read = self.own_forward(own, last, limit - page.events.len())?;
            page.events.extend(read.events);
            page.notes.extend(read.notes);
            page.next = read.next;
        }
        Ok(page)
    }

    /// A page of the session's own events.
    fn own_forward(&self, first: Seq, last: Seq, limit: usize) -> Result<EventPage, JournalError> {
        let known = self.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        match known {
            Some((seq, start)) if seq == first => self.forward_from(start, first, last, limit),
            _ if first <= Seq::FIRST => {
                self.forward_from(JournalWalkStart::beginning(), first, last, limit)
            }
            _ => self.sought_forward(first, last, limit),
        }
    }

    /// A page starting at an event whose place is known from before, or is looked up now.
    fn sought_forward(
        &self,
        first: Seq,
        last: Seq,
        limit: usize,
    ) -> Result<EventPage, JournalError> {
        let sought = *self.sought.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, start)) = sought.filter(|(seq, _)| *seq == first) {
            let page = self.forward_from(start, first, last, limit)?;
            // A repair may have moved it meanwhile.
            if page.notes.is_empty() && page.events.first().is_some_and(|one| one.seq == first) {
                return Ok(page);
            }
        }
        self.forward_from(self.journal.seek(first)?, first, last, limit)
    }

    fn forward_from(
        &self,
        start: JournalWalkStart,
        first: Seq,
        last: Seq,
        limit: usize,
    ) -> Result<EventPage, JournalError> {
        let mut page = EventPage::default();
        let mut bytes = 0;
        let (mut resume, mut found_at) = (None, None);
        self.journal.walk(start, self.mark()?, &mut |found| match found {
            JournalItem::Event { line, .. } if line.seq < first => ControlFlow::Continue(()),
            JournalItem::Event { line, segment, offset, end, .. } => {
                if line.seq > last {
                    return ControlFlow::Break(());
                }
                if line.seq == first {
                    found_at = Some((
                        first,
                        JournalWalkStart { segment, offset, expected: None, sum: None },
                    ));
                }
                let (event, note) = self.event(&line);
                page.notes.extend(note);
                if let Some(event) = event {
                    bytes += event.data.as_ref().map_or(0, |data| data.as_str().len());
                    page.events.push(event);
                }
                if page.events.len() >= limit || bytes >= PAGE_BYTES {
                    let next = line.seq.next();
                    let start = JournalWalkStart {
                        segment,
                        offset: end,
                        expected: Some(next),
                        sum: Some(line.sum),
                    };
                    resume = (line.seq < last).then_some((next, start));
                    return ControlFlow::Break(());
                }
                // Nothing after `last` is needed.
                if line.seq == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            found => {
                page.notes.extend(note_of(&found));
                ControlFlow::Continue(())
            }
        })?;
        page.next = resume.map(|(next, _)| next);
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = resume;
        if page.notes.is_empty() && found_at.is_some() {
            *self.sought.lock().unwrap_or_else(PoisonError::into_inner) = found_at;
        }
        Ok(page)
    }

    fn backward(&self, range: EventRange) -> Result<EventPage, JournalError> {
        let last = if range.last == Seq(u64::MAX) { self.last()? } else { range.last };
        let limit = u64::try_from(range.limit.max(1)).unwrap_or(u64::MAX);
        let first = range.first.max(Seq(last.0.saturating_sub(limit - 1)));
        if last < first {
            return Ok(EventPage::default());
        }
        let mut page = EventPage::default();
        let mut from = first;
        loop {
            let part = self.forward(from, last, range.limit)?;
            page.events.extend(part.events);
            page.notes.extend(part.notes);
            match part.next {
                Some(next) => from = next,
                None => break,
            }
        }
        page.events.reverse();
        // Events of a missing ancestor cannot be read.
        let readable = self.past()?.missing().map_or(Seq::FIRST, |missing| missing.last.next());
        page.next = (first > range.first.max(readable)).then(|| first.back(1));
        Ok(page)
    }

    /// The event of a line, with its objects put back in.
    pub(crate) fn event(&self, line: &JournalLine<'_>) -> (Option<Event>, Option<ReadFinding>) {
        line.whole_event(self.session, &|hash| {
            self.packs.read(hash).map_err(|error| error.to_string())
        })
    }

    /// A page, blocking on the disk only.
    pub(crate) fn page_now(&self, range: EventRange) -> Result<EventPage, JournalError> {
        match range.direction {
            ReadDirection::Forward => self.forward(range.first, range.last, range.limit.max(1)),
            ReadDirection::Backward => self.backward(range),
        }
    }

    /// The session's own events of a range, in order.
    pub(crate) fn own_events(
        &self,
        range: EventRange,
    ) -> impl Iterator<Item = Result<Event, JournalError>> + '_ {
        let mut next = (range.first <= range.last).then_some(range);
        let mut page = Vec::new().into_iter();
        std::iter::from_fn(move || {
            loop {
                if let Some(event) = page.next() {
                    return Some(Ok(event));
                }
                let range = next.take()?;
                match self.own_forward(range.first, range.last, range.limit.max(1)) {
                    Ok(read) => {
                        next = read.next.map(|first| EventRange { first, ..range });
                        page = read.events.into_iter();
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }

    pub(crate) fn look(
        &self,
        gone: MissingParentPolicy,
    ) -> Result<recovery::RecoveryScan, JournalError> {
        let mut snapshots = StateCache::new(self.storage.clone(), self.state_dir.clone());
        recovery::look_for_recovery(self, &mut snapshots, self.mark()?, gone)
    }

    /// The core of the state, and one lane of it.
    pub(crate) fn lane_now(
        &self,
        lane: Option<&LaneId>,
        at: Option<Seq>,
    ) -> Result<(SessionCore, LaneState), JournalError> {
        let name = lane.map(LaneId::as_str).unwrap_or_default();
        let take = |state: &SessionState| {
            (state.core.clone(), state.lane(name).cloned().unwrap_or_default())
        };
        if let Some(at) = at {
            return recovery::recovered_state_at(
                self,
                at,
                self.mark()?,
                MissingParentPolicy::PassOver,
            )
            .map(|state| take(&state));
        }
        let mut look = self.look(MissingParentPolicy::PassOver)?;
        if look.pages.bring_lane(&mut look.state, name) {
            return Ok(take(&look.state));
        }
        recovery::recovered_state_at(
            self,
            look.end.seq,
            self.mark()?,
            MissingParentPolicy::PassOver,
        )
        .map(|state| take(&state))
    }

    /// The state at the last event that can be read.
    pub(crate) fn state_now(&self) -> Result<SessionState, JournalError> {
        let mut look = self.look(MissingParentPolicy::PassOver)?;
        if look.pages.bring_all(&mut look.state) {
            return Ok(look.state);
        }
        recovery::recovered_state_at(
            self,
            look.end.seq,
            self.mark()?,
            MissingParentPolicy::PassOver,
        )
    }
}

/// What a reader must be told about a gap or damage.
pub(crate) fn note_of(found: &JournalItem<'_>) -> Option<ReadFinding> {
    match found {
        // A repair has already named what is lost there.
        JournalItem::Event { .. } | JournalItem::Splice { .. } => None,
        JournalItem::Damage(damage) => Some(ReadFinding::Damage {
            place: format!("{} at byte {}", layout_path_text(&damage.path), damage.offset),
            reason: damage.reason.to_string(),
            lost: damage.lost,
        }),
        JournalItem::Torn { path, bytes, .. } => {
            Some(ReadFinding::TornTail { place: layout_path_text(path), bytes: *bytes })
        }
    }
}

impl SessionReader for LocalReader {
    fn page(&self, range: EventRange) -> Result<EventPage, StoreError> {
        self.page_now(range).map_err(store_error)
    }

    fn acknowledged(&self) -> Result<Seq, StoreError> {
        match self.mark().map_err(store_error)? {
            Some(mark) => Ok(mark.seq),
            // Without a watermark, whatever can be read counts.
            None => self.last().map_err(store_error),
        }
    }

    fn core(&self) -> Result<(SessionCore, Digest), StoreError> {
        let look = self.look(MissingParentPolicy::PassOver).map_err(store_error)?;
        let digest = look.state.digest();
        Ok((look.state.core, digest))
    }

    fn lane(
        &self,
        lane: Option<&LaneId>,
        at: Option<Seq>,
    ) -> Result<(SessionCore, LaneState), StoreError> {
        self.lane_now(lane, at).map_err(store_error)
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        self.bytes_now().map_err(store_error)
    }

    fn state(&self) -> Result<SessionState, StoreError> {
        self.state_now().map_err(store_error)
    }
}
