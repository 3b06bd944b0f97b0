//! What each role of `roles.sql` may do.

use std::error::Error;
use std::time::Duration;

use abide_model::{
    EventRange, HistoryQuery, NewSession, ObjectBatch, ObjectHash, Search, SessionId, Store,
    StoreError,
};
use abide_postgres::{PostgresOptions, PostgresStore, ServerUrl};
use abide_testkit::PrivatePostgres;

use crate::support::{new_session, say};

const ROLES: &str = include_str!("../../roles.sql");

/// The words of an error and of what lies under it.
fn said(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut under = error.source();
    while let Some(source) = under {
        said = format!("{said}: {source}");
        under = source.source();
    }
    said
}

#[test]
fn an_admin_makes_tables_a_writer_writes_and_a_reader_reads() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let url = server.create_database();
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    server.sql(&database, ROLES);
    let user = |role: &str| {
        let name = format!("{role}_{database}");
        server.sql(&database, &format!("CREATE ROLE {name} LOGIN IN ROLE abide_{role}"));
        if role == "admin" {
            server.sql(&database, &format!("ALTER ROLE {name} SET role = 'abide_admin'"));
        }
        let (before, after) = url.split_once("postgres@").unwrap();
        ServerUrl::parse(&format!("{before}{name}@{after}")).unwrap()
    };
    let (admin, writer, reader) = (user("admin"), user("writer"), user("reader"));
    PostgresStore::init(&admin, PostgresOptions::default()).unwrap();
    let open = |url: &ServerUrl| PostgresStore::open(url, PostgresOptions::default()).unwrap();
    let write = |times: &str| -> SessionId {
        let store = open(&writer);
        let (id, session) = new_session(&store);
        say(&*session, times).unwrap();
        let mut objects = ObjectBatch::default();
        objects.push(ObjectHash::of(times.as_bytes()), times.as_bytes());
        let put = store.objects().unwrap();
        put.put_batch(&objects).unwrap();
        put.sync().unwrap();
        session.close().unwrap();
        let (gone, session) = new_session(&store);
        session.close().unwrap();
        drop(session);
        store.delete_session(gone).unwrap();
        id
    };
    write("by the rights that new tables have");
    server.sql(&database, ROLES);
    let id = write("by the least rights");
    // Who writes brings the index up to date, too.
    let search = Some(Search::parse("least").unwrap());
    let found = open(&writer).history(&HistoryQuery { search, ..HistoryQuery::default() }).unwrap();
    assert_eq!((found.entries.len(), found.notes.len()), (1, 0), "{:?}", found.notes);
    let refused = |user: &str, sql: &str| {
        let sql = format!("SET ROLE abide_{user}; SET search_path = abide; {sql}");
        let error = server.try_sql(&database, &sql).unwrap_err();
        assert!(error.contains("permission denied") || error.contains("must be owner"), "{error}");
    };
    refused("writer", "DROP TABLE event");
    refused("writer", "UPDATE event SET line = ''");
    refused("writer", "DELETE FROM object");
    refused("writer", "CREATE TABLE other (n integer)");
    refused("reader", "DELETE FROM event");
    refused("reader", "INSERT INTO setting VALUES ('a', 'b')");

    let store = open(&reader);
    assert_eq!(store.list().unwrap().len(), 2);
    let session = store.read(id).unwrap();
    let events = session.page(EventRange::ALL).unwrap().events;
    let last = events.last().unwrap().seq;
    assert!(session.grown(abide_model::Seq(last.0 - 1), Duration::MAX).unwrap());
    assert!(!session.grown(last, Duration::ZERO).unwrap());
    let check = |error: StoreError| {
        let said = said(&error);
        assert!(said.contains("the database user lacks the privilege"), "{said}");
        assert!(said.contains("permission denied for table"), "{said}");
    };
    check(store.create(NewSession::titled("mine")).unwrap_err());
    check(store.write(id, Duration::ZERO).map(|_| ()).unwrap_err());
    let deleted = store.delete_session(id).unwrap_err();
    assert!(said(&deleted).contains("permission denied"), "{deleted:?}");
    assert_eq!(session.page(EventRange::ALL).unwrap().events.len(), events.len());
}
