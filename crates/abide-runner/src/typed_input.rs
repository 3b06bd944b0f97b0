//! What the person at an agent's terminal types: lines out of keys, and their echo.

use std::collections::VecDeque;

use abide::secrets::Redactor;

use crate::redacted_output::uncut_head;

/// The most bytes of a line, and of an echo that is waited for.
const MOST: usize = 64 << 10;

/// Who shows what is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypedEcho {
    /// The terminal, so that it comes back in the output.
    Terminal,
    /// The agent, which reads key by key.
    Agent,
    /// Nobody: it is a password.
    Hidden,
}

/// Turns keys into the lines that are entered.
///
/// Backspace, Ctrl-U, Ctrl-W and Ctrl-C have their usual effect. Cursor keys have none, so a line
/// that is edited in its middle is recorded as it was typed. A paste is one line, with its line
/// breaks.
#[derive(Debug, Default)]
pub(crate) struct TypedInput {
    line: Vec<u8>,
    /// Bytes of the line that were left out.
    left_out: usize,
    state: KeyState,
    /// A paste has begun and not ended.
    pasting: bool,
    /// What the terminal will print because of what was typed.
    echo: VecDeque<u8>,
    /// Knows where a line that is too long may be cut.
    redactor: Option<Redactor>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum KeyState {
    #[default]
    Text,
    /// After an escape.
    Escape,
    /// In `ESC [ …`, with what came so far.
    Sequence(Vec<u8>),
    /// After `ESC O`.
    Function,
    /// In an answer of the terminal's, `ESC ]`, `ESC P`, `ESC _`, `ESC ^` or `ESC X`, with the number
    /// of its bytes; `ended` after an escape, which may end it.
    Answer { bytes: usize, ended: bool },
    /// In the three bytes of an old mouse report, with how many are left.
    Mouse(u8),
}

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
/// The most bytes of an answer of the terminal's.
const LONGEST_ANSWER: usize = 4096;
const PASTE: &[u8] = b"200~";
const PASTE_END: &[u8] = b"201~";

impl TypedInput {
    pub(crate) fn new(redactor: Option<&Redactor>) -> Self {
        Self { redactor: redactor.cloned(), ..Self::default() }
    }

    /// Adds keys; returns the lines that they complete, without blank ones.
    pub(crate) fn typed(&mut self, bytes: &[u8], echo: TypedEcho) -> Vec<String> {
        if echo == TypedEcho::Hidden {
            // Nothing of it is kept, nor what was typed ahead of it.
            *self = Self { redactor: self.redactor.take(), ..Self::default() };
            return Vec::new();
        }
        let mut lines = Vec::new();
        for byte in bytes {
            if echo == TypedEcho::Terminal {
                self.expect(*byte);
            }
            lines.extend(self.key(*byte));
        }
        lines
    }

    /// What was printed, without the echo of what was typed.
    pub(crate) fn without_echo<'a>(&mut self, printed: &'a [u8]) -> &'a [u8] {
        let mut rest = printed;
        while let (Some(expected), Some((byte, behind))) = (self.echo.front(), rest.split_first()) {
            if expected != byte {
                // The agent prints something at the same time.
                self.echo.clear();
                break;
            }
            self.echo.pop_front();
            rest = behind;
        }
        rest
    }

    fn key(&mut self, byte: u8) -> Option<String> {
        match std::mem::take(&mut self.state) {
            KeyState::Text => return self.text(byte),
            KeyState::Escape => match byte {
                b'[' => self.state = KeyState::Sequence(Vec::new()),
                b'O' => self.state = KeyState::Function,
                b']' | b'P' | b'_' | b'^' | b'X' => {
                    self.state = KeyState::Answer { bytes: 0, ended: false };
                }
                // Alt-Enter.
                b'\r' | b'\n' => self.push(b'\n'),
                ESCAPE => self.state = KeyState::Escape,
                _ => {}
            },
            KeyState::Sequence(mut all) => {
                all.push(byte);
                match byte {
                    b'M' if all.len() == 1 => self.state = KeyState::Mouse(3),
                    b'@'..=b'~' if all == PASTE => self.pasting = true,
                    b'@'..=b'~' if all == PASTE_END => self.pasting = false,
                    b'@'..=b'~' => {}
                    _ if all.len() < 32 => self.state = KeyState::Sequence(all),
                    _ => {}
                }
            }
            KeyState::Function => {}
            KeyState::Answer { ended: true, .. } if byte == b'\\' => {}
            KeyState::Answer { .. } if byte == BELL => {}
            KeyState::Answer { bytes, .. } if bytes < LONGEST_ANSWER => {
                self.state = KeyState::Answer { bytes: bytes + 1, ended: byte == ESCAPE };
            }
            KeyState::Answer { .. } => {}
            KeyState::Mouse(left) if left > 1 => self.state = KeyState::Mouse(left - 1),
            KeyState::Mouse(_) => {}
        }
        None
    }

    fn text(&mut self, byte: u8) -> Option<String> {
        match byte {
            ESCAPE => self.state = KeyState::Escape,
            b'\r' | b'\n' if self.pasting => self.push(b'\n'),
            b'\r' | b'\n' => return self.enter(),
            0x7f | 0x08 => self.erase_character(),
            // Ctrl-U, Ctrl-C
            0x15 | 0x03 => self.clear(),
            // Ctrl-W
            0x17 => {
                while self.line.last().is_some_and(u8::is_ascii_whitespace) {
                    self.line.pop();
                }
                while self.line.last().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                    self.line.pop();
                }
            }
            b'\t' => self.push(byte),
            0..0x20 => {}
            _ => self.push(byte),
        }
        None
    }

    fn push(&mut self, byte: u8) {
        if self.line.len() < MOST {
            self.line.push(byte);
        } else {
            self.left_out += 1;
        }
    }

    fn erase_character(&mut self) {
        while self.line.pop().is_some_and(|byte| matches!(byte, 0x80..=0xbf)) {}
    }

    fn clear(&mut self) {
        self.line.clear();
        self.left_out = 0;
    }

    fn enter(&mut self) -> Option<String> {
        let mut line = String::from_utf8_lossy(&self.line).trim().to_owned();
        if self.left_out > 0 {
            let (kept, cut) = uncut_head(self.redactor.as_ref(), &line);
            line = format!("{kept}… [{} bytes left out]", self.left_out + cut);
        }
        self.clear();
        (!line.is_empty()).then_some(line)
    }

    /// Notes what the terminal prints for a key.
    fn expect(&mut self, byte: u8) {
        match byte {
            b'\r' | b'\n' => self.echo.extend(b"\r\n"),
            0x7f if self.line.is_empty() => {}
            0x7f if self.line.last().is_some_and(u8::is_ascii) => self.echo.extend(b"\x08 \x08"),
            b' '..=0x7e | 0x80.. if self.state == KeyState::Text => self.echo.push_back(byte),
            // How it is shown depends on the terminal's settings.
            _ => self.echo.clear(),
        }
        if self.echo.len() > MOST {
            self.echo.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(keys: &str, echo: TypedEcho) -> Vec<String> {
        let mut input = TypedInput::default();
        keys.as_bytes().chunks(1).flat_map(|key| input.typed(key, echo)).collect()
    }

    #[test]
    fn keys_make_lines() {
        for (keys, made) in [
            ("yes\r", &["yes"][..]),
            ("\r\n  \r", &[]),
            ("grö\u{7f}öße 😀x\u{8}\r", &["größe 😀"]),
            ("one two\u{17}three\r\u{15}x\u{15}y\r", &["one three", "y"]),
            ("no\u{3}\r", &[]),
            ("a\u{1b}[Db\u{1b}OA\u{1b}[1;5Cc\r", &["abc"]),
            ("\u{1b}[200~one\rtwo\u{1b}[201~ three\r", &["one\ntwo three"]),
            ("one\u{1b}\rtwo\r", &["one\ntwo"]),
            ("\u{1b}]11;rgb:1e1e/1e1e/2e2e\u{1b}\\fix it\r", &["fix it"]),
            ("\u{1b}]11;rgb:1e1e\u{7}\u{1b}P>|x\u{1b}\\\u{1b}[M !!go\r", &["go"]),
            ("not entered", &[]),
        ] {
            for echo in [TypedEcho::Terminal, TypedEcho::Agent] {
                assert_eq!(lines(keys, echo), made, "{keys:?}");
            }
            assert!(lines(keys, TypedEcho::Hidden).is_empty());
        }
    }

    #[test]
    fn what_is_hidden_leaves_nothing() {
        let mut input = TypedInput::default();
        assert!(input.typed(b"typed ahead", TypedEcho::Agent).is_empty());
        assert!(input.typed(b"secret\r", TypedEcho::Hidden).is_empty());
        assert_eq!(input.typed(b"seen\r", TypedEcho::Terminal), ["seen"]);
    }

    #[test]
    fn an_echo_is_left_out_and_nothing_else() {
        let printed = |keys: &[u8], echo, output: &[u8]| {
            let mut input = TypedInput::default();
            input.typed(keys, echo);
            String::from_utf8(input.without_echo(output).to_vec()).unwrap()
        };
        let terminal = TypedEcho::Terminal;
        assert_eq!(printed(b"ab\r", terminal, b"ab\r\nab again"), "ab again");
        assert_eq!(printed(b"ac\x7fb\r", terminal, b"ac\x08 \x08b\r\nok"), "ok");
        assert_eq!(printed(b"ab\r", TypedEcho::Agent, b"ab\r\n"), "ab\r\n");
        assert_eq!(printed(b"ab\r", terminal, b"log\nab\r\n"), "log\nab\r\n");
        assert_eq!(printed(b"\x1b[A", terminal, b"^[[A"), "^[[A");
    }

    #[test]
    fn a_line_is_bounded() {
        let all = lines(&format!("{}\r", "x".repeat(MOST + 10)), TypedEcho::Terminal);
        assert_eq!(all, [format!("{}… [10 bytes left out]", "x".repeat(MOST))]);
    }

    #[test]
    fn a_line_is_not_cut_within_a_secret() {
        let token = crate::redacted_output::tests::token();
        let line = format!("{}{token}", "word ".repeat(MOST / 5 - 4));
        let redactor = crate::redacted_output::tests::redactor();
        let mut input = TypedInput::new(Some(&redactor));
        let lines = input.typed(format!("{line}\r").as_bytes(), TypedEcho::Agent);
        assert!(lines[0].ends_with(" bytes left out]") && !lines[0].contains("ghp_"));
        assert!(lines[0].len() + 1000 > MOST, "{}", lines[0].len());
    }
}
