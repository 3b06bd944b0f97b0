//! One writer at a time, however many machines there are.

use std::time::Duration;

use abide_model::{AppendError, Store, StoreError};
use abide_postgres::PostgresOptions;

use crate::support::{database, new_session, say, store};

/// Another machine, as far as a lease can tell.
fn elsewhere(host: &str) -> PostgresOptions {
    let mut options = PostgresOptions::default();
    options.env.holder.host = host.to_owned();
    options
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

#[test]
fn a_thousand_appends_with_a_stale_epoch_are_refused() {
    let Some(url) = database() else { return };
    let one = store(&url, elsewhere("one"));
    let two = store(&url, PostgresOptions { take_over: true, ..elsewhere("two") });
    let mut refused = 0;
    for round in 0..100 {
        let (id, stale) = new_session(&*one);
        say(&*stale, "mine").unwrap();
        let taken = two.write(id, Duration::ZERO).unwrap();
        assert!(taken.epoch() > stale.epoch());
        say(&*taken, "mine now").unwrap();
        for _ in 0..10 {
            let error = say(&*stale, "still mine?").unwrap_err();
            assert!(matches!(error, AppendError::Stopped { .. }), "{error}");
            let said = chain(&error);
            assert!(said.contains("taken over by") && said.contains("on two"), "{said}");
            refused += 1;
        }
        drop(stale);
        // It let go of nothing that is not its own.
        let held = one.write(id, Duration::ZERO).map(|_| ());
        assert!(matches!(held, Err(StoreError::Held { .. })), "round {round}: {held:?}");
        assert_eq!(say(&*taken, "and still").unwrap(), 6, "round {round}");
    }
    assert_eq!(refused, 1000);
}

#[test]
fn a_stale_append_by_hand_is_refused_each_time() {
    // The writer stops at the first refusal; here each of a thousand reaches the server.
    let Some(url) = database() else { return };
    let one = store(&url, elsewhere("one"));
    let two = store(&url, PostgresOptions { take_over: true, ..elsewhere("two") });
    let (id, first) = new_session(&*one);
    say(&*first, "mine").unwrap();
    let mut stale = Vec::new();
    for _ in 0..1000 {
        stale.push(two.write(id, Duration::ZERO).unwrap());
    }
    let last = stale.pop().unwrap();
    for writer in stale.iter().chain([&first]) {
        assert!(say(&**writer, "no").is_err());
    }
    say(&*last, "yes").unwrap();
    let reader = one.read(id).unwrap();
    let page = reader.page(abide_model::EventRange::ALL).unwrap();
    let said: Vec<_> = page.events.iter().map(|event| event.kind.to_string()).collect();
    let all =
        ["session.created", "writer.opened", "message.added", "writer.opened", "message.added"];
    assert_eq!(said, all);
}

#[test]
fn the_lease_of_a_process_that_is_gone_passes_at_once() {
    let Some(url) = database() else { return };
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let mut dead = PostgresOptions::default();
    dead.env.holder.process = child.id();
    dead.env.holder.started = None;
    let one = store(&url, dead);
    let (id, writer) = new_session(&*one);
    say(&*writer, "before").unwrap();
    let two = store(&url, PostgresOptions::default());
    let held = two.write(id, Duration::ZERO).map(|_| ());
    assert!(matches!(held, Err(StoreError::Held { .. })), "{held:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let next = two.write(id, Duration::ZERO).unwrap();
    assert_eq!(say(&*next, "after").unwrap(), 5);
    assert!(say(&*writer, "ghost").is_err());
}

#[test]
fn a_holder_elsewhere_is_waited_for_and_named() {
    let Some(url) = database() else { return };
    let one = store(&url, elsewhere("far-away"));
    let two = store(&url, elsewhere("here"));
    let (id, writer) = new_session(&*one);
    let error = two.write(id, Duration::from_millis(60)).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("on far-away"), "{error}");
    let waiting = std::thread::spawn(move || two.write(id, Duration::from_secs(20)).map(|_| ()));
    writer.close().unwrap();
    waiting.join().unwrap().unwrap();
}
