//! `abide export`: exports a whole session, for programs or for people.

mod bundle;
mod json;
mod omissions;
mod source;
mod wire;

use std::path::{Path, PathBuf};

use abide::{
    EventRange, LaneId, SessionRef, SessionView,
    event::ReadFinding,
    secrets::{RedactionTally, Redactor},
};
use abide_transcript::{HtmlRenderer, MarkdownRenderer, SessionOverview};

use self::omissions::ExportOmissions;
use crate::command_context::CommandContext;
use crate::command_output::{status, warning};
use crate::error::CommandError;
use crate::export_format::ExportFormat;
use crate::export_target::ExportTarget;
use crate::secret_masking::{PageMask, tally_text};
use crate::session_args::{SessionArg, SessionPurpose};
use crate::session_page::{
    overview_with_changes, session_overview, write_session_page, write_transcript,
};

/// Write a session to a file: JSON, Markdown, HTML or a bundle
///
/// If the session is damaged, everything readable is written, a warning says what is lost, and the
/// exit code is 1. The same happens with a message that an API format cannot represent. A bundle
/// must hold a whole session, so a damaged session cannot be exported as one. Secrets that were recorded before
/// they were redacted are masked in Markdown and HTML; of those in other formats a warning tells.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide export | jq 'select(.kind == \"message.added\") | .data'
  abide export abc123 -o session.json
  abide export -o session.html
  abide export --format markdown | less
  abide export --format anthropic > messages.jsonl
  abide export abc123 -o session.abide
  abide export abc123 --format source -o DIR")]
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
        let view = opened.store.view(&SessionRef::Id(id))?;
        let workspace = view.state()?.core.fields.workspace;
        let redaction = opened.store.redaction();
        let redactor = redaction.recorder(workspace.as_deref().map(Path::new));
        // Where secrets are kept, they are exported.
        let redactor = redactor.map_err(abide::Error::from)?;
        let mask = redactor.clone().map(PageMask::new);
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
                bundle::export_bundle(&opened, id, ExportTarget::of(path)?)?;
                tell_secrets(&view, redactor.as_ref());
                return Ok(());
            }
            (ExportFormat::Source, _) => {
                source::export_source(&view, path)?;
                tell_secrets(&view, redactor.as_ref());
                return Ok(());
            }
            (ExportFormat::Json, _) => export_whole(json::export_json_document),
            (ExportFormat::Transcript, _) => export_whole(write_transcript),
            (ExportFormat::Markdown, _) => {
                let mask = mask.clone();
                export_whole(move |view, to| {
                    let state = view.state()?;
                    let overview = masked(session_overview(view, &state)?, mask.as_ref());
                    let page = MarkdownRenderer::new();
                    write_session_page(view, &state, &overview, page, mask.as_ref(), to)
                })
            }
            (ExportFormat::Html, _) => {
                let (objects, mask) = (opened.store.objects()?, mask.clone());
                export_whole(move |view, to| {
                    let state = view.state()?;
                    let overview = overview_with_changes(view, &state, &*objects)?;
                    let overview = masked(overview, mask.as_ref());
                    let page = HtmlRenderer::new();
                    write_session_page(view, &state, &overview, page, mask.as_ref(), to)
                })
            }
            _ => export_whole(json::export_json_lines),
        };
        let mut target = ExportTarget::of(path)?;
        let left = write(&view, &mut target)?;
        target.finish()?;
        match format {
            ExportFormat::Markdown | ExportFormat::Html => {
                mask.iter().flat_map(PageMask::report).for_each(status);
            }
            _ => tell_secrets(&view, redactor.as_ref()),
        }
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

/// An overview without secrets.
fn masked(mut overview: SessionOverview, mask: Option<&PageMask>) -> SessionOverview {
    if let Some(mask) = mask {
        mask.overview(&mut overview);
    }
    overview
}

/// Warns of the secrets in a session that was exported as it was recorded. What cannot be read was not
/// exported either, and is told by the export.
fn tell_secrets(view: &SessionView, redactor: Option<&Redactor>) {
    let Some(redactor) = redactor else { return };
    let mut tally = RedactionTally::default();
    for event in view.events(EventRange::ALL).map_while(Result::ok) {
        let redacted = event.data.as_ref().map(|data| redactor.redact_json(data.as_str()));
        if let Some(Ok(redacted)) = redacted {
            tally.merge(redacted.tally());
        }
    }
    if !tally.is_empty() {
        warning(format_args!(
            "what was exported has secrets that were recorded before they were redacted: {}; `abide erase` \
             removes them",
            tally_text(&tally)
        ));
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
