//! One event as one line of the journal. `docs/format.md` is normative.
//!
//! ```text
//! {"seq":7,"at":"…","kind":"…", …,"data":{…},"sum":"SALT.PREV.OWN"}
//!  └──────────── head ──────────┘ └─ body ─┘
//! ```
//!
//! A line's own sum covers the head, the digest of the salted body, and the link to the previous
//! line. It does not cover the body itself, so a body can be replaced by its digest (erased) and
//! the chain still holds. Sums are always computed over the bytes as read.

use std::cell::RefCell;

use abide_model::{
    Event, Kind, LaneId, LeafEncoding, ObjectHash, Payload, PayloadLeaf, Seq, TaskId, Timestamp,
    TurnNumber,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::{Link, Salt, Sum};

/// The longest line that is read or written: an event at its limit plus its envelope.
pub const MAX_LINE: usize = (64 << 20) + (64 << 10);

const TRAILER: usize = SUM_FIELD.len() + Salt::WIDTH + 1 + Link::WIDTH + 1 + Sum::WIDTH + END.len();
/// Most lines have no more bytes than this and their data.
const MOST_HEADS: usize = 256;
const SUM_FIELD: &[u8] = b",\"sum\":\"";
const END: &[u8] = b"\"}";

/// Why bytes are not a valid line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// They do not have the form of a line.
    #[error("not a journal line")]
    Form,
    /// The sum does not match the bytes.
    #[error("sum mismatch")]
    Sum,
}

/// A string of the payload that is stored as an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineObjectRef {
    /// Its JSON pointer in the data.
    pub pointer: String,
    /// The offset, in the data as written, of the empty string that replaces it.
    pub offset: usize,
    /// How the object's bytes encode the string.
    pub encoding: LeafEncoding,
    /// The number of bytes.
    pub size: u64,
    /// Their BLAKE3 hash.
    pub hash: ObjectHash,
}

impl LineObjectRef {
    /// The reference to a leaf.
    #[must_use]
    pub fn to(leaf: &PayloadLeaf) -> Self {
        Self {
            pointer: leaf.pointer.clone(),
            offset: leaf.offset,
            encoding: leaf.encoding,
            size: leaf.bytes.len() as u64,
            hash: ObjectHash::of(&leaf.bytes),
        }
    }
}

/// The parsed envelope of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineHead {
    /// The event's number.
    pub seq: Seq,
    /// When it was recorded.
    pub at: Timestamp,
    /// How far the acknowledged events were behind when this one was recorded: everything up to
    /// `seq - lag` was durable before this line was written.
    pub lag: u64,
    /// Its kind.
    pub kind: Kind,
    /// Its turn.
    pub turn: Option<TurnNumber>,
    /// Its task.
    pub task: Option<TaskId>,
    /// Its lane.
    pub lane: Option<LaneId>,
    /// Its key.
    pub key: Option<String>,
    /// The time the caller gave.
    pub occurred: Option<Timestamp>,
}

/// The payload of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinePayload<'a> {
    /// The data, and the objects that belong in it.
    Present {
        /// The list of [`LineObjectRef`]s as JSON; empty if there are none.
        objects: &'a [u8],
        /// The data as JSON.
        data: &'a [u8],
    },
    /// The data was erased; only its digest remains.
    Erased {
        /// The digest.
        digest: [u8; 32],
    },
}

/// The part of a line that does not depend on its seq. It is prepared before the seq is known. The data
/// itself stays in its event.
#[derive(Debug, Clone)]
pub struct LineBody {
    /// The field with the objects and a comma; empty if there are none.
    objects: Vec<u8>,
    salt: Salt,
    digest: [u8; 32],
}

impl LineBody {
    /// Prepares the body of an event.
    #[must_use]
    pub fn prepare(event: &Event, objects: &[LineObjectRef], salt: Salt) -> Self {
        let objects = match objects {
            [] => Vec::new(),
            objects => {
                let mut field = b"\"objects\":".to_vec();
                // A list of plain structs always serialises.
                field.extend_from_slice(&serde_json::to_vec(objects).unwrap_or_default());
                field.push(b',');
                field
            }
        };
        let [list, field, data] = body_parts(&objects, line_data(event));
        let digest = *line_hash(&[&salt.0, list, field, data]).as_bytes();
        Self { objects, salt, digest }
    }

    /// Does it refer to objects?
    #[must_use]
    pub const fn has_objects(&self) -> bool {
        !self.objects.is_empty()
    }
}

/// The data of an event as it is written.
fn line_data(event: &Event) -> &str {
    event.data.as_ref().map_or("{}", Payload::as_str)
}

/// The parts that a body consists of, in order.
const fn body_parts<'a>(objects: &'a [u8], data: &'a str) -> [&'a [u8]; 3] {
    [objects, b"\"data\":", data.as_bytes()]
}

/// A parsed line that borrows its bytes.
#[derive(Debug, Clone, Copy)]
pub struct JournalLine<'a> {
    /// The event's number.
    pub seq: Seq,
    /// See [`LineHead::lag`].
    pub lag: u64,
    raw: &'a [u8],
    head: &'a [u8],
    body_bytes: &'a [u8],
    body: LinePayload<'a>,
    salt: &'a [u8],
    /// The link to the previous line.
    pub prev: Link,
    /// The line's own sum.
    pub sum: Sum,
}

impl<'a> JournalLine<'a> {
    /// No line has fewer bytes than this.
    pub(crate) const SHORTEST: usize = TRAILER;

    /// Parses a line and checks its sum. `bytes` must not end with a line break.
    pub fn read(bytes: &'a [u8]) -> Result<Self, LineError> {
        let line = Self::parse(bytes).ok_or(LineError::Form)?;
        let digest = match line.body {
            LinePayload::Erased { digest } => digest,
            LinePayload::Present { .. } => line_body_digest(line.salt, line.body_bytes),
        };
        if journal_line_sum(line.head, &digest, &line.prev) == line.sum {
            Ok(line)
        } else {
            Err(LineError::Sum)
        }
    }

    /// Where a line may end in these bytes: after everything that looks like its last field.
    pub(crate) fn ends_in(bytes: &[u8]) -> impl Iterator<Item = usize> {
        let end = |at: usize| at + TRAILER;
        memchr::memmem::find_iter(bytes, SUM_FIELD).map(end).filter(|end| *end <= bytes.len())
    }

    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (rest, trailer) = bytes.split_at_checked(bytes.len().checked_sub(TRAILER)?)?;
        let trailer = trailer.strip_prefix(SUM_FIELD)?.strip_suffix(END)?;
        let (salt, trailer) = trailer.split_at_checked(Salt::WIDTH)?;
        let (prev, own) = trailer.strip_prefix(b".")?.split_at_checked(Link::WIDTH)?;
        let mut cursor = LineCursor { rest };
        let seq = cursor.after(b"{\"seq\":")?.number()?;
        // The time has a fixed width; the kind has no escapes.
        cursor.after(b",\"at\":\"")?.skip(Timestamp::WIDTH)?;
        cursor.after(b"\",\"kind\":\"")?.until_quote()?;
        let lag = if cursor.at(b",\"lag\":") { cursor.after(b",\"lag\":")?.number()? } else { 1 };
        if cursor.at(b",\"turn\":") {
            cursor.after(b",\"turn\":")?.number()?;
        }
        for field in [&b",\"task\":"[..], b",\"lane\":", b",\"key\":", b",\"occurred\":"] {
            if cursor.at(field) {
                cursor.after(field)?.string()?;
            }
        }
        cursor.after(b",")?;
        let (head, body_bytes) = rest.split_at_checked(rest.len() - cursor.rest.len())?;
        let body = if let Some(erased) = body_bytes.strip_prefix(b"\"erased\":\"") {
            let digest = URL_SAFE_NO_PAD.decode(erased.strip_suffix(b"\"")?).ok()?;
            LinePayload::Erased { digest: digest.try_into().ok()? }
        } else {
            let mut objects: &[u8] = b"";
            if cursor.at(b"\"objects\":") {
                cursor.after(b"\"objects\":")?;
                let from = cursor.rest;
                cursor.array()?;
                objects = from.get(..from.len() - cursor.rest.len())?;
                cursor.after(b",")?;
            }
            cursor.after(b"\"data\":")?;
            LinePayload::Present { objects, data: cursor.rest }
        };
        Some(Self {
            seq: Seq(seq),
            lag,
            raw: bytes,
            head,
            body_bytes,
            body,
            salt,
            prev: Link(prev.try_into().ok()?),
            sum: Sum::from_ascii(own.strip_prefix(b".")?)?,
        })
    }

    /// The bytes as written, without the line break.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.raw
    }

    /// The payload.
    #[must_use]
    pub const fn body(&self) -> LinePayload<'a> {
        self.body
    }

    /// The objects that belong in the data.
    #[must_use]
    pub fn objects(&self) -> Vec<LineObjectRef> {
        match self.body {
            LinePayload::Present { objects, .. } if !objects.is_empty() => {
                serde_json::from_slice(objects).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// The parsed envelope. `None` if the sum is valid but the bytes are not an envelope.
    #[must_use]
    pub fn head(&self) -> Option<LineHead> {
        let mut cursor = LineCursor { rest: self.head };
        let seq = Seq(cursor.after(b"{\"seq\":")?.number()?);
        let at = Timestamp::from_ascii(cursor.after(b",\"at\":\"")?.take(Timestamp::WIDTH)?)?;
        let kind = Kind::new(line_text(cursor.after(b"\",\"kind\":\"")?.until_quote()?)?)?;
        let mut head = LineHead {
            seq,
            at,
            lag: self.lag,
            kind,
            turn: None,
            task: None,
            lane: None,
            key: None,
            occurred: None,
        };
        if cursor.at(b",\"lag\":") {
            cursor.after(b",\"lag\":")?.number()?;
        }
        if cursor.at(b",\"turn\":") {
            head.turn = Some(TurnNumber(cursor.after(b",\"turn\":")?.number()?));
        }
        let mut named = |field: &[u8]| -> Option<Option<String>> {
            if !cursor.at(field) {
                return Some(None);
            }
            let raw = cursor.after(field)?.string()?;
            serde_json::from_slice(raw).ok().map(Some)
        };
        head.task = named(b",\"task\":")?.map(TaskId);
        head.lane = named(b",\"lane\":")?.map(LaneId);
        head.key = named(b",\"key\":")?;
        head.occurred = named(b",\"occurred\":")?.and_then(|text| text.parse().ok());
        Some(head)
    }

    /// The event with its data as written, that is, without its objects.
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        let head = self.head()?;
        let data = match self.body {
            LinePayload::Erased { .. } => None,
            LinePayload::Present { data, .. } => {
                Some(Payload::from_stored(line_text(data)?.into()))
            }
        };
        Some(Event {
            seq: head.seq,
            at: head.at,
            occurred: head.occurred,
            kind: head.kind,
            turn: head.turn,
            task: head.task,
            lane: head.lane,
            key: head.key,
            data,
        })
    }

    /// Writes an event as a line chained to `prev`, including the line break. Returns its sum.
    pub fn write(
        out: &mut Vec<u8>,
        event: &Event,
        objects: &[LineObjectRef],
        lag: u64,
        salt: Salt,
        prev: Link,
    ) -> Sum {
        Self::write_prepared(out, event, &LineBody::prepare(event, objects, salt), lag, prev)
    }

    /// [`JournalLine::write`] with the body that was prepared for this event.
    pub fn write_prepared(
        out: &mut Vec<u8>,
        event: &Event,
        body: &LineBody,
        lag: u64,
        prev: Link,
    ) -> Sum {
        let (start, data) = (out.len(), line_data(event));
        out.reserve(MOST_HEADS + body.objects.len() + data.len());
        write_line_head(out, event, lag);
        let sum = journal_line_sum(out.get(start..).unwrap_or_default(), &body.digest, &prev);
        body_parts(&body.objects, data).iter().for_each(|part| out.extend_from_slice(part));
        write_line_trailer(out, body.salt, prev, sum);
        sum
    }

    /// The same line with its payload erased, including the line break. Its sum does not change.
    #[must_use]
    pub fn erased(&self) -> Vec<u8> {
        let digest = match self.body {
            LinePayload::Erased { digest } => digest,
            LinePayload::Present { .. } => line_body_digest(self.salt, self.body_bytes),
        };
        let mut out = self.head.to_vec();
        out.extend_from_slice(b"\"erased\":\"");
        out.extend_from_slice(URL_SAFE_NO_PAD.encode(digest).as_bytes());
        out.push(b'"');
        write_line_trailer(&mut out, Salt::ERASED, self.prev, self.sum);
        out
    }
}

fn write_line_head(out: &mut Vec<u8>, event: &Event, lag: u64) {
    out.extend_from_slice(b"{\"seq\":");
    write_line_number(out, event.seq.0);
    out.extend_from_slice(b",\"at\":\"");
    out.extend_from_slice(&event.at.to_ascii());
    out.extend_from_slice(b"\",\"kind\":\"");
    out.extend_from_slice(event.kind.as_str().as_bytes());
    out.push(b'"');
    if lag != 1 {
        out.extend_from_slice(b",\"lag\":");
        write_line_number(out, lag);
    }
    if let Some(turn) = event.turn {
        out.extend_from_slice(b",\"turn\":");
        write_line_number(out, turn.0);
    }
    let named = [
        (&b",\"task\":"[..], event.task.as_ref().map(TaskId::as_str)),
        (b",\"lane\":", event.lane.as_ref().map(LaneId::as_str)),
        (b",\"key\":", event.key.as_deref()),
    ];
    for (field, value) in named {
        if let Some(value) = value {
            out.extend_from_slice(field);
            out.extend_from_slice(&serde_json::to_vec(value).unwrap_or_default());
        }
    }
    if let Some(occurred) = event.occurred {
        out.extend_from_slice(b",\"occurred\":\"");
        out.extend_from_slice(&occurred.to_ascii());
        out.push(b'"');
    }
    out.push(b',');
}

fn write_line_trailer(out: &mut Vec<u8>, salt: Salt, prev: Link, sum: Sum) {
    out.extend_from_slice(SUM_FIELD);
    out.extend_from_slice(&salt.0);
    out.push(b'.');
    out.extend_from_slice(&prev.0);
    out.push(b'.');
    out.extend_from_slice(sum.as_ascii());
    out.extend_from_slice(END);
    out.push(b'\n');
}

fn write_line_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [b'0'; 20];
    let mut rest = number;
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        used += 1;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(digits.len() - used..).unwrap_or_default());
}

fn line_body_digest(salt: &[u8], body: &[u8]) -> [u8; 32] {
    *line_hash(&[salt, body]).as_bytes()
}

fn journal_line_sum(head: &[u8], digest: &[u8; 32], prev: &Link) -> Sum {
    Sum::from_hash(&line_hash(&[head, digest, &prev.0]))
}

/// What has no more bytes than this is gathered to be hashed.
const GATHERED: usize = 16 << 10;

thread_local! {
    static GATHERED_BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The hash of these parts, one behind the other. Unless they are large, copying them and hashing one
/// piece costs less than hashing part by part.
fn line_hash(parts: &[&[u8]]) -> blake3::Hash {
    let gathered = |bytes: &RefCell<Vec<u8>>| {
        let mut bytes = bytes.try_borrow_mut().ok()?;
        bytes.clear();
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        Some(blake3::hash(&bytes))
    };
    if parts.iter().map(|part| part.len()).sum::<usize>() <= GATHERED
        && let Ok(Some(hash)) = GATHERED_BYTES.try_with(gathered)
    {
        return hash;
    }
    let mut hasher = blake3::Hasher::new();
    parts.iter().for_each(|part| {
        hasher.update(part);
    });
    hasher.finalize()
}

fn line_text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Parses the fixed parts of a line.
struct LineCursor<'a> {
    rest: &'a [u8],
}

impl<'a> LineCursor<'a> {
    fn at(&self, literal: &[u8]) -> bool {
        self.rest.starts_with(literal)
    }

    fn after(&mut self, literal: &[u8]) -> Option<&mut Self> {
        self.rest = self.rest.strip_prefix(literal)?;
        Some(self)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn skip(&mut self, count: usize) -> Option<&mut Self> {
        self.take(count)?;
        Some(self)
    }

    /// A number without a sign or leading zeros, of at most 20 digits.
    fn number(&mut self) -> Option<u64> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let taken = self.take(digits)?;
        if taken.len() > 1 && taken.first() == Some(&b'0') {
            return None;
        }
        line_text(taken)?.parse().ok()
    }

    /// Everything up to the next quote, which is consumed.
    fn until_quote(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(b'"', self.rest)?;
        let taken = self.take(end)?;
        self.rest = self.rest.get(1..)?;
        Some(taken)
    }

    /// A JSON string, including its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let mut at = 1;
        if self.rest.first() != Some(&b'"') {
            return None;
        }
        loop {
            let found = at + memchr::memchr2(b'"', b'\\', self.rest.get(at..)?)?;
            if self.rest.get(found) == Some(&b'"') {
                return self.take(found + 1);
            }
            at = found + 2;
        }
    }

    /// Skips a JSON array.
    fn array(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match *self.rest.first()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            self.rest = self.rest.get(1..)?;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use abide_model::NewEvent;

    use super::*;

    fn written(json: &str, lag: u64, objects: &[LineObjectRef]) -> Vec<u8> {
        let event = NewEvent::parse(json)
            .unwrap()
            .into_event(Seq(12), Timestamp::from_millis(1_763_169_600_123));
        let mut out = Vec::new();
        let session = abide_model::SessionId::new(Timestamp::from_millis(0), [0; 10]);
        let prev = Sum::genesis(session).link();
        JournalLine::write(&mut out, &event, objects, lag, Salt::derive(&[7; 32], 12), prev);
        out
    }

    const FULL: &str = r#"{"kind":"x.y","data":{"a":",\"data\":"},"key":"k\"1","occurred":"2026-01-02T03:04:05.006Z","turn":3,"task":"P1","lane":"l"}"#;

    #[test]
    fn a_line_is_json_and_comes_back() {
        let objects = [LineObjectRef {
            pointer: "/a]\"".into(),
            offset: 5,
            encoding: LeafEncoding::Text,
            size: 9,
            hash: ObjectHash::of(b"x"),
        }];
        for (lag, objects) in [(1, &objects[..0]), (5, &objects[..])] {
            let bytes = written(FULL, lag, objects);
            let bytes = bytes.strip_suffix(b"\n").unwrap();
            serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
            let line = JournalLine::read(bytes).unwrap();
            assert_eq!((line.seq, line.lag), (Seq(12), lag));
            assert_eq!(line.objects(), objects);
            let event = line.event().unwrap();
            let expected = NewEvent::parse(FULL)
                .unwrap()
                .into_event(Seq(12), Timestamp::from_millis(1_763_169_600_123));
            assert_eq!(event, expected);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = written(FULL, 2, &[]);
        let bytes = bytes.strip_suffix(b"\n").unwrap();
        for at in 0..bytes.len() {
            assert!(JournalLine::read(&bytes[..at]).is_err());
            for bit in 0..8 {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 1 << bit;
                assert!(JournalLine::read(&flipped).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn an_erased_line_keeps_its_sum() {
        let bytes = written(FULL, 1, &[]);
        let line = JournalLine::read(bytes.strip_suffix(b"\n").unwrap()).unwrap();
        let erased = line.erased();
        serde_json::from_slice::<serde_json::Value>(&erased).unwrap();
        let again = JournalLine::read(erased.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!((again.sum, again.prev, again.seq), (line.sum, line.prev, line.seq));
        assert_eq!(again.event().unwrap().data, None);
        assert_eq!(again.erased(), erased);
    }

    #[test]
    fn a_text_message_of_a_kibibyte_costs_at_most_a_sixth_more() {
        let json = format!(
            r#"{{"kind":"message.added","data":{{"role":"user","content":"{}"}}}}"#,
            "x".repeat(1024)
        );
        assert!(written(&json, 1, &[]).len() <= 1024 * 116 / 100);
    }
}
