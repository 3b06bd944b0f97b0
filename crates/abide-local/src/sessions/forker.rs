//! Forks a session: creates a new one that continues from an event of another.
//!
//! Nothing is copied. The new journal starts with the seq and the sum that follow from the event it
//! was forked at, so the chain is unbroken, and `session.created` names the parent. Only durable
//! events can be forked from.

use std::time::Duration;

use abide_model::{
    CreatedSession, NewSession, ParentReason, Seq, SessionFields, SessionId, SessionParent,
    StoreError,
};

use crate::error::store_error;
use crate::sessions::local_store::{LocalStartingState, LocalStore};
use crate::sessions::session_ancestry::{MAX_FORKS, MissingParentPolicy, state_to_fork};
use crate::sessions::settle::settle_session;
use crate::store_layout::layout_path_text;

/// Forks the sessions of a store, and knows their forks.
#[derive(Debug)]
pub struct Forker<'a> {
    pub(crate) store: &'a LocalStore,
}

impl Forker<'_> {
    /// As [`Store::fork`](abide_model::Store::fork).
    pub fn fork(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<CreatedSession, StoreError> {
        let _parents_stay = self.store.cleaner().keep_sessions()?;
        self.store.layout_of(parent)?;
        self.store.make(session, |_, session| self.begin_fork(parent, at, session))
    }

    fn begin_fork(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<(NewSession, LocalStartingState), StoreError> {
        let at = self.durable_place(parent, at)?;
        let reader = self.store.reader(parent)?;
        let past = reader.past().map_err(store_error)?;
        if past.depth() >= MAX_FORKS {
            return Err(StoreError::Damaged {
                place: format!("session {parent}"),
                reason: format!("it already has {MAX_FORKS} ancestors, the most allowed"),
            });
        }
        let sum = reader.sum_in_ancestry(at).map_err(store_error)?.ok_or_else(|| {
            StoreError::Damaged {
                place: layout_path_text(reader.journal().dir()),
                reason: format!("event @{at} cannot be read"),
            }
        })?;
        let state = state_to_fork(&reader, at).map_err(store_error)?;
        let link = SessionParent { session: parent, seq: at, reason: ParentReason::Fork };
        let like = SessionFields {
            project_id: self.store.finder().project_of(parent)?,
            ..state.core.fields.clone()
        };
        let session = session.forked(link, &like);
        Ok((session, LocalStartingState { last: (at, sum), state }))
    }

    /// The event to fork at: the last acknowledged one, or one before it. Durable on return.
    pub(crate) fn durable_place(
        &self,
        parent: SessionId,
        at: Option<Seq>,
    ) -> Result<Seq, StoreError> {
        let reader = self.store.reader(parent)?;
        let marked = || reader.mark().map(|mark| mark.map(|mark| mark.seq)).map_err(store_error);
        let mut last = marked()?;
        if last.is_none_or(|last| at.is_some_and(|at| at > last)) {
            // Make durable what was written and may not be, unless its writer is still at work.
            let layout = self.store.layout_of(parent)?;
            if let Ok(lock) = self.store.lock_session(parent, &layout, Duration::ZERO) {
                settle_session(self.store, parent, &layout, lock)?;
                last = Some(reader.last().map_err(store_error)?);
            }
        }
        let last = last.unwrap_or(Seq::ZERO);
        let at = at.unwrap_or(last);
        if at == Seq::ZERO || at > last {
            return Err(StoreError::NoEvent { session: parent, seq: at, last });
        }
        Ok(at)
    }

    /// Every fork in the store, with the session and the event it continues from. A session must
    /// stay as long as one of its forks does. Reads the start of each journal.
    pub fn all(&self) -> Result<Vec<(SessionId, SessionParent)>, StoreError> {
        let mut forks = Vec::new();
        for (id, layout) in self.store.directory().all().map_err(store_error)? {
            let reader = self.store.reader_at(id, &layout);
            if reader.journal().origin().map_err(store_error)?.is_fork() {
                let link = reader.past().map_err(store_error)?.link();
                forks.extend(link.map(|parent| (id, parent)));
            }
        }
        forks.sort_unstable_by_key(|(id, _)| *id);
        Ok(forks)
    }

    /// The forks of a session that are in the store.
    pub fn of(&self, session: SessionId) -> Result<Vec<SessionId>, StoreError> {
        let forks = self.all()?.into_iter().filter(|(_, parent)| parent.session == session);
        Ok(forks.map(|(id, _)| id).collect())
    }

    /// The session that a fork comes from.
    pub(crate) fn parent_of(&self, session: SessionId) -> Result<Option<SessionId>, StoreError> {
        let reader = self.store.reader(session)?;
        let link = reader.past().map_err(store_error)?.link();
        if link.is_some() {
            return Ok(link.map(|parent| parent.session));
        }
        let state = reader.look(MissingParentPolicy::PassOver).map_err(store_error)?.state;
        Ok(state.core.fields.parent.map(|parent| parent.session))
    }

    /// The descendants of this session: its forks, and theirs.
    pub(crate) fn descendants_of(&self, session: SessionId) -> Result<Vec<SessionId>, StoreError> {
        let mut parents = Vec::new();
        for name in self.store.names()? {
            if let Ok(abide_journal::JournalIdentity::Known(id)) =
                self.store.identify(&self.store.layout().session(&name))
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
