//! The sessions that Gemini CLI keeps: a file of lines for each process that begins one, below the directory
//! of its project.

mod chat_memory;
mod chat_message;
mod chat_reader;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use abide_model::LaneId;
use abide_wire::json::{RawJsonFields, decode_string};

use self::chat_reader::ChatReader;
use crate::kept::{KeptContent, KeptFile, KeptForm, KeptSessions, OpaqueReader, RecordReader};

pub(super) static KEPT: KeptSessions = KeptSessions {
    directory: gemini_directory,
    form: KeptForm::Files {
        roots: &["tmp"],
        classify: classify_gemini_file,
        workspaces: Some(("projects.json", gemini_workspace)),
    },
    reader: gemini_reader,
    resume: |session| vec!["--resume".to_owned(), session.to_owned()],
};

pub(super) fn gemini_directory(
    variable: &dyn Fn(&str) -> Option<OsString>,
    home: &Path,
) -> PathBuf {
    let moved = variable("GEMINI_CLI_HOME").filter(|home| !home.is_empty());
    moved.map_or_else(|| home.to_owned(), PathBuf::from).join(".gemini")
}

/// `tmp/PROJECT/chats/session-TIME-ID.jsonl`, `tmp/PROJECT/chats/SESSION/SUBAGENT.jsonl`, and the long
/// outputs in `tmp/PROJECT/tool-outputs/session-SESSION/`. Files of versions before, which end with
/// `.json` and are written anew with each message, are left alone.
fn classify_gemini_file(path: &Path) -> Option<KeptFile> {
    let names: Option<Vec<&str>> = path.iter().map(|name| name.to_str()).collect();
    let (session, lane, content) = match *names?.as_slice() {
        ["tmp", _, "chats", file] => {
            file.strip_prefix("session-")?.strip_suffix(".jsonl")?;
            (None, None, KeptContent::Lines)
        }
        ["tmp", _, "chats", session, file] => {
            let lane = file.strip_suffix(".jsonl").filter(|lane| !lane.is_empty())?;
            (Some(session), Some(LaneId::from(lane)), KeptContent::Lines)
        }
        ["tmp", _, "tool-outputs", directory, _] => {
            let session = directory.strip_prefix("session-")?;
            (Some(session), None, KeptContent::Whole)
        }
        _ => return None,
    };
    let name: PathBuf = path.iter().skip(2).collect();
    let session = session.map(str::to_owned);
    Some(KeptFile { session, lane, name: name.to_str()?.to_owned(), content })
}

/// `projects.json` has the name of each workspace's directory below `tmp`.
fn gemini_workspace(path: &Path, text: &str) -> Option<String> {
    let directory = path.iter().nth(1)?.to_str()?;
    let projects = RawJsonFields::of(text)?.get("projects")?;
    let projects = RawJsonFields::of(projects.get())?;
    let mut all = projects.entries();
    let found = all
        .find(|(_, name)| name.get().starts_with('"') && decode_string(name.get()) == directory)?;
    Some(found.0.to_owned())
}

fn gemini_reader(file: &KeptFile, memory: Option<&str>) -> Box<dyn RecordReader> {
    match file.content {
        KeptContent::Whole => Box::new(OpaqueReader),
        _ => Box::new(ChatReader::new(file.lane.is_some(), memory)),
    }
}
