//! The relay socket: a process that holds a session also writes for its child processes, over a
//! Unix socket. A file store has it in the session's directory, other stores in a private directory
//! of this machine.
//!
//! There is still only one writer. A child sends batches, one per line, and each is answered by one
//! line once it is durable, in order. Only processes of the same user may connect. Whatever a child
//! sends, and however slowly, costs the holder no more than a thread and a bounded amount of
//! memory. The socket makes no promise of its own: a child that gets no answer knows nothing, and
//! sends again with the same keys.

mod answer_queue;
mod child_lines;
mod child_socket;
mod connection;
mod holder_access;
mod relay_protocol;
mod relayed_writer;
mod socket_node;

pub use child_socket::LocalChildSocket;
pub use holder_access::write_through_holder;
