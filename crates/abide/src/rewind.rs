//! Rewinding: the conversation, the files, or both go back to an earlier place.
//!
//! The order is: a checkpoint of the present; a note on this machine; `session.rewound`, which says
//! what will be done; the files; `files.restored`. Whatever happens between, the next to open the
//! session can finish it, and it can be undone. Only what this machine has begun, and in the session's
//! own workspace, is finished without a question: a journal may come from anybody.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use abide_model::{
    Event, EventRange, Fact, FilesRestored, GitState, Kind, ObjectHash, Objects, Rewind, Seq,
};
use abide_workspace::{Plan, RestoreError, RestoreWatch, Restored, Snapshot, Watch, restore};

use crate::checkpoint::{Captured, read_snapshot};
use crate::{CheckpointEntry, CheckpointRequest, Error, Resolved, Session, Trigger};

/// The most failures that are recorded.
const MOST_FAILURES: usize = 100;

/// What goes back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RewindRequest {
    /// The files.
    pub files: bool,
    /// Only these files and directories; all where there is none.
    pub paths: Vec<String>,
    /// The conversation, with the tasks and all else that the session knows.
    pub conversation: bool,
}

/// What a rewind will do.
#[derive(Debug)]
pub struct RewindPlan {
    /// What is written into the journal before anything is done.
    pub rewind: Rewind,
    /// The checkpoint whose files come back.
    pub checkpoint: Option<CheckpointEntry>,
    /// What becomes of each file.
    pub files: Plan,
    /// The commit at HEAD then and now, where git has moved. It is not moved back.
    pub head: Option<(Option<String>, Option<String>)>,
    /// How many events leave the lineage, and how many of them are messages.
    pub left: (u64, u64),
    present: Option<Captured>,
}

/// What a rewind did.
#[derive(Debug, Clone, Default)]
pub struct Rewound {
    /// Where it stands in the journal.
    pub seq: Seq,
    /// The number of the checkpoint of what was before.
    pub safety: Option<u64>,
    /// What became of the files.
    pub files: Restored,
}

/// What became of a rewind that was left half-way.
#[derive(Debug, Clone)]
pub enum HalfWay {
    /// There is none.
    None,
    /// It is finished now.
    Finished(Rewound),
    /// It was left as it is.
    Left {
        /// Where it stands in the journal.
        seq: Seq,
        /// Why.
        why: String,
    },
}

/// How a rewind is followed and stopped.
#[derive(Clone, Default)]
pub struct RewindWatch {
    /// The taking of the checkpoint of the present. Its `cancel` stops the restore too.
    pub snapshot: Watch,
    /// Told how many files are done, and of how many.
    pub restore: Option<Arc<dyn Fn(u64, u64) + Send + Sync>>,
}

impl std::fmt::Debug for RewindWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RewindWatch").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

impl RewindWatch {
    fn run(
        &self,
        root: &Path,
        objects: &dyn Objects,
        plan: &Plan,
    ) -> Result<Restored, RestoreError> {
        let never = AtomicBool::new(false);
        let cancel = self.snapshot.cancel.as_deref().unwrap_or(&never);
        let progress = |done, all| {
            if let Some(told) = &self.restore {
                told(done, all);
            }
        };
        restore(root, objects, plan, &RestoreWatch { cancel, progress: &progress })
    }
}

impl Session {
    /// Plans a rewind. The present files are captured for it, and nothing is changed.
    pub fn plan_rewind(
        &self,
        to: &Resolved,
        request: &RewindRequest,
        watch: &RewindWatch,
    ) -> Result<RewindPlan, Error> {
        let end = self.core()?.0.seq;
        let mut rewind = Rewind {
            to: if request.conversation { to.seq } else { end },
            files: request.files,
            paths: request.paths.clone(),
            ..Rewind::default()
        };
        if !request.files {
            return self.plan_talk(rewind);
        }
        let checkpoint = self.files_at(to)?;
        self.refuse_other_workspace(&checkpoint)?;
        rewind.snapshot = checkpoint.checkpoint.snapshot;
        let then = checkpoint.checkpoint.git.clone();
        let mut plan = self.plan_back(rewind, watch)?;
        plan.head = moved_head(then, plan.present.as_ref());
        plan.checkpoint = Some(checkpoint);
        Ok(plan)
    }

    /// Plans to take the last rewind back.
    pub fn plan_undo(&self, watch: &RewindWatch) -> Result<RewindPlan, Error> {
        let (core, _) = self.core()?;
        let seq = core.last_rewind.ok_or(Error::NothingToUndo)?;
        let undone = self.rewind_at(seq)?;
        let talk = undone.to.next() != seq;
        let rewind = Rewind {
            to: if talk { seq.back(1) } else { core.seq },
            files: undone.files,
            snapshot: undone.safety,
            paths: undone.paths,
            undoes: Some(seq),
            ..Rewind::default()
        };
        if rewind.files { self.plan_back(rewind, watch) } else { self.plan_talk(rewind) }
    }

    /// A plan without files.
    fn plan_talk(&self, rewind: Rewind) -> Result<RewindPlan, Error> {
        let left = self.left_by(rewind.to)?;
        let files = Plan::default();
        Ok(RewindPlan { rewind, checkpoint: None, files, head: None, left, present: None })
    }

    /// A plan whose files go back to `rewind.snapshot`.
    fn plan_back(&self, mut rewind: Rewind, watch: &RewindWatch) -> Result<RewindPlan, Error> {
        let (core, _) = self.core()?;
        let target = rewind.snapshot.ok_or(Error::NoFiles { checkpoint: None, reason: None })?;
        let request = CheckpointRequest {
            trigger: Trigger::Rewind,
            watch: watch.snapshot.clone(),
            ..CheckpointRequest::default()
        };
        let present = self.store().capture(self.id(), &core.fields, &request)?;
        let objects = &*present.objects;
        let target = read_snapshot(objects, target)?;
        let (tree, root) = match (&present.taken, &present.root) {
            (Some(taken), Some(root)) => (taken, root),
            _ => return Err(Error::NoWorkspace { root: None }),
        };
        let files = self.plan_files(root, objects, (&tree.snapshot, &target), &rewind.paths)?;
        if !rewind.paths.is_empty() {
            // What must make way for a path goes back with it when this is undone.
            let ways: Vec<String> = files
                .steps
                .iter()
                .filter(|step| !rewind.paths.iter().any(|path| is_below(&step.path, path)))
                .map(|step| String::from_utf8_lossy(&step.path).into_owned())
                .collect();
            rewind.paths.extend(ways);
        }
        rewind.safety = Some(tree.hash);
        rewind.workspace = Some(root.to_string_lossy().into_owned());
        let left = self.left_by(rewind.to)?;
        let present = Some(present);
        Ok(RewindPlan { rewind, checkpoint: None, files, head: None, left, present })
    }

    /// Does what was planned.
    pub fn rewind(&self, plan: RewindPlan, watch: &RewindWatch) -> Result<Rewound, Error> {
        let mut rewound = Rewound::default();
        if let Some(present) = &plan.present {
            rewound.safety = Some(self.put_checkpoint(present)?.number);
        }
        let mut rewind = plan.rewind;
        if plan.left.0 == 0 {
            // No event leaves, the checkpoint just made neither.
            rewind.to = self.core()?.0.seq;
        }
        if rewind.files {
            self.note(&rewind)?;
        }
        rewound.seq = self.put(rewind.clone())?;
        let (Some(present), true) = (&plan.present, rewind.files) else { return Ok(rewound) };
        let root = present.root.clone().unwrap_or_default();
        match watch.run(&root, &*present.objects, &plan.files) {
            Ok(restored) => {
                self.finished(rewound.seq, &restored)?;
                rewound.files = restored;
                Ok(rewound)
            }
            Err(RestoreError::Cancelled) => {
                let back = self.take_back(rewound.seq, &rewind, &*present.objects, root)?;
                let left: Vec<_> = back.kept.iter().chain(&back.failed).collect();
                Err(match left.first() {
                    None => Error::Cancelled,
                    Some((path, why)) => Error::CancelledHalfWay {
                        left: left.len() as u64,
                        first: format!("{} ({why})", String::from_utf8_lossy(path)),
                        safety: rewound.safety.unwrap_or_default(),
                    },
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Notes on this machine that it begins to put files back.
    fn note(&self, rewind: &Rewind) -> Result<(), Error> {
        let path = self.store().rewind_note(self.id())?;
        let temporary = path.with_extension("rewind.new");
        let json = serde_json::to_vec(rewind).unwrap_or_default();
        let mut file = std::fs::File::create(&temporary)?;
        std::io::Write::write_all(&mut file, &json)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        Ok(())
    }

    /// Is this the rewind that this machine has begun?
    fn is_noted(&self, rewind: &Rewind) -> Result<bool, Error> {
        let noted = std::fs::read(self.store().rewind_note(self.id())?).unwrap_or_default();
        Ok(serde_json::from_slice(&noted).is_ok_and(|noted: Rewind| noted == *rewind))
    }

    /// Records that all files are where they should be.
    fn finished(&self, seq: Seq, restored: &Restored) -> Result<(), Error> {
        self.put(restored_fact(seq, restored))?;
        self.note_files(seq)?;
        // What is left of it says nothing any more.
        let _ = std::fs::remove_file(self.store().rewind_note(self.id())?);
        Ok(())
    }

    /// What leads from one snapshot of a workspace to another.
    fn plan_files(
        &self,
        root: &Path,
        objects: &dyn Objects,
        (from, to): (&Snapshot, &Snapshot),
        paths: &[String],
    ) -> Result<Plan, Error> {
        let paths: Vec<Vec<u8>> = paths.iter().map(|path| path.clone().into_bytes()).collect();
        Ok(self.store().workspace(root)?.plan(objects, from, to, &paths)?)
    }

    /// A checkpoint of another directory is not put over this one's files. A workspace that has moved
    /// is another matter: the old place is gone. So is another clone of the session's project.
    fn refuse_other_workspace(&self, entry: &CheckpointEntry) -> Result<(), Error> {
        if self.store().workspace_here(self.id())?.is_some() {
            return Ok(());
        }
        let Some(counts) = &entry.checkpoint.workspace else { return Ok(()) };
        let now = self.store().workspace_root(self.id(), &self.core()?.0.fields)?;
        let then = Path::new(&counts.root).canonicalize();
        match (then, now.canonicalize()) {
            (Ok(then), Ok(real)) if then != real => Err(Error::OtherWorkspace {
                number: entry.number,
                then: counts.root.clone(),
                now: now.to_string_lossy().into_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Puts back what a restore that was stopped had done, and the conversation.
    fn take_back(
        &self,
        seq: Seq,
        rewind: &Rewind,
        objects: &dyn Objects,
        root: PathBuf,
    ) -> Result<Restored, Error> {
        let (safety, target) = snapshots_of(objects, rewind)?;
        let back = self.plan_files(&root, objects, (&target, &safety), &rewind.paths)?;
        let talk = rewind.to.next() != seq;
        let undo = Rewind {
            to: if talk { seq.back(1) } else { self.core()?.0.seq },
            snapshot: rewind.safety,
            safety: rewind.snapshot,
            undoes: Some(seq),
            ..rewind.clone()
        };
        self.note(&undo)?;
        let undo = self.put(undo)?;
        let restored = RewindWatch::default().run(&root, objects, &back)?;
        self.finished(undo, &restored)?;
        Ok(restored)
    }

    /// Finishes a rewind whose files were left half-way. What was changed by others since then stays as
    /// it is. Where it cannot be finished, or was begun by another machine or for another place, it is
    /// left.
    pub fn finish_rewind(&self, watch: &RewindWatch) -> Result<HalfWay, Error> {
        let (core, _) = self.core()?;
        let Some(seq) = core.restoring else { return Ok(HalfWay::None) };
        let left = |why: String| Ok(HalfWay::Left { seq, why });
        let rewind = self.rewind_at(seq)?;
        if !self.is_noted(&rewind)? {
            return left("it was not begun in this store".to_owned());
        }
        let root = match self.store().workspace_root(self.id(), &core.fields) {
            Ok(root) => root,
            Err(error) => return left(error.to_string()),
        };
        let there = rewind.workspace.as_ref().map(PathBuf::from).unwrap_or_default();
        match (there.canonicalize(), root.canonicalize()) {
            (Ok(there), Ok(root)) if there == root => {}
            _ => return left(format!("it belongs to {}", there.display())),
        }
        // Refuses what is never a workspace.
        let workspace = match self.store().workspace(&root) {
            Ok(workspace) => workspace,
            Err(error) => return left(error.to_string()),
        };
        let objects = self.store().objects()?;
        let (safety, target) = match snapshots_of(&*objects, &rewind) {
            Ok(both) => both,
            Err(error) => return left(error.to_string()),
        };
        let paths: Vec<_> = rewind.paths.iter().map(|path| path.clone().into_bytes()).collect();
        let files = workspace.plan_on(&*objects, &safety, &target, &paths)?;
        let restored = watch.run(&root, &*objects, &files)?;
        self.finished(seq, &restored)?;
        Ok(HalfWay::Finished(Rewound { seq, safety: None, files: restored }))
    }

    fn put<E>(&self, event: E) -> Result<Seq, Error>
    where
        E: TryInto<abide_model::NewEvent>,
        Error: From<E::Error>,
    {
        let done = self.append(event)?.wait()?;
        Ok(done.last().map(|done| done.seq).unwrap_or_default())
    }

    pub(crate) fn rewind_at(&self, seq: Seq) -> Result<Rewind, Error> {
        let range = EventRange { first: seq, last: seq, ..EventRange::ALL };
        let event = self.view().page(range)?.events.into_iter().next();
        match event.map(|event| event.fact()) {
            Some(Ok(Fact::Rewind(rewind))) => Ok(rewind),
            _ => Err(Error::NothingToUndo),
        }
    }

    /// The checkpoint whose files are those of a place: its own, the one made right after it, else
    /// the last before it.
    fn files_at(&self, to: &Resolved) -> Result<CheckpointEntry, Error> {
        let all = self.view().checkpoints(true)?;
        if let Some((number, _)) = &to.checkpoint {
            let entry = all.into_iter().find(|entry| entry.seq == to.seq);
            return match entry {
                Some(entry) if entry.thinned => {
                    let reason = Some("retention let its files go".to_owned());
                    Err(Error::NoFiles { checkpoint: Some(*number), reason })
                }
                Some(entry) if entry.checkpoint.snapshot.is_some() => Ok(entry),
                entry => {
                    let reason = entry.and_then(|entry| entry.checkpoint.error);
                    Err(Error::NoFiles { checkpoint: Some(*number), reason })
                }
            };
        }
        let usable = |entry: &&CheckpointEntry| {
            entry.checkpoint.snapshot.is_some() && !entry.thinned && entry.live >= to.live
        };
        let after = all.iter().filter(usable).find(|entry| entry.seq > to.seq);
        if let Some(after) = after
            && !self.acted_between(to.seq, after.seq)?
        {
            return Ok(after.clone());
        }
        let before = all.iter().filter(usable).rev().find(|entry| entry.seq <= to.seq);
        before.cloned().ok_or(Error::NoFiles { checkpoint: None, reason: None })
    }

    /// Did the agent do anything between two events?
    fn acted_between(&self, first: Seq, last: Seq) -> Result<bool, Error> {
        let range =
            EventRange { first: first.next(), last: last.back(1), limit: 64, ..EventRange::ALL };
        if range.first > range.last {
            return Ok(false);
        }
        let acts = |event: &Event| {
            let kinds = [
                Kind::TURN_STARTED,
                Kind::TOOL_CALLED,
                Kind::TOOL_FINISHED,
                Kind::FILE_TOUCHED,
                Kind::MESSAGE_ADDED,
                Kind::SESSION_REWOUND,
            ];
            kinds.contains(&event.kind)
        };
        let page = self.view().page(range)?;
        Ok(page.next.is_some() || page.events.iter().any(acts))
    }

    /// How many live events come after `to`, and how many of them are messages.
    fn left_by(&self, to: Seq) -> Result<(u64, u64), Error> {
        let (core, _) = self.core()?;
        let (mut events, mut messages) = (0, 0);
        if to >= core.seq {
            return Ok((0, 0));
        }
        for event in self.view().events(EventRange::from(to.next())) {
            let event = event?;
            if core.lineage.contains(event.seq) {
                events += 1;
                messages += u64::from(event.kind == Kind::MESSAGE_ADDED);
            }
        }
        // Going forward again leaves what came since the rewind.
        Ok((if core.lineage.contains(to) { events } else { events.max(1) }, messages))
    }
}

/// Is it this path, or something below it?
fn is_below(path: &[u8], above: &str) -> bool {
    let rest = path.strip_prefix(above.trim_end_matches('/').as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
}

/// The snapshot of what was before a rewind, and the one that it goes back to.
fn snapshots_of(objects: &dyn Objects, rewind: &Rewind) -> Result<(Snapshot, Snapshot), Error> {
    let read = |hash: Option<ObjectHash>| match hash {
        Some(hash) => read_snapshot(objects, hash),
        None => Err(Error::NoFiles { checkpoint: None, reason: None }),
    };
    Ok((read(rewind.safety)?, read(rewind.snapshot)?))
}

fn moved_head(
    then: Option<GitState>,
    present: Option<&Captured>,
) -> Option<(Option<String>, Option<String>)> {
    let now = present?.checkpoint.git.as_ref()?;
    let then = then?;
    let known = then.error.is_none() && now.error.is_none();
    (known && then.head != now.head).then(|| (then.head, now.head.clone()))
}

fn restored_fact(rewind: Seq, restored: &Restored) -> FilesRestored {
    let failed = restored
        .failed
        .iter()
        .take(MOST_FAILURES)
        .map(|(path, why)| (String::from_utf8_lossy(path).into_owned(), why.clone()));
    FilesRestored {
        rewind,
        created: restored.created,
        changed: restored.changed,
        deleted: restored.deleted,
        failed: failed.collect(),
    }
}
