//! Compacts the contexts of a session by itself, beside whoever records it.
//!
//! Invariants: a compaction is recorded right behind an event at which no turn and no call of its
//! lane is open; a context is compacted again only once it has grown over the threshold anew. The
//! session is not held while a summary is made.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use abide_model::{
    AutoCompaction, Event, EventRange, Kind, LaneId, LaneState, Lineage, Seq, Threshold,
};

use crate::compaction::{
    CompactRequest, CompactionError, CompactionResult, summarize_for_compaction,
};
use crate::context::SessionContext;
use crate::summary::Summarizer;
use crate::tokenizer::token_ceiling;
use crate::{Error, Session, SessionView, Store};

/// How often a compaction is tried again because another event came in between.
const ATTEMPTS: usize = 32;
/// A context that is over the threshold all the same, since a compaction failed, left much or was
/// undone, is compacted again once it has grown by this part of the threshold.
const AGAIN: u64 = 4;
/// How many events are searched backward for the end of a turn.
const TAIL: usize = 256;
/// The most failures that are told apart.
const FAILURES: usize = 16;
/// How long the end of a recording waits for a summary that is being made.
const LAST_LOOK: Duration = Duration::from_secs(10);
/// How long somebody who records waits for a compaction whose summary is made.
const PATIENCE: Duration = Duration::from_millis(250);

/// When contexts are compacted by themselves, and by whom.
#[derive(Clone)]
pub struct CompactionSettings {
    /// What the caller asks for; overrides the settings of the store.
    pub asked: Option<AutoCompaction>,
    /// What applies if neither the caller nor the store says anything. If it is off, it is off whatever
    /// a store says.
    pub usual: Option<AutoCompaction>,
    /// Makes the summaries. A store never names one.
    pub summarizer: Arc<dyn Summarizer>,
}

impl CompactionSettings {
    /// The threshold for the sessions of a store; `None` if they are not compacted by themselves.
    #[must_use]
    pub fn threshold(&self, store: &Store) -> Option<Threshold> {
        let of_store = || store.as_files().and_then(|files| files.config().context.compact_over);
        let setting = match (self.asked, self.usual) {
            (None, Some(AutoCompaction::Off)) => None,
            (asked, usual) => asked.or_else(of_store).or(usual),
        };
        setting.and_then(AutoCompaction::threshold)
    }
}

impl fmt::Debug for CompactionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionSettings")
            .field("asked", &self.asked)
            .field("usual", &self.usual)
            .finish_non_exhaustive()
    }
}

/// The command that takes the last compaction of a lane back.
#[must_use]
pub fn undo_of_compaction(lane: Option<&LaneId>) -> String {
    match lane {
        Some(lane) => format!("abide undo --lane {lane}"),
        None => "abide undo".to_owned(),
    }
}

/// What a [`Compactor`] reports.
#[derive(Debug)]
pub enum CompactorEvent {
    /// A context was compacted.
    Compacted {
        /// The lane; `None` for the main lane.
        lane: Option<LaneId>,
        /// The compaction.
        result: Box<CompactionResult>,
    },
    /// A context that exceeds the threshold stays as it is. The same failure is reported once.
    Failed(Error),
}

/// What happened, in words.
impl fmt::Display for CompactorEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compacted { lane: None, result } => result.fmt(f),
            Self::Compacted { lane: Some(lane), result } => write!(f, "{lane}: {result}"),
            Self::Failed(error) => write!(f, "no compaction: {}", error_chain(error)),
        }
    }
}

/// Compacts the contexts of a session that this process holds: each time a turn has ended, or the
/// model has answered outside of a turn, and the context exceeds a threshold.
///
/// ```
/// use std::sync::Arc;
/// use abide::context::{Compactor, ExtractiveSummarizer, Threshold};
/// use abide::{Message, NewSession, Store};
///
/// # let dir = tempfile::tempdir()?;
/// let store = Store::open_or_init(dir.path())?;
/// let session = Arc::new(store.create(NewSession::titled("long"))?);
/// let summarizer = Arc::new(ExtractiveSummarizer);
/// let compactor = Compactor::start(&session, Threshold::Tokens(2_000), summarizer, |_| ());
/// for number in 0..100 {
///     session.append(Message::user(format!("Step {number}: {}", "look again. ".repeat(20))))?;
///     session.append(Message::assistant("Done."))?.wait()?;
/// }
/// // `wake` has it look in between, beside the recording.
/// let before = session.context()?.tokens().total();
/// compactor.finish();
/// assert!(before > 2_000 && session.context()?.tokens().total() < before);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping it gives up what it is doing.
#[derive(Debug)]
pub struct Compactor {
    session: Weak<Session>,
    waker: CompactorWaker,
    signals: Arc<CompactorSignals>,
    thread: Option<CompactorThread>,
}

/// The thread on which a compactor works.
#[derive(Debug)]
struct CompactorThread {
    handle: JoinHandle<()>,
    /// Disconnected once the work has ended.
    ended: Receiver<()>,
}

/// Has a compactor look at what was recorded since.
#[derive(Debug, Clone)]
pub struct CompactorWaker(SyncSender<()>);

impl CompactorWaker {
    /// Returns at once, and costs next to nothing.
    pub fn wake(&self) {
        // If the channel is full, it will look anyway; if it is closed, it has ended.
        let _ = self.0.try_send(());
    }
}

/// What the two sides of a compactor tell each other.
#[derive(Debug, Default)]
struct CompactorSignals {
    /// It is to end after another look.
    is_last_look: AtomicBool,
    /// It is to end without recording anything more.
    is_abandoned: AtomicBool,
    /// A summary is made and waits for the end of a turn.
    is_waiting: AtomicBool,
    /// The context window that the agent told, in tokens; 0 if it told none.
    window: AtomicU64,
    turns: Mutex<SettledTurns>,
    settled: Condvar,
}

/// The ends of turns at which somebody waits for a compaction.
#[derive(Debug, Default)]
struct SettledTurns {
    asked: u64,
    done: u64,
}

impl CompactorSignals {
    fn turns(&self) -> MutexGuard<'_, SettledTurns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The window of which a threshold may be a share: what the agent told, else what was recorded.
    fn window(&self, recorded: Option<u64>) -> Option<u64> {
        match self.window.load(Ordering::Acquire) {
            0 => recorded,
            told => Some(told),
        }
    }

    fn settle(&self, asked: u64) {
        self.turns().done = asked;
        self.settled.notify_all();
    }
}

impl Compactor {
    /// Starts a thread that works whenever it is woken. `tell` is called on it. If another process
    /// holds the session, nothing is compacted, and `tell` is called at once.
    pub fn start(
        session: &Arc<Session>,
        threshold: Threshold,
        summarizer: Arc<dyn Summarizer>,
        mut tell: impl FnMut(CompactorEvent) + Send + 'static,
    ) -> Self {
        let (wake, woken) = sync_channel(1);
        let mut compactor = Self {
            session: Arc::downgrade(session),
            waker: CompactorWaker(wake),
            signals: Arc::default(),
            thread: None,
        };
        let core = if session.is_relayed() {
            Err(CompactionError::Relayed.into())
        } else {
            session.core()
        };
        let read = match core {
            Ok(core) => core.seq,
            Err(error) => {
                tell(CompactorEvent::Failed(error));
                return compactor;
            }
        };
        // What was recorded before may exceed the threshold already.
        let begun = LaneGrowth { is_due: true, ..LaneGrowth::default() };
        let worker = CompactorWorker {
            session: compactor.session.clone(),
            signals: compactor.signals.clone(),
            threshold,
            summarizer,
            tell: Box::new(tell),
            read,
            lanes: HashMap::from([(None, begun)]),
            told: BTreeSet::new(),
        };
        let (alive, ended) = sync_channel(0);
        let handle = std::thread::spawn(move || {
            let _alive: SyncSender<()> = alive;
            worker.work(&woken);
        });
        compactor.thread = Some(CompactorThread { handle, ended });
        compactor
    }

    /// Whether it works for this session, as opened here.
    #[must_use]
    pub fn is_of(&self, session: &Arc<Session>) -> bool {
        std::ptr::eq(self.session.as_ptr(), Arc::as_ptr(session))
    }

    /// Sets the context window of the model, in tokens, where the agent tells it: a share is of this
    /// one from now on, and not of the one that is recorded in `model.configured`.
    pub fn set_window(&self, tokens: u64) {
        self.signals.window.store(tokens, Ordering::Release);
    }

    /// Has it look at what was recorded since.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Whether a summary is made and waits for the end of a turn.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.signals.is_waiting.load(Ordering::Acquire)
    }

    /// Wakes it at the end of a turn. If a summary waits for that, gives it a moment to be recorded
    /// before the next turn begins; does not wait for one that is being made.
    pub fn settle(&self) {
        if !self.is_waiting() {
            return self.wake();
        }
        let mut turns = self.signals.turns();
        turns.asked += 1;
        let asked = turns.asked;
        self.wake();
        let is_open = |turns: &mut SettledTurns| turns.done < asked;
        // Poisoned or late: the next turn's end is another occasion.
        drop(self.signals.settled.wait_timeout_while(turns, PATIENCE, is_open));
    }

    /// Wakes it from elsewhere.
    #[must_use]
    pub fn waker(&self) -> CompactorWaker {
        self.waker.clone()
    }

    /// Looks a last time, and waits for a summary that is being made, but not for long. What is not
    /// there then is given up.
    pub fn finish(mut self) {
        self.signals.is_last_look.store(true, Ordering::Release);
        self.wake();
        let Some(thread) = self.thread.take() else { return };
        // Nothing is ever sent: the other end goes with the worker.
        if thread.ended.recv_timeout(LAST_LOOK) == Err(RecvTimeoutError::Disconnected) {
            let _ = thread.handle.join();
        }
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.signals.is_abandoned.store(true, Ordering::Release);
        self.wake();
    }
}

/// How the context of a lane has grown.
#[derive(Default)]
struct LaneGrowth {
    /// A turn may have ended since it was last looked at.
    is_due: bool,
    /// Its tokens when they were last counted; `None` if unknown.
    counted: Option<u64>,
    /// It has grown by at most so many tokens since.
    grown: u64,
    /// It is not compacted before it has more tokens than this.
    not_before: u64,
    /// A compaction that waits for the end of the turn.
    made: Option<PreparedCompaction>,
}

impl LaneGrowth {
    /// The context was compacted, restored or rewound.
    fn changed(&mut self) {
        *self = Self { is_due: true, ..Self::default() };
    }
}

/// A compaction whose summary is made.
struct PreparedCompaction {
    result: CompactionResult,
    /// What it was made from.
    basis: CompactionBasis,
}

/// What must not change while a summary is made.
#[derive(PartialEq)]
struct CompactionBasis {
    rewinds: u64,
    compactions: Vec<abide_model::LiveCompaction>,
    pins: Vec<Seq>,
}

impl CompactionBasis {
    fn of(rewinds: u64, lane: &LaneState) -> Self {
        Self { rewinds, compactions: lane.compactions.clone(), pins: lane.pins.clone() }
    }
}

/// The side of a compactor that works on its thread.
struct CompactorWorker {
    session: Weak<Session>,
    signals: Arc<CompactorSignals>,
    threshold: Threshold,
    summarizer: Arc<dyn Summarizer>,
    tell: Box<dyn FnMut(CompactorEvent) + Send>,
    /// The last event that was read.
    read: Seq,
    lanes: HashMap<Option<LaneId>, LaneGrowth>,
    /// The failures that were reported.
    told: BTreeSet<String>,
}

impl CompactorWorker {
    fn work(mut self, woken: &Receiver<()>) {
        loop {
            let is_gone = woken.recv().is_err();
            let is_last = is_gone || self.signals.is_last_look.load(Ordering::Acquire);
            if self.is_abandoned() {
                return;
            }
            if is_last && let Some(session) = self.session.upgrade() {
                // Events that are only buffered count too. If that fails, others notice.
                let _ = session.writer().flush();
            }
            self.look();
            if is_last {
                return;
            }
        }
    }

    fn is_abandoned(&self) -> bool {
        self.signals.is_abandoned.load(Ordering::Acquire)
    }

    /// Reads what was recorded since, and compacts what is due.
    fn look(&mut self) {
        let asked = self.signals.turns().asked;
        let read = self.read_on();
        let due = self.lanes.iter().filter(|(_, growth)| growth.is_due);
        let due = due.map(|(lane, growth)| (lane.clone(), growth.made.is_some()));
        let (ready, due): (Vec<_>, Vec<_>) = due.partition(|(_, is_ready)| *is_ready);
        // Somebody may wait for those whose summary is made.
        ready.into_iter().for_each(|(lane, _)| self.visit(&lane));
        self.signals.settle(asked);
        due.into_iter().for_each(|(lane, _)| self.visit(&lane));
        if let Err(error) = read {
            self.failed(error);
        }
    }

    fn visit(&mut self, lane: &Option<LaneId>) {
        if self.is_abandoned() {
            return;
        }
        self.growth(lane).is_due = false;
        if let Err(error) = self.compact(lane) {
            self.failed(error);
        }
        let is_waiting = self.lanes.values().any(|growth| growth.made.is_some());
        self.signals.is_waiting.store(is_waiting, Ordering::Release);
    }

    fn failed(&mut self, error: Error) {
        if self.told.len() < FAILURES && self.told.insert(error_chain(&error)) {
            (self.tell)(CompactorEvent::Failed(error));
        }
    }

    fn growth(&mut self, lane: &Option<LaneId>) -> &mut LaneGrowth {
        self.lanes.entry(lane.clone()).or_default()
    }

    /// Reads the events recorded since the last time, each once.
    fn read_on(&mut self) -> Result<(), Error> {
        let Some(session) = self.session.upgrade() else { return Ok(()) };
        let last = session.core()?.seq;
        let mut next = (self.read < last).then(|| self.read.next());
        while let Some(first) = next {
            let page = session.view().page(EventRange { last, ..EventRange::from(first) })?;
            for event in &page.events {
                self.read = event.seq;
                self.count(event);
            }
            next = page.next;
        }
        Ok(())
    }

    fn count(&mut self, event: &Event) {
        if event.kind == Kind::SESSION_REWOUND {
            self.lanes.values_mut().for_each(LaneGrowth::changed);
            return;
        }
        let growth = self.growth(&event.lane);
        if event.kind == Kind::CONTEXT_COMPACTED || event.kind == Kind::CONTEXT_RESTORED {
            growth.changed();
        } else if is_conversation_kind(&event.kind) {
            let payload = event.data.as_ref().map_or("", |data| data.as_str());
            growth.grown = growth.grown.saturating_add(token_ceiling(payload));
        }
        let ends = [Kind::TURN_FINISHED, Kind::MESSAGE_ADDED, Kind::API_FINISHED];
        growth.is_due |= ends.contains(&event.kind);
    }

    /// Compacts the context of a lane if it should be.
    fn compact(&mut self, lane: &Option<LaneId>) -> Result<(), Error> {
        let Some(session) = self.session.upgrade() else { return Ok(()) };
        if let Some(made) = self.growth(lane).made.take() {
            return self.put(&session, lane, made);
        }
        let Some(context) = self.excess(&session, lane)? else { return Ok(()) };
        let state = session.state()?;
        // A summary takes its time, and the session may be closed meanwhile.
        drop(session);
        let request = CompactRequest { lane: lane.clone(), ..CompactRequest::default() };
        match summarize_for_compaction(&context, &request, &*self.summarizer, &state) {
            Ok(result) => {
                let basis = CompactionBasis::of(context.core.rewinds, &context.lane);
                let Some(session) = self.session.upgrade() else { return Ok(()) };
                self.put(&session, lane, PreparedCompaction { result, basis })
            }
            Err(error) => {
                let tokens = context.tokens().total();
                let window = self.signals.window(context.core.window);
                let most = self.threshold.tokens(window).unwrap_or(tokens);
                self.growth(lane).not_before = tokens.saturating_add(most / AGAIN);
                match error {
                    Error::Compaction(CompactionError::Nothing(_)) => Ok(()),
                    error => Err(error),
                }
            }
        }
    }

    /// The context of a lane, if it is to be compacted now. It is read only if it may exceed the
    /// threshold.
    fn excess(
        &mut self,
        session: &Session,
        lane: &Option<LaneId>,
    ) -> Result<Option<SessionContext>, Error> {
        let (core, state) = session.writer().lane(lane.as_ref())?;
        if state.turn.is_some() {
            return Ok(None);
        }
        let window = self.signals.window(core.window);
        let most = self.threshold.tokens(window).ok_or(CompactionError::NoWindow)?;
        let growth = self.growth(lane);
        let limit = most.max(growth.not_before);
        let reported = state.reported.map_or(0, |(_, tokens)| tokens);
        let ceiling =
            growth.counted.map(|tokens| tokens.max(reported).saturating_add(growth.grown));
        if ceiling.is_some_and(|ceiling| ceiling <= limit) {
            return Ok(None);
        }
        let end = core.seq;
        let context =
            session.view().gather_context(lane.as_ref(), core, state, end, session.early())?;
        let tokens = context.tokens().total();
        growth.counted = Some(tokens);
        growth.grown = 0;
        if tokens <= limit || !is_between_turns(session.view(), lane, &context)? {
            return Ok(None);
        }
        // What a compaction left, or somebody took back, is not compacted again at once.
        let since = last_context_change(session.view(), lane, &context)?;
        let before = tokens.saturating_sub(context.tokens_since(since));
        if since > Seq::ZERO && before > most {
            growth.not_before = before.saturating_add(most / AGAIN);
            if tokens <= growth.not_before {
                return Ok(None);
            }
        }
        Ok(Some(context))
    }

    /// Records a compaction, or keeps it until the turn that has begun meanwhile is over.
    fn put(
        &mut self,
        session: &Session,
        lane: &Option<LaneId>,
        made: PreparedCompaction,
    ) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let (core, state) = session.writer().lane(lane.as_ref())?;
            if CompactionBasis::of(core.rewinds, &state) != made.basis {
                self.growth(lane).changed();
                return Ok(());
            }
            let end = core.seq;
            let context =
                session.view().gather_context(lane.as_ref(), core, state, end, session.early())?;
            if self.is_abandoned() || !is_between_turns(session.view(), lane, &context)? {
                break;
            }
            let mut result = made.result.clone();
            let compaction = &mut result.compaction;
            let messages = context.len() as u64;
            compaction.after_messages =
                (compaction.after_messages + messages).saturating_sub(compaction.before_messages);
            compaction.before_messages = messages;
            let grown = context.tokens().total().saturating_sub(compaction.before_tokens);
            compaction.before_tokens += grown;
            compaction.after_tokens += grown;
            if let Some(seq) = session.append_compaction(lane.as_ref(), compaction, end)? {
                result.seq = Some(seq);
                self.told.clear();
                let result = Box::new(result);
                (self.tell)(CompactorEvent::Compacted { lane: lane.clone(), result });
                return Ok(());
            }
        }
        self.growth(lane).made = Some(made);
        Ok(())
    }
}

/// Whether an event of this kind is a part of the conversation.
fn is_conversation_kind(kind: &Kind) -> bool {
    [Kind::MESSAGE_ADDED, Kind::TOOL_CALLED, Kind::TOOL_FINISHED].contains(kind)
}

/// Whether no turn, no call and no request of the lane is open, and nobody waits for an answer.
fn is_between_turns(
    view: &SessionView,
    lane: &Option<LaneId>,
    context: &SessionContext,
) -> Result<bool, Error> {
    if context.lane.turn.is_some() || !context.pending.is_empty() || context.asking {
        return Ok(false);
    }
    Ok(context.is_answered() || is_turn_over(view, lane, context)?)
}

/// Whether a turn has ended in the lane since it was last spoken in.
fn is_turn_over(
    view: &SessionView,
    lane: &Option<LaneId>,
    context: &SessionContext,
) -> Result<bool, Error> {
    let range = EventRange { last: context.core.seq, ..EventRange::ALL.backward().limit(TAIL) };
    let page = view.page(range)?;
    let mut events =
        page.events.iter().filter(|event| is_live_in_lane(event, lane, &context.core.lineage));
    let telling = |event: &&Event| {
        let others = [Kind::TURN_FINISHED, Kind::TURN_STARTED, Kind::API_CALLED];
        others.contains(&event.kind) || is_conversation_kind(&event.kind)
    };
    Ok(events.find(telling).is_some_and(|event| event.kind == Kind::TURN_FINISHED))
}

/// The last event that compacted the context of a lane or brought it back; zero if there is none.
fn last_context_change(
    view: &SessionView,
    lane: &Option<LaneId>,
    context: &SessionContext,
) -> Result<Seq, Error> {
    let standing = context.lane.compacted().map_or(Seq::ZERO, |standing| standing.at);
    let first = context.lane.first.unwrap_or(Seq::FIRST).max(standing.next());
    let last = context.core.seq;
    let mut next = (first <= last).then_some(last);
    while let Some(last) = next {
        let range = EventRange { first, last, ..EventRange::ALL.backward() };
        let page = view.page(range)?;
        let restored = page.events.iter().find(|event| {
            event.kind == Kind::CONTEXT_RESTORED
                && is_live_in_lane(event, lane, &context.core.lineage)
        });
        if let Some(restored) = restored {
            return Ok(restored.seq);
        }
        next = page.next;
    }
    Ok(standing)
}

fn is_live_in_lane(event: &Event, lane: &Option<LaneId>, lineage: &Lineage) -> bool {
    event.lane == *lane && lineage.contains(event.seq)
}

/// An error with its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
