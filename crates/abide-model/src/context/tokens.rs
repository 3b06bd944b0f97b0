//! How a number of tokens was determined.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a number of tokens was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenBasis {
    /// Reported by the provider.
    Reported,
    /// Counted with the model's own tokenizer.
    Counted,
    /// Estimated from the length of the text.
    Estimated,
}

impl fmt::Display for TokenBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reported => "reported",
            Self::Counted => "counted",
            Self::Estimated => "estimated",
        })
    }
}
