//! A shell command, split into the simple commands that it consists of. Only as much of the
//! language is read as is needed to tell which programs run, and whose exit code the whole has.

use std::iter::Peekable;
use std::str::Chars;

use super::wrapper::{RESERVED, program_name, without_wrappers};

/// How a simple command is joined to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShellJoint {
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`
    Pipe,
    /// `;` or a new line
    Then,
    /// `&`
    Background,
    /// It is the last.
    End,
}

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SimpleCommand {
    /// Its words, without quotes and redirections.
    words: Vec<String>,
    joint: ShellJoint,
}

/// Whose exit code a shell command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExitSource {
    /// That of the simple command itself.
    Own,
    /// Its own if it ran, else that of one before it.
    OwnIfRun,
    /// 0 if this one and others succeeded.
    Shared,
    /// That of another: the exit code says nothing.
    Hidden,
}

/// How much of the output of a simple command is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OutputCut {
    Whole,
    /// Its end is there, as with `tail`.
    End,
    /// Any part may be missing, as with `head` and `grep`.
    Part,
}

/// A simple command as a part of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShellRun {
    pub(super) words: Vec<String>,
    pub(super) exit: ExitSource,
    pub(super) cut: OutputCut,
}

/// A command as a shell reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ShellScript {
    /// In order.
    commands: Vec<SimpleCommand>,
    /// `set -e`
    stops_at_failure: bool,
    /// `set -o pipefail`
    pipes_fail: bool,
}

/// Commands that do not fail.
const HARMLESS: &[&str] =
    &["echo", "printf", "export", "unset", "set", "true", ":", "pwd", "umask"];
const SHELLS: &[&str] = &["sh", "bash", "zsh", "dash"];
/// The most simple commands of a script that is read.
const COMMANDS: usize = 256;
/// How deep scripts within scripts are read.
const NESTED: usize = 3;

impl ShellScript {
    /// Reads a script. `None` for what is not read: here-documents, open quotes, arrays, functions.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut script = Self::default();
        let mut lexer = ShellLexer::default();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '\'' => {
                    lexer.begin();
                    loop {
                        match rest.next()? {
                            '\'' => break,
                            c => lexer.word.push(c),
                        }
                    }
                }
                '"' => {
                    lexer.begin();
                    loop {
                        match rest.next()? {
                            '"' => break,
                            '`' => while rest.next()? != '`' {},
                            '$' if rest.next_if_eq(&'(').is_some() => {
                                skip_substitution(&mut rest)?;
                            }
                            '\\' => match rest.next()? {
                                '\n' => {}
                                c @ ('"' | '\\' | '$' | '`') => lexer.word.push(c),
                                c => lexer.word.extend(['\\', c]),
                            },
                            c => lexer.word.push(c),
                        }
                    }
                }
                '\\' => match rest.next() {
                    Some('\n') | None => {}
                    Some(c) => {
                        lexer.begin();
                        lexer.word.push(c);
                    }
                },
                '`' => {
                    lexer.begin();
                    while rest.next()? != '`' {}
                }
                '$' if rest.next_if_eq(&'(').is_some() => {
                    lexer.begin();
                    skip_substitution(&mut rest)?;
                }
                '#' if !lexer.open => while rest.next_if(|c| *c != '\n').is_some() {},
                ' ' | '\t' | '\r' => lexer.end_word(),
                // An array or a function.
                '(' if lexer.open => return None,
                '(' | ')' => lexer.end_word(),
                '<' if rest.peek() == Some(&'<') => return None,
                '<' | '>' => {
                    lexer.redirect();
                    while rest.next_if(|c| matches!(c, '>' | '&' | '|')).is_some() {}
                    if rest.peek() == Some(&'(') {
                        return None;
                    }
                }
                '&' if rest.peek() == Some(&'>') => {
                    lexer.redirect();
                    while rest.next_if(|c| *c == '>').is_some() {}
                }
                '&' if rest.next_if_eq(&'&').is_some() => lexer.end_command(ShellJoint::And),
                '&' => lexer.end_command(ShellJoint::Background),
                '|' if rest.next_if_eq(&'|').is_some() => lexer.end_command(ShellJoint::Or),
                '|' => {
                    let _ = rest.next_if_eq(&'&');
                    lexer.end_command(ShellJoint::Pipe);
                }
                ';' | '\n' => lexer.end_command(ShellJoint::Then),
                c => {
                    lexer.begin();
                    lexer.word.push(c);
                }
            }
        }
        lexer.end_command(ShellJoint::End);
        if lexer.commands.len() > COMMANDS {
            return None;
        }
        script.commands = lexer.commands;
        // A last `;` joins to nothing; a last `&` still does not wait.
        if let Some(last) = script.commands.last_mut()
            && last.joint != ShellJoint::Background
        {
            last.joint = ShellJoint::End;
        }
        script.read_settings();
        Some(script)
    }

    /// A program that is run without a shell.
    pub(super) fn of_words(words: Vec<String>) -> Self {
        let commands = vec![SimpleCommand { words, joint: ShellJoint::End }];
        Self { commands, ..Self::default() }
    }

    /// The simple commands, with those of the scripts that `sh -c` runs.
    pub(super) fn runs(&self) -> Vec<ShellRun> {
        let mut runs = Vec::new();
        self.collect_runs(ExitSource::Own, OutputCut::Whole, NESTED, &mut runs);
        runs
    }

    fn collect_runs(
        &self,
        exit: ExitSource,
        cut: OutputCut,
        nested: usize,
        runs: &mut Vec<ShellRun>,
    ) {
        for (at, command) in self.commands.iter().enumerate() {
            let exit = exit.max(self.exit_source(at));
            let cut = cut.max(self.output_cut(at));
            let words = without_wrappers(&command.words).unwrap_or_default();
            match inner_script(words).filter(|_| nested > 0) {
                Some(inner) => inner.collect_runs(exit, cut, nested - 1, runs),
                None => runs.push(ShellRun { words: words.to_vec(), exit, cut }),
            }
        }
    }

    fn read_settings(&mut self) {
        for command in &self.commands {
            if let Some(("set", flags)) =
                command.words.split_first().map(|(first, rest)| (first.as_str(), rest))
            {
                for flag in flags {
                    self.pipes_fail |= flag == "pipefail";
                    self.stops_at_failure |= is_short_flag(flag, 'e');
                }
            }
        }
    }

    /// Whose exit code the script has, seen from the command at this place.
    fn exit_source(&self, at: usize) -> ExitSource {
        let mut source = ExitSource::Own;
        let mut raise = |to: ExitSource| source = source.max(to);
        let joints = |from: usize| self.commands.iter().skip(from).map(|command| command.joint);
        let mut in_pipe = true;
        for joint in joints(at) {
            match joint {
                ShellJoint::End => break,
                ShellJoint::Pipe if in_pipe && !self.pipes_fail => raise(ExitSource::Hidden),
                ShellJoint::And | ShellJoint::Pipe => raise(ExitSource::Shared),
                ShellJoint::Then if self.stops_at_failure => raise(ExitSource::Shared),
                ShellJoint::Or | ShellJoint::Then | ShellJoint::Background => {
                    raise(ExitSource::Hidden);
                }
            }
            in_pipe &= joint == ShellJoint::Pipe;
        }
        for before in self.commands.iter().take(at).rev() {
            let program = before.words.first().map_or("", String::as_str);
            match before.joint {
                ShellJoint::Or => raise(ExitSource::Hidden),
                ShellJoint::And if !HARMLESS.contains(&program) => raise(ExitSource::OwnIfRun),
                ShellJoint::Then if self.stops_at_failure && !HARMLESS.contains(&program) => {
                    raise(ExitSource::OwnIfRun);
                }
                ShellJoint::Then if !self.stops_at_failure => break,
                ShellJoint::Background => break,
                _ => {}
            }
        }
        let reserved = |command: &SimpleCommand| {
            command.words.first().is_some_and(|word| RESERVED.contains(&word.as_str()))
        };
        if self.commands.iter().any(reserved) {
            raise(ExitSource::Hidden);
        }
        source
    }

    /// How much is left of the output of the command at this place, behind its pipes.
    fn output_cut(&self, at: usize) -> OutputCut {
        let pipes = self.commands.iter().skip(at);
        let piped = pipes.clone().take_while(|command| command.joint == ShellJoint::Pipe).count();
        let filters = pipes.skip(1).take(piped);
        let cuts =
            filters.map(|filter| match filter.words.first().map(|word| program_name(word)) {
                Some("cat" | "tee") => OutputCut::Whole,
                Some("tail") => OutputCut::End,
                _ => OutputCut::Part,
            });
        cuts.max().unwrap_or(OutputCut::Whole)
    }
}

/// Passes over the rest of `$(…)`. `None` for a here-document in it.
fn skip_substitution(rest: &mut Peekable<Chars<'_>>) -> Option<()> {
    let mut depth = 1_usize;
    while depth > 0 {
        match rest.next()? {
            '(' => depth += 1,
            ')' => depth -= 1,
            '\'' => while rest.next()? != '\'' {},
            '"' => loop {
                match rest.next()? {
                    '"' => break,
                    '\\' => {
                        rest.next()?;
                    }
                    _ => {}
                }
            },
            '\\' => {
                rest.next()?;
            }
            '<' if rest.peek() == Some(&'<') => return None,
            _ => {}
        }
    }
    Some(())
}

/// Is this a group of short flags with this letter, as `-eu` is with `e`?
fn is_short_flag(flag: &str, letter: char) -> bool {
    flag.starts_with('-') && !flag.starts_with("--") && flag.contains(letter)
}

/// The script of `bash -lc SCRIPT`.
fn inner_script(words: &[String]) -> Option<ShellScript> {
    let (program, arguments) = words.split_first()?;
    if !SHELLS.contains(&program_name(program)) {
        return None;
    }
    let mut pipes_fail = false;
    let mut stops_at_failure = false;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if !argument.starts_with('-') {
            return None;
        }
        stops_at_failure |= is_short_flag(argument, 'e');
        if is_short_flag(argument, 'o') {
            pipes_fail |= arguments.next().is_some_and(|name| name == "pipefail");
        }
        if is_short_flag(argument, 'c') {
            let mut inner = ShellScript::parse(arguments.next()?)?;
            inner.pipes_fail |= pipes_fail;
            inner.stops_at_failure |= stops_at_failure;
            return Some(inner);
        }
    }
    None
}

/// The command being read.
#[derive(Default)]
struct ShellLexer {
    commands: Vec<SimpleCommand>,
    words: Vec<String>,
    word: String,
    /// A word has begun, and may be empty.
    open: bool,
    /// The next word is the target of a redirection.
    is_target: bool,
}

impl ShellLexer {
    fn begin(&mut self) {
        self.open = true;
    }

    fn end_word(&mut self) {
        if std::mem::take(&mut self.open) {
            let word = std::mem::take(&mut self.word);
            if !std::mem::take(&mut self.is_target) {
                self.words.push(word);
            }
        }
    }

    /// A number before a redirection is a part of it.
    fn redirect(&mut self) {
        if !self.word.is_empty() && self.word.chars().all(|c| c.is_ascii_digit()) {
            self.word.clear();
            self.open = false;
        }
        self.end_word();
        self.is_target = true;
    }

    fn end_command(&mut self, joint: ShellJoint) {
        self.end_word();
        self.is_target = false;
        if !self.words.is_empty() {
            self.commands.push(SimpleCommand { words: std::mem::take(&mut self.words), joint });
        }
    }
}
