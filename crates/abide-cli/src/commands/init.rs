//! `abide init`: makes a store.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use abide::{
    LocalStore, ObjectHash, Options, StoreUrl, Trust, Where, check_not_root, find_project,
    read_small_file,
};

use super::store::checked;
use crate::error::{CommandError, at};
use crate::output::Output;
use crate::store::{NAME, Surroundings, is_store_name};
use abide_transcript::escape;

/// Make a store for this project
///
/// The store is the directory `.abide` at the root of the git checkout, or right here where there
/// is none. The first `abide record` makes it too. Where a store is already, nothing changes.
///
/// With --store it is the one that is named, which no other command makes. Where the file `.abide` of
/// this project points to that very place, you accept that with it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide init            at the root of this project
  abide init --user     under ~/.local/share/abide, out of reach of `git clean -fdx`
  abide init --store postgres://me@db.example.org/team
                        shared, on a server; the project gets a one-line file that points to it")]
pub(crate) struct Init {
    /// Keep the store under your home; the project gets a one-line file that points to it
    #[arg(long)]
    user: bool,
    /// The project [default: the current directory]
    dir: Option<PathBuf>,
}

impl Init {
    pub(crate) fn run(self, surroundings: &Surroundings) -> Result<(), CommandError> {
        let dir = surroundings.absolute(self.dir.as_deref().unwrap_or(Path::new("")));
        if !dir.is_dir() {
            return Err(CommandError::failed(format!("{} is not a directory", dir.display())));
        }
        if self.user && surroundings.store.is_some() {
            return Err(CommandError::Usage(
                "--user and a store of your choice (--store, ABIDE_STORE) exclude each other"
                    .to_owned(),
            ));
        }
        let mut out = Output::stdout();
        let project = find_project(&dir, &Trust::of_process());
        let pointer = project.join(NAME);
        if let Some(shared @ Where::Shared(url)) = &surroundings.store {
            check_not_root(&project).map_err(abide::Error::from)?;
            share(&pointer, url)?;
            surroundings.accept_pointer(&project, shared)?;
            let pointer = pointer.display().to_string();
            out.line(format_args!("The store is {url}: {} says so", escape::text(&pointer)))?;
            return out.flush();
        }
        let store = if self.user {
            check_not_root(&project).map_err(abide::Error::from)?;
            user_store(&project, surroundings)?
        } else {
            match surroundings.place_to_make(&dir)?.store {
                Where::Files(store) => store,
                Where::Shared(url) => {
                    out.line(format_args!("The store is {url}"))?;
                    return out.flush();
                }
            }
        };
        let existed = store.join("config.toml").exists();
        if !existed && is_store_name(&store) {
            check_not_root(store.parent().unwrap_or(&store)).map_err(abide::Error::from)?;
        }
        if let Some(parent) = store.parent() {
            make_dirs(parent)?;
        }
        LocalStore::init(&store, Options::default())?;
        if self.user {
            point(&pointer, store.as_os_str())?;
        }
        // Whoever names the place that the project points to accepts it.
        if self.user || surroundings.store.is_some() {
            surroundings.accept_pointer(&project, &Where::Files(store.clone()))?;
        }
        let shown = store.display().to_string();
        out.line(format_args!(
            "{} {}",
            if existed { "The store is in" } else { "Made a store in" },
            escape::text(&shown)
        ))?;
        out.flush()
    }
}

/// Where the user's own store for a project is.
fn user_store(project: &Path, surroundings: &Surroundings) -> Result<PathBuf, CommandError> {
    if project.join(NAME).is_dir() {
        return Err(has_store(&project.join(NAME)));
    }
    let stores = surroundings.user_stores.as_ref().ok_or_else(|| {
        CommandError::failed("there is no place for the stores of this user")
            .with_hint("set HOME or XDG_DATA_HOME")
    })?;
    let project = project.canonicalize().map_err(at("find", project))?;
    let name = project
        .file_name()
        .map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    let hash = ObjectHash::of(project.as_os_str().as_encoded_bytes()).to_string();
    let hash: String = hash.chars().take(8).collect();
    Ok(stores.join(format!("{name}-{hash}")))
}

fn has_store(place: &Path) -> CommandError {
    CommandError::failed(format!("the project has its store in {} already", place.display()))
        .with_hint("use it as it is, or move that directory away first")
}

fn make_dirs(dir: &Path) -> Result<(), CommandError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at("create", dir))
}

/// Lets a project point to a shared store.
fn share(pointer: &Path, url: &StoreUrl) -> Result<(), CommandError> {
    checked(url)?;
    if url.has_password() {
        let why = format!("{} is for everybody who has the project", pointer.display());
        return Err(CommandError::failed(format!("{why}: no password is written to it"))
            .with_hint(
                "leave it out of the URL; PGPASSWORD or ~/.pgpass has it for those who may",
            ));
    }
    if pointer.is_dir() {
        return Err(has_store(pointer));
    }
    point(pointer, OsStr::new(url.reveal()))
}

/// Writes the one-line file that points to a store elsewhere. Nobody else may write it, whatever the
/// user's mask says: it would not be trusted.
fn point(pointer: &Path, store: &OsStr) -> Result<(), CommandError> {
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
            error.with_hint("where the file points to another store, remove it first")
        }),
    }
}
