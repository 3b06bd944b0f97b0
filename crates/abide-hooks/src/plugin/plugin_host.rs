//! The plugins of abide on this machine, for one person.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use abide_agents::{AgentKind, AgentPlugin, PluginParts, PluginPlace, PluginSite};

use super::agent_program::{find_program, is_program, run_program};
use super::plugin_checks::{check_paths, check_signs};
use super::plugin_error::PluginError;
use super::plugin_lock::{lock_stdin, take_lock};
use super::plugin_plan::{PluginGoal, PluginPlan, PluginStep};
use super::plugin_record::PluginRecord;
use super::settings_file::{has_temporary, read_text, remove_temporary, write_file};
use super::settings_place::{
    is_marked, is_present, mark_name, place_name, remove_if_empty, remove_place,
};

/// How long a command of an agent may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// A variable of the environment, by its name.
type VariableFn = dyn Fn(&str) -> Option<OsString>;

/// The plugins of abide in the agents of one person.
pub struct PluginHost {
    pub(super) home: PathBuf,
    /// Where abide keeps what agents read in place, and its records.
    plugins: PathBuf,
    /// This program.
    program: PathBuf,
    variable: Box<VariableFn>,
    pub(super) limit: Duration,
    /// No program in here is started to look how an agent is.
    pub(super) checkout: Option<PathBuf>,
}

impl fmt::Debug for PluginHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PluginHost").field("plugins", &self.plugins).finish_non_exhaustive()
    }
}

impl PluginHost {
    /// The plugins of the person with this home and this directory of abide's data. `program` is the
    /// running one.
    #[must_use]
    pub fn new(
        home: &Path,
        data: &Path,
        program: &Path,
        variable: impl Fn(&str) -> Option<OsString> + 'static,
    ) -> Self {
        Self {
            home: home.to_owned(),
            plugins: data.join("plugins"),
            program: program.to_owned(),
            variable: Box::new(variable),
            limit: COMMAND_LIMIT,
            checkout: None,
        }
    }

    /// The same, where a command of an agent may take this long.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// The same, where [`conditions`](Self::conditions) starts no program of this checkout. One around the
    /// whole home is none.
    #[must_use]
    pub fn with_checkout(self, checkout: &Path) -> Self {
        let checkout = Some(checkout.to_owned()).filter(|root| !self.home.starts_with(root));
        Self { checkout, ..self }
    }

    /// The agents that abide can be put into.
    pub fn agents() -> impl Iterator<Item = AgentKind> {
        AgentKind::all().filter(|agent| agent.hooks().is_some())
    }

    /// The program of an agent, if it is there.
    #[must_use]
    pub fn program_of(&self, agent: AgentKind) -> Option<PathBuf> {
        find_program(&self.search(), agent.program())
    }

    /// The projects that abide was put into alone.
    pub fn projects_of(&self, agent: AgentKind) -> Result<Vec<PathBuf>, PluginError> {
        let config = self.site(agent, None, String::new())?.config;
        let record = self.record(agent)?;
        let own = record.as_ref().and_then(|record| record.site(&config));
        Ok(own.map(|own| own.projects.clone()).unwrap_or_default())
    }

    /// What is to be done to put abide into an agent.
    pub fn plan_enable(
        &self,
        agent: AgentKind,
        project: Option<&Path>,
    ) -> Result<PluginPlan, PluginError> {
        let found = self.program_of(agent);
        let program =
            found.ok_or_else(|| PluginError::NoProgram { program: agent.program().to_owned() })?;
        let site = self.site(agent, project, self.frozen_program(agent)?)?;
        let parts = parts_at(agent, &site)?;
        check_paths(&site, &parts)?;
        check_signs(self.record(agent)?.as_ref(), &site, &parts)?;
        for place in parts.own.iter().chain(&parts.emptied) {
            // Settings that cannot be read are named before anything is written.
            is_present(place)?;
        }
        let mut steps = Vec::new();
        for file in &parts.files {
            if read_text(&file.path)?.as_ref() != Some(&file.text) {
                steps.push(PluginStep::Write(file.path.clone()));
            }
        }
        let (mut complete, mut stale) = (true, false);
        for mark in &parts.marks {
            complete &= is_marked(mark)?;
            stale |= is_stale(mark)?;
        }
        let run = |arguments: &Vec<String>| PluginStep::Run {
            program: program.clone(),
            arguments: arguments.clone(),
        };
        if stale {
            let removals = needed_removals(&parts, true)?;
            steps.extend(removals.into_iter().map(run));
        }
        if !complete {
            steps.extend(parts.install.iter().map(run));
        }
        let goal = PluginGoal::Enable;
        Ok(PluginPlan { agent, steps, goal, site, parts, program: Some(program) })
    }

    /// What is to be done to take abide out of an agent.
    pub fn plan_disable(
        &self,
        agent: AgentKind,
        project: Option<&Path>,
    ) -> Result<PluginPlan, PluginError> {
        let record = self.record(agent)?;
        let program = record.as_ref().map_or_else(String::new, |record| record.program.clone());
        let site = self.site(agent, project, program)?;
        let parts = parts_at(agent, &site)?;
        check_paths(&site, &parts)?;
        check_signs(record.as_ref(), &site, &parts)?;
        let found = self.program_of(agent);
        let removals = needed_removals(&parts, is_last(record.as_ref(), &site))?;
        let mut steps = Vec::new();
        if let Some(program) = &found {
            steps.extend(removals.iter().map(|&arguments| PluginStep::Run {
                program: program.clone(),
                arguments: arguments.clone(),
            }));
        }
        let by_agent: Vec<&PluginPlace> = match found {
            Some(_) => {
                let run = parts.remove.iter().filter(|one| removals.contains(&&one.arguments));
                run.flat_map(|removal| &removal.needed).collect()
            }
            None => Vec::new(),
        };
        let left = self.last_parts(agent, &site, record.as_ref(), &parts)?;
        for place in left.own.iter().filter(|place| !by_agent.contains(place)) {
            if is_present(place)? {
                steps.push(PluginStep::Remove(place_name(place)));
            }
        }
        let goal = PluginGoal::Disable;
        // A record alone is what a killed command left.
        let path = self.record_path(agent);
        let begun = record.as_ref().is_some_and(|record| record.has(&site));
        if steps.is_empty() && (begun || record.is_none() && has_temporary(&path)) {
            steps.push(PluginStep::Remove(path.display().to_string()));
        }
        Ok(PluginPlan { agent, steps, goal, site, parts, program: found })
    }

    /// Carries out a plan. It can be repeated, wherever it was killed.
    pub fn apply(&self, plan: &PluginPlan) -> Result<(), PluginError> {
        if plan.steps.is_empty() {
            return Ok(());
        }
        fs::create_dir_all(&self.plugins).map_err(PluginError::at(&self.plugins))?;
        let lock = self.plugins.join(".lock");
        let held = take_lock(&lock, self.limit)?;
        check_paths(&plan.site, &plan.parts)?;
        match plan.goal {
            PluginGoal::Enable => self.enable(plan, &held),
            PluginGoal::Disable => self.disable(plan, &held),
        }
    }

    fn enable(&self, plan: &PluginPlan, held: &File) -> Result<(), PluginError> {
        let mut record = self.record(plan.agent)?.unwrap_or_default();
        record.program.clone_from(&plan.site.program);
        if !record.has(&plan.site) {
            let parts = self.last_parts(plan.agent, &plan.site, None, &plan.parts)?;
            let mut absent = Vec::new();
            for place in &parts.emptied {
                if !is_present(place)? {
                    absent.push(place_name(place));
                }
            }
            record.add(&plan.site, absent);
        }
        record.write(&self.record_path(plan.agent))?;
        for file in &plan.parts.files {
            if read_text(&file.path)?.as_ref() != Some(&file.text) {
                write_file(&file.path, &file.text)?;
            }
        }
        for step in &plan.steps {
            if let PluginStep::Run { program, arguments } = step {
                let directory = self.directory(&plan.site);
                run_program(program, arguments, directory, self.limit, lock_stdin(held)?)?;
            }
        }
        for mark in &plan.parts.marks {
            if !is_marked(mark)? {
                let (agent, missing) = (plan.agent.to_string(), mark_name(mark));
                return Err(PluginError::NotInstalled { agent, missing });
            }
        }
        Ok(())
    }

    fn disable(&self, plan: &PluginPlan, held: &File) -> Result<(), PluginError> {
        let record = self.record(plan.agent)?;
        if let Some(program) = &plan.program {
            let last = is_last(record.as_ref(), &plan.site);
            for arguments in needed_removals(&plan.parts, last)? {
                // What the agent does not remove is removed below, and nothing else matters.
                let directory = self.directory(&plan.site);
                let _ = run_program(program, arguments, directory, self.limit, lock_stdin(held)?);
            }
        }
        let parts = self.last_parts(plan.agent, &plan.site, record.as_ref(), &plan.parts)?;
        for place in &parts.own {
            remove_place(place)?;
        }
        let own = record.as_ref().and_then(|record| record.site(&plan.site.config));
        let absent = own.map(|own| own.absent.as_slice()).unwrap_or_default();
        for place in parts.emptied.iter().filter(|place| absent.contains(&place_name(place))) {
            remove_if_empty(place)?;
        }
        for file in &plan.parts.files {
            remove_temporary(&file.path);
        }
        let path = self.record_path(plan.agent);
        let Some(mut record) = record else { return PluginRecord::remove(&path) };
        record.take_out(&plan.site);
        if record.is_nowhere() { PluginRecord::remove(&path) } else { record.write(&path) }
    }

    /// The parts that go when abide is taken out here: with what all projects share, if it is the last
    /// place that it was put into.
    fn last_parts(
        &self,
        agent: AgentKind,
        site: &PluginSite,
        record: Option<&PluginRecord>,
        parts: &PluginParts,
    ) -> Result<PluginParts, PluginError> {
        let mut left = parts.clone();
        if !is_last(record, site) {
            left.shared.clear();
            return Ok(left);
        }
        if site.project.is_some() {
            let whole = parts_at(agent, &PluginSite { project: None, ..site.clone() })?;
            left.shared.extend(whole.shared);
            left.emptied.extend(whole.emptied);
        }
        left.own.append(&mut left.shared);
        // Other directories of settings may name it.
        if after_removal(record, site).is_nowhere() {
            left.own.push(PluginPlace::Directory(site.own.clone()));
        }
        Ok(left)
    }

    fn search(&self) -> OsString {
        (self.variable)("PATH").unwrap_or_default()
    }

    fn record_path(&self, agent: AgentKind) -> PathBuf {
        self.plugins.join(format!("{agent}.json"))
    }

    pub(super) fn record(&self, agent: AgentKind) -> Result<Option<PluginRecord>, PluginError> {
        PluginRecord::read(&self.record_path(agent))
    }

    /// Where commands of the agent are run: a project's settings are those of the directory.
    fn directory<'a>(&'a self, site: &'a PluginSite) -> &'a Path {
        site.project.as_deref().unwrap_or(&self.plugins)
    }

    pub(super) fn site(
        &self,
        agent: AgentKind,
        project: Option<&Path>,
        program: String,
    ) -> Result<PluginSite, PluginError> {
        let plugin = plugin_of(agent)?;
        let config = (plugin.config)(&*self.variable, &self.home);
        Ok(PluginSite {
            // Not where the next command happens to be started.
            config: std::path::absolute(&config).unwrap_or(config),
            own: self.plugins.join(agent.as_str()),
            project: project.map(Path::to_owned),
            program,
        })
    }

    /// The program that the hooks start: the one that they start already, while it is there.
    fn frozen_program(&self, agent: AgentKind) -> Result<String, PluginError> {
        let before = self.record(agent)?.map(|record| record.program);
        let still = before.filter(|program| self.is_abide(Path::new(program)));
        Ok(still.unwrap_or_else(|| self.own_program()))
    }

    /// This program: by the name under which a shell finds it, if that is this one, so that an update
    /// that puts another in its place changes no hook.
    pub(super) fn own_program(&self) -> String {
        let by_name = find_program(&self.search(), "abide");
        let chosen = by_name.filter(|found| is_same_file(found, &self.program));
        chosen.as_ref().unwrap_or(&self.program).to_string_lossy().into_owned()
    }

    fn is_abide(&self, program: &Path) -> bool {
        let says_so = || {
            let arguments = ["--version".to_owned()];
            let said = run_program(program, &arguments, &self.home, self.limit, Stdio::null());
            said.is_ok_and(|said| said.starts_with("abide "))
        };
        is_program(program) && (is_same_file(program, &self.program) || says_so())
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| Some(one) == real(other))
}

pub(super) fn plugin_of(agent: AgentKind) -> Result<&'static AgentPlugin, PluginError> {
    let hooks = agent.hooks();
    hooks
        .map(|hooks| &hooks.plugin)
        .ok_or_else(|| PluginError::NoPlugin { agent: agent.to_string() })
}

pub(super) fn parts_at(agent: AgentKind, site: &PluginSite) -> Result<PluginParts, PluginError> {
    let parts = (plugin_of(agent)?.parts)(site);
    parts.ok_or_else(|| PluginError::NoProject { agent: agent.to_string() })
}

/// Will abide be nowhere in this directory of the agent's settings once it is taken out there?
fn is_last(record: Option<&PluginRecord>, site: &PluginSite) -> bool {
    after_removal(record, site).site(&site.config).is_none()
}

/// What is remembered once it is taken out there.
fn after_removal(record: Option<&PluginRecord>, site: &PluginSite) -> PluginRecord {
    let mut after = record.cloned().unwrap_or_default();
    after.take_out(site);
    after
}

/// The removals that are needed. `last` where abide is nowhere else in the agent.
fn needed_removals(parts: &PluginParts, last: bool) -> Result<Vec<&Vec<String>>, PluginError> {
    let mut needed = Vec::new();
    for removal in parts.remove.iter().filter(|removal| last || !removal.last_only) {
        for place in &removal.needed {
            if is_present(place)? {
                needed.push(&removal.arguments);
                break;
            }
        }
    }
    Ok(needed)
}

/// Does a setting name another place than it should? The agent's own installation does not change that.
fn is_stale(mark: &abide_agents::PluginMark) -> Result<bool, PluginError> {
    let abide_agents::PluginMark::Setting { file, keys, value } = mark else { return Ok(false) };
    let place = PluginPlace::Setting { file: file.clone(), keys: keys.clone() };
    Ok(value.is_string() && is_present(&place)? && !is_marked(mark)?)
}
