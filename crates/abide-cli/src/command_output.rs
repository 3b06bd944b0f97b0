//! Output: data to stdout, status to stderr, escaped if a terminal shows it.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use crate::answer_json::numbered;
use crate::error::CommandError;
use abide_transcript::escape;

/// Writes the data of a command.
pub(crate) struct CommandOutput {
    out: BufWriter<Stdout>,
    terminal: bool,
}

impl CommandOutput {
    /// Writes to stdout. Data may stay in a buffer until [`CommandOutput::flush`].
    pub(crate) fn stdout() -> Self {
        let out = io::stdout();
        Self { terminal: out.is_terminal(), out: BufWriter::with_capacity(64 << 10, out) }
    }

    /// Is the output a terminal?
    pub(crate) const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes a line of text. Recorded text in it must already be escaped.
    pub(crate) fn line(&mut self, line: impl Display) -> Result<(), CommandError> {
        Ok(writeln!(self.out, "{line}")?)
    }

    /// Writes an answer of abide's own as a line of JSON, with the number of its schema. Escaped for
    /// a terminal.
    pub(crate) fn json(&mut self, json: &str) -> Result<(), CommandError> {
        self.verbatim_json(&numbered(json))
    }

    /// Writes JSON that is not abide's own as a line: a recorded event, a request to a model. As it
    /// is, or escaped for a terminal.
    pub(crate) fn verbatim_json(&mut self, json: &str) -> Result<(), CommandError> {
        if self.terminal {
            return self.line(escape::json(json));
        }
        self.out.write_all(json.as_bytes())?;
        Ok(self.out.write_all(b"\n")?)
    }

    /// Writes raw bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        Ok(self.out.write_all(bytes)?)
    }

    /// Flushes the buffer.
    pub(crate) fn flush(&mut self) -> Result<(), CommandError> {
        Ok(self.out.flush()?)
    }
}

/// Writes raw bytes.
impl Write for CommandOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The width of the terminal at stdout in characters; `None` if there is no terminal, or if it is
/// too narrow to matter.
pub(crate) fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width >= 40)
}

/// A path of bytes, escaped for a terminal.
pub(crate) fn shown(path: &[u8]) -> String {
    escape::text(&String::from_utf8_lossy(path)).into_owned()
}

/// Prints a status line on stderr.
pub(crate) fn status(text: impl Display) {
    print_to_stderr("", &text);
}

/// Prints a warning on stderr.
pub(crate) fn warning(text: impl Display) {
    print_to_stderr("Warning: ", &text);
}

fn print_to_stderr(prefix: &str, text: &dyn Display) {
    let text = text.to_string();
    // If stderr is gone, there is nobody to tell.
    let _ = writeln!(io::stderr(), "{prefix}{}", escape::lines(&text));
}
