//! What a stubbed model answers, and how it fails.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

/// An answer, in no API's form yet.
#[derive(Debug, Clone)]
pub struct StubAnswer {
    /// What the model says; nothing where it is empty.
    pub text: String,
    /// The tools it asks for, all at once.
    pub calls: Vec<StubCall>,
    /// What it claims to have used.
    pub usage: StubUsage,
    /// How many characters of text or arguments a streamed event has.
    pub piece: usize,
    /// How many bytes of the body are written at once; as they come where it is `None`. With a
    /// small number events and characters are torn apart on their way.
    pub torn: Option<usize>,
    /// How long to wait before each write of the body.
    pub delay: Duration,
    /// Nothing is answered before there is such a file.
    pub until: Option<PathBuf>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// What its rate-limit headers say, in the names of the API that was asked.
    pub limits: Option<StubLimits>,
    /// How it goes wrong.
    pub failure: Option<Failure>,
}

/// A use of a tool that the model asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct StubCall {
    /// Its id.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// With what.
    pub arguments: Value,
}

/// What an answer claims to have used, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StubUsage {
    /// All that was read, from a cache or not.
    pub input: u64,
    /// How much of it was in a cache.
    pub cached: u64,
    /// What was written.
    pub output: u64,
}

/// What rate-limit headers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StubLimits {
    /// Requests a minute.
    pub requests: u64,
    /// How many are left.
    pub requests_left: u64,
    /// Tokens a minute.
    pub tokens: u64,
    /// How many are left.
    pub tokens_left: u64,
}

/// How an answer goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A status that is no success, with an error in the API's form.
    Status {
        /// Such as 429 or 500.
        code: u16,
        /// What is said about it.
        message: String,
        /// The header `retry-after`.
        retry_after: Option<String>,
    },
    /// Nothing is ever answered.
    Hang,
    /// So many bytes of the body come, then nothing, and the connection stays open.
    HangAfter(usize),
    /// The body never ends.
    Flood,
    /// The connection is closed after so many bytes of the body.
    CloseAfter(usize),
    /// Half-way something comes that is not JSON.
    Malformed,
}

impl Default for StubAnswer {
    fn default() -> Self {
        Self {
            text: String::new(),
            calls: Vec::new(),
            usage: StubUsage { input: 12, cached: 4, output: 7 },
            piece: 8,
            torn: None,
            delay: Duration::ZERO,
            until: None,
            headers: Vec::new(),
            limits: None,
            failure: None,
        }
    }
}

impl StubAnswer {
    /// Says something.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Asks for tools.
    #[must_use]
    pub fn calls(calls: Vec<StubCall>) -> Self {
        Self { calls, ..Self::default() }
    }

    /// Refuses with a status.
    #[must_use]
    pub fn status(code: u16, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::failing(Failure::Status { code, message, retry_after: None })
    }

    /// Refuses because of too many requests.
    #[must_use]
    pub fn too_many(retry_after: impl Into<String>) -> Self {
        Self::failing(Failure::Status {
            code: 429,
            message: "Rate limit reached".to_owned(),
            retry_after: Some(retry_after.into()),
        })
    }

    /// Goes wrong.
    #[must_use]
    pub fn failing(failure: Failure) -> Self {
        Self::text("This would have been the answer.").but(failure)
    }

    /// The same, going wrong.
    #[must_use]
    pub fn but(self, failure: Failure) -> Self {
        Self { failure: Some(failure), ..self }
    }

    /// The same with a further header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The text in the pieces in which it is streamed.
    pub(super) fn pieces(&self, text: &str) -> Vec<String> {
        let all: Vec<char> = text.chars().collect();
        all.chunks(self.piece.max(1)).map(|piece| piece.iter().collect()).collect()
    }
}

impl StubCall {
    /// A call.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self { id: id.into(), name: name.into(), arguments }
    }
}
