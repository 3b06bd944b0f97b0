//! `abide export`: a whole session as JSON.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use abide::{EventRange, ReadNote, SessionFields, SessionId, SessionRef, SessionView, Timestamp};
use serde::Serialize;
use tempfile::NamedTempFile;

use super::export_bundle;
use crate::error::{CommandError, at};
use crate::output::{Output, status, warning};
use crate::store::{SessionArg, Surroundings};

/// Write a whole session as JSON: every event in order, its data as it was recorded
///
/// Where something is damaged, all that can be read is written, a warning says what is lost, and
/// the exit code is 1. A bundle is refused then: it holds a whole session.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide export | jq 'select(.kind == \"message.added\") | .data'
  abide export abc123 --format json -o session.json
  abide export abc123 --format bundle -o session.abide")]
pub(crate) struct Export {
    #[command(flatten)]
    session: SessionArg,
    /// One event a line, or one document
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// Write to this file, which appears when it is whole [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// {"session":{…},"events":[…]}
    Json,
    /// {"seq":…,"at":…,"kind":…,"data":{…}}, one a line
    Jsonl,
    /// One file with the session and all its objects, for `abide import`
    Bundle,
}

/// The session of a document.
#[derive(Serialize)]
struct About {
    id: SessionId,
    created: Timestamp,
    status: &'static str,
    #[serde(flatten)]
    fields: SessionFields,
}

impl Export {
    pub(crate) fn run(self, surroundings: &Surroundings) -> Result<(), CommandError> {
        let opened = surroundings.open()?;
        let id = self.session.find(&opened, surroundings)?;
        if self.format == Format::Bundle {
            let path = self.output.map(|path| surroundings.absolute(&path));
            return export_bundle::run(&opened, id, path);
        }
        let view = opened.store.view(&SessionRef::Id(id))?;
        let notes = match &self.output {
            None => {
                let mut target = Target::Stdout(Output::stdout());
                let notes = write(&view, self.format, &mut target)?;
                target.finish()?;
                notes
            }
            Some(path) => {
                let path = surroundings.absolute(path);
                let mut target = Target::file(path)?;
                let notes = write(&view, self.format, &mut target)?;
                target.finish()?;
                notes
            }
        };
        let mut damaged = false;
        for note in &notes {
            match note {
                ReadNote::TornTail { .. } => status(format_args!("Note: {note}")),
                ReadNote::Damage { .. } => {
                    damaged = true;
                    warning(note);
                }
            }
        }
        if damaged {
            return Err(CommandError::failed(format!(
                "session {id} is damaged; all that can be read was exported"
            ))
            .with_hint("`abide doctor` says what is lost"));
        }
        Ok(())
    }
}

fn write(
    view: &SessionView,
    format: Format,
    target: &mut Target,
) -> Result<Vec<ReadNote>, CommandError> {
    if format == Format::Json {
        let core = view.state()?.core;
        let about = About {
            id: view.id(),
            created: core.created,
            status: core.status.as_str(),
            fields: core.fields,
        };
        let about = serde_json::to_string(&about).unwrap_or_default();
        target.line(&format!("{{\"session\":{about},\"events\":["))?;
    }
    let mut events = view.events(EventRange::ALL);
    let mut next = events.next().transpose()?;
    while let Some(event) = next {
        next = events.next().transpose()?;
        let mut line = event.to_json();
        if format == Format::Json && next.is_some() {
            line.push(',');
        }
        target.line(&line)?;
    }
    if format == Format::Json {
        target.line("]}")?;
    }
    Ok(events.notes().to_vec())
}

/// Where the export goes.
enum Target {
    Stdout(Output),
    File { path: PathBuf, file: BufWriter<NamedTempFile> },
}

impl Target {
    /// A file that is not there until [`Target::finish`].
    fn file(path: PathBuf) -> Result<Self, CommandError> {
        let dir = path.parent().unwrap_or(Path::new("/"));
        let file = NamedTempFile::new_in(dir).map_err(at("create a file in", dir))?;
        Ok(Self::File { path, file: BufWriter::new(file) })
    }

    fn line(&mut self, line: &str) -> Result<(), CommandError> {
        match self {
            Self::Stdout(out) => out.json(line),
            Self::File { path, file } => file
                .write_all(line.as_bytes())
                .and_then(|()| file.write_all(b"\n"))
                .map_err(at("write", path.as_path())),
        }
    }

    fn finish(self) -> Result<(), CommandError> {
        match self {
            Self::Stdout(mut out) => out.flush(),
            Self::File { path, file } => {
                let file = file
                    .into_inner()
                    .map_err(|error| at("write", path.as_path())(error.into_error()))?;
                let sync = |file: &File| file.sync_all();
                sync(file.as_file()).map_err(at("sync", path.as_path()))?;
                file.persist(&path).map_err(|error| at("create", path.as_path())(error.error))?;
                Ok(())
            }
        }
    }
}
