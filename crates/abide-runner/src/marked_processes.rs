//! Processes that an agent started and left behind, known by their mark.

use std::time::Duration;

use abide::process::{end_processes, processes_marked};

/// How often to check whether marked processes have started others.
const LOOKS: usize = 5;

/// Ends all processes with this mark as [`end_processes`] does, and those that they start
/// meanwhile. Returns how many.
pub fn end_marked(mark: &str, grace: Duration) -> usize {
    let mut ended = 0;
    for _ in 0..LOOKS {
        let left = processes_marked(mark);
        if left.is_empty() {
            break;
        }
        ended += end_processes(&left, grace);
    }
    ended
}
