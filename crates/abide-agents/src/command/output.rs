//! Turns the plain-text output of a command into messages.

use abide_model::Timestamp;

use crate::limits::limit_in;
use crate::output::{
    EscapeStripper, ObservedFact, OutputObservation, OutputReader, message, note_observed, step,
    tell_observed,
};

/// The most bytes of one message.
const MESSAGE: usize = 32 << 10;
/// The most bytes that become messages as they arrive.
const ALL: u64 = 1 << 20;
/// The most bytes of a line that are examined.
const LINE: usize = 2 << 10;

/// Whether a message goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextEnd {
    /// More may follow.
    Open,
    /// It is complete.
    Closed,
}

/// Turns the output of a command into messages.
///
/// All that is printed until somebody writes to the command is one message, up to 32 KiB. What is
/// recorded before it is complete is a part of it, of whole lines, marked with the message's id. A
/// message of more ends at a line break if possible. Text overwritten after a `\r` is not recorded, so a
/// progress bar is one line. Beyond 1 MiB only the end of the output is kept, and the rest is
/// counted.
#[derive(Debug, Default)]
pub(super) struct TextOutputReader {
    plain: EscapeStripper,
    /// Text that is not in a message yet.
    buffer: Vec<u8>,
    /// The offset in it of the current line.
    line: usize,
    /// The start of that line.
    head: Vec<u8>,
    /// The last complete line that is not blank.
    last: Vec<u8>,
    /// The last byte was `\r`.
    returned: bool,
    /// What is put before the numbers of messages.
    prefix: String,
    /// The number of the current message.
    number: u64,
    /// Bytes of its parts.
    parts: usize,
    /// Bytes that became messages.
    told: u64,
    /// Bytes that were dropped.
    left_out: u64,
}

impl OutputReader for TextOutputReader {
    fn feed(&mut self, bytes: &[u8], now: Timestamp, see: &mut dyn FnMut(OutputObservation)) {
        let mut plain = std::mem::take(&mut self.plain);
        plain.strip(bytes, &mut |run| self.text(run, now, see));
        self.plain = plain;
        self.step(see);
    }

    fn flush(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        if self.told < ALL {
            // The current line may go on, or be overwritten.
            self.message(self.line, TextEnd::Open, see);
        }
    }

    fn entered(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        if self.told < ALL {
            let end = whole_characters_of_output(&self.buffer);
            self.message(end, TextEnd::Closed, see);
        }
    }

    fn finish(&mut self, now: Timestamp, see: &mut dyn FnMut(OutputObservation)) {
        if !self.head.is_empty() {
            self.line_ended(now, see);
            self.step(see);
        }
        if self.told >= ALL {
            self.keep_the_end();
        }
        if self.left_out > 0 {
            let text = format!("{} bytes of the output were left out here", self.left_out);
            note_observed(see, "warning", text);
            self.left_out = 0;
        }
        self.message(self.buffer.len(), TextEnd::Closed, see);
        self.line = 0;
        self.returned = false;
        self.plain = EscapeStripper::default();
    }
}

impl TextOutputReader {
    /// Puts this before the numbers of its messages.
    pub(super) fn following(prefix: String) -> Self {
        Self { prefix, ..Self::default() }
    }

    /// One step a feed, its last line: who prints fast is not shown line by line anyway.
    fn step(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        if let Some(text) = step::short_step(&String::from_utf8_lossy(&self.last)) {
            tell_observed(see, ObservedFact::Step { text });
        }
        self.last.clear();
    }

    fn text(&mut self, run: &[u8], now: Timestamp, see: &mut dyn FnMut(OutputObservation)) {
        let mut rest = run;
        while let Some(first) = rest.first() {
            match first {
                b'\n' => {
                    self.returned = false;
                    self.push(b"\n", see);
                    self.line = self.buffer.len();
                    self.line_ended(now, see);
                    rest = rest.get(1..).unwrap_or_default();
                }
                b'\r' => {
                    self.returned = true;
                    rest = rest.get(1..).unwrap_or_default();
                }
                _ => {
                    if std::mem::take(&mut self.returned) {
                        self.buffer.truncate(self.line);
                        self.head.clear();
                    }
                    let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                    let (text, behind) = rest.split_at(end);
                    let room = LINE.saturating_sub(self.head.len());
                    self.head.extend_from_slice(text.get(..room).unwrap_or(text));
                    self.push(text, see);
                    rest = behind;
                }
            }
        }
    }

    fn line_ended(&mut self, now: Timestamp, see: &mut dyn FnMut(OutputObservation)) {
        if let Some(limited) = limit_in(&String::from_utf8_lossy(&self.head), now) {
            tell_observed(see, ObservedFact::Limited(limited));
        }
        if !self.head.trim_ascii().is_empty() {
            std::mem::swap(&mut self.head, &mut self.last);
        }
        self.head.clear();
    }

    /// Adds text piece by piece, so that the result does not depend on where it was split.
    fn push(&mut self, text: &[u8], see: &mut dyn FnMut(OutputObservation)) {
        let mut rest = text;
        while !rest.is_empty() {
            let most = if self.told < ALL { MESSAGE } else { 2 * MESSAGE };
            let room = most.saturating_sub(self.buffer.len());
            let (piece, behind) = rest.split_at(room.min(rest.len()));
            self.buffer.extend_from_slice(piece);
            rest = behind;
            if self.buffer.len() >= most {
                self.full(see);
            }
        }
    }

    /// Handles a full buffer: makes a message up to the last line break, or drops the oldest bytes.
    fn full(&mut self, see: &mut dyn FnMut(OutputObservation)) {
        if self.told >= ALL {
            return self.keep_the_end();
        }
        let end = match memchr::memrchr(b'\n', &self.buffer) {
            Some(at) => at + 1,
            None => whole_characters_of_output(&self.buffer),
        };
        self.message(end, TextEnd::Closed, see);
    }

    /// Drops all but the last bytes.
    fn keep_the_end(&mut self) {
        let mut gone = self.buffer.len().saturating_sub(MESSAGE);
        // Cut at the start of a character.
        while gone > 0 && self.buffer.get(gone).is_some_and(|byte| matches!(byte, 0x80..=0xbf)) {
            gone += 1;
        }
        self.left_out = self.left_out.saturating_add(gone as u64);
        self.buffer.drain(..gone);
        self.line = self.line.saturating_sub(gone);
    }

    /// Makes a message of the first `end` bytes of the buffer, or a part of one.
    fn message(&mut self, end: usize, how: TextEnd, see: &mut dyn FnMut(OutputObservation)) {
        if self.parts > 0 && self.parts.saturating_add(end) > MESSAGE {
            (self.number, self.parts) = (self.number + 1, 0);
        }
        let text = String::from_utf8_lossy(self.buffer.get(..end).unwrap_or_default());
        let open = how == TextEnd::Open;
        // Blank lines belong to what follows them.
        if open && text.trim().is_empty() {
            return;
        }
        let text = if open { &*text } else { text.trim_end() };
        let data = if open || self.parts > 0 {
            let answer = format!("{}text-{}", self.prefix, self.number + 1);
            message::assistant_part(text, &answer)
        } else {
            message::assistant_message(text)
        };
        if let Some(data) = data {
            tell_observed(see, ObservedFact::Message { data });
        }
        match how {
            TextEnd::Open => self.parts += end,
            TextEnd::Closed => (self.number, self.parts) = (self.number + 1, 0),
        }
        self.told = self.told.saturating_add(end as u64);
        self.buffer.drain(..end.min(self.buffer.len()));
        self.line = self.line.saturating_sub(end);
    }
}

/// The number of bytes before an incomplete last character.
fn whole_characters_of_output(bytes: &[u8]) -> usize {
    let end = bytes.len();
    for back in 1..=3.min(end) {
        let at = end - back;
        let Some(byte) = bytes.get(at) else { break };
        let wanted = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        // Never return 0, or there would be no progress.
        return if wanted > back && at > 0 { at } else { end };
    }
    end
}
