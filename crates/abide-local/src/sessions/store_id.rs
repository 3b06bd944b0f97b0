//! The store's id: 32 random hexadecimal digits in the file `id`. It is created when first needed,
//! and distinguishes this store from others at the same path.

use std::io::{self, ErrorKind};
use std::time::Duration;

use abide_journal::{Access, LockMode, Storage, read_full, write_full};
use abide_model::StoreError;

use crate::error::storage_error;
use crate::sessions::local_store::LocalStore;
use crate::shield;
use crate::store_layout::StoreLayout;

/// The length of an id in digits.
const DIGITS: usize = 32;
/// How often to check whether another process has finished creating it.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// The store's id, created if it has none. Durable.
pub(crate) fn make_store_id(store: &LocalStore) -> Result<String, StoreError> {
    let path = store.layout().id();
    let failed = || storage_error("create", &path);
    for _ in 0..TRIES {
        if let Some(id) = store.store_id() {
            return Ok(id);
        }
        // The process that has the file locked creates the id.
        match store.storage().lock(&path, LockMode::Exclusive).map_err(failed())? {
            Some(_lock) if store.store_id().is_none() => write_store_id(store).map_err(failed())?,
            Some(_) => {}
            None => std::thread::sleep(PAUSE),
        }
    }
    Err(failed()(io::Error::new(ErrorKind::TimedOut, "another process holds the lock")))
}

fn write_store_id(store: &LocalStore) -> io::Result<()> {
    let mut random = [0; DIGITS / 2];
    (store.options().env.random)(&mut random);
    let mut text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    text.push('\n');
    let file = store.storage().open(&store.layout().id(), Access::Write)?;
    write_full(&*file, text.as_bytes(), 0)?;
    file.truncate(text.len() as u64)?;
    file.sync()?;
    store.storage().sync_dir(&store.layout().root)?;
    shield::keep_id_in_shield(&**store.storage(), store.layout());
    Ok(())
}

/// The store's id. An incomplete id counts as none.
pub(crate) fn read_store_id(storage: &dyn Storage, layout: &StoreLayout) -> Option<String> {
    let file = storage.open(&layout.id(), Access::Read).ok()?;
    let mut bytes = [0; DIGITS + 2];
    let read = read_full(&*file, &mut bytes, 0).ok()?;
    let id = std::str::from_utf8(bytes.get(..read)?).ok()?.strip_suffix('\n')?;
    let whole = id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    whole.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use super::*;
    use crate::LocalOptions;

    #[test]
    fn a_store_gets_one_id_however_many_ask_at_once() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            LocalStore::init(dir.path(), LocalOptions::default()).unwrap();
            let open = || LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
            assert_eq!(open().store_id(), None);
            let together = Barrier::new(4);
            let make = || {
                let store = open();
                together.wait();
                store.make_store_id().unwrap()
            };
            let ids: BTreeSet<String> = std::thread::scope(|scope| {
                let asking: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
                asking.into_iter().map(|one| one.join().unwrap()).collect()
            });
            assert_eq!(ids.len(), 1, "{ids:?}");
            assert_eq!(open().store_id(), ids.first().cloned());
        }
    }

    #[test]
    fn the_id_comes_back_after_a_clean() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::init(dir.path(), LocalOptions::default()).unwrap();
        let id = store.make_store_id().unwrap();
        for name in ["config.toml", "id", ".gitignore"] {
            std::fs::remove_file(dir.path().join(name)).unwrap();
        }
        let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
        assert_eq!(store.store_id(), Some(id));
    }

    #[test]
    fn an_id_that_is_not_whole_is_made_anew_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::init(dir.path(), LocalOptions::default()).unwrap();
        let path = store.layout().id();
        for bad in ["", "abc\n", "zz", &format!("{}\n", "x".repeat(32))] {
            std::fs::write(&path, bad).unwrap();
            assert_eq!(store.store_id(), None, "{bad:?}");
        }
        let id = store.make_store_id().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{id}\n"));
        std::fs::remove_file(&path).unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::os::unix::fs::symlink(outside.path(), &path).unwrap();
        assert!(store.store_id().is_none() && store.make_store_id().is_err());
        assert_eq!(std::fs::read(outside.path()).unwrap(), b"");
    }
}
