//! What must hold on the file system as the kernel has mounted it again after a cut.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::agent::Agent;
use crate::command::Done;
use crate::story::{Recorded, Story, files};

/// What a cut may not do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fault {
    /// Something acknowledged is not there.
    Lost(String),
    /// Something is there that was never sent, looks damaged, or does not go on.
    Damaged(String),
    /// A command panicked, or came to no end.
    Stuck(String),
    /// The kernel does not mount what is left.
    Unmountable(String),
}

/// How many findings of each rule `doctor` had that are no errors.
pub(crate) type Warnings = BTreeMap<String, u64>;

#[derive(Deserialize)]
struct Event<'a> {
    kind: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// What an export shows of a session.
#[derive(Debug, Clone, Copy)]
struct Exported {
    /// How many of the events that were sent.
    events: usize,
    /// A rewind stands behind the last of them.
    rewound: bool,
}

/// Looks at the store after a cut at this moment.
#[derive(Debug)]
pub(crate) struct Oracle<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) story: &'a Story,
    pub(crate) seed: u64,
    pub(crate) at: usize,
    pub(crate) cut: usize,
}

impl Oracle<'_> {
    pub(crate) fn check(&self) -> Result<Warnings, Fault> {
        let warnings = self.doctor()?;
        self.settled()?;
        let mut found = Vec::new();
        for session in self.due() {
            found.push(self.exported(session)?);
        }
        for (session, found) in self.due().zip(found) {
            if session.leaves > self.at {
                self.goes_on(session, found)?;
            }
        }
        self.restores()?;
        self.abide(None, &["history", "--json"], b"")?;
        self.doctor()?;
        Ok(warnings)
    }

    /// The sessions that must be there. Those that a cleanup may have taken need not.
    fn due(&self) -> impl Iterator<Item = &Recorded> {
        self.story
            .sessions
            .iter()
            .filter(|session| session.made <= self.at && session.leaves > self.at)
    }

    /// Runs a command that may fail, but neither panic nor hang.
    fn run(&self, session: Option<&str>, args: &[&str], input: &[u8]) -> Result<Done, Fault> {
        let what = || format!("abide {}", args.join(" "));
        let done = self.agent.run(session, args, input);
        let done = done.map_err(|error| Fault::Damaged(format!("{}: {error}", what())))?;
        if done.hung() || done.errors.contains("panicked") || done.code == Some(255) {
            return Err(Fault::Stuck(format!("{}: {:?}: {}", what(), done.code, done.errors)));
        }
        Ok(done)
    }

    fn abide(&self, session: Option<&str>, args: &[&str], input: &[u8]) -> Result<Done, Fault> {
        let done = self.run(session, args, input)?;
        if done.succeeded() {
            return Ok(done);
        }
        let (code, errors, out) = (done.code, &done.errors, done.text());
        Err(Fault::Damaged(format!("abide {}: {code:?}: {errors}{out}", args.join(" "))))
    }

    fn doctor(&self) -> Result<Warnings, Fault> {
        let done = self.run(None, &["doctor", "--all", "--json"], b"")?;
        let said = || format!("abide doctor: {:?}: {}{}", done.code, done.errors, done.text());
        let report: Value =
            serde_json::from_slice(&done.out).map_err(|_| Fault::Damaged(said()))?;
        let findings = report.get("findings").and_then(Value::as_array);
        let mut warnings = Warnings::new();
        for finding in findings.ok_or_else(|| Fault::Damaged(said()))? {
            if finding["severity"] == "error" {
                return Err(Fault::Damaged(said()));
            }
            let rule = finding["rule"].as_str().unwrap_or_default();
            *warnings.entry(rule.to_owned()).or_default() += 1;
        }
        if done.succeeded() { Ok(warnings) } else { Err(Fault::Damaged(said())) }
    }

    /// Reads a session. It must be a prefix of what was sent, byte for byte, with everything that
    /// was acknowledged.
    fn exported(&self, session: &Recorded) -> Result<Exported, Fault> {
        let id = &session.id;
        let due = session.due(self.at);
        let done = self.run(None, &["export", id], b"")?;
        if !done.succeeded() {
            let told = format!("abide export {id}: {:?}: {}", done.code, done.errors);
            let lost = done.errors.contains("no session");
            return Err(if lost { Fault::Lost(told) } else { Fault::Damaged(told) });
        }
        if done.errors.contains("damage") {
            return Err(Fault::Damaged(format!("abide export {id}: {}", done.errors)));
        }
        let (mut found, mut rewound) = (0, false);
        for line in done.out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let odd = || {
                let shown = String::from_utf8_lossy(&line[..line.len().min(300)]);
                Fault::Damaged(format!("{id}: event {found} is not what was sent: {shown}"))
            };
            let event: Event = serde_json::from_slice(line).map_err(|_| odd())?;
            if event.kind != "x.power" {
                rewound |= event.kind == "session.rewound";
                continue;
            }
            rewound = false;
            if found >= session.sent.len().max(due + 1) || event.data.get() != session.data(found) {
                return Err(odd());
            }
            found += 1;
        }
        if found < due {
            return Err(Fault::Lost(format!("{id}: {due} were acknowledged, {found} are there")));
        }
        Ok(Exported { events: found, rewound })
    }

    /// A session is recorded to again: what is there is known, what is new is added.
    fn goes_on(&self, session: &Recorded, before: Exported) -> Result<(), Fault> {
        let found = before.events;
        let mut lines = session.line(found);
        // A key that a rewind has taken back is free again.
        let last = found.checked_sub(1).filter(|_| !before.rewound);
        if let Some(last) = last {
            lines.insert_str(0, &session.line(last));
        }
        let done = self.abide(Some(&session.id), &["record"], lines.as_bytes())?;
        let odd = || Fault::Damaged(format!("{} goes on with {}", session.id, done.text()));
        let answers: Vec<Value> = done
            .text()
            .lines()
            .map(|line| serde_json::from_str(line).map_err(|_| odd()))
            .collect::<Result<_, _>>()?;
        let repeated: Vec<_> = answers.iter().map(|answer| answer["repeated"] == true).collect();
        let expected: &[bool] = if last.is_some() { &[true, false] } else { &[false] };
        if repeated != expected {
            return Err(odd());
        }
        let mut longer = session.clone();
        longer.sent.resize(found + 1, self.at);
        match self.exported(&longer)?.events {
            now if now == found + 1 => Ok(()),
            now => Err(Fault::Lost(format!("{}: {now} after one more than {found}", session.id))),
        }
    }

    /// After a rewind that was acknowledged, until the next edit, the files are its files.
    fn settled(&self) -> Result<(), Fault> {
        for settled in &self.story.settled {
            if settled.from <= self.at && self.at <= settled.until {
                let (before, then) =
                    (files(self.seed, settled.before), files(self.seed, settled.generation));
                let written = |name: &str| before.get(name) != then.get(name);
                self.compare(&then, written, "after a rewind that was acknowledged")?;
            }
        }
        Ok(())
    }

    /// Every checkpoint that was acknowledged is there, and the newest and another give their files.
    fn restores(&self) -> Result<(), Fault> {
        let due: Vec<_> =
            self.story.checkpoints.iter().filter(|made| made.acknowledged <= self.at).collect();
        let Some(newest) = due.last() else { return Ok(()) };
        let keeper = &self.story.sessions[self.story.keeper].id;
        for made in &due {
            let label = format!("g{}", made.generation);
            let done = self.run(Some(keeper), &["checkpoint", "show", &label, "--json"], b"")?;
            if !done.succeeded() {
                return Err(Fault::Lost(format!("checkpoint {label}: {}", done.errors)));
            }
        }
        for made in [newest, &due[self.cut % due.len()]] {
            let to = format!("g{}", made.generation);
            self.abide(Some(keeper), &["rewind", "--to", &to, "--files", "--yes"], b"")?;
            let then = files(self.seed, made.generation);
            self.compare(&then, |_| true, &format!("after going back to {to}"))?;
        }
        Ok(())
    }

    /// Holds the files, as far as they are looked at, against those that should be there.
    fn compare(
        &self,
        expected: &BTreeMap<String, Vec<u8>>,
        looked_at: impl Fn(&str) -> bool,
        when: &str,
    ) -> Result<(), Fault> {
        let there = project_files(&self.agent.project()).map_err(Fault::Damaged)?;
        let names: BTreeSet<_> = there.keys().chain(expected.keys()).collect();
        let bytes = |of: &BTreeMap<String, Vec<u8>>, name: &String| of.get(name).map(Vec::len);
        let differ: Vec<_> = names
            .into_iter()
            .filter(|name| looked_at(name) && there.get(*name) != expected.get(*name))
            .map(|name| format!("{name} {:?} for {:?}", bytes(&there, name), bytes(expected, name)))
            .collect();
        if differ.is_empty() {
            return Ok(());
        }
        Err(Fault::Lost(format!("{when}, the files differ: {}", differ.join(", "))))
    }
}

/// The files of the project by their names, the store left aside.
pub(crate) fn project_files(project: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut found = BTreeMap::new();
    let mut directories = vec![project.to_owned()];
    while let Some(directory) = directories.pop() {
        let told = |error: std::io::Error| format!("{}: {error}", directory.display());
        for entry in fs::read_dir(&directory).map_err(told)? {
            let path = entry.map_err(told)?.path();
            // What a restore that was cut off has begun is in no snapshot, and goes with the next.
            let begun = entry_name(&path).starts_with(".abide-tmp-");
            if begun || path.ends_with(".abide") {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let name = path.strip_prefix(project).unwrap_or(&path);
            found.insert(name.to_string_lossy().into_owned(), bytes);
        }
    }
    Ok(found)
}

fn entry_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
