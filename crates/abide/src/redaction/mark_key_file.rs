//! The key of the hash in marks, in the user's state directory.
//!
//! It is made when the first mark is, and never changed: the same secret has the same mark in all of
//! the user's stores. Whoever loses the race to make it reads the winner's. If it cannot be kept,
//! the marks of one process are comparable with each other only.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use abide_local::Environment;

use crate::consent::{is_private, is_usable};

/// Its name in the state directory.
const NAME: &str = "mark-key";

/// The user's key, made if it is missing. `None` for the directory means that there is none.
pub(super) fn mark_key(state: Option<&Path>) -> [u8; 32] {
    let fresh = || {
        let mut key = [0; 32];
        (Environment::default().random)(&mut key);
        key
    };
    let Some(dir) = state.filter(|dir| is_usable(dir)) else { return fresh() };
    read_mark_key(dir).or_else(|_| make_mark_key(dir, &fresh())).unwrap_or_else(|_| fresh())
}

fn read_mark_key(dir: &Path) -> io::Result<[u8; 32]> {
    if !is_private(dir)? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut key = [0; 32];
    File::open(dir.join(NAME))?.read_exact(&mut key)?;
    Ok(key)
}

/// Makes the file with this key, complete and durable before it has its name, and reads what has it.
fn make_mark_key(dir: &Path, key: &[u8; 32]) -> io::Result<[u8; 32]> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let suffix: String = key.iter().rev().take(8).map(|byte| format!("{byte:02x}")).collect();
    let path = dir.join(NAME);
    let temporary = dir.join(format!("{NAME}.{}.{suffix}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let made = file.write_all(key).and_then(|()| file.sync_all());
    // A link does not replace what another process has made meanwhile.
    let made = made.and_then(|()| fs::hard_link(&temporary, &path));
    let _ = fs::remove_file(&temporary);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
    read_mark_key(dir)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn everybody_who_makes_it_at_once_has_the_same_and_nobody_else_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state/abide");
        let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| mark_key(Some(&state)))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        assert_eq!(mark_key(Some(&state)), keys[0]);
        let names: Vec<_> = fs::read_dir(&state).unwrap().map(|it| it.unwrap().path()).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(fs::metadata(&names[0]).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn without_a_place_for_it_each_process_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        assert_ne!(mark_key(None), mark_key(None));
        // A file is there instead of the directory; a key that is cut off is left alone.
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_ne!(mark_key(Some(&file)), mark_key(Some(&file)));
        let cut = dir.path().join("cut");
        DirBuilder::new().mode(0o700).create(&cut).unwrap();
        fs::write(cut.join(NAME), [1; 31]).unwrap();
        assert_ne!(mark_key(Some(&cut)), mark_key(Some(&cut)));
        assert_eq!(fs::read(cut.join(NAME)).unwrap(), [1; 31]);
    }
}
