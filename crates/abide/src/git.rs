//! Reads the state of the git repository around a workspace. Read-only: nothing is locked,
//! refreshed, fetched or written, and no program named in a configuration is run.
//!
//! Filters (`filter.NAME.clean`) are such programs, so they are disabled. A file that goes through
//! one therefore counts as modified as soon as its time or size differs from the index.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use abide_model::GitState;

/// Maximum number of paths in each list.
const MOST: usize = 10_000;
/// Maximum size of git's output in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// Maximum time for a git command.
const PATIENCE: Duration = Duration::from_secs(30);

/// Variables set by a git command that started this process. They would select another repository
/// or override its settings.
const ELSEWHERE: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
];

/// The state of the repository that contains `dir`; `None` if there is none. Errors are recorded
/// inside.
#[must_use]
pub fn git_state(dir: &Path) -> Option<GitState> {
    dir.ancestors().find(|dir| dir.join(".git").exists())?;
    Some(match read_git_status(dir) {
        Ok(bytes) => parse_git_status(&bytes),
        Err(error) => GitState { error: Some(error), ..GitState::default() },
    })
}

/// Runs a read-only git command and returns its output without the final line break.
pub(crate) fn ask_git(dir: &Path, question: &[&str]) -> Result<String, String> {
    let mut command = git_command(dir);
    // Replacement objects exist only in this clone.
    command.args(question).env("GIT_NO_REPLACE_OBJECTS", "1");
    let what = format!("git {}", question.first().unwrap_or(&""));
    let said = git_answer(&what, command, PATIENCE)?;
    Ok(String::from_utf8_lossy(&said).trim_end_matches('\n').to_owned())
}

fn read_git_status(dir: &Path) -> Result<Vec<u8>, String> {
    let mut config = git_command(dir);
    config.args(["config", "--null", "--name-only", "--list"]);
    let configured = git_answer("git config", config, PATIENCE)?;
    if configured.len() as u64 >= MOST_BYTES {
        return Err("the output of git config is too long to check it for filters".to_owned());
    }
    let mut status = git_command(dir);
    status.env("ABIDE_OFF", "").env("ABIDE_FALSE", "false");
    for driver in git_filters(&configured) {
        // Not `-c`: a driver's name may contain a `=`.
        for (key, value) in [("clean", "OFF"), ("process", "OFF"), ("required", "FALSE")] {
            let mut option = OsString::from("--config-env=filter.");
            option.push(driver);
            option.push(format!(".{key}=ABIDE_{value}"));
            status.arg(option);
        }
    }
    status.args(["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal"]);
    // Looking inside a submodule would use the submodule's own configuration.
    status.arg("--ignore-submodules=dirty");
    git_answer("git status", status, PATIENCE)
}

/// A git command that runs no hooks and no file system monitor.
fn git_command(dir: &Path) -> Command {
    let mut command = Command::new("git");
    for variable in ELSEWHERE {
        command.env_remove(variable);
    }
    command
        .args(["--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath="])
        .current_dir(dir)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_LAZY_FETCH", "1");
    command
}

/// The filter drivers among the keys of a configuration. They are bytes: anything but a line break
/// or a zero byte can be in one.
fn git_filters(names: &[u8]) -> BTreeSet<&OsStr> {
    names.split(|byte| *byte == 0).filter_map(git_filter).collect()
}

/// The driver that a key belongs to, if it is a filter setting.
fn git_filter(name: &[u8]) -> Option<&OsStr> {
    let rest = name.strip_prefix(b"filter.")?;
    let end = rest.iter().rposition(|byte| *byte == b'.')?;
    rest.get(..end).map(OsStr::from_bytes)
}

/// The output of a command that succeeds in time. Afterwards nothing of it is left running.
fn git_answer(what: &str, mut command: Command, patience: Duration) -> Result<Vec<u8>, String> {
    // Its own process group, so that everything it starts can be killed with it.
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run git: {error}"))?;
    let group = rustix::process::Pid::from_child(&child);
    let (said, complaint) =
        (read_git_pipe(child.stdout.take()), read_git_pipe(child.stderr.take()));
    let until = Instant::now() + patience;
    let left = || until.saturating_duration_since(Instant::now());
    // Its pipes close when it ends, so there is no need to poll. A process it left behind may hold
    // them open indefinitely.
    let texts = said.recv_timeout(left()).ok().zip(complaint.recv_timeout(left()).ok());
    let mut pause = Duration::from_micros(50);
    let ended = loop {
        match child.try_wait() {
            Ok(None) if left() > Duration::ZERO => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            ended => break ended,
        }
    };
    let (Ok(Some(status)), Some((said, complaint))) = (ended, texts) else {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = child.wait();
        return Err(format!("{what} took longer than {} s", patience.as_secs()));
    };
    if status.success() {
        return Ok(said);
    }
    let complaint = String::from_utf8_lossy(&complaint);
    let complaint = complaint.lines().next().unwrap_or_default().trim();
    Err(format!("{what} failed ({status}): {complaint}"))
}

/// Reads a pipe to its end on a thread that nobody has to wait for.
fn read_git_pipe(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(MOST_BYTES).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

/// Parses the output of `git status --porcelain=v2 --branch -z`.
fn parse_git_status(bytes: &[u8]) -> GitState {
    let mut state = GitState::default();
    let mut records = bytes.split(|byte| *byte == 0);
    while let Some(record) = records.next() {
        let text = String::from_utf8_lossy(record);
        let (kind, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match kind {
            "#" => parse_git_header(&mut state, rest),
            "?" => add_git_path(&mut state.untracked, rest),
            "1" | "u" => {
                let fields = if kind == "1" { 7 } else { 9 };
                if let Some(path) = rest.splitn(fields + 1, ' ').nth(fields) {
                    add_git_change(&mut state, rest, path);
                }
            }
            "2" => {
                let from = records.next().map(String::from_utf8_lossy).unwrap_or_default();
                if let Some(path) = rest.splitn(9, ' ').nth(8) {
                    add_git_change(&mut state, rest, path);
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

fn parse_git_header(state: &mut GitState, rest: &str) {
    match rest.split_once(' ') {
        Some(("branch.oid", oid)) if oid != "(initial)" => state.head = Some(oid.to_owned()),
        Some(("branch.head", head)) if head != "(detached)" => {
            state.branch = Some(head.to_owned());
        }
        _ => {}
    }
}

/// A path with its state in two letters: in the index, and in the work tree.
fn add_git_change(state: &mut GitState, rest: &str, path: &str) {
    let mut letters = rest.chars();
    if letters.next().is_some_and(|letter| letter != '.') {
        add_git_path(&mut state.staged, path);
    }
    if letters.next().is_some_and(|letter| letter != '.') {
        add_git_path(&mut state.modified, path);
    }
}

fn add_git_path(paths: &mut Vec<String>, path: &str) {
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
    fn what_another_git_was_told_is_not_passed_on() {
        let command = super::git_command(Path::new("."));
        let removed = |name: &str| command.get_envs().any(|(set, to)| set == name && to.is_none());
        for name in ["GIT_DIR", "GIT_COMMON_DIR", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"] {
            assert!(removed(name), "{name}");
        }
    }

    #[test]
    fn a_failure_stands_inside() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".git"), "gitdir: nowhere\n").unwrap();
        let state = git_state(dir.path()).unwrap();
        assert!(state.error.unwrap().starts_with("git config failed"));
    }

    #[test]
    fn no_filter_of_the_repository_runs() {
        let dir = tempfile::tempdir().unwrap();
        let ran = dir.path().join("ran");
        let dir = dir.path().join("repository");
        fs::create_dir(&dir).unwrap();
        git(&dir, &["init", "-q"]);
        fs::write(dir.join(".gitattributes"), "a filter=one=1\nb filter=Two.x\n").unwrap();
        fs::write(dir.join(".git/info/attributes"), "c filter=three\n").unwrap();
        for name in ["a", "b", "c"] {
            fs::write(dir.join(name), "1").unwrap();
        }
        git(&dir, &["add", "."]);
        git(&dir, &["commit", "-q", "-m", "x"]);
        let clean = format!("touch '{}'; cat", ran.display());
        for key in ["filter.one=1.clean", "filter.Two.x.process", "filter.three.clean"] {
            git(&dir, &["config", key, &clean]);
        }
        git(&dir, &["config", "filter.Two.x.required", "true"]);
        // Of the same size, so that git has to look inside.
        for name in ["a", "b", "c"] {
            fs::write(dir.join(name), "2").unwrap();
        }
        let state = git_state(&dir).unwrap();
        assert_eq!((state.modified, state.error), (["a", "b", "c"].map(String::from).into(), None));
        assert!(!ran.exists());
        // The trap is one.
        Command::new("git").arg("status").current_dir(&dir).output().unwrap();
        assert!(ran.exists());
    }

    #[test]
    fn no_filter_runs_whose_name_is_not_utf_8() {
        let dir = tempfile::tempdir().unwrap();
        let ran = dir.path().join("ran");
        let dir = dir.path().join("repository");
        fs::create_dir(&dir).unwrap();
        git(&dir, &["init", "-q"]);
        fs::write(dir.join(".gitattributes"), b"a filter=x\xff\n").unwrap();
        fs::write(dir.join("a"), "1").unwrap();
        git(&dir, &["add", "."]);
        git(&dir, &["commit", "-q", "-m", "x"]);
        let mut config = fs::read(dir.join(".git/config")).unwrap();
        config.extend_from_slice(b"[filter \"x\xff\"]\n\trequired = true\n\tclean = ");
        config.extend_from_slice(format!("\"touch '{}'; cat\"\n", ran.display()).as_bytes());
        fs::write(dir.join(".git/config"), config).unwrap();
        fs::write(dir.join("a"), "2").unwrap();
        let state = git_state(&dir).unwrap();
        assert_eq!((state.modified, state.error), (vec!["a".to_owned()], None));
        assert!(!ran.exists());
        // The trap is one.
        Command::new("git").arg("status").current_dir(&dir).output().unwrap();
        assert!(ran.exists());
    }

    fn shell(script: &str) -> Result<Vec<u8>, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        git_answer("sh", command, Duration::from_millis(300))
    }

    #[test]
    fn who_holds_the_pipe_is_not_waited_for_and_ended() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        for end in ["", "; wait"] {
            let script = format!("sleep 600 & echo $! > '{}'{end}", pid.display());
            assert!(shell(&script).unwrap_err().contains("took longer"));
            let pid: u32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
            // Ended, though perhaps nobody has asked how.
            let runs = || {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
            };
            while runs() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        assert_eq!(shell("echo good; echo bad >&2").unwrap(), b"good\n");
        assert!(shell("echo bad >&2; exit 3").unwrap_err().ends_with(": bad"));
    }
}
