//! Where an export goes: stdout, a file that appears once it is complete, or an existing pipe or
//! device.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use abide_transcript::escape;
use tempfile::NamedTempFile;

use crate::error::{CommandError, at};

use crate::command_output::CommandOutput;

/// Where the export goes.
pub(crate) enum ExportTarget {
    Stdout(CommandOutput),
    /// Not a regular file: written to, never replaced.
    Into {
        path: PathBuf,
        file: BufWriter<File>,
    },
    File {
        path: PathBuf,
        file: BufWriter<NamedTempFile>,
    },
}

impl ExportTarget {
    /// Opens the target at this path, or stdout.
    pub(crate) fn of(path: Option<PathBuf>) -> Result<Self, CommandError> {
        let Some(mut path) = path else { return Ok(Self::Stdout(CommandOutput::stdout())) };
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            if is_stdout(&path) {
                return Ok(Self::Stdout(CommandOutput::stdout()));
            }
            // Replace the file a link points to, not the link.
            path = path.canonicalize().unwrap_or(path);
        }
        if fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            let file = File::options().write(true).open(&path);
            let file = BufWriter::new(file.map_err(at("open", path.as_path()))?);
            return Ok(Self::Into { path, file });
        }
        let dir = export_target_dir(&path);
        let file = NamedTempFile::new_in(dir).map_err(at("create a file in", dir))?;
        Ok(Self::File { path, file: BufWriter::new(file) })
    }

    /// Is the target a terminal?
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Stdout(out) => out.is_terminal(),
            Self::Into { file, .. } => file.get_ref().is_terminal(),
            Self::File { .. } => false,
        }
    }

    /// Writes a line of JSON.
    pub(crate) fn json(&mut self, line: &str) -> Result<(), CommandError> {
        if self.is_terminal() {
            self.text(&escape::json(line))?;
        } else {
            self.text(line)?;
        }
        self.text("\n")
    }

    /// Writes text that is already escaped for a terminal.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CommandError> {
        match self {
            Self::Stdout(out) => out.bytes(text.as_bytes()),
            Self::Into { path, file } => {
                file.write_all(text.as_bytes()).map_err(at("write", path.as_path()))
            }
            Self::File { path, file } => {
                file.write_all(text.as_bytes()).map_err(at("write", path.as_path()))
            }
        }
    }

    /// Completes the export. A file, including its name, is durable afterwards.
    pub(crate) fn finish(self) -> Result<(), CommandError> {
        match self {
            Self::Stdout(mut out) => out.flush(),
            Self::Into { path, mut file } => file.flush().map_err(at("write", path.as_path())),
            Self::File { path, file } => {
                let file = file
                    .into_inner()
                    .map_err(|error| at("write", path.as_path())(error.into_error()))?;
                file.as_file().sync_all().map_err(at("sync", path.as_path()))?;
                file.persist(&path).map_err(|error| at("create", path.as_path())(error.error))?;
                let dir = export_target_dir(&path);
                File::open(dir).and_then(|dir| dir.sync_all()).map_err(at("sync", dir))
            }
        }
    }
}

impl Write for ExportTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::Into { file, .. } => file.write(bytes),
            Self::File { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => Write::flush(out),
            Self::Into { file, .. } => file.flush(),
            Self::File { file, .. } => file.flush(),
        }
    }
}

fn export_target_dir(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Does this path (such as `/dev/stdout`) lead to what stdout is? Opened again, it would be written
/// from its start.
fn is_stdout(path: &Path) -> bool {
    let stdout = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let Ok(stdout) = stdout.and_then(|file| file.metadata()) else { return false };
    fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (stdout.dev(), stdout.ino()))
}
