//! What a cleanup would do, told from what is known of the sessions. Pure; the store removes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use abide_journal::CollectionSummary;
use abide_model::{
    CheckpointFacts, KeepReason, Retention, Seq, SessionFacts, SessionId, Timestamp,
    plan_checkpoints, plan_retention,
};

use crate::cleanup_rules::CleanupRules;
use crate::segment_sealing::UnsealedSegments;
use crate::session_removal::SessionRemoval;

/// The clock is far ahead of when the store was last used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockJump {
    /// When the store was last used.
    pub seen: Timestamp,
    /// The current time.
    pub now: Timestamp,
}

/// What a cleanup needs to know of a session.
#[derive(Debug, Clone)]
pub struct StoredSession {
    /// What retention needs to know. The plan sets its group.
    pub facts: SessionFacts,
    /// Its title.
    pub title: Option<String>,
    /// Its last event.
    pub last: Seq,
    /// Its own checkpoints, where some may be dropped.
    pub checkpoints: Vec<CheckpointFacts>,
    /// The id of its project, if it has one.
    pub project: Option<String>,
    /// The directory of its workspace.
    pub workspace: Option<PathBuf>,
}

/// What a cleanup would do.
#[derive(Debug, Clone, Default)]
pub struct CleanupPlan {
    /// The sessions to remove, forks before their parents.
    pub sessions: Vec<SessionRemoval>,
    /// Sessions that stay although they exceed a limit.
    pub kept: Vec<(SessionId, KeepReason)>,
    /// The numbers of checkpoints to remove, by session.
    pub checkpoints: Vec<(SessionId, Vec<u64>)>,
    /// How many earlier removals are unfinished.
    pub leftovers: u64,
    /// The objects that nothing would name; `None` if that is unknown.
    pub objects: Option<CollectionSummary>,
    /// What would be compressed. Nothing is lost by it, so it is not asked about.
    pub unsealed: UnsealedSegments,
    /// Set if the clock seems to have jumped forward.
    pub jumped: Option<ClockJump>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Every fork in the store, with its parent.
    pub forks: Vec<(SessionId, SessionId)>,
}

impl CleanupPlan {
    /// Which of all sessions of a store go, and which checkpoints of those that stay. `seen` is when
    /// the clock was last taken to be right; without it, the last use of any session counts. What is
    /// removed has no name yet.
    #[must_use]
    pub fn of(
        sessions: &mut [StoredSession],
        rules: &CleanupRules,
        now: Timestamp,
        seen: Option<Timestamp>,
    ) -> Self {
        let mut plan = Self::default();
        let newest = sessions.iter().map(|session| session.facts.last_used).max();
        let jumped = |seen: &Timestamp| {
            rules.any(|settings| settings.needs_clock() && settings.clock_jumped(*seen, now))
        };
        plan.jumped = seen.or(newest).filter(jumped).map(|seen| ClockJump { seen, now });
        let groups = rules.groups();
        for session in &mut *sessions {
            let group = rules.group_of(session.project.as_deref(), session.workspace.as_deref());
            session.facts.group = group.unwrap_or(groups.len());
        }
        let facts: Vec<SessionFacts> =
            sessions.iter().map(|session| session.facts.clone()).collect();
        let planned = plan_retention(now, &facts, &groups);
        let by_id: HashMap<SessionId, &StoredSession> =
            sessions.iter().map(|session| (session.facts.id, session)).collect();
        plan.kept = planned.keep;
        let fork =
            |session: &StoredSession| session.facts.parent.map(|parent| (session.facts.id, parent));
        plan.forks = sessions.iter().filter_map(fork).collect();
        for (id, reason) in &planned.remove {
            if let Some(session) = by_id.get(id) {
                plan.sessions.push(SessionRemoval {
                    id: *id,
                    title: session.title.clone(),
                    name: None,
                    last_used: session.facts.last_used,
                    last: session.last,
                    bytes: session.facts.bytes,
                    reason: *reason,
                    project: session.project.clone(),
                });
            }
        }
        let going: HashSet<SessionId> = planned.remove.iter().map(|(id, _)| *id).collect();
        plan.checkpoints = checkpoints_to_drop(sessions, &going, &groups, now);
        plan
    }

    /// Whether there is nothing to remove.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
            && self.checkpoints.is_empty()
            && self.leftovers == 0
            && self.objects.is_none_or(|objects| objects.objects_removed == 0)
    }

    /// The numbers of a session's checkpoints to remove.
    #[must_use]
    pub fn checkpoints_of(&self, session: SessionId) -> BTreeSet<u64> {
        let of = self.checkpoints.iter().filter(|(id, _)| *id == session);
        of.flat_map(|(_, numbers)| numbers.iter().copied()).collect()
    }

    /// A fork of a session that is not among those removed.
    #[must_use]
    pub fn fork_that_stays(&self, parent: SessionId, gone: &[SessionRemoval]) -> Option<SessionId> {
        let of = self.forks.iter().filter(|(_, of)| *of == parent);
        of.map(|(fork, _)| *fork).find(|fork| gone.iter().all(|session| session.id != *fork))
    }
}

/// The numbers of the checkpoints to drop of sessions that stay.
fn checkpoints_to_drop(
    sessions: &[StoredSession],
    going: &HashSet<SessionId>,
    groups: &[Retention],
    now: Timestamp,
) -> Vec<(SessionId, Vec<u64>)> {
    let staying = || sessions.iter().filter(|session| !going.contains(&session.facts.id));
    // A fork can rewind to the checkpoints of its ancestors.
    let parents: HashSet<SessionId> =
        staying().filter_map(|session| session.facts.parent).collect();
    let alone =
        |session: &&StoredSession| !session.facts.in_use && !parents.contains(&session.facts.id);
    let mut dropped = Vec::new();
    for session in staying().filter(alone) {
        let Some(settings) = groups.get(session.facts.group) else { continue };
        let numbers = plan_checkpoints(now, &session.checkpoints, settings);
        if !numbers.is_empty() {
            dropped.push((session.facts.id, numbers));
        }
    }
    dropped
}
