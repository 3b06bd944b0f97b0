//! Exports a session as a bundle: its lines byte for byte, and every object they name. Read-only.
//!
//! The journal is read twice: once to check that it is complete and to count, since a bundle's
//! first line has the counts, and once to write it.

use std::collections::HashMap;
use std::io::Write;
use std::ops::ControlFlow;

use abide_journal::{
    BundleError, BundleHeader, BundleParent, BundleWriter, ExportError, JournalError, JournalItem,
    JournalLine, JournalWalkStart, Sum,
};
use abide_model::{Fact, Kind, ObjectHash, Seq, SessionId, StoreError};

use crate::error::store_error;
use crate::sessions::local_reader::LocalReader;
use crate::sessions::local_store::LocalStore;
use crate::store_layout::layout_path_text;

/// What the first pass over the journal found.
struct ExportSurvey {
    title: Option<String>,
    last: (Seq, Sum),
    bytes: u64,
    objects: HashMap<ObjectHash, u64>,
}

/// Exports sessions of a store as bundles.
#[derive(Debug)]
pub struct Exporter<'a> {
    pub(crate) store: &'a LocalStore,
}

impl Exporter<'_> {
    /// Writes a bundle of a session: everything that can be read, including what an open writer has
    /// not acknowledged. A session that has lost an event or an object is refused. The output is a
    /// valid bundle only if this returns `Ok`.
    pub fn export<W: Write>(
        &self,
        session: SessionId,
        out: W,
    ) -> Result<BundleHeader, ExportError> {
        let reader = self.store.reader(session)?;
        let parent = exported_parent(&reader)?;
        let before = parent
            .map_or_else(|| (Seq::ZERO, Sum::genesis(session)), |parent| (parent.seq, parent.sum));
        let survey = survey_export(session, &reader, before)?;
        let header = BundleHeader {
            session,
            created: session.created(),
            title: survey.title,
            events: survey.last.0.0 - before.0.0,
            objects: survey.objects.len() as u64,
            bytes: survey.bytes + survey.objects.values().sum::<u64>(),
            parent,
        };
        let bad = |source| match source {
            BundleError::Fault { fault, .. } => {
                ExportError::Damaged { session, reason: fault.to_string() }
            }
            source => ExportError::Bundle { session, source },
        };
        let mut writer = BundleWriter::begin(out, header.clone()).map_err(bad)?;
        let mut write = |line: &JournalLine<'_>| -> Result<(), ExportError> {
            for named in line.objects() {
                if !writer.has(named.hash) {
                    let bytes = self.store.packs().read(named.hash).map_err(store_error)?;
                    let bytes = bytes.ok_or_else(|| ExportError::Damaged {
                        session,
                        reason: format!(
                            "object {} of event {} is missing or damaged",
                            named.hash, line.seq
                        ),
                    })?;
                    writer.object(named.hash, &bytes).map_err(bad)?;
                }
            }
            writer.line(line.bytes()).map_err(bad).map(|_| ())
        };
        let mut written = Ok(());
        let mut end = before;
        each_exported_line(&reader, &mut |found| {
            let JournalItem::Event { line, .. } = found else { return ControlFlow::Continue(()) };
            if line.seq > survey.last.0 {
                return ControlFlow::Break(());
            }
            end = (line.seq, line.sum);
            written = write(&line);
            if written.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        written?;
        if end != survey.last {
            return Err(ExportError::Changed { session });
        }
        writer.finish().map_err(bad)?.flush().map_err(|error| bad(BundleError::Write(error)))?;
        Ok(header)
    }
}

/// The event that a fork continues from.
fn exported_parent(reader: &LocalReader) -> Result<Option<BundleParent>, ExportError> {
    let past = reader.past().map_err(store_error)?;
    if !past.is_fork() {
        return Ok(None);
    }
    let parent = past.link();
    let sum = past.sum().map_err(store_error)?;
    match (parent, sum) {
        (Some(parent), Some(sum)) => {
            Ok(Some(BundleParent { session: parent.session, seq: parent.seq, sum }))
        }
        _ => Err(ExportError::Damaged {
            session: reader.session(),
            reason: "its parent cannot be read".to_owned(),
        }),
    }
}

fn each_exported_line(
    reader: &LocalReader,
    visit: &mut dyn FnMut(JournalItem<'_>) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut walk = || -> Result<(), JournalError> {
        reader.journal().walk(JournalWalkStart::beginning(), reader.mark()?, visit)
    };
    walk().map_err(store_error)
}

fn survey_export(
    session: SessionId,
    reader: &LocalReader,
    before: (Seq, Sum),
) -> Result<ExportSurvey, ExportError> {
    let mut survey = ExportSurvey { title: None, last: before, bytes: 0, objects: HashMap::new() };
    let mut lost = None;
    each_exported_line(reader, &mut |found| {
        match found {
            JournalItem::Event { line, .. } => {
                let follows = line.seq == survey.last.0.next() && line.prev == survey.last.1.link();
                if !follows {
                    lost = Some(format!("event {} does not follow from those before", line.seq));
                    return ControlFlow::Break(());
                }
                survey.take(&line);
            }
            // Damage that costs no event, as of a header, does not affect the bundle.
            JournalItem::Damage(damage) => {
                if damage.lost.is_some() {
                    let place =
                        format!("{} at byte {}", layout_path_text(&damage.path), damage.offset);
                    lost = Some(format!("{place}: {}", damage.reason));
                    return ControlFlow::Break(());
                }
            }
            JournalItem::Splice { splice, .. } => {
                lost = Some(match splice.lost() {
                    Some((first, last)) => format!("events {first} to {last} are lost"),
                    None => format!("event {} was reconstructed", splice.after),
                });
                return ControlFlow::Break(());
            }
            JournalItem::Torn { .. } => {}
        }
        ControlFlow::Continue(())
    })?;
    match lost {
        Some(reason) => Err(ExportError::Damaged { session, reason }),
        None => Ok(survey),
    }
}

impl ExportSurvey {
    fn take(&mut self, line: &JournalLine<'_>) {
        self.last = (line.seq, line.sum);
        self.bytes += line.bytes().len() as u64;
        self.objects.extend(line.objects().into_iter().map(|named| (named.hash, named.size)));
        let kind = line.head().map(|head| head.kind);
        if kind.is_some_and(|kind| [Kind::SESSION_CREATED, Kind::SESSION_UPDATED].contains(&kind)) {
            let title = match line.event().map(|event| event.fact()) {
                Some(Ok(Fact::SessionCreated(created))) => created.fields.title,
                Some(Ok(Fact::SessionUpdated(fields))) => fields.title,
                _ => None,
            };
            self.title = title.or_else(|| self.title.take());
        }
    }
}
