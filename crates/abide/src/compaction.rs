//! Compaction: replaces part of the context by a summary. The messages stay in the journal.

use std::cell::Cell;
use std::fmt;

use abide_model::{
    AnomalyPolicy, Compaction, CompactionPlan, ContextPin, ContextRestored, Durability, Event,
    EventRange, Fact, InputError, Kind, LaneId, LaneState, NewEvent, NothingToCompact, Seq,
    SessionState, TaskId, TaskState, Threshold, Timestamp,
};

use crate::summary::{OpenTask, Summarizer, SummaryError, SummaryRequest};
use crate::tokenizer::Tokenizer;
use crate::{Error, Session, SessionView, context::SessionContext};

/// Default number of recent messages to keep.
pub const KEEP: usize = 10;
/// Default maximum number of tokens in a summary.
const MOST_TOKENS: u64 = 4_000;
/// A summary may have one token for this many tokens it covers.
const SHARE: u64 = 4;
/// A summary may always have this many tokens, unless it covers little more.
const LEAST_TOKENS: u64 = 200;
/// Maximum number of files passed to the summarizer.
const FILES: usize = 50;
/// Maximum number of tasks passed to the summarizer.
const TASKS: usize = 100;

/// What to compact.
#[derive(Debug, Clone)]
pub struct CompactRequest {
    /// The lane; `None` for the main lane.
    pub lane: Option<LaneId>,
    /// How many of the last messages to keep. More are kept if a call would be split from its
    /// result.
    pub keep: usize,
    /// Maximum number of tokens in the summary; by default it depends on the context.
    pub most_tokens: Option<u64>,
}

impl Default for CompactRequest {
    fn default() -> Self {
        Self { lane: None, keep: KEEP, most_tokens: None }
    }
}

/// A compaction, planned or made.
#[derive(Debug, Clone)]
pub struct CompactionResult {
    /// Its event; `None` if it is only planned.
    pub seq: Option<Seq>,
    /// What is covered, and by what it is replaced. The summary of a plan may be empty.
    pub compaction: Compaction,
    /// The number of messages covered.
    pub covered: u64,
}

/// What was done, in words.
impl fmt::Display for CompactionResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compaction { before_tokens, after_tokens, .. } = &self.compaction;
        write!(
            f,
            "Compacted {} messages of the context, tokens {before_tokens} → {after_tokens}",
            self.covered
        )
    }
}

/// A compaction in a session's history.
#[derive(Debug, Clone)]
pub struct CompactionEntry {
    /// Its event.
    pub seq: Seq,
    /// When it was made.
    pub at: Timestamp,
    /// In which lane.
    pub lane: Option<LaneId>,
    /// Its content.
    pub compaction: Compaction,
    /// True if it was undone or rewound.
    pub undone: bool,
}

/// Why nothing was compacted. The context is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// There is nothing to compact.
    #[error("there is nothing to compact: {0}")]
    Nothing(NothingToCompact),
    /// The summarizer failed.
    #[error("the context is unchanged: {by} made no summary")]
    Summary {
        /// The summarizer.
        by: String,
        /// The cause.
        #[source]
        source: SummaryError,
    },
    /// The summary is no shorter than what it would replace.
    #[error(
        "the context is unchanged: the summary of {by} has {summary} tokens, but what it would replace has {covered}"
    )]
    Longer {
        /// The summarizer.
        by: String,
        /// Its tokens.
        summary: u64,
        /// The tokens it would replace.
        covered: u64,
    },
    /// There is no compaction to undo.
    #[error("there is no compaction to undo")]
    NothingToUndo,
    /// The size of the model's window is unknown.
    #[error(
        "the size of the model's context window is unknown: record `model.configured` with its window, or give a number of tokens"
    )]
    NoWindow,
    /// Another process holds the session, and it alone knows when nothing comes in between.
    #[error("another process holds the session: only that one compacts its context by itself")]
    Relayed,
    /// The message to pin is not in the context.
    #[error("@{seq} is not a message in the context")]
    NotInContext {
        /// The event.
        seq: Seq,
    },
    /// The message to unpin is not pinned.
    #[error("@{seq} is not pinned")]
    NotPinned {
        /// The event.
        seq: Seq,
    },
    /// The limit on pins is reached.
    #[error("no more than {} messages can be pinned", LaneState::PINS)]
    TooManyPins,
}

impl From<NothingToCompact> for CompactionError {
    fn from(why: NothingToCompact) -> Self {
        Self::Nothing(why)
    }
}

impl SessionContext {
    /// Plans a compaction, without a summary.
    pub fn plan_compaction(&self, keep: usize) -> Result<CompactionResult, CompactionError> {
        self.planned(keep).map(|planned| planned.made)
    }

    /// Returns true if the context exceeds the threshold.
    pub fn is_over(&self, threshold: Threshold) -> Result<bool, CompactionError> {
        let most = threshold.tokens(self.core.window).ok_or(CompactionError::NoWindow)?;
        Ok(self.tokens().total() > most)
    }

    fn planned(&self, keep: usize) -> Result<PlannedCompaction, CompactionError> {
        let plan = CompactionPlan::of(&self.context, &self.lane, keep)?;
        let tokenizer = Tokenizer::for_model(self.model());
        // Each entry is counted once, for both the total and the covered part.
        let mut each = vec![None; self.len()];
        let before = self.tokens_with(|place, entry| {
            let tokens = tokenizer.entry(entry);
            if let Some(known) = each.get_mut(place) {
                *known = Some(tokens.total());
            }
            tokens
        });
        let covered = plan.covered.iter().filter_map(|place| {
            let entry = self.context.entries.get(*place)?;
            let known = each.get(*place).copied().flatten();
            Some(known.unwrap_or_else(|| tokenizer.entry(entry).total()))
        });
        let covered_tokens = covered.sum();
        let made = CompactionResult {
            seq: None,
            covered: plan.covered.len() as u64,
            compaction: Compaction {
                first: plan.first,
                last: plan.last,
                keeps: plan.keeps.clone(),
                before_messages: self.len() as u64,
                after_messages: plan.kept as u64 + 1,
                before_tokens: before.total(),
                tokens: Some(before.how()),
                ..Compaction::default()
            },
        };
        Ok(PlannedCompaction { plan, made, tokenizer, covered_tokens })
    }
}

/// A compaction whose summary is still to be made.
struct PlannedCompaction {
    plan: CompactionPlan,
    made: CompactionResult,
    tokenizer: Tokenizer,
    /// The tokens it covers.
    covered_tokens: u64,
}

impl Session {
    /// Replaces all but the last messages of the context by a summary, with a single event. If no
    /// summary can be made, or it would be no shorter, the context is unchanged.
    ///
    /// ```
    /// use abide::context::{CompactRequest, ExtractiveSummarizer};
    /// use abide::{Message, NewSession, Store};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open_or_init(dir.path())?;
    /// # let session = store.create(NewSession::titled("long"))?;
    /// for number in 0..100 {
    ///     session.append(Message::user(format!("Step {number}: {}", "look again. ".repeat(20))))?;
    /// }
    /// let request = CompactRequest { keep: 4, ..CompactRequest::default() };
    /// let made = session.compact(&request, &ExtractiveSummarizer)?;
    /// assert_eq!(session.context()?.len(), 5);
    /// assert!(made.compaction.after_tokens < made.compaction.before_tokens);
    /// session.undo_compaction(None)?;
    /// assert_eq!(session.context()?.len(), 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compact(
        &self,
        request: &CompactRequest,
        summarizer: &dyn Summarizer,
    ) -> Result<CompactionResult, Error> {
        let context = self.context_of(request.lane.as_ref())?;
        self.compact_context(&context, request, summarizer)
    }

    /// Compacts the context if it exceeds a threshold.
    pub fn compact_over(
        &self,
        threshold: Threshold,
        request: &CompactRequest,
        summarizer: &dyn Summarizer,
    ) -> Result<Option<CompactionResult>, Error> {
        let context = self.context_of(request.lane.as_ref())?;
        if !context.is_over(threshold)? {
            return Ok(None);
        }
        self.compact_context(&context, request, summarizer).map(Some)
    }

    fn compact_context(
        &self,
        context: &SessionContext,
        request: &CompactRequest,
        summarizer: &dyn Summarizer,
    ) -> Result<CompactionResult, Error> {
        let made = summarize_for_compaction(context, request, summarizer, &self.state()?)?;
        let event = NewEvent::try_from(made.compaction.clone())?;
        let event = NewEvent { lane: request.lane.clone(), ..event };
        let done = self.append(event)?.wait()?;
        Ok(CompactionResult { seq: done.first().map(|done| done.seq), ..made })
    }

    /// Records a compaction right behind the event `behind`. Records nothing and returns `None` if
    /// another event came in between.
    pub(crate) fn append_compaction(
        &self,
        lane: Option<&LaneId>,
        compaction: &Compaction,
        behind: Seq,
    ) -> Result<Option<Seq>, Error> {
        let event = NewEvent::try_from(compaction.clone())?;
        let event = NewEvent { lane: lane.cloned(), ..event };
        let is_late = Cell::new(false);
        let make = |last: Seq| {
            is_late.set(last != behind);
            // Nobody sees the error: it only ends the attempt.
            if is_late.get() { Err(InputError::NotAnObject) } else { Ok(event.clone()) }
        };
        match self.writer().append_behind(&make) {
            Err(_) if is_late.get() => Ok(None),
            appended => Ok(appended?.wait()?.first().map(|done| done.seq)),
        }
    }

    /// Undoes the newest compaction of a lane: the context is what it was before, plus what was
    /// said since. Returns the compaction's event.
    pub fn undo_compaction(&self, lane: Option<&LaneId>) -> Result<Seq, Error> {
        let (_, state) = self.writer().lane(lane)?;
        let standing = state.compacted().ok_or(CompactionError::NothingToUndo)?.at;
        let event = NewEvent::try_from(ContextRestored { compaction: standing })?;
        self.append(NewEvent { lane: lane.cloned(), ..event })?.wait()?;
        Ok(standing)
    }

    /// Does a compaction again that was undone: with the same summary, for the same messages. Refused
    /// if it no longer fits the context. Returns the new compaction's event.
    pub fn redo_compaction(&self, compaction: Seq) -> Result<Seq, Error> {
        let range = EventRange { first: compaction, last: compaction, ..EventRange::ALL };
        let event = self.view().page(range)?.events.into_iter().next();
        let Some((lane, Ok(Fact::Compaction(before)))) =
            event.map(|event| (event.lane.clone(), event.fact()))
        else {
            return Err(Error::NothingToRedo);
        };
        let again = Compaction { redoes: Some(compaction), ..before };
        let event = NewEvent { lane, ..NewEvent::try_from(again)? };
        let done = self.append_with(vec![event], Durability::Synced, AnomalyPolicy::Refuse)?;
        Ok(done.wait()?.first().map(|done| done.seq).unwrap_or_default())
    }

    /// Keeps a message in the context through compactions, with the results of its calls. Returns
    /// the events this covers.
    pub fn pin(&self, lane: Option<&LaneId>, message: Seq) -> Result<Vec<Seq>, Error> {
        let context = self.context_of(lane)?;
        let group = context.context.together(message);
        if group.is_empty() {
            return Err(CompactionError::NotInContext { seq: message }.into());
        }
        let new = group.iter().filter(|seq| !context.lane.pins.contains(seq)).count();
        if context.lane.pins.len() + new > LaneState::PINS {
            return Err(CompactionError::TooManyPins.into());
        }
        self.set_pins(lane, group, true)
    }

    /// Unpins a message and the results of its calls. Returns the events this covers.
    pub fn unpin(&self, lane: Option<&LaneId>, message: Seq) -> Result<Vec<Seq>, Error> {
        let context = self.context_of(lane)?;
        let group = context.context.together(message).into_iter();
        // An older version may have been pinned.
        let mut group: Vec<Seq> = group.flat_map(|seq| context.context.versions_of(seq)).collect();
        if group.is_empty() && context.lane.pins.contains(&message) {
            group.push(message);
        }
        group.retain(|seq| context.lane.pins.contains(seq));
        if group.is_empty() {
            return Err(CompactionError::NotPinned { seq: message }.into());
        }
        self.set_pins(lane, group, false)
    }

    fn set_pins(
        &self,
        lane: Option<&LaneId>,
        seqs: Vec<Seq>,
        pinned: bool,
    ) -> Result<Vec<Seq>, Error> {
        let event = |seq: &Seq| -> Result<NewEvent, Error> {
            let event = NewEvent::try_from(ContextPin { message: *seq, pinned })?;
            Ok(NewEvent { lane: lane.cloned(), ..event })
        };
        let events: Result<Vec<NewEvent>, Error> = seqs.iter().map(event).collect();
        self.append_all(events?)?.wait()?;
        Ok(seqs)
    }
}

/// A compaction with its summary, not yet recorded.
pub(crate) fn summarize_for_compaction(
    context: &SessionContext,
    request: &CompactRequest,
    summarizer: &dyn Summarizer,
    state: &SessionState,
) -> Result<CompactionResult, Error> {
    let PlannedCompaction { plan, mut made, tokenizer, covered_tokens } =
        context.planned(request.keep)?;
    let covered = plan.covered_of(&context.context);
    // At most three quarters of what is covered, however little that is.
    let most_tokens = request.most_tokens.unwrap_or_else(|| {
        (covered_tokens / SHARE).clamp(LEAST_TOKENS, MOST_TOKENS).min(covered_tokens * 3 / 4)
    });
    let (tasks, files) = (tasks_for_compaction(state), files_for_compaction(state));
    let by = summarizer.name();
    let asked = SummaryRequest { context: &covered, most_tokens, tasks: &tasks, files: &files };
    let text = summarizer
        .summarize(&asked)
        .map_err(|source| CompactionError::Summary { by: by.clone(), source })?;
    let summary = tokenizer.text(&text) + 4;
    if summary >= covered_tokens {
        let covered = covered_tokens;
        return Err(CompactionError::Longer { by, summary, covered }.into());
    }
    let compaction = &mut made.compaction;
    compaction.summary = text;
    compaction.by = by;
    // The provider's count may include more than the messages: tools, instructions.
    let freed = covered_tokens - summary;
    compaction.after_tokens = compaction.before_tokens.saturating_sub(freed);
    compaction.tokens = compaction.tokens.max(Some(tokenizer.how()));
    Ok(made)
}

/// The open tasks, in order.
fn tasks_for_compaction(state: &SessionState) -> Vec<OpenTask> {
    let open = state.tasks.iter().filter(|(_, task)| task.known && !task.status.is_done());
    let mut tasks: Vec<_> = open.collect();
    tasks.sort_unstable_by_key(|(_, task)| task.order);
    let told = |(id, task): (&str, &TaskState)| OpenTask {
        id: TaskId(id.to_owned()),
        title: task.title.clone(),
        status: task.status,
    };
    tasks.into_iter().take(TASKS).map(told).collect()
}

/// The files touched, newest first.
fn files_for_compaction(state: &SessionState) -> Vec<String> {
    let mut files: Vec<_> = state.files.iter().collect();
    files.sort_unstable_by_key(|(_, file)| std::cmp::Reverse(file.seq));
    files.into_iter().take(FILES).map(|(path, _)| path.to_owned()).collect()
}

impl SessionView {
    /// Makes the summary of a compaction without recording it.
    pub fn summarize(
        &self,
        context: &SessionContext,
        request: &CompactRequest,
        summarizer: &dyn Summarizer,
    ) -> Result<CompactionResult, Error> {
        summarize_for_compaction(context, request, summarizer, &self.state()?)
    }

    /// All compactions of the session, oldest first.
    pub fn compactions(&self) -> Result<Vec<CompactionEntry>, Error> {
        let lineage = self.state()?.core.lineage;
        let mut found: Vec<CompactionEntry> = Vec::new();
        for event in self.events(EventRange::ALL) {
            let event: Event = event?;
            let live = lineage.contains(event.seq);
            if event.kind != Kind::CONTEXT_COMPACTED && event.kind != Kind::CONTEXT_RESTORED {
                continue;
            }
            match event.fact() {
                Ok(Fact::Compaction(compaction)) => found.push(CompactionEntry {
                    seq: event.seq,
                    at: event.at,
                    lane: event.lane,
                    compaction,
                    undone: !live,
                }),
                Ok(Fact::ContextRestored(restored)) if live => {
                    let named = |entry: &&mut CompactionEntry| entry.seq == restored.compaction;
                    if let Some(entry) = found.iter_mut().find(named) {
                        entry.undone = true;
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }
}
