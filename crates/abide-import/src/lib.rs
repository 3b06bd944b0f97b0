//! Brings the sessions that agents keep in files of their own into a store, and gives the files back.
//!
//! [`SourceFinder`] finds what agents keep on this machine. [`FileImporter`] records what is new of it:
//! every record of a file is in exactly one event, with all its bytes, so that [`write_source_file`]
//! gives the file back. Nothing is ever written to an agent's files.
//!
//! What a record means is known by the readers of `abide-agents`; this crate does not name an agent.

mod database_rows;
mod error;
mod file_importer;
mod file_reading;
mod import_ledger;
mod line_pieces;
mod provisional_message;
mod session_import;
mod session_recording;
mod session_sources;
mod source_event;
mod source_export;
mod source_finder;

pub use error::ImportFilesError;
pub use file_importer::{FileImporter, FilesImported, ImportNews, ImportProgress};
pub use session_import::{ImportPosition, SessionImported, import_into};
pub use source_export::{SourceFile, source_files, write_source_file};
pub use source_finder::{FoundSession, FoundSources, SourceFinder};
