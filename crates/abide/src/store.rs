//! A store, for blocking code.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use abide_local::{
    BundleHeader, DiskUse, Environment, Erased, ImportOutcome, Imported, LocalStore, Made, Options,
    Person, Place, Scope, SessionLiveness, StoreFinder, Trust, Where, find_store, make_parents,
    store_of_project,
};
use abide_model::{
    History, HistoryQuery, NewSession, ObjectHash, Objects, Retention, Seq, SessionFields,
    SessionId, SessionRef, SessionSummary, StoreError, Timestamp,
};
use pollster::block_on;
use tempfile::TempDir;

use crate::accepted::{check_accepted, own_consent};
use crate::backend::{Backend, Bundle, PlainStore};
#[cfg(feature = "shared")]
use crate::backend::{SharedOptions, SharedStore};
use crate::{Consent, Error, Projects, Session, SessionView};

/// How long to wait for another writer to let a session go, unless said otherwise.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(2);

/// Where sessions live. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    backend: Arc<dyn Backend>,
    wait: Duration,
    pub(crate) consent: Consent,
    /// The directory of the project that new sessions are of, where the store holds those of many.
    project_dir: Option<PathBuf>,
    /// What is derived, where the user has no place for it: for this process alone.
    scratch: Arc<OnceLock<TempDir>>,
}

impl Store {
    /// The store for what is done in the current directory, as the commands find it: that of
    /// `ABIDE_STORE`, else `.abide` here or above, else the one that the user's settings name, else the
    /// person's own. The person's is made where it is not there yet. Of one that holds sessions of many
    /// projects, those of this project are meant where none is named, and new ones are of this project.
    pub fn open_default() -> Result<Self, Error> {
        let from = std::env::current_dir().map_err(Error::CurrentDir)?;
        let person = Person::of_process();
        let mut finder = StoreFinder::of_process()?;
        if let Some(Where::Files(named)) = &mut finder.named {
            // It stays the same one where the process goes elsewhere.
            *named = from.join(&*named);
        }
        let place = finder.find(&from)?;
        check_accepted(&place, &finder.trust, Some(&own_consent()))?;
        match &place.store {
            Where::Files(_) => Self::for_recording(&place, &from, &person, Options::default()),
            #[cfg(feature = "shared")]
            Where::Shared(url) => {
                let project = Some(Projects::in_state(&person).for_recording(&from)?);
                let (here, cache) = (Some(place.project.clone()), person.cache);
                let options = SharedOptions { project, here, cache, ..SharedOptions::default() };
                Self::connect(url, options)
            }
            #[cfg(not(feature = "shared"))]
            Where::Shared(url) => {
                Err(Error::OnlyFiles { what: "this build", place: url.to_string() })
            }
        }
    }

    /// The store of files at this place, made where it is not there, for what is recorded in `dir`: where
    /// it holds sessions of many projects, new ones are of that of `dir`.
    pub fn for_recording(
        place: &Place,
        dir: &Path,
        person: &Person,
        options: Options,
    ) -> Result<Self, Error> {
        let Where::Files(root) = &place.store else {
            return Err(Error::OnlyFiles {
                what: "opening by directory",
                place: place.store.to_string(),
            });
        };
        make_parents(root)?;
        let store = LocalStore::init(root, options.clone())?;
        let store = match place.scope {
            Scope::Project => {
                // The id is kept in the store: that is whole before anything is put there.
                let projects = Projects::in_store(root, person).for_recording(dir)?.ids();
                LocalStore::open(root, Options { projects, ..options })?
            }
            Scope::Store => store,
        };
        Ok(Self::local(store).in_project(place))
    }

    /// The same store, whose new sessions say which directory is all of their project, where it holds
    /// sessions of many.
    #[must_use]
    pub fn in_project(mut self, place: &Place) -> Self {
        self.project_dir = (place.scope == Scope::Project).then(|| place.project.clone());
        self
    }

    /// A session that says which directory is all of its project.
    fn placed(&self, mut session: NewSession) -> NewSession {
        let fields = &mut session.fields;
        if let (Some(dir), Some(workspace), None) =
            (&self.project_dir, &fields.workspace, &fields.project)
            && Path::new(workspace).starts_with(dir)
        {
            fields.project = Some(SessionFields::workspace_text(dir));
        }
        session
    }

    /// The store of a directory: `.abide` in it or above it. What another user owns or may write is
    /// refused, and so is what a file of the project leads to out of it, unless the user has accepted
    /// that ([`Consent`](crate::Consent)).
    pub fn open(from: impl AsRef<Path>) -> Result<Self, Error> {
        let from = std::path::absolute(from).map_err(Error::CurrentDir)?;
        let place = find_store(&from, &Trust::of_process())?;
        let place = place.ok_or(Error::NoStore { from })?;
        Ok(Self::local(LocalStore::open(&files(place)?, Options::default())?))
    }

    /// A store on local files, with its settings.
    #[must_use]
    pub fn local(store: impl Into<Arc<LocalStore>>) -> Self {
        Self::backed(store.into())
    }

    /// As [`Store::open`]; where there is no store, one is made: at the root of the git checkout,
    /// else in the directory itself.
    pub fn open_or_init(from: impl AsRef<Path>) -> Result<Self, Error> {
        let from = std::path::absolute(from).map_err(Error::CurrentDir)?;
        let place = store_of_project(&from, &Trust::of_process())?;
        Ok(Self::local(LocalStore::init(&files(place)?, Options::default())?))
    }

    /// A store of any kind. It has what is done with sessions and events, and nothing else.
    #[must_use]
    pub fn over(inner: Arc<dyn abide_model::Store>) -> Self {
        Self::backed(Arc::new(PlainStore(inner)))
    }

    /// A store that a team shares, at its URL.
    #[cfg(feature = "shared")]
    pub fn connect(url: &abide_model::StoreUrl, options: SharedOptions) -> Result<Self, Error> {
        url.check().map_err(|source| Error::Url { url: url.clone(), source })?;
        Ok(Self::backed(Arc::new(SharedStore::open(url.reveal(), options)?)))
    }

    /// A store that can do everything.
    #[must_use]
    pub fn backed(backend: Arc<dyn Backend>) -> Self {
        let (consent, scratch) = (Consent::default(), Arc::default());
        Self { backend, wait: DEFAULT_WAIT, consent, project_dir: None, scratch }
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Where it is, for people; never with a secret.
    #[must_use]
    pub fn place(&self) -> String {
        self.backend.place()
    }

    /// The directory of a store of files.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.backend.root()
    }

    /// The store of files that it is, for what makes sense on files only.
    #[must_use]
    pub fn as_files(&self) -> Option<&LocalStore> {
        self.backend.as_files()
    }

    /// Reads a session of a shared store from its first event to its last and checks every line and
    /// the chain. Gives the last event.
    pub fn verify(&self, session: SessionId) -> Result<Seq, Error> {
        self.backend.verify(session)
    }

    /// The store of files that it is, for `what`, which looks after no other.
    pub fn files(&self, what: &'static str) -> Result<&LocalStore, Error> {
        self.as_files().ok_or_else(|| Error::OnlyFiles { what, place: self.place() })
    }

    /// The directory that the store belongs to; none where it is not a project's own.
    #[must_use]
    pub fn project(&self) -> Option<&Path> {
        let own = |root: &&Path| root.file_name().is_some_and(|name| name == ".abide");
        self.root().filter(own).and_then(Path::parent)
    }

    /// The time now, by this machine's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (Environment::default().now)()
    }

    pub(crate) fn new_checkpoint_id(&self) -> String {
        let mut random = [0; 10];
        (Environment::default().random)(&mut random);
        SessionId::new(self.now(), random).to_string()
    }

    /// Where what is derived and belongs to this machine is kept, made where it is missing.
    fn cache_dir(&self) -> Result<PathBuf, Error> {
        let dir = self.backend.cache_dir().map_or_else(|| self.scratch(), Ok)?;
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&dir).map_err(Error::file("make", &dir))?;
        Ok(dir)
    }

    /// The file that remembers what the files of a workspace looked like.
    pub(crate) fn stat_cache(&self, root: &Path) -> Result<PathBuf, Error> {
        let name = ObjectHash::of(root.as_os_str().as_encoded_bytes()).to_string();
        let name: String = name.chars().take(16).collect();
        Ok(self.cache_dir()?.join(name).with_extension("stat"))
    }

    /// A directory that nobody else can have made or can write, and that goes with this process. A
    /// name that is known in a directory that all may write could be anybody's.
    fn scratch(&self) -> Result<PathBuf, Error> {
        if self.scratch.get().is_none() {
            let mut builder = tempfile::Builder::new();
            builder.prefix("abide-").permissions(Permissions::from_mode(0o700));
            let made = builder.tempdir().map_err(|source| StoreError::Storage {
                action: "make a directory in",
                place: std::env::temp_dir().display().to_string(),
                source: Arc::new(source),
            })?;
            // Where another thread was faster, this one goes again.
            let _ = self.scratch.set(made);
        }
        Ok(self.scratch.get().map(|dir| dir.path().to_owned()).unwrap_or_default())
    }

    /// The file that says which files of a session this machine's clone of its project has.
    pub(crate) fn files_note(&self, session: SessionId) -> Result<PathBuf, Error> {
        Ok(self.cache_dir()?.join(format!("{session}.files")))
    }

    /// Where the files of a session are for whoever stands in a clone of its project; none where
    /// they are where the session says.
    pub fn workspace_here(&self, session: SessionId) -> Result<Option<PathBuf>, Error> {
        self.backend.workspace_here(session)
    }

    /// The store's objects, to put and to read. While they are open, none is collected.
    pub fn objects(&self) -> Result<Arc<dyn Objects>, Error> {
        Ok(block_on(self.backend.objects())?)
    }

    /// The same store, with another time to wait for a session that somebody else writes.
    #[must_use]
    pub fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// As much of a session's short id as no other session shares.
    pub fn short_id(&self, session: SessionId) -> Result<String, Error> {
        self.backend.short_id(session)
    }

    /// Makes a session without opening it; with a key that is known, gives the session that has it.
    pub fn make(&self, session: NewSession) -> Result<SessionId, Error> {
        Ok(block_on(self.backend.create(self.placed(session)))?)
    }

    /// Makes a session that goes on from a place in another one's past, without opening it: right
    /// behind event `at`, or behind the last acknowledged one. The past is shared, not copied. What
    /// the new session is not told it has from the other; with a key that is known, the session
    /// that has it is given.
    ///
    /// ```
    /// use abide::{Message, NewSession, SessionRef, Store};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let store = Store::open_or_init(dir.path())?;
    /// let session = store.create(NewSession::titled("one way"))?;
    /// session.append(Message::user("hello"))?.wait()?;
    /// let place = session.view().resolve("@3")?;
    /// let parent = SessionRef::Id(session.id());
    /// let fork = store.fork(&parent, Some(place.seq), NewSession::titled("another way"))?;
    /// let fork = store.open_session(&SessionRef::Id(fork))?;
    /// assert_eq!(fork.state()?.core.messages.total, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fork(
        &self,
        session: &SessionRef,
        at: Option<Seq>,
        new: NewSession,
    ) -> Result<SessionId, Error> {
        let parent = block_on(self.backend.find(session))?;
        Ok(block_on(self.backend.fork(parent, at, self.placed(new)))?)
    }

    /// Which session is meant?
    pub fn find(&self, session: &SessionRef) -> Result<SessionId, Error> {
        Ok(block_on(self.backend.find(session))?)
    }

    /// Makes a session and opens it for writing.
    pub fn create(&self, session: NewSession) -> Result<Session, Error> {
        let id = self.make(session)?;
        Session::open(self, id, self.wait)
    }

    /// The session that has this client's key, made where there is none, open for writing.
    pub fn create_or_get(&self, key: &str, session: NewSession) -> Result<Session, Error> {
        self.create(session.with_key(key))
    }

    /// Opens a session for writing. Anybody else who wants to write to it waits or is refused.
    pub fn open_session(&self, session: &SessionRef) -> Result<Session, Error> {
        let id = block_on(self.backend.find(session))?;
        Session::open(self, id, self.wait)
    }

    /// Opens a session for reading, beside its writer or without one.
    pub fn view(&self, session: &SessionRef) -> Result<SessionView, Error> {
        let id = block_on(self.backend.find(session))?;
        Ok(SessionView::new(id, block_on(self.backend.read(id))?))
    }

    /// What the project is known by that the store was opened for; none where all are meant.
    #[must_use]
    pub fn projects(&self) -> &[String] {
        self.backend.projects()
    }

    /// The id of the project that a session was recorded in, where that is known.
    pub fn project_of(&self, session: SessionId) -> Result<Option<String>, Error> {
        self.backend.project_of(session)
    }

    /// The sessions that fit, with what was searched for and where it stands.
    pub fn history(&self, query: &HistoryQuery) -> Result<History, Error> {
        Ok(block_on(self.backend.history(query))?)
    }

    /// Every session, newest first.
    pub fn sessions(&self) -> Result<Vec<SessionSummary>, Error> {
        Ok(block_on(self.backend.list())?)
    }

    /// Makes a session without opening it, and tells whether it is new: of those who ask for the
    /// same key at once, one is told so.
    pub fn make_new(&self, session: NewSession) -> Result<Made, Error> {
        self.backend.create_new(self.placed(session))
    }

    /// As [`Store::fork`], of a session whose id is known, and tells whether the new one is new.
    pub fn fork_new(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<Made, Error> {
        self.backend.fork_new(parent, at, self.placed(session))
    }

    /// Deletes a session for good: one that nobody holds and that no other is a fork of. What could
    /// not be tidied up after it was gone is a note.
    pub fn delete_session(&self, session: SessionId) -> Result<Vec<String>, Error> {
        self.backend.delete_session(session)
    }

    /// What became of the writer of a session.
    pub fn liveness(&self, session: SessionId) -> Result<SessionLiveness, Error> {
        let none = || Err(StoreError::NoSession { reference: session.to_string() }.into());
        self.livenesses(&[session]).pop().unwrap_or_else(none)
    }

    /// What became of the writers of these sessions, each by itself.
    #[must_use]
    pub fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, Error>> {
        self.backend.livenesses(sessions)
    }

    /// Has somebody this session open for writing, as far as can be told cheaply?
    #[must_use]
    pub fn is_held(&self, session: SessionId) -> bool {
        self.backend.is_held(session)
    }

    /// Where the space went.
    pub fn disk_use(&self) -> Result<DiskUse, Error> {
        self.backend.disk_use()
    }

    /// What is let go, by the store's settings.
    #[must_use]
    pub fn retention(&self) -> Retention {
        self.backend.retention()
    }

    /// Writes a session with all its objects.
    pub fn export_bundle(
        &self,
        session: SessionId,
        out: &mut dyn Write,
    ) -> Result<BundleHeader, Error> {
        self.backend.export_bundle(session, out)
    }

    /// Says what an import would do.
    pub fn check_bundle(&self, bundle: Bundle<'_>) -> Result<Imported, Error> {
        self.backend.check_bundle(bundle)
    }

    /// Takes a session in, whole and checked, or not at all.
    pub fn import_bundle(&self, bundle: Bundle<'_>, wait: Duration) -> Result<Imported, Error> {
        self.import_bundle_of(bundle, None, wait)
    }

    /// Says what [`Store::import_bundle_of`] would do.
    pub(crate) fn check_bundle_of(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
    ) -> Result<Imported, Error> {
        self.backend.check_bundle_of(bundle, project)
    }

    /// As [`Store::import_bundle`]: a session that is new here and names no project is put into this
    /// one, else into the one that the store was opened for.
    pub(crate) fn import_bundle_of(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
        wait: Duration,
    ) -> Result<Imported, Error> {
        let imported = self.backend.import_bundle_of(bundle, project, wait)?;
        if matches!(imported.outcome, ImportOutcome::Forwarded { .. }) {
            self.forget_runs(imported.bundle.session);
        }
        Ok(imported)
    }

    /// Erases the data of these events, all of the session's own. A writer is waited for so long.
    pub fn erase_payloads(
        &self,
        session: SessionId,
        seqs: &[Seq],
        wait: Duration,
    ) -> Result<Erased, Error> {
        self.backend.erase_payloads(session, seqs, wait)
    }

    /// Brings the transcript of a session up to date, where the store keeps one.
    pub fn update_transcript(&self, session: SessionId) -> Result<(), Error> {
        self.backend.update_transcript(session)
    }
}

/// The directory of a store of files that may be used.
fn files(place: Place) -> Result<PathBuf, Error> {
    match &place.store {
        Where::Files(root) => {
            check_accepted(&place, &Trust::of_process(), Some(&own_consent()))?;
            Ok(root.clone())
        }
        Where::Shared(url) => {
            Err(Error::OnlyFiles { what: "opening by directory", place: url.to_string() })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use abide_testkit::MemoryStore;

    use super::*;

    #[test]
    fn no_id_is_put_where_no_store_can_be_made() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let (root, project) = (home.join("store"), home.join("project"));
        for dir in [&root, &project] {
            fs::create_dir(dir).unwrap();
        }
        fs::write(root.join("config.toml"), "version = 99\n").unwrap();
        let person = Person::by(|_| None, || Some(home));
        let place = Place {
            store: Where::Files(root.clone()),
            project: project.clone(),
            scope: Scope::Project,
            elsewhere: None,
        };
        let open = || Store::for_recording(&place, &project, &person, Options::default());
        open().unwrap_err();
        assert!(!root.join("projects").exists());
        fs::remove_file(root.join("config.toml")).unwrap();
        assert_eq!(open().unwrap().projects(), open().unwrap().projects());
        assert_eq!(open().unwrap().projects().len(), 1);
    }

    #[test]
    fn what_is_derived_is_kept_where_nobody_else_can_write() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = [(), ()].map(|()| Store::over(Arc::new(MemoryStore::default())));
        let place = |store: &Store| {
            let cache = store.stat_cache(dir.path()).unwrap();
            cache.parent().unwrap().to_owned()
        };
        let own = place(&one);
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        assert_ne!(own, std::env::temp_dir().join("abide-cache"), "anybody may have made that");
        assert_ne!(own, place(&other));
        assert_eq!(own, place(&one.clone()));
        drop(one);
        assert!(!own.exists(), "it goes with whoever needed it");
    }

    #[test]
    fn a_directory_leads_to_no_place_that_its_user_has_not_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let (project, outside) = (dir.path().join("project"), dir.path().join("outside"));
        fs::create_dir(&project).unwrap();
        LocalStore::init(&outside, Options::default()).unwrap();
        fs::write(project.join(".abide"), "../outside\n").unwrap();
        for refused in [Store::open(&project), Store::open_or_init(&project)] {
            assert!(matches!(refused, Err(Error::NotAccepted { .. })), "{refused:?}");
        }
    }
}
