//! The state of the git repository around a workspace. It is only looked at: nothing is locked,
//! refreshed or written, and nothing that the repository's own configuration names is run.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use abide_model::GitState;

/// The most paths in each list.
const MOST: usize = 10_000;
/// The most bytes that git may answer with.
const MOST_BYTES: u64 = 64 << 20;
/// How long git may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The state of the repository that `dir` is in. `None` where there is none; what goes wrong
/// stands inside.
#[must_use]
pub fn git_state(dir: &Path) -> Option<GitState> {
    dir.ancestors().find(|dir| dir.join(".git").exists())?;
    Some(match status(dir) {
        Ok(bytes) => parse(&bytes),
        Err(error) => GitState { error: Some(error), ..GitState::default() },
    })
}

fn status(dir: &Path) -> Result<Vec<u8>, String> {
    let mut child = Command::new("git")
        .args(["--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath="])
        .args(["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal"])
        .current_dir(dir)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("git cannot be run: {error}"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let answer = std::thread::spawn(move || read_to_end(stdout));
    let complaint = std::thread::spawn(move || read_to_end(stderr));
    let until = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(1);
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if Instant::now() >= until => {
                let _ = child.kill();
                let _ = child.wait();
                break Err(format!("git took longer than {} s", PATIENCE.as_secs()));
            }
            Ok(None) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            Err(error) => break Err(format!("git cannot be waited for: {error}")),
        }
    };
    let answer = answer.join().unwrap_or_default();
    let complaint = complaint.join().unwrap_or_default();
    match ended? {
        status if status.success() => Ok(answer),
        status => {
            let said = String::from_utf8_lossy(&complaint);
            let said = said.lines().next().unwrap_or_default().trim();
            Err(format!("git status failed ({status}): {said}"))
        }
    }
}

fn read_to_end(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(MOST_BYTES).read_to_end(&mut bytes);
    }
    bytes
}

/// Reads what `git status --porcelain=v2 --branch -z` says.
fn parse(bytes: &[u8]) -> GitState {
    let mut state = GitState::default();
    let mut records = bytes.split(|byte| *byte == 0);
    while let Some(record) = records.next() {
        let text = String::from_utf8_lossy(record);
        let (kind, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match kind {
            "#" => header(&mut state, rest),
            "?" => add(&mut state.untracked, rest),
            "1" | "u" => {
                let fields = if kind == "1" { 7 } else { 9 };
                if let Some(path) = rest.splitn(fields + 1, ' ').nth(fields) {
                    changed(&mut state, rest, path);
                }
            }
            "2" => {
                let from = records.next().map(String::from_utf8_lossy).unwrap_or_default();
                if let Some(path) = rest.splitn(9, ' ').nth(8) {
                    changed(&mut state, rest, path);
                    if state.renamed.len() < MOST {
                        state.renamed.push((from.into_owned(), path.to_owned()));
                    }
                }
            }
            _ => {}
        }
    }
    state
}

fn header(state: &mut GitState, rest: &str) {
    match rest.split_once(' ') {
        Some(("branch.oid", oid)) if oid != "(initial)" => state.head = Some(oid.to_owned()),
        Some(("branch.head", head)) if head != "(detached)" => {
            state.branch = Some(head.to_owned());
        }
        _ => {}
    }
}

/// A path whose state is given by two letters: in the index, and in the work tree.
fn changed(state: &mut GitState, rest: &str, path: &str) {
    let mut letters = rest.chars();
    if letters.next().is_some_and(|letter| letter != '.') {
        add(&mut state.staged, path);
    }
    if letters.next().is_some_and(|letter| letter != '.') {
        add(&mut state.modified, path);
    }
}

fn add(paths: &mut Vec<String>, path: &str) {
    if paths.len() < MOST {
        paths.push(path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn git(dir: &Path, args: &[&str]) {
        let done = Command::new("git")
            .args(["-c", "user.name=x", "-c", "user.email=x@example.org"])
            .args(["-c", "init.defaultBranch=main"])
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn every_kind_of_change_is_told_names_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert_eq!(git_state(dir), None);
        git(dir, &["init", "-q"]);
        let unborn = git_state(dir).unwrap();
        assert_eq!((unborn.branch.as_deref(), &unborn.head), (Some("main"), &None));
        let long = "a line that is long enough to be known again\n".repeat(9);
        fs::write(dir.join("old name.txt"), &long).unwrap();
        fs::write(dir.join("ä file"), "x").unwrap();
        git(dir, &["add", "."]);
        git(dir, &["commit", "-q", "-m", "x"]);
        git(dir, &["mv", "old name.txt", "new\nname.txt"]);
        fs::write(dir.join("ä file"), "y").unwrap();
        fs::write(dir.join("more"), "z").unwrap();
        let index = fs::read(dir.join(".git/index")).unwrap();
        let state = git_state(&dir.join(".")).unwrap();
        assert_eq!(state.head.as_ref().map(String::len), Some(40));
        assert_eq!(state.staged, ["new\nname.txt"]);
        assert_eq!(state.modified, ["ä file"]);
        assert_eq!(state.untracked, ["more"]);
        assert_eq!(state.renamed, [("old name.txt".to_owned(), "new\nname.txt".to_owned())]);
        assert_eq!(state.error, None);
        assert_eq!(fs::read(dir.join(".git/index")).unwrap(), index);
    }

    #[test]
    fn a_failure_stands_inside() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".git"), "gitdir: nowhere\n").unwrap();
        let state = git_state(dir.path()).unwrap();
        assert!(state.error.unwrap().starts_with("git status failed"));
    }
}
