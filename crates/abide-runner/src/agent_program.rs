//! Looks for the program of an agent's command, before anything is made for its run.
//!
//! It only answers whether the system would find the program. Starting it may fail all the same.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::io::Errno;

use crate::RunError;

/// Where the system looks for programs if PATH is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Refuses a command whose program is not there, or cannot be executed. A path is looked up from the
/// directory that the agent would work in, any other name on the PATH.
///
/// # Errors
///
/// [`RunError::Start`], as starting it would give.
pub fn check_agent_program(command: &[String], directory: &Path) -> Result<(), RunError> {
    let path = std::env::var_os("PATH");
    let path = path.as_deref().unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    let Some(program) = command.first() else {
        let program = String::new();
        return Err(RunError::Start { program, source: Errno::NOENT.into() });
    };
    find_agent_program(program, directory, path)
        .map_err(|source| RunError::Start { program: program.clone(), source })
}

fn find_agent_program(program: &str, directory: &Path, path: &OsStr) -> io::Result<()> {
    if program.contains('/') {
        return is_executable(&directory.join(program));
    }
    let mut reason: io::Error = Errno::NOENT.into();
    if !program.is_empty() {
        for place in std::env::split_paths(path) {
            // An empty entry is the directory itself.
            match is_executable(&directory.join(place).join(program)) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => reason = error,
                Err(_) => {}
            }
        }
    }
    Err(reason)
}

fn is_executable(path: &Path) -> io::Result<()> {
    let file = std::fs::metadata(path)?;
    if file.is_file() && file.permissions().mode() & 0o111 != 0 {
        return Ok(());
    }
    Err(Errno::ACCESS.into())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions, write};

    use super::*;

    #[test]
    fn a_program_is_found_as_the_system_finds_it() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        create_dir(&bin).unwrap();
        for (name, mode) in [("bin/agent", 0o755), ("bin/text", 0o644), ("here", 0o755)] {
            write(dir.path().join(name), "#!/bin/sh\n").unwrap();
            set_permissions(dir.path().join(name), Permissions::from_mode(mode)).unwrap();
        }
        let found = |program: &str, path: &OsStr| {
            find_agent_program(program, dir.path(), path).map_err(|error| error.kind())
        };
        let only = bin.clone().into_os_string();
        assert_eq!(found("agent", &only), Ok(()));
        assert_eq!(found("text", &only), Err(io::ErrorKind::PermissionDenied));
        assert_eq!(found("here", &only), Err(io::ErrorKind::NotFound));
        assert_eq!(found("", &only), Err(io::ErrorKind::NotFound));
        // A path is not looked for on the PATH, and is one from the agent's directory.
        assert_eq!(found("./here", &only), Ok(()));
        assert_eq!(found("bin/agent", OsStr::new("")), Ok(()));
        assert_eq!(found("./agent", &only), Err(io::ErrorKind::NotFound));
        assert_eq!(found("./bin", &only), Err(io::ErrorKind::PermissionDenied), "a directory");
        // An empty entry of the PATH is the directory itself.
        assert_eq!(found("here", OsStr::new(":/nowhere")), Ok(()));
    }
}
