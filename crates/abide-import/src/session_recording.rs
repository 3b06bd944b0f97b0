//! Records what is new in the files of one session: each record as the event that carries it, and what it
//! tells.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::sync::atomic::Ordering;

use abide::{
    Durability, Kind, LaneId, NewEvent, Seq, Session, SessionFields, SessionStatus, Timestamp,
};
use abide_agents::{KeptContent, ReadRecord, RewindPlace, SessionDetails};
use abide_model::{
    AnomalyPolicy, Compaction, GitState, RecordedMessage, Rewind, SourceProgress, StatusChange,
};

use crate::ImportFilesError;
use crate::database_rows::rows_of_session;
use crate::file_reading::{SourceReading, is_fresh, is_records, open_lines, tail_of, trimmed};
use crate::import_ledger::{ImportedFile, SourceStamp};
use crate::line_pieces::{SourcePiece, split_line};
use crate::session_import::{ImportWatch, SessionImported};
use crate::session_sources::{RecordIndex, RecordSeqs, SessionSources};
use crate::source_event::{
    CarriedRecord, OTHER_BYTES, RECORD_BYTES, SourcePlace, bytes_event, carrier_of_record,
    cut_of_other, derived_event,
};
use crate::source_finder::{FoundFile, FoundRows, FoundSession};

/// A batch is appended when it has so many events or bytes.
const BATCH_EVENTS: usize = 512;
const BATCH_BYTES: usize = 1 << 20;
/// How often it is noted how far a long file was read, in bytes of the file.
const PROGRESS_BYTES: u64 = 16 << 20;
/// A longer line is kept in parts, and not as records.
const LINE_BYTES: u64 = 48 << 20;
/// The place of the event by which the conversation of a rewritten file begins again: no record is there.
const BEGINNING: u64 = u64::MAX;

/// A session that is being recorded.
pub(crate) struct SessionRecording<'a> {
    pub(crate) watch: &'a ImportWatch<'a>,
    pub(crate) session: &'a Session,
    pub(crate) agent: &'static str,
    pub(crate) sources: SessionSources,
    pub(crate) ids: RecordIndex,
    pub(crate) batch: Vec<NewEvent>,
    pub(crate) batch_bytes: usize,
    /// Records with an id in the batch: the id, its first event and its last one there.
    pub(crate) pending: Vec<(String, usize, usize)>,
    pub(crate) details: SessionDetails,
    pub(crate) outcome: SessionImported,
    pub(crate) files: BTreeMap<String, ImportedFile>,
    /// The time that a record told last.
    pub(crate) occurred: Option<Timestamp>,
}

impl SessionRecording<'_> {
    /// Reads what is new in a file.
    pub(crate) fn file(
        &mut self,
        found: &FoundSession,
        file: &FoundFile,
    ) -> Result<(), ImportFilesError> {
        let name = &file.kept.name;
        let known = self.files.get(name).map(|known| known.stamp);
        if known == Some(file.stamp) {
            return Ok(());
        }
        let done = match (&file.rows, file.kept.content) {
            (Some(rows), _) => self.rows(found, file, rows),
            (None, KeptContent::Whole) => self.whole(found, file),
            (None, _) => self.lines(found, file),
        };
        let (progress, complete) = match done {
            Ok(done) => done,
            // What is gone now will not be missed: the agent removed it.
            Err(ImportFilesError::Read { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                return Ok(());
            }
            // The other files can be read all the same.
            Err(ImportFilesError::Read { path, source }) => {
                let unreadable = format!("{}: {source}", path.display());
                self.outcome.unreadable.push(unreadable);
                return self.flush();
            }
            Err(error) => return Err(error),
        };
        let recorded = self.session.redacted(NewEvent::try_from(progress.clone())?);
        let progress = recorded.data.decode().unwrap_or(progress);
        // A file whose end is not there yet is looked at again.
        let stamp = if complete { file.stamp } else { SourceStamp::default() };
        self.files.insert(name.clone(), ImportedFile { stamp, progress, is_brief: false });
        Ok(())
    }

    /// Reads the new lines of a file. Returns how far it was read, and whether that is all of it.
    fn lines(
        &mut self,
        found: &FoundSession,
        file: &FoundFile,
    ) -> Result<(SourceProgress, bool), ImportFilesError> {
        let failed = || ImportFilesError::read(&file.path);
        let (mut name, mut progress) = {
            let (name, progress) = self.sources.newest(&file.kept.name);
            (name, progress.cloned())
        };
        let mut tail = None;
        if let Some(known) = &progress {
            tail = tail_of(&file.path, file.kept.content, known)?;
            if tail.is_none() && self.session.core()?.health.erased > 0 {
                // What was erased may be in it.
                let why = "its file was rewritten, and data of the session was erased here";
                self.outcome.left = Some(why.to_owned());
                return Ok((known.clone(), true));
            }
            if tail.is_none() {
                // It is not the file that was read.
                name = self.sources.renewed(&file.kept.name);
                progress = None;
            }
        }
        let is_rewritten = name != file.kept.name && progress.is_none();
        let mut reading = SourceReading::begin(found.agent, file, name, progress.as_ref());
        reading.tail = tail.unwrap_or_default();
        let mut lines = open_lines(&file.path, file.kept.content, reading.end)?;
        if is_rewritten && file.kept.lane.is_none() {
            self.begin_again(&reading)?;
        }
        let mut line = Vec::new();
        let mut complete = true;
        // Of a line that is too long to be a record, this is not the beginning.
        let mut goes_on = false;
        loop {
            line.clear();
            let read = lines.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line);
            if read.map_err(failed())? == 0 {
                break;
            }
            let is_whole = line.last() == Some(&b'\n');
            let is_long = !is_whole && line.len() as u64 == LINE_BYTES;
            let text = trimmed(&line);
            if goes_on || is_long {
                self.other(&reading, reading.end, text)?;
            } else if !is_whole && !is_records(text) && is_fresh(&file.path) {
                self.outcome.unfinished += text.len() as u64;
                complete = false;
                break;
            } else {
                let start = reading.end;
                let mut done = Ok(());
                split_line(text, |at, piece| {
                    if done.is_ok() {
                        let at = start + at as u64;
                        done = match piece {
                            SourcePiece::Record { json, blanks } => {
                                self.record(&mut reading, at, json, blanks)
                            }
                            SourcePiece::Other(bytes) => self.other(&reading, at, bytes),
                        };
                    }
                });
                done?;
            }
            goes_on = is_long;
            reading.advance(&line);
            self.watch.read.fetch_add(line.len() as u64, Ordering::Relaxed);
            if reading.end - reading.noted >= PROGRESS_BYTES {
                self.note(&mut reading)?;
                self.stop_if_asked()?;
            }
        }
        if reading.end > reading.noted || progress.is_none() {
            self.note(&mut reading)?;
        }
        self.stop_if_asked()?;
        Ok((reading.progress(self.agent), complete))
    }

    /// Records a file that is kept as a whole.
    fn whole(
        &mut self,
        found: &FoundSession,
        file: &FoundFile,
    ) -> Result<(SourceProgress, bool), ImportFilesError> {
        let failed = || ImportFilesError::read(&file.path);
        let (name, progress) = {
            let (name, progress) = self.sources.newest(&file.kept.name);
            (name, progress.cloned())
        };
        let mut input = File::open(&file.path).map_err(failed())?;
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut input, &mut hasher).map_err(failed())?;
        let hash = hasher.finalize().to_hex().to_string();
        if let Some(known) = progress.filter(|known| known.hash.as_deref() == Some(&hash)) {
            return Ok((known, true));
        }
        let is_known = self.sources.progress.contains_key(&name);
        let name = if is_known { self.sources.renewed(&file.kept.name) } else { name };
        input.seek(SeekFrom::Start(0)).map_err(failed())?;
        let mut reading = SourceReading::begin(found.agent, file, name, None);
        let mut part = Vec::new();
        loop {
            let most = (2 * OTHER_BYTES).saturating_sub(part.len()) as u64;
            let read = input.by_ref().take(most).read_to_end(&mut part).map_err(failed())?;
            if part.is_empty() {
                break;
            }
            let end = if read == 0 { part.len() } else { cut_of_other(&part) };
            let rest = part.split_off(end);
            self.other(&reading, reading.end, &part)?;
            reading.end += part.len() as u64;
            self.watch.read.fetch_add(part.len() as u64, Ordering::Relaxed);
            part = rest;
        }
        let mut progress = reading.progress(self.agent);
        progress.hash = Some(hash);
        progress.memory = None;
        self.push(NewEvent::try_from(progress.clone())?)?;
        Ok((progress, true))
    }

    /// Records the rows that are new or have changed.
    fn rows(
        &mut self,
        found: &FoundSession,
        file: &FoundFile,
        rows: &FoundRows,
    ) -> Result<(SourceProgress, bool), ImportFilesError> {
        let rows = rows_of_session(&rows.copy, rows.query, &found.id)?;
        let progress = self.sources.progress.get(&file.kept.name).cloned();
        let name = file.kept.name.clone();
        let mut reading = SourceReading::begin(found.agent, file, name, progress.as_ref());
        for row in rows {
            if reading.rows.is_new(&row) {
                let at = reading.end;
                self.record(&mut reading, at, &row, "")?;
                reading.end += 1;
            }
            self.watch.read.fetch_add(row.len() as u64, Ordering::Relaxed);
        }
        if reading.end > reading.noted || progress.is_none() {
            self.note(&mut reading)?;
        }
        self.stop_if_asked()?;
        Ok((reading.progress(self.agent), true))
    }

    /// The conversation of a file that was rewritten is read from its beginning.
    fn begin_again(&mut self, reading: &SourceReading<'_>) -> Result<(), ImportFilesError> {
        let place = SourcePlace { file: &reading.name, at: BEGINNING };
        if self.sources.recorded.contains_key(&(reading.name.clone(), BEGINNING)) {
            return Ok(());
        }
        self.rewind(place, Seq::FIRST)
    }

    /// Records one record: the event that carries it, and what it tells.
    fn record(
        &mut self,
        reading: &mut SourceReading<'_>,
        at: u64,
        json: &str,
        blanks: &str,
    ) -> Result<(), ImportFilesError> {
        if json.len() > RECORD_BYTES {
            return self.other(reading, at, [json, blanks].concat().as_bytes());
        }
        let read = reading.reader.read(json);
        self.outcome.records += 1;
        if !read.known {
            *self.outcome.unknown.entry(read.sort.clone()).or_default() += 1;
        }
        let name = reading.name.clone();
        let place = SourcePlace { file: &name, at };
        let recorded = self.sources.recorded.get(&(name.clone(), at)).copied();
        let recorded = recorded.unwrap_or_default();
        let mut skipped = recorded.count - usize::from(recorded.rewound);
        let mut skip = || {
            let is_there = skipped > 0;
            skipped = skipped.saturating_sub(1);
            is_there
        };
        // It comes before the other events of the record.
        if recorded.count == 0
            && let Some(to) = self.rewind_target(&read)?
        {
            self.rewind(place, to)?;
        }
        reading.occurred = read.occurred.or(reading.occurred);
        self.occurred = self.occurred.max(reading.occurred);
        let lane = read.lane.clone().or_else(|| reading.found.kept.lane.clone());
        let replaces = match read.message.as_ref().and_then(|message| message.replaces.as_ref()) {
            Some(id) => {
                self.flush_for(id)?;
                self.ids.get(id, self.session.view())?.and_then(|seqs| seqs.message)
            }
            None => None,
        };
        let occurred = reading.occurred;
        let first = if read.compaction.is_some() { 0 } else { self.batch.len() };
        if !skip() {
            let carried = CarriedRecord { occurred, lane: lane.clone(), replaces };
            let mut event = carrier_of_record(place, json, blanks, &read, carried.clone())?;
            if replaces.is_none()
                && let Some(told) = self.told_before(&event)
            {
                let carried = CarriedRecord { replaces: Some(told), ..carried };
                event = carrier_of_record(place, json, blanks, &read, carried)?;
            }
            self.push_in_record(event);
        }
        if let Some(summary) = &read.compaction
            && !skip()
        {
            self.compaction(place, summary, &read.keeps, &lane, occurred)?;
        }
        let ReadRecord { id, events, details, .. } = read;
        if details.branch.is_some() && details.branch != reading.branch {
            reading.branch.clone_from(&details.branch);
            let state = GitState { branch: details.branch.clone(), ..GitState::default() };
            let event = NewEvent { occurred, ..NewEvent::try_from(state)? };
            if !skip() {
                self.push_in_record(derived_event(place, event));
            }
        }
        for event in events {
            if !skip() {
                let event = NewEvent {
                    occurred: event.occurred.or(occurred),
                    lane: event.lane.clone().or_else(|| lane.clone()),
                    ..event
                };
                self.push_in_record(derived_event(place, event));
            }
        }
        if reading.found.kept.lane.is_none() {
            merge_details(&mut self.details, details, reading.found.workspace.as_ref());
        }
        if let Some(id) = id.filter(|_| self.batch.len() > first) {
            self.pending.push((id, first, self.batch.len() - 1));
        }
        self.flush_if_full()
    }

    /// The provisional message that the message of this record takes the place of.
    fn told_before(&mut self, event: &NewEvent) -> Option<Seq> {
        if self.sources.provisional.is_empty() || event.kind != Kind::MESSAGE_ADDED {
            return None;
        }
        let redacted = self.session.redacted(event.clone());
        let message = RecordedMessage::of(&redacted.data)?;
        self.sources.claim_provisional(&message, event.lane.as_ref())
    }

    /// Records bytes that are no record.
    fn other(
        &mut self,
        reading: &SourceReading<'_>,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), ImportFilesError> {
        let mut rest = bytes;
        let mut at = at;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(cut_of_other(rest));
            let key = (reading.name.clone(), at);
            if !self.sources.recorded.contains_key(&key) {
                let place = SourcePlace { file: &reading.name, at };
                let event = bytes_event(place, part, self.redacted_bytes(part))?;
                let (occurred, lane) = (reading.occurred, reading.found.kept.lane.clone());
                self.push(NewEvent { occurred, lane, ..event })?;
            }
            at += part.len() as u64;
            rest = after;
        }
        Ok(())
    }

    /// Bytes that are no text as a text without secrets, if there are any in them.
    fn redacted_bytes(&self, bytes: &[u8]) -> Option<String> {
        if std::str::from_utf8(bytes).is_ok() {
            return None;
        }
        let text = String::from_utf8_lossy(bytes);
        Some(self.session.redacted_text(&text)).filter(|redacted| *redacted != *text)
    }

    /// The last event that stays, if the conversation goes back.
    fn rewind_target(&mut self, read: &ReadRecord) -> Result<Option<Seq>, ImportFilesError> {
        let Some(back) = &read.back else { return Ok(None) };
        self.flush()?;
        Ok(match back {
            RewindPlace::Beginning => Some(Seq::FIRST),
            RewindPlace::After(id) => self.ids.get(id, self.session.view())?.map(|seqs| seqs.last),
            RewindPlace::Before(id) => {
                self.ids.get(id, self.session.view())?.map(|seqs| seqs.first.back(1))
            }
        })
    }

    fn rewind(&mut self, place: SourcePlace<'_>, to: Seq) -> Result<(), ImportFilesError> {
        self.flush()?;
        let rewind = NewEvent::try_from(Rewind { to, ..Rewind::default() })?;
        let rewind = NewEvent { occurred: self.occurred, ..rewind };
        self.batch.push(derived_event(place, rewind));
        self.flush()
    }

    fn compaction(
        &mut self,
        place: SourcePlace<'_>,
        summary: &str,
        kept: &[String],
        lane: &Option<LaneId>,
        occurred: Option<Timestamp>,
    ) -> Result<(), ImportFilesError> {
        self.flush()?;
        let mut keeps = Vec::new();
        for id in kept {
            keeps.extend(self.ids.get(id, self.session.view())?.and_then(|seqs| seqs.message));
        }
        keeps.sort_unstable();
        keeps.dedup();
        let state = self.session.state()?;
        let name = lane.as_ref().map(LaneId::as_str).unwrap_or_default();
        let first = state.lane(name).and_then(|lane| lane.first);
        // Nothing was said: an event of its own keeps the count of the record's events.
        let (first, last) = (first.unwrap_or(state.core.seq), state.core.seq);
        let compaction = Compaction {
            first,
            last,
            summary: summary.to_owned(),
            keeps,
            by: self.agent.to_owned(),
            ..Compaction::default()
        };
        let event = NewEvent::try_from(compaction)?;
        let event = NewEvent { occurred, lane: lane.clone(), ..event };
        self.push_in_record(derived_event(place, event));
        Ok(())
    }

    /// Notes how far a file was read.
    fn note(&mut self, reading: &mut SourceReading<'_>) -> Result<(), ImportFilesError> {
        reading.noted = reading.end;
        self.push(NewEvent::try_from(reading.progress(self.agent))?)
    }

    /// Adds an event that belongs to a record: the batch is not appended before all of them are in it.
    fn push_in_record(&mut self, event: NewEvent) {
        self.batch_bytes += event.data.as_str().len();
        self.batch.push(event);
    }

    fn push(&mut self, event: NewEvent) -> Result<(), ImportFilesError> {
        self.push_in_record(event);
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> Result<(), ImportFilesError> {
        if self.batch.len() >= BATCH_EVENTS || self.batch_bytes >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Appends the batch if it holds the record of this id.
    fn flush_for(&mut self, id: &str) -> Result<(), ImportFilesError> {
        if self.pending.iter().any(|(known, ..)| known == id) { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> Result<(), ImportFilesError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        self.outcome.events += batch.len() as u64;
        let messages: Vec<bool> =
            batch.iter().map(|event| event.kind == Kind::MESSAGE_ADDED).collect();
        let ticket = self.session.append_with(batch, Durability::Buffered, AnomalyPolicy::Keep)?;
        let acknowledged = ticket.wait().map_err(abide::Error::from)?;
        for (id, first, last) in std::mem::take(&mut self.pending) {
            let seq = |at: usize| acknowledged.get(at).map(|event| event.seq);
            if let (Some(from), Some(to)) = (seq(first), seq(last)) {
                let is_message = |at: &usize| messages.get(*at).copied().unwrap_or_default();
                let message = (first..=last).find(is_message).and_then(seq);
                self.ids.put(id, RecordSeqs { first: from, last: to, message });
            }
        }
        Ok(())
    }

    fn stop_if_asked(&mut self) -> Result<(), ImportFilesError> {
        if self.watch.interrupted.load(Ordering::Relaxed) {
            self.flush()?;
            return Err(ImportFilesError::Interrupted);
        }
        Ok(())
    }

    /// Records what the files told of the session as a whole, where that is news.
    pub(crate) fn describe(&mut self) -> Result<(), ImportFilesError> {
        if self.outcome.records == 0 {
            return Ok(());
        }
        let core = self.session.core()?;
        let details = std::mem::take(&mut self.details);
        let news = |old: &Option<String>, new: Option<String>| new.filter(|_| old.is_none());
        let model = details.model.filter(|model| core.fields.model.as_ref() != Some(model));
        let update = SessionFields {
            // A title that a person gave stays.
            title: news(&core.fields.title, details.title),
            workspace: news(&core.fields.workspace, details.workspace),
            model,
            ..SessionFields::default()
        };
        if update != SessionFields::default() {
            self.push(NewEvent { occurred: self.occurred, ..NewEvent::try_from(update)? })?;
        }
        if core.status == SessionStatus::Pending && core.messages.total > 0 {
            let idle = StatusChange { status: SessionStatus::Idle, reason: None, summary: None };
            self.push(NewEvent { occurred: self.occurred, ..NewEvent::try_from(idle)? })?;
        }
        self.flush()
    }
}

/// Later details overrule earlier ones, but for the directory in which the session began.
pub(crate) fn merge_details(
    known: &mut SessionDetails,
    told: SessionDetails,
    workspace: Option<&String>,
) {
    known.workspace = known.workspace.take().or(told.workspace).or_else(|| workspace.cloned());
    known.branch = told.branch.or(known.branch.take());
    known.model = told.model.or(known.model.take());
    known.title = told.title.or(known.title.take());
    known.version = told.version.or(known.version.take());
    known.parent = known.parent.take().or(told.parent);
}
