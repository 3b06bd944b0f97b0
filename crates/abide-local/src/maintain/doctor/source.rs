//! Other sources of events that the journal has lost: the transcript and the index.

use std::collections::BTreeMap;

use abide_index::HistoryIndex;
use abide_journal::{Access, LineObjectRef, PackWriter, read_full};
use abide_model::{Event, Kind, Payload, Seq, SessionCreated, SessionId, StoreError};
use abide_transcript::TranscriptChunks;

use super::Doctor;
use super::journal_survey::ReconstructedEvent;
use super::session::MOST_TRANSCRIPT;
use crate::error::{storage_error, store_error};
use crate::store_layout::SessionLayout;

/// Events of a session from a source other than its journal.
#[derive(Debug, Default)]
pub(super) struct SourceEvents {
    /// By seq.
    pub(super) events: BTreeMap<Seq, Event>,
    /// The source: `transcript` or `index`.
    pub(super) name: &'static str,
    /// The last event that the session is known to have had.
    pub(super) last: Seq,
    /// The session, according to the source.
    pub(super) session: Option<SessionId>,
}

impl SourceEvents {
    /// The events that lie in these ranges.
    pub(super) fn within(&self, lost: &[(Seq, Seq)]) -> BTreeMap<Seq, Event> {
        let ranges = lost.iter().flat_map(|(first, last)| self.events.range(*first..=*last));
        ranges.map(|(seq, event)| (*seq, event.clone())).collect()
    }
}

impl Doctor<'_> {
    /// What the transcript has, and what the index knows.
    pub(super) fn source(&self, layout: &SessionLayout) -> Result<SourceEvents, StoreError> {
        let mut source = self.transcript_source(layout)?;
        if let Some(overview) = self.source_overview(layout) {
            source.last = source.last.max(overview.seq);
            source.session = source.session.or(overview.id);
            if source.events.is_empty()
                && let Some(session) = overview.id
            {
                // Only what the session is can be told.
                let created = SessionCreated { session, fields: overview.fields };
                if let Ok(data) = Payload::of(&created) {
                    // A fork continues from its parent's last event.
                    let fork =
                        created.fields.parent.as_ref().filter(|parent| {
                            created.fields.forked_from(parent.seq.next()).is_some()
                        });
                    let first = fork.map_or(Seq::FIRST, |parent| parent.seq.next());
                    let event = Event {
                        seq: first,
                        at: overview.created,
                        occurred: None,
                        kind: Kind::SESSION_CREATED,
                        turn: None,
                        task: None,
                        lane: None,
                        key: None,
                        data: Some(data),
                    };
                    source.events.insert(first, event);
                    source.name = "index";
                }
            }
        }
        Ok(source)
    }

    /// Every event of the complete chunks of the transcript.
    fn transcript_source(&self, layout: &SessionLayout) -> Result<SourceEvents, StoreError> {
        let mut source = SourceEvents { name: "transcript", ..SourceEvents::default() };
        let path = layout.transcript();
        let file = match self.store.storage().open(&path, Access::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(source),
            file => file.map_err(storage_error("open", &path))?,
        };
        let length = file.len().map_err(storage_error("read", &path))?;
        let mut bytes = vec![0; usize::try_from(length.min(MOST_TRANSCRIPT)).unwrap_or(0)];
        let read = read_full(&*file, &mut bytes, 0).map_err(storage_error("read", &path))?;
        bytes.truncate(read);
        for event in TranscriptChunks::new(&bytes).map_while(Result::ok).flatten() {
            if let Ok(abide_model::Fact::SessionCreated(created)) = event.fact() {
                source.session = Some(created.session);
            }
            source.last = source.last.max(event.seq);
            // An erased event must not come back with an empty payload: its line holds the digest.
            if event.data.is_some() {
                source.events.insert(event.seq, event);
            }
        }
        Ok(source)
    }

    /// What the index has of a session, without updating it.
    fn source_overview(&self, layout: &SessionLayout) -> Option<abide_model::Overview> {
        let index = HistoryIndex::open(&self.store.layout().index()).ok()?;
        index.followed(&layout.name()).ok().flatten().map(|followed| followed.overview)
    }

    /// Stores the large strings of events as objects, durably, so that the events can be written as
    /// lines.
    pub(super) fn prepare_source_events(
        &self,
        events: BTreeMap<Seq, Event>,
    ) -> Result<BTreeMap<Seq, ReconstructedEvent>, StoreError> {
        let object_bytes = self.store.config().journal.object_bytes;
        let mut writer: Option<PackWriter> = None;
        let mut prepared = BTreeMap::new();
        for (seq, mut event) in events {
            let mut objects = Vec::new();
            if let Some(data) = event.data.take() {
                let (data, leaves) = data.take_leaves(object_bytes);
                for leaf in &leaves {
                    if writer.is_none() {
                        let opened = PackWriter::open(self.store.packs().clone());
                        writer = Some(opened.map_err(store_error)?);
                    }
                    if let Some(writer) = &writer {
                        writer.put(&leaf.bytes).map_err(store_error)?;
                    }
                    objects.push(LineObjectRef::to(leaf));
                }
                event.data = Some(data);
            }
            prepared.insert(seq, (event, objects));
        }
        if let Some(writer) = &writer {
            writer.sync().map_err(store_error)?;
        }
        Ok(prepared)
    }

    /// The same for a preview: stores nothing.
    pub(super) fn preview_source_events(
        events: BTreeMap<Seq, Event>,
    ) -> BTreeMap<Seq, ReconstructedEvent> {
        events.into_iter().map(|(seq, event)| (seq, (event, Vec::new()))).collect()
    }
}
