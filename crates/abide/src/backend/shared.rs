//! The store on PostgreSQL, its objects there or in S3-compatible storage.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abide_local::{BundleHeader, DiskUse, Imported, LocalStore, Made, SessionLiveness};
use abide_model::{
    History, HistoryQuery, NewSession, Objects, Pending, Retention, Seq, SessionId, SessionReader,
    SessionRef, SessionSummary, SessionWriter, Store,
};
use abide_objects::{CacheOptions, ObjectsOptions, ObjectsUrl, RemoteObjects};
use abide_postgres::{Migrated, PostgresStore, ServerUrl, StoreStatus};
use abide_workspace::Policy;

use super::{Backend, Bundle, ChildSocket, SeenByHolder};
use crate::{Error, ProjectIdentity};

/// What the cache of objects may take on this machine.
const CACHE_BYTES: u64 = 2 << 30;

/// How a shared store is opened.
#[derive(Debug, Clone, Default)]
pub struct SharedOptions {
    /// The project whose sessions are meant where none is named; with none, all are.
    pub project: Option<ProjectIdentity>,
    /// Take a session even from a holder that lives.
    pub take_over: bool,
    /// Where what is derived and belongs to this machine is kept; none where there is no place.
    pub cache: Option<PathBuf>,
}

/// A store on a server.
#[derive(Debug)]
pub struct SharedStore {
    inner: PostgresStore,
    cache: Option<PathBuf>,
}

impl SharedStore {
    /// Opens a store that is there.
    pub fn open(url: &str, options: SharedOptions) -> Result<Self, Error> {
        let url = parsed(url)?;
        let store = PostgresStore::open(&url, settings(&options))?;
        let cache = cache_of(&options, &store);
        let objects = store.objects_place()?;
        let inner = match objects {
            None => store,
            Some(place) => {
                let remote = remote_objects(&place, cache.as_deref())?;
                store.with_objects(Arc::new(remote))
            }
        };
        Ok(Self { inner, cache })
    }

    /// Makes a store, or brings one up to date. Objects go to `objects` (`s3://bucket/prefix`), else
    /// into the database; a store that is there keeps them where they are.
    pub fn init(url: &str, objects: Option<&str>) -> Result<Migrated, Error> {
        let url = parsed(url)?;
        if let Some(place) = objects {
            // Can it be reached at all?
            remote_objects(place, None)?;
        }
        let options = settings(&SharedOptions::default());
        let (store, migrated) = PostgresStore::init(&url, options)?;
        if let Some(place) = objects {
            store.set_objects_place(place)?;
        }
        Ok(migrated)
    }

    /// What a store says of itself, of whatever version it is.
    pub fn status(url: &str) -> Result<StoreStatus, Error> {
        let url = parsed(url)?;
        let store = PostgresStore::connect(&url, settings(&SharedOptions::default()))?;
        Ok(store.status()?)
    }
}

fn parsed(url: &str) -> Result<ServerUrl, Error> {
    Ok(ServerUrl::parse(url)?)
}

fn settings(options: &SharedOptions) -> abide_postgres::Options {
    let projects = options.project.iter();
    let projects = projects.flat_map(|it| std::iter::once(&it.id).chain(&it.also)).cloned();
    abide_postgres::Options {
        projects: projects.collect(),
        take_over: options.take_over,
        ..abide_postgres::Options::default()
    }
}

fn cache_of(options: &SharedOptions, store: &PostgresStore) -> Option<PathBuf> {
    let name = abide_model::ObjectHash::of(store.place().as_bytes()).to_string();
    Some(options.cache.as_ref()?.join(name.chars().take(16).collect::<String>()))
}

fn remote_objects(place: &str, cache: Option<&Path>) -> Result<RemoteObjects, Error> {
    let url = ObjectsUrl::parse(place)?;
    let mut options = ObjectsOptions::of(std::env::vars_os());
    options.cache =
        cache.map(|dir| CacheOptions { directory: dir.join("objects"), bytes: CACHE_BYTES });
    Ok(RemoteObjects::open(url, &options)?)
}

impl Backend for SharedStore {
    fn place(&self) -> String {
        self.inner.place()
    }

    fn root(&self) -> Option<&Path> {
        None
    }

    fn as_files(&self) -> Option<&LocalStore> {
        None
    }

    fn cache_dir(&self) -> Option<PathBuf> {
        self.cache.clone()
    }

    fn workspace_policy(&self) -> Policy {
        Policy::default()
    }

    fn retention(&self) -> Retention {
        Retention::default()
    }

    fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, Error>> {
        let found = self.inner.livenesses(sessions);
        found.into_iter().map(|found| found.map_err(Error::from)).collect()
    }

    fn is_held(&self, session: SessionId) -> bool {
        self.inner.is_held(session)
    }

    fn disk_use(&self) -> Result<DiskUse, Error> {
        let used = self.inner.space()?;
        Ok(DiskUse {
            journals: used.events,
            state: used.state,
            objects: used.objects,
            index: used.index,
            other: used.other,
            total: used.events + used.state + used.objects + used.index + used.other,
            ..DiskUse::default()
        })
    }

    fn create_new(&self, session: NewSession) -> Result<Made, Error> {
        Ok(self.inner.create_new(session)?)
    }

    fn fork_new(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<Made, Error> {
        Ok(self.inner.fork_new(parent, at, session)?)
    }

    fn delete_session(&self, session: SessionId) -> Result<Vec<String>, Error> {
        self.inner.delete_session(session)?;
        Ok(Vec::new())
    }

    fn export_bundle(
        &self,
        session: SessionId,
        out: &mut dyn Write,
    ) -> Result<BundleHeader, Error> {
        Ok(self.inner.export_bundle(session, out)?)
    }

    fn check_bundle(&self, bundle: Bundle<'_>) -> Result<Imported, Error> {
        Ok(self.inner.check_bundle(bundle)?)
    }

    fn import_bundle(&self, bundle: Bundle<'_>, wait: Duration) -> Result<Imported, Error> {
        Ok(self.inner.import_bundle(bundle, wait)?)
    }

    fn serve_children(&self, _: SessionId, _: SeenByHolder) -> Result<ChildSocket, Error> {
        Err(Error::Lacking { what: "a socket for children", place: self.place() })
    }

    fn update_transcript(&self, _: SessionId) -> Result<(), Error> {
        Ok(())
    }
}

impl Store for SharedStore {
    fn create(&self, session: NewSession) -> Pending<'_, SessionId> {
        self.inner.create(session)
    }

    fn fork(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Pending<'_, SessionId> {
        self.inner.fork(parent, at, session)
    }

    fn find<'a>(&'a self, reference: &'a SessionRef) -> Pending<'a, SessionId> {
        self.inner.find(reference)
    }

    fn list(&self) -> Pending<'_, Vec<SessionSummary>> {
        self.inner.list()
    }

    fn history<'a>(&'a self, query: &'a HistoryQuery) -> Pending<'a, History> {
        self.inner.history(query)
    }

    fn write(&self, session: SessionId, wait: Duration) -> Pending<'_, Arc<dyn SessionWriter>> {
        self.inner.write(session, wait)
    }

    fn read(&self, session: SessionId) -> Pending<'_, Arc<dyn SessionReader>> {
        self.inner.read(session)
    }

    fn objects(&self) -> Pending<'_, Arc<dyn Objects>> {
        self.inner.objects()
    }
}
