//! `abide new`: creates a session.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::daily_cleanup::run_daily_cleanup;
use crate::error::CommandError;
use crate::new_session_args::NewSessionArgs;

/// Create a session and print its id
///
/// With --key, a session that already has this key is used instead of a new one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide new --title \"Fix the parser\" --agent my-agent
  export ABIDE_SESSION=$(abide new --key my-agent/ticket-42)")]
pub(crate) struct NewArgs {
    #[command(flatten)]
    about: NewSessionArgs,
    /// The model that the session uses
    #[arg(long)]
    model: Option<String>,
    /// Label to find the session by; can be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_new_label)]
    labels: Vec<(String, String)>,
    /// Your own key for the session; if a session has this key, it is used instead
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Print {"session":…,"short":…}
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CreatedSessionJson<'a> {
    session: &'a str,
    short: &'a str,
}

impl NewArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_or_init_store()?;
        let mut session = self.about.into_session(self.key, surroundings);
        session.fields.model = self.model;
        session.fields.labels = BTreeMap::from_iter(self.labels);
        let id = opened.make(session)?;
        run_daily_cleanup(&opened, id);
        let mut out = CommandOutput::stdout();
        if self.json {
            let short = opened.store.short_id(id)?;
            let made = CreatedSessionJson { session: &id.to_string(), short: &short };
            out.json(&serde_json::to_string(&made).unwrap_or_default())?;
        } else {
            out.line(id)?;
        }
        out.flush()
    }
}

fn parse_new_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
