//! The commands, one file each.

mod acp;
mod checkpoint;
mod cleanup;
mod compact;
mod completions;
mod context;
mod copy;
mod demo;
mod disable;
mod doctor;
mod enable;
mod erase;
mod export;
mod fork;
mod help;
mod history;
mod hook;
mod import;
mod init;
mod man;
mod new;
mod overview;
mod pause;
mod plan;
mod project;
mod record;
mod rename;
mod resume;
mod rewind;
mod run;
mod schema;
mod secrets;
mod share;
mod show;
mod state;
mod status;
mod store;
mod tail;
mod tasks;
mod undo;
mod usage;

pub(crate) use self::hook::HookWords;
pub(crate) use self::overview::OverviewArgs;
use crate::command_context::CommandContext;
use crate::error::CommandError;

/// What abide can do.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum AbideCommand {
    Init(init::InitArgs),
    New(new::NewArgs),
    Record(record::RecordArgs),
    #[command(aliases = ["history", "list"])]
    Ls(history::HistoryArgs),
    Search(history::SearchArgs),
    Show(show::ShowArgs),
    Context(context::ContextArgs),
    Compact(compact::CompactArgs),
    Usage(usage::UsageArgs),
    Tail(tail::TailArgs),
    Run(run::RunArgs),
    Enable(enable::EnableArgs),
    Disable(disable::DisableArgs),
    Pause(pause::PauseArgs),
    Plan(plan::PlanArgs),
    Resume(resume::ResumeArgs),
    Acp(acp::AcpArgs),
    State(state::StateArgs),
    Tasks(tasks::TasksArgs),
    #[command(hide = true)]
    Checkpoint(checkpoint::CheckpointArgs),
    Rewind(rewind::RewindArgs),
    Schema(schema::SchemaArgs),
    Undo(undo::UndoArgs),
    Share(share::ShareArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Copy(copy::CopyArgs),
    Fork(fork::ForkArgs),
    Rename(rename::RenameArgs),
    Status(status::StatusArgs),
    #[command(name = "store")]
    Store(store::StoreArgs),
    Project(project::ProjectArgs),
    Doctor(doctor::DoctorArgs),
    Cleanup(cleanup::CleanupArgs),
    Erase(erase::EraseArgs),
    Secrets(secrets::SecretsArgs),
    Demo(demo::DemoArgs),
    #[command(hide = true)]
    DemoAgent(demo::DemoAgentArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    Help(help::HelpArgs),
    Save(checkpoint::SaveArgs),
    Saves(checkpoint::SavesArgs),
    Diff(checkpoint::DiffArgs),
    Redo(undo::RedoArgs),
}

impl AbideCommand {
    /// Runs the command. `whole` builds the whole command line, for help and manual pages.
    pub(crate) fn run(
        self,
        surroundings: &CommandContext,
        whole: fn() -> clap::Command,
    ) -> Result<(), CommandError> {
        match self {
            Self::Init(init) => init.run(surroundings),
            Self::New(new) => new.run(surroundings),
            Self::Record(record) => record.run(surroundings),
            Self::Ls(list) => list.run(surroundings),
            Self::Search(search) => search.run(surroundings),
            Self::Show(show) => show.run(surroundings),
            Self::Context(context) => context.run(surroundings),
            Self::Compact(compact) => compact.run(surroundings),
            Self::Usage(usage) => usage.run(surroundings),
            Self::Tail(tail) => tail.run(surroundings),
            Self::Run(run) => run.run(surroundings),
            Self::Enable(enable) => enable.run(surroundings),
            Self::Disable(disable) => disable.run(surroundings),
            Self::Pause(pause) => pause.run(surroundings),
            Self::Plan(plan) => plan.run(surroundings),
            Self::Resume(resume) => resume.run(surroundings),
            Self::Acp(acp) => acp.run(surroundings),
            Self::State(state) => state.run(surroundings),
            Self::Tasks(tasks) => tasks.run(surroundings),
            Self::Checkpoint(checkpoint) => checkpoint.run(surroundings),
            Self::Rewind(rewind) => rewind.run(surroundings),
            Self::Undo(undo) => undo.run(surroundings),
            Self::Schema(schema) => schema.run(surroundings),
            Self::Share(share) => share.run(surroundings),
            Self::Export(export) => export.run(surroundings),
            Self::Import(import) => import.run(surroundings),
            Self::Copy(copy) => copy.run(surroundings),
            Self::Fork(fork) => fork.run(surroundings),
            Self::Rename(rename) => rename.run(surroundings),
            Self::Status(status) => status.run(surroundings),
            Self::Store(store) => store.run(surroundings),
            Self::Project(project) => project.run(surroundings),
            Self::Doctor(doctor) => doctor.run(surroundings),
            Self::Cleanup(cleanup) => cleanup.run(surroundings),
            Self::Erase(erase) => erase.run(surroundings),
            Self::Secrets(secrets) => secrets.run(surroundings),
            Self::Demo(demo) => demo.run(),
            Self::DemoAgent(agent) => agent.run(surroundings),
            Self::Completions(completions) => completions.run(),
            Self::Man(man) => man.run(surroundings, whole()),
            Self::Help(help) => help.run(surroundings, whole()),
            Self::Save(save) => save.run(surroundings),
            Self::Saves(saves) => saves.run(surroundings),
            Self::Diff(diff) => diff.run(surroundings),
            Self::Redo(redo) => redo.run(surroundings),
        }
    }
}
