//! Where an export goes: stdout, or a file that appears when it is whole.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{CommandError, at};
use crate::output::Output;

/// Where the export goes.
pub(super) enum Target {
    Stdout(Output),
    File { path: PathBuf, file: BufWriter<NamedTempFile> },
}

impl Target {
    /// A file that is not there until [`Target::finish`].
    pub(super) fn file(path: PathBuf) -> Result<Self, CommandError> {
        let dir = path.parent().unwrap_or(Path::new("/"));
        let file = NamedTempFile::new_in(dir).map_err(at("create a file in", dir))?;
        Ok(Self::File { path, file: BufWriter::new(file) })
    }

    /// Writes a line of JSON.
    pub(super) fn json(&mut self, line: &str) -> Result<(), CommandError> {
        match self {
            Self::Stdout(out) => out.json(line),
            Self::File { .. } => {
                self.text(line)?;
                self.text("\n")
            }
        }
    }

    /// Writes text that is harmless to a terminal already.
    pub(super) fn text(&mut self, text: &str) -> Result<(), CommandError> {
        match self {
            Self::Stdout(out) => out.bytes(text.as_bytes()),
            Self::File { path, file } => {
                file.write_all(text.as_bytes()).map_err(at("write", path.as_path()))
            }
        }
    }

    pub(super) fn finish(self) -> Result<(), CommandError> {
        match self {
            Self::Stdout(mut out) => out.flush(),
            Self::File { path, file } => {
                let file = file
                    .into_inner()
                    .map_err(|error| at("write", path.as_path())(error.into_error()))?;
                let sync = |file: &File| file.sync_all();
                sync(file.as_file()).map_err(at("sync", path.as_path()))?;
                file.persist(&path).map_err(|error| at("create", path.as_path())(error.error))?;
                Ok(())
            }
        }
    }
}
