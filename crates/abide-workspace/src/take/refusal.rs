//! Classifies errors of the system.

use rustix::io::Errno;

/// Returns true if the error comes from the machine or the process, not from this file. Nothing is
/// known about the file then, and a snapshot without it would be wrong.
pub(crate) fn is_failure_not_refusal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::NOSPC | Errno::DQUOT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn want_of_something_is_no_refusal() {
        for errno in [Errno::MFILE, Errno::NOMEM, Errno::IO, Errno::NOSPC, Errno::DQUOT] {
            assert!(is_failure_not_refusal(errno), "{errno}");
        }
        for errno in [Errno::ACCESS, Errno::PERM, Errno::NOENT, Errno::NXIO] {
            assert!(!is_failure_not_refusal(errno), "{errno}");
        }
    }
}
