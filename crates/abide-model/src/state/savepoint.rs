//! The way back to a state as it was before some events.
//!
//! What the events change is kept as it was, entry by entry: taking a savepoint costs the core and
//! no page, however much the state holds. Between [`SessionState::savepoint`] and
//! [`SessionState::roll_back`] or [`SessionState::release`] only the events that were named may be
//! applied, besides those that a writer begins with.

use super::{Core, KEYS, SessionState, each_table};
use crate::{Event, Kind};

/// A state as it was before some events.
#[derive(Debug)]
pub struct Savepoint(Kept);

#[derive(Debug)]
enum Kept {
    /// The core; each table keeps what is changed in it.
    Core(Box<Core>),
    /// All of it, where tables are replaced as a whole.
    Whole(Box<SessionState>),
}

impl SessionState {
    /// Begins to keep what these events change.
    #[must_use]
    pub fn savepoint<'a>(&mut self, events: impl IntoIterator<Item = &'a Event>) -> Savepoint {
        let [keys, _] = &self.keys;
        let mut keyed = keys.len();
        let mut replaces = false;
        for event in events {
            keyed += u64::from(event.key.is_some());
            // A rewind and a fork have the state of another place, and full keys are put aside.
            replaces |= event.kind == Kind::SESSION_REWOUND
                || event.kind == Kind::SESSION_CREATED
                || keyed > KEYS;
        }
        if replaces {
            return Savepoint(Kept::Whole(Box::new(self.clone())));
        }
        each_table!(self, |_index, table| table.begin());
        Savepoint(Kept::Core(Box::new(self.core.clone())))
    }

    /// Takes back what was applied since the savepoint.
    pub fn roll_back(&mut self, savepoint: Savepoint) {
        match savepoint.0 {
            Kept::Core(core) => {
                self.core = *core;
                each_table!(self, |_index, table| table.roll_back());
            }
            Kept::Whole(state) => *self = *state,
        }
    }

    /// Keeps what was applied since the savepoint.
    pub fn release(&mut self, _savepoint: Savepoint) {
        each_table!(self, |_index, table| table.release());
    }
}
