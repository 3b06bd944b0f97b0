//! Makes ids and names valid for the APIs: allowed characters, bounded length, unique ids.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The ids in use.
#[derive(Debug)]
pub(crate) struct UsedIds {
    taken: HashSet<String>,
    /// The last number appended to a prefix, per number of digits.
    last: HashMap<(String, u32), u64>,
    longest: usize,
}

impl UsedIds {
    /// Starts with no ids in use. `longest` is the maximum length of an id.
    pub(crate) fn new(longest: usize) -> Self {
        Self { taken: HashSet::new(), last: HashMap::new(), longest }
    }

    /// Reserves an unused valid id as close to this one as possible.
    pub(crate) fn fit<'a>(&mut self, id: &'a str) -> Cow<'a, str> {
        let fitted = fit(id, self.longest, "call");
        if self.taken.insert(fitted.clone().into_owned()) {
            return fitted;
        }
        (1..u64::MAX.ilog10()).find_map(|digits| self.numbered(&fitted, digits)).unwrap_or(fitted)
    }

    /// The id with a number of this many digits appended; `None` if all are in use. No number is
    /// tried twice after one prefix, however many ids share it.
    fn numbered<'a>(&mut self, fitted: &str, digits: u32) -> Option<Cow<'a, str>> {
        let room = self.longest.saturating_sub(digits as usize + 1);
        let start = fitted.get(..room).unwrap_or(fitted);
        let least = 10u64.pow(digits - 1).max(2);
        let last = self.last.entry((start.to_owned(), digits)).or_insert(least - 1);
        while *last + 1 < 10u64.pow(digits) {
            *last += 1;
            let next = format!("{start}_{last}");
            if self.taken.insert(next.clone()) {
                return Some(next.into());
            }
        }
        None
    }
}

/// The maximum length of a tool's name.
const LONGEST_NAME: usize = 64;

/// A valid tool name as close to this one as possible.
pub(crate) fn name(name: &str) -> Cow<'_, str> {
    fit(name, LONGEST_NAME, "tool")
}

fn fit<'a>(text: &'a str, longest: usize, or: &'static str) -> Cow<'a, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if text.is_empty() {
        return or.into();
    }
    if text.len() <= longest && text.chars().all(fits) {
        return text.into();
    }
    text.chars().take(longest).map(|c| if fits(c) { c } else { '_' }).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_fits_and_none_is_given_twice() {
        let mut ids = UsedIds::new(8);
        let asked = ["a", "a", "a", "a_2", "", "", "ü!", "ü?", "123456789", "123456780", "a_2"];
        let given: Vec<_> = asked.iter().map(|id| ids.fit(id).into_owned()).collect();
        let first = ["a", "a_2", "a_3", "a_2_2", "call", "call_2", "__", "___2", "12345678"];
        assert_eq!(given[..9], first);
        assert_eq!(given[9], "123456_2");
        // Those that differ only where the number goes share the numbers, past one digit.
        let more: Vec<_> = (0..12).map(|n| format!("1234567{}", char::from(b'a' + n))).collect();
        let more = more.iter().chain(&more).map(|id| ids.fit(id).into_owned());
        let given: Vec<_> = given.into_iter().chain(more).collect();
        assert_eq!(given.last().unwrap(), "12345_14");
        let mut once = given.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), given.len());
        assert!(given.iter().all(|id| (1..=8).contains(&id.len()) && id.is_ascii()));
        assert_eq!((name("mcp.x/y"), name("")), ("mcp_x_y".into(), "tool".into()));
    }
}
