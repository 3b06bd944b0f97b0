//! A map of bounded size that forgets its oldest entries.

use std::collections::{HashMap, VecDeque};

/// Entries by name.
#[derive(Debug)]
pub(super) struct BoundedMap<V> {
    most: usize,
    entries: HashMap<String, (u64, V)>,
    /// Names in order of insertion, each with its number. The number no longer matches if the entry
    /// was removed or inserted again.
    order: VecDeque<(u64, String)>,
    next: u64,
}

impl<V> BoundedMap<V> {
    /// A map of at most `most` entries.
    pub(super) fn new(most: usize) -> Self {
        Self { most, entries: HashMap::new(), order: VecDeque::new(), next: 0 }
    }

    /// Inserts an entry as the newest, and returns the one that it pushed out.
    pub(super) fn insert(&mut self, name: &str, value: V) -> Option<(String, V)> {
        self.next += 1;
        self.entries.insert(name.to_owned(), (self.next, value));
        self.order.push_back((self.next, name.to_owned()));
        if self.order.len() > 2 * self.most {
            let entries = &self.entries;
            self.order.retain(|(number, name)| entries.get(name).is_some_and(|e| e.0 == *number));
        }
        while self.entries.len() > self.most {
            let (number, name) = self.order.pop_front()?;
            if self.entries.get(&name).is_some_and(|entry| entry.0 == number) {
                return self.entries.remove(&name).map(|(_, value)| (name, value));
            }
        }
        None
    }

    pub(super) fn get(&self, name: &str) -> Option<&V> {
        self.entries.get(name).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.entries.get_mut(name).map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<V> {
        self.entries.remove(name).map(|(_, value)| value)
    }

    /// Visits all entries, oldest first.
    pub(super) fn each(&mut self, mut visit: impl FnMut(&str, &mut V)) {
        for (number, name) in &self.order {
            if let Some((_, value)) = self.entries.get_mut(name).filter(|e| e.0 == *number) {
                visit(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let mut remembered = BoundedMap::new(2);
        assert_eq!(remembered.insert("a", 1), None);
        assert_eq!(remembered.insert("b", 2), None);
        assert_eq!(remembered.insert("a", 3), None);
        assert_eq!(remembered.insert("c", 4), Some(("b".to_owned(), 2)));
        assert_eq!((remembered.get("a"), remembered.get("b")), (Some(&3), None));
        for number in 0..1000 {
            remembered.insert("d", number);
            remembered.remove("d");
        }
        assert!(remembered.order.len() <= 5);
        let mut seen = Vec::new();
        remembered.each(|name, value| seen.push((name.to_owned(), *value)));
        assert_eq!(seen, [("c".to_owned(), 4)]);
    }
}
