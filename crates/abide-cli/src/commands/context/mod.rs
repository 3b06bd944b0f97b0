//! `abide context`: prints the current model context.

mod stats;
mod text;

use abide::{LaneId, MessageForm, Seq, SessionRef, context::SessionContext, event::ReadFinding};
use clap_complete::ArgValueCandidates;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::completion_candidates::place_candidates;
use crate::error::CommandError;
use crate::session_args::{SessionArg, SessionPurpose};

/// Print the current model context as an API request body
///
/// Compacted parts appear as their summaries, each call has exactly one result, and unknown
/// outcomes are stated as such. The time taken depends on the length of the context, not of the
/// session.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
WHERE is a checkpoint (its number, label or id), the end of a turn (turn:3), an event (@41), or
`decision`: the last decision of an arbiter.

Examples:
  abide context --format anthropic | jq .messages
  abide context abc123 --at turn:3 --format text
  abide context --stats")]
pub(crate) struct ContextArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Output format
    #[arg(long, value_enum, default_value_t = ContextFormat::Openai)]
    format: ContextFormat,
    /// Use this lane instead of the main lane
    #[arg(long, value_name = "LANE")]
    lane: Option<String>,
    /// Print the context as it was at this place
    #[arg(long, value_name = "WHERE", add = ArgValueCandidates::new(place_candidates))]
    at: Option<String>,
    /// Print the current tokens, window, usage, cost and limits instead
    #[arg(long, conflicts_with = "at")]
    stats: bool,
    /// With --stats, print JSON; the context itself is JSON except with `--format text`
    #[arg(long)]
    json: bool,
    /// Keep this message (@41) and the results of its calls when the rest is compacted
    #[arg(long, value_name = "@SEQ", conflicts_with_all = ["at", "stats", "json"])]
    pin: Vec<String>,
    /// Remove the pin of this message
    #[arg(long, value_name = "@SEQ", conflicts_with_all = ["at", "stats", "json"])]
    unpin: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ContextFormat {
    /// {"messages":[…]}, for Chat Completions
    Openai,
    /// {"input":[…]}, for Responses
    Responses,
    /// {"system":…,"messages":[…]}, for Messages
    Anthropic,
    /// Readable text
    Text,
}

impl ContextArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::Read, &opened, surroundings)?;
        // The main lane has no name.
        let lane = self.lane.clone().filter(|lane| !lane.is_empty()).map(LaneId);
        if !self.pin.is_empty() || !self.unpin.is_empty() {
            let session = opened.store.open_session(&SessionRef::Id(id))?;
            for named in &self.pin {
                tell_context_pins("Pinned", &session.pin(lane.as_ref(), context_seq(named)?)?);
            }
            for named in &self.unpin {
                tell_context_pins(
                    "No longer pinned",
                    &session.unpin(lane.as_ref(), context_seq(named)?)?,
                );
            }
            return Ok(session.close()?);
        }
        let view = opened.store.view(&SessionRef::Id(id))?;
        let context = match &self.at {
            Some(at) => view.context_at(lane.as_ref(), view.resolve(at)?.seq)?,
            None => view.context(lane.as_ref())?,
        };
        if context.lane.messages == 0
            && let Some(LaneId(lane)) = &lane
        {
            let state = view.state()?;
            if state.lanes.get(lane).is_none() {
                return Err(CommandError::failed(format!("there is no lane {lane:?}")));
            }
        }
        for note in &context.notes {
            match note {
                ReadFinding::TornTail { .. } => status(format_args!("Note: {note}")),
                ReadFinding::Damage { .. } => warning(note),
            }
        }
        let mut out = CommandOutput::stdout();
        if self.stats {
            let state = view.state()?;
            stats::tell_context_stats(&context, &state, self.json, &mut out)?;
        } else {
            self.show(&context, &mut out)?;
        }
        out.flush()
    }

    fn show(&self, context: &SessionContext, out: &mut CommandOutput) -> Result<(), CommandError> {
        let form = match self.format {
            ContextFormat::Openai => MessageForm::OpenAi,
            ContextFormat::Responses => MessageForm::Responses,
            ContextFormat::Anthropic => MessageForm::Anthropic,
            ContextFormat::Text => return text::tell_context_text(context, out),
        };
        out.verbatim_json(&context.render(form).to_json())
    }
}

fn tell_context_pins(done: &str, seqs: &[Seq]) {
    let seqs: Vec<String> = seqs.iter().map(|seq| format!("@{seq}")).collect();
    status(format_args!("{done}: {}", seqs.join(" ")));
}

fn context_seq(text: &str) -> Result<Seq, CommandError> {
    let digits = text.strip_prefix('@').unwrap_or(text);
    digits.parse().map(Seq).map_err(|_| {
        CommandError::failed(format!("{text:?} is not an event")).with_hint(
            "an event is named by its number, such as @41; `abide context --format text` shows \
            them",
        )
    })
}
