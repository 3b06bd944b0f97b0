//! Retention: which sessions and checkpoints are deleted. Pure: facts in, a plan out.
//!
//! Protected sessions are never deleted: those in use, the newest `min_keep`, failed or interrupted
//! ones, and the parents of sessions that stay. Of the rest, the limits delete the oldest first:
//! `max_size`, `max_count`, `max_age`. Sessions may be divided into groups with their own settings;
//! each group is counted separately.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ByteSize, LimitOverride, SessionId, SessionStatus, TimeSpan, Timestamp};

const HOUR: i64 = 60 * 60 * 1000;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// `[retention]`: what is deleted. Without a limit, nothing is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Delete sessions that were not used for this long.
    pub max_age: Option<TimeSpan>,
    /// Keep at most this many sessions.
    pub max_count: Option<u64>,
    /// Delete sessions until the rest fit into this size.
    pub max_size: Option<ByteSize>,
    /// Keep sessions that failed or were interrupted.
    pub keep_failed: bool,
    /// Always keep this many of the newest, whatever the limits say.
    pub min_keep: u64,
    /// Thin old checkpoints.
    pub thin: bool,
    /// Keep at most this many checkpoints of a session.
    pub max_checkpoints: Option<u64>,
    /// Drop checkpoints that are older than this.
    pub max_checkpoint_age: Option<TimeSpan>,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            max_age: None,
            max_count: None,
            max_size: None,
            keep_failed: true,
            min_keep: 10,
            thin: false,
            max_checkpoints: None,
            max_checkpoint_age: None,
        }
    }
}

impl Retention {
    /// Is any limit set?
    #[must_use]
    pub const fn is_set(&self) -> bool {
        self.max_age.is_some()
            || self.max_count.is_some()
            || self.max_size.is_some()
            || self.drops_checkpoints()
    }

    /// Does any setting drop checkpoints of sessions that stay?
    #[must_use]
    pub const fn drops_checkpoints(&self) -> bool {
        self.thin || self.max_checkpoints.is_some() || self.max_checkpoint_age.is_some()
    }

    /// The same settings without those that depend on the clock.
    #[must_use]
    pub fn without_clock(self) -> Self {
        Self { max_age: None, thin: false, max_checkpoint_age: None, ..self }
    }

    /// Does any setting depend on the clock?
    #[must_use]
    pub const fn needs_clock(&self) -> bool {
        self.max_age.is_some() || self.thin || self.max_checkpoint_age.is_some()
    }

    /// Has the clock probably jumped forward since the store was last seen at `seen`? Assumed if
    /// more than a quarter of the shorter age has passed, but at least a day and at most a week.
    #[must_use]
    pub fn clock_jumped(&self, seen: Timestamp, now: Timestamp) -> bool {
        let shorter = [self.max_age, self.max_checkpoint_age].into_iter().flatten().min();
        let quarter = shorter.map_or(WEEK, |age| age.as_millis() / 4).clamp(DAY, WEEK);
        now.as_millis().saturating_sub(seen.as_millis()) > quarter
    }
}

/// Settings that override others. A setting that is not given is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionOverrides {
    /// See [`Retention::max_age`].
    pub max_age: Option<LimitOverride<TimeSpan>>,
    /// See [`Retention::max_count`].
    pub max_count: Option<LimitOverride<u64>>,
    /// See [`Retention::max_size`].
    pub max_size: Option<LimitOverride<ByteSize>>,
    /// See [`Retention::keep_failed`].
    pub keep_failed: Option<bool>,
    /// See [`Retention::min_keep`].
    pub min_keep: Option<u64>,
    /// See [`Retention::thin`].
    pub thin: Option<bool>,
    /// See [`Retention::max_checkpoints`].
    pub max_checkpoints: Option<LimitOverride<u64>>,
    /// See [`Retention::max_checkpoint_age`].
    pub max_checkpoint_age: Option<LimitOverride<TimeSpan>>,
}

impl RetentionOverrides {
    /// `settings` with these overrides.
    #[must_use]
    pub fn over(&self, settings: &Retention) -> Retention {
        Retention {
            max_age: LimitOverride::over(self.max_age, settings.max_age),
            max_count: LimitOverride::over(self.max_count, settings.max_count),
            max_size: LimitOverride::over(self.max_size, settings.max_size),
            keep_failed: self.keep_failed.unwrap_or(settings.keep_failed),
            min_keep: self.min_keep.unwrap_or(settings.min_keep),
            thin: self.thin.unwrap_or(settings.thin),
            max_checkpoints: LimitOverride::over(self.max_checkpoints, settings.max_checkpoints),
            max_checkpoint_age: LimitOverride::over(
                self.max_checkpoint_age,
                settings.max_checkpoint_age,
            ),
        }
    }
}

/// What retention needs to know about a session.
#[derive(Debug, Clone)]
pub struct SessionFacts {
    /// Its id.
    pub id: SessionId,
    /// The time of its last event.
    pub last_used: Timestamp,
    /// Its status. If its writer died, it is interrupted.
    pub status: SessionStatus,
    /// Its size on disk.
    pub bytes: u64,
    /// The session it was forked from.
    pub parent: Option<SessionId>,
    /// A writer has it open, or it cannot be read.
    pub in_use: bool,
    /// The index of its settings.
    pub group: usize,
}

/// Why a session is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalReason {
    /// The sessions take more than `max_size`.
    Size,
    /// There are more than `max_count` sessions.
    Count,
    /// It was not used for `max_age`.
    Age,
}

impl fmt::Display for RemovalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "over max_size",
            Self::Count => "over max_count",
            Self::Age => "older than max_age",
        })
    }
}

/// Why a session is kept although a limit would delete it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepReason {
    /// A writer has it open, or it cannot be read.
    InUse,
    /// It is one of the newest `min_keep`.
    MinKeep,
    /// It failed or was interrupted.
    Failed,
    /// A fork of it is kept.
    Parent,
}

/// The sessions to delete, and those kept although a limit would delete them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionPlan {
    /// To delete, oldest first.
    pub remove: Vec<(SessionId, RemovalReason)>,
    /// To keep, oldest first.
    pub keep: Vec<(SessionId, KeepReason)>,
}

/// Decides which sessions to delete. `settings` holds those of each group; a session whose group
/// has none is kept.
#[must_use]
pub fn plan_retention(
    now: Timestamp,
    sessions: &[SessionFacts],
    settings: &[Retention],
) -> RetentionPlan {
    let mut oldest: Vec<&SessionFacts> = sessions.iter().collect();
    oldest.sort_unstable_by_key(|session| (session.last_used, session.id));
    let mut protected = HashMap::new();
    let mut groups: Vec<RetentionGroup<'_>> = settings.iter().map(RetentionGroup::new).collect();
    for (number, group) in groups.iter_mut().enumerate() {
        let of: Vec<&SessionFacts> =
            oldest.iter().filter(|session| session.group == number).copied().collect();
        protected.extend(protected_by_retention(&of, group.settings));
        of.iter().for_each(|session| group.add(session));
    }
    let known: HashSet<SessionId> = sessions.iter().map(|session| session.id).collect();
    let mut forks: HashMap<SessionId, u64> = HashMap::new();
    for parent in sessions.iter().filter_map(|session| session.parent) {
        *forks.entry(parent).or_default() += u64::from(known.contains(&parent));
    }
    let mut plan = RetentionPlan::default();
    let mut removed: HashSet<SessionId> = HashSet::new();
    // A parent can be deleted once its last fork is: repeat until nothing more is deleted.
    loop {
        let before = removed.len();
        for session in &oldest {
            let stays = removed.contains(&session.id)
                || protected.contains_key(&session.id)
                || forks.get(&session.id).is_some_and(|forks| *forks > 0);
            if stays {
                continue;
            }
            let Some(group) = groups.get_mut(session.group) else { continue };
            if let Some(reason) = group.wants_gone(now, session) {
                plan.remove.push((session.id, reason));
                removed.insert(session.id);
                group.remove(session);
                if let Some(forks) = session.parent.and_then(|parent| forks.get_mut(&parent)) {
                    *forks = forks.saturating_sub(1);
                }
            }
        }
        if removed.len() == before {
            break;
        }
    }
    for session in oldest.iter().filter(|session| !removed.contains(&session.id)) {
        let wanted = groups.get(session.group).and_then(|group| group.wants_gone(now, session));
        if wanted.is_some() {
            let reason = protected.get(&session.id).copied().unwrap_or(KeepReason::Parent);
            plan.keep.push((session.id, reason));
        }
    }
    plan
}

/// The remaining sessions of one group.
struct RetentionGroup<'a> {
    settings: &'a Retention,
    count: u64,
    bytes: u64,
}

impl<'a> RetentionGroup<'a> {
    const fn new(settings: &'a Retention) -> Self {
        Self { settings, count: 0, bytes: 0 }
    }

    const fn add(&mut self, session: &SessionFacts) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(session.bytes);
    }

    const fn remove(&mut self, session: &SessionFacts) {
        self.count -= 1;
        self.bytes = self.bytes.saturating_sub(session.bytes);
    }

    /// The limit that deletes a session, given the sessions that remain.
    fn wants_gone(&self, now: Timestamp, session: &SessionFacts) -> Option<RemovalReason> {
        let age = now.as_millis().saturating_sub(session.last_used.as_millis());
        if self.settings.max_size.is_some_and(|max| self.bytes > max.0) {
            Some(RemovalReason::Size)
        } else if self.settings.max_count.is_some_and(|max| self.count > max) {
            Some(RemovalReason::Count)
        } else {
            let old = self.settings.max_age.is_some_and(|max| age > max.as_millis());
            old.then_some(RemovalReason::Age)
        }
    }
}

/// The protected sessions of a group.
fn protected_by_retention(
    oldest: &[&SessionFacts],
    settings: &Retention,
) -> HashMap<SessionId, KeepReason> {
    let newest =
        oldest.len().saturating_sub(usize::try_from(settings.min_keep).unwrap_or(usize::MAX));
    let reason = |(place, session): (usize, &&SessionFacts)| {
        let failed = matches!(session.status, SessionStatus::Failed | SessionStatus::Interrupted);
        let reason = if session.in_use {
            KeepReason::InUse
        } else if place >= newest {
            KeepReason::MinKeep
        } else if settings.keep_failed && failed {
            KeepReason::Failed
        } else {
            return None;
        };
        Some((session.id, reason))
    };
    oldest.iter().enumerate().filter_map(reason).collect()
}

/// What thinning needs to know about a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointFacts {
    /// Its number.
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    /// It is never thinned: it is pinned, or something needs it.
    pub pinned: bool,
    /// It was thinned before.
    pub thinned: bool,
}

/// Decides which checkpoints of a session to drop: those that thinning drops, those beyond the
/// newest `max_checkpoints`, those older than `max_checkpoint_age`. The newest checkpoint and pinned
/// ones are always kept.
#[must_use]
pub fn plan_checkpoints(
    now: Timestamp,
    checkpoints: &[CheckpointFacts],
    settings: &Retention,
) -> Vec<u64> {
    let mut newest_first: Vec<&CheckpointFacts> =
        checkpoints.iter().filter(|checkpoint| !checkpoint.thinned).collect();
    newest_first.sort_unstable_by_key(|checkpoint| (checkpoint.at, checkpoint.number));
    newest_first.reverse();
    let mut dropped: BTreeSet<u64> = BTreeSet::new();
    if settings.thin {
        dropped.extend(plan_thinning(now, checkpoints));
    }
    let mut kept = 0;
    for (place, checkpoint) in newest_first.into_iter().enumerate() {
        let age = now.as_millis().saturating_sub(checkpoint.at.as_millis());
        let over = settings.max_checkpoints.is_some_and(|most| kept >= most);
        let old = settings.max_checkpoint_age.is_some_and(|most| age > most.as_millis());
        if place > 0 && !checkpoint.pinned && (over || old) {
            dropped.insert(checkpoint.number);
        }
        kept += u64::from(!dropped.contains(&checkpoint.number));
    }
    dropped.into_iter().collect()
}

/// Decides which checkpoints of a session to thin. All of the last day are kept, of the week before
/// that the newest of each hour, and of older ones the newest of each day. The newest checkpoint
/// and pinned ones are always kept.
#[must_use]
pub fn plan_thinning(now: Timestamp, checkpoints: &[CheckpointFacts]) -> Vec<u64> {
    let mut newest_first: Vec<&CheckpointFacts> =
        checkpoints.iter().filter(|checkpoint| !checkpoint.thinned).collect();
    newest_first.sort_unstable_by_key(|checkpoint| (checkpoint.at, checkpoint.number));
    newest_first.reverse();
    let mut taken: BTreeSet<(i64, i64)> = BTreeSet::new();
    let mut thinned = BTreeSet::new();
    for (place, checkpoint) in newest_first.iter().enumerate() {
        let at = checkpoint.at.as_millis();
        let unit = match now.as_millis().saturating_sub(at) {
            i64::MIN..=DAY => continue,
            age if age <= WEEK => HOUR,
            _ => DAY,
        };
        let first_of_its_time = taken.insert((unit, at.div_euclid(unit)));
        if !first_of_its_time && place > 0 && !checkpoint.pinned {
            thinned.insert(checkpoint.number);
        }
    }
    thinned.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_763_169_600_000;

    fn id(n: u8) -> SessionId {
        SessionId::new(Timestamp::from_millis(NOW), [n; 10])
    }

    /// Session `n`, last used `days` ago, of 100 bytes.
    fn session(n: u8, days: i64) -> SessionFacts {
        SessionFacts {
            id: id(n),
            last_used: Timestamp::from_millis(NOW - days * DAY),
            status: SessionStatus::Completed,
            bytes: 100,
            parent: None,
            in_use: false,
            group: 0,
        }
    }

    fn removed(sessions: &[SessionFacts], settings: &Retention) -> Vec<(SessionId, RemovalReason)> {
        plan_retention(Timestamp::from_millis(NOW), sessions, std::slice::from_ref(settings)).remove
    }

    fn only(max_age: &str) -> Retention {
        Retention { max_age: Some(max_age.parse().unwrap()), min_keep: 0, ..Retention::default() }
    }

    #[test]
    fn lengths_of_time_and_sizes_are_read_and_nonsense_is_refused() {
        let span = |text: &str| text.parse::<TimeSpan>().map(TimeSpan::as_millis);
        assert_eq!(span("30d"), Ok(30 * DAY));
        assert_eq!(span(" 90 m "), Ok(90 * 60 * 1000));
        assert_eq!(span("2w"), Ok(14 * DAY));
        assert_eq!("90m".parse::<TimeSpan>().unwrap().to_string(), "90m");
        let size = |text: &str| text.parse::<ByteSize>().map(|size| size.0);
        assert_eq!(size("500MB"), Ok(500_000_000));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(ByteSize(1_234_567).to_string(), "1.2 MB");
        for bad in ["", "30", "d", "-1d", "0d", "3x", "99999999999999999999d", "9999999999999999d"]
        {
            assert!(span(bad).is_err(), "{bad}");
        }
        for bad in ["", "12", "GB", "0GB", "1.5GB", "99999999999999999TB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        let soon = span("soon").unwrap_err().to_string();
        assert_eq!(soon, "invalid duration `soon` (examples: 30d, 12h, 90m)");
        for text in ["1h 30m", "1500ms", "2w", "1.5h"] {
            let read: TimeSpan = text.parse().unwrap();
            assert_eq!(read.to_string().parse(), Ok(read), "{text}");
        }
    }

    #[test]
    fn checkpoints_go_by_count_and_by_age() {
        let at = |number: u64, days: i64, pinned: bool| CheckpointFacts {
            number,
            at: Timestamp::from_millis(NOW - days * DAY),
            pinned,
            thinned: number == 1,
        };
        let all = [
            at(1, 50, false),
            at(2, 40, true),
            at(3, 30, false),
            at(4, 20, false),
            at(5, 10, false),
            at(6, 9, false),
        ];
        let plan =
            |settings: &Retention| plan_checkpoints(Timestamp::from_millis(NOW), &all, settings);
        let none = Retention::default();
        assert_eq!(plan(&none), Vec::<u64>::new());
        assert!(!none.drops_checkpoints());
        let count = Retention { max_checkpoints: Some(2), ..none.clone() };
        assert_eq!(plan(&count), [3, 4], "what is pinned stays");
        let age = Retention { max_checkpoint_age: "15d".parse().ok(), ..none.clone() };
        assert_eq!(plan(&age), [3, 4]);
        let either = Retention { max_checkpoints: Some(1), ..age.clone() };
        assert_eq!(plan(&either), [3, 4, 5]);
        let zero = Retention { max_checkpoints: Some(0), ..none };
        assert_eq!(plan(&zero), [3, 4, 5], "the newest stays");
        assert!(age.needs_clock() && !age.clone().without_clock().drops_checkpoints());
        assert!(count.drops_checkpoints() && count.is_set() && !count.needs_clock());
    }

    #[test]
    fn without_a_limit_nothing_goes() {
        let old: Vec<_> = (0..30).map(|n| session(n, 4000)).collect();
        assert!(!Retention::default().is_set());
        assert_eq!(removed(&old, &Retention::default()), []);
    }

    #[test]
    fn each_limit_takes_the_oldest_first() {
        let sessions: Vec<_> = (1..=4).map(|n| session(n, i64::from(n) * 10)).collect();
        let age = only("25d");
        assert_eq!(
            removed(&sessions, &age),
            [(id(4), RemovalReason::Age), (id(3), RemovalReason::Age)]
        );
        let count = Retention { max_count: Some(3), min_keep: 0, ..Retention::default() };
        assert_eq!(removed(&sessions, &count), [(id(4), RemovalReason::Count)]);
        let size = Retention { max_size: Some(ByteSize(250)), min_keep: 0, ..Retention::default() };
        assert_eq!(
            removed(&sessions, &size),
            [(id(4), RemovalReason::Size), (id(3), RemovalReason::Size)]
        );
        let all = Retention { max_size: Some(ByteSize(300)), max_count: Some(2), ..age };
        assert_eq!(
            removed(&sessions, &all),
            [(id(4), RemovalReason::Size), (id(3), RemovalReason::Count)]
        );
    }

    #[test]
    fn what_stays_is_decided_before_what_goes() {
        let mut sessions: Vec<_> = (1..=6).map(|n| session(n, 100 + i64::from(n))).collect();
        sessions[3].status = SessionStatus::Failed;
        sessions[4].status = SessionStatus::Interrupted;
        sessions[5].in_use = true;
        let settings = Retention { min_keep: 2, ..only("30d") };
        let plan =
            plan_retention(Timestamp::from_millis(NOW), &sessions, std::slice::from_ref(&settings));
        assert_eq!(plan.remove, [(id(3), RemovalReason::Age)]);
        assert_eq!(
            plan.keep,
            [
                (id(6), KeepReason::InUse),
                (id(5), KeepReason::Failed),
                (id(4), KeepReason::Failed),
                (id(2), KeepReason::MinKeep),
                (id(1), KeepReason::MinKeep),
            ]
        );
        // Those in use do not make room: a limit on all of them still leaves `min_keep`.
        let none = Retention { max_count: Some(0), min_keep: 6, ..Retention::default() };
        assert_eq!(removed(&sessions, &none), []);
        let failed_too = Retention { keep_failed: false, ..settings };
        assert_eq!(removed(&sessions, &failed_too).len(), 3);
    }

    #[test]
    fn a_group_is_counted_by_itself_and_a_fork_in_another_keeps_its_parent() {
        let of = |n: u8, days: i64, group: usize| SessionFacts { group, ..session(n, days) };
        let mut sessions =
            vec![of(1, 50, 0), of(2, 40, 0), of(3, 90, 1), of(4, 80, 1), of(5, 99, 2)];
        let two = Retention { max_count: Some(1), min_keep: 0, ..Retention::default() };
        let old = Retention { min_keep: 0, ..only("85d") };
        let plan = |sessions: &[SessionFacts]| {
            let settings = [two.clone(), old.clone()];
            plan_retention(Timestamp::from_millis(NOW), sessions, &settings)
        };
        let both = [(id(3), RemovalReason::Age), (id(1), RemovalReason::Count)];
        assert_eq!(plan(&sessions).remove, both, "5 is in no group that has settings");
        sessions[4].parent = Some(id(3));
        assert_eq!(plan(&sessions).remove, both[1..]);
        assert_eq!(plan(&sessions).keep, [(id(3), KeepReason::Parent)]);
    }

    #[test]
    fn the_parents_of_what_stays_stay_and_a_whole_family_goes() {
        let mut sessions: Vec<_> = (1..=3).map(|n| session(n, 100 - i64::from(n))).collect();
        sessions[1].parent = Some(id(1));
        sessions[2].parent = Some(id(2));
        assert_eq!(removed(&sessions, &only("30d")).len(), 3);
        sessions[2].last_used = Timestamp::from_millis(NOW);
        let plan = plan_retention(Timestamp::from_millis(NOW), &sessions, &[only("30d")]);
        assert_eq!(plan.remove, []);
        assert_eq!(plan.keep, [(id(1), KeepReason::Parent), (id(2), KeepReason::Parent)]);
        // A parent that is not here keeps nobody from going.
        sessions[0].parent = Some(id(9));
        sessions.truncate(1);
        assert_eq!(removed(&sessions, &only("30d")).len(), 1);
    }

    #[test]
    fn a_clock_that_jumped_is_told_from_one_that_went_on() {
        let at = |days: i64| Timestamp::from_millis(NOW + days * DAY);
        let settings = only("30d");
        assert!(!settings.clock_jumped(at(0), at(6)) && settings.clock_jumped(at(0), at(8)));
        assert!(!settings.clock_jumped(at(8), at(0)));
        let short = only("1h");
        assert!(!short.clock_jumped(at(0), at(1)) && short.clock_jumped(at(0), at(2)));
    }

    fn checkpoint(number: u64, back: i64) -> CheckpointFacts {
        let at = Timestamp::from_millis(NOW - back);
        CheckpointFacts { number, at, pinned: false, thinned: false }
    }

    #[test]
    fn checkpoints_are_thinned_by_the_hour_and_then_by_the_day() {
        let now = Timestamp::from_millis(NOW);
        // One each ten minutes for twenty days, the newest an hour ago.
        let every: Vec<_> = (0..20 * 144)
            .map(|n: i64| checkpoint(10_000 - n as u64, HOUR + n * 10 * 60_000))
            .collect();
        let thinned: HashSet<u64> = plan_thinning(now, &every).into_iter().collect();
        let left: Vec<_> =
            every.iter().filter(|one| !thinned.contains(&one.number)).copied().collect();
        let within = |from: i64, to: i64| {
            let age = |one: &CheckpointFacts| NOW - one.at.as_millis();
            left.iter().filter(|one| age(one) > from && age(one) <= to).count()
        };
        assert_eq!(within(0, DAY), 6 * 23 + 1);
        assert!((6 * 24..=6 * 24 + 1).contains(&within(DAY, WEEK)), "{}", within(DAY, WEEK));
        assert!((13..=14).contains(&within(WEEK, 30 * DAY)), "{}", within(WEEK, 30 * DAY));
        // Of each hour the newest stayed.
        for one in left.iter().filter(|one| NOW - one.at.as_millis() <= WEEK) {
            let hour = one.at.as_millis().div_euclid(HOUR);
            let newer = every.iter().find(|other| {
                other.number > one.number && other.at.as_millis().div_euclid(HOUR) == hour
            });
            assert!(newer.is_none() || NOW - one.at.as_millis() <= DAY + HOUR);
        }
        // Once thinned, nothing more goes.
        let again: Vec<_> = every
            .iter()
            .map(|one| CheckpointFacts { thinned: thinned.contains(&one.number), ..*one })
            .collect();
        assert_eq!(plan_thinning(now, &again), [0_u64; 0]);
    }

    #[test]
    fn the_newest_and_the_pinned_checkpoints_stay() {
        let now = Timestamp::from_millis(NOW);
        let back = 30 * DAY + HOUR;
        let mut some = vec![
            checkpoint(1, back + 3),
            checkpoint(2, back + 2),
            checkpoint(3, back + 1),
            checkpoint(4, back),
        ];
        assert_eq!(plan_thinning(now, &some), [1, 2, 3]);
        some[1].pinned = true;
        assert_eq!(plan_thinning(now, &some), [1, 3]);
        assert_eq!(plan_thinning(now, &[checkpoint(7, -DAY), checkpoint(8, -DAY)]), [0_u64; 0]);
        assert_eq!(plan_thinning(now, &[checkpoint(7, 90 * DAY)]), [0_u64; 0]);
    }
}
