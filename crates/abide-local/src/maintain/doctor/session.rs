//! Examines a session: every line, sum and object, the rules, and derived files.

use std::ops::ControlFlow;

use abide_journal::{Access, JournalItem, JournalWalkStart, Slots, Watermark, read_full};
use abide_maintain::{
    CheckedRules, Examination, ExaminationFacts, ExaminedLines, ExaminedObjects, doctor_error,
    doctor_warning, interrupted_session, session_left_running,
};
use abide_model::{
    Event, Finding, FindingPlace, FindingType, Lineage, Liveness, MessageRevisions, Repair,
    SessionId, SessionStatus, Severity, StoreError, rewind_target,
};
use abide_transcript::{ParseReason, TranscriptChunks};

use super::Doctor;
use crate::error::{storage_error, store_error};
use crate::sessions::local_reader::LocalReader;
use crate::sessions::session_ancestry::MissingParentPolicy;
use crate::store_layout::SessionLayout;

/// A transcript with more bytes than this is not read completely.
pub(super) const MOST_TRANSCRIPT: u64 = 1 << 30;

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
        found.findings.extend(lines.clock_finding((self.store.options().env.now)()));
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
        let packs = self.store.packs();
        let objects = ExaminedObjects {
            read: &|hash| packs.read(hash).map_err(store_error),
            readable: &|hashes| packs.readable(hashes).map_err(store_error),
        };
        facts.lost_objects = objects.check(&lines, state, &mut found.findings)?;
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
        found.missing = lines.recorded_losses(objects.readable)?;
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
    ) -> Result<ExaminedLines, StoreError> {
        let mark = reader.mark().map_err(store_error)?;
        let mut lines = ExaminedLines::default();
        let mut numbers = reader.checkpoints_in_ancestry().map_err(store_error)?;
        let findings = &mut examination.findings;
        let (mut events, mut bytes) = (0, 0);
        let walked = reader.journal().walk(JournalWalkStart::beginning(), mark, &mut |found| {
            match &found {
                JournalItem::Event { line, offset, end, segment, .. } => {
                    events += 1;
                    bytes += end - offset;
                    findings.extend(lines.line(line, &mut numbers, || {
                        let place = FindingPlace::subject(format!("segment {segment}"));
                        (place, format!("at byte {offset}: "))
                    }));
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

    /// Folds the live events and runs the rules over them.
    fn check_session_rules(
        &self,
        reader: &LocalReader,
        lines: &ExaminedLines,
        facts: &mut ExaminationFacts,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let past = reader.past().map_err(store_error)?;
        let mark = reader.mark().map_err(store_error)?;
        let mut rewinds = Vec::new();
        let mut revisions = MessageRevisions::default();
        let mut note = |event: &Event| {
            rewinds.extend(rewind_target(event).map(|to| (event.seq, to)));
            revisions.note(event);
        };
        past.each_event(past.last(), &mut note).map_err(store_error)?;
        rewinds.extend(lines.rewinds.iter().copied());
        revisions.extend(&lines.revisions);
        let lineage = Lineage::at(lines.last, &rewinds);
        let mut rules = CheckedRules::new((self.rules)(), lineage, revisions);
        let mut see = |event: &Event| rules.event(event);
        past.each_event(past.last(), &mut see).map_err(store_error)?;
        reader.each_own_event(lines.last, mark, &mut see).map_err(store_error)?;
        let found = rules.finish(facts);
        // A checkpoint of a fork may have been made before an ancestor was repaired.
        let of_past = |found: &Finding| found.rule == "checkpoint-digest" && past.is_fork();
        let mended = found.iter().any(of_past) && !self.mended_past(past)?.is_empty();
        findings.extend(found.into_iter().filter(|found| !(mended && of_past(found))));
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

/// Who has the lock of the session that is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockOwnership {
    /// Possibly somebody.
    Anybodys,
    /// The caller: nobody else writes.
    Ours,
}
