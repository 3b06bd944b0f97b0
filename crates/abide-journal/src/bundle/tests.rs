//! Bundles whole, cut, altered, hostile.

use std::io::Write;

use abide_model::{Kind, NewEvent, ObjectHash, Payload, PayloadLeaf, Seq, SessionId, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::{JournalLine, LineError, LineObjectRef, MAX_LINE, Salt, Sum};

const OBJECT_BYTES: usize = 100;

fn session() -> SessionId {
    SessionId::new(Timestamp::from_millis(1_763_169_600_000), [7; 10])
}

/// The lines of a session and the objects that each names for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    lines: Vec<Vec<u8>>,
    objects: Vec<Vec<Vec<u8>>>,
}

struct Maker {
    session: SessionId,
    sum: Sum,
    content: Content,
}

impl Maker {
    fn new(session: SessionId) -> Self {
        let content = Content { lines: Vec::new(), objects: Vec::new() };
        let mut maker = Self { session, sum: Sum::genesis(session), content };
        maker.event("session.created", &format!(r#"{{"session":"{session}","title":"t"}}"#));
        maker
    }

    fn event(&mut self, kind: &str, data: &str) {
        let data = Payload::new(data, &EventLimits::default()).unwrap();
        let (data, leaves) = data.take_leaves(OBJECT_BYTES);
        let refs: Vec<_> = leaves.iter().map(LineObjectRef::to).collect();
        let event = NewEvent::new(Kind::new(kind).unwrap(), data);
        self.push(event, &leaves, &refs, 1);
    }

    fn push(&mut self, event: NewEvent, leaves: &[PayloadLeaf], refs: &[LineObjectRef], lag: u64) {
        let seq = Seq(self.content.lines.len() as u64 + 1);
        let event = event.into_event(seq, Timestamp::from_millis(1_763_169_600_000));
        let mut out = Vec::new();
        let salt = Salt::derive(&[9; 32], seq.0);
        self.sum = JournalLine::write(&mut out, &event, refs, lag, salt, self.sum.link());
        out.pop();
        self.content.lines.push(out);
        let known: Vec<_> = self.content.objects.concat();
        let mut new: Vec<Vec<u8>> = Vec::new();
        for leaf in leaves {
            if !known.contains(&leaf.bytes) && !new.contains(&leaf.bytes) {
                new.push(leaf.bytes.clone());
            }
        }
        self.content.objects.push(new);
    }

    fn erase_last(&mut self) {
        let line = self.content.lines.pop().unwrap();
        let mut erased = JournalLine::read(&line).unwrap().erased();
        erased.pop();
        self.content.lines.push(erased);
        // Nobody else names them.
        self.content.objects.pop();
        self.content.objects.push(Vec::new());
    }

    fn header(&self) -> BundleHeader {
        let Content { lines, objects } = &self.content;
        BundleHeader {
            session: self.session,
            created: self.session.created(),
            title: Some("t".to_owned()),
            events: lines.len() as u64,
            objects: objects.iter().flatten().count() as u64,
            bytes: lines.iter().chain(objects.iter().flatten()).map(|x| x.len() as u64).sum(),
            parent: None,
        }
    }

    fn bundle(&self) -> Vec<u8> {
        let mut writer = BundleWriter::begin(Vec::new(), self.header()).unwrap();
        for (line, objects) in self.content.lines.iter().zip(&self.content.objects) {
            for object in objects {
                assert!(!writer.has(ObjectHash::of(object)));
                writer.object(ObjectHash::of(object), object).unwrap();
            }
            writer.line(line).unwrap();
        }
        writer.finish().unwrap()
    }
}

fn small() -> Maker {
    let mut maker = Maker::new(session());
    maker.event("x.a", &format!(r#"{{"text":"{}"}}"#, "long ".repeat(30)));
    maker.event("x.b", &format!(r#"{{"same":"{}"}}"#, "long ".repeat(30)));
    maker.event("x.secret", r#"{"password":"hunter2"}"#);
    maker.erase_last();
    maker.event("x.c", r#"{"n":123456789012345678901234567890}"#);
    maker
}

fn read(bytes: &[u8]) -> Result<Content, BundleError> {
    let mut reader = BundleReader::open(bytes)?;
    let mut content = Content { lines: Vec::new(), objects: Vec::new() };
    let mut objects = Vec::new();
    while let Some(record) = reader.next()? {
        match record {
            BundleRecord::Object { hash, bytes } => {
                assert_eq!(ObjectHash::of(bytes), hash);
                objects.push(bytes.to_vec());
            }
            BundleRecord::Line(line) => {
                assert_eq!(line.seq.0, content.lines.len() as u64 + 1);
                content.lines.push(line.bytes().to_vec());
                content.objects.push(std::mem::take(&mut objects));
            }
        }
    }
    assert!(reader.next()?.is_none());
    Ok(content)
}

/// A bundle of records as they are given, with an end that fits them.
fn forged(header: &BundleHeader, records: &[u8]) -> Vec<u8> {
    let head = header.write();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head);
    hasher.update(records);
    let end = BundleEnd {
        events: header.events,
        objects: header.objects,
        bytes: header.bytes,
        hash: ObjectHash(*hasher.finalize().as_bytes()),
    };
    let plain = [records, &bundle_line(&EndWire { end })].concat();
    [head, zstd::bulk::compress(&plain, 1).unwrap()].concat()
}

fn records(content: &Content) -> Vec<u8> {
    let mut out = Vec::new();
    for (line, objects) in content.lines.iter().zip(&content.objects) {
        for object in objects {
            out.extend(object_record(ObjectHash::of(object), object));
        }
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out
}

fn object_record(hash: ObjectHash, bytes: &[u8]) -> Vec<u8> {
    let head = bundle_line(&ObjectWire { object: hash, size: bytes.len() as u64 });
    [&head, bytes, b"\n"].concat()
}

fn fault_of(bytes: &[u8]) -> BundleFault {
    match read(bytes) {
        Err(BundleError::Fault { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_line_says_what_it_is() {
    let bundle = small().bundle();
    let end = bundle.iter().position(|byte| *byte == b'\n').unwrap();
    let line: serde_json::Value = serde_json::from_slice(&bundle[..end]).unwrap();
    assert_eq!(line["abide"], "bundle");
    assert_eq!(line["version"], 1);
    assert_eq!(line["session"], session().to_string());
    assert_eq!((&line["events"], &line["objects"]), (&5.into(), &1.into()));
    let long = BundleHeader { title: Some("\u{1b}é".repeat(90_000)), ..small().header() };
    assert!(long.write().len() < 4096);
}

#[test]
fn the_same_content_gives_the_same_bytes_and_comes_back() {
    let maker = small();
    assert_eq!(maker.bundle(), maker.bundle());
    assert_eq!(read(&maker.bundle()).unwrap(), maker.content);
    // What a writer makes is what the norm says, whatever the compression.
    assert_eq!(read(&forged(&maker.header(), &records(&maker.content))).unwrap(), maker.content);
}

#[test]
fn every_cut_is_refused() {
    let bundle = small().bundle();
    for len in 0..bundle.len() {
        match (len, read(&bundle[..len])) {
            (0, Err(BundleError::Empty)) => {}
            (_, Err(BundleError::Truncated { offset })) => assert!(offset <= len as u64),
            (_, other) => panic!("{len}: {other:?}"),
        }
    }
}

#[test]
fn every_flipped_bit_is_refused_or_changes_nothing() {
    let maker = small();
    let bundle = maker.bundle();
    let (mut refused, mut same) = (0, 0);
    for at in 0..bundle.len() {
        for bit in 0..8 {
            let mut flipped = bundle.clone();
            flipped[at] ^= 1 << bit;
            match read(&flipped) {
                Err(_) => refused += 1,
                Ok(content) => {
                    assert_eq!(content, maker.content, "byte {at} bit {bit}");
                    let reader = BundleReader::open(&*flipped).unwrap();
                    assert_eq!(*reader.header(), maker.header(), "byte {at} bit {bit}");
                    same += 1;
                }
            }
        }
    }
    assert!(refused > same * 100, "{refused} {same}");
}

#[test]
fn what_stands_behind_the_end_is_refused() {
    let maker = small();
    let whole = maker.bundle();
    let frame = zstd::bulk::compress(b"more", 1).unwrap();
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
    for behind in [&b"\n"[..], &frame, &skippable, &whole] {
        let longer = [&whole, behind].concat();
        assert_eq!(fault_of(&longer), BundleFault::BehindTheEnd);
    }
    // Behind the end record, inside the frame.
    let mut head = maker.header().write();
    let mut plain = records(&maker.content);
    let hash = blake3::Hasher::new().update(&head).update(&plain).finalize();
    let end = BundleEnd {
        events: 5,
        objects: 1,
        bytes: maker.header().bytes,
        hash: ObjectHash(*hash.as_bytes()),
    };
    plain.extend(bundle_line(&EndWire { end }));
    plain.push(b'\n');
    head.extend(zstd::bulk::compress(&plain, 1).unwrap());
    assert_eq!(fault_of(&head), BundleFault::BehindTheEnd);
}

#[test]
fn lines_that_are_missing_doubled_swapped_or_anothers_are_refused() {
    let maker = small();
    let header = maker.header();
    let with = |change: &dyn Fn(&mut Content)| {
        let mut content = maker.content.clone();
        change(&mut content);
        fault_of(&forged(&header, &records(&content)))
    };
    let (expected, found) = (Seq(3), Seq(4));
    assert_eq!(
        with(&|content| {
            content.lines.remove(2);
            content.objects.remove(2);
        }),
        BundleFault::Seq { expected, found }
    );
    assert_eq!(
        with(&|content| {
            content.lines.insert(2, content.lines[1].clone());
            content.objects.insert(2, Vec::new());
        }),
        BundleFault::Seq { expected, found: Seq(2) }
    );
    assert_eq!(with(&|content| content.lines.swap(2, 3)), BundleFault::Seq { expected, found });
    assert_eq!(
        with(&|content| {
            content.lines.pop();
        }),
        BundleFault::Count { what: "events", told: 5, found: 4 }
    );
    let mut other = Maker::new(SessionId::new(Timestamp::from_millis(5), [8; 10]));
    other.event("x.a", "{}");
    other.event("x.a", "{}");
    assert_eq!(
        with(&|content| content.lines[2] = other.content.lines[2].clone()),
        BundleFault::Unchained { seq: Seq(3) }
    );
    assert_eq!(
        with(&|content| content.lines[0] = other.content.lines[0].clone()),
        BundleFault::Unchained { seq: Seq(1) }
    );
    assert_eq!(
        with(&|content| content.lines[4] = b"{\"seq\":5,\"oops\":true}".to_vec()),
        BundleFault::Line(LineError::Form)
    );
    assert_eq!(
        with(&|content| {
            let line = String::from_utf8(content.lines[4].clone()).unwrap();
            content.lines[4] = line.replace("1234567", "7654321").into_bytes();
        }),
        BundleFault::Line(LineError::Sum)
    );
}

/// Whoever writes a bundle can compute sums: what they cover is looked at too.
#[test]
fn lines_with_good_sums_that_are_no_events_are_refused() {
    let forge = |change: &dyn Fn(&mut Maker)| {
        let mut maker = Maker::new(session());
        change(&mut maker);
        fault_of(&forged(&maker.header(), &records(&maker.content)))
    };
    let stored =
        |data: &str| NewEvent::new(Kind::new("x.a").unwrap(), Payload::from_stored(data.into()));
    for data in ["{oops}", "[]", "", "{\"a\":1}{}", &"[".repeat(100_000)] {
        let fault = forge(&|maker| maker.push(stored(data), &[], &[], 1));
        assert_eq!(fault, BundleFault::Form { seq: Seq(2), reason: "its data is not JSON" });
    }
    for lag in [0, 3, u64::MAX] {
        let fault = forge(&|maker| maker.push(stored("{}"), &[], &[], lag));
        assert_eq!(fault, BundleFault::Form { seq: Seq(2), reason: "invalid lag" });
    }
    let long = NewEvent { key: Some("k".repeat(513)), ..stored("{}") };
    let fault = forge(&|maker| maker.push(long.clone(), &[], &[], 1));
    assert_eq!(fault, BundleFault::Form { seq: Seq(2), reason: "invalid name in the envelope" });
    // The first event is the one that a session begins with, and names it.
    for (kind, data) in [
        ("x.a", "{}"),
        ("session.created", "{}"),
        ("session.created", r#"{"session":"019a8519-0200-7503-9294-f2065da4d5ae"}"#),
    ] {
        let mut maker = Maker::new(session());
        maker.sum = Sum::genesis(session());
        maker.content = Content { lines: Vec::new(), objects: Vec::new() };
        maker.event(kind, data);
        let fault = fault_of(&forged(&maker.header(), &records(&maker.content)));
        assert_eq!(fault, BundleFault::NotTheBeginning { session: session() });
    }
}

#[test]
fn objects_are_there_once_whole_and_named() {
    let maker = small();
    let object = maker.content.objects[1][0].clone();
    let hash = ObjectHash::of(&object);
    let stray = b"nobody asked for this".to_vec();
    let with = |objects: u64, bytes: i64, change: &dyn Fn(&mut Vec<u8>)| {
        let mut plain = records(&maker.content);
        change(&mut plain);
        let header = maker.header();
        let bytes = header.bytes.checked_add_signed(bytes).unwrap();
        fault_of(&forged(&BundleHeader { objects, bytes, ..header }, &plain))
    };
    let replace = |plain: &mut Vec<u8>, from: &[u8], to: &[u8]| {
        let at = memchr::memmem::find(plain, from).unwrap();
        plain.splice(at..at + from.len(), to.iter().copied());
    };
    let record = object_record(hash, &object);
    let size = i64::try_from(object.len()).unwrap();
    assert_eq!(
        with(0, -size, &|plain| replace(plain, &record, b"")),
        BundleFault::MissingObject { seq: Seq(2), hash }
    );
    let twice = [&record[..], &record].concat();
    assert_eq!(
        with(2, size, &|plain| replace(plain, &record, &twice)),
        BundleFault::StrayObject { hash }
    );
    let more = [&record[..], &object_record(ObjectHash::of(&stray), &stray)].concat();
    assert_eq!(
        with(2, 21, &|plain| replace(plain, &record, &more)),
        BundleFault::StrayObject { hash: ObjectHash::of(&stray) }
    );
    assert_eq!(
        with(2, 21, &|plain| plain.extend(object_record(ObjectHash::of(&stray), &stray))),
        BundleFault::StrayObject { hash: ObjectHash::of(&stray) }
    );
    assert_eq!(
        with(1, 0, &|plain| replace(plain, &object, &b"x".repeat(object.len()))),
        BundleFault::ObjectBytes { hash }
    );
    let path = "../../../../../../../../etc/passwd".to_owned() + &"a".repeat(30);
    assert_eq!(
        with(1, 0, &|plain| replace(plain, hash.to_string().as_bytes(), path.as_bytes())),
        BundleFault::Record
    );
    assert_eq!(with(0, 0, &|_| {}), BundleFault::Count { what: "objects", told: 0, found: 1 });
    // An object that does not fit the place it is named for.
    let fits = |change: &dyn Fn(&mut LineObjectRef)| {
        let mut maker = Maker::new(session());
        let data = format!(r#"{{"text":"{}"}}"#, "long ".repeat(30));
        let (data, leaves) = Payload::new(&data, &EventLimits::default()).unwrap().take_leaves(100);
        let mut refs: Vec<_> = leaves.iter().map(LineObjectRef::to).collect();
        change(&mut refs[0]);
        maker.push(NewEvent::new(Kind::new("x.a").unwrap(), data), &leaves, &refs, 1);
        fault_of(&forged(&maker.header(), &records(&maker.content)))
    };
    let unfit = BundleFault::Form { seq: Seq(2), reason: "an object does not fit its position" };
    assert_eq!(fits(&|named| named.offset = 3), unfit);
    assert_eq!(fits(&|named| named.offset = usize::MAX), unfit);
    assert_eq!(fits(&|named| named.size = 3), unfit);
    assert_eq!(fits(&|named| named.encoding = abide_model::LeafEncoding::Json), unfit);
}

#[test]
fn lengths_that_are_announced_are_not_believed() {
    let maker = small();
    let header = maker.header();
    let huge = format!("{{\"object\":\"{}\",\"size\":{}}}\n", ObjectHash::of(b""), u64::MAX);
    assert_eq!(
        fault_of(&forged(&header, huge.as_bytes())),
        BundleFault::TooLong { what: "an object", limit: 64 << 20 }
    );
    let all = BundleHeader { bytes: u64::MAX, ..header.clone() };
    let big = format!("{{\"object\":\"{}\",\"size\":{}}}\nfew", ObjectHash::of(b""), 64 << 20);
    assert!(matches!(read(&forged(&all, big.as_bytes())), Err(BundleError::Truncated { .. })));
    // More bytes than the first line says: what unpacks to more has announced it.
    let less = BundleHeader { bytes: header.bytes - 1, ..header.clone() };
    assert_eq!(
        fault_of(&forged(&less, &records(&maker.content))),
        BundleFault::Count { what: "bytes", told: header.bytes - 1, found: header.bytes }
    );
    let fewer = BundleHeader { events: 4, ..header.clone() };
    assert_eq!(
        fault_of(&forged(&fewer, &records(&maker.content))),
        BundleFault::Count { what: "events", told: 4, found: 5 }
    );
    let many = BundleHeader { objects: u64::MAX, ..header };
    assert!(matches!(fault_of(&forged(&many, b"")), BundleFault::Count { .. }));
}

/// A few kilobytes that unpack to a line without end.
#[test]
fn what_is_small_and_unpacks_to_very_much_is_refused_unless_it_is_trusted() {
    let mut maker = Maker::new(session());
    for text in ["a", "b"] {
        maker.event("x.large", &format!(r#"{{"text":"{}"}}"#, text.repeat(34 << 20)));
    }
    let bundle = maker.bundle();
    assert!((bundle.len() as u64) < ANY_RATIO / MAX_RATIO, "{}", bundle.len());
    let refused = BundleReader::open(&bundle[..]).unwrap().read_to_end();
    assert!(matches!(refused, Err(BundleError::Ratio { ratio: MAX_RATIO })), "{refused:?}");
    let reader = BundleReader::open(&bundle[..]).unwrap().of_any_ratio();
    assert_eq!(reader.left(), maker.header().bytes);
    reader.read_to_end().unwrap();
}

#[test]
fn a_line_without_end_is_refused_in_bounded_memory() {
    let header = small().header().write();
    let mut encoder = zstd::stream::write::Encoder::new(header, 1).unwrap();
    encoder.write_all(b"{\"seq\":1,").unwrap();
    for _ in 0..(MAX_LINE >> 20) + 8 {
        encoder.write_all(&[b'x'; 1 << 20]).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    assert_eq!(fault_of(&bomb), BundleFault::TooLong { what: "a line", limit: MAX_LINE as u64 });
    // A frame that asks for more memory than the norm allows.
    let header = small().header().write();
    let mut encoder = zstd::stream::write::Encoder::new(header, 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&records(&small().content)).unwrap();
    let wide = encoder.finish().unwrap();
    assert!(matches!(read(&wide), Err(BundleError::Damaged { .. })), "{:?}", read(&wide));
}

#[test]
fn what_is_no_bundle_is_told_apart() {
    let text = |header: &str| read([header.as_bytes(), b"\nrest"].concat().as_slice());
    for other in ["", "hello", "{\"abide\":\"journal\",\"version\":1}", "PK\u{3}\u{4}"] {
        assert!(matches!(text(other), Err(BundleError::NotABundle { .. })), "{other}");
    }
    assert!(matches!(
        text(r#"{"abide":"bundle","version":2,"new":"fields"}"#),
        Err(BundleError::NewerVersion { found: 2, known: 1 })
    ));
    for bad in [r#"{"abide":"bundle"}"#, r#"{"abide":"bundle","version":1}"#, r#"{"abide":"bundle"#]
    {
        assert!(matches!(text(bad), Err(BundleError::NotABundle { .. })), "{bad}");
    }
    let endless = [MAGIC, &b" ".repeat(MAX_HEADER)].concat();
    assert!(matches!(read(&endless), Err(BundleError::NotABundle { .. })));
    // Ids that abide does not give, one that would be a path among them.
    let good = String::from_utf8(small().header().write()).unwrap();
    for id in [
        "../../../../../../../../../../../etc",
        "019a8519-0200-4503-9294-f2065da4d5ae",
        "00000000-0000-0000-0000-000000000000",
    ] {
        let header = good.trim_end().replace(&session().to_string(), id);
        let refused = text(&header);
        assert!(
            matches!(
                refused,
                Err(BundleError::NotABundle { .. }
                    | BundleError::Fault { fault: BundleFault::SessionId { .. }, .. })
            ),
            "{id}: {refused:?}"
        );
    }
}

#[test]
fn a_failing_input_is_not_a_damaged_one() {
    struct Fails(usize, Vec<u8>);
    impl io::Read for Fails {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let count = buf.len().min(7).min(self.0);
            buf[..count].copy_from_slice(&self.1[..count]);
            self.1.drain(..count);
            self.0 -= count;
            Ok(count)
        }
    }
    let bundle = small().bundle();
    for good in [0, 5, 100, bundle.len() - 3] {
        let read_all = || -> Result<(), BundleError> {
            let mut reader = BundleReader::open(Fails(good, bundle.clone()))?;
            while reader.next()?.is_some() {}
            Ok(())
        };
        assert!(matches!(read_all(), Err(BundleError::Read(_))), "{good}: {:?}", read_all());
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,40}",
        Just("=== RESULT ===\n{\"seq\":1,\"sum\":\"".to_owned()),
        Just("\u{0}\u{1b}[2J\u{202e}שלום 🦀\r\n".to_owned()),
        Just("{\"end\":{}}\n{\"object\":\"x\",\"size\":1}\n".repeat(9)),
        (100_usize..3000).prop_map(|n| "large \u{7f} ".repeat(n)),
        "[a-z\\\\\"\u{0}-\u{1f}]{0,300}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_bundle_gives_back_what_it_was_made_of(
        texts in prop::collection::vec((text(), text(), any::<bool>()), 0..12),
    ) {
        let mut maker = Maker::new(session());
        for (one, two, erase) in texts {
            let value = serde_json::json!({ "one": one, "list": [two, { "again": one }] });
            let before: Vec<_> = maker.content.objects.concat();
            maker.event("x.text", &value.to_string());
            let new = maker.content.objects.last().unwrap();
            // An object that comes with an erased line only would be for no event.
            if erase && new.iter().all(|object| !before.contains(object)) {
                maker.erase_last();
            }
        }
        let bundle = maker.bundle();
        prop_assert_eq!(&read(&bundle).unwrap(), &maker.content);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        at in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let mut plain = records(&small().content);
        let at = at.index(plain.len());
        plain.splice(at..(at + bytes.len()).min(plain.len()), bytes);
        let _ = read(&forged(&small().header(), &plain));
    }
}
