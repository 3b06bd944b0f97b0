//! The checkpoints that hooks of agents make at each prompt and at the end of each turn: old ones go.

use std::collections::BTreeMap;
use std::time::Duration;

use abide_model::{
    CheckpointFacts, Retention, SessionId, SessionRef, Thinning, TimeSpan, Timestamp,
    plan_checkpoints,
};

use crate::checkpoint::{Trigger, droppable_checkpoints};
use crate::{Error, SessionView, Store};

/// How long a session is waited for that another process holds.
const NO_WAIT: Duration = Duration::ZERO;

/// What is kept of the checkpoints that are made at prompts and at the ends of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutomaticCheckpointLimits {
    /// Those that are older go. Of those that are older than a day, one an hour stays, and of those older
    /// than a week one a day.
    pub max_age: TimeSpan,
    /// When they have stored more bytes than this, the oldest go.
    pub max_bytes: u64,
}

/// What went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DroppedAutomaticCheckpoints {
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes that are free now.
    pub freed: u64,
}

/// A checkpoint that may go.
struct AutomaticCheckpoint {
    session: SessionId,
    number: u64,
    at: Timestamp,
    stored: u64,
}

impl Store {
    /// Drops automatic checkpoints of these sessions that the limits do not keep, and frees what only they
    /// held. The newest of each session stays, and those that have a label, are pinned or needed. A session
    /// that another process holds is left alone.
    pub fn drop_automatic_checkpoints(
        &self,
        sessions: &[SessionId],
        limits: AutomaticCheckpointLimits,
    ) -> Result<DroppedAutomaticCheckpoints, Error> {
        let files = self.files("checkpoints of hooks")?;
        let retention = Retention {
            thin: true,
            max_checkpoint_age: Some(limits.max_age),
            ..Retention::default()
        };
        let mut dropped: BTreeMap<SessionId, Vec<u64>> = BTreeMap::new();
        let mut kept: Vec<AutomaticCheckpoint> = Vec::new();
        for session in sessions.iter().copied().filter(|session| !self.is_held(*session)) {
            // What cannot be read now is looked at another time.
            let Ok(view) = self.view(&SessionRef::Id(session)) else { continue };
            let Ok((facts, sizes)) = facts_of(&view) else { continue };
            let numbers = plan_checkpoints(self.now(), &facts, &retention);
            let newest = facts.iter().max_by_key(|facts| (facts.at, facts.number));
            let newest = newest.map(|facts| facts.number);
            kept.extend(facts.iter().filter(|facts| !facts.pinned && !facts.thinned).filter_map(
                |facts| {
                    let stays = !numbers.contains(&facts.number) && newest != Some(facts.number);
                    let stored = sizes.get(&facts.number).copied().unwrap_or_default();
                    let (number, at) = (facts.number, facts.at);
                    stays.then_some(AutomaticCheckpoint { session, number, at, stored })
                },
            ));
            if !numbers.is_empty() {
                dropped.insert(session, numbers);
            }
        }
        kept.sort_by_key(|checkpoint| (checkpoint.at, checkpoint.number));
        let mut stored: u64 = kept.iter().map(|checkpoint| checkpoint.stored).sum();
        for checkpoint in kept {
            if stored <= limits.max_bytes {
                break;
            }
            stored -= checkpoint.stored;
            dropped.entry(checkpoint.session).or_default().push(checkpoint.number);
        }
        let mut outcome = DroppedAutomaticCheckpoints::default();
        for (session, numbers) in dropped {
            // No fork is made meanwhile that could go back to them.
            let Ok(locked) = files.cleaner().lock_dropped_checkpoints(session, numbers) else {
                continue;
            };
            let store = self.clone().waiting(NO_WAIT);
            let Ok(session) = store.open_session(&SessionRef::Id(session)) else { continue };
            // One that was pinned or is needed since stays.
            let (facts, _) = facts_of(session.view())?;
            let may_go = |number: &u64| {
                facts.iter().any(|facts| facts.number == *number && !facts.pinned && !facts.thinned)
            };
            let numbers: Vec<u64> = locked.numbers.iter().copied().filter(may_go).collect();
            if !numbers.is_empty() {
                outcome.checkpoints += numbers.len() as u64;
                session.append(Thinning { checkpoints: numbers })?.wait()?;
            }
            session.close()?;
        }
        if outcome.checkpoints > 0 {
            let collected =
                self.collector("checkpoints of hooks")?.collect_objects(NO_WAIT, &mut Vec::new());
            // What is in use now is freed by the next cleanup.
            outcome.freed = collected.map(|collected| collected.bytes_freed).unwrap_or_default();
        }
        Ok(outcome)
    }
}

/// The checkpoints of a session, those pinned that are not automatic or that something needs; and what each
/// has stored.
fn facts_of(view: &SessionView) -> Result<(Vec<CheckpointFacts>, BTreeMap<u64, u64>), Error> {
    let state = view.state()?;
    let mut facts = droppable_checkpoints(&state);
    let automatic = [Trigger::Prompt.as_str(), Trigger::Turn.as_str()];
    for facts in &mut facts {
        let known = state.checkpoints.get(&facts.number.to_string());
        facts.pinned |= known.is_none_or(|known| {
            known.label.is_some() || !automatic.contains(&known.trigger.as_str())
        });
    }
    let mut sizes = BTreeMap::new();
    for entry in view.checkpoints()? {
        let stored = entry.checkpoint.workspace.map_or(0, |workspace| workspace.stored.1);
        sizes.insert(entry.number, stored);
    }
    Ok((facts, sizes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::checkpoint::CheckpointRequest;
    use crate::{NewSession, SessionFields};

    #[test]
    fn the_oldest_automatic_checkpoints_go_when_they_have_stored_too_much() {
        let dir = tempfile::tempdir().unwrap();
        let (root, place) = (dir.path().join("work"), dir.path().join("store"));
        fs::create_dir(&root).unwrap();
        let store =
            Store::local(crate::LocalStore::init(&place, crate::LocalOptions::default()).unwrap());
        let workspace = Some(root.to_string_lossy().into_owned());
        let fields = SessionFields { workspace, ..SessionFields::default() };
        let session = store.create(NewSession::from(fields)).unwrap();
        let save = |text: char, trigger: Trigger, label: Option<&str>| {
            // Nothing of it is in another one.
            let noise: String = (0..20_000_u32)
                .map(|n| format!("{text}{}", n.wrapping_mul(2_654_435_761)))
                .collect();
            fs::write(root.join("file"), noise).unwrap();
            let label = label.map(str::to_owned);
            session.checkpoint(&CheckpointRequest {
                trigger,
                label,
                ..CheckpointRequest::default()
            })
        };
        save('a', Trigger::Prompt, None).unwrap();
        save('b', Trigger::Turn, Some("named")).unwrap();
        save('c', Trigger::Hand, None).unwrap();
        save('d', Trigger::Turn, None).unwrap();
        save('e', Trigger::Turn, None).unwrap();
        let id = session.id();
        session.close().unwrap();
        let left = || -> Vec<u64> {
            let view = store.view(&SessionRef::Id(id)).unwrap();
            view.checkpoints().unwrap().iter().map(|entry| entry.number).collect()
        };
        let age = TimeSpan::from_millis(1_000_000);
        let room = AutomaticCheckpointLimits { max_age: age, max_bytes: 1 << 30 };
        let nothing = store.drop_automatic_checkpoints(&[id], room).unwrap();
        assert_eq!((nothing.checkpoints, left()), (0, vec![1, 2, 3, 4, 5]));
        let entries = store.view(&SessionRef::Id(id)).unwrap().checkpoints().unwrap();
        let stored =
            |number: usize| entries[number - 1].checkpoint.workspace.as_ref().unwrap().stored.1;
        // Room for one of the two that may go.
        let tight = AutomaticCheckpointLimits { max_age: age, max_bytes: stored(4) };
        let one = store.drop_automatic_checkpoints(&[id], tight).unwrap();
        assert_eq!((one.checkpoints, left()), (1, vec![2, 3, 4, 5]));
        let none = AutomaticCheckpointLimits { max_age: age, max_bytes: 0 };
        store.drop_automatic_checkpoints(&[id], none).unwrap();
        assert_eq!(left(), [2, 3, 5], "the newest stays, and what is no hook's");
        let held = store.open_session(&SessionRef::Id(id)).unwrap();
        save_nothing(&store, id);
        held.close().unwrap();
    }

    /// A session that is held is left alone.
    fn save_nothing(store: &Store, id: SessionId) {
        let none = AutomaticCheckpointLimits { max_age: TimeSpan::from_millis(0), max_bytes: 0 };
        let dropped = store.drop_automatic_checkpoints(&[id], none).unwrap();
        assert_eq!(dropped, DroppedAutomaticCheckpoints::default());
    }
}
