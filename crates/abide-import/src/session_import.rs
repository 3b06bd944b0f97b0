//! Imports one session of an agent: reads what is new in its files and records it.
//!
//! Each record of a file becomes exactly one event that carries it, followed by what it tells. The
//! events of one record may be cut off by a crash: the next import counts what is there and goes on
//! behind it, since the same records give the same events.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use abide::{
    Durability, Kind, LaneId, NewEvent, NewSession, Seq, Session, SessionFields, SessionId,
    SessionRef, SessionStatus, Store, StoreError, Timestamp,
};
use abide_agents::{
    KeptContent, OpaqueReader, ReadRecord, RecordReader, RewindPlace, SessionDetails,
};
use abide_model::{AnomalyPolicy, Compaction, GitState, Rewind, SourceProgress, StatusChange};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ImportFilesError;
use crate::database_rows::{open_copy, rows_of_session};
use crate::import_ledger::{FileStamp, ImportedFile, ImportedSession};
use crate::line_pieces::{LinePiece, split_line};
use crate::session_sources::{RecordIndex, RecordSeqs, SessionSources};
use crate::source_event::{
    CarriedRecord, OTHER_BYTES, SourcePlace, carrier_of_record, derived_event, events_of_other,
    place_of_source,
};
use crate::source_finder::{FoundFile, FoundSession};

/// A batch is appended when it has so many events or bytes.
const BATCH_EVENTS: usize = 512;
const BATCH_BYTES: usize = 1 << 20;
/// How often it is noted how far a long file was read, in bytes of the file.
const PROGRESS_BYTES: u64 = 16 << 20;
/// The length of the end of a file by which it is recognized.
const TAIL_BYTES: usize = 4096;
/// A line without its end is taken as it is once its file has been left alone so long.
const TORN_AFTER: Duration = Duration::from_secs(600);
/// The place of the event by which the conversation of a rewritten file begins again: no record is there.
const BEGINNING: u64 = u64::MAX;
/// How many records of a new session are looked at before it is made: for its directory and its start.
const LOOKED_AT: usize = 200;

/// What an import reads, by its callers' wishes.
pub(crate) struct ImportWork<'a> {
    pub(crate) store: &'a Store,
    /// The project of a directory.
    pub(crate) project: &'a (dyn Fn(&Path) -> Option<String> + Sync),
    /// Stops the import after the current batch.
    pub(crate) interrupted: &'a AtomicBool,
    /// The bytes that were read.
    pub(crate) read: &'a AtomicU64,
}

/// What became of one session.
#[derive(Debug, Clone, Default)]
pub struct SessionImported {
    /// The session that holds it.
    pub session: Option<SessionId>,
    /// It was made by this import.
    pub is_new: bool,
    /// Records that were read.
    pub records: u64,
    /// Events that were recorded.
    pub events: u64,
    /// Records of sorts that are not known, by agent's word. They are kept.
    pub unknown: BTreeMap<String, u64>,
    /// Bytes of lines that were not finished yet.
    pub unfinished: u64,
    /// It is left alone, with the reason.
    pub left: Option<String>,
}

/// What is remembered between two imports of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ImportMemory {
    /// The reader's own memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    reader: Option<Box<RawValue>>,
    /// The git branch as last told.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// The rows as last read: for each eight hexadecimal digits of its id and eight of its contents.
    #[serde(skip_serializing_if = "String::is_empty")]
    rows: String,
}

/// Reads what is new and records it. `known`: what the ledger says of the session.
pub(crate) fn import_session(
    work: &ImportWork<'_>,
    found: &FoundSession,
    known: Option<&ImportedSession>,
) -> Result<(SessionImported, Option<ImportedSession>), ImportFilesError> {
    let mut outcome = SessionImported::default();
    let (id, is_new) = match known {
        Some(known) => (known.session, false),
        None => {
            let Some(new) = new_session(work, found)? else {
                outcome.left = Some("it has no records".to_owned());
                return Ok((outcome, None));
            };
            let made = work.store.make_new(new)?;
            (made.id, made.is_new)
        }
    };
    outcome.session = Some(id);
    outcome.is_new = is_new;
    let session = match work.store.open_session(&SessionRef::Id(id)) {
        Ok(session) => session,
        Err(abide::Error::Store(StoreError::Held { holder, .. })) => {
            outcome.left = Some(format!("it is held by {holder}"));
            return Ok((outcome, None));
        }
        Err(abide::Error::Store(StoreError::NoSession { .. })) if known.is_some() => {
            outcome.left = Some("it was removed here".to_owned());
            return Ok((outcome, None));
        }
        Err(error) => return Err(error.into()),
    };
    let sources = SessionSources::read(session.view(), known)?;
    let is_empty = sources.progress.is_empty() && sources.recorded.is_empty();
    let ids = if is_empty { RecordIndex::of_new() } else { RecordIndex::default() };
    let mut recording = SessionRecording {
        work,
        session: &session,
        agent: found.agent.as_str(),
        sources,
        ids,
        batch: Vec::new(),
        batch_bytes: 0,
        pending: Vec::new(),
        details: SessionDetails::default(),
        outcome,
        files: known.map(|known| known.files.clone()).unwrap_or_default(),
    };
    for file in &found.files {
        recording.file(found, file)?;
    }
    recording.flush()?;
    recording.describe()?;
    let SessionRecording { outcome, files, .. } = recording;
    session.close()?;
    let through = work.store.view(&SessionRef::Id(id))?.acknowledged()?;
    Ok((outcome, Some(ImportedSession { session: id, through, files })))
}

/// The session to make, by its first records; `None` if it has none.
fn new_session(
    work: &ImportWork<'_>,
    found: &FoundSession,
) -> Result<Option<NewSession>, ImportFilesError> {
    let mut details = SessionDetails::default();
    let mut started: Option<Timestamp> = None;
    let mut records = 0;
    for file in found.files.iter().filter(|file| file.kept.content != KeptContent::Whole) {
        let Some(kept) = found.agent.kept_sessions() else { continue };
        let mut reader = (kept.reader)(&file.kept, None);
        let mut see = |json: &str| {
            let read = reader.read(json);
            records += 1;
            started = started.or(read.occurred);
            merge_details(&mut details, read.details, file.workspace.as_ref());
            records < LOOKED_AT
        };
        match file.rows {
            Some(query) => {
                let copy = open_copy(&file.path)?;
                rows_of_session(&copy, query, &found.id)?.iter().all(|row| see(row));
            }
            None => {
                let mut lines = open_lines(&file.path, file.kept.content, 0)?;
                let mut line = Vec::new();
                let mut more = true;
                while more {
                    line.clear();
                    let read = lines.read_until(b'\n', &mut line);
                    if read.map_err(ImportFilesError::read(&file.path))? == 0 {
                        break;
                    }
                    split_line(trimmed(&line), |_, piece| {
                        if let LinePiece::Record { json, .. } = piece {
                            more &= see(json);
                        }
                    });
                }
            }
        }
        if records > 0 {
            break;
        }
    }
    if records == 0 {
        return Ok(None);
    }
    let agent = found.agent.as_str();
    let workspace = details.workspace.clone();
    let fields = SessionFields {
        title: details.title,
        project_id: workspace.as_ref().and_then(|dir| (work.project)(Path::new(dir))),
        workspace,
        agent: Some(agent.to_owned()),
        model: details.model,
        ..SessionFields::default()
    };
    let new = NewSession { started, ..NewSession::from(fields) };
    Ok(Some(new.with_key(format!("{agent}/{}", found.id))))
}

/// Later details overrule earlier ones, but for the directory in which the session began.
fn merge_details(known: &mut SessionDetails, told: SessionDetails, workspace: Option<&String>) {
    known.workspace = known.workspace.take().or(told.workspace).or_else(|| workspace.cloned());
    known.branch = told.branch.or(known.branch.take());
    known.model = told.model.or(known.model.take());
    known.title = told.title.or(known.title.take());
    known.version = told.version.or(known.version.take());
    known.parent = known.parent.take().or(told.parent);
}

/// A session that is being recorded.
struct SessionRecording<'a> {
    work: &'a ImportWork<'a>,
    session: &'a Session,
    agent: &'static str,
    sources: SessionSources,
    ids: RecordIndex,
    batch: Vec<NewEvent>,
    batch_bytes: usize,
    /// Records with an id in the batch: the id, its first event and its last one there.
    pending: Vec<(String, usize, usize)>,
    details: SessionDetails,
    outcome: SessionImported,
    files: BTreeMap<String, ImportedFile>,
}

/// A file that is being read.
struct FileReading<'a> {
    /// Its name in the session.
    name: String,
    found: &'a FoundFile,
    reader: Box<dyn RecordReader>,
    branch: Option<String>,
    /// The end of what was read.
    end: u64,
    /// When progress was noted last.
    noted: u64,
    /// The last bytes of what was read.
    tail: Vec<u8>,
    rows: RowHashes,
}

impl FileReading<'_> {
    fn progress(&self, agent: &str) -> SourceProgress {
        let reader = RawValue::from_string(self.reader.memory()).ok();
        let (branch, rows) = (self.branch.clone(), self.rows.to_text());
        let memory = serde_json::value::to_raw_value(&ImportMemory { reader, branch, rows });
        SourceProgress {
            agent: agent.to_owned(),
            file: self.name.clone(),
            path: Some(self.found.path.to_string_lossy().into_owned()),
            end: self.end,
            rows: self.found.rows.is_some(),
            hash: Some(blake3::hash(&self.tail).to_hex().to_string()),
            memory: memory.ok(),
        }
    }

    /// Counts bytes that were read.
    fn advance(&mut self, bytes: &[u8]) {
        self.end += bytes.len() as u64;
        let kept = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
        self.tail.extend_from_slice(kept);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
    }
}

impl SessionRecording<'_> {
    /// Reads what is new in a file.
    fn file(&mut self, found: &FoundSession, file: &FoundFile) -> Result<(), ImportFilesError> {
        let name = &file.kept.name;
        let known = self.files.get(name).map(|known| known.stamp);
        if known == Some(file.stamp) {
            return Ok(());
        }
        let done = match (file.rows, file.kept.content) {
            (Some(query), _) => self.rows(found, file, query),
            (None, KeptContent::Whole) => self.whole(file),
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
            Err(error) => return Err(error),
        };
        // A file whose end is not there yet is looked at again.
        let stamp = if complete { file.stamp } else { FileStamp::default() };
        self.files.insert(name.clone(), ImportedFile { stamp, progress });
        Ok(())
    }

    /// Begins to read a file, where an earlier import stopped.
    fn reading<'f>(
        &self,
        found: &FoundSession,
        file: &'f FoundFile,
        name: String,
        progress: Option<&SourceProgress>,
    ) -> FileReading<'f> {
        let memory = progress.and_then(|progress| progress.memory.as_ref());
        let memory: ImportMemory =
            memory.and_then(|memory| serde_json::from_str(memory.get()).ok()).unwrap_or_default();
        let reader: Box<dyn RecordReader> = match found.agent.kept_sessions() {
            Some(kept) => (kept.reader)(&file.kept, memory.reader.as_ref().map(|raw| raw.get())),
            None => Box::new(OpaqueReader),
        };
        let end = progress.map_or(0, |progress| progress.end);
        FileReading {
            name,
            found: file,
            reader,
            branch: memory.branch,
            end,
            noted: end,
            tail: Vec::new(),
            rows: RowHashes::of(&memory.rows),
        }
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
            if tail.is_none() {
                // It is not the file that was read.
                name = self.sources.renewed(&file.kept.name);
                progress = None;
            }
        }
        let is_rewritten = name != file.kept.name && progress.is_none();
        let mut reading = self.reading(found, file, name, progress.as_ref());
        reading.tail = tail.unwrap_or_default();
        let mut lines = open_lines(&file.path, file.kept.content, reading.end)?;
        if is_rewritten && file.kept.lane.is_none() {
            self.begin_again(&reading)?;
        }
        let mut line = Vec::new();
        let mut complete = true;
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line).map_err(failed())? == 0 {
                break;
            }
            let is_whole = line.last() == Some(&b'\n');
            let text = trimmed(&line);
            if !is_whole && !is_records(text) && is_fresh(&file.path) {
                self.outcome.unfinished += text.len() as u64;
                complete = false;
                break;
            }
            let start = reading.end;
            let mut pieces = Vec::new();
            split_line(text, |at, piece| pieces.push((start + at as u64, piece)));
            for (at, piece) in pieces {
                match piece {
                    LinePiece::Record { json, blanks } => {
                        self.record(&mut reading, at, json, blanks)?;
                    }
                    LinePiece::Other(bytes) => self.other(&reading, at, bytes)?,
                }
            }
            reading.advance(&line);
            self.work.read.fetch_add(line.len() as u64, Ordering::Relaxed);
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
    fn whole(&mut self, file: &FoundFile) -> Result<(SourceProgress, bool), ImportFilesError> {
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
        let mut reading = FileReading {
            name,
            found: file,
            reader: Box::new(OpaqueReader),
            branch: None,
            end: 0,
            noted: 0,
            tail: Vec::new(),
            rows: RowHashes::default(),
        };
        let mut part = Vec::new();
        loop {
            part.clear();
            let most = OTHER_BYTES as u64;
            input.by_ref().take(most).read_to_end(&mut part).map_err(failed())?;
            if part.is_empty() {
                break;
            }
            self.other(&reading, reading.end, &part)?;
            reading.end += part.len() as u64;
            self.work.read.fetch_add(part.len() as u64, Ordering::Relaxed);
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
        query: &str,
    ) -> Result<(SourceProgress, bool), ImportFilesError> {
        let copy = open_copy(&file.path)?;
        let rows = rows_of_session(&copy, query, &found.id)?;
        let progress = self.sources.progress.get(&file.kept.name).cloned();
        let name = file.kept.name.clone();
        let mut reading = self.reading(found, file, name, progress.as_ref());
        for row in rows {
            if reading.rows.is_new(&row) {
                let at = reading.end;
                self.record(&mut reading, at, &row, "")?;
                reading.end += 1;
            }
            self.work.read.fetch_add(row.len() as u64, Ordering::Relaxed);
        }
        if reading.end > reading.noted || progress.is_none() {
            self.note(&mut reading)?;
        }
        self.stop_if_asked()?;
        Ok((reading.progress(self.agent), true))
    }

    /// The conversation of a file that was rewritten is read from its beginning.
    fn begin_again(&mut self, reading: &FileReading<'_>) -> Result<(), ImportFilesError> {
        let place = SourcePlace { file: &reading.name, at: BEGINNING };
        if self.sources.recorded.contains_key(&(reading.name.clone(), BEGINNING)) {
            return Ok(());
        }
        self.rewind(place, Seq::FIRST)
    }

    /// Records one record: the event that carries it, and what it tells.
    fn record(
        &mut self,
        reading: &mut FileReading<'_>,
        at: u64,
        json: &str,
        blanks: &str,
    ) -> Result<(), ImportFilesError> {
        let read = reading.reader.read(json);
        self.outcome.records += 1;
        if !read.known {
            *self.outcome.unknown.entry(read.sort.clone()).or_default() += 1;
        }
        let name = reading.name.clone();
        let place = SourcePlace { file: &name, at };
        let mut skipped = self.sources.recorded.get(&(name.clone(), at)).copied().unwrap_or(0);
        let mut skip = || {
            let is_there = skipped > 0;
            skipped = skipped.saturating_sub(1);
            is_there
        };
        if let Some(to) = self.rewind_target(&read)?
            && !skip()
        {
            self.rewind(place, to)?;
        }
        let lane = read.lane.clone().or_else(|| reading.found.kept.lane.clone());
        let replaces = match read.message.as_ref().and_then(|message| message.replaces.as_ref()) {
            Some(id) => {
                self.flush_for(id)?;
                self.ids.get(id, self.session.view())?.and_then(|seqs| seqs.message)
            }
            None => None,
        };
        let occurred = read.occurred;
        let first = self.batch.len();
        if !skip() {
            let carried = CarriedRecord { occurred, lane: lane.clone(), replaces };
            self.push_in_record(carrier_of_record(place, json, blanks, &read, carried));
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
        // A compaction empties the batch.
        let first = first.min(self.batch.len());
        if let Some(id) = id.filter(|_| self.batch.len() > first) {
            self.pending.push((id, first, self.batch.len() - 1));
        }
        self.flush_if_full()
    }

    /// Records bytes that are no record.
    fn other(
        &mut self,
        reading: &FileReading<'_>,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), ImportFilesError> {
        for event in events_of_other(SourcePlace { file: &reading.name, at }, bytes) {
            let place = place_of_source(event.data.as_str());
            let is_there = place.is_some_and(|place| self.sources.recorded.contains_key(&place));
            if !is_there {
                let lane = reading.found.kept.lane.clone();
                self.push(NewEvent { lane, ..event })?;
            }
        }
        Ok(())
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
    fn note(&mut self, reading: &mut FileReading<'_>) -> Result<(), ImportFilesError> {
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

    fn flush(&mut self) -> Result<(), ImportFilesError> {
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
        if self.work.interrupted.load(Ordering::Relaxed) {
            self.flush()?;
            return Err(ImportFilesError::Interrupted);
        }
        Ok(())
    }

    /// Records what the files told of the session as a whole, where that is news.
    fn describe(&mut self) -> Result<(), ImportFilesError> {
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
            self.push(NewEvent::try_from(update)?)?;
        }
        if core.status == SessionStatus::Pending && core.messages.total > 0 {
            let idle = StatusChange { status: SessionStatus::Idle, reason: None, summary: None };
            self.push(NewEvent::try_from(idle)?)?;
        }
        self.flush()
    }
}

/// The rows that were read, by hashes of their ids and contents.
#[derive(Debug, Default)]
struct RowHashes(BTreeMap<String, String>);

impl RowHashes {
    fn of(text: &str) -> Self {
        let pairs = text.as_bytes().chunks_exact(16).filter_map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            Some((pair.get(..8)?.to_owned(), pair.get(8..)?.to_owned()))
        });
        Self(pairs.collect())
    }

    /// Whether a row is new or has changed. It is known from then on.
    fn is_new(&mut self, row: &str) -> bool {
        let digits =
            |bytes: &[u8]| -> String { blake3::hash(bytes).to_hex().chars().take(8).collect() };
        let fields = abide_model::json::RawJsonFields::of(row);
        let id = fields.as_ref().and_then(|fields| fields.decoded("id"));
        let table = fields.as_ref().and_then(|fields| fields.decoded("table"));
        let id = match id {
            Some(id) => format!("{} {id}", table.unwrap_or_default()),
            None => row.to_owned(),
        };
        let (id, contents) = (digits(id.as_bytes()), digits(row.as_bytes()));
        self.0.insert(id, contents.clone()) != Some(contents)
    }

    fn to_text(&self) -> String {
        self.0.iter().flat_map(|(id, contents)| [id.as_str(), contents.as_str()]).collect()
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Whether a line consists of whole records.
fn is_records(line: &[u8]) -> bool {
    let mut all = true;
    split_line(line, |_, piece| all &= matches!(piece, LinePiece::Record { .. }));
    all
}

/// Whether a file may still be written to.
fn is_fresh(path: &Path) -> bool {
    let written = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    let age = written.ok().and_then(|written| SystemTime::now().duration_since(written).ok());
    age.is_none_or(|age| age < TORN_AFTER)
}

/// The lines of a file from this byte on.
fn open_lines(
    path: &Path,
    content: KeptContent,
    from: u64,
) -> Result<Box<dyn BufRead>, ImportFilesError> {
    let failed = || ImportFilesError::read(path);
    let mut file = File::open(path).map_err(failed())?;
    if content == KeptContent::CompressedLines {
        let mut lines = zstd::stream::read::Decoder::new(file).map_err(failed())?;
        io::copy(&mut lines.by_ref().take(from), &mut io::sink()).map_err(failed())?;
        return Ok(Box::new(BufReader::with_capacity(1 << 16, lines)));
    }
    file.seek(SeekFrom::Start(from)).map_err(failed())?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

/// The end of what was read of a file; `None` if the file is another one now.
fn tail_of(
    path: &Path,
    content: KeptContent,
    known: &SourceProgress,
) -> Result<Option<Vec<u8>>, ImportFilesError> {
    let length = known.end.min(TAIL_BYTES as u64);
    let mut tail = Vec::new();
    let mut input = open_lines(path, content, known.end - length)?;
    let read = input.by_ref().take(length).read_to_end(&mut tail);
    read.map_err(ImportFilesError::read(path))?;
    let hash = blake3::hash(&tail).to_hex().to_string();
    Ok(known.hash.as_ref().is_none_or(|known| *known == hash).then_some(tail))
}
