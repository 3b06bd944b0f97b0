//! How a command fails: what the user reads, what a program reads with `--json`, and the exit code. The
//! only place for all three.
//!
//! An error says what happened and where; its causes follow; a hint says what to do. With `--json` the
//! same is printed on stdout as an object, with a code from a closed list.

mod failure_code;

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use abide::{
    StoreError, TaskStatus,
    bundle::{BundleError, ExportError, ImportError},
    context::{CompactionError, NothingToCompact},
    locate::{ObjectsError, ServerError, ServerErrorKind, StorePlaceError},
    secrets::RedactionError,
    tasks::{TaskError, TaskListError},
};

use abide_transcript::escape;
use clap::ArgMatches;
use serde_json::json;

pub(crate) use self::failure_code::FailureCode;
use crate::answer_json::{SCHEMA, data_line};

/// Whether the command was asked for JSON.
static ANSWERS_JSON: AtomicBool = AtomicBool::new(false);
/// The command that was typed, such as `tasks add`.
static TYPED_COMMAND: OnceLock<String> = OnceLock::new();

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// It failed.
    Failed(CommandFailure),
    /// The arguments make no sense.
    Usage(String),
    /// It failed, and its output already says so.
    Reported,
    /// Nobody reads the output any more.
    BrokenPipe,
    /// The user cancelled it.
    Cancelled,
    /// The user cancelled it, and its output already says so.
    Interrupted,
}

/// An error with its causes and hints.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    code: FailureCode,
    error: Box<dyn StdError + Send + Sync>,
    hints: Vec<String>,
}

/// An I/O operation on a file failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub(crate) struct PathError {
    pub(crate) action: &'static str,
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) source: io::Error,
}

/// An error with its context.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct ContextError {
    what: String,
    #[source]
    source: Box<dyn StdError + Send + Sync>,
}

/// Adds the action and the path to an I/O error: `.map_err(at("read", path))`.
pub(crate) fn at(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> CommandError {
    move |source| PathError { action, path: path.into(), source }.into()
}

impl CommandError {
    /// A failure with just a message.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(CommandFailure {
            code: FailureCode::Failed,
            error: message.into().into(),
            hints: Vec::new(),
        })
    }

    /// A failure with the causes of an error.
    pub(crate) fn because(error: impl StdError + Send + Sync + 'static) -> Self {
        let hints = cause_hint(&error).into_iter().collect();
        let code = FailureCode::behind(&error);
        Self::Failed(CommandFailure { code, error: Box::new(error), hints })
    }

    /// Says what sort of failure it is.
    /// The error and its causes on one line, for where it is not reported.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Failed(failure) => on_one_line(&*failure.error),
            Self::Usage(text) => text.clone(),
            other => format!("{other:?}"),
        }
    }

    pub(crate) fn coded(mut self, code: FailureCode) -> Self {
        if let Self::Failed(failure) = &mut self {
            failure.code = code;
        }
        self
    }

    /// Puts the context in front of the error.
    pub(crate) fn on(self, what: impl Into<String>) -> Self {
        match self {
            Self::Failed(CommandFailure { code, error, hints }) => {
                let error = Box::new(ContextError { what: what.into(), source: error });
                Self::Failed(CommandFailure { code, error, hints })
            }
            other => other,
        }
    }

    /// Adds a hint.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        if let Self::Failed(failure) = &mut self {
            failure.hints.push(hint.into());
        }
        self
    }

    const fn code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::Reported => 1,
            Self::Usage(_) => 2,
            Self::BrokenPipe => 3,
            Self::Cancelled | Self::Interrupted => 4,
        }
    }

    /// Prints the error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let text = match self {
            Self::Failed(failure) => failure.to_string(),
            Self::Usage(message) => format!("Error: {message}\nHint: see {}", help_command()),
            Self::Cancelled => "Cancelled".to_owned(),
            Self::Reported | Self::Interrupted | Self::BrokenPipe => {
                return ExitCode::from(self.code());
            }
        };
        if let Some(object) = self.object() {
            print_object(&object);
        }
        // If stderr is gone, the exit code still tells.
        let _ = writeln!(io::stderr(), "{}", escape::lines(&text));
        ExitCode::from(self.code())
    }

    /// The error for programs, if the output does not say it yet.
    fn object(&self) -> Option<serde_json::Value> {
        match self {
            Self::Failed(failure) => {
                let hint = Some(failure.hints.join("; ")).filter(|hint| !hint.is_empty());
                Some(error_object(failure.code, &on_one_line(&*failure.error), hint.as_deref()))
            }
            Self::Usage(message) => {
                let hint = format!("see {}", help_command());
                Some(error_object(FailureCode::Usage, message, Some(&hint)))
            }
            Self::Cancelled => Some(error_object(FailureCode::Cancelled, "cancelled", None)),
            Self::Reported | Self::Interrupted | Self::BrokenPipe => None,
        }
    }
}

/// The command that prints the help of the command that was typed.
fn help_command() -> String {
    let typed = TYPED_COMMAND.get().map(|words| format!(" {words}")).unwrap_or_default();
    format!("`abide{typed} --help`")
}

/// Notes which command was typed, for hints, and whether it was asked for JSON, so that its errors are
/// JSON, too.
pub(crate) fn note_command(matches: &ArgMatches) {
    let mut words = Vec::new();
    let mut here = matches;
    while let Some((word, inner)) = here.subcommand() {
        words.push(word);
        here = inner;
    }
    if !words.is_empty() {
        let _ = TYPED_COMMAND.set(words.join(" "));
    }
    note_json(matches);
}

fn note_json(matches: &ArgMatches) {
    fn asked(matches: &ArgMatches) -> bool {
        let here = matches.try_get_one::<bool>("json").ok().flatten();
        here.is_some_and(|json| *json)
            || matches.subcommand().is_some_and(|(_, inner)| asked(inner))
    }
    ANSWERS_JSON.store(asked(matches), Ordering::Relaxed);
}

/// Prints what is wrong with the arguments, or the help or version that was asked for, and exits.
pub(crate) fn exit_usage(error: &clap::Error) -> ! {
    if error.use_stderr() {
        // Arguments behind `--` are those of another program.
        let mut own = std::env::args_os().skip(1).take_while(|argument| argument != "--");
        ANSWERS_JSON.store(own.any(|argument| argument == "--json"), Ordering::Relaxed);
        let text = error.render().to_string();
        let said = text.lines().map(str::trim).take_while(|line| !line.is_empty());
        let said = said.collect::<Vec<_>>().join(" ");
        let message = said.strip_prefix("error: ").unwrap_or(&said);
        let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        let hint = tip.map_or_else(|| format!("see {}", help_command()), str::to_owned);
        print_object(&error_object(FailureCode::Usage, message, Some(&hint)));
    }
    error.exit()
}

fn error_object(code: FailureCode, message: &str, hint: Option<&str>) -> serde_json::Value {
    let mut error = json!({ "code": code.as_str(), "message": message });
    if let (Some(hint), Some(fields)) = (hint, error.as_object_mut()) {
        fields.insert("hint".to_owned(), hint.into());
    }
    json!({ "schema": SCHEMA, "error": error })
}

/// Prints an error on stdout if the command was asked for JSON.
fn print_object(object: &serde_json::Value) {
    if ANSWERS_JSON.load(Ordering::Relaxed) {
        // If stdout is gone, stderr and the exit code still tell.
        let _ = writeln!(io::stdout(), "{}", data_line(&object.to_string()));
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error: {}", self.error)?;
        let mut cause = self.error.source();
        while let Some(error) = cause {
            write!(f, "\nCaused by: {error}")?;
            cause = error.source();
        }
        for hint in &self.hints {
            write!(f, "\nHint: {hint}")?;
        }
        Ok(())
    }
}

/// An error and its causes on one line.
pub(crate) fn on_one_line(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

impl From<abide::Error> for CommandError {
    fn from(error: abide::Error) -> Self {
        if error.is_cancelled() {
            return Self::Cancelled;
        }
        let hints = hint(&error).into_iter().collect();
        let code = FailureCode::of(&error);
        Self::Failed(CommandFailure { code, error: Box::new(error), hints })
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        abide::Error::from(error).into()
    }
}

impl From<PathError> for CommandError {
    fn from(error: PathError) -> Self {
        let hints = storage_hint(&error.source).into_iter().collect();
        let code = FailureCode::of_io(&error.source);
        Self::Failed(CommandFailure { code, error: Box::new(error), hints })
    }
}

/// An error writing the output; errors on other files are [`PathError`]s.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            return Self::BrokenPipe;
        }
        let (code, error) = (FailureCode::of_io(&error), Box::new(OutputError(error)));
        Self::Failed(CommandFailure { code, error, hints: Vec::new() })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write the output")]
struct OutputError(#[source] io::Error);

fn hint(error: &abide::Error) -> Option<String> {
    match error {
        abide::Error::NoStore { .. } => Some(
            "`abide init` makes a store here; `--store DIR` names one elsewhere"
                .to_owned(),
        ),
        abide::Error::NothingRecorded { .. } => Some(
            "`abide run AGENT`, `abide record` and `abide save` create it; `abide init` creates \
            one for this project alone, `--store DIR` names another"
                .to_owned(),
        ),
        abide::Error::HeldConversation { .. } => Some(
            "`--files` rewinds the files alone; for the conversation, end that process first".to_owned(),
        ),
        abide::Error::RewoundMeanwhile => Some("run the command again".to_owned()),
        abide::Error::Restoring { .. } => {
            Some("run the command again when the other one has ended".to_owned())
        }
        abide::Error::Place(error) => place_hint(error),
        abide::Error::NotAccepted { project, .. } => Some(format!(
            "whoever wrote that file chose the place. If you trust it, accept it with `abide init --store \
             PLACE` in {}, or name it with `--store`",
            project.display()
        )),
        abide::Error::LocalObjects { directory, .. } => Some(format!(
            "whoever set up the store chose the directory. If you trust it, run the command in a terminal \
             and accept it, or list \"{}\" under `trusted` in abide/config.toml among your settings",
            directory.display()
        )),
        abide::Error::Store(error)
        | abide::Error::Export(ExportError::Store(error))
        | abide::Error::Import(ImportError::Store(error)) => match error {
            StoreError::TakenOver { .. } => Some(
                "everything acknowledged is safe; open the session again, or let the other process \
                continue"
                    .to_owned(),
            ),
            // The caller lists the sessions there are.
            StoreError::NoSession { .. } => None,
            StoreError::NoEvent { .. } => {
                Some("`abide show --json` has every event with its number".to_owned())
            }
            StoreError::NoParent { parent, .. } => Some(format!(
                "restore session {parent} from a backup or with `abide import`; `abide show` shows \
                what is here"
            )),
            StoreError::Ambiguous { .. } => Some("give more characters of the id".to_owned()),
            StoreError::Held { .. } => Some(
                "wait until it has ended, wait longer with `--wait 30s`, or end that process"
                    .to_owned(),
            ),
            StoreError::NewerVersion { .. } => {
                Some("update abide; nothing was changed".to_owned())
            }
            StoreError::NotMade { .. } => Some("`abide store init` makes one".to_owned()),
            StoreError::OlderVersion { .. } => Some(
                "`abide store migrate` updates it; older versions of abide cannot use it \
                afterwards"
                    .to_owned(),
            ),
            StoreError::ObjectsElsewhere { .. } => {
                Some("nothing was changed; `abide store init` without `--objects` leaves them there".to_owned())
            }
            StoreError::Damaged { .. } => {
                Some("`abide doctor` says what can be read and what is lost".to_owned())
            }
            StoreError::Storage { source, .. } => match source.downcast_ref::<ServerError>() {
                Some(trouble) => server_hint(trouble.obstacle()).map(str::to_owned),
                None => cause_hint(&**source),
            },
            StoreError::Append(error) => cause_hint(error),
        },
        abide::Error::Append(error) => cause_hint(error),
        abide::Error::Export(ExportError::Damaged { .. }) => Some(
            "`abide export --format jsonl` writes everything readable; `abide doctor` says what is \
            lost"
                .to_owned(),
        ),
        abide::Error::Export(ExportError::Changed { .. }) => {
            Some("run the same command again".to_owned())
        }
        abide::Error::Export(error @ ExportError::Bundle { .. }) => cause_hint(error),
        abide::Error::Import(error) => import_hint(error),
        abide::Error::NoWorkspace { .. } => {
            Some("name the directory with `--workspace DIR`".to_owned())
        }
        abide::Error::Workspace(error) => cause_hint(error),
        abide::Error::Restore(error) => Some(cause_hint(error).unwrap_or_else(|| {
            "the next command finishes it, and `abide undo` undoes it".to_owned()
        })),
        abide::Error::Snapshot { .. } | abide::Error::Content(_) => {
            Some("`abide checkpoint list` shows the others; `abide doctor` says what is damaged".to_owned())
        }
        abide::Error::NoFiles { .. } => {
            Some("`abide checkpoint list` shows which have files; `--conversation` rewinds without \
            files".to_owned())
        }
        abide::Error::OtherWorkspace { .. } => {
            Some("rewind with a session of that directory".to_owned())
        }
        abide::Error::CancelledHalfWay { .. } => {
            Some("`abide checkpoint diff` shows the differences".to_owned())
        }
        abide::Error::NothingToRedo => {
            Some("`abide redo` redoes only what `abide undo` undid".to_owned())
        }
        abide::Error::NothingToUndo
        | abide::Error::Cancelled
        | abide::Error::Delete(_)
        | abide::Error::Erase(_)
        | abide::Error::Project { .. }
        | abide::Error::Lacking { .. } => None,
        abide::Error::OnlyFiles { .. } => Some(
            "`--store DIR` names a store of files; a shared store is maintained on its server"
                .to_owned(),
        ),
        abide::Error::Objects(ObjectsError::WithoutS3 { .. }) => Some(
            "build abide with it: `cargo install --path crates/abide-cli --features s3`"
                .to_owned(),
        ),
        abide::Error::Objects(_) => Some(
            "such as s3://BUCKET/PREFIX; endpoint and credentials are in the AWS_… variables".to_owned(),
        ),
        abide::Error::Url { .. } | abide::Error::ServerUrl(_) => Some(
            "such as postgres://USER@HOST/DATABASE; the password can be in PGPASSWORD or ~/.pgpass"
                .to_owned(),
        ),
        abide::Error::Compaction(error) => match error {
            CompactionError::Nothing(NothingToCompact::Kept { .. }) => {
                Some("`--keep N` keeps fewer messages".to_owned())
            }
            CompactionError::Longer { .. } => {
                Some("`--most TOKENS` asks for a shorter one, `--keep N` covers more".to_owned())
            }
            CompactionError::NotInContext { .. } => Some(
                "`abide context --format text` shows the messages with their numbers".to_owned(),
            ),
            _ => None,
        },
        abide::Error::HasSecrets { .. } => Some(
            "`abide erase` removes them where they were recorded, except from keys, tasks and lanes; \
             `--keep-secrets` takes it as it is"
                .to_owned(),
        ),
        abide::Error::Redaction(RedactionError::OwnRules(_) | RedactionError::Settings(_)) => Some(
            "nothing is recorded or exported without them; correct them in your config.toml \
             (~/.config/abide); `abide secrets rules` checks them"
                .to_owned(),
        ),
        abide::Error::Redaction(_) => {
            Some("nothing is recorded or exported without them; install abide again".to_owned())
        }
        abide::Error::Task(error) => Some(task_hint(error).to_owned()),
        abide::Error::Plan(TaskListError::UnknownForm { .. }) => {
            Some("give it with `--format prp`, `markdown`, `toml` or `json`".to_owned())
        }
        abide::Error::Plan(TaskListError::Unwritable { .. }) => {
            Some("`--format json` writes any plan".to_owned())
        }
        abide::Error::Plan(_) => None,
        abide::Error::Stream(_) | abide::Error::CutOff(_) => None,
        // The message already lists what there is.
        abide::Error::Position(_) | abide::Error::Input(_) | abide::Error::CurrentDir(_) => None,
        abide::Error::File { source, .. } => storage_hint(source),
        abide::Error::NoPlanFile => {
            Some("`abide run --plan FILE` starts a session with a plan document".to_owned())
        }
        abide::Error::NoTasksInFile { .. } => {
            Some("`abide tasks export` writes the tasks of a session as a document".to_owned())
        }
        abide::Error::BusyFile { .. } => Some("the next run updates it".to_owned()),
    }
}

fn place_hint(error: &StorePlaceError) -> Option<String> {
    match error {
        StorePlaceError::Foreign { path, .. } | StorePlaceError::Writable { path, .. } => Some(format!(
            "if you trust it, name it with `--store`, or list \"{}\" under `trusted` in abide/config.toml \
             among your settings; `abide init --store .` makes a store of your own here",
            path.display()
        )),
        StorePlaceError::NotAStore { .. } => Some(
            "move it away; `--store DIR` names a store elsewhere, and `abide init` makes one"
                .to_owned(),
        ),
        StorePlaceError::Root => Some(
            "go to the directory of a project, or name a place: `abide init --store DIR`"
                .to_owned(),
        ),
        StorePlaceError::NotThere { path } => Some(format!(
            "`abide init --store {}` makes one; no other command does",
            path.display()
        )),
        StorePlaceError::NoHome => Some(
            "set HOME or XDG_DATA_HOME, or name a store: `--store DIR`, made by `abide init --store DIR`"
                .to_owned(),
        ),
        StorePlaceError::Settings { .. } => Some(
            "abide/config.toml may hold store = \"postgres://USER@HOST/DATABASE\" or store = \"/DIR\", trusted = \
             [\"/DIR\"], [secrets], [run] and [agents.NAME]; a project's abide.toml may hold the last two"
                .to_owned(),
        ),
        StorePlaceError::Unreadable { source, .. } => cause_hint(source),
    }
}

const fn server_hint(obstacle: ServerErrorKind) -> Option<&'static str> {
    Some(match obstacle {
        ServerErrorKind::Unreachable => {
            "check that the server runs and that host and port are right; acknowledged events are \
            safe"
        }
        ServerErrorKind::Credentials => {
            "user and password can be in the URL, in PGUSER and PGPASSWORD, or in ~/.pgpass"
        }
        ServerErrorKind::ClearPassword => {
            "`sslmode=require` in the URL encrypts the connection; or make the server use \
            scram-sha-256"
        }
        ServerErrorKind::NoDatabase => {
            "`createdb` makes a database, and `abide store init` a store in it"
        }
        ServerErrorKind::Forbidden => {
            "ask the owner of the database to grant this user what is missing"
        }
        ServerErrorKind::Other => return None,
    })
}

const fn task_hint(error: &TaskError) -> &'static str {
    match error {
        TaskError::Unknown { .. }
        | TaskError::UnknownParent { .. }
        | TaskError::UnknownDependency { .. } => "`abide tasks` lists the tasks",
        TaskError::Exists { .. } => {
            "omit `--id` to get the next free one; `abide tasks set` changes an existing task"
        }
        TaskError::BadId { .. } => "omit `--id` to get the next free one",
        TaskError::IllegalTransition { from: TaskStatus::Complete, .. } => {
            "a complete task can only become obsolete; `abide tasks add` makes a new task"
        }
        TaskError::IllegalTransition { from: TaskStatus::Obsolete, .. } => {
            "plan it again first: `abide tasks set ID planned`"
        }
        TaskError::IllegalTransition { .. } => {
            "start it again first: `abide tasks set ID \
        retrying`"
        }
        TaskError::OpenParts { .. } => {
            "it becomes complete by itself when its parts are complete or obsolete"
        }
        TaskError::Cycle { .. } => "`abide tasks depend ID --off ID` removes a dependency",
    }
}

fn import_hint(error: &ImportError) -> Option<String> {
    let hint = match error {
        ImportError::Bundle(BundleError::Empty | BundleError::NotABundle { .. }) => {
            "`abide export --format bundle -o FILE` makes a bundle"
        }
        ImportError::Bundle(BundleError::NewerVersion { .. }) => {
            "update abide; nothing was changed"
        }
        ImportError::Bundle(BundleError::Read(_)) => return None,
        ImportError::Bundle(BundleError::Ratio { .. }) => {
            "nothing was changed; `--large` imports it, if you trust who made it"
        }
        ImportError::NoRoom { .. } => {
            "nothing was changed; free some space, or name a store on another disk with `--store DIR`"
        }
        ImportError::Bundle(_) => "nothing was changed; copy the file again, or export it again",
        ImportError::Diverged { .. } => {
            "nothing was changed; `--store DIR` imports it into another store"
        }
        ImportError::KeyTaken { .. } => {
            "nothing was changed; a key names one session: `--store DIR` imports it into another \
            store"
        }
        ImportError::NoParent { parent, .. } => {
            return Some(format!(
                "nothing was changed; a fork shares the past of its parent: import session {parent} first"
            ));
        }
        ImportError::Store(_) => return None,
    };
    Some(hint.to_owned())
}

/// The hint for the first cause that has one.
fn cause_hint(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(hint) = error.downcast_ref::<io::Error>().and_then(storage_hint) {
            return Some(hint);
        }
        cause = error.source();
    }
    None
}

fn storage_hint(error: &io::Error) -> Option<String> {
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space and run the same command again; acknowledged events are safe"
        }
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            "this place cannot be written; `--store DIR` names another, made by `abide init --store DIR`"
        }
        ErrorKind::NotADirectory => {
            "there is a file where a directory is needed; `--store DIR` names another place"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The exit code of a bug.
pub(crate) const BUG: u8 = 255;

/// Reports a panic as a bug, in the form of other errors.
pub(crate) fn set_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let message = format!("this is a bug in abide {}: {panic}", env!("CARGO_PKG_VERSION"));
        let hint = "acknowledged events are safe; please report this message";
        print_object(&error_object(FailureCode::Bug, &message, Some(hint)));
        let _ = writeln!(
            io::stderr(),
            "Error: this is a bug in abide {}: {}\nHint: acknowledged events are safe; please \
            report this message",
            env!("CARGO_PKG_VERSION"),
            escape::lines(&panic.to_string()),
        );
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_its_causes_and_what_to_do() {
        let full = io::Error::from(ErrorKind::StorageFull);
        let CommandError::Failed(failure) = at("write", "/x/y")(full) else {
            panic!("not a failure");
        };
        assert_eq!(
            failure.to_string(),
            "Error: cannot write /x/y\nCaused by: no storage space\nHint: free some space and run \
            the same command again; acknowledged events are safe"
        );
    }

    #[test]
    fn a_broken_pipe_is_no_failure() {
        let broken = CommandError::from(io::Error::from(ErrorKind::BrokenPipe));
        assert!(matches!(broken, CommandError::BrokenPipe));
        assert_eq!(broken.code(), 3);
    }
}
