//! Terminals: only the last output of each is recorded, not every poll; and the tests and builds that
//! run in them.

use std::borrow::Cow;

use abide::Kind;
use abide::event::{ArtifactCommand, CommandOutcome, OutcomeReport};
use abide::secrets::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::bounded_map::BoundedMap;
use super::chunk_block::MessageEnd;
use super::name::recorded_name;
use super::record_batch::{RESPONSE, RecordBatch};
use super::redacted_text::{TextProbe, end_of_text, redacted};
use super::update::parse_update_object;

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

/// The params of `terminal/create`, as far as they are read.
#[derive(Deserialize)]
struct TerminalCommand {
    command: String,
    #[serde(default)]
    args: Vec<String>,
}

/// The test or build that a new terminal runs, by the params of `terminal/create`.
pub(super) fn terminal_build(params: &RawValue) -> Option<ArtifactCommand> {
    let TerminalCommand { command, args } = parse_update_object(params)?;
    if args.is_empty() {
        return ArtifactCommand::of_command(&command);
    }
    let mut words = vec![command];
    words.extend(args);
    ArtifactCommand::of_words(&words)
}

/// How the process of a terminal ended.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminalExit {
    #[serde(default)]
    exit_code: Option<i64>,
}

impl TerminalExit {
    fn outcome(self, answer: &TerminalOutput<'_>, redactor: Option<&Redactor>) -> CommandOutcome {
        let exit = self.exit_code.and_then(|code| i32::try_from(code).ok());
        let report = match exit {
            Some(0) => OutcomeReport::Success,
            _ => OutcomeReport::Failure,
        };
        // An artifact has only its end.
        let output = redacted(redactor, &answer.output).into_owned();
        CommandOutcome { report, exit, output, is_cut: answer.truncated }
    }
}

/// A test or build in a terminal that has not been recorded.
#[derive(Debug)]
struct TerminalBuild {
    command: ArtifactCommand,
    /// How it ended, if that is known without its output.
    exit: Option<TerminalExit>,
}

impl TerminalBuild {
    fn record(
        &self,
        exit: TerminalExit,
        answer: &TerminalOutput<'_>,
        redactor: Option<&Redactor>,
        batch: &mut RecordBatch,
    ) {
        for artifact in self.command.artifacts(&exit.outcome(answer, redactor)) {
            batch.fact(&Kind::ARTIFACT_RECORDED, None, artifact);
        }
    }
}

/// The answer to `terminal/output`.
#[derive(Default, Deserialize, Serialize)]
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
    /// All was recorded but an end that may be the beginning of a secret.
    part_recorded: bool,
}

/// The last output of each terminal.
#[derive(Debug)]
pub(super) struct Terminals {
    redactor: Option<Redactor>,
    seen: BoundedMap<TerminalAnswer>,
    builds: BoundedMap<TerminalBuild>,
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

    /// Records what was seen of a terminal whose output may go on.
    fn record_so_far(
        &mut self,
        terminal: &str,
        redactor: Option<&Redactor>,
        batch: &mut RecordBatch,
    ) {
        if self.recorded || self.part_recorded {
            return;
        }
        let start = redactor.and_then(|redactor| settled_answer(redactor, &self.answer));
        let Some(start) = start else { return self.record(terminal, batch) };
        self.part_recorded = true;
        let given = TerminalAnswerData { method: "terminal/output", terminal, result: &start };
        batch.add(RESPONSE, None, &given);
    }
}

impl Terminals {
    pub(super) fn new() -> Self {
        let (seen, builds) = (BoundedMap::new(TERMINALS), BoundedMap::new(TERMINALS));
        Self { redactor: None, seen, builds }
    }

    /// Cuts no output within a secret that this redactor finds.
    pub(super) fn redact_with(&mut self, redactor: Option<Redactor>) {
        self.redactor = redactor;
    }

    /// Remembers the test or build that a terminal runs, by the answer to `terminal/create`, which
    /// names the terminal.
    pub(super) fn created(
        &mut self,
        command: ArtifactCommand,
        result: &RawValue,
        batch: &mut RecordBatch,
    ) -> Option<String> {
        let TerminalParams { terminal_id } = parse_update_object(result)?;
        let name = recorded_name(&terminal_id);
        let oldest = self.builds.insert(&name, TerminalBuild { command, exit: None });
        if let Some((terminal, oldest)) = oldest {
            self.record_unseen(&terminal, &oldest, batch);
        }
        Some(name)
    }

    /// Remembers how a process ended, by the answer to `terminal/wait_for_exit`. Its output may
    /// still follow.
    pub(super) fn exited(&mut self, terminal: &str, result: &RawValue) {
        if let Some(build) = self.builds.get_mut(&recorded_name(terminal)) {
            build.exit = parse_update_object(result);
        }
    }

    /// Records the test or build of a terminal whose process has ended.
    fn built(&mut self, terminal: &str, result: &RawValue, batch: &mut RecordBatch) {
        if self.builds.get(terminal).is_none() {
            return;
        }
        let Some(answer) = parse_update_object::<TerminalOutput<'_>>(result) else { return };
        let exit = answer.exit_status.and_then(parse_update_object::<TerminalExit>);
        let Some(exit) = exit.or(self.builds.get(terminal).and_then(|build| build.exit)) else {
            return;
        };
        if let Some(build) = self.builds.remove(terminal) {
            build.record(exit, &answer, self.redactor.as_ref(), batch);
        }
    }

    /// Records a test or a build that has ended by what was last seen of its output.
    fn record_unseen(&self, terminal: &str, build: &TerminalBuild, batch: &mut RecordBatch) {
        let Some(exit) = build.exit else { return };
        let seen = self.seen.get(terminal).map(|seen| &*seen.answer);
        let seen = seen.and_then(parse_update_object::<TerminalOutput<'_>>).unwrap_or_default();
        let seen = TerminalOutput { truncated: true, ..seen };
        build.record(exit, &seen, self.redactor.as_ref(), batch);
    }

    /// Records the tests and builds whose last output nobody asked for.
    fn built_unseen(&mut self, terminal: Option<&str>, batch: &mut RecordBatch) {
        let mut ended = Vec::new();
        self.builds.each(|name, build| {
            if build.exit.is_some() && terminal.is_none_or(|terminal| terminal == name) {
                ended.push(name.to_owned());
            }
        });
        for name in ended {
            if let Some(build) = self.builds.remove(&name) {
                self.record_unseen(&name, &build, batch);
            }
        }
    }

    /// Remembers the output of a terminal; records it at once if its process has ended.
    pub(super) fn output(&mut self, terminal: &str, result: &RawValue, batch: &mut RecordBatch) {
        let terminal = recorded_name(terminal);
        self.show(&terminal, result, batch);
        self.built(&terminal, result, batch);
    }

    fn show(&mut self, terminal: &str, result: &RawValue, batch: &mut RecordBatch) {
        let (answer, over) = kept_terminal_output(result, self.redactor.as_ref());
        let known = self.seen.get_mut(terminal);
        if let Some(seen) = known.filter(|seen| seen.answer.get() == answer.get()) {
            if over {
                seen.record(terminal, batch);
            }
            return;
        }
        let mut seen = TerminalAnswer { answer, recorded: false, part_recorded: false };
        if over {
            seen.record(terminal, batch);
        }
        if let Some((terminal, mut oldest)) = self.seen.insert(terminal, seen) {
            oldest.record(&terminal, batch);
        }
    }

    /// Records the last output when the client kills or releases a terminal.
    pub(super) fn ended(&mut self, terminal: &str, batch: &mut RecordBatch) {
        let terminal = recorded_name(terminal);
        if let Some(seen) = self.seen.get_mut(&terminal) {
            seen.record(&terminal, batch);
        }
        self.built_unseen(Some(&terminal), batch);
        self.seen.remove(&terminal);
    }

    /// Records the last outputs at the end of a turn: whole if it was broken off, as nothing may come after
    /// it.
    pub(super) fn end_turn(&mut self, end: MessageEnd, batch: &mut RecordBatch) {
        let Self { redactor, seen, .. } = self;
        seen.each(|terminal, seen| match end {
            MessageEnd::Whole => seen.record_so_far(terminal, redactor.as_ref(), batch),
            MessageEnd::Partial => seen.record(terminal, batch),
        });
        self.built_unseen(None, batch);
    }
}

/// An answer cut to what is kept, and whether it says that the process has ended.
fn kept_terminal_output(result: &RawValue, redactor: Option<&Redactor>) -> (Box<RawValue>, bool) {
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
    output.output = Cow::Owned(end_of_text(redactor, &output.output, from));
    output.truncated = true;
    (to_raw_value(&output).unwrap_or_else(|_| RawValue::NULL.to_owned()), over)
}

/// An answer without the end that may be the beginning of a secret; nothing if it has no such end.
fn settled_answer(redactor: &Redactor, answer: &RawValue) -> Option<Box<RawValue>> {
    let mut output = serde_json::from_str::<TerminalOutput<'_>>(answer.get()).ok()?;
    let probe = TextProbe::new(redactor.clone());
    let (start, length) = probe.settled_start(&output.output, probe.probe(&output.output));
    if length == output.output.len() {
        return None;
    }
    output.output = Cow::Owned(start.into_owned());
    to_raw_value(&output).ok()
}
