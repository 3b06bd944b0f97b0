//! Strips terminal escape sequences from text.

/// Strips escape sequences and control characters from output, split anywhere.
///
/// The result keeps `\n` and `\t`, and `\r` for the caller to interpret. Bytes that are not UTF-8
/// are kept.
#[derive(Debug, Default)]
pub(crate) struct EscapeStripper {
    state: EscapeState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum EscapeState {
    #[default]
    Text,
    /// After an escape.
    Escape,
    /// In `ESC [ …`, until a byte from `@` to `~`.
    Sequence,
    /// In `ESC ] …` and similar, until a bell or `ESC \`.
    Command,
    /// In such a command, after an escape.
    CommandEscape,
}

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

impl EscapeStripper {
    /// Gives each run of bytes that is left.
    pub(crate) fn strip(&mut self, bytes: &[u8], give: &mut dyn FnMut(&[u8])) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.state == EscapeState::Text {
                let end = rest.iter().position(|byte| is_control(*byte)).unwrap_or(rest.len());
                let (text, behind) = rest.split_at(end);
                if !text.is_empty() {
                    give(text);
                }
                rest = behind;
            }
            let Some((byte, behind)) = rest.split_first() else { return };
            self.state = next_escape_state(self.state, *byte);
            // A line feed inside an escape sequence means it was not one.
            if *byte == b'\n' && self.state != EscapeState::Text {
                self.state = EscapeState::Text;
                give(b"\n");
            }
            rest = behind;
        }
    }

    /// All of a text at once.
    pub(crate) fn of(text: &str) -> String {
        let mut out = Vec::with_capacity(text.len());
        Self::default().strip(text.as_bytes(), &mut |run| out.extend_from_slice(run));
        String::from_utf8_lossy(&out).into_owned()
    }
}

fn is_control(byte: u8) -> bool {
    (byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t')) || byte == 0x7f
}

fn next_escape_state(state: EscapeState, byte: u8) -> EscapeState {
    match (state, byte) {
        (EscapeState::Text, ESCAPE) => EscapeState::Escape,
        (EscapeState::Text, _) => EscapeState::Text,
        (EscapeState::Escape, b'[') => EscapeState::Sequence,
        (EscapeState::Escape, b']' | b'P' | b'X' | b'^' | b'_') => EscapeState::Command,
        // Intermediate bytes, as in `ESC ( B`.
        (EscapeState::Escape, b' '..=b'/') => EscapeState::Escape,
        (EscapeState::Escape | EscapeState::Sequence | EscapeState::CommandEscape, ESCAPE) => {
            EscapeState::Escape
        }
        (EscapeState::Escape, _) => EscapeState::Text,
        (EscapeState::Sequence, b'@'..=b'~') => EscapeState::Text,
        (EscapeState::Sequence, _) => EscapeState::Sequence,
        (EscapeState::Command, ESCAPE) => EscapeState::CommandEscape,
        (EscapeState::Command, BELL) => EscapeState::Text,
        (EscapeState::Command, _) => EscapeState::Command,
        (EscapeState::CommandEscape, b'\\') => EscapeState::Text,
        (EscapeState::CommandEscape, byte) => next_escape_state(EscapeState::Escape, byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_go_and_text_stays() {
        for (printed, left) in [
            ("plain é😀\tx\n", "plain é😀\tx\n"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "alink"),
            ("\u{1b}(Bx\u{1b}7y\u{1b}[?25hz", "xyz"),
            ("a\u{8}\u{0}\u{7}b\u{7f}", "ab"),
            ("\u{1b}Pdevice\u{1b}\\after", "after"),
            ("\u{1b}]no end\nnext", "\nnext"),
            ("\u{1b}[3\nnext", "\nnext"),
            ("\u{1b}\u{1b}[31mx", "x"),
            ("\u{1b}", ""),
        ] {
            assert_eq!(EscapeStripper::of(printed), left, "{printed:?}");
        }
    }

    #[test]
    fn a_cut_makes_no_difference() {
        let printed = "a\u{1b}[1;31mré\u{1b}d\u{1b}]0;t\u{1b}\\z\u{1b}(B\r\n\u{1b}]x\ny".as_bytes();
        let whole = EscapeStripper::of(std::str::from_utf8(printed).unwrap()).into_bytes();
        for at in 0..=printed.len() {
            let (left, right) = printed.split_at(at);
            let (mut plain, mut out) = (EscapeStripper::default(), Vec::new());
            plain.strip(left, &mut |run| out.extend_from_slice(run));
            plain.strip(right, &mut |run| out.extend_from_slice(run));
            assert_eq!(out, whole, "cut at {at}");
        }
    }
}
