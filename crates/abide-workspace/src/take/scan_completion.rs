//! Completes a directory once everything in it is done: builds its tree and its record, and reports
//! to its parent.

use std::sync::Arc;

use abide_model::ObjectHash;

use crate::error::WorkspaceError;
use crate::take::directory_node::{DirectoryNode, DirectoryOutcome, NamesOutcome};
use crate::take::directory_record::{
    DirectoryRecord, NameKind, RecordBody, RecordHead, RecordRows,
};
use crate::take::file_reader::FileReading;
use crate::take::rules::{IgnoreStatus, RulesHash};
use crate::take::scan_worker::ScanWorker;
use crate::take::stat_cache::{NextRecord, StatCache};
use crate::tree::{EntryKind, Tree, TreeEntry};

impl ScanWorker<'_> {
    /// Completes the directory, and each parent for which it was the last part.
    pub(crate) fn complete(&mut self, mut node: Arc<DirectoryNode>) -> Result<(), WorkspaceError> {
        loop {
            let outcome = self.completed(&node)?;
            let Some(parent) = &node.work.parent else {
                self.scan.conclude(outcome);
                return Ok(());
            };
            if !parent.done(node.work.number, outcome) {
                return Ok(());
            }
            node = Arc::clone(parent);
        }
    }

    fn completed(&mut self, node: &DirectoryNode) -> Result<DirectoryOutcome, WorkspaceError> {
        let cache = self.scan.means.cache;
        let old = cache.and_then(|cache| cache.record(node.work.number));
        let outcomes = node.outcomes();
        let number = node.work.number;
        let (mut head, body) = match (node.made.get(), &old) {
            (Some(NamesOutcome::Same), Some(old)) if outcomes.is_empty() => {
                self.found.written.push(NextRecord { number, bytes: None });
                self.count_completed_directory(node, &old.head);
                return Ok(DirectoryOutcome::Same);
            }
            (Some(NamesOutcome::Same), Some(old)) => (old.head.clone(), old.body),
            (Some(NamesOutcome::New { body, chain }), _) => {
                (self.completed_head(node, *chain), body.bytes.as_slice())
            }
            // Without a record nothing can be unchanged.
            (Some(NamesOutcome::Same), None) | (None, _) => return Ok(DirectoryOutcome::Gone),
        };
        let changed = self.completed_body(body, &outcomes, node.readings());
        let body = changed.as_ref().map_or(body, |body| body.bytes.as_slice());
        (head.files, head.bytes) = count_completed(body);
        self.complete_tree(&mut head, body, &outcomes, old.as_ref())?;
        head.hidden =
            node.work.within == IgnoreStatus::Ignored && completed_tree_is_empty(head.tree);
        self.count_completed_directory(node, &head);
        let bytes = head.write(body);
        let same = old.as_ref().is_some_and(|old| old.whole == bytes);
        self.found.written.push(NextRecord { number, bytes: (!same).then_some(bytes) });
        let RecordHead { mode, tree, hidden, .. } = head;
        let shown = |head: &RecordHead| (head.mode, head.tree, head.hidden);
        match old {
            Some(old) if shown(&old.head) == (mode, tree, hidden) => Ok(DirectoryOutcome::Same),
            _ => Ok(DirectoryOutcome::New { mode, tree, hidden }),
        }
    }

    fn completed_head(&self, node: &DirectoryNode, chain: RulesHash) -> RecordHead {
        RecordHead {
            tree: ObjectHash([0; 32]),
            outer: node.work.outer,
            chain,
            mtime: node.facts.mtime,
            ctime: node.facts.ctime,
            ino: node.facts.ino,
            mode: node.mode,
            listed: node.facts.settled(self.scan.means.settled),
            hidden: false,
            files: 0,
            bytes: 0,
        }
    }

    /// Sets the tree in the head, and stores it if it is new.
    fn complete_tree(
        &mut self,
        head: &mut RecordHead,
        body: &[u8],
        outcomes: &[(u32, DirectoryOutcome)],
        old: Option<&DirectoryRecord<'_>>,
    ) -> Result<(), WorkspaceError> {
        if let Some(old) = old.filter(|old| outcomes.is_empty() && old.body == body) {
            head.tree = old.head.tree;
            return Ok(());
        }
        let bytes = completed_tree(body, outcomes, self.scan.means.cache).write();
        head.tree = ObjectHash::of(&bytes);
        match old.map(|old| old.head.tree) {
            Some(old) if old == head.tree => {}
            Some(old) => self.sink.add_like(head.tree, &bytes, old)?,
            None => self.sink.add_tree(head.tree, &bytes)?,
        }
        Ok(())
    }

    fn count_completed_directory(&mut self, node: &DirectoryNode, head: &RecordHead) {
        self.found.files += head.files;
        self.found.bytes += head.bytes;
        self.found.directories += u64::from(node.work.parent.is_some() && !head.hidden);
    }

    /// The rows updated with the files that were read, and without directories that disappeared;
    /// `None` if nothing changed.
    fn completed_body(
        &self,
        body: &[u8],
        outcomes: &[(u32, DirectoryOutcome)],
        readings: Vec<(usize, FileReading)>,
    ) -> Option<RecordBody> {
        let lost = |outcome: &DirectoryOutcome| {
            matches!(outcome, DirectoryOutcome::Gone | DirectoryOutcome::Omitted(_))
        };
        if readings.is_empty() && !outcomes.iter().any(|(_, outcome)| lost(outcome)) {
            return None;
        }
        let mut changed = RecordBody::default();
        let mut readings = readings.into_iter().peekable();
        let mut rows = RecordRows::new(body);
        loop {
            let at = body.len() - rows.left();
            let Some(row) = rows.next() else { return Some(changed) };
            if let Some((_, reading)) = readings.next_if(|(place, _)| *place == at) {
                match reading {
                    FileReading::Gone => {}
                    FileReading::Omitted(reason, _) => changed.omitted(row.name, reason),
                    FileReading::Done { kind, mode, facts, hash } => {
                        let settled = facts.settled(self.scan.means.settled);
                        changed.file(kind, row.name, mode, &facts, hash, settled);
                    }
                }
                continue;
            }
            let outcome = match row.kind {
                NameKind::Directory => completed_outcome(outcomes, row.number),
                _ => None,
            };
            match outcome {
                Some(DirectoryOutcome::Gone) => {}
                Some(DirectoryOutcome::Omitted(reason)) => changed.omitted(row.name, reason),
                Some(DirectoryOutcome::Same | DirectoryOutcome::New { .. }) | None => {
                    changed.row(&row, row.number);
                }
            }
        }
    }
}

/// Returns true for the tree of an empty directory.
fn completed_tree_is_empty(tree: ObjectHash) -> bool {
    tree == ObjectHash::of(&Tree::default().write())
}

fn completed_outcome(
    outcomes: &[(u32, DirectoryOutcome)],
    number: u32,
) -> Option<DirectoryOutcome> {
    let at = outcomes.binary_search_by_key(&number, |(number, _)| *number).ok()?;
    outcomes.get(at).map(|(_, outcome)| *outcome)
}

/// Number of files and links, and total size of the files.
fn count_completed(body: &[u8]) -> (u64, u64) {
    RecordRows::new(body).fold((0, 0), |(files, bytes), row| match row.kind {
        NameKind::File | NameKind::Large => (files + 1, bytes + row.size()),
        NameKind::Link => (files + 1, bytes),
        NameKind::Directory | NameKind::Ignored | NameKind::Omitted => (files, bytes),
    })
}

fn completed_tree(
    body: &[u8],
    outcomes: &[(u32, DirectoryOutcome)],
    cache: Option<&StatCache>,
) -> Tree {
    let mut entries = Vec::new();
    for row in RecordRows::new(body) {
        let kind = match row.kind {
            NameKind::File => EntryKind::File,
            NameKind::Large => EntryKind::Large,
            NameKind::Link => EntryKind::Link,
            NameKind::Directory => EntryKind::Directory,
            NameKind::Ignored | NameKind::Omitted => continue,
        };
        let name = row.name.to_bytes().to_vec();
        if row.kind != NameKind::Directory {
            let (mode, size, hash) = (row.mode, row.size(), row.object());
            entries.push(TreeEntry { name, kind, mode, size, hash });
            continue;
        }
        let remembered = || {
            let record = cache.and_then(|cache| cache.record(row.number))?;
            Some((record.head.mode, record.head.tree, record.head.hidden))
        };
        let shown = match completed_outcome(outcomes, row.number) {
            Some(DirectoryOutcome::New { mode, tree, hidden }) => Some((mode, tree, hidden)),
            _ => remembered(),
        };
        if let Some((mode, hash, false)) = shown {
            entries.push(TreeEntry { name, kind, mode, size: 0, hash });
        }
    }
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Tree { entries }
}
