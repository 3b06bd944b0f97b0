//! `abide tail`: shows the last events of a session, and follows new ones.

use std::time::Duration;

use abide::{Event, EventRange, Seq, SessionRef};

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, warning};
use crate::error::CommandError;
use crate::event_line::EventLines;
use crate::session_args::{SessionArg, SessionPurpose};

/// Show the last events of a session, and follow it live with -f
///
/// On a terminal, each event is described on one line; elsewhere, or with --json, it is a line of
/// JSON. With -f, events of other processes appear as they are acknowledged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide tail                  the last 20 events of the latest session
  abide tail abc123 -n 100
  abide tail -f | jq .kind")]
pub(crate) struct TailArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Number of events
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    lines: u64,
    /// Show new events as they come, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Print JSON lines on a terminal too
    #[arg(long)]
    json: bool,
}

impl TailArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::Read, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let out = CommandOutput::stdout();
        let mut shower = TailPrinter {
            lines: (out.is_terminal() && !self.json).then(EventLines::for_terminal),
            out,
        };
        let last = if self.follow {
            view.acknowledged()?
        } else {
            let newest = view.page(EventRange::ALL.backward().limit(1))?.events;
            newest.first().map_or(Seq::ZERO, |event| event.seq)
        };
        let first = last.back(self.lines).next();
        if self.follow {
            let mut follow = view.follow(first);
            loop {
                match follow.next_within(Duration::ZERO)? {
                    Some(event) => shower.show(&event)?,
                    None => {
                        shower.out.flush()?;
                        follow.take_notes().iter().for_each(warning);
                        if let Some(event) = follow.next_within(Duration::from_secs(3600))? {
                            shower.show(&event)?;
                        }
                    }
                }
            }
        }
        if self.lines > 0 {
            let mut events = view.events(EventRange::from(first));
            for event in &mut events {
                shower.show(&event?)?;
            }
            shower.out.flush()?;
            events.notes().iter().for_each(warning);
        }
        Ok(())
    }
}

struct TailPrinter {
    /// Readable lines; `None` for JSON.
    lines: Option<EventLines>,
    out: CommandOutput,
}

impl TailPrinter {
    fn show(&mut self, event: &Event) -> Result<(), CommandError> {
        match &mut self.lines {
            // What is of interest in the record of a source comes as other events.
            Some(_) if event.kind == abide::Kind::SOURCE_RECORDED => Ok(()),
            Some(lines) => self.out.line(lines.line(event)),
            None => self.out.verbatim_json(&event.to_json()),
        }
    }
}
