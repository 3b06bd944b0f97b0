//! The user's `abide/config.toml`: where their store is, which directories are trusted, who
//! summarizes a conversation, and what becomes of secrets.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use abide_model::AutoCompaction;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::secrets_config::SecretsConfig;
use crate::store_place::{NAME, StoreLocation, StorePlaceError};

/// The user's configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UserConfig {
    /// The store for projects that have none of their own: a server, or the directory of the user's
    /// own store.
    pub store: Option<StoreLocation>,
    /// Projects and stores that are trusted whoever owns them, and whatever they point to.
    pub trusted: Vec<PathBuf>,
    /// When contexts are compacted, and by whom.
    pub context: UserContextConfig,
}

/// `[context]` of the user's configuration. Only the user names a command or an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UserContextConfig {
    /// When contexts are compacted by themselves, in stores that do not say so.
    pub compact_over: Option<AutoCompaction>,
    /// Who makes summaries.
    pub summarizer: Option<SummarizerType>,
    /// A command that makes them; excludes `summarizer`.
    pub summarizer_cmd: Option<String>,
    /// The model that an endpoint is asked for.
    pub model: Option<String>,
    /// Where the endpoint is.
    pub url: Option<String>,
    /// The environment variable that holds the endpoint's key.
    pub key_variable: Option<String>,
}

/// Who makes summaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SummarizerType {
    /// The built-in one.
    #[default]
    Extractive,
    /// An OpenAI-compatible endpoint.
    OpenAi,
    /// Anthropic's endpoint.
    Anthropic,
}

/// The file's contents.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserConfigFile {
    store: Option<String>,
    #[serde(default)]
    trusted: Vec<PathBuf>,
    #[serde(default)]
    context: UserContextConfig,
    /// Read by itself.
    #[serde(default, rename = "secrets")]
    _secrets: IgnoredAny,
    /// Read when an agent is run, by `RunConfig`: a mistake there must not stop a recording.
    #[serde(default, rename = "agents")]
    _agents: IgnoredAny,
    #[serde(default, rename = "run")]
    _run: IgnoredAny,
}

impl UserConfig {
    /// Reads the file; a missing one is empty.
    ///
    /// # Errors
    ///
    /// It cannot be read or is invalid. Its text is never shown: it may contain a password.
    pub fn read(path: &Path) -> Result<Self, StorePlaceError> {
        let Some(text) = user_config_text(path)? else { return Ok(Self::default()) };
        let bad = |what: String| StorePlaceError::Settings { path: path.to_owned(), what };
        let written: UserConfigFile = parse_user_config(path, &text)?;
        let store = written.store.map(|store| match StoreLocation::from(PathBuf::from(store)) {
            StoreLocation::Files(path) if !path.is_absolute() => {
                Err(bad("names a store that is neither a URL nor an absolute path".to_owned()))
            }
            // `find_store` would take it for the store of one project, from every directory below.
            StoreLocation::Files(path) if path.file_name().is_some_and(|name| name == NAME) => {
                Err(bad(format!("names a store {NAME}, which is the name of a project's own")))
            }
            named => Ok(named),
        });
        if written.trusted.iter().any(|dir| !dir.is_absolute()) {
            return Err(bad("lists a trusted directory that is not an absolute path".to_owned()));
        }
        let context = written.context;
        if context.summarizer.is_some() && context.summarizer_cmd.is_some() {
            return Err(bad("names both a summarizer and a summarizer_cmd".to_owned()));
        }
        Ok(Self { store: store.transpose()?, trusted: written.trusted, context })
    }

    /// Reads what the file says about secrets, and nothing else: a mistake elsewhere in it must not stop
    /// a recording.
    ///
    /// # Errors
    ///
    /// As [`UserConfig::read`].
    pub fn read_secrets(path: &Path) -> Result<SecretsConfig, StorePlaceError> {
        let Some(text) = user_config_text(path)? else { return Ok(SecretsConfig::default()) };
        let UserSecrets { secrets } = parse_user_config(path, &text)?;
        Ok(secrets)
    }
}

#[derive(Deserialize)]
struct UserSecrets {
    #[serde(default)]
    secrets: SecretsConfig,
}

/// The text of the file; `None` if it is missing.
fn user_config_text(path: &Path) -> Result<Option<String>, StorePlaceError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(source) => Err(StorePlaceError::Unreadable { path: path.to_owned(), source }),
    }
}

fn parse_user_config<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, StorePlaceError> {
    // The parser's message would show the line, and with it a password.
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let what = format!("is invalid in line {}", before.matches('\n').count() + 1);
        StorePlaceError::Settings { path: path.to_owned(), what }
    })
}
