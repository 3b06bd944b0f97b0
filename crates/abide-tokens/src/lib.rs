//! Token counts in OpenAI's public encodings.
//!
//! A text is split into pieces (`split`), and the bytes of each piece are merged pair by pair
//! (`merge`) into tokens of a `vocabulary`. The counts equal those of tiktoken's `encode_ordinary`:
//! the names of special tokens are ordinary text.
//!
//! The lists of merges are embedded in the binary (1.2 MB for both). The lookup tables are built
//! from them at the first count in a process.
//!
//! ```
//! use abide_tokens::Encoding;
//!
//! assert_eq!(Encoding::O200kBase.count("hello world"), 2);
//! ```

mod class;
mod encoding;
mod merge;
mod split;
mod vocabulary;

pub use encoding::Encoding;
