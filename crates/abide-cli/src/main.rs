//! The `abide` command: durable sessions for AI coding agents.
//!
//! Parses the command line and the environment, runs one command, and maps the result to an exit
//! code: 0 done, 1 failed, 2 usage, 3 broken pipe, 4 cancelled, 255 a bug.

// Doc comments on arguments are help texts.
#![allow(rustdoc::broken_intra_doc_links)]

mod agent_resume;
mod answer_json;
mod apply_args;
mod argument_tips;
mod checkpoint_lookup;
mod clock;
mod command_context;
mod command_output;
mod command_place;
mod command_store;
mod commands;
mod completion_candidates;
mod conduct;
mod confirm;
mod container;
mod daily_cleanup;
mod duration;
mod error;
mod event_line;
mod export_format;
mod export_target;
mod help_groups;
mod help_topics;
mod hook_sweep;
mod interrupt;
mod interrupted_rewind;
mod labelled_lines;
mod line_reader;
mod new_session_args;
mod next_step;
mod noun_count;
mod pager;
mod patch_output;
mod path_shortener;
mod plugin_changes;
mod program_path;
mod progress;
mod project_name;
mod rewind_report;
mod scoped_store;
mod secret_masking;
mod session_args;
mod session_page;
mod session_status;
mod shared_recording;
mod shell_word;
mod summarizer_choice;
mod task_mark;
mod text_table;
mod typed_time;
mod verb_tips;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use abide::{backend::DEFAULT_WAIT, locate::StoreLocation};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};
use clap_complete::CompleteEnv;

use crate::argument_tips::with_argument_tip;
use crate::command_context::CommandContext;
use crate::commands::{AbideCommand, HookWords, OverviewArgs};
use crate::completion_candidates::COMPLETION_VARIABLE;
use crate::duration::duration;
use crate::error::CommandError;
use crate::help_groups::{with_grouped_help, with_short_options};
use crate::verb_tips::with_verb_tip;

/// Durable sessions for AI coding agents
///
/// abide records every message, tool call, task and file change, and acknowledges each only when it
/// is safe on disk. A session outlives the process that runs it: you can resume, search and rewind
/// it.
#[derive(Debug, Parser)]
#[command(name = "abide", version, after_help = EXAMPLES, disable_help_subcommand = true)]
struct AbideArgs {
    /// The store: a directory, or postgres://USER@HOST/DATABASE (`abide help store`)
    #[arg(long, global = true, value_name = "DIR|URL", help_heading = GLOBAL, hide_short_help = true)]
    store: Option<PathBuf>,
    /// Include sessions of all projects in the store, not only this one
    #[arg(short = 'A', long, global = true, help_heading = GLOBAL, hide_short_help = true)]
    all_projects: bool,
    /// Take a session away from a process on another machine; the next write of that process is refused
    #[arg(long, global = true, help_heading = GLOBAL, hide_short_help = true)]
    take_over: bool,
    /// How long to wait for a session whose writer does not answer (500ms, 2s) [default: 2s]
    #[arg(long, global = true, value_name = "TIME", value_parser = duration, help_heading = GLOBAL, hide_short_help = true)]
    wait: Option<Duration>,
    #[command(subcommand)]
    command: Option<AbideCommand>,
}

/// The heading of the options that every command has.
const GLOBAL: &str = "Options of every command";

const EXAMPLES: &str = "\
Examples:
  abide run claude               run an agent and record everything it does
  abide search \"retry limit\"     search messages and tool calls
  abide save -m \"it works\"       make a checkpoint of files and conversation
  abide rewind                   choose a checkpoint to rewind to
  abide help places              more help, by topic; `abide help` lists the topics";

fn main() -> ExitCode {
    if let Some(hook) = HookWords::of_process() {
        // An agent shows what a hook prints, and takes its exit code for an answer.
        std::panic::set_hook(Box::new(|_| {}));
        let _ = std::panic::catch_unwind(|| hook.run());
        return ExitCode::SUCCESS;
    }
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
    // A shell asks for completions by a variable.
    CompleteEnv::with_factory(AbideArgs::command).var(COMPLETION_VARIABLE).complete();
    let read = AbideArgs::command()
        .try_get_matches()
        .inspect(error::note_command)
        .and_then(|matches| AbideArgs::from_arg_matches(&matches));
    match read {
        Ok(arguments) => arguments,
        Err(error) if error.kind() == ErrorKind::DisplayVersion => error.exit(),
        Err(_) => {
            let mut command = AbideArgs::command();
            command.build();
            let read = with_grouped_help(with_short_options(command))
                .try_get_matches()
                .and_then(|matches| AbideArgs::from_arg_matches(&matches));
            read.unwrap_or_else(|error| {
                let words = std::env::args_os().skip(1);
                let words: Vec<String> =
                    words.map(|word| word.to_string_lossy().into_owned()).collect();
                error::exit_usage(&with_argument_tip(with_verb_tip(error, &words), &words))
            })
        }
    }
}

fn run(arguments: AbideArgs) -> Result<(), CommandError> {
    let process = CommandContext::of_process()?;
    let surroundings = CommandContext {
        store: arguments.store.map(StoreLocation::from).or(process.store),
        take_over: arguments.take_over,
        all_projects: arguments.all_projects,
        wait: arguments.wait.unwrap_or(DEFAULT_WAIT),
        ..process
    };
    match arguments.command {
        Some(command) => command.run(&surroundings, AbideArgs::command),
        None => OverviewArgs.run(&surroundings),
    }
}
