//! What it means that the system refuses something.

use rustix::io::Errno;

/// Is it the machine or the process that is at its end, and not this file that may not be read?
/// Then nothing is known of the file, and a snapshot without it would be wrong.
pub(crate) fn is_failure(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)
}
