//! The holder's socket: a process that holds a session also writes for the processes that it
//! started, over a Unix socket in the session's directory.
//!
//! There is still one writer. A child sends batches and is answered when they are durable, each
//! line by one line, in order. Whoever connects must be of the same user; whatever it sends, and
//! however slowly, costs the holder a thread and a bounded part of its memory and nothing more.
//! The socket carries no promise of its own: a child that gets no answer knows nothing, and sends
//! again under the same keys.

mod answers;
mod client;
mod connection;
mod lines;
mod node;
mod protocol;
mod server;

pub(crate) use client::connect;
pub(crate) use node::NotConnected;
pub use server::ChildSocket;
