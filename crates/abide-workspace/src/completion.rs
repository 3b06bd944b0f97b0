//! Completing a directory when all in it is done: its tree, its record, and what its parent is
//! told.

use std::sync::Arc;

use abide_model::ObjectHash;

use crate::cache::{Cache, Written};
use crate::error::WorkspaceError;
use crate::node::{Made, Node, Outcome};
use crate::record::{Body, Head, Kind, Record, Rows};
use crate::rules::{Chain, Within};
use crate::tree::{Entry, EntryKind, Tree};
use crate::worker::Worker;

impl Worker<'_> {
    /// Completes the directory, and those above whose last part it was.
    pub(crate) fn complete(&mut self, mut node: Arc<Node>) -> Result<(), WorkspaceError> {
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

    fn completed(&mut self, node: &Node) -> Result<Outcome, WorkspaceError> {
        let cache = self.scan.means.cache;
        let old = cache.and_then(|cache| cache.record(node.work.number));
        let outcomes = node.outcomes();
        let number = node.work.number;
        let (mut head, body) = match (node.made.get(), &old) {
            (Some(Made::Same), Some(old)) if outcomes.is_empty() => {
                self.found.written.push(Written { number, bytes: None });
                self.count_directory(node, old.head.hidden);
                return Ok(Outcome::Same);
            }
            (Some(Made::Same), Some(old)) => (old.head.clone(), old.body),
            (Some(Made::New { body, chain, files, bytes }), _) => {
                (self.head(node, *chain, *files, *bytes), body.bytes.as_slice())
            }
            // Without a record nothing is found to be the same.
            (Some(Made::Same), None) | (None, _) => return Ok(Outcome::Gone),
        };
        let kept = without_gone(body, &outcomes);
        let body = kept.as_ref().map_or(body, |body| body.bytes.as_slice());
        self.tree(&mut head, body, &outcomes, old.as_ref())?;
        head.hidden &= node.work.within == Within::Ignored;
        self.count_directory(node, head.hidden);
        let bytes = head.write(body);
        let same = old.as_ref().is_some_and(|old| old.whole == bytes);
        self.found.written.push(Written { number, bytes: (!same).then_some(bytes) });
        let Head { mode, tree, hidden, .. } = head;
        let shown = |head: &Head| (head.mode, head.tree, head.hidden);
        match old {
            Some(old) if shown(&old.head) == (mode, tree, hidden) => Ok(Outcome::Same),
            _ => Ok(Outcome::New { mode, tree, hidden }),
        }
    }

    fn head(&self, node: &Node, chain: Chain, files: u64, bytes: u64) -> Head {
        Head {
            tree: ObjectHash([0; 32]),
            outer: node.work.outer,
            chain,
            mtime: node.facts.mtime,
            ctime: node.facts.ctime,
            ino: node.facts.ino,
            mode: node.mode,
            listed: node.facts.settled(self.scan.means.settled),
            hidden: false,
            files,
            bytes,
        }
    }

    /// Puts the tree into the head, and into the store when it is a new one.
    fn tree(
        &mut self,
        head: &mut Head,
        body: &[u8],
        outcomes: &[(u32, Outcome)],
        old: Option<&Record<'_>>,
    ) -> Result<(), WorkspaceError> {
        if let Some(old) = old.filter(|old| outcomes.is_empty() && old.body == body) {
            (head.tree, head.hidden) = (old.head.tree, old.head.hidden);
            return Ok(());
        }
        let tree = tree(body, outcomes, self.scan.means.cache);
        head.hidden = tree.entries.is_empty();
        let bytes = tree.write();
        head.tree = ObjectHash::of(&bytes);
        match old.map(|old| old.head.tree) {
            Some(old) if old == head.tree => {}
            Some(old) => self.sink.add_like(head.tree, &bytes, old)?,
            None => self.sink.add_tree(head.tree, &bytes)?,
        }
        Ok(())
    }

    fn count_directory(&mut self, node: &Node, hidden: bool) {
        self.found.directories += u64::from(node.work.parent.is_some() && !hidden);
    }
}

fn outcome_of(outcomes: &[(u32, Outcome)], number: u32) -> Option<Outcome> {
    let at = outcomes.binary_search_by_key(&number, |(number, _)| *number).ok()?;
    outcomes.get(at).map(|(_, outcome)| *outcome)
}

/// The names without the directories that turned out to be gone, if there are such.
fn without_gone(body: &[u8], outcomes: &[(u32, Outcome)]) -> Option<Body> {
    let lost = |outcome: &Outcome| matches!(outcome, Outcome::Gone | Outcome::Omitted(_));
    if !outcomes.iter().any(|(_, outcome)| lost(outcome)) {
        return None;
    }
    let mut kept = Body::default();
    for row in Rows::new(body) {
        let outcome = match row.kind {
            Kind::Directory => outcome_of(outcomes, row.number),
            _ => None,
        };
        match outcome {
            Some(Outcome::Gone) => {}
            Some(Outcome::Omitted(reason)) => kept.omitted(row.name, reason),
            Some(Outcome::Same | Outcome::New { .. }) | None => kept.row(&row, row.number),
        }
    }
    Some(kept)
}

fn tree(body: &[u8], outcomes: &[(u32, Outcome)], cache: Option<&Cache>) -> Tree {
    let mut entries = Vec::new();
    for row in Rows::new(body) {
        let kind = match row.kind {
            Kind::File => EntryKind::File,
            Kind::Large => EntryKind::Large,
            Kind::Link => EntryKind::Link,
            Kind::Directory => EntryKind::Directory,
            Kind::Ignored | Kind::Omitted => continue,
        };
        let name = row.name.to_bytes().to_vec();
        if row.kind != Kind::Directory {
            let (mode, size, hash) = (row.mode, row.size(), row.object());
            entries.push(Entry { name, kind, mode, size, hash });
            continue;
        }
        let remembered = || {
            let record = cache.and_then(|cache| cache.record(row.number))?;
            Some((record.head.mode, record.head.tree, record.head.hidden))
        };
        let shown = match outcome_of(outcomes, row.number) {
            Some(Outcome::New { mode, tree, hidden }) => Some((mode, tree, hidden)),
            _ => remembered(),
        };
        if let Some((mode, hash, false)) = shown {
            entries.push(Entry { name, kind, mode, size: 0, hash });
        }
    }
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Tree { entries }
}
