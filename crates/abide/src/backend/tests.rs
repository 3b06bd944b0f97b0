//! Tests: a store without capabilities.

use abide_model::NewSession;
use abide_testkit::MemoryStore;

use super::*;

#[test]
fn what_it_lacks_is_said_and_sessions_are_written_all_the_same() {
    let store = crate::Store::over(Arc::new(MemoryStore::default()));
    let session = store.create(NewSession::titled("plain")).unwrap();
    session.append(crate::Message::user("hello")).unwrap().wait().unwrap();
    let id = session.id();
    let said = |error: Error| error.to_string();
    let wait = Duration::ZERO;
    let lacking = [
        (said(store.liveness(id).unwrap_err()), "the liveness of writers"),
        (said(store.export_bundle(id, &mut Vec::new()).unwrap_err()), "bundles"),
        (said(session.serve_children(|_| {}).unwrap_err()), "child processes"),
        (said(store.disk_use().unwrap_err()), "disk usage"),
        (said(store.delete_session(id).unwrap_err()), "deleting sessions"),
        (said(store.erase_payloads(id, &[], wait).unwrap_err()), "erasing payloads"),
        (said(store.doctor("an examination").unwrap_err()), "an examination"),
    ];
    for (told, what) in lacking {
        assert_eq!(told, format!("this store does not support {what}"));
    }
    let files = said(store.files("`abide doctor`").unwrap_err());
    assert_eq!(files, "`abide doctor` works on local stores only; this store is not one");
    store.update_transcript(id).unwrap();
    assert_eq!((store.root(), store.project()), (None, None));
    assert!(!store.is_held(id));
    assert_eq!(store.short_id(id).unwrap(), id.short(6));
    assert_eq!((store.projects().len(), store.project_of(id).unwrap()), (0, None));
}

#[test]
fn a_store_without_capabilities_tells_new_sessions_from_known_ones() {
    let store = crate::Store::over(Arc::new(MemoryStore::default()));
    let keyed = || store.make_new(NewSession::default().with_key("k")).unwrap();
    let (first, again) = (keyed(), keyed());
    assert_eq!((first.id, first.is_new, again.is_new), (again.id, true, false));
    let forked = || store.fork_new(first.id, None, NewSession::default().with_key("f")).unwrap();
    let (first, again) = (forked(), forked());
    assert_eq!((first.id, first.is_new, again.is_new), (again.id, true, false));
}
