//! Gives the files back from which a session was made.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use abide::{EventRange, Kind, Seq, SessionView};
use abide_model::SourceProgress;

use crate::ImportFilesError;
use crate::source_event::{bytes_of_source, source_of_event};

/// No record is larger than this, and so no gap that an erased one leaves.
const GAP_BYTES: u64 = 64 << 20;

/// A file that a session was made from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceFile {
    /// Its name within the session. A file that was rewritten has a second one, `name~2`.
    pub name: String,
    /// Its length in bytes; for a database, the number of rows.
    pub length: u64,
    /// It is the rows of a database, one a line.
    pub is_rows: bool,
    /// The events that carry its records, by their places.
    records: BTreeMap<u64, Seq>,
}

/// The files that a session was made from, by name.
pub fn source_files(view: &SessionView) -> Result<Vec<SourceFile>, abide::Error> {
    let mut files: BTreeMap<String, SourceFile> = BTreeMap::new();
    let of_name = |name: String| SourceFile { name, ..SourceFile::default() };
    for event in view.events(EventRange::ALL) {
        let event = event?;
        if event.kind == Kind::SOURCE_READ {
            let read = event.data.as_ref().and_then(|data| data.decode::<SourceProgress>().ok());
            if let Some(read) = read {
                let name = read.file.clone();
                let file = files.entry(read.file).or_insert_with(|| of_name(name));
                (file.length, file.is_rows) = (read.end, read.rows);
            }
        } else if let Some(source) = source_of_event(&event) {
            let name = source.file.clone();
            let file = files.entry(source.file).or_insert_with(|| of_name(name));
            file.records.insert(source.at, event.seq);
        }
    }
    Ok(files.into_values().collect())
}

/// Writes a file as it was: byte for byte, but for marks in the place of secrets and what was erased.
pub fn write_source_file(
    view: &SessionView,
    file: &SourceFile,
    to: &mut dyn Write,
    place: &Path,
) -> Result<(), ImportFilesError> {
    let failed = || ImportFilesError::write(place);
    let mut end = 0;
    for (at, seq) in &file.records {
        let range = EventRange { first: *seq, last: *seq, ..EventRange::ALL };
        let Some(event) = view.page(range)?.events.into_iter().next() else { continue };
        let Some(source) = source_of_event(&event) else { continue };
        let bytes = bytes_of_source(&event, &source).unwrap_or_default();
        if file.is_rows {
            to.write_all(&bytes).and_then(|()| to.write_all(b"\n")).map_err(failed())?;
            continue;
        }
        line_feeds(to, at.saturating_sub(end)).map_err(failed())?;
        to.write_all(&bytes).map_err(failed())?;
        end = at.saturating_add(source.bytes);
    }
    if !file.is_rows {
        line_feeds(to, file.length.saturating_sub(end)).map_err(failed())?;
    }
    Ok(())
}

/// Nothing but line feeds stands between records. Where one was erased, its place is left empty.
fn line_feeds(to: &mut dyn Write, count: u64) -> std::io::Result<()> {
    if count > GAP_BYTES {
        return Err(std::io::Error::other("the events do not say where the records stood"));
    }
    std::io::copy(&mut std::io::Read::take(std::io::repeat(b'\n'), count), to).map(drop)
}
