//! What can be undone and what can be done again: two stacks, derived from the events of a journal.
//!
//! An act is a rewind or a compaction. What takes an act back is an event that names it, and so is
//! what does it again; nothing else is stored. A new act empties the second stack, messages do not.
//! Pure: the same events always give the same stacks.

use abide_model::{Event, EventRange, Fact, Kind, LaneId, Seq};

use crate::{Error, Session, SessionView};

/// What an act did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReversibleActKind {
    /// The files or the conversation went back.
    Rewind,
    /// A summary replaced a part of the context.
    Compaction,
}

/// Something that was done to a session and can be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReversibleAct {
    /// What it did.
    pub kind: ReversibleActKind,
    /// The event that did it first.
    pub first: Seq,
    /// The last event about it. Of a rewind: the one that did it, did it again, or took it back; of a
    /// compaction: the one that holds the summary.
    pub at: Seq,
    /// The lane whose context was compacted; `None` for the main one, and for a rewind.
    pub lane: Option<LaneId>,
}

/// The acts of a session that can be undone, and those that were undone and can be done again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UndoHistory {
    done: Vec<ReversibleAct>,
    undone: Vec<ReversibleAct>,
    /// A new rewind of files whose end was not recorded yet.
    unfinished: Option<UnfinishedRewind>,
}

/// A rewind of files that may have been stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UnfinishedRewind {
    at: Seq,
    /// What could be done again before it.
    undone: Vec<ReversibleAct>,
}

impl UndoHistory {
    /// The acts in force, oldest first.
    #[must_use]
    pub fn done(&self) -> &[ReversibleAct] {
        &self.done
    }

    /// The acts that were taken back and can be done again, the next one last.
    #[must_use]
    pub fn undone(&self) -> &[ReversibleAct] {
        &self.undone
    }

    /// Takes the next event of the journal in, whether it is live or not.
    pub fn apply(&mut self, event: &Event) {
        let kinds = [
            Kind::SESSION_REWOUND,
            Kind::FILES_RESTORED,
            Kind::CONTEXT_COMPACTED,
            Kind::CONTEXT_RESTORED,
        ];
        if !kinds.contains(&event.kind) {
            return;
        }
        match event.fact() {
            Ok(Fact::Rewind(rewind)) => {
                let act = (ReversibleActKind::Rewind, event.seq);
                // One that was stopped was never done: it cannot be done again either.
                if let Some(stopped) = self.unfinished.take()
                    && rewind.undoes == Some(stopped.at)
                {
                    self.done.retain(|act| act.at != stopped.at);
                    self.undone = stopped.undone;
                    return;
                }
                if rewind.files && rewind.undoes.is_none() {
                    let undone = self.undone.clone();
                    self.unfinished = Some(UnfinishedRewind { at: event.seq, undone });
                }
                match rewind.undoes {
                    Some(undone) if self.take_back((act.0, undone), Some(event.seq)) => {}
                    Some(undone) if self.do_again((act.0, undone), event.seq) => {}
                    _ => self.begin(act, None),
                }
            }
            Ok(Fact::FilesRestored(restored)) => {
                self.unfinished.take_if(|rewind| rewind.at == restored.rewind);
            }
            Ok(Fact::Compaction(compaction)) => {
                let act = (ReversibleActKind::Compaction, event.seq);
                match compaction.redoes {
                    Some(before) if self.do_again((act.0, before), event.seq) => {}
                    _ => self.begin(act, event.lane.clone()),
                }
            }
            Ok(Fact::ContextRestored(restored)) => {
                self.take_back((ReversibleActKind::Compaction, restored.compaction), None);
            }
            _ => {}
        }
    }

    /// The history of a fork begins here: what its parent did to files is not the fork's to undo.
    fn begin_fork(&mut self) {
        self.done.retain(|act| act.kind == ReversibleActKind::Compaction);
        self.undone.clear();
        self.unfinished = None;
    }

    fn begin(&mut self, (kind, seq): (ReversibleActKind, Seq), lane: Option<LaneId>) {
        self.undone.clear();
        self.done.push(ReversibleAct { kind, first: seq, at: seq, lane });
    }

    /// Returns false if no act in force has this event.
    fn take_back(&mut self, (kind, at): (ReversibleActKind, Seq), by: Option<Seq>) -> bool {
        let place = self.done.iter().rposition(|act| (act.kind, act.at) == (kind, at));
        let Some(place) = place else { return false };
        let act = self.done.remove(place);
        self.undone.push(ReversibleAct { at: by.unwrap_or(act.at), ..act });
        true
    }

    /// Returns false if no act that was taken back has this event.
    fn do_again(&mut self, (kind, at): (ReversibleActKind, Seq), by: Seq) -> bool {
        let place = self.undone.iter().rposition(|act| (act.kind, act.at) == (kind, at));
        let Some(place) = place else { return false };
        let act = self.undone.remove(place);
        self.done.push(ReversibleAct { at: by, ..act });
        true
    }
}

impl SessionView {
    /// The acts that can be undone and done again. Reads the whole journal.
    pub fn undo_history(&self) -> Result<UndoHistory, Error> {
        let parent = self.state()?.core.fields.parent.map(|parent| parent.seq);
        let mut history = UndoHistory::default();
        let mut inherits = parent.is_some();
        for event in self.events(EventRange::ALL) {
            let event = event?;
            if inherits && parent.is_some_and(|parent| event.seq > parent) {
                history.begin_fork();
                inherits = false;
            }
            history.apply(&event);
        }
        if inherits {
            history.begin_fork();
        }
        Ok(history)
    }
}

impl Session {
    /// The newest act that is not taken back: a rewind, or a compaction of the lane; with a lane, only
    /// a compaction.
    pub fn next_undo(&self, lane: Option<&LaneId>) -> Result<Option<ReversibleAct>, Error> {
        let standing = self.writer().lane(lane)?.1.compacted().map(|standing| standing.at);
        let history = self.view().undo_history()?;
        let can_be_undone = |act: &&ReversibleAct| match act.kind {
            ReversibleActKind::Rewind => lane.is_none(),
            // A rewind may have taken it out of the conversation.
            ReversibleActKind::Compaction => act.lane.as_ref() == lane && Some(act.at) == standing,
        };
        let newest = history.done.iter().rev().find(can_be_undone).cloned();
        // The undo of a rewind may have brought a compaction back that had been taken back before it.
        let returned = standing.filter(|at| history.done.iter().all(|act| act.at != *at));
        let returned = returned.filter(|at| newest.as_ref().is_none_or(|act| act.at < *at));
        Ok(match returned {
            Some(at) => Some(ReversibleAct {
                kind: ReversibleActKind::Compaction,
                first: at,
                at,
                lane: lane.cloned(),
            }),
            None => newest,
        })
    }

    /// The act that was taken back last and can be done again.
    pub fn next_redo(&self) -> Result<Option<ReversibleAct>, Error> {
        Ok(self.view().undo_history()?.undone.last().cloned())
    }
}

#[cfg(test)]
mod tests {
    use abide_model::{NewEvent, Timestamp};

    use super::*;

    fn history(lines: &[&str]) -> UndoHistory {
        let mut history = UndoHistory::default();
        for (seq, line) in (1..).zip(lines) {
            let event = NewEvent::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            history.apply(&event.into_event(Seq(seq), Timestamp::from_millis(0)));
        }
        history
    }

    fn firsts(acts: &[ReversibleAct]) -> Vec<u64> {
        acts.iter().map(|act| act.first.0).collect()
    }

    const REWIND: &str = r#"{"kind":"session.rewound","data":{"to":1}}"#;
    const COMPACTION: &str =
        r#"{"kind":"context.compacted","data":{"first":1,"last":1,"summary":"s"}}"#;
    const MESSAGE: &str = r#"{"kind":"message.added","data":{"role":"user","content":"x"}}"#;

    fn undo(seq: u64) -> String {
        format!(r#"{{"kind":"session.rewound","data":{{"to":1,"undoes":{seq}}}}}"#)
    }

    fn restored(seq: u64) -> String {
        format!(r#"{{"kind":"context.restored","data":{{"compaction":{seq}}}}}"#)
    }

    fn compacted_again(seq: u64) -> String {
        let data = format!(r#"{{"first":1,"last":1,"summary":"s","redoes":{seq}}}"#);
        format!(r#"{{"kind":"context.compacted","data":{data}}}"#)
    }

    #[test]
    fn what_is_undone_is_done_again_in_reverse() {
        let one = history(&[MESSAGE, COMPACTION, REWIND]);
        assert_eq!((firsts(one.done()), firsts(one.undone())), (vec![2, 3], vec![]));
        let two = history(&[MESSAGE, COMPACTION, REWIND, &undo(3), &restored(2)]);
        assert_eq!((firsts(two.done()), firsts(two.undone())), (vec![], vec![3, 2]));
        let again = [MESSAGE, COMPACTION, REWIND, &undo(3), &restored(2), &compacted_again(2)];
        let three = history(&again);
        assert_eq!((firsts(three.done()), firsts(three.undone())), (vec![2], vec![3]));
        assert_eq!(three.done()[0].at, Seq(6));
        let four = history(&[&again[..], &[&undo(4)]].concat());
        assert_eq!((firsts(four.done()), firsts(four.undone())), (vec![2, 3], vec![]));
        assert_eq!(four.done()[1].at, Seq(7));
    }

    #[test]
    fn a_new_act_ends_redo_and_a_message_does_not() {
        let undone = [MESSAGE, REWIND, &undo(2)];
        assert_eq!(firsts(history(&[&undone[..], &[MESSAGE]].concat()).undone()), [2]);
        for act in [REWIND, COMPACTION] {
            let after = history(&[&undone[..], &[act]].concat());
            assert_eq!((firsts(after.done()), firsts(after.undone())), (vec![4], vec![]));
        }
    }

    #[test]
    fn what_names_nothing_that_is_known_is_an_act_of_its_own() {
        let foreign = history(&[MESSAGE, &undo(77), &restored(78), &compacted_again(79)]);
        assert_eq!((firsts(foreign.done()), firsts(foreign.undone())), (vec![2, 4], vec![]));
    }
}
