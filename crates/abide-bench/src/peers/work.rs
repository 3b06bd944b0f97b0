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
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::About => "about",
            Self::Append => "append",
            Self::Load => "load",
            Self::Last => "last",
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
}

/// What a process says when it is done. A peer in another language says what it can.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    pub(crate) ms: f64,
    pub(crate) version: Option<String>,
    /// The version of Python, if that is what it is written in.
    pub(crate) python: Option<String>,
}

/// One that does the work in this program.
pub(crate) trait Peer {
    /// Its version, for the table.
    fn version(&self) -> Option<String>;

    /// Opens, appends the texts one at a time, each acknowledged, and closes. Gives the
    /// milliseconds of the appends alone.
    fn append(&self, dir: &Path, texts: &[String]) -> Outcome<f64>;

    /// Opens and reads every text.
    fn load(&self, dir: &Path) -> Outcome<Vec<String>>;

    /// Opens and reads the last texts, oldest first.
    fn last(&self, dir: &Path, count: usize) -> Outcome<Vec<String>>;
}

impl Task {
    /// Does the work, and says what it took.
    pub(crate) fn run(&self, peer: &dyn Peer) -> Outcome {
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
            Operation::Append => {
                answer.ms = peer.append(&self.dir, &texts)?;
                (Vec::new(), 0)
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
}

/// Starts the process of a peer, up to its arguments, and waits for its answer.
pub(crate) fn ask(
    mut process: Command,
    operation: Operation,
    dir: &Path,
    messages: &Path,
    [count, last]: [usize; 2],
) -> Outcome<Answer> {
    process.arg(operation.name()).arg(dir).arg(messages);
    process.args([count, last].map(|number| number.to_string()));
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
