//! The holder's socket: a process that holds a session also writes for the processes that it
//! started, over a Unix socket. A store of files has it in the session's directory, another one in
//! a private directory of this machine.
//!
//! There is still one writer. A child sends batches and is answered when they are durable, each
//! line by one line, in order. Whoever connects must be of the same user; whatever it sends, and
//! however slowly, costs the holder a thread and a bounded part of its memory and nothing more.
//! The socket carries no promise of its own: a child that gets no answer knows nothing, and sends
//! again under the same keys.

mod answers;
mod client;
mod connection;
mod held;
mod lines;
mod node;
mod protocol;
mod server;

pub use held::{HeldWriters, write_as_child};
pub use server::ChildSocket;
