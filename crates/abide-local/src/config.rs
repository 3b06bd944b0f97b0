//! `config.toml`: the store's version and settings.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use abide_journal::{Access, Codec, Compression, Disk, Storage, read_full, write_full};
use abide_maintain::config_named_for;
use abide_model::{AutoCompaction, Retention, RetentionOverrides, StoreError};
use abide_workspace::{Policy, PolicyOverrides, SecretFiles};
use serde::Deserialize;

use crate::error::storage_error;
use crate::hooks_config::HooksConfig;
use crate::store_layout::StoreLayout;
use crate::workspace_setting::{WorkspaceSetting, with_workspace_setting};

/// The store layout version that this program writes, and the newest it opens.
pub const STORE_VERSION: u64 = 1;

/// The largest configuration file that is read.
const MAX: usize = 1 << 20;

/// The store's settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The version of the layout.
    pub version: u64,
    /// Whether it holds one project or many, if recorded.
    pub projects: Option<HeldProjects>,
    /// Whether each session is kept in readable form beside its journal.
    pub transcript: TranscriptPolicy,
    /// The journal's settings.
    pub journal: JournalConfig,
    /// The objects' settings.
    pub objects: ObjectsConfig,
    /// How workspaces are captured.
    pub workspace: Policy,
    /// When contexts are compacted.
    pub context: ContextConfig,
    /// `[secrets]`, which only a user's own settings may have: a store may come with a cloned repository.
    #[doc(hidden)]
    #[serde(deserialize_with = "refuse_secrets")]
    pub secrets: (),
    /// What a cleanup removes.
    pub retention: Retention,
    /// What is kept of the files that hooks of agents capture.
    pub hooks: HooksConfig,
    /// Settings per project, by id or directory.
    pub project: BTreeMap<String, ProjectConfig>,
}

fn refuse_secrets<'de, D: serde::Deserializer<'de>>(_: D) -> Result<(), D::Error> {
    use serde::de::Error as _;
    Err(D::Error::custom(
        "[secrets] is for your own settings (~/.config/abide/config.toml), not for those of a store",
    ))
}

/// `projects`: how many projects a store holds sessions of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeldProjects {
    /// One project, or none: a command that names no project means all sessions.
    One,
    /// Many: a command that names no project means the sessions of the current one.
    Many,
}

/// `transcript`: whether each session has a `transcript.task` beside its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TranscriptPolicy {
    /// No: it is written on export only.
    #[default]
    Off,
    /// Yes: it grows as turns end. It takes as much room as the journal did before it was sealed.
    Live,
}

/// `[project."ID-OR-PATH"]`: settings that override the store's for one project.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProjectConfig {
    /// How its workspaces are captured.
    pub workspace: PolicyOverrides,
    /// What a cleanup removes of its sessions.
    pub retention: RetentionOverrides,
}

/// The project whose settings are changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfiguredProject<'a> {
    /// The ids that it is known by.
    pub(crate) ids: &'a [String],
    /// Its workspace.
    pub(crate) root: &'a Path,
}

/// A change of how a project's workspaces are captured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WorkspaceChange<'a> {
    /// Patterns more in `workspace.include`.
    Include(&'a [String]),
    /// Another `workspace.secrets`.
    Secrets(SecretFiles),
}

/// Marks a store as one of many projects. It must come first in the file: after a table header it
/// would belong to that table.
const MARK: &str = "\
# Sessions of many projects are kept here: a command means those of the project it runs in.
projects = \"many\"

";

/// Only the `projects` key.
#[derive(Deserialize)]
struct ProjectsSetting {
    projects: Option<HeldProjects>,
}

/// Whether the store in this directory is marked as holding sessions of many projects, as the
/// user's own store is. False if no store can be read. Reads one small file.
#[must_use]
pub fn holds_many_projects(root: &Path) -> bool {
    let path = StoreLayout { root: root.to_owned() }.config();
    let Ok(text) = read_config_text(&Disk, &path) else { return false };
    text.starts_with(MARK)
        || toml::from_str(&text)
            .is_ok_and(|ProjectsSetting { projects }| projects == Some(HeldProjects::Many))
}

/// Only the `version` key.
#[derive(Deserialize)]
struct ConfigVersion {
    #[serde(default)]
    version: u64,
}

/// `[objects]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObjectsConfig {
    /// How new objects are compressed.
    pub compression: Codec,
    /// The compression level.
    pub level: i32,
    /// Objects with fewer bytes than this are stored uncompressed.
    pub threshold: u64,
}

impl Default for ObjectsConfig {
    fn default() -> Self {
        let Compression { codec, level, threshold } = Compression::default();
        Self { compression: codec, level, threshold }
    }
}

impl ObjectsConfig {
    pub(crate) const fn compression(&self) -> Compression {
        Compression { codec: self.compression, level: self.level, threshold: self.threshold }
    }
}

/// `[context]`. It says when, never by which command or endpoint: a store may come from somebody
/// else.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContextConfig {
    /// When contexts are compacted by themselves.
    pub compact_over: Option<AutoCompaction>,
}

/// `[journal]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JournalConfig {
    /// Start a new segment when one has this many bytes.
    pub segment_bytes: u64,
    /// Strings in payloads with more bytes than this are stored as objects.
    pub object_bytes: usize,
    /// Compress segments that are no longer written.
    pub seal: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            version: STORE_VERSION,
            projects: None,
            transcript: TranscriptPolicy::default(),
            journal: JournalConfig::default(),
            objects: ObjectsConfig::default(),
            workspace: Policy::default(),
            context: ContextConfig::default(),
            secrets: (),
            retention: Retention::default(),
            hooks: HooksConfig::default(),
            project: BTreeMap::new(),
        }
    }
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self { segment_bytes: 4 << 20, object_bytes: 64 << 10, seal: true }
    }
}

const TEMPLATE: &str = "\
# The settings of this abide store. Remove a line to have its default.
version = 1
# Keep each session in readable form beside its journal, as turns end. It doubles the room.
# transcript = \"live\"

[journal]
# Begin a new segment when one has this many bytes.
segment_bytes = 4194304
# Strings in payloads with more bytes than this are kept as objects.
object_bytes = 65536
# Leave segments that are no longer written uncompressed. `zstd -d` reads compressed ones.
# seal = false

[objects]
# How new objects (large payloads, files of the workspace) are compressed: zstd, lz4, gzip, none.
compression = \"zstd\"
# How hard: 1 to 19 for zstd, 1 to 9 for gzip.
level = 1
# Less than this many bytes are stored as they are.
threshold = 128

[workspace]
# Patterns, as in .gitignore, of what is captured although it is ignored, and of what is not
# captured although nothing ignores it.
include = []
exclude = []
# A larger file is left out of a snapshot, and named as left out.
max_file_bytes = 1073741824
# The most files and bytes of a snapshot.
max_files = 1000000
max_bytes = 21474836480
# No snapshot is taken when the disk has less free than this.
min_free_bytes = 1073741824

# When `record`, `run` and `acp` compact a context by themselves: over this part of the model's window,
# or over a number of tokens (\"120k\").
# [context]
# compact_over = \"80%\"

# What is let go; without a limit nothing is.
# [retention]
# max_age = \"30d\"
# max_count = 1000
# max_size = \"10GB\"
# keep_failed = true
# min_keep = 10
# thin = true
";

impl Config {
    /// How a workspace is captured, for a project known by these ids.
    #[must_use]
    pub fn workspace_of(&self, ids: &[String], root: &Path) -> Policy {
        let section = self.workspace_section(ids, root);
        match section.and_then(|name| self.project.get(&name)) {
            Some(project) => project.workspace.over(&self.workspace),
            None => self.workspace.clone(),
        }
    }

    /// The section of `[project]` that says how this project's workspaces are captured.
    fn workspace_section(&self, ids: &[String], root: &Path) -> Option<String> {
        let told = self.project.iter().map(|(name, config)| (name.as_str(), &config.workspace));
        let told = told.filter(|(_, overrides)| **overrides != PolicyOverrides::default());
        config_named_for(told, ids, Some(root)).map(|(name, _)| name.to_owned())
    }

    /// Changes how a project's workspaces are captured: in its own section if the store holds many
    /// projects, else for the whole store. Atomic; all other text stays as it is. The caller must
    /// hold a lock over it.
    pub(crate) fn change_workspace(
        storage: &dyn Storage,
        path: &Path,
        project: &ConfiguredProject<'_>,
        change: WorkspaceChange<'_>,
    ) -> Result<(), StoreError> {
        let refused = |reason: String| storage_error("change", path)(io::Error::other(reason));
        if path.is_symlink() {
            return Err(refused(
                "it is a symbolic link; edit the file that it leads to".to_owned(),
            ));
        }
        let config = Self::read(storage, path)?;
        let section = match config.projects {
            Some(HeldProjects::Many) => config
                .workspace_section(project.ids, project.root)
                .or_else(|| project.root.to_str().map(str::to_owned))
                .map(Some)
                .ok_or_else(|| refused("the directory's name is not UTF-8".to_owned()))?,
            _ => config.workspace_section(project.ids, project.root),
        };
        let setting = match change {
            WorkspaceChange::Include(patterns) => {
                let mut include = config.workspace_of(project.ids, project.root).include;
                for pattern in patterns {
                    if !include.contains(pattern) {
                        include.push(pattern.clone());
                    }
                }
                WorkspaceSetting::Include(include)
            }
            WorkspaceChange::Secrets(secrets) => WorkspaceSetting::Secrets(secrets),
        };
        let text = read_config_text(storage, path)?;
        let text = with_workspace_setting(&text, section.as_deref(), &setting).map_err(refused)?;
        write_config(storage, path, &path.with_extension("workspace"), &text)?;
        match path.parent() {
            Some(root) => storage.sync_dir(root).map_err(storage_error("sync", root)),
            None => Ok(()),
        }
    }

    /// Reads the configuration of a store.
    pub fn read(storage: &dyn Storage, path: &Path) -> Result<Self, StoreError> {
        let text = read_config_text(storage, path)?;
        let damaged = |reason: String| damaged_config(path, reason);
        // The default file: nothing to parse.
        let (marked, rest) = match text.strip_prefix(MARK) {
            Some(rest) => (Some(HeldProjects::Many), rest),
            None => (None, text.as_str()),
        };
        if rest == TEMPLATE {
            return Ok(Self { projects: marked, ..Self::default() });
        }
        let config = match toml::from_str::<Self>(&text) {
            Ok(config) => Ok(config),
            // A later version may have settings that this one does not know.
            Err(error) => toml::from_str::<ConfigVersion>(&text)
                .ok()
                .filter(|told| told.version > STORE_VERSION)
                .map(|told| Self { version: told.version, ..Self::default() })
                .ok_or_else(|| damaged(toml_fault(&text, &error))),
        }?;
        if config.version > STORE_VERSION {
            return Err(StoreError::NewerVersion {
                place: path.display().to_string(),
                found: config.version,
                known: STORE_VERSION,
            });
        }
        let journal = &config.journal;
        if journal.segment_bytes < 4096 || journal.object_bytes < 1024 {
            return Err(damaged(
                "segment_bytes must be at least 4096, object_bytes 1024".to_owned(),
            ));
        }
        let most = if config.objects.compression == Codec::Gzip { 9 } else { 19 };
        if !(1..=most).contains(&config.objects.level) {
            return Err(damaged(format!("level in [objects] must be 1 to {most}")));
        }
        Ok(config)
    }

    /// Writes the configuration of a new store, atomically.
    pub(crate) fn write_default(storage: &dyn Storage, path: &Path) -> Result<(), StoreError> {
        write_config(storage, path, &path.with_extension("tmp"), TEMPLATE)
    }

    /// Marks a store as holding sessions of many projects, unless its settings already have
    /// `projects`. Atomic; all other settings stay as they are. The caller must hold a lock over
    /// it.
    pub(crate) fn mark(storage: &dyn Storage, path: &Path) -> Result<Self, StoreError> {
        let config = Self::read(storage, path)?;
        // A symlink may lead to a file that others also use.
        if config.projects.is_some() || path.is_symlink() {
            return Ok(config);
        }
        let marked = format!("{MARK}{}", read_config_text(storage, path)?);
        write_config(storage, path, &path.with_extension("marked"), &marked)?;
        if let Some(root) = path.parent() {
            storage.sync_dir(root).map_err(storage_error("sync", root))?;
        }
        Self::read(storage, path)
    }
}

fn read_config_text(storage: &dyn Storage, path: &Path) -> Result<String, StoreError> {
    let file = storage.open(path, Access::Read).map_err(storage_error("open", path))?;
    let len = file.len().map_err(storage_error("read", path))?;
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(MAX).min(MAX)];
    let read = read_full(&*file, &mut bytes, 0).map_err(storage_error("read", path))?;
    bytes.truncate(read);
    String::from_utf8(bytes).map_err(|_| damaged_config(path, "not valid UTF-8".to_owned()))
}

/// What is wrong with a text of TOML, and in which line.
fn toml_fault(text: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return message.to_owned();
    };
    let line = before.matches('\n').count() + 1;
    let header = |line: &str| {
        let header = line.split('#').next().unwrap_or_default().trim().to_owned();
        header.starts_with('[').then_some(header)
    };
    if message.starts_with("duplicate key")
        && let Some(section) = text.lines().nth(line - 1).and_then(header)
    {
        let is_same = |line: &str| header(line).as_ref() == Some(&section);
        let first = text.lines().take(line - 1).position(is_same);
        let first = first.map(|first| format!(", first in line {}", first + 1));
        return format!(
            "line {line}: the section {section} appears twice{}",
            first.unwrap_or_default()
        );
    }
    format!("line {line}: {message}")
}

fn damaged_config(path: &Path, reason: String) -> StoreError {
    StoreError::Damaged { place: path.display().to_string(), reason }
}

fn write_config(
    storage: &dyn Storage,
    path: &Path,
    temporary: &Path,
    text: &str,
) -> Result<(), StoreError> {
    let file =
        storage.open(temporary, Access::Create).map_err(storage_error("create", temporary))?;
    let written = write_full(&*file, text.as_bytes(), 0)
        .and_then(|()| file.truncate(text.len() as u64))
        .and_then(|()| file.sync());
    written.map_err(storage_error("write", temporary))?;
    storage.rename(temporary, path).map_err(storage_error("create", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_says_the_defaults() {
        assert_eq!(toml::from_str::<Config>(TEMPLATE).unwrap(), Config::default());
        assert_eq!(toml::from_str::<Config>("").unwrap(), Config::default());
    }

    #[test]
    fn transcripts_are_kept_only_where_the_settings_say_so() {
        let policy = |text: &str| toml::from_str::<Config>(text).map(|config| config.transcript);
        assert_eq!(policy("version = 1").unwrap(), TranscriptPolicy::Off);
        assert_eq!(policy("transcript = \"off\"").unwrap(), TranscriptPolicy::Off);
        assert_eq!(policy("transcript = \"live\"").unwrap(), TranscriptPolicy::Live);
        assert!(policy("transcript = true").is_err());
        assert!(policy("transcript = \"always\"").is_err());
    }

    #[test]
    fn a_store_says_when_a_context_is_compacted_and_not_by_what() {
        let read = |text: &str| {
            let config = toml::from_str::<Config>(&format!("[context]\n{text}"));
            config.map(|config| config.context.compact_over)
        };
        assert_eq!(read("").unwrap(), None);
        assert_eq!(read("compact_over = \"80%\"").unwrap(), "80%".parse().ok());
        assert_eq!(read("compact_over = 120_000").unwrap(), "120k".parse().ok());
        assert_eq!(read("compact_over = \"off\"").unwrap(), Some(AutoCompaction::Off));
        for wrong in [
            "compact_over = \"much\"",
            "compact_over = true",
            "compact_over = 0",
            "summarizer_cmd = \"x\"",
            "summarizer = \"openai\"",
            "url = \"http://a.example\"",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_project_has_settings_in_the_place_of_the_stores() {
        let config: Config = toml::from_str(
            r#"
            [workspace]
            max_files = 7
            exclude = ["*.iso"]
            [retention]
            max_age = "30d"
            min_keep = 3
            [project."/work"]
            retention.max_age = "9d"
            [project."/work/site"]
            workspace.exclude = []
            retention.thin = true
            [project."git:abc"]
            workspace.max_files = 1
            "#,
        )
        .unwrap();
        let policy = |ids: &[&str], dir: &str| {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let policy = config.workspace_of(&ids, Path::new(dir));
            (policy.max_files, policy.exclude.len())
        };
        assert_eq!(policy(&["git:new", "git:abc"], "/work/site"), (1, 1), "an id goes first");
        assert_eq!(policy(&[], "/work/site"), (7, 0));
        assert_eq!(policy(&[], "/work/site/below"), (7, 0));
        for elsewhere in ["/work", "/work/sites", "/", "/other"] {
            assert_eq!(policy(&["git:new"], elsewhere), (7, 1), "{elsewhere}");
        }
        for wrong in ["retension.thin = true", "retention.max_ages = 1", "journal.x = 1"] {
            let text = format!("[project.\"/work\"]\n{wrong}\n");
            assert!(toml::from_str::<Config>(&text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_store_is_marked_once_and_its_settings_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        assert!(!holds_many_projects(dir.path()), "there is none");
        for text in [TEMPLATE, "", "version = 1\n[retention]\nmax_age = \"3d\"\n"] {
            std::fs::write(&path, text).unwrap();
            let before = Config::read(&Disk, &path).unwrap();
            assert!(!holds_many_projects(dir.path()), "{text}");
            let many = Some(HeldProjects::Many);
            let marked = Config { projects: many, ..before };
            for _ in 0..2 {
                assert_eq!(Config::mark(&Disk, &path).unwrap(), marked);
                assert_eq!(Config::read(&Disk, &path).unwrap(), marked);
                let written = std::fs::read_to_string(&path).unwrap();
                assert_eq!(written.strip_prefix(MARK), Some(text));
                assert!(holds_many_projects(dir.path()));
            }
        }
        std::fs::write(&path, "projects = 'many'\nversion = 1\n").unwrap();
        assert!(holds_many_projects(dir.path()), "as somebody may write it");
        let one = "projects = \"one\"\n";
        std::fs::write(&path, one).unwrap();
        assert_eq!(Config::mark(&Disk, &path).unwrap().projects, Some(HeldProjects::One));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), one, "its owner has said so");
        assert!(!holds_many_projects(dir.path()));
    }

    #[test]
    fn an_unknown_table_is_refused_and_a_newer_version_is_told_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Config::read(&abide_journal::Disk, &path)
        };
        let unknown = read("version = 1\n[retension]\nmax_age = \"30d\"\n").unwrap_err();
        let StoreError::Damaged { reason, .. } = unknown else { panic!("{unknown:?}") };
        assert!(reason.contains("retension"), "{reason}");
        for newer in ["version = 9\n[tomorrow]\nx = 1\n", "version = 9\n"] {
            let newer = read(newer).unwrap_err();
            assert!(matches!(newer, StoreError::NewerVersion { found: 9, .. }), "{newer:?}");
        }
        assert_eq!(read(TEMPLATE).unwrap(), Config::default());
        let larger = TEMPLATE.replace("4194304", "8388608");
        assert_eq!(read(&larger).unwrap().journal.segment_bytes, 8 << 20);
        assert!(matches!(read("version = \n").unwrap_err(), StoreError::Damaged { .. }));
    }
}
