//! The sessions that Claude Code keeps: one file of lines a session, and one for each subagent.

mod conversation_tree;
mod record_reader;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use abide_model::LaneId;

use self::record_reader::ClaudeRecordReader;
use crate::{KeptContent, KeptFile, KeptForm, KeptSessions, OpaqueReader, RecordReader};

/// The name of the file of a session itself.
const SESSION: &str = "session.jsonl";

/// Where they are, and what reads them.
pub(super) static KEPT: KeptSessions = KeptSessions {
    directory,
    form: KeptForm::Files { roots: &["projects"], classify, workspaces: None },
    reader,
    resume: |session| vec!["--resume".to_owned(), session.to_owned()],
};

pub(super) fn directory(variable: &dyn Fn(&str) -> Option<OsString>, home: &Path) -> PathBuf {
    let own = variable("CLAUDE_CONFIG_DIR").filter(|directory| !directory.is_empty());
    own.map_or_else(|| home.join(".claude"), PathBuf::from)
}

fn reader(file: &KeptFile, memory: Option<&str>) -> Box<dyn RecordReader> {
    if file.name == SESSION || file.lane.is_some() {
        Box::new(ClaudeRecordReader::new(file, memory))
    } else {
        Box::new(OpaqueReader)
    }
}

/// `projects/SLUG/ID.jsonl` is a session, and what is below `projects/SLUG/ID` belongs to it.
fn classify(path: &Path) -> Option<KeptFile> {
    let parts: Option<Vec<&str>> = path.iter().map(|part| part.to_str()).collect();
    match parts?.as_slice() {
        ["projects", _, name] => {
            let stem = name.strip_suffix(".jsonl")?;
            if let Some(lane) = subagent(name) {
                // So it was once: only the records tell the session.
                let content = KeptContent::Lines;
                let name = (*name).to_owned();
                return Some(KeptFile { session: None, lane: Some(lane), name, content });
            }
            is_session_id(stem).then(|| KeptFile {
                session: Some(stem.to_owned()),
                lane: None,
                name: SESSION.to_owned(),
                content: KeptContent::Lines,
            })
        }
        ["projects", _, session, below @ .., name] if is_session_id(session) => {
            let lane = if below.first() == Some(&"subagents") { subagent(name) } else { None };
            let lines = lane.is_some() || *name == "journal.jsonl";
            let mut parts = below.to_vec();
            parts.push(*name);
            Some(KeptFile {
                session: Some((*session).to_owned()),
                lane,
                name: parts.join("/"),
                content: if lines { KeptContent::Lines } else { KeptContent::Whole },
            })
        }
        _ => None,
    }
}

/// The lane of the subagent whose file has this name.
fn subagent(name: &str) -> Option<LaneId> {
    let id = name.strip_prefix("agent-")?.strip_suffix(".jsonl")?;
    (!id.is_empty()).then(|| LaneId(id.to_owned()))
}

/// Ids of sessions are UUIDs.
fn is_session_id(name: &str) -> bool {
    let dashes = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    name.len() == 36 && name.bytes().enumerate().all(dashes)
}
