//! An S3 server on loopback, that can be stopped as by a kill and started again.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use abide_objects::ObjectsOptions;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

pub(crate) const SECRET: &str = "not-to-be-shown";

/// A server with one bucket, `bucket`.
pub(crate) struct S3Server {
    room: TempDir,
    pub(crate) address: SocketAddr,
    tls: Option<TlsAcceptor>,
    runtime: Option<Runtime>,
}

impl S3Server {
    pub(crate) fn start() -> Self {
        Self::start_as(None)
    }

    /// A server that shows a certificate.
    pub(crate) fn start_with(tls: ServerConfig) -> Self {
        Self::start_as(Some(TlsAcceptor::from(Arc::new(tls))))
    }

    fn start_as(tls: Option<TlsAcceptor>) -> Self {
        let room = tempfile::tempdir().unwrap();
        fs::create_dir(room.path().join("bucket")).unwrap();
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut server = Self { room, address: nowhere, tls, runtime: None };
        server.restart();
        server
    }

    /// Ends every connection in the middle of what it does.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(60));
        }
    }

    /// Starts where it was.
    pub(crate) fn restart(&mut self) {
        let mut service = S3ServiceBuilder::new(FileSystem::new(self.room.path()).unwrap());
        service.set_auth(SimpleAuth::from_single("tester", SECRET));
        let service = service.build();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind(self.address)).unwrap();
        self.address = listener.local_addr().unwrap();
        let tls = self.tls.clone();
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (service, tls) = (service.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, service).await,
                        Some(tls) => {
                            if let Ok(socket) = tls.accept(socket).await {
                                serve(socket, service).await;
                            }
                        }
                    }
                });
            }
        });
        self.runtime = Some(runtime);
    }

    /// Where the objects of `s3://bucket/prefix` lie.
    pub(crate) fn directory(&self, prefix: &str) -> PathBuf {
        self.room.path().join("bucket").join(prefix)
    }

    pub(crate) fn options(&self) -> ObjectsOptions {
        options_at(self.address)
    }
}

async fn serve(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, service: S3Service) {
    let http = Builder::new(TokioExecutor::new());
    let _ = http.serve_connection(TokioIo::new(socket), service).await;
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Options to reach a server at an address, or what stands before it.
pub(crate) fn options_at(address: SocketAddr) -> ObjectsOptions {
    let endpoint = format!("http://{address}");
    let pairs = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "tester"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ];
    ObjectsOptions::of(pairs.map(|(name, value)| (name.into(), value.into())))
}
