//! Examines a session: every line, sum and object, the rules, and derived files.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use abide_journal::{Access, JournalItem, JournalWalkStart, Slots, Watermark, read_full};
use abide_maintain::CheckpointNumbers;
use abide_model::{
    Conversation, Event, Fact, Finding, FindingPlace, FindingType, Kind, Lineage, Liveness,
    ObjectHash, Recovery, Repair, Seq, SessionId, SessionState, SessionStatus, Severity,
    StoreError, Timestamp, Validation, rewind_target,
};
use abide_transcript::{ParseReason, TranscriptChunks};

use super::objects::CheckpointSnapshot;
use super::{Doctor, Examination, ExaminationFacts, doctor_error, doctor_warning};
use crate::error::{storage_error, store_error};
use crate::sessions::local_reader::LocalReader;
use crate::sessions::session_ancestry::MissingParentPolicy;
use crate::store_layout::SessionLayout;

/// How many milliseconds a clock may be ahead of ours.
const CLOCK: i64 = 5 * 60 * 1000;
/// A transcript with more bytes than this is not read completely.
pub(super) const MOST_TRANSCRIPT: u64 = 1 << 30;

/// What a pass over the lines of a journal collects.
#[derive(Default)]
pub(super) struct SessionJournalWalk {
    rewinds: Vec<(Seq, Seq)>,
    /// Objects that hold payloads, and the first and last event that name each.
    pub(super) payloads: BTreeMap<ObjectHash, (Seq, Seq)>,
    /// Snapshots of checkpoints, with the event and number of each.
    pub(super) snapshots: Vec<CheckpointSnapshot>,
    last: Seq,
    latest: Timestamp,
    damaged: bool,
    lost: Vec<(Seq, Seq)>,
    /// What splices call lost.
    spliced: Vec<(Seq, Seq)>,
    /// Recoveries that were not undone, with their events.
    pub(super) recoveries: Vec<(Seq, Recovery)>,
}

impl Doctor<'_> {
    /// Examines a whole session: its journal with every sum and link, its events, every object they
    /// name, and the files derived from them.
    pub fn examine(&self, session: SessionId) -> Result<Examination, StoreError> {
        self.examine_session_as(session, LockOwnership::Anybodys)
    }

    /// [`Doctor::examine`], possibly by the holder of the session's lock.
    pub(super) fn examine_session_as(
        &self,
        session: SessionId,
        lock: LockOwnership,
    ) -> Result<Examination, StoreError> {
        let reader = self.store.reader(session)?;
        let layout = self.store.layout_of(session)?;
        let mut found = Examination::of(session);
        let whole_past = self.check_past(&reader, &mut found.findings)?;
        let lines = self.check_session_lines(&reader, &mut found)?;
        self.check_session_segments(&reader, &mut found.findings)?;
        self.check_session_clock(&lines, &mut found.findings);
        for (first, last) in lines.unnamed() {
            found.findings.push(doctor_error(
                "unnamed-loss",
                FindingType::Structural,
                FindingPlace::event(first),
                format!("events {first} to {last} are lost, and a repair was interrupted before it recorded that"),
                Repair::automatic("they are recorded as lost"),
            ));
        }
        let mut facts = ExaminationFacts {
            lost: lines.lost.clone(),
            unnamed: lines.unnamed(),
            damaged: lines.damaged,
            at_rest: lock == LockOwnership::Ours || !self.store.liveness_checker().is_held(session),
            ..ExaminationFacts::default()
        };
        if whole_past {
            self.check_session_rules(&reader, &lines, &mut facts, &mut found.findings)?;
        }
        let state = facts.state.as_ref();
        facts.lost_objects = self.check_objects_of(&lines, state, &mut found.findings)?;
        self.check_derived_session_files(&reader, &layout, &facts, &mut found.findings)?;
        let closed = facts.state.as_ref().is_some_and(|state| !state.core.writing);
        match lock {
            // Nobody has it open, and its writer closed it.
            _ if facts.at_rest && closed => {}
            LockOwnership::Anybodys => self.check_session_writer(session, &mut found.findings)?,
            LockOwnership::Ours => {
                found.findings.extend(facts.state.as_ref().and_then(session_left_running))
            }
        }
        self.check_permissions_below(&layout.dir, &mut found.findings);
        found.missing = self.missing(&lines)?;
        found.requires_validation = lines.requires_validation();
        found.facts = facts;
        found.findings =
            found.findings.into_iter().map(|finding| finding.in_session(session)).collect();
        Ok(found)
    }

    /// Checks only the journal of a session: every sum, every link of the chain, the form of every
    /// segment.
    pub fn verify_journal(&self, session: SessionId) -> Result<Examination, StoreError> {
        let reader = self.store.reader(session)?;
        let mut found = Examination::of(session);
        self.check_session_lines(&reader, &mut found)?;
        self.check_session_segments(&reader, &mut found.findings)?;
        Ok(found)
    }

    fn check_session_lines(
        &self,
        reader: &LocalReader,
        examination: &mut Examination,
    ) -> Result<SessionJournalWalk, StoreError> {
        let mark = reader.mark().map_err(store_error)?;
        let mut lines = SessionJournalWalk::default();
        let mut numbers = reader.checkpoints_in_ancestry().map_err(store_error)?;
        let findings = &mut examination.findings;
        let (mut events, mut bytes) = (0, 0);
        let walked = reader.journal().walk(JournalWalkStart::beginning(), mark, &mut |found| {
            match &found {
                JournalItem::Event { line, offset, end, segment, .. } => {
                    events += 1;
                    bytes += end - offset;
                    lines.last = line.seq;
                    for object in line.objects() {
                        let named = lines.payloads.entry(object.hash);
                        named.or_insert((line.seq, line.seq)).1 = line.seq;
                    }
                    match line.event() {
                        Some(event) if is_json(&event) => lines.take(&event, &mut numbers),
                        _ => findings.push(doctor_error(
                            "event-form",
                            FindingType::Structural,
                            FindingPlace::subject(format!("segment {segment}"))
                                .of_event(line.seq),
                            format!("at byte {offset}: its sum is good, but it is not an event"),
                            Repair::by_hand("report it: no version of abide writes this"),
                        )),
                    }
                }
                JournalItem::Splice { splice, .. } => lines.spliced.extend(splice.lost()),
                JournalItem::Damage(damage) => {
                    lines.damaged = true;
                    lines.lost.extend(damage.lost);
                    let place = FindingPlace::path(&damage.path).at(damage.offset);
                    let place = match damage.lost {
                        Some((first, _)) => place.of_event(first),
                        None => place,
                    };
                    let message = match damage.lost {
                        None => format!("{}; no event is lost", damage.reason),
                        Some((first, last)) if first == last => {
                            format!("{}; event {first} is lost", damage.reason)
                        }
                        Some((first, last)) => {
                            format!("{}; events {first} to {last} are lost", damage.reason)
                        }
                    };
                    let repair = "what can be read is kept, what is lost is written again from the transcript or named as lost";
                    findings.push(doctor_error(
                        "journal-damage",
                        FindingType::Checksum,
                        place,
                        message,
                        Repair::automatic(repair),
                    ));
                }
                JournalItem::Torn { path, offset, bytes, .. } => findings.push(doctor_warning(
                    "torn-tail",
                    FindingType::Structural,
                    FindingPlace::path(path).at(*offset),
                    format!(
                        "ignored a torn write of {bytes} bytes at the end (never acknowledged)"
                    ),
                    Repair::automatic("it is cut off, as the next writer would do"),
                )),
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_error)?;
        (examination.events, examination.bytes) = (events, bytes);
        Ok(lines)
    }

    fn check_session_segments(
        &self,
        reader: &LocalReader,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let journal = reader.journal();
        for name in journal.segments().map_err(store_error)? {
            let segment = journal.open_segment(name).map_err(store_error)?;
            // Reading shows a damaged frame, but not a damaged frame table.
            if let Some(message) = segment.seal_damage() {
                findings.push(doctor_error(
                    "sealed-segment",
                    FindingType::Checksum,
                    FindingPlace::path(segment.path()),
                    message,
                    Repair::automatic("the segment is rewritten from what is readable"),
                ));
            }
        }
        for path in journal.foreign_files().map_err(store_error)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let place = FindingPlace::path(path);
            findings.push(if name.ends_with(".tmp") {
                doctor_warning(
                    "temporary-file",
                    FindingType::Structural,
                    place,
                    "a temporary file of an interrupted sealing or erasure",
                    Repair::automatic("it is moved to the quarantine"),
                )
            } else {
                doctor_warning(
                    "foreign-file",
                    FindingType::Structural,
                    place,
                    "not a file of this journal; left alone",
                    Repair::by_hand("move it elsewhere"),
                )
            });
        }
        Ok(())
    }

    fn check_session_clock(&self, lines: &SessionJournalWalk, findings: &mut Vec<Finding>) {
        let now = (self.store.options().env.now)();
        if lines.latest.as_millis() > now.as_millis().saturating_add(CLOCK) {
            findings.push(doctor_warning(
                "future-clock",
                FindingType::BusinessLogic,
                FindingPlace::event(lines.last),
                format!("its time, {}, is in the future; it is now {now}", lines.latest),
                Repair::by_hand("set the clock; events keep their order whatever their times"),
            ));
        }
    }

    /// Folds the live events and runs the rules over them.
    fn check_session_rules(
        &self,
        reader: &LocalReader,
        lines: &SessionJournalWalk,
        facts: &mut ExaminationFacts,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let past = reader.past().map_err(store_error)?;
        let mark = reader.mark().map_err(store_error)?;
        let mut rewinds = Vec::new();
        let mut note_rewind = |event: &Event| {
            rewinds.extend(rewind_target(event).map(|to| (event.seq, to)));
        };
        past.each_event(past.last(), &mut note_rewind).map_err(store_error)?;
        rewinds.extend(lines.rewinds.iter().copied());
        let lineage = Lineage::at(lines.last, &rewinds);
        let mut state = SessionState::default();
        let mut validation = Validation::new((self.rules)());
        let mut conversation = Conversation::default();
        let mut see = |event: &Event| {
            if !lineage.contains(event.seq) {
                return state.apply_dead(event);
            }
            conversation.event(event, &event.fact());
            validation.apply(&mut state, event);
        };
        past.each_event(past.last(), &mut see).map_err(store_error)?;
        reader.each_own_event(lines.last, mark, &mut see).map_err(store_error)?;
        let found = validation.finish(&state);
        // A checkpoint of a fork may have been made before an ancestor was repaired.
        let of_past = |found: &Finding| found.rule == "checkpoint-digest" && past.is_fork();
        let mended = found.iter().any(of_past) && !self.mended_past(past)?.is_empty();
        findings.extend(found.into_iter().filter(|found| !(mended && of_past(found))));
        if let Some(restoring) = state.core.restoring {
            findings.push(doctor_warning(
                "unfinished-rewind",
                FindingType::Structural,
                FindingPlace::event(restoring),
                "an interrupted rewind; its files may be partly restored",
                Repair::automatic(
                    "it is finished if it was started on this machine; otherwise run `abide rewind --finish` or `abide undo`",
                ),
            ));
        }
        facts.closing = conversation.repairs();
        facts.unknown = conversation.open_calls().into_iter().map(|open| open.call).collect();
        facts.state = Some(state);
        Ok(())
    }

    fn check_derived_session_files(
        &self,
        reader: &LocalReader,
        layout: &SessionLayout,
        facts: &ExaminationFacts,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let storage = self.store.storage();
        let rebuilt = || Repair::automatic("it is rebuilt from the journal");
        let slots = layout.state();
        let has_slots = storage
            .list(&slots)
            .is_ok_and(|names| names.iter().any(|name| name.starts_with("handover")));
        let unread = || {
            doctor_warning(
                "state-snapshot",
                FindingType::Checksum,
                FindingPlace::path(&slots),
                "the state cache cannot be read",
                rebuilt(),
            )
        };
        if has_slots && Slots::new(&slots, "handover").read(&**storage).is_empty() {
            findings.push(unread());
        } else if let Some(state) = facts.state.as_ref()
            && !findings.iter().any(|found| found.severity >= Severity::Error)
        {
            let mut look = reader.look(MissingParentPolicy::PassOver).map_err(store_error)?;
            if !look.pages.bring_all(&mut look.state) {
                // Pages are not synced: a power cut may leave a root without them.
                findings.push(unread());
            } else if !look.state.is_sound() || look.state.digest() != state.digest() {
                // Its sums are right, so it must give the same state as the journal.
                findings.push(doctor_error(
                    "state-mismatch",
                    FindingType::Checksum,
                    FindingPlace::path(&slots),
                    "the state cache differs from the journal",
                    rebuilt(),
                ));
            }
        }
        let watermark = layout.watermark();
        let length = storage.open(&watermark, Access::Read).and_then(|file| file.len());
        if length.is_ok_and(|length| length > 0)
            && Watermark::read(&**storage, &watermark).map_err(store_error)?.is_none()
        {
            findings.push(doctor_warning(
                "watermark",
                FindingType::Checksum,
                FindingPlace::path(watermark),
                "it cannot be read, so damage to the last events looks like a torn tail",
                Repair::automatic(
                    "it is moved to the quarantine, and written again with the next event",
                ),
            ));
        }
        self.check_session_transcript(layout, findings)
    }

    /// Checks whether the session's writer died, and whether a process runs on without it.
    fn check_session_writer(
        &self,
        session: SessionId,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let Ok(seen) = self.store.liveness_checker().check(session) else { return Ok(()) };
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
                Repair::by_hand("check that process; a lock is released when its holder ends"),
            )),
            _ => {}
        }
        for orphan in &seen.orphans {
            findings.push(doctor_warning(
                "orphaned-process",
                FindingType::Referential,
                FindingPlace::subject(format!("process {}", orphan.process)),
                format!(
                    "`{}` was started for this session and is still running, but its writer died",
                    orphan.program
                ),
                Repair::by_hand("check it, and end it if it is not needed"),
            ));
        }
        Ok(())
    }

    fn check_session_transcript(
        &self,
        layout: &SessionLayout,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let path = layout.transcript();
        let file = match self.store.storage().open(&path, Access::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(storage_error("open", &path))?,
        };
        let length = file.len().map_err(storage_error("read", &path))?;
        let mut bytes = vec![0; usize::try_from(length.min(MOST_TRANSCRIPT)).unwrap_or(0)];
        let read = read_full(&*file, &mut bytes, 0).map_err(storage_error("read", &path))?;
        bytes.truncate(read);
        let wrong = TranscriptChunks::new(&bytes).find_map(Result::err);
        // An incomplete end is a write in progress or a torn one: the next writer cuts it off.
        if let Some(wrong) = wrong.filter(|wrong| wrong.reason != ParseReason::Unfinished) {
            findings.push(doctor_warning(
                "transcript",
                FindingType::Checksum,
                FindingPlace::path(path).at(wrong.offset),
                wrong.reason.to_string(),
                Repair::automatic(if self.store.keeps_transcripts() {
                    "it is rebuilt from the journal"
                } else {
                    "it is moved to the quarantine: the store keeps no transcripts, and `abide \
                     export --format transcript` writes one"
                }),
            ));
        }
        Ok(())
    }
}

impl SessionJournalWalk {
    /// The objects that recoveries name as lost, and the last recovery that names each.
    pub(super) fn named_as_lost(&self) -> BTreeMap<ObjectHash, Seq> {
        let all = self.recoveries.iter();
        all.flat_map(|(seq, fact)| fact.lost_objects.iter().map(|hash| (*hash, *seq))).collect()
    }

    fn requires_validation(&self) -> bool {
        let wanted =
            |wants: bool, fact: &Recovery| (wants || fact.requires_validation) && !fact.accepted;
        self.recoveries.iter().map(|(_, fact)| fact).fold(false, wanted)
    }

    /// What splices call lost and no recovery names: a repair was interrupted between the two.
    fn unnamed(&self) -> Vec<(Seq, Seq)> {
        let named = |(first, last): &(Seq, Seq)| {
            let mut named = self.recoveries.iter().flat_map(|(_, fact)| &fact.lost);
            named.any(|(from, to)| from <= first && last <= to)
        };
        self.spliced.iter().filter(|range| !named(range)).copied().collect()
    }

    fn take(&mut self, event: &Event, numbers: &mut CheckpointNumbers) {
        self.latest = self.latest.max(event.at);
        self.rewinds.extend(rewind_target(event).map(|to| (event.seq, to)));
        let kinds = [Kind::CHECKPOINT_CREATED, Kind::CHECKPOINT_THINNED, Kind::RECOVERY_PERFORMED];
        let Some(fact) = kinds.contains(&event.kind).then(|| event.fact().ok()).flatten() else {
            return;
        };
        let number = numbers.take(&event.kind, &fact);
        match fact {
            Fact::Checkpoint(fact) => {
                self.snapshots.extend(fact.snapshot.map(|snapshot| (snapshot, event.seq, number)));
            }
            Fact::Recovery(fact) => note_recovery(&mut self.recoveries, event.seq, fact),
            _ => {}
        }
    }
}

/// Adds a recovery. One that was undone removes its entry.
pub(crate) fn note_recovery(recoveries: &mut Vec<(Seq, Recovery)>, seq: Seq, fact: Recovery) {
    if fact.strategy == "undo" && fact.repair.is_some() {
        recoveries.retain(|(_, recovery)| recovery.repair != fact.repair);
    }
    recoveries.push((seq, fact));
}

/// Who has the lock of the session that is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockOwnership {
    /// Possibly somebody.
    Anybodys,
    /// The caller: nobody else writes.
    Ours,
}

/// Checks, with the lock held by us, whether the session was left running.
fn session_left_running(state: &SessionState) -> Option<Finding> {
    let left = state.core.writing && state.core.status == SessionStatus::Running;
    left.then(|| {
        interrupted_session(FindingPlace::event(state.core.seq), "the session was not closed")
    })
}

fn interrupted_session(place: FindingPlace, why: &str) -> Finding {
    doctor_warning(
        "interrupted-session",
        FindingType::BusinessLogic,
        place,
        format!("its writer died and left it running: {why}"),
        Repair::automatic("its status is set to `interrupted`"),
    )
}

/// Whether the payload is JSON. The rules check those of known kinds.
fn is_json(event: &Event) -> bool {
    Kind::VOCABULARY.contains(&event.kind.as_str())
        || event.data.as_ref().is_none_or(|data| data.decode::<serde::de::IgnoredAny>().is_ok())
}
