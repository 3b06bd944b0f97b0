//! How abide is put into opencode: one file of JavaScript, which it loads as it starts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::hooks::plugin::{
    AgentPlugin, PluginFile, PluginParts, PluginPlace, PluginSign, PluginSite,
};

/// The plugin.
pub(super) const PLUGIN_OF_OPENCODE: AgentPlugin =
    AgentPlugin { config: directory, parts: |site| Some(parts(site)), trust: None };

/// The plugin's source, with a placeholder for the path of abide's program.
const SOURCE: &str = include_str!("plugin.js");

/// The agent's directory of settings.
fn directory(variable: &dyn Fn(&str) -> Option<OsString>, home: &Path) -> PathBuf {
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    // A relative one is to be ignored.
    let config = config.filter(|config| config.is_absolute());
    config.unwrap_or_else(|| home.join(".config")).join("opencode")
}

fn parts(site: &PluginSite) -> PluginParts {
    let config = match &site.project {
        Some(project) => project.join(".opencode"),
        None => site.config.clone(),
    };
    let plugins = config.join("plugins");
    let path = plugins.join("abide.js");
    let text = SOURCE.replace("__ABIDE__", &json!(site.program).to_string());
    // The directory above is that of many programs, but not of a project.
    let above = site.project.is_none().then(|| config.parent().map(Path::to_owned)).flatten();
    let directories = [Some(plugins), Some(config), above].into_iter().flatten();
    PluginParts {
        files: vec![PluginFile { path: path.clone(), text }],
        signs: vec![PluginSign {
            place: PluginPlace::File(path.clone()),
            proof: PluginPlace::File(path.clone()),
            text: SOURCE.lines().next().unwrap_or_default().to_owned(),
        }],
        own: vec![PluginPlace::File(path)],
        emptied: directories.map(PluginPlace::Directory).collect(),
        ..PluginParts::default()
    }
}
