//! The heartbeat that a writer leaves in its lock file: who it is, and when it last committed. It
//! only informs others and nothing recorded depends on it, so it is not synced and errors are
//! ignored.

use std::path::Path;
use std::sync::Arc;

use abide_journal::{Access, Environment, Storage, StorageFile, read_full, write_full};
use abide_model::{Timestamp, WriterHolder};

/// A commit renews the heartbeat if the last one is this many milliseconds old.
const EVERY: i64 = 5_000;
/// The text is padded with blanks to this length, followed by a line feed. It is overwritten in
/// place, since truncating a file costs far more.
const WIDTH: usize = 511;
/// The most characters of a program's name that are kept.
const PROGRAM: usize = 64;

/// Names the holder of a lock in its file.
pub(crate) fn name_holder(storage: &dyn Storage, path: &Path, env: &Environment) {
    let now = (env.now)();
    let mut holder = WriterHolder { since: now, beat: Some(now), ..env.holder.clone() };
    holder.program = holder.program.chars().take(PROGRAM).collect();
    if let Ok(file) = storage.open(path, Access::Write) {
        write_heartbeat(&*file, &holder);
    }
}

/// The holder named in a lock file; `None` if there is no file, or nobody is named.
pub(crate) fn holder_in(storage: &dyn Storage, path: &Path) -> Option<WriterHolder> {
    read_heartbeat(&*storage.open(path, Access::Read).ok()?)
}

fn write_heartbeat(file: &dyn StorageFile, holder: &WriterHolder) {
    if let Ok(json) = serde_json::to_string(holder) {
        let _ = write_full(file, format!("{json:<WIDTH$}\n").as_bytes(), 0);
    }
}

fn read_heartbeat(file: &dyn StorageFile) -> Option<WriterHolder> {
    let mut bytes = vec![0; 4096];
    let read = read_full(file, &mut bytes, 0).ok()?;
    // The rest of a longer text may follow.
    let mut values = serde_json::Deserializer::from_slice(bytes.get(..read)?).into_iter();
    values.next()?.ok()
}

/// Renews a writer's heartbeat.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    file: Arc<dyn StorageFile>,
    holder: WriterHolder,
}

impl Heartbeat {
    /// For the process that has just taken the lock and was named in its file. The file is kept
    /// open: a file that replaces it belongs to somebody else.
    pub(crate) fn of(storage: &dyn Storage, path: &Path) -> Option<Self> {
        let file = storage.open(path, Access::Write).ok()?;
        let holder = read_heartbeat(&*file)?;
        Some(Self { file, holder })
    }

    /// Called with every commit and its time, which saves reading the clock.
    pub(crate) fn beat(&mut self, now: Timestamp) {
        let last = self.holder.beat.unwrap_or(self.holder.since);
        // A clock that went back must not suppress it.
        if now.as_millis().abs_diff(last.as_millis()) < EVERY.unsigned_abs() {
            return;
        }
        self.holder.beat = Some(now);
        write_heartbeat(&*self.file, &self.holder);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use abide_journal::Disk;

    use super::*;

    const START: i64 = 1_763_169_600_000;

    fn environment(clock: &Arc<AtomicI64>, program: &str) -> Environment {
        let clock = clock.clone();
        Environment {
            now: Arc::new(move || Timestamp::from_millis(clock.load(Ordering::Relaxed))),
            holder: WriterHolder { program: program.to_owned(), ..Environment::default().holder },
            ..Environment::default()
        }
    }

    #[test]
    fn it_is_renewed_every_few_seconds_and_in_its_own_file_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        std::fs::write(&path, "").unwrap();
        let clock = Arc::new(AtomicI64::new(START));
        let env = environment(&clock, "agent");
        name_holder(&Disk, &path, &env);
        let named = holder_in(&Disk, &path).unwrap();
        assert_eq!(named.beat, Some(Timestamp::from_millis(START)));
        assert_eq!(named.process, std::process::id());
        let mut heartbeat = Heartbeat::of(&Disk, &path).unwrap();
        let beat_at = |heartbeat: &mut Heartbeat, at: i64| {
            heartbeat.beat(Timestamp::from_millis(START + at));
            holder_in(&Disk, &path).unwrap().beat.unwrap().as_millis() - START
        };
        assert_eq!(beat_at(&mut heartbeat, EVERY - 1), 0);
        assert_eq!(beat_at(&mut heartbeat, EVERY), EVERY);
        assert_eq!(beat_at(&mut heartbeat, EVERY + 10), EVERY);
        assert_eq!(beat_at(&mut heartbeat, -EVERY), -EVERY, "the clock went back");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), WIDTH as u64 + 1);
        // The file is replaced: what stands there now is not touched.
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        std::fs::write(&path, serde_json::to_string(&named).unwrap()).unwrap();
        assert_eq!(beat_at(&mut heartbeat, 9 * EVERY), 0);
    }

    #[test]
    fn a_longer_name_that_stood_there_before_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let clock = Arc::new(AtomicI64::new(START));
        let long = WriterHolder { host: "h".repeat(900), ..WriterHolder::default() };
        std::fs::write(&path, format!("{}\n", serde_json::to_string(&long).unwrap())).unwrap();
        name_holder(&Disk, &path, &environment(&clock, &"p".repeat(300)));
        assert_eq!(holder_in(&Disk, &path).unwrap().program, "p".repeat(PROGRAM));
        assert!(holder_in(&Disk, &dir.path().join("none")).is_none());
        std::fs::write(&path, "no JSON").unwrap();
        assert!(holder_in(&Disk, &path).is_none());
    }
}
