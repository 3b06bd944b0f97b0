//! To whom a password goes.

use std::time::Duration;

use abide_postgres::{PostgresOptions, PostgresStore, ServerError, ServerErrorKind, ServerUrl};
use abide_testkit::PasswordThief;

/// Why the server of this URL is not used.
fn refused(url: &str) -> abide_model::StoreError {
    let options = PostgresOptions { patience: Duration::ZERO, ..PostgresOptions::default() };
    PostgresStore::open(&ServerUrl::parse(url).unwrap(), options).unwrap_err()
}

#[test]
fn a_password_goes_in_clear_to_nobody_on_a_network() {
    for mode in ["disable", "prefer"] {
        let thief = PasswordThief::start();
        // It is this machine, by an address that is not known to be.
        let url = format!("postgres://me:secret@0.0.0.0:{}/db?sslmode={mode}", thief.port());
        let error = refused(&url);
        let abide_model::StoreError::Storage { source, .. } = &error else { panic!("{error}") };
        let trouble = source.downcast_ref::<ServerError>().unwrap();
        assert_eq!(trouble.obstacle(), ServerErrorKind::ClearPassword, "{error}: {trouble}");
        assert!(!format!("{error} {error:?} {trouble}").contains("secret"));
        assert_eq!((thief.connections(), thief.passwords().len()), (1, 0), "{mode}");

        // What stays on this machine may be in clear.
        let port = thief.port();
        refused(&format!("postgres://me:secret@127.0.0.1:{port}/db?sslmode={mode}"));
        assert_eq!(thief.passwords(), ["secret"], "{mode}");
    }
}

#[test]
fn a_server_that_does_not_encrypt_gets_nothing_where_that_is_required() {
    let thief = PasswordThief::start();
    let port = thief.port();
    for host in ["127.0.0.1", "0.0.0.0"] {
        refused(&format!("postgres://me:secret@{host}:{port}/db?sslmode=require"));
    }
    assert_eq!((thief.connections(), thief.passwords().len()), (2, 0), "it is not tried again");
}
