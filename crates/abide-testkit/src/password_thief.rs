//! A hostile server: it speaks just enough of PostgreSQL's protocol to ask for a password in clear,
//! and keeps what it is given.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The number in a request for encryption, in the place of a version.
const SSL_REQUEST: u32 = 80_877_103;
/// A password in clear, please.
const ASK: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];
/// It was wrong.
const WRONG: &[u8] = b"SFATAL\0C28P01\0Mpassword authentication failed\0\0";

/// The server, on a port of loopback. It ends when it is dropped.
#[derive(Debug)]
pub struct PasswordThief {
    address: SocketAddr,
    loot: Arc<Mutex<Loot>>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Loot {
    ended: bool,
    connections: usize,
    passwords: Vec<String>,
}

impl PasswordThief {
    /// Starts to listen.
    ///
    /// # Panics
    ///
    /// When there is no free port on loopback.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let loot = Arc::new(Mutex::new(Loot::default()));
        let theirs = Arc::clone(&loot);
        let accepting = thread::spawn(move || accept(&listener, &theirs));
        Self { address, loot, accepting: Some(accepting) }
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many have connected.
    #[must_use]
    pub fn connections(&self) -> usize {
        lock(&self.loot).connections
    }

    /// What it was given.
    #[must_use]
    pub fn passwords(&self) -> Vec<String> {
        lock(&self.loot).passwords.clone()
    }
}

impl Drop for PasswordThief {
    fn drop(&mut self) {
        lock(&self.loot).ended = true;
        // It waits for whoever comes next.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn lock(loot: &Mutex<Loot>) -> MutexGuard<'_, Loot> {
    loot.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, loot: &Arc<Mutex<Loot>>) {
    for stream in listener.incoming() {
        let mut all = lock(loot);
        if all.ended {
            return;
        }
        let Ok(stream) = stream else { continue };
        all.connections += 1;
        let loot = Arc::clone(loot);
        thread::spawn(move || {
            // Whoever goes away without a password has given none.
            let _ = ask(stream, &loot);
        });
    }
}

fn ask(mut stream: TcpStream, loot: &Mutex<Loot>) -> io::Result<()> {
    loop {
        let message = body(&mut stream)?;
        let number = message.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        if number != SSL_REQUEST {
            break;
        }
        stream.write_all(b"N")?;
    }
    stream.write_all(&ASK)?;
    stream.read_exact(&mut [0])?;
    let mut password = body(&mut stream)?;
    password.retain(|byte| *byte != 0);
    // Before it answers, so that whoever has its answer sees it.
    lock(loot).passwords.push(String::from_utf8_lossy(&password).into_owned());
    let length = (WRONG.len() as u32 + 4).to_be_bytes();
    stream.write_all(&[b"E", &length[..], WRONG].concat())
}

/// The rest of a message that begins with its length.
fn body(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut body = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4).min(1 << 16)];
    stream.read_exact(&mut body)?;
    Ok(body)
}
