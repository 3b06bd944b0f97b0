//! `abide rename`: gives a session another title.

use abide::{SessionFields, SessionId, SessionRef};
use abide_transcript::escape;
use serde::Serialize;

use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::error::CommandError;
use crate::scoped_store::{NameMatch, ScopedStore, shown_session_name};
use crate::session_args::{SessionOption, SessionPurpose};

/// The most characters of a title.
const LONGEST: usize = 200;

/// Change the title of a session
///
/// Lists show a session by its title, and commands accept the title in place of the id. A session
/// without a title is listed by your first prompt. A single argument is the new title of
/// the latest session. Of several, the first names the session and the rest is the title; with -s,
/// all of them are the title.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "abide rename [OPTIONS] TITLE\n       \
                      abide rename [OPTIONS] SESSION TITLE...\n       \
                      abide rename [OPTIONS] --session SESSION TITLE...",
    after_help = "\
Examples:
  abide rename \"Fix the parser\"            the latest session
  abide rename k3x9ab Fix the parser
  abide rename -s \"Fix the parser\" Fix the parser and the printer"
)]
pub(crate) struct RenameArgs {
    /// The session, unless it is the latest, and its new title
    #[arg(value_name = "TITLE", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionOption,
    /// Print {"session":…,"short":…,"title":…,"seq":…}
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RenamedSession<'a> {
    session: String,
    short: &'a str,
    title: &'a str,
    seq: Option<abide::Seq>,
}

impl RenameArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let (first, others) = match self.words.as_slice() {
            [first, others @ ..] if !self.session.is_named() && !others.is_empty() => {
                (Some(first), others)
            }
            all => (None, all),
        };
        let title = checked_title(others)?;
        let opened = surroundings.open_store()?;
        let id = match first {
            // The first word of an unquoted title may begin the name of another session.
            Some(named) => opened.find_by(named, NameMatch::Whole).map_err(|error| {
                error.with_hint("a title of several words for the latest session needs quotes")
            })?,
            None => self.unnamed(&title, &opened, surroundings)?,
        };
        let session = opened.store.open_session(&SessionRef::Id(id))?;
        let fields = SessionFields { title: Some(title.clone()), ..SessionFields::default() };
        let recorded = session.append(fields)?.wait().map_err(abide::Error::Append)?;
        let seq = recorded.first().map(|event| event.seq);
        session.close()?;
        let short = opened.store.short_id(id)?;
        let mut out = CommandOutput::stdout();
        if self.json {
            let renamed =
                RenamedSession { session: id.to_string(), short: &short, title: &title, seq };
            out.json(&serde_json::to_string(&renamed).unwrap_or_default())?;
        } else {
            out.line(format_args!("Renamed {short} to \"{}\"", escape::text(&title)))?;
        }
        out.flush()
    }

    /// The session of `-s`, else the latest. An id alone is not taken for a title.
    fn unnamed(
        &self,
        title: &str,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        if !self.session.is_named()
            && let Ok(Some(meant)) = opened.with_id_or_key(title)
        {
            let short = meant.short(SessionId::SHORT);
            let name = opened.name_of(meant);
            let shown =
                name.map_or_else(|| short.clone(), |name| shown_session_name(&name, &short));
            return Err(CommandError::failed(format!(
                "\"{}\" names the session {shown}, and no title follows",
                escape::text(title)
            ))
            .with_hint("if it is the title, name the session with `-s`"));
        }
        self.session.find(SessionPurpose::Write, opened, surroundings)
    }
}

/// The title on one line.
fn checked_title(words: &[String]) -> Result<String, CommandError> {
    let words: Vec<&str> = words.iter().flat_map(|words| words.split_whitespace()).collect();
    let title = words.join(" ");
    match title.chars().count() {
        0 => Err(CommandError::Usage("the title is empty".to_owned())),
        long if long > LONGEST => {
            let most = format!("the title has {long} characters; the limit is {LONGEST}");
            Err(CommandError::Usage(most))
        }
        _ => Ok(title),
    }
}
