//! The two sides of a switch.

use std::sync::Arc;

use crate::switch::Switch;

/// Sends lines to the client. Each line is one write, whichever thread sends it.
pub(crate) trait ClientPort: Send + Sync {
    /// Sends a line, without its newline.
    fn send(&self, line: &str);
}

/// Sends lines to the agent.
pub(crate) trait AgentPort: Send + Sync {
    /// Sends a line, without its newline. False if there is no agent to take it.
    fn send(&self, line: &str) -> bool;

    /// Makes sure that an agent runs. True if it was just started and knows nothing yet; the error
    /// says why there is none.
    fn ensure(&self, switch: &Arc<Switch>) -> Result<bool, String>;

    /// Ends the agent because it misbehaves.
    fn end(&self, why: &str);
}
