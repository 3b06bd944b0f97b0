//! `Store::open_default`, in a process of its own: it goes by the environment and the current directory.

use std::fs;
use std::path::Path;
use std::process::Command;

use abide::{LocalOptions, LocalStore, Message, NewSession, SessionRef, Store};

/// What the process does that the test starts. Alone it does nothing.
#[test]
fn a_process_records_in_its_default_store() {
    if std::env::var_os("ABIDE_TEST_DEFAULT_STORE").is_none() {
        return;
    }
    let store = Store::open_default().unwrap();
    // Where the process goes changes nothing.
    std::env::set_current_dir("/").unwrap();
    let session = store.create(NewSession::titled("by default")).unwrap();
    session.append(Message::user("hello")).unwrap().wait().unwrap();
    let id = session.id();
    session.close().unwrap();
    assert_eq!(store.find(&SessionRef::Latest).unwrap(), id);
    assert_eq!(store.sessions().unwrap().len(), 1, "those of other projects are not meant");
}

#[test]
fn the_default_store_is_the_persons_unless_the_project_has_one() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    let persons = home.join(".local/share/abide/store");
    let record = |project: &Path, named: &str| {
        let done = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "default_store::a_process_records_in_its_default_store"])
            .env("ABIDE_TEST_DEFAULT_STORE", "1")
            .env("HOME", &home)
            .envs(["DATA", "STATE", "CACHE", "CONFIG"].map(|of| (format!("XDG_{of}_HOME"), "")))
            .env("ABIDE_STORE", named)
            .current_dir(project)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    };
    let count = |store: &Path| {
        let names = fs::read_dir(store.join("sessions")).unwrap();
        names.filter(|name| !name.as_ref().unwrap().path().ends_with(".git")).count()
    };
    for name in ["one", "two"] {
        let project = dir.path().join(name);
        fs::create_dir(&project).unwrap();
        record(&project, "");
        assert_eq!(fs::read_dir(&project).unwrap().count(), 0, "nothing is put there");
    }
    assert_eq!(count(&persons), 2);
    let own = dir.path().join("own");
    fs::create_dir(&own).unwrap();
    Store::open_or_init(&own).unwrap();
    record(&own, "");
    assert_eq!((count(&own.join(".abide")), count(&persons)), (1, 2));
    // One that is named from where the process is.
    LocalStore::init(&dir.path().join("named"), LocalOptions::default()).unwrap();
    record(&own, "../named");
    assert_eq!(count(&dir.path().join("named")), 1);
}
