//! Sums as `docs/format.md` has them, computed once more and apart from the code under test.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// `,"sum":"SALT.PREV.OWN"}` has so many bytes.
pub const TRAILER: usize = 56;

/// The first fifteen bytes of a hash, as they are written.
pub fn short(hash: &blake3::Hash) -> [u8; 20] {
    URL_SAFE_NO_PAD.encode(&hash.as_bytes()[..15]).into_bytes().try_into().expect("20 characters")
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The sum that a line should have; `None` where its parts cannot be told from each other.
fn own(line: &[u8]) -> Option<[u8; 20]> {
    let rest = &line[..line.len().checked_sub(TRAILER)?];
    let trailer = &line[rest.len()..];
    let starts = [&b",\"data\":"[..], b",\"objects\":", b",\"erased\":\""];
    let body_at = starts.iter().filter_map(|start| find(rest, start)).min()? + 1;
    let (head, body) = rest.split_at(body_at);
    let (salt, prev) = (&trailer[8..20], &trailer[21..33]);
    let digest = match body.strip_prefix(b"\"erased\":\"") {
        Some(erased) => URL_SAFE_NO_PAD.decode(erased.strip_suffix(b"\"")?).ok()?,
        None => blake3::hash(&[salt, body].concat()).as_bytes().to_vec(),
    };
    Some(short(&blake3::hash(&[head, &digest, prev].concat())))
}

/// Is the sum of this line right?
pub fn is_right(line: &[u8]) -> bool {
    own(line).is_some_and(|own| line[line.len() - 22..line.len() - 2] == own)
}

/// Puts the sum of a line right and, where one is given, its link to the line before. Gives the
/// link for the next one.
pub fn mend_line(line: &mut [u8], prev: Option<[u8; 12]>) -> Option<[u8; 12]> {
    let end = line.len();
    let at = end.checked_sub(TRAILER)?;
    if !line[at..].starts_with(b",\"sum\":\"") || !line.ends_with(b"\"}") {
        return None;
    }
    if let Some(prev) = prev {
        line[at + 21..at + 33].copy_from_slice(&prev);
    }
    let own = own(line)?;
    line[end - 22..end - 2].copy_from_slice(&own);
    own[..12].try_into().ok()
}

/// Puts the sum of a segment's header right.
pub fn mend_header(line: &mut [u8]) {
    if let Some(at) = line.len().checked_sub(30) {
        let own = short(&blake3::hash(&line[..at]));
        let end = line.len();
        line[end - 22..end - 2].copy_from_slice(&own);
    }
}

/// Puts the sums of the lines of a segment right; with `chain`, their links too.
pub fn mend_segment(bytes: &mut [u8], chain: bool, prev: &mut Option<[u8; 12]>) {
    for line in bytes.split_mut(|byte| *byte == b'\n') {
        if line.starts_with(b"{\"abide\":\"journal\"") {
            mend_header(line);
        } else if let Some(link) = mend_line(line, prev.filter(|_| chain)) {
            *prev = Some(link);
        }
    }
}

/// Puts the sum of a file of a pair of slots right.
pub fn mend_slot(bytes: &mut [u8]) {
    if bytes.len() < 67 {
        return;
    }
    let length = format!("{:016x} ", bytes.len() - 67);
    bytes[..17].copy_from_slice(length.as_bytes());
    bytes[33] = b' ';
    bytes[66] = b'\n';
    let generation = std::str::from_utf8(&bytes[17..33]).ok();
    let generation = generation.and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(1);
    let written = format!("{generation:016x}");
    bytes[17..33].copy_from_slice(written.as_bytes());
    let hash = slot_hash(generation, &bytes[67..]);
    bytes[34..66].copy_from_slice(hash.as_bytes());
}

/// The sum of a slot.
pub fn slot_hash(generation: u64, content: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&generation.to_le_bytes());
    hasher.update(content);
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Puts the sums of the pages in a page file right.
pub fn mend_pages(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + 20) {
        let length = u32::from_le_bytes(head[..4].try_into().expect("4 bytes")) as usize;
        let Some(content) = bytes.get(at + 20..at + 20 + length) else { return };
        let check: [u8; 16] = blake3::hash(content).as_bytes()[..16].try_into().expect("16 bytes");
        bytes[at + 4..at + 20].copy_from_slice(&check);
        at += 20 + length;
    }
}

/// Puts the slots of a watermark right.
pub fn mend_watermark(bytes: &mut [u8]) {
    for slot in bytes.chunks_exact_mut(64) {
        let own = short(&blake3::hash(&slot[..58]));
        slot[58..63].copy_from_slice(&own[..5]);
        slot[63] = b'\n';
    }
}

/// Puts the sums of a transcript's chunks right.
pub fn mend_transcript(bytes: &mut [u8]) {
    let mut before: Vec<u8> = Vec::new();
    let (mut begin, mut start) = (0, 0);
    while let Some(feed) = bytes[start..].iter().position(|byte| *byte == b'\n') {
        let stop = start + feed;
        if bytes[start..stop].starts_with(b"@end ") && stop - start >= 27 {
            let sum = short(&blake3::hash(&[&before, &bytes[begin..stop - 20]].concat()));
            bytes[stop - 20..stop].copy_from_slice(&sum);
            before = sum.to_vec();
            begin = stop + 1;
        }
        start = stop + 1;
    }
}

/// Puts the check of the table at the end of a sealed segment right.
pub fn mend_table(bytes: &mut [u8]) {
    let Some(tail) = bytes.len().checked_sub(28) else { return };
    let count = u32::from_le_bytes(bytes[tail + 16..tail + 20].try_into().expect("4 bytes"));
    let Some(table) = tail.checked_sub(count as usize * 16) else { return };
    let check = blake3::hash(&bytes[table..tail]);
    bytes[tail..tail + 16].copy_from_slice(&check.as_bytes()[..16]);
}

/// A block of a pack.
#[derive(Debug, Clone, Copy)]
pub struct BlockAt {
    /// Where it begins.
    pub at: usize,
    /// How it is compressed.
    pub code: u8,
    /// How many rows its table has.
    pub rows: usize,
    /// The bytes of each row.
    pub row_size: usize,
    /// The bytes behind the table.
    pub stored: usize,
}

/// Whatever in a pack looks like a block and fits in.
pub fn blocks(pack: &[u8]) -> Vec<BlockAt> {
    let mut found = Vec::new();
    for at in 0..pack.len().saturating_sub(44) {
        if !pack[at..].starts_with(b"aBLK") {
            continue;
        }
        let number = |from: usize, len: usize| {
            let mut bytes = [0; 8];
            bytes[..len].copy_from_slice(&pack[at + from..at + from + len]);
            u64::from_le_bytes(bytes)
        };
        let code = pack[at + 4];
        let row_size = if code == 4 { 80 } else { 40 };
        let (rows, stored) = (number(8, 4), number(20, 8));
        let size = rows.saturating_mul(row_size).saturating_add(stored).saturating_add(44);
        if (at as u64).saturating_add(size) <= pack.len() as u64 {
            let (rows, stored, row_size) = (rows as usize, stored as usize, row_size as usize);
            found.push(BlockAt { at, code, rows, row_size, stored });
        }
    }
    found
}

/// Puts the checks of a pack's blocks right, and the names of the objects that are not compressed.
pub fn mend_pack(pack: &mut [u8]) {
    for block in blocks(pack) {
        let table = block.at + 44;
        let stored = table + block.rows * block.row_size;
        if block.code == 0 {
            let mut start = stored;
            for row in 0..block.rows {
                let row = table + row * block.row_size;
                let length = u64::from_le_bytes(pack[row + 32..row + 40].try_into().expect("8"));
                let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
                let Some(end) = end.filter(|end| *end <= stored + block.stored) else { break };
                let hash = *blake3::hash(&pack[start..end]).as_bytes();
                pack[row..row + 32].copy_from_slice(&hash);
                start = end;
            }
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&pack[block.at..block.at + 28]);
        hasher.update(&pack[table..stored + block.stored]);
        let check = hasher.finalize();
        pack[block.at + 28..block.at + 44].copy_from_slice(&check.as_bytes()[..16]);
    }
}

/// Puts the head of a pack's index right.
pub fn mend_index(index: &mut [u8]) {
    if index.len() >= 48 {
        let check = blake3::hash(&index[..32]);
        index[32..48].copy_from_slice(&check.as_bytes()[..16]);
    }
}
