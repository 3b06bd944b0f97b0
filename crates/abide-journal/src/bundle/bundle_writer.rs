//! Writes a bundle, record by record.

use std::io::{self, Write};

use abide_model::ObjectHash;

use super::{
    BundleCheck, BundleEnd, BundleError, BundleFault, BundleHeader, EndWire, ObjectWire,
    WINDOW_LOG, bundle_line,
};
use crate::JournalLine;

const LEVEL: i32 = 3;

/// Writes a bundle. It is complete only after [`BundleWriter::finish`].
///
/// Anything a reader would refuse is refused here.
pub struct BundleWriter<W: Write> {
    out: zstd::stream::write::Encoder<'static, W>,
    hasher: blake3::Hasher,
    check: BundleCheck,
    /// Where the next record starts in the unpacked bytes.
    offset: u64,
}

impl<W: Write> std::fmt::Debug for BundleWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BundleWriter").field("check", &self.check).finish_non_exhaustive()
    }
}

impl<W: Write> BundleWriter<W> {
    /// Writes the first line.
    pub fn begin(mut out: W, header: BundleHeader) -> Result<Self, BundleError> {
        let line = header.write();
        let check =
            BundleCheck::begin(header).map_err(|fault| BundleError::Fault { offset: 0, fault })?;
        out.write_all(&line).map_err(BundleError::Write)?;
        let encoder = || -> io::Result<_> {
            let mut encoder = zstd::stream::write::Encoder::new(out, LEVEL)?;
            encoder.include_checksum(true)?;
            encoder.window_log(WINDOW_LOG)?;
            Ok(encoder)
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&line);
        let out = encoder().map_err(BundleError::Write)?;
        Ok(Self { out, hasher, check, offset: line.len() as u64 })
    }

    /// Was this object already written?
    #[must_use]
    pub fn has(&self, hash: ObjectHash) -> bool {
        self.check.has(hash)
    }

    /// Writes an object, before the first line that names it.
    pub fn object(&mut self, hash: ObjectHash, bytes: &[u8]) -> Result<(), BundleError> {
        self.check.object(hash, bytes).map_err(self.fault())?;
        let head = bundle_line(&ObjectWire { object: hash, size: bytes.len() as u64 });
        self.put(&[&head, bytes, b"\n"])
    }

    /// Writes a journal line as it is. `raw` has no line break.
    pub fn line<'a>(&mut self, raw: &'a [u8]) -> Result<JournalLine<'a>, BundleError> {
        let line = self.check.line(raw).map_err(self.fault())?;
        self.put(&[raw, b"\n"])?;
        Ok(line)
    }

    /// Writes the end record and returns the output.
    pub fn finish(mut self) -> Result<W, BundleError> {
        self.check.finish().map_err(self.fault())?;
        let end = BundleEnd {
            events: self.check.events(),
            objects: self.check.objects(),
            bytes: self.check.bytes(),
            hash: ObjectHash(*self.hasher.finalize().as_bytes()),
        };
        self.put(&[&bundle_line(&EndWire { end })])?;
        self.out.finish().map_err(BundleError::Write)
    }

    fn put(&mut self, parts: &[&[u8]]) -> Result<(), BundleError> {
        for part in parts {
            self.hasher.update(part);
            self.out.write_all(part).map_err(BundleError::Write)?;
            self.offset += part.len() as u64;
        }
        Ok(())
    }

    fn fault(&self) -> impl FnOnce(BundleFault) -> BundleError + use<W> {
        let offset = self.offset;
        move |fault| BundleError::Fault { offset, fault }
    }
}
