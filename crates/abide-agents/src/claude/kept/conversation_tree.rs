//! The tree of a session's records, of which each names its parent, as far as it must be known to tell
//! where the conversation went back, and which records are one sidechain.
//!
//! Each prompt of a person begins a turn, and a record belongs to the turn of its parent. A prompt whose
//! parent does not belong to the last turn leaves that turn: the conversation goes back to the parent.
//! Whatever else has such a parent, a late result or a note, leaves nothing; but a prompt behind it goes
//! back to where its branch began, not to it. The last records are remembered, [`MAIN`] of them. A parent
//! that is older is taken for one that the conversation goes back to: the caller finds out whether it is
//! there.

use std::collections::VecDeque;

use abide_model::LaneId;
use serde::{Deserialize, Serialize};

use crate::RewindPlace;
use crate::kept::record_fields::push_within;

/// How many records of the conversation are remembered.
const MAIN: usize = 64;
/// How many reports of progress are: there may be thousands of them in a turn.
const PROGRESS: usize = 8;
/// How many records of sidechains are.
const SIDE: usize = 24;

/// The records that are remembered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ConversationTree {
    /// The last turn.
    turn: u64,
    main: VecDeque<TreeRecord>,
    progress: VecDeque<TreeRecord>,
    /// Records of sidechains, each with the first one of its chain.
    side: VecDeque<(String, String)>,
    /// Some records were forgotten.
    forgot: bool,
}

/// A record: its id, its turn, and where its branch began if its turn was over when it was written.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct TreeRecord(String, u64, Option<String>);

/// What a record is to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeRole {
    /// A prompt of a person.
    Prompt,
    /// A compaction, which goes on with the last turn wherever it hangs.
    Compaction,
    /// A report of progress.
    Progress,
    /// Any other part.
    Other,
}

impl ConversationTree {
    /// Adds a record of the conversation. Returns where it goes back to.
    pub(super) fn add(
        &mut self,
        id: &str,
        parent: Option<&str>,
        role: TreeRole,
    ) -> Option<RewindPlace> {
        // A copy of a line is where it was.
        if self.knows(id) {
            return None;
        }
        let known = parent.and_then(|parent| self.find(parent));
        let (mut turn, mut fork, mut back) = (self.turn, None, None);
        if role == TreeRole::Prompt {
            back = match (parent, known) {
                (_, _) if self.turn == 0 => None,
                (None, _) => Some(RewindPlace::Beginning),
                (Some(_), Some(TreeRecord(_, turn, _))) if *turn == self.turn => None,
                (Some(parent), Some(TreeRecord(_, _, fork))) => {
                    let place = fork.as_deref().unwrap_or(parent);
                    Some(RewindPlace::After(place.to_owned()))
                }
                (Some(parent), None) => self.forgot.then(|| RewindPlace::After(parent.to_owned())),
            };
            self.turn += 1;
            turn = self.turn;
        } else if role != TreeRole::Compaction
            && let Some(TreeRecord(parent, of_parent, branch)) = known
        {
            turn = *of_parent;
            if turn != self.turn {
                fork = Some(branch.as_ref().unwrap_or(parent).clone());
            }
        }
        let record = TreeRecord(id.to_owned(), turn, fork);
        if role == TreeRole::Progress {
            push_within(&mut self.progress, record, PROGRESS);
        } else {
            self.forgot |= push_within(&mut self.main, record, MAIN);
        }
        back
    }

    /// Adds a record of a sidechain. Returns its lane: that of the first record of the chain.
    pub(super) fn add_side(&mut self, id: Option<&str>, parent: Option<&str>) -> LaneId {
        let chain = |wanted: &str| {
            let found = self.side.iter().rev().find(|(id, _)| id == wanted);
            found.map(|(_, first)| first.clone())
        };
        let known = id.and_then(chain);
        let is_copy = known.is_some();
        let first = known.or_else(|| parent.and_then(chain));
        let first = first.unwrap_or_else(|| id.unwrap_or("sidechain").to_owned());
        if let Some(id) = id.filter(|_| !is_copy) {
            push_within(&mut self.side, (id.to_owned(), first.clone()), SIDE);
        }
        LaneId(first)
    }

    /// Whether this record is remembered as a part of the conversation.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.find(id).is_some()
    }

    fn find(&self, id: &str) -> Option<&TreeRecord> {
        let all = self.main.iter().rev().chain(self.progress.iter().rev());
        all.into_iter().find(|record| record.0 == id)
    }
}
