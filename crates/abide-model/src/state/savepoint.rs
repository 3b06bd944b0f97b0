//! Savepoints: return to the state before some events.
//!
//! Entries that the events change are saved one by one, so a savepoint costs a copy of the core and
//! no page, however large the state is. Between [`SessionState::savepoint`] and
//! [`SessionState::roll_back`] or [`SessionState::release`] only the given events may be applied,
//! and those that a writer starts with.

use super::{KEYS, SessionCore, SessionState, each_table};
use crate::{Event, Kind};

/// The state before some events.
#[derive(Debug)]
pub struct Savepoint(SavedState);

#[derive(Debug)]
enum SavedState {
    /// The core; each table saves what is changed in it.
    Core(Box<SessionCore>),
    /// The whole state, if tables will be replaced.
    Whole(Box<SessionState>),
}

impl SessionState {
    /// Starts to save what these events change.
    #[must_use]
    pub fn savepoint<'a>(&mut self, events: impl IntoIterator<Item = &'a Event>) -> Savepoint {
        let [keys, _] = &self.keys;
        let mut keyed = keys.len();
        let mut replaces = false;
        for event in events {
            // The count may come from a state cache, which can hold any number.
            keyed = keyed.saturating_add(u64::from(event.key.is_some()));
            // A rewind and a fork replace the state, and a full table of keys is set aside.
            replaces |= event.kind == Kind::SESSION_REWOUND
                || event.kind == Kind::SESSION_CREATED
                || keyed > KEYS;
        }
        if replaces {
            return Savepoint(SavedState::Whole(Box::new(self.clone())));
        }
        each_table!(self, |_index, table| table.begin());
        Savepoint(SavedState::Core(Box::new(self.core.clone())))
    }

    /// Undoes what was applied since the savepoint.
    pub fn roll_back(&mut self, savepoint: Savepoint) {
        match savepoint.0 {
            SavedState::Core(core) => {
                self.core = *core;
                each_table!(self, |_index, table| table.roll_back());
            }
            SavedState::Whole(state) => *self = *state,
        }
    }

    /// Accepts what was applied since the savepoint.
    pub fn release(&mut self, _savepoint: Savepoint) {
        each_table!(self, |_index, table| table.release());
    }
}
