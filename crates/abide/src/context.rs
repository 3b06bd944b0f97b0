//! The context of a session: what the model would see now, read from the store for each request.

pub use crate::compaction::{
    CompactRequest, CompactionEntry, CompactionError, CompactionResult, KEEP,
};
pub use crate::compactor::{
    CompactionSettings, Compactor, CompactorEvent, CompactorWaker, undo_of_compaction,
};
#[cfg(feature = "http")]
pub use crate::summary::{EndpointForm, SummaryEndpoint};
pub use crate::summary::{
    ExtractiveSummarizer, LineCall, LineTask, OpenTask, Summarizer, SummaryCommand, SummaryError,
    SummaryLine, SummaryRequest,
};
pub use crate::tokenizer::{TokenCount, Tokenizer};
pub use abide_local::{SummarizerType, UserContextConfig};
pub use abide_model::{
    AutoCompaction, Compaction, CompactionPlan, Context, ContextEntry, ContextPin, ContextRestored,
    ContextSource, Conversation, LiveCompaction, NothingToCompact, RecordedResult, Threshold,
    TokenBasis, parse_token_count,
};
pub use abide_wire::{RenderedContext, render};

use abide_model::message::{CallPiece, MessagePiece, Speaker};
use abide_model::{
    ContextBuilder, EventRange, LaneId, LaneState, PendingCall, ReadFinding, Seq, SessionCore,
};
use abide_wire::{MessageForm, RequestedCall};

use crate::context_cache::ContextPartCache;
use crate::{Error, Session, SessionView};

/// What the model would see of a lane, with related state.
#[derive(Debug, Clone)]
pub struct SessionContext {
    /// The context entries, in order.
    pub context: Context,
    /// Calls of the last answer without a result, and later calls that no message contains. Run
    /// those that were not started; check the effects of those that were before running them again.
    pub pending: Vec<PendingCall>,
    /// True if a request to the model has not been fully answered.
    pub asking: bool,
    /// What could not be read.
    pub notes: Vec<ReadFinding>,
    /// The small part of the session's state.
    pub core: SessionCore,
    /// The state of the lane.
    pub lane: LaneState,
}

impl SessionContext {
    /// Renders a valid API request: each call has exactly one result, and the roles are in order.
    #[must_use]
    pub fn render(&self, form: MessageForm) -> RenderedContext {
        render(form, &self.context)
    }

    /// Returns true if the context is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.context.entries.is_empty()
    }

    /// The number of messages. Calls that no message contains, results of calls, and summaries
    /// count too.
    #[must_use]
    pub fn len(&self) -> usize {
        self.context.entries.len()
    }

    /// The session's model, if recorded.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        let configured = self.core.model.as_ref().map(|(model, _)| model.as_str());
        configured.or(self.core.fields.model.as_deref())
    }

    /// The number of tokens: what the provider last reported, plus what was added since, counted by
    /// the model's tokenizer or estimated if that is unknown.
    #[must_use]
    pub fn tokens(&self) -> TokenCount {
        self.tokens_by(&Tokenizer::for_model(self.model()))
    }

    /// Like [`SessionContext::tokens`], with the given tokenizer.
    #[must_use]
    pub fn tokens_by(&self, tokenizer: &Tokenizer) -> TokenCount {
        self.tokens_with(|_, entry| tokenizer.entry(entry))
    }

    /// Like [`SessionContext::tokens`], with the tokens of each entry given by `tokens`.
    pub(crate) fn tokens_with(
        &self,
        mut tokens: impl FnMut(usize, &ContextEntry) -> TokenCount,
    ) -> TokenCount {
        let compacted = self.lane.compacted().map_or(Seq::ZERO, |standing| standing.at);
        let mut count = TokenCount::default();
        // A count from before a compaction is of a different context.
        let reported = self.lane.reported.filter(|(seq, _)| *seq > compacted);
        let mut since = Seq::ZERO;
        if let Some((seq, tokens)) = reported {
            count.reported = tokens;
            since = seq;
        }
        let mut known = false;
        for (place, entry) in self.context.entries.iter().enumerate() {
            // An unknown outcome belongs to the call before it.
            known = entry.seq().map_or(known, |seq| seq <= since);
            if !known {
                count.sum(&tokens(place, entry));
            }
        }
        count
    }

    /// The tokens of the entries after an event.
    pub(crate) fn tokens_since(&self, since: Seq) -> u64 {
        let tokenizer = Tokenizer::for_model(self.model());
        let added = self.context.entries.iter();
        let added = added.filter(|entry| entry.seq().is_some_and(|seq| seq > since));
        added.map(|entry| tokenizer.entry(entry).total()).sum()
    }

    /// The calls that wait for a result, with their arguments, and whether they were started.
    #[must_use]
    pub fn pending_calls(&self) -> Vec<(RequestedCall, bool)> {
        let find = |pending: &PendingCall| {
            let call = self.context.entries.iter().find_map(|entry| match entry {
                ContextEntry::Message { seq, message } if *seq == pending.seq => {
                    let calls = message.pieces.iter().filter_map(MessagePiece::call);
                    let mut same = calls.filter(|call| call.id == pending.call.0);
                    same.nth(pending.nth).map(RequestedCall::from)
                }
                ContextEntry::Call { seq, data, .. } if *seq == pending.seq => {
                    CallPiece::begun(data).as_ref().map(RequestedCall::from)
                }
                _ => None,
            });
            call.map(|call| (call, pending.begun))
        };
        self.pending.iter().filter_map(find).collect()
    }

    /// Returns true if the model has finished for now: it spoke last, requests no calls, and its
    /// answer was not cut off.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        let Some(ContextEntry::Message { message, .. }) = self.last() else { return false };
        let spoke = message.speaker() == Speaker::Assistant && !message.marks.partial;
        spoke && self.pending.is_empty() && !self.asking
    }

    /// The last entry.
    #[must_use]
    pub fn last(&self) -> Option<&ContextEntry> {
        self.context.entries.last()
    }
}

impl SessionView {
    /// What the model would see of a lane now; `None` is the main lane. The cost depends on the
    /// length of the context, not of the session.
    pub fn context(&self, lane: Option<&LaneId>) -> Result<SessionContext, Error> {
        let (core, state) = self.reader().lane(lane, None)?;
        let end = core.seq;
        self.gather_context(lane, core, state, end, &ContextPartCache::default())
    }

    /// What the model would have seen right after an event.
    pub fn context_at(&self, lane: Option<&LaneId>, at: Seq) -> Result<SessionContext, Error> {
        let (core, state) = self.reader().lane(lane, Some(at))?;
        self.gather_context(lane, core, state, at, &ContextPartCache::default())
    }

    pub(crate) fn gather_context(
        &self,
        lane: Option<&LaneId>,
        core: SessionCore,
        state: LaneState,
        end: Seq,
        early: &ContextPartCache,
    ) -> Result<SessionContext, Error> {
        let mut builder = ContextBuilder::new(lane.cloned(), &state, &core.lineage, end);
        let mut notes = Vec::new();
        for (first, last) in builder.ranges().to_vec() {
            // The last part grows, so it is read each time.
            if last < end
                && let Some(events) = early.get(lane, first, last)
            {
                events.into_iter().for_each(|event| builder.event(event));
                continue;
            }
            let (mut read, mut sound) = (Vec::new(), true);
            let mut next = Some(first);
            while let Some(first) = next {
                let page = self.page(EventRange { first, last, ..EventRange::ALL })?;
                sound &= page.notes.is_empty();
                notes.extend(page.notes);
                read.extend(page.events);
                next = page.next;
            }
            // The history of a fork belongs to another session, whose writer may erase a payload.
            if last < end && sound && core.fields.parent.is_none() {
                early.keep(lane, (first, last), &read);
            }
            read.into_iter().for_each(|event| builder.event(event));
        }
        let reading = builder.finish();
        let (pending, asking) = (reading.pending(), reading.is_asking());
        Ok(SessionContext { context: reading.build(), pending, asking, notes, core, lane: state })
    }
}

impl Session {
    /// What the model would see of the main lane now, including every event appended so far.
    ///
    /// ```
    /// use abide::{Message, MessageForm, NewSession, Store};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let store = Store::open_or_init(dir.path())?;
    /// let session = store.create(NewSession::titled("Fix the parser"))?;
    /// session.append(Message::user("The parser drops the last line."))?;
    /// let request = session.context()?.render(MessageForm::OpenAi).to_json();
    /// assert_eq!(
    ///     request,
    ///     r#"{"messages":[{"role":"user","content":"The parser drops the last line."}]}"#
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn context(&self) -> Result<SessionContext, Error> {
        self.context_of(None)
    }

    /// What the model would see of a lane now.
    pub fn context_of(&self, lane: Option<&LaneId>) -> Result<SessionContext, Error> {
        let (core, state) = self.writer().lane(lane)?;
        let end = core.seq;
        self.view().gather_context(lane, core, state, end, self.early())
    }
}
