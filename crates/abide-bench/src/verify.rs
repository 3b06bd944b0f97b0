//! Checking a whole session, against hashing the same bytes and no more.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use abide::{SessionId, maintenance::Upkeep};

use crate::Outcome;
use crate::bench::Bench;
use crate::figure::{Better, Figure, Target, rounded};
use crate::fixture::Place;

pub(crate) fn measure(bench: &Bench) -> Outcome {
    let dir = bench.fresh()?;
    let place = Place::of(dir.path(), Upkeep::ByHand)?;
    let id = place.filled(bench.text(), bench.scale.of(100_000))?;
    let segments = segments(&dir.path().join(".abide/sessions"))?;
    // Hashed first, as they stand before any is sealed.
    let mut raw = Vec::new();
    let mut plain = Figure::new("verify.plain", "MB/s", Better::Higher, Target::AtLeast(500.0));
    for _ in 0..bench.rounds {
        let hashed = hash(&segments)?;
        raw.push(hashed);
        plain.push_with_raw(check(dir.path(), id)?.0, hashed);
    }
    plain.note("raw", "BLAKE3 of the same files");
    bench.report(&plain)?;
    let count = place.seal(id)?;
    let mut sealed = Figure::new("verify.sealed", "MB/s", Better::Higher, Target::None);
    let mut bytes = 0;
    for raw in raw {
        let (rate, checked) = check(dir.path(), id)?;
        bytes = checked;
        sealed.push_with_raw(rate, raw);
    }
    sealed.note("raw", "BLAKE3 of the plain files");
    sealed.note("bytes", bytes);
    sealed.note("sealed_segments", rounded(count as f64 / segments.len() as f64));
    bench.report(&sealed)
}

/// Megabytes of lines checked in a second, and how many bytes of lines there were.
fn check(dir: &Path, id: SessionId) -> Outcome<(f64, u64)> {
    let place = Place::of(dir, Upkeep::ByHand)?;
    let start = Instant::now();
    let checked = place.local.doctor().verify_journal(id)?;
    let elapsed = start.elapsed();
    if let Some(finding) = checked.findings.first() {
        return Err(format!("a sound session has a finding: {finding:?}").into());
    }
    Ok((checked.bytes as f64 / 1e6 / elapsed.as_secs_f64(), checked.bytes))
}

fn hash(files: &[PathBuf]) -> Outcome<f64> {
    let mut buffer = vec![0; 256 << 10];
    let mut hasher = blake3::Hasher::new();
    let start = Instant::now();
    for path in files {
        let mut file = std::fs::File::open(path)?;
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
        }
    }
    let elapsed = start.elapsed();
    Ok(hasher.count() as f64 / 1e6 / elapsed.as_secs_f64())
}

/// The segments of every session in this directory.
pub(crate) fn segments(sessions: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for session in std::fs::read_dir(sessions)? {
        let journal = session?.path().join("journal");
        // Beside the sessions is an empty repository that keeps `git clean` away.
        if journal.is_dir() {
            for segment in std::fs::read_dir(journal)? {
                files.push(segment?.path());
            }
        }
    }
    Ok(files)
}
