//! A project for every command that writes, and the oracle over what a fault left of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use abide_testkit::Random;
use serde_json::Value;

use crate::environment::{Done, HELLO, StoreLayout, files, run};
use crate::erase::{SECRET, holding};
use crate::fault::Fault;
use crate::lab::{Lab, Struck};

/// The lines that `record` is given.
const LINES: usize = 14;

/// The commands that write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    New,
    Record,
    Checkpoint,
    Rewind,
    Undo,
    Fork,
    Import,
    Cleanup,
    Erase,
    History,
}

pub(crate) const ACTIONS: [Action; 10] = [
    Action::New,
    Action::Record,
    Action::Checkpoint,
    Action::Rewind,
    Action::Undo,
    Action::Fork,
    Action::Import,
    Action::Cleanup,
    Action::Erase,
    Action::History,
];

/// A line of the batch; one has a payload that goes to a pack.
fn line(n: usize) -> String {
    let size = if n == 5 { 120_000 } else { 1_500 };
    let text = format!("{n} ").repeat(size / 3);
    format!(r#"{{"kind":"x.fault","data":{{"n":{n},"text":"{text}"}},"key":"k{n}"}}"#)
}

fn message(text: &str) -> String {
    format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#)
}

/// A laboratory with everything that the commands need: sessions with large payloads, a secret,
/// a checkpoint, an index that is behind, a bundle.
pub(crate) struct Site {
    lab: Lab,
    base: PathBuf,
    rewound: PathBuf,
    /// Each session and what its export was.
    sessions: BTreeMap<String, Vec<u8>>,
    /// The one with the secret.
    secret: String,
    /// The one in the bundle, and its export.
    bundled: (String, Vec<u8>),
    /// The files at the checkpoint, and now.
    first: Vec<(PathBuf, Vec<u8>)>,
    second: Vec<(PathBuf, Vec<u8>)>,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with(StoreLayout::Project)
    }

    pub(crate) fn with(layout: StoreLayout) -> Self {
        let lab = Lab::with(layout);
        let record = |args: &[&str], lines: &[String]| {
            let input = format!("{}\n", lines.join("\n"));
            run(lab.env.command(&[&["record"], args].concat()), input.as_bytes()).success();
        };
        // Small segments: rotation and sealing happen all the time.
        let config = lab.env.store().join("config.toml");
        fs::write(config, "version = 1\n[journal]\nsegment_bytes = 6000\n").unwrap();
        let large = |text: &str| message(&format!("{text} ").repeat(25_000));
        // Another store, and a session of it in a bundle.
        lab.env.run(&["init", "--store", "../there"]).success();
        record(&["--key", "b", "--store", "../there"], &[HELLO.into(), large("bundled")]);
        let there =
            |args: &[&str]| lab.env.run(&[args, &["--store", "../there"]].concat()).success();
        there(&["export", "--format", "bundle", "-o", "../b.abide"]);
        let rows: Value = serde_json::from_str(there(&["history", "--json"]).stdout()).unwrap();
        let bundled = (rows[0]["id"].as_str().unwrap().to_owned(), there(&["export"]).out);
        // Two sessions for a cleanup to take, one with a secret, and that of the lab.
        for key in ["old", "older"] {
            record(&["--key", key], &[HELLO.into(), large(key)]);
        }
        let secret = lab.must(&["new", "--key", "secret"]).trim().to_owned();
        let hidden = message(&format!("my password is {SECRET}"));
        let heavy = message(&format!("{}{SECRET}", "a".repeat(90_000)));
        record(&["-s", &secret], &[message("before"), hidden, heavy, message("after")]);
        for n in 0..3 {
            lab.write(&format!("src/f{n}.txt"), &format!("first {n}\n"));
        }
        lab.write("gone.txt", "only at first\n");
        lab.must(&["checkpoint", "create", "-m", "one"]);
        lab.must(&["history"]);
        let first = lab.files();
        for n in 0..3 {
            lab.write(&format!("src/f{n}.txt"), &format!("second {n}\n"));
        }
        lab.write("new/deep.txt", "only at last\n");
        fs::remove_file(lab.env.project().join("gone.txt")).unwrap();
        record(&["-s", &lab.session], &[message("needle"), large("own")]);
        // Old enough to be collected.
        for (path, _) in files(&lab.env.store().join("objects")) {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        let second = lab.files();
        let mut sessions = BTreeMap::new();
        for row in sessions_of(&lab) {
            let exported = run(lab.command(&["export", &row]), b"").success().out;
            sessions.insert(row, exported);
        }
        assert_eq!(sessions.len(), 4);
        let base = lab.keep("base");
        lab.must(&["rewind", "--to", "one", "--yes"]);
        let rewound = lab.keep("rewound");
        Self { lab, base, rewound, sessions, secret, bundled, first, second }
    }

    fn stage(&self, action: Action) -> &Path {
        if action == Action::Undo { &self.rewound } else { &self.base }
    }

    fn args(&self, action: Action) -> Vec<&str> {
        match action {
            Action::New => vec!["new", "--title", "new"],
            Action::Record => vec!["record", "-s", &self.lab.session],
            Action::Checkpoint => vec!["checkpoint", "create", "-m", "two"],
            Action::Rewind => vec!["rewind", "--to", "one", "--yes"],
            Action::Undo => vec!["undo", "--yes"],
            Action::Fork => vec!["fork", "one", "-s", &self.lab.session],
            Action::Import => vec!["import", "../b.abide"],
            Action::Cleanup => vec!["cleanup", "--keep", "2", "--yes"],
            Action::Erase => vec!["erase", &self.secret, "@4", "@5", "--yes"],
            Action::History => vec!["history", "--search", "needle", "--json"],
        }
    }

    fn input(action: Action) -> Vec<u8> {
        let lines = if action == Action::Record { LINES } else { 0 };
        (0..lines).map(|n| line(n) + "\n").collect::<String>().into_bytes()
    }

    /// Every fault that this command may have. Limits are chosen within what a file grows by.
    pub(crate) fn faults(&self, action: Action, random: &mut Random) -> Vec<Fault> {
        let (args, input) = (self.args(action), Self::input(action));
        let sizes = || -> BTreeMap<PathBuf, u64> {
            let all = files(&self.lab.env.project()).into_iter();
            all.map(|(path, bytes)| (path, bytes.len() as u64)).collect()
        };
        self.lab.reset(self.stage(action));
        let before = sizes();
        let calls = self.lab.calls(&args, &input);
        let mut all: Vec<Fault> = calls.iter().flat_map(Fault::of).collect();
        for (path, after) in sizes() {
            let old = before.get(&path).copied().unwrap_or(0);
            for dies in [false, true, false] {
                if after > old {
                    all.push(Fault::Limit { bytes: old + random.below(after - old), dies });
                }
            }
        }
        all
    }

    /// Does the command with the fault, and looks at what is left.
    pub(crate) fn check(&self, action: Action, fault: &Fault) -> bool {
        self.lab.reset(self.stage(action));
        let (args, input) = (self.args(action), Self::input(action));
        let Struck { done, struck } = self.lab.strike(&args, &input, fault);
        assert!(!done.stderr.contains("panicked"), "{done:?}");
        if !fault.kills() {
            assert!(matches!(done.code, 0 | 1 | 3), "{done:?}");
            let said = done.stderr.contains("Error: ") || done.stdout().contains("\"error\"");
            assert!(done.code == 0 || said || fault.silences(), "no word of it: {done:?}");
        }
        if done.code == 0 {
            self.effect(action, &done);
        }
        self.kept(action, &done, fault);
        self.doctor();
        let back = matches!(action, Action::Rewind | Action::Undo);
        if back && self.settled(action, fault) {
            return struck;
        }
        let mut again = run(self.lab.command(&args), &input);
        if action == Action::Undo && again.stderr.contains("there is nothing to undo") {
            // The one that could not put back every file was done all the same. It can be taken back,
            // and what it was to bring is in the checkpoint that the rewind made.
            self.lab.must(&["redo", "--yes"]);
            again = run(self.lab.command(&["rewind", "--to", "2", "--files", "--yes"]), &input);
        }
        assert_eq!(again.code, 0, "the same command again: {again:?}, after {done:?}");
        self.effect(action, &again);
        // Without a fault there is nothing to say.
        let left = [" stays: ", "is missing here"].iter().any(|said| again.stderr.contains(said));
        assert!(!left, "{again:?}");
        struck
    }

    /// A rewind that was begun is finished by the next command: all files are as before, or all
    /// are back. Where files could not be put back, each is whole. Is there nothing left to do?
    fn settled(&self, action: Action, fault: &Fault) -> bool {
        self.lab.must(&["checkpoint", "create"]);
        let now = self.lab.files();
        if fault.kills() {
            assert!(now == self.first || now == self.second, "neither: {now:?}");
        }
        for file in &now {
            assert!(self.first.contains(file) || self.second.contains(file), "torn: {file:?}");
        }
        action == Action::Undo && now == self.second
    }

    fn export(&self, session: &str) -> Done {
        run(self.lab.command(&["export", session]), b"")
    }

    /// What was there before is there, and what was acknowledged.
    fn kept(&self, action: Action, done: &Done, fault: &Fault) {
        for (id, before) in &self.sessions {
            let now = self.export(id);
            let may_go = action == Action::Cleanup && *id != self.lab.session && *id != self.secret;
            if may_go && now.code != 0 && now.stderr.contains("Error: ") {
                assert!(!sessions_of(&self.lab).contains(id), "there and not readable: {now:?}");
                continue;
            }
            let now = now.success();
            if action == Action::Erase && *id == self.secret {
                let seqs = |bytes: &[u8]| -> Vec<Value> {
                    let text = String::from_utf8_lossy(bytes);
                    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
                    lines.map(|event: Value| event["seq"].clone()).collect()
                };
                assert!(seqs(&now.out).starts_with(&seqs(before)), "events are gone: {now:?}");
            } else {
                assert!(now.out.starts_with(before), "events of {id} are gone or altered: {now:?}");
            }
            if action == Action::Record && *id == self.lab.session {
                Self::acknowledged(done, &now, fault);
            }
        }
    }

    /// Every answer with a number has its event, and nothing is there that was not sent.
    fn acknowledged(done: &Done, exported: &Done, fault: &Fault) {
        let events = exported.json_lines();
        for event in events.iter().filter(|event| event["kind"] == "x.fault") {
            let n = event["data"]["n"].as_u64().unwrap();
            let sent: Value = serde_json::from_str(&line(n as usize)).unwrap();
            assert_eq!(event["data"], sent["data"], "another payload than was sent");
        }
        let mut answers = 0;
        for answer in done.stdout().lines() {
            // The last may be cut short.
            let Ok(answer) = serde_json::from_str::<Value>(answer) else { continue };
            if let Some(seq) = answer["seq"].as_u64() {
                answers += 1;
                let event = events.iter().find(|event| event["seq"] == seq);
                let kind = event.map(|event| &event["kind"]);
                assert_eq!(kind, Some(&"x.fault".into()), "acknowledged and lost: {answer}");
            }
        }
        if let Fault::Error { call, for_good: true, .. } = fault {
            let never = call.name == "fdatasync" && call.at == 1;
            assert!(!never || answers == 0, "acknowledged although no sync succeeded: {done:?}");
        }
    }

    fn doctor(&self) {
        let report = run(self.lab.command(&["doctor", "--all", "--json"]), b"").success();
        let report: Value = serde_json::from_str(report.stdout()).unwrap();
        let findings = report["findings"].as_array().unwrap();
        let errors: Vec<_> = findings.iter().filter(|one| one["severity"] == "error").collect();
        assert!(errors.is_empty(), "{errors:?}");
    }

    /// The command said that it was done: it is.
    fn effect(&self, action: Action, done: &Done) {
        match action {
            Action::New => {
                let exported = self.export(done.stdout().trim()).success();
                assert!(exported.stdout().contains("session.created"), "{exported:?}");
            }
            Action::Record => {
                assert_eq!(done.stdout().lines().count(), LINES, "{done:?}");
                let events = self.export(&self.lab.session).success().json_lines();
                let ours = events.iter().filter(|event| event["kind"] == "x.fault");
                let mut found: Vec<u64> =
                    ours.map(|event| event["data"]["n"].as_u64().unwrap()).collect();
                // One that was refused comes behind the others when it is sent again.
                found.sort_unstable();
                assert_eq!(found, (0..LINES as u64).collect::<Vec<_>>(), "each once");
            }
            Action::Checkpoint => {
                let now = self.lab.files();
                for (path, _) in &now {
                    fs::write(path, "something else\n").unwrap();
                }
                self.lab.must(&["rewind", "--to", "two", "--files", "--yes"]);
                assert_eq!(self.lab.files(), now);
            }
            Action::Rewind | Action::Undo => {
                let files = if action == Action::Rewind { &self.first } else { &self.second };
                // They are as they were, or it is said which could not be read.
                let said = done.stdout().contains("it could not be read");
                assert!(said || self.lab.files() == *files, "{:?}\n{done:?}", self.lab.files());
            }
            Action::Fork => {
                let exported = self.export(done.stdout().trim()).success();
                assert!(exported.stdout().contains("checkpoint.created"), "{exported:?}");
                assert!(!exported.stdout().contains("needle"), "{exported:?}");
            }
            Action::Import => {
                assert_eq!(self.export(&self.bundled.0).success().out, self.bundled.1);
            }
            Action::Cleanup => {
                // Those that were to go are gone, or it is said that one stays and why.
                let said = done.stderr.contains(" stays: ");
                assert!(said || sessions_of(&self.lab).len() == 2, "still there: {done:?}");
            }
            Action::Erase => assert_eq!(holding(&self.lab.env, SECRET), [""; 0]),
            Action::History => {
                // It is found, or it is said that a session could not be read.
                let said = done.stderr.contains("cannot be read and is missing here");
                let rows: Value = serde_json::from_str(done.stdout()).unwrap();
                assert!(said || rows.as_array().unwrap().len() == 1, "{done:?}");
            }
        }
    }
}

/// The ids of all sessions.
fn sessions_of(lab: &Lab) -> Vec<String> {
    let rows: Value = serde_json::from_str(&lab.must(&["history", "--json"])).unwrap();
    let id = |row: &Value| row["id"].as_str().unwrap().to_owned();
    rows.as_array().unwrap().iter().map(id).collect()
}
