//! Redaction before the first write: marks take the place of secrets in what is recorded.
//!
//! Every writer of a [`Store`](crate::Store) goes through [`Redaction`], and so do the names of new
//! sessions. Rules that do not load stop the writer: nothing is recorded unscanned. Whoever writes
//! nothing loads nothing.

mod bundle_screen;
mod event_redaction;
mod known_secrets;
mod mark_key_file;
mod redacting_writer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use abide_local::{SecretRecording, SecretsConfig, StorePlaceError, UserConfig, UserDirs};
use abide_model::{
    Finding, FindingPlace, FindingType, NewSession, Repair, SessionFields, SessionWriter, Severity,
};
use abide_secrets::{
    MarkKey, OwnRuleError, OwnRules, PackedRulesError, RedactionTally, Redactor, RuleSet,
};

pub(crate) use self::bundle_screen::BundleSecrets;
use self::event_redaction::redact_key;
pub(crate) use self::event_redaction::{redact_event, redact_text};
pub use self::known_secrets::KnownSecrets;
use self::redacting_writer::RedactingWriter;
use crate::backend::Bundle;

/// The `.env` files of a workspace are read again with its next session, but not within this time.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Why nothing can be recorded or exported: it would not be scanned for secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedactionError {
    /// The built-in rules are damaged.
    #[error("the rules for secrets do not load")]
    Rules(#[from] PackedRulesError),
    /// The settings have a rule that cannot be used.
    #[error("the rules in [secrets] of the settings cannot be used")]
    OwnRules(#[from] OwnRuleError),
    /// The user's settings cannot be read.
    #[error("it is unknown whether secrets may be recorded")]
    Settings(#[from] StorePlaceError),
}

/// Where a redaction takes what it needs. By default from this process and its user.
#[derive(Debug, Clone)]
pub struct RedactionOptions {
    /// The settings.
    pub settings: RedactionSettings,
    /// The environment whose secrets are looked for; `None` for that of this process.
    pub variables: Option<Vec<(OsString, OsString)>>,
    /// A directory whose `.env` files are read beside those of the sessions' workspaces.
    pub directory: Option<PathBuf>,
    /// The user's state directory, which holds the key of the marks; `None` if there is none.
    pub state: Option<PathBuf>,
}

/// The settings of a redaction.
#[derive(Debug, Clone, PartialEq)]
pub enum RedactionSettings {
    /// These.
    Known(Box<SecretsConfig>),
    /// Those in the user's own file, read when they are needed. Without a file, the defaults.
    OfUser(Option<PathBuf>),
}

impl Default for RedactionOptions {
    fn default() -> Self {
        let UserDirs { config, state, .. } = UserDirs::of_process();
        let settings = RedactionSettings::OfUser(config);
        Self { settings, variables: None, directory: std::env::current_dir().ok(), state }
    }
}

/// Replaces secrets in what is recorded. Cheap to clone: clones share the rules, which are loaded
/// when a session is first made or opened for writing.
#[derive(Debug, Clone)]
pub struct Redaction(Arc<SharedRedaction>);

#[derive(Debug)]
struct SharedRedaction {
    options: RedactionOptions,
    ready: Mutex<Option<ReadyRedaction>>,
}

/// What was loaded.
#[derive(Debug)]
struct ReadyRedaction {
    secrets: LoadedSecrets,
    key: MarkKey,
    redactor: Redactor,
}

/// The secrets that are known by value, and where they were read.
#[derive(Debug)]
struct LoadedSecrets {
    known: KnownSecrets,
    /// When the `.env` files of a directory were read.
    read: BTreeMap<PathBuf, Instant>,
}

impl LoadedSecrets {
    /// Reads the `.env` files of a workspace, unless that was just done. Returns whether other values
    /// are to be looked for.
    fn read_workspace(&mut self, workspace: &Path) -> bool {
        let now = Instant::now();
        let last = self.read.get(workspace);
        if last.is_some_and(|last| now.duration_since(*last) < READ_AGAIN) {
            return false;
        }
        self.read.insert(workspace.to_owned(), now);
        self.known.add_workspace(workspace)
    }
}

impl Default for Redaction {
    fn default() -> Self {
        Self::new(RedactionOptions::default())
    }
}

impl Redaction {
    /// A redaction that takes what it needs from there.
    #[must_use]
    pub fn new(options: RedactionOptions) -> Self {
        Self(Arc::new(SharedRedaction { options, ready: Mutex::default() }))
    }

    /// One that keeps secrets as they are.
    #[must_use]
    pub fn off() -> Self {
        let record = SecretRecording::Keep;
        let settings = SecretsConfig { record, ..SecretsConfig::default() };
        Self::by_settings(RedactionSettings::Known(Box::new(settings)))
    }

    /// By these settings, for this process and its user.
    #[must_use]
    pub fn by_settings(settings: RedactionSettings) -> Self {
        Self::new(RedactionOptions { settings, ..RedactionOptions::default() })
    }

    fn settings(&self) -> Result<SecretsConfig, RedactionError> {
        Ok(match &self.0.options.settings {
            RedactionSettings::Known(settings) => (**settings).clone(),
            RedactionSettings::OfUser(None) => SecretsConfig::default(),
            RedactionSettings::OfUser(Some(path)) => UserConfig::read_secrets(path)?,
        })
    }

    /// Whether secrets are recorded as marks.
    pub fn is_on(&self) -> Result<bool, RedactionError> {
        Ok(self.settings()?.record == SecretRecording::Redact)
    }

    /// The redactor of what is recorded, which also knows the secrets in the `.env` files of this
    /// workspace; `None` if the settings say that secrets are kept.
    pub fn recorder(&self, workspace: Option<&Path>) -> Result<Option<Redactor>, RedactionError> {
        if self.is_on()? { self.redactor(workspace).map(Some) } else { Ok(None) }
    }

    /// The redactor by the rules of the settings, whether or not secrets are recorded as marks.
    pub fn redactor(&self, workspace: Option<&Path>) -> Result<Redactor, RedactionError> {
        let mut ready = self.0.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match ready.take() {
            None => self.load(workspace)?,
            Some(mut made) => {
                if workspace.is_some_and(|workspace| made.secrets.read_workspace(workspace)) {
                    let own = self.settings()?.own_rules();
                    made.redactor = redactor_of(own, &made.secrets.known, &made.key)?;
                }
                made
            }
        };
        let redactor = made.redactor.clone();
        *ready = Some(made);
        Ok(redactor)
    }

    fn load(&self, workspace: Option<&Path>) -> Result<ReadyRedaction, RedactionError> {
        let options = &self.0.options;
        let known = match &options.variables {
            Some(variables) => KnownSecrets::of_variables(variables.iter().cloned()),
            None => KnownSecrets::of_variables(std::env::vars_os()),
        };
        let state = options.state.clone();
        let key = MarkKey::when_needed(move || mark_key_file::mark_key(state.as_deref()));
        let mut secrets = LoadedSecrets { known, read: BTreeMap::new() };
        for directory in options.directory.as_deref().into_iter().chain(workspace) {
            secrets.read_workspace(directory);
        }
        let redactor = redactor_of(self.settings()?.own_rules(), &secrets.known, &key)?;
        Ok(ReadyRedaction { secrets, key, redactor })
    }

    /// The rules, with those of the settings.
    pub fn rules(&self) -> Result<RuleSet, RedactionError> {
        rules_with(self.settings()?.own_rules())
    }

    /// What a check of the store tells about this: that secrets are kept, or that nothing can be
    /// recorded. `place` is the store.
    #[must_use]
    pub fn finding(&self, place: &str) -> Option<Finding> {
        let (code, severity, message, repair) = match self.rules().and_then(|_| self.is_on()) {
            Ok(true) => return None,
            Ok(false) => (
                "secrets-kept",
                Severity::Warning,
                "secrets are recorded as they are: the settings say `record = \"keep\"`".to_owned(),
                "remove that line under [secrets]; `abide erase` removes what is recorded already",
            ),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                let message = format!("{error}{}", cause.unwrap_or_default());
                ("secret-rules", Severity::Error, message, "correct the settings under [secrets]")
            }
        };
        let subject = FindingPlace::subject(place);
        let repair = Repair::by_hand(repair);
        Some(Finding::new(code, FindingType::Structural, severity, subject, message, repair))
    }

    /// `.env` files that could not be read so far.
    #[must_use]
    pub fn unread(&self) -> Vec<PathBuf> {
        let ready = self.0.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let unread = ready.iter().flat_map(|made| made.secrets.known.unread());
        unread.map(Path::to_owned).collect()
    }

    /// The fields of a new session without secrets, which inherits from these fields.
    pub(crate) fn session(
        &self,
        session: NewSession,
        like: Option<&SessionFields>,
    ) -> Result<NewSession, RedactionError> {
        let own = session.fields.workspace.as_deref();
        let workspace = own.or_else(|| like?.workspace.as_deref()).map(Path::new);
        let Some(redactor) = self.recorder(workspace)? else { return Ok(session) };
        let mut session = event_redaction::redact_session(&redactor, session);
        if let Some(like) = like {
            event_redaction::redact_inherited(&redactor, &mut session.fields, like);
        }
        Ok(session)
    }

    /// The bundle, refused if it has secrets and they are not kept; and what was found in it, once it
    /// is read.
    pub(crate) fn bundle<'b>(
        &self,
        bundle: Bundle<'b>,
    ) -> Result<(Bundle<'b>, BundleSecrets), RedactionError> {
        let secrets = BundleSecrets::default();
        Ok(match self.recorder(None)? {
            Some(redactor) => (bundle.screened(secrets.screen(redactor)), secrets),
            None => (bundle, secrets),
        })
    }

    /// The key of a session or an event as it is recorded.
    pub fn key(&self, key: &str) -> Result<String, RedactionError> {
        let mut recorded = key.to_owned();
        if let Some(redactor) = self.recorder(None)? {
            redact_key(&redactor, &mut recorded, &mut RedactionTally::default());
        }
        Ok(recorded)
    }
}

/// The writer behind which nothing has secrets.
pub(crate) fn redacting_writer(
    inner: Arc<dyn SessionWriter>,
    redactor: &Redactor,
) -> Arc<dyn SessionWriter> {
    Arc::new(RedactingWriter::new(inner, redactor.clone()))
}

fn rules_with(own: OwnRules) -> Result<RuleSet, RedactionError> {
    let rules = RuleSet::load()?;
    Ok(if own == OwnRules::default() { rules } else { rules.with_own_rules(own)? })
}

fn redactor_of(
    own: OwnRules,
    known: &KnownSecrets,
    key: &MarkKey,
) -> Result<Redactor, RedactionError> {
    let literals = known.literals(&own.allowed);
    Ok(Redactor::new(rules_with(own)?, literals, key.clone()))
}
