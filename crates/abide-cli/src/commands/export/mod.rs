//! `abide export`: a whole session, for programs or for people.

mod json;
mod page;
mod target;

use std::path::PathBuf;

use abide::{ReadNote, SessionRef, SessionView};
use abide_transcript::{Html, Markdown};

use self::target::Target;
use crate::error::CommandError;
use crate::output::{Output, status, warning};
use crate::store::{SessionArg, Surroundings};

/// Write a whole session: for programs, every event as it was recorded; for people, a page
///
/// Where something is damaged, all that can be read is written, a warning says what is lost, and
/// the exit code is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide export | jq 'select(.kind == \"message.added\") | .data'
  abide export abc123 --format json -o session.json
  abide export --format html -o session.html
  abide export --format markdown | less")]
pub(crate) struct Export {
    #[command(flatten)]
    session: SessionArg,
    /// In which form
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
    /// Text that reads well and from which every event can be read back
    Transcript,
    /// Markdown; what a rewind took back is left out, as in html
    Markdown,
    /// One page that needs nothing else, without scripts
    Html,
}

impl Format {
    fn write(self, view: &SessionView, to: &mut Target) -> Result<Vec<ReadNote>, CommandError> {
        match self {
            Self::Json => json::document(view, to),
            Self::Jsonl => json::lines(view, to),
            Self::Transcript => page::transcript(view, to),
            Self::Markdown => page::rendered(view, Markdown::new(), to),
            Self::Html => page::rendered(view, Html::new(), to),
        }
    }
}

impl Export {
    pub(crate) fn run(self, surroundings: &Surroundings) -> Result<(), CommandError> {
        let opened = surroundings.open()?;
        let id = self.session.find(&opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let mut target = match &self.output {
            None => Target::Stdout(Output::stdout()),
            Some(path) => Target::file(surroundings.absolute(path))?,
        };
        let notes = self.format.write(&view, &mut target)?;
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
