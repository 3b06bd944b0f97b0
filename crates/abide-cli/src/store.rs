//! Finding the store and the session that a command is about, the same way for every command.

use std::path::{Component, Path, PathBuf};

use abide::{
    Consent, HalfWay, LaneId, LocalStore, NewEvent, NewSession, Options, ProjectIdentity, Session,
    SessionId, SessionRef, Store, StoreError, TaskId, Where,
};
use abide_transcript::escape;

use crate::commands::tell_left;
use crate::error::CommandError;
use crate::output::{status, warning};
use crate::progress;

/// What a command is told by its surroundings rather than by its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// Where it runs.
    pub(crate) current_dir: PathBuf,
    /// `--store`, else `ABIDE_STORE`; a path as it was given.
    pub(crate) store: Option<Where>,
    /// `--take-over`.
    pub(crate) take_over: bool,
    /// Where what is derived from shared stores is kept.
    pub(crate) cache: Option<PathBuf>,
    /// The file of the user's configuration.
    pub(crate) config: Option<PathBuf>,
    /// What this machine began and what its user accepted.
    pub(crate) consent: Consent,
    /// `ABIDE_SESSION`.
    pub(crate) session: Option<String>,
    /// `ABIDE_TASK`.
    pub(crate) task: Option<String>,
    /// `ABIDE_LANE`.
    pub(crate) lane: Option<String>,
    /// Where the user's own stores go.
    pub(crate) user_stores: Option<PathBuf>,
    /// `PAGER`.
    pub(crate) pager: Option<String>,
    /// May a terminal be given colours?
    pub(crate) colours: bool,
}

/// Which session a command is about.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SessionArg {
    /// The session: its id, its short id, or the start of either
    /// [default: $ABIDE_SESSION, else the latest]
    #[arg(value_name = "SESSION")]
    positional: Option<String>,
    /// The same, as an option
    #[arg(short, long, value_name = "SESSION", conflicts_with = "positional")]
    session: Option<String>,
}

/// Which session a command is about that has other arguments.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SessionOption {
    /// The session: its id, its short id, or the start of either
    /// [default: $ABIDE_SESSION, else the latest]
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
}

impl SessionOption {
    /// Finds the session; one that was not named is named on stderr.
    pub(crate) fn find(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<SessionId, CommandError> {
        let session = SessionArg { positional: None, session: self.session.clone() };
        session.find(opened, surroundings)
    }
}

/// Says that a rewind was cut off, where one was.
pub(crate) fn tell_half_way(session: &Session) -> Result<(), CommandError> {
    if session.core()?.0.restoring.is_some() {
        warning(
            "a rewind was cut off, and the files may be half-way: `abide rewind --finish` finishes it, \
             `abide undo` takes it back",
        );
    }
    Ok(())
}

/// Finishes a rewind that was cut off, where this machine has begun it, and says so; any other one is
/// offered.
pub(crate) fn finish_rewind(session: &Session) -> Result<(), CommandError> {
    let watch = abide::RewindWatch::default();
    match session.finish_rewind(&watch)? {
        HalfWay::None => Ok(()),
        HalfWay::Finished(done) => {
            let files = &done.files;
            status(format_args!(
                "A rewind was cut off; its files are put back now: {} created, {} changed, {} deleted",
                files.created, files.changed, files.deleted
            ));
            tell_left(files)
        }
        HalfWay::Left { seq, why } => {
            warning(format_args!(
                "the rewind at event {seq} was cut off, and its files may be half-way: {why}; \
                 `abide rewind --finish` shows what is left and finishes it, `abide undo` takes it back",
                why = escape::text(&why)
            ));
            Ok(())
        }
    }
}

impl SessionArg {
    /// The session that is named, by an argument or the environment.
    pub(crate) fn named(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<Option<SessionId>, CommandError> {
        let named = self.positional.as_ref().or(self.session.as_ref());
        named.or(surroundings.session.as_ref()).map(|named| opened.find(named)).transpose()
    }

    /// Finds the session; one that was not named is named on stderr.
    pub(crate) fn find(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<SessionId, CommandError> {
        if let Some(named) = self.named(opened, surroundings)? {
            return Ok(named);
        }
        let latest = opened.latest()?;
        tell_latest(latest);
        Ok(latest)
    }
}

/// Names a session that was not named.
pub(crate) fn tell_latest(latest: SessionId) {
    status(format_args!("Session {} (the latest)", latest.short(SessionId::SHORT)));
}

/// An open store.
#[derive(Debug)]
pub(crate) struct Opened {
    /// As the library sees it.
    pub(crate) store: Store,
    /// Where it is, as it is named to children.
    pub(crate) at: Where,
}

impl Opened {
    /// Where it is, for people.
    pub(crate) fn place(&self) -> String {
        self.store.place()
    }

    /// The newest session.
    pub(crate) fn latest(&self) -> Result<SessionId, CommandError> {
        self.store.find(&SessionRef::Latest).map_err(|error| match error {
            abide::Error::Store(StoreError::NoSession { .. }) => {
                CommandError::failed(format!("there is no session yet in {}", self.place()))
                    .with_hint("`abide new` makes one, and so does `abide record`")
            }
            error => error.into(),
        })
    }

    /// The session that goes by this id, short id or prefix.
    pub(crate) fn find(&self, named: &str) -> Result<SessionId, CommandError> {
        let found = self.store.find(&SessionRef::parse(named));
        found.map_err(|error| {
            let unknown = matches!(&error, abide::Error::Store(StoreError::NoSession { .. }));
            let error = CommandError::from(error);
            if unknown { error.with_hint(self.newest()) } else { error }
        })
    }

    fn newest(&self) -> String {
        let sessions = self.store.sessions().unwrap_or_default();
        let shorts: Vec<_> =
            sessions.iter().take(5).map(|session| session.short.as_str()).collect();
        if shorts.is_empty() {
            return format!("there are no sessions in {}", self.place());
        }
        format!("the newest sessions in {} are: {}", self.place(), shorts.join(", "))
    }

    /// Makes a session, or finds the one that has the key.
    pub(crate) fn make(&self, session: NewSession) -> Result<SessionId, CommandError> {
        Ok(self.store.make(session)?)
    }
}

impl Surroundings {
    /// How stores are opened: the session that this process was started for is written through
    /// whoever holds it.
    fn options(&self) -> Options {
        let (progress, child_of) = (progress::indexing(), self.child_of());
        Options { progress, child_of, ..Options::default() }
    }

    pub(crate) fn child_of(&self) -> Option<SessionId> {
        self.session.as_ref().and_then(|session| session.parse().ok())
    }

    /// Puts an event that does not say whose it is into the task and the lane that this process was
    /// started for. They are those of the session that it was started for, and of no other.
    pub(crate) fn place(&self, event: &mut NewEvent, session: SessionId) {
        let fits = |named: &String| {
            let id = session.to_string();
            let named = named.to_ascii_lowercase();
            id.starts_with(&named) || session.short(12).starts_with(&named)
        };
        if !self.session.as_ref().is_none_or(fits) {
            return;
        }
        if event.task.is_none() {
            event.task = self.task.clone().map(TaskId);
        }
        if event.lane.is_none() {
            event.lane = self.lane.clone().map(LaneId);
        }
    }

    /// The store that is there.
    pub(crate) fn open(&self) -> Result<Opened, CommandError> {
        let at = self.there()?;
        self.opened(at, LocalStore::open)
    }

    /// The store that is there, if one is. One that was named must be.
    pub(crate) fn find(&self) -> Result<Option<Opened>, CommandError> {
        match (self.located()?, &self.store) {
            (None, Some(Where::Files(named))) => Err(self.not_there(named)),
            (at, _) => at.map(|at| self.opened(at, LocalStore::open)).transpose(),
        }
    }

    /// The store that is there, if one is, named or not.
    pub(crate) fn find_target(&self) -> Result<Option<Opened>, CommandError> {
        self.located()?.map(|at| self.opened(at, LocalStore::open)).transpose()
    }

    /// The store that is there, or a new one in the project. One that was named must be there.
    pub(crate) fn open_or_init(&self) -> Result<Opened, CommandError> {
        let at = self.place_for_recording(&self.current_dir)?.store;
        let opened = self.opened(at.clone(), LocalStore::init)?;
        let known = || ProjectIdentity::of(&self.current_dir);
        if matches!(at, Where::Files(_)) || known()?.is_some() {
            return Ok(opened);
        }
        // What is recorded in a shared store is found again by the project.
        ProjectIdentity::for_recording(&self.current_dir)?;
        self.opened(at, LocalStore::init)
    }

    /// The store of files that is there, for `what`, which looks after no other.
    pub(crate) fn open_files(&self, what: &'static str) -> Result<Opened, CommandError> {
        let at = self.files_there(what)?;
        self.opened(at, LocalStore::open)
    }

    /// The same, to be examined and repaired: one with broken settings too.
    pub(crate) fn open_to_repair(&self, what: &'static str) -> Result<Opened, CommandError> {
        let at = self.files_there(what)?;
        self.opened(at, |root, _| LocalStore::open_to_repair(root, Options::default()))
    }

    /// Is it a shared store?
    pub(crate) fn is_shared(&self) -> Result<bool, CommandError> {
        Ok(matches!(self.there()?, Where::Shared(_)))
    }

    fn files_there(&self, what: &'static str) -> Result<Where, CommandError> {
        match self.there()? {
            Where::Shared(url) => {
                Err(abide::Error::OnlyFiles { what, place: url.to_string() }.into())
            }
            files @ Where::Files(_) => Ok(files),
        }
    }

    /// The store at a place, made where there is none. In a shared one, sessions that come in are
    /// of the project of `dir`.
    pub(crate) fn open_for(&self, at: Where, dir: &Path) -> Result<Opened, CommandError> {
        if let Where::Shared(_) = &at {
            ProjectIdentity::for_recording(dir)?;
        }
        let there = Self { current_dir: dir.to_owned(), session: None, ..self.clone() };
        there.opened(at, LocalStore::init)
    }

    /// The same surroundings with a store that an argument names, by a URL or a path.
    pub(crate) fn with_store(&self, named: &Path) -> Self {
        let store = match Where::from(named.to_owned()) {
            Where::Files(path) => Where::Files(self.absolute(&path)),
            shared @ Where::Shared(_) => shared,
        };
        Self { store: Some(store), session: None, ..self.clone() }
    }

    fn opened(
        &self,
        at: Where,
        open: impl FnOnce(&Path, Options) -> Result<LocalStore, StoreError>,
    ) -> Result<Opened, CommandError> {
        let store = match &at {
            Where::Files(root) => Store::local(open(root, self.options())?),
            Where::Shared(url) => self.connected(url)?,
        };
        Ok(Opened { store: store.with_consent(self.consent.clone()), at })
    }

    /// A path of the user's, seen from the root of a workspace; empty for the root itself.
    pub(crate) fn within(&self, path: &str, root: Option<&Path>) -> Result<String, CommandError> {
        let absolute = self.absolute(Path::new(path));
        let real = root.and_then(|root| root.canonicalize().ok());
        let roots = [root, real.as_deref()];
        let inside = roots.into_iter().flatten().find_map(|root| absolute.strip_prefix(root).ok());
        let inside =
            inside.filter(|inside| !inside.components().any(|part| part == Component::ParentDir));
        let inside = inside.map(|inside| inside.to_string_lossy().into_owned());
        inside.ok_or_else(|| {
            let root = root.map(|root| root.display().to_string()).unwrap_or_default();
            CommandError::failed(format!("{path} is not within the workspace {root}"))
                .with_hint("`--files` without a path takes all of them")
        })
    }

    /// A path of the user's, from the current directory.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        let joined = self.current_dir.join(path);
        // A search upward from `a/../b` must not pass through `a`.
        if joined.components().any(|part| part == Component::ParentDir)
            && let Ok(real) = joined.canonicalize()
        {
            return real;
        }
        // Without the `.` and the doubled slashes that people type.
        joined.components().collect()
    }
}

/// The name of a store in its project.
pub(crate) const NAME: &str = ".abide";

pub(crate) fn is_store_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == NAME)
}
