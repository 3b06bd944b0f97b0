//! The sign of life that a writer leaves in its lock's file: who it is, and when it was last at
//! work. For others to look at: nothing that is recorded depends on it, so that it is neither
//! synced nor waited for, and what goes wrong with it is passed over.

use std::path::Path;
use std::sync::Arc;

use abide_journal::{Access, Environment, Storage, StorageFile, read_full, write_full};
use abide_model::{Timestamp, WriterHolder};

/// A commit gives a sign of life when the last one is so many milliseconds old.
const EVERY: i64 = 5_000;
/// So long a text in the file is filled up with blanks, and then a line feed: it is written over in
/// place, since cutting a file costs far more.
const WIDTH: usize = 511;
/// No more of a program's name is kept.
const PROGRAM: usize = 64;

/// Names the holder of a lock in its file.
pub(crate) fn name_holder(storage: &dyn Storage, path: &Path, env: &Environment) {
    let now = (env.now)();
    let mut holder = WriterHolder { since: now, beat: Some(now), ..env.holder.clone() };
    holder.program = holder.program.chars().take(PROGRAM).collect();
    if let Ok(file) = storage.open(path, Access::Write) {
        write(&*file, &holder);
    }
}

/// Who is named in a lock's file; none where there is no file, or nobody.
pub(crate) fn holder_in(storage: &dyn Storage, path: &Path) -> Option<WriterHolder> {
    read(&*storage.open(path, Access::Read).ok()?)
}

fn write(file: &dyn StorageFile, holder: &WriterHolder) {
    if let Ok(json) = serde_json::to_string(holder) {
        let _ = write_full(file, format!("{json:<WIDTH$}\n").as_bytes(), 0);
    }
}

fn read(file: &dyn StorageFile) -> Option<WriterHolder> {
    let mut bytes = vec![0; 4096];
    let read = read_full(file, &mut bytes, 0).ok()?;
    // A longer text that stood there before may go on behind this one.
    let mut values = serde_json::Deserializer::from_slice(bytes.get(..read)?).into_iter();
    values.next()?.ok()
}

/// Renews a writer's sign of life.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    file: Arc<dyn StorageFile>,
    holder: WriterHolder,
}

impl Heartbeat {
    /// Of the one that has just taken the lock and was named in its file. The file is kept open:
    /// one that comes to stand in its place is somebody else's.
    pub(crate) fn of(storage: &dyn Storage, path: &Path) -> Option<Self> {
        let file = storage.open(path, Access::Write).ok()?;
        let holder = read(&*file)?;
        Some(Self { file, holder })
    }

    /// Called with every commit, and told its time: the clock is not asked once more.
    pub(crate) fn beat(&mut self, now: Timestamp) {
        let last = self.holder.beat.unwrap_or(self.holder.since);
        // A clock that went back must not keep it silent.
        if now.as_millis().abs_diff(last.as_millis()) < EVERY.unsigned_abs() {
            return;
        }
        self.holder.beat = Some(now);
        write(&*self.file, &self.holder);
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
