//! Terminals: only the last output of each is recorded, not every poll.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::bounded_map::BoundedMap;
use super::name::recorded_name;
use super::record_batch::{RESPONSE, RecordBatch};

/// The most terminals whose last output is remembered.
const TERMINALS: usize = 16;
/// The most bytes of an output that are kept, from its end.
const OUTPUT: usize = 1 << 20;

/// The params of requests about a terminal.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TerminalParams {
    pub(super) terminal_id: String,
}

/// The answer to `terminal/output`.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct TerminalOutput<'a> {
    #[serde(borrow)]
    output: Cow<'a, str>,
    #[serde(default)]
    truncated: bool,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    exit_status: Option<&'a RawValue>,
}

#[derive(Debug)]
struct TerminalAnswer {
    /// The answer as it is recorded.
    answer: Box<RawValue>,
    recorded: bool,
}

/// The last output of each terminal.
#[derive(Debug)]
pub(super) struct Terminals {
    seen: BoundedMap<TerminalAnswer>,
}

#[derive(Serialize)]
struct TerminalAnswerData<'a> {
    method: &'a str,
    terminal: &'a str,
    result: &'a RawValue,
}

impl TerminalAnswer {
    fn record(&mut self, terminal: &str, batch: &mut RecordBatch) {
        if !std::mem::replace(&mut self.recorded, true) {
            let given =
                TerminalAnswerData { method: "terminal/output", terminal, result: &self.answer };
            batch.add(RESPONSE, None, &given);
        }
    }
}

impl Terminals {
    pub(super) fn new() -> Self {
        Self { seen: BoundedMap::new(TERMINALS) }
    }

    /// Remembers the output of a terminal; records it at once if its process has ended.
    pub(super) fn output(&mut self, terminal: &str, result: &RawValue, batch: &mut RecordBatch) {
        let terminal = recorded_name(terminal);
        let (answer, over) = kept_terminal_output(result);
        let known = self.seen.get_mut(&terminal);
        if let Some(seen) = known.filter(|seen| seen.answer.get() == answer.get()) {
            if over {
                seen.record(&terminal, batch);
            }
            return;
        }
        let mut seen = TerminalAnswer { answer, recorded: false };
        if over {
            seen.record(&terminal, batch);
        }
        if let Some((terminal, mut oldest)) = self.seen.insert(&terminal, seen) {
            oldest.record(&terminal, batch);
        }
    }

    /// Records the last output when the client kills or releases a terminal.
    pub(super) fn ended(&mut self, terminal: &str, batch: &mut RecordBatch) {
        let terminal = recorded_name(terminal);
        if let Some(mut seen) = self.seen.remove(&terminal) {
            seen.record(&terminal, batch);
        }
    }

    /// Records the last outputs at the end of a turn.
    pub(super) fn end_turn(&mut self, batch: &mut RecordBatch) {
        self.seen.each(|terminal, seen| seen.record(terminal, batch));
    }
}

/// An answer cut to what is kept, and whether it says that the process has ended.
fn kept_terminal_output(result: &RawValue) -> (Box<RawValue>, bool) {
    let Ok(mut output) = serde_json::from_str::<TerminalOutput<'_>>(result.get()) else {
        let short = result.get().len() <= OUTPUT;
        return (if short { result } else { RawValue::NULL }.to_owned(), false);
    };
    let over = output.exit_status.is_some();
    let mut from = output.output.len().saturating_sub(OUTPUT);
    if from == 0 {
        return (result.to_owned(), over);
    }
    while !output.output.is_char_boundary(from) {
        from += 1;
    }
    output.output = Cow::Owned(output.output.get(from..).unwrap_or_default().to_owned());
    output.truncated = true;
    (to_raw_value(&output).unwrap_or_else(|_| RawValue::NULL.to_owned()), over)
}
