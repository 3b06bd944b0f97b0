//! Checking a store: every line, every sum, every object. Reads only.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use abide_journal::{Found, Start};
use abide_model::{Anomaly, Event, Kind, ObjectHash, Seq, SessionId, SessionState, StoreError};

use crate::error::{storage_error, store_error};
use crate::layout::shown;
use crate::past::Gone;
use crate::reader::note_of;
use crate::store::LocalStore;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is lost; worth knowing.
    Warning,
    /// Something recorded cannot be read.
    Error,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The name of the rule, stable for programs.
    pub rule: &'static str,
    /// Where.
    pub place: String,
    /// What.
    pub message: String,
}

/// What a check of a session found.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// Events read.
    pub events: u64,
    /// Bytes of journal read.
    pub bytes: u64,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
}

impl LocalStore {
    /// Reads the whole journal of a session, checking every sum, every link of the chain, the form
    /// of every fact and every object it names. The text of a message is covered by its sum, and
    /// not read again as JSON.
    pub fn check_session(&self, session: SessionId) -> Result<Checked, StoreError> {
        let reader = self.reader(session)?;
        let mark = reader.mark().map_err(store_error)?;
        let mut checked = Checked::default();
        let mut objects: BTreeSet<ObjectHash> = BTreeSet::new();
        let mut state = self.check_past(&reader, &mut checked)?;
        let mut rewinds = false;
        reader
            .journal()
            .walk(Start::beginning(), mark, &mut |found| {
                match &found {
                    Found::Event { line, offset, end, segment, .. } => {
                        checked.events += 1;
                        checked.bytes += end - offset;
                        objects.extend(line.objects().into_iter().map(|object| object.hash));
                        let mut sound = false;
                        if let Some(event) = line.event() {
                            rewinds |= crate::recovery::rewind_target(&event).is_some();
                            sound = is_json(&event, state.apply(&event));
                        }
                        if !sound {
                            checked.findings.push(Finding {
                                severity: Severity::Error,
                                rule: "event-form",
                                place: format!(
                                    "event {} in segment {segment} at byte {offset}",
                                    line.seq
                                ),
                                message: "its sum is good, but it is not an event".to_owned(),
                            });
                        }
                    }
                    Found::Damage(damage) => checked.findings.push(Finding {
                        severity: Severity::Error,
                        rule: "journal-damage",
                        place: format!("{} at byte {}", shown(&damage.path), damage.offset),
                        message: match damage.lost {
                            None => damage.reason.to_string(),
                            Some((first, last)) if first == last => {
                                format!("{}; event {first} is lost", damage.reason)
                            }
                            Some((first, last)) => {
                                format!("{}; events {first} to {last} are lost", damage.reason)
                            }
                        },
                    }),
                    Found::Torn { path, offset, .. } => checked.findings.push(Finding {
                        severity: Severity::Warning,
                        rule: "torn-tail",
                        place: format!("{} at byte {offset}", shown(path)),
                        message: note_of(&found).map(|note| note.to_string()).unwrap_or_default(),
                    }),
                }
                ControlFlow::Continue(())
            })
            .map_err(store_error)?;
        self.check_segments(&reader, &mut checked)?;
        for hash in objects {
            if self.packs().read(hash).map_err(store_error)?.is_none() {
                checked.findings.push(Finding {
                    severity: Severity::Error,
                    rule: "missing-object",
                    place: format!("object {hash}"),
                    message: "an event names it, and it is missing or damaged".to_owned(),
                });
            }
        }
        // The snapshot and the tail must give what the whole journal gives.
        if !rewinds && checked.findings.is_empty() {
            let mut look = reader.look(Gone::PassOver).map_err(store_error)?;
            if !look.pages.bring_all(&mut look.state)
                || !look.state.is_sound()
                || look.state.digest() != state.digest()
            {
                checked.findings.push(Finding {
                    severity: Severity::Warning,
                    rule: "state-snapshot",
                    place: format!("the state of session {session}"),
                    message: "the snapshot does not give what the journal gives; it is rebuilt when it is removed".to_owned(),
                });
            }
        }
        Ok(checked)
    }

    /// Checks that the past of a fork is there and that the chain goes through; gives the state
    /// that the session begins with.
    fn check_past(
        &self,
        reader: &crate::LocalReader,
        checked: &mut Checked,
    ) -> Result<SessionState, StoreError> {
        let past = reader.past().map_err(store_error)?;
        if !past.is_fork() {
            return Ok(SessionState::default());
        }
        let place = format!("the past of session {}", reader.session());
        if let Some(note) = past.note(Seq::FIRST) {
            checked.findings.push(Finding {
                severity: Severity::Error,
                rule: "missing-parent",
                place,
                message: note.to_string(),
            });
            return Ok(SessionState::default());
        }
        let shared = past.sum_of(past.last()).map_err(store_error)?;
        let mut chained = false;
        let walked = reader.journal().walk(Start::beginning(), None, &mut |found| {
            if let Found::Event { line, .. } = found {
                chained = shared.is_some_and(|sum| sum.link() == line.prev)
                    || line.seq > past.own_first();
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_error)?;
        if !chained {
            checked.findings.push(Finding {
                severity: Severity::Error,
                rule: "fork-chain",
                place,
                message: format!(
                    "its first event does not follow from event @{} of the session it was forked from",
                    past.last()
                ),
            });
        }
        past.state_at(past.last(), Gone::PassOver).map_err(store_error)
    }

    fn check_segments(
        &self,
        reader: &crate::LocalReader,
        checked: &mut Checked,
    ) -> Result<(), StoreError> {
        let journal = reader.journal();
        for name in journal.segments().map_err(store_error)? {
            let segment = journal.open_segment(name).map_err(store_error)?;
            // A damaged frame shows in the walk; the table of frames only here.
            if let Some(message) = segment.seal_damage() {
                checked.findings.push(Finding {
                    severity: Severity::Error,
                    rule: "sealed-segment",
                    place: shown(segment.path()),
                    message,
                });
            }
        }
        for path in journal.foreign_files().map_err(store_error)? {
            checked.findings.push(Finding {
                severity: Severity::Warning,
                rule: "foreign-file",
                place: shown(&path),
                message: "not a file of this journal; it is left alone".to_owned(),
            });
        }
        Ok(())
    }

    /// Checks the objects, and what else there is beside the sessions.
    pub fn check_objects(&self) -> Result<Vec<Finding>, StoreError> {
        let damaged = self.packs().verify().map_err(store_error)?;
        let damaged = damaged.into_iter().map(|(path, offset, message)| Finding {
            severity: Severity::Warning,
            rule: "pack-damage",
            place: format!("{} at byte {offset}", shown(&path)),
            message,
        });
        let unfinished = self.unfinished_imports()?.into_iter().map(|path| Finding {
            severity: Severity::Warning,
            rule: "unfinished-import",
            place: shown(&path),
            message: "an import that runs, or was cut short; the same import again takes it away"
                .to_owned(),
        });
        let unmade = self.unmade_sessions()?.into_iter().map(|path| Finding {
            severity: Severity::Warning,
            rule: "unfinished-session",
            place: shown(&path),
            message: "a session that was begun and never made; nothing was recorded in it"
                .to_owned(),
        });
        let removed = self.leftovers()?.into_iter().map(|name| Finding {
            severity: Severity::Warning,
            rule: "unfinished-removal",
            place: shown(&self.layout().removed().join(name)),
            message: "a session that was removed and not deleted yet; `abide cleanup` does it"
                .to_owned(),
        });
        let erasing = self.is_erasing().then(|| Finding {
            severity: Severity::Warning,
            rule: "unfinished-erasure",
            place: shown(&self.layout().erasing()),
            message: "an erasure that runs, or was cut short; the next `abide erase` finishes it"
                .to_owned(),
        });
        Ok(damaged.chain(unfinished).chain(unmade).chain(removed).chain(erasing).collect())
    }

    fn unfinished_imports(&self) -> Result<Vec<PathBuf>, StoreError> {
        let dir = self.imports_dir();
        let names = match self.storage().list(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(storage_error("list", &dir))?,
        };
        let staged = names.iter().filter(|name| !name.ends_with(".lock"));
        Ok(staged.map(|name| dir.join(name)).collect())
    }
}

/// Is the payload JSON? A fact that folds without complaint was read whole; others are looked at.
fn is_json(event: &Event, anomaly: Option<Anomaly>) -> bool {
    let read = Kind::VOCABULARY.contains(&event.kind.as_str())
        && event.kind != Kind::WRITER_CLOSED
        && anomaly != Some(Anomaly::Malformed);
    read || event.data.as_ref().is_none_or(|data| data.decode::<serde::de::IgnoredAny>().is_ok())
}
