//! How much of a stream is kept at most.

use super::StreamError;

/// How much a stream may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Bytes of one event, and of one line.
    pub event: usize,
    /// Bytes of the whole answer: text, thoughts, arguments and whatever else of it is kept.
    pub answer: usize,
    /// Blocks of an answer.
    pub blocks: usize,
    /// Calls that are open at once.
    pub calls: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { event: 16 << 20, answer: 64 << 20, blocks: 4096, calls: 1024 }
    }
}

/// What was used of the limits.
#[derive(Debug)]
pub(super) struct Budget {
    limits: StreamLimits,
    bytes: usize,
    blocks: usize,
}

impl Budget {
    pub(super) fn new(limits: StreamLimits) -> Self {
        Self { limits, bytes: 0, blocks: 0 }
    }

    /// Bytes are about to be kept.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<(), StreamError> {
        self.bytes = self.bytes.saturating_add(bytes);
        let limit = self.limits.answer;
        if self.bytes > limit { Err(StreamError::AnswerTooLong { limit }) } else { Ok(()) }
    }

    /// A block begins.
    pub(super) fn block(&mut self) -> Result<(), StreamError> {
        self.blocks += 1;
        let limit = self.limits.blocks;
        if self.blocks > limit { Err(StreamError::TooManyBlocks { limit }) } else { Ok(()) }
    }

    /// A call begins, while others are open.
    pub(super) fn call(&self, open: usize) -> Result<(), StreamError> {
        let limit = self.limits.calls;
        if open >= limit { Err(StreamError::TooManyCalls { limit }) } else { Ok(()) }
    }
}
