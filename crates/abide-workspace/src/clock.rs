//! The file system's own clock: the one that it stamps files with. It may tick coarsely, and on a
//! network file system it may be another machine's.

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};

use crate::stat::Facts;

const SECOND: i64 = 1_000_000_000;

/// Now, in nanoseconds: as the file system of `dev` stamps a file beside `cache`, when that lies
/// on it, else as the machine says.
pub(crate) fn now(cache: &Path, dev: u64) -> i64 {
    stamped(cache, dev).unwrap_or_else(|| {
        let now = clock_gettime(ClockId::Realtime);
        now.tv_sec.saturating_mul(SECOND).saturating_add(now.tv_nsec)
    })
}

fn stamped(cache: &Path, dev: u64) -> Option<i64> {
    let probe = cache.with_extension(format!("probe-{}", std::process::id()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(&probe, flags, Mode::RUSR | Mode::WUSR).ok()?;
    let stamp = rustix::io::write(&file, b".").and_then(|_| rustix::fs::fstat(&file));
    let _ = rustix::fs::unlink(&probe);
    let stamp = stamp.ok()?;
    (stamp.st_dev as u64 == dev).then(|| Facts::of(&stamp).mtime)
}
