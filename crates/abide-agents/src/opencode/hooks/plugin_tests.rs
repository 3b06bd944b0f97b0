//! The plugin as it runs: with an abide that takes what it is told, and without one that does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tests::hook_payloads::{report, step_line};

const PLUGIN: &str = include_str!("plugin.js");

/// A directory of one test.
struct PluginRun(PathBuf);

impl PluginRun {
    fn new(name: &str) -> Self {
        let place =
            std::env::temp_dir().join(format!("abide-plugin-{name}-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        Self(place)
    }

    /// Runs the plugin with this program as abide; `None` where there is no Node to run it with. Two
    /// limits are short.
    fn run(&self, abide: &Path) -> Option<()> {
        let plugin = self.0.join("plugin.mjs");
        let program = serde_json::to_string(abide.to_str().unwrap()).unwrap();
        let text = PLUGIN.replace("__ABIDE__", &program);
        let quick = text.replace("const ASK = 500", "const ASK = 100");
        let quick = match abide.ends_with("hangs") {
            true => quick.replace("const LIMIT = 2000", "const LIMIT = 100"),
            false => quick.replace("const LIMIT = 2000", "const LIMIT = 60000"),
        };
        assert!(text != PLUGIN && quick != text);
        fs::write(&plugin, quick).unwrap();
        let driver =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("src/opencode/hooks/plugin_driver.mjs");
        let node = Command::new("node").arg(driver).arg(&plugin).arg("/home/me").output();
        let Ok(done) = node else {
            eprintln!("skipped: there is no node");
            return None;
        };
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && errors.is_empty(), "{errors}");
        assert_eq!(String::from_utf8_lossy(&done.stdout), "");
        Some(())
    }

    /// A program that does this with what it is told.
    #[cfg(unix)]
    fn program(&self, name: &str, script: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for PluginRun {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn it_has_one_place_for_the_program_and_no_dependency() {
    assert_eq!(PLUGIN.matches("__ABIDE__").count(), 1);
    let imports = PLUGIN.lines().filter(|line| line.contains("import "));
    assert!(imports.eq([r#"import { spawn } from "node:child_process""#]));
}

#[cfg(unix)]
#[test]
fn it_tells_what_happens_in_the_order_in_which_it_happens() {
    let place = PluginRun::new("tells");
    let told = place.0.join("told");
    let script =
        format!(r#"d=$(cat); printf '%s %s\t%s\n' "$1" "$2" "$d" >> "{}""#, told.display());
    if place.run(&place.program("abide", &script)).is_none() {
        return;
    }
    let told = fs::read_to_string(told).unwrap();
    let lines = |session: &str| -> Vec<String> {
        let payloads = told.lines().map(|line| line.strip_prefix("hook opencode\t").unwrap());
        let reports = payloads.map(|payload| report("opencode", payload).unwrap());
        let own = reports.filter(|report| report.session == session);
        own.map(|report| {
            let parent = report.parent.as_deref().unwrap_or("-");
            let directory = report.directory.as_ref().unwrap().display();
            let turn = report.turn.as_deref().unwrap_or("-");
            format!("{directory} {parent} {turn}: {}", step_line(&report.step))
        })
        .collect()
    };
    assert_eq!(
        lines("ses_main"),
        [
            "/home/me - -: started",
            "/home/me - msg_1: a person says \"first\\nsecond\"",
            "/home/me - msg_1: bash c1 ok",
            "/home/me - msg_1: completed \"Done.\"",
            "/home/me - msg_3: a person says \"again\"",
            "/home/me - msg_3: completed \"Better.\"",
            "/home/me - msg_4: a person says \"once more\"",
            "/home/me - msg_4: interrupted \"-\"",
            "/home/me - msg_5: a person says \"and more\"",
            // Nothing else told its end.
            "/home/me - msg_5: failed \"-\"",
            "/home/me - msg_5: ended",
        ]
    );
    assert_eq!(
        lines("ses_child"),
        [
            "/elsewhere ses_main msg_2: a machine says \"count\"",
            "/elsewhere ses_main msg_2: completed \"-\"",
            "/elsewhere ses_main msg_2: ended",
        ]
    );
    assert_eq!(
        lines("ses_torn"),
        [
            "/elsewhere ses_main msg_8: a machine says \"torn\"",
            "/elsewhere ses_main msg_9: a machine says \"next\"",
            "/elsewhere ses_main msg_9: completed \"-\"",
            "/elsewhere ses_main msg_9: ended",
        ]
    );
    assert_eq!(
        lines("ses_open").get(1).map(String::as_str),
        Some("/elsewhere ses_main msg_10: completed \"Long.\"")
    );
    assert_eq!(
        lines("ses_large"),
        [
            "/elsewhere ses_main msg_11: a machine says \"large\"",
            "/elsewhere ses_main msg_11: bash c3 ok",
            "/elsewhere ses_main msg_11: completed \"-\"",
            "/elsewhere ses_main msg_11: ended",
        ]
    );
    // The turns of these did not end: the session did.
    for (session, turn, prompt) in [("ses_broken", "msg_6", "a"), ("ses_slow", "msg_7", "b")] {
        let says = format!("/home/me - {turn}: a person says \"{prompt}\"");
        assert_eq!(lines(session), [says, format!("/home/me - {turn}: ended")]);
    }
}

#[cfg(unix)]
#[test]
fn an_abide_that_is_gone_refuses_or_hangs_changes_nothing() {
    let place = PluginRun::new("quiet");
    place.run(Path::new("/nowhere/abide"));
    place.run(&place.program("refuses", "echo no; echo no >&2; exit 2"));
    place.run(&place.program("hangs", "exec sleep 600"));
}
