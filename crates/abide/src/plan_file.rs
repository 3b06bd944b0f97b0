//! The file of a session's plan, kept up to date: the statuses of tasks are written back into it.
//!
//! Only statuses change. The file is replaced by a whole one under its name, or stays as it is. What
//! somebody else wrote is kept: the new text is made of the one that is there now, a task that they
//! call done stays so, one that they edited is not called done, and a file that changed while it was being replaced is read again. The hash of
//! a text is recorded in the session before the text is written, so that the session knows it as its
//! own. A text with an edit of somebody else never counts as its own: the next run reads the edit.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_local::read_small_file;
use abide_model::{
    ParentReason, SessionFields, SessionId, SessionRef, SourceDocument, TaskId, TaskStatus,
};
use abide_plan::{MAX_BYTES, TaskList, TaskListForm, delta, sha256};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::plan_document::{PLAN_REPLACED_LABEL, PLAN_WRITTEN_LABEL, is_plan_text};
use crate::{Error, Session};

/// How often a file that somebody else changes meanwhile is read again.
const TRIES: usize = 16;

/// The file of a session's plan.
#[derive(Debug)]
pub struct PlanFile {
    session: Arc<Session>,
    source: SourceDocument,
    form: TaskListForm,
    /// The tasks of the session; their statuses here are old. Those of the file are compared with them
    /// as they would be recorded, with marks in place of secrets.
    plan: TaskList,
    /// The status of each task that the file has from the session, or that both had.
    known: HashMap<TaskId, TaskStatus>,
    /// The hash of the file while nobody else has edited it.
    ours: Option<String>,
}

/// What became of an attempt to replace the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileReplacement {
    Done,
    /// Somebody else changed the file meanwhile; it is as they left it.
    ChangedMeanwhile,
}

impl PlanFile {
    /// The file of a session's plan.
    ///
    /// # Errors
    ///
    /// The session has no plan, or its file is not there or is not a plan with tasks.
    pub fn open(session: Arc<Session>) -> Result<Self, Error> {
        let fields = session.core()?.fields;
        let source = fields.source.clone().ok_or(Error::NoPlanFile)?;
        let path = Path::new(&source.path);
        let real = path.canonicalize().map_err(Error::file("find", path))?;
        put_edit_back(&real, session.id(), &fields)?;
        // After an edit another session goes on, and has to clean up.
        let parent = fields.parent.as_ref().filter(|parent| parent.reason == ParentReason::Delta);
        if let Some(parent) = parent.map(|parent| parent.session)
            && temporary_path(&real, parent).exists()
        {
            let fields = session.store().view(&SessionRef::Id(parent))?.state()?.core.fields;
            put_edit_back(&real, parent, &fields)?;
        }
        let bytes = read_plan_file(path)?;
        let form = TaskListForm::of(path, &bytes)?;
        let list = TaskList::read(form, &bytes)?;
        if list.tasks.is_empty() {
            return Err(Error::NoTasksInFile { path: path.to_owned() });
        }
        let (plan, hash) = (session.recorded_plan(session.plan()?), sha256(&bytes));
        let is_ours = session.store().is_text_of_session(&fields, &hash)?;
        let mut known = HashMap::new();
        if is_ours {
            let list = session.recorded_plan(list);
            let ids = plan.matching_ids(&list).into_iter().zip(&list.tasks);
            known.extend(ids.filter_map(|(id, task)| Some((id?, task.status))));
        }
        let ours = is_ours.then_some(hash);
        Ok(Self { session, source, form, plan, known, ours })
    }

    /// Writes the statuses of the session's tasks into the file, where they differ. When it returns,
    /// the file is durable.
    pub fn update(&mut self) -> Result<(), Error> {
        let tree = self.session.view().tasks()?;
        let statuses = tree.walk(None).map(|(task, _)| (task.id.clone(), task.status));
        let statuses: HashMap<TaskId, TaskStatus> = statuses.collect();
        if statuses.len() != self.plan.tasks.len() {
            self.plan = self.session.recorded_plan(self.session.plan()?);
        }
        for _ in 0..TRIES {
            if self.write(&statuses)? == FileReplacement::Done {
                return Ok(());
            }
        }
        Err(Error::BusyFile { path: PathBuf::from(&self.source.path) })
    }

    /// Applies the statuses to the file as it is now.
    fn write(&mut self, statuses: &HashMap<TaskId, TaskStatus>) -> Result<FileReplacement, Error> {
        let path = Path::new(&self.source.path);
        let fields = self.session.core()?.fields;
        // What could not be put back the last time.
        let real = path.canonicalize().map_err(Error::file("find", path))?;
        put_edit_back(&real, self.session.id(), &fields)?;
        let before = read_plan_file(path)?;
        let hash = sha256(&before);
        let is_ours = self.ours.as_ref() == Some(&hash) || is_plan_text(&fields, &hash);
        self.ours = is_ours.then(|| hash.clone());
        let list = TaskList::read(self.form, &before)?;
        let recorded = self.session.recorded_plan(list.clone());
        let ids = self.plan.matching_ids(&recorded);
        // Tasks that somebody has edited: what was done is not what they say now.
        let edited: HashSet<TaskId> = match is_ours {
            true => HashSet::new(),
            false => delta(&self.plan, recorded).changed.into_iter().collect(),
        };
        let mut wanted = Vec::with_capacity(ids.len());
        for (task, id) in list.tasks.iter().zip(&ids) {
            let known = id.as_ref().and_then(|id| self.known.get(id)).copied();
            let status = id.as_ref().and_then(|id| statuses.get(id)).copied();
            // Only that a task is done is for a document to say. A box that is open again was saved
            // from an older text.
            let is_theirs = task.status.is_done() && known != Some(task.status);
            wanted.push(if id.as_ref().is_some_and(|id| edited.contains(id)) {
                // It is to be done as it says now, whatever becomes of what it said before.
                (!task.status.is_done()).then_some(TaskStatus::Planned)
            } else {
                status.filter(|status| !is_theirs || *status == task.status)
            });
        }
        // A document that can be read is UTF-8.
        let text = String::from_utf8_lossy(&before);
        let after = list.with_statuses(&text, &wanted)?;
        if after.as_bytes() != before {
            let written = sha256(after.as_bytes());
            // Before the text is there: after a kill it is one of the two, and both are known.
            self.record(hash, &written)?;
            if self.replace(&before, after.as_bytes())? == FileReplacement::ChangedMeanwhile {
                return Ok(FileReplacement::ChangedMeanwhile);
            }
            self.ours = self.ours.take().map(|_| written);
        }
        for (id, status) in ids.into_iter().zip(wanted) {
            if let (Some(id), Some(status)) = (id, status) {
                self.known.insert(id, status);
            }
        }
        Ok(FileReplacement::Done)
    }

    /// Records the hashes of the text that is there and of the one that will be. The statuses were
    /// recorded before, so they are durable when the text is there.
    fn record(&self, there: String, written: &str) -> Result<(), Error> {
        let mut fields = SessionFields::default();
        let mut label = |name: &str, value: String| fields.labels.insert(name.to_owned(), value);
        label(PLAN_REPLACED_LABEL, format!("{there} {written}"));
        if self.ours.is_some() {
            label(PLAN_WRITTEN_LABEL, written.to_owned());
            fields.source = Some(SourceDocument { path: self.source.path.clone(), sha256: there });
        }
        self.session.append(fields)?.wait()?;
        Ok(())
    }

    /// Replaces the file, or the one that a link leads to, with its mode, unless it has changed.
    fn replace(&self, before: &[u8], after: &[u8]) -> Result<FileReplacement, Error> {
        let named = Path::new(&self.source.path);
        let path = named.canonicalize().map_err(Error::file("find", named))?;
        let found = fs::metadata(&path).map_err(Error::file("read", &path))?;
        if found.permissions().readonly() {
            let denied = std::io::ErrorKind::PermissionDenied.into();
            return Err(Error::file("write", &path)(denied));
        }
        let dir = path.parent().unwrap_or(Path::new("/"));
        let temporary = temporary_path(&path, self.session.id());
        // That of a run which was killed; a session has one writer.
        let _ = fs::remove_file(&temporary);
        let written = write_like(&temporary, &found, after);
        // Whoever saved it meanwhile goes first.
        let is_there = written.and_then(|()| Ok(read_plan_file(&path)? == before));
        if !matches!(is_there, Ok(true)) {
            let _ = fs::remove_file(&temporary);
            return is_there.map(|_| FileReplacement::ChangedMeanwhile);
        }
        // After an error it may hold the only copy of an edit, and stays.
        let replaced = swap_in(&temporary, &path, &FileTexts { before, after })?;
        let _ = fs::remove_file(&temporary);
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::file("sync", dir))?;
        Ok(replaced)
    }
}

/// Removes what a session left when it was killed while it replaced the file. If an edit came at
/// that moment, it is put back: then the new text is there, and what it replaced is not the text
/// before.
fn put_edit_back(path: &Path, session: SessionId, fields: &SessionFields) -> Result<(), Error> {
    let temporary = temporary_path(path, session);
    let Ok(left) = read_plan_file(&temporary) else { return Ok(()) };
    let there = read_plan_file(path)?;
    // A new text of which only a part was written is no edit.
    let is_part = there.starts_with(&left);
    let (there, left) = (sha256(&there), sha256(&left));
    let last = fields.labels.get(PLAN_REPLACED_LABEL).and_then(|both| both.split_once(' '));
    if !is_part && last.is_some_and(|(before, after)| there == after && left != before) {
        return fs::rename(&temporary, path).map_err(Error::file("replace", path));
    }
    let _ = fs::remove_file(&temporary);
    Ok(())
}

/// Where the new text of a file is until it is complete: under a name that is in no checkpoint, and
/// that no other session uses.
fn temporary_path(path: &Path, session: SessionId) -> PathBuf {
    let id = session.to_string().replace('-', "");
    let (start, end) = id.split_at_checked(16).unwrap_or((&id, "0"));
    path.with_file_name(format!(".abide-tmp-{start}-{end}"))
}

/// The text of a file before and after it is replaced.
struct FileTexts<'a> {
    before: &'a [u8],
    after: &'a [u8],
}

/// Puts a new file in the place of one that was read, and back if that was not the one which was
/// read: somebody may have saved it at the last moment.
fn swap_in(new: &Path, path: &Path, texts: &FileTexts<'_>) -> Result<FileReplacement, Error> {
    let swap = || renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE);
    let failed = |error: Errno| Error::file("replace", path)(error.into());
    match swap() {
        Ok(()) => {}
        // Not every file system can exchange two files.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::rename(new, path).map_err(Error::file("replace", path))?;
            return Ok(FileReplacement::Done);
        }
        Err(error) => return Err(failed(error)),
    }
    if read_plan_file(new).is_ok_and(|replaced| replaced == texts.before) {
        return Ok(FileReplacement::Done);
    }
    swap().map_err(failed)?;
    // Saved once more: the last one counts.
    if read_plan_file(new)? != texts.after {
        swap().map_err(failed)?;
    }
    Ok(FileReplacement::ChangedMeanwhile)
}

/// Writes a file with the mode and the owner of another one; it is durable, its name is not.
fn write_like(path: &Path, found: &fs::Metadata, bytes: &[u8]) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path).map_err(Error::file("create", path))?;
    file.set_permissions(found.permissions()).map_err(Error::file("write", path))?;
    give_to_owner(&file, found);
    file.write_all(bytes).map_err(Error::file("write", path))?;
    file.sync_all().map_err(Error::file("sync", path))
}

fn read_plan_file(path: &Path) -> Result<Vec<u8>, Error> {
    read_small_file(path, MAX_BYTES as u64).map_err(Error::file("read", path))
}

/// Gives a new file the owner and the group of the one that it replaces, as far as that is allowed.
fn give_to_owner(file: &File, found: &fs::Metadata) {
    let new = file.metadata();
    if new.is_ok_and(|new| (new.uid(), new.gid()) != (found.uid(), found.gid())) {
        let _ = std::os::unix::fs::fchown(file, Some(found.uid()), Some(found.gid()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_of_the_last_moment_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, new) = (dir.path().join("PLAN.md"), dir.path().join("new"));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let texts = FileTexts { before: b"before", after: b"after" };
        fs::write(&path, "before").unwrap();
        fs::write(&new, "after").unwrap();
        assert_eq!(swap_in(&new, &path, &texts).unwrap(), FileReplacement::Done);
        assert_eq!((read(&path), read(&new)), ("after".to_owned(), "before".to_owned()));
        // Saved after it was compared.
        fs::write(&path, "edited").unwrap();
        fs::write(&new, "after").unwrap();
        assert_eq!(swap_in(&new, &path, &texts).unwrap(), FileReplacement::ChangedMeanwhile);
        assert_eq!((read(&path), read(&new)), ("edited".to_owned(), "after".to_owned()));
    }
}
