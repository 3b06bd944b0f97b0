//! Seals what sessions at rest have left plain: the full segments, and the last one of a session
//! that was not written for a day. Removes nothing that was recorded.

use std::path::Path;
use std::time::{Duration, SystemTime};

use abide_journal::{Access, Journal, JournalIdentity, SegmentForm, SegmentName, filling_start};
use abide_maintain::{SealOutcome, UnsealedSegments};
use abide_model::{SessionId, StoreError};

use crate::error::{storage_error, store_error};
use crate::maintain::cleanup::Cleaner;
use crate::sessions::sealer::{SMALL, SealScope};
use crate::store_layout::SessionLayout;

/// A session that was not written for this long is sealed whole.
const AT_REST: Duration = Duration::from_secs(86_400);

/// What of one session can be sealed.
struct UnsealedJournal {
    scope: SealScope,
    segments: u64,
    bytes: u64,
}

impl Cleaner<'_> {
    /// What there is to seal. Read-only; a session that cannot be read has nothing.
    pub(crate) fn unsealed(&self) -> Result<UnsealedSegments, StoreError> {
        let mut all = UnsealedSegments::default();
        for name in self.store.names()? {
            let layout = self.store.layout().session(&name);
            if let Ok(Some(found)) = self.unsealed_of(&layout)
                && self.store.at_rest(&layout).unwrap_or(false)
            {
                all.sessions += 1;
                all.segments += found.segments;
                all.bytes += found.bytes;
            }
        }
        Ok(all)
    }

    /// Seals it, as long as fewer than `most` plain bytes are sealed. Sessions that somebody
    /// writes, and `but`, are left to their writers; what cannot be sealed is noted.
    pub(crate) fn seal_unsealed(
        &self,
        most: u64,
        but: Option<SessionId>,
        notes: &mut Vec<String>,
    ) -> Result<SealOutcome, StoreError> {
        let mut done = SealOutcome::default();
        for name in self.store.names()? {
            if done.plain_bytes >= most {
                done.stopped = true;
                break;
            }
            let layout = self.store.layout().session(&name);
            // What cannot be read is for the doctor.
            let Ok(Some(found)) = self.unsealed_of(&layout) else { continue };
            let Ok(JournalIdentity::Known(id)) = self.store.identify(&layout) else { continue };
            if but == Some(id) {
                continue;
            }
            let left = most - done.plain_bytes;
            let sealed = match found.scope {
                SealScope::Full => self.store.seal_full(id, Duration::ZERO, left),
                SealScope::Whole => self.store.seal_all(id, Duration::ZERO, left),
            };
            match sealed {
                Ok(sealed) => done.add(sealed),
                Err(StoreError::Held { .. }) => {}
                Err(error) => notes.push(format!("session {id} stays uncompressed: {error}")),
            }
        }
        Ok(done)
    }

    fn unsealed_of(&self, layout: &SessionLayout) -> Result<Option<UnsealedJournal>, StoreError> {
        if !self.store.config().journal.seal {
            return Ok(None);
        }
        let (storage, dir) = (self.store.storage(), layout.journal());
        let mut segments =
            Journal::new(storage.clone(), dir.clone()).segments().map_err(store_error)?;
        let scope = match segments.last() {
            Some(last) if self.is_worth_sealing(&dir, *last)? => SealScope::Whole,
            _ => {
                segments.pop();
                SealScope::Full
            }
        };
        let (mut count, mut bytes) = (0, 0);
        for name in segments.into_iter().filter(|name| name.form == SegmentForm::Plain) {
            count += 1;
            bytes += self.unsealed_length(&dir, name)?;
        }
        Ok((count > 0).then_some(UnsealedJournal { scope, segments: count, bytes }))
    }

    /// Whether the last segment is worth sealing, and nobody has written to it for long.
    fn is_worth_sealing(&self, dir: &Path, last: SegmentName) -> Result<bool, StoreError> {
        if last.form == SegmentForm::Sealed || self.unsealed_length(dir, last)? <= SMALL {
            return Ok(false);
        }
        let path = dir.join(last.file_name());
        let written =
            self.store.storage().modified(&path).map_err(storage_error("examine", &path))?;
        let now: SystemTime = self.store.system_time();
        Ok(now.duration_since(written).is_ok_and(|since| since >= AT_REST))
    }

    fn unsealed_length(&self, dir: &Path, name: SegmentName) -> Result<u64, StoreError> {
        let path = dir.join(name.file_name());
        let file = self.store.storage().open(&path, Access::Read);
        file.and_then(|file| filling_start(&*file)).map_err(storage_error("read", &path))
    }
}
