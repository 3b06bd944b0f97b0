//! What a search may ask of an event beside its words: who said it, whether it is a result that
//! failed, and the commands of its shell calls.

use serde::{Deserialize, Serialize};

use super::words::{PARTS_END, folded_words};
use super::{HistoryQuery, SearchTerm};
use crate::message::{
    CallPiece, MessagePiece, PieceContent, RecordedMessage, ResultPiece, ShellOutcome, Speaker,
    shell_command,
};
use crate::{Event, Kind, Payload};

/// The most bytes of a command that is searched.
const COMMAND_BYTES: usize = 4096;
/// The most bytes of a command that is kept until its result comes.
const WAITING_BYTES: usize = 256;
/// The most commands that are kept.
const WAITING: usize = 16;
/// The longest id of a call.
const ID_BYTES: usize = 128;
/// The most bytes of an output in which an exit code is looked for.
const OUTPUT_BYTES: usize = 1 << 16;

/// The first characters of words that no text has: of a trait; of a command; of the command that a
/// result answers.
const TRAIT: char = '\u{e001}';
const COMMAND: char = '\u{e002}';
const ANSWERED: char = '\u{e003}';

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchRole {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool: its results.
    Tool,
}

impl SearchRole {
    /// The role of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::User, Self::Assistant, Self::Tool].into_iter().find(|role| role.as_str() == name)
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// The commands of the last shell calls that have no result yet: call and command.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitingCommands(Vec<(String, String)>);

impl WaitingCommands {
    /// Without any.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes the calls and results of the next event.
    pub fn note(&mut self, traits: &EventTraits) {
        for id in &traits.answered {
            self.0.retain(|(waiting, _)| waiting != id);
        }
        for (id, command) in &traits.called {
            self.0.retain(|(waiting, _)| waiting != id);
            self.0.push((id.clone(), command.clone()));
        }
        self.0.drain(..self.0.len().saturating_sub(WAITING));
    }

    fn of(&self, call: &str) -> Option<&str> {
        self.0.iter().find(|(id, _)| id == call).map(|(_, command)| command.as_str())
    }
}

/// What a search may ask of an event beside its words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventTraits {
    roles: Vec<SearchRole>,
    failed: bool,
    commands: String,
    answered_commands: String,
    called: Vec<(String, String)>,
    answered: Vec<String>,
}

impl EventTraits {
    /// The traits of an event that follows these commands.
    #[must_use]
    pub fn of(event: &Event, waiting: &WaitingCommands) -> Self {
        let mut traits = Self::default();
        let Some(data) = &event.data else { return traits };
        if event.kind == Kind::MESSAGE_ADDED {
            traits.add_message(data, waiting);
        } else if event.kind == Kind::TOOL_CALLED {
            traits.say(SearchRole::Assistant);
            CallPiece::begun(data).iter().for_each(|call| traits.add_call(call));
        } else if event.kind == Kind::TOOL_FINISHED {
            traits.say(SearchRole::Tool);
            ResultPiece::finished(data)
                .iter()
                .for_each(|result| traits.add_result(result, waiting));
        }
        traits
    }

    /// Whether it is a result that failed.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        self.failed
    }

    /// Words for them that no text has, separated by one space: what an index stores.
    #[must_use]
    pub fn words(&self) -> String {
        let mut out = String::new();
        for role in &self.roles {
            push_marked_word(&mut out, TRAIT, role.as_str());
        }
        if self.failed {
            push_marked_word(&mut out, TRAIT, "failed");
        }
        for (mark, commands) in [(COMMAND, &self.commands), (ANSWERED, &self.answered_commands)] {
            for command in commands.split('\0').filter(|command| !command.is_empty()) {
                for word in folded_words(command, 2 * COMMAND_BYTES).split(' ') {
                    push_marked_word(&mut out, mark, word);
                }
                out.push(' ');
                out.push_str(PARTS_END);
            }
        }
        out
    }

    fn say(&mut self, role: SearchRole) {
        if !self.roles.contains(&role) {
            self.roles.push(role);
        }
    }

    fn add_message(&mut self, data: &Payload, waiting: &WaitingCommands) {
        // Most messages have neither calls nor results: what they say of themselves is enough.
        let text = data.as_str();
        let has_calls = ["\"tool", "call\"", "call_id"].iter().any(|name| text.contains(name));
        if !has_calls {
            let speaker = data.field("role").map(|role| role.trim_matches('"'));
            match speaker {
                Some("user") => self.say(SearchRole::User),
                Some("assistant" | "model") => self.say(SearchRole::Assistant),
                _ => {}
            }
            return;
        }
        let Some(message) = RecordedMessage::of(data) else { return };
        let speaker = match (message.speaker(), message.role.as_str()) {
            (Speaker::Assistant, _) => Some(SearchRole::Assistant),
            (Speaker::User, "tool") => Some(SearchRole::Tool),
            (Speaker::User, _) => Some(SearchRole::User),
            (Speaker::Instructions, _) => None,
        };
        for piece in &message.pieces {
            match &piece.sort {
                PieceContent::Result(result) => {
                    self.say(SearchRole::Tool);
                    self.add_result(result, waiting);
                }
                PieceContent::Call(call) => {
                    self.say(SearchRole::Assistant);
                    self.add_call(call);
                }
                _ => speaker.into_iter().for_each(|role| self.say(role)),
            }
        }
    }

    fn add_call(&mut self, call: &CallPiece) {
        let Some(command) = shell_command(call) else { return };
        push_command(&mut self.commands, cut_at(&command, COMMAND_BYTES));
        if !call.id.is_empty() && call.id.len() <= ID_BYTES {
            self.called.push((call.id.clone(), cut_at(&command, WAITING_BYTES).to_owned()));
        }
    }

    fn add_result(&mut self, result: &ResultPiece, waiting: &WaitingCommands) {
        self.failed |= result.ok == Some(false);
        let Some(command) = waiting.of(&result.id) else { return };
        push_command(&mut self.answered_commands, command);
        self.answered.push(result.id.clone());
        if !self.failed {
            let output = result_text(&result.pieces);
            let exit = ShellOutcome::of(&output).and_then(|outcome| outcome.exit);
            self.failed = exit.is_some_and(|exit| exit != 0);
        }
    }
}

impl HistoryQuery {
    /// What is asked of an event beside its words, as searches for [`EventTraits::words`]: one of
    /// each list must be found.
    #[must_use]
    pub fn trait_terms(&self) -> Vec<Vec<SearchTerm>> {
        let of_trait = |name: &str| vec![marked_term(TRAIT, &[name.to_owned()], false)];
        let mut terms: Vec<Vec<SearchTerm>> = Vec::new();
        terms.extend(self.role.map(|role| of_trait(role.as_str())));
        terms.extend(self.failed.then(|| of_trait("failed")));
        // By itself it finds calls; with something else, their results too.
        let is_alone = terms.is_empty() && self.search.is_none();
        let marks = if is_alone { &[COMMAND][..] } else { &[COMMAND, ANSWERED] };
        for term in self.command.iter().flat_map(|command| command.terms()) {
            let marked = |mark: &char| marked_term(*mark, &term.words, term.prefix);
            terms.push(marks.iter().map(marked).collect());
        }
        terms
    }

    /// Do the words of an event's traits match?
    #[must_use]
    pub fn fits_traits(&self, words: &str) -> bool {
        let words: Vec<&str> = words.split(' ').collect();
        self.trait_terms().iter().all(|any| any.iter().any(|term| term.is_in(&words)))
    }
}

fn marked_term(mark: char, words: &[String], prefix: bool) -> SearchTerm {
    SearchTerm { words: words.iter().map(|word| format!("{mark}{word}")).collect(), prefix }
}

fn push_marked_word(out: &mut String, mark: char, word: &str) {
    if word.is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push(' ');
    }
    out.push(mark);
    out.push_str(word);
}

fn push_command(out: &mut String, command: &str) {
    out.extend(command.chars().filter(|c| *c != '\0'));
    out.push('\0');
}

fn cut_at(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

/// The text of a result, as far as an exit code is looked for in it.
fn result_text(pieces: &[MessagePiece]) -> String {
    let mut out = String::new();
    for piece in pieces {
        if let PieceContent::Text(text) = &piece.sort {
            let text = text.decoded();
            if out.len() + text.len() > OUTPUT_BYTES {
                // In some wrappings it comes last, but not behind so much.
                out.push_str(cut_at(&text, OUTPUT_BYTES.saturating_sub(out.len())));
                break;
            }
            out.push_str(&text);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewEvent, Search, Seq, Timestamp};

    /// Which of the events fit, with the commands that wait before each.
    fn fitting(lines: &[&str], query: &HistoryQuery) -> Vec<usize> {
        let mut waiting = WaitingCommands::default();
        let mut found = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let event = NewEvent::parse(line).unwrap();
            let event = event.into_event(Seq(index as u64 + 1), Timestamp::from_millis(0));
            let traits = EventTraits::of(&event, &waiting);
            waiting.note(&traits);
            if query.fits_traits(&traits.words()) {
                found.push(index);
            }
        }
        found
    }

    const LINES: [&str; 9] = [
        r#"{"kind":"message.added","data":{"role":"user","content":"run cargo test"}}"#,
        r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"text","text":"I run ls"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cargo test --all"}}]}}"#,
        r#"{"kind":"message.added","data":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"Exit code 101\nit broke"}]}}"#,
        r#"{"kind":"tool.called","data":{"call":"c","name":"bash","arguments":{"command":"ls -l"}}}"#,
        r#"{"kind":"tool.finished","data":{"call":"c","ok":true,"result":"two files"}}"#,
        r#"{"kind":"tool.finished","data":{"call":"d","ok":false,"result":"no such file"}}"#,
        r#"{"kind":"message.added","data":{"role":"system","content":"be brief"}}"#,
        r#"{"kind":"tool.called","data":{"call":"e","name":"read","arguments":{"path":"a","command":"view"}}}"#,
        r#"{"kind":"message.added","data":{"role":"tool","tool_call_id":"e","content":"Exit code 3\nis what the file says"}}"#,
    ];

    #[test]
    fn who_said_it_and_what_failed_are_told() {
        let role = |role| HistoryQuery { role: Some(role), ..HistoryQuery::default() };
        assert_eq!(fitting(&LINES, &role(SearchRole::User)), [0]);
        assert_eq!(fitting(&LINES, &role(SearchRole::Assistant)), [1, 3, 7]);
        assert_eq!(fitting(&LINES, &role(SearchRole::Tool)), [2, 4, 5, 8]);
        let failed = HistoryQuery { failed: true, ..HistoryQuery::default() };
        assert_eq!(fitting(&LINES, &failed), [2, 5], "only the output of a shell has an exit code");
    }

    #[test]
    fn a_command_is_found_in_calls_and_with_more_in_their_results() {
        let command = |text: &str, failed| {
            let command = Some(Search::parse(text).unwrap());
            HistoryQuery { command, failed, ..HistoryQuery::default() }
        };
        assert_eq!(fitting(&LINES, &command("\"cargo test\"", false)), [1]);
        assert_eq!(fitting(&LINES, &command("ls", false)), [3]);
        assert_eq!(fitting(&LINES, &command("carg*", true)), [2]);
        assert_eq!(fitting(&LINES, &command("ls", true)), Vec::<usize>::new());
        assert_eq!(fitting(&LINES, &command("view", false)), Vec::<usize>::new());
        let said = HistoryQuery {
            search: Some(Search::parse("broke").unwrap()),
            ..command("--all", false)
        };
        assert_eq!(fitting(&LINES, &said), [1, 2]);
    }

    #[test]
    fn few_commands_wait() {
        let mut waiting = WaitingCommands::default();
        for call in 0..100 {
            let called = vec![(format!("c{call}"), "x".to_owned())];
            waiting.note(&EventTraits { called, ..EventTraits::default() });
        }
        assert_eq!(
            (waiting.0.len(), waiting.of("c99"), waiting.of("c0")),
            (WAITING, Some("x"), None)
        );
        let answered = vec!["c99".to_owned()];
        waiting.note(&EventTraits { answered, ..EventTraits::default() });
        assert_eq!((waiting.0.len(), waiting.of("c99")), (WAITING - 1, None));
    }
}
