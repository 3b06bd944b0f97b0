//! Abide's objects in S3-compatible storage, or in a directory that several machines share.
//!
//! [`RemoteObjects`] keeps objects at an [`ObjectsUrl`]: `s3://bucket/prefix` (needs the feature `s3`)
//! or `file:///directory`. The server and the credentials (`AWS_ENDPOINT_URL`, `AWS_REGION`,
//! `AWS_ACCESS_KEY_ID` and so on) come from the environment alone, never from a URL or from anything
//! recorded.
//!
//! - **Named by content.** An object is stored once at `prefix/ab/cdef…`, the BLAKE3 hash of its plain
//!   bytes; a second writer finds it there. It has a small header, and is compressed if that is
//!   shorter (the `envelope` module).
//! - **Verified.** Every object read is checked against its name. A damaged one reads as missing, and
//!   putting it again replaces it.
//! - **Durable.** Uploads run in the background, a bounded number at once, and
//!   [`sync`](abide_model::Objects::sync) returns when the server has acknowledged everything that was
//!   put. The next `sync` retries a failed upload, and fails as long as the upload does: nothing is
//!   called durable that is not. Objects that are already there are not sent again.
//! - **Cached**, with [`CacheOptions`]: in files that are verified on every read, that several
//!   processes share, and that may be deleted at any time.
//!
//! Calls block, and may be made inside or outside a runtime. Nothing here deletes an object.

mod bucket;
mod envelope;
mod error;
mod object_cache;
mod object_directory;
mod objects_url;
mod options;
mod remote_objects;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod transport;
mod uploads;

pub use error::ObjectsError;
pub use object_cache::CacheOptions;
pub use objects_url::ObjectsUrl;
pub use options::ObjectsOptions;
pub use remote_objects::RemoteObjects;
