//! The sessions that Codex keeps: a file of lines for each thread, its rollout.

mod event_sorts;
mod item_messages;
mod patched_files;
mod record_reader;
#[cfg(test)]
mod tests;
mod thread_usage;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use self::record_reader::CodexRecordReader;
use crate::kept::record_fields::ID;
use crate::{KeptContent, KeptFile, KeptForm, KeptSessions};

/// The length of the time in the name of a file.
const TIME: usize = "2026-11-15T01-41-50-".len();

/// Where they are, and what reads them.
pub(super) static KEPT: KeptSessions = KeptSessions {
    directory,
    form: KeptForm::Files { roots: &["sessions", "archived_sessions"], classify, workspaces: None },
    reader: |file, memory| Box::new(CodexRecordReader::new(file, memory)),
    resume: |session| vec!["resume".to_owned(), session.to_owned()],
};

pub(super) fn directory(variable: &dyn Fn(&str) -> Option<OsString>, home: &Path) -> PathBuf {
    let own = variable("CODEX_HOME").filter(|directory| !directory.is_empty());
    own.map_or_else(|| home.join(".codex"), PathBuf::from)
}

/// The thread whose rollout has this path.
pub(super) fn thread_of_rollout(path: &Path) -> Option<String> {
    classify(path)?.session.filter(|thread| thread.len() <= ID)
}

/// `rollout-TIME-THREAD.jsonl`, in whatever directory, and with `.zst` behind it once it is compressed.
/// A thread that went back has another file, with `_ROLLOUT` behind the thread.
fn classify(path: &Path) -> Option<KeptFile> {
    let file = path.file_name()?.to_str()?;
    let (name, content) = match file.strip_suffix(".zst") {
        Some(name) => (name, KeptContent::CompressedLines),
        None => (file, KeptContent::Lines),
    };
    let stem = name.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
    let (time, thread) = stem.split_at_checked(TIME)?;
    let thread = thread.split('_').next().filter(|thread| !thread.is_empty())?;
    let is_time = time.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'T'));
    (is_time && time.ends_with('-')).then(|| KeptFile {
        session: Some(thread.to_owned()),
        lane: None,
        name: name.to_owned(),
        content,
    })
}
