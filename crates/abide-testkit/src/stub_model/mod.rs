//! A model's server for tests, on the loopback address: it answers what a script says.
//!
//! It speaks as much of HTTP/1.1 as the clients of models need: one request a connection, answers
//! whole or as server-sent events, in the forms of OpenAI's Chat Completions (`…/chat/completions`)
//! and Responses (`…/responses`), of Anthropic's Messages (`…/messages`) and of Gemini's
//! `generateContent`. It can also do what servers do on bad days: refuse, hang, flood, break off,
//! talk nonsense.
//!
//! Dropping it ends every connection and every thread of it.

mod answer;
mod connection;
mod conversation;
mod events;
mod request;
mod tasks;
mod whole;

pub use answer::{Failure, StubAnswer, StubCall, StubLimits, StubUsage};
pub use conversation::{Conversation, Step};
pub use request::{Api, StubRequest};
pub use tasks::{StubTask, Tasks, Wait};

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What the server answers to a request.
pub type Script = Box<dyn Fn(&StubRequest) -> StubAnswer + Send + Sync>;

/// A model's server, for tests.
pub struct StubModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// What the threads of a server have in common.
struct Shared {
    script: Script,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    /// Every request that was understood, in the order they came.
    requests: Vec<StubRequest>,
    /// The open connections, so that they can be ended.
    streams: HashMap<u64, TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for so long, or without end; `true` when the server was stopped meanwhile.
    fn pause(&self, time: Option<Duration>) -> bool {
        let running = |state: &mut State| !state.stopped;
        let state = self.state();
        match time {
            None => {
                drop(self.changed.wait_while(state, running));
                true
            }
            Some(time) => match self.changed.wait_timeout_while(state, time, running) {
                Ok((state, _)) => state.stopped,
                Err(_) => true,
            },
        }
    }
}

impl StubModel {
    /// A server on a free port that answers what `script` says.
    ///
    /// # Errors
    ///
    /// When no port can be had.
    pub fn answering<F>(script: F) -> io::Result<Self>
    where
        F: Fn(&StubRequest) -> StubAnswer + Send + Sync + 'static,
    {
        Self::start(0, Box::new(script))
    }

    /// A server whose n-th answer is the n-th of `answers`; the last is given again and again.
    ///
    /// # Errors
    ///
    /// When no port can be had, or there are no answers.
    pub fn in_turn(answers: Vec<StubAnswer>) -> io::Result<Self> {
        if answers.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there are no answers"));
        }
        Self::answering(move |request| {
            let at = request.number.min(answers.len() - 1);
            answers[at].clone()
        })
    }

    /// A server that answers by what the messages hold already.
    ///
    /// # Errors
    ///
    /// When no port can be had.
    pub fn conversing(conversation: Conversation) -> io::Result<Self> {
        Self::answering(move |request| conversation.answer(request))
    }

    /// A server at a port of one's choice, or at any with 0.
    ///
    /// # Errors
    ///
    /// When the port cannot be had.
    pub fn start(port: u16, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { script, state: Mutex::default(), changed: Condvar::default() });
        let theirs = Arc::clone(&shared);
        let acceptor = thread::spawn(move || accept(&listener, &theirs));
        Ok(Self { address, shared, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base of its addresses, as clients are given it: `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// How many requests came that could be understood.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.state().requests.len()
    }

    /// The requests that came and could be understood, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<StubRequest> {
        self.shared.state().requests.clone()
    }
}

impl Drop for StubModel {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.changed.notify_all();
        // Wakes the acceptor, which then sees that it is over.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        let threads = {
            let mut state = self.shared.state();
            for stream in state.streams.values() {
                let _ = stream.shutdown(Shutdown::Both);
            }
            std::mem::take(&mut state.threads)
        };
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for number in 0_u64.. {
        let Ok((stream, _)) = listener.accept() else { return };
        let mut state = shared.state();
        if state.stopped {
            return;
        }
        let Ok(copy) = stream.try_clone() else { continue };
        state.streams.insert(number, copy);
        let theirs = Arc::clone(shared);
        let thread = thread::spawn(move || {
            // A client that goes away is no fault of the server's.
            let _ = connection::serve(&stream, &theirs);
            theirs.state().streams.remove(&number);
            let _ = stream.shutdown(Shutdown::Write);
        });
        state.threads.retain(|thread| !thread.is_finished());
        state.threads.push(thread);
    }
}

#[cfg(test)]
mod tests;
