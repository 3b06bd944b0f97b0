//! `abide export --format bundle`: a session and all its objects in one file.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use abide::SessionId;
use tempfile::NamedTempFile;

use crate::error::{CommandError, at};
use crate::store::Opened;

/// Writes the bundle of a session to a file, which appears when it is whole, or to stdout.
pub(super) fn run(
    opened: &Opened,
    id: SessionId,
    path: Option<PathBuf>,
) -> Result<(), CommandError> {
    let Some(path) = path else {
        let stdout = io::stdout();
        if stdout.is_terminal() {
            return Err(CommandError::Usage(
                "a bundle is not for a terminal; name a file with -o, or send it through a pipe"
                    .to_owned(),
            ));
        }
        return write(opened, id, stdout.lock());
    };
    let dir = path.parent().unwrap_or(Path::new("/"));
    let mut file = NamedTempFile::new_in(dir).map_err(at("create a file in", dir))?;
    write(opened, id, file.as_file_mut())?;
    file.as_file().sync_all().map_err(at("sync", path.as_path()))?;
    file.persist(&path).map_err(|error| at("create", path.as_path())(error.error))?;
    // A copy that is kept is there after a power cut, its name too.
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(at("sync", dir))
}

fn write(opened: &Opened, id: SessionId, out: impl Write) -> Result<(), CommandError> {
    match opened.local.export_bundle(id, BufWriter::new(out)) {
        Ok(_) => Ok(()),
        Err(abide::ExportError::Bundle { source: abide::BundleError::Write(error), .. }) => {
            Err(error.into())
        }
        Err(error) => Err(abide::Error::from(error).into()),
    }
}
