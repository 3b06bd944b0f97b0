//! The paths of everything in a store.

use std::path::{Path, PathBuf};

use abide_model::{SessionId, StoreError, Timestamp};

use crate::shield;

/// Why a link is refused.
pub(crate) const LINK: &str = "symlinks in a store are not followed";

/// The paths of a store.
#[derive(Debug, Clone)]
pub(crate) struct StoreLayout {
    pub(crate) root: PathBuf,
}

impl StoreLayout {
    pub(crate) fn gitignore(&self) -> PathBuf {
        self.root.join(".gitignore")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// The store's own id.
    pub(crate) fn id(&self) -> PathBuf {
        self.root.join("id")
    }

    /// Refuses symlinks. A store may come from someone else; nothing in it may lead a write out of
    /// it.
    pub(crate) fn refuse_links(&self) -> Result<(), StoreError> {
        let mut paths = vec![
            self.sessions(),
            self.objects(),
            self.keys(),
            self.changed(),
            self.changed_taken(),
            self.imports(),
            self.cache(),
            self.removed(),
            self.quarantine(),
        ];
        for shield in self.shields() {
            // The symlink itself is reported, not what is below it.
            if !shield.is_symlink()
                && let Ok(entries) = std::fs::read_dir(&shield)
            {
                paths.extend(entries.flatten().map(|entry| entry.path()));
            }
            paths.push(shield);
        }
        match paths.iter().find(|path| path.is_symlink()) {
            Some(path) => Err(refused_link(path)),
            None => Ok(()),
        }
    }

    /// The empty git repositories that protect the store from `git clean`.
    pub(crate) fn shields(&self) -> [PathBuf; 3] {
        [self.sessions(), self.objects(), self.keys()].map(|dir| dir.join(shield::NAME))
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    pub(crate) fn keys(&self) -> PathBuf {
        self.root.join("keys")
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.root.join("index.db")
    }

    pub(crate) fn index_lock(&self) -> PathBuf {
        self.root.join("index.lock")
    }

    pub(crate) fn index_stamp(&self) -> PathBuf {
        self.root.join("index.stamp")
    }

    /// Names the sessions that have changed.
    pub(crate) fn changed(&self) -> PathBuf {
        self.root.join("changed")
    }

    /// Holds those names while the index is updated.
    pub(crate) fn changed_taken(&self) -> PathBuf {
        self.root.join("changed.taken")
    }

    pub(crate) fn imports(&self) -> PathBuf {
        self.root.join("imports")
    }

    /// What workspaces looked like when they were last captured.
    pub(crate) fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// Holds a session's directory while its files are deleted.
    pub(crate) fn removed(&self) -> PathBuf {
        self.root.join("removed")
    }

    /// Holds the files that repairs replaced.
    pub(crate) fn quarantine(&self) -> PathBuf {
        self.root.join("quarantine")
    }

    /// Records when sessions were last cleaned up.
    pub(crate) fn cleaned(&self) -> PathBuf {
        self.root.join("cleaned")
    }

    /// Lists what is being erased, until the erasure is complete.
    pub(crate) fn erasing(&self) -> PathBuf {
        self.root.join("erasing")
    }

    /// Lists what was erased, so that no import brings it back.
    pub(crate) fn erased(&self) -> PathBuf {
        self.root.join("erased")
    }

    /// Held by cleanups and erasures.
    pub(crate) fn cleanup_lock(&self) -> PathBuf {
        self.root.join("cleanup.lock")
    }

    pub(crate) fn session(&self, name: &str) -> SessionLayout {
        SessionLayout { dir: self.sessions().join(name) }
    }
}

/// The paths of a session.
#[derive(Debug, Clone)]
pub(crate) struct SessionLayout {
    pub(crate) dir: PathBuf,
}

impl SessionLayout {
    pub(crate) fn name(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.dir.join("journal")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    pub(crate) fn watermark(&self) -> PathBuf {
        self.dir.join("watermark")
    }

    pub(crate) fn transcript(&self) -> PathBuf {
        self.dir.join("transcript.task")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// The project assigned to a session that does not name one itself.
    pub(crate) fn project(&self) -> PathBuf {
        self.dir.join("project")
    }

    /// The socket at which the process that holds the session writes for its children.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("socket")
    }
}

/// The name of a session's directory: its creation time, and this many characters of its short id.
pub(crate) fn session_name(id: SessionId, short: usize) -> String {
    let at = id.created().to_string().replace(':', "-");
    let seconds: String = at.chars().take(19).collect();
    format!("{seconds}-{}", id.short(short))
}

/// The short id in the name of a session's directory; `None` if it is not such a name.
pub(crate) fn short_of(name: &str) -> Option<&str> {
    let (time, short) = name.split_at_checked(20)?;
    let shape = time.bytes().zip(b"0000-00-00T00-00-00-").all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        other => byte == *other,
    });
    (shape
        && short.len() >= SessionId::SHORT
        && short.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    .then_some(short)
}

/// Whether the id or short id of the session in this directory can start with `prefix`. An id
/// starts with its time in milliseconds; the name has the second.
pub(crate) fn may_start_with(name: &str, prefix: &str) -> bool {
    let Some(short) = short_of(name) else { return false };
    if short.starts_with(prefix) || prefix.starts_with(short) {
        return true;
    }
    let digits: String = prefix.chars().filter(|c| *c != '-').take(12).collect();
    let Some((date, clock)) = name.get(..19).and_then(|time| time.split_once('T')) else {
        return false;
    };
    let Ok(second) = format!("{date}T{}Z", clock.replace('-', ":")).parse::<Timestamp>() else {
        return false;
    };
    let start_of =
        |millis: i64| -> String { format!("{millis:012x}").chars().take(digits.len()).collect() };
    let (first, last) = (start_of(second.as_millis()), start_of(second.as_millis() + 999));
    (first..=last).contains(&digits)
}

/// The error for a symlink in place of a file or directory of the store.
pub(crate) fn refused_link(path: &Path) -> StoreError {
    StoreError::Damaged { place: layout_path_text(path), reason: LINK.to_owned() }
}

/// A path to show to users, starting at the store.
pub(crate) fn layout_path_text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_short_id() {
        let id = SessionId::new(Timestamp::from_millis(1_763_169_600_123), [9; 10]);
        let name = session_name(id, 6);
        assert_eq!(name, format!("2025-11-15T01-20-00-{}", id.short(6)));
        assert_eq!(short_of(&name), Some(id.short(6).as_str()));
        assert!(may_start_with(&name, &id.short(3)) && may_start_with(&name, &id.short(9)));
        for length in 1..=36 {
            assert!(may_start_with(&name, &id.to_string()[..length]), "{length}");
        }
        assert!(!may_start_with(&name, "019a8620") && !may_start_with(&name, "zzz"));
        for foreign in ["", "notes", "2025-11-15T01-20-00-", "2025-11-15T01-20-00-a/b", ".DS_Store"]
        {
            assert_eq!(short_of(foreign), None);
        }
    }
}
