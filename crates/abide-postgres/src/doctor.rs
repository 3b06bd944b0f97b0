//! Examines sessions in the tables: every line and link, the rules, the objects, what is derived.

use std::collections::HashSet;

use abide_journal::{JournalLine, Sum};
use abide_maintain::{
    CheckedRules, CheckpointNumbers, Examination, ExaminationFacts, ExaminedLines, ExaminedObjects,
    doctor_error, doctor_warning, interrupted_session, note_recovery, recorded_recovery,
    session_left_running,
};
use abide_model::{
    EventRange, Finding, FindingPlace, FindingType, Lineage, Liveness, MessageRevisions,
    ObjectHash, Recovery, Repair, Seq, SessionId, SessionState, SessionStatus, Severity, Store,
    StoreError, rewind_target, standard_rules,
};

use crate::postgres_reader::{PostgresReader, RowRange};
use crate::postgres_store::{PostgresStore, session_id};
use crate::row_walk::RowWalk;

/// Lines read at a time.
const CHUNK: usize = 4096;
/// The most findings about rows of one kind that are listed for a session.
const MOST_LISTED: usize = 100;
/// The last event that the session once had, as far as others tell, if it is not in the table; and
/// what repairs have set aside. One statement: two servers may have different rows.
const REACHED: &str = "SELECT
    nullif(greatest(known.seq, there.seq), there.seq),
    (SELECT coalesce(array_agg(DISTINCT seq), '{}') FROM quarantine WHERE sid = $1)
    FROM (SELECT coalesce(max(seq), 0) AS seq FROM event WHERE sid = $1) AS there,
        (SELECT greatest(
            (SELECT indexed FROM overview WHERE sid = $1),
            (SELECT seq FROM snapshot WHERE sid = $1),
            (SELECT max(parent_seq) FROM session WHERE parent = $1),
            (SELECT max(seq) FROM quarantine WHERE sid = $1)) AS seq) AS known";

/// Examines the sessions of a store, and repairs them.
#[derive(Debug)]
pub struct PostgresDoctor<'a> {
    pub(crate) store: &'a PostgresStore,
}

/// Who has the lease of the session that is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseOwnership {
    /// Possibly somebody.
    Anybodys,
    /// The caller: nobody else writes.
    Ours,
}

/// The events that a session shares with those it was forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedRows {
    /// All are there.
    Whole,
    /// Repairs have named some as lost.
    Mended,
    /// Some cannot be read.
    Damaged,
}

/// The rows of a session's own events.
pub(crate) struct OwnRows {
    pub(crate) walk: RowWalk,
    lines: ExaminedLines,
    /// What a repair has named as lost without what follows from it: first and last of each range.
    unfinished: Vec<(Seq, Seq)>,
}

/// What was examined, and what a writer must know.
pub(crate) struct ExaminedRows {
    pub(crate) examination: Examination,
    /// The rows that cannot be read.
    pub(crate) unreadable: Vec<Seq>,
    /// What a repair has named as lost without what follows from it: first and last of each range.
    pub(crate) unfinished: Vec<(Seq, Seq)>,
    /// The last event that there ever was, as far as is known.
    pub(crate) reached: Seq,
    /// The sum of the last sound line.
    pub(crate) sum: Sum,
}

impl PostgresStore {
    /// The doctor of this store.
    #[must_use]
    pub const fn doctor(&self) -> PostgresDoctor<'_> {
        PostgresDoctor { store: self }
    }
}

impl PostgresDoctor<'_> {
    /// The sessions of the project that the store was opened for, newest first.
    pub fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        Ok(self.store.list()?.into_iter().map(|session| session.id).collect())
    }

    /// Examines what the store has beside its sessions.
    pub fn examine_store(&self) -> Result<Vec<Finding>, StoreError> {
        let is_erasing = self.store.eraser().is_erasing()?;
        let finding = || {
            doctor_warning(
                "unfinished-erasure",
                FindingType::Structural,
                FindingPlace::subject("the table `erasure`"),
                "an erasure is in progress or was interrupted",
                Repair::automatic(
                    "it is finished, as by the next `abide erase` or `abide cleanup`",
                ),
            )
        };
        Ok(is_erasing.then(finding).into_iter().collect())
    }

    /// Examines a whole session: every line and link, its events, every object they name, and what is
    /// derived from them.
    pub fn examine(&self, session: SessionId) -> Result<Examination, StoreError> {
        Ok(self.examine_rows(session, LeaseOwnership::Anybodys)?.examination)
    }

    /// [`PostgresDoctor::examine`], possibly by the holder of the session's lease.
    pub(crate) fn examine_rows(
        &self,
        session: SessionId,
        lease: LeaseOwnership,
    ) -> Result<ExaminedRows, StoreError> {
        let reader = self.store.reader(session)?;
        let mut found = Examination::of(session);
        let at_rest = lease == LeaseOwnership::Ours || !self.store.is_held(session);
        let past = self.check_shared_rows(&reader, &mut found.findings)?;
        let OwnRows { walk, lines, unfinished } = self.check_own_rows(&reader, &mut found)?;
        found.findings.extend(lines.clock_finding((self.store.options().env.now)()));
        let mut facts = ExaminationFacts {
            lost: lines.lost.clone(),
            damaged: lines.damaged,
            unreadable: walk.unreadable_ranges(),
            at_rest,
            ..ExaminationFacts::default()
        };
        if past != SharedRows::Damaged {
            let mut findings = self.check_session_rules(&reader, &lines, &mut facts)?;
            // A checkpoint may have been made before an ancestor was repaired.
            findings.retain(|it| it.rule != "checkpoint-digest" || past == SharedRows::Whole);
            found.findings.extend(findings);
        }
        self.store.forget_known_objects();
        let objects = self.store.objects_of_store();
        // This machine's cache may have what the store has lost.
        let gone = self.gone_objects(&lines)?;
        let read = |hash| if gone.contains(&hash) { Ok(None) } else { objects.read(hash) };
        let readable = |hashes: &[ObjectHash]| self.readable(hashes);
        let objects = ExaminedObjects { read: &read, readable: &readable };
        facts.lost_objects = objects.check(&lines, facts.state.as_ref(), &mut found.findings)?;
        found.missing = lines.recorded_losses(readable)?;
        self.check_state_cache(&reader, &facts, &mut found.findings)?;
        match lease {
            LeaseOwnership::Anybodys => {
                let state = facts.state.as_ref();
                self.check_session_writer(reader, state, &mut found.findings);
            }
            LeaseOwnership::Ours => {
                found.findings.extend(facts.state.as_ref().and_then(session_left_running));
            }
        }
        found.requires_validation = lines.requires_validation();
        found.facts = facts;
        found.findings =
            found.findings.into_iter().map(|finding| finding.in_session(session)).collect();
        Ok(ExaminedRows {
            examination: found,
            unreadable: walk.unreadable.iter().map(|(seq, _)| *seq).collect(),
            unfinished,
            reached: walk.expected.back(1),
            sum: walk.sound.1,
        })
    }

    /// Reads the session's own rows.
    pub(crate) fn check_own_rows(
        &self,
        reader: &PostgresReader,
        examination: &mut Examination,
    ) -> Result<OwnRows, StoreError> {
        let shared = reader.known.shared();
        let (reached, set_aside) = self.reached(reader)?;
        let genesis = Sum::genesis(reader.session);
        let mut numbers = CheckpointNumbers::after(Some(0));
        let sum = if shared == Seq::ZERO {
            Some(genesis)
        } else {
            let past = reader.clone();
            let (sum, state) = self.store.server().block(async move {
                // What cannot be read is told as damage.
                Ok((past.sum_of(shared).await.ok(), past.state_at(shared).await.ok()))
            })?;
            numbers = CheckpointNumbers::after(state.map(|state| state.core.checkpoints.last));
            sum
        };
        let mut walk = RowWalk::after(shared, sum, genesis);
        let mut lines = ExaminedLines::default();
        let findings = &mut examination.findings;
        let (mut events, mut bytes) = (0, 0);
        self.store.eraser().each_own_line(reader, &mut |seq, raw| {
            if let Some(line) = walk.row(seq, raw) {
                events += 1;
                bytes += raw.len() as u64;
                let place = || (FindingPlace::default(), String::new());
                findings.extend(lines.line(&line, &mut numbers, place));
            }
            Ok::<_, StoreError>(())
        })?;
        walk.reaches(reached);
        (examination.events, examination.bytes) = (events, bytes);
        let named: Vec<(Seq, Seq)> =
            lines.recoveries.iter().flat_map(|(_, recovery)| recovery.lost.clone()).collect();
        lines.lost = walk.lost(&named);
        lines.damaged = !lines.lost.is_empty() || !walk.unreadable.is_empty();
        findings.extend(row_findings(&walk, &lines.lost));
        let is_unfinished = |range: &(Seq, Seq)| {
            walk.is_lacking(*range)
                && !set_aside.iter().any(|seq| (range.0..=range.1).contains(seq))
        };
        let unfinished: Vec<(Seq, Seq)> = named.into_iter().filter(is_unfinished).collect();
        findings.extend(unfinished.first().map(|(first, _)| {
            doctor_warning(
                "unfinished-repair",
                FindingType::Structural,
                FindingPlace::event(*first),
                "a repair was interrupted after it had named events as lost",
                Repair::automatic("it is finished"),
            )
        }));
        Ok(OwnRows { walk, lines, unfinished })
    }

    /// The last event that there once was, if the table does not have it, and the events of which
    /// something was set aside.
    pub(crate) fn reached(&self, reader: &PostgresReader) -> Result<(Seq, Vec<Seq>), StoreError> {
        let (server, sid) = (self.store.server().clone(), reader.known.sid);
        self.store.server().block(async move {
            let ask = server.ask("read a session of", |client| {
                Box::pin(async move {
                    let seq = |place: i64| Seq(u64::try_from(place).unwrap_or(0));
                    let row = client.query_one(REACHED, &[&sid]).await?;
                    let reached: Option<i64> = row.try_get(0)?;
                    let set_aside: Vec<i64> = row.try_get(1)?;
                    Ok((seq(reached.unwrap_or(0)), set_aside.into_iter().map(seq).collect()))
                })
            });
            ask.await
        })
    }

    /// The payloads and snapshots that the store does not have.
    fn gone_objects(&self, lines: &ExaminedLines) -> Result<HashSet<ObjectHash>, StoreError> {
        let snapshots = lines.snapshots.iter().map(|(snapshot, ..)| *snapshot);
        let named: Vec<ObjectHash> = lines.payloads.keys().copied().chain(snapshots).collect();
        let there = self.store.stored_among(&named)?;
        Ok(named.into_iter().zip(there).filter(|(_, there)| !there).map(|(hash, _)| hash).collect())
    }

    /// Checks that the events that a fork shares are there and follow from each other, except those
    /// that repairs have named as lost.
    pub(crate) fn check_shared_rows(
        &self,
        reader: &PostgresReader,
        findings: &mut Vec<Finding>,
    ) -> Result<SharedRows, StoreError> {
        let shared = reader.known.shared();
        let past: Vec<&RowRange> =
            reader.known.stretches.iter().filter(|stretch| stretch.last <= shared).collect();
        let Some(oldest) = past.first() else { return Ok(SharedRows::Whole) };
        let genesis = Sum::genesis(self.session_of(oldest)?);
        let mut walk = RowWalk::after(Seq::ZERO, Some(genesis), genesis);
        self.each_line(reader, Seq::FIRST, shared, &mut |seq, raw| {
            walk.row(seq, raw);
        })?;
        walk.reaches(shared);
        if walk.lost(&[]).is_empty() && walk.unchained.is_empty() {
            return Ok(SharedRows::Whole);
        }
        let mut named = Vec::new();
        for stretch in &past {
            for (_, fact) in self.recoveries(self.session_of(stretch)?)? {
                let within = |(first, last): &(Seq, Seq)| {
                    (stretch.first.max(*first), stretch.last.min(*last))
                };
                named.extend(fact.lost.iter().map(within).filter(|(first, last)| first <= last));
            }
        }
        let lost = walk.lost(&named).first().map(|(first, _)| *first);
        if let Some(seq) = lost.or(walk.unchained.first().copied())
            && let Some(stretch) = past.iter().find(|it| (it.first..=it.last).contains(&seq))
        {
            let holder = self.session_of(stretch)?;
            findings.push(doctor_error(
                "fork-chain",
                FindingType::Checksum,
                FindingPlace::subject(format!("the shared events of session {}", reader.session)),
                format!("event @{seq} of session {holder}, which it shares, cannot be read"),
                Repair::by_hand(format!("repair that session: `abide doctor {holder} --repair`")),
            ));
        }
        Ok(if lost.is_none() { SharedRows::Mended } else { SharedRows::Damaged })
    }

    /// The session that holds some shared events.
    fn session_of(&self, stretch: &RowRange) -> Result<SessionId, StoreError> {
        let (server, sid) = (self.store.server().clone(), stretch.sid);
        self.store.server().block(async move {
            let ask = server.ask("read a session of", |client| {
                Box::pin(async move {
                    let sql = "SELECT id FROM session WHERE sid = $1";
                    Ok(session_id(client.query_one(sql, &[&sid]).await?.try_get(0)?))
                })
            });
            ask.await
        })
    }

    /// The recoveries of a session, with their events.
    fn recoveries(&self, session: SessionId) -> Result<Vec<(Seq, Recovery)>, StoreError> {
        let reader = self.store.reader(session)?;
        let mut found = Vec::new();
        self.store.eraser().each_own_line(&reader, &mut |seq, raw| {
            let line = JournalLine::read(raw).ok();
            if let Some(recovery) = line.as_ref().and_then(recorded_recovery) {
                note_recovery(&mut found, seq, recovery);
            }
            Ok::<_, StoreError>(())
        })?;
        Ok(found)
    }

    /// Visits the rows of a range of events, shared ones included.
    fn each_line(
        &self,
        reader: &PostgresReader,
        first: Seq,
        last: Seq,
        each: &mut dyn FnMut(Seq, &[u8]),
    ) -> Result<(), StoreError> {
        let mut range = EventRange { first, last, ..EventRange::ALL }.limit(CHUNK);
        loop {
            let asked = reader.clone();
            let (lines, next) =
                self.store.server().block(async move { asked.lines(range).await })?;
            lines.iter().for_each(|(seq, raw)| each(*seq, raw));
            match next {
                Some(next) => range.first = next,
                None => return Ok(()),
            }
        }
    }

    /// Folds the live events and runs the rules over them.
    fn check_session_rules(
        &self,
        reader: &PostgresReader,
        lines: &ExaminedLines,
        facts: &mut ExaminationFacts,
    ) -> Result<Vec<Finding>, StoreError> {
        let shared = reader.known.shared();
        let last = lines.last.max(shared);
        let mut rewinds = Vec::new();
        let mut revisions = MessageRevisions::default();
        if shared > Seq::ZERO {
            self.each_line(reader, Seq::FIRST, shared, &mut |seq, raw| {
                let event = JournalLine::read(raw).ok().and_then(|line| line.event());
                event.iter().for_each(|event| revisions.note(event));
                rewinds.extend(event.and_then(|event| rewind_target(&event)).map(|to| (seq, to)));
            })?;
        }
        rewinds.extend(lines.rewinds.iter().copied());
        revisions.extend(&lines.revisions);
        let lineage = Lineage::at(last, &rewinds);
        let mut rules = CheckedRules::new(standard_rules(), lineage, revisions);
        self.each_line(reader, Seq::FIRST, last, &mut |_, raw| {
            if let Some(event) = JournalLine::read(raw).ok().and_then(|line| line.event()) {
                rules.event(&event);
            }
        })?;
        Ok(rules.finish(facts))
    }

    /// Which of these objects are where the store keeps them, and can be read.
    fn readable(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        let mut readable = self.store.stored_among(hashes)?;
        let objects = self.store.objects_of_store();
        for (hash, is_there) in hashes.iter().zip(&mut readable) {
            *is_there = *is_there && objects.read(*hash)?.is_some();
        }
        Ok(readable)
    }

    /// Checks that the state cache gives the same state as the events.
    fn check_state_cache(
        &self,
        reader: &PostgresReader,
        facts: &ExaminationFacts,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let Some(state) = &facts.state else { return Ok(()) };
        if facts.damaged || !facts.at_rest {
            return Ok(());
        }
        let asked = reader.clone();
        let end = self.store.server().block(async move { asked.end().await });
        if end.is_ok_and(|end| {
            end.state.core.seq == state.core.seq && end.state.digest() != state.digest()
        }) {
            findings.push(Finding::new(
                "state-mismatch",
                FindingType::Checksum,
                Severity::Error,
                FindingPlace::subject("the table `snapshot`"),
                "the state cache differs from the events",
                Repair::automatic("it is rebuilt from the events"),
            ));
        }
        Ok(())
    }

    /// Checks whether the session's writer died, and whether a process runs on without it.
    fn check_session_writer(
        &self,
        reader: PostgresReader,
        state: Option<&SessionState>,
        findings: &mut Vec<Finding>,
    ) {
        let session = reader.session;
        let Some(state) = state else { return };
        let Ok(seen) = self.store.liveness_of(reader, state) else { return };
        let place = || FindingPlace::subject(format!("session {session}"));
        match seen.liveness {
            Liveness::Crashed if seen.evidence.status == SessionStatus::Running => {
                findings.push(interrupted_session(place(), &seen.explain()));
            }
            Liveness::Stale => findings.push(doctor_warning(
                "stale-lock",
                FindingType::Structural,
                place(),
                format!("its writer's fate is unknown: {}", seen.explain()),
                Repair::by_hand("check that process; its lease runs out when it ends"),
            )),
            _ => {}
        }
        findings.extend(seen.orphans.iter().map(|orphan| {
            doctor_warning(
                "orphaned-process",
                FindingType::Referential,
                FindingPlace::subject(format!("process {}", orphan.process)),
                format!(
                    "`{}` was started for this session and is still running, but its writer died",
                    orphan.program
                ),
                Repair::by_hand("check it, and end it if it is not needed"),
            )
        }));
    }
}

/// What is wrong with the rows of a session. `lost` are the events that no repair has named.
fn row_findings(walk: &RowWalk, lost: &[(Seq, Seq)]) -> Vec<Finding> {
    const KEPT: &str = "what can be read is kept, what cannot is named as lost";
    let is_lost = |seq: Seq| lost.iter().any(|(first, last)| (*first..=*last).contains(&seq));
    let damage = |seq: Seq, message: String, repair: Repair| {
        doctor_error(
            "journal-damage",
            FindingType::Checksum,
            FindingPlace::subject("the table `event`").of_event(seq),
            message,
            repair,
        )
    };
    let unreadable = walk.unreadable.iter().map(|(seq, reason)| {
        let message = match is_lost(*seq) {
            true => format!("{reason}; event {seq} is lost"),
            false => format!("{reason}; a repair has named it as lost, and was interrupted"),
        };
        damage(*seq, message, Repair::automatic(KEPT))
    });
    let overlaps = |range: &&(Seq, Seq)| {
        lost.iter().any(|(first, last)| *first <= range.1 && range.0 <= *last)
    };
    let missing = walk.missing.iter().filter(overlaps).map(|(first, last)| {
        let message = match first == last {
            true => format!("event {first} is missing"),
            false => format!("events {first} to {last} are missing"),
        };
        damage(*first, message, Repair::automatic(KEPT))
    });
    let unchained = walk.unchained.iter().map(|seq| {
        let message = "it does not follow from the event before it".to_owned();
        let how = "compare the session with a copy or a backup: every line can be read";
        damage(*seq, message, Repair::by_hand(how))
    });
    let listed = unreadable.take(MOST_LISTED).chain(missing.take(MOST_LISTED));
    listed.chain(unchained.take(MOST_LISTED)).collect()
}
