//! Files read and written through the client, or reported as changed by a call.

use std::path::{Path, PathBuf};

use abide::{
    Kind, LaneId,
    event::{FileOp, FileTouch, ObjectHash},
};
use serde::Deserialize;

use super::record_batch::RecordBatch;

/// The working directory of a session.
#[derive(Debug, Default)]
pub(super) struct AcpFileDirectory(Option<PathBuf>);

impl AcpFileDirectory {
    pub(super) fn new(path: &Path) -> Self {
        Self(Some(path.to_owned()))
    }

    /// Records that a file was touched; a path inside the directory is made relative.
    pub(super) fn touched(
        &self,
        path: &str,
        op: FileOp,
        after: Option<ObjectHash>,
        lane: Option<&LaneId>,
        batch: &mut RecordBatch,
    ) {
        let inside = self.0.as_deref().and_then(|root| Path::new(path).strip_prefix(root).ok());
        let inside = inside.and_then(Path::to_str).filter(|inside| !inside.is_empty());
        let path = inside.unwrap_or(path).to_owned();
        let touch = FileTouch { path, op, to: None, before: None, after };
        batch.fact(&Kind::FILE_TOUCHED, lane, touch);
    }
}

/// The params of `fs/read_text_file` and `fs/write_text_file` that are used.
#[derive(Deserialize)]
pub(super) struct FileParams {
    pub(super) path: String,
    pub(super) content: Option<String>,
}
