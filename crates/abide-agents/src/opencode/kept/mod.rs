//! The sessions that opencode keeps: rows of a database that are updated in place.

mod row_memory;
mod row_reader;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use self::row_reader::RowReader;
use crate::kept::{KeptFile, KeptForm, KeptSessions, RecordReader};

pub(super) static KEPT: KeptSessions = KeptSessions {
    directory: opencode_directory,
    form: KeptForm::Rows {
        database: "opencode.db",
        sessions: include_str!("sessions.sql"),
        tables: &[("rows", include_str!("rows.sql"))],
    },
    reader: opencode_reader,
    resume: |session| vec!["--session".to_owned(), session.to_owned()],
};

fn opencode_directory(variable: &dyn Fn(&str) -> Option<OsString>, home: &Path) -> PathBuf {
    let data = variable("XDG_DATA_HOME").filter(|data| !data.is_empty()).map(PathBuf::from);
    data.unwrap_or_else(|| home.join(".local/share")).join("opencode")
}

fn opencode_reader(_: &KeptFile, memory: Option<&str>) -> Box<dyn RecordReader> {
    Box::new(RowReader::new(memory))
}
