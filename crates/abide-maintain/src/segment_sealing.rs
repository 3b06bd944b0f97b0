//! What compressing the segments of journals comes to, before and after. A shared store has none.

/// The segments of a store that can be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnsealedSegments {
    /// How many sessions have some.
    pub sessions: u64,
    /// How many there are.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What sealing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SealOutcome {
    /// How many segments were sealed.
    pub segments: u64,
    /// How many bytes they had.
    pub plain_bytes: u64,
    /// How many bytes they have now.
    pub sealed_bytes: u64,
    /// Something is left: sealing was stopped, or reached its limit.
    pub stopped: bool,
}

impl SealOutcome {
    /// How many bytes were freed.
    #[must_use]
    pub const fn freed(&self) -> u64 {
        self.plain_bytes.saturating_sub(self.sealed_bytes)
    }

    /// Adds what was done elsewhere.
    pub const fn add(&mut self, other: Self) {
        self.segments += other.segments;
        self.plain_bytes += other.plain_bytes;
        self.sealed_bytes += other.sealed_bytes;
        self.stopped |= other.stopped;
    }
}
