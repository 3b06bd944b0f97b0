//! A paged map for the parts of a state that grow: tasks, files, calls, keys.
//!
//! Saving writes only the pages that changed, and a restored state reads only the pages it touches.
//! Pages split one at a time (linear hashing), so that no change costs more than two pages.
//!
//! Invariant: before a key is looked up or changed, the pages that [`StateTable::missing`] names are
//! loaded. A key on a page that is not loaded looks absent.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::Digest;

/// Offset and length of a page in the file of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRef(pub u64, pub u32);

#[derive(Debug, Clone)]
enum TablePage<V> {
    Here { entries: Arc<BTreeMap<String, V>>, at: Option<PageRef> },
    Away(PageRef),
}

/// A paged map from text to `V` with a digest of its entries. Clones share their pages.
#[derive(Debug, Clone)]
pub struct StateTable<V> {
    name: &'static str,
    pages: Vec<TablePage<V>>,
    len: u64,
    digest: Digest,
    /// The number of pages that are not loaded.
    away: usize,
    /// What changes since [`StateTable::begin`] have replaced.
    before: Option<TableUndo<V>>,
}

/// A table before some changes.
#[derive(Debug, Clone)]
struct TableUndo<V> {
    len: u64,
    digest: Digest,
    /// The old value of each changed entry, in the order of the changes.
    entries: Vec<(String, Option<V>)>,
}

/// A table without its entries, as stored in the root.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TableRoot {
    len: u64,
    digest: Digest,
    pages: Vec<PageRef>,
}

/// The mean number of entries per page at which a page splits.
const FULL: u64 = 48;

impl<V: Clone + PartialEq + Serialize + DeserializeOwned> StateTable<V> {
    pub(super) fn new(name: &'static str) -> Self {
        let first = TablePage::Here { entries: Arc::default(), at: None };
        let pages = vec![first];
        Self { name, pages, len: 0, digest: Digest::default(), away: 0, before: None }
    }

    /// The number of entries.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Is it empty?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) const fn digest(&self) -> Digest {
        self.digest
    }

    /// The entry under this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&V> {
        match self.pages.get(self.page_of(key)) {
            Some(TablePage::Here { entries, .. }) => entries.get(key),
            _ => None,
        }
    }

    /// Every loaded entry, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.pages.iter().flat_map(|page| {
            match page {
                TablePage::Here { entries, .. } => Some(entries.iter()),
                TablePage::Away(_) => None,
            }
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value))
        })
    }

    /// Sets or removes an entry.
    pub(super) fn set(&mut self, key: &str, value: Option<V>) {
        let name = self.name;
        let index = self.page_of(key);
        let Some(TablePage::Here { entries, at }) = self.pages.get_mut(index) else {
            return;
        };
        let old = entries.get(key);
        if old == value.as_ref() {
            return;
        }
        *at = None;
        if let Some(old) = old {
            self.digest.remove(table_entry_digest(name, key, old));
            // A root that was read may count fewer entries than its pages hold.
            self.len = self.len.saturating_sub(1);
        }
        let old = match value {
            Some(value) => {
                self.digest.add(table_entry_digest(name, key, &value));
                self.len = self.len.saturating_add(1);
                Arc::make_mut(entries).insert(key.to_owned(), value)
            }
            None => Arc::make_mut(entries).remove(key),
        };
        if let Some(before) = &mut self.before {
            before.entries.push((key.to_owned(), old));
        }
        if self.len > FULL * self.pages.len() as u64 {
            self.split();
        }
    }

    /// Saves what is changed from here on, until [`StateTable::roll_back`] or [`StateTable::release`].
    pub(super) fn begin(&mut self) {
        self.before = Some(TableUndo { len: self.len, digest: self.digest, entries: Vec::new() });
    }

    /// Undoes the changes since [`StateTable::begin`]. Pages that were split or loaded stay so.
    pub(super) fn roll_back(&mut self) {
        let Some(before) = self.before.take() else { return };
        for (key, old) in before.entries.into_iter().rev() {
            let index = self.page_of(&key);
            let Some(TablePage::Here { entries, at }) = self.pages.get_mut(index) else { continue };
            *at = None;
            match old {
                Some(old) => Arc::make_mut(entries).insert(key, old),
                None => Arc::make_mut(entries).remove(&key),
            };
        }
        (self.len, self.digest) = (before.len, before.digest);
    }

    /// Accepts the changes since [`StateTable::begin`].
    pub(super) fn release(&mut self) {
        self.before = None;
    }

    /// Changes the entry under this key, or a default one if there is none.
    pub(super) fn update(&mut self, key: &str, change: impl FnOnce(&mut V))
    where
        V: Default,
    {
        let mut value = self.get(key).cloned().unwrap_or_default();
        change(&mut value);
        self.set(key, Some(value));
    }

    /// The pages to load before `key` is looked up or set.
    pub(super) fn missing(&self, key: &str) -> Vec<usize> {
        let mut missing = Vec::new();
        for index in [self.page_of(key), table_splits_into(self.pages.len()).0] {
            if matches!(self.pages.get(index), Some(TablePage::Away(_)))
                && !missing.contains(&index)
            {
                missing.push(index);
            }
        }
        missing
    }

    /// Do the entries match the stored digest? Needs every page.
    pub(super) fn is_sound(&self) -> bool {
        let mut digest = Digest::default();
        let mut count = 0;
        for (key, value) in self.iter() {
            digest.add(table_entry_digest(self.name, key, value));
            count += 1;
        }
        self.is_whole() && digest == self.digest && count == self.len
    }

    /// Is every page loaded?
    pub(super) const fn is_whole(&self) -> bool {
        self.away == 0
    }

    /// Every page that is not loaded.
    pub(super) fn away(&self) -> Vec<usize> {
        let away = |(index, page): (usize, &TablePage<V>)| {
            matches!(page, TablePage::Away(_)).then_some(index)
        };
        self.pages.iter().enumerate().filter_map(away).collect()
    }

    pub(super) fn page_ref(&self, index: usize) -> Option<PageRef> {
        match self.pages.get(index) {
            Some(TablePage::Away(at)) => Some(*at),
            _ => None,
        }
    }

    /// Loads a page. The caller has verified its checksum.
    pub(super) fn install(&mut self, index: usize, bytes: &[u8]) -> Result<(), serde_json::Error> {
        let read: BTreeMap<String, V> = serde_json::from_slice(bytes)?;
        if let Some(page) = self.pages.get_mut(index)
            && let TablePage::Away(at) = page
        {
            *page = TablePage::Here { entries: Arc::new(read), at: Some(*at) };
            self.away = self.away.saturating_sub(1);
        }
        Ok(())
    }

    /// Writes the pages that changed and returns the root.
    pub(super) fn save<E>(
        &mut self,
        put: &mut impl FnMut(Vec<u8>) -> Result<PageRef, E>,
    ) -> Result<TableRoot, E> {
        let mut refs = Vec::with_capacity(self.pages.len());
        if let [TablePage::Here { entries, .. }] = &*self.pages
            && entries.is_empty()
        {
            // Nothing to write now, and nothing to read when restored.
            return Ok(TableRoot { len: self.len, digest: self.digest, pages: refs });
        }
        for page in &mut self.pages {
            refs.push(match page {
                TablePage::Away(at) | TablePage::Here { at: Some(at), .. } => *at,
                TablePage::Here { entries, at } => {
                    let bytes = serde_json::to_vec(&**entries).unwrap_or_default();
                    *at.insert(put(bytes)?)
                }
            });
        }
        Ok(TableRoot { len: self.len, digest: self.digest, pages: refs })
    }

    pub(super) fn restore(name: &'static str, root: TableRoot) -> Self {
        let mut pages: Vec<_> = root.pages.into_iter().map(TablePage::Away).collect();
        let away = pages.len();
        if pages.is_empty() {
            pages.push(TablePage::Here { entries: Arc::default(), at: None });
        }
        Self { name, pages, len: root.len, digest: root.digest, away, before: None }
    }

    /// Forgets where pages were written, so that the next save writes every loaded page.
    pub(super) fn unsave(&mut self) {
        for page in &mut self.pages {
            if let TablePage::Here { at, .. } = page {
                *at = None;
            }
        }
    }

    fn page_of(&self, key: &str) -> usize {
        table_page_of_hash(table_key_hash(key), self.pages.len())
    }

    fn split(&mut self) {
        let (from, to) = table_splits_into(self.pages.len());
        let count = self.pages.len() + 1;
        let Some(TablePage::Here { entries, at }) = self.pages.get_mut(from) else {
            return;
        };
        let (stay, go) = std::mem::take(Arc::make_mut(entries))
            .into_iter()
            .partition(|(key, _)| table_page_of_hash(table_key_hash(key), count) != to);
        *entries = Arc::new(stay);
        *at = None;
        self.pages.push(TablePage::Here { entries: Arc::new(go), at: None });
    }
}

fn table_entry_digest<V: Serialize>(name: &str, key: &str, value: &V) -> Digest {
    Digest::of(name, key, &serde_json::to_vec(value).unwrap_or_default())
}

fn table_key_hash(key: &str) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(blake3::hash(key.as_bytes()).as_bytes()) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

/// The index of the page for a hash among `count` pages.
fn table_page_of_hash(hash: u64, count: usize) -> usize {
    let whole = count.next_power_of_two();
    let index = usize::try_from(hash & (whole as u64 - 1)).unwrap_or(0);
    if index < count { index } else { index - whole / 2 }
}

/// Which page splits next if there are `count`, and the index of the new page.
fn table_splits_into(count: usize) -> (usize, usize) {
    (count - (count + 1).next_power_of_two() / 2, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_however_many_pages_there_are() {
        let mut table = StateTable::<u64>::new("t");
        for n in 0..20_000_u64 {
            table.set(&n.to_string(), Some(n));
        }
        assert_eq!(table.len(), 20_000);
        assert!(table.pages.len() > 400);
        assert!((0..20_000_u64).all(|n| table.get(&n.to_string()) == Some(&n)));
        let most = table.pages.iter().map(|page| match page {
            TablePage::Here { entries, .. } => entries.len(),
            TablePage::Away(_) => 0,
        });
        assert!(most.max().unwrap() < 200);
        for n in 0..20_000_u64 {
            table.set(&n.to_string(), None);
        }
        assert!(table.is_empty());
        assert_eq!(table.digest(), Digest::default());
    }

    #[test]
    fn a_snapshot_writes_only_what_changed_and_a_look_up_reads_only_what_it_needs() {
        let mut table = StateTable::<u64>::new("t");
        (0..5000_u64).for_each(|n| table.set(&n.to_string(), Some(n)));
        let mut disk: Vec<Vec<u8>> = Vec::new();
        let mut put = |bytes: Vec<u8>| {
            disk.push(bytes);
            Ok::<_, ()>(PageRef(disk.len() as u64 - 1, 0))
        };
        table.save(&mut put).unwrap();
        table.set("77", Some(1));
        let root = table.save(&mut put).unwrap();
        assert_eq!(disk.len(), table.pages.len() + 1);

        let mut again = StateTable::<u64>::restore("t", root);
        assert_eq!(again.get("77"), None);
        for index in again.missing("77") {
            let at = again.page_ref(index).unwrap();
            again.install(index, &disk[at.0 as usize]).unwrap();
        }
        assert_eq!(again.get("77"), Some(&1));
        assert!(again.away().len() + 2 >= table.pages.len());
        again.set("77", Some(77));
        table.set("77", Some(77));
        assert_eq!(again.digest(), table.digest());
    }

    #[test]
    fn changes_are_taken_back_across_splits() {
        let mut table = StateTable::<u64>::new("t");
        (0..100_u64).for_each(|n| table.set(&n.to_string(), Some(n)));
        let (before, digest) = (table.clone(), table.digest());
        table.begin();
        (0..50_u64).for_each(|n| table.set(&n.to_string(), None));
        (40..500_u64).for_each(|n| table.set(&n.to_string(), Some(n + 1)));
        table.set("60", Some(7));
        assert!(table.pages.len() > before.pages.len());
        table.roll_back();
        assert_eq!((table.len(), table.digest()), (100, digest));
        assert!(table.is_sound());
        assert!((0..500_u64).all(|n| table.get(&n.to_string()) == before.get(&n.to_string())));
        // What is released stays.
        table.begin();
        table.set("a", Some(1));
        table.release();
        table.roll_back();
        assert_eq!(table.get("a"), Some(&1));
    }

    #[test]
    fn a_root_that_counts_too_few_entries_can_be_gone_on_with() {
        let root = TableRoot { len: 0, digest: Digest::default(), pages: vec![PageRef(0, 0)] };
        let mut table = StateTable::<u64>::restore("t", root);
        table.install(0, br#"{"a":1}"#).unwrap();
        table.set("a", None);
        assert!(table.is_empty());
        assert!(!table.is_sound());
    }
}
