//! Imports sessions from bundles.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use abide::{
    Seq, SessionId, Store,
    bundle::{BundleReader, ImportOutcome, ImportedBundle},
    secrets::Redaction,
};
use serde::Serialize;

use crate::command_context::CommandContext;

use crate::command_output::{CommandOutput, warning};
use crate::error::{CommandError, at};
use crate::event_line::listed;
use crate::noun_count::noun_count;
use crate::scoped_store::ScopedStore;

/// Bundles to import.
#[derive(Debug)]
pub(super) struct BundleImport {
    pub(super) files: Vec<PathBuf>,
    pub(super) dry_run: bool,
    pub(super) keep_secrets: bool,
    pub(super) forget: bool,
    pub(super) large: bool,
    pub(super) json: bool,
}

/// The outcome of importing a bundle, as JSON.
#[derive(Serialize)]
struct ImportReport<'a> {
    file: &'a str,
    session: SessionId,
    short: &'a str,
    outcome: &'static str,
    events: u64,
    objects: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    here: Option<u64>,
    /// Events that are erased in the bundle but not here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unerased: &'a Vec<Seq>,
    /// Events whose data was erased here before, and was left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept_erased: &'a Vec<Seq>,
    /// Events whose data was erased here before, and is back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    brought_back: &'a Vec<Seq>,
    dry_run: bool,
}

impl BundleImport {
    pub(super) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let mut out = CommandOutput::stdout();
        let mut failed = 0;
        for file in &self.files {
            let done = self.one(file, surroundings, &mut out);
            out.flush()?;
            match done {
                Err(error @ CommandError::Failed(_)) if self.files.len() > 1 => {
                    error.report();
                    failed += 1;
                }
                done => done?,
            }
        }
        if failed > 0 {
            let (all, were) = (self.files.len(), if failed == 1 { "was" } else { "were" });
            return Err(CommandError::failed(format!(
                "{failed} of {all} bundles {were} not imported"
            )));
        }
        Ok(())
    }

    fn one(
        &self,
        file: &Path,
        surroundings: &CommandContext,
        out: &mut CommandOutput,
    ) -> Result<(), CommandError> {
        let name = file.display().to_string();
        let path = surroundings.absolute(file);
        let input: Box<dyn Read> = if name == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(&path).map_err(at("open", file))?)
        };
        let on =
            |error: abide::Error| CommandError::from(error).on(format!("cannot import {name}"));
        // Read the header before a store is created for it.
        let bundle = BundleReader::open(input).map_err(|error| on(error.into()))?;
        let bundle = if self.large { bundle.of_any_ratio() } else { bundle };
        let bundle = if self.forget { bundle.bringing_back_erased() } else { bundle };
        let (opened, imported) = if self.dry_run {
            match surroundings.find_store()? {
                Some(opened) => {
                    let checked = self.target(&opened).check_bundle(bundle);
                    (Some(opened), checked.map_err(on)?)
                }
                None => {
                    let bundle = bundle.read_to_end().map_err(|error| on(error.into()))?;
                    (None, ImportedBundle::made(bundle))
                }
            }
        } else {
            let opened = surroundings.open_or_init_store()?;
            let imported = self.target(&opened).import_bundle(bundle, surroundings.wait);
            (Some(opened), imported.map_err(on)?)
        };
        imported.notes.iter().for_each(warning);
        let id = imported.bundle.session;
        let short = match &opened {
            Some(opened) => opened.store.short_id(id)?,
            None => id.short(SessionId::SHORT),
        };
        if !imported.unerased.is_empty() {
            warning(format_args!(
                "the data of {} is erased in the bundle but not here; `abide erase` erases it",
                listed(&imported.unerased)
            ));
        }
        if !imported.kept_erased.is_empty() {
            let is_new = imported.outcome == ImportOutcome::Made;
            let way = if is_new { "" } else { "remove the session; then " };
            warning(format_args!(
                "the data of {} was erased here and {} erased; to bring it back, {way}import it with \
                 `--forget`",
                listed(&imported.kept_erased),
                if self.dry_run { "would stay" } else { "stays" },
            ));
        }
        if !imported.brought_back.is_empty() {
            warning(format_args!(
                "the data of {} was erased here and {} back",
                listed(&imported.brought_back),
                if self.dry_run { "would be brought" } else { "is" },
            ));
        }
        if self.json {
            return out.json(&self.report(&name, &short, &imported));
        }
        out.line(self.sentence(&short, &imported))
    }

    /// The store as it takes bundles.
    fn target(&self, opened: &ScopedStore) -> Store {
        let store = opened.store.clone();
        if self.keep_secrets { store.with_redaction(Redaction::off()) } else { store }
    }

    fn report(&self, file: &str, short: &str, imported: &ImportedBundle) -> String {
        let (outcome, from, here) = match imported.outcome {
            ImportOutcome::Made => ("imported", None, None),
            ImportOutcome::Forwarded { from } => ("forwarded", Some(from.0), None),
            ImportOutcome::Same => ("already_here", None, None),
            ImportOutcome::Behind { here } => ("already_further", None, Some(here.0)),
        };
        let report = ImportReport {
            file,
            session: imported.bundle.session,
            short,
            outcome,
            events: imported.bundle.events,
            objects: imported.bundle.objects,
            bytes: imported.bundle.bytes,
            from,
            here,
            unerased: &imported.unerased,
            kept_erased: &imported.kept_erased,
            brought_back: &imported.brought_back,
            dry_run: self.dry_run,
        };
        serde_json::to_string(&report).unwrap_or_default()
    }

    fn sentence(&self, short: &str, imported: &ImportedBundle) -> String {
        let bundle = &imported.bundle;
        let session = format!("session {short} ({})", bundle.session);
        let content = format!(
            "{}, {}",
            noun_count(bundle.events, "event"),
            noun_count(bundle.objects, "object")
        );
        match (imported.outcome, self.dry_run) {
            (ImportOutcome::Made, false) => format!("Imported {session}: {content}"),
            (ImportOutcome::Made, true) => format!("Would import {session}: {content}"),
            (ImportOutcome::Forwarded { from }, dry_run) => {
                let verb = if dry_run { "Would forward" } else { "Forwarded" };
                format!("{verb} {session} from event {from} to {}: {content}", bundle.last())
            }
            (ImportOutcome::Same, _) => format!("Already here: {session}: {content}"),
            (ImportOutcome::Behind { here }, _) => {
                format!(
                    "Already here, and longer: {session}: event {here} here, {content} in the \
                    bundle"
                )
            }
        }
    }
}
