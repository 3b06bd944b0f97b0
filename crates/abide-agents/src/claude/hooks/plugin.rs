//! How abide is put into Claude Code: a plugin of a directory that it reads in place, installed by its
//! own commands.

use std::path::Path;

use serde_json::json;

use super::super::kept::directory;
use crate::hooks::plugin::{
    AgentPlugin, PluginMark, PluginParts, PluginPlace, PluginRemoval, PluginSign, PluginSite,
    plugin_arguments,
};
use crate::hooks::plugin_template::{
    HookedEvent, PLUGIN, PLUGIN_ID, hook_command, hook_table, marketplace_files,
};

/// The plugin.
pub(super) const PLUGIN_OF_CLAUDE: AgentPlugin =
    AgentPlugin { config: directory, parts: |site| Some(parts(site)), trust: None };

/// The hooks, with their time limits in seconds. The last one has a limit of its own because the agent
/// gives it 1.5 seconds otherwise.
const EVENTS: &[HookedEvent] = &[
    ("SessionStart", 10),
    ("UserPromptSubmit", 10),
    ("PostToolUse", 10),
    ("PostToolUseFailure", 10),
    ("Stop", 10),
    ("StopFailure", 10),
    ("SubagentStop", 10),
    ("PreCompact", 10),
    ("PostCompact", 10),
    ("SessionEnd", 10),
];

fn parts(site: &PluginSite) -> PluginParts {
    // In a project: the settings that are this person's, and are not committed. What is written is a path
    // of this machine, which no one else has.
    let (scope, settings) = match &site.project {
        Some(project) => ("local", project.join(".claude/settings.local.json")),
        None => ("user", site.config.join("settings.json")),
    };
    let own = site.own.to_string_lossy();
    let hooks = hook_table(EVENTS, &hook_command(site, "claude"));
    let plugins = site.config.join("plugins");
    let enabled = PluginPlace::setting(&settings, &["enabledPlugins", PLUGIN_ID]);
    let known = PluginPlace::setting(&settings, &["extraKnownMarketplaces", PLUGIN]);
    let mut parts = PluginParts {
        files: marketplace_files(&site.own, ".claude-plugin", &hooks),
        signs: vec![PluginSign {
            place: known.clone(),
            proof: PluginPlace::setting(
                &settings,
                &["extraKnownMarketplaces", PLUGIN, "source", "path"],
            ),
            text: own.to_string(),
        }],
        install: vec![
            plugin_arguments(&["plugin", "marketplace", "add", &own, "--scope", scope]),
            plugin_arguments(&["plugin", "install", PLUGIN_ID, "--scope", scope]),
        ],
        marks: vec![
            PluginMark::setting(&settings, &["enabledPlugins", PLUGIN_ID], json!(true)),
            PluginMark::setting(
                &settings,
                &["extraKnownMarketplaces", PLUGIN, "source", "path"],
                json!(own),
            ),
        ],
        remove: vec![
            PluginRemoval {
                arguments: plugin_arguments(&["plugin", "uninstall", PLUGIN_ID, "--scope", scope]),
                needed: vec![enabled.clone()],
                last_only: false,
            },
            PluginRemoval {
                arguments: plugin_arguments(&[
                    "plugin",
                    "marketplace",
                    "remove",
                    PLUGIN,
                    "--scope",
                    scope,
                ]),
                needed: vec![known.clone()],
                last_only: true,
            },
        ],
        own: vec![enabled, known],
        shared: Vec::new(),
        emptied: vec![
            PluginPlace::setting(&settings, &["enabledPlugins"]),
            PluginPlace::setting(&settings, &["extraKnownMarketplaces"]),
            PluginPlace::File(settings.clone()),
        ],
    };
    match &site.project {
        Some(project) => parts.emptied.push(PluginPlace::Directory(project.join(".claude"))),
        None => whole_agent(&plugins, &mut parts),
    }
    parts
}

/// What the agent keeps of plugins, for all projects.
fn whole_agent(plugins: &Path, parts: &mut PluginParts) {
    let installed = plugins.join("installed_plugins.json");
    let markets = plugins.join("known_marketplaces.json");
    parts.shared.extend([
        PluginPlace::setting(&installed, &["plugins", PLUGIN_ID]),
        PluginPlace::setting(&markets, &[PLUGIN]),
        PluginPlace::Directory(plugins.join("cache").join(PLUGIN)),
    ]);
    parts.emptied.extend([
        PluginPlace::File(installed),
        PluginPlace::File(markets),
        PluginPlace::Directory(plugins.join("cache")),
        PluginPlace::Directory(plugins.join("marketplaces")),
        PluginPlace::Directory(plugins.to_owned()),
    ]);
    parts.emptied.extend(plugins.parent().map(|config| PluginPlace::Directory(config.to_owned())));
}
