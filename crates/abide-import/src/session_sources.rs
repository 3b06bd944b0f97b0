//! What a session holds of an agent's files already: how far each was read, and what was recorded
//! since without a note of it.

use std::collections::{BTreeMap, HashMap};

use abide::{EventRange, Kind, LaneId, Seq, SessionView};
use abide_model::{Event, RecordedMessage, SourceProgress};

use crate::import_ledger::ImportedSession;
use crate::provisional_message::ProvisionalMessage;
use crate::source_event::{place_of_event, record_id_of_event};

/// How many events are read at once when notes are looked for from the end.
const NOTES: usize = 64;

/// The events of a record that an import left which did not end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RecordEvents {
    pub(crate) count: usize,
    /// One of them went back in the conversation.
    pub(crate) rewound: bool,
}

/// The files of a session, as far as they are in its journal.
#[derive(Debug, Default)]
pub(crate) struct SessionSources {
    /// How far each file was read, by its name within the session.
    pub(crate) progress: BTreeMap<String, SourceProgress>,
    /// After that, how many events each record has, by file and place. An import that was killed
    /// leaves some.
    pub(crate) recorded: HashMap<(String, u64), RecordEvents>,
    /// After that, an event was erased: nobody knows of which record it was.
    pub(crate) has_erased: bool,
    /// The last event that was looked at.
    pub(crate) through: Seq,
    /// The ledger knows no more than the session has.
    pub(crate) fits_ledger: bool,
    /// Messages that hooks told and that no record of a file has replaced yet.
    pub(crate) provisional: Vec<ProvisionalMessage>,
}

impl SessionSources {
    /// Reads the events that the ledger does not know.
    pub(crate) fn read(
        view: &SessionView,
        known: Option<&ImportedSession>,
    ) -> Result<Self, abide::Error> {
        let mut sources = Self::default();
        let last = view.acknowledged()?;
        // A session that was put back from a copy may be shorter.
        if let Some(known) = known.filter(|known| known.through <= last) {
            sources.through = known.through;
            sources.fits_ledger = true;
            sources.provisional.clone_from(&known.provisional);
            for file in known.files.values() {
                // Under the name by which it was recorded last.
                let progress = file.progress.clone();
                sources.progress.insert(progress.file.clone(), progress);
            }
            let brief: Vec<&str> = known
                .files
                .values()
                .filter(|file| file.is_brief)
                .map(|file| file.progress.file.as_str())
                .collect();
            if !sources.remember(view, brief)? {
                // A note of them was erased: the session tells the rest.
                return Self::read(view, None);
            }
        }
        for event in view.events(EventRange::from(sources.through.next())) {
            sources.add(&event?);
        }
        Ok(sources)
    }

    /// Takes what the readers of these files remembered from the session's last notes of them. Returns false
    /// if one is not there.
    fn remember(&mut self, view: &SessionView, mut files: Vec<&str>) -> Result<bool, abide::Error> {
        let range = EventRange { last: self.through, ..EventRange::ALL };
        for event in view.events(range.backward().limit(NOTES)) {
            if files.is_empty() {
                break;
            }
            let event = event?;
            if event.kind != Kind::SOURCE_READ {
                continue;
            }
            let read = event.data.as_ref().and_then(|data| data.decode::<SourceProgress>().ok());
            let Some(read) = read else { continue };
            if let Some(place) = files.iter().position(|file| *file == read.file) {
                files.swap_remove(place);
                let known = self.progress.insert(read.file.clone(), read.clone());
                // An older note does not tell what the last one did.
                if known.is_none_or(|known| known.end != read.end) {
                    return Ok(false);
                }
            }
        }
        Ok(files.is_empty())
    }

    fn add(&mut self, event: &Event) {
        self.through = event.seq;
        if let Some(told) = event.replaces() {
            self.provisional.retain(|known| known.seq != told);
        }
        self.provisional.extend(ProvisionalMessage::of(event));
        if event.kind == Kind::SOURCE_READ {
            let read = event.data.as_ref().and_then(|data| data.decode::<SourceProgress>().ok());
            if let Some(progress) = read {
                self.recorded.retain(|(file, _), _| *file != progress.file);
                self.has_erased = false;
                self.progress.insert(progress.file.clone(), progress);
            }
        } else if let Some(place) = place_of_event(event) {
            let recorded = self.recorded.entry(place).or_default();
            recorded.count += 1;
            recorded.rewound |= event.kind == Kind::SESSION_REWOUND;
        } else if event.data.is_none() {
            self.has_erased = true;
        }
    }

    /// The newest message of its lane that this one takes the place of. It is claimed once; older ones of the
    /// speaker are not waited for any more: the agent never wrote them.
    pub(crate) fn claim_provisional(
        &mut self,
        message: &RecordedMessage,
        lane: Option<&LaneId>,
    ) -> Option<Seq> {
        let place = self.provisional.iter().rposition(|told| told.is_told_by(message, lane))?;
        let claimed = self.provisional.remove(place);
        self.provisional.retain(|told| told.seq > claimed.seq || !told.is_beside(message, lane));
        Some(claimed.seq)
    }

    /// The newest name of a file and how far it was read. A file that was rewritten is recorded once
    /// more, as `name~2`, `name~3`.
    pub(crate) fn newest(&self, name: &str) -> (String, Option<&SourceProgress>) {
        let number = |file: &str| file.strip_prefix(name)?.strip_prefix('~')?.parse::<u64>().ok();
        let files = self.progress.keys().chain(self.recorded.keys().map(|(file, _)| file));
        let newest = match files.filter_map(|file| number(file)).max() {
            Some(number) => format!("{name}~{number}"),
            None => name.to_owned(),
        };
        let progress = self.progress.get(&newest);
        (newest, progress)
    }

    /// The name under which a file is recorded that is not what it was.
    pub(crate) fn renewed(&self, name: &str) -> String {
        let (newest, _) = self.newest(name);
        let number = newest.strip_prefix(name).and_then(|rest| rest.strip_prefix('~'));
        let number = number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(1);
        format!("{name}~{}", number + 1)
    }
}

/// The events of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordSeqs {
    pub(crate) first: Seq,
    pub(crate) last: Seq,
    /// The message among them.
    pub(crate) message: Option<Seq>,
}

/// Where the records of a session are in its journal, by their ids. The newest counts.
#[derive(Debug, Default)]
pub(crate) struct RecordIndex {
    ids: HashMap<String, RecordSeqs>,
    /// All earlier events were looked at.
    complete: bool,
}

impl RecordIndex {
    /// For a session in which nothing was recorded before.
    pub(crate) fn of_new() -> Self {
        Self { ids: HashMap::new(), complete: true }
    }

    /// A record without a message does not take the place of the message of an earlier one.
    pub(crate) fn put(&mut self, id: String, seqs: RecordSeqs) {
        let message = seqs.message.or_else(|| self.ids.get(&id).and_then(|seqs| seqs.message));
        self.ids.insert(id, RecordSeqs { message, ..seqs });
    }

    /// The events of a record. Looks through the session if this run has not recorded it.
    pub(crate) fn get(
        &mut self,
        id: &str,
        view: &SessionView,
    ) -> Result<Option<RecordSeqs>, abide::Error> {
        if !self.ids.contains_key(id) && !self.complete {
            self.complete = true;
            let mut current: Option<(String, (String, u64))> = None;
            let mut found: HashMap<String, RecordSeqs> = HashMap::new();
            for event in view.events(EventRange::ALL) {
                let event = event?;
                let Some(place) = place_of_event(&event) else { continue };
                if let Some(id) = record_id_of_event(&event) {
                    let message = (event.kind == Kind::MESSAGE_ADDED).then_some(event.seq);
                    let seqs = RecordSeqs { first: event.seq, last: event.seq, message };
                    found.insert(id.clone(), seqs);
                    current = Some((id, place));
                } else if let Some((id, at)) = &current
                    && *at == place
                    && let Some(seqs) = found.get_mut(id)
                {
                    seqs.last = event.seq;
                }
            }
            for (id, seqs) in found {
                self.ids.entry(id).or_insert(seqs);
            }
        }
        Ok(self.ids.get(id).copied())
    }
}
