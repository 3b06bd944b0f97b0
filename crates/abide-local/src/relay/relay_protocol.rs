//! The protocol of the relay socket: lines of JSON.
//!
//! A child names the session and is told the holder's epoch, or why it is refused. From then on
//! each of its lines is a batch, and each is answered by one line, in order.

use std::fmt;
use std::sync::Arc;

use abide_model::{
    AcknowledgedEvent, Anomaly, AnomalyPolicy, AppendError, Durability, Epoch, EventLimits,
    InputError, NewEvent, Seq, SessionId, Timestamp,
};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// The protocol version.
pub(super) const VERSION: u64 = 1;
/// The most bytes of a line: an event of the greatest size, and its framing.
pub(super) const LINE: usize = (64 << 20) + (64 << 10);
/// The most events of a batch.
pub(super) const EVENTS: usize = 1 << 17;

/// Code: too many children are connected.
pub(super) const BUSY: &str = "busy";
/// Code: the holder is closing the session.
pub(super) const CLOSED: &str = "closed";

/// Code: a line exceeds the limit.
const BATCH_TOO_LARGE: &str = "batch_too_large";

/// The first line of a child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RelayHello {
    /// [`VERSION`].
    pub(super) abide: u64,
    /// The session to write to.
    pub(super) session: SessionId,
}

/// The answer to [`RelayHello`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RelayWelcome {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) abide: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) epoch: Option<Epoch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<RelayRefusal>,
}

/// The answer to a batch.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RelayBatchAnswer {
    Acknowledged(Vec<RelayedEvent>),
    Error(RelayRefusal),
}

/// An event that was recorded.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RelayedEvent {
    seq: Seq,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    anomaly: Option<Anomaly>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

/// An error, with everything needed to rebuild it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RelayRefusal {
    pub(super) code: String,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anomaly: Option<Anomaly>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safe: Option<Seq>,
    /// The offset of an invalid byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

/// The holder's error message.
#[derive(Debug, thiserror::Error)]
#[error("the process that holds the session reports: {0}")]
pub(super) struct RelayHolderError(String);

impl RelayBatchAnswer {
    pub(super) fn of(done: Result<Vec<AcknowledgedEvent>, AppendError>) -> Self {
        match done {
            Ok(events) => Self::Acknowledged(events.into_iter().map(RelayedEvent::from).collect()),
            Err(error) => Self::Error(RelayRefusal::of(&error)),
        }
    }

    pub(super) fn into_result(self) -> Result<Vec<AcknowledgedEvent>, AppendError> {
        match self {
            Self::Acknowledged(events) => {
                Ok(events.into_iter().map(AcknowledgedEvent::from).collect())
            }
            Self::Error(refusal) => Err(refusal.into_error()),
        }
    }
}

impl From<AcknowledgedEvent> for RelayedEvent {
    fn from(AcknowledgedEvent { seq, anomaly, repeated }: AcknowledgedEvent) -> Self {
        Self { seq, anomaly, repeated }
    }
}

impl From<RelayedEvent> for AcknowledgedEvent {
    fn from(RelayedEvent { seq, anomaly, repeated }: RelayedEvent) -> Self {
        Self { seq, anomaly, repeated }
    }
}

/// An error and its sources, on one line.
fn protocol_error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

impl RelayRefusal {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), ..Self::default() }
    }

    fn of(error: &AppendError) -> Self {
        match error {
            AppendError::Input { index, source } => Self::of_input(*index, source),
            AppendError::Odd { index, anomaly } => Self {
                index: Some(*index),
                anomaly: Some(*anomaly),
                ..Self::new("odd", error.to_string())
            },
            AppendError::TooLarge { limit } => {
                Self { limit: Some(*limit), ..Self::new(BATCH_TOO_LARGE, error.to_string()) }
            }
            AppendError::Stopped { safe, source } => {
                Self { safe: Some(*safe), ..Self::new("stopped", protocol_error_text(&**source)) }
            }
        }
    }

    fn of_input(index: usize, error: &InputError) -> Self {
        let (mut at, mut limit, mut kind, mut field) = (None, None, None, None);
        let mut message = protocol_error_text(error);
        match error {
            InputError::NotUtf8 { at: place } => at = Some(*place),
            InputError::NotJson { reason } | InputError::NotAnEvent { reason } => {
                message.clone_from(reason);
            }
            InputError::TooLarge { limit: most }
            | InputError::TooDeep { limit: most }
            | InputError::TooMany { limit: most } => limit = Some(*most),
            InputError::BadName { field: name, limit: most } => {
                (field, limit) = (Some((*name).to_owned()), Some(*most));
            }
            InputError::BadKind { kind: name }
            | InputError::NotAlone { kind: name }
            | InputError::HolderOnly { kind: name }
            | InputError::Reserved { kind: name } => kind = Some(name.clone()),
            InputError::NotAnObject | InputError::BadTime(_) => {}
        }
        Self { index: Some(index), at, limit, kind, field, ..Self::new(error.code(), message) }
    }

    /// The error that this was made from. An unknown code stops the writer.
    fn into_error(self) -> AppendError {
        let index = self.index.unwrap_or_default();
        match (self.code.as_str(), self.anomaly) {
            ("odd", Some(anomaly)) => AppendError::Odd { index, anomaly },
            (BATCH_TOO_LARGE, _) => AppendError::TooLarge { limit: self.limit.unwrap_or_default() },
            _ => match self.input_error() {
                Some(source) => AppendError::Input { index, source: Arc::new(source) },
                None => AppendError::Stopped {
                    safe: self.safe.unwrap_or_default(),
                    source: Arc::new(RelayHolderError(self.message)),
                },
            },
        }
    }

    fn input_error(&self) -> Option<InputError> {
        let limit = self.limit.unwrap_or_default();
        let kind = || self.kind.clone().unwrap_or_default();
        Some(match self.code.as_str() {
            "not_utf8" => InputError::NotUtf8 { at: self.at.unwrap_or_default() },
            "not_json" => InputError::NotJson { reason: self.message.clone() },
            "not_an_event" => InputError::NotAnEvent { reason: self.message.clone() },
            "not_an_object" => InputError::NotAnObject,
            "too_large" => InputError::TooLarge { limit },
            "too_deep" => InputError::TooDeep { limit },
            "too_many" => InputError::TooMany { limit },
            "bad_kind" => InputError::BadKind { kind: kind() },
            "bad_name" => InputError::BadName { field: self.name_of_field(), limit },
            // Every invalid time gives the same error.
            "bad_time" => InputError::BadTime("no time".parse::<Timestamp>().err()?),
            "not_alone" => InputError::NotAlone { kind: kind() },
            "holder_only" => InputError::HolderOnly { kind: kind() },
            "reserved" => InputError::Reserved { kind: kind() },
            _ => return None,
        })
    }

    fn name_of_field(&self) -> &'static str {
        match self.field.as_deref() {
            Some("task") => "task",
            Some("lane") => "lane",
            Some("key") => "key",
            _ => "name",
        }
    }
}

/// Events to record together.
#[derive(Debug)]
pub(super) struct RelayBatch {
    pub(super) events: Vec<NewEvent>,
    pub(super) durability: Durability,
    pub(super) odd: AnomalyPolicy,
    /// The mark of the store under which the child has stored what the events name.
    pub(super) stored: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RelayDurabilityName {
    #[default]
    Synced,
    Buffered,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OddName {
    #[default]
    Keep,
    Refuse,
}

/// The wire form of a batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RelayWireBatch<'a> {
    #[serde(borrow)]
    events: RelayEventTexts<'a>,
    #[serde(default)]
    durability: RelayDurabilityName,
    #[serde(default)]
    odd: OddName,
    #[serde(default)]
    stored: Option<String>,
}

/// The texts of a batch's events; `None` if there are too many, so that a line of nothing but
/// commas does not take many times its own size.
struct RelayEventTexts<'a>(Option<Vec<&'a RawValue>>);

impl<'de: 'a, 'a> Deserialize<'de> for RelayEventTexts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EventTextsVisitor;

        impl<'de> Visitor<'de> for EventTextsVisitor {
            type Value = RelayEventTexts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of events")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<RelayEventTexts<'de>, A::Error> {
                let mut texts = Vec::new();
                while texts.len() < EVENTS {
                    match list.next_element()? {
                        Some(text) => texts.push(text),
                        None => return Ok(RelayEventTexts(Some(texts))),
                    }
                }
                if list.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(RelayEventTexts(Some(texts)));
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(RelayEventTexts(None))
            }
        }

        deserializer.deserialize_seq(EventTextsVisitor)
    }
}

impl RelayBatch {
    /// The line of a batch, with its line feed.
    pub(super) fn encode(
        events: &[NewEvent],
        durability: Durability,
        odd: AnomalyPolicy,
        stored: Option<&str>,
    ) -> String {
        let size: usize = events.iter().map(|event| event.data.as_str().len() + 128).sum();
        let mut line = String::with_capacity(size + 64);
        line.push_str("{\"events\":[");
        for (index, event) in events.iter().enumerate() {
            if index > 0 {
                line.push(',');
            }
            line.push_str(&event.to_json());
        }
        let durability = match durability {
            Durability::Synced => "synced",
            Durability::Buffered => "buffered",
        };
        let odd = match odd {
            AnomalyPolicy::Keep => "keep",
            AnomalyPolicy::Refuse => "refuse",
        };
        line.push_str(&format!("],\"durability\":\"{durability}\",\"odd\":\"{odd}\""));
        // Only where it is needed: a holder that does not know it refuses the batch.
        if let Some(stored) = stored {
            line.push_str(&format!(",\"stored\":{}", serde_json::Value::from(stored)));
        }
        line.push_str("}\n");
        line
    }

    pub(super) fn decode(line: &[u8]) -> Result<Self, AppendError> {
        let refused = |index| {
            move |source: InputError| AppendError::Input { index, source: Arc::new(source) }
        };
        let text = std::str::from_utf8(line)
            .map_err(|error| InputError::NotUtf8 { at: error.valid_up_to() })
            .map_err(refused(0))?;
        let wire: RelayWireBatch<'_> = serde_json::from_str(text)
            .map_err(|error| InputError::NotJson { reason: error.to_string() })
            .map_err(refused(0))?;
        let texts = wire.events.0.ok_or(InputError::TooMany { limit: EVENTS });
        let texts = texts.map_err(refused(EVENTS))?;
        let limits = EventLimits::default();
        let events = texts.into_iter().enumerate().map(|(index, text)| {
            NewEvent::parse_within(text.get(), &limits).map_err(refused(index))
        });
        Ok(Self {
            events: events.collect::<Result<_, _>>()?,
            durability: match wire.durability {
                RelayDurabilityName::Synced => Durability::Synced,
                RelayDurabilityName::Buffered => Durability::Buffered,
            },
            odd: match wire.odd {
                OddName::Keep => AnomalyPolicy::Keep,
                OddName::Refuse => AnomalyPolicy::Refuse,
            },
            stored: wire.stored,
        })
    }
}

/// A message as a line.
pub(super) fn relay_protocol_line(said: &impl Serialize) -> String {
    // Plain structures of strings and numbers always serialise.
    let mut line = serde_json::to_string(said).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> NewEvent {
        NewEvent::parse(text).unwrap()
    }

    #[test]
    fn a_batch_is_read_as_it_was_written() {
        let events = vec![
            event(r#"{"kind":"x.a","data":{"text":"a\nb"},"key":"k\"1","lane":"l","task":"t"}"#),
            event("{\"kind\":\"x.b\",\"data\":{\n\"n\": 1e400}}"),
        ];
        let line = RelayBatch::encode(
            &events,
            Durability::Buffered,
            AnomalyPolicy::Refuse,
            Some("a \"mark\""),
        );
        assert_eq!(line.matches('\n').count(), 1);
        let read = RelayBatch::decode(line.trim_end().as_bytes()).unwrap();
        assert_eq!(read.events, events);
        assert_eq!((read.durability, read.odd), (Durability::Buffered, AnomalyPolicy::Refuse));
        let plain = RelayBatch::decode(br#"{"events":[]}"#).unwrap();
        assert_eq!((plain.durability, plain.odd), (Durability::Synced, AnomalyPolicy::Keep));
        assert_eq!((read.stored.as_deref(), plain.stored), (Some("a \"mark\""), None));
    }

    #[test]
    fn what_is_no_batch_is_refused_with_its_place() {
        let refused = |line: &str| match RelayBatch::decode(line.as_bytes()).unwrap_err() {
            AppendError::Input { index, source } => (index, source.code()),
            error => panic!("{error:?}"),
        };
        for line in ["", "{", "[]", "7", r#"{"events":7}"#, r#"{"events":[],"more":1}"#] {
            assert_eq!(refused(line), (0, "not_json"), "{line}");
        }
        assert_eq!(refused(r#"{"events":[],"durability":"none"}"#), (0, "not_json"));
        let good = r#"{"kind":"x.y","data":{}}"#;
        let second = |bad: &str| format!(r#"{{"events":[{good},{bad}]}}"#);
        assert_eq!(refused(&second(r#"{"kind":"A","data":{}}"#)), (1, "bad_kind"));
        assert_eq!(refused(&second(r#"{"kind":"a","data":[]}"#)), (1, "not_an_object"));
        let bad = RelayBatch::decode(b"{\"events\":[\"\xff\"]}").unwrap_err();
        assert!(matches!(bad, AppendError::Input { source, .. } if source.code() == "not_utf8"));
        let many = format!("{{\"events\":[{}1]}}", "1,".repeat(EVENTS));
        assert_eq!(refused(&many), (EVENTS, "too_many"));
    }

    #[test]
    fn an_error_is_the_same_on_the_other_side() {
        let inputs = vec![
            InputError::NotUtf8 { at: 7 },
            InputError::NotJson { reason: "because".to_owned() },
            InputError::NotAnEvent { reason: "because".to_owned() },
            InputError::NotAnObject,
            InputError::TooLarge { limit: 5 },
            InputError::TooDeep { limit: 6 },
            InputError::TooMany { limit: 7 },
            InputError::BadKind { kind: "A".to_owned() },
            InputError::BadName { field: "lane", limit: 512 },
            InputError::BadTime("x".parse::<Timestamp>().unwrap_err()),
            InputError::NotAlone { kind: "session.rewound".to_owned() },
            InputError::HolderOnly { kind: "session.rewound".to_owned() },
            InputError::Reserved { kind: "writer.opened".to_owned() },
        ];
        let over = |error: &AppendError| -> AppendError {
            let line = relay_protocol_line(&RelayBatchAnswer::of(Err(error.clone())));
            serde_json::from_str::<RelayBatchAnswer>(&line).unwrap().into_result().unwrap_err()
        };
        for (index, source) in inputs.into_iter().enumerate() {
            let said = source.to_string();
            let code = source.code();
            let error = AppendError::Input { index, source: Arc::new(source) };
            match over(&error) {
                AppendError::Input { index: there, source } => {
                    assert_eq!((there, source.code()), (index, code));
                    assert_eq!(source.to_string(), said);
                }
                other => panic!("{other:?}"),
            }
        }
        let odd = AppendError::Odd { index: 3, anomaly: Anomaly::UnknownCall };
        assert!(matches!(over(&odd), AppendError::Odd { index: 3, anomaly: Anomaly::UnknownCall }));
        let large = over(&AppendError::TooLarge { limit: 9 });
        assert!(matches!(large, AppendError::TooLarge { limit: 9 }), "{large:?}");
        let source = Arc::new(std::io::Error::other("disk full"));
        match over(&AppendError::Stopped { safe: Seq(9), source }) {
            AppendError::Stopped { safe, source } => {
                assert_eq!(safe, Seq(9));
                assert!(source.to_string().contains("disk full"), "{source}");
            }
            other => panic!("{other:?}"),
        }
        let strange: RelayBatchAnswer =
            serde_json::from_str(r#"{"error":{"code":"new"}}"#).unwrap();
        assert!(matches!(strange.into_result(), Err(AppendError::Stopped { .. })));
    }
}
