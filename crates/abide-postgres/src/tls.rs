//! Encrypted connections. The server's certificate is always verified.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::server_url::UrlError;

/// Makes encrypted connections that trust the certificates in this file, or else the web's
/// authorities.
pub(crate) fn tls_connector(root: Option<&str>) -> Result<MakeRustlsConnect, UrlError> {
    let mut roots = RootCertStore::empty();
    match root {
        Some(path) => {
            let bad = |reason: String| UrlError::RootCertificate { path: path.to_owned(), reason };
            let found = CertificateDer::pem_file_iter(path).map_err(|e| bad(e.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(bad("no certificate in it".to_owned()));
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| UrlError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
