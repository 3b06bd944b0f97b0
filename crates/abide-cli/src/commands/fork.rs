//! `abide fork`: starts a new session from a point in another one's past.

use abide::{NewSession, Seq, SessionFields, SessionId, SessionRef};
use clap_complete::ArgValueCandidates;
use serde::Serialize;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::completion_candidates::place_candidates;
use crate::error::CommandError;
use crate::session_args::{SessionOption, SessionPurpose};

/// Start a new session from an earlier place in another one
///
/// The new session shares the history up to that place; nothing is copied. From then on, neither
/// session sees the other's events. Without WHERE, the fork starts after the last acknowledged
/// event. Files in the workspace are unchanged.
///
/// WHERE is one of: @41, after that event; turn:3, the end of that turn (or its last event, if it
/// has not ended); decision, after the last decision of an arbiter; or a checkpoint, by its number,
/// label or id. Rewound places are found too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide fork                            from the last event
  abide fork turn:3 -s abc123
  abide fork before-refactor --title \"Without the refactoring\"
  export ABIDE_SESSION=$(abide fork @41)")]
pub(crate) struct ForkArgs {
    /// The place to fork from: @41, turn:3, decision, or a checkpoint [default: the last event]
    #[arg(value_name = "WHERE", conflicts_with = "at", add = ArgValueCandidates::new(place_candidates))]
    place: Option<String>,
    /// Where
    #[arg(long, value_name = "WHERE", hide = true)]
    at: Option<String>,
    #[command(flatten)]
    session: SessionOption,
    /// Title of the new session [default: the original's title]
    #[arg(long)]
    title: Option<String>,
    /// Your own key for the session; if a session has this key, it is used instead
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Print {"session":…,"short":…,"parent":…,"at":…}
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ForkedSession<'a> {
    session: String,
    short: &'a str,
    parent: Option<SessionId>,
    at: Option<Seq>,
}

impl ForkArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let place = self.place.or(self.at);
        let purpose = SessionPurpose::Write;
        let parent =
            self.session.find_with_place(purpose, place.as_deref(), &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(parent))?;
        let at = place.as_deref().map(|place| view.resolve(place)).transpose()?;
        let fields = SessionFields { title: self.title, key: self.key, ..SessionFields::default() };
        let at = at.map(|place| place.seq);
        let id = opened.store.fork(&SessionRef::Id(parent), at, NewSession::from(fields))?;
        let short = opened.store.short_id(id)?;
        let link = opened.store.view(&SessionRef::Id(id))?.state()?.core.fields.parent;
        let mut out = CommandOutput::stdout();
        if self.json {
            let forked = ForkedSession {
                session: id.to_string(),
                short: &short,
                parent: link.as_ref().map(|link| link.session),
                at: link.as_ref().map(|link| link.seq),
            };
            out.json(&serde_json::to_string(&forked).unwrap_or_default())?;
        } else {
            out.line(&short)?;
            if let Some(link) = link {
                status(format_args!(
                    "Forked from {} at @{}. Continue with `abide record --session {short}`; `abide \
                    show {short}` shows it",
                    link.session.short(SessionId::SHORT),
                    link.seq
                ));
            }
        }
        out.flush()
    }
}
