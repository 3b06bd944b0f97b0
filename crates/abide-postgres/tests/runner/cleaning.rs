//! Sessions go by age and number, and none that is used, forked or needed, whoever writes meanwhile.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use abide_journal::BundleReader;
use abide_maintain::{CleanupOutcome, CleanupPlan, CleanupRules};
use abide_model::{
    AnomalyPolicy, DeleteError, Durability, EventRange, HistoryQuery, KeepReason, NewEvent,
    NewSession, ObjectHash, RemovalReason, Retention, Seq, SessionFields, SessionId, SessionRef,
    SessionWriter, Store, StoreError, Timestamp,
};
use abide_postgres::{PostgresOptions, PostgresStore, ServerUrl};
use abide_testkit::{CutProxy, Direction, FaultRun, PostgresServer, PrivatePostgres, Random};

use crate::support::{say, store};

const NOW: Duration = Duration::ZERO;
const WAIT: Duration = Duration::from_secs(60);
const DAY: i64 = 86_400_000;

/// A database with a store, written to by a client whose clock is set by hand.
struct Aged {
    server: &'static PostgresServer,
    url: String,
    /// How many days the clock is behind.
    behind: Arc<AtomicI64>,
    store: Arc<PostgresStore>,
}

/// The options of a client on this machine whose clock is so many days behind.
fn days_behind(behind: &Arc<AtomicI64>) -> PostgresOptions {
    let (behind, mut options) = (behind.clone(), PostgresOptions::default());
    let now = options.env.now.clone();
    options.env.now = Arc::new(move || {
        Timestamp::from_millis(now().as_millis() - behind.load(Ordering::Relaxed) * DAY)
    });
    options
}

impl Aged {
    fn new() -> Option<Self> {
        let server = PrivatePostgres::shared()?;
        Some(Self::over(server, server.create_database()))
    }

    fn over(server: &'static PostgresServer, url: String) -> Self {
        let behind = Arc::new(AtomicI64::new(0));
        let store = store(&ServerUrl::parse(&url).unwrap(), days_behind(&behind));
        Self { server, url, behind, store }
    }

    fn database(&self) -> &str {
        self.url.rsplit('/').next().unwrap().split('?').next().unwrap()
    }

    fn sql(&self, sql: &str) -> String {
        self.server.sql(self.database(), &format!("SET search_path = abide; {sql}"))
    }

    /// Sets the clock this many days back.
    fn days_ago(&self, days: i64) {
        self.behind.store(days, Ordering::Relaxed);
    }

    /// A session of that day with this title, finished with this status.
    fn session(&self, days: i64, status: &str) -> SessionId {
        self.session_in(days, status, None)
    }

    fn session_in(&self, days: i64, status: &str, project: Option<&str>) -> SessionId {
        self.days_ago(days);
        let project_id = project.map(str::to_owned);
        let title = Some(format!("of {days} days ago"));
        let fields = SessionFields { title, project_id, ..SessionFields::default() };
        let id = self.store.create(NewSession::from(fields)).unwrap().id;
        self.go_on(id, status);
        id
    }

    /// Somebody writes to a session.
    fn go_on(&self, id: SessionId, status: &str) {
        let writer = self.store.write(id, NOW).unwrap();
        say(&*writer, "something").unwrap();
        finish(&*writer, status);
        writer.close().unwrap();
    }

    fn plan(&self, rules: impl Into<CleanupRules>) -> CleanupPlan {
        self.store.cleaner().plan(rules, NOW).unwrap()
    }

    fn apply(&self, plan: &CleanupPlan, rules: impl Into<CleanupRules>) -> CleanupOutcome {
        self.store.cleaner().apply(plan, rules, NOW, WAIT).unwrap()
    }

    fn here(&self, id: SessionId) -> bool {
        self.store.find(&SessionRef::Id(id)).is_ok()
    }
}

fn finish(writer: &dyn SessionWriter, status: &str) {
    append(writer, &format!(r#"{{"kind":"session.status","data":{{"status":"{status}"}}}}"#));
}

fn append(writer: &dyn SessionWriter, json: &str) -> Seq {
    let event = vec![NewEvent::parse(json).unwrap()];
    let ticket = writer.append(event, Durability::Synced, AnomalyPolicy::Keep).unwrap();
    ticket.wait().unwrap().last().unwrap().seq
}

fn older_than(days: i64) -> Retention {
    let max_age = Some(format!("{days}d").parse().unwrap());
    Retention { max_age, min_keep: 0, ..Retention::default() }
}

fn keeping(count: u64) -> Retention {
    Retention { max_count: Some(count), min_keep: count, ..Retention::default() }
}

fn going(plan: &CleanupPlan) -> Vec<SessionId> {
    plan.sessions.iter().map(|session| session.id).collect()
}

fn gone(cleaned: &CleanupOutcome) -> Vec<SessionId> {
    cleaned.sessions.iter().map(|session| session.id).collect()
}

#[test]
fn old_sessions_go_with_all_that_is_derived_from_them() {
    let Some(aged) = Aged::new() else { return };
    let (older, old) = (aged.session(40, "completed"), aged.session(35, "completed"));
    let new = aged.session(10, "completed");
    aged.days_ago(0);
    let plan = aged.plan(&older_than(30));
    assert_eq!(going(&plan), [older, old]);
    let first = &plan.sessions[0];
    assert_eq!((first.reason, first.last), (RemovalReason::Age, Seq(5)));
    assert_eq!(first.name.as_deref(), Some("of 40 days ago"));
    let bytes = "SELECT sum(octet_length(line)) FROM event JOIN session USING (sid) WHERE id =";
    assert_eq!(aged.sql(&format!("{bytes} '{older}'")).trim(), first.bytes.to_string());
    assert!(aged.here(older), "a plan changes nothing");
    let cleaned = aged.apply(&plan, &older_than(30));
    assert_eq!((gone(&cleaned), cleaned.notes), (vec![older, old], Vec::new()));
    assert_eq!((aged.here(older), aged.here(old), aged.here(new)), (false, false, true));
    let found = aged.store.history(&HistoryQuery::default()).unwrap();
    assert_eq!(found.entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [new]);
    for table in ["event", "lease", "overview", "said", "snapshot", "page"] {
        let sids = aged.sql(&format!("SELECT count(DISTINCT sid) FROM {table}"));
        assert!(matches!(sids.trim(), "0" | "1"), "{table}: {sids}");
    }
    assert!(aged.plan(&older_than(30)).is_empty());
    aged.store.verify(new).unwrap();
}

#[test]
fn all_but_the_newest_go_and_upkeep_is_no_use() {
    let Some(aged) = Aged::new() else { return };
    let sessions: Vec<SessionId> =
        [50, 40, 30, 20].iter().map(|days| aged.session(*days, "completed")).collect();
    // The first was used again; of the second only something was erased.
    aged.days_ago(10);
    aged.go_on(sessions[0], "completed");
    aged.days_ago(0);
    let plan = aged.store.eraser().plan(sessions[1], &[Seq(3)]).unwrap();
    aged.store.eraser().apply(&plan, None, WAIT).unwrap();
    let plan = aged.plan(&keeping(2));
    assert_eq!(going(&plan), sessions[1..3]);
    assert_eq!(plan.sessions[0].reason, RemovalReason::Count);
    assert_eq!(plan.kept, []);
    // However many lines of upkeep stand at the end.
    let writer = aged.store.write(sessions[1], NOW).unwrap();
    for _ in 0..12 {
        append(&*writer, r#"{"kind":"checkpoint.thinned","data":{"checkpoints":[]}}"#);
    }
    writer.close().unwrap();
    assert_eq!(going(&aged.plan(&keeping(2))), sessions[1..3]);
    // Without the index it is the same.
    aged.sql("TRUNCATE overview, said, turn, touched, spent");
    let plan = aged.plan(&keeping(2));
    assert_eq!(gone(&aged.apply(&plan, &keeping(2))), sessions[1..3]);
}

#[test]
fn only_sessions_of_the_project_go_and_count() {
    let Some(aged) = Aged::new() else { return };
    let of = |days, project| aged.session_in(days, "completed", project);
    let blue = [of(50, Some("blue")), of(40, Some("blue-before")), of(30, Some("blue"))];
    let others = [of(60, Some("red")), of(70, None)];
    aged.days_ago(0);
    let only = vec!["blue".to_owned(), "blue-before".to_owned()];
    let rules = CleanupRules { only, ..CleanupRules::from(&keeping(1)) };
    let plan = aged.plan(&rules);
    assert_eq!(going(&plan), blue[..2]);
    assert_eq!(plan.sessions[1].project.as_deref(), Some("blue-before"));
    assert_eq!(gone(&aged.apply(&plan, &rules)), blue[..2]);
    assert!(others.iter().chain(&blue[2..]).all(|id| aged.here(*id)));
    let all = CleanupRules::from(&keeping(1));
    assert_eq!(going(&aged.plan(&all)), [others[1], others[0]]);
}

#[test]
fn what_failed_was_interrupted_or_is_among_the_newest_stays() {
    let Some(aged) = Aged::new() else { return };
    let failed = aged.session(90, "failed");
    let running = aged.session(80, "running");
    let done = aged.session(70, "completed");
    let newest = aged.session(60, "completed");
    aged.days_ago(0);
    let rules = Retention { min_keep: 1, ..older_than(30) };
    let plan = aged.plan(&rules);
    assert_eq!(going(&plan), [done]);
    let kept = [
        (failed, KeepReason::Failed),
        (running, KeepReason::Failed),
        (newest, KeepReason::MinKeep),
    ];
    assert_eq!(plan.kept, kept);
    // Nobody believes an index that says otherwise.
    aged.sql(
        r#"UPDATE overview SET status = 'completed',
            outline = replace(outline, '"status":"failed"', '"status":"completed"')"#,
    );
    assert_eq!(going(&aged.plan(&rules)), [done]);
    // Nor one that is behind.
    aged.sql(
        r#"UPDATE overview SET indexed = indexed - 1, status = 'failed',
            outline = replace(outline, '"status":"completed"', '"status":"failed"')"#,
    );
    assert_eq!(going(&aged.plan(&rules)), [done]);
    let all = Retention { keep_failed: false, ..rules };
    assert_eq!(going(&aged.plan(&all)), [failed, running, done]);
}

#[test]
fn a_session_that_a_writer_has_or_that_is_forked_is_not_deleted() {
    let Some(aged) = Aged::new() else { return };
    let (held, parent) = (aged.session(50, "completed"), aged.session(50, "completed"));
    let mut far = days_behind(&aged.behind);
    far.env.holder.host = "far-away".to_owned();
    let far = store(&ServerUrl::parse(&aged.url).unwrap(), far);
    let _writer = far.write(held, NOW).unwrap();
    let fork = aged.store.fork(parent, None, NewSession::default()).unwrap().id;
    match aged.store.delete_session(held).unwrap_err() {
        DeleteError::Store(StoreError::Held { session, .. }) => assert_eq!(session, held),
        error => panic!("{error:?}"),
    }
    match aged.store.delete_session(parent).unwrap_err() {
        DeleteError::Forked { session, fork: by } => assert_eq!((session, by), (parent, fork)),
        error => panic!("{error:?}"),
    }
    assert!(aged.here(held) && aged.here(parent));
}

#[test]
fn a_parent_stays_for_its_fork_and_a_family_goes_from_the_youngest_up() {
    let Some(aged) = Aged::new() else { return };
    let parent = aged.session(50, "completed");
    aged.days_ago(45);
    let fork = aged.store.fork(parent, None, NewSession::default()).unwrap().id;
    aged.go_on(fork, "completed");
    aged.days_ago(5);
    let young = aged.store.fork(fork, None, NewSession::default()).unwrap().id;
    aged.go_on(young, "completed");
    aged.days_ago(0);
    let plan = aged.plan(&older_than(30));
    assert_eq!(going(&plan), []);
    assert_eq!(plan.kept, [(parent, KeepReason::Parent), (fork, KeepReason::Parent)]);
    let plan = aged.plan(&older_than(1));
    assert_eq!(going(&plan), [young, fork, parent]);
    assert_eq!(gone(&aged.apply(&plan, &older_than(1))), [young, fork, parent]);
}

#[test]
fn a_session_that_a_writer_holds_elsewhere_stays() {
    let Some(aged) = Aged::new() else { return };
    let mut far = days_behind(&aged.behind);
    far.env.holder.host = "far-away".to_owned();
    let far = store(&ServerUrl::parse(&aged.url).unwrap(), far);
    let held = aged.session(50, "completed");
    let taken = aged.session(45, "completed");
    aged.session(0, "completed");
    let writer = far.write(held, NOW).unwrap();
    let rules = older_than(30);
    let plan = aged.plan(&rules);
    assert_eq!(
        (going(&plan), plan.kept.as_slice()),
        (vec![taken], &[(held, KeepReason::InUse)][..])
    );
    // One that is taken only after the plan was shown stays too, and is told.
    let other = far.write(taken, NOW).unwrap();
    let cleaned = aged.apply(&plan, &rules);
    assert_eq!(gone(&cleaned), []);
    assert_eq!(cleaned.notes, [format!("session {taken} stays: it is in use or damaged")]);
    other.close().unwrap();
    drop(other);
    // A lease that ran out holds nothing; whoever had it did not close the session.
    aged.days_ago(50);
    say(&*writer, "is anybody there").unwrap();
    // Nobody renews it.
    aged.sql(
        "UPDATE lease SET until = now() - interval '1 minute', tenure = NULL
        WHERE until IS NOT NULL",
    );
    aged.days_ago(0);
    let plan = aged.plan(&rules);
    let kept = [(held, KeepReason::Failed)];
    assert_eq!((going(&plan), plan.kept.as_slice()), (vec![taken], &kept[..]));
    let all = Retention { keep_failed: false, ..rules };
    let plan = aged.plan(&all);
    assert_eq!(gone(&aged.apply(&plan, &all)), [held, taken]);
    // Whoever slept cannot go on.
    say(&*writer, "I am back").unwrap_err();
}

#[test]
fn the_session_of_a_process_that_is_gone_was_interrupted() {
    let Some(aged) = Aged::new() else { return };
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let mut dead = days_behind(&aged.behind);
    dead.env.holder.process = child.id();
    dead.env.holder.started = None;
    let dead = store(&ServerUrl::parse(&aged.url).unwrap(), dead);
    let id = aged.session(50, "completed");
    aged.session(0, "completed");
    aged.days_ago(50);
    let writer = dead.write(id, NOW).unwrap();
    say(&*writer, "before").unwrap();
    aged.days_ago(0);
    let rules = older_than(30);
    assert_eq!(aged.plan(&rules).kept, [(id, KeepReason::InUse)]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(aged.plan(&rules).kept, [(id, KeepReason::Failed)]);
    let all = Retention { keep_failed: false, ..rules };
    let plan = aged.plan(&all);
    assert_eq!(gone(&aged.apply(&plan, &all)), [id]);
}

#[test]
fn a_session_that_was_used_since_the_plan_stays_and_is_told() {
    let Some(aged) = Aged::new() else { return };
    let used = aged.session(50, "completed");
    let touched = aged.session(45, "completed");
    aged.session(0, "completed");
    let rules = older_than(30);
    let plan = aged.plan(&rules);
    assert_eq!(going(&plan), [used, touched]);
    aged.go_on(used, "completed");
    // The clock of this one is behind: it would go all the same.
    aged.days_ago(40);
    aged.go_on(touched, "completed");
    aged.days_ago(0);
    let cleaned = aged.apply(&plan, &rules);
    assert_eq!(gone(&cleaned), []);
    let note = |id| format!("session {id} stays: the session was used meanwhile");
    assert_eq!(cleaned.notes, [note(used), note(touched)]);
    aged.store.verify(used).unwrap();
    let plan = aged.plan(&rules);
    assert_eq!(gone(&aged.apply(&plan, &rules)), [touched]);
}

#[test]
fn damaged_sessions_stay_and_others_go_beside_them() {
    let Some(aged) = Aged::new() else { return };
    let altered = aged.session(50, "completed");
    let short = aged.session(45, "completed");
    let cut = aged.session(42, "completed");
    let whole = aged.session(40, "completed");
    aged.session(0, "completed");
    let at = |id: SessionId| format!("sid = (SELECT sid FROM session WHERE id = '{id}')");
    aged.sql(&format!(
        "UPDATE event SET line = set_byte(line, 40, 88) WHERE seq = 3 AND {}",
        at(altered)
    ));
    aged.sql(&format!("DELETE FROM event WHERE seq = 3 AND {}", at(short)));
    // What is left looks whole; the index knows better.
    let end = format!("(SELECT max(seq) FROM event WHERE {})", at(cut));
    aged.sql(&format!("DELETE FROM event WHERE seq = {end} AND {}", at(cut)));
    let rules = Retention { keep_failed: false, ..older_than(30) };
    let plan = aged.plan(&rules);
    assert_eq!(going(&plan), [whole]);
    let kept = [altered, short, cut].map(|id| (id, KeepReason::InUse));
    assert_eq!(plan.kept, kept);
    // What it names is not known.
    assert!(plan.notes[0].starts_with("no objects will be collected: "), "{:?}", plan.notes);
    assert_eq!(gone(&aged.apply(&plan, &rules)), [whole]);
}

#[test]
fn a_session_that_was_repaired_goes_like_others() {
    let Some(aged) = Aged::new() else { return };
    let mended = aged.session(50, "completed");
    aged.session(0, "completed");
    aged.sql("DELETE FROM event WHERE seq = 3 AND sid = (SELECT min(sid) FROM session)");
    let rules = older_than(30);
    assert!(going(&aged.plan(&rules)).is_empty());
    aged.days_ago(45);
    let (doctor, request) = (aged.store.doctor(), abide_maintain::RepairRequest::default());
    let plan = doctor.plan(&doctor.examine(mended).unwrap(), request).unwrap();
    doctor.repair(&plan, request, WAIT).unwrap();
    aged.days_ago(0);
    assert_eq!(gone(&aged.apply(&aged.plan(&rules), &rules)), [mended]);
}

#[test]
fn objects_that_only_removed_sessions_name_go_with_them() {
    let Some(aged) = Aged::new() else { return };
    let large = |word: &str| format!("{word} {}", "large ".repeat(10_000));
    let speak = |id, text: &str| {
        let writer = aged.store.write(id, NOW).unwrap();
        say(&*writer, text).unwrap();
        writer.close().unwrap();
    };
    let (old, new) = (aged.session(50, "completed"), aged.session(1, "completed"));
    aged.days_ago(50);
    speak(old, &large("its own"));
    speak(old, &large("common"));
    aged.days_ago(1);
    speak(new, &large("common"));
    aged.days_ago(0);
    let rules = older_than(30);
    let plan = aged.plan(&rules);
    assert_eq!(plan.objects.unwrap().objects_removed, 1);
    assert!(plan.sessions[0].bytes > 120_000, "{}", plan.sessions[0].bytes);
    assert_eq!(aged.apply(&plan, &rules).objects.objects_removed, 1);
    let hashes = [large("its own"), large("common")].map(|text| ObjectHash::of(text.as_bytes()));
    assert_eq!(aged.store.objects().unwrap().has(&hashes).unwrap(), [false, true]);
    // What was stored just now stays.
    let (later, hour) = (aged.session(40, "completed"), Duration::from_secs(3600));
    speak(later, &large("just now"));
    let plan = aged.store.cleaner().plan(&rules, hour).unwrap();
    assert_eq!((going(&plan), plan.objects.unwrap().objects_removed), (vec![later], 0));
}

#[test]
fn what_was_erased_in_a_removed_session_stays_erased() {
    let Some(aged) = Aged::new() else { return };
    let id = aged.session(50, "completed");
    let mut bundle = Vec::new();
    aged.store.export_bundle(id, &mut bundle).unwrap();
    let plan = aged.store.eraser().plan(id, &[Seq(3)]).unwrap();
    aged.store.eraser().apply(&plan, None, WAIT).unwrap();
    aged.session(0, "completed");
    let plan = aged.plan(&older_than(30));
    assert_eq!(gone(&aged.apply(&plan, &older_than(30))), [id]);
    assert!(aged.store.has_erased(id).unwrap());
    let bundle = BundleReader::open(&bundle[..]).unwrap();
    let back = aged.store.import_bundle(bundle, None, NOW).unwrap();
    assert_eq!(back.kept_erased, [Seq(3)]);
    let page = aged.store.read(id).unwrap().page(EventRange::ALL).unwrap();
    assert!(!page.events.iter().any(|event| event.to_json().contains("something")));
}

#[test]
fn the_time_is_the_servers_and_a_jump_of_its_clock_is_told() {
    let Some(aged) = Aged::new() else { return };
    let id = aged.session(1, "completed");
    // Whoever cleans up is a year ahead.
    aged.days_ago(-365);
    let plan = aged.plan(&older_than(30));
    assert_eq!((going(&plan), plan.jumped), (Vec::new(), None));
    aged.store.delete_session(id).unwrap();
    let old = aged.session(100, "completed");
    let plan = aged.plan(&older_than(30));
    assert_eq!(going(&plan), [old]);
    let jumped = plan.jumped.unwrap();
    let days = (jumped.now.as_millis() - jumped.seen.as_millis()) / DAY;
    assert!((99..=100).contains(&days), "{jumped:?}");
    assert_eq!(aged.plan(&keeping(0)).jumped, None, "the number needs no clock");
}

/// A fork of a session, made by hand in a transaction that ends this much later.
fn fork_slowly(aged: &Aged, parent: SessionId, millis: u64) -> SessionId {
    let id = aged.sql("SELECT gen_random_uuid()").trim().to_owned();
    aged.sql(&format!(
        "BEGIN; INSERT INTO session (id, project, parent, parent_seq)
            SELECT '{id}'::uuid, '', sid, 2 FROM session WHERE id = '{parent}';
        INSERT INTO lease (sid) SELECT sid FROM session WHERE id = '{id}';
        SELECT pg_sleep({millis} / 1000.0); COMMIT"
    ));
    id.parse().unwrap()
}

#[test]
fn a_session_that_is_being_forked_stays() {
    let Some(aged) = Aged::new() else { return };
    let parent = aged.session(50, "completed");
    aged.session(0, "completed");
    let rules = older_than(30);
    let plan = aged.plan(&rules);
    assert_eq!(going(&plan), [parent]);
    let cleaned = std::thread::scope(|scope| {
        let forking = scope.spawn(|| fork_slowly(&aged, parent, 3000));
        std::thread::sleep(Duration::from_millis(1000));
        // The fork is not to be seen yet.
        let cleaned = aged.apply(&plan, &rules);
        let fork = forking.join().unwrap();
        assert_eq!(cleaned.notes[0], format!("session {parent} stays: its fork {fork} does"));
        cleaned
    });
    assert_eq!(gone(&cleaned), []);
    aged.store.verify(parent).unwrap();
}

#[test]
fn a_fork_and_the_removal_of_its_parent_never_both_succeed() {
    let Some(aged) = Aged::new() else { return };
    let rules = older_than(30);
    aged.session(0, "completed");
    let other =
        PostgresStore::open(&ServerUrl::parse(&aged.url).unwrap(), PostgresOptions::default())
            .unwrap();
    let (mut forked, mut removed) = (0, 0);
    let mut random = Random::new(11 + FaultRun::from_env().seed());
    for _ in 0..FaultRun::from_env().len(24, 200) {
        let parent = aged.session(50, "completed");
        aged.days_ago(0);
        let plan = aged.plan(&rules);
        let pause = Duration::from_micros(random.below(40_000));
        let (fork, cleaned) = std::thread::scope(|scope| {
            let forking = scope.spawn(|| {
                std::thread::sleep(pause);
                other.fork(parent, None, NewSession::default())
            });
            let cleaned = aged.apply(&plan, &rules);
            (forking.join().unwrap(), cleaned)
        });
        match fork {
            Ok(fork) => {
                assert!(aged.here(parent) && gone(&cleaned).is_empty());
                other.verify(fork.id).unwrap();
                other.delete_session(fork.id).unwrap();
                aged.store.delete_session(parent).unwrap();
                forked += 1;
            }
            Err(error) => {
                let known =
                    matches!(error, StoreError::NoSession { .. } | StoreError::NoEvent { .. });
                assert!(known, "{error:?}");
                assert_eq!(gone(&cleaned), [parent]);
                removed += 1;
            }
        }
    }
    println!("{forked} forks were first, {removed} removals");
}

#[test]
fn two_cleanups_at_once_remove_each_session_once() {
    let Some(aged) = Aged::new() else { return };
    let old: Vec<SessionId> = (0..6).map(|n| aged.session(50 - n, "completed")).collect();
    aged.session(0, "completed");
    let rules = older_than(30);
    let plan = aged.plan(&rules);
    let url = ServerUrl::parse(&aged.url).unwrap();
    let other = PostgresStore::open(&url, PostgresOptions::default()).unwrap();
    let mut all = std::thread::scope(|scope| {
        let there = scope.spawn(|| other.cleaner().apply(&plan, &rules, NOW, WAIT).unwrap());
        let mut all = gone(&aged.apply(&plan, &rules));
        all.extend(gone(&there.join().unwrap()));
        all
    });
    all.sort_unstable();
    assert_eq!(all, old);
}

#[test]
fn readers_and_writers_may_not_clean_up_and_nothing_is_changed() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let url = server.create_database();
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let roles = include_str!("../../roles.sql");
    server.sql(&database, roles);
    let user = |role: &str| {
        let name = format!("{role}_{database}");
        server.sql(&database, &format!("CREATE ROLE {name} LOGIN IN ROLE abide_{role}"));
        if role == "admin" {
            server.sql(&database, &format!("ALTER ROLE {name} SET role = 'abide_admin'"));
        }
        let (before, after) = url.split_once("postgres@").unwrap();
        ServerUrl::parse(&format!("{before}{name}@{after}")).unwrap()
    };
    let admin = user("admin");
    drop(store(&admin, PostgresOptions::default()));
    server.sql(&database, roles);
    let aged = Aged::over(server, url.clone());
    let old = aged.session(50, "completed");
    aged.session(0, "completed");
    let rules = older_than(30);
    for role in ["reader", "writer"] {
        let theirs = PostgresStore::open(&user(role), PostgresOptions::default()).unwrap();
        // Anybody may look.
        let plan = theirs.cleaner().plan(&rules, NOW).unwrap();
        assert_eq!(going(&plan), [old], "{role}");
        let refused = theirs.cleaner().apply(&plan, &rules, NOW, WAIT).unwrap_err();
        let why = refused.source().unwrap().to_string();
        assert!(why.starts_with("the database user lacks the privilege: "), "{role}: {why}");
        assert!(why.ends_with("; an admin of the store has it"), "{role}: {why}");
        assert!(aged.here(old));
        aged.store.verify(old).unwrap();
    }
    let ours = PostgresStore::open(&admin, PostgresOptions::default()).unwrap();
    let plan = ours.cleaner().plan(&rules, NOW).unwrap();
    assert_eq!(gone(&ours.cleaner().apply(&plan, &rules, NOW, WAIT).unwrap()), [old]);
}

#[test]
fn a_cleanup_that_is_cut_off_leaves_each_session_whole_or_removed() {
    let Some(aged) = Aged::new() else { return };
    let port = aged.url.rsplit_once(':').and_then(|(_, rest)| rest.split_once('/')).unwrap().0;
    let proxy = CutProxy::before(([127, 0, 0, 1], port.parse().unwrap()).into());
    let through = aged.url.replace(&format!(":{port}/"), &format!(":{}/", proxy.address().port()));
    let through = ServerUrl::parse(&format!("{through}?sslmode=disable")).unwrap();
    let mut random = Random::new(7 + FaultRun::from_env().seed());
    aged.session(0, "completed");
    let rules = older_than(30);
    let (mut kept, mut removed, mut whole) = (0, 0, 0);
    for _ in 0..FaultRun::from_env().len(16, 150) {
        let old: Vec<SessionId> = (0..5).map(|n| aged.session(50 - n, "completed")).collect();
        aged.days_ago(0);
        let plan = aged.plan(&rules);
        assert!(old.iter().all(|id| going(&plan).contains(id)));
        let hasty = PostgresOptions {
            patience: Duration::ZERO,
            answer: Duration::from_secs(5),
            ..PostgresOptions::default()
        };
        // What the last round did not use up.
        for way in [Direction::ToServer, Direction::ToClient] {
            proxy.cut_after(u64::MAX / 2, way);
        }
        let far = PostgresStore::open(&through, hasty).unwrap();
        let way = if random.below(2) == 0 { Direction::ToServer } else { Direction::ToClient };
        proxy.cut_after(random.below(12_000), way);
        let result = far.cleaner().apply(&plan, &rules, NOW, Duration::from_secs(1));
        drop(far);
        whole += u64::from(result.is_ok());
        // What the server has not noticed yet may end now.
        for id in &old {
            if aged.here(*id) {
                match aged.store.verify(*id) {
                    Ok(last) => assert_eq!(last, Seq(5)),
                    Err(StoreError::NoSession { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                kept += 1;
            } else {
                removed += 1;
            }
        }
        let rest = aged.plan(&rules);
        aged.apply(&rest, &rules);
        let left = aged.sql(
            "SELECT count(*) FROM event LEFT JOIN session USING (sid)
            LEFT JOIN lease USING (sid) WHERE session.id IS NULL OR lease.sid IS NULL",
        );
        assert_eq!(left.trim(), "0");
    }
    println!("{removed} were removed and {kept} were whole; {whole} cleanups went through");
    assert!(removed > 0 && kept > 0);
}

#[test]
fn sixteen_writers_go_on_beside_cleanups() {
    let Some(aged) = Aged::new() else { return };
    let url = ServerUrl::parse(&aged.url).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let opened: Vec<_> = (0..16)
        .map(|_| {
            let store = PostgresStore::open(&url, PostgresOptions::default()).unwrap();
            // One session is written to all the time, others are finished and left alone.
            let id = store.create(NewSession::titled("kept")).unwrap().id;
            let writer = store.write(id, NOW).unwrap();
            (store, id, writer)
        })
        .collect();
    let writers: Vec<_> = opened
        .into_iter()
        .map(|(store, id, writer)| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let mut said = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    say(&*writer, &format!("message {said}")).unwrap();
                    said += 1;
                    std::thread::sleep(Duration::from_millis(20));
                    // Not faster than they can go on a busy machine.
                    if said % 20 != 1 || said > 200 {
                        continue;
                    }
                    let left = store.create(NewSession::titled("left")).unwrap().id;
                    // A cleanup may have it by now.
                    if let Ok(writer) = store.write(left, NOW) {
                        finish(&*writer, "completed");
                        writer.close().unwrap();
                    }
                }
                writer.close().unwrap();
                (id, said)
            })
        })
        .collect();
    let rules = Retention { keep_failed: false, ..keeping(4) };
    let mut removed = 0;
    for _ in 0..FaultRun::from_env().len(8, 60) {
        std::thread::sleep(Duration::from_millis(200));
        let plan = aged.plan(&rules);
        let cleaned = aged.apply(&plan, &rules);
        assert!(cleaned.sessions.iter().all(|one| one.title.as_deref() != Some("kept")));
        removed += cleaned.sessions.len();
    }
    stop.store(true, Ordering::Relaxed);
    let mut events = 0;
    for writer in writers {
        let (id, said) = writer.join().unwrap();
        assert_eq!(aged.store.verify(id).unwrap().0, said + 3, "created, opened, closed");
        events += said;
    }
    println!("{removed} sessions were removed beside {events} events");
    assert!(removed > 0 && events > 0);
}
