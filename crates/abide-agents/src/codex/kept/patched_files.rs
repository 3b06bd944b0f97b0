//! The files that a patch of Codex changes, and whether it was applied.

use abide_model::FileOp;
use abide_wire::json::{RawJsonFields, decode_string, encoded_string, list};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::kept::record_fields::object_field;

/// The most bytes of the paths of one patch, or of all that wait for their end.
pub(super) const PATHS: usize = 8 << 10;

const BEGIN: &str = "*** Begin Patch";
const APPLIED: &str = "Success. Updated the following files";

/// A file in a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PatchedFile {
    /// Its path.
    pub(super) path: String,
    /// What becomes of it.
    pub(super) op: FileOp,
    /// Its new path, if it is renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<String>,
}

/// The files that a call changes: one that has a patch as its input or as one of its arguments.
pub(super) fn files_of_call(call: &RawJsonFields<'_>) -> Vec<PatchedFile> {
    let arguments = ["input", "arguments", "action"].iter().find_map(|name| call.get(name));
    let has_patch = |raw: &&RawValue| memchr::memmem::find(raw.get().as_bytes(), BEGIN.as_bytes());
    let Some(raw) = arguments.filter(|raw| has_patch(raw).is_some()) else { return Vec::new() };
    let text = encoded_string(raw).map(decode_string);
    let Some(arguments) = RawJsonFields::of(text.as_deref().unwrap_or(raw.get())) else {
        return text.map(|text| files_of_patch(&text)).unwrap_or_default();
    };
    let words = arguments.entries().flat_map(|(_, value)| list(value).unwrap_or(vec![value]));
    let texts = words.filter_map(|word| encoded_string(word).map(decode_string));
    texts.flat_map(|text| files_of_patch(&text)).collect()
}

/// The files in the text of a patch, which may be a part of a command.
fn files_of_patch(text: &str) -> Vec<PatchedFile> {
    let Some((_, patch)) = text.split_once(BEGIN) else { return Vec::new() };
    let mut files: Vec<PatchedFile> = Vec::new();
    let mut bytes = 0;
    for line in patch.lines().map(str::trim_end) {
        if line == "*** End Patch" {
            break;
        }
        if let Some(to) = line.strip_prefix("*** Move to: ") {
            if let Some(file) = files.last_mut().filter(|_| !to.is_empty()) {
                file.op = FileOp::Rename;
                file.to = Some(to.to_owned());
            }
            continue;
        }
        let sorts = [
            ("*** Add File: ", FileOp::Write),
            ("*** Update File: ", FileOp::Write),
            ("*** Delete File: ", FileOp::Delete),
        ];
        let found = sorts.iter().find_map(|(mark, op)| Some((line.strip_prefix(mark)?, *op)));
        let Some((path, op)) = found.filter(|(path, _)| !path.is_empty()) else { continue };
        bytes += path.len();
        if bytes > PATHS {
            break;
        }
        files.push(PatchedFile { path: path.to_owned(), op, to: None });
    }
    files
}

/// The files in the report of a patch that was applied: `{"PATH": {"type": "update", …}}`.
pub(super) fn files_of_changes(changes: &RawJsonFields<'_>) -> Vec<PatchedFile> {
    let mut files = Vec::new();
    for (path, change) in changes.entries().filter(|(path, _)| !path.is_empty()) {
        let Some(change) = RawJsonFields::of(change.get()) else { continue };
        let to = change.decoded("move_path").map(|to| to.into_owned());
        let op = match change.decoded("type").as_deref() {
            Some("delete") => FileOp::Delete,
            _ if to.is_some() => FileOp::Rename,
            _ => FileOp::Write,
        };
        files.push(PatchedFile { path: path.to_owned(), op, to });
    }
    files
}

/// Whether the output of a call says that its patch was applied.
pub(super) fn was_applied(call: &RawJsonFields<'_>) -> bool {
    let Some(raw) = call.get("output") else { return false };
    if memchr::memmem::find(raw.get().as_bytes(), APPLIED.as_bytes()).is_some() {
        return true;
    }
    let text = encoded_string(raw).map(decode_string);
    let text = text.as_deref().unwrap_or(raw.get());
    if let Some(fields) = RawJsonFields::of(text) {
        let code = object_field(&fields, "metadata").and_then(|told| told.get("exit_code"));
        return code.map_or(fields.flag("success") == Some(true), |code| code.get() == "0");
    }
    let told = text.lines().take(8).find_map(|line| {
        let marks = ["Exit code: ", "Process exited with code "];
        marks.iter().find_map(|mark| line.strip_prefix(mark))
    });
    told.is_some_and(|code| code.trim() == "0")
}
