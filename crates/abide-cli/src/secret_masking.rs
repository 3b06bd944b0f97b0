//! Masks secrets in what leaves this machine: the built-in rules, and the values of this environment
//! and of the workspace's `.env` files.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use abide_secrets::{
    Literals, MarkKey, RedactionTally, Redactor, RuleSet, is_secret_name, is_secret_value,
    read_dotenv, unscanned_mark,
};
use abide_transcript::{SessionOverview, TextFilter};

use crate::error::{CommandError, at};

/// Larger `.env` files are not read.
const DOTENV_BYTES: u64 = 1 << 20;
/// Where random bytes come from.
const RANDOM: &str = "/dev/urandom";

/// The redactor of one command. Its marks are its own: the key is new each time.
///
/// # Errors
///
/// The rules do not load, or there is no random source: nothing is passed on unmasked.
pub(crate) fn secret_redactor(workspace: Option<&Path>) -> Result<Redactor, CommandError> {
    let rules = RuleSet::load().map_err(|error| {
        CommandError::failed(format!("the rules for secrets do not load: {error}"))
    })?;
    let mut key = [0; 32];
    let random = File::open(RANDOM).and_then(|mut random| random.read_exact(&mut key));
    random.map_err(at("read", Path::new(RANDOM)))?;
    let mut literals = Literals::default();
    let mut add = |name: &str, value: &str| {
        if is_secret_name(name) && is_secret_value(value) {
            literals.add("env", value);
        }
    };
    for (name, value) in std::env::vars_os() {
        add(&name.to_string_lossy(), &value.to_string_lossy());
    }
    for text in workspace.into_iter().flat_map(dotenv_texts) {
        read_dotenv(&text).iter().for_each(|one| add(&one.name, &one.value));
    }
    Ok(Redactor::new(rules, literals, MarkKey::new(key)))
}

/// The texts of `.env` and `.env.…` in a directory, as far as they can be read.
fn dotenv_texts(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let is_dotenv = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let small = |data: fs::Metadata| data.is_file() && data.len() <= DOTENV_BYTES;
        (name == ".env" || name.starts_with(".env.")) && entry.metadata().is_ok_and(small)
    };
    entries.filter(is_dotenv).filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect()
}

/// Masks the texts of a page, and counts what it masks.
#[derive(Clone)]
pub(crate) struct PageMask {
    redactor: Rc<Redactor>,
    tally: Rc<RefCell<RedactionTally>>,
}

impl PageMask {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { redactor: Rc::new(redactor), tally: Rc::default() }
    }

    /// Masks a text. What takes too long to scan is left out.
    pub(crate) fn mask(&self, text: &mut String) {
        let masked = match self.redactor.redact_text(text) {
            Ok(redacted) if redacted.is_unchanged() => return,
            Ok(redacted) => {
                self.tally.borrow_mut().merge(redacted.tally());
                redacted.into_text().into_owned()
            }
            Err(overrun) => unscanned_mark(overrun.bytes),
        };
        *text = masked;
    }

    /// Masks the texts of an overview.
    pub(crate) fn overview(&self, overview: &mut SessionOverview) {
        let texts = [&mut overview.title, &mut overview.reason, &mut overview.summary];
        texts.into_iter().flatten().for_each(|text| self.mask(text));
        overview.fields.iter_mut().for_each(|(_, value)| self.mask(value));
        overview.files.iter_mut().for_each(|(_, path)| self.mask(path));
        overview.tasks.iter_mut().for_each(|task| self.mask(&mut task.title));
        overview.changes.iter_mut().for_each(|change| self.mask(&mut change.diff));
    }

    /// The filter that masks a text before the next filter sees it.
    pub(crate) fn before(&self, next: TextFilter) -> TextFilter {
        let mask = self.clone();
        Box::new(move |text| {
            mask.mask(text);
            next(text);
        })
    }

    /// What was masked, as a sentence; `None` if nothing was.
    pub(crate) fn report(&self) -> Option<String> {
        let tally = self.tally.borrow();
        (!tally.is_empty()).then(|| {
            let s = if tally.total() == 1 { " was" } else { "s were" };
            format!("{} secret{s} masked: {}", tally.total(), tally_text(&tally))
        })
    }
}

/// The rules that found something, each with how often: `github-token 2, jwt 1`.
pub(crate) fn tally_text(tally: &RedactionTally) -> String {
    let each = tally.by_rule().map(|(rule, found)| format!("{rule} {}", found.marks));
    each.collect::<Vec<_>>().join(", ")
}
