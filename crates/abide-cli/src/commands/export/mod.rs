//! `abide export`: a whole session, for programs or for people.

mod bundle;
mod json;
mod page;
mod target;

use std::path::PathBuf;

use abide::{ReadNote, SessionRef};
use abide_transcript::{Html, Markdown};

use self::target::Target;
use crate::error::CommandError;
use crate::output::{status, warning};
use crate::store::{SessionArg, Surroundings};

/// Write a whole session: for programs, every event as it was recorded; for people, a page
///
/// Where something is damaged, all that can be read is written, a warning says what is lost, and
/// the exit code is 1. A bundle is refused then: it holds a whole session.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide export | jq 'select(.kind == \"message.added\") | .data'
  abide export abc123 --format json -o session.json
  abide export --format html -o session.html
  abide export --format markdown | less
  abide export abc123 --format bundle -o session.abide")]
pub(crate) struct Export {
    #[command(flatten)]
    session: SessionArg,
    /// In which form
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// Write to this file, which appears when it is whole, or into a pipe or device [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// {"session":{…},"events":[…]}
    Json,
    /// {"seq":…,"at":…,"kind":…,"data":{…}}, one a line
    Jsonl,
    /// Text that reads well and from which every event can be read back
    Transcript,
    /// Markdown; what a rewind took back is left out, as in html
    Markdown,
    /// One page that needs nothing else, without scripts
    Html,
    /// One file with the session and all its objects, for `abide import`
    Bundle,
}

impl Export {
    pub(crate) fn run(self, surroundings: &Surroundings) -> Result<(), CommandError> {
        let opened = surroundings.open()?;
        let id = self.session.find(&opened, surroundings)?;
        let path = self.output.map(|path| surroundings.absolute(&path));
        let write = match self.format {
            Format::Bundle => return bundle::run(&opened, id, Target::of(path)?),
            Format::Json => json::document,
            Format::Jsonl => json::lines,
            Format::Transcript => page::transcript,
            Format::Markdown => |view: &_, to: &mut _| page::rendered(view, Markdown::new(), to),
            Format::Html => |view: &_, to: &mut _| page::rendered(view, Html::new(), to),
        };
        let view = opened.store.view(&SessionRef::Id(id))?;
        let mut target = Target::of(path)?;
        let notes = write(&view, &mut target)?;
        target.finish()?;
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
