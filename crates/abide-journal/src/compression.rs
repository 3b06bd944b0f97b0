//! Compression of objects.

use std::cell::RefCell;
use std::io::{self, Read, Write};

use zstd::zstd_safe;

/// A compression algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// No compression.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    #[default]
    Zstd,
    /// LZ4: the fastest, with the lowest ratio.
    Lz4,
}

/// How objects are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// The algorithm.
    pub codec: Codec,
    /// The level: 1 to 9 for gzip, 1 to 19 for zstd. LZ4 has no levels.
    pub level: i32,
    /// Anything with fewer bytes is stored uncompressed.
    pub threshold: u64,
}

impl Default for Compression {
    fn default() -> Self {
        Self { codec: Codec::Zstd, level: 1, threshold: 128 }
    }
}

/// zstd window log for differences: both versions fit in.
const WINDOW_LOG: u32 = 22;
/// Differences are made of small objects, so a higher level costs little.
const LIKE_LEVEL: i32 = 3;

fn compression_failure(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

/// Compresses; `None` if the result would not be smaller.
pub(crate) fn compress(
    plain: &[u8],
    compression: Compression,
) -> io::Result<Option<(Codec, Vec<u8>)>> {
    if (plain.len() as u64) < compression.threshold {
        return Ok(None);
    }
    let compressed = match compression.codec {
        Codec::None => return Ok(None),
        Codec::Zstd => compress_zstd(plain, compression.level)?,
        Codec::Gzip => {
            let level = flate2::Compression::new(u32::try_from(compression.level).unwrap_or(6));
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(plain)?;
            encoder.finish()?
        }
        Codec::Lz4 => lz4_flex::block::compress(plain),
    };
    Ok((compressed.len() < plain.len()).then_some((compression.codec, compressed)))
}

thread_local! {
    /// Compressors are expensive to create, and there are many small blocks.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

fn compress_zstd(plain: &[u8], level: i32) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => {
                compressor.set_compression_level(level)?;
                compressor
            }
            none => none.insert(zstd::bulk::Compressor::new(level)?),
        };
        compressor.compress(plain)
    })
}

/// Decompresses the first `until` of `whole` bytes; `None` if they are not there.
pub(crate) fn decompress(
    codec: Codec,
    stored: Vec<u8>,
    until: usize,
    whole: usize,
) -> Option<Vec<u8>> {
    let plain = match codec {
        Codec::None => stored,
        Codec::Zstd if until >= whole => zstd::bulk::decompress(&stored, whole).ok()?,
        Codec::Zstd => {
            let mut plain = Vec::with_capacity(until);
            let decoder = zstd::stream::read::Decoder::with_buffer(stored.as_slice()).ok()?;
            decoder.take(until as u64).read_to_end(&mut plain).ok()?;
            plain
        }
        Codec::Gzip => {
            let mut plain = Vec::with_capacity(until);
            let decoder = flate2::bufread::GzDecoder::new(stored.as_slice());
            decoder.take(until as u64).read_to_end(&mut plain).ok()?;
            plain
        }
        Codec::Lz4 => lz4_flex::block::decompress(&stored, whole).ok()?,
    };
    (plain.len() >= until).then_some(plain)
}

/// Compresses bytes as their difference from similar ones.
pub(crate) fn compress_like(plain: &[u8], base: &[u8]) -> io::Result<Vec<u8>> {
    let mut context = zstd_safe::CCtx::create();
    let set = |context: &mut zstd_safe::CCtx<'_>, parameter| {
        context.set_parameter(parameter).map_err(compression_failure).map(|_| ())
    };
    set(&mut context, zstd_safe::CParameter::CompressionLevel(LIKE_LEVEL))?;
    set(&mut context, zstd_safe::CParameter::WindowLog(WINDOW_LOG))?;
    context.ref_prefix(base).map_err(compression_failure)?;
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
    context.compress2(&mut out, plain).map_err(compression_failure)?;
    Ok(out)
}

/// Restores the bytes from a difference; `None` if it is not valid.
pub(crate) fn decompress_like(stored: &[u8], base: &[u8], whole: usize) -> Option<Vec<u8>> {
    let mut context = zstd_safe::DCtx::create();
    context.ref_prefix(base).ok()?;
    let mut out = Vec::with_capacity(whole);
    context.decompress(&mut out, stored).ok()?;
    (out.len() == whole).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_gives_back_what_went_in_or_a_part_of_it() {
        let text = "some text that repeats itself, ".repeat(1000).into_bytes();
        for codec in [Codec::Gzip, Codec::Zstd, Codec::Lz4] {
            let compression = Compression { codec, ..Compression::default() };
            let (codec, stored) = compress(&text, compression).unwrap().unwrap();
            assert!(stored.len() < text.len() / 10);
            let whole = decompress(codec, stored.clone(), text.len(), text.len()).unwrap();
            assert_eq!(whole, text);
            let part = decompress(codec, stored, 100, text.len()).unwrap();
            assert_eq!(part[..100], text[..100]);
        }
        let none = Compression { codec: Codec::None, ..Compression::default() };
        assert_eq!(compress(&text, none).unwrap(), None);
        assert_eq!(compress(b"short", Compression::default()).unwrap(), None);
    }

    #[test]
    fn a_difference_is_small_and_gives_the_bytes_back() {
        let base: Vec<u8> =
            (0..200_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let mut new = base.clone();
        new[400_000] ^= 1;
        let stored = compress_like(&new, &base).unwrap();
        assert!(stored.len() < 1000, "{}", stored.len());
        assert_eq!(decompress_like(&stored, &base, new.len()).unwrap(), new);
        assert_eq!(decompress_like(&stored, b"another base", new.len()), None);
    }
}
