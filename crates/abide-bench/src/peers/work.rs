//! The work that every peer does: the operations, the messages, and how a process is asked.
//!
//! It is the same for the peers in Rust and for those in Python, whose half is `peers/work.py`.
//! The clock runs in the process that does the work, from opening to the last message.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::calibration::millis;
use crate::device::{self, Device, DeviceWrites};
use crate::figure::median;
use crate::peers::clock::Appended;
use crate::text::Text;

/// What a peer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// Says its version.
    About,
    /// Appends the messages, one at a time, each acknowledged.
    Append,
    /// Opens and reads every message.
    Load,
    /// Opens and reads the last messages.
    Last,
    /// Makes a session with the messages, in one go.
    Build,
    /// Opens, then appends a message and loads the context, again and again.
    Turns,
    /// On a server: makes its tables.
    Setup,
    /// On a server: as `Append`, to one session, whatever that costs.
    Grow,
    /// On a server: as `Append`, to many sessions at once.
    Sessions,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::About => "about",
            Self::Append => "append",
            Self::Load => "load",
            Self::Last => "last",
            Self::Build => "build",
            Self::Turns => "turns",
            Self::Setup => "setup",
            Self::Grow => "grow",
            Self::Sessions => "sessions",
        }
    }
}

/// What is done, where and with which messages.
#[derive(Debug, Args)]
pub(crate) struct Task {
    operation: Operation,
    /// A directory of its own.
    dir: std::path::PathBuf,
    /// A JSON string on each line.
    messages: std::path::PathBuf,
    /// How many of them.
    count: usize,
    /// How many are the last.
    last: usize,
    /// How many turns.
    #[arg(default_value_t = 0)]
    turns: usize,
}

/// What a process says when it is done. A peer in another language says what it can.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    pub(crate) ms: f64,
    /// What the device wrote during appends, where that can be seen.
    pub(crate) device: Option<DeviceWrites>,
    /// Of a turn, loading the context.
    pub(crate) context_ms: Option<f64>,
    pub(crate) version: Option<String>,
    /// The version of Python, if that is what it is written in.
    pub(crate) python: Option<String>,
}

/// One that does the work in this program.
pub(crate) trait Peer {
    /// Its version, for the table.
    fn version(&self) -> Option<String>;

    /// Opens, appends the texts one at a time, each acknowledged, and closes. The clock runs over
    /// the appends alone.
    fn append(&self, dir: &Path, texts: &[String]) -> Outcome<Appended>;

    /// Opens and reads every text.
    fn load(&self, dir: &Path) -> Outcome<Vec<String>>;

    /// Opens and reads the last texts, oldest first.
    fn last(&self, dir: &Path, count: usize) -> Outcome<Vec<String>>;

    /// Makes a session with these texts in one go, of which a context has about the last `context`.
    fn build(&self, _dir: &Path, _texts: &[String], _context: usize) -> Outcome {
        Err("it takes no turns".into())
    }

    /// Opens, and gives what takes a turn: appends a text, acknowledged, and loads the context.
    fn turns(&self, _dir: &Path, _context: usize) -> Outcome<Box<dyn Turns>> {
        Err("it takes no turns".into())
    }
}

/// A session that is open for turns.
pub(crate) trait Turns {
    /// Appends a text; it is acknowledged when this returns.
    fn append(&mut self, text: &str) -> Outcome;

    /// Loads the context as it would be sent.
    fn context(&mut self) -> Outcome<Loaded>;
}

/// A context that was loaded. What it says is read after the clock has stopped.
pub(crate) enum Loaded {
    Texts(Vec<String>),
    /// A request to OpenAI.
    Request(String),
}

impl Loaded {
    fn into_texts(self) -> Outcome<Vec<String>> {
        let request: serde_json::Value = match self {
            Self::Texts(texts) => return Ok(texts),
            Self::Request(request) => serde_json::from_str(&request)?,
        };
        let messages = request["messages"].as_array().ok_or("a request without messages")?;
        let text = |message: &serde_json::Value| message["content"].as_str().map(str::to_owned);
        Ok(messages.iter().filter_map(text).collect())
    }
}

impl Task {
    /// Does the work, and says what it took.
    pub(crate) fn run(&self, peer: &dyn Peer) -> Outcome {
        if self.operation == Operation::Turns {
            return self.take_turns(peer);
        }
        let texts = match self.operation {
            Operation::About => Vec::new(),
            _ => read_messages(&self.messages, self.count)?,
        };
        let mut answer = Answer::default();
        let start = Instant::now();
        let (read, expected) = match self.operation {
            Operation::About => {
                answer.version = peer.version();
                (Vec::new(), 0)
            }
            Operation::Build => {
                peer.build(&self.dir, &texts, self.last)?;
                (Vec::new(), 0)
            }
            Operation::Append | Operation::Turns => {
                let appended = peer.append(&self.dir, &texts)?;
                answer.ms = appended.ms;
                answer.device = appended.device;
                (Vec::new(), 0)
            }
            Operation::Setup | Operation::Grow | Operation::Sessions => {
                return Err("it is not on a server".into());
            }
            Operation::Load => (peer.load(&self.dir)?, texts.len()),
            Operation::Last => (peer.last(&self.dir, self.last)?, self.last.min(texts.len())),
        };
        if expected > 0 {
            answer.ms = millis(start.elapsed());
        }
        if read != texts[texts.len() - expected..] {
            let read = read.len();
            return Err(format!("{read} messages were read that are not those written").into());
        }
        println!("{}", serde_json::to_string(&answer)?);
        Ok(())
    }

    /// The messages behind the first `count` are those that are appended.
    fn take_turns(&self, peer: &dyn Peer) -> Outcome {
        let texts = read_messages(&self.messages, self.count + self.turns)?;
        let mut session = peer.turns(&self.dir, self.last)?;
        let (mut turns, mut contexts) = (Vec::new(), Vec::new());
        for number in self.count..self.count + self.turns {
            let start = Instant::now();
            session.append(&texts[number])?;
            let appended = start.elapsed();
            let loaded = session.context()?;
            let turn = start.elapsed();
            turns.push(millis(turn));
            contexts.push(millis(turn.saturating_sub(appended)));
            let read = loaded.into_texts()?;
            // A context may be some messages longer or shorter than what was asked for.
            let expected = &texts[..=number];
            let least = read.len().min(self.last / 2).min(expected.len());
            if least == 0 || !ends_with(&read, &expected[expected.len() - least..]) {
                let read = read.len();
                return Err(format!("a context of {read} that is not what was said").into());
            }
        }
        let (ms, context_ms) = (median(&turns), Some(median(&contexts)));
        let answer = Answer { ms, context_ms, ..Answer::default() };
        println!("{}", serde_json::to_string(&answer)?);
        Ok(())
    }
}

fn ends_with(read: &[String], expected: &[String]) -> bool {
    read.len() >= expected.len() && read[read.len() - expected.len()..] == *expected
}

/// Starts the process of a peer, up to its arguments, and waits for its answer.
pub(crate) fn ask(
    mut process: Command,
    operation: Operation,
    dir: &Path,
    messages: &Path,
    numbers: &[usize],
) -> Outcome<Answer> {
    process.arg(operation.name()).arg(dir).arg(messages);
    process.args(numbers.iter().map(usize::to_string));
    if let Some(device) = Device::below(dir) {
        process.env(device::VARIABLE, device.counters());
    }
    let output = process.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let reason = errors.trim_end().lines().last().unwrap_or("it does not say why");
        return Err(reason.to_owned().into());
    }
    // A library may have printed something before.
    let line = output.stdout.trim_ascii_end().split(|&byte| byte == b'\n').next_back();
    Ok(serde_json::from_slice(line.unwrap_or_default())?)
}

/// Writes the messages for all; gives the bytes of their text.
pub(crate) fn write_messages(text: &Text, count: usize, path: &Path) -> Outcome {
    let mut out = BufWriter::new(File::create_new(path)?);
    for index in 0..count {
        serde_json::to_writer(&mut out, text.piece(index))?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

fn read_messages(path: &Path, count: usize) -> Outcome<Vec<String>> {
    let lines = BufReader::new(File::open(path)?).lines().take(count);
    lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}
