//! Summaries made by a model at an HTTP endpoint.
//!
//! The key is read from the environment when it is needed. It never appears in anything that can be
//! shown: not in this type, an error or a summary.

mod address;
mod endpoint_form;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::http::{HeaderMap, StatusCode};

use self::address::Address;
pub use self::endpoint_form::EndpointForm;
use super::summary_line::SummaryLine;
use super::{Summarizer, SummaryError, SummaryRequest, fitted_summary, summary_on_one_line};

/// Default time limit for connecting.
const DEFAULT_CONNECT: Duration = Duration::from_secs(10);
/// Default time limit for the whole summary.
const DEFAULT_TIME: Duration = Duration::from_secs(120);
/// Default limit on the answer in bytes.
const DEFAULT_BYTES: u64 = 4 << 20;
/// Bytes of an error response that are read, and that are shown.
const REFUSAL_READ: u64 = 64 << 10;
const REFUSAL_TOLD: usize = 400;
/// Maximum number of retries.
const MOST_RETRIES: u32 = 2;
/// Maximum wait before a retry. If the server asks for more, there is no retry.
const MOST_WAIT: Duration = Duration::from_secs(10);
/// Maximum size of a tool result in bytes. Of longer ones only the beginning and the end are sent.
const RESULT_TOLD: usize = 8 << 10;

/// Looks up an environment variable.
type VariableLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Summarizes with a model on any server that implements OpenAI's Chat Completions or Anthropic's
/// Messages.
///
/// Status 429 and 5xx are retried, at most twice, unless the server asks to wait more than ten
/// seconds. Redirects are not followed, so the key goes nowhere else. A summary that is too long is
/// cut at the end.
#[derive(Clone)]
pub struct SummaryEndpoint {
    form: EndpointForm,
    base: String,
    model: String,
    key: Option<String>,
    lookup: VariableLookup,
    connect: Duration,
    time: Duration,
    most_bytes: u64,
}

impl SummaryEndpoint {
    /// An endpoint by its base URL, such as `https://api.openai.com/v1` or `http://127.0.0.1:8080`,
    /// and the model to use there. The key is read from `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`.
    #[must_use]
    pub fn new(form: EndpointForm, base: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            form,
            base: base.into(),
            model: model.into(),
            key: Some(form.default_key().to_owned()),
            lookup: Arc::new(|name| std::env::var(name).ok()),
            connect: DEFAULT_CONNECT,
            time: DEFAULT_TIME,
            most_bytes: DEFAULT_BYTES,
        }
    }

    /// Sets the environment variable that holds the key.
    #[must_use]
    pub fn key_from(self, variable: impl Into<String>) -> Self {
        Self { key: Some(variable.into()), ..self }
    }

    /// Sends no key, for local servers.
    #[must_use]
    pub fn without_key(self) -> Self {
        Self { key: None, ..self }
    }

    /// Replaces the environment of this process as the source of variables.
    #[must_use]
    pub fn with_environment<F>(self, lookup: F) -> Self
    where
        F: Fn(&str) -> Option<String> + Send + Sync + 'static,
    {
        Self { lookup: Arc::new(lookup), ..self }
    }

    /// Sets the time limit for connecting; by default ten seconds.
    #[must_use]
    pub fn connect_within(self, connect: Duration) -> Self {
        Self { connect, ..self }
    }

    /// Sets the time limit for everything, including waits and retries; by default two minutes.
    #[must_use]
    pub fn answer_within(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// Sets the limit on the answer; by default four mebibytes.
    #[must_use]
    pub fn at_most_bytes(self, most_bytes: u64) -> Self {
        Self { most_bytes, ..self }
    }

    fn key(&self) -> Result<Option<String>, SummaryError> {
        let Some(variable) = &self.key else { return Ok(None) };
        let key = (self.lookup)(variable).map(|key| key.trim().to_owned());
        match key.filter(|key| !key.is_empty()) {
            Some(key) => Ok(Some(key)),
            None => Err(SummaryError::NoKey { variable: summary_on_one_line(variable, 80) }),
        }
    }
}

impl Summarizer for SummaryEndpoint {
    fn name(&self) -> String {
        let model = summary_on_one_line(&self.model, 80);
        match Address::read(&self.base, self.form.path()) {
            Some(address) => {
                format!("endpoint: {model} at {}", summary_on_one_line(address.host(), 120))
            }
            None => format!("endpoint: {model}"),
        }
    }

    fn summarize(&self, request: &SummaryRequest<'_>) -> Result<String, SummaryError> {
        if request.most_tokens == 0 {
            return Err(SummaryError::NoRoom);
        }
        let key = self.key()?;
        let address = Address::read(&self.base, self.form.path()).ok_or(SummaryError::Address)?;
        let lines = SummaryLine::all(request).into_iter().map(shortened_for_endpoint);
        let body = self.form.request(&self.model, &address, request.most_tokens, lines);
        let asked = EndpointRequest {
            endpoint: self,
            secret: EndpointSecret { key: key.as_deref(), credentials: address.credentials() },
            address: &address,
            body: body.to_string(),
            deadline: Instant::now().checked_add(self.time),
        };
        Ok(fitted_summary(&asked.summary()?, request.most_bytes()))
    }
}

impl fmt::Debug for SummaryEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The base URL may contain a password.
        f.debug_struct("SummaryEndpoint")
            .field("name", &self.name())
            .field("form", &self.form)
            .field("key", &self.key)
            .field("connect", &self.connect)
            .field("time", &self.time)
            .field("most_bytes", &self.most_bytes)
            .finish_non_exhaustive()
    }
}

/// What must never be shown.
struct EndpointSecret<'a> {
    key: Option<&'a str>,
    credentials: Option<&'a str>,
}

/// Keys shorter than this are not removed from a summary. They may be words like `test`, and
/// removing those would spoil the summary.
const LEAST_KEY: usize = 12;

impl EndpointSecret<'_> {
    /// Removes the secrets from an error message. Must happen before the message is cut, which
    /// could leave half a key.
    fn out_of(&self, text: &str) -> String {
        self.of_at_least(1, text)
    }

    /// Removes the secrets from a summary.
    fn out_of_summary(&self, text: &str) -> String {
        self.of_at_least(LEAST_KEY, text)
    }

    fn of_at_least(&self, bytes: usize, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in [self.key, self.credentials].into_iter().flatten() {
            if secret.len() >= bytes {
                text = text.replace(secret, "[key]");
            }
        }
        text
    }
}

/// A request, which may be retried.
struct EndpointRequest<'a> {
    endpoint: &'a SummaryEndpoint,
    secret: EndpointSecret<'a>,
    address: &'a Address,
    body: String,
    deadline: Option<Instant>,
}

/// The result of one attempt.
enum EndpointReply {
    Summary(String),
    Refused { status: StatusCode, message: String, wait: Option<Duration> },
}

impl EndpointRequest<'_> {
    fn summary(&self) -> Result<String, SummaryError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (status, message, wait) = match self.once()? {
                EndpointReply::Summary(text) => return Ok(text),
                EndpointReply::Refused { status, message, wait } => (status, message, wait),
            };
            let passing = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            let wait = wait.unwrap_or(Duration::from_secs(u64::from(tries)));
            let in_time = wait <= MOST_WAIT && self.left().is_none_or(|left| wait < left);
            if !passing || tries > MOST_RETRIES || !in_time {
                return Err(SummaryError::Refused { status: status.as_u16(), message, tries });
            }
            std::thread::sleep(wait);
        }
    }

    /// The time left; `None` if there is no limit.
    fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn once(&self) -> Result<EndpointReply, SummaryError> {
        let left = self.left().map(|left| left.max(Duration::from_millis(1)));
        let connect = self.endpoint.connect.max(Duration::from_millis(1));
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(connect))
            .timeout_connect(Some(connect))
            .timeout_global(left)
            .user_agent(concat!("abide/", env!("CARGO_PKG_VERSION")));
        if self.address.is_loopback() {
            config = config.proxy(None);
        }
        let agent: Agent = config.build().into();
        let mut request = agent.post(self.address.url()).header("content-type", "application/json");
        for (name, value) in self.endpoint.form.headers(self.secret.key) {
            request = request.header(name, value);
        }
        let mut response = request.send(&self.body).map_err(|error| self.error(&error))?;
        let status = response.status();
        if status.is_success() {
            let most = self.endpoint.most_bytes;
            let body = response.body_mut().with_config().limit(most).read_to_vec();
            let body = body.map_err(|error| self.error(&error))?;
            let text =
                self.endpoint.form.answer(&body).map_err(|error| self.without_secret(error))?;
            return Ok(EndpointReply::Summary(self.secret.out_of_summary(&text)));
        }
        let wait = retry_after(response.headers());
        // If the error response cannot be read, the status is enough.
        let body = response.body_mut().with_config().limit(REFUSAL_READ).read_to_vec();
        let message = self.secret.out_of(&EndpointForm::refusal(&body.unwrap_or_default()));
        Ok(EndpointReply::Refused {
            status,
            message: summary_on_one_line(&message, REFUSAL_TOLD),
            wait,
        })
    }

    fn error(&self, error: &ureq::Error) -> SummaryError {
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                let reason = format!("no connection within {:?}", self.endpoint.connect);
                SummaryError::Connection { reason }
            }
            ureq::Error::Timeout(_) => {
                SummaryError::TimeOut { after: self.endpoint.time, stderr: String::new() }
            }
            ureq::Error::BodyExceedsLimit(most_bytes) => {
                SummaryError::TooLong { most_bytes: *most_bytes }
            }
            other => {
                let reason = self.secret.out_of(&other.to_string());
                SummaryError::Connection { reason: summary_on_one_line(&reason, REFUSAL_TOLD) }
            }
        }
    }

    fn without_secret(&self, error: SummaryError) -> SummaryError {
        match error {
            SummaryError::Answer { reason } => {
                let reason = summary_on_one_line(&self.secret.out_of(&reason), REFUSAL_TOLD);
                SummaryError::Answer { reason }
            }
            other => other,
        }
    }
}

/// How long the server asks to wait. Dates are not supported.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let wanted = seconds("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| seconds("retry-after"));
    // A value out of range exceeds the maximum wait anyway.
    wanted.map(|wanted| Duration::try_from_secs_f64(wanted.max(0.0)).unwrap_or(Duration::MAX))
}

/// Shortens the result in a line: the model need not read all of a long output again.
fn shortened_for_endpoint(mut line: SummaryLine) -> SummaryLine {
    if line.role != "tool" {
        return line;
    }
    if let Some(content) = line.content.take_if(|content| content.len() > RESULT_TOLD) {
        let boundary = |at: usize| (at..=content.len()).find(|at| content.is_char_boundary(*at));
        let head = boundary(RESULT_TOLD / 2).unwrap_or(0);
        let tail = boundary(content.len() - RESULT_TOLD / 2).unwrap_or(content.len());
        let (head_text, tail_text) = (content.get(..head), content.get(tail..));
        line.content = Some(format!(
            "{}\n[{} bytes left out]\n{}",
            head_text.unwrap_or(""),
            tail - head,
            tail_text.unwrap_or("")
        ));
    }
    line
}

#[cfg(test)]
mod tests;
