//! The objects that something still names.
//!
//! Whatever looks like the name of an object counts as one, in any kind of event. If a snapshot
//! cannot be read completely, it is unknown what it names, and nothing may be removed. A snapshot
//! that is not in the store names nothing: this covers sessions imported without their files, and
//! made-up hashes. The same holds for an object that cannot be read and that a repair has named as
//! lost.

use std::collections::{HashMap, HashSet};

use abide_journal::JournalLine;
use abide_model::{Fact, Kind, ObjectHash, Recovery, Seq, SessionId, StoreError};
use abide_workspace::{Reach, ReachError, ReadObjectFn, Snapshot};

use crate::erase_error::CollectError;
use crate::named_snapshots::NamedSnapshots;

/// Whether each of these objects is in the store.
pub type ObjectsThereFn<'a> = dyn Fn(&[ObjectHash]) -> Result<Vec<bool>, StoreError> + 'a;

/// The names of objects in a store.
#[derive(Debug, Default)]
pub struct NamedObjects {
    /// Every name that was found.
    pub named: HashSet<ObjectHash>,
    /// Those of payloads: strings, which name nothing.
    pub payloads: HashSet<ObjectHash>,
    /// Snapshots, which must be readable, and an event that names each.
    pub snapshots: HashMap<ObjectHash, (SessionId, Seq)>,
    /// What repairs have named as lost.
    pub lost: HashSet<ObjectHash>,
}

/// How objects are looked up while the live ones are told.
#[allow(missing_debug_implementations)]
pub struct ObjectAccess<'a> {
    /// Reads an object.
    pub read: &'a ReadObjectFn<'a>,
    /// Tells, after a thorough search, which objects are there, damaged ones too.
    pub there: &'a ObjectsThereFn<'a>,
}

impl NamedObjects {
    /// Adds the names of a line. Whether the snapshots of a checkpoint or a rewind count is known
    /// only at the end: [`NamedObjects::staying`].
    pub fn line(&mut self, line: &JournalLine<'_>, snapshots: &mut NamedSnapshots) {
        self.payloads.extend(line.objects().into_iter().map(|object| object.hash));
        let conditional = snapshots.line(line);
        let others = object_names_in(line.bytes()).filter(|name| !conditional.contains(name));
        self.named.extend(others);
    }

    /// Adds the snapshots of a session that count at its end.
    pub fn staying(&mut self, session: SessionId, snapshots: &NamedSnapshots) {
        for named in snapshots.staying() {
            let by = (session, named.seq);
            self.snapshots.extend(named.snapshots.iter().map(|snapshot| (*snapshot, by)));
        }
    }

    /// All objects reachable from the names, with notes on names without an object.
    pub fn reached(
        self,
        objects: &ObjectAccess<'_>,
        notes: &mut Vec<String>,
    ) -> Result<HashSet<ObjectHash>, CollectError> {
        let read = objects.read;
        let mut reach = Reach::with_lost(self.lost);
        let mut nowhere = 0_u64;
        let snapshots: Vec<ObjectHash> = self.snapshots.keys().copied().collect();
        let there = (objects.there)(&snapshots)?;
        for (snapshot, there) in snapshots.iter().zip(there) {
            if !there && read(*snapshot)?.is_none() {
                nowhere += 1;
            } else {
                let by = self.snapshots.get(snapshot).copied();
                reach.add(read, *snapshot).map_err(|error| unreached_snapshot(error, by))?;
            }
        }
        if nowhere > 0 {
            notes.push(format!(
                "{nowhere} snapshots named by checkpoints or rewinds are not in this store"
            ));
        }
        // Other kinds of events may also name snapshots.
        let others: Vec<ObjectHash> = self.named.difference(&self.payloads).copied().collect();
        let there = (objects.there)(&others)?;
        for (hash, _) in others.iter().zip(there).filter(|(_, there)| *there) {
            let bytes = read(*hash)?.unwrap_or_default();
            if bytes.starts_with(b"{") && Snapshot::read(&bytes).is_ok() {
                reach.add(read, *hash).map_err(|error| unreached_snapshot(error, None))?;
            }
        }
        reach.objects.extend(self.named);
        reach.objects.extend(self.payloads);
        reach.objects.extend(self.snapshots.into_keys());
        Ok(reach.objects)
    }
}

/// These objects and the files of the snapshots among them, as far as they can be read.
pub fn reached_from(
    objects: &HashSet<ObjectHash>,
    read: &ReadObjectFn<'_>,
) -> Result<HashSet<ObjectHash>, StoreError> {
    let mut reach = Reach::default();
    for object in objects {
        reach.objects.insert(*object);
        let bytes = read(*object)?.unwrap_or_default();
        if bytes.starts_with(b"{") && Snapshot::read(&bytes).is_ok() {
            match reach.add(read, *object) {
                Err(ReachError::Store(error)) => return Err(error),
                // Follow it as far as it can be read.
                Ok(()) | Err(ReachError::Missing { .. } | ReachError::Form { .. }) => {}
            }
        }
    }
    Ok(reach.objects)
}

/// The recovery that a line records.
#[must_use]
pub fn recorded_recovery(line: &JournalLine<'_>) -> Option<Recovery> {
    line.head().filter(|head| head.kind == Kind::RECOVERY_PERFORMED)?;
    match line.event()?.fact() {
        Ok(Fact::Recovery(recovery)) => Some(recovery),
        _ => None,
    }
}

/// The error for a snapshot whose objects are unknown.
fn unreached_snapshot(reason: ReachError, by: Option<(SessionId, Seq)>) -> CollectError {
    let place = match by {
        Some((session, seq)) => {
            format!("event @{seq} of session {}", session.short(SessionId::SHORT))
        }
        None => "an event".to_owned(),
    };
    match reason {
        ReachError::Store(error) => CollectError::Store(error),
        reason => CollectError::Snapshot { place, reason },
    }
}

/// Every run of exactly 64 hexadecimal digits.
pub fn object_names_in(bytes: &[u8]) -> impl Iterator<Item = ObjectHash> + '_ {
    bytes
        .split(|byte| !byte.is_ascii_hexdigit())
        .filter(|run| run.len() == 64)
        .filter_map(|run| std::str::from_utf8(run).ok()?.to_ascii_lowercase().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_wherever_they_stand() {
        let (one, two) = (ObjectHash::of(b"1"), ObjectHash::of(b"2"));
        let upper = two.to_string().to_uppercase();
        let text =
            format!(r#"{{"a":"{one}","b":"x {upper}.","c":"{one}0","d":"{}"}}"#, "ab".repeat(31));
        assert_eq!(object_names_in(text.as_bytes()).collect::<Vec<_>>(), [one, two]);
    }
}
