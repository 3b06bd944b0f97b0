//! The events that a fork shares with its ancestors, by reference: their journals are read in
//! place.
//!
//! A fork's own events start after the one it was forked at; those before it belong to its parent
//! or to earlier ancestors. Events never change, so whatever happens to the parent does not matter
//! as long as it exists.

use std::ops::ControlFlow;

use abide_journal::{JournalError, JournalItem, JournalOrigin, JournalWalkStart, Sum};
use abide_maintain::{CheckpointNumbers, NamedSnapshots};
use abide_model::{
    Event, ParentReason, ReadFinding, Seq, SessionId, SessionParent, SessionState, TurnNumber,
    fold_lineage, rewind_target,
};

use crate::derived::state_cache::{CachedState, StateCache};
use crate::sessions::local_reader::LocalReader;
use crate::sessions::recovery;

/// The longest chain of ancestors that a fork may have.
pub(crate) const MAX_FORKS: usize = 256;

/// The events of one ancestor that a session shares.
#[derive(Debug)]
pub(crate) struct SharedEvents {
    /// Reads the ancestor's own events only.
    pub(crate) reader: LocalReader,
    /// The first shared event.
    pub(crate) first: Seq,
    /// The last shared event.
    pub(crate) last: Seq,
}

/// An ancestor that is not in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MissingParent {
    /// Its id, if known.
    pub(crate) parent: Option<SessionId>,
    /// The last event that is missing with it.
    pub(crate) last: Seq,
}

/// What to do if an ancestor is not in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingParentPolicy {
    /// Return an error.
    Refuse,
    /// Use what is there.
    PassOver,
}

/// Where the events before a session's own are.
#[derive(Debug)]
pub(crate) struct SessionAncestry {
    session: SessionId,
    dir: std::path::PathBuf,
    origin: JournalOrigin,
    /// Oldest first.
    stretches: Vec<SharedEvents>,
    /// How many ancestors it has, including those whose own events it does not share.
    depth: usize,
    missing: Option<MissingParent>,
}

impl SessionAncestry {
    /// The ancestors of the session that `reader` reads.
    pub(crate) fn of(reader: &LocalReader) -> Result<Self, JournalError> {
        let origin = reader.journal().origin()?;
        let mut past = Self {
            session: reader.session(),
            dir: reader.journal().dir().to_owned(),
            origin: origin.clone(),
            stretches: Vec::new(),
            depth: 0,
            missing: None,
        };
        let mut child = (reader.session(), origin);
        let mut last = past.last();
        while child.1.is_fork() {
            last = last.min(child.1.first.back(1));
            past.depth += 1;
            if past.depth > MAX_FORKS {
                return Err(past.damaged("it has too many ancestors"));
            }
            let Some((id, holder)) = ancestry_parent(reader, child.0, &child.1)? else {
                let parent = child.1.parent.map(|parent| parent.session);
                past.missing = Some(MissingParent { parent, last });
                break;
            };
            let origin = holder.journal().origin()?;
            if origin.first <= last {
                let first = origin.first;
                past.stretches.push(SharedEvents { reader: holder, first, last });
            }
            child = (id, origin);
        }
        past.stretches.reverse();
        Ok(past)
    }

    /// The first event of the session's own.
    pub(crate) const fn own_first(&self) -> Seq {
        self.origin.first
    }

    /// The last shared event; none if the session is not a fork.
    pub(crate) const fn last(&self) -> Seq {
        self.origin.first.back(1)
    }

    /// The session and the event that a fork continues from. If the fork's first event cannot be
    /// read, the session that has the event before it.
    pub(crate) fn link(&self) -> Option<SessionParent> {
        self.origin.parent.clone().or_else(|| {
            let session = self.stretches.last()?.reader.session();
            Some(SessionParent { session, seq: self.last(), reason: ParentReason::Fork })
        })
    }

    pub(crate) fn is_fork(&self) -> bool {
        self.origin.is_fork()
    }

    /// How many ancestors it has.
    pub(crate) const fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn stretches(&self) -> &[SharedEvents] {
        &self.stretches
    }

    pub(crate) const fn missing(&self) -> Option<MissingParent> {
        self.missing
    }

    /// The note for a reader that starts at `first` and misses events.
    pub(crate) fn note(&self, first: Seq) -> Option<ReadFinding> {
        let missing = self.missing.filter(|missing| first <= missing.last)?;
        let of = missing.parent.map_or_else(
            || "an unknown session".to_owned(),
            |parent| format!("session {parent}, which is not in this store"),
        );
        Some(ReadFinding::Damage {
            place: format!("the shared events of session {}", self.session),
            reason: format!("they belong to {of}"),
            lost: Some((first.max(Seq::FIRST), missing.last)),
        })
    }

    fn damaged(&self, reason: &str) -> JournalError {
        JournalError::Damaged { path: self.dir.clone(), offset: 0, reason: reason.to_owned() }
    }

    /// Returns an error if an ancestor is missing.
    pub(crate) fn check(&self, gone: MissingParentPolicy) -> Result<(), JournalError> {
        match (gone, self.missing) {
            (MissingParentPolicy::PassOver, _) | (MissingParentPolicy::Refuse, None) => Ok(()),
            (MissingParentPolicy::Refuse, Some(MissingParent { parent: Some(parent), .. })) => {
                Err(JournalError::NoParent { session: self.session, parent })
            }
            (MissingParentPolicy::Refuse, Some(MissingParent { parent: None, .. })) => {
                Err(self.damaged("its shared events belong to an unknown session"))
            }
        }
    }

    /// The sum of the last shared event.
    pub(crate) fn sum(&self) -> Result<Option<Sum>, JournalError> {
        match self.origin.prev {
            Some(prev) => Ok(Some(prev)),
            None => self.sum_of(self.last()),
        }
    }

    /// The sum of a shared event, if it can be read.
    pub(crate) fn sum_of(&self, seq: Seq) -> Result<Option<Sum>, JournalError> {
        let holds = |stretch: &&SharedEvents| (stretch.first..=stretch.last).contains(&seq);
        match self.stretches.iter().find(holds) {
            Some(stretch) => sum_of_own_event(&stretch.reader, seq),
            None => Ok(None),
        }
    }

    /// Visits the shared events up to `to`, oldest first.
    pub(crate) fn each_event(
        &self,
        to: Seq,
        visit: &mut dyn FnMut(&Event),
    ) -> Result<(), JournalError> {
        for stretch in self.stretches.iter().filter(|stretch| stretch.first <= to) {
            stretch.reader.each_own_event(to.min(stretch.last), stretch.reader.mark()?, visit)?;
        }
        Ok(())
    }

    /// The state at the shared event `to`, as that of the fork, so that the fork can rewind to it.
    pub(crate) fn state_at(
        &self,
        to: Seq,
        gone: MissingParentPolicy,
    ) -> Result<SessionState, JournalError> {
        let mut state = self.fold(to, gone)?;
        for stretch in self.stretches.iter().filter(|stretch| stretch.first > to) {
            stretch.reader.each_own_event(stretch.first, None, &mut |event| {
                state.apply_dead(event);
            })?;
        }
        Ok(state)
    }

    fn fold(&self, to: Seq, gone: MissingParentPolicy) -> Result<SessionState, JournalError> {
        let holder = self.stretches.iter().rev().find(|stretch| stretch.first <= to);
        if let Some(holder) = holder
            && let Some(state) = ancestry_near_snapshot(&holder.reader, to)?
        {
            return Ok(state);
        }
        self.check(gone)?;
        fold_lineage(to, &|visit| self.each_event(to, visit))
    }
}

/// The state that a fork of a session at `at` starts with.
pub(crate) fn state_to_fork(reader: &LocalReader, at: Seq) -> Result<SessionState, JournalError> {
    let past = reader.past()?;
    if at < past.own_first() {
        return past.fold(at, MissingParentPolicy::Refuse);
    }
    match ancestry_near_snapshot(reader, at)? {
        Some(state) => Ok(state),
        None => {
            recovery::recovered_state_at(reader, at, reader.mark()?, MissingParentPolicy::Refuse)
        }
    }
}

/// The parent of `child`: the one it names, else the one that has the event it continues from.
fn ancestry_parent(
    reader: &LocalReader,
    child: SessionId,
    origin: &JournalOrigin,
) -> Result<Option<(SessionId, LocalReader)>, JournalError> {
    let directory = reader.directory();
    if let Some(parent) = &origin.parent {
        let found = directory.find(parent.session)?;
        return Ok(found.map(|layout| (parent.session, reader.sibling(parent.session, &layout))));
    }
    let Some(prev) = origin.prev else { return Ok(None) };
    for (id, layout) in directory.all()?.into_iter().filter(|(id, _)| *id != child) {
        let sibling = reader.sibling(id, &layout);
        if matches!(sum_of_own_event(&sibling, origin.first.back(1)), Ok(Some(sum)) if sum == prev)
        {
            return Ok(Some((id, sibling)));
        }
    }
    Ok(None)
}

/// The sum of one of a session's own events, if it can be read.
fn sum_of_own_event(reader: &LocalReader, seq: Seq) -> Result<Option<Sum>, JournalError> {
    let mut sum = None;
    let start = reader.journal().seek(seq)?;
    reader.journal().walk(start, reader.mark()?, &mut |found| match found {
        JournalItem::Event { line, .. } if line.seq >= seq => {
            sum = (line.seq == seq).then_some(line.sum);
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    Ok(sum)
}

/// The state at `to`, from a state cache of the session not far before it. `None` if there is none,
/// or if the session was rewound in between.
fn ancestry_near_snapshot(
    reader: &LocalReader,
    to: Seq,
) -> Result<Option<SessionState>, JournalError> {
    let mut snapshots = StateCache::new(reader.storage().clone(), reader.state_dir().to_owned());
    let Some(restored) = snapshots.restore_before(reader.journal(), to) else { return Ok(None) };
    let start = restored.start();
    let CachedState { mut state, mut pages, .. } = restored;
    if !pages.bring_all(&mut state) {
        return Ok(None);
    }
    // Its pages are in the other session's file.
    state.unsave();
    if state.core.seq == to {
        return Ok(Some(state));
    }
    let mut rewound = false;
    reader.walk_to(start, to, reader.mark()?, &mut |event| {
        rewound |= rewind_target(event).is_some();
        if !rewound {
            state.apply(event);
        }
    })?;
    Ok((!rewound).then_some(state))
}

impl LocalReader {
    /// The greatest turn number before the session's own events.
    pub(crate) fn turns_in_ancestry(&self) -> Result<TurnNumber, JournalError> {
        let past = self.past()?;
        if !past.is_fork() {
            return Ok(TurnNumber::default());
        }
        Ok(past.state_at(past.last(), MissingParentPolicy::PassOver)?.core.turns.last)
    }

    /// The numbers of the checkpoints among the session's own events.
    pub(crate) fn checkpoints_in_ancestry(&self) -> Result<CheckpointNumbers, JournalError> {
        let past = self.past()?;
        let last = match past.missing() {
            Some(_) => None,
            None if past.is_fork() => Some(
                past.state_at(past.last(), MissingParentPolicy::PassOver)?.core.checkpoints.last,
            ),
            None => Some(0),
        };
        Ok(CheckpointNumbers::after(last))
    }

    /// An empty set of the snapshots that this session names.
    pub(crate) fn no_snapshots(&self) -> Result<NamedSnapshots, JournalError> {
        Ok(NamedSnapshots::new(self.checkpoints_in_ancestry()?))
    }

    /// The snapshots that the journal names.
    pub(crate) fn named_snapshots(&self) -> Result<NamedSnapshots, JournalError> {
        let mark = self.mark()?;
        let mut snapshots = self.no_snapshots()?;
        self.journal().walk(JournalWalkStart::beginning(), mark, &mut |found| {
            if let JournalItem::Event { line, .. } = found {
                snapshots.line(&line);
            }
            ControlFlow::Continue(())
        })?;
        Ok(snapshots)
    }

    /// The sum of an event, shared or own, if it can be read.
    pub(crate) fn sum_in_ancestry(&self, seq: Seq) -> Result<Option<Sum>, JournalError> {
        let past = self.past()?;
        if seq < past.own_first() { past.sum_of(seq) } else { sum_of_own_event(self, seq) }
    }

    /// Visits the session's own events up to `to`, oldest first.
    pub(crate) fn each_own_event(
        &self,
        to: Seq,
        mark: Option<abide_journal::AcknowledgedEnd>,
        visit: &mut dyn FnMut(&Event),
    ) -> Result<(), JournalError> {
        self.walk_to(JournalWalkStart::beginning(), to, mark, visit)
    }

    fn walk_to(
        &self,
        start: JournalWalkStart,
        to: Seq,
        mark: Option<abide_journal::AcknowledgedEnd>,
        visit: &mut dyn FnMut(&Event),
    ) -> Result<(), JournalError> {
        self.journal().walk(start, mark, &mut |found| {
            let JournalItem::Event { line, .. } = found else { return ControlFlow::Continue(()) };
            if line.seq <= to
                && let Some(event) = line.event()
            {
                visit(&event);
            }
            if line.seq >= to { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }
}
