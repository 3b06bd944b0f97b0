//! The liveness of a session's writer. Reads only.
//!
//! A current lease shows a live writer on any machine. For a writer on this machine the process is
//! checked as well, so that a crash is noticed at once.

use abide_journal::SessionProcesses;
use abide_model::{
    Liveness, LivenessEvidence, LockObservation, ProcessObservation, SessionId, SessionLiveness,
    SessionState, StoreError,
};

use crate::lease::LeaseStatus;
use crate::postgres_reader::PostgresReader;
use crate::postgres_store::PostgresStore;

impl PostgresStore {
    /// The liveness of the writers of these sessions, each on its own.
    pub fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, StoreError>> {
        let mut processes = None;
        let one = |session: &SessionId| {
            let reader = self.reader(*session)?;
            let mut found = self.check_liveness(reader, None)?;
            if found.liveness == Liveness::Crashed {
                let processes = processes.get_or_insert_with(SessionProcesses::scan);
                found.orphans = processes.of(*session, found.fields.key.as_deref());
            }
            Ok(found)
        };
        sessions.iter().map(one).collect()
    }

    /// Whether a writer holds the lease of this session.
    #[must_use]
    pub fn is_held(&self, session: SessionId) -> bool {
        let reader = self.reader(session);
        let seen = reader.and_then(|reader| self.lease_of(&reader));
        seen.is_ok_and(|seen| seen.is_held(&self.options().env))
    }

    fn lease_of(&self, reader: &PostgresReader) -> Result<LeaseStatus, StoreError> {
        let (server, sid) = (self.server().clone(), reader.known.sid);
        self.server().block(async move {
            server
                .ask("look at a session of", |client| {
                    Box::pin(async move { LeaseStatus::look(&client, sid).await })
                })
                .await
        })
    }

    /// The liveness of the writer of a session with this state.
    pub(crate) fn liveness_of(
        &self,
        reader: PostgresReader,
        state: &SessionState,
    ) -> Result<SessionLiveness, StoreError> {
        let session = reader.session;
        let mut found = self.check_liveness(reader, Some(state))?;
        if found.liveness == Liveness::Crashed {
            found.orphans = SessionProcesses::scan().of(session, found.fields.key.as_deref());
        }
        Ok(found)
    }

    /// `state` is the session's, where it is known already.
    fn check_liveness(
        &self,
        reader: PostgresReader,
        state: Option<&SessionState>,
    ) -> Result<SessionLiveness, StoreError> {
        let env = &self.options().env;
        // The lease first, so that a writer that came after it is not taken for one that is gone.
        let lease = self.lease_of(&reader)?;
        let session = reader.session;
        let read;
        let state = match state {
            Some(state) => state,
            None => {
                read = self.server().block(async move { reader.end().await })?.state;
                &read
            }
        };
        let process = lease.process(env).unwrap_or(ProcessObservation::Unknown);
        let now = (env.now)();
        let beat = i64::try_from(lease.age.as_millis()).unwrap_or(i64::MAX);
        let beat = abide_model::Timestamp::from_millis(now.as_millis().saturating_sub(beat));
        let free = !lease.is_held(env);
        let evidence = LivenessEvidence {
            lock: if free { LockObservation::Free } else { LockObservation::Held },
            holder: lease
                .holder
                .map(|holder| abide_model::WriterHolder { beat: Some(beat), ..holder }),
            process,
            host: env.holder.host.clone(),
            boot: env.boot.clone(),
            now,
            writing: state.core.writing,
            status: state.core.status,
        };
        Ok(SessionLiveness::of(session, evidence.judge(), evidence, state))
    }
}
