//! Programs on the path.

use std::path::Path;

/// Is this a program on the path?
pub(crate) fn is_program(word: &str) -> bool {
    let plain = !word.is_empty() && !word.contains('/');
    let path = std::env::var_os("PATH").unwrap_or_default();
    plain && std::env::split_paths(&path).any(|dir| is_executable(&dir.join(word)))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
