//! `abide export`: exports a whole session, for programs or for people.

mod bundle;
mod json;
mod omissions;
mod wire;

use std::path::PathBuf;

use abide::{LaneId, SessionRef, SessionView, event::ReadFinding};
use abide_transcript::{HtmlRenderer, MarkdownRenderer};

use self::omissions::ExportOmissions;
use crate::command_context::CommandContext;
use crate::command_output::{status, warning};
use crate::error::CommandError;
use crate::export_format::ExportFormat;
use crate::export_target::ExportTarget;
use crate::session_args::{SessionArg, SessionPurpose};
use crate::session_page::{
    overview_with_changes, session_overview, write_session_page, write_transcript,
};

/// Write a session to a file: JSON, Markdown, HTML or a bundle
///
/// If the session is damaged, everything readable is written, a warning says what is lost, and the
/// exit code is 1. The same happens with a message that an API format cannot represent. A bundle
/// must hold a whole session, so a damaged session cannot be exported as one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide export | jq 'select(.kind == \"message.added\") | .data'
  abide export abc123 -o session.json
  abide export -o session.html
  abide export --format markdown | less
  abide export --format anthropic > messages.jsonl
  abide export abc123 -o session.abide")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Output format [default: by the name of the file: .html, .md, .json, .jsonl or .abide; else jsonl]
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// Export this lane, with openai, responses or anthropic [default: the main lane]
    #[arg(long, value_name = "LANE")]
    lane: Option<String>,
    /// Write to this file, pipe or device; a file appears only when it is complete [default:
    /// stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The most events that are named.
const NAMED: usize = 20;

/// Writes a session in some format.
type ExportWriter =
    Box<dyn Fn(&SessionView, &mut ExportTarget) -> Result<ExportOmissions, CommandError>>;

impl ExportArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::Read, &opened, surroundings)?;
        let path = self.output.map(|path| surroundings.absolute(&path));
        let lane = self.lane.map(LaneId);
        let named = || path.as_deref().and_then(ExportFormat::of_name);
        let format = self.format.or_else(named).unwrap_or(ExportFormat::Jsonl);
        let write: ExportWriter = match (format, format.form()) {
            (_, Some(form)) => {
                Box::new(move |view, to| wire::export_wire_messages(view, form, &lane, to))
            }
            _ if lane.is_some() => {
                return Err(CommandError::Usage(
                    "--lane needs --format openai, responses or anthropic".to_owned(),
                ));
            }
            (ExportFormat::Bundle, _) => {
                return bundle::export_bundle(&opened, id, ExportTarget::of(path)?);
            }
            (ExportFormat::Json, _) => export_whole(json::export_json_document),
            (ExportFormat::Transcript, _) => export_whole(write_transcript),
            (ExportFormat::Markdown, _) => export_whole(|view, to| {
                let state = view.state()?;
                let overview = session_overview(view, &state)?;
                write_session_page(view, &state, &overview, MarkdownRenderer::new(), None, to)
            }),
            (ExportFormat::Html, _) => {
                let objects = opened.store.objects()?;
                export_whole(move |view, to| {
                    let state = view.state()?;
                    let overview = overview_with_changes(view, &state, &*objects)?;
                    write_session_page(view, &state, &overview, HtmlRenderer::new(), None, to)
                })
            }
            _ => export_whole(json::export_json_lines),
        };
        let view = opened.store.view(&SessionRef::Id(id))?;
        let mut target = ExportTarget::of(path)?;
        let left = write(&view, &mut target)?;
        target.finish()?;
        let mut damaged = false;
        for note in &left.notes {
            match note {
                ReadFinding::TornTail { .. } => status(format_args!("Note: {note}")),
                ReadFinding::Damage { .. } => {
                    damaged = true;
                    warning(note);
                }
            }
        }
        if damaged {
            return Err(CommandError::failed(format!(
                "session {id} is damaged; everything readable was exported"
            ))
            .with_hint("`abide doctor` says what is lost"));
        }
        for (seq, why) in left.refused.iter().take(NAMED) {
            warning(format_args!("@{seq} is not exported: {why}"));
        }
        match left.refused.len() {
            0 => Ok(()),
            count => {
                let s = if count == 1 { " was" } else { "s were" };
                Err(CommandError::failed(format!("{count} event{s} not exported; all others were"))
                    .with_hint("`abide export --format jsonl` has every event as it was recorded"))
            }
        }
    }
}

/// Writes every event, whatever it holds.
fn export_whole(
    write: impl Fn(&SessionView, &mut ExportTarget) -> Result<Vec<ReadFinding>, CommandError> + 'static,
) -> ExportWriter {
    Box::new(move |view, to| {
        Ok(ExportOmissions { notes: write(view, to)?, ..ExportOmissions::default() })
    })
}
