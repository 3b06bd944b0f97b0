//! `abide new`: creates a session.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use abide::{NewSession, SessionFields};
use serde::Serialize;

use crate::error::CommandError;
use crate::output::CommandOutput;
use crate::store::CommandContext;

/// Make a session and print its id
///
/// With --key, a session that has the key already is taken instead of a new one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide new --title \"Fix the parser\" --agent my-agent
  export ABIDE_SESSION=$(abide new --key my-agent/ticket-42)")]
pub(crate) struct NewArgs {
    #[command(flatten)]
    about: NewSessionArgs,
    /// The model
    #[arg(long)]
    model: Option<String>,
    /// A name and a value to find it by; can be given more than once
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Your own key for it: with a key that is known, that session is taken
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Print {"session":…,"short":…}
    #[arg(long)]
    json: bool,
}

/// What a new session is.
#[derive(Debug, clap::Args)]
pub(super) struct NewSessionArgs {
    /// What people call it
    #[arg(long)]
    title: Option<String>,
    /// The agent that works in it
    #[arg(long)]
    agent: Option<String>,
    /// Where its files are [default: the current directory]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

impl NewSessionArgs {
    /// The session to create.
    pub(super) fn into_session(
        self,
        key: Option<String>,
        surroundings: &CommandContext,
    ) -> NewSession {
        let workspace = self.workspace.as_deref().unwrap_or(Path::new(""));
        let workspace = surroundings.absolute(workspace);
        NewSession {
            fields: SessionFields {
                title: self.title,
                agent: self.agent,
                workspace: Some(workspace.to_string_lossy().into_owned()),
                key,
                ..SessionFields::default()
            },
        }
    }
}

#[derive(Serialize)]
struct CreatedSession<'a> {
    session: &'a str,
    short: &'a str,
}

impl NewArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_or_init()?;
        let mut session = self.about.into_session(self.key, surroundings);
        session.fields.model = self.model;
        session.fields.labels = BTreeMap::from_iter(self.labels);
        let id = opened.make(session)?;
        super::cleanup::daily(&opened, id);
        let mut out = CommandOutput::stdout();
        if self.json {
            let short = opened.store.short_id(id)?;
            let made = CreatedSession { session: &id.to_string(), short: &short };
            out.json(&serde_json::to_string(&made).unwrap_or_default())?;
        } else {
            out.line(id)?;
        }
        out.flush()
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
