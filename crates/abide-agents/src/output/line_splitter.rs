//! Splits output into lines of any length, in bounded memory.

use super::clip::StringClipper;

/// The most bytes of a line that is kept whole, and of a shortened one.
pub(super) const LINE: usize = 8 << 20;
/// The most bytes kept of a line that is not JSON.
pub(super) const PLAIN: usize = 4 << 10;
/// Bytes shortened at a time, so that memory stays bounded.
const PIECE: usize = 64 << 10;
/// Buffer capacity kept for the next line.
const ROOM: usize = 256 << 10;

/// Splits output into lines. A line that is too long is shortened: an object in its long strings,
/// any other line at its end.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    buffer: Vec<u8>,
    /// The length of the line so far.
    length: u64,
    way: LineMode,
}

/// How the current line is handled.
#[derive(Debug, Default)]
enum LineMode {
    /// Only white space so far.
    #[default]
    Blank,
    /// An object, kept whole.
    Object,
    /// An object whose long strings are shortened.
    Clipped(StringClipper),
    /// An object that is too long even so: only its start is kept.
    TooLong,
    /// Not an object.
    Plain,
}

/// A line of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputLine<'a> {
    /// Its bytes, possibly shortened.
    pub bytes: &'a [u8],
    /// Its original length.
    pub length: u64,
    /// What it looks like.
    pub sort: OutputLineKind,
}

/// What a line looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputLineKind {
    /// An object, whole except for shortened strings.
    Object,
    /// The start of an object.
    TooLong,
    /// Anything else.
    Plain,
}

impl LineSplitter {
    /// Adds output and emits each line that ends in it.
    pub(super) fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(OutputLine<'_>)) {
        let mut rest = bytes;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (line, behind) = rest.split_at(at);
            self.push(line);
            self.end(each);
            rest = behind.get(1..).unwrap_or_default();
        }
        self.push(rest);
    }

    /// Emits the last line, which has no line feed.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(OutputLine<'_>)) {
        self.end(each);
    }

    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE) {
            self.piece(piece);
        }
    }

    fn piece(&mut self, mut piece: &[u8]) {
        if matches!(self.way, LineMode::Blank) {
            piece = piece.trim_ascii_start();
            match piece.first() {
                None => return,
                Some(b'{') => self.way = LineMode::Object,
                Some(_) => self.way = LineMode::Plain,
            }
        }
        self.length = self.length.saturating_add(piece.len() as u64);
        if matches!(self.way, LineMode::Object) && self.buffer.len() + piece.len() > LINE {
            let mut clip = StringClipper::default();
            let head = std::mem::take(&mut self.buffer);
            clip.push(&head, &mut self.buffer);
            self.way = LineMode::Clipped(clip);
        }
        match &mut self.way {
            LineMode::Blank | LineMode::TooLong => {}
            LineMode::Object => self.buffer.extend_from_slice(piece),
            LineMode::Clipped(clip) => {
                clip.push(piece, &mut self.buffer);
                if self.buffer.len() > LINE {
                    self.buffer.truncate(PLAIN);
                    self.buffer.shrink_to(PLAIN);
                    self.way = LineMode::TooLong;
                }
            }
            LineMode::Plain => {
                let room = PLAIN.saturating_sub(self.buffer.len());
                self.buffer.extend_from_slice(piece.get(..room).unwrap_or(piece));
            }
        }
    }

    fn end(&mut self, each: &mut dyn FnMut(OutputLine<'_>)) {
        let sort = match std::mem::take(&mut self.way) {
            LineMode::Blank => None,
            LineMode::Object | LineMode::Clipped(_) => Some(OutputLineKind::Object),
            LineMode::TooLong => Some(OutputLineKind::TooLong),
            LineMode::Plain => Some(OutputLineKind::Plain),
        };
        let length = std::mem::take(&mut self.length);
        if let Some(sort) = sort {
            each(OutputLine { bytes: self.buffer.trim_ascii_end(), length, sort });
        }
        self.buffer.clear();
        self.buffer.shrink_to(ROOM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<(Vec<u8>, u64, OutputLineKind)> {
        let (mut lines, mut found) = (LineSplitter::default(), Vec::new());
        let mut each =
            |line: OutputLine<'_>| found.push((line.bytes.to_vec(), line.length, line.sort));
        for chunk in chunks {
            lines.feed(chunk, &mut each);
        }
        lines.finish(&mut each);
        found
    }

    #[test]
    fn a_cut_makes_no_difference() {
        let text = b" \r\n{\"a\":1}\r\nplain \r\n\n  {}\n\t[1]\n{\"open\":";
        let whole = lines(&[text]);
        let sorts: Vec<OutputLineKind> = whole.iter().map(|line| line.2).collect();
        assert_eq!(
            sorts,
            [
                OutputLineKind::Object,
                OutputLineKind::Plain,
                OutputLineKind::Object,
                OutputLineKind::Plain,
                OutputLineKind::Object
            ]
        );
        for at in 0..=text.len() {
            let (left, right) = text.split_at(at);
            assert_eq!(lines(&[left, right]), whole, "cut at {at}");
        }
    }

    #[test]
    fn a_line_without_end_takes_bounded_memory() {
        let mut reader = LineSplitter::default();
        let piece = vec![b'x'; 1 << 20];
        let mut none = |line: OutputLine<'_>| panic!("{line:?}");
        for start in [&b"{\"a\":\""[..], b"x", b"{\"a\":[["] {
            reader = LineSplitter::default();
            reader.feed(start, &mut none);
            for _ in 0..200 {
                reader.feed(&piece, &mut none);
                assert!(reader.buffer.capacity() <= 2 * LINE + PIECE);
            }
        }
        let mut count = 0;
        reader.feed(b"\n{}\n", &mut |line: OutputLine<'_>| {
            let wanted = if count == 0 {
                ((200 << 20) + 7, OutputLineKind::TooLong)
            } else {
                (2, OutputLineKind::Object)
            };
            assert_eq!((line.length, line.sort), wanted);
            count += 1;
        });
        assert_eq!(count, 2);
    }

    #[test]
    fn an_event_with_a_huge_string_is_still_that_event() {
        let long = "x".repeat(9 << 20);
        let line = format!("{{\"type\":\"t\",\"text\":\"{long}\",\"id\":5}}\n");
        let found = lines(&[line.as_bytes()]);
        let value: serde_json::Value = serde_json::from_slice(&found[0].0).unwrap();
        assert_eq!((&value["type"], &value["id"]), (&"t".into(), &5.into()));
        for at in [1, 20, LINE - 1, LINE, LINE + 1, line.len() - 2] {
            let (left, right) = line.as_bytes().split_at(at);
            assert!(lines(&[left, right]) == found, "cut at {at}");
        }
    }
}
