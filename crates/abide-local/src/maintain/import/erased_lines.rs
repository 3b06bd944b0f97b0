//! The lines of a bundle whose data was erased here.

use abide_journal::{BundleReader, ImportedBundle, JournalLine, LinePayload, Sum};
use abide_model::{Seq, SessionId, StoreError};

use crate::maintain::erase::erased_record::ErasedRecord;
use crate::sessions::local_store::LocalStore;

/// Leaves out of a bundle's lines the data that was erased here.
#[derive(Debug)]
pub(crate) struct ErasedLines {
    session: SessionId,
    record: ErasedRecord,
    brings_back: bool,
    kept: Vec<Seq>,
    brought_back: Vec<(Seq, Sum)>,
    /// The last line that was erased.
    bytes: Vec<u8>,
}

impl ErasedLines {
    pub(crate) fn of<R: std::io::Read>(
        store: &LocalStore,
        bundle: &BundleReader<R>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            session: bundle.header().session,
            record: store.eraser().erased_record()?.whole(store.layout())?,
            brings_back: bundle.brings_back_erased(),
            kept: Vec::new(),
            brought_back: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// The line as it is imported: without its data if that was erased here.
    pub(crate) fn leave_out<'a>(
        &'a mut self,
        line: JournalLine<'a>,
    ) -> Result<JournalLine<'a>, StoreError> {
        let is_whole = !matches!(line.body(), LinePayload::Erased { .. });
        // What says how the session is read is never erased.
        let may_be_erased = line.head().is_some_and(|head| !head.kind.is_structural());
        if !is_whole || !may_be_erased || !self.record.has(self.session, line.seq, line.sum) {
            return Ok(line);
        }
        if self.brings_back {
            self.brought_back.push((line.seq, line.sum));
            return Ok(line);
        }
        self.kept.push(line.seq);
        self.bytes = line.erased();
        self.bytes.pop();
        JournalLine::read(&self.bytes).map_err(|error| StoreError::Damaged {
            place: format!("event {}", line.seq),
            reason: error.to_string(),
        })
    }

    /// What an import did, with what was left out and what came back.
    pub(crate) fn told(&self, mut imported: ImportedBundle) -> ImportedBundle {
        imported.kept_erased.extend(&self.kept);
        imported.brought_back = self.brought_back.iter().map(|(seq, _)| *seq).collect();
        imported
    }

    /// Forgets that what came back was erased. Best effort: what is here is not left out of it again.
    pub(crate) fn forget(&self, store: &LocalStore) {
        if !self.brought_back.is_empty() {
            let _ = store.eraser().forget_erased(self.session, &self.brought_back);
        }
    }
}
