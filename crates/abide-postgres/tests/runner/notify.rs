//! Followers are told of what others append.

use std::sync::mpsc;
use std::time::Duration;

use abide_model::{Seq, Store};
use abide_postgres::{PostgresOptions, PostgresStore, ServerUrl};
use abide_testkit::{CutProxy, PrivatePostgres};

use crate::support::{database, new_session, say, store};

/// Looks so seldom that it must be told.
fn told_only() -> PostgresOptions {
    PostgresOptions { look_every: Duration::from_secs(3600), ..PostgresOptions::default() }
}

#[test]
fn a_follower_is_told_of_what_another_store_appends() {
    let Some(url) = database() else { return };
    let writing = store(&url, PostgresOptions::default());
    let (id, writer) = new_session(&*writing);
    let mut last = say(&*writer, "the first").unwrap();
    let following = PostgresStore::open(&url, told_only()).unwrap();
    let reader = following.read(id).unwrap();
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for beyond in receive {
                assert!(reader.grown(Seq(beyond), Duration::MAX).unwrap());
            }
        });
        for n in 0..20 {
            send.send(last).unwrap();
            last = say(&*writer, &format!("number {n}")).unwrap();
        }
        drop(send);
    });
}

#[test]
fn a_follower_whose_connection_was_cut_is_told_again() {
    let Some(server) = PrivatePostgres::shared() else { return };
    let direct = server.create_database();
    let (_, after) = direct.split_once('@').unwrap();
    let (address, _) = after.split_once('/').unwrap();
    let proxy = CutProxy::before(address.parse().unwrap());
    let through = direct.replace(address, &proxy.address().to_string());
    let writing = store(&ServerUrl::parse(&direct).unwrap(), PostgresOptions::default());
    let (id, writer) = new_session(&*writing);
    let mut last = say(&*writer, "the first").unwrap();
    let url = ServerUrl::parse(&through).unwrap();
    let following = PostgresStore::open(&url, told_only()).unwrap();
    let reader = &following.read(id).unwrap();
    for n in 0..5 {
        last = std::thread::scope(|scope| {
            let waiting = scope.spawn(move || reader.grown(Seq(last), Duration::MAX).unwrap());
            proxy.cut_all();
            let next = say(&*writer, &format!("number {n}")).unwrap();
            assert!(waiting.join().unwrap());
            next
        });
    }
}
