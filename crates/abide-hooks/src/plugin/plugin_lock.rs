//! The lock of those who put plugins in or take them out.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::agent_program::GLANCE;
use super::plugin_error::PluginError;

/// Takes the lock of those who change plugins.
pub(super) fn take_lock(path: &Path, limit: Duration) -> Result<File, PluginError> {
    let made = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = made.and_then(|_| File::open(path)).map_err(PluginError::at(path))?;
    let until = Instant::now() + limit;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(PluginError::at(path)(error)),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                return Err(PluginError::Busy);
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(GLANCE),
        }
    }
}

/// The lock, which is an empty file, as the stdin of an agent's command: so it is held while that runs,
/// though abide was killed.
pub(super) fn lock_stdin(held: &File) -> Result<Stdio, PluginError> {
    held.try_clone().map(Stdio::from).map_err(PluginError::at(Path::new("stdin")))
}
