//! Where the programs of PostgreSQL are, and as whom they run.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use super::NotAvailable;

/// The programs of one installation.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    directory: PathBuf,
    psql: PathBuf,
    /// As whom the server runs where we are root, which it refuses to be.
    pub(super) user: Option<User>,
}

/// A user and its group.
#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    pub(super) user: u32,
    pub(super) group: u32,
}

impl Programs {
    /// The first installation with all that is needed: on the path, then the newest of the
    /// directories where packages put it, then where `pg_config` says.
    pub(super) fn find() -> Result<Self, NotAvailable> {
        let mut directories: Vec<PathBuf> =
            env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
        directories.extend(packaged());
        directories.extend(configured());
        let directory = directories
            .iter()
            // What is a link there has its neighbours where it leads to.
            .filter_map(|directory| fs::canonicalize(directory.join("initdb")).ok())
            .filter_map(|initdb| initdb.parent().map(Path::to_owned))
            .find(|directory| directory.join("postgres").is_file())
            .ok_or_else(|| NotAvailable::new("initdb and postgres were not found"))?;
        let psql = psql(&directory).ok_or_else(|| NotAvailable::new("psql was not found"))?;
        let user = geteuid().is_root().then(unprivileged);
        Ok(Self { directory, psql, user })
    }

    /// `initdb` or `postgres`, as the user that may run it.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.directory.join(name));
        if let Some(User { user, group }) = self.user {
            command.uid(user).gid(group);
        }
        without_settings(&mut command);
        command
    }

    /// The client.
    pub(super) fn psql(&self) -> &Path {
        &self.psql
    }
}

/// The client that belongs to a server, or any.
pub(super) fn psql(directory: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let beside = std::iter::once(directory.to_owned());
    beside
        .chain(env::split_paths(&path))
        .map(|directory| directory.join("psql"))
        .find(|psql| psql.is_file())
}

/// Takes away what the caller's environment would say to programs of PostgreSQL.
pub(super) fn without_settings(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PG")) {
            command.env_remove(name);
        }
    }
}

/// Directories of packages, the newest version first.
fn packaged() -> Vec<PathBuf> {
    let of_version = |parent: &str, prefix: &str| -> Vec<(u32, PathBuf)> {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let version = name.strip_prefix(prefix)?.parse().ok()?;
                Some((version, entry.path().join("bin")))
            })
            .collect()
    };
    let mut found = of_version("/usr/lib/postgresql", "");
    found.extend(of_version("/usr", "pgsql-"));
    found.extend(of_version("/opt/homebrew/opt", "postgresql@"));
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.into_iter().map(|(_, directory)| directory).collect()
}

fn configured() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let directory = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(directory.trim_end()))
}

/// A user that is not root: PostgreSQL's own where there is one, else nobody.
fn unprivileged() -> User {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = |wanted: &str| {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (name, _, user, group) =
                (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            (name == wanted)
                .then(|| Some(User { user: user.parse().ok()?, group: group.parse().ok()? }))?
        })
    };
    named("postgres").or_else(|| named("nobody")).unwrap_or(User { user: 65534, group: 65534 })
}
