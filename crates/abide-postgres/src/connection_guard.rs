//! Connections over which no password is sent in clear.
//!
//! PostgreSQL's client sends the password in clear to any server that asks for it, encrypted or
//! not. Here, a server that asks for it over an unencrypted connection is refused before the client
//! sees the request, unless the server is on this machine. Therefore encryption is negotiated here
//! too: the client is told to use TLS directly, and gets a stream that is encrypted or not.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_postgres::config::{Host, SslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{Config, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

type EncryptedStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Asks the server for encryption: the length, and a number that is not a version.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Why a connection is refused on purpose: do not retry.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionRefusal {
    #[error("the server asks for the password in clear over an unencrypted connection")]
    ClearPassword,
    #[error("the server does not support encryption")]
    NotEncrypted,
}

impl ConnectionRefusal {
    /// The refusal that caused an error.
    pub(crate) fn behind<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if let Some(refusal) = inner.and_then(|inner| inner.downcast_ref()) {
                return Some(refusal);
            }
            cause = error.source();
        }
        None
    }
}

/// Makes connections.
#[derive(Clone)]
pub(crate) struct ConnectionGuard {
    tls: Option<MakeRustlsConnect>,
    mode: SslMode,
    negotiation: SslNegotiation,
    /// Whether the traffic stays on this machine.
    near: bool,
}

impl ConnectionGuard {
    /// A guard for these servers. Changes the configuration so that every network connection is
    /// made here.
    pub(crate) fn over(config: &mut Config, tls: Option<MakeRustlsConnect>) -> Self {
        let (mode, negotiation) = (config.get_ssl_mode(), config.get_ssl_negotiation());
        let guard = Self { tls, mode, negotiation, near: is_near_host(config) };
        if !is_socket(config) {
            config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        }
        guard
    }
}

/// Whether all hosts are Unix sockets.
pub(crate) fn is_socket(config: &Config) -> bool {
    let socket = |host: &Host| matches!(host, Host::Unix(_));
    config.get_hostaddrs().is_empty() && config.get_hosts().iter().all(socket)
}

/// Whether the traffic to all hosts stays on this machine.
fn is_near_host(config: &Config) -> bool {
    let near = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
    };
    // An address takes precedence over the name.
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().all(near),
        addresses => addresses.iter().all(IpAddr::is_loopback),
    }
}

impl MakeTlsConnect<Socket> for ConnectionGuard {
    type Stream = GuardedStream;
    type TlsConnect = GuardedConnector;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<GuardedConnector> {
        Ok(GuardedConnector { guard: self.clone(), host: host.to_owned() })
    }
}

/// A connection to a host that is about to be made.
pub(crate) struct GuardedConnector {
    guard: ConnectionGuard,
    host: String,
}

impl TlsConnect<Socket> for GuardedConnector {
    type Stream = GuardedStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<GuardedStream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(self.settle(socket))
    }
}

impl GuardedConnector {
    /// Negotiates encryption, if it is wanted and the server supports it.
    async fn settle(self, mut socket: Socket) -> io::Result<GuardedStream> {
        let ConnectionGuard { tls, mode, negotiation, near } = self.guard;
        let plain =
            |socket| GuardedStream::Plain { socket, greeting: GuardedGreeting::watched(!near) };
        let Some(mut tls) = tls.filter(|_| mode != SslMode::Disable) else {
            return Ok(plain(socket));
        };
        if negotiation != SslNegotiation::Direct {
            socket.write_all(&SSL_REQUEST).await?;
            // Not a byte more: what follows is encrypted.
            let mut answer = [0];
            socket.read_exact(&mut answer).await?;
            if answer != *b"S" {
                return match mode {
                    SslMode::Prefer => Ok(plain(socket)),
                    _ => Err(io::Error::other(ConnectionRefusal::NotEncrypted)),
                };
            }
        }
        let connect = MakeTlsConnect::<Socket>::make_tls_connect(&mut tls, &self.host);
        let connect = connect.map_err(io::Error::other)?;
        let stream = TlsConnect::<Socket>::connect(connect, socket).await?;
        Ok(GuardedStream::Encrypted(Box::new(stream)))
    }
}

/// The server's messages until the client is authenticated.
#[derive(Debug)]
pub(crate) struct GuardedGreeting {
    /// The head of the current message: its type, its length, and what it asks for.
    head: Vec<u8>,
    /// How many bytes of it are still to come.
    rest: u64,
    /// Whether messages are still watched.
    watched: bool,
}

impl GuardedGreeting {
    const fn watched(watched: bool) -> Self {
        Self { head: Vec::new(), rest: 0, watched }
    }

    /// Parses bytes from the server; fails if it asks for a password in clear.
    fn hear(&mut self, bytes: &[u8]) -> Result<(), ConnectionRefusal> {
        for byte in bytes {
            if !self.watched {
                break;
            }
            if self.rest > 0 {
                self.rest -= 1;
                continue;
            }
            self.head.push(*byte);
            match *self.head {
                // What a message asks for comes after its length.
                [b'R', a, b, c, d, ..] if self.head.len() == 9 => {
                    match self.head.last_chunk::<4>() {
                        Some([0, 0, 0, 0]) => self.watched = false,
                        Some([0, 0, 0, 3]) => return Err(ConnectionRefusal::ClearPassword),
                        _ => {}
                    }
                    self.go_on(u32::from_be_bytes([a, b, c, d]), 8);
                }
                [kind, a, b, c, d] if kind != b'R' => {
                    self.go_on(u32::from_be_bytes([a, b, c, d]), 4);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Skips the rest of a message after `read` bytes.
    fn go_on(&mut self, length: u32, read: u32) {
        self.rest = u64::from(length.saturating_sub(read));
        self.head.clear();
    }
}

/// A connection: encrypted, or watched for what the server asks for.
pub(crate) enum GuardedStream {
    Encrypted(Box<EncryptedStream>),
    Plain { socket: Socket, greeting: GuardedGreeting },
}

impl TlsStream for GuardedStream {
    fn channel_binding(&self) -> ChannelBinding {
        match self {
            Self::Encrypted(stream) => stream.channel_binding(),
            Self::Plain { .. } => ChannelBinding::none(),
        }
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Encrypted(stream) => Pin::new(&mut **stream).poll_read(context, buffer),
            Self::Plain { socket, greeting } => {
                let before = buffer.filled().len();
                ready!(Pin::new(socket).poll_read(context, buffer))?;
                let new = buffer.filled().get(before..).unwrap_or_default();
                Poll::Ready(greeting.hear(new).map_err(io::Error::other))
            }
        }
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Encrypted(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
            Self::Plain { socket, .. } => Pin::new(socket).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Encrypted(stream) => Pin::new(&mut **stream).poll_flush(context),
            Self::Plain { socket, .. } => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Encrypted(stream) => Pin::new(&mut **stream).poll_shutdown(context),
            Self::Plain { socket, .. } => Pin::new(socket).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn asks(code: u32) -> Vec<u8> {
        message(b'R', &[&code.to_be_bytes()[..], b"salt"].concat())
    }

    #[test]
    fn a_server_that_asks_for_a_password_in_clear_is_heard_however_it_says_it() {
        let notice = message(b'N', b"R\0\0\0\x08\0\0\0\x03");
        for (before, code, clear) in [
            (Vec::new(), 3, true),
            (notice.clone(), 3, true),
            (message(b'N', b""), 3, true),
            (asks(10), 3, true),
            (notice.clone(), 5, false),
            (asks(10), 12, false),
        ] {
            let all = [before, asks(code)].concat();
            for size in 1..=all.len() {
                let mut greeting = GuardedGreeting::watched(true);
                let heard = all.chunks(size).try_for_each(|part| greeting.hear(part));
                assert_eq!(heard.is_err(), clear, "{code} in parts of {size}");
            }
            assert!(GuardedGreeting::watched(false).hear(&all).is_ok(), "on this machine");
        }
        // Once the client is in, what comes is data.
        let mut greeting = GuardedGreeting::watched(true);
        greeting.hear(&message(b'R', &[0; 4])).unwrap();
        greeting.hear(&asks(3)).unwrap();
    }

    #[test]
    fn what_stays_on_this_machine_is_told_by_the_address_that_is_used() {
        for (url, near) in [
            ("postgres://localhost/d", true),
            ("postgres://127.0.0.1,[::1]/d", true),
            ("postgres://127.0.0.1,db.example.org/d", false),
            ("postgres://db.example.org/d", false),
            ("postgres://localhost.example.org/d", false),
            ("postgres://0.0.0.0/d", false),
            ("postgres://localhost/d?hostaddr=192.0.2.1", false),
            ("postgres://db.example.org/d?hostaddr=127.0.0.1", true),
            ("postgres:///d?host=/run", true),
            ("postgres:///d?host=/run&hostaddr=192.0.2.1", false),
        ] {
            assert_eq!(is_near_host(&url.parse().unwrap()), near, "{url}");
        }
    }
}
