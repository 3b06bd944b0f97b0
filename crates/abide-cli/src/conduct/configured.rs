//! What configuration says about a run: `[agents]` and `[run]` of the user's own file and of the
//! project's `abide.toml`.
//!
//! A project's file may come from anybody. What a run would take from it is shown, and the user is
//! asked once; another text is asked about again.

use std::path::{Path, PathBuf};

use abide::{
    config::{AgentConfig, PROJECT_CONFIG, RunConfig, RunDefaults},
    locate::{StorePlaceError, near_names},
};
use abide_runner::AgentKind;
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::{status, warning};
use crate::confirm::{confirm, on_terminal};
use crate::error::CommandError;

/// What a run asks of the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfigRequest<'a> {
    /// Which agent.
    pub(crate) agent: RequestedAgent<'a>,
    /// Whether `[run]` counts.
    pub(crate) defaults: DefaultsUse,
    /// Whether the project's file counts.
    pub(crate) project: ProjectConfigUse,
    /// `--yes`.
    pub(crate) yes: bool,
}

/// The agent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestedAgent<'a> {
    /// None: there is a command.
    Command,
    /// The one of this name.
    Named(&'a str),
    /// The one that `[run]` names.
    Default,
}

/// Whether `[run]` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultsUse {
    /// It does.
    Used,
    /// It does not: an earlier run has said.
    Unused,
}

/// Whether the project's file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProjectConfigUse {
    /// It does.
    Read,
    /// The user wants it left aside.
    LeftAside,
}

/// What configuration says about a run; the user has accepted it.
#[derive(Debug, Default)]
pub(crate) struct ConfiguredRun {
    pub(crate) agent: Option<AgentConfig>,
    pub(crate) defaults: RunDefaults,
}

/// A configuration file.
#[derive(Debug, Default)]
struct ConfigFile {
    path: PathBuf,
    config: RunConfig,
}

impl ConfiguredRun {
    /// Finds it, and asks about what comes from the project.
    pub(crate) fn find(
        surroundings: &CommandContext,
        request: ConfigRequest<'_>,
    ) -> Result<Self, CommandError> {
        let own = own_config_file(surroundings)?;
        let project = match request.project {
            ProjectConfigUse::Read => project_config_file(surroundings)?,
            ProjectConfigUse::LeftAside => None,
        };
        let (theirs, mine) = match request.defaults {
            DefaultsUse::Used => (
                project.as_ref().map(|file| file.config.run.clone()).unwrap_or_default(),
                own.config.run.clone(),
            ),
            DefaultsUse::Unused => Default::default(),
        };
        let mut lines = Vec::new();
        let named = match request.agent {
            RequestedAgent::Command => None,
            RequestedAgent::Named(name) => Some(name.to_owned()),
            RequestedAgent::Default => theirs.agent.clone().or_else(|| mine.agent.clone()),
        };
        let mut agent = None;
        if let Some(name) = named {
            // The user's own goes first: a project cannot replace it.
            let (file, found) = [Some(&own), project.as_ref()]
                .into_iter()
                .flatten()
                .find_map(|file| Some((file, file.config.agents.get(&name)?)))
                .ok_or_else(|| unknown_agent(&name, &own, project.as_ref()))?;
            check_agent_adapter(&name, found, &file.path)?;
            if !std::ptr::eq(file, &own) {
                lines.extend(found.lines(&name));
            }
            agent = Some(found.clone());
        }
        lines.extend(theirs.lines());
        if let Some(project) = project.filter(|_| !lines.is_empty()) {
            accept_project_config(surroundings, &project.path, &lines, request.yes)?;
        }
        Ok(Self { agent, defaults: theirs.or(mine) })
    }
}

fn own_config_file(surroundings: &CommandContext) -> Result<ConfigFile, CommandError> {
    let Some(path) = surroundings.person.config.clone() else { return Ok(ConfigFile::default()) };
    let config = RunConfig::of_user(&path).map_err(abide::Error::from)?;
    Ok(ConfigFile { path, config })
}

/// The nearest `abide.toml`: in this directory or above it, within this clone.
fn project_config_file(surroundings: &CommandContext) -> Result<Option<ConfigFile>, CommandError> {
    for dir in surroundings.workspaces() {
        let path = dir.join(PROJECT_CONFIG);
        let config = RunConfig::of_project(&path).map_err(config_error)?;
        if let Some(config) = config {
            return Ok(Some(ConfigFile { path, config }));
        }
    }
    Ok(None)
}

/// The project's file is broken; a run can do without it.
fn config_error(error: StorePlaceError) -> CommandError {
    CommandError::from(abide::Error::from(error))
        .with_hint("`--no-project-config` leaves the project's file aside")
}

/// Asks whether what the project's file says may be used, unless it was accepted before.
fn accept_project_config(
    surroundings: &CommandContext,
    path: &Path,
    lines: &[String],
    yes: bool,
) -> Result<(), CommandError> {
    let project = path.parent().unwrap_or(path);
    let text = lines.join("\n");
    if surroundings.consent.is_run_config_accepted(project, &text) {
        return Ok(());
    }
    let shown = path.to_string_lossy();
    status(format_args!(
        "{} says this about runs, and you have not accepted it:",
        escape::text(&shown)
    ));
    for line in lines {
        status(format_args!("  {}", escape::text(line)));
    }
    if !yes && !on_terminal() {
        return Err(CommandError::failed("there is no terminal to ask on; nothing was started")
            .with_hint(
                "`--yes` accepts it as it is shown; `--no-project-config` leaves the file aside",
            ));
    }
    confirm("Use it?", yes, None)?;
    if !surroundings.consent.accept_run_config(project, &text)? {
        warning("there is no place to note that: set HOME or XDG_STATE_HOME; it is asked again");
    }
    Ok(())
}

/// There is no agent of this name; says which ones there are.
fn unknown_agent(name: &str, own: &ConfigFile, project: Option<&ConfigFile>) -> CommandError {
    let files = [Some(own), project].into_iter().flatten();
    let files: Vec<&ConfigFile> = files.filter(|file| !file.config.agents.is_empty()).collect();
    let known = files.iter().flat_map(|file| file.config.agents.keys().map(String::as_str));
    let near = near_names(name, known);
    let near = near.first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    let error = CommandError::failed(format!("there is no agent `{name}`{near}"));
    if files.is_empty() {
        let place = own.path.display();
        return error.with_hint(format!("[agents.{name}] with a `command` in {place} makes one"));
    }
    files.iter().fold(error, |error, file| {
        let names: Vec<&str> = file.config.agents.keys().map(String::as_str).collect();
        error.with_hint(format!("{} has {}", file.path.display(), names.join(", ")))
    })
}

/// Refuses an agent whose output nothing can read.
fn check_agent_adapter(name: &str, agent: &AgentConfig, path: &Path) -> Result<(), CommandError> {
    let Some(adapter) = agent.adapter.as_deref() else { return Ok(()) };
    let known: Vec<&str> = AgentKind::all().map(AgentKind::as_str).collect();
    if known.contains(&adapter) {
        return Ok(());
    }
    let hint = match near_names(adapter, known.iter().copied()).first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    Err(CommandError::failed(format!(
        "{} is invalid: [agents.{name}] in line {} has an unknown adapter `{adapter}`; {hint}",
        path.display(),
        agent.line
    )))
}
