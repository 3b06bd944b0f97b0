//! A sealed segment: zstd frames of whole lines, and a table of the frames at the end.
//!
//! The first frame holds only the segment's header, so reading the header is cheap. The table says
//! which event each frame starts with. It is stored in a skippable frame, so `zstd -d` restores the
//! plain segment. A damaged frame loses only its own lines, from the damaged place on. If the table
//! is damaged, the frames are found by walking the file.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use abide_model::Seq;

use crate::{
    Access, JournalError, JournalLine, SegmentForm, SegmentHeader, SegmentName, Storage,
    StorageFile, filling_start, read_full, write_full,
};

/// Plain bytes per frame, rounded up to the end of a line.
const FRAME: usize = 256 << 10;
/// The most plain bytes a frame may claim to hold.
const MAX_FRAME: usize = crate::MAX_LINE + FRAME;
const LEVEL: i32 = 6;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const SKIPPABLE_MAGIC: [u8; 4] = [0x5e, 0x2a, 0x4d, 0x18];
const END_MAGIC: &[u8; 8] = b"abideEND";
const CHECK: usize = 16;
/// Two lengths of 32 bits and a seq of 64 bits.
const ROW: usize = 16;
/// The largest table, and the largest file that is walked without one.
const MAX_TABLE: u64 = 16 << 20;
const MAX_WALKED: u64 = 256 << 20;
/// The most plain bytes per packed byte: a zstd block stands for 128 KiB and takes 4 bytes.
const MAX_RATIO: u64 = 1 << 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    /// Where its plain bytes start.
    plain_at: u64,
    plain_len: u32,
    /// Where its compressed bytes start in the file.
    at: u64,
    len: u32,
    /// The first event with a line in it; 0 if there is none.
    first: u64,
}

/// A sealed segment, open for reading.
#[derive(Debug)]
pub(crate) struct SealedSegment {
    file: Arc<dyn StorageFile>,
    frames: Vec<Frame>,
    /// The table was unreadable, and the frames were found by walking.
    walked: bool,
    cache: Mutex<FrameCache>,
}

#[derive(Debug, Default)]
struct FrameCache {
    frame: Option<usize>,
    plain: Vec<u8>,
    /// Frames known to be damaged.
    damaged: Vec<usize>,
}

impl SealedSegment {
    pub(crate) fn open(file: Arc<dyn StorageFile>) -> io::Result<Self> {
        let (frames, walked) = match read_table(&*file)? {
            Some(frames) => (frames, false),
            None => (walk(&*file)?, true),
        };
        Ok(Self { file, frames, walked, cache: Mutex::default() })
    }

    pub(crate) fn len(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.plain_at + u64::from(frame.plain_len))
    }

    /// Reads from one frame only, so that reading the header does not unpack what follows.
    pub(crate) fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let ends_before = |frame: &Frame| frame.plain_at + u64::from(frame.plain_len) <= offset;
        let index = self.frames.partition_point(ends_before);
        let Some(frame) = self.frames.get(index) else { return Ok(0) };
        self.load(&mut cache, index, *frame)?;
        let skip = usize::try_from(offset.saturating_sub(frame.plain_at)).unwrap_or(usize::MAX);
        let from = cache.plain.get(skip..).unwrap_or_default();
        let count = from.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..count), from.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    /// Where the frame that would hold the line of `seq` starts.
    pub(crate) fn seek(&self, seq: Seq) -> u64 {
        let with_events = self.frames.iter().filter(|frame| frame.first > 0);
        with_events
            .take_while(|frame| frame.first <= seq.0)
            .last()
            .map_or(0, |frame| frame.plain_at)
    }

    /// Is [`Sealed::seek`] reliable? Not if the table was lost.
    pub(crate) const fn has_table(&self) -> bool {
        !self.walked
    }

    pub(crate) fn damage(&self) -> Option<String> {
        let damaged = self.cache.lock().unwrap_or_else(PoisonError::into_inner).damaged.len();
        match (self.walked, damaged) {
            (false, 0) => None,
            (true, 0) => Some("unreadable frame table".to_owned()),
            (_, count) => Some(format!("{count} unreadable compressed frames")),
        }
    }

    fn load(&self, cache: &mut FrameCache, index: usize, frame: Frame) -> io::Result<()> {
        if cache.frame == Some(index) {
            return Ok(());
        }
        cache.frame = None;
        let mut packed = vec![0; usize::try_from(frame.len).unwrap_or(0)];
        let read = read_full(&*self.file, &mut packed, frame.at)?;
        packed.truncate(read);
        let wanted = usize::try_from(frame.plain_len).unwrap_or(0);
        let whole = unpack(&packed, wanted, &mut cache.plain);
        if !whole {
            if !cache.damaged.contains(&index) {
                cache.damaged.push(index);
            }
            // Missing bytes read as zeros, which are not a line.
            cache.plain.resize(wanted, 0);
        }
        cache.frame = Some(index);
        Ok(())
    }
}

/// Unpacks a frame as far as possible. Returns whether it is whole.
fn unpack(packed: &[u8], wanted: usize, plain: &mut Vec<u8>) -> bool {
    plain.clear();
    if wanted > MAX_FRAME {
        return false;
    }
    if let Ok(unpacked) = zstd::bulk::decompress(packed, wanted) {
        *plain = unpacked;
        return plain.len() == wanted;
    }
    let Ok(decoder) = zstd::stream::read::Decoder::new(packed) else {
        return false;
    };
    let mut limited = io::Read::take(decoder, wanted as u64);
    let _ = io::Read::read_to_end(&mut limited, plain);
    false
}

fn check(table: &[u8]) -> [u8; CHECK] {
    let mut out = [0; CHECK];
    for (to, from) in out.iter_mut().zip(blake3::hash(table).as_bytes()) {
        *to = *from;
    }
    out
}

fn read_table(file: &dyn StorageFile) -> io::Result<Option<Vec<Frame>>> {
    let size = file.len()?;
    let tail_len = (CHECK + 4 + END_MAGIC.len()) as u64;
    let Some(tail_at) = size.checked_sub(tail_len) else {
        return Ok(None);
    };
    let mut tail = [0; CHECK + 4 + END_MAGIC.len()];
    read_full(file, &mut tail, tail_at)?;
    let (sum, rest) = tail.split_at(CHECK);
    let (count, magic) = rest.split_at(4);
    if magic != END_MAGIC {
        return Ok(None);
    }
    let count = u64::from(u32::from_le_bytes(count.try_into().unwrap_or([0; 4])));
    let table_len = count * ROW as u64;
    let Some(table_at) = tail_at.checked_sub(table_len).filter(|_| table_len <= MAX_TABLE) else {
        return Ok(None);
    };
    let mut table = vec![0; usize::try_from(tail_at - table_at).unwrap_or(0)];
    read_full(file, &mut table, table_at)?;
    if check(&table) != sum {
        return Ok(None);
    }
    let mut frames = Vec::new();
    let (mut plain_at, mut at) = (0, 0);
    for row in table.chunks_exact(ROW) {
        let (lengths, first) = row.split_at(8);
        let (plain, packed) = lengths.split_at(4);
        let first = u64::from_le_bytes(first.try_into().unwrap_or([0; 8]));
        let plain_len = u32::from_le_bytes(plain.try_into().unwrap_or([0; 4]));
        let len = u32::from_le_bytes(packed.try_into().unwrap_or([0; 4]));
        // A frame is never larger than a line at its limit, and packed bytes are never much larger
        // than plain ones. Nor does a frame hold more than zstd can pack into its bytes: otherwise
        // a forged table could turn a few bytes into gigabytes of zeros.
        let sane = plain_len as usize <= MAX_FRAME
            && len as usize <= MAX_FRAME + MAX_FRAME / 128
            && u64::from(plain_len) <= u64::from(len) * MAX_RATIO;
        if !sane || at + u64::from(len) > table_at {
            return Ok(None);
        }
        frames.push(Frame { plain_at, plain_len, at, len, first });
        plain_at += u64::from(plain_len);
        at += u64::from(len);
    }
    Ok(Some(frames))
}

/// Finds the frames of a file without its table, by zstd's magic number.
fn walk(file: &dyn StorageFile) -> io::Result<Vec<Frame>> {
    // The file is read whole, so only up to a size that segments never reach.
    let size = file.len()?.min(MAX_WALKED);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let read = read_full(file, &mut bytes, 0)?;
    bytes.truncate(read);
    let mut starts: Vec<usize> = memchr::memmem::find_iter(&bytes, &ZSTD_MAGIC).collect();
    starts.push(bytes.len());
    let mut frames: Vec<Frame> = Vec::new();
    let mut plain_at = 0;
    let mut end_of_last = 0;
    let mut plain = Vec::new();
    for (position, start) in starts.iter().enumerate().take(starts.len().saturating_sub(1)) {
        if *start < end_of_last {
            continue;
        }
        let rest = bytes.get(*start..).unwrap_or_default();
        let until_next = starts.get(position + 1).map_or(rest.len(), |next| next - start);
        let len =
            zstd::zstd_safe::find_frame_compressed_size(rest).unwrap_or(until_next).min(rest.len());
        let claimed = zstd::zstd_safe::get_frame_content_size(rest).ok().flatten();
        let wanted = claimed.and_then(|size| usize::try_from(size).ok()).unwrap_or(MAX_FRAME);
        // zstd itself would let a block that repeats one byte stand for sixteen times as much.
        let most = (len as u64).saturating_mul(MAX_RATIO).min(MAX_FRAME as u64);
        let most = usize::try_from(most).unwrap_or(MAX_FRAME);
        unpack(rest.get(..len).unwrap_or_default(), wanted.min(most), &mut plain);
        if plain.is_empty() {
            continue;
        }
        let plain_len = u32::try_from(plain.len()).unwrap_or(u32::MAX);
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        frames.push(Frame { plain_at, plain_len, at: *start as u64, len, first: 0 });
        plain_at += u64::from(plain_len);
        end_of_last = start + usize::try_from(len).unwrap_or(0);
    }
    Ok(frames)
}

/// Seals a plain segment: writes a sealed copy, checks and syncs it, and puts it in place.
///
/// All of the plain segment must be durable, and nobody may append to it any more. Until it is
/// removed it counts, and after a power cut it may be back.
#[derive(Debug)]
pub struct SealPlan<'a> {
    /// The journal's directory.
    pub dir: &'a Path,
    /// The segment.
    pub number: u64,
}

impl SealPlan<'_> {
    /// Seals the segment. `stop` is polled now and then; `true` gives up and leaves the plain
    /// segment. Returns whether it was sealed.
    pub fn apply(
        &self,
        storage: &dyn Storage,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool, JournalError> {
        let name = |form| SegmentName { number: self.number, form }.file_name();
        let from = self.dir.join(name(SegmentForm::Plain));
        let to = self.dir.join(name(SegmentForm::Sealed));
        let temporary = self.dir.join(format!("{}.tmp", name(SegmentForm::Sealed)));
        let plain = storage.open(&from, Access::Read).map_err(JournalError::io("open", &from))?;
        if storage.open(&temporary, Access::Read).is_ok() {
            storage.remove(&temporary).map_err(JournalError::io("remove", &temporary))?;
        }
        let packed = storage
            .open(&temporary, Access::CreateNew)
            .map_err(JournalError::io("create", &temporary))?;
        let table = match pack(&*plain, &*packed, stop) {
            Ok(Some(end)) => end,
            Ok(None) => {
                storage.remove(&temporary).map_err(JournalError::io("remove", &temporary))?;
                return Ok(false);
            }
            Err(error) => {
                let _ = storage.remove(&temporary);
                return Err(JournalError::io("seal", &from)(error));
            }
        };
        let finish = || -> io::Result<()> {
            packed.truncate(table)?;
            packed.sync()?;
            storage.rename(&temporary, &to)?;
            storage.sync_dir(self.dir)?;
            // Whoever sealed without the lock may have put another file there.
            if storage.open(&to, Access::Read)?.len()? != table {
                return Err(io::Error::other("another process is sealing it"));
            }
            storage.remove(&from)
        };
        finish().map_err(|error| {
            // It may be in place already.
            let _ = storage.remove(&temporary);
            JournalError::io("seal", &from)(error)
        })?;
        Ok(true)
    }
}

/// Packs all of `plain` but its filling. Returns the length of the output, or `None` if stopped.
fn pack(
    plain: &dyn StorageFile,
    packed: &dyn StorageFile,
    stop: &dyn Fn() -> bool,
) -> io::Result<Option<u64>> {
    let plain_end = filling_start(plain)?;
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.set_parameter(zstd::zstd_safe::CParameter::ChecksumFlag(true))?;
    let mut table = Vec::new();
    let (mut plain_at, mut at) = (0_u64, 0_u64);
    let mut buffer = Vec::new();
    let mut filled = 0;
    loop {
        if stop() {
            return Ok(None);
        }
        let left = plain_end.saturating_sub(plain_at + filled as u64);
        buffer.resize(filled + usize::try_from(left).unwrap_or(FRAME).min(FRAME), 0);
        let room = buffer.get_mut(filled..).unwrap_or_default();
        let read = read_full(plain, room, plain_at + filled as u64)?;
        filled += read;
        let whole = buffer.get(..filled).unwrap_or_default();
        let cut = match memchr::memrchr(b'\n', whole) {
            // The header gets a frame of its own.
            Some(_) if plain_at == 0 && SegmentHeader::is_header(whole) => {
                memchr::memchr(b'\n', whole).map_or(filled, |end| end + 1)
            }
            Some(end) if read > 0 => end + 1,
            // The line is longer than the frame: read on, unless the file ends here.
            _ if read > 0 && filled < MAX_FRAME - FRAME => continue,
            _ => filled,
        };
        if cut == 0 {
            break;
        }
        let frame = whole.get(..cut).unwrap_or_default();
        let compressed = compressor.compress(frame)?;
        if zstd::bulk::decompress(&compressed, frame.len())? != frame {
            return Err(io::Error::other("compressed data does not decompress to the original"));
        }
        write_full(packed, &compressed, at)?;
        let too_large = |_| io::Error::other("a frame is too large");
        table.extend_from_slice(&u32::try_from(frame.len()).map_err(too_large)?.to_le_bytes());
        table.extend_from_slice(&u32::try_from(compressed.len()).map_err(too_large)?.to_le_bytes());
        let first =
            frame.split(|byte| *byte == b'\n').find_map(|line| JournalLine::read(line).ok());
        table.extend_from_slice(&first.map_or(0, |line| line.seq.0).to_le_bytes());
        at += compressed.len() as u64;
        plain_at += cut as u64;
        buffer.copy_within(cut..filled, 0);
        filled -= cut;
    }
    let too_many = |_| io::Error::other("too many frames");
    let count = u32::try_from(table.len() / ROW).map_err(too_many)?;
    let sum = check(&table);
    let content = table.len() + CHECK + 4 + END_MAGIC.len();
    let mut end = SKIPPABLE_MAGIC.to_vec();
    end.extend_from_slice(&u32::try_from(content).map_err(too_many)?.to_le_bytes());
    end.extend_from_slice(&table);
    end.extend_from_slice(&sum);
    end.extend_from_slice(&count.to_le_bytes());
    end.extend_from_slice(END_MAGIC);
    write_full(packed, &end, at)?;
    Ok(Some(at + end.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, Segment};

    fn lines(count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|n| format!("line {n} of some text {}\n", n * 7919 % 10007).into_bytes())
            .collect()
    }

    fn sealed(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("00000001.jsonl"), bytes).unwrap();
        assert!(SealPlan { dir: dir.path(), number: 1 }.apply(&Disk, &|| false).unwrap());
        let path = dir.path().join("00000001.jsonl.zst");
        assert!(!dir.path().join("00000001.jsonl").exists());
        (dir, path)
    }

    fn read(dir: &Path) -> (Vec<u8>, Option<String>) {
        let name = SegmentName { number: 1, form: SegmentForm::Sealed };
        let segment = Segment::open(&Disk, dir, name).unwrap();
        let mut bytes = vec![0; usize::try_from(segment.len().unwrap()).unwrap()];
        let mut at = 0;
        while at < bytes.len() {
            let end = (at + 100_003).min(bytes.len());
            let got = segment.read_at(&mut bytes[at..end], at as u64).unwrap();
            assert!(got > 0);
            at += got;
        }
        (bytes, segment.seal_damage())
    }

    #[test]
    fn a_sealed_segment_reads_as_the_plain_one_and_as_zstd_does() {
        let plain = lines(60_000);
        let (dir, path) = sealed(&plain);
        assert_eq!(read(dir.path()), (plain.clone(), None));
        let file = std::fs::File::open(path).unwrap();
        assert_eq!(zstd::stream::decode_all(file).unwrap(), plain);
    }

    #[test]
    fn without_its_table_the_frames_are_found_again() {
        let plain = lines(60_000);
        let (dir, path) = sealed(&plain);
        let mut bytes = std::fs::read(&path).unwrap();
        let end = bytes.len();
        bytes[end - 40] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let (again, damage) = read(dir.path());
        assert_eq!(again, plain);
        assert!(damage.unwrap().contains("table"));
    }

    #[test]
    fn a_table_that_claims_more_than_can_be_there_is_not_believed() {
        let plain = lines(10);
        let (dir, path) = sealed(&plain);
        let mut bytes = std::fs::read(&path).unwrap();
        let tail = bytes.len() - CHECK - 4 - END_MAGIC.len();
        let count = u32::from_le_bytes(bytes[tail + CHECK..tail + CHECK + 4].try_into().unwrap());
        let rows = 20;
        let row = [(MAX_FRAME as u32).to_le_bytes(), 1_u32.to_le_bytes(), [0; 4], [0; 4]].concat();
        let mut table = bytes[tail - count as usize * ROW..tail].to_vec();
        table.extend(row.repeat(rows));
        bytes.truncate(tail - count as usize * ROW);
        bytes.resize(bytes.len() + rows, 0);
        bytes.extend_from_slice(&table);
        bytes.extend_from_slice(&check(&table));
        bytes.extend_from_slice(&(count + rows as u32).to_le_bytes());
        bytes.extend_from_slice(END_MAGIC);
        std::fs::write(&path, &bytes).unwrap();
        let (again, damage) = read(dir.path());
        assert_eq!(again, plain);
        assert!(damage.unwrap().contains("table"));
    }

    #[test]
    fn a_damaged_frame_costs_only_itself() {
        let plain = lines(60_000);
        let (dir, path) = sealed(&plain);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[1000] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        let (again, damage) = read(dir.path());
        assert_eq!(again.len(), plain.len());
        assert_eq!(again[FRAME + 100..], plain[FRAME + 100..]);
        assert_ne!(again[..FRAME], plain[..FRAME]);
        assert!(damage.is_some());
    }

    #[test]
    fn the_filling_of_a_segment_is_not_sealed() {
        for filling in [1, 63, 64, 65, 40_000, 300_000] {
            let mut plain = lines(1000);
            let end = plain.len();
            plain.resize(end + filling, b'\n');
            let (dir, _) = sealed(&plain);
            assert_eq!(read(dir.path()), (plain[..end].to_vec(), None), "{filling}");
        }
    }

    #[test]
    fn sealing_can_be_stopped_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("00000001.jsonl"), lines(10)).unwrap();
        assert!(!SealPlan { dir: dir.path(), number: 1 }.apply(&Disk, &|| true).unwrap());
        assert_eq!(Disk.list(dir.path()).unwrap(), ["00000001.jsonl"]);
    }
}
