//! What the machine can do: the same bytes, straight to a file, with nothing around them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;
use crate::text::PIECE;

/// What a raw file is extended by.
const AHEAD: usize = 256 << 10;
static LINE_FEEDS: [u8; AHEAD] = [b'\n'; AHEAD];
/// What is appended where it does not matter what.
static BLOCK: [u8; PIECE] = [b'x'; PIECE];

/// How a raw file becomes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// With every append.
    Growing,
    /// By line feeds, 256 KiB at a time, which appends then overwrite. They are written by one
    /// write, and synced with the first append behind them.
    Extended,
}

/// A file that bytes are appended to, followed by an `fdatasync`, again and again.
#[derive(Debug)]
pub(crate) struct RawFile {
    file: File,
    growth: Growth,
    at: u64,
    end: u64,
}

impl RawFile {
    pub(crate) fn create(path: &Path, growth: Growth) -> Outcome<Self> {
        let file = OpenOptions::new().create_new(true).write(true).open(path)?;
        Ok(Self { file, growth, at: 0, end: 0 })
    }

    /// Appends 1 KiB.
    pub(crate) fn append(&mut self) {
        self.append_bytes(&BLOCK);
    }

    pub(crate) fn append_bytes(&mut self, bytes: &[u8]) {
        let after = self.at + bytes.len() as u64;
        while self.growth == Growth::Extended && self.end < after {
            self.file.write_all_at(&LINE_FEEDS, self.end).expect("a raw write ahead");
            self.end += AHEAD as u64;
        }
        self.file.write_all_at(bytes, self.at).expect("a raw write");
        self.file.sync_data().expect("a raw sync");
        self.at = after;
    }
}

/// Lets each worker do its work in a thread of its own, all starting at once. Says how long it
/// took until the last was done.
pub(crate) fn together<T: Send>(
    workers: &mut [T],
    work: impl Fn(usize, &mut T) + Sync,
) -> Duration {
    let barrier = Barrier::new(workers.len() + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .enumerate()
            .map(|(index, worker)| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(index, worker);
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for thread in threads {
            thread.join().expect("a worker");
        }
        start.elapsed()
    })
}

/// Time on the clock, and on the processor by this thread.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Spent {
    /// Adds what `work` takes.
    pub(crate) fn add(&mut self, work: impl FnOnce()) {
        let (wall, cpu) = (Instant::now(), thread_cpu());
        work();
        self.wall += wall.elapsed();
        self.cpu += thread_cpu().saturating_sub(cpu);
    }

    /// How many in a second, when there were `count`.
    pub(crate) fn rate(self, count: usize) -> f64 {
        rate(count, self.wall)
    }

    /// Processor time of each, in microseconds.
    pub(crate) fn cpu_micros(self, count: usize) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / count as f64
    }
}

/// How many in a second.
pub(crate) fn rate(count: usize, wall: Duration) -> f64 {
    count as f64 / wall.as_secs_f64()
}

pub(crate) fn millis(wall: Duration) -> f64 {
    wall.as_secs_f64() * 1e3
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extended_file_holds_the_same_lines_before_its_line_feeds() {
        let dir = tempfile::tempdir().unwrap();
        let lines: Vec<String> = (0..600).map(|n| format!("{n} {}\n", "y".repeat(n))).collect();
        let [growing, extended] = [Growth::Growing, Growth::Extended].map(|growth| {
            let path = dir.path().join(format!("{growth:?}"));
            let mut file = RawFile::create(&path, growth).unwrap();
            lines.iter().for_each(|line| file.append_bytes(line.as_bytes()));
            std::fs::read(path).unwrap()
        });
        assert_eq!(growing, lines.concat().into_bytes());
        assert_eq!(extended.len() % AHEAD, 0);
        assert!(extended.len() < growing.len() + AHEAD);
        let (same, ahead) = extended.split_at(growing.len());
        assert_eq!(same, growing);
        assert!(ahead.iter().all(|&byte| byte == b'\n'));
    }
}
