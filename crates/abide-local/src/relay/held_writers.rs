//! The writers that a store has handed out.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use abide_model::{SessionId, SessionReader, SessionWriter, StoreError};

use super::child_socket::{ChildBatchCallback, LocalChildSocket};
use super::relayed_writer::connect_relay_client;
use super::socket_node::NodeConnectRefusal;
use crate::error::storage_error;

/// How long a live holder may take to answer before it is asked again.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// The writers that were handed out and may still exist.
#[derive(Default)]
pub struct HeldWriters(Mutex<HashMap<SessionId, Weak<dyn SessionWriter>>>);

impl std::fmt::Debug for HeldWriters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldWriters").finish_non_exhaustive()
    }
}

impl HeldWriters {
    /// Remembers the writer of a session, so that its children can be served.
    pub fn hold(
        &self,
        session: SessionId,
        writer: Arc<dyn SessionWriter>,
    ) -> Arc<dyn SessionWriter> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, writer| writer.strong_count() > 0);
        held.insert(session, Arc::downgrade(&writer));
        writer
    }

    /// Serves the children of this process at a socket, for a session that it holds.
    pub fn serve(
        &self,
        path: &Path,
        session: SessionId,
        seen: Box<ChildBatchCallback>,
    ) -> Result<LocalChildSocket, StoreError> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = held.get(&session).and_then(Weak::upgrade);
        drop(held);
        let not_held = || std::io::Error::other("this process does not hold the session");
        let writer = writer.ok_or_else(|| storage_error("listen at", path)(not_held()))?;
        LocalChildSocket::new(path, session, &writer, seen)
    }
}

/// A writer through the process that holds the session and listens at this socket, or that of `own`
/// if none does. Which of the two applies may change while waiting. `own` must not block.
pub fn write_through_holder(
    path: &Path,
    reader: &Arc<dyn SessionReader>,
    session: SessionId,
    wait: Duration,
    own: impl Fn() -> Result<Arc<dyn SessionWriter>, StoreError>,
) -> Result<Arc<dyn SessionWriter>, StoreError> {
    let until = Instant::now().checked_add(wait);
    let mut pause = Duration::from_millis(1);
    loop {
        let held = match connect_relay_client(path, session, reader.clone(), ANSWER_WAIT) {
            Ok(writer) => return Ok(Arc::new(writer)),
            // Whoever left that socket need not hold the session.
            Err(NodeConnectRefusal::Failed(error)) => {
                return match own() {
                    Err(StoreError::Held { .. }) => Err(error),
                    own => own,
                };
            }
            // A busy holder may still have the session, or may have released it.
            Err(NodeConnectRefusal::Engaged | NodeConnectRefusal::Nobody) => match own() {
                Ok(writer) => return Ok(writer),
                Err(held @ StoreError::Held { .. }) => held,
                Err(error) => return Err(error),
            },
        };
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(held);
        }
        std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
