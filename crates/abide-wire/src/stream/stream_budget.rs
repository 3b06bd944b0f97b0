//! Limits on the memory of a stream.

use super::StreamError;

/// Limits on a streamed answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Bytes per event, and per line.
    pub event: usize,
    /// Bytes of the whole answer: text, reasoning, arguments and everything else that is kept.
    pub answer: usize,
    /// Blocks per answer.
    pub blocks: usize,
    /// Calls open at once.
    pub calls: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { event: 16 << 20, answer: 64 << 20, blocks: 4096, calls: 1024 }
    }
}

/// How much of the limits is used.
#[derive(Debug)]
pub(super) struct StreamBudget {
    limits: StreamLimits,
    bytes: usize,
    blocks: usize,
}

impl StreamBudget {
    pub(super) fn new(limits: StreamLimits) -> Self {
        Self { limits, bytes: 0, blocks: 0 }
    }

    /// Counts bytes before they are kept.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<(), StreamError> {
        self.bytes = self.bytes.saturating_add(bytes);
        let limit = self.limits.answer;
        if self.bytes > limit { Err(StreamError::AnswerTooLong { limit }) } else { Ok(()) }
    }

    /// Counts a block that begins.
    pub(super) fn block(&mut self) -> Result<(), StreamError> {
        self.blocks += 1;
        let limit = self.limits.blocks;
        if self.blocks > limit { Err(StreamError::TooManyBlocks { limit }) } else { Ok(()) }
    }

    /// Checks that another call may begin while `open` calls are open.
    pub(super) fn call(&self, open: usize) -> Result<(), StreamError> {
        let limit = self.limits.calls;
        if open >= limit { Err(StreamError::TooManyCalls { limit }) } else { Ok(()) }
    }
}
