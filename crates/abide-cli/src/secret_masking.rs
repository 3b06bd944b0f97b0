//! Masks secrets in what leaves this machine, by the rules of the user's settings, and by the values
//! of this environment and of the workspace's `.env` files.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use abide::secrets::{Redaction, RedactionOptions, RedactionTally, Redactor, unscanned_mark};
use abide::{Event, Payload};
use abide_transcript::{SessionOverview, TextFilter, escape};

use crate::command_context::CommandContext;
use crate::command_output::warning;
use crate::error::CommandError;

/// The redactor of one command, which knows the secrets of this environment and of the `.env` files
/// in this workspace.
///
/// # Errors
///
/// The rules do not load: nothing is passed on unmasked.
pub(crate) fn secret_redactor(
    redaction: &Redaction,
    workspace: Option<&Path>,
) -> Result<Redactor, CommandError> {
    let redactor = redaction.redactor(workspace).map_err(abide::Error::from)?;
    for path in redaction.unread() {
        let path = path.to_string_lossy();
        warning(format_args!("{} was not read for secrets", escape::text(&path)));
    }
    Ok(redactor)
}

impl CommandContext {
    /// How secrets are redacted here, by the user's settings.
    pub(crate) fn redaction(&self) -> Redaction {
        let (directory, state) = (Some(self.current_dir.clone()), self.person.state.clone());
        Redaction::new(RedactionOptions { directory, state, ..RedactionOptions::default() })
    }
}

/// Masks the texts of a page, and counts what it masks.
#[derive(Clone)]
pub(crate) struct PageMask {
    redactor: Rc<Redactor>,
    tally: Rc<RefCell<RedactionTally>>,
    /// How many texts were left out because they would take too long to scan.
    unscanned: Rc<Cell<u64>>,
}

impl PageMask {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { redactor: Rc::new(redactor), tally: Rc::default(), unscanned: Rc::default() }
    }

    /// Masks a text. What takes too long to scan is left out.
    pub(crate) fn mask(&self, text: &mut String) {
        let masked = match self.redactor.redact_text(text) {
            Ok(redacted) if redacted.is_unchanged() => return,
            Ok(redacted) => {
                self.tally.borrow_mut().merge(redacted.tally());
                redacted.into_text().into_owned()
            }
            Err(overrun) => {
                self.unscanned.set(self.unscanned.get() + 1);
                unscanned_mark(overrun.bytes)
            }
        };
        *text = masked;
    }

    /// Masks the data of an event, each string as a whole and with its name. Without data that can be
    /// read it has none.
    pub(crate) fn event(&self, event: &mut Event) {
        let Some(data) = &event.data else { return };
        match self.redactor.redact_json(data.as_str()) {
            Ok(redacted) if redacted.is_unchanged() => {}
            Ok(redacted) => {
                self.tally.borrow_mut().merge(redacted.tally());
                event.data = Some(Payload::from_stored(redacted.into_text().into_owned().into()));
            }
            Err(_) => event.data = None,
        }
    }

    /// Would anything be masked in this event?
    pub(crate) fn touches(&self, event: &Event) -> bool {
        let clean = |data: &Payload| {
            self.redactor.redact_json(data.as_str()).is_ok_and(|redacted| redacted.is_unchanged())
        };
        !event.data.as_ref().is_none_or(clean)
    }

    /// Masks the texts of an overview.
    pub(crate) fn overview(&self, overview: &mut SessionOverview) {
        let texts = [&mut overview.title, &mut overview.reason, &mut overview.summary];
        texts.into_iter().flatten().for_each(|text| self.mask(text));
        overview.fields.iter_mut().for_each(|(_, value)| self.mask(value));
        overview.files.iter_mut().for_each(|(_, path)| self.mask(path));
        overview.tasks.iter_mut().for_each(|task| self.mask(&mut task.title));
        for change in &mut overview.changes {
            self.mask(&mut change.path);
            self.mask(&mut change.diff);
        }
    }

    /// The filter that masks a text before the next filter sees it.
    pub(crate) fn before(&self, next: TextFilter) -> TextFilter {
        let mask = self.clone();
        Box::new(move |text| {
            mask.mask(text);
            next(text);
        })
    }

    /// What was masked and what was left out, a sentence each; nothing if there was nothing.
    pub(crate) fn report(&self) -> Vec<String> {
        let tally = self.tally.borrow();
        let masked = match tally.total() {
            0 => None,
            1 => Some(format!("1 secret was masked: {}", tally_text(&tally))),
            total => Some(format!("{total} secrets were masked: {}", tally_text(&tally))),
        };
        let left = self.unscanned.get();
        let left = (left > 0).then(|| {
            let texts =
                if left == 1 { "1 text was".to_owned() } else { format!("{left} texts were") };
            format!("{texts} left out: too much to scan")
        });
        masked.into_iter().chain(left).collect()
    }
}

/// The rules that found something, each with how often: `github-token 2, jwt 1`.
pub(crate) fn tally_text(tally: &RedactionTally) -> String {
    let each = tally.by_rule().map(|(rule, found)| format!("{rule} {}", found.marks));
    each.collect::<Vec<_>>().join(", ")
}
