//! A place of its own for each test: a home, a project, and nothing from outside.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use abide::{LocalOptions, LocalStore};
use serde_json::Value;
use tempfile::TempDir;

/// The binary under test.
pub(crate) const ABIDE: &str = env!("CARGO_BIN_EXE_abide");

pub(crate) const HELLO: &str =
    r#"{"kind":"message.added","data":{"role":"user","content":"hello"}}"#;

pub(crate) struct TestEnvironment {
    dir: TempDir,
    layout: StoreLayout,
    /// How long a server is waited for that does not answer; as long as always where it is not said.
    connect_timeout: Option<&'static str>,
}

/// Which store the commands find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreLayout {
    /// The project's own.
    Project,
    /// The person's: the project has none.
    Person,
}

/// What a command left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn stdout(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let lines = self.stdout().lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
            .collect()
    }

    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn failure(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

impl TestEnvironment {
    /// The project has a store of its own.
    pub(crate) fn new() -> Self {
        Self::with(StoreLayout::Project)
    }

    /// Nothing has a store yet: the first recording makes the person's.
    pub(crate) fn bare() -> Self {
        Self::with(StoreLayout::Person)
    }

    pub(crate) fn with(layout: StoreLayout) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        fs::create_dir(dir.path().join("project")).unwrap();
        let env = Self { dir, layout, connect_timeout: None };
        if layout == StoreLayout::Project {
            LocalStore::init(&env.store(), LocalOptions::default()).unwrap();
        }
        env
    }

    /// One whose servers do not answer: they are not waited for.
    pub(crate) fn without_servers() -> Self {
        Self { connect_timeout: Some("0.05"), ..Self::bare() }
    }

    /// The store that the commands find in the project.
    pub(crate) fn store(&self) -> PathBuf {
        match self.layout {
            StoreLayout::Project => self.project().join(".abide"),
            StoreLayout::Person => self.path("home/.local/share/abide/store"),
        }
    }

    /// A command in another directory.
    pub(crate) fn command_in(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.current_dir(dir);
        command
    }

    pub(crate) fn run_in(&self, dir: &Path, args: &[&str]) -> Done {
        run(self.command_in(dir, args), b"")
    }

    pub(crate) fn record_in(&self, dir: &Path, args: &[&str], line: &str) -> Done {
        run(self.command_in(dir, &[&["record"], args].concat()), format!("{line}\n").as_bytes())
    }

    /// Git, with nothing of this machine's settings.
    pub(crate) fn git(&self, dir: &Path, args: &[&str]) -> Done {
        let mut command = self.isolate(Command::new("git"));
        command
            .args(["-c", "user.name=x", "-c", "user.email=x@example.org"])
            .args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"])
            .args(args)
            .current_dir(dir);
        run(command, b"").success()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// The directory of the only session.
    pub(crate) fn session_dir(&self) -> PathBuf {
        let sessions = self.store().join("sessions");
        let entries = fs::read_dir(sessions).unwrap().map(|entry| entry.unwrap().path());
        let mut dirs = entries.filter(|path| !path.ends_with(".git"));
        let dir = dirs.next().unwrap();
        assert!(dirs.next().is_none());
        dir
    }

    /// Makes the store keep transcripts.
    pub(crate) fn keep_transcripts(&self) {
        let config = self.store().join("config.toml");
        let text = fs::read_to_string(&config).unwrap();
        let live = text.replace("# transcript = \"live\"", "transcript = \"live\"");
        assert_ne!(text, live);
        fs::write(&config, live).unwrap();
    }

    pub(crate) fn isolate(&self, mut command: Command) -> Command {
        command
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC")
            .env("TERM", "xterm")
            .env("PAGER", "cat")
            .env("TMPDIR", self.path("home"))
            .envs(self.connect_timeout.map(|seconds| ("PGCONNECT_TIMEOUT", seconds)))
            .current_dir(self.project());
        // A deliberate break (crates/abide-sabotage) is switched on in the program under test.
        for name in ["ABIDE_BREAK", "ABIDE_BREAK_WITNESS"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.isolate(Command::new(ABIDE));
        command.args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        run(self.command(args), b"")
    }

    pub(crate) fn record(&self, args: &[&str], lines: &[&str]) -> Done {
        let mut input = lines.join("\n");
        input.push('\n');
        self.record_bytes(args, input.as_bytes())
    }

    pub(crate) fn record_bytes(&self, args: &[&str], input: &[u8]) -> Done {
        run(self.command(&[&["record"], args].concat()), input)
    }

    /// Makes texts that differ from run to run the same.
    pub(crate) fn filters(&self) -> insta::internals::SettingsBindDropGuard {
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(&format!("(/private)?{}", self.dir.path().display()), "[TEMP]");
        settings.add_filter(
            "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}",
            "[SESSION]",
        );
        settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "[TIME]");
        settings.add_filter(r"\(process \d+ on [^)]+\)", "(process [N] on [HOST])");
        settings.add_filter(r#","who":"[^"]+""#, "");
        settings.bind_to_scope()
    }
}

/// Runs a command to its end with this input.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Done {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let done = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A command that needs no input may be gone already.
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    });
    Done {
        code: done.status.code().unwrap_or(-1),
        out: done.stdout,
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}

/// `abide record` with somebody at the other end of its pipes.
pub(crate) struct Conversation {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: BufReader<ChildStdout>,
}

impl Conversation {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    pub(crate) fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
    }

    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line:?}"))
    }

    pub(crate) fn ask(&mut self, line: &str) -> Value {
        self.send(line);
        self.receive()
    }

    pub(crate) fn end(mut self) -> i32 {
        self.input.take();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every file below a directory with its bytes.
pub(crate) fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            // A holder that was killed leaves its socket, which cannot be read.
            let bytes = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            found.push((path, bytes));
        }
    }
    found.sort();
    found
}
