//! A bundle: as it is, or made of its unpacked records with counts, sums and hash put right.

use abide_journal::{BundleReader, BundleRecord, BundleWriter};
use abide_model::ObjectHash;

use crate::input::Wish;
use crate::sums::{is_right, mend_line};

#[derive(Debug, PartialEq, Eq)]
enum Record {
    Object(Vec<u8>),
    Line(Vec<u8>),
}

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let Some((wish, data)) = Wish::take(data) else { return false };
    if !wish.has(0) {
        return look(data);
    }
    pack(data, wish.has(1)).is_some_and(|packed| look(&packed))
}

/// Reads a bundle. One that is whole is written again, and reads the same.
fn look(bytes: &[u8]) -> bool {
    let Ok(mut reader) = BundleReader::open(bytes) else { return false };
    let header = reader.header().clone();
    let mut records = Vec::new();
    let mut size = 0;
    loop {
        match reader.next() {
            Err(_) => return false,
            Ok(None) => break,
            Ok(Some(BundleRecord::Object { hash, bytes })) => {
                assert_eq!(ObjectHash::of(bytes), hash, "not its own bytes");
                size += bytes.len() as u64;
                records.push(Record::Object(bytes.to_vec()));
            }
            Ok(Some(BundleRecord::Line(line))) => {
                assert!(is_right(line.bytes()), "a wrong sum was accepted");
                assert!(line.head().is_some());
                size += line.bytes().len() as u64;
                records.push(Record::Line(line.bytes().to_vec()));
            }
        }
        assert!(size <= header.bytes, "more than the first line says");
    }
    let lines = records.iter().filter(|record| matches!(record, Record::Line(_))).count();
    assert_eq!((lines as u64, size), (header.events, header.bytes));
    let mut writer = BundleWriter::begin(Vec::new(), header.clone()).expect("it was read");
    for record in &records {
        match record {
            Record::Object(bytes) => {
                writer.object(ObjectHash::of(bytes), bytes).expect("an object")
            }
            Record::Line(bytes) => writer.line(bytes).map(|_| ()).expect("a line"),
        }
    }
    let written = writer.finish().expect("a bundle");
    let mut again = BundleReader::open(written.as_slice()).expect("it was just written");
    for record in records {
        match (again.next().expect("a record"), record) {
            (Some(BundleRecord::Object { bytes, .. }), Record::Object(object)) => {
                assert_eq!(bytes, object);
            }
            (Some(BundleRecord::Line(line)), Record::Line(bytes)) => {
                assert_eq!(line.bytes(), bytes)
            }
            (other, record) => panic!("{other:?} for {record:?}"),
        }
    }
    assert!(again.next().expect("the end").is_none());
    true
}

/// Packs unpacked records behind a first line that tells their counts.
fn pack(plain: &[u8], chain: bool) -> Option<Vec<u8>> {
    let end = plain.iter().position(|byte| *byte == b'\n')?;
    let mut header: serde_json::Value = serde_json::from_slice(&plain[..end]).ok()?;
    let mut rest = plain[end + 1..].to_vec();
    let (mut events, mut objects, mut bytes) = (0_u64, 0_u64, 0_u64);
    let mut link = None;
    let mut at = 0;
    while let Some(feed) = rest[at..].iter().position(|byte| *byte == b'\n') {
        let line = &mut rest[at..at + feed];
        let mut next = at + feed + 1;
        if line.starts_with(b"{\"seq\":") {
            link = mend_line(line, link.filter(|_| chain));
            events += 1;
            bytes += line.len() as u64;
        } else if line.starts_with(b"{\"object\":") {
            let wire: serde_json::Value = serde_json::from_slice(line).ok()?;
            let size = wire.get("size")?.as_u64()?;
            objects += 1;
            bytes = bytes.checked_add(size)?;
            next = next.checked_add(usize::try_from(size).ok()?)?.checked_add(1)?;
        } else {
            break;
        }
        at = next;
        if at > rest.len() {
            return None;
        }
    }
    rest.truncate(at);
    let told = header.as_object_mut()?;
    for (name, number) in [("events", events), ("objects", objects), ("bytes", bytes)] {
        told.insert(name.to_owned(), number.into());
    }
    let mut whole = serde_json::to_vec(&header).ok()?;
    whole.push(b'\n');
    let first = whole.len();
    whole.extend_from_slice(&rest);
    let hash = blake3::hash(&whole).to_hex();
    let counts = format!("\"events\":{events},\"objects\":{objects},\"bytes\":{bytes}");
    whole.extend_from_slice(format!("{{\"end\":{{{counts},\"hash\":\"{hash}\"}}}}\n").as_bytes());
    let mut packed = whole[..first].to_vec();
    packed.extend_from_slice(&zstd::bulk::compress(&whole[first..], 1).ok()?);
    Some(packed)
}
