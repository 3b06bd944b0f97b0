//! `abide store`: creates a store, shows its status, and migrates it.

use abide::{
    SharedStore,
    locate::{ObjectsUrl, StoreLocation, StoreUrl, TrustPolicy, find_project},
    maintenance::{ByteSize, MigratedVersions, SCHEMA_VERSION, StoreStatus},
};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, warning};
use crate::command_place::checked_url;
use crate::error::CommandError;

/// Show the store, or set up a shared one
///
/// The store is the one named by `--store`, ABIDE_STORE, the project or your configuration, else
/// your own. A store of files is created by the first recording and needs no `migrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide store path             where the store is
  abide store path k3x9ab      where a session is in it
  abide --store postgres://me@db.example.org/team store init
  abide --store postgres://me@db.example.org/team store init --objects s3://bucket/prefix
  abide store status
  abide store migrate          when a new version of abide asks for it")]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: StoreSubcommand,
}

#[derive(Debug, clap::Subcommand)]
enum StoreSubcommand {
    Path(StorePathArgs),
    Init(StoreInitArgs),
    Status(StoreStatusArgs),
    Migrate(StoreMigrateArgs),
}

/// Print the path or the URL of the store, or the directory of a session in it
///
/// The store need not exist yet. A URL is printed without its password.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide store path
  du -sh \"$(abide store path)\"
  ls \"$(abide store path k3x9ab)\"")]
struct StorePathArgs {
    /// A session in a store of files, by its id or name or the start of one
    #[arg(value_name = "SESSION")]
    session: Option<String>,
}

/// Create the tables of a shared store, or update existing ones
///
/// The database must exist, and the user must be allowed to create tables in it. Running the
/// command again, or several times at once, changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide --store postgres://me@db.example.org/team store init
  abide --store postgres://me@db.example.org/team store init --objects s3://bucket/prefix")]
struct StoreInitArgs {
    /// Keep objects (files, long texts) at this URL; endpoint and credentials are in the AWS_…
    /// variables [default: in the database]
    #[arg(long, value_name = "URL")]
    objects: Option<String>,
}

/// Show where the store is, its version, its size and what endangers it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide store status
  abide --store postgres://me@db.example.org/team store status --json")]
struct StoreStatusArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Update the tables of a shared store to the version of this program
///
/// Older versions of abide cannot use the store afterwards. A store of files needs no migration.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide store migrate")]
struct StoreMigrateArgs {}

impl StoreArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        match self.command {
            StoreSubcommand::Path(path) => path.run(surroundings),
            StoreSubcommand::Init(init) => init.run(surroundings),
            StoreSubcommand::Status(status) => status.run(surroundings),
            StoreSubcommand::Migrate(migrate) => migrate.run(surroundings),
        }
    }
}

impl StorePathArgs {
    fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        let Some(session) = &self.session else {
            let place = surroundings.place_in(&surroundings.current_dir)?;
            out.line(escaped_store_text(&place.store.to_string()))?;
            return out.flush();
        };
        let opened = surroundings.open_file_store("`abide store path SESSION`")?;
        let id = opened.find(session)?;
        let files = opened.store.files("`abide store path SESSION`")?;
        let dir = files.session_dir(id).map_err(abide::Error::from)?;
        out.line(escaped_store_text(&dir.to_string_lossy()))?;
        out.flush()
    }
}

impl StoreInitArgs {
    fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let located = surroundings.place_if_any()?;
        let Some(StoreLocation::Shared(url)) = located.map(|place| place.store) else {
            return Err(CommandError::failed("no URL given for the shared store").with_hint(
                "`abide --store postgres://USER@HOST/DATABASE store init` names one; `abide init` \
                 makes a store of files",
            ));
        };
        let revealed = checked_url(&url)?;
        let MigratedVersions { from, to } = SharedStore::init(revealed, self.objects.as_deref())?;
        // Naming a directory for the objects accepts it.
        let objects_url = self.objects.as_deref().map(ObjectsUrl::parse).transpose();
        if let Some(ObjectsUrl::Directory(dir)) = objects_url.map_err(abide::Error::from)? {
            let project = find_project(&surroundings.current_dir, &TrustPolicy::of_process());
            surroundings.accept_place(&project, &StoreLocation::Files(dir))?;
        }
        let found = SharedStore::status(revealed)?;
        let objects = store_objects_text(&found);
        let mut out = CommandOutput::stdout();
        match from {
            0 => {
                out.line(format_args!("Made a store in {url}: version {to}, objects in {objects}"))?
            }
            _ if from == to => {
                out.line(format_args!("The store is {url}: version {to}, objects in {objects}"))?;
            }
            _ => out.line(store_upgraded_text(&url, from, to))?,
        }
        out.flush()?;
        found.warnings.iter().for_each(warning);
        Ok(())
    }
}

impl StoreMigrateArgs {
    fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        match surroundings.existing_place()?.store {
            StoreLocation::Files(root) => {
                let place = root.display().to_string();
                let place = escape::text(&place);
                out.line(format_args!("Nothing to do: {place} is a store of files"))?;
            }
            StoreLocation::Shared(url) => match SharedStore::migrate(checked_url(&url)?)? {
                MigratedVersions { from, to } if from == to => {
                    out.line(format_args!("Nothing to do: {url} is of version {to}"))?;
                }
                MigratedVersions { from, to } => out.line(store_upgraded_text(&url, from, to))?,
            },
        }
        out.flush()
    }
}

fn store_upgraded_text(url: &StoreUrl, from: i32, to: i32) -> String {
    format!("Updated {url} from version {from} to version {to}")
}

fn store_objects_text(found: &StoreStatus) -> String {
    found.objects.as_deref().map_or_else(|| "the database".to_owned(), escaped_store_text)
}

fn escaped_store_text(text: &str) -> String {
    escape::text(text).into_owned()
}

/// Whether this program can use a store of this version.
fn store_version_fitness(version: Option<i32>) -> &'static str {
    match version {
        None => "none",
        Some(version) if version < SCHEMA_VERSION => "older",
        Some(version) if version > SCHEMA_VERSION => "newer",
        Some(_) => "current",
    }
}

impl StoreStatusArgs {
    fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        match surroundings.existing_place()?.store {
            StoreLocation::Shared(url) => self.shared(&url),
            StoreLocation::Files(_) => self.files(surroundings),
        }
    }

    fn files(&self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let version = opened.store.files("`abide store status`")?.config().version;
        let used = opened.store.disk_use()?;
        let sessions = opened.store.sessions()?.len();
        let mut out = CommandOutput::stdout();
        if self.json {
            let report = serde_json::json!({
                "store": opened.place(), "kind": "files", "version": version,
                "fits": "current", "sessions": sessions, "bytes": used.total,
            });
            out.json(&report.to_string())?;
        } else {
            out.line(format_args!("store     {}", escaped_store_text(&opened.place())))?;
            out.line(format_args!("version   {version}"))?;
            out.line(format_args!("sessions  {sessions}"))?;
            out.line(format_args!("space     {}", ByteSize(used.total)))?;
        }
        out.flush()
    }

    fn shared(&self, url: &StoreUrl) -> Result<(), CommandError> {
        let found = SharedStore::status(checked_url(url)?)?;
        let fits = store_version_fitness(found.version);
        let mut out = CommandOutput::stdout();
        if self.json {
            let report = serde_json::json!({
                "store": url.to_string(), "kind": "postgres", "server": found.server,
                "version": found.version, "known": SCHEMA_VERSION, "fits": fits,
                "sessions": found.sessions, "held": found.held, "bytes": found.bytes,
                "objects": found.objects, "warnings": found.warnings,
            });
            out.json(&report.to_string())?;
            return out.flush();
        }
        let version = match (found.version, fits) {
            (None, _) => "no store yet: `abide store init` makes one".to_owned(),
            (Some(version), "older") => format!(
                "{version}; this program's is {SCHEMA_VERSION}: `abide store migrate` updates it"
            ),
            (Some(version), "newer") => {
                format!("{version}; this program knows {SCHEMA_VERSION}: update abide")
            }
            (Some(version), _) => version.to_string(),
        };
        out.line(format_args!("store     {url}"))?;
        out.line(format_args!("server    PostgreSQL {}", escaped_store_text(&found.server)))?;
        out.line(format_args!("version   {version}"))?;
        if found.version.is_some() {
            out.line(format_args!("sessions  {}, {} held", found.sessions, found.held))?;
            out.line(format_args!("space     {}", ByteSize(found.bytes)))?;
            out.line(format_args!("objects   in {}", store_objects_text(&found)))?;
        }
        out.flush()?;
        found.warnings.iter().for_each(warning);
        Ok(())
    }
}
