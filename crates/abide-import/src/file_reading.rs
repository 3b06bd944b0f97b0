//! A file of a session while it is read: how far, by which reader, and what is remembered for the next
//! import.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, SystemTime};

use abide_agents::{AgentKind, KeptContent, OpaqueReader, RecordReader};
use abide_model::{SourceProgress, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ImportFilesError;
use crate::line_pieces::{SourcePiece, split_line};
use crate::source_finder::FoundFile;

/// The length of the end of a file by which it is recognized.
const TAIL_BYTES: usize = 4096;
/// How many digits of a hash tell a row.
const ROW_DIGITS: usize = 12;
/// A line without its end is taken as it is once its file has been left alone so long.
const TORN_AFTER: Duration = Duration::from_secs(600);

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
    /// The time that was told last.
    #[serde(skip_serializing_if = "Option::is_none")]
    occurred: Option<Timestamp>,
    /// The rows as last read: for each the digits of a hash of its id, and of its contents.
    #[serde(skip_serializing_if = "String::is_empty")]
    rows: String,
}

/// A file that is being read.
pub(crate) struct SourceReading<'a> {
    /// Its name in the session.
    pub(crate) name: String,
    pub(crate) found: &'a FoundFile,
    pub(crate) reader: Box<dyn RecordReader>,
    pub(crate) branch: Option<String>,
    /// The time that was told last, for records without one.
    pub(crate) occurred: Option<Timestamp>,
    /// The end of what was read.
    pub(crate) end: u64,
    /// When progress was noted last.
    pub(crate) noted: u64,
    /// The last bytes of what was read.
    pub(crate) tail: Vec<u8>,
    pub(crate) rows: RowHashes,
}

impl<'a> SourceReading<'a> {
    /// Begins to read a file, where an earlier import stopped.
    pub(crate) fn begin(
        agent: AgentKind,
        file: &'a FoundFile,
        name: String,
        progress: Option<&SourceProgress>,
    ) -> Self {
        let memory = progress.and_then(|progress| progress.memory.as_ref());
        let memory: ImportMemory =
            memory.and_then(|memory| serde_json::from_str(memory.get()).ok()).unwrap_or_default();
        let reader: Box<dyn RecordReader> = match agent.kept_sessions() {
            Some(kept) if file.kept.content != KeptContent::Whole => {
                (kept.reader)(&file.kept, memory.reader.as_ref().map(|raw| raw.get()))
            }
            _ => Box::new(OpaqueReader),
        };
        let end = progress.map_or(0, |progress| progress.end);
        let rows = RowHashes::of(&memory.rows);
        let (branch, tail) = (memory.branch, Vec::new());
        let occurred = memory.occurred;
        Self { name, found: file, reader, branch, occurred, end, noted: end, tail, rows }
    }
}

impl SourceReading<'_> {
    pub(crate) fn progress(&self, agent: &str) -> SourceProgress {
        let reader = RawValue::from_string(self.reader.memory()).ok();
        let (branch, rows) = (self.branch.clone(), self.rows.to_text());
        let occurred = self.occurred;
        let memory =
            serde_json::value::to_raw_value(&ImportMemory { reader, branch, occurred, rows });
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
    pub(crate) fn advance(&mut self, bytes: &[u8]) {
        self.end += bytes.len() as u64;
        let kept = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
        self.tail.extend_from_slice(kept);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
    }
}

/// The rows that were read, by hashes of their ids and contents.
#[derive(Debug, Default)]
pub(crate) struct RowHashes(BTreeMap<String, String>);

impl RowHashes {
    fn of(text: &str) -> Self {
        let pairs = text.as_bytes().chunks_exact(2 * ROW_DIGITS).filter_map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            Some((pair.get(..ROW_DIGITS)?.to_owned(), pair.get(ROW_DIGITS..)?.to_owned()))
        });
        Self(pairs.collect())
    }

    /// Whether a row is new or has changed. It is known from then on.
    pub(crate) fn is_new(&mut self, row: &str) -> bool {
        let digits = |bytes: &[u8]| -> String {
            blake3::hash(bytes).to_hex().chars().take(ROW_DIGITS).collect()
        };
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

pub(crate) fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Whether a line consists of whole records.
pub(crate) fn is_records(line: &[u8]) -> bool {
    let mut all = true;
    split_line(line, |_, piece| all &= matches!(piece, SourcePiece::Record { .. }));
    all
}

/// Whether a file may still be written to.
pub(crate) fn is_fresh(path: &Path) -> bool {
    let written = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    let age = written.ok().and_then(|written| SystemTime::now().duration_since(written).ok());
    age.is_none_or(|age| age < TORN_AFTER)
}

/// The lines of a file from this byte on.
pub(crate) fn open_lines(
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
pub(crate) fn tail_of(
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
