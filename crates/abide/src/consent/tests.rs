//! Notes that outlive power cuts, are nobody else's, and are of one thing only.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::sync::Mutex;

use abide_model::{NewSession, StoreUrl};
use abide_testkit::{Fault, FaultKind, Lasting, SimDisk};

use super::*;
use crate::{CheckpointRequest, RewindRequest, Session, checkpoint::RewindWatch};

/// Notes on a simulated disk.
fn on(disk: &SimDisk) -> Consent {
    let dir = Some(PathBuf::from("/sim/state/abide"));
    Consent { dir, storage: Arc::new(disk.clone()), owner: StateDirOwner::Anybody }
}

fn shared(url: &str) -> StoreLocation {
    StoreLocation::Shared(StoreUrl::of(url).unwrap())
}

fn run_of(command: &str, directory: &str) -> RunStart {
    let json = serde_json::json!({"command": [command], "directory": directory, "adapter": "text"});
    serde_json::from_value(json).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn what_was_accepted_holds_for_that_project_and_that_place_only() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state/abide");
    let consent = Consent::at(Some(state.clone()));
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    fs::create_dir_all(&one).unwrap();
    fs::create_dir_all(&two).unwrap();
    let place = shared("postgres://me:secret@host/db?sslmode=require");
    assert!(!consent.is_accepted(&one, &place));
    assert!(!state.exists(), "asking makes nothing");
    assert!(consent.accept(&one, &place).unwrap());
    assert!(consent.is_accepted(&one, &place));
    assert!(consent.is_accepted(&two.join("../one"), &place), "the same directory");
    assert!(!consent.is_accepted(&two, &place));
    for other in [
        shared("postgres://me:secret@host/db?sslmode=disable"),
        shared("postgres://me:other@host/db?sslmode=require"),
        shared("postgres://me:secret@other/db?sslmode=require"),
        StoreLocation::Files("postgres://me:secret@host/db?sslmode=require".into()),
    ] {
        assert!(!consent.is_accepted(&one, &other), "{other}");
    }
    let notes: Vec<_> =
        fs::read_dir(state.join(ACCEPTED)).unwrap().map(|one| one.unwrap()).collect();
    assert_eq!(notes.len(), 1);
    let (path, text) = (notes[0].path(), fs::read_to_string(notes[0].path()).unwrap());
    assert!(!text.contains("secret") && !path.display().to_string().contains("secret"), "{text}");
    assert_eq!((mode(&path), mode(&state), mode(&state.join(ACCEPTED))), (0o600, 0o700, 0o700));
}

#[test]
fn without_a_state_directory_nothing_is_noted() {
    let project = tempfile::tempdir().unwrap();
    let place = StoreLocation::Files("/elsewhere".into());
    for consent in [Consent::default(), Consent::at(Some("relative".into()))] {
        assert!(!consent.accept(project.path(), &place).unwrap());
        assert!(!consent.is_accepted(project.path(), &place));
    }
    let nowhere = Path::new("/nonexistent-home");
    let consent = Consent::at(Some(nowhere.join(".local/state/abide")));
    assert!(!consent.accept(project.path(), &place).unwrap() && !nowhere.exists());
    // A file stands where the directory should be.
    let file = project.path().join("file");
    fs::write(&file, "").unwrap();
    let consent = Consent::at(Some(file.join("abide")));
    assert!(!consent.accept(project.path(), &place).unwrap());
}

#[test]
fn a_state_directory_that_others_may_write_to_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("abide");
    let consent = Consent::at(Some(state.clone()));
    let place = StoreLocation::Files("/elsewhere".into());
    assert!(consent.accept(dir.path(), &place).unwrap());
    for open in [0o770, 0o707, 0o777] {
        fs::set_permissions(&state, fs::Permissions::from_mode(open)).unwrap();
        assert!(!consent.is_accepted(dir.path(), &place), "{open:o}");
        assert!(!consent.accept(dir.path(), &place).unwrap(), "{open:o}");
    }
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(consent.is_accepted(dir.path(), &place));
}

/// Only root can give a directory away.
#[test]
fn a_state_directory_of_another_user_is_neither_used_nor_made_in_their_home() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (home, place) = (dir.path().join("home"), StoreLocation::Files("/elsewhere".into()));
    fs::create_dir(&home).unwrap();
    chown(&home, Some(12345), Some(12345)).unwrap();
    let state = home.join(".local/state/abide");
    let consent = Consent::at(Some(state.clone()));
    assert!(!consent.accept(dir.path(), &place).unwrap());
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "nothing is made there");
    fs::create_dir_all(&state).unwrap();
    assert!(consent.accept(dir.path(), &place).unwrap());
    chown(&state, Some(12345), Some(12345)).unwrap();
    assert!(!consent.is_accepted(dir.path(), &place));
    assert!(!consent.accept(dir.path(), &place).unwrap());
}

#[test]
fn a_note_that_was_written_outlives_every_power_cut() {
    let place = shared("postgres://host/db");
    let project = Path::new("/project");
    for seed in 0..64 {
        let disk = SimDisk::new(Path::new("/sim"));
        let consent = on(&disk);
        assert!(consent.accept(project, &place).unwrap());
        disk.power_cut(seed);
        assert!(consent.is_accepted(project, &place), "seed {seed}");
    }
    // One that was cut off before is whole, or is none.
    let disk = SimDisk::new(Path::new("/sim"));
    disk.keep_history();
    assert!(on(&disk).accept(project, &place).unwrap());
    let (name, text) = acceptance_consent(project, &place);
    for (at, moment) in disk.take_history().iter().enumerate() {
        for seed in 0..8 {
            let disk = SimDisk::at(moment);
            disk.power_cut(seed);
            let found = on(&disk).get(ACCEPTED, &name);
            assert!(found.is_none_or(|found| found == text), "moment {at}, seed {seed}");
            assert!(on(&disk).accept(project, &place).unwrap());
            assert!(on(&disk).is_accepted(project, &place));
        }
    }
}

#[test]
fn many_may_note_the_same_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let consent = Consent::at(Some(dir.path().join("state/abide")));
    let place = StoreLocation::Files("/elsewhere".into());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert!(consent.accept(dir.path(), &place).unwrap());
                    assert!(consent.is_accepted(dir.path(), &place));
                }
            });
        }
    });
    assert_eq!(fs::read_dir(dir.path().join("state/abide/accepted")).unwrap().count(), 1);
}

#[test]
fn a_run_is_own_in_its_store_its_session_and_with_its_command_only() {
    let dir = tempfile::tempdir().unwrap();
    let consent = Consent::at(Some(dir.path().join("state/abide")));
    let open = |name: &str| {
        let project = dir.path().join(name);
        fs::create_dir_all(&project).unwrap();
        Store::open_or_init(project).unwrap().with_consent(consent.clone())
    };
    let store = open("one");
    let [first, second] = ["a", "b"].map(|title| store.make(NewSession::titled(title)).unwrap());
    let start = run_of("agent", "/work");
    assert!(!store.has_consent_to_run(first, &start).unwrap());
    assert!(store.note_run(first, &start).unwrap());
    assert!(store.has_consent_to_run(first, &start).unwrap());
    assert!(!store.has_consent_to_run(second, &start).unwrap(), "another session");
    assert!(
        !store.has_consent_to_run(first, &run_of("other", "/work")).unwrap(),
        "another command"
    );
    assert!(
        !store.has_consent_to_run(first, &run_of("agent", "/else")).unwrap(),
        "another directory"
    );
    let mut optioned = run_of("agent", "/work");
    optioned.options = serde_json::value::to_raw_value(&serde_json::json!({"jobs": 9})).ok();
    assert!(!store.has_consent_to_run(first, &optioned).unwrap(), "other options");
    // The whole store somewhere else, its id included.
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([dir.path().join("one"), dir.path().join("two")])
        .status();
    assert!(copied.unwrap().success());
    assert_eq!(open("two").store_id().unwrap(), store.store_id().unwrap());
    assert!(!open("two").has_consent_to_run(first, &start).unwrap(), "a copy");
    // Another store at the same place.
    fs::remove_file(dir.path().join("one/.abide/id")).unwrap();
    assert!(!open("one").has_consent_to_run(first, &start).unwrap(), "without an id");
    open("one").make_store_id().unwrap();
    assert!(!open("one").has_consent_to_run(first, &start).unwrap(), "with another id");
    // Nowhere to note it.
    let store = open("one").with_consent(Consent::default());
    assert!(
        !store.note_run(first, &start).unwrap()
            && !store.has_consent_to_run(first, &start).unwrap()
    );
}

/// A session with a checkpoint, and files that have changed since.
fn changed(dir: &Path, consent: Consent) -> Session {
    let store = Store::open_or_init(dir).unwrap().with_consent(consent);
    let mut new = NewSession::titled("work");
    new.fields.workspace = Some(dir.to_string_lossy().into_owned());
    let session = store.create(new).unwrap();
    for n in 0..5 {
        fs::write(dir.join(format!("f{n}")), "then").unwrap();
    }
    session.checkpoint(&CheckpointRequest::default()).unwrap();
    for n in 0..5 {
        fs::write(dir.join(format!("f{n}")), "now").unwrap();
    }
    session
}

fn back(session: &Session, watch: &RewindWatch) -> Result<crate::checkpoint::RewindReport, Error> {
    let to = session.view().resolve("1").unwrap();
    let request = RewindRequest { files: true, ..RewindRequest::default() };
    let plan = session.plan_rewind(&to, &request, watch).unwrap();
    session.rewind(plan, watch)
}

#[test]
fn a_rewind_is_noted_for_good_before_its_first_file() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SimDisk::new(Path::new("/sim"));
    let session = changed(dir.path(), on(&disk));
    let (store, id) = (session.store().clone(), session.id());
    let seen = Arc::new(Mutex::new(None));
    let (told, power) = (seen.clone(), disk.clone());
    let watch = RewindWatch {
        restore: Some(Arc::new(move |_, _| {
            let mut told = told.lock().unwrap();
            if told.is_none() {
                power.power_cut(3);
                *told = Some(store.noted_consent_to_rewind(id).unwrap());
            }
        })),
        ..RewindWatch::default()
    };
    back(&session, &watch).unwrap();
    let noted = seen.lock().unwrap().take().unwrap().unwrap();
    assert_eq!(noted.root, dir.path());
    assert_eq!(session.store().noted_consent_to_rewind(id).unwrap(), None, "it is done");
}

#[test]
fn a_rewind_whose_note_fails_is_not_begun() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SimDisk::new(Path::new("/sim"));
    let session = changed(dir.path(), on(&disk));
    on(&disk).writable(REWINDS).unwrap().unwrap();
    let file = || fs::read_to_string(dir.path().join("f0")).unwrap();
    let mut failed = 0;
    loop {
        let fault = Fault { at: failed, kind: FaultKind::Io, lasting: Lasting::Once };
        disk.set_faults(vec![fault], 1);
        let Err(error) = back(&session, &RewindWatch::default()) else { break };
        let said = error.to_string();
        assert!(said.starts_with("cannot ") && said.contains("/sim/state/abide/rewinds"), "{said}");
        assert_eq!((file().as_str(), session.core().unwrap().restoring), ("now", None));
        failed += 1;
    }
    assert!(failed >= 5, "open, write, sync, rename, sync of the directory: {failed}");
    assert_eq!(file(), "then");
}

#[test]
fn a_noted_rewind_is_read_as_it_was_written() {
    let rewind = Rewind { to: Seq(7), files: true, ..Rewind::default() };
    let odd = Path::new(OsStr::from_bytes(b"/a\nb/\xff"));
    let noted = RewindConsent::of(&rewind, odd);
    assert_eq!(RewindConsent::read(&noted.write()).as_ref(), Some(&noted));
    assert!(noted.is(&Rewind { to: Seq(9), ..rewind.clone() }), "its place is not known before");
    assert!(!noted.is(&Rewind { paths: vec!["x".to_owned()], ..rewind.clone() }));
    for root in ["", ".", "a/b"] {
        let bytes = RewindConsent::of(&rewind, Path::new(root)).write();
        assert_eq!(RewindConsent::read(&bytes), None, "{root:?}");
    }
    let whole = noted.write();
    for cut in 0..whole.iter().position(|byte| *byte == b'/').unwrap() {
        assert_eq!(RewindConsent::read(&whole[..cut]), None);
    }
}
