//! Thresholds, turns and failures of a compactor.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use abide_model::{
    Message, ModelConfiguration, NewEvent, NewSession, ToolCall, ToolResult, TurnEnd, TurnStart,
};

use super::*;
use crate::context::{ExtractiveSummarizer, SummaryError, SummaryRequest};

/// A session, and what a compactor said about it.
struct Lab {
    _dir: tempfile::TempDir,
    session: Arc<Session>,
    told: Arc<Mutex<Vec<CompactorEvent>>>,
}

/// Does something while it makes a summary.
struct BusySummarizer<F> {
    meanwhile: F,
    calls: AtomicUsize,
}

impl<F: Fn(usize) -> Result<(), SummaryError> + Send + Sync> Summarizer for BusySummarizer<F> {
    fn name(&self) -> String {
        "busy".to_owned()
    }

    fn summarize(&self, _: &SummaryRequest<'_>) -> Result<String, SummaryError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        (self.meanwhile)(call).map(|()| "It went well.".to_owned())
    }
}

fn busy<F>(meanwhile: F) -> Arc<BusySummarizer<F>>
where
    F: Fn(usize) -> Result<(), SummaryError> + Send + Sync,
{
    Arc::new(BusySummarizer { meanwhile, calls: AtomicUsize::new(0) })
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_init(dir.path()).unwrap();
        let session = Arc::new(store.create(NewSession::titled("long")).unwrap());
        Self { _dir: dir, session, told: Arc::default() }
    }

    /// A compactor without its thread.
    fn worker(&self, threshold: Threshold, by: Arc<dyn Summarizer>) -> CompactorWorker {
        let told = self.told.clone();
        let begun = LaneGrowth { is_due: true, ..LaneGrowth::default() };
        CompactorWorker {
            session: Arc::downgrade(&self.session),
            signals: Arc::default(),
            threshold,
            summarizer: by,
            tell: Box::new(move |event| told.lock().unwrap().push(event)),
            read: self.session.core().unwrap().seq,
            lanes: HashMap::from([(None, begun)]),
            told: BTreeSet::new(),
        }
    }

    fn put<E>(&self, event: E) -> Seq
    where
        E: TryInto<NewEvent>,
        Error: From<E::Error>,
    {
        put(&self.session, event)
    }

    /// Questions with answers, of about 50 tokens each.
    fn talk(&self, questions: usize) {
        for _ in 0..questions {
            self.put(Message::user("Look at the parser again, line by line. ".repeat(4)));
            self.put(Message::assistant("It drops the last line of a file. ".repeat(4)));
        }
    }

    fn compactions(&self) -> Vec<Seq> {
        let all = self.session.view().compactions().unwrap();
        all.iter().filter(|entry| !entry.undone).map(|entry| entry.seq).collect()
    }

    fn tokens(&self) -> u64 {
        self.session.context().unwrap().tokens().total()
    }

    fn failures(&self) -> Vec<String> {
        let told = self.told.lock().unwrap();
        let failed = told.iter().filter_map(|event| match event {
            CompactorEvent::Failed(error) => Some(error_chain(error)),
            CompactorEvent::Compacted { .. } => None,
        });
        failed.collect()
    }
}

fn put<E>(session: &Session, event: E) -> Seq
where
    E: TryInto<NewEvent>,
    Error: From<E::Error>,
{
    session.append(event).unwrap().wait().unwrap().last().unwrap().seq
}

fn turn_end() -> TurnEnd {
    TurnEnd { turn: None, status: "done".to_owned(), usage: None }
}

#[test]
fn a_context_is_compacted_once_it_exceeds_the_threshold_and_again_once_it_does_anew() {
    let lab = Lab::new();
    let mut worker = lab.worker(Threshold::Tokens(1_500), Arc::new(ExtractiveSummarizer));
    let mut most = 0;
    for _ in 0..80 {
        lab.talk(1);
        most = most.max(lab.tokens());
        worker.look();
        assert!(lab.tokens() <= 1_500, "{}", lab.tokens());
        worker.look();
    }
    assert!(most > 1_500);
    let count = lab.compactions().len();
    assert!((3..10).contains(&count), "{count}");
    assert_eq!(lab.told.lock().unwrap().len(), count, "each is told");
    lab.session.undo_compaction(None).unwrap();
    assert_eq!(lab.compactions().len(), count - 1, "it is undone as any other");
}

#[test]
fn a_turn_that_begins_while_the_summary_is_made_is_not_cut() {
    let lab = Lab::new();
    lab.talk(30);
    let session = Arc::downgrade(&lab.session);
    let by = busy(move |_| {
        let turn = TurnStart { agent: "coder".to_owned(), ..TurnStart::default() };
        put(&session.upgrade().unwrap(), turn);
        Ok(())
    });
    let mut worker = lab.worker(Threshold::Tokens(1_000), by.clone());
    worker.look();
    assert_eq!(by.calls.load(Ordering::Relaxed), 1);
    lab.talk(1);
    worker.look();
    assert_eq!(lab.compactions(), [], "a turn is open");
    let end = lab.put(turn_end());
    worker.look();
    assert!(lab.compactions().first().is_some_and(|seq| *seq > end));
    assert_eq!(by.calls.load(Ordering::Relaxed), 1, "the summary is still the one");
    let context = lab.session.context().unwrap();
    assert_eq!(context.len(), 1 + crate::context::KEEP + 2, "what was said meanwhile stays");
}

#[test]
fn a_summary_of_what_was_rewound_or_compacted_meanwhile_is_dropped() {
    for other in 0..2 {
        let lab = Lab::new();
        lab.talk(30);
        let session = Arc::downgrade(&lab.session);
        let by = busy(move |call| {
            let session = session.upgrade().unwrap();
            match (call, other) {
                (0, 0) => drop(
                    session.compact(&CompactRequest::default(), &ExtractiveSummarizer).unwrap(),
                ),
                (0, _) => drop(session.pin(None, Seq(3)).unwrap()),
                _ => {}
            }
            Ok(())
        });
        let mut worker = lab.worker(Threshold::Tokens(1_500), by.clone());
        worker.look();
        let count = if other == 0 { 1 } else { 0 };
        assert_eq!(lab.compactions().len(), count);
        worker.look();
        assert_eq!(lab.compactions().len(), 1, "it is compacted again only where it must be");
    }
}

#[test]
fn nothing_is_compacted_while_somebody_waits_for_an_answer() {
    let lab = Lab::new();
    lab.talk(30);
    let mut worker = lab.worker(Threshold::Tokens(1_000), Arc::new(ExtractiveSummarizer));
    lab.put(Message::user("And now?"));
    worker.look();
    assert_eq!(lab.compactions(), [], "a question is open");
    lab.put(Message::assistant("I look."));
    lab.put(ToolCall::new("c1", "bash"));
    worker.look();
    assert_eq!(lab.compactions(), [], "a call is open");
    lab.put(turn_end());
    worker.look();
    assert_eq!(lab.compactions(), [], "its turn is over, but it is still open");
    lab.put(ToolResult::success("c1"));
    worker.look();
    assert_eq!(lab.compactions(), [], "the model has not seen its result");
    lab.put(Message::assistant("Done."));
    worker.look();
    assert_eq!(lab.compactions().len(), 1);
}

#[test]
fn the_end_of_a_turn_counts_whoever_spoke_last() {
    let lab = Lab::new();
    lab.talk(30);
    lab.put(TurnStart { agent: "coder".to_owned(), ..TurnStart::default() });
    lab.put(Message::user("And now?"));
    let mut worker = lab.worker(Threshold::Tokens(1_000), Arc::new(ExtractiveSummarizer));
    worker.look();
    assert_eq!(lab.compactions(), []);
    lab.put(turn_end());
    worker.look();
    assert_eq!(lab.compactions().len(), 1);
}

#[test]
fn what_was_undone_is_not_compacted_again_at_once() {
    let lab = Lab::new();
    lab.talk(30);
    let most = 1_000;
    let worker = || lab.worker(Threshold::Tokens(most), Arc::new(ExtractiveSummarizer));
    let mut first = worker();
    first.look();
    assert_eq!(lab.compactions().len(), 1);
    lab.session.undo_compaction(None).unwrap();
    let undone = lab.tokens();
    // Neither by this process nor by the next.
    let mut second = worker();
    lab.talk(1);
    for worker in [&mut first, &mut second] {
        worker.look();
        assert_eq!(lab.compactions(), []);
    }
    while lab.tokens() <= undone + most / AGAIN {
        second.look();
        assert_eq!(lab.compactions(), []);
        lab.talk(1);
    }
    second.look();
    assert_eq!(lab.compactions().len(), 1);
}

#[test]
fn a_failure_is_told_once_and_tried_again_later() {
    let lab = Lab::new();
    lab.talk(30);
    let by = busy(|call| if call < 2 { Err(SummaryError::NotText) } else { Ok(()) });
    let mut worker = lab.worker(Threshold::Tokens(1_000), by.clone());
    while lab.compactions().is_empty() {
        worker.look();
        lab.talk(1);
        assert!(lab.tokens() < 10_000, "it is never tried again");
    }
    assert_eq!(by.calls.load(Ordering::Relaxed), 3);
    let failures = lab.failures();
    let [failure] = &failures[..] else { panic!("{failures:?}") };
    assert!(failure.contains("the context is unchanged"), "{failure}");
    assert!(lab.tokens() > 0);
}

#[test]
fn a_share_of_an_unknown_window_is_told_once_and_does_nothing() {
    let lab = Lab::new();
    let mut worker = lab.worker(Threshold::Share(0.5), Arc::new(ExtractiveSummarizer));
    for _ in 0..30 {
        lab.talk(1);
        worker.look();
    }
    assert_eq!((lab.compactions().len(), lab.failures().len()), (0, 1));
    let model = ModelConfiguration {
        model: "some-model".to_owned(),
        window: Some(2_000),
        ..ModelConfiguration::default()
    };
    lab.put(model);
    lab.talk(1);
    worker.look();
    assert_eq!(lab.compactions().len(), 1);
}

#[test]
fn a_context_far_from_the_threshold_is_not_read() {
    let lab = Lab::new();
    let mut worker = lab.worker(Threshold::Tokens(100_000), Arc::new(ExtractiveSummarizer));
    let mut counts = BTreeSet::new();
    for _ in 0..200 {
        lab.talk(1);
        worker.look();
        counts.insert(worker.lanes[&None].counted);
    }
    assert_eq!(counts.len(), 1, "it was counted once, at the beginning");
    assert!(worker.lanes[&None].grown > lab.tokens());
}

#[test]
fn a_lane_is_compacted_by_itself() {
    let lab = Lab::new();
    let lane = Some(LaneId("helper".to_owned()));
    let mut worker = lab.worker(Threshold::Tokens(1_000), Arc::new(ExtractiveSummarizer));
    lab.talk(3);
    for text in ["Look again. ", "It is fine. "].iter().cycle().take(60) {
        let message = Message::assistant(text.repeat(10));
        lab.put(NewEvent { lane: lane.clone(), ..NewEvent::try_from(message).unwrap() });
    }
    worker.look();
    let entries = lab.session.view().compactions().unwrap();
    assert_eq!(entries.iter().map(|entry| entry.lane.clone()).collect::<Vec<_>>(), [lane]);
}

#[test]
fn a_compaction_that_comes_too_late_is_not_recorded() {
    let lab = Lab::new();
    lab.talk(30);
    let end = lab.session.core().unwrap().seq;
    let context = lab.session.context().unwrap();
    let made = context.plan_compaction(4).unwrap().compaction;
    let compaction = abide_model::Compaction { summary: "Short.".to_owned(), ..made };
    lab.put(TurnStart { agent: "coder".to_owned(), ..TurnStart::default() });
    assert_eq!(lab.session.append_compaction(None, &compaction, end).unwrap(), None);
    assert_eq!(lab.compactions(), []);
    let end = lab.session.core().unwrap().seq;
    let made = lab.session.append_compaction(None, &compaction, end).unwrap();
    assert_eq!(made, Some(end.next()));
}

#[test]
fn a_compactor_holds_no_session_that_its_owner_closes() {
    let lab = Lab::new();
    lab.talk(30);
    let (begun, begins) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    let by = busy(move |_| {
        begun.send(()).unwrap();
        let _ = ended.lock().unwrap().recv();
        Ok(())
    });
    let told = lab.told.clone();
    let tell = move |event| told.lock().unwrap().push(event);
    let compactor = Compactor::start(&lab.session, Threshold::Tokens(1_000), by, tell);
    assert!(compactor.is_of(&lab.session));
    compactor.wake();
    begins.recv().unwrap();
    let session = Arc::try_unwrap(lab.session).unwrap();
    session.close().unwrap();
    drop(end);
    compactor.finish();
    assert!(lab.told.lock().unwrap().is_empty());
}
