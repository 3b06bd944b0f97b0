//! An agent whose program never ends, and one whose server never answers.

#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use abide_hooks::{PluginError, PluginHost, PluginState, TrustState};

/// Agents that all run this script.
fn host(dir: &Path, script: &str, limit: Duration) -> PluginHost {
    let bin = dir.join("bin");
    fs::create_dir_all(&bin).unwrap();
    for agent in PluginHost::agents() {
        let program = bin.join(agent.program());
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir_all(dir.join("home")).unwrap();
    let path = OsString::from(format!("{}:/usr/bin:/bin", bin.display()));
    let variable = move |name: &str| (name == "PATH").then(|| path.clone());
    let program = std::env::current_exe().unwrap();
    PluginHost::new(&dir.join("home"), &dir.join("data"), &program, variable).with_limit(limit)
}

#[test]
fn a_command_that_never_ends_is_ended_with_what_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let told = dir.path().join("told");
    let script = format!(
        "trap 'echo >>{1}; exit 1' TERM; sleep 1000 & echo $! >>{0}; echo $$ >>{0}; wait",
        pids.display(),
        told.display()
    );
    let host = host(dir.path(), &script, Duration::from_millis(500));
    let mut ended = 0;
    for agent in PluginHost::agents() {
        let plan = host.plan_enable(agent, None).unwrap();
        match host.apply(&plan) {
            // It has no commands that are run.
            Ok(()) => assert_eq!(host.state(agent, None).unwrap(), PluginState::Installed),
            Err(PluginError::TimedOut { command, .. }) => {
                assert!(command.contains("plugin"), "{command}");
                ended += 1;
            }
            Err(error) => panic!("{error}"),
        }
        // What was begun is taken out, though the program hangs again.
        host.apply(&host.plan_disable(agent, None).unwrap()).unwrap();
        assert_eq!(host.state(agent, None).unwrap(), PluginState::Absent);
    }
    assert!(ended >= 2, "{ended}");
    // Each was told before it was killed.
    let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().count();
    assert_eq!(2 * lines(&told), lines(&pids));
    // All of them are gone, or ended and not yet collected by whoever has to.
    for pid in fs::read_to_string(&pids).unwrap().lines() {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = state.rsplit(") ").next().unwrap_or_default();
        assert!(state.is_empty() || state.starts_with(['Z', 'X']), "{pid}: {state}");
    }
}

#[test]
fn a_server_that_never_answers_leaves_the_trust_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path(), "while read -r line; do :; done", Duration::from_millis(200));
    let mut asked = 0;
    for agent in PluginHost::agents() {
        match host.hooks_to_trust(agent) {
            Ok(hooks) => assert_eq!(hooks, None),
            Err(PluginError::NotTrusted { reason, .. }) => {
                assert!(reason.contains("in time"), "{reason}");
                asked += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(asked > 0);
    let conditions = host.conditions();
    assert_eq!(conditions.len(), PluginHost::agents().count());
    let trusted = Some(TrustState::Trusted);
    assert!(conditions.iter().all(|one| one.state == PluginState::Absent && one.trust != trusted));
}

#[test]
fn a_project_whose_path_cannot_be_noted_is_refused_and_the_record_stays() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path(), "exit 0", Duration::from_secs(60));
    let odd = dir.path().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    let mut refused = 0;
    for agent in PluginHost::agents() {
        match host.plan_enable(agent, Some(&odd)) {
            Err(PluginError::NotUtf8 { path }) => {
                assert_eq!(path, odd);
                refused += 1;
            }
            Err(PluginError::NoProject { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(refused > 0);
}

#[test]
fn while_a_command_of_an_agent_runs_nobody_else_changes_plugins() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    // It leaves behind what an abide that is killed leaves behind.
    let script = format!("exec 3<&0; sleep 1000 <&3 & echo $! >>{}", pid.display());
    let host = host(dir.path(), &script, Duration::from_millis(300));
    let mut left = false;
    for agent in PluginHost::agents() {
        let plan = host.plan_enable(agent, None).unwrap();
        let done = host.apply(&plan);
        assert_eq!(matches!(done, Err(PluginError::Busy)), left, "{done:?}");
        if pid.exists() {
            left = true;
        }
    }
    assert!(left);
    for pid in fs::read_to_string(&pid).unwrap().lines() {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}
