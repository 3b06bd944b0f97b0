//! The catalog over real stores.

use std::fs;
use std::path::Path;

use abide::{
    LocalOptions, LocalStore, Message, SessionRef,
    liveness::Environment,
    locate::{StoreFinder, StoreLocation, UserDirs},
};

use super::*;

struct Fixture {
    _dir: tempfile::TempDir,
    project: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir_all(&project).unwrap();
        LocalStore::init(&project.join(".abide"), LocalOptions::default()).unwrap();
        Self { _dir: dir, project }
    }

    /// Somebody whose home is beside the project.
    fn person(&self) -> UserDirs {
        let home = self.project.with_file_name("home");
        fs::create_dir_all(&home).unwrap();
        let home = |name: &str| (name == "HOME").then(|| home.clone().into_os_string());
        UserDirs::by(home, || None)
    }

    /// Of a process that was started in no project, with that person's store.
    fn catalog(&self) -> Catalog {
        let person = self.person();
        let finder = StoreFinder::new(&person, None).unwrap();
        Catalog::started_in(StoreOptions { finder, person, ..StoreOptions::default() }, None)
    }

    /// A directory beside the project.
    fn dir(&self, name: &str) -> PathBuf {
        let dir = self.project.with_file_name(name);
        fs::create_dir(&dir).unwrap();
        dir
    }
}

/// Of a process that was started in no project.
fn new() -> Catalog {
    Catalog::started_in(StoreOptions::default(), None)
}

fn catalog_over(store: PathBuf) -> Catalog {
    let finder = StoreFinder { named: Some(StoreLocation::Files(store)), ..StoreFinder::default() };
    Catalog::started_in(StoreOptions { finder, ..StoreOptions::default() }, None)
}

fn made(catalog: &Catalog, directory: &Path, id: &str) -> (String, SessionId) {
    let (name, session) = catalog.create(directory, id, "agent").unwrap();
    (name, session.id())
}

fn ids(page: &SessionPage) -> Vec<String> {
    page.sessions.iter().map(|info| info.session_id.to_string()).collect()
}

#[test]
fn a_session_goes_by_the_agents_id_and_is_found_by_it_by_everyone() {
    let fixture = Fixture::new();
    let catalog = new();
    let (name, session) = catalog.create(&fixture.project, "sess-1", "coder").unwrap();
    assert_eq!(name, "sess-1");
    let fields = session.core().unwrap().fields;
    assert_eq!(fields.key.as_deref(), Some("acp:sess-1"));
    assert_eq!(fields.agent.as_deref(), Some("coder"));
    assert_eq!(fields.workspace.as_deref(), fixture.project.to_str());
    let id = session.id();
    drop(session);
    let others = new();
    for name in ["sess-1".to_owned(), id.to_string()] {
        assert_eq!(others.find(Some(&fixture.project), &name).unwrap().1, id, "{name}");
        assert_eq!(others.find(None, &name).unwrap().1, id, "{name}: its store is known by now");
    }
    assert_eq!(others.open(None, "sess-1").unwrap().id(), id);
    // Neither a part of an id, nor a short id, nor a key of another sort.
    let whole = id.to_string();
    for part in ["", "sess", "acp:sess-1", &whole[..35], &id.short(12), &"x".repeat(5000)] {
        let error = others.find(Some(&fixture.project), part).unwrap_err();
        assert!(matches!(error, CatalogError::NoSession { .. }), "{part:?}: {error}");
    }
}

#[test]
fn without_a_directory_the_store_of_where_it_was_started_is_looked_at() {
    let fixture = Fixture::new();
    let (_, id) = made(&new(), &fixture.project, "a");
    let here = Catalog::started_in(StoreOptions::default(), Some(fixture.project.clone()));
    assert_eq!(ids(&here.list(None, None).unwrap()), ["a"]);
    assert_eq!(here.find(None, "a").unwrap().1, id);
    assert!(new().find(None, "a").is_err());
}

#[test]
fn looking_makes_no_store() {
    let fixture = Fixture::new();
    let (catalog, dir) = (fixture.catalog(), fixture.dir("plain"));
    let store = fixture.person().store().unwrap();
    assert_eq!(ids(&catalog.list(Some(&dir), None).unwrap()), [""; 0]);
    let error = catalog.find(Some(&dir), "x").unwrap_err().message();
    assert!(error.contains("which has no store"), "{error}");
    assert!(!store.exists());
    catalog.store(&dir).unwrap();
    assert!(store.join("config.toml").exists());
    // Taken away and made anew, beneath a catalog that had it open.
    made(&catalog, &dir, "a");
    fs::remove_dir_all(&store).unwrap();
    assert_eq!(ids(&catalog.list(Some(&dir), None).unwrap()), [""; 0]);
    assert_eq!(made(&catalog, &dir, "a").0, "a");
    assert_eq!(ids(&catalog.list(Some(&dir), None).unwrap()), ["a"]);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "nothing is put there");
}

#[test]
fn in_the_persons_store_an_id_counts_in_its_project() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.dir("one"), fixture.dir("two"));
    let (_, first) = made(&fixture.catalog(), &one, "1");
    let (name, second) = made(&fixture.catalog(), &two, "1");
    assert_eq!(name, "1");
    let catalog = fixture.catalog();
    assert_eq!(catalog.find(Some(&one), "1").unwrap().1, first);
    assert_eq!(catalog.find(Some(&two), "1").unwrap().1, second);
    assert_eq!(ids(&catalog.list(Some(&one), None).unwrap()), ["1"]);
    assert_eq!(ids(&catalog.list(None, None).unwrap()), ["1", "1"], "of all projects");
    // A session of a directory that this process has not heard of.
    let (_, third) = made(&fixture.catalog(), &one, "3");
    assert_eq!(catalog.find(None, "3").unwrap().1, third);
    // This project has a store of its own.
    made(&catalog, &fixture.project, "own");
    assert_eq!(ids(&catalog.list(Some(&fixture.project), None).unwrap()), ["own"]);
    let own = LocalStore::open(&fixture.project.join(".abide"), LocalOptions::default()).unwrap();
    assert_eq!(
        Store::local(own).history(&abide::HistoryQuery::default()).unwrap().entries.len(),
        1
    );
}

#[test]
fn nothing_is_done_to_another_projects_session_of_the_same_id() {
    let fixture = Fixture::new();
    let dirs = [fixture.dir("one"), fixture.dir("two")];
    let sessions = dirs.each_ref().map(|dir| made(&fixture.catalog(), dir, "1").1);
    // Each way round: the one that changed last is not the one that is meant.
    for (own, other) in [(0, 1), (1, 0)] {
        let catalog = fixture.catalog();
        catalog.list(Some(&dirs[own]), None).unwrap();
        // Nothing says which is meant.
        for error in [
            catalog.find(None, "1").map(|_| ()).unwrap_err(),
            catalog.open(None, "1").map(|_| ()).unwrap_err(),
            catalog.delete(None, "1").unwrap_err(),
            catalog.fork(&fixture.dir(&format!("third{own}")), "1", "x").map(|_| ()).unwrap_err(),
        ] {
            let told = error.message();
            assert!(matches!(error, CatalogError::Ambiguous { .. }), "{told}");
            assert!(dirs.iter().all(|dir| told.contains(dir.to_str().unwrap())), "{told}");
        }
        assert_eq!(catalog.open(Some(&dirs[own]), "1").unwrap().id(), sessions[own]);
        assert_eq!(catalog.open(None, "1").unwrap().id(), sessions[own]);
        // In a third directory it is the one that was loaded.
        let third = fixture.dir(&format!("fourth{own}"));
        let (_, fork) = catalog.fork(&third, "1", "f").unwrap();
        assert_eq!(fork.core().unwrap().fields.parent.unwrap().session, sessions[own]);
        let there = fixture.catalog().find(Some(&third), "f").unwrap().1;
        assert_eq!(there, fork.id(), "it is of that directory");
        drop(fork);
        catalog.delete(None, "f").unwrap();
        // And in a directory that has one by this id, it is that.
        let (name, fork) = catalog.fork(&dirs[other], "1", "g").unwrap();
        assert_eq!(name, "g");
        let fields = fork.core().unwrap().fields;
        assert_eq!(fields.parent.unwrap().session, sessions[other]);
        drop(fork);
        catalog.delete(Some(&dirs[other]), "g").unwrap();
    }
    let catalog = fixture.catalog();
    catalog.find(Some(&dirs[0]), "1").unwrap();
    catalog.delete(None, "1").unwrap();
    // Asked again, it does not go on with the other one's.
    let error = catalog.delete(None, "1").unwrap_err();
    assert!(matches!(error, CatalogError::Ambiguous { .. }), "{error}");
    assert_eq!(catalog.find(Some(&dirs[1]), "1").unwrap().1, sessions[1]);
    let error = fixture.catalog().find(Some(&dirs[0]), "1").unwrap_err();
    assert!(matches!(error, CatalogError::NoSession { .. }), "{error}");
    catalog.delete(None, "1").unwrap();
    assert_eq!(ids(&catalog.list(None, None).unwrap()), [""; 0]);
    // What was deleted gives its id free.
    assert_eq!(made(&catalog, &dirs[0], "1").0, "1");
}

#[test]
fn a_fork_is_of_the_project_of_its_directory() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.dir("one"), fixture.dir("two"));
    let catalog = fixture.catalog();
    let (_, parent) = made(&catalog, &one, "a");
    let [with_key, without] = ["b", "b"].map(|id| {
        let (name, fork) = catalog.fork(&two, "a", id).unwrap();
        let fields = fork.core().unwrap().fields;
        assert_eq!(fields.parent.unwrap().session, parent);
        assert_eq!(fields.workspace.as_deref(), two.to_str());
        assert_eq!(fields.project.as_deref(), two.to_str());
        (name, fields.project_id, fork.id())
    });
    assert_eq!(with_key.0, "b");
    assert_eq!(without.0, without.2.to_string(), "the id is taken");
    let project = catalog.store(&two).unwrap().projects().first().cloned();
    assert!(project.is_some());
    assert_eq!((&with_key.1, &without.1), (&project, &project));
    assert_eq!(fixture.catalog().find(Some(&two), "b").unwrap().1, with_key.2);
    // That directory has a store of its own: the fork is with its parent.
    let (_, fork) = catalog.fork(&fixture.project, "a", "c").unwrap();
    let own = catalog.store(&one).unwrap();
    assert_eq!(fork.core().unwrap().fields.project_id.as_ref(), own.projects().first());
    drop(fork);
    catalog.delete(None, "c").unwrap();
}

#[test]
fn a_session_is_of_the_directory_that_a_link_leads_to() {
    let fixture = Fixture::new();
    let (one, catalog) = (fixture.dir(r"o\x6e\\e"), fixture.catalog());
    let link = fixture.project.with_file_name("link");
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let (_, session) = catalog.create(&link, "a", "agent").unwrap();
    session.append(Message::user("hello")).unwrap().wait().unwrap();
    let fields = session.core().unwrap().fields;
    assert_eq!(fields.workspace.as_deref(), one.to_str());
    assert_eq!(fields.project.as_deref(), one.to_str());
    let store = fixture.catalog().store(&one).unwrap();
    assert_eq!(store.find(&SessionRef::LatestIn(one.clone())).unwrap(), session.id());
    assert_eq!(store.workspace_root(session.id(), &fields).unwrap(), one);
    for dir in [&one, &link] {
        assert_eq!(ids(&catalog.list(Some(dir), None).unwrap()), ["a"]);
    }
}

#[test]
fn a_session_says_its_project_whatever_was_asked_before() {
    let fixture = Fixture::new();
    let one = fixture.dir("one");
    made(&fixture.catalog(), &one, "first");
    let catalog = fixture.catalog();
    catalog.list(None, None).unwrap();
    catalog.list(Some(&one), None).unwrap();
    let (_, session) = catalog.create(&one, "a", "agent").unwrap();
    assert_eq!(session.core().unwrap().fields.project.as_deref(), one.to_str());
    // Started here, it has the store open with the sessions of all projects.
    let person = fixture.person();
    let finder = StoreFinder::new(&person, None).unwrap();
    let options = StoreOptions { finder, person, ..StoreOptions::default() };
    let catalog = Catalog::started_in(options, Some(one.clone()));
    catalog.list(None, None).unwrap();
    let (_, session) = catalog.create(&one, "b", "agent").unwrap();
    let fields = session.core().unwrap().fields;
    assert_eq!(fields.project.as_deref(), one.to_str());
    assert!(fields.project_id.is_some());
}

#[test]
fn an_id_that_is_taken_gives_way_to_the_sessions_own() {
    let fixture = Fixture::new();
    let (one, two) = (new(), new());
    let (first, first_id) = made(&one, &fixture.project, "1");
    let (second, second_id) = made(&two, &fixture.project, "1");
    assert_eq!(first, "1");
    assert_eq!(second, second_id.to_string());
    assert_ne!(first_id, second_id);
    assert_eq!(two.find(Some(&fixture.project), "1").unwrap().1, first_id);
    assert_eq!(two.find(Some(&fixture.project), &second).unwrap().1, second_id);
    // An agent that is abide itself gives out ids of sessions that are in the same store.
    let (third, third_id) = made(&one, &fixture.project, &second);
    assert_eq!(third, third_id.to_string());
    assert_ne!(third_id, second_id);
    let (endless, endless_id) = made(&one, &fixture.project, &"x".repeat(5000));
    assert_eq!(endless, endless_id.to_string());
}

#[test]
fn of_those_who_make_the_same_id_at_once_one_has_it() {
    let fixture = Fixture::new();
    new().store(&fixture.project).unwrap();
    let made: Vec<(String, SessionId)> = std::thread::scope(|scope| {
        let make = || made(&new(), &fixture.project, "same");
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|(name, _)| name == "same").count(), 1);
    let sessions: std::collections::HashSet<_> = made.iter().map(|(_, id)| *id).collect();
    assert_eq!(sessions.len(), 8, "nobody shares a session");
}

#[test]
fn a_list_is_of_a_directory_and_tells_title_place_and_time() {
    let fixture = Fixture::new();
    let inner = fixture.project.join("inner");
    fs::create_dir(&inner).unwrap();
    let catalog = new();
    let (_, session) = catalog.create(&fixture.project, "a", "agent").unwrap();
    session.append(Message::user("\n  Mend the parser  \nand more")).unwrap().wait().unwrap();
    drop(session);
    made(&catalog, &inner, "b");
    let own = catalog.store(&inner).unwrap().make(NewSession::titled("by hand")).unwrap();
    let page = catalog.list(Some(&fixture.project), None).unwrap();
    assert_eq!(ids(&page), [own.to_string(), "a".to_owned()]);
    assert_eq!(page.next, None);
    assert_eq!(page.sessions[0].title.as_deref(), Some("by hand"));
    assert_eq!(page.sessions[1].title.as_deref(), Some("Mend the parser and more"));
    assert_eq!(page.sessions[1].cwd, fixture.project);
    let updated = page.sessions[1].updated_at.clone().unwrap();
    assert!(updated.parse::<jiff::Timestamp>().is_ok(), "{updated}");
    // By another path to the same directory.
    let link = fixture.project.with_file_name("link");
    std::os::unix::fs::symlink(&inner, &link).unwrap();
    assert_eq!(ids(&catalog.list(Some(&link), None).unwrap()), ["b"]);
    assert_eq!(ids(&catalog.list(None, None).unwrap()).len(), 3);
}

#[test]
fn one_store_can_have_the_sessions_of_all_directories() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.project.join("one"), fixture.project.join("two"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    let store = fixture.project.with_file_name("store");
    LocalStore::init(&store, LocalOptions::default()).unwrap();
    let catalog = catalog_over(store.clone());
    assert_eq!(ids(&catalog.list(None, None).unwrap()), [""; 0]);
    let (_, id) = made(&catalog, &one, "a");
    made(&catalog, &two, "b");
    assert_eq!(ids(&new().list(Some(&fixture.project), None).unwrap()), [""; 0]);
    assert_eq!(ids(&catalog.list(Some(&one), None).unwrap()), ["a"]);
    assert_eq!(ids(&catalog.list(None, None).unwrap()), ["b", "a"]);
    assert_eq!(catalog_over(store).find(None, "a").unwrap().1, id);
}

#[test]
fn pages_follow_each_other_while_sessions_are_added() {
    let fixture = Fixture::new();
    let catalog = new();
    // All in the same moment, and more than are asked of an index at once.
    let moment = abide::Timestamp::from_millis(1_763_169_600_000);
    let env = Environment { now: Arc::new(move || moment), ..Environment::default() };
    let options = LocalOptions { env, ..LocalOptions::default() };
    let store = LocalStore::init(&fixture.project.join(".abide"), options).unwrap();
    let store = Store::local(store);
    let total = 5 * listing::PAGE + 20;
    let make = |_| store.make(NewSession::default()).unwrap().to_string();
    let own: Vec<String> = (0..total).map(make).collect();
    let mut told = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = catalog.list(Some(&fixture.project), cursor.as_deref()).unwrap();
        told.extend(ids(&page));
        made(&catalog, &fixture.project, &format!("new-{}", told.len()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        assert_eq!(page.sessions.len(), listing::PAGE);
    }
    assert_eq!(told.len(), total);
    told.sort_unstable();
    let mut own = own;
    own.sort_unstable();
    assert_eq!(told, own, "each once, and none of those that came meanwhile");
    for garbage in ["", "x", "1", "1.", "1.2", "+1.00000000-0000-0000-0000-000000000000"] {
        let error = catalog.list(Some(&fixture.project), Some(garbage)).unwrap_err();
        assert!(matches!(error, CatalogError::BadCursor { .. }), "{garbage:?}");
    }
}

#[test]
fn few_of_a_directory_are_found_among_many_of_another() {
    let fixture = Fixture::new();
    let inner = fixture.project.join("inner");
    fs::create_dir(&inner).unwrap();
    let catalog = new();
    made(&catalog, &inner, "first");
    let store = catalog.store(&fixture.project).unwrap();
    for _ in 0..5 * listing::PAGE {
        store.make(NewSession::default()).unwrap();
    }
    made(&catalog, &inner, "last");
    let page = catalog.list(Some(&inner), None).unwrap();
    assert_eq!(ids(&page), ["last", "first"]);
    assert_eq!(page.next, None);
}

#[test]
fn a_fork_has_its_own_id_and_the_past_of_the_other() {
    let fixture = Fixture::new();
    let catalog = new();
    let (_, session) = catalog.create(&fixture.project, "a", "agent").unwrap();
    session.append(Message::user("hello")).unwrap().wait().unwrap();
    let (name, fork) = catalog.fork(&fixture.project, "a", "b").unwrap();
    assert_eq!(name, "b");
    let fields = fork.core().unwrap().fields;
    assert_eq!(fields.parent.unwrap().session, session.id());
    assert_eq!(fields.agent.as_deref(), Some("agent"));
    assert_eq!(fork.context().unwrap().len(), 1);
    let (name, again) = catalog.fork(&fixture.project, "a", "b").unwrap();
    assert_eq!(name, again.id().to_string(), "the id is taken");
    assert_ne!(again.id(), fork.id());
    // From another directory, which has a store of its own: in that of its parent.
    let other = Fixture::new();
    let (_, elsewhere) = catalog.fork(&other.project, "a", "c").unwrap();
    let store = catalog.store(&fixture.project).unwrap();
    assert_eq!(store.find(&SessionRef::Id(elsewhere.id())).unwrap(), elsewhere.id());
    let error = catalog.fork(&fixture.project, "none", "d").unwrap_err();
    assert!(matches!(error, CatalogError::NoSession { .. }));
}

#[test]
fn an_id_in_two_stores_is_that_of_the_one_that_was_dealt_with() {
    let (one, two) = (Fixture::new(), Fixture::new());
    let (_, first) = made(&new(), &one.project, "1");
    let (_, second) = made(&new(), &two.project, "1");
    let catalog = new();
    // Both stores are known, and nothing says which is meant.
    catalog.list(Some(&one.project), None).unwrap();
    catalog.list(Some(&two.project), None).unwrap();
    let error = catalog.find(None, "1").unwrap_err();
    assert!(matches!(error, CatalogError::Ambiguous { .. }), "{error}");
    assert_eq!(catalog.find(Some(&two.project), "1").unwrap().1, second);
    assert_eq!(catalog.find(None, "1").unwrap().1, second);
    // A new session must not have the id of one that this client has in another store.
    let three = Fixture::new();
    let (name, id) = made(&catalog, &three.project, "1");
    assert_eq!(name, id.to_string());
    assert_eq!(catalog.find(Some(&one.project), "1").unwrap().1, first);
}

#[test]
fn a_session_that_somebody_holds_is_not_opened_and_it_is_said_by_whom() {
    let fixture = Fixture::new();
    let catalog = new();
    let (_, _held) = catalog.create(&fixture.project, "a", "agent").unwrap();
    let error = new().open(Some(&fixture.project), "a").unwrap_err();
    assert!(matches!(error, CatalogError::Held { .. }));
    let told = error.message();
    assert!(told.contains(&format!("process {}", std::process::id())), "{told}");
}

#[test]
fn a_deleted_session_is_gone_and_one_that_is_needed_stays() {
    let fixture = Fixture::new();
    let catalog = new();
    let (_, session) = catalog.create(&fixture.project, "a", "agent").unwrap();
    session.append(Message::user("hello")).unwrap().wait().unwrap();
    let held = new().delete(Some(&fixture.project), "a").unwrap_err();
    assert!(matches!(held, CatalogError::Held { .. }), "{held}");
    assert!(held.message().contains(&format!("process {}", std::process::id())), "{held}");
    let (_, fork) = catalog.fork(&fixture.project, "a", "b").unwrap();
    let forked_by = fork.id();
    drop((session, fork));
    let forked = catalog.delete(None, "a").unwrap_err();
    assert!(matches!(&forked, CatalogError::Forked { fork, .. } if *fork == forked_by), "{forked}");
    assert!(forked.message().contains("delete that one first"), "{forked}");
    assert_eq!(ids(&catalog.list(None, None).unwrap()).len(), 2);
    catalog.delete(None, "b").unwrap();
    catalog.delete(Some(&fixture.project), "a").unwrap();
    assert_eq!(ids(&catalog.list(None, None).unwrap()), [""; 0]);
    for id in ["a", "b"] {
        let error = catalog.delete(None, id).unwrap_err();
        assert!(matches!(error, CatalogError::NoSession { .. }), "{error}");
    }
    // What was deleted gives its id free.
    assert_eq!(made(&catalog, &fixture.project, "a").0, "a");
}

/// Not a test: how long a page takes. `cargo test -p abide-acp -- --ignored --nocapture a_page_of`
#[test]
#[ignore = "a measurement"]
fn a_page_of_a_thousand_sessions() {
    let fixture = Fixture::new();
    let catalog = new();
    for number in 0..1000 {
        let (_, session) =
            catalog.create(&fixture.project, &format!("s{number}"), "agent").unwrap();
        session.append(Message::user(format!("do {number}"))).unwrap().wait().unwrap();
    }
    let mut cursor: Option<String> = None;
    for turn in 0..22 {
        let begun = std::time::Instant::now();
        let page = catalog.list(Some(&fixture.project), cursor.as_deref()).unwrap();
        eprintln!("page {turn}: {} sessions in {:?}", page.sessions.len(), begun.elapsed());
        cursor = page.next;
    }
}
