//! The store itself: makes, finds, lists and opens sessions.

use std::sync::Arc;
use std::time::Duration;

use abide_journal::{Environment, IntakeSalts, JournalLine, Sum};
use abide_model::{
    CollectableObjects, CreatedSession, Epoch, History, HistoryQuery, Kind, NewSession, Objects,
    ParentReason, Seq, SessionCreated, SessionFields, SessionId, SessionParent, SessionReader,
    SessionRef, SessionSummary, SessionWriter, Store, StoreError, Timestamp, UsageQuery,
    UsageReport,
};
use deadpool_postgres::Object;
use uuid::Uuid;

use crate::error::{ServerError, is_reference_error};
use crate::flusher::{Flusher, place};
use crate::history::{self, HistoryChanges, HistoryReader};
use crate::lease::{self, Lease, Leases};
use crate::migration::{self, MigratedVersions, SCHEMA_VERSION};
use crate::notify::{self, GrowthNotifier, NotifyListener};
use crate::postgres_reader::{PostgresReader, PostgresSessionRows, StateAtEnd};
use crate::postgres_writer::PostgresWriter;
use crate::server_connection::ServerConnection;
use crate::server_url::ServerUrl;
use crate::store_setting;
use crate::storing_lock::{ClaimedObjects, StoredCheck, StoringLock};
use crate::storing_objects::StoringObjects;
use crate::table_objects::TableObjects;

/// Options of a shared store.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Clock, randomness and identity.
    pub env: Environment,
    /// The ids of the project whose sessions are used unless another is named; new sessions get the
    /// first. Without any, all sessions are used.
    pub projects: Vec<String>,
    /// Take a session over even from a live holder.
    pub take_over: bool,
    /// How long a request is retried while the server is away.
    pub patience: Duration,
    /// How long one request may take.
    pub answer: Duration,
    /// How often a follower polls while it also gets notifications.
    pub look_every: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            env: Environment::default(),
            projects: Vec::new(),
            take_over: false,
            patience: Duration::from_secs(30),
            answer: Duration::from_secs(20),
            look_every: Duration::from_secs(2),
        }
    }
}

/// The status of a store.
#[derive(Debug, Clone)]
pub struct StoreStatus {
    /// The server's version string.
    pub server: String,
    /// The version of the tables; `None` if there are none.
    pub version: Option<i32>,
    /// The number of sessions.
    pub sessions: u64,
    /// The number of sessions with a held lease.
    pub held: u64,
    /// The bytes of the tables and their indexes.
    pub bytes: u64,
    /// Where the objects are; `None` if they are in the database.
    pub objects: Option<String>,
    /// Settings of the server that endanger the data.
    pub warnings: Vec<String>,
}

/// A store on PostgreSQL.
#[derive(Debug)]
pub struct PostgresStore {
    server: Arc<ServerConnection>,
    objects: Arc<dyn Objects>,
    /// The objects, if they are not in the database.
    elsewhere: Option<Arc<dyn CollectableObjects>>,
    storing: Arc<StoringLock>,
    flusher: Arc<Flusher>,
    leases: Arc<Leases>,
    changed: Arc<HistoryChanges>,
    listener: Arc<NotifyListener>,
    options: PostgresOptions,
}

impl PostgresStore {
    /// Opens an existing store.
    pub fn open(url: &ServerUrl, options: PostgresOptions) -> Result<Self, StoreError> {
        let store = Self::connect(url, options)?;
        match store.version()? {
            Some(version) if version > SCHEMA_VERSION => {
                Err(migration::newer_migration_error(&url.to_string(), version))
            }
            Some(version) if version == SCHEMA_VERSION => Ok(store),
            Some(version) => Err(migration::older_migration_error(&url.to_string(), version)),
            None => Err(StoreError::NotMade { place: url.to_string() }),
        }
    }

    /// Makes a store, or migrates an existing one.
    pub fn init(
        url: &ServerUrl,
        options: PostgresOptions,
    ) -> Result<(Self, MigratedVersions), StoreError> {
        let store = Self::connect(url, options)?;
        let migrated = store.migrate()?;
        Ok((store, migrated))
    }

    /// Connects to a store without looking at its tables.
    pub fn connect(url: &ServerUrl, options: PostgresOptions) -> Result<Self, StoreError> {
        let server =
            Arc::new(ServerConnection::new(url.clone(), options.patience, options.answer)?);
        let leases = Arc::new(Leases::default());
        let changed = Arc::new(HistoryChanges::default());
        let teller = Arc::new(GrowthNotifier::default());
        if let Some(handle) = server.runtime() {
            handle.spawn(notify::send_notifications(Arc::downgrade(&server), teller.clone()));
            let (server, leases) = (Arc::downgrade(&server), Arc::downgrade(&leases));
            handle.spawn(lease::keep_lease_alive(server, leases));
            handle.spawn(history::keep_up_history(Arc::downgrade(&changed)));
        }
        let objects: Arc<dyn Objects> = Arc::new(TableObjects::new(server.clone()));
        let storing = StoringLock::new(server.clone(), None);
        let flusher = Arc::new(Flusher::new(server.clone(), teller));
        let listener = Arc::default();
        let elsewhere = None;
        Ok(Self {
            server,
            objects,
            elsewhere,
            storing,
            flusher,
            leases,
            changed,
            listener,
            options,
        })
    }

    /// The same store with its objects elsewhere.
    #[must_use]
    pub fn with_objects(mut self, objects: Arc<dyn CollectableObjects>) -> Self {
        let claimed = ClaimedObjects::new(objects.clone());
        self.storing = StoringLock::new(self.server.clone(), Some(claimed));
        self.objects = objects.clone();
        self.elsewhere = Some(objects);
        self
    }

    /// Where it is, for people.
    #[must_use]
    pub fn place(&self) -> String {
        self.server.place()
    }

    /// Its options.
    #[must_use]
    pub const fn options(&self) -> &PostgresOptions {
        &self.options
    }

    /// Migrates the tables to this program's version. Runs once, even if several processes ask for
    /// it.
    pub fn migrate(&self) -> Result<MigratedVersions, StoreError> {
        let server = self.server.clone();
        self.server.block(async move {
            let schema = server.url().schema().to_owned();
            server
                .ask_much("make tables in", |mut client| {
                    let schema = schema.clone();
                    Box::pin(async move { migration::migrate(&mut client, &schema).await })
                })
                .await
        })
    }

    /// The version of the tables; `None` if there are none.
    pub fn version(&self) -> Result<Option<i32>, StoreError> {
        let server = self.server.clone();
        self.server.block(async move {
            let schema = server.url().schema().to_owned();
            server
                .ask("open", |client| {
                    let schema = schema.clone();
                    Box::pin(async move { migration::migrated_version(&client, &schema).await })
                })
                .await
        })
    }

    /// The status of the store.
    pub fn status(&self) -> Result<StoreStatus, StoreError> {
        let server = self.server.clone();
        self.server.block(async move {
            let schema = server.url().schema().to_owned();
            server
                .ask("look at", |client| {
                    let schema = schema.clone();
                    Box::pin(async move { store_status(&client, &schema).await })
                })
                .await
        })
    }

    pub(crate) fn reader(&self, session: SessionId) -> Result<PostgresReader, StoreError> {
        let server = self.server.clone();
        let known = self.server.block(async move { find_known(&server, session).await })?;
        Ok(self.reader_of(session, known))
    }

    fn reader_of(&self, session: SessionId, known: PostgresSessionRows) -> PostgresReader {
        PostgresReader {
            server: self.server.clone(),
            objects: self.objects.clone(),
            session,
            known: Arc::new(known),
            listener: self.listener.clone(),
            look_every: self.options.look_every,
        }
    }

    /// Opens a session for writing.
    pub(crate) fn writer(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<PostgresWriter, StoreError> {
        let reader = self.reader(session)?;
        let lease = self.hold(&reader, wait)?;
        let ending = reader.clone();
        match self.server.block(async move { ending.end().await }) {
            Ok(end) => self.writer_at(reader, lease, end),
            Err(error) => {
                self.let_go(lease);
                Err(error)
            }
        }
    }

    /// Takes the lease of a session, and keeps it alive from here on.
    pub(crate) fn hold(
        &self,
        reader: &PostgresReader,
        wait: Duration,
    ) -> Result<Lease, StoreError> {
        let (server, env) = (self.server.clone(), self.options.env.clone());
        let (take_over, sid) = (self.options.take_over, reader.known.sid);
        let (session, leases) = (reader.session, self.leases.clone());
        self.server.block(async move {
            let lease =
                lease::acquire_lease(&server, &env, (session, sid), wait, take_over).await?;
            leases.add(lease);
            Ok(lease)
        })
    }

    /// Releases a lease. If that fails, it runs out.
    pub(crate) fn let_go(&self, lease: Lease) {
        let server = self.server.clone();
        self.leases.remove(lease);
        let released = self.server.block(async move { lease::release_lease(&server, lease).await });
        drop(released);
    }

    /// A writer that goes on at this end, with a lease that is held. The writer releases it; so does
    /// an error.
    pub(crate) fn writer_at(
        &self,
        reader: PostgresReader,
        lease: Lease,
        end: StateAtEnd,
    ) -> Result<PostgresWriter, StoreError> {
        let known: Epoch = end.state.core.epoch;
        let raised = if known < lease.epoch {
            Ok(lease)
        } else {
            let (server, session) = (self.server.clone(), reader.session);
            self.server
                .block(async move { lease::raise_lease(&server, session, lease, known).await })
        };
        let made = raised.and_then(|lease| {
            let held = (lease, self.leases.clone(), self.changed.clone());
            let (flusher, storing) = (self.flusher.clone(), self.storing.clone());
            PostgresWriter::new(&self.options.env, reader, flusher, storing, held, end)
        });
        if made.is_err() {
            self.let_go(lease);
        }
        made
    }

    /// The id of a session's project; `None` if it has none.
    pub fn project_of(&self, session: SessionId) -> Result<Option<String>, StoreError> {
        let server = self.server.clone();
        let project = self.server.block(async move {
            server
                .ask("find a session in", |client| {
                    Box::pin(async move {
                        let uuid = Uuid::from_bytes(*session.as_bytes());
                        let sql = "SELECT project FROM session WHERE id = $1";
                        let row = client.query_opt(sql, &[&uuid]).await?;
                        let project = row.map(|row| row.try_get::<_, String>(0)).transpose()?;
                        let reference = session.to_string();
                        project.ok_or(ServerError::Refused(StoreError::NoSession { reference }))
                    })
                })
                .await
        })?;
        Ok(Some(project).filter(|project| !project.is_empty()))
    }

    fn asker(&self, projects: &[String]) -> HistoryReader {
        HistoryReader {
            server: self.server.clone(),
            objects: self.objects.clone(),
            projects: projects.to_vec(),
        }
    }

    /// The objects, for one who stores some.
    pub(crate) fn storing_objects(&self) -> StoringObjects {
        StoringObjects::new(self.objects.clone(), self.storing.clone())
    }

    pub(crate) const fn storing(&self) -> &Arc<StoringLock> {
        &self.storing
    }

    /// Tells whether what this process stored may be named, for one who does not append by itself.
    #[must_use]
    pub fn stored_check(&self) -> StoredCheck {
        StoredCheck::new(self.storing.clone())
    }

    /// The objects, for one who reads some.
    pub(crate) const fn objects_of_store(&self) -> &Arc<dyn Objects> {
        &self.objects
    }

    /// The objects, if they are not in the database.
    pub(crate) const fn objects_elsewhere(&self) -> Option<&Arc<dyn CollectableObjects>> {
        self.elsewhere.as_ref()
    }

    pub(crate) const fn server(&self) -> &Arc<ServerConnection> {
        &self.server
    }
}

fn new_id(env: &Environment, session: &NewSession) -> SessionId {
    let mut random = [0; 10];
    (env.random)(&mut random);
    SessionId::new(session.id_time((env.now)()), random)
}

async fn find_known(
    server: &ServerConnection,
    session: SessionId,
) -> Result<PostgresSessionRows, StoreError> {
    server
        .ask("find a session in", |client| {
            Box::pin(async move { PostgresSessionRows::find(&client, session).await })
        })
        .await
}

/// Where a new session starts.
struct PostgresStartPoint {
    /// The event before its first, and its sum.
    last: (Seq, Sum),
    at: Timestamp,
    /// The session that it is a fork of, and the row of the one that holds that event.
    parent: Option<(SessionId, i64)>,
}

impl PostgresStartPoint {
    fn of(id: SessionId) -> Self {
        Self { last: (Seq::ZERO, Sum::genesis(id)), at: Timestamp::default(), parent: None }
    }
}

/// Makes a session. If several processes ask for the same key at once, one makes it.
async fn make_session(
    server: &ServerConnection,
    env: &Environment,
    projects: Vec<String>,
    session: NewSession,
    (id, beginning): (SessionId, PostgresStartPoint),
) -> Result<CreatedSession, StoreError> {
    let key = session.fields.key.clone();
    let project = session.fields.project_id.clone().unwrap_or_default();
    let created = SessionCreated { session: id, fields: session.fields };
    let (mut event, body) = IntakeSalts::new(env).prepare_fact(Kind::SESSION_CREATED, &created)?;
    let seq = beginning.last.0.next();
    (event.seq, event.at) = (seq, id.created().max(beginning.at));
    let mut line = Vec::new();
    let sum = JournalLine::write_prepared(&mut line, &event, &body, 1, beginning.last.1.link());
    line.pop();
    let row = Arc::new(((projects, project), key, sum.as_ascii().to_vec(), line));
    let (parent, before) = (beginning.parent, place(beginning.last.0.0));
    server
        .ask("make a session in", |client| {
            let row = row.clone();
            Box::pin(async move {
                let ((projects, project), key, sum, line) = &*row;
                let named = (projects.as_slice(), project.as_str(), key.as_deref());
                insert_session(client, id, named, (parent, before), (sum, line)).await
            })
        })
        .await
}

async fn insert_session(
    mut client: Object,
    id: SessionId,
    (projects, project, key): (&[String], &str, Option<&str>),
    (parent, before): (Option<(SessionId, i64)>, i64),
    (sum, line): (&[u8], &[u8]),
) -> Result<CreatedSession, ServerError> {
    let uuid = Uuid::from_bytes(*id.as_bytes());
    let transaction = client.transaction().await?;
    if let Some(session) = session_with_key(&transaction, projects, key).await? {
        // Another session has the key; or this one was made, and the answer was lost.
        return Ok(CreatedSession { id: session, is_new: session == id });
    }
    let sql = "INSERT INTO session (id, project, key, parent, parent_seq)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING RETURNING sid";
    let holder = parent.map(|(_, sid)| sid);
    let given: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&uuid, &project, &key, &holder, &before];
    let row = match (transaction.query_opt(sql, &given).await, parent) {
        // It was deleted since it was read.
        (Err(error), Some((parent, _))) if is_reference_error(&error) => {
            return Err(StoreError::NoSession { reference: parent.to_string() }.into());
        }
        (row, _) => row?,
    };
    let Some(row) = row else { return Ok(CreatedSession::new(id)) };
    let sid: i64 = row.try_get(0)?;
    transaction.execute("INSERT INTO lease (sid) VALUES ($1)", &[&sid]).await?;
    let sql = "INSERT INTO event (sid, seq, sum, line) VALUES ($1, $2, $3, $4)";
    transaction.execute(sql, &[&sid, &(before + 1), &sum, &line]).await?;
    transaction.commit().await?;
    Ok(CreatedSession::new(id))
}

/// The session with a key in a project, under any of the project's ids. Locks the key until the
/// transaction ends.
pub(crate) async fn session_with_key(
    transaction: &deadpool_postgres::Transaction<'_>,
    projects: &[String],
    key: Option<&str>,
) -> Result<Option<SessionId>, ServerError> {
    let Some(key) = key else { return Ok(None) };
    transaction.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&key]).await?;
    let row = transaction.query_opt(WITH_KEY, &[&projects, &key]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.map(session_id))
}

/// The session with a key in a project, under any of the project's ids.
pub(crate) async fn key_holder(
    client: &Object,
    projects: &[String],
    key: &str,
) -> Result<Option<SessionId>, ServerError> {
    let row = client.query_opt(WITH_KEY, &[&projects, &key]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.map(session_id))
}

const WITH_KEY: &str = "SELECT id FROM session WHERE key = $2 AND (project = ANY($1)
    OR cardinality($1::text[]) = 0 AND project = '') ORDER BY id LIMIT 1";

pub(crate) fn session_id(uuid: Uuid) -> SessionId {
    SessionId::from_bytes(*uuid.as_bytes())
}

async fn store_status(client: &Object, schema: &str) -> Result<StoreStatus, ServerError> {
    let server: String = client.query_one("SHOW server_version", &[]).await?.try_get(0)?;
    let version = migration::migrated_version(client, schema).await?;
    let mut warnings = Vec::new();
    for (name, danger) in [
        ("fsync", "a power cut of the server can lose or damage everything"),
        ("full_page_writes", "a power cut of the server can damage pages"),
    ] {
        let row = client.query_one("SELECT current_setting($1)", &[&name]).await?;
        if row.try_get::<_, String>(0)? == "off" {
            warnings.push(format!("{name} is off: {danger}"));
        }
    }
    let (mut sessions, mut held, mut bytes) = (0_i64, 0_i64, 0_i64);
    let mut objects = None;
    if version.is_some() {
        objects = store_setting::objects_place(client).await?;
        sessions = client.query_one("SELECT count(*) FROM session", &[]).await?.try_get(0)?;
        let sql = "SELECT count(*) FROM lease WHERE until > clock_timestamp()";
        held = client.query_one(sql, &[]).await?.try_get(0)?;
        let sql = "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint
            FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid
            WHERE nspname = $1 AND relkind = 'r'";
        bytes = client.query_one(sql, &[&schema]).await?.try_get(0)?;
    }
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(StoreStatus {
        server,
        version,
        sessions: count(sessions),
        held: count(held),
        bytes: count(bytes),
        objects,
        warnings,
    })
}

/// Every session of a project, newest first.
async fn all_sessions_in_store(
    client: &Object,
    projects: &[String],
) -> Result<Vec<SessionId>, ServerError> {
    let sql = "SELECT id FROM session WHERE cardinality($1::text[]) = 0 OR project = ANY($1)
        ORDER BY id DESC";
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &[&projects]).await?;
    rows.iter().map(|row| Ok(session_id(row.try_get(0)?))).collect()
}

async fn find_session_in_store(
    client: &Object,
    reference: &SessionRef,
    projects: &[String],
) -> Result<SessionId, ServerError> {
    let none = || ServerError::Refused(StoreError::NoSession { reference: reference.to_string() });
    match reference {
        SessionRef::Id(id) => PostgresSessionRows::find(client, *id).await.map(|_| *id),
        SessionRef::Latest => {
            latest_session_in_store(client, projects, None).await?.ok_or_else(none)
        }
        SessionRef::LatestIn(dir) => {
            let dir = SessionFields::workspace_text(dir);
            latest_session_in_store(client, projects, Some(&dir)).await?.ok_or_else(none)
        }
        SessionRef::Key(key) => key_holder(client, projects, key).await?.ok_or_else(none),
        SessionRef::Prefix(prefix) if prefix.is_empty() => Err(none()),
        SessionRef::Prefix(prefix) => {
            // This project's sessions first; an id also finds sessions of others.
            for projects in [projects, &[]] {
                let fits: Vec<SessionId> = all_sessions_in_store(client, projects)
                    .await?
                    .into_iter()
                    .filter(|id| {
                        id.short(12).starts_with(prefix.as_str())
                            || id.to_string().starts_with(prefix.as_str())
                    })
                    .collect();
                match fits.as_slice() {
                    [] => {}
                    [id] => return Ok(*id),
                    many => {
                        return Err(ServerError::Refused(StoreError::Ambiguous {
                            reference: prefix.clone(),
                            matches: many.iter().take(8).map(|id| id.short(8)).collect(),
                        }));
                    }
                }
            }
            Err(none())
        }
    }
}

/// The newest session of a project that is not empty, with this workspace if given, as far as the
/// history is up to date.
async fn latest_session_in_store(
    client: &Object,
    projects: &[String],
    workspace: Option<&str>,
) -> Result<Option<SessionId>, ServerError> {
    // JSON is parsed only if it contains the directory's name, which most sessions lack.
    let sql = "SELECT session.id FROM session JOIN overview USING (sid)
        WHERE (cardinality($1::text[]) = 0 OR session.project = ANY($1))
            AND (session.parent IS NOT NULL OR overview.indexed > 1)
            AND CASE WHEN $3::text IS NOT NULL AND strpos(overview.outline, $3) = 0 THEN false
                ELSE coalesce(overview.outline::json ->> 'empty', 'false') = 'false'
                    AND ($2::text IS NULL OR overview.outline::json #>> '{fields,workspace}' = $2)
                END
        ORDER BY session.id DESC LIMIT 1";
    // As it is written in the overview, which is JSON.
    let written = workspace.map(|workspace| serde_json::Value::from(workspace).to_string());
    let statement = client.prepare_cached(sql).await?;
    let row = client.query_opt(&statement, &[&projects, &workspace, &written]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.map(session_id))
}

impl Store for PostgresStore {
    fn create(&self, session: NewSession) -> Result<CreatedSession, StoreError> {
        let (server, env) = (self.server.clone(), self.options.env.clone());
        let projects = self.options.projects.clone();
        let session = session.in_project(&projects);
        self.server.block(async move {
            let id = new_id(&env, &session);
            let beginning = PostgresStartPoint::of(id);
            make_session(&server, &env, projects, session, (id, beginning)).await
        })
    }

    fn fork(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<CreatedSession, StoreError> {
        let (server, env) = (self.server.clone(), self.options.env.clone());
        let projects = self.options.projects.clone();
        let reader = self.reader(parent)?;
        let project_id = self.project_of(parent)?;
        self.server.block(async move {
            let (last, sum) = reader.last().await?;
            let seq = at.unwrap_or(last);
            if seq == Seq::ZERO || seq > last {
                return Err(StoreError::NoEvent { session: parent, seq, last });
            }
            let sum = if seq == last { sum } else { reader.sum_of(seq).await? };
            let state = reader.state_at(seq).await?;
            let link = SessionParent { session: parent, seq, reason: ParentReason::Fork };
            let like = SessionFields { project_id, ..state.core.fields };
            let session = session.forked(link, &like).in_project(&projects);
            let holder = reader.known.stretches.iter().find(|part| part.last >= seq);
            let parent = holder.map(|part| (parent, part.sid));
            let beginning = PostgresStartPoint { last: (seq, sum), at: state.core.at, parent };
            let id = new_id(&env, &session);
            make_session(&server, &env, projects, session, (id, beginning)).await
        })
    }

    fn find(&self, reference: &SessionRef) -> Result<SessionId, StoreError> {
        let (server, projects) = (self.server.clone(), self.options.projects.clone());
        let reference = reference.clone();
        let asker = matches!(reference, SessionRef::Latest | SessionRef::LatestIn(_))
            .then(|| self.asker(&projects));
        self.server.block(async move {
            if let Some(asker) = asker {
                asker.bring_up(&mut Vec::new()).await?;
            }
            server
                .ask("find a session in", |client| {
                    let (reference, projects) = (reference.clone(), projects.clone());
                    Box::pin(
                        async move { find_session_in_store(&client, &reference, &projects).await },
                    )
                })
                .await
        })
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let (server, projects) = (self.server.clone(), self.options.projects.clone());
        self.server.block(async move {
            let sessions = server
                .ask("list the sessions of", |client| {
                    let projects = projects.clone();
                    Box::pin(async move { all_sessions_in_store(&client, &projects).await })
                })
                .await?;
            Ok(SessionSummary::of(&sessions))
        })
    }

    fn history(&self, query: &HistoryQuery) -> Result<History, StoreError> {
        let projects = if query.all_projects { &[] } else { self.options.projects.as_slice() };
        let asker = self.asker(projects);
        self.server.block(asker.history(query.clone()))
    }

    fn usage(&self, query: &UsageQuery) -> Result<UsageReport, StoreError> {
        let projects = if query.all_projects { &[] } else { self.options.projects.as_slice() };
        let asker = self.asker(projects);
        self.server.block(asker.usage(query.clone()))
    }

    fn write(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError> {
        Ok(Arc::new(self.writer(session, wait)?))
    }

    fn read(&self, session: SessionId) -> Result<Arc<dyn SessionReader>, StoreError> {
        Ok(Arc::new(self.reader(session)?))
    }

    fn objects(&self) -> Result<Arc<dyn Objects>, StoreError> {
        Ok(Arc::new(self.storing_objects()))
    }
}
