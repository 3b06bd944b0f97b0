//! The snapshots of a session: the two roots and the file of pages, beside a journal that is whole.
//!
//! Parts of the input: a byte of wishes and one root, the other, and the pages.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use abide_local::{LocalOptions, LocalStore, Upkeep};
use abide_model::{
    AnomalyPolicy, Digest, Durability, Event, EventRange, NewEvent, SessionRef, SessionState,
    SessionWriter, Store,
};
use abide_testkit::SimDisk;

use crate::golden;
use crate::input::{Wish, disk, parts, put, root};
use crate::sums::{mend_pages, mend_slot};

/// The session without its snapshots: its events and its state.
static TRUTH: LazyLock<(Vec<Event>, Digest)> = LazyLock::new(|| {
    let store = open(&disk(golden::store()));
    let id = store.find(&SessionRef::Latest).expect("the session");
    let reader = store.read(id).expect("its reader");
    let page = reader.page(EventRange::ALL).expect("its events");
    assert!(page.notes.is_empty());
    let mut state = SessionState::default();
    page.events.iter().for_each(|event| {
        state.apply(event);
    });
    (page.events, state.digest())
});

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let Some((wish, data)) = Wish::take(data) else { return false };
    let mut files: Vec<Vec<u8>> = parts(data).iter().take(3).map(|part| part.to_vec()).collect();
    if wish.has(0) {
        files.iter_mut().take(2).for_each(|bytes| mend_slot(bytes));
    }
    if wish.has(1) {
        files.iter_mut().skip(2).for_each(|bytes| mend_pages(bytes));
    }
    let disk = disk(golden::store());
    for (name, bytes) in ["handover.0", "handover.1", "pages.0"].iter().zip(&files) {
        put(&disk, &format!(".abide/{}/state/{name}", golden::SESSION), bytes);
    }
    let store = open(&disk);
    let id = store.find(&SessionRef::Latest).expect("the session");
    let (events, digest) = &*TRUTH;
    let Ok(writer) = store.writer(id, Duration::ZERO) else { panic!("it does not open") };
    if !wish.has(0) && !wish.has(1) {
        // Sums tell what was not written by abide. What has right sums is believed.
        let mut state = writer.state().expect("a state");
        assert_eq!(state.digest(), *digest, "another state than the journal's");
        assert!(state.is_sound(), "pages of another state");
    }
    let new =
        NewEvent::parse(r#"{"kind":"turn.started","data":{"turn":2},"key":"k/1","lane":"sub"}"#);
    let new = new.expect("an event");
    if let Ok(ticket) = writer.append(vec![new], Durability::Synced, AnomalyPolicy::Keep) {
        ticket.wait().expect("the disk works");
    }
    writer.close().expect("it closes");
    // The journal does not depend on any of it.
    let reader = store.read(id).expect("its reader");
    let page = reader.page(EventRange::ALL).expect("its events");
    assert!(page.notes.is_empty());
    assert_eq!(&page.events[..events.len()], events);
    files.iter().take(2).any(|root| is_root(root))
}

/// Is there a state in it that this version of the fold goes on from?
fn is_root(slot: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Slot<'a> {
        #[serde(borrow)]
        state: &'a serde_json::value::RawValue,
    }
    let root = slot.get(67..).and_then(|root| serde_json::from_slice::<Slot<'_>>(root).ok());
    root.is_some_and(|root| SessionState::restore(root.state.get().as_bytes()).is_ok())
}

fn open(disk: &Arc<SimDisk>) -> LocalStore {
    let options =
        LocalOptions { storage: disk.clone(), upkeep: Upkeep::ByHand, ..LocalOptions::default() };
    LocalStore::open(&root().join(".abide"), options).expect("the store")
}
