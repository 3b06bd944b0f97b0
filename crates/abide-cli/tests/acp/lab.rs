//! A project, and the ways to talk to an agent in it: directly, or through the proxy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use abide_testkit::AcpClient;
use serde_json::{Value, json};

use crate::environment::{ABIDE, TestEnvironment};

/// The stubbed agent as a program. It belongs to another package, whose programs cargo builds only
/// with the whole workspace: where it is missing or old it is built, beside the binary under test.
/// `STUB_AGENT` names another one.
pub(crate) fn stub_agent() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(named) = std::env::var_os("STUB_AGENT") {
            return named.into();
        }
        let beside = Path::new(ABIDE).parent().unwrap();
        let built = beside.join("stub-agent");
        let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../abide-testkit");
        let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
        let is_new = changed(&built).is_some_and(|when| when > newest(&kit.join("src")));
        if !is_new {
            let profile = match beside.file_name().and_then(|name| name.to_str()) {
                Some("debug") | None => "dev",
                Some(name) => name,
            };
            let status = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "--locked", "--bin", "stub-agent", "--profile", profile])
                .arg("--manifest-path")
                .arg(kit.join("Cargo.toml"))
                .arg("--target-dir")
                .arg(beside.parent().unwrap())
                .status()
                .unwrap();
            assert!(status.success(), "the stubbed agent cannot be built");
        }
        built
    })
}

/// When anything below a directory was last changed.
fn newest(dir: &Path) -> SystemTime {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let times = entries.map(|path| {
        if path.is_dir() { newest(&path) } else { fs::metadata(path).unwrap().modified().unwrap() }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

pub(super) struct AcpLab {
    pub(super) env: TestEnvironment,
}

impl AcpLab {
    pub(super) fn new() -> Self {
        Self { env: TestEnvironment::new() }
    }

    /// In a project that has no store of its own.
    pub(super) fn bare() -> Self {
        Self { env: TestEnvironment::bare() }
    }

    pub(super) fn cwd(&self) -> String {
        self.env.project().to_str().unwrap().to_owned()
    }

    /// A file beside the project.
    pub(super) fn beside(&self, name: &str) -> String {
        self.env.path(name).to_str().unwrap().to_owned()
    }

    /// The agent itself.
    pub(super) fn direct(&self, agent: &[&str]) -> AcpClient {
        let mut command = self.env.isolate(Command::new(stub_agent()));
        command.args(agent);
        let mut client = AcpClient::start(command);
        client.answering(consenting);
        client
    }

    /// The agent through `abide acp`.
    pub(super) fn proxy(&self, agent: &[&str]) -> AcpClient {
        self.proxy_with(&[], agent)
    }

    /// The same, with options for `abide acp`.
    pub(super) fn proxy_with(&self, options: &[&str], agent: &[&str]) -> AcpClient {
        let mut command = self.env.command(&["acp"]);
        command.args(options).arg("--").arg(stub_agent()).args(agent);
        let mut client = AcpClient::start(command);
        client.answering(consenting);
        client
    }

    /// Introduces the client and makes a session; its id.
    #[track_caller]
    pub(super) fn open(&self, client: &mut AcpClient) -> String {
        client.initialize();
        self.another(client)
    }

    /// Makes a session; its id.
    #[track_caller]
    pub(super) fn another(&self, client: &mut AcpClient) -> String {
        let made = client.must("session/new", json!({"cwd": self.cwd(), "mcpServers": []}));
        made["sessionId"].as_str().unwrap().to_owned()
    }

    /// What names a session in a request.
    pub(super) fn of(&self, session: &str) -> Value {
        json!({"sessionId": session, "cwd": self.cwd(), "mcpServers": []})
    }

    /// Loads a session; the updates that replay it.
    #[track_caller]
    pub(super) fn load(&self, client: &mut AcpClient, session: &str) -> Vec<Value> {
        let from = client.received.len();
        client.must("session/load", self.of(session));
        client.updates(session, from)
    }

    /// Every event of the latest session, as recorded by now.
    #[track_caller]
    pub(super) fn events(&self) -> Vec<Value> {
        self.env.run(&["export"]).success().json_lines()
    }

    /// How often there is an event of this kind.
    #[track_caller]
    pub(super) fn count(&self, kind: &str) -> usize {
        self.events().iter().filter(|event| event["kind"] == kind).count()
    }

    /// The store has no fault.
    #[track_caller]
    pub(super) fn healthy(&self) {
        self.env.run(&["doctor", "--all"]).success();
    }
}

/// A client that says yes to everything.
pub(super) fn consenting(request: &Value) -> Option<Result<Value, Value>> {
    Some(Ok(match request["method"].as_str().unwrap_or_default() {
        "session/request_permission" => {
            json!({"outcome": {"outcome": "selected", "optionId": "allow"}})
        }
        "fs/read_text_file" => json!({"content": "what the file holds\n"}),
        "fs/write_text_file" | "terminal/release" => json!({}),
        "terminal/create" => json!({"terminalId": "terminal-1"}),
        "terminal/wait_for_exit" => json!({"exitCode": 0, "signal": null}),
        "terminal/output" => json!({"output": "out\n", "truncated": false}),
        "_x/ask" => json!({"custom": {"answer": 42}}),
        other => return Some(Err(json!({"code": -32601, "message": format!("no {other}")}))),
    }))
}

/// The children of a process that have this name.
pub(super) fn children(process: u32, name: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return found };
    for task in tasks.flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
            let command = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            if command.trim() == name {
                found.push(child);
            } else {
                found.extend(self::children(child, name));
            }
        }
    }
    found
}
