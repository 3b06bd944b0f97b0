//! Accepts the children of a session's holder.

use std::collections::HashMap;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abide_model::{NewEvent, SessionId, SessionWriter, StoreError};
use rustix::event::{PollFd, PollFlags, poll};

use crate::error::storage_error;
use crate::relay::child_lines::LongLines;
use crate::relay::connection;
use crate::relay::relay_protocol::{BUSY, RelayRefusal, RelayWelcome, relay_protocol_line};
use crate::relay::socket_node::{SocketNode, own_user, peer_is_own_user};

/// The most children at a time.
pub(super) const CHILDREN: usize = 64;
/// The pause after accepting failed.
const PAUSE: Duration = Duration::from_millis(20);

/// Called with each batch that was recorded for a child.
pub type ChildBatchCallback = dyn Fn(&[NewEvent]) + Send + Sync;

/// The socket at which a session's holder writes for its children. Dropping it disconnects them and
/// removes the socket.
pub struct LocalChildSocket {
    shared: Arc<ChildSocketState>,
    /// Closed to wake the accepting thread.
    wake: Option<UnixStream>,
    accepting: Option<JoinHandle<()>>,
    /// Dropped last.
    _node: SocketNode,
}

impl std::fmt::Debug for LocalChildSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChildSocket").field("session", &self.shared.session).finish_non_exhaustive()
    }
}

/// What the threads share.
pub(super) struct ChildSocketState {
    pub(super) session: SessionId,
    /// Weak: the session's holder decides how long it lives.
    pub(super) writer: Weak<dyn SessionWriter>,
    pub(super) seen: Box<ChildBatchCallback>,
    pub(super) long_lines: LongLines,
    children: Mutex<ConnectedChildren>,
    /// The user that may connect.
    user: u32,
}

#[derive(Default)]
struct ConnectedChildren {
    connected: HashMap<u64, (Arc<UnixStream>, JoinHandle<()>)>,
    next: u64,
    /// When the holder began to close the session.
    stopped: Option<Instant>,
}

impl LocalChildSocket {
    /// Serves the children of the process that has this writer, at a path in a directory of this
    /// user. `seen` is called with each batch recorded for a child, before the child is answered;
    /// it must not block.
    pub fn new(
        path: &Path,
        session: SessionId,
        writer: &Arc<dyn SessionWriter>,
        seen: Box<ChildBatchCallback>,
    ) -> Result<Self, StoreError> {
        Self::for_user(path, session, writer, seen, own_user())
    }

    fn for_user(
        path: &Path,
        session: SessionId,
        writer: &Arc<dyn SessionWriter>,
        seen: Box<ChildBatchCallback>,
        user: u32,
    ) -> Result<Self, StoreError> {
        if writer.is_relayed() {
            let relayed = std::io::Error::other("another process holds the session");
            return Err(storage_error("listen at", path)(relayed));
        }
        let (node, listener) = SocketNode::bind(path)?;
        let (wake, woken) = UnixStream::pair().map_err(storage_error("listen at", path))?;
        listener.set_nonblocking(true).map_err(storage_error("listen at", path))?;
        let shared = Arc::new(ChildSocketState {
            session,
            writer: Arc::downgrade(writer),
            seen,
            long_lines: LongLines::default(),
            children: Mutex::default(),
            user,
        });
        let accepting = shared.clone();
        let accepting = std::thread::Builder::new()
            .name("abide children".to_owned())
            .spawn(move || accepting.accept(&listener, &woken))
            .map_err(storage_error("listen at", path))?;
        Ok(Self { shared, wake: Some(wake), accepting: Some(accepting), _node: node })
    }

    /// How many children are connected.
    #[must_use]
    pub fn children(&self) -> usize {
        self.shared.children().connected.len()
    }
}

impl Drop for LocalChildSocket {
    /// What has arrived is recorded, and answered if its child reads the answers soon. Afterwards
    /// nothing more is recorded for a child.
    fn drop(&mut self) {
        self.wake.take();
        let accepting = self.accepting.take();
        self.shared.long_lines.stop();
        let connected = {
            let mut children = self.shared.children();
            children.stopped = Some(Instant::now());
            std::mem::take(&mut children.connected)
        };
        for (stream, _) in connected.values() {
            let _ = stream.shutdown(Shutdown::Read);
        }
        let own = std::thread::current().id();
        let threads = accepting.into_iter().chain(connected.into_values().map(|(_, one)| one));
        // Through `seen`, one of these threads may own the last reference to this socket.
        for thread in threads.filter(|thread| thread.thread().id() != own) {
            let _ = thread.join();
        }
    }
}

impl ChildSocketState {
    /// When the holder began to close the session.
    pub(super) fn stopped(&self) -> Option<Instant> {
        self.children().stopped
    }

    fn children(&self) -> MutexGuard<'_, ConnectedChildren> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &UnixListener, woken: &UnixStream) {
        loop {
            let mut wanted =
                [PollFd::new(listener, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
            let waited = poll(&mut wanted, None);
            let [_, stop] = wanted;
            if !stop.revents().is_empty() {
                return;
            }
            match waited.map_err(std::io::Error::from).and_then(|_| listener.accept()) {
                Ok((stream, _)) => self.let_in(stream),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // Out of some resource: the waiting children are accepted when it is available
                // again.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn let_in(self: &Arc<Self>, stream: UnixStream) {
        let refusal = match peer_is_own_user(&stream, self.user) {
            Ok(true) if self.children().connected.len() >= CHILDREN => {
                RelayRefusal::new(BUSY, format!("{CHILDREN} processes are already connected"))
            }
            Ok(true) => return self.start(stream),
            Ok(false) => {
                RelayRefusal::new("other_user", "only processes of the same user may connect")
            }
            Err(_) => return,
        };
        // Never blocks: there is room for one line, or the child is dropped without a message.
        let _ = stream.set_nonblocking(true);
        let welcome = RelayWelcome { error: Some(refusal), ..RelayWelcome::default() };
        let _ = (&stream).write_all(relay_protocol_line(&welcome).as_bytes());
    }

    fn start(self: &Arc<Self>, stream: UnixStream) {
        // On some systems an accepted socket inherits the non-blocking mode.
        if stream.set_nonblocking(false).is_err() {
            return;
        }
        let stream = Arc::new(stream);
        // Locked until the thread is in the list; it removes itself.
        let mut children = self.children();
        if children.stopped.is_some() {
            return;
        }
        let number = children.next;
        children.next += 1;
        let (shared, its) = (self.clone(), stream.clone());
        let started = std::thread::Builder::new().name("abide child".to_owned()).spawn(move || {
            let _leave = ConnectedChildGuard { shared: &shared, number };
            // An error concerns only the child, which sees that the connection has ended.
            let _ = connection::serve_relay_connection(&shared, &its);
            let _ = its.shutdown(Shutdown::Both);
        });
        if let Ok(thread) = started {
            children.connected.insert(number, (stream, thread));
        }
    }

    pub(super) fn writer(&self) -> Option<Arc<dyn SessionWriter>> {
        self.writer.upgrade()
    }

    pub(super) fn welcome(&self) -> Option<RelayWelcome> {
        let writer = self.writer()?;
        let version = super::relay_protocol::VERSION;
        Some(RelayWelcome { abide: Some(version), epoch: Some(writer.epoch()), error: None })
    }
}

/// Removes a child from the list, even if its thread panicked.
struct ConnectedChildGuard<'a> {
    shared: &'a ChildSocketState,
    number: u64,
}

impl Drop for ConnectedChildGuard<'_> {
    fn drop(&mut self) {
        self.shared.children().connected.remove(&self.number);
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::Read;

    use abide_model::{NewSession, Store};

    use super::*;
    use crate::{LocalOptions, LocalStore};

    #[test]
    fn a_process_of_another_user_is_not_let_in() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::init(dir.path(), LocalOptions::default()).unwrap();
        let id = store.create(NewSession::default()).unwrap().id;
        let path = store.layout_of(id).unwrap().socket();
        let writer = store.write(id, Duration::ZERO).unwrap();
        // Here it is the holder that is of another user.
        let socket =
            LocalChildSocket::for_user(&path, id, &writer, Box::new(|_| ()), own_user() + 1)
                .unwrap();
        let mut heard = String::new();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.read_to_string(&mut heard).unwrap();
        assert!(heard.contains(r#""code":"other_user""#), "{heard}");
        assert_eq!(socket.children(), 0);
        let options = LocalOptions { child_of: Some(id), ..LocalOptions::default() };
        let child = LocalStore::open(dir.path(), options).unwrap();
        let refused = child.write(id, Duration::ZERO).map(|_| ()).unwrap_err();
        assert!(matches!(refused, StoreError::Storage { .. }), "{refused:?}");
        drop(socket);
        let own = LocalChildSocket::new(&path, id, &writer, Box::new(|_| ())).unwrap();
        child.write(id, Duration::ZERO).unwrap();
        drop(own);
    }
}
