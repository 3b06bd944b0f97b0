//! Measurements in a process of their own: this program, started again.
//!
//! Memory and bytes written are counted by process, and what an earlier figure has left in the
//! allocator would count too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use abide::{EventRange, SessionId, SessionRef, maintenance::Upkeep};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::calibration::millis;
use crate::fixture::{Place, append_durably};
use crate::text::Text;

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Opens a session for writing and reads its last events.
    OpenWrite,
    /// Opens a session for reading and reads its last events.
    OpenView,
    /// Reads all events of a session.
    Stream,
    /// Reads all events of a session and decodes each.
    Facts,
    /// Makes a session and appends to it, one by one.
    Fill,
}

/// A child's task.
#[derive(Debug, Args)]
pub(crate) struct Task {
    what: What,
    /// The project whose store it is.
    dir: PathBuf,
    /// How many events.
    count: usize,
    /// Which session.
    session: Option<SessionId>,
}

/// What a child says when it is done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) ms: f64,
    /// The most memory it had.
    pub(crate) rss_mib: f64,
    /// How many events it read or wrote.
    pub(crate) events: usize,
    /// What it handed to the system to write meanwhile.
    pub(crate) written: u64,
    /// Bytes of the messages' text, and of the same as JSON strings.
    pub(crate) text: u64,
    pub(crate) text_as_json: u64,
    pub(crate) session: Option<SessionId>,
}

/// Runs a task in a child.
pub(crate) fn ask(
    what: What,
    dir: &Path,
    count: usize,
    session: Option<SessionId>,
) -> Outcome<Answer> {
    let name = what.to_possible_value().ok_or("a task without a name")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("child").arg(name.get_name()).arg(dir);
    command.arg(count.to_string());
    command.args(session.map(|id| id.to_string()));
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("a child that was to {name:?} ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Does the task, in the child.
pub(crate) fn run(task: &Task) -> Outcome {
    let mut answer = Answer {
        ms: 0.0,
        rss_mib: 0.0,
        events: 0,
        written: 0,
        text: 0,
        text_as_json: 0,
        session: task.session,
    };
    if task.what == What::Fill {
        fill(task, &mut answer)?;
    } else {
        read(task, &mut answer)?;
    }
    answer.rss_mib = process_number("status", "VmHWM:")? as f64 / 1024.0;
    println!("{}", serde_json::to_string(&answer)?);
    Ok(())
}

fn read(task: &Task, answer: &mut Answer) -> Outcome {
    let id = task.session.ok_or("which session?")?;
    let start = Instant::now();
    let place = Place::of(&task.dir, Upkeep::Beside)?;
    // Held until the clock is stopped, as who opens for writing does.
    let session = (task.what == What::OpenWrite).then(|| place.open(id)).transpose()?;
    let view = match &session {
        Some(session) => session.view().clone(),
        None => place.store.view(&SessionRef::Id(id))?,
    };
    match task.what {
        What::OpenWrite | What::OpenView => answer.events = view.last(task.count)?.len(),
        _ => {
            for event in view.events(EventRange::ALL) {
                let event = event?;
                if task.what == What::Facts {
                    std::hint::black_box(event.fact()?);
                }
                answer.events += 1;
                std::hint::black_box(event);
            }
        }
    }
    answer.ms = millis(start.elapsed());
    Ok(())
}

fn fill(task: &Task, answer: &mut Answer) -> Outcome {
    let text = Text::load();
    let before = process_number("io", "wchar:")?;
    let start = Instant::now();
    let session = Place::of(&task.dir, Upkeep::ByHand)?.session()?;
    for index in 0..task.count {
        append_durably(&session, &text, index);
    }
    answer.session = Some(session.id());
    session.close()?;
    answer.ms = millis(start.elapsed());
    answer.written = process_number("io", "wchar:")? - before;
    answer.events = task.count;
    for piece in (0..task.count).map(|index| text.piece(index)) {
        answer.text += piece.len() as u64;
        // Without the quotes, which are the envelope's.
        answer.text_as_json += serde_json::to_string(piece)?.len() as u64 - 2;
    }
    Ok(())
}

/// A number that the system keeps of this process.
fn process_number(file: &str, name: &str) -> Outcome<u64> {
    let text = std::fs::read_to_string(Path::new("/proc/self").join(file))?;
    let number = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
        .ok_or_else(|| format!("the system does not say {name}"))?;
    Ok(number.parse()?)
}
