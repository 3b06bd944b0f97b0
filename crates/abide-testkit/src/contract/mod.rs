//! What every store must keep. One suite, run unchanged against each.

mod forks;
mod histories;
mod keys;
mod sessions;
mod states;
mod writing;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide_model::{
    AnomalyPolicy, Durability, EventRange, History, HistoryQuery, Lineage, NewEvent, NewSession,
    Search, Seq, SessionFields, SessionId, SessionRef, SessionWriter, Store, StoreError,
};

/// A store under test.
pub trait Subject {
    /// Opens the same store once more, as another process would.
    fn open(&self) -> Arc<dyn Store> {
        self.open_for(&[])
    }
    /// The same for a project that is known by these ids; for all, where there are none.
    fn open_for(&self, projects: &[&str]) -> Arc<dyn Store>;
}

/// A part of the contract: panics where it is not kept.
pub type Part = fn(&dyn Subject);

/// The parts of the contract, by name.
pub const PARTS: &[(&str, Part)] = &[
    ("a session is read as it was written", writing::a_session_is_read_as_it_was_written),
    ("ranges go forward and backward in pages", writing::ranges_go_forward_and_backward_in_pages),
    ("a key is used once", keys::a_key_is_used_once),
    ("a key counts within the lineage", keys::a_key_counts_within_the_lineage),
    ("a fork knows the keys of its past", keys::a_fork_knows_the_keys_of_its_past),
    ("a client key names one session", keys::a_client_key_names_one_session),
    ("sessions are found and listed", sessions::sessions_are_found_and_listed),
    (
        "a session is of the project it is made in",
        sessions::a_session_is_of_the_project_it_is_made_in,
    ),
    ("a client key counts in its project", keys::a_client_key_counts_in_its_project),
    ("a session carries when it started", sessions::a_session_carries_when_it_started),
    ("the latest session is not empty", sessions::the_latest_session_is_not_empty),
    ("the latest session of a directory", sessions::the_latest_session_of_a_directory),
    ("one writer at a time", writing::one_writer_at_a_time),
    ("a batch is taken whole or not at all", writing::a_batch_is_taken_whole_or_not_at_all),
    ("odd events are kept or refused", writing::odd_events_are_kept_or_refused),
    ("the state follows the events", states::the_state_follows_the_events),
    ("a rewind reverts the state", states::a_rewind_reverts_the_state),
    ("a fork goes on from a place in the past", forks::a_fork_goes_on_from_a_place_in_the_past),
    ("a fork and its parent go their own ways", forks::a_fork_and_its_parent_go_their_own_ways),
    ("a fork can be forked and rewound", forks::a_fork_can_be_forked_and_rewound),
    ("a fork has a key of its own", forks::a_fork_has_a_key_of_its_own),
    ("only what is there is forked", forks::only_what_is_there_is_forked),
    ("epochs grow", writing::epochs_grow),
    ("payloads are verbatim", writing::payloads_are_verbatim),
    ("a ticket can be awaited", writing::a_ticket_can_be_awaited),
    ("many threads append at once", writing::many_threads_append_at_once),
    ("nothing comes between an event and the one it names", writing::nothing_comes_between),
    ("history lists and filters", histories::history_lists_and_filters),
    ("what was said is found", histories::what_was_said_is_found),
    ("history follows the events", histories::history_follows_the_events),
    (
        "a search asks who said it and what failed",
        histories::a_search_asks_who_said_it_and_what_failed,
    ),
    (
        "what happened before is listed by its time",
        histories::what_happened_before_is_listed_by_its_time,
    ),
    ("usage counts once", histories::usage_counts_once),
    ("lists and readers name a session alike", histories::lists_and_readers_name_a_session_alike),
];

const NOW: Duration = Duration::ZERO;

fn event(json: &str) -> NewEvent {
    NewEvent::parse(json).unwrap()
}

fn message(text: &str) -> NewEvent {
    event(&format!(r#"{{"kind":"message.added","data":{{"role":"user","content":"{text}"}}}}"#))
}

fn append(writer: &dyn SessionWriter, events: Vec<NewEvent>) -> Vec<u64> {
    let ticket = writer.append(events, Durability::Synced, AnomalyPolicy::Keep).unwrap();
    ticket.wait().unwrap().iter().map(|event| event.seq.0).collect()
}

fn new_session(store: &dyn Store) -> (abide_model::SessionId, Arc<dyn SessionWriter>) {
    let id = store.create(NewSession::titled("a session")).unwrap().id;
    (id, store.write(id, NOW).unwrap())
}

fn kinds(store: &dyn Store, id: abide_model::SessionId) -> Vec<String> {
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    assert_eq!(page.notes, []);
    page.events.iter().map(|event| event.kind.to_string()).collect()
}

fn rewind(to: u64) -> NewEvent {
    event(&format!(r#"{{"kind":"session.rewound","data":{{"to":{to}}}}}"#))
}

/// Waits for the next millisecond: of two sessions that are made in the same one, either id may be
/// the greater.
fn tick() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let start = now();
    while now() == start {
        std::hint::spin_loop();
    }
}

fn found_by(store: &dyn Store, reference: &SessionRef) -> Option<SessionId> {
    match store.find(reference) {
        Err(StoreError::NoSession { .. }) => None,
        found => Some(found.unwrap()),
    }
}

fn state(store: &dyn Store, id: SessionId) -> abide_model::SessionState {
    store.read(id).unwrap().state().unwrap()
}

/// Reading it event by event, from the first of the past on, must give the state that the store
/// gives, in pages of any size and from behind too.
fn assert_whole(store: &dyn Store, id: SessionId, last: u64) {
    let reader = store.read(id).unwrap();
    let mut events = Vec::new();
    let mut range = EventRange::ALL.limit(3);
    loop {
        let page = reader.page(range).unwrap();
        assert_eq!(page.notes, []);
        events.extend(page.events);
        let Some(next) = page.next else { break };
        range.first = next;
    }
    let seqs: Vec<u64> = events.iter().map(|event| event.seq.0).collect();
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>(), "every event once, in order");
    let rewinds: Vec<_> = events.iter().filter_map(abide_model::rewind_of).collect();
    let lineage = Lineage::at(Seq(last), &rewinds);
    let mut folded = abide_model::SessionState::default();
    for event in &events {
        if lineage.contains(event.seq) {
            folded.apply(event);
        } else {
            folded.apply_dead(event);
        }
    }
    assert_eq!(folded.core, state(store, id).core);
    assert_eq!(folded.digest(), state(store, id).digest(), "the state is that of the events");
    let mut range = EventRange::ALL.backward().limit(4);
    let mut back = Vec::new();
    loop {
        let page = reader.page(range).unwrap();
        back.extend(page.events.iter().map(|event| event.seq.0));
        let Some(next) = page.next else { break };
        range.last = next;
    }
    back.reverse();
    assert_eq!(back, seqs, "the same from behind");
}

/// A session with these fields and these events, closed.
fn told(store: &dyn Store, fields: SessionFields, events: &[&str]) -> SessionId {
    tick();
    let id = store.create(NewSession::from(fields)).unwrap().id;
    let writer = store.write(id, NOW).unwrap();
    append(&*writer, events.iter().map(|json| event(json)).collect());
    writer.close().unwrap();
    id
}

fn asked(store: &dyn Store, query: &HistoryQuery) -> History {
    store.history(query).unwrap()
}

fn found(store: &dyn Store, text: &str) -> Vec<SessionId> {
    let query =
        HistoryQuery { search: Some(Search::parse(text).unwrap()), ..HistoryQuery::default() };
    asked(store, &query).entries.iter().map(|entry| entry.id).collect()
}
