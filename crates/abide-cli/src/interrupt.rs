//! Ctrl-C as a flag, so that running work can end in order.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::error::CommandError;

/// A flag that Ctrl-C, or a request of the system to end, sets. A second one ends the process.
pub(crate) fn interrupt_flag() -> Result<Arc<AtomicBool>, CommandError> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let failed = |error: std::io::Error| CommandError::failed(error.to_string());
        let flag = asked.clone();
        signal_hook::flag::register_conditional_shutdown(signal, 4, flag.clone())
            .map_err(failed)?;
        signal_hook::flag::register(signal, flag).map_err(failed)?;
    }
    Ok(asked)
}
