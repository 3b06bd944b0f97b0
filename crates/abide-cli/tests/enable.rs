//! `abide enable` and `abide disable` with programs that stand in for agents: they edit settings as the
//! real ones do, and end abide in the middle when they are told to.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::environment::{ABIDE, Done, StoreLayout, TestEnvironment, run};
use crate::fault::{self, Fault};
use crate::lab::{Lab, copy};

const AGENTS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

const CLAUDE_SETTINGS: &str = "{\n  \"model\": \"opus\",\n  \"enabledPlugins\": {},\n  \
                               \"hooks\": {\"Stop\": [{\"hooks\": []}]}\n}\n";
const CODEX_SETTINGS: &str = "# mine\nmodel = \"x\" # nice\n\n[projects.\"/p\"]\ntrust_level = \
                              \"trusted\"\n\n[hooks.state.\"/h:stop:0:0\"]\nother = \"1\"\n";

/// A home with agents in it.
struct AgentHome {
    env: TestEnvironment,
}

impl AgentHome {
    fn bare() -> Self {
        let env = TestEnvironment::with(StoreLayout::Project);
        add_agents(&env);
        Self { env }
    }

    /// One where somebody has settings of their own.
    fn lived_in() -> Self {
        let home = Self::bare();
        home.write(".claude/settings.json", CLAUDE_SETTINGS);
        home.write(".codex/config.toml", CODEX_SETTINGS);
        home.write(".gemini/settings.json", "{\"ui\": {} // mine\n}");
        home.write(".gemini/extensions/theirs/gemini-extension.json", "{}");
        home.write(".config/opencode/plugins/theirs.js", "export {}");
        home
    }

    fn path(&self, path: &str) -> PathBuf {
        self.env.path("home").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.env.command(args);
        command.env("PATH", search_path(&self.env));
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        run(self.command(args), b"")
    }

    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// All that is in the home but abide's own, with empty directories.
    fn files(&self) -> BTreeMap<PathBuf, Option<String>> {
        let mut all = BTreeMap::new();
        gather(&self.env.path("home"), &mut all);
        let own = self.path(".local");
        all.retain(|path, _| !path.starts_with(&own) && !path.ends_with("calls"));
        all
    }

    /// What abide keeps of its plugins.
    fn kept(&self) -> Vec<PathBuf> {
        let mut all = BTreeMap::new();
        let plugins = self.path(".local/share/abide/plugins");
        if plugins.exists() {
            gather(&plugins, &mut all);
        }
        all.into_keys().filter(|path| !path.ends_with(".lock")).collect()
    }
}

/// Puts the stand-ins beside the home.
fn add_agents(env: &TestEnvironment) {
    let stand_ins = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_ins");
    copy(&stand_ins, &env.path("agents"));
}

fn search_path(env: &TestEnvironment) -> String {
    format!("{}:/usr/bin:/bin", env.path("agents").display())
}

fn gather(directory: &Path, all: &mut BTreeMap<PathBuf, Option<String>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.insert(path.clone(), None);
            gather(&path, all);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            all.insert(path, Some(text));
        }
    }
}

#[test]
fn what_is_enabled_and_disabled_leaves_no_trace() {
    for home in [AgentHome::bare(), AgentHome::lived_in()] {
        let before = home.files();
        home.run(&["enable", "--yes", "--trust"]).success();
        let (enabled, calls) = (home.files(), home.calls());
        assert_eq!(calls.len(), 4, "{calls:?}");
        let settings: Value = serde_json::from_str(&home.read(".claude/settings.json")).unwrap();
        assert_eq!(settings.pointer("/enabledPlugins/abide@abide"), Some(&json!(true)));
        let hooks = home.read(".codex/plugins/cache/abide/abide/1.0.0/hooks/hooks.json");
        let hooks: Value = serde_json::from_str(&hooks).unwrap();
        let stop = hooks.pointer("/hooks/Stop/0/hooks/0").unwrap();
        assert_eq!(stop["command"], format!("{ABIDE} hook codex"));
        assert_eq!(hooks.pointer("/hooks/SessionEnd/0/hooks/0/timeout"), Some(&json!(3)));
        let script = home.read(".config/opencode/plugins/abide.js");
        assert!(script.contains(&format!("\"{ABIDE}\"")), "{script}");

        let again = home.run(&["enable", "--yes", "--trust"]).success();
        assert_eq!(again.stdout().matches("enabled already").count(), 4, "{again:?}");
        assert_eq!((home.files(), home.calls()), (enabled, calls));

        home.run(&["disable", "--yes"]).success();
        assert_eq!(home.files(), before);
        assert_eq!(home.kept(), Vec::<PathBuf>::new());
        assert_eq!(home.calls().len(), 8);
        let again = home.run(&["disable", "--yes"]).success();
        assert!(again.stderr.contains("abide is not in any agent"), "{again:?}");
    }
}

#[test]
fn what_others_write_meanwhile_stays() {
    let home = AgentHome::lived_in();
    home.run(&["enable", "--yes", "--trust"]).success();
    let settings = home.read(".claude/settings.json").replace("opus", "sonnet");
    home.write(".claude/settings.json", &settings);
    let config = home.read(".codex/config.toml") + "\n[features]\nx = true\n";
    home.write(".codex/config.toml", &config);
    home.write(".config/opencode/plugins/later.js", "export {}");
    home.run(&["disable", "--yes"]).success();
    assert_eq!(home.read(".claude/settings.json"), CLAUDE_SETTINGS.replace("opus", "sonnet"));
    let config = format!("{CODEX_SETTINGS}\n[features]\nx = true\n");
    assert_eq!(home.read(".codex/config.toml"), config);
    assert_eq!(home.read(".config/opencode/plugins/later.js"), "export {}");
}

#[test]
fn without_the_agent_its_settings_are_cleaned_all_the_same() {
    let home = AgentHome::lived_in();
    let before = home.files();
    home.run(&["enable", "--yes", "--trust"]).success();
    fs::remove_dir_all(home.env.path("agents")).unwrap();
    home.run(&["disable", "--yes"]).success();
    assert_eq!(home.files(), before);
}

#[test]
fn killed_by_any_command_of_an_agent_the_next_one_finishes() {
    for when in ["KILL_BEFORE", "KILL_AFTER"] {
        for at in 1..=8_usize {
            let home = AgentHome::lived_in();
            let before = home.files();
            let (killed, other) =
                if at <= 4 { ("enable", "disable") } else { ("disable", "enable") };
            if killed == "disable" {
                home.run(&["enable", "--yes", "--trust"]).success();
            }
            let mut command = home.command(&[killed, "--yes"]);
            command.env(when, at.to_string());
            assert_ne!(run(command, b"").code, 0, "{when} {at}");
            let middle = home.env.path("middle");
            copy(&home.env.path("home"), &middle);

            // The other way.
            home.run(&[other, "--yes"]).success();
            home.run(&["disable", "--yes"]).success();
            assert_eq!(home.files(), before, "{when} {at}: {other}");
            // The same way.
            fs::remove_dir_all(home.env.path("home")).unwrap();
            copy(&middle, &home.env.path("home"));
            home.run(&[killed, "--yes"]).success();
            let done = home.run(&["enable", "--yes", "--dry-run"]).success();
            let enabled = done.stdout().matches("enabled already").count();
            assert_eq!(enabled, if killed == "enable" { 4 } else { 0 }, "{when} {at}: {done:?}");
            home.run(&["disable", "--yes"]).success();
            assert_eq!(home.files(), before, "{when} {at}: {killed}");
        }
    }
}

#[test]
fn killed_at_any_system_call_disabling_leaves_no_trace() {
    if fault::skipped() {
        return;
    }
    let lab = Lab::new();
    add_agents(&lab.env);
    // Without its program in PATH a plugin is taken out by abide alone.
    let theirs = lab.env.path("home/.gemini/settings.json");
    fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    fs::write(theirs, "{}").unwrap();
    let home = AgentHome { env: lab.env };
    let before = home.files();
    let strike = |args: &[&str], way: &[String]| {
        let mut command = home.env.isolate(Command::new("timeout"));
        command.arg("120").args(way).arg(ABIDE).args(args).env("PATH", search_path(&home.env));
        run(command, b"")
    };
    for (first, second) in [("enable", "disable"), ("disable", "disable")] {
        if first == "disable" {
            home.run(&["enable", "gemini", "opencode", "--yes"]).success();
        }
        let kept = home.env.path(&format!("kept-{first}"));
        copy(&home.env.path("home"), &kept);
        let log = home.env.path("strace");
        let args = [first, "gemini", "opencode", "--yes"];
        strike(&args, &fault::trace(&log)).success();
        let calls = fault::calls(&fs::read_to_string(&log).unwrap());
        assert!(calls.len() > 10, "{calls:?}");
        for call in calls {
            fs::remove_dir_all(home.env.path("home")).unwrap();
            copy(&kept, &home.env.path("home"));
            strike(&args, &Fault::Kill(call.clone()).way(&log));
            home.run(&[second, "gemini", "opencode", "--yes"]).success();
            assert_eq!(home.files(), before, "{first}: {call:?}");
            assert_eq!(home.kept(), Vec::<PathBuf>::new(), "{first}: {call:?}");
        }
    }
}

#[test]
fn broken_settings_are_named_and_left_alone_and_the_others_go_on() {
    let home = AgentHome::bare();
    home.write(".claude/settings.json", "{\"model\": }");
    home.write(".codex/config.toml", "a = 1\na = 2\n");
    let done = home.run(&["enable", "--yes"]).failure(1);
    for file in [".claude/settings.json", ".codex/config.toml"] {
        assert!(done.stderr.contains(home.path(file).to_str().unwrap()), "{done:?}");
    }
    assert_eq!(home.read(".claude/settings.json"), "{\"model\": }");
    assert_eq!(home.read(".codex/config.toml"), "a = 1\na = 2\n");
    assert_eq!(home.calls(), Vec::<String>::new());
    assert!(home.path(".gemini/extensions/abide/gemini-extension.json").exists());
    assert!(home.path(".config/opencode/plugins/abide.js").exists());
    assert!(!home.path(".local/share/abide/plugins/claude").exists());
}

#[test]
fn an_agent_that_fails_is_named_with_what_it_said() {
    let home = AgentHome::bare();
    fs::write(home.env.path("agents/codex"), "#!/bin/sh\necho its reason >&2\nexit 3\n").unwrap();
    let done = home.run(&["enable", "codex", "gemini", "--yes", "--json"]).failure(1);
    let answer = &done.json_lines()[0];
    let error = answer.pointer("/agents/0/error").and_then(Value::as_str).unwrap();
    assert!(error.contains("plugin marketplace add") && error.contains("its reason"), "{error}");
    assert_eq!(answer.pointer("/agents/1/error"), None);
    assert!(home.path(".gemini/extensions/abide").exists());
    home.run(&["disable", "--yes"]).success();
    assert_eq!(home.kept(), Vec::<PathBuf>::new());
}

#[test]
fn nothing_is_done_without_a_yes() {
    let home = AgentHome::lived_in();
    let before = home.files();
    let done = home.run(&["enable", "--dry-run"]).success();
    let plan = done.stdout();
    assert!(plan.contains(" plugin install abide@abide --scope user`"), "{plan}");
    // Which one, too.
    let program = home.env.path("agents/claude");
    assert!(plan.contains(&format!("run `{} plugin", program.display())), "{plan}");
    assert!(plan.contains("gemini-extension.json"), "{plan}");
    home.run(&["enable"]).failure(1);
    home.run(&["enable", "--json"]).failure(2);
    assert_eq!((home.files(), home.calls().len()), (before, 0));
    assert_eq!(home.kept(), Vec::<PathBuf>::new());
}

#[test]
fn an_agent_that_is_not_installed_is_passed_over_unless_it_is_named() {
    let home = AgentHome::bare();
    for agent in ["claude", "codex", "opencode"] {
        fs::remove_file(home.env.path("agents").join(agent)).unwrap();
    }
    let done = home.run(&["enable", "--yes"]).success();
    assert!(done.stdout().starts_with("gemini:\n"), "{done:?}");
    let done = home.run(&["enable", "claude", "--yes"]).failure(1);
    assert!(done.stderr.contains("claude is not installed"), "{done:?}");
    let done = home.run(&["enable", "nosuch", "--yes"]).failure(2);
    assert!(AGENTS.iter().all(|agent| done.stderr.contains(agent)), "{done:?}");
    fs::remove_file(home.env.path("agents/gemini")).unwrap();
    let done = home.run(&["enable", "--yes"]).failure(1);
    assert!(done.stderr.contains("none of the agents is installed"), "{done:?}");
}

#[test]
fn trust_is_given_by_a_word_of_its_own_and_doctor_tells() {
    let home = AgentHome::bare();
    let agents = |home: &AgentHome| {
        let done = home.run(&["doctor", "--json"]).success();
        done.json_lines()[0]["agents"].clone()
    };
    let listed = agents(&home);
    let states: Vec<_> = listed.as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, vec!["not_enabled"; 4]);
    assert_eq!(listed[1]["advice"], "`abide enable codex`");

    let done = home.run(&["enable", "--yes", "--json"]).success();
    let answer = &done.json_lines()[0];
    assert_eq!(answer.pointer("/agents/1/trusted"), Some(&json!(false)));
    assert!(!home.read(".codex/config.toml").contains("trusted_hash"));
    let listed = agents(&home);
    assert_eq!((&listed[1]["state"], &listed[1]["trusted"]), (&json!("enabled"), &json!(false)));
    assert!(listed[1]["advice"].as_str().unwrap().contains("--trust"), "{listed}");
    assert_eq!(listed[0].get("advice"), None, "{listed}");

    // Without anybody to look at them only hooks that start abide are trusted.
    let mut foreign = home.command(&["enable", "codex", "--yes", "--trust"]);
    foreign.env("FOREIGN", "/other hook");
    let done = run(foreign, b"").failure(1);
    assert!(done.stderr.contains("starts `/other hook`"), "{done:?}");
    assert!(!home.read(".codex/config.toml").contains("trusted_hash"));
    home.run(&["enable", "codex", "--yes", "--trust"]).success();
    assert!(home.read(".codex/config.toml").contains("trusted_hash"));
    assert_eq!(agents(&home)[1]["trusted"], true);

    let heard = home.env.store().join("hooks/gemini");
    fs::create_dir_all(&heard).unwrap();
    fs::write(heard.join("heard"), "").unwrap();
    let listed = agents(&home);
    assert!(listed[2]["last_heard"].as_str().unwrap().ends_with('Z'), "{listed}");
    let done = home.run(&["doctor"]).success();
    assert!(done.stdout().contains("  gemini: enabled, last heard "), "{done:?}");
    assert!(done.stdout().contains("  claude: enabled, nothing heard yet\n"), "{done:?}");
}

#[test]
fn a_hook_keeps_its_line_while_its_program_is_there() {
    let home = AgentHome::bare();
    let bin = home.env.path("bin");
    fs::create_dir(&bin).unwrap();
    symlink(ABIDE, bin.join("abide")).unwrap();
    let line = |home: &AgentHome| home.read(".gemini/extensions/abide/hooks/hooks.json");
    let mut command = home.command(&["enable", "gemini", "--yes"]);
    command.env("PATH", format!("{}:{}", bin.display(), search_path(&home.env)));
    run(command, b"").success();
    // By the name under which a shell finds it, and not where that leads.
    let first = line(&home);
    assert!(first.contains(&format!("{}/abide hook gemini", bin.display())), "{first}");
    home.run(&["enable", "gemini", "--yes"]).success();
    assert_eq!(line(&home), first);
    fs::remove_file(bin.join("abide")).unwrap();
    home.run(&["enable", "gemini", "--yes"]).success();
    assert!(line(&home).contains(&format!("{ABIDE} hook gemini")), "{}", line(&home));
}

#[test]
fn a_project_alone_is_enabled_where_an_agent_can() {
    let home = AgentHome::bare();
    let before = home.files();
    fs::remove_file(home.env.path("agents/claude")).unwrap();
    let done = home.run(&["enable", "--project", "--yes"]).success();
    assert!(done.stderr.contains("gemini cannot be told for one project alone"), "{done:?}");
    let script = home.env.project().join(".opencode/plugins/abide.js");
    assert!(script.exists());
    home.run(&["enable", "codex", "--project", "--yes"]).failure(1);
    assert_eq!(home.files(), before);
    let done = home.run(&["disable", "--project", "--yes"]).success();
    assert!(!done.stderr.contains("cannot be told"), "{done:?}");
    assert!(!home.env.project().join(".opencode").exists());
    assert_eq!(home.kept(), Vec::<PathBuf>::new());
    // Without a project it is taken out of all of them.
    home.run(&["enable", "opencode", "--yes"]).success();
    home.run(&["enable", "opencode", "--project", "--yes"]).success();
    assert!(script.exists());
    home.run(&["disable", "--yes"]).success();
    assert!(!home.env.project().join(".opencode").exists());
    assert_eq!((home.files(), home.kept()), (before, Vec::new()));
}

#[test]
fn links_of_a_project_are_not_followed() {
    let home = AgentHome::bare();
    let project = home.env.project();
    let theirs = home.path(".zshrc");
    fs::write(&theirs, "theirs").unwrap();
    let file = project.join(".opencode/plugins/abide.js");
    let refused = |link: &Path| {
        let done = home.run(&["enable", "opencode", "--project", "--yes"]).failure(1);
        assert!(
            done.stderr.contains(&format!("{} is a symbolic link", link.display())),
            "{done:?}"
        );
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    };
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    symlink(&theirs, &file).unwrap();
    refused(&file);
    fs::remove_dir_all(project.join(".opencode")).unwrap();
    symlink(home.path(".config"), project.join(".opencode")).unwrap();
    refused(&project.join(".opencode"));
    fs::remove_file(project.join(".opencode")).unwrap();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    symlink(&theirs, file.with_file_name(".abide.js.abide-tmp")).unwrap();
    home.run(&["enable", "opencode", "--project", "--yes"]).success();
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    assert!(file.exists());
    home.run(&["disable", "--project", "--yes"]).success();
    // Settings beside it are no other.
    let settings = project.join(".claude/settings.local.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    symlink(home.path(".claude/settings.json"), &settings).unwrap();
    let done = home.run(&["enable", "claude", "--project", "--yes"]).failure(1);
    assert!(done.stderr.contains("is a symbolic link"), "{done:?}");
    assert_eq!(home.calls(), Vec::<String>::new());
}

#[test]
fn doctor_tells_of_agents_before_anything_is_recorded_and_of_each_for_itself() {
    let env = TestEnvironment::with(StoreLayout::Person);
    add_agents(&env);
    let home = AgentHome { env };
    home.run(&["doctor", "--json"]).failure(1);
    home.run(&["enable", "gemini", "codex", "--yes"]).success();
    let done = home.run(&["doctor", "--json"]).success();
    assert_eq!(done.json_lines()[0].pointer("/agents/2/state"), Some(&json!("enabled")));
    let done = home.run(&["doctor"]).success();
    assert!(done.stdout().contains("  gemini: enabled, nothing heard yet\n"), "{done:?}");
    // A record that cannot be read is told where it belongs.
    fs::write(home.path(".local/share/abide/plugins/codex.json"), b"\xff").unwrap();
    let done = home.run(&["doctor", "--json"]).success();
    let agents = done.json_lines()[0]["agents"].clone();
    assert!(agents[1]["advice"].as_str().unwrap().contains("codex.json"), "{agents}");
    assert_eq!(agents[2]["state"], "enabled");
}

#[test]
fn what_another_directory_of_settings_still_uses_stays() {
    let home = AgentHome::bare();
    let before = home.files();
    let other = home.path("other/codex");
    fs::create_dir_all(&other).unwrap();
    let in_other = |args: &[&str]| {
        let mut command = home.command(args);
        command
            .env("XDG_CONFIG_HOME", home.path("other"))
            .env("GEMINI_CLI_HOME", home.path("other"));
        run(command, b"")
    };
    home.run(&["enable", "gemini", "opencode", "--yes"]).success();
    in_other(&["enable", "gemini", "opencode", "--yes"]).success();
    home.run(&["disable", "--yes"]).success();
    assert!(home.path("other/.gemini/extensions/abide").exists());
    assert!(home.path("other/opencode/plugins/abide.js").exists());
    let done = in_other(&["enable", "--dry-run", "gemini", "opencode"]).success();
    assert_eq!(done.stdout().matches("enabled already").count(), 2, "{done:?}");
    assert_ne!(home.kept(), Vec::<PathBuf>::new());
    in_other(&["disable", "--yes"]).success();
    fs::remove_dir_all(home.path("other")).unwrap();
    assert_eq!((home.files(), home.kept()), (before, Vec::new()));
}

#[test]
fn a_plugin_of_that_name_by_somebody_else_is_left_alone() {
    let home = AgentHome::bare();
    home.write(".config/opencode/plugins/abide.js", "// mine\n");
    home.write(".gemini/extensions/abide/gemini-extension.json", "{}");
    home.write(
        ".claude/settings.json",
        r#"{"extraKnownMarketplaces": {"abide": {"source": {"path": "/elsewhere"}}}}"#,
    );
    home.write(".codex/config.toml", "[marketplaces.abide]\nsource = \"/elsewhere\"\n");
    let before = home.files();
    for command in ["enable", "disable"] {
        let done = home.run(&[command, "--yes"]).failure(1);
        assert_eq!(done.stderr.matches("was not written by abide").count(), 4, "{done:?}");
        assert_eq!((home.files(), home.calls().len()), (before.clone(), 0));
    }
}
