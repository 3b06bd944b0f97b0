//! Token counts in OpenAI's public encodings.
//!
//! A text is split into pieces (`split`), and each piece is merged, byte pair by byte pair, into
//! tokens (`merge`) of a `vocabulary`. The counts are those of tiktoken's `encode_ordinary`:
//! the names of special tokens are ordinary text.
//!
//! The lists of merges are part of the binary (1.2 MB for both). The tables that are looked up are
//! made from them at the first count in a process.
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
