//! What abide remembers of a plugin that it puts into an agent: written before the first change, removed
//! after the last.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use abide_agents::PluginSite;
use serde::{Deserialize, Serialize};

use super::plugin_error::PluginError;
use super::settings_file::{read_text, remove_temporary, write_file};

/// What is remembered of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PluginRecord {
    /// The path of abide's program in the hooks. It stays: an agent that asks for trust asks again when it
    /// changes.
    pub(super) program: String,
    /// Where it was put in.
    #[serde(default)]
    pub(super) sites: Vec<RecordedSite>,
}

/// What is remembered of one of the agent's directories of settings: a person may have several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordedSite {
    /// The directory.
    config: PathBuf,
    /// For all projects.
    #[serde(default)]
    everywhere: bool,
    /// The projects that it was put into.
    #[serde(default)]
    pub(super) projects: Vec<PathBuf>,
    /// What was not there before.
    #[serde(default)]
    pub(super) absent: Vec<String>,
}

impl PluginRecord {
    /// Reads the record; `None` if there is none, or none that can be read.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, PluginError> {
        Ok(read_text(path)?.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Writes the record.
    pub(super) fn write(&self, path: &Path) -> Result<(), PluginError> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| PluginError::at(path)(error.into()))?;
        write_file(path, &format!("{text}\n"))
    }

    /// Removes the record.
    pub(super) fn remove(path: &Path) -> Result<(), PluginError> {
        remove_temporary(path);
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(PluginError::at(path)(error)),
            _ => Ok(()),
        }
    }

    /// What is remembered of a directory of settings.
    pub(super) fn site(&self, config: &Path) -> Option<&RecordedSite> {
        self.sites.iter().find(|site| site.config == config)
    }

    /// Notes that it is put in there, and what was not there before.
    pub(super) fn add(&mut self, site: &PluginSite, absent: Vec<String>) {
        if self.site(&site.config).is_none() {
            let config = site.config.clone();
            self.sites.push(RecordedSite { config, ..RecordedSite::default() });
        }
        let Some(own) = self.sites.iter_mut().find(|one| one.config == site.config) else { return };
        match &site.project {
            None => own.everywhere = true,
            Some(project) if own.projects.contains(project) => {}
            Some(project) => own.projects.push(project.clone()),
        }
        let new = absent.into_iter().filter(|name| !own.absent.contains(name)).collect::<Vec<_>>();
        own.absent.extend(new);
    }

    /// Notes that it was taken out there.
    pub(super) fn take_out(&mut self, site: &PluginSite) {
        for own in self.sites.iter_mut().filter(|one| one.config == site.config) {
            match &site.project {
                None => own.everywhere = false,
                Some(project) => own.projects.retain(|one| one != project),
            }
        }
        self.sites.retain(|one| one.everywhere || !one.projects.is_empty());
    }

    /// Was it put in there?
    pub(super) fn has(&self, site: &PluginSite) -> bool {
        self.site(&site.config).is_some_and(|own| {
            site.project.as_ref().map_or(own.everywhere, |project| own.projects.contains(project))
        })
    }

    /// Is it nowhere?
    pub(super) fn is_nowhere(&self) -> bool {
        self.sites.is_empty()
    }
}
