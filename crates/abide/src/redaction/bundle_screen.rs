//! Looks for secrets in a bundle.
//!
//! Its lines are chained and cannot be redacted, so it is refused as a whole. The files of
//! checkpoints are not in it.

use std::sync::{Arc, Mutex, PoisonError};

use abide_local::{BundleRecord, BundleScreen};
use abide_secrets::{RedactionTally, Redactor};

use super::event_redaction::{redact_text, tally_event};

/// Counts the secrets in the records of a bundle.
#[derive(Debug, Clone, Default)]
pub(crate) struct BundleSecrets(Arc<Mutex<RedactionTally>>);

impl BundleSecrets {
    /// The screen that counts here.
    pub(super) fn screen(&self, redactor: Redactor) -> BundleScreen {
        let found = self.0.clone();
        Box::new(move |record| {
            let tally = match record {
                BundleRecord::Line(line) => {
                    line.event().map(|event| tally_event(&redactor, &event)).unwrap_or_default()
                }
                BundleRecord::Object { bytes, .. } => tally_object(&redactor, bytes),
            };
            found.lock().unwrap_or_else(PoisonError::into_inner).merge(&tally);
            !tally.is_empty()
        })
    }

    /// What was found: `github-token 2, jwt 1`.
    pub(crate) fn in_words(&self) -> String {
        tally_in_words(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The rules that found something, each with how often.
pub(super) fn tally_in_words(tally: &RedactionTally) -> String {
    let each = tally.by_rule().map(|(rule, found)| format!("{rule} {}", found.marks));
    each.collect::<Vec<_>>().join(", ")
}

/// The secrets in a string that was taken out of an event: its text, or as it stood in the JSON.
fn tally_object(redactor: &Redactor, bytes: &[u8]) -> RedactionTally {
    let text = String::from_utf8_lossy(bytes);
    if text.starts_with('"')
        && let Ok(redacted) = redactor.redact_json(&text)
    {
        return redacted.tally().clone();
    }
    let mut tally = RedactionTally::default();
    redact_text(redactor, &mut text.into_owned(), &mut tally);
    tally
}
