//! Determines whether a session's writer is alive, and what it was doing. Read-only.

use std::time::Duration;

use abide_journal::{LockMode, SessionProcesses, Storage, process_seen};
use abide_model::{
    Liveness, LivenessEvidence, LivenessReason, LockObservation, ProcessObservation, SessionId,
    SessionLiveness, SessionState, StoreError, WriterHolder,
};

use crate::error::store_error;
use crate::sessions::heartbeat::holder_in;
use crate::sessions::local_store::LocalStore;
use crate::store_layout::SessionLayout;

/// How often to retry when writers come and go meanwhile.
const LOOKS: usize = 8;
/// The pause between retries.
const PAUSE: Duration = Duration::from_millis(1);

/// Checks whether the writers of sessions are alive.
#[derive(Debug)]
pub struct LivenessChecker<'a> {
    pub(crate) store: &'a LocalStore,
}

impl LivenessChecker<'_> {
    /// The liveness of a session's writer.
    pub fn check(&self, session: SessionId) -> Result<SessionLiveness, StoreError> {
        let mut found = self.check_all(&[session]);
        found.pop().unwrap_or_else(|| Err(StoreError::NoSession { reference: session.to_string() }))
    }

    /// The liveness of the writers of these sessions, each on its own.
    pub fn check_all(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, StoreError>> {
        let mut processes = None;
        let one = |session: &SessionId| {
            let mut found = self.look_for_writer(*session)?;
            if found.liveness == Liveness::Crashed {
                let processes = processes.get_or_insert_with(SessionProcesses::scan);
                found.orphans = processes.of(*session, found.fields.key.as_deref());
            }
            Ok(found)
        };
        sessions.iter().map(one).collect()
    }

    /// Whether somebody has this session open, as far as its lock tells.
    #[must_use]
    pub fn is_held(&self, session: SessionId) -> bool {
        self.store.layout_of(session).is_ok_and(|layout| {
            let holder = self.holder_at(&layout);
            self.lock_seen(&layout, holder.as_ref()) == LockObservation::Held
        })
    }

    fn look_for_writer(&self, session: SessionId) -> Result<SessionLiveness, StoreError> {
        let layout = self.store.layout_of(session)?;
        let reader = self.store.reader_at(session, &layout);
        let mut looks = 0;
        loop {
            looks += 1;
            let before = self.holder_at(&layout);
            let lock = self.lock_seen(&layout, before.as_ref());
            let state = reader.state_now().map_err(store_error)?;
            let holder = self.holder_at(&layout);
            let mut evidence = self.evidence(lock, holder, &state);
            let (liveness, reason) = evidence.judge();
            // Everything seen must have been true at one time. A writer names itself before it
            // writes: if somebody else is named now, or has the lock now, the state may be that
            // writer's, read before it closed.
            let moved = match liveness {
                Liveness::Crashed | Liveness::Stale => {
                    !same_liveness_tenure(before.as_ref(), evidence.holder.as_ref())
                        || self.lock_seen(&layout, evidence.holder.as_ref()) != lock
                }
                Liveness::Alive | Liveness::Idle => false,
            };
            // A process that has just taken the lock is not named yet.
            let unnamed =
                matches!(reason, LivenessReason::HeldUnseen | LivenessReason::HeldFromBefore);
            if (moved || unnamed) && looks < LOOKS {
                std::thread::sleep(PAUSE);
                continue;
            }
            if moved {
                // Somebody keeps opening and closing it.
                evidence.lock = LockObservation::Held;
                evidence.process = ProcessObservation::Unknown;
            }
            let (liveness, reason) = evidence.judge();
            return Ok(SessionLiveness::of(session, (liveness, reason), evidence, &state));
        }
    }

    fn evidence(
        &self,
        lock: LockObservation,
        holder: Option<WriterHolder>,
        state: &SessionState,
    ) -> LivenessEvidence {
        let env = &self.store.options().env;
        let process = holder.as_ref().map_or(ProcessObservation::Unknown, |holder| {
            process_seen(holder.process, holder.started)
        });
        LivenessEvidence {
            lock,
            holder,
            process,
            host: env.holder.host.clone(),
            boot: env.boot.clone(),
            now: (env.now)(),
            writing: state.core.writing,
            status: state.core.status,
        }
    }

    fn holder_at(&self, layout: &SessionLayout) -> Option<WriterHolder> {
        holder_in(&**self.store.storage(), &layout.lock())
    }

    /// Whether the lock is held. If nobody is named in its file, the file may not exist, and is not
    /// created for this.
    fn lock_seen(&self, layout: &SessionLayout, holder: Option<&WriterHolder>) -> LockObservation {
        let path = layout.lock();
        let storage: &dyn Storage = &**self.store.storage();
        if holder.is_none() && storage.modified(&path).is_err() {
            return LockObservation::Unknown;
        }
        match storage.lock(&path, LockMode::Shared) {
            Ok(Some(_)) => LockObservation::Free,
            Ok(None) => LockObservation::Held,
            Err(_) => LockObservation::Unknown,
        }
    }
}

/// Whether both name the same writer, since the same time.
fn same_liveness_tenure(a: Option<&WriterHolder>, b: Option<&WriterHolder>) -> bool {
    let tenure =
        |holder: &WriterHolder| (holder.process, holder.host.clone(), holder.started, holder.since);
    a.map(tenure) == b.map(tenure)
}
