//! The user's configuration, `abide/config.toml` among their settings: which store is the usual one,
//! and which directories are trusted.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use abide::StoreUrl;
use serde::Deserialize;

use crate::error::{CommandError, at};

/// The user's configuration.
#[derive(Debug, Default)]
pub(crate) struct UserConfig {
    /// The store of projects that point to no other.
    pub(crate) store: Option<StoreUrl>,
    /// Projects and stores that are used whoever owns them, and whatever they point to.
    pub(crate) trusted: Vec<PathBuf>,
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
    pub(crate) fn read(path: &Path) -> Result<Self, CommandError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(Self::default());
            }
            Err(error) => return Err(at("read", path)(error)),
        };
        let bad = |what: String| {
            CommandError::failed(format!("{} {what}", path.display())).with_hint(
                "it may hold store = \"postgres://USER@HOST/DATABASE\" and trusted = [\"/DIR\"]",
            )
        };
        // What the parser says would show the line, and with it a password.
        let written: Written = toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            bad(format!("cannot be understood in line {}", before.matches('\n').count() + 1))
        })?;
        let store = written.store.map(|store| {
            StoreUrl::of(&store).ok_or_else(|| bad("names a store that is no URL".to_owned()))
        });
        if written.trusted.iter().any(|dir| !dir.is_absolute()) {
            return Err(bad("lists a trusted directory that does not begin with /".to_owned()));
        }
        Ok(Self { store: store.transpose()?, trusted: written.trusted })
    }
}
