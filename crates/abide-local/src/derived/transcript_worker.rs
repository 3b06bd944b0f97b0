//! `transcript.task`: the session in readable form, appended to as turns end.
//!
//! It is kept where the settings say `transcript = "live"`. It is derived data. An update finds from its last lines how far it goes, cuts off an incomplete
//! end, and continues from there, or rewrites it if that cannot be found. Beside a running writer,
//! only acknowledged events are added. One process at a time writes it, and nobody waits for that.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use abide_journal::{
    Access, JournalError, LockMode, Packs, Storage, StorageFile, StorageLock, read_full, write_full,
};
use abide_model::{EventRange, Kind, ReadFinding, Seq, SessionId};
use abide_transcript::{ResumePoint, TranscriptWriter};

use crate::sessions::local_reader::LocalReader;
use crate::sessions::session_directory::SessionDirectory;
use crate::store_layout::SessionLayout;

/// How much of the end is read first; each further attempt reads sixteen times as much.
const TAIL: u64 = 64 << 10;
/// If this much of the end does not tell how far it goes, the transcript is rewritten.
const MAX_TAIL: u64 = 64 << 20;
/// A writer that closes adds no more than this; the next one continues.
const AT_THE_END: u64 = 4 << 20;

/// The transcript of a session, open for an update.
#[derive(Debug)]
pub(crate) struct Transcript {
    reader: LocalReader,
    path: PathBuf,
    file: Arc<dyn StorageFile>,
    _lock: Box<dyn StorageLock>,
    writer: TranscriptWriter,
    /// Where the next chunk goes.
    end: u64,
}

impl Transcript {
    /// Opens it; `None` if another process is writing it.
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        layout: &SessionLayout,
        reader: LocalReader,
    ) -> io::Result<Option<Self>> {
        let path = layout.transcript();
        let Some(lock) = storage.lock(&path, LockMode::Exclusive)? else { return Ok(None) };
        let file = storage.open(&path, Access::Create)?;
        let point = match resume_point(&*file)? {
            Some(point) => match fit(&reader, &point) {
                TranscriptMatch::Follows => Some(point),
                TranscriptMatch::Otherwise => None,
                // Only the transcript may have what the journal has lost: a repair needs it.
                TranscriptMatch::Lost => return Ok(None),
            },
            None => None,
        };
        let end = point.as_ref().map_or(0, |point| point.offset);
        let writer = match point {
            Some(point) => TranscriptWriter::resume(point),
            // If the ancestors cannot be read, turns are numbered from 1.
            None => TranscriptWriter::after(reader.turns_in_ancestry().unwrap_or_default()),
        };
        if file.len()? > end {
            file.truncate(end)?;
        }
        Ok(Some(Self { reader, path, file, _lock: lock, writer, end }))
    }

    /// Appends what the journal has beyond it, up to `until`, as long as `wanted`, called with the
    /// number of bytes written, returns true.
    pub(crate) fn update(
        &mut self,
        until: TranscriptTarget,
        wanted: &dyn Fn(u64) -> bool,
    ) -> Result<(), JournalError> {
        let last = match until {
            TranscriptTarget::Acknowledged => {
                self.reader.mark()?.map_or(Seq::ZERO, |mark| mark.seq)
            }
            TranscriptTarget::End => Seq(u64::MAX),
        };
        let began = self.end;
        let range = EventRange { last, ..EventRange::from(self.writer.last().next()) };
        for event in self.reader.own_events(range) {
            self.writer.push(&event?);
            if let Some(text) = self.writer.take_ready() {
                write_full(&*self.file, text.as_bytes(), self.end)
                    .map_err(JournalError::io("write", &self.path))?;
                self.end += text.len() as u64;
                if !wanted(self.end - began) {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// How far a transcript is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TranscriptTarget {
    /// Up to the last acknowledged event.
    Acknowledged,
    /// Up to the last readable event: no writer is active.
    End,
}

/// What the journal has in place of a transcript's last event.
enum TranscriptMatch {
    /// The same event.
    Follows,
    /// Another event, or none: a power cut may have removed what was not synced, and other events
    /// followed.
    Otherwise,
    /// Damage.
    Lost,
}

fn fit(reader: &LocalReader, point: &ResumePoint) -> TranscriptMatch {
    let range = EventRange { last: point.last, ..EventRange::from(point.last) };
    let Ok(page) = reader.page_now(range) else { return TranscriptMatch::Lost };
    if page.events.iter().any(|event| event.at == point.at) {
        return TranscriptMatch::Follows;
    }
    let damaged = page.notes.iter().any(|note| matches!(note, ReadFinding::Damage { .. }));
    let gone = reader.journal().segments().is_ok_and(|segments| segments.is_empty());
    if damaged || gone { TranscriptMatch::Lost } else { TranscriptMatch::Otherwise }
}

fn resume_point(file: &dyn StorageFile) -> io::Result<Option<ResumePoint>> {
    let length = file.len()?;
    let mut tail = TAIL;
    loop {
        let start = length.saturating_sub(tail);
        let mut bytes = vec![0; usize::try_from(length - start).unwrap_or(usize::MAX)];
        let read = read_full(file, &mut bytes, start)?;
        let found = ResumePoint::find(bytes.get(..read).unwrap_or_default(), start);
        if found.is_some() || start == 0 || tail >= MAX_TAIL {
            return Ok(found);
        }
        tail = tail.saturating_mul(16).min(MAX_TAIL);
    }
}

/// What the transcript thread needs to know of its session.
#[derive(Debug, Clone)]
pub(crate) struct TranscriptSession {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) session: SessionId,
    pub(crate) layout: SessionLayout,
    pub(crate) packs: Arc<Packs>,
    pub(crate) directory: SessionDirectory,
}

impl TranscriptSession {
    /// Opens the transcript. Errors are ignored: it is written later.
    pub(crate) fn transcript(&self) -> Option<Transcript> {
        let (storage, packs) = (self.storage.clone(), self.packs.clone());
        let reader =
            LocalReader::new(storage, self.session, &self.layout, packs, self.directory.clone());
        Transcript::open(&self.storage, &self.layout, reader).ok().flatten()
    }
}

/// Writes the transcript in the background of a session's writer.
#[derive(Debug)]
pub(crate) struct TranscriptWorker {
    desk: TranscriptSession,
    shared: Arc<TranscriptSignals>,
    running: Option<JoinHandle<()>>,
    /// Something was committed that the transcript does not have.
    behind: bool,
}

#[derive(Debug, Default)]
struct TranscriptSignals {
    stop: AtomicBool,
    work: AtomicBool,
}

impl TranscriptWorker {
    pub(crate) fn new(desk: TranscriptSession) -> Self {
        Self { desk, shared: Arc::default(), running: None, behind: false }
    }

    /// Whether a batch with this kind ends a section of the transcript.
    pub(crate) fn is_due(kind: &Kind) -> bool {
        [Kind::TURN_FINISHED, Kind::SESSION_STATUS].contains(kind)
    }

    /// Called after a commit; `due` if it ended a section.
    pub(crate) fn committed(&mut self, due: bool) {
        self.behind = true;
        if !due {
            return;
        }
        self.shared.work.store(true, Ordering::Release);
        match &self.running {
            Some(running) => running.thread().unpark(),
            None => {
                let (desk, shared) = (self.desk.clone(), self.shared.clone());
                let work = move || follow(&desk, &shared);
                let thread = std::thread::Builder::new().name("abide-scribe".to_owned());
                self.running = thread.spawn(work).ok();
            }
        }
    }
}

/// Runs until the writer closes, and then once more.
fn follow(desk: &TranscriptSession, shared: &TranscriptSignals) {
    let mut open = None;
    loop {
        let stop = shared.stop.load(Ordering::Acquire);
        if !shared.work.swap(false, Ordering::AcqRel) && !stop {
            std::thread::park();
            continue;
        }
        // If another process is writing it, or it could not be written, try again at the next turn.
        let transcript = open.take().or_else(|| desk.transcript());
        let until = if stop { TranscriptTarget::End } else { TranscriptTarget::Acknowledged };
        let wanted = |bytes| bytes < AT_THE_END || !shared.stop.load(Ordering::Acquire);
        if let Some(mut transcript) = transcript
            && transcript.update(until, &wanted).is_ok()
        {
            open = Some(transcript);
        }
        if stop {
            return;
        }
    }
}

impl Drop for TranscriptWorker {
    fn drop(&mut self) {
        match self.running.take() {
            Some(running) => {
                self.shared.stop.store(true, Ordering::Release);
                running.thread().unpark();
                let _ = running.join();
            }
            None if self.behind => {
                if let Some(mut transcript) = self.desk.transcript() {
                    let _ = transcript.update(TranscriptTarget::End, &|bytes| bytes < AT_THE_END);
                }
            }
            None => {}
        }
    }
}
