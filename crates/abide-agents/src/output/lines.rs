//! Splits output into lines of any length, in bounded memory.

use super::clip::Clip;

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
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// The length of the line so far.
    length: u64,
    way: Way,
}

/// How the current line is handled.
#[derive(Debug, Default)]
enum Way {
    /// Only white space so far.
    #[default]
    Blank,
    /// An object, kept whole.
    Object,
    /// An object whose long strings are shortened.
    Clipped(Clip),
    /// An object that is too long even so: only its start is kept.
    TooLong,
    /// Not an object.
    Plain,
}

/// A line of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Its bytes, possibly shortened.
    pub bytes: &'a [u8],
    /// Its original length.
    pub length: u64,
    /// What it looks like.
    pub sort: Sort,
}

/// What a line looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// An object, whole except for shortened strings.
    Object,
    /// The start of an object.
    TooLong,
    /// Anything else.
    Plain,
}

impl Lines {
    /// Adds output and emits each line that ends in it.
    pub(super) fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(Line<'_>)) {
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
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(Line<'_>)) {
        self.end(each);
    }

    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE) {
            self.piece(piece);
        }
    }

    fn piece(&mut self, mut piece: &[u8]) {
        if matches!(self.way, Way::Blank) {
            piece = piece.trim_ascii_start();
            match piece.first() {
                None => return,
                Some(b'{') => self.way = Way::Object,
                Some(_) => self.way = Way::Plain,
            }
        }
        self.length = self.length.saturating_add(piece.len() as u64);
        if matches!(self.way, Way::Object) && self.buffer.len() + piece.len() > LINE {
            let mut clip = Clip::default();
            let head = std::mem::take(&mut self.buffer);
            clip.push(&head, &mut self.buffer);
            self.way = Way::Clipped(clip);
        }
        match &mut self.way {
            Way::Blank | Way::TooLong => {}
            Way::Object => self.buffer.extend_from_slice(piece),
            Way::Clipped(clip) => {
                clip.push(piece, &mut self.buffer);
                if self.buffer.len() > LINE {
                    self.buffer.truncate(PLAIN);
                    self.buffer.shrink_to(PLAIN);
                    self.way = Way::TooLong;
                }
            }
            Way::Plain => {
                let room = PLAIN.saturating_sub(self.buffer.len());
                self.buffer.extend_from_slice(piece.get(..room).unwrap_or(piece));
            }
        }
    }

    fn end(&mut self, each: &mut dyn FnMut(Line<'_>)) {
        let sort = match std::mem::take(&mut self.way) {
            Way::Blank => None,
            Way::Object | Way::Clipped(_) => Some(Sort::Object),
            Way::TooLong => Some(Sort::TooLong),
            Way::Plain => Some(Sort::Plain),
        };
        let length = std::mem::take(&mut self.length);
        if let Some(sort) = sort {
            each(Line { bytes: self.buffer.trim_ascii_end(), length, sort });
        }
        self.buffer.clear();
        self.buffer.shrink_to(ROOM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<(Vec<u8>, u64, Sort)> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        let mut each = |line: Line<'_>| found.push((line.bytes.to_vec(), line.length, line.sort));
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
        let sorts: Vec<Sort> = whole.iter().map(|line| line.2).collect();
        assert_eq!(sorts, [Sort::Object, Sort::Plain, Sort::Object, Sort::Plain, Sort::Object]);
        for at in 0..=text.len() {
            let (left, right) = text.split_at(at);
            assert_eq!(lines(&[left, right]), whole, "cut at {at}");
        }
    }

    #[test]
    fn a_line_without_end_takes_bounded_memory() {
        let mut reader = Lines::default();
        let piece = vec![b'x'; 1 << 20];
        let mut none = |line: Line<'_>| panic!("{line:?}");
        for start in [&b"{\"a\":\""[..], b"x", b"{\"a\":[["] {
            reader = Lines::default();
            reader.feed(start, &mut none);
            for _ in 0..200 {
                reader.feed(&piece, &mut none);
                assert!(reader.buffer.capacity() <= 2 * LINE + PIECE);
            }
        }
        let mut count = 0;
        reader.feed(b"\n{}\n", &mut |line: Line<'_>| {
            let wanted =
                if count == 0 { ((200 << 20) + 7, Sort::TooLong) } else { (2, Sort::Object) };
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
