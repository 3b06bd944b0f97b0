//! `abide share`: writes a session as a page to send to somebody.

use std::path::{Path, PathBuf};

use abide::{EventRange, Kind, SessionId, SessionRef, SessionView, event::ReadFinding};
use abide_transcript::HtmlRenderer;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status, warning};
use crate::error::CommandError;
use crate::export_target::ExportTarget;
use crate::path_shortener::PathShortener;
use crate::secret_masking::{PageMask, secret_redactor};
use crate::session_args::{SessionArg, SessionPurpose};
use crate::session_page::{overview_with_changes, write_session_page};

/// A session is named after a message among so many events.
const NAMING: usize = 1000;
/// The most characters of a title in the name of a file.
const NAME: usize = 40;

/// Write a session as one HTML page to send to someone
///
/// The page is a file in the current directory, named after the session, or where -o says; its path is
/// printed. It is self-contained and has no scripts. Workspace paths are relative in it, and paths in
/// your home directory start with `~`. Secrets are masked as far as `abide secrets` knows their form
/// or finds their value in your environment or in `.env`: read the page before you send it. Nothing is uploaded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide share                       the latest session, as a file in this directory
  abide share abc123 -o page.html")]
pub(crate) struct ShareArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Write to this file [default: named after the session, in this directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ShareArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::Read, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let state = view.state()?;
        let paths = PathShortener::new(
            state.core.fields.workspace.as_deref(),
            surroundings.person.home.as_deref(),
        );
        let workspace = state.core.fields.workspace.as_deref().map(Path::new);
        let mask = PageMask::new(secret_redactor(opened.store.redaction(), workspace)?);
        let mut overview = overview_with_changes(&view, &state, &*opened.store.objects()?)?;
        // A name that was cut from a prompt may hold a part of a secret.
        if state.core.fields.title.is_none() && first_prompts_touched(&view, &mask)? {
            overview.title = None;
        }
        mask.overview(&mut overview);
        paths.overview(&mut overview);
        let name = || PathBuf::from(share_file_name(overview.title.as_deref(), id));
        let path = surroundings.absolute(&self.output.unwrap_or_else(name));
        let mut target = ExportTarget::of(Some(path.clone()))?;
        let page = HtmlRenderer::new().with_filter(mask.before(paths.into_filter()));
        let notes = write_session_page(&view, &state, &overview, page, Some(&mask), &mut target)?;
        target.finish()?;
        let mut out = CommandOutput::stdout();
        out.line(abide_transcript::escape::text(&path.to_string_lossy()))?;
        out.flush()?;
        let masked = mask.report();
        masked.iter().for_each(status);
        if masked.is_empty() {
            status("No secret was found to mask");
        }
        status(
            "Read it before you send it: masking finds secrets by their form. Nothing was uploaded.",
        );
        let damaged = notes.iter().any(|note| matches!(note, ReadFinding::Damage { .. }));
        notes.iter().for_each(warning);
        if damaged {
            return Err(CommandError::failed(format!(
                "session {id} is damaged; the page has everything readable"
            ))
            .with_hint("`abide doctor` says what is lost"));
        }
        Ok(())
    }
}

/// Has one of the prompts that a session is named after a secret?
fn first_prompts_touched(view: &SessionView, mask: &PageMask) -> Result<bool, CommandError> {
    for event in view.events(EventRange::ALL).take(NAMING) {
        let event = event?;
        if event.kind == Kind::MESSAGE_ADDED && mask.touches(&event) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The name of a session's page: `fix-the-parser-abc123.html`.
fn share_file_name(title: Option<&str>, id: SessionId) -> String {
    let mut name = String::new();
    for c in title.unwrap_or_default().chars().flat_map(char::to_lowercase) {
        if c.is_alphanumeric() {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
        if name.chars().count() >= NAME {
            break;
        }
    }
    let name = name.trim_end_matches('-');
    let name = if name.is_empty() { "session" } else { name };
    format!("{name}-{}.html", id.short(SessionId::SHORT))
}
