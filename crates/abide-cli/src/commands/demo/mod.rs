//! `abide demo`: an agent is killed in the middle of its work, and another one finishes it; then
//! one ruins the files, and a rewind restores them.
//!
//! Nothing is faked: the agent is a process, the kill is SIGKILL, and everything shown is read from
//! the journal and the remaining files.

mod scripted_agent;

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) use scripted_agent::DemoAgentArgs;

use abide::{
    CheckpointRequest, Event, EventFollower, EventRange, LocalOptions, LocalStore, Message,
    NewSession, RewindRequest, Seq, SessionFields, SessionId, SessionRef, Store, TaskStatus,
    checkpoint::RewindWatch, event::Fact,
};

use self::scripted_agent::FATAL_CALL;
use crate::command_output::CommandOutput;
use crate::error::{CommandError, at};
use crate::noun_count::noun_count;
use abide_transcript::{EventSentences, escape};

/// Watch a session survive a kill -9
///
/// It takes a few seconds, needs no network, and works in a temporary directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide demo
  abide demo --keep      keep the files to look at")]
pub(crate) struct DemoArgs {
    /// Keep the workspace and its store
    #[arg(long)]
    keep: bool,
    /// Milliseconds that a tool of the agent takes
    #[arg(long, default_value_t = 300, hide = true)]
    pace: u64,
}

/// How long to wait for the agent before giving up.
const PATIENCE: Duration = Duration::from_secs(20);

impl DemoArgs {
    pub(crate) fn run(self) -> Result<(), CommandError> {
        let cancelled = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, cancelled.clone())
                .map_err(at("watch for", "an interrupt"))?;
        }
        let temp = std::env::temp_dir();
        let dir = tempfile::Builder::new()
            .prefix("abide-demo-")
            .tempdir_in(&temp)
            .map_err(at("create a directory in", &temp))?;
        let mut stage = DemoStage::set(dir.path(), self.pace, cancelled)?;
        stage.play()?;
        let kept = self.keep.then(|| dir.keep());
        stage.look_further(kept.as_deref())?;
        stage.out.flush()
    }
}

/// The workspace, its store, and the session that the agent works in.
struct DemoStage {
    workspace: PathBuf,
    store: Store,
    session: SessionId,
    pace: u64,
    cancelled: Arc<AtomicBool>,
    out: CommandOutput,
    sentences: EventSentences,
}

/// A child process, killed when dropped.
struct DemoAgentChild(Child);

impl Drop for DemoAgentChild {
    fn drop(&mut self) {
        // Harmless if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl DemoStage {
    fn set(dir: &Path, pace: u64, cancelled: Arc<AtomicBool>) -> Result<Self, CommandError> {
        let workspace = dir.to_owned();
        let root = dir.join(crate::command_place::NAME);
        let store = Store::local(LocalStore::init(&root, LocalOptions::default())?);
        let session = store.make(NewSession::from(SessionFields {
            title: Some("Count words".to_owned()),
            agent: Some("demo-agent".to_owned()),
            workspace: Some(workspace.to_string_lossy().into_owned()),
            ..SessionFields::default()
        }))?;
        let out = CommandOutput::stdout();
        let sentences = EventSentences::default();
        Ok(Self { workspace, store, session, pace, cancelled, out, sentences })
    }

    fn play(&mut self) -> Result<(), CommandError> {
        let mut follow = self.view()?.follow(Seq::FIRST);
        let acknowledged = self.first_act(&mut follow)?;
        let found = self.show_what_is_left(acknowledged)?;
        // Skip what was written but not shown when the agent died.
        while follow.next_within(Duration::ZERO)?.is_some() {}
        let mut follow = self.view()?.follow(found.next());
        self.second_act(&mut follow)?;
        self.third_act()?;
        self.check()
    }

    fn view(&self) -> Result<abide::SessionView, CommandError> {
        Ok(self.store.view(&SessionRef::Id(self.session))?)
    }

    /// The agent works until it is killed. Returns the last event acknowledged to it.
    fn first_act(&mut self, follow: &mut EventFollower) -> Result<Seq, CommandError> {
        let mut agent = self.start()?;
        let process = agent.0.id();
        self.heading(&format!("An agent starts to work (process {process})"))?;
        let until = Instant::now() + PATIENCE;
        loop {
            let event = self.next(follow, until)?;
            if let Some(event) = &event {
                self.show(event)?;
            }
            if event.as_ref().is_some_and(is_fatal_call) {
                break;
            }
            if event.is_none() && agent.0.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err(CommandError::failed("the agent ended before it was killed"));
            }
        }
        let wait = at("end", "the agent");
        agent.0.kill().map_err(at("end", "the agent"))?;
        let ended = agent.0.wait().map_err(wait)?;
        let signal = ended.signal().unwrap_or_default();
        self.heading(&format!(
            "Killed: process {process} got signal {signal} in the middle of a call"
        ))?;
        let mut told = String::new();
        if let Some(mut stdout) = agent.0.stdout.take() {
            stdout.read_to_string(&mut told).map_err(at("read", "what the agent said"))?;
        }
        let acknowledged = told.lines().filter_map(|line| line.parse().ok().map(Seq));
        Ok(acknowledged.max().unwrap_or(Seq::ZERO))
    }

    /// Reads the journal and the files. Returns the last event found.
    fn show_what_is_left(&mut self, acknowledged: Seq) -> Result<Seq, CommandError> {
        let view = self.view()?;
        let mut found = Seq::ZERO;
        let mut missing = acknowledged.0;
        for event in view.events(EventRange::ALL) {
            found = event?.seq;
            if found <= acknowledged {
                missing -= 1;
            }
        }
        let state = view.state()?;
        self.fact(
            "acknowledged",
            &format!("{acknowledged} events; {missing} of them are missing in the journal"),
        )?;
        if missing > 0 {
            return Err(CommandError::failed("acknowledged events are missing"));
        }
        for (call, open) in state.calls.iter() {
            let outcome = format!("of {call} ({}, event {})", open.name, open.seq);
            self.fact("outcome unknown", &outcome)?;
        }
        Ok(found)
    }

    /// A new agent continues from what was recorded.
    fn second_act(&mut self, follow: &mut EventFollower) -> Result<(), CommandError> {
        let mut agent = self.start()?;
        let process = agent.0.id();
        self.heading(&format!("Another agent continues (process {process})"))?;
        let until = Instant::now() + PATIENCE;
        loop {
            let ended = agent.0.try_wait().map_err(at("wait for", "the agent"))?;
            while let Some(event) = self.next(follow, until)? {
                self.show(&event)?;
            }
            if let Some(ended) = ended {
                if !ended.success() {
                    return Err(CommandError::failed("the agent failed"));
                }
                return Ok(());
            }
        }
    }

    /// Files are ruined and restored, and an undo shows that nothing was lost.
    fn third_act(&mut self) -> Result<(), CommandError> {
        let session = self.store.open_session(&SessionRef::Id(self.session))?;
        let label = Some("it works".to_owned());
        let made = session.checkpoint(&CheckpointRequest { label, ..Default::default() })?;
        let counts = made.checkpoint.workspace.clone().unwrap_or_default();
        let files = counts.files;
        self.heading(&format!(
            "A checkpoint of {}; then the agent goes wrong",
            noun_count(files, "file")
        ))?;
        let before = self.files()?;
        let script = self.workspace.join("count.sh");
        std::fs::remove_file(&script).map_err(at("remove", &script))?;
        let junk = self.workspace.join("scratch/notes.txt");
        std::fs::create_dir_all(self.workspace.join("scratch")).map_err(at("create", &junk))?;
        std::fs::write(&junk, "rewrite everything\n").map_err(at("write", &junk))?;
        let said = session.append(Message::assistant("I will rewrite everything."))?;
        said.wait().map_err(abide::Error::from)?;
        let ruined = self.files()?;
        let watch = RewindWatch::default();
        let to = session.view().resolve("it works")?;
        let request = RewindRequest { files: true, conversation: true, ..Default::default() };
        let plan = session.plan_rewind(&to, &request, &watch)?;
        let steps = plan.files.steps.iter().map(|step| {
            let action = format!("{:?}", step.action).to_lowercase();
            format!("{action} {}", String::from_utf8_lossy(&step.path))
        });
        self.fact("rewind would", &steps.collect::<Vec<_>>().join(", "))?;
        session.rewind(plan, &watch)?;
        if self.files()? != before {
            return Err(CommandError::failed("the files are not as they were"));
        }
        let undo = session.plan_undo(&watch)?;
        session.rewind(undo, &watch)?;
        if self.files()? != ruined {
            return Err(CommandError::failed("the undo did not restore the earlier files"));
        }
        let again = session.plan_undo(&watch)?;
        session.rewind(again, &watch)?;
        if self.files()? != before {
            return Err(CommandError::failed("the files are not as they were"));
        }
        self.fact(
            "rewound",
            "files restored; an undo brought the damage back, and a second one removed it",
        )?;
        Ok(session.close()?)
    }

    /// The files of the workspace with their contents.
    fn files(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>, CommandError> {
        let mut files = BTreeMap::new();
        let mut dirs = vec![self.workspace.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(&dir).map_err(at("read", &dir))? {
                let path = entry.map_err(at("read", &dir))?.path();
                if path.ends_with(crate::command_place::NAME) {
                    continue;
                }
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    let bytes = std::fs::read(&path).map_err(at("read", &path))?;
                    files.insert(path, bytes);
                }
            }
        }
        Ok(files)
    }

    fn check(&mut self) -> Result<(), CommandError> {
        let checked = self.store.files("`abide demo`")?.doctor().examine(self.session)?;
        let state = self.view()?.state()?;
        let complete = state.core.tasks.by_status.get(&TaskStatus::Complete);
        let findings = checked.findings.len();
        self.heading(&format!(
            "Done: {} of {} tasks complete; {} events, every sum and link checked, {findings} findings",
            complete.unwrap_or(&0),
            state.core.tasks.total,
            checked.events
        ))?;
        if findings > 0 {
            return Err(CommandError::failed("the journal has findings"));
        }
        Ok(())
    }

    fn look_further(&mut self, kept: Option<&Path>) -> Result<(), CommandError> {
        if let Some(dir) = kept {
            let dir = dir.display().to_string();
            self.out.line(format_args!("  cd {}", escape::text(&dir)))?;
            self.out.line("  abide show")?;
            return self.out.line("  cat .abide/sessions/*/journal/*.jsonl");
        }
        self.out
            .line("Next: abide run claude      run your own agent and record everything it does")?;
        self.out.line("      abide search TEXT     search messages and tool calls")?;
        self.out.line("      abide rewind          rewind to a checkpoint")
    }

    fn start(&self) -> Result<DemoAgentChild, CommandError> {
        let program = std::env::current_exe().map_err(at("find", "this program"))?;
        let agent = Command::new(&program)
            .arg("demo-agent")
            .arg("--store")
            .arg(self.workspace.join(crate::command_place::NAME))
            .arg("--session")
            .arg(self.session.to_string())
            .arg("--workspace")
            .arg(&self.workspace)
            .arg("--pace")
            .arg(self.pace.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(at("start", program))?;
        Ok(DemoAgentChild(agent))
    }

    fn next(
        &self,
        follow: &mut EventFollower,
        until: Instant,
    ) -> Result<Option<Event>, CommandError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(CommandError::Cancelled);
        }
        if Instant::now() > until {
            return Err(CommandError::failed("the agent took too long"));
        }
        Ok(follow.next_within(Duration::from_millis(100))?)
    }

    fn show(&mut self, event: &Event) -> Result<(), CommandError> {
        let sentence = self.sentences.of(event);
        // Every event is told to the sentences; a call is what a person wants to see.
        if !matches!(event.fact(), Ok(Fact::ToolCall(_))) {
            return Ok(());
        }
        let line = format!("{:>6}  {}", format!("@{}", event.seq), escape::text(&sentence));
        let line: String = line.chars().take(90).collect();
        self.out.line(line.trim_end())?;
        self.out.flush()
    }

    fn heading(&mut self, heading: &str) -> Result<(), CommandError> {
        if self.out.is_terminal() {
            self.out.line(format_args!("\u{1b}[1m{heading}\u{1b}[0m"))?;
        } else {
            self.out.line(heading)?;
        }
        self.out.flush()
    }

    fn fact(&mut self, name: &str, fact: &str) -> Result<(), CommandError> {
        self.out.line(format_args!("  {name:<16} {}", escape::text(fact)))?;
        self.out.flush()
    }
}

fn is_fatal_call(event: &Event) -> bool {
    matches!(event.fact(), Ok(Fact::ToolCall(call)) if call.call.as_str() == FATAL_CALL)
}
