//! The `abide` command: durable sessions for AI coding agents.
//!
//! Parses the command line and the environment, runs one command, and maps the result to an exit
//! code: 0 done, 1 failed, 2 usage, 3 broken pipe, 4 cancelled, 255 a bug.

// Doc comments on arguments are help texts.
#![allow(rustdoc::broken_intra_doc_links)]

mod apply_args;
mod clock;
mod command_context;
mod command_output;
mod command_place;
mod command_store;
mod commands;
mod conduct;
mod confirm;
mod container;
mod daily_cleanup;
mod duration;
mod error;
mod event_line;
mod export_target;
mod interrupt;
mod interrupted_rewind;
mod line_reader;
mod new_session_args;
mod pager;
mod path_shortener;
mod progress;
mod project_name;
mod rewind_report;
mod scoped_store;
mod session_args;
mod session_page;
mod session_status;
mod shared_recording;
mod shell_word;
mod summarizer_choice;
mod task_mark;
mod text_table;
mod typed_time;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use abide::{
    Consent,
    backend::DEFAULT_WAIT,
    locate::{StoreLocation, UserDirs},
};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};

use crate::command_context::CommandContext;
use crate::commands::AbideCommand;
use crate::duration::duration;
use crate::error::CommandError;

/// Durable sessions for AI coding agents: every message, tool call, task and file change, safe
/// before it is acknowledged.
///
/// A session outlives the process that runs it. What is recorded goes to your own store under your
/// home, for all projects, unless a project has one of its own: `.abide/`, made by `abide init` and
/// found upward from where you stand. Commands mean the sessions of this project.
#[derive(Debug, Parser)]
#[command(name = "abide", version, after_help = EXAMPLES)]
struct AbideArgs {
    /// The store, a project that has one, or the URL of a shared one: postgres://USER@HOST/DATABASE
    /// [env: ABIDE_STORE] [default: `.abide` here or above, else your own store]
    #[arg(long, global = true, value_name = "DIR|URL")]
    store: Option<PathBuf>,
    /// Read sessions of all projects in the store, not only of this one
    #[arg(short = 'A', long, global = true)]
    all_projects: bool,
    /// Take a session of a shared store even from a writer that lives elsewhere; its next write is
    /// refused
    #[arg(long, global = true)]
    take_over: bool,
    /// How long to wait for a session that another process holds and does not share (`2s`, `500ms`,
    /// `0`) [default: 2s]
    #[arg(long, global = true, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    #[command(subcommand)]
    command: AbideCommand,
}

const EXAMPLES: &str = "\
Examples:
  abide demo                     see a session survive a kill -9
  echo '{\"kind\":\"message.added\",\"data\":{\"role\":\"user\",\"content\":\"hello\"}}' | abide record
  abide show                     the session as a story
  abide tail                     what was recorded last
  abide doctor                   is everything as it was recorded?";

fn main() -> ExitCode {
    error::set_panic_hook();
    std::panic::catch_unwind(|| match run(parse_main_arguments()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    })
    .unwrap_or(ExitCode::from(error::BUG))
}

/// Parses the command line; exits on an error or a request for help.
///
/// Only the chosen command is built: building the arguments of all commands takes longer than most
/// commands. Help and errors mention the others too, so they build all.
fn parse_main_arguments() -> AbideArgs {
    let read = AbideArgs::command()
        .try_get_matches()
        .and_then(|matches| AbideArgs::from_arg_matches(&matches));
    match read {
        Ok(arguments) => arguments,
        Err(error) if error.kind() == ErrorKind::DisplayVersion => error.exit(),
        Err(_) => {
            let mut command = AbideArgs::command();
            command.build();
            let matches = command.get_matches();
            AbideArgs::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
        }
    }
}

fn run(arguments: AbideArgs) -> Result<(), CommandError> {
    let person = UserDirs::of_process();
    let surroundings = CommandContext {
        current_dir: std::env::current_dir().map_err(abide::Error::CurrentDir)?,
        store: arguments
            .store
            .or_else(|| variable_if_set("ABIDE_STORE").map(PathBuf::from))
            .map(StoreLocation::from),
        take_over: arguments.take_over,
        all_projects: arguments.all_projects,
        wait: arguments.wait.unwrap_or(DEFAULT_WAIT),
        consent: Consent::at(person.state.clone()),
        person,
        session: variable_text("ABIDE_SESSION"),
        task: variable_text("ABIDE_TASK"),
        lane: variable_text("ABIDE_LANE"),
        pager: variable_text("ABIDE_PAGER").or_else(|| variable_text("PAGER")),
        colours: variable_if_set("NO_COLOR").is_none()
            && variable_if_set("TERM").is_none_or(|term| term != "dumb"),
    };
    arguments.command.run(&surroundings, AbideArgs::command)
}

/// An environment variable as text.
fn variable_text(name: &str) -> Option<String> {
    variable_if_set(name).map(|value| value.to_string_lossy().into_owned())
}

/// An environment variable; an empty one counts as unset.
fn variable_if_set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
