//! What configuration says about a run: `[agents]` and `[run]` of the user's own file and of the
//! project's `abide.toml`.
//!
//! A project's file may come from anybody. What a run would take from it is shown with the directory
//! in which it would run, and the user is asked. The answer holds for exactly that.

use std::path::{Path, PathBuf};

use abide::{
    config::{AgentConfig, PROJECT_CONFIG, ProjectRunTerms, RunConfig, RunDefaults},
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
    /// Where the run works.
    pub(crate) directory: &'a Path,
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
    /// It does not: the run goes on with the options of an earlier one.
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

impl ProjectConfigUse {
    /// By `--no-project-config`.
    pub(crate) const fn of_option(no_project_config: bool) -> Self {
        if no_project_config { Self::LeftAside } else { Self::Read }
    }
}

/// What configuration says about a run; the user has accepted it.
#[derive(Debug, Default)]
pub(crate) struct ConfiguredRun {
    pub(crate) agent: Option<AgentConfig>,
    /// The name of the agent.
    pub(crate) name: Option<String>,
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
        let (mut theirs, mine) = match request.defaults {
            DefaultsUse::Used => (
                project.as_ref().map(|file| file.config.run.clone()).unwrap_or_default(),
                own.config.run.clone(),
            ),
            DefaultsUse::Unused => Default::default(),
        };
        if request.agent != RequestedAgent::Default {
            // The user names the agent, whatever the project prefers.
            theirs.agent = None;
        }
        let name = match request.agent {
            RequestedAgent::Command => None,
            RequestedAgent::Named(name) => Some(name.to_owned()),
            RequestedAgent::Default => theirs.agent.clone().or_else(|| mine.agent.clone()),
        };
        let mut lines = Vec::new();
        let mut chosen = Vec::new();
        let mut agent = None;
        if let Some(name) = &name {
            // The user's own goes first: a project cannot replace it.
            let (file, found) = [Some(&own), project.as_ref()]
                .into_iter()
                .flatten()
                .find_map(|file| Some((file, file.config.agents.get(name)?)))
                .ok_or_else(|| unknown_agent(name, &own, project.as_ref()))?;
            check_agent_adapter(name, found, &file.path)?;
            if !std::ptr::eq(file, &own) {
                lines.extend(found.lines(name));
            } else if theirs.agent.is_some() {
                // The project chooses it. What its name stands for is accepted too.
                chosen.extend(found.lines(name));
            }
            agent = Some(found.clone());
        }
        lines.extend(theirs.lines());
        if let Some(project) = project.filter(|_| !lines.is_empty()) {
            let shown = ShownRunConfig { path: &project.path, lines, own: &own.path, chosen };
            shown.accept(surroundings, request)?;
        }
        Ok(Self { agent, name, defaults: theirs.or(mine) })
    }
}

/// What the user's own configuration says about runs.
pub(crate) fn own_run_config(surroundings: &CommandContext) -> Result<RunConfig, CommandError> {
    own_config_file(surroundings).map(|file| file.config)
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
        .with_hint("`--no-project-config` ignores the project's file")
}

/// What a run would take from a project's file.
struct ShownRunConfig<'a> {
    path: &'a Path,
    lines: Vec<String>,
    /// The user's own file.
    own: &'a Path,
    /// The user's own agent that the project chooses.
    chosen: Vec<String>,
}

impl ShownRunConfig<'_> {
    /// Asks whether it may be used, unless it was accepted before.
    fn accept(
        &self,
        surroundings: &CommandContext,
        request: ConfigRequest<'_>,
    ) -> Result<(), CommandError> {
        let text = [self.lines.join("\n"), self.chosen.join("\n")].join("\n\n");
        let project = self.path.parent().unwrap_or(self.path);
        let terms = ProjectRunTerms { project, directory: request.directory, text: &text };
        if surroundings.consent.is_run_config_accepted(&terms) {
            return Ok(());
        }
        self.show(request.directory);
        if !request.yes && !on_terminal() {
            return Err(CommandError::failed(
                "there is no terminal to ask on; nothing was started",
            )
            .with_hint("`--yes` accepts what is shown; `--no-project-config` ignores the file"));
        }
        confirm("Use it?", request.yes, None)?;
        if !surroundings.consent.accept_run_config(&terms)? {
            warning(
                "your answer cannot be stored, so abide will ask again: set HOME or XDG_STATE_HOME",
            );
        }
        Ok(())
    }

    fn show(&self, directory: &Path) {
        let path = |path: &Path| escape::text(&path.to_string_lossy()).into_owned();
        let show = |lines: &[String]| {
            for line in lines {
                status(format_args!("  {}", escape::text(line)));
            }
        };
        status(format_args!("You have not yet accepted what {} says about runs:", path(self.path)));
        show(&self.lines);
        if !self.chosen.is_empty() {
            status(format_args!("It chooses this agent of {}:", path(self.own)));
            show(&self.chosen);
        }
        status(format_args!("It would run in {}", path(directory)));
    }
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
        return error.with_hint(format!("define it in {place}: [agents.{name}] with a `command`"));
    }
    files.iter().fold(error, |error, file| {
        let names: Vec<&str> = file.config.agents.keys().map(String::as_str).collect();
        error.with_hint(format!("{} defines {}", file.path.display(), names.join(", ")))
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
        None => format!("the adapters are {}", known.join(", ")),
    };
    Err(CommandError::failed(format!(
        "{} is invalid: [agents.{name}] in line {} has an unknown adapter `{adapter}`; {hint}",
        path.display(),
        agent.line
    )))
}
