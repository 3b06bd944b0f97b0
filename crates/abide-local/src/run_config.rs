//! `[agents]` and `[run]`: named agents and the defaults of a run, in the user's configuration and in
//! a project's `abide.toml`.
//!
//! This only reads. What a project's file says may come from anybody: the caller must not run a
//! command of it that the user has not accepted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use abide_model::{near_names, parse_duration_or_seconds};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::small_file::read_small_file;
use crate::store_place::StorePlaceError;

/// The name of a project's file.
pub const PROJECT_CONFIG: &str = "abide.toml";
/// The largest project's file that is read.
const MAX: u64 = 1 << 16;
/// The longest duration.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
/// The other keys at the top of the user's configuration.
const USER_KEYS: [&str; 4] = ["store", "trusted", "context", "secrets"];

/// What a configuration file says about runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunConfig {
    /// `[agents]`: agents by their names.
    pub agents: BTreeMap<String, AgentConfig>,
    /// `[run]`: the options of a run that gives no others.
    pub run: RunDefaults,
}

/// `[agents.NAME]`: an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentConfig {
    /// Its program and the arguments.
    pub command: Vec<String>,
    /// How its output is read, if its command does not show that.
    pub adapter: Option<String>,
    /// What holds for its work.
    pub rules: WorkRules,
    /// The line of the file in which it begins.
    pub line: usize,
}

/// What holds for the work of an agent: its check and its limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkRules {
    /// A shell command that decides whether a task is done; an empty one is none.
    pub check: Option<String>,
    /// How often a task is tried before it has failed.
    pub attempts: Option<u64>,
    /// The longest time the run may take.
    pub max_duration: Option<Duration>,
}

/// `[run]`: the options of a run that gives no others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunDefaults {
    /// The name of the agent.
    pub agent: Option<String>,
    /// What holds for its work, where the agent's own table does not say.
    pub rules: WorkRules,
    /// How many tasks run at the same time.
    pub jobs: Option<u64>,
    /// Whether the run goes on with other tasks when one fails.
    pub continue_on_error: Option<bool>,
    /// Whether checkpoints are made.
    pub checkpoint: Option<CheckpointSwitch>,
    /// The time between two checkpoints.
    pub checkpoint_every: Option<Duration>,
    /// How long an agent may take to exit when asked to.
    pub grace: Option<Duration>,
}

/// Whether a run makes checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointSwitch {
    /// At the start, at the end of each task, at intervals, and at the end.
    #[default]
    On,
    /// None at all.
    Off,
}

impl CheckpointSwitch {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// Whether it is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        *self == Self::On
    }
}

impl FromStr for CheckpointSwitch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err("neither `on` nor `off`".to_owned()),
        }
    }
}

impl WorkRules {
    /// These, and where they do not say, the others.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            check: self.check.or(others.check),
            attempts: self.attempts.or(others.attempts),
            max_duration: self.max_duration.or(others.max_duration),
        }
    }

    /// The keys, as a file writes them.
    fn lines(&self) -> impl Iterator<Item = String> {
        let Self { check, attempts, max_duration } = self;
        let lines = [
            check.as_ref().map(|check| format!("check = {}", quoted_config_text(check))),
            attempts.map(|attempts| format!("attempts = {attempts}")),
            max_duration.map(|most| format!("max_duration = {}", config_duration_text(most))),
        ];
        lines.into_iter().flatten()
    }
}

impl RunDefaults {
    /// These, and where they do not say, the others.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            agent: self.agent.or(others.agent),
            rules: self.rules.or(others.rules),
            jobs: self.jobs.or(others.jobs),
            continue_on_error: self.continue_on_error.or(others.continue_on_error),
            checkpoint: self.checkpoint.or(others.checkpoint),
            checkpoint_every: self.checkpoint_every.or(others.checkpoint_every),
            grace: self.grace.or(others.grace),
        }
    }

    /// The table as a file writes it, line by line; empty if it says nothing.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let Self { agent, rules, jobs, continue_on_error, checkpoint, checkpoint_every, grace } =
            self;
        let agent = agent.iter().map(|agent| format!("agent = {}", quoted_config_text(agent)));
        let more = [
            jobs.map(|jobs| format!("jobs = {jobs}")),
            continue_on_error.map(|on| format!("continue_on_error = {on}")),
            checkpoint
                .map(|switch| format!("checkpoint = {}", quoted_config_text(switch.as_str()))),
            checkpoint_every
                .map(|every| format!("checkpoint_every = {}", config_duration_text(every))),
            grace.map(|grace| format!("grace = {}", config_duration_text(grace))),
        ];
        let mut lines: Vec<String> =
            agent.chain(rules.lines()).chain(more.into_iter().flatten()).collect();
        if !lines.is_empty() {
            lines.insert(0, "[run]".to_owned());
        }
        lines
    }
}

impl AgentConfig {
    /// The table as a file writes it, line by line.
    #[must_use]
    pub fn lines(&self, name: &str) -> Vec<String> {
        let command: Vec<String> =
            self.command.iter().map(|part| quoted_config_text(part)).collect();
        let mut lines = vec![
            format!("[agents.{}]", quoted_config_text(name)),
            format!("command = [{}]", command.join(", ")),
        ];
        lines.extend(
            self.adapter.iter().map(|adapter| format!("adapter = {}", quoted_config_text(adapter))),
        );
        lines.extend(self.rules.lines());
        lines
    }
}

impl RunConfig {
    /// Reads those parts of the user's configuration; a missing file says nothing.
    ///
    /// # Errors
    ///
    /// It cannot be read, or they are invalid. The text of the file is never shown: it may contain a
    /// password.
    pub fn of_user(path: &Path) -> Result<Self, StorePlaceError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if is_config_missing(error.kind()) => return Ok(Self::default()),
            Err(source) => {
                return Err(StorePlaceError::Unreadable { path: path.to_owned(), source });
            }
        };
        let invalid = |what: String| StorePlaceError::Settings { path: path.to_owned(), what };
        let top = DeTable::parse(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            invalid(format!("is invalid in line {}", config_line(&text, at)))
        })?;
        Self::of_table(&text, top.get_ref(), &USER_KEYS).map_err(|fault| invalid(fault.to_string()))
    }

    /// Reads a project's file; `None` if there is none.
    ///
    /// # Errors
    ///
    /// It is not a small regular file, or it is invalid.
    pub fn of_project(path: &Path) -> Result<Option<Self>, StorePlaceError> {
        let bytes = match read_small_file(path, MAX) {
            Ok(bytes) => bytes,
            Err(error) if is_config_missing(error.kind()) => return Ok(None),
            Err(source) => {
                return Err(StorePlaceError::Unreadable { path: path.to_owned(), source });
            }
        };
        let invalid = |what: String| StorePlaceError::Settings { path: path.to_owned(), what };
        let text = std::str::from_utf8(&bytes).map_err(|_| invalid("is not UTF-8".to_owned()))?;
        Self::parse(text).map(Some).map_err(|fault| invalid(fault.to_string()))
    }

    fn parse(text: &str) -> Result<Self, ConfigFault> {
        let top = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            ConfigFault { line: config_line(text, at), what: error.message().to_owned() }
        })?;
        Self::of_table(text, top.get_ref(), &[])
    }

    /// Reads the tables of a document that may have these other keys.
    fn of_table(text: &str, top: &DeTable<'_>, others: &[&str]) -> Result<Self, ConfigFault> {
        let mut config = Self::default();
        for key in config_keys(text, None, top) {
            match key.name() {
                "agents" => {
                    for agent in config_keys(text, Some("agents"), key.table()?) {
                        config.agents.insert(agent.name().to_owned(), agent.agent()?);
                    }
                }
                "run" => config.run = key.run()?,
                other if others.contains(&other) => {}
                _ => return Err(key.unknown(&[&["agents", "run"], others].concat())),
            }
        }
        Ok(config)
    }
}

/// What is wrong in a file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("is invalid in line {line}: {what}")]
struct ConfigFault {
    line: usize,
    what: String,
}

/// A key of a table, and its value.
struct ConfigKey<'a> {
    text: &'a str,
    /// The table; `None` for the top of the file.
    table: Option<String>,
    key: &'a Spanned<Cow<'a, str>>,
    value: &'a Spanned<DeValue<'a>>,
}

/// The keys of a table in the order of the file.
fn config_keys<'a>(
    text: &'a str,
    table: Option<&str>,
    keys: &'a DeTable<'a>,
) -> Vec<ConfigKey<'a>> {
    let key = |(key, value)| ConfigKey { text, table: table.map(str::to_owned), key, value };
    let mut keys: Vec<_> = keys.iter().map(key).collect();
    keys.sort_by_key(|key| key.key.span().start);
    keys
}

impl<'a> ConfigKey<'a> {
    fn name(&self) -> &'a str {
        self.key.get_ref()
    }

    /// The key with its table, for a message.
    fn place(&self) -> String {
        match &self.table {
            Some(table) => format!("`{}` in [{table}]", self.name()),
            None => format!("`{}`", self.name()),
        }
    }

    fn fault(&self, what: String) -> ConfigFault {
        ConfigFault { line: config_line(self.text, self.key.span().start), what }
    }

    fn unknown(&self, known: &[&str]) -> ConfigFault {
        let near = near_names(self.name(), known.iter().copied());
        let hint = match near.first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the keys are {}", known.join(", ")),
        };
        self.fault(format!("unknown key {}; {hint}", self.place()))
    }

    fn wrong(&self, wanted: &str) -> ConfigFault {
        self.fault(format!(
            "{} must be {wanted}, not {}",
            self.place(),
            config_value_sort(self.value.get_ref())
        ))
    }

    fn table(&self) -> Result<&'a DeTable<'a>, ConfigFault> {
        self.value.get_ref().as_table().ok_or_else(|| self.wrong("a table"))
    }

    fn text(&self) -> Result<String, ConfigFault> {
        let text = self.value.get_ref().as_str();
        text.map(str::to_owned).ok_or_else(|| self.wrong("a string"))
    }

    fn name_of_one(&self) -> Result<String, ConfigFault> {
        let text = self.text()?;
        if text.is_empty() {
            return Err(self.fault(format!("{} is empty", self.place())));
        }
        Ok(text)
    }

    /// A program and its arguments.
    fn command(&self) -> Result<Vec<String>, ConfigFault> {
        let wanted = "a list of strings: the program, then each argument";
        let parts = self.value.get_ref().as_array().ok_or_else(|| self.wrong(wanted))?;
        let part = |part: &Spanned<DeValue<'_>>| part.get_ref().as_str().map(str::to_owned);
        let command: Option<Vec<String>> = parts.iter().map(part).collect();
        let command =
            command.ok_or_else(|| self.fault(format!("{} must be {wanted}", self.place())))?;
        if command.first().is_none_or(|program| program.trim().is_empty()) {
            return Err(self.fault(format!("{} names no program", self.place())));
        }
        if command.iter().any(|part| part.contains('\0')) {
            return Err(self.fault(format!("{} contains a zero byte", self.place())));
        }
        Ok(command)
    }

    fn number(&self, range: RangeInclusive<u64>) -> Result<u64, ConfigFault> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        let number = self.value.get_ref().as_integer().ok_or_else(|| self.wrong(&wanted))?;
        let number = u64::from_str_radix(number.as_str(), number.radix()).ok();
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.fault(format!("{} must be {wanted}", self.place())))
    }

    fn flag(&self) -> Result<bool, ConfigFault> {
        self.value.get_ref().as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    fn switch(&self) -> Result<CheckpointSwitch, ConfigFault> {
        let text = self.value.get_ref().as_str().ok_or_else(|| self.wrong("\"on\" or \"off\""))?;
        text.parse().map_err(|wrong| self.fault(format!("{} is {wrong}", self.place())))
    }

    fn duration(&self, least: Duration) -> Result<Duration, ConfigFault> {
        let text = self.value.get_ref().as_str();
        let text = text.ok_or_else(|| self.wrong("a duration in quotes, such as \"90m\""))?;
        let duration = parse_duration_or_seconds(text)
            .map_err(|wrong| self.fault(format!("{}: {wrong}", self.place())))?;
        if duration < least || duration > LONGEST {
            return Err(self.fault(format!("{} must be from 1s to a year", self.place())));
        }
        Ok(duration)
    }

    /// The same key of [`WorkRules`], if it is one.
    fn rule(&self, rules: &mut WorkRules) -> Result<RuleKey, ConfigFault> {
        match self.name() {
            "check" => rules.check = Some(self.text()?),
            "attempts" => rules.attempts = Some(self.number(1..=1000)?),
            "max_duration" => rules.max_duration = Some(self.duration(SECOND)?),
            _ => return Ok(RuleKey::Other),
        }
        Ok(RuleKey::Rule)
    }

    fn agent(&self) -> Result<AgentConfig, ConfigFault> {
        let line = config_line(self.text, self.key.span().start);
        let mut agent = AgentConfig { line, ..AgentConfig::default() };
        let table = format!("agents.{}", self.name());
        for key in config_keys(self.text, Some(&table), self.table()?) {
            match key.name() {
                "command" => agent.command = key.command()?,
                "adapter" => agent.adapter = Some(key.name_of_one()?),
                _ if key.rule(&mut agent.rules)? == RuleKey::Rule => {}
                _ => return Err(key.unknown(&AGENT_KEYS)),
            }
        }
        if agent.command.is_empty() {
            return Err(self.fault(format!("[{table}] has no `command`")));
        }
        Ok(agent)
    }

    fn run(&self) -> Result<RunDefaults, ConfigFault> {
        let mut run = RunDefaults::default();
        for key in config_keys(self.text, Some("run"), self.table()?) {
            match key.name() {
                "agent" => run.agent = Some(key.name_of_one()?),
                "jobs" => run.jobs = Some(key.number(1..=64)?),
                "continue_on_error" => run.continue_on_error = Some(key.flag()?),
                "checkpoint" => run.checkpoint = Some(key.switch()?),
                "checkpoint_every" => run.checkpoint_every = Some(key.duration(SECOND)?),
                "grace" => run.grace = Some(key.duration(Duration::ZERO)?),
                _ if key.rule(&mut run.rules)? == RuleKey::Rule => {}
                _ => return Err(key.unknown(&RUN_KEYS)),
            }
        }
        if run.checkpoint == Some(CheckpointSwitch::Off) && run.checkpoint_every.is_some() {
            return Err(self.fault(
                "`checkpoint_every` in [run] has no meaning with checkpoint = \"off\"".to_owned(),
            ));
        }
        Ok(run)
    }
}

const SECOND: Duration = Duration::from_secs(1);
const AGENT_KEYS: [&str; 5] = ["command", "adapter", "check", "attempts", "max_duration"];
const RUN_KEYS: [&str; 9] = [
    "agent",
    "check",
    "attempts",
    "max_duration",
    "jobs",
    "continue_on_error",
    "checkpoint",
    "checkpoint_every",
    "grace",
];

/// Whether a key is one of [`WorkRules`].
#[derive(PartialEq, Eq)]
enum RuleKey {
    Rule,
    Other,
}

fn is_config_missing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The number of the line that a byte of a text is in.
fn config_line(text: &str, byte: usize) -> usize {
    text.get(..byte).unwrap_or_default().matches('\n').count() + 1
}

/// What a value is, with its article.
fn config_value_sort(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A text in quotes, as TOML and JSON write it.
fn quoted_config_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A duration in quotes, exactly.
fn config_duration_text(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("\"{}s\"", duration.as_secs()),
        _ => format!("\"{}ms\"", duration.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
[run]
agent = "quick"
check = "cargo test"
attempts = 4
max_duration = "8h"
jobs = 2
continue_on_error = true
checkpoint_every = "10m"
grace = "5s"

[agents.quick]
command = ["quick", "-p", "{task}"]
check = ""
max_duration = "90m"

[agents."my agent"]
command = ["./agent"]
adapter = "text"
attempts = 2
"#;

    #[test]
    fn every_key_is_read() {
        let config = RunConfig::parse(WHOLE).unwrap();
        let minutes = |minutes: u64| Some(Duration::from_secs(minutes * 60));
        assert_eq!(
            config.run,
            RunDefaults {
                agent: Some("quick".to_owned()),
                rules: WorkRules {
                    check: Some("cargo test".to_owned()),
                    attempts: Some(4),
                    max_duration: minutes(480),
                },
                jobs: Some(2),
                continue_on_error: Some(true),
                checkpoint: None,
                checkpoint_every: minutes(10),
                grace: Some(Duration::from_secs(5)),
            }
        );
        let quick = &config.agents["quick"];
        assert_eq!(quick.command, ["quick", "-p", "{task}"]);
        assert_eq!((quick.line, quick.rules.check.as_deref()), (12, Some("")));
        let mine = &config.agents["my agent"];
        assert_eq!((mine.adapter.as_deref(), mine.rules.attempts), (Some("text"), Some(2)));
        assert_eq!(RunConfig::parse("").unwrap(), RunConfig::default());
        let off = RunConfig::parse("run.checkpoint = \"off\"").unwrap();
        assert_eq!(off.run.checkpoint, Some(CheckpointSwitch::Off));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, what) in [
            (
                "[agents.x]\ncomand = [\"a\"]",
                2,
                "unknown key `comand` in [agents.x]; did you mean `command`?",
            ),
            (
                "[agents.x]\ncommand = \"a b\"",
                2,
                "`command` in [agents.x] must be a list of strings: the program, then each argument, not a string",
            ),
            (
                "[agents.x]\ncommand = [1]",
                2,
                "`command` in [agents.x] must be a list of strings: the program, then each argument",
            ),
            ("[agents.x]\ncommand = []", 2, "`command` in [agents.x] names no program"),
            ("\n[agents.x]\ncheck = \"true\"", 2, "[agents.x] has no `command`"),
            ("[agents]\nx = 1", 2, "`x` in [agents] must be a table, not a whole number"),
            (
                "[agents.x]\ncommand = [\"a\"]\nattempts = 0",
                3,
                "`attempts` in [agents.x] must be a whole number from 1 to 1000",
            ),
            (
                "[agents.x]\ncommand = [\"a\"]\nattempts = \"2\"",
                3,
                "`attempts` in [agents.x] must be a whole number from 1 to 1000, not a string",
            ),
            (
                "[run]\nmax_duration = 90",
                2,
                "`max_duration` in [run] must be a duration in quotes, such as \"90m\", not a whole number",
            ),
            (
                "[run]\nmax_duration = \"soon\"",
                2,
                "`max_duration` in [run]: invalid duration `soon` (examples: 30d, 12h, 90m)",
            ),
            (
                "[run]\nmax_duration = \"0s\"",
                2,
                "`max_duration` in [run] must be from 1s to a year",
            ),
            (
                "[run]\ncontinue_on_error = 1",
                2,
                "`continue_on_error` in [run] must be true or false, not a whole number",
            ),
            ("[run]\ncheckpoint = \"never\"", 2, "`checkpoint` in [run] is neither `on` nor `off`"),
            (
                "[run]\ncheckpoint = \"off\"\ncheckpoint_every = \"5m\"",
                1,
                "`checkpoint_every` in [run] has no meaning with checkpoint = \"off\"",
            ),
            (
                "[run]\nzzz = 1",
                2,
                "unknown key `zzz` in [run]; the keys are agent, check, attempts, max_duration, jobs, continue_on_error, checkpoint, checkpoint_every, grace",
            ),
            ("run = 3", 1, "`run` must be a table, not a whole number"),
            ("[agent.x]\ncommand = [\"a\"]", 1, "unknown key `agent`; did you mean `agents`?"),
        ] {
            let fault = RunConfig::parse(text).unwrap_err();
            assert_eq!((fault.line, fault.what.as_str()), (line, what), "{text}");
        }
        assert_eq!(RunConfig::parse("\n[run\n").unwrap_err().line, 2);
    }

    #[test]
    fn the_users_file_has_more_keys_and_none_of_its_text_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            RunConfig::of_user(&path)
        };
        let secret = "store = \"postgres://u:secret@h/d\"\ntrusted = []\n";
        assert_eq!(read(&format!("{secret}{WHOLE}")).unwrap(), {
            let mut config = RunConfig::parse(WHOLE).unwrap();
            config.agents.values_mut().for_each(|agent| agent.line += 2);
            config
        });
        for text in
            ["store = \"postgres://u:secret@h", "[run]\nattempts = \"secret\"", "secret = 1"]
        {
            let said = read(text).unwrap_err().to_string();
            assert!(said.contains("is invalid in line"), "{said}");
            assert!(text == "secret = 1" || !said.contains("secret"), "{said}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(RunConfig::of_user(&path).unwrap(), RunConfig::default());
        assert_eq!(RunConfig::of_project(&path).unwrap(), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let config = RunConfig::parse(WHOLE).unwrap();
        let mut lines = config.run.lines();
        for (name, agent) in &config.agents {
            lines.extend(agent.lines(name));
        }
        let mut again = RunConfig::parse(&lines.join("\n")).unwrap();
        for (name, agent) in &mut again.agents {
            agent.line = config.agents[name].line;
        }
        assert_eq!(again, config);
        assert!(RunDefaults::default().lines().is_empty());
        let hostile =
            AgentConfig { command: vec!["a\n\"b\u{1b}".to_owned()], ..Default::default() };
        assert_eq!(hostile.lines("x\ny")[0], r#"[agents."x\ny"]"#);
        assert_eq!(hostile.lines("x")[1], "command = [\"a\\n\\\"b\\u001b\"]");
    }
}
