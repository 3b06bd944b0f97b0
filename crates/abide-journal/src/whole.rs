//! Rebuilds an event as it was recorded: its line with the named objects put back in.

use abide_model::{Event, EventLimits, ObjectHash, Payload, PayloadLeaf, ReadFinding, SessionId};

use crate::journal_line::{JournalLine, LinePayload};

/// Reads an object, or says why it cannot.
pub type ObjectLookup<'a> = dyn Fn(ObjectHash) -> Result<Option<Vec<u8>>, String> + 'a;

impl JournalLine<'_> {
    /// The event of a line with its objects put back in, and a note if something is wrong with it.
    pub fn whole_event(
        &self,
        session: SessionId,
        read: &ObjectLookup<'_>,
    ) -> (Option<Event>, Option<ReadFinding>) {
        let note = |reason: String| {
            Some(ReadFinding::Damage {
                place: format!("event {} of session {session}", self.seq),
                reason,
                lost: None,
            })
        };
        let Some(mut event) = self.event() else {
            return (None, note("valid sum, but not an event".to_owned()));
        };
        if matches!(
            self.body(),
            LinePayload::Present { objects: b"", .. } | LinePayload::Erased { .. }
        ) {
            return (Some(event), None);
        }
        let mut strings = Vec::new();
        let mut size = 0_u64;
        for object in self.objects() {
            // No event was larger than this when it was recorded.
            size = size.saturating_add(object.size);
            if size > EventLimits::default().event_bytes as u64 {
                return (
                    Some(event),
                    note("its objects are larger than an event may be".to_owned()),
                );
            }
            let bytes = match read(object.hash) {
                Ok(Some(bytes)) if bytes.len() as u64 == object.size => bytes,
                Ok(Some(_)) => {
                    return (
                        Some(event),
                        note(format!("object {} has the wrong size", object.hash)),
                    );
                }
                Ok(None) => {
                    let reason = format!(
                        "object {} is missing or damaged; its place is left empty",
                        object.hash
                    );
                    return (Some(event), note(reason));
                }
                Err(error) => return (Some(event), note(error)),
            };
            let Some(json) = PayloadLeaf::to_json(object.encoding, &bytes) else {
                return (Some(event), note(format!("object {} is not a string", object.hash)));
            };
            strings.push((object.offset, json));
        }
        let whole = event.data.clone().and_then(|data: Payload| data.put_leaves(&strings));
        match whole {
            Some(data) => {
                event.data = Some(data);
                (Some(event), None)
            }
            None => (Some(event), note("an object points outside the data".to_owned())),
        }
    }
}
