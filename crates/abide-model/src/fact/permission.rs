//! Permissions: what an agent asked for, and what the user answered.

use serde::{Deserialize, Serialize};

use crate::CallId;

/// `permission.asked`: recorded before the user is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PermissionAsked {
    /// The tool call that waits for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// What is asked for, in one line.
    pub title: String,
    /// The possible answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<PermissionOption>,
}

/// A possible answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PermissionOption {
    /// Its id.
    pub id: String,
    /// Its label for the user.
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`, or another word.
    pub kind: String,
}

/// `permission.answered`: recorded before the agent is told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PermissionAnswered {
    /// The tool call that waited for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// `selected`, `cancelled`, or another word.
    pub outcome: String,
    /// The chosen option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// The kind of that option: `allow_once`, `reject_always` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

impl PermissionAnswered {
    /// The answer in one word: the kind of the chosen option, or else the outcome.
    #[must_use]
    pub fn word(&self) -> &str {
        self.kind.as_deref().or(self.option.as_deref()).unwrap_or(&self.outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventLimits, Fact, Kind, NewEvent, Payload};

    #[test]
    fn permissions_are_read_leniently_and_written_as_events() {
        let fact = |kind: &Kind, json: &str| {
            Fact::decode(kind, &Payload::new(json, &EventLimits::default()).unwrap()).unwrap()
        };
        let asked = r#"{"call":"c1","title":"Edit a","options":[{"id":"y","name":"Yes","kind":"allow_once"}]}"#;
        let Fact::PermissionAsked(read) = fact(&Kind::PERMISSION_ASKED, asked) else { panic!() };
        assert_eq!(read.options[0].kind, "allow_once");
        let event = NewEvent::try_from(read).unwrap();
        assert_eq!((event.kind.as_str(), event.data.as_str()), ("permission.asked", asked));

        let answered = r#"{"call":"c1","outcome":"selected","option":"y","kind":"allow_once"}"#;
        let read = match fact(&Kind::PERMISSION_ANSWERED, answered) {
            Fact::PermissionAnswered(read) => read,
            other => panic!("{other:?}"),
        };
        assert_eq!(read.word(), "allow_once");
        assert_eq!(NewEvent::try_from(read).unwrap().data.as_str(), answered);

        let empty = fact(&Kind::PERMISSION_ASKED, r#"{"more":[1]}"#);
        assert!(
            matches!(empty, Fact::PermissionAsked(asked) if asked == PermissionAsked::default())
        );
        let cancelled = fact(&Kind::PERMISSION_ANSWERED, r#"{"outcome":"cancelled"}"#);
        assert!(matches!(cancelled, Fact::PermissionAnswered(fact) if fact.word() == "cancelled"));
    }
}
