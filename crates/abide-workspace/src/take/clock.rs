//! The clock that the file system uses for file times. It may be coarse, and on a network file
//! system it may be another machine's.

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};

use crate::take::stat::{FileStamp, stat_device};
use crate::take::stat_cache::beside_stat_cache;

const SECOND: i64 = 1_000_000_000;

/// The current time in nanoseconds: as the file system `dev` stamps a file next to `cache`, if the
/// cache is on that file system, otherwise from the system clock.
pub(crate) fn file_system_clock(cache: &Path, dev: u64) -> i64 {
    stamped_by_clock(cache, dev).unwrap_or_else(|| {
        let now = clock_gettime(ClockId::Realtime);
        now.tv_sec.saturating_mul(SECOND).saturating_add(now.tv_nsec)
    })
}

fn stamped_by_clock(cache: &Path, dev: u64) -> Option<i64> {
    let probe = beside_stat_cache(cache, ".clock");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(&probe, flags, Mode::RUSR | Mode::WUSR).ok()?;
    let stamp = rustix::io::write(&file, b".").and_then(|_| rustix::fs::fstat(&file));
    let _ = rustix::fs::unlink(&probe);
    let stamp = stamp.ok()?;
    (stat_device(&stamp) == dev).then(|| FileStamp::of(&stamp).mtime)
}
