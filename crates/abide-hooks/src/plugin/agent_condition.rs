//! How it stands with agents: is the plugin there, does the agent run its hooks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_agents::{AgentKind, HookApproval, HookTrust};

use super::agent_program::is_program;
use super::agent_version::agent_version;
use super::plugin_error::PluginError;
use super::plugin_host::{PluginHost, parts_at, plugin_of};
use super::settings_file::read_text;
use super::settings_place::{is_marked, is_present};
use super::trust_dialog::TrustDialog;

/// How long an agent may take to say which hooks it runs, where a person waits for that alone.
const TRUST_LIMIT: Duration = Duration::from_secs(10);
/// The same, where it is one of many things that are looked at.
const CONDITION_LIMIT: Duration = Duration::from_secs(3);

/// Whether a plugin is in an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginState {
    /// Nothing of it is there.
    Absent,
    /// A part of it is there, or it is not as it should be.
    Partial,
    /// It is there.
    Installed,
}

/// Whether an agent runs the hooks of abide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustState {
    /// It runs them all.
    Trusted,
    /// It passes over some until a person trusts them.
    Untrusted,
    /// It did not say.
    Unknown(String),
}

/// How it stands with an agent.
#[derive(Debug, Clone)]
pub struct AgentCondition {
    /// The agent.
    pub agent: AgentKind,
    /// Its program, if it is there.
    pub program: Option<PathBuf>,
    /// Its version, if its files tell.
    pub version: Option<String>,
    /// For all projects.
    pub state: PluginState,
    /// The projects that abide was put into alone.
    pub projects: Vec<PathBuf>,
    /// Whether it runs the hooks, where that is a person's choice and they are there.
    pub trust: Option<TrustState>,
    /// The program that the hooks start, if it is not there any more.
    pub lost_program: Option<String>,
    /// Why not all of this could be told.
    pub problem: Option<String>,
}

impl PluginHost {
    /// The hooks of abide that an agent passes over until a person trusts them; `None` where it needs no
    /// trust.
    pub fn hooks_to_trust(
        &self,
        agent: AgentKind,
    ) -> Result<Option<Vec<HookApproval>>, PluginError> {
        self.hooks_within(agent, TRUST_LIMIT)
    }

    fn hooks_within(
        &self,
        agent: AgentKind,
        limit: Duration,
    ) -> Result<Option<Vec<HookApproval>>, PluginError> {
        let Some(trust) = plugin_of(agent)?.trust.as_ref() else { return Ok(None) };
        let program = self.record(agent)?.map_or_else(|| self.own_program(), |one| one.program);
        let mut noted = true;
        for mark in (trust.marks)(&self.site(agent, None, program)?) {
            noted &= is_marked(&mark)?;
        }
        if noted {
            return Ok(Some(Vec::new()));
        }
        let told = self.trust_dialog(agent, trust, limit)?.hooks().and_then(|hooks| {
            match hooks.as_slice() {
                [] => Err("it knows no hook of abide".to_owned()),
                _ => Ok(hooks.into_iter().filter(|hook| !hook.trusted).collect()),
            }
        });
        told.map(Some)
            .map_err(|reason| PluginError::NotTrusted { agent: agent.to_string(), reason })
    }

    /// Do these hooks start abide as it was put in, and nothing else? Asked where nobody looks at them.
    pub fn check_commands(
        &self,
        agent: AgentKind,
        hooks: &[HookApproval],
    ) -> Result<(), PluginError> {
        let Some(trust) = plugin_of(agent)?.trust.as_ref() else { return Ok(()) };
        let program = self.record(agent)?.map_or_else(|| self.own_program(), |one| one.program);
        let command = (trust.command)(&self.site(agent, None, program)?);
        match hooks.iter().find(|hook| hook.command != command) {
            None => Ok(()),
            Some(other) => Err(PluginError::NotTrusted {
                agent: agent.to_string(),
                reason: format!("{} starts `{}`, not `{command}`", other.event, other.command),
            }),
        }
    }

    /// Tells an agent that the person trusts these hooks, as they were shown.
    pub fn trust(&self, agent: AgentKind, shown: &[HookApproval]) -> Result<(), PluginError> {
        let Some(trust) = plugin_of(agent)?.trust.as_ref() else { return Ok(()) };
        let mut dialog = self.trust_dialog(agent, trust, TRUST_LIMIT)?;
        let told = dialog.hooks().and_then(|now| {
            let same = |hook: &HookApproval| {
                shown.iter().any(|one| (&one.key, &one.hash) == (&hook.key, &hook.hash))
            };
            let agreed: Vec<HookApproval> = now.into_iter().filter(same).collect();
            if agreed.len() < shown.len() {
                return Err("its hooks are not those that were shown any more".to_owned());
            }
            dialog.approve(&agreed)
        });
        told.map_err(|reason| PluginError::NotTrusted { agent: agent.to_string(), reason })
    }

    /// What a person does in the agent to trust the hooks; `None` where it needs no trust.
    #[must_use]
    pub fn trust_by_hand(agent: AgentKind) -> Option<&'static str> {
        Some(agent.hooks()?.plugin.trust.as_ref()?.by_hand)
    }

    fn trust_dialog<'a>(
        &self,
        agent: AgentKind,
        trust: &'a HookTrust,
        limit: Duration,
    ) -> Result<TrustDialog<'a>, PluginError> {
        let program = self.program_of(agent);
        let program = program
            .ok_or_else(|| PluginError::NoProgram { program: agent.program().to_owned() })?;
        let limit = self.limit.min(limit);
        TrustDialog::start(trust, &program, &self.home, limit).map_err(|source| {
            PluginError::NotStarted { command: agent.program().to_owned(), source }
        })
    }

    /// How it stands with every agent that is there, or that has something of abide's.
    #[must_use]
    pub fn conditions(&self) -> Vec<AgentCondition> {
        Self::agents().filter_map(|agent| self.condition(agent)).collect()
    }

    fn condition(&self, agent: AgentKind) -> Option<AgentCondition> {
        let program = self.program_of(agent);
        let mut problem = None;
        let mut noted = |error: PluginError| problem = Some(full_reason(&error));
        let record = self.record(agent).map_err(&mut noted).unwrap_or_default();
        let projects = self.projects_of(agent).unwrap_or_default();
        let state = self.state(agent, None).map_err(&mut noted).unwrap_or(PluginState::Partial);
        if program.is_none() && record.is_none() && state == PluginState::Absent {
            return None;
        }
        let lost = record.as_ref().map(|record| record.program.clone());
        Some(AgentCondition {
            agent,
            version: program.as_deref().and_then(agent_version),
            trust: self.trust_state(agent, state, program.as_deref()),
            program,
            state,
            projects,
            lost_program: lost.filter(|program| !is_program(Path::new(program))),
            problem,
        })
    }

    fn trust_state(
        &self,
        agent: AgentKind,
        state: PluginState,
        program: Option<&Path>,
    ) -> Option<TrustState> {
        let program = program.filter(|_| state == PluginState::Installed)?;
        plugin_of(agent).ok()?.trust.as_ref()?;
        // What is checked out from somewhere may put a program of its own before the agent's.
        if self.checkout.as_ref().is_some_and(|checkout| program.starts_with(checkout)) {
            let reason = format!("{} is in this checkout, and was not asked", program.display());
            return Some(TrustState::Unknown(reason));
        }
        match self.hooks_within(agent, CONDITION_LIMIT) {
            Ok(hooks) => hooks.map(|hooks| {
                if hooks.is_empty() { TrustState::Trusted } else { TrustState::Untrusted }
            }),
            Err(error) => Some(TrustState::Unknown(full_reason(&error))),
        }
    }

    /// Is the plugin in this agent?
    pub fn state(
        &self,
        agent: AgentKind,
        project: Option<&Path>,
    ) -> Result<PluginState, PluginError> {
        let record = self.record(agent)?;
        let program = record.as_ref().map(|record| record.program.clone());
        let program = program.unwrap_or_else(|| self.own_program());
        let site = self.site(agent, project, program)?;
        let parts = parts_at(agent, &site)?;
        let mut complete = true;
        for file in &parts.files {
            complete &= read_text(&file.path)?.as_ref() == Some(&file.text);
        }
        for mark in &parts.marks {
            complete &= is_marked(mark)?;
        }
        if complete {
            return Ok(PluginState::Installed);
        }
        for place in &parts.own {
            if is_present(place)? {
                return Ok(PluginState::Partial);
            }
        }
        let begun = record.is_some_and(|record| record.has(&site));
        Ok(if begun { PluginState::Partial } else { PluginState::Absent })
    }
}

/// An error with its causes, on one line.
fn full_reason(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |reason, cause| format!("{reason}: {cause}"))
}
