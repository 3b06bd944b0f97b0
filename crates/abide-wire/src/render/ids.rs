//! Ids and names that the APIs take: few characters, not too long, and each id once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The ids that are taken, and how often they were asked for.
#[derive(Debug)]
pub(crate) struct Ids {
    taken: HashMap<String, u32>,
    longest: usize,
}

impl Ids {
    /// None are taken; an id may be so long.
    pub(crate) fn new(longest: usize) -> Self {
        Self { taken: HashMap::new(), longest }
    }

    /// An id that is as close to this one as can be.
    pub(crate) fn fit<'a>(&mut self, id: &'a str) -> Cow<'a, str> {
        let fitted = fit(id, self.longest, "call");
        if let Entry::Vacant(place) = self.taken.entry(fitted.clone().into_owned()) {
            place.insert(1);
            return fitted;
        }
        loop {
            let count = self.taken.get_mut(&*fitted).map_or(0, |count| {
                *count = count.saturating_add(1);
                *count
            });
            let suffix = format!("_{count}");
            let room = self.longest.saturating_sub(suffix.len());
            let start = fitted.get(..room).unwrap_or(&fitted);
            let next = format!("{start}{suffix}");
            if let Entry::Vacant(place) = self.taken.entry(next.clone()) {
                place.insert(1);
                return next.into();
            }
        }
    }
}

/// The longest name of a tool.
const LONGEST_NAME: usize = 64;

/// A tool's name that is as close to this one as can be.
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
        let mut ids = Ids::new(8);
        let asked = ["a", "a", "a", "a_2", "", "", "ü!", "ü?", "123456789", "123456780", "a_2"];
        let given: Vec<_> = asked.iter().map(|id| ids.fit(id).into_owned()).collect();
        let first = ["a", "a_2", "a_3", "a_2_2", "call", "call_2", "__", "___2", "12345678"];
        assert_eq!(given[..9], first);
        assert_eq!(given[9], "123456_2");
        let mut once = given.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), given.len());
        assert!(given.iter().all(|id| (1..=8).contains(&id.len()) && id.is_ascii()));
        assert_eq!((name("mcp.x/y"), name("")), ("mcp_x_y".into(), "tool".into()));
    }
}
