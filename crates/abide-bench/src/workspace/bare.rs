//! What a first snapshot cannot do without: every file read, hashed and compressed, by two threads,
//! and nothing stored.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use zstd::bulk::Compressor;

use crate::Outcome;
use crate::workspace::walk::THREADS;

/// What is compressed together.
const BLOCK: usize = 512 << 10;
/// How many files a thread takes at once: neighbours are alike.
const RUN: usize = 64;

/// Reads these files, takes the BLAKE3 of each, and compresses them in blocks with zstd at level 1.
/// Gives the bytes that were read and those that were left.
pub(crate) fn pack(root: &Path, files: &[PathBuf]) -> Outcome<(u64, u64)> {
    let next = AtomicUsize::new(0);
    let work = || run(root, files, &next);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..THREADS).map(|_| scope.spawn(work)).collect();
        let (mut read, mut left) = work()?;
        for thread in threads {
            let other = thread.join().map_err(|_| "a packer ended early")??;
            read += other.0;
            left += other.1;
        }
        Ok((read, left))
    })
}

fn run(root: &Path, files: &[PathBuf], next: &AtomicUsize) -> Outcome<(u64, u64)> {
    let mut compressor = Compressor::new(1)?;
    let mut block = vec![0; BLOCK];
    let mut packed = Vec::with_capacity(zstd::zstd_safe::compress_bound(BLOCK));
    let (mut filled, mut read, mut left) = (0, 0, 0);
    let mut flush = |block: &[u8]| -> Outcome<u64> {
        packed.clear();
        Ok(compressor.compress_to_buffer(block, &mut packed)? as u64)
    };
    loop {
        let first = next.fetch_add(RUN, Ordering::Relaxed);
        let Some(run) =
            files.get(first..files.len().min(first + RUN)).filter(|run| !run.is_empty())
        else {
            break;
        };
        for path in run {
            let mut file = File::open(root.join(path))?;
            let mut hasher = blake3::Hasher::new();
            loop {
                let count = file.read(&mut block[filled..])?;
                hasher.update(&block[filled..filled + count]);
                filled += count;
                read += count as u64;
                if filled == BLOCK {
                    left += flush(&block)?;
                    filled = 0;
                }
                if count == 0 {
                    break;
                }
            }
            std::hint::black_box(hasher.finalize());
        }
    }
    if filled > 0 {
        left += flush(&block[..filled])?;
    }
    Ok((read, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        for number in 0..200_usize {
            let path = PathBuf::from(number.to_string());
            std::fs::write(dir.path().join(&path), vec![b'x'; number * 100]).unwrap();
            files.push(path);
        }
        let (read, left) = pack(dir.path(), &files).unwrap();
        assert_eq!(read, 100 * 199 * 200 / 2);
        assert!(left > 0 && left < read / 10, "{left}");
    }
}
