//! Rewinds the conversation, the files, or both to an earlier position.
//!
//! The order is: a checkpoint of the present; a note in the user's state directory (see
//! [`Consent`](crate::Consent)); `session.rewound`, which says what will be done; the files;
//! `files.restored`. If it is interrupted anywhere, the next process to open the session can finish
//! it, and it can be undone. Only a rewind that this machine started is finished without asking,
//! and only in the directory named in its note: a journal may come from anybody.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use abide_model::{
    Event, EventRange, Fact, FilesRestored, Kind, NewEvent, ObjectHash, Objects, Rewind, Seq,
};
use abide_workspace::{
    ChangedPath, RestoreError, RestorePlan, RestoreReport, RestoreWatch, Snapshot, Watch, restore,
};

use crate::checkpoint::{CapturedCheckpoint, read_snapshot};
use crate::consent::RewindConsent;
use crate::git_comparison::GitComparison;
use crate::workspace_lock::WorkspaceLock;
use crate::{
    CheckpointRequest, Error, Session, SessionView,
    checkpoint::{CheckpointEntry, Trigger},
    event::ResolvedPosition,
};

/// Maximum number of failures to record.
const MOST_FAILURES: usize = 100;

/// What to rewind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RewindRequest {
    /// Rewind the files.
    pub files: bool,
    /// Only these files and directories; empty for all.
    pub paths: Vec<String>,
    /// Rewind the conversation, with the tasks and the rest of the session's state.
    pub conversation: bool,
}

/// What a rewind will do.
#[derive(Debug)]
pub struct RewindPlan {
    /// The event recorded before anything is done.
    pub rewind: Rewind,
    /// The checkpoint whose files are restored.
    pub checkpoint: Option<CheckpointEntry>,
    /// The steps for the files.
    pub files: RestorePlan,
    /// Git at the checkpoint and now, if both are known. Neither HEAD nor the index is changed.
    pub git: Option<GitComparison>,
    /// Number of events that leave the lineage, and how many of them are messages.
    pub left: (u64, u64),
    /// The captured present files, and their directory.
    present: Option<(CapturedCheckpoint, PathBuf)>,
    talk: ConversationEffect,
    /// The last rewind when it was planned.
    last_rewind: Option<Seq>,
}

impl RewindPlan {
    /// What will be done to the files, for display: renames as such, a directory only if it is empty.
    pub fn changes(&self) -> Result<Vec<ChangedPath>, Error> {
        match &self.present {
            Some((present, _)) => Ok(self.files.changes(&*present.objects)?),
            None => Ok(Vec::new()),
        }
    }

    /// The objects that [`RewindPlan::changes`] names; `None` if no file is restored.
    #[must_use]
    pub fn objects(&self) -> Option<&dyn Objects> {
        self.present.as_ref().map(|(present, _)| &*present.objects)
    }

    /// The paths that were staged in git at the checkpoint and will not be: git's index stays as it
    /// is. Those within the rewind, relative to the root of the repository.
    #[must_use]
    pub fn unstaged(&self) -> Vec<String> {
        let Some(git) = self.git.as_ref().filter(|_| self.rewind.files) else { return Vec::new() };
        let is_meant = |path: &str| {
            let paths = &self.rewind.paths;
            paths.is_empty()
                || paths.iter().any(|above| is_below_rewound_path(path.as_bytes(), above))
        };
        let steps: HashSet<&[u8]> =
            self.files.steps.iter().map(|step| step.path.as_slice()).collect();
        let changes = |path: &str| steps.contains(path.as_bytes());
        git.unstaged(is_meant, changes)
    }
}

/// What happens to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConversationEffect {
    /// It is rewound to the position in the rewind event.
    Back,
    /// It stays, including whatever is recorded before the rewind event.
    Stays,
}

/// How an interrupted rewind will be finished.
#[derive(Debug)]
pub struct FinishPlan {
    /// The event of the rewind.
    pub seq: Seq,
    /// The directory whose files are restored.
    pub root: PathBuf,
    /// True if this machine started it, in that directory.
    pub own: bool,
    /// The steps for the files.
    pub files: RestorePlan,
    objects: Arc<dyn Objects>,
}

/// The result of a rewind.
#[derive(Debug, Clone, Default)]
pub struct RewindReport {
    /// The event of the rewind.
    pub seq: Seq,
    /// The number of the checkpoint of the previous state.
    pub safety: Option<u64>,
    /// The result for the files.
    pub files: RestoreReport,
}

/// The result of finishing an interrupted rewind.
#[derive(Debug, Clone)]
pub enum UnfinishedRewind {
    /// There was none.
    None,
    /// It has been finished.
    Finished(RewindReport),
    /// It was left as it is.
    Left {
        /// The event of the rewind.
        seq: Seq,
        /// The reason.
        why: String,
    },
}

/// Progress callbacks and cancellation flag for a running rewind.
#[derive(Clone, Default)]
pub struct RewindWatch {
    /// For the checkpoint of the present. Its `cancel` stops the restore too.
    pub snapshot: Watch,
    /// Called with the number of completed files and the total.
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
        plan: &RestorePlan,
    ) -> Result<RestoreReport, RestoreError> {
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
    /// Plans a rewind. Captures the present files and changes nothing.
    pub fn plan_rewind(
        &self,
        to: &ResolvedPosition,
        request: &RewindRequest,
        watch: &RewindWatch,
    ) -> Result<RewindPlan, Error> {
        let end = self.core()?.seq;
        let talk =
            if request.conversation { ConversationEffect::Back } else { ConversationEffect::Stays };
        self.refuse_held_rewind(talk)?;
        let rewind = Rewind {
            to: if request.conversation { to.seq } else { end },
            files: request.files,
            paths: request.paths.clone(),
            ..Rewind::default()
        };
        if !request.files {
            return self.plan_conversation_rewind(rewind, talk);
        }
        self.plan_checkpoint_rewind(self.view().files_at(to)?, rewind, talk, watch)
    }

    /// Plans to restore the files of a checkpoint: one of this session, or of the session that it was
    /// forked from. The conversation stays.
    pub fn plan_restore(
        &self,
        checkpoint: CheckpointEntry,
        watch: &RewindWatch,
    ) -> Result<RewindPlan, Error> {
        let rewind = Rewind { to: self.core()?.seq, files: true, ..Rewind::default() };
        self.plan_checkpoint_rewind(checkpoint, rewind, ConversationEffect::Stays, watch)
    }

    /// A plan that restores the files of a checkpoint.
    fn plan_checkpoint_rewind(
        &self,
        checkpoint: CheckpointEntry,
        mut rewind: Rewind,
        talk: ConversationEffect,
        watch: &RewindWatch,
    ) -> Result<RewindPlan, Error> {
        self.refuse_foreign_rewind(&checkpoint)?;
        rewind.snapshot = checkpoint.checkpoint.snapshot;
        let then = checkpoint.checkpoint.git.clone();
        let mut plan = self.plan_snapshot_rewind(rewind, talk, watch)?;
        let now =
            plan.present.as_ref().map(|(present, root)| (present.checkpoint.git.clone(), root));
        plan.git = now.and_then(|(now, root)| GitComparison::of(then, now, root));
        plan.checkpoint = Some(checkpoint);
        Ok(plan)
    }

    /// Plans to undo the last rewind, which may itself have undone one.
    pub fn plan_undo(&self, watch: &RewindWatch) -> Result<RewindPlan, Error> {
        let last = self.core()?.last_rewind.ok_or(Error::NothingToUndo)?;
        self.plan_undo_of(last, watch)
    }

    /// Plans to undo the rewind recorded by an event, so that all is as it was before it. Undoing what
    /// undid a rewind does that rewind again: see [`Session::next_undo`] and [`Session::next_redo`].
    pub fn plan_undo_of(&self, seq: Seq, watch: &RewindWatch) -> Result<RewindPlan, Error> {
        let core = self.core()?;
        let undone = self.rewind_at(seq)?;
        let talk = ConversationEffect::of(&undone, seq);
        self.refuse_held_rewind(talk)?;
        let rewind = Rewind {
            to: if talk == ConversationEffect::Back { seq.back(1) } else { core.seq },
            files: undone.files,
            snapshot: undone.safety,
            paths: undone.paths,
            undoes: Some(seq),
            ..Rewind::default()
        };
        if rewind.files {
            self.plan_snapshot_rewind(rewind, talk, watch)
        } else {
            self.plan_conversation_rewind(rewind, talk)
        }
    }

    /// The process that holds the session has the conversation in memory and would go on with it.
    fn refuse_held_rewind(&self, talk: ConversationEffect) -> Result<(), Error> {
        match talk {
            ConversationEffect::Back if self.is_relayed() => {
                Err(Error::HeldConversation { session: self.id() })
            }
            _ => Ok(()),
        }
    }

    /// A plan that leaves the files alone.
    fn plan_conversation_rewind(
        &self,
        rewind: Rewind,
        talk: ConversationEffect,
    ) -> Result<RewindPlan, Error> {
        let (left, talk) = self.left_by_rewind(rewind.to, talk)?;
        let files = RestorePlan::default();
        let last_rewind = self.core()?.last_rewind;
        Ok(RewindPlan {
            rewind,
            checkpoint: None,
            files,
            git: None,
            left,
            present: None,
            talk,
            last_rewind,
        })
    }

    /// A plan that restores the files of `rewind.snapshot`.
    fn plan_snapshot_rewind(
        &self,
        mut rewind: Rewind,
        talk: ConversationEffect,
        watch: &RewindWatch,
    ) -> Result<RewindPlan, Error> {
        let core = self.core()?;
        let target = rewind.snapshot.ok_or(Error::NoFiles { checkpoint: None, reason: None })?;
        let request = CheckpointRequest {
            trigger: Trigger::Rewind,
            watch: watch.snapshot.clone(),
            ..CheckpointRequest::default()
        };
        let present = self.store().capture_for_checkpoint(self.id(), &core.fields, &request)?;
        let objects = &*present.objects;
        let target = read_snapshot(objects, target)?;
        let (tree, root) = match (&present.taken, &present.root) {
            (Some(taken), Some(root)) if root.is_absolute() => (taken, root.clone()),
            (_, root) => return Err(Error::NoWorkspace { root: root.clone() }),
        };
        let files =
            self.plan_file_rewind(&root, objects, (&tree.snapshot, &target), &rewind.paths)?;
        if !rewind.paths.is_empty() {
            // Paths that are removed to make room for others are included, so that an undo restores
            // them too.
            let ways: Vec<String> = files
                .steps
                .iter()
                .filter(|step| {
                    !rewind.paths.iter().any(|path| is_below_rewound_path(&step.path, path))
                })
                .map(|step| String::from_utf8_lossy(&step.path).into_owned())
                .collect();
            rewind.paths.extend(ways);
        }
        rewind.safety = Some(tree.hash);
        rewind.workspace = Some(root.to_string_lossy().into_owned());
        let (left, talk) = self.left_by_rewind(rewind.to, talk)?;
        let present = Some((present, root));
        Ok(RewindPlan {
            rewind,
            checkpoint: None,
            files,
            git: None,
            left,
            present,
            talk,
            last_rewind: core.last_rewind,
        })
    }

    /// Carries out a plan.
    pub fn rewind(&self, plan: RewindPlan, watch: &RewindWatch) -> Result<RewindReport, Error> {
        let mut rewound = RewindReport::default();
        let root = plan.present.as_ref().filter(|_| plan.rewind.files).map(|(_, root)| root);
        let _lock = root.map(|root| WorkspaceLock::of(root)).transpose()?;
        if self.core()?.last_rewind != plan.last_rewind {
            return Err(Error::RewoundMeanwhile);
        }
        if let Some((present, _)) = &plan.present {
            rewound.safety = Some(self.put_checkpoint(present)?.number);
        }
        let rewind = plan.rewind;
        let Some((present, root)) = plan.present.filter(|_| rewind.files) else {
            rewound.seq = self.put_rewind(&rewind, plan.talk)?;
            return Ok(rewound);
        };
        self.store().note_consent_to_rewind(self.id(), &self.rewind_consent(&rewind, &root))?;
        rewound.seq = self.put_rewind(&rewind, plan.talk)?;
        match watch.run(&root, &*present.objects, &plan.files) {
            Ok(restored) => {
                self.record_finished_rewind(rewound.seq, &restored)?;
                rewound.files = restored;
                Ok(rewound)
            }
            Err(RestoreError::Cancelled) => {
                let begun = (rewound.seq, &rewind, plan.talk);
                let back = self.take_back_rewind(begun, &*present.objects, &root)?;
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

    /// Records a rewind. If the conversation stays, its position is the event right before, even if
    /// others append at the same time.
    fn put_rewind(&self, rewind: &Rewind, talk: ConversationEffect) -> Result<Seq, Error> {
        if talk == ConversationEffect::Back {
            return self.put_rewind_event(rewind.clone());
        }
        let behind = |to: Seq| NewEvent::try_from(Rewind { to, ..rewind.clone() });
        let done = self.writer().append_behind(&behind)?.wait()?;
        Ok(done.last().map(|done| done.seq).unwrap_or_default())
    }

    /// The note of a rewind, as it is recorded: the two are compared.
    fn rewind_consent(&self, rewind: &Rewind, root: &Path) -> RewindConsent {
        let recorded = NewEvent::try_from(rewind.clone()).map(|event| self.redacted(event));
        let recorded = recorded.ok().and_then(|event| event.data.decode::<Rewind>().ok());
        RewindConsent::of(recorded.as_ref().unwrap_or(rewind), root)
    }

    /// Records that all files are restored.
    fn record_finished_rewind(&self, seq: Seq, restored: &RestoreReport) -> Result<(), Error> {
        self.put_rewind_event(rewind_restored_fact(seq, restored))?;
        self.note_files(seq)?;
        self.store().forget_consent_to_rewind(self.id());
        Ok(())
    }

    /// The steps from one snapshot of a workspace to another.
    fn plan_file_rewind(
        &self,
        root: &Path,
        objects: &dyn Objects,
        (from, to): (&Snapshot, &Snapshot),
        paths: &[String],
    ) -> Result<RestorePlan, Error> {
        let paths: Vec<Vec<u8>> = paths.iter().map(|path| path.clone().into_bytes()).collect();
        Ok(self.store().workspace(root)?.plan(objects, from, to, &paths)?)
    }

    /// Refuses to restore a checkpoint of another directory over this one's files. It is allowed if
    /// the workspace was moved, so that the old directory is gone, or if this is another clone of
    /// the session's project.
    fn refuse_foreign_rewind(&self, entry: &CheckpointEntry) -> Result<(), Error> {
        if self.store().workspace_here(self.id())?.is_some() {
            return Ok(());
        }
        let Some(counts) = &entry.checkpoint.workspace else { return Ok(()) };
        let now = self.store().workspace_root(self.id(), &self.core()?.fields)?;
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

    /// Undoes a cancelled restore, and the rewind of the conversation.
    fn take_back_rewind(
        &self,
        (seq, rewind, talk): (Seq, &Rewind, ConversationEffect),
        objects: &dyn Objects,
        root: &Path,
    ) -> Result<RestoreReport, Error> {
        let (safety, target) = snapshots_of_rewind(objects, rewind)?;
        let back = self.plan_file_rewind(root, objects, (&target, &safety), &rewind.paths)?;
        let undo = Rewind {
            to: seq.back(1),
            snapshot: rewind.safety,
            safety: rewind.snapshot,
            undoes: Some(seq),
            ..rewind.clone()
        };
        // Restoring the files matters more than the note.
        let _ = self.store().note_consent_to_rewind(self.id(), &self.rewind_consent(&undo, root));
        let undo = self.put_rewind(&undo, talk)?;
        let restored = RewindWatch::default().run(root, objects, &back)?;
        self.record_finished_rewind(undo, &restored)?;
        Ok(restored)
    }

    /// Finishes an interrupted rewind, if this machine started it. Files that others changed since
    /// then are left alone. A rewind that somebody else started, or that cannot be finished, is
    /// left as it is.
    pub fn finish_rewind(&self, watch: &RewindWatch) -> Result<UnfinishedRewind, Error> {
        let Some(seq) = self.core()?.restoring else { return Ok(UnfinishedRewind::None) };
        let left = |why: String| Ok(UnfinishedRewind::Left { seq, why });
        let rewind = self.rewind_at(seq)?;
        let noted =
            self.store().noted_consent_to_rewind(self.id())?.filter(|noted| noted.is(&rewind));
        let Some(noted) = noted else {
            return left("this machine has no note of starting it".to_owned());
        };
        match self.plan_rewind_finish(seq, &rewind, noted.root) {
            Ok(plan) => Ok(match self.finish(plan, watch)? {
                Some(done) => UnfinishedRewind::Finished(done),
                None => UnfinishedRewind::None,
            }),
            Err(error) => left(error.to_string()),
        }
    }

    /// Plans to finish an interrupted rewind, whoever started it: in the directory that this
    /// machine noted, or else in the session's workspace. `None` if there is no such rewind.
    pub fn plan_finish(&self) -> Result<Option<FinishPlan>, Error> {
        let core = self.core()?;
        let Some(seq) = core.restoring else { return Ok(None) };
        let rewind = self.rewind_at(seq)?;
        let noted =
            self.store().noted_consent_to_rewind(self.id())?.filter(|noted| noted.is(&rewind));
        let (root, own) = match noted {
            Some(noted) => (noted.root, true),
            None => (self.store().workspace_root(self.id(), &core.fields)?, false),
        };
        let plan = self.plan_rewind_finish(seq, &rewind, root)?;
        Ok(Some(FinishPlan { own, ..plan }))
    }

    fn plan_rewind_finish(
        &self,
        seq: Seq,
        rewind: &Rewind,
        root: PathBuf,
    ) -> Result<FinishPlan, Error> {
        if !root.is_absolute() {
            return Err(Error::NoWorkspace { root: Some(root) });
        }
        // Refuses directories that cannot be a workspace.
        let workspace = self.store().workspace(&root)?;
        let objects = self.store().objects()?;
        let (safety, target) = snapshots_of_rewind(&*objects, rewind)?;
        let paths: Vec<_> = rewind.paths.iter().map(|path| path.clone().into_bytes()).collect();
        let files = workspace.plan_on(&*objects, &safety, &target, &paths)?;
        Ok(FinishPlan { seq, root, own: false, files, objects })
    }

    /// Finishes a rewind as planned. `None` if another process has finished it meanwhile.
    pub fn finish(
        &self,
        plan: FinishPlan,
        watch: &RewindWatch,
    ) -> Result<Option<RewindReport>, Error> {
        let _lock = WorkspaceLock::of(&plan.root)?;
        if self.core()?.restoring != Some(plan.seq) {
            return Ok(None);
        }
        let restored = watch.run(&plan.root, &*plan.objects, &plan.files)?;
        self.record_finished_rewind(plan.seq, &restored)?;
        Ok(Some(RewindReport { seq: plan.seq, safety: None, files: restored }))
    }

    fn put_rewind_event<E>(&self, event: E) -> Result<Seq, Error>
    where
        E: TryInto<NewEvent>,
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

    /// Number of live events after `to`, and how many of them are messages. If there are none, the
    /// conversation stays.
    fn left_by_rewind(
        &self,
        to: Seq,
        talk: ConversationEffect,
    ) -> Result<((u64, u64), ConversationEffect), Error> {
        let core = self.core()?;
        let (mut events, mut messages) = (0, 0);
        if talk == ConversationEffect::Stays || to >= core.seq {
            return Ok(((0, 0), ConversationEffect::Stays));
        }
        for event in self.view().events(EventRange::from(to.next())) {
            let event = event?;
            if core.lineage.contains(event.seq) {
                events += 1;
                messages += u64::from(event.kind == Kind::MESSAGE_ADDED);
            }
        }
        // Going forward again abandons what came after the rewind.
        let events = if core.lineage.contains(to) { events } else { events.max(1) };
        Ok((
            (events, messages),
            if events == 0 { ConversationEffect::Stays } else { ConversationEffect::Back },
        ))
    }
}

impl SessionView {
    /// The checkpoint with the files of a position: its own, the one made right after it, or else
    /// the last one before it. Where the one before was made at the end of a turn, one that a person made
    /// right after it is not taken: none at the end of this turn means that no file had changed.
    pub fn files_at(&self, to: &ResolvedPosition) -> Result<CheckpointEntry, Error> {
        let all = self.all_checkpoints()?;
        if let Some((number, _)) = &to.checkpoint {
            let entry = all.into_iter().find(|entry| entry.seq == to.seq);
            return match entry {
                Some(entry) if entry.thinned => {
                    let reason = Some("retention removed its files".to_owned());
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
        let is = |entry: &CheckpointEntry, trigger: Trigger| {
            entry.checkpoint.trigger == trigger.as_str()
        };
        let after = all.iter().filter(usable).find(|entry| entry.seq > to.seq);
        let before = all.iter().filter(usable).rev().find(|entry| entry.seq <= to.seq);
        if let Some(after) = after
            && !(is(after, Trigger::Hand) && before.is_some_and(|before| is(before, Trigger::Turn)))
            && !self.acted_between(to.seq, after.seq)?
        {
            return Ok(after.clone());
        }
        before.cloned().ok_or(Error::NoFiles { checkpoint: None, reason: None })
    }

    /// Returns true if the agent did anything between two events.
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
        let page = self.page(range)?;
        Ok(page.next.is_some() || page.events.iter().any(acts))
    }
}

impl ConversationEffect {
    /// What a rewind recorded at this event did to the conversation.
    fn of(rewind: &Rewind, seq: Seq) -> Self {
        if rewind.to.next() == seq { Self::Stays } else { Self::Back }
    }
}

/// Returns true for this path and everything below it.
fn is_below_rewound_path(path: &[u8], above: &str) -> bool {
    let rest = path.strip_prefix(above.trim_end_matches('/').as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
}

/// The snapshot from before a rewind, and the one it restores.
fn snapshots_of_rewind(
    objects: &dyn Objects,
    rewind: &Rewind,
) -> Result<(Snapshot, Snapshot), Error> {
    let read = |hash: Option<ObjectHash>| match hash {
        Some(hash) => read_snapshot(objects, hash),
        None => Err(Error::NoFiles { checkpoint: None, reason: None }),
    };
    Ok((read(rewind.safety)?, read(rewind.snapshot)?))
}

fn rewind_restored_fact(rewind: Seq, restored: &RestoreReport) -> FilesRestored {
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
