//! The user's configuration, `abide/config.toml` among their settings: where their own store is, and
//! which directories are trusted.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::place::{NAME, PlaceError, Where};

/// The user's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserConfig {
    /// The store of projects that have none of their own: a server, or the directory of the
    /// person's store.
    pub store: Option<Where>,
    /// Projects and stores that are used whoever owns them, and whatever they point to.
    pub trusted: Vec<PathBuf>,
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    store: Option<String>,
    #[serde(default)]
    trusted: Vec<PathBuf>,
}

impl UserConfig {
    /// Reads it; a file that is not there says nothing.
    ///
    /// # Errors
    ///
    /// It cannot be read or understood. No text of it is shown: it may hold a password.
    pub fn read(path: &Path) -> Result<Self, PlaceError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(Self::default());
            }
            Err(source) => return Err(PlaceError::Unreadable { path: path.to_owned(), source }),
        };
        let bad = |what: String| PlaceError::Settings { path: path.to_owned(), what };
        // What the parser says would show the line, and with it a password.
        let written: Written = toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            bad(format!("cannot be understood in line {}", before.matches('\n').count() + 1))
        })?;
        let store = written.store.map(|store| match Where::from(PathBuf::from(store)) {
            Where::Files(path) if !path.is_absolute() => {
                Err(bad("names a store that is neither a URL nor a path from /".to_owned()))
            }
            // Found above every directory below it, it would be the store of one project.
            Where::Files(path) if path.file_name().is_some_and(|name| name == NAME) => {
                Err(bad(format!("names a store {NAME}, which is the name of a project's own")))
            }
            named => Ok(named),
        });
        if written.trusted.iter().any(|dir| !dir.is_absolute()) {
            return Err(bad("lists a trusted directory that does not begin with /".to_owned()));
        }
        Ok(Self { store: store.transpose()?, trusted: written.trusted })
    }
}
