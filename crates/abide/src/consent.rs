//! What the user of this machine has accepted, noted in the user's state directory.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use abide_local::Where;
use abide_model::ObjectHash;

use crate::Error;

/// What the user of this machine has accepted.
#[derive(Debug, Clone)]
pub struct Consent {
    dir: Option<PathBuf>,
}

impl Consent {
    /// Noted in this directory, the user's state directory; with none, nothing can be noted.
    #[must_use]
    pub fn at(dir: Option<PathBuf>) -> Self {
        Self { dir }
    }

    /// Has the user accepted that this project leads to this place?
    #[must_use]
    pub fn is_accepted(&self, project: &Path, place: &Where) -> bool {
        self.note(project, place).is_some_and(|note| note.is_file())
    }

    /// Notes that the user accepts that this project leads to this place. False: there is nowhere
    /// to note it.
    pub fn accept(&self, project: &Path, place: &Where) -> Result<bool, Error> {
        let Some(note) = self.note(project, place) else { return Ok(false) };
        let write = || -> std::io::Result<()> {
            if let Some(dir) = note.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            }
            let mut options = fs::OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&note)?;
            file.write_all(b"accepted\n")?;
            file.sync_all()
        };
        write()?;
        Ok(true)
    }

    fn note(&self, project: &Path, place: &Where) -> Option<PathBuf> {
        let mut text = project.as_os_str().as_encoded_bytes().to_vec();
        text.push(0);
        text.extend(place.reveal().as_encoded_bytes());
        Some(self.dir.as_ref()?.join("accepted").join(ObjectHash::of(&text).to_string()))
    }
}
