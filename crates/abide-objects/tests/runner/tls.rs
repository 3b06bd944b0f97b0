//! Encrypted connections, and servers that are not who they say they are.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use abide_model::{ObjectHash, Objects};
use abide_objects::{ObjectsError, ObjectsOptions, RemoteObjects};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::server::{S3Server, options_at};
use crate::{batch, s3};

/// A server's certificate, which vouches for itself; none without openssl.
fn certificate(dir: &Path, name: &str) -> Option<ServerConfig> {
    let (key, certificate) = (dir.join(format!("{name}.key")), dir.join(format!("{name}.crt")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=abide"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .ok()?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = vec![CertificateDer::from_pem_file(&certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&key).unwrap();
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    Some(config.with_single_cert(chain, key).unwrap())
}

/// To the server by https, with the authorities of a file.
fn options(server: &S3Server, authorities: Option<&Path>) -> ObjectsOptions {
    let mut options = options_at(server.address);
    let environment = &mut options.environment;
    environment.retain(|(name, _)| name != "AWS_ENDPOINT_URL" && name != "AWS_ALLOW_HTTP");
    let mut set = |name: &str, value| environment.push((name.to_owned(), value));
    set("AWS_ENDPOINT_URL", format!("https://{}", server.address));
    if let Some(path) = authorities {
        set("AWS_CA_BUNDLE", path.display().to_string());
    }
    options.patience = Duration::from_millis(300);
    options
}

fn told(error: &dyn Error) -> String {
    match error.source() {
        None => error.to_string(),
        Some(source) => format!("{error}: {}", told(source)),
    }
}

#[test]
fn a_server_is_believed_by_its_certificate_alone() {
    let dir = tempfile::tempdir().unwrap();
    let Some(tls) = certificate(dir.path(), "own") else {
        return println!("skipped: there is no openssl");
    };
    certificate(dir.path(), "other").unwrap();
    let server = S3Server::start_with(tls);
    let at = |name: &str| dir.path().join(name);
    let hash = ObjectHash::of(b"said in private");
    let objects = s3(&options(&server, Some(&at("own.crt"))));
    objects.put_batch(&batch(["said in private"])).unwrap();
    objects.sync().unwrap();
    assert_eq!(objects.has(&[hash]).unwrap(), [true]);
    for authorities in [Some(at("other.crt")), None] {
        let refused = s3(&options(&server, authorities.as_deref())).has(&[hash]).unwrap_err();
        assert!(told(&refused).contains("certificate"), "{}", told(&refused));
    }
    for nothing in ["none.crt", "own.key"] {
        let options = options(&server, Some(&at(nothing)));
        let opened = RemoteObjects::open("s3://bucket/team/a".parse().unwrap(), &options);
        assert!(matches!(opened, Err(ObjectsError::Settings { .. })), "{nothing}");
    }
}

#[test]
fn nothing_is_sent_in_the_clear_unless_that_is_allowed() {
    let server = S3Server::start();
    let mut options = server.options();
    options.patience = Duration::from_millis(300);
    options.environment.retain(|(name, _)| name != "AWS_ALLOW_HTTP");
    let refused = s3(&options).has(&[ObjectHash::of(b"any")]).unwrap_err();
    assert!(told(&refused).contains("https only"), "{}", told(&refused));
    options.environment.push(("AWS_ALLOW_HTTP".to_owned(), "yes".to_owned()));
    assert_eq!(s3(&options).has(&[ObjectHash::of(b"any")]).unwrap(), [false]);
}
