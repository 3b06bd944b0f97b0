//! What a session's project is called.

use std::path::Path;

use abide::SessionFields;

/// The display name of a session's project: the name of its directory, else of the workspace.
pub(crate) fn project_name(fields: &SessionFields) -> Option<String> {
    let dir = fields.project.as_deref().or(fields.workspace.as_deref()).map(Path::new)?;
    Some(dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned())
}
