//! What plugins have in common: a table of hooks, and a directory that offers one plugin.
//!
//! Agents remember the hooks that a person trusts by their very bytes, so that nothing in here may name a
//! version of abide, and none of it changes without need.

use std::path::Path;

use serde_json::{Value, json};

use crate::hooks::plugin::{PluginFile, PluginSite};

/// The name of the plugin and of the directory that offers it.
pub(crate) const PLUGIN: &str = "abide";
/// How agents name the plugin of that directory.
pub(crate) const PLUGIN_ID: &str = "abide@abide";
/// The version of the plugin, which is not that of abide.
pub(crate) const PLUGIN_VERSION: &str = "1.0.0";
/// What the plugin is for; this tells its files from those of others.
pub(crate) const ABOUT: &str = "Records sessions and their files, turn by turn";

/// An event that starts a hook, and the time limit of the hook in the agent's own unit.
pub(crate) type HookedEvent = (&'static str, u32);

/// The command of a hook, for a shell.
pub(crate) fn hook_command(site: &PluginSite, agent: &str) -> String {
    format!("{} hook {agent}", shell_word(&site.program))
}

/// A word that a shell takes as one.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A table of hooks that all start this command.
pub(crate) fn hook_table(events: &[HookedEvent], command: &str) -> Value {
    let hook = |limit: u32| json!({"type": "command", "command": command, "timeout": limit});
    let groups =
        events.iter().map(|&(event, limit)| (event.to_owned(), json!([{"hooks": [hook(limit)]}])));
    json!({"description": ABOUT, "hooks": groups.collect::<serde_json::Map<_, _>>()})
}

/// A JSON file of a plugin.
pub(crate) fn json_file(path: impl AsRef<Path>, value: &Value) -> PluginFile {
    PluginFile { path: path.as_ref().to_owned(), text: format!("{value:#}\n") }
}

/// The files of a directory that offers one plugin, which has these hooks. The agent looks for a
/// description in the directory `manifest`.
pub(crate) fn marketplace_files(root: &Path, manifest: &str, hooks: &Value) -> Vec<PluginFile> {
    let author = json!({"name": PLUGIN});
    let source = format!("./plugins/{PLUGIN}");
    let offer = json!({"name": PLUGIN, "source": source, "description": ABOUT});
    let market = json!({"name": PLUGIN, "owner": author, "description": ABOUT, "plugins": [offer]});
    let mut files = vec![json_file(root.join(manifest).join("marketplace.json"), &market)];
    files.extend(plugin_files(&root.join("plugins").join(PLUGIN), manifest, hooks));
    files
}

/// The files of the plugin itself.
pub(crate) fn plugin_files(root: &Path, manifest: &str, hooks: &Value) -> Vec<PluginFile> {
    let author = json!({"name": PLUGIN});
    let plugin = json!({
        "name": PLUGIN, "version": PLUGIN_VERSION, "description": ABOUT, "author": author
    });
    vec![
        json_file(root.join(manifest).join("plugin.json"), &plugin),
        json_file(root.join("hooks/hooks.json"), hooks),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_starts_the_program_whatever_its_path() {
        let site = |program: &str| PluginSite {
            config: "/c".into(),
            own: "/o".into(),
            project: None,
            program: program.to_owned(),
        };
        assert_eq!(hook_command(&site("/usr/bin/abide"), "x"), "/usr/bin/abide hook x");
        assert_eq!(hook_command(&site("/it's a/abide"), "x"), r"'/it'\''s a/abide' hook x");
    }
}
