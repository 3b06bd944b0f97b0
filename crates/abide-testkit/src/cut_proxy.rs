//! A bad network: a proxy on loopback in front of a server, that cuts connections at the byte that
//! it is told, refuses them, or lets them hang.
//!
//! What goes wrong is said by the caller, who may draw it from a [`Random`](crate::Random): the proxy
//! decides nothing.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// A write to one who does not read looks so often whether the connection was cut.
const LOOK: Duration = Duration::from_millis(50);

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// A proxy. Connections end when it is dropped.
#[derive(Debug)]
pub struct CutProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Something was let go: what is held, or a connection.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ended: bool,
    refuses: bool,
    holds: bool,
    to_server: Flow,
    to_client: Flow,
    accepted: u64,
    cuts: u64,
    open: Vec<Arc<Connection>>,
}

/// The bytes in one direction, of all connections.
#[derive(Debug, Default)]
struct Flow {
    passed: u64,
    /// How many more may pass before one is cut.
    left: Option<u64>,
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    cut: Mutex<bool>,
}

impl CutProxy {
    /// A proxy in front of the server at this address, which need not be there yet.
    ///
    /// # Panics
    ///
    /// When there is no free port on loopback.
    #[must_use]
    pub fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let accepting = thread::spawn(move || accept(&listener, server, &theirs));
        Self { address, shared, accepting: Some(accepting) }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts a connection once so many further bytes have passed in a direction, over whichever
    /// connections: the one that would carry the next byte. Takes the place of an earlier call for
    /// the same direction.
    pub fn cut_after(&self, bytes: u64, direction: Direction) {
        self.shared.lock().flow(direction).left = Some(bytes);
    }

    /// Cuts all connections, now.
    pub fn cut_all(&self) {
        let mut state = self.shared.lock();
        for connection in std::mem::take(&mut state.open) {
            state.cuts += u64::from(connection.cut());
        }
        self.shared.changed.notify_all();
    }

    /// From now on new connections are closed at once, or taken again.
    pub fn refuse(&self, refuse: bool) {
        self.shared.lock().refuses = refuse;
    }

    /// From now on no byte passes, in either direction, or all those that were held do.
    pub fn hold(&self, hold: bool) {
        self.shared.lock().holds = hold;
        self.shared.changed.notify_all();
    }

    /// How many bytes have passed in a direction.
    #[must_use]
    pub fn passed(&self, direction: Direction) -> u64 {
        self.shared.lock().flow(direction).passed
    }

    /// How many connections were made to the server.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.lock().accepted
    }

    /// How many connections were cut.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.shared.lock().cuts
    }
}

impl Drop for CutProxy {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.cut_all();
        // It waits for a connection.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many of `wanted` bytes may pass now. Waits while bytes are held. None may pass where the
    /// connection is cut, or is so by this.
    fn take(&self, connection: &Arc<Connection>, direction: Direction, wanted: usize) -> usize {
        let mut state = self.lock();
        while state.holds && !connection.is_cut() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if connection.is_cut() {
            return 0;
        }
        let flow = state.flow(direction);
        let allowed = flow.left.map_or(wanted as u64, |left| left.min(wanted as u64));
        flow.passed += allowed;
        flow.left = flow.left.map(|left| left - allowed);
        if allowed == 0 {
            flow.left = None;
            state.forget(connection);
            state.cuts += u64::from(connection.cut());
        }
        usize::try_from(allowed).unwrap_or(wanted)
    }
}

impl State {
    fn flow(&mut self, direction: Direction) -> &mut Flow {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    fn forget(&mut self, connection: &Arc<Connection>) {
        self.open.retain(|open| !Arc::ptr_eq(open, connection));
    }
}

impl Connection {
    fn is_cut(&self) -> bool {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has both ends reset when the last thread lets go of them. Was it whole until now?
    fn cut(&self) -> bool {
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        for socket in [&self.client, &self.server] {
            reset_at_close(socket);
            // Wakes who reads it; nothing is sent.
            let _ = socket.shutdown(Shutdown::Read);
        }
        !std::mem::replace(&mut *cut, true)
    }
}

/// Closing is then a reset: what is under way is lost.
fn reset_at_close(socket: &TcpStream) {
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
}

fn accept(listener: &TcpListener, server: SocketAddr, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let Ok(client) = client else { continue };
        let refuses = {
            let state = shared.lock();
            if state.ended {
                return;
            }
            state.refuses
        };
        let server = if refuses { None } else { TcpStream::connect(server).ok() };
        let Some(server) = server else {
            reset_at_close(&client);
            continue;
        };
        for socket in [&client, &server] {
            let _ = socket.set_nodelay(true);
            let _ = socket.set_write_timeout(Some(LOOK));
        }
        let connection = Arc::new(Connection { client, server, cut: Mutex::new(false) });
        {
            let mut state = shared.lock();
            if state.ended {
                return;
            }
            state.accepted += 1;
            state.open.push(Arc::clone(&connection));
        }
        let both = Arc::new(());
        for direction in [Direction::ToServer, Direction::ToClient] {
            let (shared, connection) = (Arc::clone(shared), Arc::clone(&connection));
            let both = Arc::clone(&both);
            thread::spawn(move || {
                pass(&shared, &connection, direction);
                if Arc::into_inner(both).is_some() {
                    shared.lock().forget(&connection);
                }
            });
        }
    }
}

/// Passes bytes in one direction until there are no more, or the connection is cut.
fn pass(shared: &Shared, connection: &Arc<Connection>, direction: Direction) {
    let (mut from, to) = match direction {
        Direction::ToServer => (&connection.client, &connection.server),
        Direction::ToClient => (&connection.server, &connection.client),
    };
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => {
                connection.cut();
                return;
            }
        };
        if read == 0 {
            if !connection.is_cut() {
                let _ = to.shutdown(Shutdown::Write);
            }
            return;
        }
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            let allowed = shared.take(connection, direction, rest.len());
            let (now, later) = rest.split_at(allowed);
            if allowed == 0 || write(connection, to, now).is_err() {
                connection.cut();
                return;
            }
            rest = later;
        }
    }
}

fn write(connection: &Connection, mut to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) && !connection.is_cut() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                thread::spawn(move || io::copy(&mut &stream, &mut &stream));
            }
        });
        address
    }

    fn connect(proxy: &CutProxy) -> TcpStream {
        TcpStream::connect(proxy.address()).unwrap()
    }

    /// What comes until the connection ends, and how it ends.
    fn read_all(mut stream: &TcpStream) -> (Vec<u8>, io::Result<()>) {
        let (mut read, mut buffer) = (Vec::new(), [0; 1024]);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return (read, Ok(())),
                Ok(count) => read.extend_from_slice(&buffer[..count]),
                Err(error) => return (read, Err(error)),
            }
        }
    }

    #[test]
    fn bytes_pass_both_ways_and_are_counted() {
        let proxy = CutProxy::before(echo());
        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| at as u8).collect();
        let stream = connect(&proxy);
        let mut writing = stream.try_clone().unwrap();
        let bytes = sent.clone();
        let writer = thread::spawn(move || {
            writing.write_all(&bytes).unwrap();
            writing.shutdown(Shutdown::Write).unwrap();
        });
        let (read, end) = read_all(&stream);
        writer.join().unwrap();
        end.unwrap();
        assert!(read == sent);
        assert_eq!(proxy.passed(Direction::ToServer), 1_000_000);
        assert_eq!(proxy.passed(Direction::ToClient), 1_000_000);
        assert_eq!((proxy.connections(), proxy.cuts()), (1, 0));
    }

    #[test]
    fn a_connection_is_cut_at_the_byte() {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let proxy = CutProxy::before(echo());
            let mut stream = connect(&proxy);
            stream.write_all(b"hello").unwrap();
            stream.read_exact(&mut [0; 5]).unwrap();
            proxy.cut_after(7, direction);
            stream.write_all(b"0123456789").unwrap();
            let (read, end) = read_all(&stream);
            assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
            assert!(b"0123456".starts_with(&read), "{read:?}");
            assert_eq!(proxy.passed(direction), 5 + 7);
            assert_eq!(proxy.cuts(), 1);
            // The next connection is whole.
            let mut stream = connect(&proxy);
            stream.write_all(b"0123456789").unwrap();
            stream.read_exact(&mut [0; 10]).unwrap();
        }
    }

    #[test]
    fn all_connections_are_cut() {
        let proxy = CutProxy::before(echo());
        let streams: Vec<TcpStream> = (0..3).map(|_| connect(&proxy)).collect();
        for mut stream in &streams {
            stream.write_all(b"x").unwrap();
            stream.read_exact(&mut [0; 1]).unwrap();
        }
        proxy.cut_all();
        for stream in &streams {
            assert!(read_all(stream).1.is_err());
        }
        assert_eq!(proxy.cuts(), 3);
    }

    #[test]
    fn connections_are_refused() {
        let proxy = CutProxy::before(echo());
        proxy.refuse(true);
        assert!(read_all(&connect(&proxy)).1.is_err());
        proxy.refuse(false);
        let mut stream = connect(&proxy);
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0; 1]).unwrap();
        assert_eq!(proxy.connections(), 1);
    }

    #[test]
    fn what_is_held_comes_later_or_never() {
        let proxy = CutProxy::before(echo());
        let mut stream = connect(&proxy);
        proxy.hold(true);
        stream.write_all(b"held").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(stream.read(&mut [0; 4]).is_err());
        assert_eq!(proxy.passed(Direction::ToServer), 0);
        proxy.hold(false);
        stream.set_read_timeout(None).unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
        proxy.hold(true);
        stream.write_all(b"lost").unwrap();
        proxy.cut_all();
        assert!(read_all(&stream).1.is_err());
    }

    #[test]
    fn without_a_server_there_is_no_connection() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let gone = listener.local_addr().unwrap();
        drop(listener);
        let proxy = CutProxy::before(gone);
        assert!(read_all(&connect(&proxy)).1.is_err());
        assert_eq!(proxy.connections(), 0);
    }
}
