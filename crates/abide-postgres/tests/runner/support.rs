//! A database of its own for each test.

use std::sync::Arc;

use abide_model::{
    AnomalyPolicy, Durability, NewEvent, NewSession, SessionId, SessionWriter, Store,
};
use abide_postgres::{PostgresOptions, PostgresStore, ServerUrl};
use abide_testkit::PrivatePostgres;

/// The URL of an empty database; none where there is no server, which is said.
pub fn database() -> Option<ServerUrl> {
    let server = PrivatePostgres::shared()?;
    Some(ServerUrl::parse(&server.create_database()).unwrap())
}

/// A store in a database, made where there is none.
pub fn store(url: &ServerUrl, options: PostgresOptions) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::init(url, options).unwrap().0)
}

/// A message.
pub fn message(text: &str) -> NewEvent {
    let data = format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#);
    NewEvent::parse(&data).unwrap()
}

/// A new session, open for writing.
pub fn new_session(store: &dyn Store) -> (SessionId, Arc<dyn SessionWriter>) {
    let id = store.create(NewSession::titled("a session")).unwrap().id;
    (id, store.write(id, std::time::Duration::ZERO).unwrap())
}

/// Appends a message and waits.
pub fn say(writer: &dyn SessionWriter, text: &str) -> Result<u64, abide_model::AppendError> {
    let ticket = writer.append(vec![message(text)], Durability::Synced, AnomalyPolicy::Keep)?;
    Ok(ticket.wait()?.last().map_or(0, |done| done.seq.0))
}
