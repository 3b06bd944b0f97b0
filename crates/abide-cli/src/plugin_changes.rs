//! Puts abide into agents or takes it out: what both commands have in common.

use std::path::{Path, PathBuf};

use abide_hooks::{PluginError, PluginHost, PluginPlan};
use abide_runner::AgentKind;
use abide_transcript::escape;
use clap::builder::PossibleValuesParser;
use serde::Serialize;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::confirm::{ask_line, confirm, on_terminal, unconfirmed_json_text};
use crate::error::{CommandError, on_one_line};

/// What is done to agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PluginChange {
    /// abide is put into them.
    Enable(HookTrustChoice),
    /// It is taken out.
    Disable,
}

/// Whether the person is asked to trust the hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookTrustChoice {
    /// Asked, where there is a terminal.
    Asked,
    /// Given with the command.
    Given,
}

/// Which agents are changed, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct PluginChangeArgs {
    /// The agents [default: all that are there]
    #[arg(value_name = "AGENT", value_parser = agent_names())]
    agents: Vec<String>,
    /// Only in the settings of this project
    #[arg(long)]
    project: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Proceed without asking
    #[arg(short, long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// An agent with what is to be done to it, or why nothing can be done.
struct PlannedAgent {
    agent: AgentKind,
    /// The project alone that it is for; `None` for all projects.
    project: Option<PathBuf>,
    plan: Result<PluginPlan, PluginError>,
    /// Whether it runs the hooks, where that is a person's choice.
    trusted: Option<bool>,
}

/// An agent in the JSON answer.
#[derive(Debug, Serialize)]
struct ChangedAgent<'a> {
    agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<&'a Path>,
    steps: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trusted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_hand: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn agent_names() -> PossibleValuesParser {
    PossibleValuesParser::new(PluginHost::agents().map(AgentKind::as_str))
}

/// The plugins of this person.
pub(crate) fn plugin_host(surroundings: &CommandContext) -> Result<PluginHost, CommandError> {
    let person = &surroundings.person;
    let (Some(home), Some(data)) = (&person.home, &person.data) else {
        return Err(CommandError::failed("there is no home directory"));
    };
    let program = std::env::current_exe()?;
    Ok(PluginHost::new(home, data, &program, |name| std::env::var_os(name)))
}

impl PluginChangeArgs {
    /// Plans, shows, asks, and does it to each agent, whatever becomes of the others.
    pub(crate) fn run(
        self,
        change: PluginChange,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        if self.json && !self.yes && !self.dry_run {
            return Err(CommandError::Usage(unconfirmed_json_text()));
        }
        let host = plugin_host(surroundings)?;
        let project = self.project.then(|| {
            let root = surroundings.workspaces().pop();
            root.unwrap_or_else(|| surroundings.current_dir.clone())
        });
        let mut agents = self.plan(change, &host, project.as_deref())?;
        if !self.json {
            show_plans(change, &agents)?;
        }
        if !self.dry_run {
            let is_idle =
                |one: &PlannedAgent| one.plan.as_ref().map_or(true, |plan| plan.steps.is_empty());
            if !agents.iter().all(is_idle) {
                let question = match change {
                    PluginChange::Enable(_) => "Enable?",
                    PluginChange::Disable => "Disable?",
                };
                confirm(question, self.yes, None)?;
            }
            for one in &mut agents {
                self.apply(change, &host, one)?;
            }
        }
        self.end(&agents)
    }

    /// The agents that are named, else those that are there.
    fn plan(
        &self,
        change: PluginChange,
        host: &PluginHost,
        project: Option<&Path>,
    ) -> Result<Vec<PlannedAgent>, CommandError> {
        let mut planned = Vec::new();
        for agent in PluginHost::agents() {
            let is_named = self.agents.iter().any(|name| name == agent.as_str());
            if !is_named && !self.agents.is_empty() {
                continue;
            }
            let mut places = vec![project.map(Path::to_owned)];
            if change == PluginChange::Disable && project.is_none() {
                // Out of every project, too.
                let projects = host.projects_of(agent).unwrap_or_default();
                places.extend(projects.into_iter().map(Some));
            }
            for place in places {
                let plan = match change {
                    PluginChange::Enable(_) => host.plan_enable(agent, place.as_deref()),
                    PluginChange::Disable => host.plan_disable(agent, place.as_deref()),
                };
                let one = PlannedAgent { agent, project: place, plan, trusted: None };
                if is_named || one.is_worth_naming(change) {
                    planned.push(one);
                } else if let (Err(error @ PluginError::NoProject { .. }), false) =
                    (&one.plan, self.json)
                    && change != PluginChange::Disable
                    && host.program_of(agent).is_some()
                {
                    warning(error);
                }
            }
        }
        if planned.is_empty() {
            match change {
                PluginChange::Enable(_) => {
                    let names: Vec<_> = PluginHost::agents().map(AgentKind::program).collect();
                    let what = format!("none of the agents is installed: {}", names.join(", "));
                    return Err(CommandError::failed(what));
                }
                PluginChange::Disable if self.json => {}
                PluginChange::Disable => status("abide is not in any agent"),
            }
        }
        Ok(planned)
    }

    fn apply(
        &self,
        change: PluginChange,
        host: &PluginHost,
        one: &mut PlannedAgent,
    ) -> Result<(), CommandError> {
        let Ok(plan) = &one.plan else { return Ok(()) };
        let is_idle = plan.steps.is_empty();
        if let Err(error) = host.apply(plan) {
            one.plan = Err(error);
            return Ok(());
        }
        let done = match change {
            PluginChange::Enable(_) => "enabled",
            PluginChange::Disable => "disabled",
        };
        if !self.json && !is_idle {
            status(format_args!("{}: {done}", one.name()));
        }
        if let PluginChange::Enable(trust) = change
            && one.project.is_none()
        {
            match self.trust(trust, host, one.agent) {
                Ok(trusted) => one.trusted = trusted,
                Err(TrustRefusal::Command(error)) => return Err(error),
                Err(TrustRefusal::Agent(error)) => one.plan = Err(error),
            }
        }
        Ok(())
    }

    /// Asks for the trust that an agent needs. Whether it runs the hooks; `None` where that is no
    /// question.
    fn trust(
        &self,
        choice: HookTrustChoice,
        host: &PluginHost,
        agent: AgentKind,
    ) -> Result<Option<bool>, TrustRefusal> {
        let Some(hooks) = host.hooks_to_trust(agent)? else { return Ok(None) };
        if hooks.is_empty() {
            return Ok(Some(true));
        }
        if !self.json {
            status(format_args!("{agent} runs these hooks only if you trust them:"));
            for hook in &hooks {
                let off = if hook.switched_off { " (switched off)" } else { "" };
                let line = format!("  {}: {}{off}", hook.event, hook.command);
                status(escape::text(&line));
            }
        }
        let agreed = match choice {
            HookTrustChoice::Given => true,
            HookTrustChoice::Asked if self.yes || self.json || !on_terminal() => false,
            HookTrustChoice::Asked => {
                let answer = ask_line("Trust them? [y/N] ", None)?;
                matches!(answer.to_lowercase().as_str(), "y" | "yes")
            }
        };
        if agreed {
            if choice == HookTrustChoice::Given {
                host.check_commands(agent, &hooks)?;
            }
            host.trust(agent, &hooks)?;
            if !self.json {
                status(format_args!("{agent}: trusted"));
            }
        } else if let (Some(by_hand), false) = (PluginHost::trust_by_hand(agent), self.json) {
            warning(format_args!(
                "{agent} does not run the hooks until you trust them: {by_hand}, or run `abide enable \
                 {agent} --trust`"
            ));
        }
        Ok(Some(agreed))
    }

    /// Says which agents failed, and prints the answer for programs.
    fn end(&self, agents: &[PlannedAgent]) -> Result<(), CommandError> {
        let failed = agents.iter().any(|one| one.plan.is_err());
        if self.json {
            let wire: Vec<ChangedAgent<'_>> = agents.iter().map(PlannedAgent::changed).collect();
            let mut out = CommandOutput::stdout();
            let wire = serde_json::json!({"dry_run": self.dry_run, "agents": wire});
            out.json(&wire.to_string())?;
            out.flush()?;
        } else {
            for one in agents {
                if let Err(error) = &one.plan {
                    warning(format_args!("{}: {}", one.name(), escape::text(&on_one_line(error))));
                }
            }
        }
        if failed { Err(CommandError::Reported) } else { Ok(()) }
    }
}

/// Why nobody knows whether an agent trusts the hooks.
enum TrustRefusal {
    /// The command ends.
    Command(CommandError),
    /// The agent failed.
    Agent(PluginError),
}

impl From<PluginError> for TrustRefusal {
    fn from(error: PluginError) -> Self {
        Self::Agent(error)
    }
}

impl From<CommandError> for TrustRefusal {
    fn from(error: CommandError) -> Self {
        Self::Command(error)
    }
}

impl PlannedAgent {
    /// Of the agents that nobody named: not those that are not there, that cannot do it for a project, or
    /// that have nothing to be taken out.
    fn is_worth_naming(&self, change: PluginChange) -> bool {
        match &self.plan {
            Err(PluginError::NoProgram { .. } | PluginError::NoProject { .. }) => false,
            Ok(plan) => change != PluginChange::Disable || !plan.steps.is_empty(),
            Err(_) => true,
        }
    }

    /// The agent, and the project if it is for one alone.
    fn name(&self) -> String {
        let project = self.project.as_ref().map(|project| format!(" in {}", project.display()));
        escape::text(&format!("{}{}", self.agent, project.unwrap_or_default())).into_owned()
    }

    fn changed(&self) -> ChangedAgent<'_> {
        let steps = self.plan.iter().flat_map(|plan| &plan.steps).map(ToString::to_string);
        let by_hand = PluginHost::trust_by_hand(self.agent);
        ChangedAgent {
            agent: self.agent.as_str(),
            project: self.project.as_deref(),
            steps: steps.collect(),
            trusted: self.trusted,
            by_hand: by_hand.filter(|_| self.trusted == Some(false)),
            error: self.plan.as_ref().err().map(|error| on_one_line(error)),
        }
    }
}

/// What is about to be done, agent by agent.
fn show_plans(change: PluginChange, agents: &[PlannedAgent]) -> Result<(), CommandError> {
    let mut out = CommandOutput::stdout();
    for one in agents {
        let Ok(plan) = &one.plan else { continue };
        if plan.steps.is_empty() {
            let already = match change {
                PluginChange::Enable(_) => "enabled already",
                PluginChange::Disable => "not enabled",
            };
            out.line(format_args!("{}: {already}", one.name()))?;
            continue;
        }
        out.line(format_args!("{}:", one.name()))?;
        for step in &plan.steps {
            out.line(format_args!("  {}", escape::text(&step.to_string())))?;
        }
    }
    out.flush()
}
