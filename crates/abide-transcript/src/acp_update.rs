//! What ACP tells of a call beside its events: arguments that came later, changes of files, the exit
//! code of a command.

use abide_model::json::{RawJsonFields, list};

use crate::timeline_entry::{CallChange, TimelineCall};

/// An update of a call, as the field `acp` of an event has it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AcpCallUpdate {
    /// The call.
    pub(crate) call: String,
    title: String,
    arguments: Option<String>,
    changes: Vec<CallChange>,
    /// The exit code of a command.
    pub(crate) exit: Option<i64>,
}

impl AcpCallUpdate {
    /// Reads the update in the data of an event; `None` if it has none.
    pub(crate) fn of(data: &str) -> Option<Self> {
        if !data.contains("\"acp\"") {
            return None;
        }
        let fields = RawJsonFields::of(data)?;
        let update = RawJsonFields::of(fields.get("acp")?.get())?;
        let raw_output = update.get("rawOutput").and_then(|raw| RawJsonFields::of(raw.get()));
        Some(Self {
            call: update.decoded("toolCallId")?.into_owned(),
            title: update.decoded("title").unwrap_or_default().into_owned(),
            arguments: update.get("rawInput").map(|raw| raw.get().to_owned()).filter(|input| {
                RawJsonFields::of(input).is_some_and(|fields| fields.names().next().is_some())
            }),
            changes: update.get("content").map(|raw| changes(raw.get())).unwrap_or_default(),
            exit: raw_output.and_then(|output| exit_code(&output)),
        })
    }

    /// Adds to the call what the update tells.
    pub(crate) fn add_to(self, call: &mut TimelineCall) {
        if let Some(arguments) = self.arguments {
            call.arguments = arguments;
        }
        if !self.title.is_empty() && self.title != call.name {
            call.title = self.title;
        }
        if !self.changes.is_empty() {
            call.changes = self.changes;
        }
    }
}

fn exit_code(output: &RawJsonFields<'_>) -> Option<i64> {
    let names = ["exit", "exitCode", "exit_code"];
    let inner = output.get("metadata").and_then(|raw| RawJsonFields::of(raw.get()));
    let number = |fields: &RawJsonFields<'_>| {
        names.iter().find_map(|name| fields.get(name)?.get().parse::<i64>().ok())
    };
    number(output).or_else(|| inner.as_ref().and_then(number))
}

/// The changes of files among the contents of a call.
fn changes(content: &str) -> Vec<CallChange> {
    let items = serde_json::from_str(content).ok().and_then(list).unwrap_or_default();
    let change = |raw: &serde_json::value::RawValue| {
        let fields = RawJsonFields::of(raw.get())?;
        if fields.decoded("type")? != "diff" {
            return None;
        }
        let text = |name: &str| fields.decoded(name).unwrap_or_default().into_owned();
        Some(CallChange { path: text("path"), old: text("oldText"), new: text("newText") })
    };
    items.into_iter().filter_map(change).collect()
}

/// A call whose agent gave no arguments is recorded with its title and places instead: these are put
/// where they belong.
pub(crate) fn sort_acp_details(call: &mut TimelineCall) {
    let Some(fields) = RawJsonFields::of(&call.arguments) else { return };
    if fields.any("locations").is_none()
        || !fields.names().all(|name| matches!(name, "title" | "locations"))
    {
        return;
    }
    let title = fields.decoded("title").unwrap_or_default().into_owned();
    let places = fields.get("locations").and_then(list).unwrap_or_default();
    let path = places.first().and_then(|place| {
        RawJsonFields::of(place.get())?.encoded("path").map(|path| format!("{{\"path\":{path}}}"))
    });
    call.arguments = path.unwrap_or_default();
    if title != call.name {
        call.title = title;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_later_is_part_of_the_call() {
        let details = r#"{"title":"Edit a.rs","locations":[{"path":"/w/a.rs"}]}"#;
        let mut call = TimelineCall::new("c".to_owned(), "edit".to_owned(), details.to_owned());
        sort_acp_details(&mut call);
        assert_eq!(
            (call.title.as_str(), call.arguments.as_str()),
            ("Edit a.rs", r#"{"path":"/w/a.rs"}"#)
        );
        let update = AcpCallUpdate::of(r#"{"acp":{"toolCallId":"c","title":"edit","rawInput":{"x":1},"content":[{"type":"content"},{"type":"diff","path":"a","oldText":null,"newText":"b"}],"rawOutput":{"metadata":{"exit":3}}}}"#).unwrap();
        assert_eq!(update.exit, Some(3));
        update.add_to(&mut call);
        assert_eq!((call.title.as_str(), call.arguments.as_str()), ("Edit a.rs", r#"{"x":1}"#));
        assert_eq!(call.changes[0].new, "b");
        for other in ["{}", r#"{"acp":{}}"#, r#"{"acp":7}"#, r#"{"a":"\"acp\""}"#] {
            assert_eq!(AcpCallUpdate::of(other), None);
        }
    }
}
