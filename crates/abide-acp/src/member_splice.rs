//! Edits in a line of JSON that leave every other byte unchanged.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The members of an object, as slices of its text.
type ObjectMembers<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// The members of an object; `None` if it is not one.
fn members(object: &str) -> Option<ObjectMembers<'_>> {
    serde_json::from_str(object).ok()
}

/// The value at a path of members.
pub(crate) fn member<'a>(object: &'a str, path: &[&str]) -> Option<&'a RawValue> {
    let (name, rest) = path.split_first()?;
    let value = members(object)?.remove(*name)?;
    if rest.is_empty() { Some(value) } else { member(value.get(), rest) }
}

/// The string at a path of members.
pub(crate) fn member_text<'a>(object: &'a str, path: &[&str]) -> Option<Cow<'a, str>> {
    let value = member(object, path)?;
    serde_json::from_str::<crate::rpc_message::RpcText<'a>>(value.get()).ok().map(|text| text.0)
}

/// The `sessionId` of params: its text, and its slice of the line.
pub(crate) fn session_member(params: &RawValue) -> Option<(Cow<'_, str>, &RawValue)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct SessionIdParams<'a> {
        #[serde(borrow)]
        session_id: Option<&'a RawValue>,
    }
    let named: SessionIdParams<'_> = serde_json::from_str(params.get()).ok()?;
    let raw = named.session_id?;
    let text = serde_json::from_str::<crate::rpc_message::RpcText<'_>>(raw.get()).ok()?;
    Some((text.0, raw))
}

/// The range of a slice within its line.
fn splice_range(line: &str, part: &str) -> Option<std::ops::Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (line.get(start..end) == Some(part)).then_some(start..end)
}

/// The line with one of its slices replaced.
pub(crate) fn spliced_line(line: &str, part: &str, new: &str) -> Option<String> {
    let place = splice_range(line, part)?;
    let (before, after) = (line.get(..place.start)?, line.get(place.end..)?);
    Some([before, new, after].concat())
}

/// An object or list with something inserted at its beginning.
fn splice_in_first(whole: &str, new: &str) -> Option<String> {
    let (open, rest) = whole.split_at_checked(1)?;
    let empty = rest.trim_start().len() == 1;
    Some([open, new, if empty { "" } else { "," }, rest].concat())
}

/// A list with an item inserted at its beginning.
pub(crate) fn list_with_first(list: &str, item: &str) -> Option<String> {
    list.starts_with('[').then(|| splice_in_first(list, item))?
}

/// An object with a member set to this value.
pub(crate) fn spliced_with_member(object: &str, name: &str, value: &str) -> Option<String> {
    match members(object)?.get(name) {
        Some(old) => spliced_line(object, old.get(), value),
        None => splice_in_first(object, &format!("{}:{value}", serde_json::Value::from(name))),
    }
}

/// An object without a member.
pub(crate) fn spliced_without_member(object: &str, name: &str) -> Option<String> {
    let mut members: Vec<(Cow<'_, str>, &RawValue)> = members(object)?.into_iter().collect();
    members.retain(|(key, _)| key != name);
    let parts = members
        .iter()
        .map(|(key, value)| format!("{}:{}", serde_json::Value::from(&**key), value.get()));
    Some(format!("{{{}}}", parts.collect::<Vec<_>>().join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_changes() {
        let line = r#"{ "a" : {"sessionId" : "x\u0041",  "n":1.0e+2 , "n":2}, "é":"\/" }"#;
        let params = member(line, &["a"]).unwrap();
        let (id, raw) = session_member(params).unwrap();
        assert_eq!(id, "xA");
        assert_eq!(
            spliced_line(line, raw.get(), "\"long id\"").unwrap(),
            r#"{ "a" : {"sessionId" : "long id",  "n":1.0e+2 , "n":2}, "é":"\/" }"#
        );
        assert_eq!(spliced_line(line, "elsewhere", ""), None);
    }

    #[test]
    fn members_are_set_put_in_and_left_out() {
        assert_eq!(spliced_with_member("{}", "a", "1").unwrap(), r#"{"a":1}"#);
        assert_eq!(spliced_with_member("{ }", "a", "1").unwrap(), r#"{"a":1 }"#);
        assert_eq!(spliced_with_member(r#"{"b": 2}"#, "a", "1").unwrap(), r#"{"a":1,"b": 2}"#);
        assert_eq!(spliced_with_member(r#"{"a": 2}"#, "a", "1").unwrap(), r#"{"a": 1}"#);
        assert_eq!(spliced_with_member("[]", "a", "1"), None);
        assert_eq!(list_with_first("[]", "1").unwrap(), "[1]");
        assert_eq!(list_with_first("[ 2 ]", "1").unwrap(), "[1, 2 ]");
        assert_eq!(list_with_first("{}", "1"), None);
        assert_eq!(spliced_without_member(r#"{"a":1,"b":[ ]}"#, "a").unwrap(), r#"{"b":[ ]}"#);
        assert_eq!(member_text(r#"{"a":{"b":"c"}}"#, &["a", "b"]).unwrap(), "c");
        assert_eq!(member_text(r#"{"a":{"b":1}}"#, &["a", "b"]), None);
    }
}
