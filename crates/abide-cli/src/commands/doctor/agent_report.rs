//! How it stands with the agents, as `abide doctor` tells it.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use abide::Timestamp;
use abide_hooks::{AgentCondition, PluginHost, PluginState, TrustState, last_heard};
use abide_transcript::escape;
use serde::Serialize;

use crate::clock::local_clock;

/// An agent.
#[derive(Debug, Serialize)]
pub(super) struct AgentReport {
    agent: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    trusted: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    projects: Vec<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_heard: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// The agents that are there, or that have something of abide's.
pub(super) fn agent_reports(host: &PluginHost, stores: &[PathBuf]) -> Vec<AgentReport> {
    host.conditions().into_iter().map(|condition| AgentReport::of(condition, stores)).collect()
}

impl AgentReport {
    fn of(condition: AgentCondition, stores: &[PathBuf]) -> Self {
        let advice = agent_advice(&condition);
        let name = condition.agent.as_str();
        let heard = stores.iter().filter_map(|store| last_heard(store, name)).max();
        Self {
            agent: name,
            version: condition.version,
            state: match condition.state {
                PluginState::Absent => "not_enabled",
                PluginState::Partial => "incomplete",
                PluginState::Installed => "enabled",
            },
            trusted: condition.trust.and_then(|trust| match trust {
                TrustState::Trusted => Some(true),
                TrustState::Untrusted => Some(false),
                TrustState::Unknown(_) => None,
            }),
            projects: condition.projects,
            last_heard: heard.map(timestamp_of),
            advice,
        }
    }

    /// Something of abide's is in it.
    pub(super) fn has_plugin(&self) -> bool {
        self.state != "not_enabled" || !self.projects.is_empty()
    }

    /// One line for people.
    pub(super) fn line(&self) -> String {
        let mut line = format!("  {}", self.agent);
        if let Some(version) = &self.version {
            line.push_str(&format!(" {version}"));
        }
        line.push_str(&format!(": {}", self.state.replace('_', " ")));
        match self.trusted {
            Some(true) => line.push_str(", trusted"),
            Some(false) => line.push_str(", not trusted"),
            None => {}
        }
        if let [project, others @ ..] = self.projects.as_slice() {
            line.push_str(&format!(", in {}", project.display()));
            if !others.is_empty() {
                line.push_str(&format!(" and {} more", others.len()));
            }
        }
        match self.last_heard {
            Some(heard) => line.push_str(&format!(", last heard {}", local_clock(heard))),
            None if self.state == "enabled" => line.push_str(", nothing heard yet"),
            None => {}
        }
        if let Some(advice) = &self.advice {
            line.push_str(&format!("; {advice}"));
        }
        escape::text(&line).into_owned()
    }
}

/// What a person can do about it.
fn agent_advice(condition: &AgentCondition) -> Option<String> {
    let agent = condition.agent;
    if let Some(problem) = &condition.problem {
        return Some(problem.clone());
    }
    if condition.program.is_none() {
        return Some(format!("its program is not in PATH; `abide disable {agent}` cleans up"));
    }
    if let Some(program) = &condition.lost_program {
        return Some(format!("its hooks start {program}, which is gone: `abide enable {agent}`"));
    }
    match (condition.state, &condition.trust) {
        (PluginState::Absent, _) if !condition.projects.is_empty() => None,
        (PluginState::Absent | PluginState::Partial, _) => Some(format!("`abide enable {agent}`")),
        (_, Some(TrustState::Untrusted)) => {
            let by_hand = PluginHost::trust_by_hand(agent).unwrap_or_default();
            Some(format!("{by_hand}, or run `abide enable {agent} --trust`"))
        }
        (_, Some(TrustState::Unknown(reason))) => Some(reason.clone()),
        _ => None,
    }
}

fn timestamp_of(at: SystemTime) -> Timestamp {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
