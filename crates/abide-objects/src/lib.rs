//! The objects of abide in S3-compatible storage, or in a directory that several machines share.
//!
//! [`RemoteObjects`] keeps objects at an [`ObjectsUrl`]: `s3://bucket/prefix` or `file:///directory`.
//! The first takes the feature `s3`. Where the server is and who we are (`AWS_ENDPOINT_URL`,
//! `AWS_REGION`, `AWS_ACCESS_KEY_ID` and so on) comes from the environment alone, never from a URL or
//! from what is recorded.
//!
//! - **Named by content.** An object is at `prefix/ab/cdef…`, the BLAKE3 of its plain bytes, and is
//!   written once: a second writer finds it there. What lies there is a small header and the bytes,
//!   compressed where that is shorter (the `envelope` module).
//! - **Verified.** What is read is held against its name. A damaged object reads as missing, and
//!   whoever puts it again replaces it.
//! - **Durable.** Uploads go on beside the caller, a bounded number at once, and
//!   [`sync`](abide_model::Objects::sync) returns when the server has acknowledged all that was put. An
//!   upload that failed is tried again by the next `sync`, which fails as long as it does: nobody who
//!   shares the objects is told that something is durable that is not. What is there already is not
//!   sent again.
//! - **Cached**, where a [`CacheOptions`] says so: files that are verified on every read, that several
//!   processes share, and that may be deleted at any time.
//!
//! Calls block, and may be made inside a runtime or outside of one. Nothing here deletes an object.

mod bucket;
mod cache;
mod directory;
mod envelope;
mod error;
mod options;
mod remote;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod transport;
mod uploads;
mod url;

pub use cache::CacheOptions;
pub use error::ObjectsError;
pub use options::ObjectsOptions;
pub use remote::RemoteObjects;
pub use url::ObjectsUrl;
