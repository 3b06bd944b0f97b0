//! `abide init`: creates a store.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use abide::{
    LocalOptions, LocalStore,
    locate::{
        StoreLocation, StoreUrl, TrustPolicy, check_not_root, find_project, make_parents,
        read_small_file, store_of_project,
    },
};

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::command_place::{NAME, checked_url, is_store_name};
use crate::error::{CommandError, at};
use crate::shell_word::shell_quoted;
use abide_transcript::escape;

/// Create a store in this project
///
/// Without a store in the project, sessions go to your own store, which holds the sessions of all
/// projects and is created by the first recording. A project's store is the directory `.abide` at
/// the root of the git checkout, or in the given directory if it is not in a checkout; from then
/// on, the project uses it. `abide copy` copies earlier sessions into it. An existing store is not
/// changed.
///
/// With --store, the named store is created; no other command does that. If the file `.abide` of
/// this project points to that store, you accept the file with this command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide init            at the root of this project
  abide init --store postgres://me@db.example.org/team
                        shared, on a server; the project gets a one-line file that points to it")]
pub(crate) struct InitArgs {
    /// The project [default: the current directory]
    dir: Option<PathBuf>,
}

impl InitArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let dir = surroundings.absolute(self.dir.as_deref().unwrap_or(Path::new("")));
        if !dir.is_dir() {
            return Err(CommandError::failed(format!("{} is not a directory", dir.display())));
        }
        let mut out = CommandOutput::stdout();
        let project = find_project(&dir, &TrustPolicy::of_process());
        let pointer = project.join(NAME);
        if let Some(shared @ StoreLocation::Shared(url)) = &surroundings.store {
            check_not_root(&project).map_err(abide::Error::from)?;
            init_shared(&pointer, url)?;
            surroundings.accept_pointed_place(&project, shared)?;
            let pointer = pointer.display().to_string();
            out.line(format_args!("The store is {url}, as set in {}", escape::text(&pointer)))?;
            return out.flush();
        }
        let place = match &surroundings.store {
            Some(_) => surroundings.place_to_make(&dir)?,
            None => {
                let finder = surroundings.place_finder()?;
                let place = store_of_project(&dir, &finder.trust).map_err(abide::Error::from)?;
                surroundings.require_accepted_place(&place, &finder.trust)?;
                place
            }
        };
        let store = match place.store {
            StoreLocation::Files(store) => store,
            StoreLocation::Shared(url) => {
                out.line(format_args!("The store is {url}"))?;
                return out.flush();
            }
        };
        let existed = store.join("config.toml").exists();
        let left = if existed { None } else { sessions_left(&dir, surroundings) };
        if !existed && is_store_name(&store) {
            check_not_root(store.parent().unwrap_or(&store)).map_err(abide::Error::from)?;
        }
        make_parents(&store).map_err(abide::Error::from)?;
        LocalStore::init(&store, LocalOptions::default())?;
        // Naming the place that the project points to accepts it.
        if surroundings.store.is_some() {
            surroundings.accept_pointed_place(&project, &StoreLocation::Files(store.clone()))?;
        }
        let shown = store.display().to_string();
        out.line(format_args!(
            "{} {}",
            if existed { "The store is in" } else { "Made a store in" },
            escape::text(&shown)
        ))?;
        out.flush()?;
        if let Some((count, place)) = left {
            let s =
                if count == 1 { " of this directory stays" } else { "s of this directory stay" };
            status(format_args!(
                "At least {count} session{s} in {}; `abide copy --all --from {}` copies what is there",
                escape::text(&place),
                escape::text(&shell_quoted(&place))
            ));
        }
        Ok(())
    }
}

/// How many sessions of a directory are found in the store that was used so far, and where that is.
fn sessions_left(dir: &Path, surroundings: &CommandContext) -> Option<(usize, String)> {
    let there = CommandContext { current_dir: dir.to_owned(), ..surroundings.clone() };
    let opened = there.find_store().ok().flatten()?;
    let count = opened.recent_in(&there).ok()?.len();
    (count > 0).then(|| (count, opened.place()))
}

fn init_over_store_error(place: &Path) -> CommandError {
    CommandError::failed(format!("the project already has a store in {}", place.display()))
        .with_hint("use it as it is, or move that directory away first")
}

/// Makes a project point to a shared store.
fn init_shared(pointer: &Path, url: &StoreUrl) -> Result<(), CommandError> {
    checked_url(url)?;
    if url.has_password() {
        let why = format!("{} is shared with everybody who has the project", pointer.display());
        return Err(CommandError::failed(format!("{why}; no password may be written to it"))
            .with_hint("leave it out of the URL, and set it in PGPASSWORD or ~/.pgpass"));
    }
    if pointer.is_dir() {
        return Err(init_over_store_error(pointer));
    }
    write_store_pointer(pointer, OsStr::new(url.reveal()))
}

/// Writes the one-line file that points to a store elsewhere. It is writable by its owner only,
/// whatever the umask: otherwise it would not be trusted.
fn write_store_pointer(pointer: &Path, store: &OsStr) -> Result<(), CommandError> {
    let line = [store.as_bytes(), b"\n"].concat();
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o644);
    let write = || -> std::io::Result<()> {
        let mut file = options.open(pointer)?;
        file.write_all(&line)?;
        file.sync_all()
    };
    let there = || read_small_file(pointer, line.len() as u64).is_ok_and(|there| there == line);
    match write() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && there() => Ok(()),
        written => written.map_err(at("create", pointer)).map_err(|error| {
            error.with_hint("if the file points to another store, remove it first")
        }),
    }
}
