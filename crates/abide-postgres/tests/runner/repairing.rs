//! A session whose rows are damaged or missing is repaired: what can be read is kept, what is lost is
//! named, and no number is used twice. A repair that is interrupted is finished by the next.

use std::time::Duration;

use abide_maintain::{Examination, FinishedRepair, RepairAction, RepairAftermath, RepairRequest};
use abide_model::{
    AnomalyPolicy, Durability, EventRange, Kind, NewEvent, NewSession, ObjectBatch, ObjectHash,
    Seq, SessionId, Severity, Store, StoreError,
};
use abide_postgres::{PostgresOptions, PostgresStore, ServerUrl};
use abide_testkit::{CutProxy, Direction, FaultRun, PostgresServer, PrivatePostgres, Random};

use crate::support::{new_session, say};

const WAIT: Duration = Duration::from_secs(60);
const NAMED: RepairRequest = RepairRequest { strategy: None, named: true, from: None };

/// A database with a session of five messages, closed.
struct Damaged {
    server: &'static PostgresServer,
    url: String,
    store: PostgresStore,
    id: SessionId,
    said: Vec<Seq>,
}

fn session_of_five() -> Option<Damaged> {
    let server = PrivatePostgres::shared()?;
    let url = server.create_database();
    let address = ServerUrl::parse(&url).unwrap();
    let store = PostgresStore::init(&address, PostgresOptions::default()).unwrap().0;
    let (id, writer) = new_session(&store);
    let said = (0..5).map(|n| Seq(say(&*writer, &format!("message {n}")).unwrap())).collect();
    writer.close().unwrap();
    Some(Damaged { server, url, store, id, said })
}

impl Damaged {
    fn sql(&self, sql: &str) -> String {
        let database = self.url.rsplit('/').next().unwrap().split('?').next().unwrap();
        self.server.sql(database, &format!("SET search_path = abide; {sql}"))
    }

    /// Changes a byte in the middle of a line.
    fn flip(&self, seq: Seq) {
        self.sql(&format!(
            "UPDATE event SET line = set_byte(line, length(line) / 2, get_byte(line, length(line) / 2) # 1)
             WHERE seq = {seq}"
        ));
    }

    fn drop_row(&self, seq: Seq) {
        self.sql(&format!("DELETE FROM event WHERE seq = {seq}"));
    }

    fn examine(&self) -> Examination {
        self.store.doctor().examine(self.id).unwrap()
    }

    fn repair(&self, request: RepairRequest) -> Result<FinishedRepair, StoreError> {
        let doctor = self.store.doctor();
        let plan = doctor.plan(&doctor.examine(self.id)?, request)?;
        doctor.repair(&plan, request, WAIT)
    }

    /// What stands in the session now, and the notes on it.
    fn messages(&self) -> Vec<String> {
        let page = self.store.read(self.id).unwrap().page(EventRange::ALL).unwrap();
        assert_eq!(page.notes, []);
        let said = page.events.into_iter().filter(|event| event.kind == Kind::MESSAGE_ADDED);
        said.map(|event| event.to_json()).collect()
    }
}

fn rules(examined: &Examination) -> Vec<&str> {
    examined.findings.iter().map(|finding| &*finding.rule).collect()
}

fn errors(examined: &Examination) -> usize {
    examined.findings.iter().filter(|finding| finding.severity > Severity::Warning).count()
}

fn after(done: FinishedRepair) -> Examination {
    assert!(done.quarantine.contains(&done.id) && !done.undoable);
    match done.after {
        RepairAftermath::Session(examined) => *examined,
        RepairAftermath::Store(_) => panic!("the store was repaired"),
    }
}

#[test]
fn a_whole_session_has_no_findings() {
    let Some(it) = session_of_five() else { return };
    let examined = it.examine();
    assert_eq!(examined.findings, []);
    assert!(examined.events > 5 && examined.bytes > 0);
    let plan = it.store.doctor().plan(&examined, NAMED).unwrap();
    assert_eq!((plan.actions, plan.strategy), (Vec::new(), None));
    let (fork, writer) = {
        let fork = it.store.fork(it.id, None, NewSession::default()).unwrap().id;
        (fork, it.store.write(fork, Duration::ZERO).unwrap())
    };
    say(&*writer, "in the fork").unwrap();
    writer.close().unwrap();
    assert_eq!(it.store.doctor().examine(fork).unwrap().findings, []);
    assert_eq!(it.store.doctor().sessions().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_read_is_set_aside_and_named_as_lost() {
    let Some(it) = session_of_five() else { return };
    let fork = it.store.fork(it.id, None, NewSession::default()).unwrap().id;
    let whole = it.messages();
    it.flip(it.said[1]);
    it.drop_row(it.said[3]);
    it.store.verify(it.id).unwrap_err();
    let examined = it.examine();
    assert_eq!(rules(&examined), ["journal-damage", "journal-damage"]);
    let of_fork = it.store.doctor().examine(fork).unwrap();
    assert_eq!(rules(&of_fork), ["fork-chain"]);
    assert!(of_fork.findings[0].repair.how.contains(&it.id.to_string()));
    let plan = it.store.doctor().plan(&examined, NAMED).unwrap();
    let lost = vec![(it.said[1], it.said[1]), (it.said[3], it.said[3])];
    assert_eq!(
        plan.actions,
        [
            RepairAction::SetAside { events: vec![(it.said[1], it.said[1])] },
            RepairAction::NameLost { events: lost.clone(), objects: Vec::new() },
        ]
    );
    let repaired = after(it.repair(NAMED).unwrap());
    assert_eq!((errors(&repaired), repaired.requires_validation), (0, true), "{repaired:?}");
    assert_eq!(repaired.missing.events, lost);
    let kept = it.sql("SELECT seq FROM quarantine WHERE line <> '' ORDER BY seq");
    assert_eq!(kept.lines().last().unwrap().trim(), it.said[1].to_string());
    it.store.verify(it.id).unwrap();
    let left = it.messages();
    assert_eq!(left, [&whole[0], &whole[2], &whole[4]].map(String::clone));
    // The index is made anew without what is lost.
    let found = |text: &str| {
        let query = abide_model::HistoryQuery {
            search: abide_model::Search::parse(text).ok(),
            ..abide_model::HistoryQuery::default()
        };
        it.store.history(&query).unwrap().entries.iter().any(|entry| entry.id == it.id)
    };
    assert!(found("\"message 2\"") && !found("\"message 1\""));
    it.store.doctor().accept(it.id, WAIT).unwrap();
    assert!(!it.examine().requires_validation);
    assert_eq!(errors(&it.store.doctor().examine(fork).unwrap()), 0);
    it.store.verify(fork).unwrap();
    let writer = it.store.write(it.id, Duration::ZERO).unwrap();
    say(&*writer, "it goes on").unwrap();
    writer.close().unwrap();
    it.store.verify(it.id).unwrap();
    let again = it.store.doctor().plan(&it.examine(), NAMED).unwrap();
    assert_eq!(again.actions, []);
}

#[test]
fn no_number_of_a_lost_end_is_used_twice() {
    for lose in [Damaged::flip as fn(&Damaged, Seq), Damaged::drop_row] {
        let Some(it) = session_of_five() else { return };
        let last = it.store.read(it.id).unwrap().acknowledged().unwrap();
        for seq in it.said[3].0..=last.0 {
            lose(&it, Seq(seq));
        }
        assert!(errors(&it.examine()) > 0);
        let repaired = after(it.repair(NAMED).unwrap());
        assert_eq!(errors(&repaired), 0, "{repaired:?}");
        assert_eq!(repaired.missing.events, [(it.said[3], last)]);
        assert_eq!(it.messages().len(), 3);
        it.store.verify(it.id).unwrap();
        let writer = it.store.write(it.id, Duration::ZERO).unwrap();
        assert!(say(&*writer, "later").unwrap() > last.0);
        writer.close().unwrap();
        let again = it.sql("SELECT count(*) FROM (SELECT seq FROM event GROUP BY sid, seq) AS one");
        let rows = it.sql("SELECT count(*) FROM event");
        assert_eq!(again, rows);
    }
}

#[test]
fn calls_without_an_outcome_end() {
    let Some(it) = session_of_five() else { return };
    let writer = it.store.write(it.id, Duration::ZERO).unwrap();
    let call = r#"{"kind":"tool.called","data":{"call":"c1","name":"bash"}}"#;
    let call = vec![NewEvent::parse(call).unwrap()];
    writer.append(call, Durability::Synced, AnomalyPolicy::Keep).unwrap().wait().unwrap();
    // As if its process had died: nothing says that it closed, and nobody has the lease.
    std::mem::forget(writer);
    it.sql("UPDATE lease SET until = NULL, holder = NULL, tenure = NULL, epoch = epoch + 1");
    let store =
        PostgresStore::open(&ServerUrl::parse(&it.url).unwrap(), PostgresOptions::default());
    let it = Damaged { store: store.unwrap(), ..it };
    let plan = it.store.doctor().plan(&it.examine(), NAMED).unwrap();
    assert!(plan.actions.iter().any(|action| matches!(action, RepairAction::EndCalls { .. })));
    let repaired = after(it.repair(NAMED).unwrap());
    assert_eq!(errors(&repaired), 0);
    assert!(!rules(&repaired).contains(&"open-call"), "{repaired:?}");
    assert_eq!(repaired.missing.calls.len(), 1);
    let plan = it.store.doctor().plan(&it.examine(), NAMED).unwrap();
    assert_eq!(plan.actions, []);
}

#[test]
fn an_object_that_is_gone_is_named_as_lost_and_stored_again() {
    let Some(it) = session_of_five() else { return };
    let large = format!("large {}", "words ".repeat(10_000));
    let writer = it.store.write(it.id, Duration::ZERO).unwrap();
    say(&*writer, &large).unwrap();
    writer.close().unwrap();
    let mark = it.store.objects_mark().unwrap();
    it.sql("DELETE FROM object");
    let examined = it.examine();
    assert_eq!(rules(&examined), ["missing-object"]);
    let repaired = after(it.repair(NAMED).unwrap());
    assert_eq!(errors(&repaired), 0, "{repaired:?}");
    assert_eq!(repaired.missing.objects.len(), 1);
    assert_ne!(it.store.objects_mark().unwrap(), mark, "nobody relies on what they remember");
    // Told again, it is stored again.
    let hash = ObjectHash::of(large.as_bytes());
    let objects = it.store.objects().unwrap();
    let mut batch = ObjectBatch::default();
    batch.push(hash, large.as_bytes());
    objects.put_batch(&batch).unwrap();
    objects.sync().unwrap();
    assert_eq!(it.examine().missing.objects, []);
    assert_eq!(it.store.read(it.id).unwrap().page(EventRange::ALL).unwrap().notes, []);
}

#[test]
fn a_repair_waits_for_a_writer_and_does_nothing_if_the_session_changed() {
    let Some(it) = session_of_five() else { return };
    it.flip(it.said[1]);
    let doctor = it.store.doctor();
    let plan = doctor.plan(&it.examine(), NAMED).unwrap();
    it.sql(
        "UPDATE lease SET until = clock_timestamp() + interval '1 minute', epoch = epoch + 1,
            tenure = gen_random_uuid(), holder = '{\"process\": 1, \"host\": \"elsewhere\"}'",
    );
    let held = doctor.repair(&plan, NAMED, Duration::from_millis(200)).unwrap_err();
    assert!(matches!(held, StoreError::Held { .. }), "{held}");
    it.sql("UPDATE lease SET until = NULL, tenure = NULL, holder = NULL");
    it.flip(it.said[2]);
    let changed = doctor.repair(&plan, NAMED, WAIT).unwrap_err();
    assert!(changed.to_string().contains("changed since"), "{changed}");
    assert_eq!(it.sql("SELECT count(*) FROM quarantine").trim(), "0");
    assert_eq!(rules(&it.examine()), ["journal-damage", "journal-damage"]);
    after(it.repair(NAMED).unwrap());
}

#[test]
fn a_writer_may_end_calls_and_not_set_rows_aside() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let url = server.create_database();
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let roles = include_str!("../../roles.sql");
    server.sql(&database, roles);
    let name = format!("writer_{database}");
    server.sql(&database, &format!("CREATE ROLE {name} LOGIN IN ROLE abide_writer"));
    let admin = ServerUrl::parse(&url).unwrap();
    let store = PostgresStore::init(&admin, PostgresOptions::default()).unwrap().0;
    server.sql(&database, roles);
    let (before, behind) = url.split_once("postgres@").unwrap();
    let theirs = ServerUrl::parse(&format!("{before}{name}@{behind}")).unwrap();
    let theirs = PostgresStore::open(&theirs, PostgresOptions::default()).unwrap();
    let (id, writer) = new_session(&store);
    let seq = say(&*writer, "whole").unwrap();
    writer.close().unwrap();
    server.sql(&database, &format!("UPDATE abide.event SET line = 'x'::bytea WHERE seq = {seq}"));
    let doctor = theirs.doctor();
    let plan = doctor.plan(&doctor.examine(id).unwrap(), NAMED).unwrap();
    let refused = doctor.repair(&plan, NAMED, WAIT).unwrap_err();
    let reason = std::error::Error::source(&refused).unwrap().to_string();
    assert!(reason.contains("INSERT on quarantine"), "{reason}");
    assert_eq!(rules(&doctor.examine(id).unwrap()), ["journal-damage"]);
    let doctor = store.doctor();
    after(doctor.repair(&plan, NAMED, WAIT).unwrap());
    theirs.doctor().accept(id, WAIT).unwrap();
    assert_eq!(theirs.doctor().examine(id).unwrap().findings, []);
}

#[test]
fn an_erasure_takes_what_was_set_aside_with_it() {
    let Some(it) = session_of_five() else { return };
    it.flip(it.said[1]);
    after(it.repair(NAMED).unwrap());
    assert_eq!(it.sql("SELECT count(*) FROM quarantine").trim(), "1");
    let plan = it.store.eraser().plan(it.id, &[it.said[2]]).unwrap();
    it.store.eraser().apply(&plan, None, WAIT).unwrap();
    let lines = "SELECT count(*) FROM quarantine WHERE line <> ''";
    assert_eq!(it.sql(lines).trim(), "0");
    it.store.verify(it.id).unwrap();
    assert_eq!(it.store.doctor().plan(&it.examine(), NAMED).unwrap().actions, []);
    it.flip(it.said[4]);
    after(it.repair(NAMED).unwrap());
    it.store.delete_session(it.id).unwrap();
    assert_eq!(it.sql("SELECT count(*) FROM quarantine").trim(), "0");
}

#[test]
fn an_interrupted_erasure_is_found_and_finished() {
    let Some(it) = session_of_five() else { return };
    let doctor = it.store.doctor();
    assert_eq!(doctor.examine_store().unwrap(), []);
    it.sql(&format!(
        "INSERT INTO erasure (id, plan) VALUES (gen_random_uuid(),
            '{{\"session\": \"{}\", \"events\": [], \"rewinds\": [], \"objects\": []}}')",
        it.id
    ));
    let found = doctor.examine_store().unwrap();
    assert_eq!(found.len(), 1);
    let plan = doctor.plan_store(&found);
    let done = doctor.repair(&plan, NAMED, WAIT).unwrap();
    assert!(matches!(done.after, RepairAftermath::Store(left) if left.is_empty()));
    assert_eq!(doctor.plan_store(&doctor.examine_store().unwrap()).actions, []);
}

#[test]
fn a_repair_that_ended_after_it_had_named_what_is_lost_is_finished() {
    // With a row that is there, and with one that is not.
    for lose in [Damaged::flip as fn(&Damaged, Seq), Damaged::drop_row] {
        let Some(it) = session_of_five() else { return };
        lose(&it, it.said[1]);
        let named = after(it.repair(NAMED).unwrap()).missing.events;
        it.sql(
            "SET abide.tables = '7'; INSERT INTO event (sid, seq, sum, line)
                SELECT sid, seq, sum, line FROM quarantine WHERE line <> ''",
        );
        it.sql("DELETE FROM quarantine");
        let left = it.store.doctor().plan(&it.examine(), NAMED).unwrap();
        assert!(left.actions.contains(&RepairAction::Finish { what: "a repair" }), "{left:?}");
        let repaired = after(it.repair(NAMED).unwrap());
        assert_eq!((errors(&repaired), repaired.missing.events), (0, named));
        assert_eq!(it.messages().len(), 4);
        assert_eq!(it.store.doctor().plan(&it.examine(), NAMED).unwrap().actions, []);
    }
}

#[test]
fn a_fork_keeps_what_it_shares_when_its_own_lines_are_lost() {
    let Some(it) = session_of_five() else { return };
    let fork = it.store.fork(it.id, None, NewSession::default()).unwrap().id;
    let first = it.store.read(fork).unwrap().acknowledged().unwrap();
    it.flip(first);
    // The row of the parent with that number, if there is one, is another.
    let it = Damaged { id: fork, ..it };
    let repaired = after(it.repair(NAMED).unwrap());
    assert_eq!(errors(&repaired), 0, "{repaired:?}");
    assert_eq!(it.messages().len(), 5);
    let title = it.store.read(fork).unwrap().state().unwrap().core.fields.title;
    assert_eq!(title.as_deref(), Some("a session"));
}

#[test]
fn no_number_that_a_fork_shares_is_used_twice() {
    let Some(it) = session_of_five() else { return };
    let at = it.said[4];
    it.store.fork(it.id, Some(at), NewSession::default()).unwrap();
    it.sql(&format!(
        "DELETE FROM event WHERE seq >= {at} AND sid = (SELECT min(sid) FROM session)"
    ));
    it.sql("DELETE FROM overview");
    it.sql("DELETE FROM snapshot");
    let repaired = after(it.repair(NAMED).unwrap());
    assert_eq!(repaired.missing.events, [(at, at)]);
    let rows = it.sql(&format!(
        "SELECT count(*) FROM event WHERE seq = {at} AND sid = (SELECT min(sid) FROM session)"
    ));
    assert_eq!(rows.trim(), "0");
}

#[test]
fn a_repair_that_is_cut_off_is_finished_by_the_next() {
    let mut random = Random::new(7 + FaultRun::from_env().seed());
    let (mut refused, mut done) = (0, 0);
    for round in 0..FaultRun::from_env().len(12, 100) {
        let Some(it) = session_of_five() else { return };
        let last = it.store.read(it.id).unwrap().acknowledged().unwrap();
        // In the middle, and at the end.
        it.flip(it.said[1]);
        if round % 2 == 0 {
            it.flip(last);
        }
        let port = it.url.rsplit_once(':').and_then(|(_, rest)| rest.split_once('/')).unwrap().0;
        let proxy = CutProxy::before(([127, 0, 0, 1], port.parse().unwrap()).into());
        let through =
            it.url.replace(&format!(":{port}/"), &format!(":{}/", proxy.address().port()));
        let through = ServerUrl::parse(&format!("{through}?sslmode=disable")).unwrap();
        let options = PostgresOptions {
            patience: Duration::ZERO,
            answer: Duration::from_secs(5),
            ..PostgresOptions::default()
        };
        let far = PostgresStore::open(&through, options).unwrap();
        let plan = far.doctor().plan(&far.doctor().examine(it.id).unwrap(), NAMED).unwrap();
        let way = if random.below(2) == 0 { Direction::ToServer } else { Direction::ToClient };
        proxy.cut_after(random.below(16_000), way);
        match far.doctor().repair(&plan, NAMED, Duration::from_secs(1)) {
            Ok(_) => done += 1,
            Err(_) => refused += 1,
        }
        drop((far, proxy));
        let examined = it.examine();
        let plan = it.store.doctor().plan(&examined, NAMED).unwrap();
        if !plan.actions.is_empty() {
            it.store.doctor().repair(&plan, NAMED, WAIT).unwrap();
        }
        let repaired = it.examine();
        assert_eq!(errors(&repaired), 0, "{repaired:?}");
        assert!(repaired.requires_validation);
        let is_named = |seq: Seq| {
            repaired.missing.events.iter().any(|(first, last)| (*first..=*last).contains(&seq))
        };
        assert!(is_named(it.said[1]) && (round % 2 != 0 || is_named(last)));
        assert_eq!(it.messages().len(), 4);
        let writer = it.store.write(it.id, WAIT).unwrap();
        assert!(say(&*writer, "later").unwrap() > last.0);
        writer.close().unwrap();
        it.store.verify(it.id).unwrap();
    }
    println!("{refused} were cut off, {done} went through");
    assert!(refused > 0);
}
