//! The rules against planted secrets and against text without any.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

mod false_marks;
mod hostile;
mod pattern_sample;
mod planted;
mod properties;
mod random_text;
mod triage;
mod vendor_shapes;

use abide_secrets::{Literals, MarkKey, Redactor, RuleSet};

/// A redactor by the embedded rules alone.
fn redactor() -> Redactor {
    Redactor::new(RuleSet::load().unwrap(), Literals::default(), MarkKey::new([7; 32]))
}
