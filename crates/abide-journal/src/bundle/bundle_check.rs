//! Checks the records of a bundle. Writer and reader apply the same rules.

use std::collections::HashMap;

use abide_model::{
    Event, EventLimits, Fact, Kind, LeafEncoding, ObjectHash, Payload, Seq, SessionId,
};

use super::{BundleFault, BundleHeader, MAX_OBJECTS, max_bundle_object};
use crate::{JournalLine, LineObjectRef, LinePayload, MAX_LINE, Sum};

/// What is remembered of each object.
#[derive(Debug, Clone, Copy)]
struct BundledObject {
    size: u32,
    /// It is a JSON string, as `"encoding":"json"` requires.
    json: bool,
}

/// Checks a bundle record by record: sums, the chain from the first line on, ids, the form of every
/// event, and that each object occurs once, before the line that names it.
///
/// A bundle that passes reads without a note and passes a check of the store.
#[derive(Debug)]
pub struct BundleCheck {
    told: BundleHeader,
    last: Seq,
    sum: Sum,
    bytes: u64,
    objects: HashMap<ObjectHash, BundledObject>,
    /// Objects that the next line must name.
    waiting: Vec<ObjectHash>,
}

impl BundleCheck {
    /// Starts the check of a bundle with this header.
    pub fn begin(told: BundleHeader) -> Result<Self, BundleFault> {
        let session = told.session;
        let bytes = session.as_bytes();
        let is_v7 = bytes.get(6).is_some_and(|byte| byte >> 4 == 7)
            && bytes.get(8).is_some_and(|byte| byte >> 6 == 2);
        if !is_v7 {
            return Err(BundleFault::SessionId { session });
        }
        if told.objects > MAX_OBJECTS {
            return Err(BundleFault::Count {
                what: "objects at most",
                told: told.objects,
                found: MAX_OBJECTS,
            });
        }
        let (last, sum) = told.before();
        Ok(Self { last, sum, bytes: 0, objects: HashMap::new(), waiting: Vec::new(), told })
    }

    /// The last event so far, and its sum.
    #[must_use]
    pub const fn last(&self) -> (Seq, Sum) {
        (self.last, self.sum)
    }

    /// Was this object already seen?
    #[must_use]
    pub fn has(&self, hash: ObjectHash) -> bool {
        self.objects.contains_key(&hash)
    }

    /// The number of events so far.
    pub(super) fn events(&self) -> u64 {
        self.last.0.saturating_sub(self.told.before().0.0)
    }

    /// The number of objects so far.
    pub(super) fn objects(&self) -> u64 {
        self.objects.len() as u64
    }

    /// The bytes of lines and objects so far.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks that an object of this size may come next.
    pub(super) fn announce(&self, hash: ObjectHash, size: u64) -> Result<(), BundleFault> {
        if size > max_bundle_object() {
            return Err(BundleFault::TooLong { what: "an object", limit: max_bundle_object() });
        }
        if self.has(hash) {
            return Err(BundleFault::StrayObject { hash });
        }
        let (told, found) = (self.told.objects, self.objects.len() as u64 + 1);
        if found > told {
            return Err(BundleFault::Count { what: "objects", told, found });
        }
        self.room_for(size).map(|_| ())
    }

    /// Checks the next object.
    pub fn object(&mut self, hash: ObjectHash, bytes: &[u8]) -> Result<(), BundleFault> {
        self.announce(hash, bytes.len() as u64)?;
        let text = std::str::from_utf8(bytes).ok();
        if ObjectHash::of(bytes) != hash || text.is_none() {
            return Err(BundleFault::ObjectBytes { hash });
        }
        let json = abide_model::PayloadLeaf::to_json(LeafEncoding::Json, bytes).is_some();
        self.bytes = self.room_for(bytes.len() as u64)?;
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.objects.insert(hash, BundledObject { size, json });
        self.waiting.push(hash);
        Ok(())
    }

    /// Checks the next journal line, without its line break.
    pub fn line<'a>(&mut self, raw: &'a [u8]) -> Result<JournalLine<'a>, BundleFault> {
        if raw.len() > MAX_LINE {
            return Err(BundleFault::TooLong { what: "a line", limit: MAX_LINE as u64 });
        }
        let line = JournalLine::read(raw).map_err(BundleFault::Line)?;
        let expected = self.last.next();
        if line.seq != expected {
            return Err(BundleFault::Seq { expected, found: line.seq });
        }
        if line.prev != self.sum.link() {
            return Err(BundleFault::Unchained { seq: line.seq });
        }
        let before = self.told.before().0;
        let found = line.seq.0 - before.0;
        if found > self.told.events {
            let told = self.told.events;
            return Err(BundleFault::Count { what: "events", told, found });
        }
        let form = |reason| BundleFault::Form { seq: line.seq, reason };
        // A line must not claim that it was durable before it was written.
        if line.lag == 0 || line.lag > line.seq.0 {
            return Err(form("invalid lag"));
        }
        let event = line.event().ok_or(form("invalid envelope"))?;
        check_bundle_event(&event).map_err(form)?;
        if line.seq == before.next() {
            self.check_first(&event)?;
        }
        self.check_objects(&line)?;
        self.bytes = self.room_for(raw.len() as u64)?;
        (self.last, self.sum) = (line.seq, line.sum);
        Ok(line)
    }

    /// Checks that everything announced has come.
    pub fn finish(&self) -> Result<(), BundleFault> {
        if let Some(hash) = self.waiting.first() {
            return Err(BundleFault::StrayObject { hash: *hash });
        }
        let counts = [
            ("events", self.told.events, self.events()),
            ("objects", self.told.objects, self.objects.len() as u64),
            ("bytes", self.told.bytes, self.bytes),
        ];
        for (what, told, found) in counts {
            if told != found {
                return Err(BundleFault::Count { what, told, found });
            }
        }
        if self.events() == 0 {
            return Err(BundleFault::NotTheBeginning { session: self.told.session });
        }
        Ok(())
    }

    /// The bytes so far plus `more`, which must not exceed what the first line announces.
    fn room_for(&self, more: u64) -> Result<u64, BundleFault> {
        let told = self.told.bytes;
        let found = self.bytes.saturating_add(more);
        if found > told {
            return Err(BundleFault::Count { what: "bytes", told, found });
        }
        Ok(found)
    }

    fn check_first(&self, event: &Event) -> Result<(), BundleFault> {
        let session: SessionId = self.told.session;
        let begins = match (&event.data, event.fact()) {
            // An erased event says nothing; the chain starts from the session id anyway.
            (None, _) => event.kind == Kind::SESSION_CREATED,
            (Some(_), Ok(Fact::SessionCreated(created))) => {
                let parent = created.fields.forked_from(event.seq);
                let parent = parent.map(|parent| (parent.session, parent.seq));
                let told = self.told.parent.map(|parent| (parent.session, parent.seq));
                created.session == session && parent == told
            }
            _ => false,
        };
        if begins { Ok(()) } else { Err(BundleFault::NotTheBeginning { session }) }
    }

    /// Checks that each object the line names is present and fits its place, and that no object is
    /// unused.
    fn check_objects(&mut self, line: &JournalLine<'_>) -> Result<(), BundleFault> {
        let form = |reason| BundleFault::Form { seq: line.seq, reason };
        let refs: Vec<LineObjectRef> = match line.body() {
            LinePayload::Present { objects, .. } if !objects.is_empty() => {
                serde_json::from_slice(objects).map_err(|_| form("invalid list of objects"))?
            }
            _ => Vec::new(),
        };
        let data = match line.body() {
            LinePayload::Present { data, .. } => data,
            LinePayload::Erased { .. } => b"",
        };
        let mut new = self.waiting.iter();
        let mut next = new.next();
        let (mut size, mut place) = (0_u64, 0);
        for named in &refs {
            let seen = self.objects.get(&named.hash);
            let seen =
                seen.ok_or(BundleFault::MissingObject { seq: line.seq, hash: named.hash })?;
            if next == Some(&named.hash) {
                next = new.next();
            }
            size = size.saturating_add(named.size);
            let fits = named.offset >= place
                && data.get(named.offset..named.offset.saturating_add(2)) == Some(b"\"\"");
            if u64::from(seen.size) != named.size
                || !fits
                || (named.encoding == LeafEncoding::Json && !seen.json)
            {
                return Err(form("an object does not fit its position"));
            }
            place = named.offset + 2;
        }
        if size > EventLimits::default().event_bytes as u64 {
            return Err(form("its objects are larger than an event may be"));
        }
        if let Some(hash) = next {
            return Err(BundleFault::StrayObject { hash: *hash });
        }
        self.waiting.clear();
        Ok(())
    }
}

/// Checks the limits of an event, the same as when it was recorded.
fn check_bundle_event(event: &Event) -> Result<(), &'static str> {
    let limit = EventLimits::default().name_bytes;
    let names = [
        event.task.as_ref().map(|task| task.as_str()),
        event.lane.as_ref().map(|lane| lane.as_str()),
        event.key.as_deref(),
    ];
    if names.into_iter().flatten().any(|name| name.is_empty() || name.len() > limit) {
        return Err("invalid name in the envelope");
    }
    let is_object = |data: &Payload| {
        data.as_str().starts_with('{') && data.decode::<serde::de::IgnoredAny>().is_ok()
    };
    if event.data.as_ref().is_none_or(is_object) { Ok(()) } else { Err("its data is not JSON") }
}
