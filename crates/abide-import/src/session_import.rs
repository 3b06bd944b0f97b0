//! Imports one session of an agent: reads what is new in its files and records it.
//!
//! Each record of a file becomes exactly one event that carries it, followed by what it tells. The
//! events of one record may be cut off by a crash: the next import counts what is there and goes on
//! behind it, since the same records give the same events.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use abide::{
    NewSession, Session, SessionFields, SessionId, SessionRef, Store, StoreError, Timestamp,
};
use abide_agents::{KeptContent, SessionDetails};
use serde::{Deserialize, Serialize};

use crate::ImportFilesError;
use crate::database_rows::rows_of_session;
use crate::file_reading::{open_lines, trimmed};
use crate::import_ledger::ImportedSession;
use crate::line_pieces::{SourcePiece, split_line};
use crate::session_recording::{SessionRecording, merge_details};
use crate::session_sources::{RecordIndex, SessionSources};
use crate::source_finder::FoundSession;

/// How many records of a new session are looked at before it is made: for its directory and its start.
const LOOKED_AT: usize = 200;
/// A session that grew by so many events is compressed.
const SEALED_EVENTS: u64 = 1000;

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

/// What the recording of one session tells its caller meanwhile, and is told.
pub(crate) struct ImportWatch<'a> {
    /// Stops it after the current batch.
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
    /// Files of it that could not be read, with the reasons. The others were.
    pub unreadable: Vec<String>,
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
    outcome.is_new = is_new;
    let session = match work.store.open_session(&SessionRef::Id(id)) {
        Ok(session) => session,
        Err(abide::Error::Store(StoreError::Held { holder, .. })) => {
            outcome.session = Some(id);
            outcome.left = Some(format!("it is held by {holder}"));
            return Ok((outcome, None));
        }
        Err(abide::Error::Store(StoreError::NoSession { .. })) if known.is_some() => {
            outcome.left = Some("it was removed here".to_owned());
            return Ok((outcome, None));
        }
        Err(error) => return Err(error.into()),
    };
    let watch = ImportWatch { interrupted: work.interrupted, read: work.read };
    let (recorded, position) = record_news(&watch, &session, found, known)?;
    let outcome = SessionImported { is_new: outcome.is_new, ..recorded };
    if position.is_some() {
        session.close()?;
        seal(work.store, id, &outcome);
    }
    Ok((outcome, position))
}

/// How far an agent's session was imported: what [`import_into`] goes on from. Without it the session is
/// read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ImportPosition(ImportedSession);

impl ImportPosition {
    /// Has one of these files changed since?
    #[must_use]
    pub fn is_behind(&self, found: &FoundSession) -> bool {
        !self.0.is_of(found)
    }
}

/// Records what is new in the files of an agent's session into the session that is open. No other import
/// of it runs meanwhile, since the session is held.
pub fn import_into(
    session: &Session,
    found: &FoundSession,
    position: Option<&ImportPosition>,
) -> Result<(SessionImported, Option<ImportPosition>), ImportFilesError> {
    let (interrupted, read) = (AtomicBool::new(false), AtomicU64::new(0));
    let watch = ImportWatch { interrupted: &interrupted, read: &read };
    let known = position.map(|position| &position.0);
    let known = known.filter(|known| known.session == session.id());
    let (outcome, recorded) = record_news(&watch, session, found, known)?;
    Ok((outcome, recorded.map(ImportPosition)))
}

/// Records what is new of a session into it. `None` in place of the position: it is left alone.
fn record_news(
    watch: &ImportWatch<'_>,
    session: &Session,
    found: &FoundSession,
    known: Option<&ImportedSession>,
) -> Result<(SessionImported, Option<ImportedSession>), ImportFilesError> {
    let mut outcome = SessionImported { session: Some(session.id()), ..SessionImported::default() };
    let sources = SessionSources::read(session.view(), known)?;
    if sources.has_erased {
        // Its record would be read again.
        outcome.left = Some("an import did not end, and its events were erased since".to_owned());
        return Ok((outcome, None));
    }
    let files = known.filter(|_| sources.fits_ledger).map(|known| known.files.clone());
    let is_empty = sources.progress.is_empty() && sources.recorded.is_empty();
    let ids = if is_empty { RecordIndex::of_new() } else { RecordIndex::default() };
    let mut recording = SessionRecording {
        watch,
        session,
        agent: found.agent.as_str(),
        sources,
        ids,
        batch: Vec::new(),
        batch_bytes: 0,
        pending: Vec::new(),
        details: SessionDetails::default(),
        outcome,
        files: files.unwrap_or_default(),
        occurred: None,
    };
    for file in &found.files {
        recording.file(found, file)?;
    }
    recording.flush()?;
    recording.describe()?;
    let SessionRecording { outcome, files, sources, .. } = recording;
    // What others record from now on is looked at by the next import.
    let through = session.core()?.seq;
    let provisional = sources.provisional;
    Ok((outcome, Some(ImportedSession { session: session.id(), through, files, provisional })))
}

/// Compresses what was recorded, where it is worth a segment of its own: nobody may write to the session for
/// long. What cannot be compressed now is left to the next cleanup.
fn seal(store: &Store, session: SessionId, outcome: &SessionImported) {
    let is_worth = outcome.is_new || outcome.events >= SEALED_EVENTS;
    if let Some(files) = store.as_files().filter(|_| is_worth && outcome.events > 0) {
        let _ = files.seal_whole(session, Duration::ZERO);
    }
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
        match &file.rows {
            Some(rows) => {
                rows_of_session(&rows.copy, rows.query, &found.id)?.iter().all(|row| see(row));
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
                        if let SourcePiece::Record { json, .. } = piece {
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
