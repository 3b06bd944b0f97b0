//! A writer of a session that another process may hold.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_model::{SessionId, SessionReader, SessionWriter, StoreError};

use super::relayed_writer::connect_relay_client;
use super::socket_node::NodeConnectRefusal;

/// How long a live holder may take to answer before it is asked again.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

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
