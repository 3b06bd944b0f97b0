//! Encrypted connections, and servers that are not who they say they are.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use abide_postgres::{PostgresOptions, PostgresStore, ServerUrl};
use abide_testkit::{PostgresSettings, PrivatePostgres, ServerTls};

use crate::support::{new_session, say, store};

/// A certificate for this machine that vouches for itself, and its key; none without openssl.
fn certificate(dir: &Path, name: &str) -> Option<ServerTls> {
    let (key, certificate) = (dir.join(format!("{name}.key")), dir.join(format!("{name}.crt")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=abide"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .ok()?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |path| std::fs::read_to_string(path).unwrap();
    Some(ServerTls { certificate: read(&certificate), key: read(&key) })
}

#[test]
fn a_server_is_believed_by_its_certificate_alone() {
    let dir = tempfile::tempdir().unwrap();
    let Some(tls) = certificate(dir.path(), "own") else {
        return println!("skipped: there is no openssl");
    };
    certificate(dir.path(), "other").unwrap();
    let settings = PostgresSettings { tls: Some(tls), ..PostgresSettings::default() };
    let server = match PrivatePostgres::start(settings) {
        Ok(server) => server,
        Err(error) => return println!("skipped: {error}"),
    };
    let url = server.create_database();
    let with = |root: &str| {
        let root = dir.path().join(root);
        ServerUrl::parse(&format!("{url}?sslmode=require&sslrootcert={}", root.display())).unwrap()
    };
    let one = store(&with("own.crt"), PostgresOptions::default());
    let (_, writer) = new_session(&*one);
    say(&*writer, "said in private").unwrap();
    let name = url.rsplit('/').next().unwrap();
    let seen = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE application_name = 'abide' AND NOT ssl";
    assert_eq!(server.sql(name, seen).trim(), "0", "every connection is encrypted");
    let brief = || PostgresOptions { patience: Duration::ZERO, ..PostgresOptions::default() };
    let other = PostgresStore::open(&with("other.crt"), brief());
    assert!(other.is_err(), "another authority does not vouch for it");
    let public = ServerUrl::parse(&format!("{url}?sslmode=require")).unwrap();
    assert!(PostgresStore::open(&public, brief()).is_err(), "nor do the web's");
    let missing = PostgresStore::open(&with("none.crt"), brief());
    assert!(missing.is_err(), "and what cannot be read is no reason to believe");
}
