//! How abide is put into Gemini CLI: an extension, which is a directory beside its settings.
//!
//! Its own command for that is not used: it marks the directory that it is started in as trusted, waits
//! for answers on stdin, and leaves records of the extension behind when it removes it.

use serde_json::json;

use super::super::kept::gemini_directory;
use crate::hooks::plugin::{AgentPlugin, PluginParts, PluginPlace, PluginSign, PluginSite};
use crate::hooks::plugin_template::{
    ABOUT, HookedEvent, PLUGIN, PLUGIN_VERSION, hook_command, hook_table, json_file,
};

/// The plugin.
pub(super) const PLUGIN_OF_GEMINI: AgentPlugin =
    AgentPlugin { config: gemini_directory, parts, trust: None };

/// The hooks, with their time limits in milliseconds.
const EVENTS: &[HookedEvent] = &[
    ("SessionStart", 10_000),
    ("BeforeAgent", 10_000),
    ("AfterAgent", 10_000),
    ("SessionEnd", 10_000),
];

fn parts(site: &PluginSite) -> Option<PluginParts> {
    if site.project.is_some() {
        return None;
    }
    let extensions = site.config.join("extensions");
    let root = extensions.join(PLUGIN);
    let extension = json!({"name": PLUGIN, "version": PLUGIN_VERSION});
    let hooks = hook_table(EVENTS, &hook_command(site, "gemini"));
    Some(PluginParts {
        // The description comes last: without it the directory is no extension.
        files: vec![
            json_file(root.join("hooks/hooks.json"), &hooks),
            json_file(root.join("gemini-extension.json"), &extension),
        ],
        signs: vec![PluginSign {
            place: PluginPlace::Directory(root.clone()),
            proof: PluginPlace::File(root.join("hooks/hooks.json")),
            text: ABOUT.to_owned(),
        }],
        own: vec![
            PluginPlace::Directory(root),
            PluginPlace::setting(extensions.join("extension-enablement.json"), &[PLUGIN]),
        ],
        emptied: vec![
            PluginPlace::File(extensions.join("extension-enablement.json")),
            PluginPlace::Directory(extensions),
            PluginPlace::Directory(site.config.clone()),
        ],
        ..PluginParts::default()
    })
}
