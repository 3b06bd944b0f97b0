//! Sessions of many projects in one store: whose they are, what is let go of whom, and what they
//! share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use abide_journal::BundleReader;
use abide_local::{
    CleanupRules, Config, DailyCleanup, ImportError, LocalOptions, LocalStore, ProjectUse,
};
use abide_model::{
    ByteSize, HistoryQuery, LimitOverride, NewSession, Retention, RetentionOverrides, Search,
    SessionFields, SessionId, SessionRef, Store, StoreError, TimeSpan,
};
use abide_testkit::{FaultRun, SimDisk};

use crate::power::cut_everywhere;
use crate::retention::{Clocked, append, checkpoint};
use crate::run::{exists, healthy, options, small, store_path};

const DAY: i64 = 86_400_000;

fn message(text: &str) -> String {
    format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#)
}

/// A session of a project that says something, in a directory.
fn told(store: &LocalStore, project: &str, workspace: &str) -> SessionId {
    let fields = SessionFields {
        project_id: Some(project.to_owned()).filter(|project| !project.is_empty()),
        workspace: Some(workspace.to_owned()),
        ..SessionFields::default()
    };
    let id = store.create(NewSession::from(fields)).unwrap().id;
    append(store, id, &[&message("zebra")]);
    id
}

fn listed(store: &LocalStore) -> Vec<SessionId> {
    store.list().unwrap().iter().map(|session| session.id).collect()
}

/// A store on files, for a project.
fn on_files(root: &Path, projects: &[&str]) -> LocalStore {
    let projects = projects.iter().map(ToString::to_string).collect();
    LocalStore::init(root, LocalOptions { projects, ..LocalOptions::default() }).unwrap()
}

/// The store on a simulated disk, for a project.
fn simulated(disk: &SimDisk, seed: u64, project: &str) -> LocalStore {
    let options = LocalOptions { projects: vec![project.to_owned()], ..options(disk, seed) };
    small(LocalStore::init(&store_path(), options).unwrap())
}

#[test]
fn a_project_has_limits_of_its_own() {
    let clocked = Clocked::new(Retention::default());
    let mut sessions: BTreeMap<&str, Vec<SessionId>> = BTreeMap::new();
    for _ in 0..4 {
        for (project, workspace) in [("red", "/red"), ("blue", "/blue"), ("", "/work/site/part")] {
            let id = told(&clocked.store, project, workspace);
            sessions.entry(workspace).or_default().push(id);
            clocked.wait(DAY);
        }
    }
    let config = r#"
        [retention]
        max_count = 4
        min_keep = 0
        keep_failed = false
        [project.red]
        retention.max_count = 1
        [project."/work/site"]
        retention.max_age = "3d"
        retention.min_keep = 1
        [project."/work"]
        retention.max_count = 0
        workspace.max_files = 1
    "#;
    let config: Config = toml::from_str(config).unwrap();
    let store = clocked.store.with_config(config);
    let rules = store.cleaner().rules();
    let going = |rules: &CleanupRules| {
        let plan = store.cleaner().plan(rules).unwrap();
        let mut going: Vec<SessionId> = plan.sessions.iter().map(|one| one.id).collect();
        going.sort_unstable();
        going
    };
    let (red, blue, site) = (&sessions["/red"], &sessions["/blue"], &sessions["/work/site/part"]);
    // Of red all but the newest; of blue, which are four, none; of the site those that are old.
    let mut expected: Vec<SessionId> = [&red[..3], &site[..3]].concat();
    expected.sort_unstable();
    assert_eq!(going(&rules), expected);
    // For one project nobody else is looked at, and nobody else is counted.
    let only = |project: &str| CleanupRules { only: vec![project.to_owned()], ..rules.clone() };
    assert_eq!(going(&only("red")), red[..3]);
    assert_eq!(going(&only("blue")), []);
    let tight =
        Retention { max_count: Some(2), min_keep: 0, keep_failed: false, ..Retention::default() };
    let tight = CleanupRules { retention: tight, ..CleanupRules::default() };
    assert_eq!(going(&CleanupRules { only: vec!["blue".to_owned()], ..tight.clone() }), blue[..2]);
    assert_eq!(going(&tight).len(), 10);
    // What a project's settings do not say is the store's.
    let thrifty = RetentionOverrides {
        max_size: Some(LimitOverride::At(ByteSize(1))),
        ..RetentionOverrides::default()
    };
    let by_size = CleanupRules { projects: [("blue".to_owned(), thrifty)].into(), ..tight };
    let plan = store.cleaner().plan(&by_size).unwrap();
    let of_blue = plan.sessions.iter().filter(|one| one.project.as_deref() == Some("blue"));
    assert_eq!(of_blue.count(), 4);
    // And it is done.
    let cleaned = store.cleaner().apply(&store.cleaner().plan(&rules).unwrap(), &rules).unwrap();
    assert_eq!((cleaned.sessions.len(), cleaned.notes), (6, Vec::<String>::new()));
    let mut left = listed(&store);
    left.sort_unstable();
    let mut stay = [&red[3..], blue, &site[3..]].concat();
    stay.sort_unstable();
    assert_eq!(left, stay);
}

#[test]
fn a_fork_in_another_project_keeps_its_parent() {
    let clocked = Clocked::new(Retention::default());
    let parent = told(&clocked.store, "red", "/red");
    let fields = SessionFields { project_id: Some("blue".to_owned()), ..SessionFields::default() };
    let fork = clocked.store.fork(parent, None, NewSession::from(fields)).unwrap().id;
    clocked.wait(40 * DAY);
    let old = Retention {
        max_age: Some(TimeSpan::from_millis(DAY)),
        min_keep: 0,
        keep_failed: false,
        ..Retention::default()
    };
    let rules = CleanupRules {
        retention: old.clone(),
        only: vec!["red".to_owned()],
        ..CleanupRules::default()
    };
    assert_eq!(clocked.store.cleaner().plan(&rules).unwrap().sessions, []);
    let all = clocked.store.cleaner().plan(&old).unwrap();
    assert_eq!(all.sessions.iter().map(|one| one.id).collect::<Vec<_>>(), [fork, parent]);
}

#[test]
fn an_object_of_two_projects_goes_with_the_last_that_names_it() {
    let clocked = Clocked::new(Retention::default());
    let (shared, own) = (clocked.snapshot("shared"), clocked.snapshot("red's own"));
    let red = told(&clocked.store, "red", "/red");
    let blue = told(&clocked.store, "blue", "/blue");
    append(&clocked.store, red, &[&checkpoint(1, shared[0]), &checkpoint(2, own[0])]);
    append(&clocked.store, blue, &[&checkpoint(1, shared[0])]);
    clocked.wait(40 * DAY);
    let all = |project: &str| CleanupRules {
        retention: Retention {
            max_count: Some(0),
            min_keep: 0,
            keep_failed: false,
            ..Retention::default()
        },
        only: vec![project.to_owned()],
        ..CleanupRules::default()
    };
    let clean = |rules: &CleanupRules| {
        let plan = clocked.store.cleaner().plan(rules).unwrap();
        clocked.store.cleaner().apply(&plan, rules).unwrap()
    };
    assert_eq!(clean(&all("red")).sessions.len(), 1);
    assert!(clocked.has(&shared), "blue names it");
    assert!(!clocked.has(&own[..1]));
    clocked.wait(DAY);
    assert_eq!(clean(&all("blue")).sessions.len(), 1);
    assert!(!clocked.has(&shared[..1]));
}

#[test]
fn what_is_erased_in_one_project_stays_where_another_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let [red, blue] = ["red", "blue"].map(|project| {
        let store = on_files(dir.path(), &[project]);
        let mut config = store.config().clone();
        config.journal.object_bytes = 1024;
        store.with_config(config)
    });
    let secret = format!("hunter2 {}", "long ".repeat(1000));
    let write = |store: &LocalStore| {
        let id = store.create(NewSession::default()).unwrap().id;
        append(store, id, &[&message(&secret)]);
        id
    };
    let (ours, theirs) = (write(&red), write(&blue));
    let found = |store: &LocalStore| {
        let search = Some(Search::parse("hunter2").unwrap());
        let query = HistoryQuery { search, all_projects: true, ..HistoryQuery::default() };
        let entries = store.history(&query).unwrap().entries;
        entries.iter().map(|entry| entry.id).collect::<Vec<_>>()
    };
    assert_eq!(found(&red).len(), 2);
    let plan = red.eraser().plan(ours, &[abide_model::Seq(3)]).unwrap();
    red.eraser().apply(&plan, None, Duration::ZERO).unwrap();
    assert_eq!(found(&red), [theirs], "what blue said is still there, and can be read");
    let event = |store: &LocalStore, id| {
        let reader = store.read(id).unwrap();
        let range = abide_model::EventRange::from(abide_model::Seq(3)).limit(1);
        let page = reader.page(range).unwrap();
        page.events[0].to_json()
    };
    assert!(event(&blue, theirs).contains("hunter2"));
    assert!(!event(&red, ours).contains("hunter2"));
    let plan = blue.eraser().plan(theirs, &[abide_model::Seq(3)]).unwrap();
    blue.eraser().apply(&plan, None, Duration::ZERO).unwrap();
    assert_eq!(found(&red), []);
    // A session whose first event is erased is of its project all the same.
    let plan = red.eraser().plan(ours, &[abide_model::Seq(1)]).unwrap();
    red.eraser().apply(&plan, None, Duration::ZERO).unwrap();
    assert_eq!((listed(&red), listed(&blue)), (vec![ours], vec![theirs]));
    let history = red.history(&HistoryQuery::default()).unwrap().entries;
    assert_eq!(history.iter().map(|entry| entry.id).collect::<Vec<_>>(), [ours]);
}

#[test]
fn the_space_is_told_by_project() {
    let dir = tempfile::tempdir().unwrap();
    let store = on_files(dir.path(), &[]);
    told(&store, "", "/plain");
    assert_eq!(store.disk_use().unwrap().projects, []);
    for project in ["red", "blue", "red"] {
        told(&store, project, "/somewhere");
    }
    let used = store.disk_use().unwrap();
    let mut counts: Vec<(Option<&str>, u64)> =
        used.projects.iter().map(|it| (it.project.as_deref(), it.sessions)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [(None, 1), (Some("blue"), 1), (Some("red"), 2)]);
    let bytes = |of: &dyn Fn(&ProjectUse) -> u64| used.projects.iter().map(of).sum::<u64>();
    assert_eq!(bytes(&|it| it.bytes), used.sessions.iter().map(|it| it.bytes).sum::<u64>());
    assert!(used.projects.is_sorted_by(|a, b| a.bytes >= b.bytes));
}

fn export(store: &LocalStore, id: SessionId) -> Vec<u8> {
    let mut bundle = Vec::new();
    store.exporter().export(id, &mut bundle).unwrap();
    bundle
}

fn import(store: &LocalStore, bundle: &[u8]) -> Result<(), ImportError> {
    store.importer().import(BundleReader::open(bundle)?, Duration::ZERO).map(|_| ())
}

/// A session of no project, with a key, in a bundle.
fn bundled(key: &str) -> (SessionId, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let store = on_files(dir.path(), &[]);
    let id = store.create(NewSession::default().with_key(key)).unwrap().id;
    append(&store, id, &[&message("imported zebra")]);
    (id, export(&store, id))
}

#[test]
fn an_imported_session_is_put_into_the_project_it_is_imported_for() {
    let (id, bundle) = bundled("build");
    let dir = tempfile::tempdir().unwrap();
    let [red, blue, all] =
        [&["red"][..], &["blue"], &[]].map(|projects| on_files(dir.path(), projects));
    let key = |store: &LocalStore| store.find(&SessionRef::Key("build".to_owned()));
    let taken = blue.create(NewSession::default().with_key("build")).unwrap().id;
    import(&red, &bundle).unwrap();
    assert_eq!((listed(&red), listed(&blue)), (vec![id], vec![taken]));
    assert_eq!(red.finder().project_of(id).unwrap().as_deref(), Some("red"));
    assert_eq!((key(&red).unwrap(), key(&blue).unwrap()), (id, taken));
    let found = |store: &LocalStore| {
        let search = Some(Search::parse("zebra").unwrap());
        let query = HistoryQuery { search, ..HistoryQuery::default() };
        let entries = store.history(&query).unwrap().entries;
        entries.iter().map(|it| it.overview.fields.project_id.clone()).collect::<Vec<_>>()
    };
    assert_eq!((found(&red), found(&blue)), (vec![Some("red".to_owned())], Vec::new()));
    assert_eq!(red.find(&SessionRef::Latest).unwrap(), id);
    // Once more, from elsewhere: it is here already, and where it was.
    import(&blue, &bundle).unwrap();
    assert_eq!((listed(&red), listed(&blue)), (vec![id], vec![taken]));
    // A session that names its project stays in it, whoever imports it, with its key.
    let copy = tempfile::tempdir().unwrap();
    let elsewhere = on_files(copy.path(), &["green"]);
    let theirs = export(&blue, taken);
    import(&elsewhere, &theirs).unwrap();
    assert_eq!(elsewhere.finder().project_of(taken).unwrap().as_deref(), Some("blue"));
    assert_eq!(listed(&elsewhere), []);
    assert!(matches!(key(&elsewhere), Err(StoreError::NoSession { .. })));
    assert_eq!(key(&on_files(copy.path(), &["blue"])).unwrap(), taken);
    // A key that somebody in the project has refuses the import; one in another project does not.
    let (other, second) = bundled("build");
    assert!(
        matches!(import(&red, &second), Err(ImportError::KeyTaken { session, .. }) if session == id)
    );
    import(&all, &second).unwrap();
    assert_eq!(key(&all).unwrap(), other);
    // The keys' files are derived, whatever project they are of.
    for _ in 0..2 {
        for entry in std::fs::read_dir(dir.path().join("keys")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                std::fs::remove_file(path).unwrap();
            }
        }
        assert_eq!([&red, &blue, &all].map(|store| key(store).unwrap()), [id, taken, other]);
        let again = NewSession::default().with_key("build");
        assert_eq!(blue.create(again).unwrap().id, taken);
        assert_eq!([&red, &blue, &all].map(|store| key(store).unwrap()), [id, taken, other]);
    }
    // A key is free again in the project whose session went, and nowhere else.
    red.remover().delete(id).unwrap();
    assert!(matches!(key(&red), Err(StoreError::NoSession { .. })));
    assert_eq!((key(&blue).unwrap(), key(&all).unwrap()), (taken, other));
    import(&red, &second).unwrap();
}

#[test]
fn a_power_cut_leaves_an_imported_session_in_its_project() {
    let (id, bundle) = bundled("build");
    let disk = SimDisk::new(Path::new("/sim"));
    let store = simulated(&disk, 3, "red");
    store.create(NewSession::default()).unwrap();
    disk.note(0, 0);
    disk.keep_history();
    import(&store, &bundle).unwrap();
    disk.note(1, 0);
    let moments = disk.take_history();
    let cuts =
        cut_everywhere(&moments, FaultRun::from_env().count(6, 60), &|disk, moment, seed| {
            let store = simulated(disk, seed + 50, "red");
            let here = exists(&store, id);
            if moment.note.0 == 1 && !here {
                return Err("an imported session is gone".to_owned());
            }
            if here {
                let project = store.finder().project_of(id).map_err(|error| error.to_string())?;
                if project.as_deref() != Some("red") {
                    return Err(format!("it is of project {project:?}"));
                }
            }
            import(&store, &bundle).map_err(|error| format!("{error:?}"))?;
            if store.finder().project_of(id).unwrap().as_deref() != Some("red") {
                return Err("tried again, it is of no project".to_owned());
            }
            let key = store.find(&SessionRef::Key("build".to_owned()));
            if key.ok() != Some(id) {
                return Err("its key does not lead to it".to_owned());
            }
            healthy(&store, id)
        });
    FaultRun::from_env().report("power cuts during an import for a project", cuts, 300);
}

#[test]
fn a_short_id_is_as_long_as_it_must_be() {
    let dir = tempfile::tempdir().unwrap();
    let store = on_files(dir.path(), &[]);
    for _ in 0..40 {
        store.create(NewSession::default()).unwrap();
    }
    for session in store.list().unwrap() {
        assert_eq!(store.finder().short_id(session.id).unwrap(), session.short);
    }
}

#[test]
fn a_project_is_one_by_whatever_it_is_known() {
    let clocked = Clocked::new(Retention::default());
    let ids: Vec<SessionId> =
        ["old", "new", "other"].map(|project| told(&clocked.store, project, "/site")).into();
    clocked.wait(40 * DAY);
    let config = r#"
        [retention]
        max_age = "30d"
        min_keep = 0
        keep_failed = false
        [project.new]
        retention.max_age = "off"
    "#;
    let config: Config = toml::from_str(config).unwrap();
    let opened = |projects: &[&str]| {
        let projects = projects.iter().map(ToString::to_string).collect();
        let options = LocalOptions { projects, ..options(&clocked.disk, 8) };
        LocalStore::open(&store_path(), options).unwrap().with_config(config.clone())
    };
    let rules = |projects: &[&str]| opened(projects).cleaner().rules();
    let going = |rules: &CleanupRules| {
        let plan = clocked.store.cleaner().plan(rules).unwrap();
        plan.sessions.iter().map(|one| one.id).collect::<BTreeSet<_>>()
    };
    assert_eq!(going(&rules(&["new", "old"])), [ids[2]].into());
    assert_eq!(going(&rules(&["old", "new"])), [ids[2]].into());
    assert_eq!(going(&rules(&["other"])), [ids[0], ids[2]].into(), "it knows the one id alone");
    let used = opened(&["new", "old"]).disk_use().unwrap();
    let mut named: Vec<_> =
        used.projects.iter().map(|it| (it.project.as_deref(), it.sessions)).collect();
    named.sort_unstable();
    assert_eq!(named, [(Some("new"), 2), (Some("other"), 1)]);
    for wrong in ["\"of\"", "7", "true"] {
        let text = format!("[project.new]\nretention.max_age = {wrong}\n");
        assert!(toml::from_str::<Config>(&text).is_err(), "{wrong}");
    }
    let text = "[project.new]\nretention.max_count = \"off\"\nretention.max_size = \"off\"\n";
    let off = toml::from_str::<Config>(text).unwrap().project["new"].retention.clone();
    let limited = Retention {
        max_count: Some(1),
        max_size: Some(ByteSize(1)),
        thin: true,
        ..Retention::default()
    };
    assert_eq!(off.over(&limited), Retention { thin: true, ..Retention::default() });
}

#[test]
fn the_cleanup_of_a_project_leaves_that_of_the_day_to_be_done() {
    let settings = Retention {
        max_age: Some(TimeSpan::from_millis(30 * DAY)),
        min_keep: 0,
        keep_failed: false,
        ..Retention::default()
    };
    let clocked = Clocked::new(settings);
    let store = &clocked.store;
    let [red, blue] = ["red", "blue"].map(|project| told(store, project, "/work"));
    let about = told(store, "green", "/work");
    clocked.wait(40 * DAY);
    let rules = CleanupRules { only: vec!["red".to_owned()], ..store.cleaner().rules() };
    let plan = store.cleaner().plan(&rules).unwrap();
    assert!(plan.jumped.is_some());
    let cleaned = store.cleaner().apply(&plan, &rules).unwrap();
    assert_eq!(cleaned.sessions.iter().map(|one| one.id).collect::<Vec<_>>(), [red]);
    // Whoever did it saw the clock, so that nobody doubts it now.
    assert!(store.cleaner().plan(&rules).unwrap().jumped.is_none());
    let DailyCleanup::Cleaned(cleaned) = store.cleaner().clean_up_daily(about).unwrap() else {
        panic!("it was put off");
    };
    assert_eq!(cleaned.sessions.iter().map(|one| one.id).collect::<Vec<_>>(), [blue]);
    assert!(matches!(store.cleaner().clean_up_daily(about).unwrap(), DailyCleanup::NotDue));
}

#[test]
fn a_store_that_is_recorded_in_for_a_project_says_that_it_holds_many() {
    let dir = tempfile::tempdir().unwrap();
    let marked = || abide_local::holds_many_projects(dir.path());
    on_files(dir.path(), &[]);
    assert!(!marked());
    // Who only reads changes nothing.
    let options = LocalOptions { projects: vec!["red".to_owned()], ..LocalOptions::default() };
    LocalStore::open(dir.path(), options).unwrap();
    assert!(!marked());
    let store = on_files(dir.path(), &["red"]);
    assert!(marked());
    assert_eq!(store.config().projects, Some(abide_local::HeldProjects::Many));
    told(&store, "red", "/work");
    assert_eq!(listed(&on_files(dir.path(), &[])).len(), 1);
}
