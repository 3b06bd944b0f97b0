//! The two sides that a switch stands between.

use std::sync::Arc;

use crate::switch::Switch;

/// Where the client's lines go. One line is one write, whoever writes.
pub(crate) trait ClientPort: Send + Sync {
    /// Sends a line, without its end.
    fn send(&self, line: &str);
}

/// Where the agent's lines go.
pub(crate) trait AgentPort: Send + Sync {
    /// Sends a line, without its end. False where no agent takes it.
    fn send(&self, line: &str) -> bool;

    /// Sees that an agent runs: true when it was started for this and knows nothing yet. Otherwise
    /// why there is none.
    fn ensure(&self, switch: &Arc<Switch>) -> Result<bool, String>;

    /// Ends it, for it does not do what it should.
    fn end(&self, why: &str);
}
