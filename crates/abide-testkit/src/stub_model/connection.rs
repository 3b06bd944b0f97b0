//! One connection: a request is read, an answer written or spoilt.

use std::fmt::Write as _;
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::Shared;
use super::answer::{Failure, StubAnswer};
use super::events;
use super::request::{Api, StubRequest};
use super::whole;

/// Serves the one request of a connection.
pub(super) fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let _ = stream.set_nodelay(true);
    let mut to = stream;
    let mut request = match StubRequest::read(&mut BufReader::new(stream), &mut to)? {
        Ok(request) => request,
        Err((code, message)) => {
            let body = whole::error(Api::Chat, code, message).to_string();
            to.write_all(head(code, "application/json", &[], Some(body.len())).as_bytes())?;
            return to.write_all(body.as_bytes());
        }
    };
    {
        let mut state = shared.state();
        request.number = state.requests.len();
        state.requests.push(request.clone());
    }
    let answer = (shared.script)(&request);
    Reply { request: &request, answer: &answer, shared, to }.write()
}

/// An answer on its way.
struct Reply<'a> {
    request: &'a StubRequest,
    answer: &'a StubAnswer,
    shared: &'a Shared,
    to: &'a TcpStream,
}

impl Reply<'_> {
    fn write(&mut self) -> io::Result<()> {
        while self.answer.until.as_ref().is_some_and(|path| !path.exists()) {
            if self.shared.pause(Some(Duration::from_millis(10))) {
                return Ok(());
            }
        }
        let mut headers = self.answer.headers.clone();
        if let Some(limits) = self.answer.limits {
            headers.extend(whole::limit_headers(self.request.api, limits));
        }
        if self.answer.failure == Some(Failure::Hang) {
            self.shared.pause(None);
            return Ok(());
        }
        if let Some(Failure::Status { code, message, retry_after }) = &self.answer.failure {
            let after = retry_after.iter().map(|value| ("retry-after".to_owned(), value.clone()));
            headers.extend(after);
            let body = whole::error(self.request.api, *code, message).to_string();
            return self.whole(*code, &headers, body.as_bytes());
        }
        if self.request.is_streamed() {
            return self.streamed(&headers);
        }
        if self.answer.failure == Some(Failure::Flood) {
            self.to.write_all(head(200, "application/json", &headers, None).as_bytes())?;
            self.to.write_all(b"{\"flood\":\"")?;
            loop {
                self.to.write_all(&[b'x'; 4096])?;
            }
        }
        let mut body = whole::body(self.request, self.answer).to_string();
        if self.answer.failure == Some(Failure::Malformed) {
            body.truncate(body.len() / 2);
        }
        self.whole(200, &headers, body.as_bytes())
    }

    /// A body of a known length.
    fn whole(&mut self, code: u16, headers: &[(String, String)], body: &[u8]) -> io::Result<()> {
        let head = head(code, "application/json", headers, Some(body.len()));
        self.to.write_all(head.as_bytes())?;
        self.pieces(body, |mut to, piece| to.write_all(piece))
    }

    /// Events, in chunks.
    fn streamed(&mut self, headers: &[(String, String)]) -> io::Result<()> {
        let head = head(200, "text/event-stream", headers, None);
        let head = head.replace("\r\n\r\n", "\r\ntransfer-encoding: chunked\r\n\r\n");
        self.to.write_all(head.as_bytes())?;
        let mut all = events::events(self.request, self.answer);
        match self.answer.failure {
            Some(Failure::Flood) => {
                let event = events::endless(self.request);
                loop {
                    chunk(self.to, event.as_bytes())?;
                }
            }
            Some(Failure::Malformed) => all.insert(all.len() / 2, events::malformed()),
            _ => {}
        }
        if self.answer.torn.is_some() || self.is_cut() {
            self.pieces(all.concat().as_bytes(), chunk)?;
        } else {
            for event in all {
                if self.shared.pause(Some(self.answer.delay)) {
                    return Ok(());
                }
                chunk(self.to, event.as_bytes())?;
            }
        }
        if matches!(self.answer.failure, Some(Failure::CloseAfter(_))) {
            return Ok(());
        }
        self.to.write_all(b"0\r\n\r\n")
    }

    fn is_cut(&self) -> bool {
        matches!(self.answer.failure, Some(Failure::HangAfter(_) | Failure::CloseAfter(_)))
    }

    /// Writes the body piece by piece, as far as it may.
    fn pieces(
        &mut self,
        body: &[u8],
        write: impl Fn(&TcpStream, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let most = match self.answer.failure {
            Some(Failure::HangAfter(bytes) | Failure::CloseAfter(bytes)) => bytes,
            _ => body.len(),
        };
        let body = body.get(..most).unwrap_or(body);
        for piece in body.chunks(self.answer.torn.unwrap_or(usize::MAX).max(1)) {
            if self.shared.pause(Some(self.answer.delay)) {
                return Ok(());
            }
            write(self.to, piece)?;
        }
        if matches!(self.answer.failure, Some(Failure::HangAfter(_))) {
            self.shared.pause(None);
        }
        Ok(())
    }
}

/// One chunk of a body whose length is not known before.
fn chunk(mut to: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut whole = format!("{:x}\r\n", bytes.len()).into_bytes();
    whole.extend_from_slice(bytes);
    whole.extend_from_slice(b"\r\n");
    to.write_all(&whole)
}

fn head(code: u16, kind: &str, headers: &[(String, String)], length: Option<usize>) -> String {
    let mut head = format!("HTTP/1.1 {code} Stub\r\ncontent-type: {kind}\r\nconnection: close\r\n");
    for (name, value) in headers {
        // Writing to a string does not fail.
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if let Some(length) = length {
        let _ = write!(head, "content-length: {length}\r\n");
    }
    head + "\r\n"
}
