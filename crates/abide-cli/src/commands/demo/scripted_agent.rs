//! `abide demo-agent`: the scripted agent of the demo, in a process of its own.
//!
//! It does what any agent can do to survive its own death: each call is recorded before it runs,
//! and each event has a key. After a restart it runs its script again; a known key means that the
//! step was already done. A call without a result is investigated, never blindly repeated.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use abide::{
    AcknowledgedEvent, CallId, Message, NewEvent, Session, SessionRef, SessionState, SessionStatus,
    TaskStatus, ToolCall, ToolResult, TurnEnd, TurnStart,
    event::{Artifact, FileOp, FileTouch, InputError, ObjectHash, StatusChange},
    tasks::{TaskCreated, TaskStatusChange},
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::error::{CommandError, at};

/// Work through the demo's task
#[derive(Debug, clap::Args)]
pub(crate) struct DemoAgentArgs {
    /// The session
    #[arg(short, long)]
    session: String,
    /// Where to work
    #[arg(long)]
    workspace: PathBuf,
    /// Milliseconds that a tool takes
    #[arg(long)]
    pace: u64,
}

/// What a tool does.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
enum DemoAgentTool {
    Write { path: &'static str, text: &'static str },
    Run { command: &'static str },
}

/// A task of the script and its calls.
struct DemoStep {
    task: &'static str,
    title: &'static str,
    says: &'static str,
    calls: &'static [(&'static str, DemoAgentTool)],
}

const ASK: &str = "Write count.sh, which prints how many words a file has, with a test.";

/// The call during which the demo kills the agent.
pub(super) const FATAL_CALL: &str = "c5";

const SCRIPT: &[DemoStep] = &[
    DemoStep {
        task: "T1",
        title: "Write sample data",
        says: "First something to count: nine words on two lines.",
        calls: &[(
            "c1",
            DemoAgentTool::Write {
                path: "words.txt",
                text: "the quick brown fox jumps\nover the lazy dog\n",
            },
        )],
    },
    DemoStep {
        task: "T2",
        title: "Write count.sh",
        says: "Now the script.",
        calls: &[(
            "c2",
            DemoAgentTool::Write {
                path: "count.sh",
                text: "# Prints how many words a file has.\nwc -l < \"$1\" | tr -d ' '\n",
            },
        )],
    },
    DemoStep {
        task: "T3",
        title: "Write a test and run it",
        says: "A test, to see whether it counts right.",
        calls: &[
            (
                "c3",
                DemoAgentTool::Write {
                    path: "test.sh",
                    text: "got=$(sh count.sh words.txt)\nif [ \"$got\" = 9 ]; then echo \"ok: 9 words\"\nelse echo \"wrong: $got words instead of 9\"; exit 1; fi\n",
                },
            ),
            ("c4", DemoAgentTool::Run { command: "sh test.sh" }),
        ],
    },
    DemoStep {
        task: "T4",
        title: "Fix what the test found",
        says: "It counts lines, not words. I fix that and run the test again.",
        calls: &[
            (
                FATAL_CALL,
                DemoAgentTool::Write {
                    path: "count.sh",
                    text: "# Prints how many words a file has, however they are spread over lines.\nwc -w < \"$1\" | tr -d ' '\n",
                },
            ),
            ("c6", DemoAgentTool::Run { command: "sh test.sh" }),
        ],
    },
    DemoStep {
        task: "T5",
        title: "Write the readme",
        says: "Last, how to use it.",
        calls: &[(
            "c7",
            DemoAgentTool::Write {
                path: "README.md",
                text: "# count.sh\n\nPrints how many words a file has:\n\n    sh count.sh words.txt\n",
            },
        )],
    },
];

impl DemoAgentArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let session = opened.store.open_session(&SessionRef::parse(&self.session))?;
        let mut agent = ScriptedAgent {
            before: session.state()?,
            session,
            workspace: self.workspace,
            pace: Duration::from_millis(self.pace),
            out: CommandOutput::stdout(),
        };
        agent.work()?;
        Ok(agent.session.close()?)
    }
}

struct ScriptedAgent {
    session: Session,
    /// The state at the start of this process.
    before: SessionState,
    workspace: PathBuf,
    pace: Duration,
    out: CommandOutput,
}

impl ScriptedAgent {
    fn work(&mut self) -> Result<(), CommandError> {
        self.record(StatusChange { status: SessionStatus::Running, reason: None, summary: None })?;
        self.record(TurnStart { agent: "demo-agent".to_owned(), ..TurnStart::default() })?;
        self.record_once("ask", Message::user(ASK))?;
        for step in SCRIPT {
            let created = TaskCreated {
                task: step.task.into(),
                title: step.title.to_owned(),
                ..TaskCreated::default()
            };
            self.record_once(&format!("{}/created", step.task), created)?;
        }
        for step in SCRIPT {
            self.step(step)?;
        }
        self.record_once("done", Message::assistant("Done: the test passes."))?;
        self.record(TurnEnd { status: "done".to_owned(), ..TurnEnd::default() })?;
        self.record(StatusChange {
            status: SessionStatus::Completed,
            reason: None,
            summary: Some("count.sh counts words, and a test says so".to_owned()),
        })?;
        Ok(())
    }

    fn step(&mut self, step: &DemoStep) -> Result<(), CommandError> {
        let task = step.task;
        let status = |status| TaskStatusChange {
            task: task.into(),
            status,
            foreign: None,
            reason: None,
            result: None,
        };
        let begun = self.record_once(&format!("{task}/begun"), status(TaskStatus::Implementing))?;
        if !begun.repeated {
            std::thread::sleep(self.pace / 2);
        }
        self.record_once(&format!("{task}/says"), Message::assistant(step.says))?;
        for (call, tool) in step.calls {
            self.call(call, *tool)?;
        }
        self.record_once(&format!("{task}/complete"), status(TaskStatus::Complete))?;
        Ok(())
    }

    /// Makes a call until it is known to be done: once, unless a crash intervened.
    fn call(&mut self, name: &str, tool: DemoAgentTool) -> Result<(), CommandError> {
        for attempt in 1_u32.. {
            let call = match attempt {
                1 => name.to_owned(),
                more => format!("{name}-{more}"),
            };
            let undone = format!("{call}/undone");
            let called = self.record_once(&format!("{call}/called"), tool.called(&call)?)?;
            if !called.repeated {
                let (ok, result) = self.run(tool)?;
                return self.finished(&call, tool, ok, &result);
            }
            if self.before.calls.get(&call).is_some() {
                // The outcome is unknown: look at the files.
                match self.look(tool)? {
                    CallEffect::Done => return self.finished(&call, tool, true, "found done"),
                    CallEffect::NotDone(found) => {
                        self.record_once(&undone, demo_tool_result(&call, false, &found)?)?;
                    }
                }
            } else if self.before.key(&undone).is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn finished(
        &mut self,
        call: &str,
        tool: DemoAgentTool,
        ok: bool,
        said: &str,
    ) -> Result<(), CommandError> {
        self.record_once(&format!("{call}/finished"), demo_tool_result(call, ok, said)?)?;
        match tool {
            DemoAgentTool::Write { path, text } => {
                let touch = FileTouch {
                    path: path.to_owned(),
                    op: FileOp::Write,
                    to: None,
                    before: None,
                    after: Some(ObjectHash::of(text.as_bytes())),
                };
                self.record_once(&format!("{call}/touched"), touch)?;
            }
            DemoAgentTool::Run { command } => {
                let artifact = Artifact {
                    name: command.to_owned(),
                    kind: "test".to_owned(),
                    task: None,
                    ok,
                    object: None,
                    command: None,
                    exit: None,
                    output: None,
                    left_out: 0,
                    counts: None,
                };
                self.record_once(&format!("{call}/artifact"), artifact)?;
            }
        }
        Ok(())
    }

    /// Runs a tool. Like a real one it takes time, and can be killed half-way.
    fn run(&self, tool: DemoAgentTool) -> Result<(bool, String), CommandError> {
        match tool {
            DemoAgentTool::Write { path, text } => {
                let path = self.workspace.join(path);
                let (first, second) = text.split_at(text.len() / 2);
                let write = |path: &Path| -> std::io::Result<()> {
                    let mut file = fs::File::create(path)?;
                    file.write_all(first.as_bytes())?;
                    std::thread::sleep(self.pace);
                    file.write_all(second.as_bytes())
                };
                write(&path).map_err(at("write", &path))?;
                Ok((true, format!("{} bytes written", text.len())))
            }
            DemoAgentTool::Run { command } => {
                std::thread::sleep(self.pace / 2);
                let done = Command::new("sh")
                    .args(["-c", command])
                    .current_dir(&self.workspace)
                    .output()
                    .map_err(at("run", "sh"))?;
                let said = String::from_utf8_lossy(&done.stdout).trim().to_owned();
                Ok((done.status.success(), said))
            }
        }
    }

    /// Was a call with an unknown outcome done?
    fn look(&self, tool: DemoAgentTool) -> Result<CallEffect, CommandError> {
        match tool {
            DemoAgentTool::Write { path, text } => {
                let path = self.workspace.join(path);
                let there = match fs::read(&path) {
                    Ok(there) => there,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
                    Err(error) => return Err(at("read", &path)(error)),
                };
                Ok(if there == text.as_bytes() {
                    CallEffect::Done
                } else if text.as_bytes().starts_with(&there) {
                    let (there, whole) = (there.len(), text.len());
                    CallEffect::NotDone(format!("found {there} of {whole} bytes written"))
                } else {
                    CallEffect::NotDone("found the file as it was before".to_owned())
                })
            }
            // A test changes nothing and can be run again.
            DemoAgentTool::Run { .. } => {
                Ok(CallEffect::NotDone("nobody saw what came of it".to_owned()))
            }
        }
    }

    fn record_once<E>(&mut self, key: &str, event: E) -> Result<AcknowledgedEvent, CommandError>
    where
        E: TryInto<NewEvent, Error = InputError>,
    {
        let event = event.try_into().map_err(abide::Error::from)?;
        self.record(event.with_key(key))
    }

    /// Records an event and reports on stdout that it is acknowledged.
    fn record<E>(&mut self, event: E) -> Result<AcknowledgedEvent, CommandError>
    where
        E: TryInto<NewEvent>,
        abide::Error: From<E::Error>,
    {
        let ticket = self.session.append(event)?;
        let acknowledged = ticket.wait().map_err(abide::Error::Append)?;
        let acknowledged = acknowledged
            .first()
            .copied()
            .ok_or_else(|| CommandError::failed("an event was neither acknowledged nor refused"))?;
        self.out.line(acknowledged.seq)?;
        self.out.flush()?;
        Ok(acknowledged)
    }
}

enum CallEffect {
    Done,
    NotDone(String),
}

impl DemoAgentTool {
    fn called(self, call: &str) -> Result<ToolCall, CommandError> {
        let (name, arguments) = match self {
            Self::Write { .. } => ("write_file", demo_json(&self)?),
            Self::Run { .. } => ("shell", demo_json(&self)?),
        };
        Ok(ToolCall {
            call: CallId::from(call),
            name: name.to_owned(),
            arguments: Some(arguments),
            observed: false,
        })
    }
}

fn demo_tool_result(call: &str, ok: bool, said: &str) -> Result<ToolResult, CommandError> {
    Ok(ToolResult { call: call.into(), ok, result: Some(demo_json(&said)?) })
}

fn demo_json<T: Serialize>(value: &T) -> Result<Box<RawValue>, CommandError> {
    serde_json::value::to_raw_value(value).map_err(|error| CommandError::failed(error.to_string()))
}
