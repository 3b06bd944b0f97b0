//! The lines of an agent that prints events: objects, and the plain lines between them.

/// A piece of an output, within one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinePiece<'b> {
    /// Of a plain line, or of a blank one.
    Plain(&'b [u8]),
    /// The beginning of a line that is an object.
    Object(&'b [u8]),
    /// What follows it in that line.
    ObjectRest(&'b [u8]),
}

/// What a line is, as far as it has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum LineSort {
    /// Only white space so far.
    #[default]
    Blank,
    Object,
    Plain,
}

/// Tells plain lines from objects, wherever the output was cut. A line whose first byte that is not blank
/// is `{` is an object. White space before that byte is left out.
#[derive(Debug, Default)]
pub(crate) struct PlainLines {
    line: LineSort,
}

impl PlainLines {
    /// The pieces of what came next.
    pub(crate) fn pieces<'b>(&mut self, bytes: &'b [u8]) -> Vec<LinePiece<'b>> {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        lines.filter_map(|part| self.piece(part)).collect()
    }

    /// The piece that is left of the part of a line.
    fn piece<'b>(&mut self, part: &'b [u8]) -> Option<LinePiece<'b>> {
        let begins = self.line == LineSort::Blank;
        let is_blank = |byte: &&u8| byte.is_ascii_whitespace() && **byte != b'\n';
        let blank = if begins { part.iter().take_while(is_blank).count() } else { 0 };
        let part = part.get(blank..).unwrap_or_default();
        let first = part.first()?;
        if begins {
            self.line = if *first == b'{' { LineSort::Object } else { LineSort::Plain };
        }
        let piece = match (self.line, begins) {
            (LineSort::Object, true) => LinePiece::Object(part),
            (LineSort::Object, false) => LinePiece::ObjectRest(part),
            (LineSort::Plain | LineSort::Blank, _) => LinePiece::Plain(part),
        };
        if part.ends_with(b"\n") {
            self.line = LineSort::Blank;
        }
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_told_from_plain_lines_wherever_they_are_cut() {
        let text = b"one {\n \t{\"a\":\n\n  b\n{}\r\nend";
        let whole = PlainLines::default().pieces(text);
        assert_eq!(
            whole,
            [
                LinePiece::Plain(b"one {\n"),
                LinePiece::Object(b"{\"a\":\n"),
                LinePiece::Plain(b"\n"),
                LinePiece::Plain(b"b\n"),
                LinePiece::Object(b"{}\r\n"),
                LinePiece::Plain(b"end"),
            ]
        );
        for cut in 0..=text.len() {
            let (mut lines, mut plain, mut object) = (PlainLines::default(), vec![], vec![]);
            let (left, right) = text.split_at(cut);
            for piece in [left, right].into_iter().flat_map(|part| lines.pieces(part)) {
                match piece {
                    LinePiece::Plain(bytes) => plain.extend_from_slice(bytes),
                    LinePiece::Object(bytes) | LinePiece::ObjectRest(bytes) => {
                        object.extend_from_slice(bytes);
                    }
                }
            }
            assert_eq!(plain, b"one {\n\nb\nend", "{cut}");
            assert_eq!(object, b"{\"a\":\n{}\r\n", "{cut}");
        }
    }
}
