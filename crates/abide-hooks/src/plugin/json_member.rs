//! Takes a member out of a JSON text, and leaves every other byte.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object, in order, with the text of each value.
struct JsonMembers<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for JsonMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MemberVisitor;
        impl<'de> Visitor<'de> for MemberVisitor {
            type Value = JsonMembers<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(JsonMembers(members))
            }
        }
        from.deserialize_map(MemberVisitor)
    }
}

/// The text without the member to which these keys lead. `None` if there is none, or it is no JSON.
pub(super) fn without_member(text: &str, keys: &[String]) -> Option<String> {
    let (first, last) = member_span(text, keys)?;
    Some([text.get(..first)?, text.get(last..)?].concat())
}

/// The bytes of a member, with the comma that goes with it.
fn member_span(text: &str, keys: &[String]) -> Option<(usize, usize)> {
    let (key, inner) = keys.split_first()?;
    let JsonMembers(members) = serde_json::from_str(text).ok()?;
    // A parser takes the last of several members of one name.
    let at = members.iter().rposition(|(name, _)| name == key)?;
    let span = |member: usize| {
        let raw = members.get(member)?.1.get();
        let start = (raw.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        Some((start, start + raw.len()))
    };
    let (start, end) = span(at)?;
    if !inner.is_empty() {
        let (first, last) = member_span(text.get(start..end)?, inner)?;
        return Some((start + first, start + last));
    }
    let open = text.find('{')? + 1;
    if let Some(before) = at.checked_sub(1) {
        return Some((span(before)?.1, end));
    }
    if members.len() == 1 {
        return Some((open, text.rfind('}')?));
    }
    // The first of several: up to the name of the next one, so that what stands before it stays.
    let blank = |from: usize| {
        let rest = text.get(from..)?;
        Some(from + rest.len() - rest.trim_start().len())
    };
    let comma = blank(end)?;
    Some((blank(open)?, blank(comma + 1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str, keys: &str) -> Option<String> {
        let keys: Vec<String> = keys.split('/').map(str::to_owned).collect();
        without_member(text, &keys)
    }

    #[test]
    fn a_member_goes_and_every_other_byte_stays() {
        let text = "{\n\t\"a\" : 1,\n  \"b\": {\"c\":[1, 2] , \"d\": {}},\n\n    \"e\": \"}\"\n}\n";
        let gone = |keys: &str| without(text, keys).unwrap();
        assert_eq!(gone("a"), text.replace("\"a\" : 1,\n  ", ""));
        assert_eq!(gone("b"), text.replace(",\n  \"b\": {\"c\":[1, 2] , \"d\": {}}", ""));
        assert_eq!(gone("b/c"), text.replace("\"c\":[1, 2] , ", ""));
        assert_eq!(gone("b/d"), text.replace(" , \"d\": {}", ""));
        assert_eq!(gone("e"), text.replace(",\n\n    \"e\": \"}\"", ""));
        assert_eq!(without("{ \"x\": {\"y\": 1 } }", "x/y").unwrap(), "{ \"x\": {} }");
        for missing in ["x", "a/x", "b/x", "b/c/0"] {
            assert_eq!(without(text, missing), None, "{missing}");
        }
        assert_eq!(without("{\"a\":1,}", "a"), None);
    }

    #[test]
    fn of_two_members_of_one_name_the_one_that_counts_goes() {
        assert_eq!(without("{\"a\":1,\"a\":2}", "a").unwrap(), "{\"a\":1}");
    }
}
