//! How abide is put into Codex: a plugin of a local directory that it copies, installed by its own
//! commands, and the trust of a person in its hooks, which its server is told of.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::kept::directory;
use crate::hooks::plugin::{
    AgentPlugin, HookApproval, HookTrust, PluginMark, PluginParts, PluginPlace, PluginRemoval,
    PluginSign, PluginSite, plugin_arguments,
};
use crate::hooks::plugin_template::{
    HookedEvent, PLUGIN, PLUGIN_ID, PLUGIN_VERSION, hook_command, hook_table, marketplace_files,
    plugin_files,
};

/// The plugin.
pub(super) const PLUGIN_OF_CODEX: AgentPlugin =
    AgentPlugin { config: directory, parts, trust: Some(TRUST) };

/// The hooks, with their time limits in seconds. The agent allows an interrupt and the end of a session 3
/// at most, and complains about more in every run.
const EVENTS: &[HookedEvent] = &[
    ("SessionStart", 10),
    ("UserPromptSubmit", 10),
    ("PostToolUse", 10),
    ("Stop", 10),
    ("Interrupt", 3),
    ("SubagentStop", 10),
    ("PreCompact", 10),
    ("PostCompact", 10),
    ("SessionEnd", 3),
];

/// Where the agent looks for descriptions of plugins, among other places.
const MANIFEST: &str = ".claude-plugin";

fn parts(site: &PluginSite) -> Option<PluginParts> {
    if site.project.is_some() {
        return None;
    }
    let own = site.own.to_string_lossy();
    let config = site.config.join("config.toml");
    let hooks = hook_table(EVENTS, &hook_command(site, "codex"));
    let cache = site.config.join("plugins/cache");
    let copy = copy_directory(site);
    let mut marks = vec![
        PluginMark::setting(&config, &["plugins", PLUGIN_ID, "enabled"], json!(true)),
        PluginMark::setting(&config, &["marketplaces", PLUGIN, "source"], json!(own)),
    ];
    // It runs its copy, and a copy that differs is a hook that nobody trusts.
    marks.extend(plugin_files(&copy, MANIFEST, &hooks).into_iter().map(PluginMark::Copy));
    let plugin = PluginPlace::setting(&config, &["plugins", PLUGIN_ID]);
    let market = PluginPlace::setting(&config, &["marketplaces", PLUGIN]);
    Some(PluginParts {
        files: marketplace_files(&site.own, MANIFEST, &hooks),
        signs: vec![PluginSign {
            place: market.clone(),
            proof: PluginPlace::setting(&config, &["marketplaces", PLUGIN, "source"]),
            text: own.to_string(),
        }],
        install: vec![
            plugin_arguments(&["plugin", "marketplace", "add", &own]),
            plugin_arguments(&["plugin", "add", PLUGIN_ID]),
        ],
        marks,
        remove: vec![
            PluginRemoval {
                arguments: plugin_arguments(&["plugin", "remove", PLUGIN_ID]),
                needed: vec![plugin.clone()],
                last_only: false,
            },
            PluginRemoval {
                arguments: plugin_arguments(&["plugin", "marketplace", "remove", PLUGIN]),
                needed: vec![market.clone()],
                last_only: false,
            },
        ],
        own: vec![
            plugin,
            market,
            PluginPlace::setting(&config, &["hooks", "state", "abide@abide:*"]),
            PluginPlace::Directory(cache.join(PLUGIN)),
        ],
        shared: Vec::new(),
        emptied: vec![
            header(&config, &["hooks", "state"]),
            header(&config, &["hooks"]),
            header(&config, &["plugins"]),
            header(&config, &["marketplaces"]),
            PluginPlace::setting(&config, &["hooks", "state"]),
            PluginPlace::setting(&config, &["hooks"]),
            PluginPlace::setting(&config, &["plugins"]),
            PluginPlace::setting(&config, &["marketplaces"]),
            PluginPlace::File(config),
            PluginPlace::Directory(cache),
            PluginPlace::Directory(site.config.join("plugins")),
            PluginPlace::Directory(site.config.join(".tmp/marketplaces")),
            PluginPlace::Directory(site.config.join(".tmp")),
            PluginPlace::Directory(site.config.clone()),
        ],
    })
}

fn header(file: &Path, keys: &[&str]) -> PluginPlace {
    PluginPlace::Header { file: file.to_owned(), keys: plugin_arguments(keys) }
}

/// The conversation with the agent's server: the same as that of its own screen.
const TRUST: HookTrust = HookTrust {
    marks: trust_marks,
    command: |site| hook_command(site, "codex"),
    server: &["app-server"],
    question: &[
        r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"abide","title":"abide","version":"1"}}}"#,
        r#"{"method":"initialized"}"#,
        r#"{"id":2,"method":"hooks/list","params":{"cwds":["/"]}}"#,
    ],
    answer,
    approval,
    approved,
    by_hand: "start `codex` once and choose `2` (trust all and continue)",
};

/// Where the agent keeps the copy of the plugin that it runs.
fn copy_directory(site: &PluginSite) -> PathBuf {
    site.config.join("plugins/cache").join(PLUGIN).join(PLUGIN).join(PLUGIN_VERSION)
}

/// The hashes that the agent notes for trusted hooks, each of one hook with its time limit. None is
/// switched off, and the copy holds no other hooks.
fn trust_marks(site: &PluginSite) -> Vec<PluginMark> {
    let (config, command) = (site.config.join("config.toml"), hook_command(site, "codex"));
    let marks = EVENTS.iter().flat_map(|&(event, timeout)| {
        let event = snake_case(event);
        // The names in the order of the alphabet, and without blanks.
        let command = json!(command);
        let hook = format!(
            r#"{{"event_name":"{event}","hooks":[{{"async":false,"command":{command},"timeout":{timeout},"type":"command"}}]}}"#
        );
        let hash: String = Sha256::digest(hook).iter().map(|byte| format!("{byte:02x}")).collect();
        let key = format!("{PLUGIN_ID}:hooks/hooks.json:{event}:0:0");
        let keys = ["hooks", "state", key.as_str(), "trusted_hash"];
        let off = ["hooks", "state", key.as_str(), "enabled"];
        [
            PluginMark::setting(&config, &keys, json!(format!("sha256:{hash}"))),
            PluginMark::NotSetting {
                file: config.clone(),
                keys: plugin_arguments(&off),
                value: json!(false),
            },
        ]
    });
    let directory = copy_directory(site);
    let copies = plugin_files(&directory, MANIFEST, &Value::Null);
    let files = copies.into_iter().map(|file| file.path).collect();
    marks.chain([PluginMark::Only { directory, files }]).collect()
}

/// `session_end` for `SessionEnd`.
fn snake_case(event: &str) -> String {
    let mut name = String::new();
    for c in event.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// The hooks in an answer to `hooks/list`.
fn answer(line: &str) -> Option<Vec<HookApproval>> {
    let line: Value = serde_json::from_str(line).ok()?;
    (line.get("id")? == 2).then_some(())?;
    let places = line.pointer("/result/data").and_then(Value::as_array);
    let hooks = places.into_iter().flatten().filter_map(|place| place.get("hooks")?.as_array());
    Some(hooks.flatten().filter_map(hook).collect())
}

/// A hook of abide.
fn hook(hook: &Value) -> Option<HookApproval> {
    let text = |name: &str| hook.get(name).and_then(Value::as_str).map(str::to_owned);
    let key = text("key").filter(|key| key.starts_with("abide@abide:"))?;
    let switched_off = hook.get("enabled") == Some(&json!(false));
    let trusted = matches!(text("trustStatus").as_deref(), Some("trusted" | "managed"));
    Some(HookApproval {
        key,
        event: text("eventName").unwrap_or_default(),
        command: text("command").unwrap_or_default(),
        hash: text("currentHash")?,
        switched_off,
        trusted: trusted && !switched_off,
    })
}

fn approval(hooks: &[HookApproval]) -> String {
    let trusted = hooks.iter().map(|hook| {
        let mut state = json!({"trusted_hash": hook.hash});
        if hook.switched_off
            && let Some(state) = state.as_object_mut()
        {
            state.insert("enabled".to_owned(), json!(true));
        }
        (hook.key.clone(), state)
    });
    let trusted: serde_json::Map<String, Value> = trusted.collect();
    let edit = json!({"keyPath": "hooks.state", "value": trusted, "mergeStrategy": "upsert"});
    let params = json!({"edits": [edit], "reloadUserConfig": true});
    json!({"id": 3, "method": "config/batchWrite", "params": params}).to_string()
}

fn approved(line: &str) -> Option<Result<(), String>> {
    let line: Value = serde_json::from_str(line).ok()?;
    (line.get("id")? == 3).then_some(())?;
    if line.pointer("/result/status").and_then(Value::as_str) == Some("ok") {
        return Some(Ok(()));
    }
    let why = line.pointer("/error/message").and_then(Value::as_str);
    Some(Err(why.unwrap_or("it refused").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hooks_of_abide_are_read_and_no_others() {
        let line = r#"{"id":2,"result":{"data":[{"cwd":"/","hooks":[
            {"key":"/h/hooks.json:stop:0:0","eventName":"stop","command":"x","currentHash":"sha256:1","trustStatus":"untrusted"},
            {"key":"abide@abide:hooks/hooks.json:stop:0:0","eventName":"stop","command":"/a hook codex","currentHash":"sha256:2/sha256:3","trustStatus":"modified"},
            {"key":"abide@abide:hooks/hooks.json:interrupt:0:0","eventName":"interrupt","command":"/a hook codex","currentHash":"sha256:4","trustStatus":"trusted","enabled":true},
            {"key":"abide@abide:hooks/hooks.json:pre_compact:0:0","eventName":"preCompact","command":"/a hook codex","currentHash":"sha256:5","trustStatus":"trusted","enabled":false}
        ],"warnings":[],"errors":[]}]}}"#;
        let hooks = answer(line).unwrap();
        let seen: Vec<_> = hooks.iter().map(|hook| (hook.event.as_str(), hook.trusted)).collect();
        assert_eq!(seen, [("stop", false), ("interrupt", true), ("preCompact", false)]);
        assert_eq!(answer(r#"{"id":1,"result":{}}"#), None);
        assert_eq!(answer("nonsense"), None);
        let said: Value = serde_json::from_str(&approval(&hooks)).unwrap();
        assert_eq!(
            said.pointer(
                "/params/edits/0/value/abide@abide:hooks~1hooks.json:stop:0:0/trusted_hash"
            ),
            Some(&json!("sha256:2/sha256:3"))
        );
        // What is trusted now is switched on, and nothing else is touched.
        assert_eq!(
            said.pointer("/params/edits/0/value/abide@abide:hooks~1hooks.json:pre_compact:0:0"),
            Some(&json!({"trusted_hash": "sha256:5", "enabled": true}))
        );
        assert_eq!(approved(r#"{"id":3,"result":{"status":"ok"}}"#), Some(Ok(())));
        assert_eq!(approved(r#"{"id":3,"error":{"message":"no"}}"#), Some(Err("no".to_owned())));
    }

    #[test]
    fn the_hash_of_a_hook_is_the_one_that_the_agent_notes() {
        let site = PluginSite {
            config: "/c".into(),
            own: "/o".into(),
            project: None,
            program: "/usr/local/bin/abide".to_owned(),
        };
        let marks = trust_marks(&site);
        let settings = marks.iter().filter(|mark| matches!(mark, PluginMark::Setting { .. }));
        assert_eq!(settings.count(), EVENTS.len());
        // As Codex 0.166.0 wrote them.
        let stop = "sha256:3df70088f6a95b28482bb425ec15cae2d4a03b399a6d385f033ebb251f9cddda";
        let interrupt = "sha256:0de3e8c68e8c4a92c042369418e1303f1d866a25d446957d53e60b54b19eb0e8";
        let end = "sha256:d6d395afd1f253c97449a82beef6781bdb95d76265fb7595aee0fa7b894ed286";
        for (event, hash) in [("stop", stop), ("interrupt", interrupt), ("session_end", end)] {
            let key = format!("abide@abide:hooks/hooks.json:{event}:0:0");
            let keys = ["hooks", "state", key.as_str(), "trusted_hash"];
            let mark = PluginMark::setting("/c/config.toml", &keys, json!(hash));
            assert!(marks.contains(&mark), "{event}: {marks:?}");
        }
    }
}
