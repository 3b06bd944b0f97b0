//! Finds the sessions that agents keep on this machine. Reads directories only, and writes nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_agents::{AgentKind, KeptContent, KeptFile, KeptForm, KeptSessions, SessionDetails};

use crate::ImportFilesError;
use crate::database_rows::{DatabaseCopy, list_sessions, rows_of_session};
use crate::file_reading::open_lines;
use crate::import_ledger::SourceStamp;
use crate::line_pieces::{SourcePiece, split_line};

/// The largest side file that is read.
const SIDE_FILE_BYTES: u64 = 4 << 20;
/// How many records of a file are looked at for the id of its session.
const LOOKED_AT: usize = 64;
/// The longest line that is looked at for it.
const LOOKED_AT_BYTES: u64 = 1 << 20;

/// What is searched for sessions of agents.
#[derive(Debug, Clone, Default)]
pub struct SourceFinder {
    /// The user's home.
    pub home: PathBuf,
    /// The environment, as far as it moves agents' directories.
    pub variables: Vec<(String, OsString)>,
    /// Only this agent.
    pub agent: Option<AgentKind>,
    /// Only what is at or below this path, in place of the agents' own directories.
    pub within: Option<PathBuf>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct FoundSources {
    /// The sessions, by agent and id.
    pub sessions: Vec<FoundSession>,
    /// Directories and files that could not be read, each with the reason.
    pub unreadable: Vec<ImportFilesError>,
}

/// A session that an agent keeps.
#[derive(Debug, Clone)]
pub struct FoundSession {
    /// The agent.
    pub agent: AgentKind,
    /// The agent's id of it.
    pub id: String,
    /// When one of its files was last written, in seconds.
    pub written: i64,
    /// The size of its files in bytes.
    pub bytes: u64,
    pub(crate) files: Vec<FoundFile>,
}

/// A file of such a session, or a table of its rows.
#[derive(Debug, Clone)]
pub(crate) struct FoundFile {
    pub(crate) kept: KeptFile,
    pub(crate) path: PathBuf,
    pub(crate) stamp: SourceStamp,
    /// The workspace, if not the records tell it.
    pub(crate) workspace: Option<String>,
    /// It is the rows of a database, and not a file.
    pub(crate) rows: Option<FoundRows>,
}

/// Rows of a session.
#[derive(Debug, Clone)]
pub(crate) struct FoundRows {
    pub(crate) copy: Arc<DatabaseCopy>,
    /// The query that gives them.
    pub(crate) query: &'static str,
}

impl FoundSession {
    /// The directory that it works in, by its first records.
    #[must_use]
    pub fn workspace(&self) -> Option<PathBuf> {
        let kept = self.agent.kept_sessions()?;
        let told = self.files.iter().find_map(|file| {
            file.workspace.clone().or_else(|| match &file.rows {
                Some(found) => {
                    let rows = rows_of_session(&found.copy, found.query, &self.id);
                    let mut reader = (kept.reader)(&file.kept, None);
                    rows.ok()?.iter().find_map(|row| reader.read(row).details.workspace)
                }
                None => first_told(kept, &file.kept, &file.path, |details| details.workspace),
            })
        });
        told.map(PathBuf::from)
    }
}

impl SourceFinder {
    /// Finds all sessions.
    #[must_use]
    pub fn find(&self) -> FoundSources {
        let mut found = FoundSources::default();
        let mut sessions: BTreeMap<(&'static str, String), FoundSession> = BTreeMap::new();
        for agent in AgentKind::all() {
            let wanted = self.agent.is_none_or(|wanted| wanted == agent);
            let Some(kept) = agent.kept_sessions().filter(|_| wanted) else { continue };
            let directory = (kept.directory)(&|name| self.variable(name), &self.home);
            self.of_agent(
                kept,
                &directory,
                &mut |session, file| {
                    let key = (agent.as_str(), session.clone());
                    let entry = sessions.entry(key).or_insert_with(|| FoundSession {
                        agent,
                        id: session,
                        written: 0,
                        bytes: 0,
                        files: Vec::new(),
                    });
                    let seconds = file.stamp.written / 1_000_000_000;
                    entry.written = entry.written.max(i64::try_from(seconds).unwrap_or(0));
                    entry.bytes += file.stamp.size;
                    entry.files.push(file);
                },
                &mut found.unreadable,
            );
        }
        found.sessions = sessions.into_values().map(ordered).collect();
        found
    }

    /// What tells that an agent's database has not changed; `None` for one that keeps files.
    #[must_use]
    pub fn database_stamp(&self, agent: AgentKind) -> Option<String> {
        let kept = agent.kept_sessions()?;
        let KeptForm::Rows { database, .. } = &kept.form else { return None };
        let path = (kept.directory)(&|name| self.variable(name), &self.home).join(database);
        let of = |path: PathBuf| fs::metadata(path).ok().map(|found| SourceStamp::of(&found));
        let log = path.with_file_name(format!("{database}-wal"));
        Some(format!("{:?}{:?}", of(path), of(log)))
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    }

    /// Finds the session of this id, as far as it is at or below these paths; of a database, wherever it
    /// is.
    #[must_use]
    pub fn find_session(
        &self,
        agent: AgentKind,
        id: &str,
        within: &[PathBuf],
    ) -> Option<FoundSession> {
        let keeps_files = matches!(agent.kept_sessions()?.form, KeptForm::Files { .. });
        let places: Vec<Option<PathBuf>> =
            if keeps_files { within.iter().cloned().map(Some).collect() } else { vec![None] };
        let mut whole: Option<FoundSession> = None;
        for within in places {
            let found = Self { agent: Some(agent), within, ..self.clone() }.find();
            let Some(part) = found.sessions.into_iter().find(|session| session.id == id) else {
                continue;
            };
            match &mut whole {
                None => whole = Some(part),
                Some(whole) => {
                    whole.written = whole.written.max(part.written);
                    whole.bytes += part.bytes;
                    whole.files.extend(part.files);
                }
            }
        }
        whole.map(ordered)
    }

    fn of_agent(
        &self,
        kept: &'static KeptSessions,
        directory: &Path,
        give: &mut dyn FnMut(String, FoundFile),
        unreadable: &mut Vec<ImportFilesError>,
    ) {
        match &kept.form {
            KeptForm::Files { roots, classify, workspaces } => {
                let mut files = Vec::new();
                match &self.within {
                    Some(within) if within.is_file() => files.push(within.clone()),
                    Some(within) => walk(within, &mut files, unreadable),
                    None => roots.iter().for_each(|root| {
                        walk(&directory.join(root), &mut files, unreadable);
                    }),
                }
                files.sort();
                let side = workspaces.map(|(name, of)| (small_text(&directory.join(name)), of));
                for path in files {
                    let Some(below) = below_roots(&path, directory, roots) else { continue };
                    let Some(file) = classify(below) else { continue };
                    let stamp = match fs::metadata(&path) {
                        Ok(metadata) if metadata.is_file() => SourceStamp::of(&metadata),
                        Ok(_) => continue,
                        Err(error) => {
                            unreadable.push(ImportFilesError::read(&path)(error));
                            continue;
                        }
                    };
                    let session = file
                        .session
                        .clone()
                        .or_else(|| first_told(kept, &file, &path, |details| details.id));
                    let Some(session) = session else { continue };
                    let workspace =
                        side.as_ref().and_then(|(text, of)| of(below, text.as_deref()?));
                    give(session, FoundFile { kept: file, path, stamp, workspace, rows: None });
                }
            }
            KeptForm::Rows { database, sessions, tables } => {
                let named = self.within.as_ref().filter(|within| {
                    within.is_file() && within.file_name() == Path::new(database).file_name()
                });
                let path = named.cloned().unwrap_or_else(|| directory.join(database));
                if self.within.as_ref().is_some_and(|within| !path.starts_with(within)) {
                    return;
                }
                if !path.is_file() {
                    return;
                }
                let listed = DatabaseCopy::of(&path)
                    .and_then(|copy| Ok((list_sessions(&copy, sessions)?, Arc::new(copy))));
                match listed {
                    Ok((listed, copy)) => {
                        for (id, changed) in listed {
                            for (name, query) in *tables {
                                let stamp =
                                    SourceStamp { size: 0, written: i128::from(changed), inode: 0 };
                                let kept = KeptFile {
                                    session: Some(id.clone()),
                                    lane: None,
                                    name: (*name).to_owned(),
                                    content: KeptContent::Lines,
                                };
                                let file = FoundFile {
                                    kept,
                                    path: path.clone(),
                                    stamp,
                                    workspace: None,
                                    rows: Some(FoundRows { copy: copy.clone(), query }),
                                };
                                give(id.clone(), file);
                            }
                        }
                    }
                    Err(error) => unreadable.push(error),
                }
            }
        }
    }
}

/// A path as it is below the directory of an agent: below this one, or else from the nearest directory on
/// that has the name of a root, as in a copy of it.
fn below_roots<'a>(path: &'a Path, directory: &Path, roots: &[&str]) -> Option<&'a Path> {
    if let Ok(below) = path.strip_prefix(directory) {
        return Some(below);
    }
    let is_root = |dir: &&Path| {
        dir.file_name().and_then(|name| name.to_str()).is_some_and(|name| roots.contains(&name))
    };
    let root = path.ancestors().skip(1).find(is_root)?;
    path.strip_prefix(root.parent()?).ok()
}

/// With the files of the main lane first, then those of subagents, then what is kept as a whole.
fn ordered(mut session: FoundSession) -> FoundSession {
    session.files.sort_by(|left, right| {
        let rank =
            |file: &FoundFile| (file.kept.content == KeptContent::Whole, file.kept.lane.is_some());
        rank(left).cmp(&rank(right)).then_with(|| left.kept.name.cmp(&right.kept.name))
    });
    // The same file in two places, as one that is being archived: the longer one has all of it. Another
    // file of that name is told from it by its directory.
    let mut files: Vec<FoundFile> = Vec::with_capacity(session.files.len());
    for mut file in session.files {
        let same = files.last_mut().filter(|last| last.kept.name == file.kept.name);
        match same {
            None => files.push(file),
            Some(last) if is_beginning(&file.path, &last.path) => {}
            Some(last) if is_beginning(&last.path, &file.path) => *last = file,
            Some(_) => {
                let dir = file.path.parent().and_then(Path::file_name).unwrap_or_default();
                file.kept.name = format!("{}@{}", file.kept.name, dir.to_string_lossy());
                files.push(file);
            }
        }
    }
    session.files = files;
    session
}

/// Whether a file is the beginning of another one.
fn is_beginning(short: &Path, long: &Path) -> bool {
    let read = || -> std::io::Result<bool> {
        let (short, long) = (fs::File::open(short)?, fs::File::open(long)?);
        if short.metadata()?.len() > long.metadata()?.len() {
            return Ok(false);
        }
        let (mut short, mut long) = (BufReader::new(short), BufReader::new(long));
        loop {
            let (left, right) = (short.fill_buf()?, long.fill_buf()?);
            let length = left.len().min(right.len());
            if length == 0 {
                return Ok(left.is_empty());
            }
            if left.get(..length) != right.get(..length) {
                return Ok(false);
            }
            short.consume(length);
            long.consume(length);
        }
    };
    read().unwrap_or(false)
}

/// Every regular file below a directory. Links are not followed.
fn walk(dir: &Path, files: &mut Vec<PathBuf>, unreadable: &mut Vec<ImportFilesError>) {
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                unreadable.push(ImportFilesError::read(&dir)(error));
                continue;
            }
        };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
}

/// What the first records of a file tell of the session.
fn first_told(
    kept: &KeptSessions,
    file: &KeptFile,
    path: &Path,
    told: fn(SessionDetails) -> Option<String>,
) -> Option<String> {
    let mut lines = open_lines(path, file.content, 0).ok()?;
    let mut reader = (kept.reader)(file, None);
    let mut line = Vec::new();
    for _ in 0..LOOKED_AT {
        line.clear();
        let read = lines.by_ref().take(LOOKED_AT_BYTES).read_until(b'\n', &mut line).ok()?;
        if read == 0 {
            return None;
        }
        let mut found = None;
        split_line(&line, |_, piece| {
            if let SourcePiece::Record { json, .. } = piece {
                found = found.take().or_else(|| told(reader.read(json).details));
            }
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

fn small_text(path: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(SIDE_FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}
