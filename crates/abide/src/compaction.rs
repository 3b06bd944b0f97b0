//! Compaction: a part of the context gives way to a summary. The messages stay in the journal.

use std::fmt;
use std::str::FromStr;

use abide_model::{
    Compaction, CompactionPlan, ContextRestored, Event, EventRange, Fact, Kind, LaneId, LaneState,
    NewEvent, Pin, Seq, SessionState, TaskId, TaskState, Timestamp, Uncompactable,
};

use crate::summary::{OpenTask, Summarizer, SummaryError, SummaryRequest};
use crate::tokens::Tokenizer;
use crate::{Error, Session, SessionContext, SessionView};

/// How many of the last messages stay, unless said otherwise.
pub const KEEP: usize = 10;
/// The most tokens of a summary, unless said otherwise.
const MOST_TOKENS: u64 = 4_000;
/// A summary may be this part of what it stands for.
const SHARE: u64 = 4;
/// A summary may always have this many tokens.
const LEAST_TOKENS: u64 = 200;
/// How many files a summary is told of.
const FILES: usize = 50;
/// How many tasks.
const TASKS: usize = 100;

/// What to compact.
#[derive(Debug, Clone)]
pub struct CompactRequest {
    /// Which lane; the main one has no name.
    pub lane: Option<LaneId>,
    /// How many of the last messages stay; more, where a call would be split from its result.
    pub keep: usize,
    /// The most tokens of the summary; otherwise what the context gives.
    pub most_tokens: Option<u64>,
}

impl Default for CompactRequest {
    fn default() -> Self {
        Self { lane: None, keep: KEEP, most_tokens: None }
    }
}

/// A compaction that can be made, or was.
#[derive(Debug, Clone)]
pub struct CompactionMade {
    /// Where it is; nowhere while it is only planned.
    pub seq: Option<Seq>,
    /// What is covered, and what it becomes. Of a plan the summary may be empty.
    pub compaction: Compaction,
    /// How many messages are covered.
    pub covered: u64,
}

/// A compaction in a session's history.
#[derive(Debug, Clone)]
pub struct CompactionEntry {
    /// Where it is.
    pub seq: Seq,
    /// When it was made.
    pub at: Timestamp,
    /// In which lane.
    pub lane: Option<LaneId>,
    /// What it says.
    pub compaction: Compaction,
    /// Was it taken back, by an undo or a rewind?
    pub undone: bool,
}

/// When a context is too full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// More tokens than this.
    Tokens(u64),
    /// More than this part of the model's window, from 0 to 1.
    Share(f64),
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a number of tokens (100000, 100k) or a share of the window (80%)"
            )
        };
        if let Some(share) = text.strip_suffix('%') {
            let share: f64 = share.trim().parse().map_err(|_| wrong())?;
            return (share > 0.0 && share <= 100.0)
                .then_some(Self::Share(share / 100.0))
                .ok_or_else(wrong);
        }
        let (digits, scale) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1_000),
            None => (text, 1),
        };
        let tokens: u64 = digits.replace(['_', ','], "").parse().map_err(|_| wrong())?;
        tokens.checked_mul(scale).map(Self::Tokens).ok_or_else(wrong)
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(tokens) => write!(f, "{tokens} tokens"),
            Self::Share(share) => write!(f, "{:.0}% of the window", share * 100.0),
        }
    }
}

impl Threshold {
    /// How many tokens that are; `None` where it is a share of a window that is not known.
    #[must_use]
    pub fn tokens(&self, window: Option<u64>) -> Option<u64> {
        match self {
            Self::Tokens(tokens) => Some(*tokens),
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
            #[allow(clippy::cast_sign_loss)]
            Self::Share(share) => window.map(|window| (window as f64 * share) as u64),
        }
    }
}

/// Why nothing was compacted. The context is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// There is nothing that could be.
    #[error("there is nothing to compact: {0}")]
    Nothing(Uncompactable),
    /// No summary was made.
    #[error("the context is as it was: {by} made no summary")]
    Summary {
        /// Who should have.
        by: String,
        /// Why.
        #[source]
        source: SummaryError,
    },
    /// The summary is no shorter than what it would stand for.
    #[error(
        "the context is as it was: the summary of {by} has {summary} tokens, and what it stands for {covered}"
    )]
    Longer {
        /// Who made it.
        by: String,
        /// Its tokens.
        summary: u64,
        /// The tokens of what it would cover.
        covered: u64,
    },
    /// No compaction stands.
    #[error("there is no compaction to undo")]
    NothingToUndo,
    /// How large the model's window is is not known.
    #[error(
        "how many tokens the model's context holds is not known: record `model.configured` with its window, or give a number of tokens"
    )]
    NoWindow,
    /// What was to be pinned is not in the context.
    #[error("@{seq} is no message in the context")]
    NotInContext {
        /// Which event.
        seq: Seq,
    },
    /// What was to be let go is not pinned.
    #[error("@{seq} is not pinned")]
    NotPinned {
        /// Which event.
        seq: Seq,
    },
    /// There are as many pins as there can be.
    #[error("no more than {} messages can be pinned", LaneState::PINS)]
    TooManyPins,
}

impl From<Uncompactable> for CompactionError {
    fn from(why: Uncompactable) -> Self {
        Self::Nothing(why)
    }
}

impl SessionContext {
    /// What a compaction would cover, without its summary.
    pub fn plan_compaction(&self, keep: usize) -> Result<CompactionMade, CompactionError> {
        self.planned(keep).map(|planned| planned.made)
    }

    /// Is it fuller than this?
    pub fn is_over(&self, threshold: Threshold) -> Result<bool, CompactionError> {
        let most = threshold.tokens(self.core.window).ok_or(CompactionError::NoWindow)?;
        Ok(self.tokens().total() > most)
    }

    fn planned(&self, keep: usize) -> Result<Planned, CompactionError> {
        let plan = CompactionPlan::of(&self.context, &self.lane, keep)?;
        let tokenizer = Tokenizer::for_model(self.model());
        // Each is counted once: for what there is, and for what is covered of it.
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
        let made = CompactionMade {
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
        Ok(Planned { plan, made, tokenizer, covered_tokens })
    }
}

/// A compaction before its summary is made.
struct Planned {
    plan: CompactionPlan,
    made: CompactionMade,
    tokenizer: Tokenizer,
    /// The tokens of what is covered.
    covered_tokens: u64,
}

impl Session {
    /// Puts a summary in the place of all but the last messages of the context: one event. Where
    /// no summary comes about, or it would be no shorter, the context stays as it was.
    ///
    /// ```
    /// use abide::{CompactRequest, Extractive, Message, NewSession, Store};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::open_or_init(dir.path())?;
    /// # let session = store.create(NewSession::titled("long"))?;
    /// for number in 0..100 {
    ///     session.append(Message::user(format!("Step {number}: {}", "look again. ".repeat(20))))?;
    /// }
    /// let request = CompactRequest { keep: 4, ..CompactRequest::default() };
    /// let made = session.compact(&request, &Extractive)?;
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
    ) -> Result<CompactionMade, Error> {
        let context = self.context_of(request.lane.as_ref())?;
        self.compact_context(&context, request, summarizer)
    }

    /// Compacts where the context is over a threshold.
    pub fn compact_over(
        &self,
        threshold: Threshold,
        request: &CompactRequest,
        summarizer: &dyn Summarizer,
    ) -> Result<Option<CompactionMade>, Error> {
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
    ) -> Result<CompactionMade, Error> {
        let made = summarize(context, request, summarizer, &self.state()?)?;
        let event = NewEvent::try_from(made.compaction.clone())?;
        let event = NewEvent { lane: request.lane.clone(), ..event };
        let done = self.append(event)?.wait()?;
        Ok(CompactionMade { seq: done.first().map(|done| done.seq), ..made })
    }

    /// Takes the newest compaction of a lane back: the context is again what it was, with what was
    /// said since. Says which it was.
    pub fn undo_compaction(&self, lane: Option<&LaneId>) -> Result<Seq, Error> {
        let (_, state) = self.writer().lane(lane)?;
        let standing = state.compacted().ok_or(CompactionError::NothingToUndo)?.at;
        let event = NewEvent::try_from(ContextRestored { compaction: standing })?;
        self.append(NewEvent { lane: lane.cloned(), ..event })?.wait()?;
        Ok(standing)
    }

    /// Keeps a message in the context when what is around it is compacted, with the outcomes of its
    /// calls. Says which events that are.
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

    /// Keeps a message no longer, nor the outcomes of its calls. Says which events that are.
    pub fn unpin(&self, lane: Option<&LaneId>, message: Seq) -> Result<Vec<Seq>, Error> {
        let context = self.context_of(lane)?;
        let mut group = context.context.together(message);
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
            let event = NewEvent::try_from(Pin { message: *seq, pinned })?;
            Ok(NewEvent { lane: lane.cloned(), ..event })
        };
        let events: Result<Vec<NewEvent>, Error> = seqs.iter().map(event).collect();
        self.append_all(events?)?.wait()?;
        Ok(seqs)
    }
}

/// A compaction with its summary, not made yet.
fn summarize(
    context: &SessionContext,
    request: &CompactRequest,
    summarizer: &dyn Summarizer,
    state: &SessionState,
) -> Result<CompactionMade, Error> {
    let Planned { plan, mut made, tokenizer, covered_tokens } = context.planned(request.keep)?;
    let covered = plan.covered_of(&context.context);
    // Of little a summary is shorter still.
    let most_tokens = request.most_tokens.unwrap_or_else(|| {
        (covered_tokens / SHARE).clamp(LEAST_TOKENS, MOST_TOKENS).min(covered_tokens * 3 / 4)
    });
    let (tasks, files) = (open_tasks(state), touched(state));
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
    // What the provider reported may count more than the messages: tools, instructions.
    let freed = covered_tokens - summary;
    compaction.after_tokens = compaction.before_tokens.saturating_sub(freed);
    compaction.tokens = compaction.tokens.max(Some(tokenizer.how()));
    Ok(made)
}

/// The tasks that are not done, in their order.
fn open_tasks(state: &SessionState) -> Vec<OpenTask> {
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
fn touched(state: &SessionState) -> Vec<String> {
    let mut files: Vec<_> = state.files.iter().collect();
    files.sort_unstable_by_key(|(_, file)| std::cmp::Reverse(file.seq));
    files.into_iter().take(FILES).map(|(path, _)| path.to_owned()).collect()
}

impl SessionView {
    /// What a compaction would be, its summary included, without making it.
    pub fn summarize(
        &self,
        context: &SessionContext,
        request: &CompactRequest,
        summarizer: &dyn Summarizer,
    ) -> Result<CompactionMade, Error> {
        summarize(context, request, summarizer, &self.state()?)
    }

    /// Every compaction of the session, oldest first.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read() {
        assert_eq!("80%".parse(), Ok(Threshold::Share(0.8)));
        assert_eq!("100k".parse(), Ok(Threshold::Tokens(100_000)));
        assert_eq!("150_000".parse(), Ok(Threshold::Tokens(150_000)));
        for wrong in ["", "%", "0%", "101%", "many", "-1", "99999999999999999999k"] {
            assert!(wrong.parse::<Threshold>().is_err(), "{wrong:?}");
        }
        assert_eq!(Threshold::Share(0.5).tokens(Some(1000)), Some(500));
        assert_eq!(Threshold::Share(0.5).tokens(None), None);
    }
}
