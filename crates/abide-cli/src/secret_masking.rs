//! Masks secrets in what leaves this machine: the built-in rules, and the values of this environment
//! and of the workspace's `.env` files.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use abide::{Event, Payload};
use abide_secrets::{
    Literals, MarkKey, RedactionTally, Redactor, RuleSet, is_secret_name, is_secret_value,
    read_dotenv, unscanned_mark,
};
use abide_transcript::{SessionOverview, TextFilter, escape};

use crate::command_output::warning;
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
        name == ".env" || name.starts_with(".env.")
    };
    let read = |entry: fs::DirEntry| {
        let path = entry.path();
        // A link leads to it.
        let small =
            fs::metadata(&path).is_ok_and(|data| data.is_file() && data.len() <= DOTENV_BYTES);
        let text = if small { fs::read(&path).ok() } else { None };
        if text.is_none() {
            let path = path.to_string_lossy();
            warning(format_args!("{} was not read for secrets", escape::text(&path)));
        }
        text.map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    entries.filter(is_dotenv).filter_map(read).collect()
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

    /// What was masked and what was left out, a sentence each.
    pub(crate) fn report(&self) -> Vec<String> {
        let tally = self.tally.borrow();
        let masked = match tally.total() {
            0 => "No secret was found to mask".to_owned(),
            1 => format!("1 secret was masked: {}", tally_text(&tally)),
            total => format!("{total} secrets were masked: {}", tally_text(&tally)),
        };
        let left = self.unscanned.get();
        let left = (left > 0).then(|| {
            let texts =
                if left == 1 { "1 text was".to_owned() } else { format!("{left} texts were") };
            format!("{texts} left out: too much to scan")
        });
        std::iter::once(masked).chain(left).collect()
    }
}

/// The rules that found something, each with how often: `github-token 2, jwt 1`.
pub(crate) fn tally_text(tally: &RedactionTally) -> String {
    let each = tally.by_rule().map(|(rule, found)| format!("{rule} {}", found.marks));
    each.collect::<Vec<_>>().join(", ")
}
