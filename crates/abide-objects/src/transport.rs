//! HTTP requests over `ureq`, the same HTTP and TLS stack that summaries use.
//!
//! A request blocks a thread until its whole answer is in memory: an object is needed whole or not
//! at all. `object_store` retries errors of the kinds [`HttpErrorKind::Connect`], `Timeout` and
//! `Interrupted`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::BodyExt;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use tokio::task::spawn_blocking;
use ureq::http::{Method, Request};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Timeout};

use crate::uploads::AT_ONCE;

/// The longest answer: larger than any object that is put.
const ANSWER: u64 = 4 << 30;
/// Receiving an answer may take this many times the timeout of a request.
const READING: u32 = 5;

/// Why certificates of authorities cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthoritiesError {
    #[error("cannot read the certificates in {path}")]
    Read { path: String, source: std::io::Error },
    #[error("no certificate in {path}")]
    None { path: String },
}

/// Makes clients.
#[derive(Debug)]
pub(crate) struct Transport {
    tls: TlsConfig,
}

impl Transport {
    /// Trusts these authorities, given in PEM, or else the web's.
    pub(crate) fn new(authorities: Option<&Path>) -> Result<Self, AuthoritiesError> {
        let roots = match authorities {
            None => RootCerts::WebPki,
            Some(path) => RootCerts::new_with_certs(&transport_certificates(path)?),
        };
        Ok(Self { tls: TlsConfig::builder().root_certs(roots).build() })
    }
}

fn transport_certificates(path: &Path) -> Result<Vec<Certificate<'static>>, AuthoritiesError> {
    let shown = || path.display().to_string();
    let pem = fs::read(path).map_err(|source| AuthoritiesError::Read { path: shown(), source })?;
    let items: Result<Vec<PemItem<'_>>, _> = parse_pem(&pem).collect();
    let items =
        items.map_err(|error| AuthoritiesError::Read { path: shown(), source: error.into_io() })?;
    let certificates = items.into_iter().filter_map(|item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<Certificate<'static>> = certificates.collect();
    if certificates.is_empty() {
        return Err(AuthoritiesError::None { path: shown() });
    }
    Ok(certificates)
}

impl HttpConnector for Transport {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp).unwrap_or_default();
        let allow_http = allow_http.to_ascii_lowercase();
        let connect = duration(options, &ClientConfigKey::ConnectTimeout)?;
        let each = duration(options, &ClientConfigKey::Timeout)?;
        let config = Agent::config_builder()
            // The same values as `object_store` accepts.
            .https_only(!matches!(&*allow_http, "1" | "true" | "on" | "yes" | "y"))
            .tls_config(self.tls.clone())
            .http_status_as_error(false)
            // A request is signed for one server.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(connect)
            .timeout_connect(connect)
            .timeout_send_body(each)
            .timeout_recv_response(each)
            // A slow connection is not a dead one: reading has longer.
            .timeout_recv_body(each.map(|each| each * READING))
            .max_idle_connections(AT_ONCE)
            .max_idle_connections_per_host(AT_ONCE)
            .user_agent(concat!("abide/", env!("CARGO_PKG_VERSION")));
        Ok(HttpClient::new(TransportClient { agent: config.build().new_agent() }))
    }
}

fn duration(
    options: &ClientOptions,
    key: &ClientConfigKey,
) -> object_store::Result<Option<Duration>> {
    let text = options.get_config_value(key);
    let read = text.map(|text| humantime::parse_duration(&text)).transpose();
    read.map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })
}

/// A client with its connections.
#[derive(Debug)]
struct TransportClient {
    agent: Agent,
}

#[async_trait]
impl HttpService for TransportClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let agent = self.agent.clone();
        let answer =
            spawn_blocking(move || ask_by_transport(&agent, Request::from_parts(parts, body)))
                .await;
        let answer = answer.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        answer.map_err(|error| HttpError::new(transport_error_kind(&error), error))
    }
}

fn ask_by_transport(agent: &Agent, request: Request<Bytes>) -> Result<HttpResponse, ureq::Error> {
    let takes_body = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    let (parts, body) = request.into_parts();
    let response = if takes_body || !body.is_empty() {
        agent.run(Request::from_parts(parts, body.as_ref()))?
    } else {
        agent.run(Request::from_parts(parts, ()))?
    };
    let (parts, mut body) = response.into_parts();
    let bytes = body.with_config().limit(ANSWER).read_to_vec()?;
    Ok(HttpResponse::from_parts(parts, bytes.into()))
}

fn transport_error_kind(error: &ureq::Error) -> HttpErrorKind {
    use ureq::Error;
    match error {
        Error::HostNotFound
        | Error::ConnectionFailed
        | Error::ConnectProxyFailed(_)
        | Error::Timeout(Timeout::Resolve | Timeout::Connect) => HttpErrorKind::Connect,
        Error::Timeout(_) => HttpErrorKind::Timeout,
        Error::Io(error) => match error.kind() {
            ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::AddrNotAvailable => HttpErrorKind::Connect,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => HttpErrorKind::Timeout,
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => HttpErrorKind::Interrupted,
            // The standard library has no error kind for a failed name lookup.
            _ if error.to_string().starts_with("failed to lookup address") => {
                HttpErrorKind::Connect
            }
            // An untrusted certificate is one of these.
            _ => HttpErrorKind::Unknown,
        },
        Error::Protocol(_) | Error::BodyExceedsLimit(_) | Error::LargeResponseHeader(..) => {
            HttpErrorKind::Decode
        }
        _ => HttpErrorKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use object_store::client::HttpRequestBody;

    use super::*;

    /// What comes of a request to an address.
    fn asked(
        method: Method,
        address: impl std::fmt::Display,
        within: Duration,
    ) -> Result<(u16, Bytes), HttpErrorKind> {
        let options = ClientOptions::new().with_allow_http(true).with_timeout(within);
        let client = Transport::new(None).unwrap().connect(&options).unwrap();
        let request = Request::builder().method(method).uri(format!("http://{address}/ab/c%20d"));
        let request = request.body(HttpRequestBody::from(Vec::new())).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let answer = client.execute(request).await.map_err(|error| error.kind())?;
            let status = answer.status().as_u16();
            Ok((status, answer.into_body().bytes().await.map_err(|error| error.kind())?))
        })
    }

    /// What comes of a request to a server that says this, and hangs up.
    fn told(method: Method, says: &'static str) -> Result<(u16, Bytes), HttpErrorKind> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let mut socket = listener.accept().unwrap().0;
            read_head(&mut socket);
            socket.write_all(says.as_bytes()).unwrap();
        });
        let answer = asked(method, address, Duration::from_secs(60));
        server.join().unwrap();
        answer
    }

    fn read_head(socket: &mut TcpStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        assert!(String::from_utf8(head).unwrap().contains(" /ab/c%20d HTTP/1.1\r\n"));
    }

    #[test]
    fn an_answer_is_given_as_it_is() {
        let whole = told(Method::GET, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole");
        assert_eq!(whole, Ok((200, Bytes::from("whole"))));
        let head = told(Method::HEAD, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
        assert_eq!(head, Ok((200, Bytes::new())));
        let busy = told(Method::PUT, "HTTP/1.1 503 Slow Down\r\ncontent-length: 4\r\n\r\nbusy");
        assert_eq!(busy, Ok((503, Bytes::from("busy"))));
        let elsewhere = "HTTP/1.1 307 Elsewhere\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(told(Method::GET, elsewhere), Ok((307, Bytes::new())));
    }

    #[test]
    fn what_may_be_tried_again_is_told_apart() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(
            asked(Method::PUT, nobody, Duration::from_secs(60)),
            Err(HttpErrorKind::Connect)
        );
        for cut in [
            "",
            "HTTP/1.1 200",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwho",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nwho",
        ] {
            assert_eq!(told(Method::GET, cut), Err(HttpErrorKind::Interrupted), "{cut}");
            assert_eq!(told(Method::POST, cut), Err(HttpErrorKind::Interrupted), "{cut}");
        }
        let unknown = asked(Method::GET, "nowhere.invalid", Duration::from_secs(60));
        assert_eq!(unknown, Err(HttpErrorKind::Connect));
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let answer = asked(Method::GET, silent.local_addr().unwrap(), Duration::from_millis(50));
        assert_eq!(answer, Err(HttpErrorKind::Timeout));
        assert_eq!(told(Method::GET, "no such thing\r\n\r\n"), Err(HttpErrorKind::Decode));
    }
}
