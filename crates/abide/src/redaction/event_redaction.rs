//! An event, and the fields of a new session, without the secrets in them.

use abide_model::{
    Event, EventLimits, Kind, LaneId, NewEvent, NewSession, Payload, SessionFields, TaskId,
};
use abide_secrets::{RedactedText, RedactionTally, Redactor, ScanOverrun, unscanned_mark};
use serde_json::{Map, Value};

/// The field for abide's own notes in the data of an event.
const NOTES: &str = "abide";
/// The note that says what was redacted.
const REDACTED: &str = "redacted";

/// Replaces the secrets in an event by marks: in its data, and in the names in its head. What was
/// replaced is counted in its data.
pub(crate) fn redact_event(redactor: &Redactor, mut event: NewEvent) -> NewEvent {
    let mut tally = RedactionTally::default();
    if let Some(key) = &mut event.key {
        redact_key(redactor, key, &mut tally);
    }
    let task = event.task.as_mut().map(|task| &mut task.0);
    let lane = event.lane.as_mut().map(|lane| &mut lane.0);
    for name in [task, lane].into_iter().flatten() {
        redact_text(redactor, name, &mut tally);
    }
    let bytes = event.data.as_str().len();
    let redacted = match redactor.redact_json(event.data.as_str()) {
        Ok(redacted) if redacted.is_unchanged() => None,
        Ok(redacted) => {
            tally.merge(redacted.tally());
            Some(redacted.into_text().into_owned())
        }
        // Nothing is known of its secrets, so nothing of it is kept.
        Err(_) => {
            tally.merge(&RedactionTally::of_unscanned(bytes));
            Some("{}".to_owned())
        }
    };
    if let Some(text) = redacted {
        event.data = Payload::from_stored(text.into());
    }
    if !tally.is_empty() {
        event.data = with_counts(&event.data, bytes, &tally);
    }
    event
}

/// What would be redacted in an event that somebody else recorded.
pub(super) fn tally_event(redactor: &Redactor, event: &Event) -> RedactionTally {
    let mut tally = RedactionTally::default();
    let names = [
        event.key.as_deref(),
        event.task.as_ref().map(TaskId::as_str),
        event.lane.as_ref().map(LaneId::as_str),
    ];
    for name in names.into_iter().flatten() {
        redact_text(redactor, &mut name.to_owned(), &mut tally);
    }
    if let Some(data) = &event.data {
        // Paths are recorded as they are.
        let without_paths = (event.kind == Kind::SESSION_CREATED).then(|| {
            ["workspace", "project", "source"].iter().fold(data.clone(), |data, name| {
                if data.field(name).is_some() { data.with_field(name, "null") } else { data }
            })
        });
        let data = without_paths.as_ref().unwrap_or(data);
        match redactor.redact_json(data.as_str()) {
            Ok(redacted) => tally.merge(redacted.tally()),
            Err(_) => tally.merge(&RedactionTally::of_unscanned(data.as_str().len())),
        }
    }
    tally
}

/// Sets what a new session would inherit with a secret in it, where it has no value of its own.
pub(super) fn redact_inherited(redactor: &Redactor, own: &mut SessionFields, like: &SessionFields) {
    let inherited = NewSession::from(SessionFields { key: None, ..like.clone() });
    let SessionFields { title, agent, model, labels, .. } =
        redact_session(redactor, inherited).fields;
    let texts = [
        (&mut own.title, title, &like.title),
        (&mut own.agent, agent, &like.agent),
        (&mut own.model, model, &like.model),
    ];
    for (own, redacted, before) in texts {
        if own.is_none() && redacted != *before {
            *own = redacted;
        }
    }
    for (name, value) in labels {
        if like.labels.get(&name).is_some_and(|before| *before != value) {
            own.labels.entry(name).or_insert(value);
        }
    }
}

/// Replaces the secrets in what a person or a program calls a new session. Paths stay: they lead
/// somewhere.
pub(super) fn redact_session(redactor: &Redactor, mut session: NewSession) -> NewSession {
    let mut tally = RedactionTally::default();
    let fields = &mut session.fields;
    if let Some(key) = &mut fields.key {
        redact_key(redactor, key, &mut tally);
    }
    let texts = [&mut fields.title, &mut fields.agent, &mut fields.model];
    for text in texts.into_iter().flatten() {
        redact_text(redactor, text, &mut tally);
    }
    fields.labels = std::mem::take(&mut fields.labels)
        .into_iter()
        .map(|(mut name, mut value)| {
            let mut joined = format!("{name}={value}");
            for text in [&mut name, &mut value, &mut joined] {
                redact_text(redactor, text, &mut tally);
            }
            // A name gives context to its value.
            if let Some(after) = joined.strip_prefix(&name).and_then(|rest| rest.strip_prefix('='))
            {
                value = after.to_owned();
            }
            (name, value)
        })
        .collect();
    session
}

/// Replaces the secrets in a text. One that takes too much work to scan is left out.
pub(crate) fn redact_text(redactor: &Redactor, text: &mut String, tally: &mut RedactionTally) {
    if let Some(replaced) = replacement(redactor.redact_text(text), text.len(), tally) {
        *text = replaced;
    }
}

/// Replaces the secrets in a key, so that two different ones stay different.
pub(super) fn redact_key(redactor: &Redactor, key: &mut String, tally: &mut RedactionTally) {
    if let Some(replaced) = replacement(redactor.redact_key(key), key.len(), tally) {
        // Marks are longer than short secrets.
        let is_too_long = replaced.len() > EventLimits::default().name_bytes;
        *key = if is_too_long { redactor.mark_of_all(key) } else { replaced };
    }
}

/// What takes the place of a text of this length, if anything was found in it.
fn replacement(
    redacted: Result<RedactedText<'_>, ScanOverrun>,
    length: usize,
    tally: &mut RedactionTally,
) -> Option<String> {
    match redacted {
        Ok(redacted) if redacted.is_unchanged() => None,
        Ok(redacted) => {
            tally.merge(redacted.tally());
            Some(redacted.into_text().into_owned())
        }
        Err(overrun) => {
            tally.merge(&RedactionTally::of_unscanned(length));
            Some(unscanned_mark(overrun.bytes))
        }
    }
}

/// The data with what was redacted in it: the length before, and the number of marks by rule. A field of this
/// name that is no object is not abide's, and stays. All other bytes of the notes stay: they may hold a record
/// of an agent's file.
fn with_counts(data: &Payload, bytes: usize, tally: &RedactionTally) -> Payload {
    let notes = data.field(NOTES).unwrap_or("{}");
    if !notes.starts_with('{') {
        return data.clone();
    }
    let notes = Payload::from_stored(notes.into());
    // An event that was recorded before has counts already.
    let before = notes.field(REDACTED).and_then(|raw| serde_json::from_str::<Value>(raw).ok());
    let before = before.as_ref().and_then(|before| before.get("rules")).cloned();
    let mut rules = match before {
        Some(Value::Object(rules)) => rules,
        _ => Map::new(),
    };
    for (rule, found) in tally.by_rule() {
        let before = rules.get(rule).and_then(Value::as_u64).unwrap_or(0);
        rules.insert(rule.to_owned(), (before + found.marks).into());
    }
    let counts = [("bytes".to_owned(), bytes.into()), ("rules".to_owned(), rules.into())];
    let counts = Value::Object(counts.into_iter().collect());
    data.with_field(NOTES, notes.with_field(REDACTED, &counts.to_string()).as_str())
}

#[cfg(test)]
mod tests {
    use abide_secrets::{Literals, MarkKey, RuleSet};

    use super::*;

    fn redactor() -> Redactor {
        let mut literals = Literals::default();
        assert!(literals.add("env", "correct-horse-42"));
        Redactor::new(RuleSet::load().unwrap(), literals, MarkKey::new([7; 32]))
    }

    fn redacted(text: &str) -> NewEvent {
        redact_event(&redactor(), NewEvent::parse(text).unwrap())
    }

    #[test]
    fn an_event_without_secrets_is_the_same() {
        for text in [
            r#"{"kind":"x.y","data":{}}"#,
            r#"{"kind":"x.y","data":{ "n":1e400,"n":"\ud800 a"},"key":"k","task":"t","lane":"l"}"#,
        ] {
            assert_eq!(redacted(text), NewEvent::parse(text).unwrap());
        }
    }

    #[test]
    fn the_head_and_the_data_have_marks_and_their_number() {
        let event = redacted(
            r#"{"kind":"x.y","data":{"a":"correct-horse-42 correct\u002dhorse-42","b":1e400},"key":"k:correct-horse-42","task":"correct-horse-42","lane":"correct-horse-42"}"#,
        );
        let json = event.to_json();
        assert!(!json.contains("horse"), "{json}");
        let mark = event.task.unwrap().0;
        assert!(mark.starts_with("‹redacted:env:") && mark.ends_with('›'), "{mark}");
        let digits = event.key.as_deref().and_then(|key| key.strip_prefix("k:‹redacted:env:"));
        assert_eq!(digits.unwrap().len(), 32 + "›".len(), "{:?}", event.key);
        assert_eq!(
            event.data.as_str(),
            format!(
                r#"{{"a":"{mark} {mark}","b":1e400,"abide":{{"redacted":{{"bytes":56,"rules":{{"env":5}}}}}}}}"#
            )
        );
    }

    #[test]
    fn counts_join_what_abide_notes_already() {
        let event = redacted(
            r#"{"kind":"x.y","data":{"abide":{"answer":"a","redacted":{"bytes":9,"rules":{"env":2,"jwt":1}}},"a":"correct-horse-42"}}"#,
        );
        let data: Value = serde_json::from_str(event.data.as_str()).unwrap();
        assert_eq!(data["abide"]["answer"], "a");
        assert_eq!(data["abide"]["redacted"]["rules"].to_string(), r#"{"env":3,"jwt":1}"#);
        let keys: Vec<&String> = data.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["abide", "a"]);
        let odd = redacted(r#"{"kind":"x.y","data":{"abide":7,"a":"correct-horse-42"}}"#);
        assert!(odd.data.as_str().starts_with(r#"{"abide":7,"a":"‹redacted:env:"#), "{odd:?}");
    }

    #[test]
    fn redacting_twice_changes_nothing() {
        let once =
            redacted(r#"{"kind":"x.y","data":{"a":"correct-horse-42"},"key":"correct-horse-42"}"#);
        assert_eq!(redact_event(&redactor(), once.clone()), once);
    }

    #[test]
    fn what_cannot_be_scanned_is_left_out_and_counted() {
        let text = "{\"a\": not json correct-horse-42}";
        let event = NewEvent::parse(r#"{"kind":"x.y","data":{}}"#).unwrap();
        let event = NewEvent { data: Payload::from_stored(text.into()), ..event };
        let event = redact_event(&redactor(), event);
        assert_eq!(
            event.data.as_str(),
            r#"{"abide":{"redacted":{"bytes":32,"rules":{"unscanned":1}}}}"#
        );
    }

    #[test]
    fn a_session_has_marks_in_its_names_and_its_labels() {
        let mut session = NewSession::titled("use correct-horse-42").with_key("correct-horse-42");
        session.fields.workspace = Some("/home/correct-horse-42".to_owned());
        let labels = [("datadog_api_key", "3f9a1c7be42d5086a1f3c9e07b6d2458"), ("a", "b")];
        session.fields.labels =
            labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let fields = redact_session(&redactor(), session).fields;
        let shown = format!("{:?} {:?} {:?}", fields.title, fields.key, fields.labels);
        assert!(!shown.contains("horse") && !shown.contains("3f9a1c7be42d"), "{shown}");
        assert_eq!(fields.labels["a"], "b");
        assert_eq!(fields.workspace.as_deref(), Some("/home/correct-horse-42"));
    }
}
