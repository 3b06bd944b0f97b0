//! Examines what a store has beside its sessions: settings, packs, index, permissions, unfinished
//! operations.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_journal::{JournalIdentity, SegmentName};
use abide_maintain::{RepairAction, RepairPlan, doctor_warning};
use abide_model::{Finding, FindingPlace, FindingType, Repair, Severity, StoreError};

use super::Doctor;
use super::quarantine::Quarantine;
use super::source::SourceEvents;
use crate::error::{storage_error, store_error};
use crate::shield;
use crate::store_layout::{SessionLayout, layout_path_text};

/// The modes of a store's directories and files.
const MODES: (u32, u32) = (0o700, 0o600);
/// A file that was not written to for this long is not in use.
const LEFT: Duration = Duration::from_secs(3600);
/// Unreferenced objects are reported in packs that were not written to for this long.
const GRACE: Duration = Duration::from_secs(7 * 24 * 3600);

impl Doctor<'_> {
    /// Examines what the store has beside its sessions.
    pub fn examine_store(&self) -> Result<Vec<Finding>, StoreError> {
        let mut findings = Vec::new();
        findings
            .extend(self.store.settings_trouble().map(|error| self.store_settings_finding(error)));
        self.check_store_sessions(&mut findings)?;
        self.check_store_packs(&mut findings)?;
        self.check_store_index(&mut findings);
        self.check_store_leftovers(&mut findings)?;
        self.check_store_temporaries(&mut findings);
        self.check_store_permissions(&mut findings);
        Ok(findings)
    }

    fn store_settings_finding(&self, error: &StoreError) -> Finding {
        let place = FindingPlace::path(self.store.layout().config());
        match error {
            StoreError::NewerVersion { found, known, .. } => Finding::new(
                "store-version",
                FindingType::Structural,
                Severity::Critical,
                place,
                format!("the store is of version {found}; this program knows {known}"),
                Repair::by_hand("use the version of abide that made it, or a newer one"),
            ),
            error => Finding::new(
                "settings",
                FindingType::Structural,
                Severity::Critical,
                place,
                match error {
                    StoreError::Damaged { reason, .. } => reason.clone(),
                    error => error.to_string(),
                },
                Repair::automatic("they are restored from their copy, else reset to the defaults"),
            ),
        }
    }

    /// Checks for session directories without a readable id, sessions that were never created, and
    /// foreign files.
    fn check_store_sessions(&self, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
        for path in self.store.foreign_files()? {
            findings.push(doctor_warning(
                "foreign-file",
                FindingType::Structural,
                FindingPlace::path(path),
                "not a session; left alone",
                Repair::by_hand("move it elsewhere"),
            ));
        }
        for name in self.store.names()? {
            let layout = self.store.layout().session(&name);
            let place = FindingPlace::path(&layout.dir);
            match self.store.identify(&layout) {
                Ok(JournalIdentity::Known(_)) => {}
                Ok(JournalIdentity::Empty) if self.source(&layout)?.session.is_none() => {
                    findings.push(doctor_warning(
                        "unfinished-session",
                        FindingType::Structural,
                        place,
                        "a session that was never fully created; nothing was recorded in it",
                        Repair::by_hand("nothing to do: the next session with its key replaces it"),
                    ));
                }
                Ok(JournalIdentity::Empty | JournalIdentity::Unknown) => {
                    let source = self.source(&layout)?;
                    let repair = match source.session {
                        Some(_) => Repair::automatic(format!(
                            "{} of its events are reconstructed from the {}",
                            source.events.len(),
                            source.name
                        )),
                        None => Repair::by_hand("restore its journal from a backup or a bundle"),
                    };
                    findings.push(Finding {
                        session: source.session,
                        ..Finding::new(
                            "session-unreadable",
                            FindingType::Structural,
                            Severity::Critical,
                            place,
                            "its journal is missing, or no segment names the session",
                            repair,
                        )
                    });
                }
                Err(error) => findings.push(unreadable_in_store(place, &error)),
            }
        }
        Ok(())
    }

    fn check_store_packs(&self, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
        for (path, offset, message) in self.store.packs().verify().map_err(store_error)? {
            findings.push(doctor_warning(
                "pack-damage",
                FindingType::Checksum,
                FindingPlace::path(path).at(offset),
                message,
                Repair::automatic("the readable objects are moved to a new pack"),
            ));
        }
        // Skipped if it is unknown what is named.
        if let Ok(unnamed) = self.store.collector().unnamed_objects(GRACE)
            && unnamed.objects_removed > 0
        {
            findings.push(doctor_warning(
                "unreferenced-objects",
                FindingType::Referential,
                FindingPlace::path(self.store.layout().objects()),
                format!("{} objects that nothing refers to", unnamed.objects_removed),
                Repair::by_hand("`abide cleanup` removes them"),
            ));
        }
        Ok(())
    }

    fn check_store_index(&self, findings: &mut Vec<Finding>) {
        if let Some(reason) = self.store.index().trouble() {
            findings.push(doctor_warning(
                "index",
                FindingType::Checksum,
                FindingPlace::path(self.store.layout().index()),
                reason,
                Repair::automatic("it is rebuilt from the journals"),
            ));
        }
    }

    fn check_store_leftovers(&self, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
        for path in self.unfinished_imports()? {
            findings.push(doctor_warning(
                "unfinished-import",
                FindingType::Structural,
                FindingPlace::path(path),
                "an import that is running or was interrupted",
                Repair::by_hand("run the same import again"),
            ));
        }
        for name in self.store.remover().leftovers()? {
            findings.push(doctor_warning(
                "unfinished-removal",
                FindingType::Structural,
                FindingPlace::path(self.store.layout().removed().join(name)),
                "a removed session that is not deleted yet",
                Repair::automatic("it is deleted"),
            ));
        }
        if self.store.eraser().is_erasing() {
            findings.push(doctor_warning(
                "unfinished-erasure",
                FindingType::Structural,
                FindingPlace::path(self.store.layout().erasing()),
                "an erasure that is running or was interrupted",
                Repair::automatic("it is finished"),
            ));
        }
        if let Some(number) = self.store.eraser().erased_record()?.unread_lines().next() {
            findings.push(doctor_warning(
                "unreadable-erasure",
                FindingType::Structural,
                FindingPlace::path(self.store.layout().erased()),
                format!("line {number} names no erased event; nothing is imported while it is there"),
                Repair::by_hand(
                    "put the file back from a backup; or take the line out, and an older bundle may \
                     bring back what it named",
                ),
            ));
        }
        let quarantine = Quarantine::new(self.store);
        for record in quarantine.records()? {
            if !quarantine.is_done(&record.id) && !quarantine.is_undone(&record.id) {
                findings.push(Finding {
                    session: record.session,
                    ..doctor_warning(
                        "unfinished-repair",
                        FindingType::Structural,
                        FindingPlace::path(quarantine.dir(&record.id)),
                        "an interrupted repair; the files it replaced are in the quarantine",
                        Repair::automatic("the repair is done again"),
                    )
                });
            }
        }
        Ok(())
    }

    fn unfinished_imports(&self) -> Result<Vec<PathBuf>, StoreError> {
        let dir = self.store.imports_dir();
        let names = match self.store.storage().list(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(storage_error("list", &dir))?,
        };
        let staged = names.iter().filter(|name| !name.ends_with(".lock"));
        Ok(staged.map(|name| dir.join(name)).collect())
    }

    /// Checks for temporary files that were to replace others.
    fn check_store_temporaries(&self, findings: &mut Vec<Finding>) {
        let layout = self.store.layout();
        for dir in [self.store.root().to_owned(), layout.objects(), layout.keys()] {
            for name in self.store.storage().list(&dir).unwrap_or_default() {
                let path = dir.join(&name);
                if (name.ends_with(".tmp") || name.contains(".db.new")) && self.is_left(&path) {
                    findings.push(doctor_warning(
                        "temporary-file",
                        FindingType::Structural,
                        FindingPlace::path(path),
                        "an incomplete temporary file",
                        Repair::automatic("it is moved to the quarantine"),
                    ));
                }
            }
        }
    }

    /// Whether nobody has written to it for an hour.
    fn is_left(&self, path: &Path) -> bool {
        let modified = self.store.storage().modified(path);
        modified.is_ok_and(|at| {
            self.store.system_time().duration_since(at).is_ok_and(|age| age >= LEFT)
        })
    }

    fn check_store_permissions(&self, findings: &mut Vec<Finding>) {
        let layout = self.store.layout();
        check_store_mode(self.store.root(), findings);
        for path in [layout.config(), layout.index(), layout.sessions()] {
            check_store_mode(&path, findings);
        }
        for dir in [layout.objects(), layout.keys(), layout.cache()] {
            check_store_mode(&dir, findings);
            for name in self.store.storage().list(&dir).unwrap_or_default() {
                if name != shield::NAME {
                    check_store_mode(&dir.join(name), findings);
                }
            }
        }
    }

    /// Checks the permissions of a session's directory and its contents.
    pub(super) fn check_permissions_below(&self, dir: &Path, findings: &mut Vec<Finding>) {
        check_store_mode(dir, findings);
        for name in self.store.storage().list(dir).unwrap_or_default() {
            let path = dir.join(name);
            check_store_mode(&path, findings);
            for name in self.store.storage().list(&path).unwrap_or_default() {
                // Foreign files are not checked.
                if !path.ends_with("journal") || SegmentName::parse(&name).is_some() {
                    check_store_mode(&path.join(name), findings);
                }
            }
        }
    }

    /// Plans a repair of the store's own files. Changes nothing.
    pub fn plan_store(&self, findings: &[Finding]) -> Result<RepairPlan, StoreError> {
        let mut plan = RepairPlan::default();
        for found in findings {
            let path = || found.place.path.clone().unwrap_or_default();
            let action = match &*found.rule {
                "settings" => RepairAction::PutSettings {
                    from: shield::shield_settings_copy(
                        &**self.store.storage(),
                        self.store.layout(),
                    )
                    .map_or_else(|| "the defaults".to_owned(), |path| layout_path_text(&path)),
                },
                "permissions" => store_mode_repair(found),
                "temporary-file" => RepairAction::Remove { path: path() },
                "pack-damage" => RepairAction::SalvagePack { path: path() },
                "index" => RepairAction::MakeAnew { what: "index", path: path() },
                "unfinished-removal" => RepairAction::Finish { what: "a removal" },
                "unfinished-erasure" => RepairAction::Finish { what: "an erasure" },
                "unfinished-repair" => RepairAction::Finish { what: "a repair" },
                "session-unreadable" if found.repair.automatic => {
                    let layout = SessionLayout { dir: path() };
                    let source: SourceEvents = self.source(&layout)?;
                    RepairAction::RewriteSegment {
                        path: layout.journal().join("00000001.jsonl"),
                        kept: 0,
                        reconstructed: source.events.len() as u64,
                    }
                }
                _ => {
                    plan.left.push(found.clone());
                    continue;
                }
            };
            if !plan.actions.contains(&action) {
                plan.actions.push(action);
            }
        }
        Ok(plan)
    }
}

/// The action that corrects the permissions of a finding.
pub(super) fn store_mode_repair(found: &Finding) -> RepairAction {
    let path = found.place.path.clone().unwrap_or_default();
    let mode = if path.is_dir() { MODES.0 } else { MODES.1 };
    RepairAction::SetMode { path, mode }
}

/// Checks that the owner, and nobody else, can read and write.
fn check_store_mode(path: &Path, findings: &mut Vec<Finding>) {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return };
    if metadata.is_symlink() {
        return;
    }
    let mode = metadata.permissions().mode() & 0o777;
    let least = if metadata.is_dir() { MODES.0 } else { 0o400 };
    let others = mode & 0o077 != 0;
    if others || mode & least != least {
        let message = if others {
            format!("its permissions are {mode:o}: other users have access")
        } else {
            format!("its permissions are {mode:o}: its owner has no access")
        };
        findings.push(doctor_warning(
            "permissions",
            FindingType::Structural,
            FindingPlace::path(path),
            message,
            Repair::automatic("they are set to abide's defaults"),
        ));
    }
}

fn unreadable_in_store(place: FindingPlace, error: &abide_journal::JournalError) -> Finding {
    use std::error::Error as _;
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Finding::new(
        "session-unreadable",
        FindingType::Structural,
        Severity::Critical,
        place,
        format!("{error}{cause}"),
        Repair::by_hand("make it readable, or put it back from a backup"),
    )
}
