//! Splits lines into server-sent events. A line that is too long, or is no field of an event, is
//! refused with its number, and what follows is read all the same.

use std::io;

use crate::line_reader::{InputLine, LineReader};

/// The most bytes of a line, and of an event's data.
pub(super) const MOST: usize = 16 << 20;

/// The fields of an event.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// The mark that a text may begin with.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// A server-sent event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerEvent {
    /// The line of its first data.
    pub(super) line: u64,
    /// Its `event` field; empty if it has none.
    pub(super) name: Vec<u8>,
    /// Its data, with a line break between its lines; never empty.
    pub(super) data: Vec<u8>,
    /// The input ended before the empty line behind it.
    pub(super) is_cut: bool,
}

/// What is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EventInput {
    /// An event.
    Event(ServerEvent),
    /// Something that is none.
    Refused { code: &'static str, message: String, line: u64 },
}

/// Reads events.
pub(super) struct EventReader<R> {
    lines: LineReader<R>,
    /// The rest of a line that has carriage returns in it, last part first.
    parts: Vec<Vec<u8>>,
    line: Option<u64>,
    name: Vec<u8>,
    data: Vec<u8>,
    /// The event is refused already: what is left of it is passed over.
    refused: bool,
    ended: bool,
}

impl<R: io::Read> EventReader<R> {
    pub(super) const fn new(lines: LineReader<R>) -> Self {
        Self {
            lines,
            parts: Vec::new(),
            line: None,
            name: Vec::new(),
            data: Vec::new(),
            refused: false,
            ended: false,
        }
    }

    /// The next event; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<EventInput>> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let Some(part) = self.parts.pop() else {
                if let Some(refused) = self.fill()? {
                    return Ok(Some(refused));
                }
                if self.ended {
                    return Ok(self.end(true).map(EventInput::Event));
                }
                continue;
            };
            let read = if part.is_empty() {
                self.end(false).map(EventInput::Event)
            } else {
                self.field(&part)
            };
            if read.is_some() {
                return Ok(read);
            }
        }
    }

    /// Reads a line. Lines end in `\n` or `\r\n`; a `\r` within one ends a line, too.
    fn fill(&mut self) -> io::Result<Option<EventInput>> {
        match self.lines.next()? {
            None => self.ended = true,
            Some(InputLine::TooLong) => {
                return Ok(self.refuse("too_large", format!("line longer than {MOST} bytes")));
            }
            Some(InputLine::Whole(line)) => {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                self.parts = line.split(|byte| *byte == b'\r').rev().map(<[u8]>::to_vec).collect();
            }
        }
        if self.lines.number() == 1
            && let Some(first) = self.parts.last_mut()
            && first.starts_with(MARK)
        {
            first.drain(..MARK.len());
        }
        Ok(None)
    }

    fn field(&mut self, line: &[u8]) -> Option<EventInput> {
        if self.refused {
            return None;
        }
        let at = memchr::memchr(b':', line).unwrap_or(line.len());
        let (name, value) = line.split_at_checked(at)?;
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        match name {
            b"data" => {
                if self.data.len() + value.len() > MOST {
                    return self.refuse("too_large", format!("event longer than {MOST} bytes"));
                }
                if self.line.is_some() {
                    self.data.push(b'\n');
                }
                self.line.get_or_insert(self.lines.number());
                self.data.extend_from_slice(value);
                None
            }
            b"event" => {
                self.name = value.to_vec();
                None
            }
            // A comment, or a field that says nothing here.
            name if name.iter().all(word) && (name.is_empty() || at < line.len()) => None,
            // Without a value, or cut off.
            name if FIELDS.iter().any(|field| field.starts_with(name)) => None,
            _ => {
                let line = self.lines.number();
                let message = "not a line of a server-sent event, such as `data: {…}`".to_owned();
                Some(EventInput::Refused { code: "not_an_event", message, line })
            }
        }
    }

    fn refuse(&mut self, code: &'static str, message: String) -> Option<EventInput> {
        let line = self.lines.number();
        self.data = Vec::new();
        (self.refused, self.line) = (true, None);
        Some(EventInput::Refused { code, message, line })
    }

    /// Ends an event.
    fn end(&mut self, is_cut: bool) -> Option<ServerEvent> {
        self.refused = false;
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        let line = self.line.take().filter(|_| !data.is_empty())?;
        Some(ServerEvent { line, name, data, is_cut })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], limit: usize) -> Vec<String> {
        let mut reader = EventReader::new(LineReader::new(text, limit));
        let mut all = Vec::new();
        while let Some(input) = reader.next().unwrap() {
            all.push(match input {
                EventInput::Event(ServerEvent { line, name, data, is_cut }) => {
                    let (name, data) = (String::from_utf8(name), String::from_utf8(data));
                    let cut = if is_cut { " cut" } else { "" };
                    format!("{line} {} {:?}{cut}", name.unwrap(), data.unwrap())
                }
                EventInput::Refused { code, line, .. } => format!("{line} refused {code}"),
            });
        }
        all
    }

    #[test]
    fn events_of_every_sort() {
        let text = "\u{feff}: hello\n\ndata: a\n\nevent: x\r\ndata:b\r\ndata:  c\r\n\r\nid: 7\nretry: 5\ndata\n\n\
                    data: d\rdata: e\r\rdata: f\n\ndata: last";
        assert_eq!(
            read(text.as_bytes(), 100),
            [r#"3  "a""#, r#"6 x "b\n c""#, r#"13  "d\ne""#, r#"13  "f""#, r#"15  "last" cut"#,]
        );
        assert!(read(b"", 100).is_empty() && read(b"\n\n: x\n", 100).is_empty());
    }

    #[test]
    fn an_input_that_is_cut_off_anywhere_has_no_bad_line() {
        let text = b"event: x\r\ndata: {\"a\":1}\r\nid: 7\r\nretry: 5\r\n: ping\r\n\r\ndata: b\n\n";
        for end in 0..text.len() {
            let read = read(&text[..end], 100);
            assert!(!read.iter().any(|one| one.contains("refused")), "{end}: {read:?}");
        }
    }

    #[test]
    fn what_is_no_event_is_refused_and_the_rest_is_read() {
        let text = format!(
            "HTTP/1.1 200 OK\ncontent-type: text/event-stream\n\n{{\"id\":1}}\ndata: {}\ndata: b\n\ndata: c\n\n",
            "x".repeat(50)
        );
        assert_eq!(
            read(text.as_bytes(), 40),
            [
                "1 refused not_an_event",
                "4 refused not_an_event",
                "5 refused too_large",
                r#"8  "c""#
            ]
        );
    }
}
